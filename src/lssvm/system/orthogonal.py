"""Orthonormal columns by Cholesky QR, and estimates of the loss of orthogonality."""

from __future__ import annotations

import math

import numpy as np

from .. import arrays
from ..arrays import EPS, Array, NumericalError
from .solution import CAREFUL, PROBES, random_signs

ORTHOGONAL = 1e-10  # loss of orthogonality, amplified by leave-one-out, above which another pass is needed
SURE = 10.0  # safety factor of the expected loss; actual losses were 0.7 to 9 times the expected ones
QUICK = 1e-6  # loss that is acceptable for comparing settings: leave-one-out keeps about six digits


def orthogonalise(
    A: Array,
    bottom: Array | float,
    tolerance: float = ORTHOGONAL,
    loss: float = arrays.LOSS,
    *,
    for_own_rows: bool = True,
) -> tuple[Array, Array, Array, float, Array]:
    """[A; bottom] = [Q; B] R with orthonormal columns, by Cholesky QR in as many passes as needed; A is overwritten.

    Returns Q, B, R, the condition number of the last pass and the squared norms of the rows of Q. A number as `bottom`
    stands for a multiple of the identity; `loss` is that of `arrays.whiten_rows`.

    One pass costs a Gram matrix and a triangular solve, which the leverages need anyway, and gives Q'Q + B'B = I up to
    about eps * cond([A; bottom])^2. If neither that bound nor (with `for_own_rows`) the often far smaller error
    expected for these rows is small enough for leave-one-out, another pass is made on the result. A matrix too
    ill-conditioned for a Cholesky factor first gets a small shift (shifted Cholesky QR), which costs a pass but no
    accuracy.
    """
    R = None
    for _ in range(6):
        if isinstance(bottom, float):
            lower, condition, inverse = cholesky_pass(arrays.add_diagonal(arrays.gram(A), bottom * bottom))
            inverse = arrays.invert_lower(lower + 0.0) if inverse is None else inverse
            bottom = bottom * inverse.T
            inverse = arrays.accurate(inverse, lower, loss)
            allowed = 0.0 if inverse is None else loss
        else:
            lower, condition, inverse = cholesky_pass(arrays.gram(A) + arrays.gram(bottom))
            inverse, allowed = None if inverse is None else arrays.accurate(inverse, lower, loss), loss
            bottom = arrays.whiten_rows(bottom, lower, loss, inverse)
        A = arrays.whiten_rows(A, lower, allowed, inverse)
        R = lower.T if R is None else arrays.matmul(lower.T, R)
        leverage, largest = arrays.row_squares(A), arrays.namespace(A).max
        h = min(float(largest(leverage)) if A.shape[0] else 0.0, 1.0 - CAREFUL)
        if EPS * condition * h / (1.0 - h) <= tolerance:
            break
        measurable = for_own_rows and math.isfinite(condition) and h < 1.0 - CAREFUL
        if measurable and SURE * float(largest(expected_loss(A, lower, leverage))) <= tolerance:
            break
    return A, bottom, R, condition, leverage


def expected_loss(Q: Array, lower: Array, leverage: Array) -> Array:
    """Estimated relative change of 1 - h of every row due to rounding errors in the Gram matrix L L'.

    Errors of eps, relative to its diagonal D, change a leverage by eps |D^1/2 L^-T q|^2 or a few times as much: they
    are large in directions in which most rows have only small components. Random signs replace the triangular solve
    that this norm would need.
    """
    xp = arrays.namespace(Q)
    scaled = xp.sqrt(arrays.row_squares(lower))[:, None] * random_signs(lower.shape[0], lower)
    squares = arrays.row_squares(arrays.matmul(Q, arrays.solve_lower(lower, scaled))) / PROBES
    return EPS * squares / (1.0 - leverage)


@np.errstate(over="ignore", divide="ignore", invalid="ignore")  # non-finite results raise an error
def cholesky_pass(G: Array) -> tuple[Array, float, Array | None]:
    """Lower factor of a Gram matrix, its condition number at unit diagonal, and the inverse of the factor or None.

    The condition number is infinite if a shift was needed. Only NumPy's does not require the inverse.
    """
    xp = arrays.namespace(G)
    n = G.shape[0]
    scale = xp.sqrt(xp.linalg.diagonal(G))
    scale = xp.where(scale > 0, scale, scale + 1.0)
    G = G / (scale[:, None] * scale[None, :])
    norm = xp.max(xp.sum(xp.abs(G), axis=0)) if n else 1.0
    L = arrays.cholesky(G + 0.0)
    if L is not None:
        inverse = None if arrays.is_numpy(L) else arrays.invert_lower(L + 0.0)
        condition = arrays.condition(L, norm, inverse)
        return scale[:, None] * L, condition, None if inverse is None else inverse / scale[None, :]
    shift = 10.0 * n * EPS
    while L is None and math.isfinite(shift):
        L = arrays.cholesky(arrays.add_diagonal(G + 0.0, shift))
        shift *= 10.0
    if L is None:
        raise NumericalError("The kernel columns are not finite: scale your features.")
    return scale[:, None] * L, math.inf, None
