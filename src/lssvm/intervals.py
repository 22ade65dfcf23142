"""Prediction intervals and probabilities from leave-one-out values, without refitting."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import softmax

from . import arrays
from .arrays import Array
from .kernels import Additive, pick_columns
from .problem import Fit, Problem, column_spread
from .stream import LooSample
from .tune import LeaveOneOut

FOLDS = 10  # number of folds of the jackknife methods if the search is repeated without each fold
# With fewer samples per width, leave-one-out residuals are too small if the widths were chosen by them (measured in
# docs/intervals.md). `tune.PLAN.width_rows` is a different quantity: where the prior on the widths begins to widen.
ROWS_PER_WIDTH = 25
METHODS = ("jackknife+", "jackknife-minmax", "cv+")


def prediction_intervals(
    problem: Problem, fit: Fit, X: Array, coverage: float, method: str, folds: Any, size: np.ndarray | None = None
) -> np.ndarray:
    """Intervals of Barber et al. (2021) for new rows: (rows, 2, outputs); ends may be infinite.

    With R_i the absolute leave-one-out residuals, f_(i) the model without row i (for "cv+": without its fold) and
    a = 1 - coverage, the ends are the floor(a(l+1))-th smallest of f_(i)(x) - R_i and the ceil((1-a)(l+1))-th smallest
    of f_(i)(x) + R_i; for "jackknife-minmax" they are min f_(i)(x) - R and max f_(i)(x) + R, where R is the
    ceil((1-a)(l+1))-th smallest of the R_i. All values follow from one factorisation. Weights (including robust
    weights), C, kernel and basis are held fixed. The only exception are R_i that are given as `size`, for all rows, by
    `searched_again`.
    """
    factor = problem.replace(weights=fit.weights, C=fit.C, robust=None).factorise()
    blocks = None
    if method == "cv+":
        labels = fold_labels(folds, factor.rows, problem.X.shape[0])[factor.rows]
        blocks = [np.flatnonzero(labels == number) for number in range(labels.max() + 1)]
    if size is not None:
        size = size[factor.rows]
    elif blocks is None:
        size = np.abs(arrays.to_numpy(fit.loo_residuals)[factor.rows])
    else:
        size = np.abs(arrays.to_numpy(factor.system.block_residuals(blocks, 1.0 / fit.C)))
    n, outputs = size.shape
    moves = factor.system.moves(1.0 / fit.C, blocks)
    out = np.empty((X.shape[0], 2, outputs))
    for rows in arrays.row_blocks(X.shape[0], 48 * n * outputs):
        without = arrays.to_numpy(factor.loo_predictions(X[rows, :], fit, blocks, moves))
        if blocks is not None:
            without = without[:, labels, :]
        out[rows] = _ends(without, size, coverage, method)
    return out


def widths_with_few_rows(problem: Problem) -> int:
    """The number of chosen widths if there are too few rows per width for reliable leave-one-out residuals; else 0.

    Dropped columns do not count: coverage depends on the number of rows per width that is kept.
    """
    if problem.asked is None or not problem.asked[0].is_free:
        return 0
    spread = column_spread(problem)
    ratios = [arrays.to_numpy(leaf.sigma) / spread for leaf in problem.kernel.leaves]
    many = [ratio for ratio in ratios if np.min(ratio) < (1.0 - 1e-6) * np.max(ratio)]
    widths = sum(int(np.sum(np.isfinite(ratio))) for ratio in many)
    return widths if ROWS_PER_WIDTH * widths > len(problem.rows) else 0


def searched_again(problem: Problem, labels: np.ndarray) -> np.ndarray:
    """Absolute residuals (rows, outputs) of the rows of each fold, with kernel and C chosen without that fold.

    The basis is held fixed, unless it consists of the rows; robust weights come from the other rows. Rows with label -1
    are in no fold.
    """
    y = arrays.to_numpy(problem.y)
    size = np.full_like(y, np.nan)
    for number in range(labels.max() + 1):
        fold = np.flatnonzero(labels == number)
        others = np.setdiff1d(problem.rows, fold)
        if len(others) < 2:
            raise ValueError(
                f"folds: without one of the folds only {len(others)} row is left to choose widths: use smaller folds."
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `fit` has already warned about the whole model
            fit = LeaveOneOut()(problem.subset(others)).solve(loo=False)
        size[fold] = np.abs(y[fold] - arrays.to_numpy(fit.predict(arrays.take(problem.X, fold))))
    return size


def sampled_intervals(sample: LooSample, f: Array, X: Array, coverage: float, method: str) -> np.ndarray:
    """As `prediction_intervals`, from a sample of l training rows; f_(i) is the model of all rows but i, f is f(x).

    The guarantee is that of l rows, whatever the other rows are: these are regarded as a fixed part of the model.
    """
    own, loo = sample.columns(sample.X), sample.loo_residuals
    size = np.abs(arrays.to_numpy(loo))
    out = np.empty((X.shape[0], 2, size.shape[1]))
    for rows in arrays.row_blocks(X.shape[0], 48 * size.size):
        without = f[rows, None, :] - sample.smoother(X[rows, :], own)[:, :, None] * loo[None, :, :]
        out[rows] = _ends(arrays.to_numpy(without), size, coverage, method)
    return out


def _ends(without: np.ndarray, size: np.ndarray, coverage: float, method: str) -> np.ndarray:
    """The ends (new rows, 2, outputs) from f_(i)(x) (new rows, l, outputs) and R_i (l, outputs)."""
    n = size.shape[0]
    lower_rank = math.floor(round((1 - coverage) * (n + 1), 9))
    upper_rank = math.ceil(round(coverage * (n + 1), 9))
    if method == "jackknife-minmax":
        reach = order_statistic(size[None, :, :], upper_rank)
        return np.stack([without.min(axis=1) - reach, without.max(axis=1) + reach], axis=1)
    lower = order_statistic(without - size[None, :, :], lower_rank)
    return np.stack([lower, order_statistic(without + size[None, :, :], upper_rank)], axis=1)


def fold_labels(folds: Any, rows: np.ndarray, n_rows: int) -> np.ndarray:
    """The fold number of every row, drawn with a fixed seed or given by labels; -1 for rows of weight 0."""
    out = np.full(n_rows, -1)
    if isinstance(folds, (int, np.integer)) and not isinstance(folds, bool):
        if not 2 <= folds <= len(rows):
            raise ValueError(f"folds={folds!r}: give 2 to {len(rows)} folds, the number of rows with positive weight.")
        for number, part in enumerate(np.array_split(np.random.RandomState(0).permutation(len(rows)), int(folds))):
            out[rows[part]] = number
        return out
    labels = np.asarray(folds)
    if labels.shape != (n_rows,):
        raise ValueError(f"folds={folds!r}: give a number of folds, or one label per row ({n_rows} rows).")
    names, out[rows] = np.unique(labels[rows], return_inverse=True)
    if len(names) < 2:
        raise ValueError("folds holds only one distinct label, so no rows remain without that fold: give at least two.")
    return out


def component_deviations(problem: Problem, fit: Fit, X: Array) -> np.ndarray:
    """Standard deviations of the centred components of an additive model at new rows: (rows, components, outputs).

    Every component is linear in the targets, whose variance is that of the residuals, sum v e^2/(l - sum h), divided by
    the weights. C, kernel, basis and weights are held fixed; the bias caused by the ridge is not included.
    """
    kernel = fit.kernel
    assert isinstance(kernel, Additive)
    X = arrays.like(X, problem.X)
    factor = problem.replace(weights=fit.weights, C=fit.C, robust=None).factorise()
    whitening, rows = factor.whitening, factor.rows
    points = factor.points if whitening is None else whitening.points
    training = arrays.take(problem.X, rows)
    v = arrays.to_numpy(fit.weights)[rows]
    freedom = len(rows) - float(arrays.to_numpy(fit.leverage)[rows].sum())
    variance = v @ arrays.to_numpy(fit.residuals)[rows] ** 2 / max(freedom, 1e-12)
    out = np.zeros((X.shape[0], len(kernel.components(X.shape[1])), len(variance)))
    for number, (group, part) in kernel.kept(X.shape[1]).items():
        place = pick_columns(points, group)
        new, old = (part.evaluate(pick_columns(inputs, group), place) for inputs in (X, training))
        columns = new - arrays.namespace(old).mean(old, axis=0)[None, :]
        columns = columns if whitening is None else arrays.whiten_rows(columns, whitening.lower)
        moves = factor.system.smoother(columns, 1.0 / fit.C) - factor.system.smoother(0.0 * columns, 1.0 / fit.C)
        out[:, number] = np.sqrt(np.outer(arrays.to_numpy(moves) ** 2 @ (1.0 / v), variance))
    return out


def order_statistic(values: np.ndarray, rank: int) -> np.ndarray:
    """The rank-th smallest value along axis 1; infinite for ranks outside 1..n."""
    n = values.shape[1]
    if rank < 1:
        return np.full(values[:, 0].shape, -np.inf)
    if rank > n:
        return np.full(values[:, 0].shape, np.inf)
    return np.partition(values, rank - 1, axis=1)[:, rank - 1]


def calibrate(decision: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Slopes that turn (leave-one-out) decision values into probabilities, by weighted maximum likelihood.

    Two classes (one column): P = 1/(1 + exp(-slope * f)), with one slope for f < 0 and one for f > 0. More classes:
    softmax of slope * f. Both are monotone and keep the class with the largest decision value the most probable,
    because a least-squares model on targets -1 and +1 already has P = 1/2 at f = 0. Targets are smoothed as in Platt
    (1999): (n_k + 1)/(n_k + 2) for a class of n_k rows, so that separable classes keep finite slopes.
    """
    n_classes = max(2, decision.shape[1])
    counts = np.bincount(codes, weights=weights, minlength=n_classes)
    sure = ((counts + 1) / (counts + 2))[codes]
    target = np.repeat(((1 - sure) / (n_classes - 1))[:, None], n_classes, axis=1)
    target[np.arange(len(codes)), codes] = sure
    if decision.shape[1] > 1:
        return np.array([_slope(decision, target, weights)])
    logits = np.column_stack([np.zeros(len(codes)), decision[:, 0]])
    sides = [logits[:, 1] < 0, logits[:, 1] > 0]
    return np.array([_slope(logits[side], target[side], weights[side]) for side in sides])


def _slope(logits: np.ndarray, target: np.ndarray, weights: np.ndarray) -> float:
    """The slope s > 0 of softmax(s * logits) with the largest likelihood: the root of an increasing derivative."""

    def derivative(slope: float) -> float:
        return float(weights @ np.sum((softmax(slope * logits, axis=1) - target) * logits, axis=1))

    size = float(np.max(np.abs(logits), initial=0.0)) or 1.0
    high, low = 1.0 / size, 1e-6 / size  # positive, so that the predicted class stays the most probable
    if derivative(low) >= 0.0:
        return low
    while derivative(high) < 0.0:
        high *= 2.0
    return float(brentq(derivative, low, high, xtol=1e-14 * high, rtol=1e-14))


def probabilities(decision: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Class probabilities (rows, classes) from decision values (rows, columns); rows sum to 1."""
    with np.errstate(under="ignore"):  # a probability of 0
        return softmax(_logits(decision, slopes), axis=1)


def _logits(decision: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    if decision.shape[1] > 1:
        return slopes[0] * decision
    f = decision[:, 0]
    return np.column_stack([np.zeros_like(f), np.where(f > 0, slopes[1], slopes[0]) * f])
