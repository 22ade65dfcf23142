"""The same machine from sums over chunks of rows: `partial_fit` and `fit_chunks`.

The basis is fixed, so the machine needs only `Moments`, which add. Chunks that can be read again allow what one pass
cannot: another orthogonalising pass where the condition asks for it, and leave-one-out for every row.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from . import _xp, system
from ._xp import EPS, Array
from .problem import Problem, Whitening, whiten

Chunk = tuple[Array, Array, Array]  # rows, coded targets, weights


@dataclass(frozen=True)
class Stream:
    """A fixed basis, its whitening and the sums over the rows so far."""

    points: Array
    whitening: Whitening
    C: float
    moments: system.Moments | None = None

    def add(self, X: Array, targets: Array, weights: Array) -> Stream:
        """The stream with the rows of one more chunk."""
        part = chunk_moments(self.whitening, X, targets, weights)
        return replace(self, moments=part if self.moments is None else self.moments + part)

    def solve(self) -> tuple[Array, Array]:
        """Coefficients of the basis points, and bias."""
        if self.moments is None:
            raise ValueError("No rows yet: add a chunk first.")
        theta, intercept, condition = self.moments.solve(1.0 / self.C)
        if EPS * condition > 1e-6:
            warnings.warn(
                f"The sums over the chunks have a condition of {condition:.1e}: few digits of the coefficients are "
                "sure. Lower C, or use fit or fit_chunks, which read the rows again.",
                stacklevel=3,
            )
        return self.whitening.expand(theta), intercept


def chunk_moments(columns: Callable[[Array], Array], X: Array, targets: Array, weights: Array) -> system.Moments:
    """The sums of one chunk, in blocks of rows that stay within the working memory."""
    width = columns(X[:1, :]).shape[1]
    blocks = _xp.row_blocks(X.shape[0], 8 * width)
    parts = [system.moments(columns(X[rows, :]), targets[rows, :], weights[rows]) for rows in blocks]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def start_stream(problem: Problem) -> Stream:
    """A stream with the kernel, C and basis of a planned problem, and no rows yet."""
    if problem.kernel.is_precomputed or problem.C is None:
        raise ValueError(f"{problem.kernel!r} has no chunks: give a kernel of the columns, or use fit.")
    support = problem.rows if problem.support is None else problem.support
    points = problem.kernel.basis_points(problem.X, support) if problem.points is None else problem.points
    return Stream(points, whiten(problem.kernel, points, problem.kernel.evaluate(points, points)), problem.C)


@dataclass(frozen=True)
class ChunkedFit:
    """A fit over chunks that can be read again."""

    coef: Array
    intercept: Array
    residuals: np.ndarray
    leverage: np.ndarray
    loo_residuals: np.ndarray


def fit_stream(chunks: Callable[[], Iterator[Chunk]], whitening: Whitening, ridge: float) -> ChunkedFit:
    """Cholesky QR over re-readable chunks (see `system.orthogonalise`), then a pass for residuals and leverages."""
    bottom = math.sqrt(ridge) * _xp.identity(whitening.rank, whitening.lower)
    R = _xp.identity(whitening.rank, whitening.lower)

    def columns(X: Array) -> Array:
        return _xp.whiten_rows(whitening(X), R.T)

    for _ in range(6):
        parts = (chunk_moments(columns, *chunk) for chunk in chunks())
        total = next(parts)
        for part in parts:
            total = total + part
        lower, condition = system.cholesky_pass(total.scatter + _xp.gram(bottom))
        R, bottom = lower.T @ R, _xp.whiten_rows(bottom, lower)
        if EPS * condition <= system.ORTHOGONAL:
            break
    # In the columns q(x) = R^-T phi(x) the fit is (q(x) - centre)'projected + mean.
    projected = _xp.solve_lower(lower, total.cross)
    centre = _xp.solve_lower(lower, total.phi[:, None])[:, 0]
    residuals, leverage = [], []
    for X, targets, weights in chunks():
        for rows in _xp.row_blocks(X.shape[0], 8 * whitening.rank):
            q = columns(X[rows, :]) - centre[None, :]
            residuals.append(_xp.to_numpy(targets[rows, :] - total.targets[None, :] - q @ projected))
            squares = _xp.namespace(q).sum(q * q, axis=1)
            leverage.append(_xp.to_numpy(weights[rows] * (squares + 1.0 / total.weight)))
    e, h = np.concatenate(residuals), np.concatenate(leverage)
    coef = whitening.expand(_xp.solve_lower(R.T, projected, transpose=True))
    return ChunkedFit(coef, total.targets - centre @ projected, e, h, e / (1.0 - h)[:, None])


def reread(chunks: Any) -> Callable[[], Iterator[Any]]:
    """A function that starts the chunks anew: they are such a function, or an iterable that a pass leaves whole."""
    if callable(chunks):
        return lambda: iter(chunks())
    if isinstance(chunks, Iterator) or not isinstance(chunks, Iterable):
        raise TypeError(
            f"chunks={chunks!r} can be read only once: give a list of (X, y), or a function that returns an iterator."
        )
    return lambda: iter(chunks)


def normalise(chunk: Any) -> tuple[Any, Any, Any]:
    """(X, y, weight or None) of what a user yields."""
    if not isinstance(chunk, Sequence) or len(chunk) not in (2, 3):
        raise ValueError(f"chunks must yield (X, y) or (X, y, weight), got {type(chunk).__name__}: wrap it in a tuple.")
    X, y, *weight = chunk
    return X, y, weight[0] if weight else None


class Reservoir:
    """A uniform sample of at most `size` rows of a stream, with its own fixed seed."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._draw = np.random.RandomState(0)
        self._keys = np.empty(0)
        self._parts: tuple[np.ndarray, ...] = ()

    def add(self, *arrays: np.ndarray) -> None:
        """Offer the rows of some arrays of equal length."""
        keys = np.concatenate([self._keys, self._draw.uniform(size=len(arrays[0]))])
        kept = np.sort(np.argsort(keys)[: self.size])
        joined = arrays if not self._parts else [np.concatenate(pair) for pair in zip(self._parts, arrays, strict=True)]
        self._keys, self._parts = keys[kept], tuple(array[kept] for array in joined)

    def rows(self) -> tuple[np.ndarray, ...]:
        """The sample, in the order of the stream."""
        return self._parts
