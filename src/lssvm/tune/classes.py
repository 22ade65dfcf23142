"""The search for a classifier: widths, C, loss and coding by the log loss of leave-one-out values.

All models are dense, on a sample of rows. Widths and C follow the gradient of

    sum_i w_i log(1 + sum_b exp(-s V_ib)),

where V_ib is the leave-one-out value of row i for the pair of its class and class b, positive if it is correct, and the
slope s is searched as well. One width per column is searched on each half of the sample and evaluated on the other
half: the leave-one-out error of the rows by which many widths were chosen is too optimistic. The same holds for columns
that are dropped.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from .. import arrays, progress
from .._words import counted
from ..coding import pair_work
from ..kernels import Kernel
from ..problem import Problem, column_spread, columns_by_input, constant_columns, ranks_of
from .choose_C import mean_weight
from .class_columns import ColumnSearch, mean_of
from .class_losses import best_C
from .class_search import ClassSearch, Rows, Setting, log_widths
from .constants import CONSTANTS
from .samples import in_memory, part_of, with_every_class

FEWEST = 4  # rows per class, for two in each half: leave-one-out of a single row says nothing about its class
LARGER_C = {"squared": 1.0, "squared_hinge": 2.7, "logistic": 12.0}  # usual ratios of C to that of squares


def choose_classifier(
    problem: Problem, codings: tuple[str, ...], losses: tuple[str, ...]
) -> tuple[Setting, Bunch | None]:
    """The classifier with the smallest log loss of leave-one-out values, and a record of the comparison.

    A common width is searched for each kernel on both halves of a sample; then one width per column, or fewer columns,
    if they lower the log loss of the other half; then C on the whole sample, for each kernel, and for each coding and
    loss with the best kernel.
    """
    if problem.is_known:
        return Setting(problem.kernel, float(problem.C or 1.0), codings[0], losses[0]), None
    unit = mean_weight(problem)  # C times the weights is all that a fit depends on, but the priors of C need a unit
    scaled = problem.replace(weights=problem.weights / unit, C=None if problem.C is None else problem.C * unit)
    rows = _sample(scaled)
    with progress.expect(lambda: (10.0 if problem.kernel.is_free else 2.0) * rows.work()):
        setting, record = _chosen(scaled, rows, codings, losses)
    for candidate in (record, *record.candidates):
        candidate.C = problem.C or candidate.C / unit
    return replace(setting, C=record.C), record


def _chosen(problem: Problem, rows: Rows, codings: tuple[str, ...], losses: tuple[str, ...]) -> tuple[Setting, Bunch]:
    kernels = list(problem.kernel.parts) if problem.kernel.is_choice else [problem.kernel]
    n_classes = rows.n_classes
    codings = ("one-vs-one",) if n_classes == 2 else codings
    leading = "squared" if "squared" in losses else losses[0]
    simplest = Setting(kernels[0], problem.C or 10.0, codings[0], leading)
    # alternate rows or, if most classes have too few rows for that, the rows of alternate classes
    few = rows.n_classes > 3 and np.median(np.bincount(rows.codes)) < FEWEST
    numbers = rows.codes if few else np.arange(len(rows.codes))
    halves = (
        [rows.part(np.flatnonzero(numbers % 2 == start)) for start in (0, 1)] if len(rows.codes) > 3 else [rows] * 2
    )
    record = Bunch(evaluations=0, plan=[], candidates=[])
    record.plan.append(f"{counted(len(kernels), 'kernel')} with common widths on {len(rows.codes)} rows")
    starts: list[tuple[float, Setting, list[Setting]]] = []
    for kernel in kernels:  # the others start from the first
        starts.append(_common_widths(kernel, halves, simplest, starts[0][2] if starts else []))
    best = min(range(len(kernels)), key=lambda number: starts[number][0])
    free = [leaf.sigma is None for leaf in kernels[best].leaves]
    found = [start[1] for start in starts]
    if any(leaf.ard and leaf.sigma is None for leaf in kernels[best].leaves) and rows.n_inputs > 1:
        many = ColumnSearch(rows, halves, starts[best][2], free).run()
        if many is not None:
            before, after = (log_widths(k, problem.X.shape[1]) for k in (found[best].kernel, many.kernel))
            moves = [_moves(old, new) if own else 0.0 for old, new, own in zip(before, after, free, strict=True)]
            factor = many.C / found[best].C
            several = [own and leaf.ard for own, leaf in zip(free, kernels[best].leaves, strict=True)]
            for number, kernel in enumerate(kernels):
                if [leaf.sigma is None and leaf.ard for leaf in kernel.leaves] == several:
                    old = found[number]
                    found[number] = replace(old, kernel=_moved(old.kernel, kernel, moves), C=old.C * factor)
            record.plan.append("one width per column")
        else:
            record.plan.append("one common width, in units of each column's spread: one per column gains too little")
    compared = [best_C(rows, found[best])]
    growth = compared[0][1].C / found[best].C  # the best C of all rows over that of a half, for all that is compared
    for number, setting in enumerate(found):
        if number != best:
            far = starts[number][0] > starts[best][0] + CONSTANTS.class_hopeless
            compared.append(best_C(rows, replace(setting, C=growth * setting.C), known=far))
    first = min(compared, key=lambda candidate: candidate[0].mean())[1]
    others = [(codings[0], loss) for loss in losses if loss != leading]
    others += [(coding, leading) for coding in codings[1:]]
    for coding, loss in others:
        start = first.C / growth * LARGER_C[loss] / LARGER_C[leading]
        setting = best_C(halves[0], replace(first, C=start, coding=coding, loss=loss), step=1.5)[1]
        compared.append(best_C(rows, replace(setting, C=setting.C * growth), known=True))
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
    chosen = _simplest(compared, codings[0])
    if chosen.loss != leading:
        chosen = best_C(rows, chosen)[1]
    record.evaluations = rows.evaluations + sum(half.evaluations for half in halves)
    record.plan.append(f"{len(compared)} classifiers compared by their log loss")
    record.update(C=chosen.C, widths=[arrays.to_numpy(leaf.sigma) for leaf in chosen.kernel.leaves], free=free)
    return chosen, record


def with_C_of_more_rows(problem: Problem, setting: Setting, record: Bunch) -> Problem:
    """The problem of two classes with a basis, with C chosen on more rows than the search used.

    After a search of many widths, the leave-one-out losses of its sample are too small, and its C may be too large. A
    third of the rows and a third of the basis have as many rows per basis point as the whole. If rows are repeated, C
    does not rise: copies are more frequent in a larger sample, and the larger C, the smaller their leave-one-out loss.
    """
    rows, basis = (round(CONSTANTS.class_C_part * size) for size in (len(problem.rows), problem.basis_size))
    if problem.is_dual or problem.y.shape[1] > 1 or rows <= _sample_size(problem):
        return problem
    unit = mean_weight(problem)
    part = _as_numpy(in_memory(part_of(problem.replace(weights=problem.weights / unit), rows, basis)))
    sample = Rows(part, np.ones(part.X.shape[1]), None)
    with progress.expect(lambda: 8.0 * sample.work()):
        C = best_C(sample, replace(setting, C=setting.C * unit), step=1.5, moves=4)[1].C / unit
    ranks = ranks_of(part.X)
    if C > setting.C and len(np.unique(ranks, axis=0)) < len(ranks):
        C = setting.C
    record.C = C
    record.evaluations += sample.evaluations
    record.plan.append(f"C on {len(part.X)} rows with {counted(part.basis_size, 'basis point')}")
    return problem.replace(C=C)


def _moves(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """The changes of log widths; 0 for columns that were dropped before."""
    return np.subtract(new, old, out=np.zeros_like(new), where=np.isfinite(old))


def _moved(kernel: Kernel, asked: Kernel, moves: list[Any]) -> Kernel:
    """The kernel with the log widths changed by `moves` where the user has asked for a choice."""
    leaves = zip(kernel.leaves, asked.leaves, moves, strict=True)
    return kernel.with_widths(
        [
            leaf.sigma if given.sigma is not None else arrays.to_numpy(leaf.sigma) * np.exp(move)
            for leaf, given, move in leaves
        ]
    )


def _sample(problem: Problem) -> Rows:
    """The sample of a search, sorted by class, as NumPy arrays."""
    known = _as_numpy(problem)
    order = known.rows_by_content  # within a class, too: files may be sorted
    chosen = order[np.isin(order, with_every_class(known, order, _sample_size(known)))]
    chosen = chosen[np.argsort(known.labels[chosen], kind="stable")]
    unit = column_units(known)
    return Rows(known.with_basis().subset(chosen), unit, problem.C)


def _sample_size(problem: Problem) -> int:
    """The number of rows of that sample, before rows of rare classes are added."""
    counts = np.bincount(problem.labels[problem.rows]).astype(float)
    work = pair_work(counts) or 1.0
    return int(np.clip(counts.sum() * (CONSTANTS.class_work / work) ** (1 / 3), *CONSTANTS.class_rows))


def _as_numpy(problem: Problem) -> Problem:
    changes = {name: arrays.to_numpy(getattr(problem, name)) for name in ("X", "y", "weights")}
    return problem.replace(**changes, points=None if problem.points is None else arrays.to_numpy(problem.points))


def column_units(problem: Problem) -> np.ndarray:
    """The spread of each column; the difference of the values of a binary column; infinite for constant columns.

    The standard deviation of a binary column with a rare value is small, and would give that value too much influence.
    The unit of a category is that of its columns: two of its values have the squared distance 2, as have two values of
    a number on average. The errors of seven raw tables were 0.6 % larger with sqrt(2) times this unit, and 4 % with
    1/sqrt(2) of it.
    """
    X = problem.X[problem.rows]
    low, high = X.min(axis=0), X.max(axis=0)
    two = np.array([len(np.unique(ranks)) == 2 for ranks in ranks_of(X).T])
    with np.errstate(over="ignore"):
        distance = high - low
        if problem.groups is not None:
            members = columns_by_input(problem.groups)
            two = np.array([two[own].all() for own in members])[problem.groups]
            distance = np.array([distance[own].max() for own in members])[problem.groups]
        unit = np.where(two, distance, column_spread(problem))
    unit = np.where((unit > 0) & np.isfinite(unit), unit, 1.0)
    return np.where(constant_columns(problem), math.inf, unit)  # their widths are infinite from the start


def _common_widths(
    kernel: Kernel, halves: list[Rows], start: Setting, others: list[Setting]
) -> tuple[float, Setting, list[Setting]]:
    """One width per leaf: the sum of the losses of both halves, the mean of their settings, and both settings.

    `others` are settings of the halves with another kernel. Without them, the second half starts from the first.
    """
    d = halves[0].X.shape[1]
    first = kernel.with_width(math.sqrt(halves[0].n_inputs), halves[0].unit) if kernel.is_free else kernel
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
    return total, mean_of(settings), settings


def _with_widths_of(other: Kernel, kernel: Kernel, free: list[bool]) -> Kernel:
    """The kernel with the widths of another one where they are free, if both have as many leaves."""
    if len(other.leaves) != len(kernel.leaves):
        return kernel
    pairs = zip(free, other.leaves, kernel.leaves, strict=True)
    return kernel.with_widths([theirs.sigma if own else leaf.sigma for own, theirs, leaf in pairs])


def _simplest(compared: list[tuple[np.ndarray, Setting]], coding: str) -> Setting:
    """The setting with the smallest log loss, or with the squared loss if it is worse by at most one standard error.

    Among those with the squared loss, one with the given coding is preferred in the same way: with a basis, all rows
    are fitted by it, and pairs of classes need fewer points than all classes together.
    """
    order = sorted(compared, key=lambda candidate: candidate[0].mean())
    losses, best = order[0]
    for wanted in (coding, best.coding):
        for others, setting in order:
            gap = others - losses
            close = gap.mean() <= gap.std() / math.sqrt(len(gap))
            if close and (setting.loss, setting.coding) == ("squared", wanted):
                return setting
    return best
