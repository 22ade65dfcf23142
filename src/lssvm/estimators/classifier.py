"""LSSVC: least-squares support vector classification."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import Bunch, compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from .. import arrays, progress
from ..arrays import Array, ArrayLike
from ..intervals import ClassDistribution
from ..kernels import RBF, Choice, Matern
from ..problem import Fit, Problem, class_numbers, solve_classes
from ..rules import Effort, Flag
from ..tune import LeaveOneOut
from ..tune.classes import choose_classifier, with_C_of_more_rows
from ..tune.constants import QUICK
from . import planning
from .base import Solved, on_rows, with_callbacks
from .chunks import ChunkedLSSVM, adds_chunks
from .fitted import FittedModel, Member
from .layout import Layout, same_kind, winning_class
from .validation import encoded_rows, require_loo, score_of, validate


class LSSVC(ClassifierMixin, ChunkedLSSVM):
    """Least-squares support vector classification of two or more classes.

    The classical LS-SVM classifier is `LSSVR` on targets -1 and +1; with more than two classes, there is one column per
    class, against the rest. The squared hinge and the logistic loss, and pairs of classes, are solved by sequences of
    the same weighted systems. Parameters that are None or "auto" are chosen by the log loss of leave-one-out
    predictions.

    Parameters
    ----------
    kernel : Kernel, callable k(X, Z) or None
        None chooses between `kernels.Matern` and `kernels.RBF`; unlike `LSSVR()`, it never fits a stack. Widths are
        those of `LSSVR`.
    C, steps, robust, categorical_features, merge_text, effort, verbose
        As in `LSSVR`. With ``steps=None``, large problems use a basis of 300 to 3000 randomly chosen rows.
    class_weight : dict, "balanced" or None
        Weights of the classes, which multiply the sample weights.
    coding : {"auto", "one-vs-rest", "one-vs-one"}
        How more than two classes are reduced to binary problems. "one-vs-rest" separates each class from all others.
        "one-vs-one" fits one model per pair of classes to the rows of these two, with the same kernel and C for all
        pairs; probabilities come from pairwise coupling (Wu, Lin & Weng 2004).
    loss : {"auto", "squared", "squared_hinge", "logistic"}
        "squared" is the classical LS-SVM, "squared_hinge" a support vector machine, "logistic" kernel logistic
        regression.

    Attributes
    ----------
    classes_ : array (n_classes,)
        The class labels, sorted.
    coding_, loss_ : str
        The coding and loss, as given or chosen; the coding of two classes is "one-vs-rest".
    dual_coef_ : array (n,), (n, n_classes) or (n, n_pairs)
        One column for two classes, else one per class or, for "one-vs-one", one per pair (a, b) of classes with a < b,
        whose decision values are positive for b.
    loo_residuals_ : array (n_samples,) or (n_samples, n_classes)
        Coded target (-1 or +1) minus the leave-one-out value of `decision_function`. Exact for the squared
        loss; for other losses, the weights and working targets of the other rows are held fixed (Cawley & Talbot 2008).
        After a fit with groups, the whole group of the row is left out.
    loo_predictions_ : array (n_samples,)
        The class of each row, predicted by the model without that row, or without its group.
    path_ : Bunch or None
        The record of the search, whose ``candidates`` are the classifiers that it compared, together with that of the
        last step that has one.
    members_ : list of LSSVC
        Stacks (`kernels.Stack`): the fitted models with a positive weight, to which ``C_``, ``coding_``, ``loss_``,
        ``dual_coef_`` and ``support_vectors_`` belong.
    stack_weights_ : array (n_members,)
        Stacks: the weights of the members, which sum to 1.
    support_, support_vectors_, intercept_, C_, kernel_, weights_, leverage_, press_
        As in `LSSVR`.

    Notes
    -----
    "auto" means the classical one (squared loss, one class against the rest) if kernel and C are given, with
    groups, with robust weights, with steps of `lssvm.tune`, with steps that are defined for least squares only, and in
    `partial_fit` and `fit_chunks`.

    Examples
    --------
    >>> from lssvm import LSSVC, datasets
    >>> ripley = datasets.load_ripley()
    >>> model = LSSVC().fit(ripley.data, ripley.target)
    >>> test = datasets.load_ripley(subset="test")
    >>> bool(model.score(test.data, test.target) > 0.88)
    True
    """

    def __init__(
        self,
        kernel: planning.KernelFunction | None = None,
        C: planning.GivenC = None,
        *,
        steps: planning.Steps | None = None,
        robust: planning.Weighting | None = None,
        categorical_features: planning.ColumnNames | None = "from_dtype",
        merge_text: Flag = False,
        class_weight: planning.ClassWeights | None = None,
        coding: planning.Coding = "auto",
        loss: planning.LossName = "auto",
        effort: Effort = 1.0,
        verbose: planning.Verbosity = 0,
    ) -> None:
        columns: Any = {"categorical_features": categorical_features, "merge_text": merge_text}
        super().__init__(kernel, C, steps=steps, robust=robust, **columns, effort=effort, verbose=verbose)
        self.class_weight = class_weight
        self.coding = coding
        self.loss = loss

    def _solve(self, problems: Sequence[Problem], layout: Layout, given: Array | None, steps: Any = None) -> Solved:
        """Return the classifiers of all kernels, each by itself."""
        if len(problems) > 1:
            return progress.each(lambda problem: self._solve([problem], layout, given)[0], problems)
        problem = problems[0]
        plan = planning.class_plan(self, problem)
        if plan is None:
            return super()._solve(problems, layout, given)
        if self.kernel is None:
            # A stack gains nothing: with further members (Matern 1/2, common widths, another loss) the log loss of 19
            # tables was 0.995 to 1.002 times as large, the error 1.00 to 1.02 times.
            quick, kernels = self.effort < QUICK, [Matern(ard=True), RBF(ard=True)]
            problem = problem.replace(kernel=kernels[0] if quick else Choice(kernels))
        last = progress.expect(lambda: float(len(problem.rows)) ** 3)
        candidate, record = choose_classifier(problem, *plan)
        paths = problem.paths if record is None else {**problem.paths, LeaveOneOut.__name__: record}
        problem = problem.replace(kernel=candidate.kernel, C=candidate.C, paths=paths)
        coding = "one-vs-rest" if layout.single else candidate.coding
        if self.steps is not None:
            problem = planning.run_steps(problem, [step for step in self.steps if not isinstance(step, LeaveOneOut)])
        else:
            problem = planning.with_class_basis(problem, candidate.coding, candidate.loss)
            if record is not None and self.C is None:
                problem = with_C_of_more_rows(problem, candidate, record)
        with last:
            if candidate.loss == "squared" and coding == "one-vs-rest":
                return super()._solve([problem], layout, given, steps=[])
            member = self._of_any_loss(problem, layout, given, candidate.loss, coding)
        path = planning.main_path(problem)
        if record is None:
            return [(replace(member, path=path), None)]
        rows: Any = member.loo_values
        places = np.arange(len(rows.codes)), rows.codes
        own = np.maximum(member.loo_probabilities(rows)[places], 1e-15)
        record.loo = float(np.average(-np.log(own), weights=rows.weights))
        wrong = class_numbers(rows.predicted) != rows.codes
        record.error_rate = float(np.average(wrong, weights=rows.weights))
        return [(replace(member, path=Bunch(**{**record, **path})), None)]

    def _of_any_loss(self, problem: Problem, layout: Layout, given: Any, loss: str, coding: str) -> Member:
        """Return the classifier of a problem whose parameters are all known, for any loss and coding."""
        nothing: Any = None
        options: dict[str, Any] = {"coding": coding, "loss": loss, "sample_weight": given, "targets": problem.y}
        member = Member(layout, nothing, problem.asked or (None, None), **options)
        copies, counts = member.copies(problem.y, problem.weights, problem.weights)
        fit = solve_classes(problem, loss, coding, copies)
        loo, slopes = member.calibrated(fit, problem.labels, counts)
        residuals = same_kind(arrays.to_numpy(problem.y) - loo, problem.X)
        parts = (problem.weights, fit.support, fit.points, fit.coef, fit.intercept, nothing, fit.leverage, residuals)
        options["slopes"] = same_kind(slopes, problem.X)
        rows = arrays.take(problem.X, problem.rows)
        return Member.of(layout, Fit(fit.kernel, fit.C, *parts), problem.asked, rows, **options)

    @available_if(adds_chunks)
    @with_callbacks
    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, *, classes: ArrayLike | None = None
    ) -> Self:
        """Add a chunk of rows to the model exactly: the result equals `fit` to all rows so far with the same basis.

        The first call chooses kernel, C, basis and the calibration of `predict_proba` on its rows; later calls keep
        them. After `fit`, `fit_chunks` or a fit on Dask, the chunk is added to their rows. Only a sample of 5000 rows
        is kept, so leave-one-out quantities are not available for all rows.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes : array or None
            All classes; needed in the first call if its rows do not contain all of them.

        Returns
        -------
        self
        """
        return self._add_chunk(X, y, sample_weight, classes)

    def _validated(self, X: Any, y: Any, **options: Any) -> tuple[Layout, Array, np.ndarray, np.ndarray]:
        """Return validated rows, labels and sample weights."""
        layout, X, y, weights = validate(self, X, y, **options)
        y = arrays.to_numpy(y)
        for kind in ((bool, np.bool_), (int, np.integer)) if y.dtype == object and y.ndim == 1 and len(y) else ():
            if all(type(label) is kind[0] or isinstance(label, kind[1]) for label in y):
                y = np.array(y.tolist())  # booleans or integers stored as objects
        try:
            np.unique(y)
            if len(y):
                check_classification_targets(y)
        except TypeError as error:
            raise ValueError(f"y contains labels of several types ({error}): use one type.") from None
        except ValueError as error:
            raise ValueError(f"{error} Use LSSVR for numbers.") from None
        return layout, X, y, weights

    def _with_classes(self, layout: Layout, labels: Any, totals: Any, rows: int, classes: Any = None) -> Layout:
        """Return the layout with the classes and their weights; `classes` are those of later rows as well."""
        found = labels if classes is None else np.unique(arrays.to_numpy(classes))
        if classes is None and labels.dtype.kind == "f" and rows > 20 and len(labels) > rows / 2:
            what = f"Unknown label type: continuous. y has {len(labels)} distinct numbers in {rows} rows"
            raise ValueError(f"{what}: use LSSVR for numbers, or convert labels to integers or text.")
        if len(found) < 2:
            raise ValueError(f"y contains only one class, {found.tolist()[0]!r}: a classifier needs at least 2.")
        factors = class_factors(self.class_weight, found, totals)
        empty = labels[totals * factors == 0].tolist() if classes is None else []  # no row can be assigned to these
        if len(found) - len(empty) < 2:
            what = f"sample_weight and class_weight leave fewer than 2 of the classes {found.tolist()}"
            raise ValueError(f"{what} with positive weight: at least 2 are needed.")
        if empty:
            what = f"No row of the class {empty[0]!r} has positive weight: its probabilities mean nothing."
            arrays.warn(f"{what} Remove its rows.")
        outputs = 1 if len(found) == 2 else len(found)
        return replace(layout, single=len(found) == 2, outputs=outputs, classes=found, class_factors=factors)

    @on_rows
    def decision_function(self, X: ArrayLike) -> Array:
        """Return decision values (n_samples, n_classes); for two classes (n_samples,), positive for ``classes_[1]``."""
        f = self._values(X, "decision_function")
        return self.fitted_.layout.squeezed(f)

    @on_rows
    def predict(self, X: ArrayLike) -> Array:
        """Predict the class of every row.

        Parameters
        ----------
        X : array (n_samples, n_features)
            A Dask collection gives a lazy Dask array.

        Returns
        -------
        array (n_samples,)
            Non-numeric labels are returned as a NumPy array, whatever the array type of X.
        """
        return winning_class(self._values(X, "predict"), self.classes_)

    @on_rows
    def predict_proba(self, X: ArrayLike) -> Array:
        """Return class probabilities (n_samples, n_classes), calibrated on leave-one-out values without refitting.

        The most probable class is the one that `predict` returns.
        """
        return self._probabilities(X, "predict_proba")

    def _probabilities(self, X: ArrayLike, method: str) -> Array:
        rows = encoded_rows(self, X, method)
        return self._completed().probabilities(rows)

    @on_rows
    def predict_distribution(self, X: ArrayLike) -> ClassDistribution:
        """Return the distribution of the classes of new rows: probabilities, sets, samples and log losses.

        Parameters
        ----------
        X : array (n_samples, n_features)
            In memory: the methods for Dask collections are `predict_proba` and `predict_set`.

        Returns
        -------
        lssvm.intervals.ClassDistribution
        """
        return self._predictive(X, "predict_distribution")

    def _predictive(self, X: ArrayLike, method: str) -> ClassDistribution:
        probability, known = self._probabilities(X, method), partial(loo_probabilities, self.fitted_, self.steps)
        return ClassDistribution(probability, self.classes_, known, partial(same_kind, reference=probability))

    @on_rows
    def predict_set(self, X: ArrayLike, coverage: float = 0.9, *, class_conditional: bool = False) -> Array:
        """Return sets of classes that contain the class of a new row with the given probability.

        A class is in the set if the total probability of the more probable classes is at most a threshold (adaptive
        prediction sets). The most probable class is always in the set. The threshold follows from the leave-one-out
        probabilities of the training rows, so that no rows are held back; it is one standard error above that of
        conformal prediction, because kernel and C may have been chosen on the same rows.

        Parameters
        ----------
        X : array (n_samples, n_features)
            A Dask collection gives a lazy Dask array.
        coverage : float
            Between 0 and 1. If there are too few rows for this coverage, the sets contain all classes.
        class_conditional : bool
            Whether the coverage holds for the rows of each class, instead of for all rows together. Sets are then
            larger, and contain every class that has too few rows.

        Returns
        -------
        array of bool (n_samples, n_classes)
            Whether each of ``classes_`` is in the set.
        """
        return self._predictive(X, "predict_set").prediction_set(coverage, class_conditional=class_conditional)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy: the share of the rows whose class is predicted correctly."""
        from sklearn.metrics import accuracy_score

        return score_of(accuracy_score, self.predict(X), y, sample_weight)


def loo_probabilities(fitted: FittedModel, steps: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return leave-one-out probabilities and the classes of the rows of positive weight."""
    require_loo(fitted.members, steps, "Prediction sets need leave-one-out residuals")
    rows: Any = fitted.loo_values
    positive = rows.given > 0
    return fitted.probabilities_of(rows.predicted)[positive], rows.codes[positive]


def shift_weights(rows: Array, shifted: Array) -> Callable[[Array], np.ndarray]:
    """Return the weights of `rows` for new rows of the distribution of `shifted`: see `Jackknife.weigh`.

    The ratio of the densities of the two is, up to a factor, p/(1 - p), where p is the probability that a classifier
    gives to `shifted`. Least-squares fits of the ratio itself (Kanamori et al. 2009) were less accurate.
    """
    rows, shifted = arrays.to_numpy(rows), arrays.to_numpy(shifted)
    model = LSSVC().fit(np.vstack([rows, shifted]), np.repeat([0, 1], [len(rows), len(shifted)]))

    def ratio(X: Array) -> np.ndarray:
        p = np.clip(model.predict_proba(arrays.to_numpy(X)), 1e-15, 1.0)
        return np.asarray(p[:, 1] / p[:, 0])

    known = ratio(rows)
    return lambda X: (len(known) + 1) * known / (known.sum() + ratio(X)[:, None])


def class_factors(class_weight: Any, classes: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Return one weight factor per class; "balanced" needs the sum of the sample weights of each."""
    try:
        if isinstance(class_weight, str) and class_weight == "balanced":
            if not totals.all():
                raise ValueError("'balanced' needs rows with positive weight in every class")
            return totals.sum() / (len(classes) * totals)
        return np.asarray(compute_class_weight(class_weight, classes=classes, y=classes), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"class_weight={class_weight!r}: {error}") from None
