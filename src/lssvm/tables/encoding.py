"""The columns of a table as numbers: categories, ranks, times and missing cells.

A category has one encoded column per value, which is 1/sqrt(2) in the rows with that value and 0 in the others. With
one width for all of them, rows with the same value have distance 0 and rows with different values distance 1, in units
of the width. A number with missing cells has a second column with the same width, the indicator of the missing cells.
Missing cells are filled in with the median m, and the height of the indicator is the spread s of the column: the mean
squared distance between a missing cell and the others, s^2 + E(x - m)^2, is then about 2 s^2, as between any two cells.
A long-tailed number x may be encoded as asinh((x - origin)/unit): like a logarithm far from the origin, and linear near
it. The origin is an end of the column or its median, so that units, their zero included, do not matter.

A time is a number, the year, followed by the sine and the cosine of each cycle that can be seen in the cells. Each
cycle is an input with its own width, so that the search may drop it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from .. import arrays
from ..rules import Rule, number, one_of
from . import formats
from .cells import (
    AS_IN_FIT,
    FEWEST_ROWS,
    column_names,
    floats_of,
    is_missing,
    kind_of,
    listed,
    refuse_mixed,
    series_of,
    spelled_as,
    values_of,
)
from .formats import Evidence, Format

LARGEST = float(np.finfo(np.float64).max)
HEIGHT = math.sqrt(0.5)  # of the columns of a category
MOST_VALUES = 500  # This many values of a category have a column of their own.
MOST_LISTED = 10  # a category with more values is reported if most of them look like numbers


@dataclass(frozen=True)
class Column:
    """How one column of a table becomes numbers.

    Parameters
    ----------
    name : str or int
        The name or number of the column, for messages.
    kind : {"number", "time", "ranks", "category", "ignored"}
    values : tuple
        The values of a category that have a column of their own, sorted; the levels of ranks in their order.
    median, height : float
        For numbers, times and ranks: the value of missing cells and the height of their indicator, 0 if there is none.
    origin, unit : float
        For numbers: asinh((x - origin)/unit) is encoded instead of x, unless the unit is 0.
    missing, pooled : bool
        For categories: whether missing cells, and rare values together, have a column of their own, after the others.
    format : Format or None
        For times, and for numbers from texts: how texts are read.
    zone, cycles : str, tuple of str
        For times: the time zone of the cycles, and those of `formats.CYCLES` that have a sine and a cosine.
    merged : bool
        For categories: whether texts in which only case and blanks differ are one value.
    """

    name: str | int
    kind: Annotated[str, one_of("number", "time", "ranks", "category", "ignored")] = "number"
    values: tuple[Any, ...] = ()
    median: Annotated[float, number("a finite number", -LARGEST, LARGEST)] = 0.0
    height: Annotated[float, number("a non-negative number", 0.0, LARGEST)] = 0.0
    origin: Annotated[float, number("a finite number", -LARGEST, LARGEST)] = 0.0
    unit: Annotated[float, number("a non-negative number", 0.0, LARGEST)] = 0.0
    missing: bool = False
    pooled: bool = False
    format: Format | None = None
    zone: Annotated[str, Rule("a name", lambda value: isinstance(value, str))] = ""
    cycles: tuple[str, ...] = ()
    merged: bool = False

    @classmethod
    def of(cls, name: str | int, cells: Any) -> Column:
        """Return the kind of a column of a frame; the texts decide whether they are numbers, times or a category."""
        kind, values = kind_of(cells)
        if kind != "text":
            times: Any = {"format": Format("ymd"), "zone": formats.zone_of(cells)} if kind == "time" else {}
            return cls(name, kind, values, **times)
        found = listed(cells)
        texts = {str(cell): row for row, cell in reversed([*enumerate(found)]) if not is_missing(cell)}
        format, fault, is_lost = Evidence().add(reversed(texts.items())).settle(len(found), len(texts))
        if fault:
            fault = f"X: column {name!r} {fault} (counting from 0)"
            if is_lost:
                raise ValueError(f"{fault}: correct them, set them to None, or name it in categorical_features.")
            if len(texts) > MOST_LISTED:
                arrays.warn(f"{fault}, and is treated as a category.")
        return cls(name, "category") if format is None else cls(name, format.kind, format=format)

    @property
    def parts(self) -> list[int]:
        """The number of the input of each encoded column."""
        if self.kind == "category":
            return [0] * (len(self.values) + self.missing + self.pooled)
        inputs = [0] * (1 + (self.height > 0)) + [1 + part // 2 for part in range(2 * len(self.cycles))]
        return [] if self.kind == "ignored" else inputs

    @property
    def width(self) -> int:
        """The number of encoded columns."""
        return len(self.parts)

    @property
    def words(self) -> str:
        """What was understood."""
        if self.kind == "category":
            return f"category ({len(self.values)} values{', the rare ones as one' * self.pooled})"
        names = {"ranks": f"ranks ({len(self.values)})", "ignored": "ignored: every row differs"}
        found = names.get(self.kind, "numbers") if self.format is None else self.format.words
        found += f", with {', '.join(self.cycles)}" * bool(self.cycles)
        return found + f" of {self.zone}" * bool(self.cycles and self.zone)

    @property
    def scale(self) -> str:
        """What is encoded instead of a long-tailed number."""
        shift = f"(x {'-+'[self.origin < 0]} {abs(self.origin):.3g})" if self.origin else "x"
        return f"asinh({shift}/{self.unit:.3g})"

    def read(self, cells: Any, *, fitted: bool = True) -> np.ndarray:
        """The cells of this column: floats with NaN for missing cells, or objects with None for missing cells."""
        if self.format is not None:
            return self._formatted(cells, self.format, fitted=fitted)
        if self.kind == "number":
            return floats_of(cells, self.name, fitted=fitted)
        if self.kind == "ignored":
            return np.zeros(len(cells))
        found = values_of(cells, self.name)
        if self.merged:
            found[:] = [" ".join(cell.casefold().split()) if isinstance(cell, str) else cell for cell in found]
        return self._ranks(found) if self.kind == "ranks" else found

    def _formatted(self, cells: Any, own: Format, *, fitted: bool) -> np.ndarray:
        """Return numbers or times, from texts or as they are."""
        kind, known = kind_of(cells)[0] if hasattr(cells, "dtype") or hasattr(cells, "type") else "", {}
        if kind == "number" == self.kind:
            return floats_of(cells, self.name, fitted=fitted)
        if kind == "time" == self.kind:
            return formats.years_of(cells)
        values = np.full(len(cells), math.nan)
        for row, cell in enumerate(listed(cells)):
            if is_missing(cell):
                continue
            text = str(cell)  # also numbers and dates among texts
            if own.style == "," and not isinstance(cell, str):
                text = text.replace(".", ",")
            if text not in known:
                known[text] = own.read(text)
                if math.isnan(known[text]) and not formats.is_absent(text):
                    what = f"X: column {self.name!r} contains {text!r} in row {row} (counting from 0)"
                    raise ValueError(f"{what}, but it is read as {own.words}: correct the cell, or leave it empty.")
            values[row] = known[text]
        return values

    def _ranks(self, cells: np.ndarray) -> np.ndarray:
        """Return the ranks of the cells of an ordered category."""
        cells = self._as_in_fit(cells)
        ranks = {value: float(rank) for rank, value in enumerate(self.values)}
        unknown = next((cell for cell in cells if cell is not None and cell not in ranks), None)
        if unknown is not None:
            what = f"contains {unknown!r}, which is none of its ordered categories {list(self.values)}"
            arrays.warn(f"X: column {self.name!r} {what}: it is treated as missing.")
        return np.array([ranks.get(cell, math.nan) for cell in cells], dtype=np.float64)

    def fitted(self, cells: np.ndarray) -> Column:
        """Return the column with what is learned from its cells: the median, or the values."""
        missing = np.array([cell is None for cell in cells]) if cells.dtype == object else np.isnan(cells)
        if missing.all():
            raise ValueError(f"X: column {self.name!r} has no values, only missing cells: drop it.")
        present = cells[~missing]
        if self.kind == "category":
            return self._with_values(present, missing=bool(missing.any()))
        median = float(np.clip(np.median(present), -LARGEST, LARGEST))
        height = (float(arrays.spread_of(present[:, None])[0]) or 1.0) if missing.any() else 0.0
        cycles = formats.cycles_of(formats.local(present, self.zone)) if self.kind == "time" else ()
        return replace(self, median=median, height=height, cycles=cycles)

    def _with_values(self, present: np.ndarray, *, missing: bool) -> Column:
        counts = Counter(present.tolist())
        refuse_mixed(counts, self.name)  # chunks may differ
        if len(present) >= FEWEST_ROWS and len(counts) > formats.IDENTIFIER * len(present):
            texts = ((value, 0) for value in counts if isinstance(value, str))
            if Evidence().add(texts).settle(len(present), len(counts))[0] is not None:
                what = f"X: column {self.name!r} has numbers or dates as categories, such as {next(iter(counts))!r}"
                raise ValueError(f"{what}, nearly all different: convert it to text or numbers, or drop it.")
            why = f"it looks like an identifier: {len(counts)} of its {len(present)} values are distinct"
            remedy = "Drop it, or convert it to numbers if its values are numeric."
            arrays.warn(f"X: column {self.name!r} is ignored, because {why}. {remedy}")
            return replace(self, kind="ignored")
        kept = sorted(counts, key=lambda value: (-counts[value], value))[:MOST_VALUES]
        pooled = len(kept) < len(counts)
        if pooled:
            rows = len(present) - sum(counts[value] for value in kept)
            what = f"X: column {self.name!r} has {len(counts)} distinct values. All but the {MOST_VALUES} most frequent"
            arrays.warn(f"{what}, in {rows} of {len(present)} rows, are treated as one value.")
        return replace(self, values=tuple(sorted(kept)), missing=missing, pooled=pooled)

    def encode(self, cells: np.ndarray, out: np.ndarray) -> None:
        """Write the encoded columns of some rows into `out`, which is 0."""
        if self.kind == "ignored":
            return
        if self.kind != "category":
            missing = np.isnan(cells)
            filled = np.where(missing, self.median, cells)
            out[:, 0] = np.arcsinh((filled - self.origin) / self.unit) if self.unit else filled
            start = self.width - 2 * len(self.cycles)
            out[:, 1:start] = self.height * missing[:, None]
            if self.cycles:
                years = formats.local(cells, self.zone)
                pairs = np.vstack([formats.waves(years, cycle) for cycle in self.cycles])
                out[:, start:] = np.where(missing, 0.0, pairs).T
            return
        cells = self._as_in_fit(cells)
        places: dict[Any, int] = {value: place for place, value in enumerate(self.values)}
        if self.missing:
            places[None] = len(self.values)
        unknown = self.width - 1 if self.pooled else self.width
        codes = np.array([places.get(cell, unknown) for cell in cells], dtype=np.intp)
        rows = np.flatnonzero(codes < self.width)
        out[rows, codes[rows]] = HEIGHT
        # the same number in all k columns has distance 1 from all values: k t^2 - sqrt(2) t + 1/2 = 1
        out[codes == self.width] = (1.0 - math.sqrt(1.0 + self.width)) / (math.sqrt(2.0) * self.width)

    def unscaled(self, encoded: np.ndarray) -> np.ndarray:
        """Return the numbers that are encoded."""
        return self.origin + self.unit * np.sinh(encoded) if self.unit else encoded

    def scaled(self, origin: float, unit: float, encoded: np.ndarray) -> tuple[Column, np.ndarray]:
        """Return the column and its encoded cells on the scale asinh((x - origin)/unit), from the cells of all rows."""
        column, out = replace(self, origin=origin, unit=unit), np.zeros(encoded.shape)
        cells = np.where(np.any(encoded[:, 1:] > 0, axis=1), math.nan, encoded[:, 0])
        if self.height:
            known = np.arcsinh((cells[~np.isnan(cells)] - origin) / unit)
            column = replace(column, height=float(arrays.spread_of(known[:, None])[0]))
        column.encode(cells, out)
        return column, out

    def _as_in_fit(self, cells: np.ndarray) -> np.ndarray:
        """Return the cells of a category. Numbers become text if the category was text that can be read as numbers."""
        known = isinstance(self.values[0], str)
        cells = spelled_as(self.values, cells) if known else cells
        other = next((cell for cell in cells if cell is not None and isinstance(cell, str) != known), None)
        if other is not None:
            old, new = ("text", "numbers") if known else ("numbers", "text")
            what = f"contained {old} in fit, but now contains {new} ({other!r})"
            raise ValueError(f"X: column {self.name!r} {what}: {AS_IN_FIT}.")
        return cells


@dataclass(frozen=True)
class Columns:
    """All columns of a table."""

    columns: tuple[Column, ...]

    @classmethod
    def of(cls, X: Any, requested: Any, *, merged: bool = False) -> Columns:
        """The kinds of the columns of X; `requested` and `merged` are `categorical_features` and `merge_text`."""
        frame = series_of(X)
        names = column_names(X, X.shape[1])
        if not names:
            raise ValueError(f"Found array with 0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")
        is_default = isinstance(requested, str) and requested == "from_dtype"
        found = []
        for place, own in enumerate([False] * len(names) if is_default else _chosen(requested, names)):
            column = Column(names[place], "category" if own else "number")
            if frame is not None and not own:
                read = Column.of(names[place], frame[place])
                column = read if is_default or read.format is not None else column
            found.append(replace(column, merged=merged and column.kind == "category"))
        return cls(tuple(found))

    def read(self, X: Any, *, fitted: bool = True) -> list[np.ndarray]:
        """Return the cells of all columns; error messages depend on whether the model is `fitted`."""
        frame = series_of(X)
        cells: Iterable[Any] = np.asarray(X, dtype=object).T if frame is None else frame
        return [column.read(own, fitted=fitted) for column, own in zip(self.columns, cells, strict=True)]

    def fitted(self, cells: Sequence[np.ndarray]) -> Columns:
        """Return the columns with their medians and values, from the cells of the training rows."""
        medians = np.full(len(cells), math.nan)  # unless all cells are numbers: there may be very many columns
        for part in arrays.row_blocks(len(cells), 16 * len(cells[0])):
            whole = [c for c in range(part.start, part.stop) if self.columns[c].kind in ("number", "ranks")]
            medians[whole] = np.median([cells[c] for c in whole], axis=1) if whole else math.nan
        medians = np.clip(medians, -LARGEST, LARGEST)  # the mean of two values may overflow
        parts = zip(self.columns, cells, medians.tolist(), strict=True)
        found = [column.fitted(own) if math.isnan(m) else replace(column, median=m) for column, own, m in parts]
        if all(column.kind == "ignored" for column in found):
            raise ValueError("X has no columns left, because all of them look like identifiers: give other columns.")
        return Columns(tuple(found))

    def encode(self, cells: Sequence[np.ndarray]) -> np.ndarray:
        """Return the encoded rows."""
        out = np.zeros((len(cells[0]), len(self.sources)))
        place = 0
        for column, own in zip(self.columns, cells, strict=True):
            column.encode(own, out[:, place : place + column.width])
            place += column.width
        return out

    def scaled(self, scales: np.ndarray, encoded: np.ndarray) -> tuple[Columns, np.ndarray]:
        """The columns and their encoded rows on the scales of numbers, (2, encoded columns): origins and units."""
        found, out = list(self.columns), encoded.copy()
        ends = np.cumsum([column.width for column in self.columns])
        for place, column in enumerate(self.columns):
            places = slice(ends[place] - column.width, ends[place])
            if column.kind == "number" and scales[1, places][0]:
                origin, unit = scales[:, places][:, 0].tolist()
                found[place], out[:, places] = column.scaled(origin, unit, encoded[:, places])
        return Columns(tuple(found)), out

    def unscaled(self, encoded: np.ndarray) -> np.ndarray:
        """Return encoded rows with the numbers as they are."""
        out = encoded.copy()
        for place, source in enumerate(self.sources):
            out[:, place] = self.columns[source].unscaled(encoded[:, place])
        return out

    def split(self, matrix: np.ndarray) -> list[np.ndarray]:
        """Return the cells of a matrix of all of them, which has objects if there are categories."""
        kinds = (object if column.kind == "category" else np.float64 for column in self.columns)
        return [cells.astype(kind) for cells, kind in zip(matrix.T, kinds, strict=True)]

    def numbers(self, *, encoded: bool) -> np.ndarray:
        """Return the positions of numbers and ranks in the table, or of their values among the encoded columns."""
        found = [c for c, column in enumerate(self.columns) if column.kind in ("number", "time", "ranks")]
        ends = np.cumsum([column.width for column in self.columns])
        return np.array([ends[c] - self.columns[c].width for c in found] if encoded else found, dtype=np.intp)

    @property
    def sources(self) -> np.ndarray:
        """The number of the column of the table behind every encoded column."""
        return np.repeat(np.arange(len(self.columns)), [column.width for column in self.columns])

    @property
    def groups(self) -> np.ndarray | None:
        """Numbers from 0 that encoded columns of the same input share; None if every column is its own input."""
        parts = [part for column in self.columns for part in column.parts]
        groups = np.unique(np.stack([self.sources, parts]), axis=1, return_inverse=True)[1].ravel()
        return None if len(groups) == len(np.unique(groups)) else groups

    @property
    def are_plain(self) -> bool:
        """Whether rows without missing cells are encoded as they are."""
        return all(column.kind == "number" and not (column.height or column.unit) for column in self.columns)


def _chosen(requested: Any, names: list[Any]) -> np.ndarray:
    """Return the mask of the columns that `categorical_features` chooses."""
    chosen = np.asarray([] if requested is None else requested)
    if chosen.dtype.kind == "b" and chosen.shape == (len(names),):
        return chosen
    known = {name: place for place, name in enumerate(names)}
    places: Any = [known.get(place) if isinstance(place, str) else place for place in chosen.ravel().tolist()]
    right = all(isinstance(place, int) and 0 <= place < len(names) for place in places)
    if not right or chosen.ndim != 1 or chosen.dtype.kind == "b":
        allowed = f"'from_dtype', None, a mask of {len(names)} values, or names or numbers of columns of X"
        raise ValueError(f"categorical_features must be {allowed}, got {requested!r}.")
    return np.isin(np.arange(len(names)), places)
