"""The default models on a folder of public tables, against peers that were measured before.

    python -m benchmarks.tables classes --data FOLDER [--splits 0 1 2] [--sets NAME ...] [--jobs N]
    python -m benchmarks.tables numbers --data FOLDER [--splits 0 1 2] [--sets NAME ...] [--jobs N]
    python -m benchmarks.tables leaderboard --data FOLDER [--jobs N] [--records FILE]

The last one runs `benchmarks.leaderboard`, which writes docs/leaderboard.md. FOLDER/classes.npz and FOLDER/numbers.npz
hold name/X, name/y and name/masks (rows x splits, True for test rows); FOLDER/peers.csv the columns set, split, model,
error, log_loss and fit_cpu_seconds. Errors are error rates, or RMSE over the standard deviation of the training
targets. A split without the peers that every set needs ("lightgbm" and "lssvm 0.1.0"; for classes also "svm tuned" and
"random forest") is skipped; other peers count where they were measured. Errors are means over the splits of a set;
ratios and ranks are those of the means. Seconds are the process time of `fit`, with one BLAS thread. Prints Markdown.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed

from .records import (
    EPS,
    FOREST,
    LIGHTGBM,
    OLD,
    PEERS,
    SVM,
    ZERO,
    Record,
    Run,
    class_record,
    geometric_mean,
    mean_ranks,
    number_record,
    read_peers,
    read_sets,
)
from .tuning import table

NUMBER_PEERS = {"gp ard": "GP", "catboost": "CatBoost", LIGHTGBM: "LightGBM", SVM: "tuned SVM", FOREST: "forest"}
LARGE = 5000  # rows above which LightGBM is also compared on its own
RECORDS = Path(__file__).parent / "results" / "leaderboard.csv"


class Results(NamedTuple):
    """Sets, the splits that were run, and by set and model the means over the splits; peers may be missing."""

    sets: dict[str, dict[str, np.ndarray]]
    runs: list[Run]
    means: dict[str, dict[str, Record]]


def measured(
    kind: str,
    record: Callable[..., Record],
    needed: Iterable[str],
    folder: Path,
    splits: list[int],
    sets: list[str],
    jobs: int,
) -> Results:
    """Fit the default model to every split for which the needed peers were measured."""
    peers = read_peers(folder / "peers.csv")
    found = read_sets(folder / f"{kind}.npz", sets)
    runs = [
        (name, split)
        for name in found
        for split in splits
        if split < found[name]["masks"].shape[1] and set(needed) <= set(peers.get((name, split), ()))
    ]
    if not runs:
        raise SystemExit("No split has all peers.")
    fits = Parallel(n_jobs=jobs)(
        delayed(record)(found[name]["X"], found[name]["y"], found[name]["masks"][:, split]) for name, split in runs
    )
    means: dict[str, dict[str, Record]] = {}
    for name in dict.fromkeys(name for name, _ in runs):
        own = [number for number, run in enumerate(runs) if run[0] == name]
        records = {"lssvm": [fits[number] for number in own]}
        for peer in set.intersection(*(set(peers[runs[number]]) for number in own)):
            records[peer] = [peers[runs[number]][peer] for number in own]
        means[name] = {
            model: {key: float(np.mean([record[key] for record in several])) for key in several[0]}
            for model, several in records.items()
        }
    return Results(found, runs, means)


def classes(folder: Path, splits: list[int], sets: list[str], jobs: int) -> dict[str, float]:
    """Fit, print the tables and return the summary."""
    found, runs, means = measured("classes", class_record, PEERS, folder, splits, sets, jobs)
    rows = []
    for name, of in means.items():
        errors = [f"{100.0 * of[model]['error']:.1f}" for model in ("lssvm", *PEERS)]
        losses = [f"{of[model]['log_loss']:.3f}" for model in ("lssvm", OLD)]
        taken = [f"{of[model]['fit_cpu_seconds']:.2f}" for model in ("lssvm", SVM)]
        size = f"{len(found[name]['y'])} x {found[name]['X'].shape[1]}, {len(np.unique(found[name]['y']))}"
        rows.append([name, size, *errors, *losses, *taken])
    heads = ["errors in %: lssvm", "tuned SVM", "forest", "LightGBM", "0.1.0"]
    table(["set", "rows x columns, classes", *heads, "log loss", "0.1.0", "CPU seconds", "tuned SVM"], rows)
    summary = summarise(means)
    tested = {
        name: sum(int(found[name]["masks"][:, split].sum()) for own, split in runs if own == name) for name in means
    }
    worst, ratio, sure = worst_set(means, tested)
    lines = [[label, f"{value:.3f}"] for label, value in summary.items()]
    lines.append([f"largest (error + {ZERO})/(0.1.0's + {ZERO}): {worst}, {sure:+.1f} standard errors", f"{ratio:.3f}"])
    table([f"{len(means)} sets, {len(runs)} splits", ""], lines)
    return summary


def numbers(folder: Path, splits: list[int], sets: list[str], jobs: int) -> dict[str, float]:
    """Fit, print the tables and return the summary."""
    found, runs, means = measured(
        "numbers", partial(number_record, checks=True), (LIGHTGBM, OLD), folder, splits, sets, jobs
    )
    means = dict(sorted(means.items(), key=lambda item: len(found[item[0]]["y"])))
    rows = []
    for name, of in means.items():
        size = f"{len(found[name]['y'])} x {found[name]['X'].shape[1]}"
        errors = [f"{of[model]['error']:.3f}" if model in of else "" for model in ("lssvm", OLD, *NUMBER_PEERS)]
        taken = [f"{of[model]['fit_cpu_seconds']:.1f}" for model in ("lssvm", OLD)]
        own = of["lssvm"]
        rows.append([name, size, *errors, f"{own['loo']:.3f}", f"{100.0 * own['covered']:.1f}", *taken])
    heads = ["error: lssvm", "0.1.0", *NUMBER_PEERS.values(), "leave-one-out", "% covered", "CPU seconds", "0.1.0"]
    table(["set", "rows x columns", *heads], rows)
    large = [name for name in means if len(found[name]["y"]) > LARGE]
    summary = number_summary(means, large)
    table([f"{len(means)} sets, {len(runs)} splits", ""], [[label, f"{value:.3f}"] for label, value in summary.items()])
    return summary


def number_summary(means: dict[str, dict[str, Record]], large: list[str]) -> dict[str, float]:
    """Geometric means of the ratios over the sets that a peer was measured on, and what leave-one-out promises."""

    def ratio(peer: str, key: str = "error", names: Iterable[str] = means) -> list[float]:
        return [means[name]["lssvm"][key] / means[name][peer][key] for name in names if peer in means[name]]

    found = {f"error / 0.1.0's, {len(means)} sets": geometric_mean(ratio(OLD))}
    for peer, title in NUMBER_PEERS.items():
        if ratio(peer):
            found[f"error / {title}'s, {len(ratio(peer))} sets"] = geometric_mean(ratio(peer))
    if large:
        found[f"error / LightGBM's, {len(large)} sets above {LARGE} rows"] = geometric_mean(
            ratio(LIGHTGBM, names=large)
        )
    worst = max(means, key=lambda name: means[name]["lssvm"]["error"] / means[name][OLD]["error"])
    found[f"largest error / 0.1.0's: {worst}"] = max(ratio(OLD))
    optimism = [of["lssvm"]["error"] / max(of["lssvm"]["loo"], EPS) for of in means.values()]
    found["test RMSE / leave-one-out RMSE, median"] = float(np.median(optimism))
    found["test RMSE / leave-one-out RMSE, 90th percentile"] = float(np.quantile(optimism, 0.9))
    found["rows inside 90 % intervals, mean"] = float(np.mean([of["lssvm"]["covered"] for of in means.values()]))
    found["CPU seconds / 0.1.0's"] = geometric_mean(ratio(OLD, "fit_cpu_seconds"))
    found["CPU seconds, largest mean of a set"] = max(of["lssvm"]["fit_cpu_seconds"] for of in means.values())
    return found


def summarise(means: dict[str, dict[str, Record]]) -> dict[str, float]:
    """Geometric means over the sets, and the mean rank."""
    contest = ("lssvm", SVM, FOREST, LIGHTGBM)
    rank = mean_ranks(np.array([[of[model]["error"] for model in contest] for of in means.values()]))[0]
    ratios = {
        f"(error + {ZERO})/(tuned SVM's + {ZERO}), geometric mean": ("error", SVM, ZERO),
        "log loss / 0.1.0's, geometric mean": ("log_loss", OLD, 0.0),
        "CPU seconds / tuned SVM's, geometric mean": ("fit_cpu_seconds", SVM, 0.0),
    }
    found = {
        label: geometric_mean((of["lssvm"][key] + add) / (of[peer][key] + add) for of in means.values())
        for label, (key, peer, add) in ratios.items()
    }
    return {**found, "mean rank among lssvm, tuned SVM, forest and LightGBM": float(rank)}


def worst_set(means: dict[str, dict[str, Record]], test_rows: dict[str, int]) -> tuple[str, float, float]:
    """The set with the largest error over that of 0.1.0, the ratio, and the difference in binomial standard errors."""
    ratios = {name: (of["lssvm"]["error"] + ZERO) / (of[OLD]["error"] + ZERO) for name, of in means.items()}
    name = max(ratios, key=lambda name: ratios[name])
    new, old = (means[name][model]["error"] for model in ("lssvm", OLD))
    error = np.sqrt((new * (1.0 - new) + old * (1.0 - old)) / test_rows[name])
    return name, ratios[name], float((new - old) / max(error, EPS))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=["classes", "numbers", "leaderboard"])
    parser.add_argument("--data", type=Path, required=True, help="the folder of the sets and of peers.csv")
    parser.add_argument("--splits", type=int, nargs="+", help="0 1 2, unless given")
    parser.add_argument("--sets", nargs="+", default=[], metavar="NAME", help="all, unless given")
    parser.add_argument("--jobs", type=int, default=1, help="fits at a time")
    parser.add_argument("--records", type=Path, default=RECORDS, help="leaderboard: a CSV file; what it has is not run")
    options = parser.parse_args(arguments)
    chosen = options.data, options.splits or [0, 1, 2], options.sets, options.jobs
    if options.table == "classes":
        classes(*chosen)
    elif options.table == "numbers":
        numbers(*chosen)
    else:
        from .leaderboard import leaderboard  # which needs Matplotlib

        if options.splits or options.sets:
            parser.error("leaderboard takes all sets and splits: omit --sets and --splits")
        leaderboard(options.data, options.jobs, options.records)


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # lssvm's own threads obey it, too
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")  # neo-ls-svm
    main()
