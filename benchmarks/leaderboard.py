"""The leaderboard: `LSSVR()` and `LSSVC()` against other models, as a page with pictures.

`python -m benchmarks.tables leaderboard --data FOLDER [--jobs N] [--records FILE]` takes the results of the peers from
FOLDER/peers.csv. It measures the default models on the same sets and splits, and also neo-ls-svm and CatBoost (with
their defaults) where they are installed and peers.csv does not have them. Results are appended to FILE; those that it
has are not measured again, so that an interrupted run continues and the page can be written anew. Writes
docs/leaderboard.md and docs/images/leaderboard_*.png.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from textwrap import fill
from typing import NamedTuple

import numpy as np
from scipy.stats import friedmanchisquare

from . import leaderboard_pictures as pictures
from .comparison import LEVEL, Comparison, cliques, compare, holm, measured_on, signed_rank
from .contenders import OWN, measure_missing, runs_of
from .records import ZERO, Peers, Run, geometric_mean, mean_ranks, read_peers, read_sets

DOCS = Path(__file__).parent.parent / "docs"
TITLES = {
    "catboost": "CatBoost",
    "lightgbm": "LightGBM",
    "realmlp td": "RealMLP TD",
    "lightgbm td": "LightGBM TD",
    "random forest": "random forest",
    "svm tuned": "tuned SVM",
    "gp ard": "Gaussian process",
    "neo-ls-svm": "neo-ls-svm",
    "xrfm 15 configurations": "xRFM",
}
MOST, HALF = 0.9, 0.5  # shares of the sets that the models of a comparison were measured on
HUNDREDTH = 0.01  # seconds: the unit of peers.csv
EQUAL = 1e-4  # errors are recorded with five digits
SLOWER = ["CatBoost", "neo-ls-svm", "xRFM"]  # were timed on another computer
PLACES = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")

Rows = list[tuple[str, dict[str, float]]]  # by set: the own error over that of each peer


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *rows))


def against_each(records: Peers, runs: list[Run], zero: float) -> dict[str, Comparison]:
    """By peer: the own model and the peer, with `zero` added to the errors."""
    found = {peer: compare(records, runs, [OWN, peer]) for peer in TITLES}
    return {peer: of._replace(errors=of.errors + zero) for peer, of in found.items() if of.sets}


class Section(NamedTuple):
    title: str
    size: str
    summary: str
    text: str


def section(kind: str, records: Peers, sets: dict[str, dict[str, np.ndarray]], images: Path) -> Section:
    """Draw the pictures of a kind of sets and describe them."""
    numbers = kind == "numbers"
    own, zero, error = ("LSSVR()", 0.0, "error") if numbers else ("LSSVC()", ZERO, f"(error + {ZERO})")
    titles = {OWN: own, **TITLES}
    runs = sorted(runs_of(sets, records), key=lambda run: (len(sets[run[0]]["y"]), run))
    rankings, clouds = [], []
    most, half = (measured_on(records, runs, titles, share) for share in (MOST, HALF))
    for models in [most] if most == half else [most, half]:
        of = compare(records, runs, models)
        errors = of.errors + zero
        ranks = mean_ranks(of.errors)
        order = np.argsort(ranks, kind="stable")
        chance = friedmanchisquare(*of.errors.T).pvalue
        title = f"{len(of.sets)} sets, {len(of.runs)} splits"
        names = [titles[model] for model in models]
        rankings.append(
            pictures.Ranking(
                f"Mean ranks on {title} (Friedman test: p = {chance:.1g})",
                [names[place] for place in order],
                list(ranks[order]),
                cliques(errors, order),
            )
        )
        relative = np.exp(np.log(errors / errors.min(axis=1, keepdims=True)).mean(axis=0))
        seconds = np.exp(np.log(np.maximum(of.seconds, HUNDREDTH)).mean(axis=0))
        clouds.append(pictures.Cloud(title, names, seconds, relative, SLOWER))
    each = against_each(records, runs, zero)
    rows = []
    for name in dict.fromkeys(name for name, _ in runs):
        ratios = {
            titles[peer]: float(np.divide(*of.errors[of.sets.index(name)]))
            for peer, of in each.items()
            if name in of.sets
        }
        rows.append((name, ratios))
    pictures.draw_ranks(rankings, images / f"leaderboard_{kind}_ranks.png")
    pictures.draw_ratios(own, rows, images / f"leaderboard_{kind}_ratios.png", error)
    pictures.draw_times(clouds, images / f"leaderboard_{kind}_times.png", error)
    parts = [
        f"![Mean ranks of {own} and other models](images/leaderboard_{kind}_ranks.png)",
        against_table(own, each, error),
        f"![Errors of {own} relative to those of other models, by set](images/leaderboard_{kind}_ratios.png)",
        f"![CPU seconds and errors of {own} and other models](images/leaderboard_{kind}_times.png)",
        set_table(records, runs, sets, titles, numbers),
    ]
    return Section(
        "Regression" if numbers else "Classification",
        f"{len(rows)} {'regression' if numbers else 'classification'} tables ({len(runs)} splits)",
        summary(own, rankings[0], each, rows),
        "\n\n".join(parts),
    )


def p_values(each: dict[str, Comparison]) -> dict[str, float]:
    p = holm(np.array([signed_rank(*of.errors.T) for of in each.values()]))
    return dict(zip(each, p.tolist(), strict=True))


def against_table(own: str, each: dict[str, Comparison], error: str) -> str:
    p = p_values(each)
    rows = []
    for peer, of in each.items():
        ratios = np.divide(*of.errors.T)
        better, worse = int(np.sum(ratios < 1 - EQUAL)), int(np.sum(ratios > 1 + EQUAL))
        rows.append(
            [
                TITLES[peer],
                f"{len(of.sets)}, {len(of.runs)}",
                f"{error_ratio(of):.3f}",
                f"{better} / {len(of.sets) - better - worse} / {worse}",
                f"{p[peer]:.1g}",
                short(time_ratio(of)),
            ]
        )
    head = [f"{own} against", "sets, splits", f"{error} ratio", "sets better / equal / worse", "p", "CPU seconds ratio"]
    return table(head, rows)


def set_table(
    records: Peers, runs: list[Run], sets: dict[str, dict[str, np.ndarray]], titles: dict[str, str], numbers: bool
) -> str:
    rows = []
    models = [model for model in titles if any(model in records[run] for run in runs)]
    for name in dict.fromkeys(name for name, _ in runs):
        own = [run for run in runs if run[0] == name]
        has = {model: [records[run][model]["error"] for run in own if model in records[run]] for model in models}
        text = {m: (f"{np.mean(e):.3f}" if numbers else f"{100 * np.mean(e):.1f}") for m, e in has.items() if e}
        best = min(float(text[model]) for model in text if len(has[model]) == len(own))
        for model in text:
            if len(has[model]) < len(own):
                text[model] += " \\*"
            elif float(text[model]) == best:
                text[model] = f"**{text[model]}**"
        X, y = sets[name]["X"], sets[name]["y"]
        size = f"{len(y)} x {X.shape[1]}" + ("" if numbers else f", {len(np.unique(y))}")
        taken = np.mean([records[run][OWN]["fit_cpu_seconds"] for run in own])
        rows.append([name, size, *(text.get(model, "") for model in models), f"{taken:.1f}"])
    head = ["set", "rows x columns" + ("" if numbers else ", classes"), *(titles[model] for model in models)]
    return table([*head, "CPU seconds"], rows)


def error_ratio(of: Comparison) -> float:
    return geometric_mean(np.divide(*of.errors.T))


def time_ratio(of: Comparison) -> float:
    return geometric_mean(np.divide(*np.maximum(of.seconds, HUNDREDTH).T))


def short(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.{1 if ratio >= 1 else 2}f}"


def listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def below_and_above(ratios: dict[str, float], smaller: str, larger: str, form: Callable[[float], str]) -> str:
    """The peers to which the ratio is smaller and those to which it is larger than 1, unless it is about 1."""
    parts = []
    for word, sign in ((smaller, 1), (larger, -1)):
        names = [f"{TITLES[peer]} ({form(ratio)})" for peer, ratio in ratios.items() if sign * (ratio - 1) < -0.005]
        if names:
            parts.append(f"{word} {listed(names)}")
    return ", and ".join(parts)


def summary(own: str, ranking: pictures.Ranking, each: dict[str, Comparison], rows: Rows) -> str:
    """The result in words, from the figures."""
    place = ranking.names.index(own)
    others = [f"{name} {rank:.2f}" for name, rank in zip(ranking.names, ranking.ranks, strict=True) if name != own]
    errors = below_and_above(
        {peer: error_ratio(of) for peer, of in each.items()},
        "smaller than that of",
        "larger than that of",
        lambda ratio: f"by {100 * abs(ratio - 1):.0f} %",
    )
    times = below_and_above(
        {peer: time_ratio(of) for peer, of in each.items()},
        "less CPU time than",
        "more CPU time than",
        lambda ratio: f"{ratio:.2f} times" if 0.9 < ratio < 1.1 else f"{short(ratio)} times",
    )
    unsure = [TITLES[peer] for peer, p in p_values(each).items() if p >= LEVEL]
    worst = sorted(((max(ratios.values()), name) for name, ratios in rows), reverse=True)
    behind = sum(ratio > 1 + EQUAL for ratio, _ in worst)
    much = [f"`{name}` ({100 * (ratio - 1):.0f} %)" for ratio, name in worst if ratio > 1.1]
    return (
        f"`{own}` is {PLACES[place]} of {len(ranking.names)} models by mean rank, with {ranking.ranks[place]:.2f} "
        f"({', '.join(others)}). In the geometric mean over the sets, its error is {errors}. "
        + (f"The difference is not significant for {listed(unsure)}. " if unsure else "")
        + f"On {behind} of {len(rows)} sets at least one other model has a smaller error"
        + (f"; that of `{own}` is more than 10 % above the smallest one on {listed(much)}. " if much else ". ")
        + f"A fit takes {times}."
    )


PAGE = """# Leaderboard

<!-- written by python -m benchmarks.tables leaderboard -->

`LSSVR()` and `LSSVC()`, with their defaults, compared with other models on {sizes}.

{summaries}

Three reservations: lssvm was developed on these sets (constants of its search were chosen on all of them together),
while the other models were not. CatBoost, LightGBM and the random forest are not tuned on these tables; if tuned, they
can be more accurate, but take longer. CPU seconds of CatBoost and xRFM are from a computer that is about half as fast
per core, and those of neo-ls-svm from a busy one, so that on the same computer lssvm would take about twice as much
relative to these three.

## How it was measured

`python -m benchmarks.tables leaderboard --data FOLDER --jobs 15` measured lssvm, neo-ls-svm and CatBoost where it was
missing, and wrote this page. All models get the same numeric columns (categories are one-hot encoded, missing cells
are replaced by the median) and the same splits; a tenth to a fifth of the rows is for the test. The tables are
public ones of UCI, StatLib and Delve. Neither they nor the results of the other models are part of this repository;
`python -m benchmarks.tables --help` describes the files that FOLDER must contain.

| model | settings |
|---|---|
| `LSSVR()`, `LSSVC()` | defaults: kernel, widths and C are chosen by leave-one-out |
| CatBoost, LightGBM | defaults |
| RealMLP TD | its meta-tuned defaults (pytabkit 1.7.3) |
| LightGBM TD | meta-tuned defaults, mean of five folds (pytabkit 1.7.3) |
| random forest | 300 trees |
| tuned SVM | scaled columns; 24 (SVR) or 16 (SVC) settings compared by 5-fold cross-validation on up to 2000 rows |
| Gaussian process | one width per column, RBF or Matérn 3/2 by the marginal likelihood; only up to 1300 rows |
| neo-ls-svm | defaults; only regression and two classes |
| xRFM | the best of 15 random configurations on a fifth of the training rows; only small sets |

Errors are RMSE / std(y), with the standard deviation of the training targets, or error rates. They are averaged over
the splits of a set. Models are compared on the sets and splits that they have in common: diagrams of several models on
those that all of them have, ratios to `LSSVR()` and `LSSVC()` on those that both have. 0.01 is added to error rates
before ratios are taken, because some are 0. Ratios are averaged by geometric means; p is that of Wilcoxon's
signed-rank test of their logarithms, adjusted by Holm's method. In the tables of errors, error rates are in percent,
the smallest error is bold, and \\* marks models that were measured on fewer splits of a set than the others.

Seconds are CPU seconds of one fit with one thread, on x86 computers with 15 or 16 fits at a time; those of CatBoost,
xRFM (aarch64) and neo-ls-svm (busy with other work) are from slower ones.

The upper diagram of mean ranks has the models that were measured on at least 90 % of the sets, the lower one those
that were measured on at least half of them. Rank 1 is the smallest error of a set, and a bar joins models of which no
two differ significantly (the same test of all pairs, level 0.05). In the pictures of ratios, each point compares
`LSSVR()` or `LSSVC()` with one other model; the ring marks the best other model of a set, which is known only
afterwards. In the pictures of seconds, the error is relative to the smallest one of each set among the models shown,
and hollow markers are times from a slower computer.

{sections}"""


def page(sections: list[Section]) -> str:
    text = PAGE.format(
        summaries="\n\n".join(f"**{of.title}.** {of.summary}" for of in sections),
        sizes=" and ".join(of.size for of in sections),
        sections="\n\n".join(f"## {of.title}\n\n{of.text}" for of in sections),
    )
    return "\n\n".join(part if part[0] in "#|!<" else wrapped(part) for part in text.split("\n\n")) + "\n"


def wrapped(paragraph: str) -> str:
    """Lines of up to 120 characters, none of which starts with a character that means something there, such as %."""
    kept = re.sub(r"\s(?=[%#>|]|[-+*=]\s)", "\0", paragraph)  # a comment, a heading, a list
    return fill(kept, width=120, break_long_words=False, break_on_hyphens=False).replace("\0", " ")


def leaderboard(folder: Path, jobs: int, file: Path, docs: Path = DOCS) -> None:
    """Measure what is missing, and write the page and its pictures."""
    sections = []
    for kind in ("numbers", "classes"):
        sets, records = read_sets(folder / f"{kind}.npz", []), read_peers(folder / "peers.csv")
        measure_missing(kind, sets, records, file, jobs)
        for run, found in read_peers(file).items():
            records[run].update(found)
        sections.append(section(kind, records, sets, docs / "images"))
    (docs / "leaderboard.md").write_text(page(sections), encoding="utf-8")
