"""LSSVR and LSSVC: validate, build the Problem, run the steps, store the result."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from numbers import Real
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin, clone
from sklearn.utils import check_array, compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from .intervals import METHODS, calibrate, prediction_intervals, probabilities
from .kernels import RBF, Additive, Choice, Kernel, Matern, as_kernel, pick_columns
from .problem import Problem, Step
from .robust import as_weight_function
from .sparsify import Random
from .stream import Reservoir, Stream, fit_stream, normalise, reread, start_stream
from .tune import LeaveOneOut, describe, tuned

DENSE_ROWS = 2000  # steps=None: the basis is all rows up to here,
BASIS_SIZE = 500  # and this many rows beyond
SAMPLE_ROWS = 5000  # fit_chunks: kernel, C and basis are planned on a sample of this many rows
_SEEN = ("n_features_in_", "feature_names_in_", "classes_", "_single_output_")


def _adds_chunks(model: _LSSVM) -> bool:
    """Chunks add up without robust weights, which need the residuals of all rows, and for kernels of the columns."""
    if model.robust is not None:
        raise AttributeError(
            f"partial_fit with robust={model.robust!r}: use fit or fit_chunks, which see all residuals."
        )
    if getattr(model.kernel, "is_precomputed", False):
        raise AttributeError("partial_fit with kernels.Precomputed: give a kernel of the columns, or use fit.")
    return True


def _is_additive(model: _LSSVM) -> bool:
    kernel = getattr(model, "kernel_", model.kernel)
    if not isinstance(kernel, Additive):
        raise AttributeError(
            f"components with kernel={kernel!r}: an additive machine has kernel=kernels.Additive(...)."
        )
    return True


class _LSSVM(BaseEstimator):
    """What both estimators share: a subclass codes its targets (`_check_rows`) and adds to `_left_out`."""

    kernel: Any
    C: Any
    steps: Any
    robust: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = getattr(self.kernel, "is_precomputed", False)
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the machine.

        Parameters
        ----------
        X : array (n_samples, n_features)
            The square kernel matrix for `kernels.Precomputed`.
        y : array (n_samples,), or (n_samples, n_outputs) for regression
            Numbers for `LSSVR`, labels of any type for `LSSVC`.
        sample_weight : array (n_samples,) or None
            Not negative. A weight of 0 removes the row; integer weights equal copies of rows for the fit.

        Returns
        -------
        self
        """
        checked = copy.copy(self)
        X, y, weights = checked._check_rows(X, y, sample_weight, reset=True)
        with np.errstate(all="ignore"):  # what overflows ends in a ValueError that says so
            problem = checked._problem(X, y, weights)
            problem = run_steps(problem, default_steps(problem) if self.steps is None else self.steps)
            fit = problem.solve()
            describe(problem, fit)
            left_out = checked._left_out(problem.y, problem.weights, fit.weights, fit)
        attributes = {
            **checked._machine(fit.kernel, fit.C, fit.points, fit.coef, fit.intercept),
            **_additive(fit.kernel, fit.points, fit.coef, problem.X[problem.rows]),
            **left_out,
            "support_": fit.support,
            "path_": _main_path(problem),
            "_problem_": problem,
            "_fit_": fit,
        }
        self._store(checked, attributes)
        return self

    @available_if(_adds_chunks)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Add a chunk of rows to the machine, exactly: the result equals `fit` on all rows so far with this basis.

        The first call plans kernel, C and basis on its rows (500 of them for ``steps=None``); later calls keep them.
        Rows are not stored, so that leave-one-out quantities are not known.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.

        Returns
        -------
        self
        """
        return self._add_chunk(X, y, sample_weight)

    def _add_chunk(self, X: Any, y: Any, sample_weight: Any, **known: Any) -> Self:
        checked = copy.copy(self)
        stream: Stream | None = getattr(self, "_stream_", None)
        fitted: Problem | None = getattr(self, "_problem_", None)
        first = stream is None and fitted is None
        X, y, weights = checked._check_rows(X, y, sample_weight, reset=first, **(known if first else {}))
        calibration = {"_slopes_": self._slopes_} if hasattr(self, "_slopes_") else {}
        if stream is None and fitted is not None:
            stream = start_stream(fitted).add(fitted.X, fitted.y, fitted.weights)
        elif stream is None:
            problem = run_steps(checked._problem(X, y, weights), self._chunk_steps())
            stream = start_stream(problem)
            left_out = checked._left_out(y, weights, weights, problem.solve())
            calibration = {name: value for name, value in left_out.items() if name == "_slopes_"}
        stream = stream.add(X, y, weights)
        coef, intercept = stream.solve()
        kernel, points = stream.whitening.kernel, stream.points
        machine = checked._machine(kernel, stream.C, points, coef, intercept)
        machine.update(_additive(kernel, points, coef, points))
        self._store(checked, {**machine, **calibration, "support_": None, "path_": None, "_stream_": stream})
        return self

    def fit_chunks(self, chunks: Any) -> Self:
        """Fit the machine on rows that come in chunks and can be read again, with exact leave-one-out.

        Kernel, C and basis are planned on a sample of at most 5000 rows (500 of them are the basis for
        ``steps=None``); sums over all chunks then give the machine, and one more pass its leave-one-out residuals.

        Parameters
        ----------
        chunks : iterable of (X, y) or (X, y, sample_weight), or a function that returns a new iterator of them
            Read several times.

        Returns
        -------
        self
        """
        checked = copy.copy(self)
        start_again = reread(chunks)
        checked._prepare_chunks(start_again)

        def read(weights: np.ndarray | None = None) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
            row = 0
            for chunk in start_again():
                X, y, own = checked._check_rows(*normalise(chunk), reset=False)
                row += len(y)
                yield X, y, own if weights is None else weights[row - len(y) : row]

        sample, row_weights, targets = Reservoir(SAMPLE_ROWS), [], []
        for X, y, own in read():
            sample.add(X, y, own)
            row_weights.append(own)
            targets.append(y)
        stream = start_stream(run_steps(checked._problem(*sample.rows()), self._chunk_steps()))
        sample_weight, y = np.concatenate(row_weights), np.concatenate(targets)
        weights = sample_weight
        fit = fit_stream(read, stream.whitening, 1.0 / stream.C)
        robust = as_weight_function(self.robust)
        if robust is not None:
            for _ in range(robust.iterations):
                weights = sample_weight * robust(fit.residuals, sample_weight)
                fit = fit_stream(partial(read, weights), stream.whitening, 1.0 / stream.C)
        attributes = {
            **checked._machine(stream.whitening.kernel, stream.C, stream.points, fit.coef, fit.intercept),
            **_additive(stream.whitening.kernel, stream.points, fit.coef, stream.points),
            **checked._left_out(y, sample_weight, weights, fit),
            "support_": None,
            "path_": None,
        }
        self._store(checked, attributes)
        return self

    def _chunk_steps(self) -> Any:
        return (Random(BASIS_SIZE, random_state=0),) if self.steps is None else self.steps

    def _problem(self, X: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> Problem:
        """The problem before its steps, constructor arguments checked."""
        C = self.C
        if C is not None and (isinstance(C, bool) or not (isinstance(C, Real) and 1e-150 <= float(C) <= 1e150)):
            raise ValueError(
                f"C must be a positive, finite number (1e-150 to 1e150) or None (chosen by leave-one-out), got {C!r}."
            )
        kernel = (
            default_kernel(self) if self.kernel is None else clone(as_kernel(self.kernel))
        )  # the user's stays apart
        kernel = kernel.placed(X[weights > 0])
        robust = as_weight_function(self.robust)
        if robust is not None:
            robust.check()
        if not kernel.is_free:
            kernel.check(X.shape[1])
        if kernel.is_precomputed and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"X has shape {X.shape}: with kernels.Precomputed, fit takes the square matrix of the training rows."
            )
        if kernel.is_precomputed and np.max(np.abs(X - X.T)) > 1e-6 * np.max(np.abs(X)):
            raise ValueError(
                "X is not symmetric: with kernels.Precomputed, fit takes k(x_i, x_j) of the training rows."
            )
        C = None if C is None else float(C)
        return Problem(
            kernel,
            X,
            targets,
            weights,
            C=C,
            asked=(kernel, C),
            robust=robust,
            classification=isinstance(self, ClassifierMixin),
        )

    def _machine(
        self, kernel: Kernel, C: float, points: Any, coef: np.ndarray, intercept: np.ndarray
    ) -> dict[str, Any]:
        """The attributes that predict."""
        single = self._single_output_
        return {
            "support_vectors_": points,
            "dual_coef_": coef[:, 0] if single else coef,
            "intercept_": float(intercept[0]) if single else intercept,
            "C_": C,
            "kernel_": kernel,
        }

    def _left_out(
        self, targets: np.ndarray, sample_weight: np.ndarray, weights: np.ndarray, fit: Any
    ) -> dict[str, Any]:
        """The attributes of leave-one-out."""
        loo = fit.loo_residuals
        return {
            "weights_": weights,
            "leverage_": fit.leverage,
            "loo_residuals_": loo[:, 0] if self._single_output_ else loo,
            "press_": float(weights @ np.sum(loo**2, axis=1)),
        }

    def _store(self, checked: _LSSVM, attributes: dict[str, Any]) -> None:
        """Replace all fitted attributes at once: an interrupted fit leaves the previous model, or none."""
        kept = {name: value for name, value in vars(self).items() if not name.endswith("_")}
        seen = {name: value for name, value in vars(checked).items() if name in _SEEN}
        self.__dict__ = {**kept, **seen, **attributes}

    @available_if(_is_additive)
    def components(self, X: Any) -> np.ndarray:
        """The functions of one input each that an additive machine is the sum of, each with mean 0 over the rows.

        Their sum differs from the prediction (of a classifier, the decision value) by a constant. Inputs that are not
        kept have zeros. Of a model of `partial_fit` or `fit_chunks` the means are those over the basis points.

        Parameters
        ----------
        X : array (n_samples, n_features)

        Returns
        -------
        array (n_samples, n_components) or (n_samples, n_components, n_outputs)
            One component an input, or a group of `kernels.Additive`.
        """
        X = self._checked(X)
        coef = self.dual_coef_[:, None] if self.dual_coef_.ndim == 1 else self.dual_coef_
        with np.errstate(all="ignore"):
            values = _raw_components(self.kernel_, self.support_vectors_, coef, X) - self._component_means_
        return values[:, :, 0] if self.dual_coef_.ndim == 1 else values

    def _raw_predict(self, X: Any) -> np.ndarray:
        """f(x), rows x outputs."""
        X = self._checked(X)
        with np.errstate(all="ignore"):
            f = self._evaluate(X)
        if not np.isfinite(f).all():
            raise ValueError("Predictions overflow: scale your features, at fit and at predict.")
        return f

    def _evaluate(self, X: np.ndarray) -> np.ndarray:
        coef = self.dual_coef_[:, None] if self.dual_coef_.ndim == 1 else self.dual_coef_
        return self.kernel_.dot(X, self.support_vectors_, coef) + self.intercept_

    def _checked(self, X: Any) -> np.ndarray:
        """New rows, validated; the columns of a precomputed kernel may be the training rows or only the basis."""
        check_is_fitted(self)
        if not self.kernel_.is_precomputed:
            return _validate(self, X, reset=False)
        K = check_array(X, dtype=np.float64)
        if K.shape[1] == len(self.support_) != self.n_features_in_:
            X = np.zeros((K.shape[0], self.n_features_in_))
            X[:, self.support_] = K
        return _validate(self, X, reset=False)


class LSSVR(MultiOutputMixin, RegressorMixin, _LSSVM):
    """Least-squares support vector regression; with one C and one kernel also known as kernel ridge regression.

    Minimises 1/2 beta' K beta + C/2 sum_i v_i (y_i - f(x_i))^2 with f(x) = sum_j beta_j k(x, x_j) + b, b not penalised.
    What is left at None is chosen by exact leave-one-out.

    Parameters
    ----------
    kernel : Kernel, callable k(X, Z) or None
        None takes the better of `RBF` and `Matern` by leave-one-out, with one width a column (``ard=True``). A `sigma`
        that is given applies to the columns as they are; one left at None is searched in units of their spread.
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
    active_ : array of int
        Additive machines (`kernels.Additive`): the inputs (or groups of columns) kept.
    max_variation_ : array (n_components,)
        Additive machines: the largest |f^l(x_i)| over the rows, of the centred components.
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

    def _check_rows(
        self, X: Any, y: Any, sample_weight: Any, *, reset: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Validated rows, targets (rows x outputs) and weights."""
        smallest = 2 if reset else 1
        X, y = _validate(self, X, y, multi_output=True, y_numeric=True, ensure_min_samples=smallest, reset=reset)
        if issparse(y):
            raise TypeError("y is a sparse matrix: give a dense array.")
        try:
            y = y.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"y holds values that are no numbers ({error}): LSSVR predicts numbers, LSSVC classes."
            ) from None
        if np.max(np.abs(y), initial=0.0) > 1e150:
            raise ValueError(f"y holds {np.max(np.abs(y)):.3g}, whose square overflows: rescale y.")
        if reset:
            self._single_output_ = y.ndim == 1
        targets = y[:, None] if y.ndim == 1 else y
        if not reset and hasattr(self, "dual_coef_") and targets.shape[1] != np.atleast_1d(self.intercept_).shape[0]:
            raise ValueError(f"y has {targets.shape[1]} outputs, the machine has {np.size(self.intercept_)}.")
        return X, targets, _check_weights(sample_weight, len(y), smallest)

    def _prepare_chunks(self, read: Callable[[], Iterator[Any]]) -> None:
        """Learn columns and outputs from the first chunk."""
        for chunk in read():
            X, y, weight = normalise(chunk)
            self._check_rows(X, y, weight, reset=True)
            return
        raise ValueError("chunks is empty: give at least one (X, y).")

    def _left_out(
        self, targets: np.ndarray, sample_weight: np.ndarray, weights: np.ndarray, fit: Any
    ) -> dict[str, Any]:
        attributes = super()._left_out(targets, sample_weight, weights, fit)
        f = targets - fit.loo_residuals
        return {**attributes, "loo_predictions_": f[:, 0] if self._single_output_ else f}

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

    def predict_interval(
        self, X: Any, coverage: float = 0.9, method: str = "jackknife+", *, folds: Any = 10
    ) -> np.ndarray:
        """Prediction intervals from left-out residuals (Barber et al. 2021), exact and without a refit.

        All methods hold kernel, C, basis and the weights of the other rows fixed; robust weights are among these.

        Parameters
        ----------
        X : array (n_samples, n_features)
        coverage : float
            Between 0 and 1. Too few rows for it give infinite ends.
        method : {"jackknife+", "jackknife-minmax", "cv+"}
            For rows that are alike in distribution a new target lies in the interval with a probability of at least
            2 coverage - 1 ("jackknife+", about as much for "cv+"; in practice close to coverage), or of at least
            coverage ("jackknife-minmax", wider).
        folds : int or array of one label a row
            For "cv+": a number of folds, drawn with a fixed seed, or the fold of every row, e.g. a group of
            rows that belong together.

        Returns
        -------
        array (n_samples, 2) or (n_samples, 2, n_outputs)
            Lower and upper ends.
        """
        X = self._checked(X)
        if not (isinstance(coverage, Real) and 0 < float(coverage) < 1):
            raise ValueError(f"coverage must lie between 0 and 1, got {coverage!r}: 0.9 gives 90 % intervals.")
        if method not in METHODS:
            raise ValueError(f"method must be one of {METHODS}, got {method!r}.")
        if not hasattr(self, "_problem_"):
            raise ValueError("predict_interval needs the training rows: a model of partial_fit or fit_chunks has none.")
        if np.isnan(self.loo_residuals_).any():
            raise ValueError(f"predict_interval needs left-out residuals, which are not known after {self.steps!r}.")
        with np.errstate(all="ignore"):
            intervals = prediction_intervals(self._problem_, self._fit_, X, float(coverage), method, folds)
        return intervals[:, :, 0] if self.dual_coef_.ndim == 1 else intervals


class LSSVC(ClassifierMixin, _LSSVM):
    """Least-squares support vector classification, two or many classes.

    The same machine as `LSSVR` on targets -1 and +1: one column for two classes, one column a class against the rest
    for more, all from one factorisation. The class with the largest decision value wins.

    Parameters
    ----------
    kernel : Kernel, callable k(X, Z) or None
        As in `LSSVR`; None is `kernels.RBF()`, one width in units of the columns' spread.
    C, steps, robust
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

    @available_if(_adds_chunks)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, *, classes: Any = None) -> Self:
        """Add a chunk of rows to the machine, exactly: the result equals `fit` on all rows so far with this basis.

        The first call plans kernel, C, basis and the calibration of `predict_proba` on its rows; later calls keep
        them. Rows are not stored, so that leave-one-out quantities are not known.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes : array or None
            All classes, for a first call whose rows do not hold each of them.

        Returns
        -------
        self
        """
        return self._add_chunk(X, y, sample_weight, classes=classes)

    def _check_rows(
        self, X: Any, y: Any, sample_weight: Any, *, reset: bool, classes: Any = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Validated rows, coded targets (rows x columns) and weights times class weights."""
        smallest = 2 if reset else 1
        X, y = _validate(self, X, y, ensure_min_samples=smallest, reset=reset)
        found = _sorted_labels(y)
        check_classification_targets(y)
        weights = _check_weights(sample_weight, len(y), smallest)
        if reset:
            self.classes_ = found if classes is None else np.unique(np.asarray(classes))
            self._single_output_ = len(self.classes_) == 2
        if len(self.classes_) < 2:
            raise ValueError(f"y holds only one class, {self.classes_[0]!r}: a classifier needs at least 2 classes.")
        unknown = np.setdiff1d(found, self.classes_)
        if len(unknown):
            raise ValueError(f"y holds the class {unknown[0]!r}, which is not among the classes {self.classes_!r}.")
        codes = np.searchsorted(self.classes_, y)
        self._class_factors = np.ones(len(self.classes_))
        if self.class_weight is not None:
            by_class = _class_weights(self.class_weight, self.classes_, y, weights)
            weights = weights * by_class[codes]
            self._class_factors = by_class
        if reset and len(np.unique(codes[weights > 0])) < 2 and classes is None:
            raise ValueError(
                "sample_weight and class_weight are zero for all classes but one: 2 classes at least must count."
            )
        labels = np.array([1]) if self._single_output_ else np.arange(len(self.classes_))
        return X, np.where(codes[:, None] == labels[None, :], 1.0, -1.0), weights

    def _prepare_chunks(self, read: Callable[[], Iterator[Any]]) -> None:
        """Learn columns from the first chunk and classes from all."""
        if isinstance(self.class_weight, str):
            raise ValueError(f"class_weight={self.class_weight!r} needs all rows at once: give a dict, or use fit.")
        found: list[np.ndarray] = []
        first: Any = None
        for chunk in read():
            X, y, weight = normalise(chunk)
            first = (X, y, weight) if first is None else first
            found.append(np.unique(np.asarray(y)))
        if first is None:
            raise ValueError("chunks is empty: give at least one (X, y).")
        self._check_rows(*first, reset=True, classes=np.concatenate(found))

    def _left_out(
        self, targets: np.ndarray, sample_weight: np.ndarray, weights: np.ndarray, fit: Any
    ) -> dict[str, Any]:
        attributes = super()._left_out(targets, sample_weight, weights, fit)
        codes = (targets[:, 0] > 0).astype(int) if self._single_output_ else np.argmax(targets, axis=1)
        left_out = targets - fit.loo_residuals
        # Calibrate with one unit of weight left out, so that an integer weight is as good as copies of the row.
        factors = self._class_factors[codes]
        copies = np.maximum(sample_weight / np.where(factors > 0, factors, 1.0), 1.0)
        one_copy = fit.residuals / (1.0 - fit.leverage / copies)[:, None]
        unit = np.where(copies[:, None] > 1.0, one_copy, fit.loo_residuals)
        unit = np.where(np.isnan(unit), fit.residuals, unit)  # a machine whose leave-one-out is unknown
        return {
            **attributes,
            "loo_predictions_": None if np.isnan(fit.loo_residuals).any() else _winner(left_out, self.classes_),
            "_slopes_": calibrate(targets - unit, codes, weights),
            "_codes_": codes.astype(np.int32),  # chunks keep no targets
        }

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


# Plans and checks -----------------------------------------------------------------------------------------------------
def default_kernel(model: _LSSVM) -> Kernel:
    """The plan for ``kernel=None``: widths of the columns where they are worth it, for numbers the better family."""
    if isinstance(model, ClassifierMixin):
        return RBF(ard=True)
    return Choice([RBF(ard=True), Matern(ard=True)])


def default_steps(problem: Problem) -> Sequence[Step]:
    """The plan for ``steps=None``."""
    if len(problem.rows) <= DENSE_ROWS or problem.kernel.is_precomputed:
        return ()
    return (Random(BASIS_SIZE, random_state=0),)


def run_steps(problem: Problem, steps: Any) -> Problem:
    """Run the steps, then choose what is still None."""
    if isinstance(steps, (str, Step, type)) or not isinstance(steps, Sequence):
        example = repr(steps) if isinstance(steps, Step) else "lssvm.sparsify.Random(100)"
        raise TypeError(f"steps must be a list of steps or None, got {steps!r}: write steps=[{example}].")
    for step in steps:
        if isinstance(step, type) or not callable(step):
            raise TypeError(f"steps holds {step!r}, which is not a step: see lssvm.sparsify and lssvm.tune.")
        problem = step(problem)
    return tuned(problem)


def _raw_components(kernel: Additive, points: Any, coef: Any, X: Any) -> np.ndarray:
    """Rows x components x outputs, not centred."""
    out = np.zeros((X.shape[0], len(kernel.components(X.shape[1])), coef.shape[1]))
    for number, (group, part) in kernel.kept(X.shape[1]).items():
        out[:, number] = part.dot(pick_columns(X, group), pick_columns(points, group), coef)
    return out


def _additive(kernel: Kernel, points: Any, coef: Any, rows: Any) -> dict[str, Any]:
    """The attributes of an additive machine; its components are centred over the rows given."""
    if not isinstance(kernel, Additive):
        return {}
    values = _raw_components(kernel, points, coef, rows)
    means = values.mean(axis=0)
    variation = np.max(np.abs(values - means), axis=0)
    return {
        "active_": np.array(sorted(kernel.kept(rows.shape[1])), dtype=np.intp),
        "max_variation_": variation[:, 0] if coef.shape[1] == 1 else variation,
        "_component_means_": means,
    }


def _validate(model: BaseEstimator, X: Any, y: Any = "no_validation", **options: Any) -> Any:
    """scikit-learn's validation, with a copy of X and with messages that name the argument and the column."""
    try:
        with np.errstate(all="ignore"):
            return validate_data(model, X, y, dtype=np.float64, copy=True, **options)
    except OverflowError:
        raise ValueError("X or y holds integers too large for a float: rescale them.") from None
    except (TypeError, ValueError) as error:
        text = str(error)
        if "could not convert" in text or "must be real" in text or "must be a string or a" in text:
            _explain_text(model, X, y, text)
        if "'<' not supported" in text:
            raise ValueError(
                f"y holds labels of several types, which cannot be sorted ({text}): use one type."
            ) from None
        raise


def _explain_text(model: BaseEstimator, X: Any, y: Any, text: str) -> None:
    """Raise a ValueError that names the first column of X that is no number, else y."""
    table = np.asarray(X, dtype=object)
    for c in range(table.shape[1] if table.ndim == 2 else 0):
        try:
            table[:, c].astype(np.float64)
        except ValueError:
            name = getattr(X, "columns", range(table.shape[1]))[c]
            raise ValueError(
                f"X: column {name!r} holds values that are no numbers ({text}): encode it, or leave it out."
            ) from None
    if isinstance(model, RegressorMixin):
        raise ValueError(
            f"y holds values that are no numbers ({text}): LSSVR predicts numbers, LSSVC classes."
        ) from None


def _main_path(problem: Problem) -> Any:
    """The record of the last step that searched, sparsifiers before the tuner that ends every fit."""
    names = list(problem.paths)
    chosen = [name for name in names if name != LeaveOneOut.__name__] or names
    return problem.paths[chosen[-1]] if chosen else None


def _winner(decision: np.ndarray, classes: np.ndarray) -> np.ndarray:
    if decision.shape[1] == 1:
        return classes[(decision[:, 0] > 0).astype(int)]
    return classes[np.argmax(decision, axis=1)]


def _sorted_labels(y: np.ndarray) -> np.ndarray:
    try:
        return np.unique(y)
    except TypeError as error:
        raise ValueError(f"y holds labels of several types, which cannot be sorted ({error}): use one type.") from None


def _class_weights(class_weight: Any, classes: np.ndarray, y: np.ndarray, sample_weight: np.ndarray) -> np.ndarray:
    """One factor a class."""
    try:
        if len(np.unique(y[sample_weight > 0])) < len(classes) and class_weight == "balanced":
            raise ValueError("a class has no row of positive weight to balance")
        values = compute_class_weight(class_weight, classes=classes, y=y, sample_weight=sample_weight)
        values = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"class_weight={class_weight!r}: {error}") from None
    for label, value in zip(classes, values, strict=True):
        if not 0 <= value < 1e100:
            raise ValueError(f"class_weight of class {label!r} is {value:g}: it must not be negative, infinite or NaN.")
    return values


def _check_weights(weights: Any, n_rows: int, smallest: int, name: str = "sample_weight") -> np.ndarray:
    if weights is None:
        return np.ones(n_rows)
    try:
        values = np.asarray(weights)
        if values.dtype.kind == "c":
            raise TypeError("complex values")
        values = values.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must hold one real number a row, got {weights!r} ({error}).") from None
    if values.ndim == 0:
        values = np.full(n_rows, float(values))
    if values.shape != (n_rows,):
        raise ValueError(f"{name}.shape == {values.shape}, expected {(n_rows,)}: give one weight a row.")
    if not np.isfinite(values).all():
        raise ValueError(f"{name} holds NaN or infinite values: give finite weights.")
    if (values < 0).any():
        row = int(np.argmin(values))
        raise ValueError(f"Negative values in {name}: {values[row]!r} in row {row}. Weights are zero or positive.")
    extremes = [float(np.max(values)), float(np.min(values[values > 0], initial=1.0))]
    if extremes[0] > 1e100 or extremes[1] < 1e-100:
        raise ValueError(f"{name} ranges from {extremes[1]:.3g} to {extremes[0]:.3g}: rescale it towards 1.")
    if np.count_nonzero(values) < smallest:
        raise ValueError(f"{name} is zero in all rows but {np.count_nonzero(values)}: at least {smallest} must count.")
    return values
