"""What the command line takes a column for: numbers, text, truth values, nothing."""

import csv
import runpy

import numpy as np
import pytest
from cli_cases import AGE, PRICE, ROWS, lines, planned, rounding

from lssvm import load
from lssvm.cli.reading import open_table
from lssvm.cli.roles import plan, scan
from lssvm.tables.formats import Format


# What a column is -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("values", "task", "labels"),
    [
        (["1.5", "2.5", "3.5", "4"] * 5, "regression", ""),
        (["0", "1"] * 10, "classification", "number"),
        (["-1", "1.0"] * 10, "classification", "number"),
        ([str(v) for v in range(20)], "regression", ""),
        (["yes", "no"] * 10, "classification", "text"),
        (["True", "False"] * 10, "classification", "text"),
        (["1", "2", "x", "y"] * 5, "classification", "text"),
        (["1e3", "-.5", "+7", "2."] * 5, "regression", ""),
    ],
)
def test_task_is_guessed_from_the_target(folder, values, task, labels):
    rows = [(f"{i}.5", value) for i, value in enumerate(values)]
    roles, _, remarks = planned(lines(rows, ("x", "y")), folder)
    assert roles.labels == labels
    assert any(remark.startswith(f"task: {task}") for remark in remarks)


COUNTS = [0] * 30 + [1] * 25 + [2] * 10 + [3] * 4 + [4] * 1


@pytest.mark.parametrize(
    ("values", "options", "task", "labels"),
    [
        (COUNTS, {}, "count", ""),
        (COUNTS, {"task": "classification"}, None, "number"),
        (COUNTS, {"task": "regression"}, None, ""),
        ([v for v in COUNTS if v < 3], {}, "classification", "number"),  # too few
        ([v for v in COUNTS if v != 2], {}, "classification", "number"),  # a number is missing
        ([v + 1 for v in COUNTS], {}, "classification", "number"),
        ([v % 5 for v in range(70)], {}, "classification", "number"),  # all are as frequent
        ([*COUNTS, *range(20)], {}, "regression", ""),
        ([v + 0.5 for v in COUNTS] * 9, {}, "regression", ""),
    ],
)
def test_counts_are_not_taken_for_classes(folder, values, options, task, labels):
    rows = lines([(f"{i}.5", str(v)) for i, v in enumerate(values)], ("x", "y"))
    roles, _, remarks = planned(rows, folder, **options)
    said = [remark for remark in remarks if remark.startswith("task:")]
    assert roles.labels == labels
    assert roles.are_counts == (task == "count")
    assert len(said) == (task is not None)
    if task is not None:
        assert said[0].startswith(f"task: {task}")
        assert ("--task" in said[0]) == (task == "count" or min(values) == 0 or bool(labels))
    assert planned(rows, folder, task="count")[0].are_counts


@pytest.mark.parametrize(
    ("values", "hint"),
    [
        (range(1, 9), True),  # 8 numbers in 20 rows
        ([v % 15 for v in range(150)], True),
        ([v % 40 for v in range(150)], False),
        ([v % 15 + 0.5 for v in range(150)], False),
    ],
)
def test_whole_numbers_that_repeat_may_be_classes(folder, values, hint):
    values = list(values) if len(values) > 20 else [*values, *values, *list(values)[:4]]
    _, _, remarks = planned(lines([(f"{i}.5", str(v)) for i, v in enumerate(values)], ("x", "y")), folder)
    (task,) = [remark for remark in remarks if remark.startswith("task:")]
    assert task.startswith("task: regression")
    assert ("if these are classes, use --task classification" in task) == hint


def test_columns_without_information_are_dropped_and_reported(folder):
    rows = [(str(i), "same", "", str(i % 7), str(i / 3)) for i in range(60)]
    names = ("", "constant", "void", "x", "y")
    roles, _, remarks = planned(lines(rows, names), folder)
    assert roles.inputs == {"x": False}
    text = " ".join(remarks)
    for found in (
        "column '' is dropped: no name",
        "'constant' is dropped: the same",
        "'void' is dropped",
    ):
        assert found in text
    roles, _, _ = planned(lines(rows, names), folder, categorical=["x"], drop=["void"])
    assert roles.inputs == {"x": True}
    rows[7] = (*rows[7][:1], "", *rows[7][2:])  # a constant with missing cells tells rows apart
    assert list(planned(lines(rows, names), folder)[0].inputs) == ["constant", "x"]


def test_very_many_columns_are_reported_in_one_line(folder):
    names = (*(f"c{i}" for i in range(1000)), "x", "y")
    roles, scans, remarks = planned(lines([(*["7"] * 1000, f"{i}.5", f"{3 * i}.5") for i in range(5)], names), folder)
    assert roles.inputs == {"x": False}
    (dropped,) = [remark for remark in remarks if "dropped" in remark]
    assert dropped.startswith("columns 'c0', 'c1', 'c2', ")
    assert dropped.endswith("and 988 more are dropped: the same value in all rows")
    assert scans["c500"].counts == {"7": 5}


def test_batches_of_any_size_and_type_are_scanned_alike(folder):
    import pyarrow as pa
    from pyarrow import parquet

    texts = ["1", "", "x", "true", "NA", "007", "2.5"]
    table = {
        "texts": texts,
        "codes": ["2", *texts[-2::-1]],
        "dates": ["19991231"] * 7,
        "integers": [1, 2, None, 4, 5, 6, 7],
        "floats": [0.5, None, float("inf"), 1.0, 2.0, 3.0, 4.0],
        "category": pa.array(["u", "v"] * 3 + ["u"]).dictionary_encode(),
        "truth": [True, False, None, True, True, False, True],
        "lists": [[1], [2], [3], [4], [5], [6], [7]],
    }
    parquet.write_table(pa.table(table), folder / "all.parquet", row_group_size=4)
    parquet.write_table(pa.table(table), folder / "one.parquet")
    scans = scan(open_table("all.parquet"), list(table))
    assert repr(scans) == repr(scan(open_table("one.parquet"), list(table)))
    found = scans["texts"]
    assert (found.odd, found.blank, found.absent, found.truths, found.numbers) == (1, 1, 1, 1, 3)
    assert found.odd_values == [("x", 2)]
    assert scans["codes"].padded == "007"
    assert scans["dates"].dates
    assert scans["integers"].extremes == (1, 7)
    assert (scans["floats"].odd_values, scans["floats"].blank) == ([("inf", 2)], 1)
    assert scans["category"].counts == {"u": 4, "v": 3}
    assert (scans["truth"].truths, scans["truth"].blank) == (6, 1)
    assert not scans["lists"].usable


def test_dates_and_numbers_with_units_are_read(folder):
    def column(i):
        return f"2021-{i % 12 + 1:02d}-{i % 28 + 1:02d}", f"{i % 20}.5%", f"H{i % 25}", f"1{'ab'[i % 2]}"

    rows = [(*column(i), str(i / 3)) for i in range(40)]
    names = ("sold on", "share", "id", "grade", "y")
    roles, _, _ = planned(lines(rows, names), folder)
    assert roles.inputs == {"sold on": False, "share": False, "id": True, "grade": True}
    assert roles.formats == {"sold on": Format("ymd"), "share": Format(".", "%")}
    mixed = [(f"({i}.5)" if i % 2 else f"{i}.5", *row) for i, row in enumerate(rows)]
    assert planned(lines(mixed, ("account", *names)), folder)[0].formats["account"] == Format(".")
    roles, _, _ = planned(lines(rows, names), folder, categorical=["sold on"])
    assert list(roles.inputs) == list(names[:4])
    assert list(roles.formats) == ["share"]
    _, _, remarks = planned(lines(rows, names), folder, target="grade")
    assert any(remark.startswith("task: classification ('grade' has 2 classes: 1a, 1b") for remark in remarks)


def test_texts_that_differ_and_are_nearly_numbers_are_not_lost(folder):
    rows = [(f"${i},{i:03}.50", str(i / 3)) for i in range(1, 60)]
    spoilt = [*rows, ("about $5", "2")]
    with pytest.raises(ValueError, match=r"column 'x' contains numbers and 'about \$5' in row 61: .*--categorical x"):
        planned(lines([(f'"{x}"', y) for x, y in spoilt], ("x", "y")), folder)
    rows = [(f"{i} {['kg', 'g'][i % 7 == 3]}", str(i / 3)) for i in range(1, 60)]
    with pytest.raises(ValueError, match="numbers with different units, '1 kg' in row 2 and '3 g' in row 4"):
        planned(lines(rows, ("x", "y")), folder)
    rows = [(f"{i % 12} {['kg', 'g'][i % 12 == 3]}", str(i / 3)) for i in range(60)]
    roles, _, remarks = planned(lines(rows, ("x", "y")), folder)
    assert roles.inputs == {"x": True}
    assert any("different units" in remark and remark.endswith("treated as text") for remark in remarks)


def test_doubts_are_reported(folder):
    rows = [(f"199105{i % 28 + 3:02d}", ["Ja", "nein", "ja "][i % 3]) for i in range(2000)]
    names = ("day", "smoker")
    text = lines([(*row, str(i % 2)) for i, row in enumerate(rows)], (*names, "y"))
    roles, _, remarks = planned(text, folder)
    assert list(roles.inputs) == list(names)
    assert [remark for remark in remarks if remark.startswith("column ")] == [
        "column 'day' looks like dates written as numbers (19910503): use e.g. the year or the days since the first, "
        "or drop it with --drop day",
        "column 'smoker' contains 'Ja' and 'ja': are they the same? See --merge-text",
    ]
    assert "'ja'" not in " ".join(planned(text, folder, merged=True)[2])


def test_columns_that_number_the_rows_are_reported(folder, run):
    shuffled = np.random.RandomState(0).permutation(60) + 5
    repeated = [*range(1, 60), 59]
    rows = [(str(i + 7), str(shuffled[i]), str(repeated[i]), row[0], row[2]) for i, row in enumerate(ROWS)]
    (folder / "t.csv").write_text(lines(rows, ("row no", "shuffled", "repeated", "age", "price")))
    result = run("fit", "t.csv", "-y", "price", "-o", "m.lssvm")
    found = [line for line in result.stderr.splitlines() if "numbers the rows" in line]
    assert found == [
        "column 'row no' numbers the rows: drop it with --drop 'row no', unless their order matters",
        "column 'shuffled' numbers the rows: drop it with --drop shuffled, unless their order matters",
    ]


def test_text_that_differs_in_every_row_is_ignored(folder, run):
    rows = [(f"name {i}", str(age), str(price)) for i, (age, price) in enumerate(zip(AGE, PRICE, strict=True))]
    (folder / "t.csv").write_text(lines(rows, ("name", "age", "price")))
    result = run("fit", "t.csv", "-y", "price", "-o", "m.lssvm")
    assert "warning: X: column 'name' is ignored, because it looks like an identifier: 60 of its 60" in result.stderr
    (folder / "new.csv").write_text("age,name\n40,x\n40,\n40,3\n")
    found = np.array(run("predict", "m.lssvm", "new.csv").stdout.split()[1:], float)
    assert np.ptp(found) <= 2 * rounding(load("m.lssvm"))  # BLAS may add up equal rows in different orders


def test_numbers_with_leading_zeros_are_codes(folder, run):
    """Reported for inputs; kept unchanged in a target."""
    rows = [(f"{100 * (i % 9):05d}", str(i % 5), f"{i % 3:02d}") for i in range(60)]
    roles, _, remarks = planned(lines(rows, ("zip code", "x", "y")), folder)
    assert roles.labels == "text"
    assert [remark for remark in remarks if remark.startswith("column ")] == [
        "column 'zip code' is treated as numeric, but some values have leading zeros ('00000'): if they are codes, use "
        "--categorical 'zip code' or --drop 'zip code'"
    ]
    (folder / "codes.csv").write_text(lines(rows, ("zip code", "x", "y")))
    assert run("fit", "codes.csv", "-y", "y", "-o", "m.lssvm", "--categorical", "zip code").exit_code == 0
    assert set(run("predict", "m.lssvm", "codes.csv").stdout.split()[1:]) <= {"00", "01", "02"}
    roles, _, remarks = planned(lines([("0", "0.5", "10"), ("0", "0.7", "20")] * 20, ("a", "b", "y")), folder)
    assert roles.labels == "number"
    assert not any("zeros" in remark for remark in remarks)


@pytest.mark.parametrize("start", ["", "\n", "\n\n"])
def test_names_with_line_breaks_and_empty_lines_before_them(folder, start):
    rows = [(str(i), str(i % 7), str(i / 3)) for i in range(20)]
    text = start + '"first\nname",x,y\n' + lines(rows, None)
    roles, summaries, _ = planned(text, folder)
    assert list(roles.inputs) == ["first\nname", "x"]
    assert summaries["y"].rows == 20
    with pytest.raises(ValueError, match=f"'abc' in row {22 + len(start)}"):
        planned(text.replace("\n19,", "\nabc,"), folder)


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


@pytest.mark.slow
def test_truth_values_are_known_however_they_are_spelled(run, folder):
    names = write_truth(folder)
    for own in names:
        assert run("fit", own, "-y", "price", "-o", "m.lssvm").exit_code == 0
        results = [run("predict", "m.lssvm", other) for other in names]
        assert {result.stdout for result in results} == {results[0].stdout}
        assert not any("unknown to the model" in result.stderr for result in results)
        assert load("m.lssvm").fitted_.layout.columns.columns[1].kind == "number"  # as in a frame
        assert run("export", "m.lssvm", "--to", "python", "-o", "exported.py").exit_code == 0
        predict = runpy.run_path("exported.py")["predict"]
        for value in (True, np.True_, "true", "True", "TRUE"):
            assert predict({"age": 40, "garden": value}) == predict([40, 1]) != predict([40, False])


@pytest.mark.slow
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


def test_truth_values_among_other_values(folder):
    (folder / "mixed.csv").write_text(truth_table(str) + "3,TRUE,1\n4,false,1\n")
    roles, _, remarks = plan(open_table("mixed.csv"), "price")
    assert roles.inputs == {"age": False, "garden": False}
    assert not any("the same?" in remark for remark in remarks)
    (folder / "other.csv").write_text("x,flag,price\n" + "1,True,2.5\n2,true,3.5\n3,maybe,4\n4,Maybe,5.5\n" * 9)
    roles, _, remarks = plan(open_table("other.csv"), "price")
    assert roles.inputs == {"x": False, "flag": True}
    assert sum("the same?" in remark for remark in remarks) == 2
    (folder / "few.csv").write_text("x,flag,price\n" + "1,True,2.5\n2,False,3.5\n" * 20 + "4,unknown,5.5\n")
    assert plan(open_table("few.csv"), "price")[0].inputs["flag"]  # text, not numbers with a mistake
    (folder / "numbers.csv").write_text("x,price\n" + "1,2.5\n2,3.5\n" * 20 + "TRUE,5.5\n")
    _, _, remarks = plan(open_table("numbers.csv"), "price")
    assert "column 'x' contains numbers and booleans, which are read as 1 and 0" in remarks
