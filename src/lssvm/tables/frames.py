"""Frames of pandas and polars and tables of pyarrow: their names and columns, and the values of their cells."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np

from .cells import is_missing

REMEDY = "drop the column, or convert it to one type, e.g. with astype(str)"
AS_IN_FIT = "give the same columns as in fit, in the same order and with the same types"


def series_of(X: Any) -> list[Any] | None:
    """The columns of a frame of pandas or polars or of a pyarrow table; None for anything else."""
    if hasattr(X, "column_names") and hasattr(X, "schema"):
        return list(X.columns)
    if hasattr(X, "get_columns"):
        return list(X.get_columns())
    return [X.iloc[:, c] for c in range(X.shape[1])] if hasattr(X, "iloc") and hasattr(X, "columns") else None


def as_table(X: Any) -> Any:
    """A pyarrow table instead of a record batch, whose column names scikit-learn does not read; else X itself."""
    if type(X).__name__ == "RecordBatch" and hasattr(X, "schema"):
        return importlib.import_module("pyarrow").Table.from_batches([X])
    return X


def column_names(X: Any, count: int) -> list[Any]:
    """The names of the columns, or their numbers."""
    return list(getattr(X, "column_names", getattr(X, "columns", range(count))))  # pyarrow, frames


def refuse_lazy(name: str, values: Any) -> None:
    """Raise TypeError for a LazyFrame of polars."""
    if type(values).__name__ == "LazyFrame" and hasattr(values, "collect"):
        raise TypeError(f"{name} is a LazyFrame, which has no rows yet: call .collect() and pass the result.")


def refuse_equal_names(X: Any) -> None:
    """Raise ValueError for a frame in which two columns have the same name."""
    name, count = Counter(column_names(X, 0)).most_common(1)[0] if series_of(X) else ("", 0)
    if count > 1:
        raise ValueError(f"X has several columns with the name {name!r}: rename all but one, or drop them.")


# Cells ---------------------------------------------------------------------------------------------------------------
def listed(cells: Any) -> list[Any]:
    """The cells as Python objects."""
    for name in ("to_pylist", "to_list", "tolist"):  # pyarrow, frames, arrays
        if hasattr(cells, name):
            return list(getattr(cells, name)())
    return list(cells)


def plain(value: Any) -> Any:
    """A Python object instead of a NumPy scalar; None instead of NaN, NaT and NA."""
    if isinstance(value, str):
        return str(value)
    value = value.item() if isinstance(value, np.generic) else value
    return None if is_missing(value) else value


def values_of(cells: Any, name: str | int) -> np.ndarray:
    """The cells of a category: text, or finite numbers; None for missing cells."""
    found = np.empty(len(cells), dtype=object)
    found[:] = [plain(cell) for cell in listed(cells)]
    kinds = {type(cell) for cell in found} - {type(None)}
    other = next((kind for kind in kinds if not issubclass(kind, (str, Real))), None)
    if other is not None:
        raise TypeError(f"X: column {name!r} contains values of type {other.__name__}: {REMEDY}.")
    refuse_mixed(found, name)
    if float in kinds:
        _refuse_infinite(np.array([cell if isinstance(cell, float) else 0.0 for cell in found]), name)
    return found


def floats_of(cells: Any, name: str | int, *, fitted: bool) -> np.ndarray:
    """The cells of a column of numbers; NaN for missing cells."""
    if getattr(getattr(cells, "dtype", None), "kind", "") == "c":
        raise ValueError(f"X: column {name!r} contains complex numbers: use their real and imaginary parts as columns.")
    try:
        if hasattr(cells, "iloc"):
            found = cells.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            found = np.array(listed(cells), dtype=np.float64)  # None becomes NaN
        if found.ndim != 1:
            raise ValueError("lists of numbers")
    except (TypeError, ValueError) as error:
        raise type(error)(not_numeric(name, error, fitted=fitted)) from None
    _refuse_infinite(found, name)
    return found


def refuse_mixed(values: Iterable[Any], name: str | int) -> None:
    """Raise ValueError for a category that contains text and numbers."""
    examples = {isinstance(value, str): value for value in values if value is not None}
    if len(examples) > 1:
        shown = [examples[False], examples[True]]
        raise ValueError(f"X: column {name!r} contains text and numbers, e.g. {shown}: {REMEDY}.")


def not_numeric(name: Any, error: Exception | str, *, fitted: bool) -> str:
    """The message about a column of numbers that contains other values."""
    if fitted:
        return (
            f"X: column {name!r} contained numbers in fit, but now contains values that are not numeric ({error}): "
            f"{AS_IN_FIT}."
        )
    return (
        f"X: column {name!r} contains values that are not numeric ({error}): name it in categorical_features if it "
        "is a category, or drop it."
    )


def _refuse_infinite(values: np.ndarray, name: str | int) -> None:
    infinite = np.flatnonzero(np.isinf(values))
    if len(infinite):
        which = "It" if len(infinite) == 1 else f"The first of {len(infinite)} such values"
        raise ValueError(
            f"X: column {name!r} contains infinity. {which} is in row {infinite[0]} "
            "(counting from 0): remove or impute those values."
        )
