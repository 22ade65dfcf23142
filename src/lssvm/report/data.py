"""The data section: missing cells, columns without use, and targets that were cut off."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .. import arrays
from ..columns import Column
from .facts import Facts
from .markup import counted, html_table, listed, rounded

LISTED = 15  # maximum number of columns in the table
FEWEST_ROWS = 20  # from which on a column of consecutive integers numbers the rows
CUT_OFF = 0.01  # share of the rows with the same extreme target, at least
KINDS = {"number": "numeric", "ranks": "ordered", "category": "categorical", "ignored": "ignored"}


def data_section(facts: Facts) -> str:
    names = [] if facts.model.kernel_.is_precomputed else facts.names
    columns = [Column(name) for name in names] if facts.columns is None else list(facts.columns.columns)
    found = _Findings(facts, columns)
    kinds = [f"{count} {words}" for kind, words in KINDS.items() if (count := sum(c.kind == kind for c in columns))]
    size = counted(facts.rows, "row") if facts.rows is not None else "An unknown number of rows"
    text = f"{size} and {counted(len(columns), 'column')} ({', '.join(kinds)})." if columns else f"{size}."
    if facts.about.get("dropped"):
        text += f" {counted(len(facts.about['dropped']), 'other row')} could not be used."
    if facts.kept is not None:
        rows = len(facts.kept.numbers)
        if rows < facts.kept.total:
            text += f" The model keeps {rows} of the rows, which are described here."
        missing = int(found.missing.sum())
        share = f"{missing} of {rows * len(columns)} cells ({missing / (rows * len(columns)):.1%})"
        text += f" {share} are missing." if missing else " No cells are missing."
    order = np.argsort(-found.missing, kind="stable")
    lines = [(names[c], found.words[c]) for c in order if found.words[c]]
    more = f"<p>{len(lines) - LISTED} more columns have missing cells.</p>" if len(lines) > LISTED else ""
    table = html_table(("column", "found"), lines[:LISTED]) + more if lines else ""
    return f"<p>{text}</p>{table}{listed([*_cut_off(facts), *facts.notes(about_columns=True)])}"


class _Findings:
    """What the rows that the model keeps tell about each column."""

    def __init__(self, facts: Facts, columns: list[Column]) -> None:
        self.missing = np.zeros(len(columns), dtype=int)
        self.words = []
        known: dict[bytes, str] = {}
        X = np.zeros((0, sum(column.width for column in columns)))
        X = X if facts.kept is None else arrays.to_numpy(facts.kept.problem.X)
        all_rows = facts.kept is not None and len(X) == facts.kept.total
        start = 0
        for number, (name, column) in enumerate(zip(facts.names, columns, strict=False)):
            cells = X[:, start : start + column.width]
            start += column.width
            place = len(column.values) if column.kind == "category" else 1
            if column.missing or column.height > 0:
                self.missing[number] = np.count_nonzero(cells[:, place])
            self.words.append("; ".join(_column_words(column, cells, int(self.missing[number]), all_rows)))
            if len(cells) and column.width and np.ptp(cells, axis=0).any():
                other = known.setdefault(cells.tobytes(), name)
                self.words[-1] += f"{'; ' * bool(self.words[-1])}the same as {other}" if other != name else ""


def _column_words(column: Column, cells: np.ndarray, missing: int, all_rows: bool) -> Iterator[str]:
    if column.kind == "ignored":
        yield "ignored: a different value in almost every row, as in an identifier"
    if missing:
        yield f"{missing} missing ({missing / len(cells):.1%})"
    if column.pooled:
        rows = f" in {np.count_nonzero(cells[:, -1])} rows" if len(cells) else ""
        yield f"rare values{rows} are treated as one: only the {len(column.values)} most frequent are kept apart"
    if not len(cells) or not column.width:
        return
    if not np.ptp(cells, axis=0).any():
        yield "the same value in all rows: of no use"
    elif all_rows and column.kind == "number" and len(cells) >= FEWEST_ROWS:
        values = np.sort(cells[:, 0])
        if np.array_equal(values, values[0] + np.arange(len(values))) and not missing:
            yield "numbers the rows: drop it unless their order matters"


def _cut_off(facts: Facts) -> Iterator[str]:
    """Extreme values that many rows share, at least twice as many as any other value."""
    if facts.loo is None or facts.classes:
        return
    n, outputs = facts.loo.actual.shape
    for output in range(outputs):
        name = facts.target if outputs == 1 else f"{facts.target} {output}"
        values, counts = np.unique(facts.loo.actual[:, output], return_counts=True)
        for place, words, side in ((0, "smallest", "high"), (-1, "largest", "low")):
            if counts[place] >= max(5, CUT_OFF * n, 2 * np.max(np.delete(counts, place), initial=1)):
                yield (
                    f"{counts[place]} rows ({counts[place] / n:.1%}) have the {words} {name}, "
                    f"{rounded(values[place])}. If it was cut off there, predictions near it are too {side}."
                )
