"""Leave-one-out values, the scores that follow from them, and leave-one-out errors about the chosen C and widths."""

from __future__ import annotations

import functools
import math
from dataclasses import replace

import numpy as np
from scipy.special import entr
from sklearn.base import is_classifier
from sklearn.utils import Bunch

from .. import arrays
from ..arrays import ArrayLike
from ..coding import class_codes as codes_of
from ..estimators import LSSVC, LSSVR
from ..estimators.layout import LooValues
from ..estimators.regressor import distribution
from ..problem import Problem
from ..tune.choose_C import class_errors, mean_deviance
from .access import NotKnown, check_fitted, least_squares_problem

RARE = 0.1  # A rare class has less than this share of the rows (of many classes, half of an even share).
THRESHOLDS = np.array([0.5, 0.25, 0.1, 0.05, 0.01])  # Each is best if missing a row costs 1, 3, ... false alarms.


def loo_values(model: LSSVR | LSSVC) -> LooValues:
    """Return leave-one-out values of a fitted model.

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
    rows = model.fitted_.loo_values
    if rows is None or np.isnan(rows.residuals).any():
        cases = "Substrate or Components with refit=False, Adaline with final_solve=False"
        what = f"as after {cases}, and in older model files saved after partial_fit"
        raise NotKnown(f"{type(model).__name__} has no leave-one-out values, {what}: fit the model again.")
    return rows


def honest_values(model: LSSVR | LSSVC) -> LooValues:
    """Return leave-one-out values that include the search for widths and C, if these are many for so few rows.

    Leave-one-out residuals are exact for fixed widths and C, but a search that minimised them makes them too small.
    With fewer than 50 rows per parameter that `LSSVR` searched (one width per column counts once for each column, and
    C), the search is therefore repeated without each of three folds (five if the weights of a stack were chosen by
    these), and the change of the prediction that this causes is added to the residual. The first call takes about one
    to two times as long as the fit; the result is kept in the model and in its files. Otherwise, for `LSSVC` (whose
    widths are chosen on halves of the rows that judge each other) and after chunks, the values are those of
    `loo_values`. Intervals include the search with fewer than 25 rows per parameter.

    Parameters
    ----------
    model : LSSVR or LSSVC
        Fitted model.

    Returns
    -------
    LooValues
        Its ``residuals`` and ``predicted`` stand for those of new rows.

    Examples
    --------
    >>> import numpy as np
    >>> from lssvm import LSSVR, diagnose
    >>> draw = np.random.default_rng(3)
    >>> model = LSSVR().fit(draw.standard_normal((40, 8)), draw.standard_normal(40))  # nothing but noise
    >>> bool(np.std(diagnose.honest_values(model).residuals) > np.std(model.loo_residuals_))
    True
    """
    rows = loo_values(model)
    if is_classifier(model):
        return rows
    found = distribution(model, "jackknife+", errors=True)
    if found.residuals is found.model.residuals:
        return rows
    table, residuals = model.fitted_.members[0].training, rows.residuals.copy()
    scaled = found.model.scaled(rows.actual[table.rows]) - found.residuals / found.model.roots
    residuals[table.rows] = rows.actual[table.rows] - found.model.ends(scaled)
    return replace(rows, residuals=residuals)


def loo_probabilities(model: LSSVR | LSSVC) -> tuple[np.ndarray, np.ndarray]:
    """Return class probabilities from leave-one-out decision values, and the actual classes.

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
    return model.fitted_.probabilities_of(rows.predicted), rows.codes


def class_codes(model: LSSVR | LSSVC, y: ArrayLike) -> np.ndarray:
    """Return the positions of labels in ``classes_``; raise ValueError for labels that were not seen in `fit`."""
    if not hasattr(model, "classes_"):
        check_fitted(model)
        raise ValueError(f"{type(model).__name__} has no classes: give a fitted LSSVC.")
    labels = np.asarray(arrays.to_numpy(y))
    return codes_of(labels, model.classes_, "remove its rows, or fit the model to all classes")


def scores(model: LSSVR | LSSVC) -> dict[str, float]:
    """Return scores for new rows: RMSE, MAE, R2 and CRPS, or for classes error rate, log loss and Brier score.

    They are those of `honest_values`: leave-one-out, including the search for widths and C where rows are few. CRPS is
    that of the distribution behind intervals, which includes it with fewer than 25 rows per parameter.

    For a loss of counts or positive targets, the mean deviance takes the place of CRPS.

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
        Keys ``rmse``, ``mae``, ``r2``, ``crps`` or ``deviance``; or ``error_rate``, ``log_loss``, ``brier``.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, diagnose, kernels
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(kernels.RBF(13.1), C=830.0).fit(X, y)
    >>> {name: round(value, 2) for name, value in diagnose.scores(model).items()}
    {'rmse': 23.04, 'mae': 17.55, 'r2': 0.77, 'crps': 12.31}
    """
    rows = honest_values(model)
    if not is_classifier(model):
        found = number_scores(rows.actual, rows.predicted, rows.given)
        if model.loss != "squared":
            return {**found, "deviance": mean_deviance(model.loss, rows.actual, rows.predicted, rows.given)}
        table = model.fitted_.members[0].training
        weights = arrays.to_numpy(table.weights)[table.rows]
        crps = np.average(distribution(model).loo_crps(), axis=0, weights=weights)
        return {**found, "crps": float(np.mean(crps))}
    return class_scores(*loo_probabilities(model), rows.given)


def beats_constant(model: LSSVR | LSSVC) -> bool:
    """Return whether the error (see `honest_values`) is smaller than by predicting the mean or the largest class.

    A classifier may also have probabilities with a smaller log loss, by a tenth, than the frequencies of the classes:
    of a rare class, no row may have a probability above 1/2.
    """
    rows = honest_values(model)
    if not is_classifier(model):
        return number_scores(rows.actual, rows.predicted, rows.given)["r2"] > 0
    counts = np.bincount(rows.codes, rows.given)
    better = scores(model)["error_rate"] < 1 - counts.max() / counts.sum()
    return better or relative_log_loss(model) < 0.9


def relative_log_loss(model: LSSVR | LSSVC) -> float:
    """Return the leave-one-out log loss of a classifier, relative to that of the frequencies of the classes."""
    rows = loo_values(model)
    chance = np.sum(entr(np.bincount(rows.codes, rows.given) / rows.given.sum()))
    return float(scores(model)["log_loss"] / max(chance, np.finfo(float).tiny))


def rare_class(model: LSSVR | LSSVC) -> Bunch | None:
    """Return how well the least frequent class is found at several decision thresholds, by leave-one-out.

    If a missed row of the class costs as much as k false alarms, the class is best named wherever its probability is at
    least 1/(1 + k).

    Parameters
    ----------
    model : LSSVC
        Fitted classifier.

    Returns
    -------
    Bunch or None
        None if no class is rare: if each has a tenth of the rows or, of more than five classes, half of an even share.
        ``code`` of the class, as a position in ``classes_``, its ``share`` of the rows, ``average_precision``; for
        each ``threshold``, the share of rows ``named``, ``recall`` and ``precision`` (NaN if no row is named),
        (levels,); and ``best``, the level with the largest F1 score. All are weighted by the sample weights.

    Examples
    --------
    >>> from lssvm import LSSVC, datasets, diagnose, kernels
    >>> X, y = datasets.load_ripley(return_X_y=True)
    >>> rows = [*range(125), *range(125, 250, 12)]  # all of one class, one of 12 of the other one
    >>> found = diagnose.rare_class(LSSVC(kernels.RBF(0.4), C=1.0).fit(X[rows], y[rows]))
    >>> round(found.share, 2), round(found.average_precision, 1)
    (0.08, 0.4)
    >>> found.threshold[found.best], found.recall[found.best].round(1)
    (np.float64(0.25), np.float64(0.3))
    """
    from sklearn.metrics import average_precision_score

    probability, codes = loo_probabilities(model)
    w = loo_values(model).given
    shares = np.bincount(codes, w, minlength=probability.shape[1]) / w.sum()
    code = int(np.argmin(np.where(shares > 0, shares, np.inf)))
    if shares[code] >= min(RARE, 0.5 / np.sum(shares > 0)):
        return None
    p, own = probability[:, code], np.where(codes == code, w, 0.0)
    names = p >= THRESHOLDS[:, None]
    named, found = names @ w, names @ own
    result = Bunch(code=code, share=float(shares[code]), threshold=THRESHOLDS)
    result.average_precision = float(average_precision_score(codes == code, p, sample_weight=w))
    result.update(named=named / w.sum(), recall=found / own.sum(), precision=found / np.where(named > 0, named, np.nan))
    result.best = int(np.argmax(found / (named + own.sum())))
    return result


def number_scores(actual: np.ndarray, predicted: np.ndarray, weights: np.ndarray | None = None) -> dict[str, float]:
    """Return the weighted RMSE, MAE and R2, over all outputs together."""
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
    """Return the weighted error rate, log loss and Brier score (summed over classes) of class probabilities."""
    own = probability[np.arange(len(codes)), codes]
    truth = np.eye(probability.shape[1])[codes]
    mean = functools.partial(np.average, weights=weights)
    return {
        "error_rate": float(mean(np.argmax(probability, axis=1) != codes)),
        "log_loss": float(-mean(np.log(np.maximum(own, np.finfo(float).tiny)))),
        "brier": float(mean(np.sum((probability - truth) ** 2, axis=1))),
    }


# Errors about the chosen values ---------------------------------------------------------------------------------------
def c_path(model: LSSVR | LSSVC, decades: float = 4.0, n_values: int = 41) -> tuple[np.ndarray, np.ndarray]:
    """Return leave-one-out errors along a path of C, from one factorisation.

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
    problem = least_squares_problem(model, "The path of C")
    values = model.C_ * np.logspace(-decades, decades, n_values)
    return values, _errors_along(problem, values, "The path of C")


def _errors_along(problem: Problem, values: np.ndarray, what: str) -> np.ndarray:
    """Return the root mean square leave-one-out residual (classes: mean log loss) of each C, from one factor."""
    if problem.reduced:
        raise NotKnown(f"{what}: this model is solved on columns of the KKT system, for one C only.")
    factor = problem.factorise(float(values[-1]), every=True)
    if problem.classification:
        return class_errors(factor, values.tolist())
    weights = arrays.to_numpy(problem.weights)[factor.problem.rows]
    squares = np.zeros(len(values))
    for rows, residuals in factor.system.loo_path((1.0 / values).tolist()):
        squares += weights[rows] @ np.mean(arrays.to_numpy(residuals) ** 2, axis=2)
    return np.sqrt(squares / weights.sum())


def width_surface(model: LSSVR | LSSVC, n_widths: int = 21, n_values: int = 33) -> tuple[np.ndarray, ...]:
    """Return leave-one-out errors over a grid of C and of a common factor of all widths.

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
    what = "The surface of widths and C"
    problem = least_squares_problem(model, what)
    leaves = problem.kernel.leaves
    if not leaves:
        raise NotKnown(f"{model.kernel_!r} has no widths: give a model with a kernel such as kernels.RBF or Matern.")
    values, factors = model.C_ * np.logspace(-4.0, 4.0, n_values), np.logspace(-1.0, 1.0, n_widths)
    wider = [problem.kernel.with_widths([factor * leaf.sigma for leaf in leaves]) for factor in factors.tolist()]
    return values, factors, np.array([_errors_along(problem.replace(kernel=own), values, what) for own in wider])
