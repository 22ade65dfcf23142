"""The command line, run in-process; signals, pipes, terminals and what --help imports, in processes of their own."""

import contextlib
import csv
import gzip
import json
import os
import re
import runpy
import shlex
import signal
import socket
import stat
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from lssvm import LSSVC, LSSVR, cli, datasets, diagnose, kernels, load, persist, save, tables
from lssvm.cli import main


@pytest.fixture
def run():
    return lambda *arguments: CliRunner().invoke(main, [str(argument) for argument in arguments])


def read_table(text):
    """The printed table as a dict, once its values are seen to start in one column."""
    rows = [re.fullmatch(r"(\S.*?)\s{2,}(\S.*)", line) for line in text.splitlines()]
    assert len({row.start(2) for row in rows}) == 1
    return dict(row.groups() for row in rows)


def test_demo_prints_the_fit(run, tmp_path):
    result = run("demo", "--output", tmp_path / "demo.png")
    assert result.exit_code == 0, result.output
    table = read_table(result.stdout)
    X, y = datasets.load_motorcycle(return_X_y=True)
    model = LSSVR().fit(X, y)
    rmse = np.linalg.norm(model.loo_residuals_) / np.sqrt(len(y))
    assert table["rows"] == "133"
    assert table["basis"] == str(len(model.support_vectors_))
    assert float(table["C"]) == pytest.approx(model.C_, rel=1e-3)
    assert float(table["sigma"].removesuffix(" ms")) == pytest.approx(float(np.ravel(model.kernel_.sigma)[0]), rel=1e-3)
    assert float(table["leave-one-out RMSE"].removesuffix(" g")) == pytest.approx(rmse, rel=1e-3)
    assert float(table["seconds"]) >= 0


def test_demo_draws_a_picture(run, tmp_path):
    image = pytest.importorskip("matplotlib.image")
    output = tmp_path / "demo.png"
    result = run("demo", "--output", output)
    assert result.stderr == ""
    assert read_table(result.stdout)["picture"] == str(output)
    pixels = image.imread(output)[..., :3]
    assert pixels.shape[:2] == (675, 1125)
    drawn = (pixels < 0.99).any(axis=-1)
    assert 0.02 < drawn.mean() < 0.6
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 100


def test_demo_without_matplotlib_prints_the_table_and_names_the_extra(run, tmp_path, monkeypatch):
    for module in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, module, None)
    output = tmp_path / "demo.png"
    result = run("demo", "--output", output)
    assert result.exit_code == 0
    assert 'pip install "lssvm[plot]"' in result.stderr
    assert "leave-one-out RMSE" in read_table(result.stdout)
    assert not output.exists()


def test_demo_refuses_a_missing_folder_before_it_works(run, tmp_path):
    result = run("demo", "--output", tmp_path / "missing" / "demo.png")
    assert result.exit_code == 2
    assert "does not exist" in result.stderr
    assert result.stdout == ""


def test_demo_names_an_unknown_picture_format(run, tmp_path):
    pytest.importorskip("matplotlib")
    result = run("demo", "--output", tmp_path / "demo.nonsense")
    assert result.exit_code == 1
    assert "nonsense" in result.stderr
    assert "Traceback" not in result.output


def test_version(run):
    assert run("--version").stdout.strip() == f"lssvm, version {version('lssvm')}"
    module = subprocess.run([sys.executable, "-m", "lssvm", "--version"], capture_output=True, text=True, check=True)
    assert module.stdout == run("--version").stdout


def test_unknown_command_is_a_usage_error(run):
    assert run("nonsense").exit_code == 2


def test_help_imports_nothing_heavy():
    script = (
        "import sys\n"
        "from lssvm.cli import main\n"
        "for command in sorted(main.commands):\n"
        "    main([command, '--help'], standalone_mode=False)\n"
        "print(sorted({'numpy', 'scipy', 'sklearn', 'matplotlib', 'pyarrow'} & sys.modules.keys()))\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "--output" in result.stdout
    assert result.stdout.splitlines()[-1] == "[]"


# Tables ---------------------------------------------------------------------------------------------------------------
RNG = np.random.RandomState(0)
AGE = RNG.randint(18, 80, 60)
CITY = RNG.choice(["Köln", "Oslo", "Paris"], 60)
PRICE = np.round(2.0 * AGE + 30.0 * (CITY == "Oslo") + RNG.normal(0, 5, 60), 2)
ROWS = [(str(age), str(city), f"{price:.2f}") for age, city, price in zip(AGE, CITY, PRICE, strict=True)]
NAMES = ("age", "city", "price")
ENCODED = np.column_stack([AGE, *((city == CITY).astype(float) for city in ("Köln", "Oslo", "Paris"))])


def lines(rows=ROWS, names=NAMES, delimiter=","):
    return "".join(delimiter.join(row) + "\n" for row in ([names] if names else []) + list(rows))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text(lines(), encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A model file of the people's prices."""
    pytest.importorskip("pyarrow")
    folder = tmp_path_factory.mktemp("fitted")
    (folder / "people.csv").write_text(lines(), encoding="utf-8")
    path = folder / "people.lssvm"
    result = CliRunner().invoke(main, ["fit", str(folder / "people.csv"), "-y", "price", "-o", str(path)])
    assert result.exit_code == 0, result.output
    return path


def test_fit_is_that_of_python_and_its_columns_travel(fitted):
    model = load(fitted)
    expected = LSSVR().fit(ENCODED, PRICE)
    np.testing.assert_allclose(model.predict(_named(ENCODED)), expected.predict(ENCODED), rtol=1e-9)
    assert pytest.approx(expected.C_) == model.C_
    assert list(model.feature_names_in_) == ["age", "city=Köln", "city=Oslo", "city=Paris"]
    assert model.table_["columns"][1] == {"name": "city", "categories": ["Köln", "Oslo", "Paris"], "fill": None}


def _named(rows):
    import pyarrow

    return pyarrow.table(list(rows.T.astype(float)), names=["age", "city=Köln", "city=Oslo", "city=Paris"])


def write_csv(path):
    path.write_text(lines(), encoding="utf-8")


def write_gzip(path):
    path.write_bytes(gzip.compress(lines().encode()))


def write_quoted(path):
    quoted = lines([(age, f'"{city}"', f" {price} ") for age, city, price in ROWS])
    path.write_text("\ufeff" + quoted.replace("\n", "\r\n"), encoding="utf-8", newline="")


def write_european(path):
    path.write_text(lines([(a, c, p.replace(".", ",")) for a, c, p in ROWS], delimiter=";"), encoding="utf-8")


def write_excel(path):
    path.write_text("sep=;\n" + lines(delimiter=";"), encoding="utf-8-sig")


def write_parquet(path):
    from pyarrow import parquet, table

    parquet.write_table(table({"age": AGE, "city": CITY, "price": PRICE}), path)


def write_folder(path):
    path.mkdir()
    from pyarrow import parquet, table

    for part in (slice(0, 25), slice(25, 60)):
        rows = table({"age": AGE[part], "city": CITY[part], "price": PRICE[part]})
        parquet.write_table(rows, path / f"part-{part.start}.parquet")
    (path / "_SUCCESS").touch()


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("rows.csv.gz", write_gzip),
        ("quoted.csv", write_quoted),
        ("rows.tsv", lambda path: path.write_text(lines(delimiter="\t"), encoding="utf-8")),
        ("bars.txt", lambda path: path.write_text(lines(delimiter="|"), encoding="utf-8")),
        ("european.csv", write_european),
        ("excel.csv", write_excel),
        ("wide.csv", lambda path: path.write_text(lines(), encoding="utf-16")),
        ("rows.parquet", write_parquet),
        ("unmarked", write_parquet),
        ("folder", write_folder),
    ],
)
def test_every_kind_of_file_holds_the_same_table(run, folder, fitted, name, write):
    write(folder / name)
    result = run("predict", fitted, name)
    assert result.exit_code == 0, result.output
    expected = run("predict", fitted, "people.csv")
    header, *values = result.stdout.splitlines()
    first, *expected_values = expected.stdout.splitlines()
    assert header == first
    # rows that come in other blocks may be rounded otherwise
    np.testing.assert_allclose(np.array(values, float), np.array(expected_values, float), rtol=1e-9)
    assert "root mean square error" in result.stderr


def test_standard_input(folder, fitted):
    result = CliRunner().invoke(main, ["predict", str(fitted), "-"], input=lines().encode())
    assert result.exit_code == 0, result.output
    assert result.stdout == CliRunner().invoke(main, ["predict", str(fitted), "people.csv"]).stdout
    write_parquet(folder / "rows.parquet")
    typed = CliRunner().invoke(main, ["predict", str(fitted), "-"], input=(folder / "rows.parquet").read_bytes())
    assert typed.stdout == result.stdout


def test_one_command_from_a_table_to_a_report(run, folder):
    labels = np.where(AGE > 50, "old", "young")
    (folder / "labels.csv").write_text(lines([(*row, v) for row, v in zip(ROWS, labels, strict=True)], (*NAMES, "who")))
    result = run("fit", "labels.csv", "-y", "who", "-o", "who.lssvm", "--report", "who.html")
    assert result.exit_code == 0, result.output
    assert "task: classification ('who' holds 2 classes: old, young)" in result.stderr
    table = read_table(result.stdout)
    assert table["target"] == "who"
    assert float(table["leave-one-out error rate"]) < 0.1
    page = (folder / "who.html").read_text(encoding="utf-8")
    assert "<h1>LSSVC: who</h1>" in page
    assert "city=K" in page
    assert "lssvm predict who.lssvm" in page


def test_json_has_no_number_for_what_is_not_known(run, folder):
    save(LSSVR(kernels.RBF(sigma=1.0), C=1.0).fit(ENCODED, np.ones(60)), "constant.lssvm")
    assert "nan" in run("inspect", "constant.lssvm").stdout
    assert json.loads(run("inspect", "constant.lssvm", "--json").stdout)["leave_one_out_R2"] is None
    assert "NaN" not in run("inspect", "constant.lssvm", "--json").stdout


def test_fit_prints_json(run, folder):
    result = run("fit", "people.csv", "-y", "price", "-o", "m.lssvm", "--robust", "hampel", "--json")
    values = json.loads(result.stdout)
    assert values["rows"] == 60
    assert values["leave_one_out_RMSE"] < 10
    assert load("m.lssvm").robust == "hampel"


# What a column is -----------------------------------------------------------------------------------------------------
def planned(text, folder, target="y", **options):
    from lssvm.tables import open_table, plan

    (folder / "table.csv").write_text(text, encoding="utf-8")
    return plan(open_table("table.csv"), target, **options)


@pytest.mark.parametrize(
    ("values", "task", "labels"),
    [
        (["1.5", "2.5", "3.5", "4"] * 5, "regression", "number"),
        (["0", "1"] * 10, "classification", "number"),
        (["-1", "1.0"] * 10, "classification", "number"),
        ([str(v) for v in range(20)], "regression", "number"),
        (["yes", "no"] * 10, "classification", "text"),
        (["True", "False"] * 10, "classification", "text"),
        (["1", "2", "x", "y"] * 5, "classification", "text"),
        (["1e3", "-.5", "+7", "2."] * 5, "regression", "number"),
    ],
)
def test_task_is_guessed_from_the_target(folder, values, task, labels):
    rows = [(f"{i}.5", value) for i, value in enumerate(values)]
    scheme, _, remarks = planned(lines(rows, ("x", "y")), folder)
    assert (scheme.task, scheme.labels) == (task, labels)
    assert any(remark.startswith(f"task: {task}") for remark in remarks)


def test_columns_that_say_nothing_are_left_out_and_said(folder):
    rows = [(str(i), f"name {i}", "same", "", str(i % 7), str(i / 3)) for i in range(60)]
    scheme, _, remarks = planned(lines(rows, ("", "name", "constant", "void", "x", "y")), folder)
    assert scheme.names == ["x"]
    text = " ".join(remarks)
    for found in ("column '' is left out: it has no name", "'name' is left out: 60 different", "'constant'", "'void'"):
        assert found in text
    scheme, _, _ = planned(
        lines(rows, ("", "name", "constant", "void", "x", "y")), folder, categorical=["name", "x"], drop=["void"]
    )
    assert len(scheme.columns[0].categories) == 60
    assert scheme.columns[1].categories == tuple("0123456")


def test_dates_signs_and_texts_that_are_all_different_are_left_out(folder):
    def column(i):
        return f"2021-{i % 12 + 1:02d}-{i % 28 + 1:02d}", f"{i % 20}.5%", f"H{i % 25}", f"1{'ab'[i % 2]}"

    rows = [(*column(i), str(i / 3)) for i in range(40)]
    names = ("sold on", "share", "id", "grade", "y")
    scheme, _, remarks = planned(lines(rows, names), folder)
    assert [c.name for c in scheme.columns] == ["share", "grade"]  # 20 shares in 40 rows may be categories
    text = "\n".join(remarks)
    assert "column 'sold on' is left out: it holds dates ('2021-01-01'); numbers are of use" in text
    assert "column 'id' is left out: 25 different texts such as 'H0' (--categorical id encodes" in text
    assert "taken as categories: 'share' (20), 'grade' (2)" in text
    _, _, remarks = planned(lines(rows[:30], names), folder)
    assert "'share' is left out: 20 different texts such as '0.5%'; write plain numbers" in "\n".join(remarks)
    mixed = [(f"({i}.5)" if i % 2 else f"{i}.5", *row) for i, row in enumerate(rows)]
    _, _, remarks = planned(lines(mixed, ("account", *names)), folder)
    assert (
        "column 'account' is left out: 20 of 40 values are no numbers, such as '(1.5)'; write plain numbers, such as "
        "-1234.5"
    ) in remarks
    scheme, _, _ = planned(lines(rows, names), folder, categorical=["sold on", "id"])
    assert [c.name for c in scheme.columns] == list(names[:4])
    _, _, remarks = planned(lines(rows, names), folder, target="grade")
    assert any(remark.startswith("task: classification ('grade' holds 2 classes: 1a, 1b") for remark in remarks)


def test_doubts_are_said(folder):
    rows = [(str(i + 7), str(i), str(i % 5), ["Yes", "no", "yes "][i % 3], str(i % 2)) for i in range(40)]
    rows[20] = ("27", "19", *rows[20][2:])
    scheme, _, remarks = planned(lines(rows, ("row no", "almost", "x", "smoker", "y")), folder)
    assert len(scheme.columns) == 4
    doubts = [remark for remark in remarks if remark.startswith("column ")]
    assert doubts == [
        "column 'row no' counts the rows: leave it out with --drop 'row no', unless their order matters",
        "column 'smoker' holds 'Yes' and 'yes': are they the same?",
    ]


def test_numbers_with_zeros_before_them_are_codes(folder, run):
    """Said of inputs; kept as they are written in a target."""
    rows = [(f"{100 * (i % 9):05d}", str(i % 5), f"{i % 3:02d}") for i in range(60)]
    scheme, _, remarks = planned(lines(rows, ("zip code", "x", "y")), folder)
    assert scheme.labels == "text"
    assert [remark for remark in remarks if remark.startswith("column ")] == [
        "column 'zip code' is taken as numbers, but some have zeros before them ('00000'): if they are codes, write "
        "--categorical 'zip code' or --drop 'zip code'"
    ]
    (folder / "codes.csv").write_text(lines(rows, ("zip code", "x", "y")))
    assert run("fit", "codes.csv", "-y", "y", "-o", "m.lssvm", "--categorical", "zip code").exit_code == 0
    assert set(run("predict", "m.lssvm", "codes.csv").stdout.split()[1:]) <= {"00", "01", "02"}
    scheme, _, remarks = planned(lines([("0", "0.5", "10"), ("0", "0.7", "20")] * 20, ("a", "b", "y")), folder)
    assert scheme.labels == "number"
    assert not any("zeros" in remark for remark in remarks)


def test_columns_that_say_little_are_warned_of(run, folder):
    rows = np.random.RandomState(1).normal(size=(40, 2)).round(3)
    (folder / "noise.csv").write_text(lines(rows.astype(str), ("x", "y")))
    result = run("fit", "noise.csv", "-y", "y", "-o", "n.lssvm")
    assert result.exit_code == 0
    assert not diagnose.beats_constant(load("n.lssvm"))
    assert "no smaller than that of a constant" in result.stderr
    assert "Give C or sigma" not in result.stderr
    assert "constant" not in run("fit", "people.csv", "-y", "price", "-o", "p.lssvm").stderr


@pytest.mark.parametrize("start", ["", "\n", "\n\n"])
def test_names_with_line_breaks_and_empty_lines_before_them(folder, start):
    rows = [(str(i), str(i % 7), str(i / 3)) for i in range(20)]
    text = start + '"first\nname",x,y\n' + lines(rows, None)
    scheme, summaries, _ = planned(text, folder)
    assert scheme.names == ["first\nname", "x"]
    assert summaries["y"].rows == 20
    with pytest.raises(ValueError, match=f"'abc' in row {22 + len(start)}"):
        planned(text.replace("\n19,", "\nabc,"), folder)


def test_classes_keep_their_kind(run, folder):
    for values, kind in ((["-1", "1"], "i"), (["no", "yes"], "U")):
        rows = [(str(age), values[int(age > 50)]) for age in AGE]
        (folder / "c.csv").write_text(lines(rows, ("age", "class")))
        assert run("fit", "c.csv", "-y", "class", "-o", "c.lssvm").exit_code == 0
        assert load("c.lssvm").classes_.dtype.kind == kind
        result = run("predict", "c.lssvm", "c.csv", "--proba")
        assert result.stdout.splitlines()[0] == f"prediction,P({values[0]}),P({values[1]})"
        assert result.stdout.splitlines()[1].split(",")[0] == rows[0][1]


# Missing values -------------------------------------------------------------------------------------------------------
@pytest.fixture
def gaps(folder):
    rows = [list(row) for row in ROWS]
    rows[3][0] = ""
    rows[7][1] = "NA"
    rows[9][2] = "?"
    (folder / "gaps.csv").write_text(lines(rows), encoding="utf-8")
    return folder


def test_missing_values_are_listed_with_the_remedy(run, gaps):
    result = run("fit", "gaps.csv", "-y", "price", "-o", "m.lssvm")
    assert result.exit_code == 1
    for line in ("age: 1 missing, the first in row 5", "city: 1 missing, the first in row 9", "price: 1 missing"):
        assert line in result.stderr
    assert "--missing drop" in result.stderr
    assert not (gaps / "m.lssvm").exists()


@pytest.mark.filterwarnings("ignore:Rounding errors")  # the targets are free of noise
def test_missing_rows_are_dropped_and_numbers_stay(run, gaps):
    result = run("fit", "gaps.csv", "-y", "price", "-o", "m.lssvm", "--missing", "drop")
    assert "'age' 1, 'city' 1" in result.stderr
    model = load("m.lssvm")
    assert model.table_["dropped"] == [3, 7, 9]
    kept = np.delete(np.arange(60), [3, 7, 9])
    expected = LSSVR().fit(ENCODED[kept], PRICE[kept])
    np.testing.assert_allclose(model.loo_predictions_, expected.loo_predictions_, rtol=1e-8)
    predicted = run("predict", "m.lssvm", "gaps.csv")
    cells = predicted.stdout.splitlines()[1:]
    assert [place for place, cell in enumerate(cells) if cell == '""'] == [3, 7]
    assert "2 of 60 rows lack values" in predicted.stderr


def test_missing_values_are_filled_at_fit_and_at_predict(run, gaps):
    result = run("fit", "gaps.csv", "-y", "price", "-o", "m.lssvm", "--missing", "fill")
    assert result.exit_code == 0
    assert "rows without a value are dropped: 'price' 1\n" in result.stderr
    assert "filled with the mean, or no category: 'age' 1, 'city' 1\n" in result.stderr
    model = load("m.lssvm")
    kept = np.delete(np.arange(60), 9)
    filled = ENCODED.astype(float)
    filled[3, 0] = np.delete(AGE, 3).mean()
    filled[7, 1:] = 0.0
    expected = LSSVR().fit(filled[kept], PRICE[kept])
    np.testing.assert_allclose(model.loo_predictions_, expected.loo_predictions_, rtol=1e-8)
    result = run("predict", "m.lssvm", "gaps.csv")
    values = np.array([float(cell) for cell in result.stdout.splitlines()[1:]])
    np.testing.assert_allclose(values, expected.predict(filled), rtol=1e-8)


# Predictions ----------------------------------------------------------------------------------------------------------
def test_predictions_and_intervals_are_the_models(run, folder, fitted):
    model = load(fitted)
    result = run("predict", fitted, "people.csv", "--interval", "0.8", "-o", "out.csv")
    assert result.stdout == ""
    table = np.genfromtxt("out.csv", delimiter=",", names=True)
    np.testing.assert_allclose(table["prediction"], model.predict(_named(ENCODED)), rtol=1e-12)
    ends = np.column_stack([table["lower"], table["upper"]])
    np.testing.assert_allclose(ends, model.predict_interval(_named(ENCODED), 0.8))
    assert sorted(path.name for path in folder.iterdir()) == ["out.csv", "people.csv"]
    json_lines = run("predict", fitted, "people.csv", "--interval", "0.999", "--json").stdout.splitlines()
    first = json.loads(json_lines[0])
    assert first["prediction"] == table["prediction"][0]
    assert (first["lower"], first["upper"]) == (None, None)  # 60 rows cannot cover 99.9 %


def test_predictions_that_fail_midway_leave_the_previous_file(run, folder, fitted, monkeypatch):
    monkeypatch.setattr(tables.reading, "BLOCK_BYTES", 512)
    (folder / "new.csv").write_text(lines([*ROWS, ("forty", "Oslo", "1")]), encoding="utf-8")
    (folder / "out.csv").write_text("the predictions before")
    result = run("predict", fitted, "new.csv", "-o", "out.csv")
    assert result.exit_code == 1
    assert "'forty' in row 62" in result.stderr
    assert (folder / "out.csv").read_text() == "the predictions before"
    assert sorted(path.name for path in folder.iterdir()) == ["new.csv", "out.csv", "people.csv"]
    result = run("predict", fitted, "new.csv")
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) > 20  # the batches before; a pipe cannot be taken back


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
def test_a_pipe_is_written_to_and_stays_a_pipe(run, folder, fitted, read_pipe):
    pytest.importorskip("matplotlib")
    os.mkfifo("pipe")
    for command, expected in (
        (["predict", fitted, "people.csv"], b"prediction"),
        (["fit", "people.csv", "-y", "price"], persist.START),
        (["report", fitted], b"<!DOCTYPE html>"),
        (["export", fitted, "--to", "c"], b"/*"),
        (["demo"], b"\x89PNG"),
    ):
        content = read_pipe(folder / "pipe", lambda command=command: run(*command, "--output", "pipe"))
        assert expected in content[:100]


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="needs /dev/fd")
def test_standard_output_by_name_keeps_what_was_written_before(folder, fitted):
    """The shell's file is written to where it is: an atomic replacement would lose the lines before."""
    script = f"echo before; {sys.executable} -m lssvm predict {fitted} people.csv -o /dev/fd/1; echo after"
    with open("out.csv", "wb") as file:
        subprocess.run(script, shell=True, check=True, stdout=file)
    lines = Path("out.csv").read_text().splitlines()
    assert lines[:2] == ["before", "prediction"]
    assert lines[-1] == "after"
    assert len(lines) == len(ROWS) + 3


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="needs /dev/fd")
def test_an_open_file_by_number_keeps_what_it_holds(folder, fitted):
    Path("log").write_text("before\n")
    script = f"{sys.executable} -m lssvm predict {fitted} people.csv -o /dev/fd/3 3>>log; echo after >>log"
    subprocess.run(script, shell=True, check=True)
    lines = Path("log").read_text().splitlines()
    assert lines[:2] == ["before", "prediction"]
    assert lines[-1] == "after"
    assert len(lines) == len(ROWS) + 3


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="needs /dev/stdout")
def test_a_closed_stream_is_named(folder, fitted):
    for stream, redirection in (("/dev/stdout", ">&-"), ("/dev/fd/7", "")):
        script = f"{sys.executable} -m lssvm predict {fitted} people.csv -o {stream} {redirection}"
        result = subprocess.run(script, shell=True, check=False, stderr=subprocess.PIPE, text=True)
        assert result.returncode == 2
        assert f"'{stream}' is a closed stream: redirect it to a file, or name a file." in result.stderr


def test_labels_in_the_header_steer_no_terminal(run, folder):
    rows = [(age, "x\x1b[2J" if float(age) > 40 else "y") for age, _, _ in ROWS]
    (folder / "labels.csv").write_text(lines(rows, ("age", "kind")), encoding="utf-8")
    assert run("fit", "labels.csv", "-y", "kind", "-o", "k.lssvm").exit_code == 0
    assert run("predict", "k.lssvm", "labels.csv", "--proba", "-o", "out.csv").exit_code == 0
    header = (folder / "out.csv").read_text().splitlines()[0]
    assert header == "prediction,P(x\\u001b[2J),P(y)"
    first = run("predict", "k.lssvm", "labels.csv", "--proba", "--json").stdout.splitlines()[0]
    assert {"P(x\x1b[2J)", "P(y)"} <= json.loads(first).keys()


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX modes")
def test_outputs_keep_the_mode_of_the_file_that_they_replace(run, folder, fitted):
    for command in (["predict", fitted, "people.csv"], ["report", fitted], ["export", fitted, "--to", "c"]):
        Path("out").write_text("")
        os.chmod("out", 0o600)
        os.symlink("out", "link")
        assert run(*command, "-o", "link").exit_code == 0
        assert os.path.islink("link")
        assert stat.S_IMODE(os.stat("out").st_mode) == 0o600
        assert os.stat("out").st_size
        os.unlink("link")


def test_sockets_are_refused_before_the_work(run, folder):
    if not hasattr(socket, "AF_UNIX"):
        pytest.skip("needs sockets with a path")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        result = run("fit", "people.csv", "-y", "price", "-o", "socket")
    assert result.exit_code == 2
    assert "'socket' is a socket: name a file" in result.stderr


def test_columns_may_come_in_another_order_and_more(run, folder, fitted):
    rows = [(price, city, "x", age) for age, city, price in ROWS]
    (folder / "turned.csv").write_text(lines(rows, ("price", "city", "more", "age")), encoding="utf-8")
    assert run("predict", fitted, "turned.csv").stdout == run("predict", fitted, "people.csv").stdout


def test_unknown_categories_are_said(run, folder, fitted):
    (folder / "rome.csv").write_text("age,city\n40,Rome\n40,Oslo\n41,Rome\n")
    result = run("predict", fitted, "rome.csv")
    assert "city=Rome (2 rows)" in result.stderr
    expected = load(fitted).predict(_named(np.array([[40, 0, 0, 0], [40, 0, 1, 0], [41, 0, 0, 0]])))
    np.testing.assert_allclose([float(cell) for cell in result.stdout.splitlines()[1:]], expected)


# Truth values ---------------------------------------------------------------------------------------------------------
def truth_table(spell):
    """Prices that follow the age and a truth value, spelled by a function of it."""
    garden = [bool(age % 2) for age in AGE]
    prices = [age + 30.0 * own + noise for age, own, noise in zip(AGE, garden, PRICE % 1, strict=True)]
    rows = [(str(age), spell(own), f"{price}") for age, own, price in zip(AGE, garden, prices, strict=True)]
    return lines(rows, ("age", "garden", "price"))


def write_truth(folder):
    """The same table as other programs write it."""
    from pyarrow import parquet, table

    for name, spell in {"python": str, "r": lambda own: str(own).upper(), "json": lambda own: str(own).lower()}.items():
        (folder / f"{name}.csv").write_text(truth_table(spell))
    rows = list(csv.DictReader((folder / "json.csv").read_text().splitlines()))
    columns = {"age": AGE, "garden": [row["garden"] == "true" for row in rows]}
    parquet.write_table(table({**columns, "price": [float(row["price"]) for row in rows]}), folder / "typed.parquet")
    return ["python.csv", "r.csv", "json.csv", "typed.parquet"]


def test_truth_values_are_known_however_they_are_spelled(run, folder):
    names = write_truth(folder)
    for own in names:
        assert run("fit", own, "-y", "price", "-o", "m.lssvm").exit_code == 0
        results = [run("predict", "m.lssvm", other) for other in names]
        assert {result.stdout for result in results} == {results[0].stdout}
        assert not any("has not seen" in result.stderr for result in results)
        assert run("export", "m.lssvm", "--to", "python", "-o", "machine.py").exit_code == 0
        predict = runpy.run_path("machine.py")["predict"]
        for value in (True, np.True_, "true", "True", "TRUE"):
            assert predict({"age": 40, "garden": value}) == predict([40, "True"]) != predict([40, False])
        assert predict([40, "tru"]) not in (predict([40, "True"]), predict([40, "False"]))


def test_truth_values_as_classes(run, folder):
    names = write_truth(folder)
    for own, spelled in zip(names, ("True", "TRUE", "true", "true"), strict=True):
        assert run("fit", own, "-y", "garden", "-o", "m.lssvm").exit_code == 0
        results = [run("predict", "m.lssvm", other) for other in names]
        assert {result.stdout for result in results} == {results[0].stdout}
        assert spelled in results[0].stdout.split()
        assert len({result.stderr for result in results}) == 1  # the same error rate
        reports = []
        for other in names:
            assert run("report", "m.lssvm", other, "-o", "r.html").exit_code == 0
            reports.append((folder / "r.html").read_text())
        assert all(reports[0] == other for other in reports)


def test_truth_values_spelled_in_two_ways_are_one_category(folder):
    (folder / "mixed.csv").write_text(truth_table(str) + "3,TRUE,1\n4,false,1\n")
    plan, _, remarks = tables.plan(tables.open_table("mixed.csv"), "price")
    assert plan.columns[1].categories == ("False", "True")
    assert not any("the same?" in remark for remark in remarks)
    (folder / "other.csv").write_text("x,flag,price\n" + "1,True,2.5\n2,true,3.5\n3,maybe,4\n4,Maybe,5.5\n" * 9)
    plan, _, remarks = tables.plan(tables.open_table("other.csv"), "price")
    assert plan.columns[1].categories == ("Maybe", "True", "maybe", "true")  # no truth values
    assert sum("the same?" in remark for remark in remarks) == 2


# Report, export, inspect ----------------------------------------------------------------------------------------------
def test_report_of_a_file_and_of_other_rows(run, folder, fitted):
    assert run("report", fitted).stdout == "report.html\n"
    assert "Other rows" not in (folder / "report.html").read_text(encoding="utf-8")
    result = run("report", fitted, "people.csv", "-o", "other.html")
    assert result.exit_code == 0, result.output
    assert "Other rows" in (folder / "other.html").read_text(encoding="utf-8")


def test_export_to_python_predicts_the_same(run, folder, fitted):
    result = run("export", fitted, "--to", "python")
    assert result.stdout == "people.py\n"
    assert "its inputs: age (number), city (text)" in result.stderr
    exported = runpy.run_path("people.py")
    model = load(fitted)
    with open("people.csv", encoding="utf-8") as file:
        found = [exported["predict"](row) for row in csv.DictReader(file)]
    rounding = 1e-14 * np.abs(model.dual_coef_).sum()  # large coefficients that cancel
    np.testing.assert_allclose(found, model.predict(_named(ENCODED)), rtol=1e-10, atol=rounding)
    assert run("export", fitted, "--to", "c", "-o", "m.h").exit_code == 0
    assert "#include <math.h>" in (folder / "m.h").read_text(encoding="utf-8")


def test_export_to_onnx(run, folder, fitted):
    onnx = pytest.importorskip("onnx")
    assert run("export", fitted, "--to", "onnx").stdout == "people.onnx\n"
    onnx.checker.check_model(onnx.load("people.onnx"))


def test_inspect(run, fitted):
    table = read_table(run("inspect", fitted).stdout)
    assert table["input columns"] == "age, city (Köln, Oslo, Paris)"
    assert table["rows"] == "60"
    values = json.loads(run("inspect", fitted, "--json").stdout)
    assert values["C"] == load(fitted).C_
    assert values["bytes"] == fitted.stat().st_size


def test_models_saved_from_python_are_inspected_and_reported(run, folder):
    save(LSSVC(kernels.RBF(sigma=0.5), C=5.0).fit(*datasets.load_ripley(return_X_y=True)), "r.lssvm")
    assert read_table(run("inspect", "r.lssvm").stdout)["classes"] == "-1, 1"
    assert run("report", "r.lssvm").exit_code == 0
    result = run("predict", "r.lssvm", "people.csv")
    assert result.exit_code == 1
    assert "saved from Python" in result.stderr


def test_inspect_names_the_columns_left_out(run, folder):
    rows = np.random.RandomState(0).uniform(-2, 2, (120, 3))
    save(LSSVR(kernels.RBF(ard=True)).fit(rows, np.sin(2 * rows[:, 1])), "wide.lssvm")
    assert read_table(run("inspect", "wide.lssvm").stdout)["left out"] == "column 0, column 2"
    assert json.loads(run("inspect", "wide.lssvm", "--json").stdout)["left_out"] == ["column 0", "column 2"]
    save(LSSVR(kernels.RBF(sigma=1.0), C=1.0).fit(rows, rows[:, 1]), "all.lssvm")
    assert "left out" not in read_table(run("inspect", "all.lssvm").stdout)


# Chunks ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_table_larger_than_the_memory_goes_through_chunks(run, folder, monkeypatch, kind):
    monkeypatch.setattr(cli.fitting, "MEMORY_SHARE", 0.0)
    monkeypatch.setattr(tables.reading, "BLOCK_BYTES", 512)
    rows = [list(row) for row in ROWS]
    rows[50][0] = ""
    (folder / "gaps.csv").write_text(lines(rows), encoding="utf-8")
    name = "gaps.csv"
    if kind == "parquet":
        name = "gaps.parquet"
        from pyarrow import parquet, table

        age = [None if place == 50 else int(value) for place, value in enumerate(AGE)]
        parquet.write_table(table({"age": age, "city": CITY, "price": PRICE}), name, row_group_size=7)
    result = run("fit", name, "-y", "price", "-o", "m.lssvm", "--missing", "drop", "--report", "m.html")
    assert result.exit_code == 0, result.output
    assert "read in chunks" in result.stderr
    model = load("m.lssvm")
    assert model.table_["dropped"] == [50]
    kept = np.delete(np.arange(60), 50)
    expected = LSSVR().fit_chunks([(ENCODED[kept].astype(float), PRICE[kept])])
    np.testing.assert_allclose(model.loo_predictions_, expected.loo_predictions_, rtol=1e-6)
    found = run("predict", "m.lssvm", name, "--interval", "0.9").stdout.splitlines()
    assert found[51] == ",,"  # the row without an age
    ends = np.array([line.split(",")[1:] for line in found[1:51] + found[52:]], dtype=float)
    np.testing.assert_allclose(ends, expected.predict_interval(ENCODED[kept].astype(float), 0.9), rtol=1e-6)


def test_memory_that_holds_copies_of_files_counts_as_free(tmp_path, monkeypatch):
    table = tmp_path / "meminfo"
    monkeypatch.setattr(cli.fitting, "MEMORY_TABLE", table)
    table.write_text("MemTotal: 16000000 kB\nMemFree: 50000 kB\nMemAvailable: 12000000 kB\n")
    assert cli.fitting._free_memory() == 12_000_000 * 1024
    assert not cli.fitting._needs_chunks(20_000, 10)
    table.write_text("MemFree: 12000000 kB\nMemAvailable: 50000 kB\n")
    assert cli.fitting._needs_chunks(20_000, 10)
    table.write_text("other")
    assert 2**20 < cli.fitting._free_memory() < 2**50
    table.unlink()
    assert 2**20 < cli.fitting._free_memory() < 2**50


# Mistakes -------------------------------------------------------------------------------------------------------------
FIT = ("fit", "table.csv", "-y", "y", "-o", "m.lssvm")


@pytest.mark.parametrize(
    ("content", "arguments", "code", "message"),
    [
        ("x,y\n1,2\n", ("fit", "tabel.csv", *FIT[2:]), 1, r"no file 'tabel.csv'. Did you mean 'table.csv'"),
        ("x,Y\n1,2\n", FIT, 2, r"-y 'y': table.csv has no such column. Did you mean 'Y'\? Its columns: x, Y"),
        ("x,y\n1,2\n", (*FIT, "--drop", "z"), 2, r"--drop 'z'"),
        ("5.1,3.5\n4.9,3.0\n", FIT, 1, "--no-header"),
        ("5.1,setosa\n4.9,setosa\n", FIT, 2, "These look like data.*--no-header"),
        ("x y\n1 2\n", FIT, 1, "only one column was found, 'x y'.*--delimiter"),
        ("made by us\nx,y\n1,2\n", FIT, 1, "only one column was found, 'made by us'.*lines stand above"),
        ("x,y,,\n1,2,,\n", FIT, 1, "2 columns have no name.*at the ends of the lines"),
        ("x,y\n1,2.5\n2,2.5\n", FIT, 1, "'y' holds the same value in all rows, '2.5'"),
        ("x,y\n1,2\n3,4,5\n", FIT, 1, "another number of cells"),
        ("x,x,y\n1,2,3\n", FIT, 1, "'x' stands there twice"),
        ("", FIT, 1, "is empty: give a file with"),
        ("x,y\n", FIT, 1, "no rows below its header"),
        (
            "x,y\n" + "1,2.5\n" * 9 + "abc,1.5\n",
            FIT,
            1,
            r"'x' holds a value that is no number \('abc' in row 11\).*--categorical x",
        ),
        ("x,y\n" + "1,2.5\n" * 9 + "2,1.5 EUR\n", FIT, 1, r"'1.5 EUR' in row 11.*--task classification"),
        ("x,y\n" + "1,2.5\n" * 9 + "1e999,1.5\n", FIT, 1, r"column 'x' .* no number \('1e999' in row 11\)"),
        ("x,y\n1,a\n2,a\n", FIT, 1, "only one class, 'a'"),
        ("x,y\n" + "".join(f"{i},n{i}\n" for i in range(9)), FIT, 1, "9 different texts in 9 rows, too many"),
        ("x,y\n1,\n2,\n", FIT, 1, "'y' holds no values"),
        ("x,y\n1,2\n", FIT, 1, "holds 1 row: at least 2"),
        ("x;y\n" + "".join(f"{i};€ {i}.000,5\n" for i in range(9)), FIT, 1, r"\('€ 0.000,5'\): write plain numbers"),
        ("x,y\n" + "".join(f'{i},"{i},000"\n' for i in range(9)), FIT, 1, r"\('0,000'\): write plain numbers"),
        (  # the value shown is one that is no number
            "x,y\n" + "".join(f"{i},{i}.5\n" for i in range(9)) + "".join(f'{i},"{i},000"\n' for i in range(1, 9)),
            FIT,
            1,
            r"\('1,000'\): write plain numbers",
        ),
        ("x,y\n1,2.5\n1,3.5\n", FIT, 1, "no input column is left.*same value in all rows"),
        ("y,x\n2.5,1\n", (*FIT, "--drop", "x"), 1, "nothing to learn from"),
        ("x,y\n1,2.5\n,3.5\n", (*FIT, "--missing", "drop"), 1, "no input column|at least 2 are needed"),
        ("x,y\n1,2\n", (*FIT, "--delimiter", "ab"), 1, "must be one character"),
        ("x,y\n1,2\n", (*FIT, "--encoding", "nonsense"), 1, "nonsense' is unknown"),
        ("x,y\n1,2\n", (*FIT[:4], "-o", "missing/m.lssvm"), 2, "folder 'missing' does not exist"),
        ("x,y\n1,2\n", FIT[:4], 2, "Missing option '-o'"),
        ("x,y\n1,2\n", (*FIT[:4], "-o", "table.csv"), 2, "'table.csv' is another file .* would be overwritten"),
        ("x,y\n1,2\n", (*FIT, "--report", "m.lssvm"), 2, "--report: 'm.lssvm' is another file"),
        ("x,y\n1,2\n", (*FIT, "--drop", "y"), 2, "--drop 'y': that is the target"),
        ("x,y\n1,2\n", (*FIT, "--categorical", "y"), 2, "--categorical 'y': that is the target.*--task classification"),
        ("x,y\n1,2\n", ("fit", "zzzzzz", *FIT[2:]), 1, "no file 'zzzzzz'. Check its name and its folder"),
        ("x,y\n1,2\n", ("predict", "none.lssvm", "table.csv"), 2, "does not exist"),
        ("x,y\n1,2\n", ("predict", "table.csv", "table.csv"), 1, "is no model file"),
        ("x,y\n1,2\n", ("inspect", "table.csv"), 1, "is no model file"),
        ("x,y\n1,2\n", ("fit", ".", *FIT[2:]), 1, "holds no Parquet files"),
        ("\0\1\2\0", FIT, 1, "is not text"),
    ],
)
def test_mistakes_get_a_message_that_says_what_to_do(run, folder, content, arguments, code, message):
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
        (
            "age,city\nforty,Oslo\n",
            (),
            "'age' holds a value that is no number \\('forty' in row 2\\): correct it, or leave",
        ),
        ("age,city\n1,Oslo\n", ("-o", "new.csv"), "'new.csv' is another file of this command"),
        ("age,city\n", (), "no rows below its header"),
        ("age,city\n1,Oslo\n", ("--proba",), "--proba is for classes"),
        ("age,city\n1,Oslo\n", ("--interval", "90"), "90 is no share between 0 and 1: 90 % is 0.9"),
        ("age,city\n1,Oslo\n", ("--interval", "0"), "0 is no share between 0 and 1, e.g. 0.9"),
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
    assert re.search(r"column 'age' holds .* no number \('inf' in row 4", result.stderr)
    assert run("fit", "rows.parquet", "-y", "price", "-o", "m.lssvm", "--categorical", "age").exit_code == 0
    assert "inf" in load("m.lssvm").table_["columns"][0]["categories"]


def test_mistakes_in_the_target_of_other_rows(run, folder, fitted):
    (folder / "other.csv").write_text("age,city,price\n1,Oslo,2\n2,Oslo,much\n")
    result = run("report", fitted, "other.csv")
    assert result.exit_code == 1
    assert "'price' holds a value that is no number ('much' in row 3): correct it;" in result.stderr
    assert "--task" not in result.stderr  # no option of report
    (folder / "other.csv").write_text("age,city,price\n1,Oslo,2\n")
    assert "1 complete row(s), at least 2 are needed" in run("report", fitted, "other.csv").stderr


def test_files_without_permission_are_named(run, folder, fitted, monkeypatch):
    def closed(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(
        "lssvm.tables.reading._is_parquet", closed
    )  # root reads everything, so that chmod shows nothing
    result = run("fit", "people.csv", "-y", "price", "-o", "m.lssvm")
    assert result.exit_code == 1
    assert result.stderr.strip().endswith(
        "no permission for 'people.csv': ask its owner for it, or choose another file."
    )
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != ".")
    for arguments in (("fit", "people.csv", "-y", "price", "-o", "m.lssvm"), ("report", fitted, "-o", "m.html")):
        result = run(*arguments)
        assert result.exit_code == 2
        assert "the folder '.' may not be written to" in result.stderr


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
    assert load("m.lssvm").table_["columns"][1]["categories"][0] == "Köln"


def test_without_pyarrow_the_extra_is_named(run, folder, fitted, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for arguments in (("fit", "people.csv", "-y", "price", "-o", "m.lssvm"), ("predict", fitted, "people.csv")):
        result = run(*arguments)
        assert result.exit_code == 1
        assert 'pip install "lssvm[files]"' in result.stderr


# Escape sequences -----------------------------------------------------------------------------------------------------
STEERING = "\x1b]0;title\x07\x1b[31m\x9b2J\u202e"  # a title, a colour, a clear screen (C1), a reversed direction


@pytest.fixture
def steering(folder):
    """A table whose names, categories and labels would steer a terminal."""
    rows = [
        (str(age), f"{city}{STEERING}", f"{age > 50}{STEERING}") for age, city, _ in zip(AGE, CITY, PRICE, strict=True)
    ]
    names = [f"{name}{STEERING}" for name in ("age", "city", "old")]
    (folder / f"rows{STEERING}.csv").write_text(lines(rows, names), encoding="utf-8")
    return f"rows{STEERING}.csv", names


@pytest.mark.skipif(os.name != "posix", reason="names of files")
def test_text_of_the_data_does_not_steer_the_terminal(run, folder, steering):
    data, (age, city, old) = steering
    model, page = f"m{STEERING}.lssvm", f"r{STEERING}.html"
    rome = f"rome{STEERING}.csv"
    (folder / rome).write_text(f'{age},{city}\n40,"Rome{STEERING}\nfake: line"\n', encoding="utf-8")
    (folder / "gaps.csv").write_text(f"{age},{city},{old}\n,,yes\n1,,no\n", encoding="utf-8")
    commands = [
        ("fit", data, "-y", old, "-o", model, "--report", page),
        ("fit", data, "-y", "nothing", "-o", model),
        ("fit", rome, "-y", old, "-o", model),
        ("fit", "gaps.csv", "-y", old, "-o", model),
        ("fit", f"no{STEERING}", "-y", old, "-o", model),
        ("fit", data, "-y", old, "-o", f"no{STEERING}/m.lssvm"),
        ("inspect", model),
        ("predict", model, rome, "-o", "p.csv"),
        ("predict", model, "people.csv"),
        ("report", model, rome),
        ("export", model, "--to", "python", "-o", "m.py"),
    ]
    for command in commands:
        result = run(*command)
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", result.output), command
        assert "Traceback" not in result.output
        assert not any(line.startswith("fake") for line in result.output.splitlines())
        assert "\\u001b" in result.output or "\\x1b" in result.output  # spelled out
    assert (folder / page).exists()


@pytest.mark.skipif(os.name != "posix", reason="terminals")
@pytest.mark.parametrize("options", [[], ["--json"]], ids=["csv", "json"])
def test_predictions_are_escaped_on_a_terminal_only(run, folder, steering, options):
    import pty

    data, names = steering
    assert run("fit", data, "-y", names[2], "-o", "m.lssvm").exit_code == 0
    piped = run("predict", "m.lssvm", data, *options).stdout
    if not options:
        assert {line for line in piped.splitlines()[1:]} == {f"{own}{STEERING}" for own in (True, False)}
    reader, writer = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, "predict", "m.lssvm", data, *options], stdout=writer, stderr=subprocess.DEVNULL
    )
    os.close(writer)
    shown = b""
    with contextlib.suppress(OSError):  # a terminal whose other end is closed
        while part := os.read(reader, 65536):
            shown += part
    os.close(reader)
    assert process.wait(60) == 0
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", shown.decode().replace("\r\n", "\n"))
    assert shown.count(b"\\u202e") == 60
    if options:
        values = [json.loads(line) for line in shown.decode().splitlines()]
        assert values == [json.loads(line) for line in piped.splitlines()]


@pytest.mark.parametrize(
    ("labels", "formulas"),
    [
        (("=1+1", "ok"), {"=1+1"}),
        (("@SUM(A1)", "+cmd|x!A0"), {"@SUM(A1)", "+cmd|x!A0"}),
        (("-2+3", "-2"), {"-2+3"}),
        (("+1", "-1"), set()),
        (("+1", "-1.5", "x"), set()),  # texts that are numbers
        (("+", "-"), set()),
        (("a=b", "c-d"), set()),
    ],
)
def test_class_names_that_are_formulas_are_escaped(run, folder, labels, formulas):
    rows = [(str(age), labels[age % len(labels)]) for age in AGE]
    (folder / "c.csv").write_text(lines(rows, ("age", "class")))
    assert run("fit", "c.csv", "-y", "class", "-o", "c.lssvm").exit_code == 0
    objects = run("predict", "c.lssvm", "c.csv", "--json").stdout.splitlines()
    predicted = [str(json.loads(line)["prediction"]) for line in objects]
    result = run("predict", "c.lssvm", "c.csv")
    assert result.stdout.splitlines()[1:] == [f"'{label}" if label in formulas else label for label in predicted]
    assert ("--raw" in result.stderr) == bool(formulas)
    raw = run("predict", "c.lssvm", "c.csv", "--raw")
    assert raw.stdout.splitlines()[1:] == predicted
    assert "--raw" not in raw.stderr


# Processes ------------------------------------------------------------------------------------------------------------
PROGRAM = [sys.executable, "-c", "from lssvm.cli import main; main()"]


def test_a_closed_pipe_leaves_no_traceback(folder, fitted):
    (folder / "many.csv").write_text(lines(ROWS * 500), encoding="utf-8")
    process = subprocess.Popen(
        [*PROGRAM, "predict", fitted, "many.csv"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "prediction\n"
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 1
    assert "Traceback" not in errors
    assert "Exception" not in errors


@pytest.mark.skipif(os.name != "posix", reason="shell")
@pytest.mark.parametrize(
    ("arguments", "code", "errors"),
    [
        ("predict MODEL people.csv >&-", 1, "Error: standard output is closed: give -o FILE.\n"),
        ("inspect MODEL >&-", 1, "Error: standard output is closed: redirect it to a file.\n"),
        ("predict MODEL people.csv > p.csv 2>&-", 0, ""),
        ("predict MODEL nothing.csv 2>&-", 1, ""),
    ],
)
def test_closed_streams_leave_no_traceback(folder, fitted, arguments, code, errors):
    command = shlex.join(PROGRAM) + " " + arguments.replace("MODEL", shlex.quote(str(fitted)))
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert result.returncode == code
    assert result.stderr.startswith(errors)
    assert result.stderr.count("\n") == (errors != "")
    assert result.stdout == ""  # errors do not go there either
    if code == 0:
        assert len((folder / "p.csv").read_text().splitlines()) == 61


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("wait", [0.0, 0.3, 0.9])
def test_interrupt_leaves_the_previous_model_and_no_traceback(folder, wait):
    rows = RNG.normal(size=(2000, 6)).round(4).astype(str)
    (folder / "wide.csv").write_text(lines(rows, tuple("abcdef")))
    (folder / "m.lssvm").write_bytes(b"the model before")
    command = [*PROGRAM, "fit", "wide.csv", "-y", "f", "-o", "m.lssvm", "--report", "r.html"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # which a shell's background jobs ignore
    )
    said = process.stderr.readline()  # the fit is about to start
    assert said.startswith("task: regression")
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(wait)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert errors.strip() == "Aborted!"
    assert output == ""
    assert (folder / "m.lssvm").read_bytes() == b"the model before"
    assert sorted(path.name for path in folder.iterdir()) == ["m.lssvm", "people.csv", "wide.csv"]


def on_terminal(terminal, *arguments, chunks=False):
    """Standard output and standard error of a command, perhaps through chunks; the latter a terminal or a pipe."""
    import pty

    script = f"from lssvm import cli; cli.predicting.PIECE = 7; cli.fitting.MEMORY_SHARE *= {not chunks}; cli.main()"
    reader, writer = pty.openpty() if terminal else os.pipe()
    command = [sys.executable, "-c", script, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=writer, text=True)
    os.close(writer)
    shown = b""
    while True:
        try:
            part = os.read(reader, 65536)
        except OSError:  # a terminal whose other end is closed
            break
        if not part:
            break
        shown += part
    os.close(reader)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return output, shown


@pytest.mark.skipif(os.name != "posix", reason="terminals")
@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_shown_on_a_terminal_only(folder, terminal):
    output, shown = on_terminal(terminal, "fit", "people.csv", "-y", "price", "-o", "m.lssvm", chunks=True)
    assert "leave-one-out RMSE" in output
    assert b"task: regression" in shown
    assert (b"pass 1" in shown) == terminal
    assert (b"\r" in shown) == terminal
    assert (b"reading: 60 rows" in shown) == terminal
    planned = re.findall(rb"choosing kernel and C on a sample of the rows: (\d+)%", shown)
    assert planned == sorted(planned, key=int)
    assert len(set(planned)) > 10 * terminal - 1
    assert set(re.findall(rb"pass \d+", shown)) == ({b"pass 1", b"pass 2", b"pass 3"} if terminal else set())
    _, shown = on_terminal(terminal, "predict", "m.lssvm", "people.csv", "-o", "predictions.csv")
    assert (b"predicting  [" in shown) == terminal
    assert shares(shown) == ([min(100, 700 * piece // 60) for piece in range(10)] if terminal else [])
    _, shown = on_terminal(terminal, "report", "m.lssvm")
    assert shown.startswith(b"\r") == terminal


def shares(shown):
    """The percentages of a bar."""
    return list(dict.fromkeys(int(share) for share in re.findall(rb"(\d+)%", shown)))


@pytest.mark.skipif(os.name != "posix", reason="terminals")
@pytest.mark.parametrize("options", [[], ["--json"]], ids=["", "json"])
@pytest.mark.parametrize("terminal", [True, False])
def test_a_fit_in_memory_shows_how_far_it_is(folder, terminal, options):
    output, shown = on_terminal(terminal, "fit", "people.csv", "-y", "price", "-o", "m.lssvm", *options)
    assert "Matern" in output or "RBF" in output
    if not terminal or options:
        assert b"\r" not in shown.replace(b"\r\n", b"\n")
        return
    assert b"fitting 60 rows, 4 columns  [" in shown
    steps = shares(shown)
    assert steps == sorted(steps)
    assert len(steps) > 10
    assert steps[0] < 10
    assert steps[-1] == 100
    assert shown.count(b"100%") == 1  # not before the end


def test_predictions_to_a_terminal_have_no_bar_among_them(folder, fitted):
    output, shown = on_terminal(True, "predict", str(fitted), "people.csv")
    assert len(output.splitlines()) == 61
    assert shares(shown) == []


def test_the_size_of_the_pieces_does_not_matter(run, folder, fitted, monkeypatch):
    whole = run("predict", fitted, "people.csv", "--interval", "0.9")
    monkeypatch.setattr(cli.predicting, "PIECE", 7)
    pieces = run("predict", fitted, "people.csv", "--interval", "0.9")
    assert pieces.stderr == whole.stderr
    found, expected = (list(csv.reader(result.stdout.splitlines())) for result in (pieces, whole))
    assert found[0] == expected[0]
    np.testing.assert_allclose(np.array(found[1:], float), np.array(expected[1:], float), rtol=1e-11)
