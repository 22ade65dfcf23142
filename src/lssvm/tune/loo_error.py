"""The criterion of least squares: the leave-one-out error of a sample of rows."""

from __future__ import annotations

import math

import numpy as np
from sklearn.utils import Bunch

from .. import arrays
from ..arrays import EPS
from ..problem import Factor, Problem
from .choose_C import range_of_log_C
from .constants import CONSTANTS
from .scores import error_rate, validation_loss
from .widths import Candidate


class LooError:
    """rows/2 * log(PRESS / scatter of the targets), minus the log likelihood of normal leave-one-out residuals.

    With `by_log_loss`, rows/2 * log of the mean log loss of the leave-one-out decision values of classes.
    """

    def __init__(self, problem: Problem, unit: np.ndarray, record: Bunch, *, by_log_loss: bool = False) -> None:
        self.problem, self.unit, self.record, self.by_log_loss = problem, unit, record, by_log_loss
        self.width_prior, self.scale = CONSTANTS.width_prior, 0.5 * len(problem.rows)
        self.scatter = 0.0 if by_log_loss else problem.log_scatter
        _ = problem.rows_by_content  # computed once; its copies keep it

    def gradient(self, candidate: Candidate) -> tuple[float, np.ndarray, float]:
        value, in_widths, in_C = self._factor(candidate).criterion(classes=self.by_log_loss)
        return self.scale * (value - self.scatter), self.scale * arrays.to_numpy(in_widths), self.scale * in_C

    def value(self, candidate: Candidate) -> float:
        return self.value_of(self.residuals(candidate))

    def value_of(self, loo: np.ndarray) -> float:
        """The criterion from the leave-one-out residuals."""
        y, weights = self.targets()
        if self.by_log_loss:
            return self.scale * math.log(validation_loss(self.problem, y, loo, weights))
        return self.scale * (math.log(float(np.sum(weights @ loo**2)) or EPS) - self.scatter)

    def residuals(self, candidate: Candidate) -> np.ndarray:
        """The leave-one-out residuals of the rows with positive weight."""
        factor = self._factor(candidate)
        return np.asarray(arrays.to_numpy(factor.system.solution(1.0 / factor.C, careful=False).loo_residuals))

    def errors(self, candidate: Candidate) -> float:
        """The number of rows that leave-one-out misclassifies; 0 for regression."""
        if not self.problem.classification:
            return 0.0
        y, weights = self.targets()
        return len(y) * error_rate(y, self.residuals(candidate), weights)

    def targets(self) -> tuple[np.ndarray, np.ndarray]:
        """The targets and weights of the rows with positive weight."""
        rows = self.problem.rows
        return arrays.to_numpy(self.problem.y)[rows], arrays.to_numpy(self.problem.weights)[rows]

    def range_of_C(self, candidate: Candidate) -> tuple[float, float]:
        return range_of_log_C(self.problem.replace(kernel=candidate.kernel))

    def _factor(self, candidate: Candidate) -> Factor:
        self.record.evaluations += 1
        return self.problem.replace(kernel=candidate.kernel, C=candidate.C).factorise(quick=True)
