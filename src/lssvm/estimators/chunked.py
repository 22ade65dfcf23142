"""Fits of rows that come in chunks: `partial_fit`, `fit_chunks` and Dask collections."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from .. import arrays
from ..arrays import Array, ArrayLike
from ..cluster import DaskChunks
from ..problem import Problem
from ..problem.rescue import warn_of_rounding
from ..robust import as_weight_function
from ..sparsify import Given, Random
from ..stream import (
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
from .base import BaseLSSVM, additive_attributes
from .planning import BASIS_SIZE, run_steps
from .validation import check_weights, same_kind, winning_class

KEPT_ROWS = 1_000_000  # fit_chunks: what belongs to the rows is kept up to here


def adds_chunks(model: BaseLSSVM) -> bool:
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


class ChunkedLSSVM(BaseLSSVM):
    """Fits of rows in memory, of Dask collections and of chunks."""

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
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
        if arrays.is_dask(X):
            return self._fit_source(DaskChunks(X, y, sample_weight), "press")
        return self._fit_rows(X, y, sample_weight)

    @available_if(adds_chunks)
    def partial_fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
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

    @arrays.own_threads()
    @np.errstate(under="ignore")
    def _add_chunk(self, X: Any, y: Any, sample_weight: Any, **known: Any) -> Self:
        if arrays.is_dask(X):
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
        machine.update(additive_attributes(kernel, points, coef, points))
        self._store(checked, {**machine, **calibration, "support_": None, "path_": None, "_stream_": stream})
        return self

    def _resumed(self) -> Stream:
        """The sums of a fit over chunks."""
        sample = self._left_out_sample()
        if sample is None:
            raise ValueError("partial_fit needs the sums of fit_chunks, which this file of an older version lacks.")
        single, points = self._single_output_, self.support_vectors_
        coef = self.dual_coef_[:, None] if single else self.dual_coef_
        intercept = same_kind(np.array([self.intercept_]), points) if single else self.intercept_
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

    @arrays.own_threads()
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
            **additive_attributes(stream.whitening.kernel, stream.points, fit.coef, stream.points),
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
            return weights, leverage, loo[:, 0] if single else loo, winning_class(f, self.classes_)
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
        weights = ones if weight is None else check_weights(weight, X.shape[0], 0)
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
        warn_of_rounding(fit.rounding(attributes["_sample_"], points, C), C)
        return attributes if fit.left_out is None else {**attributes, "press_": fit.left_out.press}

    def _left_out_sample(self) -> LeftOutSample | None:
        """A sample of the rows of `partial_fit` or `fit_chunks`, each of them left out."""
        return self._stream_.left_out() if hasattr(self, "_stream_") else getattr(self, "_sample_", None)

    def _chunk_steps(self) -> Any:
        return (Random(BASIS_SIZE, random_state=0),) if self.steps is None else self.steps


@dataclass(frozen=True)
class LeftOutRows:
    """What `_left_out` reads of a fit over chunks."""

    residuals: Array
    leverage: Array
    loo_residuals: Array
