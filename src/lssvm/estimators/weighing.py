"""The weights of the members of a stack, from their leave-one-out predictions, and searches repeated for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .. import arrays
from ..coding import SURE
from ..losses import LOG_LINKS
from ..problem import Problem
from ..tune.constants import chosen_widths
from ..tune.leave_one_out import (
    FOLDS,
    as_requested,
    average_weights,
    mixture_weights,
    residuals_of_folds,
    weighs_by_folds,
    with_chosen_kernel,
)

SEARCHES = 3  # For honest errors, the search is repeated without each of three folds: about as much work as the fit.
# With fewer rows per parameter that is searched, leave-one-out residuals are too small for intervals and, with fewer
# than the second number, for errors, which large residuals dominate (see docs/intervals.md). Of 15 public tables of 150
# rows or more, 14 had estimates within 0.8 to 1.25 times the actual error, and 13 with 25 for both. With 50 for both,
# the intervals of one were far too wide. `tune.CONSTANTS.width_rows` is another quantity: where the prior widens.
ROWS_PER_WIDTH, ROWS_FOR_ERRORS = 25, 50


def weigh_members(
    members: Sequence[Any], given: Sequence[float] | None
) -> tuple[np.ndarray, np.ndarray, float, list[Any]]:
    """Return the weights of members, the mean squares or log losses of them and of their average, and the members.

    If the weights come from searches that are repeated without folds, the members keep what follows from these.
    """
    rows: list[Any] = [member.loo_values for member in members]
    problems: list[Any] = [member.problem for member in members]
    weights, found = rows[0].given, None if given is None else np.array(given)
    if members[0].layout.classes is not None:
        places = np.arange(len(weights)), rows[0].codes
        parts = zip(members, rows, strict=True)
        own = np.maximum([member.loo_probabilities(one)[places] for member, one in parts], SURE)
        found = mixture_weights(own, weights) if found is None else found
        losses = -np.log(np.vstack([own, found @ own]))
    else:
        residuals = np.stack([one.residuals for one in rows])
        if members[0].loss in LOG_LINKS:  # in units of the standard deviations of the targets
            means = np.mean([one.predicted for one in rows], axis=0)
            residuals = residuals / means ** (0.5 * LOG_LINKS[members[0].loss].power)
        if found is None and all(problems) and weighs_by_folds(problems):
            folds, requested = problems[0].parts(FOLDS), [as_requested(problem) for problem in problems]
            again = residuals_of_folds(requested, folds, stacked=True)
            loo = [arrays.to_numpy(member.fit.loo_residuals) for member in members]
            honest = with_search(problems, folds, again, loo)
            pairs = zip(members, honest, strict=True)
            members = [replace(member, honest=own) for member, own in pairs]
            pairs = zip(members, again, strict=True)
            found = average_weights(np.nan_to_num([member.original(own) for member, own in pairs]), weights)
        elif found is None:
            widths = [0 if problem is None else chosen_widths(problem) for problem in problems]
            found = average_weights(residuals, weights, widths)
        losses = np.stack([np.sum(r**2, axis=1) for r in (*residuals, np.tensordot(found, residuals, axes=1))])
    means = np.average(losses, axis=1, weights=weights)
    return found, means[:-1], float(means[-1]), list(members)


def few_rows(problem: Problem, least: int) -> int:
    """Return how many parameters (widths and C) were searched, if there are fewer than `least` rows for each; else 0.

    Columns that were dropped count, because choosing the others was a part of the search.
    """
    if problem.asked is None or problem.kernel.is_precomputed or len(problem.rows) < 4:
        return 0
    kernel, C = problem.asked
    leaves = [] if kernel is None else with_chosen_kernel(kernel, problem.kernel).leaves
    widths = [problem.spreads.varying_inputs if leaf.ard else 1 for leaf in leaves if leaf.sigma is None]
    searched = sum(widths) + (C is None) if widths else 0  # C alone can hardly overfit
    return searched if least * searched > len(problem.rows) else 0


def searched_again(
    problems: Sequence[Problem], labels: np.ndarray | None, loo: Sequence[np.ndarray], *, stacked: bool
) -> list[np.ndarray]:
    """Return the residuals (rows, outputs) of problems whose search is repeated without each fold.

    With `labels`, they are those of the rows of each fold (-1: none). Without labels, they are leave-one-out residuals
    that include the search: s (f - g) is added to `loo`, where f and g are the predictions without one of K folds, g
    with widths and C that were also chosen without it. s^2 = 1 - 1/K: errors of that choice are inversely proportional
    to the number of rows.
    """
    if len({problem.rows.tobytes() for problem in problems}) > 1:
        pairs = zip(problems, loo, strict=True)
        return [searched_again([one], labels, [own], stacked=stacked)[0] for one, own in pairs]
    if labels is None:
        folds = problems[0].parts(SEARCHES)
    else:
        folds = [np.flatnonzero(labels == number) for number in range(labels.max() + 1)]
    requested = [
        # of a `Choice`, only the kernel that was chosen
        p if p.asked is None else p.replace(asked=(with_chosen_kernel(p.asked[0], p.kernel), p.asked[1]))
        for p in problems
    ]
    found = residuals_of_folds([as_requested(problem) for problem in requested], folds, stacked=stacked)
    return found if labels is not None else with_search(problems, folds, found, loo)


def with_search(
    problems: Sequence[Problem], folds: Sequence[np.ndarray], found: Sequence[np.ndarray], loo: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Return leave-one-out residuals that include the search, from those `found` by repeating it without folds."""
    fixed = residuals_of_folds([problem.replace(asked=None) for problem in problems], folds, stacked=True)
    share = math.sqrt(1.0 - 1.0 / len(folds))
    return [own + share * (g - f) for own, g, f in zip(loo, found, fixed, strict=True)]


def with_searches(fitted: Any, labels: np.ndarray | None) -> Any:
    """Return a fitted model with residuals of repeated searches, where they can be computed.

    With `labels`, they are those of given folds; without, leave-one-out residuals that include the search.
    """
    again = [member for member in fitted.members if member.problem is not None and not member.problem.reduced]
    if all(member.residuals_of_searches(labels) is not None for member in again):
        return fitted
    problems, loo = [m.problem for m in again], [arrays.to_numpy(m.fit.loo_residuals) for m in again]
    found = searched_again(problems, labels, loo, stacked=fitted.is_listed)
    new: list[dict[str, Any]] = [{"honest": own} if labels is None else {"searched": (labels, own)} for own in found]
    changed = {id(member): replace(member, **one) for member, one in zip(again, new, strict=True)}
    return replace(fitted, members=tuple(changed.get(id(member), member) for member in fitted.members))
