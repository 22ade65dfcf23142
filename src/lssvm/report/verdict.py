"""The first section: how good the model is, in plain words, beside a linear model and a constant, and reasons to doubt.

All three are compared by their leave-one-out predictions.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import stdtrit
from sklearn.metrics import precision_recall_curve

from .. import arrays, diagnose, kernels, sparsify, tune
from ..estimators import LSSVC, LSSVR
from ..estimators.weighing import ROWS_PER_WIDTH
from ..progress import counted
from ..rules import TINY
from .facts import Facts
from .markup import bar_table, escaped, html_list, html_table, rounded
from .quality import distances

LINEAR_ROWS = 2000  # The linear model of a larger table is fitted to a sample of this many rows.
CLOSE = 0.06  # A smaller relative difference of mean losses (3 % of a root mean square) is not reported.
RARELY = 0.9  # Above this share of the constant's mistakes, a classifier rarely names another class.
MANY_LIGHT = 0.1  # Up to this share of the rows of a classifier may be down-weighted without a warning.
GRADES = (  # Each grade applies from this share of the constant's loss upwards.
    (0.98, "These columns do not predict {}."),
    (0.85, "These columns predict {} only weakly."),
    (0.4, "The model predicts {} moderately well."),
    (0.15, "The model predicts {} well."),
    (0.0, "The model predicts {} very well."),
)
UNCLEAR = "There are too few rows to tell whether these columns predict {}."
MEASURES = {"squared": "typical error", "absolute": "mean error", "wrong": "wrong class"}
MEASURES |= {"precision": "average precision"}


@dataclass(frozen=True)
class Predictions:
    """Leave-one-out predictions of rows with positive weight: numbers, or class numbers, (rows, outputs)."""

    name: str
    kind: str  # of losses: "squared", "absolute", "wrong" or "precision"
    actual: np.ndarray
    predicted: np.ndarray
    weights: np.ndarray
    rows: np.ndarray | None  # their numbers, if known
    probability: np.ndarray  # of classes: of each one, (rows, classes)

    @property
    def losses(self) -> np.ndarray:
        """The loss of each row, (rows, outputs)."""
        if self.kind == "wrong":
            return (self.actual != self.predicted).astype(float)
        return np.abs(self.actual - self.predicted) ** (2 if self.kind == "squared" else 1)

    @property
    def mean_loss(self) -> np.ndarray:
        """The mean loss of each output."""
        return np.average(self.losses, axis=0, weights=self.weights)

    @property
    def error(self) -> np.ndarray:
        """The mean loss of each output in its units: of squares, the root; the mean of precisions."""
        if self.kind == "precision":
            return 1.0 - self.mean_loss
        return np.sqrt(self.mean_loss) if self.kind == "squared" else self.mean_loss

    @property
    def shown(self) -> list[str]:
        """The error of each output as text."""
        style = {"wrong": "{:.1%}".format, "precision": "{:.2f}".format}.get(self.kind, rounded)
        return [style(error) for error in self.error]


def model_predictions(facts: Facts) -> Predictions:
    """Return the predictions of the model itself."""
    rows = np.flatnonzero(facts.loo.given > 0)
    actual, predicted, probability = (values[rows] for values in _loo_predictions(facts.model))
    return Predictions("this model", facts.kind, actual, predicted, facts.loo.given[rows], rows, probability)


def _loo_predictions(model: Any) -> tuple[Any, Any, Any]:
    """Return actual and predicted targets, or class numbers, (rows, outputs) each, and the probabilities of classes."""
    if hasattr(model, "classes_"):
        probability, codes = diagnose.loo_probabilities(model)
        return codes[:, None], np.argmax(probability, axis=1)[:, None], probability
    found = diagnose.honest_values(model)
    return found.actual, found.predicted, found.predicted


def constant_predictions(own: Predictions, groups: np.ndarray | None = None) -> Predictions:
    """Return the mean (robust models: the unweighted median) of the other rows; for classes, the most frequent one.

    With groups, the other rows are those of other groups. The most frequent class is that of all rows: of two classes
    of the same size, the other class would always be the most frequent once a row is left out.
    """
    actual, w = own.actual, own.weights[:, None]
    if own.kind == "wrong":
        largest = np.argmax(np.bincount(actual[:, 0], own.weights))
        predicted, alike = np.full_like(actual, largest), np.zeros_like(own.probability)
        return replace(own, name="always the most frequent class", predicted=predicted, probability=alike)
    name = "always the average" if own.kind == "squared" else "always the median"
    if groups is not None:
        predicted = np.empty_like(actual)
        for group in np.unique(groups):
            rest, v = actual[groups != group], own.weights[groups != group]
            predicted[groups == group] = np.average(rest, 0, v) if own.kind == "squared" else np.median(rest, axis=0)
        return replace(own, name=name, predicted=predicted)
    if own.kind == "squared":
        total = np.sum(w * actual, axis=0)
        predicted = (total - w * actual) / np.maximum(own.weights.sum() - w, np.finfo(float).tiny)
        return replace(own, name=name, predicted=predicted)
    ordered, n = np.sort(actual, axis=0), len(actual)
    places = [(n - 2) // 2, (n - 1) // 2]  # of the one or two values in the middle of the others
    middle = [np.where(actual <= ordered[place], ordered[place + 1], ordered[place]) for place in places]
    return replace(own, name=name, predicted=np.mean(middle, axis=0))


def linear_predictions(facts: Facts) -> Predictions | None:
    """Return the predictions of a linear model with its own C, of columns in units of their spread.

    The result is None if the model is linear itself, keeps no rows or has a precomputed kernel, or if the sample has
    only one class.
    """
    kept = facts.kept
    if kept is None or isinstance(facts.model.kernel_, kernels.Linear):
        return None
    rows = np.flatnonzero(kept.given > 0)
    if len(rows) > LINEAR_ROWS:
        rows = np.sort(np.random.default_rng(0).choice(rows, LINEAR_ROWS, replace=False))
    X, weights = arrays.to_numpy(kept.problem.X)[rows], kept.given[rows]
    spread = np.std(X, axis=0)
    X = X / np.where(spread > 0, spread, 1.0)
    if facts.classes:
        model: Any = LSSVC(kernels.Linear(), class_weight=facts.model.class_weight)
        y = np.asarray(facts.model.classes_)[kept.problem.labels[rows]]
        if np.all(y == y[0]):
            return None
    else:
        # the unit vectors span all linear functions, and their kernel matrix is that of ridge regression
        steps = [sparsify.Given(np.eye(X.shape[1])), tune.LeaveOneOut()] if X.shape[1] < len(X) else None
        model = LSSVR(kernels.Linear(), steps=steps, robust=facts.model.robust, loss=facts.model.loss)
        y = kept.problem.targets[rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it explains little
        groups = None if facts.groups is None else facts.groups[rows]
        actual, predicted, probability = _loo_predictions(model.fit(X, y, sample_weight=weights, groups=groups))
    if facts.classes:  # the sample may lack some
        present = np.searchsorted(facts.model.classes_, model.classes_)
        actual, predicted = present[actual], present[predicted]
        probability = probability @ np.eye(len(facts.classes))[present]
    numbers = kept.numbers[rows] if facts.sampled or not facts.chunked else None
    return Predictions("linear model", facts.kind, actual, predicted, weights, numbers, probability)


def rare_precisions(of: Predictions, code: int) -> Predictions:
    """Return, for each row of a class, the precision of naming the class in all rows where it is as probable.

    Their mean is the average precision.
    """
    p, own = of.probability[:, code], of.actual[:, 0] == code
    precision, _, thresholds = precision_recall_curve(own, p, sample_weight=of.weights)
    found = precision[np.searchsorted(thresholds, p[own])][:, None]
    rows = None if of.rows is None else of.rows[own]
    return Predictions(of.name, "precision", np.ones_like(found), found, of.weights[own], rows, of.probability[own])


def verdict_section(facts: Facts) -> str:
    doubts = html_list([*cautions(facts)], "bad")
    if facts.loo is None:
        return _verdict("The quality of this model is unknown.") + doubts
    own = model_predictions(facts)
    constant = constant_predictions(own, None if facts.groups is None else facts.groups[own.rows])
    if not constant.mean_loss.any():
        return _verdict(f"All rows have the same {facts.target}.") + doubts
    linear = linear_predictions(facts)
    share = _relative(own.mean_loss, constant)
    share = share**2 if own.kind == "absolute" else share  # on the scale of squares
    share = min(share, diagnose.relative_log_loss(facts.model)) if facts.classes else share
    grade = next(words for start, words in GRADES if share >= start)
    headline = (UNCLEAR if share < GRADES[0][0] and _may_be_chance(facts, own, constant) else grade).format(
        facts.target
    )
    left, kind = ("its group", "of new groups") if facts.groups is not None else ("it", "of the same kind")
    note = f"Each row is predicted by a model fitted without {left}, so these are errors on new rows {kind}."
    if facts.is_honest:
        note += " They include the search for widths and C, which was repeated without parts of the rows."
    note += " The typical error is the root mean square error." if own.kind == "squared" else ""
    if linear is not None and len(linear.weights) < len(own.weights):
        note += f" The linear model is fitted to {len(linear.weights)} of the rows."
    words, compared = _words(facts, own, constant, linear), [one for one in (own, linear, constant) if one is not None]
    table = _errors_table(facts, compared)
    if facts.rare is not None:
        code = facts.rare.code
        precisions = [rare_precisions(one, code) for one in compared if (one.actual == code).any()]
        words, table = words + _rare_words(facts, precisions), table + _errors_table(facts, precisions)
    return f'{_verdict(headline)}<p class="lead">{escaped(words)}</p>{table}<p class="note">{note}</p>{doubts}'


def _verdict(words: str) -> str:
    return f'<p class="verdict">{escaped(words)}</p>'


def _relative(losses: np.ndarray, constant: Predictions) -> Any:
    """Return losses relative to those of the constant, averaged over the outputs that vary."""
    varying = constant.mean_loss > 0
    return np.mean(losses[..., varying] / constant.mean_loss[varying], axis=-1)


def _may_be_chance(facts: Facts, own: Predictions, constant: Predictions) -> bool:
    """Return whether the gain over the constant, for classes in log loss, may be due to chance in so many rows."""
    gains = _relative(constant.losses - own.losses, constant)
    if facts.classes:
        share = np.bincount(own.actual[:, 0], own.weights, len(facts.classes)) / own.weights.sum()
        codes = own.actual[:, 0]
        gains = np.log(np.maximum(own.probability[np.arange(len(codes)), codes], TINY) / share[codes])
    n = len(gains)
    return bool(np.average(gains, weights=own.weights) <= stdtrit(n - 1, 0.975) * np.std(gains) / math.sqrt(n - 1))


def _words(facts: Facts, own: Predictions, constant: Predictions, linear: Predictions | None) -> str:
    """Return the error of the model, beside those of the constant and of a linear model."""
    gain = 0 if linear is None else _gain(own, linear, constant)
    beside = "" if linear is None else _beside(gain, own, linear)
    if facts.classes:
        usual = f"the most frequent class, “{facts.classes[constant.predicted[0, 0]]}”,"
        text = f"It names the right class for {1 - own.error[0]:.1%} of new rows. "
        text += f"Always naming {usual} is right for {1 - constant.error[0]:.1%}."
        if own.error[0] > RARELY * constant.error[0] and diagnose.relative_log_loss(facts.model) < RARELY:
            text += " It rarely names another class, but its probabilities are informative."
        return text if linear is None or facts.rare is not None else f"{text} {beside} ({1 - linear.error[0]:.1%})."
    if len(own.error) > 1:
        text = "The errors of the model's predictions for new rows are listed below."
        return text if linear is None else f"{text} {beside}."
    text = f"The model's predictions for new rows are typically off by {own.shown[0]}: {_less(own, constant)} than "
    text += f"{constant.name.replace('always', 'always predicting')} ({constant.shown[0]})"
    if linear is None:
        return f"{text}."
    if gain > 0:
        return f"{text} and {_less(own, linear)} than a linear model ({linear.shown[0]})."
    return f"{text}. {beside} ({linear.shown[0]})."


def _rare_words(facts: Facts, compared: Sequence[Predictions]) -> str:
    """Return how well the rare class is found, beside a linear model if there is one, and a constant."""
    rare, best, (own, *linear, constant) = facts.rare, facts.rare.best, compared
    text = f" Class “{facts.classes[rare.code]}” has only {rare.share:.1%} of the rows, so average precision matters "
    text += f"more: {own.shown[0]}, and {constant.shown[0]} for a constant."
    for one in linear:
        text += f" {_beside(_gain(own, one, constant), own, one)} ({one.shown[0]})."
    if rare.recall[best] > 0:
        text += f" Named wherever its probability is at least {rare.threshold[best]:.2g}, it is found in "
        text += f"{rare.recall[best]:.0%} of its rows, and {rare.precision[best]:.0%} of the rows named are right."
    return text


def _beside(gain: int, own: Predictions, linear: Predictions) -> str:
    alike = "about as good" if np.allclose(linear.error, own.error, rtol=0.1) else "not clearly better or worse"
    return f"A linear model is {'better' if gain < 0 else 'worse' if gain > 0 else alike}"


def _less(own: Predictions, other: Predictions) -> str:
    share = 100 * (1 - float(own.error[0] / other.error[0]))
    if not math.isfinite(share):  # without a row, the model is not determined
        return "infinitely more"
    less = round(share)
    return f"{less}% less" if less > 0 else f"{-less}% more" if less < 0 else "no less"


def _gain(own: Predictions, linear: Predictions, constant: Predictions) -> int:
    """Return 1 if a linear model is worse, -1 if it is better, 0 if the difference is small or due to chance."""
    share, noise = _relative(own.mean_loss, constant), 0.0
    gain = _relative(linear.mean_loss, constant) - share
    if linear.rows is not None and own.rows is not None:
        same = own.losses[np.searchsorted(own.rows, linear.rows)]
        gains = _relative(linear.losses - same, constant)
        gain, noise = np.average(gains, weights=linear.weights), 2 * float(np.std(gains)) / len(gains) ** 0.5
    return 0 if abs(gain) <= max(noise, CLOSE * share) else int(np.sign(gain))


def _errors_table(facts: Facts, compared: Sequence[Predictions]) -> str:
    """Return the errors of the models: as bars, or as a table if there are several targets."""
    measure = MEASURES[compared[0].kind]
    if len(compared[0].error) == 1:
        return bar_table(("predicted by", measure), [(one.name, float(one.error[0]), one.shown[0]) for one in compared])
    return html_table({measure: facts.outputs} | {one.name: one.shown for one in compared})


# Reasons to doubt the errors or the rows ------------------------------------------------------------------------------
def cautions(facts: Facts) -> Iterator[str]:
    if facts.loo is None:
        yield "The model has no leave-one-out values: evaluate it on other rows."
    elif facts.rows < 30:
        yield f"There are only {counted(facts.rows, 'row')}, so all figures below are rough."
    if facts.classes and facts.loo is not None and len(facts.loo.given) == facts.rows:
        counts = np.bincount(facts.probability[1][facts.loo.given > 0], minlength=len(facts.classes))
        if counts.min() < (10 if facts.rare is None else 25):  # in rows without information, 9 of 300 seem predictable
            few, smallest = counted(counts.min(), "row"), facts.classes[np.argmin(counts)]
            yield f"Class {smallest!r} has only {few}, so its figures are rough, and too good if they tuned the model."
    share = sum(weight for member, weight in facts.members if _chooses_widths(member))
    # many widths, chosen by the same error that evaluates them, overfit it
    if not facts.is_honest and share >= 0.5 and ROWS_PER_WIDTH * len(facts.names) > (facts.rows or 0):
        tuned = f"The widths of {len(facts.names)} columns were tuned on {counted(facts.rows, 'row')}"
        yield f"{tuned}, so errors on new rows may be larger than reported. Evaluate the model on other rows."
    if facts.loo is not None:
        yield from _outliers(facts)
    if facts.coverage is not None:
        for nominal, shares in zip(facts.coverage.asked, facts.coverage.observed, strict=True):
            for share in shares[nominal - shares > 3 * math.sqrt(nominal * (1 - nominal) / facts.coverage.rows)]:
                yield f"Prediction intervals that should contain {nominal:.0%} of the rows contain only {share:.1%}."


def _chooses_widths(member: Any) -> bool:
    """Return whether leave-one-out chose one width for each column of a model that is not a stack."""
    if not member.fitted_.is_least_squares:
        return "one width per column" in (getattr(member, "path_", None) or {}).get("plan", ())
    problem = member.fitted_.problem
    if problem is None or "LeaveOneOut" not in problem.paths or problem.asked is None or not member.kernel_.leaves:
        return False
    widths = diagnose.inverse_widths(member)
    return bool(problem.asked[0].is_free and np.ptp(widths) > 1e-6 * widths.max())


def _outliers(facts: Facts) -> Iterator[str]:
    if facts.model.robust is not None:
        robust = facts.loo.robust[facts.loo.weights > 0]
        gone, light = int(np.sum(robust < 1e-3)), float(np.mean(robust < 0.5))
        if gone:
            were = "was taken for an outlier" if gone == 1 else "were taken for outliers"
            yield f"{gone} of {len(robust)} rows {were} and almost ignored: see the largest errors below."
        if facts.classes and light > MANY_LIGHT:
            remedy = "If the classes overlap, large errors do not mean wrong labels: compare a fit without robust."
            yield f"{light:.0%} of the rows have a robust weight below 0.5: are so many labels wrong? {remedy}"
    elif not facts.classes:
        distance, scale = distances(facts.loo.residuals[facts.loo.given > 0])
        far = int(np.sum((distance > 6 * scale).any(axis=1))) if (scale > 0).all() else 0
        if far:
            who = counted(far, "row is", "rows are")
            yield f"{who} off by more than 6 times the usual error: see the largest errors below."
