"""The technical section: what was requested, what was chosen and why (kernel, C, basis, searches), and checks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import arrays, diagnose
from ..kernels import Kernel
from ..progress import counted
from .facts import Facts
from .markup import Chart, html_list, html_table, rounded, side_by_side

LISTED = 20  # At most this many dropped columns are named.
TUNERS = {"KFold": "k-fold cross-validation", "Holdout": "the error on held-out rows", "LeaveOneOut": "leave-one-out"}


def technical_section(facts: Facts) -> str:
    """Return the settings, members, searches, checks and timings."""
    model, records = facts.model, _records(facts)
    rows = {"requested": " ".join(repr(model).split())}
    if not facts.is_stack:
        rows |= {"kernel": _kernel_words(model.kernel_) + diagnose.scale_words(model), "C": _why_C(facts, records)}
        rows |= _classifier_words(facts, records)
    rows |= {"basis": _basis_words(facts), **diagnose.order_facts(model)}
    without = [name for name, used in zip(facts.names, facts.used, strict=True) if not used]
    if without:
        more = f" and {len(without) - LISTED} more" if len(without) > LISTED else ""
        dropped = f"dropped: {len(without)} of {counted(len(facts.names), 'column')}"
        rows[dropped] = ", ".join(without[:LISTED]) + more
    rows |= _search_words(facts, records)
    rows |= {f"seconds: {name}": f"{value:.2f}" for name, value in (facts.about.get("seconds") or {}).items()}
    weights = ", the weights of the models" if facts.is_stack else ""
    is_exact = all(part.loss == "squared" for member, _ in facts.members for part in member.fitted_.members)
    kind = (
        "exact"
        if is_exact
        else "approximate, because they hold the weights and working targets of the other rows fixed"
    )
    if any(part.fit.loo_error > 0.0 for member, _ in facts.members for part in member.fitted_.members):
        kind = "estimated from near rows"
    more = " The errors in the sections above include this choice." if facts.is_honest else ""
    return (
        f"<p>Leave-one-out errors need no refits; they are {kind}. C, kernel, basis"
        f"{weights} and robust weights are those of the fit on all rows; those that were tuned were chosen to minimise "
        f"this error.{more}</p>"
        + _stack_table(facts)
        + html_table({"setting": rows, "value": rows.values()}, header=False)
        + side_by_side([*_path_charts(facts)])
        + html_list([*facts.notes(about_columns=False), *_doubts(facts)], "bad")
    )


def _records(facts: Facts) -> dict[str, Any]:
    """Return the records of the steps of a model, by their names."""
    if facts.problems[0] is not None and not facts.is_stack:
        return dict(facts.problems[0].paths)
    record = getattr(facts.model, "path_", None)
    return {"LeaveOneOut": record} if record is not None and (facts.is_stack or "candidates" in record) else {}


def _stack_table(facts: Facts) -> str:
    """Return the members of a stack, the heaviest first, with their weights and leave-one-out errors."""
    if not facts.is_stack:
        return ""
    path, kept = facts.model.path_, iter(facts.members)  # the record also has the members of weight 0
    models = [(one, next(kept)[0] if one.weight > 0 else None) for one in path.members]
    models.sort(key=lambda pair: -pair[0].weight)
    what, error, size = ("probabilities", "log loss", float) if facts.classes else ("predictions", "RMSE", math.sqrt)
    columns: dict[str, list[Any]] = {
        "model": [
            *(f"{diagnose.kernel_words(one.kernel)}{diagnose.scale_words(own) if own else ''}" for one, own in models),
            "average",
        ],
        "weight": [*(f"{one.weight:.3f}" if member else "0" for one, member in models), "1.000"],
        f"leave-one-out {error}": [*(size(one.loo) for one, _ in models), size(path.loo)],
        "C": [*(rounded(one.C) for one, _ in models), ""],
    }
    if facts.classes:
        columns["coding, loss"] = [*(f"{own.coding_}, {own.loss_}" if own else "" for _, own in models), ""]
    words = f"The {what} are averages of those of {len(facts.members)} models. Their weights were chosen by the "
    words += "leave-one-out error of the average; models of weight 0 were dropped."
    return f"<p>{words}</p>{html_table(columns)}"


def _kernel_words(kernel: Kernel) -> str:
    """Return the kernel as it is written in Python, without the widths of its columns unless they are equal."""
    widths = [np.unique(arrays.to_numpy(leaf.sigma)) for leaf in kernel.leaves if np.ndim(leaf.sigma)]
    words = diagnose.kernel_words(kernel)
    if any(len(own) > 1 for own in widths):
        return f"{words}, with one width per column, in its units"
    return ", ".join([words, *(f"sigma={own[0]:.4g}" for own in widths)])


def _why_C(facts: Facts, records: dict[str, Any]) -> str:
    """Return the value of C and how it was chosen; the chart shows the errors with other values."""
    model = facts.model
    how = [f"chosen by {words}" for name, words in TUNERS.items() if records.get(name, {}).get("C") == model.C_]
    if model.C is not None:
        how = ["given"]
    elif facts.chunked:
        how = [f"chosen on {'the first' if model.fitted_.members[0].stream is not None else 'a sample of the'} rows"]
    return f"{rounded(model.C_)}, {(how or ['chosen'])[0]}"


def _classifier_words(facts: Facts, records: dict[str, Any]) -> dict[str, str]:
    """Return the coding and the loss of a classifier, and the others that it was compared with."""
    if not hasattr(facts.model, "coding_"):
        return {}
    rows = {"coding": facts.model.coding_, "loss": facts.model.loss_}
    candidates = sorted(records.get("LeaveOneOut", {}).get("candidates", ()), key=lambda one: one.loo)
    if len(candidates) > 1:
        compared = [f"{type(one.kernel).__name__}, {one.coding}, {one.loss}: {rounded(one.loo)}" for one in candidates]
        words = "log loss with smoothed targets (Platt 1999), larger than that of the predictions"
        rows["classifiers compared"] = f"{words}: {'; '.join(compared)}"
    return rows


def _basis_words(facts: Facts) -> str:
    """Return a description of the basis: rows, other points, or unit vectors instead of rows in a linear model."""
    points = [(member, arrays.to_numpy(member.support_vectors_)) for member, _ in facts.members]
    others = [member for member, own in points if not diagnose.are_unit_vectors(own)]
    units = f"the unit vectors of {counted(points[0][1].shape[1], 'column')}"
    if not others:
        return units
    size, rows, problem = len(diagnose.basis_points(facts.model)), facts.rows, facts.problems[0]
    steps = [] if problem is None else [name for name in problem.paths if name != "LeaveOneOut"]
    words = counted(size, "point")
    if size == rows:
        words = f"all {rows} rows"
    elif rows is not None:
        are_rows = all(member.support_ is not None for member in others)
        words = f"{size} of {rows} rows" if are_rows else f"{words} for {rows} rows"
        words += f" by {', '.join(steps)}" if steps else ""
    return words if len(others) == len(points) else f"{words}; for the linear model, {units}"


def _search_words(facts: Facts, records: dict[str, Any]) -> dict[str, str]:
    """Return what the searches did, according to their records."""
    rows: dict[str, str] = {}
    search = records.get("LeaveOneOut")
    if search is not None:
        steps = [] if facts.is_stack else [*map(str, search.get("plan", ()))]
        steps += [f"{counted(search.evaluations, 'model')} evaluated"] if search.get("evaluations") else []
        rows["search by leave-one-out"] = "; ".join(steps) or "nothing to tune"
    for name in [name for name in ("KFold", "Holdout") if name in records]:
        count, error = len(records[name].shifts), records[name].score
        tried = f" and one of {count} common factors of the widths" if count > 1 else ""
        kind = "log loss" if facts.classes else "mean absolute error" if facts.model.robust is not None else "RMSE"
        error = math.sqrt(error) if kind == "RMSE" else error
        rows[f"search by {TUNERS[name]}"] = f"C{tried}; {kind} {rounded(error)}"
    return rows


def _path_charts(facts: Facts) -> Iterator[str]:
    """Yield the error against C, if known, and against the size of the basis, if a step recorded it."""
    if facts.c_path is not None:
        error = "leave-one-out log loss" if facts.classes else f"leave-one-out RMSE ({facts.unit})"
        C = facts.model.C_
        yield _path_chart("Leave-one-out error against C", "C", error, facts.c_path, C, f"C = {rounded(C)}")
    path: Any = getattr(facts.model, "path_", None) or {}
    if "sizes" in path and "scores" in path and len(path.sizes) >= 3:
        order, label = np.argsort(path.sizes), counted(path.chosen, "vector")
        values = path.sizes[order], path.scores[order]
        yield _path_chart("Error against basis size", "basis vectors", "recorded score", values, path.chosen, label)


def _path_chart(title: str, x_name: str, y_name: str, points: Any, chosen: float, label: str) -> str:
    x, y = points
    chart = Chart(title, x_name, y_name, log_x=True)
    chart.line(x, y)
    chart.mark(chosen, y[np.argmin(np.abs(x - chosen))], label)
    return chart.svg()


def _doubts(facts: Facts) -> Iterator[str]:
    if facts.c_path is not None:
        C, errors = facts.c_path
        own, best = errors[len(errors) // 2], int(np.argmin(errors))
        if own > 1.05 * errors[best]:
            how = "(C was given, not chosen)" if facts.model.C is not None else "(with the same weights and kernel)"
            words = f"C = {facts.model.C_:.3g} has a leave-one-out error of {rounded(own)}"
            yield f"{words}; C = {C[best]:.3g} would have {rounded(errors[best])} {how}."
    if facts.loo is not None and (high := int(np.sum(facts.loo.leverage > 0.99))):
        who = counted(high, "row alone determines", "rows alone determine")
        yield f"{who} the function nearby (leverage above 0.99): no other rows are near."
