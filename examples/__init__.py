"""Examples: one idea a file, each run by a test."""
