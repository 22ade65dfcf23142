"""`lssvm fit`: models, missing values and tables larger than the memory."""

import datetime
import json
import os
import re
import runpy

import numpy as np
import pytest
from cli_cases import AGE, CITY, NAMES, PRICE, ROWS, lines, people, planned, read_table, rounding

from lssvm import LSSVR, arrays, cli, diagnose, load
from lssvm.cli import reading
from lssvm.cli.reading import open_table
from lssvm.cli.roles import Rows


def test_fit_is_that_of_python_and_its_columns_travel(fitted):
    model = load(fitted)
    expected = LSSVR().fit(people(), [float(price) for _, _, price in ROWS])
    np.testing.assert_allclose(model.predict(people()), expected.predict(people()), rtol=1e-12)
    assert diagnose.member_words(model) == diagnose.member_words(expected)
    assert list(model.feature_names_in_) == ["age", "city"]
    assert model.fitted_.layout.columns == expected.fitted_.layout.columns
    assert not {"columns", "labels"} & model.table_.keys()  # there is no second description of the columns


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
    assert '<th scope="row">age</th>' in page
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


DECADES = [(*row, str(age // 10)) for row, age in zip(ROWS, AGE, strict=True)]


@pytest.mark.slow
def test_groups_are_left_out_together(run, folder):
    (folder / "decades.csv").write_text(lines(DECADES, (*NAMES, "decade")))
    result = run("fit", "decades.csv", "-y", "price", "-o", "g.lssvm", "--group", "decade")
    assert result.exit_code == 0, result.output
    model, expected = load("g.lssvm"), LSSVR().fit(people(), PRICE, groups=AGE // 10)
    np.testing.assert_allclose(model.loo_residuals_, expected.loo_residuals_, rtol=1e-6, atol=1e-6)
    assert list(model.feature_names_in_) == ["age", "city"]
    table = read_table(result.stdout)
    assert table["group"] == "decade"
    assert float(table["leave-group-out RMSE"]) == pytest.approx(diagnose.scores(model)["rmse"], rel=1e-3)


@pytest.mark.parametrize("spelling", ["number", "%Y-%m-%d", "%d.%m.%Y"])
def test_blocks_of_time_are_left_out(folder, spelling):
    days = np.random.RandomState(0).permutation(60) // 2  # two rows per day
    dates = [datetime.date(2024, 1, 20) + datetime.timedelta(days=int(day)) for day in days]
    texts = [
        str(day) if spelling == "number" else date.strftime(spelling) for day, date in zip(days, dates, strict=True)
    ]
    rows = [(*row, text) for row, text in zip(ROWS, texts, strict=True)]
    roles, _, _ = planned(lines(rows, (*NAMES, "day")), folder, "price", time="day")
    found = Rows(open_table("table.csv"), roles)
    found.all()
    assert np.array_equal(found.groups, days // 3)


def test_groups_that_are_refused(run, folder, monkeypatch):
    (folder / "decades.csv").write_text(lines(DECADES, (*NAMES, "decade")))
    result = run("fit", "decades.csv", "-y", "price", "-o", "g.lssvm", "--group", "price")
    assert result.exit_code == 2
    assert "--group 'price': this is the target (-y); give another column." in result.stderr
    for options, message in (
        (("--time", "decade", "--group", "decade"), "--group and --time cannot be combined"),
        (
            ("--time", "city"),
            "--time: column 'city' of decades.csv contains 'Paris' in row 2: every row needs a number",
        ),
    ):
        result = run("fit", "decades.csv", "-y", "price", "-o", "g.lssvm", *options)
        assert result.exit_code in (1, 2)
        assert message in result.stderr
    (folder / "gaps.csv").write_text(lines([*DECADES, (*ROWS[0], "")], (*NAMES, "decade")))
    result = run("fit", "gaps.csv", "-y", "price", "-o", "g.lssvm", "--group", "decade")
    assert result.exit_code == 1
    assert "gaps.csv: column 'decade' is empty in row 62: with --group or --time, every row needs" in result.stderr
    days = [f"{1 + k % 28}/{1 + k // 28}/2024" for k in range(len(DECADES))]
    for cell, message in (
        ("", "column 'day' is empty in row 7"),
        ("soon", "contains dates (.*) and 'soon' in row 7: "),
    ):
        rows = [(*row, cell if k == 5 else day) for k, (row, day) in enumerate(zip(DECADES, days, strict=True))]
        (folder / "days.csv").write_text(lines(rows, (*NAMES, "decade", "day")))
        result = run("fit", "days.csv", "-y", "price", "-o", "g.lssvm", "--time", "day")
        assert result.exit_code == 1
        assert re.search(message, result.stderr)
    monkeypatch.setattr(cli.fitting, "MEMORY_SHARE", 0.0)
    result = run("fit", "decades.csv", "-y", "price", "-o", "g.lssvm", "--group", "decade")
    assert result.exit_code == 1
    assert "--group and --time need all 60 rows in memory" in result.stderr


def test_the_scale_of_the_targets_is_an_option_of_regression(run, folder):
    result = run("fit", "people.csv", "-y", "price", "-o", "s.lssvm", "--target-scale", "log")
    assert result.exit_code == 0, result.output
    model, expected = load("s.lssvm"), LSSVR(target="log").fit(people(), PRICE)
    np.testing.assert_allclose(model.loo_residuals_, expected.loo_residuals_, rtol=1e-6, atol=1e-6)
    assert "of targets on the scale log" in result.stdout
    result = run("fit", "people.csv", "-y", "city", "-o", "s.lssvm", "--target-scale", "log")
    assert result.exit_code == 2
    assert "--target-scale is for numbers, but 'city' contains classes" in result.stderr


def test_loss_and_coding_are_options_of_classification(run, folder):
    for option, value in (("--loss", "logistic"), ("--coding", "one-vs-one")):
        result = run("fit", "people.csv", "-y", "price", "-o", "m.lssvm", option, value)
        assert result.exit_code == 2
        assert f"{option} is for classification, but 'price' contains numbers" in result.stderr
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
    assert "one class against the rest, got loss='logistic', coding='auto': write loss='squared'" in result.stderr
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


def holed(*rows):
    """The inputs of that file, or those of some of its rows."""
    age, city = AGE.astype(float), CITY.astype(object)
    age[3], city[7] = np.nan, None
    kept = np.delete(np.arange(60), rows)
    return people(age[kept], city[kept]), PRICE[kept]


@pytest.mark.parametrize("word", ["NaN", " "])
def test_missing_values_are_those_of_a_frame(run, gaps, word):
    text = (gaps / "gaps.csv").read_text(encoding="utf-8")
    rows = [[word if cell in ("", "NA", "?") else cell for cell in line.split(",")] for line in text.splitlines()]
    (gaps / "gaps.csv").write_text(lines(rows[1:]), encoding="utf-8")
    result = run("fit", "gaps.csv", "-y", "price", "-o", "m.lssvm")
    assert result.exit_code == 0, result.output
    assert "missing cells: 'age' 1, 'city' 1\n" in result.stderr
    assert "rows without a value of 'price' are dropped: 1\n" in result.stderr
    model = load("m.lssvm")
    assert model.table_["dropped"] == [9]
    expected = LSSVR().fit(*holed(9))
    assert model.fitted_.layout.columns == expected.fitted_.layout.columns
    np.testing.assert_allclose(model.loo_predictions_, expected.loo_predictions_, rtol=1e-8)
    found = run("predict", "m.lssvm", "gaps.csv")
    assert "on 59 rows with 'price'" in found.stderr
    np.testing.assert_allclose(np.array(found.stdout.split()[1:], float), expected.predict(holed()[0]), rtol=1e-8)


@pytest.mark.filterwarnings("ignore:Rounding errors")  # the targets are free of noise
def test_rows_with_missing_values_are_dropped_and_numbers_stay(run, gaps):
    result = run("fit", "gaps.csv", "-y", "price", "-o", "m.lssvm", "--missing", "drop", "--drop", "city")
    assert "missing cells: 'age' 1\nrows without a value of 'price' are dropped: 1\n" in result.stderr
    assert "rows with missing cells are dropped: 1\n" in result.stderr
    model = load("m.lssvm")
    assert model.table_["dropped"] == [3, 9]
    X, y = holed(3, 9)
    expected = LSSVR().fit(X.drop_columns("city"), y)
    np.testing.assert_allclose(model.loo_predictions_, expected.loo_predictions_, rtol=1e-8)
    found = run("predict", "m.lssvm", "gaps.csv").stdout.split()[1:]  # the missing age is filled in
    np.testing.assert_allclose(np.array(found, float), expected.predict(holed()[0].drop_columns("city")), rtol=1e-8)
    result = run("fit", "gaps.csv", "-y", "price", "-o", "m.lssvm", "--missing", "drop")
    assert load("m.lssvm").table_["dropped"] == [3, 9]  # NA is a value among other words
    assert "NA" in load("m.lssvm").fitted_.layout.columns.columns[1].values


def test_categories_are_reported_and_identifiers_are_not_among_them(run, folder):
    rows = [(*row[:2], f"p{i:03d}", row[2]) for i, row in enumerate(ROWS)]
    (folder / "people.csv").write_text(lines(rows, ("age", "city", "id", "price")), encoding="utf-8")
    result = run("fit", "people.csv", "-y", "price", "-o", "m.lssvm")
    assert "treated as categorical: 'city' (3)\n" in result.stderr
    assert [line for line in result.stderr.splitlines() if "'id'" in line] == [
        "warning: X: column 'id' is ignored, because it looks like an identifier: 60 of its 60 values are distinct. "
        "Drop it, or convert it to numbers if its values are numeric."
    ]


def test_categories_of_words_and_numbers_to_predict(run, folder, fitted):
    """The command line and Python agree: numbers are refused, unless some categories are numbers."""
    (folder / "new.csv").write_text("age,city\n30,7\n40,Oslo\n")
    assert "city=7 (1 row)" in run("predict", fitted, "new.csv").stderr  # text, because Oslo is text
    with pytest.raises(ValueError, match="column 'city' contained text in fit, but now contains numbers"):
        load(fitted).predict(people().set_column(1, "city", [AGE.astype(float)]))
    coded = [(row[0], str(list("KOP").index(row[1][0])), row[2]) for row in ROWS]
    (folder / "codes.csv").write_text(lines(coded), encoding="utf-8")
    assert run("fit", "codes.csv", "-y", "price", "--categorical", "city", "-o", "m.lssvm").exit_code == 0
    write = pytest.importorskip("pyarrow.parquet").write_table
    numbers = people().set_column(1, "city", [np.array([int(row[1]) for row in coded[1:]] + [77])])
    write(numbers, "numbers.parquet")
    result = run("predict", "m.lssvm", "numbers.parquet")
    assert "city=77 (1 row)" in result.stderr
    model = load("m.lssvm")
    found = np.array(result.stdout.split()[1:], float)
    np.testing.assert_allclose(found, model.predict(numbers), rtol=0, atol=2 * rounding(model))


def test_words_that_are_values_and_words_that_are_missing(run, folder):
    words = ["none", "no", "na", "n/a", "yes", "NA", "None"]
    numbers = ["1.5", "2.5", "NA", "none", "", "?", "NaN", "n/a", "7"]
    rows = [(words[i % 7], numbers[i % 9], f"{i % 7 + i % 5}.5") for i in range(90)]
    (folder / "words.csv").write_text(lines(rows, ("word", "x", "y")))
    result = run("fit", "words.csv", "-y", "y", "-o", "m.lssvm")
    assert result.exit_code == 0, result.output
    assert "missing cells: 'x' 60\n" in result.stderr
    word, x = load("m.lssvm").fitted_.layout.columns.columns
    assert word.values == tuple(sorted(words))
    assert not word.missing
    assert (x.kind, x.median) == ("number", 2.5)
    assert x.height > 0


def test_classes_that_may_denote_missing_values_are_reported(run, folder):
    rows = [(str(age), ["low", "NA"][int(age > 50)]) for age in AGE]
    (folder / "c.csv").write_text(lines(rows, ("age", "class")))
    result = run("fit", "c.csv", "-y", "class", "-o", "c.lssvm")
    assert "the class 'NA' of 'class' may denote missing cells" in result.stderr
    assert list(load("c.lssvm").classes_) == ["NA", "low"]
    rows = [(age, "NA" if place % 9 == 5 else {"NA": "01", "low": "02"}[c]) for place, (age, c) in enumerate(rows)]
    (folder / "c.csv").write_text(lines(rows, ("age", "class")))
    result = run("fit", "c.csv", "-y", "class", "-o", "c.lssvm")  # codes of digits
    assert "rows without a value of 'class' are dropped: 7\n" in result.stderr
    assert list(load("c.lssvm").classes_) == ["01", "02"]
    assert "on 53 rows with 'class'" in run("predict", "c.lssvm", "c.csv").stderr


# Chunks ---------------------------------------------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_table_larger_than_the_memory_goes_through_chunks(run, folder, monkeypatch, kind):
    monkeypatch.setattr(cli.fitting, "MEMORY_SHARE", 0.0)
    monkeypatch.setattr(reading, "BATCH_CELLS", 75)
    price = PRICE + np.random.RandomState(1).normal(0, 20, 60).round(2)
    rows = [(age, city, str(y)) for (age, city, _), y in zip(ROWS, price, strict=True)]
    rows[50] = ("", *rows[50][1:])
    (folder / "gaps.csv").write_text(lines(rows), encoding="utf-8")
    name = "gaps.csv"
    if kind == "parquet":
        name = "gaps.parquet"
        from pyarrow import parquet, table

        age = [None if place == 50 else int(value) for place, value in enumerate(AGE)]
        parquet.write_table(table({"age": age, "city": CITY, "price": price}), name, row_group_size=7)
    result = run("fit", name, "-y", "price", "-o", "m.lssvm", "--report", "m.html")
    assert result.exit_code == 0, result.output
    assert "read in chunks" in result.stderr
    model = load("m.lssvm")
    age = np.where(np.arange(60) == 50, np.nan, AGE)
    expected = LSSVR().fit_chunks([(people(age), price)])
    np.testing.assert_allclose(model.loo_predictions_, expected.loo_predictions_, rtol=1e-6)
    found = run("predict", "m.lssvm", name, "--interval", "0.9").stdout.splitlines()
    ends = np.array([line.split(",")[1:] for line in found[1:]], dtype=float)
    np.testing.assert_allclose(ends, expected.predict_interval(people(age), 0.9), rtol=1e-6)
    assert run("fit", name, "-y", "price", "-o", "m.lssvm", "--missing", "drop").exit_code == 0
    kept = np.delete(np.arange(60), 50)
    expected = LSSVR().fit_chunks([(people(AGE[kept], CITY[kept]), price[kept])])
    assert load("m.lssvm").table_["dropped"] == [50]
    np.testing.assert_allclose(load("m.lssvm").loo_predictions_, expected.loo_predictions_, rtol=1e-6)


def test_memory_that_holds_copies_of_files_counts_as_free(tmp_path, monkeypatch):
    table = tmp_path / "meminfo"
    monkeypatch.setattr(arrays.namespaces, "MEMORY_TABLE", table)
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 2**24, "SC_PAGE_SIZE": 4096}.get)
    table.write_text("MemTotal: 16000000 kB\nMemFree: 50000 kB\nMemAvailable: 12000000 kB\n")
    assert cli.fitting._free_memory() == 12_000_000 * 1024
    assert not cli.fitting._needs_chunks(20_000, 10)
    table.write_text("MemFree: 12000000 kB\nMemAvailable: 50000 kB\n")
    assert cli.fitting._needs_chunks(20_000, 10)
    table.write_text("other")
    assert 2**20 < cli.fitting._free_memory() < 2**50
    table.unlink()
    assert 2**20 < cli.fitting._free_memory() < 2**50


@pytest.mark.slow
def test_counts(run, folder):
    """--task count is --loss poisson, and so are targets that look like counts."""
    draw = np.random.RandomState(0)
    x = draw.uniform(-2, 2, 120)
    y = draw.poisson(np.exp(0.5 * x))
    rows = [(f"{a:.4f}", str(b)) for a, b in zip(x, y, strict=True)]
    (folder / "counts.csv").write_text(lines(rows, ("x", "visits")), encoding="utf-8")
    for options in ((), ("--task", "count"), ("--loss", "poisson")):
        result = run("fit", "counts.csv", "-y", "visits", "-o", "m.lssvm", *options)
        assert result.exit_code == 0, result.output
        assert load("m.lssvm").loss == "poisson"
        assert read_table(result.stdout)["task"] == "count"
        assert ("task: count ('visits' has" in result.stderr) == (not options)
    loaded, direct = load("m.lssvm"), LSSVR(loss="poisson").fit(x.round(4)[:, None], y)
    np.testing.assert_allclose(loaded.loo_predictions_, direct.loo_predictions_, rtol=1e-12)
    predicted = run("predict", "m.lssvm", "counts.csv", "--interval", "0.9")
    assert min(float(line.split(",")[1]) for line in predicted.stdout.splitlines()[1:]) >= 0.0
    result = run("fit", "counts.csv", "-y", "visits", "-o", "m.lssvm", "--loss", "gamma")
    assert result.exit_code == 1
    assert "loss='gamma' needs positive targets, but y contains 0" in result.stderr
    result = run("fit", "people.csv", "-y", "city", "-o", "m.lssvm", "--loss", "poisson")
    assert result.exit_code == 1
    assert "--task classification" in result.stderr


def write_raw(folder):
    """Prices, dates and booleans as text, in CSV and as dates of Parquet; the last column is the target."""
    from pyarrow import csv, parquet, table

    draw = np.random.RandomState(1)
    price, hours = np.exp(draw.normal(6, 1, 50)), draw.randint(0, 800 * 24, 50)
    times = np.datetime64("2020-01-01T00:00:00") + hours.astype("timedelta64[h]")
    y = np.log(price) + np.cos(2 * np.pi * hours / 24)
    columns = {
        "price": ["unknown" if k == 40 else f"${cell:,.2f}" for k, cell in enumerate(price)],
        "when": [f"{t.astype(object):%d/%m/%Y %H:%M}" for t in times],
        "vip": [["Yes", "no"][k % 2] for k in range(50)],
        "land": [["DE", "de", "FR", "Fr"][k % 4] for k in range(50)],
        "earned": [f"{1000 * cell:,.2f} EUR" for cell in y],
    }
    csv.write_csv(table(columns), folder / "raw.csv")
    parquet.write_table(table({**columns, "when": times}), folder / "raw.parquet")
    return columns, 1000 * y


def test_raw_cells_of_files_are_understood(folder, run):
    """As in a frame; predictions for dates as text and as dates are the same."""
    import pyarrow

    columns, y = write_raw(folder)
    result = run(
        "fit", "raw.csv", "-y", "earned", "-o", "m.lssvm", "--na", "unknown", "--merge-text", "--robust", "huber"
    )
    assert result.exit_code == 0, result.output
    assert "missing cells: 'price' 1" in result.stderr
    for understood in (
        "'price': numbers with the unit '$'",
        "'when': dates (day, month, year), with time of year, week",
    ):
        assert understood in result.stderr
    model = load("m.lssvm")
    cells = {**columns, "price": [None if cell == "unknown" else cell for cell in columns["price"]]}
    inputs = pyarrow.table(cells).drop_columns("earned")
    frame = LSSVR(robust="huber", merge_text=True).fit(inputs, np.round(y, 2))
    assert model.columns_ == frame.columns_
    np.testing.assert_allclose(model.loo_residuals_, frame.loo_residuals_, rtol=1e-6, atol=1e-6)
    found = [run("predict", "m.lssvm", name) for name in ("raw.csv", "raw.parquet")]
    assert found[0].stdout == found[1].stdout
    assert "root mean square error" in found[0].stderr
    assert "unknown to the model" not in found[0].stderr
    assert "when (dates (day, month, year), with" in run("inspect", "m.lssvm").stdout
    text = (folder / "raw.csv").read_text()
    (folder / "bad.csv").write_text(text.replace(columns["price"][5], "dear"))
    failed = run("predict", "m.lssvm", "bad.csv")
    assert (failed.exit_code, failed.stdout) == (1, "")
    assert (
        "bad.csv: column 'price' contains a value that does not fit numbers with the unit '$' ('dear' in row 7)"
        in failed.stderr
    )
    assert "cannot be exported" in run("export", "m.lssvm", "--to", "c").stderr
