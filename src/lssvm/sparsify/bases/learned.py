"""Basis points that move along the gradient of log PRESS."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
from sklearn.utils import Bunch, check_random_state

from ... import arrays
from ...kernels import Choice, Kernel
from ...problem import Problem, Step, column_spread
from ...tune import tuned_each, warn_at_edge, with_best_C
from .common import check_found, check_size
from .random import randomly_pivoted

RACE = 16  # scores of `Learned` by which one kernel of a choice is taken
SURE = 2.0  # standard errors by which a kernel has to be better on the rows held out
PATIENCE = 20  # moves of `Learned` without a gain on the rows held out


class Learned(Step):
    """Basis points that move along the gradient of log PRESS, from rows chosen by `RandomlyPivoted`.

    Points, and with them the widths and C where those were left at None, follow Adam on the exact gradient of the
    leave-one-out error of a sample of rows. Of several kernels (`kernels.Choice`) each takes 15 moves, then one goes
    on: the best on the rows held out, where it is by two standard errors, else that of the best start by
    leave-one-out. What predicts the rows held out best is kept, the start included, and then fitted on all rows.

    Parameters
    ----------
    n : int
        Number of points; fewer where fewer rows reconstruct the others.
    steps : int
        Largest number of moves; 20 moves without a gain on the rows held out end it too.
    random_state : int, RandomState or None
        Seed of the start, the sample and the rows held out.

    Notes
    -----
    A tenth of the rows is held out. The sample has at most max(2000, 5 n) of the others, all of them where the arrays
    live on another device. ``path_`` holds ``scores`` (mean squared residual of the rows held out, the start first)
    and ``chosen`` (the number of moves kept).

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels, sparsify
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(kernels.RBF(13.1), C=830.0, steps=[sparsify.Learned(8, random_state=0)]).fit(X, y)
    >>> model.support_vectors_.shape
    (8, 1)
    """

    def __init__(self, n: int, steps: int = 150, random_state: Any = None) -> None:
        self.n = n
        self.steps = steps
        self.random_state = random_state

    def __call__(self, problem: Problem) -> Problem:
        check_size(self, self.n)
        check_size(self, self.steps, "steps")
        if problem.kernel.is_precomputed:
            raise ValueError("Learned moves points, which kernels.Precomputed does not have: use Random, for one.")
        draw = check_random_state(self.random_state)
        order, seed = draw.permutation(problem.rows), draw.randint(2**31)
        candidates = np.sort(order[: max(5000, 10 * self.n)])
        kernels = problem.kernel.kernels if isinstance(problem.kernel, Choice) else [problem.kernel]
        descents = []
        for kernel, known in zip(kernels, tuned_each(problem.with_basis(order[: self.n], asked=None)), strict=True):
            if known.robust is not None:  # the weights of the machine that starts
                known = known.replace(weights=known.solve().weights, robust=None)
            rows = randomly_pivoted(known.with_basis().subset(candidates), self.n, np.random.RandomState(seed))
            check_found(self, rows)
            descents.append(self._descend(known.with_basis(candidates[rows]), kernel, problem.C, order))
        # what suits rows may not suit points that move: each kernel of a choice takes a few steps
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
        """Losses of the rows held out and their mean, leave-one-out error, kernel and points after every move."""
        held, rest = np.sort(order[: -(-len(order) // 10)]), order[-(-len(order) // 10) :]
        sample = np.sort(rest[: max(2000, 5 * self.n)] if arrays.is_numpy(known.X) else rest)
        points = known.kernel.basis_points(known.X, np.asarray(known.support)) + 0.0
        if len(sample) < 3:  # too few to leave one out: nothing moves
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
            except arrays.NumericalError:  # nothing is left to lower
                return
            points = points - scale * in_points.step(moves * scale)
            widths = arrays.to_numpy(widths) * matters * np.array(free, dtype=float)[:, None]
            common = np.array([[not leaf.ard] for leaf in leaves], dtype=bool).reshape(-1, 1)
            logs = logs - in_widths.step(np.where(common, widths.sum(axis=1, keepdims=True), widths))
            if C is None:
                log_C = log_C - in_C.step(np.array([slope]))


def _winner(trails: list[list[Bunch]]) -> int:
    """The trail with the lowest score; of those that chance may tell apart from it, that of the best start.

    The start has a left-out residual for every row of the sample, many more than are held out.
    """
    lowest = [min(trail, key=lambda place: place.score) for trail in trails]
    best = min(lowest, key=lambda place: place.score)
    close = []
    for number, place in enumerate(lowest):
        difference = place.losses - best.losses
        if difference.mean() <= SURE * difference.std() / np.sqrt(len(difference)):
            close.append(number)
    return min(close, key=lambda number: trails[number][0].loo)


def _weighted_squares(residuals: Any, weights: Any) -> np.ndarray:
    """The squares of every row, summed over the outputs, times its weight in units of the mean weight."""
    values, weights = arrays.to_numpy(residuals), arrays.to_numpy(weights)
    return np.asarray((values * values).sum(axis=1) * weights / weights.mean())


class Adam:
    """Step sizes of Kingma & Ba (2015), for arrays of any kind."""

    def __init__(self, rate: float = 0.05) -> None:
        self.rate = rate
        self.count = 0
        self.mean: Any = 0.0
        self.square: Any = 0.0

    def step(self, gradient: Any) -> Any:
        """The distance to go against the gradient."""
        self.count += 1
        self.mean = 0.9 * self.mean + 0.1 * gradient
        self.square = 0.999 * self.square + 0.001 * gradient * gradient
        root = (self.square / (1.0 - 0.999**self.count)) ** 0.5
        return self.rate * self.mean / ((1.0 - 0.9**self.count) * (root + 1e-12))
