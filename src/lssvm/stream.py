"""Fits from sums over chunks of rows: `partial_fit`, `fit_chunks` and Dask collections.

The basis is fixed, so the solution needs only `Moments`, which are additive. Chunks that can be read again allow more
than a single pass: further orthogonalising passes for ill-conditioned problems, and leave-one-out for every row.

A source of chunks has `first()`, the first (X, y, weight), and `reduce(function)`, the sum of function(number, X, y,
weight) over all chunks. The sum is a tree of fixed shape: the same chunks give bitwise the same result, whichever
worker adds them.
"""

from __future__ import annotations

import functools
import operator
import sys
import time
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from . import arrays, progress, system
from .arrays import EPS, Array
from .problem import Problem, Whitening, rounding_error, warn_of_leverage, whiten
from .robust import WeightFunction

CIRCLE = 2**31 - 1  # a prime: row n has the phase TURN n / CIRCLE, in turns;
TURN = 1327217884  # about CIRCLE over the golden ratio, so that neighbouring rows have distant phases
SAME_DIGITS = 5e-7  # tolerated difference between the rows of two passes: four roundings to float32
Chunk = tuple[Array, Array, Array]  # rows, coded targets, weights
Solved = tuple[system.Summed, tuple[Array, ...]]  # the system, and the factors from `Whitening.steps` for its columns
FAN_IN = 4
SCALE_ROWS = 1_000_000  # size of the sample of residuals for robust scales
SAMPLE_ROWS = 5000  # size of the sample for planning and for intervals
CHUNK_BYTES = 2**25  # size of the chunks into which arrays and files are cut


# Fits -----------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Stream:
    """A fixed basis with its whitening, the sums over the rows so far, and a sample of these rows."""

    points: Array
    whitening: Whitening
    C: float
    moments: system.Moments | None = None
    sample: Sample | None = None  # rows, targets, weights
    rows: int = 0
    chunks: int = 0

    def add(self, X: Array, targets: Array, weights: Array) -> Stream:
        """The stream with the rows of one more chunk."""
        moments = self.whitening.sums(self.whitening.steps(), X, targets, weights)
        if self.moments is None or self.sample is not None:  # streams in older files have no sample
            sample = sample_rows(SAMPLE_ROWS, self.chunks, X, targets, weights)
            sample = sample if self.sample is None else self.sample + sample
        else:
            sample = None
        moments = moments if self.moments is None else self.moments + moments
        return replace(self, moments=moments, sample=sample, rows=self.rows + X.shape[0], chunks=self.chunks + 1)

    def loo_sample(self) -> LooSample | None:
        """Leave-one-out values of the sample, in the solution for all rows so far."""
        if self.moments is None or self.sample is None:
            return None
        summed = self.moments.system(1.0 / self.C)
        steps = self.whitening.steps(summed.R, summed.condition)
        X, targets, weights = self.sample.arrays
        rows = (targets, weights, weights, *self.whitening.row_results(summed, steps, X, targets, weights))
        return as_loo_sample(self.whitening, (summed, steps), self.rows, X, *rows)

    def solve(self) -> tuple[Array, Array]:
        """Coefficients of the basis points, and bias."""
        if self.moments is None:
            raise ValueError("The stream has no rows yet: add a chunk first.")
        theta, intercept, condition = self.moments.solve(1.0 / self.C)
        if EPS * condition > 1e-6:
            warnings.warn(
                f"The sums over the chunks have a condition number of {condition:.1e}: few digits of the coefficients "
                "are correct. Lower C, or use fit or fit_chunks, which read the rows again.",
                stacklevel=arrays.user_level(),
            )
        return self.whitening.expand(theta), intercept


def start_stream(problem: Problem) -> Stream:
    """A stream with the kernel, C and basis of a planned problem, and no rows yet."""
    if problem.kernel.is_precomputed or problem.C is None:
        raise ValueError(f"{problem.kernel!r} cannot be fitted in chunks: give a kernel of the columns, or use fit.")
    if problem.reduced or problem.coefficients is not None:
        raise ValueError(
            "The steps compute coefficients that sums over chunks cannot reproduce: use fit, or steps that only choose "
            "the basis (such as Substrate and Components with refit=True)."
        )
    support = problem.rows if problem.support is None else problem.support
    points = problem.kernel.basis_points(problem.X, support) if problem.points is None else problem.points
    return Stream(points, whiten(problem.kernel, points, problem.kernel.evaluate(points, points)), problem.C)


@dataclass(frozen=True)
class LooSample:
    """Leave-one-out values of a sample of the training rows, in the solution for all rows.

    With q the centred columns of `Whitening.steps`, df(x)/dy_i is v_i (q(x)'q_i + 1/sum v): see `smoother`. All rows of
    the sample have positive weight.
    """

    whitening: Whitening
    steps: tuple[Array, ...]
    centre: Array  # (r,)
    weight: float  # sum of the weights of all rows
    total: int  # number of all rows
    X: Array
    targets: Array
    sample_weights: Array
    weights: Array  # sample weights times robust weights
    residuals: Array
    leverage: Array
    loo_residuals: Array

    def columns(self, X: Array) -> Array:
        """q(x) for some rows."""
        return self.whitening.columns(self.steps, X) - self.centre[None, :]

    def smoother(self, X: Array, own: Array) -> Array:
        """df(x)/dy_i for some rows x (rows) and those of the sample (columns), whose columns q are `own`."""
        return self.weights[None, :] * (arrays.matmul(self.columns(X), own.T) + 1.0 / self.weight)


def as_loo_sample(whitening: Whitening, solved: Solved, total: int, X: Array, *rows: Array) -> LooSample:
    """The rows of a sample with positive weight; `rows` are the remaining arrays of `LooSample`."""
    summed, steps = solved
    counting = np.flatnonzero(arrays.to_numpy(rows[2]) > 0)
    values = (arrays.take(array, counting) for array in (X, *rows))
    return LooSample(whitening, steps, summed.centre, summed.weight, total, *values)


def resumed(sample: LooSample, points: Array, C: float, coef: Array, intercept: Array) -> Stream:
    """The stream that continues a fit over chunks: its sums follow from the factor R of the columns q = R'^-1 phi."""
    whitening = sample.whitening
    # `Whitening.steps` holds the factor of the basis and R', or their product
    R = sample.steps[1].T if len(sample.steps) == 2 else arrays.solve_lower(whitening.lower, sample.steps[0]).T
    theta, mean = whitening.contract(coef), R.T @ sample.centre
    total = arrays.gram(R)  # scatter of the columns plus the ridge
    scatter = arrays.add_diagonal(total + 0.0, -1.0 / C)
    moments = system.Moments(sample.weight, mean, intercept + mean @ theta, scatter, total @ theta)
    size = counting = sample.X.shape[0]
    if size == SAMPLE_ROWS:  # estimated number of rows with positive weight
        counting = min(max(size, round(sample.weight / float(np.mean(arrays.to_numpy(sample.weights))))), sample.total)
    keys = _smallest_keys(np.random.default_rng(0), size, counting)
    rows = Sample(SAMPLE_ROWS, keys, (sample.X, sample.targets, sample.weights))
    return Stream(points, whitening, C, moments, rows, sample.total, chunks=1)


@dataclass(frozen=True)
class LooPass:
    """Results of the last pass: PRESS, the largest leverage and, if requested, the per-row results of each chunk.

    `rows` has one tuple per chunk: targets, sample weights, weights, residuals, leverages, leave-one-out residuals.
    """

    press: float
    largest: float
    rows: tuple[tuple[Array, ...], ...] = ()

    def __add__(self, other: LooPass) -> LooPass:
        return LooPass(self.press + other.press, max(self.largest, other.largest), self.rows + other.rows)


@dataclass(frozen=True)
class Passes:
    """The operations of a pass over chunks of checked rows: robust weights, sums, residuals and leave-one-out."""

    whitening: Whitening
    robust: WeightFunction | None = None
    solved: Solved | None = None  # the solution whose residuals determine the robust weights
    scales: np.ndarray | None = None  # of these residuals

    def weigh(self, X: Array, targets: Array, weights: Array) -> Array:
        """Sample weight times robust weight."""
        if self.robust is None or self.solved is None or self.scales is None:
            return weights
        residuals = self.whitening.row_results(*self.solved, X, targets, weights)[0]
        return weights * arrays.like(self.robust.from_scales(arrays.to_numpy(residuals), self.scales), weights)

    def sums(self, steps: tuple[Array, ...], number: int, X: Array, targets: Array, weights: Array) -> system.Moments:
        """The sums of one chunk."""
        return self.whitening.sums(steps, X, targets, self.weigh(X, targets, weights))

    def gradient(self, coef: Array, intercept: Array, number: int, X: Array, targets: Array, weights: Array) -> Array:
        """The gradient over one chunk, for `system.refined`."""
        return self.whitening.gradient(coef, intercept, X, targets, self.weigh(X, targets, weights))

    def residuals(self, solved: Solved, number: int, X: Array, targets: Array, weights: Array) -> Sample:
        """A sample of the residuals of one chunk, with their sample weights."""
        e = arrays.to_numpy(self.whitening.row_results(*solved, X, targets, weights)[0])
        return sample_rows(SCALE_ROWS, number, e, arrays.to_numpy(weights))

    def loo(self, solved: Solved, keep: bool, number: int, X: Array, targets: Array, own: Array) -> LooPass:
        """Leave-one-out of the rows of one chunk."""
        weights = self.weigh(X, targets, own)
        residuals, leverage, loo = self.whitening.row_results(*solved, X, targets, weights)
        xp = arrays.namespace(loo)
        largest = float(xp.max(leverage)) if X.shape[0] else 0.0
        rows = ((targets, own, weights, residuals, leverage, loo),) if keep else ()
        return LooPass(float(xp.sum(weights[:, None] * loo * loo)), largest, rows)


@dataclass(frozen=True)
class ChunkedFit:
    """A fit over chunks that can be read again; per-row results are kept only if requested."""

    passes: Passes
    solved: Solved
    loo: LooPass | None

    @property
    def coef(self) -> Array:
        """Coefficients of the basis points."""
        return self.passes.whitening.expand(self.solved[0].coef)

    def rows(self) -> tuple[Array, ...]:
        """Targets, sample weights, weights, residuals, leverages and leave-one-out residuals of all rows."""
        kept = self.loo.rows  # type: ignore[union-attr]
        return tuple(arrays.namespace(parts[0]).concat(parts) for parts in zip(*kept, strict=True))

    def sample(self, total: int, X: Array, *rows: Array) -> LooSample:
        """A sample out of `total` rows, without rows of weight 0; `rows` are the results of `rows` for the sample."""
        return as_loo_sample(self.passes.whitening, self.solved, total, X, *rows)

    def rounding(self, sample: LooSample, points: Array, C: float) -> float:
        """`problem.rounding_error`, estimated from a sample of the rows; `points` are all points of the basis."""
        summed, w = self.solved[0], arrays.namespace(sample.weights).sqrt(sample.weights)
        Q, centre = w[:, None] * sample.columns(sample.X), summed.R.T @ summed.centre
        primal = system.Primal(Q, summed.R, summed.bottom, None, 1.0 / C, sample.targets, summed.mean, centre, w)
        rows = (sample.targets, sample.weights, sample.residuals, sample.leverage, sample.loo_residuals)
        of_sample = rounding_error(primal, sample.whitening, points, self.coef, C, *rows, from_sums=True)
        return of_sample * (sample.total / w.shape[0]) ** 0.5


def fit_chunks(source: SameRows, passes: Passes, rows: int, ridge: float, *, loo: bool, keep: bool) -> ChunkedFit:
    """Fit by Cholesky QR over the chunks (`system.summed`), with robust weights; leave-one-out takes one more pass."""

    def solve(passes: Passes, start: system.Summed | None = None) -> Solved:
        if not loo and passes.whitening.allows_plain_columns(rows, ridge):
            gradient = lambda *solution: source.reduce(functools.partial(passes.gradient, *solution))  # noqa: E731
            sums = source.reduce(functools.partial(passes.sums, ()))
            found = system.refined(sums, passes.whitening.lower, ridge, gradient)
            if found is not None:
                return found[0], (found[1],)
        steps = passes.whitening.steps
        summed = system.summed(lambda R: source.reduce(functools.partial(passes.sums, steps(R))), ridge, start)
        return summed, steps(summed.R, summed.condition)

    solved = solve(passes)
    for _ in range(0 if passes.robust is None else passes.robust.iterations):
        assert passes.robust is not None
        residuals, weights = source.reduce(functools.partial(passes.residuals, solved)).arrays
        passes = replace(passes, solved=solved, scales=passes.robust.scales(residuals, weights))
        solved = solve(passes)
    if not loo:
        return ChunkedFit(passes, solved, None)
    while True:
        result = source.reduce(functools.partial(passes.loo, solved, keep))
        if solved[0].serves(result.largest):
            warn_of_leverage(result.largest)
            return ChunkedFit(passes, solved, result)
        solved = solve(passes, solved[0])


# Samples --------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Sample:
    """A uniform sample of rows: those with the smallest random keys, ordered by key; ``+`` merges two samples."""

    size: int
    keys: np.ndarray
    arrays: tuple[Array, ...]

    def __add__(self, other: Sample) -> Sample:
        keys = np.concatenate([self.keys, other.keys])
        order = np.argsort(keys, kind="stable")[: self.size]
        joined = [arrays.namespace(*pair).concat(pair) for pair in zip(self.arrays, other.arrays, strict=True)]
        return Sample(self.size, keys[order], tuple(arrays.take(array, order) for array in joined))


def sample_rows(limit: int, number: int, *values: Array) -> Sample:
    """A sample of the rows with positive weight; the last array holds the weights, and `number` seeds the keys."""
    draw, counting = np.random.default_rng(number), np.flatnonzero(arrays.to_numpy(values[-1]) > 0)
    rows = len(counting)
    size = min(limit, rows)
    chosen = counting[draw.choice(rows, size, replace=False)] if rows else counting
    keys = _smallest_keys(draw, size, rows)
    return Sample(limit, keys, tuple(arrays.take(array, chosen) for array in values))


def _smallest_keys(draw: np.random.Generator, size: int, rows: int) -> np.ndarray:
    """The `size` smallest of `rows` uniform random keys in ascending order, from sums of exponential gaps."""
    return -np.expm1(-np.cumsum(draw.exponential(size=size) / (rows - np.arange(size))))


@dataclass(frozen=True)
class Scan:
    """Results of the first pass: numbers of rows, a sample, and the labels with their total weights.

    `counting` is the number of rows with positive weight. The fingerprint detects changes of the rows in later passes.
    """

    rows: int
    counting: int
    sample: Sample
    labels: np.ndarray
    label_weights: np.ndarray
    fingerprint: Fingerprint

    def __add__(self, other: Scan) -> Scan:
        pair = [*self.labels[:1].tolist(), *other.labels[:1].tolist()]
        if len(pair) == 2 and isinstance(pair[0], str) != isinstance(pair[1], str):
            raise ValueError(f"y contains labels of several types ({pair[0]!r}, {pair[1]!r}): use one type.")
        labels, place = np.unique(np.concatenate([self.labels, other.labels]), return_inverse=True)
        weights = np.bincount(place, np.concatenate([self.label_weights, other.label_weights]), len(labels))
        sample, counting = self.sample + other.sample, self.counting + other.counting
        fingerprint = self.fingerprint + other.fingerprint
        return Scan(self.rows + other.rows, counting, sample, labels, weights, fingerprint)


@dataclass(frozen=True)
class Fingerprint:
    """Sums over rows that depend on their values and order, but not on how they are divided into chunks.

    For every column of X, y and weight: the sum of its values, each multiplied by exp(i phase of its row), and the sum
    of their squares. Random rounding errors change the first by about that fraction of the square root of the second.
    """

    rows: int
    waves: np.ndarray  # complex
    squares: np.ndarray
    features: int  # columns of X, which come first; weight comes last

    def __add__(self, other: Fingerprint) -> Fingerprint:
        with np.errstate(all="ignore"):  # infinite values are not compared
            waves = self.waves + np.exp(1j * _phase(self.rows)) * other.waves
            return replace(self, rows=self.rows + other.rows, waves=waves, squares=self.squares + other.squares)

    def difference(self, other: Fingerprint) -> str:
        """A description of the first difference to the rows of another pass, or ""."""
        if self.waves.shape != other.waves.shape or self.rows != other.rows:
            return f"there were {self.rows} rows and now there are {other.rows}, or the columns differ"
        with np.errstate(all="ignore"):
            changed = abs(self.waves - other.waves) > SAME_DIGITS * np.sqrt(self.squares)
        if not changed.any():
            return ""
        column = int(np.argmax(changed))
        last = "sample_weight" if column == len(changed) - 1 else "y"
        return f"{f'column {column} of X' if column < self.features else last} has changed"


def _phase(number: Any) -> Any:
    """The phase of a row in radians; integer arithmetic keeps it exact for any number of rows."""
    return 2.0 * np.pi / CIRCLE * (number % CIRCLE * TURN % CIRCLE)


def fingerprint(X: Array, y: Any, weight: Any) -> Fingerprint:
    """The fingerprint of a chunk; X is validated, y and weight are as the user gave them."""
    phase = _phase(np.arange(X.shape[0]))
    turns, waves, squares = np.stack([np.cos(phase), np.sin(phase)]), [], []
    weights = np.broadcast_to(1.0 if weight is None else arrays.to_numpy(weight), phase.shape)
    for part in (X, y, weights):
        values = _as_numbers(part)
        values = values[:, None] if values.ndim == 1 else values
        with np.errstate(all="ignore"):
            real, imaginary = arrays.to_numpy(arrays.like(turns, values) @ values)
            waves.append(real + 1j * imaginary)
            squares.append(arrays.to_numpy(arrays.namespace(values).sum(values * values, axis=0)))
    return Fingerprint(X.shape[0], np.concatenate(waves), np.concatenate(squares), X.shape[1])


def _as_numbers(values: Any) -> Array:
    """Numbers as they are; labels as a checksum of their text."""
    if not (arrays.is_torch(values) or arrays.is_cupy(values)):
        values = arrays.to_numpy(values)
        if values.dtype.kind not in "biuf":
            labels, codes = np.unique(values if values.dtype.kind == "S" else values.astype(str), return_inverse=True)
            texts = (label if isinstance(label, bytes) else label.encode(errors="surrogatepass") for label in labels)
            return np.array([zlib.crc32(text) / 2**32 for text in texts])[codes].reshape(values.shape)
    return arrays.like(values, values)


@dataclass(frozen=True)
class Seen:
    """A result for some rows, and their fingerprint."""

    value: Any
    fingerprint: Fingerprint

    def __add__(self, other: Seen) -> Seen:
        return Seen(self.value + other.value, self.fingerprint + other.fingerprint)


@dataclass(frozen=True)
class SameRows:
    """A source whose chunks are checked and coded, and whose rows must be the same as in the first pass."""

    source: Source
    check: Callable[[int, Any, Any, Any], Chunk]  # takes the number of the chunk and its parts
    known: Fingerprint

    def reduce(self, function: Callable[..., Any]) -> Any:
        """As `Source.reduce`, for a function of checked chunks."""
        seen: Seen = self.source.reduce(functools.partial(_see, self.check, function))
        difference = self.known.difference(seen.fingerprint)
        if difference:
            raise ValueError(
                f"chunks: the rows are not the same as in the first pass: {difference}. Chunks are read several times "
                "and must return the same rows in the same order every time: do not shuffle them or draw new random "
                "numbers; fix the seed, or persist() a Dask collection."
            )
        return seen.value


def _see(check: Callable[..., Chunk], function: Callable[..., Any], number: int, X: Any, y: Any, weight: Any) -> Seen:
    rows = check(number, X, y, weight)
    return Seen(function(number, *rows), fingerprint(rows[0], y, weight))


# Sources --------------------------------------------------------------------------------------------------------------
class Source(Protocol):
    """A source of chunks."""

    def first(self) -> tuple[Any, Any, Any]:
        """The first chunk, or a chunk of the same kind without rows."""

    def reduce(self, function: Callable[..., Any]) -> Any:
        """The sum of function(number, X, y, weight) over all chunks, with `add_all` over FAN_IN parts at a time."""


def add_all(parts: Sequence[Any]) -> Any:
    """parts[0] + parts[1] + ..."""
    return functools.reduce(operator.add, parts)


class Chunks:
    """Chunks read one after the other in this process, with progress on a terminal.

    The tree of sums keeps a few sums per level.
    """

    def __init__(self, read: Callable[[], Iterator[Any]]) -> None:
        self.read = read
        self.passes = 0
        self.rows = 0  # of the first pass

    def first(self) -> tuple[Any, Any, Any]:
        for chunk in self.read():
            return normalise(chunk)
        raise ValueError("chunks is empty: give at least one (X, y).")

    def reduce(self, function: Callable[..., Any]) -> Any:
        self.passes += 1
        levels: list[list[Any]] = []
        with Progress(f"pass {self.passes}") as progress:
            for number, chunk in enumerate(self.read()):
                rows = normalise(chunk)
                _push(levels, 0, function(number, *rows))
                progress.add(np.shape(rows[1])[0])
        if self.passes == 1:
            self.rows = progress.rows
        if levels and progress.rows != self.rows:
            raise ValueError(
                f"chunks gave {self.rows} rows in the first pass and {progress.rows} in pass {self.passes}: they are "
                "read several times and must be the same every time."
            )
        for level in range(len(levels)):
            if level + 1 == len(levels):
                return add_all(levels[level])
            if levels[level]:
                levels[level + 1].append(add_all(levels[level]))
        raise ValueError("chunks is empty in the second pass: give a list, or a function that returns a new iterator.")


def _push(levels: list[list[Any]], level: int, part: Any) -> None:
    if level == len(levels):
        levels.append([])
    levels[level].append(part)
    if len(levels[level]) == FAN_IN:
        group, levels[level] = levels[level], []
        _push(levels, level + 1, add_all(group))


class Progress:
    """Shows the number of rows so far on a terminal, unless a listener displays progress in another way."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.rows = 0
        self.started = self.shown = time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def add(self, rows: int) -> None:
        """Count rows, and show them twice a second."""
        self.rows += rows
        now = time.monotonic()
        if now - self.shown > 0.5 and sys.stderr.isatty() and not progress.has_listener():
            rate = self.rows / (now - self.started)
            print(f"\r{self.label}: {self.rows:,} rows, {rate:,.0f} per second ", end="", file=sys.stderr, flush=True)
            self.shown = now

    def __exit__(self, *exception: object) -> None:
        if self.shown > self.started:
            print(file=sys.stderr)


def as_source(chunks: Any, columns: Sequence[str] | None, target: Any, weight: str | None) -> Chunks:
    """The source for the `chunks` argument of `fit_chunks`."""
    if isinstance(chunks, (str, Path)) or type(chunks).__module__.startswith("pyarrow"):
        return Chunks(_read_table(chunks, columns, target, weight))
    if columns is not None or target is not None or weight is not None:
        raise ValueError(
            "columns, target and weight name columns of a Parquet file or pyarrow dataset, but chunks is neither."
        )
    if isinstance(chunks, tuple) and len(chunks) in (2, 3) and len(getattr(chunks[0], "shape", ())) == 2:
        return Chunks(functools.partial(_slices, chunks))
    if callable(chunks):
        return Chunks(lambda: iter(chunks()))
    if not isinstance(chunks, Iterable):
        raise TypeError(f"chunks={chunks!r}: give a list of (X, y), a function that returns an iterator, or a file.")
    if isinstance(chunks, Iterator):
        raise TypeError(
            f"chunks={chunks!r} can be read only once: give a list of (X, y), or a function that returns an iterator."
        )
    return Chunks(lambda: iter(chunks))


def _slices(values: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Row slices of arrays, which may be memory maps."""
    if len({array.shape[0] for array in values}) > 1:
        raise ValueError(
            f"chunks: the arrays have {[array.shape[0] for array in values]} rows: give the same number of rows in all."
        )
    rows = max(1, CHUNK_BYTES // (8 * max(values[0].shape[1], 1)))
    if arrays.on_accelerator(values[0]):
        rows = values[0].shape[0]  # `Whitening.sums` works in blocks
    for start in range(0, values[0].shape[0], rows):
        cut = slice(start, min(start + rows, values[0].shape[0]))
        yield tuple(_cut(array, cut) for array in values)


def _cut(array: Any, rows: slice) -> Any:
    """Rows of an array or of a frame or series (pandas, polars)."""
    if hasattr(array, "iloc"):
        return array.iloc[rows]
    return array[rows] if hasattr(array, "to_numpy") else array[rows, ...]


def _read_table(
    source: Any, columns: Sequence[str] | None, target: Any, weight: str | None
) -> Callable[[], Iterator[Any]]:
    """A function that reads a Parquet file, a folder of them, a pyarrow dataset or table in batches."""
    try:
        import pyarrow
        import pyarrow.dataset
    except ImportError:
        raise ImportError("Reading Parquet needs pyarrow: pip install 'lssvm[files]'.") from None
    if not isinstance(source, pyarrow.dataset.Dataset):
        source = pyarrow.dataset.dataset(source if not isinstance(source, Path) else str(source))
    names = source.schema.names
    if target is None:
        raise ValueError(f"target=None: name the column or columns to predict, out of {names}.")
    targets = [target] if isinstance(target, str) else list(target)
    others = {*targets, *([] if weight is None else [weight])}
    features = [name for name in names if name not in others] if columns is None else list(columns)
    for name in (*features, *others):
        if name not in names:
            raise ValueError(f"There is no column {name!r}: the columns are {names}.")
    for name in features:
        if name in others or features.count(name) > 1:
            raise ValueError(
                f"columns={columns!r} lists {name!r} twice, or {name!r} is the target or the weight: remove it."
            )
    rows = max(1, CHUNK_BYTES // (8 * max(len(features), 1)))

    def read() -> Iterator[Any]:
        for batch in source.to_batches(columns=[*features, *others], batch_size=rows, batch_readahead=1):
            if batch.num_rows:
                y = [batch.column(name).to_numpy(zero_copy_only=False) for name in targets]
                v = () if weight is None else (batch.column(weight).to_numpy(zero_copy_only=False),)
                table = pyarrow.Table.from_batches([batch]).select(features)
                yield (table, y[0] if isinstance(target, str) else np.column_stack(y), *v)

    return read


def normalise(chunk: Any) -> tuple[Any, Any, Any]:
    """A user's chunk as (X, y, weight or None)."""
    if not isinstance(chunk, Sequence):
        raise ValueError(f"chunks must yield (X, y) or (X, y, weight), got {type(chunk).__name__}: yield a tuple.")
    if len(chunk) not in (2, 3):
        raise ValueError(f"chunks must yield (X, y) or (X, y, weight), got {len(chunk)} parts.")
    X, y, *weight = chunk
    return X, y, weight[0] if weight else None
