"""The components section: the curves of an additive model."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .. import arrays, diagnose
from .charts import Chart, side_by_side
from .facts import Facts
from .markup import escaped


def components_section(facts: Facts) -> str:
    """One curve per column: the contribution of the column to f, whatever the values of the others."""
    if not hasattr(facts.model, "components"):
        return ""
    problem = facts.problems[0]
    rows = diagnose.basis_points(facts.model) if problem is None else arrays.to_numpy(problem.X)
    rows = rows[:: max(1, len(rows) // 1000)]
    curves, joint = [], []
    for number, group in diagnose.kept_components(facts.model).items():
        if len(group) > 1:
            joint.append(" and ".join(facts.names[c] for c in group))
            continue
        grid = np.linspace(rows[:, group[0]].min(), rows[:, group[0]].max(), 80)
        curves.append((group[0], grid, _component(facts.model, rows[0], group[0], number, grid)))
    size = max((float(np.ptp(curve)) for _, _, curve in curves), default=0.0)
    active = [item for item in curves if np.ptp(item[2]) > 1e-9 * size]
    shown = sorted(active, key=lambda item: -float(np.ptp(item[2])))[:16]
    several = f" Joint functions of several columns, which are not drawn: {escaped('; '.join(joint))}." if joint else ""
    if not shown:
        return f"<p>{several}</p>" if joint else "<p>The prediction is constant: no column contributes to it.</p>"
    low, high = min(float(curve.min()) for _, _, curve in shown), max(float(curve.max()) for _, _, curve in shown)
    charts = []
    for c, grid, curve in shown:
        chart = Chart(facts.names[c], facts.names[c], "contribution", small=True, box=(None, None, low, high))
        chart.zero()
        chart.line(grid, curve)
        charts.append(chart.svg())
    more = f" Those with the {len(shown)} largest ranges are drawn." if len(shown) < len(active) else ""
    which = f"{len(active)} of {rows.shape[1]} columns"
    pairs = getattr(facts.model, "coding_", "") == "one-vs-one"
    what = "decision value of the first pair of classes" if pairs else "prediction"
    intro = f"<p>The {what} is a constant plus one function for each of {which}, on one scale.{more}{several}</p>"
    return intro + side_by_side(charts, small=True)


def _component(model: Any, row: np.ndarray, c: int, number: int, values: np.ndarray) -> np.ndarray:
    """A component of the first output at some values of its column."""
    X = np.repeat(row[None, :], len(values), axis=0)
    X[:, c] = values
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        return model.components(X)[:, number].reshape(len(values), -1)[:, 0]
