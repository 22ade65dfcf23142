"""Checks of users' inputs: those of scikit-learn, with messages that name the argument, the place and the remedy."""

from __future__ import annotations

import copy
import datetime
import re
import reprlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.utils import check_array, check_X_y
from sklearn.utils.validation import check_is_fitted, validate_data

from .. import arrays
from ..arrays import Array
from ..progress import counted
from ..tables import Column, Columns, as_table, column_names, is_missing, kind_of, series_of
from .layout import Layout, unfitted

NO_TARGETS = "no_validation"  # This is scikit-learn's mark of a missing y.
Encoded = tuple[Columns | None, Any]  # how columns are encoded, and the rows
ANY_CELLS: dict[str, Any] = {"dtype": object, "ensure_all_finite": False, "ensure_min_samples": 0}

# Parts of the messages of NumPy, pandas and scikit-learn about cells that are not numeric.
NOT_NUMBERS = re.compile("could not convert|must be real|must be a string or a|promoted|with a sequence|Cannot cast")

# Each entry holds starts of the names of types, and how to convert values t to numbers; the order matters.
TIMES = {
    ("date", "timestamp"): '(t - np.datetime64("2000-01-01")) / np.timedelta64(1, "D")',
    ("timedelta", "duration"): 'np.asarray(t, "timedelta64[us]") / np.timedelta64(1, "s")',
    ("time",): "the hours since midnight",
}


# Rows and targets -----------------------------------------------------------------------------------------------------
def encoded_rows(model: Any, X: Any, method: str = "predict") -> Array:
    """Return new rows, checked and encoded; precomputed kernels may have the columns of all rows or of the basis.

    If array API dispatch is on, scikit-learn's rule applies; otherwise arrays of another kind are converted.
    """
    check_is_fitted(model)
    fitted = model.fitted_
    if get_config()["array_api_dispatch"] and (arrays.is_foreign(X) or isinstance(X, np.ndarray)):
        coef = fitted.fit.coef
        if arrays.namespace(X) is not arrays.namespace(coef):
            found = f"got {type(X).__name__}, fitted on {type(coef).__name__}."
            rule = "must use the same namespace and the same device as those passed to fit()"
            raise ValueError(f"Inputs passed to {type(model).__name__}.{method}() {rule}: {found}")
    if model.kernel_.is_precomputed:
        K = check_array(arrays.to_numpy(X) if arrays.is_foreign(X) else X, dtype=np.float64)
        if K.shape[1] == model.support_.shape[0] != model.n_features_in_:
            full = np.zeros((K.shape[0], model.n_features_in_))
            full[:, arrays.to_numpy(model.support_)] = K
            X = arrays.like(full, X) if arrays.is_foreign(X) else full
    return validate(model, X, layout=fitted.layout)[1]


def validate(
    model: Any,
    X: Any,
    y: Any = NO_TARGETS,
    *,
    layout: Layout | None = None,
    sample_weight: Any = None,
    encode: bool = True,
    least: int = 1,
    multi_output: bool = False,
) -> tuple[Layout, Array, Any, np.ndarray]:
    """Return scikit-learn's validation, with a copy of X and with messages that name the argument and the column.

    Columns that are not numeric, and missing cells, are encoded as `lssvm.tables` describes; without a `layout`, how
    they are encoded follows from the rows of positive weight. Without `encode`, cells are returned as they are.

    Parameters
    ----------
    model : estimator
        Not changed.
    X, y : array or table
    layout : Layout or None
        That of the fit; None in `fit`.
    sample_weight : array or None
    encode : bool
    least : int
        Smallest number of rows.
    multi_output : bool
        Whether y may have several columns.

    Returns
    -------
    layout, X, y, weights
        X is on its device, y is an array of NumPy; without y, None. The sample weights are an array of NumPy.
    """
    X, y = as_table("X", X), as_table("y", y)
    y = arrays.to_numpy(y) if arrays.is_foreign(y) or isinstance(y, np.ndarray) else y
    refuse_missing(y)
    if least == 0 and not (X.shape[0] if hasattr(X, "shape") else len(X)):  # a chunk without rows
        assert layout is not None
        width = len(layout.sources) if encode else layout.n_features
        return layout, np.zeros((0, width)), np.zeros((0, *np.shape(y)[1:])), np.zeros(0)
    seen = copy.copy(model)  # which scikit-learn writes to
    vars(seen).pop("feature_names_in_", None)
    vars(seen).update({} if layout is None else layout.attributes)
    with _explained("X", X, fitted=layout is not None and least > 0):
        if arrays.is_foreign(X):
            columns, X = _device_rows(seen, X, layout, sample_weight, encode=encode, least=least)
        else:
            columns, X = _rows(seen, X, layout, sample_weight, encode=encode, least=least)
    if isinstance(y, str) and y == NO_TARGETS:
        y = None
    else:
        with _explained("y", y, fitted=False):
            zeros = np.zeros((X.shape[0], 1))
            y = check_X_y(zeros, y, multi_output=multi_output, ensure_min_samples=least, estimator=seen)[1]
    return layout or Layout.of(seen, columns, y), X, y, check_weights(sample_weight, X.shape[0], least)


def first_layout(model: Any, X: Any, y: Any) -> Layout:
    """Return the layout of chunks from the first one; what the columns contain is learned from a sample of all rows."""
    X, seen = as_table("X", X), unfitted(model)
    columns = None if arrays.is_foreign(X) else _columns(model, X, None)
    check_columns("X", X, columns)
    validate_data(seen, X, reset=True, skip_check_array=True)
    if not arrays.is_foreign(X):
        columns = columns or Columns(tuple(map(Column, column_names(X, seen.n_features_in_))))
    return Layout.of(seen, columns, y)


def _columns(model: Any, X: Any, layout: Layout | None) -> Columns | None:
    """Return the columns as `fit` has learned them or, without a layout, their kinds; None for a matrix of numbers."""
    if layout is not None:
        return layout.columns
    requested = model.categorical_features
    is_default = requested is None or (isinstance(requested, str) and requested == "from_dtype")
    is_frame = series_of(X) is not None
    if getattr(model.kernel, "is_precomputed", False) or (is_default and not is_frame):
        return None
    return Columns.of(X if is_frame else check_array(X, **ANY_CELLS), requested, merged=bool(model.merge_text))


def _rows(seen: Any, X: Any, layout: Layout | None, sample_weight: Any, *, encode: bool, least: int) -> Encoded:
    """Return how the columns are encoded, and the rows."""
    first, columns, matrix = layout is None, _columns(seen, X, layout), None
    check_columns("X", X, columns)
    if columns is not None and any(column.kind != "number" or column.format is not None for column in columns.columns):
        X = X if series_of(X) is not None else check_array(X, **ANY_CELLS)
        validate_data(seen, X, reset=first, skip_check_array=True)  # names and number of the columns
        cells = columns.read(X, fitted=not first and least > 0)
        if len(cells[0]) < least:
            found = f"Found array with {len(cells[0])} sample(s) (shape={tuple(X.shape)})"
            raise ValueError(f"{found} while a minimum of {least} is required by {type(seen).__name__}.")
    else:
        filled = columns is not None or (first and not getattr(seen.kernel, "is_precomputed", False))
        options = {"ensure_all_finite": "allow-nan" if filled else True, "ensure_min_samples": least}
        matrix = validate_data(seen, X, dtype=np.float64, copy=True, reset=first, **options)
        if not (filled and encode):
            return columns, matrix
        cells = list(matrix.T)
        columns = columns or Columns(tuple(map(Column, column_names(X, len(cells)))))
    if first:
        positive = check_weights(sample_weight, len(cells[0]), 0) > 0
        some = positive.any() and not positive.all()
        columns = columns.fitted([own[positive] for own in cells] if some else cells)
    if matrix is not None and columns.are_plain and not np.isnan(matrix).any():
        return columns, matrix
    return columns, columns.encode(cells) if encode else np.column_stack(cells)


def _device_rows(seen: Any, X: Any, layout: Layout | None, sample_weight: Any, *, encode: bool, least: int) -> Encoded:
    """Return `_rows` for an array that stays on its device; categories and missing cells are encoded on the CPU."""
    xp = arrays.namespace(X)
    if arrays.is_torch(X) and X.layout is not xp.strided:
        raise TypeError("Sparse data was passed for X, but dense data is required: use X.to_dense().")
    if xp.isdtype(X.dtype, "complex floating"):
        raise ValueError("Complex data not supported: X must hold real numbers.")
    try:
        X = arrays.like(X.detach() if arrays.is_torch(X) else X, X) + 0.0  # a copy
    except TypeError as error:
        raise ValueError(f"X is on a device without float64 ({error}): move it to the CPU.") from None
    chosen = seen.categorical_features
    plain = (chosen is None or isinstance(chosen, str)) if layout is None else layout.encoder is None
    if not plain or not bool(xp.all(xp.isfinite(X))):
        columns, rows = _rows(seen, arrays.to_numpy(X), layout, sample_weight, encode=encode, least=least)
        return columns, arrays.like(rows, X)
    shape = np.broadcast_to(0.0, X.shape)
    validate_data(seen, shape, reset=layout is None, ensure_all_finite=False, ensure_min_samples=least)
    return None if layout is None else layout.columns, X


# Messages -------------------------------------------------------------------------------------------------------------
@contextmanager
def _explained(name: str, values: Any, *, fitted: bool) -> Iterator[None]:
    """Let errors of NumPy and scikit-learn name the argument, the place and the remedy."""
    try:
        with np.errstate(all="ignore"):
            yield
    except OverflowError:
        raise ValueError(f"{name} contains integers too large for a float: rescale them.") from None
    except (TypeError, ValueError) as error:
        text = str(error)
        if text.startswith(f"Input {name} contains"):
            raise ValueError(where_not_finite(values, text)) from None
        if name == "X" and not text.startswith("X: column") and NOT_NUMBERS.search(text):
            names = column_names(values, np.shape(values)[1])
            Columns(tuple(map(Column, names))).read(values, fitted=fitted)  # raises an error that names the column
        raise


def refuse_missing(y: Any) -> None:
    """Raise ValueError for None, NaN, NaT and NA among targets or labels that are not an array of numbers."""
    if isinstance(y, str):
        return
    try:
        table = np.asarray(y, dtype=object if isinstance(y, Sequence) else None)  # text would turn NaN into "nan"
    except (TypeError, ValueError):  # validation raises its own error for these
        return
    if table.dtype.kind not in "OmM" or not table.shape or not table.size:
        return
    rows = [row for row, cells in enumerate(table.reshape(len(table), -1)) if any(map(is_missing, cells))]
    if rows:
        where = f"{counted(len(rows), 'row')}, first in row {rows[0]} (counting from 0)"
        raise ValueError(f"y is missing in {where}: remove these rows, or fill in the values.")


def check_columns(name: str, values: Any, known: Columns | None = None) -> None:
    """Raise ValueError for columns of X with the same name, and TypeError for dates and durations as numbers.

    Their numeric values depend on a unit, which may differ in `predict`. Columns that are `known` as times are dates.
    """
    times = {column.name for column in known.columns if column.kind == "time"} if known is not None else set()
    frame = series_of(values)
    columns = [values] if frame is None else frame
    names = [None] if frame is None else column_names(values, len(columns))
    common, count = Counter(names).most_common(1)[0] if names else (None, 0)
    if count > 1 and name == "X":
        raise ValueError(f"X has several columns with the name {common!r}: rename all but one, or drop them.")
    for column, cells in zip(names, columns, strict=True):
        if column in times and kind_of(cells)[0] in ("time", "text"):
            continue
        kind = str(getattr(cells, "dtype", getattr(cells, "type", "object")))
        if kind == "object":
            types = (np.datetime64, np.timedelta64, datetime.date, datetime.timedelta)
            kind = next((type(cell).__name__ for cell in _objects(cells).ravel() if isinstance(cell, types)), "")
        remedy = next((example for starts, example in TIMES.items() if kind.lower().startswith(starts)), None)
        if remedy is not None:
            what = f"{name if column is None else f'{name}: column {column!r}'} contains {kind} values"
            unit = "convert them to numbers in one unit, the same for fit and predict"
            raise TypeError(f"{what}, whose numeric values depend on their unit: {unit}, e.g. {remedy}.")


def _objects(values: Any) -> np.ndarray:
    """Return the cells as objects; none for rows of unequal length, for which validation raises its own error."""
    try:
        return np.asarray(arrays.to_numpy(values) if arrays.is_foreign(values) else values, dtype=object)
    except ValueError:
        return np.empty(0, dtype=object)


def where_not_finite(values: Any, text: str) -> str:
    """Return scikit-learn's message about NaN and infinity, extended by the place of the first non-finite value."""
    try:
        table = np.asarray(values, dtype=np.float64)
        missing_allowed = "infinity" in text.partition("\n")[0]
        found = np.isinf(table) if missing_allowed else ~np.isfinite(table)
    except (TypeError, ValueError):  # objects, e.g. missing values of pandas
        table = np.asarray(values, dtype=object)
        found = ~np.vectorize(_is_finite, otypes=[bool])(table)
    if not found.any():
        return text
    row, c = (int(place[0]) for place in np.nonzero(found.reshape(len(table), -1)))
    place = f"row {row}" if table.ndim == 1 else f"column {column_names(values, table.shape[1])[c]!r}, row {row}"
    first, _, rest = text.partition("\n")
    remedy = rest or "Remove or impute those values."
    which = "It" if np.sum(found) == 1 else f"The first of {int(np.sum(found))} such values"
    return f"{first} {which} is in {place} (counting from 0).\n{remedy}"


def _is_finite(value: Any) -> bool:
    try:
        return bool(np.isfinite(float(value)))
    except (TypeError, ValueError, OverflowError):  # None and other missing values
        return False


# Other arguments ------------------------------------------------------------------------------------------------------
def check_link(loss: str, y: np.ndarray, weights: np.ndarray) -> None:
    """Raise ValueError for targets whose means have no logarithm."""
    what, wrong = f"loss={loss!r}", (y < 0) | (y <= 0) * (loss == "gamma")
    if y.shape[1] != 1:
        raise ValueError(f"{what} takes one target, but y has {y.shape[1]} columns: fit one model for each.")
    if wrong.any():
        row, kind = int(np.argmax(wrong)), "positive" if loss == "gamma" else "non-negative"
        remedy = "remove such rows, or use loss='squared'" if y[row] < 0 else "use loss='poisson'"
        raise ValueError(f"{what} needs {kind} targets, but y contains {y[row, 0]:.6g} in row {row}: {remedy}.")
    if len(y) and not (y[weights > 0] > 0).any():
        raise ValueError(f"{what}: all targets of positive weight are 0, whose mean has no logarithm.")


def check_weights(weights: Any, n_rows: int, smallest: int) -> np.ndarray:
    """Return the sample weights as an array of NumPy; 1 if they are None."""
    if weights is None:
        return np.ones(n_rows)
    try:
        values = np.asarray(arrays.to_numpy(weights))
        if values.dtype.kind in "cmM":
            raise TypeError(f"{values.dtype} values")
        values = values.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        places = enumerate(np.atleast_1d(_objects(weights)))
        odd = (f"{reprlib.repr(cell)} in row {row}" for row, cell in places if not _is_finite(cell))
        found = next(odd, reprlib.repr(weights))
        raise ValueError(f"sample_weight must be real numbers, got {found}: give one per row.") from None
    if values.ndim == 0:
        values = np.full(n_rows, float(values))
    if values.shape != (n_rows,):
        raise ValueError(f"sample_weight.shape == {values.shape}, expected {(n_rows,)}: give one weight per row.")
    if not np.isfinite(values).all():
        raise ValueError("sample_weight contains NaN or infinite values: give finite weights.")
    if (values < 0).any():
        row = int(np.argmin(values))
        raise ValueError(f"Negative values in sample_weight: {values[row]} in row {row}. Give zero or positive ones.")
    low, high = float(np.min(values[values > 0], initial=np.inf)), float(np.max(values, initial=0.0))
    if high > 1e100 or low < 1e-100:
        raise ValueError(f"sample_weight ranges from {low:.3g} to {high:.3g}: rescale it to values closer to 1.")
    positive = np.count_nonzero(values)
    if positive < smallest:
        raise ValueError(f"sample_weight is zero in all rows but {positive}: at least {smallest} must be positive.")
    return values


def score_of(metric: Any, predicted: Any, y: Any, sample_weight: Any) -> float:
    """Return the value of a scikit-learn metric, for arrays of any kind."""
    y = arrays.to_numpy(y) if arrays.is_foreign(y) else y
    refuse_missing(y)
    weights = None if sample_weight is None else arrays.to_numpy(sample_weight)
    return float(metric(arrays.to_numpy(y), arrays.to_numpy(predicted), sample_weight=weights))


def require_loo(members: Sequence[Any], steps: Any, what: str) -> None:
    """Raise ValueError if a step has set coefficients, so that leave-one-out residuals are not known."""
    values: Any = [member.loo_values or member.known_sample for member in members]  # which may raise an error
    if any(np.isnan(one.residuals).any() for one in values):
        remedy = "set refit=True (Adaline: final_solve=True)"
        raise ValueError(f"{what}, which are not known after {steps!r}: {remedy}.")
