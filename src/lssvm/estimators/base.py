"""The common base class of both estimators: from checked rows to fitted attributes, and predictions."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import check_array
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .. import arrays, progress
from ..arrays import Array, ArrayLike
from ..cluster import lazily
from ..kernels import Additive, Kernel, as_kernel, check_values, pick_columns
from ..problem import Problem
from ..problem.cancellation import CHECKED_ROWS, lost_digits, refit_stably, warn_of_rounding
from ..robust import as_weight_function
from ..tune import LeaveOneOut, describe, tune_members, warn_at_edge, warn_at_edges
from .callbacks import CallbackSupportMixin
from .planning import (
    default_kernel,
    default_steps,
    for_encoded_columns,
    main_path,
    most_to_solve,
    on_spanning_points,
    retuned,
    run_steps,
    worthwhile_members,
)
from .stacked import NO_SINGLE_VALUE, average, new_members, stack_attributes
from .validation import OVERFLOW, is_symmetric, same_kind, validate

_SEEN = ("n_features_in_", "feature_names_in_", "_columns_", "classes_", "_single_output_", "_class_factors_")
_LATER = ("leverage_", "loo_residuals_", "loo_predictions_", "press_")


def is_additive(model: BaseLSSVM) -> bool:
    kernel = getattr(model, "kernel_", model.kernel)
    parts = kernel.parts if getattr(kernel, "is_stack", False) else (kernel,)
    if not all(isinstance(part, Additive) for part in parts):
        raise AttributeError(
            f"components needs an additive model, got kernel={kernel!r}: use kernel=kernels.Additive(...)."
        )
    if len(parts) > 1 and isinstance(model, ClassifierMixin):
        raise AttributeError(
            "A stack of classifiers averages probabilities, which are not sums of components: see members_."
        )
    if len({str(part.groups) for part in parts}) > 1:
        raise AttributeError("The members of this stack have components of different columns: see members_.")
    return True


class Solved(NamedTuple):
    """A fitted model: its attributes, its rounding errors, and its problem if leave-one-out has chosen C in `fit`."""

    attributes: dict[str, Any]
    rounding: float = 0.0
    tuned: Problem | None = None


class BaseLSSVM(CallbackSupportMixin, BaseEstimator):
    """Base class of both estimators: a subclass codes its targets (`_check_rows`) and extends `_loo_attributes`."""

    kernel: Any
    C: Any
    steps: Any
    robust: Any
    categorical_features: Any
    verbose: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = getattr(self.kernel, "is_precomputed", False)
        tags.input_tags.allow_nan = not tags.input_tags.pairwise
        tags.array_api_support = True
        return tags

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also those of a kernel that is given, such as ``kernel__sigma``.

        Parameters
        ----------
        **params
            Names and values.

        Returns
        -------
        self
        """
        known = self.get_params(deep=False)
        for name in params:
            outer, _, inner = name.partition("__")
            value = params.get(outer, known.get(outer))
            if inner and outer in known and not hasattr(value, "set_params"):
                example = {"kernel": "kernels.RBF()", "robust": "robust.Hampel()"}.get(outer, "...")
                raise ValueError(
                    f"{name}: {outer} is {value!r}, which has no parameter {inner!r}: give an object that has it, e.g. "
                    f"{type(self).__name__}({outer}={example})."
                )
        return super().set_params(**params)

    @arrays.single_threaded_blas()
    @np.errstate(under="ignore")
    def _fit_rows(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """Fit the model to rows in memory."""
        checked = copy.copy(self)
        X, y, weights = checked._check_rows(X, y, sample_weight, reset=True)
        given = None if sample_weight is None else checked._without_class_weights(y, weights)
        self._store(checked, checked._fitted(checked._problem(X, y, weights), given))
        return self

    def _fitted(self, problem: Problem, given: Array | None) -> dict[str, Any]:
        """The attributes of a fitted model; `given` are the user's sample weights."""
        if not problem.kernel.is_stack:
            return self._fitted_one(problem, given)
        members = new_members(self, problem.kernel.parts)
        parts = [problem.replace(kernel=member.kernel, asked=(member.kernel, problem.C)) for member in members]
        solved = self._fitted_each(parts, given)
        for place, one in solved.items():
            members[place]._store(self, one.attributes)
        found = stack_attributes(self, [members[place] for place in solved])
        kept = [place for place in solved if any(members[place] is other for other in found["members_"])]
        warn_at_edges([one.tuned for place, one in solved.items() if place in kept and one.tuned is not None])
        worst = max(kept, key=lambda place: solved[place].rounding)
        warn_of_rounding(solved[worst].rounding, members[worst].C_)
        return found

    def _fitted_one(self, problem: Problem, given: Array | None) -> dict[str, Any]:
        """The attributes of a single model."""
        one = self._fitted_each([problem], given)[0]
        if one.tuned is not None:
            warn_at_edge(one.tuned)
        warn_of_rounding(one.rounding, one.attributes["C_"])
        return one.attributes

    def _fitted_each(self, problems: Sequence[Problem], given: Array | None, steps: Any = None) -> dict[int, Solved]:
        """By place: the models of the problems.

        The problems differ in kernels only. Members of a stack that take too long or are far behind are left out.
        """
        last = progress.expect(lambda: len(problems) * most_to_solve(problems[0]))
        steps = self.steps if steps is None else steps
        if steps is None:  # all members share the basis of the first one, unless they need fewer points
            first = run_steps(problems[0], default_steps(problems[0]))
            if first.is_known and len(problems) > 1:
                first = first.replace(fitted=first.solve())
            basis = {"support": first.support, "points": first.points}
            ready = [first, *(on_spanning_points(problem.replace(**basis)) for problem in problems[1:])]
            ready = ready[: worthwhile_members(first)] if self.kernel is None else ready
        else:
            ready = [run_steps(problem, steps) for problem in problems]
        known = tune_members(ready)
        with last:
            return {
                place: self._solved(problem, given, tuned=self.C is None and not ready[place].is_known)
                for place, problem in known.items()
            }

    def _solved(self, problem: Problem, given: Array | None, *, tuned: bool) -> Solved:
        """The model of a problem whose parameters are all known."""
        chosen = problem.replace(fitted=None) if tuned else None
        fit = problem.solve(loo=LeaveOneOut.__name__ in problem.paths)
        problem, fit, lost = refit_stably(problem, fit, retuned)
        describe(problem, fit)
        later = fit.leverage is None
        loo_attributes = {} if later else self._loo_attributes(problem.y, problem.weights, fit.weights, fit)
        attributes = {
            **self._model_attributes(fit.kernel, fit.C, fit.points, fit.coef, fit.intercept),
            **additive_attributes(fit.kernel, fit.points, fit.coef, arrays.take(problem.X, problem.rows)),
            "weights_": fit.weights,
            "_sample_weight_": given,
            **loo_attributes,
            "support_": same_kind(fit.support, problem.X),
            "path_": main_path(problem),
            "_problem_": problem.replace(fitted=None),
            **({} if later else {"_fit_": fit}),
        }
        return Solved(attributes, lost, chosen)

    def __getattr__(self, name: str) -> Any:
        if name in _LATER and "_problem_" in self.__dict__:
            raise AttributeError(f"fit does not compute {name} for this many rows: call leave_one_out() first.")
        if name in NO_SINGLE_VALUE and "members_" in self.__dict__:
            raise AttributeError(f"{name} has no single value for a stack of models: see members_.")
        return object.__getattribute__(self, name)  # raises the usual AttributeError

    @arrays.single_threaded_blas()
    @np.errstate(under="ignore")
    def leave_one_out(self) -> Self:
        """Compute the leave-one-out attributes, if `fit` has not done so, and store them.

        If kernel and C are given, `fit` solves a dense model of more than 4000 rows by conjugate gradients. Then
        ``leverage_``, ``loo_residuals_``, ``loo_predictions_`` and ``press_`` are missing until this method is called,
        which takes several times as long as the fit. `predict_interval` and `LSSVC.predict_proba` call it.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        if "_problem_" in vars(self) and "_fit_" not in vars(self):
            problem = self._problem_
            fit = problem.replace(weights=self.weights_, robust=None).solve()
            warn_of_rounding(lost_digits(problem, fit), fit.C)
            loo_attributes = self._loo_attributes(problem.y, problem.weights, fit.weights, fit)
            self.__dict__ = {**vars(self), **loo_attributes, "_fit_": fit}
        elif "loo_residuals_" not in vars(self):
            raise ValueError(
                "The model does not keep enough rows for leave_one_out(): use fit, or fit_chunks(leave_one_out='rows')."
            )
        return self

    def _problem(self, X: Array, targets: Array, weights: Array) -> Problem:
        """The problem before its steps."""
        classification = isinstance(self, ClassifierMixin)
        # a clone, so that the user's kernel stays unchanged
        kernel = default_kernel(classification) if self.kernel is None else clone(as_kernel(self.kernel))
        if "_columns_" in vars(self) and not self._columns_.are_plain:
            kernel = for_encoded_columns(kernel, self._columns_)
        kernel = kernel.placed(X[weights > 0])
        robust = as_weight_function(self.robust)
        if not kernel.is_free:
            kernel.check(X.shape[1])
        if kernel.is_precomputed and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"X has shape {X.shape}: with kernels.Precomputed, fit takes the square kernel matrix of the training "
                "rows."
            )
        if kernel.is_precomputed and not is_symmetric(arrays.to_numpy(X)):
            raise ValueError(
                "X is not symmetric: with kernels.Precomputed, fit takes the matrix k(x_i, x_j) of the training rows."
            )
        counting = np.flatnonzero(arrays.to_numpy(weights) > 0)
        check_values(kernel, arrays.take(X, counting[:: 1 + len(counting) // CHECKED_ROWS]))
        C = None if self.C is None else float(self.C)
        return Problem(
            kernel,
            X,
            targets,
            weights,
            C=C,
            asked=(kernel, C),
            robust=robust,
            classification=classification,
            groups=self._groups,
        )

    @property
    def _groups(self) -> np.ndarray | None:
        """The numbers of the inputs of the encoded columns; None if every column is an input."""
        return self._columns_.groups if "_columns_" in vars(self) else None

    def _model_attributes(
        self, kernel: Kernel, C: float, points: Array, coef: Array, intercept: Array
    ) -> dict[str, Any]:
        """The attributes needed to predict."""
        single = self._single_output_
        coef = coef[:, 0] if single else coef
        return {
            "support_vectors_": points,
            # in the memory order of model files, so that a loaded model gives bitwise the same products
            "dual_coef_": np.ascontiguousarray(coef) if arrays.is_numpy(coef) else coef,
            "intercept_": float(intercept[0]) if single else intercept,
            "C_": C,
            "kernel_": kernel,
        }

    def _without_class_weights(self, targets: Array, weights: Array) -> Array:
        """The sample weights as given, from the weights that `_check_rows` returned with the targets."""
        return weights

    def _loo_attributes(self, targets: Array, sample_weight: Array, weights: Array, fit: Any) -> dict[str, Any]:
        """The leave-one-out attributes."""
        loo = fit.loo_residuals
        return {
            "weights_": weights,
            "leverage_": fit.leverage,
            "loo_residuals_": loo[:, 0] if self._single_output_ else loo,
            "press_": float(weights @ arrays.namespace(loo).sum(loo * loo, axis=1)),
        }

    def _store(self, checked: BaseLSSVM, attributes: dict[str, Any]) -> None:
        """Replace all fitted attributes at once, so that an interrupted fit leaves the previous state unchanged."""
        kept = {name: value for name, value in vars(self).items() if not name.endswith("_")}
        seen = {name: value for name, value in vars(checked).items() if name in _SEEN}
        self.__dict__ = {**kept, **seen, **attributes}

    @available_if(is_additive)
    def components(self, X: ArrayLike) -> Array:
        """The components of an additive model: functions of one input each, with mean 0 over the training rows.

        Their sum differs from the prediction (for a classifier, the decision value) by a constant. Components that are
        not kept are zero. After `partial_fit` or `fit_chunks` the means are those over the basis points.

        Parameters
        ----------
        X : array (n_samples, n_features)
            For a Dask collection the result is a lazy Dask array.

        Returns
        -------
        array (n_samples, n_components) or (n_samples, n_components, n_outputs)
            One component per input, or per group of `kernels.Additive`.
        """
        if arrays.is_dask(X):
            return lazily(self, "components", X)
        X = self._checked(X, "components")
        if self._is_stack:
            return average(self._weighted_members, lambda member: member._components(X))
        return self._components(X)

    def _components(self, X: Array) -> Array:
        """The components of validated rows."""
        coef = self.dual_coef_[:, None] if self.dual_coef_.ndim == 1 else self.dual_coef_
        values = raw_components(self.kernel_, arrays.like(self.support_vectors_, X), arrays.like(coef, X), X)
        values -= arrays.to_numpy(self._component_means_)
        return same_kind(values[:, :, 0] if self.dual_coef_.ndim == 1 else values, X)

    @arrays.single_threaded_blas()
    @np.errstate(under="ignore")
    def _raw_predict(self, X: Any, method: str) -> Array:
        """f(x), rows x outputs."""
        return self._finite(self._evaluate(self._checked(X, method)))

    def _finite(self, f: Array) -> Array:
        if not bool(arrays.namespace(f).all(arrays.namespace(f).isfinite(f))):
            raise ValueError(OVERFLOW)
        return f

    @property
    def _is_stack(self) -> bool:
        return "members_" in vars(self) and "dual_coef_" not in vars(self)

    @property
    def _weighted_members(self) -> list[tuple[BaseLSSVM, float]]:
        """The members of a stack with their weights."""
        return list(zip(self.members_, arrays.to_numpy(self.stack_weights_).tolist(), strict=True))

    def _evaluate(self, X: Array) -> Array:
        """f(x) of validated rows, (rows, outputs)."""
        if self._is_stack:
            return average(self._weighted_members, lambda member: member._evaluate(X))
        coef = self.dual_coef_[:, None] if self.dual_coef_.ndim == 1 else self.dual_coef_
        intercept = self.intercept_ if self.dual_coef_.ndim == 1 else arrays.like(self.intercept_, X)
        return self.kernel_.dot(X, arrays.like(self.support_vectors_, X), arrays.like(coef, X)) + intercept

    def _checked(self, X: Any, method: str) -> Array:
        """Validated new rows; the columns of a precomputed kernel may be those of all training rows or of the basis."""
        check_is_fitted(self)
        self._check_kind(X, method)
        if not self.kernel_.is_precomputed:
            return validate(self, X, reset=False)
        K = check_array(arrays.to_numpy(X) if arrays.is_foreign(X) else X, dtype=np.float64)
        if K.shape[1] == self.support_.shape[0] != self.n_features_in_:
            full = np.zeros((K.shape[0], self.n_features_in_))
            full[:, arrays.to_numpy(self.support_)] = K
            X = arrays.like(full, X) if arrays.is_foreign(X) else full
        return validate(self, X, reset=False)

    def _check_kind(self, X: Any, method: str) -> None:
        """Apply scikit-learn's rule if array API dispatch is on; otherwise arrays of another kind are converted."""
        if get_config()["array_api_dispatch"] and (arrays.is_foreign(X) or isinstance(X, np.ndarray)):
            coef = self.stack_weights_ if self._is_stack else self.dual_coef_
            if arrays.namespace(X) is not arrays.namespace(coef):
                raise ValueError(
                    f"Inputs passed to {type(self).__name__}.{method}() must use the same namespace and the same "
                    f"device as those passed to fit(): got {type(X).__name__}, fitted on {type(coef).__name__}."
                )


def raw_components(kernel: Additive, points: Any, coef: Any, X: Any) -> np.ndarray:
    """The components before centring: rows x components x outputs."""
    out = np.zeros((X.shape[0], len(kernel.components(X.shape[1])), coef.shape[1]))
    for number, (group, part) in kernel.kept(X.shape[1]).items():
        out[:, number] = arrays.to_numpy(part.dot(pick_columns(X, group), pick_columns(points, group), coef))
    return out


def additive_attributes(kernel: Kernel, points: Any, coef: Any, rows: Any) -> dict[str, Any]:
    """The attributes of an additive model, whose components are centred over the given rows."""
    if not isinstance(kernel, Additive):
        return {}
    values = raw_components(kernel, points, coef, rows)
    means = values.mean(axis=0)
    variation = np.max(np.abs(values - means), axis=0)
    return {
        "active_": same_kind(np.array(sorted(kernel.kept(rows.shape[1])), dtype=np.intp), rows),
        "max_variation_": same_kind(variation[:, 0] if coef.shape[1] == 1 else variation, rows),
        "_component_means_": same_kind(means, rows),
    }
