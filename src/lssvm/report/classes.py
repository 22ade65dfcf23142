"""How well a classifier predicts: confusion matrix, ROC and precision-recall curves, reliability."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import auc, average_precision_score, precision_recall_curve, roc_curve

from .. import diagnose
from .charts import Chart, side_by_side
from .facts import Facts
from .markup import html_table, rounded

MOST_CLASSES = 15  # in the confusion matrix and in the table of areas
MOST_CURVES = 5  # in one chart
FEW_CLASSES = 4  # up to which the confusion matrix fits beside the charts
CURVE_POINTS = 300  # of one curve, at most


def class_quality(facts: Facts) -> str:
    counting = facts.loo.given > 0
    weights = facts.loo.given[counting]
    probability, codes = (array[counting] for array in facts.probability)
    score = facts.scores
    summary = [(f"{score['error_rate']:.2%}", rounded(score["log_loss"]), rounded(score["brier"]))]
    confusion = _confusion(facts, codes, np.argmax(probability, axis=1))
    areas, curves = _curves(facts, probability, codes, weights)
    few = probability.shape[1] <= FEW_CLASSES
    charts = [f"<figure>{confusion}</figure>"] * few + curves
    return (
        html_table(("error rate", "log loss", "Brier score"), summary)
        + ("" if few else confusion)
        + side_by_side([*charts, _reliability_chart(facts, probability, codes, weights)])
        + areas
    )


def _confusion(facts: Facts, codes: np.ndarray, predicted: np.ndarray) -> str:
    """The confusion matrix; of many classes, only the largest."""
    assert facts.classes is not None
    counts = np.zeros((len(facts.classes), len(facts.classes)), dtype=int)
    np.add.at(counts, (codes, predicted), 1)
    shown = sorted(np.argsort(-counts.sum(axis=1), kind="stable")[:MOST_CLASSES])
    lines = []
    for c in shown:
        share = counts[c, c] / max(counts[c].sum(), 1)
        lines.append((facts.classes[c], *(str(counts[c, k]) for k in shown), f"{share:.1%}"))
    header = ("actual class", *(f"predicted {facts.classes[k]}" for k in shown), "correct")
    all_shown = len(shown) == len(facts.classes)
    more = "" if all_shown else f"<p>The {len(shown)} largest of {len(facts.classes)} classes.</p>"
    return "<h3>Actual and predicted classes</h3>" + html_table(header, lines) + more


def _curves(facts: Facts, probability: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> tuple[str, list[str]]:
    """The areas under the curves of the largest classes, each against the rest, and charts of the curves."""
    assert facts.classes is not None
    sizes = np.bincount(codes, minlength=len(facts.classes))
    largest = [c for c in np.argsort(-sizes, kind="stable") if 0 < sizes[c] < len(codes)]
    shown = [1] * (1 in largest) if len(facts.classes) == 2 else largest[:MOST_CLASSES]
    roc = Chart("ROC curve", "false positive rate", "true positive rate", box=(0, 1, 0, 1))
    recall_chart = Chart("Precision and recall", "recall", "precision", box=(0, 1, 0, 1))
    roc.diagonal(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    lines = []
    for number, c in enumerate(shown):
        own = codes == c, probability[:, c]
        false, found, _ = roc_curve(*own, sample_weight=weights)
        precision, recall, _ = precision_recall_curve(*own, sample_weight=weights)
        area, mean = auc(false, found), average_precision_score(*own, sample_weight=weights)
        lines.append((facts.classes[c], str(sizes[c]), f"{area:.3f}", f"{mean:.3f}"))
        if number < MOST_CURVES:
            roc.line(*_thinned(false, found), style=f"c{number}")
            recall_chart.line(*_thinned(recall, precision), style=f"c{number}")
            for chart in (roc, recall_chart):
                chart.legend([(f"c{number}", facts.classes[c])])
    header = ("class", "rows", "area under the ROC curve", "average precision")
    note = "" if len(facts.classes) == 2 else "<p>Each class against all others.</p>"
    return note + html_table(header, lines), [roc.svg(), recall_chart.svg()] if shown else []


def _thinned(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows = np.unique(np.linspace(0, len(x) - 1, CURVE_POINTS).astype(int))
    return x[rows], y[rows]


def _reliability_chart(facts: Facts, probability: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> str:
    assert facts.classes is not None
    bins = diagnose.reliability(probability, codes, weights=weights)
    of = f"class {facts.classes[1]}" if len(facts.classes) == 2 else "the predicted class"
    chart = Chart(
        "Reliability of the probabilities", f"predicted probability of {of}", "observed frequency", box=(0, 1, 0, 1)
    )
    chart.diagonal(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    chart.whiskers(bins.predicted, bins.low, bins.high)
    chart.line(bins.predicted, bins.observed, dots=True)
    return chart.svg()
