"""Tables from files: long headers, pipes, encodings."""

import csv
import os
import subprocess
import sys
import threading

import pytest

from lssvm import cli, load
from lssvm.cli.reading import TableError, open_table

pytest.importorskip("pyarrow")


def list_of(cells):
    return cells.to_pylist()


def read(source):
    """All rows of a table as lists of texts."""
    return [list(row) for batch in source.batches() for row in zip(*map(list_of, batch.columns.values()), strict=True)]


# Headers --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("delimiter", "line_break"), [(",", "\n"), (";", "")])
def test_header_of_any_length_is_read_whole(tmp_path, delimiter, line_break):
    """Names of 300 kB, with and without line breaks in them: none is cut."""
    names = [f"measurement{line_break} number {i:06d}" for i in range(12_000)]
    rows = [[str((i * j) % 97) for j in range(12_000)] for i in range(1, 3)]
    with open(tmp_path / "wide.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=delimiter, lineterminator="\n").writerows([names, *rows])
    source = open_table(str(tmp_path / "wide.csv"))
    assert source.names == tuple(names)
    assert read(source) == rows
    assert source.first_row == 2 + 12_000 * len(line_break)


def test_one_name_longer_than_the_sample(tmp_path):
    name = "n" * 200_000  # longer than the csv module takes by default
    (tmp_path / "long.csv").write_text(f"{name},{name}2\n1,2\n")
    source = open_table(str(tmp_path / "long.csv"))
    assert source.names == (name, f"{name}2")


def test_rows_below_a_long_header_show_the_decimal_comma(tmp_path):
    names = [f"measurement number {i:06d}" for i in range(4_000)]
    (tmp_path / "wide.csv").write_text(";".join(names) + "\n" + ";".join(["1,5"] * 4_000) + "\n")
    assert open_table(str(tmp_path / "wide.csv")).decimal == ","


@pytest.mark.parametrize(
    ("cells", "decimal"),
    [
        ("1,5;1.234", ","),
        ("1,5;0.5", "."),
        ("1.234;567", "."),
        ("1.234,50 EUR;7", ","),
        ("10.11.12.13;192.168.100.200", "."),
    ],
)
def test_the_decimal_mark_is_that_of_cells_with_one_meaning(tmp_path, cells, decimal):
    """A file with 1,5 has a decimal comma, also if it contains 1.234."""
    (tmp_path / "marks.csv").write_text(f"a;b\n{cells}\n7;8\n")
    assert open_table(str(tmp_path / "marks.csv")).decimal == decimal


def test_quotation_mark_that_is_not_closed_is_named(tmp_path):
    (tmp_path / "open.csv").write_text('x,"y\n' + "1,2\n" * 500_000)
    with pytest.raises(TableError, match="look for an unclosed quotation mark"):
        open_table(str(tmp_path / "open.csv"))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "latin-1"])
def test_files_longer_than_the_sample_in_any_encoding(tmp_path, encoding):
    rows = [["Köln", str(i)] for i in range(20_000)]
    with open(tmp_path / "long.csv", "w", encoding=encoding, newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([["Straße", "x"], *rows])
    source = open_table(str(tmp_path / "long.csv"), encoding=encoding if encoding == "latin-1" else None)
    assert source.names == ("Straße", "x")
    assert read(source) == rows


# Pipes ----------------------------------------------------------------------------------------------------------------
ROWS = [[str(i), str(i % 7), str(i / 3)] for i in range(50)]
TEXT = "".join(",".join(row) + "\n" for row in [["a", "b", "y"], *ROWS]).encode()


def parquet_bytes():
    from pyarrow import BufferOutputStream, parquet, table

    stream = BufferOutputStream()
    parquet.write_table(table(dict(zip("aby", map(list, zip(*ROWS, strict=True)), strict=True))), stream)
    return stream.getvalue().to_pybytes()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes")
@pytest.mark.parametrize("content", [lambda: TEXT, parquet_bytes], ids=["csv", "parquet"])
def test_a_named_pipe_is_read_again_and_again(tmp_path, content):
    path = tmp_path / "pipe.csv"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(content(),), daemon=True)
    writer.start()
    source = open_table(str(path))
    writer.join(10)
    assert source.name == str(path)
    assert read(source) == ROWS
    assert read(source) == ROWS


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="process substitution")
@pytest.mark.parametrize("path", ["/dev/fd/{}", "/dev/stdin"])
def test_fit_from_a_pipe_that_has_a_path(tmp_path, path):
    """What a shell passes for <(command)."""
    reader, writer = os.pipe()
    os.write(writer, TEXT)
    os.close(writer)
    command = [sys.executable, "-m", "lssvm", "fit", path.format(reader), "-y", "y", "-o", str(tmp_path / "m.lssvm")]
    with os.fdopen(reader, "rb") as stream:
        result = subprocess.run(
            command, stdin=stream, pass_fds=[reader], capture_output=True, text=True, timeout=60, check=False
        )
    assert result.returncode == 0, result.stderr
    assert load(tmp_path / "m.lssvm").loo_residuals_.shape == (50,)
    assert f"source              {os.path.basename(path.format(reader))}\n" in result.stdout


@pytest.mark.slow
def test_the_copy_of_a_pipe_is_removed(tmp_path):
    script = "import sys; from lssvm.cli.reading import open_table; print(len(list(open_table('-').batches())))"
    result = subprocess.run(
        [sys.executable, "-c", script],
        input=TEXT,
        capture_output=True,
        check=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert result.stdout == b"1\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="terminals")
def test_a_terminal_is_not_a_table():
    import pty

    master, slave = pty.openpty()
    try:
        with pytest.raises(TableError, match="is a terminal: give a file"):
            open_table(os.ttyname(slave))
    finally:
        os.close(master)
        os.close(slave)


# Lines ----------------------------------------------------------------------------------------------------------------
def test_a_line_with_another_number_of_cells_is_named(tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n" + "1,2\n" * 1200 + "\n1,2,3\n")
    source = open_table(str(tmp_path / "t.csv"))
    with pytest.raises(TableError, match=r"row 1202 has a different number of cells \(3\) than the header \(2\)"):
        list(source.batches())


@pytest.mark.parametrize("start", ["", "\n", "\r\n\n", "sep=,\n", "sep=,\n\n"])
@pytest.mark.parametrize("header", [True, False])
def test_rows_keep_their_numbers_below_other_lines(tmp_path, start, header):
    text = start + 'x,"y\nz"\n' * header + "1,2\n3,4\n1,2,3\n"
    (tmp_path / "t.csv").write_text(text, newline="")
    source = open_table(str(tmp_path / "t.csv"), header=header)
    line = len(text.splitlines())
    assert source.first_row == line - 2
    with pytest.raises(TableError, match=f"row {line} has a different number of cells"):
        list(source.batches())


@pytest.mark.parametrize("size", [1, 7, 600])
def test_batches_are_the_rows_in_order(tmp_path, size):
    rows = [[str(i), f"name {i}"] for i in range(1500)]
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{x}, {y} \n" for x, y in rows))
    batches = list(open_table(str(tmp_path / "t.csv")).batches(["y", "x"], size))
    assert [batch.start for batch in batches] == list(range(0, 1500, size))
    assert [batch.number(0) for batch in batches[:2]] == [2, 2 + size]
    assert [cell for batch in batches for cell in batch.columns["y"].to_pylist()] == [y for _, y in rows]


def test_a_cell_longer_than_the_limit_is_an_unclosed_quotation_mark(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_text("x,y\n" + "1,2\n" * 100 + '"1,2\n' + "1,2\n" * 500_000)
    monkeypatch.setattr(cli.reading, "BLOCK_BYTES", 1 << 18)
    source = open_table(str(tmp_path / "t.csv"))
    with pytest.raises(TableError, match="look for an unclosed quotation mark"):
        list(source.batches())
