"""The training rows that a model keeps, as a problem that can be solved again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from .. import arrays
from ..kernels import Kernel
from ..problem import Problem
from .access import NotKnown, check_fitted, members


@dataclass(frozen=True)
class Kept:
    """Rows that a model keeps, and its problem on these rows, with the weights of the fit."""

    problem: Problem
    numbers: np.ndarray  # which of the training rows they are, or of the sample
    given: np.ndarray  # sample weights as given
    total: int  # number of training rows

    def subset(self, numbers: np.ndarray) -> Kept:
        """The dense problem on some of the rows.

        C stays as it is: fewer rows contain less information about the function, but the noise of each row is the same.
        """
        places = np.flatnonzero(np.isin(self.numbers, numbers))
        problem = self.problem.replace(reduced=False).subset(places).replace(support=None, points=None)
        return replace(self, problem=problem, numbers=numbers, given=self.given[places])


def kept_rows(model: Any, what: str) -> Kept:
    """The rows that a single model keeps.

    After `fit`, these are all training rows; after `partial_fit` and `fit_chunks`, a sample. A classifier whose loss is
    not squared or whose coding is not one-vs-rest keeps only the training rows that are support vectors.
    """
    kernel: Kernel = model.kernel_
    if kernel.is_precomputed:
        raise NotKnown(f"{what}: a precomputed kernel has no columns.")
    one = model.fitted_.members[0]
    problem = one.problem
    if problem is not None:
        if problem.coefficients is not None:
            raise NotKnown(f"{what}: a step has set the coefficients of this model, so that it cannot be solved again.")
        weights = arrays.like(arrays.to_numpy(model.weights_), problem.weights)
        rows = np.arange(len(weights))
        return Kept(problem.replace(weights=weights, robust=None), rows, one.given_weights, len(rows))
    sample, form = one.loo_sample, {"C": one.fit.C, "classification": is_classifier(model)}
    if sample is not None:
        given = arrays.to_numpy(one.layout.sample_weights(sample.targets, sample.sample_weights))
        problem = Problem(kernel, sample.X, sample.targets, sample.weights, points=one.fit.points, **form)
        return Kept(problem, np.arange(len(given)), given, sample.total)
    if one.targets is None or one.fit.support is None:
        raise NotKnown(
            f"{what} needs training rows, which this model does not keep: choose its basis among the rows, or fit it "
            "again if it comes from a file of an older version."
        )
    rows, given = one.fit.support, one.given_weights
    y, weights = (arrays.take(values, rows) for values in (one.targets, one.fit.weights))
    return Kept(Problem(kernel, one.fit.points, y, weights, **form), rows, given[rows], len(given))


def kept_by_members(model: Any, most: int, what: str) -> list[tuple[Any, float, Kept]]:
    """The members of a model, their weights and the rows that all of them keep.

    Of more than `most` rows with positive weight, an evenly spaced subset is used; for classes, in their proportions.
    """
    check_fitted(model)
    if most < 2:
        raise ValueError(f"rows must be at least 2, got {most!r}.")
    found = [(member, weight, kept_rows(member, what)) for member, weight in members(model)]
    parts = [kept for _, _, kept in found]
    same = all(np.array_equal(kept.numbers, parts[0].numbers) for kept in parts)
    counting = [kept.numbers[kept.problem.rows] for kept in parts]
    if same and max(len(numbers) for numbers in counting) <= most:
        return found
    common = counting[0]
    for numbers in counting[1:]:
        common = np.intersect1d(common, numbers)
    if len(common) < 2:
        raise NotKnown(f"{what}: the members of this stack keep no rows in common: give a member, model.members_[0].")
    if is_classifier(model):
        first = parts[0]
        labels = first.problem.labels[np.searchsorted(first.numbers, common)]
        common = common[np.argsort(labels, kind="stable")]
    chosen = np.sort(common[np.unique(np.linspace(0, len(common) - 1, most).astype(int))])
    return [(member, weight, kept.subset(chosen)) for member, weight, kept in found]
