"""The size of the noise as a function of x: a second model, fitted to the leave-one-out residuals of the first."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace

import numpy as np

from .. import arrays
from ..arrays import Array, cached_property
from ..kernels import Additive, Kernel, Matern
from ..problem import Problem, columns_by_input
from ..robust import Hampel
from ..rules import Penalty
from ..tune.leave_one_out import tuned
from .loo import FittedLoo

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # The interval scores of these coverages are compared.
BEYOND_CHANCE = 2.0  # The noise is uneven if the interval score gains this many standard errors.
FEWEST_ROWS = 30  # With fewer rows, the noise counts as even.
OUTLIERS = Hampel(c1=4.0, c2=5.0)  # Errors beyond about five standard deviations do not raise the scale nearby.
SMALLEST = 0.15  # The square root of a scale is at least this multiple of that of the median residual.
DENSE_ROWS, BASIS_SIZE = 1000, 300  # With more rows than this, the scale is fitted on that many basis points.
ADDITIVE_COLUMNS = 10  # Up to this many columns, the scale is additive, which has fewer ways to follow chance.


@dataclass(frozen=True)
class ScaleChoice:
    """What was chosen for the scale; the rest follows from the rows and their residuals."""

    kernel: Kernel
    C: Penalty
    uneven: tuple[bool, ...]  # for every output, whether the noise varies beyond chance


@dataclass(frozen=True)
class NoiseScale:
    """The size s of the noise of k outputs, up to a factor: the square of a model of sqrt|r_i|.

    The square root makes absolute values of normal errors nearly symmetric, so that least squares is efficient, and
    keeps outliers small. The scale without row i holds the residuals of the other rows fixed.
    """

    model: FittedLoo  # of sqrt|r|
    choice: ScaleChoice
    active: np.ndarray  # (k,)  outputs whose scale varies; the others have s = 1

    @cached_property
    def own(self) -> np.ndarray:
        """s_(i)(x_i) of the training rows, (l, k)."""
        roots = arrays.to_numpy(self.model.problem.y)[self.model.rows]
        return self._scale(roots - self.model.residuals)

    def predictions(self, X: Array) -> np.ndarray:
        """Return s_(i)(x) of new rows, (m, l, k)."""
        return self._scale(self.model.predictions(X))

    def folds(self, labels: np.ndarray) -> NoiseScale:
        """Return the same scale with whole folds left out instead of rows."""
        return replace(self, model=self.model.folds(labels))

    def _scale(self, roots: np.ndarray) -> np.ndarray:
        return np.where(self.active, np.maximum(roots, SMALLEST) ** 2, 1.0)

    def where_uneven(self) -> NoiseScale | None:
        """Return the scale of the outputs whose noise varies beyond chance; None if there are none."""
        uneven = np.array(self.choice.uneven)
        return replace(self, active=uneven) if uneven.any() else None


def noise_scale(table: Problem, residuals: np.ndarray, known: ScaleChoice | None = None) -> NoiseScale | None:
    """Return the scale of the noise, from the leave-one-out residuals (l, k) of the rows of positive weight in `table`.

    A precomputed kernel is that of `table`; other kernels are searched. `known` is an earlier result for the same rows,
    which saves the search. The noise of an output has no size if most of its residuals are 0; the result is None if
    that is true of all outputs, or if there are fewer than 3 rows.
    """
    size = np.abs(residuals)
    middle = np.median(size, axis=0)
    sized = middle > 0
    if len(size) < 3 or not sized.any() or not np.isfinite(size).all():
        return None
    roots = np.zeros((table.X.shape[0], size.shape[1]))
    roots[table.rows] = np.where(sized, np.sqrt(size / np.where(sized, middle, 1.0)), 1.0)
    requested = _problem(table, roots, known)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # C at the edge means that the noise is even
        problem = tuned(requested)
        fit = problem.replace(robust=OUTLIERS).solve()
        outlying = arrays.to_numpy(fit.weights) < arrays.to_numpy(problem.weights)
        if known is None and outlying.any():  # these rows took part in the choice
            again = tuned(requested.replace(weights=fit.weights))
            problem = problem.replace(kernel=again.kernel, C=again.C)
            fit = problem.replace(robust=OUTLIERS).solve()
    if known is not None:
        return NoiseScale(FittedLoo(problem, fit), known, sized)
    found = NoiseScale(FittedLoo(problem, fit), ScaleChoice(fit.kernel, fit.C, tuple(sized.tolist())), sized)
    uneven = [varies_beyond_chance(*columns) for columns in zip(size.T, found.own.T, strict=True)]
    return replace(found, choice=replace(found.choice, uneven=tuple((sized & uneven).tolist())))


def _problem(table: Problem, roots: np.ndarray, known: ScaleChoice | None) -> Problem:
    """Return the problem of fitting sqrt|r|, on a part of the rows as the basis if there are many."""
    kernel, C, groups = table.kernel, None if known is None else known.C, table.groups
    problem = Problem(Matern(nu=0.5), table.X, arrays.like(roots, table.X), table.weights, C=C, groups=groups)
    problem = problem.replace(row_groups=table.row_groups)
    if known is not None:
        kernel = known.kernel
    elif not kernel.is_precomputed:
        few = problem.spreads.varying_inputs <= ADDITIVE_COLUMNS
        components = None if groups is None else columns_by_input(groups)
        kernel = Additive(problem.kernel, components) if few else Matern(nu=0.5, ard=True)
    problem = problem.replace(kernel=kernel, asked=(kernel, C))
    many = len(problem.rows) > DENSE_ROWS
    return problem.with_basis(problem.rows_by_content[:BASIS_SIZE]) if many else problem


def varies_beyond_chance(size: np.ndarray, scale: np.ndarray) -> bool:
    """Return whether the scale lowers the leave-one-out interval score of the residuals by more than chance."""
    gain = interval_scores(size, np.ones(len(size))) - interval_scores(size, scale)
    return len(gain) >= FEWEST_ROWS and bool(gain.mean() > BEYOND_CHANCE * gain.std() / math.sqrt(len(gain)))


def interval_scores(size: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the interval scores (Gneiting & Raftery 2007) of symmetric intervals, summed over several coverages.

    The half-width is the scale times the quantile of size/scale; the score of coverage 1 - a is multiplied by a/2, so
    that all coverages count alike.
    """
    n, total = len(size), np.zeros(len(size))
    ordered = np.sort(size / scale)
    for coverage in LEVELS:
        half = scale * ordered[min(math.ceil(round(coverage * (n + 1), 9)), n) - 1]
        total += (1.0 - coverage) * half + np.maximum(size - half, 0.0)
    return total
