"""Benchmarks: each prints a ratio to a peer measured in the same run."""
