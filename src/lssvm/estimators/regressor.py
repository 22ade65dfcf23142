"""LSSVR: least-squares support vector regression."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import RegressorMixin

from .. import arrays
from ..arrays import Array, ArrayLike
from ..intervals.bands import confidence_bands
from ..intervals.jackknife import Jackknife, PredictiveDistribution, fold_labels, full_conformal
from ..intervals.loo import LooModel, ScaledLoo, StackedLoo
from ..intervals.scale import noise_scale
from ..progress import counted
from ..rules import Effort, Flag, check_coverage
from . import planning
from .base import on_rows
from .chunks import ChunkedLSSVM
from .classifier import shift_weights
from .layout import Layout
from .validation import check_columns, check_link, encoded_rows, require_loo, score_of, validate
from .weighing import with_searches

METHODS = ("auto", "jackknife+", "adaptive", "full", "jackknife-minmax", "cv+")


class LSSVR(RegressorMixin, ChunkedLSSVM):
    """Least-squares support vector regression (kernel ridge regression with an unpenalised bias).

    Minimises ``1/2 beta' K beta + C/2 sum_i v_i (y_i - f(x_i))^2`` with ``f(x) = sum_j beta_j k(x, x_j) + b``, by
    default for several kernels, whose models are averaged. What is left at None is chosen by exact leave-one-out.

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
        Sparsifiers and tuners, run in this order. None plans by size: up to 2000 rows, the basis consists of all rows.
        With more rows, these are 500 rows drawn at random or, if leave-one-out shows that more pay off, all rows (up
        to 50,000, on a GPU 500,000) or some thousands (``sparsify.Random()``); all members of a stack share them. An
        empty list means no steps. Hyper-parameters that are still None after the steps are chosen by leave-one-out.
    robust : str, weight function or None
        Weighted LS-SVM: "hampel", "huber", "logistic", "myriad" or a weight function of `lssvm.robust`.
    categorical_features : "from_dtype", list of column names or numbers, mask or None
        The columns of X that are categories. "from_dtype": columns of a categorical dtype in frames (ordered categories
        of pandas are ranks) and of text that does not spell numbers, dates or booleans, and none in arrays. Rows with
        the same category have distance 0 in this column, others 1. Missing cells are a value of their own; missing
        numbers are filled in with the median, and an indicator of the missing cells shares the width of their column.
    merge_text : bool
        Whether texts of a category in which only case and blanks differ are the same value (``DE`` and ``de``).
    target : {"auto", "identity", "log", "power"} or transformer
        The scale of y on which models are fitted. "log" needs positive targets; "power" is Box-Cox with the likeliest
        exponent from 0, the logarithm, to 2, and the likeliest unit of the distances from the smallest target, or from
        the largest one if targets are skewed to the left; a transformer of scikit-learn must increase in y. Predictions
        are means on the scale of y, and so are all errors and intervals. "auto" adds a member with the "power" scale to
        the default stack if there is one target, it is skewed (an exponent below 1/2, and a significantly larger
        likelihood), and leave-one-out errors on that scale make the targets clearly likelier. Otherwise it is
        "identity", as with a given kernel, C, steps or robust, and in fits on chunks.
    loss : {"squared", "poisson", "gamma"}
        What replaces the squares: half the deviance of counts or rates ("poisson") or of positive targets whose
        standard deviation is proportional to their mean ("gamma"). Then f is the logarithm of the mean, predictions
        are exp(f(x)) > 0, and widths and C minimise the leave-one-out deviance. For rates ``y = counts/exposure``, give
        the exposure as `sample_weight`, as for `sklearn.linear_model.PoissonRegressor`.
    monotonic_cst : dict of columns, array of one value per column, or None
        As in `sklearn.ensemble.HistGradientBoostingRegressor`, predictions never decrease (1) or increase (-1) in these
        columns of numbers, over the range of the training rows. For one target, the squared loss, and in `fit` only.
    effort : float
        The work of everything that is planned or searched, relative to the usual work: 0.1 is a quick look, 10 is for
        a better model in about ten times the time, mostly of tables above 1000 rows. It changes the size of the basis,
        the samples of the search and the number of members of the default stack, and never a parameter that is given.
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
        from the basis. After a fit with groups, all rows of the group of row i are removed. Dense models of more than
        15,000 rows (on a GPU, of more than its memory holds) have estimates.
    loo_predictions_ : array like y
        ``f_(i)(x_i)``, the prediction of the model without row i, or without its group.
    press_ : float
        Sum of ``weights_ * loo_residuals_**2``.
    path_ : Bunch or None
        The record of the last step that performed a search.
    members_, stack_weights_ : list of LSSVR, array (n_members,)
        Stacks (`kernels.Stack`): the fitted models with a positive weight, to which ``C_``, ``dual_coef_`` and
        ``support_vectors_`` belong, and these weights, which sum to 1.
    active_, max_variation_ : array of int, array (n_components,)
        Additive models (`kernels.Additive`): numbers of the inputs (or groups of columns) that are kept, and the
        largest ``|f^l(x_i)|`` of each centred component over the rows.
    columns_, n_features_in_, feature_names_in_
        What was understood of each column, by name; the others as in scikit-learn.

    Notes
    -----
    A dense model of more than 4000 rows whose kernel and C are given is solved by conjugate gradients. Its
    leave-one-out attributes are missing until `leave_one_out` computes them, which takes several times as long.

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
        kernel: planning.KernelFunction | None = None,
        C: planning.GivenC = None,
        *,
        steps: planning.Steps | None = None,
        robust: planning.Weighting | None = None,
        categorical_features: planning.ColumnNames | None = "from_dtype",
        merge_text: Flag = False,
        loss: planning.NumberLoss = "squared",
        target: planning.Target = "auto",
        monotonic_cst: planning.Monotonic | None = None,
        effort: Effort = 1.0,
        verbose: planning.Verbosity = 0,
    ) -> None:
        columns: Any = {"categorical_features": categorical_features, "merge_text": merge_text}
        super().__init__(kernel, C, steps=steps, robust=robust, effort=effort, verbose=verbose, **columns)
        self.loss = loss
        self.target, self.monotonic_cst = target, monotonic_cst

    def _validated(self, X: Any, y: Any, **options: Any) -> tuple[Layout, Array, Array, np.ndarray]:
        """Return validated rows, targets (rows, outputs) and sample weights."""
        check_columns("y", y)
        # With the other losses, one column of targets is taken for a vector, with a warning.
        several = self.loss == "squared" or getattr(y, "shape", ())[1:] != (1,)
        layout, X, y, weights = validate(self, X, y, multi_output=several, **options)
        if issparse(y):
            raise TypeError("y is a sparse matrix: give a dense array.")
        try:
            y = arrays.like(y, X) + 0.0  # a copy
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"y contains values that are not numeric ({error}): use LSSVC for classes.") from None
        largest = float(arrays.namespace(y).max(arrays.namespace(y).abs(y))) if 0 not in y.shape else 0.0
        if not largest <= 1e150:
            raise ValueError(f"y contains values as large as {largest:.3g}, whose squares may overflow: rescale y.")
        targets = y[:, None] if y.ndim == 1 else y
        if self.loss != "squared":
            check_link(self.loss, arrays.to_numpy(targets), weights)
        if targets.shape[1] != layout.outputs:
            found = counted(targets.shape[1], "output")
            raise ValueError(f"y has {found}, but the model was fitted with {layout.outputs}: give the same outputs.")
        return layout, X, targets, weights

    @on_rows
    def predict(self, X: ArrayLike) -> Array:
        """Predict the targets: f(x) or, with a log link, exp(f(x)).

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
        """Return the coefficient of determination R^2 of the predictions."""
        from sklearn.metrics import r2_score

        return score_of(r2_score, self.predict(X), y, sample_weight)

    @on_rows
    def predict_distribution(self, X: ArrayLike) -> PredictiveDistribution:
        """Return the predictive distribution of new targets, which consists of leave-one-out values.

        `predict_interval` and `predict_quantiles` return parts of it; it also has `cdf`, `mean`, `std`, `sample` and
        `crps`. The distribution follows the size of the noise where it varies. For models of counts or of targets on
        another scale, it has the range of the targets, but it is not restricted to whole numbers.

        Parameters
        ----------
        X : array (n_samples, n_features)
            In memory: the methods for Dask collections are `predict_interval` and `predict_quantiles`.

        Returns
        -------
        lssvm.intervals.PredictiveDistribution
        """
        return self._predictive(X, "predict_distribution")

    @on_rows
    def predict_interval(
        self,
        X: ArrayLike,
        coverage: float = 0.9,
        method: str = "auto",
        *,
        folds: int | ArrayLike = 10,
        groups: ArrayLike | None = None,
        shift: ArrayLike | None = None,
    ) -> Array:
        """Return prediction intervals from leave-one-out residuals, without refitting.

        All methods hold kernel, C, basis and the weights of the other rows (including robust weights) fixed. With fewer
        than 25 rows per parameter that was searched (one width per column counts once for each column, and C), however,
        leave-one-out residuals are too small. They then include the search, which is repeated without each of three
        folds, or of those that are given (see `diagnose.honest_values`). This takes as long as 1 to 2 fits, but only
        once: the result is stored in the model and in its files. "full", and models on columns of the KKT system
        (`sparsify.InversePrune` and related steps), issue a warning instead. After `partial_fit`, `fit_chunks` or a fit
        on Dask, a uniform sample of at most 5000 rows is used, each of which is left out of the model of all rows; the
        guarantees are then those of that many rows, and no search is repeated.

        Parameters
        ----------
        X : array (n_samples, n_features)
        coverage : float
            Between 0 and 1. If there are too few rows for this coverage, the ends are infinite. If it is far below 1/2,
            the lower end may exceed the upper one, because they come from models that omit different rows.
        method : {"auto", "jackknife+", "adaptive", "full", "jackknife-minmax", "cv+"}
            "jackknife+" (Barber et al. 2021) has nearly the same width everywhere. "adaptive" is the jackknife+ of
            residuals divided by the size of the noise, which a second model predicts; it is fitted in the first call
            and kept. "auto" is "adaptive" for outputs whose noise varies beyond chance, by the leave-one-out interval
            score, and "jackknife+" for others. "full" is full conformal prediction, exact. For exchangeable rows, a new
            target lies in the interval with a probability of at least coverage ("full" and "jackknife-minmax", which
            gives wider intervals) or of at least 2 coverage - 1 ("jackknife+"; about the same for "cv+" and "adaptive";
            in practice close to coverage).
        folds : int or array of one label per training row
            For "cv+": a number of folds, drawn by the values of the rows, or a fold label for every row.
        groups : array of one label per training row, or None
            The rows of a group are left out together, e.g. those of the same patient, for intervals of new groups. Not
            for "cv+" and "full". Neither folds nor groups are available after `partial_fit` or `fit_chunks`.
        shift : array (n_rows, n_features) or None
            Rows such as X, if new rows have another distribution than the training rows, but their targets depend on x
            as before (covariate shift). Training rows are weighted by the ratio of the two densities (Tibshirani et al.
            2019), from an `LSSVC` of both kinds of rows. The ends are infinite where few training rows resemble a row.
            Not for "full", "jackknife-minmax" and precomputed kernels.

        Returns
        -------
        array (n_samples, 2) or (n_samples, 2, n_outputs)
            Lower and upper ends.
        """
        if method not in METHODS:
            raise ValueError(f"method must be one of {METHODS}, got {method!r}.")
        check_coverage(coverage)
        if method == "full" and self.fitted_.members[0].training.row_groups is not None:
            raise ValueError("method='full' leaves out single rows, but the model was fitted with groups: use 'auto'.")
        if groups is not None and method in ("full", "cv+"):
            raise ValueError(f"groups cannot be combined with method={method!r}: use 'auto', or folds with 'cv+'.")
        if shift is not None and (method in ("full", "jackknife-minmax") or self.kernel_.is_precomputed):
            what = f"shift cannot be combined with method={method!r} and kernel={self.kernel!r}"
            raise ValueError(f"{what}: use 'auto', and a kernel that is not precomputed.")
        if method == "full":
            X, rows = self._new_rows(X, "predict_interval")
            count = max(member.few_rows() for member in self.fitted_.members)
            if count:
                arrays.warn(
                    f"{count} parameters (widths and C) were chosen by the leave-one-out residuals of few rows; 'full' "
                    "holds them fixed: its intervals are likely to be too narrow. Use 'auto', which repeats the choice."
                )
            ends = full_conformal(self._loo_model(), rows, float(coverage))
            return self.fitted_.layout.shaped(ends, X)
        labels = None
        if method == "cv+" or groups is not None:
            labels = self._fold_labels(*((folds, "folds") if method == "cv+" else (groups, "groups")))
        return self._predictive(X, "predict_interval", labels, method, shift).interval(coverage)

    @on_rows
    def predict_quantiles(self, X: ArrayLike, levels: ArrayLike = (0.05, 0.25, 0.5, 0.75, 0.95)) -> Array:
        """Return quantiles of the predictive distribution of new targets; they never cross.

        The distribution is that of the leave-one-out predictions plus residuals of the training rows, with the sizes of
        the residuals adapted to x where the noise varies, as in ``predict_interval(method="auto")``. The residuals keep
        their signs, so that the distribution may be skewed.

        Parameters
        ----------
        X : array (n_samples, n_features)
        levels : sequence of float
            Between 0 and 1. If there are too few rows for a level, its quantiles are infinite.

        Returns
        -------
        array (n_samples, n_levels) or (n_samples, n_levels, n_outputs)
        """
        return self._predictive(X, "predict_quantiles").quantile(levels)

    @on_rows
    def confidence_interval(self, X: ArrayLike, coverage: float = 0.95, simultaneous: bool = False) -> Array:
        """Return confidence intervals for the function itself, not for new targets (De Brabanter et al. 2011).

        f(x) is linear in the targets, which gives its variance; the size of the noise follows the data as in
        `predict_interval`, and its variance is inversely proportional to the sample weights. The bias is estimated by
        smoothing the fitted values once more, and subtracted. C, kernel, basis and weights are held fixed. For targets
        that are new, use `predict_interval`.

        Parameters
        ----------
        X : array (n_samples, n_features)
        coverage : float
            Between 0 and 1.
        simultaneous : bool
            False: each interval contains the value of the function with this probability. True: all intervals do so
            together; for one column, over the range of the training rows (volume-of-tube formula); for more, over the
            training rows and X, by simulation.

        Returns
        -------
        array (n_samples, 2) or (n_samples, 2, n_outputs)
            Lower and upper ends.
        """
        check_coverage(coverage)
        X, new = self._new_rows(X, "confidence_interval")
        first = self.fitted_.members[0]
        table, rows = first.training, first.training.rows
        if first.problem is None and first.known_sample.total > len(rows):
            kept = f"{len(rows)} of {first.known_sample.total} after partial_fit or fit_chunks"
            raise ValueError(f"confidence_interval needs all training rows, but the model keeps {kept}: use fit.")
        if simultaneous and self.kernel_.is_precomputed:
            raise ValueError("simultaneous=True needs the inputs, which a precomputed kernel does not contain.")
        found = self._distribution(search=False)
        inputs, y = arrays.take(table.X, rows), arrays.to_numpy(table.y)[rows]
        ends = confidence_bands(found, new, inputs, y, float(coverage), simultaneous=simultaneous)
        return self.fitted_.layout.shaped(ends, X)

    def _new_rows(self, X: ArrayLike, method: str) -> tuple[Array, Array]:
        """Return encoded new rows, and the same as arrays of the kind of the training rows."""
        X = encoded_rows(self, X, method)
        return X, arrays.like(X, self.fitted_.members[0].training.X)

    def _predictive(
        self, X: ArrayLike, name: str, labels: Any = None, method: str = "auto", shift: ArrayLike | None = None
    ) -> PredictiveDistribution:
        """Return the predictive distribution of new rows, for the method `name`; see `_distribution`."""
        X, rows = self._new_rows(X, name)
        found = self._distribution(labels, method)
        if shift is not None:
            table = self.fitted_.members[0].training
            found = replace(found, weigh=shift_weights(arrays.take(table.X, table.rows), encoded_rows(self, shift)))
        return PredictiveDistribution(found, rows, partial(self.fitted_.layout.shaped, X=X))

    def _loo_model(self) -> LooModel:
        """Return the leave-one-out values behind all intervals."""
        members = self._completed().members
        require_loo(members, self.steps, "Intervals need leave-one-out residuals")
        parts, shares, target = [member.loo_model for member in members], self.fitted_.shares, self.fitted_.target
        if target is not None:
            table = members[0].training
            actual = arrays.to_numpy(table.y)[table.rows]
            return ScaledLoo(parts, shares, target, [member.target for member in members], actual)
        return parts[0] if len(parts) == 1 else StackedLoo(parts, shares)

    def _distribution(
        self, labels: Any = None, method: str = "auto", *, search: bool = True, errors: bool = False
    ) -> Jackknife:
        """Return the predictive distribution; with `labels` of all training rows, folds are left out.

        With `search`, its residuals may come from searches that are repeated, for `errors` also with more rows. What
        takes long is stored in the model.
        """
        model = self._loo_model()
        searched = self._search_again(labels, errors=errors) if search else None
        searched = None if searched is None else model.rescaled(searched)
        residuals = model.residuals if searched is None else searched
        fitted, scale = self.fitted_, None
        if method in ("auto", "adaptive"):  # the size of the noise as a function of x; None if there is no noise
            if fitted.scale is not None and np.array_equal(fitted.scale[0], residuals):
                scale = fitted.scale[1]
            else:
                name = "scale_choice" if searched is None else "searched_scale_choice"
                known = getattr(fitted, name) if labels is None else None  # of folds, nothing but the result is stored
                scale = noise_scale(fitted.members[0].training, residuals, known)
                choice: Any = {name: scale.choice} if labels is None and scale is not None else {}
                self.fitted_ = replace(fitted, scale=(residuals, scale), **choice)
            scale = scale.where_uneven() if scale is not None and method == "auto" else scale
        if labels is not None:
            own = labels[labels >= 0]
            model, scale = model.folds(own), None if scale is None else scale.folds(own)
            residuals = model.residuals if searched is None else searched
        return Jackknife(model, residuals, scale, minmax=method == "jackknife-minmax")

    def _search_again(self, labels: np.ndarray | None, *, errors: bool) -> np.ndarray | None:
        """Return residuals (rows of positive weight, outputs) of searches without folds; None if leave-one-out serves.

        They are stored, because they take about as long as the fit.
        """
        fitted = self.fitted_
        counts = [member.few_rows(errors=errors) for member in fitted.members]
        if not any(counts):
            return None
        for member, count in zip(fitted.members, counts, strict=True):
            if count and member.problem is not None and member.problem.reduced:
                rows = len(member.problem.rows)
                arrays.warn(
                    f"{count} parameters (widths and C) were chosen by the leave-one-out residuals of {rows} rows, "
                    f"which makes these residuals too small; after {self.steps!r} the choice cannot be repeated "
                    "without folds: errors on new rows are likely to be larger, and intervals too narrow. Check both "
                    "on other rows."
                )
        self.fitted_ = fitted = with_searches(fitted, labels)
        found = [member.residuals_of_searches(labels) for member in fitted.members]
        if all(own is None for own in found):
            return None
        pairs, rows = zip(fitted.members, found, strict=True), fitted.members[0].training.rows
        residuals = [arrays.to_numpy(m.fit.loo_residuals if own is None else own)[rows] for m, own in pairs]
        model = self._loo_model()
        return model.loo_residuals_of(residuals) if isinstance(model, ScaledLoo) else fitted.average(residuals)

    def _fold_labels(self, folds: Any, name: str) -> np.ndarray:
        """Return the number of the fold of every training row; -1 for rows of weight 0."""
        return fold_labels(folds, self.fitted_.members[0].training, name)


def distribution(model: LSSVR, method: str = "auto", **options: bool) -> Jackknife:
    """Return the predictive distribution of an `LSSVR`; with ``search=False``, from plain leave-one-out residuals."""
    return model._distribution(method=method, **options)
