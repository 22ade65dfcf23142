"""Basis points optimised along the gradient of log PRESS."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
from sklearn.utils import Bunch, check_random_state

from .. import arrays
from ..kernels import Choice, Kernel
from ..problem import Problem, Step, column_spread
from ..rules import Count, Seed
from ..tune import tuned_each, warn_at_edge, with_best_C
from .common import check_found
from .random_bases import randomly_pivoted

# RACE was chosen by the errors and times of four splits of the two data sets in docs/benchmarks.md. PATIENCE is
# generous: on four tables of 6000 to 20,000 rows, 20 and 50 gave the same errors.
RACE = 16  # number of scores of each kernel of a `Choice` before one of them is selected
SURE = 2.0  # number of standard errors by which a kernel has to be better on the held-out rows
PATIENCE = 50  # number of moves without improvement on the held-out rows


class Learned(Step):
    """Basis points optimised along the gradient of log PRESS, starting from rows chosen by `RandomlyPivoted`.

    The points, and widths and C if they were left at None, are optimised by Adam on the exact gradient of the
    leave-one-out error of a sample of rows. With several kernels (`kernels.Choice`) each makes 15 moves, and one of
    them continues: the best on the held-out rows if it is better by two standard errors, otherwise the one with the
    best leave-one-out error by then. The points with the smallest error on the held-out rows (possibly those at
    the start) are kept, and the model is then fitted on all rows.

    Parameters
    ----------
    n : int
        Number of points; fewer if fewer rows reconstruct all others.
    steps : int
        Largest number of moves; the optimisation also ends after 50 moves without improvement on the held-out rows.
    random_state : int, RandomState or None
        Seed for the start, the sample and the held-out rows.

    Notes
    -----
    A tenth of the rows is held out. The sample has at most max(2000, 5 n) of the other rows, or all of them if the
    arrays are not NumPy arrays. ``path_`` holds ``scores`` (mean squared residual of the held-out rows, beginning with
    the start) and ``chosen`` (the number of moves that were kept).

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels, sparsify
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(kernels.RBF(13.1), C=830.0, steps=[sparsify.Learned(8, random_state=0)]).fit(X, y)
    >>> model.support_vectors_.shape
    (8, 1)
    """

    def __init__(self, n: Count, steps: Count = 200, random_state: Seed = None) -> None:
        self.n = n
        self.steps = steps
        self.random_state = random_state

    def __call__(self, problem: Problem) -> Problem:
        if problem.kernel.is_precomputed:
            raise ValueError("Learned moves points, which kernels.Precomputed does not have: use e.g. Random.")
        draw = check_random_state(self.random_state)
        order, seed = draw.permutation(problem.rows), draw.randint(2**31)
        candidates = np.sort(order[: max(5000, 10 * self.n)])
        kernels = problem.kernel.kernels if isinstance(problem.kernel, Choice) else [problem.kernel]
        descents = []
        for kernel, known in zip(kernels, tuned_each(problem.with_basis(order[: self.n], asked=None)), strict=True):
            if known.robust is not None:  # keep the weights of the initial model
                known = known.replace(weights=known.solve().weights, robust=None)
            rows = randomly_pivoted(known.with_basis().subset(candidates), self.n, np.random.RandomState(seed))
            check_found(self, rows)
            descents.append(self._descend(known.with_basis(candidates[rows]), kernel, problem.C, order))
        # the best kernel for rows may not be the best for optimised points: each kernel of a choice takes a few steps
        first = min(RACE, self.steps + 1) if len(kernels) > 1 else 1
        trails = [list(islice(descent, first)) for descent in descents]
        winner = _winner(trails)
        trail = trails[winner]
        for place in islice(descents[winner], self.steps + 1 - first):
            trail.append(place)
            if len(trail) - 1 - int(np.argmin([place.score for place in trail])) >= PATIENCE:
                break
        scores = np.array([place.score for place in trail])
        best = int(np.argmin(scores))
        paths = {**problem.paths, type(self).__name__: Bunch(scores=scores, chosen=best)}
        learned = problem.with_basis(points=trail[best].points, kernel=trail[best].kernel, paths=paths)
        if learned.C is None:
            learned = with_best_C(learned, Bunch(plan=[]))
            warn_at_edge(learned)
        return learned.replace(asked=problem.asked or (problem.kernel, problem.C))

    def _descend(self, known: Problem, asked: Kernel, C: float | None, order: np.ndarray) -> Iterator[Bunch]:
        """Losses of the held-out rows and their mean, leave-one-out error, kernel and points after every move."""
        held, rest = np.sort(order[: -(-len(order) // 10)]), order[-(-len(order) // 10) :]
        sample = np.sort(rest[: max(2000, 5 * self.n)] if arrays.is_numpy(known.X) else rest)
        points = known.kernel.basis_points(known.X, np.asarray(known.support)) + 0.0
        if len(sample) < 3:  # too few rows for leave-one-out: the points stay
            yield Bunch(score=0.0, losses=np.zeros(1), loo=0.0, kernel=known.kernel, points=points)
            return
        inputs, targets, weights = (arrays.take(a, held) for a in (known.X, known.y, known.weights))
        spread = column_spread(known)
        leaves = known.kernel.leaves
        logs = np.array([np.log(arrays.to_numpy(leaf.sigma)) * np.ones(len(spread)) for leaf in leaves])
        logs = logs.reshape(len(leaves), len(spread))
        matters = np.any(np.isfinite(logs), axis=0) | (len(leaves) == 0)  # columns that are not dropped
        free = known.paths["LeaveOneOut"].free if asked.is_free else [False] * len(leaves)
        scale = arrays.like(spread * matters, known.X)
        part = known.subset(sample)
        log_C = np.array([np.log(known.C or 1.0)])
        in_points, in_widths, in_C = Adam(), Adam(), Adam()
        while True:
            kernel = known.kernel.with_widths(list(np.exp(logs))) if any(free) else known.kernel
            factor = part.with_basis(points=points, kernel=kernel, C=float(np.exp(log_C[0]))).factorise(quick=True)
            solution = factor.system.solution(1.0 / factor.C, careful=False)
            residuals = targets - factor.columns(inputs) @ solution.coef - solution.intercept[None, :]
            losses = _weighted_squares(residuals, weights)
            loo = _weighted_squares(solution.loo_residuals, arrays.take(part.weights, factor.rows))
            yield Bunch(score=float(losses.mean()), losses=losses, loo=loo.mean(), kernel=kernel, points=points)
            if not factor.has_point_gradient:
                return
            try:
                _, widths, slope, moves = factor.criterion_and_points()
            except arrays.NumericalError:  # the error cannot be reduced further
                return
            points = points - scale * in_points.step(moves * scale)
            widths = arrays.to_numpy(widths) * matters * np.array(free, dtype=float)[:, None]
            total = widths.sum(axis=1, keepdims=True)
            if known.groups is not None:  # columns of the same input share a width
                totals = [np.bincount(known.groups, row)[known.groups] for row in widths]
                widths = np.array(totals).reshape(widths.shape)
            common = np.array([[not leaf.ard] for leaf in leaves], dtype=bool).reshape(-1, 1)
            logs = logs - in_widths.step(np.where(common, total, widths))
            if C is None:
                log_C = log_C - in_C.step(np.array([slope]))


def _winner(trails: list[list[Bunch]]) -> int:
    """The trail with the lowest score; among those not significantly different from it, the one with the best end.

    There is a leave-one-out residual for every row of the sample, many more than there are held-out rows.
    """
    lowest = [min(trail, key=lambda place: place.score) for trail in trails]
    best = min(lowest, key=lambda place: place.score)
    close = []
    for number, place in enumerate(lowest):
        difference = place.losses - best.losses
        if difference.mean() <= SURE * difference.std() / np.sqrt(len(difference)):
            close.append(number)
    return min(close, key=lambda number: trails[number][-1].loo)


def _weighted_squares(residuals: Any, weights: Any) -> np.ndarray:
    """Squared residuals of every row, summed over the outputs, times its weight relative to the mean weight."""
    values, weights = arrays.to_numpy(residuals), arrays.to_numpy(weights)
    return np.asarray((values * values).sum(axis=1) * weights / weights.mean())


class Adam:
    """The optimiser of Kingma & Ba (2015), for arrays of any kind."""

    def __init__(self, rate: float = 0.05) -> None:
        self.rate = rate
        self.count = 0
        self.mean: Any = 0.0
        self.square: Any = 0.0

    def step(self, gradient: Any) -> Any:
        """The step to subtract from the variables."""
        self.count += 1
        self.mean = 0.9 * self.mean + 0.1 * gradient
        self.square = 0.999 * self.square + 0.001 * gradient * gradient
        root = (self.square / (1.0 - 0.999**self.count)) ** 0.5
        return self.rate * self.mean / ((1.0 - 0.9**self.count) * (root + 1e-12))
