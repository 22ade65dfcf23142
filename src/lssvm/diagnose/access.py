"""What a fitted model holds beyond its public attributes: the one place that other modules ask."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from .. import arrays, intervals
from ..arrays import ArrayLike
from ..estimators import LSSVC, LSSVR
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
    if not hasattr(model, "dual_coef_"):
        got = "None" if model is None else type(model).__name__
        raise TypeError(
            f"{argument} must be a fitted LSSVR or LSSVC, got {got}: for a Pipeline give pipeline[-1], for a search "
            "best_estimator_."
        )


def kept_sample(model: Any) -> Any:
    """The sample of rows that a model fitted on chunks keeps, or None."""
    return model._loo_sample() if hasattr(model, "_loo_sample") else None


def class_factors(model: Any, actual: np.ndarray) -> np.ndarray:
    """The class weight of each row."""
    factors = np.array(getattr(model, "_class_factors_", [1.0, 1.0]))
    return factors[class_numbers(actual)] if is_classifier(model) else np.ones(len(actual))


def coded_targets(model: Any, residuals: np.ndarray) -> np.ndarray:
    """Targets as used in the fit, (rows, outputs)."""
    if hasattr(model, "_problem_"):
        return arrays.to_numpy(model._problem_.y)
    if not is_classifier(model):
        return residuals + arrays.to_numpy(model.loo_predictions_).reshape(residuals.shape)
    labels = np.array([1]) if residuals.shape[1] == 1 else np.arange(residuals.shape[1])
    return np.where(arrays.to_numpy(model._codes_)[:, None] == labels[None, :], 1.0, -1.0)


def compares_classifiers(model: Any) -> bool:
    """Whether the coding and the loss were compared or are others than least squares, one class against the rest.

    Such a model is no single system of least squares, and does not keep its rows.
    """
    return hasattr(model, "coding_") and not hasattr(model, "_problem_") and kept_sample(model) is None


def least_squares_problem(model: Any, what: str) -> Problem:
    """The solved problem with its final weights; ValueError if the model does not keep its rows."""
    check_fitted(model)
    problem = getattr(model, "_problem_", None)
    if problem is None and compares_classifiers(model):
        raise NotKnown(
            f"{what} is defined for loss='squared', coding='one-vs-rest'; this model was fitted with "
            f"loss={model.loss!r}, coding={model.coding!r}."
        )
    if problem is None:
        raise NotKnown(f"{what} needs the training rows, which a model does not keep after partial_fit or fit_chunks.")
    if problem.coefficients is not None:
        raise NotKnown(f"{what}: a step has set the coefficients of this model, so that C has no effect.")
    return problem.replace(kernel=model.kernel_, C=model.C_, weights=final_weights(model), robust=None)


def final_weights(model: Any) -> Any:
    return arrays.like(arrays.to_numpy(model.weights_), model._problem_.weights)


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
    spread = training_spread(model)
    return np.where(columns_used(model), np.max([spread / _sigma(leaf, len(spread)) for leaf in leaves], axis=0), 0.0)


def columns_used(model: LSSVR | LSSVC) -> np.ndarray:
    """Mask of the columns that the model uses: neither dropped by tuning nor outside the kept components of `Additive`.

    Examples
    --------
    >>> import numpy as np
    >>> from lssvm import LSSVR, diagnose
    >>> draw = np.random.RandomState(0)
    >>> X = draw.uniform(-1, 1, (150, 4))
    >>> y = np.sin(4 * X[:, 0]) + draw.normal(0, 0.1, 150)
    >>> diagnose.columns_used(LSSVR().fit(X, y))
    array([ True, False, False, False])
    """
    check_fitted(model)
    if model.kernel_.is_precomputed:
        return np.ones(model.n_features_in_, dtype=bool)
    return _used(model.kernel_, training_spread(model))


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
    problem = getattr(model, "_problem_", None)
    return np.std(arrays.to_numpy(model.support_vectors_), axis=0) if problem is None else column_spread(problem)


def fitted_problem(model: Any) -> Problem | None:
    """The problem behind a least-squares model; None if the model keeps no training rows."""
    return getattr(model, "_problem_", None)


def training_codes(model: Any) -> np.ndarray:
    """The class numbers of the training rows of a classifier."""
    return arrays.to_numpy(model._codes_)


def probability_slopes(model: Any) -> np.ndarray:
    """The slopes that turn decision values into probabilities."""
    return arrays.to_numpy(model._calibration())


def is_streamed(model: Any) -> bool:
    """Whether rows were added by `partial_fit`."""
    return hasattr(model, "_stream_")


def component_deviations(model: Any, X: ArrayLike) -> np.ndarray | None:
    """Standard deviations of the components of an additive model; None if it keeps no rows or was not solved for."""
    problem = fitted_problem(model)
    if problem is None or problem.coefficients is not None:
        return None
    return intervals.component_deviations(problem, model.leave_one_out()._fit_, X)
