"""The search for a classifier: widths, C, loss and coding by the log loss of leave-one-out values.

All models are dense, on a sample of rows. Widths and C follow the gradient of

    sum_i w_i log(1 + sum_b exp(-s V_ib)),

where V_ib is the leave-one-out value of row i for the pair of its class and class b, positive if it is correct, and the
slope s is searched as well. One width per column is searched on each half of the sample and evaluated on the other
half: the leave-one-out error of the rows by which many widths were chosen is too optimistic.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.utils import Bunch

from .. import arrays, progress
from ..arrays import NumericalError
from ..coding import best_slope, pair_losses, pairs_of, platt_aims, vertex
from ..kernels import Kernel
from ..problem import Problem, column_spread, columns_by_input, constant_columns
from ..system.newton import solve_squares
from .class_search import ClassSearch, Rows, Setting, log_widths
from .plan import PLAN
from .samples import with_every_class

LARGER_C = {"squared": 1.0, "squared_hinge": 2.7, "logistic": 12.0}  # usual ratios of C to that of squares


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
    simplest = Setting(kernels[0], problem.C or 10.0, codings[0], leading)
    halves = (
        [rows.part(np.arange(start, len(rows.codes), 2)) for start in (0, 1)] if len(rows.codes) > 3 else [rows] * 2
    )
    record = Bunch(evaluations=0, plan=[], candidates=[])
    record.plan.append(f"{len(kernels)} kernels with common widths on {len(rows.codes)} rows")
    starts: list[tuple[float, Setting, list[Setting]]] = []
    for kernel in kernels:  # the others start from the first
        starts.append(_common_widths(kernel, halves, simplest, starts[0][2] if starts else []))
    best = min(range(len(kernels)), key=lambda number: starts[number][0])
    free = [leaf.sigma is None for leaf in kernels[best].leaves]
    found = [start[1] for start in starts]
    if any(leaf.ard and leaf.sigma is None for leaf in kernels[best].leaves) and problem.inputs[-1] > 0:
        gain, many = _many_widths(halves, starts[best][2], free)
        record.update(gain=gain)
        if gain > PLAN.class_worth:
            moves = [
                a - b
                for a, b in zip(
                    *(log_widths(k, problem.X.shape[1]) for k in (many.kernel, found[best].kernel)), strict=True
                )
            ]
            factor = many.C / found[best].C
            for number, kernel in enumerate(kernels):
                same = [leaf.sigma is None and leaf.ard for leaf in kernel.leaves]
                if same == [leaf.sigma is None and leaf.ard for leaf in kernels[best].leaves]:
                    old = found[number]
                    found[number] = replace(old, kernel=_moved(old.kernel, moves), C=old.C * factor)
            record.plan.append("one width per column")
        else:
            record.plan.append("one common width, in units of each column's spread: one per column gains too little")
    compared = [_best_C(rows, found[best])]
    growth = compared[0][1].C / found[best].C  # the best C of all rows over that of a half, for all that is compared
    for number, setting in enumerate(found):
        if number != best:
            far = starts[number][0] > starts[best][0] + PLAN.class_hopeless
            compared.append(_best_C(rows, replace(setting, C=growth * setting.C), known=far))
    first = min(compared, key=lambda candidate: candidate[0].mean())[1]
    others = [(codings[0], loss) for loss in losses if loss != leading]
    others += [(coding, leading) for coding in codings[1:]]
    for coding, loss in others:
        start = first.C / growth * LARGER_C[loss] / LARGER_C[leading]
        setting = _best_C(halves[0], replace(first, C=start, coding=coding, loss=loss), step=1.5)[1]
        compared.append(_best_C(rows, replace(setting, C=setting.C * growth), known=True))
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
    if chosen.loss != leading:
        chosen = _best_C(rows, chosen)[1]
    record.evaluations = rows.evaluations + sum(half.evaluations for half in halves)
    record.plan.append(f"{len(compared)} classifiers compared by their log loss")
    record.update(C=chosen.C, widths=[arrays.to_numpy(leaf.sigma) for leaf in chosen.kernel.leaves], free=free)
    return chosen, record


def _moved(kernel: Kernel, moves: list[np.ndarray]) -> Kernel:
    """The kernel with the log widths changed by `moves`."""
    return kernel.with_widths(
        [arrays.to_numpy(leaf.sigma) * np.exp(move) for leaf, move in zip(kernel.leaves, moves, strict=True)]
    )


def _mean(settings: list[Setting]) -> Setting:
    """The geometric means of C and of the widths of settings that differ in nothing else."""
    sigmas = []
    for leaves in zip(*(setting.kernel.leaves for setting in settings), strict=True):
        widths = [arrays.to_numpy(leaf.sigma) for leaf in leaves]
        equal = all(np.array_equal(width, widths[0]) for width in widths)
        sigmas.append(leaves[0].sigma if equal else np.exp(np.mean(np.log(widths), axis=0)))
    C = math.exp(float(np.mean([math.log(setting.C) for setting in settings])))
    return replace(settings[0], kernel=settings[0].kernel.with_widths(sigmas), C=C)


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
    """The spread of each column; the difference of the values of a binary column; 1 for constant columns.

    The standard deviation of a binary column with a rare value is small, and would give that value too much influence.
    The unit of a category is that of its columns: two of its values have the squared distance 2, as have two values of
    a number on average. The errors of seven raw tables were 0.6 % larger with sqrt(2) times this unit, and 4 % with
    1/sqrt(2) of it.
    """
    X = problem.X[problem.rows]
    low, high = X.min(axis=0), X.max(axis=0)
    two = np.all((low == X) | (high == X), axis=0)
    with np.errstate(over="ignore"):
        distance = high - low
        if problem.groups is not None:
            members = columns_by_input(problem.groups)
            two = np.array([two[own].all() for own in members])[problem.groups]
            distance = np.array([distance[own].max() for own in members])[problem.groups]
        unit = np.where(two, distance, column_spread(problem))
    return np.where(constant_columns(problem) | ~(unit > 0) | ~np.isfinite(unit), 1.0, unit)


def _common_widths(
    kernel: Kernel, halves: list[Rows], start: Setting, others: list[Setting]
) -> tuple[float, Setting, list[Setting]]:
    """One width per leaf: the sum of the losses of both halves, the mean of their settings, and both settings.

    `others` are settings of the halves with another kernel. Without them, the second half starts from the first.
    """
    d = halves[0].X.shape[1]
    inputs = halves[0].problem.inputs[-1] + 1
    first = kernel.with_width(math.sqrt(inputs), halves[0].unit) if kernel.is_free else kernel
    first.check(d)
    free = [leaf.sigma is None for leaf in kernel.leaves]
    settings, total = [], 0.0
    setting = replace(start, kernel=first)
    for number, half in enumerate(halves):
        if others:
            setting = replace(others[number], kernel=_with_widths_of(others[number].kernel, first, free))
        value, setting = ClassSearch(half, setting, free).run(12)
        settings.append(setting)
        total += value
    return total, _mean(settings), settings


def _with_widths_of(other: Kernel, kernel: Kernel, free: list[bool]) -> Kernel:
    """The kernel with the widths of another one where they are free, if both have as many leaves."""
    if len(other.leaves) != len(kernel.leaves):
        return kernel
    pairs = zip(free, other.leaves, kernel.leaves, strict=True)
    return kernel.with_widths([theirs.sigma if own else leaf.sigma for own, theirs, leaf in pairs])


def _many_widths(halves: list[Rows], common: list[Setting], free: list[bool]) -> tuple[float, Setting]:
    """One width per column: the gain on rows not used to choose it, in standard errors, and the setting.

    The widths of each half are judged on the other one; the second half is not searched if the first widths lose.
    """
    gains: list[np.ndarray] = []
    judged: list[Setting] = []
    for own, other in ((0, 1), (1, 0)):
        found = ClassSearch(halves[own], common[own], free, many=True).run(20)[1]
        setting = ClassSearch(halves[other], found, free).run(6)[1]
        gains.append(_row_losses(halves[other], common[other]) - _row_losses(halves[other], setting))
        judged.append(setting)
        if gains[0].mean() <= 0.0:
            break
    gain = np.concatenate(gains)
    error = float(gain.std()) / math.sqrt(len(gain)) + 1e-12
    return float(gain.mean()) / error, _mean(judged)


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
    coded = rows.coded(setting.coding)
    if not coded.by_pairs and setting.loss == "squared":
        return solve_squares(K, coded.targets, rows.weights, setting.C)[2], None
    coef, intercept, decision, loo = coded.stacks.solve(K, setting.C, setting.loss, warm)
    if len(coded.columns) > 1 and coded.by_pairs:
        values = K @ coef + intercept[None, :]
        for number, (own, _) in enumerate(coded.columns):
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


def _best_C(rows: Rows, setting: Setting, *, step: float = 1.0, known: bool = False) -> tuple[np.ndarray, Setting]:
    """The weighted log losses of all rows with the best C, and the setting; `known`: C is that of the setting.

    log C is searched from that of the setting, up to two steps away.
    """
    K = rows.matrix(setting.kernel)
    best: tuple[float, float, np.ndarray] = (math.inf, setting.C, np.zeros(0))
    warm: Any = None

    def value(log_C: float) -> float:
        nonlocal best, warm
        progress.did(rows.work)
        try:
            values, warm = _values(rows, K, replace(setting, C=math.exp(log_C)), warm)
        except NumericalError:
            return 1e10
        score = rows.coded(setting.coding).score(values)[0]
        score += 0.5 * ((log_C - math.log(PLAN.class_C)) / PLAN.class_C_prior) ** 2
        if score < best[0]:
            best = (score, math.exp(log_C), values)
        return score

    start = math.log(setting.C)
    if known or rows.C is not None:
        value(start)
    else:
        value(vertex(value, start, step, 1))
    if not len(best[2]):
        return np.full(len(rows.codes), 1e10), setting
    losses = _log_losses(rows, setting.coding, best[2])
    return losses * rows.weights / rows.weights.mean(), replace(setting, C=best[1])
