"""The choice of C from the whole path of one factorisation, also with lower weights of outliers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from .. import arrays
from ..arrays import EPS
from ..problem import Factor, Fit, Problem
from ..progress import work
from ..system import QUICK
from .constants import CONSTANTS
from .samples import in_memory, sample_of, stages_of
from .scores import errors_to_choose_by, loo_errors

SMALLEST_VARIANCE = 1e-280  # The ridges underflow for kernels of a smaller variance.
LENIENCE = 1.5  # The scale of residuals in the robust weights of a search is this many robust scales.
ROBUST_ITERATIONS = 3  # Robust weights of a search need as many solutions: the first may still follow an outlier.

Errors = Callable[[Factor, Sequence[float]], np.ndarray]


def best_C(problem: Problem, errors: Errors = loo_errors) -> tuple[float, float]:
    """The C with the smallest error (or the given C), and that error; `errors` returns the errors of several C."""
    if problem.C is not None:
        return problem.C, float(errors(problem.factorise(), [problem.C])[0])
    return best_C_and_factor(problem, errors)[:2]


def best_C_and_factor(
    problem: Problem, errors: Errors = loo_errors, guess: float | None = None
) -> tuple[float, float, Factor]:
    """As `best_C` for C=None, and the factor used for all values of C; a `guess` may save time."""

    def scored(ridges: np.ndarray) -> tuple[Factor, np.ndarray, np.ndarray]:
        factor = problem.factorise(float(1.0 / ridges[0]), every=True, quick=True)
        return factor, ridges, errors(factor, (1.0 / ridges).tolist())

    variance, largest = kernel_spectrum(problem)
    ridges = np.geomspace(*CONSTANTS.ridges) * variance * mean_weight(problem)
    # ridges far above the rounding errors of sums over rows are cheaper, and usually suffice
    rounding = EPS * largest * mean_weight(problem) * len(problem.rows)
    near = ridges < (0.0 if problem.is_dual else rounding / QUICK)
    if guess is not None and near.any() and 1.0 / guess <= ridges[~near].min(initial=math.inf):
        near[:] = False
    factor, grid, scores = scored(ridges[~near])
    if near.any() and np.argmin(scores) == 0:
        del factor  # there may be memory for only one
        factor, grid, scores = scored(ridges)
    best = min(zip(scores, 1.0 / grid, strict=True))
    for _ in range(2):  # grids about the best point so far, each four times finer than the last
        place = int(np.argmin(scores))
        low, high = grid[max(place - 1, 0)], grid[min(place + 1, len(grid) - 1)]
        grid = np.geomspace(low, high, 9)[1:-1]
        scores = errors(factor, (1.0 / grid).tolist())
        best = min(best, min(zip(scores, 1.0 / grid, strict=True)))
    return float(best[1]), float(best[0]), factor


def with_best_C(problem: Problem, record: Bunch, loss: str = "auto") -> Problem:
    """The problem with the best C on all rows that fit in memory, also recorded; an existing C is the initial guess.

    Robust weights and C are chosen alternately.
    """
    trial = in_memory(problem.replace(C=None))
    record.plan.append(f"C on {'all' if len(trial.rows) == len(problem.rows) else len(trial.rows)} rows")
    C, errors, factor = problem.C, errors_to_choose_by(problem, loss), None
    if trial.robust is None or C is None:
        guess = None if C is None else C * len(trial.rows) / min(stages_of(trial)[-1][0], len(trial.rows))
        # with a basis, the best C is roughly proportional to the number of rows, which was smaller in the search
        C, _, factor = best_C_and_factor(trial, errors, guess)
    if trial.robust is not None:
        for _ in range(ROBUST_ITERATIONS):
            C = best_C(trial.replace(weights=search_weights(trial.replace(C=C)), robust=None), errors)[0]
    known = problem.replace(C=C)
    if factor is not None and trial.robust is None and len(trial.rows) == len(problem.rows):
        fit, loo = fit_of_path(factor, C)
        del factor  # there may be memory for only one
        known = downweight_outliers(known.replace(fitted=fit), loo)
    record.C = known.C
    return known


def most_for_C(problem: Problem) -> float:
    """An upper bound of the `work` of `with_best_C`."""
    rows, basis = len(problem.rows), None if problem.is_dual else problem.basis_size
    path = work(rows, basis, every=True)
    if problem.robust is None:
        return path
    solves = 1 + max(ROBUST_ITERATIONS, problem.robust.iterations)
    return path + ROBUST_ITERATIONS * (path + solves * work(rows, basis))


def search_weights(problem: Problem) -> Any:
    """Robust weights for a search: from the leave-one-out residuals, with a larger scale than in a fit.

    From plain residuals, a close fit would flag more and more rows, which it then ignores. With the usual scale, rows
    near the corner of the weight function would be outliers for one kernel but not for another.
    """
    assert problem.robust is not None
    residuals = arrays.to_numpy(problem.solve().loo_residuals)
    scales = problem.robust.scales(residuals, arrays.to_numpy(problem.weights))
    return problem.weights * arrays.like(problem.robust.from_scales(residuals, LENIENCE * scales), problem.weights)


def downweight_outliers(
    problem: Problem, loo: Any = None, *, fixed_C: bool = False, iterations: int = ROBUST_ITERATIONS
) -> Problem:
    """The problem of a regression with lower weights of its outliers, if there are any, and the best C for these.

    A target whose leave-one-out residual is more than `outlier` times their 90th percentile gets the weight with which
    its square counts as much as one at that limit: a single target decides neither the search nor the fit. `loo` are
    the leave-one-out residuals of the rows with positive weight, if they are known.
    """
    if problem.classification or problem.robust is not None:
        return problem
    weights = problem.weights
    for _ in range(iterations):
        loo = arrays.take(problem.solve().loo_residuals, problem.rows) if loo is None else loo
        sizes = np.abs(arrays.to_numpy(loo))
        limit = CONSTANTS.outlier * np.quantile(sizes, 0.9, axis=0)
        outlying = (sizes > limit) & (limit > 0)
        if not outlying.any():
            break
        factors = np.ones(problem.X.shape[0])
        factors[problem.rows] = np.min(np.divide(limit, sizes, out=np.ones_like(sizes), where=outlying), axis=1) ** 2
        problem, loo = problem.replace(weights=weights * arrays.like(factors, weights)), None
        if not fixed_C:
            problem = problem.replace(C=best_C(problem.replace(C=None))[0])
    return problem


def fit_of_path(factor: Factor, C: float) -> tuple[Fit | None, Any]:
    """The fit for one C from the factor for all C, and the leave-one-out residuals of the rows with positive weight.

    The fit is None, and the residuals have a few digits, if a separate factorisation would be more accurate.
    """
    quick = factor.system.solution(1.0 / C, careful=False)
    if not factor.system.serves(1.0 / C, quick.leverage):
        return None, quick.loo_residuals
    fit = factor.fit(C)
    return fit, arrays.take(fit.loo_residuals, factor.rows)


def range_of_log_C(problem: Problem) -> tuple[float, float]:
    """The range of log C that is searched."""
    middle = math.log(kernel_variance(problem) * mean_weight(problem))
    return -math.log(CONSTANTS.ridges[1]) - middle, -math.log(CONSTANTS.ridges[0]) - middle


def kernel_variance(problem: Problem) -> float:
    """Mean of k(x, x) minus the mean of k(x, z) over (a sample of) the rows: the variance of the kernel."""
    return kernel_spectrum(problem)[0]


def kernel_spectrum(problem: Problem) -> tuple[float, float]:
    """The variance of the kernel over (a sample of) the rows, and a bound on its eigenvalues per row."""
    rows = sample_of(problem, CONSTANTS.start_rows)
    X = arrays.take(problem.X, rows)
    K = arrays.to_numpy(problem.kernel.evaluate(X, problem.kernel.basis_points(problem.X, rows)))
    with np.errstate(over="ignore", invalid="ignore"):
        variance = float(K.diagonal().mean() - K.mean())
    if not (math.isfinite(variance) and variance > SMALLEST_VARIANCE):
        return 1.0, 1.0
    K = K / variance - K.mean(axis=0) / variance  # squares cannot overflow
    K = K - K.mean(axis=1)[:, None]
    return variance, variance * float(np.linalg.norm(K)) / len(rows)


def mean_weight(problem: Problem) -> float:
    """The mean of the positive weights."""
    return float(arrays.to_numpy(problem.weights)[problem.rows].mean())
