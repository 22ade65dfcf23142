"""The meaning of a cell: a number, a truth value, a missing cell or text.

Each kind of text that stands for a number has one reader in `READERS`. It maps texts to numbers, and texts of other
kinds to NaN. A new kind of cell needs one more reader.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from numbers import Real
from typing import Any

import numpy as np

MISSING = ("", "?", "NaN", "nan", "NAN")  # in every column
ABSENT = (
    "NA",
    "N/A",
    "n/a",
    "na",
    "N.A.",
    "n.a.",
    "None",
    "none",
    "null",
    "NULL",
    "#N/A",
)  # in columns of numbers only
TRUTH = {"false": 0.0, "False": 0.0, "FALSE": 0.0, "true": 1.0, "True": 1.0, "TRUE": 1.0}  # as various programs write
REMEDY = "drop the column, or convert it to one type, e.g. with astype(str)"
AS_IN_FIT = "give the same columns as in fit, in the same order and with the same types"


# Text ---------------------------------------------------------------------------------------------------------------
def number_of(text: str, decimal: str = ".") -> float:
    """The number that a text spells: infinite if it exceeds float64, and NaN if the text is not a number."""
    if decimal != ".":
        text = text.replace(".", "_").replace(decimal, ".")
    try:
        return math.nan if "_" in text else float(text)  # Python reads 1_000 as 1000
    except ValueError:
        return math.nan


def is_number(text: str, decimal: str = ".") -> bool:
    """Whether a text is a finite number."""
    return math.isfinite(number_of(text, decimal))


def plain_numbers(texts: Sequence[str], decimal: str) -> list[float]:
    """Read texts such as 7, -1.5 and 1e3."""
    return [number_of(text, decimal) for text in texts]


def truth_values(texts: Sequence[str], decimal: str) -> list[float]:
    """Read truth values as 1 and 0."""
    return [TRUTH.get(text, math.nan) for text in texts]


READERS: tuple[Callable[[Sequence[str], str], list[float]], ...] = (plain_numbers, truth_values)


def numbers_of(cells: Any, decimal: str = ".") -> tuple[np.ndarray, list[int]]:
    """The numbers of a column, NaN for missing cells, and the positions of cells that are not finite numbers.

    The cells are floats, or texts without blanks around them; None is a missing cell.
    """
    values = cells if isinstance(cells, np.ndarray) else _read(cells, decimal)
    odd = np.flatnonzero(~np.isfinite(values)).tolist()
    return values, [place for place in odd if not _is_missing_number(cells[place])]


def _is_missing_number(cell: Any) -> bool:
    return cell in MISSING or cell in ABSENT if isinstance(cell, str) else is_missing(cell)


def _read(cells: Sequence[str | None], decimal: str) -> np.ndarray:
    """The number of each text by the first reader that understands it, else NaN."""
    with suppress(TypeError, ValueError):  # often all cells are numbers
        if decimal == "." and "_" not in "".join(cells):  # type: ignore[arg-type]
            return np.fromiter(map(float, cells), dtype=np.float64, count=len(cells))  # type: ignore[arg-type]
    known: dict[str | None, float] = {}
    unread = [text for text in dict.fromkeys(cells) if text is not None]
    for reader in READERS:
        found = zip(unread, reader(unread, decimal), strict=True)
        known.update((text, value) for text, value in found if not math.isnan(value))
        unread = [text for text in unread if text not in known]
    return np.array([known.get(cell, math.nan) for cell in cells], dtype=np.float64)


def texts_of(cells: Any, known: Collection[Any] = ()) -> list[str | None]:
    """The cells as text, None for missing cells; `known` values are not missing."""
    if isinstance(cells, np.ndarray):
        return [None if math.isnan(value) else label_of(value) for value in cells.tolist()]
    missing = set(MISSING).difference(known)
    return [None if cell in missing else cell for cell in cells]


def label_of(value: Any) -> str:
    """A number as text: 7 and 7.0 are "7"."""
    return str(int(value)) if math.isfinite(value) and value == int(value) else repr(float(value))


# Python objects, as the cells of frames -----------------------------------------------------------------------------
def is_missing(value: Any) -> bool:
    """Whether a cell is None, NaN, NaT or NA."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA
        return True
    except ValueError:  # an array
        return False


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
