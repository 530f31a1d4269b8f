"""`python -m benchmarks jit`: whole steps of compiled functions beside those of other compilers."""
