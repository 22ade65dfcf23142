"""Minimisation of the objective of a search for widths, by gradients or by a simplex."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy
from sklearn.utils import Bunch

from ..problem import Problem
from ..progress import work
from .choose_C import best_C, kernel_variance, mean_weight
from .constants import CONSTANTS
from .objective import Objective
from .stack_weights import Stage, stage_weights


class Descent(Objective):
    """An objective that can move its widths and C downhill."""

    def _choose_C(self, trial: Problem) -> None:
        """Choose C for the current widths: the best C of another sample may be far off."""
        if self.problem.C is None:
            self.C = best_C(self._at(self.widths, trial))[0]
            self.spent += work(len(trial.rows), None if trial.is_dual else trial.basis_size, every=True)

    def _minimise(
        self,
        trial: Problem,
        iterations: int,
        *,
        together: bool = False,
        rival: float = math.inf,
        others: Sequence[Stage] = (),
    ) -> float:
        """Move the widths (with `together`, only by a common factor) and C to a local minimum of the objective.

        An iteration has to lower log PRESS by `rate` times its share of all the work so far, and by the noise. Its
        work is that of one evaluation, however many a line search takes: where the objective is flat, rounding decides
        how many. The first four have to come below the value of a `rival`. After `hopeful` iterations, a member of
        a stack must have some weight next to the `others`; otherwise the search ends, and `is_useless` is set.
        """
        start, dropped = self._vector(), self._is_dropped(self.widths)
        if len(start) == np.sum(dropped):  # nothing to choose, e.g. a kernel of a `Choice`
            return self._value(start, trial)
        moves: Any = scipy.sparse.eye_array(len(start), format="csr")  # from the search variables to the vector
        middle = math.log(kernel_variance(self._at_vector(start, trial)) * mean_weight(trial))
        bounds = [
            (CONSTANTS.dropped_width, CONSTANTS.dropped_width)
            if fixed
            else (-CONSTANTS.width_bound, CONSTANTS.width_bound)
            for fixed in dropped
        ]
        if self.problem.C is None:
            bounds.append((-math.log(CONSTANTS.ridges[-1]) - middle, -math.log(CONSTANTS.ridges[0]) - middle))
        start = np.clip(start, *np.array(bounds).T)
        if together:
            moves = np.zeros((len(start), 1 + len(start) - len(dropped)))
            moves[: len(dropped), 0], moves[len(dropped) :, 1:] = ~dropped, np.eye(len(start) - len(dropped))
        bounds = [(low - at, high - at) for (low, high), at in zip(bounds, start, strict=True)]
        if together:
            bounds = [(-3.0, 3.0), *bounds[len(dropped) :]]
        elif dropped.any():  # they may be many more than the widths that are searched
            searched = np.append(~dropped, np.ones(len(start) - len(dropped), dtype=bool))
            moves, bounds = moves[:, searched], [bounds[place] for place in np.flatnonzero(searched)]
        zero = np.zeros(moves.shape[1])
        if self.method == "simplex":
            found = scipy.optimize.minimize(  # type: ignore[call-overload]
                lambda step: self._value(start + moves @ step, trial),
                zero,
                method="Nelder-Mead",
                bounds=bounds,
                options={"maxfev": 40 * len(zero), "xatol": 1e-2, "fatol": 1e-4},
            )
        else:
            each = self._step_work(len(trial.rows), None if trial.is_dual else trial.basis_size)
            least = CONSTANTS.flatness / len(trial.rows)
            values: list[float] = []

            def objective(step: np.ndarray) -> tuple[float, np.ndarray]:
                value, gradient = self._objective(start + moves @ step, trial)
                return value, np.atleast_1d(moves.T @ gradient)  # SciPy's product with one column is a number

            def stop(intermediate_result: scipy.optimize.OptimizeResult) -> None:
                values.append(float(intermediate_result.fun))
                self.spent += each
                slow = len(values) > 4 and values[-5] - values[-1] < 4.0 * CONSTANTS.rate * each / self.spent
                if slow or (len(values) == 4 and values[-1] > rival):
                    raise StopIteration
                if len(values) == CONSTANTS.hopeful and others:
                    own = self._stage_at(start + moves @ intermediate_result.x, trial)
                    self.is_useless = stage_weights([*others, own])[-1] == 0.0
                    if self.is_useless:
                        raise StopIteration

            first = objective(zero)
            self.spent += each
            known = [first]
            found = Bunch(x=zero, fun=first[0])
            if first[1] @ first[1] >= least:  # else the first step, which is minus the gradient, gains less than that
                found = scipy.optimize.minimize(  # type: ignore[call-overload]
                    lambda step: known.pop() if known else objective(step),
                    zero,
                    jac=True,
                    method="L-BFGS-B",
                    bounds=bounds,
                    options={"maxiter": iterations, "ftol": least},
                    callback=stop,
                )
        logs = start + moves @ found.x
        self.widths = logs if self.problem.C is not None else logs[:-1]
        self.C = self.C if self.problem.C is not None else math.exp(logs[-1])
        return float(found.fun)
