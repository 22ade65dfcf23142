"""The search of the widths of one kernel, stage by stage."""

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
    """The search of one kernel's widths, and of C where it is None.

    The vector of the search holds the logarithms of the multiples of the columns' spread, leaf by leaf (one, or one a
    column), then that of C.
    """

    def __init__(self, problem: Problem, step: LeaveOneOut, record: Bunch) -> None:
        self.original = self.problem = problem
        if not problem.classification:
            y, rows = arrays.to_numpy(problem.y), problem.rows
            deviation = y - y[rows].mean(axis=0)
            unit = float(np.max(np.abs(deviation[rows]), initial=0.0)) or 1.0
            self.problem = problem.replace(y=arrays.like(deviation / unit, problem.y))  # squares of any unit in range
        self.method = "gradient" if step.search == "auto" else step.search
        self.record = record
        self.spread = column_spread(problem)
        self.constant = constant_columns(problem)
        self.free = [leaf.sigma is None for leaf in problem.kernel.leaves]
        self.many = [bool(leaf.ard) for leaf in problem.kernel.leaves]  # may have a width a column
        self.ard = [False] * len(self.many)  # has now
        self.value = math.inf
        self.done = 0
        self.out = np.empty(0, dtype=bool)  # widths of columns that are left out
        self.decided = 0  # rows by which they were
        self.given_up: tuple[np.ndarray, int] | None = None  # widths of columns that were not worth it, on so many rows
        self.own = True  # whether the widths come of a search of this kernel
        self.widths = np.empty(0)
        self.moderate = math.inf  # logarithm of the best common width that is not very wide
        self.C = problem.C or 1.0
        self.loss = step.loss
        self.by_log_loss = False  # squares lead the search, for classes a log loss ends it

    # Vectors ---------------------------------------------------------------------------------------------------------
    def _at(self, logs: np.ndarray, machine: Problem, C: float | None = None) -> Problem:
        """The machine with the widths of a vector, and with C if given."""
        sigmas, place = [], 0
        for leaf, free, size in zip(machine.kernel.leaves, self.free, self._sizes(), strict=True):
            widths = np.where(logs[place : place + size] < PLAN.without, np.exp(logs[place : place + size]), math.inf)
            sigmas.append(widths * leaf.width_unit(self.spread) if free else leaf.sigma)
            place += size
        return machine.replace(kernel=machine.kernel.with_widths(sigmas), C=C)

    def _at_vector(self, logs: np.ndarray, machine: Problem) -> Problem:
        """The machine with the widths and C of a vector."""
        return self._at(logs, machine, machine.C if self.problem.C is not None else math.exp(logs[-1]))

    def _sizes(self) -> list[int]:
        d = len(self.spread)
        return [0 if not free else d if ard else 1 for free, ard in zip(self.free, self.ard, strict=True)]

    def _vector(self) -> np.ndarray:
        return self.widths if self.problem.C is not None else np.append(self.widths, math.log(self.C))

    def _prior(self, logs: np.ndarray, rows: int) -> tuple[float, np.ndarray]:
        """-2/rows times the logarithm of the normal prior of many widths about their mean."""
        value, gradient, place = 0.0, np.zeros_like(logs), 0
        for size in self._sizes():
            if size > 1:
                kept = place + np.flatnonzero(logs[place : place + size] < PLAN.without)
                deviation = logs[kept] - logs[kept].mean() if len(kept) else logs[kept]
                spread = PLAN.width_prior * max(1.0, rows / (PLAN.width_rows * max(len(kept), 1)))
                value += float(deviation @ deviation) / (spread**2 * rows)
                gradient[kept] = 2.0 * deviation / (spread**2 * rows)
            place += size
        return value, gradient

    def _objective(self, logs: np.ndarray, machine: Problem) -> tuple[float, np.ndarray]:
        """The criterion plus the prior, and its gradient."""
        self.record.evaluations += 1
        prior, prior_gradient = self._prior(logs, len(machine.rows))
        try:
            factor = self._at_vector(logs, machine).factorise(quick=True)
            value, in_widths, in_C = factor.criterion(classes=self.by_log_loss)
        except NumericalError:  # nothing finite there: the line search steps back
            return 1e10, np.zeros_like(logs)
        gradient: list[float] = []
        for row, free, size in zip(arrays.to_numpy(in_widths), self.free, self._sizes(), strict=True):
            gradient.extend([] if not free else row if size > 1 else [row.sum()])
        if self.problem.C is None:
            gradient.append(in_C)
        return value - self._unit(machine) + prior, np.array(gradient) + prior_gradient

    def _value(self, logs: np.ndarray, machine: Problem) -> float:
        """The objective without its gradient."""
        self.record.evaluations += 1
        try:
            factor = self._at_vector(logs, machine).factorise(quick=True)
        except NumericalError:
            return 1e10
        loo = arrays.to_numpy(factor.system.solution(1.0 / factor.C, careful=False).loo_residuals)
        y, weights = (arrays.to_numpy(a)[factor.rows] for a in (machine.y, machine.weights))
        if self.by_log_loss:
            value = math.log(validation_loss(machine, y, loo, weights))
        else:
            value = math.log(float(np.sum(weights @ loo**2)) or arrays.EPS)
        return value - self._unit(machine) + self._prior(logs, len(machine.rows))[0]

    def _unit(self, machine: Problem) -> float:
        """log of the weighted sum of squares about the mean: no unit of targets or weights moves the stopping rule."""
        if self.by_log_loss:
            return 0.0
        y, weights = (arrays.to_numpy(a)[machine.rows] for a in (machine.y, machine.weights))
        deviation = y - weights @ y / weights.sum()
        largest = float(weights.max())
        return math.log(float(np.sum((weights / largest) @ deviation**2)) or 1.0) + math.log(largest)

    # How long it may take --------------------------------------------------------------------------------------------
    def most_at_first(self, has_stage: bool, compared: bool) -> float:
        """What the coarse grid, the first stage and a comparison with other kernels take at most, as in `work`."""
        many = PLAN.iterations[0] + PLAN.early if any(self.many) and len(self.spread) > 1 else 0
        most = len(PLAN.widths) * work(min(PLAN.start_rows, len(self.problem.rows)), None, every=True)
        if has_stage:
            most += self._most(*stages_of(self.problem)[0], 15 + many, paths=2)
        if compared:
            most += self._most(*comparison_of(self.problem), 15)
        return most

    def most_later(self) -> float:
        """The same for what follows; without a basis, the usual number of steps: there may be three times more."""
        stages = stages_of(self.problem)
        later = sum(self._most(*stage, most) for stage, most in zip(stages[1:], PLAN.iterations[1:], strict=False))
        if self.problem.robust is not None:
            later += self._most(*stages[-1], PLAN.early)
        if errors_to_choose_by(self.problem, self.loss) is class_errors:
            later += self._most(*stages[-1], PLAN.early, paths=2)
        return later

    def _most(self, rows: int, basis: int | None, steps: int, paths: int = 0) -> float:
        """So many steps by gradient, robust weights before them, and searches of C, on the machine of a stage."""
        rows = min(rows, len(self.problem.rows))
        step = work(rows, basis) + gradient_work(rows, basis, len(self.spread))
        weighted = 0 if self.problem.robust is None else 1 + self.problem.robust.iterations
        return steps * step + weighted * work(rows, basis) + paths * work(rows, basis, every=True)

    # Stages ----------------------------------------------------------------------------------------------------------
    def start(self) -> None:
        """The best common width of a coarse grid, and its C, on few rows."""
        scores = self._grid(np.zeros(sum(self._sizes())))
        self.moderate = min(scores[: len(PLAN.widths) // 2 + 1])[1]
        self.value, log_width, self.C = min(scores)
        # leaves of one kind that start from one width have one gradient, and would never part
        free = [repr(leaf) for leaf, is_free in zip(self.problem.kernel.leaves, self.free, strict=True) if is_free]
        places = [free[:i].count(leaf) - (free.count(leaf) - 1) / 2.0 for i, leaf in enumerate(free)]
        self.widths = log_width + math.log(4.0) * np.array(places)

    def start_from(self, other: Search) -> None:
        """Begin where the search of another kernel stands: the same columns matter, their common factor is another."""
        self.ard, self.out, self.decided, self.done = other.ard, other.out.copy(), other.decided, other.done
        self.given_up, self.own = other.given_up, False
        out = other._left_out()
        shape = np.where(out, PLAN.without, other.widths - (other.widths[~out].mean() if not out.all() else 0.0))
        self.value, log_width, self.C = min(self._grid(shape))
        self.widths = np.where(out, PLAN.without, shape + log_width)

    def _grid(self, shape: np.ndarray) -> list[tuple[float, float, float]]:
        """Value, logarithm of the factor, and C for common factors of widths of a given shape, on few rows."""
        sample = self.problem.subset(sample_of(self.problem, PLAN.start_rows))
        if not self.problem.is_dual:
            sample = sample.with_basis()
        kept = shape < PLAN.without
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
        self.record.plan.append(f"{len(PLAN.widths)} common widths on {len(sample.rows)} rows")
        return scores

    def stages(self, end: int | None = None) -> None:
        """Search stage by stage, up to number `end`."""
        if self.method != "grid":
            for number in range(self.done, len(stages_of(self.problem)) if end is None else end):
                self.stage(number)

    def stage(self, number: int) -> None:
        """Search on the machine of one stage."""
        rows, basis = stages_of(self.problem)[number]
        machine = self._machine(rows, basis)
        if number == 0:
            self._first_stage(machine)
        else:
            most = PLAN.iterations[0 if machine.is_dual else number]
            self._refine(machine, self._at_most(machine, most))
            if machine.is_dual and self._leave_out(machine):
                self.value = self._minimise(machine, self._at_most(machine, most))
        self.done = max(self.done, number + 1)
        kind = "rows" if machine.is_dual else f"rows and {machine.basis_size} basis points"
        widths = "1 width" if len(self.widths) == 1 else f"{len(self.widths)} widths"
        self.record.plan.append(f"{widths} by {self.method} on {len(machine.rows)} {kind}")

    def _at_most(self, machine: Problem, iterations: int) -> int:
        """So many iterations, or few where the widths have few rows each."""
        return iterations if len(machine.rows) >= PLAN.width_rows * np.sum(~self._left_out()) else PLAN.early

    def _refine(self, machine: Problem, iterations: int) -> bool:
        """Search from where we are; what was left out or given up on half as many rows or fewer is tried again.

        True where every column was asked about then.
        """
        out = self._left_out()
        again = bool(len(machine.rows) >= 2 * self.decided and (out & ~self._constants()).any() and not out.all())
        if again:
            wide = min(self.widths[~out].max() + 1.0, PLAN.width_bound)
            self.out = self._constants()
            self.widths = np.where(out & ~self.out, wide, self.widths)
        self.value = self._minimise(machine, iterations)
        without = self._without(machine, out, self.value) if again else None
        if without is not None:  # as a rule they are left out again
            self.value, again = without, False
        elif again and self._leave_out(machine):
            self.value = self._minimise(machine, iterations)
        if self.given_up is not None and len(machine.rows) >= 2 * self.given_up[1]:
            self._try_many(machine, self.given_up[0], PLAN.again)
        return again

    def compare(self, lowest: float) -> None:
        """The value of this kernel on a machine like the final one; `lowest` is that of others."""
        machine = self._machine(*comparison_of(self.problem))
        dense = self.problem.is_dual or arrays.on_accelerator(self.problem.X)
        if dense or not self.own:  # else a look at a common factor of the widths is no news
            self.value = self._minimise(machine, 5, together=True)
            if self.own or self.value >= lowest + PLAN.hopeless:
                return
        again = self._refine(machine, 5)
        if not again and self._leave_out(machine):
            self.value = self._minimise(machine, 5)

    def challenge(self, value: float) -> bool:
        """Whether this kernel is better on the last machine than a value found there."""
        if self.method == "grid":
            return False
        machine = self._machine(*stages_of(self.problem)[-1])
        self.value = self._value(self._vector(), machine)
        if self.value < value + PLAN.within_reach:
            self.value = self._minimise(machine, 3, together=True)
        return self.value < value

    def _machine(self, rows: int, basis: int | None) -> Problem:
        """The problem on a sample of rows with a part of the basis; robust weights are those of the machine so far."""
        machine = self.problem.subset(sample_of(self.problem, rows))
        if basis is not None:
            draw = np.random.RandomState(0)
            if machine.is_dual:
                machine = machine.with_basis(draw.permutation(machine.rows)[:basis])
            else:
                part = np.sort(draw.permutation(machine.basis_size)[:basis])
                machine = machine.with_basis(points=arrays.take(machine.points, part))
        if machine.robust is not None:
            machine = machine.replace(weights=search_weights(self._at_vector(self._vector(), machine)), robust=None)
        return machine

    def _first_stage(self, machine: Problem) -> None:
        self._choose_C(machine)
        self.value = self._minimise(machine, 15)
        sizes = [len(self.spread) if many else 1 for many, free in zip(self.many, self.free, strict=True) if free]
        if sum(sizes) == len(self.widths):
            self.ard = self.many
            return
        # A very wide common width and a large C are a polynomial: where most columns do not matter that is the best
        # that one width can do, and few steps lead out of it. Many widths start from a moderate one.
        self._try_many(machine, np.repeat(self._moderate_widths(), sizes), PLAN.iterations[0])

    def _moderate_widths(self) -> np.ndarray:
        """The widths, all narrower by the factor that makes the widest moderate."""
        return self.widths - max(max(self.widths) - self.moderate, 0.0)

    def _constants(self) -> np.ndarray:
        """The widths of columns that do not vary, and are left out from the start."""
        parts = [self.constant if size > 1 else np.zeros(size, dtype=bool) for size in self._sizes()]
        return np.concatenate([np.zeros(0, dtype=bool), *parts])  # a kernel may have no widths at all

    def _try_many(self, machine: Problem, widths: np.ndarray, iterations: int) -> None:
        """Search a width a column from there, and take them if they are worth it."""
        common = self.widths, self.C, self.value
        errors = self._errors(machine)
        self.ard = self.many
        self.out = self._constants()
        self.widths = np.where(self.out, PLAN.without, widths)
        self._choose_C(machine)
        self.value = self._minimise(machine, iterations)
        if self._leave_out(machine):
            self.value = self._minimise(machine, self._at_most(machine, PLAN.iterations[0]))
        rows = len(machine.rows)
        gain = common[2] - (self.value - self._prior(self._vector(), rows)[0])
        worth = gain >= PLAN.worth * (np.sum(~self._constants()) - len(common[0])) / rows
        if machine.classification:
            worth &= errors - self._errors(machine) >= max(1.0, 2.0 * math.sqrt(errors))
        self.given_up = None if worth else (np.minimum(self.widths, PLAN.width_bound), rows)
        if not worth:
            self.widths, self.C, self.value = common
            self.ard = [False] * len(self.many)
            self.out = np.zeros(len(self.widths), dtype=bool)
            self.record.plan.append(f"one common width: more are not worth it on {rows} rows")

    def _choose_C(self, machine: Problem) -> None:
        """The best C for the widths as they are: that of another machine may be far from it."""
        if self.problem.C is None:
            self.C = best_C(self._at(self.widths, machine))[0]

    def _errors(self, machine: Problem) -> float:
        """Number of rows whose class is another one when they are left out; 0 for numbers."""
        if not machine.classification:
            return 0.0
        factor = self._at_vector(self._vector(), machine).factorise(quick=True)
        loo = arrays.to_numpy(factor.system.solution(1.0 / factor.C, careful=False).loo_residuals)
        y, weights = (arrays.to_numpy(a)[factor.rows] for a in (machine.y, machine.weights))
        return len(factor.rows) * error_rate(y, loo, weights)

    def _left_out(self) -> np.ndarray:
        return self.out if len(self.out) == len(self.widths) else np.zeros(len(self.widths), dtype=bool)

    def _leave_out(self, machine: Problem) -> bool:
        """Leave out columns where nothing speaks against it.

        The widest together, then by halves, then one by one, until so many have to stay that narrower ones will, too.
        """
        if sum(self._sizes()) <= len(self.free) or self.out.all():
            return False
        before, value = int(self.out.sum()), self.value
        left = np.argsort(-self.widths)[before:]
        size = int(np.sum(2.0 * self.widths[left] >= self.widths[left[0]] + self.widths[left[-1]]))
        stayed = 0
        while len(left) and stayed < PLAN.stayed:
            without = self._without(machine, left[:size], value)
            if without is not None:
                value, stayed, left = min(value, without), 0, left[size:]
            elif size == 1:
                stayed += 1
                left = left[1:]
            size = max(1, size // 2)
        return int(self.out.sum()) > before

    def _without(self, machine: Problem, columns: np.ndarray, value: float) -> float | None:
        """Leave out these columns if log PRESS rises by less than 2 log(rows)/rows from a value; what it is then."""
        logs = self._vector()
        logs[: len(self.widths)][columns] = PLAN.without
        without = self._value(logs, machine)
        if without - value >= 2.0 * math.log(len(machine.rows)) / len(machine.rows):
            return None
        self.widths[columns], self.out[columns] = PLAN.without, True
        self.decided = max(self.decided, len(machine.rows))
        return without

    def _minimise(self, machine: Problem, iterations: int, *, together: bool = False) -> float:
        """Move widths (all of them by a common factor with `together`) and C to the smallest objective near by."""
        start, out = self._vector(), self._left_out()
        if not len(start):  # all is given: a kernel of a `Choice`
            return self._value(start, machine)
        moves = np.eye(len(start))  # of the vector, in what is searched
        middle = math.log(kernel_variance(self._at_vector(start, machine)) * mean_weight(machine))
        bounds = [
            (PLAN.without, PLAN.without) if left_out else (-PLAN.width_bound, PLAN.width_bound) for left_out in out
        ]
        if self.problem.C is None:
            bounds.append((-math.log(PLAN.ridges[-1]) - middle, -math.log(PLAN.ridges[0]) - middle))
        start = np.clip(start, *np.array(bounds).T)
        if together:
            moves = np.vstack([np.append(~out, np.zeros(len(start) - len(out))), moves[len(out) :]]).T
        bounds = [(low - at, high - at) for (low, high), at in zip(bounds, start, strict=True)]
        if together:
            bounds = [(-3.0, 3.0), *bounds[len(out) :]]

        def objective(step: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = self._objective(start + moves @ step, machine)
            return value, moves.T @ gradient

        zero = np.zeros(moves.shape[1])
        if self.method == "simplex":
            found = minimize(
                lambda step: self._value(start + moves @ step, machine),
                zero,
                method="Nelder-Mead",
                bounds=bounds,
                options={"maxfev": 40 * len(zero), "xatol": 1e-2, "fatol": 1e-4},
            )
        else:
            options = {"maxiter": iterations, "ftol": PLAN.flatness / len(machine.rows)}
            found = minimize(objective, zero, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        logs = start + moves @ found.x
        self.widths = logs if self.problem.C is not None else logs[:-1]
        self.C = self.C if self.problem.C is not None else math.exp(logs[-1])
        return float(found.fun)

    def finish(self) -> Problem:
        """The stages that are left, then the problem with widths and C."""
        self.stages()
        if self.problem.robust is not None and self.method != "grid":  # with weights that follow from what was found
            self._refine(self._machine(*stages_of(self.problem)[-1]), PLAN.early)
        if errors_to_choose_by(self.problem, self.loss) is class_errors:
            self._settle()
        return self._at_vector(self._vector(), self.original)

    def _settle(self) -> None:
        """Move all widths by a common factor, and C, to the smallest log loss of classes on the last machine.

        From a common width that is very wide, or from the moderate one: leave-one-out has several minima, and on few
        rows the former is often as good as any.
        """
        machine = self._machine(*stages_of(self.problem)[-1])
        starts = [self.widths]
        if not any(self.ard) and self.moderate < max(self.widths, default=-math.inf) - 0.5:
            starts.append(self._moderate_widths())
        found = [best_C(self._at(widths, machine, machine.C), class_errors) for widths in starts]
        self.record.evaluations += len(found)
        best = int(np.argmin([loss for _, loss in found]))
        self.widths, self.C = starts[best], found[best][0]
        if self.method != "grid":
            self.by_log_loss = True
            self._minimise(machine, PLAN.early, together=True)
            self.by_log_loss = False
        self.record.plan.append("a common factor and C by the log loss of classes")
