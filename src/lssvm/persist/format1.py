"""Translates model files of format 1 (versions 0.1 and 0.2), which list fitted attributes, into today's records.

What the files contain is not yet checked here, so nothing may take more memory than the values themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..estimators.classifier import class_factors
from ..estimators.fitted import FittedModel, Member
from ..estimators.layout import Layout, coded
from ..kernels import as_kernel
from ..problem import Fit
from .values import CLASSES

# These private attributes of format 1 are fields of a member by the same name.
SAME = ("problem", "sample_weight", "slopes", "sample", "stream", "component_means")


def from_format1(tree: Any) -> tuple[Any, FittedModel, dict[str, Any]]:
    """Return the unfitted model, the record of the fit, and the attributes that do not belong to the record."""
    values, model = tree["fitted"], CLASSES[tree["class"]](**tree["parameters"])
    choices = [values.get(name) for name in ("_scale_choice_", "_searched_scale_choice_")]
    if "members_" in values:
        members = tuple(from_format1(part)[1].members[0] for part in values["members_"])
        fitted = FittedModel(members, tuple(values["stack_weights_"].tolist()), True, values.get("path_"), *choices)
    else:
        asked = None if model.kernel is None else as_kernel(model.kernel), None if model.C is None else float(model.C)
        fitted = FittedModel((_member(values, asked, model),), (1.0,), False, None, *choices)
    return model, fitted, {name: value for name, value in values.items() if not name.startswith("_")}


def _member(values: dict[str, Any], asked: Any, model: Any) -> Member:
    """Return the record of a model that is not a stack."""
    given = values.get
    single, classes, factors = values["_single_output_"], given("classes_"), given("_class_factors_")
    if classes is not None:
        if factors is None:  # version 0.1
            factors = class_factors(model.class_weight, classes, np.ones(len(classes)))
        factors = np.array(factors, dtype=float)
    coef, problem, kept, loo = values["dual_coef_"], given("_problem_"), given("_fit_"), given("loo_residuals_")
    coef = coef.reshape(len(coef), -1)
    names, columns = given("feature_names_in_"), given("_columns_")
    outputs = coef.shape[1] if classes is None else 1 if single else len(classes)
    layout = Layout(values["n_features_in_"], names, columns, single, outputs, classes, factors)
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
    solution: dict[str, Any] = {name: values[f"{name}_"] for name in ("kernel", "C", "support")}
    solution |= {"points": values["support_vectors_"], "weights": given("weights_"), "coef": coef}
    solution["intercept"] = np.atleast_1d(np.asarray(values["intercept_"]))
    leverage = None if loo is None else given("leverage_")
    fit = Fit(**solution, residuals=kept and kept.residuals, leverage=leverage, loo_residuals=loo)
    named: dict[str, Any] = {name: given(f"_{name}_") for name in SAME}
    named |= {name: given(f"{name}_") for name in ("path", "press", "max_variation")}
    named |= {name: values[f"{name}_"] for name in ("coding", "loss") if f"{name}_" in values}
    return Member(layout, fit, asked, targets=targets, searched=given("_searched_residuals_"), **named)
