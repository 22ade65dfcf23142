"""The choice of C: from the whole path of one factorisation, or next to a C that is nearly right."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from .. import arrays
from ..arrays import EPS, NumericalError
from ..problem import (
    Factor,
    Fit,
    Problem,
    column_spread,
    constant_columns,
)
from ..progress import work
from ..system import QUICK
from .constants import CONSTANTS
from .samples import in_memory, sample_of, stages_of
from .scores import errors_to_choose_by, loo_errors, output_units, unexplained

SMALLEST_VARIANCE = 1e-280  # of a kernel: the ridges would underflow
NEARBY = 8  # maximum number of steps of `best_C_nearby`; 3 to 5 are usual


def with_best_C(problem: Problem, record: Bunch, loss: str = "auto") -> Problem:
    """The problem with the best C on all rows that fit in memory, also recorded; an existing C is the initial guess.

    Robust weights and C are chosen alternately.
    """
    trial = in_memory(problem.replace(C=None))
    record.plan.append(f"C on {'all' if len(trial.rows) == len(problem.rows) else len(trial.rows)} rows")
    C, errors, factor = problem.C, errors_to_choose_by(problem, loss), None
    if trial.robust is None or C is None:
        nearby = None if C is None else best_C_nearby(trial, C)
        if nearby is not None:
            record.C = nearby[0]
            return problem.replace(C=record.C)
        guess = None if C is None else C * len(trial.rows) / min(stages_of(trial)[-1][0], len(trial.rows))
        # with a basis, the best C is roughly proportional to the number of rows, which was smaller in the search
        C, _, factor = best_C_and_factor(trial, errors, guess)
    if trial.robust is not None:
        for _ in range(CONSTANTS.robust_iterations):
            C = best_C(trial.replace(weights=search_weights(trial.replace(C=C)), robust=None), errors)[0]
    known = problem.replace(C=C)
    if factor is not None and trial.robust is None and len(trial.rows) == len(problem.rows):
        fit, loo = fit_of_path(factor, C)
        del factor  # there may be memory for only one
        # a search for widths has already given outliers low weights; without widths, this is the first look at them
        iterations = 1 if known.kernel.leaves else CONSTANTS.robust_iterations
        known = guarded(known.replace(fitted=fit), loo, iterations=iterations)
    record.C = known.C
    return known


def most_for_C(problem: Problem) -> float:
    """An upper bound of the `work` of `with_best_C`."""
    rows, basis = len(problem.rows), None if problem.is_dual else problem.basis_size
    path = work(rows, basis, every=True)
    if problem.robust is None:
        return path + (NEARBY * work(rows, None) if problem.is_dual and not problem.classification else 0.0)
    solves = 1 + max(CONSTANTS.robust_iterations, problem.robust.iterations)
    return path + CONSTANTS.robust_iterations * (path + solves * work(rows, basis))


def search_weights(problem: Problem) -> Any:
    """Robust weights for a search: from the leave-one-out residuals, with a larger scale than in a fit.

    From plain residuals, a close fit would flag more and more rows, which it then ignores. With the usual scale, rows
    near the corner of the weight function would be outliers for one kernel but not for another.
    """
    assert problem.robust is not None
    residuals = arrays.to_numpy(problem.solve().loo_residuals)
    scales = problem.robust.scales(residuals, arrays.to_numpy(problem.weights))
    return problem.weights * arrays.like(
        problem.robust.from_scales(residuals, CONSTANTS.lenience * scales), problem.weights
    )


def guarded(
    problem: Problem, loo: Any = None, *, fixed_C: bool = False, iterations: int = CONSTANTS.robust_iterations
) -> Problem:
    """The problem of a regression with lower weights of its outliers, if there are any, and the best C for these.

    A target whose leave-one-out residual is more than `outlier` times their 90th percentile gets the weight with
    which its square counts as much as one at that limit: a single target decides neither the search nor the fit. `loo`
    are the leave-one-out residuals of the rows with positive weight, if they are known.
    """
    if problem.classification or problem.robust is not None:
        return problem
    weights = problem.weights
    for _ in range(iterations):
        loo = arrays.take(problem.solve().loo_residuals, problem.rows) if loo is None else loo
        shares = _shares(arrays.to_numpy(loo))
        if np.all(shares == 1.0):
            break
        factors = np.ones(problem.X.shape[0])
        factors[problem.rows] = shares**2
        problem, loo = problem.replace(weights=weights * arrays.like(factors, weights)), None
        if not fixed_C:
            problem = problem.replace(C=best_C(problem.replace(C=None))[0])
    return problem


def _shares(loo: np.ndarray) -> np.ndarray:
    """The limit of the leave-one-out residuals divided by those that exceed it, 1 for all other rows."""
    sizes = np.abs(loo)
    limit = CONSTANTS.outlier * np.quantile(sizes, 0.9, axis=0)
    outlying = (sizes > limit) & (limit > 0)
    return np.asarray(np.min(np.divide(limit, sizes, out=np.ones_like(sizes), where=outlying), axis=1))


def at_edge(problem: Problem) -> bool:
    """Whether C lies at the edge of its range."""
    return not 1.01 * CONSTANTS.ridges[0] < _ridge(problem) < 0.99 * CONSTANTS.ridges[-1]


def _ridge(problem: Problem) -> float:
    """1/C in the units of `constants.ridges`."""
    assert problem.C is not None
    return 1.0 / (problem.C * kernel_variance(problem) * mean_weight(problem))


def warn_at_edge(problem: Problem) -> None:
    """Warn if C lies at the edge of its range. `warn_of_no_signal` reports regressions with the smallest C."""
    ridge = _ridge(problem)
    if at_edge(problem) and (ridge < 1.0 or problem.classification) and not _hardly_depends_on_C(problem):
        what = "the targets look unrelated to the inputs"
        if ridge < 1.0:
            part = "kernel" if problem.is_dual else "basis"
            what = f"the targets look noise-free, or the {part} is too small to overfit"
        reason = f"{what}. Give C{' or sigma' if problem.kernel.leaves else ''}."
        ratio = _ratio_of_spreads(problem)
        if ridge < 1.0 and not problem.kernel.leaves and ratio > CONSTANTS.unequal:
            reason = (
                f"{what}. Scale the columns: their spreads differ by a factor of {ratio:.0e}, and the kernel has no "
                "widths."
            )
        copies = _copies(problem) if ridge < 1.0 else 0
        if copies:
            reason = (
                f"{copies} of {len(problem.rows)} rows are duplicates (including their targets), and leaving one out "
                "leaves its copy in. Drop them (sample_weight can count them), or choose by tune.KFold(groups=...)."
            )
        message = f"C = {problem.C:.3g} is at the edge of the range searched: {reason}"
        warnings.warn(message, stacklevel=arrays.user_level())


def _hardly_depends_on_C(problem: Problem) -> bool:
    """Whether rows are hardly related to each other by a narrow kernel, so that any large C gives the same errors."""
    if not problem.is_dual or problem.classification or not problem.kernel.leaves:
        return False
    parts = (problem.y, problem.solve().loo_residuals, problem.weights)
    return unexplained(*(arrays.to_numpy(a)[problem.rows] for a in parts)) > CONSTANTS.unexplained


def warn_at_edges(members: Sequence[Problem]) -> None:
    """Warn if C lies at the edge of its range for most members of a stack, once for all of them."""
    free = [member for member in members if member.kernel.leaves]
    edges = [member for member in free if at_edge(member)]
    if edges and 2 * len(edges) >= len(free):
        warn_at_edge(edges[0])


def _ratio_of_spreads(problem: Problem) -> float:
    """The ratio of the largest to the smallest spread of a column."""
    if problem.kernel.is_precomputed:
        return 1.0
    spread = column_spread(problem)[~constant_columns(problem)]
    return float(np.max(spread, initial=0.0) / np.min(spread)) if len(spread) else 1.0


def _copies(problem: Problem) -> int:
    """The number of rows that duplicate another row, including its targets."""
    values = (arrays.to_numpy(arrays.take(array, problem.rows)) for array in (problem.X, problem.y))
    rows = np.hstack(list(values))
    return len(rows) - len(np.unique(rows, axis=0))


def best_C(
    problem: Problem, errors: Callable[[Factor, Sequence[float]], np.ndarray] = loo_errors
) -> tuple[float, float]:
    """The C with the smallest error (or the given C), and that error; `errors` returns the errors of several C."""
    if problem.C is not None:
        return problem.C, float(errors(problem.factorise(), [problem.C])[0])
    return best_C_and_factor(problem, errors)[:2]


def best_C_and_factor(
    problem: Problem, errors: Callable[[Factor, Sequence[float]], np.ndarray], guess: float | None = None
) -> tuple[float, float, Factor]:
    """As `best_C` for C=None, and the factor used for all values of C; a `guess` may save time."""

    def scored(ridges: np.ndarray) -> tuple[Factor, np.ndarray, np.ndarray]:
        factor = problem.factorise(float(1.0 / ridges[0]), every=True, quick=True)
        return factor, ridges, errors(factor, (1.0 / ridges).tolist())

    variance, largest = kernel_spectrum(problem)
    ridges = CONSTANTS.ridges * variance * mean_weight(problem)
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
    for _ in range(CONSTANTS.zooms):  # finer and finer grids about the best point so far
        place = int(np.argmin(scores))
        low, high = grid[max(place - 1, 0)], grid[min(place + 1, len(grid) - 1)]
        grid = np.geomspace(low, high, 9)[1:-1]
        scores = errors(factor, (1.0 / grid).tolist())
        best = min(best, min(zip(scores, 1.0 / grid, strict=True)))
    return float(best[1]), float(best[0]), factor


def best_C_and_residuals(problem: Problem) -> tuple[float, Any]:
    """The C with the smallest leave-one-out error, and the leave-one-out residuals for it."""
    C, _, factor = best_C_and_factor(problem, loo_errors)
    return C, factor.system.solution(1.0 / C, careful=False).loo_residuals


def best_C_nearby(problem: Problem, C: float) -> tuple[float, Any] | None:
    """As `best_C_and_residuals`, for the minimum of PRESS next to a C that is nearly right, in a dense regression.

    Steps in log C until the derivative changes its sign, then secant steps: a factorisation for one C takes a quarter
    of the time of one for all with 1000 rows, and a third with 1800. None for other problems, if there are outliers or
    duplicates, which need the whole path, or if no minimum is found in a few steps.
    """
    if not problem.is_dual or problem.robust is not None or problem.classification or _copies(problem):
        return None
    unit = arrays.like(output_units(arrays.to_numpy(problem.y)[problem.rows]), problem.y)
    scaled = problem.replace(y=problem.y / unit)
    middle = math.log(kernel_variance(problem) * mean_weight(problem))
    low, high = (-math.log(CONSTANTS.ridges[edge]) - middle for edge in (-1, 0))
    least, log_C = CONSTANTS.flatness / len(problem.rows), math.log(C)
    ends: dict[bool, tuple[float, float]] = {}  # the last point on each side of the minimum, and the derivative there
    for number in range(NEARBY):
        if not low < log_C < high:
            return None
        try:
            slope, loo = scaled.press_in_C(math.exp(log_C))[1:]
        except NumericalError:  # the kernel matrix is singular to working precision
            return None
        ends[slope > 0.0] = log_C, slope
        if len(ends) == 1:
            if number == 0 and abs(slope) * (high - low) < least:
                return None  # PRESS is flat for very large and very small C
            log_C -= math.copysign(1.0, slope)
            continue
        (left, falling), (right, rising) = ends[False], ends[True]
        target = left - falling * (right - left) / (rising - falling)
        if 0.5 * abs(slope * (target - log_C)) < least:
            outliers = np.any(_shares(arrays.to_numpy(loo)) < 1.0)
            return None if outliers else (math.exp(log_C), unit * loo)
        log_C = target
    return None


def fit_of_path(factor: Factor, C: float) -> tuple[Fit | None, Any]:
    """The fit for one C from the factor for all C, and the leave-one-out residuals of the rows with positive weight.

    The fit is None, and the residuals have a few digits, if a separate factorisation would be more accurate.
    """
    quick = factor.system.solution(1.0 / C, careful=False)
    if not factor.system.serves(1.0 / C, quick.leverage):
        return None, quick.loo_residuals
    fit = factor.fit(C)
    return replace(fit, rounding=factor.rounding(fit)), arrays.take(fit.loo_residuals, factor.rows)


def kernel_variance(problem: Problem) -> float:
    """Mean of k(x, x) minus the mean of k(x, z) over (a sample of) the rows: the variance of the kernel."""
    return kernel_spectrum(problem)[0]


def kernel_spectrum(problem: Problem) -> tuple[float, float]:
    """The variance of the kernel over (a sample of) the rows, and a bound on its eigenvalues per row."""
    rows = sample_of(problem, CONSTANTS.spectrum_rows)
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
