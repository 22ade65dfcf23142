"""What the command line takes a column for: numbers, categories, truth values, nothing."""

import csv
import runpy

import numpy as np
import pytest
from cli_cases import AGE, PRICE, lines, planned

from lssvm.cli.reading import open_table
from lssvm.cli.roles import plan


# What a column is -----------------------------------------------------------------------------------------------------
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


def test_columns_without_information_are_dropped_and_reported(folder):
    rows = [(str(i), f"name {i}", "same", "", str(i % 7), str(i / 3)) for i in range(60)]
    scheme, _, remarks = planned(lines(rows, ("", "name", "constant", "void", "x", "y")), folder)
    assert scheme.names == ["x"]
    text = " ".join(remarks)
    for found in ("column '' is dropped: it has no name", "'name' is dropped: 60 distinct", "'constant'", "'void'"):
        assert found in text
    scheme, _, _ = planned(
        lines(rows, ("", "name", "constant", "void", "x", "y")), folder, categorical=["name", "x"], drop=["void"]
    )
    assert len(scheme.columns[0].categories) == 60
    assert scheme.columns[1].categories == tuple("0123456")


def test_dates_units_and_distinct_texts_are_dropped(folder):
    def column(i):
        return f"2021-{i % 12 + 1:02d}-{i % 28 + 1:02d}", f"{i % 20}.5%", f"H{i % 25}", f"1{'ab'[i % 2]}"

    rows = [(*column(i), str(i / 3)) for i in range(40)]
    names = ("sold on", "share", "id", "grade", "y")
    scheme, _, remarks = planned(lines(rows, names), folder)
    assert [c.name for c in scheme.columns] == ["share", "grade"]  # 20 shares in 40 rows may be categories
    text = "\n".join(remarks)
    assert "column 'sold on' is dropped: it contains dates ('2021-01-01'); use numbers" in text
    assert "column 'id' is dropped: 25 distinct texts such as 'H0' (--categorical id accepts" in text
    assert "treated as categorical: 'share' (20), 'grade' (2)" in text
    _, _, remarks = planned(lines(rows[:30], names), folder)
    assert "'share' is dropped: 20 distinct texts such as '0.5%'; write plain numbers" in "\n".join(remarks)
    mixed = [(f"({i}.5)" if i % 2 else f"{i}.5", *row) for i, row in enumerate(rows)]
    _, _, remarks = planned(lines(mixed, ("account", *names)), folder)
    assert (
        "column 'account' is dropped: 20 of 40 values are not numeric, such as '(1.5)'; write plain numbers, such as "
        "-1234.5"
    ) in remarks
    scheme, _, _ = planned(lines(rows, names), folder, categorical=["sold on", "id"])
    assert [c.name for c in scheme.columns] == list(names[:4])
    _, _, remarks = planned(lines(rows, names), folder, target="grade")
    assert any(remark.startswith("task: classification ('grade' has 2 classes: 1a, 1b") for remark in remarks)


def test_doubts_are_reported(folder):
    rows = [(str(i + 7), str(i), str(i % 5), ["Yes", "no", "yes "][i % 3], str(i % 2)) for i in range(40)]
    rows[20] = ("27", "19", *rows[20][2:])
    scheme, _, remarks = planned(lines(rows, ("row no", "almost", "x", "smoker", "y")), folder)
    assert len(scheme.columns) == 4
    doubts = [remark for remark in remarks if remark.startswith("column ")]
    assert doubts == [
        "column 'row no' numbers the rows: drop it with --drop 'row no', unless their order matters",
        "column 'smoker' contains 'Yes' and 'yes': are they the same?",
    ]


def test_numbers_with_leading_zeros_are_codes(folder, run):
    """Reported for inputs; kept unchanged in a target."""
    rows = [(f"{100 * (i % 9):05d}", str(i % 5), f"{i % 3:02d}") for i in range(60)]
    scheme, _, remarks = planned(lines(rows, ("zip code", "x", "y")), folder)
    assert scheme.labels == "text"
    assert [remark for remark in remarks if remark.startswith("column ")] == [
        "column 'zip code' is treated as numeric, but some values have leading zeros ('00000'): if they are codes, use "
        "--categorical 'zip code' or --drop 'zip code'"
    ]
    (folder / "codes.csv").write_text(lines(rows, ("zip code", "x", "y")))
    assert run("fit", "codes.csv", "-y", "y", "-o", "m.lssvm", "--categorical", "zip code").exit_code == 0
    assert set(run("predict", "m.lssvm", "codes.csv").stdout.split()[1:]) <= {"00", "01", "02"}
    scheme, _, remarks = planned(lines([("0", "0.5", "10"), ("0", "0.7", "20")] * 20, ("a", "b", "y")), folder)
    assert scheme.labels == "number"
    assert not any("zeros" in remark for remark in remarks)


@pytest.mark.parametrize("start", ["", "\n", "\n\n"])
def test_names_with_line_breaks_and_empty_lines_before_them(folder, start):
    rows = [(str(i), str(i % 7), str(i / 3)) for i in range(20)]
    text = start + '"first\nname",x,y\n' + lines(rows, None)
    scheme, summaries, _ = planned(text, folder)
    assert scheme.names == ["first\nname", "x"]
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


def test_truth_values_are_known_however_they_are_spelled(run, folder):
    names = write_truth(folder)
    for own in names:
        assert run("fit", own, "-y", "price", "-o", "m.lssvm").exit_code == 0
        results = [run("predict", "m.lssvm", other) for other in names]
        assert {result.stdout for result in results} == {results[0].stdout}
        assert not any("is unknown to the model" in result.stderr for result in results)
        assert run("export", "m.lssvm", "--to", "python", "-o", "exported.py").exit_code == 0
        predict = runpy.run_path("exported.py")["predict"]
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
    scheme, _, remarks = plan(open_table("mixed.csv"), "price")
    assert scheme.columns[1].categories == ("False", "True")
    assert not any("the same?" in remark for remark in remarks)
    (folder / "other.csv").write_text("x,flag,price\n" + "1,True,2.5\n2,true,3.5\n3,maybe,4\n4,Maybe,5.5\n" * 9)
    scheme, _, remarks = plan(open_table("other.csv"), "price")
    assert scheme.columns[1].categories == ("Maybe", "True", "maybe", "true")  # no truth values
    assert sum("the same?" in remark for remark in remarks) == 2
