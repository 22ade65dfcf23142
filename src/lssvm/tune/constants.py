"""The constants of the search, and the samples on which it runs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from .. import arrays
from ..problem import Problem, order_by_content

# Widths of a dense model of more rows are searched first with a basis, then on a dense sample of this many rows. Its C
# comes from a few factorisations, which take less time than the eigenvalues.
DENSE_ROWS = 2000
ITERATIVE_SAMPLE = 5000  # C of dense models that are too large for a factorisation is chosen on so many rows.
QUICK = 0.2  # Below this effort, other scales, larger bases, and kernels, losses and codings of classes are not tried.
ROWS_PER_CLASS = 20  # A sample holds at least this many rows of each class, if the class has as many.


@dataclass(frozen=True)
class Constants:
    """What a search tries, on how many rows, and when it stops.

    Widths are in units of the spread of their column. The evidence is that of 29 public regression tables with 86 to
    18,000 rows and 19 tables with classes, unless stated otherwise; `python -m benchmarks.constants` measures the
    effect of halving and doubling each constant.
    """

    # Starting points --------------------------------------------------------------------------------------------------
    # The search starts from the best of these common widths: the least, the largest and their number, in units of
    # the root of the number of columns.
    widths: tuple[float, float, int] = (0.2, 20.0, 7)
    # These values of 1/C are compared, in units of the variance of the kernel over the rows: the least, the largest and
    # their number.
    ridges: tuple[float, float, int] = (1e-9, 1e3, 37)
    # The common widths are compared on this many rows, and dense models of no more rows have a single stage.
    start_rows: int = 300
    # A column starts with a narrow width if its standardised effect, alone or in a pair, exceeds this. By chance,
    # one of the 496 pairs of 32 columns exceeds 5 in one table of ten, and 4 in every second one.
    relevant: float = 5.0

    # Samples and stages -----------------------------------------------------------------------------------------------
    # The first stage of a model with a basis uses this many rows and basis points. With (1000, 150) the error of
    # a table with 4 relevant columns of 32 (puma32H) was 0.246 instead of 0.180; (3000, 300) took twice as long
    # for a gain below 1 %.
    trial: tuple[int, int] = (2000, 250)
    # The same holds for dense models of more than `start_rows` rows: an evaluation with 150 basis points takes a
    # third of the time of a dense one with 500 rows, and a tenth with 1000.
    dense_trial: tuple[int, int] = (2000, 150)
    # The last stage of a model with a basis uses this many rows and basis points; (6000, 1000) took three times
    # as long as no last stage, and gained 1 % on average.
    last_stage: tuple[int, int] = (3000, 1000)
    # The last stage of a dense model uses this many rows. With 2000, balloon (1600 rows) took 52 s instead of 17.
    dense_stage: int = 1000
    # Widths are searched again on the last stage if its larger basis lowers log PRESS by this much. A value of 0.02
    # changed the error of small tables from 0.888 to 0.885. In 24 splits, the gain was above 0.2 where a second search
    # paid off, and below 0.05 elsewhere.
    limited: float = 0.1
    # The sample of a search for a classifier takes as much work as this many rows of two classes, and has at least and
    # at most so many rows.
    class_rows: tuple[int, int, int] = (550, 200, 1500)

    # Iterations -------------------------------------------------------------------------------------------------------
    # A search takes at most this many iterations if its start is nearly right, such as widths that another kernel has
    # found, and with fewer than `width_rows` samples per width, where more iterations would fit the noise. A search for
    # a classifier takes at most twice as many for a common factor of the widths, and three times as many for one width
    # per column: up to 50 changed the log loss of none of 13 tables. Other searches end where they gain too little.
    few_iterations: int = 6
    # A search ends when an iteration lowers log PRESS by less.
    slow: float = 1e-3

    # One width per column ---------------------------------------------------------------------------------------------
    # The log widths have a prior with this standard deviation about their mean. The error on the 17 tables below 1000
    # rows was 0.877 with 0.25 and 0.888 with 0.5. With 1.0, that of the worst table was 1.29 instead of 1.13.
    width_prior: float = 0.25
    # The prior of a search for a classifier is wider: with 0.25, the log loss of the table segment rose by 20 %.
    class_width_prior: float = 0.5
    # With more samples per width than this, the standard deviation of the prior grows in proportion.
    width_rows: int = 50
    # One width per column is kept if each lowers the negative log likelihood of leave-one-out by this much. In a
    # stack it is always kept, because the weights decide: the error was then 0.910 instead of 0.931.
    worth: float = 3.5
    # One width per column and fewer columns are kept for classes if the gain in log loss, on rows not used to
    # choose them, exceeds this many standard errors. Fewer columns changed no error of the tables, and lowered that of
    # five generated tables with irrelevant columns to 0.78 of what it was.
    class_worth: float = 1.64

    # Robustness -------------------------------------------------------------------------------------------------------
    # This is the largest leave-one-out residual that counts in full, in units of their 90th percentile. One wrong
    # target of the table bodyfat costs a factor of two in the error. With 6, rows of nearly noise-free tables (balloon)
    # that are hard to fit were taken for outliers, and with 40 that of bodyfat was missed.
    outlier: float = 15.0
    # Smaller residuals are not outliers, in units of the spread of the targets. Without this limit, a nearly noise-free
    # table (visualizing_soil) had twice the error in twice the time, from rows that are hard to fit.
    outlying: float = 0.2
    # Up to this many rows per column, the weights of a stack are chosen by five folds, and members are searched without
    # each fold. On three tables with at most 5 rows per column, the error was 0.974 times as large, and the time
    # 5 times. With 25, the error was 0.986 times as large on 13 tables, but 1.05 times on two of them.
    weight_rows: int = 5


CONSTANTS = Constants()


@cache
def constants(effort: float) -> Constants:
    """Return the constants for an effort: samples whose work is proportional to it, and fewer iterations below 1."""
    if effort == 1.0:
        return CONSTANTS
    sizes = ("start_rows", "trial", "dense_trial", "last_stage", "dense_stage", "class_rows")
    changes = {name: sized(getattr(CONSTANTS, name), effort) for name in sizes}
    share = min(1.0, effort ** (1 / 3))
    changes["few_iterations"] = math.ceil(share * CONSTANTS.few_iterations)
    for name, (*ends, count) in {"widths": CONSTANTS.widths, "ridges": CONSTANTS.ridges}.items():
        changes[name] = (*ends, max(2, math.ceil(share * count)))
    return replace(CONSTANTS, weight_rows=round(CONSTANTS.weight_rows * share**2), **changes)


@cache
def sized(size: Any, effort: float, power: int = 3) -> Any:
    """Return a size (or several) for an effort, where work is proportional to this power of it: 2 for a basis."""
    many = isinstance(size, tuple)
    return tuple(sized(one, effort, power) for one in size) if many else round(size * effort ** (1 / power))


# Samples --------------------------------------------------------------------------------------------------------------
def stages_of(problem: Problem) -> list[tuple[int, int | None]]:
    """Return the rows and the basis size (None: dense) of each stage of a search."""
    limits = constants(problem.effort)
    rows, first, last = len(problem.rows), limits.trial, limits.last_stage
    stages: list[tuple[int, int | None]] = [first, (last[0], min(problem.basis_size, last[1]))]
    small = problem.basis_size <= first[1]
    if problem.is_dual and rows <= sized(DENSE_ROWS, problem.effort):
        stages, small = [limits.dense_trial, (limits.dense_stage, None)], rows <= limits.start_rows
    elif problem.is_dual:  # a basis favours smooth kernels with a small C
        stages[-1] = sized(DENSE_ROWS, problem.effort), None
    return [(min(rows, size), basis) for size, basis in stages[small:]]


def in_memory(problem: Problem) -> Problem:
    """Return the problem, or as many of its rows as fit in memory with all basis columns, or may be factorised."""
    if problem.is_iterative():
        return problem.subset(sample_of(problem, ITERATIVE_SAMPLE))
    if problem.fits_memory:
        return problem
    return problem.subset(sample_of(problem, (arrays.memory(problem.X) or 2**30) // (32 * problem.basis_size)))


def sample_of(problem: Problem, size: int, order: np.ndarray | None = None) -> np.ndarray:
    """Return about `size` of the rows with positive weight: the first ones of an order, with some of every class.

    The default order does not depend on that of the rows, and neither do the last digits of sums over the sample.
    """
    order = problem.rows_by_content if order is None else order
    if size >= len(order) or not problem.classification:
        return order[:size]
    labels = problem.labels[order]
    present = np.unique(labels)
    count = max(2, min(ROWS_PER_CLASS, CONSTANTS.class_rows[2] // len(present)))  # Each of many classes has fewer.
    few = [np.flatnonzero(labels == label)[:count] for label in present]
    return order[np.unique(np.concatenate([np.arange(size), *few]))]


def part_of(problem: Problem, rows: int, basis: int | None) -> Problem:
    """Return the problem on a sample of its rows, with a part of its basis (None: all of it)."""
    part = problem.subset(sample_of(problem, rows))
    if basis is None:
        return part
    if part.is_dual:
        return part.with_basis(part.rows_by_content[:basis])
    if basis < part.basis_size:
        return part.with_basis(points=arrays.take(part.points, order_by_content(part.points)[:basis]))
    return part


def chosen_widths(problem: Problem) -> int:
    """Return the number of widths that leave-one-out chose one by one, without dropped ones; 0 for a common width."""
    if problem.asked is None or not problem.asked[0].is_free:
        return 0
    spread, leading = problem.spreads.values, np.unique(problem.inputs, return_index=True)[1]
    leading = leading[~problem.spreads.constant[leading]]
    ratios = [(arrays.to_numpy(leaf.sigma) / spread)[leading] for leaf in problem.kernel.leaves]
    many = [ratio for ratio in ratios if np.min(ratio, initial=math.inf) < (1.0 - 1e-6) * np.max(ratio, initial=0.0)]
    return sum(int(np.sum(np.isfinite(ratio))) for ratio in many)
