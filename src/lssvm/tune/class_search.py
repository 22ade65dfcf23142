"""The search for the widths and C of one kernel, with one coding and one loss, by leave-one-out log loss."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy

from .. import arrays, progress
from ..arrays import NumericalError
from ..coding import pair_rows, pairs_of
from ..kernels import Kernel
from ..losses import LOSSES
from ..problem import Problem, whitened_columns
from ..system.newton import loo_gradient, solve_dual, solve_squares
from .constants import CONSTANTS
from .stacks import Stacks

SLOPE_STEPS = 12  # at most, of Newton's method for the slope
SLOPE_ACCURACY = 1e-3  # of its logarithm; the error of the loss is of the order of the square
SLOPES = (-3.0, 6.0)  # range of the log slopes
SLOPE_CENTRE = 0.5  # of the prior on the log slope


@dataclass(frozen=True)
class Setting:
    """A classifier: kernel, C, coding and loss."""

    kernel: Kernel
    C: float
    coding: str
    loss: str


class Rows:
    """The rows of a search, their classes, and the units of the columns."""

    def __init__(self, problem: Problem, unit: np.ndarray, C: float | None) -> None:
        self.problem, self.unit, self.C = problem, unit, C
        self.X = problem.X
        self.codes, self.weights = problem.labels, arrays.to_numpy(problem.weights)
        self.n_classes = max(2, problem.y.shape[1])
        self.n_inputs = max(1, len(np.unique(problem.inputs[np.isfinite(unit)])))  # without constant columns
        self.evaluations = 0
        self._coded: dict[str, Coded] = {}

    def part(self, rows: np.ndarray) -> Rows:
        """A subset of the rows."""
        unit = self.unit[rows] if self.problem.kernel.is_precomputed else self.unit
        return Rows(self.problem.subset(rows), unit, self.C)

    def coded(self, coding: str) -> Coded:
        """The binary problems of a coding. With two classes there is one, whatever the coding."""
        if coding not in self._coded:
            self._coded[coding] = Coded(self, coding == "one-vs-one" or self.n_classes == 2)
        return self._coded[coding]

    def work(self) -> float:
        """A measure of the work of one evaluation."""
        return float(len(self.codes)) * float(self.problem.basis_size) ** 2

    def matrix(self, kernel: Kernel) -> np.ndarray:
        """The kernel matrix of the rows, or the whitened columns of a smaller basis; counted as an evaluation."""
        self.evaluations += 1
        if not self.problem.is_dual:
            return whitened_columns(self.problem.replace(kernel=kernel))[0]
        points = kernel.basis_points(self.X, np.arange(self.X.shape[0]))
        return arrays.to_numpy(self.problem.replace(kernel=kernel).gram(self.X, points))


class Coded:
    """The binary problems of some rows, and the log loss of their leave-one-out values."""

    def __init__(self, rows: Rows, by_pairs: bool) -> None:
        self.codes, self.weights, self.by_pairs = rows.codes, rows.weights, by_pairs
        every, classes = np.arange(len(rows.codes)), np.arange(rows.n_classes)
        if by_pairs:
            self.columns = pair_rows(rows.codes, rows.n_classes)
        else:
            self.columns = [(every, np.where(rows.codes == c, 1.0, -1.0)) for c in classes]
        self.stacks = Stacks(self.columns, rows.weights)
        others = classes[None, :-1] + (classes[None, :-1] >= classes[:, None])  # (classes, classes - 1)
        self.opponents = others[rows.codes]
        self.signs = np.where(self.opponents < rows.codes[:, None], 1.0, -1.0)
        if by_pairs:
            number = np.zeros((rows.n_classes, rows.n_classes), dtype=int)
            for place, (a, b) in enumerate(pairs_of(rows.n_classes)):
                number[a, b] = number[b, a] = place
            self.opponents = np.take_along_axis(number, others, axis=1)[rows.codes]
        self.log_slope = SLOPE_CENTRE  # where the next search for a slope starts

    @property
    def targets(self) -> np.ndarray:
        """The targets (rows, columns) of one class against the rest."""
        return np.column_stack([t for _, t in self.columns])

    def _margins(self, values: np.ndarray) -> np.ndarray:
        """The margins of every row against the other classes (rows, classes - 1), from leave-one-out values.

        They are the signed values of the pairs of its class, or differences of the values of its class and the others.
        """
        if self.by_pairs:
            return self.signs * np.take_along_axis(values, self.opponents, axis=1)
        own = np.take_along_axis(values, self.codes[:, None], axis=1)
        return own - np.take_along_axis(values, self.opponents, axis=1)

    def _in_values(self, in_margins: np.ndarray) -> np.ndarray:
        """The derivatives in the leave-one-out values, from those in the margins."""
        out = np.zeros((len(in_margins), len(self.columns)))
        if self.by_pairs:
            np.put_along_axis(out, self.opponents, self.signs * in_margins, axis=1)
            return out
        np.put_along_axis(out, self.opponents, -in_margins, axis=1)
        np.put_along_axis(out, self.codes[:, None], in_margins.sum(axis=1, keepdims=True), axis=1)
        return out

    def score(self, values: np.ndarray) -> tuple[float, np.ndarray]:
        """The loss of leave-one-out values with the best slope, and its derivatives in them.

        By the envelope theorem, the slope does not contribute to them. Newton's method runs in the log slope.
        """
        margins = self._margins(values)
        weights, log_slope = self.weights, self.log_slope
        for _ in range(SLOPE_STEPS):
            slope = math.exp(log_slope)
            logits = -slope * margins
            top = np.maximum(logits.max(axis=1), 0.0)
            shares = np.exp(logits - top[:, None])
            total = np.exp(-top) + shares.sum(axis=1)
            shares /= total[:, None]
            mean = np.einsum("ij,ij->i", shares, logits)
            deviation = log_slope - SLOPE_CENTRE
            first = float(weights @ mean) + deviation / CONSTANTS.class_C_prior**2
            square = np.einsum("ij,ij,ij->i", shares, logits, logits) - mean**2
            second = float(weights @ (mean + square)) + 1.0 / CONSTANTS.class_C_prior**2
            step = -first / second if second > 0.0 else -math.copysign(1.0, first)
            step = min(max(step, -1.0, SLOPES[0] - log_slope), 1.0, SLOPES[1] - log_slope)
            if abs(step) < SLOPE_ACCURACY:
                break
            log_slope += step
        self.log_slope = log_slope
        value = float(weights @ (top + np.log(total))) + 0.5 * (deviation / CONSTANTS.class_C_prior) ** 2
        return value, self._in_values(-slope * weights[:, None] * shares)


class ClassSearch:
    """The search for the widths and C of one kernel, with one coding and loss."""

    def __init__(self, rows: Rows, setting: Setting, free: list[bool], *, many: bool = False) -> None:
        self.rows, self.setting, self.free, self.many = rows, setting, free, many
        self.coded = rows.coded(setting.coding)
        self.warm: list[Any] = [None] * len(self.coded.columns)
        self.inputs = rows.problem.inputs  # of the columns; columns of the same input share a width
        self.leading = np.unique(self.inputs, return_index=True)[1]  # the first column of every input
        self.start = log_widths(setting.kernel, rows.X.shape[1])
        self.used = [np.isfinite(logs[self.leading]) for logs in self.start]
        parts = [used if size > 1 else np.ones(1) for used, size in zip(self.used, self._sizes(), strict=True) if size]
        shares = [2.0 * part / (max(part.sum(), 1) * len(parts)) for part in parts]
        self.tilt = np.concatenate([*shares, [1.0]]) * (rows.C is None)  # the derivatives of log C in x

    def _sizes(self) -> list[int]:
        """The number of free widths of each leaf: none, one or one per input."""
        several = [self.many and leaf.ard for leaf in self.setting.kernel.leaves]
        count = len(self.leading)
        return [0 if not free else count if ard else 1 for free, ard in zip(self.free, several, strict=True)]

    def at(self, x: np.ndarray) -> Setting:
        """The setting of a vector x: changes of the log widths, then log C minus twice their mean.

        Far beyond the spread of the data, a kernel of k times the width needs k^2 times C for the same function.
        """
        sigmas, place = [], 0
        for leaf, logs, size in zip(self.setting.kernel.leaves, self.start, self._sizes(), strict=True):
            moves = x[place : place + size]
            sigmas.append(np.exp(logs + (moves[self.inputs] if size > 1 else moves)) if size else leaf.sigma)
            place += size
        C = math.exp(float(self.tilt @ x)) if self.rows.C is None else self.setting.C
        return replace(self.setting, kernel=self.setting.kernel.with_widths(sigmas), C=C)

    def objective(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """The loss minus the log priors, and its gradient."""
        setting, X = self.at(x), self.rows.X
        progress.did(self.rows.work)
        try:
            K = self.rows.matrix(setting.kernel)
            value, G, in_C = self._loss(K, setting)
        except NumericalError:
            return 1e10, np.zeros_like(x)
        in_widths: Any = arrays.to_numpy(setting.kernel.gradient(X, X, arrays.like(G, X))) if any(self._sizes()) else []
        gradient: list[float] = []
        for row, size in zip(in_widths, self._sizes(), strict=False):
            gradient.extend([] if not size else np.bincount(self.inputs, row) if size > 1 else [row.sum()])
        prior, in_prior = self._prior(x)
        deviation = math.log(setting.C / CONSTANTS.class_C)
        prior += 0.5 * (deviation / CONSTANTS.class_C_prior) ** 2
        in_C += deviation / CONSTANTS.class_C_prior**2
        return value + prior, np.append(gradient, 0.0) + in_prior + in_C * self.tilt

    def _loss(self, K: np.ndarray, setting: Setting) -> tuple[float, np.ndarray, float]:
        """The loss and its derivatives in K and log C."""
        coded, weights = self.coded, self.rows.weights
        if coded.by_pairs and setting.loss == "squared":
            values, kept = coded.stacks.squares(K, setting.C)
            value, in_values = coded.score(values)
            return value, *coded.stacks.gradient(kept, in_values, setting.C)
        if setting.loss == "squared":  # one factorisation for all columns
            coef, _, values, P = solve_squares(K, coded.targets, weights, setting.C)
            value, in_values = coded.score(values)
            q = P.diagonal()
            half = (P @ (-in_values / q[:, None])) @ coef.T
            G = -0.5 * (half + half.T) - (P * (np.sum(in_values * coef, axis=1) / q**2)[None, :]) @ P
            return value, G, -float(np.sum(G.diagonal() / (setting.C * weights)))
        loss = LOSSES[setting.loss]
        values, G, in_C = np.zeros((len(K), len(coded.columns))), np.zeros_like(K), 0.0
        fits = {}
        for number, (rows, t) in enumerate(coded.columns):
            if len(np.unique(t)) == 2:  # else a class is missing in this part of the rows, and the values stay 0
                part = K[np.ix_(rows, rows)]
                fit = solve_dual(
                    part, t, weights[rows], setting.C, loss, start=self.warm[number], tolerance=1e-4, inverse=True
                )
                self.warm[number], fits[number] = fit.decision, (part, fit)
                values[rows, number] = fit.loo
        value, in_values = coded.score(values)
        for number, (part, fit) in fits.items():
            rows, t = coded.columns[number]
            own, slope = loo_gradient(fit, part, t, weights[rows], setting.C, loss, in_values[rows, number])
            G[np.ix_(rows, rows)] += own
            in_C += slope
        return value, G, in_C

    def _prior(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Minus the log of weak normal priors on the widths, which keep them finite for separable classes."""
        value, gradient, place = 0.0, np.zeros_like(x), 0
        for size, logs, leaf, used in zip(
            self._sizes(), self.start, self.setting.kernel.leaves, self.used, strict=True
        ):
            if size:
                part = slice(place, place + size)
                unit = np.log(leaf.width_unit(self.rows.unit))
                kept = self.leading[used]
                relative = logs[kept] - unit[kept] + (x[part][used] if size > 1 else x[part])
                middle = float(relative.mean() - 0.5 * math.log(max(used.sum(), 1))) if used.any() else 0.0
                value += 0.5 * (middle / CONSTANTS.class_width_prior) ** 2
                own = np.zeros(len(used))
                own[used] = middle / CONSTANTS.class_width_prior**2 / max(used.sum(), 1)
                if size > 1:
                    deviation = relative - relative.mean()
                    value += 0.5 * float(deviation @ deviation) / CONSTANTS.width_prior**2
                    own[used] += deviation / CONSTANTS.width_prior**2
                gradient[part] = own if size > 1 else own.sum()
            place += size
        return value, gradient

    def run(self, iterations: int) -> tuple[float, Setting]:
        """The objective and the setting after at most `iterations` iterations of L-BFGS.

        The objective is divided by the length of its first gradient, so that the first step has length 1.
        """
        size = sum(self._sizes())
        x = np.append(np.zeros(size), math.log(self.setting.C))
        bounds = [(-6.0, 6.0)] * size + [(-12.0, 23.0) if self.rows.C is None else (x[-1], x[-1])]
        first = self.objective(x)
        unit = max(float(np.linalg.norm(first[1])), 1.0)
        known = {x.tobytes(): first}

        def scaled(x: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = known.pop(x.tobytes()) if x.tobytes() in known else self.objective(x)
            return value / unit, gradient / unit

        flat = CONSTANTS.class_flatness / max(first[0], unit)  # L-BFGS compares gains with max(value, 1)
        options = {"maxiter": iterations, "maxfun": 2 * iterations, "ftol": flat, "gtol": 1e-3}
        found = scipy.optimize.minimize(  # type: ignore[call-overload]
            scaled, x, jac=True, method="L-BFGS-B", bounds=bounds, options=options
        )
        return unit * float(found.fun), self.at(found.x)


def log_widths(kernel: Kernel, n_features: int) -> list[np.ndarray]:
    """The log widths, leaf by leaf, one value per column."""
    with np.errstate(divide="ignore"):
        return [np.log(arrays.to_numpy(leaf.sigma) * np.ones(n_features)) for leaf in kernel.leaves]
