"""The meaning of a cell: a number, a truth value, a missing cell or text.

Each kind of text that stands for a number has one reader in `READERS`, which maps texts of other kinds to NaN. A new
kind of cell needs one more reader. Tables are frames of pandas and polars, tables of pyarrow, or files, whose columns
are arrays of pyarrow (see `readable`).
"""

from __future__ import annotations

import datetime
import importlib
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np

MISSING = ("", "?", "NaN", "nan", "NAN")  # These cells are missing in every column.
# These cells are missing in columns of numbers only.
ABSENT = ("NA", "N/A", "n/a", "na", "N.A.", "n.a.", "None", "none", "null", "NULL", "#N/A")
TRUTH = {"false": 0.0, "False": 0.0, "FALSE": 0.0, "true": 1.0, "True": 1.0, "TRUE": 1.0}  # These are common spellings.

MOST_LABELS = 1000  # At most this many distinct values are counted; a target with more cannot be a class.
FEW_ODD = 0.2  # A column with a smaller share of texts is numeric, with mistakes.
DATES = (19000101, 21001231)  # Whole numbers between these may be dates.
FEWEST_ROWS = 20  # With fewer rows, no column is taken for an identifier or for the numbers of the rows.
FILLED = 1.1  # Numbers of rows have a range below this multiple of the number of rows.
PADDED = re.compile(r"0\d+")
CATEGORIES = ("categor", "enum", "dictionary")  # The names of categorical dtypes start like this.
TEXTS = ("str", "large_string", "utf8", "large_utf8")
DAYS = (datetime.date, np.datetime64)
REMEDY = "drop the column, or convert it to one type, e.g. with astype(str)"
AS_IN_FIT = "give the same columns as in fit, in the same order and with the same types"


# Text ---------------------------------------------------------------------------------------------------------------
def number_of(text: str, decimal: str = ".") -> float:
    """Return the number that a text spells: infinite if it exceeds float64, and NaN if the text is not a number."""
    if decimal != ".":
        text = text.replace(".", "_").replace(decimal, ".")
    try:
        return math.nan if "_" in text else float(text)  # Python reads 1_000 as 1000
    except ValueError:
        return math.nan


def is_number(text: str, decimal: str = ".") -> bool:
    """Return whether a text is a finite number."""
    return math.isfinite(number_of(text, decimal))


def truth_value(text: str, decimal: str = ".") -> float:
    """Return a truth value as 1 or 0."""
    return TRUTH.get(text, math.nan)


READERS: tuple[Callable[[str, str], float], ...] = (number_of, truth_value)


def label_of(value: Any) -> str:
    """Return a number as text: 7 and 7.0 are "7"."""
    return str(int(value)) if math.isfinite(value) and value == int(value) else repr(float(value))


def is_missing(value: Any) -> bool:
    """Return whether a cell is None, NaN, NaT or NA."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA
        return True
    except ValueError:  # an array
        return False


# Frames and arrays ---------------------------------------------------------------------------------------------------
def series_of(X: Any) -> list[Any] | None:
    """Return the columns of a frame of pandas or polars or of a pyarrow table; None for anything else."""
    if hasattr(X, "column_names") and hasattr(X, "schema"):
        return list(X.columns)
    if hasattr(X, "get_columns"):
        return list(X.get_columns())
    return [X.iloc[:, c] for c in range(X.shape[1])] if hasattr(X, "iloc") and hasattr(X, "columns") else None


def as_table(name: str, values: Any) -> Any:
    """Return a pyarrow table instead of a record batch, whose column names scikit-learn does not read; else the values.

    Raises TypeError for a LazyFrame of polars, and ValueError for masked values.
    """
    if np.ma.is_masked(values):
        raise ValueError(f"{name} is a masked array with masked values: fill them in, or remove their rows.")
    kind = type(values).__name__
    if kind == "LazyFrame" and hasattr(values, "collect"):
        raise TypeError(f"{name} is a LazyFrame, which has no rows yet: call .collect() and pass the result.")
    if kind == "RecordBatch" and hasattr(values, "schema"):
        return importlib.import_module("pyarrow").Table.from_batches([values])
    return values


def column_names(X: Any, count: int) -> list[str | int]:
    """Return the names of the columns, or their numbers."""
    names = getattr(X, "column_names", getattr(X, "columns", range(count)))  # pyarrow, frames
    return [int(name) if isinstance(name, (int, np.integer)) else str(name) for name in names]


def listed(cells: Any) -> list[Any]:
    """Return the cells as Python objects, or as NumPy's scalars."""
    return list(cells.to_pylist() if hasattr(cells, "to_pylist") else cells)


def plain(value: Any) -> Any:
    """Return a Python object instead of a NumPy scalar; None instead of NaN, NaT and NA."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if is_missing(value) else value


def values_of(cells: Any, name: str | int) -> np.ndarray:
    """Return the cells of a category: text, or finite numbers; None for missing cells."""
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
    """Return the cells of a column of numbers; NaN for missing cells."""
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


def kind_of(cells: Any) -> tuple[str, tuple[Any, ...]]:
    """Return the kind of a frame's column, from its dtype or the types of its objects, and the levels of ranks."""
    dtype = cells.dtype if hasattr(cells, "dtype") else cells.type
    text = str(dtype).lower()
    if getattr(dtype, "ordered", False) and hasattr(dtype, "categories"):
        return "ranks", tuple(plain(value) for value in dtype.categories)
    if getattr(dtype, "ordered", False) and hasattr(cells, "unify_dictionaries"):
        return "ranks", tuple(cells.combine_chunks().dictionary.to_pylist())
    if text == "object":
        present = [cell for cell in listed(cells) if not is_missing(cell)]
        if not present or any(isinstance(cell, str) for cell in present):
            return "text", ()
        return ("time" if all(isinstance(cell, DAYS) for cell in present) else "number"), ()
    kinds = {CATEGORIES: "category", TEXTS: "text", ("date", "timestamp"): "time"}
    return next((kind for starts, kind in kinds.items() if text.startswith(starts)), "number"), ()


def spelled_as(values: Iterable[str], cells: np.ndarray) -> np.ndarray:
    """Return numbers among cells as text, if some values are codes: text in a CSV file, but numbers in others."""
    texts = {label_of(number_of(value)): value for value in values if is_number(value)}
    if not texts:
        return cells
    texts |= {value: value for value in values}
    found = cells.copy()
    for place, cell in enumerate(cells):
        if not isinstance(cell, (str, bool, type(None))):
            found[place] = texts.get(label_of(cell), label_of(cell))
    return found


def refuse_mixed(values: Iterable[Any], name: str | int) -> None:
    """Raise ValueError for a category that contains text and numbers."""
    examples = {isinstance(value, str): value for value in values if value is not None}
    if len(examples) > 1:
        shown = [examples[False], examples[True]]
        raise ValueError(f"X: column {name!r} contains text and numbers, e.g. {shown}: {REMEDY}.")


def not_numeric(name: Any, error: Exception | str, *, fitted: bool) -> str:
    """Return the message about a column of numbers that contains other values."""
    what, remedy = "contains", "name it in categorical_features if it is a category, or drop it"
    if fitted:
        what, remedy = "contained numbers in fit, but now contains", AS_IN_FIT
    return f"X: column {name!r} {what} values that are not numeric ({error}): {remedy}."


def _refuse_infinite(values: np.ndarray, name: str | int) -> None:
    infinite = np.flatnonzero(np.isinf(values))
    if len(infinite):
        which = "It" if len(infinite) == 1 else f"The first of {len(infinite)} such values"
        where = f"{which} is in row {infinite[0]} (counting from 0)"
        raise ValueError(f"X: column {name!r} contains infinity. {where}: remove or impute those values.")


# Columns of files, as arrays of pyarrow ------------------------------------------------------------------------------
def readable(column: Any) -> Any:
    """Return a column of pyarrow as numbers (float64), dates, or texts without blanks around them; else None."""
    from pyarrow import compute, types

    kind = column.type
    if types.is_string(kind) or types.is_large_string(kind):
        return compute.utf8_trim_whitespace(column)
    if types.is_dictionary(kind):
        return readable(column.dictionary_decode())
    if types.is_boolean(kind):
        return column.cast("string")
    if types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind):
        return column.cast("float64", safe=False)
    return column if types.is_date(kind) or types.is_timestamp(kind) else None


def without(cells: Any, marks: Collection[str]) -> Any:
    """Return a `readable` column with null instead of some texts or numbers."""
    import pyarrow as pa
    from pyarrow import compute

    if cells is None or not marks or pa.types.is_temporal(cells.type):
        return cells
    numbers = cells.type == "double"
    own = [number_of(mark) if numbers else mark for mark in marks if not numbers or is_number(mark)]
    return compute.if_else(compute.is_in(cells, value_set=pa.array(own, cells.type)), None, cells)


def spelled(cells: Any) -> Any:
    """Return a `readable` column with dates as texts."""
    from pyarrow import types

    return cells.cast("string") if types.is_temporal(cells.type) else cells


def numbers_of(
    cells: Any, decimal: str = ".", read: Callable[[str], float] | None = None
) -> tuple[np.ndarray, list[int]]:
    """Return the numbers of a `readable` column, NaN for missing cells, and the positions of other cells.

    Texts are read by one function, if it is given.
    """
    from pyarrow import compute

    try:
        if read is not None and cells.type != "double":
            raise ValueError("texts of a format of their own")
        plain = cells
        if decimal != ".":  # the points of other texts are replaced, as in `number_of`
            plain = compute.replace_substring(compute.replace_substring(cells, ".", "_"), decimal, ".")
        values = plain.cast("float64").to_numpy(zero_copy_only=False)
    except ValueError:  # some cells are not numbers
        codes = cells.dictionary_encode()
        readers = READERS if read is None else (lambda text, _: read(text),)
        readings = ([reader(text, decimal) for reader in readers] for text in codes.dictionary.to_pylist())
        known = [next((value for value in found if not math.isnan(value)), math.nan) for found in readings]
        values = np.array([*known, math.nan])[codes.indices.fill_null(len(known)).to_numpy()]
    other = np.flatnonzero(~np.isfinite(values))
    pairs = zip(other.tolist(), cells.take(other).to_pylist(), strict=True)
    return values, [place for place, cell in pairs if not (is_missing(cell) or cell in MISSING or cell in ABSENT)]


def texts_of(cells: Any, known: Collection[Any] = ()) -> Any:
    """Return a `readable` column as texts, null for missing cells; `known` values are not missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_floating(cells.type):
        return pa.array([None if is_missing(value) else label_of(value) for value in cells.to_pylist()], pa.string())
    missing = pc.is_in(cells, value_set=pa.array(sorted(set(MISSING).difference(known)), cells.type))
    return pc.if_else(missing, None, cells)


def are_row_numbers(values: np.ndarray) -> bool:
    """Return whether these are different integers without large gaps, in any order; some rows may be absent."""
    differ = len(values) >= FEWEST_ROWS and np.ptp(values) < FILLED * len(values)
    return bool(differ and len(np.unique(values)) == len(values) and np.all(values == np.round(values)))


# What one pass over a file finds in a column --------------------------------------------------------------------------
@dataclass
class ColumnScan:
    """The contents of a column of a file, added batch by batch."""

    rows: int = 0
    blank: int = 0  # cells of MISSING
    absent: int = 0  # cells of ABSENT
    truths: int = 0  # cells of TRUTH
    odd: int = 0  # number of texts that are not numeric
    odd_values: list[tuple[str, int]] = field(default_factory=list)  # the first few, with their rows
    counts: Counter[str] | None = field(default_factory=Counter)  # None: more than MOST_LABELS distinct values
    extremes: tuple[float, float] = (math.inf, -math.inf)
    whole: bool = True  # whether all numbers are integers
    dates: bool = True  # whether all numbers are dates such as 19910503
    padded: str = ""  # the first value with leading zeros: a code rather than a number
    usable: bool = True  # False for types other than numbers and text
    format: Any = None  # how texts are read as numbers or dates, once all are known
    fault: str = ""  # why the texts cannot be read
    is_lost: bool = False  # whether a category of the texts would lose values

    @property
    def is_number(self) -> bool:
        """Whether the column is numeric or of dates, perhaps with a few mistakes."""
        few = self.odd == 0 or (self.odd <= FEW_ODD * (self.odd + self.numbers) and not self.truths)
        return self.usable and self.numbers + self.truths > 0 and few

    @property
    def numbers(self) -> int:
        return self.rows - self.blank - self.absent - self.odd - self.truths

    @property
    def missing(self) -> int:
        return self.blank + self.absent * self.is_number

    @property
    def present(self) -> int:
        return self.rows - self.missing

    @property
    def values(self) -> Counter[str] | None:
        """The distinct values and how often they occur; None if there are too many."""
        if self.counts is None or not self.is_number:
            return self.counts
        return Counter({value: count for value, count in self.counts.items() if value not in ABSENT})

    @property
    def distinct(self) -> float:
        """The number of distinct values."""
        return math.inf if self.counts is None else len(self.counts)

    def add(self, cells: Any, rows: int, decimal: str, row: Callable[[int], int]) -> None:
        """Add a `readable` column of some rows; `row` maps positions to the numbers of rows in messages."""
        self.rows += rows
        if cells is None:
            self.usable = False
            return
        cells = spelled(cells)
        values, odd = numbers_of(cells, decimal)
        self.odd += len(odd)
        self.odd_values += [(str(cells[place].as_py()), row(place)) for place in odd[: 3 - len(self.odd_values)]]
        if cells.type == "double":
            self.blank += int(np.isnan(values).sum())
        else:
            words = cells.filter(~np.isfinite(values) | (values == 0) | (values == 1))  # only these may be words
            self.blank += cells.null_count + _count(words, MISSING)
            self.absent += _count(words, ABSENT)
            self.truths += _count(words, TRUTH)
        if self.counts is not None:
            self.counts.update(texts_of(cells).drop_null().to_pylist())
            self.counts = self.counts if len(self.counts) <= MOST_LABELS else None
        numbers = values[np.isfinite(values)]
        if len(numbers):
            self.extremes = min(self.extremes[0], float(numbers.min())), max(self.extremes[1], float(numbers.max()))
            self.whole = self.whole and bool((numbers == np.floor(numbers)).all())
            month, day = numbers // 100 % 100, numbers % 100
            in_range = (numbers >= DATES[0]) & (numbers <= DATES[1])
            dates = in_range & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
            self.dates = self.whole and self.dates and bool(dates.all())
        if cells.type != "double" and self.whole and not self.padded:
            self.padded = next(filter(PADDED.fullmatch, filter(None, cells.to_pylist())), "")


def _count(cells: Any, words: Iterable[str]) -> int:
    """Return how many cells are one of these words."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return int(pc.is_in(cells, value_set=pa.array(words, cells.type)).true_count)
