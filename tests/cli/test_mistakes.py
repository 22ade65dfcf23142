"""Mistakes in tables and commands, and the messages about them."""

import os
import re
import sys

import numpy as np
import pytest
from cli_cases import AGE, PRICE, ROWS, lines

from lssvm import load

FIT = ("fit", "table.csv", "-y", "y", "-o", "m.lssvm")


@pytest.mark.parametrize(
    ("content", "arguments", "code", "message"),
    [
        ("x,y\n1,2\n", ("fit", "tabel.csv", *FIT[2:]), 1, r"no file 'tabel.csv'. Did you mean 'table.csv'"),
        ("x,Y\n1,2\n", FIT, 2, r"-y 'y': table.csv has no such column. Did you mean 'Y'\? Its columns: x, Y"),
        ("x,y\n1,2\n", (*FIT, "--drop", "z"), 2, r"--drop 'z'"),
        ("5.1,3.5\n4.9,3.0\n", FIT, 1, "--no-header"),
        (
            "5.1,setosa\n4.9,setosa\n",
            FIT,
            2,
            r"setosa. The first line looks like data \('5.1'\).*--no-header",
        ),
        ("red,big\nblue,small\nred,small\n", FIT, 2, r"The first line looks like data \('red'\).*--no-header"),
        ("b,30.83,0,0,+\na,58.67,4.46,0,-\n", FIT, 1, "'0' is duplicated.*The first line looks like data.*--no-header"),
        ("b,,,+\nb,2,3,-\n", FIT, 1, "2 columns have no name.*The first line looks like data.*--no-header"),
        ("5,1;3,5\n4,9;3,0\n", FIT, 1, "the first line looks like data.*--no-header"),
        ("x y\n1 2\n", FIT, 2, "-y 'y': .*Its columns: x y. Only one column was found, 'x y'.*--delimiter"),
        ("made by us\nx,y\n1,2\n", FIT, 2, "-y 'y': .*Only one column was found, 'made by us'.*lines above"),
        (
            "y\n1\n2\n",
            FIT,
            1,
            "no input column remains besides the target 'y': add columns.*Only one column.*--delimiter",
        ),
        (f"{'n' * 9_000}\n1\n", FIT, 2, "-y 'y': .*Its columns: n{79}…. Only one column was found, 'n{39}…'"),
        ("x,y,,\n1,2,,\n", FIT, 1, "2 columns have no name.*at the ends of the lines"),
        ("x,y\n1,2.5\n2,2.5\n", FIT, 1, "'y' has the same value in all rows, '2.5'"),
        ("x,y\n1,2\n3,4,5\n", FIT, 1, "a different number of cells"),
        ("x,x,y\n1,2,3\n", FIT, 1, "'x' is duplicated"),
        ("", FIT, 1, "is empty: give a file with"),
        ("x,y\n", FIT, 1, "no rows below its header"),
        (
            "x,y\n" + "1,2.5\n" * 9 + "abc,1.5\n",
            FIT,
            1,
            r"'x' contains a value that is not a finite number \('abc' in row 11\).*--categorical x",
        ),
        ("x,y\n" + "1,2.5\n" * 9 + "2,1.5 EUR\n", FIT, 1, r"'1.5 EUR' in row 11.*--task classification"),
        ("x,y\n" + "1,2.5\n" * 9 + "1e999,1.5\n", FIT, 1, r"'x' .* is not a finite number \('1e999' in row 11\)"),
        ("x,y\n" + "1,2.5\n" * 9 + "2,-inf\n", FIT, 1, r"column 'y' .* is not a finite number \('-inf' in row 11\)"),
        (
            "x,y\n" + "1,2.5\n" * 9 + "inf,1.5\nabc,1\n",
            FIT,
            1,
            r"column 'x' .*2 values that are not finite numbers \('inf' in row 11, 'abc' in row 12\)",
        ),
        ("x,y\n1,a\n2,a\n", FIT, 1, "only one class, 'a'"),
        ("x,y\n" + "1,3\n2,3\n" * 9, FIT, 1, "'y' has the same value in all rows, '3'"),
        ("x,y\n" + "1,3\n2,3\n" * 9, (*FIT, "--task", "classification"), 1, "only one class, '3'"),
        ("x,y\n" + "".join(f"{i},n{i}\n" for i in range(9)), FIT, 1, "9 distinct values in 9 rows, too many"),
        ("x,y\n1,\n2,\n", FIT, 1, "'y' has no values"),
        ("x,y\n1,2\n", FIT, 1, "has the same value in all rows, '2', but at least two are needed: add other rows"),
        (
            "x;y\n" + "".join(f"{i};€ {i}.000,5\n" for i in range(9)),
            FIT,
            1,
            r"contains numbers with a decimal comma and '€ 0.000,5' in row 2: write plain",
        ),
        (
            "x,y\n1,1234\n" + "".join(f'{i},"{i + 1},000"\n' for i in range(9)),
            FIT,
            1,
            "'1,000' in row 3, which may have a decimal comma or a mark of thousands: write plain numbers",
        ),
        (
            "x,y\n" + "".join(f"{i},2020-01-0{i + 1}\n" for i in range(9)),
            FIT,
            1,
            "'y' contains dates: use numbers, e.g. the days since the first, or choose another target",
        ),
        (
            "x,y\n1,2.5\n1,3.5\n",
            FIT,
            1,
            "no input column remains.*: add columns, or drop fewer.*same value in all rows",
        ),
        (
            "y,x\n2.5,1\n",
            (*FIT, "--drop", "x"),
            1,
            "has the same value in all rows, '2.5', but at least two are needed: add other rows",
        ),
        ("x,y\n1,2.5\n,3.5\n", (*FIT, "--missing", "drop"), 1, "no input column|at least 2 are required"),
        ("x,y\n1,2\n", (*FIT, "--delimiter", "ab"), 1, "must be one ASCII character"),
        ("x,y\n1,2\n", (*FIT, "--delimiter", "§"), 1, "--delimiter must be one ASCII character, got .§.; write"),
        ("x,y\n1,2\n", (*FIT, "--encoding", "nonsense"), 1, "nonsense' is unknown"),
        ("x,y\n1,2\n", (*FIT[:4], "-o", "missing/m.lssvm"), 2, "folder .*missing. for .m.lssvm. does not exist"),
        ("x,y\n1,2\n", FIT[:4], 2, "Missing option '-o'"),
        ("x,y\n1,2\n", (*FIT[:4], "-o", "table.csv"), 2, "'table.csv' is also another file .* would be overwritten"),
        ("x,y\n1,2\n", (*FIT, "--report", "m.lssvm"), 2, "--report: 'm.lssvm' is also another file"),
        ("x,y\n1,2\n", (*FIT, "--drop", "y"), 2, "--drop 'y': this is the target"),
        ("x,y\n1,2\n", (*FIT, "--categorical", "y"), 2, "--categorical 'y': this is the target.*--task classification"),
        ("x,y\n1,2\n", ("fit", "zzzzzz", *FIT[2:]), 1, "no file 'zzzzzz'. Check its name and folder"),
        ("x,y\n1,2\n", ("predict", "none.lssvm", "table.csv"), 2, "does not exist"),
        ("x,y\n1,2\n", ("predict", "table.csv", "table.csv"), 1, "is not a model file"),
        ("x,y\n1,2\n", ("inspect", "table.csv"), 1, "is not a model file"),
        ("x,y\n1,2\n", ("fit", ".", *FIT[2:]), 1, "contains no Parquet files"),
        ("\0\1\2\0", FIT, 1, "is not text"),
        ("\0\1\2\0", (*FIT, "--encoding", "latin-1"), 1, "is not text"),
    ],
)
def test_mistakes_get_a_message_that_explains_what_to_do(run, folder, content, arguments, code, message):
    (folder / "table.csv").write_text(content)
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert re.search(message, result.stderr, re.DOTALL), result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert not (folder / "m.lssvm").exists()


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("Age,city\n1,Oslo\n", (), "lacks 1 column.*: age. Did you mean 'Age'"),
        ("age city\n1 Oslo\n", (), "lacks 2 columns.*: age, city.*Only one column was found, 'age city'.*--delimiter"),
        (
            "age,city\nforty,Oslo\n",
            (),
            "'age' contains a value that is not a finite number \\('forty' in row 2\\): correct it, or leave",
        ),
        (
            "age,city\n1e999,Oslo\n",
            (),
            "'age' contains a value that is not a finite number \\('1e999' in row 2\\): correct it, or leave",
        ),
        ("age,city\n1,7\n2,\n", (), "column 'city' contained text in fit, but now contains numbers \\(7.0\\): give"),
        ("age,city\n1,Oslo\n", ("-o", "new.csv"), "'new.csv' is also another file of this command"),
        ("age,city\n", (), "no rows below its header"),
        ("age,city\n1,Oslo\n", ("--proba",), "--proba is for classification"),
        ("age,city\n1,Oslo\n", ("--set", "0.9"), "--set is for classification"),
        ("age,city\n1,Oslo\n", ("--per-class",), "--per-class is for --set: add --set 0.9"),
        ("age,city\n1,Oslo\n", ("--interval", "90"), "coverage must be between 0 and 1, got 90.0: 0.9 stands for 90 %"),
        ("age,city\n1,Oslo\n", ("--interval", "0"), "coverage must be between 0 and 1, got 0.0: 0.9 stands for 90 %"),
    ],
)
def test_mistakes_at_predict(run, folder, fitted, content, arguments, message):
    (folder / "new.csv").write_text(content)
    result = run("predict", fitted, "new.csv", *arguments)
    assert result.exit_code in (1, 2)
    assert re.search(message, result.stderr), result.stderr
    assert result.stdout == ""
    assert (folder / "new.csv").read_text() == content


def test_infinite_values_of_parquet_are_named(run, folder):
    from pyarrow import parquet, table

    parquet.write_table(table({"age": np.where(AGE[4] == AGE, np.inf, AGE), "price": PRICE}), "rows.parquet")
    result = run("fit", "rows.parquet", "-y", "price", "-o", "m.lssvm")
    assert result.exit_code == 1
    assert re.search(
        r"column 'age' contains 2 values that are not finite numbers \('inf' in row 4, 'inf' in row 6\)", result.stderr
    )
    assert run("fit", "rows.parquet", "-y", "price", "-o", "m.lssvm", "--categorical", "age").exit_code == 0
    assert "inf" in load("m.lssvm").fitted_.layout.columns.columns[0].values


def test_mistakes_in_the_target_of_other_rows(run, folder, fitted):
    (folder / "other.csv").write_text("age,city,price\n1,Oslo,2\n2,Oslo,much\n")
    result = run("report", fitted, "other.csv")
    assert result.exit_code == 1
    assert "'price' contains a value that is not a finite number ('much' in row 3): correct it;" in result.stderr
    assert "--task" not in result.stderr  # no option of report
    (folder / "other.csv").write_text("age,city,price\n1,Oslo,2\n")
    assert "1 row with a target, but at least 2 are required" in run("report", fitted, "other.csv").stderr


def test_files_without_permission_are_named(run, folder, fitted, monkeypatch):
    def closed(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("lssvm.cli.reading._is_parquet", closed)  # root reads everything, so that chmod shows nothing
    result = run("fit", "people.csv", "-y", "price", "-o", "m.lssvm")
    assert result.exit_code == 1
    assert result.stderr.strip().endswith(
        "permission denied: 'people.csv'. Ask its owner for access, or choose another file."
    )
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != str(folder))
    for arguments in (("fit", "people.csv", "-y", "price", "-o", "m.lssvm"), ("report", fitted, "-o", "m.html")):
        result = run(*arguments)
        assert result.exit_code == 2
        assert "permission denied, ask the owner for access or choose another file" in result.stderr


def test_rows_below_a_line_that_states_the_delimiter_keep_their_numbers(run, folder):
    text = "sep=|\n" + lines(ROWS[:20], delimiter="|").replace(ROWS[3][0], "old", 1)
    (folder / "stated.csv").write_text(text, encoding="utf-8")
    line = 1 + next(number for number, row in enumerate(text.splitlines()) if "old" in row)
    for options, target in (((), "price"), (("--no-header",), "column3")):
        result = run("fit", "stated.csv", "-y", target, "-o", "m.lssvm", *options)
        assert result.exit_code == 1
        named = f"'old' in row {line}" if not options else "'price' in row 2"
        assert named in result.stderr


def test_other_encodings_are_named(run, folder):
    (folder / "latin.csv").write_text(lines(), encoding="latin-1")
    result = run("fit", "latin.csv", "-y", "price", "-o", "m.lssvm")
    assert result.exit_code == 1
    assert "--encoding latin-1" in result.stderr
    assert run("fit", "latin.csv", "-y", "price", "-o", "m.lssvm", "--encoding", "latin-1").exit_code == 0
    assert load("m.lssvm").fitted_.layout.columns.columns[1].values[0] == "Köln"


def test_without_pyarrow_the_extra_is_named(run, folder, fitted, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for arguments in (("fit", "people.csv", "-y", "price", "-o", "m.lssvm"), ("predict", fitted, "people.csv")):
        result = run(*arguments)
        assert result.exit_code == 1
        assert 'pip install "lssvm[files]"' in result.stderr
