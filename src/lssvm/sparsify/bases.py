"""Basis points that are given, drawn at random, cluster centres, or learned along the gradient of log PRESS."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any

import numpy as np
from sklearn.utils import Bunch, check_random_state

from .. import arrays, progress
from ..kernels import Kernel
from ..problem import FACTORISED_ROWS, Problem, Step, held_out_rows
from ..progress import counted
from ..rules import Count, Rule, Seed, shown
from ..system import iterative
from ..tune import LeaveOneOut
from ..tune.choose_C import best_C, most_for_C, warn_at_edge, with_best_C
from ..tune.constants import QUICK, sample_of, sized
from ..tune.leave_one_out import tuned
from ..tune.widths import Candidate, Criterion, WidthSearch
from .common import check_found, kernel_rows, provisional

SIZE = 500  # This is the smallest size of `Random()`.
SLIGHT = 0.02  # If this size lowers log PRESS by less, compared with half of it, no more points are tried.
GAIN = 0.03  # All rows of the sample must lower the RMS leave-one-out residual by this share for a larger basis.
MOST_DENSE = 50_000  # It then consists of all rows, if there are no more and their matrix fits in memory,
MOST_ON_GPU = 500_000  # This is the limit for a GPU, which computes the matrix again where it does not fit.
MOST_WORK = 1.5e11  # or rows * n^2 is at most this: near it, 36,000 x 8 rows took 140 seconds of one aarch64 core.
ACCELERATION = 300.0  # On a GPU, it is larger by this factor.
MEMORY = 0.6  # The matrix, or the three matrices that a factorisation needs, may take this share of the memory.
SAMPLE_ROWS = 5000  # The sizes are compared on this many rows.
# RACE was chosen by the errors and times of four splits of the two data sets in docs/benchmarks.md. PATIENCE is
# generous: on four tables of 6000 to 20,000 rows, 20 and 50 gave the same errors.
RACE = 16  # Each kernel of a `Choice` gets this many scores before one of them is selected.
SURE = 2.0  # A kernel must be better on the held-out rows by this many standard errors.
PATIENCE = 50  # The search ends after this many moves without improvement on the held-out rows.
RATE = 0.05  # This is the learning rate of Adam.


def as_points(points: Any) -> np.ndarray:
    """Return the row numbers or points as a NumPy array; ValueError if they are neither."""
    try:
        values = np.asarray(arrays.to_numpy(points))
    except ValueError:
        what = "points must be row numbers or a matrix of points, got rows of unequal length"
        raise ValueError(f"Given: {what}.") from None
    if values.ndim == 0 or values.dtype.kind not in "biuf":
        raise ValueError(f"Given: points must be row numbers or a matrix of real numbers, got {shown(points)}.")
    if values.shape[0] == 0:
        raise ValueError("Given: points is empty: give at least one row number or point.")
    if values.ndim == 1 and values.dtype.kind not in "iu":
        remedy = "give integers, or points of shape (n_points, n_features)"
        raise ValueError(f"Given: one-dimensional points must be row numbers, got {values.dtype}: {remedy}.")
    if not np.isfinite(values).all():
        raise ValueError("Given: points contains NaN or infinite values: remove or impute them.")
    return values


Points = Annotated[Any, Rule("row numbers or a matrix of points", lambda value: as_points(value) is not None)]


class Given(Step):
    """A basis given by the user.

    Parameters
    ----------
    points : array
        Row numbers of the training data (one-dimensional, integer), or the points themselves (n_points, n_features).

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels, sparsify
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(kernels.RBF(13.1), C=830.0, steps=[sparsify.Given([0, 20, 40, 60, 80])]).fit(X, y)
    >>> model.support_
    array([ 0, 20, 40, 60, 80])
    """

    def __init__(self, points: Points) -> None:
        self.points = points

    def __call__(self, problem: Problem) -> Problem:
        n_rows, n_features = problem.X.shape
        values = as_points(self.points)
        if values.ndim == 1:
            if values.min() < 0 or values.max() >= n_rows:
                given = f"points contains rows {values.min()} to {values.max()}"
                raise ValueError(f"Given: {given}, but X has rows 0 to {n_rows - 1}.")
            return problem.with_basis(np.unique(values))
        if problem.kernel.is_precomputed:
            raise ValueError("Given: with kernels.Precomputed, points must be row numbers: give a list of integers.")
        if values.ndim == 2 and problem.groups is not None and values.shape[1] != n_features:
            given = f"points has {counted(values.shape[1], 'column')}, but the table is encoded as {n_features} columns"
            raise ValueError(f"Given: {given}, because it has categories or missing cells: give row numbers instead.")
        if values.ndim != 2 or values.shape[1] != n_features:
            given = f"points has shape {values.shape}, but X has {counted(n_features, 'column')}"
            raise ValueError(f"Given: {given}: give points of shape (n, {n_features}).")
        return problem.with_basis(points=arrays.like(values.astype(float), problem.X))

    @property
    def by_row(self) -> str:
        return "points" if np.ndim(self.points) == 1 else ""


class Random(Step):
    """A basis of n rows drawn at random without replacement.

    Parameters
    ----------
    n : int or None
        Size of the basis; all rows if there are fewer. None chooses the size: hyper-parameters left at None are tuned
        with 500 points on a sample of 5000 rows. If these lowered log PRESS by at least 0.02, compared with 250 points,
        all rows of the sample are tried. If they lower the root mean square leave-one-out residual by 3 %, the basis
        consists of all rows or, with more than 50,000 rows (15,000 with groups, 500,000 on a GPU) or if their kernel
        matrix takes more than 60 % of the free memory and is not computed again (on a GPU), of as many as keep
        rows * n^2 below 1.5e11 (4.5e13 on a GPU). Kernel and C are then chosen again. These numbers are for
        ``effort=1.0``; below 0.2, no larger basis is tried.
    random_state : int, RandomState or None
        Seed for the draw. With n=None, it does not depend on the order of the rows.

    Notes
    -----
    With ``n=None``, ``path_`` is that of `tune.LeaveOneOut` with the additional entries ``sizes`` (those that were
    compared, if any), ``scores`` (mean squared leave-one-out residual of the sample, in units of the variances of
    the outputs) and ``chosen``.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels, sparsify
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(kernels.RBF(13.1), C=830.0, steps=[sparsify.Random(15, random_state=0)]).fit(X, y)
    >>> model.support_vectors_.shape
    (15, 1)
    """

    def __init__(self, n: Count | None = None, random_state: Seed = None) -> None:
        self.n = n
        self.random_state = random_state

    def __call__(self, problem: Problem) -> Problem:
        draw = check_random_state(self.random_state)
        if self.n is not None:
            return problem.with_basis(draw.permutation(problem.rows)[: self.n])
        # as many rows as pay off: this is the default of `LSSVR`, so the order of the rows must not matter
        drawn, least = draw.permutation(problem.rows_by_content), sized(SIZE, problem.effort, 2)
        sample = sample_of(problem, sized(SAMPLE_ROWS, problem.effort), drawn)
        rows, smallest = len(drawn), np.flatnonzero(np.isin(sample, drawn[:least]))
        last = progress.expect(lambda: most_for_C(problem.with_basis(drawn[:least])))
        known = tuned(problem.subset(sample).with_basis(smallest), on_all_rows=False)
        record = known.paths.get(LeaveOneOut.__name__, {})
        size, tried, scores = min(least, rows), list[int](), list[float]()
        if record.get("gain", math.inf) >= SLIGHT and largest_basis(problem) > least:
            measured = known.replace(C=problem.C)
            if known.robust is not None:
                measured = measured.replace(weights=known.solve().weights, robust=None)
            tried = [least, len(sample)]
            scores = [best_C(measured)[1], best_C(measured.with_basis())[1]]
            if scores[1] < (1.0 - GAIN) ** 2 * scores[0]:
                size = largest_basis(problem, warns=True)
        chosen, is_dense = problem.with_basis(drawn[:size]), least < size == rows and not problem.classification
        if is_dense:  # the search that follows the steps compares the members of a stack before it solves any
            chosen = problem.with_basis()
        elif size <= least:
            paths = {**problem.paths, **known.paths}
            chosen = chosen.replace(kernel=known.kernel, robust=known.robust, paths=paths)
        else:  # hyper-parameters chosen for a small basis are too smooth for a larger one
            chosen = tuned(chosen)
        record = Bunch(**{**Bunch(plan=[], evaluations=0), **chosen.paths.get(LeaveOneOut.__name__, {})})
        words = counted(size, "basis point")
        record.plan = [f"{words} by the leave-one-out residuals of {len(sample)} rows", *record.plan]
        record.update(sizes=np.array(tried, dtype=int), scores=np.array(scores), chosen=size)
        if chosen.C is None and not is_dense:
            record.plan.pop()  # the search of C on the sample
            with last:
                chosen = with_best_C(chosen.replace(C=known.C), record)
            warn_at_edge([chosen])
        paths = {**chosen.paths, LeaveOneOut.__name__: record}
        return chosen.replace(paths=paths, asked=problem.asked or (problem.kernel, problem.C))


def largest_basis(problem: Problem, *, warns: bool = False) -> int:
    """Return the size of the largest basis of `Random()` for this number of rows; it `warns` if memory limits it."""
    rows, available = len(problem.rows), arrays.memory(problem.X, free=True) or math.inf
    least, size = min(rows, sized(SIZE, problem.effort, 2)), 0.0
    is_fast, is_iterative = arrays.on_accelerator(problem.X), problem.with_basis().is_iterative()
    if problem.effort >= QUICK:
        size = (problem.effort * MOST_WORK * (ACCELERATION if is_fast else 1.0) / rows) ** 0.5
        limit = MOST_ON_GPU if is_fast else MOST_DENSE if is_iterative else FACTORISED_ROWS
        if rows <= sized(limit, problem.effort):
            needed, most = (0 if is_fast and is_iterative else 8 if is_iterative else 24) * rows**2, MEMORY * available
            size = rows if needed <= most else min(size, most / (32 * rows))  # the latter takes four such matrices
            if needed > most and warns:
                what = f"Models of all {rows} rows take {needed / 2**30:.1f} GiB"
                arrays.warn(f"{what}, more than {MEMORY:.0%} of the free memory: a smaller basis is used.")
    return min(rows, max(least, int(size)))


class RandomlyPivoted(Step):
    """Randomly pivoted Cholesky: rows are drawn with probability proportional to their reconstruction error.

    This is the accelerated algorithm of Epperly, Tropp & Webber (2024): blocks of proposals are thinned by rejection,
    so that the rows have the same distribution as if they were drawn one at a time, while the work is done in matrix
    products. The basis is close to the best of its size for the kernel matrix; the targets are not used.

    Parameters
    ----------
    n : int
        Size of the basis; smaller if fewer rows reconstruct all others to working precision.
    random_state : int, RandomState or None
        Seed for the draws.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels, sparsify
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(kernels.RBF(13.1), C=830.0, steps=[sparsify.RandomlyPivoted(15, random_state=0)]).fit(X, y)
    >>> model.support_vectors_.shape
    (15, 1)
    """

    def __init__(self, n: Count, random_state: Seed = None) -> None:
        self.n = n
        self.random_state = random_state

    def __call__(self, problem: Problem) -> Problem:
        chosen = randomly_pivoted(provisional(problem), self.n, check_random_state(self.random_state))
        check_found(self, chosen)
        return problem.with_basis(chosen)


def randomly_pivoted(problem: Problem, n: int, draw: np.random.RandomState) -> np.ndarray:
    """Return at most n rows, chosen by randomly pivoted Cholesky, of a problem whose kernel is known."""
    kernel, rows = problem.kernel, problem.rows

    def block(picked: np.ndarray, columns: np.ndarray | None, out: np.ndarray | None) -> np.ndarray:
        return kernel_rows(kernel, problem, rows[picked], rows if columns is None else rows[columns], out=out)

    diagonal = arrays.to_numpy(kernel.diagonal(problem.X))[rows]
    floor = len(rows) * arrays.EPS * float(diagonal.sum())
    return rows[iterative.randomly_pivoted(block, diagonal, n, floor, draw)[0]]


class KMeans(Step):
    """Centres of (mini-batch) k-means on columns scaled by their spread; the basis points are not training rows.

    Parameters
    ----------
    n : int
        Number of centres; if there are at most n distinct rows, these form the basis.
    random_state : int, RandomState or None
        Seed for the initial centres.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels, sparsify
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(kernels.RBF(13.1), C=830.0, steps=[sparsify.KMeans(15, random_state=0)]).fit(X, y)
    >>> model.support_vectors_.shape
    (15, 1)
    >>> model.support_ is None  # centres are not rows
    True
    """

    def __init__(self, n: Count, random_state: Seed = None) -> None:
        self.n = n
        self.random_state = random_state

    def __call__(self, problem: Problem) -> Problem:
        if problem.kernel.is_precomputed:
            raise ValueError("KMeans needs feature columns, which kernels.Precomputed does not have: use e.g. Random.")
        rows = problem.rows
        spread = problem.spreads.values
        X = arrays.to_numpy(arrays.take(problem.X, rows)) / spread
        distinct = np.unique(X, axis=0)
        if len(distinct) > self.n:
            weights = arrays.to_numpy(problem.weights)[rows]
            from sklearn.cluster import MiniBatchKMeans

            means = MiniBatchKMeans(self.n, random_state=self.random_state, n_init=1, batch_size=4096)
            distinct = np.unique(means.fit(X, sample_weight=weights).cluster_centers_, axis=0)
        return problem.with_basis(points=arrays.like(distinct * spread, problem.X))


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
    A tenth of the rows, or of their groups, is held out. The sample has at most max(2000, 5 n) of the other rows, or
    all of them if the arrays are not NumPy arrays. ``path_`` holds ``scores`` (mean squared residual of the held-out
    rows, beginning with the start) and ``chosen`` (the number of moves that were kept).

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
        names = () if problem.row_groups is None else np.unique(problem.row_groups[order])
        held = held_out_rows(problem, 0.1, seed) if len(names) > 2 else np.sort(order[: -(-len(order) // 10)])
        rest = order[~np.isin(order, held)]
        candidates = np.sort(order[: max(5000, 10 * self.n)])
        kernel, descents = problem.kernel, []
        kernels = kernel.parts if kernel.is_choice else [kernel]
        for kernel in kernels:
            known = tuned(problem.with_basis(order[: self.n], kernel=kernel, asked=None), on_all_rows=False)
            if known.robust is not None:  # keep the weights of the initial model
                known = known.replace(weights=known.solve().weights, robust=None)
            rows = randomly_pivoted(known.with_basis().subset(candidates), self.n, np.random.RandomState(seed))
            check_found(self, rows)
            descents.append(self._descend(known.with_basis(candidates[rows]), kernel, problem.C, held, rest))
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
            warn_at_edge([learned])
        return learned.replace(asked=problem.asked or (problem.kernel, problem.C))

    def _descend(self, known: Problem, requested: Kernel, C: float | None, held: Any, rest: Any) -> Iterator[Bunch]:
        """Yield the losses of held-out rows, their mean, the leave-one-out error, kernel and points after each move."""
        sample = np.sort(rest[: max(2000, 5 * self.n)] if arrays.is_numpy(known.X) else rest)
        points = known.kernel.basis_points(known.X, np.asarray(known.support)) + 0.0
        if len(sample) < 3:  # too few rows for leave-one-out: the points stay
            yield Bunch(score=0.0, losses=np.zeros(1), loo=0.0, kernel=known.kernel, points=points)
            return
        inputs, targets, weights = (arrays.take(a, held) for a in (known.X, known.y, known.weights))
        spread, part = known.spreads.values, known.subset(sample)
        start = Candidate(known.kernel, float(known.C or 1.0))
        search = WidthSearch(Criterion(part.replace(C=C), spread), requested, start, many=True)
        matters = np.any(np.isfinite(search.logs), axis=0) | (len(search.logs) == 0)  # columns that are not dropped
        scale = arrays.like(spread * matters, known.X)
        x, in_points, in_variables = search.origin, Adam(), Adam()
        while True:
            at = search.at(x)
            factor = part.with_basis(points=points, kernel=at.kernel, C=at.C).factorise(quick=True)
            solution = factor.system.solution(1.0 / factor.C, careful=False)
            residuals = targets - factor.columns(inputs) @ solution.coef - solution.intercept[None, :]
            losses = _weighted_squares(residuals, weights)
            loo = _weighted_squares(solution.loo_residuals, arrays.take(part.weights, factor.problem.rows))
            yield Bunch(score=float(losses.mean()), losses=losses, loo=loo.mean(), kernel=at.kernel, points=points)
            if not factor.has_point_gradient:
                return
            try:
                _, widths, slope, moves = factor.criterion_and_points()
            except arrays.NumericalError:  # the error cannot be reduced further
                return
            points = points - scale * in_points.step(moves * scale)
            x = x - in_variables.step(search.in_variables(arrays.to_numpy(widths), slope))


def _winner(trails: list[list[Bunch]]) -> int:
    """Return the trail with the lowest score or, of those not significantly different, the one with the best end.

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
    """Return squared residuals of every row, summed over the outputs, times its weight relative to the mean weight."""
    values, weights = arrays.to_numpy(residuals), arrays.to_numpy(weights)
    return np.asarray((values * values).sum(axis=1) * weights / weights.mean())


class Adam:
    """The optimiser of Kingma & Ba (2015), for arrays of any kind."""

    def __init__(self) -> None:
        self.count, self.mean, self.square = 0, 0.0, 0.0

    def step(self, gradient: Any) -> Any:
        """Return the step to subtract from the variables."""
        self.count += 1
        self.mean = 0.9 * self.mean + 0.1 * gradient
        self.square = 0.999 * self.square + 0.001 * gradient * gradient
        root = (self.square / (1.0 - 0.999**self.count)) ** 0.5
        return RATE * self.mean / ((1.0 - 0.9**self.count) * (root + 1e-12))
