"""Orthonormal columns by Cholesky QR: of columns in memory, or of rows that are read in passes and only summed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from .. import arrays
from ..arrays import EPS, Array, NumericalError
from ..rules import Positive, values
from .solution import CAREFUL, PROBES, random_signs

ORTHOGONAL = 1e-10  # A larger loss of orthogonality, amplified by leave-one-out, requires another pass.
SURE = 10.0  # The expected loss has this safety factor: actual losses were 0.7 to 9 times the expected ones.
QUICK = 1e-6  # This loss is acceptable for comparing settings: leave-one-out keeps about six digits.
PLAIN = 1e-5  # This loss is acceptable for sums of plain columns: of these, only the solution is refined.
REFINED = 1e-12  # Below this error, a solution is not refined further.
SUMMED = 1e-9  # A larger loss of orthogonality of sums requires another pass over the rows.
PASSES = 6  # There are at most this many passes.


def orthogonalise(
    A: Array,
    bottom: Array | float,
    tolerance: float = ORTHOGONAL,
    loss: float = arrays.LOSS,
    *,
    for_own_rows: bool = True,
) -> tuple[Array, Array, Array, float, Array]:
    """Factorise [A; bottom] = [Q; B] R with orthonormal columns in as many passes as needed; A is overwritten.

    Returns Q, B, R, the condition number of the last pass and the squared norms of the rows of Q. A number as `bottom`
    stands for a multiple of the identity; `loss` is that of `arrays.whiten_rows`.

    One pass costs a Gram matrix and a triangular solve, which the leverages need anyway, and gives Q'Q + B'B = I up to
    about eps * cond([A; bottom])^2. If neither that bound nor (with `for_own_rows`) the often far smaller error
    expected for these rows is small enough for leave-one-out, another pass is made on the result. A matrix too
    ill-conditioned for a Cholesky factor first gets a small shift (shifted Cholesky QR), which costs a pass but no
    accuracy.
    """
    R = None
    for _ in range(PASSES):
        G, multiple = arrays.gram(A), isinstance(bottom, float)
        G = arrays.add_diagonal(G, bottom * bottom) if multiple else G + arrays.gram(bottom)
        lower, condition, inverse = cholesky_pass(G)
        bottom = bottom * inverse.T if multiple else arrays.whiten_rows(bottom, lower, loss)
        A = arrays.whiten_rows(A, lower, 0.0, arrays.accurate(inverse, lower, loss))
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
    """Return the estimated relative change of 1 - h of every row due to rounding errors in the Gram matrix L L'.

    Errors of eps, relative to its diagonal D, change a leverage by eps |D^1/2 L^-T q|^2 or a few times as much: they
    are large in directions in which most rows have only small components. Random signs replace the triangular solve
    that this norm would need.
    """
    xp = arrays.namespace(Q)
    scaled = xp.sqrt(arrays.row_squares(lower))[:, None] * random_signs(lower.shape[0], lower)
    squares = arrays.row_squares(arrays.matmul(Q, arrays.solve_lower(lower, scaled))) / PROBES
    return EPS * squares / (1.0 - leverage)


@np.errstate(over="ignore", divide="ignore", invalid="ignore")  # non-finite results raise an error
def cholesky_pass(G: Array) -> tuple[Array, float, Array]:
    """Return the lower factor of a Gram matrix, its condition number at unit diagonal, and the inverse of the factor.

    The condition number is infinite if a shift was needed.
    """
    xp = arrays.namespace(G)
    n = G.shape[0]
    scale = xp.sqrt(xp.linalg.diagonal(G))
    scale = xp.where(scale > 0, scale, scale + 1.0)
    G = G / (scale[:, None] * scale[None, :])
    norm = xp.max(xp.sum(xp.abs(G), axis=0)) if n else 1.0
    L, shift = arrays.cholesky(G + 0.0), n * EPS
    while L is None and math.isfinite(shift):
        shift *= 10.0
        L = arrays.cholesky(arrays.add_diagonal(G + 0.0, shift))
    if L is None:
        raise NumericalError("The kernel columns are not finite: scale your features.")
    inverse = arrays.invert_lower(L + 0.0)
    condition = arrays.condition(L, norm, inverse) if shift == n * EPS else math.inf
    return scale[:, None] * L, condition, inverse / scale[None, :]


# Sums over rows -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Moments:
    """Weighted, centred sums of whitened columns phi and targets t over rows; ``+`` joins two sets of rows."""

    weight: Positive  # sum v
    phi: Annotated[Array, values("rank")]  # weighted mean
    targets: Annotated[Array, values("outputs")]  # weighted mean
    scatter: Annotated[Array, values("rank", "rank")]  # sum v (phi - mean)(phi - mean)'
    cross: Annotated[Array, values("rank", "outputs")]  # sum v (phi - mean)(t - mean)'

    def __add__(self, other: Moments) -> Moments:
        weight = self.weight + other.weight
        if weight == 0.0:
            return self
        share = other.weight / weight
        step, rise = other.phi - self.phi, other.targets - self.targets
        between = self.weight * share
        return Moments(
            weight,
            self.phi + share * step,
            self.targets + share * rise,
            arrays.add_outer(self.scatter + other.scatter, between * step, step),
            self.cross + other.cross + between * step[:, None] * rise[None, :],
        )

    def system(self, ridge: float) -> NormalEquations:
        """Return the system of rows that cannot be read again."""
        return solve_in_passes(lambda _: self, ridge, passes=1)


def moments_of(blocks: Iterable[tuple[Array, Array, Array]], rank: int, outputs: int, like: Array) -> Moments:
    """Return the moments of blocks of rows (phi, targets, weights); the columns phi are overwritten."""
    shapes = (rank,), (outputs,), (rank, rank), (rank, outputs)
    total = Moments(0.0, *(arrays.zeros(shape, like) for shape in shapes))
    for phi, targets, weights in blocks:
        xp, weight = arrays.namespace(phi), float(arrays.namespace(phi).sum(weights))
        if weight == 0.0:
            continue
        mean, mean_target = (weights @ phi) / weight, (weights @ targets) / weight
        phi -= mean[None, :]
        w = xp.sqrt(weights)[:, None]
        if not bool(xp.all(w == 1.0)):
            phi *= w
        cross = phi.T @ (w * (targets - mean_target[None, :]))
        total = total + Moments(weight, mean, mean_target, arrays.gram(phi), cross)
    return total


@dataclass(frozen=True)
class NormalEquations:
    """A primal system from sums over rows that are not stored: f = mean + (q - c)'p in the columns q = phi R^-1."""

    R: Array  # (r, r)  upper triangular
    bottom: Array  # (r, r)  sqrt(ridge) R^-1
    projected: Array  # (r, k)  p
    centre: Array  # (r,)  c
    mean: Array  # (k,)
    weight: float
    condition: float  # of the last Gram matrix

    @property
    def coef(self) -> Array:
        """Weights of the whitened columns."""
        return arrays.solve_lower(self.R.T, self.projected, transpose=True)

    @property
    def intercept(self) -> Array:
        """The bias."""
        return self.mean - self.centre @ self.projected

    def row_results(self, q: Array, targets: Array, weights: Array) -> tuple[Array, Array, Array]:
        """Return residuals, leverages and leave-one-out residuals of rows from their columns q (overwritten)."""
        xp = arrays.namespace(q)
        q -= self.centre[None, :]
        residuals = targets - self.mean[None, :] - q @ self.projected
        leverage = weights * (arrays.row_squares(q) + 1.0 / self.weight)
        return residuals, leverage, residuals / xp.clip(1.0 - leverage, EPS, None)[:, None]

    def serves(self, leverage: float) -> bool:
        """Return whether leave-one-out is accurate enough, given the largest leverage; see `orthogonalise`."""
        h = min(leverage, 1.0 - CAREFUL)
        return EPS * self.condition * h / (1.0 - h) <= ORTHOGONAL


def solve_in_passes(
    total: Callable[[Array | None], Moments],
    ridge: float,
    start: NormalEquations | None = None,
    *,
    passes: int = PASSES,
) -> NormalEquations:
    """Do Cholesky QR as in `orthogonalise`, for rows read in passes: total(R) sums over the columns phi R^-1.

    R = None stands for the identity. With `start`, one more pass is added to those of that system.
    """
    R, bottom = (None, None) if start is None else (start.R, start.bottom + 0.0)
    for _ in range(passes):
        sums = total(R)
        if R is None or bottom is None:
            R = arrays.identity(sums.scatter.shape[0], sums.scatter)
            bottom = math.sqrt(ridge) * R
        lower, condition, _ = cholesky_pass(sums.scatter + arrays.gram(bottom))
        R, bottom = lower.T @ R, arrays.whiten_rows(bottom, lower)
        if EPS * condition <= SUMMED:
            break
    centre, projected = arrays.solve_lower(lower, sums.phi[:, None])[:, 0], arrays.solve_lower(lower, sums.cross)
    return NormalEquations(R, bottom, projected, centre, sums.targets, sums.weight, condition)


def refined(
    sums: Moments, lower: Array, ridge: float, gradient: Callable[[Array, Array], Array]
) -> tuple[NormalEquations, Array] | None:
    """Return the system from sums of plain kernel columns k = L phi, L = `lower`, and its factor T with q = T^-1 k.

    T T' = K'K + ridge L L' (weighted and centred) avoids whitening every row, at the price of as many digits as the
    condition number has. `gradient(coefficients, bias)`, the sum of v (k, 1)'(t - f) over the rows, restores those of
    the solution; leverages keep about five. The result is None if they would keep fewer.
    """
    xp = arrays.namespace(lower)
    penalty = ridge * arrays.gram(lower.T)
    T, condition, _ = cholesky_pass(sums.scatter + penalty)
    if EPS * condition > PLAIN:
        return None
    projected = arrays.solve_lower(T, sums.cross)
    for _ in range(3):
        coef = arrays.solve_lower(T, projected, transpose=True)
        total = gradient(coef, sums.targets - sums.phi @ coef)
        step = arrays.solve_lower(T, total[:-1, :] - sums.phi[:, None] * total[-1:, :] - penalty @ coef)
        projected = projected + step
        change = float(xp.linalg.vector_norm(step)) / (float(xp.linalg.vector_norm(projected)) or 1.0)
        if change * change <= REFINED:  # each step gains as many correct digits as the first solution had
            break
    bottom = math.sqrt(ridge) * arrays.solve_lower(T, lower).T
    R, centre = arrays.solve_lower(lower, T).T, arrays.solve_lower(T, sums.phi[:, None])[:, 0]
    return NormalEquations(R, bottom, projected, centre, sums.targets, sums.weight, condition), T
