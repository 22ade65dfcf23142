"""The effect of each column on the prediction: accumulated local effects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from .. import arrays
from ..arrays import ArrayLike
from ..estimators import LSSVC, LSSVR
from ..estimators.validation import encoded_rows
from ..tables import Column
from .access import NotKnown, check_fitted, feature_names
from .kept import kept_by_members

POOLED = "other values"  # the value of the pooled values of a category

Response = Callable[[np.ndarray], np.ndarray]  # encoded rows -> (rows, outputs)


def effects(
    model: LSSVR | LSSVC,
    X: ArrayLike | None = None,
    columns: Sequence[int | str] | np.ndarray | None = None,
    *,
    intervals: int = 20,
    rows: int = 1000,
) -> list[Bunch]:
    r"""How the prediction changes with each column, while the other columns stay as they are.

    For numbers, these are accumulated local effects (Apley & Zhu 2020). The column is cut at quantiles
    :math:`z_0 < \ldots < z_K` of its values, and

    .. math::

        \mathrm{effect}(z_k) = \sum_{j \le k} \frac{1}{n_j} \sum_{i:\, z_{j-1} < x_i \le z_j}
        \left( f(x_i \mid z_j) - f(x_i \mid z_{j-1}) \right) - \mathrm{constant}

    where :math:`f(x_i \mid z)` is the prediction for row i with the value z in the column. Only predictions near the
    rows are used, even if columns are correlated. The constant makes the mean effect over the rows 0; in each interval,
    the effect counts as the mean of its two ends. In an additive model, the effect is the component of the column, less
    its mean.

    For a category, the effect of a value is the mean prediction if all rows had that value, less the average of these
    means over the values, weighted by their numbers of rows. In a category, missing cells are a value of their own.
    Rows with a missing number do not contribute to the effect of that column.

    Parameters
    ----------
    model : LSSVR or LSSVC
        Fitted model. For `LSSVC`, f is the probability of ``classes_[1]``, or of each of more than two classes.
    X : array or frame (n_samples, n_features), or None
        Rows over which the effects are averaged, with equal weights. None: the training rows that the model keeps.
    columns : sequence of column numbers or names, or None
        None: all columns, except those that the model ignores as identifiers.
    intervals : int
        Maximum number of intervals K; there are fewer if the column has few distinct values.
    rows : int
        Maximum number of rows to use. If there are more, an evenly spaced subset is used.

    Returns
    -------
    list of Bunch
        For each column: ``name``, ``column`` (its number), ``kind`` ("number" or "category"), ``grid`` (the ends of
        the intervals, or the values of the category that occur; None stands for missing cells and "other values" for
        pooled rare values), ``effect`` (one value per entry of ``grid``, or (grid, outputs)) and ``counts`` (the number
        of rows in each interval, or with each value). Ordered categories are treated as numbers, and ``grid`` contains
        their levels.

    References
    ----------
    Apley, D. W., Zhu, J.: Visualizing the effects of predictor variables in black box supervised learning models. JRSS
    B 82 (2020) 1059-1086.

    Examples
    --------
    >>> import numpy as np
    >>> from lssvm import LSSVR, diagnose, kernels
    >>> X = np.random.RandomState(0).uniform(0, 1, (100, 2))
    >>> model = LSSVR(kernels.Linear(), C=1e6).fit(X, 3 * X[:, 0] - X[:, 1])
    >>> for found in diagnose.effects(model, X, intervals=4):
    ...     slope = (found.effect[-1] - found.effect[0]) / (found.grid[-1] - found.grid[0])
    ...     print(found.name, round(float(slope), 3))
    column 0 3.0
    column 1 -1.0
    """
    check_fitted(model)
    if model.kernel_.is_precomputed:
        raise NotKnown("Effects: a precomputed kernel has no columns.")
    if intervals < 1:
        raise ValueError(f"intervals must be at least 1, got {intervals!r}.")
    if X is None:
        try:
            kept = kept_by_members(model, rows, "effects(X=None)")[0][2]
        except NotKnown as error:
            raise NotKnown(f"{error} Or give X.") from None
        table = arrays.to_numpy(kept.problem.X)[kept.given > 0]
    else:
        table = arrays.to_numpy(encoded_rows(model, X))
    table = table[np.unique(np.linspace(0, len(table) - 1, min(rows, len(table))).astype(int))]
    encoding = model.fitted_.layout.encoder
    known = [Column(name) for name in feature_names(model)] if encoding is None else encoding.columns
    sources, single = model.fitted_.layout.sources, model.fitted_.layout.single

    response = model.fitted_.completed().responses
    found = []
    for number in _numbers(model, columns, known):
        places, column = np.flatnonzero(sources == number), known[number]
        if column.kind == "category":
            part = _of_category(response, table, places, column)
        else:
            part = _of_number(response, table, places, column, intervals)
        effect = part.effect[:, 0] if single else part.effect
        found.append(Bunch(**{**part, "effect": effect}, name=feature_names(model)[number], column=number))
    return found


def _numbers(model: Any, columns: Any, known: Sequence[Column]) -> list[int]:
    """The numbers of the requested columns."""
    names = feature_names(model)
    if columns is None:
        return [number for number, column in enumerate(known) if column.kind != "ignored"]
    if isinstance(columns, str):
        raise ValueError(f"columns must be a sequence of names or numbers, got {columns!r}: write [{columns!r}].")
    found = []
    for asked in columns:
        number = names.index(asked) if isinstance(asked, str) and asked in names else asked
        if isinstance(number, str) or not 0 <= number < len(names):
            raise ValueError(
                f"columns contains {asked!r}, which is not a column of the model: give names, or numbers from 0 to "
                f"{len(names) - 1}."
            )
        if known[number].kind == "ignored":
            raise ValueError(f"columns contains {asked!r}, which the model ignores as an identifier: leave it out.")
        found.append(int(number))
    return found


def _of_number(response: Response, table: np.ndarray, places: np.ndarray, column: Column, intervals: int) -> Bunch:
    """The accumulated local effect of a number; its first place holds the values, the second marks missing cells."""
    table, place = table[~np.any(table[:, places[1:]] > 0, axis=1)], places[0]
    _require(len(table), column)
    grid = np.unique(np.quantile(table[:, place], np.linspace(0.0, 1.0, intervals + 1), method="inverted_cdf"))
    last = len(grid) - 1
    if last < 1:  # a constant column: one interval without width
        grid, last = np.repeat(grid, 2), 1
    interval = np.clip(np.searchsorted(grid, table[:, place], side="left") - 1, 0, last - 1)
    low, high = table.copy(), table.copy()
    low[:, place], high[:, place] = grid[interval], grid[interval + 1]
    steps, counts = response(high) - response(low), np.bincount(interval, minlength=last)
    totals = np.zeros((last, steps.shape[1]))
    np.add.at(totals, interval, steps)
    effect = np.vstack([np.zeros(steps.shape[1]), np.cumsum(totals / counts[:, None], axis=0)])
    effect -= counts @ (effect[1:] + effect[:-1]) / (2 * counts.sum())
    grid = grid if column.kind == "number" else np.array([column.values[int(rank)] for rank in grid], dtype=object)
    return Bunch(kind="number", grid=grid, effect=effect, counts=counts)


def _of_category(response: Response, table: np.ndarray, places: np.ndarray, column: Column) -> Bunch:
    """The mean prediction with each value that occurs set in all rows, centred."""
    block = table[:, places]
    codes = np.where(np.any(block > 0, axis=1), np.argmax(block, axis=1), -1)  # -1: a value unknown in fit
    counts = np.bincount(codes[codes >= 0], minlength=len(places))
    _require(counts.sum(), column)
    labels = [*column.values, *([None] if column.missing else []), *([POOLED] if column.pooled else [])]
    occurring = np.flatnonzero(counts)
    means = []
    for code in occurring:
        changed = table.copy()
        changed[:, places] = block[np.argmax(codes == code)]
        means.append(response(changed).mean(axis=0))
    counts = counts[occurring]
    effect = np.array(means) - np.average(means, axis=0, weights=counts)
    return Bunch(kind="category", grid=[labels[code] for code in occurring], effect=effect, counts=counts)


def _require(count: int, column: Column) -> None:
    if not count:
        raise ValueError(f"X: column {column.name!r} has no values that were seen in fit: leave it out of columns.")
