"""LSSVR: least-squares support vector regression."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import MultiOutputMixin, RegressorMixin

from .. import arrays
from ..arrays import Array, ArrayLike
from ..progress import counted
from ..tables import refuse_lazy
from .base import on_rows
from .chunks import ChunkedLSSVM
from .interval_mixin import IntervalMixin
from .layout import Layout, Table, same_kind
from .validation import refuse_times, score_of, validate


class LSSVR(MultiOutputMixin, RegressorMixin, IntervalMixin, ChunkedLSSVM):
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

    def _validated(self, X: Any, y: Any, **options: Any) -> tuple[Layout, Array, Array]:
        """Validated rows and targets."""
        refuse_lazy("y", y)
        refuse_times("y", y)
        layout, X, y = validate(self, X, y, multi_output=True, **options)
        if issparse(y):
            raise TypeError("y is a sparse matrix: give a dense array.")
        try:
            y = arrays.like(y, X) + 0.0  # a copy
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(
                f"y contains values that are not numeric ({error}): LSSVR predicts numbers, LSSVC classes."
            ) from None
        largest = float(arrays.namespace(y).max(arrays.namespace(y).abs(y))) if 0 not in y.shape else 0.0
        if not largest <= 1e150:
            raise ValueError(f"y contains values as large as {largest:.3g}, whose squares may overflow: rescale y.")
        return layout, X, y

    def _coded(self, layout: Layout, X: Array, y: Array, weights: np.ndarray) -> Table:
        """Rows with targets (rows, outputs)."""
        targets = y[:, None] if y.ndim == 1 else y
        if targets.shape[1] != layout.outputs:
            found = counted(targets.shape[1], "output")
            raise ValueError(f"y has {found}, but the model was fitted with {layout.outputs}: give the same outputs.")
        return Table(layout, X, targets, same_kind(weights, X))

    @on_rows
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
        f = self._values(X, "predict")
        return self.fitted_.layout.squeezed(f)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Coefficient of determination R^2 of the predictions."""
        from sklearn.metrics import r2_score

        return score_of(r2_score, self.predict(X), y, sample_weight)
