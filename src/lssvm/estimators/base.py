"""The common base class of both estimators: parameters, `fit`, attributes and predictions."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .. import arrays, progress
from ..arrays import Array, ArrayLike
from ..cluster import DaskChunks, lazily
from ..kernels import Additive
from ..losses import LOG_LINKS
from ..problem import Problem, fit_monotonic, refit_stably, warn_of_rounding
from ..rules import Effort, Flag, check_parameters
from ..stream.sources import label_totals
from ..system import iterative
from ..tables import Column
from ..tune import LeaveOneOut
from ..tune.choose_C import warn_at_edge, warn_of_no_signal
from ..tune.leave_one_out import describe, tune_members
from . import planning
from .fitted import FittedModel, Member
from .layout import Layout, Table, unfitted
from .validation import encoded_rows

try:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as _with_callbacks
except ImportError:  # before scikit-learn 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in for the mixin, and adds nothing."""

    def _with_callbacks(method: Any) -> Any:
        return method


Method = TypeVar("Method", bound=Callable[..., Any])
Solved = list[tuple[Member, Problem | None]]  # models, each with its problem if C has been chosen for it
TASKS = 100  # A fit is divided into this many subtasks for callbacks.
IN_MEMORY = ("predict_distribution", "confidence_interval")
LATER = ("leverage_", "loo_residuals_", "loo_predictions_", "press_")  # These attributes may be deferred by `fit`.
# A stack has these attributes only in its members.
NO_SINGLE_VALUE = ("C_", "coding_", "dual_coef_", "intercept_", "loss_", "support_vectors_")


# Progress reporting during a fit: the line of verbose=1, and scikit-learn's callbacks (1.9 and later) ----------------
# decorates a method that fits, so that callbacks are torn down at its end
with_callbacks: Callable[[Method], Method] = _with_callbacks


@contextmanager
def followed(model: Any, **data: Any) -> Iterator[None]:
    """Check the parameters, run a fit on the threads of lssvm, and report its progress.

    Progress is shown if the model is verbose, and reported to its callbacks. The hooks of the callbacks get `data`.
    """
    check_parameters(model)
    listeners: list[progress.Listener] = []
    with arrays.single_threaded_blas(), np.errstate(under="ignore"), ExitStack() as stack:
        if model.verbose and sys.stderr is not None:
            listeners.append(stack.enter_context(progress.Line(f"fitting {type(model).__name__}")))
        task = None
        if "_skl_callbacks" in vars(model):
            task = model._init_callback_context(max_subtasks=TASKS)
            task.call_on_fit_task_begin(estimator=model, **data)
            listeners.append(_subtasks(model, task))
        if listeners:
            stack.enter_context(progress.listening(lambda share: [listener(share) for listener in listeners]))
        yield
    if task is not None:
        task.call_on_fit_task_end(estimator=model, reconstruction_attributes={}, **data)


def _subtasks(model: Any, task: Any) -> progress.Listener:
    """Return a listener that begins and ends one subtask per `TASKS`-th of the work."""
    done = 0

    def advance(share: float) -> None:
        nonlocal done
        for _ in range(done, int(TASKS * share)):
            part = task.subcontext(task_name="percent")
            part.call_on_fit_task_begin(estimator=model)
            part.call_on_fit_task_end(estimator=model)
            done += 1

    return advance


def on_rows(method: Method) -> Method:
    """Decorate a method of a fitted model that has a result for each row of X, so that Dask collections stay lazy.

    Those `IN_MEMORY` refuse them.
    """
    signature = inspect.signature(method)

    @functools.wraps(method)
    def apply(self: Any, X: Any, *values: Any, **named: Any) -> Any:
        if arrays.is_dask(X):
            if method.__name__ in IN_MEMORY:
                what = f"{method.__name__} takes rows in memory, but X is a Dask collection"
                raise TypeError(f"{what}: pass one block.")
            given = signature.bind(self, X, *values, **named).arguments
            return lazily(self, method.__name__, X, **{name: given[name] for name in list(given)[2:]})
        with arrays.single_threaded_blas(), np.errstate(all="ignore"):
            return method(self, X, *values, **named)

    return apply  # type: ignore[return-value]


def is_additive(model: BaseLSSVM) -> bool:
    kernel: Any = getattr(model, "kernel_", model.kernel)
    parts = kernel.parts if getattr(kernel, "is_stack", False) else (kernel,)
    if not all(isinstance(part, Additive) for part in parts):
        raise AttributeError(f"components needs an additive kernel, got {kernel!r}: use kernel=kernels.Additive(...).")
    if len(parts) > 1 and isinstance(model, ClassifierMixin):
        raise AttributeError("This stack averages probabilities, which are not sums of components: see members_.")
    if len({str(part.groups) for part in parts}) > 1:
        raise AttributeError("The members of this stack have components of different columns: see members_.")
    return True


def publish(model: Any, fitted: FittedModel, *, refined: bool = False) -> Any:
    """Set all attributes at once, so that an interrupted fit leaves the previous state unchanged.

    Other attributes with a trailing underscore are removed, unless the same fit is `refined`.
    """
    attributes = fitted.attributes()
    if fitted.is_listed:
        is_auto = getattr(model, "target", None) == "auto"
        attributes["members_"] = []
        for member in fitted.members:
            given: dict[str, Any] = {"kernel": member.asked[0]}
            if is_auto and member.target is not None:
                given["target"] = member.target.name
            attributes["members_"].append(publish(unfitted(model, **given), FittedModel((member,))))
    kept = {name: value for name, value in vars(model).items() if refined or not name.endswith("_")}
    model.__dict__ = {**kept, **attributes, "fitted_": fitted}
    return model


class BaseLSSVM(CallbackSupportMixin, BaseEstimator):
    """Base class of both estimators: a subclass codes its targets."""

    fitted_: FittedModel
    __metadata_request__fit = {"groups": True}

    def __init__(
        self,
        kernel: planning.KernelFunction | None = None,
        C: planning.GivenC = None,
        *,
        steps: planning.Steps | None = None,
        robust: planning.Weighting | None = None,
        categorical_features: planning.ColumnNames | None = "from_dtype",
        merge_text: Flag = False,
        effort: Effort = 1.0,
        verbose: planning.Verbosity = 0,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.steps = steps
        self.robust = robust
        self.categorical_features = categorical_features
        self.merge_text = merge_text
        self.effort = effort
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = getattr(self.kernel, "is_precomputed", False)
        tags.input_tags.allow_nan = not tags.input_tags.pairwise
        tags.array_api_support = True
        loss: Any = getattr(self, "loss", None)
        tags.target_tags.positive_only = loss in LOG_LINKS or getattr(self, "target", None) == "log"
        tags.target_tags.multi_output = isinstance(self, RegressorMixin) and loss == "squared"
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
                remedy = f"give an object that has it, e.g. {type(self).__name__}({outer}={example})."
                raise ValueError(f"{name}: {outer} is {value!r}, which has no parameter {inner!r}: {remedy}")
        return super().set_params(**params)

    @with_callbacks
    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array or frame (n_samples, n_features)
            Numbers and, in frames of pandas or polars and pyarrow tables, text and categories; cells may be missing.
            The square kernel matrix for `kernels.Precomputed`. For a torch tensor or CuPy array all computations run on
            its device, and results are arrays of the same kind. A Dask array or dataframe is processed by its scheduler
            as in `fit_chunks`; only sums and a sample of the rows are returned to the client, and the per-row results
            (`loo_residuals_`, `leverage_`, `weights_`, `loo_predictions_`) are lazy Dask arrays. With ``steps=()`` the
            rows are returned, too, and workers multiply by the kernel matrix of a large dense model.
        y : array (n_samples,), or (n_samples, n_outputs) for regression
            Numbers for `LSSVR`, labels of any type for `LSSVC`.
        sample_weight : array (n_samples,) or None
            Non-negative weights. A weight of 0 removes the row. For a given kernel and C, integer weights are
            equivalent to copies of rows; otherwise, a common factor of all weights changes nothing but C.
        groups : array of one label per row, or None
            Rows that belong together, such as those of the same patient, if the model is for new groups. Wherever a row
            is left out, its group is: in the choice of kernel, C and the weights of a stack, in intervals, in
            probabilities and in ``loo_residuals_``, ``loo_predictions_`` and ``press_``. All of it is exact, without
            refitting. Rows of weight 0 belong to no group: all other rows predict them. With metadata routing of
            scikit-learn, ``groups`` are requested by default.

        Returns
        -------
        self
        """
        metadata = {"sample_weight": sample_weight, "groups": groups}
        with followed(self, X=X, y=y, metadata=metadata), ExitStack() as stack:
            if arrays.is_dask(X):
                if groups is not None:
                    raise TypeError("groups need rows in memory, but X is a Dask collection: use fit on an array.")
                source = DaskChunks(X, y, sample_weight)
                if self.steps is None or len(self.steps):
                    return self._fit_source(source, "press")
                X, y, sample_weight = stack.enter_context(source.in_memory())
            table = replace(self._read(X, y, sample_weight), groups=groups)
            table = planning.with_best_scales(self, table)
            problems, is_stack = planning.plan(self, table)
            given = None if sample_weight is None else table.layout.sample_weights(table.targets, table.weights)
            solved = self._solve(problems, table.layout, given)
            fitted = FittedModel.combine([member for member, _ in solved], self.steps, is_stack=is_stack)
            fits = [member.fit for member in fitted.members]
            tuned = [problem for one, problem in solved if problem is not None and any(one.fit is fit for fit in fits)]
            tuned = [problem for problem in tuned if problem.kernel.leaves or not is_stack]
            if tuned:
                warn_at_edge(tuned)
            worst, rows = max(fits, key=lambda fit: fit.rounding), fitted.loo_values
            warn_of_rounding(worst.rounding, worst.C)
            is_searched = not all(problem.is_known for problem in problems)
            if is_searched and rows is not None and not isinstance(self, ClassifierMixin):
                warn_of_no_signal(rows.actual, rows.residuals, arrays.to_numpy(problems[0].weights))
            return publish(self, fitted)

    def _read(self, X: Any, y: Any, weights: Any, layout: Any = None, classes: Any = None, least: int = 1) -> Table:
        """Return validated rows, with the layout of an earlier fit if there is one."""
        least = 2 if layout is None else least
        found, X, y, weights = self._validated(X, y, layout=layout, sample_weight=weights, least=least)
        if layout is None and isinstance(self, ClassifierMixin):
            found = self._with_classes(found, *label_totals(y, weights), len(weights), classes)
        return Table.of(found, X, y, weights)

    def _solve(self, problems: Sequence[Problem], layout: Layout, given: Array | None, steps: Any = None) -> Solved:
        """Return the models of problems that differ in kernels only, except those that gain too little for their time.

        `given` are the sample weights.
        """
        first = problems[0]
        if first.loss != "squared":
            planning.check_loss(self, f"loss={first.loss!r}", "loss='squared'")
        last = progress.expect(lambda: len(problems) * planning.most_to_solve(problems[0]))
        is_distributed = iterative.distributed.get() is not None  # leave-one-out is not deferred
        ready = planning.with_bases(problems, self.steps if steps is None else steps, is_default=self.kernel is None)
        if self.verbose:
            planning.announce(ready)
        known, found = tune_members(ready), []
        with last:
            for place, problem in known.items():
                chosen = self.C is None and problem.loss == "squared" and not ready[place].is_known
                tuned = problem.replace(fitted=None) if chosen else None
                needs_loo = is_distributed or LeaveOneOut.__name__ in problem.paths or problem.target is not None
                fit = problem.solve(loo=needs_loo)
                problem, fit = refit_stably(problem, fit, planning.retuned)
                if problem.monotonic is not None:
                    problem, fit = fit_monotonic(problem, fit)
                describe(problem, fit)
                targets, target = None if fit.loo_residuals is None else problem.y, problem.target
                if target is not None:
                    target = target.smeared(*map(arrays.to_numpy, (fit.loo_residuals, fit.weights)))
                parts = {"path": planning.main_path(problem), "sample_weight": given, "targets": targets}
                parts |= {"target": target, "loss": problem.loss}
                rows = arrays.take(problem.X, problem.rows)
                member = Member.of(layout, fit, problem.asked, rows, problem=problem.replace(fitted=None), **parts)
                found.append((member if targets is None else member.completed(), tuned))
        return found

    @property
    def columns_(self) -> dict[str | int, str]:
        """What was understood of each column of the table, by name."""
        check_is_fitted(self)
        layout = self.fitted_.layout
        columns = map(Column, range(layout.n_features)) if layout.columns is None else layout.columns.columns
        return {own.name: own.words + f" on the scale {own.scale}" * bool(own.unit) for own in columns}

    @property
    def feature_importances_(self) -> np.ndarray:
        """Shares of the columns in the mean squared changes of predictions if one of them is set to its median.

        A quick measure for scikit-learn's selection of columns (`RFE`, `SelectFromModel`), over the training rows that
        the model keeps. `lssvm.diagnose.importance` compares leave-one-out errors instead.
        """
        check_is_fitted(self)
        if self.kernel_.is_precomputed:
            raise AttributeError("feature_importances_: a precomputed kernel has no columns.")
        fitted, sources, one = self.fitted_, self.fitted_.layout.sources, self.fitted_.members[0]
        kept = one.fit.points if one.problem is None and one.loo_sample is None else one.training.X
        rows = arrays.to_numpy(kept)
        before, medians, sizes = fitted.responses(rows), np.median(rows, axis=0), np.zeros(fitted.layout.n_features)
        for column in np.unique(sources):
            changed = np.where(sources == column, medians, rows)
            sizes[column] = np.mean((fitted.responses(changed) - before) ** 2)
        return sizes / (sizes.sum() or 1.0)

    def __getattr__(self, name: str) -> Any:
        fitted = self.__dict__.get("fitted_")
        if fitted is not None and name in LATER and fitted.members[0].deferred:
            raise AttributeError(f"fit does not compute {name} for this many rows: call leave_one_out() first.")
        if fitted is not None and name in NO_SINGLE_VALUE and fitted.is_listed:
            raise AttributeError(f"{name} has no single value for a stack of models: see members_.")
        return object.__getattribute__(self, name)  # raises the usual AttributeError

    @arrays.single_threaded_blas()
    @np.errstate(under="ignore")
    def leave_one_out(self) -> Self:
        """Compute the leave-one-out attributes, if `fit` has not done so, and store them.

        If kernel and C are given, `fit` solves a dense model of more than 4000 rows by conjugate gradients. Then
        ``leverage_``, ``loo_residuals_``, ``loo_predictions_`` and ``press_`` are missing until this method is called,
        which takes several times as long as the fit. With more than 15,000 rows, or more than the memory of a
        GPU holds, they are estimates.
        `predict_interval` and `LSSVC.predict_proba` call it.
        """
        self._completed()
        if "loo_residuals_" not in vars(self):
            remedy = "use fit, or fit_chunks(leave_one_out='rows')."
            raise ValueError(f"The model does not keep enough rows for leave_one_out(): {remedy}")
        return self

    def _completed(self) -> FittedModel:
        """Return the fitted model with what `fit` has deferred."""
        check_is_fitted(self)
        fitted = self.fitted_.completed()
        if fitted is not self.fitted_:
            publish(self, fitted, refined=True)
        return fitted

    @available_if(is_additive)
    @on_rows
    def components(self, X: ArrayLike) -> Array:
        """Return the components of an additive model: functions of one input each, with mean 0 over the training rows.

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
        X = encoded_rows(self, X, "components")
        return self.fitted_.average(member.components(X) for member in self.fitted_.members)

    def _values(self, X: Any, method: str) -> Array:
        """Return f(x) of new rows, (rows, outputs); for classes, the values of `decision_function`."""
        rows = encoded_rows(self, X, method)
        return self.fitted_.values(rows)
