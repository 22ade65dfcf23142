"""`lssvm report`, `export` and `inspect`."""

import csv
import json
import runpy
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from cli_cases import AGE, CITY, PRICE, lines, people, read_table, rounding
from stacking import stack_of

from lssvm import LSSVC, LSSVR, datasets, diagnose, kernels, load, save


def test_json_has_no_number_for_what_is_not_known(run, folder):
    save(LSSVR(kernels.RBF(sigma=1.0), C=1.0).fit(people(), np.ones(60)), "constant.lssvm")
    assert "nan" in run("inspect", "constant.lssvm").stdout
    assert json.loads(run("inspect", "constant.lssvm", "--json").stdout)["leave_one_out_R2"] is None
    assert "NaN" not in run("inspect", "constant.lssvm", "--json").stdout


def test_report_of_a_file_and_of_other_rows(run, folder, fitted):
    assert run("report", fitted).stdout == "report.html\n"
    assert "Other rows" not in (folder / "report.html").read_text(encoding="utf-8")
    result = run("report", fitted, "people.csv", "-o", "other.html")
    assert result.exit_code == 0, result.output
    assert "Other rows" in (folder / "other.html").read_text(encoding="utf-8")


# Exports --------------------------------------------------------------------------------------------------------------
NEW = [("33", "Oslo"), ("", "Paris"), ("41", ""), ("52.5", "Rome"), ("60", "none"), ("", ""), ("20", "na")]


def by_python(folder, rows):
    predict = runpy.run_path(str(folder / "m.py"))["predict"]
    keyed = [dict(zip(("age", "city"), row, strict=True)) for row in rows]
    assert [predict(row) for row in keyed] == [predict(row) for row in rows]
    return [predict(row) for row in keyed]


def by_onnx(folder, rows):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(folder / "m.onnx"), providers=["CPUExecutionProvider"])
    age, city = zip(*rows, strict=True)
    feed = {"age": np.array([float(cell or "nan") for cell in age])[:, None], "city": np.array(city, object)[:, None]}
    return session.run(None, feed)[0].ravel().tolist()


def by_c(folder, rows):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    classes = "lssvm_classes" in (folder / "m.h").read_text(encoding="utf-8")
    show = "puts(lssvm_classes[lssvm_predict(x)]);" if classes else 'lssvm_predict(x, f); printf("%.17g\\n", f[0]);'
    source = ['#include "m.h"', "#include <stdio.h>", "int main(void) { double x[lssvm_inputs], f[1]; (void)f;"]
    for age, city in rows:
        cells = f"const double n[] = {{{age or 'NAN'}}}; const char *const t[] = {{{json.dumps(city)}}};"
        source.append(f"    {{ {cells} if (!lssvm_encode(n, t, x)) {{ return 1; }} {show} }}")
    (folder / "m.c").write_text("\n".join([*source, "    return 0; }", ""]), encoding="utf-8")
    options = ["-std=c99", "-O2", "-Wall", "-Werror", "-o", folder / "m", folder / "m.c", "-lm"]
    subprocess.run([compiler, *options], check=True, capture_output=True)
    return subprocess.run([folder / "m"], check=True, capture_output=True, encoding="utf-8").stdout.split()


@pytest.mark.parametrize("target", ["price", "old"])
@pytest.mark.parametrize(("kind", "by"), [("python", by_python), ("onnx", by_onnx), ("c", by_c)])
def test_exports_predict_the_same_rows_alike(run, folder, kind, by, target):
    """Known and unknown values, missing cells, and words that look like missing cells."""
    if kind == "onnx":
        pytest.importorskip("onnx")
    city = ["", "none", *CITY[2:].tolist()]
    age = ["" if place % 9 == 5 else str(age) for place, age in enumerate(AGE)]
    goal = [f"{price:.2f}" for price in PRICE] if target == "price" else np.where(AGE > 50, "yes", "no")
    Path("t.csv").write_text(lines(zip(age, city, goal, strict=True), ("age", "city", target)), encoding="utf-8")
    Path("new.csv").write_text(lines(NEW, ("age", "city")), encoding="utf-8")
    assert run("fit", "t.csv", "-y", target, "-o", "m.lssvm").exit_code == 0
    result = run("export", "m.lssvm", "--to", kind)
    assert result.exit_code == 0, result.output
    assert "inputs: age (number), city (text)" in result.stderr
    expected, found = run("predict", "m.lssvm", "new.csv").stdout.split()[1:], by(folder, NEW)
    if target == "old":
        assert found == expected
        return
    model = load("m.lssvm")
    np.testing.assert_allclose(np.array(found, float), np.array(expected, float), rtol=1e-10, atol=2 * rounding(model))
    assert len(set(expected)) == len(NEW)


def test_models_with_the_columns_of_version_0_1(run, folder):
    """The command line of 0.1 had an encoding of its own."""
    rows = np.column_stack([AGE, CITY == "Oslo", CITY != "Oslo"]).astype(float)
    model = LSSVR(kernels.RBF(sigma=20.0), C=1.0).fit(rows, PRICE)
    columns = [{"name": "age", "categories": None, "fill": None}, {"name": "o", "categories": ["n", "y"], "fill": None}]
    model.table_ = {"target": "price", "task": "regression", "labels": "number", "columns": columns}
    save(model, "old.lssvm")
    np.testing.assert_array_equal(load("old.lssvm").predict(rows), model.predict(rows))
    for command in (("predict", "old.lssvm", "people.csv"), ("report", "old.lssvm", "people.csv")):
        result = run(*command)
        assert result.exit_code == 1
        assert "has no column names (it was fitted in Python to an array, or by version 0.1)" in result.stderr
    assert read_table(run("inspect", "old.lssvm").stdout)["target"] == "price"
    assert run("report", "old.lssvm").exit_code == 0


def test_inspect(run, fitted):
    table = read_table(run("inspect", fitted).stdout)
    assert table["input columns"] == "age, city (Köln, Oslo, Paris)"
    assert table["rows"] == "60"
    values = json.loads(run("inspect", fitted, "--json").stdout)
    assert values["bytes"] == fitted.stat().st_size


def test_inspect_shows_the_settings_of_one_model_and_the_members_of_a_stack(run, folder):
    rows, labels = datasets.load_ripley(return_X_y=True)
    one = LSSVC(kernels.RBF(sigma=0.5), C=5.0, loss="squared").fit(rows, labels)
    other = LSSVC(kernels.Matern(sigma=2.0, nu=0.5), C=1.0, loss="logistic").fit(rows, labels)
    save(one, "one.lssvm")
    save(stack_of([one, other], [0.25, 0.75]), "stack.lssvm")
    values = json.loads(run("inspect", "one.lssvm", "--json").stdout)
    assert [values[name] for name in ("kernel", "C", "loss")] == ["RBF", 5.0, "squared"]
    values = json.loads(run("inspect", "stack.lssvm", "--json").stdout)
    assert values["kernel"] == "Stack"
    assert values["members"] == ["0.250 RBF(sigma=0.5)", "0.750 Matern(nu=0.5, sigma=2.0)"]
    assert values["support_vectors"] == values["rows"] == len(rows)
    assert not {"C", "coding", "loss"} & values.keys()
    table = read_table(run("inspect", "stack.lssvm").stdout)
    assert table["members"] == ", ".join(values["members"])


@pytest.mark.slow
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_a_stack_goes_through_every_command(run, folder, task, monkeypatch):
    """A default that is a stack: fit, predict, inspect, report and export."""
    stack = kernels.Stack([kernels.RBF(), kernels.Matern(nu=0.5), kernels.Linear()])
    monkeypatch.setattr("lssvm.estimators.planning.DEFAULT_KERNELS", {True: stack, False: stack})
    target = {"regression": "price", "classification": "city"}[task]
    result = run("fit", "people.csv", "-y", target, "-o", "m.lssvm", "--report", "m.html")
    assert result.exit_code == 0, result.output
    model = load("m.lssvm")
    assert len(model.members_) > 1
    table = read_table(result.stdout)
    assert table["members"] == ", ".join(diagnose.member_words(model))
    assert read_table(run("inspect", "m.lssvm").stdout)["members"] == table["members"]
    assert "average" in (folder / "m.html").read_text(encoding="utf-8")
    assert run("report", "m.lssvm", "people.csv").exit_code == 0
    more = ["--interval", "0.9"] if task == "regression" else ["--proba"]
    lines = list(csv.DictReader(run("predict", "m.lssvm", "people.csv", *more).stdout.splitlines()))
    predicted = [line["prediction"] for line in lines]
    assert run("export", "m.lssvm", "--to", "python").exit_code == 0
    exported = runpy.run_path("m.py")
    with open("people.csv", encoding="utf-8") as file:
        found = [exported["predict"](row) for row in csv.DictReader(file)]
    if task == "regression":
        np.testing.assert_allclose(found, np.array(predicted, dtype=float), rtol=1e-9)
        assert all(float(line["lower"]) < float(line["prediction"]) < float(line["upper"]) for line in lines)
    else:
        assert found == predicted
        assert all(float(line[f"P({line['prediction']})"]) > 1 / 3 for line in lines)


def test_models_saved_from_python_are_inspected_and_reported(run, folder):
    save(LSSVC(kernels.RBF(sigma=0.5), C=5.0).fit(*datasets.load_ripley(return_X_y=True)), "r.lssvm")
    assert read_table(run("inspect", "r.lssvm").stdout)["classes"] == "-1, 1"
    assert run("report", "r.lssvm").exit_code == 0
    result = run("predict", "r.lssvm", "people.csv")
    assert result.exit_code == 1
    assert "has no column names (it was fitted in Python to an array" in result.stderr


@pytest.mark.slow
def test_inspect_names_the_dropped_columns(run, folder):
    rows = np.random.RandomState(0).uniform(-2, 2, (120, 3))
    save(LSSVR(kernels.RBF(ard=True)).fit(rows, np.sin(2 * rows[:, 1])), "wide.lssvm")
    assert read_table(run("inspect", "wide.lssvm").stdout)["dropped columns"] == "column 0, column 2"
    assert json.loads(run("inspect", "wide.lssvm", "--json").stdout)["dropped_columns"] == ["column 0", "column 2"]
    save(LSSVR(kernels.RBF(sigma=1.0), C=1.0).fit(rows, rows[:, 1]), "all.lssvm")
    assert "dropped columns" not in read_table(run("inspect", "all.lssvm").stdout)
