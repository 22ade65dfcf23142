"""How well probabilities, intervals and predictive distributions agree with leave-one-out values or new targets."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import Bunch

from .. import arrays
from ..arrays import ArrayLike
from ..estimators import LSSVC, LSSVR
from ..estimators.regressor import distribution
from ..intervals.classes import loo_sets
from ..intervals.jackknife import order_statistic
from .access import NotKnown, check_fitted
from .loo import loo_probabilities, loo_values

Levels = Sequence[float] | np.ndarray


def reliability(
    probability: np.ndarray, codes: np.ndarray, n_bins: int = 10, weights: np.ndarray | None = None
) -> Bunch:
    """Return predicted probabilities and observed frequencies in bins of equal count.

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
    parts = _equal_parts(p, n_bins)
    bins = _shares(parts, hit, w)
    predicted = np.array([np.average(p[part], weights=w[part]) for part in parts])
    return Bunch(predicted=predicted, **bins)


def _equal_parts(place: np.ndarray, n_bins: int) -> list[np.ndarray]:
    """Return the rows in bins of equal count along `place`."""
    return [part for part in np.array_split(np.argsort(place, kind="stable"), n_bins) if len(part)]


def _shares(parts: Sequence[np.ndarray], hit: np.ndarray, w: np.ndarray) -> Bunch:
    """Return the weighted share of hits in parts of the rows, with the ends of Wilson's 95 % interval."""
    observed = np.array([np.average(hit[part], weights=w[part]) for part in parts])
    n = np.array([w[part].sum() ** 2 / np.sum(w[part] ** 2) for part in parts])
    z2 = 1.96**2
    middle = (observed + z2 / (2 * n)) / (1 + z2 / n)
    half = np.sqrt(z2) / (1 + z2 / n) * np.sqrt(observed * (1 - observed) / n + z2 / (4 * n**2))
    count = np.array([len(part) for part in parts])
    return Bunch(observed=observed, count=count, low=middle - half, high=middle + half)


def _check(model: Any, what: str, X: Any = None, y: Any = None) -> None:
    """Raise an error unless this is a regression model with leave-one-out values, and new rows have targets."""
    check_fitted(model)
    if is_classifier(model):
        raise NotKnown(f"{what} exists only for LSSVR: for LSSVC use predict_proba.")
    loo_values(model)  # raises an error if they are not known
    if (X is None) != (y is None):
        raise ValueError(f"{what}: give both X and y, or neither for leave-one-out.")


def _tested(model: Any, most: int, what: str) -> np.ndarray:
    """Return evenly spaced places among the rows with positive weight, which must be the same for all members."""
    rows = [member.training.rows for member in model.fitted_.members]
    if not all(np.array_equal(own, rows[0]) for own in rows):
        raise NotKnown(f"{what}: the rows of weight 0 differ between the members: give one, model.members_[0].")
    n = len(rows[0])
    if n < 3:
        raise NotKnown(f"{what} needs at least 3 rows, got {n}.")
    return np.unique(np.linspace(0, n - 1, min(most, n)).astype(int))


def coverage_path(model: LSSVR | LSSVC, coverages: Levels = (0.5, 0.8, 0.9, 0.95), rows: int = 500) -> Bunch:
    """Return the exact share of training rows that lie in the jackknife+ interval of the model fitted without them.

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
    _check(model, "Interval coverage")
    if model.fitted_.members[0].training.row_groups is not None:
        raise NotKnown("coverage_path leaves out pairs of rows, not groups: use coverage_by_group.")
    tested = _tested(model, rows, "Interval coverage")
    found, table = distribution(model, "jackknife+", search=False).model, model.fitted_.members[0].training
    numbers, y = table.rows, found.scaled(arrays.to_numpy(table.y)[table.rows])
    n = len(y)
    ends = np.empty((len(coverages), len(tested), 2, y.shape[1]))
    for block in arrays.row_blocks(len(tested), 64 * n * y.shape[1]):
        part = tested[block]
        own, other = found.pairs(arrays.take(table.X, numbers[part]), part)
        centre, size = y[part, None, :] - own, np.abs(other)
        others = np.ones((len(part), n), dtype=bool)
        others[np.arange(len(part)), part] = False
        low = (centre - size)[others].reshape(len(part), n - 1, -1)
        high = (centre + size)[others].reshape(len(part), n - 1, -1)
        for level, coverage in enumerate(coverages):
            ends[level, block, 0] = order_statistic(low, math.floor(round((1 - coverage) * n, 9)))
            ends[level, block, 1] = order_statistic(high, math.ceil(round(coverage * n, 9)))
    inside = (ends[:, :, 0] <= y[tested]) & (y[tested] <= ends[:, :, 1])
    ends = found.ends(ends)
    width = ends[:, :, 1] - ends[:, :, 0]
    single = slice(None) if y.shape[1] > 1 else 0
    with np.errstate(invalid="ignore"):
        mean_width = np.where(np.isfinite(width).all(axis=1), width.mean(axis=1), np.inf)
    return Bunch(
        asked=np.array(coverages),
        observed=inside.mean(axis=1)[:, single],
        width=mean_width[:, single],
        rows=numbers[tested],
    )


def set_coverage(model: LSSVR | LSSVC, coverages: Levels = (0.8, 0.9, 0.95, 0.99)) -> Bunch:
    """Return the share of the training rows whose class is in its prediction set, and the mean size of the sets.

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
        ``asked``, ``observed`` and ``size``, each (levels,), and ``by_class``, the share observed for the rows of each
        class (levels, classes), NaN for a class without rows.

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
    own = np.array([inside[np.arange(len(codes)), codes] for inside in sets])
    counts = np.bincount(codes, minlength=probability.shape[1])
    return Bunch(
        asked=np.array(coverages),
        observed=own.mean(axis=1),
        by_class=own @ np.eye(len(counts))[codes] / np.where(counts > 0, counts, np.nan),
        size=np.array([inside.sum(axis=1).mean() for inside in sets]),
    )


def pit(model: LSSVR | LSSVC, X: ArrayLike | None = None, y: ArrayLike | None = None) -> np.ndarray:
    """Return values of the predictive distribution function at actual targets (probability integral transform).

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
    _check(model, "The predictive distribution", X, y)
    if X is None or y is None:
        values = distribution(model, search=False).loo_distribution()
        return values[:, 0] if model.fitted_.layout.single else values
    return arrays.to_numpy(model.predict_distribution(X).cdf(y))


def interval_coverage(model: LSSVR, coverages: Levels = (0.5, 0.8, 0.9, 0.95), rows: int = 500) -> Bunch:
    """Return the coverage of the default intervals by leave-one-out, and their mean width.

    The width is that of ``predict_interval(X, coverage)`` for at most `rows` of the training rows, evenly spaced.
    ``asked`` and ``needed``, the rows that finite intervals need, are (levels,), ``observed`` and ``width`` (levels,
    outputs), and ``rows`` is the number of rows observed.
    """
    _check(model, "Coverage of intervals")
    places, table = _tested(model, rows, "Coverage of intervals"), model.fitted_.members[0].training
    found, inputs = distribution(model), arrays.take(table.X, table.rows[places])
    inside = [np.abs(found.residuals) <= found.loo_half_widths(coverage) for coverage in coverages]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of infinite ends: `needed` has the numbers of rows
        ends = [found.intervals(inputs, coverage) for coverage in coverages]
    return Bunch(
        asked=np.array(coverages),
        observed=np.array([own.mean(axis=0) for own in inside]),
        width=np.array([np.mean(own[:, 1] - own[:, 0], axis=0) for own in ends]),
        needed=np.array([found.rows_needed(coverage) for coverage in coverages]),
        rows=len(found.residuals),
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
    """Return observed coverage and mean width of the default intervals in regions with equally many rows.

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
    inputs, predicted, inside, width = _intervals_of(model, X, y, coverage, output)
    if column is not None and X is None:  # its place among the encoded columns
        column = int(np.flatnonzero(model.fitted_.layout.sources == column % model.n_features_in_)[0])
    place = predicted if column is None else inputs[:, column]
    parts = _equal_parts(place, n_bins)
    return Bunch(
        low_edge=np.array([place[part].min() for part in parts]),
        high_edge=np.array([place[part].max() for part in parts]),
        width=np.array([width[part].mean() for part in parts]),
        **_shares(parts, inside, np.ones(len(place))),
    )


def coverage_by_group(
    model: LSSVR | LSSVC,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    groups: ArrayLike | None = None,
    coverage: float = 0.9,
    output: int = 0,
) -> Bunch:
    """Return the observed coverage and mean width of the default intervals in each group of rows.

    Intervals that are right on average may still be too narrow for some groups and too wide for others.

    Parameters
    ----------
    model : LSSVR
        Fitted model.
    X, y : arrays or None
        New rows and their targets; None means leave-one-out on the training rows, or leave-group-out if the model was
        fitted with groups.
    groups : array of one label per row, or None
        None means the groups given to `fit`, which are numbered in the order of their labels.
    coverage : float
        Nominal coverage.
    output : int
        For models with several outputs.

    Returns
    -------
    Bunch
        ``group`` (the labels, sorted), ``observed``, ``width``, ``count`` and the ends ``low`` and ``high`` of Wilson's
        95 % interval for each group.

    Examples
    --------
    >>> import numpy as np
    >>> from lssvm import LSSVR, datasets, diagnose, kernels
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> groups = np.where(X[:, 0] < 20, "early", "late")
    >>> found = diagnose.coverage_by_group(LSSVR(kernels.RBF(13.1), C=830.0).fit(X, y), groups=groups)
    >>> found.group.tolist(), found.count
    (['early', 'late'], array([59, 74]))
    """
    _, _, inside, width = _intervals_of(model, X, y, coverage, output)
    table = model.fitted_.members[0].training
    labels = np.asarray(table.row_groups if groups is None and X is None else groups)
    if labels.shape != (table.X.shape[0] if X is None else len(width),):
        raise ValueError("coverage_by_group: give groups, one label per row of X (or, without X, per training row).")
    names, numbers = np.unique(labels[table.rows if X is None else ...], return_inverse=True)
    parts = [np.flatnonzero(numbers == number) for number in range(len(names))]
    means = np.array([width[part].mean() for part in parts])
    return Bunch(group=names, width=means, **_shares(parts, inside, np.ones(len(width))))


def _intervals_of(model: Any, X: Any, y: Any, coverage: float, output: int) -> tuple[np.ndarray, ...]:
    """Return the inputs and predictions of new or training rows, whether their intervals cover, and their widths."""
    _check(model, "Coverage of intervals", X, y)
    if X is None or y is None:
        found, table = distribution(model), model.fitted_.members[0].training
        inputs, targets = (arrays.to_numpy(values)[table.rows] for values in (table.X, table.y))
        size, roots = found.loo_half_widths(coverage), found.model.roots
        centre, half = found.model.scaled(targets) - found.residuals / roots, size / roots
        low, middle, high = (found.model.ends(end)[:, output] for end in (centre - half, centre, centre + half))
        return inputs, middle, (np.abs(found.residuals) <= size)[:, output], high - low
    ends = arrays.to_numpy(model.predict_interval(X, coverage))
    targets = np.asarray(arrays.to_numpy(y), dtype=float)
    predicted = arrays.to_numpy(model.predict(X))
    ends = ends.reshape(len(ends), 2, -1)[..., output]
    targets, predicted = (np.reshape(a, (len(a), -1))[:, output] for a in (targets, predicted))
    inside = (ends[:, 0] <= targets) & (targets <= ends[:, 1])
    return arrays.to_numpy(X), predicted, inside, ends[:, 1] - ends[:, 0]
