"""Columns of a table as numbers or text, and their summaries, from one pass."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from ..columns import label_of
from .reading import TableError

if TYPE_CHECKING:
    import pyarrow as pa

    from .reading import Source

MISSING = ("", "?", "NaN", "nan", "NAN")
ABSENT = ("NA", "N/A", "n/a", "na", "N.A.", "n.a.", "None", "none", "null", "NULL", "#N/A")  # values among other words
TRUTH = {"false": ("false", "False", "FALSE"), "true": ("true", "True", "TRUE")}  # the spellings of various programs
NUMBER = r"^[+-]?(\d+\{0}?\d*|\{0}\d+)([eE][+-]?\d+)?$"  # {0}: the decimal separator
PADDED = r"^0\d+$"
MOST_LABELS = 1000  # a target with more distinct texts cannot be a class
FEW_ODD = 0.2  # a column with a smaller share of texts is numeric, with mistakes
CELLS = 1 << 17  # of columns that are scanned together: a call takes as long for ten cells as for a thousand
YEARS = (1900, 2100)  # of whole numbers that look like dates


@dataclass
class Summary:
    """The summary of a column."""

    rows: int = 0
    blank: int = 0  # cells of MISSING
    absent: int = 0  # cells of ABSENT
    odd: int = 0  # number of texts that are not numeric
    odd_values: list[tuple[str, int]] = field(default_factory=list)  # the first few, with their rows
    truths: int = 0
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


def scan(source: Source, columns: Sequence[str], seen: Callable[[int], None] = lambda rows: None) -> dict[str, Summary]:
    """Summarise some columns of a source in one pass."""
    summaries = {name: Summary() for name in columns}
    row = 0
    for batch in source.batches():
        for names, cells in _joined(batch, columns):
            _add([summaries[name] for name in names], cells, row + source.first_row, source.decimal)
        row += batch.num_rows
        seen(row)
    if not row:
        raise TableError(f"{source.name} has no rows below its header: give a file with data.")
    return summaries


def _joined(batch: pa.RecordBatch, names: Sequence[str]) -> Iterator[tuple[list[str], Any]]:
    """The cells of columns of the same type, one column after the other, and the names of the columns."""
    import pyarrow as pa

    size = max(1, CELLS // max(batch.num_rows, 1))
    for first in range(0, len(names), size):
        for _, part in groupby(names[first : first + size], lambda name: batch.schema.field(name).type):
            alike = list(part)
            columns = [_column(batch, name) for name in alike]
            yield alike, _cells(pa.concat_arrays(columns) if len(columns) > 1 else columns[0])


def column_values(batch: pa.RecordBatch, name: str) -> Any:
    """A column as text or floats; None for other types."""
    return _cells(_column(batch, name))


def _column(batch: pa.RecordBatch, name: str) -> Any:
    import pyarrow as pa

    column = batch.column(batch.schema.get_field_index(name))
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _cells(column: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_floating(column.type) or pa.types.is_integer(column.type) or pa.types.is_decimal(column.type):
        return pc.fill_null(pc.cast(column, pa.float64(), safe=False), math.nan)
    if pa.types.is_boolean(column.type):
        return pc.if_else(column, "true", "false")
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return pc.utf8_trim_whitespace(pc.cast(column, pa.string()))
    return None


def numbers_of(column: Any, decimal: str) -> tuple[np.ndarray, np.ndarray]:
    """Values, NaN for missing cells, and a mask of the cells that are not finite numbers. True is 1 and false is 0."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_floating(column.type):
        values = column.to_numpy(zero_copy_only=False)
        return values, np.isinf(values)
    number = pc.fill_null(pc.match_substring_regex(column, NUMBER.format(decimal)), False)
    text = pc.if_else(number, column, None)
    text = pc.replace_substring(text, decimal, ".") if decimal != "." else text
    values = pc.cast(text, pa.float64()).to_numpy(zero_copy_only=False)
    values = np.where(is_in(column, TRUTH["true"]), 1.0, np.where(is_in(column, TRUTH["false"]), 0.0, values))
    known = ~np.isnan(values) | is_in(column, (None, *MISSING, *ABSENT))
    return values, ~known | np.isinf(values)


def texts_of(column: Any, known: Collection[str] = ()) -> Any:
    """The cells as text, null for missing ones; `known` values are not missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_floating(column.type):
        return pa.array([None if math.isnan(value) else label_of(value) for value in column.to_pylist()], pa.string())
    missing = is_in(column, [word for word in MISSING if word not in known])
    return pc.if_else(pa.array(missing), pa.scalar(None, pa.string()), column)


def is_in(column: Any, words: Sequence[str | None]) -> np.ndarray:
    """Mask of the texts that are among some words."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.is_in(column, pa.array(words, pa.string())).to_numpy(zero_copy_only=False)


def _add(summaries: Sequence[Summary], cells: Any, row: int, decimal: str) -> None:
    """Add columns of one batch, whose cells follow each other, to their summaries."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if cells is None:
        for summary in summaries:
            summary.usable = False
            summary.rows += 1  # so that the column does not count as empty
        return
    values, odd = numbers_of(cells, decimal)
    is_text = not pa.types.is_floating(cells.type)
    none = np.zeros(len(cells), dtype=bool)
    blank = is_in(cells, (None, *MISSING)) if is_text else np.isnan(values)
    absent, truths = (is_in(cells, words) if is_text else none for words in (ABSENT, sum(TRUTH.values(), ())))
    codes = pc.fill_null(pc.match_substring_regex(cells, PADDED), False).to_numpy(False) if is_text else none
    rows = len(cells) // len(summaries)
    values, *masks = (part.reshape(len(summaries), rows) for part in (values, odd, blank, absent, truths, codes))
    counts = np.stack([mask.sum(axis=1) for mask in masks], axis=1).tolist()
    odd, blank, codes = masks[0], masks[1], masks[-1]
    for number, summary in enumerate(summaries):
        column = cells.slice(number * rows, rows)
        summary.rows += rows
        summary.odd += counts[number][0]
        summary.blank += counts[number][1]
        summary.absent += counts[number][2]
        summary.truths += counts[number][3]
        if counts[number][4] and not summary.padded:
            summary.padded = column[int(np.argmax(codes[number]))].as_py()
        if counts[number][0] and len(summary.odd_values) < 3:
            for place in np.flatnonzero(odd[number])[: 3 - len(summary.odd_values)]:
                summary.odd_values.append((str(column[int(place)].as_py()), row + int(place)))
        _add_numbers(summary, values[number][np.isfinite(values[number])])
        if summary.counts is not None:
            found = pc.value_counts(column.filter(pa.array(~blank[number])) if counts[number][1] else column)
            for item in found if len(found) <= MOST_LABELS else ():
                value = item["values"].as_py()
                summary.counts[label_of(value) if isinstance(value, float) else str(value)] += item["counts"].as_py()
            if max(len(found), len(summary.counts)) > MOST_LABELS:
                summary.counts = None


@np.errstate(over="ignore", invalid="ignore")
def _add_numbers(summary: Summary, numbers: np.ndarray) -> None:
    if not len(numbers):
        return
    summary.first = numbers[0] if math.isnan(summary.first) else summary.first
    low, high = summary.extremes
    summary.extremes = min(low, float(numbers.min())), max(high, float(numbers.max()))
    summary.whole = summary.whole and bool((numbers == np.floor(numbers)).all())
    if not summary.whole:
        summary.dates = False
        return
    summary.total += float(np.sum(numbers - summary.first))
    summary.squares += float(np.sum((numbers - summary.first) ** 2))
    year, month, day = numbers // 10_000, numbers // 100 % 100, numbers % 100
    months = (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    summary.dates = summary.dates and bool(((year >= YEARS[0]) & (year <= YEARS[1]) & months).all())
