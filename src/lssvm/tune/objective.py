"""The objective of the search for widths: log PRESS and a prior, as functions of the log widths and log C."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils import Bunch

from .. import arrays
from ..arrays import NumericalError
from ..problem import Problem, column_spread, constant_columns
from .plan import PLAN
from .scores import validation_loss

if TYPE_CHECKING:
    from .steps import LeaveOneOut


class Objective:
    """The objective for one kernel, and the point at which a search is.

    The search vector contains the log widths, in units of the spreads of the columns, leaf by leaf (one per leaf or one
    per input), followed by log C if it is None. A `trial` is the problem on a sample of rows, with a part of the
    basis.
    """

    def __init__(self, problem: Problem, step: LeaveOneOut, record: Bunch, *, always: bool = False) -> None:
        self.original = self.problem = problem
        if not problem.classification:
            y, rows = arrays.to_numpy(problem.y), problem.rows
            deviation = y - y[rows].mean(axis=0)
            unit = float(np.max(np.abs(deviation[rows]), initial=0.0)) or 1.0
            self.problem = problem.replace(y=arrays.like(deviation / unit, problem.y))  # squares cannot overflow
        self.method = "gradient" if step.search == "auto" else step.search
        self.record = record
        self.spread = column_spread(problem)
        self.inputs = problem.inputs  # of the columns; columns of the same input share a width
        self.leading = np.unique(self.inputs, return_index=True)[1]  # the first column of every input
        self.constant = constant_columns(problem)[self.leading]
        self.free = [leaf.sigma is None for leaf in problem.kernel.leaves]
        self.many = [bool(leaf.ard) for leaf in problem.kernel.leaves]  # one width per column is allowed
        self.ard = [False] * len(self.many)  # one width per column is in use
        self.plain = repr(problem.kernel.rebuilt(lambda part: {"ard": False} if part.ard else {}))
        self.always = always  # one width per column is used even if it gains little
        self.value = math.inf
        self.first_value = math.inf  # on the first stage
        self.spent = 0.0  # `work` so far
        self.has_outliers = False
        self.trial: Problem | None = None  # the problem on the first stage
        self.widths = np.empty(0)
        self.moderate = math.inf  # logarithm of the best common width among the narrower ones of the grid
        self.C = problem.C or 1.0
        self.loss = step.loss
        self.by_log_loss = False  # the search uses squares; for classes, its last step uses the log loss

    # Vectors ---------------------------------------------------------------------------------------------------------
    def _at(self, logs: np.ndarray, trial: Problem, C: float | None = None) -> Problem:
        """The trial problem with the widths of a vector, and with C if given."""
        sigmas, place = [], 0
        for leaf, free, size in zip(trial.kernel.leaves, self.free, self._sizes(), strict=True):
            widths = np.where(
                logs[place : place + size] < PLAN.dropped_width, np.exp(logs[place : place + size]), math.inf
            )
            widths = widths[self.inputs] if size > 1 else widths
            sigmas.append(widths * leaf.width_unit(self.spread) if free else leaf.sigma)
            place += size
        return trial.replace(kernel=trial.kernel.with_widths(sigmas), C=C)

    def _at_vector(self, logs: np.ndarray, trial: Problem) -> Problem:
        """The trial problem with the widths and C of a vector."""
        return self._at(logs, trial, trial.C if self.problem.C is not None else math.exp(logs[-1]))

    def _sizes(self) -> list[int]:
        """The number of free widths of each leaf: none, one or one per input."""
        d = len(self.constant)
        return [0 if not free else d if ard else 1 for free, ard in zip(self.free, self.ard, strict=True)]

    def _vector(self) -> np.ndarray:
        """The current log widths, and log C if it is searched."""
        return self.widths if self.problem.C is not None else np.append(self.widths, math.log(self.C))

    def _prior(self, logs: np.ndarray, rows: int) -> tuple[float, np.ndarray]:
        """-2/rows times the log density of the normal prior on the log widths per column, and its gradient."""
        value, gradient, place = 0.0, np.zeros_like(logs), 0
        for size in self._sizes():
            if size > 1:
                kept = place + np.flatnonzero(logs[place : place + size] < PLAN.dropped_width)
                deviation = logs[kept] - logs[kept].mean() if len(kept) else logs[kept]
                spread = PLAN.ratio_prior * max(1.0, rows / (PLAN.width_rows * max(len(kept), 1)))
                value += float(deviation @ deviation) / (spread**2 * rows)
                gradient[kept] = 2.0 * deviation / (spread**2 * rows)
            place += size
        return value, gradient

    def _objective(self, logs: np.ndarray, trial: Problem) -> tuple[float, np.ndarray]:
        """The criterion plus the prior, and its gradient."""
        self.record.evaluations += 1
        prior, prior_gradient = self._prior(logs, len(trial.rows))
        try:
            factor = self._at_vector(logs, trial).factorise(quick=True)
            value, in_widths, in_C = factor.criterion(classes=self.by_log_loss)
        except NumericalError:  # no finite value: the line search steps back
            return 1e10, np.zeros_like(logs)
        gradient: list[float] = []
        for row, free, size in zip(arrays.to_numpy(in_widths), self.free, self._sizes(), strict=True):
            gradient.extend([] if not free else np.bincount(self.inputs, row) if size > 1 else [row.sum()])
        if self.problem.C is None:
            gradient.append(in_C)
        return value - self._unit(trial) + prior, np.array(gradient) + prior_gradient

    def _value(self, logs: np.ndarray, trial: Problem) -> float:
        """The objective without its gradient."""
        self.record.evaluations += 1
        try:
            factor = self._at_vector(logs, trial).factorise(quick=True)
        except NumericalError:
            return 1e10
        loo = arrays.to_numpy(factor.system.solution(1.0 / factor.C, careful=False).loo_residuals)
        return self._value_of(loo, logs, trial)

    def _value_of(self, loo: np.ndarray, logs: np.ndarray, trial: Problem) -> float:
        """The same from the leave-one-out residuals of the rows with positive weight."""
        y, weights = (arrays.to_numpy(a)[trial.rows] for a in (trial.y, trial.weights))
        if self.by_log_loss:
            value = math.log(validation_loss(trial, y, loo, weights))
        else:
            value = math.log(float(np.sum(weights @ loo**2)) or arrays.EPS)
        return value - self._unit(trial) + self._prior(logs, len(trial.rows))[0]

    def _unit(self, trial: Problem) -> float:
        """What is subtracted from log PRESS, so that units do not affect the stopping rule."""
        return 0.0 if self.by_log_loss else trial.log_scatter

    @staticmethod
    def _is_dropped(widths: np.ndarray) -> np.ndarray:
        return np.asarray(widths >= PLAN.dropped_width)
