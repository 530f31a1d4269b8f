"""What the engine is: from the settings of a context up to Tensor and backward, in the order in which data flows."""
