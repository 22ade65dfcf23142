"""Tables from files, for the command line: CSV, TSV, Parquet, a folder of Parquet, standard input.

`open_table` finds out how a file is written; `scan` reads it once and summarises every column; `plan` decides what each
column is (a number, categories, left out) and what the task is; `Plan.encode` turns a batch of rows into columns of
numbers. Rows come in batches, so that nothing here needs the whole file in memory.
"""

from __future__ import annotations

import csv
import difflib
import io
import math
import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Column", "Plan", "Source", "TableError", "UnknownColumn", "open_table", "plan", "scan"]

DELIMITERS = ",;\t|"
MISSING = (
    "",
    "NA",
    "N/A",
    "n/a",
    "na",
    "N.A.",
    "n.a.",
    "NaN",
    "nan",
    "NAN",
    "null",
    "NULL",
    "None",
    "none",
    "?",
    "#N/A",
)
NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
PADDED = r"^0\d+$"
STATED_DELIMITER = re.compile(r'"?sep=(.)"?\r?\n', re.IGNORECASE)
DATE = re.compile(r"(\d{4}([-/.])\d{1,2}\2\d{1,2}|\d{1,2}([-/.])\d{1,2}\3\d{2,4})([T ]\d{1,2}:\d{2}.*)?")
SIGNED = re.compile(r"([€$£¥]|[A-Z]{3}\s)?\s*[+-]?\d[\d.,'\s]*([€$£¥%]|[^\W\d]{1,3})?")  # a number and something else
MOST_CATEGORIES = 50  # a column of more different texts is left out,
ALIKE_CATEGORIES = 10  # and one of more than this that stand for less than two rows each
MOST_CLASSES = 10  # whole numbers of at most so many values are classes
MOST_LABELS = 1000  # a target of more different texts is no class
FEW_ODD = 0.2  # a column with fewer texts among its numbers is a column of numbers with mistakes in it
BLOCK_BYTES = 1 << 23
SAMPLE_SIZE = 1 << 16  # characters from which the format is guessed; more where they hold too few rows
SAMPLE_LIMIT = 1 << 26  # the most of them
SAMPLE_ROWS = 20  # rows that show the delimiter
TRUTH = {"false": ("false", "False", "FALSE"), "true": ("true", "True", "TRUE")}  # as programs write them


class TableError(ValueError):
    """A table that cannot be used as it is; the message says what to do."""


class UnknownColumn(TableError):
    """A column that an option names and that is not there, or not for that."""


def need_pyarrow() -> None:
    """TableError with the name of the extra, where pyarrow is not installed."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise TableError('Reading files needs pyarrow: pip install "lssvm[files]"') from error


# Reading --------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Source:
    """A table that can be read again and again, in batches."""

    name: str
    names: tuple[str, ...]
    first_row: int  # the number of the first row: 2 below a header line, 0 in Parquet
    start: Callable[[], Iterator[pa.RecordBatch]]
    notes: tuple[str, ...] = ()  # what was guessed
    decimal: str = "."

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The batches, from the start; errors of the reader become TableErrors."""
        import pyarrow

        try:
            yield from self.start()
        except pyarrow.ArrowInvalid as error:
            text = str(error)
            if "UTF8" in text:
                remedy = "the file is not UTF-8: give its encoding, e.g. --encoding latin-1."
            elif "Expected" in text and "columns" in text:
                remedy = "a line has another number of cells than the header: mend it, or give --delimiter."
            else:
                remedy = "is it the kind of file that its name says?"
            raise TableError(f"{self.name}: {text}\n{remedy}") from error
        except (OSError, UnicodeError) as error:
            remedy = "if this is text, give its encoding, e.g. --encoding latin-1."
            raise TableError(f"{self.name}: {error}\n{remedy}") from error


def open_table(
    path: str, *, delimiter: str | None = None, header: bool | None = None, encoding: str | None = None
) -> Source:
    """Find out how a file is written. "-" is standard input.

    Standard input, pipes and devices can be read only once: they are copied to a file that is removed at exit.
    With ``header=None`` the first line holds names, and a first line of numbers is an error.
    """
    need_pyarrow()
    if path == "-":
        if sys.stdin is None:
            raise TableError("Standard input is closed: give a file, or pipe one in, e.g. lssvm fit - < data.csv")
        return _open_stream(sys.stdin.buffer, "standard input", delimiter, header, encoding)
    file = Path(path)
    if not file.exists():
        near = difflib.get_close_matches(file.name, os.listdir(file.parent) if file.parent.is_dir() else [], 1)
        hint = f"Did you mean {str(file.parent / near[0])!r}?" if near else "Check its name and its folder."
        raise TableError(f"There is no file {path!r}. {hint}")
    if not file.is_dir() and not file.is_file():
        with open(path, "rb") as stream:
            return _open_stream(stream, path, delimiter, header, encoding)
    if file.is_dir() or file.suffix.lower() in (".parquet", ".pq") or _is_parquet(path):
        return _open_parquet(file)
    if file.suffix.lower() in (".xlsx", ".xls", ".ods"):
        raise TableError(f"{path!r} is a spreadsheet: save it as CSV (UTF-8) first.")
    return _open_text(path, path, delimiter, header, encoding)


def _is_parquet(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == b"PAR1"


def _open_stream(
    stream: BinaryIO, name: str, delimiter: str | None, header: bool | None, encoding: str | None
) -> Source:
    """A copy of a stream, as a table: a fit reads its rows several times."""
    import atexit
    import shutil
    import tempfile

    if stream.isatty():
        raise TableError(f"{name} is a terminal: give a file, or pipe one in, e.g. lssvm fit - < data.csv")
    with tempfile.NamedTemporaryFile(prefix="lssvm-", suffix=".csv", delete=False) as file:
        atexit.register(lambda: Path(file.name).unlink(missing_ok=True))
        shutil.copyfileobj(stream, file)
    if _is_parquet(file.name):
        return replace(_open_parquet(Path(file.name)), name=name)
    return _open_text(file.name, name, delimiter, header, encoding)


def _open_parquet(file: Path) -> Source:
    import pyarrow
    import pyarrow.dataset

    files = sorted(str(f) for f in file.rglob("*") if f.suffix.lower() in (".parquet", ".pq")) if file.is_dir() else []
    if file.is_dir() and not files:
        raise TableError(f"The folder '{file}' holds no Parquet files (*.parquet): give a file, or another folder.")
    try:
        if files:
            parts = {"partitioning": "hive", "partition_base_dir": str(file)}
            data = pyarrow.dataset.dataset(files, format="parquet", **parts)
        else:
            data = pyarrow.dataset.dataset(file, format="parquet")
    except pyarrow.ArrowInvalid as error:
        raise TableError(f"'{file}' cannot be read as Parquet: {error}\nIs it whole, and is it Parquet?") from error
    names = tuple(data.schema.names)
    _check_names(names, str(file))
    return Source(str(file), names, 0, data.to_batches)


def _open_text(path: str, name: str, delimiter: str | None, header: bool | None, encoding: str | None) -> Source:
    import pyarrow
    import pyarrow.csv

    encoding, found, guessed, above, names_end, lines = _layout(path, name, delimiter, encoding)
    first = lines[0]
    notes = []
    if guessed and found != ",":
        notes.append(f"columns are separated by {_spell(found)}")
    if header is None and len(lines) > 1 and first and all(_is_number(cell) for cell in first):
        raise TableError(
            f"{name}: the first line looks like data, not like column names ({', '.join(first[:4])} ...). Write "
            "--no-header (the columns are then column1, column2, ...), put a line of names on top, or, if these are "
            "names, write --header."
        )
    header = header is not False
    names = tuple(cell.strip() for cell in first) if header else tuple(f"column{c + 1}" for c in range(len(first)))
    if len(names) < 2:
        raise TableError(
            f"{name}: only one column was found, {_shown(first)}: if there are more, give their --delimiter; if lines "
            "stand above the column names, take these out."
        )
    _check_names(names, name)
    decimal = "," if found != "," and _decimal_comma(lines) else "."
    if decimal == ",":
        notes.append("numbers are written with a decimal comma")

    block_size = max(BLOCK_BYTES, 4 * sum(len(cell) + 3 for cell in first))  # the names must fit into one block

    def start() -> Iterator[pa.RecordBatch]:
        with pyarrow.input_stream(path, compression="detect") as stream:
            reader = pyarrow.csv.open_csv(
                stream,
                read_options=pyarrow.csv.ReadOptions(
                    column_names=list(names),
                    skip_rows=names_end if header else above,
                    encoding=encoding,
                    block_size=block_size,
                ),
                parse_options=pyarrow.csv.ParseOptions(delimiter=found, newlines_in_values=True),
                convert_options=pyarrow.csv.ConvertOptions(
                    column_types={column: pyarrow.string() for column in names}, strings_can_be_null=False
                ),
            )
            yield from reader

    return Source(name, names, 1 + (names_end if header else above), start, tuple(notes), decimal)


class _Layout(NamedTuple):
    """How the start of a text file is written."""

    encoding: str
    delimiter: str
    guessed: bool  # whether the delimiter is
    above: int  # lines above the column names that are not part of the table
    names_end: int  # lines up to the end of the column names
    lines: list[list[str]]  # the first records


def _layout(path: str, name: str, delimiter: str | None, encoding: str | None) -> _Layout:
    """The layout of a text file, from a sample that holds the column names and, where possible, some rows."""
    size = SAMPLE_SIZE
    with _long_cells():
        while True:
            sample, encoding, is_whole = _sample(path, name, encoding, size)
            layout = _parse(sample, delimiter, encoding)
            if is_whole or len(layout.lines) > SAMPLE_ROWS:
                return layout
            if size >= SAMPLE_LIMIT:
                break
            size *= 4
    if len(layout.lines) < 2:
        raise TableError(
            f"{name}: the column names and the first row take more than {size >> 20} MiB: look for a quotation mark "
            "that is not closed."
        )
    return layout


def _parse(sample: str, delimiter: str | None, encoding: str) -> _Layout:
    stated = STATED_DELIMITER.match(sample)  # a line that Excel writes and reads
    above = 1 if stated else 0
    if stated:
        sample = sample[stated.end() :]
        delimiter = delimiter or stated[1]
    found = _sniff(sample) if delimiter is None else delimiter.replace("\\t", "\t")
    if len(found) != 1:
        raise TableError(f"--delimiter must be one character, got {delimiter!r}; write \\t for a tab.")
    reader = csv.reader(io.StringIO(sample, newline=""), delimiter=found)
    first = next((line for line in reader if line), [])
    names_end = above + reader.line_num  # names may hold line breaks, and empty lines may stand before them
    return _Layout(encoding, found, delimiter is None, above, names_end, [first, *reader])


@contextmanager
def _long_cells() -> Iterator[None]:
    """Let the csv module read cells of any length: with a wrong delimiter a whole line is one cell."""
    limit = csv.field_size_limit((1 << 31) - 1)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def _sample(path: str, name: str, encoding: str | None, size: int) -> tuple[str, str, bool]:
    """About `size` characters from the start, up to the end of a line; the encoding; whether this is the whole file."""
    import pyarrow

    with pyarrow.input_stream(path, compression="detect") as stream:
        mark = stream.read(2)
    if encoding is None:
        encoding = "utf-16" if mark in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    try:
        with (
            pyarrow.input_stream(path, compression="detect") as stream,
            io.TextIOWrapper(stream, encoding, newline="") as file,
        ):
            text = file.read(size)
            is_whole = not file.read(1)
    except LookupError:
        raise TableError(f"--encoding {encoding!r} is unknown: try utf-8, latin-1 or cp1252.") from None
    except UnicodeDecodeError as error:
        if b"\0" in error.object:
            raise TableError(f"{name} is not text: give CSV, TSV or Parquet.") from None
        raise TableError(f"{name} is not {encoding}: give its encoding, e.g. --encoding latin-1.") from None
    if not text.strip("\ufeff \t\r\n"):
        raise TableError(f"{name} is empty: give a file with a line of column names and rows below it.")
    if "\0" in text:
        raise TableError(f"{name} is not text: give CSV, TSV or Parquet.")
    if not is_whole:
        text = text[: text.rfind("\n") + 1] or text
    return text.removeprefix("\ufeff"), encoding, is_whole


def _sniff(sample: str) -> str:
    """The delimiter that gives the first lines the same number of cells, the largest such number."""

    def cells(delimiter: str) -> int:
        records = islice(csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter), SAMPLE_ROWS)
        rows = [len(row) for row in records if row]
        return rows[0] if rows and min(rows) == max(rows) else 0

    best = max(DELIMITERS, key=cells)
    if cells(best) > 1:
        return best
    return max(DELIMITERS, key=sample.split("\n", 1)[0].count)  # ragged lines: the reader names the first


def _decimal_comma(lines: Sequence[Sequence[str]]) -> bool:
    cells = [cell.strip() for line in lines[1:50] for cell in line]
    comma = sum(_is_number(cell.replace(",", ".")) and "," in cell for cell in cells)
    return comma > 0 and not any("." in cell and _is_number(cell) for cell in cells)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return bool(text.strip().lower() not in ("nan", "inf", "-inf", "infinity"))


def _spell(delimiter: str) -> str:
    return {"\t": "tabs", ";": "semicolons", "|": "bars"}.get(delimiter, repr(delimiter))


def _check_names(names: Sequence[str], source: str) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if "" in twice:
        raise TableError(
            f"{source}: {list(names).count('')} columns have no name: give them names, or, if they are empty, take out "
            "the delimiters at the ends of the lines."
        )
    if twice:
        raise TableError(f"{source}: the column name {twice[0]!r} stands there twice: give every column its own name.")


# Summaries ------------------------------------------------------------------------------------------------------------
@dataclass
class Summary:
    """What one pass over a column found."""

    rows: int = 0
    missing: int = 0
    first_missing: int = -1
    odd: int = 0  # texts that are no numbers
    odd_values: list[tuple[str, int]] = field(default_factory=list)  # the first of them, with their rows
    counts: Counter[str] | None = field(default_factory=Counter)  # None: more different values than anyone needs
    total: float = 0.0
    whole: bool = True  # all numbers are integers
    counting: bool = True  # every number is the one before plus 1
    last: float | None = None
    padded: str = ""  # the first number with zeros before it: a code rather than a number
    usable: bool = True  # neither number nor text otherwise
    kind: str = ""  # the type, for messages

    @property
    def present(self) -> int:
        return self.rows - self.missing

    @property
    def is_number(self) -> bool:
        """Numbers, perhaps with a few mistakes among them."""
        return self.usable and self.present > 0 and self.odd <= FEW_ODD * self.present

    @property
    def texts(self) -> list[str]:
        """Some of the texts."""
        return [value for value, _ in self.odd_values] if self.counts is None else list(self.counts)[:50]


def scan(source: Source, columns: Sequence[str], seen: Callable[[int], None] = lambda rows: None) -> dict[str, Summary]:
    """One pass over a source: a summary of each of some columns."""
    summaries = {name: Summary() for name in columns}
    row = 0
    for batch in source.batches():
        for name, summary in summaries.items():
            _add(summary, _column(batch, name), row + source.first_row, source.decimal)
        row += batch.num_rows
        seen(row)
    if not row:
        raise TableError(f"{source.name} holds no rows below its header: give a file with data.")
    return summaries


def _column(batch: pa.RecordBatch, name: str) -> Any:
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


def _numbers(column: Any, decimal: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values (NaN where there is none), which are missing, and which are texts that are no (finite) numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_floating(column.type):
        values = column.to_numpy(zero_copy_only=False)
        return values, np.isnan(values), np.isinf(values)
    missing = _missing(column)
    text = pc.replace_substring(column, ",", ".") if decimal == "," else column
    number = pc.fill_null(pc.match_substring_regex(text, NUMBER), False)
    values = pc.cast(pc.if_else(number, text, None), pa.float64()).to_numpy(zero_copy_only=False)
    return values, missing, ~missing & (~number.to_numpy(zero_copy_only=False) | np.isinf(values))


def _missing(column: Any) -> np.ndarray:
    """Which texts stand for nothing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_floating(column.type):
        return np.isnan(column.to_numpy(zero_copy_only=False))
    none = pc.or_(pc.is_null(column), pc.fill_null(pc.is_in(column, pa.array(MISSING)), True))
    return none.to_numpy(zero_copy_only=False)


def _add(summary: Summary, column: Any, row: int, decimal: str) -> None:
    """Take one batch's column into its summary."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column is None:
        summary.usable = False
        summary.rows += 1  # something, so that it is not an empty column
        return
    values, missing, odd = _numbers(column, decimal)
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
    summary.counting = summary.counting and bool((steps == 1).all())  # not where a value is missing, which is NaN
    summary.last = float(values[-1]) if len(values) else summary.last
    if summary.counts is not None:
        found = pc.value_counts(column.filter(~missing))
        for item in found if len(found) <= MOST_LABELS else ():
            value = item["values"].as_py()
            summary.counts[_label(value) if isinstance(value, float) else str(value)] += item["counts"].as_py()
        if max(len(found), len(summary.counts)) > MOST_LABELS:
            summary.counts = None


def _label(value: float) -> str:
    """A number as the name of a class."""
    return str(int(value)) if math.isfinite(value) and value == int(value) else repr(value)


def spellings(categories: Sequence[str]) -> dict[str, int]:
    """The texts that stand for categories, and their places. Where these are truth values, whose letters every program
    writes in a case of its own, other cases stand for them, too.
    """
    places = {text: place for place, text in enumerate(categories)}
    if len({text.lower() for text in categories} & TRUTH.keys()) == len(categories):
        for place, text in enumerate(categories):
            places |= dict.fromkeys(TRUTH[text.lower()], place)
    return places


def _categories(counts: Counter[str]) -> tuple[str, ...]:
    """The texts of a column, sorted; truth values that differ in case only become the spelling met most often."""
    if {text.lower() for text in counts} <= TRUTH.keys():
        best = {text.lower(): text for text, _ in reversed(counts.most_common())}
        return tuple(sorted(best.values()))
    return tuple(sorted(counts))


# Plans ----------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Column:
    """An input: a number, or one of some categories."""

    name: str
    categories: tuple[str, ...] | None = None
    fill: float | None = None  # what a missing number becomes

    @property
    def encoded(self) -> list[str]:
        """Names of the columns that the machine sees."""
        return [self.name] if self.categories is None else [f"{self.name}={value}" for value in self.categories]


@dataclass(frozen=True)
class Plan:
    """What each column is and what is to be learned; travels with the model, as plain values."""

    target: str
    task: str  # "regression" or "classification"
    columns: tuple[Column, ...]
    labels: str = "number"  # classes are "number" (whole ones) or "text"

    @property
    def names(self) -> list[str]:
        """Names of the encoded columns."""
        return [name for column in self.columns for name in column.encoded]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a model file."""
        columns = [
            {"name": c.name, "categories": None if c.categories is None else list(c.categories), "fill": c.fill}
            for c in self.columns
        ]
        return {"target": self.target, "task": self.task, "labels": self.labels, "columns": columns}

    @classmethod
    def from_dict(cls, values: Any) -> Plan:
        """The plan of `to_dict`; TableError where these are none."""
        try:
            columns = tuple(
                Column(
                    str(c["name"]),
                    None if c["categories"] is None else tuple(map(str, c["categories"])),
                    None if c["fill"] is None else float(c["fill"]),
                )
                for c in values["columns"]
            )
            return cls(str(values["target"]), str(values["task"]), columns, str(values["labels"]))
        except (KeyError, TypeError, ValueError) as error:
            raise TableError(f"This model file does not say what its columns are ({error!r}).") from None

    def check(self, source: Source) -> None:
        """TableError for columns that a table lacks."""
        absent = [column.name for column in self.columns if column.name not in source.names]
        if absent:
            raise TableError(
                f"{source.name} lacks {len(absent)} column(s) that the model needs: {_list(absent)}. "
                + _closest(absent[0], source.names)
            )

    def encode(self, batch: pa.RecordBatch, source: Source, row: int, unknown: Counter[str]) -> tuple[Any, np.ndarray]:
        """The encoded columns of a batch as an Arrow table, and which of its rows are complete.

        Rows that are not complete hold zeros. Categories that the model has not seen are counted in `unknown`.
        """
        import pyarrow as pa

        arrays: list[np.ndarray] = []
        complete = np.ones(batch.num_rows, dtype=bool)
        for spec in self.columns:
            column = _column(batch, spec.name)
            if column is None:
                raise TableError(f"{source.name}: column {spec.name!r} holds neither numbers nor text.")
            if spec.categories is not None:
                arrays += _one_hot(column, spec, complete, unknown)
                continue
            values, missing, odd = _numbers(column, source.decimal)
            if odd.any():
                place = int(np.argmax(odd))
                found = _odd_words(source.name, spec.name, [(str(column[place].as_py()), row + place)])
                raise TableError(f"{found}: correct it, or leave the cell empty.")
            if spec.fill is None:
                complete &= ~missing
            arrays.append(np.where(missing, 0.0 if spec.fill is None else spec.fill, values))
        return pa.table([pa.array(values) for values in arrays], names=self.names), complete

    def targets(self, batch: pa.RecordBatch, source: Source, row: int) -> tuple[np.ndarray, np.ndarray]:
        """The target of every row of a batch, and which are there."""
        column = _column(batch, self.target)
        if self.task == "classification" and self.labels == "text":
            missing = _missing(column)
            texts = [_label(v) if isinstance(v, float) else "" if v is None else v for v in column.to_pylist()]
            return np.array(texts), ~missing
        values, missing, odd = _numbers(column, source.decimal)
        if odd.any():
            place = int(np.argmax(odd))
            found = _odd_words(source.name, self.target, [(str(column[place].as_py()), row + place)])
            raise TableError(f"{found}: correct it; the model was fitted to numbers.")
        values = np.where(missing, 0.0, values)
        return (values.astype(np.int64) if self.task == "classification" else values), ~missing


def _one_hot(column: Any, spec: Column, complete: np.ndarray, unknown: Counter[str]) -> list[np.ndarray]:
    import pyarrow as pa
    import pyarrow.compute as pc

    assert spec.categories is not None
    missing = _missing(column)
    if spec.fill is None:
        complete &= ~missing
    if pa.types.is_floating(column.type):
        column = pa.array([None if none else _label(v) for v, none in zip(column.to_pylist(), missing, strict=True)])
    known = spellings(spec.categories)
    place = pc.fill_null(pc.index_in(column, pa.array(list(known))), -1).to_numpy(zero_copy_only=False)
    place = np.array([*known.values(), -1])[place]
    new = np.flatnonzero((place < 0) & ~missing)
    unknown.update(f"{spec.name}={value}" for value in (column.take(pa.array(new)).to_pylist() if len(new) else ()))
    return [(place == number).astype(float) for number in range(len(spec.categories))]


def plan(
    source: Source,
    target: str,
    *,
    task: str | None = None,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    missing: str = "error",
    seen: Callable[[int], None] = lambda rows: None,
) -> tuple[Plan, dict[str, Summary], list[str]]:
    """Scan a table and decide what its columns are; returns what was decided, the summaries, and remarks on it."""
    for option, names in (("-y", [target]), ("--drop", drop), ("--categorical", categorical)):
        for name in names:
            if name not in source.names:
                raise UnknownColumn(
                    f"{option} {name!r}: {source.name} has no such column. {_closest(name, source.names)}"
                )
    if target in drop:
        raise UnknownColumn(
            f"--drop {target!r}: that is the target, -y; drop another column, or choose another target."
        )
    if target in categorical:
        raise UnknownColumn(
            f"--categorical {target!r}: that is the target, -y; for classes write --task classification."
        )
    inputs = [name for name in source.names if name != target and name not in drop]
    if not inputs:
        raise TableError(f"{source.name} has no column besides the target {target!r}: there is nothing to learn from.")
    summaries = scan(source, [target, *inputs], seen)
    if max(summary.rows for summary in summaries.values()) < 2:
        raise TableError(f"{source.name} holds 1 row: at least 2 are needed, and 30 or more to judge a model.")
    remarks = list(source.notes)
    chosen, labels = _task(source, target, summaries[target], task, remarks)
    columns, problems = [], []
    for name in inputs:
        column, remark = _decide(source, name, summaries[name], name in categorical, missing)
        if column is not None:
            columns.append(column)
        elif remark:
            remarks.append(f"column {name!r} is left out: {remark}")
    encoded = [f"{column.name!r} ({len(column.categories)})" for column in columns if column.categories is not None]
    if encoded:
        remarks.append(f"taken as categories: {_list(encoded)}")
    if chosen == "classification":
        remarks += _doubts(target, summaries[target], tuple(summaries[target].counts or ()))
    for column in columns:
        remarks += _doubts(column.name, summaries[column.name], column.categories)
    if not columns:
        left_out = "\n".join(f"  {remark}" for remark in remarks if remark.startswith("column "))
        raise TableError(f"{source.name}: no input column is left.\n{left_out}")
    kept = [target, *(column.name for column in columns)]
    problems = [(name, summaries[name]) for name in kept if summaries[name].missing]
    if problems and missing == "error":
        raise TableError(_missing_message(source.name, problems))
    if problems:
        filled = [pair for pair in problems if missing == "fill" and pair[0] != target]  # a target is not made up
        for verb, own in (
            ("rows without a value are dropped", [pair for pair in problems if pair not in filled]),
            ("filled with the mean, or no category", filled),
        ):
            if own:
                found = ", ".join(f"{name!r} {summary.missing}" for name, summary in own)
                remarks.append(f"missing values, {verb}: {found}")
    result = Plan(target, chosen, tuple(columns), labels)
    twice = [name for name, count in Counter(result.names).items() if count > 1]
    if twice:
        raise TableError(f"{source.name}: two columns would be called {twice[0]!r}: rename one of them.")
    return result, summaries, remarks


def _task(source: Source, target: str, summary: Summary, asked: str | None, remarks: list[str]) -> tuple[str, str]:
    """The task and the kind of its labels, from what the target holds."""
    if not summary.present:
        raise TableError(f"{source.name}: column {target!r} holds no values: choose another target with -y.")
    if not summary.usable:
        raise TableError(f"{source.name}: column {target!r} holds neither numbers nor text: choose another target.")
    values = summary.counts
    shown = "more than 1000" if values is None else str(len(values))
    whole = summary.is_number and summary.odd == 0 and summary.whole
    labels = "number" if whole and not summary.padded and _in_range(values) else "text"
    if asked == "regression" or (asked is None and summary.is_number and not (whole and _few(values))):
        if summary.odd:
            raise TableError(_odd_message(source.name, target, summary.odd_values, summary.odd, target=True))
        if values is not None and len(values) < 2:
            raise TableError(
                f"{source.name}: column {target!r} holds the same value in all rows, {_shown(list(values))}: there is "
                "nothing to learn. Choose another target with -y."
            )
        if asked is None:
            remarks.append(f"task: regression ({target!r} holds numbers, {shown} different values)")
        return "regression", "number"
    many = values is None or (asked is None and len(values) > 2 and 2 * len(values) > summary.present)
    if many and _all_match(SIGNED, summary) and not _all_match(DATE, summary):
        odd = summary.odd_values[0][0] if summary.odd_values else summary.texts[0]
        raise TableError(
            f"{source.name}: column {target!r} holds numbers with something else in them ({_shown(odd)}): "
            "write plain numbers, such as 1234.5, or choose another target with -y."
        )
    if values is None:
        raise TableError(
            f"{source.name}: column {target!r} holds more than {MOST_LABELS} different values, too many for classes: "
            "choose another target with -y" + (", or --task regression." if summary.is_number else ".")
        )
    if many:
        raise TableError(
            f"{source.name}: column {target!r} holds {len(values)} different texts in {summary.present} rows, too many "
            "for classes: choose another target with -y, or insist with --task classification."
        )
    if len(values) < 2:
        raise TableError(
            f"{source.name}: column {target!r} holds only one class, {_shown(list(values))}: a classifier needs two. "
            "Give rows of other classes, or choose another target with -y."
        )
    if asked is None:
        other = "; --task regression takes them as numbers" if whole else ""
        remarks.append(f"task: classification ({target!r} holds {len(values)} classes: {_list(sorted(values))}{other})")
    return "classification", labels


def _few(values: Counter[str] | None) -> bool:
    return values is not None and len(values) <= MOST_CLASSES and sum(values.values()) >= 3 * len(values)


def _in_range(values: Counter[str] | None) -> bool:
    return values is not None and all(abs(float(value)) < 2**53 for value in values)


def _decide(source: Source, name: str, summary: Summary, categorical: bool, missing: str) -> tuple[Column | None, str]:
    """A column's part in the machine, or None and why it has none."""
    if not summary.usable:
        return None, "it holds neither numbers nor text (dates, lists?)"
    if not summary.present:
        return None, "it is empty"
    if not name:
        return None, "it has no name (the row numbers of another program?)"
    fills = missing == "fill"
    if summary.is_number and not categorical:
        if summary.odd:
            raise TableError(_odd_message(source.name, name, summary.odd_values, summary.odd))
        if summary.counts is not None and len(summary.counts) == 1:
            return None, "it has the same value in all rows"
        return Column(name, None, summary.total / summary.present if fills else None), ""
    if not categorical and _all_match(DATE, summary):
        return None, (
            f"it holds dates ({_shown(summary.texts[0])}); numbers are of use, e.g. the year, or days since the first"
        )
    size = math.inf if summary.counts is None else len(summary.counts)
    alike = size > ALIKE_CATEGORIES and 2 * size > summary.present
    if size == math.inf or ((alike or size > MOST_CATEGORIES) and not categorical):
        shown = "more than 1000" if size == math.inf else str(size)
        if summary.odd < summary.present:
            example = _shown(summary.odd_values[0][0])
            return None, (
                f"{summary.odd} of {summary.present} values are no numbers, such as {example}; write plain numbers, "
                "such as -1234.5"
            )
        if _all_match(SIGNED, summary):
            return (
                None,
                f"{shown} different texts such as {_shown(summary.texts[0])}; write plain numbers, such as 1234.5",
            )
        encode = f"--categorical {shlex.quote(name)} encodes up to {MOST_LABELS}"
        return None, f"{shown} different texts such as {_shown(summary.texts[0])} ({encode})"
    assert summary.counts is not None
    categories = _categories(summary.counts)
    if len(categories) == 1:
        return None, "it has the same value in all rows"
    return Column(name, categories, 0.0 if fills else None), ""


def _all_match(pattern: re.Pattern[str], summary: Summary) -> bool:
    """Whether a column of text looks like something else."""
    return bool(summary.texts) and all(pattern.fullmatch(text) for text in summary.texts)


def _doubts(name: str, summary: Summary, texts: Sequence[str] | None) -> Iterator[str]:
    """What is used, but may not be meant so, of numbers (None) or of some texts."""
    if texts is None:
        if summary.whole and summary.counting and summary.rows > 2:
            yield (
                f"column {name!r} counts the rows: leave it out with --drop {shlex.quote(name)}, unless their order "
                "matters"
            )
        if summary.padded:
            option = shlex.quote(name)
            yield (
                f"column {name!r} is taken as numbers, but some have zeros before them ({_shown(summary.padded)}): if "
                f"they are codes, write --categorical {option} or --drop {option}"
            )
        return
    groups: dict[str, list[str]] = {}
    for text in texts:
        groups.setdefault(" ".join(text.casefold().split()), []).append(text)
    for group in groups.values():
        if len(group) > 1:
            yield f"column {name!r} holds {' and '.join(map(_shown, sorted(group)))}: are they the same?"


# Messages -------------------------------------------------------------------------------------------------------------
def _odd_message(
    source: str, name: str, values: Sequence[tuple[str, int]], count: int = 0, target: bool = False
) -> str:
    where = _odd_words(source, name, values, count)
    if target:
        return f"{where}: correct it, take the column as classes with --task classification, or choose another target."
    quoted = shlex.quote(name)
    return (
        f"{where}: correct it, leave the cell empty if it stands for nothing, take the column as categories with "
        f"--categorical {quoted}, or --drop {quoted}."
    )


def _odd_words(source: str, name: str, values: Sequence[tuple[str, int]], count: int = 0) -> str:
    found = ", ".join(f"{_shown(value)} in row {row}" for value, row in values)
    many = f"{count} values that are" if count > 1 else "a value that is"
    return f"{source}: column {name!r} holds {many} no number ({found})"


def _missing_message(source: str, problems: Sequence[tuple[str, Summary]]) -> str:
    lines = [
        f"  {_plain(name)}: {found.missing} missing, the first in row {found.first_missing}" for name, found in problems
    ]
    remedy = (
        "Fill them in; or --missing drop (leaves out the rows), --missing fill (numbers become the column's mean, "
        "texts no category), or --drop COLUMN."
    )
    return f"{source}: values are missing.\n" + "\n".join(lines) + f"\n{remedy}"


def _closest(name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, names, 1, 0.6) or [
        other for other in names if other.lower() == name.strip().lower()
    ]
    hint = f"Did you mean {near[0]!r}? " if near else ""
    data = " These look like data: if the first line holds no names, write --no-header."
    return f"{hint}Its columns: {_list(names)}." + (data if any(map(_is_number, names)) else "")


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(_plain, names[:12])) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def _plain(name: str) -> str:
    """A name on one line: quoted and escaped where it holds line breaks or control characters."""
    return name if name.isprintable() else repr(name)


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else ", ".join(map(str, value))
    return repr(text if len(text) <= 40 else text[:39] + "…")
