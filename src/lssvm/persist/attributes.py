"""Fitted models as the flat attributes of model files, whose names are those of version 0.1, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import arrays
from ..estimators.fitted import FittedModel, Member
from ..estimators.layout import Layout, coded
from ..kernels import as_kernel
from ..problem import Fit, class_numbers

PRIVATE = ("_problem_", "_sample_weight_", "_slopes_", "_sample_", "_stream_", "_component_means_")
OTHERS = ("_columns_", "_single_output_", "_class_factors_", "_codes_", "_fit_", "_searched_", "_searched_residuals_")
CHOICES = ("_scale_choice_", "_searched_scale_choice_")


def attributes_of(model: Any) -> dict[str, Any]:
    """The fitted attributes of a model, public and private."""
    fitted: FittedModel = model.fitted_
    layout, one = fitted.layout, fitted.members[0]
    found = {name: getattr(fitted, name.strip("_")) for name in CHOICES}
    found |= {"_columns_": layout.columns, "_single_output_": layout.single}
    if layout.classes is not None and layout.class_factors is not None:
        found["_class_factors_"] = layout.class_factors.tolist()
    if not fitted.is_stack:
        found |= {name: getattr(one, name.strip("_")) for name in PRIVATE}
        found |= {
            "_fit_": None if one.problem is None or one.deferred else one.fit,
            "_searched_residuals_": one.searched,
        }
        if layout.classes is not None and one.targets is not None:
            found["_codes_"] = class_numbers(one.targets)
    found = {name: value for name, value in found.items() if value is not None}
    public = {name: value for name, value in vars(model).items() if name != "fitted_" and not arrays.is_dask(value)}
    return {**public, **found}  # arrays in the file are named after the first


def adopt(model: Any) -> Any:
    """Replace the private attributes of a checked model by the record of what it has learned."""
    values = vars(model)
    for member in values.get("members_", []):
        adopt(member)
    choices = [values.get(name) for name in CHOICES]
    if "members_" in values:
        members = tuple(member.fitted_.members[0] for member in values["members_"])
        fitted = FittedModel(members, tuple(values["stack_weights_"].tolist()), True, values.get("path_"), *choices)
    else:
        fitted = FittedModel((_member(model),), (1.0,), False, None, *choices)
    model.__dict__ = {name: value for name, value in values.items() if name not in (*PRIVATE, *OTHERS, *CHOICES)}
    model.fitted_ = fitted
    return model


def _member(model: Any) -> Member:
    """The record of a model that is not a stack."""
    values = vars(model)
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
        class_factors=None if factors is None else np.array(factors),
    )
    if problem is not None and kept is None:  # leave-one-out is deferred
        loo = None
    targets = None if problem is None else problem.y
    if problem is None and loo is not None:
        targets = loo + values["loo_predictions_"] if classes is None else coded(values["_codes_"], layout)
        targets = targets.reshape(len(loo), -1)
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
        loo_residuals=None if loo is None else loo.reshape(len(loo), -1),
    )
    named = {name.strip("_"): given(name) for name in (*PRIVATE, "path_", "press_", "max_variation_")}
    named |= {name: values[f"{name}_"] for name in ("coding", "loss") if f"{name}_" in values}
    return Member(
        layout,
        fit,
        (None if model.kernel is None else as_kernel(model.kernel), model.C),
        targets=targets,
        searched=given("_searched_residuals_"),
        **named,
    )
