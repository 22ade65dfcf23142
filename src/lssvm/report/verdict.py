"""The first section: how good the model is, in plain words, beside a linear model and a constant."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .baselines import Predictions, constant_predictions, linear_predictions, model_predictions
from .checks import cautions
from .facts import Facts
from .markup import bar_table, escaped, html_table, listed, rounded

CLOSE = 0.06  # relative difference of mean losses (3 % of a root mean square) that is not worth mentioning
RARELY = 0.9  # share of the constant's mistakes above which a classifier rarely names another class
GRADES = (  # from this share of the constant's loss upwards
    (0.98, "These columns do not predict {}."),
    (0.85, "These columns predict {} only weakly."),
    (0.4, "The model predicts {} moderately well."),
    (0.15, "The model predicts {} well."),
    (0.0, "The model predicts {} very well."),
)
MEASURES = {"squared": "typical error", "absolute": "mean error", "wrong": "wrong class"}


def verdict_section(facts: Facts) -> str:
    if facts.loo is None:
        return _verdict("The quality of this model is unknown.") + listed(cautions(facts), "bad")
    own = model_predictions(facts)
    constant = constant_predictions(own)
    if not constant.mean_loss.any():
        return _verdict(f"All rows have the same {facts.target}.") + listed(cautions(facts), "bad")
    linear = linear_predictions(facts)
    share = _relative(own.mean_loss, constant)
    share = share**2 if own.kind == "absolute" else share  # on the scale of squares
    share = min(share, _doubt(facts, own)) if facts.classes else share
    headline = next(words for start, words in GRADES if share >= start).format(facts.target)
    note = "Each row is predicted by a model fitted without it, so these are errors on new rows of the same kind."
    note += " The typical error is the root mean square error." if own.kind == "squared" else ""
    if linear is not None and len(linear.weights) < len(own.weights):
        note += f" The linear model is fitted to {len(linear.weights)} of the rows."
    return (
        _verdict(headline)
        + f'<p class="lead">{escaped(_words(facts, own, constant, linear))}</p>'
        + _errors_table(facts, [one for one in (own, linear, constant) if one is not None])
        + f'<p class="note">{note}</p>'
        + listed(cautions(facts), "bad")
    )


def _verdict(words: str) -> str:
    return f'<p class="verdict">{escaped(words)}</p>'


def _relative(losses: np.ndarray, constant: Predictions) -> Any:
    """Losses relative to those of the constant, averaged over the outputs that vary."""
    varying = constant.mean_loss > 0
    return np.mean(losses[..., varying] / constant.mean_loss[varying], axis=-1)


def _doubt(facts: Facts, own: Predictions) -> float:
    """The log loss of a classifier, relative to that of the frequencies of the classes."""
    frequencies = np.bincount(own.actual[:, 0], own.weights) / own.weights.sum()
    frequencies = frequencies[frequencies > 0]
    return float(facts.scores["log_loss"] / -np.sum(frequencies * np.log(frequencies)))


def _words(facts: Facts, own: Predictions, constant: Predictions, linear: Predictions | None) -> str:
    """The error of the model, beside those of the constant and of a linear model."""
    gain = 0 if linear is None else _gain(own, linear, constant)
    same = {0: "about as good", 1: "worse", -1: "better"}[gain]
    if facts.classes:
        text = (
            f"It names the right class for {1 - own.error[0]:.1%} of new rows. Always naming the most frequent class, "
            f"“{facts.classes[constant.predicted[0, 0]]}”, is right for {1 - constant.error[0]:.1%}."
        )
        if own.error[0] > RARELY * constant.error[0] and _doubt(facts, own) < RARELY:
            text += " It rarely names another class, but its probabilities are informative."
        return text if linear is None else f"{text} A linear model is {same} ({1 - linear.error[0]:.1%})."
    if len(own.error) > 1:
        text = "The errors of the model's predictions for new rows are listed below."
        return text if linear is None else f"{text} A linear model is {same}."
    text = f"The model's predictions for new rows are typically off by {rounded(own.error[0])}: "
    text += f"{_less(own, constant)} than {constant.name.replace('always', 'always predicting')}"
    shown = f"({rounded(constant.error[0])})"
    if linear is None:
        return f"{text} {shown}."
    if gain > 0:
        return f"{text} {shown} and {_less(own, linear)} than a linear model ({rounded(linear.error[0])})."
    return f"{text} {shown}. A linear model is {same} ({rounded(linear.error[0])})."


def _less(own: Predictions, other: Predictions) -> str:
    share = 100 * (1 - float(own.error[0] / other.error[0]))
    if not math.isfinite(share):  # without a row, the model is not determined
        return "infinitely more"
    less = round(share)
    return f"{less}% less" if less > 0 else f"{-less}% more" if less < 0 else "no less"


def _gain(own: Predictions, linear: Predictions, constant: Predictions) -> int:
    """1 if a linear model is worse, -1 if it is better, 0 if the difference is small or due to chance."""
    share, noise = _relative(own.mean_loss, constant), 0.0
    gain = _relative(linear.mean_loss, constant) - share
    if linear.rows is not None and own.rows is not None:
        same = own.losses[np.searchsorted(own.rows, linear.rows)]
        gains = _relative(linear.losses - same, constant)
        gain, noise = np.average(gains, weights=linear.weights), 2 * float(np.std(gains)) / len(gains) ** 0.5
    return 0 if abs(gain) <= max(noise, CLOSE * share) else int(np.sign(gain))


def _errors_table(facts: Facts, compared: Sequence[Predictions]) -> str:
    """The errors of the models: as bars, or as a table if there are several targets."""
    own = compared[0]
    if len(own.error) == 1:
        errors = [(one.name, float(one.error[0]), _shown(one.kind, one.error[0])) for one in compared]
        return bar_table(("predicted by", MEASURES[own.kind]), errors)
    shown = {one.name: [_shown(one.kind, error) for error in one.error] for one in compared}
    return html_table({MEASURES[own.kind]: facts.outputs} | shown)


def _shown(kind: str, error: float) -> str:
    return f"{error:.1%}" if kind == "wrong" else rounded(error)
