"""Steps that choose what was left at None, by exact leave-one-out."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.utils import Bunch

from . import _xp
from .kernels import Kernel
from .problem import Factor, Problem, Step, check_memory, column_spread

__all__ = ["LeaveOneOut"]

WIDTHS = np.geomspace(0.1, 30.0, 9)  # in units of the columns' spread and of sqrt(number of columns)
RIDGES = np.geomspace(1e-9, 1e3, 37)  # in units of the kernel's variance over the rows
SEARCH_ROWS = {True: 500, False: 2000}  # rows on which widths are compared: dual, primal


class LeaveOneOut(Step):
    """Choose C and the kernel width left at None by the smallest exact leave-one-out error.

    C comes from the whole path of one factorisation. A width left at None is one multiple of every column's standard
    deviation, found by a bounded search; on more than 500 rows (2000 with a smaller basis) the widths are compared on
    a sample of that many rows, and C is then chosen on all. The error is the weighted mean square of the left-out
    residuals; with robust weights asked for, the mean absolute one, which outliers do not drive.
    """

    def __call__(self, problem: Problem) -> Problem:
        if problem.C is not None and not problem.kernel.is_free:
            return problem
        if problem.is_dual:
            check_memory(len(problem.rows), 2)
        kernel = problem.kernel
        record = Bunch(width=[], score=[])
        if kernel.is_free:
            kernel = self._search_width(problem, record)
        problem = problem.replace(kernel=kernel)
        C, score = best_C(problem)
        record.update(C=C, loo=score)
        return problem.replace(C=C, paths={**problem.paths, type(self).__name__: record})

    def _search_width(self, problem: Problem, record: Bunch) -> Kernel:
        spread = column_spread(problem)
        rows = problem.rows
        limit = SEARCH_ROWS[problem.is_dual]
        if len(rows) > limit:
            rows = np.sort(np.random.RandomState(0).permutation(rows)[:limit])
        sample = problem.subset(rows)
        unit = math.sqrt(problem.X.shape[1])

        def score(log_width: float) -> float:
            width = math.exp(log_width)
            value = best_C(sample.replace(kernel=problem.kernel.with_width(width, spread)))[1]
            record.width.append(width)
            record.score.append(value)
            return value

        grid = np.log(WIDTHS * unit)
        scores = [score(log_width) for log_width in grid]
        best = int(np.argmin(scores))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
        minimize_scalar(score, bounds=(low, high), method="bounded", options={"maxiter": 8, "xatol": 0.05})
        return problem.kernel.with_width(record.width[int(np.argmin(record.score))], spread)


def best_C(problem: Problem) -> tuple[float, float]:
    """The C with the smallest leave-one-out error (or the problem's own), and that error."""
    if problem.C is not None:
        return problem.C, loo_error(problem.factorise(), problem.C)
    weights = _xp.to_numpy(problem.weights)[problem.rows]
    ridges = RIDGES * kernel_variance(problem) * float(weights.mean())
    factor = problem.factorise(1.0 / ridges[0], every=True)
    scores = [loo_error(factor, 1.0 / ridge) for ridge in ridges]
    best = int(np.argmin(scores))
    low, high = np.log(ridges[max(best - 1, 0)]), np.log(ridges[min(best + 1, len(ridges) - 1)])
    refined = minimize_scalar(
        lambda log_ridge: loo_error(factor, math.exp(-log_ridge)), bounds=(low, high), method="bounded"
    )
    if refined.fun < scores[best]:
        return math.exp(-refined.x), float(refined.fun)
    return float(1.0 / ridges[best]), float(scores[best])


def loo_error(factor: Factor, C: float) -> float:
    """Mean loss of the left-out residuals of the rows that count."""
    loo = _xp.to_numpy(factor.system.solution(1.0 / C, careful=False).loo_residuals)
    return mean_loss(factor.problem, loo, _xp.to_numpy(factor.problem.weights)[factor.rows])


def mean_loss(problem: Problem, residuals: np.ndarray, weights: np.ndarray) -> float:
    """Weighted mean of the squared residuals, of the absolute ones where robust weights are asked for.

    In units of the largest deviation of the targets from their mean.
    """
    y = _xp.to_numpy(problem.y)
    unit = float(np.max(np.abs(y - y.mean(axis=0)), initial=0.0)) or 1.0  # squares of any unit of y stay in range
    residuals = residuals / unit
    loss = np.abs(residuals) if problem.robust is not None else residuals * residuals
    score = float(weights @ loss.sum(axis=1) / weights.sum())
    return score if math.isfinite(score) else math.inf


def kernel_variance(problem: Problem) -> float:
    """Mean of k(x, x) less the mean of k(x, z) over (a sample of) the rows: the size of the centred kernel."""
    rows = problem.rows[:: max(1, len(problem.rows) // 200)]
    X = _xp.take(problem.X, rows)
    K = _xp.to_numpy(problem.kernel.evaluate(X, problem.kernel.basis_points(problem.X, rows)))
    variance = float(K.diagonal().mean() - K.mean())
    return variance if math.isfinite(variance) and variance > 0 else 1.0
