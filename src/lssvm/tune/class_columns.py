"""One width per column, or fewer columns, for classifiers: only what helps on rows that were not used to choose it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from .. import arrays
from ..arrays import NumericalError
from .class_losses import best_C, loo_values, row_losses
from .class_search import ClassSearch, Rows, Setting
from .constants import CONSTANTS
from .screening import droppable, functions_of, relevance


class ColumnSearch:
    """The search for the widths of the columns, from a common width.

    A change is made on each half of a sample and judged by the log loss of the other half, where only a common factor
    of the widths and C are chosen again. It is kept if it gains more than `class_worth` standard errors; then it
    is made on the whole sample, or the widths of both halves are averaged. (Up to three rows are not halved.)

    Parameters
    ----------
    rows, halves : the sample and its halves
    common : the settings of the halves with a common width
    free : which leaves of the kernel have widths to choose
    """

    def __init__(self, rows: Rows, halves: list[Rows], common: list[Setting], free: list[bool]) -> None:
        self.rows, self.halves, self.common, self.free = rows, halves, common, free
        self.losses = [row_losses(half, setting) for half, setting in zip(halves, common, strict=True)]  # the best

    def run(self) -> Setting | None:
        """The best setting with one width per column or with fewer columns, or None if the common width is kept."""
        chosen = None
        starts = [self._not_wider(setting) for setting in self.common]
        found: list[Setting] = []

        def many_widths(own: int) -> Setting:
            found.append(self._many_widths(own, starts))
            return found[own]

        settings = self._judged(many_widths)
        if settings:
            chosen = mean_of(settings)
            if self._judged(lambda own: self._fewer_columns(self.halves[own], found[own])):
                fewer = self._fewer_columns(self.rows, best_C(self.rows, chosen)[1])
                chosen = mean_of([self._common_factor(half, fewer) for half in self.halves])
        of_all, *relevant = [self._relevant(rows) for rows in (self.rows, *self.halves)]
        if all(0 < own.sum() < self.rows.n_inputs for own in (of_all, *relevant)) and self._judged(
            lambda own: self._with_columns(starts[1 - own], relevant[own])
        ):
            starts = [self._with_columns(start, of_all) for start in starts]
            starts = [self._common_factor(half, start) for half, start in zip(self.halves, starts, strict=True)]
            self.losses = [row_losses(half, start) for half, start in zip(self.halves, starts, strict=True)]
            chosen = mean_of(self._judged(lambda own: self._many_widths(own, starts)) or starts)
        return chosen

    def _judged(self, change: Callable[[int], Setting]) -> list[Setting] | None:
        """The settings that a change of each half leads to on the other half, or None if they do not gain enough.

        The second half is not changed if the first change loses. The losses of a change that is kept are those to beat.
        """
        settings: list[Setting] = []
        gains: list[np.ndarray] = []
        for own, other in ((0, 1), (1, 0)):
            settings.append(self._common_factor(self.halves[other], change(own)))
            gains.append(self.losses[other] - row_losses(self.halves[other], settings[-1]))
            if gains[0] @ self.halves[1].weights <= 0.0:
                return None
        gain = np.concatenate(gains) * np.concatenate([half.weights for half in self.halves[::-1]])
        if gain.mean() <= CONSTANTS.class_worth * gain.std() / math.sqrt(len(gain)):
            return None
        self.losses = [self.losses[0] - gains[1], self.losses[1] - gains[0]]
        return settings[::-1]

    def _many_widths(self, number: int, starts: list[Setting]) -> Setting:
        """One width per column of a half."""
        return ClassSearch(self.halves[number], starts[number], self.free, many=True).run(20)[1]

    def _common_factor(self, rows: Rows, setting: Setting) -> Setting:
        """The setting with the best common factor of its widths and the best C."""
        return ClassSearch(rows, setting, self.free).run(12)[1]

    def _not_wider(self, setting: Setting) -> Setting:
        """The setting with a moderate common width if that of the setting is wider.

        If few columns matter, the best common width is often so wide that the classifier is nearly linear, and the
        search for one width per column stays there.
        """
        sigmas = []
        for leaf, free in zip(setting.kernel.leaves, self.free, strict=True):
            widest = math.sqrt(self.rows.n_inputs) * leaf.width_unit(self.rows.unit)
            sigmas.append(np.minimum(arrays.to_numpy(leaf.sigma), widest) if free else leaf.sigma)
        return replace(setting, kernel=setting.kernel.with_widths(sigmas))

    @staticmethod
    def _relevant(rows: Rows) -> np.ndarray:
        """Which inputs have a column that the classes depend on."""
        effects = relevance(functions_of(rows.X), np.eye(rows.n_classes)[rows.codes])
        return np.bincount(rows.problem.inputs, effects > CONSTANTS.relevant) > 0

    def _with_columns(self, setting: Setting, kept: np.ndarray) -> Setting:
        """The setting with infinite widths of some inputs, and the others narrower, for the same mean distance."""
        columns, factor = kept[self.rows.problem.inputs], math.sqrt(kept.sum() / self.rows.n_inputs)
        return self._replaced(setting, lambda widths: np.where(columns, factor * widths, math.inf))

    def _fewer_columns(self, rows: Rows, setting: Setting) -> Setting:
        """The setting without the columns that hardly lower the log loss of the rows; one is always kept."""
        inputs = rows.problem.inputs
        unit = np.where(np.isfinite(rows.unit), rows.unit, 1.0)
        widths = np.min([arrays.to_numpy(leaf.sigma) / unit for leaf in setting.kernel.leaves if leaf.ard], axis=0)
        widths = widths[np.unique(inputs, return_index=True)[1]]

        def without(dropped: np.ndarray) -> Setting:
            return self._replaced(setting, lambda widths: np.where(np.isin(inputs, dropped), math.inf, widths))

        def loss(dropped: np.ndarray) -> float:
            if len(dropped) == len(widths):
                return math.inf
            try:
                values = loo_values(rows, rows.matrix(without(dropped).kernel), setting, None)[0]
            except NumericalError:
                return math.inf
            return rows.coded(setting.coding).score(values)[0]

        limit = math.log(len(rows.codes)) * float(rows.weights.mean())
        return without(droppable(widths, self._relevant(rows), loss, limit))

    def _replaced(self, setting: Setting, change: Callable[[np.ndarray], np.ndarray]) -> Setting:
        """The setting with other widths per column."""
        sigmas = [
            change(arrays.to_numpy(leaf.sigma)) if free and leaf.ard else leaf.sigma
            for leaf, free in zip(setting.kernel.leaves, self.free, strict=True)
        ]
        return replace(setting, kernel=setting.kernel.with_widths(sigmas))


def mean_of(settings: list[Setting]) -> Setting:
    """The geometric means of C and of the widths of settings that differ in nothing else."""
    sigmas = []
    for leaves in zip(*(setting.kernel.leaves for setting in settings), strict=True):
        widths = [arrays.to_numpy(leaf.sigma) for leaf in leaves]
        equal = all(np.array_equal(width, widths[0]) for width in widths)
        sigmas.append(leaves[0].sigma if equal else np.exp(np.mean(np.log(widths), axis=0)))
    C = math.exp(float(np.mean([math.log(setting.C) for setting in settings])))
    return replace(settings[0], kernel=settings[0].kernel.with_widths(sigmas), C=C)
