"""The samples on which a search runs, and which of their columns the targets depend on."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .. import arrays
from ..arrays import cached_property
from ..problem import Problem, column_spread, constant_columns, order_by_content, ranks_of
from .constants import CONSTANTS

ROWS_PER_CLASS = 20  # A sample holds at least this many rows of each class, if the class has as many.
CLASS_SAMPLE = (200, 1500)  # The sample of a search for a classifier has at least and at most this many rows.
COSINES = 4  # Each column has this many functions; a relation of two columns needs products of several.
FUNCTIONS = 400  # There are at most this many functions of all columns; with more, pairs of columns are not screened.
NEEDED = 3  # Narrower columns are not tried after so many in a row that are needed.


# Rows and basis points ------------------------------------------------------------------------------------------------
def stages_of(problem: Problem) -> list[tuple[int, int | None]]:
    """Rows and basis size (None: dense) of the successive stages of a search."""
    rows, size = len(problem.rows), problem.basis_size
    last: tuple[int, int | None]
    if problem.is_dual:
        first, last = CONSTANTS.dense_trial, (min(rows, CONSTANTS.dense_stage), None)
        small = rows <= CONSTANTS.start_rows
    else:
        first, last = CONSTANTS.trial, (min(rows, CONSTANTS.last_stage[0]), min(size, CONSTANTS.last_stage[1]))
        small = size <= first[1]
    return [last] if small else [(min(rows, first[0]), first[1]), last]


def in_memory(problem: Problem) -> Problem:
    """The problem, or as many of its rows as fit in memory with all basis columns."""
    if problem.fits_memory:
        return problem
    return problem.subset(sample_of(problem, (arrays.memory(problem.X) or 2**30) // (32 * problem.basis_size)))


def sample_of(problem: Problem, size: int, order: np.ndarray | None = None) -> np.ndarray:
    """About `size` of the rows with positive weight, sorted: the first ones of an order, with some of every class.

    The default order does not depend on that of the rows.
    """
    if size >= len(problem.rows):
        return problem.rows
    order = problem.rows_by_content if order is None else order
    if not problem.classification:
        return np.sort(order[:size])
    labels = problem.labels[order]
    present = np.unique(labels)
    count = max(2, min(ROWS_PER_CLASS, CLASS_SAMPLE[1] // len(present)))  # of very many classes, fewer rows each
    few = [order[labels == label][:count] for label in present]
    return np.unique(np.concatenate([order[:size], *few]))


def part_of(problem: Problem, rows: int, basis: int | None) -> Problem:
    """The problem on a sample of its rows, with a part of its basis (None: all of it)."""
    part = problem.subset(sample_of(problem, rows))
    if basis is None:
        return part
    if part.is_dual:
        return part.with_basis(part.rows_by_content[:basis])
    if basis < part.basis_size:
        chosen = np.sort(order_by_content(part.points)[:basis])
        return part.with_basis(points=arrays.take(part.points, chosen))
    return part


# Columns --------------------------------------------------------------------------------------------------------------
class Screening:
    """Which inputs of a problem targets depend on, alone or in pairs."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    @cached_property
    def functions(self) -> tuple[np.ndarray, np.ndarray]:
        """Functions of every column: the first cosines of its ranks, made orthonormal over the rows.

        Returns an array (rows, columns * count) with mean square 1, and how many functions of each column are not 0:
        fewer than `count` for columns of few values, none for a constant column.
        """
        X = arrays.to_numpy(arrays.take(self.problem.X, self.problem.rows))
        rows, columns = X.shape
        ranks = (ranks_of(X).T + 0.5) / rows
        varying = max(1, int(np.count_nonzero(np.ptp(ranks, axis=1))))
        count = max(1, min(COSINES, FUNCTIONS // varying, rows - 1))
        cosines = np.stack([np.cos(math.pi * j * ranks) for j in range(1, count + 1)], axis=2)
        Q, R = np.linalg.qr(cosines - cosines.mean(axis=1, keepdims=True))
        independent = np.abs(np.diagonal(R, axis1=1, axis2=2)) > 1e-6 * math.sqrt(rows)
        F = (math.sqrt(rows) * Q * independent[:, None, :]).transpose(1, 0, 2).reshape(rows, columns * count)
        return F, independent.sum(axis=1)

    def effects(self, targets: np.ndarray) -> np.ndarray:
        """The largest standardised effect of every column, alone or together with one other column.

        For independent targets e, the squared correlations of e with the k functions of a column, or with the k^2
        products of the functions of two columns, are about chi-squared. All pairs together take one matrix product,
        F' diag(e) F. Pairs matter: sin(x z) depends neither on x alone nor on z alone. The targets are clipped at a few
        robust standard deviations, so that no row counts for many.
        """
        F, terms = self.functions
        rows, columns = len(F), len(terms)
        count, freedom = F.shape[1] // columns, np.maximum(terms, 1)
        deviation = targets - np.median(targets, axis=0)
        scale = 1.4826 * np.median(np.abs(deviation), axis=0)
        limit = np.where(scale > 0, 4.0 * scale, math.inf)
        deviation = np.clip(deviation, -limit, limit)
        deviation = deviation - deviation.mean(axis=0)
        spread = deviation.std(axis=0)
        largest = np.full(columns, -math.inf)
        for e in (deviation / np.where(spread > 0, spread, 1.0)).T:
            alone = ((e @ F) ** 2 / rows).reshape(columns, count).sum(axis=1)
            largest = np.maximum(largest, (alone - freedom) / np.sqrt(2.0 * freedom))
            if np.count_nonzero(terms) * count <= FUNCTIONS:
                both = ((F.T @ (e[:, None] * F)) ** 2 / rows).reshape(columns, count, columns, count).sum(axis=(1, 3))
                products = np.outer(freedom, freedom)
                pairs = (both - products) / np.sqrt(2.0 * products)
                np.fill_diagonal(pairs, -math.inf)
                largest = np.maximum(largest, pairs.max(axis=1))
        return largest

    def relevant(self, targets: np.ndarray) -> np.ndarray:
        """Which inputs have a column that varies and has a relevant effect, alone or in a pair."""
        varying = ~constant_columns(self.problem)
        return np.bincount(self.problem.inputs, varying & (self.effects(targets) > CONSTANTS.relevant)) > 0


def droppable(
    widths: np.ndarray, relevant: np.ndarray, value: Callable[[np.ndarray], float], limit: float
) -> np.ndarray:
    """The inputs that can be dropped: a value to be minimised rises by less than `limit` each time.

    `value` is that without some inputs; those of infinite width are dropped already. First the inputs that the targets
    do not depend on are tried together (if there are none, half of all inputs), then half as many each time, the widest
    first, until a few single ones in a row are needed.
    """
    order = np.lexsort((-widths, relevant))
    order = order[np.isfinite(widths[order])]
    dropped = order[:0]
    least, needed, size = value(dropped), 0, int(np.sum(~relevant[order])) or max(1, len(order) // 2)
    while len(order) and needed < NEEDED:
        tried = np.append(dropped, order[:size])
        new = value(tried)
        if new - least < limit:
            least, needed, dropped, order = min(least, new), 0, tried, order[size:]
        elif size == 1:
            needed, order = needed + 1, order[1:]
        size = max(1, size // 2)
    return dropped


def chosen_widths(problem: Problem) -> int:
    """The number of widths that leave-one-out has chosen one by one, without dropped ones; 0 for a common width."""
    if problem.asked is None or not problem.asked[0].is_free:
        return 0
    spread, leading = column_spread(problem), np.unique(problem.inputs, return_index=True)[1]
    ratios = [(arrays.to_numpy(leaf.sigma) / spread)[leading] for leaf in problem.kernel.leaves]
    many = [ratio for ratio in ratios if np.min(ratio) < (1.0 - 1e-6) * np.max(ratio)]
    return sum(int(np.sum(np.isfinite(ratio))) for ratio in many)
