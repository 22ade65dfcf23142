"""Leave-one-out values of fitted models, in the form from which all intervals are computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from .. import arrays
from ..arrays import Array, cached_property
from ..problem import Factor, Fit, Problem
from ..stream import LooSample


class LooModel(Protocol):
    """A model, and the models without each of its l rows of positive weight; k outputs.

    f is linear in the targets: `smoother` returns df(x)/dy_i.
    """

    @property
    def residuals(self) -> np.ndarray:
        """y_i - f_(i)(x_i), (l, k)."""

    @property
    def weights(self) -> np.ndarray:
        """Weights of the rows, (l,)."""

    @property
    def leverage(self) -> np.ndarray:
        """df(x_i)/dy_i, (l,)."""

    def predict(self, X: Array) -> np.ndarray:
        """f(x), (m, k)."""

    def predictions(self, X: Array) -> np.ndarray:
        """f_(i)(x) of new rows, (m, l, k)."""

    def smoother(self, X: Array) -> np.ndarray:
        """df(x)/dy_i, (m, l)."""

    def enlarged(self, X: Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """f(x) (m, k), a (m, l, k) and b (m, l) of the model that also knows a new row (x, y) of weight 1.

        The leave-one-out residuals of that model are y - f(x) for the new row and a_i + b_i (y - f(x)) for row i.
        """

    def folds(self, labels: np.ndarray) -> LooModel:
        """The same model with whole folds left out instead of rows; `labels` numbers the fold of each of the l rows."""


def enlarged_residuals(
    residuals: np.ndarray, leverage: np.ndarray, weights: np.ndarray, smoother: np.ndarray, own: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """a and b of `LooModel.enlarged`.

    `own` (m,) is z'G^-1 z of the new row. Adding it changes the residual e_i = (1 - h_i) r_i by
    -(S_i/v_i) (y - f(x))/(1 + own) and 1 - h_i by S_i^2/(v_i (1 + own)).
    """
    effect = smoother / (weights * (1.0 + own)[:, None])
    complement = (1.0 - leverage) + effect * smoother
    return ((1.0 - leverage)[:, None] * residuals)[None, :, :] / complement[:, :, None], -effect / complement


@dataclass(frozen=True)
class FittedLoo:
    """The leave-one-out values of a least-squares fit, from one factorisation; C, kernel, basis and weights are fixed.

    Rows of weight 0 are not among the l rows. With `blocks` of row positions, these are left out together.
    """

    problem: Problem
    fit: Fit
    blocks: tuple[np.ndarray, ...] | None = None
    factorised: Factor | None = None

    @cached_property
    def factor(self) -> Factor:
        """The factorised problem, computed when it is first needed, with the weights and C of the fit."""
        if self.factorised is not None:
            return self.factorised
        factor = self.problem.replace(weights=self.fit.weights, C=self.fit.C, robust=None).factorise()
        return replace(factor, system=factor.system.with_inverse())

    @cached_property
    def rows(self) -> np.ndarray:
        """Numbers of the l rows."""
        return np.flatnonzero(arrays.to_numpy(self.fit.weights) > 0)

    @cached_property
    def residuals(self) -> np.ndarray:
        if self.blocks is None:
            return arrays.to_numpy(arrays.take(self.fit.loo_residuals, self.rows))
        return arrays.to_numpy(self.factor.system.block_residuals(self.blocks, 1.0 / self.fit.C))

    @cached_property
    def weights(self) -> np.ndarray:
        return arrays.to_numpy(arrays.take(self.fit.weights, self.rows))

    @cached_property
    def leverage(self) -> np.ndarray:
        return arrays.to_numpy(arrays.take(self.fit.leverage, self.rows))

    @cached_property
    def _moves(self) -> Array:
        return self.factor.system.moves(1.0 / self.fit.C, self.blocks)

    @cached_property
    def _labels(self) -> np.ndarray:
        """The block of each row."""
        assert self.blocks is not None
        labels = np.empty(len(self.rows), dtype=int)
        for number, block in enumerate(self.blocks):
            labels[block] = number
        return labels

    @cached_property
    def _solution(self) -> tuple[Array, Array]:
        """The coefficients of the factor's columns, and the bias."""
        solution = self.factor.system.solution(1.0 / self.fit.C)
        return solution.coef, solution.intercept

    def predict(self, X: Array) -> np.ndarray:
        return arrays.to_numpy(self.fit.predict(X))

    def predictions(self, X: Array) -> np.ndarray:
        """f is linear in the targets; leaving rows out is equivalent to changing their targets by `System.moves`."""
        columns, (coef, intercept) = self.factor.columns(X), self._solution
        f = (columns @ coef + intercept[None, :])[:, None, :]
        smoother, moves = self.factor.system.smoother(columns, 1.0 / self.fit.C), self._moves
        if self.blocks is None:
            return arrays.to_numpy(f - smoother[:, :, None] * moves[None, :, :])
        changes = [arrays.take(smoother.T, block).T @ arrays.take(moves, block) for block in self.blocks]
        return arrays.to_numpy(f - arrays.namespace(f).stack(changes, axis=1))[:, self._labels, :]

    def smoother(self, X: Array) -> np.ndarray:
        return arrays.to_numpy(self.factor.smoother(X, self.fit.C))

    def folds(self, labels: np.ndarray) -> FittedLoo:
        blocks = tuple(np.flatnonzero(labels == number) for number in range(labels.max() + 1))
        return FittedLoo(self.problem, self.fit, blocks, self.factor)

    def enlarged(self, X: Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        problem = self.problem
        if problem.kernel.is_precomputed:
            raise ValueError(
                "method='full' needs k(x, x) of the new rows, which a precomputed kernel does not contain: use "
                "'jackknife+'."
            )
        if problem.reduced:
            raise ValueError("method='full' is not defined for models on columns of the KKT system: use 'jackknife+'.")
        smoother, own = self.smoother(X), self._own(X)
        parts = (self.residuals, self.leverage, self.weights, smoother, own)
        return self.predict(X), *enlarged_residuals(*parts)

    @cached_property
    def _training(self) -> tuple[Array, Array, float]:
        """The columns of the training rows; df(0)/dy for columns of 0, which is db/dy; and its square in K + V^-1/C."""
        rows = arrays.take(self.problem.X, self.rows)
        columns = self.factor.columns(rows)
        lam = 1.0 / self.fit.C
        bias = self.factor.system.smoother(0.0 * columns[:1, :], lam)[0, :]
        moved = self._products(bias[None, :], columns)
        square = float(moved @ bias) + lam * float(arrays.namespace(bias).sum(bias * bias / self._device_weights))
        return columns, bias, square

    @cached_property
    def _device_weights(self) -> Array:
        return arrays.take(self.fit.weights, self.rows)

    def _products(self, S: Array, columns: Array) -> Array:
        """S K for kernel values K of the training rows: the columns themselves, or products of whitened columns."""
        return (S @ columns if self.factor.whitening is None else (S @ columns) @ columns.T)[0]

    def _own(self, X: Array) -> np.ndarray:
        """z'G^-1 z of new rows: the variance of y - f(x) in units of the noise, less 1.

        With A the KKT matrix and u = (k(x), 1), it is C (k(x, x) - u'A^-1 u). A^-1 u holds the smoother S, so that
        u'A^-1 u = k'S + k'q - c with q = db/dy and the corner -c of A^-1, c = q'(K + V^-1/C) q.
        """
        training, bias, square = self._training
        lam = 1.0 / self.fit.C
        columns = self.factor.columns(X)
        smoother = self.factor.system.smoother(columns, lam)
        xp = arrays.namespace(columns)
        if self.factor.whitening is None:
            diagonal, values = arrays.like(self.problem.kernel.diagonal(X), columns), columns
        else:
            diagonal, values = xp.sum(columns * columns, axis=1), columns @ training.T
        variance = diagonal - xp.sum(values * (smoother + bias[None, :]), axis=1) + square
        return np.maximum(arrays.to_numpy(variance) / lam, 0.0)


@dataclass(frozen=True)
class SampledLoo:
    """A sample of l training rows, each left out of the model of all rows: coefficients of basis points, and bias.

    The guarantees are those of l rows, whatever the other rows are: these are a fixed part of the model.
    """

    sample: LooSample
    coef: Array
    intercept: Array
    points: Array

    @cached_property
    def residuals(self) -> np.ndarray:
        return arrays.to_numpy(self.sample.loo_residuals)

    @cached_property
    def weights(self) -> np.ndarray:
        return arrays.to_numpy(self.sample.weights)

    @cached_property
    def leverage(self) -> np.ndarray:
        return arrays.to_numpy(self.sample.leverage)

    @cached_property
    def _columns(self) -> Array:
        return self.sample.columns(self.sample.X)

    def predict(self, X: Array) -> np.ndarray:
        kernel = self.sample.whitening.kernel
        return arrays.to_numpy(kernel.dot(X, self.points, self.coef) + self.intercept[None, :])

    def predictions(self, X: Array) -> np.ndarray:
        return self.predict(X)[:, None, :] - self.smoother(X)[:, :, None] * self.residuals[None, :, :]

    def smoother(self, X: Array) -> np.ndarray:
        return arrays.to_numpy(self.sample.smoother(X, self._columns))

    def enlarged(self, X: Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        columns = arrays.to_numpy(self.sample.columns(X))
        own = np.sum(columns**2, axis=1) + 1.0 / self.sample.weight
        parts = (self.residuals, self.leverage, self.weights, self.smoother(X), own)
        return self.predict(X), *enlarged_residuals(*parts)

    def folds(self, labels: np.ndarray) -> SampledLoo:
        raise ValueError(
            "folds and groups leave out several rows together, but after partial_fit or fit_chunks a model keeps only "
            "a sample of the rows: use method='jackknife+' without groups."
        )


@dataclass(frozen=True)
class StackedLoo:
    """A weighted sum of models whose weights are held fixed."""

    parts: Sequence[LooModel]
    shares: Sequence[float]

    def _sum(self, values: Sequence[np.ndarray]) -> np.ndarray:
        return np.sum([share * value for share, value in zip(self.shares, values, strict=True)], axis=0)

    @cached_property
    def residuals(self) -> np.ndarray:
        return self._sum([part.residuals for part in self.parts])

    @cached_property
    def weights(self) -> np.ndarray:
        return self._sum([part.weights for part in self.parts])

    @cached_property
    def leverage(self) -> np.ndarray:
        return self._sum([part.leverage for part in self.parts])

    def predict(self, X: Array) -> np.ndarray:
        return self._sum([part.predict(X) for part in self.parts])

    def predictions(self, X: Array) -> np.ndarray:
        return self._sum([part.predictions(X) for part in self.parts])

    def smoother(self, X: Array) -> np.ndarray:
        return self._sum([part.smoother(X) for part in self.parts])

    def enlarged(self, X: Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        centres, values, slopes = zip(*(part.enlarged(X) for part in self.parts), strict=True)
        centre = self._sum(centres)
        # every part is affine in y - f_k(x), which is y - f(x) plus a constant
        shifted = [
            a + b[:, :, None] * (centre - own)[:, None, :] for own, a, b in zip(centres, values, slopes, strict=True)
        ]
        return centre, self._sum(shifted), self._sum(slopes)

    def folds(self, labels: np.ndarray) -> StackedLoo:
        return StackedLoo([part.folds(labels) for part in self.parts], self.shares)
