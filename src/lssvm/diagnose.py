"""Diagnostics of fitted models: leave-one-out values, the path of C, widths of columns, coverage of intervals.

All results are read from the fit or follow from one factorisation; nothing is refitted row by row. The displays, the
report and the command line draw and print the results of these functions.
"""

from __future__ import annotations

import functools
import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils import Bunch
from sklearn.utils.validation import check_is_fitted

from . import arrays
from .intervals import order_statistic, probabilities
from .kernels import Additive, Kernel
from .problem import Problem, class_numbers, column_spread
from .tune import class_errors

__all__ = [
    "LooValues",
    "beats_constant",
    "c_path",
    "class_codes",
    "class_scores",
    "columns_used",
    "coverage_path",
    "feature_names",
    "inverse_widths",
    "loo_probabilities",
    "loo_values",
    "number_scores",
    "reliability",
    "scores",
    "width_surface",
]


RENAMED = {"left_out": "loo_values", "left_out_probabilities": "loo_probabilities", "LeftOut": "LooValues"}


def __getattr__(name: str) -> Any:
    """The names of version 0.1.0, deprecated since 0.2."""
    if name not in RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(
        f"diagnose.{name} is now diagnose.{RENAMED[name]}; the old name will be removed in 0.4.",
        FutureWarning,
        stacklevel=2,
    )
    return globals()[RENAMED[name]]


class NotKnown(ValueError):
    """A diagnostic that does not apply to a model, or that needs data which the model does not keep."""


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


def loo_values(model: Any) -> LooValues:
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
    if hasattr(model, "_problem_"):
        model.leave_one_out()
    residuals = getattr(model, "loo_residuals_", None)
    sample = _sample(model) if residuals is None or arrays.is_dask(residuals) else None
    if sample is not None:
        return _sampled(model, sample)
    residuals = None if residuals is None else arrays.to_numpy(residuals)
    if residuals is None or np.isnan(residuals).any():
        raise NotKnown(
            f"{type(model).__name__} has no leave-one-out values, which is the case after sparsify.Substrate or "
            "Components with refit=False, after Adaline with final_solve=False, and for model files of older versions "
            "saved after partial_fit: fit the model again."
        )
    residuals = residuals.reshape(len(residuals), -1)
    actual = _targets(model, residuals)
    weights = arrays.to_numpy(model.weights_)
    given = getattr(model, "_sample_weight_", None)
    given = np.ones(len(weights)) if given is None else arrays.to_numpy(given)
    problem = getattr(model, "_problem_", None)
    own = given * _class_factors(model, actual) if problem is None else arrays.to_numpy(problem.weights)
    own = weights if model.robust is None else own
    robust = np.divide(weights, own, out=np.zeros(len(weights)), where=own > 0)
    return LooValues(actual, actual - residuals, given, weights, robust, arrays.to_numpy(model.leverage_), len(weights))


def _sample(model: Any) -> Any:
    """The sample of rows that a model fitted on chunks keeps, or None."""
    return model._loo_sample() if hasattr(model, "_loo_sample") else None


def _sampled(model: Any, sample: Any) -> LooValues:
    """The values of a sample of rows, if the others are not kept."""
    actual, residuals, weights, own, leverage = (
        arrays.to_numpy(a)
        for a in (sample.targets, sample.loo_residuals, sample.weights, sample.sample_weights, sample.leverage)
    )
    given = own / _class_factors(model, actual)
    return LooValues(actual, actual - residuals, given, weights, weights / own, leverage, sample.total, True)


def _class_factors(model: Any, actual: np.ndarray) -> np.ndarray:
    """The class weight of each row."""
    factors = np.array(getattr(model, "_class_factors_", [1.0, 1.0]))
    return factors[class_numbers(actual)] if is_classifier(model) else np.ones(len(actual))


def _targets(model: Any, residuals: np.ndarray) -> np.ndarray:
    """Targets as used in the fit, (rows, outputs)."""
    if hasattr(model, "_problem_"):
        return arrays.to_numpy(model._problem_.y)
    if not is_classifier(model):
        return residuals + arrays.to_numpy(model.loo_predictions_).reshape(residuals.shape)
    labels = np.array([1]) if residuals.shape[1] == 1 else np.arange(residuals.shape[1])
    return np.where(arrays.to_numpy(model._codes_)[:, None] == labels[None, :], 1.0, -1.0)


def loo_probabilities(model: Any) -> tuple[np.ndarray, np.ndarray]:
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
    if getattr(model, "coding_", "") == "one-vs-one":  # decision values are 2 p - 1
        return 0.5 * (rows.predicted + 1.0), class_numbers(rows.actual)
    return probabilities(rows.predicted, arrays.to_numpy(model._calibration())), class_numbers(rows.actual)


def class_codes(model: Any, y: Any) -> np.ndarray:
    """Class numbers of labels, as positions in ``classes_``; ValueError for labels that were not seen in `fit`."""
    if not hasattr(model, "classes_"):
        check_fitted(model)
        raise ValueError(f"{type(model).__name__} has no classes: give a fitted LSSVC.")
    labels = np.asarray(arrays.to_numpy(y))
    unknown = np.setdiff1d(labels, model.classes_)
    if len(unknown):
        raise ValueError(f"y contains the class {unknown[0]!r}, which is not among the classes {model.classes_!r}.")
    return np.searchsorted(model.classes_, labels)


def scores(model: Any) -> dict[str, float]:
    """Leave-one-out scores: RMSE, MAE and R2 for regression; error rate, log loss and Brier score for classes.

    Rows are weighted by the sample weights as given. Robust weights, class weights and the rows that a step such as
    `sparsify.Prune` has dropped make no difference.

    Parameters
    ----------
    model : LSSVR or LSSVC
        Fitted model.

    Returns
    -------
    dict of str to float
        Keys ``rmse``, ``mae``, ``r2`` or ``error_rate``, ``log_loss``, ``brier``.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, diagnose, kernels
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(kernels.RBF(13.1), C=830.0).fit(X, y)
    >>> {name: round(value, 2) for name, value in diagnose.scores(model).items()}
    {'rmse': 23.04, 'mae': 17.55, 'r2': 0.77}
    """
    rows = loo_values(model)
    if not is_classifier(model):
        return number_scores(rows.actual, rows.predicted, rows.given)
    return class_scores(*loo_probabilities(model), rows.given)


def beats_constant(model: Any) -> bool:
    """Whether the leave-one-out error is smaller than that of predicting the mean, or always the largest class."""
    found = scores(model)
    if not is_classifier(model):
        return found["r2"] > 0
    rows = loo_values(model)
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


def compares_classifiers(model: Any) -> bool:
    """Whether the coding and the loss were compared or are others than least squares, one class against the rest.

    Such a model is no single system of least squares, and does not keep its rows.
    """
    return hasattr(model, "coding_") and not hasattr(model, "_problem_") and _sample(model) is None


def _whole_problem(model: Any, what: str) -> Problem:
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
    return problem.replace(kernel=model.kernel_, C=model.C_, weights=_weights(model), robust=None)


def _weights(model: Any) -> Any:
    return arrays.like(arrays.to_numpy(model.weights_), model._problem_.weights)


def c_path(model: Any, decades: float = 4.0, n_values: int = 41) -> tuple[np.ndarray, np.ndarray]:
    """Leave-one-out errors along a path of C, from one factorisation.

    Kernel, basis and weights stay as they are.

    Parameters
    ----------
    model : LSSVR or LSSVC
        Fitted model.
    decades : float
        The path extends over this many decades on either side of ``C_``.
    n_values : int
        Number of values of C; if it is odd, ``C_`` is one of them.

    Returns
    -------
    C : array (n_values,)
    errors : array (n_values,)
        Weighted root mean square leave-one-out residual over all outputs, as in `scores`. For classes, the mean log
        loss of the leave-one-out decision values, by which `tune.LeaveOneOut` chooses C.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, diagnose, kernels
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> C, errors = diagnose.c_path(LSSVR(kernels.RBF(13.1), C=830.0).fit(X, y), n_values=5)
    >>> errors.round(1)
    array([35.9, 25.4, 23. , 23.5, 23.7])
    """
    problem = _whole_problem(model, "The path of C")
    values = model.C_ * np.logspace(-decades, decades, n_values)
    return values, _errors_along(problem, values, "The path of C")


def _errors_along(problem: Problem, values: np.ndarray, what: str) -> np.ndarray:
    """The root mean square leave-one-out residual (classes: mean log loss) for each C, from one factorisation."""
    if problem.reduced:
        raise NotKnown(f"{what}: this model is solved on columns of the KKT system, for one C only.")
    factor = problem.factorise(float(values[-1]), every=True)
    if problem.classification:
        return class_errors(factor, values.tolist())
    weights = arrays.to_numpy(problem.weights)[factor.rows]
    squares = np.zeros(len(values))
    for rows, residuals in factor.loo_path(values.tolist()):
        squares += weights[rows] @ np.mean(arrays.to_numpy(residuals) ** 2, axis=2)
    return np.sqrt(squares / weights.sum())


def width_surface(model: Any, n_widths: int = 21, n_values: int = 33) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Leave-one-out errors over a grid of C and of a common factor of all widths.

    The factor covers one decade on either side of 1, C four decades on either side of ``C_``; each factor takes one
    factorisation. Basis and weights stay as they are.

    Parameters
    ----------
    model : LSSVR or LSSVC
        Fitted model whose kernel has widths; ValueError for other kernels.
    n_widths, n_values : int
        Numbers of factors and of values of C.

    Returns
    -------
    C : array (n_values,)
    factors : array (n_widths,)
    errors : array (n_widths, n_values)
        As in `c_path`.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, diagnose, kernels
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(kernels.RBF(13.1), C=830.0).fit(X, y)
    >>> C, factors, errors = diagnose.width_surface(model, n_widths=3, n_values=5)
    >>> errors.round(1)
    array([[ 37.6,  27. ,  31.8,  77.3, 442.4],
           [ 35.9,  25.4,  23. ,  23.5,  23.7],
           [ 47.8,  45.8,  43.4,  40.3,  40. ]])
    """
    problem = _whole_problem(model, "The surface of widths and C")
    leaves = problem.kernel.leaves
    if not leaves:
        raise NotKnown(f"{model.kernel_!r} has no widths: give a model with a kernel such as kernels.RBF or Matern.")
    values = model.C_ * np.logspace(-4.0, 4.0, n_values)
    factors = np.logspace(-1.0, 1.0, n_widths)
    errors = [
        _errors_along(
            problem.replace(kernel=problem.kernel.with_widths([factor * leaf.sigma for leaf in leaves])),
            values,
            "The surface of widths and C",
        )
        for factor in factors.tolist()
    ]
    return values, factors, np.array(errors)


def feature_names(model: Any) -> list[str]:
    """Names of the columns: those seen in `fit`, or else "column 0", "column 1", ..."""
    check_fitted(model)
    names = getattr(model, "feature_names_in_", None)
    return [f"column {c}" for c in range(model.n_features_in_)] if names is None else [str(name) for name in names]


def inverse_widths(model: Any) -> np.ndarray:
    """Inverse widths of the columns: spread/sigma, the largest value over the parts of the kernel.

    The larger the value, the more f may vary along the column. A column with a small value may still have an almost
    linear effect; 0 means that the column is dropped (see `columns_used`). Raises ValueError for kernels without
    widths.
    """
    check_fitted(model)
    leaves = model.kernel_.leaves
    if not leaves:
        raise NotKnown(f"{model.kernel_!r} has no widths: give a model with a kernel such as kernels.RBF or Matern.")
    spread = _spread(model)
    return np.where(columns_used(model), np.max([spread / _sigma(leaf, len(spread)) for leaf in leaves], axis=0), 0.0)


def columns_used(model: Any) -> np.ndarray:
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
    return _used(model.kernel_, _spread(model))


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


def _spread(model: Any) -> np.ndarray:
    """The spread of the columns over the training rows, or over the basis if the rows are not kept."""
    problem = getattr(model, "_problem_", None)
    return np.std(arrays.to_numpy(model.support_vectors_), axis=0) if problem is None else column_spread(problem)


def reliability(
    probability: np.ndarray, codes: np.ndarray, n_bins: int = 10, weights: np.ndarray | None = None
) -> Bunch:
    """Predicted probabilities and observed frequencies in bins of equal count.

    Parameters
    ----------
    probability : array (rows, classes)
        For two classes the probability of the second is used, otherwise that of the predicted class.
    codes : array (rows,)
        Class numbers of the rows.
    n_bins : int
        Largest number of bins.
    weights : array (rows,) or None
        Positive weights of the rows.

    Returns
    -------
    Bunch
        ``predicted``, ``observed``, ``count`` and the ends ``low`` and ``high`` of Wilson's 95 % interval for each bin;
        with weights, the interval for (sum w)^2/sum w^2 rows.
    """
    w = np.ones(len(codes)) if weights is None else weights
    if probability.shape[1] == 2:
        p, hit = probability[:, 1], codes == 1
    else:
        named = np.argmax(probability, axis=1)
        p, hit = probability[np.arange(len(codes)), named], codes == named
    order = np.argsort(p, kind="stable")
    parts = [part for part in np.array_split(order, min(n_bins, len(order))) if len(part)]
    predicted = np.array([np.average(p[part], weights=w[part]) for part in parts])
    observed = np.array([np.average(hit[part], weights=w[part]) for part in parts])
    count = np.array([len(part) for part in parts])
    n = np.array([w[part].sum() ** 2 / np.sum(w[part] ** 2) for part in parts])
    z2 = 1.96**2
    middle = (observed + z2 / (2 * n)) / (1 + z2 / n)
    half = np.sqrt(z2) / (1 + z2 / n) * np.sqrt(observed * (1 - observed) / n + z2 / (4 * n**2))
    return Bunch(predicted=predicted, observed=observed, count=count, low=middle - half, high=middle + half)


def coverage_path(model: Any, coverages: Any = (0.5, 0.8, 0.9, 0.95), rows: int = 500) -> Bunch:
    """Exact share of the training rows that lie in the jackknife+ interval of the model fitted without them.

    The interval of row i comes from the models without rows i and j, for all other rows j: with H the matrix of
    df(x_i)/dy_j and e the residuals, the residuals of rows i and j left out together are (I - H_BB)^-1 e_B,
    B = {i, j}, so that one factorisation serves all pairs. C, kernel, weights and basis are held fixed, even if
    `predict_interval` repeats the search without folds: widths that were chosen with too few rows are not detected
    here. For a model fitted on chunks the rows are those of its sample.

    Parameters
    ----------
    model : LSSVR
        Fitted model.
    coverages : sequence of float
        Nominal coverages.
    rows : int
        Largest number of rows to test; they are evenly spaced.

    Returns
    -------
    Bunch
        ``asked`` (levels,); ``observed`` coverage and mean ``width`` (infinite if an interval is), each (levels,) or
        (levels, outputs); and ``rows``, the numbers of the rows tested.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, diagnose, kernels
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> path = diagnose.coverage_path(LSSVR(kernels.RBF(13.1), C=830.0).fit(X, y))
    >>> path.asked, path.observed.round(2)
    (array([0.5 , 0.8 , 0.9 , 0.95]), array([0.5 , 0.8 , 0.9 , 0.95]))
    """
    check_fitted(model)
    if is_classifier(model):
        raise NotKnown("Prediction intervals exist only for LSSVR: for LSSVC use predict_proba.")
    sample = None if hasattr(model, "_problem_") else _sample(model)
    if sample is not None:
        counting, found, own = np.arange(len(sample.weights)), sample, sample.columns(sample.X)
    else:
        problem = _whole_problem(model, "Interval coverage")
        factor = problem.factorise()
        counting, found = factor.rows, model.leave_one_out()._fit_
    n = len(counting)
    if n < 3:
        raise NotKnown(f"Interval coverage needs at least 3 rows, got {n}.")
    tested = np.unique(np.linspace(0, n - 1, min(rows, n)).astype(int))
    e = arrays.to_numpy(found.residuals)[counting]
    h = np.clip(arrays.to_numpy(found.leverage)[counting], 0.0, 1.0 - 1e-12)
    y = arrays.to_numpy(problem.y if sample is None else sample.targets)[counting]
    v = arrays.to_numpy(found.weights)[counting]
    ends = np.empty((len(coverages), len(tested), 2, e.shape[1]))
    for block in arrays.row_blocks(len(tested), 64 * n * e.shape[1]):
        part = tested[block]
        if sample is None:
            smoother = factor.smoother(arrays.take(problem.X, counting[part]), model.C_)
        else:
            smoother = sample.smoother(arrays.take(sample.X, part), own)
        H = arrays.to_numpy(smoother)  # (part, n): df_i/dy_j
        mirrored = H * (v[part, None] / v[None, :])  # df_j/dy_i = H_ij v_i/v_j, as V H is symmetric
        determinant = (1 - h[part, None]) * (1 - h[None, :]) - H * mirrored
        pair_i = ((1 - h[None, :, None]) * e[part, None, :] + H[:, :, None] * e[None, :, :]) / determinant[:, :, None]
        pair_j = (1 - h[part, None, None]) * e[None, :, :] + mirrored[:, :, None] * e[part, None, :]
        size = np.abs(pair_j / determinant[:, :, None])
        centre = y[part, None, :] - pair_i
        others = np.ones(H.shape, dtype=bool)
        others[np.arange(len(part)), part] = False
        low = (centre - size)[others].reshape(len(part), n - 1, -1)
        high = (centre + size)[others].reshape(len(part), n - 1, -1)
        for level, coverage in enumerate(coverages):
            ends[level, block, 0] = order_statistic(low, math.floor(round((1 - coverage) * n, 9)))
            ends[level, block, 1] = order_statistic(high, math.ceil(round(coverage * n, 9)))
    inside = (ends[:, :, 0] <= y[tested]) & (y[tested] <= ends[:, :, 1])
    width = ends[:, :, 1] - ends[:, :, 0]
    single = slice(None) if e.shape[1] > 1 else 0
    with np.errstate(invalid="ignore"):
        mean_width = np.where(np.isfinite(width).all(axis=1), width.mean(axis=1), np.inf)
    return Bunch(
        asked=np.array(coverages),
        observed=inside.mean(axis=1)[:, single],
        width=mean_width[:, single],
        rows=counting[tested],
    )
