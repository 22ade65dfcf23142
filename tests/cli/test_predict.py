"""`lssvm predict`: file formats, intervals and output files."""

import csv
import gzip
import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli_cases import AGE, CITY, PRICE, ROWS, lines, people, rounding, write_parquet
from click.testing import CliRunner

from lssvm import LSSVC, LSSVR, cli, kernels, load, save
from lssvm.cli import main, reading
from lssvm.persist import START


# File formats ---------------------------------------------------------------------------------------------------------
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


def write_folder(path):
    path.mkdir()
    from pyarrow import parquet, table

    for part in (slice(0, 25), slice(25, 60)):
        rows = table({"age": AGE[part], "city": CITY[part], "price": PRICE[part]})
        parquet.write_table(rows, path / f"part-{part.start}.parquet")
    (path / "_SUCCESS").touch()


def test_decimal_commas_that_are_not_inferred(run, folder, fitted):
    """Decimals below the rows from which the format is inferred, or between commas and quotation marks."""
    whole = [(age, city, "7") for age, city, _ in ROWS] * 2
    (folder / "late.csv").write_text(lines([*whole, ("40,5", "Oslo", "7")], delimiter=";"), encoding="utf-8")
    assert "'40,5' in row 122" in run("predict", fitted, "late.csv").stderr
    quoted = [(f'"{age},5"', city, "7") for age, city, _ in ROWS]
    (folder / "quoted.csv").write_text(lines(quoted), encoding="utf-8")
    for name, age in (("late.csv", [*AGE, *AGE, 40.5]), ("quoted.csv", AGE + 0.5)):
        city = CITY if len(age) == 60 else [*CITY, *CITY, "Oslo"]
        found = run("predict", fitted, name, "--decimal", ",").stdout.split()[1:]
        np.testing.assert_allclose(np.array(found, float), load(fitted).predict(people(age, city)), rtol=1e-9)
    (folder / "points.csv").write_text("age;city\n1.040,5;Oslo\n")  # thousands
    assert "'1.040,5' in row 2" in run("predict", fitted, "points.csv", "--decimal", ",").stderr
    (folder / "points.csv").write_text("age;city\n1.040;Oslo\n")
    assert "'1.040' in row 2" in run("predict", fitted, "points.csv", "--decimal", ",").stderr


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


@pytest.mark.slow
def test_predictions_import_what_they_need(folder, fitted):
    """Packages that would take longer to import than everything else."""
    pytest.importorskip("sklearn", minversion="1.7")  # 1.6 imports scipy.stats in another way
    command = [sys.executable, "-X", "importtime", "-m", "lssvm", "predict", fitted, "people.csv"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    found = {line.rpartition("|")[2].strip() for line in result.stderr.splitlines()}
    assert {"sklearn.base", "pyarrow"} <= found
    unused = {
        "matplotlib",
        "pandas.core",
        "scipy.optimize",
        "scipy.stats._stats_py",
        "sklearn.cluster",
        "sklearn.metrics",
    }
    assert not unused & found


def test_models_fitted_to_frames_in_python(run, folder):
    """Categories of words and of numbers, ranks, truth values and missing cells."""
    pandas = pytest.importorskip("pandas")
    draw = np.random.RandomState(0)
    frame = pandas.DataFrame(
        {"age": np.where(AGE[3] == AGE, np.nan, AGE), "city": CITY, "floor": draw.randint(0, 4, 60)}
    )
    frame["size"] = pandas.Categorical(draw.choice(["S", "M", "L"], 60), ["S", "M", "L"], ordered=True)
    frame["garden"], frame["mark"] = draw.rand(60) < 0.5, draw.choice(["?", "x"], 60)
    model = LSSVR(kernels.RBF(sigma=3.0), C=1.0, categorical_features=["city", "floor", "size", "mark"])
    ordered = LSSVR(kernels.RBF(sigma=3.0), C=1.0)
    for number, own in enumerate((model, ordered)):
        save(own.fit(frame, PRICE), f"m{number}.lssvm")
        frame.to_csv("frame.csv", index=False)
        result = run("predict", f"m{number}.lssvm", "frame.csv")
        assert result.stderr == ""  # no target, no unknown values
        np.testing.assert_allclose(np.array(result.stdout.split()[1:], float), own.predict(frame), rtol=1e-12)
    assert "without the name of the target" in run("report", "m0.lssvm", "frame.csv").stderr
    labels = np.array(["low", "middle", "high"])[np.digitize(PRICE, [100, 150])]
    save(LSSVC(kernels.RBF(sigma=3.0), C=1.0).fit(frame, labels), "c.lssvm")
    assert run("predict", "c.lssvm", "frame.csv").stdout.split()[1:] == load("c.lssvm").predict(frame).tolist()
    save(model.fit(frame, np.column_stack([PRICE, AGE])), "two.lssvm")
    assert "predicts several targets" in run("predict", "two.lssvm", "frame.csv").stderr


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("time\n1.5\n2\n\n3.25\n", ()),
        ('time\n"1.5"\n2\n3.25\n', ("--delimiter", ",")),
        ("time\n1,5\n2\n3,25\n", ()),
        ("time\n1,5\n2\n3,25\n", ("--delimiter", ";")),
        ("sep=;\ntime\n1,5\n2\n3,25\n", ()),
    ],
)
def test_a_model_of_one_column_predicts_a_file_of_one_column(run, folder, text, options):
    pandas = pytest.importorskip("pandas")
    model = LSSVR(kernels.RBF(sigma=3.0), C=1.0).fit(pandas.DataFrame({"time": AGE[:20] / 10}), PRICE[:20])
    save(model, "m.lssvm")
    (folder / "new.csv").write_text(text)
    result = run("predict", "m.lssvm", "new.csv", *options)
    assert result.exit_code == 0, result.stderr
    expected = model.predict(pandas.DataFrame({"time": [1.5, 2.0, 3.25]}))
    np.testing.assert_allclose([float(cell) for cell in result.stdout.split()[1:]], expected, rtol=1e-12)


def test_another_name_of_the_data_is_not_overwritten(run, folder, fitted):
    os.link("people.csv", "also.csv")
    content = (folder / "people.csv").read_bytes()
    result = run("predict", fitted, "people.csv", "-o", "also.csv")
    assert result.exit_code == 2
    assert "'also.csv' is also another file of this command and would be overwritten" in result.stderr
    assert (folder / "people.csv").read_bytes() == content
    Path("model.lssvm").symlink_to(fitted)
    assert "would be overwritten" in run("predict", fitted, "people.csv", "-o", "model.lssvm").stderr


@pytest.mark.parametrize("name", ["also.csv", "table/part.parquet"])
def test_a_file_in_the_folder_of_the_data_is_not_overwritten(run, folder, fitted, name):
    pytest.importorskip("pyarrow")
    Path("table").mkdir()
    write_parquet("table/part.parquet")
    os.link("table/part.parquet", "also.csv")
    content = Path("table/part.parquet").read_bytes()
    result = run("predict", fitted, "table", "-o", name)
    assert result.exit_code == 2
    assert f"'{name}' is also another file of this command and would be overwritten" in result.stderr
    assert Path("table/part.parquet").read_bytes() == content
    assert run("predict", fitted, "table", "-o", "table/new.csv").exit_code == 0


# Predictions ----------------------------------------------------------------------------------------------------------
def test_predictions_and_intervals_are_the_models(run, folder, fitted):
    model = load(fitted)
    result = run("predict", fitted, "people.csv", "--interval", "0.8", "-o", "out.csv")
    assert result.stdout == ""
    table = np.genfromtxt("out.csv", delimiter=",", names=True)
    np.testing.assert_allclose(table["prediction"], model.predict(people()), atol=2 * rounding(model))
    ends = np.column_stack([table["lower"], table["upper"]])
    np.testing.assert_allclose(ends, model.predict_interval(people(), 0.8))
    assert sorted(path.name for path in folder.iterdir()) == ["out.csv", "people.csv"]
    result = run("predict", fitted, "people.csv", "--interval", "0.999", "--json")
    assert result.stderr.count("warning: Intervals with coverage=0.999 are infinite with 60 rows") == 1
    first = json.loads(result.stdout.splitlines()[0])
    assert first["prediction"] == table["prediction"][0]
    assert (first["lower"], first["upper"]) == (None, None)  # 60 rows cannot cover 99.9 %


@pytest.mark.parametrize("cell", ["999999999", "1e300"])
def test_a_far_cell_changes_no_other_line(run, folder, cell):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 6))
    frame = pytest.importorskip("pandas").DataFrame(X, columns=list("abcdef"))
    save(LSSVR(kernels.Matern(3.0), C=10.0).fit(frame, np.sin(X.sum(axis=1))), folder / "m.lssvm")
    rows = [[repr(float(value)) for value in row] for row in rng.standard_normal((40, 6))]
    found = []
    for far in (rows[5][2], cell):
        table = [[*row[:2], far, *row[3:]] if number == 5 else row for number, row in enumerate(rows)]
        (folder / "new.csv").write_text("a,b,c,d,e,f\n" + "\n".join(map(",".join, table)) + "\n", encoding="utf-8")
        result = run("predict", "m.lssvm", "new.csv")
        assert result.exit_code == 0, result.stderr
        found.append(np.delete(np.array(result.stdout.split()[1:], dtype=float), 5))
    assert len(found[0]) == 39
    np.testing.assert_allclose(found[1], found[0], rtol=0, atol=1e-9)


def test_predictions_that_fail_midway_leave_the_previous_file(run, folder, fitted, monkeypatch):
    monkeypatch.setattr(reading, "BATCH_CELLS", 75)
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


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
def test_a_pipe_is_written_to_and_stays_a_pipe(run, folder, fitted, read_pipe):
    pytest.importorskip("matplotlib")
    os.mkfifo("pipe")
    for command, expected in (
        (["predict", fitted, "people.csv"], b"prediction"),
        (["fit", "people.csv", "-y", "price"], START),
        (["report", fitted], b"<!DOCTYPE html>"),
        (["export", fitted, "--to", "c"], b"/*"),
        (["demo"], b"\x89PNG"),
    ):
        content = read_pipe(folder / "pipe", lambda command=command: run(*command, "--output", "pipe"))
        assert expected in content[:100]


@pytest.mark.slow
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


@pytest.mark.slow
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


def test_sets_of_classes(run, folder):
    pandas = pytest.importorskip("pandas")
    rows = [(age, "=a" if float(age) > 40 else "b") for age, _, _ in ROWS]
    (folder / "labels.csv").write_text(lines(rows, ("age", "kind")), encoding="utf-8")
    assert run("fit", "labels.csv", "-y", "kind", "-o", "k.lssvm").exit_code == 0
    model = load("k.lssvm")
    ages = [float(age) for age, _ in rows]
    inside = model.predict_set(pandas.DataFrame({"age": ages}), 0.9)
    found = [
        json.loads(line)["set"]
        for line in run("predict", "k.lssvm", "labels.csv", "--set", "0.9", "--json").stdout.splitlines()
    ]
    assert found == [model.classes_[row].tolist() for row in inside]
    result = run("predict", "k.lssvm", "labels.csv", "--set", "0.95", "--per-class", "--json")
    inside = model.predict_set(pandas.DataFrame({"age": ages}), 0.95, class_conditional=True)
    assert (inside != model.predict_set(pandas.DataFrame({"age": ages}), 0.95)).any()
    assert [json.loads(line)["set"] for line in result.stdout.splitlines()] == [
        model.classes_[row].tolist() for row in inside
    ]
    table = list(csv.reader(run("predict", "k.lssvm", "labels.csv", "--set", "0.9999").stdout.splitlines()))
    assert table[0] == ["prediction", "set"]
    assert {row[1] for row in table[1:]} == {"'=a; b"}  # too few rows for this coverage: all classes


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


def test_unknown_categories_are_reported(run, folder, fitted):
    (folder / "rome.csv").write_text("age,city\n40,Rome\n40,Oslo\n41,Rome\n")
    result = run("predict", fitted, "rome.csv")
    assert "city=Rome (2 rows)" in result.stderr
    expected = load(fitted).predict(people([40, 40, 41], ["Rome", "Oslo", "Rome"]))
    np.testing.assert_allclose([float(cell) for cell in result.stdout.splitlines()[1:]], expected)
    (folder / "many.csv").write_text("age,city\n" + "".join(f"40,town {i}\n" for i in range(7)))
    (line,) = run("predict", fitted, "many.csv").stderr.splitlines()
    assert line.startswith("categories unknown to the model")
    assert line.endswith(": " + ", ".join(f"city=town {i} (1 row)" for i in range(7)))


def test_the_size_of_the_pieces_does_not_matter(run, folder, fitted, monkeypatch):
    whole = run("predict", fitted, "people.csv", "--interval", "0.9")
    monkeypatch.setattr(cli.models, "PIECE", 7)
    pieces = run("predict", fitted, "people.csv", "--interval", "0.9")
    assert pieces.stderr == whole.stderr
    found, expected = (list(csv.reader(result.stdout.splitlines())) for result in (pieces, whole))
    assert found[0] == expected[0]
    np.testing.assert_allclose(np.array(found[1:], float), np.array(expected[1:], float), rtol=1e-11)


# Explanations ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("classes", [None, ["high", "low"], ["high", "low", "middle"]], ids=["numbers", "two", "three"])
def test_contributions_of_the_columns_add_up(run, folder, classes):
    """They do so to the prediction or, for several classes, to the probability of the class that is predicted."""
    targets = PRICE if classes is None else np.array(classes)[np.argsort(np.argsort(PRICE)) * len(classes) // 60]
    kind, kernel = (LSSVR, kernels.Matern(ard=True)) if classes is None else (LSSVC, kernels.RBF())
    pairs = {"coding": "one-vs-one"} if np.size(classes) == 3 else {}
    model = kind(kernel, C=10.0, **pairs).fit(people(), targets)
    save(model, folder / "model.lssvm")
    (folder / "table.csv").write_text(lines())
    result = run("predict", "model.lssvm", "table.csv", "--explain", "--json")
    found = [json.loads(line) for line in result.stdout.splitlines()]
    sums = [row["mean"] + row["due to age"] + row["due to city"] for row in found]
    if classes is None:
        value = model.predict(people())
    else:
        value = model.decision_function(people()) if len(classes) == 2 else model.predict_proba(people()).max(axis=1)
    np.testing.assert_allclose(sums, value, rtol=1e-9, atol=1e-9)
