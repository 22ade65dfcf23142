"""Products, triangular solves and factorisations of row-major matrices, shared among threads.

SciPy's BLAS wrappers hold the GIL, so that two threads cannot use them at the same time, and NumPy, whose products do
not hold it, has no triangular ones: from these, triangular solves take 1.2 and L'L 1.3 times the CPU seconds. So BLAS
is called without the GIL, by the addresses that SciPy publishes for Cython, in place on parts of matrices, whose rows
need not be adjacent. Factorisations recurse into halves, and threads share the blocks between the halves. With one
thread, and for small matrices, LAPACK gets the whole matrix (triangles to invert: only small ones).

To Fortran a lower triangle L in row-major order is the upper triangle L', and every product is transposed.
"""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import cython_blas, lapack

from .threads import parallel_for, workers

BLOCK = 512  # largest tile of a Gram matrix: products of that size run at full speed
LEAF = 384  # order up to which LAPACK factorises in one piece
TRIANGLE = 128  # order up to which LAPACK inverts a triangle; above, even one thread is twice as fast with halves
SMALL_PIECE = 2**21  # smallest piece, in multiplications: about a tenth of a millisecond
MOST_SUMS = 16  # largest number of partial Gram matrices held at a time


def _routine(name: str) -> Callable[..., None]:
    """A Fortran routine by its address; ctypes releases the GIL while it runs."""
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    routines: Any = cython_blas.__pyx_capi__
    capsule = routines[name]
    pointer = api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))
    function = ctypes.CFUNCTYPE(None)(pointer)

    def call(*arguments: Any) -> None:
        function(*(_pointer(argument) for argument in arguments))

    return call


def _pointer(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        return ctypes.c_void_p(argument.__array_interface__["data"][0])
    if isinstance(argument, bytes):
        return argument
    return ctypes.byref(ctypes.c_double(argument) if isinstance(argument, float) else ctypes.c_int(argument))


_dgemm, _dsyrk, _dtrsm, _dtrmm = (_routine(name) for name in ("dgemm", "dsyrk", "dtrsm", "dtrmm"))
_dgemv, _dsymv = (_routine(name) for name in ("dgemv", "dsymv"))


# Parts of matrices ----------------------------------------------------------------------------------------------------
def _leading(A: np.ndarray) -> int:
    """The leading dimension: the distance of two rows in memory, in elements; those of one row are adjacent."""
    return max(A.strides[0] // 8 if A.shape[0] > 1 else A.shape[1], A.shape[1], 1)


def _gemm(
    out: np.ndarray,
    A: np.ndarray,
    B: np.ndarray,
    factor: float = 1.0,
    keep: float = 0.0,
    *,
    turn_A: bool = False,
    turn_B: bool = False,
) -> None:
    """out = keep * out + factor * A B, with A' for A (`turn_A`) and B' for B (`turn_B`)."""
    rows, columns = out.shape
    if not out.size:
        return
    depth = A.shape[0] if turn_A else A.shape[1]
    operations = (b"T" if turn_B else b"N", b"T" if turn_A else b"N")
    sizes = (columns, rows, depth)
    _dgemm(*operations, *sizes, factor, B, _leading(B), A, _leading(A), keep, out, _leading(out))


def _syrk(out: np.ndarray, A: np.ndarray, factor: float, keep: float, *, turn: bool = False) -> None:
    """The lower triangle of out = keep * out + factor * A'A, or with `turn` of A A'."""
    sizes = (out.shape[0], A.shape[1] if turn else A.shape[0])
    _dsyrk(b"U", b"T" if turn else b"N", *sizes, factor, A, _leading(A), keep, out, _leading(out))


def _triangle(routine: Callable[..., None], L: np.ndarray, Z: np.ndarray, *, turn: bool, left: bool = False) -> None:
    """Overwrite Z with Z L^-T (`turn`) or Z L^-1 by _dtrsm, and with Z L' or Z L by _dtrmm.

    With `left`: L^-1 Z (`turn`) or L^-T Z, and L Z or L'Z.
    """
    if Z.size:
        side, operation = (b"R", b"N" if turn else b"T") if left else (b"L", b"T" if turn else b"N")
        rows, columns = Z.shape
        routine(side, b"U", operation, b"N", columns, rows, 1.0, L, _leading(L), Z, _leading(Z))


def _usable(A: np.ndarray) -> bool:
    """Whether A is a row-major float64 matrix: the elements of a row are adjacent, and rows do not overlap."""
    if A.dtype != np.float64 or A.ndim != 2 or not A.flags.aligned:
        return False
    step, width = A.strides[0], 8 * A.shape[1]
    return (A.shape[1] <= 1 or A.strides[1] == 8) and (A.shape[0] <= 1 or (step >= max(width, 8) and step % 8 == 0))


def _in_place(A: np.ndarray, out: np.ndarray) -> np.ndarray:
    """A itself, after a check that `out` can be overwritten in place."""
    if not _usable(out) or not out.flags.writeable:
        raise TypeError(f"BLAS needs a writeable, row-major float64 matrix to work in place, got {out.dtype}.")
    return A


def _by_rows(A: np.ndarray) -> np.ndarray:
    """A itself, or a row-major copy if A is not usable."""
    return A if _usable(A) and A.flags.writeable else np.array(A, dtype=np.float64, order="C")


def _stored(A: np.ndarray) -> tuple[np.ndarray, bool]:
    """A and False if A is row-major in memory, or A' and True if A' is."""
    if _usable(A):
        return A, False
    return (A.T, True) if _usable(A.T) else (_by_rows(A), False)


def _pieces(size: int, work: float, most: int = 1024) -> list[slice]:
    """Rows in pieces, for `work` multiplications in all: one per thread, as BLAS is faster on larger pieces."""
    count = max(1, min(workers(), int(work / SMALL_PIECE), size // 8, most))
    return _parts(size, count)


def _parts(size: int, count: int) -> list[slice]:
    edges = [size * number // count for number in range(count + 1)]
    return [slice(start, stop) for start, stop in itertools.pairwise(edges)]


# Products and triangular systems --------------------------------------------------------------------------------------
def add_product(out: np.ndarray, A: np.ndarray, B: np.ndarray, keep: float) -> None:
    """out = keep * out + A B; A or B may be stored by columns."""
    (A, turn_A), (B, turn_B) = _stored(_in_place(A, out)), _stored(B)

    def rows_of(part: slice) -> None:
        _gemm(out[part], A[:, part] if turn_A else A[part], B, 1.0, keep, turn_A=turn_A, turn_B=turn_B)

    def columns_of(part: slice) -> None:
        _gemm(out[:, part], A, B[part] if turn_B else B[:, part], 1.0, keep, turn_A=turn_A, turn_B=turn_B)

    work = out.size * (A.shape[0] if turn_A else A.shape[1])
    if out.shape[0] >= out.shape[1]:
        parallel_for(rows_of, _pieces(out.shape[0], work))
    else:
        parallel_for(columns_of, _pieces(out.shape[1], work))


def add_gram(G: np.ndarray, A: np.ndarray, keep: float, factor: float = 1.0) -> None:
    """The lower triangle of G = keep * G + factor * A'A."""
    depth, n = A.shape
    A, turn = _stored(_in_place(A, G))

    def tile(place: tuple[slice, slice]) -> None:
        i, j = place
        left, right = (A[i], A[j]) if turn else (A[:, i], A[:, j])
        if i == j:
            _syrk(G[i, i], left, factor, keep, turn=turn)
        else:
            _gemm(G[i, j], left, right, factor, keep, turn_A=not turn, turn_B=turn)

    work = 0.5 * depth * n * n
    if work < 2 * SMALL_PIECE or workers() == 1:
        tile((slice(0, n), slice(0, n)))
        return
    pieces = _pieces(depth, work, min(MOST_SUMS, depth // (2 * n)))
    if 2 * n <= 3 * BLOCK and len(pieces) > 1:
        _add_sums(G, A, keep, factor, turn, pieces)
    else:  # as many bands as threads, or a multiple, distributes the pieces of the triangle evenly
        bands = _parts(n, min(workers() * -(-n // (workers() * BLOCK)), -(-n // 64)))
        parallel_for(tile, [(i, j) for i in bands for j in bands if j.start <= i.start])


def _add_sums(G: np.ndarray, A: np.ndarray, keep: float, factor: float, turn: bool, pieces: list[slice]) -> None:
    """`add_gram` of many rows: the sum of the Gram matrices of pieces of them."""
    sums = np.zeros((len(pieces), *G.shape))

    def piece(number: int) -> None:
        rows = pieces[number]
        _syrk(sums[number], A[:, rows] if turn else A[rows], factor, 0.0, turn=turn)

    parallel_for(piece, range(len(pieces)))
    G *= keep
    for part in sums:
        G += part


def solve_rows(L: np.ndarray, Z: np.ndarray, *, turn: bool) -> None:
    """Overwrite Z with Z L^-T (`turn`) or Z L^-1."""
    _rows_by_triangle(_dtrsm, L, Z, turn=turn)


def multiply_rows(L: np.ndarray, Z: np.ndarray, *, turn: bool) -> None:
    """Overwrite Z with Z L' (`turn`) or Z L for a lower triangle L."""
    _rows_by_triangle(_dtrmm, L, Z, turn=turn)


def _rows_by_triangle(routine: Callable[..., None], L: np.ndarray, Z: np.ndarray, *, turn: bool) -> None:
    L = _by_rows(_in_place(L, Z))
    parts = _pieces(Z.shape[0], 0.5 * Z.size * Z.shape[1])
    parallel_for(lambda part: _triangle(routine, L, Z[part], turn=turn), parts)


def solve_columns(L: np.ndarray, B: np.ndarray) -> None:
    """Overwrite B with L^-1 B."""
    _columns_by_triangle(_dtrsm, L, B, turn=True)


def multiply_columns(L: np.ndarray, B: np.ndarray) -> None:
    """Overwrite B with L'B for a lower triangle L."""
    _columns_by_triangle(_dtrmm, L, B, turn=False)


def _columns_by_triangle(routine: Callable[..., None], L: np.ndarray, B: np.ndarray, *, turn: bool) -> None:
    L = _by_rows(_in_place(L, B))
    parts = _pieces(B.shape[1], 0.5 * B.size * B.shape[0])
    parallel_for(lambda part: _triangle(routine, L, B[:, part], turn=turn, left=True), parts)


def symmetric_product(K: np.ndarray, x: np.ndarray) -> np.ndarray:
    """K x for a symmetric K, where reading K is all the work.

    DSYMV reads half of a leading block. The rows below it are read once for their own products, and once more, without
    their last columns, for their contribution to the rows above. Each of the three parts takes about a third of the
    time of reading all of K.
    """
    n, K, x = len(K), _stored(K)[0], np.ascontiguousarray(x, dtype=np.float64)
    head = round(n * math.sqrt(2 / 3))
    step, tail = _leading(K), n - head
    out, above = np.empty(n), np.zeros(head)
    parts: list[Callable[[], None]] = [
        lambda: _dsymv(b"U", head, 1.0, K, step, x, 1, 0.0, out, 1),
        lambda: _dgemv(b"T", n, tail, 1.0, K[head:], step, x, 1, 0.0, out[head:], 1),
        lambda: _dgemv(b"N", head, tail, 1.0, K[head:], step, x[head:], 1, 0.0, above, 1),
    ]
    parallel_for(lambda part: part(), parts)
    out[:head] += above
    return out


# Factorisations -------------------------------------------------------------------------------------------------------
def cholesky(A: np.ndarray) -> np.ndarray | None:
    """The lower factor of A, in place, with zeros above; None if A is not positive definite to working precision."""
    A = _by_rows(A)
    if _whole(A):
        factor, info = lapack.dpotrf(A.T, lower=0, clean=1, overwrite_a=1)
        _keep(A, factor.T)
        return A if info == 0 and np.isfinite(A[-1, -1]) else None
    head, tail = _halves(A)
    if cholesky(A[head, head]) is None:
        return None
    solve_rows(A[head, head], A[tail, head], turn=True)
    add_gram(A[tail, tail], A[tail, head].T, 1.0, -1.0)
    A[head, tail] = 0.0
    return None if cholesky(A[tail, tail]) is None else A


def invert_lower(L: np.ndarray) -> np.ndarray:
    """The inverse of a lower triangle, in place: below the diagonal -L_22^-1 L_21 L_11^-1."""
    L = _by_rows(L)
    if len(L) <= TRIANGLE:
        _keep(L, lapack.dtrtri(L.T, lower=0, overwrite_c=1)[0].T)
        return L
    head, tail = _halves(L)
    below = L[tail, head]
    invert_lower(L[head, head])
    multiply_rows(L[head, head], below, turn=False)
    solve_columns(L[tail, tail], below)
    np.negative(below, out=below)
    invert_lower(L[tail, tail])
    return L


def gram_of_lower(L: np.ndarray) -> np.ndarray:
    """The lower triangle of L'L for a lower triangle L, in place."""
    L = _by_rows(L)
    if _whole(L):
        _keep(L, lapack.dlauum(L.T, lower=0, overwrite_c=1)[0].T)
        return L
    head, tail = _halves(L)
    gram_of_lower(L[head, head])
    add_gram(L[head, head], L[tail, head], 1.0)
    multiply_columns(L[tail, tail], L[tail, head])
    gram_of_lower(L[tail, tail])
    return L


def _keep(A: np.ndarray, result: np.ndarray) -> None:
    """Copy a result of LAPACK to A, unless it is already there: SciPy works in place on contiguous matrices only."""
    if not np.shares_memory(A, result):
        A[...] = result


def _whole(A: np.ndarray) -> bool:
    """Whether LAPACK gets the whole square matrix, in one thread."""
    return len(A) <= LEAF or workers() == 1


def _halves(A: np.ndarray) -> tuple[slice, slice]:
    middle = len(A) // 128 * 64 or len(A) // 2  # a multiple of the block size of the routines
    return slice(0, middle), slice(middle, len(A))
