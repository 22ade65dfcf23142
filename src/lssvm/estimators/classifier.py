"""LSSVC: least-squares support vector classification.

One long file, because everything that codes classes or turns decision values into probabilities belongs together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import Bunch
from sklearn.utils.metaestimators import available_if

from .. import arrays, progress
from ..arrays import Array, ArrayLike
from ..cluster import lazily
from ..coding import SURE, couple, pair_slope
from ..intervals import calibrate, calibration_weights, probabilities, set_scores, set_thresholds
from ..kernels import RBF, Choice, Matern, as_kernel
from ..problem import ClassFit, Problem, class_numbers, solve_classes
from ..stream import (
    Scan,
)
from ..tune import LeaveOneOut, choose_classifier, mixture_weights, with_C_of_more_rows
from .base import Solved, additive_attributes
from .callbacks import followed, with_callbacks
from .chunked import ChunkedLSSVM, RowResults, adds_chunks
from .labels import (
    balanced_weights,
    check_labels,
    plain_labels,
    refuse_numbers,
    sorted_labels,
    warn_of_empty_classes,
    winning_class,
)
from .parameters import ClassWeights, Coding, ColumnNames, GivenC, KernelFunction, LossName, Steps, Verbosity, Weighting
from .planning import class_plan, class_steps, main_path, run_steps
from .stacked import average
from .state import class_weights
from .validation import check_coverage, check_weights, chunk_options, same_kind, score_of, validate


class LSSVC(ClassifierMixin, ChunkedLSSVM):
    """Least-squares support vector classification of two or more classes.

    The classical LS-SVM classifier is `LSSVR` on targets -1 and +1; more than two classes have one column per class,
    against the rest. The squared hinge and the logistic loss, and pairs of classes, are solved by sequences of the same
    weighted systems. Parameters that are None or "auto" are chosen by the log loss of leave-one-out predictions.

    Parameters
    ----------
    kernel : Kernel, callable k(X, Z) or None
        None chooses between `kernels.Matern` and `kernels.RBF`; unlike `LSSVR()`, it never fits a stack. Widths are
        those of `LSSVR`.
    C, steps, robust, categorical_features, verbose
        As in `LSSVR`. With ``steps=None``, large problems use a basis of 300 to 1500 randomly chosen rows.
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
    loo_predictions_ : array (n_samples,)
        The class of each row, predicted by the model without that row.
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
    robust weights, with steps of `lssvm.tune`, with steps that are defined for least squares only, and in `partial_fit`
    and `fit_chunks`.

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
        kernel: KernelFunction | None = None,
        C: GivenC = None,
        *,
        steps: Steps | None = None,
        robust: Weighting | None = None,
        categorical_features: ColumnNames | None = "from_dtype",
        class_weight: ClassWeights | None = None,
        coding: Coding = "auto",
        loss: LossName = "auto",
        verbose: Verbosity = 0,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.steps = steps
        self.robust = robust
        self.categorical_features = categorical_features
        self.class_weight = class_weight
        self.coding = coding
        self.loss = loss
        self.verbose = verbose

    def _fitted_each(self, problems: Sequence[Problem], given: Array | None, steps: Any = None) -> dict[int, Solved]:
        found = {}
        for place, problem in enumerate(problems):
            with progress.one_of(place, len(problems)):
                found[place] = self._fitted_classes(problem, given)
        return found

    def _fitted_classes(self, problem: Problem, given: Array | None) -> Solved:
        """The classifier of one kernel."""
        plan = class_plan(self, problem)
        if plan is None:
            return super()._fitted_each([problem], given)[0]
        if self.kernel is None:
            problem = problem.replace(kernel=Choice([Matern(ard=True), RBF(ard=True)]))
        last = progress.expect(lambda: float(len(problem.rows)) ** 3)
        setting, record = choose_classifier(problem, *plan)
        paths = problem.paths if record is None else {**problem.paths, LeaveOneOut.__name__: record}
        problem = problem.replace(kernel=setting.kernel, C=setting.C, paths=paths)
        squares = setting.loss == "squared" and (self._single_output_ or setting.coding == "one-vs-rest")
        if self.steps is None:
            problem, steps = run_steps(problem, class_steps(problem, setting.coding, setting.loss)), []
            if record is not None and self.C is None:
                problem = with_C_of_more_rows(problem, setting, record)
        else:
            steps = [step for step in self.steps if not isinstance(step, LeaveOneOut)]
        if squares:
            with last:
                return super()._fitted_each([problem], given, steps)[0]
        problem = run_steps(problem, steps)
        codes, weights = problem.labels, arrays.to_numpy(problem.weights)
        copies, counts = self._copies(problem.y, problem.weights, problem.weights)
        with last:
            fit = solve_classes(problem, setting.loss, setting.coding, copies)
        coding = "one-vs-rest" if self._single_output_ else setting.coding
        loo, slopes = self._calibrated(fit, coding, codes, counts)
        residuals = arrays.to_numpy(problem.y) - loo
        if record is not None:
            record.loo = float(np.average(-np.log(_own_probability(loo, codes, slopes, coding)), weights=weights))
            record.error_rate = float(np.average(class_numbers(loo) != codes, weights=weights))
        values = {
            "_slopes_": slopes,
            "_codes_": codes,
            "loo_residuals_": residuals[:, 0] if self._single_output_ else residuals,
        }
        attributes = {
            **self._model_attributes(fit.kernel, fit.C, fit.points, fit.coef, fit.intercept),
            **additive_attributes(fit.kernel, fit.points, fit.coef, arrays.take(problem.X, problem.rows)),
            **{name: same_kind(value, problem.X) for name, value in values.items()},
            "weights_": problem.weights,
            "_sample_weight_": given,
            "leverage_": fit.leverage,
            "loo_predictions_": same_kind(self.classes_[class_numbers(loo)], problem.X),
            "press_": float(weights @ np.sum(residuals**2, axis=1)),
            "support_": same_kind(fit.support, problem.X),
            "path_": main_path(problem) if record is None else Bunch(**{**record, **main_path(problem)}),
            "coding_": coding,
            "loss_": setting.loss,
        }
        return Solved(attributes)

    def _calibrated(
        self, fit: ClassFit, coding: str, codes: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Leave-one-out values of `decision_function`, and the slopes that turn them into probabilities."""
        unit, loo, n_classes = arrays.to_numpy(fit.unit_loo), arrays.to_numpy(fit.loo), len(self.classes_)
        if coding != "one-vs-one":
            return loo, calibrate(unit, codes, weights)
        slope = pair_slope(unit, codes, weights, n_classes)
        return 2.0 * couple(loo, n_classes, slope) - 1.0, np.array([slope])

    def _solved_probabilities(self, problem: Problem, own: Array) -> np.ndarray:
        """Leave-one-out probabilities of another problem, for the coding and the loss of this model.

        `own` are the weights of the rows without robust weights.
        """
        if getattr(self, "loss_", "squared") == "squared" and not self._by_pairs:  # model files of 0.1.0 have no loss_
            fit = problem.solve()
            slopes = self._loo_attributes(problem.y, own, problem.weights, fit)["_slopes_"]
            return probabilities(arrays.to_numpy(problem.y - fit.loo_residuals), arrays.to_numpy(slopes))
        copies, counts = self._copies(problem.y, own, problem.weights)
        solved = solve_classes(problem, self.loss_, self.coding_, copies)
        loo, slopes = self._calibrated(solved, self.coding_, problem.labels, counts)
        return 0.5 * (loo + 1.0) if self._by_pairs else probabilities(loo, slopes)

    def _model_attributes(self, *parts: Any) -> dict[str, Any]:
        return {**super()._model_attributes(*parts), "coding_": "one-vs-rest", "loss_": "squared"}

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
        with followed(self, X=X, y=y, metadata={"sample_weight": sample_weight}):
            return self._add_chunk(X, y, sample_weight, classes=classes)

    def _check_raw(self, X: Any, y: Any, **options: Any) -> tuple[Array, np.ndarray]:
        """Validated rows and labels."""
        X, y = validate(self, X, y, **chunk_options(options))
        y = plain_labels(arrays.to_numpy(y))
        sorted_labels(y)
        check_labels(y)
        return X, y

    def _check_rows(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        *,
        reset: bool,
        smallest: int | None = None,
        classes: Any = None,
    ) -> tuple[Array, Array, Array]:
        """Validated rows, coded targets (rows x columns) and weights times class weights."""
        smallest = (2 if reset else 1) if smallest is None else smallest
        X, y = self._check_raw(X, y, ensure_min_samples=smallest, reset=reset, sample_weight=sample_weight)
        weights = check_weights(sample_weight, len(y), smallest)
        found = np.unique(y)
        if reset and classes is None:
            refuse_numbers(found, len(y))
        if reset:
            self.classes_ = found if classes is None else np.unique(arrays.to_numpy(classes))
            self._single_output_ = len(self.classes_) == 2
        if len(self.classes_) < 2:
            only = self.classes_.tolist()[0]
            raise ValueError(f"y contains only one class, {only!r}: a classifier needs at least 2 classes.")
        unknown = np.setdiff1d(found, self.classes_)
        if len(unknown):
            raise ValueError(
                f"y contains the class {unknown.tolist()[0]!r}, which is not among the classes "
                f"{self.classes_.tolist()}: pass all classes to the first partial_fit as classes=[...]."
            )
        codes = np.searchsorted(self.classes_, y)
        self._class_factors_ = [1.0] * len(self.classes_)  # a list: array attributes are stored as the array type of X
        if self.class_weight is not None:
            by_class = balanced_weights(self.class_weight, self.classes_, y, weights)
            weights = weights * by_class[codes]
            self._class_factors_ = by_class.tolist()
        if reset and classes is None:
            warn_of_empty_classes(self.classes_, np.bincount(codes, weights, len(self.classes_)))
        labels = np.array([1]) if self._single_output_ else np.arange(len(self.classes_))
        coded = np.where(codes[:, None] == labels[None, :], 1.0, -1.0)
        return X, same_kind(coded, X), same_kind(weights, X)

    def _count_labels(self, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        labels, codes = np.unique(y, return_inverse=True)
        return labels, np.bincount(codes, weights, len(labels))

    def _finish_scan(self, scan: Scan) -> None:
        """Set the classes and their weights."""
        refuse_numbers(scan.labels, scan.rows)
        self.classes_ = scan.labels
        self._single_output_ = len(self.classes_) == 2
        self._class_factors_ = [1.0] * len(self.classes_)
        warn_of_empty_classes(scan.labels, scan.label_weights)
        if self.class_weight is not None:
            balanced = balanced_weights(self.class_weight, scan.labels, scan.labels, scan.label_weights)
            self.class_weight = dict(zip(scan.labels, balanced, strict=True))
            self._class_factors_ = balanced.tolist()

    def _without_class_weights(self, targets: Array, weights: Array) -> Array:
        factors = class_weights(self)[class_numbers(targets)]
        return same_kind(arrays.to_numpy(weights) / np.where(factors > 0, factors, 1.0), weights)

    def _copies(self, targets: Array, own: Array, weights: Array) -> tuple[np.ndarray, np.ndarray]:
        """See `calibration_weights`; `own` are the weights of the rows without robust weights."""
        parts = (self._without_class_weights(targets, own), own, weights)
        is_known = self.C is not None and self.kernel is not None and not as_kernel(self.kernel).is_free
        return calibration_weights(*map(arrays.to_numpy, parts), are_copies=is_known)

    def _loo_attributes(self, targets: Array, sample_weight: Array, weights: Array, fit: Any) -> dict[str, Any]:
        attributes = super()._loo_attributes(targets, sample_weight, weights, fit)
        coded, loo, residuals, leverage = (
            arrays.to_numpy(a) for a in (targets, fit.loo_residuals, fit.residuals, fit.leverage)
        )
        codes = class_numbers(targets)
        copies, counts = self._copies(targets, sample_weight, weights)
        with np.errstate(divide="ignore", invalid="ignore"):  # only in rows where it is not used
            one_copy = residuals / (1.0 - leverage / copies)[:, None]
        unit = np.where(copies[:, None] > 1.0, one_copy, loo)
        unit = np.where(np.isnan(unit), residuals, unit)  # leave-one-out values are not available
        winner = None if np.isnan(loo).any() else winning_class(targets - fit.loo_residuals, self.classes_)
        slopes = same_kind(calibrate(coded - unit, codes, counts), targets)
        return {**attributes, "loo_predictions_": winner, "_slopes_": slopes, "_codes_": same_kind(codes, targets)}

    def decision_function(self, X: ArrayLike) -> Array:
        """Decision values: (n_samples,) for two classes, positive for ``classes_[1]``, else (n_samples, n_classes)."""
        if arrays.is_dask(X):
            return lazily(self, "decision_function", X)
        f = self._raw_predict(X, "decision_function")
        if self._by_pairs:
            return 2.0 * self._coupled(f) - 1.0
        return f[:, 0] if self._single_output_ else f

    @property
    def _by_pairs(self) -> bool:
        return getattr(self, "coding_", "") == "one-vs-one"

    def _coupled(self, f: Array) -> Array:
        """Class probabilities from the decision values of the pairs."""
        slope = float(arrays.to_numpy(self._slopes_)[0])
        return same_kind(couple(arrays.to_numpy(f), len(self.classes_), slope), f)

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
        if arrays.is_dask(X):
            return lazily(self, "predict", X)
        f = self._raw_predict(X, "predict")
        return winning_class(self._coupled(f) if self._by_pairs else f, self.classes_)

    def predict_proba(self, X: ArrayLike) -> Array:
        """Class probabilities (n_samples, n_classes), calibrated on leave-one-out decision values without refitting.

        The most probable class is the one that `predict` returns.
        """
        if arrays.is_dask(X):
            return lazily(self, "predict_proba", X)
        return self._class_probabilities(self._checked(X, "predict_proba"))

    def predict_set(self, X: ArrayLike, coverage: float = 0.9, *, class_conditional: bool = False) -> Array:
        """Sets of classes that contain the class of a new row with the given probability.

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
        check_coverage(coverage)
        if arrays.is_dask(X):
            return lazily(self, "predict_set", X, coverage=coverage, class_conditional=class_conditional)
        probability = self._class_probabilities(self._checked(X, "predict_set"))
        known, codes, given = self._calibration_rows()
        counting = given > 0
        rows = known[counting], codes[counting]
        thresholds = set_thresholds(*rows, float(coverage), class_conditional=class_conditional)
        return same_kind(set_scores(arrays.to_numpy(probability)) <= thresholds, probability)

    def _calibration_rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Leave-one-out probabilities, class numbers and sample weights of the rows, also of a stack of streams."""
        if not self._is_stack:
            return self._loo_probabilities()
        p = average(self._weighted_members, lambda member: member._loo_probabilities()[0])
        return p, *self.members_[0]._loo_probabilities()[1:]

    @arrays.single_threaded_blas()
    @np.errstate(under="ignore")
    def _class_probabilities(self, X: Array) -> Array:
        """The class probabilities of validated rows."""
        if self._is_stack:
            return average(self._weighted_members, lambda member: member._class_probabilities(X))
        f = self._finite(self._evaluate(X))
        return self._coupled(f) if self._by_pairs else self._probabilities(f)

    def _probabilities(self, decision: Array) -> Array:
        """Class probabilities from values of `decision_function`, (rows, 1 or classes)."""
        if not (self._is_stack or self._by_pairs):
            return same_kind(probabilities(arrays.to_numpy(decision), arrays.to_numpy(self._calibration())), decision)
        p = 0.5 * (decision + 1.0)
        return arrays.namespace(p).concat([1.0 - p, p], axis=1) if self._single_output_ else p

    def _evaluate(self, X: Array) -> Array:
        if not self._is_stack:
            return super()._evaluate(X)
        decision = 2.0 * self._class_probabilities(X) - 1.0
        return decision[:, 1:] if self._single_output_ else decision

    def _coded_targets(self) -> Array:
        labels = np.array([1]) if self._single_output_ else np.arange(len(self.classes_))
        return np.where(arrays.to_numpy(self._codes_)[:, None] == labels[None, :], 1.0, -1.0)

    def _loo_probabilities(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Class probabilities from leave-one-out values, class numbers and sample weights of the rows."""
        targets, residuals, given = self._loo_rows()
        return arrays.to_numpy(self._probabilities(targets - residuals)), class_numbers(targets), given

    def _weigh(self, members: Sequence[Any], weights: ArrayLike | None) -> tuple[np.ndarray, np.ndarray, float]:
        """The weights of the members of a stack, as given or chosen, and log losses: of the members, of the stack."""
        rows = [member._loo_probabilities() for member in members]
        codes, given = rows[0][1:]
        own = np.maximum([p[np.arange(len(codes)), codes] for p, _, _ in rows], SURE)
        found = mixture_weights(own, given) if weights is None else arrays.to_numpy(weights)
        *losses, loss = np.average(-np.log(np.vstack([own, found @ own])), axis=1, weights=given)
        return found, np.array(losses), float(loss)

    def _stack_loo_attributes(self, kept: Sequence[tuple[Any, float]]) -> dict[str, Any]:
        """The attributes of a stack that follow from those of its members, whose weights are held fixed."""
        first = kept[0][0]
        if "loo_residuals_" not in vars(first) or arrays.is_dask(first.loo_residuals_):
            return {}
        p = average(kept, lambda member: member._loo_probabilities()[0])
        residuals = first._coded_targets() - 2.0 * (p[:, 1:] if self._single_output_ else p) + 1.0
        weights = average(kept, lambda member: member.weights_)
        return {
            "weights_": weights,
            "leverage_": average(kept, lambda member: member.leverage_),
            "loo_residuals_": same_kind(residuals[:, 0] if self._single_output_ else residuals, weights),
            "loo_predictions_": same_kind(self.classes_[np.argmax(p, axis=1)], weights),
            "press_": float(arrays.to_numpy(weights) @ np.sum(residuals**2, axis=1)),
            "_codes_": first._codes_,
        }

    def _calibration(self) -> Array:
        """The slopes that turn decision values into probabilities; computed now if `fit` has deferred it."""
        if "_slopes_" not in vars(self):
            sample = None if hasattr(self, "_problem_") else self._loo_sample()
            if sample is None:
                self.leave_one_out()
            else:  # rows were added to a model without leave-one-out
                rows = RowResults(sample.residuals, sample.leverage, sample.loo_residuals)
                attributes = self._loo_attributes(sample.targets, sample.sample_weights, sample.weights, rows)
                self._slopes_ = attributes["_slopes_"]
        return self._slopes_

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy: the share of the rows whose class is predicted correctly."""
        from sklearn.metrics import accuracy_score

        return score_of(accuracy_score, self.predict(X), y, sample_weight)


def _own_probability(loo: np.ndarray, codes: np.ndarray, slopes: np.ndarray, coding: str) -> np.ndarray:
    """The leave-one-out probability of the true class of every row."""
    p = 0.5 * (loo + 1.0) if coding == "one-vs-one" else probabilities(loo, slopes)
    return np.maximum(p[np.arange(len(codes)), codes], 1e-15)
