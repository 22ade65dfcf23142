"""Tables that can be read repeatedly: CSV, TSV, Parquet, folders of Parquet files, and standard input."""

from __future__ import annotations

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
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

DELIMITERS = ",;\t|"
HINT = " The first line looks like data ({}): if it contains no column names, use --no-header."
ONE_COLUMN = (
    " Only one column was found, {}: if there are more, give the --delimiter; if there are lines above the column "
    "names, remove them."
)
STATED_DELIMITER = re.compile(r'"?sep=(.)"?\r?\n', re.IGNORECASE)
BLOCK_BYTES = 1 << 23
SAMPLE_SIZE = 1 << 16  # characters from which the format is inferred; more if they contain too few rows
SAMPLE_LIMIT = 1 << 26  # the maximum
SAMPLE_ROWS = 20  # rows from which the delimiter is inferred


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
class Source:
    """A table that can be read repeatedly, in batches."""

    name: str
    names: tuple[str, ...]
    first_row: int  # the number of the first row: 2 below a header line, 0 in Parquet
    start: Callable[[], Iterator[pa.RecordBatch]]
    notes: tuple[str, ...] = ()  # what was inferred
    decimal: str = "."
    hint: str = ""  # if the first line looks like data, or if there is only one column

    def batches(self, rows: int = 1 << 30) -> Iterator[pa.RecordBatch]:
        """The batches, from the start, of at most so many rows; reader errors become TableErrors."""
        import pyarrow

        try:
            for batch in self.start():
                for first in range(0, batch.num_rows, rows):
                    yield batch.slice(first, rows)
        except pyarrow.ArrowInvalid as error:
            text = str(error)
            if "UTF8" in text:
                remedy = "the file is not UTF-8: give its encoding, e.g. --encoding latin-1."
            elif "Expected" in text and "columns" in text:
                remedy = "a line has a different number of cells than the header: correct it, or give --delimiter."
            else:
                remedy = "does the file have the format that its name suggests?"
            raise TableError(f"{self.name}: {text}\n{remedy}") from error
        except (OSError, UnicodeError) as error:
            remedy = "if this is text, give its encoding, e.g. --encoding latin-1."
            raise TableError(f"{self.name}: {error}\n{remedy}") from error


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
    open_text = partial(_open_text, delimiter=delimiter, header=header, encoding=encoding, decimal=decimal)
    if path == "-":
        if sys.stdin is None:
            raise TableError("Standard input is closed: give a file, or pipe one in, e.g. lssvm fit - < data.csv")
        return _open_stream(sys.stdin.buffer, "standard input", open_text)
    file = Path(path)
    if not file.exists():
        near = difflib.get_close_matches(file.name, os.listdir(file.parent) if file.parent.is_dir() else [], 1)
        hint = f"Did you mean {str(file.parent / near[0])!r}?" if near else "Check its name and folder."
        raise TableError(f"There is no file {path!r}. {hint}")
    if not file.is_dir() and not file.is_file():
        with open(path, "rb") as stream:
            return _open_stream(stream, path, open_text)
    if file.is_dir() or file.suffix.lower() in (".parquet", ".pq") or _is_parquet(path):
        return _open_parquet(file)
    if file.suffix.lower() in (".xlsx", ".xls", ".ods"):
        raise TableError(f"{path!r} is a spreadsheet: save it as CSV (UTF-8) first.")
    return open_text(path, path)


def _is_parquet(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == b"PAR1"


def _open_stream(stream: BinaryIO, name: str, open_text: Callable[[str, str], Source]) -> Source:
    """A copy of a stream as a table, because a fit reads the rows several times."""
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
    return open_text(file.name, name)


def parts_of(path: Path) -> list[Path]:
    """The files of a table: the path itself or, for a folder, the Parquet files in it."""
    if not path.is_dir():
        return [path]
    return [file for file in path.rglob("*") if file.suffix.lower() in (".parquet", ".pq")]


def _open_parquet(file: Path) -> Source:
    import pyarrow
    import pyarrow.dataset

    files = sorted(map(str, parts_of(file))) if file.is_dir() else []
    if file.is_dir() and not files:
        raise TableError(f"The folder '{file}' contains no Parquet files (*.parquet): give a file or another folder.")
    try:
        if files:
            parts = {"partitioning": "hive", "partition_base_dir": str(file)}
            data = pyarrow.dataset.dataset(files, format="parquet", **parts)
        else:
            data = pyarrow.dataset.dataset(file, format="parquet")
    except pyarrow.ArrowInvalid as error:
        raise TableError(f"'{file}' cannot be read as Parquet: {error}\nIs it a complete Parquet file?") from error
    names = tuple(data.schema.names)
    _check_names(names, str(file))
    return Source(str(file), names, 0, data.to_batches)


def _open_text(
    path: str, name: str, *, delimiter: str | None, header: bool | None, encoding: str | None, decimal: str | None
) -> Source:
    import pyarrow
    import pyarrow.csv

    encoding, found, guessed, above, names_end, lines = _layout(path, name, delimiter, encoding)
    first = lines[0]
    notes = []
    if guessed and found != ",":
        notes.append(f"columns are separated by {_spell(found)}")
    if header is None and len(lines) > 1 and first and all(looks_numeric(cell) for cell in first):
        raise TableError(
            f"{name}: the first line looks like data, not like column names ({', '.join(first[:4])} ...). Use "
            "--no-header (the columns are then column1, column2, ...), add a line of names at the top, or, if these "
            "are names, use --header."
        )
    data = _data_cells(lines) if header is None else []
    hint = HINT.format(quoted(data[0])) if data else ""
    header = header is not False
    names = tuple(cell.strip() for cell in first) if header else tuple(f"column{c + 1}" for c in range(len(first)))
    _check_names(names, name, hint)
    notes += [hint.strip()] if hint else []
    hint += ONE_COLUMN.format(quoted(first)) if len(names) == 1 else ""
    if decimal is None and found != "," and _decimal_comma(lines):
        decimal = ","
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

    return Source(name, names, 1 + (names_end if header else above), start, tuple(notes), decimal or ".", hint)


class _Layout(NamedTuple):
    """The format of a text file."""

    encoding: str
    delimiter: str
    guessed: bool  # whether the delimiter was inferred
    above: int  # lines above the column names that are not part of the table
    names_end: int  # lines up to the end of the column names
    lines: list[list[str]]  # the first records


def _layout(path: str, name: str, delimiter: str | None, encoding: str | None) -> _Layout:
    """The layout of a text file, from a sample that contains the column names and, if possible, some rows."""
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
            f"{name}: the column names and the first row take more than {size >> 20} MiB: look for an unclosed "
            "quotation mark."
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
    names_end = above + reader.line_num  # names may contain line breaks, and empty lines may precede them
    return _Layout(encoding, found, delimiter is None, above, names_end, [first, *reader])


@contextmanager
def _long_cells() -> Iterator[None]:
    """Let the csv module read cells of any length: with a wrong delimiter, a whole line is one cell."""
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
    """The delimiter that splits the first lines into equal numbers of cells, as many as possible."""

    def cells(delimiter: str) -> int:
        records = islice(csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter), SAMPLE_ROWS)
        rows = [len(row) for row in records if row]
        return rows[0] if rows and min(rows) == max(rows) else 0

    best = max(DELIMITERS[1:], key=cells)
    if cells(best) > 1 and cells(best) >= cells(",") - 1:  # one comma per cell is a decimal comma
        return best
    if cells(",") > 1:
        return ","
    names = sample.lstrip("\r\n").split("\n", 1)[0]
    if not any(delimiter in names for delimiter in DELIMITERS):  # one column, perhaps with decimal commas
        return next((delimiter for delimiter in DELIMITERS if cells(delimiter) == 1), ",")
    return max(DELIMITERS, key=names.count)  # unequal lines: the reader reports the first


def _decimal_comma(lines: Sequence[Sequence[str]]) -> bool:
    cells = [cell.strip() for line in lines[1:50] for cell in line]
    comma = sum(looks_numeric(cell) and "," in cell for cell in cells)
    return comma > 0 and not any("." in cell and looks_numeric(cell) for cell in cells)


def looks_numeric(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return bool(text.strip().lower() not in ("nan", "inf", "-inf", "infinity"))


def _spell(delimiter: str) -> str:
    return {"\t": "tabs", ";": "semicolons", "|": "bars"}.get(delimiter, repr(delimiter))


def _data_cells(lines: Sequence[Sequence[str]]) -> list[str]:
    """The cells of the first line that look like data: numbers, and texts that occur again below."""
    below = [set(column) for column in zip(*lines[1:], strict=False)]
    pairs = zip(lines[0], below, strict=False)
    return [cell for cell, others in pairs if cell and (looks_numeric(cell) or cell in others)]


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
