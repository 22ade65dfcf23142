"""The search for the widths of one kernel, stage by stage.

One long file, because all stages share the state of one class.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import optimize
from sklearn.utils import Bunch

from .. import arrays
from ..arrays import NumericalError
from ..problem import (
    Problem,
    column_spread,
    constant_columns,
)
from ..progress import gradient_work, work
from .penalty import best_C, kernel_variance, mean_weight, search_weights
from .plan import PLAN
from .samples import comparison_of, sample_of, stages_of
from .scores import class_errors, error_rate, errors_to_choose_by, validation_loss

if TYPE_CHECKING:
    from .steps import LeaveOneOut

minimize: Any = optimize.minimize  # its stubs know neither bounds nor options together


class Search:
    """The search for the widths of one kernel, and for C if it is None.

    The search vector contains the log widths, in units of the spreads of the columns, leaf by leaf (one per leaf or one
    per column), followed by log C. A `trial` is the problem on a sample of rows, with a part of the basis.
    """

    def __init__(self, problem: Problem, step: LeaveOneOut, record: Bunch) -> None:
        self.original = self.problem = problem
        if not problem.classification:
            y, rows = arrays.to_numpy(problem.y), problem.rows
            deviation = y - y[rows].mean(axis=0)
            unit = float(np.max(np.abs(deviation[rows]), initial=0.0)) or 1.0
            self.problem = problem.replace(y=arrays.like(deviation / unit, problem.y))  # squares cannot overflow
        self.method = "gradient" if step.search == "auto" else step.search
        self.record = record
        self.spread = column_spread(problem)
        self.constant = constant_columns(problem)
        self.free = [leaf.sigma is None for leaf in problem.kernel.leaves]
        self.many = [bool(leaf.ard) for leaf in problem.kernel.leaves]  # one width per column is allowed
        self.ard = [False] * len(self.many)  # one width per column is in use
        self.value = math.inf
        self.done = 0
        self.dropped = np.empty(0, dtype=bool)  # widths of dropped columns
        self.decided = 0  # number of rows on which columns were dropped
        self.given_up: tuple[np.ndarray, int] | None = None  # rejected widths per column, and the number of rows
        self.own = True  # whether the widths come from a search with this kernel
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
            sigmas.append(widths * leaf.width_unit(self.spread) if free else leaf.sigma)
            place += size
        return trial.replace(kernel=trial.kernel.with_widths(sigmas), C=C)

    def _at_vector(self, logs: np.ndarray, trial: Problem) -> Problem:
        """The trial problem with the widths and C of a vector."""
        return self._at(logs, trial, trial.C if self.problem.C is not None else math.exp(logs[-1]))

    def _sizes(self) -> list[int]:
        """The number of free widths of each leaf: none, one or one per column."""
        d = len(self.spread)
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
                spread = PLAN.width_prior * max(1.0, rows / (PLAN.width_rows * max(len(kept), 1)))
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
            gradient.extend([] if not free else row if size > 1 else [row.sum()])
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
        y, weights = (arrays.to_numpy(a)[factor.rows] for a in (trial.y, trial.weights))
        if self.by_log_loss:
            value = math.log(validation_loss(trial, y, loo, weights))
        else:
            value = math.log(float(np.sum(weights @ loo**2)) or arrays.EPS)
        return value - self._unit(trial) + self._prior(logs, len(trial.rows))[0]

    def _unit(self, trial: Problem) -> float:
        """log of the weighted sum of squares about the mean: so that units do not affect the stopping rule."""
        if self.by_log_loss:
            return 0.0
        y, weights = (arrays.to_numpy(a)[trial.rows] for a in (trial.y, trial.weights))
        deviation = y - weights @ y / weights.sum()
        largest = float(weights.max())
        return math.log(float(np.sum((weights / largest) @ deviation**2)) or 1.0) + math.log(largest)

    # Estimates of the work -------------------------------------------------------------------------------------------
    def first_work(self, has_stage: bool, compared: bool) -> float:
        """An upper bound of the `work` of the coarse grid, the first stage and a comparison with other kernels."""
        many = PLAN.iterations[0] + PLAN.early if any(self.many) and len(self.spread) > 1 else 0
        most = len(PLAN.widths) * work(min(PLAN.start_rows, len(self.problem.rows)), None, every=True)
        if has_stage:
            most += self._stage_work(*stages_of(self.problem)[0], 15 + many, paths=2)
        if compared:
            most += self._stage_work(*comparison_of(self.problem), 15)
        return most

    def later_work(self) -> float:
        """The same for the later stages; for dense models of the usual number of steps, not the maximum."""
        stages = stages_of(self.problem)
        later = sum(
            self._stage_work(*stage, most) for stage, most in zip(stages[1:], PLAN.iterations[1:], strict=False)
        )
        if self.problem.robust is not None:
            later += self._stage_work(*stages[-1], PLAN.early)
        if errors_to_choose_by(self.problem, self.loss) is class_errors:
            later += self._stage_work(*stages[-1], PLAN.early, paths=2)
        return later

    def _stage_work(self, rows: int, basis: int | None, steps: int, paths: int = 0) -> float:
        """The work of a stage: robust weights, then gradient steps, and searches over the path of C."""
        rows = min(rows, len(self.problem.rows))
        step = work(rows, basis) + gradient_work(rows, basis, len(self.spread))
        weighted = 0 if self.problem.robust is None else 1 + self.problem.robust.iterations
        return steps * step + weighted * work(rows, basis) + paths * work(rows, basis, every=True)

    # Stages ----------------------------------------------------------------------------------------------------------
    def start(self) -> None:
        """Start from the best common width of a coarse grid on a small sample, and its C."""
        scores = self._grid(np.zeros(sum(self._sizes())))
        self.moderate = min(scores[: len(PLAN.widths) // 2 + 1])[1]
        self.value, log_width, self.C = min(scores)
        # identical leaves that start from the same width have the same gradient, and would stay identical
        free = [repr(leaf) for leaf, is_free in zip(self.problem.kernel.leaves, self.free, strict=True) if is_free]
        places = [free[:i].count(leaf) - (free.count(leaf) - 1) / 2.0 for i, leaf in enumerate(free)]
        self.widths = log_width + math.log(4.0) * np.array(places)

    def start_from(self, other: Search) -> None:
        """Start from the search of another kernel: keep the ratios of its widths, and choose their common factor."""
        self.ard, self.dropped, self.decided, self.done = other.ard, other.dropped.copy(), other.decided, other.done
        self.given_up, self.own = other.given_up, False
        dropped = other._dropped_widths()
        shape = np.where(
            dropped, PLAN.dropped_width, other.widths - (other.widths[~dropped].mean() if not dropped.all() else 0.0)
        )
        self.value, log_width, self.C = min(self._grid(shape))
        self.widths = np.where(dropped, PLAN.dropped_width, shape + log_width)

    def _grid(self, shape: np.ndarray) -> list[tuple[float, float, float]]:
        """Value, log factor and C for common factors of widths with given ratios, on a small sample."""
        sample = self.problem.subset(sample_of(self.problem, PLAN.start_rows))
        if not self.problem.is_dual:
            sample = sample.with_basis()
        kept = shape < PLAN.dropped_width
        unit = math.log(max(kept.sum() if any(self.ard) else np.sum(~self.constant), 1)) / 2.0
        scores: list[tuple[float, float, float]] = []

        def score(log_width: float) -> float:
            logs = np.where(kept, shape + log_width, shape)
            C, value = best_C(self._at(logs, sample, sample.C))
            self.record.evaluations += 1
            scores.append((value, log_width, C))
            return value

        for width in PLAN.widths:
            score(math.log(width) + unit)
        if self.method == "grid":
            step = math.log(PLAN.widths[1] / PLAN.widths[0])
            bounds = (min(scores)[1] - step, min(scores)[1] + step)
            optimize.minimize_scalar(score, bounds=bounds, method="bounded", options={"maxiter": 10, "xatol": 0.05})
        self.record.plan.append(f"grid of {len(PLAN.widths)} common widths on {len(sample.rows)} rows")
        return scores

    def stages(self, end: int | None = None) -> None:
        """Run the remaining stages, up to (not including) number `end`."""
        if self.method != "grid":
            for number in range(self.done, len(stages_of(self.problem)) if end is None else end):
                self.stage(number)

    def stage(self, number: int) -> None:
        """Run one stage of the search."""
        rows, basis = stages_of(self.problem)[number]
        trial = self._trial(rows, basis)
        if number == 0:
            self._first_stage(trial)
        else:
            most = PLAN.iterations[0 if trial.is_dual else number]
            self._refine(trial, self._at_most(trial, most))
            if trial.is_dual and self._drop_columns(trial):
                self.value = self._minimise(trial, self._at_most(trial, most))
        self.done = max(self.done, number + 1)
        kind = "rows" if trial.is_dual else f"rows and {trial.basis_size} basis points"
        widths = "1 width" if len(self.widths) == 1 else f"{len(self.widths)} widths"
        self.record.plan.append(f"{widths} by {self.method} on {len(trial.rows)} {kind}")

    def _at_most(self, trial: Problem, iterations: int) -> int:
        """The number of iterations, reduced if there are few samples per width."""
        return iterations if len(trial.rows) >= PLAN.width_rows * np.sum(~self._dropped_widths()) else PLAN.early

    def _refine(self, trial: Problem, iterations: int) -> bool:
        """Search from the current widths; drops and rejections made on at most half as many rows are reconsidered.

        Returns True if every column was examined again.
        """
        dropped = self._dropped_widths()
        again = bool(len(trial.rows) >= 2 * self.decided and (dropped & ~self._constants()).any() and not dropped.all())
        if again:
            wide = min(self.widths[~dropped].max() + 1.0, PLAN.width_bound)
            self.dropped = self._constants()
            self.widths = np.where(dropped & ~self.dropped, wide, self.widths)
        self.value = self._minimise(trial, iterations)
        value = self._try_dropping(trial, dropped, self.value) if again else None
        if value is not None:  # usually they are dropped again
            self.value, again = value, False
        elif again and self._drop_columns(trial):
            self.value = self._minimise(trial, iterations)
        if self.given_up is not None and len(trial.rows) >= 2 * self.given_up[1]:
            self._try_many(trial, self.given_up[0], PLAN.again)
        return again

    def compare(self, lowest: float) -> None:
        """Evaluate this kernel on the comparison sample; `lowest` is the lowest value of the other kernels."""
        trial = self._trial(*comparison_of(self.problem))
        dense = self.problem.is_dual or arrays.on_accelerator(self.problem.X)
        if dense or not self.own:  # otherwise a common factor of the widths gains nothing
            self.value = self._minimise(trial, 5, together=True)
            if self.own or self.value >= lowest + PLAN.hopeless:
                return
        again = self._refine(trial, 5)
        if not again and self._drop_columns(trial):
            self.value = self._minimise(trial, 5)

    def challenge(self, value: float) -> bool:
        """Whether this kernel attains a lower value than `value` in the last stage."""
        if self.method == "grid":
            return False
        trial = self._trial(*stages_of(self.problem)[-1])
        self.value = self._value(self._vector(), trial)
        if self.value < value + PLAN.within_reach:
            self.value = self._minimise(trial, 3, together=True)
        return self.value < value

    def _trial(self, rows: int, basis: int | None) -> Problem:
        """The problem on a sample of rows with a part of the basis; robust weights are those of the current setting."""
        trial = self.problem.subset(sample_of(self.problem, rows))
        if basis is not None:
            draw = np.random.RandomState(0)
            if trial.is_dual:
                trial = trial.with_basis(draw.permutation(trial.rows)[:basis])
            else:
                part = np.sort(draw.permutation(trial.basis_size)[:basis])
                trial = trial.with_basis(points=arrays.take(trial.points, part))
        if trial.robust is not None:
            trial = trial.replace(weights=search_weights(self._at_vector(self._vector(), trial)), robust=None)
        return trial

    def _first_stage(self, trial: Problem) -> None:
        """Search the common widths, then try one width per column."""
        self._choose_C(trial)
        self.value = self._minimise(trial, 15)
        sizes = [len(self.spread) if many else 1 for many, free in zip(self.many, self.free, strict=True) if free]
        if sum(sizes) == len(self.widths):
            self.ard = self.many
            return
        # A very wide common width with a large C amounts to a polynomial. If most columns are irrelevant, this is the
        # best that a common width can do, and the search rarely leaves it: widths per column start from a moderate one.
        self._try_many(trial, np.repeat(self._moderate_widths(), sizes), PLAN.iterations[0])

    def _moderate_widths(self) -> np.ndarray:
        """The widths, scaled down so that the widest is moderate."""
        return self.widths - max(max(self.widths) - self.moderate, 0.0)

    def _constants(self) -> np.ndarray:
        """Which widths belong to constant columns, which are dropped from the start."""
        parts = [self.constant if size > 1 else np.zeros(size, dtype=bool) for size in self._sizes()]
        return np.concatenate([np.zeros(0, dtype=bool), *parts])  # a kernel may have no widths at all

    def _try_many(self, trial: Problem, widths: np.ndarray, iterations: int) -> None:
        """Search one width per column from the given widths, and keep them if the gain is large enough."""
        common = self.widths, self.C, self.value
        errors = self._errors(trial)
        self.ard = self.many
        self.dropped = self._constants()
        self.widths = np.where(self.dropped, PLAN.dropped_width, widths)
        self._choose_C(trial)
        self.value = self._minimise(trial, iterations)
        if self._drop_columns(trial):
            self.value = self._minimise(trial, self._at_most(trial, PLAN.iterations[0]))
        rows = len(trial.rows)
        gain = common[2] - (self.value - self._prior(self._vector(), rows)[0])
        worth = gain >= PLAN.worth * (np.sum(~self._constants()) - len(common[0])) / rows
        if trial.classification:
            worth &= errors - self._errors(trial) >= max(1.0, 2.0 * math.sqrt(errors))
        self.given_up = None if worth else (np.minimum(self.widths, PLAN.width_bound), rows)
        if not worth:
            self.widths, self.C, self.value = common
            self.ard = [False] * len(self.many)
            self.dropped = np.zeros(len(self.widths), dtype=bool)
            self.record.plan.append(f"one common width: one per column gains too little on {rows} rows")

    def _choose_C(self, trial: Problem) -> None:
        """Choose C for the current widths: the best C of another sample may be far off."""
        if self.problem.C is None:
            self.C = best_C(self._at(self.widths, trial))[0]

    def _errors(self, trial: Problem) -> float:
        """The number of rows that leave-one-out misclassifies; 0 for regression."""
        if not trial.classification:
            return 0.0
        factor = self._at_vector(self._vector(), trial).factorise(quick=True)
        loo = arrays.to_numpy(factor.system.solution(1.0 / factor.C, careful=False).loo_residuals)
        y, weights = (arrays.to_numpy(a)[factor.rows] for a in (trial.y, trial.weights))
        return len(factor.rows) * error_rate(y, loo, weights)

    def _dropped_widths(self) -> np.ndarray:
        """Which widths belong to dropped columns; none while the columns share a width."""
        return self.dropped if len(self.dropped) == len(self.widths) else np.zeros(len(self.widths), dtype=bool)

    def _drop_columns(self, trial: Problem) -> bool:
        """Drop the columns that do not contribute; returns whether any was dropped.

        The widest columns are tried together, then by halves, then one by one, until `PLAN.stayed` in a row are needed.
        """
        if sum(self._sizes()) <= len(self.free) or self.dropped.all():
            return False
        before, value = int(self.dropped.sum()), self.value
        candidates = np.argsort(-self.widths)[before:]
        middle = 0.5 * (self.widths[candidates[0]] + self.widths[candidates[-1]])
        size = int(np.sum(self.widths[candidates] >= middle))
        kept = 0
        while len(candidates) and kept < PLAN.stayed:
            new_value = self._try_dropping(trial, candidates[:size], value)
            if new_value is not None:
                value, kept, candidates = min(value, new_value), 0, candidates[size:]
            elif size == 1:
                kept += 1
                candidates = candidates[1:]
            size = max(1, size // 2)
        return int(self.dropped.sum()) > before

    def _try_dropping(self, trial: Problem, columns: np.ndarray, value: float) -> float | None:
        """Drop columns if log PRESS rises from `value` by less than 2 log(rows)/rows: the new value, or None."""
        logs = self._vector()
        logs[: len(self.widths)][columns] = PLAN.dropped_width
        new_value = self._value(logs, trial)
        if new_value - value >= 2.0 * math.log(len(trial.rows)) / len(trial.rows):
            return None
        self.widths[columns], self.dropped[columns] = PLAN.dropped_width, True
        self.decided = max(self.decided, len(trial.rows))
        return new_value

    def _minimise(self, trial: Problem, iterations: int, *, together: bool = False) -> float:
        """Move the widths (with `together`, only by a common factor) and C to a local minimum of the objective."""
        start, dropped = self._vector(), self._dropped_widths()
        if not len(start):  # nothing to choose: a kernel of a `Choice`
            return self._value(start, trial)
        moves = np.eye(len(start))  # from the search variables to the vector
        middle = math.log(kernel_variance(self._at_vector(start, trial)) * mean_weight(trial))
        bounds = [
            (PLAN.dropped_width, PLAN.dropped_width) if fixed else (-PLAN.width_bound, PLAN.width_bound)
            for fixed in dropped
        ]
        if self.problem.C is None:
            bounds.append((-math.log(PLAN.ridges[-1]) - middle, -math.log(PLAN.ridges[0]) - middle))
        start = np.clip(start, *np.array(bounds).T)
        if together:
            moves = np.vstack([np.append(~dropped, np.zeros(len(start) - len(dropped))), moves[len(dropped) :]]).T
        bounds = [(low - at, high - at) for (low, high), at in zip(bounds, start, strict=True)]
        if together:
            bounds = [(-3.0, 3.0), *bounds[len(dropped) :]]

        def objective(step: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = self._objective(start + moves @ step, trial)
            return value, moves.T @ gradient

        zero = np.zeros(moves.shape[1])
        if self.method == "simplex":
            found = minimize(
                lambda step: self._value(start + moves @ step, trial),
                zero,
                method="Nelder-Mead",
                bounds=bounds,
                options={"maxfev": 40 * len(zero), "xatol": 1e-2, "fatol": 1e-4},
            )
        else:
            options = {"maxiter": iterations, "ftol": PLAN.flatness / len(trial.rows)}
            found = minimize(objective, zero, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        logs = start + moves @ found.x
        self.widths = logs if self.problem.C is not None else logs[:-1]
        self.C = self.C if self.problem.C is not None else math.exp(logs[-1])
        return float(found.fun)

    def finish(self) -> Problem:
        """Run the remaining stages; returns the problem with widths and C."""
        self.stages()
        if self.problem.robust is not None and self.method != "grid":  # with the weights of the result so far
            self._refine(self._trial(*stages_of(self.problem)[-1]), PLAN.early)
        if errors_to_choose_by(self.problem, self.loss) is class_errors:
            self._settle()
        return self._at_vector(self._vector(), self.original)

    def _settle(self) -> None:
        """Minimise the log loss of classes over a common factor of the widths and C, in the last stage.

        A very wide common width is compared with the moderate one: the leave-one-out error has several minima, and on
        few rows the very wide one often looks as good as any other.
        """
        trial = self._trial(*stages_of(self.problem)[-1])
        starts = [self.widths]
        if not any(self.ard) and self.moderate < max(self.widths, default=-math.inf) - 0.5:
            starts.append(self._moderate_widths())
        found = [best_C(self._at(widths, trial, trial.C), class_errors) for widths in starts]
        self.record.evaluations += len(found)
        best = int(np.argmin([loss for _, loss in found]))
        self.widths, self.C = starts[best], found[best][0]
        if self.method != "grid":
            self.by_log_loss = True
            self._minimise(trial, PLAN.early, together=True)
            self.by_log_loss = False
        self.record.plan.append("common factor of the widths and C by the log loss of the classes")
