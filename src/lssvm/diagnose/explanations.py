"""Explanations of models: effects and importance of columns."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import Bunch

from .. import arrays
from ..arrays import ArrayLike
from ..estimators import LSSVC, LSSVR
from ..estimators.validation import encoded_rows
from ..problem import Problem
from ..tables import Column
from .access import Kept, NotKnown, check_fitted, columns_used, feature_names, kept_by_members, members
from .loo import class_scores, number_scores

POOLED = "other values"  # This stands for the pooled values of a category.


# Effects: how the prediction changes with each column -----------------------------------------------------------------
def effects(
    model: LSSVR | LSSVC,
    X: ArrayLike | None = None,
    columns: Sequence[int | str] | np.ndarray | None = None,
    *,
    intervals: int = 20,
    rows: int = 1000,
) -> list[Bunch]:
    r"""Return how the prediction changes with each column while the other columns stay as they are.

    For numbers, these are accumulated local effects (Apley & Zhu 2020). The column is cut at quantiles
    :math:`z_0 < \ldots < z_K` of its values, and

    .. math::

        \mathrm{effect}(z_k) = \sum_{j \le k} \frac{1}{n_j} \sum_{i:\, z_{j-1} < x_i \le z_j}
        \left( f(x_i \mid z_j) - f(x_i \mid z_{j-1}) \right) - \mathrm{constant}

    where :math:`f(x_i \mid z)` is the prediction for row i with the value z in the column. Only predictions near the
    rows are used, even if columns are correlated. The constant makes the mean effect over the rows 0; in each interval,
    the effect counts as the mean of its two ends. In an additive model, the effect is the component of the column, less
    its mean.

    For a category, the effect of a value is the mean prediction if all rows had that value, less the average of these
    means over the values, weighted by their numbers of rows. In a category, missing cells are a value of their own.
    Rows with a missing number do not contribute to the effect of that column.

    Parameters
    ----------
    model : LSSVR or LSSVC
        Fitted model. For `LSSVC`, f is the probability of ``classes_[1]``, or of each of more than two classes.
    X : array or frame (n_samples, n_features), or None
        Rows over which the effects are averaged, with equal weights. None: the training rows that the model keeps.
    columns : sequence of column numbers or names, or None
        None: all columns, except those that the model ignores as identifiers.
    intervals : int
        Maximum number of intervals K; there are fewer if the column has few distinct values.
    rows : int
        Maximum number of rows to use. If there are more, an evenly spaced subset is used.

    Returns
    -------
    list of Bunch
        For each column: ``name``, ``column`` (its number), ``kind`` ("number" or "category"), ``grid`` (the ends of
        the intervals, or the values of the category that occur; None stands for missing cells and "other values" for
        pooled rare values), ``effect`` (one value per entry of ``grid``, or (grid, outputs)) and ``counts`` (the number
        of rows in each interval, or with each value). Ordered categories are treated as numbers, and ``grid`` contains
        their levels.

    References
    ----------
    Apley, D. W., Zhu, J.: Visualizing the effects of predictor variables in black box supervised learning models. JRSS
    B 82 (2020) 1059-1086.

    Examples
    --------
    >>> import numpy as np
    >>> from lssvm import LSSVR, diagnose, kernels
    >>> X = np.random.RandomState(0).uniform(0, 1, (100, 2))
    >>> model = LSSVR(kernels.Linear(), C=1e6).fit(X, 3 * X[:, 0] - X[:, 1])
    >>> for found in diagnose.effects(model, X, intervals=4):
    ...     slope = (found.effect[-1] - found.effect[0]) / (found.grid[-1] - found.grid[0])
    ...     print(found.name, round(float(slope), 3))
    column 0 3.0
    column 1 -1.0
    """
    check_fitted(model)
    if model.kernel_.is_precomputed:
        raise NotKnown("Effects: a precomputed kernel has no columns.")
    if intervals < 1:
        raise ValueError(f"intervals must be at least 1, got {intervals!r}.")
    if X is None:
        try:
            kept = kept_by_members(model, rows, "effects(X=None)")[0]
        except NotKnown as error:
            raise NotKnown(f"{error} Or give X.") from None
        table = arrays.to_numpy(kept.problem.X)[kept.given > 0]
    else:
        table = arrays.to_numpy(encoded_rows(model, X))
    table = table[np.unique(np.linspace(0, len(table) - 1, min(rows, len(table))).astype(int))]
    encoding = model.fitted_.layout.encoder
    known = [Column(name) for name in feature_names(model)] if encoding is None else encoding.columns
    sources, names, found = model.fitted_.layout.sources, feature_names(model), []
    for number in _numbers(names, columns, known):
        places, column = np.flatnonzero(sources == number), known[number]
        # indicators of the values that were seen in fit, or of missing cells
        marks = places if column.kind == "category" else places[1:][: column.height > 0]
        marked = np.any(table[:, marks] > 0, axis=1)
        usable = marked if column.kind == "category" else ~marked
        if not usable.any():
            raise ValueError(f"X: column {column.name!r} has no values that were seen in fit: leave it out of columns.")
        if column.kind == "category":
            part = _of_category(model, table, places, column, usable)
        else:
            part = _of_number(model, table[usable], places[0], column, intervals)
        effect = part.pop("effect")
        effect = effect[:, 0] if model.fitted_.layout.single else effect
        found.append(Bunch(**part, effect=effect, name=names[number], column=number))
    return found


def _numbers(names: list[str], columns: Any, known: Sequence[Column]) -> list[int]:
    """Return the numbers of the requested columns."""
    if columns is None:
        return [number for number, column in enumerate(known) if column.kind != "ignored"]
    if isinstance(columns, str):
        raise ValueError(f"columns must be a sequence of names or numbers, got {columns!r}: write [{columns!r}].")
    found = []
    for requested in columns:
        number = names.index(requested) if isinstance(requested, str) and requested in names else requested
        if isinstance(number, str) or not 0 <= number < len(names):
            remedy = f"give names, or numbers from 0 to {len(names) - 1}"
            raise ValueError(f"columns contains {requested!r}, which is not a column of the model: {remedy}.")
        if known[number].kind == "ignored":
            raise ValueError(f"columns contains {requested!r}, which the model ignores as an identifier: leave it out.")
        found.append(int(number))
    return found


def _of_number(model: Any, table: np.ndarray, place: int, column: Column, intervals: int) -> Bunch:
    """Return the accumulated local effect of a number."""
    grid = np.unique(np.quantile(table[:, place], np.linspace(0.0, 1.0, intervals + 1), method="inverted_cdf"))
    last = len(grid) - 1
    if last < 1:  # a constant column: one interval without width
        grid, last = np.repeat(grid, 2), 1
    interval = np.clip(np.searchsorted(grid, table[:, place], side="left") - 1, 0, last - 1)
    low, high = table.copy(), table.copy()
    low[:, place], high[:, place] = grid[interval], grid[interval + 1]
    steps, counts = model.fitted_.responses(high) - model.fitted_.responses(low), np.bincount(interval, minlength=last)
    totals = np.zeros((last, steps.shape[1]))
    np.add.at(totals, interval, steps)
    effect = np.vstack([np.zeros(steps.shape[1]), np.cumsum(totals / counts[:, None], axis=0)])
    effect -= counts @ (effect[1:] + effect[:-1]) / (2 * counts.sum())
    if column.kind == "ranks":
        grid = np.array([column.values[int(rank)] for rank in grid], dtype=object)
    else:
        grid = column.unscaled(grid)
    return Bunch(kind="number", grid=grid, effect=effect, counts=counts)


def _of_category(model: Any, table: np.ndarray, places: np.ndarray, column: Column, usable: np.ndarray) -> Bunch:
    """Return the mean prediction with each value that occurs set in all rows, centred."""
    codes = np.where(usable, np.argmax(table[:, places], axis=1), -1)
    labels = [*column.values, *([None] if column.missing else []), *([POOLED] if column.pooled else [])]
    occurring, first, counts = np.unique(codes[usable], return_index=True, return_counts=True)
    means = []
    for cells in table[usable][first][:, places]:
        changed = table.copy()
        changed[:, places] = cells
        means.append(model.fitted_.responses(changed).mean(axis=0))
    effect = np.array(means) - np.average(means, axis=0, weights=counts)
    return Bunch(kind="category", grid=[labels[code] for code in occurring], effect=effect, counts=counts)


# Importance: the leave-one-out error without each column --------------------------------------------------------------
def importance(model: LSSVR | LSSVC, rows: int = 1000) -> Bunch:
    """Return how much the leave-one-out error increases if a column is made constant.

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
    names, sources = feature_names(model), model.fitted_.layout.sources
    used = [columns_used(member) for member, _ in members(model)]
    whole = [_loo(kept, kept.problem) for kept in parts]
    first, average = parts[0], model.fitted_.average
    full = _error(first, average(whole))
    errors = np.full(len(names), full)
    for column in np.flatnonzero(np.any(used, axis=0)):
        without = list(whole)
        for place, kept in enumerate(parts):
            if used[place][column]:
                without[place] = _loo(kept, _with_constant(kept.problem, sources == column))
        errors[column] = _error(first, average(without))
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


def interactions(model: LSSVR | LSSVC, rows: int = 300, columns: int = 10) -> Bunch:
    """Return the pairs of columns whose effects depend on each other, the strongest first.

    The strength of a pair is the root mean square, over training rows, of f - f_a - f_b + f_ab, where f_a is the
    prediction with column a at its median. It is in the units of the prediction (of the probability, for classes), and
    0 if f is a sum of a function without a and a function without b.

    Parameters
    ----------
    model : LSSVR or LSSVC
        Fitted model.
    rows : int
        Maximum number of training rows to use.
    columns : int
        Only pairs of the columns with the largest ``feature_importances_`` are compared, at most so many columns.

    Returns
    -------
    Bunch
        ``pairs`` of column numbers (n_pairs, 2), their ``names``, and ``strength``, (n_pairs,).

    Examples
    --------
    >>> import numpy as np
    >>> from lssvm import LSSVR, diagnose, kernels
    >>> X = np.random.RandomState(0).uniform(-1, 1, (150, 3))
    >>> model = LSSVR(kernels.RBF(ard=True)).fit(X, X[:, 0] * X[:, 2] + X[:, 1])
    >>> diagnose.interactions(model).names[0]
    ('column 0', 'column 2')
    """
    kept = kept_by_members(model, rows, "Interactions")[0]
    table, sources = arrays.to_numpy(kept.problem.X)[kept.given > 0], model.fitted_.layout.sources
    sizes, medians, names = model.feature_importances_, np.median(table, axis=0), feature_names(model)
    chosen = np.sort(np.argsort(-sizes, kind="stable")[: min(columns, np.count_nonzero(sizes))])
    pairs = np.array(list(itertools.combinations(chosen.tolist(), 2)), dtype=int).reshape(-1, 2)

    def without(*columns: int) -> np.ndarray:
        return model.fitted_.responses(np.where(np.isin(sources, columns), medians, table))

    whole, single = without(), {column: without(column) for column in chosen}
    mixed = (whole - single[a] - single[b] + without(a, b) for a, b in pairs)
    strength = np.array([np.sqrt(np.mean(np.sum(part**2, axis=1))) for part in mixed])
    order = np.argsort(-strength, kind="stable")
    named = [(names[a], names[b]) for a, b in pairs[order]]
    return Bunch(pairs=pairs[order], names=named, strength=strength[order])


def _with_constant(problem: Problem, mask: np.ndarray) -> Problem:
    """Return the problem with some columns at their medians over the rows of positive weight."""
    medians = np.median(arrays.to_numpy(arrays.take(problem.X, problem.rows)), axis=0)
    kept, added = (arrays.like(row[None, :], problem.X) for row in (1.0 - mask, medians * mask))
    points = None if problem.points is None else problem.points * kept + added
    ties = None if problem.ties is None else tuple(ends * kept + added for ends in problem.ties)
    return problem.replace(X=problem.X * kept + added, points=points, ties=ties)


def _loo(kept: Kept, problem: Problem) -> np.ndarray:
    """Return leave-one-out predictions of a problem, (rows, outputs); for classes, probabilities."""
    if problem.classification:
        own = kept.given * kept.member.layout.class_weights(problem.y)
        return kept.member.solved_probabilities(problem, own)
    fit, target = problem.solve(), problem.target
    predicted = arrays.to_numpy(problem.y - fit.loo_residuals)
    if target is None:
        return predicted
    return target.smeared(*map(arrays.to_numpy, (fit.loo_residuals, fit.weights))).mean(predicted)


def _error(kept: Kept, average: np.ndarray) -> float:
    """Return the error of averages of leave-one-out predictions."""
    if kept.problem.classification:
        return class_scores(average, kept.problem.labels, kept.given)["log_loss"]
    return number_scores(kept.problem.targets, average, kept.given)["rmse"]
