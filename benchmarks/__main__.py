"""All scenarios compared with other packages, the limits of the computer, one table and one figure.

    python -m benchmarks --quick            small sizes: under three minutes on two cores
    python -m benchmarks --full             the sizes of docs/performance.md: under 25 minutes
    python -m benchmarks --full --only b,i  some scenarios again
    python -m benchmarks --full --page      the page alone, from what was measured before

Every run of a contender is a process of its own (`benchmarks.jobs`), on the cores that this one may use; the
contenders of a problem take turns, and the best run counts (--quick: there is one). Results go to benchmarks/results/
as they come. --full then writes the results and the picture of docs/performance.md, --quick its page into that folder.
What exceeds its time limit is stopped and reported so, as is what is not installed; "timed" in the notes marks
extrapolations. --neo names another interpreter for neo-ls-svm.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
START, END = "<!-- results of python -m benchmarks: begin -->", "<!-- results of python -m benchmarks: end -->"
Record = dict[str, Any]


# Scenarios ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Contender:
    name: str
    job: str
    arguments: dict[str, Any]
    repeats: int = 2
    limit: int = 300  # seconds

    def command(self, neo: str) -> list[str]:
        python = neo if self.job == "neo" else sys.executable
        return [python, "-m", "benchmarks.jobs", json.dumps({"job": self.job, **self.arguments})]


@dataclass(frozen=True)
class Problem:
    """One comparison; the others are measured against the first contender."""

    scenario: str
    title: str
    contenders: list[Contender]


def machine(n: int, rows: int, columns: int) -> list[Problem]:
    limits = Contender("limits", "limits", {"n": n, "rows": rows, "columns": columns}, repeats=1)
    imports = Contender("from lssvm import LSSVR, LSSVC", "imports", {}, repeats=3)
    return [Problem("machine", "limits", [limits]), Problem("machine", "import", [imports])]


def dense(sizes: list[int]) -> list[Problem]:
    problems = []
    for rows in sizes:
        arguments, repeats = {"rows": rows}, 3 if rows <= 5000 else 1
        contenders = [
            Contender("lssvm, fit + leave-one-out", "dense", {**arguments, "loo": True}, repeats),
            Contender("KernelRidge, fit", "kernel_ridge", arguments, repeats),
        ]
        if rows > 4000:  # `fit` leaves leave-one-out until it is asked for
            contenders.append(Contender("lssvm, fit", "dense", {**arguments, "loo": False}, repeats))
        problems.append(Problem("a", f"dense, N = {rows:,}", contenders))
    return problems


def sparse(rows: list[int], sizes: list[int], large: tuple[int, int]) -> list[Problem]:
    """All basis sizes at the largest number of rows, the middle size at the others, and one larger problem."""
    problems = []
    for n in sizes:
        arguments, repeats = {"rows": rows[-1], "n": n}, 1 if n > 1000 else 2
        contenders = [
            Contender("lssvm, fit + leave-one-out", "sparse", arguments, repeats),
            Contender("lssvm, fit_chunks", "chunked", {**arguments, "leave_one_out": "none"}, repeats),
            Contender("Nystroem + Ridge, fit", "nystroem", arguments, repeats),
            Contender("Falkon, fit", "falkon", arguments, repeats),
        ]
        problems.append(Problem("b", f"l = {rows[-1]:,}, n = {n:,}", contenders))
    middle = sizes[len(sizes) // 2]
    for few in rows[:-1]:
        ours = Contender("lssvm, fit + leave-one-out", "sparse", {"rows": few, "n": middle})
        problems.append(Problem("b", f"l = {few:,}, n = {middle:,}", [ours]))
    arguments = {"rows": large[0], "n": large[1]}
    contenders = [
        Contender("lssvm, fit_chunks + leave-one-out", "chunked", {**arguments, "leave_one_out": "rows"}, 1),
        Contender("Nystroem + Ridge, fit", "nystroem", arguments, 1),
    ]
    return [*problems, Problem("b", f"l = {large[0]:,}, n = {large[1]:,}", contenders)]


def predict(rows: list[int], n: int, train: int, part: int) -> list[Problem]:
    problems = []
    for many in rows:
        arguments = {"rows": many, "n": n, "train": train}
        contenders = [Contender("lssvm", "predict", arguments)]
        if many == rows[-1]:
            svr = {"rows": many, "part": part, "train": train}
            contenders += [
                Contender("Nystroem + Ridge", "predict_nystroem", arguments, 1),
                Contender("SVR", "predict_svr", svr, 1),
            ]
        problems.append(Problem("c", f"predict {many:,} rows, n = {n:,}", contenders))
    return problems


def search(few: int, rows: int, n: int) -> list[Problem]:
    dense, sparse = {"rows": few, "n": None}, {"rows": rows, "n": n}
    return [
        Problem(
            "d",
            f"search 20 x 30, dense, l = {few:,}",
            [
                Contender("lssvm, all 600 points", "grid", dense),
                Contender("lssvm, default search", "default_search", dense),
                Contender("GridSearchCV(KernelRidge), 10-fold", "grid_kernel_ridge", {"rows": few}),
            ],
        ),
        Problem(
            "d",
            f"search 20 x 30, l = {rows:,}, n = {n:,}",
            [
                Contender("lssvm, all 600 points", "grid", sparse, 1),
                Contender("lssvm, default search", "default_search", sparse, 1),
                Contender("Nystroem + RidgeCV, loop over widths", "loop_nystroem", sparse, 1),
                Contender("GridSearchCV(Nystroem + Ridge), 10-fold", "grid_nystroem", sparse, 1),
            ],
        ),
    ]


def whole(sizes: list[int], neo: list[int], process: int) -> list[Problem]:
    problems = []
    for rows in sizes:
        contenders = [Contender("LSSVR()", "default", {"rows": rows})]
        if rows in neo:
            contenders.append(Contender("neo-ls-svm", "neo", {"rows": rows}, 1))
        if rows == process:
            contenders.append(Contender("GaussianProcessRegressor, ARD", "gaussian_process", {"rows": rows}, 1))
        problems.append(Problem("e", f"complete fit with defaults, l = {rows:,}", contenders))
    return problems


def pruning(rows: int, n: int) -> list[Problem]:
    contenders = [
        Contender('lssvm, Prune(rows="keep")', "prune", {"rows": rows, "n": n}),
        Contender("lssvm, one dense fit + leave-one-out", "dense", {"rows": rows, "loo": True}),
    ]
    return [Problem("f", f"improved pruning, {rows:,} to {n}", contenders)]


def selection(rows: int, n: int) -> list[Problem]:
    arguments = {"rows": rows, "n": n}
    names = ("Random", "RandomlyPivoted", "FeatureVectors", "KMeans")
    contenders = [Contender("one DSYRK of l x n", "select_dsyrk", arguments)]
    contenders += [Contender(f"lssvm, {name}", "select", {"step": name, **arguments}) for name in names]
    return [Problem("g", f"choosing {n:,} of {rows:,} rows", contenders)]


def classes(rows: int, n: int) -> list[Problem]:
    arguments = {"rows": rows, "n": n}
    contenders = [
        Contender("lssvm, fit + leave-one-out", "classify", arguments),
        Contender("Nystroem + RidgeClassifier, fit", "classify_nystroem", arguments),
    ]
    return [Problem("h", f"10 classes, 64 inputs, l = {rows:,}, n = {n:,}", contenders)]


def iterative(sizes: list[int]) -> list[Problem]:
    problems = []
    for rows in sizes:
        contenders = [
            Contender("lssvm, fit", "dense", {"rows": rows, "loo": False}),
            Contender("KernelRidge, fit", "kernel_ridge", {"rows": rows}, 1, 600),
            Contender("PLSSVM, fit", "plssvm", {"rows": rows}, 1, 600),
        ]
        problems.append(Problem("i", f"dense, fixed kernel and C, N = {rows:,}", contenders))
    return problems


def scenarios(full: bool) -> list[Problem]:
    if full:
        return [
            *machine(4000, 100_000, 1000),
            *dense([2000, 5000, 10_000]),
            *sparse([25_000, 50_000, 100_000], [500, 1000, 2000], (1_000_000, 500)),
            *predict([250_000, 500_000, 1_000_000], 500, 20_000, 10_000),
            *search(1000, 20_000, 500),
            *pruning(1000, 10),
            *selection(100_000, 1000),
            *classes(50_000, 1000),
            *iterative([15_000, 20_000]),  # on two cores OpenBLAS dies of the Cholesky factor of KernelRidge in between
            *whole([1000, 2000, 10_000, 20_000, 100_000], [20_000, 100_000], 2000),
        ]
    return [
        *machine(1000, 20_000, 400),
        *dense([1000, 4500]),
        *sparse([5000, 20_000], [200, 400], (50_000, 200)),
        *predict([50_000, 100_000], 200, 3000, 1000),
        *search(200, 2000, 100),
        *pruning(300, 10),
        *selection(10_000, 200),
        *classes(5000, 200),
        *iterative([6000]),
        *whole([200, 1000, 4000], [1000], 200),
    ]


# Running --------------------------------------------------------------------------------------------------------------
def run_once(contender: Contender, neo: str) -> Record:
    places = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
    try:
        done = subprocess.run(
            contender.command(neo), cwd=ROOT, env=environment, capture_output=True, text=True, timeout=contender.limit
        )
    except subprocess.TimeoutExpired:
        return {"stopped": contender.limit}
    except OSError as error:
        return {"failed": str(error)}
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    try:
        return json.loads(lines[-1])
    except (IndexError, ValueError):
        return {"failed": lines[-1] if lines else f"exit status {done.returncode}"}


def run(problem: Problem, file: Path, neo: str, repeats: int) -> None:
    """Contenders take turns; each becomes one line of the file, with its best time and smallest peak memory."""
    outcomes: dict[str, list[Record]] = {contender.name: [] for contender in problem.contenders}
    for turn in range(repeats):
        for contender in problem.contenders:
            sofar = outcomes[contender.name]
            if turn >= contender.repeats or any("seconds" not in outcome for outcome in sofar):
                continue
            sofar.append(run_once(contender, neo))
            print(f"({problem.scenario}) {problem.title}: {contender.name}: {describe(sofar[-1])}", flush=True)
    with file.open("a", encoding="utf-8") as lines:
        for contender in problem.contenders:
            runs = outcomes[contender.name]
            good = [outcome for outcome in runs if "seconds" in outcome]
            best = min(good, key=lambda outcome: outcome["seconds"]) if good else runs[-1]
            if good:
                best = {**best, "peak": min(outcome["peak"] for outcome in good), "runs": len(good)}
            line = {"scenario": problem.scenario, "problem": problem.title, "contender": contender.name}
            lines.write(json.dumps({**line, "arguments": contender.arguments, **best}) + "\n")


def describe(outcome: Record) -> str:
    if "seconds" in outcome:
        return f"{outcome['seconds']:.2f} s"
    if "missing" in outcome:
        return "not installed"
    if "stopped" in outcome:
        return f"stopped after {outcome['stopped']} s"
    return f"failed: {outcome['failed']}" if "failed" in outcome else "done"


def recorded(file: Path, problems: list[Problem]) -> list[Record]:
    """The last line of each contender, in the order of the scenarios."""
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []
    last = {(line["scenario"], line["problem"], line["contender"]): line for line in lines}
    keys = [(p.scenario, p.title, contender.name) for p in problems for contender in p.contenders]
    return [last[key] for key in keys if key in last]


# What follows from the records ----------------------------------------------------------------------------------------
class Figures:
    """Look-ups in the records; NaN if not measured."""

    def __init__(self, records: list[Record]) -> None:
        self.records = records
        self.rates: dict[str, float] = next((r["rates"] for r in records if "rates" in r), {})

    def select(self, scenario: str, contender: str = "", **arguments: Any) -> list[Record]:
        return [
            record
            for record in self.records
            if record["scenario"] == scenario
            and record["contender"].startswith(contender)
            and all(record["arguments"].get(name) == value for name, value in arguments.items())
        ]

    def value(self, field: str, scenario: str, contender: str, **arguments: Any) -> float:
        found = self.select(scenario, contender, **arguments)
        return float(found[0].get(field, math.nan)) if found else math.nan

    def ratio(self, field: str, scenario: str, ours: str, peer: str, **arguments: Any) -> float:
        """Our value divided by that of the peer; an upper bound if the peer was stopped."""
        above, below = (self.value(field, scenario, name, **arguments) for name in (ours, peer))
        if math.isnan(below) and field == "seconds":
            below = self.value("stopped", scenario, peer, **arguments)
        return above / below if below else math.nan

    def whose(self, field: str, scenario: str, peer: str, **arguments: Any) -> str:
        """The label of the denominator of `ratio`."""
        stopped = field == "seconds" and any("stopped" in r for r in self.select(scenario, peer, **arguments))
        return f"{peer}'s until it was stopped" if stopped else f"{peer}'s"

    def slope(self, scenario: str, contender: str, field: str, **fixed: Any) -> float:
        """Log-log slope of the time in one argument, by least squares."""
        found = [r for r in self.select(scenario, contender, **fixed) if "seconds" in r]
        points = {math.log(r["arguments"][field]): math.log(r["seconds"]) for r in found}
        if len(points) < 2:
            return math.nan
        x = sum(points) / len(points)
        y = sum(points.values()) / len(points)
        return sum((u - x) * (v - y) for u, v in points.items()) / sum((u - x) ** 2 for u in points)

    def share(self, record: Record) -> float:
        """The share of the computer's peak rate that a fit with leave-one-out reaches, for its necessary flops."""
        rates, seconds = self.rates, record.get("seconds", math.nan)
        arguments, loo = record["arguments"], "leave-one-out" in record["contender"]
        if not rates or not loo or not record["contender"].startswith("lssvm"):
            return math.nan
        rows, n = arguments["rows"], arguments.get("n")
        if record["scenario"] == "a":  # a Cholesky factor and its inverse
            return 2 * rows**3 / 3 / (1e9 * rates["DPOTRF"]) / seconds
        if record["scenario"] in "bh" and n is not None:  # whitening, leave-one-out and the Gram matrix
            return rows * n * n * (2 / rates["DTRMM"] + 1 / rates["DSYRK"]) / 1e9 / seconds
        return math.nan


@dataclass(frozen=True)
class Sizes:
    """The sizes at which the aims are evaluated."""

    dense: int
    sparse: tuple[int, int]
    predictions: int
    search: tuple[int, int]


SIZES = {
    True: Sizes(5000, (100_000, 1000), 1_000_000, (1000, 20_000)),
    False: Sizes(4500, (20_000, 400), 100_000, (200, 2000)),
}


def aims(f: Figures, sizes: Sizes) -> Iterator[tuple[str, float, float]]:
    """The aims, the values reached and their upper bounds."""
    N, (rows, n) = sizes.dense, sizes.sparse
    fit, basis, last = "lssvm, fit +", {"rows": rows, "n": n}, {"rows": sizes.predictions}
    few, many = ({"rows": size} for size in sizes.search)
    ratio = f.ratio
    yield (
        f"(a) N = {N:,}: fit + leave-one-out / KernelRidge's fit",
        ratio("seconds", "a", fit, "KernelRidge", rows=N),
        1.25,
    )
    alone = f.value("seconds", "a", "lssvm, fit", rows=N, loo=False) / f.value("seconds", "a", "KernelRidge", rows=N)
    yield f"(a) N = {N:,}: fit / KernelRidge's fit", alone, 0.7
    yield f"(a) N = {N:,}: peak memory / N x N doubles", f.value("peak", "a", fit, rows=N) / (8 * N * N), 2.2
    where = f"(b) l = {rows:,}, n = {n:,}:"
    yield f"{where} fit + leave-one-out / Nystroem + Ridge's fit", ratio("seconds", "b", fit, "Nystroem", **basis), 0.85
    yield (
        f"{where} fit_chunks / Nystroem + Ridge's fit",
        ratio("seconds", "b", "lssvm, fit_c", "Nystroem", **basis),
        0.6,
    )
    share = max((f.share(record) for record in f.select("b", fit, **basis)), default=math.nan)
    yield f"{where} fit + leave-one-out / its flops at the rates of the computer", 1 / share, 1.25
    yield "(b) largest l: peak memory, GB", f.value("peak", "b", "lssvm, fit_chunks + leave-one-out") / 1e9, 1.0
    yield "(c) seconds / Nystroem + Ridge's", ratio("seconds", "c", "lssvm", "Nystroem", **last), 1 / 5
    yield "(c) seconds / SVR's", ratio("seconds", "c", "lssvm", "SVR", **last), 1 / 10
    loop, nystroem, ridge = "Nystroem + RidgeCV", "GridSearchCV(Nystroem", "GridSearchCV(KernelRidge"
    yield (
        "(d) 600 points, basis: seconds / Nystroem + RidgeCV loop",
        ratio("seconds", "d", "lssvm, all", loop, **many),
        1 / 15,
    )
    yield (
        "(d) 600 points, basis: seconds / GridSearchCV",
        ratio("seconds", "d", "lssvm, all", nystroem, **many),
        1 / 300,
    )
    yield "(d) 600 points, dense: seconds / GridSearchCV", ratio("seconds", "d", "lssvm, all", ridge, **few), 1 / 80
    yield (
        "(d) default search, dense: seconds / GridSearchCV",
        ratio("seconds", "d", "lssvm, default", ridge, **few),
        1 / 200,
    )
    error = ratio("error", "d", "lssvm, default", "lssvm, all", **few)
    yield "(d) default search, dense: leave-one-out error / best of the 600 points", error, 1.0
    peers = {"neo-ls-svm": (1 / 3, 1 / 4, 1.0), "GaussianProcessRegressor": (1 / 10, math.nan, 1.02)}
    for peer, bounds in peers.items():
        for record in f.select("e", peer):
            size = record["arguments"]["rows"]
            for field, bound in zip(("seconds", "peak", "error"), bounds, strict=True):
                if not math.isnan(bound):
                    value = ratio(field, "e", "LSSVR", peer, rows=size)
                    yield f"(e) l = {size:,}: {field} / {f.whose(field, 'e', peer, rows=size)}", value, bound
    yield "(f) seconds / one dense fit", ratio("seconds", "f", "lssvm, Prune", "lssvm, one"), 5.0
    for record in f.select("i", "lssvm"):
        size = record["arguments"]["rows"]
        where = f"(i) N = {size:,}:"
        plssvm = f.whose("seconds", "i", "PLSSVM", rows=size)
        yield f"{where} seconds / {plssvm}", ratio("seconds", "i", "lssvm", "PLSSVM", rows=size), 1 / 20
        yield f"{where} peak memory / KernelRidge's", ratio("peak", "i", "lssvm", "KernelRidge", rows=size), 1.0
    yield "import beyond scikit-learn's own, seconds", f.value("seconds", "machine", "from lssvm"), 0.3
    yield "log-log slope of seconds in l, (b)", f.slope("b", fit, "rows", n=n), 1.05
    yield "log-log slope of seconds in n, (b)", f.slope("b", fit, "n", rows=rows), 2.1
    yield "log-log slope of seconds in l, (c)", f.slope("c", "lssvm", "rows"), 1.05
    yield "log-log slope of seconds in l, (e)", f.slope("e", "LSSVR", "rows"), math.nan


# The page -------------------------------------------------------------------------------------------------------------
def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def number(value: float, form: str = ".3g") -> str:
    return "" if math.isnan(value) else f"{value:{form}}"


def page(records: list[Record], full: bool, picture: str) -> str:
    """The section of results, in Markdown."""
    f = Figures(records)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    command = "python -m benchmarks --full" if full else "python -m benchmarks --quick"
    parts = [
        f"`{command}` on {cores} cores ({platform.machine()}); each run in its own process, the contenders "
        "taking turns, the best run. Memory is the peak beyond the data. \\* marks what was timed on a part and "
        "multiplied.",
    ]
    if f.rates:
        rates = ", ".join(f"{name} {rate:.3g}" for name, rate in f.rates.items())
        parts.append(f"The rates of the computer, in 1e9 flops, values or bytes per second: {rates}.")
    rows, before = [], ""
    for record in records:
        if record["scenario"] == "machine":
            continue
        first = next(r for r in records if r["problem"] == record["problem"])
        seconds, unit = record.get("seconds", math.nan), first.get("seconds", math.nan)
        note, share = record.get("note", ""), f.share(record)
        if not math.isnan(share):
            note = f"{100 * share:.0f} % of the computer's rate" + (f"; {note}" if note else "")
        if "seconds" not in record:
            note = describe(record)
        star = " \\*" if "timed" in note else ""
        title = f"({record['scenario']}) {record['problem']}"
        rows.append(
            [
                "" if title == before else title,
                record["contender"],
                "" if math.isnan(seconds) else f"{seconds:.3g}{star}",
                number(seconds / unit) if unit else "",
                number(record.get("peak", math.nan) / 2**20, ".0f"),
                number(record.get("error", math.nan), ".4g"),
                note,
            ]
        )
        before = title
    parts.append(table(["problem", "contender", "seconds", "ratio to first", "peak MiB", "error", "notes"], rows))
    parts.append(f"![Times of all contenders]({picture})")
    lines = []
    for label, value, bound in aims(f, SIZES[full]):
        missed = "no value" if math.isnan(value) else ("yes" if value <= bound else "**no**")
        lines.append([label, number(value), number(bound), "" if math.isnan(bound) else missed])
    parts.append(table(["aim: at most", "reached", "bound", "met"], lines))
    return "\n\n".join(parts)


def draw(records: list[Record], path: Path) -> None:
    """Times of all contenders, one line per problem."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    timed = [record for record in records if "seconds" in record and record["scenario"] != "machine"]
    titles = list(dict.fromkeys(f"({record['scenario']}) {record['problem']}" for record in timed))
    peers: dict[str, Callable[[str], bool]] = {
        "lssvm": lambda name: name.startswith(("lssvm", "LSSVR")),
        "scikit-learn": lambda name: not name.startswith(("lssvm", "LSSVR", "neo", "Falkon", "PLSSVM", "one DSYRK")),
        "others": lambda name: name.startswith(("neo", "Falkon", "PLSSVM")),
        "one DSYRK": lambda name: name.startswith("one DSYRK"),
    }
    figure, axes = plt.subplots(figsize=(9, 1.5 + 0.28 * len(titles)), layout="constrained")
    for (label, belongs), marker in zip(peers.items(), "oDs|", strict=True):
        some = [record for record in timed if belongs(record["contender"])]
        places = [titles.index(f"({record['scenario']}) {record['problem']}") for record in some]
        if some:
            axes.scatter([r["seconds"] for r in some], places, marker=marker, label=label, s=36, zorder=3)
    axes.set_xscale("log")
    axes.set_yticks(range(len(titles)), titles, fontsize=8)
    axes.invert_yaxis()
    axes.grid(alpha=0.3)
    axes.set_xlabel("seconds")
    axes.legend(loc="upper right", fontsize=8)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def write(records: list[Record], full: bool) -> Path:
    if not full:
        draw(records, RESULTS / "quick.png")
        target = RESULTS / "quick.md"
        target.write_text(page(records, full, "quick.png") + "\n", encoding="utf-8")
        return target
    draw(records, ROOT / "docs" / "images" / "performance.png")
    target = ROOT / "docs" / "performance.md"
    before, _, rest = target.read_text(encoding="utf-8").partition(START)
    after = rest.partition(END)[2]
    section = page(records, full, "images/performance.png")
    target.write_text(f"{before}{START}\n\n{section}\n\n{END}{after}", encoding="utf-8")
    return target


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    size = parser.add_mutually_exclusive_group(required=True)
    size.add_argument("--quick", action="store_true")
    size.add_argument("--full", action="store_true")
    parser.add_argument("--only", help="scenarios to run, by letter, or 'machine': a,b,machine")
    parser.add_argument("--page", action="store_true", help="only write the page")
    parser.add_argument("--neo", default=sys.executable, metavar="PYTHON", help="a Python interpreter with neo-ls-svm")
    arguments = parser.parse_args()
    problems = scenarios(arguments.full)
    wanted = set(arguments.only.split(",")) if arguments.only else {problem.scenario for problem in problems}
    unknown = wanted - {problem.scenario for problem in problems}
    if unknown:
        parser.error(f"--only {arguments.only}: there is no scenario {sorted(unknown)[0]!r}")
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / ("full.jsonl" if arguments.full else "quick.jsonl")
    start = time.perf_counter()
    for problem in problems:
        if problem.scenario in wanted and not arguments.page:
            run(problem, file, arguments.neo, repeats=3 if arguments.full else 1)
    target = write(recorded(file, problems), arguments.full)
    print(f"{target.relative_to(ROOT)} written after {time.perf_counter() - start:.0f} s")
    if not arguments.full:
        print(target.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
