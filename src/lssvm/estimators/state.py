"""What a fitted model keeps beyond its public attributes: other packages read it through these functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import arrays
from ..arrays import ArrayLike
from ..intervals import Jackknife
from ..problem import Fit, Problem
from ..tables import Columns


def is_stack(model: Any) -> bool:
    """Whether the model is a stack of several members."""
    return bool(getattr(model, "kernel_", None) is not None and model.kernel_.is_stack)


def members(model: Any) -> list[tuple[Any, float]]:
    """The members of a stack with their weights; a single model is its own member, of weight 1."""
    return list(model._weighted_members) if is_stack(model) else [(model, 1.0)]


def table_columns(model: Any) -> Columns | None:
    """How the columns of a table are encoded; None if they are not, as for rows on a device."""
    return vars(model).get("_columns_")


def encoder(model: Any) -> Columns | None:
    """How the columns of a table are encoded; None if the inputs of the model are numbers as they are."""
    columns = table_columns(model)
    return None if columns is None or columns.are_plain else columns


def column_sources(model: Any) -> np.ndarray:
    """The number of the column of the table behind every encoded column."""
    columns = table_columns(model)
    return np.arange(model.n_features_in_) if columns is None else columns.sources


def fitted_problem(model: Any) -> Problem | None:
    """The problem behind a least-squares model; None if the model keeps no training rows."""
    return getattr(model, "_problem_", None)


def solution(model: Any) -> Fit:
    """The solution of the problem of a model that keeps its training rows, including leave-one-out."""
    return model.leave_one_out()._fit_


def kept_sample(model: Any) -> Any:
    """The sample of rows that a model fitted on chunks keeps, or None."""
    return model._loo_sample() if hasattr(model, "_loo_sample") else None


def is_streamed(model: Any) -> bool:
    """Whether rows were added by `partial_fit`."""
    return hasattr(model, "_stream_")


def given_weights(model: Any) -> np.ndarray:
    """The sample weights as given to `fit`."""
    given = getattr(model, "_sample_weight_", None)
    return np.ones(len(model.weights_)) if given is None else arrays.to_numpy(given)


def class_weights(model: Any) -> np.ndarray:
    """The weight of each class."""
    return np.array(getattr(model, "_class_factors_", [1.0] * len(model.classes_)))  # files of 0.1.0 have none


def training_codes(model: Any) -> np.ndarray:
    """The class numbers of the training rows of a classifier."""
    return arrays.to_numpy(model._codes_)


def probability_slopes(model: Any) -> np.ndarray:
    """The slopes that turn decision values into probabilities."""
    return arrays.to_numpy(model._calibration())


def class_probabilities(model: Any, decision: np.ndarray) -> np.ndarray:
    """Class probabilities from values of `decision_function`, (rows, 1 or classes)."""
    return np.asarray(model._probabilities(decision))


def solved_probabilities(model: Any, problem: Problem, own: np.ndarray) -> np.ndarray:
    """Leave-one-out class probabilities of another problem; `own` are its weights without robust ones."""
    return np.asarray(model._solved_probabilities(problem, arrays.like(own, problem.weights)))


def encoded_rows(model: Any, X: ArrayLike) -> np.ndarray:
    """New rows, checked and encoded."""
    return arrays.to_numpy(model._checked(X, "predict"))


def values(model: Any, rows: np.ndarray) -> np.ndarray:
    """f(x) of encoded rows, (rows, outputs)."""
    return arrays.to_numpy(model._finite(model._evaluate(rows)))


def responses(model: Any, rows: np.ndarray) -> np.ndarray:
    """Predictions for encoded rows, (rows, outputs); for classes, the probability of each, or of the second of two."""
    if not hasattr(model, "classes_"):
        return values(model, rows)
    p = arrays.to_numpy(model._class_probabilities(rows))
    return p[:, 1:] if is_single(model) else p


def training_rows(model: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, targets (rows, outputs) and sample weights of the rows of positive weight that a regression model keeps.

    They are those of `loo_distribution` and `default_distribution`.
    """
    X, y, weights, rows = model._training_rows()
    return tuple(arrays.to_numpy(arrays.take(a, rows)) for a in (X, y, weights))  # type: ignore[return-value]


def loo_distribution(model: Any) -> Jackknife:
    """The predictive distribution of a regression model, from its leave-one-out residuals."""
    return model._loo_distribution()


def default_distribution(model: Any) -> Jackknife:
    """The distribution behind `predict_interval`: its residuals may come from searches that were repeated."""
    return model._jackknife()


def intervals_of_rows(model: Any, numbers: np.ndarray, coverage: float) -> np.ndarray:
    """`predict_interval` of some of the `training_rows`, (rows, 2, outputs)."""
    X, _, _, rows = model._training_rows()
    return model._jackknife().intervals(arrays.take(X, rows[numbers]), coverage)


def distribution_at(model: Any, X: ArrayLike, y: np.ndarray) -> np.ndarray:
    """Values of the predictive distribution function of new rows, at targets y (rows, outputs)."""
    rows = model._like_training_rows(model._checked(X, "predict_quantiles"))
    return model._jackknife().distribution(rows, y)


def is_single(model: Any) -> bool:
    """Whether y had one dimension in `fit`."""
    return bool(model._single_output_)
