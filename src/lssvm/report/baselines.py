"""Leave-one-out predictions of the model, of a linear model and of a constant, for comparison."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import arrays, diagnose, kernels, sparsify, tune
from ..estimators import LSSVC, LSSVR
from .facts import Facts

LINEAR_ROWS = 2000  # the linear model is fitted to a sample of larger tables


@dataclass(frozen=True)
class Predictions:
    """Leave-one-out predictions of rows with positive weight: numbers, or class numbers, (rows, outputs)."""

    name: str
    kind: str  # of losses: "squared", "absolute" or "wrong"
    actual: np.ndarray
    predicted: np.ndarray
    weights: np.ndarray
    rows: np.ndarray | None  # their numbers, if known

    @property
    def losses(self) -> np.ndarray:
        """The loss of each row, (rows, outputs)."""
        if self.kind == "wrong":
            return (self.actual != self.predicted).astype(float)
        sizes = np.abs(self.actual - self.predicted)
        return sizes**2 if self.kind == "squared" else sizes

    @property
    def mean_loss(self) -> np.ndarray:
        """The mean loss of each output."""
        return np.average(self.losses, axis=0, weights=self.weights)

    @property
    def error(self) -> np.ndarray:
        """The mean loss of each output in its units: of squares, the root."""
        return np.sqrt(self.mean_loss) if self.kind == "squared" else self.mean_loss


def model_predictions(facts: Facts) -> Predictions:
    """Those of the model itself."""
    actual, predicted = facts.loo.actual, facts.loo.predicted
    if facts.classes:
        probability, codes = facts.probability
        actual, predicted = codes[:, None], np.argmax(probability, axis=1)[:, None]
    kind = "wrong" if facts.classes else "squared" if facts.model.robust is None else "absolute"
    rows = np.flatnonzero(facts.loo.given > 0)
    return Predictions("this model", kind, actual[rows], predicted[rows], facts.loo.given[rows], rows)


def constant_predictions(own: Predictions) -> Predictions:
    """The mean (of robust models: the median, without weights) of the other rows; the most frequent class of all rows.

    Of two classes of the same size, the other one would always be the most frequent without a row.
    """
    actual, w = own.actual, own.weights[:, None]
    if own.kind == "wrong":
        largest = np.argmax(np.bincount(actual[:, 0], own.weights))
        return replace(own, name="always the most frequent class", predicted=np.full_like(actual, largest))
    if own.kind == "squared":
        total = np.sum(w * actual, axis=0)
        predicted = (total - w * actual) / np.maximum(own.weights.sum() - w, np.finfo(float).tiny)
        return replace(own, name="always the average", predicted=predicted)
    medians = [_medians_of_others(column) for column in actual.T]
    return replace(own, name="always the median", predicted=np.column_stack(medians))


def _medians_of_others(values: np.ndarray) -> np.ndarray:
    """The median of all values but one, for each of them."""
    ordered = np.sort(values)
    ranks = np.searchsorted(ordered, values)
    middle = [(len(values) - 2) // 2, (len(values) - 1) // 2]  # ranks among the others
    return np.mean([np.where(place < ranks, ordered[place], ordered[place + 1]) for place in middle], axis=0)


def linear_predictions(facts: Facts) -> Predictions | None:
    """Those of a linear model with its own C, of columns in units of their spread.

    None if the model is linear itself, keeps no rows or has a precomputed kernel.
    """
    kept = facts.kept
    if kept is None or isinstance(facts.model.kernel_, kernels.Linear):
        return None
    rows = np.flatnonzero(kept.given > 0)
    if len(rows) > LINEAR_ROWS:
        rows = np.sort(np.random.default_rng(0).choice(rows, LINEAR_ROWS, replace=False))
    X, weights = arrays.to_numpy(kept.problem.X)[rows], kept.given[rows]
    spread = np.std(X, axis=0)
    X = X / np.where(spread > 0, spread, 1.0)
    numbers = kept.numbers[rows] if facts.sampled or not facts.chunked else None
    # the unit vectors span all linear functions, and their kernel matrix is that of ridge regression
    steps = [sparsify.Given(np.eye(X.shape[1])), tune.LeaveOneOut()] if X.shape[1] < len(X) else None
    model: Any = LSSVR(kernels.Linear(), steps=steps, robust=facts.model.robust)
    if facts.classes:
        model = LSSVC(kernels.Linear(), class_weight=facts.model.class_weight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it explains little
        if not facts.classes:
            actual = arrays.to_numpy(kept.problem.y)[rows]
            found = diagnose.loo_values(model.fit(X, actual, sample_weight=weights))
            kind = "squared" if facts.model.robust is None else "absolute"
            return Predictions("linear model", kind, found.actual, found.predicted, weights, numbers)
        codes = kept.problem.labels[rows]
        labels = np.asarray(facts.model.classes_)[codes]
        probability, _ = diagnose.loo_probabilities(model.fit(X, labels, sample_weight=weights))
    named = np.searchsorted(facts.model.classes_, model.classes_)[np.argmax(probability, axis=1)]
    return Predictions("linear model", "wrong", codes[:, None], named[:, None], weights, numbers)
