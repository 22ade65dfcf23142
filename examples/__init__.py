"""The pictures of the gallery: `python -m examples` draws them and writes docs/gallery.md."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # small problems: more threads wait for each other
