"""The meaning of a cell: a number, a truth value, a missing cell or text.

Each kind of text that stands for a number has one reader in `READERS`, which maps texts of other kinds to NaN. A new
kind of cell needs one more reader. Columns of files are arrays of pyarrow, see `readable`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np

MISSING = ("", "?", "NaN", "nan", "NAN")  # in every column
# In columns of numbers only
ABSENT = ("NA", "N/A", "n/a", "na", "N.A.", "n.a.", "None", "none", "null", "NULL", "#N/A")
TRUTH = {"false": 0.0, "False": 0.0, "FALSE": 0.0, "true": 1.0, "True": 1.0, "TRUE": 1.0}  # as various programs write

WORDS = {"blank": (None, *MISSING), "absent": ABSENT, "truths": tuple(TRUTH)}
KINDS = {word: kind for kind, words in WORDS.items() for word in words}
MOST_LABELS = 1000  # distinct values of a column that are counted; a target with more cannot be a class
FEW_ODD = 0.2  # a column with a smaller share of texts is numeric, with mistakes
YEARS = (1900, 2100)  # of whole numbers that look like dates
PADDED = re.compile(r"0\d+")


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


def truth_value(text: str, decimal: str = ".") -> float:
    """A truth value as 1 or 0."""
    return TRUTH.get(text, math.nan)


READERS: tuple[Callable[[str, str], float], ...] = (number_of, truth_value)


def label_of(value: Any) -> str:
    """A number as text: 7 and 7.0 are "7"."""
    return str(int(value)) if math.isfinite(value) and value == int(value) else repr(float(value))


def is_missing(value: Any) -> bool:
    """Whether a cell is None, NaN, NaT or NA."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA
        return True
    except ValueError:  # an array
        return False


# Columns of files, as arrays of pyarrow ------------------------------------------------------------------------------
def readable(column: Any) -> Any:
    """A column of pyarrow as numbers (float64) or as texts without blanks around them; None if it is neither."""
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
    return None


def numbers_of(cells: Any, decimal: str = ".") -> tuple[np.ndarray, list[int]]:
    """The numbers of a `readable` column, NaN for missing cells, and the positions of other cells."""
    try:
        plain = cells if decimal == "." else _with_points(cells, decimal)
        values = plain.cast("float64").to_numpy(zero_copy_only=False)
    except ValueError:  # some cells are not numbers
        codes = cells.dictionary_encode()
        known = [_read(text, decimal) for text in codes.dictionary.to_pylist()]
        values = np.array([*known, math.nan])[codes.indices.fill_null(len(known)).to_numpy()]
    is_finite = np.isfinite(values)
    if is_finite.all():
        return values, []
    other = np.flatnonzero(~is_finite)
    pairs = zip(other.tolist(), cells.take(other).to_pylist(), strict=True)
    return values, [place for place, cell in pairs if not (is_missing(cell) or cell in MISSING or cell in ABSENT)]


def _with_points(cells: Any, decimal: str) -> Any:
    """Numbers with decimal points; the points of other texts are replaced, as in `number_of`."""
    from pyarrow import compute

    return compute.replace_substring(compute.replace_substring(cells, ".", "_"), decimal, ".")


def _read(text: str, decimal: str) -> float:
    """The number by the first reader that understands a text, else NaN."""
    found = (reader(text, decimal) for reader in READERS)
    return next((value for value in found if not math.isnan(value)), math.nan)


def texts_of(cells: Any, known: Collection[Any] = ()) -> Any:
    """A `readable` column as texts, null for missing cells; `known` values are not missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_floating(cells.type):
        return pa.array([None if is_missing(value) else label_of(value) for value in cells.to_pylist()], pa.string())
    missing = pc.is_in(cells, value_set=pa.array(sorted(set(MISSING).difference(known)), cells.type))
    return pc.if_else(missing, None, cells)


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
    first: float = math.nan
    extremes: tuple[float, float] = (math.inf, -math.inf)
    total: float = 0.0  # of the differences to the first number
    squares: float = 0.0  # of these differences
    whole: bool = True  # all numbers are integers
    dates: bool = True  # all numbers are dates such as 19910503
    padded: str = ""  # the first value with leading zeros: a code rather than a number
    usable: bool = True  # False for types other than numbers and text

    @property
    def is_number(self) -> bool:
        """Whether the column is numeric, perhaps with a few mistakes."""
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
    def texts(self) -> list[str]:
        """Some of the texts."""
        return [value for value, _ in self.odd_values] if self.counts is None else list(self.counts)[:50]

    @property
    def numbers_rows(self) -> bool:
        """Whether the numbers are consecutive integers without repetition, in any order."""
        if self.rows <= 2 or self.missing or not self.whole or self.extremes[1] - self.extremes[0] != self.rows - 1:
            return False
        mean = self.total / self.rows
        expected = (sum(self.extremes) / 2 - self.first, (self.rows**2 - 1) / 12)
        return bool(np.allclose((mean, self.squares / self.rows - mean**2), expected, rtol=1e-9))

    def add(self, cells: Any, rows: int, decimal: str, row: Callable[[int], int]) -> None:
        """Add a `readable` column of some rows; `row` maps positions to the numbers of rows in messages."""
        self.rows += rows
        if cells is None:
            self.usable = False
            return
        values, odd = numbers_of(cells, decimal)
        self.odd += len(odd)
        self.odd_values += [(str(cells[place].as_py()), row(place)) for place in odd[: 3 - len(self.odd_values)]]
        is_finite = np.isfinite(values)
        is_text = cells.type != "double"
        # all distinct values or, once there are many, only those that may be words
        some = cells if self.counts is not None else cells.filter(~is_finite | (values == 0) | (values == 1))
        found = Counter(some.to_pylist())
        if not is_text:
            self.blank += int(np.isnan(values).sum())
            found = Counter({label_of(value): count for value, count in found.items() if not is_missing(value)})
        for word in KINDS.keys() & found.keys():
            setattr(self, KINDS[word], getattr(self, KINDS[word]) + found[word])
            if KINDS[word] == "blank":
                del found[word]
        if self.counts is not None:
            self.counts.update(found)
            self.counts = self.counts if len(self.counts) <= MOST_LABELS else None
        if is_finite.any():
            self._add_numbers(values[is_finite])
        if is_text and self.whole and not self.padded:
            self.padded = next(filter(PADDED.fullmatch, filter(None, cells.to_pylist())), "")

    @np.errstate(over="ignore", invalid="ignore")
    def _add_numbers(self, numbers: np.ndarray) -> None:
        self.first = float(numbers[0]) if math.isnan(self.first) else self.first
        self.extremes = min(self.extremes[0], float(numbers.min())), max(self.extremes[1], float(numbers.max()))
        self.whole = self.whole and bool((numbers == np.floor(numbers)).all())
        if not self.whole:
            self.dates = False
            return
        self.total += float((numbers - self.first).sum())
        self.squares += float(((numbers - self.first) ** 2).sum())
        year, month, day = numbers // 10_000, numbers // 100 % 100, numbers % 100
        months = (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
        self.dates = self.dates and bool(((year >= YEARS[0]) & (year <= YEARS[1]) & months).all())
