"""The search for a classifier: widths, C, loss and coding by the log loss of leave-one-out values.

All models are dense, on a sample of rows. Widths and C follow the gradient of

    sum_i w_i log(1 + sum_b exp(-s V_ib)),

where V_ib is the leave-one-out value of row i for the pair of its class and class b, positive if it is correct, and the
slope s is searched as well. One width per column is searched on each half of the sample and evaluated on the other
half: the leave-one-out error of the rows by which many widths were chosen is too optimistic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import optimize
from scipy.special import softmax
from sklearn.utils import Bunch

from .. import arrays, progress
from ..arrays import NumericalError
from ..coding import best_slope, pair_losses, pair_rows, pairs_of, platt_aims
from ..kernels import Kernel
from ..losses import LOSSES
from ..problem import Problem, column_spread, constant_columns
from ..system.newton import loo_gradient, solve_dual, solve_squares
from .plan import PLAN
from .samples import with_every_class
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


def choose_classifier(
    problem: Problem, codings: tuple[str, ...], losses: tuple[str, ...]
) -> tuple[Setting, Bunch | None]:
    """The classifier with the smallest log loss of leave-one-out values, and a record of the comparison.

    A common width is searched for each kernel on both halves of a sample; then one width per column, if it lowers the
    log loss of the other half; then C on the whole sample, for each kernel, and for each coding and loss with the best
    kernel.
    """
    if problem.is_known:
        return Setting(problem.kernel, float(problem.C or 1.0), codings[0], losses[0]), None
    rows = _sample(problem)
    with progress.expect(lambda: (10.0 if problem.kernel.is_free else 2.0) * rows.work()):
        return _chosen(problem, rows, codings, losses)


def _chosen(problem: Problem, rows: Rows, codings: tuple[str, ...], losses: tuple[str, ...]) -> tuple[Setting, Bunch]:
    kernels = list(problem.kernel.parts) if problem.kernel.is_choice else [problem.kernel]
    n_classes = rows.n_classes
    codings = ("one-vs-one",) if n_classes == 2 else codings
    leading = "squared" if "squared" in losses else losses[0]
    simplest = Setting(kernels[0], problem.C or 10.0, codings[0], leading, math.exp(0.5))
    halves = (
        [rows.part(np.arange(start, len(rows.codes), 2)) for start in (0, 1)] if len(rows.codes) > 3 else [rows] * 2
    )
    record = Bunch(evaluations=0, plan=[], candidates=[])
    record.plan.append(f"{len(kernels)} kernels with common widths on {len(rows.codes)} rows")
    starts: list[tuple[float, Setting, list[Setting]]] = []
    for kernel in kernels:  # the others start from C and the slope of the first
        starts.append(_common_widths(kernel, halves, starts[0][1] if starts else simplest, 6 if starts else 12))
    best = min(range(len(kernels)), key=lambda number: starts[number][0])
    free = [leaf.sigma is None for leaf in kernels[best].leaves]
    found = [start[1] for start in starts]
    if any(leaf.ard and leaf.sigma is None for leaf in kernels[best].leaves) and problem.X.shape[1] > 1:
        gain, many = _many_widths(halves, starts[best][2], free)
        record.update(gain=gain)
        if gain > PLAN.class_worth:
            moves = [
                a - b
                for a, b in zip(*(log_widths(k, problem.X.shape[1]) for k in (many, found[best].kernel)), strict=True)
            ]
            for number, kernel in enumerate(kernels):
                same = [leaf.sigma is None and leaf.ard for leaf in kernel.leaves]
                if same == [leaf.sigma is None and leaf.ard for leaf in kernels[best].leaves]:
                    found[number] = replace(found[number], kernel=_moved(found[number].kernel, moves))
            record.plan.append("one width per column")
        else:
            record.plan.append("one common width: one per column gains too little")
    others = [(codings[0], loss) for loss in losses if loss != leading]
    others += [(coding, leading) for coding in codings[1:]]
    compared = [_best_C(rows, setting) for setting in found]
    first = min(compared, key=lambda candidate: candidate[0].mean())[1]
    if others:  # C is chosen on one half, then rescaled by the ratio of C on all rows to C on the half
        half = halves[0]
        shift = first.C / _best_C(half, first)[1].C
        for coding, loss in others:
            setting = _best_C(half, replace(first, coding=coding, loss=loss))[1]
            setting = replace(setting, C=setting.C * (shift if problem.C is None else 1.0))
            compared.append(_best_C(rows, setting, known=True))
    for losses_of_rows, setting in compared:
        record.candidates.append(
            Bunch(
                kernel=setting.kernel,
                C=setting.C,
                coding=setting.coding,
                loss=setting.loss,
                loo=float(losses_of_rows.mean()),
            )
        )
    chosen = _simplest(compared)
    if chosen.loss != first.loss and problem.C is None:
        chosen = _best_C(rows, chosen, near=True)[1]
    record.evaluations = rows.evaluations + sum(half.evaluations for half in halves)
    record.plan.append(f"{len(compared)} classifiers compared by their log loss")
    record.update(C=chosen.C, widths=[arrays.to_numpy(leaf.sigma) for leaf in chosen.kernel.leaves], free=free)
    return chosen, record


def log_widths(kernel: Kernel, n_features: int) -> list[np.ndarray]:
    """The log widths, leaf by leaf, one value per column."""
    with np.errstate(divide="ignore"):
        return [np.log(arrays.to_numpy(leaf.sigma) * np.ones(n_features)) for leaf in kernel.leaves]


def _moved(kernel: Kernel, moves: list[np.ndarray]) -> Kernel:
    """The kernel with the log widths changed by `moves`."""
    return kernel.with_widths(
        [arrays.to_numpy(leaf.sigma) * np.exp(move) for leaf, move in zip(kernel.leaves, moves, strict=True)]
    )


def _between(kernels: list[Kernel]) -> Kernel:
    """The geometric mean of the widths of two kernels that differ in nothing else; equal widths stay as they are."""
    sigmas = []
    for first, second in zip(*(kernel.leaves for kernel in kernels), strict=True):
        a, b = arrays.to_numpy(first.sigma), arrays.to_numpy(second.sigma)
        sigmas.append(first.sigma if np.array_equal(a, b) else np.sqrt(a) * np.sqrt(b))
    return kernels[0].with_widths(sigmas)


def _sample(problem: Problem) -> Rows:
    """The sample of a search, sorted by class, as NumPy arrays."""
    known = problem.replace(**{name: arrays.to_numpy(getattr(problem, name)) for name in ("X", "y", "weights")})
    codes = known.labels[known.rows]
    counts = np.bincount(codes).astype(float)
    work = sum((counts[a] + counts[b]) ** 3 for a, b in pairs_of(len(counts))) or 1.0
    size = int(np.clip(len(codes) * (PLAN.class_work / work) ** (1 / 3), *PLAN.class_rows))
    draw = np.random.RandomState(0)
    chosen = draw.permutation(
        with_every_class(known, draw.permutation(known.rows), size)
    )  # the order within a class is random: files may be sorted
    chosen = chosen[np.argsort(known.labels[chosen], kind="stable")]
    unit = column_units(known)
    return Rows(known.with_basis().subset(chosen), unit, problem.C)


def column_units(problem: Problem) -> np.ndarray:
    """The spread of each column; the distance of the values of a binary column; 1 for constant columns.

    The standard deviation of a binary column with a rare value is small, and would give that value too much influence.
    """
    X = problem.X[problem.rows]
    low, high = X.min(axis=0), X.max(axis=0)
    two = np.all((low == X) | (high == X), axis=0)
    with np.errstate(over="ignore"):
        unit = np.where(two, high - low, column_spread(problem))
    return np.where(constant_columns(problem) | ~(unit > 0) | ~np.isfinite(unit), 1.0, unit)


def _common_widths(
    kernel: Kernel, halves: list[Rows], start: Setting, iterations: int
) -> tuple[float, Setting, list[Setting]]:
    """One width per leaf: the sum of the losses of both halves, the mean of their settings, and both settings."""
    d = halves[0].X.shape[1]
    first = kernel.with_width(math.sqrt(d), halves[0].unit) if kernel.is_free else kernel
    first.check(d)
    free = [leaf.sigma is None for leaf in kernel.leaves]
    settings, total = [], 0.0
    setting = replace(start, kernel=first)
    for half, most in zip(halves, (iterations, 6), strict=True):
        value, setting = ClassSearch(half, setting, free).run(most)
        settings.append(setting)
        total += value
    C = math.sqrt(settings[0].C) * math.sqrt(settings[1].C)
    return total, replace(setting, kernel=_between([one.kernel for one in settings]), C=C), settings


def _many_widths(halves: list[Rows], common: list[Setting], free: list[bool]) -> tuple[float, Kernel]:
    """One width per column: the gain on rows not used to choose it, in standard errors, and the kernel."""
    many = [
        ClassSearch(half, setting, free, many=True).run(20)[1] for half, setting in zip(halves, common, strict=True)
    ]
    gains, judged = [], []
    for half, setting, other in zip(halves, common, many[::-1], strict=True):
        start = replace(other, C=setting.C, slope=setting.slope)
        own = ClassSearch(half, start, free).run(4)[1]
        judged.append(own.kernel)
        gains.append(_row_losses(half, setting) - _row_losses(half, own))
    gain = np.concatenate(gains)
    error = float(gain.std()) / math.sqrt(len(gain)) + 1e-12
    return float(gain.mean()) / error, _between(judged)


def _row_losses(rows: Rows, setting: Setting) -> np.ndarray:
    """The leave-one-out log loss of every row, with the best slope."""
    values = _values(rows, rows.matrix(setting.kernel), setting, None)[0]
    return _log_losses(rows, setting.coding, values)


def _log_losses(rows: Rows, coding: str, values: np.ndarray) -> np.ndarray:
    """The log loss of every row for the best slope, with the targets of Platt (1999); see `coding.best_slope`."""
    if coding == "one-vs-one" and rows.n_classes > 2:
        return pair_losses(values, rows.codes, rows.weights, rows.n_classes)[1]
    f = np.column_stack([0.0 * values, values]) if rows.n_classes == 2 else values
    aims = platt_aims(rows.codes, rows.weights, rows.n_classes)
    return best_slope(lambda slope: softmax(slope * f, axis=1), rows.codes, rows.weights, aims)[1]


def _values(rows: Rows, K: np.ndarray, setting: Setting, warm: Any) -> tuple[np.ndarray, Any]:
    """Leave-one-out values (decision values of rows that are not part of a problem), and a warm start."""
    columns = rows.columns(setting.coding)
    if not rows.by_pairs(setting.coding) and setting.loss == "squared":
        targets = np.column_stack([t for _, t in columns])
        return solve_squares(K, targets, rows.weights, setting.C)[2], None
    coef, intercept, decision, loo = Stacks(columns, rows.weights).solve(K, setting.C, setting.loss, warm)
    if len(columns) > 1 and rows.by_pairs(setting.coding):
        values = K @ coef + intercept[None, :]
        for number, (own, _) in enumerate(columns):
            values[own, number] = loo[own, number]
        return values, decision
    return loo, decision


def _simplest(compared: list[tuple[np.ndarray, Setting]]) -> Setting:
    """The setting with the smallest log loss, or with the squared loss if it is worse by at most one standard error."""
    losses, best = min(compared, key=lambda candidate: candidate[0].mean())
    for others, setting in sorted(compared, key=lambda candidate: candidate[0].mean()):
        gap = others - losses
        if (setting.loss, setting.coding) == ("squared", best.coding) and gap.mean() <= gap.std() / math.sqrt(len(gap)):
            return setting
    return best


def _best_C(rows: Rows, setting: Setting, *, known: bool = False, near: bool = False) -> tuple[np.ndarray, Setting]:
    """The weighted log losses of all rows with the best C, and the setting; `known`: C is that of the setting."""
    K = rows.matrix(setting.kernel)
    best: tuple[float, float, np.ndarray] = (math.inf, setting.C, np.zeros(0))
    warm: Any = None
    by_pairs = rows.by_pairs(setting.coding)
    scorer = ClassSearch(rows, setting, [False] * len(setting.kernel.leaves))

    def value(log_C: float) -> float:
        nonlocal best, warm
        progress.did(rows.work)
        try:
            values, warm = _values(rows, K, replace(setting, C=math.exp(log_C)), warm)
        except NumericalError:
            return 1e10
        own = values if not by_pairs else np.where(scorer.signs != 0.0, values, np.nan)
        found = optimize.minimize_scalar(
            lambda log_slope: scorer._score(own, math.exp(log_slope))[0],
            bounds=(-3.0, 6.0),
            method="bounded",
            options={"xatol": 0.05},
        )
        score = float(found.fun) + 0.5 * ((log_C - math.log(PLAN.class_C)) / PLAN.class_C_prior) ** 2
        if score < best[0]:
            best = (score, math.exp(log_C), values)
        return score

    start = math.log(setting.C)
    if known or rows.C is not None:
        value(start)
    else:
        reach = {"squared": (-2.0, 2.0), "squared_hinge": (-2.0, 4.0), "logistic": (0.0, 5.0)}[setting.loss]
        reach = (-1.5, 1.5) if near else reach
        bounds = (start + reach[0], start + reach[1])
        optimize.minimize_scalar(value, bounds=bounds, method="bounded", options={"xatol": 0.3, "maxiter": 6})
    if not len(best[2]):
        return np.full(len(rows.codes), 1e10), setting
    losses = _log_losses(rows, setting.coding, best[2])
    return losses * rows.weights / rows.weights.mean(), replace(setting, C=best[1])
