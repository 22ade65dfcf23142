"""The role of each column of a table, and its encoding as numbers."""

from __future__ import annotations

import difflib
import math
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .reading import TableError, UnknownColumn, looks_numeric, plain_name, quoted
from .summary import MOST_LABELS, categories_of, column_values, label_of, missing_texts, numbers_of, scan, spellings

if TYPE_CHECKING:
    import pyarrow as pa

    from .reading import Source
    from .summary import Summary

DATE = re.compile(r"(\d{4}([-/.])\d{1,2}\2\d{1,2}|\d{1,2}([-/.])\d{1,2}\3\d{2,4})([T ]\d{1,2}:\d{2}.*)?")
SIGNED = re.compile(r"([€$£¥]|[A-Z]{3}\s)?\s*[+-]?\d[\d.,'\s]*([€$£¥%]|[^\W\d]{1,3})?")  # a number and a unit
MOST_CATEGORIES = 50  # a column with more distinct texts is dropped,
ALIKE_CATEGORIES = 10  # and so is one with more than this, if there are fewer than two rows per text
MOST_CLASSES = 10  # integers with at most this many distinct values are classes


@dataclass(frozen=True)
class Column:
    """An input column: numeric or categorical."""

    name: str
    categories: tuple[str, ...] | None = None
    fill: float | None = None  # replaces missing values

    @property
    def encoded(self) -> list[str]:
        """Names of the encoded columns."""
        return [self.name] if self.categories is None else [f"{self.name}={value}" for value in self.categories]


@dataclass(frozen=True)
class Plan:
    """The role of each column, the target and the task; stored in the model as plain values."""

    target: str
    task: str  # "regression" or "classification"
    columns: tuple[Column, ...]
    labels: str = "number"  # class labels are "number" (integers) or "text"

    @property
    def names(self) -> list[str]:
        """Names of the encoded columns."""
        return [name for column in self.columns for name in column.encoded]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a model file."""
        columns = [
            {"name": c.name, "categories": None if c.categories is None else list(c.categories), "fill": c.fill}
            for c in self.columns
        ]
        return {"target": self.target, "task": self.task, "labels": self.labels, "columns": columns}

    @classmethod
    def from_dict(cls, values: Any) -> Plan:
        """The inverse of `to_dict`; raises TableError for invalid values."""
        try:
            columns = tuple(
                Column(
                    str(c["name"]),
                    None if c["categories"] is None else tuple(map(str, c["categories"])),
                    None if c["fill"] is None else float(c["fill"]),
                )
                for c in values["columns"]
            )
            return cls(str(values["target"]), str(values["task"]), columns, str(values["labels"]))
        except (KeyError, TypeError, ValueError) as error:
            raise TableError(f"This model file does not describe its columns ({error!r}).") from None

    def check(self, source: Source) -> None:
        """Raise TableError if the table lacks columns."""
        absent = [column.name for column in self.columns if column.name not in source.names]
        if absent:
            raise TableError(
                f"{source.name} lacks {len(absent)} column(s) that the model needs: {_list(absent)}. "
                + _closest(absent[0], source.names)
            )

    def encode(self, batch: pa.RecordBatch, source: Source, row: int, unknown: Counter[str]) -> tuple[Any, np.ndarray]:
        """The encoded columns of a batch as an Arrow table, and a mask of its complete rows.

        Missing values in incomplete rows become zeros. Unknown categories are counted in `unknown`.
        """
        import pyarrow as pa

        arrays: list[np.ndarray] = []
        complete = np.ones(batch.num_rows, dtype=bool)
        for spec in self.columns:
            column = column_values(batch, spec.name)
            if column is None:
                raise TableError(f"{source.name}: column {spec.name!r} contains neither numbers nor text.")
            if spec.categories is not None:
                arrays += _one_hot(column, spec, complete, unknown)
                continue
            values, missing, odd = numbers_of(column, source.decimal)
            if odd.any():
                place = int(np.argmax(odd))
                found = _odd_words(source.name, spec.name, [(str(column[place].as_py()), row + place)])
                raise TableError(f"{found}: correct it, or leave the cell empty.")
            if spec.fill is None:
                complete &= ~missing
            arrays.append(np.where(missing, 0.0 if spec.fill is None else spec.fill, values))
        return pa.table([pa.array(values) for values in arrays], names=self.names), complete

    def targets(self, batch: pa.RecordBatch, source: Source, row: int) -> tuple[np.ndarray, np.ndarray]:
        """The target of each row of a batch, and a mask of the rows that have one."""
        column = column_values(batch, self.target)
        if self.task == "classification" and self.labels == "text":
            missing = missing_texts(column)
            texts = [label_of(v) if isinstance(v, float) else "" if v is None else v for v in column.to_pylist()]
            return np.array(texts), ~missing
        values, missing, odd = numbers_of(column, source.decimal)
        if odd.any():
            place = int(np.argmax(odd))
            found = _odd_words(source.name, self.target, [(str(column[place].as_py()), row + place)])
            raise TableError(f"{found}: correct it; the model was fitted to numbers.")
        values = np.where(missing, 0.0, values)
        return (values.astype(np.int64) if self.task == "classification" else values), ~missing


def _one_hot(column: Any, spec: Column, complete: np.ndarray, unknown: Counter[str]) -> list[np.ndarray]:
    import pyarrow as pa
    import pyarrow.compute as pc

    assert spec.categories is not None
    missing = missing_texts(column)
    if spec.fill is None:
        complete &= ~missing
    if pa.types.is_floating(column.type):
        column = pa.array([None if none else label_of(v) for v, none in zip(column.to_pylist(), missing, strict=True)])
    known = spellings(spec.categories)
    place = pc.fill_null(pc.index_in(column, pa.array(list(known))), -1).to_numpy(zero_copy_only=False)
    place = np.array([*known.values(), -1])[place]
    new = np.flatnonzero((place < 0) & ~missing)
    unknown.update(f"{spec.name}={value}" for value in (column.take(pa.array(new)).to_pylist() if len(new) else ()))
    return [(place == number).astype(float) for number in range(len(spec.categories))]


def plan(
    source: Source,
    target: str,
    *,
    task: str | None = None,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    missing: str = "error",
    seen: Callable[[int], None] = lambda rows: None,
) -> tuple[Plan, dict[str, Summary], list[str]]:
    """Scan a table and decide on the roles of its columns; returns the plan, the summaries, and messages about it."""
    for option, names in (("-y", [target]), ("--drop", drop), ("--categorical", categorical)):
        for name in names:
            if name not in source.names:
                raise UnknownColumn(
                    f"{option} {name!r}: {source.name} has no such column. {_closest(name, source.names)}"
                )
    if target in drop:
        raise UnknownColumn(
            f"--drop {target!r}: this is the target (-y); drop another column, or choose another target."
        )
    if target in categorical:
        raise UnknownColumn(
            f"--categorical {target!r}: this is the target (-y); for classes use --task classification."
        )
    inputs = [name for name in source.names if name != target and name not in drop]
    if not inputs:
        raise TableError(f"{source.name} has no column besides the target {target!r}: there is nothing to learn from.")
    summaries = scan(source, [target, *inputs], seen)
    if max(summary.rows for summary in summaries.values()) < 2:
        raise TableError(f"{source.name} has 1 row: at least 2 are required, and 30 or more to evaluate a model.")
    remarks = list(source.notes)
    chosen, labels = _task(source, target, summaries[target], task, remarks)
    columns, problems = [], []
    for name in inputs:
        column, remark = _decide(source, name, summaries[name], name in categorical, missing)
        if column is not None:
            columns.append(column)
        elif remark:
            remarks.append(f"column {name!r} is dropped: {remark}")
    encoded = [f"{column.name!r} ({len(column.categories)})" for column in columns if column.categories is not None]
    if encoded:
        remarks.append(f"treated as categorical: {_list(encoded)}")
    if chosen == "classification":
        remarks += _doubts(target, summaries[target], tuple(summaries[target].counts or ()))
    for column in columns:
        remarks += _doubts(column.name, summaries[column.name], column.categories)
    if not columns:
        dropped = "\n".join(f"  {remark}" for remark in remarks if remark.startswith("column "))
        raise TableError(f"{source.name}: no input column remains.\n{dropped}")
    kept = [target, *(column.name for column in columns)]
    problems = [(name, summaries[name]) for name in kept if summaries[name].missing]
    if problems and missing == "error":
        raise TableError(_missing_message(source.name, problems))
    if problems:
        filled = [pair for pair in problems if missing == "fill" and pair[0] != target]  # targets are not filled in
        for verb, own in (
            ("rows are dropped", [pair for pair in problems if pair not in filled]),
            ("filled with the mean or with no category", filled),
        ):
            if own:
                found = ", ".join(f"{name!r} {summary.missing}" for name, summary in own)
                remarks.append(f"missing values, {verb}: {found}")
    result = Plan(target, chosen, tuple(columns), labels)
    twice = [name for name, count in Counter(result.names).items() if count > 1]
    if twice:
        raise TableError(f"{source.name}: two encoded columns would be named {twice[0]!r}: rename one of them.")
    return result, summaries, remarks


def _task(source: Source, target: str, summary: Summary, asked: str | None, remarks: list[str]) -> tuple[str, str]:
    """The task and the type of its labels, inferred from the target."""
    if not summary.present:
        raise TableError(f"{source.name}: column {target!r} has no values: choose another target with -y.")
    if not summary.usable:
        raise TableError(f"{source.name}: column {target!r} contains neither numbers nor text: choose another target.")
    values = summary.counts
    shown = "more than 1000" if values is None else str(len(values))
    whole = summary.is_number and summary.odd == 0 and summary.whole
    labels = "number" if whole and not summary.padded and _in_range(values) else "text"
    if asked == "regression" or (asked is None and summary.is_number and not (whole and _few(values))):
        if summary.odd:
            raise TableError(_odd_message(source.name, target, summary.odd_values, summary.odd, target=True))
        if values is not None and len(values) < 2:
            raise TableError(
                f"{source.name}: column {target!r} has the same value in all rows, {quoted(list(values))}: there is "
                "nothing to learn. Choose another target with -y."
            )
        if asked is None:
            remarks.append(f"task: regression ({target!r} has {shown} distinct numbers)")
        return "regression", "number"
    many = values is None or (asked is None and len(values) > 2 and 2 * len(values) > summary.present)
    if many and _all_match(SIGNED, summary) and not _all_match(DATE, summary):
        odd = summary.odd_values[0][0] if summary.odd_values else summary.texts[0]
        raise TableError(
            f"{source.name}: column {target!r} contains numbers with other characters ({quoted(odd)}): "
            "write plain numbers, such as 1234.5, or choose another target with -y."
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
        remarks.append(f"task: classification ({target!r} has {len(values)} classes: {_list(sorted(values))}{other})")
    return "classification", labels


def _few(values: Counter[str] | None) -> bool:
    return values is not None and len(values) <= MOST_CLASSES and sum(values.values()) >= 3 * len(values)


def _in_range(values: Counter[str] | None) -> bool:
    return values is not None and all(abs(float(value)) < 2**53 for value in values)


def _decide(source: Source, name: str, summary: Summary, categorical: bool, missing: str) -> tuple[Column | None, str]:
    """The encoding of a column; or None, and why it is dropped."""
    if not summary.usable:
        return None, "it contains neither numbers nor text (dates or lists?)"
    if not summary.present:
        return None, "it is empty"
    if not name:
        return None, "it has no name (row numbers written by another program?)"
    fills = missing == "fill"
    if summary.is_number and not categorical:
        if summary.odd:
            raise TableError(_odd_message(source.name, name, summary.odd_values, summary.odd))
        if summary.counts is not None and len(summary.counts) == 1:
            return None, "it has the same value in all rows"
        return Column(name, None, summary.total / summary.present if fills else None), ""
    if not categorical and _all_match(DATE, summary):
        return None, (
            f"it contains dates ({quoted(summary.texts[0])}); use numbers, e.g. the year or days since the first"
        )
    size = math.inf if summary.counts is None else len(summary.counts)
    alike = size > ALIKE_CATEGORIES and 2 * size > summary.present
    if size == math.inf or ((alike or size > MOST_CATEGORIES) and not categorical):
        shown = "more than 1000" if size == math.inf else str(size)
        if summary.odd < summary.present:
            example = quoted(summary.odd_values[0][0])
            return None, (
                f"{summary.odd} of {summary.present} values are not numeric, such as {example}; write plain numbers, "
                "such as -1234.5"
            )
        if _all_match(SIGNED, summary):
            return (
                None,
                f"{shown} distinct texts such as {quoted(summary.texts[0])}; write plain numbers, such as 1234.5",
            )
        encode = f"--categorical {shlex.quote(name)} accepts up to {MOST_LABELS}"
        return None, f"{shown} distinct texts such as {quoted(summary.texts[0])} ({encode})"
    assert summary.counts is not None
    categories = categories_of(summary.counts)
    if len(categories) == 1:
        return None, "it has the same value in all rows"
    return Column(name, categories, 0.0 if fills else None), ""


def _all_match(pattern: re.Pattern[str], summary: Summary) -> bool:
    """Whether all sampled texts of a column match a pattern."""
    return bool(summary.texts) and all(pattern.fullmatch(text) for text in summary.texts)


def _doubts(name: str, summary: Summary, texts: Sequence[str] | None) -> Iterator[str]:
    """Possible mistakes in a column that is used: numeric if `texts` is None, else categorical."""
    if texts is None:
        if summary.whole and summary.counting and summary.rows > 2:
            yield (
                f"column {name!r} numbers the rows: drop it with --drop {shlex.quote(name)}, unless their order matters"
            )
        if summary.padded:
            option = shlex.quote(name)
            yield (
                f"column {name!r} is treated as numeric, but some values have leading zeros "
                f"({quoted(summary.padded)}): if they are codes, use --categorical {option} or --drop {option}"
            )
        return
    groups: dict[str, list[str]] = {}
    for text in texts:
        groups.setdefault(" ".join(text.casefold().split()), []).append(text)
    for group in groups.values():
        if len(group) > 1:
            yield f"column {name!r} contains {' and '.join(map(quoted, sorted(group)))}: are they the same?"


def _odd_message(
    source: str, name: str, values: Sequence[tuple[str, int]], count: int = 0, target: bool = False
) -> str:
    where = _odd_words(source, name, values, count)
    if target:
        return f"{where}: correct it, treat the column as classes with --task classification, or choose another target."
    quoted = shlex.quote(name)
    return (
        f"{where}: correct it, leave the cell empty if it is missing, treat the column as categorical with "
        f"--categorical {quoted}, or use --drop {quoted}."
    )


def _odd_words(source: str, name: str, values: Sequence[tuple[str, int]], count: int = 0) -> str:
    found = ", ".join(f"{quoted(value)} in row {row}" for value, row in values)
    many = f"{count} values that are" if count > 1 else "a value that is"
    return f"{source}: column {name!r} contains {many} not numeric ({found})"


def _missing_message(source: str, problems: Sequence[tuple[str, Summary]]) -> str:
    lines = [
        f"  {plain_name(name)}: {found.missing} missing, the first in row {found.first_missing}"
        for name, found in problems
    ]
    remedy = (
        "Fill them in, or use --missing drop (drops the rows), --missing fill (numbers become the mean of the column, "
        "texts belong to no category) or --drop COLUMN."
    )
    return f"{source}: some values are missing.\n" + "\n".join(lines) + f"\n{remedy}"


def _closest(name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, names, 1, 0.6) or [
        other for other in names if other.lower() == name.strip().lower()
    ]
    hint = f"Did you mean {near[0]!r}? " if near else ""
    data = " These look like data: if the first line contains no names, use --no-header."
    return f"{hint}Its columns: {_list(names)}." + (data if any(map(looks_numeric, names)) else "")


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(plain_name, names[:12])) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
