"""LSSVR: least-squares support vector regression."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.metrics import r2_score

from .. import arrays
from ..arrays import Array, ArrayLike
from ..cluster import lazily
from ..intervals import (
    FOLDS,
    METHODS,
    fold_labels,
    prediction_intervals,
    sampled_intervals,
    searched_again,
    widths_with_few_rows,
)
from ..kernels import Kernel
from ..problem import Problem
from ..robust import WeightFunction
from ..stream import (
    Scan,
)
from .chunked import ChunkedLSSVM
from .validation import check_weights, chunk_options, refuse_times, same_kind, score_of, validate


class LSSVR(MultiOutputMixin, RegressorMixin, ChunkedLSSVM):
    """Least-squares support vector regression (kernel ridge regression with an unpenalised bias).

    Minimises ``1/2 beta' K beta + C/2 sum_i v_i (y_i - f(x_i))^2`` with ``f(x) = sum_j beta_j k(x, x_j) + b``; b is not
    penalised. Hyper-parameters left at None are chosen by exact leave-one-out.

    Parameters
    ----------
    kernel : Kernel, callable k(X, Z) or None
        None chooses the better of `RBF` and `Matern` by leave-one-out, with one width per column (``ard=True``) if
        that lowers the error enough (see `tune.LeaveOneOut`). A given `sigma` applies to the columns as they are; a
        `sigma` left at None is searched in units of the spread of each column.
    C : float or None
        Weight of the errors relative to smoothness (gamma in the papers; the ridge is 1/C).
    steps : list of steps or None
        Sparsifiers and tuners, run in this order. None plans by size: up to 2000 rows all rows are the basis; for more
        rows, 500 to 4000 rows drawn at random, as many as pay off (``sparsify.Random()``). An empty list means no
        steps. Hyper-parameters that are still None after the steps are chosen by leave-one-out.
    robust : str, weight function or None
        "hampel", "huber", "logistic", "myriad" or a weight function of `lssvm.robust`, for weighted LS-SVM.

    Attributes
    ----------
    support_ : array (n,) or None
        Rows of the basis; None if the basis points are not rows.
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
        ``y_i - f_(i)(x_i)``, exact for fixed C, kernel, basis and weights: row i is removed from the loss, but not
        from the basis.
    loo_predictions_ : array like y
        ``f_(i)(x_i)``, the prediction of the model without row i.
    press_ : float
        The sum of ``weights_ * loo_residuals_**2``.
    path_ : Bunch or None
        The record of the last step that performed a search.
    active_ : array of int
        Additive models (`kernels.Additive`): numbers of the inputs (or groups of columns) that are kept.
    max_variation_ : array (n_components,)
        Additive models: the largest ``|f^l(x_i)|`` of each centred component over the rows.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    A dense model of more than 4000 rows whose kernel and C are given is solved by conjugate gradients. The
    leave-one-out attributes (``leverage_``, ``loo_residuals_``, ``loo_predictions_``, ``press_``) are then missing
    until `leave_one_out` computes them, which takes several times as long as the fit.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR().fit(X, y)
    >>> model.predict([[15.0]]).shape
    (1,)
    """

    def __init__(
        self,
        kernel: Kernel | Callable[[Array, Array], Array] | None = None,
        C: float | None = None,
        *,
        steps: Sequence[Callable[[Problem], Problem]] | None = None,
        robust: str | WeightFunction | None = None,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.steps = steps
        self.robust = robust

    def _check_raw(self, X: Any, y: Any, **options: Any) -> tuple[Array, Array]:
        """Validated rows and targets."""
        refuse_times("y", y)
        X, y = validate(self, X, y, multi_output=True, y_numeric=True, **chunk_options(options))
        if issparse(y):
            raise TypeError("y is a sparse matrix: give a dense array.")
        try:
            y = arrays.like(y, X) + 0.0  # a copy
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"y contains values that are not numeric ({error}): LSSVR predicts numbers, LSSVC classes."
            ) from None
        largest = float(arrays.namespace(y).max(arrays.namespace(y).abs(y))) if 0 not in y.shape else 0.0
        if not largest <= 1e150:
            raise ValueError(f"y contains values as large as {largest:.3g}, whose squares may overflow: rescale y.")
        return X, y

    def _check_rows(
        self, X: Any, y: Any, sample_weight: Any, *, reset: bool, smallest: int | None = None
    ) -> tuple[Array, Array, Array]:
        """Validated rows, targets (rows x outputs) and weights."""
        smallest = (2 if reset else 1) if smallest is None else smallest
        X, y = self._check_raw(X, y, ensure_min_samples=smallest, reset=reset)
        if reset:
            self._single_output_ = y.ndim == 1
        targets = y[:, None] if y.ndim == 1 else y
        outputs = np.size(arrays.to_numpy(self.intercept_)) if not reset and hasattr(self, "dual_coef_") else None
        if outputs not in (None, targets.shape[1]):
            raise ValueError(
                f"y has {targets.shape[1]} outputs, but the model was fitted with {outputs}: give the same outputs."
            )
        if sample_weight is None and arrays.is_foreign(X):
            return X, targets, arrays.zeros((X.shape[0],), X) + 1.0
        return X, targets, same_kind(check_weights(sample_weight, X.shape[0], smallest), X)

    def _count_labels(self, y: Array, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.empty(0), np.empty(0)

    def _finish_scan(self, scan: Scan) -> None:
        """Check that at least two rows have positive weight."""
        if scan.counting < 2:
            raise ValueError(f"chunks: {scan.counting} rows have positive weight, but at least 2 are required.")

    def _loo_attributes(self, targets: Array, sample_weight: Array, weights: Array, fit: Any) -> dict[str, Any]:
        attributes = super()._loo_attributes(targets, sample_weight, weights, fit)
        f = targets - fit.loo_residuals
        return {**attributes, "loo_predictions_": f[:, 0] if self._single_output_ else f}

    def predict(self, X: ArrayLike) -> Array:
        """Predict the targets f(x).

        Parameters
        ----------
        X : array (n_samples, n_features)
            For a Dask collection the result is a lazy Dask array.

        Returns
        -------
        array (n_samples,) or (n_samples, n_outputs)
        """
        if arrays.is_dask(X):
            return lazily(self, "predict", X)
        f = self._raw_predict(X, "predict")
        return f[:, 0] if self.dual_coef_.ndim == 1 else f

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Coefficient of determination R^2 of the predictions."""
        return score_of(r2_score, self.predict(X), y, sample_weight)

    @arrays.own_threads()
    @np.errstate(under="ignore")
    def predict_interval(
        self, X: ArrayLike, coverage: float = 0.9, method: str = "jackknife+", *, folds: int | ArrayLike = 10
    ) -> Array:
        """Prediction intervals from leave-one-out residuals (Barber et al. 2021), exact and without refitting.

        All methods hold kernel, C, basis and the weights of the other rows (including robust weights) fixed. If one
        width per column was chosen and there are fewer than 25 rows per width that is kept, however, leave-one-out
        residuals are too small. Residuals are then taken from folds (ten random folds, or those of "cv+") whose rows
        were not used to choose kernel and C. This takes as long as that many fits, but only once: the result is stored
        in the model. Models on columns of the KKT system (`sparsify.InversePrune` and related steps) issue a warning
        instead. After `partial_fit`, `fit_chunks` or a fit on Dask, a uniform sample of at most 5000 rows is used, each
        of which is left out of the model of all rows; the guarantees are then those of that many rows, and no search is
        repeated.

        Parameters
        ----------
        X : array (n_samples, n_features)
        coverage : float
            Between 0 and 1. If there are too few rows for this coverage, the ends are infinite.
        method : {"jackknife+", "jackknife-minmax", "cv+"}
            For exchangeable rows, a new target lies in the interval with a probability of at least 2 coverage - 1
            ("jackknife+"; about the same for "cv+"; in practice close to coverage), or of at least coverage
            ("jackknife-minmax", which gives wider intervals).
        folds : int or array of one label per row
            For "cv+": a number of folds, drawn with a fixed seed, or a fold label for every row, e.g. to keep groups of
            rows together. Not available after `partial_fit` or `fit_chunks`.

        Returns
        -------
        array (n_samples, 2) or (n_samples, 2, n_outputs)
            Lower and upper ends.
        """
        if arrays.is_dask(X):
            return lazily(self, "predict_interval", X, coverage=coverage, method=method, folds=folds)
        X = self._checked(X, "predict_interval")
        if not (isinstance(coverage, Real) and 0 < float(coverage) < 1):
            raise ValueError(f"coverage must be between 0 and 1, got {coverage!r}: 0.9 gives 90 % intervals.")
        if method not in METHODS:
            raise ValueError(f"method must be one of {METHODS}, got {method!r}.")
        if not hasattr(self, "_problem_"):
            if method == "cv+":
                raise ValueError(
                    "method='cv+' leaves out whole folds, but after partial_fit or fit_chunks a model keeps only a "
                    "sample of the rows: use 'jackknife+'."
                )
            sample = self._loo_sample()
            if sample is None:
                raise ValueError(
                    "predict_interval needs training rows, which this model file of an older version does not contain: "
                    "fit the model again."
                )
        elif np.isnan(arrays.to_numpy(self.leave_one_out().loo_residuals_)).any():
            raise ValueError(
                f"predict_interval needs leave-one-out residuals, which are not known after {self.steps!r}: set "
                "refit=True (Adaline: final_solve=True)."
            )
        if hasattr(self, "_problem_"):
            problem, fit = self._problem_, self._fit_
            size = self._searched_size(folds if method == "cv+" else None)
            rows = arrays.like(X, problem.X)
            intervals = prediction_intervals(problem, fit, rows, float(coverage), method, folds, size)
        else:
            rows = arrays.like(X, sample.X)
            intervals = sampled_intervals(sample, self._evaluate(rows), rows, float(coverage), method)
        intervals = same_kind(intervals, X)
        return intervals[:, :, 0] if self.dual_coef_.ndim == 1 else intervals

    def _searched_size(self, folds: Any) -> np.ndarray | None:
        """The result of `searched_again` if it is needed, else None; it is stored, as it takes many fits."""
        problem = self._problem_
        widths = widths_with_few_rows(problem)
        if widths and problem.reduced:
            warnings.warn(
                f"{widths} widths were chosen by the leave-one-out residuals of only {len(problem.rows)} rows, which "
                f"makes these residuals too small; after {self.steps!r} the choice cannot be repeated without folds: "
                "the intervals are likely to be too narrow. Check their coverage on other rows, or use one width for "
                "all columns (kernel=kernels.RBF()).",
                stacklevel=arrays.user_level(),
            )
        if not widths or problem.reduced:
            return None
        rows = np.flatnonzero(arrays.to_numpy(self._fit_.weights) > 0)
        labels = fold_labels(min(FOLDS, len(rows)) if folds is None else folds, rows, problem.X.shape[0])
        known = self.__dict__.get("_searched_")
        if known is None or not np.array_equal(known[0], labels):
            known = self._searched_ = (labels, searched_again(problem, labels))
        return known[1]
