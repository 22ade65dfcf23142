"""The schema of model files: a rule for each attribute of a model, field of a record and parameter of an object.

One long file, because it is one table, read from top to bottom.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from .. import kernels, robust, sparsify, tune
from ..coding import CODINGS
from ..estimators import LSSVC, LSSVR
from ..intervals import ScaleChoice
from ..kernels import Kernel, as_kernel
from ..losses import LOSSES
from ..problem import Fit, Problem, Step, Whitening
from ..robust import WeightFunction
from ..stream import LooSample, Sample, Stream
from ..system import Moments
from ..tables import LARGEST, Column, Columns
from .rules import (
    MOST,
    Rule,
    Sizes,
    array,
    by_output,
    demand,
    either,
    entries,
    indices,
    items,
    labels,
    number,
    numbers,
    option,
    optional,
    pack,
    points,
    sized,
    test,
    values_of,
)

TINY, BELOW_ONE = math.ulp(0.0), math.nextafter(1.0, 0.0)
MOST_COLUMNS = 2**17  # in all groups of an additive kernel combined
MOST_PARTS = 100  # steps, or kernels of a Choice or Stack
MOST_KNOTS = 10_000  # of a spline, with cubic work in every prediction
HEAVIEST = 1e200  # a sample weight times a class weight, as `fit` accepts them
MOST_ITERATIONS = 10**6  # of robust weights, which intervals may repeat


def check_model(model: Any) -> None:
    """Check everything that was read. Sizes come first, so that no check takes more time or memory than the file size
    justifies.
    """
    fitted = vars(model)
    demand(type(fitted["kernel_"]) in PARAMETERS and isinstance(fitted["kernel_"], Kernel), "kernel_")
    sizes = {"precomputed": int(fitted["kernel_"].is_precomputed)}
    for name, rule in ATTRIBUTES.items():
        if name in fitted:
            rule(fitted[name], name, sizes)
    for name in _required(model):
        demand(name in fitted, name)
    _check_parameters(model, "", sizes)
    _check_members(model)


def _check_members(model: Any) -> None:
    """Check the members of a stack, if the model is one: models of the same kind, with weights that sum to 1."""
    members = vars(model).get("members_")
    if members is None:
        return
    demand(len(members) == len(model.stack_weights_) and abs(model.stack_weights_.sum() - 1.0) < 1e-6, "stack_weights_")
    demand(not model.kernel_.is_stack or len(model.kernel_.parts) == len(members) > 1, "kernel_")
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
    if isinstance(model.kernel_, kernels.Additive):
        names += ["active_", "max_variation_", "_component_means_"]
    squares = fitted.get("loss_", "squared") == "squared" and fitted.get("coding_") != "one-vs-one"
    if (model.kernel_.is_precomputed and squares and "path_" not in fitted) or not fitted.keys().isdisjoint(
        ("_problem_", "_fit_", "_searched_", "_searched_residuals_")
    ):
        names += ["_problem_", "weights_"]
    if "weights_" in fitted and not later:
        names += loo
    return names


# Rules ----------------------------------------------------------------------------------------------------------------
def record(cls: type) -> Rule:
    """A record whose fields obey their rules, and whose relations hold."""

    def check(value: Any, name: str, sizes: Sizes) -> None:
        demand(type(value) is cls, name)
        for field, rule in RECORDS[cls].items():
            rule(getattr(value, field), f"{name}.{field}", sizes)
        for field, relation in RELATIONS.get(cls, {}).items():
            demand(relation(value, sizes), f"{name}.{field}")

    return check


def instance(base: type) -> Rule:
    """A kernel, step or weight function whose parameters obey their rules."""

    def check(value: Any, name: str, sizes: Sizes) -> None:
        demand(isinstance(value, base) and type(value) in PARAMETERS, name)
        _check_parameters(value, name, sizes)
        if isinstance(value, Kernel):
            as_kernel(value)
        if isinstance(value, WeightFunction):
            value.check()

    return check


def _check_parameters(value: Any, name: str, sizes: Sizes) -> None:
    for parameter, rule in PARAMETERS[type(value)].items():
        rule(getattr(value, parameter), f"{name}.{parameter}".lstrip("."), sizes)


def asked_kernel(value: Any, name: str, sizes: Sizes) -> None:
    """A kernel for these inputs, whose widths may be left at None."""
    KERNEL(value, name, sizes)
    demand(value.is_precomputed == bool(sizes["precomputed"]), name)
    parts = [value]
    for part in parts:
        parts += part.parts
        if not part.is_free:
            part.check(sizes["features"])
        if isinstance(part, kernels.Additive):
            demand(all(len(group) <= sizes["features"] for group in part.components(sizes["features"])), name)


def fitted_kernel(value: Any, name: str, sizes: Sizes) -> None:
    """A kernel that can be evaluated."""
    asked_kernel(value, name, sizes)
    demand(not value.is_free, name)
    if name == "kernel_" and isinstance(value, kernels.Additive):
        sizes["components"] = len(value.components(sizes["features"]))
        sizes["kept"] = sizes["components"] if value.active is None else len(set(value.active))


def _features(value: Any, name: str, sizes: Sizes) -> None:
    COUNT(value, name, sizes)
    sizes["features"] = sizes["table"] = value


def _columns(value: Any, name: str, sizes: Sizes) -> None:
    """How the columns of a table are encoded; all later sizes are those of the encoded columns."""
    record(Columns)(value, name, sizes)
    demand(len(value.columns) == sizes["table"] and not sizes["precomputed"], name)
    sizes["features"] = sum(column.width for column in value.columns)
    demand(0 < sizes["features"] <= MOST_COLUMNS or value.are_plain, name)


def _single_output(value: Any, name: str, sizes: Sizes) -> None:
    TRUTH(value, name, sizes)
    sizes["single"] = value
    sizes.update({"outputs": 1} if value else {})


def _classes(value: Any, name: str, sizes: Sizes) -> None:
    demand(isinstance(value, np.ndarray) and value.ndim == 1 and np.array_equal(np.unique(value), value), name)
    sizes["classes"] = len(value)
    demand(len(value) >= 2 and sizes["single"] == (len(value) == 2), name)
    outputs = len(value) * (len(value) - 1) // 2 if sizes.get("pairs") else len(value)
    demand(sizes["single"] or sizes.setdefault("outputs", outputs) == outputs, name)


def _coding(value: Any, name: str, sizes: Sizes) -> None:
    option(*CODINGS)(value, name, sizes)
    sizes["pairs"] = int(value == "one-vs-one")


def _groups(value: Any) -> bool:
    if not isinstance(value, (list, tuple, np.ndarray)) or not 0 < len(value) <= MOST_COLUMNS:
        return False
    groups = [np.asarray(group) for group in value]
    return all(g.dtype.kind in "iu" and g.ndim <= 1 for g in groups) and sum(g.size for g in groups) <= MOST_COLUMNS


def _are_inputs(value: Any) -> bool:
    """Whether numbers of inputs ascend from 0 without gaps."""
    return bool(value[0] == 0 and np.isin(np.diff(value.astype(np.int64)), (0, 1)).all())


def _are_values(value: Any) -> bool:
    """Whether these are distinct values of a category: text, or finite numbers."""
    text = all(type(item) is str for item in value)
    plain = text or all(type(item) in (bool, int, float) and math.isfinite(item) for item in value)
    return plain and len(set(value)) == len(value)


def _is_column(column: Column, sizes: Sizes) -> bool:
    if column.kind in ("category", "ranks"):
        return len(column.values) > 0
    return not column.values


def _knots(value: Any, name: str, sizes: Sizes) -> None:
    demand(np.ndim(value) and len(value) <= MOST_KNOTS, name)
    numbers(1, 2)(value, name, sizes)


def _is_class_weight(value: Any) -> bool:
    if isinstance(value, str):
        return value == "balanced"
    return isinstance(value, dict) and all(type(w) in (bool, int, float) and 0 <= w < 1e100 for w in value.values())


def path(value: Any, name: str, sizes: Sizes) -> None:
    """The record of a step: see the documentation of its ``path_``."""
    entries(PATH, Bunch)(value, name, sizes)
    for first, *others in LISTED:
        if first in value:
            entries({}, Bunch, needed=("chosen",))(value, name, sizes)
            demand(any(key in value for key in others), name)
            for key in others:
                demand(value.get(key) is None or len(value[key]) == len(value[first]), f"{name}[{key!r}]")
    demand("sizes" not in value or type(value["chosen"]) is int, f"{name}['chosen']")


def paths(value: Any, name: str, sizes: Sizes) -> None:
    """The records of the steps, by their names."""
    entries({})(value, name, sizes)
    for step, recorded in value.items():
        path(recorded, f"{name}[{step!r}]", sizes)
        needed = ("score", "shifts") if step in ("KFold", "Holdout", "LeaveBlockOut") else ()
        entries({}, Bunch, needed=needed)(recorded, f"{name}[{step!r}]", sizes)


def table(value: Any, name: str, sizes: Sizes) -> None:
    """Information about the table or the data, from the command line or the user."""
    entries(TABLE)(value, name, sizes)
    demand("task" not in value or (value["task"] == "classification") == ("classes" in sizes), f"{name}['task']")


# The schema -----------------------------------------------------------------------------------------------------------
FLAG = test(lambda value: value is None or type(value) in (bool, int))
TRUTH = test(lambda value: type(value) is bool)
NOTHING = test(lambda value: value is None)
COUNT = number(1, MOST, int)
SHARE, OPEN_SHARE = number(0.0, BELOW_ONE), number(TINY, BELOW_ONE)
POSITIVE = number(TINY)
SEED = optional(either(number(0, 2**32 - 1, int), test(lambda value: isinstance(value, np.random.RandomState))))
C = number(1e-300, 1e300, float)
WEIGHT_SUM = number(TINY, 1e300, float)
WIDTH = optional(numbers(0, 1, above=0.0, finite=False))  # inf: the column is dropped
ROW_NUMBERS = numbers(1, above=-1, kinds="iu")
ACTIVE = optional(either(test(lambda value: np.shape(value) == (0,)), ROW_NUMBERS))
VALIDATION, FOLDS = either(OPEN_SHARE, ROW_NUMBERS), number(2, MOST, int)
LABELS = test(lambda value: isinstance(value, (list, tuple, np.ndarray)) and np.ndim(value) == 1)
KERNEL, STEP, WEIGHTING = instance(Kernel), instance(Step), instance(WeightFunction)
ROBUST = {"scale": option("iqr", "mad"), "iterations": number(1, MOST_ITERATIONS, int)}
ROW_WEIGHTS = array("rows", least=0.0, most=HEAVIEST)
TEXT = test(lambda value: isinstance(value, str))
TEXTS, PLACES = items(TEXT), items(number(0, MOST, int))
LOSS = test(lambda value: type(value) in (int, float) and not value < 0)  # NaN if unknown
PLACE = number(0.0, math.inf)  # on a path
SAMPLE_WEIGHTS = array("sampled", least=TINY, most=HEAVIEST)
SEARCHED = pack(array("rows", kinds="i"), array("rows", "outputs", finite=False))

PARAMETERS: dict[type, dict[str, Rule]] = {
    kernels.RBF: {"sigma": WIDTH, "ard": FLAG},
    kernels.Matern: {"sigma": WIDTH, "nu": option(0.5, 1.5, 2.5), "ard": FLAG},
    kernels.Linear: {},
    kernels.Polynomial: {"degree": number(1, 2**31, int), "coef0": number(0.0, 1e300, bool, int, float)},
    kernels.Spline: {"knots": optional(either(number(2, MOST_KNOTS, int), _knots))},
    kernels.Additive: {"kernel": KERNEL, "groups": optional(test(_groups)), "active": ACTIVE},
    kernels.Sum: {"k1": KERNEL, "k2": KERNEL},
    kernels.Product: {"k1": KERNEL, "k2": KERNEL},
    kernels.Choice: {"kernels": items(KERNEL, least=1, most=MOST_PARTS)},
    kernels.Stack: {"kernels": items(KERNEL, least=1, most=MOST_PARTS)},
    kernels.Precomputed: {},
    robust.Hampel: {"c1": POSITIVE, "c2": POSITIVE, **ROBUST},
    robust.Huber: {"c": POSITIVE, **ROBUST},
    robust.Logistic: ROBUST,
    robust.Myriad: {"delta": POSITIVE, **ROBUST},
    sparsify.Given: {"points": either(ROW_NUMBERS, numbers(2))},
    sparsify.Random: {"n": optional(COUNT), "random_state": SEED},
    sparsify.RandomlyPivoted: {"n": COUNT, "random_state": SEED},
    sparsify.KMeans: {"n": COUNT, "random_state": SEED},
    sparsify.Forward: {"n": COUNT, "pool": COUNT, "random_state": SEED},
    sparsify.Learned: {"n": COUNT, "steps": COUNT, "random_state": SEED},
    sparsify.FeatureVectors: dict(
        n=optional(COUNT), tol=SHARE, candidates=optional(COUNT), error=optional(SHARE), random_state=SEED
    ),
    sparsify.Prune: {
        **dict(n=optional(COUNT), rows=option("drop", "keep"), score=option("loo", "validation", "kfold")),
        **dict(fraction=SHARE, tolerance=SHARE, retune=FLAG, random_state=SEED),
    },
    sparsify.InversePrune: {"fraction": SHARE},
    sparsify.AdaPinv: {"fraction": SHARE, "learning_rate": optional(POSITIVE), "max_iter": COUNT},
    sparsify.Echelon: {"tol": optional(number(0.0, math.inf)), "n": optional(COUNT)},
    sparsify.Adaline: dict(
        tol=number(0.0, math.inf), learning_rate=optional(POSITIVE), max_iter=COUNT, signed=FLAG, final_solve=FLAG
    ),
    sparsify.Substrate: dict(
        zeta=optional(number(0.0)), validation=either(FOLDS, VALIDATION), refit=FLAG, random_state=SEED
    ),
    sparsify.Components: dict(rho=optional(POSITIVE), validation=optional(VALIDATION), refit=FLAG, random_state=SEED),
    tune.LeaveOneOut: {"search": option("auto", "gradient", "simplex", "grid"), "loss": option("auto", "squared")},
    tune.KFold: dict(n_splits=FOLDS, splitter=NOTHING, groups=optional(LABELS), random_state=SEED),
    tune.LeaveBlockOut: {"h": number(0, MOST, int)},
    tune.Holdout: {"fraction": OPEN_SHARE, "random_state": SEED},
    LSSVR: {
        "kernel": optional(KERNEL),
        "C": optional(number(1e-150, 1e150)),
        "steps": optional(items(STEP, most=MOST_PARTS)),
        "robust": optional(either(option("hampel", "huber", "logistic", "myriad"), WEIGHTING)),
        "categorical_features": optional(either(option("from_dtype"), LABELS)),
        "verbose": number(0, MOST, int, bool),
    },
}
PARAMETERS[LSSVC] = {
    **PARAMETERS[LSSVR],
    "class_weight": optional(test(_is_class_weight)),
    "coding": option("auto", *CODINGS),
    "loss": option("auto", *LOSSES),
}
CANDIDATE: dict[str, Rule] = dict(kernel=fitted_kernel, C=C, coding=option(*CODINGS), loss=option(*LOSSES), loo=LOSS)
MEMBER: dict[str, Rule] = dict(kernel=fitted_kernel, C=C, loo=LOSS, weight=number(0.0, 1.0))

PATH: dict[str, Rule] = {  # records of the steps
    **dict(evaluations=number(0, MOST, int), plan=TEXTS, free=items(TRUTH), C=optional(C), loo=LOSS, error_rate=LOSS),
    **dict(
        widths=items(numbers(0, 1, above=0.0, finite=False)),
        score=LOSS,
        shifts=either(values_of(1), items(number(-1e300))),
    ),
    **dict.fromkeys(("sizes", "support"), values_of(1, kinds="iu")),
    **dict.fromkeys(("errors", "zeta", "rho", "intercept"), values_of(1)),
    **dict.fromkeys(("supports", "kept"), items(values_of(1, kinds="iu"))),
    **dict(scores=optional(values_of(1, 2)), coef=values_of(2), max_variation=values_of(2, 3)),
    **dict(chosen=either(PLACE, items(PLACE)), outputs=items(path, list)),
    "members": items(entries(MEMBER, Bunch, needed=tuple(MEMBER)), list, most=MOST_PARTS),
    **dict(gain=number(-1e300), candidates=items(entries(CANDIDATE, Bunch, needed=tuple(CANDIDATE)), list, most=1000)),
}
LISTED = [  # of the same length
    ("sizes", "scores", "errors", "supports"),
    ("rho", "max_variation", "kept", "scores"),
    ("zeta", "coef", "intercept", "supports", "scores"),
]
TABLE: dict[str, Rule] = {  # see `report.to_html`
    **dict.fromkeys(("target", "source", "model"), TEXT),
    **dict(task=option("regression", "classification")),
    **dict(row=number(0, MOST, int), dropped=PLACES, warnings=TEXTS),
    "seconds": test(lambda v: isinstance(v, dict) and all(type(s) in (int, float) and s >= 0 for s in v.values())),
}

RECORDS: dict[type, dict[str, Rule]] = {
    Problem: {
        "kernel": fitted_kernel,
        "X": array("rows", "features"),
        "y": array("rows", "outputs"),
        "weights": ROW_WEIGHTS,
        "C": C,
        "support": optional(indices("chosen", "rows")),
        "points": optional(points("centres")),
        "robust": optional(WEIGHTING),
        "reduced": TRUTH,
        "classification": TRUTH,
        "coefficients": optional(pack(array("vectors", "outputs"), array("outputs"))),
        "fitted": NOTHING,
        "asked": optional(pack(asked_kernel, optional(C))),
        "paths": paths,
        "groups": optional(array("features", kinds="iu")),
    },
    Columns: {"columns": items(record(Column), tuple, least=1)},
    Column: {
        "name": either(TEXT, number(-MOST, MOST, int)),
        "kind": option("number", "ranks", "category", "ignored"),
        "values": test(lambda value: isinstance(value, tuple) and _are_values(value)),
        "median": number(-LARGEST, LARGEST, float),
        "height": number(0.0, LARGEST, float),
        "missing": TRUTH,
        "pooled": TRUTH,
    },
    Fit: {
        "kernel": fitted_kernel,
        "C": C,
        "weights": ROW_WEIGHTS,
        "points": points("vectors"),
        "support": optional(indices("vectors", "rows")),
        "coef": array("vectors", "outputs"),
        "intercept": array("outputs"),
        "residuals": array("rows", "outputs"),
        "leverage": array("rows", finite=False),
        "loo_residuals": array("rows", "outputs", finite=False),
    },
    Whitening: {
        "kernel": fitted_kernel,
        "points": points("rank"),
        "lower": array("rank", "rank"),
        "factor": optional(array("basis", "rank")),
        "owner": optional(indices("basis", "rank", -1)),
    },
    Moments: {
        "weight": WEIGHT_SUM,
        "phi": array("rank"),
        "targets": array("outputs"),
        "scatter": array("rank", "rank"),
        "cross": array("rank", "outputs"),
    },
    Sample: {
        "size": COUNT,
        "keys": array("sampled"),
        "arrays": pack(array("sampled", "features"), array("sampled", "outputs"), SAMPLE_WEIGHTS),
    },
    Stream: {
        "points": points("basis"),
        "whitening": record(Whitening),
        "C": C,
        "moments": record(Moments),
        "sample": optional(record(Sample)),
        "rows": number(0, MOST, int),  # 0 in files of older versions
        "chunks": number(0, MOST, int),
    },
    ScaleChoice: {
        "kernel": fitted_kernel,
        "C": C,
        "uneven": sized(lambda sizes: items(TRUTH, tuple, sizes["outputs"], sizes["outputs"])),
    },
    LooSample: {
        "whitening": record(Whitening),
        "steps": items(array("rank", "rank"), tuple, 1, 2),
        "centre": array("rank"),
        "weight": WEIGHT_SUM,
        "total": COUNT,
        "X": array("sampled", "features"),
        "targets": array("sampled", "outputs"),
        "sample_weights": SAMPLE_WEIGHTS,
        "weights": SAMPLE_WEIGHTS,
        "residuals": array("sampled", "outputs"),
        "leverage": array("sampled", finite=False),
        "loo_residuals": array("sampled", "outputs", finite=False),
    },
}

RELATIONS: dict[type, dict[str, Callable[[Any, Sizes], Any]]] = {  # between the fields of a record
    Problem: {
        "weights": lambda problem, sizes: (problem.weights > 0).any(),
        "classification": lambda problem, sizes: problem.classification == ("classes" in sizes),
        "X": lambda problem, sizes: not sizes["precomputed"] or sizes["rows"] == sizes["features"],
        "points": lambda problem, sizes: problem.points is None or not sizes["precomputed"],
        "groups": lambda problem, sizes: problem.groups is None or _are_inputs(problem.groups),
        "coefficients": lambda problem, sizes: (
            problem.coefficients is None
            or (
                (problem.support is not None or problem.points is not None)
                and len(problem.coefficients[0]) == problem.basis_size
            )
        ),
    },
    Column: {"values": _is_column},
    Fit: {"weights": lambda fit, sizes: (fit.weights > 0).any()},
    Whitening: {
        "owner": lambda whitening, sizes: (whitening.factor is None) == (whitening.owner is None),
        "points": lambda whitening, sizes: whitening.factor is not None or sizes["rank"] == sizes["basis"],
    },
    Stream: {"sample": lambda stream, sizes: stream.sample is None or sizes["sampled"] <= stream.rows},
    LooSample: {"total": lambda sample, sizes: sizes["sampled"] <= sample.total},
}

ATTRIBUTES: dict[str, Rule] = {  # in this order: attributes that bind sizes come first
    "n_features_in_": _features,
    "_columns_": _columns,
    "support_vectors_": points("basis"),
    "_single_output_": _single_output,
    "coding_": _coding,
    "loss_": option(*LOSSES),
    "classes_": _classes,
    "dual_coef_": by_output("basis"),
    "intercept_": sized(lambda sizes: number(-1e300, 1e300, float) if sizes["single"] else array("outputs")),
    "C_": C,
    "kernel_": fitted_kernel,
    "members_": test(lambda value: type(value) is list and 0 < len(value) <= MOST_PARTS),
    "stack_weights_": array("members", least=0.0),
    "feature_names_in_": sized(lambda sizes: labels(sizes["table"])),
    "weights_": ROW_WEIGHTS,
    "support_": sized(lambda sizes: optional(indices("basis", "features" if sizes["precomputed"] else "rows"))),
    "_sample_weight_": optional(ROW_WEIGHTS),
    "leverage_": array("rows", finite=False),
    "loo_residuals_": sized(
        lambda sizes: array("rows", "classes", finite=False) if sizes.get("pairs") else by_output("rows", finite=False)
    ),
    "loo_predictions_": sized(
        lambda sizes: optional(labels(sizes["rows"])) if "classes" in sizes else by_output("rows", finite=False)
    ),
    "press_": test(lambda value: type(value) is float),
    "_slopes_": sized(lambda sizes: array(2 if sizes["single"] else 1)),
    "_codes_": indices("rows", "classes"),
    "_class_factors_": sized(lambda sizes: items(number(0.0, 1e300, float), list, sizes["classes"], sizes["classes"])),
    "active_": indices("kept", "components"),
    "max_variation_": sized(lambda sizes: array("components", *["outputs"] * (sizes["outputs"] > 1))),
    "_component_means_": array("components", "outputs"),
    "path_": optional(path),
    "table_": table,
    "_problem_": record(Problem),
    "_fit_": record(Fit),
    "_searched_": SEARCHED,  # in files of version 0.1, without signs
    "_searched_residuals_": SEARCHED,
    "_scale_choice_": record(ScaleChoice),
    "_searched_scale_choice_": record(ScaleChoice),
    "_stream_": record(Stream),
    "_sample_": record(LooSample),
}
