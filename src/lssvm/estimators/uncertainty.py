"""The methods of a regression model that describe its uncertainty."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .. import arrays
from ..arrays import Array, ArrayLike
from ..cluster import lazily
from ..intervals import (
    FOLDS,
    FittedLoo,
    Jackknife,
    LooModel,
    NoiseScale,
    SampledLoo,
    StackedLoo,
    confidence_bands,
    fold_labels,
    full_conformal,
    noise_scale,
    searched_again,
    widths_with_few_rows,
)
from ..problem import order_by_content
from .chunked import ChunkedLSSVM
from .validation import OVERFLOW, check_coverage, same_kind

METHODS = ("auto", "jackknife+", "adaptive", "full", "jackknife-minmax", "cv+")
KEPT_BYTES = 2**28  # largest factor that a model keeps between calls
CACHED = ("_loo_model_", "_noise_scale_")  # attributes that are computed again instead of being stored


class Uncertainty(ChunkedLSSVM):
    """Adds prediction intervals, quantiles and confidence intervals."""

    _loo_model_: Any

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name not in CACHED}

    @arrays.single_threaded_blas()
    @np.errstate(over="ignore", invalid="ignore", under="ignore")
    def predict_interval(
        self,
        X: ArrayLike,
        coverage: float = 0.9,
        method: str = "auto",
        *,
        folds: int | ArrayLike = 10,
        groups: ArrayLike | None = None,
    ) -> Array:
        """Prediction intervals from leave-one-out residuals, without refitting.

        All methods hold kernel, C, basis and the weights of the other rows (including robust weights) fixed. If one
        width per column was chosen and there are fewer than 25 rows per width that is kept, however, leave-one-out
        residuals are too small. Residuals are then taken from folds (ten random folds, or those that are given) whose
        rows were not used to choose kernel and C. This takes as long as that many fits, but only once: the result is
        stored in the model. "full", and models on columns of the KKT system (`sparsify.InversePrune` and related
        steps), issue a warning instead. After `partial_fit`, `fit_chunks` or a fit on Dask, a uniform sample of at most
        5000 rows is used, each of which is left out of the model of all rows; the guarantees are then those of that
        many rows, and no search is repeated.

        Parameters
        ----------
        X : array (n_samples, n_features)
        coverage : float
            Between 0 and 1. If there are too few rows for this coverage, the ends are infinite. If it is far below 1/2,
            the lower end may exceed the upper one, because they come from models without different rows.
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

        Returns
        -------
        array (n_samples, 2) or (n_samples, 2, n_outputs)
            Lower and upper ends.
        """
        if method not in METHODS:
            raise ValueError(f"method must be one of {METHODS}, got {method!r}.")
        check_coverage(coverage)
        if groups is not None and method in ("full", "cv+"):
            raise ValueError(f"groups cannot be combined with method={method!r}: use 'auto', or folds with 'cv+'.")
        if arrays.is_dask(X):
            self._prepare(method)
            return lazily(self, "predict_interval", X, coverage=coverage, method=method, folds=folds, groups=groups)
        X = self._checked(X, "predict_interval")
        rows = self._like_training_rows(X)
        if method == "full":
            self._warn_of_fixed_widths()
            ends = full_conformal(self._loo_model(), rows, float(coverage))
        else:
            labels = None
            if method == "cv+":
                labels = self._fold_labels(folds, "folds")
            elif groups is not None:
                labels = self._fold_labels(groups, "groups")
            plain = method not in ("auto", "adaptive")
            jackknife = self._jackknife(labels, "jackknife+" if plain else method)
            ends = jackknife.intervals(rows, float(coverage), minmax=method == "jackknife-minmax")
        ends = same_kind(_known(ends), X)
        return ends[:, :, 0] if self._single_output_ else ends

    @arrays.single_threaded_blas()
    @np.errstate(over="ignore", invalid="ignore", under="ignore")
    def predict_quantiles(self, X: ArrayLike, levels: ArrayLike = (0.05, 0.25, 0.5, 0.75, 0.95)) -> Array:
        """Quantiles of the predictive distribution of new targets; they never cross.

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
        asked = np.asarray(levels, dtype=float)
        if asked.ndim != 1 or not ((asked > 0) & (asked < 1)).all():
            raise ValueError(f"levels={levels!r}: give a list of numbers between 0 and 1, such as [0.1, 0.5, 0.9].")
        if arrays.is_dask(X):
            self._prepare("auto")
            return lazily(self, "predict_quantiles", X, levels=levels)
        X = self._checked(X, "predict_quantiles")
        found = same_kind(_known(self._jackknife().quantiles(self._like_training_rows(X), asked)), X)
        return found[:, :, 0] if self._single_output_ else found

    @arrays.single_threaded_blas()
    @np.errstate(over="ignore", invalid="ignore", under="ignore")
    def confidence_interval(self, X: ArrayLike, coverage: float = 0.95, simultaneous: bool = False) -> Array:
        """Confidence intervals for the function itself, not for new targets (De Brabanter et al. 2011).

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
        if arrays.is_dask(X):
            raise TypeError("confidence_interval takes rows in memory, but X is a Dask collection: pass one block.")
        X = self._checked(X, "confidence_interval")
        rows, targets, _, counting = self._training_rows()
        first = self.members_[0] if self._is_stack else self
        if "_problem_" not in vars(first) and first._kept_sample().total > rows.shape[0]:
            raise ValueError(
                f"confidence_interval needs all training rows, but the model keeps {rows.shape[0]} of "
                f"{first._kept_sample().total} after partial_fit or fit_chunks: use fit."
            )
        if simultaneous and self.kernel_.is_precomputed:
            raise ValueError("simultaneous=True needs the inputs, which a precomputed kernel does not contain.")
        distribution = self._loo_distribution()
        scale = None if distribution.scale is None else distribution.scale.own
        inputs, y = arrays.take(rows, counting), arrays.to_numpy(arrays.take(targets, counting))
        new = self._like_training_rows(X)
        ends = confidence_bands(distribution.model, new, inputs, y, scale, float(coverage), simultaneous)
        ends = same_kind(_known(ends), X)
        return ends[:, :, 0] if self._single_output_ else ends

    def _prepare(self, method: str) -> None:
        """Compute what all blocks of a lazy result share and what the model stores."""
        self._jackknife(method=method)

    def _like_training_rows(self, X: Array) -> Array:
        return arrays.like(X, self._training_rows()[0])

    def _training_rows(self) -> tuple[Array, Array, Array, np.ndarray]:
        """Rows that the model keeps, their targets and sample weights, and the numbers of those of positive weight."""
        model = self.members_[0] if self._is_stack else self
        if "_problem_" in vars(model):
            problem = model._problem_
            return problem.X, problem.y, problem.weights, np.flatnonzero(arrays.to_numpy(model.weights_) > 0)
        sample = model._kept_sample()
        return sample.X, sample.targets, sample.sample_weights, np.arange(sample.X.shape[0])

    def _kept_sample(self) -> Any:
        sample = self._loo_model_.sample if "_loo_model_" in vars(self) else self._loo_sample()
        if sample is None:
            raise ValueError(
                "Intervals need training rows, which this model file of an older version does not contain: fit the "
                "model again."
            )
        return sample

    def _loo_model(self) -> LooModel:
        """The leave-one-out values behind all intervals; kept between calls unless it needs much memory."""
        if self._is_stack:
            return StackedLoo(
                [member._loo_model() for member in self.members_], arrays.to_numpy(self.stack_weights_).tolist()
            )
        known: LooModel | None = vars(self).get("_loo_model_")
        if known is not None:
            return known
        if "_problem_" not in vars(self):
            coef = self.dual_coef_[:, None] if self._single_output_ else self.dual_coef_
            intercept = same_kind(np.reshape(arrays.to_numpy(self.intercept_), -1), coef)
            self._loo_model_ = SampledLoo(self._kept_sample(), coef, intercept, self.support_vectors_)
            return self._loo_model_
        problem, fit = self._problem_, self.leave_one_out()._fit_
        if np.isnan(arrays.to_numpy(fit.loo_residuals)).any():
            raise ValueError(
                f"Intervals need leave-one-out residuals, which are not known after {self.steps!r}: set refit=True "
                "(Adaline: final_solve=True)."
            )
        found = FittedLoo(problem, fit)
        if 8 * len(problem.rows) * fit.points.shape[0] <= KEPT_BYTES:
            self._loo_model_ = found
        return found

    def _warn_of_fixed_widths(self) -> None:
        """Warn if "full" holds widths fixed that were chosen on few rows; other methods repeat their choice."""
        problems = [vars(member).get("_problem_") for member in (self.members_ if self._is_stack else [self])]
        widths = max((widths_with_few_rows(problem) for problem in problems if problem is not None), default=0)
        if widths:
            warnings.warn(
                f"{widths} widths were chosen by the leave-one-out residuals of few rows, and method='full' holds them "
                "fixed: its intervals are likely to be too narrow. Use 'auto', which repeats the choice.",
                stacklevel=arrays.user_level(),
            )

    def _fold_labels(self, folds: Any, name: str) -> np.ndarray:
        """The number of the fold of every training row; -1 for rows of weight 0."""
        X, y, _, rows = self._training_rows()
        X = X[:, :0] if self.kernel_.is_precomputed else X
        order = order_by_content(arrays.take(X, rows), arrays.take(y, rows))
        return fold_labels(folds, rows[order], X.shape[0], name)

    def _jackknife(self, labels: np.ndarray | None = None, method: str = "auto") -> Jackknife:
        """The predictive distribution; with `labels` of all training rows, folds are left out instead of rows."""
        model = self._loo_model()
        searched = self._searched_residuals(labels)
        if searched is not None:
            searched = searched[self._training_rows()[3]]
        scale = None if method == "jackknife+" else self._noise_scale(searched, stored=labels is None)
        if scale is not None and method == "auto":
            scale = scale.where_uneven()
        if labels is not None:
            own = labels[labels >= 0]
            model, scale = model.folds(own), None if scale is None else scale.folds(own)
        return Jackknife(model, model.residuals if searched is None else searched, scale)

    def _loo_distribution(self) -> Jackknife:
        """The predictive distribution from plain leave-one-out residuals, for which no search is repeated."""
        model, scale = self._loo_model(), self._noise_scale()
        return Jackknife(model, model.residuals, None if scale is None else scale.where_uneven())

    def _noise_scale(self, searched: np.ndarray | None = None, *, stored: bool = True) -> NoiseScale | None:
        """The size of the noise as a function of x, from leave-one-out residuals or those of searches without folds.

        None if there is no noise. The last result is kept; what was chosen is stored with the model on request.
        """
        residuals = self._loo_model().residuals if searched is None else searched
        last = vars(self).get("_noise_scale_")
        if last is None or not np.array_equal(last[0], residuals):
            X, _, weights, rows = self._training_rows()
            kernel = self.kernel_ if self.kernel_.is_precomputed else None
            name = "_scale_choice_" if searched is None else "_searched_scale_choice_"
            known = vars(self).get(name) if stored else None
            found = noise_scale(X, weights, rows, residuals, kernel, known, self._groups)
            if found is not None and stored:
                setattr(self, name, found.choice)
            last = self._noise_scale_ = (residuals, found)
        return last[1]

    def _searched_residuals(self, labels: np.ndarray | None) -> np.ndarray | None:
        """Residuals of all rows from searches without folds, or None if leave-one-out residuals serve.

        They are stored, because they take many fits.
        """
        if self._is_stack:
            found = [member._searched_residuals(labels) for member in self.members_]
            if all(residuals is None for residuals in found):
                return None
            each = [
                _all_rows(member) if residuals is None else residuals
                for member, residuals in zip(self.members_, found, strict=True)
            ]
            shares = arrays.to_numpy(self.stack_weights_).tolist()
            return sum(share * residuals for share, residuals in zip(shares, each, strict=True))
        if "_problem_" not in vars(self):
            return None
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
        if labels is None:
            labels = self._fold_labels(min(FOLDS, len(self._training_rows()[3])), "folds")
        known = vars(self).get("_searched_residuals_")
        if known is None or not np.array_equal(known[0], labels):
            known = self._searched_residuals_ = (labels, searched_again(problem, labels))
        return known[1]


def _all_rows(model: Any) -> np.ndarray:
    """Leave-one-out residuals of all rows, (rows, outputs)."""
    residuals = arrays.to_numpy(model.loo_residuals_)
    return residuals.reshape(len(residuals), -1)


def _known(ends: np.ndarray) -> np.ndarray:
    """Ends of intervals: infinite if there are too few rows, but NaN only where predictions overflow."""
    if np.isnan(ends).any():
        raise ValueError(OVERFLOW)
    return ends
