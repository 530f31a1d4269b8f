"""How a call becomes a node: a primitive, the plan of its derivative, the wrapper that records it, and its node."""
