"""Standard deviations and confidence bands of the fitted function."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy
from scipy.special import ndtr, ndtri

from .. import arrays
from ..arrays import Array
from ..kernels import Additive, pick_columns
from ..problem import Fit, Problem
from .jackknife import Jackknife
from .loo import FittedLoo

GRID = 500  # The length of the tube is measured at this many points.
DRAWS, PLACES = 2000, 500  # With several columns, this many errors are simulated at that many of the rows.


def confidence_bands(
    found: Jackknife, X: Array, rows: Array, targets: np.ndarray, coverage: float, *, simultaneous: bool
) -> np.ndarray:
    """Return the ends (new rows, 2, k) of intervals for f(x) itself (De Brabanter et al. 2011).

    The fit is a linear smoother, f(x) = S(x) y, with the values H y at the rows. Its bias is estimated by S H y - S y,
    i.e. by smoothing the fitted values, and subtracted. The result is L(x) y with L = 2 S - S H, whose variance is
    sum_j L_j(x)^2 sigma_j^2. `rows` and `targets` are those of the model.
    """
    model, scale = found.model, found.scale
    H = model.smoother(rows)

    def corrected(Z: Array) -> np.ndarray:
        S = model.smoother(Z)
        return 2 * S - S @ H

    fitted = model.predict(rows)
    unit = (1.0 / np.sqrt(model.weights))[:, None] if scale is None else scale.own
    deviation = unit * np.sqrt(np.sum(((targets - fitted) / unit) ** 2, axis=0) / _freedom(H, unit))
    critical = np.full(targets.shape[1], ndtri(0.5 + coverage / 2))
    if simultaneous:
        critical = np.array([_critical(corrected, X, rows, column, coverage) for column in deviation.T])
    ends = np.empty((X.shape[0], 2, targets.shape[1]))
    for part in arrays.row_blocks(X.shape[0], 48 * len(targets)):
        middle = 2 * model.predict(X[part, :]) - model.smoother(X[part, :]) @ fitted
        half = critical * np.sqrt(corrected(X[part, :]) ** 2 @ deviation**2)
        ends[part] = np.stack([middle - half, middle + half], axis=1)
    return ends


def _freedom(H: np.ndarray, unit: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
    """Return tr (I - H)'(I - H) of every output, from all or some `rows` of H, with rows divided by `unit` (l, k).

    The squares of the residuals of pure noise (I - H) e have this sum, in units of its variance; l - tr H is far too
    large for models that nearly interpolate.
    """
    rows = np.arange(len(unit)) if rows is None else rows
    rest = -H
    rest[np.arange(len(rows)), rows] += 1.0
    total = np.sum((rest**2 @ unit**2) / unit[rows] ** 2, axis=0)
    return np.maximum(total * len(unit) / len(rows), np.finfo(float).tiny)


def _critical(
    smoother: Callable[[Array], np.ndarray], X: Array, rows: Array, deviation: np.ndarray, coverage: float
) -> float:
    """Return the number of standard deviations within which f(x) is everywhere with the given probability.

    The errors of f(x) in units of their standard deviations are T(x)'z with |T(x)| = 1 and standard normal z. In one
    column, the probability that they exceed c somewhere is about kappa/pi exp(-c^2/2) + 2 (1 - Phi(c)), where kappa is
    the length of the curve T(x) over the range of the rows (volume of a tube; Sun & Loader 1994). In several columns,
    the largest error over the rows and the new rows is simulated.
    """
    if rows.shape[1] == 1:
        values = arrays.to_numpy(rows)[:, 0]
        grid = arrays.like(np.linspace(values.min(), values.max(), GRID)[:, None], rows)
        curve = _directions(smoother(grid) * deviation)
        kappa = np.linalg.norm(np.diff(curve, axis=0), axis=1).sum()

        def excess(c: float) -> float:
            return kappa / math.pi * math.exp(-c * c / 2) + 2 * ndtr(-c) - (1 - coverage)

        return float(scipy.optimize.brentq(excess, 0.0, 100.0))
    draw = np.random.RandomState(0)
    z = draw.standard_normal((len(deviation), DRAWS))
    largest = np.zeros(DRAWS)
    for some in (rows, X):
        picked = draw.permutation(some.shape[0])[:PLACES]
        errors = _directions(smoother(arrays.take(some, picked)) * deviation) @ z
        largest = np.maximum(largest, np.abs(errors).max(axis=0))
    return float(np.quantile(largest, coverage))


def _directions(T: np.ndarray) -> np.ndarray:
    """Return rows of unit length."""
    length = np.linalg.norm(T, axis=1, keepdims=True)
    return np.divide(T, length, out=np.zeros_like(T), where=length > 0)


def component_deviations(problem: Problem, fit: Fit, X: Array) -> np.ndarray:
    """Return the standard deviations of the centred components of an additive model, (rows, components, outputs).

    Every component is linear in the targets, whose variance is estimated from the residuals as in `confidence_bands`.
    C, kernel, basis and weights are held fixed; the bias caused by the ridge is not included.
    """
    kernel, model = fit.kernel, FittedLoo(problem, fit)
    assert isinstance(kernel, Additive)
    factor, v = model.factor, model.weights
    X, training = arrays.like(X, problem.X), arrays.take(problem.X, model.rows)
    some = np.sort(np.random.RandomState(0).permutation(len(v))[:PLACES])
    freedom = _freedom(model.smoother(arrays.take(training, some)), (1.0 / np.sqrt(v))[:, None], some)
    variance = v @ arrays.to_numpy(fit.residuals)[model.rows] ** 2 / freedom
    out = np.zeros((X.shape[0], len(kernel.components(X.shape[1])), len(variance)))
    for number, (group, part) in kernel.kept(X.shape[1]).items():
        points = factor.problem.basis_points if factor.whitening is None else factor.whitening.points
        new, old = (part.evaluate(pick_columns(rows, group), pick_columns(points, group)) for rows in (X, training))
        columns = new - arrays.namespace(old).mean(old, axis=0)[None, :]
        columns = columns if factor.whitening is None else arrays.whiten_rows(columns, factor.whitening.lower)
        smoother = factor.system.smoother
        moves = smoother(columns, 1.0 / fit.C) - smoother(0.0 * columns, 1.0 / fit.C)
        out[:, number] = np.sqrt(np.outer(arrays.to_numpy(moves) ** 2 @ (1.0 / v), variance))
    return out
