"""The graph: nodes, edges, leaves, saved tensors, hooks, and the journal of `.grad`. It runs nothing."""
