"""The search for the widths, C and slope of one kernel, with one coding and one loss, by leave-one-out log loss."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import optimize
from scipy.special import softmax

from .. import arrays, progress
from ..arrays import NumericalError
from ..coding import pair_rows
from ..kernels import Kernel
from ..losses import LOSSES
from ..problem import Problem
from ..system.newton import loo_gradient, solve_dual, solve_squares
from .plan import PLAN
from .stacks import Stacks

minimize: Any = optimize.minimize  # its stubs know neither bounds nor options together


@dataclass(frozen=True)
class Setting:
    """A classifier: kernel, C, coding and loss; `slope` turns its decision values into probabilities."""

    kernel: Kernel
    C: float
    coding: str
    loss: str
    slope: float = 1.0


class Rows:
    """The rows of a search, their classes, and the units of the columns."""

    def __init__(self, problem: Problem, unit: np.ndarray, C: float | None) -> None:
        self.problem, self.unit, self.C = problem, unit, C
        self.X = problem.X
        self.codes, self.weights = problem.labels, arrays.to_numpy(problem.weights)
        self.n_classes = max(2, problem.y.shape[1])
        self.evaluations = 0

    def part(self, rows: np.ndarray) -> Rows:
        """A subset of the rows."""
        return Rows(self.problem.subset(rows), self.unit, self.C)

    def columns(self, coding: str) -> list[tuple[np.ndarray, np.ndarray]]:
        """The rows and targets of every binary problem."""
        if self.by_pairs(coding):
            return pair_rows(self.codes, self.n_classes)
        rows = np.arange(len(self.codes))
        return [(rows, np.where(self.codes == c, 1.0, -1.0)) for c in range(self.n_classes)]

    def work(self) -> float:
        """A measure of the work of one evaluation."""
        return float(len(self.codes)) ** 3

    def by_pairs(self, coding: str) -> bool:
        """Whether every binary problem is a pair of classes."""
        return coding == "one-vs-one" or self.n_classes == 2

    def matrix(self, kernel: Kernel) -> np.ndarray:
        """The kernel matrix of the rows; counted as an evaluation."""
        self.evaluations += 1
        points = kernel.basis_points(self.X, np.arange(self.X.shape[0]))
        return arrays.to_numpy(self.problem.replace(kernel=kernel).gram(self.X, points))


class ClassSearch:
    """The search for the widths, C and slope of one kernel, with one coding and loss."""

    def __init__(self, rows: Rows, setting: Setting, free: list[bool], *, many: bool = False) -> None:
        self.rows, self.setting, self.free, self.many = rows, setting, free, many
        self.by_pairs = rows.by_pairs(setting.coding)
        self.columns = rows.columns(setting.coding)
        stacked = setting.loss == "squared" and self.by_pairs
        self.stacks = Stacks(self.columns, rows.weights) if stacked else None
        self.warm: list[Any] = [None] * len(self.columns)
        self.start = log_widths(setting.kernel, rows.X.shape[1])
        self.used = [np.isfinite(logs) for logs in self.start]
        self.signs = np.zeros((len(rows.codes), len(self.columns)))
        for number, (own, t) in enumerate(self.columns):
            self.signs[own, number] = t

    def _sizes(self) -> list[int]:
        """The number of free widths of each leaf: none, one or one per column."""
        several = [self.many and leaf.ard for leaf in self.setting.kernel.leaves]
        return [
            0 if not free else len(logs) if ard else 1
            for free, logs, ard in zip(self.free, self.start, several, strict=True)
        ]

    def at(self, x: np.ndarray) -> Setting:
        """The setting of a vector: changes of the log widths, then log C and the log slope."""
        sigmas, place = [], 0
        for leaf, logs, size in zip(self.setting.kernel.leaves, self.start, self._sizes(), strict=True):
            sigmas.append(np.exp(logs + x[place : place + size]) if size else leaf.sigma)
            place += size
        C = math.exp(x[-2]) if self.rows.C is None else self.setting.C
        return replace(self.setting, kernel=self.setting.kernel.with_widths(sigmas), C=C, slope=math.exp(x[-1]))

    def objective(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """The loss minus the log priors, and its gradient."""
        setting, X = self.at(x), self.rows.X
        progress.did(self.rows.work)
        try:
            K = self.rows.matrix(setting.kernel)
            value, G, in_C, in_slope = self._loss(K, setting)
        except NumericalError:
            return 1e10, np.zeros_like(x)
        in_widths: Any = arrays.to_numpy(setting.kernel.gradient(X, X, arrays.like(G, X))) if any(self._sizes()) else []
        gradient: list[float] = []
        for row, size in zip(in_widths, self._sizes(), strict=False):
            gradient.extend([] if not size else row if size > 1 else [row.sum()])
        prior, in_prior = self._prior(x)
        return value + prior, np.concatenate([gradient, [in_C if self.rows.C is None else 0.0, in_slope]]) + in_prior

    def _loss(self, K: np.ndarray, setting: Setting) -> tuple[float, np.ndarray, float, float]:
        """The loss and its derivatives in K, log C and the log slope."""
        if self.stacks is not None:
            values, kept = self.stacks.squares(K, setting.C)
            value, in_values, in_slope = self._score(values, setting.slope)
            return value, *self.stacks.gradient(kept, in_values, setting.C), in_slope
        if not self.by_pairs and setting.loss == "squared":  # one factorisation for all columns
            coef, _, values, P = solve_squares(K, self.signs, self.rows.weights, setting.C)
            value, in_values, in_slope = self._score(values, setting.slope)
            q = P.diagonal()
            half = (P @ (-in_values / q[:, None])) @ coef.T
            G = -0.5 * (half + half.T) - (P * (np.sum(in_values * coef, axis=1) / q**2)[None, :]) @ P
            return value, G, -float(np.sum(G.diagonal() / (setting.C * self.rows.weights))), in_slope
        loss = LOSSES[setting.loss]
        fits, values = [], np.full((len(K), len(self.columns)), np.nan)
        for number, (rows, t) in enumerate(self.columns):
            part = K if len(rows) == len(K) else K[np.ix_(rows, rows)]
            fit = solve_dual(
                part, t, self.rows.weights[rows], setting.C, loss, start=self.warm[number], tolerance=1e-4, inverse=True
            )
            self.warm[number] = fit.decision
            fits.append((part, fit))
            values[rows, number] = fit.loo
        value, in_values, in_slope = self._score(values, setting.slope)
        G, in_C = np.zeros_like(K), 0.0
        for number, ((rows, t), (part, fit)) in enumerate(zip(self.columns, fits, strict=True)):
            own, slope = loo_gradient(fit, part, t, self.rows.weights[rows], setting.C, loss, in_values[rows, number])
            in_C += slope
            if len(rows) == len(K):
                G += own
            else:
                G[np.ix_(rows, rows)] += own
        return value, G, in_C, in_slope

    def _score(self, values: np.ndarray, slope: float) -> tuple[float, np.ndarray, float]:
        """The loss of leave-one-out values (rows, columns), and its derivatives in them and in the log slope."""
        if not self.by_pairs:
            p = softmax(slope * values, axis=1)
            own = np.arange(len(p)), self.rows.codes
            value = -float(self.rows.weights @ np.log(np.maximum(p[own], 1e-300)))
            p[own] -= 1.0
            p *= slope * self.rows.weights[:, None]
            return value, p, float(np.sum(p * values))
        signs = self.signs
        logits = np.where(signs != 0.0, -slope * signs * np.nan_to_num(values), -np.inf)
        top = np.maximum(logits.max(axis=1), 0.0)
        shares = np.exp(logits - top[:, None])
        total = np.exp(-top) + shares.sum(axis=1)
        value = float(self.rows.weights @ (top + np.log(total)))
        in_values = -slope * signs * self.rows.weights[:, None] * shares / total[:, None]
        return value, in_values, float(np.nansum(in_values * values))

    def _prior(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Minus the log of weak normal priors, which keep the parameters finite for separable classes; its gradient."""
        value, gradient, place = 0.0, np.zeros_like(x), 0
        for size, logs, leaf, used in zip(
            self._sizes(), self.start, self.setting.kernel.leaves, self.used, strict=True
        ):
            if size:
                part = slice(place, place + size)
                unit = np.log(leaf.width_unit(self.rows.unit))
                relative = (logs + x[part] - unit)[used]
                middle = float(relative.mean() - 0.5 * math.log(max(used.sum(), 1))) if used.any() else 0.0
                value += 0.5 * (middle / PLAN.class_width_prior) ** 2
                own = np.zeros(len(logs))
                own[used] = middle / PLAN.class_width_prior**2 / max(used.sum(), 1)
                if size > 1:
                    deviation = relative - relative.mean()
                    value += 0.5 * float(deviation @ deviation) / PLAN.width_prior**2
                    own[used] += deviation / PLAN.width_prior**2
                gradient[part] = own if size > 1 else own.sum()
            place += size
        for at, centre, deviation in ((-2, math.log(PLAN.class_C), PLAN.class_C_prior), (-1, 0.5, PLAN.class_C_prior)):
            value += 0.5 * ((x[at] - centre) / deviation) ** 2
            gradient[at] += (x[at] - centre) / deviation**2
        if self.rows.C is not None:
            gradient[-2] = 0.0
        return value, gradient

    def run(self, iterations: int) -> tuple[float, Setting]:
        """The objective and the setting after at most `iterations` iterations of L-BFGS."""
        size = sum(self._sizes())
        x = np.zeros(size + 2)
        x[-2:] = math.log(self.setting.C), math.log(self.setting.slope)
        bounds = [(-6.0, 6.0)] * size + [(-12.0, 23.0) if self.rows.C is None else (x[-2], x[-2]), (-3.0, 6.0)]
        found = minimize(
            self.objective,
            x,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": iterations, "maxfun": 2 * iterations, "ftol": 1e-4, "gtol": 1e-3},
        )
        return float(found.fun), self.at(found.x)


def log_widths(kernel: Kernel, n_features: int) -> list[np.ndarray]:
    """The log widths, leaf by leaf, one value per column."""
    with np.errstate(divide="ignore"):
        return [np.log(arrays.to_numpy(leaf.sigma) * np.ones(n_features)) for leaf in kernel.leaves]
