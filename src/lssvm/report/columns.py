"""The sections on the columns: which matter most, how the prediction changes with them, what is odd about the data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import arrays, diagnose
from ..progress import counted
from ..tables import Column
from ..tables.cells import are_row_numbers
from .facts import Facts
from .markup import Chart, bar_table, escaped, html_list, html_table, rounded, side_by_side

LISTED = 15  # A table lists at most this many columns.
DRAWN = 6  # The effects of at most this many columns are shown.
MOST_VALUES = 7  # At most this many values of a category are shown.
MOST_CURVES = 4  # A chart shows at most this many classes or targets: those with the largest effects.
CUT_OFF = 0.01  # At least this share of the rows has the same extreme target if it was cut off.
KINDS = {"number": "numeric", "time": "dates", "ranks": "ordered", "category": "categorical", "ignored": "ignored"}


def importance_section(facts: Facts) -> str:
    found = facts.importance
    used = [] if found is None else [k for k, column in enumerate(found.columns) if facts.used[column]]
    if not used or len(found.names) < 2 or not found.full > 0:
        return ""
    shares = [f"{increase / found.full:+z.1%}".replace("+0.0%", "0.0%") for increase in found.increase]
    bars = [(found.names[k], float(found.increase[k]), shares[k]) for k in used[:LISTED]]
    unused = len(found.names) - len(used)
    rest = f" The {LISTED} most important of {len(used)} columns are shown." * (len(used) > LISTED)
    rest += f" {unused} of {len(found.names)} columns {'is' if unused == 1 else 'are'} not used." * (unused > 0)
    rest += f" Computed with {found.rows} of the rows." * found.sampled
    words = f"How much the error on new rows ({found.measure}) increases without the column. Columns that contain the "
    words += f"same information can replace each other, so each of them looks unimportant.{rest}"
    return f"<p>{words}</p>{bar_table(('column', 'error without it'), bars)}"


def effects_section(facts: Facts) -> str:
    drawn = [] if facts.importance is None else facts.importance.columns[facts.importance.increase > 0][:DRAWN].tolist()
    if not drawn:
        return ""
    found = diagnose.effects(facts.model, columns=drawn)
    names, what, unit = facts.outputs, f"prediction of {facts.target}", ""
    if facts.classes:
        names, what, unit = facts.classes, "probability of each class", ", in percentage points for categories"
    if len(facts.classes) == 2:
        what = f"probability of {facts.classes[1]}"
        names = [what]
    ends = min(float(one.effect.min()) for one in found), max(float(one.effect.max()) for one in found)
    words = f"How the {escaped(what)} changes with one column while the others stay as they are, on average over the "
    words += f"rows{unit}. There are about equally many rows between neighbouring dots."
    pairs = diagnose.interactions(facts.model)
    shown = zip(pairs.names[:3], pairs.strength[:3], strict=True)
    if named := [f"{escaped(a)} and {escaped(b)} ({rounded(float(f'{size:.3g}'))})" for (a, b), size in shown]:
        words += f" Effects that depend on another column are averaged out; they are strongest for {', '.join(named)}: "
        words += "by so much (root mean square), the effect of both differs from the sum of the two."
    charts = [_effect(one, names, ends, 100.0 if facts.classes else 1.0) for one in found]
    return f"<p>{words}</p>{side_by_side(charts)}"


def _effect(one: Any, names: list[str], ends: tuple[float, float], unit: float) -> str:
    """Return a curve for a number, a table for a category or ranks."""
    effect = one.effect.reshape(len(one.effect), -1)
    if np.asarray(one.grid).dtype.kind == "f":
        label = f"change of {names[0]}" if len(names) == 1 else "change"
        chart = Chart(one.name, one.name, label, box=(None, None, *ends))
        chart.guide(one.grid, slope=0.0)
        for number, output in enumerate(np.argsort(-np.ptp(effect, axis=0), kind="stable")[:MOST_CURVES]):
            chart.line(one.grid, effect[:, output], dots=True, style=f"line c{number}")
            chart.legend += [(f"c{number}", names[output])] * (len(names) > 1)
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
        columns = {"value": [labels[k] for k in order]}
        for heading, extremes in (("favours", np.argmax(effect, axis=1)), ("disfavours", np.argmin(effect, axis=1))):
            columns[heading] = [f"{names[extremes[k]]} {_signed(unit * effect[k, extremes[k]])}" for k in order]
        table = html_table(columns)
    return f"<figure><h3>{escaped(one.name)}</h3>{table}{more}</figure>"


def _signed(value: float) -> str:
    shown = rounded(float(f"{value:.3g}"))
    return f"+{shown}" if value > 0 else shown


# The data -------------------------------------------------------------------------------------------------------------
def data_section(facts: Facts) -> str:
    encoder = facts.model.fitted_.layout.columns
    names = [] if facts.model.kernel_.is_precomputed else facts.names
    columns = [Column(name) for name in names] if encoder is None else list(encoder.columns)
    found = list(_findings(facts, columns))
    kinds = [f"{count} {words}" for kind, words in KINDS.items() if (count := sum(c.kind == kind for c in columns))]
    text = counted(facts.rows, "row") if facts.rows is not None else "An unknown number of rows"
    text += f" and {counted(len(columns), 'column')} ({', '.join(kinds)})." if columns else "."
    if facts.about.get("dropped"):
        text += f" {counted(len(facts.about['dropped']), 'other row')} could not be used."
    if facts.kept is not None:
        rows, missing = len(facts.kept.numbers), sum(count for count, _, _ in found)
        cells = rows * len(columns)
        if rows < facts.kept.total:
            text += f" This section describes the {counted(rows, 'row')} that the model keeps."
        of = f"of {cells} cells ({missing / max(cells, 1):.1%})"
        text += f" {counted(missing, f'{of} is', f'{of} are') if missing else 'No cells are'} missing."
    # first what is not a matter of missing cells, then the columns with the most of them
    odd = sorted((one for one in found if one[2]), key=lambda one: (one[0] > 0, -one[0]))
    table = html_table({"column": [one[1] for one in odd[:LISTED]], "found": [one[2] for one in odd[:LISTED]]})
    more = f"<p>{counted(len(odd) - LISTED, 'more column')}.</p>" if len(odd) > LISTED else ""
    return f"<p>{text}</p>{table}{more}{html_list([*_cut_off(facts), *facts.notes(about_columns=True)])}"


def _findings(facts: Facts, columns: list[Column]) -> Iterator[tuple[int, str, str]]:
    """Yield the missing cells of each column in the rows that the model keeps, its name and what is odd about it."""
    X = np.zeros((0, sum(column.width for column in columns)))
    X = X if facts.kept is None else arrays.to_numpy(facts.kept.problem.X)
    known: dict[bytes, str] = {}
    start = 0
    for name, column in zip(facts.names, columns, strict=False):  # a precomputed kernel has no columns
        cells = X[:, start : start + column.width]
        start += column.width
        indicator = len(column.values) if column.kind == "category" else 1
        missing = int(np.count_nonzero(cells[:, indicator])) if column.missing or column.height > 0 else 0
        words = [f"{missing} missing ({missing / len(cells):.1%})"] if missing else []
        words += [f"read as {column.words}"] if column.format is not None else []
        if column.kind == "ignored":
            words.append("ignored: almost every row has a different value, so it looks like an identifier")
        if column.unit:
            words.append(f"long-tailed: {column.scale} is used instead of x")
        if column.pooled:
            rows = f" in {counted(int(np.count_nonzero(cells[:, -1])), 'row')}" if len(cells) else ""
            words.append(f"rare values{rows} are treated as one value: only {len(column.values)} values are kept")
        if len(cells) and column.width:
            other = known.setdefault(_content(column, cells), name)
            if np.all(cells == cells[:1]):
                words.append("the same value in all rows: not useful")
            elif other != name:
                words.append(f"the same as {other}")
            elif column.kind == "number" and not missing and are_row_numbers(cells[:, 0]):
                words.append("numbers the rows: drop it unless their order matters")
        yield missing, name, "; ".join(words)


def _content(column: Column, cells: np.ndarray) -> bytes:
    """Return the cells of a column; of a category, which rows have the same value, whatever its name."""
    if column.kind != "category":
        return cells.tobytes()
    _, first, codes = np.unique(np.argmax(cells, axis=1), return_index=True, return_inverse=True)
    return first[codes].tobytes()


def _cut_off(facts: Facts) -> Iterator[str]:
    """Yield extreme values that many rows share, at least twice as many as any other value."""
    if facts.loo is None or facts.classes:
        return
    for name, targets in zip(facts.outputs, facts.loo.actual.T, strict=True):
        values, counts = np.unique(targets, return_counts=True)
        for place, end, side in ((0, "smallest", "high"), (-1, "largest", "low")):
            count, share = counts[place], counts[place] / len(targets)
            if count >= max(5, CUT_OFF * len(targets), 2 * np.max(np.delete(counts, place), initial=1)):
                who = f"{count} rows ({share:.1%}) have the {end} {name}, {rounded(values[place])}"
                yield f"{who}. If it was cut off there, predictions near it are too {side}."
