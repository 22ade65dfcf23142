"""Tables that can be read repeatedly: CSV, TSV, Parquet, folders of Parquet files, and standard input."""

from __future__ import annotations

import codecs
import csv
import difflib
import io
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..tables.cells import is_number, numbers_of, readable, spelled, without
from ..tables.formats import Format, readings
from .program import parts_of

DELIMITERS = ",;\t|"
SPELLED = {"\t": "tabs", ";": "semicolons", "|": "bars"}
HINT = " The first line looks like data ({}): if it contains no column names, use --no-header."
ONE_COLUMN = " Only one column was found, {}: if there are more, give the --delimiter, or remove lines above the names."
STATED_DELIMITER = re.compile(r'"?sep=(.)"?\r?\n', re.IGNORECASE)
UNEQUAL_CELLS = re.compile(r"Row #(\d+): Expected \d+ columns, got (\d+)")  # This matches messages of pyarrow.
UNCLOSED = "look for an unclosed quotation mark."
BATCH_CELLS = 1 << 18  # At most this many cells are read together, unless 16 rows have more.
BLOCK_BYTES = 1 << 22  # This much text is parsed together, unless 16 rows are longer; no row may be longer.
LONGEST_CELL = 1 << 26  # A cell has at most this many characters.
# The format is inferred from whole lines of this many characters, twice, so that a row follows the names.
SAMPLE = 1 << 19
SAMPLE_ROWS = 50  # The format is inferred from this many rows.
DELIMITED_ROWS = 20  # The delimiter is inferred from this many rows.


class TableError(ValueError):
    """A table that cannot be used as it is; the message explains what to do."""


@dataclass(frozen=True)
class Batch:
    """Some rows of a table; the columns are those of `tables.readable`."""

    source: Source
    start: int  # the number of rows before these
    rows: int
    columns: dict[str, Any]

    def number(self, place: int) -> int:
        """Return the number of a row in messages, from its position in the batch."""
        return self.source.first_row + self.start + place

    def cells(self, name: str) -> Any:
        """Return the cells of a column, dates as texts; TableError if they are neither numbers nor text."""
        if self.columns[name] is None:
            raise TableError(f"{self.source.name}: column {name!r} contains neither numbers nor text: convert it.")
        return spelled(self.columns[name])

    def texts(self, name: str) -> Iterator[tuple[str, int]]:
        """Return the distinct texts of a column, with the numbers of their rows."""
        codes = self.cells(name).dictionary_encode()
        found, places = np.unique(codes.indices.fill_null(-1).to_numpy(), return_index=True)
        texts = [*codes.dictionary.to_pylist(), ""]  # of missing cells
        return ((str(texts[code]), self.number(place)) for code, place in zip(found, places.tolist(), strict=True))

    def numbers(self, name: str, remedy: str, own: Format | None = None) -> np.ndarray:
        """Return the numbers of a column, NaN for missing cells; TableError for other cells."""
        cells = self.cells(name)
        values, odd = numbers_of(cells, self.source.decimal, None if own is None else own.read)
        if odd:
            words = "" if own is None else own.words
            raise odd_cells(self.source.name, name, [(str(cells[odd[0]]), self.number(odd[0]))], remedy, words=words)
        return values

    def has_only_numbers(self, name: str) -> bool:
        """Return whether there are numbers and missing cells in a column, but no other cells."""
        values, odd = numbers_of(self.cells(name), self.source.decimal)
        return not odd and bool(np.isfinite(values).any())


@dataclass(frozen=True)
class Source:
    """A table that can be read repeatedly, in batches."""

    name: str
    names: tuple[str, ...]
    first_row: int  # the number of the first row: 2 below a header line, 0 in Parquet
    read: Callable[[list[str], int], Iterator[Any]]  # names, rows -> record batches of pyarrow, which may have more
    notes: tuple[str, ...] = ()  # what was inferred
    decimal: str = "."
    hint: str = ""  # if the first line looks like data, or if there is only one column
    na: tuple[str, ...] = ()  # further marks of missing cells

    def batches(self, names: Sequence[str] | None = None, rows: int = BATCH_CELLS) -> Iterator[Batch]:
        """Yield batches of at most `rows` rows of some columns, from the start; reader errors become TableErrors."""
        start, names = 0, list(self.names if names is None else names)
        rows = min(rows, max(16, BATCH_CELLS // len(names)))
        with _explained_errors(self.name):
            for block in self.read(names, rows):
                for first in range(0, block.num_rows, rows):
                    part = block.slice(first, rows)
                    columns = (without(readable(column), self.na) for column in part.columns)
                    yield Batch(self, start, len(part), dict(zip(names, columns, strict=True)))
                    start += len(part)
        if not start:
            raise TableError(f"{self.name} has no rows below its header: give a file with data.")


@contextmanager
def _explained_errors(name: str) -> Iterator[None]:
    """Turn errors of the reading libraries into TableErrors."""
    import pyarrow

    try:
        yield
    except PermissionError:
        raise
    except (pyarrow.ArrowInvalid, OSError, UnicodeError, csv.Error) as error:
        fault, remedy = str(error), "does the file have the format that its name suggests?"
        if isinstance(error, UnicodeDecodeError) or "invalid UTF8" in fault:
            remedy = "give its encoding, e.g. --encoding latin-1."
            fault = f"it is not {getattr(error, 'encoding', 'utf-8')}"
        elif isinstance(error, csv.Error) or "straddle" in fault:
            remedy = UNCLOSED
        raise TableError(f"{name}: {fault}\n{remedy}") from error


def open_table(path: str, *, na: Sequence[str] = (), **options: Any) -> Source:
    """Infer the format of a file, unless options of `_open_text` give it; `na` are further marks of missing cells.

    "-" is standard input. Standard input, pipes and devices can be read only once: they are copied to a file that is
    removed at exit.
    """
    file, name = Path(path), "standard input" if path == "-" else path
    if path == "-":
        file = _copy(None if sys.stdin is None else sys.stdin.buffer, name)
    elif not file.exists():
        near = difflib.get_close_matches(file.name, os.listdir(file.parent) if file.parent.is_dir() else [], 1)
        hint = f"Did you mean {str(file.parent / near[0])!r}?" if near else "Check its name and folder."
        raise TableError(f"There is no file {path!r}. {hint}")
    elif not file.is_dir() and not file.is_file():
        with open(path, "rb") as stream:
            file = _copy(stream, name)
    if file.is_dir() or _is_parquet(str(file)):
        return replace(_open_parquet(file, name), na=tuple(na))
    with _explained_errors(name):
        return replace(_open_text(str(file), name, **options), na=tuple(na))


def _is_parquet(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == b"PAR1"


def _copy(stream: BinaryIO | None, name: str) -> Path:
    """Copy a stream to a file, because a fit reads the rows several times; the file is removed at exit."""
    import atexit
    import shutil
    import tempfile

    if stream is None or stream.isatty():
        kind = "closed" if stream is None else "a terminal"
        raise TableError(f"{name} is {kind}: give a file, or pipe one in, e.g. lssvm fit - < data.csv")
    with tempfile.NamedTemporaryFile(prefix="lssvm-", suffix=".csv", delete=False) as file:
        atexit.register(lambda: Path(file.name).unlink(missing_ok=True))
        shutil.copyfileobj(stream, file)
    return Path(file.name)


def _open_parquet(file: Path, name: str) -> Source:
    import pyarrow.dataset

    files = list(map(str, parts_of(file)))
    if not files:
        raise TableError(f"The folder '{file}' contains no Parquet files (*.parquet): give a file or another folder.")
    parts = {"partitioning": "hive", "partition_base_dir": str(file)} if file.is_dir() else {}
    with _explained_errors(name):
        data = pyarrow.dataset.dataset(files, format="parquet", **parts)
    names = tuple(data.schema.names)
    _check_names(names, name)
    return Source(name, names, 0, lambda wanted, rows: data.to_batches(columns=wanted, batch_size=rows))


def _open_text(
    path: str,
    name: str,
    *,
    delimiter: str | None = None,
    header: bool | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
) -> Source:
    """Open a text file, whose format is inferred from the first lines.

    With ``header=None``, the first line contains names, and a first line of numbers is an error.
    """
    import pyarrow
    import pyarrow.csv

    encoding = _encoding(path, name, encoding)
    with io.TextIOWrapper(pyarrow.input_stream(path, compression="detect"), encoding, newline="") as file:
        lines = file.readlines(SAMPLE) + file.readlines(SAMPLE)
        is_cut = bool(file.readline())
    csv.field_size_limit(LONGEST_CELL)
    stated = STATED_DELIMITER.fullmatch(lines[0]) if lines else None  # in a line above the table, as Excel writes it
    above = next((n for n in range(int(bool(stated)), len(lines)) if lines[n].strip("\r\n")), len(lines))
    lines = lines[above:]
    found = (delimiter or (stated[1] if stated else _sniff(lines))).replace("\\t", "\t")
    if len(found) != 1 or not found.isascii():
        raise TableError(f"--delimiter must be one ASCII character, got {found!r}; write \\t for a tab.")
    reader = csv.reader(lines, delimiter=found)
    records = filter(None, reader)
    head = list(islice(records, 1))
    breaks = 0 if header is False else reader.line_num - 1  # in the names
    first_row = 1 + above + (header is not False) + breaks
    head += islice(records, SAMPLE_ROWS - 1)
    if len(head) < 2 and is_cut:
        raise TableError(f"{name}: the column names take more than {2 * SAMPLE} characters: {UNCLOSED}")
    if not any(cell.strip() for record in head for cell in record):
        raise TableError(f"{name} is empty: give a file with a line of column names and rows below it.")

    first = head[0]
    if header is None and len(head) > 1 and all(map(_looks_numeric, first)):
        what = f"the first line looks like data, not like column names ({', '.join(first[:4])} ...)"
        raise TableError(f"{name}: {what}. Use --no-header, add a line of names or, if these are names, use --header.")
    data = _data_cells(head) if header is None else []
    hint = HINT.format(quoted(data[0])) if data else ""
    names = tuple(f"column{c + 1}" if header is False else cell.strip() for c, cell in enumerate(first))
    _check_names(names, name, hint)
    notes = [f"columns are separated by {SPELLED[found]}"] if not (delimiter or stated) and found != "," else []
    notes += [hint.strip()] if hint else []
    hint += ONE_COLUMN.format(quoted(first)) if len(names) == 1 else ""
    if decimal is None and found != "," and _decimal_comma(head):
        decimal = ","
        notes.append("numbers are written with a decimal comma")
    formats = pyarrow.csv.ParseOptions(delimiter=found, newlines_in_values=True)
    longest = max(sum(map(len, record)) + len(record) for record in head)
    place: dict[str, Any] = {"column_names": names, "skip_rows": above, "skip_rows_after_names": header is not False}
    place |= {"block_size": max(BLOCK_BYTES, 16 * longest), "encoding": encoding.replace("utf-8-sig", "utf8")}
    blocks = pyarrow.csv.ReadOptions(use_threads=False, **place)  # messages then contain the numbers of rows

    def read(wanted: list[str], rows: int) -> Iterator[Any]:
        kinds = dict.fromkeys(wanted, pyarrow.string())
        texts = pyarrow.csv.ConvertOptions(include_columns=wanted, column_types=kinds, strings_can_be_null=False)
        try:
            with pyarrow.input_stream(path, compression="detect") as stream:
                yield from pyarrow.csv.open_csv(stream, blocks, formats, texts)
        except pyarrow.ArrowInvalid as error:
            unequal = UNEQUAL_CELLS.search(str(error))
            if unequal is None:
                raise
            found = f"row {int(unequal[1]) + breaks} has a different number of cells ({unequal[2]})"
            remedy = "correct it, or give --delimiter"
            raise TableError(f"{name}: {found} than the header ({len(names)}): {remedy}.") from None

    return Source(name, names, first_row, read, tuple(notes), decimal or ".", hint)


def _encoding(path: str, name: str, encoding: str | None) -> str:
    """Return the name of the encoding, which is inferred if it is not given."""
    import pyarrow

    with pyarrow.input_stream(path, compression="detect") as stream:
        start = stream.read(1 << 16)
    if encoding is None:
        encoding = "utf-16" if start[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    try:
        known = codecs.lookup(encoding).name
    except LookupError:
        raise TableError(f"--encoding {encoding!r} is unknown: try utf-8, latin-1 or cp1252.") from None
    if b"\0" in start and not known.startswith(("utf-16", "utf-32")):
        raise TableError(f"{name} is not text: give CSV, TSV or Parquet. A spreadsheet can be saved as CSV (UTF-8).")
    return "utf-8-sig" if known == "utf-8" else encoding  # without a byte order mark


def _sniff(lines: Sequence[str]) -> str:
    """Return the delimiter that splits the first lines into equal numbers of cells, as many as possible."""
    cells = {}
    for delimiter in DELIMITERS:
        widths = set(map(len, islice(filter(None, csv.reader(lines, delimiter=delimiter)), DELIMITED_ROWS)))
        cells[delimiter] = widths.pop() if len(widths) == 1 else 0
    best = max(DELIMITERS[1:], key=lambda delimiter: cells[delimiter])
    if cells[best] > 1 and cells[best] >= cells[","] - 1:  # one comma per cell is a decimal comma
        return best
    if cells[","] > 1:
        return ","
    names = lines[0] if lines else ""
    if not any(delimiter in names for delimiter in DELIMITERS):  # one column, perhaps with decimal commas
        return next((delimiter for delimiter in DELIMITERS if cells[delimiter] == 1), ",")
    return max(DELIMITERS, key=names.count)  # unequal lines: the reader reports the first


def _decimal_comma(head: Sequence[Sequence[str]]) -> bool:
    cells = ((mark, cell.strip()) for line in head[1:] for cell in line for mark in ",." if mark in cell)
    styles = {(mark, *readings(cell)) for mark, cell in cells}
    return (",", ",") in styles and (".", ".") not in styles  # 1.234 may be either


def _looks_numeric(text: str) -> bool:
    return is_number(text) or is_number(text, ",")


def _data_cells(head: Sequence[Sequence[str]]) -> list[str]:
    """Return the cells of the first line that look like data: numbers, and texts that occur again below."""
    below = [set(column) for column in zip(*head[1:], strict=False)]
    pairs = zip(head[0], below, strict=False)
    return [cell for cell, others in pairs if cell and (_looks_numeric(cell) or cell in others)]


def _check_names(names: Sequence[str], source: str, hint: str = "") -> None:
    for name, count in Counter(names).items():
        fault = f"the column name {name!r} is duplicated: give each column a unique name"
        if not name:
            remedy = "give them names or, if they are empty, remove the delimiters at the ends of the lines"
            fault = f"{count} columns have no name: {remedy}"
        if count > 1:
            raise TableError(f"{source}: {fault}.{hint}")


def odd_cells(
    source: str, name: str, cells: Sequence[tuple[str, int]], remedy: str, count: int = 1, words: str = ""
) -> TableError:
    """Return the error about cells that are not finite numbers, or not of the format; it names the first few rows."""
    found = ", ".join(f"{quoted(value)} in row {row}" for value, row in cells)
    what = "a value that is not a finite number" if count == 1 else f"{count} values that are not finite numbers"
    what = f"a value that does not fit {words}" if words else what
    return TableError(f"{source}: column {name!r} contains {what} ({found}): {remedy}.")


def plain_name(name: str) -> str:
    """Return a name on one line: cut if it is long, quoted and escaped if it contains control characters."""
    text = name if name.isprintable() else repr(name)
    return text if len(text) <= 80 else text[:79] + "…"


def quoted(value: Any) -> str:
    text = value if isinstance(value, str) else ", ".join(map(str, value))
    return repr(text if len(text) <= 40 else text[:39] + "…")
