"""The sections on how well the model predicts: leave-one-out, coverage of intervals, other rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import arrays, diagnose
from .charts import DRAWN, Chart, side_by_side
from .classes import class_quality
from .facts import Facts
from .markup import html_table, rounded
from .outliers import residuals_chart


def quality_section(facts: Facts) -> str:
    if facts.scores is None:
        return "<p>Unknown: this model has no leave-one-out residuals.</p>"
    note = ""
    if facts.sampled and len(facts.loo.weights) < facts.loo.total:
        note += f"<p>These figures come from a random sample of {len(facts.loo.weights)} of the {facts.rows} rows.</p>"
    if np.ptp(facts.loo.given) > 0:
        note += "<p>Averages use the sample weights; tables of classes count the rows with positive weight.</p>"
    return note + (class_quality(facts) if facts.classes else _number_quality(facts))


def _number_quality(facts: Facts) -> str:
    rows, counting = facts.loo, facts.loo.given > 0
    lines, charts = [], []
    for output in range(rows.actual.shape[1]):
        actual, predicted = rows.actual[counting, output], rows.predicted[counting, output]
        score = diagnose.number_scores(actual[:, None], predicted[:, None], rows.given[counting])
        name = facts.target if rows.actual.shape[1] == 1 else f"{facts.target} {output}"
        largest = np.max(np.abs(actual - predicted))
        lines.append((name, *(rounded(value) for value in (score["rmse"], score["mae"], score["r2"], largest))))
        if output < DRAWN:
            chart = Chart(f"Predicted against actual: {name}", "leave-one-out prediction", "actual value")
            chart.diagonal(actual, predicted)
            chart.cloud(predicted, actual, actual - predicted)
            charts += [chart.svg(), residuals_chart(facts, output)]
    header = ("target", "RMSE", "mean absolute error", "R²", "largest error")
    return html_table(header, lines) + side_by_side(charts)


def intervals_section(facts: Facts) -> str:
    if facts.classes:
        return _sets_table(facts)
    if facts.coverage is None:
        return "<p>Not computed: the model has no leave-one-out values, or is too large.</p>"
    found = facts.coverage
    several = found.observed.shape[1] > 1
    lines = []
    for level, asked in enumerate(found.asked):
        half = 1.96 * math.sqrt(asked * (1 - asked) / found.rows)
        for output, width in enumerate(found.width[level]):
            lines.append(
                (
                    f"{asked:.0%}",
                    *((f"{facts.target} {output}",) if several else ()),
                    f"{found.observed[level, output]:.1%}",
                    f"{100 * half:.1f} points",
                    rounded(width) if math.isfinite(width) else "infinite: too few rows",
                )
            )
    header = ("interval", *(("target",) if several else ()), "rows inside", "margin of error", "mean width")
    return (
        f"<p>How many of {found.rows} rows lie inside the prediction interval (<code>predict_interval</code>) of a "
        "model fitted without them (overall, about as many as requested), and how wide these intervals are.</p>"
        + html_table(header, lines)
        + _regions_table(facts)
    )


def _regions_table(facts: Facts) -> str:
    """Coverage of the default intervals by region of the first target, from leave-one-out residuals."""
    found = diagnose.coverage_by_region(facts.model)
    edges = zip(found.low_edge, found.high_edge, strict=True)
    lines = [
        (f"{rounded(low)} to {rounded(high)}", str(count), f"{observed:.1%}", rounded(width))
        for (low, high), count, observed, width in zip(edges, found.count, found.observed, found.width, strict=True)
    ]
    return (
        "<h3>By predicted value</h3><p>90% intervals, whose width follows the noise if it varies "
        "beyond chance.</p>" + html_table(("prediction", "rows", "rows inside", "mean width"), lines)
    )


def _sets_table(facts: Facts) -> str:
    if facts.scores is None:
        return ""
    found = diagnose.set_coverage(facts.model)
    lines = [
        (f"{asked:.0%}", f"{observed:.1%}", f"{size:.2f}")
        for asked, observed, size in zip(found.asked, found.observed, found.size, strict=True)
    ]
    return (
        "<p>How many rows have their class in the prediction set (<code>predict_set</code>) of a model fitted without "
        "them.</p>" + html_table(("set", "rows inside", "mean number of classes"), lines)
    )


def other_rows_section(facts: Facts, X: Any, y: Any) -> str:
    model = facts.model
    if facts.classes:
        score = diagnose.class_scores(arrays.to_numpy(model.predict_proba(X)), diagnose.class_codes(model, y))
        values = [(str(len(X)), f"{score['error_rate']:.2%}", rounded(score["log_loss"]), rounded(score["brier"]))]
        return html_table(("rows", "error rate", "log loss", "Brier score"), values)
    actual = np.asarray(arrays.to_numpy(y), dtype=float).reshape(len(y), -1)
    predicted = arrays.to_numpy(model.predict(X)).reshape(len(y), -1)
    score = diagnose.number_scores(actual, predicted)
    chart = Chart("Other rows: predicted against actual", "prediction", "actual value")
    chart.diagonal(actual[:, 0], predicted[:, 0])
    chart.cloud(predicted[:, 0], actual[:, 0], actual[:, 0] - predicted[:, 0])
    values = [(str(len(actual)), rounded(score["rmse"]), rounded(score["mae"]), rounded(score["r2"]))]
    return html_table(("rows", "RMSE", "mean absolute error", "R²"), values) + side_by_side([chart.svg()])
