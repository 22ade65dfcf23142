"""The leave-one-out error without each column."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import Bunch

from .. import arrays
from ..arrays import Array
from ..estimators import LSSVC, LSSVR
from ..problem import Problem
from .access import columns_used, feature_names
from .kept import Kept, kept_by_members
from .loo import class_scores, number_scores


def importance(model: LSSVR | LSSVC, rows: int = 1000) -> Bunch:
    """How much the leave-one-out error increases if a column is made constant.

    All cells of the column are set to its median, in rows and basis points, and the model is solved again with the same
    kernel, widths, C, weights and basis. The errors are exact for the squared loss. For the kernels `RBF` and `Matern`,
    this is the model without the column. A category is one column, and so is a number with its missing cells. Members
    of a stack keep their weights. No rows are held out.

    A column whose information is also contained in other columns has a small importance, because the model can do
    without it. A negative increase means that the error is smaller without the column.

    Parameters
    ----------
    model : LSSVR or LSSVC
        Fitted model.
    rows : int
        Maximum number of rows to use. If the model keeps more rows with positive weight, an evenly spaced subset is
        used, and the dense model of these rows replaces the model.

    Returns
    -------
    Bunch
        One entry per column, the most important first: ``names``, ``columns`` (their numbers), ``errors`` without the
        column and their ``increase``, which is ``errors - full``. ``full`` is the error with all columns, and
        ``measure`` is its name: "RMSE", over all outputs, or "log loss" for classes. ``rows`` is the number of rows
        used, and ``sampled`` is True if these are only some of the training rows.

    Examples
    --------
    >>> import numpy as np
    >>> from lssvm import LSSVR, diagnose, kernels
    >>> draw = np.random.RandomState(0)
    >>> X = draw.uniform(-1, 1, (150, 3))
    >>> y = X[:, 0] + np.sin(4 * X[:, 2]) + draw.normal(0, 0.1, 150)
    >>> found = diagnose.importance(LSSVR(kernels.RBF(ard=True)).fit(X, y))
    >>> found.names, found.increase.round(2)
    (['column 2', 'column 0', 'column 1'], array([0.6 , 0.52, 0.  ]))
    """
    parts = kept_by_members(model, rows, "The importance of columns")
    names, sources, weights = feature_names(model), model.fitted_.layout.sources, [weight for _, weight, _ in parts]
    used = [columns_used(member) for member, _, _ in parts]
    whole = [_loo(member, kept, kept.problem) for member, _, kept in parts]
    first = parts[0][2]
    full = _error(first, whole, weights)
    errors = np.full(len(names), full)
    for column in np.flatnonzero(np.any(used, axis=0)):
        without = [
            _loo(member, kept, _with_constant(kept.problem, sources == column)) if own[column] else known
            for (member, _, kept), own, known in zip(parts, used, whole, strict=True)
        ]
        errors[column] = _error(first, without, weights)
    order = np.argsort(full - errors, kind="stable")
    return Bunch(
        names=[names[column] for column in order],
        columns=order,
        errors=errors[order],
        increase=errors[order] - full,
        full=full,
        measure="log loss" if is_classifier(model) else "RMSE",
        rows=len(first.numbers),
        sampled=len(first.numbers) < first.total,
    )


def _with_constant(problem: Problem, mask: np.ndarray) -> Problem:
    """The problem with some columns at their medians over the rows of positive weight."""
    medians = np.median(arrays.to_numpy(arrays.take(problem.X, problem.rows)), axis=0)

    def changed(inputs: Array) -> Array:
        chosen = arrays.namespace(inputs).asarray(arrays.like(mask.astype(float), inputs) > 0)
        return arrays.namespace(inputs).where(chosen[None, :], arrays.like(medians, inputs)[None, :], inputs)

    return problem.replace(X=changed(problem.X), points=None if problem.points is None else changed(problem.points))


def _loo(member: Any, kept: Kept, problem: Problem) -> np.ndarray:
    """Leave-one-out predictions of a problem, (rows, outputs); for classes, probabilities."""
    if is_classifier(member):
        one = member.fitted_.members[0]
        return one.solved_probabilities(problem, kept.given * one.layout.class_weights(problem.y))
    return arrays.to_numpy(problem.y - problem.solve().loo_residuals)


def _error(kept: Kept, values: list[np.ndarray], weights: list[float]) -> float:
    """The error of the weighted average of leave-one-out predictions."""
    average = np.tensordot(weights, np.stack(values), axes=1)
    if kept.problem.classification:
        return class_scores(average, kept.problem.labels, kept.given)["log_loss"]
    return number_scores(arrays.to_numpy(kept.problem.y), average, kept.given)["rmse"]
