"""Checks of single arguments, with messages that name the argument, the place and the remedy."""

from __future__ import annotations

import datetime
import reprlib
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from .. import arrays
from ..progress import counted
from ..tables import column_names, is_missing, not_numeric, series_of

TIMES = {  # starts of the names of types, and how to convert values t to numbers; the order matters
    ("date", "timestamp"): '(t - np.datetime64("2000-01-01")) / np.timedelta64(1, "D")',
    ("timedelta", "duration"): 'np.asarray(t, "timedelta64[us]") / np.timedelta64(1, "s")',
    ("time",): "the hours since midnight",
}


def refuse_missing(y: Any) -> None:
    """Raise ValueError for None, NaN, NaT and NA among targets or labels that are not an array of numbers."""
    if arrays.is_foreign(y) or isinstance(y, str):
        return
    try:
        table = np.asarray(y, dtype=object if isinstance(y, Sequence) else None)  # text would turn NaN into "nan"
    except (TypeError, ValueError):  # validation raises its own error for these
        return
    if table.dtype.kind not in "OmM" or not table.shape or not table.size:
        return
    rows = [row for row, cells in enumerate(table.reshape(len(table), -1)) if any(map(is_missing, cells))]
    if rows:
        raise ValueError(
            f"y is missing in {counted(len(rows), 'row')}, first in row {rows[0]} (counting from 0): remove these "
            "rows, or fill in the values."
        )


def refuse_times(name: str, values: Any) -> None:
    """Raise TypeError for dates and durations, whose numeric values depend on a unit that may differ in `predict`."""
    types = getattr(getattr(values, "schema", None), "types", None)  # pyarrow
    if types is None:
        types = getattr(values, "dtypes", getattr(values, "dtype", None))  # frames, arrays
    found = [str(kind) for kind in types] if isinstance(types, Iterable) else [str(types)]
    columns = column_names(values, len(found)) if len(found) != 1 else [None]
    kinds: list[tuple[Any, str]] = list(zip(columns, found, strict=True))
    if "object" in found or (isinstance(values, Sequence) and len(values)):
        try:
            cells = np.asarray(values, dtype=object)
        except ValueError:  # validation raises its own error for rows of unequal length
            cells = np.empty(0, dtype=object)
        times = (np.datetime64, np.timedelta64, datetime.date, datetime.timedelta)
        names = column_names(values, cells.shape[1]) if cells.ndim == 2 and series_of(values) else [None]
        kinds += [
            (names[place % len(names)], type(cell).__name__)
            for place, cell in enumerate(cells.ravel())
            if isinstance(cell, times)
        ][:1]
    for column, kind in kinds:
        if kind.lower().startswith(sum(TIMES, ())):
            where = name if column is None else f"{name}: column {column!r}"
            remedy = next(example for starts, example in TIMES.items() if kind.lower().startswith(starts))
            raise TypeError(
                f"{where} contains {kind} values, whose numeric values depend on their unit: convert them to numbers "
                f"in one unit, the same for fit and predict, e.g. {remedy}."
            )


def where_not_finite(values: Any, text: str) -> str:
    """scikit-learn's message about NaN and infinity, extended by the place of the first non-finite value."""
    try:
        table = np.asarray(values, dtype=np.float64)
        found = ~np.isfinite(table.reshape(len(table), -1))
        if "infinity" in text.partition("\n")[0]:  # missing cells may be allowed
            found = np.isinf(table.reshape(len(table), -1))
    except (TypeError, ValueError):  # objects, e.g. missing values of pandas
        table = np.asarray(values, dtype=object)
        found = np.array([[not _is_finite(value) for value in row] for row in table.reshape(len(table), -1)])
    if not found.any():
        return text
    row, c = (int(place[0]) for place in np.nonzero(found))
    place = f"row {row}" if table.ndim == 1 else f"column {column_names(values, found.shape[1])[c]!r}, row {row}"
    first, _, rest = text.partition("\n")
    remedy = rest or "Remove or impute those values."
    which = "It" if np.sum(found) == 1 else f"The first of {int(np.sum(found))} such values"
    return f"{first} {which} is in {place} (counting from 0).\n{remedy}"


def _is_finite(value: Any) -> bool:
    try:
        return bool(np.isfinite(float(value)))
    except (TypeError, ValueError, OverflowError):  # None and other missing values
        return False


def check_coverage(coverage: Any) -> None:
    if not (isinstance(coverage, Real) and 0 < float(coverage) < 1):
        raise ValueError(f"coverage must be between 0 and 1, got {coverage!r}: 0.9 stands for 90 %.")


def is_symmetric(K: np.ndarray) -> bool:
    return bool(np.max(np.abs(K - K.T)) <= 1e-6 * np.max(np.abs(K)))


def score_of(metric: Any, predicted: Any, y: Any, sample_weight: Any) -> float:
    """The value of a scikit-learn metric, for arrays of any kind."""
    refuse_missing(y)
    weights = None if sample_weight is None else arrays.to_numpy(sample_weight)
    return float(metric(arrays.to_numpy(y), arrays.to_numpy(predicted), sample_weight=weights))


def explain_text(model: BaseEstimator, X: Any, y: Any, text: str, *, fitted: bool) -> None:
    """Raise an error that names the targets of a regression, or else the first column of X that is not numeric.

    The targets come first, because text in X may be a category.
    """
    if isinstance(model, RegressorMixin) and not isinstance(y, str) and _conversion_error(y):
        raise ValueError(
            f"y contains values that are not numeric ({text}): LSSVR predicts numbers, LSSVC classes."
        ) from None
    table = np.asarray(X, dtype=object)
    for c in range(table.shape[1] if table.ndim == 2 else 0):
        error = _conversion_error(table[:, c])
        if error is not None:
            name = column_names(X, table.shape[1])[c]
            raise type(error)(not_numeric(name, text, fitted=fitted)) from None


def _conversion_error(values: Any) -> TypeError | ValueError | None:
    """The error of converting values to floats."""
    try:
        np.asarray(values, dtype=object).astype(np.float64)
    except (TypeError, ValueError) as error:
        return error
    return None


def _real_numbers(values: Any) -> np.ndarray:
    found = np.asarray(arrays.to_numpy(values))
    if found.dtype.kind in "cmM":
        raise TypeError(f"{found.dtype} values")
    return found.astype(np.float64)


def _first_unreal(values: Any) -> str:
    """The first of some values that is not a real number, and its row."""
    cells = arrays.to_numpy(values) if arrays.is_foreign(values) else np.asarray(values, dtype=object)
    if cells.ndim == 0:
        return reprlib.repr(values)
    for row, cell in enumerate(cells):
        try:
            float(_real_numbers(cell))
        except (TypeError, ValueError, OverflowError):
            return f"{reprlib.repr(cell)} in row {row}"
    return reprlib.repr(values)


def check_weights(weights: Any, n_rows: int, smallest: int, name: str = "sample_weight") -> np.ndarray:
    if weights is None:
        return np.ones(n_rows)
    try:
        values = _real_numbers(weights)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be real numbers, got {_first_unreal(weights)}: give one per row.") from None
    if values.ndim == 0:
        values = np.full(n_rows, float(values))
    if values.shape != (n_rows,):
        raise ValueError(f"{name}.shape == {values.shape}, expected {(n_rows,)}: give one weight per row.")
    if not np.isfinite(values).all():
        raise ValueError(f"{name} contains NaN or infinite values: give finite weights.")
    if (values < 0).any():
        row = int(np.argmin(values))
        raise ValueError(f"Negative values in {name}: {values[row]} in row {row}. Weights must be zero or positive.")
    extremes = [float(np.max(values, initial=0.0)), float(np.min(values[values > 0], initial=np.inf))]
    if extremes[0] > 1e100 or extremes[1] < 1e-100:
        raise ValueError(
            f"{name} ranges from {extremes[1]:.3g} to {extremes[0]:.3g}: rescale it to values closer to 1."
        )
    if np.count_nonzero(values) < smallest:
        raise ValueError(
            f"{name} is zero in all rows but {np.count_nonzero(values)}: at least {smallest} must be positive."
        )
    return values
