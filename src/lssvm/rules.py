"""Rules for what users write, and for what model files may contain, in annotations.

Arguments of the constructors of kernels, steps, weight functions and estimators have types such as `Count`, which are
annotated with a `Rule`. `check_parameters` applies these rules before a fit, and `persist` to model files. In records,
which the library makes, arrays are annotated with their `Values`, which `persist` checks.
"""

from __future__ import annotations

import functools
import math
import reprlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from types import FunctionType
from typing import Annotated, Any, get_args, get_type_hints

import numpy as np

from . import arrays
from .arrays import ArrayLike

MOST = 2**48  # This bounds the number of rows, or of anything else that is counted.
LARGEST = 1e300  # This is so far below the largest float that a few operations do not overflow.
TINY = math.ulp(0.0)
HEAVIEST = 1e200  # This bounds the product of a sample weight and a class weight that `fit` accepts.


@dataclass(frozen=True)
class Rule:
    """What a parameter may be: the words for it in messages, and the condition.

    The condition may raise an error of its own that explains more. With `objects`, the value is an object with rules of
    its own, or a list of them.
    """

    meaning: str
    holds: Callable[[Any], Any]
    objects: bool = False

    def __or__(self, other: Rule) -> Rule:
        meaning = f"{self.meaning} or {other.meaning}"
        return Rule(meaning, lambda value: self.holds(value) or other.holds(value), self.objects or other.objects)


def number(meaning: str, low: float, high: float = LARGEST, kind: Any = Real) -> Rule:
    """Return the rule of a number from `low` to `high`."""
    return Rule(meaning, lambda value: isinstance(value, kind) and type(value) is not bool and low <= value <= high)


def integer(meaning: str, low: int, high: int = MOST) -> Rule:
    """Return the rule of an integer from `low` to `high`."""
    return number(meaning, low, high, Integral)


def one_of(*values: Any) -> Rule:
    """Return the rule of a value that is one of the given texts or numbers."""
    *first, last = map(repr, values)
    meaning = f"{', '.join(first)} or {last}" if first else last
    return Rule(meaning, lambda value: isinstance(value, (str, Real)) and value in values)


def as_array(value: Any) -> np.ndarray:
    """Return the value as an array; an object array without dimensions if it cannot be one."""
    try:
        return arrays.to_numpy(value)
    except (TypeError, ValueError):
        return np.array(None, dtype=object)


def numbers(
    meaning: str,
    *dimensions: int,
    above: float = -math.inf,
    least: int = 1,
    most: int = MOST,
    finite: bool = True,
    kinds: str = "biuf",
) -> Rule:
    """Return the rule of a number, or of a list or array of `least` to `most` numbers."""

    def holds(value: Any) -> bool:
        found = as_array(value)
        plain = found.dtype.kind in kinds and found.ndim in dimensions and found.size >= least
        bounded = plain and found.shape[:1] <= (most,) and (not finite or np.isfinite(found).all())
        return bool(bounded and (found > above).all())

    return Rule(meaning, holds)


def open_share(meaning: str) -> Rule:
    """Return the rule of a number between 0 and 1, both excluded."""
    return number(meaning, TINY, math.nextafter(1.0, 0.0))


Flag = Annotated[bool, Rule("True or False", lambda value: value is None or isinstance(value, (np.bool_, int)))]
Count = Annotated[int, integer("a positive integer", 1)]
Share = Annotated[float, number("a number in [0, 1)", 0.0, math.nextafter(1.0, 0.0))]
Positive = Annotated[float, number("positive and finite", TINY)]
NotNegative = Annotated[float, number("a finite, non-negative number", 0.0)]
Effort = Annotated[float, number("a number from 0.001 to 1000", 1e-3, 1e3)]
Penalty = Annotated[float, number("positive and finite", 1e-300)]  # C of a fitted model, whose inverse is finite
List = Annotated[ArrayLike, Rule("a list", lambda value: as_array(value).ndim == 1)]
Seed = Annotated[
    Any,
    integer("an integer from 0 to 4294967295", 0, 2**32 - 1)
    | Rule("a RandomState", lambda value: value is np.random or isinstance(value, np.random.RandomState))
    | Rule("None", lambda value: value is None),
]


@dataclass(frozen=True)
class Values:
    """The shape of an array in symbols such as "rows", and its values: float64, or integers if `kinds` is "iu".

    "outputs" is the number of columns of f(x) and "targets" that of the targets, which differ for pairs of classes.
    "outputs?" is no dimension if there is one output; "coordinates" is the number of columns of the inputs, or 1 for
    precomputed kernels, whose points are column numbers. `below` names a size that integers may not reach. With
    `optional`, there may be None instead of an array.
    """

    shape: tuple[str | int, ...]
    low: float = -math.inf
    high: float = math.inf
    finite: bool = True
    kinds: str = "f"
    below: str = ""
    optional: bool = False


def values(*shape: str | int, **options: Any) -> Values:
    """Return the `Values` of that shape."""
    return Values(shape, **options)


def indices(size: str, below: str, low: int = 0) -> Values:
    """Return the `Values` of integers from `low` up to, but excluding, the size named `below`."""
    return Values((size,), low=low, kinds="iu", below=below)


def row_weights(size: str, low: float = 0.0, *, optional: bool = False) -> Values:
    """Return the `Values` of one weight per row."""
    return Values((size,), low=low, high=HEAVIEST, optional=optional)


@functools.cache
def rules_of(owner: Any) -> dict[str, Rule]:
    """Return the rules in the annotations of a function or a constructor, by the names of its arguments."""
    try:
        hints = get_type_hints(owner if isinstance(owner, FunctionType) else owner.__init__, include_extras=True)
    except Exception:  # annotations of users may be any text
        return {}
    found = {}
    for name, hint in hints.items():
        parts = get_args(hint)
        is_optional = parts[1:] == (type(None),)
        rule = getattr(parts[0] if is_optional else hint, "__metadata__", (None,))[0]
        if isinstance(rule, Rule):
            # None is checked first, because conditions may raise errors for it
            holds = (lambda value, rule=rule: value is None or rule.holds(value)) if is_optional else rule.holds
            found[name] = Rule(f"{rule.meaning} or None" if is_optional else rule.meaning, holds, rule.objects)
    return found


def violations(owner: Any, place: str = "") -> Iterator[tuple[str, Exception]]:
    """Yield the place and the error of each parameter that breaks its rule, also in the objects inside `owner`."""
    cls: Any = type(owner)
    for name, rule in rules_of(cls).items():
        value, inner = getattr(owner, name), f"{place}.{name}" if place else name
        try:
            holds = rule.holds(value)
        except (ArithmeticError, TypeError, ValueError) as error:
            yield inner, error
            continue
        if not holds:
            message = f"{cls.__name__}: {name} must be {rule.meaning}, got {shown(value)}."
            yield inner, ValueError(message)
        elif rule.objects:
            several = isinstance(value, (list, tuple))
            for number, part in enumerate(value if several else [value]):
                yield from violations(part, f"{inner}[{number}]" if several else inner)


def check_parameters(owner: Any) -> None:
    """Raise the error of the first parameter that breaks its rule."""
    for _, error in violations(owner):
        raise error


def check_arguments(function: Any, values: Mapping[str, Any]) -> None:
    """Raise ValueError for the first argument of a function that breaks its rule."""
    for name, rule in rules_of(function).items():
        if not rule.holds(values[name]):
            raise ValueError(f"{function.__name__}: {name} must be {rule.meaning}, got {shown(values[name])}.")


def shown(value: Any) -> str:
    """Return the value in a message, shortened if it is long."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = 200
    return short.repr(value)


def check_coverage(coverage: Any) -> None:
    if not (isinstance(coverage, Real) and 0 < float(coverage) < 1):
        raise ValueError(f"coverage must be between 0 and 1, got {coverage!r}: 0.9 stands for 90 %.")
