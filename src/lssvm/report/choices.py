"""The sections on what was requested, and on what was chosen and why: kernel, C, basis, searches, widths."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from .. import arrays, diagnose
from ..kernels import Kernel
from .charts import Chart, bar_chart, side_by_side
from .facts import Facts
from .markup import html_table, rounded

LISTED = 20  # maximum number of dropped columns that are named
TUNERS = {"KFold": "k-fold cross-validation", "Holdout": "the error on held-out rows", "LeaveOneOut": "leave-one-out"}


def asked_section(facts: Facts) -> str:
    rows = [("model", type(facts.model).__name__), ("target", facts.target)]
    if facts.classes:
        rows.append(("classes", ", ".join(facts.classes)))
    if facts.about.get("source"):
        rows.append(("data", str(facts.about["source"])))
    chosen = f"chosen automatically{_how(facts)}"
    meaning = {  # of None
        "kernel": chosen,
        "C": chosen,
        "steps": "chosen by the number of rows",
        "robust": "no robust weights",
        "class_weight": "all rows have the same weight",
    }
    for name, value in facts.model.get_params(deep=False).items():
        automatic = name in ("coding", "loss") and value == "auto"
        words = "'auto': chosen automatically" if automatic else repr(value)
        rows.append((name, f"None: {meaning.get(name, 'no')}" if value is None else words))
    return html_table((), rows)


def chosen_section(facts: Facts) -> str:
    model = facts.model
    rows = [("kernel", _kernel_words(model.kernel_)), ("C", _why_C(facts)), ("basis", _basis_words(facts))]
    rows += _classifier_words(facts)
    without = [name for name, used in zip(facts.names, diagnose.columns_used(model), strict=True) if not used]
    if without:
        more = f" and {len(without) - LISTED} more" if len(without) > LISTED else ""
        rows.append((f"dropped: {len(without)} of {len(facts.names)} columns", ", ".join(without[:LISTED]) + more))
    rows += _search_words(facts)
    charts = [*_c_path_chart(facts), *_sparsity_chart(facts)]
    note = ""
    if facts.inverse_widths is not None and len(facts.names) > 1:
        charts.append(_widths_chart(facts))
        note = (
            "<p>The longer the bar of a column, the faster the function can vary along it; a column with a short bar "
            "has an almost linear effect, if any.</p>"
        )
    return html_table((), rows) + side_by_side(charts) + note


def _classifier_words(facts: Facts) -> list[tuple[str, str]]:
    """The coding and the loss of a classifier, and the others that it was compared with."""
    if not hasattr(facts.model, "coding_"):
        return []
    k = len(facts.classes or ())
    codings = {
        "one-vs-one": f"one class against another: {k * (k - 1) // 2} pairs",
        "one-vs-rest": "one class against the rest" if k > 2 else "one class against the other",
    }
    coding = codings[facts.model.coding_]
    rows = [("coding", f"{facts.model.coding_}, {coding}"), ("loss", facts.model.loss_)]
    candidates = (getattr(facts.model, "path_", None) or {}).get("candidates", ()) if facts.compared else ()
    words = [
        f"{type(one.kernel).__name__}, {one.coding}, {one.loss}: {rounded(one.loo)}"
        for one in sorted(candidates, key=lambda one: one.loo)
    ]
    return [*rows, ("log loss of the classifiers compared", "; ".join(words))] if len(words) > 1 else rows


class _Words:
    """Replaces a value in a repr."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _kernel_words(kernel: Kernel) -> str:
    """The kernel as it is written in Python; long arrays are described in words."""
    return " ".join(repr(_worded(kernel)).split())


def _worded(kernel: Kernel) -> Kernel:
    kernel = copy.copy(kernel)
    for name, value in kernel.get_params(deep=False).items():
        if isinstance(value, Kernel):
            setattr(kernel, name, _worded(value))
        elif name == "sigma":
            widths = np.unique(np.asarray(arrays.to_numpy(value), float))
            setattr(kernel, name, float(f"{widths[0]:.4g}") if len(widths) == 1 else _Words("(one width per column)"))
        elif name == "knots":
            setattr(kernel, name, _Words(f"({len(value)} per column)"))
        elif name == "active" and value is not None:
            setattr(kernel, name, np.asarray(value).tolist())
    return kernel


def _paths(facts: Facts) -> dict[str, Any]:
    if facts.compared:
        record = getattr(facts.model, "path_", None)
        return {"LeaveOneOut": record} if record is not None and "candidates" in record else {}
    return {} if facts.problem is None else facts.problem.paths


def _how(facts: Facts) -> str:
    """How C and the widths of the model were chosen: the search that ended at these values."""
    if facts.problem is None and not facts.compared:
        return " on the first rows" if diagnose.is_streamed(facts.model) else " on a sample of the rows"
    found = [words for name, words in TUNERS.items() if _paths(facts).get(name, {}).get("C") == facts.model.C_]
    return f" by {found[0]}" if found else ""


def _search_words(facts: Facts) -> list[tuple[str, str]]:
    """What the searches did, according to their records."""
    rows = []
    search = _paths(facts).get("LeaveOneOut")
    if search is not None:
        steps = [*map(str, search.get("plan", ()))]
        if search.get("evaluations"):
            steps.append(f"{search.evaluations} models evaluated")
        rows.append(("search by leave-one-out", "; ".join(steps) or "nothing to choose"))
    for name in ("KFold", "Holdout"):
        record = _paths(facts).get(name)
        if record is not None:
            tried = f" and one of {len(record.shifts)} common factors of the widths" if len(record.shifts) > 1 else ""
            rows.append((f"search by {TUNERS[name]}", f"C{tried}; {_loss(facts, record.score)}"))
    if search is not None and math.isfinite(search.get("loo", math.inf)):
        wrong = f"; weighted error rate {search.error_rate:.2%}" if "error_rate" in search else ""
        rows.append(("leave-one-out error", _loss(facts, search.loo) + wrong))
    return rows


def _loss(facts: Facts, value: float) -> str:
    """The criterion that a search minimised, in the units of the targets."""
    if facts.compared:
        return f"log loss {rounded(value)}"
    if facts.classes:
        return f"log loss {rounded(value)} with one common slope (the probabilities are calibrated afterwards)"
    several = ", summed over outputs" if facts.model.dual_coef_.ndim > 1 else ""
    kind, value = ("RMSE", math.sqrt(value)) if facts.model.robust is None else ("mean absolute error", value)
    return f"{kind} {rounded(value)} ({facts.unit}{several})"


def _why_C(facts: Facts) -> str:
    model = facts.model
    how = "given" if model.C is not None else f"chosen{_how(facts)}"
    if facts.c_path is None:
        return f"{rounded(model.C_)}, {how}"
    errors = facts.c_path[1]
    middle, decade = len(errors) // 2, 5  # 41 values over 8 decades
    kind = "leave-one-out error" if model.robust is None else "weighted leave-one-out error"
    return (
        f"{rounded(model.C_)}, {how}: its {kind} is {rounded(errors[middle])}, "
        f"compared with {rounded(errors[middle - decade])} for C/10 and {rounded(errors[middle + decade])} for 10 C"
    )


def _basis_words(facts: Facts) -> str:
    size, rows = len(facts.model.support_vectors_), facts.rows
    if rows is None:
        return f"{size} points"
    if size == rows:
        return f"all {rows} rows"
    steps = [] if facts.problem is None else [name for name in facts.problem.paths if name != "LeaveOneOut"]
    how = f" by {', '.join(steps)}" if steps else ""
    return f"{size} of {rows} rows{how}" if facts.model.support_ is not None else f"{size} points for {rows} rows{how}"


def _c_path_chart(facts: Facts) -> list[str]:
    """The error against C, if known."""
    if facts.c_path is None:
        return []
    C, errors = facts.c_path
    own = facts.model.C_
    error = "leave-one-out log loss" if facts.classes else f"leave-one-out RMSE ({facts.unit})"
    chart = Chart("Leave-one-out error against C", "C", error, log_x=True)
    chart.line(C, errors)
    chart.mark(own, errors[len(errors) // 2], f"C = {rounded(own)}")
    return [chart.svg()]


def _sparsity_chart(facts: Facts) -> list[str]:
    """The error against the size of the basis, if a step recorded it."""
    path = getattr(facts.model, "path_", None)
    if path is None or "sizes" not in path or "scores" not in path or len(path.sizes) < 3:
        return []
    order = np.argsort(path.sizes)
    sizes, scores = np.asarray(path.sizes, float)[order], np.asarray(path.scores, float)[order]
    chart = Chart("Error against basis size", "basis vectors", "recorded score", log_x=True)
    chart.line(sizes, scores)
    place = int(np.searchsorted(sizes, path.chosen))
    if place < len(sizes) and sizes[place] == path.chosen:
        chart.mark(float(path.chosen), scores[place], f"{path.chosen} vectors")
    return [chart.svg()]


def _widths_chart(facts: Facts) -> str:
    values, shown = facts.inverse_widths, 25
    order = np.argsort(-np.round(values / (values.max() or 1.0), 6), kind="stable")[:shown]  # ties keep their order
    rest = f", {shown} of {len(values)} columns" if len(values) > shown else ""
    notes = ["dropped" if values[c] == 0 else rounded(values[c]) for c in order]
    title = f"Widths: spread / width of each column{rest}"
    return bar_chart(title, [facts.names[c] for c in order], values[order], notes)
