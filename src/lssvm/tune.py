"""Steps that choose what was left at None, by exact leave-one-out."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from scipy import optimize
from sklearn.utils import Bunch

from . import _xp
from .kernels import Choice
from .problem import Factor, Problem, Step, check_memory, column_spread

__all__ = ["LeaveOneOut"]

minimize: Any = optimize.minimize  # its stubs know neither bounds nor options together

WIDTHS = np.geomspace(0.2, 20.0, 7)  # in units of the columns' spread and of sqrt(number of columns)
RIDGES = np.geomspace(1e-9, 1e3, 37)  # in units of the kernel's variance over the rows
WIDTH_BOUND = math.log(1e3)  # widths stay within this factor of the columns' spread
WIDTH_PRIOR = 2.0  # standard deviation of a log width about the common one
WITHOUT = math.log(1e6)  # width of a column that is left out
START_ROWS = 300  # rows of the first look
DENSE_STAGES = (500, 2000)  # rows of the gradient searches where the basis is the rows
BASIS_STAGES = ((2000, 300), (4000, 500))  # rows and basis size of those with a smaller basis


class LeaveOneOut(Step):
    """Choose C and the kernel widths that the user left at None by the smallest exact leave-one-out error.

    After a step that had to choose them already, e.g. pruning, they are chosen again for the basis that it left.
    Machines on columns of the KKT system (`sparsify.InversePrune` and its kin) stay as they are.

    Parameters
    ----------
    search : {"auto", "gradient", "simplex", "grid"}
        How widths are searched. "gradient": L-BFGS on the logarithm of PRESS in the logarithms of C and of the widths,
        by the closed-form gradient, from the best common width of a coarse grid. "simplex": Nelder-Mead from the same
        start (Cawley & Talbot 2004). "grid": a common width only, refined between the points of the grid. "auto" is
        "gradient". C alone comes from the whole path of one factorisation.
    loss : {"auto", "squared"}
        The weighted mean square of the left-out residuals; classes are the targets -1 and +1.

    Notes
    -----
    A width left at None is a multiple of its column's standard deviation: one common multiple, or one a column where
    the kernel says ``ard=True``. So that many widths do not over-fit few rows, their logarithms carry a normal prior
    of standard deviation 2 about the common one, a column without which log PRESS rises by less than
    log(rows)/rows is left out (its width is a million spreads), and all are given up for the common width where
    the gain of log PRESS is below 2 (number of widths - 1)/rows. On many rows the search runs on a sample of rows, with
    a part of the basis; C is then chosen on all. Robust weights, where asked for, are re-estimated between searches.

    ``path_`` holds ``widths`` (one row a leaf of the kernel), ``C``, ``loo`` (the mean squared left-out residual,
    absolute for robust weights), ``evaluations``, ``plan`` (what was done, in words) and, for classes, ``error_rate``.
    """

    def __init__(self, search: str = "auto", loss: str = "auto") -> None:
        self.search = search
        self.loss = loss

    def __call__(self, problem: Problem) -> Problem:
        for name, allowed in (
            ("search", ("auto", "gradient", "simplex", "grid")),
            ("loss", ("auto", "squared")),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(f"LeaveOneOut: {name} must be one of {allowed}, got {getattr(self, name)!r}.")
        if problem.reduced or problem.coefficients is not None:
            return problem
        if problem.asked is not None:
            problem = problem.replace(kernel=problem.asked[0], C=problem.asked[1])
        if problem.is_known:
            return problem
        if problem.is_dual:
            check_memory(len(problem.rows), 6 if len(problem.rows) <= DENSE_STAGES[-1] else 2, problem.X)
        record = Bunch(evaluations=0, plan=[])
        known = problem
        if problem.kernel.is_free:
            known = self._best_kernel(problem, record)
        if problem.C is None and (known.C is None or len(problem.rows) > _covered(problem)):
            known = known.replace(C=best_C(_in_memory(known))[0])
        score = _finish(known, problem.C is None, record)
        record.update(C=known.C, loo=score, widths=[_xp.to_numpy(leaf.sigma) for leaf in known.kernel.leaves])
        return known.replace(paths={**problem.paths, type(self).__name__: record})

    def _best_kernel(self, problem: Problem, record: Bunch) -> Problem:
        """Search the widths of the kernel; of a `Choice`, of each at the first stage, then of the best."""
        kernels = problem.kernel.kernels if isinstance(problem.kernel, Choice) else [problem.kernel]
        searches = [_Search(problem.replace(kernel=kernel), self, record) for kernel in kernels]
        for search in searches:
            search.start()
        if len(searches) > 1:
            for search in searches:
                search.stage(0)
            record.plan.append(f"{len(searches)} kernels compared")
        best = min(searches, key=lambda search: search.value)
        return best.finish()


def tuned(problem: Problem) -> Problem:
    """The problem itself where all is known, else with what is still None chosen by `LeaveOneOut`."""
    return problem if problem.is_known else LeaveOneOut()(problem)


class _Search:
    """The search of one kernel's widths, and of C where it is None.

    The vector of the search holds the logarithms of the multiples of the columns' spread, leaf by leaf (one, or one a
    column), then that of C.
    """

    def __init__(self, problem: Problem, step: LeaveOneOut, record: Bunch) -> None:
        y, rows = _xp.to_numpy(problem.y), problem.rows
        deviation = y - y[rows].mean(axis=0)
        unit = float(np.max(np.abs(deviation[rows]), initial=0.0)) or 1.0
        self.original = problem
        self.problem = problem.replace(y=_xp.like(deviation / unit, problem.y))  # squares of any unit stay in range
        self.method = "gradient" if step.search == "auto" else step.search
        self.record = record
        self.spread = column_spread(problem)
        self.free = [leaf.sigma is None for leaf in problem.kernel.leaves]
        self.ard = [bool(leaf.ard) for leaf in problem.kernel.leaves]
        self.value = math.inf
        self.done = 0
        self.out = np.empty(0, dtype=bool)  # widths of columns that are left out
        self.widths = np.empty(0)
        self.C = problem.C or 1.0

    # Vectors ---------------------------------------------------------------------------------------------------------
    def _at(self, logs: np.ndarray, machine: Problem) -> Problem:
        """The machine with the widths (leaves x columns) and C of a vector."""
        sigmas, place = [], 0
        for leaf, free, size in zip(machine.kernel.leaves, self.free, self._sizes(), strict=True):
            sigmas.append(np.exp(logs[place : place + size]) * self.spread if free else leaf.sigma)
            place += size
        C = machine.C if self.problem.C is not None else math.exp(logs[-1])
        return machine.replace(kernel=machine.kernel.with_widths(sigmas), C=C)

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
                kept = place + np.flatnonzero(logs[place : place + size] < WITHOUT)
                deviation = logs[kept] - logs[kept].mean() if len(kept) else logs[kept]
                value += float(deviation @ deviation) / (WIDTH_PRIOR**2 * rows)
                gradient[kept] = 2.0 * deviation / (WIDTH_PRIOR**2 * rows)
            place += size
        return value, gradient

    def _objective(self, logs: np.ndarray, machine: Problem) -> tuple[float, np.ndarray]:
        """log PRESS plus the prior, and its gradient."""
        self.record.evaluations += 1
        prior, prior_gradient = self._prior(logs, len(machine.rows))
        try:
            value, in_widths, in_C = self._at(logs, machine).factorise().log_press()
        except ValueError:  # nothing finite there: the line search steps back
            return 1e10, np.zeros_like(logs)
        gradient: list[float] = []
        for row, free, size in zip(_xp.to_numpy(in_widths), self.free, self._sizes(), strict=True):
            gradient.extend([] if not free else row if size > 1 else [row.sum()])
        if self.problem.C is None:
            gradient.append(in_C)
        return value - self._unit(machine) + prior, np.array(gradient) + prior_gradient

    @staticmethod
    def _unit(machine: Problem) -> float:
        """log of the weighted sum of squares about the mean: no unit of targets or weights moves the stopping rule."""
        y, weights = (_xp.to_numpy(a)[machine.rows] for a in (machine.y, machine.weights))
        deviation = y - weights @ y / weights.sum()
        largest = float(weights.max())
        return math.log(float(np.sum((weights / largest) @ deviation**2)) or 1.0) + math.log(largest)

    # Stages ----------------------------------------------------------------------------------------------------------
    def start(self) -> None:
        """The best common width of a coarse grid, and its C, on few rows."""
        sample = self.problem.subset(_sample(self.problem, START_ROWS))
        if not self.problem.is_dual:
            sample = sample.with_basis()
        unit = math.sqrt(len(self.spread))
        best = (math.inf, 1.0, 1.0)

        def score(log_width: float) -> float:
            nonlocal best
            C, value = best_C(sample.replace(kernel=self.problem.kernel.with_width(math.exp(log_width), self.spread)))
            self.record.evaluations += 1
            best = min(best, (value, log_width, C))
            return value

        for width in WIDTHS:
            score(math.log(width * unit))
        if self.method == "grid":
            step = math.log(WIDTHS[1] / WIDTHS[0])
            bounds = (best[1] - step, best[1] + step)
            optimize.minimize_scalar(score, bounds=bounds, method="bounded", options={"maxiter": 10, "xatol": 0.05})
        self.value, log_width, self.C = best
        self.widths = np.full(sum(1 for free in self.free if free), log_width)
        self.record.plan.append(f"{len(WIDTHS)} common widths on {len(sample.rows)} rows")

    def stage(self, number: int) -> None:
        """Search on the machine of one stage: common widths first, then those of the columns if they are worth it."""
        machine = _search_machine(self.problem, number)
        if machine.robust is not None:
            machine = machine.replace(weights=self._at(self._vector(), machine).solve().weights, robust=None)
        first, self.done = self.done == 0, number + 1
        rows = len(machine.rows)
        if first:
            ard, self.ard = self.ard, [False] * len(self.ard)
            self.value = self._minimise(machine, 15)
            common = self.widths, self.C, self.value
            self.ard = ard
            if sum(self._sizes()) > len(self.widths):
                self.widths = np.concatenate(
                    [np.full(size, w) for size, w in zip([s for s in self._sizes() if s], self.widths, strict=True)]
                )
                self.out = np.zeros(len(self.widths), dtype=bool)
                value = self._minimise(machine, 60)
                if self._leave_out(machine, value):
                    value = self._minimise(machine, 30)
                gain = common[2] - (value - self._prior(self._vector(), rows)[0])
                self.value = value
                if gain < 2.0 * (len(self.widths) - len(common[0])) / rows:
                    self.widths, self.C, self.value = common
                    self.ard = [False] * len(ard)
                    self.out = np.zeros(len(self.widths), dtype=bool)
                    self.record.plan.append("one common width: more are not worth it")
        else:
            self.value = self._minimise(machine, 15)
            if self._leave_out(machine, self.value):
                self.value = self._minimise(machine, 10)
        kind = "rows" if machine.is_dual else f"rows and {machine.basis_size} basis points"
        self.record.plan.append(f"{len(self.widths)} widths by {self.method} on {rows} {kind}")

    def _left_out(self) -> np.ndarray:
        return self.out if len(self.out) == len(self.widths) else np.zeros(len(self.widths), dtype=bool)

    def _leave_out(self, machine: Problem, value: float) -> bool:
        """Leave out, widest first, the columns without which log PRESS rises by less than log(rows)/rows."""
        allowed = math.log(len(machine.rows)) / len(machine.rows)
        before = int(self.out.sum())
        for c in np.argsort(-self.widths) if sum(self._sizes()) > len(self.free) else []:
            if not self.out[c]:
                logs = self._vector()
                logs[c] = WITHOUT
                without = self._objective(logs, machine)[0]
                if without - value < allowed:
                    self.widths[c], self.out[c] = WITHOUT, True
                    value = min(value, without)
        return int(self.out.sum()) > before

    def _minimise(self, machine: Problem, iterations: int) -> float:
        start = self._vector()
        middle = math.log(kernel_variance(self._at(start, machine)) * _mean_weight(machine))
        bounds = [(WITHOUT, WITHOUT) if out else (-WIDTH_BOUND, WIDTH_BOUND) for out in self._left_out()]
        if self.problem.C is None:
            bounds.append((-math.log(RIDGES[-1]) - middle, -math.log(RIDGES[0]) - middle))
        start = np.clip(start, *np.array(bounds).T)
        if self.method == "simplex":
            found = minimize(
                lambda logs: self._objective(logs, machine)[0],
                start,
                method="Nelder-Mead",
                bounds=bounds,
                options={"maxfev": 40 * len(start), "xatol": 1e-2, "fatol": 1e-4},
            )
        else:
            found = minimize(
                lambda logs: self._objective(logs, machine),
                start,
                jac=True,
                method="L-BFGS-B",
                bounds=bounds,
                options={"maxiter": iterations, "ftol": 1e-5},
            )
        logs = found.x
        self.widths = logs if self.problem.C is not None else logs[:-1]
        self.C = self.C if self.problem.C is not None else math.exp(logs[-1])
        return float(found.fun)

    def finish(self) -> Problem:
        """The stages that are left, then the problem with widths and C."""
        if self.method != "grid":
            for number in range(self.done, len(_stages(self.problem))):
                self.stage(number)
            if self.problem.robust is not None:  # with the weights that follow from what was found
                self.stage(len(_stages(self.problem)) - 1)
        return self._at(self._vector(), self.original)


def _stages(problem: Problem) -> list[tuple[int, int | None]]:
    """Rows and basis size of the machines on which a problem is searched, one after the other."""
    rows, basis = len(problem.rows), problem.basis_size
    if problem.is_dual:
        sizes: list[tuple[int, int | None]] = [(min(stage, rows), None) for stage in DENSE_STAGES]
    else:
        sizes = [(min(stage, rows), min(points, basis)) for stage, points in BASIS_STAGES]
    return sizes[:1] if sizes[0] == sizes[1] else sizes


def _covered(problem: Problem) -> int:
    """The number of rows that the last stage of the search covers, with the whole basis."""
    rows, basis = _stages(problem)[-1]
    return rows if basis is None or basis == problem.basis_size else 0


def _search_machine(problem: Problem, stage: int) -> Problem:
    """A sample of rows, with a part of the basis."""
    rows, basis = _stages(problem)[stage]
    machine = problem.subset(_sample(problem, rows))
    if basis is not None and machine.points is not None and basis < machine.points.shape[0]:
        part = np.sort(np.random.RandomState(0).permutation(machine.points.shape[0])[:basis])
        machine = machine.with_basis(points=_xp.take(machine.points, part))
    return machine


def _in_memory(problem: Problem) -> Problem:
    """The problem, or as many of its rows as memory holds with all of their columns."""
    if problem.fits_memory:
        return problem
    return problem.subset(_sample(problem, (_xp.memory(problem.X) or 2**30) // (32 * problem.basis_size)))


def _sample(problem: Problem, size: int) -> np.ndarray:
    """At most `size` of the rows that count, always the same ones."""
    return np.sort(np.random.RandomState(0).permutation(problem.rows)[:size])


def _finish(problem: Problem, chosen: bool, record: Bunch) -> float:
    """The leave-one-out error of what was found; a warning where C ended at an edge of its range."""
    assert problem.C is not None
    if chosen:
        ridge = 1.0 / (problem.C * kernel_variance(problem) * _mean_weight(problem))
        if not 1.01 * RIDGES[0] < ridge < 0.99 * RIDGES[-1]:
            what = "noise-free" if ridge < 1.0 else "unrelated to the inputs"
            warnings.warn(
                f"C = {problem.C:.3g} is at the edge of the range searched: the targets look {what}. Give C or sigma.",
                stacklevel=2,
            )
    record.plan.append("C on all rows" if len(problem.rows) > _covered(problem) else "C with the widths")
    problem = _in_memory(problem)
    factor = problem.factorise()
    solution = factor.system.solution(1.0 / factor.C, careful=False)
    loo = _xp.to_numpy(solution.loo_residuals)
    if problem.classification:
        y = _xp.to_numpy(problem.y)[factor.rows]
        left_out = y - loo
        wrong = np.argmax(left_out, axis=1) != np.argmax(y, axis=1) if y.shape[1] > 1 else (left_out * y <= 0)[:, 0]
        record.error_rate = float(np.average(wrong, weights=_xp.to_numpy(problem.weights)[factor.rows]))
    return mean_loss(problem, loo, _xp.to_numpy(problem.weights)[factor.rows])


def best_C(problem: Problem) -> tuple[float, float]:
    """The C with the smallest leave-one-out error (or the problem's own), and that error."""
    if problem.C is not None:
        return problem.C, loo_error(problem.factorise(), problem.C)
    ridges = RIDGES * kernel_variance(problem) * _mean_weight(problem)
    factor = problem.factorise(1.0 / ridges[0], every=True)
    scores = [loo_error(factor, 1.0 / ridge) for ridge in ridges]
    best = int(np.argmin(scores))
    low, high = np.log(ridges[max(best - 1, 0)]), np.log(ridges[min(best + 1, len(ridges) - 1)])
    refined = optimize.minimize_scalar(
        lambda log_ridge: loo_error(factor, math.exp(-log_ridge)), bounds=(low, high), method="bounded"
    )
    if refined.fun < scores[best]:
        return math.exp(-refined.x), float(refined.fun)
    return float(1.0 / ridges[best]), float(scores[best])


def loo_error(factor: Factor, C: float) -> float:
    """Mean loss of the left-out residuals of the rows that count, in units in which their squares stay in range."""
    y = _xp.to_numpy(factor.problem.y)
    unit = float(np.max(np.abs(y - y.mean(axis=0)), initial=0.0)) or 1.0
    loo = _xp.to_numpy(factor.system.solution(1.0 / float(C), careful=False).loo_residuals) / unit
    return mean_loss(factor.problem, loo, _xp.to_numpy(factor.problem.weights)[factor.rows])


def mean_loss(problem: Problem, residuals: np.ndarray, weights: np.ndarray) -> float:
    """Weighted mean of the squared residuals, of the absolute ones where robust weights are asked for."""
    loss = np.abs(residuals) if problem.robust is not None else residuals * residuals
    score = float(weights @ loss.sum(axis=1) / weights.sum())
    return score if math.isfinite(score) else math.inf


def kernel_variance(problem: Problem) -> float:
    """Mean of k(x, x) less the mean of k(x, z) over (a sample of) the rows: the size of the centred kernel."""
    rows = problem.rows[:: max(1, len(problem.rows) // 200)]
    X = _xp.take(problem.X, rows)
    K = _xp.to_numpy(problem.kernel.evaluate(X, problem.kernel.basis_points(problem.X, rows)))
    variance = float(K.diagonal().mean() - K.mean())
    return variance if math.isfinite(variance) and variance > 0 else 1.0


def _mean_weight(problem: Problem) -> float:
    return float(_xp.to_numpy(problem.weights)[problem.rows].mean())
