"""Threads: the suite runs in several processes, so that each keeps to one BLAS thread."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
