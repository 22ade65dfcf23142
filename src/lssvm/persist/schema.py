"""The schema of model files: what each parameter of a model, and each field of a record in it, may be.

Records and parameters bring their own rules, in annotated types; `check` interprets these types. Shapes of arrays are
written in symbols such as "rows": the first array binds a symbol in `sizes`, and later ones must agree. Sizes are
checked before the arrays, so that no check takes more time or memory than the size of the file justifies.
"""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import numpy as np
from sklearn.utils import Bunch

from .. import rules
from ..coding import CODINGS
from ..estimators import LSSVC, LSSVR
from ..estimators.fitted import FittedModel, Member
from ..estimators.layout import Layout
from ..intervals import ScaleChoice
from ..kernels import MOST_COLUMNS, MOST_KERNELS, Additive, Kernel, as_kernel
from ..losses import LOSSES
from ..problem import Fit, Problem, Step, Whitening
from ..robust import WeightFunction
from ..rules import MOST, TINY, Penalty, Rule, Values, one_of, row_weights, values
from ..stream.sources import Sample
from ..stream.sums import LooSample, Stream
from ..system import Moments
from ..tables import CYCLES, Column, Columns, Format
from ..targets import TargetScale

Sizes = dict[str, int]
Check = Callable[[Any, str, Sizes], None]


def demand(true: Any, name: str) -> None:
    """Raise ValueError unless `true`."""
    if not true:
        raise ValueError(f"{name} is not valid.")


def check_model(model: Any, fitted: FittedModel, own: dict[str, Any]) -> None:
    """Check the parameters of an unfitted model, what it has learned, and attributes that users have added."""
    demand(isinstance(model, (LSSVR, LSSVC)), "model")
    obeys_rules(model, "")
    demand(model.kernel is None or isinstance(model.kernel, Kernel), "kernel")
    for place, step in enumerate(model.steps or ()):
        demand(isinstance(step, Step), f"steps[{place}]")
    demand((fitted.layout.classes is not None) == isinstance(model, LSSVC), "members[0].layout.classes")
    sizes: Sizes = {}
    check(fitted, FittedModel, "fitted", sizes)
    for name in OWN.keys() & own.keys():
        check(own[name], OWN[name], name, sizes)


def members(value: tuple[Member, ...], name: str, sizes: Sizes) -> None:
    """Check the models of a stack with the same rows, after the sizes that their layouts and kernels determine."""
    demand(len(value) <= MOST_KERNELS, name)  # before any work
    for place, member in enumerate(value):
        layout, kernel, own = member.layout, member.fit.kernel, f"{name}[{place}]"
        demand(isinstance(kernel, Kernel), f"{own}.fit.kernel")
        known = {symbol: size for symbol, size in sizes.items() if symbol == "rows"}
        sizes.clear()
        d, k = layout.n_features, layout.outputs
        sizes |= {**known, "precomputed": int(kernel.is_precomputed), "table": d, "slopes": 2 if layout.single else 1}
        check(layout, Layout, f"{own}.layout", sizes)
        sizes["features"] = d if layout.columns is None else sum(column.width for column in layout.columns.columns)
        sizes |= {"targets": k, "outputs": k * (k - 1) // 2 if member.by_pairs and k > 1 else k}
        sizes |= {"coordinates": 1, "rows": d} if kernel.is_precomputed else {"coordinates": sizes["features"]}
        demand(np.shape(member.fit.points)[1:] == (sizes["coordinates"],), f"{own}.fit.points")
        check(member, Member, own, sizes)


# Types ----------------------------------------------------------------------------------------------------------------
def check(value: Any, hint: Any, name: str, sizes: Sizes) -> None:
    """Raise ValueError, or another error that `load` reports as one, unless the value is what the hint says.

    A hint is a type, which may be annotated, a `Rule`, the `Values` of an array, a dict with hints for entries that a
    dict may have, a list with the hint for all items, a tuple with one hint per item, or a function of the other
    arguments.
    """
    origin, parts = get_origin(hint), get_args(hint)
    if isinstance(hint, Rule):
        demand(hint.holds(value), name)
    elif isinstance(hint, Values):
        _check_array(value, hint, name, sizes)
    elif isinstance(hint, dict):
        demand(isinstance(value, dict) and all(isinstance(key, str) for key in value), name)
        for key in [key for key in hint if key in value]:
            check(value[key], hint[key], f"{name}[{key!r}]", sizes)
    elif isinstance(hint, types.FunctionType):
        hint(value, name, sizes)
    elif origin is Annotated:
        demand(isinstance(parts[1], Values) or type(value) is parts[0], name)
        check(value, parts[1], name, sizes)
    elif origin in (Union, types.UnionType):
        check(value, type(value) if type(value) in parts else parts[0], name, sizes)
    elif origin is tuple:
        demand(isinstance(value, tuple), name)
        check(value, [parts[0]] if parts[1:] == (...,) else parts, name, sizes)
    elif isinstance(hint, (list, tuple)):
        demand(isinstance(value, (list, tuple)) and (isinstance(hint, list) or len(hint) == len(value)), name)
        for place, item in enumerate(value):
            check(item, hint[0 if isinstance(hint, list) else place], f"{name}[{place}]", sizes)
    elif hasattr(hint, "__dataclass_fields__"):
        demand(type(value) is hint, name)
        for field, own in hints_of(hint).items():
            check(getattr(value, field), own, f"{name}.{field}", sizes)
        for record, field, relation in RELATIONS:
            demand(record is not hint or relation(value, sizes), f"{name}.{field}")
    elif hint in HINTS:
        check(value, HINTS[hint], name, sizes)
    else:
        demand(type(value) is hint, name)


@functools.cache
def hints_of(record: Any) -> dict[str, Any]:
    """Return the hint of each field of a record."""
    return {**get_type_hints(record, include_extras=True), **SPECIAL.get(record, {})}


def _check_array(value: Any, rule: Values, name: str, sizes: Sizes) -> None:
    """Check that this is an array with such a shape and such values."""
    if value is None and rule.optional:
        return
    shape = [symbol for symbol in rule.shape if symbol != "outputs?" or sizes["outputs"] > 1]
    demand(isinstance(value, np.ndarray) and value.ndim == len(shape) and value.dtype.kind in rule.kinds, name)
    demand(rule.kinds != "f" or value.dtype == np.float64, name)
    for length, symbol in zip(value.shape, shape, strict=True):
        demand(length == sizes.setdefault(str(symbol).rstrip("?"), length), name)
        demand(length or symbol == "rank", name)  # 0: a kernel of zeros
    demand(not rule.finite or np.isfinite(value).all(), name)
    if math.isfinite(rule.low) or math.isfinite(rule.high):
        outside = (value < rule.low) | (value > rule.high)  # NaN is neither
        demand(not outside.any(), name)
    demand(value.max(initial=-1) < sizes.get(rule.below, MOST) if rule.below else True, name)
    if "coordinates" in shape and sizes["precomputed"]:  # column numbers
        demand(((value == np.floor(value)) & (value >= 0) & (value < sizes["features"])).all(), name)


def numeric(*dimensions: int, kinds: str = "biuf") -> Rule:
    """Return the rule of an array of numbers of any size."""
    return Rule("numbers", lambda v: isinstance(v, np.ndarray) and v.ndim in dimensions and v.dtype.kind in kinds)


def optional(hint: Any) -> Check:
    """Return the check of a value that is None or what the hint says."""
    return lambda value, name, sizes: None if value is None else check(value, hint, name, sizes)


# Kernels and weight functions -----------------------------------------------------------------------------------------
def obeys_rules(value: Any, name: str) -> None:
    """Check an object whose parameters must obey their rules."""
    for place, _ in rules.violations(value, name):
        demand(False, place)


def weight_function(value: Any, name: str, sizes: Sizes) -> None:
    """Check a weight function."""
    demand(isinstance(value, WeightFunction), name)
    obeys_rules(value, name)
    value.check()


def requested_kernel(value: Any, name: str, sizes: Sizes) -> None:
    """Check a kernel for these inputs, whose widths may be left at None."""
    demand(isinstance(value, Kernel), name)
    obeys_rules(value, name)
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
    """Check a kernel that can be evaluated."""
    requested_kernel(value, name, sizes)
    demand(not value.is_free, name)
    if isinstance(value, Additive):
        sizes.setdefault("components", len(value.components(sizes["features"])))  # of the kernel of the fit


# Records of steps, and of the table -----------------------------------------------------------------------------------
def path(value: Any, name: str, sizes: Sizes, needed: Sequence[str] = ()) -> None:
    """Check the record of a step with the `needed` entries: see the documentation of its ``path_``."""
    demand(isinstance(value, Bunch), name)
    check(value, PATH, name, sizes)
    for key in needed:
        demand(value.get(key) is not None, f"{name}[{key!r}]")
    listed = [key for key in LISTED if value.get(key) is not None]
    if listed and listed[0] in ("sizes", "rho", "zeta"):
        demand("chosen" in value and len(listed) > 1, f"{name}['chosen']")
        for key in listed:
            demand(len(value[key]) == len(value[listed[0]]), f"{name}[{key!r}]")
    demand("sizes" not in value or type(value["chosen"]) is int, f"{name}['chosen']")


def paths(value: Any, name: str, sizes: Sizes) -> None:
    """Check the records of the steps, by their names."""
    check(value, {}, name, sizes)
    for step, recorded in value.items():
        splits = step in ("KFold", "Holdout", "LeaveBlockOut")
        path(recorded, f"{name}[{step!r}]", sizes, ("score", "shifts") if splits else ())


def compared(*needed: str) -> Check:
    """Return the check of the record of a kernel that a stack or a search has compared."""
    return lambda value, name, sizes: path(value, name, sizes, ("kernel", "C", "loo", *needed))


def table(value: Any, name: str, sizes: Sizes) -> None:
    """Check information about the table or the data, from the command line or the user."""
    check(value, TABLE, name, sizes)
    demand("task" not in value or (value["task"] == "classification") == ("classes" in sizes), f"{name}['task']")


# What types alone do not say ------------------------------------------------------------------------------------------
def _are_values(found: Any) -> bool:
    """Return whether these are distinct values of a category: text, or finite numbers."""
    text = all(type(item) is str for item in found)
    plain = text or all(type(item) in (bool, int, float) and math.isfinite(item) for item in found)
    return plain and len(set(found)) == len(found)


def _are_columns(columns: Columns, sizes: Sizes) -> bool:
    """Return whether these are the columns of the table, and few enough."""
    few = columns.are_plain or 0 < sum(column.width for column in columns.columns) <= MOST_COLUMNS
    return len(columns.columns) == sizes["table"] and few and not sizes["precomputed"]


def _are_classes(layout: Layout) -> bool:
    """Return whether there are distinct, sorted classes, of which two share one output, or none."""
    if layout.classes is None:
        return layout.outputs == 1 or not layout.single
    k = len(layout.classes)
    expected = (True, 1) if k == 2 else (False, k)
    return np.array_equal(np.unique(layout.classes), layout.classes) and (layout.single, layout.outputs) == expected


def _is_scale(target: TargetScale, problem: Problem | None, sizes: Sizes) -> bool:
    """Return whether this is the scale of a regression with the targets of the problem."""
    same, signs = problem is None or problem.target is not None, np.sign(target.unit)
    is_map = signs.all() and np.array_equal(signs, np.sign(target.spread)) and (target.low <= target.high).all()
    return same and target.quantiles is not None and "classes" not in sizes and bool(is_map)


def _are_members(fitted: FittedModel) -> bool:
    """Return whether the record of a stack lists its members."""
    found = fitted.stack_path or Bunch()
    listed = sum(one.weight > 0 for one in found.get("members", ()))
    return not fitted.is_stack or (fitted.is_listed and "loo" in found and listed == len(fitted.members))


PENALTY = Penalty | None
COUNT = rules.integer("a count", 0)
HINTS: dict[Any, Any] = {int: COUNT, Kernel: fitted_kernel, WeightFunction: weight_function, Bunch: path}
SPECIAL: dict[type, dict[str, Any]] = {  # fields that are more special than their types
    Problem: {"fitted": type(None), "C": Penalty, "paths": paths, "asked": optional((requested_kernel, PENALTY))},
    Member: {"asked": (optional(requested_kernel), PENALTY)},
    FittedModel: {"members": members},
    Stream: {"moments": Moments},
    Column: {
        "name": Rule("text or any integer", lambda value: type(value) in (str, int)),
        "cycles": Rule("names of cycles", lambda value: isinstance(value, tuple) and set(value) <= set(CYCLES)),
        "values": Rule("distinct values", lambda value: isinstance(value, tuple) and _are_values(value)),
    },
    Sample: {"arrays": (values("sampled", "features"), values("sampled", "outputs"), row_weights("sampled", TINY))},
}
RELATIONS: list[tuple[type, str, Callable[[Any, Sizes], Any]]] = [  # between the fields of a record
    (Problem, "weights", lambda problem, sizes: (problem.weights > 0).any()),
    (Problem, "classification", lambda problem, sizes: problem.classification == ("classes" in sizes)),
    (Problem, "points", lambda problem, sizes: problem.points is None or not sizes["precomputed"]),
    (Problem, "coefficients", lambda problem, sizes: len((problem.coefficients or [[]])[0]) in (0, problem.basis_size)),
    (Column, "values", lambda column, sizes: (column.kind in ("category", "ranks")) == (len(column.values) > 0)),
    (Column, "height", lambda column, sizes: column.height == 0.0 or column.kind in ("number", "time", "ranks")),
    (Column, "format", lambda column, sizes: column.kind in ("number", getattr(column.format, "kind", column.kind))),
    (Column, "cycles", lambda column, sizes: column.kind == "time" or not (column.cycles or column.zone)),
    (Column, "missing", lambda column, sizes: column.kind == "category" or not (column.missing or column.pooled)),
    (Fit, "weights", lambda fit, sizes: fit.loo_residuals is None if fit.weights is None else (fit.weights > 0).any()),
    (Fit, "leverage", lambda fit, sizes: (fit.leverage is None) == (fit.loo_residuals is None)),
    (Layout, "columns", lambda layout, sizes: layout.columns is None or _are_columns(layout.columns, sizes)),
    (Layout, "classes", lambda layout, sizes: _are_classes(layout)),
    (Member, "problem", lambda member, sizes: member.problem is None or member.fit.weights is not None),
    (Member, "problem.groups", lambda own, _: not own.problem or np.array_equal(own.problem.groups, own.layout.groups)),
    (Member, "targets", lambda member, sizes: member.fit.loo_residuals is None or member.targets is not None),
    (Member, "target", lambda own, sizes: own.target is None or _is_scale(own.target, own.problem, sizes)),
    (Member, "component_means", lambda member, sizes: (member.component_means is None) == ("components" not in sizes)),
    (Member, "max_variation", lambda member, sizes: (member.max_variation is None) == ("components" not in sizes)),
    (FittedModel, "shares", lambda fitted, sizes: len(fitted.shares) == len(fitted.members)),
    (FittedModel, "shares", lambda fitted, sizes: abs(sum(fitted.shares) - 1.0) < 1e-6),
    (FittedModel, "stack_path", lambda fitted, sizes: _are_members(fitted)),
    (Whitening, "owner", lambda whitening, sizes: (whitening.factor is None) == (whitening.owner is None)),
    (Whitening, "points", lambda whitening, sizes: whitening.factor is not None or sizes["rank"] == sizes["basis"]),
    (Stream, "sample", lambda stream, sizes: stream.sample is None or sizes["sampled"] <= stream.rows),
    (ScaleChoice, "uneven", lambda choice, sizes: len(choice.uneven) == sizes["outputs"]),
    (LooSample, "steps", lambda sample, sizes: len(sample.steps) in (1, 2)),
    (LooSample, "total", lambda sample, sizes: sizes["sampled"] <= sample.total),
]

# The schema -----------------------------------------------------------------------------------------------------------
CODING, LOSS = one_of(*CODINGS), one_of(*LOSSES)
RATE = Rule("a number or NaN", lambda value: type(value) in (int, float) and not value < 0)
SECONDS = Rule("seconds", lambda v: isinstance(v, dict) and all(type(s) in (int, float) and s >= 0 for s in v.values()))
VECTOR, INTEGERS = numeric(1), numeric(1, kinds="iu")

PATH: dict[str, Any] = {  # records of the steps
    **{"evaluations": int, "plan": [str], "free": [bool], "C": PENALTY},
    **dict.fromkeys(("loo", "error_rate", "score"), RATE),
    "widths": [rules.numbers("widths", 0, 1, above=0.0, finite=False)],
    "shifts": rules.numbers("numbers", 1),
    **dict.fromkeys(("sizes", "support"), INTEGERS),
    **dict.fromkeys(("errors", "zeta", "rho", "intercept"), VECTOR),
    **{"supports": [INTEGERS], "kept": [INTEGERS]},
    **{"scores": optional(numeric(1, 2)), "coef": numeric(2), "max_variation": numeric(2, 3)},
    "chosen": rules.numbers("sizes or penalties", 0, 1, above=-TINY),
    "outputs": [path],
    "gain": rules.number("a gain", -rules.LARGEST),
    **{"members": [compared("weight")], "candidates": [compared("coding", "loss")]},
    **{"kernel": fitted_kernel, "weight": rules.number("a share", 0.0, 1.0), "coding": CODING, "loss": LOSS},
}
LISTED = ("sizes", "rho", "zeta", "scores", "errors", "supports", "max_variation", "kept", "coef", "intercept")
TABLE: dict[str, Any] = {  # information about the fit, for `report.to_html`
    **dict.fromkeys(("target", "source", "model", "group"), str),
    "task": one_of("regression", "classification", "count"),
    **{"row": int, "dropped": [int], "warnings": [str], "seconds": SECONDS, "format": Format, "na": [str]},
}
OWN: dict[str, Any] = {"table_": table, "press_": float}  # attributes that are not in the record; the second: of Dask
