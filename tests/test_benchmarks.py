"""The benchmark command: what it derives from its records, and that its jobs run."""

import importlib
import itertools
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris

from benchmarks import __main__ as command
from benchmarks import (
    class_sets,
    comparison,
    constants,
    contenders,
    endurance,
    jobs,
    large_classes,
    leaderboard,
    loo_classes,
    missing,
    raw_tables,
    records,
    tables,
)

pytestmark = pytest.mark.slow
JOBS = [
    ("dense", {"rows": 250, "loo": True}),
    ("kernel_ridge", {"rows": 250}),
    ("sparse", {"rows": 300, "n": 30}),
    ("chunked", {"rows": 300, "n": 30, "leave_one_out": "none"}),
    ("nystroem", {"rows": 300, "n": 30}),
    ("predict", {"rows": 2000, "n": 30, "train": 300}),
    ("predict_nystroem", {"rows": 2000, "n": 30, "train": 300}),
    ("predict_svr", {"rows": 2000, "part": 500, "train": 300}),
    ("grid_kernel_ridge", {"rows": 100}),
    ("grid_nystroem", {"rows": 100, "n": 20}),
    ("loop_nystroem", {"rows": 100, "n": 20}),
    ("prune", {"rows": 120, "n": 40}),
    ("select", {"step": "RandomlyPivoted", "rows": 300, "n": 20}),
    ("select", {"step": "FeatureVectors", "rows": 300, "n": 20}),
    ("select_dsyrk", {"rows": 1500, "n": 20}),
    ("classify", {"rows": 400, "n": 40}),
    ("classify_nystroem", {"rows": 400, "n": 40}),
]


@pytest.mark.parametrize(("job", "arguments"), JOBS)
def test_jobs_run_on_tiny_sizes(job, arguments):
    result = getattr(jobs, job)(**arguments)
    assert json.loads(json.dumps(result))["seconds"] > 0
    assert result["peak"] >= 0
    if "select" not in job and not job.startswith(("grid", "loop")):
        assert 0 < result["error"] < (1 if "class" in job else 5)  # the targets' spread is 5, 10 classes are alike


def test_a_grid_that_is_searched_reports_the_error_of_its_best_point():
    """The unit of the errors is that of the default search, which is not bound to the grid."""
    found, default = jobs.grid(rows=150, n=None), jobs.default_search(rows=150, n=None)
    assert 0.9 < default["error"] / found["error"] < 1.05


def test_every_contender_names_a_job_and_its_arguments():
    for full in (False, True):
        for problem in command.scenarios(full):
            for contender in problem.contenders:
                code = getattr(jobs, contender.job).__code__
                assert set(contender.arguments) == set(code.co_varnames[: code.co_argcount]), contender


def test_failures_are_reported_and_end_nothing():
    contender = command.Contender("absent", "plssvm", {"rows": 50}, limit=60)
    assert command.run_once(contender, "") == {"missing": "plssvm"}
    neo = command.Contender("neo", "neo", {"rows": 50})
    assert command.run_once(neo, "false") == {"failed": "exit status 1"}
    assert "/no/such/python" in command.run_once(neo, "/no/such/python")["failed"]
    assert "stopped" in command.run_once(command.Contender("slow", "imports", {}, limit=0), "")


def record(scenario, problem, contender, arguments, **values):
    return {"scenario": scenario, "problem": problem, "contender": contender, "arguments": arguments, **values}


RECORDS = [
    record("machine", "limits", "limits", {}, rates={"DPOTRF": 10.0, "DTRMM": 20.0, "DSYRK": 40.0}),
    *(
        record(
            "b",
            f"n = {n}",
            "lssvm, fit + leave-one-out",
            {"rows": 100_000, "n": n},
            seconds=n**2 / 1e5,
            peak=2**20,
        )
        for n in (500, 1000, 2000)
    ),
    record("b", "n = 1000", "Nystroem + Ridge, fit", {"rows": 100_000, "n": 1000}, seconds=40.0, peak=2**21),
    record("b", "n = 1000", "Falkon, fit", {"rows": 100_000, "n": 1000}, missing="falkon"),
    record("i", "N", "lssvm, fit", {"rows": 20_000}, seconds=2.0, peak=3 * 2**20, error=1.25),
    record("i", "N", "PLSSVM, fit", {"rows": 20_000}, stopped=600),
    record("i", "N", "KernelRidge, fit", {"rows": 20_000}, seconds=100.0, peak=2**20, note="1 of 10 timed"),
]


def test_ratios_slopes_shares_and_aims():
    figures = command.Figures(RECORDS)
    reached = {label: (value, bound) for label, value, bound in command.aims(figures, command.SIZES[True])}
    where = "(b) l = 100,000, n = 1,000:"
    assert reached[f"{where} fit + leave-one-out / Nystroem + Ridge's fit"] == pytest.approx((0.25, 0.85))
    assert reached["log-log slope of seconds in n, (b)"] == pytest.approx((2.0, 2.1))
    assert reached["(i) N = 20,000: peak memory / KernelRidge's"] == (3.0, 1.0)
    # 1e11 flops: 10 s of DTRMM and 2.5 s of DSYRK in 10 s
    share = reached[f"{where} fit + leave-one-out / its flops at the rates of the computer"][0]
    assert share == pytest.approx(10 / 12.5)
    assert reached["(i) N = 20,000: seconds / PLSSVM's until it was stopped"] == pytest.approx((2 / 600, 1 / 20))
    assert math.isnan(reached["(f) seconds / one dense fit"][0])


def test_the_page_says_what_was_met_missed_or_missing(tmp_path):
    text = command.page(RECORDS, True, "picture.png")
    assert "| (b) n = 1000 | lssvm, fit + leave-one-out | 10 | 1 | 1 |  | 125 % of the computer's rate |" in text
    assert "|  | Falkon, fit |  |  |  |  | not installed |" in text
    assert "|  | PLSSVM, fit |  |  |  |  | stopped after 600 s |" in text
    assert "|  | KernelRidge, fit | 100 \\* | 50 | 1 |  | 1 of 10 timed |" in text
    assert "| (i) N = 20,000: peak memory / KernelRidge's | 3 | 1 | **no** |" in text
    assert "| (i) N = 20,000: seconds / PLSSVM's until it was stopped | 0.00333 | 0.05 | yes |" in text
    assert "| (f) seconds / one dense fit |  | 5 | no value |" in text
    command.draw(RECORDS, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1000


def test_a_later_run_replaces_an_earlier_one(tmp_path):
    ours = command.Contender("ours", "dense", {"rows": 5})
    problems = [command.Problem("a", "x", [ours]), command.Problem("b", "y", [ours])]
    file = tmp_path / "results.jsonl"
    lines = [("b", "y", 1.0), ("a", "x", 2.0), ("b", "y", 3.0), ("z", "gone", 4.0)]
    file.write_text("\n".join(json.dumps(record(s, p, "ours", {}, seconds=t)) for s, p, t in lines))
    assert [r["seconds"] for r in command.recorded(file, problems)] == [2.0, 3.0]


@pytest.mark.parametrize("module", sorted(path.stem for path in Path(jobs.__file__).parent.glob("[a-z]*.py")))
def test_every_benchmark_can_be_imported(module):
    needs = {"gpu": "torch", "tabarena": "autogluon.core"}
    if module in needs:
        pytest.importorskip(needs[module])
    importlib.import_module(f"benchmarks.{module}")


# Tables ---------------------------------------------------------------------------------------------------------------
def write_tables(folder):
    """Two tiny sets: classes that are far apart, and noise; peers of the second split of the second set are missing."""
    draw = np.random.RandomState(0)
    parts = {}
    for name, gap in (("apart", 6.0), ("noise", 0.0)):
        y = np.repeat(["a", "b", "c"], 12)
        parts[f"{name}/X"] = draw.normal(size=(36, 2)) + gap * np.repeat(np.eye(3)[:, :2], 12, axis=0)
        parts[f"{name}/y"] = y
        parts[f"{name}/masks"] = np.stack([np.arange(36) % 3 == split for split in range(3)], axis=1)
    np.savez(folder / "classes.npz", **parts)
    lines = ["set,split,model,rows,columns,error,log_loss,fit_cpu_seconds"]
    for name, split, models in (("apart", 0, tables.PEERS), ("noise", 0, tables.PEERS), ("noise", 1, tables.PEERS[:3])):
        losses = ["", "0.5", "0.5", "0.5"]
        lines += [f"{name},{split},{model},24,2,0.25,{loss},1.0" for model, loss in zip(models, losses, strict=False)]
    (folder / "peers.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_tables_of_classes(tmp_path, capsys):
    write_tables(tmp_path)
    tables.main(["classes", "--data", str(tmp_path), "--splits", "0", "1"])
    shown = capsys.readouterr().out
    assert "| apart | 36 x 2, 3 | 0.0 | 25.0 | 25.0 | 25.0 | 25.0 |" in shown
    assert "| 2 sets, 2 splits |" in shown
    assert "0.1.0's + 0.01): noise" in shown
    found = tables.classes(tmp_path, [0], ["apart"], 1)
    assert found["(error + 0.01)/(tuned SVM's + 0.01), geometric mean"] == pytest.approx(0.01 / 0.26)
    assert found["mean rank among lssvm, tuned SVM, forest and LightGBM"] == 1.0
    with pytest.raises(SystemExit, match="No set is called 'absent'"):
        tables.classes(tmp_path, [0], ["absent"], 1)
    with pytest.raises(SystemExit, match="No split has all peers"):
        tables.classes(tmp_path, [2], [], 1)


def test_tables_of_numbers(tmp_path, capsys):
    draw = np.random.RandomState(0)
    X = draw.normal(size=(60, 2))
    masks = np.stack([np.arange(60) % 3 == split for split in range(2)], axis=1)
    for name, y in (("line", X @ [1.0, 2.0] + draw.normal(0, 0.01, 60)), ("noise", draw.normal(size=60))):
        given = dict(np.load(tmp_path / "numbers.npz")) if name == "noise" else {}
        np.savez(tmp_path / "numbers.npz", **given, **{f"{name}/X": X, f"{name}/y": y, f"{name}/masks": masks})
    lines = ["set,split,model,rows,columns,error,log_loss,fit_cpu_seconds"]
    models = ["lssvm 0.1.0", "lightgbm"]
    lines += [f"{name},{s},{model},40,2,0.5,,1.0" for name in ("line", "noise") for s in (0, 1) for model in models]
    lines += [f"line,{s},gp ard,40,2,0.25,,1.0" for s in (0, 1)]
    (tmp_path / "peers.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    tables.main(["numbers", "--data", str(tmp_path), "--splits", "0", "1"])
    shown = capsys.readouterr().out
    assert "| line | 60 x 2 | 0.0" in shown
    assert "| 2 sets, 4 splits |" in shown
    assert "largest error / 0.1.0's: noise" in shown
    found = tables.numbers(tmp_path, [0], ["line"], 1)
    assert found["error / GP's, 1 sets"] == pytest.approx(2.0 * found["error / 0.1.0's, 1 sets"])


def test_constants_of_the_search_are_halved_and_doubled(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2))
    masks = np.arange(40)[:, None] % 4 == np.arange(2)
    for kind, y in (("numbers", X[:, 0] + 0.1 * X[:, 1]), ("classes", (X[:, 0] > 0).astype(float))):
        np.savez(tmp_path / f"{kind}.npz", **{"set/X": X, "set/y": y, "set/masks": masks})
    before = constants.CONSTANTS.trial
    constants.main(["--data", str(tmp_path), "--only", "slow", "trial"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:5]] == ["slow", "trial[0]", "trial[1]"]
    assert lines[3].split("|")[3].strip() == "1.000"  # dense models do not use it
    assert constants.CONSTANTS.trial is before
    values = [value for _, _, _, both in constants.variants(["trial", "limited"]) for value in both]
    assert values == [(1000, 250), (4000, 250), (2000, 125), (2000, 500), 0.05, 0.2]


def test_raw_tables(tmp_path, capsys):
    pd = pytest.importorskip("pandas")
    draw = np.random.RandomState(0)
    (tmp_path / "tables").mkdir()
    colour, x = draw.choice(["red", "blue", ""], 90), draw.normal(size=90)
    pd.DataFrame({"colour": colour, "x": x, "class": np.where(colour == "red", "a", "b")}).to_csv(
        tmp_path / "tables" / "words.csv", index=False
    )
    pd.DataFrame({"colour": colour, "x": np.where(x > 1, np.nan, x), "y": x + (colour == "red")}).to_csv(
        tmp_path / "tables" / "numbers.csv", index=False
    )
    given = ["--data", str(tmp_path), "--splits", "0", "--rows", "60"]
    raw_tables.main(given)
    shown = [[cell.strip() for cell in line.split("|")[1:-1]] for line in capsys.readouterr().out.splitlines()]
    rows = {(row[0], row[2]): row for row in shown[2:] if row}
    assert {name for name, _ in rows} == {*raw_tables.GENERATED, "words", "numbers"}
    assert rows["words", "error rate"][1:4] == ["90 x 2", "error rate", "0.000"]
    assert 0.0 <= float(rows["fraud", "1 - average precision"][3]) <= 1.0
    shop = [float(cell) for cell in rows["shop", "RMSE / std"][3:7]]
    assert shop[3] == pytest.approx(shop[0] / shop[1], abs=0.02)
    with pytest.raises(SystemExit):
        raw_tables.main([*given, "--sets", "absent"])
    assert "there is no table 'absent': choose from shop, " in capsys.readouterr().err


def test_generated_tables_are_what_they_say():
    pd = pytest.importorskip("pandas")
    draw = np.random.RandomState(0)
    columns, y, by_hand = raw_tables.shop(draw, 2000)
    assert any("," in cell for cell in columns["price"])
    amounts = [float(cell.strip("$").replace(",", "")) for cell in columns["price"]]
    assert amounts == pytest.approx(by_hand["price"])
    net = by_hand["price"] * (1 - by_hand["discount"] / 100)
    assert np.corrcoef(net, y)[0, 1] ** 2 > 0.99
    assert np.mean(raw_tables.fraud(draw, 2000)[1] == "fraud") == pytest.approx(0.01, abs=0.001)
    names = raw_tables.shops(draw, 2000)[0]["shop"]
    assert len(set(names)) == 300
    codes = raw_tables.prepared(pd.DataFrame({"shop": names, "few": ["b", "a", *"a" * 3998]}))
    assert dict(zip(codes["shop"], names, strict=True)) == dict(enumerate(sorted(set(names))))
    assert list(codes["few"].cat.categories) == ["a", "b"]
    assert 0.5 < np.mean(raw_tables.counts(draw, 2000)[1]) < 3.0


def test_encodings_of_missing_numbers(tmp_path, capsys):
    """Targets that depend on which cells are missing need the indicator."""
    draw = np.random.RandomState(0)
    x = draw.normal(size=(90, 1))
    absent = draw.rand(90) < 0.3
    y = np.where(absent, 2.0, 0.1 * x[:, 0]) + 0.03 * draw.normal(size=90)  # without noise all errors are rounding
    (tmp_path / "tables").mkdir()
    cells = ["" if gone else repr(float(cell)) for cell, gone in zip(x[:, 0], absent, strict=True)]
    lines = [f"{cell},{target}" for cell, target in zip(cells, y, strict=True)]
    (tmp_path / "tables" / "holes.csv").write_text("\n".join(["x,y", *lines, ""]), encoding="utf-8")
    masks = np.arange(90)[:, None] % 5 == 0
    for kind, targets in (("numbers", x[:, 0]), ("classes", (x[:, 0] > 0).astype(int))):
        np.savez(tmp_path / f"{kind}.npz", **{"line/X": x, "line/y": targets, "line/masks": masks})
    missing.main(["--data", str(tmp_path), "--splits", "0"])
    rows = [line.split("|")[1:-1] for line in capsys.readouterr().out.splitlines()[2:6]]
    assert [(row[0].strip(), int(row[1])) for row in rows] == [
        ("in the files", 1),
        ("at random", 2),
        ("high values", 2),
        ("all", 3),  # the two cases of a set are averaged
    ]
    median, own, chosen = (float(cell.split("(")[0]) for cell in rows[0][2:])
    assert median > 2.0
    assert own == pytest.approx(1.0, abs=0.2)
    assert chosen == pytest.approx(1.0, abs=0.2)


def test_ranks_of_equal_errors_are_averaged():
    record = {"error": 0.1, "log_loss": 0.2, "fit_cpu_seconds": 1.0}
    means = {"one": {"lssvm": record, **dict.fromkeys(tables.PEERS, record)}}
    assert list(tables.summarise(means).values()) == pytest.approx([1.0, 1.0, 1.0, 2.5])
    assert tables.worst_set(means, {"one": 100}) == ("one", pytest.approx(1.0), 0.0)


# Leaderboard ----------------------------------------------------------------------------------------------------------
def test_models_are_compared_on_the_splits_that_all_have():
    errors = {("one", 0): {"a": 1.0, "b": 2.0}, ("one", 1): {"a": 3.0}, ("two", 0): {"b": 4.0}, ("two", 1): {"a": 5.0}}
    errors |= {("six", 0): {"a": 6.0, "b": 8.0}, ("six", 1): {"a": 7.0, "b": 10.0}}
    records = {
        run: {model: {"error": error, "fit_cpu_seconds": 2 * error} for model, error in of.items()}
        for run, of in errors.items()
    }
    found = comparison.compare(records, list(records), ["b", "a"])
    assert found.runs == [("one", 0), ("six", 0), ("six", 1)]
    assert found.sets == ["one", "six"]
    np.testing.assert_allclose(found.errors, [[2.0, 1.0], [9.0, 6.5]])
    np.testing.assert_allclose(found.seconds, 2 * found.errors)
    assert comparison.measured_on(records, list(records), ["a", "b"], 1.0) == ["a", "b"]
    del records["two", 0]["b"]
    assert comparison.measured_on(records, list(records), ["a", "b"], 0.7) == ["a"]


def test_ranks_p_values_and_cliques_by_their_definitions():
    draw = np.random.RandomState(3)
    errors = np.exp(0.3 * draw.normal(size=(9, 5)) + [0.0, 0.1, 0.25, 0.5, 0.8])
    errors[0, 1] = errors[0, 0] * (1 + 1e-7)  # equal in the digits that are recorded
    smaller = np.array([[(row < error * 0.99999).sum() for error in row] for row in errors])
    equal = np.array([[(abs(row / error - 1) < 1e-5).sum() for error in row] for row in errors])
    ranks = records.mean_ranks(errors)
    np.testing.assert_allclose(ranks, np.mean(smaller + (equal + 1) / 2, axis=0))

    p = {}
    for pair in itertools.combinations(range(5), 2):
        difference = np.log(errors[:, pair[0]]) - np.log(errors[:, pair[1]])
        sizes = np.argsort(np.argsort(abs(difference))) + 1.0
        sums = np.array([sizes @ signs for signs in itertools.product([0, 1], repeat=9)])  # all signs are as likely
        least = min(sizes @ (difference > 0), sizes @ (difference < 0))
        p[pair] = min(1.0, 2 * np.mean(sums <= least))
        assert comparison.signed_rank(*errors[:, pair].T) == pytest.approx(p[pair])
    values = np.array(list(p.values()))
    adjusted = [max(min(1.0, q * np.sum(values >= q)) for q in values if q <= value) for value in values]
    np.testing.assert_allclose(comparison.holm(values), adjusted)
    assert comparison.signed_rank(errors[:, 0], errors[:, 0]) == 1.0

    order = np.argsort(ranks)
    alike = {pair for pair, value in zip(p, adjusted, strict=True) if value >= 0.05}

    def joined(first, last):
        return all(tuple(sorted(pair)) in alike for pair in itertools.combinations(order[first : last + 1], 2))

    runs = [(i, j) for i, j in itertools.combinations(range(5), 2) if joined(i, j)]
    longest = [run for run in runs if not any(a <= run[0] and run[1] <= b and (a, b) != run for a, b in runs)]
    assert comparison.cliques(errors, order) == longest
    assert len(longest) > 1  # not all alike


def test_the_leaderboard_measures_what_is_missing_and_writes_the_page(tmp_path, monkeypatch):
    monkeypatch.setattr(contenders, "find_spec", lambda name: None)
    write_tables(tmp_path)
    draw = np.random.RandomState(0)
    X = draw.normal(size=(40, 2))
    masks = np.arange(40)[:, None] % 4 == 0
    np.savez(tmp_path / "numbers.npz", **{"line/X": X, "line/y": X @ [1.0, 2.0], "line/masks": masks})
    with (tmp_path / "peers.csv").open("a", encoding="utf-8") as lines:
        lines.writelines(f"line,0,{model},30,2,0.5,,1.0\n" for model in ("lightgbm", "random forest", "svm tuned"))
    (tmp_path / "docs" / "images").mkdir(parents=True)
    file = tmp_path / "results" / "records.csv"
    leaderboard.leaderboard(tmp_path, 1, file, tmp_path / "docs")
    page = (tmp_path / "docs" / "leaderboard.md").read_text(encoding="utf-8")
    assert "`LSSVR()` is first of 4 models by mean rank, with 1.00 " in page
    assert "| line | 40 x 2 | **0.000** | 0.500 | 0.500 | 0.500 |" in page
    assert "| apart | 36 x 2, 3 | **0.0** | 25.0 | 25.0 | 25.0 |" in page
    found = records.read_peers(file)
    error = [found["noise", split]["lssvm"]["error"] for split in (0, 1)]
    ratio = math.sqrt(0.01 / 0.26 * (np.mean(error) + 0.01) / 0.26)
    assert f"| LightGBM | 2, 3 | {ratio:.3f} |" in page
    pictures = sorted(path.name for path in (tmp_path / "docs" / "images").iterdir())
    kinds = ("classes", "numbers")
    assert pictures == [f"leaderboard_{kind}_{what}.png" for kind in kinds for what in ("ranks", "ratios", "times")]

    def fail(*given):
        raise AssertionError("measured again")

    monkeypatch.setattr(contenders, "measure", fail)
    leaderboard.leaderboard(tmp_path, 1, file, tmp_path / "docs")
    assert (tmp_path / "docs" / "leaderboard.md").read_text(encoding="utf-8") == page
    file.write_text("\n".join(file.read_text(encoding="utf-8").splitlines()[:-1]) + "\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="measured again"):
        leaderboard.leaderboard(tmp_path, 1, file, tmp_path / "docs")


def test_no_line_of_the_leaderboard_starts_with_what_is_a_comment_or_a_list_there():
    for length in range(90, 125):
        paragraph = "x" * length + " (27 %), 3 > 2 - 1\n% - 5 # of"
        lines = leaderboard.wrapped(paragraph).splitlines()
        assert " ".join(lines) == paragraph.replace("\n", " ")
        assert not any(re.match(r"[%>#]|[-+*] ", line) for line in lines)


# Leave-one-out of classifiers -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("dense", [True, False])
def test_leave_one_out_of_losses_against_refits(dense):
    """Exact for squares; for the others as near as docs/theory.md says."""
    assert loo_classes.accuracy("squared", range(3), dense=dense)["f, largest"] < 1e-10
    for loss in ("squared_hinge", "logistic"):
        found = loo_classes.accuracy(loss, range(3), dense=dense)
        assert found["probability, root mean square"] < 0.06
        assert 1e-6 < found["f, root mean square"] < 0.3 * found["f of refits, root mean square"]


def test_coverage_of_sets_of_classes(tmp_path, capsys):
    X, y = load_iris(return_X_y=True)
    np.savez(tmp_path / "classes.npz", **{"iris/X": X, "iris/y": y, "iris/masks": np.zeros((150, 1), dtype=bool)})
    class_sets.main(["--data", str(tmp_path), "--splits", "2"])
    row = [cell.strip() for cell in capsys.readouterr().out.splitlines()[2].split("|")[1:-1]]
    assert row[:2] == ["iris", "3"]
    few, size, more, larger = map(float, row[2:])
    assert 0.8 < few <= more <= 1.0
    assert 1.0 <= size <= larger <= 3.0


def test_large_sets_of_classes(capsys):
    large_classes.main(["--share", "0.05", "--sets", "6500 x 110", "7200 x 16"])
    rows = [line.split("|")[1:-1] for line in capsys.readouterr().out.splitlines()[2:4]]
    assert [row[0].strip() for row in rows] == ["6500 x 110, 2", "7200 x 16, 10"]
    assert all(0.0 <= float(cell) <= 0.7 for row in rows for cell in row[1:3])


def test_fits_in_threads_and_processes_have_the_bits_of_fits_alone(capsys):
    numbers = [3, 16]  # quick ones
    assert endurance.used(3, 0) != endurance.used(3, 1)  # the digest depends on the numbers
    assert endurance.same_bits(numbers)
    assert "8 threads: 6 of 6 fits are bitwise equal" in capsys.readouterr().out
