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
from dataclasses import dataclass
from itertools import chain, islice, tee
from pathlib import Path
from typing import Any, BinaryIO

from ..tables import is_number

DELIMITERS = ",;\t|"
HINT = " The first line looks like data ({}): if it contains no column names, use --no-header."
ONE_COLUMN = (
    " Only one column was found, {}: if there are more, give the --delimiter; if there are lines above the column "
    "names, remove them."
)
STATED_DELIMITER = re.compile(r'"?sep=(.)"?\r?\n', re.IGNORECASE)
BATCH_CELLS = 1 << 18  # cells that are read together, at most, unless 16 rows have more
SLICE_ROWS = 500  # rows of a text file that are parsed together: more lists would start garbage collections
SAMPLE_LIMIT = 1 << 26  # characters from which the format is inferred, at most; also the longest cell
SAMPLE_ROWS = 50  # rows from which the format is inferred, at most
DELIMITED_ROWS = 20  # rows from which the delimiter is inferred


class TableError(ValueError):
    """A table that cannot be used as it is; the message explains what to do."""


class UnknownColumn(TableError):
    """A column named by an option that does not exist or cannot be used for that option."""


def need_pyarrow() -> None:
    """Raise TableError with the name of the extra if pyarrow is not installed."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise TableError('Reading files requires pyarrow: pip install "lssvm[files]"') from error


@dataclass(frozen=True)
class Batch:
    """Some rows of a table.

    A column is an array of floats, NaN for missing cells, or a list of texts without blanks around them, None for
    missing cells; it is None if its cells are of another type.
    """

    source: Source
    start: int  # the number of rows before these
    rows: int
    columns: dict[str, Any]

    def number(self, place: int) -> int:
        """The number of a row in messages, from its position in the batch."""
        return self.source.first_row + self.start + place


@dataclass(frozen=True)
class Source:
    """A table that can be read repeatedly, in batches."""

    name: str
    names: tuple[str, ...]
    first_row: int  # the number of the first row: 2 below a header line, 0 in Parquet
    read: Callable[[Sequence[str], int], Iterator[tuple[int, dict[str, Any]]]]  # names, rows -> batches
    notes: tuple[str, ...] = ()  # what was inferred
    decimal: str = "."
    hint: str = ""  # if the first line looks like data, or if there is only one column

    def batches(self, names: Sequence[str] | None = None, rows: int = BATCH_CELLS) -> Iterator[Batch]:
        """Batches of at most so many rows of some columns, from the start; reader errors become TableErrors."""
        start = 0
        with _explained_errors(self.name):
            for count, columns in self.read(self.names if names is None else names, rows):
                yield Batch(self, start, count, columns)
                start += count


@contextmanager
def _explained_errors(name: str) -> Iterator[None]:
    """Turn errors of the reading libraries into TableErrors."""
    import pyarrow

    try:
        yield
    except PermissionError:
        raise
    except UnicodeDecodeError as error:
        if b"\0" in error.object:
            raise TableError(f"{name} is not text: give CSV, TSV or Parquet.") from None
        raise TableError(f"{name} is not {error.encoding}: give its encoding, e.g. --encoding latin-1.") from None
    except csv.Error as error:
        raise TableError(f"{name}: {error}\nlook for an unclosed quotation mark.") from error
    except (pyarrow.ArrowInvalid, OSError, UnicodeError) as error:
        raise TableError(f"{name}: {error}\ndoes the file have the format that its name suggests?") from error


def open_table(
    path: str,
    *,
    delimiter: str | None = None,
    header: bool | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
) -> Source:
    """Infer the format of a file. "-" is standard input.

    Standard input, pipes and devices can be read only once: they are copied to a file that is removed at exit.
    With ``header=None``, the first line contains names, and a first line of numbers is an error.
    """
    need_pyarrow()
    file = Path(path)
    if path == "-" and sys.stdin is None:
        raise TableError("Standard input is closed: give a file, or pipe one in, e.g. lssvm fit - < data.csv")
    if path != "-" and not file.exists():
        near = difflib.get_close_matches(file.name, os.listdir(file.parent) if file.parent.is_dir() else [], 1)
        hint = f"Did you mean {str(file.parent / near[0])!r}?" if near else "Check its name and folder."
        raise TableError(f"There is no file {path!r}. {hint}")
    name = "standard input" if path == "-" else path
    if path == "-":
        file = _copy(sys.stdin.buffer, name)
    elif not file.is_dir() and not file.is_file():
        with open(path, "rb") as stream:
            file = _copy(stream, name)
    if file.is_dir() or file.suffix.lower() in (".parquet", ".pq") or _is_parquet(str(file)):
        return _open_parquet(file, name)
    if file.suffix.lower() in (".xlsx", ".xls", ".ods"):
        raise TableError(f"{path!r} is a spreadsheet: save it as CSV (UTF-8) first.")
    return _open_text(str(file), name, delimiter, header, encoding, decimal)


def _is_parquet(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == b"PAR1"


def _copy(stream: BinaryIO, name: str) -> Path:
    """A copy of a stream, because a fit reads the rows several times; it is removed at exit."""
    import atexit
    import shutil
    import tempfile

    if stream.isatty():
        raise TableError(f"{name} is a terminal: give a file, or pipe one in, e.g. lssvm fit - < data.csv")
    with tempfile.NamedTemporaryFile(prefix="lssvm-", suffix=".csv", delete=False) as file:
        atexit.register(lambda: Path(file.name).unlink(missing_ok=True))
        shutil.copyfileobj(stream, file)
    return Path(file.name)


def parts_of(path: Path) -> list[Path]:
    """The files of a table: the path itself or, for a folder, the Parquet files in it."""
    if not path.is_dir():
        return [path]
    return [file for file in path.rglob("*") if file.suffix.lower() in (".parquet", ".pq")]


def _open_parquet(file: Path, name: str) -> Source:
    import pyarrow.dataset

    files = sorted(map(str, parts_of(file))) if file.is_dir() else []
    if file.is_dir() and not files:
        raise TableError(f"The folder '{file}' contains no Parquet files (*.parquet): give a file or another folder.")
    parts = {"partitioning": "hive", "partition_base_dir": str(file)} if files else {}
    with _explained_errors(name):
        data = pyarrow.dataset.dataset(files or file, format="parquet", **parts)
    names = tuple(data.schema.names)
    _check_names(names, name)

    def read(wanted: Sequence[str], rows: int) -> Iterator[tuple[int, dict[str, Any]]]:
        size = _batch_size(len(wanted), rows)
        for batch in data.to_batches(columns=list(wanted), batch_size=size):
            if batch.num_rows:
                yield batch.num_rows, dict(zip(wanted, map(_cells, batch.columns), strict=True))

    return Source(name, names, 0, read)


def _cells(column: Any) -> Any:
    """A column of Parquet as `Batch` describes it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    kind = column.type
    if pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)  # null becomes NaN
    if pa.types.is_boolean(kind):
        return [None if cell is None else str(cell).lower() for cell in column.to_pylist()]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return [None if cell is None else cell.strip() for cell in column.to_pylist()]
    return None


def _batch_size(columns: int, rows: int) -> int:
    return min(rows, max(16, BATCH_CELLS // columns))


def _open_text(
    path: str, name: str, delimiter: str | None, header: bool | None, encoding: str | None, decimal: str | None
) -> Source:
    encoding = _encoding(path, encoding)
    with _explained_errors(name):
        found, is_guessed, first_row, head = _head(path, name, delimiter, encoding, header=header is not False)
    first = head[0]
    notes = [f"columns are separated by {_spell(found)}"] if is_guessed and found != "," else []
    if header is None and len(head) > 1 and all(map(_looks_numeric, first)):
        raise TableError(
            f"{name}: the first line looks like data, not like column names ({', '.join(first[:4])} ...). Use "
            "--no-header (the columns are then column1, column2, ...), add a line of names at the top, or, if these "
            "are names, use --header."
        )
    data = _data_cells(head) if header is None else []
    hint = HINT.format(quoted(data[0])) if data else ""
    header = header is not False
    names = tuple(cell.strip() for cell in first) if header else tuple(f"column{c + 1}" for c in range(len(first)))
    _check_names(names, name, hint)
    notes += [hint.strip()] if hint else []
    hint += ONE_COLUMN.format(quoted(first)) if len(names) == 1 else ""
    if decimal is None and found != "," and _decimal_comma(head):
        decimal = ","
        notes.append("numbers are written with a decimal comma")
    places = {column: place for place, column in enumerate(names)}

    def read(wanted: Sequence[str], rows: int) -> Iterator[tuple[int, dict[str, Any]]]:
        size, done = _batch_size(len(names), rows), 0
        with _opened(path, encoding) as (text, _):
            reader = csv.reader(text, delimiter=found)
            if header:
                _records(reader, 1)
            while True:
                columns: dict[str, list[str]] = {column: [] for column in wanted}
                count = 0
                while count < size and (lines := _records(reader, min(SLICE_ROWS, size - count))):
                    odd = next((place for place, line in enumerate(lines) if len(line) != len(names)), None)
                    if odd is not None:
                        raise TableError(
                            f"{name}: row {first_row + done + count + odd} has a different number of cells "
                            f"({len(lines[odd])}) than the header ({len(names)}): correct it, or give --delimiter."
                        )
                    cells = list(zip(*lines, strict=True))
                    for column, found_cells in columns.items():
                        found_cells += map(str.strip, cells[places[column]])
                    count += len(lines)
                if not count:
                    return
                yield count, columns
                done += count

    return Source(name, names, first_row, read, tuple(notes), decimal or ".", hint)


def _encoding(path: str, encoding: str | None) -> str:
    import pyarrow

    if encoding is None:
        with pyarrow.input_stream(path, compression="detect") as stream:
            encoding = "utf-16" if stream.read(2) in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    try:
        return "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding  # without a byte order mark
    except LookupError:
        raise TableError(f"--encoding {encoding!r} is unknown: try utf-8, latin-1 or cp1252.") from None


@contextmanager
def _opened(path: str, encoding: str) -> Iterator[tuple[Iterator[str], str]]:
    """The lines of a text file, and the delimiter that a line above them states, as Excel writes it, or ""."""
    import pyarrow

    with (
        pyarrow.input_stream(path, compression="detect") as stream,
        io.TextIOWrapper(stream, encoding, newline="") as file,
    ):
        first = file.readline()
        stated = STATED_DELIMITER.fullmatch(first)
        yield (iter(file), stated[1]) if stated else (chain([first], file), "")


def _records(reader: Iterator[list[str]], count: int) -> list[list[str]]:
    """The next records that are not empty lines; cells may be as long as the limit of this module."""
    limit = csv.field_size_limit(SAMPLE_LIMIT)
    try:
        return list(islice(filter(None, reader), count))
    finally:
        csv.field_size_limit(limit)


def _head(
    path: str, name: str, delimiter: str | None, encoding: str, *, header: bool
) -> tuple[str, bool, int, list[list[str]]]:
    """The delimiter, whether it was inferred, the number of the first row, and the first records."""
    with _opened(path, encoding) as (text, stated):
        lines, sample = tee(_first_lines(text, name))
        found = (delimiter or stated or _sniff(sample)).replace("\\t", "\t")
        if len(found) != 1:
            raise TableError(f"--delimiter must be one character, got {delimiter!r}; write \\t for a tab.")
        reader = csv.reader(lines, delimiter=found)
        names = _records(reader, 1)
        above = bool(stated) + header * reader.line_num  # names may contain line breaks, and empty lines precede them
        head = names + _records(reader, SAMPLE_ROWS - 1)
        if len(head) < 2 and next(text, ""):
            raise TableError(
                f"{name}: the column names and the first row take more than {SAMPLE_LIMIT >> 20} MiB: look for an "
                "unclosed quotation mark."
            )
    if not any(cell.strip() for record in head for cell in record):
        raise TableError(f"{name} is empty: give a file with a line of column names and rows below it.")
    return found, not (delimiter or stated), 1 + above, head


def _first_lines(lines: Iterator[str], name: str) -> Iterator[str]:
    """The lines, up to a limit: a quotation mark that is not closed would make the rest of the file one cell."""
    left = SAMPLE_LIMIT
    for line in lines:
        left -= len(line)
        if "\0" in line:
            raise TableError(f"{name} is not text: give CSV, TSV or Parquet.")
        if left < 0:
            return
        yield line


def _sniff(lines: Iterator[str]) -> str:
    """The delimiter that splits the first lines into equal numbers of cells, as many as possible."""
    start, *copies = tee(lines, 1 + len(DELIMITERS))
    cells = {}
    for delimiter, copy in zip(DELIMITERS, copies, strict=True):
        widths = set(map(len, _records(csv.reader(copy, delimiter=delimiter), DELIMITED_ROWS)))
        cells[delimiter] = widths.pop() if len(widths) == 1 else 0
    best = max(DELIMITERS[1:], key=lambda delimiter: cells[delimiter])
    if cells[best] > 1 and cells[best] >= cells[","] - 1:  # one comma per cell is a decimal comma
        return best
    if cells[","] > 1:
        return ","
    names = next((line for line in start if line.strip("\r\n")), "")
    if not any(delimiter in names for delimiter in DELIMITERS):  # one column, perhaps with decimal commas
        return next((delimiter for delimiter in DELIMITERS if cells[delimiter] == 1), ",")
    return max(DELIMITERS, key=names.count)  # unequal lines: the reader reports the first


def _decimal_comma(head: Sequence[Sequence[str]]) -> bool:
    cells = {cell.strip() for line in head[1:] for cell in line}
    return any("," in cell and is_number(cell, ",") for cell in cells) and not any(
        "." in cell and is_number(cell) for cell in cells
    )


def _looks_numeric(text: str) -> bool:
    return is_number(text) or is_number(text, ",")


def _spell(delimiter: str) -> str:
    return {"\t": "tabs", ";": "semicolons", "|": "bars"}.get(delimiter, repr(delimiter))


def _data_cells(head: Sequence[Sequence[str]]) -> list[str]:
    """The cells of the first line that look like data: numbers, and texts that occur again below."""
    below = [set(column) for column in zip(*head[1:], strict=False)]
    pairs = zip(head[0], below, strict=False)
    return [cell for cell, others in pairs if cell and (_looks_numeric(cell) or cell in others)]


def _check_names(names: Sequence[str], source: str, hint: str = "") -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if "" in twice:
        raise TableError(
            f"{source}: {list(names).count('')} columns have no name: give them names or, if they are empty, remove "
            f"the delimiters at the ends of the lines.{hint}"
        )
    if twice:
        raise TableError(f"{source}: the column name {twice[0]!r} is duplicated: give each column a unique name.{hint}")


def plain_name(name: str) -> str:
    """A name on one line: quoted and escaped if it contains line breaks or control characters, cut if it is long."""
    text = name if name.isprintable() else repr(name)
    return text if len(text) <= 80 else text[:79] + "…"


def quoted(value: Any) -> str:
    text = value if isinstance(value, str) else ", ".join(map(str, value))
    return repr(text if len(text) <= 40 else text[:39] + "…")
