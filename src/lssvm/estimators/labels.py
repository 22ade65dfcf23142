"""The labels of classes: their types, their order and their weights."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from .. import arrays
from ..arrays import Array
from ..problem import class_numbers
from .validation import same_kind


def winning_class(decision: Array, classes: np.ndarray) -> Array:
    return same_kind(classes[class_numbers(decision)], decision)


def plain_labels(y: np.ndarray) -> np.ndarray:
    """Labels stored as objects, but all booleans or all integers, as an array of that type; others unchanged."""
    for kind in (bool, int) if y.dtype == object and y.ndim == 1 and len(y) else ():
        if all(isinstance(label, np.bool_ if kind is bool else np.integer) or type(label) is kind for label in y):
            return np.array(y.tolist())
    return y


def sorted_labels(y: np.ndarray) -> np.ndarray:
    try:
        return np.unique(y)
    except TypeError as error:
        raise ValueError(
            f"y contains labels of several types, which cannot be sorted ({error}): use one type."
        ) from None


def check_labels(y: np.ndarray) -> None:
    """scikit-learn's check of the labels, with a remedy."""
    try:
        if len(y):
            check_classification_targets(y)
    except ValueError as error:
        raise ValueError(f"{error} Use LSSVR for numbers.") from None


def refuse_numbers(labels: np.ndarray, rows: int) -> None:
    """Raise ValueError for floats of which most rows have their own: whole ones pass scikit-learn's check."""
    if labels.dtype.kind == "f" and rows > 20 and len(labels) > rows / 2:
        raise ValueError(
            f"Unknown label type: continuous. y has {len(labels)} distinct numbers in {rows} rows, and LSSVC predicts "
            "classes: use LSSVR for numbers, or convert y to integers or text if they are labels."
        )


def warn_of_empty_classes(classes: np.ndarray, weights: np.ndarray) -> None:
    """Warn of classes without weight, which no row can be assigned to; ValueError unless two others are left."""
    empty = classes[weights == 0].tolist()
    if len(classes) - len(empty) < 2:
        raise ValueError(
            f"sample_weight and class_weight leave fewer than 2 of the classes {classes.tolist()} with positive "
            "weight: at least 2 are needed."
        )
    if empty:
        warnings.warn(
            f"No row of the class {empty[0]!r} has positive weight: its probabilities mean nothing. Remove its rows.",
            stacklevel=arrays.user_level(),
        )


def balanced_weights(class_weight: Any, classes: np.ndarray, y: np.ndarray, sample_weight: np.ndarray) -> np.ndarray:
    """One weight factor per class."""
    try:
        if isinstance(class_weight, str) and class_weight == "balanced":
            totals = np.bincount(np.searchsorted(classes, y), weights=sample_weight, minlength=len(classes))
            if not totals.all():
                raise ValueError("'balanced' needs rows with positive weight in every class")
            values = totals.sum() / (len(classes) * totals)
        else:
            values = np.asarray(compute_class_weight(class_weight, classes=classes, y=y), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"class_weight={class_weight!r}: {error}") from None
    return values
