"""What `fit` learns: a frozen record from which all attributes, predictions and diagnostics follow.

Every model is an average of members, and a single model is a stack of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, Self

import numpy as np
from sklearn.utils import Bunch

from .. import arrays
from ..arrays import Array, cached_property
from ..coding import CODINGS, couple, pair_slope
from ..intervals.classes import calibrate, probabilities
from ..intervals.loo import LooModel, SampledLoo, loo_model
from ..intervals.scale import NoiseScale, ScaleChoice
from ..kernels import Additive, Kernel, Stack
from ..losses import LOG_LINKS, LOSSES
from ..problem import ClassFit, Fit, Problem, class_numbers, lost_digits, solve_classes, warn_of_rounding
from ..rules import number, one_of, row_weights, values
from ..stream.sums import LooSample, Stream
from ..targets import TargetScale
from .layout import OVERFLOW, Layout, LooValues, of_decision, raw_components, same_kind, winning_class
from .validation import require_loo
from .weighing import ROWS_FOR_ERRORS, ROWS_PER_WIDTH, few_rows, weigh_members

KEPT_BYTES = 2**28  # A model keeps a factor of at most this size between calls.


class Record:
    """Records whose copies and files leave out what is computed again."""

    def __getstate__(self) -> dict[str, Any]:
        names = [field.name for field in fields(self) if not field.metadata.get("cached")]  # type: ignore[arg-type]
        return {name: getattr(self, name) for name in names}


Folds = Annotated[np.ndarray, values("rows", kinds="i")]


@dataclass(frozen=True, eq=False, repr=False)
class Member(Record):
    """A fitted model of one kernel, f(x) = sum_j coef_j k(x, point_j) + intercept, and the rows behind it.

    `fit` has no per-sample results after chunks, and none but weights until leave-one-out is computed.
    """

    layout: Layout
    fit: Fit
    asked: tuple[Kernel | None, float | None]  # kernel and C as given
    problem: Problem | None = None  # of least squares, if the rows are kept
    targets: Annotated[Array, values("rows", "targets")] | None = None  # of the rows with leave-one-out results
    sample_weight: Annotated[Array, row_weights("rows")] | None = None  # as given
    path: Bunch | None = None
    press: float | None = None  # if it is not that of the rows kept
    target: TargetScale | None = None  # of what f approximates, if that is not the targets as given
    coding: Annotated[str, one_of(*CODINGS)] = "one-vs-rest"
    loss: Annotated[str, one_of(*LOSSES, *LOG_LINKS)] = "squared"
    slopes: Annotated[Array, values("slopes")] | None = None  # from decision values to probabilities
    sample: LooSample | None = None  # after `fit_chunks`
    stream: Stream | None = None  # after `partial_fit`
    component_means: Annotated[Array, values("components", "outputs")] | None = None  # of an additive kernel
    max_variation: Annotated[Array, values("components", "outputs?")] | None = None
    searched: tuple[Folds, Annotated[Array, values("rows", "targets", finite=False)]] | None = (
        None  # without given folds
    )
    honest: Annotated[Array, values("rows", "targets", finite=False)] | None = None  # leave-one-out with the search

    @classmethod
    def of(cls, layout: Layout, fit: Fit, asked: Any, rows: Array, **others: Any) -> Self:
        """Return the member with a solution; components of an additive kernel have mean 0 over the given rows."""
        # in the memory order of model files, so that a loaded model gives bitwise the same products
        coef = np.ascontiguousarray(fit.coef) if arrays.is_numpy(fit.coef) else fit.coef
        if isinstance(fit.kernel, Additive):
            components = raw_components(fit.kernel, fit.points, coef, rows)
            means = components.mean(axis=0)
            variation = np.max(np.abs(components - means), axis=0)
            others["component_means"] = same_kind(means, rows)
            others["max_variation"] = same_kind(variation[:, 0] if coef.shape[1] == 1 else variation, rows)
        return cls(layout, replace(fit, coef=coef), asked or (None, None), **others)

    # Predictions ------------------------------------------------------------------------------------------------------
    def evaluate(self, X: Array) -> Array:
        """Return predictions (rows, outputs) of encoded rows: f(x), its exponential or means on the original scale."""
        points, coef, intercept = (arrays.like(a, X) for a in (self.fit.points, self.fit.coef, self.fit.intercept))
        f = self.fit.response(self.fit.kernel.dot(X, points, coef) + intercept)
        if not bool(arrays.namespace(f).all(arrays.namespace(f).isfinite(f))):
            raise ValueError(OVERFLOW)
        return f if self.target is None else same_kind(self.target.mean(arrays.to_numpy(f)), X)

    def components(self, X: Array) -> Array:
        """Return the centred components of an additive model, (rows, components) or (rows, components, outputs)."""
        points, coef = (arrays.like(a, X) for a in (self.fit.points, self.fit.coef))
        values = raw_components(self.fit.kernel, points, coef, X) - arrays.to_numpy(self.component_means)
        return same_kind(values[:, :, 0] if self.layout.single else values, X)

    @property
    def by_pairs(self) -> bool:
        """Whether f holds decision values of pairs of classes."""
        return self.coding == "one-vs-one"

    @property
    def is_least_squares(self) -> bool:
        """Whether f minimises a sum of squares, for classes one against the rest."""
        return self.loss == "squared" and not self.by_pairs

    def probabilities(self, f: Array) -> Array:
        """Return class probabilities from f(x)."""
        values, slopes = arrays.to_numpy(f), arrays.to_numpy(self.known_slopes)
        if self.by_pairs:
            return same_kind(couple(values, self.layout.outputs, float(slopes[0])), f)
        return same_kind(probabilities(values, slopes), f)

    @cached_property
    def known_slopes(self) -> Array:
        """The slopes of the calibration, computed now if `fit` has deferred it."""
        return self.completed().slopes if self.slopes is None else self.slopes

    # Leave-one-out ----------------------------------------------------------------------------------------------------
    @property
    def deferred(self) -> bool:
        """Whether `fit` has left leave-one-out to `completed`."""
        return self.problem is not None and self.fit.loo_residuals is None

    def completed(self) -> Self:
        """Return the same model with leave-one-out results, if the rows are kept, and with calibrated classes."""
        member = self
        if self.problem is not None and self.fit.loo_residuals is None:
            fit = self.problem.replace(weights=self.fit.weights, robust=None).solve()
            warn_of_rounding(lost_digits(self.problem, fit), fit.C)
            results = {name: getattr(fit, name) for name in ("residuals", "leverage", "loo_residuals", "loo_error")}
            member = replace(self, fit=replace(self.fit, **results), targets=self.problem.y)
        if self.layout.classes is None or self.slopes is not None:
            return member
        if member.problem is not None:
            return replace(member, slopes=member.slopes_of(member.problem.y, member.problem.weights, member.fit))
        sample = self.known_sample  # rows were added to a model without leave-one-out
        return replace(self, slopes=self.slopes_of(sample.targets, sample.sample_weights, sample))

    def slopes_of(self, targets: Array, own: Array, results: Any) -> Array:
        """Return the slopes of the calibration, from the residuals, leverages and leave-one-out residuals in `results`.

        `own` are the weights of the rows without robust weights.
        """
        parts = (targets, results.loo_residuals, results.residuals, results.leverage)
        coded, loo, residuals, leverage = map(arrays.to_numpy, parts)
        copies, counts = self.copies(targets, own, results.weights)
        with np.errstate(divide="ignore", invalid="ignore"):  # only in rows where it is not used
            one_copy = residuals / (1.0 - leverage / copies)[:, None]
        whole = self.problem is not None and self.problem.row_groups is not None  # groups are left out with all copies
        unit = np.where((copies[:, None] > 1.0) & (not whole), one_copy, loo)
        unit = np.where(np.isnan(unit), residuals, unit)  # leave-one-out values are not available
        return same_kind(calibrate(coded - unit, class_numbers(targets), counts), targets)

    def copies(self, targets: Array, own: Array, weights: Array) -> tuple[np.ndarray, np.ndarray]:
        """Return how many copies of a row its weight stands for, at least 1, and the weights of rows for calibration.

        Whole weights count copies of a row, of which calibration leaves out one, as if all of them were in the data. If
        some weights are not whole, or if parameters were chosen by leave-one-out, which leaves out whole rows, then
        calibration does so too, and the mean weight counts as 1. `own` are the products of sample weights and class
        weights, and `weights` those of `own` and the robust weights.
        """
        kernel, C = self.asked
        given, own, weights = map(arrays.to_numpy, (self.layout.sample_weights(targets, own), own, weights))
        is_known = C is not None and kernel is not None and not kernel.is_free
        if is_known and np.allclose(given, np.rint(given), rtol=1e-9, atol=0.0):
            return np.maximum(given, 1.0), weights
        return np.ones(len(given)), weights * (np.count_nonzero(own) / own.sum())

    def calibrated(self, fit: ClassFit, codes: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return leave-one-out values of `decision_function` of a solution, and its slopes."""
        unit, loo, n_classes = arrays.to_numpy(fit.unit_loo), arrays.to_numpy(fit.loo), self.layout.outputs
        if not self.by_pairs:
            return loo, calibrate(unit, codes, weights)
        slope = pair_slope(unit, codes, weights, n_classes)
        return 2.0 * couple(loo, n_classes, slope) - 1.0, np.array([slope])

    def solved_probabilities(self, problem: Problem, own: Array) -> np.ndarray:
        """Return leave-one-out class probabilities of another problem; `own` are its weights without robust weights."""
        own = arrays.like(own, problem.weights)
        if self.is_least_squares:
            fit = problem.solve()
            slopes = self.slopes_of(problem.y, own, fit)
            return probabilities(arrays.to_numpy(problem.y - fit.loo_residuals), arrays.to_numpy(slopes))
        copies, counts = self.copies(problem.y, own, problem.weights)
        loo, slopes = self.calibrated(solve_classes(problem, self.loss, self.coding, copies), problem.labels, counts)
        return 0.5 * (loo + 1.0) if self.by_pairs else probabilities(loo, slopes)

    @cached_property
    def loo_sample(self) -> LooSample | None:
        """Leave-one-out results of the sample of rows that is kept after fits on chunks."""
        return self.sample if self.stream is None else self.stream.loo_sample()

    @property
    def known_sample(self) -> LooSample:
        """That sample; ValueError for models of older versions."""
        if self.loo_sample is None:
            reason = "its file was written by an older version, after partial_fit"
            raise ValueError(f"The model has no leave-one-out values: {reason}. Fit the model again.")
        return self.loo_sample

    @property
    def given_weights(self) -> np.ndarray:
        """The sample weights of all rows as given."""
        given = self.sample_weight
        return np.ones(self.fit.weights.shape[0]) if given is None else arrays.to_numpy(given)

    @cached_property
    def loo_values(self) -> LooValues | None:
        """Leave-one-out values of all rows or, after fits on chunks, of a sample of them, if they are known."""
        found: Any = self.loo_sample if self.fit.loo_residuals is None else self.fit
        if found is None:
            return None
        if found is self.fit:
            targets, given = arrays.to_numpy(self.targets), self.given_weights
            own = given * self.layout.class_weights(targets) if self.problem is None else self.problem.weights
        else:
            targets, own = found.targets, found.sample_weights
            given = self.layout.sample_weights(targets, own)
        parts = (targets, found.loo_residuals, given, found.weights, own, found.leverage)
        targets, residuals, given, weights, own, leverage = map(arrays.to_numpy, parts)
        robust = np.divide(weights, own, out=np.zeros(len(own)), where=own > 0)
        if self.target is not None:
            predicted, targets = self.target.mean(targets - residuals), self.target.inverse(targets)
            residuals = targets - predicted
        total = len(given) if found is self.fit else found.total
        return LooValues(targets, residuals, given, weights, robust, leverage, total, found is not self.fit)

    def loo_probabilities(self, rows: LooValues) -> np.ndarray:
        """Return class probabilities of the rows, each by the model without it."""
        decision = rows.predicted  # that of `decision_function`, also for pairs
        return of_decision(decision) if self.by_pairs else arrays.to_numpy(self.probabilities(decision))

    # Intervals --------------------------------------------------------------------------------------------------------
    def original(self, residuals: np.ndarray) -> np.ndarray:
        """Return residuals of the targets as given, from those of the targets that f approximates."""
        y = arrays.to_numpy(self.targets)
        return residuals if self.target is None else self.target.inverse(y) - self.target.mean(y - residuals)

    def few_rows(self, *, errors: bool = False) -> int:
        """Return how many parameters were searched, if rows are too few to trust leave-one-out residuals; else 0.

        More rows are needed for `errors` than for intervals.
        """
        least = ROWS_FOR_ERRORS if errors else ROWS_PER_WIDTH
        return 0 if self.problem is None else few_rows(self.problem, least)

    def residuals_of_searches(self, labels: np.ndarray | None) -> np.ndarray | None:
        """Return the residuals of searches without given folds or, without labels, honest ones; None if unknown."""
        if labels is None:
            return self.honest
        is_known = self.searched is not None and np.array_equal(self.searched[0], labels)
        return self.searched[1] if self.searched is not None and is_known else None

    @property
    def loo_model(self) -> LooModel:
        """The leave-one-out values behind all intervals; kept between calls unless they need much memory."""
        problem, fit = self.problem, self.fit
        if problem is not None and 8 * len(problem.rows) * fit.points.shape[0] > KEPT_BYTES:
            return loo_model(problem, fit)
        return self.kept_loo_model

    @cached_property
    def kept_loo_model(self) -> LooModel:
        return SampledLoo(self.known_sample, self.fit) if self.problem is None else loo_model(self.problem, self.fit)

    @cached_property
    def training(self) -> Problem:
        """The rows that are kept for intervals, with their sample weights, which are 0 if the row is not in the fit."""
        problem, fit = self.problem, self.fit
        if problem is None:
            sample = self.known_sample
            rows = (sample.X, sample.targets, sample.sample_weights)
            return Problem(fit.kernel, *rows, groups=self.layout.groups)
        positive = arrays.to_numpy(fit.weights) > 0
        own = problem.replace(weights=arrays.like(arrays.to_numpy(problem.weights) * positive, problem.weights))
        return own if own.target is None else own.replace(y=arrays.like(own.targets, own.y), target=None)


@dataclass(frozen=True, eq=False, repr=False)
class FittedModel(Record):
    """What a fitted estimator has learned: members and their weights in the average of their predictions.

    If some members approximate targets on another scale, all of these have the same scale, and the last is one of them.

    Regression averages the values of the members, classification their probabilities p; the decision values of a stack
    are 2 p - 1.
    """

    members: tuple[Member, ...]
    shares: tuple[Annotated[float, number("a share", 0.0, 1.0)], ...] = (1.0,)
    is_listed: bool = False  # whether the estimator has `members_`: it was fitted with `kernels.Stack`
    stack_path: Bunch | None = None
    scale_choice: ScaleChoice | None = None  # of the noise, from leave-one-out residuals
    searched_scale_choice: ScaleChoice | None = None  # from residuals of repeated searches
    scale: tuple[np.ndarray, NoiseScale | None] | None = field(default=None, metadata={"cached": True})

    @classmethod
    def combine(cls, members: Sequence[Member], steps: Any = None, *, is_stack: bool, shares: Any = None) -> Self:
        """Return the model of a single member, or the average of several, of which those without weight are left out.

        The weights are given, or chosen by leave-one-out; `steps` are those of the estimator, for messages.
        """
        if not is_stack:
            return cls((members[0],))
        members = [member.completed() for member in members]
        require_loo(members, steps, "kernels.Stack weights its models by leave-one-out residuals")
        weights, losses, loss, members = weigh_members(members, shares)
        kept = [place for place, weight in enumerate(weights) if weight > 0]
        paths = [member.path or Bunch() for member in members]
        values = zip(members, losses.tolist(), weights.tolist(), strict=True)
        listed = [Bunch(kernel=m.fit.kernel, C=m.fit.C, loo=loo, weight=weight) for m, loo, weight in values]
        if len(kept) == 1:  # the same model as its only member
            path = members[0].path if len(members) == 1 else Bunch(**{**paths[kept[0]], "members": listed})
        else:
            named = zip((type(member.fit.kernel).__name__ for member in members), paths, strict=True)
            lines = [f"{name}: {line}" for name, one in named for line in one.get("plan", [])]
            evaluations = sum(one.get("evaluations", 0) for one in paths)
            path = Bunch(loo=loss, members=listed, evaluations=evaluations, plan=lines)
        return cls(tuple(members[k] for k in kept), tuple(float(weights[k]) for k in kept), True, path)

    @property
    def layout(self) -> Layout:
        return self.members[0].layout

    @property
    def is_stack(self) -> bool:
        """Whether there are several members."""
        return len(self.members) > 1

    @property
    def problem(self) -> Problem | None:
        """The problem of a single least-squares model that keeps its rows."""
        return None if self.is_stack else self.members[0].problem

    @property
    def fit(self) -> Fit:
        """The solution of a single model."""
        return self.members[0].fit

    @property
    def is_least_squares(self) -> bool:
        """Whether all members minimise sums of squares."""
        return all(member.is_least_squares for member in self.members)

    def average(self, values: Iterable[Any]) -> Any:
        """Return the weighted average of values of the members."""
        values = list(values)
        pairs = zip(values, self.shares, strict=True)
        return values[0] if len(values) == 1 else sum(share * value for value, share in pairs)

    def values(self, X: Array) -> Array:
        """Return f(x) of encoded rows, (rows, outputs); for classes, the values of `decision_function`."""
        if self.layout.classes is None or not (self.is_stack or self.by_pairs):
            f, target = self.average(member.evaluate(X) for member in self.members), self.members[-1].target
            return f if target is None else same_kind(target.bounded(arrays.to_numpy(f)), f)
        decision = 2.0 * self.probabilities(X) - 1.0
        return decision[:, 1:] if self.layout.single else decision

    @property
    def target(self) -> TargetScale | None:
        """The scale of the targets of some members, if that is not the scale of the targets as given."""
        return self.members[-1].target

    @property
    def by_pairs(self) -> bool:
        """Whether this is a single model whose f(x) are decision values of pairs of classes."""
        return not self.is_stack and self.members[0].by_pairs

    def probabilities(self, X: Array) -> Array:
        """Return class probabilities of encoded rows."""
        return self.average(member.probabilities(member.evaluate(X)) for member in self.members)

    def responses(self, X: np.ndarray) -> np.ndarray:
        """Return predictions (rows, outputs) for encoded rows; for classes, probabilities (of two, only the second)."""
        if self.layout.classes is None:
            return arrays.to_numpy(self.values(X))
        p = arrays.to_numpy(self.probabilities(X))
        return p[:, 1:] if self.layout.single else p

    def probabilities_of(self, decision: np.ndarray) -> np.ndarray:
        """Return class probabilities from values of `decision_function`, (rows, 1 or classes)."""
        if self.is_stack or self.by_pairs:
            return of_decision(decision)
        return arrays.to_numpy(self.members[0].probabilities(decision))

    def completed(self) -> Self:
        """Return the same model with leave-one-out results, if the rows are kept, and with calibrated classes."""
        members = tuple(member.completed() for member in self.members)
        same = all(new is old for new, old in zip(members, self.members, strict=True))
        return self if same else replace(self, members=members)

    @cached_property
    def loo_values(self) -> LooValues | None:
        """Leave-one-out values, if they are known; those of a stack are averages, whose weights are held fixed."""
        values = [member.loo_values for member in self.members]
        known = [one for one in values if one is not None]
        if len(known) < len(values) or len(values) == 1:
            return values[0]
        names = ("residuals", "weights", "robust", "leverage")
        found: Any = {name: self.average(getattr(one, name) for one in known) for name in names}
        layout, target = self.members[0].layout, self.members[-1].target
        if target is not None:
            found["residuals"] = known[0].actual - target.bounded(known[0].actual - found["residuals"])
        if layout.classes is not None:
            pairs = zip(self.members, known, strict=True)
            p = self.average(member.loo_probabilities(one) for member, one in pairs)
            found["residuals"] = known[0].actual - 2.0 * (p[:, 1:] if layout.single else p) + 1.0
        return replace(known[0], **found)

    def attributes(self) -> dict[str, Any]:
        """Return the public attributes of the estimator, apart from those about its members."""
        one = self.members[0]
        layout, fit, is_stack = one.layout, one.fit, len(self.members) > 1
        rows = None if fit.loo_residuals is None else self.loo_values
        if is_stack:
            supports: list[Any] = [member.fit.support for member in self.members]
            together = None if any(own is None for own in supports) else np.unique(np.concatenate(supports))
            found: dict[str, Any] = {"kernel_": Stack([m.fit.kernel for m in self.members]), "support_": together}
        else:
            found = {"support_vectors_": fit.points, "dual_coef_": layout.squeezed(fit.coef), "C_": fit.C}
            found |= {"kernel_": fit.kernel, "support_": fit.support}
            found |= {} if fit.weights is None else {"weights_": fit.weights}
            found |= {} if layout.classes is None else {"coding_": one.coding, "loss_": one.loss}
            if one.component_means is not None:
                active = sorted(fit.kernel.kept(fit.points.shape[1]))
                found |= {"active_": np.array(active, dtype=np.intp), "max_variation_": one.max_variation}
        if not is_stack or (layout.classes is None and self.members[-1].target is None):
            intercept = self.average(member.fit.intercept for member in self.members)
            found["intercept_"] = float(intercept[0]) if layout.single else intercept
        if rows is not None:
            predictions = layout.squeezed(rows.predicted)
            if layout.classes is not None:
                predictions = None if np.isnan(predictions).any() else winning_class(rows.predicted, layout.classes)
            found |= {"weights_": rows.weights, "leverage_": rows.leverage, "loo_predictions_": predictions}
            found["loo_residuals_"] = layout.squeezed(rows.residuals)
            found["press_"] = float(rows.weights @ np.sum(rows.residuals**2, axis=1))
        if one.press is not None and not is_stack:
            found["press_"] = one.press
        if self.is_listed:
            found["stack_weights_"] = np.array(self.shares)
        found = {name: same_kind(a, fit.coef) if isinstance(a, np.ndarray) else a for name, a in found.items()}
        return {**layout.attributes, **found, "path_": self.stack_path if self.is_listed else one.path}
