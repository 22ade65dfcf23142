"""The solution of a problem."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np

from .. import arrays
from ..arrays import EPS, Array, NumericalError
from ..kernels import Kernel
from ..rules import Penalty, indices, row_weights, values

UNSURE = 1e-8  # relative rounding error of a leave-one-out residual above which a warning is issued: half of the digits


@dataclass(frozen=True)
class Fit:
    """A solved problem. Residuals, leverages and leave-one-out residuals cover all rows of the problem."""

    kernel: Kernel
    C: Penalty
    weights: Annotated[Array, row_weights("rows")]
    support: Annotated[np.ndarray, indices("vectors", "rows")] | None
    points: Annotated[Array, values("vectors", "coordinates")]
    coef: Annotated[Array, values("vectors", "outputs")]
    intercept: Annotated[Array, values("outputs")]
    residuals: Annotated[Array, values("rows", "outputs")]
    leverage: Annotated[Array, values("rows", finite=False)]  # None, like the next field, after solve(loo=False)
    loo_residuals: Annotated[Array, values("rows", "outputs", finite=False)]
    rounding: float = field(default=0.0, metadata={"in_files": False})  # see `rounding_error`; 0: not known

    def predict(self, X: Array) -> Array:
        """f(x) for every row and output."""
        return self.kernel.dot(X, self.points, self.coef) + self.intercept[None, :]


def check_solution(*parts: Array) -> None:
    if not all(bool(arrays.namespace(a).all(arrays.namespace(a).isfinite(a))) for a in parts):
        raise NumericalError("The solution is not finite: scale your features, targets and weights, or lower C.")


def warn_of_leverage(largest: float) -> None:
    """Warn if a leverage near 1 leaves few digits of e/(1 - h), the only formula available to systems from sums."""
    if UNSURE * (1.0 - largest) < EPS:
        warnings.warn(
            f"A row has a leverage of 1 - {max(1.0 - largest, 0.0):.0e}: few digits of its leave-one-out residual are "
            "correct. Lower C or the weight of that row, or use so few rows or basis points that they fit in memory.",
            stacklevel=arrays.user_level(),
        )
