"""The schema of model files: what each attribute of a model, and each field of a record in it, may be.

Records and parameters bring their own rules, in annotated types; `check` interprets these types. Shapes of arrays are
written in symbols such as "rows": the first array binds a symbol in `sizes`, and later ones must agree. Sizes are
checked before the arrays, so that no check takes more time or memory than the size of the file justifies.
"""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import numpy as np
from sklearn.utils import Bunch

from .. import rules
from ..coding import CODINGS
from ..estimators import LSSVC
from ..intervals import ScaleChoice
from ..kernels import MOST_COLUMNS, MOST_KERNELS, Additive, Kernel, as_kernel
from ..losses import LOSSES
from ..problem import Fit, Problem, Step, Whitening
from ..robust import WeightFunction
from ..rules import MOST, Penalty, Rule, Values, indices, one_of, row_weights, values
from ..stream.sources import Sample
from ..stream.sums import LooSample, Stream
from ..tables import Column, Columns

Sizes = dict[str, int]
Check = Callable[[Any, str, Sizes], None]

MAY_BE_EMPTY = ("rank", "kept")  # a kernel of zeros; an additive model without inputs


def demand(true: Any, name: str) -> None:
    """Raise ValueError unless `true`."""
    if not true:
        raise ValueError(f"{name} is not valid in a model file.")


def check_model(model: Any) -> Any:
    """The model, after everything that was read was checked."""
    fitted = vars(model)
    sizes = _sizes(fitted)
    for name in [name for name in ATTRIBUTES if name in fitted]:
        check(fitted[name], ATTRIBUTES[name], name, sizes)
    for name in _required(model):
        demand(name in fitted, name)
    obeys_rules(model, "")
    demand(model.kernel is None or isinstance(model.kernel, Kernel), "kernel")
    for place, step in enumerate(model.steps or ()):
        demand(isinstance(step, Step), f"steps[{place}]")
    _check_members(model)
    return model


def _sizes(fitted: dict[str, Any]) -> Sizes:
    """The sizes that attributes determine, which are checked here."""
    features, single, kernel = (fitted[name] for name in ("n_features_in_", "_single_output_", "kernel_"))
    demand(isinstance(kernel, Kernel), "kernel_")
    demand(type(features) is int and 0 < features <= MOST, "n_features_in_")
    demand(type(single) is bool, "_single_output_")
    sizes = {"precomputed": int(kernel.is_precomputed), "table": features, "features": features, "single": int(single)}
    sizes.update({"outputs": 1, "slopes": 2} if single else {"slopes": 1})
    sizes.update({"rows": features} if kernel.is_precomputed else {})
    columns, classes = fitted.get("_columns_"), fitted.get("classes_")
    if columns is not None:
        check(columns, Columns, "_columns_", sizes)
        demand(len(columns.columns) == features and not kernel.is_precomputed, "_columns_")
        sizes["features"] = sum(column.width for column in columns.columns)  # all later sizes are of encoded columns
        demand(0 < sizes["features"] <= MOST_COLUMNS or columns.are_plain, "_columns_")
    sizes["coordinates"] = 1 if kernel.is_precomputed else sizes["features"]
    if classes is not None:
        found = isinstance(classes, np.ndarray) and classes.ndim == 1 and np.array_equal(np.unique(classes), classes)
        demand(found and len(classes) >= 2 and single == (len(classes) == 2), "classes_")
        sizes["classes"] = k = len(classes)
        outputs = k * (k - 1) // 2 if fitted.get("coding_") == "one-vs-one" else k
        sizes["outputs"] = 1 if single else outputs
    return sizes


def _check_members(model: Any) -> None:
    """Check the members of a stack, if the model is one: models of the same kind, with weights that sum to 1."""
    members = vars(model).get("members_")
    if members is None:
        return
    demand(len(members) == len(model.stack_weights_) and abs(model.stack_weights_.sum() - 1.0) < 1e-6, "stack_weights_")
    if model.kernel_.is_stack:
        demand(len(model.kernel_.parts) == len(members) > 1, "kernel_")
        demand(sum(one.weight > 0 for one in model.path_.members) == len(members) and "loo" in model.path_, "path_")
    for member in members:
        demand(
            type(member) is type(model) and not member.kernel_.is_stack and "members_" not in vars(member), "members_"
        )
        check_model(member)
        for name in ("n_features_in_", "_single_output_", "classes_"):
            own, other = (np.asarray(vars(each).get(name)) for each in (model, member))
            demand(np.array_equal(own, other), f"members_.{name}")
        demand(vars(member).get("_columns_") == vars(model).get("_columns_"), "members_._columns_")
        if not isinstance(model, LSSVC):
            demand(np.shape(member.intercept_) == np.shape(model.intercept_), "members_.intercept_")


def _required(model: Any) -> list[str]:
    """The attributes without which a method of the model would fail."""
    fitted = vars(model)
    loo = ["leverage_", "loo_residuals_", "loo_predictions_", "press_"]
    if model.kernel_.is_stack:
        names = ["n_features_in_", "_single_output_", "support_", "members_", "stack_weights_"]
        names += ["classes_"] if isinstance(model, LSSVC) else ["intercept_"]
        return names + (loo if "weights_" in fitted else [])
    names = ["n_features_in_", "support_vectors_", "_single_output_", "dual_coef_", "intercept_", "C_", "support_"]
    later = "_problem_" in fitted and "_fit_" not in fitted  # leave-one-out has not been computed yet
    if isinstance(model, LSSVC):
        names += ["classes_", "_class_factors_" if later else "_slopes_"]
    if isinstance(model.kernel_, Additive):
        names += ["active_", "max_variation_", "_component_means_"]
    squares = fitted.get("loss_", "squared") == "squared" and fitted.get("coding_") != "one-vs-one"
    if (model.kernel_.is_precomputed and squares and "path_" not in fitted) or not fitted.keys().isdisjoint(
        ("_problem_", "_fit_", "_searched_", "_searched_residuals_")
    ):
        names += ["_problem_", "weights_"]
    if "weights_" in fitted and not later:
        names += loo
    return names


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
        for field, relation in RELATIONS.get(hint, {}).items():
            demand(relation(value, sizes), f"{name}.{field}")
    elif hint in HINTS:
        check(value, HINTS[hint], name, sizes)
    else:
        demand(type(value) is hint, name)


@functools.cache
def hints_of(record: Any) -> dict[str, Any]:
    """The hint of each field of a record."""
    return {**get_type_hints(record, include_extras=True), **SPECIAL.get(record, {})}


def _check_array(value: Any, rule: Values, name: str, sizes: Sizes) -> None:
    """Check that this is an array with such a shape and such values."""
    shape = [symbol for symbol in rule.shape if symbol != "outputs?" or not sizes["single"]]
    if not shape:
        demand(type(value) is float, name)
        value = np.array(value)
    demand(isinstance(value, np.ndarray) and value.ndim == len(shape) and value.dtype.kind in rule.kinds, name)
    demand(rule.kinds != "f" or value.dtype == np.float64, name)
    for length, symbol in zip(value.shape, shape, strict=True):
        demand(length == sizes.setdefault(str(symbol).rstrip("?"), length), name)
        demand(length or symbol in MAY_BE_EMPTY, name)
    demand(not rule.finite or np.isfinite(value).all(), name)
    if math.isfinite(rule.low) or math.isfinite(rule.high):
        outside = (value < rule.low) | (value > rule.high)  # NaN is neither
        demand(not outside.any(), name)
    demand(value.max(initial=-1) < sizes.get(rule.below, MOST) if rule.below else True, name)
    if "coordinates" in shape and sizes["precomputed"]:  # column numbers
        demand(((value == np.floor(value)) & (value >= 0) & (value < sizes["features"])).all(), name)


def numeric(*dimensions: int, kinds: str = "biuf") -> Rule:
    """An array of numbers, of any size."""
    return Rule("numbers", lambda v: isinstance(v, np.ndarray) and v.ndim in dimensions and v.dtype.kind in kinds)


def optional(hint: Any) -> Check:
    """None, or what the hint says."""
    return lambda value, name, sizes: None if value is None else check(value, hint, name, sizes)


def sized(hint: Callable[[Sizes], Any]) -> Check:
    """A hint that depends on sizes."""
    return lambda value, name, sizes: check(value, hint(sizes), name, sizes)


# Kernels and weight functions -----------------------------------------------------------------------------------------
def obeys_rules(value: Any, name: str) -> None:
    """An object whose parameters obey their rules."""
    for place, _ in rules.violations(value, name):
        demand(False, place)


def weight_function(value: Any, name: str, sizes: Sizes) -> None:
    """A weight function."""
    demand(isinstance(value, WeightFunction), name)
    obeys_rules(value, name)
    value.check()


def requested_kernel(value: Any, name: str, sizes: Sizes) -> None:
    """A kernel for these inputs, whose widths may be left at None."""
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
    """A kernel that can be evaluated."""
    requested_kernel(value, name, sizes)
    demand(not value.is_free, name)
    if name == "kernel_" and isinstance(value, Additive):
        sizes["components"] = len(value.components(sizes["features"]))
        sizes["kept"] = sizes["components"] if value.active is None else len(set(value.active))


# Records of steps, and of the table -----------------------------------------------------------------------------------
def path(value: Any, name: str, sizes: Sizes) -> None:
    """The record of a step: see the documentation of its ``path_``."""
    demand(isinstance(value, Bunch), name)
    check(value, PATH, name, sizes)
    listed = [key for key in LISTED if value.get(key) is not None]
    if listed and listed[0] in ("sizes", "rho", "zeta"):
        demand("chosen" in value and len(listed) > 1, f"{name}['chosen']")
        for key in listed:
            demand(len(value[key]) == len(value[listed[0]]), f"{name}[{key!r}]")
    demand("sizes" not in value or type(value["chosen"]) is int, f"{name}['chosen']")
    for key in ("members", "candidates"):
        for one in value.get(key, ()):
            _has(one, NEEDED[key], f"{name}[{key!r}]")


def _has(value: Bunch, keys: tuple[str, ...], name: str) -> None:
    """Check that a record has these entries."""
    for key in keys:
        demand(value.get(key) is not None, f"{name}[{key!r}]")


def paths(value: Any, name: str, sizes: Sizes) -> None:
    """The records of the steps, by their names."""
    check(value, {}, name, sizes)
    for step, recorded in value.items():
        path(recorded, f"{name}[{step!r}]", sizes)
        _has(recorded, NEEDED.get(step, ()), f"{name}[{step!r}]")


def table(value: Any, name: str, sizes: Sizes) -> None:
    """Information about the table or the data, from the command line or the user."""
    check(value, TABLE, name, sizes)
    demand("task" not in value or (value["task"] == "classification") == ("classes" in sizes), f"{name}['task']")


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


HINTS: dict[Any, Any] = {int: rules.integer("a count", 0), Kernel: fitted_kernel, WeightFunction: weight_function}
SPECIAL: dict[type, dict[str, Any]] = {  # fields that are more special than their types
    Problem: {"fitted": type(None), "asked": optional((requested_kernel, Penalty | None)), "paths": paths},
    Column: {
        "name": Rule("text or any integer", lambda value: type(value) in (str, int)),
        "values": Rule("distinct values", lambda value: isinstance(value, tuple) and _are_values(value)),
    },
    Sample: {
        "arrays": (values("sampled", "features"), values("sampled", "outputs"), row_weights("sampled", rules.TINY))
    },
}
RELATIONS: dict[type, dict[str, Callable[[Any, Sizes], Any]]] = {  # between the fields of a record
    Problem: {
        "C": lambda problem, sizes: problem.C is not None,
        "weights": lambda problem, sizes: (problem.weights > 0).any(),
        "classification": lambda problem, sizes: problem.classification == ("classes" in sizes),
        "points": lambda problem, sizes: problem.points is None or not sizes["precomputed"],
        "groups": lambda problem, sizes: problem.groups is None or _are_inputs(problem.groups),
        "coefficients": lambda problem, sizes: _fit_basis(problem),
    },
    Column: {
        "values": lambda column, sizes: (column.kind in ("category", "ranks")) == (len(column.values) > 0),
        "height": lambda column, sizes: column.height == 0.0 or column.kind in ("number", "ranks"),
        "missing": lambda column, sizes: column.kind == "category" or not (column.missing or column.pooled),
    },
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

# The schema -----------------------------------------------------------------------------------------------------------
LABELS = values("rows", kinds="biufMmSOUT", finite=False)
CODING, LOSS = one_of(*CODINGS), one_of(*LOSSES)
RATE = Rule("a number or NaN", lambda value: type(value) in (int, float) and not value < 0)
PLACE = rules.integer("a size", 0) | Rule("a penalty", lambda value: type(value) is float and value >= 0)
PLACES = Rule(  # on a path
    "sizes or penalties", lambda value: all(map(PLACE.holds, value if isinstance(value, list) else [value]))
)
SECONDS = Rule("seconds", lambda v: isinstance(v, dict) and all(type(s) in (int, float) and s >= 0 for s in v.values()))
VECTOR, INTEGERS = numeric(1), numeric(1, kinds="iu")
SEARCHED = (values("rows", kinds="i"), values("rows", "outputs", finite=False))

PATH: dict[str, Any] = {  # records of the steps
    **{"evaluations": int, "plan": [str], "free": [bool], "C": Penalty | None},
    **dict.fromkeys(("loo", "error_rate", "score"), RATE),
    "widths": [rules.numbers("widths", 0, 1, above=0.0, finite=False)],
    "shifts": rules.numbers("numbers", 1),
    **dict.fromkeys(("sizes", "support"), INTEGERS),
    **dict.fromkeys(("errors", "zeta", "rho", "intercept"), VECTOR),
    **{"supports": [INTEGERS], "kept": [INTEGERS]},
    **{"scores": optional(numeric(1, 2)), "coef": numeric(2), "max_variation": numeric(2, 3)},
    "chosen": PLACES,
    "outputs": [path],
    "gain": rules.number("a gain", -rules.LARGEST),
    **{"members": [path], "candidates": [path]},  # what a stack or a search compared, with the next entries each
    **{"kernel": fitted_kernel, "weight": rules.number("a share", 0.0, 1.0), "coding": CODING, "loss": LOSS},
}
NEEDED = {
    **dict.fromkeys(("KFold", "Holdout", "LeaveBlockOut"), ("score", "shifts")),
    "members": ("kernel", "C", "loo", "weight"),
    "candidates": ("kernel", "C", "loo", "coding", "loss"),
}
LISTED = ("sizes", "rho", "zeta", "scores", "errors", "supports", "max_variation", "kept", "coef", "intercept")
TABLE: dict[str, Any] = {  # see `report.to_html`
    **dict.fromkeys(("target", "source", "model"), str),
    "task": one_of("regression", "classification"),
    **{"row": int, "dropped": [int], "warnings": [str], "seconds": SECONDS},
}
ATTRIBUTES: dict[str, Any] = {  # in this order: attributes that bind sizes come first, others in `_sizes` before them
    "support_vectors_": values("basis", "coordinates"),
    "coding_": CODING,
    "loss_": LOSS,
    "dual_coef_": values("basis", "outputs?"),
    "intercept_": values("outputs?", low=-rules.LARGEST, high=rules.LARGEST),
    "C_": Penalty,
    "kernel_": fitted_kernel,
    "members_": Rule("models", lambda value: type(value) is list and 0 < len(value) <= MOST_KERNELS),
    "stack_weights_": values("members", low=0.0),
    "feature_names_in_": values("table", kinds="OUT", finite=False),
    "weights_": row_weights("rows"),
    "support_": optional(indices("basis", "rows")),
    "_sample_weight_": optional(row_weights("rows")),
    "leverage_": values("rows", finite=False),
    "loo_residuals_": sized(
        lambda sizes: values("rows", "classes" if sizes.get("classes", 0) > 2 else "outputs?", finite=False)
    ),
    "loo_predictions_": sized(
        lambda sizes: optional(LABELS) if "classes" in sizes else values("rows", "outputs?", finite=False)
    ),
    "press_": float,
    "_slopes_": values("slopes"),
    "_codes_": indices("rows", "classes"),
    "_class_factors_": sized(lambda sizes: (rules.NotNegative,) * sizes["classes"]),
    "active_": indices("kept", "components"),
    "max_variation_": sized(lambda sizes: values("components", *["outputs"] * (sizes["outputs"] > 1))),
    "_component_means_": values("components", "outputs"),
    "path_": optional(path),
    "table_": table,
    "_problem_": Problem,
    "_fit_": Fit,
    **dict.fromkeys(("_searched_", "_searched_residuals_"), SEARCHED),  # the first: of version 0.1, without signs
    **dict.fromkeys(("_scale_choice_", "_searched_scale_choice_"), ScaleChoice),
    "_stream_": Stream,
    "_sample_": LooSample,
}
