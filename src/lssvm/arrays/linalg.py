"""In-place linear algebra.

All matrices are row-major; a lower factor L is stored as such, so that Fortran sees ``L.T`` without a copy. SciPy works
in place on contiguous matrices only; copying its result to a matrix that holds it already takes NumPy no time.

Threads share the products of factorisations by blocks. LAPACK gets small matrices only, as its own blocks are slower.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import scipy.linalg
from scipy.linalg import blas, lapack

from . import namespaces, threads
from .namespaces import EPS, Array, empty, identity, is_cupy, is_numpy, is_torch, like, namespace, row_blocks, to_numpy

TALL, WIDE = 2, 64  # A triangular solve may use the inverse from this many rows per column and columns on.
LOSS = 1e-9  # Its relative error may be at most this; the bound used is five to fifty times too large.
DIVIDED = 4096  # Up to this order, the memory of an eigendecomposition does not matter.
FEW = 4  # With at most this many columns, one thread is best: reading the other matrix takes all the time.
SMALL = 2048, 2**24  # Up to this many columns and elements, an accelerator spends its time on launching calls.
BLOCK = 512  # A tile of a Gram matrix has at most this order: products of that size run at full speed.
NARROW = 64  # A tile has at least this many columns.
LEAF = 384  # A matrix of at most this order is factorised in one piece, and inverted by one thread.
TRIANGLE = 96  # A triangular NumPy matrix of at most this order is inverted in one piece.


# Products -------------------------------------------------------------------------------------------------------------
def matmul(A: Array, B: Array) -> Array:
    """Return A @ B; threads share a large product of NumPy matrices, unless reading A or B is all the work."""
    if not is_numpy(A, B) or A.ndim != 2 or B.ndim != 2 or A.dtype != np.float64 or B.dtype != np.float64:
        return A @ B
    if min(A.shape[0], B.shape[1]) <= FEW or A.size * B.shape[1] < 2**18 or threads.workers() == 1:
        return A @ B
    return add_product(np.empty((A.shape[0], B.shape[1])), A, B, 0.0)


def symmetric_product(V: Array, K: Array) -> Array:
    """Return V K for a symmetric K: few rows of V one by one, each reading half of K, otherwise all rows together.

    For a row x, DSYMV reads half of a leading block. The rows below it are read once for their own products, and once
    more, without their last columns, for their contribution to the rows above. Each of the three parts takes about a
    third of the time of reading all of K.
    """
    if not is_numpy(V, K) or len(V) > 3 or K.dtype != np.float64:
        return matmul(V, K)
    n, head, K = len(K), round(len(K) * math.sqrt(2 / 3)), threads.stored(K)[0]
    products = np.empty((len(V), n))
    above = np.empty((len(V), head))

    def multiply(place: tuple[int, int]) -> None:
        row, part = place
        x = np.ascontiguousarray(V[row], dtype=np.float64)
        if part == 0:
            threads.dsymv(b"U", head, 1.0, K, x, 0.0, products[row])
        elif part == 1:
            np.matmul(K[head:], x, out=products[row, head:])
        else:
            np.matmul(x[head:], K[head:, :head], out=above[row])

    threads.parallel_for(multiply, [(row, part) for row in range(len(V)) for part in range(3)])
    products[:, :head] += above
    return products


def add_product(C: Array, A: Array, B: Array, keep: float = 1.0) -> Array:
    """keep * C + A B, in place."""
    if not (is_numpy(C, A, B) and threads.usable(C) and A.dtype == B.dtype == np.float64):
        _multiply(C, A, B, keep=keep)
        return C

    def multiply(part: slice) -> None:
        rows, columns = (part, slice(None)) if C.shape[0] >= C.shape[1] else (slice(None), part)
        threads.gemm(C[rows, columns], A[rows], B[:, columns], 1.0, keep)

    threads.parallel_for(multiply, threads.pieces(max(C.shape), C.size * A.shape[1]))
    return C


def gram(A: Array) -> Array:
    """Return A'A, symmetric to the last bit."""
    return mirrored(add_gram(None, A))


def add_gram(G: Array | None, A: Array, factor: float = 1.0) -> Array:
    """Return G + factor * A'A (G None: 0), in place where possible; for NumPy only the lower triangle."""
    if not is_numpy(A):
        return factor * _gram_of_parts(A) if G is None else G + factor * _gram_of_parts(A)
    depth, n = A.shape
    G = np.zeros((n, n)) if G is None else threads.by_rows(G, copy=False)
    if not A.size:
        return G
    # as many bands as threads, or a multiple, distribute the pieces of the triangle evenly
    most = min(n // NARROW, int(0.5 * depth * n * n / threads.SMALL_PIECE))
    count = threads.workers() * -(-n // (threads.workers() * BLOCK)) if threads.workers() > 1 else 1
    parts = threads.bands(n, max(1, min(count, most)))

    def tile(place: tuple[slice, slice]) -> None:
        i, j = place
        if i == j:
            columns, turn = threads.stored(A[:, i])
            threads.dsyrk(b"U", turn, i.stop - i.start, depth, factor, columns, 1.0, G[i, i])
        else:
            threads.gemm(G[i, j], A[:, i].T, A[:, j], factor, 1.0)

    threads.parallel_for(tile, [(i, j) for i in parts for j in parts if j.start <= i.start])
    return G


def mirrored(G: Array) -> Array:
    """Complete a matrix from `add_gram` by its upper triangle, in place."""
    for start in range(0, G.shape[0], 256) if is_numpy(G) else ():
        part, rest = slice(start, start + 256), slice(start + 256, None)
        G[part, part] = np.tril(G[part, part]) + np.tril(G[part, part], -1).T
        G[part, rest] = G[rest, part].T
    return G


def gram_of_lower(A: Array) -> Array:
    """Return A'A of a lower triangular A (overwritten)."""
    if not is_numpy(A):
        return gram(A)
    A = threads.by_rows(A)
    count = 1 if threads.workers() == 1 else -(-len(A) // LEAF)
    for part in threads.bands(len(A), count) if A.size else ():
        head = slice(0, part.start)
        add_gram(A[head, head], A[part, head])
        threads.by_triangle(threads.dtrmm, A[part, part], A[part, head], turn=False, left=True)
        A[part, part] = lapack.dlauum(A[part, part].T, lower=0, overwrite_c=1)[0].T
    return mirrored(A)


def row_squares(A: Array, factors: Array | None = None) -> Array:
    """Return sum_k A_ik^2 (times factors_k), in blocks of rows."""
    xp = namespace(A)
    if is_numpy(A) and factors is None:
        return np.einsum("ij,ij->i", A, A)
    if is_torch(A) and factors is None:  # fewer calls of the device
        return xp.linalg.vector_norm(A, axis=1) ** 2
    out = empty((A.shape[0],), A)
    for rows in row_blocks(A.shape[0], 8 * A.shape[1], A):
        squares = A[rows, :] * A[rows, :]
        out[rows] = xp.sum(squares, axis=1) if factors is None else squares @ factors
    return out


# Triangular factors ---------------------------------------------------------------------------------------------------
def cholesky(A: Array) -> Array | None:
    """Return the lower factor of A (overwritten), or None when A is not positive definite to working precision."""
    if not is_numpy(A):
        xp = namespace(A)
        try:
            if is_torch(A):
                # factorises the columns in place: passing the transpose of a symmetric A avoids a copy
                out = (A.T, xp.empty((), dtype=xp.int32, device=A.device)) if A.is_contiguous() else None
                L, failed = xp.linalg.cholesky_ex(A.T, out=out)
            else:
                L, failed = xp.linalg.cholesky(A), 0
        except np.linalg.LinAlgError:
            return None
        return L if bool(xp.all(xp.isfinite(xp.linalg.diagonal(L))) & (failed == 0)) else None
    A = threads.by_rows(A)
    for part in threads.bands(len(A), -(-len(A) // LEAF)) if A.size else ():
        rest = slice(part.stop, len(A))
        factor, info = lapack.dpotrf(A[part, part], lower=1, clean=1)  # three quarters of the time of an upper factor
        if info or not np.isfinite(factor[-1, -1]):
            return None
        A[part, part] = factor
        threads.by_triangle(threads.dtrsm, A[part, part], A[rest, part], turn=True)
        add_gram(A[rest, rest], A[rest, part].T, -1.0)
        A[part, rest] = 0.0
    return A


def cholesky_each(A: Array) -> Array:
    """Return the lower factors of matrices (g, n, n), overwritten; NaN where one is not positive definite."""
    if is_torch(A):
        L, failed = namespace(A).linalg.cholesky_ex(A)
        L[failed != 0] = math.nan
        return L
    for place in range(A.shape[0]):
        L = cholesky(A[place, :, :])
        A[place, :, :] = math.nan if L is None else L
    return A


def pivoted_cholesky(A: Array, tolerance: float) -> tuple[Array, np.ndarray]:
    """Return the factor F (n x rank) and pivots of a semi-definite A = F F'; stops at pivots <= tolerance."""
    upper, pivots, rank, _ = lapack.dpstrf(to_numpy(A), lower=0, tol=tolerance)
    pivots = np.asarray(pivots, dtype=np.intp) - 1
    factor = np.zeros((A.shape[0], rank))
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
        threads.by_triangle(threads.dtrsm, L, rows, turn=not transpose)
        return rows.T
    if is_torch(L):
        torch = namespace(L)
        return torch.linalg.solve_triangular(L.T if transpose else L, B, upper=transpose)
    if is_cupy(L):
        import cupyx.scipy.linalg

        return cupyx.scipy.linalg.solve_triangular(L, B, trans=1 if transpose else 0, lower=True)
    return like(solve_lower(to_numpy(L), to_numpy(B), transpose=transpose), L)


def solve_columns(L: Array, B: Array) -> None:
    """Overwrite a matrix B, which may be a part of another, with L^-1 B."""
    if is_numpy(L, B):
        threads.by_triangle(threads.dtrsm, L, B, turn=True, left=True)
    else:
        _whiten_halves(B.T, L, transpose=True)


def whiten_rows(
    Z: Array, L: Array, loss: float = LOSS, inverse: Array | None = None, *, transpose: bool = True
) -> Array:
    """Return Z L^-T, overwriting Z where the namespace allows it: every row z becomes L^-1 z.

    `inverse` is that of L, if it is known and accurate enough. It is computed for many NumPy rows, since products with
    it run at the speed of DGEMM, which triangular solves reach on few processors, unless it might cause a relative
    error above `loss` (0: never). Without `transpose`, see `unwhiten_rows`.
    """
    if is_numpy(Z, L):
        if not Z.size:
            return Z
        Z = np.require(Z, np.float64, ["C", "A", "W"])
        if inverse is None and loss > 0.0 and len(Z) >= TALL * len(L) and len(L) >= WIDE:
            inverse = accurate(invert_lower(L + 0.0), L, loss)
        if inverse is None:
            threads.by_triangle(threads.dtrsm, L, Z, turn=transpose)
        else:
            threads.by_triangle(threads.dtrmm, inverse, Z, turn=transpose)
        return Z
    if not (is_torch(L) or is_cupy(L)) or is_small(*Z.shape):
        if inverse is not None:
            return Z @ (inverse.T if transpose else inverse)
        return solve_lower(L, Z.T, transpose=not transpose).T
    _whiten_halves(Z, L, transpose)
    return Z


def _whiten_halves(Z: Array, L: Array, transpose: bool) -> None:
    """Do `whiten_rows` in place by products of halves, which accelerators compute faster than triangular solves."""
    n = L.shape[0]
    if n <= LEAF:
        inverse = solve_lower(L, identity(n, L))
        Z[...] = Z @ (inverse.T if transpose else inverse)
        return
    half = 128 * math.ceil(n / 256)  # products of such widths are fast
    head, tail = slice(0, half), slice(half, n)
    first, last = (head, tail) if transpose else (tail, head)
    _whiten_halves(Z[:, first], L[first, first], transpose)
    _multiply(Z[:, last], Z[:, first], L[tail, head].T if transpose else L[tail, head], -1.0, keep=1.0)
    _whiten_halves(Z[:, last], L[last, last], transpose)


def unwhiten_rows(Z: Array, L: Array, loss: float = LOSS, inverse: Array | None = None) -> Array:
    """Return Z L^-1, overwriting Z where the namespace allows it: turns derivatives in L^-1 z into those in z.

    See `whiten_rows`.
    """
    return whiten_rows(Z, L, loss, inverse, transpose=False)


def accurate(inverse: Array, L: Array, loss: float) -> Array | None:
    """Return the inverse of L if products with it have a relative error of at most `loss`, else None."""
    norm = np.linalg.norm if is_numpy(L) else namespace(L).linalg.vector_norm
    return inverse if bool(EPS * norm(L) * norm(inverse) <= loss) else None


def invert_lower(L: Array) -> Array:
    """Return the inverse of a lower triangular matrix (overwritten), or of many NumPy matrices (g, n, n)."""
    n, is_matrix = L.shape[-1], is_numpy(L) and L.ndim == 2
    L, is_shared = threads.by_rows(L) if is_matrix else L, is_matrix and n > LEAF
    head, tail = slice(0, n // 2), slice(n // 2, n)
    if is_numpy(L) and n <= TRIANGLE:
        for part in [L] * (n > 0) if is_matrix else L:
            part[...] = lapack.dtrtri(part.T, lower=0, overwrite_c=1)[0].T
        return L
    if not is_numpy(L) and (n <= LEAF or is_small(n, n) or not (is_torch(L) or is_cupy(L))):
        return solve_lower(L, identity(n, L))
    L[..., head, head] = invert_lower(L[..., head, head])
    if is_shared:
        threads.by_triangle(threads.dtrmm, L[head, head], L[tail, head], turn=False)
        threads.by_triangle(threads.dtrsm, L[tail, tail], L[tail, head], turn=True, left=True)
        L[tail, head] *= -1.0
    L[..., tail, tail] = invert_lower(L[..., tail, tail])
    if not is_shared:
        L[..., tail, head] = L[..., tail, tail] @ (L[..., tail, head] @ -L[..., head, head])
    return L


def condition(L: Array, norm: Array | float, inverse: Array) -> float:
    """Return an estimate of the condition number of L L' in the 1-norm; `norm` is that of L L', `inverse` is L^-1."""
    if is_numpy(L):
        reciprocal = lapack.dpocon(L.T, float(norm), uplo="U")[0] if L.size else 1.0
        return float(1.0 / reciprocal) if reciprocal > 0 else float("inf")
    xp = namespace(L)
    return float(norm * xp.max(xp.sum(xp.abs(inverse.T @ inverse), axis=0)))


# Other namespaces: products of parts of triangles ---------------------------------------------------------------------
def is_small(rows: int, columns: int) -> bool:
    """Return whether few calls matter more than few operations on a matrix of this shape, if it is not NumPy's."""
    return columns <= SMALL[0] and rows * columns <= SMALL[1]


def _gram_of_parts(A: Array) -> Array:
    """Return A'A from products of up to 32 parts, each at least 256 wide, at about half the cost of the whole."""
    if is_small(*A.shape):
        G = A.T @ A
        return 0.5 * (G + G.T)
    G = empty((A.shape[1], A.shape[1]), A)
    width = max(256, 128 * math.ceil(A.shape[1] / (32 * 128)))  # products of such widths are fast
    for part in (slice(start, start + width) for start in range(0, A.shape[1], width)):
        block = A[:, part].T @ A[:, : part.stop]
        own = block[:, part.start :]
        G[part, : part.start] = block[:, : part.start]
        G[: part.start, part] = block[:, : part.start].T
        G[part, part] = 0.5 * (own + own.T)
    return G


def _multiply(out: Array, A: Array, B: Array, factor: float = 1.0, *, keep: float = 0.0) -> None:
    """Overwrite `out`, a part of a matrix, with keep * out + factor * A B."""
    if is_torch(out):  # writes into `out` without a copy
        out.addmm_(A, B, beta=keep, alpha=factor)
    else:
        out[...] = keep * out + factor * (A @ B) if keep else factor * (A @ B)


# Eigenvectors ---------------------------------------------------------------------------------------------------------
def eigh(A: Array) -> tuple[Array, Array]:
    """Return eigenvalues (ascending) and eigenvectors of a symmetric A (overwritten); see `dense_matrices`."""
    if is_numpy(A):
        driver: Literal["evd", "evr"] = "evd" if 1 < len(A) <= DIVIDED else "evr"  # SciPy 1.13 has no DSYEVD of 1 x 1
        return scipy.linalg.eigh(A.T, lower=False, driver=driver, overwrite_a=True, check_finite=False)
    return namespace(A).linalg.eigh(A)


def dense_matrices(n: int, array: Array, *, every: bool) -> int:
    """Return the number of n x n matrices that a factor of an array of that kind takes, with its workspace.

    It is that of `eigh` for `every` ridge, or that of Cholesky and an inverse. Divide and conquer, which is faster and
    more orthogonal, needs one matrix more than other methods. Outside NumPy, the matrix is not overwritten, and the
    workspace of `eigh` takes two matrices in LAPACK and four in cuSOLVER.
    """
    if is_numpy(array):
        return (3 if n <= DIVIDED else 2) if every else 1
    return (6 if namespaces.on_accelerator(array) else 4) if every else 3
