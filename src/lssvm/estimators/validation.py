"""Checks of users' inputs: those of scikit-learn, with messages that name the argument, the place and the remedy."""

from __future__ import annotations

import copy
import datetime
import reprlib
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_array, check_X_y
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from .. import arrays
from ..arrays import Array
from ..progress import counted
from ..tables import (
    Columns,
    as_table,
    column_names,
    is_missing,
    not_numeric,
    refuse_equal_names,
    refuse_lazy,
    series_of,
)
from .layout import Layout, unfitted

TIMES = {  # starts of the names of types, and how to convert values t to numbers; the order matters
    ("date", "timestamp"): '(t - np.datetime64("2000-01-01")) / np.timedelta64(1, "D")',
    ("timedelta", "duration"): 'np.asarray(t, "timedelta64[us]") / np.timedelta64(1, "s")',
    ("time",): "the hours since midnight",
}

NO_TARGETS = "no_validation"  # scikit-learn's mark of a missing y

NOT_NUMBERS = (  # of the messages of NumPy, pandas and scikit-learn
    "could not convert",
    "must be real",
    "must be a string or a",
    "promoted",
    "element with a sequence",
    "Cannot cast",
)


def encoded_rows(model: Any, X: Any, method: str = "predict") -> Array:
    """New rows, checked and encoded; the columns of a precomputed kernel may be those of all rows or of the basis.

    If array API dispatch is on, scikit-learn's rule applies; otherwise arrays of another kind are converted.
    """
    check_is_fitted(model)
    fitted = model.fitted_
    if get_config()["array_api_dispatch"] and (arrays.is_foreign(X) or isinstance(X, np.ndarray)):
        coef = fitted.members[0].fit.coef
        if arrays.namespace(X) is not arrays.namespace(coef):
            raise ValueError(
                f"Inputs passed to {type(model).__name__}.{method}() must use the same namespace and the same "
                f"device as those passed to fit(): got {type(X).__name__}, fitted on {type(coef).__name__}."
            )
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
    **options: Any,
) -> tuple[Layout, Array, Any]:
    """scikit-learn's validation, with a copy of X and with messages that name the argument and the column.

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
    **options
        Options of `sklearn.utils.check_X_y`.

    Returns
    -------
    layout, X, y
        Without y, None.
    """
    refuse_lazy("X", X)
    refuse_lazy("y", y)
    X = as_table(X)
    if least == 0 and not (X.shape[0] if hasattr(X, "shape") else len(X)):  # a chunk without rows
        assert layout is not None
        width = len(layout.sources) if encode else layout.n_features
        return layout, np.zeros((0, width)), np.zeros((0, *np.shape(y)[1:]))
    y = arrays.to_numpy(y) if isinstance(y, np.ndarray) and y.dtype.kind == "T" else y
    for name, values in (("X", X), ("y", y)):
        if np.ma.is_masked(values):
            raise ValueError(f"{name} is a masked array with masked values: fill them in, or remove their rows.")
    refuse_missing(y)
    foreign = arrays.is_foreign(X)
    seen = copy.copy(model)  # which scikit-learn writes to
    vars(seen).pop("feature_names_in_", None)
    vars(seen).update({} if layout is None else layout.attributes)
    if not foreign:
        refuse_equal_names(X)
        refuse_times("X", X)
        y = arrays.to_numpy(y) if arrays.is_foreign(y) else y
    fitted = layout is not None and least > 0
    try:
        with np.errstate(all="ignore"):
            columns = None if foreign else _columns(model, X, layout)
            check: Any = _check_foreign if foreign else _check_numbers
            if columns is not None and not columns.are_numbers:
                check = _check_table
            columns, X, y = check(seen, layout, columns, X, y, sample_weight, encode=encode, least=least, **options)
    except OverflowError:
        raise ValueError("X or y contains integers too large for a float: rescale them.") from None
    except (TypeError, ValueError) as error:
        text = str(error)
        if foreign or text.startswith("X: column"):  # of `columns`
            raise
        if any(part in text for part in NOT_NUMBERS):
            explain_text(model, X, y, text, fitted=fitted)
        if "'<' not supported" in text:
            raise ValueError(
                f"y contains labels of several types, which cannot be sorted ({text}): use one type."
            ) from None
        if text.startswith(("Input X contains", "Input y contains")):
            raise ValueError(_where(X if text[6] == "X" else y, text)) from None
        raise
    return layout or _new_layout(seen, columns, y), X, y


def _new_layout(seen: Any, columns: Columns | None, y: Any) -> Layout:
    """The layout of what scikit-learn has seen."""
    single = np.ndim(y) < 2
    names = getattr(seen, "feature_names_in_", None)
    return Layout(seen.n_features_in_, names, columns, single, 1 if single else np.shape(y)[1])


def first_layout(model: Any, X: Any, y: Any) -> Layout:
    """The layout of chunks from the first one; what the columns contain is learned from a sample of all rows."""
    refuse_lazy("X", X)
    X = as_table(X)
    refuse_equal_names(X)
    seen = unfitted(model)
    validate_data(seen, X, reset=True, skip_check_array=True)
    columns = None
    if not (arrays.is_foreign(X) or _is_precomputed(model)):
        columns = _columns(model, X, None) or Columns.of_numbers(column_names(X, seen.n_features_in_))
    return _new_layout(seen, columns, y)


def _is_precomputed(model: Any) -> bool:
    return bool(getattr(model.kernel, "is_precomputed", False))


def _columns(model: Any, X: Any, layout: Layout | None) -> Columns | None:
    """The columns as `fit` has learned them or, without a layout, their kinds; None for a matrix of numbers."""
    if layout is not None:
        return layout.columns
    requested = model.categorical_features
    if _is_precomputed(model):
        return None
    if series_of(X) is not None:
        return Columns.of(X, requested)
    if requested is None or (isinstance(requested, str) and requested == "from_dtype"):
        return None
    return Columns.of(check_array(X, dtype=object, ensure_all_finite=False, ensure_min_samples=0), requested)


def _learned(columns: Columns, cells: Sequence[np.ndarray], sample_weight: Any) -> Columns:
    """How the columns are encoded, from the cells of the rows of positive weight."""
    positive = check_weights(sample_weight, len(cells[0]), 0) > 0
    if positive.any() and not positive.all():
        cells = [column[positive] for column in cells]
    return columns.fitted(cells)


def _check_numbers(
    seen: Any,
    layout: Layout | None,
    columns: Columns | None,
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    encode: bool,
    least: int,
    **options: Any,
) -> tuple[Columns | None, Array, Any]:
    """`validate` for columns of numbers."""
    first = layout is None
    filled = columns is not None or (first and not _is_precomputed(seen))
    options |= {"ensure_all_finite": "allow-nan" if filled else True, "ensure_min_samples": least}
    checked = validate_data(seen, X, y, dtype=np.float64, copy=True, reset=first, **options)
    matrix, y = (checked, None) if isinstance(checked, np.ndarray) else checked
    if filled and encode:
        if first:
            columns = _learned(Columns.of_numbers(column_names(X, matrix.shape[1])), list(matrix.T), sample_weight)
        if columns is not None and (not columns.are_plain or np.isnan(matrix).any()):
            matrix = columns.encode(list(matrix.T))
    return columns, matrix, y


def _check_table(
    seen: Any,
    layout: Layout | None,
    columns: Columns,
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    encode: bool,
    least: int,
    **options: Any,
) -> tuple[Columns, Array, Any]:
    """`validate` for tables with categories or ranks."""
    if series_of(X) is None:
        X = check_array(X, dtype=object, ensure_all_finite=False, ensure_min_samples=least)
    validate_data(seen, X, reset=layout is None, skip_check_array=True)  # names and number of the columns
    cells = columns.read(X, fitted=layout is not None and least > 0)
    if len(cells[0]) < least:
        raise ValueError(
            f"Found array with {len(cells[0])} sample(s) (shape={tuple(X.shape)}) while a minimum of "
            f"{least} is required by {type(seen).__name__}."
        )
    columns = columns if layout is not None else _learned(columns, cells, sample_weight)
    rows = columns.encode(cells) if encode else columns.joined(cells)
    if isinstance(y, str):
        return columns, rows, None
    zeros = np.zeros((len(rows), 1))
    return columns, rows, check_X_y(zeros, y, ensure_min_samples=least, estimator=seen, **options)[1]


def _check_foreign(
    seen: Any,
    layout: Layout | None,
    columns: Columns | None,
    X: Array,
    y: Any,
    sample_weight: Any,
    *,
    encode: bool,
    least: int,
    **options: Any,
) -> tuple[Columns | None, Array, Any]:
    """`validate` for arrays that stay on their device; y is moved to the device of X, unless it holds labels.

    Categories and missing cells are encoded on the CPU.
    """
    xp = arrays.namespace(X)
    if arrays.is_torch(X) and X.layout is not xp.strided:
        raise TypeError("Sparse data was passed for X, but dense data is required: use X.to_dense().")
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead: X must have rows and columns.")
    if X.shape[0] < least or X.shape[1] < 1:
        raise ValueError(
            f"Found array with {X.shape[0]} sample(s) and {X.shape[1]} feature(s) (shape={tuple(X.shape)}): at least "
            f"{least} sample(s) and 1 feature are required."
        )
    validate_data(seen, X, reset=layout is None, skip_check_array=True)
    if xp.isdtype(X.dtype, "complex floating"):
        raise ValueError("Complex data not supported: X must hold real numbers.")
    if arrays.is_torch(X):
        X = X.detach()
    try:
        X = arrays.like(X, X) + 0.0  # a copy
    except TypeError as error:
        raise ValueError(f"X is on a device without float64 ({error}): move it to the CPU.") from None
    if bool(xp.any(xp.isinf(X))):
        raise ValueError("Input X contains infinity: remove or impute those values.")
    columns, X = _encoded_foreign(seen, layout, X, sample_weight)
    if isinstance(y, str):
        return columns, X, None
    if y is None:
        raise ValueError("y is None: give one target per row.")
    if arrays.is_foreign(y) and "multi_output" in options:
        values = arrays.like(y, X)
        if values.ndim not in (1, 2):
            raise ValueError(f"y has {values.ndim} dimensions: give one target per row, or one column per output.")
        if not bool(xp.all(xp.isfinite(values))):
            raise ValueError("Input y contains NaN or infinity: remove or impute those values.")
    else:
        try:
            values = check_array(
                arrays.to_numpy(y), dtype=None, ensure_2d=False, ensure_min_samples=least, input_name="y"
            )
        except ValueError as error:
            if not str(error).startswith("Input y contains"):
                raise
            raise ValueError(_where(y, str(error))) from None
    if "multi_output" not in options:
        values = column_or_1d(values, warn=True)
    if values.shape[0] != X.shape[0]:
        raise ValueError(
            f"X has {counted(X.shape[0], 'row')}, but y has {values.shape[0]}: inconsistent numbers of samples."
        )
    return columns, X, values


def _encoded_foreign(seen: Any, layout: Layout | None, X: Array, sample_weight: Any) -> tuple[Columns | None, Array]:
    """How the columns are encoded, and the rows; those without categories and missing cells stay on their device."""
    if layout is None:
        plain = seen.categorical_features is None or isinstance(seen.categorical_features, str)
    else:
        plain = layout.encoder is None
    if plain and not bool(arrays.namespace(X).any(arrays.namespace(X).isnan(X))):
        return None if layout is None else layout.columns, X
    table = arrays.to_numpy(X)
    columns = _columns(seen, table, layout)
    if columns is None and layout is None and not _is_precomputed(seen):
        columns = Columns.of_numbers(range(table.shape[1]))
    if columns is None:
        raise ValueError("Input X contains NaN: remove or impute those values.")
    cells = columns.read(table)
    columns = columns if layout is not None else _learned(columns, cells, sample_weight)
    return columns, arrays.like(columns.encode(cells), X)


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


def _where(values: Any, text: str) -> str:
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
