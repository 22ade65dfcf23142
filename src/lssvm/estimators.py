"""LSSVR and LSSVC: validate, build the Problem, run the steps, store the result."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_array, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from .intervals import calibrate, jackknife_plus, probabilities
from .kernels import Precomputed, as_kernel
from .problem import Fit, Problem, Step
from .robust import as_weight_function
from .sparsify import Random
from .tune import LeaveOneOut

DENSE_ROWS = 2000  # steps=None: the basis is all rows up to here,
BASIS_SIZE = 500  # and this many rows beyond


class _LSSVM(BaseEstimator):
    """What both estimators share."""

    kernel: Any
    C: Any
    steps: Any
    robust: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = isinstance(self.kernel, Precomputed)
        return tags

    def _problem(self, X: np.ndarray, targets: np.ndarray, weights: np.ndarray, **fields: Any) -> Problem:
        """The problem before its steps, constructor arguments checked."""
        C = self.C
        if C is not None and not (isinstance(C, Real) and 0 < float(C) < np.inf):
            raise ValueError(f"C must be a positive, finite number or None (chosen by leave-one-out), got {C!r}.")
        kernel = as_kernel(self.kernel)
        robust = as_weight_function(self.robust)
        if robust is not None:
            robust.check()
        if not kernel.is_free:
            kernel.check(X.shape[1])
        if isinstance(kernel, Precomputed) and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"X has shape {X.shape}: with kernels.Precomputed, fit takes the square matrix of the training rows."
            )
        return Problem(kernel, X, targets, weights, C=None if C is None else float(C), robust=robust, **fields)

    def _solve(self, problem: Problem) -> tuple[Problem, Fit]:
        """Run the steps, choose what is still None, solve."""
        steps = default_steps(problem) if self.steps is None else self.steps
        if isinstance(steps, Step) or not isinstance(steps, Sequence):
            raise TypeError(f"steps must be a list of steps or None, got {steps!r}: write steps=[{steps!r}].")
        for step in (*steps, LeaveOneOut()):
            if isinstance(step, type) or not callable(step):
                raise TypeError(f"steps holds {step!r}, which is not a step: see lssvm.sparsify and lssvm.tune.")
            problem = step(problem)
        return problem, problem.solve()

    def _attributes(self, problem: Problem, fit: Fit, outputs: slice | int) -> dict[str, Any]:
        """Fitted attributes of the contract; `outputs` is 0 for a single output, kept one-dimensional."""
        intercept = fit.intercept[outputs]
        return {
            "support_": fit.support,
            "support_vectors_": fit.points,
            "dual_coef_": fit.coef[:, outputs],
            "intercept_": float(intercept) if np.ndim(intercept) == 0 else intercept,
            "C_": fit.C,
            "kernel_": fit.kernel,
            "weights_": fit.weights,
            "leverage_": fit.leverage,
            "loo_residuals_": fit.loo_residuals[:, outputs],
            "press_": float(fit.weights @ np.sum(fit.loo_residuals**2, axis=1)),
            "path_": _main_path(problem),
            "_problem_": problem,
            "_fit_": fit,
        }

    def _store(self, checked: _LSSVM, attributes: dict[str, Any]) -> None:
        """Replace all fitted attributes at once: an interrupted fit leaves the previous model, or none."""
        kept = {name: value for name, value in vars(self).items() if not name.endswith("_")}
        seen = {name: value for name, value in vars(checked).items() if name in ("n_features_in_", "feature_names_in_")}
        self.__dict__ = {**kept, **seen, **attributes}

    def _raw_predict(self, X: Any) -> np.ndarray:
        X = self._checked(X)
        return self._fit_.predict(X)

    def _checked(self, X: Any) -> np.ndarray:
        """New rows, validated; the columns of a precomputed kernel may be the training rows or only the basis."""
        check_is_fitted(self)
        if not isinstance(self.kernel_, Precomputed):
            return validate_data(self, X, dtype=np.float64, reset=False)
        columns = getattr(X, "shape", (0, 0))[-1]
        if columns == len(self.support_) != self.n_features_in_:
            basis_columns = check_array(X, dtype=np.float64)
            X = np.zeros((basis_columns.shape[0], self.n_features_in_))
            X[:, self.support_] = basis_columns
        return validate_data(self, X, dtype=np.float64, reset=False)


class LSSVR(MultiOutputMixin, RegressorMixin, _LSSVM):
    """Least-squares support vector regression; with one C and one kernel also known as kernel ridge regression.

    Minimises 1/2 beta' K beta + C/2 sum_i v_i (y_i - f(x_i))^2 with f(x) = sum_j beta_j k(x, x_j) + b, b not penalised.
    What is left at None is chosen by exact leave-one-out.

    Parameters
    ----------
    kernel : Kernel, callable k(X, Z) or None
        None is `kernels.RBF()`. A `sigma` that is given applies to the columns as they are; one left at None is
        searched in units of each column's spread.
    C : float or None
        Weight of the errors against smoothness (the papers' gamma; the ridge is 1/C).
    steps : list of steps or None
        Sparsifiers and tuners, run in this order. None plans by size: the basis is all rows up to 2000, 500 drawn rows
        beyond. An empty list means no step. What is still None after the steps is chosen by leave-one-out.
    robust : str, weight function or None
        "hampel", "huber", "logistic", "myriad" or an object of `lssvm.robust`: weighted LS-SVM.

    Attributes
    ----------
    support_ : array (n,) or None
        Rows of the basis; None when the basis points are not rows.
    support_vectors_ : array (n, n_features)
        Basis points; column numbers for `kernels.Precomputed`.
    dual_coef_ : array (n,) or (n, n_outputs)
    intercept_ : float or array (n_outputs,)
    C_, kernel_ : float, Kernel
        As given or chosen.
    weights_ : array (n_samples,)
        Sample weight times robust weight.
    leverage_ : array (n_samples,)
    loo_residuals_ : array like y
        y_i - f_(i)(x_i), exact for fixed C, kernel, basis and weights: row i leaves the loss, its basis vector stays.
    loo_predictions_ : array like y
        f_(i)(x_i).
    press_ : float
        sum of weights_ * loo_residuals_^2.
    path_ : Bunch or None
        What the last step that searched has recorded.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR().fit(X, y)
    >>> model.predict([[15.0]]).shape
    (1,)
    """

    def __init__(self, kernel: Any = None, C: Any = None, *, steps: Any = None, robust: Any = None) -> None:
        self.kernel = kernel
        self.C = C
        self.steps = steps
        self.robust = robust

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LSSVR:
        """Fit the machine.

        Parameters
        ----------
        X : array (n_samples, n_features)
            The square kernel matrix for `kernels.Precomputed`.
        y : array (n_samples,) or (n_samples, n_outputs)
        sample_weight : array (n_samples,) or None
            Not negative. A weight of 0 removes the row; integer weights equal copies of rows for the fit.

        Returns
        -------
        self
        """
        checked = copy.copy(self)
        X, y = validate_data(checked, X, y, dtype=np.float64, multi_output=True, y_numeric=True, ensure_min_samples=2)
        y = y.astype(np.float64)
        targets = y[:, None] if y.ndim == 1 else y
        weights = _check_weights(sample_weight, len(y))
        problem, fit = self._solve(self._problem(X, targets, weights))
        attributes = self._attributes(problem, fit, 0 if y.ndim == 1 else slice(None))
        attributes["loo_predictions_"] = y - attributes["loo_residuals_"]
        self._store(checked, attributes)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """f(x) for every row.

        Parameters
        ----------
        X : array (n_samples, n_features)

        Returns
        -------
        array (n_samples,) or (n_samples, n_outputs)
        """
        f = self._raw_predict(X)
        return f[:, 0] if self.dual_coef_.ndim == 1 else f

    def predict_interval(self, X: Any, coverage: float = 0.9) -> np.ndarray:
        """Jackknife+ prediction intervals, exact and without a refit.

        Parameters
        ----------
        X : array (n_samples, n_features)
        coverage : float
            Between 0 and 1. Too few rows for it give infinite ends.

        Returns
        -------
        array (n_samples, 2) or (n_samples, 2, n_outputs)
            Lower and upper ends.
        """
        X = self._checked(X)
        if not (isinstance(coverage, Real) and 0 < float(coverage) < 1):
            raise ValueError(f"coverage must lie between 0 and 1, got {coverage!r}: 0.9 gives 90 % intervals.")
        intervals = jackknife_plus(self._problem_, self._fit_, X, float(coverage))
        return intervals[:, :, 0] if self.dual_coef_.ndim == 1 else intervals


class LSSVC(ClassifierMixin, _LSSVM):
    """Least-squares support vector classification, two or many classes.

    The same machine as `LSSVR` on targets -1 and +1: one column for two classes, one column a class against the rest
    for more, all from one factorisation. The class with the largest decision value wins.

    Parameters
    ----------
    kernel, C, steps, robust
        As in `LSSVR`.
    class_weight : dict, "balanced" or None
        Weights of the classes, multiplied into the sample weights.

    Attributes
    ----------
    classes_ : array (n_classes,)
    loo_residuals_ : array (n_samples,) or (n_samples, n_classes)
        Coded target (-1 or +1) less the left-out decision value.
    loo_predictions_ : array (n_samples,)
        The class that the machine without row i gives to row i.
    support_, support_vectors_, dual_coef_, intercept_, C_, kernel_, weights_, leverage_, press_, path_
        As in `LSSVR`.

    Examples
    --------
    >>> from lssvm import LSSVC, datasets
    >>> ripley = datasets.load_ripley()
    >>> model = LSSVC().fit(ripley.data, ripley.target)
    >>> test = datasets.load_ripley(subset="test")
    >>> bool(model.score(test.data, test.target) > 0.88)
    True
    """

    def __init__(
        self, kernel: Any = None, C: Any = None, *, steps: Any = None, robust: Any = None, class_weight: Any = None
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.steps = steps
        self.robust = robust
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LSSVC:
        """Fit the machine.

        Parameters
        ----------
        X : array (n_samples, n_features)
            The square kernel matrix for `kernels.Precomputed`.
        y : array (n_samples,)
            Labels of any type.
        sample_weight : array (n_samples,) or None
            Not negative. A weight of 0 removes the row.

        Returns
        -------
        self
        """
        checked = copy.copy(self)
        X, y = validate_data(checked, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y holds only one class, {classes[0]!r}: a classifier needs at least 2 classes.")
        weights = _check_weights(sample_weight, len(y))
        present = np.unique(codes[weights > 0])
        if len(present) < 2:
            raise ValueError("sample_weight leaves fewer than 2 classes with a positive weight.")
        if self.class_weight is not None:
            of_class = compute_class_weight(self.class_weight, classes=classes, y=y, sample_weight=weights)
            weights = weights * _check_weights(of_class[codes], len(y), "class_weight")
        labels = np.arange(len(classes)) if len(classes) > 2 else np.array([1])
        targets = np.where(codes[:, None] == labels[None, :], 1.0, -1.0)
        problem, fit = self._solve(self._problem(X, targets, weights, classification=True))
        # Calibrate on one unit of weight left out, so that an integer weight is as good as copies of the row.
        copies = np.maximum(_check_weights(sample_weight, len(y)), 1.0)
        one_copy = fit.residuals / (1.0 - fit.leverage / copies)[:, None]
        unit = np.where(copies[:, None] > 1.0, one_copy, fit.loo_residuals)
        slopes = calibrate(targets - unit, codes, fit.weights)
        attributes = self._attributes(problem, fit, 0 if len(labels) == 1 else slice(None))
        attributes["classes_"] = classes
        attributes["loo_predictions_"] = _winner(targets - fit.loo_residuals, classes)
        attributes["_slopes_"] = slopes
        self._store(checked, attributes)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Decision values: (n_samples,) for two classes, positive for ``classes_[1]``; else (n_samples, n_classes)."""
        f = self._raw_predict(X)
        return f[:, 0] if self.dual_coef_.ndim == 1 else f

    def predict(self, X: Any) -> np.ndarray:
        """The class of every row.

        Parameters
        ----------
        X : array (n_samples, n_features)

        Returns
        -------
        array (n_samples,)
        """
        return _winner(self._raw_predict(X), self.classes_)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities (n_samples, n_classes), calibrated on left-out decision values without a refit.

        The most probable class is the one that `predict` names.
        """
        return probabilities(self._raw_predict(X), self._slopes_)


def default_steps(problem: Problem) -> Sequence[Step]:
    """The plan for ``steps=None``."""
    if len(problem.rows) <= DENSE_ROWS or isinstance(problem.kernel, Precomputed):
        return ()
    return (Random(BASIS_SIZE, random_state=0),)


def _main_path(problem: Problem) -> Any:
    """The record of the last step that searched, sparsifiers before the tuner that ends every fit."""
    names = list(problem.paths)
    chosen = [name for name in names if name != LeaveOneOut.__name__] or names
    return problem.paths[chosen[-1]] if chosen else None


def _winner(decision: np.ndarray, classes: np.ndarray) -> np.ndarray:
    if decision.shape[1] == 1:
        return classes[(decision[:, 0] > 0).astype(int)]
    return classes[np.argmax(decision, axis=1)]


def _check_weights(weights: Any, n_rows: int, name: str = "sample_weight") -> np.ndarray:
    if weights is None:
        return np.ones(n_rows)
    try:
        values = np.array(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must hold one number a row, got {weights!r}.") from None
    if values.ndim == 0:
        values = np.full(n_rows, float(values))
    if values.shape != (n_rows,):
        raise ValueError(f"{name}.shape == {values.shape}, expected {(n_rows,)}: give one weight a row.")
    if not np.isfinite(values).all():
        raise ValueError(f"{name} holds NaN or infinite values: give finite weights.")
    if (values < 0).any():
        row = int(np.argmin(values))
        raise ValueError(f"Negative values in {name}: {values[row]!r} in row {row}. Weights are zero or positive.")
    if np.count_nonzero(values) < 2:
        raise ValueError(
            f"{name} is zero in all rows but {np.count_nonzero(values)}: at least 2 rows need a positive weight."
        )
    return values
