"""Programs: the calls of NumPy that a function makes, forward and backward, recorded once and run again."""
