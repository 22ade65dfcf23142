"""Summaries of the columns of a table, from one pass."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .reading import MISSING, NUMBER, TableError

if TYPE_CHECKING:
    import pyarrow as pa

    from .reading import Source

PADDED = r"^0\d+$"
MOST_LABELS = 1000  # a target with more distinct texts cannot be a class
FEW_ODD = 0.2  # a column with a smaller share of texts is numeric, with mistakes
TRUTH = {"false": ("false", "False", "FALSE"), "true": ("true", "True", "TRUE")}  # the spellings of various programs


@dataclass
class Summary:
    """The summary of a column."""

    rows: int = 0
    missing: int = 0
    first_missing: int = -1
    odd: int = 0  # number of texts that are not numeric
    odd_values: list[tuple[str, int]] = field(default_factory=list)  # the first few, with their rows
    counts: Counter[str] | None = field(default_factory=Counter)  # None: more than MOST_LABELS distinct values
    total: float = 0.0
    whole: bool = True  # all numbers are integers
    counting: bool = True  # each number is its predecessor plus 1
    last: float | None = None
    padded: str = ""  # the first value with leading zeros: a code rather than a number
    usable: bool = True  # False for types other than numbers and text
    kind: str = ""  # the type, for messages

    @property
    def present(self) -> int:
        return self.rows - self.missing

    @property
    def is_number(self) -> bool:
        """Whether the column is numeric, perhaps with a few mistakes."""
        return self.usable and self.present > 0 and self.odd <= FEW_ODD * self.present

    @property
    def texts(self) -> list[str]:
        """Some of the texts."""
        return [value for value, _ in self.odd_values] if self.counts is None else list(self.counts)[:50]


def scan(source: Source, columns: Sequence[str], seen: Callable[[int], None] = lambda rows: None) -> dict[str, Summary]:
    """Summarise some columns of a source in one pass."""
    summaries = {name: Summary() for name in columns}
    row = 0
    for batch in source.batches():
        for name, summary in summaries.items():
            _add(summary, column_values(batch, name), row + source.first_row, source.decimal)
        row += batch.num_rows
        seen(row)
    if not row:
        raise TableError(f"{source.name} has no rows below its header: give a file with data.")
    return summaries


def column_values(batch: pa.RecordBatch, name: str) -> Any:
    """A column as text or floats; None for other types."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = batch.column(batch.schema.get_field_index(name))
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_floating(column.type) or pa.types.is_integer(column.type) or pa.types.is_decimal(column.type):
        return pc.cast(column, pa.float64(), safe=False)
    if pa.types.is_boolean(column.type):
        return pc.if_else(column, "true", "false")
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return pc.utf8_trim_whitespace(pc.cast(column, pa.string()))
    return None


def numbers_of(column: Any, decimal: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values (NaN if there is none), a mask of the missing ones, and a mask of those that are not finite numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_floating(column.type):
        values = column.to_numpy(zero_copy_only=False)
        return values, np.isnan(values), np.isinf(values)
    missing = missing_texts(column)
    text = pc.replace_substring(column, ",", ".") if decimal == "," else column
    number = pc.fill_null(pc.match_substring_regex(text, NUMBER), False)
    values = pc.cast(pc.if_else(number, text, None), pa.float64()).to_numpy(zero_copy_only=False)
    return values, missing, ~missing & (~number.to_numpy(zero_copy_only=False) | np.isinf(values))


def missing_texts(column: Any) -> np.ndarray:
    """A mask of the texts that denote missing values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_floating(column.type):
        return np.isnan(column.to_numpy(zero_copy_only=False))
    none = pc.or_(pc.is_null(column), pc.fill_null(pc.is_in(column, pa.array(MISSING)), True))
    return none.to_numpy(zero_copy_only=False)


def _add(summary: Summary, column: Any, row: int, decimal: str) -> None:
    """Add the column of one batch to its summary."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column is None:
        summary.usable = False
        summary.rows += 1  # so that the column does not count as empty
        return
    values, missing, odd = numbers_of(column, decimal)
    if missing.any() and summary.first_missing < 0:
        summary.first_missing = row + int(np.argmax(missing))
    summary.rows += len(values)
    summary.missing += int(missing.sum())
    summary.odd += int(odd.sum())
    for place in np.flatnonzero(odd)[: 3 - len(summary.odd_values)] if len(summary.odd_values) < 3 else ():
        summary.odd_values.append((str(column[int(place)].as_py()), row + int(place)))
    if not summary.padded and not pa.types.is_floating(column.type):
        padded = column.filter(pc.fill_null(pc.match_substring_regex(column, PADDED), False))
        summary.padded = padded[0].as_py() if len(padded) else ""
    numbers = values[np.isfinite(values)]
    summary.total += float(numbers.sum())
    summary.whole = summary.whole and bool((numbers == np.floor(numbers)).all())
    steps = np.diff(values if summary.last is None else [summary.last, *values])
    summary.counting = summary.counting and bool((steps == 1).all())  # False if a value is missing (NaN)
    summary.last = float(values[-1]) if len(values) else summary.last
    if summary.counts is not None:
        found = pc.value_counts(column.filter(~missing))
        for item in found if len(found) <= MOST_LABELS else ():
            value = item["values"].as_py()
            summary.counts[label_of(value) if isinstance(value, float) else str(value)] += item["counts"].as_py()
        if max(len(found), len(summary.counts)) > MOST_LABELS:
            summary.counts = None


def label_of(value: float) -> str:
    """A number as a class label."""
    return str(int(value)) if math.isfinite(value) and value == int(value) else repr(value)


def spellings(categories: Sequence[str]) -> dict[str, int]:
    """The texts that denote each category, and its index. Boolean values are recognised in any case, because programs
    write them differently.
    """
    places = {text: place for place, text in enumerate(categories)}
    if len({text.lower() for text in categories} & TRUTH.keys()) == len(categories):
        for place, text in enumerate(categories):
            places |= dict.fromkeys(TRUTH[text.lower()], place)
    return places


def categories_of(counts: Counter[str]) -> tuple[str, ...]:
    """The texts of a column, sorted; boolean values that differ only in case get their most frequent spelling."""
    if {text.lower() for text in counts} <= TRUTH.keys():
        best = {text.lower(): text for text, _ in reversed(counts.most_common())}
        return tuple(sorted(best.values()))
    return tuple(sorted(counts))
