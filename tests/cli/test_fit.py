"""`lssvm fit`: models, missing values and tables larger than the memory."""

import json
import runpy

import numpy as np
import pytest
from cli_cases import AGE, CITY, ENCODED, NAMES, PRICE, ROWS, lines, named, read_table

from lssvm import LSSVR, cli, diagnose, load, tables


def test_fit_is_that_of_python_and_its_columns_travel(fitted):
    model = load(fitted)
    expected = LSSVR().fit(ENCODED, PRICE)
    np.testing.assert_allclose(model.predict(named(ENCODED)), expected.predict(ENCODED), rtol=1e-9)
    assert diagnose.member_words(model) == diagnose.member_words(expected)
    assert list(model.feature_names_in_) == ["age", "city=Köln", "city=Oslo", "city=Paris"]
    assert model.table_["columns"][1] == {"name": "city", "categories": ["Köln", "Oslo", "Paris"], "fill": None}


def test_one_command_from_a_table_to_a_report(run, folder):
    labels = np.where(AGE > 50, "old", "young")
    (folder / "labels.csv").write_text(lines([(*row, v) for row, v in zip(ROWS, labels, strict=True)], (*NAMES, "who")))
    result = run("fit", "labels.csv", "-y", "who", "-o", "who.lssvm", "--report", "who.html")
    assert result.exit_code == 0, result.output
    assert "task: classification ('who' has 2 classes: old, young)" in result.stderr
    table = read_table(result.stdout)
    assert table["target"] == "who"
    assert float(table["leave-one-out error rate"]) < 0.1
    page = (folder / "who.html").read_text(encoding="utf-8")
    assert "<h1>Model of who</h1>" in page
    assert "city=K" in page
    assert "lssvm predict who.lssvm" in page


def test_fit_prints_json(run, folder):
    result = run("fit", "people.csv", "-y", "price", "-o", "m.lssvm", "--robust", "hampel", "--json")
    values = json.loads(result.stdout)
    assert values["rows"] == 60
    assert values["leave_one_out_RMSE"] < 10
    assert load("m.lssvm").robust == "hampel"


def test_columns_that_hardly_help_cause_a_warning(run, folder):
    rows = np.random.RandomState(1).normal(size=(40, 2)).round(3)
    (folder / "noise.csv").write_text(lines(rows.astype(str), ("x", "y")))
    result = run("fit", "noise.csv", "-y", "y", "-o", "n.lssvm")
    assert result.exit_code == 0
    assert not diagnose.beats_constant(load("n.lssvm"))
    assert "no smaller than that of a constant" in result.stderr
    assert "Give C or sigma" not in result.stderr
    assert "constant" not in run("fit", "people.csv", "-y", "price", "-o", "p.lssvm").stderr


def test_classes_keep_their_kind(run, folder):
    for values, kind in ((["-1", "1"], "i"), (["no", "yes"], "U")):
        rows = [(str(age), values[int(age > 50)]) for age in AGE]
        (folder / "c.csv").write_text(lines(rows, ("age", "class")))
        assert run("fit", "c.csv", "-y", "class", "-o", "c.lssvm").exit_code == 0
        assert load("c.lssvm").classes_.dtype.kind == kind
        result = run("predict", "c.lssvm", "c.csv", "--proba")
        assert result.stdout.splitlines()[0] == f"prediction,P({values[0]}),P({values[1]})"
        assert result.stdout.splitlines()[1].split(",")[0] == rows[0][1]


def test_loss_and_coding_of_a_classifier(run, folder):
    rows = [(str(age), city, str(np.digitize(age, [40, 60]))) for age, city in zip(AGE, CITY, strict=True)]
    (folder / "c.csv").write_text(lines(rows, ("age", "city", "class")), encoding="utf-8")
    options = ("--task", "classification", "--loss", "logistic", "--coding", "one-vs-one")
    result = run("fit", "c.csv", "-y", "class", "-o", "c.lssvm", *options)
    assert result.exit_code == 0, result.output
    for table in (read_table(result.stdout), read_table(run("inspect", "c.lssvm").stdout)):
        assert (table["coding"], table["loss"]) == ("one-vs-one", "logistic")
    assert (load("c.lssvm").loss, load("c.lssvm").coding) == ("logistic", "one-vs-one")
    assert run("report", "c.lssvm").exit_code == 0
    assert run("export", "c.lssvm", "--to", "python").exit_code == 0
    expected = run("predict", "c.lssvm", "c.csv").stdout.splitlines()[1:]
    module = runpy.run_path("c.py")
    assert [str(module["predict"](row[:2])) for row in rows] == expected


def test_loss_and_coding_are_options_of_classification(run, folder):
    for option, value in (("--loss", "logistic"), ("--coding", "one-vs-one")):
        result = run("fit", "people.csv", "-y", "price", "-o", "m.lssvm", option, value)
        assert result.exit_code == 2
        assert f"{option} is an option of classification, but 'price' holds numbers" in result.stderr
        assert "coding" not in run("fit", "people.csv", "-y", "price", "-o", "m.lssvm").stdout
    assert run("fit", "people.csv", "-y", "price", "-o", "m.lssvm", "--loss", "hinge").exit_code == 2


def test_losses_that_need_all_rows_are_refused_in_chunks(run, folder, monkeypatch):
    monkeypatch.setattr(cli.fitting, "_free_memory", lambda: 1)
    labels = np.where(AGE > 50, "old", "young")
    (folder / "l.csv").write_text(
        lines([(str(age), who) for age, who in zip(AGE, labels, strict=True)], ("age", "who"))
    )
    result = run("fit", "l.csv", "-y", "who", "-o", "w.lssvm", "--loss", "logistic")
    assert result.exit_code == 1
    assert "--loss squared --coding one-vs-rest only" in result.stderr
    assert run("fit", "l.csv", "-y", "who", "-o", "w.lssvm", "--loss", "squared").exit_code == 0


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
    assert "rows are dropped: 'price' 1\n" in result.stderr
    assert "filled with the mean or with no category: 'age' 1, 'city' 1\n" in result.stderr
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
