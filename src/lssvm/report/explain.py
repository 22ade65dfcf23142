"""The sections on the columns: which matter most, and how the prediction changes with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import diagnose
from .charts import Chart, side_by_side
from .facts import Facts
from .markup import bar_table, escaped, html_table, rounded

RANKED = 15  # columns in the ranking, at most
DRAWN = 6  # columns whose effects are shown
MOST_VALUES = 7  # of a category
MOST_CURVES = 4  # classes or targets in one chart, those with the largest effects


def importance_section(facts: Facts) -> str:
    found = facts.importance
    used = [] if found is None else [k for k, column in enumerate(found.columns) if facts.used[column]]
    if not used or len(found.names) < 2 or not found.full > 0:
        return ""
    bars = [(found.names[k], float(found.increase[k]), _percent(found.increase[k] / found.full)) for k in used[:RANKED]]
    rest = f" The {RANKED} most important of {len(used)} columns are shown." * (len(used) > RANKED)
    unused = len(found.names) - len(used)
    rest += f" {unused} of {len(found.names)} columns {'is' if unused == 1 else 'are'} not used." * (unused > 0)
    sample = f" Computed with {found.rows} of the rows." if found.sampled else ""
    return (
        f"<p>How much the error on new rows ({found.measure}) increases without the column. Columns that contain the "
        f"same information can replace each other, so each of them looks unimportant.{rest}{sample}</p>"
        + bar_table(("column", "error without it"), bars)
    )


def effects_section(facts: Facts) -> str:
    if facts.importance is None:
        return ""
    ranking = zip(facts.importance.columns, facts.importance.increase, strict=True)
    drawn = [int(column) for column, increase in ranking if increase > 0][:DRAWN]
    if not drawn:
        return ""
    found = diagnose.effects(facts.model, columns=drawn)
    names, what, unit = facts.outputs, f"prediction of {facts.target}", ""
    if facts.classes:
        names, what = facts.classes, "probability of each class"
        unit = ", in percentage points for categories"
    if facts.classes and len(facts.classes) == 2:
        what = f"probability of {facts.classes[1]}"
        names = [what]
    ends = min(float(one.effect.min()) for one in found), max(float(one.effect.max()) for one in found)
    return (
        f"<p>How the {escaped(what)} changes with one column while the others stay as they are, on average over the "
        f"rows{unit}. There are about equally many rows between neighbouring dots.</p>"
        + side_by_side([_card(one, names, ends, 100.0 if facts.classes else 1.0) for one in found])
    )


def _card(one: Any, names: list[str], ends: tuple[float, float], unit: float) -> str:
    """A curve for a number, a table for a category or ranks."""
    effect = one.effect.reshape(len(one.effect), -1)
    if np.asarray(one.grid).dtype.kind == "f":
        label = f"change of {names[0]}" if len(names) == 1 else "change"
        chart = Chart(one.name, one.name, label, box=(None, None, *ends))
        chart.zero()
        for number, output in enumerate(np.argsort(-np.ptp(effect, axis=0), kind="stable")[:MOST_CURVES]):
            chart.line(one.grid, effect[:, output], dots=True, style=f"c{number}")
            chart.legend([(f"c{number}", names[output])] * (len(names) > 1))
        return chart.svg()
    labels = ["missing" if value is None else str(value) for value in one.grid]
    order = np.arange(len(labels))
    if one.kind == "category":
        order = np.argsort(-one.counts * np.sum(effect**2, axis=1), kind="stable")[:MOST_VALUES]
        order = order[np.argsort(-effect[order, 0], kind="stable")]
    more = f"<p>{len(order)} of {len(labels)} values: those with the largest effects.</p>" * (len(order) < len(labels))
    if len(names) == 1:
        bars = [(labels[k], float(effect[k, 0]), _signed(unit * effect[k, 0])) for k in order]
        table = bar_table(("value", "change"), bars, ends)
    else:
        best = [_extreme(effect[k], names, unit) for k in order]
        worst = [_extreme(-effect[k], names, -unit) for k in order]
        table = html_table({"value": [labels[k] for k in order], "favours": best, "disfavours": worst})
    return f"<figure><h3>{escaped(one.name)}</h3>{table}{more}</figure>"


def _extreme(effect: np.ndarray, names: list[str], unit: float) -> str:
    """The name and the effect of the output with the largest effect."""
    largest = int(np.argmax(effect))
    return f"{names[largest]} {_signed(unit * effect[largest])}"


def _percent(value: float) -> str:
    """A signed percentage; 0.0% without a sign if it rounds to that."""
    shown = f"{value:+.1%}"
    return shown[1:] if float(shown[:-1]) == 0 else shown


def _signed(value: float) -> str:
    shown = rounded(float(f"{value:.3g}"))
    return f"+{shown}" if value > 0 else shown
