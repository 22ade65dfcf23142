"""The weights of the members of a stack, from their leave-one-out predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..coding import SURE
from ..losses import LOG_LINKS
from ..tune.constants import chosen_widths
from ..tune.leave_one_out import average_weights, mixture_weights, residuals_of_folds, weighs_by_folds


def weigh_members(members: Sequence[Any], given: Sequence[float] | None) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the weights of the members, and the mean squares or log losses of the members and of their average."""
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
            found = average_weights(residuals_of_folds(problems), weights)
        elif found is None:
            widths = [0 if problem is None else chosen_widths(problem) for problem in problems]
            found = average_weights(residuals, weights, widths)
        losses = np.stack([np.sum(r**2, axis=1) for r in (*residuals, np.tensordot(found, residuals, axes=1))])
    means = np.average(losses, axis=1, weights=weights)
    return found, means[:-1], float(means[-1])
