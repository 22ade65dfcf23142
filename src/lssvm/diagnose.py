"""What a fitted machine knows about itself: left-out values, the path of C, widths of columns, coverage.

Everything is read from the fit or follows from one factorisation; nothing is refitted row by row. Displays, the report
and the command line draw and print what these functions return.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils import Bunch
from sklearn.utils.validation import check_is_fitted

from . import arrays
from .arrays import ArrayLike
from .estimators import LSSVC, LSSVR
from .intervals import order_statistic, probabilities
from .kernels import Additive, Kernel
from .problem import Problem, class_numbers, column_spread
from .tune import class_errors

__all__ = [
    "LeftOut",
    "beats_constant",
    "c_path",
    "class_codes",
    "class_scores",
    "columns_used",
    "coverage_path",
    "feature_names",
    "inverse_widths",
    "left_out",
    "left_out_probabilities",
    "number_scores",
    "reliability",
    "scores",
    "width_surface",
]


class NotKnown(ValueError):
    """A diagnosis that does not apply to a model, or needs what the model does not keep."""


@dataclass(frozen=True)
class LeftOut:
    """Every training row as the machine without it sees it; (rows, outputs) each, classes coded -1 and +1."""

    actual: np.ndarray
    predicted: np.ndarray
    given: np.ndarray  # (rows,): sample weight as given, by which the row counts in scores
    weights: np.ndarray  # (rows,): that of the machine, robust and class weights included
    robust: np.ndarray  # (rows,): robust weight alone
    leverage: np.ndarray  # (rows,)
    total: int  # number of training rows
    sampled: bool = False  # these are some of them, in no order

    @property
    def residuals(self) -> np.ndarray:
        """y - f_(i)(x_i)."""
        return self.actual - self.predicted


def check_fitted(model: Any, argument: str = "model") -> None:
    """TypeError or NotFittedError unless the argument is a fitted LSSVR or LSSVC."""
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
            f"{argument} must be a fitted LSSVR or LSSVC, got {got}: of a Pipeline give pipeline[-1], of a search "
            "best_estimator_."
        )


def left_out(model: LSSVR | LSSVC) -> LeftOut:
    """The left-out values of a fitted model, or a ValueError that says why there are none."""
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
            f"{type(model).__name__} has no leave-one-out values: sparsify.Substrate and Components without refit and "
            "Adaline without final_solve have none, nor has a file of an older version written after partial_fit. Fit "
            "it again."
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
    return LeftOut(actual, actual - residuals, given, weights, robust, arrays.to_numpy(model.leverage_), len(weights))


def _sample(model: Any) -> Any:
    """The sample that a model of chunks keeps of its rows, or None."""
    return model._left_out_sample() if hasattr(model, "_left_out_sample") else None


def _sampled(model: Any, sample: Any) -> LeftOut:
    """The rows of a sample, where the others are not kept."""
    actual, residuals, weights, own, leverage = (
        arrays.to_numpy(a)
        for a in (sample.targets, sample.loo_residuals, sample.weights, sample.sample_weights, sample.leverage)
    )
    given = own / _class_factors(model, actual)
    return LeftOut(actual, actual - residuals, given, weights, weights / own, leverage, sample.total, True)


def _class_factors(model: Any, actual: np.ndarray) -> np.ndarray:
    """The class weight of each row."""
    factors = np.array(getattr(model, "_class_factors_", [1.0, 1.0]))
    return factors[class_numbers(actual)] if is_classifier(model) else np.ones(len(actual))


def _targets(model: Any, residuals: np.ndarray) -> np.ndarray:
    """Targets as the machine saw them, (rows, outputs)."""
    if hasattr(model, "_problem_"):
        return arrays.to_numpy(model._problem_.y)
    if not is_classifier(model):
        return residuals + arrays.to_numpy(model.loo_predictions_).reshape(residuals.shape)
    labels = np.array([1]) if residuals.shape[1] == 1 else np.arange(residuals.shape[1])
    return np.where(arrays.to_numpy(model._codes_)[:, None] == labels[None, :], 1.0, -1.0)


def left_out_probabilities(model: LSSVR | LSSVC) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities (rows, classes) of the left-out decision values, and the class numbers of the rows."""
    check_fitted(model)
    if not is_classifier(model):
        raise NotKnown(f"{type(model).__name__} has no classes: probabilities are those of LSSVC.")
    rows = left_out(model)
    return probabilities(rows.predicted, arrays.to_numpy(model._calibration())), class_numbers(rows.actual)


def class_codes(model: LSSVR | LSSVC, y: ArrayLike) -> np.ndarray:
    """Class numbers of labels; a label that the model has not seen is a ValueError."""
    if not hasattr(model, "classes_"):
        check_fitted(model)
        raise ValueError(f"{type(model).__name__} has no classes: class numbers are those of LSSVC.")
    labels = np.asarray(arrays.to_numpy(y))
    unknown = np.setdiff1d(labels, model.classes_)
    if len(unknown):
        raise ValueError(f"y holds the class {unknown[0]!r}, which is not among the classes {model.classes_!r}.")
    return np.searchsorted(model.classes_, labels)


def scores(model: LSSVR | LSSVC) -> dict[str, float]:
    """Leave-one-out quality: of numbers RMSE, MAE, R2; of classes error rate, log loss and Brier score.

    Rows count by their sample weights as given (0: not at all); robust and class weights and rows that a step such as
    `sparsify.Prune` has dropped from the machine change nothing in this.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, diagnose, kernels
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(kernels.RBF(13.1), C=830.0).fit(X, y)
    >>> {name: round(value, 2) for name, value in diagnose.scores(model).items()}
    {'rmse': 23.04, 'mae': 17.55, 'r2': 0.77}
    """
    rows = left_out(model)
    if not is_classifier(model):
        return number_scores(rows.actual, rows.predicted, rows.given)
    return class_scores(*left_out_probabilities(model), rows.given)


def beats_constant(model: LSSVR | LSSVC) -> bool:
    """Whether the left-out error is smaller than that of the mean, or of always naming the largest class."""
    found = scores(model)
    if not is_classifier(model):
        return found["r2"] > 0
    rows = left_out(model)
    counts = np.bincount(class_numbers(rows.actual), rows.given)
    return found["error_rate"] < 1 - counts.max() / counts.sum()


def number_scores(actual: np.ndarray, predicted: np.ndarray, weights: np.ndarray | None = None) -> dict[str, float]:
    """RMSE, MAE and R2 over all outputs together, rows counting by their weights."""
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
    """Error rate, log loss and Brier score (sum over classes) of class probabilities, rows counting by weights."""
    own = probability[np.arange(len(codes)), codes]
    truth = np.eye(probability.shape[1])[codes]
    mean = functools.partial(np.average, weights=weights)
    return {
        "error_rate": float(mean(np.argmax(probability, axis=1) != codes)),
        "log_loss": float(-mean(np.log(np.maximum(own, np.finfo(float).tiny)))),
        "brier": float(mean(np.sum((probability - truth) ** 2, axis=1))),
    }


def _whole_problem(model: Any, what: str) -> Problem:
    """The solved problem with its final weights; ValueError where the model keeps no rows."""
    check_fitted(model)
    problem = getattr(model, "_problem_", None)
    if problem is None:
        raise NotKnown(f"{what} needs the training rows, which a model of partial_fit or fit_chunks does not keep.")
    if problem.coefficients is not None:
        raise NotKnown(f"{what}: the coefficients of this model were not solved for, so that C plays no part.")
    return problem.replace(kernel=model.kernel_, C=model.C_, weights=_weights(model), robust=None)


def _weights(model: Any) -> Any:
    return arrays.like(arrays.to_numpy(model.weights_), model._problem_.weights)


def c_path(model: LSSVR | LSSVC, decades: float = 4.0, n_values: int = 41) -> tuple[np.ndarray, np.ndarray]:
    """C about the model's own, and the root mean square left-out residual at each, from one factorisation.

    Of several outputs the mean is over all of them, as in `scores`; rows count by their weights.

    For classes the mean log loss of the left-out decision values, by which `tune.LeaveOneOut` chooses C. Kernel, basis
    and weights stay as they are. Decades are those on either side of ``C_``, which is among the values.

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
    """The root mean square left-out residual (classes: mean log loss) at each C, from one factorisation."""
    if problem.reduced:
        raise NotKnown(f"{what}: this machine is solved on columns of the KKT system, for one C only.")
    factor = problem.factorise(float(values[-1]), every=True)
    if problem.classification:
        return class_errors(factor, values.tolist())
    weights = arrays.to_numpy(problem.weights)[factor.rows]
    squares = np.zeros(len(values))
    for rows, residuals in factor.left_out(values.tolist()):
        squares += weights[rows] @ np.mean(arrays.to_numpy(residuals) ** 2, axis=2)
    return np.sqrt(squares / weights.sum())


def width_surface(
    model: LSSVR | LSSVC, n_widths: int = 21, n_values: int = 33
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """C, factors of the model's widths, and the root mean square left-out residual at each: (factors, values of C).

    For classes the mean log loss of the left-out decision values, as in `c_path`.
    All widths are multiplied by the same factor, a decade on either side; C goes over four decades on either side, from
    one factorisation a factor. The basis and the weights stay as they are. A ValueError for kernels without widths.

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
        raise NotKnown(f"{model.kernel_!r} has no widths: they are those of kernels.RBF and kernels.Matern.")
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


def feature_names(model: LSSVR | LSSVC) -> list[str]:
    """Names of the columns: those seen in fit, else column 0, column 1, ..."""
    check_fitted(model)
    names = getattr(model, "feature_names_in_", None)
    return [f"column {c}" for c in range(model.n_features_in_)] if names is None else [str(name) for name in names]


def inverse_widths(model: LSSVR | LSSVC) -> np.ndarray:
    """Spread/sigma of each column, the largest over the kernel's parts; 0: the column is left out (`columns_used`).

    The larger, the faster f may bend along the column. A column of a wide kernel may still matter, about linearly. A
    ValueError for kernels without widths.
    """
    check_fitted(model)
    leaves = model.kernel_.leaves
    if not leaves:
        raise NotKnown(f"{model.kernel_!r} has no widths: they are those of kernels.RBF and kernels.Matern.")
    spread = _spread(model)
    return np.where(columns_used(model), np.max([spread / _sigma(leaf, len(spread)) for leaf in leaves], axis=0), 0.0)


def columns_used(model: LSSVR | LSSVC) -> np.ndarray:
    """True for the columns that play a part: not where tuning left a column out, nor `Additive` its component.

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
    """Of the training rows, or of the basis, which is a sample of them."""
    problem = getattr(model, "_problem_", None)
    return np.std(arrays.to_numpy(model.support_vectors_), axis=0) if problem is None else column_spread(problem)


def reliability(
    probability: np.ndarray, codes: np.ndarray, n_bins: int = 10, weights: np.ndarray | None = None
) -> Bunch:
    """Predicted probability against the observed share, in bins of equal count.

    Of two classes, the probability of the second; of more, that of the class named. Returns ``predicted``,
    ``observed``, ``count`` and the ends ``low``, ``high`` of Wilson's 95 % interval of each bin. Rows count by their
    weights, which are positive; the interval is then that of (sum w)^2/sum w^2 rows.
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


def coverage_path(
    model: LSSVR | LSSVC, coverages: Sequence[float] | np.ndarray = (0.5, 0.8, 0.9, 0.95), rows: int = 500
) -> Bunch:
    """Share of the training rows inside the jackknife+ interval of the machine that never saw them, exactly.

    The interval of row i comes from the machines without i and j, j all other rows: with H the matrix of
    df(x_i)/dy_j and e the residuals, the residuals of rows i and j left out together are (I - H_BB)^-1 e_B, B = {i,
    j}, so that one factorisation serves all pairs. C, kernel, weights and basis are held fixed, also where
    `predict_interval` runs the search again without folds: widths that few rows chose look right here. Of a model of
    chunks the rows are those of its sample. At most `rows` rows, evenly spread, are tested. Returns ``asked``,
    ``observed``, ``width`` (mean of the finite ones), each (levels,) or (levels, outputs), and ``rows``.

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
        raise NotKnown("Intervals are those of numbers: LSSVC has predict_proba.")
    sample = None if hasattr(model, "_problem_") else _sample(model)
    if sample is not None:
        counting, found, own = np.arange(len(sample.weights)), sample, sample.columns(sample.X)
    else:
        problem = _whole_problem(model, "Interval coverage")
        factor = problem.factorise()
        counting, found = factor.rows, model.leave_one_out()._fit_
    n = len(counting)
    if n < 3:
        raise NotKnown(f"Interval coverage needs 3 rows at least, got {n}.")
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
