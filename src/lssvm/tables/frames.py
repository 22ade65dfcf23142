"""Frames of pandas and polars and tables of pyarrow: their columns and names."""

from __future__ import annotations

import importlib
from collections import Counter
from typing import Any


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
