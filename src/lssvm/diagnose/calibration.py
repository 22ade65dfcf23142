"""How well probabilities and intervals agree with leave-one-out values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import Bunch

from .. import arrays
from ..estimators import LSSVC, LSSVR
from ..intervals import loo_sets, order_statistic
from .access import NotKnown, check_fitted, least_squares_problem, members
from .loo import loo_probabilities, loo_values


def reliability(
    probability: np.ndarray, codes: np.ndarray, n_bins: int = 10, weights: np.ndarray | None = None
) -> Bunch:
    """Predicted probabilities and observed frequencies in bins of equal count.

    Parameters
    ----------
    probability : array (rows, classes)
        For two classes the probability of the second is used, otherwise that of the predicted class.
    codes : array (rows,)
        Class numbers of the rows.
    n_bins : int
        Largest number of bins.
    weights : array (rows,) or None
        Positive weights of the rows.

    Returns
    -------
    Bunch
        ``predicted``, ``observed``, ``count`` and the ends ``low`` and ``high`` of Wilson's 95 % interval for each bin;
        with weights, the interval for (sum w)^2/sum w^2 rows.
    """
    w = np.ones(len(codes)) if weights is None else weights
    if probability.shape[1] == 2:
        p, hit = probability[:, 1], codes == 1
    else:
        named = np.argmax(probability, axis=1)
        p, hit = probability[np.arange(len(codes)), named], codes == named
    order = np.argsort(p, kind="stable")
    parts = [part for part in np.array_split(order, min(n_bins, len(order))) if len(part)]
    predicted = np.array([np.average(p[part], weights=w[part]) for part in parts])
    observed = np.array([np.average(hit[part], weights=w[part]) for part in parts])
    count = np.array([len(part) for part in parts])
    n = np.array([w[part].sum() ** 2 / np.sum(w[part] ** 2) for part in parts])
    low, high = wilson_interval(observed, n)
    return Bunch(predicted=predicted, observed=observed, count=count, low=low, high=high)


def wilson_interval(observed: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ends of Wilson's 95 % interval of a share that was observed in n rows."""
    z2 = 1.96**2
    middle = (observed + z2 / (2 * n)) / (1 + z2 / n)
    half = np.sqrt(z2) / (1 + z2 / n) * np.sqrt(observed * (1 - observed) / n + z2 / (4 * n**2))
    return middle - half, middle + half


@dataclass(frozen=True)
class _Pairs:
    """Residuals of pairs of rows that are left out together, of a model that is not a stack."""

    counting: np.ndarray  # numbers of the rows with positive weight
    targets: np.ndarray  # (rows, outputs)
    residuals: np.ndarray  # (rows, outputs)
    leverage: np.ndarray
    weights: np.ndarray
    smoother: Callable[[np.ndarray], Any]  # df(x_i)/dy_j of some rows i and all rows j

    def residuals_without(self, part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The residuals of rows i of a part and of all rows j with both left out, (part, rows, outputs) each."""
        e, h, v = self.residuals, self.leverage, self.weights
        H = arrays.to_numpy(self.smoother(part))
        mirrored = H * (v[part, None] / v[None, :])  # df_j/dy_i = H_ij v_i/v_j, as V H is symmetric
        determinant = ((1 - h[part, None]) * (1 - h[None, :]) - H * mirrored)[:, :, None]
        own = (1 - h[None, :, None]) * e[part, None, :] + H[:, :, None] * e[None, :, :]
        other = (1 - h[part, None, None]) * e[None, :, :] + mirrored[:, :, None] * e[part, None, :]
        return own / determinant, other / determinant


def _pairs(model: Any) -> _Pairs:
    """The pairs of rows of a model that is not a stack."""
    sample = model.fitted_.members[0].loo_sample
    if sample is not None:
        counting, found, targets = np.arange(len(sample.weights)), sample, sample.targets
        columns = sample.columns(sample.X)
        smoother = lambda part: sample.smoother(arrays.take(sample.X, part), columns)  # noqa: E731
    else:
        problem = least_squares_problem(model, "Interval coverage")
        factor = problem.factorise()
        counting, found, targets = factor.rows, model.leave_one_out().fitted_.fit, problem.y
        smoother = lambda part: factor.smoother(arrays.take(problem.X, counting[part]), model.C_)  # noqa: E731
    targets, residuals, leverage, weights = (
        arrays.to_numpy(values)[counting] for values in (targets, found.residuals, found.leverage, found.weights)
    )
    return _Pairs(counting, targets, residuals, np.clip(leverage, 0.0, 1.0 - 1e-12), weights, smoother)


def coverage_path(
    model: LSSVR | LSSVC, coverages: Sequence[float] | np.ndarray = (0.5, 0.8, 0.9, 0.95), rows: int = 500
) -> Bunch:
    """Exact share of the training rows that lie in the jackknife+ interval of the model fitted without them.

    The interval of row i comes from the models without rows i and j, for all other rows j: with H the matrix of
    df(x_i)/dy_j and e the residuals, the residuals of rows i and j left out together are (I - H_BB)^-1 e_B,
    B = {i, j}, so that one factorisation serves all pairs. C, kernel, weights and basis are held fixed, even if
    `predict_interval` repeats the search without folds: widths that were chosen with too few rows are not detected
    here. For a model fitted on chunks the rows are those of its sample.

    Parameters
    ----------
    model : LSSVR
        Fitted model.
    coverages : sequence of float
        Nominal coverages.
    rows : int
        Largest number of rows to test; they are evenly spaced.

    Returns
    -------
    Bunch
        ``asked`` (levels,); ``observed`` coverage and mean ``width`` (infinite if an interval is), each (levels,) or
        (levels, outputs); and ``rows``, the numbers of the rows tested.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, diagnose, kernels
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> path = diagnose.coverage_path(LSSVR(kernels.RBF(13.1), C=830.0).fit(X, y))
    >>> path.asked, path.observed.round(2)
    (array([0.5 , 0.8 , 0.9 , 0.95]), array([0.5 , 0.8 , 0.9 , 0.95]))
    """
    check_fitted(model)
    if is_classifier(model):
        raise NotKnown("Prediction intervals exist only for LSSVR: for LSSVC use predict_proba.")
    kept = [(_pairs(member), weight) for member, weight in members(model)]
    counting, y = kept[0][0].counting, kept[0][0].targets
    if not all(np.array_equal(own.counting, counting) for own, _ in kept):
        raise NotKnown("Interval coverage: the members of this stack give no weight to different rows.")
    n = len(counting)
    if n < 3:
        raise NotKnown(f"Interval coverage needs at least 3 rows, got {n}.")
    tested = np.unique(np.linspace(0, n - 1, min(rows, n)).astype(int))
    ends = np.empty((len(coverages), len(tested), 2, y.shape[1]))
    for block in arrays.row_blocks(len(tested), 64 * n * y.shape[1]):
        part = tested[block]
        total: Any = 0.0
        for pairs, weight in kept:
            total = total + weight * np.array(pairs.residuals_without(part))
        own, other = total
        centre, size = y[part, None, :] - own, np.abs(other)
        others = np.ones((len(part), n), dtype=bool)
        others[np.arange(len(part)), part] = False
        low = (centre - size)[others].reshape(len(part), n - 1, -1)
        high = (centre + size)[others].reshape(len(part), n - 1, -1)
        for level, coverage in enumerate(coverages):
            ends[level, block, 0] = order_statistic(low, math.floor(round((1 - coverage) * n, 9)))
            ends[level, block, 1] = order_statistic(high, math.ceil(round(coverage * n, 9)))
    inside = (ends[:, :, 0] <= y[tested]) & (y[tested] <= ends[:, :, 1])
    width = ends[:, :, 1] - ends[:, :, 0]
    single = slice(None) if y.shape[1] > 1 else 0
    with np.errstate(invalid="ignore"):
        mean_width = np.where(np.isfinite(width).all(axis=1), width.mean(axis=1), np.inf)
    return Bunch(
        asked=np.array(coverages),
        observed=inside.mean(axis=1)[:, single],
        width=mean_width[:, single],
        rows=counting[tested],
    )


def set_coverage(model: LSSVR | LSSVC, coverages: Sequence[float] | np.ndarray = (0.8, 0.9, 0.95, 0.99)) -> Bunch:
    """Share of the training rows whose class is in its prediction set, and the mean size of the sets.

    The probabilities are those of the model without the row, and the threshold comes from the other rows.

    Parameters
    ----------
    model : LSSVC
        Fitted model.
    coverages : sequence of float
        Nominal coverages.

    Returns
    -------
    Bunch
        ``asked``, ``observed`` and ``size``, each (levels,).

    Examples
    --------
    >>> from lssvm import LSSVC, datasets, diagnose, kernels
    >>> X, y = datasets.load_ripley(return_X_y=True)
    >>> found = diagnose.set_coverage(LSSVC(kernels.RBF(0.4), C=1.0).fit(X, y))
    >>> bool((found.observed >= found.asked - 0.01).all())
    True
    """
    given = loo_values(model).given
    probability, codes = (array[given > 0] for array in loo_probabilities(model))
    sets = [loo_sets(probability, codes, float(coverage)) for coverage in coverages]
    rows = np.arange(len(codes))
    return Bunch(
        asked=np.array(coverages),
        observed=np.array([inside[rows, codes].mean() for inside in sets]),
        size=np.array([inside.sum(axis=1).mean() for inside in sets]),
    )
