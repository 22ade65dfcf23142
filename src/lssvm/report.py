"""One HTML file about a fitted model, with nothing to fetch: charts are inline SVG, style and script are hashed.

`to_html` gathers sections; every text that comes from data goes through `_text`. The drawing is by hand, so that the
charts follow the page's light or dark colours and stay small.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import html
import math
import os
import re
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from . import __version__, _xp, diagnose
from .kernels import Additive, Kernel

__all__ = ["to_html"]

LARGEST_PATH = 3000  # rows of a dense machine, beyond which its path of C is not computed again
LARGEST_COLUMNS = 5e7  # rows times basis points likewise
MANY_LIGHT = 0.1  # share of the rows of classes that may lose their weight without a warning
POINTS = 3000  # a cloud of more is thinned; its extremes stay
LISTED = 20  # rows of the table of outliers
TUNERS = {"KFold": "k-fold cross-validation", "Holdout": "the error on rows held out", "LeaveOneOut": "leave-one-out"}
Section = tuple[str, str, str]  # id, heading, content


def to_html(
    model: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    X: Any = None,
    y: Any = None,
    title: str | None = None,
    about: dict[str, Any] | None = None,
) -> str:
    """A report on a fitted model: warnings, what was asked and chosen, leave-one-out quality, outliers, intervals.

    Parameters
    ----------
    model : LSSVR or LSSVC
        Fitted, or loaded from a file.
    path : path or None
        Where to write it, too.
    X, y : arrays or None
        Other rows and their targets: adds a section on their prediction.
    title : str or None
        Heading; None names the target.
    about : dict or None
        What else is known of the fit: ``target``, ``source``, ``model`` (names), ``warnings`` (list of str),
        ``seconds`` (dict of numbers), ``row`` (the number of the first row in the source), ``dropped`` (places of
        rows of the source that were not used). None takes the model's ``table_``, which the command line writes.

    Returns
    -------
    str
        The page, at most about 1 MB, UTF-8.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels, report
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> page = report.to_html(LSSVR(kernels.RBF(13.1), C=1.0).fit(X, y))
    >>> page.startswith("<!DOCTYPE html>")
    True
    """
    check_is_fitted(model)
    if not hasattr(model, "dual_coef_"):
        raise TypeError(f"to_html takes a fitted LSSVR or LSSVC, got {type(model).__name__}.")
    if (X is None) != (y is None):
        raise ValueError("to_html: give both X and y of the other rows, or neither.")
    about = getattr(model, "table_", {}) if about is None else about
    _check_about(about)
    facts = _Facts(model, about)
    sections = [
        ("warnings", "Warnings", _found_warnings(facts)),
        ("figures", "Key figures", _figures(facts)),
        ("asked", "What was asked", _asked(facts)),
        ("chosen", "What was chosen, and why", _chosen(facts)),
        ("quality", "Leave-one-out quality", _quality(facts)),
        ("residuals", "Residuals and outliers", _residuals(facts)),
        ("intervals", "Interval coverage by leave-one-out", _intervals(facts)),
        ("components", "Components", _components(facts)),
        ("other", "Other rows", "" if X is None else _other(facts, X, y)),
        ("timings", "Timings", _timings(facts)),
        ("load", "How to use this model", _load(facts)),
    ]
    heading = title or f"{type(model).__name__}: {facts.target}"
    page = _page(heading, facts, [section for section in sections if section[2]])
    if path is not None:
        Path(path).write_text(page, encoding="utf-8", newline="\n")
    return page


def _check_about(about: Any) -> None:
    """What is known of a fit may come from a file: its types are checked."""
    kinds: dict[str, tuple[type, ...]] = {"warnings": (list, tuple), "seconds": (dict,), "row": (int,)}
    kinds["dropped"] = (list, tuple)
    if not isinstance(about, dict):
        raise TypeError(f"about must be a dict, got {about!r}.")
    for name, kind in kinds.items():
        if name in about and not isinstance(about[name], kind):
            raise TypeError(f"about[{name!r}] is {about[name]!r}: see lssvm.report.to_html for what it may hold.")
    if not all(isinstance(row, int) and row >= 0 for row in about.get("dropped", ())):
        raise ValueError("about['dropped'] must hold the places of rows, counted from 0.")


class _Facts:
    """What several sections need, computed once; what is not known is None."""

    def __init__(self, model: Any, about: dict[str, Any]) -> None:
        self.model = model
        self.about = about
        self.classes = [_plain(label) for label in model.classes_] if is_classifier(model) else None
        self.target = str(about.get("target") or ("class" if self.classes else "y"))
        self.names = diagnose.feature_names(model)
        self.problem = getattr(model, "_problem_", None)
        self.left_out: Any = _known(diagnose.left_out, model)
        self.sampled = self.left_out is not None and self.left_out.sampled  # then numbers of rows are not known
        total = (self.rows or 0) + len(about.get("dropped", ()))
        self._numbers = np.setdiff1d(np.arange(total), np.asarray(about.get("dropped", ()), dtype=int))
        self._numbers += int(about.get("row", 0))
        self.scores = _known(diagnose.scores, model)
        self.probability: Any = _known(diagnose.left_out_probabilities, model) if self.classes else None
        self.inverse_widths = _known(diagnose.inverse_widths, model)
        self.small = self.problem is not None and _is_small(self.problem)
        self.c_path = _known(diagnose.c_path, model) if self.small else None
        self.coverage = None
        if not self.classes and (self.small or self.problem is None):  # of chunks, a sample is left out
            self.coverage = _known(diagnose.coverage_path, model)

    def number(self, row: int) -> int:
        """The number that a training row has in its source: rows that were dropped count, too."""
        return int(self._numbers[row]) if row < len(self._numbers) else row

    @property
    def rows(self) -> int | None:
        """Number of training rows, where known."""
        return None if self.left_out is None else self.left_out.total

    @property
    def unit(self) -> str:
        return "targets -1, +1" if self.classes else f"units of {self.target}"


def _known(function: Any, model: Any) -> Any:
    """What a diagnosis returns, None where it does not apply."""
    try:
        return function(model)
    except ValueError:
        return None


def _is_small(problem: Any) -> bool:
    rows = len(problem.rows)
    return rows <= LARGEST_PATH if problem.is_dual else rows * problem.basis_size <= LARGEST_COLUMNS


def _plain(label: Any) -> str:
    return str(label.item() if isinstance(label, np.generic) else label)


# Sections -------------------------------------------------------------------------------------------------------------
def _found_warnings(facts: _Facts) -> str:
    found = [str(warning) for warning in facts.about.get("warnings", ())]
    for check in (_check_quality, _check_C, _check_widths, _check_outliers, _check_coverage):
        found += check(facts)
    if not found:
        checked = ["quality against a constant"]
        checked += ["C against its path"] * (facts.c_path is not None)
        checked += ["the number of widths"] * (facts.problem is not None)
        checked += ["class sizes"] if facts.classes else ["outliers"]
        checked += ["leverages"]
        checked += ["interval coverage"] * (facts.coverage is not None)
        return f'<p class="good">None. Checked: {", ".join(checked)}.</p>'
    return '<ul class="bad">' + "".join(f"<li>{_text(warning)}</li>" for warning in found) + "</ul>"


def _check_quality(facts: _Facts) -> Iterable[str]:
    if facts.left_out is None:
        yield "This model has no leave-one-out values: judge it on other rows."
        return
    if facts.rows is not None and facts.rows < 30:
        yield f"Only {facts.rows} rows: all figures below are rough."
    if facts.classes:
        counts = np.bincount(facts.probability[1][facts.left_out.given > 0], minlength=len(facts.classes))
        if not diagnose.beats_constant(facts.model):
            yield "The left-out error is no smaller than that of always naming the largest class: columns say little."
        smallest = int(np.argmin(counts))
        if counts[smallest] < 10 and len(facts.left_out.given) == facts.rows:
            yield f"Class {facts.classes[smallest]!r} has only {counts[smallest]} rows: its figures are rough."
    elif not diagnose.beats_constant(facts.model):
        yield "The left-out error is no smaller than that of the mean: the columns say little about the target."


def _check_C(facts: _Facts) -> Iterable[str]:
    if facts.c_path is None:
        return
    C, errors = facts.c_path
    own = errors[len(errors) // 2]
    best = int(np.argmin(errors))
    if own > 1.05 * errors[best]:
        yield (
            f"C = {facts.model.C_:.3g} has left-out error {_number(own)}; C = {C[best]:.3g} would have "
            f"{_number(errors[best])}"
            + (" (C was given, not chosen)." if facts.model.C is not None else " (weights and kernel as they are).")
        )


def _check_widths(facts: _Facts) -> Iterable[str]:
    """Many widths, chosen by the very error that judges them, over-fit it."""
    if facts.problem is None or facts.inverse_widths is None or "LeaveOneOut" not in facts.problem.paths:
        return
    asked = facts.problem.asked
    chosen = asked is not None and asked[0].is_free and np.ptp(facts.inverse_widths) > 1e-6 * facts.inverse_widths.max()
    if chosen and 20 * len(facts.names) > (facts.rows or 0):
        yield (
            f"{len(facts.names)} widths were chosen by the left-out error of only {facts.rows} rows: that error is too "
            "small then. Judge the model on other rows, or choose one width: kernel=kernels.RBF()."
        )


def _check_outliers(facts: _Facts) -> Iterable[str]:
    if facts.left_out is None:
        return
    if facts.model.robust is not None:
        robust = facts.left_out.robust[facts.left_out.weights > 0]
        gone, rows = int(np.sum(robust < 1e-3)), len(robust)
        if gone:
            yield f"{gone} of {rows} rows got (almost) no robust weight: see the residuals below."
        light = float(np.mean(robust < 0.5))
        if facts.classes and light > MANY_LIGHT:
            yield (
                f"{light:.0%} of the rows have a robust weight below 1/2: are so many labels wrong? Where classes "
                "overlap residuals say little; compare the log loss with that of a fit without robust weights."
            )
    elif not facts.classes:
        residuals = facts.left_out.residuals[facts.left_out.given > 0]
        middle = np.median(residuals, axis=0)
        scale = 1.4826 * np.median(np.abs(residuals - middle), axis=0)
        far = int(np.sum((np.abs(residuals - middle) > 6 * scale).any(axis=1))) if (scale > 0).all() else 0
        if far:
            yield f"{far} left-out residual(s) beyond 6 robust deviations: look at them, or try robust='hampel'."
    high = int(np.sum(facts.left_out.leverage > 0.99))
    if high:
        yield f"{high} row(s) fix the function alone (leverage above 0.99): their neighbourhood holds no other row."


def _check_coverage(facts: _Facts) -> Iterable[str]:
    if facts.coverage is None:
        return
    tested = len(facts.coverage.rows)
    observed = facts.coverage.observed.reshape(len(facts.coverage.asked), -1)
    for asked, shares in zip(facts.coverage.asked, observed, strict=True):
        for share in shares:
            if asked - share > 3 * math.sqrt(asked * (1 - asked) / tested):
                yield f"Intervals asked to cover {asked:.0%} cover only {share:.1%} of the left-out rows."


def _figures(facts: _Facts) -> str:
    model, tiles = facts.model, []
    if facts.scores is not None and facts.classes:
        tiles += [
            ("left-out error rate", f"{facts.scores['error_rate']:.2%}"),
            ("log loss", _number(facts.scores["log_loss"])),
        ]
    elif facts.scores is not None:
        tiles += [("left-out RMSE", _number(facts.scores["rmse"])), ("left-out R²", _number(facts.scores["r2"]))]
    if facts.rows is not None:
        tiles.append(("rows", f"{facts.rows}"))
    tiles += [
        ("columns", f"{model.n_features_in_}"),
        ("support vectors", f"{len(model.support_vectors_)}"),
        ("C", _number(model.C_)),
        ("kernel", type(model.kernel_).__name__),
    ]
    return '<dl class="tiles">' + "".join(f"<div><dt>{a}</dt><dd>{_text(b)}</dd></div>" for a, b in tiles) + "</dl>"


def _asked(facts: _Facts) -> str:
    chosen = f"chosen for you{_how(facts)}"
    rows = [("model", type(facts.model).__name__), ("target", facts.target)]
    if facts.classes:
        rows.append(("classes", ", ".join(facts.classes)))
    if facts.about.get("source"):
        rows.append(("data", str(facts.about["source"])))
    meaning = {"kernel": chosen, "C": chosen, "steps": "planned by the number of rows", "robust": "no robust weights"}
    meaning["class_weight"] = "every class counts as its rows do"
    for name, value in facts.model.get_params(deep=False).items():
        rows.append((name, f"None: {meaning.get(name, 'no')}" if value is None else repr(value)))
    return _table((), rows)


def _chosen(facts: _Facts) -> str:
    model = facts.model
    rows = [("kernel", _kernel_words(model.kernel_)), ("C", _why_C(facts)), ("basis", _basis_words(facts))]
    without = [name for name, used in zip(facts.names, diagnose.columns_used(model), strict=True) if not used]
    if without:
        more = f" and {len(without) - LISTED} more" if len(without) > LISTED else ""
        rows.append((f"left out: {len(without)} of {len(facts.names)} columns", ", ".join(without[:LISTED]) + more))
    rows += _search_words(facts)
    parts = [_table((), rows)]
    charts = []
    if facts.c_path is not None:
        C, errors = facts.c_path
        error = "left-out log loss" if is_classifier(model) else f"left-out RMSE ({facts.unit})"
        chart = _Chart("Left-out error along C", "C", error, log_x=True)
        chart.line(C, errors)
        chart.mark(model.C_, errors[len(errors) // 2], f"C = {_number(model.C_)}")
        charts.append(chart.svg())
    sparsity = _sparsity_chart(facts)
    if sparsity:
        charts.append(sparsity)
    if facts.inverse_widths is not None and len(facts.names) > 1:
        charts.append(_widths_chart(facts))
    if facts.inverse_widths is not None and len(facts.names) > 1:
        parts.append(
            "<p>The longer the bar of a column, the faster the function may bend along it; a column with a short bar "
            "acts about linearly, if at all.</p>"
        )
    return parts[0] + f'<div class="charts">{"".join(charts)}</div>' + "".join(parts[1:])


class _Words:
    """Stands for a value in a repr."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _kernel_words(kernel: Kernel) -> str:
    """The kernel as one writes it; long arrays are told in words."""
    return " ".join(repr(_worded(kernel)).split())


def _worded(kernel: Kernel) -> Kernel:
    kernel = copy.copy(kernel)
    for name, value in kernel.get_params(deep=False).items():
        if isinstance(value, Kernel):
            setattr(kernel, name, _worded(value))
        elif name == "sigma":
            widths = np.unique(np.asarray(_xp.to_numpy(value), float))
            setattr(kernel, name, float(f"{widths[0]:.4g}") if len(widths) == 1 else _Words("(one width a column)"))
        elif name == "knots":
            setattr(kernel, name, _Words(f"({len(value)} a column)"))
        elif name == "active" and value is not None:
            setattr(kernel, name, np.asarray(value).tolist())
    return kernel


def _paths(facts: _Facts) -> dict[str, Any]:
    return {} if facts.problem is None else facts.problem.paths


def _how(facts: _Facts) -> str:
    """By what the model's C and widths were chosen: the search that ended there."""
    if facts.problem is None:
        return " on the first rows" if hasattr(facts.model, "_stream_") else " on a sample of the rows"
    found = [words for name, words in TUNERS.items() if _paths(facts).get(name, {}).get("C") == facts.model.C_]
    return f" by {found[0]}" if found else ""


def _search_words(facts: _Facts) -> list[tuple[str, str]]:
    """What the searches did, from their records."""
    rows = []
    record = _paths(facts).get("LeaveOneOut")
    if record is not None:
        steps = [*map(str, record.get("plan", ()))]
        if record.get("evaluations"):
            steps.append(f"{record.evaluations} machines evaluated")
        rows.append(("search by leave-one-out", "; ".join(steps) or "nothing was left to choose"))
    for name in ("KFold", "Holdout"):
        record = _paths(facts).get(name)
        if record is not None:
            tried = f"; {len(record.shifts)} common factors of the widths" if len(record.shifts) > 1 else ""
            rows.append((f"search by {TUNERS[name]}", f"C{tried}; left-out {_loss(facts, record.score)}"))
    record = _paths(facts).get("LeaveOneOut", {})
    if math.isfinite(record.get("loo", math.inf)):
        wrong = f"; {record.error_rate:.2%} of the weight in a wrong class" if "error_rate" in record else ""
        rows.append(("left-out error", _loss(facts, record.loo) + wrong))
    return rows


def _loss(facts: _Facts, value: float) -> str:
    """What a search minimised, in the units of the targets."""
    if is_classifier(facts.model):
        return f"log loss {_number(value)} with one slope for all (the probabilities are calibrated afterwards)"
    several = ", outputs summed" if facts.model.dual_coef_.ndim > 1 else ""
    kind, value = ("RMSE", math.sqrt(value)) if facts.model.robust is None else ("mean absolute error", value)
    return f"{kind} {_number(value)} ({facts.unit}{several})"


def _why_C(facts: _Facts) -> str:
    model = facts.model
    how = "given" if model.C is not None else f"chosen{_how(facts)}"
    if facts.c_path is None:
        return f"{_number(model.C_)}, {how}"
    errors = facts.c_path[1]
    middle, decade = len(errors) // 2, 5  # 41 values over 8 decades
    kind = "left-out error" if model.robust is None else "weighted left-out error"
    return (
        f"{_number(model.C_)}, {how}: its {kind} is {_number(errors[middle])}, "
        f"that of C/10 {_number(errors[middle - decade])}, that of 10 C {_number(errors[middle + decade])}"
    )


def _basis_words(facts: _Facts) -> str:
    size, rows = len(facts.model.support_vectors_), facts.rows
    if rows is None:
        return f"{size} points"
    if size == rows:
        return f"all {rows} rows"
    steps = [] if facts.problem is None else [name for name in facts.problem.paths if name != "LeaveOneOut"]
    how = f" by {', '.join(steps)}" if steps else ""
    return f"{size} of {rows} rows{how}" if facts.model.support_ is not None else f"{size} points for {rows} rows{how}"


def _sparsity_chart(facts: _Facts) -> str:
    path = getattr(facts.model, "path_", None)
    if path is None or "sizes" not in path or "scores" not in path or len(path.sizes) < 3:
        return ""
    order = np.argsort(path.sizes)
    sizes, scores = np.asarray(path.sizes, float)[order], np.asarray(path.scores, float)[order]
    chart = _Chart("Error along the sizes of the basis", "basis vectors", "recorded score", log_x=True)
    chart.line(sizes, scores)
    place = int(np.searchsorted(sizes, path.chosen))
    if place < len(sizes) and sizes[place] == path.chosen:
        chart.mark(float(path.chosen), scores[place], f"{path.chosen} vectors")
    return chart.svg()


def _widths_chart(facts: _Facts) -> str:
    values, shown = facts.inverse_widths, 25
    order = np.argsort(-np.round(values / (values.max() or 1.0), 6), kind="stable")[:shown]  # equal ones as they stand
    rest = f", {shown} of {len(values)} columns" if len(values) > shown else ""
    notes = ["left out" if values[c] == 0 else _number(values[c]) for c in order]
    title = f"Widths: spread / width of each column{rest}"
    return _bars(title, [facts.names[c] for c in order], values[order], notes)


def _quality(facts: _Facts) -> str:
    if facts.scores is None:
        return "<p>Not known: this model keeps no left-out residuals.</p>"
    note = (
        "<p>Each row is predicted by the machine without it, exactly (no refit). C, kernel, basis and robust weights "
        "are those of all rows, and what was chosen among them was chosen to make this error small.</p>"
    )
    if facts.sampled and len(facts.left_out.weights) < facts.left_out.total:
        note += f"<p>Of the {facts.rows} rows, a sample of {len(facts.left_out.weights)} is left out here.</p>"
    if np.ptp(facts.left_out.given) > 0:
        note += "<p>Rows count by their sample weights; tables of classes count the rows whose weight is positive.</p>"
    return note + (_class_quality(facts) if facts.classes else _number_quality(facts))


def _number_quality(facts: _Facts) -> str:
    rows, counting = facts.left_out, facts.left_out.given > 0
    table, charts = [], []
    for output in range(rows.actual.shape[1]):
        actual, predicted = rows.actual[counting, output], rows.predicted[counting, output]
        score = diagnose.number_scores(actual[:, None], predicted[:, None], rows.given[counting])
        name = facts.target if rows.actual.shape[1] == 1 else f"{facts.target} {output}"
        largest = np.max(np.abs(actual - predicted))
        table.append((name, *(_number(score[key]) for key in ("rmse", "mae")), _number(score["r2"]), _number(largest)))
        if output < 4:
            chart = _Chart(f"Predicted against actual: {name}", "left-out prediction", "actual value")
            chart.diagonal(actual, predicted)
            chart.cloud(predicted, actual, actual - predicted)
            charts.append(chart.svg())
    header = ("target", "RMSE", "mean absolute error", "R²", "largest error")
    return _table(header, table) + f'<div class="charts">{"".join(charts)}</div>'


def _class_quality(facts: _Facts) -> str:
    assert facts.classes is not None
    counting = facts.left_out.given > 0
    probability, codes = (array[counting] for array in facts.probability)
    named = np.argmax(probability, axis=1)
    score = facts.scores
    summary = [(f"{score['error_rate']:.2%}", _number(score["log_loss"]), _number(score["brier"]))]
    counts = np.zeros((len(facts.classes), len(facts.classes)), dtype=int)
    np.add.at(counts, (codes, named), 1)
    shown = np.argsort(-counts.sum(axis=1), kind="stable")[:15]
    confusion = []
    for c in sorted(shown):
        share = counts[c, c] / max(counts[c].sum(), 1)
        confusion.append((facts.classes[c], *(str(counts[c, k]) for k in sorted(shown)), f"{share:.1%}"))
    header = ("actual class", *(f"named {facts.classes[k]}" for k in sorted(shown)), "right")
    bins = diagnose.reliability(probability, codes, weights=facts.left_out.given[counting])
    of = f"class {facts.classes[1]}" if len(facts.classes) == 2 else "the named class"
    chart = _Chart(
        "Reliability of the probabilities", f"predicted probability of {of}", "observed share", box=(0, 1, 0, 1)
    )
    chart.diagonal(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    chart.whiskers(bins.predicted, bins.low, bins.high)
    chart.line(bins.predicted, bins.observed, dots=True)
    more = (
        "" if len(shown) == len(facts.classes) else f"<p>The {len(shown)} largest of {len(facts.classes)} classes.</p>"
    )
    return (
        _table(("error rate", "log loss", "Brier score"), summary)
        + "<h3>Left-out class against actual class</h3>"
        + _table(header, confusion)
        + more
        + f'<div class="charts">{chart.svg()}</div>'
    )


def _residuals(facts: _Facts) -> str:
    if facts.left_out is None:
        return ""
    return _class_outliers(facts) if facts.classes else _number_outliers(facts)


def _number_outliers(facts: _Facts) -> str:
    rows = facts.left_out
    size = np.max(np.abs(rows.residuals) / _scale(rows.residuals), axis=1)
    worst = np.argsort(-size, kind="stable")[:LISTED]
    several, weighted = rows.actual.shape[1] > 1, facts.model.robust is not None
    table = []
    for i in worst:
        output = int(np.argmax(np.abs(rows.residuals[i]) / _scale(rows.residuals)))
        values = (rows.actual[i, output], rows.predicted[i, output], rows.residuals[i, output])
        table.append(
            (
                str(facts.number(i)),
                *((f"{facts.target} {output}",) if several else ()),
                *map(_number, values),
                f"{size[i]:.1f}",
                *((f"{rows.robust[i]:.3g}",) if weighted else ()),
                f"{rows.leverage[i]:.3f}",
            )
        )
    header = ("row", *(("target",) if several else ()), "actual", "left-out prediction", "residual")
    header += ("in robust deviations", *(("robust weight",) if weighted else ()), "leverage")
    charts = []
    for output in range(min(rows.actual.shape[1], 4)):
        name = f": {facts.target} {output}" if several else ""
        chart = _Chart(f"Left-out residuals{name}", "left-out prediction", f"residual ({facts.unit})")
        chart.zero()
        x, e = rows.predicted[:, output], rows.residuals[:, output]
        full, gone = rows.robust > 0.999, rows.robust < 1e-3
        chart.cloud(x, e, e, shown=full)
        if not full.all():
            chart.cloud(x, e, e, shown=~full & ~gone, style="half")
            chart.cloud(x, e, e, shown=gone, style="none")
            chart.legend([("dots", "robust weight 1"), ("half", "between"), ("none", "0")])
        if not facts.sampled:
            chart.links(x[worst], e[worst], [facts.number(i) for i in worst])
        charts.append(chart.svg())
    if facts.sampled:
        return f'<div class="charts">{"".join(charts)}</div>'
    return (
        f'<div class="charts">{"".join(charts)}</div><h3>The {len(table)} largest residuals</h3>'
        + _rows_note(facts)
        + _table(header, table, sortable=True, anchors=[facts.number(i) for i in worst])
    )


def _scale(residuals: np.ndarray) -> np.ndarray:
    """Robust standard deviation of each output; the plain one where half of the residuals are alike."""
    middle = np.median(residuals, axis=0)
    scale = 1.4826 * np.median(np.abs(residuals - middle), axis=0)
    scale = np.where(scale > 0, scale, np.std(residuals, axis=0))
    return np.where(scale > 0, scale, 1.0)


def _rows_note(facts: _Facts) -> str:
    first = int(facts.about.get("row", 0))
    return f"<p>The first row of the data has the number {first}{', below the header' if first == 2 else ''}.</p>"


def _class_outliers(facts: _Facts) -> str:
    assert facts.classes is not None
    probability, codes = facts.probability
    own = probability[np.arange(len(codes)), codes]
    named = np.argmax(probability, axis=1)
    wrong = np.flatnonzero(named != codes)
    worst = wrong[np.argsort(own[wrong], kind="stable")][:LISTED]
    if not len(worst):
        return "<p>No left-out row is given to a wrong class.</p>"
    if facts.sampled:
        return f"<p>{len(wrong)} of {len(codes)} left-out rows are given to a wrong class.</p>"
    weighted = facts.model.robust is not None
    table = [
        (
            str(facts.number(i)),
            facts.classes[codes[i]],
            facts.classes[named[i]],
            f"{probability[i, named[i]]:.3f}",
            f"{own[i]:.3f}",
            *((f"{facts.left_out.robust[i]:.3g}",) if weighted else ()),
        )
        for i in worst
    ]
    header = ["row", "actual class", "left-out class", "its probability", "of the actual class"]
    header += ["robust weight"] * weighted
    return (
        f"<p>{len(wrong)} of {len(codes)} left-out rows are given to a wrong class; the {len(table)} surest of these "
        "may be mislabelled.</p>"
        + _rows_note(facts)
        + _table(header, table, sortable=True, anchors=[facts.number(i) for i in worst])
    )


def _intervals(facts: _Facts) -> str:
    if facts.classes:
        return ""
    if facts.coverage is None:
        return "<p>Not computed: this needs left-out rows, of a machine that is not too large.</p>"
    found = facts.coverage
    several = found.observed.ndim > 1
    table = []
    for level, asked in enumerate(found.asked):
        for output in range(found.observed.shape[1] if several else 1):
            place = (level, output) if several else (level,)
            width = found.width[place]
            half = 1.96 * math.sqrt(asked * (1 - asked) / len(found.rows))
            table.append(
                (
                    f"{asked:.0%}",
                    *((f"{facts.target} {output}",) if several else ()),
                    f"{found.observed[place]:.1%}",
                    f"{100 * half:.1f} points",
                    _number(width) if math.isfinite(width) else "infinite: too few rows",
                )
            )
    header = ("asked", *(("target",) if several else ()), "observed", "sampling error (95 %)", "mean width")
    return (
        f"<p>The jackknife+ interval for each of {len(found.rows)} rows, from the machines that have not seen it, "
        f"exactly: how many of the rows lie inside? Widths in {_text(facts.unit)}.</p>" + _table(header, table)
    )


def _components(facts: _Facts) -> str:
    """One curve a column: in an additive machine, how f moves with the column whatever the others are."""
    kernel = facts.model.kernel_
    if not isinstance(kernel, Additive):
        return ""
    rows = _xp.to_numpy(facts.model.support_vectors_ if facts.problem is None else facts.problem.X)
    rows = rows[:: max(1, len(rows) // 1000)]
    curves, joint = [], []
    for number, (group, _) in kernel.kept(rows.shape[1]).items():
        if len(group) > 1:
            joint.append(" and ".join(facts.names[c] for c in group))
            continue
        grid = np.linspace(rows[:, group[0]].min(), rows[:, group[0]].max(), 80)
        curves.append((group[0], grid, _component(facts.model, rows[0], group[0], number, grid)))
    size = max((float(np.ptp(curve)) for _, _, curve in curves), default=0.0)
    active = [item for item in curves if np.ptp(item[2]) > 1e-9 * size]
    shown = sorted(active, key=lambda item: -float(np.ptp(item[2])))[:16]
    several = f" Functions of several columns together, not drawn: {_text('; '.join(joint))}." if joint else ""
    if not shown:
        return f"<p>{several}</p>" if joint else "<p>The prediction is a constant: no column has a part in it.</p>"
    low, high = min(float(curve.min()) for _, _, curve in shown), max(float(curve.max()) for _, _, curve in shown)
    charts = []
    for c, grid, curve in shown:
        chart = _Chart(facts.names[c], facts.names[c], "contribution", small=True, box=(None, None, low, high))
        chart.zero()
        chart.line(grid, curve)
        charts.append(chart.svg())
    more = f" The {len(shown)} that vary most are drawn." if len(shown) < len(active) else ""
    which = f"{len(active)} of {rows.shape[1]} columns"
    intro = f"<p>The prediction is a constant plus curves of {which}, all on one scale.{more}{several}</p>"
    return intro + f'<div class="charts small">{"".join(charts)}</div>'


def _component(model: Any, row: np.ndarray, c: int, number: int, values: np.ndarray) -> np.ndarray:
    """A component of the first output of a model, where its column takes some values."""
    X = np.repeat(row[None, :], len(values), axis=0)
    X[:, c] = values
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        return model.components(X)[:, number].reshape(len(values), -1)[:, 0]


def _other(facts: _Facts, X: Any, y: Any) -> str:
    model = facts.model
    if facts.classes:
        score = diagnose.class_scores(_xp.to_numpy(model.predict_proba(X)), diagnose.class_codes(model, y))
        values = [(str(len(X)), f"{score['error_rate']:.2%}", _number(score["log_loss"]), _number(score["brier"]))]
        return _table(("rows", "error rate", "log loss", "Brier score"), values)
    actual = np.asarray(_xp.to_numpy(y), dtype=float).reshape(len(y), -1)
    predicted = _xp.to_numpy(model.predict(X)).reshape(len(y), -1)
    score = diagnose.number_scores(actual, predicted)
    chart = _Chart("Other rows: predicted against actual", "prediction", "actual value")
    chart.diagonal(actual[:, 0], predicted[:, 0])
    chart.cloud(predicted[:, 0], actual[:, 0], actual[:, 0] - predicted[:, 0])
    values = [(str(len(actual)), _number(score["rmse"]), _number(score["mae"]), _number(score["r2"]))]
    table = _table(("rows", "RMSE", "mean absolute error", "R²"), values)
    return table + f'<div class="charts">{chart.svg()}</div>'


def _timings(facts: _Facts) -> str:
    seconds = facts.about.get("seconds")
    if not seconds:
        return ""
    return _table(("work", "seconds"), [(str(name), f"{value:.2f}") for name, value in seconds.items()])


def _load(facts: _Facts) -> str:
    name = str(facts.about.get("model") or "model.lssvm")
    save = "" if facts.about.get("model") else f"lssvm.save(model, {name!r})\n"
    python = f"import lssvm\n{save}model = lssvm.load({name!r})\nmodel.predict(X)  # {_columns_words(facts)}"
    python += "\nmodel.predict_proba(X)" if facts.classes else "\nmodel.predict_interval(X, coverage=0.9)"
    shell = f"lssvm inspect {name}"
    if facts.about.get("columns"):
        shell = f"lssvm predict {name} new_rows.csv\n" + shell
    return (
        f"<h3>In Python</h3><pre tabindex=0><code>{_text(python)}</code></pre>"
        f"<h3>In a shell</h3><pre tabindex=0><code>{_text(shell)}</code></pre>"
        f"<p>Written by lssvm {_text(__version__)}.</p>"
    )


def _columns_words(facts: _Facts) -> str:
    names = ", ".join(facts.names[:6]) + (", ..." if len(facts.names) > 6 else "")
    return f"{len(facts.names)} column(s): {names}".replace("\n", " ")


# Text -----------------------------------------------------------------------------------------------------------------
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def _text(value: Any) -> str:
    """Any value as text of a page: escaped; control, direction and half characters replaced."""
    return html.escape(_UNPRINTABLE.sub("\ufffd", str(value)), quote=True)


def _short(value: str, length: int = 26) -> str:
    """A text of that length; of a longer one both ends, where names that are alike differ."""
    tail = length // 3
    return value if len(value) <= length else f"{value[: length - 1 - tail]}…{value[len(value) - tail :]}"


def _number(value: float) -> str:
    if math.isnan(value):
        return "not defined"
    return f"{float(value):.0f}" if 1e4 <= abs(value) < 1e7 else f"{float(value):.4g}"


def _table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    sortable: bool = False,
    anchors: Sequence[int] | None = None,
) -> str:
    """A table whose first column heads its rows; numbers are aligned right. An empty header is left out."""
    button = '<button type="button" class="sort">{}</button>' if sortable else "{}"
    head = "".join(f'<th scope="col">{button.format(_text(name))}</th>' for name in header)
    body = []
    for number, row in enumerate(rows):
        anchor = "" if anchors is None else f' id="row-{anchors[number]}"'
        cells = "".join(f"<td{_alignment(value)}>{_text(value)}</td>" for value in row[1:])
        body.append(f'<tr{anchor}><th scope="row"{_alignment(row[0])}>{_text(row[0])}</th>{cells}</tr>')
    top = f"<thead><tr>{head}</tr></thead>" if header else ""
    return f'<div class="scroll" tabindex="0"><table>{top}<tbody>{"".join(body)}</tbody></table></div>'


def _alignment(value: str) -> str:
    return ' class="n"' if re.fullmatch(r"-?[\d.]+(e[+-]?\d+)?( ?%)?( points)?", value) else ""


# Charts ---------------------------------------------------------------------------------------------------------------
class _Chart:
    """One set of axes as inline SVG. Everything is drawn on `svg`, when the ranges are known."""

    def __init__(
        self,
        title: str,
        x: str,
        y: str,
        *,
        log_x: bool = False,
        small: bool = False,
        box: tuple[float | None, float | None, float | None, float | None] = (None, None, None, None),
    ) -> None:
        self.title, self.x, self.y, self.log_x, self.box = title, x, y, log_x, box
        self.width, self.height = (320, 210) if small else (520, 340)
        self.left, self.right, self.top, self.bottom = 62, 14, 30, 44
        self._marks: list[Any] = []  # functions of nothing, called once the scales are known
        self._x: list[np.ndarray] = []
        self._y: list[np.ndarray] = []
        self._labels: list[tuple[str, str]] = []

    def line(self, x: np.ndarray, y: np.ndarray, dots: bool = False) -> None:
        """A curve, with a dot at each value if asked for."""
        self._see(x, y)
        self._marks.append(lambda: f'<path class="line" d="M{" L".join(self._places(x, y))}"/>')
        if dots:
            self._marks.append(lambda: self._dots(x, y, "dots big"))

    def cloud(
        self,
        x: np.ndarray,
        y: np.ndarray,
        residuals: np.ndarray,
        shown: np.ndarray | None = None,
        style: str = "dots",
    ) -> None:
        """Points; of very many, an even share and those of the largest residuals."""
        self._see(x, y)
        rows = np.arange(len(x)) if shown is None else np.flatnonzero(shown)
        if len(rows) > POINTS:
            far = rows[np.argsort(-np.abs(residuals[rows]), kind="stable")[: POINTS // 3]]
            even = rows[np.linspace(0, len(rows) - 1, 2 * POINTS // 3).astype(int)]
            drawn = np.union1d(even, far)
            label = f"{len(drawn)} of {len(rows)} points drawn: an even share, and the {len(far)} largest residuals"
            self._labels.append(("", label))
            rows = drawn
        self._marks.append(lambda: self._dots(x[rows], y[rows], style))

    def whiskers(self, x: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
        """Vertical intervals."""
        ends = lambda: zip(self._places(x, low), self._places(x, high), strict=True)  # noqa: E731
        self._marks.append(lambda: f'<path class="thin" d="{"".join(f"M{a}L{b}" for a, b in ends())}"/>')

    def mark(self, x: float, y: float, label: str) -> None:
        """A ring with a label: what was chosen."""
        self._see(np.array([x]), np.array([y]))
        self._labels.append(("ring", label))

        def draw() -> str:
            across, down = self._place(x, y)
            return (
                f'<circle class="ring" cx="{across:.1f}" cy="{down:.1f}" r="6"><title>{_text(label)}</title></circle>'
            )

        self._marks.append(draw)

    def links(self, x: np.ndarray, y: np.ndarray, rows: Sequence[int]) -> None:
        """Points that lead to their line of the table."""

        def draw() -> str:
            parts = []
            for at, down, row in zip(x, y, rows, strict=True):
                place = 'cx="{:.1f}" cy="{:.1f}"'.format(*self._place(float(at), float(down)))
                label = f"row {row}: residual {down:.4g}"
                parts.append(
                    f'<a href="#row-{row}" aria-label="{_text(label)}"><circle class="link" {place} r="5">'
                    f"<title>{_text(label)}</title></circle></a>"
                )
            return "".join(parts)

        self._marks.append(draw)

    def diagonal(self, a: np.ndarray, b: np.ndarray) -> None:
        """The line y = x over the range of both."""
        low, high = float(min(a.min(), b.min())), float(max(a.max(), b.max()))
        self._see(np.array([low, high]), np.array([low, high]))
        ends = np.array([low, high])
        self._marks.append(lambda: f'<path class="guide" d="M{" L".join(self._places(ends, ends))}"/>')

    def zero(self) -> None:
        """The line y = 0."""
        self._see(np.empty(0), np.array([0.0]))
        right = self.width - self.right
        self._marks.append(lambda: f'<path class="guide" d="M{self.left} {self._down(0.0):.1f}H{right}"/>')

    def legend(self, labels: Sequence[tuple[str, str]]) -> None:
        """Styles and what they mean."""
        self._labels.extend(labels)

    def svg(self) -> str:
        """The drawing, with a caption of what the signs mean."""
        self._scale()
        axes = self._axes()
        marks = "".join(mark() for mark in self._marks)
        signs = "".join(f'<span><i class="{style}"></i>{_text(label)}</span>' for style, label in self._labels)
        caption = f"<figcaption>{signs}</figcaption>" if signs else ""
        label = f"{self.title}. Across: {self.x}. Up: {self.y}."
        return (
            f'<figure><svg viewBox="0 0 {self.width} {self.height}" role="group" aria-label="{_text(label)}">'
            f'<text class="title" x="{self.left}" y="18">{_text(_short(self.title, 60))}</text>{axes}{marks}</svg>'
            f"{caption}</figure>"
        )

    def _see(self, x: np.ndarray, y: np.ndarray) -> None:
        self._x.append(np.asarray(x, float))
        self._y.append(np.asarray(y, float))

    def _scale(self) -> None:
        x, y = np.concatenate(self._x), np.concatenate(self._y)
        self._range_x = _range(np.log10(x) if self.log_x else x, self.box[0], self.box[1], 0.0 if self.log_x else 0.04)
        self._range_y = _range(y, self.box[2], self.box[3], 0.06)
        longest = max((len(shown) for _, shown in _labelled(_ticks(*self._range_y, 5))), default=0)
        self.left = max(self.left, 28 + 7 * longest)  # room for the axis' name

    def _few(self, ticks: list[tuple[float, str]]) -> list[tuple[float, str]]:
        """Every second of the ticks across, where their numbers would touch."""
        room = (self.width - self.left - self.right) / 7
        return ticks[::2] if sum(len(shown) + 2 for _, shown in ticks) > room else ticks

    def _across(self, x: float) -> float:
        low, high = self._range_x
        value = math.log10(x) if self.log_x else x
        return self.left + (value - low) / (high - low) * (self.width - self.left - self.right)

    def _down(self, y: float) -> float:
        low, high = self._range_y
        return self.height - self.bottom - (y - low) / (high - low) * (self.height - self.top - self.bottom)

    def _place(self, x: float, y: float) -> tuple[float, float]:
        return self._across(x), self._down(y)

    def _places(self, x: np.ndarray, y: np.ndarray) -> list[str]:
        return ["{:.1f} {:.1f}".format(*self._place(float(a), float(b))) for a, b in zip(x, y, strict=True)]

    def _dots(self, x: np.ndarray, y: np.ndarray, style: str) -> str:
        """A cloud as one path: lines of no length with round ends."""
        return f'<path class="{style}" d="{"".join(f"M{place}h0" for place in self._places(x, y))}"/>' if len(x) else ""

    def _axes(self) -> str:
        right, floor = self.width - self.right, self.height - self.bottom
        parts = []
        for value, shown in _labelled(_ticks(*self._range_y, 5)):
            down = self._down(value)
            parts.append(f'<path class="grid" d="M{self.left} {down:.1f}H{right}"/>')
            parts.append(f'<text class="end" x="{self.left - 6}" y="{down + 4:.1f}">{shown}</text>')
        marks = [(v, f"1e{v:.0f}" if abs(v) > 3 else f"{10.0**v:.4g}") for v in _log_ticks(*self._range_x)]
        for value, shown in marks if self.log_x else self._few(_labelled(_ticks(*self._range_x, 6))):
            across = self._across(10.0**value if self.log_x else value)
            parts.append(f'<path class="grid" d="M{across:.1f} {self.top}V{floor}"/>')
            parts.append(f'<text class="middle" x="{across:.1f}" y="{floor + 16}">{shown}</text>')
        parts.append(f'<path class="axis" d="M{self.left} {self.top}V{floor}H{right}"/>')
        middle = (self.left + right) / 2, (self.top + floor) / 2
        parts.append(f'<text class="middle" x="{middle[0]}" y="{self.height - 8}">{_text(_short(self.x, 60))}</text>')
        turned = f'transform="translate(13 {middle[1]}) rotate(-90)"'
        parts.append(f'<text class="middle" {turned}>{_text(_short(self.y, self.height // 7))}</text>')
        return "".join(parts)


def _range(values: np.ndarray, low: float | None, high: float | None, margin: float) -> tuple[float, float]:
    """The range of an axis: of the values and a margin, or given ends."""
    smallest, largest = float(np.min(values, initial=math.inf)), float(np.max(values, initial=-math.inf))
    if not math.isfinite(smallest + largest):
        smallest, largest = 0.0, 1.0
    smallest, largest = smallest if low is None else low, largest if high is None else high
    size = largest - smallest
    if not size > 1e-12 * max(abs(smallest), abs(largest)):
        size = abs(largest) or 1.0
    return smallest - margin * size, largest + (margin if largest > smallest else 1.0) * size


def _ticks(low: float, high: float, count: int) -> list[float]:
    """About `count` round values between two ends: steps of 1, 2 or 5 times a power of 10."""
    rough = (high - low) / count
    unit = 10.0 ** math.floor(math.log10(rough))
    step = unit * next(factor for factor in (1, 2, 5, 10) if factor * unit >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def _labelled(ticks: list[float]) -> list[tuple[float, str]]:
    """Ticks with their numbers, to as many digits as tell them apart."""
    step = ticks[1] - ticks[0] if len(ticks) > 1 else 0.0
    largest = max(map(abs, ticks), default=0.0)
    if step >= 1e-3 and largest < 1e7:
        decimals = max(0, -math.floor(math.log10(step) + 1e-9))
        return [(value, f"{value:.{decimals}f}" if value else "0") for value in ticks]
    digits = max(4, math.ceil(math.log10(largest / step)) + 1) if step > 0 and largest > 0 else 4
    return [(value, f"{value:.{min(digits, 15)}g}") for value in ticks]


def _log_ticks(low: float, high: float) -> list[float]:
    """Whole powers of 10 between two, at most 9 of them; of a short range 2 and 5 times these, too."""
    first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
    if last - first < 2:
        values = [power + math.log10(digit) for power in range(first - 1, last + 1) for digit in (1, 2, 5)]
        return [value for value in values if low - 1e-9 <= value <= high + 1e-9] or [low, high]
    step = max(1, math.ceil((last - first) / 8))
    return [float(power) for power in range(first, last + 1, step)]


def _bars(title: str, names: Sequence[str], values: np.ndarray, notes: Sequence[str]) -> str:
    """Horizontal bars with a name before and a note behind each."""
    width, left, step = 520, 196, 20
    height = 34 + step * len(names)
    longest = float(np.max(values, initial=0.0)) or 1.0
    parts = []
    for number, (name, value, note) in enumerate(zip(names, values, notes, strict=True)):
        top = 30 + step * number
        length = (width - left - 70) * float(value) / longest
        parts.append(
            f'<g><title>{_text(name)}: {_text(note)}</title><text class="end" x="{left - 8}" y="{top + 13}">'
            f'{_text(_short(name))}</text><rect class="bar" x="{left}" y="{top + 2}" width="{length:.1f}" height="14"/>'
            f'<text x="{left + length + 6:.1f}" y="{top + 13}">{_text(note)}</text></g>'
        )
    return (
        f'<figure><svg viewBox="0 0 {width} {height}" role="img" aria-label="{_text(title)}">'
        f'<text class="title" x="8" y="18">{_text(title)}</text>{"".join(parts)}</svg></figure>'
    )


# The page -------------------------------------------------------------------------------------------------------------
_STYLE = """
:root{color-scheme:light dark;--ink:light-dark(#1c2733,#e4e9ee);--soft:light-dark(#52606d,#a8b3be);
--paper:light-dark(#fff,#14191f);--card:light-dark(#f4f6f8,#1d252d);--rule:light-dark(#d5dbe1,#36414c);
--blue:light-dark(#1f5fa8,#6fb0f5);--red:light-dark(#a63a1e,#ff9a76);--gold:light-dark(#8f6a00,#e5bf4d);
--good:light-dark(#23694a,#7ad0a5)}
:root[data-theme=light]{color-scheme:light}
:root[data-theme=dark]{color-scheme:dark}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
header,main,footer{max-width:72rem;margin:0 auto;padding:0 1rem}
header{padding-top:1.5rem}
h1{font-size:1.7rem;line-height:1.2;margin:0 0 .25rem}
h2{font-size:1.25rem;margin:2.2rem 0 .6rem;border-bottom:1px solid var(--rule)}
h3{font-size:1rem;margin:1.2rem 0 .4rem}
p{margin:.4rem 0;max-width:50rem}
a{color:var(--blue)}
nav ul{display:flex;flex-wrap:wrap;gap:.2rem 1rem;list-style:none;padding:0;margin:.8rem 0}
.skip{position:absolute;left:-999px}
.skip:focus{left:1rem;top:.5rem;background:var(--paper);padding:.4rem}
:focus-visible{outline:3px solid var(--gold);outline-offset:2px}
.top{display:flex;justify-content:space-between;gap:1rem;align-items:start}
button{font:inherit;color:inherit;background:var(--card);border:1px solid var(--rule);border-radius:4px;cursor:pointer}
.theme{padding:.25rem .7rem;white-space:nowrap}
.sort{background:none;border:0;padding:0;font-weight:inherit;text-align:inherit;text-decoration:underline dotted}
.bad,.good{background:var(--card);border-left:5px solid var(--red);padding:.6rem 1rem .6rem 2rem;margin:.4rem 0}
.good{border-color:var(--good);padding-left:1rem}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.6rem;margin:.6rem 0}
.tiles div{background:var(--card);border-radius:6px;padding:.5rem .8rem}
.tiles dt{color:var(--soft);font-size:.85rem}
.tiles dd{margin:0;font-size:1.3rem;font-weight:600;white-space:nowrap}
.scroll{overflow-x:auto;margin:.5rem 0}
table{border-collapse:collapse;font-size:.93rem}
th,td{padding:.25rem .8rem .25rem 0;border-bottom:1px solid var(--rule);text-align:left;vertical-align:top;
min-width:4rem;max-width:44rem;overflow-wrap:break-word}
thead th{color:var(--soft);font-weight:600}
tbody th{font-weight:600}
td.n,th.n{font-variant-numeric:tabular-nums}
tr:target{background:var(--card);outline:2px solid var(--gold)}
pre{background:var(--card);padding:.7rem 1rem;overflow-x:auto;border-radius:6px;margin:.4rem 0}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,26rem),1fr));gap:1rem;align-items:start}
.charts.small{grid-template-columns:repeat(auto-fill,minmax(min(100%,16rem),1fr))}
figure{margin:0;background:var(--card);border-radius:6px;padding:.5rem}
figcaption{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;color:var(--soft);font-size:.85rem;padding:0 .5rem}
figcaption i{display:inline-block;width:.65rem;height:.65rem;border-radius:50%;margin-right:.35rem}
i.dots{background:var(--blue)}i.half{background:var(--gold)}i.none{background:var(--red)}
i.ring{border:2px solid var(--blue)}
svg{display:block;width:100%;height:auto}
svg text{fill:var(--soft);font:12px system-ui,sans-serif}
svg .title{fill:var(--ink);font-weight:600;font-size:13px}
.end{text-anchor:end}.middle{text-anchor:middle}
.grid{stroke:var(--rule);stroke-width:.6}.axis{fill:none;stroke:var(--soft)}
.guide{stroke:var(--soft);stroke-dasharray:5 4;fill:none}
.line{fill:none;stroke:var(--blue);stroke-width:2}.thin{stroke:var(--blue);opacity:.6}
.dots,.half,.none{fill:none;stroke:var(--blue);stroke-width:5;stroke-linecap:round;opacity:.55}
path.half{stroke:var(--gold);opacity:.9}path.none{stroke:var(--red);opacity:1}
path.big{stroke-width:7;opacity:1}
.ring{fill:var(--card);stroke:var(--blue);stroke-width:2.5}
.link{fill:transparent;stroke:var(--ink);stroke-width:1}
a:hover .link,a:focus .link{fill:var(--gold)}
.bar{fill:var(--blue)}
@media(max-width:34rem){svg text{font-size:15px}svg .title{font-size:16px}}
footer{color:var(--soft);margin:3rem auto 2rem;font-size:.85rem}
@media print{:root{color-scheme:light!important}nav,.theme,.skip{display:none}body{font-size:11pt}
h2{break-after:avoid}figure,tr,pre,.tiles{break-inside:avoid}.scroll{overflow:visible}
.charts{display:grid;grid-template-columns:1fr 1fr}figure,.tiles div,pre{border:1px solid var(--rule)}
pre{white-space:pre-wrap;overflow:visible}}
"""

_SCRIPT = """
const root=document.documentElement,themes=["system","light","dark"],button=document.querySelector(".theme");
button.hidden=false;
button.addEventListener("click",()=>{
  const next=themes[(themes.indexOf(root.dataset.theme||"system")+1)%3];
  if(next==="system")delete root.dataset.theme;else root.dataset.theme=next;
  button.textContent="Colours: "+next;
});
for(const sort of document.querySelectorAll(".sort"))sort.addEventListener("click",()=>{
  const cell=sort.parentElement,body=cell.closest("table").tBodies[0],column=cell.cellIndex;
  const up=cell.getAttribute("aria-sort")==="descending";
  for(const other of cell.parentElement.cells)other.removeAttribute("aria-sort");
  cell.setAttribute("aria-sort",up?"ascending":"descending");
  const key=row=>row.cells[column].textContent,number=row=>parseFloat(key(row));
  const order=(a,b)=>isNaN(number(a))||isNaN(number(b))?key(a).localeCompare(key(b)):number(a)-number(b);
  body.append(...[...body.rows].sort((a,b)=>up?order(a,b):order(b,a)));
});
"""


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def _page(heading: str, facts: _Facts, sections: Sequence[Section]) -> str:
    policy = f"default-src 'none'; style-src {_hash(_STYLE)}; script-src {_hash(_SCRIPT)}; base-uri 'none'"
    links = "".join(f'<li><a href="#{name}">{_text(title)}</a></li>' for name, title, _ in sections)
    body = "".join(
        f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{_text(title)}</h2>\n'
        f"{content}</section>\n"
        for name, title, content in sections
    )
    task = f"classification, {len(facts.classes)} classes" if facts.classes else "regression"
    source = f", {_text(facts.about['source'])}" if facts.about.get("source") else ""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{_text(heading)}</title><style>{_STYLE}</style></head>\n<body>"
        '<a class="skip" href="#warnings">Skip to the warnings</a>'
        f'<header><div class="top"><div><h1>{_text(heading)}</h1><p>{task}{source}</p></div>'
        '<button type="button" class="theme" hidden>Colours: system</button></div>'
        f'<nav aria-label="Sections"><ul>{links}</ul></nav></header>\n<main>{body}</main>\n'
        f"<footer>lssvm {_text(__version__)}</footer><script>{_SCRIPT}</script></body></html>\n"
    )
