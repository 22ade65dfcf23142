"""Fits on chunks of rows: `partial_fit`, `fit_chunks` and Dask collections."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from .. import arrays, progress
from ..arrays import Array, ArrayLike
from ..cluster import DaskChunks
from ..kernels import as_kernel
from ..problem import Problem
from ..problem.cancellation import warn_of_rounding
from ..sparsify import Given, Random
from ..stream import (
    SAMPLE_ROWS,
    ChunkedFit,
    LooSample,
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
from ..tables import as_table, refuse_equal_names, refuse_lazy
from ..tune import tuned
from .base import BaseLSSVM, additive_attributes
from .callbacks import followed, with_callbacks
from .labels import winning_class
from .planning import BASIS_SIZE, run_steps
from .stacked import new_members, stack_attributes, unfitted
from .validation import check_weights, kinds_of_columns, same_kind

LEAST_SQUARES = (
    "adds sums over rows, which give least squares, one class against the rest, got loss={loss!r}, coding={coding!r}: "
    "write loss='squared', coding='one-vs-rest', or use fit on all rows."
)
NO_GROUPS = (
    ": groups of rows are not supported yet. To choose C and widths by groups, use steps=[tune.KFold(groups=...)]; for "
    "intervals of new groups, give groups to predict_interval."
)
KEPT_ROWS = 1_000_000  # largest number of rows for which fit_chunks keeps per-row results by default


def adds_chunks(model: BaseLSSVM) -> bool:
    """Check that the model can be computed from sums over chunks; raise AttributeError if it cannot."""
    if model.robust is not None:
        raise AttributeError(
            f"partial_fit does not support robust={model.robust!r}, which needs the residuals of all rows: use fit or "
            "fit_chunks."
        )
    if getattr(model.kernel, "is_precomputed", False):
        raise AttributeError(
            "partial_fit does not support kernels.Precomputed: give a kernel of the columns, or use fit."
        )
    for step in model.steps if isinstance(model.steps, Sequence) else ():
        if getattr(step, "needs_all_rows", False) is True:
            raise AttributeError(f"partial_fit does not support {step!r}, which needs all rows at once: use fit.")
    if not sums_suffice(model):
        raise AttributeError(f"partial_fit {LEAST_SQUARES.format(loss=model.loss, coding=model.coding)}")
    if not was_least_squares(model):
        raise AttributeError(f"partial_fit {LEAST_SQUARES.format(loss=model.loss_, coding=model.coding_)}")
    if isinstance(getattr(model, "class_weight", None), str):
        raise AttributeError(
            f"partial_fit does not support class_weight={model.class_weight!r}, as the class frequencies of later "
            "chunks are not known: give a dict, or use fit or fit_chunks."
        )
    return True


def sums_suffice(model: Any) -> bool:
    """Whether sums over rows give the model: those of least squares, one class against the rest."""
    loss, coding = getattr(model, "loss", "squared"), getattr(model, "coding", "one-vs-rest")
    return loss in ("auto", "squared") and coding in ("auto", "one-vs-rest")


def was_least_squares(model: Any) -> bool:
    """Whether a fitted model, if there is one, is of that kind."""
    return getattr(model, "loss_", "squared") == "squared" and getattr(model, "coding_", "") != "one-vs-one"


class ChunkedLSSVM(BaseLSSVM):
    """Adds fits on rows in memory, on Dask collections and on chunks."""

    @with_callbacks
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, **unknown: Any) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array or frame (n_samples, n_features)
            Numbers and, in frames of pandas or polars and pyarrow tables, text and categories; cells may be missing.
            The square kernel matrix for `kernels.Precomputed`. For a torch tensor or CuPy array all computations run on
            its device, and results are arrays of the same kind. A Dask array or dataframe is processed by its scheduler
            as in `fit_chunks`; only sums and a sample of the rows are returned to the client, and the per-row results
            (`loo_residuals_`, `leverage_`, `weights_`, `loo_predictions_`) are lazy Dask arrays.
        y : array (n_samples,), or (n_samples, n_outputs) for regression
            Numbers for `LSSVR`, labels of any type for `LSSVC`.
        sample_weight : array (n_samples,) or None
            Non-negative weights. A weight of 0 removes the row. For a given kernel and C, integer weights are
            equivalent to copies of rows; otherwise, a common factor of all weights changes nothing but C.
        **unknown
            None: other arguments, such as groups, are refused.

        Returns
        -------
        self
        """
        if unknown:
            remedy = NO_GROUPS if "groups" in unknown else "."
            raise TypeError(f"{type(self).__name__}.fit() does not take {', '.join(unknown)}{remedy}")
        with followed(self, X=X, y=y, metadata={"sample_weight": sample_weight}):
            if arrays.is_dask(X):
                return self._fit_source(DaskChunks(X, y, sample_weight), "press")
            return self._fit_rows(X, y, sample_weight)

    @available_if(adds_chunks)
    @with_callbacks
    def partial_fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Update the model with a chunk of rows, exactly: the result equals `fit` on all rows so far with this basis.

        The first call chooses kernel, C and basis on its rows (a basis of 500 rows for ``steps=None``); later calls
        keep them. After `fit`, `fit_chunks` or a fit on Dask the chunk is added to the rows of that fit. A uniform
        sample of 5000 rows is kept for `predict_interval`; leave-one-out values of the other rows are not available.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.

        Returns
        -------
        self
        """
        with followed(self, X=X, y=y, metadata={"sample_weight": sample_weight}):
            return self._add_chunk(X, y, sample_weight)

    @arrays.single_threaded_blas()
    @np.errstate(under="ignore")
    def _add_chunk(self, X: Any, y: Any, sample_weight: Any, **known: Any) -> Self:
        if arrays.is_dask(X):
            raise TypeError(
                "partial_fit takes rows in memory, but X is a Dask collection: use fit, or pass one block at a time."
            )
        checked = copy.copy(self)
        if "members_" in vars(self) or getattr(self.kernel, "is_stack", False):
            return self._add_chunk_to_stack(X, y, sample_weight, known)
        given = known.get("classes")
        if given is not None and hasattr(self, "classes_") and not np.array_equal(np.unique(given), self.classes_):
            raise ValueError(
                f"classes={given!r} differs from the classes of the first call, {self.classes_.tolist()}: give the "
                "same classes."
            )
        stream: Stream | None = getattr(self, "_stream_", None)
        fitted: Problem | None = getattr(self, "_problem_", None)
        first = "dual_coef_" not in vars(self)
        X, y, weights = checked._check_rows(X, y, sample_weight, reset=first, **(known if first else {}))
        last = progress.expect(lambda: progress.work(X.shape[0], BASIS_SIZE))
        calibrated = isinstance(self, ClassifierMixin) and hasattr(self, "_slopes_")
        calibration = {"_slopes_": self._slopes_} if calibrated else {}
        if stream is None and fitted is not None:
            stream = start_stream(fitted).add(fitted.X, fitted.y, fitted.weights)
        elif stream is None and not first:
            stream = self._resumed()
        elif stream is None:
            problem = tuned(run_steps(checked._problem(X, y, weights), self._chunk_steps()))
            stream = start_stream(problem)
            loo_attributes = checked._loo_attributes(y, weights, weights, problem.solve())
            calibration = {name: value for name, value in loo_attributes.items() if name == "_slopes_"}
        with last:
            stream = stream.add(X, y, weights)
            coef, intercept = stream.solve()
        kernel, points = stream.whitening.kernel, stream.points
        attributes = checked._model_attributes(kernel, stream.C, points, coef, intercept)
        attributes.update(additive_attributes(kernel, points, coef, points))
        self._store(checked, {**attributes, **calibration, "support_": None, "path_": None, "_stream_": stream})
        return self

    def _add_chunk_to_stack(self, X: Any, y: Any, sample_weight: Any, known: dict[str, Any]) -> Self:
        """Add a chunk to every member; the first chunk determines the weights."""
        first = "members_" not in vars(self)
        members = new_members(self, as_kernel(self.kernel).parts) if first else [copy.copy(m) for m in self.members_]
        for place, member in enumerate(members):
            with progress.one_of(place, len(members)):
                member._add_chunk(X, y, sample_weight, **known)
        self._store(members[0], stack_attributes(self, members, None if first else self.stack_weights_))
        return self

    def _resumed(self) -> Stream:
        """The sums of a fit over chunks."""
        sample = self._loo_sample()
        if sample is None:
            raise ValueError(
                "partial_fit needs the sums of fit_chunks, which this model file of an older version does not contain: "
                "fit the model again."
            )
        single, points = self._single_output_, self.support_vectors_
        coef = self.dual_coef_[:, None] if single else self.dual_coef_
        intercept = same_kind(np.array([self.intercept_]), points) if single else self.intercept_
        return resumed(sample, points, self.C_, coef, intercept)

    @with_callbacks
    def fit_chunks(
        self,
        chunks: Any,
        *,
        columns: Sequence[str] | None = None,
        target: str | Sequence[str] | None = None,
        weight: str | None = None,
        leave_one_out: str = "auto",
    ) -> Self:
        """Fit the model on chunks of rows that can be read several times, with exact leave-one-out.

        A first pass draws a sample of 5000 rows, on which kernel, C and basis are chosen (a basis of 500 rows for
        ``steps=None``), and the categories and medians of the columns. Sums over all chunks then determine the model,
        and one more pass its leave-one-out residuals.
        At most one chunk and the sample are in memory at a time; the sample is kept in the model for
        `predict_interval`.

        Parameters
        ----------
        chunks : iterable of (X, y) or (X, y, sample_weight), or a function that returns a new iterator of them
            They are read several times and must give the same data in the same order each time. Alternatives are a
            pair or triple of arrays, such as NumPy memory maps, which are cut into chunks, or a Parquet file, a folder
            of Parquet files, a pyarrow dataset or a pyarrow table.
        columns, target, weight : column names
            For Parquet and pyarrow: the inputs (by default all other columns), the column or columns to predict, and
            the sample weights.
        leave_one_out : {"auto", "rows", "press", "none"}
            "rows" keeps the per-row results (`loo_residuals_`, `leverage_`, `weights_`), "press" only `press_`. "none"
            saves the last pass, and also the whitening if the basis points are sufficiently independent (the leverages
            behind intervals then have about five digits). "auto" is "rows" up to a million rows and "press" above.

        Returns
        -------
        self
        """
        if leave_one_out not in ("auto", "rows", "press", "none"):
            raise ValueError(f"leave_one_out must be 'auto', 'rows', 'press' or 'none', got {leave_one_out!r}.")
        with followed(self):
            return self._fit_source(as_source(chunks, columns, target, weight), leave_one_out)

    @arrays.single_threaded_blas()
    @np.errstate(under="ignore")
    def _fit_source(self, source: Source, leave_one_out: str) -> Self:
        if not sums_suffice(self):
            raise ValueError(f"A fit over chunks {LEAST_SQUARES.format(loss=self.loss, coding=self.coding)}")
        if getattr(self.kernel, "is_stack", False):
            members = new_members(self, as_kernel(self.kernel).parts)
            for place, member in enumerate(members):
                with progress.one_of(place, len(members)):
                    member._fit_source(source, leave_one_out)
            self._store(members[0], stack_attributes(members[0], members))
            return self
        checked = unfitted(self)  # as it is sent to the workers
        for step in self.steps if isinstance(self.steps, Sequence) else ():
            by_row = getattr(step, "by_row", "")
            if by_row:
                remedy = "give the points themselves" if isinstance(step, Given) else "use fit, or omit the argument"
                raise ValueError(
                    f"{type(step).__name__}: {by_row} refers to row numbers, which chunks do not have: {remedy}."
                )
        checked._start_chunks(*source.first())
        scan = checked._encoded_scan(source.reduce(checked._scan_chunk))
        checked._finish_scan(scan)
        plain = copy.copy(checked)  # for the sample, whose columns are encoded and have no names
        plain.n_features_in_ = scan.sample.arrays[0].shape[1]
        for name in ("feature_names_in_", "_columns_"):
            plain.__dict__.pop(name, None)
        sample = plain._check_chunk(0, *scan.sample.arrays)
        problem = checked._problem(*sample)
        count = 2 + 3 * (0 if problem.robust is None else problem.robust.iterations)  # passes, as a rule
        expected = [progress.expect(lambda: progress.work(scan.rows, BASIS_SIZE)) for _ in range(count)]
        stream = start_stream(tuned(run_steps(problem, self._chunk_steps())))
        passes = Passes(stream.whitening, problem.robust)
        keep = leave_one_out == "rows" or (leave_one_out == "auto" and scan.rows <= KEPT_ROWS)
        same = SameRows(source, checked._check_chunk, checked._traced, scan.fingerprint, iter(expected))
        fit = fit_chunks(same, passes, scan.rows, 1.0 / stream.C, loo=leave_one_out != "none", keep=keep)
        attributes = {
            **checked._model_attributes(
                stream.whitening.kernel, stream.C, stream.points, fit.coef, fit.solved[0].intercept
            ),
            **additive_attributes(stream.whitening.kernel, stream.points, fit.coef, stream.points),
            **plain._chunked_loo_attributes(fit, scan, keep, stream.points, stream.C),
            "support_": None,
            "path_": None,
        }
        if isinstance(source, DaskChunks):
            attributes |= checked._lazy_rows(source, fit)
        self._store(checked, attributes)
        return self

    def _lazy_rows(self, source: DaskChunks, fit: ChunkedFit) -> dict[str, Any]:
        """The per-row results, as lazy Dask arrays."""
        outputs = () if self._single_output_ else tuple(fit.solved[0].mean.shape)
        named = ((), self.classes_.dtype) if isinstance(self, ClassifierMixin) else (outputs, np.float64)
        kinds = [((), np.float64), ((), np.float64), (outputs, np.float64), named]
        function = functools.partial(self._chunk_loo_values, fit.passes, fit.solved)
        names = ("weights_", "leverage_", "loo_residuals_", "loo_predictions_")
        return dict(zip(names, source.rows(function, kinds), strict=True))

    def _chunk_loo_values(self, passes: Passes, solved: Any, number: int, *chunk: Any) -> tuple[Array, ...]:
        """Weights, leverages, leave-one-out residuals and leave-one-out predictions of the rows of a chunk."""
        ((targets, _, weights, _, leverage, loo),) = passes.loo(
            solved, True, number, *self._check_chunk(number, *chunk)
        ).rows
        f, single = targets - loo, self._single_output_
        if isinstance(self, ClassifierMixin):
            return weights, leverage, loo[:, 0] if single else loo, winning_class(f, self.classes_)
        return weights, leverage, loo[:, 0] if single else loo, f[:, 0] if single else f

    def _start_chunks(self, X: Any, y: Any, weight: Any) -> None:
        """Learn the kinds of the columns and the number of outputs from the first chunk."""
        refuse_lazy("X", X)
        X = as_table(X)
        refuse_equal_names(X)
        validate_data(self, X, reset=True, skip_check_array=True)
        columns = kinds_of_columns(self, X)
        if columns is not None:
            self._columns_ = columns
        self._single_output_ = np.ndim(y) == 1
        self._target_shape_ = tuple(np.shape(y)[1:])

    def _scan_chunk(self, number: int, X: Any, y: Any, weight: Any) -> Scan:
        """The results of the first pass for one chunk."""
        if tuple(np.shape(y)[1:]) != self._target_shape_:
            raise ValueError(
                f"chunks: y has shape {np.shape(y)} in chunk {number}, but one row of y has shape "
                f"{self._target_shape_} in the first chunk: give the same outputs in all chunks."
            )
        given = y
        try:
            X, y = self._check_raw(X, y, encode=False)
        except ValueError as error:
            raise ValueError(f"chunks: chunk {number}: {error}") from None
        ones = np.broadcast_to(np.float64(1.0), (X.shape[0],))  # takes no memory
        weights = ones if weight is None else check_weights(weight, X.shape[0], 0)
        labels, counts = self._count_labels(y, weights)
        sample = sample_rows(SAMPLE_ROWS, number, X, y, weights)
        rows = fingerprint(self._traced(X, encoded=False), given, weight)
        return Scan(X.shape[0], int(np.count_nonzero(weights)), sample, labels, counts, rows)

    def _traced(self, X: Array, *, encoded: bool = True) -> Array:
        """The columns of numbers, by which rows of later passes are recognised."""
        columns = vars(self).get("_columns_")
        if columns is None or (columns.are_plain and X.dtype != object):
            return X
        return np.asarray(X[:, columns.numbers(encoded=encoded)], dtype=np.float64)

    def _encoded_scan(self, scan: Scan) -> Scan:
        """Learn how the columns are encoded from the sample of rows, and encode it."""
        columns = vars(self).get("_columns_")
        if columns is None:
            return scan
        X, *rest = scan.sample.arrays
        cells = columns.split(X)
        self._columns_ = columns.fitted(cells)
        return replace(scan, sample=replace(scan.sample, arrays=(self._columns_.encode(cells), *rest)))

    def _check_chunk(self, number: int, X: Any, y: Any, weight: Any) -> tuple[Array, Array, Array]:
        """The checked rows of a chunk, which may be empty."""
        return self._check_rows(X, y, weight, reset=False, smallest=0)

    def _chunked_loo_attributes(
        self, fit: ChunkedFit, scan: Scan, keep: bool, points: Array, C: float
    ) -> dict[str, Any]:
        """The leave-one-out attributes: all of them, or PRESS and those based on a sample of the rows."""
        sample = self._check_chunk(0, *scan.sample.arrays)
        (few,) = fit.passes.loo(fit.solved, True, 0, *sample).rows
        targets, own, weights, *rest = fit.rows() if keep else few
        attributes = self._loo_attributes(targets, own, weights, RowResults(*rest))
        attributes["_sample_weight_"] = self._without_class_weights(targets, own)
        if not keep:
            attributes = {name: value for name, value in attributes.items() if name == "_slopes_"}
        attributes["_sample_"] = fit.sample(scan.rows, sample[0], *few)
        warn_of_rounding(fit.rounding(attributes["_sample_"], points, C), C)
        return attributes if fit.loo is None else {**attributes, "press_": fit.loo.press}

    def _loo_sample(self) -> LooSample | None:
        """Leave-one-out values of a sample of the rows of `partial_fit` or `fit_chunks`."""
        return self._stream_.loo_sample() if hasattr(self, "_stream_") else getattr(self, "_sample_", None)

    def _loo_rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Coded targets, leave-one-out residuals (rows, outputs) and sample weights, possibly of a sample of rows."""
        if "_problem_" in vars(self):
            self.leave_one_out()
        residuals = vars(self).get("loo_residuals_")
        if residuals is None or arrays.is_dask(residuals):
            sample = self._loo_sample()
            if sample is None:
                raise ValueError(
                    "The model has no leave-one-out values: its file was written by an older version of lssvm, after "
                    "partial_fit. Fit the model again."
                )
            targets, residuals, given = sample.targets, sample.loo_residuals, sample.sample_weights
            given = self._without_class_weights(targets, given)
        else:
            targets, given = self._coded_targets(), vars(self).get("_sample_weight_")
            given = np.ones(residuals.shape[0]) if given is None else given
        targets, residuals, given = (arrays.to_numpy(a) for a in (targets, residuals, given))
        if np.isnan(residuals).any():
            raise ValueError(
                f"kernels.Stack weights its models by leave-one-out residuals, which are not known after "
                f"{self.steps!r}: set refit=True (Adaline: final_solve=True)."
            )
        return targets.reshape(len(targets), -1), residuals.reshape(len(residuals), -1), given

    def _chunk_steps(self) -> Any:
        return (Random(BASIS_SIZE, random_state=0),) if self.steps is None else self.steps


@dataclass(frozen=True)
class RowResults:
    """The per-row results of a fit over chunks, as `_loo_attributes` reads them."""

    residuals: Array
    leverage: Array
    loo_residuals: Array
