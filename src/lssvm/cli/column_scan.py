"""What one pass over a table finds in each column."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..tables import ABSENT, MISSING, TRUTH, label_of, numbers_of
from .reading import Batch, Source, TableError

BLANK = frozenset((None, *MISSING))
WORDS = {"blank": BLANK, "absent": frozenset(ABSENT), "truths": frozenset(TRUTH)}
PADDED = re.compile(r"0\d+")
MOST_LABELS = 1000  # a target with more distinct texts cannot be a class
FEW_ODD = 0.2  # a column with a smaller share of texts is numeric, with mistakes
YEARS = (1900, 2100)  # of whole numbers that look like dates


@dataclass
class ColumnScan:
    """The contents of a column."""

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

    def add(self, batch: Batch, name: str) -> None:
        """Add the rows of a batch."""
        cells = batch.columns[name]
        self.rows += batch.rows
        if cells is None:
            self.usable = False
            return
        texts, is_typed = cells, isinstance(cells, np.ndarray)
        if is_typed:
            texts = cells[~np.isnan(cells)].tolist()
            self.blank += batch.rows - len(texts)
        repeats = np.ones(len(texts), dtype=int)
        if self.counts is not None:  # later, most values differ
            found = Counter(texts)
            texts, repeats = list(found), np.array(list(found.values()), dtype=int)
        values, odd = numbers_of(np.array(texts, dtype=np.float64) if is_typed else texts, batch.source.decimal)
        for place in np.flatnonzero(~np.isfinite(values) | (values == 0) | (values == 1)).tolist():
            for kind, words in WORDS.items():
                if texts[place] in words:
                    setattr(self, kind, getattr(self, kind) + int(repeats[place]))
        self.odd += int(repeats[odd].sum())
        if odd and len(self.odd_values) < 3:
            mistakes = {texts[place] for place in odd}
            places = [place for place, cell in enumerate(cells) if cell in mistakes][: 3 - len(self.odd_values)]
            self.odd_values += [(str(cells[place]), batch.number(place)) for place in places]
        if self.whole and not self.padded and not is_typed:
            self.padded = next((text for text in texts if text and PADDED.fullmatch(text)), "")
        self._add_numbers(values, repeats)
        if self.counts is not None:
            for text, count in zip(texts, repeats.tolist(), strict=True):
                if text not in BLANK:
                    self.counts[text if isinstance(text, str) else label_of(text)] += count
                if len(self.counts) > MOST_LABELS:
                    self.counts = None
                    break

    @np.errstate(over="ignore", invalid="ignore")
    def _add_numbers(self, values: np.ndarray, counts: np.ndarray) -> None:
        """Add distinct numbers, with how often each occurs."""
        finite = np.isfinite(values)
        numbers, counts = values[finite], counts[finite]
        if not len(numbers):
            return
        self.first = float(numbers[0]) if math.isnan(self.first) else self.first
        self.extremes = min(self.extremes[0], float(numbers.min())), max(self.extremes[1], float(numbers.max()))
        self.whole = self.whole and bool((numbers == np.floor(numbers)).all())
        if not self.whole:
            self.dates = False
            return
        self.total += float(counts @ (numbers - self.first))
        self.squares += float(counts @ (numbers - self.first) ** 2)
        year, month, day = numbers // 10_000, numbers // 100 % 100, numbers % 100
        months = (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
        self.dates = self.dates and bool(((year >= YEARS[0]) & (year <= YEARS[1]) & months).all())


def scan(
    source: Source, names: Sequence[str], seen: Callable[[int], None] = lambda rows: None
) -> dict[str, ColumnScan]:
    """Scan some columns of a source in one pass."""
    found = {name: ColumnScan() for name in names}
    rows = 0
    for batch in source.batches(names):
        for name, column in found.items():
            column.add(batch, name)
        rows += batch.rows
        seen(rows)
    if not rows:
        raise TableError(f"{source.name} has no rows below its header: give a file with data.")
    return found
