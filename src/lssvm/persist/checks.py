"""Checks of the contents of a model file; those of records follow from the annotated types of their fields.

A check is a function ``check(value, name, sizes)`` that raises ValueError, or another error that `load` reports as one.
Shapes are written in symbols such as "rows": the first array binds a symbol in `sizes`, and later ones must agree.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from ..intervals import ScaleChoice
from ..kernels import Additive, Kernel, as_kernel
from ..problem import Fit, Problem, Whitening
from ..robust import WeightFunction
from ..rules import LARGEST, MOST, TINY, Penalty, Values, row_weights, values, violations
from ..stream import LooSample, Sample, Stream
from ..tables import Column

Sizes = dict[str, int]
Check = Callable[[Any, str, Sizes], None]

MAY_BE_EMPTY = ("rank", "kept")  # a kernel of zeros; an additive model without inputs


def demand(true: Any, name: str) -> None:
    """Raise ValueError unless `true`."""
    if not true:
        raise ValueError(f"{name} is not valid in a model file.")


def test(condition: Callable[[Any], Any]) -> Check:
    """A condition that does not depend on sizes."""
    return lambda value, name, sizes: demand(condition(value), name)


def optional(check: Check) -> Check:
    """None, or a value that passes the check."""
    return lambda value, name, sizes: None if value is None else check(value, name, sizes)


def number(low: float, high: float = LARGEST, *kinds: type) -> Check:
    """A plain number from `low` to `high`."""
    return test(lambda value: type(value) in (kinds or (int, float)) and low <= value <= high)


def array(rule: Values) -> Check:
    """An array with that shape and such values."""

    def check(value: Any, name: str, sizes: Sizes) -> None:
        shape = [symbol for symbol in rule.shape if symbol != "outputs?" or not sizes["single"]]
        demand(isinstance(value, np.ndarray) and value.ndim == len(shape) and value.dtype.kind in rule.kinds, name)
        demand(value.dtype.kind != "f" or value.dtype == np.float64, name)
        for length, symbol in zip(value.shape, shape, strict=True):
            if symbol == "coordinates":
                symbol = 1 if sizes["precomputed"] else "features"
            symbol = "outputs" if symbol == "outputs?" else symbol
            known = symbol if isinstance(symbol, int) else sizes.setdefault(symbol, length)
            demand(length == known and (length or symbol in MAY_BE_EMPTY), name)
        demand(not rule.finite or np.isfinite(value).all(), name)
        outside = (value < rule.low) | (value > rule.high)  # NaN is neither
        demand(not outside.any(), name)
        if rule.below:
            demand(value.max(initial=-1) < sizes.get(rule.below, MOST), name)
        if "coordinates" in shape and sizes["precomputed"]:  # column numbers
            demand(((value == np.floor(value)) & (value >= 0) & (value < sizes["features"])).all(), name)

    return check


def shaped(*shape: str | int, **options: Any) -> Check:
    """An array with a shape in symbols, and further options of `Values`."""
    return array(Values(shape, **options))


def numeric(*dimensions: int, kinds: str = "biuf") -> Check:
    """An array of numbers, of any size."""
    return test(lambda v: isinstance(v, np.ndarray) and v.ndim in dimensions and v.dtype.kind in kinds)


def sized(check: Callable[[Sizes], Check]) -> Check:
    """A check that depends on sizes."""
    return lambda value, name, sizes: check(sizes)(value, name, sizes)


def labels(size: str) -> Check:
    """An array of labels or names."""
    return lambda value, name, sizes: demand(isinstance(value, np.ndarray) and value.shape == (sizes[size],), name)


def items(check: Check, kind: Any = (list, tuple), least: int = 0, most: int = MOST) -> Check:
    """A list or tuple whose items pass a check."""

    def checked(value: Any, name: str, sizes: Sizes) -> None:
        demand(isinstance(value, kind) and least <= len(value) <= most, name)
        for place, item in enumerate(value):
            check(item, f"{name}[{place}]", sizes)

    return checked


def pack(*checks: Check) -> Check:
    """A tuple with one check per item."""

    def checked(value: Any, name: str, sizes: Sizes) -> None:
        demand(isinstance(value, tuple) and len(value) == len(checks), name)
        for place, (check, item) in enumerate(zip(checks, value, strict=True)):
            check(item, f"{name}[{place}]", sizes)

    return checked


def entries(checks: dict[str, Check], kind: Any = dict, *, needed: Sequence[str] = ()) -> Check:
    """A dict whose entries pass their checks, if they have one, and which contains all entries in `needed`."""

    def checked(value: Any, name: str, sizes: Sizes) -> None:
        demand(isinstance(value, kind) and all(isinstance(key, str) for key in value), name)
        for key in needed:
            demand(key in value, f"{name}[{key!r}]")
        for key, check in checks.items():
            if key in value:
                check(value[key], f"{name}[{key!r}]", sizes)

    return checked


# Records --------------------------------------------------------------------------------------------------------------
def record(cls: type) -> Check:
    """A record whose fields have the annotated types, and whose relations hold."""

    def check(value: Any, name: str, sizes: Sizes) -> None:
        demand(type(value) is cls, name)
        for field, own in checks_of_fields(cls).items():
            own(getattr(value, field), f"{name}.{field}", sizes)
        for field, relation in RELATIONS.get(cls, {}).items():
            demand(relation(value, sizes), f"{name}.{field}")

    return check


@functools.cache
def fields_in_files(cls: Any) -> list[str]:
    """The names of the fields of a record that model files contain."""
    return [field.name for field in dataclasses.fields(cls) if field.metadata.get("in_files", True)]


@functools.cache
def checks_of_fields(cls: type) -> dict[str, Check]:
    """The check of each field of a record."""
    hints = get_type_hints(cls, include_extras=True)
    return {name: SPECIAL.get((cls, name)) or of_type(hints[name]) for name in fields_in_files(cls)}


def of_type(hint: Any) -> Check:
    """The check of a type."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        rule = parts[1]
        if isinstance(rule, Values):
            return array(rule)
        return test(lambda value: type(value) is parts[0] and rule.holds(value))
    if origin in (Union, types.UnionType):
        if parts[1:] == (type(None),):
            return optional(of_type(parts[0]))
        return test(lambda value: type(value) in parts)
    if origin is tuple and parts[1:] == (...,):
        return items(of_type(parts[0]), tuple)
    if origin is tuple:
        return pack(*map(of_type, parts))
    return record(hint) if isinstance(hint, type) and dataclasses.is_dataclass(hint) else PLAIN[hint]


# Kernels and weight functions -----------------------------------------------------------------------------------------
def obeys_rules(value: Any, name: str, sizes: Sizes) -> None:
    """An object whose parameters obey their rules."""
    for place, _ in violations(value, name):
        demand(False, place)


def weight_function(value: Any, name: str, sizes: Sizes) -> None:
    """A weight function."""
    demand(isinstance(value, WeightFunction), name)
    obeys_rules(value, name, sizes)
    value.check()


def requested_kernel(value: Any, name: str, sizes: Sizes) -> None:
    """A kernel for these inputs, whose widths may be left at None."""
    demand(isinstance(value, Kernel), name)
    obeys_rules(value, name, sizes)
    as_kernel(value)
    demand(value.is_precomputed == bool(sizes["precomputed"]), name)
    parts = [value]
    for part in parts:
        parts += part.parts
        if not part.is_free:
            part.check(sizes["features"])
        if isinstance(part, Additive):
            demand(all(len(group) <= sizes["features"] for group in part.components(sizes["features"])), name)


def fitted_kernel(value: Any, name: str, sizes: Sizes) -> None:
    """A kernel that can be evaluated."""
    requested_kernel(value, name, sizes)
    demand(not value.is_free, name)
    if name == "kernel_" and isinstance(value, Additive):
        sizes["components"] = len(value.components(sizes["features"]))
        sizes["kept"] = sizes["components"] if value.active is None else len(set(value.active))


# What types alone do not say ------------------------------------------------------------------------------------------
def _are_inputs(numbers: np.ndarray) -> bool:
    """Whether numbers of inputs ascend from 0 without gaps."""
    return bool(numbers[0] == 0 and np.isin(np.diff(numbers.astype(np.int64)), (0, 1)).all())


def _are_values(found: Any) -> bool:
    """Whether these are distinct values of a category: text, or finite numbers."""
    text = all(type(item) is str for item in found)
    plain = text or all(type(item) in (bool, int, float) and math.isfinite(item) for item in found)
    return plain and len(set(found)) == len(found)


def _fit_basis(problem: Problem) -> bool:
    """Whether given coefficients belong to the basis of the problem."""
    if problem.coefficients is None:
        return True
    chosen = problem.support is not None or problem.points is not None
    return chosen and len(problem.coefficients[0]) == problem.basis_size


PLAIN: dict[Any, Check] = {
    bool: test(lambda value: type(value) is bool),
    int: number(0, MOST, int),
    str: test(lambda value: isinstance(value, str)),
    Kernel: fitted_kernel,
    WeightFunction: weight_function,
}
SPECIAL: dict[tuple[type, str], Check] = {  # fields that are more special than their types; schema.py adds the paths
    (Problem, "fitted"): test(lambda value: value is None),
    (Problem, "asked"): optional(pack(requested_kernel, optional(of_type(Penalty)))),
    (Column, "values"): test(lambda value: isinstance(value, tuple) and _are_values(value)),
    (Sample, "arrays"): pack(
        array(values("sampled", "features")), array(values("sampled", "outputs")), array(row_weights("sampled", TINY))
    ),
}
RELATIONS: dict[type, dict[str, Callable[[Any, Sizes], Any]]] = {  # between the fields of a record
    Problem: {
        "C": lambda problem, sizes: problem.C is not None,
        "weights": lambda problem, sizes: (problem.weights > 0).any(),
        "classification": lambda problem, sizes: problem.classification == ("classes" in sizes),
        "X": lambda problem, sizes: not sizes["precomputed"] or sizes["rows"] == sizes["features"],
        "points": lambda problem, sizes: problem.points is None or not sizes["precomputed"],
        "groups": lambda problem, sizes: problem.groups is None or _are_inputs(problem.groups),
        "coefficients": lambda problem, sizes: _fit_basis(problem),
    },
    Column: {"values": lambda column, sizes: (column.kind in ("category", "ranks")) == (len(column.values) > 0)},
    Fit: {"weights": lambda fit, sizes: (fit.weights > 0).any()},
    Whitening: {
        "owner": lambda whitening, sizes: (whitening.factor is None) == (whitening.owner is None),
        "points": lambda whitening, sizes: whitening.factor is not None or sizes["rank"] == sizes["basis"],
    },
    Stream: {
        "moments": lambda stream, sizes: stream.moments is not None,
        "sample": lambda stream, sizes: stream.sample is None or sizes["sampled"] <= stream.rows,
    },
    ScaleChoice: {"uneven": lambda choice, sizes: len(choice.uneven) == sizes["outputs"]},
    LooSample: {
        "steps": lambda sample, sizes: len(sample.steps) in (1, 2),
        "total": lambda sample, sizes: sizes["sampled"] <= sample.total,
    },
}
