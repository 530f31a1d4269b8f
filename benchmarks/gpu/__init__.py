"""Benchmarks on a GPU: asyncgrad beside PyTorch and CuPy by hand, in one process, in alternation."""
