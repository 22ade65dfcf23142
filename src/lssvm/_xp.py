"""Array namespaces, the few linear-algebra routines they lack, and row blocks.

Everything above this module is written once for NumPy, torch and CuPy. NumPy keeps its BLAS/LAPACK routes (in place,
SYRK, TRSM, POTRF); other namespaces use their own operators. All matrices are row-major; a lower factor L is stored as
such, so that ``L.T`` is what Fortran sees, without a copy.
"""

from __future__ import annotations

import itertools
import math
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
import scipy.linalg
from scipy.linalg import blas, lapack
from sklearn import get_config  # type: ignore[attr-defined]
from sklearn.externals import array_api_compat

from . import _blas
from ._threads import own_threads as own_threads
from ._threads import share

Array = Any
EPS = float(np.finfo(np.float64).eps)
SQUARE = 256  # rows and columns of a tile of a symmetric matrix
TALL, WIDE = 2, 64  # rows a column, and columns, from which triangular systems may be solved by the inverse,
LOSS = 1e-9  # where it costs no more than this, relatively, by a bound that is five to fifty times too large
DIVIDED = 4096  # order up to which the memory of an eigendecomposition does not matter
SMALL = 512  # order up to which a triangular matrix is inverted by substitution on an accelerator


class NumericalError(ValueError):
    """Numbers that overflow or leave nothing to divide by, here and not for other widths or another C."""


def user_level() -> int:
    """The stacklevel with which a warning of the caller names the line that called into lssvm, however deep it is."""
    level, frame = 1, sys._getframe(1)
    inside = (__name__.partition(".")[0], "contextlib", "numpy")  # a decorated method is called from these
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in inside:
        level, frame = level + 1, frame.f_back
    return level


def namespace(*arrays: Array) -> Any:
    """The array namespace of the arguments; plain NumPy for NumPy arrays."""
    if all(isinstance(a, np.ndarray) for a in arrays):
        return np
    return array_api_compat.array_namespace(*arrays)


def is_numpy(*arrays: Array) -> bool:
    """True when every argument is a NumPy array, so that BLAS and LAPACK apply."""
    return all(isinstance(a, np.ndarray) for a in arrays)


def is_cupy(array: Array) -> bool:
    """True for a CuPy array."""
    return _package(array) == "cupy"


def is_torch(array: Array) -> bool:
    """True for a torch tensor."""
    return bool(array_api_compat.is_torch_array(array))


def is_foreign(array: Array) -> bool:
    """True for the arrays other than NumPy's that are computed where they live."""
    return is_torch(array) or _package(array) in ("cupy", "array_api_strict")


def is_dask(collection: Any) -> bool:
    """True for a Dask array, dataframe or series."""
    return _package(collection) in ("dask", "dask_expr") and hasattr(collection, "__dask_graph__")


def on_accelerator(array: Array) -> bool:
    """True for an array in the memory of a GPU or the like."""
    return is_cupy(array) or (is_torch(array) and array.device.type != "cpu")


def _package(thing: Any) -> str:
    return type(thing).__module__.partition(".")[0]


def to_numpy(array: Array) -> np.ndarray:
    """A NumPy array with the same values, wherever the array lives."""
    if isinstance(array, np.ndarray):
        return array.astype(object) if array.dtype.kind == "T" else array  # text of StringDType, which few take
    if is_cupy(array):
        return np.asarray(array.get())
    if is_torch(array):
        return np.asarray(array.detach().cpu())
    if _package(array) == "array_api_strict":
        return np.array(np.from_dlpack(array, device="cpu"))
    return np.asarray(array)


def device(array: Array) -> Any:
    """The device that an array lives on."""
    return array_api_compat.device(array)


def like(values: Array, reference: Array) -> Array:
    """Return `values` as a float64 array of the kind and on the device of `reference`."""
    if isinstance(reference, np.ndarray):
        return np.asarray(to_numpy(values), dtype=np.float64)
    xp = namespace(reference)
    if is_foreign(values) and namespace(values) is not xp:
        values = to_numpy(values)
    return xp.asarray(values, dtype=xp.float64, device=device(reference))


def zeros(shape: tuple[int, ...], reference: Array) -> Array:
    """Zeros in float64 of the kind and on the device of `reference`."""
    xp = namespace(reference)
    if xp is np:
        return np.zeros(shape)
    return xp.zeros(shape, dtype=xp.float64, device=device(reference))


def empty(shape: tuple[int, ...], reference: Array) -> Array:
    """Uninitialised float64 memory of the kind and on the device of `reference`."""
    xp = namespace(reference)
    if xp is np:
        return np.empty(shape)
    return xp.empty(shape, dtype=xp.float64, device=device(reference))


def identity(n: int, reference: Array) -> Array:
    """The n x n identity in float64, of the kind and on the device of `reference`."""
    xp = namespace(reference)
    if xp is np:
        return np.eye(n)
    return xp.eye(n, dtype=xp.float64, device=device(reference))


def add_diagonal(A: Array, value: float) -> Array:
    """Add `value` to the diagonal of A, in place where the namespace allows it."""
    if is_numpy(A):
        A.flat[:: A.shape[0] + 1] += value
        return A
    if is_torch(A):
        A.diagonal().add_(value)
        return A
    return A + value * identity(A.shape[0], A)


def add_outer(B: Array, u: Array, v: Array) -> Array:
    """B + u v', in place."""
    if is_torch(B):
        return B.addr_(u, v)
    if is_numpy(B) and B.size and B.flags.c_contiguous:
        return blas.dger(1.0, v, u, a=B.T, overwrite_a=1).T
    if is_numpy(B) and B.size and B.flags.f_contiguous:
        return blas.dger(1.0, u, v, a=B, overwrite_a=1)
    for rows in row_blocks(B.shape[0], 8 * B.shape[1], B):
        B[rows, :] += u[rows, None] * v[None, :]
    return B


def subtract_pair(K: Array, u: Array, v: Array, *, lower: bool = False) -> None:
    """Overwrite K with K - u v' - v u'; of NumPy's the lower triangle alone where that is enough."""
    if is_torch(K):
        stack = namespace(K).stack
        K.addmm_(stack([u, v], 1), stack([v, u], 0), alpha=-1.0)
    elif is_numpy(K) and lower and K.flags.c_contiguous:
        blas.dsyr2(-1.0, u, v, a=K.T, overwrite_a=1)
    else:
        add_outer(add_outer(K, -u, v), -v, u)


def take(A: Array, rows: Array) -> Array:
    """Rows of A by number."""
    if is_numpy(A):
        return A[rows]
    xp = namespace(A)
    return xp.take(A, xp.asarray(rows, device=device(A)), axis=0)


def put(A: Array, index: Any, values: Array) -> Array:
    """A with ``A[index] = values``; the array API standard has no assignment by row numbers."""
    if is_numpy(A) or is_torch(A) or is_cupy(A):
        A[index] = values
        return A
    changed = to_numpy(A).copy()
    changed[tuple(map(to_numpy, index)) if isinstance(index, tuple) else index] = to_numpy(values)
    return like(changed, A)


def add_at(A: Array, rows: np.ndarray, columns: np.ndarray, values: Array) -> Array:
    """A with `values` added at the places (row, column)."""
    if is_numpy(A) or is_torch(A) or is_cupy(A):
        A[rows, columns] += values
        return A
    changed = to_numpy(A).copy()
    changed[rows, columns] += to_numpy(values)
    return like(changed, A)


def row_blocks(n_rows: int, bytes_per_row: int, array: Array = None, least: int = 1) -> Iterator[slice]:
    """Slices of rows, each within scikit-learn's ``working_memory``.

    They stay within 16 MiB, which the allocator reuses, unless that is fewer than `least` rows; on an accelerator,
    which `array` tells, within a share of its memory, which keeps it busy.
    """
    limit = get_config()["working_memory"] * 2**20
    budget = min(limit, max(2**24, least * bytes_per_row))
    if on_accelerator(array):
        budget = max(budget, (memory(array) or 0) // 32)
    step = max(1, int(budget // max(bytes_per_row, 1)))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def memory(array: Array) -> int | None:
    """Bytes of memory where the array lives, free or not; None where that is not known."""
    try:
        if is_cupy(array):
            return int(array.device.mem_info[1])
        if on_accelerator(array):
            import torch

            return int(torch.cuda.mem_get_info(array.device)[1])
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def in_tiles(function: Callable[[slice, slice], object], array: Array, depth: int, *, symmetric: bool = False) -> None:
    """Call `function(rows, columns)` for tiles that cover `array`, each tile a matrix product of that depth.

    Of a `symmetric` one they cover the lower triangle, and more only where they reach its diagonal.

    NumPy's elementwise functions use one thread, and the threads of its BLAS keep the cores busy for a while after a
    product. So a thread a core takes tile after tile of a large array, its product included; a tile stays in the
    core's cache.
    """
    n_rows, n_columns = array.shape
    if not is_numpy(array) or array.size < 2**17 or depth > 128:
        for block in row_blocks(n_rows, 8 * n_columns, array):
            function(block, slice(0, n_columns))
        return
    if symmetric:
        bands = [slice(i, min(i + SQUARE, n_rows)) for i in range(0, n_rows, SQUARE)]
        tiles = [(band, other) for place, band in enumerate(bands) for other in bands[: place + 1]]
    else:
        parts = -(-n_columns // 1024)
        edges = [n_columns * part // parts for part in range(parts + 1)]
        height = max(4, min(2**20 // depth, 2**16, array.size // 4) // edges[1])
        bands = [slice(i, min(i + height, n_rows)) for i in range(0, n_rows, height)]
        tiles = [(band, slice(j, k)) for band in bands for j, k in itertools.pairwise(edges)]

    share(lambda tile: function(*tile), tiles)


def matmul(A: Array, B: Array) -> Array:
    """A @ B; a large product of NumPy matrices is shared out, unless reading A is all the work."""
    if not is_numpy(A, B) or A.ndim != 2 or B.ndim != 2 or A.size * B.shape[1] < 2**18 or B.shape[1] <= 4:
        return A @ B
    if A.dtype != np.float64 or B.dtype != np.float64:
        return A @ B
    out = np.empty((A.shape[0], B.shape[1]))
    _blas.add_product(out, A, B, 0.0)
    return out


def add_product(C: Array, A: Array, B: Array) -> Array:
    """C + A B, in place."""
    if is_numpy(C, A, B) and C.size and C.flags.c_contiguous and C.dtype == A.dtype == B.dtype == np.float64:
        _blas.add_product(C, A, B, 1.0)
    else:
        _multiply(C, A, B, add=True)
    return C


def gram(A: Array) -> Array:
    """A'A, symmetric to the last bit."""
    return mirrored(add_gram(None, A))


def add_gram(G: Array | None, A: Array) -> Array:
    """G + A'A (None: A'A), in place where the namespace allows it; of NumPy's the lower triangle alone."""
    if not is_numpy(A):
        return _gram_of_parts(A) if G is None else G + _gram_of_parts(A)
    if A.size == 0:
        return np.zeros((A.shape[1], A.shape[1])) if G is None else G
    G = np.zeros((A.shape[1], A.shape[1])) if G is None else G
    _blas.add_gram(G, A, 1.0)
    return G


def gram_of_lower(A: Array) -> Array:
    """A'A of a lower triangular A (overwritten)."""
    if not is_numpy(A):
        return gram(A)
    return mirrored(_blas.gram_of_lower(A)) if A.size else A


def mirrored(G: Array) -> Array:
    """The whole of a matrix from `add_gram`, in place."""
    if not is_numpy(G):
        return G
    for start in range(0, G.shape[0], 256):
        part, rest = slice(start, start + 256), slice(start + 256, None)
        own = G[part, part] + G[part, part].T
        own.flat[:: own.shape[0] + 1] *= 0.5
        G[part, part] = own
        G[part, rest] = G[rest, part].T
    return G


def row_squares(A: Array, factors: Array | None = None) -> Array:
    """sum_k A_ik^2 (times factors_k), in blocks of rows."""
    xp = namespace(A)
    if is_numpy(A) and factors is None:
        return np.einsum("ij,ij->i", A, A) if A.flags.c_contiguous else np.einsum("ji,ji->i", A.T, A.T)
    if is_torch(A) and factors is None:
        return xp.linalg.vector_norm(A, axis=1) ** 2
    out = empty((A.shape[0],), A)
    for rows in row_blocks(A.shape[0], 8 * A.shape[1], A):
        squares = A[rows, :] * A[rows, :]
        out[rows] = xp.sum(squares, axis=1) if factors is None else squares @ factors
    return out


def _parts(n: int) -> list[slice]:
    """Up to 32 parts of n columns, of 256 at least: triangles are then worked on by matrix products alone."""
    width = max(256, 128 * math.ceil(n / (32 * 128)))
    return [slice(start, min(start + width, n)) for start in range(0, n, width)]


def _gram_of_parts(A: Array) -> Array:
    """A'A from matrix products, about half of the full one."""
    G = empty((A.shape[1], A.shape[1]), A)
    for part in _parts(A.shape[1]):
        block = A[:, part].T @ A[:, : part.stop]
        own = block[:, part.start :]
        G[part, : part.start] = block[:, : part.start]
        G[: part.start, part] = block[:, : part.start].T
        G[part, part] = 0.5 * (own + own.T)
    return G


def cholesky(A: Array) -> Array | None:
    """Lower factor of A (overwritten), or None when A is not positive definite to working precision."""
    if is_numpy(A):
        if A.shape[0] == 0:
            return A
        return _blas.cholesky(A)
    xp = namespace(A)
    try:
        # torch factorises the columns in place: the transpose of a symmetric A spares a copy of it
        L = xp.linalg.cholesky(A.T, out=A.T) if is_torch(A) and A.is_contiguous() else xp.linalg.cholesky(A)
    except Exception as error:  # each namespace has its own class of LinAlgError
        if type(error).__name__ not in {"LinAlgError", "_LinAlgError"}:
            raise
        return None
    return L if bool(xp.all(xp.isfinite(xp.linalg.diagonal(L)))) else None


def pivoted_cholesky(A: Array, tolerance: float) -> tuple[Array, np.ndarray]:
    """Factor (n x rank) and pivots of a semi-definite A, with A = F F'; stops at pivots <= tolerance."""
    n = A.shape[0]
    upper, pivots, rank, _ = lapack.dpstrf(to_numpy(A), lower=0, tol=tolerance)
    pivots = np.asarray(pivots, dtype=np.intp) - 1
    factor = np.zeros((n, rank))
    factor[pivots] = np.triu(upper)[:rank].T
    return like(factor, A), pivots[:rank]


def solve_lower(L: Array, B: Array, *, transpose: bool = False) -> Array:
    """Solve L X = B (or L'X = B)."""
    if is_numpy(L, B):
        if not B.size:
            return B
        if B.shape[1] == 1:
            return blas.dtrsv(L.T, B[:, 0], lower=0, trans=0 if transpose else 1)[:, None]
        rows = np.array(B.T, dtype=np.float64, order="C")
        _blas.solve_rows(L, rows, turn=not transpose)
        return rows.T
    if is_torch(L):
        torch = namespace(L)
        return torch.linalg.solve_triangular(L.T if transpose else L, B, upper=transpose)
    if is_cupy(L):
        import cupyx.scipy.linalg

        return cupyx.scipy.linalg.solve_triangular(L, B, trans=1 if transpose else 0, lower=True)
    return like(solve_lower(to_numpy(L), to_numpy(B), transpose=transpose), L)


def whiten_rows(Z: Array, L: Array, loss: float = LOSS, inverse: Array | None = None) -> Array:
    """Z L^-T, overwriting Z where the namespace allows it: every row z becomes L^-1 z.

    Many rows of NumPy's are multiplied by the inverse of L (if it is known, `inverse`), unless that may cost more than
    a relative `loss`.
    """
    if is_numpy(Z, L):
        if not Z.size or not Z.flags.carray or Z.dtype != np.float64:
            return solve_lower(L, Z.T).T
        inverse = _inverse_that_pays(Z, L, loss, inverse)
        if inverse is None:
            _blas.solve_rows(L, Z, turn=True)
        else:
            _blas.multiply_rows(inverse, Z, turn=True)
        return Z
    parts = _parts(L.shape[0])
    if len(parts) == 1 or not (is_torch(L) or is_cupy(L)):
        return solve_lower(L, Z.T).T
    out = empty(Z.shape, Z)
    for part, inverse in zip(parts, _invert_diagonal(L, parts), strict=True):
        done = slice(0, part.start)
        _multiply(Z[:, part], out[:, done], L[part, done].T, -1.0, add=True)
        _multiply(out[:, part], Z[:, part], inverse.T)
    return out


def _inverse_that_pays(Z: np.ndarray, L: np.ndarray, loss: float, inverse: np.ndarray | None) -> np.ndarray | None:
    """The inverse of L where it is known or many rows are to be solved for, and costs no more digits than that.

    Products with it run at the rate of DGEMM, which solutions reach on few processors.
    """
    rows, columns = Z.shape
    if inverse is None:
        if rows < TALL * columns or columns < WIDE:
            return None
        inverse = invert_lower(L + 0.0)
    return inverse if EPS * np.linalg.norm(L) * np.linalg.norm(inverse) <= loss else None


def _multiply(out: Array, A: Array, B: Array, factor: float = 1.0, *, add: bool = False) -> None:
    """Overwrite `out`, a part of a matrix, with factor * A B, or add that to it."""
    if is_torch(out):  # where it belongs, without a copy
        out.addmm_(A, B, beta=float(add), alpha=factor)
    elif add:
        out += factor * (A @ B)
    else:
        out[...] = factor * (A @ B)


def unwhiten_rows(Z: Array, L: Array, loss: float = LOSS, inverse: Array | None = None) -> Array:
    """Z L^-1, overwriting Z where the namespace allows it: what a derivative in L^-1 z is in z; see `whiten_rows`."""
    if is_numpy(Z, L) and Z.size:
        Z = np.require(Z, np.float64, ["C", "A", "W"])
        inverse = _inverse_that_pays(Z, L, loss, inverse)
        if inverse is None:
            _blas.solve_rows(L, Z, turn=False)
        else:
            _blas.multiply_rows(inverse, Z, turn=False)
        return Z
    parts = _parts(L.shape[0])
    if len(parts) == 1 or not (is_torch(L) or is_cupy(L)):
        return solve_lower(L, Z.T, transpose=True).T
    out = empty(Z.shape, Z)
    for part, inverse in zip(parts[::-1], _invert_diagonal(L, parts)[::-1], strict=True):
        done = slice(part.stop, L.shape[0])
        _multiply(Z[:, part], out[:, done], L[done, part], -1.0, add=True)
        _multiply(out[:, part], Z[:, part], inverse)
    return out


def invert_lower(L: Array) -> Array:
    """Inverse of a lower triangular matrix (overwritten)."""
    if is_numpy(L):
        return _blas.invert_lower(L) if L.size else L
    n = L.shape[0]
    if n <= SMALL or not (is_torch(L) or is_cupy(L)):
        return solve_lower(L, identity(n, L))
    inverse = zeros((n, n), L)
    parts = [slice(start, min(start + SMALL, n)) for start in range(0, n, SMALL)]
    for part, block in zip(parts, _invert_diagonal(L, parts), strict=True):
        inverse[part, part] = block
    _invert_parts(inverse, L)
    return inverse


def _invert_diagonal(L: Array, parts: list[slice]) -> list[Array]:
    """Inverses of diagonal blocks of a lower triangular matrix, all of one size but the last; torch's together."""
    sizes = [part.stop - part.start for part in parts]
    count = sizes.count(sizes[0]) if is_torch(L) else 0
    found: list[Array] = []
    if count > 1:
        blocks = namespace(L).stack([L[part, part] for part in parts[:count]])
        found = list(solve_lower(blocks, identity(sizes[0], L)))
    return found + [solve_lower(L[part, part], identity(part.stop - part.start, L)) for part in parts[len(found) :]]


def _invert_parts(out: Array, L: Array) -> None:
    """Complete the inverse of a lower triangular matrix, whose diagonal blocks `out` holds, half by half."""
    n = L.shape[0]
    half = SMALL * math.ceil(n / (2 * SMALL))
    if n <= SMALL:
        return
    head, tail = slice(0, half), slice(half, n)
    _invert_parts(out[head, head], L[head, head])
    _invert_parts(out[tail, tail], L[tail, tail])
    corner = empty((n - half, half), L)
    for part in _parts(half):
        _multiply(corner[:, part], L[tail, part.start : half], out[part.start : half, part])
    for part in _parts(n - half):
        rows = slice(half + part.start, half + part.stop)
        _multiply(out[rows, head], out[rows, half : rows.stop], corner[: part.stop, :], -1.0)


def condition(L: Array, norm: float) -> float:
    """Estimate of the 1-norm condition of L L', whose 1-norm is `norm`."""
    if is_numpy(L):
        if L.shape[0] == 0:
            return 1.0
        reciprocal, _ = lapack.dpocon(L.T, norm, uplo="U")
        return float(1.0 / reciprocal) if reciprocal > 0 else float("inf")
    xp = namespace(L)
    inverse = invert_lower(L)
    return norm * float(xp.max(xp.sum(xp.abs(inverse.T @ inverse), axis=0)))


def eigh(A: Array) -> tuple[Array, Array]:
    """Eigenvalues (ascending) and eigenvectors of a symmetric A (overwritten); see `eigh_matrices`."""
    if is_numpy(A):
        driver: Literal["evd", "evr"] = "evd" if A.shape[0] <= DIVIDED else "evr"
        values, vectors = scipy.linalg.eigh(A.T, lower=False, driver=driver, overwrite_a=True, check_finite=False)
        return values, vectors
    values, vectors = namespace(A).linalg.eigh(A)
    return values, vectors


def eigh_matrices(n: int) -> int:
    """Matrices of order n that `eigh` holds: divide and conquer, faster and more orthogonal, takes one more."""
    return 3 if n <= DIVIDED else 2


def qr(A: Array) -> tuple[Array, Array]:
    """Thin QR factorisation of A (overwritten)."""
    if is_numpy(A):
        return scipy.linalg.qr(A, mode="economic", overwrite_a=True, check_finite=False)
    return namespace(A).linalg.qr(A)


def svd(A: Array) -> tuple[Array, Array, Array]:
    """Thin singular value decomposition."""
    if is_numpy(A):
        return scipy.linalg.svd(A, full_matrices=False, check_finite=False)
    return namespace(A).linalg.svd(A, full_matrices=False)
