"""Full conformal prediction: exact sets from the leave-one-out residuals of the model enlarged by a new row."""

from __future__ import annotations

import math

import numpy as np

from .. import arrays
from ..arrays import Array
from .loo import LooModel


def full_conformal(model: LooModel, X: Array, coverage: float) -> np.ndarray:
    """The smallest intervals (rows, 2, outputs) that contain the full conformal sets of new rows.

    The set contains y if at least floor(a (l + 1)) of the rows, a = 1 - coverage, have a leave-one-out residual of at
    least the size of that of (x, y), in the model of all rows and (x, y). With t = y - f(x) these residuals are
    a_i + b_i t and t, so that row i counts where (a_i - (1 - b_i) t)(a_i + (1 + b_i) t) >= 0.
    """
    n, outputs = model.residuals.shape
    needed = math.floor(round((1 - coverage) * (n + 1), 9))
    ends = np.empty((X.shape[0], 2, outputs))
    if needed < 1:
        ends[:, 0], ends[:, 1] = -np.inf, np.inf
        return ends
    for rows in arrays.row_blocks(X.shape[0], 96 * n * outputs):
        centre, a, b = model.enlarged(X[rows, :])
        slope = b[:, :, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            roots = np.stack([a / (1.0 - slope), -a / (1.0 + slope)])
        # |b_i| < 1: a row counts between its roots, one of which is negative and one positive
        upper = np.partition(roots.max(axis=0), n - needed, axis=1)[:, n - needed]
        lower = np.partition(roots.min(axis=0), needed - 1, axis=1)[:, needed - 1]
        for place in np.flatnonzero((np.abs(b) >= 1.0).any(axis=1)):
            for output in range(outputs):
                own = a[place, :, output], b[place]
                upper[place, output] = _largest(*own, needed)
                lower[place, output] = -_largest(-own[0], own[1], needed)
        ends[rows] = centre[:, None, :] + np.stack([lower, upper], axis=1)
    return ends


def _largest(a: np.ndarray, b: np.ndarray, needed: int) -> float:
    """The largest t >= 0 at which at least `needed` rows count; every row counts at 0.

    For t > 0, row i counts up to a root and, if |b_i| > 1, again from a second root on.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        roots = np.stack([np.where(b == 1, np.inf, a / (1.0 - b)), np.where(b == -1, np.inf, -a / (1.0 + b))])
    last, again = np.sort(np.where(roots > 0, roots, np.inf), axis=0)
    last = np.where(a == 0, np.where(np.abs(b) >= 1, np.inf, 0.0), last)
    if np.sum(np.isinf(last) | np.isfinite(again)) >= needed:
        return math.inf
    candidates = np.sort(last[np.isfinite(last)])[::-1]
    counts = np.searchsorted(np.sort(-last), -candidates, side="right") + np.searchsorted(
        np.sort(again), candidates, side="right"
    )
    return float(candidates[np.argmax(counts >= needed)])
