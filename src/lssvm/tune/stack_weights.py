"""Convex weights of stacked models from their leave-one-out values (Yao, Vehtari, Simpson & Gelman 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy

from ..arrays import EPS

HUBER = 2.5  # robust scales of the residuals beyond which their loss grows linearly
PULL = 20.0  # strength of the pull away from single members, in rows: see docs/theory.md
OPTIMISM = 6.0  # squared robust scales by which leave-one-out is too optimistic in sum, per chosen width
ITERATIONS = 20  # of reweighting; the weights have settled to three digits long before
SMALLEST = 0.1  # smaller weights are set to 0, with more than 5 members those below half an equal share
SMALLEST_SHARE = 0.01  # the same for mixtures of probabilities


def average_weights(residuals: np.ndarray, weights: np.ndarray, widths: Sequence[int] | None = None) -> np.ndarray:
    """Weights w >= 0 with sum 1 of members whose leave-one-out residuals are given: (members, rows, outputs).

    They minimise the Huber loss of the residuals sum_k w_k r_k, summed over the rows with their sample weights, plus a
    multiple of sum_k (w_k s_k)^2, where s_k is the robust scale of the residuals of member k. It pulls the weights
    towards 1/s_k^2, as if the members were independent: small differences between them are noise. Another penalty, per
    width that the member has chosen, makes up for the optimism of its leave-one-out residuals.
    """
    largest = np.max(np.abs(residuals), axis=(0, 1))  # whose squares neither overflow nor underflow
    R = residuals / np.where(largest > 0, largest, 1.0)
    unit = np.sqrt(np.min(np.average(R**2, axis=1, weights=weights), axis=0))  # outputs count equally
    R = (R / np.where(unit > 0, unit, 1.0)).reshape(len(residuals), -1)
    v = np.repeat(weights / (weights.sum() * residuals.shape[2]), residuals.shape[2])
    optimism = OPTIMISM * np.zeros(len(R)) if widths is None else OPTIMISM * np.asarray(widths)
    own = 1.4826 * np.median(np.abs(R[:, v > 0]), axis=1)
    found = np.eye(len(R))[np.argmin(own)]
    for _ in range(ITERATIONS):
        size = np.abs(found @ R)
        scale = 1.4826 * float(np.median(size[v > 0]))
        factors = np.minimum(1.0, HUBER * scale / np.where(size > 0, size, 1.0)) if scale > 0 else np.ones_like(size)
        # a linear term c'w is (1'w)(c'w), because the weights sum to 1
        more = (PULL * np.diag(own**2) + 0.5 * scale**2 * (optimism[:, None] + optimism[None, :])) / np.sum(v > 0)
        before, found = found, _smallest_square((R * (v * factors)) @ R.T + more)
        if np.max(np.abs(found - before)) < 1e-6:
            break
    return _without_small(found, min(SMALLEST, 0.5 / len(found)))


class Stage(NamedTuple):
    """What the weight of a member of a stack depends on, on the rows of a stage of the search."""

    residuals: np.ndarray  # leave-one-out, (rows, outputs)
    weights: np.ndarray  # of the rows
    widths: int  # how many it has chosen


def stage_weights(members: Sequence[Stage]) -> np.ndarray:
    """The weights of members on a stage whose rows, and the weights of the rows, they share."""
    residuals, weights, widths = zip(*members, strict=True)
    return average_weights(np.stack(residuals), weights[0], widths)


def _smallest_square(Q: np.ndarray) -> np.ndarray:
    """The minimum of w'Qw over w >= 0 with sum 1.

    A form q(w) without linear terms has its minimum over the simplex in the direction of that of q(w) + (1 - sum w)^2
    over all w >= 0, because the latter is q/(1 + q) along every direction.
    """
    count, size = len(Q), float(np.trace(Q))
    if size == 0.0:
        return np.full(count, 1.0 / count)
    values, vectors = np.linalg.eigh(Q / size)
    root = np.sqrt(np.maximum(values, EPS))[:, None] * vectors.T
    found, _ = scipy.optimize.nnls(np.vstack([root, np.ones(count)]), np.append(np.zeros(count), 1.0))
    return np.asarray(found / found.sum())


def mixture_weights(own: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weights w >= 0 with sum 1 that maximise sum_i v_i log(sum_k w_k p_ki), by the EM algorithm.

    `own` are the leave-one-out probabilities (members, rows) of the true classes.
    """
    count = len(own)
    found = np.full(count, 1.0 / count)
    for _ in range(1000):
        share = found[:, None] * own
        counts = (share / share.sum(axis=0)) @ weights
        before, found = found, counts / counts.sum()
        if np.max(np.abs(found - before)) < 1e-8:
            break
    return _without_small(found, min(SMALLEST_SHARE, 0.5 / count))


def _without_small(weights: np.ndarray, least: float) -> np.ndarray:
    """Without the members that would take as much time as any other in a fit and in every prediction, for little."""
    kept = np.where(weights < least, 0.0, weights)
    return np.asarray(kept / kept.sum())
