"""The schema of model files: a check for each attribute of a model. Those of records and parameters are derived."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import Bunch

from .. import kernels
from ..coding import CODINGS
from ..estimators import LSSVC
from ..intervals import ScaleChoice
from ..kernels import MOST_COLUMNS, MOST_KERNELS, Kernel
from ..losses import LOSSES
from ..problem import Fit, Problem, Step
from ..rules import LARGEST, MOST, Penalty, indices, numbers, one_of, row_weights
from ..stream import LooSample, Stream
from ..tables import Columns
from .checks import (
    PLAIN,
    SPECIAL,
    Check,
    Sizes,
    array,
    demand,
    entries,
    fitted_kernel,
    items,
    labels,
    number,
    numeric,
    obeys_rules,
    of_type,
    optional,
    pack,
    record,
    shaped,
    sized,
    test,
)


def check_model(model: Any) -> None:
    """Check everything that was read. Sizes come first, so that no check takes more time or memory than the file size
    justifies.
    """
    fitted = vars(model)
    demand(isinstance(fitted["kernel_"], Kernel), "kernel_")
    sizes = {"precomputed": int(fitted["kernel_"].is_precomputed)}
    for name, rule in ATTRIBUTES.items():
        if name in fitted:
            rule(fitted[name], name, sizes)
    for name in _required(model):
        demand(name in fitted, name)
    obeys_rules(model, "", sizes)
    demand(model.kernel is None or isinstance(model.kernel, Kernel), "kernel")
    for place, step in enumerate(model.steps or ()):
        demand(isinstance(step, Step), f"steps[{place}]")
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


# Checks ---------------------------------------------------------------------------------------------------------------
def _features(value: Any, name: str, sizes: Sizes) -> None:
    number(1, MOST, int)(value, name, sizes)
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
    CODING(value, name, sizes)
    sizes["pairs"] = int(value == "one-vs-one")


def _is_place(value: Any) -> bool:
    """Whether this is a place on a path: a size or a penalty."""
    return type(value) in (int, float) and value >= 0


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
TRUTH, COUNT, TEXT = PLAIN[bool], PLAIN[int], PLAIN[str]
RATE = test(lambda value: type(value) in (int, float) and not value < 0)  # NaN if unknown
C = of_type(Penalty)
CODING, LOSS = (test(one_of(*names).holds) for names in (CODINGS, LOSSES))
MEMBER = {"kernel": fitted_kernel, "C": C, "loo": RATE, "weight": number(0.0, 1.0)}
CANDIDATE = {"kernel": fitted_kernel, "C": C, "coding": CODING, "loss": LOSS, "loo": RATE}
SEARCHED = pack(shaped("rows", kinds="i"), shaped("rows", "outputs", finite=False))

PATH: dict[str, Check] = {  # records of the steps
    **{"evaluations": COUNT, "plan": items(TEXT), "free": items(TRUTH), "C": optional(C)},
    **dict.fromkeys(("loo", "error_rate", "score"), RATE),
    "widths": items(test(numbers("widths", 0, 1, above=0.0, finite=False).holds)),
    "shifts": test(numbers("numbers", 1).holds),
    **dict.fromkeys(("sizes", "support"), numeric(1, kinds="iu")),
    **dict.fromkeys(("errors", "zeta", "rho", "intercept"), numeric(1)),
    **dict.fromkeys(("supports", "kept"), items(numeric(1, kinds="iu"))),
    **{"scores": optional(numeric(1, 2)), "coef": numeric(2), "max_variation": numeric(2, 3)},
    "chosen": test(lambda value: all(map(_is_place, value if isinstance(value, list) else [value]))),
    "outputs": items(path, list),
    "members": items(entries(MEMBER, Bunch, needed=tuple(MEMBER)), list, most=MOST_KERNELS),
    "candidates": items(entries(CANDIDATE, Bunch, needed=tuple(CANDIDATE)), list, most=1000),
    "gain": number(-LARGEST),
}
LISTED = [  # of the same length
    ("sizes", "scores", "errors", "supports"),
    ("rho", "max_variation", "kept", "scores"),
    ("zeta", "coef", "intercept", "supports", "scores"),
]
TABLE: dict[str, Check] = {  # see `report.to_html`
    **dict.fromkeys(("target", "source", "model"), TEXT),
    "task": test(one_of("regression", "classification").holds),
    **{"row": COUNT, "dropped": items(COUNT), "warnings": items(TEXT)},
    "seconds": test(lambda v: isinstance(v, dict) and all(type(s) in (int, float) and s >= 0 for s in v.values())),
}
ATTRIBUTES: dict[str, Check] = {  # in this order: attributes that bind sizes come first
    "n_features_in_": _features,
    "_columns_": _columns,
    "support_vectors_": shaped("basis", "coordinates"),
    "_single_output_": _single_output,
    "coding_": _coding,
    "loss_": LOSS,
    "classes_": _classes,
    "dual_coef_": shaped("basis", "outputs?"),
    "intercept_": sized(lambda sizes: number(-LARGEST, LARGEST, float) if sizes["single"] else shaped("outputs")),
    "C_": C,
    "kernel_": fitted_kernel,
    "members_": test(lambda value: type(value) is list and 0 < len(value) <= MOST_KERNELS),
    "stack_weights_": shaped("members", low=0.0),
    "feature_names_in_": labels("table"),
    "weights_": array(row_weights("rows")),
    "support_": sized(lambda sizes: optional(array(indices("basis", "features" if sizes["precomputed"] else "rows")))),
    "_sample_weight_": optional(array(row_weights("rows"))),
    "leverage_": shaped("rows", finite=False),
    "loo_residuals_": sized(
        lambda sizes: shaped("rows", "classes" if sizes.get("pairs") else "outputs?", finite=False)
    ),
    "loo_predictions_": sized(
        lambda sizes: optional(labels("rows")) if "classes" in sizes else shaped("rows", "outputs?", finite=False)
    ),
    "press_": test(lambda value: type(value) is float),
    "_slopes_": sized(lambda sizes: shaped(2 if sizes["single"] else 1)),
    "_codes_": array(indices("rows", "classes")),
    "_class_factors_": sized(
        lambda sizes: items(number(0.0, LARGEST, float), list, sizes["classes"], sizes["classes"])
    ),
    "active_": array(indices("kept", "components")),
    "max_variation_": sized(lambda sizes: shaped("components", *["outputs"] * (sizes["outputs"] > 1))),
    "_component_means_": shaped("components", "outputs"),
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
SPECIAL[Problem, "paths"] = paths
