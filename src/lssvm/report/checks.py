"""Possible problems of the model."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from .. import diagnose
from .._words import counted
from ..intervals import ROWS_PER_WIDTH
from .facts import Facts
from .markup import listed, rounded
from .outliers import distances

MANY_LIGHT = 0.1  # share of the rows of a classifier that may be down-weighted without a warning


def cautions(facts: Facts) -> list[str]:
    """Reasons to doubt the errors or the rows, for the verdict."""
    return [
        words for check in (_check_quality, _check_widths, _check_outliers, _check_coverage) for words in check(facts)
    ]


def checks_section(facts: Facts) -> str:
    """Doubts about the settings, and what was checked besides."""
    found = [*facts.notes(about_columns=False), *_check_C(facts), *_check_leverage(facts)]
    checked = ["C against its path"] * (facts.c_path is not None) + ["the number of widths"] * (not facts.chunked)
    checked += ["class sizes" if facts.classes else "outliers", "leverages"]
    checked += ["interval coverage"] * (facts.coverage is not None)
    return listed(found, "bad") + f"<p>Checked: the number of rows, {', '.join(checked)}.</p>"


def _check_quality(facts: Facts) -> Iterable[str]:
    if facts.loo is None:
        yield "The model has no leave-one-out values: evaluate it on other rows."
        return
    if facts.rows is not None and facts.rows < 30:
        yield f"There are only {facts.rows} rows, so all figures below are rough."
    if facts.classes:
        counts = np.bincount(facts.probability[1][facts.loo.given > 0], minlength=len(facts.classes))
        smallest = int(np.argmin(counts))
        if counts[smallest] < 10 and len(facts.loo.given) == facts.rows:
            few = counted(counts[smallest], "row")
            yield f"Class {facts.classes[smallest]!r} has only {few}, so its figures are rough."


def _check_C(facts: Facts) -> Iterable[str]:
    if facts.c_path is None:
        return
    C, errors = facts.c_path
    own = errors[len(errors) // 2]
    best = int(np.argmin(errors))
    if own > 1.05 * errors[best]:
        yield (
            f"C = {facts.model.C_:.3g} has a leave-one-out error of {rounded(own)}; C = {C[best]:.3g} would have "
            f"{rounded(errors[best])}"
            + (" (C was given, not chosen)." if facts.model.C is not None else " (with the same weights and kernel).")
        )


def _check_widths(facts: Facts) -> Iterable[str]:
    """Many widths, chosen by the same error that evaluates them, overfit it."""
    share = sum(weight for member, weight in facts.members if _chooses_widths(member))
    if share >= 0.5 and ROWS_PER_WIDTH * len(facts.names) > (facts.rows or 0):
        yield (
            f"The widths of {len(facts.names)} columns were tuned on only {facts.rows} rows, so errors on new rows may "
            "be larger than reported. Evaluate the model on other rows, or use one width: kernel=kernels.RBF()."
        )


def _chooses_widths(member: Any) -> bool:
    """Whether leave-one-out chose one width for each column of a model that is not a stack."""
    if not member.fitted_.is_least_squares:
        return "one width per column" in (getattr(member, "path_", None) or {}).get("plan", ())
    problem = member.fitted_.problem
    if problem is None or "LeaveOneOut" not in problem.paths or problem.asked is None or not member.kernel_.leaves:
        return False
    widths = diagnose.inverse_widths(member)
    return bool(problem.asked[0].is_free and np.ptp(widths) > 1e-6 * widths.max())


def _check_outliers(facts: Facts) -> Iterable[str]:
    if facts.loo is None:
        return
    if facts.model.robust is not None:
        robust = facts.loo.robust[facts.loo.weights > 0]
        gone, rows = int(np.sum(robust < 1e-3)), len(robust)
        if gone:
            were = "was taken for an outlier" if gone == 1 else "were taken for outliers"
            yield f"{gone} of {rows} rows {were} and almost ignored: see the largest errors below."
        light = float(np.mean(robust < 0.5))
        if facts.classes and light > MANY_LIGHT:
            yield (
                f"{light:.0%} of the rows have a robust weight below 0.5: are so many labels wrong? If the classes "
                "overlap, a large error does not indicate a wrong label. Compare the log loss with that of a fit "
                "without robust weights."
            )
    elif not facts.classes:
        residuals = facts.loo.residuals[facts.loo.given > 0]
        distance, scale = distances(residuals)
        far = int(np.sum((distance > 6 * scale).any(axis=1))) if (scale > 0).all() else 0
        if far:
            who = counted(far, "row is", "rows are")
            yield f"{who} off by more than 6 times the usual error: see the largest errors, or try robust='hampel'."


def _check_leverage(facts: Facts) -> Iterable[str]:
    high = 0 if facts.loo is None else int(np.sum(facts.loo.leverage > 0.99))
    if high:
        who = counted(high, "row alone determines", "rows alone determine")
        yield f"{who} the function nearby (leverage above 0.99): no other rows are near."


def _check_coverage(facts: Facts) -> Iterable[str]:
    if facts.coverage is None:
        return
    for asked, shares in zip(facts.coverage.asked, facts.coverage.observed, strict=True):
        for share in shares:
            if asked - share > 3 * math.sqrt(asked * (1 - asked) / facts.coverage.rows):
                yield f"Prediction intervals that should contain {asked:.0%} of the rows contain only {share:.1%}."
