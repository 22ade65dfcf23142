"""The data section: missing cells, useless columns, and targets that were cut off."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .. import arrays
from .._words import counted
from ..tables import Column
from .facts import Facts
from .markup import html_table, listed, rounded

LISTED = 15  # maximum number of columns in the table
FEWEST_ROWS = 20  # from which on a column of consecutive integers numbers the rows,
FILLED = 1.1  # if their range is smaller than this multiple of the number of rows
CUT_OFF = 0.01  # share of the rows with the same extreme target, at least
KINDS = {"number": "numeric", "ranks": "ordered", "category": "categorical", "ignored": "ignored"}


def data_section(facts: Facts) -> str:
    names = [] if facts.model.kernel_.is_precomputed else facts.names
    columns = [Column(name) for name in names] if facts.columns is None else list(facts.columns.columns)
    found = _findings(facts, columns)
    kinds = [f"{count} {words}" for kind, words in KINDS.items() if (count := sum(c.kind == kind for c in columns))]
    size = counted(facts.rows, "row") if facts.rows is not None else "An unknown number of rows"
    text = f"{size} and {counted(len(columns), 'column')} ({', '.join(kinds)})." if columns else f"{size}."
    if facts.about.get("dropped"):
        text += f" {counted(len(facts.about['dropped']), 'other row')} could not be used."
    if facts.kept is not None:
        rows, missing = len(facts.kept.numbers), sum(count for count, _ in found)
        cells = rows * len(columns)
        if rows < facts.kept.total:
            text += f" This section describes the {counted(rows, 'row')} that the model keeps."
        verb = "is" if missing == 1 else "are"
        share = f"{missing} of {cells} cells ({missing / cells:.1%}) {verb}" if missing else "No cells are"
        text += f" {share} missing."
    # first what is not a matter of missing cells, then the columns with the most of them
    order = sorted((c for c in range(len(found)) if found[c][1]), key=lambda c: (found[c][0] > 0, -found[c][0]))
    table = html_table({"column": [names[c] for c in order[:LISTED]], "found": [found[c][1] for c in order[:LISTED]]})
    more = f"<p>{counted(len(order) - LISTED, 'more column')}.</p>" if len(order) > LISTED else ""
    return f"<p>{text}</p>{table}{more}{listed([*_cut_off(facts), *facts.notes(about_columns=True)])}"


def _findings(facts: Facts, columns: list[Column]) -> list[tuple[int, str]]:
    """The number of missing cells of each column in the rows that the model keeps, and what is odd about it."""
    X = np.zeros((0, sum(column.width for column in columns)))
    X = X if facts.kept is None else arrays.to_numpy(facts.kept.problem.X)
    all_rows = facts.kept is not None and len(X) == facts.kept.total
    notes = facts.notes(about_columns=True)
    known: dict[bytes, str] = {}
    found, start = [], 0
    for name, column in zip(facts.names, columns, strict=False):
        cells = X[:, start : start + column.width]
        start += column.width
        indicator = len(column.values) if column.kind == "category" else 1
        missing = int(np.count_nonzero(cells[:, indicator])) if column.missing or column.height > 0 else 0
        noted = any(note.startswith(f"column {name!r} ") for note in notes)
        words = [*_column_words(column, cells, missing, all_rows and not noted)]
        if len(cells) and np.any(cells != cells[:1]):
            other = known.setdefault(_content(column, cells), name)
            words += [f"the same as {other}"] * (other != name)
        found.append((missing, "; ".join(words)))
    return found


def _content(column: Column, cells: np.ndarray) -> bytes:
    """The cells of a column; of a category, which rows have the same value, whatever its name."""
    if column.kind != "category":
        return cells.tobytes()
    _, first, codes = np.unique(np.argmax(cells, axis=1), return_index=True, return_inverse=True)
    return first[codes].tobytes()


def _column_words(column: Column, cells: np.ndarray, missing: int, may_number: bool) -> Iterator[str]:
    if column.kind == "ignored":
        yield "ignored: almost every row has a different value, so it looks like an identifier"
    if missing:
        yield f"{missing} missing ({missing / len(cells):.1%})"
    if column.pooled:
        rows = f" in {counted(int(np.count_nonzero(cells[:, -1])), 'row')}" if len(cells) else ""
        yield f"rare values{rows} are treated as one value: only the {len(column.values)} most frequent values are kept"
    if not len(cells) or not column.width:
        return
    if np.all(cells == cells[:1]):
        yield "the same value in all rows: not useful"
    elif may_number and column.kind == "number" and not missing and _are_consecutive(cells[:, 0]):
        yield "numbers the rows: drop it unless their order matters"


def _are_consecutive(values: np.ndarray) -> bool:
    """Whether these are different integers without large gaps; some rows may be absent."""
    differ = len(values) >= FEWEST_ROWS and np.ptp(values) < FILLED * len(values)
    return differ and len(np.unique(values)) == len(values) and bool(np.all(values == np.round(values)))


def _cut_off(facts: Facts) -> Iterator[str]:
    """Extreme values that many rows share, at least twice as many as any other value."""
    if facts.loo is None or facts.classes:
        return
    n = len(facts.loo.actual)
    for name, targets in zip(facts.outputs, facts.loo.actual.T, strict=True):
        values, counts = np.unique(targets, return_counts=True)
        for place, words, side in ((0, "smallest", "high"), (-1, "largest", "low")):
            if counts[place] >= max(5, CUT_OFF * n, 2 * np.max(np.delete(counts, place), initial=1)):
                yield (
                    f"{counts[place]} rows ({counts[place] / n:.1%}) have the {words} {name}, "
                    f"{rounded(values[place])}. If it was cut off there, predictions near it are too {side}."
                )
