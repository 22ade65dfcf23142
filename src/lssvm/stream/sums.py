"""Models from sums over chunks of rows."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from .. import arrays, system
from ..arrays import EPS, Array
from ..problem import Problem, Whitening, rounding_error, warn_of_leverage
from ..robust import WeightFunction
from ..rules import TINY, Count, Penalty, Positive, row_weights, values
from .sources import SAMPLE_ROWS, SameRows, Sample, sample_rows, smallest_keys

# the system, and the factors from `Whitening.steps` for its columns
Solved = tuple[system.NormalEquations, tuple[Array, ...]]
SCALE_ROWS = 1_000_000  # Robust scales are computed from a sample of at most this many residuals.


@dataclass(frozen=True)
class Stream:
    """A fixed basis with its whitening, the sums over the rows so far, and a sample of these rows."""

    points: Annotated[Array, values("basis", "coordinates")]
    whitening: Whitening
    C: Penalty
    moments: system.Moments | None = None
    sample: Sample | None = None  # rows, targets, weights
    rows: int = 0
    chunks: int = 0

    def add(self, X: Array, targets: Array, weights: Array) -> Stream:
        """Return the stream with the rows of one more chunk."""
        moments = self.whitening.sums(self.whitening.steps(), X, targets, weights)
        drawn = sample_rows(SAMPLE_ROWS, self.chunks, X, targets, weights)
        sample: Sample | None = drawn
        if self.moments is not None:
            moments = self.moments + moments
            sample = None if self.sample is None else self.sample + drawn  # streams in older files have no sample
        return replace(self, moments=moments, sample=sample, rows=self.rows + X.shape[0], chunks=self.chunks + 1)

    def loo_sample(self) -> LooSample | None:
        """Return leave-one-out values of the sample, in the solution for all rows so far."""
        if self.moments is None or self.sample is None:
            return None
        equations = self.moments.system(1.0 / self.C)
        solved = equations, self.whitening.steps(equations.R, equations.condition)
        X, targets, weights = self.sample.arrays
        rows = (targets, weights, weights, *self.whitening.row_results(*solved, X, targets, weights))
        return as_loo_sample(self.whitening, solved, self.rows, X, *rows)

    def solve(self) -> tuple[Array, Array]:
        """Return the coefficients of the basis points, and bias."""
        if self.moments is None:
            raise ValueError("The stream has no rows yet: add a chunk first.")
        equations = self.moments.system(1.0 / self.C)
        if EPS * equations.condition > 1e-6:
            what = f"The sums over the chunks have a condition number of {equations.condition:.1e}"
            remedy = "Lower C, or use fit or fit_chunks, which read the rows again."
            arrays.warn(f"{what}: few digits of the coefficients are correct. {remedy}")
        return self.whitening.expand(equations.coef), equations.intercept


def start_stream(problem: Problem) -> Stream:
    """Return a stream with the kernel, C and basis of a planned problem, and no rows yet."""
    if problem.kernel.is_precomputed or problem.C is None:
        raise ValueError(f"{problem.kernel!r} cannot be fitted in chunks: give a kernel of the columns, or use fit.")
    if problem.reduced or problem.coefficients is not None:
        remedy = "use fit, or steps that only choose the basis (such as Substrate and Components with refit=True)"
        raise ValueError(f"The steps compute coefficients that sums over chunks cannot reproduce: {remedy}.")
    return Stream(problem.basis_points, problem.whitening(), problem.C)


@dataclass(frozen=True)
class LooSample:
    """Leave-one-out values of a sample of the training rows, in the solution for all rows.

    With q the centred columns of `Whitening.steps`, df(x)/dy_i is v_i (q(x)'q_i + 1/sum v): see `smoother`. All rows of
    the sample have positive weight.
    """

    whitening: Whitening
    steps: tuple[Annotated[Array, values("rank", "rank")], ...]
    centre: Annotated[Array, values("rank")]
    weight: Positive  # sum of the weights of all rows
    total: Count  # number of all rows
    X: Annotated[Array, values("sampled", "features")]
    targets: Annotated[Array, values("sampled", "outputs")]
    sample_weights: Annotated[Array, row_weights("sampled", TINY)]
    weights: Annotated[Array, row_weights("sampled", TINY)]  # sample weights times robust weights
    residuals: Annotated[Array, values("sampled", "outputs")]
    leverage: Annotated[Array, values("sampled", finite=False)]
    loo_residuals: Annotated[Array, values("sampled", "outputs", finite=False)]

    def columns(self, X: Array) -> Array:
        """Return q(x) for some rows."""
        return self.whitening.columns(self.steps, X) - self.centre[None, :]

    def smoother(self, X: Array, own: Array) -> Array:
        """Return df(x)/dy_i for some rows x (rows) and those of the sample (columns), whose columns q are `own`."""
        return self.weights[None, :] * (arrays.matmul(self.columns(X), own.T) + 1.0 / self.weight)


def as_loo_sample(whitening: Whitening, solved: Solved, total: int, X: Array, *rows: Array) -> LooSample:
    """Return the rows of a sample with positive weight; `rows` are the remaining arrays of `LooSample`."""
    equations, steps = solved
    positive_rows = np.flatnonzero(arrays.to_numpy(rows[2]) > 0)
    values = (arrays.take(array, positive_rows) for array in (X, *rows))
    return LooSample(whitening, steps, equations.centre, equations.weight, total, *values)


def resumed(sample: LooSample, points: Array, C: float, coef: Array, intercept: Array) -> Stream:
    """Return the stream that continues a fit over chunks; its sums follow from the factor R of q = R'^-1 phi."""
    whitening = sample.whitening
    # `Whitening.steps` holds the factor of the basis and R', or their product
    R = sample.steps[1].T if len(sample.steps) == 2 else arrays.solve_lower(whitening.lower, sample.steps[0]).T
    theta, mean = whitening.contract(coef), R.T @ sample.centre
    total = arrays.gram(R)  # scatter of the columns plus the ridge
    scatter = arrays.add_diagonal(total + 0.0, -1.0 / C)
    moments = system.Moments(sample.weight, mean, intercept + mean @ theta, scatter, total @ theta)
    size = positive = sample.X.shape[0]
    if size == SAMPLE_ROWS:  # estimated number of rows with positive weight
        positive = min(max(size, round(sample.weight / float(np.mean(arrays.to_numpy(sample.weights))))), sample.total)
    keys = smallest_keys(np.random.default_rng(0), size, positive)
    rows = Sample(SAMPLE_ROWS, keys, (sample.X, sample.targets, sample.weights))
    return Stream(points, whitening, C, moments, rows, sample.total, chunks=1)


@dataclass(frozen=True)
class LooPass:
    """Results of the last pass: PRESS, the largest leverage and, if requested, the per-row results of each chunk.

    `rows` has one tuple per chunk: targets, sample weights, weights, residuals, leverages, leave-one-out residuals.
    """

    press: float
    largest: float
    rows: tuple[tuple[Array, ...], ...] = ()

    def __add__(self, other: LooPass) -> LooPass:
        return LooPass(self.press + other.press, max(self.largest, other.largest), self.rows + other.rows)


@dataclass(frozen=True)
class Passes:
    """The operations of a pass over chunks of checked rows: robust weights, sums, residuals and leave-one-out."""

    whitening: Whitening
    robust: WeightFunction | None = None
    solved: Solved | None = None  # the solution whose residuals determine the robust weights
    scales: np.ndarray | None = None  # the robust scales of these residuals

    def weigh(self, X: Array, targets: Array, weights: Array) -> Array:
        """Return the sample weights times the robust weights."""
        if self.robust is None or self.solved is None or self.scales is None:
            return weights
        residuals = self.whitening.row_results(*self.solved, X, targets, weights)[0]
        return weights * arrays.like(self.robust.from_scales(arrays.to_numpy(residuals), self.scales), weights)

    def sums(self, steps: tuple[Array, ...], number: int, X: Array, targets: Array, weights: Array) -> system.Moments:
        """Return the sums of one chunk."""
        return self.whitening.sums(steps, X, targets, self.weigh(X, targets, weights))

    def gradient(self, coef: Array, intercept: Array, number: int, X: Array, targets: Array, weights: Array) -> Array:
        """Return the gradient over one chunk, for `system.refined`."""
        return self.whitening.gradient(coef, intercept, X, targets, self.weigh(X, targets, weights))

    def residuals(self, solved: Solved, number: int, X: Array, targets: Array, weights: Array) -> Sample:
        """Return a sample of the residuals of one chunk, with their sample weights."""
        e = arrays.to_numpy(self.whitening.row_results(*solved, X, targets, weights)[0])
        return sample_rows(SCALE_ROWS, number, e, arrays.to_numpy(weights))

    def loo(self, solved: Solved, keep: bool, number: int, X: Array, targets: Array, own: Array) -> LooPass:
        """Return the leave-one-out results of one chunk."""
        weights = self.weigh(X, targets, own)
        residuals, leverage, loo = self.whitening.row_results(*solved, X, targets, weights)
        xp = arrays.namespace(loo)
        largest = float(xp.max(leverage)) if X.shape[0] else 0.0
        rows = ((targets, own, weights, residuals, leverage, loo),) if keep else ()
        return LooPass(float(xp.sum(weights[:, None] * loo * loo)), largest, rows)


@dataclass(frozen=True)
class ChunkedFit:
    """A fit over chunks that can be read again; per-row results are kept only if requested."""

    passes: Passes
    solved: Solved
    loo: LooPass | None

    @property
    def coef(self) -> Array:
        """Coefficients of the basis points."""
        return self.passes.whitening.expand(self.solved[0].coef)

    def rows(self) -> tuple[Array, ...]:
        """Return the targets, sample weights, weights, residuals, leverages and leave-one-out residuals of all rows."""
        kept = self.loo.rows  # type: ignore[union-attr]
        return tuple(arrays.namespace(parts[0]).concat(parts) for parts in zip(*kept, strict=True))

    def rounding(self, sample: LooSample, points: Array, C: float) -> float:
        """Return `problem.rounding_error` as estimated from a sample of rows; `points` are all points of the basis."""
        equations, w = self.solved[0], arrays.namespace(sample.weights).sqrt(sample.weights)
        Q, centre = w[:, None] * sample.columns(sample.X), equations.R.T @ equations.centre
        R, bottom = equations.R, equations.bottom
        primal = system.Primal(Q, R, bottom, None, 1.0 / C, sample.targets, equations.mean, centre, w)
        rows = sample.residuals, sample.leverage, sample.loo_residuals
        solution = system.Solution(self.coef, equations.intercept, *rows)
        parts = (sample.whitening, points, C, sample.targets, sample.weights, solution)
        of_sample = rounding_error(primal, *parts, from_sums=True)
        return of_sample * (sample.total / w.shape[0]) ** 0.5


def fit_chunks(source: SameRows, passes: Passes, rows: int, ridge: float, *, loo: bool, keep: bool) -> ChunkedFit:
    """Fit by Cholesky QR over the chunks, with robust weights; leave-one-out takes one more pass.

    See `system.solve_in_passes`.
    """

    def solve(passes: Passes, start: system.NormalEquations | None = None) -> Solved:
        if not loo and passes.whitening.allows_plain_columns(rows, ridge):
            gradient = lambda *solution: source.reduce(functools.partial(passes.gradient, *solution))  # noqa: E731
            plain = source.reduce(functools.partial(passes.sums, ()))
            found = system.refined(plain, passes.whitening.lower, ridge, gradient)
            if found is not None:
                return found[0], (found[1],)
        steps = passes.whitening.steps
        sums = lambda R: source.reduce(functools.partial(passes.sums, steps(R)))  # noqa: E731
        equations = system.solve_in_passes(sums, ridge, start)
        return equations, steps(equations.R, equations.condition)

    solved = solve(passes)
    for _ in range(0 if passes.robust is None else passes.robust.iterations):
        assert passes.robust is not None
        residuals, weights = source.reduce(functools.partial(passes.residuals, solved)).arrays
        passes = replace(passes, solved=solved, scales=passes.robust.scales(residuals, weights))
        solved = solve(passes)
    if not loo:
        return ChunkedFit(passes, solved, None)
    while True:
        result = source.reduce(functools.partial(passes.loo, solved, keep))
        if solved[0].serves(result.largest):
            warn_of_leverage(result.largest)
            return ChunkedFit(passes, solved, result)
        solved = solve(passes, solved[0])
