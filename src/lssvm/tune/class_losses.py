"""The log losses of the rows of a search for a classifier, and the best C for given widths."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import softmax

from .. import progress
from ..arrays import NumericalError
from ..coding import best_slope, pair_losses, platt_aims, vertex
from ..problem import solve_two_classes
from ..system.newton import solve_squares
from .class_search import Rows, Setting
from .constants import CONSTANTS


def row_losses(rows: Rows, setting: Setting) -> np.ndarray:
    """The leave-one-out log loss of every row, with the best slope."""
    try:
        values = loo_values(rows, rows.matrix(setting.kernel), setting, None)[0]
    except NumericalError:
        return np.full(len(rows.codes), 1e10)
    return _log_losses(rows, setting.coding, values)


def _log_losses(rows: Rows, coding: str, values: np.ndarray) -> np.ndarray:
    """The log loss of every row for the best slope, with the targets of Platt (1999); see `coding.best_slope`."""
    if coding == "one-vs-one" and rows.n_classes > 2:
        return pair_losses(values, rows.codes, rows.weights, rows.n_classes)[1]
    f = np.column_stack([0.0 * values, values]) if rows.n_classes == 2 else values
    aims = platt_aims(rows.codes, rows.weights, rows.n_classes)
    return best_slope(lambda slope: softmax(slope * f, axis=1), rows.codes, rows.weights, aims)[1]


def loo_values(rows: Rows, K: np.ndarray, setting: Setting, warm: Any) -> tuple[np.ndarray, Any]:
    """Leave-one-out values (decision values of rows that are not part of a problem), and a warm start.

    K is that of `Rows.matrix`.
    """
    if not rows.problem.is_dual:
        return _values_on_basis(rows, K, setting, warm)
    coded = rows.coded(setting.coding)
    if not coded.by_pairs and setting.loss == "squared":
        return solve_squares(K, coded.targets, rows.weights, setting.C)[2], None
    coef, intercept, decision, loo = coded.stacks.solve(K, setting.C, setting.loss, warm)
    if len(coded.columns) > 1 and coded.by_pairs:
        values = K @ coef + intercept[None, :]
        for number, (own, _) in enumerate(coded.columns):
            values[own, number] = loo[own, number]
        return values, decision
    return loo, decision


def _values_on_basis(rows: Rows, phi: np.ndarray, setting: Setting, warm: Any) -> tuple[np.ndarray, Any]:
    """The same for two classes and the whitened columns phi of a smaller basis."""
    [(own, t)] = rows.coded(setting.coding).columns
    fit = solve_two_classes(phi, own, t, rows.weights, setting.C, setting.loss, dual=False, start=warm, tolerance=1e-4)
    return fit.loo[:, None], fit.decision


def best_C(
    rows: Rows, setting: Setting, *, step: float = 1.0, moves: int = 1, known: bool = False
) -> tuple[np.ndarray, Setting]:
    """The weighted log losses of all rows with the best C, and the setting; `known`: C is that of the setting.

    log C is searched from that of the setting, up to `moves` + 1 steps away.
    """
    K = rows.matrix(setting.kernel)
    best: tuple[float, float, np.ndarray] = (math.inf, setting.C, np.zeros(0))
    warm: Any = None

    def value(log_C: float) -> float:
        nonlocal best, warm
        progress.did(rows.work)
        try:
            values, warm = loo_values(rows, K, replace(setting, C=math.exp(log_C)), warm)
        except NumericalError:
            return 1e10
        score = rows.coded(setting.coding).score(values)[0]
        score += 0.5 * ((log_C - math.log(CONSTANTS.class_C)) / CONSTANTS.class_C_prior) ** 2
        if score < best[0]:
            best = (score, math.exp(log_C), values)
        return score

    start = math.log(setting.C)
    if known or rows.C is not None:
        value(start)
    else:
        value(vertex(value, start, step, moves))
    if not len(best[2]):
        return np.full(len(rows.codes), 1e10), setting
    losses = _log_losses(rows, setting.coding, best[2])
    return losses * rows.weights / rows.weights.mean(), replace(setting, C=best[1])
