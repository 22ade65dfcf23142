"""Fits on chunks of rows: `partial_fit`, `fit_chunks` and Dask collections."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from .. import arrays, progress
from ..arrays import Array, ArrayLike
from ..cluster import DaskChunks
from ..problem import Fit, Problem, warn_of_rounding
from ..progress import counted
from ..sparsify import Given, Random
from ..stream.sources import SAMPLE_ROWS, SameRows, Scan, Source, as_source, fingerprint, label_totals, sample_rows
from ..stream.sums import Passes, Stream, as_loo_sample, fit_chunks, resumed, start_stream
from ..tune.constants import sized
from ..tune.leave_one_out import tuned
from .base import BaseLSSVM, followed, publish, with_callbacks
from .fitted import FittedModel, Member
from .layout import Layout, Table, unfitted, winning_class
from .planning import BASIS_SIZE, plan, run_steps
from .validation import first_layout

KEPT_ROWS = 1_000_000  # Up to this many rows, fit_chunks keeps per-sample results by default.


def adds_chunks(model: BaseLSSVM) -> bool:
    """Check that the model can be computed from sums over chunks; raise AttributeError if it cannot."""
    weights, steps = getattr(model, "class_weight", None), model.steps if isinstance(model.steps, Sequence) else ()
    refused = [
        f"{s!r}, which needs all rows at once: use fit." for s in steps if getattr(s, "needs_all_rows", 0) is True
    ]
    if model.robust is not None:
        refused.append(f"robust={model.robust!r}, which needs the residuals of all rows: use fit or fit_chunks.")
    if getattr(model.kernel, "is_precomputed", False):
        refused.append("kernels.Precomputed: give a kernel of the columns, or use fit.")
    if isinstance(weights, str):
        reason = "as the class frequencies of later chunks are not known: give a dict, or use fit or fit_chunks."
        refused.append(f"class_weight={weights!r}, {reason}")
    if getattr(model, "monotonic_cst", None) is not None:
        refused.append("monotonic_cst, which needs all rows at once: use fit.")
    target, fitted = getattr(model, "target", "auto"), vars(model).get("fitted_")
    if target not in ("auto", "identity") or (fitted is not None and fitted.target is not None):
        refused.append("targets on another scale, which follows from all rows: use fit, or target='identity'.")
    if refused:
        raise AttributeError(f"partial_fit does not support {refused[0]}")
    refuse_other_losses(model, "partial_fit", AttributeError)
    refuse_other_losses(model, "partial_fit", AttributeError, "_")  # of an earlier fit
    return True


def refuse_other_losses(model: Any, what: str, error: type[Exception], suffix: str = "") -> None:
    """Raise an error unless sums over rows give the model: those of least squares, one class against the rest."""
    loss, coding = getattr(model, f"loss{suffix}", "squared"), getattr(model, f"coding{suffix}", "auto")
    if loss not in ("auto", "squared") or coding not in ("auto", "one-vs-rest"):
        rest = given = remedy = ""
        if isinstance(model, ClassifierMixin):
            rest, given, remedy = ", one class against the rest", f", coding={coding!r}", ", coding='one-vs-rest'"
        sums = f"{what} adds sums over rows, which give least squares{rest}, got loss={loss!r}{given}"
        raise error(f"{sums}: write loss='squared'{remedy}, or use fit on all rows.")


class ChunkedLSSVM(BaseLSSVM):
    """Adds fits on chunks and on Dask collections."""

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
        return self._add_chunk(X, y, sample_weight)

    def _add_chunk(self, X: Any, y: Any, sample_weight: Any, classes: Any = None) -> Self:
        with followed(self, X=X, y=y, metadata={"sample_weight": sample_weight}):
            if arrays.is_dask(X):
                raise TypeError("partial_fit takes rows in memory, but X is a Dask collection: use fit, or a block.")
            before: FittedModel | None = vars(self).get("fitted_")
            if before is not None and before.members[0].problem and before.members[0].problem.row_groups is not None:
                raise ValueError("partial_fit cannot add rows to a model that was fitted with groups: use fit again.")
            layout = None if before is None else before.layout
            known = None if layout is None else layout.classes
            if classes is not None and known is not None and not np.array_equal(np.unique(classes), known):
                found = f"classes={classes!r} differs from the classes of the first call"
                raise ValueError(f"{found}, {known.tolist()}: give the same classes.")
            table = self._read(X, y, sample_weight, layout, classes=classes)
            if before is None:
                problems, is_stack = plan(self, table, chunked=True)
                parts, shares = list[Member | Problem](problems), None
            else:
                parts, is_stack, shares = list(before.members), before.is_listed, before.shares
            members = progress.each(lambda part: self._with_chunk(part, table), parts)
            return publish(self, FittedModel.combine(members, self.steps, is_stack=is_stack, shares=shares))

    def _with_chunk(self, part: Member | Problem, table: Table) -> Member:
        """Return a member with the rows of one more chunk; for the first chunk, the member of a problem."""
        layout = table.layout
        last = progress.expect(lambda: progress.work(table.X.shape[0], BASIS_SIZE))
        asked, slopes, stream = part.asked or (None, None), None, None
        if isinstance(part, Problem):
            problem = tuned(run_steps(part, self._chunk_steps()))
            stream = start_stream(problem)
            if layout.classes is not None:
                fit = problem.solve()
                slopes = Member(layout, fit, asked).slopes_of(table.targets, table.weights, fit)
        else:
            stream, kept, fit, slopes = part.stream, part.problem, part.fit, part.slopes
            if stream is None and kept is not None:
                stream = start_stream(kept).add(kept.X, kept.y, kept.weights)
            elif stream is None:
                stream = resumed(part.known_sample, fit.points, fit.C, fit.coef, fit.intercept)
        with last:
            stream = stream.add(table.X, table.targets, table.weights)
            coef, intercept = stream.solve()
        fit = without_rows(stream, coef, intercept)
        return Member.of(layout, fit, asked, stream.points, slopes=slopes, stream=stream)

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
        and one more pass its leave-one-out residuals. At most one chunk and the sample are in memory at a time; the
        sample is kept in the model for `predict_interval`.

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

    def _fit_source(self, source: Source, leave_one_out: str) -> Self:
        refuse_other_losses(self, "A fit over chunks", ValueError)
        for step in self.steps if isinstance(self.steps, Sequence) else ():
            by_row = getattr(step, "by_row", "")
            if by_row:
                remedy = "give the points themselves" if isinstance(step, Given) else "use fit, or omit the argument"
                what = f"{type(step).__name__}: {by_row} refers to row numbers"
                raise ValueError(f"{what}, which chunks do not have: {remedy}.")
        reader = ChunkReader(unfitted(self), first_layout(self, *source.first()[:2]))
        scan = source.reduce(reader.scan)
        reader, table = reader.after(scan)
        problems, is_stack = plan(self, table, chunked=True)
        parts = (source, reader, scan, table, leave_one_out)
        found = progress.each(lambda problem: self._fit_passes(problem, *parts), problems)
        fitted = FittedModel.combine([member for member, _ in found], self.steps, is_stack=is_stack)
        publish(self, fitted)
        if isinstance(source, DaskChunks):  # the per-row results are lazy Dask arrays
            layout = reader.layout
            outputs = () if layout.single else (layout.outputs,)
            predictions = (outputs, np.float64) if layout.classes is None else ((), layout.classes.dtype)
            kinds = [((), np.float64), ((), np.float64), (outputs, np.float64), predictions]
            names = ("weights_", "leverage_", "loo_residuals_", "loo_predictions_")
            kept = [results for one, results in found if one in fitted.members]
            lazy = [dict(zip(names, source.rows(results, kinds), strict=True)) for results in kept]
            for model, own in zip(self.members_ if is_stack else (), lazy, strict=is_stack):
                vars(model).update(own)
            if not fitted.is_stack or layout.classes is None:
                self.__dict__.update({name: fitted.average(own[name] for own in lazy) for name in names})
            if fitted.is_stack and layout.classes is None:
                self.press_ = float(np.sum(arrays.to_numpy(self.weights_) @ arrays.to_numpy(self.loo_residuals_) ** 2))
        return self

    def _fit_passes(
        self, problem: Problem, source: Source, reader: ChunkReader, scan: Scan, table: Table, leave_one_out: str
    ) -> tuple[Member, Any]:
        """Return the model of one kernel, and the function that computes the leave-one-out results of a chunk.

        `table` is a sample of the rows, on which kernel, C and basis are chosen.
        """
        layout, total = reader.layout, scan.fingerprint.rows
        keep = leave_one_out == "rows" or (leave_one_out == "auto" and total <= KEPT_ROWS)
        count = 2 + 3 * (0 if problem.robust is None else problem.robust.iterations)  # passes, as a rule
        expected = [progress.expect(lambda: progress.work(total, BASIS_SIZE)) for _ in range(count)]
        stream = start_stream(tuned(run_steps(problem, self._chunk_steps())))
        passes, points = Passes(stream.whitening, problem.robust), stream.points
        same = SameRows(source, reader.rows, reader.compared, scan.fingerprint, iter(expected))
        fit = fit_chunks(same, passes, total, 1.0 / stream.C, loo=leave_one_out != "none", keep=keep)
        (few,) = fit.passes.loo(fit.solved, True, 0, table.X, table.targets, table.weights).rows
        targets, own, *others = fit.rows() if keep else few
        solution = without_rows(stream, fit.coef, fit.solved[0].intercept)
        results = zip(("weights", "residuals", "leverage", "loo_residuals"), others, strict=True)
        whole = replace(solution, **dict[str, Any](results))
        sample = as_loo_sample(fit.passes.whitening, fit.solved, total, table.X, *few)
        warn_of_rounding(fit.rounding(sample, points, stream.C), stream.C)
        rows = {"targets": targets, "sample_weight": layout.sample_weights(targets, own)} if keep else {}
        rows |= {"press": None if fit.loo is None else fit.loo.press, "sample": sample}
        member = Member.of(layout, whole if keep else solution, problem.asked, points, **rows)
        if layout.classes is not None:
            member = replace(member, slopes=member.slopes_of(targets, own, whole))
        return member, functools.partial(chunk_results, reader, fit.passes, fit.solved)

    def _chunk_steps(self) -> Any:
        return (Random(sized(BASIS_SIZE, self.effort, 2), random_state=0),) if self.steps is None else self.steps


def without_rows(stream: Stream, coef: Array, intercept: Array) -> Fit:
    """Return a solution without per-sample results, with the kernel, C and basis of a stream."""
    nothing: Any = None
    kernel, points = stream.whitening.kernel, stream.points
    return Fit(kernel, stream.C, nothing, None, points, coef, intercept, nothing, nothing, nothing)


@dataclass(frozen=True)
class ChunkReader:
    """Checks chunks of rows; sent to the workers of a cluster."""

    model: Any  # unfitted
    layout: Layout

    def scan(self, number: int, X: Any, y: Any, weight: Any) -> Scan:
        """Return the results of the first pass for one chunk, whose columns are not encoded yet."""
        layout = self.layout
        expected = () if layout.single else (layout.outputs,)
        if tuple(np.shape(y)[1:]) != expected:
            first = f"one row has shape {expected} in the first one: give the same outputs in all chunks."
            raise ValueError(f"chunks: y has shape {np.shape(y)} in chunk {number}, but {first}")
        try:
            _, X, targets, own = self.model._validated(X, y, layout=layout, sample_weight=weight, least=0, encode=False)
        except ValueError as error:
            raise ValueError(f"chunks: chunk {number}: {error}") from None
        none = np.empty(0)
        labels, totals = label_totals(targets, own) if isinstance(self.model, ClassifierMixin) else (none, none)
        sample = sample_rows(SAMPLE_ROWS, number, X, targets, own)
        rows = fingerprint(self.compared(X, encoded=False), y, weight)
        return Scan(int(np.count_nonzero(own)), sample, labels, totals, rows)

    def after(self, scan: Scan) -> tuple[ChunkReader, Table]:
        """Return the reader that has learned how columns and classes are coded, and the sample of rows."""
        layout, (X, y, weights) = self.layout, scan.sample.arrays
        if layout.columns is not None:
            cells = layout.columns.split(X)
            columns = layout.columns.fitted(cells)
            layout, X = replace(layout, columns=columns), columns.encode(cells)
        if scan.positive_rows < 2:
            found = counted(scan.positive_rows, "row has", "rows have")
            raise ValueError(f"chunks: {found} positive weight, but at least 2 are required.")
        if isinstance(self.model, ClassifierMixin):
            layout = self.model._with_classes(layout, scan.labels, scan.label_weights, scan.fingerprint.rows)
        return replace(self, layout=layout), Table.of(layout, X, y, weights)

    def rows(self, number: int, X: Any, y: Any, weight: Any) -> tuple[Array, Array, Array]:
        """Return the checked rows of a chunk, which may be empty."""
        table = self.model._read(X, y, weight, self.layout, least=0)
        return table.X, table.targets, table.weights

    def compared(self, X: Array, *, encoded: bool = True) -> Array:
        """Return the columns of numbers, by which rows of later passes are recognised."""
        columns = self.layout.columns
        if columns is None or (columns.are_plain and X.dtype != object):
            return X
        return np.asarray(X[:, columns.numbers(encoded=encoded)], dtype=np.float64)


def chunk_results(reader: ChunkReader, passes: Passes, solved: Any, number: int, *chunk: Any) -> tuple[Array, ...]:
    """Return the weights, leverages, leave-one-out residuals and leave-one-out predictions of the rows of a chunk."""
    ((targets, _, weights, _, leverage, loo),) = passes.loo(solved, True, number, *reader.rows(number, *chunk)).rows
    f, layout = targets - loo, reader.layout
    predicted = layout.squeezed(f) if layout.classes is None else winning_class(f, layout.classes)
    return weights, leverage, layout.squeezed(loo), predicted
