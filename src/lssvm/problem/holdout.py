"""The one rule by which rows are held out at random."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .problem import Problem


def held_out_rows(problem: Problem, share: float, random_state: Any) -> np.ndarray:
    """Sorted numbers of a random share of the rows with positive weight, at least one; for classes, stratified.

    Every class keeps a row to train on, unless all classes have a single row.
    """
    draw, labels = check_random_state(random_state), problem.labels if problem.classification else None
    count = len(problem.rows)
    if count < 2:
        raise ValueError(f"{count} row with positive weight is too few to hold rows out: use at least 2 rows.")
    groups = [problem.rows]
    if labels is not None:
        groups = [problem.rows[labels[problem.rows] == label] for label in np.unique(labels[problem.rows])]
    # The i-th of the n rows of a class has the place (i + 1/2)/n; rows with the first places are held out.
    places = [np.append((np.arange(len(rows) - 1) + 0.5) / len(rows), np.inf) for rows in groups]
    drawn = np.concatenate([draw.permutation(rows) for rows in groups])[
        np.argsort(np.concatenate(places), kind="stable")
    ]
    return np.sort(drawn[: max(1, min(round(share * count), count - len(groups)))])
