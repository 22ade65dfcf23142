"""The search for the widths of one kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import scipy
from sklearn.utils import Bunch

from .. import arrays
from .._words import counted
from ..problem import Problem
from .choose_C import (
    best_C,
    best_C_and_residuals,
    best_C_nearby,
    guarded,
    search_weights,
)
from .constants import CONSTANTS
from .descent import Descent
from .samples import part_of, sample_of, stages_of
from .scores import class_errors, errors_to_choose_by
from .screening import droppable, functions_of, relevance
from .stack_weights import Stage

if TYPE_CHECKING:
    from .leave_one_out import LeaveOneOut


def in_contention(searches: Sequence[Search]) -> list[Search]:
    """The searches of members of a stack that may get a weight: not useless, and not far behind another one."""
    completed = [search for search in searches if not search.is_useless]
    best = min((search.first_value for search in completed), default=math.inf)
    return [search for search in completed if search.first_value <= best + CONSTANTS.hopeless]


class Search(Descent):
    """The search for the widths of one kernel, and for C if it is None."""

    @classmethod
    def completed(cls, problem: Problem, step: LeaveOneOut) -> Search:
        """The search that has found the widths and C of a problem, as a starting point for others."""
        assert problem.asked is not None
        assert problem.C is not None
        search = cls(problem.replace(kernel=problem.asked[0], C=problem.asked[1]), step, Bunch(evaluations=0, plan=[]))
        search.ard, search.C, search.is_completed = search.many, problem.C, True
        widths = [np.empty(0)]
        for leaf, free, many in zip(problem.kernel.leaves, search.free, search.many, strict=True):
            ratios = (arrays.to_numpy(leaf.sigma) / leaf.width_unit(search.spread))[search.leading]
            logs = np.where(np.isfinite(ratios), np.log(ratios), CONSTANTS.dropped_width)
            widths.append((logs if many else logs[:1]) if free else np.empty(0))
        search.widths = np.concatenate(widths)
        search.trial = search._trial(*stages_of(search.problem)[0])
        search.first_value = search._value(search._vector(), search.trial)
        return search

    # The search ------------------------------------------------------------------------------------------------------
    def run(self, earlier: Sequence[Search] = ()) -> None:
        """Search on the first stage, starting from completed searches of other kernels where they help."""
        completed = [other for other in earlier if not other.is_useless]
        alike = next((other for other in reversed(completed) if self._is_like(other)), None)
        common = next((other for other in reversed(earlier) if other.plain == self.plain and not any(other.ard)), None)
        if self.method == "grid":
            self._start()
            return
        if alike is not None:
            self._start_from(alike)
        elif common is not None:
            self.widths, self.C, self.moderate, self.spent = common.widths, common.C, common.moderate, common.spent
        elif any(self.free):
            self._start()
        if earlier:
            last = earlier[-1]
            self.trial, self.has_outliers, self.functions = last.trial, last.has_outliers, last.functions
        trial = (self.trial or self._trial(*stages_of(self.problem)[0])).replace(kernel=self.problem.kernel)
        self.trial = trial
        if not any(self.free):
            self._choose_C(trial)
            self.value = self._value(self._vector(), trial)
        elif alike is not None:
            hasty = self.member and not trial.is_dual  # a dense trial takes little time
            others = [other.first_stage for other in in_contention(earlier)] if hasty else []
            self.value = self._minimise(trial, CONSTANTS.transferred, others=others)
            if self.is_useless:
                self.first_value = self.value
                return
        else:
            sizes = [len(self.constant) if many else 1 for many, free in zip(self.many, self.free, strict=True) if free]
            has_many = sum(sizes) > len(self.widths)
            self._descend(trial, rough=has_many)
            if has_many:
                self._try_many(trial, sizes)
            else:
                self.ard = self.many
        if len(self.widths) > len(self.free) and self._drop_columns(trial):
            self.value = self._minimise(trial, CONSTANTS.early)
        self.first_value = self.value
        if any(self.free):
            self._log(trial)

    def current(self) -> Problem:
        """The problem with the current widths and C."""
        return self._at_vector(self._vector(), self.original)

    def _is_like(self, other: Search) -> bool:
        """Whether the widths of another search are a starting point: those of a single kernel with as many widths."""
        single = not (self.problem.kernel.parts or other.problem.kernel.parts)
        return single and other.free == self.free and other.ard == self.many

    def start_last_stage(self) -> None:
        """Evaluate the result on the last stage, if there are two or robust weights, to see if a search there pays."""
        stages = stages_of(self.problem)
        if self.method != "grid" and (len(stages) > 1 or self.problem.robust is not None):
            before = self.value
            self.last, self.value = self._last_trial(*stages[-1])
            self.record.gain = before - self.value
            self.is_limited = self.record.gain > CONSTANTS.limited or self.problem.robust is not None

    def finish(self) -> Problem:
        """Run the last stage; returns the problem with widths, and with C if there are any."""
        if not any(self.free):
            return self.original
        if self.last is None:
            self.start_last_stage()
        if self.last is not None and self.is_limited:
            self.value = self._minimise(self.last, CONSTANTS.early)
            self._log(self.last)
        if errors_to_choose_by(self.problem, self.loss) is class_errors:
            self._settle()
        return self.current()

    def on_stage(self, rows: int, basis: int | None) -> Stage:
        """What the weight of the current result depends on, on the last stage. The best C there is set.

        The rows have their sample weights, which all members share, and not those of robust fits.
        """
        trial = self._last_trial(rows, basis)[0] if self.last is None else self.last
        weights = arrays.to_numpy(part_of(self.problem, rows, basis).weights)[trial.rows]
        stage = self._stage_at(self._vector(), trial)
        return Stage(stage.residuals, weights, stage.widths)

    def value_at_the_end(self) -> float:
        """The value on the last stage, to compare kernels."""
        if self.method == "grid":
            return self.value
        return self._value(self._vector(), self._trial(*stages_of(self.problem)[-1]))

    def _log(self, trial: Problem) -> None:
        kind = "rows" if trial.is_dual else f"rows and {counted(trial.basis_size, 'basis point')}"
        self.record.plan.append(f"{counted(len(self.widths), 'width')} by {self.method} on {len(trial.rows)} {kind}")

    def _start(self) -> None:
        """Start from the best common width of a coarse grid on a small sample, and its C."""
        unit = math.log(max(np.sum(~self.constant), 1)) / 2.0
        sample = self._start_sample()
        scores = self._grid(sample, np.zeros(sum(self._sizes())), np.log(CONSTANTS.widths) + unit)
        if self.method == "grid":
            step = math.log(CONSTANTS.widths[1] / CONSTANTS.widths[0])
            middle = min(scores)[1]
            one = lambda log_width: self._grid(sample, np.zeros(sum(self._sizes())), [log_width])[0]  # noqa: E731
            found = scipy.optimize.minimize_scalar(
                lambda log_width: one(log_width)[0],
                bounds=(middle - step, middle + step),
                method="bounded",
                options={"maxiter": 10, "xatol": 0.05},
            )
            scores.append(one(float(found.x)))
        self.moderate = min(scores[: len(CONSTANTS.widths) // 2 + 1])[1]
        self.value, log_width, self.C = min(scores)
        # identical leaves that start from the same width have the same gradient, and would stay identical
        free = [repr(leaf) for leaf, is_free in zip(self.problem.kernel.leaves, self.free, strict=True) if is_free]
        places = [free[:i].count(leaf) - (free.count(leaf) - 1) / 2.0 for i, leaf in enumerate(free)]
        self.widths = log_width + math.log(4.0) * np.array(places)
        self.record.plan.append(f"grid of {len(CONSTANTS.widths)} common widths on {len(sample.rows)} rows")

    def _start_from(self, other: Search) -> None:
        """Start from the search of another kernel: keep the ratios of its widths, and choose their common factor."""
        self.ard, self.moderate, self.spent = other.ard, other.moderate, 0.0
        own, others = (getattr(kernel, "nu", math.inf) for kernel in (self.problem.kernel, other.problem.kernel))
        factors = np.negative(CONSTANTS.factors) if own > others else CONSTANTS.factors  # smoother kernels are narrower
        self.value, factor, self.C = min(self._grid(self._start_sample(), other.widths, factors))
        self.widths = np.where(self._is_dropped(other.widths), other.widths, other.widths + factor)

    def _start_sample(self) -> Problem:
        sample = self.problem.subset(sample_of(self.problem, CONSTANTS.start_rows))
        return sample if self.problem.is_dual else sample.with_basis()

    def _grid(
        self, sample: Problem, shape: np.ndarray, factors: Sequence[float] | np.ndarray
    ) -> list[tuple[float, float, float]]:
        """Value, log factor and C for common factors of widths with given ratios."""
        scores = []
        for factor in factors:
            C, value = best_C(self._at(np.where(self._is_dropped(shape), shape, shape + factor), sample, sample.C))
            self.record.evaluations += 1
            scores.append((value, float(factor), C))
        return scores

    def _trial(self, rows: int, basis: int | None) -> Problem:
        """The problem on a part of its rows and basis; robust weights are those of the current setting."""
        trial = part_of(self.problem, rows, basis)
        current = self._at_vector(self._vector(), trial)
        if trial.robust is not None:
            return trial.replace(weights=search_weights(current), robust=None)
        if self.has_outliers:  # C was chosen with lower weights of some
            known = guarded(current, fixed_C=True, iterations=1)
        else:
            known = guarded(current, fixed_C=self.problem.C is not None)
        return self._without_outliers(trial, known)

    def _last_trial(self, rows: int, basis: int | None) -> tuple[Problem, float]:
        """The problem as in `_trial` with the best C, and its value."""
        if self.problem.C is not None or self.problem.robust is not None or self.problem.classification:
            trial = self._trial(rows, basis)
            self._choose_C(trial)
            return trial, self._value(self._vector(), trial)
        trial = part_of(self.problem, rows, basis)
        current = self._at(self.widths, trial)
        nearby = None if self.has_outliers else best_C_nearby(current, self.C)  # their lower weights have changed C
        self.C, loo = nearby or best_C_and_residuals(current)
        known = guarded(
            current.replace(C=self.C), loo, iterations=1 if self.has_outliers else CONSTANTS.robust_iterations
        )
        if known.weights is not trial.weights:
            trial = self._without_outliers(trial, known)
            return trial, self._value(self._vector(), trial)
        return trial, self._value_of(arrays.to_numpy(loo), self._vector(), trial)

    def _without_outliers(self, trial: Problem, known: Problem) -> Problem:
        """The trial with the weights of a problem that `guarded` has returned, whose C becomes the current one."""
        self.has_outliers |= known.weights is not trial.weights
        self.C = known.C or self.C
        return trial.replace(weights=known.weights)

    # One width per column --------------------------------------------------------------------------------------------
    def _try_many(self, trial: Problem, sizes: list[int]) -> None:
        """Search one width per column from several starting points, and keep the result if its gain is large enough.

        The starting points: the common width; narrow widths for the columns that the targets depend on, if the
        residuals of the first result depend on a wide one; the same for the columns that the residuals depend on.
        """
        common = self.widths, self.C, self.value
        errors = self._errors(trial)
        self.ard = self.many
        # A very wide common width with a large C amounts to a polynomial. If most columns are irrelevant, this is the
        # best that a common width can do, and the search rarely leaves it: widths per column start from a moderate one.
        moderate = common[0] - max(max(common[0]) - self.moderate, 0.0)
        self.widths = np.where(self._constants(), CONSTANTS.dropped_width, np.repeat(moderate, sizes))
        self._screen(trial)
        self._descend(trial)
        residuals = self._loo_residuals(trial)
        if self._missing(self._relevant(trial, residuals)).any():  # else the columns are in use, however wide
            self._try_columns(trial, self._relevant(trial, self._targets(trial)))
            residuals = self._loo_residuals(trial)
        left = np.hstack([residuals, np.abs(residuals)])  # effects of three columns show in the sizes
        self._try_columns(trial, self._relevant(trial, left))
        rows = len(trial.rows)
        gain = common[2] - (self.value - self._prior(self._vector(), rows)[0])
        worth = self.member or gain >= CONSTANTS.worth * (np.sum(~self._constants()) - len(common[0])) / rows
        if trial.classification:
            worth &= errors - self._errors(trial) >= max(1.0, 2.0 * math.sqrt(errors))
        if not worth:
            self.widths, self.C, self.value = common
            self.ard = [False] * len(self.many)
            self.record.plan.append(
                f"one common width, in units of each column's spread: one per column gains too little on {rows} rows"
            )

    def _screen(self, trial: Problem) -> None:
        """Of very many widths per column, drop all but those that fall fastest: the columns that the kernel needs."""
        most = max(CONSTANTS.widths_kept, len(trial.rows))
        several = np.repeat(np.array(self._sizes()) > 1, self._sizes()) & ~self._is_dropped(self.widths)
        if several.sum() > max(CONSTANTS.screened, most):
            self._choose_C(trial)
            slopes = self._objective(self._vector(), trial)[1][: len(self.widths)]
            order = np.argsort(np.where(several, -slopes, math.inf), kind="stable")
            self.widths[order[most : several.sum()]] = CONSTANTS.dropped_width

    @staticmethod
    def _targets(trial: Problem) -> np.ndarray:
        return arrays.to_numpy(trial.y)[trial.rows]

    def _relevant(self, trial: Problem, targets: np.ndarray) -> np.ndarray:
        """Which inputs have a column that the targets depend on, for targets of the first stage."""
        if self.functions is None:
            self.functions = functions_of(arrays.to_numpy(arrays.take(trial.X, trial.rows)))
        return np.bincount(self.inputs, relevance(self.functions, targets) > CONSTANTS.relevant) > 0

    def _narrow(self, relevant: np.ndarray) -> np.ndarray:
        """Which widths belong to relevant columns, or to a leaf with a common width."""
        parts = [relevant & ~self.constant if size > 1 else np.ones(size, dtype=bool) for size in self._sizes()]
        return np.concatenate(parts)

    def _missing(self, relevant: np.ndarray) -> np.ndarray:
        """Which of them are wide."""
        return self._narrow(relevant) & (self.widths > CONSTANTS.narrow)

    def _try_columns(self, trial: Problem, relevant: np.ndarray) -> None:
        """Search from narrow widths of the relevant columns, unless they are narrow already; keep the better result."""
        narrow, missing = self._narrow(relevant), self._missing(relevant)
        if not missing.any() or narrow.all():
            return
        before = self.widths, self.C, self.value
        narrow |= self.widths <= CONSTANTS.narrow
        start = np.where(narrow, 0.5 * math.log(narrow.sum() / sum(self.free)), CONSTANTS.wide) - 1.0
        start = np.where(self._is_dropped(self.widths) & ~narrow, CONSTANTS.dropped_width, start)
        _, factor, self.C = min(self._grid(trial, start, CONSTANTS.factors))
        self.widths = np.where(self._is_dropped(start), start, start + factor)
        self.value = self._minimise(trial, self._most(trial), rival=before[2])
        if self.value >= before[2]:
            self.widths, self.C, self.value = before

    def _descend(self, trial: Problem, *, rough: bool = False) -> None:
        """Search from the current widths with the best C: on a part of a large trial, then, unless `rough`, on all."""
        rows, basis = CONSTANTS.coarse
        if not (trial.is_dual or arrays.on_accelerator(trial.X)) and trial.basis_size >= 2 * basis:
            part = part_of(trial, rows, basis)
            self._choose_C(part)
            self._minimise(part, self._most(part))
            self._choose_C(trial)
            if rough:
                self.value = self._value(self._vector(), trial)
                return
            if len(self.widths) > len(self.free):
                self._drop_early(trial)
        else:
            self._choose_C(trial)
        self.value = self._minimise(trial, self._most(trial))

    def _most(self, trial: Problem) -> int:
        """Maximum number of iterations; only a few if there are few samples per width: more would fit noise."""
        if not any(self.ard):
            return CONSTANTS.common
        return CONSTANTS.early if self._has_few(trial) else CONSTANTS.iterations

    def _has_few(self, trial: Problem) -> bool:
        """Whether there are fewer than `constants.width_rows` samples per width of a column that is not constant."""
        return bool(len(trial.rows) < CONSTANTS.width_rows * np.sum(~self._constants()))

    def _constants(self) -> np.ndarray:
        """Which widths belong to constant columns, which are dropped from the start."""
        parts = [self.constant if size > 1 else np.zeros(size, dtype=bool) for size in self._sizes()]
        return np.concatenate([np.zeros(0, dtype=bool), *parts])  # a kernel may have no widths at all

    def _drop_columns(self, trial: Problem) -> bool:
        """Drop the columns that do not contribute; returns whether any was dropped."""
        logs = self._vector()

        def without(dropped: np.ndarray) -> np.ndarray:
            changed = logs.copy()
            changed[dropped] = CONSTANTS.dropped_width
            return changed

        relevant = np.ones(len(self.widths), dtype=bool)
        if not self._has_few(trial):  # else hardly any column stands out
            relevant = self._narrow(self._relevant(trial, self._targets(trial)))
        widths = np.where(self._is_dropped(self.widths), math.inf, self.widths)
        value = lambda dropped: self._value(without(dropped), trial) if len(dropped) else self.value  # noqa: E731
        dropped = droppable(widths, relevant, value, self._least_worth(trial))
        self.widths = without(dropped)[: len(self.widths)]
        return len(dropped) > 0

    @staticmethod
    def _least_worth(trial: Problem) -> float:
        """Columns are dropped if log PRESS rises by less than this without them."""
        return 2.0 * math.log(len(trial.rows)) / len(trial.rows)

    def _drop_early(self, trial: Problem) -> None:
        """Drop all columns together that neither targets nor residuals depend on, if log PRESS hardly rises.

        Then a search takes fewer iterations. The widths come from a search on a small sample, which may have missed
        columns that matter.
        """
        if self._has_few(trial):
            return
        idle = ~self._narrow(self._relevant(trial, self._targets(trial))) & ~self._is_dropped(self.widths)
        if not idle.any():
            return
        residuals, before = self._loo_residuals(trial), self._vector()
        idle &= ~self._narrow(self._relevant(trial, residuals))
        self.widths = np.where(idle, CONSTANTS.dropped_width, self.widths)
        if self._value(self._vector(), trial) - self._value_of(residuals, before, trial) >= self._least_worth(trial):
            self.widths = before[: len(self.widths)]

    def _settle(self) -> None:
        """Minimise the log loss of classes over a common factor of the widths and C, in the last stage.

        A very wide common width is compared with the moderate one: the leave-one-out error has several minima, and on
        few rows the very wide one often looks as good as any other.
        """
        trial = self._trial(*stages_of(self.problem)[-1])
        starts = [self.widths]
        if not any(self.ard) and self.moderate < max(self.widths, default=-math.inf) - 0.5:
            starts.append(self.widths - max(self.widths) + self.moderate)
        found = [best_C(self._at(widths, trial, trial.C), class_errors) for widths in starts]
        self.record.evaluations += len(found)
        best = int(np.argmin([loss for _, loss in found]))
        self.widths, self.C = starts[best], found[best][0]
        if self.method != "grid":
            self.by_log_loss = True
            self._minimise(trial, CONSTANTS.early, together=True)
            self.by_log_loss = False
        self.record.plan.append("common factor of the widths and C by the log loss of the classes")
