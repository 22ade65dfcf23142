"""In-place linear algebra.

All matrices are row-major; a lower factor L is stored as such, so that Fortran sees ``L.T`` without a copy.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import scipy.linalg
from scipy.linalg import blas, lapack

from . import parallel
from .namespaces import (
    EPS,
    Array,
    empty,
    identity,
    is_cupy,
    is_numpy,
    is_torch,
    like,
    namespace,
    on_accelerator,
    row_blocks,
    to_numpy,
)

TALL, WIDE = 2, 64  # rows per column, and columns, from which triangular systems may be solved with the inverse,
LOSS = 1e-9  # if the relative error stays below this; the bound that is used is five to fifty times too large
DIVIDED = 4096  # order up to which the memory of an eigendecomposition does not matter
FEW = 4  # columns up to which reading a triangle is all the work of a solution, in one thread
TRIANGLE = 64  # order up to which LAPACK inverts the triangles of many matrices
LEAF = 512  # order up to which a triangular matrix is inverted by substitution on an accelerator
SMALL = 2048, 2**24  # columns and elements up to which launching the calls of an accelerator takes most of the time


def matmul(A: Array, B: Array) -> Array:
    """A @ B; threads share a large product of NumPy matrices, unless reading A or B is all the work."""
    if not is_numpy(A, B) or A.ndim != 2 or B.ndim != 2 or A.size * B.shape[1] < 2**18:
        return A @ B
    if min(A.shape[0], B.shape[1]) <= 4:
        return A @ B
    if A.dtype != np.float64 or B.dtype != np.float64:
        return A @ B
    out = np.empty((A.shape[0], B.shape[1]))
    parallel.add_product(out, A, B, 0.0)
    return out


def symmetric_product(V: Array, K: Array) -> Array:
    """V K for a symmetric K: few rows of V one by one, each reading half of K, otherwise all rows together."""
    if is_numpy(V, K) and len(V) <= 3 and K.dtype == np.float64:
        return np.stack([parallel.symmetric_product(K, row) for row in V])
    return matmul(V, K)


def add_product(C: Array, A: Array, B: Array) -> Array:
    """C + A B, in place."""
    if is_numpy(C, A, B) and C.size and C.flags.c_contiguous and C.dtype == A.dtype == B.dtype == np.float64:
        parallel.add_product(C, A, B, 1.0)
    else:
        _multiply(C, A, B, add=True)
    return C


def gram(A: Array) -> Array:
    """A'A, symmetric to the last bit."""
    return mirrored(add_gram(None, A))


def add_gram(G: Array | None, A: Array) -> Array:
    """G + A'A (None: A'A), in place where the namespace allows it; for NumPy only the lower triangle."""
    if not is_numpy(A):
        return _gram_of_parts(A) if G is None else G + _gram_of_parts(A)
    if A.size == 0:
        return np.zeros((A.shape[1], A.shape[1])) if G is None else G
    G = np.zeros((A.shape[1], A.shape[1])) if G is None else G
    parallel.add_gram(G, A, 1.0)
    return G


def gram_of_lower(A: Array) -> Array:
    """A'A of a lower triangular A (overwritten)."""
    if not is_numpy(A):
        return gram(A)
    return mirrored(parallel.gram_of_lower(A)) if A.size else A


def mirrored(G: Array) -> Array:
    """Complete a matrix from `add_gram` by its upper triangle, in place."""
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


def is_small(rows: int, columns: int) -> bool:
    """Whether few calls matter more than few operations on a matrix of this shape, if it is not NumPy's."""
    return columns <= SMALL[0] and rows * columns <= SMALL[1]


def _parts(n: int) -> list[slice]:
    """Up to 32 parts of n columns, each at least 256 wide: work on triangles then consists of matrix products."""
    width = max(256, 128 * math.ceil(n / (32 * 128)))
    return [slice(start, min(start + width, n)) for start in range(0, n, width)]


def _gram_of_parts(A: Array) -> Array:
    """A'A from matrix products, at about half the cost of the full product."""
    if is_small(*A.shape):
        G = A.T @ A
        return 0.5 * (G + G.T)
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
        return parallel.cholesky(A)
    xp = namespace(A)
    if is_torch(A):
        # factorises the columns in place: passing the transpose of a symmetric A avoids a copy
        out = (A.T, xp.empty((), dtype=xp.int32, device=A.device)) if A.is_contiguous() else None
        L, info = xp.linalg.cholesky_ex(A.T, out=out)
        return L if bool(xp.all(xp.isfinite(xp.linalg.diagonal(L))) & (info == 0)) else None
    try:
        L = xp.linalg.cholesky(A)
    except Exception as error:  # each namespace has its own class of LinAlgError
        if type(error).__name__ not in {"LinAlgError", "_LinAlgError"}:
            raise
        return None
    return L if bool(xp.all(xp.isfinite(xp.linalg.diagonal(L)))) else None


def pivoted_cholesky(A: Array, tolerance: float) -> tuple[Array, np.ndarray]:
    """Factor F (n x rank) and pivots of a semi-definite A = F F'; stops at pivots <= tolerance."""
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
        if B.shape[1] <= FEW:
            return blas.dtrsm(1.0, L.T, B, lower=0, trans_a=0 if transpose else 1)
        rows = np.array(B.T, dtype=np.float64, order="C")
        parallel.solve_rows(L, rows, turn=not transpose)
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

    `inverse` is that of L, if it is known and accurate enough. It is computed for many NumPy rows, unless it might
    cause a relative error above `loss` (0: never).
    """
    return _rows_by_inverse(Z, L, loss, inverse, turn=True)


def unwhiten_rows(Z: Array, L: Array, loss: float = LOSS, inverse: Array | None = None) -> Array:
    """Z L^-1, overwriting Z where the namespace allows it: turns derivatives in L^-1 z into those in z.

    See `whiten_rows`.
    """
    return _rows_by_inverse(Z, L, loss, inverse, turn=False)


def _rows_by_inverse(Z: Array, L: Array, loss: float, inverse: Array | None, *, turn: bool) -> Array:
    """Z L^-T (`turn`) or Z L^-1."""
    if is_numpy(Z, L):
        if not Z.size:
            return Z
        Z = np.require(Z, np.float64, ["C", "A", "W"])
        inverse = _inverse_that_pays(Z, L, loss) if inverse is None else inverse
        if inverse is None:
            parallel.solve_rows(L, Z, turn=turn)
        else:
            parallel.multiply_rows(inverse, Z, turn=turn)
        return Z
    parts = _parts(L.shape[0])
    if is_small(*Z.shape) and inverse is not None:
        return Z @ (inverse.T if turn else inverse)
    if is_small(*Z.shape) or len(parts) == 1 or not (is_torch(L) or is_cupy(L)):
        return solve_lower(L, Z.T, transpose=not turn).T
    out, blocks = empty(Z.shape, Z), list(zip(parts, _invert_diagonal(L, parts), strict=True))
    for part, block in blocks if turn else blocks[::-1]:
        done = slice(0, part.start) if turn else slice(part.stop, L.shape[0])
        _multiply(Z[:, part], out[:, done], L[part, done].T if turn else L[done, part], -1.0, add=True)
        _multiply(out[:, part], Z[:, part], block.T if turn else block)
    return out


def _inverse_that_pays(Z: np.ndarray, L: np.ndarray, loss: float) -> np.ndarray | None:
    """The inverse of L if it pays off for many rows, and if its error stays below `loss`; else None.

    Products with it run at the speed of DGEMM, which triangular solves reach on few processors.
    """
    rows, columns = Z.shape
    if rows < TALL * columns or columns < WIDE or loss == 0.0:
        return None
    return accurate(invert_lower(L + 0.0), L, loss)


def accurate(inverse: Array, L: Array, loss: float) -> Array | None:
    """The inverse of L if products with it have a relative error of at most `loss`, else None."""
    norm = np.linalg.norm if is_numpy(L) else namespace(L).linalg.vector_norm
    return inverse if bool(EPS * norm(L) * norm(inverse) <= loss) else None


def _multiply(out: Array, A: Array, B: Array, factor: float = 1.0, *, add: bool = False) -> None:
    """Overwrite `out`, a part of a matrix, with factor * A B, or add that to it."""
    if is_torch(out):  # writes into `out` without a copy
        out.addmm_(A, B, beta=float(add), alpha=factor)
    elif add:
        out += factor * (A @ B)
    else:
        out[...] = factor * (A @ B)


def invert_lower(L: Array) -> Array:
    """Inverse of a lower triangular matrix (overwritten), or of many NumPy matrices (g, n, n)."""
    if is_numpy(L) and L.ndim == 3:
        _invert_halves(L, TRIANGLE)
        return L
    if is_numpy(L):
        return parallel.invert_lower(L) if L.size else L
    n = L.shape[0]
    if is_small(*L.shape) or not (is_torch(L) or is_cupy(L)):
        return solve_lower(L, identity(n, L))
    _invert_halves(L, LEAF)
    return L


def _invert_halves(L: Array, leaf: int) -> None:
    """Overwrite lower triangular matrices (..., n, n) by their inverses; products of halves are fast."""
    n = L.shape[-1]
    if n <= leaf:
        for part in L if is_numpy(L) else ():
            part[...] = lapack.dtrtri(part.T, lower=0)[0].T
        if not is_numpy(L):
            L[...] = solve_lower(L, identity(n, L))
        return
    head, tail = slice(0, n // 2), slice(n // 2, n)
    _invert_halves(L[..., head, head], leaf)
    _invert_halves(L[..., tail, tail], leaf)
    L[..., tail, head] = L[..., tail, tail] @ (L[..., tail, head] @ -L[..., head, head])


def _invert_diagonal(L: Array, parts: list[slice]) -> list[Array]:
    """Inverses of diagonal blocks of a lower triangular matrix, all of one size but the last; torch batches them."""
    sizes = [part.stop - part.start for part in parts]
    count = sizes.count(sizes[0]) if is_torch(L) else 0
    found: list[Array] = []
    if count > 1:
        blocks = namespace(L).stack([L[part, part] for part in parts[:count]])
        found = list(solve_lower(blocks, identity(sizes[0], L)))
    return found + [solve_lower(L[part, part], identity(part.stop - part.start, L)) for part in parts[len(found) :]]


def _invert_parts(out: Array, L: Array) -> None:
    """Complete, by recursive halving, the inverse of a lower triangular matrix whose diagonal blocks are in `out`."""
    n = L.shape[0]
    half = LEAF * math.ceil(n / (2 * LEAF))
    if n <= LEAF:
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


def condition(L: Array, norm: Array | float, inverse: Array | None = None) -> float:
    """Estimate of the condition number of L L' in the 1-norm; `norm` is the 1-norm of L L'."""
    if is_numpy(L):
        if L.shape[0] == 0:
            return 1.0
        reciprocal, _ = lapack.dpocon(L.T, float(norm), uplo="U")
        return float(1.0 / reciprocal) if reciprocal > 0 else float("inf")
    xp = namespace(L)
    inverse = invert_lower(L + 0.0) if inverse is None else inverse
    return float(norm * xp.max(xp.sum(xp.abs(inverse.T @ inverse), axis=0)))


def eigh(A: Array) -> tuple[Array, Array]:
    """Eigenvalues (ascending) and eigenvectors of a symmetric A (overwritten); see `eigh_matrices`."""
    if is_numpy(A):
        driver: Literal["evd", "evr"] = "evd" if 1 < len(A) <= DIVIDED else "evr"  # SciPy 1.13 has no DSYEVD of 1 x 1
        return scipy.linalg.eigh(A.T, lower=False, driver=driver, overwrite_a=True, check_finite=False)
    values, vectors = namespace(A).linalg.eigh(A)
    return values, vectors


def eigh_matrices(n: int, array: Array) -> int:
    """Number of n x n matrices that `eigh` of an array of that kind holds, with its workspace.

    Divide and conquer, which is faster and more orthogonal, needs one more than other methods. Outside NumPy, A is not
    overwritten, and the workspace takes two matrices in LAPACK and four in cuSOLVER.
    """
    if is_numpy(array):
        return 3 if n <= DIVIDED else 2
    return 6 if on_accelerator(array) else 4


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
