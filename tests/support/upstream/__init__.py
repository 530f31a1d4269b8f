"""The tests that NumPy and SciPy bring along, run with asyncgrad beside each function that they call."""
