"""Fitted models: checks, their problem with the final weights, their columns."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from .. import arrays, intervals
from ..arrays import ArrayLike
from ..estimators import LSSVC, LSSVR
from ..estimators.state import (
    class_weights,
    column_sources,
    fitted_problem,
    is_stack,
    kept_sample,
    members,
    solution,
    training_codes,
)
from ..kernels import Additive, Kernel
from ..problem import Problem, class_numbers, column_spread


class NotKnown(ValueError):
    """A diagnostic that does not apply to a model, or that needs data which the model does not keep."""


def check_fitted(model: Any, argument: str = "model") -> None:
    """Raise TypeError or NotFittedError unless the argument is a fitted LSSVR or LSSVC."""
    if isinstance(model, type):
        raise TypeError(
            f"{argument}={model.__name__} is a class: give a fitted instance, {model.__name__}(...).fit(X, y)."
        )
    if isinstance(model, Pipeline):
        raise TypeError(f"{argument} is a Pipeline: give the model itself, e.g. pipeline[-1].")
    if hasattr(model, "fit"):
        check_is_fitted(model)
    if not hasattr(model, "kernel_"):
        got = "None" if model is None else type(model).__name__
        raise TypeError(
            f"{argument} must be a fitted LSSVR or LSSVC, got {got}: for a Pipeline give pipeline[-1], for a search "
            "best_estimator_."
        )


def check_single(model: Any, what: str) -> None:
    """Raise NotKnown if the model is a stack of several members."""
    if is_stack(model):
        raise NotKnown(f"{what} is defined for a single model, not for a stack: give a member, e.g. model.members_[0].")


def basis_points(model: Any) -> np.ndarray:
    """The support vectors of a model; of a stack, those of all members, without repetitions.

    The unit vectors that replace the rows in linear members are omitted if other members have other points.
    """
    points = [arrays.to_numpy(member.support_vectors_) for member, _ in members(model)]
    points = [own for own in points if not are_unit_vectors(own)] or points
    return points[0] if all(np.array_equal(points[0], own) for own in points) else np.unique(np.vstack(points), axis=0)


def are_unit_vectors(points: np.ndarray) -> bool:
    """Whether these are the points that replace the rows of a linear model."""
    return np.array_equal(points, np.eye(points.shape[1]))


def kernel_words(kernel: Kernel) -> str:
    """A fitted kernel as it is written before the fit, without widths and knots that were found for the columns."""
    return " ".join(repr(_unfitted(kernel)).split())


def member_words(model: Any) -> list[str]:
    """The weights and kernels of the members of a stack; of a single model, its kernel."""
    if not is_stack(model):
        return [kernel_words(model.kernel_)]
    return [f"{weight:.3f} {kernel_words(member.kernel_)}" for member, weight in members(model)]


def _unfitted(kernel: Kernel) -> Kernel:
    kernel = copy.copy(kernel)
    for name, value in kernel.get_params(deep=False).items():
        if isinstance(value, Kernel):
            setattr(kernel, name, _unfitted(value))
        elif name in ("sigma", "knots") and np.ndim(arrays.to_numpy(value)):
            setattr(kernel, name, None)
        elif name == "sigma":
            setattr(kernel, name, float(f"{float(value):.4g}"))
    return kernel


def kept_components(model: Any) -> dict[int, list[int]]:
    """The columns of each component that an additive model keeps, by the number of the component."""
    kernels, sources = [member.kernel_ for member, _ in members(model)], column_sources(model)
    kept = [(number, group) for kernel in kernels for number, (group, _) in kernel.kept(len(sources)).items()]
    return {number: np.unique(sources[group]).tolist() for number, group in sorted(kept)}


def class_factors(model: Any, actual: np.ndarray) -> np.ndarray:
    """The class weight of each row."""
    return class_weights(model)[class_numbers(actual)] if is_classifier(model) else np.ones(len(actual))


def coded_targets(model: Any, residuals: np.ndarray) -> np.ndarray:
    """Targets as used in the fit, (rows, outputs)."""
    problem = fitted_problem(model)
    if problem is not None:
        return arrays.to_numpy(problem.y)
    if not is_classifier(model):
        return residuals + arrays.to_numpy(model.loo_predictions_).reshape(residuals.shape)
    labels = np.array([1]) if residuals.shape[1] == 1 else np.arange(residuals.shape[1])
    return np.where(training_codes(model)[:, None] == labels[None, :], 1.0, -1.0)


def compares_classifiers(model: Any) -> bool:
    """Whether the coding and the loss were compared or are others than least squares, one class against the rest.

    Such a model is no single system of least squares, and does not keep its rows.
    """
    return (
        not is_stack(model) and hasattr(model, "coding_") and fitted_problem(model) is None and not kept_sample(model)
    )


def least_squares_problem(model: Any, what: str) -> Problem:
    """The solved problem with its final weights; ValueError if the model does not keep its rows."""
    check_fitted(model)
    check_single(model, what)
    problem = fitted_problem(model)
    if problem is None and compares_classifiers(model):
        raise NotKnown(
            f"{what} is defined for loss='squared', coding='one-vs-rest'; this model was fitted with "
            f"loss={model.loss!r}, coding={model.coding!r}."
        )
    if problem is None:
        raise NotKnown(f"{what} needs the training rows, which a model does not keep after partial_fit or fit_chunks.")
    if problem.coefficients is not None:
        raise NotKnown(f"{what}: a step has set the coefficients of this model, so that C has no effect.")
    weights = arrays.like(arrays.to_numpy(model.weights_), problem.weights)
    return problem.replace(kernel=model.kernel_, C=model.C_, weights=weights, robust=None)


def feature_names(model: LSSVR | LSSVC) -> list[str]:
    """Names of the columns: those seen in `fit`, or else "column 0", "column 1", ..."""
    check_fitted(model)
    names = getattr(model, "feature_names_in_", None)
    return [f"column {c}" for c in range(model.n_features_in_)] if names is None else [str(name) for name in names]


def inverse_widths(model: LSSVR | LSSVC) -> np.ndarray:
    """Inverse widths of the columns: spread/sigma, the largest value over the parts of the kernel.

    The larger the value, the more f may vary along the column. A column with a small value may still have an almost
    linear effect; 0 means that the column is dropped (see `columns_used`). Raises ValueError for kernels without
    widths.
    """
    check_fitted(model)
    leaves = model.kernel_.leaves
    if not leaves:
        raise NotKnown(f"{model.kernel_!r} has no widths: give a model with a kernel such as kernels.RBF or Matern.")
    spread, largest = training_spread(model), np.zeros(model.n_features_in_)
    widths = np.max([spread / _sigma(leaf, len(spread)) for leaf in leaves], axis=0)
    np.maximum.at(largest, column_sources(model), widths)
    return np.where(columns_used(model), largest, 0.0)


def columns_used(model: LSSVR | LSSVC) -> np.ndarray:
    """Mask of the columns that the model uses: neither dropped by tuning nor outside the kept components of `Additive`.

    Examples
    --------
    >>> import numpy as np
    >>> from lssvm import LSSVR, diagnose, kernels
    >>> draw = np.random.RandomState(0)
    >>> X = draw.uniform(-1, 1, (150, 4))
    >>> y = np.sin(4 * X[:, 0]) + draw.normal(0, 0.1, 150)
    >>> diagnose.columns_used(LSSVR(kernels.RBF(ard=True)).fit(X, y))
    array([ True, False, False, False])
    """
    check_fitted(model)
    if model.kernel_.is_precomputed:
        return np.ones(model.n_features_in_, dtype=bool)
    used = _used(model.kernel_, training_spread(model))
    return np.bincount(column_sources(model), used, model.n_features_in_) > 0


def _used(kernel: Kernel, spread: np.ndarray) -> np.ndarray:
    if "sigma" in kernel.get_params(deep=False):
        return np.isfinite(_sigma(kernel, len(spread)))
    if not kernel.parts:
        return np.ones(len(spread), dtype=bool)
    used = np.any([_used(part, spread) for part in kernel.parts], axis=0)
    if isinstance(kernel, Additive):
        kept = [c for group, _ in kernel.kept(len(spread)).values() for c in group]
        used &= np.isin(np.arange(len(spread)), kept)
    return used


def _sigma(leaf: Any, n_features: int) -> np.ndarray:
    return np.broadcast_to(np.asarray(arrays.to_numpy(leaf.sigma), float), (n_features,))


def training_spread(model: Any) -> np.ndarray:
    """The spread of the columns over the training rows, or over the basis if the rows are not kept."""
    first = members(model)[0][0]
    problem = fitted_problem(first)
    return np.std(arrays.to_numpy(first.support_vectors_), axis=0) if problem is None else column_spread(problem)


def component_deviations(model: Any, X: ArrayLike) -> np.ndarray | None:
    """Standard deviations of the components of an additive model.

    None if the model keeps no rows, is a stack or was not solved for.
    """
    problem = fitted_problem(model)
    if problem is None or problem.coefficients is not None:
        return None
    return intervals.component_deviations(problem, solution(model), X)
