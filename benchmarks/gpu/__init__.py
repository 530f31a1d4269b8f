"""Benchmarks on a GPU: asyncgrad, PyTorch and handwritten CuPy take turns in one process."""
