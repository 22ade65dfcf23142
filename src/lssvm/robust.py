"""Robust weights from residuals (Suykens et al. 2002, Algorithm 1).

A weight function takes residuals in units of a robust scale and returns weights in [1e-4, 1]. `Problem.solve` applies
it `iterations` times: solve, compute weights, solve again. One iteration is the paper's algorithm; if C or widths are
chosen by leave-one-out, there are at least three.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from sklearn.base import BaseEstimator

from .rules import Positive, check_parameters, integer, one_of, shown

__all__ = ["Hampel", "Huber", "Logistic", "Myriad", "WeightFunction", "as_weight_function", "robust_scale"]

FLOOR = 1e-4  # This is the smallest weight, as in Suykens et al. 2002, eq. 14.
NORMAL_QUARTILE = 0.6745
Scale = Annotated[str, one_of("iqr", "mad")]
Times = Annotated[int, integer("an integer from 1 to 1000000", 1, 10**6)]


class WeightFunction(BaseEstimator):
    """Base class of robust weight functions.

    Subclasses define `weight(r)` for the absolute values r >= 0 of residuals in units of the scale.
    """

    scale: str
    iterations: int

    def __call__(self, residuals: np.ndarray, sample_weight: np.ndarray | None = None) -> np.ndarray:
        """Return one weight per row of the residuals (rows, or rows x outputs)."""
        self.check()
        return self.from_scales(residuals, self.scales(residuals, sample_weight))

    def scales(self, residuals: np.ndarray, sample_weight: np.ndarray | None = None) -> np.ndarray:
        """Return the robust scale of each output; 0 if the residuals are rounding errors."""
        columns = np.asarray(residuals, dtype=float).reshape(len(residuals), -1)
        scales = np.array([robust_scale(column, self.scale, sample_weight) for column in columns.T])
        return np.where(scales > 1e-12 * np.max(np.abs(columns), axis=0, initial=0.0), scales, 0.0)

    def from_scales(self, residuals: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """Return one weight per row of the residuals, given the scale of each output.

        All outputs of a row share one weight, computed from the root mean square of their scaled residuals. A scale of
        0 (more than half of the residuals are equal) carries no information about outliers: all weights are then 1.
        """
        usable = scales > 0
        if not usable.any():
            return np.ones(len(residuals))
        columns = np.asarray(residuals, dtype=float).reshape(len(residuals), -1)
        return np.clip(self.weight(np.sqrt(np.mean((columns[:, usable] / scales[usable]) ** 2, axis=1))), FLOOR, 1.0)

    def weight(self, r: np.ndarray) -> np.ndarray:
        """Return the weight of a residual r >= 0 in units of the scale."""
        raise TypeError(f"{type(self).__name__} does not define weight(r).")

    def check(self) -> None:
        """Raise ValueError if a parameter is out of range."""
        check_parameters(self)


class Hampel(WeightFunction):
    r"""Hampel weights: 1 up to c1, decreasing linearly up to c2, then 1e-4 (Suykens et al. 2002, eq. 14).

    With the absolute residual r in units of the scale,

    .. math::

        v(r) = \begin{cases}
            1 & r \le c_1 \\
            (c_2 - r)/(c_2 - c_1) & c_1 < r \le c_2 \\
            10^{-4} & r > c_2
        \end{cases}

    All outputs (or classes) of a row share one weight, computed from the root mean square of their residuals, each in
    units of the scale of its output: with k outputs, an outlier in one of them keeps weight 1 up to
    :math:`\sqrt{k} \, c_1`.

    Parameters
    ----------
    c1, c2 : float
        Corners, in units of the scale.
    scale : {"iqr", "mad"}
        Interquartile range / (2 * 0.6745), or 1.483 times the median absolute deviation.
    iterations : int
        How often the weights are computed from the residuals and the problem is solved again.

    Examples
    --------
    >>> import numpy as np
    >>> from lssvm import LSSVR, datasets, kernels, robust
    >>> robust.Hampel().weight(np.array([1.0, 2.75, 10.0]))  # fit raises weights to at least 1e-4
    array([1. , 0.5, 0. ])
    >>> X, y = datasets.make_sinc(200, outliers=5, random_state=0)
    >>> int((LSSVR(kernels.RBF(), robust=robust.Hampel()).fit(X, y).weights_ < 1e-3).sum())
    5
    """

    def __init__(self, c1: Positive = 2.5, c2: Positive = 3.0, scale: Scale = "iqr", iterations: Times = 1) -> None:
        self.c1 = c1
        self.c2 = c2
        self.scale = scale
        self.iterations = iterations

    def check(self) -> None:
        super().check()
        if not self.c1 < self.c2:
            raise ValueError(f"Hampel: c1 must be below c2, got c1={self.c1!r} and c2={self.c2!r}.")

    def weight(self, r: np.ndarray) -> np.ndarray:
        return np.clip((self.c2 - r) / (self.c2 - self.c1), 0.0, 1.0)


class Huber(WeightFunction):
    r"""Huber weights: 1 up to c, then decreasing as 1/r.

    Several outputs share a weight, as in `Hampel`. With the absolute residual r in units of the scale,

    .. math:: v(r) = \min(1, c/r)

    Parameters
    ----------
    c : float
        Corner, in units of the scale; 1.345 gives 95 % efficiency for normal errors.
    scale, iterations
        As in `Hampel`.

    Examples
    --------
    >>> import numpy as np
    >>> from lssvm import robust
    >>> robust.Huber().weight(np.array([1.0, 2.69, 13.45]))
    array([1. , 0.5, 0.1])
    """

    def __init__(self, c: Positive = 1.345, scale: Scale = "iqr", iterations: Times = 1) -> None:
        self.c = c
        self.scale = scale
        self.iterations = iterations

    def weight(self, r: np.ndarray) -> np.ndarray:
        return self.c / np.maximum(r, self.c)


class Logistic(WeightFunction):
    r"""Logistic weights, which decrease smoothly from 1.

    Several outputs share a weight, as in `Hampel`. With the absolute residual r in units of the scale,

    .. math:: v(r) = \tanh(r)/r

    Parameters
    ----------
    scale, iterations
        As in `Hampel`.

    Examples
    --------
    >>> import numpy as np
    >>> from lssvm import robust
    >>> robust.Logistic().weight(np.array([0.1, 1.0, 10.0])).round(3)
    array([0.997, 0.762, 0.1  ])
    """

    def __init__(self, scale: Scale = "iqr", iterations: Times = 1) -> None:
        self.scale = scale
        self.iterations = iterations

    def weight(self, r: np.ndarray) -> np.ndarray:
        safe = np.where(r > 0, r, 1.0)
        return np.where(r > 0, np.tanh(safe) / safe, 1.0)


class Myriad(WeightFunction):
    r"""Myriad weights: those of Cauchy errors.

    Several outputs share a weight, as in `Hampel`. With the absolute residual r in units of the scale,

    .. math:: v(r) = \delta^2/(\delta^2 + r^2)

    Parameters
    ----------
    delta : float
        Residual, in units of the scale, at which the weight is 1/2.
    scale, iterations
        As in `Hampel`.

    Examples
    --------
    >>> import numpy as np
    >>> from lssvm import robust
    >>> robust.Myriad(delta=2.0).weight(np.array([0.0, 2.0, 6.0]))
    array([1. , 0.5, 0.1])
    """

    def __init__(self, delta: Positive = 1.0, scale: Scale = "iqr", iterations: Times = 1) -> None:
        self.delta = delta
        self.scale = scale
        self.iterations = iterations

    def weight(self, r: np.ndarray) -> np.ndarray:
        return self.delta**2 / (self.delta**2 + r**2)


def robust_scale(residuals: np.ndarray, method: str = "iqr", sample_weight: np.ndarray | None = None) -> float:
    """Return the robust standard deviation: IQR/(2 * 0.6745) or 1.483 MAD; integer weights act like copies of rows."""
    if method == "iqr":
        lower, upper = _quantile(residuals, (0.25, 0.75), sample_weight)
        return float(upper - lower) / (2 * NORMAL_QUARTILE)
    (median,) = _quantile(residuals, (0.5,), sample_weight)
    (mad,) = _quantile(np.abs(residuals - median), (0.5,), sample_weight)
    return 1.483 * float(mad)


def _quantile(values: np.ndarray, levels: tuple[float, ...], weights: np.ndarray | None) -> list[float]:
    """Return quantiles by linear interpolation between order statistics of a sample with weights_i copies of row i."""
    order = np.argsort(values, kind="stable")
    values = values[order]
    mass = np.ones(len(values)) if weights is None else weights[order]
    values, mass = values[mass > 0], mass[mass > 0]
    last = np.cumsum(mass)  # the copies of row j fill the positions up to last_j
    quantiles = []
    for level in levels:
        position = max(level * (last[-1] - 1.0), 0.0)
        low = np.floor(position + 1e-9)
        ends = np.searchsorted(last, [low + 1e-9, low + 1.0 + 1e-9], side="right")
        below, above = values[np.minimum(ends, len(values) - 1)]
        share = max(position - low, 0.0)
        quantiles.append(float(below + share * (above - below)))
    return quantiles


def as_weight_function(robust: Any) -> WeightFunction | None:
    """Return the weight function named "hampel", "huber", "logistic" or "myriad", the given one, or None."""
    if isinstance(robust, WeightFunction):
        robust.check()
    if robust is None or isinstance(robust, WeightFunction):
        return robust
    names = {"hampel": Hampel, "huber": Huber, "logistic": Logistic, "myriad": Myriad}
    if isinstance(robust, str) and robust in names:
        return names[robust]()
    remedy = f"give one of {sorted(names)}, a weight function of lssvm.robust, or None"
    raise ValueError(f"robust={shown(robust)} is not a weight function: {remedy}.")
