"""Checks of users' inputs: those of scikit-learn, with messages that name the argument, the place and the remedy."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.utils import check_array, check_X_y
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from .. import arrays
from ..arrays import Array
from ..progress import counted
from ..tables import (
    Columns,
    as_table,
    column_names,
    refuse_equal_names,
    refuse_lazy,
    series_of,
)
from .input_errors import check_weights, explain_text, refuse_missing, refuse_times, where_not_finite
from .layout import Layout, unfitted

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
            raise ValueError(where_not_finite(X if text[6] == "X" else y, text)) from None
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
            raise ValueError(where_not_finite(y, str(error))) from None
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
