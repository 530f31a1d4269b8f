"""Benchmarks: each prints ratios to peers that are measured in the same run."""
