"""`python -m benchmarks`: measure asyncgrad and its peers, and print one table of ratios."""

from __future__ import annotations

import os
import sys

# One BLAS thread for every peer. The libraries read these variables when the imports below load them.
os.environ.update(
    dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1")
)

from .command import main

if __name__ == "__main__":
    sys.exit(main())
