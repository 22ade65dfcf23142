"""Which columns the targets depend on, alone or in pairs, and which ones a model can do without."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .. import arrays
from ..arrays import cached_property
from ..problem import Problem, ranks_of
from .constants import CONSTANTS

COSINES = 4  # Each column has this many functions; a relation of two columns needs products of several.
NEEDED = 3  # Narrower columns are not tried after so many in a row that are needed.
FUNCTIONS = 400  # There are at most this many functions of all columns; with more, pairs of columns are not screened.


class Functions(NamedTuple):
    """Functions of every column: the first cosines of its ranks, made orthonormal over the rows."""

    F: np.ndarray  # (rows, columns * count), with mean square 1; 0 where a column has too few values
    terms: np.ndarray  # how many functions of a column are not 0: none for a constant column


def functions_of(X: np.ndarray) -> Functions:
    rows, columns = X.shape
    ranks = (ranks_of(X).T + 0.5) / rows
    varying = max(1, int(np.count_nonzero(np.ptp(ranks, axis=1))))
    count = max(1, min(COSINES, FUNCTIONS // varying, rows - 1))
    cosines = np.stack([np.cos(math.pi * j * ranks) for j in range(1, count + 1)], axis=2)
    Q, R = np.linalg.qr(cosines - cosines.mean(axis=1, keepdims=True))
    independent = np.abs(np.diagonal(R, axis1=1, axis2=2)) > 1e-6 * math.sqrt(rows)  # fewer for columns of few values
    F = (math.sqrt(rows) * Q * independent[:, None, :]).transpose(1, 0, 2).reshape(rows, columns * count)
    return Functions(F, independent.sum(axis=1))


def relevance(functions: Functions, targets: np.ndarray) -> np.ndarray:
    """The largest standardised effect of every column, alone or together with one other column.

    For independent targets e, the squared correlations of e with the k functions of a column, or with the k^2 products
    of the functions of two columns, are about chi-squared. All pairs together take one matrix product, F' diag(e) F.
    Pairs matter: sin(x z) depends neither on x alone nor on z alone.
    """
    F, terms = functions
    rows, columns = len(F), len(terms)
    count = F.shape[1] // columns
    largest = np.full(columns, -math.inf)
    for e in clipped(targets).T:
        alone = ((e @ F) ** 2 / rows).reshape(columns, count).sum(axis=1)
        largest = np.maximum(largest, _standardised(alone, terms))
        if np.count_nonzero(terms) * count <= FUNCTIONS:
            both = ((F.T @ (e[:, None] * F)) ** 2 / rows).reshape(columns, count, columns, count).sum(axis=(1, 3))
            pairs = _standardised(both, np.outer(terms, terms))
            np.fill_diagonal(pairs, -math.inf)
            largest = np.maximum(largest, pairs.max(axis=1))
    return largest


def _standardised(squares: np.ndarray, freedom: np.ndarray) -> np.ndarray:
    freedom = np.maximum(freedom, 1)
    return np.asarray((squares - freedom) / np.sqrt(2.0 * freedom))


def clipped(targets: np.ndarray) -> np.ndarray:
    """The targets with variance 1, clipped at a few robust standard deviations, so that no row counts for many."""
    deviation = targets - np.median(targets, axis=0)
    scale = 1.4826 * np.median(np.abs(deviation), axis=0)
    limit = np.where(scale > 0, 4.0 * scale, math.inf)
    deviation = np.clip(deviation, -limit, limit)
    deviation = deviation - deviation.mean(axis=0)
    spread = deviation.std(axis=0)
    return np.asarray(deviation / np.where(spread > 0, spread, 1.0))


class Screening:
    """The inputs of a problem that targets depend on; the functions of the columns are computed once."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    @cached_property
    def functions(self) -> Functions:
        return functions_of(arrays.to_numpy(arrays.take(self.problem.X, self.problem.rows)))

    def relevant(self, targets: np.ndarray) -> np.ndarray:
        """Which inputs have a column with a relevant effect, alone or in a pair."""
        return np.bincount(self.problem.inputs, relevance(self.functions, targets) > CONSTANTS.relevant) > 0


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
