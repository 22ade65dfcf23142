"""Array operations for NumPy, torch and CuPy, so that all other packages are written only once.

NumPy arrays go directly to BLAS and LAPACK (in place, SYRK, TRSM, POTRF); other namespaces use their own operators.
"""

# ruff: noqa: F403 (every name without an underscore is public)
from .linalg import *
from .namespaces import *
from .threads import cached_property as cached_property
from .threads import single_threaded_blas as single_threaded_blas
