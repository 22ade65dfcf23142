"""Leave-one-out values and the scores that follow from them."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from sklearn.base import is_classifier

from .. import arrays
from ..arrays import ArrayLike
from ..estimators import LSSVC, LSSVR
from ..estimators.interval_mixin import loo_distribution, training_rows
from ..problem import class_numbers
from .access import NotKnown, check_fitted


@dataclass(frozen=True)
class LooValues:
    """Leave-one-out values of the training rows.

    Attributes
    ----------
    actual, predicted : array (rows, outputs)
        Targets, and predictions of each row by the model without it; classes are coded -1 and +1.
    given : array (rows,)
        Sample weights as given, which weight the rows in `scores`.
    weights : array (rows,)
        Weights in the fit, including robust and class weights.
    robust : array (rows,)
        Robust weights alone.
    leverage : array (rows,)
    total : int
        Number of training rows.
    sampled : bool
        True if the rows are only a sample of the training rows, in no particular order.
    """

    actual: np.ndarray
    predicted: np.ndarray
    given: np.ndarray
    weights: np.ndarray
    robust: np.ndarray
    leverage: np.ndarray
    total: int
    sampled: bool = False

    @property
    def residuals(self) -> np.ndarray:
        """Leave-one-out residuals y_i - f_(i)(x_i)."""
        return self.actual - self.predicted


def loo_values(model: LSSVR | LSSVC) -> LooValues:
    """Leave-one-out values of a fitted model.

    Parameters
    ----------
    model : LSSVR or LSSVC
        Fitted model.

    Returns
    -------
    LooValues
        For a model fitted on chunks, possibly those of a sample of the rows.

    Raises
    ------
    ValueError
        The model has no leave-one-out values; the message gives the reason.
    """
    check_fitted(model)
    if any(member.deferred for member in model.fitted_.members):
        model.leave_one_out()
    rows = model.fitted_.loo_rows
    if rows is None or np.isnan(rows.residuals).any():
        raise NotKnown(
            f"{type(model).__name__} has no leave-one-out values, which is the case after sparsify.Substrate or "
            "Components with refit=False, after Adaline with final_solve=False, and for model files of older versions "
            "saved after partial_fit: fit the model again."
        )
    own = rows.own_weights
    robust = np.divide(rows.weights, own, out=np.zeros(len(own)), where=own > 0)
    predicted = rows.targets - rows.residuals
    parts = (rows.sample_weights, rows.weights, robust, rows.leverage, rows.total, rows.sampled)
    return LooValues(rows.targets, predicted, *parts)


def loo_probabilities(model: LSSVR | LSSVC) -> tuple[np.ndarray, np.ndarray]:
    """Class probabilities from leave-one-out decision values, and the actual classes.

    Parameters
    ----------
    model : LSSVC
        Fitted classifier.

    Returns
    -------
    probability : array (rows, classes)
    codes : array (rows,)
        Class numbers of the rows, as positions in ``classes_``.
    """
    check_fitted(model)
    if not is_classifier(model):
        raise NotKnown(f"{type(model).__name__} has no classes: give a fitted LSSVC.")
    rows = loo_values(model)
    return model.fitted_.probabilities_of(rows.predicted), class_numbers(rows.actual)


def class_codes(model: LSSVR | LSSVC, y: ArrayLike) -> np.ndarray:
    """Class numbers of labels, as positions in ``classes_``; ValueError for labels that were not seen in `fit`."""
    if not hasattr(model, "classes_"):
        check_fitted(model)
        raise ValueError(f"{type(model).__name__} has no classes: give a fitted LSSVC.")
    labels = np.asarray(arrays.to_numpy(y))
    unknown = np.setdiff1d(labels, model.classes_)
    if len(unknown):
        raise ValueError(
            f"y contains the class {unknown.tolist()[0]!r}, which is not among the classes {model.classes_.tolist()} "
            "of the model: remove its rows, or fit the model to all classes."
        )
    return np.searchsorted(model.classes_, labels)


def scores(model: LSSVR | LSSVC) -> dict[str, float]:
    """Leave-one-out scores: RMSE, MAE, R2 and CRPS for regression; error rate, log loss, Brier score for classes.

    CRPS is the continuous ranked probability score of the predictive distribution (see `LSSVR.predict_quantiles`), the
    mean absolute error of a distribution, averaged over the outputs. Its first computation fits the size of the noise,
    as `predict_interval` does. Rows are weighted by the sample weights as given. Robust weights, class weights and the
    rows that a step such as `sparsify.Prune` has dropped make no difference.

    Parameters
    ----------
    model : LSSVR or LSSVC
        Fitted model.

    Returns
    -------
    dict of str to float
        Keys ``rmse``, ``mae``, ``r2``, ``crps`` or ``error_rate``, ``log_loss``, ``brier``.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, diagnose, kernels
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(kernels.RBF(13.1), C=830.0).fit(X, y)
    >>> {name: round(value, 2) for name, value in diagnose.scores(model).items()}
    {'rmse': 23.04, 'mae': 17.55, 'r2': 0.77, 'crps': 12.31}
    """
    rows = loo_values(model)
    if not is_classifier(model):
        _, _, weights, numbers = training_rows(model.fitted_)
        weights = arrays.to_numpy(weights)[numbers]
        crps = np.average(loo_distribution(model).loo_crps(), axis=0, weights=weights)
        return {**number_scores(rows.actual, rows.predicted, rows.given), "crps": float(np.mean(crps))}
    return class_scores(*loo_probabilities(model), rows.given)


def beats_constant(model: LSSVR | LSSVC) -> bool:
    """Whether the leave-one-out error is smaller than that of predicting the mean, or always the largest class."""
    rows = loo_values(model)
    if not is_classifier(model):
        return number_scores(rows.actual, rows.predicted, rows.given)["r2"] > 0
    found = scores(model)
    counts = np.bincount(class_numbers(rows.actual), rows.given)
    return found["error_rate"] < 1 - counts.max() / counts.sum()


def number_scores(actual: np.ndarray, predicted: np.ndarray, weights: np.ndarray | None = None) -> dict[str, float]:
    """Weighted RMSE, MAE and R2, over all outputs together."""
    residuals = actual - predicted
    mean = functools.partial(np.average, axis=0, weights=weights)
    spread = float(np.mean(mean((actual - mean(actual)) ** 2)))
    squares = float(np.mean(mean(residuals**2)))
    return {
        "rmse": math.sqrt(squares),
        "mae": float(np.mean(mean(np.abs(residuals)))),
        "r2": 1.0 - squares / spread if spread > 0 else float("nan"),
    }


def class_scores(probability: np.ndarray, codes: np.ndarray, weights: np.ndarray | None = None) -> dict[str, float]:
    """Weighted error rate, log loss and Brier score (summed over classes) of class probabilities."""
    own = probability[np.arange(len(codes)), codes]
    truth = np.eye(probability.shape[1])[codes]
    mean = functools.partial(np.average, weights=weights)
    return {
        "error_rate": float(mean(np.argmax(probability, axis=1) != codes)),
        "log_loss": float(-mean(np.log(np.maximum(own, np.finfo(float).tiny)))),
        "brier": float(mean(np.sum((probability - truth) ** 2, axis=1))),
    }
