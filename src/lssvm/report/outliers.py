"""The rows with the largest leave-one-out errors."""

from __future__ import annotations

import numpy as np

from .charts import Chart
from .facts import Facts
from .markup import formatted, html_table

LISTED = 10  # maximum number of rows in the table


def residuals_section(facts: Facts) -> str:
    if facts.loo is None:
        return ""
    return _class_outliers(facts) if facts.classes else _number_outliers(facts)


def _number_outliers(facts: Facts) -> str:
    rows = facts.loo
    if facts.sampled:
        return ""
    sizes, worst = _worst(rows.residuals)
    found = worst, np.argmax(sizes[worst], axis=1)
    columns = {
        "row": [facts.number(i) for i in worst],
        **facts.which(found[1]),
        "actual": rows.actual[found],
        "leave-one-out prediction": rows.predicted[found],
        "residual": rows.residuals[found],
        "in robust standard deviations": formatted(sizes[found], ".1f"),
        **_robust_weights(facts, worst),
        "leverage": formatted(rows.leverage[worst], ".3f"),
    }
    return _rows_note(facts) + html_table(columns, of_rows=True)


def _worst(residuals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sizes of residuals in robust standard deviations, and the rows with the largest."""
    scale = distances(residuals)[1]
    scale = np.where(scale > 0, scale, np.std(residuals, axis=0))  # if half of the residuals are equal
    sizes = np.abs(residuals) / np.where(scale > 0, scale, 1.0)
    return sizes, np.argsort(-sizes.max(axis=1), kind="stable")[:LISTED]


def residuals_chart(facts: Facts, output: int) -> str:
    """The residuals of one output, coloured by robust weight; the worst rows link to their lines in the table."""
    rows = facts.loo
    name = f": {facts.outputs[output]}" if len(facts.outputs) > 1 else ""
    chart = Chart(f"Leave-one-out residuals{name}", "leave-one-out prediction", f"residual ({facts.unit})")
    chart.zero()
    x, e = rows.predicted[:, output], rows.residuals[:, output]
    full, gone = rows.robust > 0.999, rows.robust < 1e-3
    chart.cloud(x, e, e, shown=full)
    if not full.all():
        chart.cloud(x, e, e, shown=~full & ~gone, style="half")
        chart.cloud(x, e, e, shown=gone, style="none")
        chart.legend([("dots", "robust weight 1"), ("half", "between 0 and 1"), ("none", "0")])
    if not facts.sampled:
        worst = _worst(rows.residuals)[1]
        chart.links(x[worst], e[worst], [facts.number(i) for i in worst])
    return chart.svg()


def distances(residuals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distance of each residual from the median of its output, and the robust standard deviation per output."""
    far = np.abs(residuals - np.median(residuals, axis=0))
    return far, 1.4826 * np.median(far, axis=0)


def _robust_weights(facts: Facts, rows: np.ndarray) -> dict[str, list[str]]:
    return {} if facts.model.robust is None else {"robust weight": formatted(facts.loo.robust[rows], ".3g")}


def _rows_note(facts: Facts) -> str:
    first = int(facts.about.get("row", 0))
    return f"<p>Rows are numbered from {first}{', the line below the header' if first == 2 else ''}.</p>"


def _class_outliers(facts: Facts) -> str:
    probability, codes = facts.probability
    own = probability[np.arange(len(codes)), codes]
    predicted = np.argmax(probability, axis=1)
    wrong = np.flatnonzero(predicted != codes)
    worst = wrong[np.argsort(own[wrong], kind="stable")][:LISTED]
    if not len(worst):
        return "<p>Leave-one-out assigns no row to a wrong class.</p>"
    if facts.sampled:
        return f"<p>Leave-one-out assigns {len(wrong)} of {len(codes)} rows to a wrong class.</p>"
    columns = {
        "row": [facts.number(i) for i in worst],
        "actual class": [facts.classes[c] for c in codes[worst]],
        "predicted class": [facts.classes[c] for c in predicted[worst]],
        "its probability": formatted(probability[worst, predicted[worst]], ".3f"),
        "probability of the actual class": formatted(own[worst], ".3f"),
        **_robust_weights(facts, worst),
    }
    return (
        f"<p>Leave-one-out assigns {len(wrong)} of {len(codes)} rows to a wrong class. Below: those with "
        "the lowest probability of the actual class, which may be mislabelled.</p>"
        + _rows_note(facts)
        + html_table(columns, of_rows=True)
    )
