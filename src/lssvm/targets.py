"""Targets on another scale: logarithms, powers (Box & Cox 1964) or a transformer of scikit-learn."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import scipy
from scipy.special import boxcox, inv_boxcox
from sklearn.base import clone

from .rules import TINY, one_of, values

NAMES = ("log", "power")
EXPONENTS = (0.0, 2.0)  # from the logarithm; the maps of smaller ones are bounded
UNITS = (0.0, 0.05, 0.25, 0.5)  # These quantiles of the distances from the origin are tried as units.
ROUNDING = 1e-12  # Smaller distances, relative to the largest one, count as 0.
LEVELS = (np.arange(20) + 0.5) / 20  # of the quantiles of residuals that stand for all of them in a mean
BEYOND = 0.5  # predictions exceed the range of the training targets by at most this share of it


@dataclass(frozen=True, eq=False)
class TargetScale:
    """An increasing map z = T(y) of each output, such that z has mean 0 and standard deviation 1, and its inverse.

    T is (u^a - 1)/a of u = (y - origin)/unit (Box & Cox; log u for a = 0). The unit of skewed targets has the sign of
    the skewness. With the `quantiles` q of the leave-one-out residuals of a model f of z, the mean of y is that of
    T^-1(f(x) + q) ("smearing", Duan 1983).
    """

    name: Annotated[str, one_of(*NAMES, "transformer")]
    exponents: Annotated[np.ndarray, values("outputs", low=EXPONENTS[0], high=EXPONENTS[1])]
    origin: Annotated[np.ndarray, values("outputs")]
    unit: Annotated[np.ndarray, values("outputs")]
    centre: Annotated[np.ndarray, values("outputs")]
    spread: Annotated[np.ndarray, values("outputs")]  # has the sign of the unit
    low: Annotated[np.ndarray, values("outputs")]  # bounds of predictions
    high: Annotated[np.ndarray, values("outputs")]
    quantiles: Annotated[np.ndarray, values("quantiles", "outputs")] | None = None

    def forward(self, y: np.ndarray) -> np.ndarray:
        """z = T(y), (..., outputs)."""
        return (self._raised(y) - self.centre) / self.spread

    def _raised(self, y: np.ndarray) -> np.ndarray:
        u = (y - self.origin) / self.unit
        return boxcox(np.maximum(u, TINY), self.exponents)  # rows of weight 0 may have other targets

    def inverse(self, z: np.ndarray) -> np.ndarray:
        """y = T^-1(z); the origin below all values of T."""
        z, a = self.centre + self.spread * z, self.exponents
        with np.errstate(divide="ignore", over="ignore"):
            return self.origin + self.unit * inv_boxcox(np.maximum(z, np.where(a > 0.0, -1.0 / a, -np.inf)), a)

    def bounded(self, y: np.ndarray) -> np.ndarray:
        """Return predictions within their bounds."""
        return np.clip(y, self.low, self.high)

    def mean(self, f: np.ndarray) -> np.ndarray:
        """Return the mean of y for predictions f of z, (..., outputs)."""
        assert self.quantiles is not None
        total = np.zeros(np.shape(f))
        for q in self.quantiles:
            total += self.bounded(self.inverse(f + q))
        return total / len(self.quantiles)

    def ends(self, z: np.ndarray) -> np.ndarray:
        """Return the ends of intervals of y from those of z, which may be infinite."""
        found = np.where(np.isinf(z), z, self.bounded(self.inverse(np.where(np.isinf(z), 0.0, z))))
        return np.where(self.low >= 0.0, np.maximum(found, 0.0), found)

    def smeared(self, residuals: np.ndarray, weights: np.ndarray) -> TargetScale:
        """Return the same with the quantiles of leave-one-out residuals (rows, outputs)."""
        rows = weights > 0.0
        found = np.quantile(residuals[rows], LEVELS, axis=0, weights=weights[rows], method="inverted_cdf")
        return replace(self, quantiles=found)

    def likelihood(self, y: np.ndarray) -> float:
        """Return the log likelihood of targets (rows, 1) if z is normal, up to a constant."""
        slopes = (self.exponents - 1.0) * np.log((y - self.origin) / self.unit)
        return float(np.sum(slopes - np.log(self.unit * self.spread)))


@dataclass(frozen=True, eq=False)
class TransformedTargets(TargetScale):
    """The map of a fitted transformer of scikit-learn, which model files and exports cannot hold."""

    transformer: Any = None

    def _raised(self, y: np.ndarray) -> np.ndarray:
        return np.asarray(self.transformer.transform(y.reshape(-1, y.shape[-1])), float).reshape(y.shape)

    def inverse(self, z: np.ndarray) -> np.ndarray:
        z = self.centre + self.spread * z
        return np.asarray(self.transformer.inverse_transform(z.reshape(-1, z.shape[-1])), float).reshape(z.shape)


def target_scale(target: Any, y: np.ndarray, rows: np.ndarray) -> TargetScale:
    """Return the scale "log" or "power", or that of a transformer, from `rows` of the targets (all rows, outputs)."""
    name, y = target if isinstance(target, str) else "transformer", y[rows]
    least, nothing = y.min(axis=0), np.zeros(y.shape[1])
    if name == "log" and not (least > 0.0).all():
        raise ValueError(f"target='log' needs positive targets, but y contains {least.min():.6g}: use target='power'.")
    unit = np.maximum(np.mean(np.abs(y), axis=0), TINY)
    scale = TargetScale(name, nothing, nothing, unit, nothing, nothing + 1.0, least, np.max(y, axis=0))
    if name == "transformer":
        scale = TransformedTargets(**vars(scale), transformer=clone(target).fit(y))
    elif name == "power":
        found = np.array([_likeliest(y[:, [output]]) for output in range(y.shape[1])]).T
        scale = replace(scale, exponents=found[0], origin=found[1], unit=found[2])
    scale = _standardised(scale, y)
    z = np.take_along_axis(scale.forward(y), np.argsort(y, axis=0), axis=0)
    if not (np.isfinite(z).all() and (np.diff(z, axis=0) >= 0.0).all()):
        raise ValueError(f"target={target!r} must map y to finite numbers in the same order: use target='power'.")
    more, reach = BEYOND * (z[-1] - z[0]), BEYOND * np.ptp(y, axis=0)
    above_0 = (least >= 0.0) & (scale.unit > 0.0)
    low = np.maximum(scale.inverse(z[0] - more), np.where(above_0, 0.0, least - reach))
    return replace(scale, low=low, high=np.minimum(scale.inverse(z[-1] + more), scale.high + reach))


def _standardised(scale: TargetScale, y: np.ndarray) -> TargetScale:
    """Return the scale with z of mean 0 and standard deviation 1."""
    z = scale.forward(y)
    spread = z.std(axis=0)
    return replace(scale, centre=z.mean(axis=0), spread=np.where(spread > 0.0, spread, 1.0) * np.sign(scale.unit))


def _likeliest(y: np.ndarray) -> tuple[float, float, float]:
    """Return the exponent, origin and unit of one output with the largest likelihood.

    The exponent has two digits: the last ones may be rounding errors.
    """
    one, best = np.ones(1), (math.inf, 1.0, 0.0, 1.0)
    for end, sign in ((float(y.min()), 1.0), (float(y.max()), -1.0)):
        sizes = np.abs(y - end)
        sizes = sizes[sizes > ROUNDING * sizes.max()]
        for unit in sign * np.quantile(sizes, UNITS) if len(sizes) else ():
            scale = TargetScale("power", one, (end - unit) * one, unit * one, 0.0 * one, one, y[0], y[0])

            def loss(exponent: float, scale: TargetScale = scale) -> float:
                return -_standardised(replace(scale, exponents=np.array([exponent])), y).likelihood(y)

            found = scipy.optimize.minimize_scalar(loss, bounds=EXPONENTS, method="bounded")
            best = min(best, (float(found.fun), round(float(found.x), 2), end - float(unit), float(unit)))
    return best[1:]
