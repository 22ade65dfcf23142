"""How well the predictive distribution of a regression model agrees with actual values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import Bunch

from .. import arrays
from ..arrays import ArrayLike
from ..estimators import LSSVC, LSSVR
from ..estimators.interval_mixin import distribution, loo_distribution, training_rows
from ..estimators.validation import encoded_rows
from .access import NotKnown, check_fitted, members
from .calibration import wilson_interval
from .loo import loo_values


def _check(model: Any, X: Any, y: Any, what: str) -> None:
    check_fitted(model)
    if is_classifier(model):
        raise NotKnown(f"{what} exists only for LSSVR: for LSSVC use predict_proba.")
    loo_values(model)  # raises an error if they are not known
    if (X is None) != (y is None):
        raise ValueError(f"{what}: give both X and y, or neither for leave-one-out.")


def pit(model: LSSVR | LSSVC, X: ArrayLike | None = None, y: ArrayLike | None = None) -> np.ndarray:
    """Values of the predictive distribution function at actual targets (probability integral transform).

    For a calibrated model they are uniform between 0 and 1. The distribution is that of `LSSVR.predict_quantiles`; for
    training rows, it is that of the model without the row, where the residuals of the other rows are those of models
    without one row each.

    Parameters
    ----------
    model : LSSVR
        Fitted model.
    X, y : arrays or None
        New rows and their targets; None means the training rows with positive weight.

    Returns
    -------
    array (rows,) or (rows, outputs)

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, diagnose, kernels
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> values = diagnose.pit(LSSVR(kernels.RBF(13.1), C=830.0).fit(X, y))
    >>> bool(abs(values.mean() - 0.5) < 0.02)
    True
    """
    _check(model, X, y, "The predictive distribution")
    if X is None or y is None:
        values = loo_distribution(model).loo_distribution()
        return values[:, 0] if model.fitted_.layout.single else values
    targets = np.asarray(arrays.to_numpy(y), dtype=float)
    rows = arrays.like(encoded_rows(model, X, "predict_quantiles"), training_rows(model.fitted_)[0])
    return distribution(model).distribution(rows, targets.reshape(len(targets), -1)).reshape(targets.shape)


def interval_coverage(model: LSSVR, coverages: Sequence[float] = (0.5, 0.8, 0.9, 0.95), rows: int = 500) -> Bunch:
    """Coverage of the default intervals by leave-one-out, and their mean width.

    The width is that of ``predict_interval(X, coverage)`` for at most `rows` of the training rows, evenly spaced.
    ``asked`` is (levels,), ``observed`` and ``width`` (levels, outputs), and ``rows`` the number of rows observed.
    """
    _check(model, None, None, "Coverage of intervals")
    used = [loo_values(member).weights > 0 for member, _ in members(model)]
    if not all(np.array_equal(own, used[0]) for own in used):
        raise NotKnown("Coverage of intervals: the members of this stack give no weight to different rows.")
    found = distribution(model)
    n = len(found.residuals)
    if n < 3:
        raise NotKnown(f"Coverage of intervals needs at least 3 rows, got {n}.")
    places = np.unique(np.linspace(0, n - 1, min(rows, n)).astype(int))
    inside = [np.abs(found.residuals) <= found.loo_half_widths(coverage) for coverage in coverages]
    X, _, _, numbers = training_rows(model.fitted_)
    inputs = arrays.take(X, numbers[places])
    ends = [found.intervals(inputs, coverage) for coverage in coverages]
    return Bunch(
        asked=np.array(coverages),
        observed=np.array([own.mean(axis=0) for own in inside]),
        width=np.array([np.mean(own[:, 1] - own[:, 0], axis=0) for own in ends]),
        rows=n,
    )


def coverage_by_region(
    model: LSSVR | LSSVC,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    column: int | None = None,
    coverage: float = 0.9,
    n_bins: int = 5,
    output: int = 0,
) -> Bunch:
    """Observed coverage and mean width of the default intervals in regions with equally many rows.

    Intervals that are right on average may still be too narrow in some regions and too wide in others.

    Parameters
    ----------
    model : LSSVR
        Fitted model.
    X, y : arrays or None
        New rows and their targets; None means leave-one-out on the training rows.
    column : int or None
        The column whose values define the regions; None means the predicted value.
    coverage : float
        Nominal coverage.
    n_bins : int
        Largest number of regions.
    output : int
        For models with several outputs.

    Returns
    -------
    Bunch
        ``low_edge``, ``high_edge``, ``observed``, ``width``, ``count`` and the ends ``low`` and ``high`` of Wilson's
        95 % interval for each region.
    """
    _check(model, X, y, "Coverage of intervals")
    if X is None or y is None:
        found, (X, y, _, numbers) = distribution(model), training_rows(model.fitted_)
        inputs, targets = (arrays.to_numpy(arrays.take(values, numbers)) for values in (X, y))
        if column is not None:  # its place among the encoded columns
            column = int(np.flatnonzero(model.fitted_.layout.sources == column % model.n_features_in_)[0])
        residuals, half = found.residuals[:, output], found.loo_half_widths(coverage)[:, output]
        predicted, inside, width = targets[:, output] - residuals, np.abs(residuals) <= half, 2 * half
    else:
        ends = arrays.to_numpy(model.predict_interval(X, coverage))
        inputs, targets = arrays.to_numpy(X), np.asarray(arrays.to_numpy(y), dtype=float)
        ends, targets, predicted = (
            np.reshape(a, (*a.shape[:n], -1))[..., output]
            for a, n in ((ends, 2), (targets, 1), (arrays.to_numpy(model.predict(X)), 1))
        )
        inside, width = (ends[:, 0] <= targets) & (targets <= ends[:, 1]), ends[:, 1] - ends[:, 0]
    place = predicted if column is None else inputs[:, column]
    parts = [part for part in np.array_split(np.argsort(place, kind="stable"), n_bins) if len(part)]
    observed, count = np.array([inside[part].mean() for part in parts]), np.array([len(part) for part in parts])
    low, high = wilson_interval(observed, count)
    return Bunch(
        low_edge=np.array([place[part].min() for part in parts]),
        high_edge=np.array([place[part].max() for part in parts]),
        observed=observed,
        width=np.array([width[part].mean() for part in parts]),
        count=count,
        low=low,
        high=high,
    )
