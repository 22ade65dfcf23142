"""Array operations for NumPy, torch and CuPy, so that all other packages are written only once.

NumPy arrays go directly to BLAS and LAPACK (in place, SYRK, TRSM, POTRF); other namespaces use their own operators.
"""

from .linalg import LOSS as LOSS
from .linalg import accurate as accurate
from .linalg import add_gram as add_gram
from .linalg import add_product as add_product
from .linalg import cholesky as cholesky
from .linalg import condition as condition
from .linalg import eigh as eigh
from .linalg import eigh_matrices as eigh_matrices
from .linalg import gram as gram
from .linalg import gram_of_lower as gram_of_lower
from .linalg import invert_lower as invert_lower
from .linalg import is_small as is_small
from .linalg import matmul as matmul
from .linalg import mirrored as mirrored
from .linalg import pivoted_cholesky as pivoted_cholesky
from .linalg import qr as qr
from .linalg import row_squares as row_squares
from .linalg import solve_lower as solve_lower
from .linalg import svd as svd
from .linalg import symmetric_product as symmetric_product
from .linalg import unwhiten_rows as unwhiten_rows
from .linalg import whiten_rows as whiten_rows
from .namespaces import EPS as EPS
from .namespaces import Array as Array
from .namespaces import ArrayLike as ArrayLike
from .namespaces import NumericalError as NumericalError
from .namespaces import add_at as add_at
from .namespaces import add_diagonal as add_diagonal
from .namespaces import add_outer as add_outer
from .namespaces import device as device
from .namespaces import empty as empty
from .namespaces import free_memory as free_memory
from .namespaces import identity as identity
from .namespaces import in_tiles as in_tiles
from .namespaces import is_cupy as is_cupy
from .namespaces import is_dask as is_dask
from .namespaces import is_foreign as is_foreign
from .namespaces import is_numpy as is_numpy
from .namespaces import is_torch as is_torch
from .namespaces import like as like
from .namespaces import memory as memory
from .namespaces import namespace as namespace
from .namespaces import on_accelerator as on_accelerator
from .namespaces import put as put
from .namespaces import quantile as quantile
from .namespaces import row_blocks as row_blocks
from .namespaces import subtract_pair as subtract_pair
from .namespaces import take as take
from .namespaces import to_numpy as to_numpy
from .namespaces import user_level as user_level
from .namespaces import zeros as zeros
from .threads import cached_property as cached_property
from .threads import single_threaded_blas as single_threaded_blas
