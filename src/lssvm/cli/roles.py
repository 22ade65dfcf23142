"""The role of each column of a table: target, number, text or dropped; and the rows that a model reads."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import click
import numpy as np

from ..persist import load
from ..progress import counted
from ..tables.cells import ABSENT, MOST_LABELS, ColumnScan, is_missing, is_number, number_of, texts_of
from ..tables.formats import Evidence, Format
from .program import progress_line
from .reading import BATCH_CELLS, Batch, Source, TableError, odd_cells, open_table, plain_name, quoted

MOST_CLASSES = 10  # Integers with at most this many distinct values are classes.
RARE = 0.05  # Whole numbers from 0 on may be counts if a smaller share of the rows has the largest.
REPEATED = 5  # Integers with this many rows per distinct value may be classes, as in 3 of 29 regression tables.
FITTING = "correct it, or leave the cell empty"
LABELLED = "every row needs a number or a date"  # with --time
BLOCKS = 10  # There are this many blocks of rows in the order of time.


@dataclass(frozen=True)
class Roles:
    """The columns that a model reads from a table, and how."""

    target: str | None
    labels: str  # class labels are "number" (integers) or "text"; "" in regression
    inputs: dict[str, bool]  # by name: whether the cells are text
    known: dict[Any, Collection[Any]]  # by name: values of fitted categories, and class labels
    formats: dict[Any, Format]  # by name: how texts are read as numbers or dates
    group: str | None = None  # the column whose rows with the same value are left out together
    time: str | None = None  # the column in whose order blocks of rows are left out
    are_counts: bool = False  # whether the targets are counts

    @classmethod
    def of(cls, model: Any) -> Roles:
        """Return the roles of the columns of a model that was fitted to a table."""
        inputs = dict.fromkeys(map(str, model.feature_names_in_), False)
        target = getattr(model, "table_", {}).get("target")
        known: dict[Any, Collection[Any]] = {target: getattr(model, "classes_", ())}
        formats = {target: model.table_["format"]} if "format" in getattr(model, "table_", {}) else {}
        for column in getattr(model.fitted_.layout.columns, "columns", ()):
            inputs[str(column.name)] = column.kind == "ignored" or any(isinstance(v, str) for v in column.values)
            known[str(column.name)] = column.values
            formats |= {} if column.format is None else {str(column.name): column.format}
        labels = {"U": "text"}.get(model.classes_.dtype.kind, "number") if hasattr(model, "classes_") else ""
        return cls(target, labels, inputs, known, formats)

    def frame(self, batch: Batch) -> Any:
        """Return the input columns of a batch as a pyarrow table, which the estimators accept."""
        import pyarrow

        columns = {}
        for name, is_text in self.inputs.items():
            known = self.known.get(name, ())
            if name in self.formats:
                batch.numbers(name, FITTING, self.formats[name])  # raises errors with the numbers of rows
                columns[name] = batch.columns[name]
            elif not is_text or (known and not any(map(is_number, known)) and batch.has_only_numbers(name)):
                columns[name] = pyarrow.array(batch.numbers(name, FITTING))
            else:  # a dictionary is a category, whatever its texts look like
                columns[name] = texts_of(batch.cells(name), known).dictionary_encode()
        return pyarrow.table(columns)

    def targets(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """Return the target of each row of a batch, and a mask of the rows that have one."""
        assert self.target is not None
        known = self.known[self.target]
        if self.labels == "text":
            texts = texts_of(batch.cells(self.target), known).to_pylist()
            missing = {None, *ABSENT}.difference(known)
            spelled = {str(label).lower(): label for label in known}  # programs write boolean values differently
            if spelled.keys() <= {"true", "false"}:
                texts = [text and spelled.get(text.lower(), text) for text in texts]
            return np.array([text or "" for text in texts]), np.array([text not in missing for text in texts])
        remedy = "correct it; the model was fitted to numbers"
        values = batch.numbers(self.target, remedy, self.formats.get(self.target))
        present = ~np.isnan(values)
        return (np.where(present, values, 0.0).astype(np.int64) if self.labels else values), present

    def losses(self, batch: Batch, predicted: list[Any]) -> list[float]:
        """Return the squared error of each row with a target; for classes, whether it is wrong."""
        try:
            y, present = self.targets(batch)
        except ValueError:  # a column of the same name with other contents
            return []
        found, y = np.asarray(predicted)[present], y[present]
        return np.asarray(found != y if self.labels else (found - y) ** 2, dtype=float).tolist()


def load_with_table(path: str, data: str, reading: dict[str, Any]) -> tuple[Any, Roles, Source]:
    """Return a model that was fitted to a table, the roles of its columns, and a table that has these columns."""
    model = load(path)
    if not hasattr(model, "feature_names_in_"):
        what = "has no column names (it was fitted in Python to an array, or by version 0.1)"
        raise ValueError(f"{path!r} {what}: use it from Python (lssvm.load), or fit it to a frame or with lssvm fit.")
    if not hasattr(model, "classes_") and not model.fitted_.layout.single:
        remedy = "use it from Python (lssvm.load), or fit one model for each"
        raise ValueError(f"{path!r} predicts several targets: {remedy}.")
    roles, source = Roles.of(model), open_table(data, na=getattr(model, "table_", {}).get("na", ()), **reading)
    absent = [name for name in roles.inputs if name not in source.names]
    if absent:
        lacking = f"{counted(len(absent), 'column')} that the model needs: {listed(absent)}"
        raise TableError(f"{source.name} lacks {lacking}. {_closest(absent[0], source)}")
    return model, roles, source


@dataclass
class Rows:
    """The rows of a table that have a target, in batches and as often as needed: inputs and targets.

    With `drop`, rows with missing cells are dropped as well.
    """

    source: Source
    roles: Roles
    drop: bool = False
    size: int = BATCH_CELLS  # rows of a batch, at most
    dropped: list[int] = field(default_factory=list)  # the indices of the other rows, once all were read
    groups: np.ndarray | None = None  # the labels of all rows, once all were read

    def __call__(self) -> Iterator[tuple[Any, np.ndarray]]:
        """Yield the batches that have rows with a target."""
        self.dropped, labels, group, time = [], list[np.ndarray](), self.roles.group, self.roles.time
        names = [*self.roles.inputs, str(self.roles.target), *filter(None, (group, time))]
        for batch in self.source.batches(list(dict.fromkeys(names)), self.size):
            X = self.roles.frame(batch)
            y, kept = self.roles.targets(batch)
            for column in X.columns if self.drop else ():
                kept = kept & ~column.is_null(nan_is_null=True).to_numpy()
            self.dropped += (batch.start + np.flatnonzero(~kept)).tolist()
            if group is not None:
                labels.append(np.array(texts_of(batch.cells(group), ()).to_pylist(), dtype=object)[kept])
            if time is not None:
                labels.append(batch.numbers(time, LABELLED, self.roles.formats.get(time))[kept])
            empty: Any = np.flatnonzero(kept)[list(map(is_missing, labels[-1]))] if labels else ()
            if len(empty):
                what = f"column {group or time!r} is empty in row {batch.number(int(empty[0]))}"
                raise TableError(f"{self.source.name}: {what}: with --group or --time, every row needs a value.")
            if kept.any():
                yield X.filter(kept), y[kept]
        self.groups = np.concatenate(labels).astype(str if time is None else float) if labels else None
        if self.groups is not None and time is not None:  # rows of the same time are in the same block
            self.groups = np.searchsorted(np.sort(self.groups), self.groups) * BLOCKS // len(self.groups)

    def all(self) -> tuple[Any, np.ndarray]:
        """Return all rows at once."""
        import pyarrow

        batches = list(self())
        count = sum(len(y) for _, y in batches)
        if count < 2:
            which = "without missing cells" if self.drop else "with a target"
            found = f"{counted(count, 'row')} {which}"
            raise TableError(f"{self.source.name} has {found}, but at least 2 are required: add rows.")
        return pyarrow.concat_tables([X for X, _ in batches]), np.concatenate([y for _, y in batches])


def scan(source: Source, names: Sequence[str]) -> dict[str, ColumnScan]:
    """Scan some columns of a source in one pass."""
    found = {name: ColumnScan() for name in names}
    for batch in source.batches(names):
        for name, column in found.items():
            column.add(batch.columns[name], batch.rows, source.decimal, batch.number)
        progress_line(f"reading: {counted(batch.start + batch.rows, 'row')}")
    return found


def plan(
    source: Source,
    target: str,
    *,
    task: str | None = None,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    group: str | None = None,
    time: str | None = None,
    merged: bool = False,
) -> tuple[Roles, dict[str, ColumnScan], list[str]]:
    """Scan a table and decide on the roles of its columns; returns them, the scans, and messages about them."""
    groups, times = ([] if name is None else [name] for name in (group, time))
    if groups and times:
        raise click.UsageError("--group and --time cannot be combined: give one of them.")
    given = {"-y": [target], "--drop": drop, "--categorical": categorical, "--group": groups, "--time": times}
    for option, names in given.items():
        for name in names:
            if name not in source.names:
                raise click.UsageError(f"{option} {name!r}: {source.name} has no such column. {_closest(name, source)}")
            if option != "-y" and name == target:
                remedies = {"--drop": "drop another column", "--categorical": "use --task classification"}
                remedy = remedies.get(option, "give another column")
                raise click.UsageError(f"{option} {target!r}: this is the target (-y); {remedy}.")
    names = [name for name in source.names if name not in (target, group) and name not in drop]
    scans = scan(source, list(dict.fromkeys([target, *names, *groups, *times])))
    remarks, texts = list(source.notes), {name: own for name, own in scans.items() if own.odd and name not in groups}
    _understand(source, {name: own for name, own in texts.items() if name not in categorical}, target, task)
    for name, own in texts.items():
        if name == time and not own.is_number:
            found = own.fault or "contains {!r} in row {}".format(*own.odd_values[0])
            raise TableError(f"--time: column {name!r} of {source.name} {found}: {LABELLED}.")
    are_counts = task == "count" or (task is None and _are_counts(scans[target]))
    if task is None and are_counts:
        other = "--task classification treats them as classes, --task regression minimises squared errors"
        remarks.append(f"task: count ({target!r} has whole numbers from 0 on, large ones rarely; {other})")
    labels = _labels(source, target, scans[target], "regression" if are_counts else task, remarks)
    useless: dict[str, list[str]] = {}  # by the reason; the others have none
    for name in names:
        useless.setdefault(_useless(name, scans[name]), []).append(name)
    inputs = {name: name in categorical or not scans[name].is_number for name in useless.pop("", ())}
    dropped = []
    for reason, same in useless.items():
        columns, verb = ("column", "is") if len(same) == 1 else ("columns", "are")
        dropped.append(f"{columns} {listed(list(map(repr, same)))} {verb} dropped: {reason}")
    if not inputs:
        fault = f"no input column remains besides the target {target!r}: add columns, or drop fewer"
        raise TableError("\n  ".join([f"{source.name}: {fault}.{source.hint}", *dropped]))
    remarks += dropped
    for name, is_text in {**({target: True} if labels else {}), **inputs}.items():
        remarks += _doubts(source, name, scans[name], is_text, merged and name != target)
    gaps = [f"{name!r} {scans[name].missing}" for name in inputs if scans[name].missing]
    remarks += [f"missing cells: {listed(gaps)}"] if gaps else []
    if scans[target].missing:
        remarks.append(f"rows without a value of {target!r} are dropped: {scans[target].missing}")
    formats = {name: scans[name].format for name in (target, *inputs, *times) if scans[name].format is not None}
    known: dict[Any, Collection[Any]] = {target: scans[target].values or ()}
    return Roles(target, labels, inputs, known, formats, group, time, are_counts), scans, remarks


def _are_counts(column: ColumnScan) -> bool:
    """Return whether all whole numbers from 0 to 3 or more occur, few enough for classes, and the last one is rare."""
    values, last = dict(column.values or {}), column.extremes[1]
    plain = column.is_number and column.odd == column.truths == 0 and column.whole
    if not plain or not 4 <= len(values) <= MOST_CLASSES or column.extremes != (0.0, len(values) - 1.0):
        return False
    return sum(size for value, size in values.items() if number_of(value) == last) < RARE * column.present


def _understand(source: Source, scans: dict[str, ColumnScan], target: str, task: str | None) -> None:
    """Find the formats of columns of texts. The target may be classes, or numbers."""
    found = {name: Evidence() for name in scans}
    for batch in source.batches(list(scans)) if scans else ():
        for name, evidence in found.items():
            evidence.add(batch.texts(name))
    for name, column in scans.items():
        column.format, column.fault, column.is_lost = found[name].settle(column.present, column.distinct)
        are_dates = name == target and column.format is not None and column.format.kind == "time"
        are_few = column.distinct <= MOST_CLASSES and column.present >= 3 * column.distinct
        if are_dates or (name == target and (task == "classification" or (task is None and are_few))):
            column.format, column.fault = None, "contains dates" * are_dates or column.fault
        if column.format is not None:
            column.odd, column.whole, column.dates = 0, False, False


def _labels(source: Source, target: str, column: ColumnScan, task: str | None, remarks: list[str]) -> str:
    """Return the type of the class labels, "" for regression: inferred from the target, and reported."""
    values, rows = column.values, column.present
    whole = column.is_number and column.odd == 0 and column.whole  # not money
    few = whole and values is not None and 2 <= len(values) <= MOST_CLASSES and rows >= 3 * len(values)
    regression = task == "regression" or (task is None and column.is_number and not few)
    fault = _target_fault(column, regression, forced=task is not None)
    if fault:
        raise TableError(f"{source.name}: column {target!r} {fault}.")
    if regression:
        if column.odd:
            remedy = "correct it, treat the column as classes with --task classification, or choose another target"
            raise odd_cells(source.name, target, column.odd_values, remedy, column.odd)
        if task is None:
            repeated = values is not None and (len(values) <= MOST_CLASSES or rows >= REPEATED * len(values))
            hint = "; if these are classes, use --task classification" if whole and repeated else ""
            hint += "; if they are counts, use --task count" if whole and column.extremes[0] == 0 else ""
            remarks.append(f"task: regression ({target!r} has {_number_of(values)} distinct numbers{hint})")
        return ""
    assert values is not None  # otherwise there are too many classes
    column.is_lost = False
    if task is None:
        other = "; --task regression treats them as numbers" if whole else ""
        remarks.append(f"task: classification ({target!r} has {len(values)} classes: {listed(sorted(values))}{other})")
    doubt = "may denote missing cells: if it does, leave these cells empty"
    remarks += [f"the class {word!r} of {target!r} {doubt}" for word in ABSENT if word in values]
    exact = whole and not column.truths and all(abs(end) < 2**53 for end in column.extremes)
    return "number" if exact and not column.padded else "text"


def _target_fault(column: ColumnScan, regression: bool, *, forced: bool) -> str:
    """Return why a target cannot be used, and what to do; "" if it can. Numbers with mistakes are checked elsewhere."""
    values, other = column.values, "choose another target with -y"
    if not column.present:
        return f"has no values: {other}"
    if not column.usable:
        return f"contains neither numbers nor text: {other}"
    if values is not None and len(values) < 2 and not (regression and column.odd):
        what = "the same value in all rows" if regression else "only one class"
        return f"has {what}, {quoted(list(values))}, but at least two are needed: add other rows, or {other}"
    if regression or (values is not None and (forced or len(values) <= 2 or column.present >= 2 * len(values))):
        return ""
    if column.fault:
        dates = column.fault == "contains dates"
        remedy = "use numbers, e.g. the days since the first" if dates else "write plain numbers"
        return f"{column.fault}: {remedy}, or {other}"
    what = f"{_number_of(values)} distinct values in {column.present} rows, too many for classes"
    if column.is_number or values is not None:
        other += f", or use --task {'regression' if column.is_number else 'classification'}"
    return f"has {what}: {other}"


def _number_of(values: Any) -> str:
    return f"more than {MOST_LABELS}" if values is None else str(len(values))


def _useless(name: str, column: ColumnScan) -> str:
    """Return why a column is dropped; "" if it is not."""
    is_constant = not column.missing and column.counts is not None and len(column.counts) == 1
    reasons = {
        "neither numbers, dates nor text (lists?)": not column.usable,
        "no values": not column.present,
        "no name (row numbers written by another program?)": not name,
        "the same value in all rows": is_constant,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _doubts(source: Source, name: str, column: ColumnScan, is_text: bool, merged: bool) -> Iterator[str]:
    """Yield possible mistakes in a column that is used; raise TableError for text in a column of numbers."""
    codes, drop = (f"{option} {shlex.quote(name)}" for option in ("--categorical", "--drop"))
    start = f"column {name!r}"
    remedy = f"correct it, leave the cell empty, or use --na TEXT (marks of missing cells), {codes} or {drop}"
    if not is_text:
        if column.odd:
            raise odd_cells(source.name, name, column.odd_values, remedy, column.odd)
        if column.dates:
            remedy = f"use e.g. the year or the days since the first, or drop it with {drop}"
            yield f"{start} looks like dates written as numbers ({column.extremes[0]:.0f}): {remedy}"
        if column.padded:
            zeros = f"some values have leading zeros ({quoted(column.padded)})"
            yield f"{start} is treated as numeric, but {zeros}: if they are codes, use {codes} or {drop}"
        if 0 < column.truths < column.present:
            yield f"{start} contains numbers and booleans, which are read as 1 and 0"
        return
    if column.is_lost:
        raise TableError(f"{source.name}: {start} {column.fault}: {remedy}.")
    if column.distinct > MOST_CLASSES and (column.fault or (not column.is_number and column.numbers >= column.odd > 0)):
        what = counted(column.odd, f"of {column.present} values is", f"of {column.present} values are")
        found = column.fault or f"contains {quoted(column.odd_values[0][0])}; {what} not numeric"
        yield f"{start} {found}: it is treated as text"
    groups: dict[str, list[str]] = {}
    for text in column.counts or ():
        groups.setdefault(" ".join(text.casefold().split()), []).append(text)
    for group in () if merged else filter(lambda group: len(group) > 1, groups.values()):
        yield f"{start} contains {' and '.join(map(quoted, sorted(group)))}: are they the same? See --merge-text"


def _closest(name: str, source: Source) -> str:
    known = {other.lower(): other for other in source.names}
    near = difflib.get_close_matches(name.strip().lower(), known, 1)
    hint = f"Did you mean {known[near[0]]!r}? " if near else ""
    return f"{hint}Its columns: {listed(source.names)}.{source.hint}"


def listed(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others."""
    return ", ".join(map(plain_name, names[:12])) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
