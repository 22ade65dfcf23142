"""The objective of the search for widths: log PRESS and a prior, as functions of the log widths and log C.

Also the leave-one-out residuals and errors at a point of the search, and estimates of the work of a search.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils import Bunch

from .. import arrays
from ..arrays import Array, NumericalError, cached_property
from ..kernels import RBF, Matern
from ..problem import Problem, column_spread, constant_columns
from ..progress import gradient_work, work
from .constants import CONSTANTS
from .samples import stages_of
from .scores import class_errors, error_rate, errors_to_choose_by, output_units, validation_loss
from .screening import Functions
from .stack_weights import Stage

if TYPE_CHECKING:
    from .leave_one_out import LeaveOneOut


class Objective:
    """The objective for one kernel, and the point at which a search is.

    The search vector contains the log widths, in units of the spreads of the columns, leaf by leaf (one per leaf or one
    per input), followed by log C if it is None. A `trial` is the problem on a sample of rows, with a part of the
    basis.
    """

    def __init__(self, problem: Problem, step: LeaveOneOut, record: Bunch, *, member: bool = False) -> None:
        self.original = self.problem = problem
        if not problem.classification:
            y, known = arrays.to_numpy(problem.y), arrays.to_numpy(problem.y)[problem.rows]
            self.problem = problem.replace(y=arrays.like((y - known.mean(axis=0)) / output_units(known), problem.y))
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
        self.member = member  # of a stack: one width per column is used even if it gains little
        self.value = math.inf
        self.first_value = math.inf  # on the first stage
        self.spent = 0.0  # `work` so far
        self.has_outliers = False
        self.is_useless = False  # as a member of a stack: without weight after a few iterations
        self.is_completed = False  # a step has already chosen the widths and C
        self.is_limited = False  # widths are to be searched again on the last stage
        self.trial: Problem | None = None  # the problem on the first stage
        self.last: Problem | None = None  # on the last stage, if there are several
        self.functions: Functions | None = None  # of its columns
        self.widths = np.empty(0)
        self.moderate = math.inf  # logarithm of the best common width among the narrower ones of the grid
        self.C = problem.C or 1.0
        self.loss = step.loss
        self.by_log_loss = False  # the search uses squares; for classes, its last step uses the log loss

    # Vectors ---------------------------------------------------------------------------------------------------------
    def _at(self, logs: np.ndarray, trial: Problem, C: float | None = None) -> Problem:
        """The trial problem with the widths of a vector, and with C if given."""
        sigmas, place = [], 0
        if trial is not self.original and not any(self.ard) and self.coordinates is not None:
            kernel = trial.kernel.with_widths(np.exp(logs[:1]))
            rotated = trial.replace(X=self.coordinates, groups=None, kernel=kernel, C=C)
            rotated.__dict__["rows_by_content"] = trial.rows_by_content  # samples stay the same
            return rotated
        for leaf, free, size in zip(trial.kernel.leaves, self.free, self._sizes(), strict=True):
            widths = np.where(
                logs[place : place + size] < CONSTANTS.dropped_width, np.exp(logs[place : place + size]), math.inf
            )
            widths = widths[self.inputs] if size > 1 else widths
            sigmas.append(widths * leaf.width_unit(self.spread) if free else leaf.sigma)
            place += size
        _ = trial.rows_by_content  # computed once; its copies keep it
        return trial.replace(kernel=trial.kernel.with_widths(sigmas), C=C)

    @cached_property
    def coordinates(self) -> Array | None:
        """Points with the distances of the rows, in units of the spreads, in as many dimensions as there are rows.

        A search for a common width needs no more, and with very many columns most of its time is spent on distances.
        None if there are few columns, if the search uses samples, or if the kernel depends on more than distances.
        """
        X, kernel = self.problem.X, self.problem.kernel
        wide = (
            max(CONSTANTS.screened, X.shape[0]) < X.shape[1]
            and X.shape[0] == len(self.problem.rows) <= CONSTANTS.start_rows
        )
        if not (wide and all(self.free) and self.problem.is_dual and isinstance(kernel, (RBF, Matern))):
            return None
        values = arrays.to_numpy(X) + 0.0
        first: dict[bytes, int] = {}
        place = [first.setdefault(row.tobytes(), number) for number, row in enumerate(values)]
        scaled = (values - np.median(values, axis=0)) / self.spread  # far cells do not move a median
        if not np.isfinite(scaled).all():
            return None
        R = np.asarray(np.linalg.qr(scaled.T, mode="r"))
        return arrays.like(R.T[place], X)  # copies of a row remain copies

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
                kept = place + np.flatnonzero(logs[place : place + size] < CONSTANTS.dropped_width)
                deviation = logs[kept] - logs[kept].mean() if len(kept) else logs[kept]
                spread = CONSTANTS.ratio_prior * max(1.0, rows / (CONSTANTS.width_rows * max(len(kept), 1)))
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
            return self._value_of(self._loo_residuals(trial, logs), logs, trial)
        except NumericalError:
            return 1e10

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
        return np.asarray(widths >= CONSTANTS.dropped_width)

    def _loo_residuals(self, trial: Problem, vector: np.ndarray | None = None) -> np.ndarray:
        """Leave-one-out residuals of the current setting, or of that of a vector."""
        factor = self._at_vector(self._vector() if vector is None else vector, trial).factorise(quick=True)
        return np.asarray(arrays.to_numpy(factor.system.solution(1.0 / factor.C, careful=False).loo_residuals))

    def _errors(self, trial: Problem) -> float:
        """The number of rows that leave-one-out misclassifies; 0 for regression."""
        if not trial.classification:
            return 0.0
        y, weights = (arrays.to_numpy(a)[trial.rows] for a in (trial.y, trial.weights))
        return len(trial.rows) * error_rate(y, self._loo_residuals(trial), weights)

    @cached_property
    def first_stage(self) -> Stage:
        """What the weight of a member of a stack depends on. Read it after `run` and before the last stage."""
        assert self.trial is not None
        return self._stage_at(self._vector(), self.trial)

    def _stage_at(self, vector: np.ndarray, trial: Problem) -> Stage:
        weights = arrays.to_numpy(trial.weights)[trial.rows]
        widths = int(np.sum(~self._is_dropped(vector[: len(self.widths)]))) if any(self.ard) else 0
        return Stage(self._loo_residuals(trial, vector), weights, widths)

    # Estimates of the work -------------------------------------------------------------------------------------------
    def first_work(self) -> float:
        """An upper bound of the `work` of the first stage; for dense models and members of a stack, the usual work."""
        rows, basis = stages_of(self.problem)[0]
        if self.member:  # it usually starts from another one
            return self._stage_work(rows, basis, CONSTANTS.transferred + CONSTANTS.early)
        few = rows < CONSTANTS.width_rows * len(self.constant)
        each = CONSTANTS.early if few else CONSTANTS.iterations
        many = each + CONSTANTS.early if any(self.many) and len(self.constant) > 1 else 0
        grid = len(CONSTANTS.widths) * work(min(CONSTANTS.start_rows, len(self.problem.rows)), None, every=True)
        return grid + self._stage_work(rows, basis, 15 + many, paths=2)

    def last_work(self) -> float:
        """The same for the last stage."""
        stages = stages_of(self.problem)
        searches = (len(stages) > 1) + (self.problem.robust is not None)
        steps = 1 if self.member else CONSTANTS.early  # few members are searched again
        most = searches * self._stage_work(*stages[-1], steps)
        if errors_to_choose_by(self.problem, self.loss) is class_errors:
            most += self._stage_work(*stages[-1], CONSTANTS.early, paths=2)
        return most

    def _stage_work(self, rows: int, basis: int | None, steps: int, paths: int = 0) -> float:
        """The work of a stage: robust weights, then gradient steps, and searches over the path of C."""
        rows = min(rows, len(self.problem.rows))
        weighted = 0 if self.problem.robust is None else 1 + self.problem.robust.iterations
        return (
            steps * self._step_work(rows, basis) + weighted * work(rows, basis) + paths * work(rows, basis, every=True)
        )

    def _step_work(self, rows: int, basis: int | None) -> float:
        """The work of one evaluation with its gradient."""
        return work(rows, basis) + gradient_work(rows, basis, len(self.spread))
