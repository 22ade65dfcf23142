"""Model files of format 1 (versions 0.1 and 0.2), which list the fitted attributes one by one, as today's records.

What the files contain is not yet checked here, so nothing may take more memory than the values themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..estimators.fitted import FittedModel, Member
from ..estimators.layout import Layout, coded
from ..kernels import as_kernel
from ..problem import Fit

CHOICES = ("_scale_choice_", "_searched_scale_choice_")
SAME = (
    "_problem_",
    "_sample_weight_",
    "_slopes_",
    "_sample_",
    "_stream_",
    "_component_means_",
    "max_variation_",
    "press_",
)
OTHERS = ("_columns_", "_single_output_", "_class_factors_", "_codes_", "_fit_", "_searched_", "_searched_residuals_")


def from_format1(tree: Any) -> tuple[FittedModel, dict[str, Any]]:
    """The record of a model, and its attributes that do not belong to the record."""
    values, parameters = tree["fitted"], tree["parameters"]
    choices = [values.get(name) for name in CHOICES]
    if "members_" in values:
        members = tuple(from_format1(part)[0].members[0] for part in values["members_"])
        fitted = FittedModel(members, tuple(values["stack_weights_"].tolist()), True, values.get("path_"), *choices)
    else:
        kernel, C = parameters["kernel"], parameters["C"]
        asked = None if kernel is None else as_kernel(kernel), None if C is None else float(C)
        fitted = FittedModel((_member(values, asked),), (1.0,), False, None, *choices)
    return fitted, {name: value for name, value in values.items() if name not in (*CHOICES, *SAME[:-1], *OTHERS)}


def _member(values: dict[str, Any], asked: Any) -> Member:
    """The record of a model that is not a stack."""
    given = values.get
    single, classes, factors = values["_single_output_"], given("classes_"), given("_class_factors_")
    coef, problem, kept, loo = values["dual_coef_"], given("_problem_"), given("_fit_"), given("loo_residuals_")
    coef = coef.reshape(len(coef), -1)
    layout = Layout(
        n_features=values["n_features_in_"],
        names=given("feature_names_in_"),
        columns=given("_columns_"),
        single=single,
        outputs=coef.shape[1] if classes is None else 1 if single else len(classes),
        classes=classes,
        class_factors=None if factors is None else np.array(factors, dtype=float),
    )
    if problem is not None and kept is None:  # leave-one-out is deferred
        loo = None
    targets = None
    if loo is not None:
        loo = loo.reshape(-1, layout.outputs)
        if problem is not None:
            targets = problem.y
        elif classes is None:
            targets = loo + values["loo_predictions_"].reshape(loo.shape)
        else:
            targets = coded(values["_codes_"].reshape(len(loo)), layout)
    fit: Any = Fit(
        kernel=values["kernel_"],
        C=values["C_"],
        weights=given("weights_"),
        support=values["support_"],
        points=values["support_vectors_"],
        coef=coef,
        intercept=np.atleast_1d(np.asarray(values["intercept_"])),
        residuals=None if kept is None else kept.residuals,
        leverage=None if loo is None else given("leverage_"),
        loo_residuals=loo,
    )
    named: dict[str, Any] = {name.strip("_"): given(name) for name in (*SAME, "path_")}
    named |= {name: values[f"{name}_"] for name in ("coding", "loss") if f"{name}_" in values}
    return Member(layout, fit, asked, targets=targets, searched=given("_searched_residuals_"), **named)
