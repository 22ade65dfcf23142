"""Standard deviations and confidence bands of the fitted function."""

from __future__ import annotations

import numpy as np

from .. import arrays
from ..arrays import Array
from ..kernels import Additive, pick_columns
from ..problem import Fit, Problem


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
