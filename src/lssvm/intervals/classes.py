"""Class probabilities from leave-one-out decision values, and prediction sets from leave-one-out probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.utils import check_random_state

from .. import arrays
from ..arrays import Array, ArrayLike
from ..coding import MISSED, class_codes, smoothed_targets, softmax_slope
from ..rules import check_coverage


def calibrate(decision: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the slopes that turn (leave-one-out) decision values into probabilities, by weighted maximum likelihood.

    Two classes (one column): P = 1/(1 + exp(-slope * f)), with one slope for f < 0 and one for f > 0. More classes:
    softmax of slope * f. Both are monotone and keep the class with the largest decision value the most probable,
    because a least-squares model on targets -1 and +1 already has P = 1/2 at f = 0. Targets are smoothed,
    so that separable classes keep finite slopes.
    """
    kept = weights > 0  # a weight of 0 removes the row
    decision, codes, weights = decision[kept], codes[kept], weights[kept]
    targets = smoothed_targets(codes, weights, max(2, decision.shape[1]), MISSED)
    if decision.shape[1] > 1:
        return np.array([softmax_slope(decision, targets, weights)])
    logits = np.column_stack([np.zeros(len(codes)), decision[:, 0]])
    sides = [logits[:, 1] < 0, logits[:, 1] > 0]
    return np.array([softmax_slope(logits[side], targets[side], weights[side]) for side in sides])


def probabilities(decision: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Return class probabilities (rows, classes) from decision values (rows, columns); rows sum to 1."""
    logits = slopes[0] * decision
    if decision.shape[1] == 1:  # two classes
        logits = np.hstack([np.zeros_like(decision), np.where(decision > 0, slopes[1], slopes[0]) * decision])
    with np.errstate(under="ignore"):  # a probability of 0
        return softmax(logits, axis=1)


def set_scores(probability: np.ndarray) -> np.ndarray:
    """Return, for every row and class, the total probability of the more probable classes; ties go to the first one.

    It is 0 for the most probable class, which therefore is in every set (Romano, Sesia & Candès 2020, without
    randomisation: with their own probability included, the most probable classes could be missing).
    """
    order = np.argsort(-probability, axis=1, kind="stable")
    ordered = np.take_along_axis(probability, order, axis=1)
    before = np.cumsum(ordered, axis=1) - ordered
    scores = np.empty_like(before)
    np.put_along_axis(scores, order, before, axis=1)
    return scores


def set_thresholds(
    probability: np.ndarray, codes: np.ndarray, coverage: float, *, class_conditional: bool = False
) -> np.ndarray:
    """Return the largest score (classes,) with which a class is in the set, from probabilities and classes of n rows.

    It is the score of rank `_rank` among those of the rows' own classes, or infinite; if `class_conditional`, among
    those of the rows of each class alone.
    """
    own = np.take_along_axis(set_scores(probability), codes[:, None], axis=1)[:, 0]
    if not class_conditional:
        return np.full(probability.shape[1], _threshold(own, coverage))
    return np.array([_threshold(own[codes == c], coverage) for c in range(probability.shape[1])])


def _rank(n: int, coverage: float) -> int:
    """Return ceil(coverage (n + 1) + sqrt(n coverage (1 - coverage))): a standard error above the conformal rank.

    The leave-one-out probabilities come from a kernel, C and slopes that were chosen on the same rows, and the coverage
    should also hold for most single training sets, not only on average over them.
    """
    return math.ceil(round(coverage * (n + 1) + math.sqrt(n * coverage * (1 - coverage)), 9))


def _threshold(scores: np.ndarray, coverage: float) -> float:
    rank = _rank(len(scores), coverage)
    return float(np.partition(scores, rank - 1)[rank - 1]) if rank <= len(scores) else math.inf


def loo_sets(probability: np.ndarray, codes: np.ndarray, coverage: float) -> np.ndarray:
    """Return the sets (rows, classes) of the rows themselves, with thresholds from the other rows."""
    scores = set_scores(probability)
    own = np.take_along_axis(scores, codes[:, None], axis=1)[:, 0]
    n = len(own)
    rank = _rank(n - 1, coverage)
    if rank > n - 1:
        return np.ones(scores.shape, dtype=bool)
    ordered = np.sort(own)
    limit = np.where(own <= ordered[rank - 1], ordered[rank], ordered[rank - 1])
    return scores <= limit[:, None]


@dataclass(frozen=True, eq=False, repr=False)
class ClassDistribution:
    """The distribution of the class of each new row, from `LSSVC.predict_distribution`.

    Classes have no order, so there are no `cdf`, `quantile`, `mean`, `std`, `interval` and `crps`.

    Attributes
    ----------
    probabilities : array (n_samples, n_classes)
        As from `LSSVC.predict_proba`.
    classes : array (n_classes,)
    """

    probabilities: Array
    classes: np.ndarray
    known: Callable[[], tuple[np.ndarray, np.ndarray]]  # leave-one-out probabilities and classes of training rows
    shaped: Callable[[np.ndarray], Array]

    def __getattr__(self, name: str) -> Any:
        if name in ("cdf", "quantile", "mean", "std", "interval", "crps"):
            what = f"{name} needs numbers, but the classes of an LSSVC have no order"
            raise AttributeError(f"{what}: use probabilities, prediction_set, sample or log_score.")
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")

    def prediction_set(self, coverage: float = 0.9, *, class_conditional: bool = False) -> Array:
        """Return the sets of `LSSVC.predict_set`: whether each of `classes` is in the set, (n_samples, n_classes).

        Parameters
        ----------
        coverage : float
            Between 0 and 1.
        class_conditional : bool
            Whether the coverage holds for the rows of each class.
        """
        check_coverage(coverage)
        thresholds = set_thresholds(*self.known(), float(coverage), class_conditional=class_conditional)
        return self.shaped(set_scores(arrays.to_numpy(self.probabilities)) <= thresholds)

    def sample(self, n: int = 1, random_state: Any = None) -> Array:
        """Draw n classes of each row, independently, (n_samples, n).

        Parameters
        ----------
        n : int
        random_state : int, RandomState or None
        """
        below = np.cumsum(arrays.to_numpy(self.probabilities), axis=1)[:, None, :-1]
        draws = check_random_state(random_state).uniform(size=(len(below), n, 1))
        return self.shaped(self.classes[np.sum(below <= draws, axis=2)])

    def log_score(self, y: ArrayLike) -> Array:
        """Return the log loss of each row, -log P(y), (n_samples,); smaller is better.

        Parameters
        ----------
        y : array of one class per row
        """
        probability = arrays.to_numpy(self.probabilities)
        codes = class_codes(np.asarray(arrays.to_numpy(y)), self.classes, "remove its rows")
        if codes.shape not in ((), (len(probability),)):
            raise ValueError(f"y has the shape {codes.shape}: give one class per row, ({len(probability)},).")
        own = probability[np.arange(len(probability)), np.broadcast_to(codes, len(probability))]
        return self.shaped(-np.log(np.maximum(own, np.finfo(float).tiny)))
