"""How well probabilities and intervals agree with leave-one-out values."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import Bunch

from .. import arrays
from ..estimators import LSSVC, LSSVR
from ..intervals import order_statistic
from .access import NotKnown, check_fitted, kept_sample, least_squares_problem


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
    z2 = 1.96**2
    middle = (observed + z2 / (2 * n)) / (1 + z2 / n)
    half = np.sqrt(z2) / (1 + z2 / n) * np.sqrt(observed * (1 - observed) / n + z2 / (4 * n**2))
    return Bunch(predicted=predicted, observed=observed, count=count, low=middle - half, high=middle + half)


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
    sample = None if hasattr(model, "_problem_") else kept_sample(model)
    if sample is not None:
        counting, found, own = np.arange(len(sample.weights)), sample, sample.columns(sample.X)
    else:
        problem = least_squares_problem(model, "Interval coverage")
        factor = problem.factorise()
        counting, found = factor.rows, model.leave_one_out()._fit_
    n = len(counting)
    if n < 3:
        raise NotKnown(f"Interval coverage needs at least 3 rows, got {n}.")
    tested = np.unique(np.linspace(0, n - 1, min(rows, n)).astype(int))
    e = arrays.to_numpy(found.residuals)[counting]
    h = np.clip(arrays.to_numpy(found.leverage)[counting], 0.0, 1.0 - 1e-12)
    y = arrays.to_numpy(problem.y if sample is None else sample.targets)[counting]
    v = arrays.to_numpy(found.weights)[counting]
    ends = np.empty((len(coverages), len(tested), 2, e.shape[1]))
    for block in arrays.row_blocks(len(tested), 64 * n * e.shape[1]):
        part = tested[block]
        if sample is None:
            smoother = factor.smoother(arrays.take(problem.X, counting[part]), model.C_)
        else:
            smoother = sample.smoother(arrays.take(sample.X, part), own)
        H = arrays.to_numpy(smoother)  # (part, n): df_i/dy_j
        mirrored = H * (v[part, None] / v[None, :])  # df_j/dy_i = H_ij v_i/v_j, as V H is symmetric
        determinant = (1 - h[part, None]) * (1 - h[None, :]) - H * mirrored
        pair_i = ((1 - h[None, :, None]) * e[part, None, :] + H[:, :, None] * e[None, :, :]) / determinant[:, :, None]
        pair_j = (1 - h[part, None, None]) * e[None, :, :] + mirrored[:, :, None] * e[part, None, :]
        size = np.abs(pair_j / determinant[:, :, None])
        centre = y[part, None, :] - pair_i
        others = np.ones(H.shape, dtype=bool)
        others[np.arange(len(part)), part] = False
        low = (centre - size)[others].reshape(len(part), n - 1, -1)
        high = (centre + size)[others].reshape(len(part), n - 1, -1)
        for level, coverage in enumerate(coverages):
            ends[level, block, 0] = order_statistic(low, math.floor(round((1 - coverage) * n, 9)))
            ends[level, block, 1] = order_statistic(high, math.ceil(round(coverage * n, 9)))
    inside = (ends[:, :, 0] <= y[tested]) & (y[tested] <= ends[:, :, 1])
    width = ends[:, :, 1] - ends[:, :, 0]
    single = slice(None) if e.shape[1] > 1 else 0
    with np.errstate(invalid="ignore"):
        mean_width = np.where(np.isfinite(width).all(axis=1), width.mean(axis=1), np.inf)
    return Bunch(
        asked=np.array(coverages),
        observed=inside.mean(axis=1)[:, single],
        width=mean_width[:, single],
        rows=counting[tested],
    )
