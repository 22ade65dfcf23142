"""Coordinates in which the kernel matrix of the basis is the identity."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

import numpy as np
import scipy.linalg

from .. import arrays, progress, system
from ..arrays import EPS, Array, cached_property
from ..kernels import Kernel
from ..progress import share_of_work
from ..rules import indices, values

TINY = 1e-300
LOST_DIGITS = 1.2e-5  # A larger rounding error, relative to the spread of the targets, is reported.
DEPENDENT = 1e-10  # Constraints of norm 1 that are closer than this to the span of others follow from them.
SURELY_KEPT = 1e-7  # If a bound on this error is smaller, no estimate of it is made.


@dataclass(frozen=True)
class Whitening:
    """K_SS = F F' for a basis: phi(x) = F_1^-1 k_1(x) on the independent points, which hold the coefficients."""

    kernel: Kernel
    points: Annotated[Array, values("rank", "coordinates")]  # the independent ones, in the order of the factor
    lower: Annotated[Array, values("rank", "rank")]
    factor: Annotated[Array, values("basis", "rank")] | None = None  # if points were dropped
    owner: Annotated[np.ndarray, indices("basis", "rank", -1)] | None = None  # then, for every point, its equal, or -1
    free: Annotated[np.ndarray, values("rank", "free")] | None = None  # orthonormal: columns are phi(x) times these

    def tied(self, lower: Array, upper: Array) -> Whitening:
        """Return the coordinates of the functions with f(x) = f(z) for pairs of points x, z."""
        gaps = self.columns(self.steps(), upper) - self.columns(self.steps(), lower)
        norms = np.sqrt(arrays.row_squares(gaps))[:, None]
        Q, R, _ = scipy.linalg.qr((gaps / np.where(norms > 0, norms, 1.0)).T, pivoting=True)
        return replace(self, free=Q[:, np.count_nonzero(np.abs(np.diagonal(R)) > DEPENDENT) :])

    @property
    def rank(self) -> int:
        return int(self.lower.shape[0])

    def steps(self, R: Array | None = None, condition: float = math.inf) -> tuple[Array, ...]:
        """Return the lower factors that turn kernel columns into the columns phi R^-1 when applied one after the other.

        The product of both factors saves a pass of triangular solves, and its relative error is about
        eps sqrt(cond(K_SS) cond(R'R)): it is used if that is small enough; `condition` is cond(R'R).
        """
        if R is None:
            return (self.lower,)
        if EPS * math.sqrt(self._condition * condition) <= system.ORTHOGONAL:
            return (arrays.matmul(self.lower, R.T),)
        return (self.lower, R.T)

    @cached_property
    def _condition(self) -> float:
        K = arrays.gram(self.lower.T)
        norm = arrays.namespace(K).max(arrays.namespace(K).sum(abs(K), axis=0))
        return arrays.condition(self.lower, norm, arrays.invert_lower(self.lower + 0.0))

    def allows_plain_columns(self, rows: int, ridge: float) -> bool:
        """Return whether sums of kernel columns without whitening are likely to be accurate enough for that many rows.

        This is decided as if the rows were copies of the basis points, possibly with one row at their mean, without
        which no sum over so few distinct rows has full rank.
        """
        K = arrays.gram(self.lower.T)
        G, mean = arrays.gram(K), arrays.namespace(K).mean(K, axis=0)
        sums = (G - count * mean[:, None] * mean[None, :] for count in (self.rank, self.rank - 1))
        condition = min(system.cholesky_pass(rows / self.rank * scatter + ridge * K)[1] for scatter in sums)
        return EPS * condition <= system.PLAIN

    def sums(self, steps: tuple[Array, ...], X: Array, targets: Array, weights: Array) -> system.Moments:
        """Return sums of columns and targets over rows, in blocks that stay within the working memory."""
        blocks = ((self.columns(steps, X[rows, :]), targets[rows, :], weights[rows]) for rows in self._blocks(X))
        return system.moments_of(blocks, self.rank, targets.shape[1], self.lower)

    def gradient(self, coef: Array, intercept: Array, X: Array, targets: Array, weights: Array) -> Array:
        """Return the sum of v (k, 1)'(t - f) over rows, for a bias and coefficients of the independent points."""
        total = arrays.zeros((self.rank + 1, targets.shape[1]), self.lower)
        for rows in self._blocks(X):
            K = self.kernel.evaluate(X[rows, :], self.points)
            e = weights[rows, None] * (targets[rows, :] - arrays.matmul(K, coef) - intercept[None, :])
            total[:-1, :] += K.T @ e
            total[-1, :] += arrays.namespace(e).sum(e, axis=0)
        return total

    def row_results(
        self, summed: system.NormalEquations, steps: tuple[Array, ...], X: Array, targets: Array, weights: Array
    ) -> tuple[Array, Array, Array]:
        """Return the residuals, leverages and leave-one-out residuals of rows, given a system from sums."""
        out = (targets + 0.0, weights + 0.0, targets + 0.0)
        for rows in self._blocks(X):
            columns = self.columns(steps, X[rows, :])
            residuals, leverage, loo = summed.row_results(columns, targets[rows, :], weights[rows])
            out[0][rows, :], out[1][rows], out[2][rows, :] = residuals, leverage, loo
        return out

    def columns(self, steps: tuple[Array, ...], X: Array) -> Array:
        """Return kernel columns of some rows after applying `steps`, rows x rank."""
        columns = self.kernel.evaluate(X, self.points)
        for lower in steps:
            columns = arrays.whiten_rows(columns, lower)
        return columns if self.free is None else columns @ self.free

    def _blocks(self, X: Array) -> Iterator[slice]:
        # adding the sums of two blocks costs as much as a few rows per column
        for rows in arrays.row_blocks(X.shape[0], 8 * self.rank, X, least=2 * self.rank):
            yield rows
            progress.did(partial(share_of_work, rows, self.rank))

    def expand(self, theta: Array) -> Array:
        """Return the coefficients of all basis points, with those of independent points divided equally among copies.

        A point that depends on others only to working precision gets 0, as its column differs from that of the factor.
        """
        theta = theta if self.free is None else self.free @ theta
        coef = arrays.solve_lower(self.lower, theta, transpose=True)
        if self.owner is None:
            return coef
        shared = self.owner >= 0
        counts = np.bincount(self.owner[shared], minlength=self.rank)
        coef = coef / arrays.like(counts.astype(float), coef)[:, None]
        full = arrays.zeros((len(self.owner), theta.shape[1]), theta)
        return arrays.put(full, np.flatnonzero(shared), arrays.take(coef, self.owner[shared]))

    def contract(self, coef: Array) -> Array:
        """Return the inverse of `expand`: weights of the whitened columns from coefficients of all basis points."""
        if self.owner is not None:
            shared, total = self.owner >= 0, np.zeros((self.rank, coef.shape[1]))
            np.add.at(total, self.owner[shared], arrays.to_numpy(coef)[shared])
            coef = arrays.like(total, coef)
        return self.lower.T @ coef


def whiten(kernel: Kernel, points: Array, K: Array, *, quick: bool = False) -> Whitening:
    """Factor the kernel matrix K of the basis; points that depend on others to working precision get no column.

    With `quick`, to compare settings, a small penalty replaces pivoting on accelerators, where pivoting is expensive.
    """
    xp = arrays.namespace(K)
    n, tolerance = K.shape[0], smallest_pivot(K)
    L = arrays.cholesky(0.5 * (K + K.T))
    if L is not None and float(xp.min(xp.linalg.diagonal(L))) ** 2 > tolerance:
        return Whitening(kernel, points, L)
    K = 0.5 * (K + K.T)
    if quick and tolerance > 0 and not arrays.is_numpy(K):
        L = arrays.cholesky(arrays.add_diagonal(K + 0.0, 2.0 * tolerance))
        if L is not None:
            return Whitening(kernel, points, L)
    factor, pivots = arrays.pivoted_cholesky(K, tolerance)
    group = np.unique(arrays.to_numpy(points), axis=0, return_inverse=True)[1].reshape(-1)
    owner = np.full(n, -1)
    for place, pivot in enumerate(pivots):
        owner[group == group[pivot]] = place
    return Whitening(kernel, arrays.take(points, pivots), arrays.take(factor, pivots), factor, owner)


def independent_rows(K: Array) -> np.ndarray:
    """Return the numbers of rows of a kernel matrix on which all others depend linearly, to working precision."""
    return arrays.pivoted_cholesky(0.5 * (K + K.T), smallest_pivot(K))[1]


def smallest_pivot(K: Array) -> float:
    xp = arrays.namespace(K)
    return K.shape[0] * EPS * max(float(xp.max(xp.linalg.diagonal(K))), 0.0)


# Rounding errors ------------------------------------------------------------------------------------------------------
@np.errstate(over="ignore", invalid="ignore")  # an estimate that is not finite counts as 1
def rounding_error(
    factorised: system.System,
    whitening: Whitening | None,
    points: Array,
    C: float,
    y: Array,
    weights: Array,
    solution: system.Solution,
    *,
    from_sums: bool = False,
    size: float = math.inf,
) -> float:
    """Return the estimated rounding error of fitted and leave-one-out values.

    It is relative to the spread of the targets, or to the values where these are larger.

    Kernel values have relative errors of eps. They change the solution like errors of size
    eps sqrt(k_ii) |sqrt(k_jj) alpha_j| in the targets: a few random errors of that size are fitted with the factorised
    system. New rows are about as sensitive as rows that are left out; rows far from all others are more sensitive.

    With a smaller basis the errors change the gradient as well. That matters for rows with leverage near 1 and for
    kernels of finite rank; otherwise it concerns only points that float64 cannot distinguish from others, which most
    large bases have. `size` is the largest sqrt(k_ii) of the rows, if they may be smaller than the basis points.
    """
    xp, lam, e, leverage = arrays.namespace(y), 1.0 / C, weights[:, None] * solution.residuals, solution.leverage
    norm = lambda values: xp.sqrt(xp.sum(values * values, axis=0))[None, :]  # noqa: E731
    mean, top = xp.mean(y, axis=0)[None, :], xp.max(xp.abs(y), axis=0)[None, :]
    spread = xp.max(xp.abs(y - mean), axis=0)[None, :] + TINY
    loo, floor = xp.abs(solution.loo_residuals), 100.0 * EPS * top  # rounding of targets far from 0

    def share(moves: Array, values: Array) -> float:
        largest = float(xp.max((xp.abs(moves) - floor) / xp.maximum(spread + 0.0 * values, values)))
        return max(0.0, largest) if math.isfinite(largest) else 1.0

    # |H z| <= |z| for rows of equal weight, and a leave-one-out residual is e/(1 - h): ordinary fits end here
    complement = float(xp.min(xp.clip(1.0 - leverage, EPS, None)))
    reach = 2.0 * math.sqrt(y.shape[0] * float(xp.max(weights)) / float(xp.min(weights))) / complement
    surely_kept = SURELY_KEPT * spread / reach
    if whitening is None:
        if factorised.diagonal is None:
            return 0.0
        diagonal = xp.sqrt(xp.abs(factorised.diagonal))
        size = EPS * C * norm(diagonal[:, None] * e)
        if bool(xp.all(float(xp.max(diagonal)) * size <= surely_kept)):
            return 0.0
        fitted, missed = (moves[:, None] * size for moves in factorised.noise(lam)[0])
        return max(share(fitted, 0.0 * fitted), share(missed, loo))
    if not whitening.rank or whitening.free is not None:  # `fit_monotonic` compares predictions and residuals
        return 0.0
    if whitening.factor is not None and whitening.kernel.has_finite_rank:
        pivot = smallest_pivot(arrays.gram(whitening.factor.T))
        matters = float(xp.max(C * norm(e) / spread)) * pivot > LOST_DIGITS
        if matters and lacks_dimensions(whitening.kernel, points, whitening.rank):
            return 1.0
    diagonal = xp.sqrt(arrays.row_squares(whitening.lower))[:, None]
    beta = norm(diagonal * arrays.solve_lower(whitening.lower, whitening.contract(solution.coef), transpose=True))
    largest, near = min(float(xp.max(diagonal)), size), np.flatnonzero(arrays.to_numpy(1.0 - leverage) < system.CAREFUL)
    of_targets, of_gradient = EPS * largest * beta, EPS * (largest * norm(e) + lam * beta)
    surely = bool(xp.all(of_targets <= surely_kept))
    if surely and not (near.size or from_sums or whitening.kernel.has_finite_rank):
        return 0.0
    first, second = factorised.noise(lam, whitening.lower)
    plain = [moves[:, None] * of_targets for moves in first]
    fitted, missed = (a + b[:, None] * of_gradient for a, b in zip(plain, second, strict=True))
    most = (fitted, missed) if whitening.kernel.has_finite_rank else plain
    lost = [share(most[0], 0.0 * fitted), share(most[1], loo)]
    if from_sums:  # e/(1 - h) is the only formula available
        complements = xp.clip(1.0 - leverage, EPS, None)[:, None]
        lost.append(share(EPS * top / complements, loo))
        missed = fitted / complements
    if near.size:
        lost.append(share(arrays.take(missed, near), arrays.take(loo, near)))
    return max(lost)


def lacks_dimensions(kernel: Kernel, points: Array, rank: int) -> bool:
    """Return whether points span fewer dimensions than about their mean, as far from 0 the kernel loses some."""
    points = points - arrays.namespace(points).mean(points, axis=0)[None, :]
    return rank < len(independent_rows(kernel.evaluate(points, points)))
