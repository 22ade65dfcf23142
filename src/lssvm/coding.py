"""Reduction of several classes to binary problems: one against the rest, or one against one.

The pair (a, b), a < b, has the targets -1 for class a and +1 for class b, as for two classes. Its decision values are
meaningless for rows of other classes; `couple` turns the values of all pairs into class probabilities.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import scipy
from scipy.special import expit, softmax

from . import arrays

CODINGS = ("one-vs-rest", "one-vs-one")
SURE = 1e-7  # The probability of a class in a pair is at least this: libsvm's value.
SLOPES = (-5.0, 8.0)  # The log slopes are searched in this range: from almost equal probabilities to almost 0 and 1.
CALIBRATION_ROWS = 4000  # At most this many rows are used to choose the slope of pairs.
TINY = 1e-12  # This keeps systems regular and logarithms finite.
FAR = 300.0  # Exponents are clipped here, because exp overflows at 709.
# Probabilities of fitted models aim at `smoothed_targets` with this many missed rows, as with the prior of Jeffreys.
# With 1, as in Platt (1999), whose values are those of the training rows instead of leave-one-out values, the log
# loss of 19 tables was 1.02 times as large. For none of them was it smaller by more than 1.6 %.
MISSED = 0.5
STEP = 0.4  # Each step of the search from a guess changes the log slope by this much.
MOVES = 10  # This search takes at most this many steps.


def class_codes(labels: np.ndarray, classes: np.ndarray, remedy: str) -> np.ndarray:
    """Return the numbers of the classes of labels; ValueError for labels of other classes."""
    unknown = np.setdiff1d(labels, classes)
    if len(unknown):
        what = f"y contains {unknown.tolist()[0]!r}, which is not among the classes {classes.tolist()}"
        raise ValueError(f"{what}: {remedy}.")
    return np.searchsorted(classes, labels)


def pairs_of(n_classes: int) -> list[tuple[int, int]]:
    """Return the pairs (a, b) of classes, a < b, in the order of the output columns."""
    return list(itertools.combinations(range(n_classes), 2))


def pair_work(counts: np.ndarray) -> float:
    """Return the sum of (n_a + n_b)^3 over all pairs of classes, from the numbers of rows of the classes."""
    one, two, three = (float(np.sum(counts**power)) for power in (1, 2, 3))
    return (len(counts) - 4) * three + 3.0 * one * two


def pair_rows(codes: np.ndarray, n_classes: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the rows of each pair, sorted, and their targets -1 and +1."""
    members = [np.flatnonzero(codes == c) for c in range(n_classes)]
    found = []
    for a, b in pairs_of(n_classes):
        rows = np.sort(np.concatenate([members[a], members[b]]))
        found.append((rows, np.where(codes[rows] == b, 1.0, -1.0)))
    return found


def couple(values: np.ndarray, n_classes: int, slope: float) -> np.ndarray:
    """Return probabilities (rows, classes) from decision values (rows, pairs): Wu, Lin & Weng (2004), second method.

    With r_ab = 1/(1 + exp(slope f_ab)) the probability of a given a or b, the probabilities p minimise
    sum_ab (r_ba p_a - r_ab p_b)^2 subject to sum_a p_a = 1: p is proportional to Q^-1 1 with Q_aa = sum_b r_ba^2 and
    Q_ab = -r_ba r_ab.
    """
    out = np.empty((len(values), n_classes))
    first, second = np.array(pairs_of(n_classes)).T
    diagonal = np.arange(n_classes)
    for rows in arrays.row_blocks(len(values), 32 * n_classes**2):
        later = np.clip(expit(slope * values[rows]), SURE, 1.0 - SURE)
        R = np.zeros((len(later), n_classes, n_classes))
        R[:, second, first], R[:, first, second] = later, 1.0 - later
        Q = -R * R.transpose(0, 2, 1)
        Q[:, diagonal, diagonal] = np.sum(R * R, axis=1) + TINY
        p = np.maximum(np.linalg.solve(Q, np.ones((len(R), n_classes, 1)))[:, :, 0], TINY)
        out[rows] = p / p.sum(axis=1, keepdims=True)
    return out


def pair_slope(values: np.ndarray, codes: np.ndarray, weights: np.ndarray, n_classes: int) -> float:
    """Return the slope of `couple` with the smallest log loss of (leave-one-out) decision values."""
    order = np.random.RandomState(0).permutation(np.flatnonzero(weights > 0))[:CALIBRATION_ROWS]
    return pair_losses(values[order], codes[order], weights[order], n_classes, MISSED)[0]


def pair_losses(
    values: np.ndarray, codes: np.ndarray, weights: np.ndarray, n_classes: int, missed: float = 1.0
) -> tuple[float, np.ndarray]:
    """Return the slope of `couple` with the smallest log loss, and the log loss of every row.

    Coupling solves a linear system per row and slope. The search therefore starts from the best slope for the pairs of
    each row's own class, which is cheap to find.
    """
    first, second = np.array(pairs_of(n_classes)).T
    own = (codes[:, None] == second[None, :]) * 1.0 - (codes[:, None] == first[None, :])
    margins = own * values

    targets = smoothed_targets(codes, weights, n_classes, missed)
    aims = np.take_along_axis(targets, codes[:, None], axis=1)[:, 0]

    def loss_of_pairs(log_slope: float) -> float:
        odds = np.where(own != 0.0, np.exp(np.clip(-math.exp(log_slope) * margins, -FAR, FAR)), 0.0).sum(axis=1)
        right, wrong = np.maximum(1.0 / (1.0 + odds), TINY), np.maximum(odds / (1.0 + odds), TINY)
        return -float(weights @ (aims * np.log(right) + (1.0 - aims) * np.log(wrong)))

    def losses(log_slope: float) -> np.ndarray:
        p = couple(values, n_classes, math.exp(log_slope))
        return -np.sum(targets * np.log(np.maximum(p, TINY)), axis=1)

    guess = scipy.optimize.minimize_scalar(loss_of_pairs, bounds=SLOPES, method="bounded", options={"xatol": 0.05}).x
    found = vertex(lambda log_slope: float(weights @ losses(log_slope)), float(guess), STEP, MOVES)
    return math.exp(found), losses(found)


def vertex(function: Callable[[float], float], start: float, step: float, moves: int) -> float:
    """Return the vertex of the parabola through three values of a function, the middle one of which is the smallest.

    The values are taken `step` apart, after following the function downhill from `start` for at most `moves` steps. A
    parabola is accurate enough for a function as smooth as a log loss.
    """
    here, below = function(start + step), function(start)
    if below <= here:  # it falls in the other direction, where no move has been made yet
        start, step, below, here, moves = start + step, -step, here, below, moves + 1
    above = function(start + 2.0 * step)
    while above < here and moves > 1:
        start, below, here, moves = start + step, here, above, moves - 1
        above = function(start + 2.0 * step)
    curvature = max(below - 2.0 * here + above, 1e-300)
    return start + step * (1.0 + min(max(0.5 * (below - above) / curvature, -1.0), 1.0))


def smoothed_targets(codes: np.ndarray, weights: np.ndarray, n_classes: int, missed: float = 1.0) -> np.ndarray:
    """Return target probabilities (rows, classes): (n + m)/(n + 2 m) for the row's class, which has n rows.

    The other classes share the rest. With these targets, separable classes get a finite slope: it is as if m
    further rows of each class were classified correctly, and m were `missed`. Platt (1999) has m = 1.
    """
    counts = np.bincount(codes, weights=weights, minlength=n_classes)
    aims = ((counts + missed) / (counts + 2.0 * missed))[codes]
    targets = np.repeat(((1.0 - aims) / (n_classes - 1))[:, None], n_classes, axis=1)
    targets[np.arange(len(codes)), codes] = aims
    return targets


def softmax_slope(logits: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> float:
    """Return the slope s > 0 of softmax(s * logits) with the largest likelihood, the root of its derivative."""

    def derivative(slope: float) -> float:
        return float(weights @ np.sum((softmax(slope * logits, axis=1) - targets) * logits, axis=1))

    size = float(np.max(np.abs(logits), initial=0.0)) or 1.0
    high, low = 1.0 / size, 1e-6 / size  # positive, so that the predicted class stays the most probable
    if derivative(low) >= 0.0:
        return low
    while derivative(high) < 0.0:
        high *= 2.0
    return float(scipy.optimize.brentq(derivative, low, high, xtol=1e-14 * high, rtol=1e-14))
