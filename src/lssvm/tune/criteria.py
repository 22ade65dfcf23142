"""The criteria of a search: the leave-one-out error or deviance, or the log loss of leave-one-out values.

All are negative log likelihoods of the leave-one-out predictions of a sample of rows.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import log_softmax
from sklearn.utils import Bunch

from .. import arrays, progress
from ..arrays import EPS, NumericalError
from ..coding import pair_losses, pair_rows, pairs_of, smoothed_targets, softmax_slope
from ..kernels import Kernel
from ..losses import LOSSES
from ..problem import Problem
from ..system import BatchedPairs, BinaryProblem
from .choose_C import error_rate, mean_loss, ridge_unit
from .constants import CONSTANTS, constants
from .widths import FAILED, Candidate, Criterion

SLOPE_STEPS = 12  # Newton's method for the slope takes at most this many steps.
SLOPE_ACCURACY = 1e-3  # The log slope is this accurate; the error of the loss is of the order of the square.
SLOPES = (-3.0, 6.0)  # The log slopes are in this range.
SLOPE_CENTRE = 0.5  # The prior on the log slope has this mean.
C_CENTRE = math.log(30.0)  # The prior on log C has this mean.
C_SPREAD = 3.0  # The priors on log C and on the log slope have this standard deviation.
C_RANGE = (-12.0, 23.0)  # The values of log C are in this range.
SMALLEST = 1e-100  # A constant kernel has no variance.
VARIANCE_CENTRE = 1.0  # The prior on the log variance of log means has this mean,
VARIANCE_SPREAD = 1.2  # and this standard deviation: log means rarely vary by more than a few units.


class LooError(Criterion):
    """rows/2 * log(PRESS / scatter of the targets), minus the log likelihood of normal leave-one-out residuals.

    With `by_log_loss`, it is rows/2 times the logarithm of the mean log loss of the leave-one-out decision values of
    classes.
    """

    def __init__(self, problem: Problem, unit: np.ndarray, record: Bunch, *, by_log_loss: bool = False) -> None:
        self.problem, self.unit, self.record, self.by_log_loss = problem, unit, record, by_log_loss
        self.width_prior, self.scale = CONSTANTS.width_prior, 0.5 * len(problem.rows)
        self.y, self.weights = (arrays.to_numpy(a)[problem.rows] for a in (problem.y, problem.weights))
        largest, deviation = float(self.weights.max()), self.y - self.weights @ self.y / self.weights.sum()
        squares = float(np.sum((self.weights / largest) @ deviation**2)) or 1.0  # Weights of any size are safe.
        self.scatter = 0.0 if by_log_loss else math.log(squares) + math.log(largest)
        _ = problem.rows_by_content  # It is computed once, and kept by copies of the problem.

    def gradient(self, candidate: Candidate) -> tuple[float, np.ndarray, float]:
        self.record.evaluations += 1
        factor = self.problem.replace(kernel=candidate.kernel, C=candidate.C).factorise(quick=True)
        value, in_widths, in_C = factor.criterion(classes=self.by_log_loss)
        return self.scale * (value - self.scatter), self.scale * arrays.to_numpy(in_widths), self.scale * in_C

    def value(self, candidate: Candidate) -> float:
        loo = self.residuals(candidate)
        if self.by_log_loss:
            return self.scale * math.log(mean_loss(self.problem, loo, self.weights, self.y))
        return self.scale * (math.log(float(np.sum(self.weights @ loo**2)) or EPS) - self.scatter)

    def residuals(self, candidate: Candidate) -> np.ndarray:
        """Return the leave-one-out residuals of the rows with positive weight."""
        self.record.evaluations += 1
        factor = self.problem.replace(kernel=candidate.kernel, C=candidate.C).factorise(quick=True)
        return np.asarray(arrays.to_numpy(factor.system.solution(1.0 / factor.C, careful=False).loo_residuals))

    def errors(self, candidate: Candidate) -> float:
        """Return the number of rows that leave-one-out misclassifies."""
        return len(self.y) * error_rate(self.y, self.residuals(candidate), self.weights)

    def range_of_C(self, candidate: Candidate) -> tuple[float, float]:
        middle = math.log(ridge_unit(self.problem.replace(kernel=candidate.kernel))[0])
        return -math.log(CONSTANTS.ridges[1]) - middle, -math.log(CONSTANTS.ridges[0]) - middle


class LooDeviance(LooError):
    """rows/2 * log of the mean leave-one-out deviance of counts or positive targets, minus the log of a prior.

    The first term is minus the logarithm of the quasi-likelihood with the best dispersion. The prior is that of the
    variance of log means, C times that of the kernel over the rows, which few counts hardly bound: it is log-normal.
    """

    def gradient(self, candidate: Candidate) -> tuple[float, np.ndarray, float]:
        X, (K, binary, fit, value, in_prior, variance) = self.problem.X, self._solved(candidate, inverse=True)
        total = float(self.weights @ binary.loss.value(fit.loo)) or EPS
        slopes = -self.scale / total * self.weights * binary.loss.slope(fit.loo)
        G, in_C = binary.loo_gradient(fit, K, slopes)
        G += in_prior / (variance * len(K)) * (np.eye(len(K)) - 1.0 / len(K))
        return value, candidate.kernel.gradient(X, X, G), in_C + in_prior

    def value(self, candidate: Candidate) -> float:
        return self._solved(candidate)[3]

    def _solved(self, candidate: Candidate, *, inverse: bool = False) -> Any:
        """Return the kernel matrix or whitened columns, the problem, its solution, the value and the prior's slope."""
        self.record.evaluations += 1
        problem = self.problem.replace(kernel=candidate.kernel, C=candidate.C)
        (inputs, whitening), binary = problem.binary_inputs(), problem.binary()
        fit = binary.solve(inputs, dual=whitening is None, inverse=inverse)
        if problem.row_groups is not None:
            fit = replace(fit, loo=problem.without_groups(fit.decision))
        mean = float(self.weights @ binary.loss.value(fit.loo) / self.weights.sum()) or EPS
        if not 0.0 < mean < math.inf:
            raise NumericalError("The leave-one-out deviance is not positive and finite.")
        variance = float(np.var(inputs, axis=0).sum() if whitening else inputs.diagonal().mean() - inputs.mean())
        variance = max(variance, SMALLEST)
        deviation = math.log(candidate.C * variance) - VARIANCE_CENTRE
        value = self.scale * math.log(mean) + 0.5 * (deviation / VARIANCE_SPREAD) ** 2
        return inputs, binary, fit, value, deviation / VARIANCE_SPREAD**2, variance


class BinaryTargets:
    """The binary problems of classes, and the log loss of their leave-one-out values."""

    def __init__(self, codes: np.ndarray, weights: np.ndarray, n_classes: int, by_pairs: bool) -> None:
        self.codes, self.weights, self.by_pairs = codes, weights, by_pairs
        classes = np.arange(n_classes)
        others = classes[None, :-1] + (classes[None, :-1] >= classes[:, None])  # (classes, classes - 1)
        self.opponents = others[codes]
        self.signs = -np.ones(self.opponents.shape)
        if by_pairs:
            self.signs[self.opponents < codes[:, None]] = 1.0
            self.columns = pair_rows(codes, n_classes)
            number = np.zeros((n_classes, n_classes), dtype=int)
            for place, (a, b) in enumerate(pairs_of(n_classes)):
                number[a, b] = number[b, a] = place
            self.opponents = np.take_along_axis(number, others, axis=1)[codes]
        else:
            self.columns = [(np.arange(len(codes)), np.where(codes == c, 1.0, -1.0)) for c in classes]
        self.pairs = BatchedPairs(self.columns, weights)
        self.log_slope = SLOPE_CENTRE  # The next search for a slope starts here.

    def score(self, values: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the loss of leave-one-out values with the best slope, and its derivatives in these values.

        The margins of a row against the other classes are the signed values of the pairs of its class, or differences
        of the values of its class and the others. Newton's method runs in the log slope; by the envelope theorem, the
        slope does not contribute to the derivatives.
        """
        own = 0.0 if self.by_pairs else np.take_along_axis(values, self.codes[:, None], axis=1)
        margins = own + self.signs * np.take_along_axis(values, self.opponents, axis=1)
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
            first = float(weights @ mean) + deviation / C_SPREAD**2
            square = np.einsum("ij,ij,ij->i", shares, logits, logits) - mean**2
            second = float(weights @ (mean + square)) + 1.0 / C_SPREAD**2
            step = -first / second if second > 0.0 else -math.copysign(1.0, first)
            step = min(max(step, -1.0, SLOPES[0] - log_slope), 1.0, SLOPES[1] - log_slope)
            if abs(step) < SLOPE_ACCURACY:
                break
            log_slope += step
        self.log_slope = log_slope
        value = float(weights @ (top + np.log(total))) + 0.5 * (deviation / C_SPREAD) ** 2
        in_margins, in_values = -slope * weights[:, None] * shares, np.zeros(values.shape)
        np.put_along_axis(in_values, self.opponents, self.signs * in_margins, axis=1)
        if not self.by_pairs:
            np.put_along_axis(in_values, self.codes[:, None], in_margins.sum(axis=1, keepdims=True), axis=1)
        return value, in_values


class LooLogLoss(Criterion):
    """The log loss of a sample, minus the log of the prior on C; the coding and the loss are those of the candidate.

    The log loss is

        sum_i w_i log(1 + sum_b exp(-s V_ib)),

    where V_ib is the leave-one-out value of row i for the pair of its class and class b, positive if it is correct, and
    s the best slope. Priors on C and the slope keep both finite for separable classes.
    """

    def __init__(self, problem: Problem, unit: np.ndarray) -> None:
        self.problem, self.unit, self.evaluations = problem, unit, 0
        self.varying = len(np.unique(problem.inputs[np.isfinite(unit)]))  # These inputs have a varying column.
        self.codes, self.weights = problem.labels, arrays.to_numpy(problem.weights)
        self.n_classes = max(2, problem.y.shape[1])
        self.width_prior, self.iterations = CONSTANTS.class_width_prior, constants(problem.effort).few_iterations
        self.scale, self.noise = len(self.codes) / 8.0, 0.2  # A sum of log losses has a standard error above 1.
        self.warm: dict[tuple[str, str], Any] = {}  # Newton's method starts from these decision values.
        self._targets: dict[bool, BinaryTargets] = {}
        self._matrix: tuple[Kernel | None, np.ndarray] = (None, np.empty(0))
        self._latest: tuple[Candidate | None, Any] = (None, None)  # This is the solution for the last gradient.

    def targets(self, coding: str) -> BinaryTargets:
        """Return the binary problems of a coding. With two classes there is one, whatever the coding."""
        by_pairs = coding == "one-vs-one" or self.n_classes == 2
        if by_pairs not in self._targets:
            self._targets[by_pairs] = BinaryTargets(self.codes, self.weights, self.n_classes, by_pairs)
        return self._targets[by_pairs]

    def work(self) -> float:
        """Return a measure of the work of one evaluation."""
        return float(len(self.codes)) * float(self.problem.basis_size) ** 2

    def matrix(self, kernel: Kernel) -> np.ndarray:
        """Return the kernel matrix of the rows, or the whitened columns of a smaller basis, and count an evaluation."""
        if self._matrix[0] is not kernel:  # The same kernel may come with several values of C.
            self.evaluations += 1
            progress.did(self.work)
            self._matrix = kernel, arrays.to_numpy(self.problem.replace(kernel=kernel).binary_inputs()[0])
        return self._matrix[1]

    def range_of_C(self, candidate: Candidate) -> tuple[float, float]:
        return C_RANGE

    def value(self, candidate: Candidate) -> float:
        try:
            loss = self.targets(candidate.coding).score(self.loo_values(candidate))[0]
        except NumericalError:
            return FAILED
        return loss + 0.5 * ((math.log(candidate.C) - C_CENTRE) / C_SPREAD) ** 2

    def losses(self, candidate: Candidate) -> np.ndarray:
        """Return the weighted log loss of every row, with the best slope and the targets of Platt (1999)."""
        codes, weights, n_classes = self.codes, self.weights, self.n_classes
        try:
            values = self.loo_values(candidate)
        except NumericalError:
            return np.full(len(codes), FAILED)
        if candidate.coding == "one-vs-one" and n_classes > 2:
            found = pair_losses(values, codes, weights, n_classes)[1]
        else:
            f = np.column_stack([0.0 * values, values]) if n_classes == 2 else values
            aims = smoothed_targets(codes, weights, n_classes)
            found = -np.sum(aims * log_softmax(softmax_slope(f, aims, weights) * f, axis=1), axis=1)
        return np.asarray(found * weights / weights.mean())

    def loo_values(self, candidate: Candidate) -> np.ndarray:
        """Return leave-one-out values, and decision values of rows that are not part of a binary problem."""
        targets, K, C, loss = self.targets(candidate.coding), self.matrix(candidate.kernel), candidate.C, candidate.loss
        place = candidate.coding, loss
        if not self.problem.is_dual:  # There are two classes, and the whitened columns of a smaller basis.
            [(_, t)] = targets.columns
            fit = BinaryProblem(t, self.weights, C, LOSSES[loss], self.warm.get(place), 1e-4).solve(K, dual=False)
            self.warm[place] = fit.decision
            return fit.loo[:, None]
        latest, solved = self._latest
        if candidate != latest:
            solved = targets.pairs.solve(K, C, LOSSES[loss], self.warm.get(place))
            self.warm[place] = solved.decision
        values = K @ solved.coef + solved.intercept[None, :]
        for number, (own, _) in enumerate(targets.columns):
            values[own, number] = solved.loo[own, number]
        return values

    def gradient(self, candidate: Candidate) -> tuple[float, np.ndarray, float]:
        K, X = self.matrix(candidate.kernel), self.problem.X
        targets, place = self.targets(candidate.coding), (candidate.coding, candidate.loss)
        solved = targets.pairs.solve(K, candidate.C, LOSSES[candidate.loss], self.warm.get(place), with_gradient=True)
        self.warm[place], self._latest = solved.decision, (candidate, solved)
        value, in_values = targets.score(solved.loo)
        G, in_C = solved.gradient(in_values)
        in_widths = arrays.to_numpy(candidate.kernel.gradient(X, X, arrays.like(G, X)))
        deviation = math.log(candidate.C) - C_CENTRE
        return value + 0.5 * (deviation / C_SPREAD) ** 2, in_widths, in_C + deviation / C_SPREAD**2
