"""LSSVR: least-squares support vector regression."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import MultiOutputMixin, RegressorMixin

from .. import arrays
from ..arrays import Array, ArrayLike
from ..cluster import lazily
from ..problem import Problem
from ..progress import counted
from ..stream import (
    Scan,
)
from ..tables import refuse_lazy
from ..tune import average_weights, chosen_widths, residuals_of_folds, warn_of_no_signal, weighs_by_folds
from .parameters import ColumnNames, GivenC, KernelFunction, Steps, Verbosity, Weighting
from .planning import default_portfolio
from .stacked import average
from .state import fitted_problem
from .uncertainty import Uncertainty
from .validation import check_weights, chunk_options, refuse_times, same_kind, score_of, validate


class LSSVR(MultiOutputMixin, RegressorMixin, Uncertainty):
    """Least-squares support vector regression (kernel ridge regression with an unpenalised bias).

    Minimises ``1/2 beta' K beta + C/2 sum_i v_i (y_i - f(x_i))^2`` with ``f(x) = sum_j beta_j k(x, x_j) + b``; b is not
    penalised. Hyper-parameters left at None are chosen by exact leave-one-out. With all of them at None, `fit` averages
    several such models.

    Parameters
    ----------
    kernel : Kernel, callable k(X, Z) or None
        If C, steps and robust are None as well, None fits a stack (`kernels.Stack`): one model per kernel, each tuned
        on its own, averaged with weights chosen by leave-one-out. Its kernels are `RBF`, `Matern` and
        ``Matern(nu=0.5)`` with one width per column (``ard=True``), `Linear` and, up to 1000 rows, `RBF` and `Matern`
        with a common width; for more rows, `Spline` instead of these. If C, steps or robust is given, and
        in `partial_fit`, `fit_chunks` and fits on Dask collections, None chooses the better of `RBF` and `Matern`,
        with one width per column if that lowers the error enough (see `tune.LeaveOneOut`). A given `sigma` applies to
        the columns as they are; a `sigma` left at None is searched in units of the spread of each column.
    C : float or None
        Weight of the errors relative to smoothness (gamma in the LS-SVM literature; the ridge is 1/C).
    steps : list of steps or None
        Sparsifiers and tuners, run in this order. None plans by size: up to 2000 rows all rows are the basis; for more
        rows, 500 to 2000 rows drawn at random, as many as pay off (``sparsify.Random()``), which all members of a
        stack share. An empty list means no steps. Hyper-parameters that are still None after the steps are chosen by
        leave-one-out.
    robust : str, weight function or None
        "hampel", "huber", "logistic", "myriad" or a weight function of `lssvm.robust`, for weighted LS-SVM.
    categorical_features : "from_dtype", list of column names or numbers, mask or None
        The columns of X that are categories. "from_dtype": columns of text or of a categorical dtype in frames (ordered
        categories of pandas are ranks), and none in arrays. Rows with the same category have distance 0 in this column,
        others 1. Missing cells are a value of their own; missing numbers are filled in with the median, and an
        indicator of the missing cells shares the width of their column.
    verbose : int or bool
        1 shows the progress of fits that take longer than half a second in a line on standard error; 0 shows nothing.

    Attributes
    ----------
    support_ : array (n,) or None
        Rows of the basis; None if the basis points are not rows.
    support_vectors_ : array (n, n_features)
        Basis points, with categories and missing cells encoded; column numbers for `kernels.Precomputed`.
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
    members_ : list of LSSVR
        Stacks (`kernels.Stack`): the fitted models with a positive weight, to which ``C_``, ``dual_coef_`` and
        ``support_vectors_`` belong.
    stack_weights_ : array (n_members,)
        Stacks: the weights of the members, which sum to 1.
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
    >>> from lssvm import LSSVR, datasets, kernels
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR().fit(X, y)
    >>> model.predict([[15.0]]).shape
    (1,)
    >>> len(model.members_), float(round(model.stack_weights_.sum(), 6))
    (3, 1.0)
    >>> one = LSSVR(kernels.RBF()).fit(X, y)  # one model instead
    >>> one.dual_coef_.shape
    (133,)
    """

    def __init__(
        self,
        kernel: KernelFunction | None = None,
        C: GivenC = None,
        *,
        steps: Steps | None = None,
        robust: Weighting | None = None,
        categorical_features: ColumnNames | None = "from_dtype",
        verbose: Verbosity = 0,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.steps = steps
        self.robust = robust
        self.categorical_features = categorical_features
        self.verbose = verbose

    def _fitted(self, problem: Problem, given: Array | None) -> dict[str, Any]:
        if self.kernel is None and self.C is None and self.steps is None and self.robust is None:
            problem = problem.replace(kernel=default_portfolio(problem))
        attributes = super()._fitted(problem, given)
        loo = attributes.get("loo_residuals_")
        if loo is not None and not problem.is_known:
            y, loo, weights = (arrays.to_numpy(a) for a in (problem.y, loo, problem.weights))
            warn_of_no_signal(y, loo.reshape(y.shape), weights)
        return attributes

    def _check_raw(self, X: Any, y: Any, **options: Any) -> tuple[Array, Array]:
        """Validated rows and targets."""
        refuse_lazy("y", y)
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
        X, y = self._check_raw(X, y, ensure_min_samples=smallest, reset=reset, sample_weight=sample_weight)
        if reset:
            self._single_output_ = y.ndim == 1
        targets = y[:, None] if y.ndim == 1 else y
        outputs = np.size(arrays.to_numpy(self.intercept_)) if not reset and hasattr(self, "dual_coef_") else None
        if outputs not in (None, targets.shape[1]):
            found = counted(targets.shape[1], "output")
            raise ValueError(f"y has {found}, but the model was fitted with {outputs}: give the same outputs.")
        if sample_weight is None and arrays.is_foreign(X):
            return X, targets, arrays.zeros((X.shape[0],), X) + 1.0
        return X, targets, same_kind(check_weights(sample_weight, X.shape[0], smallest), X)

    def _count_labels(self, y: Array, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.empty(0), np.empty(0)

    def _finish_scan(self, scan: Scan) -> None:
        """Check that at least two rows have positive weight."""
        if scan.positive_rows < 2:
            found = counted(scan.positive_rows, "row has", "rows have")
            raise ValueError(f"chunks: {found} positive weight, but at least 2 are required.")

    def _loo_attributes(self, targets: Array, sample_weight: Array, weights: Array, fit: Any) -> dict[str, Any]:
        attributes = super()._loo_attributes(targets, sample_weight, weights, fit)
        f = targets - fit.loo_residuals
        return {**attributes, "loo_predictions_": f[:, 0] if self._single_output_ else f}

    def _coded_targets(self) -> Array:
        return self.loo_residuals_ + self.loo_predictions_

    def _weigh(self, members: Sequence[Any], weights: ArrayLike | None) -> tuple[np.ndarray, np.ndarray, float]:
        """The weights of the members of a stack, as given or chosen, and mean squares: of the members, of the stack."""
        rows = [member._loo_rows() for member in members]
        residuals, given = np.stack([residuals for _, residuals, _ in rows]), rows[0][2]
        found = _best_weights(members, residuals, given) if weights is None else arrays.to_numpy(weights)
        squares = [np.sum(r**2, axis=1) for r in (*residuals, np.tensordot(found, residuals, axes=1))]
        *losses, loss = np.average(squares, axis=1, weights=given)
        return found, np.array(losses), float(loss)

    def _stack_loo_attributes(self, kept: Sequence[tuple[Any, float]]) -> dict[str, Any]:
        """The attributes of a stack that are averages of those of its members, whose weights are held fixed."""
        names = ("intercept_", "weights_", "leverage_", "loo_residuals_", "loo_predictions_")
        known = [name for name in names if all(name in vars(member) for member, _ in kept)]
        found = {name: average(kept, attrgetter(name)) for name in known}
        if "loo_residuals_" in found:
            loo, weights = (arrays.to_numpy(found[name]) for name in ("loo_residuals_", "weights_"))
            found["press_"] = float(np.sum(weights @ loo**2))
        return found

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
        return f[:, 0] if self._single_output_ else f

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Coefficient of determination R^2 of the predictions."""
        from sklearn.metrics import r2_score

        return score_of(r2_score, self.predict(X), y, sample_weight)


def _best_weights(members: Sequence[LSSVR], residuals: np.ndarray, given: np.ndarray) -> np.ndarray:
    """The weights of members of a stack with the given leave-one-out residuals and sample weights."""
    problems = [fitted_problem(member) for member in members]
    known = [problem for problem in problems if problem is not None]
    if len(known) == len(problems) and weighs_by_folds(known):
        return average_weights(residuals_of_folds(known), given)
    return average_weights(residuals, given, [0 if problem is None else chosen_widths(problem) for problem in problems])
