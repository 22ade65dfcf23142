"""Fitted models: checks, their columns, and the rows that they keep, as problems that can be solved again."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from .. import arrays, intervals
from ..arrays import ArrayLike
from ..estimators import LSSVC, LSSVR
from ..estimators.fitted import Member
from ..kernels import Additive, Kernel
from ..problem import Problem


class NotKnown(ValueError):
    """A diagnostic that does not apply to a model, or that needs data which the model does not keep."""


def check_fitted(model: Any, argument: str = "model") -> None:
    """Raise TypeError or NotFittedError unless the argument is a fitted LSSVR or LSSVC."""
    if isinstance(model, type):
        name = model.__name__
        raise TypeError(f"{argument}={name} is a class: give a fitted instance, {name}(...).fit(X, y).")
    if isinstance(model, Pipeline):
        raise TypeError(f"{argument} is a Pipeline: give the model itself, e.g. pipeline[-1].")
    if hasattr(model, "fit"):
        check_is_fitted(model)
    if not hasattr(model, "kernel_"):
        got = "None" if model is None else type(model).__name__
        raise TypeError(f"{argument} must be a fitted LSSVR or LSSVC, got {got}: for a search, give best_estimator_.")


def members(model: Any) -> list[tuple[Any, float]]:
    """Return the members of a stack with their weights; a single model is its own member, of weight 1."""
    if not model.fitted_.is_stack:
        return [(model, 1.0)]
    return list(zip(model.members_, model.fitted_.shares, strict=True))


def check_single(model: Any, what: str) -> None:
    """Raise NotKnown if the model is a stack of several members."""
    if model.fitted_.is_stack:
        raise NotKnown(f"{what} is defined for a single model, not for a stack: give a member, e.g. model.members_[0].")


def basis_points(model: Any) -> np.ndarray:
    """Return the support vectors of a model; of a stack, those of all members, without repetitions.

    The unit vectors that replace the rows in linear members are omitted if other members have other points.
    """
    points = [arrays.to_numpy(member.support_vectors_) for member, _ in members(model)]
    points = [own for own in points if not are_unit_vectors(own)] or points
    return points[0] if all(np.array_equal(points[0], own) for own in points) else np.unique(np.vstack(points), axis=0)


def are_unit_vectors(points: np.ndarray) -> bool:
    """Return whether these are the points that replace the rows of a linear model."""
    return np.array_equal(points, np.eye(points.shape[1]))


def kernel_words(kernel: Kernel) -> str:
    """Return a fitted kernel as it is written before the fit, without the widths and knots found for the columns."""
    return " ".join(repr(kernel.rebuilt(_as_written)).split())


def member_words(model: Any) -> list[str]:
    """Return the weights and kernels of the members of a stack; of a single model, its kernel."""
    if not model.fitted_.is_stack:
        return [f"{kernel_words(model.kernel_)}{scale_words(model)}"]
    return [f"{weight:.3f} {kernel_words(member.kernel_)}{scale_words(member)}" for member, weight in members(model)]


def order_facts(model: Any) -> dict[str, str]:
    """Return the order constraints of a model, in words; {} if there are none."""
    layout, problem, words = model.fitted_.layout, model.fitted_.members[0].problem, []
    if problem is not None and problem.monotonic is not None:
        names, columns = feature_names(model), np.flatnonzero(problem.monotonic)
        words = [
            f"{('in', 'de')[int(problem.monotonic[c] < 0)]}creasing in {names[layout.sources[c]]}" for c in columns
        ]
    return {"constraints": ", ".join(words)} if words else {}


def scale_words(model: Any) -> str:
    """Return the scale of the targets that a single model approximates, after the words for its kernel."""
    scale = model.fitted_.target
    if scale is None:
        return ""
    exponents = ", ".join(f"{exponent:.2g}" for exponent in scale.exponents) if scale.name == "power" else ""
    return f" of targets on the scale {scale.name}" + (f" (exponent {exponents})" if exponents else "")


def _as_written(kernel: Kernel) -> dict[str, Any]:
    known: dict[str, Any] = {name: arrays.to_numpy(value) for name, value in kernel.get_params(deep=False).items()}
    found: dict[str, Any] = {name: None for name in ("sigma", "scale", "knots") if np.ndim(known.get(name, 0))}
    if kernel.has_width and "sigma" not in found:
        found["sigma"] = float(f"{float(known['sigma']):.4g}")
    return found


def kept_components(model: Any) -> dict[int, list[int]]:
    """Return the columns of each component that an additive model keeps, by the number of the component."""
    kernels, sources = [member.kernel_ for member, _ in members(model)], model.fitted_.layout.sources
    kept = [(number, group) for kernel in kernels for number, (group, _) in kernel.kept(len(sources)).items()]
    return {number: np.unique(sources[group]).tolist() for number, group in sorted(kept)}


def least_squares_problem(model: Any, what: str) -> Problem:
    """Return the solved problem with its final weights; ValueError if the model does not keep its rows."""
    check_fitted(model)
    check_single(model, what)
    if model.fitted_.target is not None:
        raise NotKnown(f"{what}: the model is fitted to targets on another scale: use target='identity'.")
    problem = model.fitted_.problem
    if not model.fitted_.is_least_squares:
        needed, given = "loss='squared'", f"loss={model.loss!r}"
        if is_classifier(model):
            needed, given = f"{needed}, coding='one-vs-rest'", f"{given}, coding={model.coding!r}"
        raise NotKnown(f"{what} is defined for {needed}; this model was fitted with {given}.")
    if problem is None:
        raise NotKnown(f"{what} needs the training rows, which a model does not keep after partial_fit or fit_chunks.")
    if problem.coefficients is not None:
        raise NotKnown(f"{what}: a step has set the coefficients of this model, so that C has no effect.")
    return problem.replace(weights=model.fitted_.fit.weights, robust=None)


def feature_names(model: LSSVR | LSSVC) -> list[str]:
    """Return the names of the columns: those seen in `fit`, or else "column 0", "column 1", ..."""
    check_fitted(model)
    names = getattr(model, "feature_names_in_", None)
    return [f"column {c}" for c in range(model.n_features_in_)] if names is None else [str(name) for name in names]


def inverse_widths(model: LSSVR | LSSVC) -> np.ndarray:
    """Return the inverse widths of the columns: spread/sigma, the largest value over the parts of the kernel.

    The larger the value, the more f may vary along the column. A column with a small value may still have an almost
    linear effect; 0 means that the column is dropped (see `columns_used`). Raises ValueError for kernels without
    widths.
    """
    check_fitted(model)
    leaves = model.kernel_.leaves
    if not leaves:
        raise NotKnown(f"{model.kernel_!r} has no widths: give a model with a kernel such as kernels.RBF or Matern.")
    spread, largest = training_spread(model), np.zeros(model.n_features_in_)
    widths = np.max([spread / _sigma(leaf, len(spread)) for leaf in leaves], axis=0)
    np.maximum.at(largest, model.fitted_.layout.sources, widths)
    return np.where(columns_used(model), largest, 0.0)


def columns_used(model: LSSVR | LSSVC) -> np.ndarray:
    """Return a mask of the columns that the model uses: not dropped by tuning, nor outside the kept components.

    Examples
    --------
    >>> import numpy as np
    >>> from lssvm import LSSVR, diagnose, kernels
    >>> draw = np.random.RandomState(0)
    >>> X = draw.uniform(-1, 1, (150, 4))
    >>> y = np.sin(4 * X[:, 0]) + draw.normal(0, 0.1, 150)
    >>> diagnose.columns_used(LSSVR(kernels.RBF(ard=True)).fit(X, y))
    array([ True, False, False, False])
    """
    check_fitted(model)
    if model.kernel_.is_precomputed:
        return np.ones(model.n_features_in_, dtype=bool)
    used = _used(model.kernel_, training_spread(model))
    return np.bincount(model.fitted_.layout.sources, used, model.n_features_in_) > 0


def _used(kernel: Kernel, spread: np.ndarray) -> np.ndarray:
    if "sigma" in kernel.get_params(deep=False):
        return np.isfinite(_sigma(kernel, len(spread)))
    if not kernel.parts:
        return np.ones(len(spread), dtype=bool)
    used = np.any([_used(part, spread) for part in kernel.parts], axis=0)
    if isinstance(kernel, Additive):
        kept = [c for group, _ in kernel.kept(len(spread)).values() for c in group]
        used &= np.isin(np.arange(len(spread)), kept)
    return used


def _sigma(leaf: Any, n_features: int) -> np.ndarray:
    return np.broadcast_to(np.asarray(arrays.to_numpy(leaf.sigma), float), (n_features,))


def training_spread(model: Any) -> np.ndarray:
    """Return the spread of the columns over the training rows, or over the basis if the rows are not kept."""
    first = members(model)[0][0]
    problem = first.fitted_.problem
    return np.std(arrays.to_numpy(first.support_vectors_), axis=0) if problem is None else problem.spreads.values


def component_deviations(model: Any, X: ArrayLike) -> np.ndarray | None:
    """Return the standard deviations of the components of an additive model.

    None if the model keeps no rows, is a stack or was not solved for.
    """
    problem = model.fitted_.problem
    if problem is None or problem.coefficients is not None:
        return None
    return intervals.component_deviations(problem, model.leave_one_out().fitted_.fit, X)


# Rows that a model keeps ----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Kept:
    """Rows that a model keeps, and its problem on these rows, with the weights of the fit."""

    member: Member
    problem: Problem
    numbers: np.ndarray  # which of the training rows they are, or of the sample
    given: np.ndarray  # sample weights as given
    total: int  # number of training rows

    def subset(self, numbers: np.ndarray) -> Kept:
        """Return the dense problem on some of the rows.

        C stays as it is: fewer rows contain less information about the function, but the noise of each row is the same.
        """
        places = np.flatnonzero(np.isin(self.numbers, numbers))
        problem = self.problem.replace(reduced=False).subset(places).replace(support=None, points=None)
        return replace(self, problem=problem, numbers=numbers, given=self.given[places])


def kept_rows(model: Any, what: str) -> Kept:
    """Return the rows that a single model keeps.

    After `fit`, these are all training rows; after `partial_fit` and `fit_chunks`, a sample. A classifier whose loss is
    not squared or whose coding is not one-vs-rest keeps only the training rows that are support vectors.
    """
    one = model.fitted_.members[0]
    problem, fit = one.problem, one.fit
    if fit.kernel.is_precomputed:
        raise NotKnown(f"{what}: a precomputed kernel has no columns.")
    if problem is not None:
        if problem.coefficients is not None:
            raise NotKnown(f"{what}: a step has set the coefficients of this model, so that it cannot be solved again.")
        rows = np.arange(len(one.given_weights))
        return Kept(one, problem.replace(weights=fit.weights, robust=None), rows, one.given_weights, len(rows))
    values, sample, form = one.loo_values, one.loo_sample, {"C": fit.C, "classification": is_classifier(model)}
    if values is not None and sample is not None:
        problem = Problem(fit.kernel, sample.X, sample.targets, sample.weights, points=fit.points, **form)
        return Kept(one, problem, np.arange(len(values.given)), values.given, values.total)
    if values is None or fit.support is None:
        remedy = "choose its basis among the rows, or fit it again if it comes from a file of an older version"
        raise NotKnown(f"{what} needs training rows, which this model does not keep: {remedy}.")
    y, weights = (arrays.take(a, fit.support) for a in (one.targets, fit.weights))
    problem = Problem(fit.kernel, fit.points, y, weights, **form)
    return Kept(one, problem, fit.support, values.given[fit.support], values.total)


def kept_by_members(model: Any, most: int, what: str) -> list[Kept]:
    """Return the rows that all members of a model keep, for each member.

    Of more than `most` rows with positive weight, an evenly spaced subset is used; for classes, in their proportions.
    """
    check_fitted(model)
    if most < 2:
        raise ValueError(f"rows must be at least 2, got {most!r}.")
    found = [kept_rows(member, what) for member, _ in members(model)]
    first, positive = found[0], [kept.numbers[kept.problem.rows] for kept in found]
    same = all(np.array_equal(kept.numbers, first.numbers) for kept in found)
    if same and max(map(len, positive)) <= most:
        return found
    common = functools.reduce(np.intersect1d, positive)
    if len(common) < 2:
        raise NotKnown(f"{what}: the members of this stack keep no rows in common: give a member, model.members_[0].")
    if is_classifier(model):
        labels = first.problem.labels[np.searchsorted(first.numbers, common)]
        common = common[np.argsort(labels, kind="stable")]
    chosen = np.sort(common[np.unique(np.linspace(0, len(common) - 1, most).astype(int))])
    return [kept.subset(chosen) for kept in found]
