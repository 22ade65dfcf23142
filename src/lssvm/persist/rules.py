"""Rules for the contents of a model file, and functions that build them.

A rule is a function ``rule(value, name, sizes)`` that raises ValueError, or another error that `load` reports as one.
Shapes are written in symbols such as "rows": the first array binds a symbol in `sizes`, and later ones must agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Sizes = dict[str, int]
Rule = Callable[[Any, str, Sizes], None]

MOST = 2**48  # rows, or anything else that is counted
MAY_BE_EMPTY = ("rank", "kept")  # a kernel of zeros; an additive model without inputs


def demand(true: Any, name: str) -> None:
    """Raise ValueError unless `true`."""
    if not true:
        raise ValueError(f"{name} is not valid in a model file.")


def test(condition: Callable[[Any], Any]) -> Rule:
    """A condition that does not depend on sizes."""
    return lambda value, name, sizes: demand(condition(value), name)


def number(low: float, high: float = 1e300, *kinds: type) -> Rule:
    """A plain number from `low` to `high`."""
    return test(lambda value: type(value) in (kinds or (int, float)) and low <= value <= high)


def option(*names: Any) -> Rule:
    """One of some plain values."""
    return test(lambda value: isinstance(value, (str, float)) and value in names)


def optional(rule: Rule) -> Rule:
    """None, or a value that the rule accepts."""
    return lambda value, name, sizes: None if value is None else rule(value, name, sizes)


def either(first: Rule, second: Rule) -> Rule:
    """A value that one of two rules accepts."""

    def check(value: Any, name: str, sizes: Sizes) -> None:
        try:
            first(value, name, sizes)
        except (ArithmeticError, TypeError, ValueError):
            second(value, name, sizes)

    return check


def numbers(*dimensions: int, above: float = -math.inf, finite: bool = True, kinds: str = "biuf") -> Rule:
    """A number, or a list or array of numbers, as given by a user."""

    def check(value: Any, name: str, sizes: Sizes) -> None:
        demand(isinstance(value, (int, float, list, tuple, np.ndarray)), name)
        values = np.asarray(value)
        demand(values.dtype.kind in kinds and values.ndim in dimensions and values.size, name)
        demand(not finite or np.isfinite(values).all(), name)
        demand((values > above).all(), name)

    return check


def array(
    *shape: str | int, finite: bool = True, least: float = -math.inf, most: float = math.inf, kinds: str = "f"
) -> Rule:
    """An array of float64 ("f") or of integers ("iu")."""

    def check(value: Any, name: str, sizes: Sizes) -> None:
        demand(isinstance(value, np.ndarray) and value.ndim == len(shape) and value.dtype.kind in kinds, name)
        demand(value.dtype.kind != "f" or value.dtype == np.float64, name)
        for length, symbol in zip(value.shape, shape, strict=True):
            known = symbol if isinstance(symbol, int) else sizes.setdefault(symbol, length)
            demand(length == known and (length or symbol in MAY_BE_EMPTY), name)
        demand(not finite or np.isfinite(value).all(), name)
        outside = (value < least) | (value > most)  # NaN is neither
        demand(not outside.any(), name)

    return check


def sized(rule: Callable[[Sizes], Rule]) -> Rule:
    """A rule that depends on sizes."""
    return lambda value, name, sizes: rule(sizes)(value, name, sizes)


def by_output(rows: str, finite: bool = True) -> Rule:
    """One value per row, and per output if the targets were two-dimensional."""
    return sized(lambda sizes: array(rows, *([] if sizes["single"] else ["outputs"]), finite=finite))


def indices(size: str, below: str, least: int = 0) -> Rule:
    """Integers from `least` up to, but excluding, a size."""

    def check(value: Any, name: str, sizes: Sizes) -> None:
        array(size, kinds="iu", least=least)(value, name, sizes)
        demand(value.max(initial=-1) < sizes.get(below, MOST), name)

    return check


def labels(count: int) -> Rule:
    """An array of labels or names."""
    return test(lambda value: isinstance(value, np.ndarray) and value.shape == (count,))


def points(size: str) -> Rule:
    """Basis points: rows of the inputs, or column numbers of a precomputed kernel."""

    def check(value: Any, name: str, sizes: Sizes) -> None:
        array(size, 1 if sizes["precomputed"] else "features")(value, name, sizes)
        if sizes["precomputed"]:
            demand(((value == np.floor(value)) & (value >= 0) & (value < sizes["features"])).all(), name)

    return check


def items(rule: Rule, kind: Any = (list, tuple), least: int = 0, most: int = MOST) -> Rule:
    """A list or tuple whose items obey a rule."""

    def check(value: Any, name: str, sizes: Sizes) -> None:
        demand(isinstance(value, kind) and least <= len(value) <= most, name)
        for place, item in enumerate(value):
            rule(item, f"{name}[{place}]", sizes)

    return check


def pack(*rules: Rule) -> Rule:
    """A tuple with one rule per item."""

    def check(value: Any, name: str, sizes: Sizes) -> None:
        demand(isinstance(value, tuple) and len(value) == len(rules), name)
        for place, (rule, item) in enumerate(zip(rules, value, strict=True)):
            rule(item, f"{name}[{place}]", sizes)

    return check


def values_of(*dimensions: int, kinds: str = "biuf") -> Rule:
    """An array of numbers, of any size."""
    return test(lambda v: isinstance(v, np.ndarray) and v.ndim in dimensions and v.dtype.kind in kinds)


def entries(rules: dict[str, Rule], kind: Any = dict, *, needed: Sequence[str] = ()) -> Rule:
    """A dict whose entries obey their rules, if they have one, and which contains all entries in `needed`."""

    def check(value: Any, name: str, sizes: Sizes) -> None:
        demand(isinstance(value, kind) and all(isinstance(key, str) for key in value), name)
        for key in needed:
            demand(key in value, f"{name}[{key!r}]")
        for key, rule in rules.items():
            if key in value:
                rule(value[key], f"{name}[{key!r}]", sizes)

    return check
