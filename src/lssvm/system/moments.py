"""Sums over rows, added chunk by chunk, and the linear systems that follow from them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from .. import arrays
from ..arrays import EPS, Array
from ..rules import Positive, values
from .orthogonal import ORTHOGONAL, cholesky_pass
from .solution import CAREFUL

PLAIN = 1e-5  # acceptable loss with sums of plain columns: the solution is refined, the leverages are not
REFINED = 1e-12  # error below which a solution is not refined further
SUMMED = 1e-9  # loss of orthogonality above which sums need another pass over the rows: the accuracy of leave-one-out


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
            self.scatter + other.scatter + between * step[:, None] * step[None, :],
            self.cross + other.cross + between * step[:, None] * rise[None, :],
        )

    def solve(self, ridge: float) -> tuple[Array, Array, float]:
        """Weights of the whitened columns, bias, and the condition number of the system."""
        system = self.system(ridge)
        return system.coef, system.intercept, system.condition

    def system(self, ridge: float) -> NormalEquations:
        """The system of rows that cannot be read again."""
        lower, condition, _ = cholesky_pass(arrays.add_diagonal(self.scatter + 0.0, ridge))
        bottom = arrays.whiten_rows(math.sqrt(ridge) * arrays.identity(lower.shape[0], lower), lower)
        projected, centre = arrays.solve_lower(lower, self.cross), arrays.solve_lower(lower, self.phi[:, None])[:, 0]
        return NormalEquations(lower.T, bottom, projected, centre, self.targets, self.weight, condition)


class MomentAccumulator:
    """Accumulates moments over blocks of rows, relative to the means of the first block."""

    def __init__(self, rank: int, outputs: int, like: Array) -> None:
        self.weight, self.phi = 0.0, arrays.zeros((rank,), like)
        self.targets = arrays.zeros((outputs,), like)
        self.scatter: Array | None = None
        self.cross = arrays.zeros((rank, outputs), like)
        self.means: tuple[Array, Array] | None = None

    def add(self, phi: Array, targets: Array, weights: Array) -> None:
        """Add one block; phi is overwritten."""
        xp = arrays.namespace(phi)
        total = float(xp.sum(weights))
        if total == 0.0:
            return
        if self.means is None:
            self.means = (weights @ phi) / total, (weights @ targets) / total
        phi -= self.means[0][None, :]
        targets = targets - self.means[1][None, :]
        self.weight += total
        self.phi, self.targets = self.phi + weights @ phi, self.targets + weights @ targets
        w = xp.sqrt(weights)[:, None]
        if not bool(xp.all(w == 1.0)):
            phi *= w
        self.scatter, self.cross = arrays.add_gram(self.scatter, phi), self.cross + phi.T @ (w * targets)

    def moments(self) -> Moments:
        """The sums of all blocks so far."""
        if self.means is None or self.scatter is None:
            rank = self.cross.shape[0]
            return Moments(0.0, self.phi, self.targets, arrays.zeros((rank, rank), self.phi), self.cross)
        step, rise = self.phi / self.weight, self.targets / self.weight
        scatter = arrays.add_outer(arrays.mirrored(self.scatter), -self.weight * step, step)
        cross = self.cross - self.weight * step[:, None] * rise[None, :]
        return Moments(self.weight, self.means[0] + step, self.means[1] + rise, scatter, cross)


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
        """Residuals, leverages and leave-one-out residuals of some rows from their columns q, which are overwritten."""
        xp = arrays.namespace(q)
        q -= self.centre[None, :]
        residuals = targets - self.mean[None, :] - q @ self.projected
        leverage = weights * (arrays.row_squares(q) + 1.0 / self.weight)
        return residuals, leverage, residuals / xp.clip(1.0 - leverage, EPS, None)[:, None]

    def serves(self, leverage: float) -> bool:
        """Whether leave-one-out is accurate enough, given the largest leverage; see `orthogonalise`."""
        h = min(leverage, 1.0 - CAREFUL)
        return EPS * self.condition * h / (1.0 - h) <= ORTHOGONAL


def solve_in_passes(
    total: Callable[[Array | None], Moments], ridge: float, start: NormalEquations | None = None
) -> NormalEquations:
    """Cholesky QR as in `orthogonalise`, for rows that are read in passes: total(R) sums over the columns phi R^-1.

    R = None stands for the identity. With `start`, one more pass is added to those of that system.
    """
    R, bottom = (None, None) if start is None else (start.R, start.bottom + 0.0)
    for _ in range(6):
        sums = total(R)
        if R is None or bottom is None:
            R = arrays.identity(sums.scatter.shape[0], sums.scatter)
            bottom = math.sqrt(ridge) * R
        lower, condition, _ = cholesky_pass(sums.scatter + arrays.gram(bottom))
        R, bottom = lower.T @ R, arrays.whiten_rows(bottom, lower)
        if EPS * condition <= SUMMED:
            break
    projected, centre = arrays.solve_lower(lower, sums.cross), arrays.solve_lower(lower, sums.phi[:, None])[:, 0]
    return NormalEquations(R, bottom, projected, centre, sums.targets, sums.weight, condition)


def refined(
    sums: Moments, lower: Array, ridge: float, gradient: Callable[[Array, Array], Array]
) -> tuple[NormalEquations, Array] | None:
    """The system from sums of plain kernel columns k = L phi, L = `lower`, and its factor T with q = T^-1 k.

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
    R, centre = arrays.solve_lower(lower, T).T, arrays.solve_lower(T, sums.phi[:, None])[:, 0]
    bottom = math.sqrt(ridge) * arrays.solve_lower(T, lower).T
    return NormalEquations(R, bottom, projected, centre, sums.targets, sums.weight, condition), T
