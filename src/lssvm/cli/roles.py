"""The role of each column of a table: target, number, text or dropped."""

from __future__ import annotations

import difflib
import math
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._words import counted
from ..columns import is_number
from .reading import TableError, UnknownColumn, plain_name, quoted
from .summary import ABSENT, MOST_LABELS, column_values, numbers_of, scan, texts_of

if TYPE_CHECKING:
    import pyarrow as pa

    from .reading import Source
    from .summary import Summary

DATE = re.compile(r"(\d{4}([-/.])\d{1,2}\2\d{1,2}|\d{1,2}([-/.])\d{1,2}\3\d{2,4})([T ]\d{1,2}:\d{2}.*)?")
SIGNED = re.compile(r"([€$£¥]|[A-Z]{3}\s)?\s*[+-]?\d[\d.,'\s]*([€$£¥%]|[^\W\d]{1,3})?")  # a number and a unit
MOST_CLASSES = 10  # integers with at most this many distinct values are classes
MOST_LINES = 12  # columns that are dropped for the same reason are reported one by one up to this number
REPEATED = 5  # integers with as many rows per distinct value may be classes: 3 of 29 public regression tables


@dataclass(frozen=True)
class Roles:
    """The columns that a model reads from a table, and how."""

    target: str | None
    labels: str  # class labels are "number" (integers) or "text"; "" in regression
    inputs: dict[str, bool]  # by name: whether the cells are text
    known: dict[Any, Collection[Any]]  # by name: values of fitted categories, and class labels

    @classmethod
    def of(cls, model: Any) -> Roles:
        """The roles of the columns of a model that was fitted to a table."""
        from ..estimators.state import encoder

        columns = encoder(model)
        inputs = dict.fromkeys(map(str, model.feature_names_in_), False)
        target = getattr(model, "table_", {}).get("target")
        known: dict[Any, Collection[Any]] = {target: getattr(model, "classes_", ())}
        for column in () if columns is None else columns.columns:
            inputs[str(column.name)] = column.kind == "ignored" or any(isinstance(v, str) for v in column.values)
            known[str(column.name)] = column.values
        labels = {"U": "text"}.get(model.classes_.dtype.kind, "number") if hasattr(model, "classes_") else ""
        return cls(target, labels, inputs, known)

    def check(self, source: Source) -> None:
        """Raise TableError if the table lacks columns."""
        absent = [name for name in self.inputs if name not in source.names]
        if absent:
            raise TableError(
                f"{source.name} lacks {counted(len(absent), 'column')} that the model needs: {listed(absent)}. "
                + _closest(absent[0], source)
            )

    def cells(self, batch: pa.RecordBatch, source: Source, row: int) -> pa.Table:
        """The input columns of a batch: floats with NaN for missing cells, or text with null for missing cells."""
        import pyarrow as pa

        columns = []
        for name, is_text in self.inputs.items():
            column = column_values(batch, name)
            if column is None:
                raise TableError(f"{source.name}: column {name!r} contains neither numbers nor text: convert it.")
            if is_text:
                _refuse_only_numbers(column, source, name, row, self.known.get(name, ()))
                columns.append(texts_of(column, self.known.get(name, ())))
            else:
                columns.append(pa.array(_numbers(column, source, name, row, "correct it, or leave the cell empty")))
        return pa.table(columns, names=list(self.inputs))

    def targets(self, batch: pa.RecordBatch, source: Source, row: int) -> tuple[np.ndarray, np.ndarray]:
        """The target of each row of a batch, and a mask of the rows that have one."""
        assert self.target is not None
        column = column_values(batch, self.target)
        if self.labels == "text":
            missing = {None, *ABSENT}.difference(self.known[self.target])
            texts = texts_of(column, self.known[self.target]).to_pylist()
            return np.array([text or "" for text in texts]), np.array([text not in missing for text in texts])
        values = _numbers(column, source, self.target, row, "correct it; the model was fitted to numbers")
        present = ~np.isnan(values)
        return (np.where(present, values, 0.0).astype(np.int64) if self.labels else values), present


def _refuse_only_numbers(column: Any, source: Source, name: str, row: int, known: Collection[str]) -> None:
    """Raise TableError if a category of words contains nothing but numbers, as the estimators do for frames."""
    if not known or any(map(is_number, known)):
        return
    values, odd = numbers_of(column, source.decimal)
    numbers = ~np.isnan(values)
    if numbers.any() and not odd.any():
        place = int(np.argmax(numbers))
        raise TableError(
            f"{source.name}: column {name!r} contained text in fit, but now contains numbers "
            f"({quoted(str(column[place].as_py()))} in row {row + place}): give the same columns as in fit."
        )


def _numbers(column: Any, source: Source, name: str, row: int, remedy: str) -> np.ndarray:
    values, odd = numbers_of(column, source.decimal)
    if odd.any():
        place = int(np.argmax(odd))
        raise TableError(f"{_odd_words(source.name, name, [(str(column[place].as_py()), row + place)])}: {remedy}.")
    return values


def plan(
    source: Source,
    target: str,
    *,
    task: str | None = None,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    seen: Callable[[int], None] = lambda rows: None,
) -> tuple[Roles, dict[str, Summary], list[str]]:
    """Scan a table and decide on the roles of its columns; returns them, the summaries, and messages about them."""
    for option, names in (("-y", [target]), ("--drop", drop), ("--categorical", categorical)):
        for name in names:
            if name not in source.names:
                raise UnknownColumn(f"{option} {name!r}: {source.name} has no such column. {_closest(name, source)}")
    if target in drop:
        raise UnknownColumn(
            f"--drop {target!r}: this is the target (-y); drop another column, or choose another target."
        )
    if target in categorical:
        raise UnknownColumn(
            f"--categorical {target!r}: this is the target (-y); for classes use --task classification."
        )
    names = [name for name in source.names if name != target and name not in drop]
    if not names:
        raise TableError(
            f"{source.name} has no column besides the target {target!r}, so there is nothing to learn from: add "
            f"columns, or drop fewer.{source.hint}"
        )
    summaries = scan(source, [target, *names], seen)
    if max(summary.rows for summary in summaries.values()) < 2:
        raise TableError(
            f"{source.name} has 1 row, but at least 2 are required, and 30 or more to evaluate a model: add rows."
        )
    remarks = list(source.notes)
    labels = _labels(source, target, summaries[target], task, remarks)
    inputs: dict[str, bool] = {}
    useless: dict[str, list[str]] = {}
    for name in names:
        reason = _useless(name, summaries[name], name in categorical)
        if reason:
            useless.setdefault(reason, []).append(name)
            continue
        inputs[name] = name in categorical or not summaries[name].is_number
        if not inputs[name] and summaries[name].odd:
            raise TableError(_odd_message(source.name, name, summaries[name]))
    dropped = [remark for reason, own in useless.items() for remark in _dropped(own, reason)]
    if not inputs:
        raise TableError("\n  ".join([f"{source.name}: no input column remains.", *dropped]))
    remarks += dropped
    if labels:
        remarks += _doubts(target, summaries[target], True)
    for name, is_text in inputs.items():
        remarks += _doubts(name, summaries[name], is_text)
    gaps = [f"{name!r} {summaries[name].missing}" for name in inputs if summaries[name].missing]
    remarks += [f"missing cells: {listed(gaps)}"] if gaps else []
    if summaries[target].missing:
        remarks.append(f"rows without a value of {target!r} are dropped: {summaries[target].missing}")
    return Roles(target, labels, inputs, {target: summaries[target].values or ()}), summaries, remarks


def _labels(source: Source, target: str, summary: Summary, asked: str | None, remarks: list[str]) -> str:
    """The type of the class labels, "" for regression: inferred from the target, and reported."""
    if not summary.present:
        raise TableError(f"{source.name}: column {target!r} has no values: choose another target with -y.")
    if not summary.usable:
        raise TableError(f"{source.name}: column {target!r} contains neither numbers nor text: choose another target.")
    values = summary.values
    shown = f"more than {MOST_LABELS}" if values is None else str(len(values))
    whole = summary.is_number and summary.odd == 0 and summary.whole
    few = whole and values is not None and 2 <= len(values) <= MOST_CLASSES and summary.present >= 3 * len(values)
    if asked == "regression" or (asked is None and summary.is_number and not few):
        if summary.odd:
            raise TableError(_odd_message(source.name, target, summary, target=True))
        if values is not None and len(values) < 2:
            raise TableError(
                f"{source.name}: column {target!r} has the same value in all rows, {quoted(list(values))}: there is "
                "nothing to learn. Choose another target with -y."
            )
        if asked is None:
            repeated = values is not None and (len(values) <= MOST_CLASSES or summary.present >= REPEATED * len(values))
            hint = "; if these are classes, use --task classification" if whole and repeated else ""
            remarks.append(f"task: regression ({target!r} has {shown} distinct numbers{hint})")
        return ""
    many = values is None or (asked is None and len(values) > 2 and 2 * len(values) > summary.present)
    if many and _all_match(DATE, summary):
        raise TableError(
            f"{source.name}: column {target!r} contains dates ({quoted(summary.texts[0])}): use numbers, e.g. the days "
            "since the first, or choose another target with -y."
        )
    if many and _all_match(SIGNED, summary):
        odd = summary.odd_values[0][0] if summary.odd_values else summary.texts[0]
        raise TableError(
            f"{source.name}: column {target!r} contains numbers with other characters ({quoted(odd)}): "
            "write plain numbers, such as 1234.5, give the --decimal separator, or choose another target with -y."
        )
    if values is None:
        raise TableError(
            f"{source.name}: column {target!r} has more than {MOST_LABELS} distinct values, too many for classes: "
            "choose another target with -y" + (", or --task regression." if summary.is_number else ".")
        )
    if many:
        raise TableError(
            f"{source.name}: column {target!r} has {len(values)} distinct texts in {summary.present} rows, too many "
            "for classes: choose another target with -y, or force it with --task classification."
        )
    if len(values) < 2:
        raise TableError(
            f"{source.name}: column {target!r} has only one class, {quoted(list(values))}, but a classifier needs two: "
            "add rows of other classes, or choose another target with -y."
        )
    if asked is None:
        other = "; --task regression treats them as numbers" if whole else ""
        remarks.append(f"task: classification ({target!r} has {len(values)} classes: {listed(sorted(values))}{other})")
    remarks += [
        f"the class {word!r} of {target!r} may denote missing cells: if it does, leave these cells empty"
        for word in ABSENT
        if word in values
    ]
    exact = whole and not summary.truths and all(abs(end) < 2**53 for end in summary.extremes)
    return "number" if exact and not summary.padded else "text"


def _useless(name: str, summary: Summary, categorical: bool) -> str:
    """Why a column is dropped; "" if it is not."""
    if not summary.usable:
        return "it contains neither numbers nor text (dates or lists?)"
    if not summary.present:
        return "it is empty"
    if not name:
        return "it has no name (row numbers written by another program?)"
    if summary.values is not None and len(summary.values) == 1 and not summary.missing:
        return "it has the same value in all rows"
    if not categorical and not summary.is_number and _all_match(DATE, summary):
        return f"it contains dates ({quoted(summary.texts[0])}); use numbers, e.g. the year or days since the first"
    return ""


def _dropped(names: Sequence[str], reason: str) -> list[str]:
    """What is reported of columns that are dropped for the same reason: a line for each, or one line for many."""
    if len(names) > MOST_LINES:
        return [f"{len(names)} columns ({listed(names)}) are dropped: {reason.replace('it', 'each', 1)}"]
    return [f"column {name!r} is dropped: {reason}" for name in names]


def _all_match(pattern: re.Pattern[str], summary: Summary) -> bool:
    """Whether all sampled texts of a column match a pattern."""
    return bool(summary.texts) and all(pattern.fullmatch(text) for text in summary.texts)


def _doubts(name: str, summary: Summary, is_text: bool) -> Iterator[str]:
    """Possible mistakes in a column that is used."""
    option = shlex.quote(name)
    if not is_text:
        if summary.numbers_rows:
            yield f"column {name!r} numbers the rows: drop it with --drop {option}, unless their order matters"
        if summary.dates:
            yield (
                f"column {name!r} looks like dates written as numbers ({summary.first:.0f}): use e.g. the year or the "
                f"days since the first, or drop it with --drop {option}"
            )
        if summary.padded:
            yield (
                f"column {name!r} is treated as numeric, but some values have leading zeros "
                f"({quoted(summary.padded)}): if they are codes, use --categorical {option} or --drop {option}"
            )
        if 0 < summary.truths < summary.present:
            yield f"column {name!r} contains numbers and booleans, which are read as 1 and 0"
        return
    distinct = summary.counts is None or len(summary.counts) > MOST_CLASSES
    if not summary.is_number and distinct and (_all_match(SIGNED, summary) or summary.numbers >= summary.odd):
        yield (
            f"column {name!r} is treated as text, because {summary.odd} of {summary.present} values "
            f"{'is' if summary.odd == 1 else 'are'} not numeric, "
            f"such as {quoted(summary.odd_values[0][0])}: write plain numbers, such as -1234.5, "
            "or give the --decimal separator"
        )
    groups: dict[str, list[str]] = {}
    for text in summary.counts or ():
        groups.setdefault(" ".join(text.casefold().split()), []).append(text)
    for group in groups.values():
        if len(group) > 1:
            yield f"column {name!r} contains {' and '.join(map(quoted, sorted(group)))}: are they the same?"


def _odd_message(source: str, name: str, summary: Summary, target: bool = False) -> str:
    where = _odd_words(source, name, summary.odd_values, summary.odd)
    if target:
        return f"{where}: correct it, treat the column as classes with --task classification, or choose another target."
    option = shlex.quote(name)
    return (
        f"{where}: correct it, leave the cell empty if it is missing, treat the column as categorical with "
        f"--categorical {option}, or use --drop {option}."
    )


def _odd_words(source: str, name: str, values: Sequence[tuple[str, int]], count: int = 0) -> str:
    found = ", ".join(f"{quoted(value)} in row {row}" for value, row in values)
    many = f"{count} values that are" if count > 1 else "a value that is"
    return f"{source}: column {name!r} contains {many} {_fault(values, count)} ({found})"


def _fault(values: Sequence[tuple[str, int]], count: int) -> str:
    """What is wrong with cells of a column of numbers, of which the first few are known."""
    infinite = [_is_infinite(value) for value, _ in values]
    if all(infinite) and count <= len(values):
        return "infinite"
    return "infinite or not numeric" if any(infinite) else "not numeric"


def _is_infinite(text: str) -> bool:
    try:
        return math.isinf(float(text.replace(",", ".")))
    except ValueError:
        return False


def _closest(name: str, source: Source) -> str:
    near = difflib.get_close_matches(name, source.names, 1, 0.6) or [
        other for other in source.names if other.lower() == name.strip().lower()
    ]
    hint = f"Did you mean {near[0]!r}? " if near else ""
    return f"{hint}Its columns: {listed(source.names)}.{source.hint}"


def listed(names: Sequence[str]) -> str:
    """The first names."""
    return ", ".join(map(plain_name, names[:12])) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
