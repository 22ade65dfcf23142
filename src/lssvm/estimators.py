"""LSSVR and LSSVC: validate, build the Problem, run the steps, store the result."""

from __future__ import annotations

import copy
import datetime
import functools
import reprlib
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse
from sklearn import get_config  # type: ignore[attr-defined]
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin, clone
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import check_array, compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from . import _progress, _xp
from ._xp import Array
from .cluster import DaskChunks, lazily
from .intervals import (
    FOLDS,
    METHODS,
    calibrate,
    few_rows_a_width,
    fold_labels,
    prediction_intervals,
    probabilities,
    sampled_intervals,
    searched_again,
)
from .kernels import RBF, Additive, Choice, Kernel, Linear, Matern, as_kernel, check_values, pick_columns
from .problem import ITERATIVE_ROWS, LOST_DIGITS, Fit, Problem, Step, class_numbers, independent_rows, work
from .robust import as_weight_function
from .sparsify import Given, Random
from .stream import (
    SAMPLE_ROWS,
    ChunkedFit,
    LeftOutSample,
    Passes,
    SameRows,
    Scan,
    Source,
    Stream,
    as_source,
    fingerprint,
    fit_chunks,
    resumed,
    sample_rows,
    start_stream,
)
from .tune import ROBUST_ITERATIONS, LeaveOneOut, describe, tuned

DENSE_ROWS = 2000  # steps=None: the basis is all rows up to here
BASIS_SIZE = 500  # partial_fit and fit_chunks, steps=None: this many rows
CHECKED_ROWS = 50  # evaluated before a fit where the kernel is the user's own, predicted after every fit
LINEAR_DIGITS = 1e-6  # error, as a share of the targets' spread, from which a linear kernel gets an exact basis
KEPT_ROWS = 1_000_000  # fit_chunks: what belongs to the rows is kept up to here
_SEEN = ("n_features_in_", "feature_names_in_", "classes_", "_single_output_", "_class_factors_")
_LATER = ("leverage_", "loo_residuals_", "loo_predictions_", "press_")


def _adds_chunks(model: _LSSVM) -> bool:
    """Chunks add up without robust weights, which need the residuals of all rows, for kernels of the columns."""
    if model.robust is not None:
        raise AttributeError(
            f"partial_fit with robust={model.robust!r}: use fit or fit_chunks, which see all residuals."
        )
    if getattr(model.kernel, "is_precomputed", False):
        raise AttributeError("partial_fit with kernels.Precomputed: give a kernel of the columns, or use fit.")
    for step in model.steps if isinstance(model.steps, Sequence) else ():
        if getattr(step, "own_machine", False) is True:
            raise AttributeError(f"partial_fit with {step!r}, a machine that sums of rows are not: use fit.")
    if isinstance(getattr(model, "class_weight", None), str):
        raise AttributeError(
            f"partial_fit with class_weight={model.class_weight!r}: the classes of rows to come are not known. Give a "
            "dict, or use fit or fit_chunks."
        )
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
        tags.array_api_support = True
        return tags

    @_xp.own_threads()
    @np.errstate(under="ignore")
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the machine.

        Parameters
        ----------
        X : array (n_samples, n_features)
            The square kernel matrix for `kernels.Precomputed`. A torch tensor or CuPy array is worked on where it
            lives, and the results are of its kind. A Dask array or dataframe is worked on by its scheduler, as
            `fit_chunks` does; nothing but sums and a sample of rows comes back, and what belongs to the rows
            (`loo_residuals_`, `leverage_`, `weights_`, `loo_predictions_`) is a lazy Dask array.
        y : array (n_samples,), or (n_samples, n_outputs) for regression
            Numbers for `LSSVR`, labels of any type for `LSSVC`.
        sample_weight : array (n_samples,) or None
            Not negative. A weight of 0 removes the row; integer weights equal copies of rows for the fit.

        Returns
        -------
        self
        """
        if _xp.is_dask(X):
            return self._fit_source(DaskChunks(X, y, sample_weight), "press")
        checked = copy.copy(self)
        X, y, weights = checked._check_rows(X, y, sample_weight, reset=True)
        given = None if sample_weight is None else checked._without_class_weights(y, weights)
        problem = checked._problem(X, y, weights)
        last = _progress.expect(lambda: _most_to_solve(problem))
        problem = run_steps(problem, default_steps(problem) if self.steps is None else self.steps)
        with last:
            fit = problem.solve(left_out=LeaveOneOut.__name__ in problem.paths)
        problem, fit = _with_digits(problem, fit)
        describe(problem, fit)
        later = fit.leverage is None
        left_out = {} if later else checked._left_out(problem.y, problem.weights, fit.weights, fit)
        attributes = {
            **checked._machine(fit.kernel, fit.C, fit.points, fit.coef, fit.intercept),
            **_additive(fit.kernel, fit.points, fit.coef, _xp.take(problem.X, problem.rows)),
            "weights_": fit.weights,
            "_sample_weight_": given,
            **left_out,
            "support_": _same_kind(fit.support, X),
            "path_": _main_path(problem),
            "_problem_": problem.replace(fitted=None),
            **({} if later else {"_fit_": replace(fit, rounding=0.0)}),
        }
        self._store(checked, attributes)
        return self

    def __getattr__(self, name: str) -> Any:
        if name in _LATER and "_problem_" in self.__dict__:
            raise AttributeError(f"fit has not computed {name} of this many rows: call leave_one_out() first.")
        return object.__getattribute__(self, name)  # raises the usual AttributeError

    @_xp.own_threads()
    @np.errstate(under="ignore")
    def leave_one_out(self) -> Self:
        """Compute the leave-one-out attributes, if `fit` has not done so, and keep them.

        `fit` solves a dense model of more than 4000 rows by conjugate gradients if kernel and C are given. Then
        ``leverage_``, ``loo_residuals_``, ``loo_predictions_`` and ``press_`` are missing until this method is called,
        which takes several times as long as the fit. `predict_interval` and `LSSVC.predict_proba` call it.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        if "_problem_" in vars(self) and "_fit_" not in vars(self):
            problem = self._problem_
            fit = problem.replace(weights=self.weights_, robust=None).solve()
            _warn_of_rounding(fit.rounding, fit.C)
            left_out = self._left_out(problem.y, problem.weights, fit.weights, fit)
            self.__dict__ = {**vars(self), **left_out, "_fit_": replace(fit, rounding=0.0)}
        elif "loo_residuals_" not in vars(self):
            raise ValueError("Too few rows are kept for leave_one_out(): use fit, or fit_chunks(leave_one_out='rows').")
        return self

    @available_if(_adds_chunks)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Add a chunk of rows to the machine, exactly: the result equals `fit` on all rows so far with this basis.

        The first call plans kernel, C and basis on its rows (500 of them for ``steps=None``); later calls keep them.
        After `fit`, `fit_chunks` or a fit on Dask the chunk is added to their rows.
        A uniform sample of 5000 rows is kept for `predict_interval`; leave-one-out of the others is not known.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.

        Returns
        -------
        self
        """
        return self._add_chunk(X, y, sample_weight)

    @_xp.own_threads()
    @np.errstate(under="ignore")
    def _add_chunk(self, X: Any, y: Any, sample_weight: Any, **known: Any) -> Self:
        if _xp.is_dask(X):
            raise TypeError(
                "partial_fit takes rows in memory, X is a Dask collection: use fit, or one block at a time."
            )
        checked = copy.copy(self)
        given = known.get("classes")
        if given is not None and hasattr(self, "classes_") and not np.array_equal(np.unique(given), self.classes_):
            raise ValueError(f"classes={given!r} is not the same as in the first call, {self.classes_.tolist()}.")
        stream: Stream | None = getattr(self, "_stream_", None)
        fitted: Problem | None = getattr(self, "_problem_", None)
        first = not hasattr(self, "dual_coef_")
        X, y, weights = checked._check_rows(X, y, sample_weight, reset=first, **(known if first else {}))
        calibrated = isinstance(self, ClassifierMixin) and hasattr(self, "_slopes_")
        calibration = {"_slopes_": self._slopes_} if calibrated else {}
        if stream is None and fitted is not None:
            stream = start_stream(fitted).add(fitted.X, fitted.y, fitted.weights)
        elif stream is None and not first:
            stream = self._resumed()
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

    def _resumed(self) -> Stream:
        """The sums of a fit over chunks."""
        sample = self._left_out_sample()
        if sample is None:
            raise ValueError("partial_fit needs the sums of fit_chunks, which this file of an older version lacks.")
        single, points = self._single_output_, self.support_vectors_
        coef = self.dual_coef_[:, None] if single else self.dual_coef_
        intercept = _same_kind(np.array([self.intercept_]), points) if single else self.intercept_
        return resumed(sample, points, self.C_, coef, intercept)

    def fit_chunks(
        self,
        chunks: Any,
        *,
        columns: Sequence[str] | None = None,
        target: str | Sequence[str] | None = None,
        weight: str | None = None,
        leave_one_out: str = "auto",
    ) -> Self:
        """Fit the machine on rows that come in chunks and can be read again, with exact leave-one-out.

        A first pass draws a sample of 5000 rows, on which kernel, C and basis are planned (500 rows are the basis for
        ``steps=None``). Sums over all chunks then give the machine, and one more pass its leave-one-out residuals.
        No more than a chunk and the sample are held at a time; the sample stays in the model, for `predict_interval`.

        Parameters
        ----------
        chunks : iterable of (X, y) or (X, y, sample_weight), or a function that returns a new iterator of them
            Read several times: they must give the same data in the same order each time. Or a pair or triple of
            arrays, such as NumPy memory maps, that are cut into chunks; or a Parquet file, a folder of them, a pyarrow
            dataset or table.
        columns, target, weight : column names
            For Parquet and pyarrow: the inputs (all other columns by default), what to predict (one or several), and
            the sample weights.
        leave_one_out : {"auto", "rows", "press", "none"}
            "rows" keeps what belongs to the rows (`loo_residuals_`, `leverage_`, `weights_`), "press" only `press_`,
            "none" saves the pass, and the whitening where the points of the basis are independent enough (the
            leverages behind intervals then have about five digits). "auto" is "rows" up to a million rows, "press"
            beyond.

        Returns
        -------
        self
        """
        if leave_one_out not in ("auto", "rows", "press", "none"):
            raise ValueError(f"leave_one_out={leave_one_out!r}: give 'auto', 'rows', 'press' or 'none'.")
        return self._fit_source(as_source(chunks, columns, target, weight), leave_one_out)

    @_xp.own_threads()
    @np.errstate(under="ignore")
    def _fit_source(self, source: Source, leave_one_out: str) -> Self:
        checked = copy.copy(self)  # without what was learned before: it travels to the workers
        checked.__dict__ = {name: value for name, value in vars(self).items() if not name.endswith("_")}
        for step in self.steps if isinstance(self.steps, Sequence) else ():
            by_row = getattr(step, "by_row", "")
            if by_row:
                remedy = "give the points themselves" if isinstance(step, Given) else "use fit, or leave it out"
                raise ValueError(
                    f"{type(step).__name__}: {by_row} goes by row numbers, which chunks do not have: {remedy}."
                )
        checked._start_chunks(*source.first())
        scan = source.reduce(checked._scan_chunk)
        checked._finish_scan(scan)
        plain = copy.copy(checked)  # for the sample, whose columns have lost their names
        plain.__dict__.pop("feature_names_in_", None)
        sample = plain._check_chunk(0, *scan.sample.arrays)
        stream = start_stream(run_steps(checked._problem(*sample), self._chunk_steps()))
        passes = Passes(stream.whitening, as_weight_function(self.robust))
        keep = leave_one_out == "rows" or (leave_one_out == "auto" and scan.rows <= KEPT_ROWS)
        same = SameRows(source, checked._check_chunk, scan.fingerprint)
        fit = fit_chunks(same, passes, scan.rows, 1.0 / stream.C, left_out=leave_one_out != "none", keep=keep)
        attributes = {
            **checked._machine(stream.whitening.kernel, stream.C, stream.points, fit.coef, fit.machine[0].intercept),
            **_additive(stream.whitening.kernel, stream.points, fit.coef, stream.points),
            **plain._chunks_left_out(fit, scan, keep, stream.points, stream.C),
            "support_": None,
            "path_": None,
        }
        if isinstance(source, DaskChunks):
            attributes |= checked._lazy_rows(source, fit)
        self._store(checked, attributes)
        return self

    def _lazy_rows(self, source: DaskChunks, fit: ChunkedFit) -> dict[str, Any]:
        """What belongs to the rows, as lazy Dask arrays."""
        outputs = () if self._single_output_ else tuple(fit.machine[0].mean.shape)
        named = ((), self.classes_.dtype) if isinstance(self, ClassifierMixin) else (outputs, np.float64)
        kinds = [((), np.float64), ((), np.float64), (outputs, np.float64), named]
        function = functools.partial(self._rows_left_out, fit.passes, fit.machine)
        names = ("weights_", "leverage_", "loo_residuals_", "loo_predictions_")
        return dict(zip(names, source.rows(function, kinds), strict=True))

    def _rows_left_out(self, passes: Passes, machine: Any, number: int, *chunk: Any) -> tuple[Array, ...]:
        """Weights, leverages, left-out residuals and left-out predictions of the rows of a chunk."""
        ((targets, _, weights, _, leverage, loo),) = passes.left_out(
            machine, True, number, *self._check_chunk(number, *chunk)
        ).rows
        f, single = targets - loo, self._single_output_
        if isinstance(self, ClassifierMixin):
            return weights, leverage, loo[:, 0] if single else loo, _winner(f, self.classes_)
        return weights, leverage, loo[:, 0] if single else loo, f[:, 0] if single else f

    def _start_chunks(self, X: Any, y: Any, weight: Any) -> None:
        """Learn the columns and the number of outputs from the first chunk."""
        validate_data(self, X, reset=True, skip_check_array=True)
        self._single_output_ = np.ndim(y) == 1
        self._target_shape_ = tuple(np.shape(y)[1:])

    def _scan_chunk(self, number: int, X: Any, y: Any, weight: Any) -> Scan:
        """What the first pass learns from a chunk."""
        if tuple(np.shape(y)[1:]) != self._target_shape_:
            raise ValueError(
                f"chunks: y of chunk {number} has shape {np.shape(y)}, a row of the first {self._target_shape_}: give "
                "all chunks the same targets."
            )
        given = y
        try:
            X, y = self._check_raw(X, y)
        except ValueError as error:
            raise ValueError(f"chunks: chunk {number}: {error}") from None
        ones = np.broadcast_to(np.float64(1.0), (X.shape[0],))  # of no size
        weights = ones if weight is None else _check_weights(weight, X.shape[0], 0)
        labels, counts = self._count_labels(y, weights)
        sample = sample_rows(SAMPLE_ROWS, number, X, y, weights)
        rows = fingerprint(X, given, weight)
        return Scan(X.shape[0], int(np.count_nonzero(weights)), sample, labels, counts, rows)

    def _check_chunk(self, number: int, X: Any, y: Any, weight: Any) -> tuple[Array, Array, Array]:
        """The rows of a chunk, which may be none."""
        return self._check_rows(X, y, weight, reset=False, smallest=0)

    def _chunks_left_out(self, fit: ChunkedFit, scan: Scan, keep: bool, points: Array, C: float) -> dict[str, Any]:
        """The attributes of leave-one-out: all of them, or PRESS and what a sample of the rows tells."""
        sample = self._check_chunk(0, *scan.sample.arrays)
        (few,) = fit.passes.left_out(fit.machine, True, 0, *sample).rows
        targets, own, weights, *rest = fit.rows() if keep else few
        attributes = self._left_out(targets, own, weights, LeftOutRows(*rest))
        attributes["_sample_weight_"] = self._without_class_weights(targets, own)
        if not keep:
            attributes = {name: value for name, value in attributes.items() if name == "_slopes_"}
        attributes["_sample_"] = fit.sample(scan.rows, sample[0], *few)
        _warn_of_rounding(fit.rounding(attributes["_sample_"], points, C), C)
        return attributes if fit.left_out is None else {**attributes, "press_": fit.left_out.press}

    def _left_out_sample(self) -> LeftOutSample | None:
        """A sample of the rows of `partial_fit` or `fit_chunks`, each of them left out."""
        return self._stream_.left_out() if hasattr(self, "_stream_") else getattr(self, "_sample_", None)

    def _chunk_steps(self) -> Any:
        return (Random(BASIS_SIZE, random_state=0),) if self.steps is None else self.steps

    def _problem(self, X: Array, targets: Array, weights: Array) -> Problem:
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
        if kernel.is_precomputed and not _is_symmetric(_xp.to_numpy(X)):
            raise ValueError(
                "X is not symmetric: with kernels.Precomputed, fit takes k(x_i, x_j) of the training rows."
            )
        counting = np.flatnonzero(_xp.to_numpy(weights) > 0)
        check_values(kernel, _xp.take(X, counting[:: 1 + len(counting) // CHECKED_ROWS]))
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

    def _machine(self, kernel: Kernel, C: float, points: Array, coef: Array, intercept: Array) -> dict[str, Any]:
        """The attributes that predict."""
        single = self._single_output_
        coef = coef[:, 0] if single else coef
        return {
            "support_vectors_": points,
            # in the order of a file: products with a model that is read are then the same bits
            "dual_coef_": np.ascontiguousarray(coef) if _xp.is_numpy(coef) else coef,
            "intercept_": float(intercept[0]) if single else intercept,
            "C_": C,
            "kernel_": kernel,
        }

    def _without_class_weights(self, targets: Array, weights: Array) -> Array:
        """Sample weights as they were given, from weights that `_check_rows` returned with the targets."""
        return weights

    def _left_out(self, targets: Array, sample_weight: Array, weights: Array, fit: Any) -> dict[str, Any]:
        """The attributes of leave-one-out."""
        loo = fit.loo_residuals
        return {
            "weights_": weights,
            "leverage_": fit.leverage,
            "loo_residuals_": loo[:, 0] if self._single_output_ else loo,
            "press_": float(weights @ _xp.namespace(loo).sum(loo * loo, axis=1)),
        }

    def _store(self, checked: _LSSVM, attributes: dict[str, Any]) -> None:
        """Replace all fitted attributes at once: an interrupted fit leaves the previous model, or none."""
        kept = {name: value for name, value in vars(self).items() if not name.endswith("_")}
        seen = {name: value for name, value in vars(checked).items() if name in _SEEN}
        self.__dict__ = {**kept, **seen, **attributes}

    @available_if(_is_additive)
    def components(self, X: Any) -> Array:
        """The functions of one input each that an additive machine is the sum of, each with mean 0 over the rows.

        Their sum differs from the prediction (of a classifier, the decision value) by a constant. Inputs that are not
        kept have zeros. Of a model of `partial_fit` or `fit_chunks` the means are those over the basis points.

        Parameters
        ----------
        X : array (n_samples, n_features)
            A Dask collection gives a lazy Dask array.

        Returns
        -------
        array (n_samples, n_components) or (n_samples, n_components, n_outputs)
            One component an input, or a group of `kernels.Additive`.
        """
        if _xp.is_dask(X):
            return lazily(self, "components", X)
        X = self._checked(X, "components")
        coef = self.dual_coef_[:, None] if self.dual_coef_.ndim == 1 else self.dual_coef_
        values = _raw_components(self.kernel_, _xp.like(self.support_vectors_, X), _xp.like(coef, X), X)
        values -= _xp.to_numpy(self._component_means_)
        return _same_kind(values[:, :, 0] if self.dual_coef_.ndim == 1 else values, X)

    @_xp.own_threads()
    @np.errstate(under="ignore")
    def _raw_predict(self, X: Any, method: str) -> Array:
        """f(x), rows x outputs."""
        X = self._checked(X, method)
        f = self._evaluate(X)
        if not bool(_xp.namespace(f).all(_xp.namespace(f).isfinite(f))):
            raise ValueError("Predictions overflow: scale your features, at fit and at predict.")
        return f

    def _evaluate(self, X: Array) -> Array:
        coef = self.dual_coef_[:, None] if self.dual_coef_.ndim == 1 else self.dual_coef_
        intercept = self.intercept_ if self.dual_coef_.ndim == 1 else _xp.like(self.intercept_, X)
        return self.kernel_.dot(X, _xp.like(self.support_vectors_, X), _xp.like(coef, X)) + intercept

    def _checked(self, X: Any, method: str) -> Array:
        """New rows, validated; the columns of a precomputed kernel may be the training rows or only the basis."""
        check_is_fitted(self)
        self._check_kind(X, method)
        if not self.kernel_.is_precomputed:
            return _validate(self, X, reset=False)
        K = check_array(_xp.to_numpy(X) if _xp.is_foreign(X) else X, dtype=np.float64)
        if K.shape[1] == self.support_.shape[0] != self.n_features_in_:
            full = np.zeros((K.shape[0], self.n_features_in_))
            full[:, _xp.to_numpy(self.support_)] = K
            X = _xp.like(full, X) if _xp.is_foreign(X) else full
        return _validate(self, X, reset=False)

    def _check_kind(self, X: Any, method: str) -> None:
        """scikit-learn's rule where its array API dispatch is on; else arrays of another kind are converted."""
        if get_config()["array_api_dispatch"] and (_xp.is_foreign(X) or isinstance(X, np.ndarray)):
            coef = self.dual_coef_
            if _xp.namespace(X) is not _xp.namespace(coef):
                raise ValueError(
                    f"Inputs passed to {type(self).__name__}.{method}() must use the same namespace and the same "
                    f"device as those passed to fit(): got {type(X).__name__}, fitted on {type(coef).__name__}."
                )


@dataclass(frozen=True)
class LeftOutRows:
    """What `_left_out` reads of a fit over chunks."""

    residuals: Array
    leverage: Array
    loo_residuals: Array


class LSSVR(MultiOutputMixin, RegressorMixin, _LSSVM):
    """Least-squares support vector regression; with one C and one kernel also known as kernel ridge regression.

    Minimises ``1/2 beta' K beta + C/2 sum_i v_i (y_i - f(x_i))^2`` with ``f(x) = sum_j beta_j k(x, x_j) + b``; b is not
    penalised. What is left at None is chosen by exact leave-one-out.

    Parameters
    ----------
    kernel : Kernel, callable k(X, Z) or None
        None takes the better of `RBF` and `Matern` by leave-one-out, with one width a column where these are worth it
        (``ard=True``; `tune.LeaveOneOut` says how). A `sigma` that is given applies to the columns as they are; one
        left at None is searched in units of their spread.
    C : float or None
        Weight of the errors against smoothness (the papers' gamma; the ridge is 1/C).
    steps : list of steps or None
        Sparsifiers and tuners, run in this order. None plans by size: the basis is all rows up to 2000, beyond
        500 to 4000 drawn rows, as many as pay (``sparsify.Random()``). An empty list means no step. What is still None
        after the steps is chosen by leave-one-out.
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
        ``y_i - f_(i)(x_i)``, exact for fixed C, kernel, basis and weights: row i leaves the loss, its vector stays.
    loo_predictions_ : array like y
        ``f_(i)(x_i)``, the prediction of the machine without row i.
    press_ : float
        The sum of ``weights_ * loo_residuals_**2``.
    path_ : Bunch or None
        What the last step that searched has recorded.
    active_ : array of int
        Additive machines (`kernels.Additive`): the inputs (or groups of columns) kept.
    max_variation_ : array (n_components,)
        Additive machines: the largest ``|f^l(x_i)|`` over the rows, of the centred components.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    A dense model of more than 4000 rows whose kernel and C are given is solved by conjugate gradients. The attributes
    of leave-one-out (``leverage_``, ``loo_residuals_``, ``loo_predictions_``, ``press_``) are then missing until
    `leave_one_out` computes them, which takes several times as long as the fit.

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

    def _check_raw(self, X: Any, y: Any, **options: Any) -> tuple[Array, Array]:
        """Validated rows and targets."""
        _refuse_times("y", y)
        X, y = _validate(self, X, y, multi_output=True, y_numeric=True, **_chunk_options(options))
        if issparse(y):
            raise TypeError("y is a sparse matrix: give a dense array.")
        try:
            y = _xp.like(y, X) + 0.0  # a copy
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"y holds values that are no numbers ({error}): LSSVR predicts numbers, LSSVC classes."
            ) from None
        largest = float(_xp.namespace(y).max(_xp.namespace(y).abs(y))) if 0 not in y.shape else 0.0
        if not largest <= 1e150:
            raise ValueError(f"y holds {largest:.3g}, whose square overflows: rescale y.")
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
        outputs = np.size(_xp.to_numpy(self.intercept_)) if not reset and hasattr(self, "dual_coef_") else None
        if outputs not in (None, targets.shape[1]):
            raise ValueError(f"y has {targets.shape[1]} outputs, the machine has {outputs}.")
        if sample_weight is None and _xp.is_foreign(X):
            return X, targets, _xp.zeros((X.shape[0],), X) + 1.0
        return X, targets, _same_kind(_check_weights(sample_weight, X.shape[0], smallest), X)

    def _count_labels(self, y: Array, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.empty(0), np.empty(0)

    def _finish_scan(self, scan: Scan) -> None:
        """Two rows at least must count."""
        if scan.counting < 2:
            raise ValueError(f"The chunks hold {scan.counting} rows of positive weight: at least 2 must count.")

    def _left_out(self, targets: Array, sample_weight: Array, weights: Array, fit: Any) -> dict[str, Any]:
        attributes = super()._left_out(targets, sample_weight, weights, fit)
        f = targets - fit.loo_residuals
        return {**attributes, "loo_predictions_": f[:, 0] if self._single_output_ else f}

    def predict(self, X: Any) -> Array:
        """f(x) for every row.

        Parameters
        ----------
        X : array (n_samples, n_features)
            A Dask collection gives a lazy Dask array.

        Returns
        -------
        array (n_samples,) or (n_samples, n_outputs)
        """
        if _xp.is_dask(X):
            return lazily(self, "predict", X)
        f = self._raw_predict(X, "predict")
        return f[:, 0] if self.dual_coef_.ndim == 1 else f

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Coefficient of determination R^2 of the predictions."""
        return _score(r2_score, self.predict(X), y, sample_weight)

    @_xp.own_threads()
    @np.errstate(under="ignore")
    def predict_interval(self, X: Any, coverage: float = 0.9, method: str = "jackknife+", *, folds: Any = 10) -> Array:
        """Prediction intervals from left-out residuals (Barber et al. 2021), exact and without a refit.

        All methods hold kernel, C, basis and the weights of the other rows fixed; robust weights are among these. But
        where one width a column was chosen with fewer than 25 rows for each that is kept, left-out residuals are too
        small: the sizes of the residuals are then those of folds, ten drawn ones or those of "cv+", of machines whose
        kernel and C were chosen without them. That takes as long as so many fits, once: the result is kept in the
        model. Only machines on columns of the KKT system (`sparsify.InversePrune` and its kin) get a warning instead.
        After `partial_fit`, `fit_chunks` or a fit on Dask the rows left out are a uniform sample of at most 5000, each
        of them from the machine of all rows; then the guarantees are those of that many rows. No search is run again.

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
            rows that belong together. Not after `partial_fit` or `fit_chunks`.

        Returns
        -------
        array (n_samples, 2) or (n_samples, 2, n_outputs)
            Lower and upper ends.
        """
        if _xp.is_dask(X):
            return lazily(self, "predict_interval", X, coverage=coverage, method=method, folds=folds)
        X = self._checked(X, "predict_interval")
        if not (isinstance(coverage, Real) and 0 < float(coverage) < 1):
            raise ValueError(f"coverage must lie between 0 and 1, got {coverage!r}: 0.9 gives 90 % intervals.")
        if method not in METHODS:
            raise ValueError(f"method must be one of {METHODS}, got {method!r}.")
        if not hasattr(self, "_problem_"):
            if method == "cv+":
                raise ValueError(
                    "method='cv+' leaves out whole folds, and a model of partial_fit or fit_chunks keeps only a sample "
                    "of its rows: use 'jackknife+'."
                )
            sample = self._left_out_sample()
            if sample is None:
                raise ValueError(
                    "predict_interval needs training rows, which this file of an older version lacks: fit again."
                )
        elif np.isnan(_xp.to_numpy(self.leave_one_out().loo_residuals_)).any():
            raise ValueError(
                f"predict_interval needs left-out residuals, which are not known after {self.steps!r}: give the step "
                "refit=True (final_solve=True)."
            )
        if hasattr(self, "_problem_"):
            problem, fit = self._problem_, self._fit_
            size = self._searched_size(folds if method == "cv+" else None)
            rows = _xp.like(X, problem.X)
            intervals = prediction_intervals(problem, fit, rows, float(coverage), method, folds, size)
        else:
            rows = _xp.like(X, sample.X)
            intervals = sampled_intervals(sample, self._evaluate(rows), rows, float(coverage), method)
        intervals = _same_kind(intervals, X)
        return intervals[:, :, 0] if self.dual_coef_.ndim == 1 else intervals

    def _searched_size(self, folds: Any) -> np.ndarray | None:
        """`searched_again` where it is needed, else None; kept, as it takes as long as so many fits."""
        problem = self._problem_
        widths = few_rows_a_width(problem)
        if widths and problem.reduced:
            warnings.warn(
                f"{widths} widths were chosen by the left-out residuals of {len(problem.rows)} rows, which are too "
                f"small then, and after {self.steps!r} they are not chosen again: the intervals are likely to be too "
                "narrow. Measure their coverage on other rows, or choose one width (kernel=kernels.RBF()).",
                stacklevel=_xp.user_level(),
            )
        if not widths or problem.reduced:
            return None
        rows = np.flatnonzero(_xp.to_numpy(self._fit_.weights) > 0)
        labels = fold_labels(min(FOLDS, len(rows)) if folds is None else folds, rows, problem.X.shape[0])
        known = self.__dict__.get("_searched_")
        if known is None or not np.array_equal(known[0], labels):
            known = self._searched_ = (labels, searched_again(problem, labels))
        return known[1]


class LSSVC(ClassifierMixin, _LSSVM):
    """Least-squares support vector classification, two or many classes.

    The same machine as `LSSVR` on targets -1 and +1: one column for two classes, one column a class against the rest
    for more, all from one factorisation. The class with the largest decision value wins.

    Parameters
    ----------
    kernel : Kernel, callable k(X, Z) or None
        As in `LSSVR`; None is `kernels.RBF(ard=True)`.
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
        them. After `fit`, `fit_chunks` or a fit on Dask the chunk is added to their rows. Of the rows a sample of 5000
        is kept, so that leave-one-out quantities of all are not known.

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

    def _check_raw(self, X: Any, y: Any, **options: Any) -> tuple[Array, np.ndarray]:
        """Validated rows and labels."""
        X, y = _validate(self, X, y, **_chunk_options(options))
        y = _xp.to_numpy(y)
        _sorted_labels(y)
        if len(y):
            check_classification_targets(y)
        return X, y

    def _check_rows(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        *,
        reset: bool,
        smallest: int | None = None,
        classes: Any = None,
    ) -> tuple[Array, Array, Array]:
        """Validated rows, coded targets (rows x columns) and weights times class weights."""
        smallest = (2 if reset else 1) if smallest is None else smallest
        X, y = self._check_raw(X, y, ensure_min_samples=smallest, reset=reset)
        weights = _check_weights(sample_weight, len(y), smallest)
        found = np.unique(y)
        if reset:
            self.classes_ = found if classes is None else np.unique(_xp.to_numpy(classes))
            self._single_output_ = len(self.classes_) == 2
        if len(self.classes_) < 2:
            only = self.classes_.tolist()[0]
            raise ValueError(f"y holds only one class, {only!r}: a classifier needs at least 2 classes.")
        unknown = np.setdiff1d(found, self.classes_)
        if len(unknown):
            raise ValueError(
                f"y holds the class {unknown.tolist()[0]!r}, which is not among the classes {self.classes_.tolist()}: "
                "the first partial_fit takes all of them as classes."
            )
        codes = np.searchsorted(self.classes_, y)
        self._class_factors_ = [1.0] * len(self.classes_)  # no array: those are of the kind of X
        if self.class_weight is not None:
            by_class = _class_weights(self.class_weight, self.classes_, y, weights)
            weights = weights * by_class[codes]
            self._class_factors_ = by_class.tolist()
        if reset and len(np.unique(codes[weights > 0])) < 2 and classes is None:
            raise ValueError(
                "sample_weight and class_weight are zero for all classes but one: 2 classes at least must count."
            )
        labels = np.array([1]) if self._single_output_ else np.arange(len(self.classes_))
        coded = np.where(codes[:, None] == labels[None, :], 1.0, -1.0)
        return X, _same_kind(coded, X), _same_kind(weights, X)

    def _count_labels(self, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        labels, codes = np.unique(y, return_inverse=True)
        return labels, np.bincount(codes, weights, len(labels))

    def _finish_scan(self, scan: Scan) -> None:
        """Classes, and weights that balance them."""
        self.classes_ = scan.labels
        self._single_output_ = len(self.classes_) == 2
        self._class_factors_ = [1.0] * len(self.classes_)
        if np.count_nonzero(scan.label_weights) < 2:
            raise ValueError(
                f"y holds the classes {scan.labels.tolist()} with positive weight in fewer than 2: give 2 at least."
            )
        if self.class_weight is not None:
            balanced = _class_weights(self.class_weight, scan.labels, scan.labels, scan.label_weights)
            self.class_weight = dict(zip(scan.labels, balanced, strict=True))
            self._class_factors_ = balanced.tolist()

    def _without_class_weights(self, targets: Array, weights: Array) -> Array:
        factors = np.array(self._class_factors_)[class_numbers(targets)]
        return _same_kind(_xp.to_numpy(weights) / np.where(factors > 0, factors, 1.0), weights)

    def _left_out(self, targets: Array, sample_weight: Array, weights: Array, fit: Any) -> dict[str, Any]:
        attributes = super()._left_out(targets, sample_weight, weights, fit)
        own = self._without_class_weights(targets, sample_weight)
        coded, v, own, loo, residuals, leverage = (
            _xp.to_numpy(a) for a in (targets, weights, own, fit.loo_residuals, fit.residuals, fit.leverage)
        )
        codes = class_numbers(targets)
        # Calibrate with one unit of weight left out, so that an integer weight is as good as copies of the row.
        copies = np.maximum(own, 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):  # where it is not used
            one_copy = residuals / (1.0 - leverage / copies)[:, None]
        unit = np.where(copies[:, None] > 1.0, one_copy, loo)
        unit = np.where(np.isnan(unit), residuals, unit)  # a machine whose leave-one-out is unknown
        winner = None if np.isnan(loo).any() else _winner(targets - fit.loo_residuals, self.classes_)
        slopes = _same_kind(calibrate(coded - unit, codes, v), targets)
        return {**attributes, "loo_predictions_": winner, "_slopes_": slopes, "_codes_": _same_kind(codes, targets)}

    def decision_function(self, X: Any) -> Array:
        """Decision values: (n_samples,) for two classes, positive for ``classes_[1]``; else (n_samples, n_classes)."""
        if _xp.is_dask(X):
            return lazily(self, "decision_function", X)
        f = self._raw_predict(X, "decision_function")
        return f[:, 0] if self.dual_coef_.ndim == 1 else f

    def predict(self, X: Any) -> Array:
        """The class of every row.

        Parameters
        ----------
        X : array (n_samples, n_features)
            A Dask collection gives a lazy Dask array.

        Returns
        -------
        array (n_samples,)
            Labels that are no numbers come as a NumPy array, whatever the kind of X.
        """
        if _xp.is_dask(X):
            return lazily(self, "predict", X)
        return _winner(self._raw_predict(X, "predict"), self.classes_)

    def predict_proba(self, X: Any) -> Array:
        """Class probabilities (n_samples, n_classes), calibrated on left-out decision values without a refit.

        The most probable class is the one that `predict` names.
        """
        if _xp.is_dask(X):
            return lazily(self, "predict_proba", X)
        f = self._raw_predict(X, "predict_proba")
        return _same_kind(probabilities(_xp.to_numpy(f), _xp.to_numpy(self._calibration())), f)

    def _calibration(self) -> Array:
        """The slopes that turn decision values into probabilities; computed where `fit` has left that for later."""
        if "_slopes_" not in vars(self):
            sample = None if hasattr(self, "_problem_") else self._left_out_sample()
            if sample is None:
                self.leave_one_out()
            else:  # rows were added to a model without leave-one-out
                rows = LeftOutRows(sample.residuals, sample.leverage, sample.loo_residuals)
                left_out = self._left_out(sample.targets, sample.sample_weights, sample.weights, rows)
                self._slopes_ = left_out["_slopes_"]
        return self._slopes_

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of rows whose class is predicted."""
        return _score(accuracy_score, self.predict(X), y, sample_weight)


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
    return (Random(random_state=0),)


def _most_to_solve(problem: Problem) -> float:
    """What the last machine of a plan for ``steps=None`` takes, as in `work`."""
    rows = len(problem.rows)
    solves = 1 if problem.robust is None else 1 + max(ROBUST_ITERATIONS, problem.robust.iterations)
    return solves * work(rows, None if rows <= DENSE_ROWS else BASIS_SIZE)


def run_steps(problem: Problem, steps: Any) -> Problem:
    """Run the steps, then choose what is still None."""
    if isinstance(steps, (str, Step, type)) or not isinstance(steps, Sequence):
        example = repr(steps) if isinstance(steps, Step) else "lssvm.sparsify.Random(100)"
        raise TypeError(f"steps must be a list of steps or None, got {steps!r}: write steps=[{example}].")
    for step in steps:
        if isinstance(step, type) or not callable(step):
            raise TypeError(f"steps holds {step!r}, which is not a step: see lssvm.sparsify and lssvm.tune.")
        result = step(problem)
        if not isinstance(result, Problem):
            raise TypeError(
                f"steps holds {step!r}, which returned {reprlib.repr(result)}: a step must return a Problem, such as "
                "the one it was given or problem.replace(...)."
            )
        problem = result
    return tuned(problem)


def _raw_components(kernel: Additive, points: Any, coef: Any, X: Any) -> np.ndarray:
    """Rows x components x outputs, not centred."""
    out = np.zeros((X.shape[0], len(kernel.components(X.shape[1])), coef.shape[1]))
    for number, (group, part) in kernel.kept(X.shape[1]).items():
        out[:, number] = _xp.to_numpy(part.dot(pick_columns(X, group), pick_columns(points, group), coef))
    return out


def _additive(kernel: Kernel, points: Any, coef: Any, rows: Any) -> dict[str, Any]:
    """The attributes of an additive machine; its components are centred over the rows given."""
    if not isinstance(kernel, Additive):
        return {}
    values = _raw_components(kernel, points, coef, rows)
    means = values.mean(axis=0)
    variation = np.max(np.abs(values - means), axis=0)
    return {
        "active_": _same_kind(np.array(sorted(kernel.kept(rows.shape[1])), dtype=np.intp), rows),
        "max_variation_": _same_kind(variation[:, 0] if coef.shape[1] == 1 else variation, rows),
        "_component_means_": _same_kind(means, rows),
    }


def _validate(model: BaseEstimator, X: Any, y: Any = "no_validation", **options: Any) -> Any:
    """scikit-learn's validation, with a copy of X and with messages that name the argument and the column."""
    if options.get("ensure_min_samples") == 0 and not (X.shape[0] if hasattr(X, "shape") else len(X)):
        return np.zeros((0, model.n_features_in_)), np.zeros((0, *np.shape(y)[1:]))  # a chunk without rows
    y = _xp.to_numpy(y) if isinstance(y, np.ndarray) and y.dtype.kind == "T" else y
    for name, values in (("X", X), ("y", y)):
        if np.ma.is_masked(values):
            raise ValueError(f"{name} is a masked array with masked values: fill them in, or leave their rows out.")
    _refuse_missing(y)
    if _xp.is_foreign(X):
        return _validate_foreign(model, X, y, **options)
    _refuse_times("X", X)
    if _xp.is_foreign(y):
        y = _xp.to_numpy(y)
    try:
        with np.errstate(all="ignore"):
            return validate_data(model, X, y, dtype=np.float64, copy=True, **options)
    except OverflowError:
        raise ValueError("X or y holds integers too large for a float: rescale them.") from None
    except (TypeError, ValueError) as error:
        text = str(error)
        if any(part in text for part in ("could not convert", "must be real", "must be a string or a", "promoted")):
            _explain_text(model, X, y, text)
        if "'<' not supported" in text:
            raise ValueError(
                f"y holds labels of several types, which cannot be sorted ({text}): use one type."
            ) from None
        if text.startswith(("Input X contains", "Input y contains")):
            raise ValueError(_where(X if text[6] == "X" else y, text)) from None
        raise


def _refuse_missing(y: Any) -> None:
    """ValueError for None, NaN, NaT and NA among targets or labels that are not an array of numbers."""
    if _xp.is_foreign(y) or isinstance(y, str):
        return
    try:
        table = np.asarray(y, dtype=object if isinstance(y, Sequence) else None)  # text would turn NaN into "nan"
    except (TypeError, ValueError):  # validation has an error of its own for these
        return
    if table.dtype.kind not in "OmM" or not table.shape or not table.size:
        return
    rows = [row for row, cells in enumerate(table.reshape(len(table), -1)) if any(map(_is_missing, cells))]
    if rows:
        raise ValueError(
            f"y is missing in row {rows[0]} (rows count from 0), {len(rows)} in all: leave these rows out, or fill "
            "them in."
        )


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA
        return True
    except ValueError:  # an array
        return False


def _refuse_times(name: str, values: Any) -> None:
    """TypeError for dates and durations: the numbers behind them depend on a unit that may differ at predict."""
    types = getattr(getattr(values, "schema", None), "types", None)  # pyarrow
    if types is None:
        types = getattr(values, "dtypes", getattr(values, "dtype", None))  # frames, arrays
    found = [str(kind) for kind in types] if isinstance(types, Iterable) else [str(types)]
    columns = _column_names(values, len(found)) if len(found) > 1 else [None]
    kinds: list[tuple[Any, str]] = list(zip(columns, found, strict=True))
    if "object" in found or (isinstance(values, Sequence) and len(values)):
        try:
            cells = np.asarray(values, dtype=object).ravel()
        except ValueError:  # rows of unequal length have an error of their own
            cells = np.empty(0, dtype=object)
        times = (np.datetime64, np.timedelta64, datetime.date, datetime.timedelta)
        kinds += [(None, type(cell).__name__) for cell in cells if isinstance(cell, times)][:1]
    for column, kind in kinds:
        if kind.lower().startswith(("date", "time", "duration")):
            where = name if column is None else f"{name}: column {column!r}"
            raise TypeError(
                f"{where} holds {kind} values, whose numbers depend on their unit: convert them to numbers of one "
                'unit, the same at fit and predict, e.g. (t - np.datetime64("2000-01-01")) / np.timedelta64(1, "D").'
            )


def _where(values: Any, text: str) -> str:
    """scikit-learn's words on NaN and infinity, with the first place where the values are not finite."""
    try:
        table = np.asarray(values, dtype=np.float64)
        found = ~np.isfinite(table.reshape(len(table), -1))
    except (TypeError, ValueError):  # objects, e.g. missing values of pandas
        table = np.asarray(values, dtype=object)
        found = np.array([[not _is_finite(value) for value in row] for row in table.reshape(len(table), -1)])
    if not found.any():
        return text
    row, c = (int(place[0]) for place in np.nonzero(found))
    place = f"row {row}" if table.ndim == 1 else f"column {_column_names(values, found.shape[1])[c]!r}, row {row}"
    first, _, rest = text.partition("\n")
    remedy = rest or "Remove or impute those values."
    return f"{first} The first is in {place} (rows count from 0), {int(np.sum(found))} in all.\n{remedy}"


def _is_finite(value: Any) -> bool:
    try:
        return bool(np.isfinite(float(value)))
    except (TypeError, ValueError, OverflowError):  # None and other missing values
        return False


def _column_names(X: Any, count: int) -> Any:
    return getattr(X, "column_names", getattr(X, "columns", range(count)))  # pyarrow, frames


def _validate_foreign(
    model: BaseEstimator, X: Array, y: Any, *, reset: bool, ensure_min_samples: int = 1, **options: Any
) -> Any:
    """The same for arrays that stay where they are; y goes where X is, unless it holds labels."""
    xp = _xp.namespace(X)
    if _xp.is_torch(X) and X.layout is not xp.strided:
        raise TypeError("Sparse data was passed for X, but dense data is required: use X.to_dense().")
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead: X must have rows and columns.")
    if X.shape[0] < ensure_min_samples or X.shape[1] < 1:
        raise ValueError(
            f"Found array with {X.shape[0]} sample(s) and {X.shape[1]} feature(s) (shape={tuple(X.shape)}): at least "
            f"{ensure_min_samples} and 1 are required."
        )
    validate_data(model, X, reset=reset, skip_check_array=True)
    if xp.isdtype(X.dtype, "complex floating"):
        raise ValueError("Complex data not supported: X must hold real numbers.")
    if _xp.is_torch(X):
        X = X.detach()
    try:
        X = _xp.like(X, X) + 0.0  # a copy
    except TypeError as error:
        raise ValueError(f"X is on a device without float64 ({error}): move it to the CPU.") from None
    if not bool(xp.all(xp.isfinite(X))):
        raise ValueError("Input X contains NaN or infinity: remove or impute those values.")
    if isinstance(y, str) and y == "no_validation":
        return X
    if y is None:
        raise ValueError("y is None: give one target a row.")
    if _xp.is_foreign(y) and "multi_output" in options:
        values = _xp.like(y, X)
        if values.ndim not in (1, 2):
            raise ValueError(f"y has {values.ndim} dimensions: give one target a row, or a column for each output.")
        if not bool(xp.all(xp.isfinite(values))):
            raise ValueError("Input y contains NaN or infinity: remove or impute those values.")
    else:
        try:
            values = check_array(
                _xp.to_numpy(y), dtype=None, ensure_2d=False, ensure_min_samples=ensure_min_samples, input_name="y"
            )
        except ValueError as error:
            if not str(error).startswith("Input y contains"):
                raise
            raise ValueError(_where(y, str(error))) from None
    if "multi_output" not in options:
        values = column_or_1d(values, warn=True)
    if values.shape[0] != X.shape[0]:
        raise ValueError(f"X has {X.shape[0]} rows, y has {values.shape[0]}: inconsistent numbers of samples.")
    return X, values


def _chunk_options(options: dict[str, Any]) -> dict[str, Any]:
    """Options of a chunk that follows others, which may hold no row, unless they are given."""
    return {"reset": False, "ensure_min_samples": 0, **options}


def _same_kind(values: Any, reference: Array) -> Any:
    """NumPy values as an array of the kind and on the device of `reference`; None stays None."""
    if values is None or isinstance(reference, np.ndarray) or values.dtype.kind not in "biuf":
        return values
    xp = _xp.namespace(reference)
    return xp.asarray(values, device=_xp.device(reference))


def _is_symmetric(K: np.ndarray) -> bool:
    return bool(np.max(np.abs(K - K.T)) <= 1e-6 * np.max(np.abs(K)))


def _score(metric: Any, predicted: Any, y: Any, sample_weight: Any) -> float:
    """A metric of scikit-learn, on arrays of any kind."""
    _refuse_missing(y)
    weights = None if sample_weight is None else _xp.to_numpy(sample_weight)
    return float(metric(_xp.to_numpy(y), _xp.to_numpy(predicted), sample_weight=weights))


def _explain_text(model: BaseEstimator, X: Any, y: Any, text: str) -> None:
    """Raise an error that names the first column of X that is no number, else y."""
    table = np.asarray(X, dtype=object)
    for c in range(table.shape[1] if table.ndim == 2 else 0):
        try:
            table[:, c].astype(np.float64)
        except (TypeError, ValueError) as error:
            name = _column_names(X, table.shape[1])[c]
            raise type(error)(
                f"X: column {name!r} holds values that are no numbers ({text}): encode it, or leave it out."
            ) from None
    if isinstance(model, RegressorMixin):
        raise ValueError(
            f"y holds values that are no numbers ({text}): LSSVR predicts numbers, LSSVC classes."
        ) from None


def _with_digits(problem: Problem, fit: Fit) -> tuple[Problem, Fit]:
    """The machine itself, or, where a dense one has lost its digits, one that reaches the same functions with them.

    Coefficients of a dense machine are C times residuals: with a kernel of finite rank (linear, polynomial) far from 0,
    or a large C, their sums cancel. Those of unit vectors (linear), or of rows that the others depend on, do not.
    """
    gap = _gap(problem, fit)
    lost = max(gap, fit.rounding)
    dense = problem.support is None and problem.points is None and not problem.reduced  # no step has chosen a basis
    bounded = problem.kernel.is_bounded or problem.kernel.is_precomputed
    linear = dense and type(problem.kernel) is Linear and problem.X.shape[1] < len(problem.rows)
    if lost <= LOST_DIGITS and not (linear and gap > LINEAR_DIGITS):
        return problem, fit
    smaller, least = None, 0.0
    if linear:
        smaller = problem.with_basis(points=_xp.identity(problem.X.shape[1], problem.X))
    elif dense and not bounded and len(problem.rows) <= ITERATIVE_ROWS:  # beyond, memory is short
        X = _xp.take(problem.X, problem.rows)
        pivots, others = (independent_rows(problem.kernel.evaluate(Z, Z)) for Z in (X, X - X.mean(axis=0)[None, :]))
        if len(pivots) < len(problem.rows):
            smaller = problem.with_basis(problem.rows[pivots])
            least = 1.0 if len(pivots) < len(others) else 0.0  # far from 0 the kernel has lost dimensions
    if smaller is not None:
        smaller = _retuned(smaller)
        found = smaller.solve()
        left = max(_gap(smaller, found), found.rounding, least)
        if left < lost:
            problem, fit, lost = smaller, found, left
    _warn_of_rounding(lost, fit.C)
    return problem, fit


def _warn_of_rounding(lost: float, C: float) -> None:
    if not lost <= LOST_DIGITS:
        warnings.warn(
            f"Rounding errors: predictions or leave-one-out residuals may be off by about {lost:.0e} of the targets' "
            f"spread. The kernel's values are too large or too much alike for C = {C:.3g} and these weights: subtract "
            "the means of the columns and scale them, or lower C.",
            stacklevel=_xp.user_level(),
        )


def _retuned(problem: Problem) -> Problem:
    """With C chosen anew, where it was chosen by what had lost its digits."""
    chosen = problem.asked == (problem.kernel, None) and LeaveOneOut.__name__ in problem.paths
    return tuned(problem.replace(C=None), on_all_rows=False) if chosen else problem


def _gap(problem: Problem, fit: Fit) -> float:
    """By how much predictions of some training rows miss what the solution left of their targets.

    It is relative to the spread of the targets. Fits of noise-free targets, whose C is the largest, have about 1e-7.
    """
    largest = float(_xp.namespace(fit.weights).max(fit.weights))
    if problem.is_dual and fit.kernel.is_bounded and _xp.EPS * len(problem.rows) * fit.C * largest <= LOST_DIGITS:
        return 0.0  # coefficients are C times residuals: their sums have the digits
    rows = problem.rows[:: max(1, len(problem.rows) // CHECKED_ROWS)]
    f = _xp.to_numpy(fit.predict(_xp.take(problem.X, rows)))
    y, residuals = _xp.to_numpy(_xp.take(problem.y, rows)), _xp.to_numpy(_xp.take(fit.residuals, rows))
    gap, xp = float(np.max(np.abs(y - residuals - f))), _xp.namespace(problem.y)
    gap -= 100.0 * _xp.EPS * float(np.max(np.abs(y)))  # what they have lost by being far from 0
    spread = float(xp.max(xp.abs(problem.y - xp.mean(problem.y, axis=0)[None, :])))  # squares may underflow
    return gap / (spread or 1e-300) if gap > 0.0 else 0.0


def _main_path(problem: Problem) -> Any:
    """The record of the last step that searched, sparsifiers before the tuner that ends every fit."""
    names = list(problem.paths)
    chosen = [name for name in names if name != LeaveOneOut.__name__] or names
    return problem.paths[chosen[-1]] if chosen else None


def _winner(decision: Array, classes: np.ndarray) -> Array:
    return _same_kind(classes[class_numbers(decision)], decision)


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
    for label, value in zip(classes.tolist(), values, strict=True):
        if not 0 <= value < 1e100:
            raise ValueError(f"class_weight of class {label!r} is {value:g}: it must not be negative, infinite or NaN.")
    return values


def _check_weights(weights: Any, n_rows: int, smallest: int, name: str = "sample_weight") -> np.ndarray:
    if weights is None:
        return np.ones(n_rows)
    try:
        values = np.asarray(_xp.to_numpy(weights))
        if values.dtype.kind in "cmM":
            raise TypeError(f"{values.dtype} values")
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
        raise ValueError(f"Negative values in {name}: {values[row]} in row {row}. Weights are zero or positive.")
    extremes = [float(np.max(values, initial=0.0)), float(np.min(values[values > 0], initial=np.inf))]
    if extremes[0] > 1e100 or extremes[1] < 1e-100:
        raise ValueError(f"{name} ranges from {extremes[1]:.3g} to {extremes[0]:.3g}: rescale it towards 1.")
    if np.count_nonzero(values) < smallest:
        raise ValueError(f"{name} is zero in all rows but {np.count_nonzero(values)}: at least {smallest} must count.")
    return values
