"""The effect of rounding errors on fitted and leave-one-out values."""

from __future__ import annotations

import math

from .. import arrays, system
from ..arrays import EPS, Array
from .whitening import Whitening, independent_rows, smallest_pivot

TINY = 1e-300
LOST_DIGITS = 1.2e-5  # rounding error, relative to the spread of the targets, above which a warning is issued
SURELY_KEPT = 1e-7  # bound on the rounding error, relative to that spread, below which no estimate is made


def rounding_error(
    factorised: system.System,
    whitening: Whitening | None,
    points: Array,
    coef: Array,
    C: float,
    y: Array,
    weights: Array,
    residuals: Array,
    leverage: Array,
    loo_residuals: Array,
    *,
    from_sums: bool = False,
    size: float = math.inf,
) -> float:
    """Estimated rounding error of fitted and leave-one-out values.

    It is relative to the spread of the targets, or to the values where these are larger.

    Kernel values have relative errors of eps. They change the solution like errors of size
    eps sqrt(k_ii) |sqrt(k_jj) alpha_j| in the targets: a few random errors of that size are fitted with the factorised
    system. New rows are about as sensitive as rows that are left out; rows far from all others are more sensitive.

    With a smaller basis the errors change the gradient as well. That matters for rows with leverage near 1 and for
    kernels of finite rank; otherwise it concerns only points that float64 cannot distinguish from others, which most
    large bases have. `size` is the largest sqrt(k_ii) of the rows, if they may be smaller than the basis points.
    """
    xp, lam, e = arrays.namespace(y), 1.0 / C, weights[:, None] * residuals
    norm = lambda values: xp.sqrt(xp.sum(values * values, axis=0))[None, :]  # noqa: E731
    mean, top = xp.mean(y, axis=0)[None, :], xp.max(xp.abs(y), axis=0)[None, :]
    spread = xp.max(xp.abs(y - mean), axis=0)[None, :] + TINY
    loo, floor = xp.abs(loo_residuals), 100.0 * EPS * top  # rounding of targets far from 0

    def share(moves: Array, values: Array) -> float:
        largest = float(xp.max((xp.abs(moves) - floor) / xp.maximum(spread + 0.0 * values, values)))
        return max(0.0, largest) if math.isfinite(largest) else 1.0

    # |H z| <= |z| for rows of equal weight, and a leave-one-out residual is e/(1 - h): ordinary fits end here
    complement = float(xp.min(xp.clip(1.0 - leverage, EPS, None)))
    reach = 2.0 * math.sqrt(y.shape[0] * float(xp.max(weights)) / float(xp.min(weights))) / complement
    near = system.close_to_one(leverage)

    def is_small(moves: Array) -> bool:
        return bool(xp.all(reach * moves <= SURELY_KEPT * spread))

    if whitening is None:
        if factorised.diagonal is None:
            return 0.0
        diagonal = xp.sqrt(xp.abs(factorised.diagonal))
        size = EPS * C * norm(diagonal[:, None] * e)
        if is_small(float(xp.max(diagonal)) * size):
            return 0.0
        fitted, missed = (moves[:, None] * size for moves in factorised.noise(lam)[0])
        return max(share(fitted, 0.0 * fitted), share(missed, loo))
    if not whitening.rank:
        return 0.0
    if _lacks_dimensions(whitening, points, float(xp.max(C * norm(e) / spread))):
        return 1.0
    diagonal = xp.sqrt(arrays.row_squares(whitening.lower))[:, None]
    beta = norm(diagonal * arrays.solve_lower(whitening.lower, whitening.contract(coef), transpose=True))
    largest = min(float(xp.max(diagonal)), size)
    of_targets, of_gradient = EPS * largest * beta, EPS * (largest * norm(e) + lam * beta)
    if is_small(of_targets) and not (near.size or from_sums or whitening.kernel.has_finite_rank):
        return 0.0
    first, second = factorised.noise(lam, whitening.lower)
    plain = [moves[:, None] * of_targets for moves in first]
    fitted, missed = (a + b[:, None] * of_gradient for a, b in zip(plain, second, strict=True))
    if not whitening.kernel.has_finite_rank:
        lost = [share(plain[0], 0.0 * fitted), share(plain[1], loo)]
    else:
        lost = [share(fitted, 0.0 * fitted), share(missed, loo)]
    if from_sums:  # e/(1 - h) is the only formula available
        complements = xp.clip(1.0 - leverage, EPS, None)[:, None]
        lost.append(share(EPS * top / complements, loo))
        missed = fitted / complements
    if near.size:
        lost.append(share(arrays.take(missed, near), arrays.take(loo, near)))
    return max(lost)


def _lacks_dimensions(whitening: Whitening, points: Array, coefficients: float) -> bool:
    """Whether basis points are linearly dependent only because they are far from 0, and whether it matters.

    The contribution that is lost is the smallest pivot times the `coefficients` of the rows.
    """
    kernel = whitening.kernel
    if whitening.factor is None or not kernel.has_finite_rank:
        return False
    if coefficients * smallest_pivot(arrays.gram(whitening.factor.T)) <= LOST_DIGITS:
        return False
    points = points - arrays.namespace(points).mean(points, axis=0)[None, :]
    return whitening.rank < len(independent_rows(kernel.evaluate(points, points)))
