"""The objectives of a search: losses of leave-one-out and of held-out predictions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence

import numpy as np

from .. import arrays
from ..arrays import Array
from ..losses import log_loss
from ..problem import (
    Factor,
    Problem,
    ProblemRecord,
)
from .constants import CONSTANTS

BATCH = 2**24  # At most this many leave-one-out decision values are in memory at a time.
EXPLAINED = 0.02  # A warning is issued if leave-one-out explains a smaller share of the variance.


def error_rate(y: np.ndarray, loo: np.ndarray, weights: np.ndarray) -> float:
    """Share of the rows that leave-one-out misclassifies, from coded targets and leave-one-out residuals."""
    predicted = y - loo
    wrong = np.argmax(predicted, axis=1) != np.argmax(y, axis=1) if y.shape[1] > 1 else (predicted * y <= 0)[:, 0]
    return float(np.average(wrong, weights=weights))


def loo_errors(factor: Factor, C: Sequence[float]) -> np.ndarray:
    """Mean loss of the leave-one-out residuals for every C, in units of the outputs.

    For regression, they are clipped at `outlier` times their 90th percentile: a single target must not decide.
    """
    problem = factor.problem
    y, weights = (arrays.to_numpy(a)[factor.rows] for a in (problem.y, problem.weights))
    unit = 1.0 if problem.classification else arrays.like(output_units(y), problem.y)
    counted, limit = arrays.like(weights, problem.y), None
    errors = arrays.zeros((len(C),), problem.y)
    for rows, residuals in factor.loo_path(C):
        scaled, xp = residuals / unit, arrays.namespace(residuals)
        if not problem.classification:
            if limit is None:
                share = np.quantile(arrays.to_numpy(xp.abs(scaled)), 0.9, axis=0)
                limit = CONSTANTS.outlier * arrays.like(share, scaled)
            scaled = xp.clip(scaled, -limit, limit)
        errors += counted[rows] @ xp.sum(_loss(problem, scaled), axis=2)
    found = arrays.to_numpy(errors) / weights.sum()
    return np.where(np.isfinite(found), found, np.inf)


def output_units(y: np.ndarray) -> np.ndarray:
    """The standard deviation of every output, 1 if it is constant: all count alike, and squares cannot overflow."""
    deviation = y - y.mean(axis=0)
    largest = np.max(np.abs(deviation), axis=0, initial=0.0)
    unit = largest * (deviation / np.where(largest > 0, largest, 1.0)).std(axis=0)
    return np.where(unit > 0, unit, 1.0)


def unexplained(y: np.ndarray, loo: np.ndarray, weights: np.ndarray) -> float:
    """The mean share of the variance of outputs that is left in their leave-one-out residuals, both (rows, outputs)."""
    total = weights @ (y - np.average(y, axis=0, weights=weights)) ** 2
    return float(np.mean(np.where(total > 0, weights @ loo**2 / np.where(total > 0, total, 1.0), 0.0)))


def warn_of_no_signal(y: np.ndarray, loo: np.ndarray, weights: np.ndarray) -> None:
    """Warn if a regression explains next to nothing, from targets and leave-one-out residuals (rows, outputs)."""
    explained = 1.0 - unexplained(y, loo, weights)
    if explained < EXPLAINED:
        warnings.warn(
            f"By leave-one-out, the model explains {max(explained, 0.0):.1%} of the variance of the targets: they look "
            "unrelated to the inputs, or a few extreme targets hide the relation (set robust).",
            stacklevel=arrays.user_level(),
        )


def class_errors(factor: Factor, C: Sequence[float]) -> np.ndarray:
    """`losses.log_loss` of the leave-one-out decision values of classes for every C, in batches that fit in memory."""
    y, weights = (arrays.to_numpy(a)[factor.rows] for a in (factor.problem.y, factor.problem.weights))
    several = max(1, BATCH // y.size)
    errors = []
    for start in range(0, len(C), several):
        blocks = [arrays.to_numpy(residuals) for _, residuals in factor.loo_path(C[start : start + several])]
        errors.append(log_loss(y[:, None, :] - np.concatenate(blocks), y, weights)[0])
    return np.concatenate(errors)


def errors_to_choose_by(problem: Problem, loss: str) -> Callable[[Factor, Sequence[float]], np.ndarray]:
    """The errors by which the final C is chosen."""
    return class_errors if problem.classification and loss == "auto" else loo_errors


def validation_loss(problem: Problem, y: np.ndarray, residuals: np.ndarray, weights: np.ndarray) -> float:
    """The final criterion on leave-one-out or held-out residuals: `mean_loss`, or `losses.log_loss` for classes."""
    if problem.classification:
        return float(log_loss((y - residuals)[:, None, :], y, weights)[0][0])
    return mean_loss(problem, residuals, weights)


def mean_loss(problem: Problem, residuals: np.ndarray, weights: np.ndarray) -> float:
    """Weighted mean of the squared residuals, or of the absolute residuals for a robust fit."""
    score = float(weights @ _loss(problem, residuals).sum(axis=1) / weights.sum())
    return score if math.isfinite(score) else math.inf


def _loss(problem: ProblemRecord, residuals: Array) -> Array:
    return arrays.namespace(residuals).abs(residuals) if problem.robust is not None else residuals * residuals
