"""Leave-one-out values of fitted models, in the form from which all intervals are computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import arrays
from ..arrays import Array, cached_property
from ..losses import LOG_LINKS, LogLink
from ..problem import Factor, Fit, Problem
from ..stream.sums import LooSample
from ..targets import TargetScale

NOT_LINEAR = "predictions linear in the targets, but this model is fitted on another scale: use target='identity'."


class LooModel:
    """A model, and the models without each of its l rows of positive weight; k outputs.

    C, kernel, basis and weights are held fixed, so that f is linear in the targets. With another loss than the squared
    one, residuals and predictions are on the scale of `scaled`.
    """

    fit: Fit
    results: Any  # the object that holds per-sample results
    rows: Any  # the places of the l rows in these results
    roots: Any = 1.0  # square roots (l, 1) of the sample weights, if residuals are multiplied by them

    @cached_property
    def residuals(self) -> np.ndarray:
        """y_i - f_(i)(x_i), (l, k)."""
        return arrays.to_numpy(self.results.loo_residuals)[self.rows]

    @cached_property
    def weights(self) -> np.ndarray:
        """Weights of the rows, (l,)."""
        return arrays.to_numpy(self.results.weights)[self.rows]

    @cached_property
    def leverage(self) -> np.ndarray:
        """df(x_i)/dy_i, (l,)."""
        return arrays.to_numpy(self.results.leverage)[self.rows]

    def scaled(self, y: np.ndarray) -> np.ndarray:
        """Return the targets on the scale of the residuals."""
        return y

    def ends(self, values: np.ndarray) -> np.ndarray:
        """Return ends of intervals on the scale of the targets, (m, ..., k)."""
        return values

    def predict(self, X: Array) -> np.ndarray:
        """Return f(x), (m, k)."""
        return arrays.to_numpy(self.fit.predict(X))

    def rescaled(self, residuals: np.ndarray) -> np.ndarray:
        """Return the residuals of the targets of the rows, on the scale of the model."""
        return residuals

    def smoother(self, X: Array) -> np.ndarray:
        """Return df(x)/dy_i, (m, l)."""
        raise ValueError("This method needs loss='squared': use predict_interval with another method.")

    def predictions(self, X: Array) -> np.ndarray:
        """Return f_(i)(x) of new rows, (m, l, k)."""
        return self.predict(X)[:, None, :] - self.smoother(X)[:, :, None] * self.residuals[None, :, :]

    def pairs(self, X: Array, part: np.ndarray) -> np.ndarray:
        """Return the residuals of the rows i with numbers `part` and inputs X, and of all rows j, if both are left out.

        They are (I - H_BB)^-1 e_B with B = {i, j}, (2, rows i, l, k). H_ji = H_ij v_i/v_j, because V H is symmetric.
        """
        H = self.smoother(X)
        h, v = np.clip(self.leverage, 0.0, 1.0 - 1e-12), self.weights
        e = (1.0 - h)[:, None] * self.residuals
        mirrored = H * (v[part, None] / v[None, :])
        determinant = ((1 - h[part, None]) * (1 - h[None, :]) - H * mirrored)[:, :, None]
        own = (1 - h[None, :, None]) * e[part, None, :] + H[:, :, None] * e[None, :, :]
        other = (1 - h[part, None, None]) * e[None, :, :] + mirrored[:, :, None] * e[part, None, :]
        return np.stack([own / determinant, other / determinant])

    def variance(self, X: Array, smoother: np.ndarray) -> np.ndarray:
        """Return z'G^-1 z of new rows, (m,): the variance of y - f(x) in units of the noise, less 1."""
        raise NotImplementedError

    def enlarged(self, X: Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return f(x) (m, k), a (m, l, k) and b (m, l) of the model that also knows a new row (x, y) of weight 1.

        The leave-one-out residuals of that model are y - f(x) for the new row and a_i + b_i (y - f(x)) for row i: the
        new row changes the residual e_i = (1 - h_i) r_i by -(S_i/v_i) (y - f(x))/(1 + g), where g is the `variance`,
        and 1 - h_i by S_i^2/(v_i (1 + g)).
        """
        S, rest = self.smoother(X), 1.0 - self.leverage
        effect = S / (self.weights * (1.0 + self.variance(X, S))[:, None])
        complement = rest + effect * S
        return self.predict(X), (rest[:, None] * self.residuals) / complement[:, :, None], -effect / complement

    def folds(self, labels: np.ndarray) -> LooModel:
        """Return the same model with whole folds left out instead of rows; `labels` holds the fold of each row."""
        what = "folds and groups need all rows, but after partial_fit or fit_chunks a model keeps only a sample of them"
        raise ValueError(f"{what}: use method='jackknife+' without groups.")


@dataclass(frozen=True)
class FittedLoo(LooModel):
    """The leave-one-out values of a least-squares fit, from one factorisation.

    Rows of weight 0 are not among the l rows. With `labels` of these, rows with the same label are left out together;
    without, those of the same group of the problem.
    """

    problem: Problem
    fit: Fit
    labels: np.ndarray | None = None
    factorised: Factor | None = None

    @property
    def results(self) -> Fit:
        return self.fit

    @cached_property
    def rows(self) -> np.ndarray:
        return np.flatnonzero(arrays.to_numpy(self.fit.weights) > 0)

    @cached_property
    def factor(self) -> Factor:
        """The factorised problem, computed when it is first needed, with the weights and C of the fit."""
        if self.factorised is not None:
            return self.factorised
        factor = self.problem.replace(weights=self.fit.weights, C=self.fit.C, robust=None).factorise()
        return replace(factor, system=factor.system.with_inverse())

    @cached_property
    def blocks(self) -> list[np.ndarray] | None:
        """The rows that are left out together."""
        labels = self.labels
        if labels is None:
            return self.factor.problem.folds
        return [np.flatnonzero(labels == number) for number in range(labels.max() + 1)]

    @cached_property
    def residuals(self) -> np.ndarray:
        if self.labels is None or self.blocks is None:
            return super().residuals
        return arrays.to_numpy(self.factor.system.block_residuals(self.blocks, 1.0 / self.fit.C))

    @cached_property
    def _solved(self) -> tuple[Array, Array, Array]:
        """The coefficients of the factor's columns, the bias, and the changes of targets that leave rows out."""
        system, lam = self.factor.system, 1.0 / self.fit.C
        solution = system.solution(lam)
        return solution.coef, solution.intercept, system.moves(lam, self.blocks)

    def predictions(self, X: Array) -> np.ndarray:
        if (
            self.labels is None and self.problem.is_iterative()
        ):  # with so many rows, few of them change a prediction, and few quantiles with it
            return self.predict(X)[:, None, :]
        columns, (coef, intercept, moves) = self.factor.columns(X), self._solved
        f = (columns @ coef + intercept[None, :])[:, None, :]
        smoother = self.factor.system.smoother(columns, 1.0 / self.fit.C)
        if self.blocks is None:
            return arrays.to_numpy(f - smoother[:, :, None] * moves[None, :, :])
        changes = [arrays.take(smoother.T, block).T @ arrays.take(moves, block) for block in self.blocks]
        place = np.empty(len(self.rows), dtype=int)
        place[np.concatenate(self.blocks)] = np.repeat(np.arange(len(self.blocks)), list(map(len, self.blocks)))
        return arrays.to_numpy(f - arrays.namespace(f).stack(changes, axis=1))[:, place, :]

    def smoother(self, X: Array) -> np.ndarray:
        return arrays.to_numpy(self.factor.smoother(X, self.fit.C))

    def variance(self, X: Array, smoother: np.ndarray) -> np.ndarray:
        """Return C (k(x, x) - 2 S k + S K S') + S V^-1 S', which the smoother S minimises; K may be phi phi'."""
        kernel = self.problem.kernel
        if kernel.is_precomputed:
            what = "method='full' needs k(x, x) of the new rows, which a precomputed kernel does not contain"
            raise ValueError(f"{what}: use 'jackknife+'.")
        if self.problem.reduced:
            raise ValueError("method='full' is not defined for models on columns of the KKT system: use 'jackknife+'.")
        columns, training = (arrays.to_numpy(a) for a in (self.factor.columns(X), self._training))
        if self.factor.whitening is None:
            diagonal = arrays.to_numpy(kernel.diagonal(X))
            size = diagonal - np.sum(smoother * (2.0 * columns - smoother @ training), axis=1)
        else:
            size = np.sum((columns - smoother @ training) ** 2, axis=1)
        return np.maximum(size, 0.0) * self.fit.C + smoother**2 @ (1.0 / self.weights)

    @cached_property
    def _training(self) -> Array:
        """The columns of the training rows."""
        return self.factor.columns(arrays.take(self.problem.X, self.rows))

    def folds(self, labels: np.ndarray) -> FittedLoo:
        return FittedLoo(self.problem, self.fit, labels, self.factor)


@dataclass(frozen=True)
class LinkedLoo(LooModel):
    """The leave-one-out values of a model of counts or positive targets.

    They are those of the least-squares problem that is the last step of Newton's method. Residuals are multiplied by
    the square roots of the sample weights, as if all rows had the weight 1.
    """

    step: FittedLoo
    y: np.ndarray  # the targets of its rows
    loss: type[LogLink]
    roots: np.ndarray

    def scaled(self, y: np.ndarray) -> np.ndarray:
        return np.asarray(self.loss.stabilised(y))

    def ends(self, values: np.ndarray) -> np.ndarray:
        return np.asarray(self.loss.restored(values))

    def rescaled(self, residuals: np.ndarray) -> np.ndarray:
        means = np.maximum(self.y - residuals, np.finfo(float).tiny)  # the smallest may be lost in the residuals
        return np.asarray(self.roots * (self.scaled(self.y) - self.scaled(means)))

    @cached_property
    def residuals(self) -> np.ndarray:
        z = arrays.to_numpy(self.step.problem.y)[self.step.rows]
        return self.rescaled(self.y - np.exp(z - self.step.residuals))

    def predictions(self, X: Array) -> np.ndarray:
        return self.scaled(np.exp(self.step.predictions(X)))

    def folds(self, labels: np.ndarray) -> LinkedLoo:
        return replace(self, step=self.step.folds(labels))


def loo_model(problem: Problem, fit: Fit) -> LooModel:
    """Return the leave-one-out values of the solution of a problem."""
    if problem.loss == "squared":
        return FittedLoo(problem, fit)
    means = problem.y - fit.residuals
    step = problem.working(arrays.namespace(means).log(means)).replace(C=fit.C)
    _, _, y, weights = problem.positive_rows()
    roots = np.sqrt(arrays.to_numpy(weights))[:, None]
    return LinkedLoo(FittedLoo(step, step.solve()), arrays.to_numpy(y), LOG_LINKS[problem.loss], roots)


@dataclass(frozen=True)
class SampledLoo(LooModel):
    """A sample of l training rows, each left out of the model of all rows.

    The guarantees are those of l rows, whatever the other rows are: these are a fixed part of the model.
    """

    results: LooSample
    fit: Fit
    rows = slice(None)

    @cached_property
    def _columns(self) -> Array:
        return self.results.columns(self.results.X)

    def smoother(self, X: Array) -> np.ndarray:
        return arrays.to_numpy(self.results.smoother(X, self._columns))

    def variance(self, X: Array, smoother: np.ndarray) -> np.ndarray:
        return np.sum(arrays.to_numpy(self.results.columns(X)) ** 2, axis=1) + 1.0 / self.results.weight


@dataclass(frozen=True)
class StackedLoo(LooModel):
    """A weighted sum of models whose weights are held fixed."""

    parts: Sequence[LooModel]
    shares: Sequence[float]

    def _sum(self, value: Callable[[LooModel], np.ndarray]) -> np.ndarray:
        values = [share * value(part) for share, part in zip(self.shares, self.parts, strict=True)]
        return np.sum(np.broadcast_arrays(*values), axis=0)

    @cached_property
    def residuals(self) -> np.ndarray:
        return self._sum(lambda part: part.residuals)

    @cached_property
    def weights(self) -> np.ndarray:
        return self._sum(lambda part: part.weights)

    def predict(self, X: Array) -> np.ndarray:
        return self._sum(lambda part: part.predict(X))

    def __post_init__(self) -> None:
        vars(self)["roots"] = self.parts[0].roots

    def scaled(self, y: np.ndarray) -> np.ndarray:
        return self.parts[0].scaled(y)

    def ends(self, values: np.ndarray) -> np.ndarray:
        return self.parts[0].ends(values)

    def rescaled(self, residuals: np.ndarray) -> np.ndarray:
        return self.parts[0].rescaled(residuals)

    def predictions(self, X: Array) -> np.ndarray:
        return self._sum(lambda part: part.predictions(X))

    def smoother(self, X: Array) -> np.ndarray:
        return self._sum(lambda part: part.smoother(X))

    def pairs(self, X: Array, part: np.ndarray) -> np.ndarray:
        return self._sum(lambda one: one.pairs(X, part))

    def enlarged(self, X: Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        parts = [part.enlarged(X) for part in self.parts]
        centre = np.tensordot(self.shares, [own for own, _, _ in parts], axes=1)
        # every part is affine in y - f_k(x), which is y - f(x) plus a constant
        shifted = [a + b[:, :, None] * (centre - own)[:, None, :] for own, a, b in parts]
        slopes = [b for *_, b in parts]
        return centre, np.tensordot(self.shares, shifted, axes=1), np.tensordot(self.shares, slopes, axes=1)

    def folds(self, labels: np.ndarray) -> StackedLoo:
        return StackedLoo([part.folds(labels) for part in self.parts], self.shares)


@dataclass(frozen=True)
class ScaledLoo(StackedLoo):
    """A weighted sum of means of the targets, on another scale of them, on which intervals are symmetric.

    Each part has its own scale, or None; `actual` (l, k) are the targets of the l rows.
    """

    target: TargetScale
    scales: Sequence[TargetScale | None]
    actual: np.ndarray

    def scaled(self, y: np.ndarray) -> np.ndarray:
        return self.target.forward(self.target.bounded(y))

    def ends(self, values: np.ndarray) -> np.ndarray:
        return self.target.ends(values)

    def predict(self, X: Array) -> np.ndarray:
        return self._scaled_sum([part.predict(X) for part in self.parts])

    def predictions(self, X: Array) -> np.ndarray:
        return self._scaled_sum([part.predictions(X) for part in self.parts])

    def _scaled_sum(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Return the scaled sum of the means for predictions of the parts."""
        means = [f if scale is None else scale.mean(f) for f, scale in zip(parts, self.scales, strict=True)]
        return self.scaled(np.tensordot(self.shares, np.broadcast_arrays(*means), axes=1))

    def loo_residuals_of(self, residuals: Sequence[np.ndarray]) -> np.ndarray:
        """Return the residuals of this model from those of its parts, in the last axes (l, k)."""
        targets = (self.actual if scale is None else scale.forward(self.actual) for scale in self.scales)
        return self.scaled(self.actual) - self._scaled_sum([y - r for y, r in zip(targets, residuals, strict=True)])

    @cached_property
    def residuals(self) -> np.ndarray:
        return self.loo_residuals_of([part.residuals for part in self.parts])

    def pairs(self, X: Array, part: np.ndarray) -> np.ndarray:
        own, other = zip(*(one.pairs(X, part) for one in self.parts), strict=True)
        rows = replace(self, actual=self.actual[part, None, :])
        return np.stack([rows.loo_residuals_of(own), self.loo_residuals_of(other)])

    def smoother(self, X: Array) -> np.ndarray:
        raise ValueError(f"confidence_interval needs {NOT_LINEAR}")

    def enlarged(self, X: Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        raise ValueError(f"method='full' needs {NOT_LINEAR}")

    def folds(self, labels: np.ndarray) -> ScaledLoo:
        return replace(self, parts=[part.folds(labels) for part in self.parts])
