"""The sections on how well the model predicts: leave-one-out, coverage of intervals, the worst rows, other rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.metrics import auc, average_precision_score, confusion_matrix, precision_recall_curve, roc_curve

from .. import arrays, diagnose
from .facts import Facts
from .markup import Chart, escaped, formatted, html_table, rounded, side_by_side

SCORES = {"rmse": "RMSE", "mae": "mean absolute error", "r2": "R²", "largest": "largest error"}
SCORES |= {"error_rate": "error rate", "log_loss": "log loss", "brier": "Brier score"}
DRAWN = 4  # At most this many outputs have their own charts.
MOST_CLASSES = 15  # The confusion matrix and the table of areas show at most this many classes.
MOST_CURVES = 5  # A chart shows at most this many curves.
FEW_CLASSES = 4  # Up to this many classes, the confusion matrix fits beside the charts.
CURVE_POINTS = 300  # A curve has at most this many points.
LISTED = 10  # At most this many rows with the largest errors are listed.
UNIT = np.array([0.0, 1.0])


def quality_section(facts: Facts) -> str:
    if facts.loo is None:
        return "<p>Unknown: this model has no leave-one-out residuals.</p>"
    note = ""
    if facts.sampled and len(facts.loo.weights) < facts.rows:
        note += f"<p>These figures come from a random sample of {len(facts.loo.weights)} of the {facts.rows} rows.</p>"
    if np.ptp(facts.loo.given) > 0:
        note += "<p>Averages use the sample weights; tables of classes count the rows with positive weight.</p>"
    if facts.groups is not None:
        note += "<p>Leave-one-out leaves out the whole group of each row: these are predictions of new groups.</p>"
    return note + (_class_quality(facts) if facts.classes else _number_quality(facts))


def _number_quality(facts: Facts) -> str:
    positive = facts.loo.given > 0
    scores, charts = [], []
    for output, name in enumerate(facts.outputs):
        actual, predicted = facts.loo.actual[positive, output], facts.loo.predicted[positive, output]
        score = diagnose.number_scores(actual[:, None], predicted[:, None], facts.loo.given[positive])
        scores.append(score | {"largest": np.max(np.abs(actual - predicted))})
        if output < DRAWN:
            title, label = f"Predicted against actual: {name}", "leave-one-out prediction"
            charts += [_agreement_chart(title, label, actual, predicted), _residuals_chart(facts, output)]
    return html_table({"target": facts.outputs, **_score_columns(scores)}) + side_by_side(charts)


def _agreement_chart(title: str, label: str, actual: np.ndarray, predicted: np.ndarray) -> str:
    chart = Chart(title, label, "actual value")
    chart.guide(np.append(actual, predicted), slope=1.0)
    chart.cloud(predicted, actual, actual - predicted)
    return chart.svg()


def _residuals_chart(facts: Facts, output: int) -> str:
    """Return the residuals of one output, coloured by robust weight, with links from the worst rows to their lines."""
    rows = facts.loo
    name = f": {facts.outputs[output]}" if len(facts.outputs) > 1 else ""
    chart = Chart(f"Leave-one-out residuals{name}", "leave-one-out prediction", f"residual ({facts.unit})")
    x, e = rows.predicted[:, output], rows.residuals[:, output]
    chart.guide(x, slope=0.0)
    full, gone = rows.robust > 0.999, rows.robust < 1e-3
    for style, shown in (("dots", full), ("half", ~full & ~gone), ("none", gone)):
        chart.cloud(x, e, e, shown, style)
    if not full.all():
        chart.legend += [("dots", "robust weight 1"), ("half", "between 0 and 1"), ("none", "0")]
    if not facts.sampled:
        worst = _worst(rows.residuals)[1]
        chart.links(x[worst], e[worst], facts.numbers[worst])
    return chart.svg()


def _class_quality(facts: Facts) -> str:
    positive = facts.loo.given > 0
    weights = facts.loo.given[positive]
    probability, codes = (array[positive] for array in facts.probability)
    scores = html_table(_score_columns([diagnose.class_scores(probability, codes, weights)]))
    confusion = _confusion(facts, codes, np.argmax(probability, axis=1))
    areas, charts = _curves(facts, probability, codes, weights)
    charts.append(_reliability_chart(facts, probability, codes, weights))
    areas += _threshold_advice(facts) if facts.rare is not None else ""
    if probability.shape[1] <= FEW_CLASSES:
        return scores + side_by_side([f"<figure>{confusion}</figure>", *charts]) + areas
    return scores + confusion + side_by_side(charts) + areas


def _threshold_advice(facts: Facts) -> str:
    """Return what other thresholds than that of `predict` would find of the rare class."""
    rare, name = facts.rare, f"“{escaped(facts.classes[facts.rare.code])}”"
    words = f"<code>predict</code> names the most probable class. If a missed row of {name} is as bad as k false "
    words += f"alarms, name it where its probability (<code>predict_proba(X)[:, {rare.code}]</code>, <code>lssvm "
    words += "predict --proba</code>) is at least 1/(1 + k):"
    columns = {"k": formatted(1 / rare.threshold - 1, ".0f"), "decision threshold": formatted(rare.threshold, ".2g")}
    columns |= {name: formatted(rare[name], ".1%") for name in ("named", "recall", "precision")}
    return f"<h3>Decision threshold for {name}</h3><p>{words}</p>{html_table(columns)}"


def _confusion(facts: Facts, codes: np.ndarray, predicted: np.ndarray) -> str:
    """Return the confusion matrix; of many classes, only the largest."""
    counts = confusion_matrix(codes, predicted, labels=range(len(facts.classes)))
    sizes = counts.sum(axis=1)
    shown = sorted(np.argsort(-sizes, kind="stable")[:MOST_CLASSES])
    columns = {"actual class": [facts.classes[c] for c in shown]}
    columns |= {f"predicted {facts.classes[k]}": counts[shown, k] for k in shown}
    columns["correct"] = formatted((np.diag(counts) / np.maximum(sizes, 1))[shown], ".1%")
    more = f"<p>The {len(shown)} largest of {len(facts.classes)} classes.</p>" * (len(shown) < len(facts.classes))
    return "<h3>Actual and predicted classes</h3>" + html_table(columns) + more


def _curves(facts: Facts, probability: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> tuple[str, list[str]]:
    """Return the areas under the curves of the largest classes, each against the rest, and charts of the curves."""
    sizes = np.bincount(codes, minlength=len(facts.classes))
    largest = [c for c in np.argsort(-sizes, kind="stable") if 0 < sizes[c] < len(codes)]
    shown = [1] * (1 in largest) if len(facts.classes) == 2 else largest[:MOST_CLASSES]
    roc = Chart("ROC curve", "false positive rate", "true positive rate", box=(0, 1, 0, 1))
    recall_chart = Chart("Precision and recall", "recall", "precision", box=(0, 1, 0, 1))
    roc.guide(UNIT, slope=1.0)
    areas, means = [], []
    for number, c in enumerate(shown):
        own = codes == c, probability[:, c]
        false, found, _ = roc_curve(*own, sample_weight=weights)
        precision, recall, _ = precision_recall_curve(*own, sample_weight=weights)
        areas.append(auc(false, found))
        means.append(average_precision_score(*own, sample_weight=weights))
        for chart, x, y in ((roc, false, found), (recall_chart, recall, precision)) if number < MOST_CURVES else ():
            drawn = np.unique(np.linspace(0, len(x) - 1, CURVE_POINTS).astype(int))
            chart.line(x[drawn], y[drawn], style=f"line c{number}")
            chart.legend.append((f"c{number}", facts.classes[c]))
    note = "" if len(facts.classes) == 2 else "<p>Each class against all others.</p>"
    columns: dict[str, Any] = {"class": [facts.classes[c] for c in shown], "rows": sizes[shown]}
    columns |= {"area under the ROC curve": formatted(areas, ".3f"), "average precision": formatted(means, ".3f")}
    return note + html_table(columns), [roc.svg(), recall_chart.svg()] if shown else []


def _reliability_chart(facts: Facts, probability: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> str:
    bins = diagnose.reliability(probability, codes, weights=weights)
    of = f"class {facts.classes[1]}" if len(facts.classes) == 2 else "the predicted class"
    label = f"predicted probability of {of}"
    chart = Chart("Reliability of the probabilities", label, "observed frequency", box=(0, 1, 0, 1))
    chart.guide(UNIT, slope=1.0)
    for place, ends in zip(bins.predicted, np.column_stack([bins.low, bins.high]), strict=True):
        chart.line(np.array([place, place]), ends, style="thin")
    chart.line(bins.predicted, bins.observed, dots=True)
    return chart.svg()


def _score_columns(scores: Sequence[dict[str, float]]) -> dict[str, list[Any]]:
    """Return the columns of a table for scores with the same names; the error rate is a percentage."""
    style = {"error_rate": "{:.2%}".format}
    known = {name: words for name, words in SCORES.items() if name in scores[0]}
    return {words: [style.get(name, float)(score[name]) for score in scores] for name, words in known.items()}


# Intervals and sets ---------------------------------------------------------------------------------------------------
def intervals_section(facts: Facts) -> str:
    if facts.classes:
        return _sets_table(facts)
    if facts.coverage is None:
        return "<p>Not computed: the model has no leave-one-out values, or is too large.</p>"
    found, regions = facts.coverage, diagnose.coverage_by_region(facts.model)  # the latter by the first target
    levels, outputs = np.indices(found.width.shape).reshape(2, -1)
    margins = 196 * np.sqrt(found.asked * (1 - found.asked) / found.rows)
    columns = {
        "interval": formatted(found.asked[levels], ".0%"),
        **facts.which(outputs),
        "rows inside": formatted(found.observed.ravel(), ".1%"),
        "margin of error": [f"{margin:.1f} points" for margin in margins[levels]],
        "mean width": [
            rounded(w) if math.isfinite(w) else f"infinite: at least {needed} rows are needed"
            for w, needed in zip(found.width.ravel(), found.needed[levels], strict=True)
        ],
    }
    edges = zip(regions.low_edge, regions.high_edge, strict=True)
    by_region = {"prediction": [f"{rounded(low)} to {rounded(high)}" for low, high in edges], "rows": regions.count}
    by_region |= {"rows inside": formatted(regions.observed, ".1%"), "mean width": regions.width}
    words = f"How many of {found.rows} rows lie inside the prediction interval (<code>predict_interval</code>) of a "
    words += "model fitted without them (overall, about as many as requested), and how wide these intervals are."
    more = "90% intervals, whose width follows the noise if it varies beyond chance."
    return f"<p>{words}</p>{html_table(columns)}<h3>By predicted value</h3><p>{more}</p>{html_table(by_region)}"


def _sets_table(facts: Facts) -> str:
    if facts.loo is None:
        return ""
    found = diagnose.set_coverage(facts.model)
    columns = {"set": formatted(found.asked, ".0%"), "rows inside": formatted(found.observed, ".1%")}
    words = "How many rows have their class in the prediction set (<code>predict_set</code>) of a model without them."
    if facts.rare is not None:
        name = f"rows of “{facts.classes[facts.rare.code]}” inside"
        columns[name] = formatted(found.by_class[:, facts.rare.code], ".1%")
        words += " For each class alone: <code>class_conditional=True</code>, <code>lssvm predict --per-class</code>."
    table = html_table(columns | {"mean number of classes": formatted(found.size, ".2f")})
    return f"<p>{words}</p>{table}"


# The worst rows -------------------------------------------------------------------------------------------------------
def residuals_section(facts: Facts) -> str:
    """Return the rows with the largest leave-one-out errors."""
    if facts.loo is None:
        return ""
    words, worst, columns = _wrong_rows(facts) if facts.classes else _far_rows(facts)
    if facts.sampled or not len(worst):
        return words
    if facts.model.robust is not None:
        columns["robust weight"] = formatted(facts.loo.robust[worst], ".3g")
    first = int(facts.about.get("row", 0))
    words += f"<p>Rows are numbered from {first}{', the line below the header' if first == 2 else ''}.</p>"
    return words + html_table({"row": facts.numbers[worst]} | columns, of_rows=True)


def _far_rows(facts: Facts) -> tuple[str, np.ndarray, dict[str, Any]]:
    """Return a note, the rows with the largest residuals, and the columns of their table."""
    rows = facts.loo
    sizes, worst = _worst(rows.residuals)
    found = worst, np.argmax(sizes[worst], axis=1)
    columns = {
        "actual": rows.actual[found],
        "leave-one-out prediction": rows.predicted[found],
        "residual": rows.residuals[found],
        "in robust standard deviations": formatted(sizes[found], ".1f"),
        "leverage": formatted(rows.leverage[worst], ".3f"),
    }
    return "", worst, facts.which(found[1]) | columns


def _wrong_rows(facts: Facts) -> tuple[str, np.ndarray, dict[str, Any]]:
    """Return a note, the wrongly predicted rows whose class was the least probable, and the columns of their table."""
    probability, codes = facts.probability
    own, predicted = probability[np.arange(len(codes)), codes], np.argmax(probability, axis=1)
    wrong = np.flatnonzero(predicted != codes)
    worst = wrong[np.argsort(own[wrong], kind="stable")][:LISTED]
    count = f"{len(wrong)} of {len(codes)} rows" if len(wrong) else "no row"
    below = " Below: those with the lowest probability of the actual class, which may be mislabelled."
    columns = {
        "actual class": [facts.classes[c] for c in codes[worst]],
        "predicted class": [facts.classes[c] for c in predicted[worst]],
        "its probability": formatted(probability[worst, predicted[worst]], ".3f"),
        "probability of the actual class": formatted(own[worst], ".3f"),
    }
    shown = len(worst) > 0 and not facts.sampled
    return f"<p>Leave-one-out assigns {count} to a wrong class.{below * shown}</p>", worst, columns


def _worst(residuals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sizes of residuals in robust standard deviations, and the rows with the largest."""
    scale = distances(residuals)[1]
    scale = np.where(scale > 0, scale, np.std(residuals, axis=0))  # if half of the residuals are equal
    sizes = np.abs(residuals) / np.where(scale > 0, scale, 1.0)
    return sizes, np.argsort(-sizes.max(axis=1), kind="stable")[:LISTED]


def distances(residuals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distance of each residual from the median of its output, and the robust deviation per output."""
    far = np.abs(residuals - np.median(residuals, axis=0))
    return far, 1.4826 * np.median(far, axis=0)


# Other rows -----------------------------------------------------------------------------------------------------------
def other_rows_section(facts: Facts, X: Any, y: Any) -> str:
    model, rows = facts.model, {"rows": [len(X)]}
    if facts.classes:
        score = diagnose.class_scores(arrays.to_numpy(model.predict_proba(X)), diagnose.class_codes(model, y))
        return html_table(rows | _score_columns([score]))
    actual = np.asarray(arrays.to_numpy(y), dtype=float).reshape(len(y), -1)
    predicted = arrays.to_numpy(model.predict(X)).reshape(len(y), -1)
    chart = _agreement_chart("Other rows: predicted against actual", "prediction", actual[:, 0], predicted[:, 0])
    return html_table(rows | _score_columns([diagnose.number_scores(actual, predicted)])) + side_by_side([chart])
