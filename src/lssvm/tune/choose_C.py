"""Choose C from the whole path of one factorisation, by the error of leave-one-out or held-out predictions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from .. import arrays
from ..arrays import EPS, Array
from ..coding import vertex
from ..losses import LOG_LINKS, log_loss
from ..problem import Factor, Fit, Problem, ProblemRecord
from ..progress import work
from ..system import QUICK
from .constants import CONSTANTS, DENSE_ROWS, constants, in_memory, part_of, sample_of, stages_of

SMALLEST_VARIANCE = 1e-280  # The ridges underflow for kernels of a smaller variance.
LENIENCE = 1.5  # The scale of residuals in the robust weights of a search is this many robust scales.
ROBUST_ITERATIONS = 3  # Robust weights of a search need as many solutions: the first may still follow an outlier.
BATCH = 2**22  # At most this many leave-one-out residuals are in memory at a time.
EXPLAINED = 0.02  # A warning is issued if leave-one-out explains a smaller share of the variance.
NOISE_FREE = 0.1  # Targets may be called noise-free if at most this share of the variance is not explained.
UNEQUAL = 100.0  # A kernel without widths practically ignores columns whose spread is smaller by this factor.

LARGEST = 1e300  # This stands for the error of a C that fails.

Errors = Callable[[Factor, Sequence[float]], np.ndarray]


# Errors of leave-one-out and held-out predictions ---------------------------------------------------------------------
def loo_errors(factor: Factor, C: Sequence[float]) -> np.ndarray:
    """Return the mean loss of the leave-one-out residuals for every C, in units of the outputs.

    For regression, they are clipped at `outlier` times their 90th percentile: a single target must not decide.
    """
    problem = factor.problem
    y, weights = (arrays.to_numpy(a)[problem.rows] for a in (problem.y, problem.weights))
    unit = 1.0 if problem.classification else arrays.like(output_units(y), problem.y)
    errors = []
    for residuals in _loo_residuals(factor, C):
        scaled, xp = residuals / unit, arrays.namespace(residuals)
        if not problem.classification:
            share = np.quantile(arrays.to_numpy(xp.abs(scaled)), 0.9, axis=0)
            limit = CONSTANTS.outlier * arrays.like(share, scaled)
            scaled = xp.clip(scaled, -limit, limit)
        losses = xp.abs(scaled) if problem.robust is not None else scaled * scaled
        errors.append(arrays.to_numpy(arrays.like(weights, losses) @ xp.sum(losses, axis=2)) / weights.sum())
    found = np.concatenate(errors)
    return np.where(np.isfinite(found), found, np.inf)


def class_errors(factor: Factor, C: Sequence[float]) -> np.ndarray:
    """Return `losses.log_loss` of the leave-one-out decision values of classes for every C."""
    y, weights = (arrays.to_numpy(a)[factor.problem.rows] for a in (factor.problem.y, factor.problem.weights))
    batches = map(arrays.to_numpy, _loo_residuals(factor, C))
    return np.concatenate([log_loss(y[:, None, :] - residuals, y, weights)[0] for residuals in batches])


def _loo_residuals(factor: Factor, C: Sequence[float]) -> Iterator[Array]:
    """Yield the leave-one-out residuals (rows, values of C, outputs), in batches of values of C that fit in memory."""
    several = max(1, BATCH // (len(factor.problem.rows) * factor.problem.y.shape[1]))
    for start in range(0, len(C), several):
        blocks = [block for _, block in factor.system.loo_path([1.0 / value for value in C[start : start + several]])]
        yield arrays.namespace(blocks[0]).concat(blocks)


def mean_loss(problem: ProblemRecord, residuals: np.ndarray, weights: np.ndarray, y: np.ndarray | None = None) -> float:
    """Return the weighted mean of the squared residuals, or of the absolute residuals for a robust fit.

    For classes, it is `losses.log_loss` if their targets `y` are given, and for counts or positive targets, the mean
    deviance. The residuals are leave-one-out or held-out.
    """
    if problem.loss != "squared" and y is not None:
        return mean_deviance(problem.loss, y, y - residuals, weights)
    if problem.classification and y is not None:
        return float(log_loss((y - residuals)[:, None, :], y, weights)[0][0])
    losses = abs(residuals) if problem.robust is not None else residuals * residuals
    score = float(weights @ losses.sum(axis=1) / weights.sum())
    return score if math.isfinite(score) else math.inf


def mean_deviance(loss: str, y: np.ndarray, means: np.ndarray, weights: np.ndarray) -> float:
    """Return the weighted mean of the unit deviances of counts or positive targets (rows, 1)."""
    values = LOG_LINKS[loss](y).value(np.log(np.maximum(means, np.finfo(float).tiny)))
    return float(2.0 * np.average(values[:, 0], weights=weights))


def error_rate(y: np.ndarray, loo: np.ndarray, weights: np.ndarray) -> float:
    """Return the share of rows that leave-one-out misclassifies, from coded targets and leave-one-out residuals."""
    predicted = y - loo
    wrong = np.argmax(predicted, axis=1) != np.argmax(y, axis=1) if y.shape[1] > 1 else (predicted * y <= 0)[:, 0]
    return float(np.average(wrong, weights=weights))


def output_units(y: np.ndarray) -> np.ndarray:
    """Return the standard deviation of every output, or 1 if it is constant.

    In these units, all outputs count alike, and squares cannot overflow.
    """
    deviation = y - y.mean(axis=0)
    largest = np.max(np.abs(deviation), axis=0, initial=0.0)
    unit = largest * (deviation / np.where(largest > 0, largest, 1.0)).std(axis=0)
    return np.where(unit > 0, unit, 1.0)


def unexplained(y: np.ndarray, loo: np.ndarray, weights: np.ndarray) -> float:
    """Return the share of the variance of outputs that is left in their leave-one-out residuals, on average.

    Outputs and residuals have the shape (rows, outputs).
    """
    total = weights @ (y - np.average(y, axis=0, weights=weights)) ** 2
    return float(np.mean(np.where(total > 0, weights @ loo**2 / np.where(total > 0, total, 1.0), 0.0)))


# The best C -----------------------------------------------------------------------------------------------------------
def best_C(problem: Problem, errors: Errors = loo_errors, guess: float | None = None) -> tuple[float, float, Factor]:
    """Return the C with the smallest error (or the given C), that error, and the factor.

    `errors` returns the errors of several values of C. One factor serves them all. For dense models of many rows, a few
    factors of half of the rows take less time, and for large bases, the factor of a part. A `guess` of C saves time.
    """
    if problem.C is not None:
        factor = problem.factorise()
        return problem.C, float(errors(factor, [problem.C])[0]), factor
    # The best C hardly depends on the number of rows of a dense model, or on that of many basis points.
    rows, points = len(problem.rows), constants(problem.effort).last_stage[1]
    if errors in (loo_errors, class_errors):
        C = None
        if problem.is_dual and rows > DENSE_ROWS:
            half = problem.subset(sample_of(problem, rows // 2))
            start = guess or best_C(half.subset(sample_of(half, constants(problem.effort).dense_stage)), errors)[0]
            C = _best_C_nearby(half, errors, start)
        elif not problem.is_dual and problem.basis_size > points:
            C = best_C(part_of(problem, rows, points), errors, guess)[0]
        if C is not None:
            return best_C(problem.replace(C=C), errors)
    unit, rounding = ridge_unit(problem)
    ridges = np.geomspace(*constants(problem.effort).ridges) * unit
    # Ridges far above the rounding errors of sums over rows are cheaper, and usually suffice.
    near = ridges < (0.0 if problem.is_dual else rounding / QUICK)
    if guess is not None and near.any() and 1.0 / guess <= ridges[~near].min(initial=math.inf):
        near[:] = False
    known: Any = None
    for grid in [ridges[~near], ridges] if near.any() else [ridges]:
        known = None  # There may be memory for only one.
        known = problem.factorise(float(1.0 / grid[0]), every=True, quick=True)
        scores = errors(known, (1.0 / grid).tolist())
        if np.argmin(scores) > 0:
            break
    best = min(zip(scores, 1.0 / grid, strict=True))
    for _ in range(2):  # The next grids lie about the best point, and are four times finer each.
        place = int(np.argmin(scores))
        low, high = grid[max(place - 1, 0)], grid[min(place + 1, len(grid) - 1)]
        grid = np.geomspace(low, high, 9)[1:-1]
        scores = errors(known, (1.0 / grid).tolist())
        best = min(best, min(zip(scores, 1.0 / grid, strict=True)))
    return float(best[1]), float(best[0]), known


def _best_C_nearby(problem: Problem, errors: Errors, start: float) -> float:
    """Return the C with the smallest error near `start`, from one factorisation for each C that is tried."""
    unit, _ = ridge_unit(problem)
    least, largest = (-math.log(ridge * unit) for ridge in CONSTANTS.ridges[1::-1])

    def error(log_C: float) -> float:
        if not least <= log_C <= largest:
            return LARGEST
        C = math.exp(log_C)
        return min(float(errors(problem.factorise(C), [C])[0]), LARGEST)

    return math.exp(min(max(vertex(error, math.log(start), 1.0, 4), least), largest))


def ridge_unit(problem: Problem) -> tuple[float, float]:
    """Return the unit of the ridges 1/C, and a bound on the rounding errors of sums over rows.

    The unit is the mean weight times the variance of the kernel over (a sample of) the rows: the mean of k(x, x) minus
    the mean of k(x, z).
    """
    rows = sample_of(problem, constants(problem.effort).start_rows)
    weight = float(arrays.to_numpy(problem.weights)[problem.rows].mean())
    X = arrays.take(problem.X, rows)
    K = arrays.to_numpy(problem.kernel.evaluate(X, problem.kernel.basis_points(problem.X, rows)))
    with np.errstate(over="ignore", invalid="ignore"):
        variance = float(K.diagonal().mean() - K.mean())
    if not (math.isfinite(variance) and variance > SMALLEST_VARIANCE):
        return weight, EPS * weight * len(problem.rows)
    K = K / variance - K.mean(axis=0) / variance  # This keeps squares from overflowing.
    K = K - K.mean(axis=1)[:, None]
    largest = variance * float(np.linalg.norm(K)) / len(rows)  # This bounds the eigenvalues per row.
    return variance * weight, EPS * largest * weight * len(problem.rows)


def with_best_C(problem: Problem, record: Bunch, loss: str = "auto") -> Problem:
    """Return the problem with the best C on all rows that fit in memory, and record this C.

    An existing C is the initial guess or, for models of too many rows for a factorisation, that of a dense sample
    without outliers. Robust weights and C are chosen alternately.
    """
    is_part = problem.is_iterative() and not problem.classification
    if is_part and problem.C is not None:
        return downweight_outliers(problem.replace(fitted=problem.solve()), fixed_C=True)
    trial = in_memory(problem.replace(C=None))
    record.plan.append(f"C on {'all' if len(trial.rows) == len(problem.rows) else len(trial.rows)} rows")
    errors = class_errors if problem.classification and loss == "auto" else loo_errors
    C, factor = problem.C, None
    if trial.robust is None or C is None:
        # With a basis, the best C is roughly proportional to the number of rows, which was smaller in the search.
        rows = len(trial.rows)
        guess = C if C is None or trial.is_dual else C * rows / min(stages_of(trial)[-1][0], rows)
        C, _, factor = best_C(trial, errors, guess)
    if trial.robust is not None:
        for _ in range(ROBUST_ITERATIONS):
            C = best_C(trial.replace(weights=search_weights(trial.replace(C=C)), robust=None), errors)[0]
    known = problem.replace(C=C)
    if factor is not None and trial.robust is None and (is_part or len(trial.rows) == len(problem.rows)):
        fit, loo = fit_of_path(factor, C)
        del factor  # There may be memory for only one.
        lighter = downweight_outliers((trial.replace(C=C) if is_part else known).replace(fitted=fit), loo)
        if is_part:  # the C without lower weights shows the outliers among all rows
            known = downweight_outliers(known.replace(fitted=known.solve()), fixed_C=True)
            lighter = known if lighter.C == C else known.replace(C=lighter.C)
        known = lighter
    record.C = known.C
    return known


def most_for_C(problem: Problem) -> float:
    """Return an upper bound of the `work` of `with_best_C`."""
    rows, basis = len(in_memory(problem).rows), None if problem.is_dual else problem.basis_size
    path = work(rows, basis if basis is None else min(basis, constants(problem.effort).last_stage[1]), every=True)
    if problem.is_dual and rows > DENSE_ROWS:
        path = 1.5 * work(rows, None)  # The work of four factors of half of the rows, and of one of all of them.
    if problem.robust is None:
        return path
    solves = 1 + max(ROBUST_ITERATIONS, problem.robust.iterations)
    return path + ROBUST_ITERATIONS * (path + solves * work(rows, basis))


def search_weights(problem: Problem) -> Any:
    """Return robust weights for a search, from the leave-one-out residuals and with a larger scale than in a fit.

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
    """Return the problem of a regression with lower weights of its outliers and the best C for these, if it has any.

    A target whose leave-one-out residual is more than `outlier` times their 90th percentile, and than `outlying` times
    the spread of the targets, gets the weight with which its square counts as much as one at that limit. A single
    target then decides neither the search nor the fit. `loo` are the leave-one-out residuals of the rows with positive
    weight, if they are known.
    """
    if problem.classification or problem.robust is not None:
        return problem
    weights = problem.weights
    least = CONSTANTS.outlying * arrays.spread_of(arrays.to_numpy(problem.y)[problem.rows])
    for _ in range(iterations):
        loo = arrays.take(problem.solve().loo_residuals, problem.rows) if loo is None else loo
        sizes = np.abs(arrays.to_numpy(loo))
        limit = np.maximum(CONSTANTS.outlier * np.quantile(sizes, 0.9, axis=0), least)
        outlying = (sizes > limit) & (limit > 0)
        if not outlying.any():
            break
        factors = np.ones(problem.X.shape[0])
        factors[problem.rows] = np.min(np.divide(limit, sizes, out=np.ones_like(sizes), where=outlying), axis=1) ** 2
        problem, loo = problem.replace(weights=weights * arrays.like(factors, weights)), None
        if not fixed_C:
            problem = problem.replace(C=best_C(problem.replace(C=None), guess=problem.C)[0])
    return problem


def fit_of_path(factor: Factor, C: float) -> tuple[Fit | None, Any]:
    """Return the fit for one C, and the leave-one-out residuals of the rows with positive weight.

    Both come from the factor for all C. If a separate factorisation would be more accurate, the fit is None, and the
    residuals have only a few digits.
    """
    quick = factor.system.solution(1.0 / C, careful=False)
    if not factor.system.serves(1.0 / C, quick.leverage):
        return None, quick.loo_residuals
    fit = factor.fit(C)
    return fit, arrays.take(fit.loo_residuals, factor.problem.rows)


# Warnings -------------------------------------------------------------------------------------------------------------
def warn_at_edge(problems: Sequence[Problem]) -> None:
    """Warn if C lies at the edge of its range for at least half of the problems, once for all of them.

    The message describes the first of these problems. `warn_of_no_signal` reports regressions with the smallest C.
    """
    ridges = [1.0 / (float(problem.C or 1.0) * ridge_unit(problem)[0]) for problem in problems]
    edges = [not 1.01 * CONSTANTS.ridges[0] < ridge < 0.99 * CONSTANTS.ridges[1] for ridge in ridges]
    if 2 * sum(edges) < len(edges):
        return
    problem, ridge = problems[edges.index(True)], ridges[edges.index(True)]
    kernel = problem.kernel
    if ridge >= 1.0 and not problem.classification:
        return
    if problem.is_dual and not problem.classification and kernel.leaves:
        parts = (problem.y, problem.solve().loo_residuals, problem.weights)
        if unexplained(*(arrays.to_numpy(a)[problem.rows] for a in parts)) > NOISE_FREE:
            return  # A narrow kernel hardly relates the rows to each other, and any large C gives the same errors.
    reason, remedy = "the targets look unrelated to the inputs", "Give C or sigma." if kernel.leaves else "Give C."
    if ridge < 1.0:
        part = "kernel" if problem.is_dual else "basis"
        reason = f"the targets look noise-free, or the {part} is too small to overfit"
        spread = np.ones(1) if kernel.is_precomputed else problem.spreads.values[~problem.spreads.constant]
        ratio = np.max(spread, initial=0.0) / np.min(spread, initial=math.inf)
        if not kernel.leaves and ratio > UNEQUAL:
            remedy = f"Scale the columns: their spreads differ by a factor of {ratio:.0e}; the kernel has no widths."
        rows = np.hstack([arrays.to_numpy(arrays.take(array, problem.rows)) for array in (problem.X, problem.y)])
        copies = len(rows) - len(np.unique(rows, axis=0))
        if copies:
            reason = f"{copies} of {len(rows)} rows are duplicates, also in y, and leaving one out leaves its copy in"
            remedy = "Drop them (sample_weight can count them), or choose by tune.KFold(groups=...)."
    message = f"C = {problem.C:.3g} is at the edge of the range searched: {reason}. {remedy}"
    arrays.warn(message)


def warn_of_no_signal(y: np.ndarray, loo: np.ndarray, weights: np.ndarray) -> None:
    """Warn if a regression explains next to nothing, by its targets and leave-one-out residuals (rows, outputs)."""
    explained = 1.0 - unexplained(y, loo, weights)
    if explained < EXPLAINED:
        arrays.warn(
            f"By leave-one-out, the model explains {max(explained, 0.0):.1%} of the variance of the targets: they look "
            "unrelated to the inputs, or a few extreme targets hide the relation."
        )
