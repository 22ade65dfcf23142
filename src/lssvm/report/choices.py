"""The technical section: what was requested, what was chosen and why: kernel, C, basis, searches."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from .. import arrays, diagnose
from .._words import counted
from ..kernels import Kernel
from .charts import Chart, side_by_side
from .checks import checks_section
from .facts import Facts
from .markup import html_table, rounded

LISTED = 20  # maximum number of dropped columns that are named
TUNERS = {"KFold": "k-fold cross-validation", "Holdout": "the error on held-out rows", "LeaveOneOut": "leave-one-out"}


def technical_section(facts: Facts) -> str:
    """Settings, members, searches, checks and timings."""
    model = facts.model
    rows = [("requested", " ".join(repr(model).split())), ("basis", _basis_words(facts))]
    if not facts.is_stack:
        rows[1:1] = [("kernel", _kernel_words(model.kernel_)), ("C", _why_C(facts)), *_classifier_words(facts)]
    without = [name for name, used in zip(facts.names, facts.used, strict=True) if not used]
    if without:
        more = f" and {len(without) - LISTED} more" if len(without) > LISTED else ""
        rows.append(
            (f"dropped: {len(without)} of {counted(len(facts.names), 'column')}", ", ".join(without[:LISTED]) + more)
        )
    rows += _search_words(facts)
    rows += [(f"seconds: {name}", f"{value:.2f}") for name, value in (facts.about.get("seconds") or {}).items()]
    note = (
        f"<p>{_accuracy(facts)} C, kernel, basis"
        f"{', the weights of the models' if facts.is_stack else ''} and robust weights are those of the fit on all "
        "rows; those that were tuned were chosen to minimise this error.</p>"
    )
    return (
        note
        + _stack_table(facts)
        + html_table((), rows)
        + side_by_side([*_c_path_chart(facts), *_sparsity_chart(facts)])
        + checks_section(facts)
    )


def _accuracy(facts: Facts) -> str:
    """Whether leave-one-out errors are exact: only those of least squares are."""
    names = {getattr(member, "loss_", "squared") for member, _ in facts.members} - {"squared"}
    if not names:
        return "Leave-one-out errors are exact and need no refits."
    return (
        f"Leave-one-out errors need no refits. Those of the {' and '.join(sorted(names)).replace('_', ' ')} loss are "
        "approximate: they hold the weights and working targets of the other rows fixed."
    )


def _stack_table(facts: Facts) -> str:
    """The members of a stack, the heaviest first, with their weights and leave-one-out errors."""
    if not facts.is_stack:
        return ""
    path = facts.model.path_
    error = f"leave-one-out {'log loss' if facts.classes else 'RMSE'}"
    header = ("model", "weight", error, "C", *(("coding, loss",) if facts.classes else ()))
    size = float if facts.classes else math.sqrt
    kept = iter(facts.members)  # in the order of the record, which also has those of weight 0
    lines = []
    for one in path.members:
        member = next(kept)[0] if one.weight > 0 else None
        weight = f"{one.weight:.3f}" if member else "0"
        kind = (f"{member.coding_}, {member.loss_}" if member else "",) if facts.classes else ()
        line = (diagnose.kernel_words(one.kernel), weight, rounded(size(one.loo)), rounded(one.C), *kind)
        lines.append((-one.weight, line))
    table = [line for _, line in sorted(lines, key=lambda line: line[0])]
    table.append(("average", "1.000", rounded(size(path.loo)), *("" for _ in header[3:])))
    what = "probabilities" if facts.classes else "predictions"
    return (
        f"<p>The {what} are averages of those of {len(facts.members)} models. Their weights were chosen by the "
        "leave-one-out error of the average; models of weight 0 were dropped.</p>" + html_table(header, table)
    )


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
    candidates = _paths(facts.model).get("LeaveOneOut", {}).get("candidates", ())
    compared = [
        f"{type(one.kernel).__name__}, {one.coding}, {one.loss}: {rounded(one.loo)}"
        for one in sorted(candidates, key=lambda one: one.loo)
    ]
    words = "log loss with smoothed targets (Platt 1999), larger than that of the predictions: " + "; ".join(compared)
    return [*rows, ("classifiers compared", words)] if len(compared) > 1 else rows


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
            several = _Words("(one value per column, in its units)")
            setattr(kernel, name, float(f"{widths[0]:.4g}") if len(widths) == 1 else several)
        elif name == "knots":
            setattr(kernel, name, _Words(f"({len(value)} per column)"))
        elif name == "active" and value is not None:
            setattr(kernel, name, np.asarray(value).tolist())
    return kernel


def _paths(member: Any) -> dict[str, Any]:
    """The records of the steps of a model that is not a stack."""
    problem = diagnose.fitted_problem(member)
    if problem is not None:
        return dict(problem.paths)
    record = getattr(member, "path_", None)
    return {"LeaveOneOut": record} if record is not None and "candidates" in record else {}


def _how(facts: Facts) -> str:
    """How C and the widths of the model (of a stack: of its first member) were chosen."""
    member = facts.members[0][0]
    if facts.chunked:
        return " on the first rows" if diagnose.is_streamed(member) else " on a sample of the rows"
    found = [words for name, words in TUNERS.items() if _paths(member).get(name, {}).get("C") == member.C_]
    return f" by {found[0]}" if found else ""


def _search_words(facts: Facts) -> list[tuple[str, str]]:
    """What the searches did, according to their records."""
    rows = []
    paths = {"LeaveOneOut": facts.model.path_} if facts.is_stack else _paths(facts.model)
    search = paths.get("LeaveOneOut")
    if search is not None:
        steps = [] if facts.is_stack else [*map(str, search.get("plan", ()))]
        if search.get("evaluations"):
            steps.append(f"{counted(search.evaluations, 'model')} evaluated")
        rows.append(("search by leave-one-out", "; ".join(steps) or "nothing to tune"))
    for name in ("KFold", "Holdout"):
        record = paths.get(name)
        if record is not None:
            tried = f" and one of {len(record.shifts)} common factors of the widths" if len(record.shifts) > 1 else ""
            rows.append((f"search by {TUNERS[name]}", f"C{tried}; {_loss(facts, record.score)}"))
    if search is not None and not facts.is_stack and math.isfinite(search.get("loo", math.inf)):
        wrong = f"; weighted error rate {search.error_rate:.2%}" if "error_rate" in search else ""
        rows.append(("leave-one-out error", _loss(facts, search.loo) + wrong))
    return rows


def _loss(facts: Facts, value: float) -> str:
    """The criterion that a search minimised, in the units of the targets."""
    if facts.classes:
        least_squares = diagnose.fitted_problem(facts.model) is not None
        words = " with one common slope (the probabilities are calibrated afterwards)" if least_squares else ""
        return f"log loss {rounded(value)}{words}"
    kind, value = ("RMSE", math.sqrt(value)) if facts.model.robust is None else ("mean absolute error", value)
    return f"{kind} {rounded(value)} ({_unit(facts)})"


def _unit(facts: Facts) -> str:
    """The unit of the error of a regression."""
    return facts.unit + (", summed over outputs" if np.ndim(facts.model.intercept_) else "")


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
    """The points of the basis: rows, other points, and the unit vectors that replace the rows of a linear model."""
    models = [member for member, _ in facts.members]
    points = [arrays.to_numpy(member.support_vectors_) for member in models]
    are_units = [*map(diagnose.are_unit_vectors, points)]
    columns = counted(points[0].shape[1], "column")
    words = [f"the unit vectors of {columns}"] if any(are_units) else []
    if all(are_units):
        return words[0]
    size = len(diagnose.basis_points(facts.model))
    are_rows = all(unit or member.support_ is not None for member, unit in zip(models, are_units, strict=True))
    problem, rows = facts.problems[0], facts.rows
    steps = [] if problem is None else [name for name in problem.paths if name != "LeaveOneOut"]
    how = f" by {', '.join(steps)}" if steps else ""
    if rows is None:
        first = counted(size, "point")
    elif size == rows:
        first = f"all {rows} rows"
    else:
        first = f"{size} of {rows} rows{how}" if are_rows else f"{counted(size, 'point')} for {rows} rows{how}"
    return "; ".join([first, *(f"for the linear model, {units}" for units in words)])


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
        chart.mark(float(path.chosen), scores[place], counted(path.chosen, "vector"))
    return [chart.svg()]
