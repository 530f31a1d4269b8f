"""`python -m benchmarks.gpu`: measure training steps, the lateness of the event loop, and overlap on a GPU."""

from __future__ import annotations

import sys

from .command import main

if __name__ == "__main__":
    sys.exit(main())
