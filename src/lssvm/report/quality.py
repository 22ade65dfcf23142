"""The sections on how well the model predicts: leave-one-out, coverage of intervals, other rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.metrics import auc, average_precision_score, confusion_matrix, precision_recall_curve, roc_curve

from .. import arrays, diagnose
from .charts import DRAWN, Chart, side_by_side
from .facts import Facts
from .markup import formatted, html_table, rounded
from .outliers import residuals_chart

SCORES = {"rmse": "RMSE", "mae": "mean absolute error", "r2": "R²", "largest": "largest error"}
SCORES |= {"error_rate": "error rate", "log_loss": "log loss", "brier": "Brier score"}
MOST_CLASSES = 15  # in the confusion matrix and in the table of areas
MOST_CURVES = 5  # in one chart
FEW_CLASSES = 4  # up to which the confusion matrix fits beside the charts
CURVE_POINTS = 300  # of one curve, at most


def quality_section(facts: Facts) -> str:
    if facts.scores is None:
        return "<p>Unknown: this model has no leave-one-out residuals.</p>"
    note = ""
    if facts.sampled and len(facts.loo.weights) < facts.loo.total:
        note += f"<p>These figures come from a random sample of {len(facts.loo.weights)} of the {facts.rows} rows.</p>"
    if np.ptp(facts.loo.given) > 0:
        note += "<p>Averages use the sample weights; tables of classes count the rows with positive weight.</p>"
    return note + (_class_quality(facts) if facts.classes else _number_quality(facts))


def _number_quality(facts: Facts) -> str:
    rows, counting = facts.loo, facts.loo.given > 0
    scores, charts = [], []
    for output, name in enumerate(facts.outputs):
        actual, predicted = rows.actual[counting, output], rows.predicted[counting, output]
        score = diagnose.number_scores(actual[:, None], predicted[:, None], rows.given[counting])
        scores.append(score | {"largest": np.max(np.abs(actual - predicted))})
        if output < DRAWN:
            chart = Chart(f"Predicted against actual: {name}", "leave-one-out prediction", "actual value")
            chart.diagonal(actual, predicted)
            chart.cloud(predicted, actual, actual - predicted)
            charts += [chart.svg(), residuals_chart(facts, output)]
    return html_table({"target": facts.outputs, **_score_columns(scores)}) + side_by_side(charts)


def _class_quality(facts: Facts) -> str:
    counting = facts.loo.given > 0
    weights = facts.loo.given[counting]
    probability, codes = (array[counting] for array in facts.probability)
    confusion = _confusion(facts, codes, np.argmax(probability, axis=1))
    areas, curves = _curves(facts, probability, codes, weights)
    few = probability.shape[1] <= FEW_CLASSES
    charts = [f"<figure>{confusion}</figure>"] * few + curves
    return (
        html_table(_score_columns([facts.scores]))
        + ("" if few else confusion)
        + side_by_side([*charts, _reliability_chart(facts, probability, codes, weights)])
        + areas
    )


def _confusion(facts: Facts, codes: np.ndarray, predicted: np.ndarray) -> str:
    """The confusion matrix; of many classes, only the largest."""
    counts = confusion_matrix(codes, predicted, labels=range(len(facts.classes)))
    shown = sorted(np.argsort(-counts.sum(axis=1), kind="stable")[:MOST_CLASSES])
    columns = {
        "actual class": [facts.classes[c] for c in shown],
        **{f"predicted {facts.classes[k]}": counts[shown, k] for k in shown},
        "correct": formatted(np.diag(counts)[shown] / np.maximum(counts.sum(axis=1), 1)[shown], ".1%"),
    }
    all_shown = len(shown) == len(facts.classes)
    more = "" if all_shown else f"<p>The {len(shown)} largest of {len(facts.classes)} classes.</p>"
    return "<h3>Actual and predicted classes</h3>" + html_table(columns) + more


def _curves(facts: Facts, probability: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> tuple[str, list[str]]:
    """The areas under the curves of the largest classes, each against the rest, and charts of the curves."""
    sizes = np.bincount(codes, minlength=len(facts.classes))
    largest = [c for c in np.argsort(-sizes, kind="stable") if 0 < sizes[c] < len(codes)]
    shown = [1] * (1 in largest) if len(facts.classes) == 2 else largest[:MOST_CLASSES]
    roc = Chart("ROC curve", "false positive rate", "true positive rate", box=(0, 1, 0, 1))
    recall_chart = Chart("Precision and recall", "recall", "precision", box=(0, 1, 0, 1))
    roc.diagonal(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    areas, means = [], []
    for number, c in enumerate(shown):
        own = codes == c, probability[:, c]
        false, found, _ = roc_curve(*own, sample_weight=weights)
        precision, recall, _ = precision_recall_curve(*own, sample_weight=weights)
        areas.append(f"{auc(false, found):.3f}")
        means.append(f"{average_precision_score(*own, sample_weight=weights):.3f}")
        if number < MOST_CURVES:
            roc.line(*_thinned(false, found), style=f"c{number}")
            recall_chart.line(*_thinned(recall, precision), style=f"c{number}")
            for chart in (roc, recall_chart):
                chart.legend([(f"c{number}", facts.classes[c])])
    note = "" if len(facts.classes) == 2 else "<p>Each class against all others.</p>"
    columns: dict[str, Any] = {"class": [facts.classes[c] for c in shown], "rows": sizes[shown]}
    columns |= {"area under the ROC curve": areas, "average precision": means}
    return note + html_table(columns), [roc.svg(), recall_chart.svg()] if shown else []


def _thinned(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows = np.unique(np.linspace(0, len(x) - 1, CURVE_POINTS).astype(int))
    return x[rows], y[rows]


def _reliability_chart(facts: Facts, probability: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> str:
    bins = diagnose.reliability(probability, codes, weights=weights)
    of = f"class {facts.classes[1]}" if len(facts.classes) == 2 else "the predicted class"
    chart = Chart(
        "Reliability of the probabilities", f"predicted probability of {of}", "observed frequency", box=(0, 1, 0, 1)
    )
    chart.diagonal(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    chart.whiskers(bins.predicted, bins.low, bins.high)
    chart.line(bins.predicted, bins.observed, dots=True)
    return chart.svg()


def intervals_section(facts: Facts) -> str:
    if facts.classes:
        return _sets_table(facts)
    if facts.coverage is None:
        return "<p>Not computed: the model has no leave-one-out values, or is too large.</p>"
    found = facts.coverage
    levels, outputs = np.indices(found.width.shape).reshape(2, -1)
    margins = 196 * np.sqrt(found.asked * (1 - found.asked) / found.rows)
    columns = {
        "interval": formatted(found.asked[levels], ".0%"),
        **facts.which(outputs),
        "rows inside": formatted(found.observed.ravel(), ".1%"),
        "margin of error": [f"{margin:.1f} points" for margin in margins[levels]],
        "mean width": [rounded(w) if math.isfinite(w) else "infinite: too few rows" for w in found.width.ravel()],
    }
    return (
        f"<p>How many of {found.rows} rows lie inside the prediction interval (<code>predict_interval</code>) of a "
        "model fitted without them (overall, about as many as requested), and how wide these intervals are.</p>"
        + html_table(columns)
        + _regions_table(facts)
    )


def _regions_table(facts: Facts) -> str:
    """Coverage of the default intervals by region of the first target, from leave-one-out residuals."""
    found = diagnose.coverage_by_region(facts.model)
    columns = {
        "prediction": [f"{rounded(a)} to {rounded(b)}" for a, b in zip(found.low_edge, found.high_edge, strict=True)],
        "rows": found.count,
        "rows inside": formatted(found.observed, ".1%"),
        "mean width": found.width,
    }
    return (
        "<h3>By predicted value</h3><p>90% intervals, whose width follows the noise if it varies "
        "beyond chance.</p>" + html_table(columns)
    )


def _sets_table(facts: Facts) -> str:
    if facts.scores is None:
        return ""
    found = diagnose.set_coverage(facts.model)
    columns = {
        "set": formatted(found.asked, ".0%"),
        "rows inside": formatted(found.observed, ".1%"),
        "mean number of classes": formatted(found.size, ".2f"),
    }
    return (
        "<p>How many rows have their class in the prediction set (<code>predict_set</code>) of a model fitted without "
        "them.</p>" + html_table(columns)
    )


def other_rows_section(facts: Facts, X: Any, y: Any) -> str:
    model = facts.model
    if facts.classes:
        score = diagnose.class_scores(arrays.to_numpy(model.predict_proba(X)), diagnose.class_codes(model, y))
        return html_table({"rows": [len(X)], **_score_columns([score])})
    actual = np.asarray(arrays.to_numpy(y), dtype=float).reshape(len(y), -1)
    predicted = arrays.to_numpy(model.predict(X)).reshape(len(y), -1)
    score = diagnose.number_scores(actual, predicted)
    chart = Chart("Other rows: predicted against actual", "prediction", "actual value")
    chart.diagonal(actual[:, 0], predicted[:, 0])
    chart.cloud(predicted[:, 0], actual[:, 0], actual[:, 0] - predicted[:, 0])
    return html_table({"rows": [len(actual)], **_score_columns([score])}) + side_by_side([chart.svg()])


def _score_columns(scores: Sequence[dict[str, float]]) -> dict[str, list[Any]]:
    """Columns of a table for scores with the same names."""
    columns: dict[str, list[Any]] = {
        words: [score[name] for score in scores] for name, words in SCORES.items() if name in scores[0]
    }
    return columns | {"error rate": formatted(columns["error rate"], ".2%")} if "error rate" in columns else columns
