"""Targets on another scale: logarithms, powers (Box & Cox 1964, Yeo & Johnson 2000) or a scikit-learn transformer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import scipy
from scipy.special import boxcox, inv_boxcox
from sklearn.base import clone

from .rules import TINY, Flag, one_of, values

NAMES = ("log", "power")
EXPONENTS = (0.0, 2.0)  # from the logarithm; the maps of smaller ones are bounded
LEVELS = (np.arange(20) + 0.5) / 20  # of the quantiles of residuals that stand for all of them in a mean
BEYOND = 0.5  # predictions exceed the range of the training targets by at most this share of it


@dataclass(frozen=True, eq=False)
class TargetScale:
    """An increasing map z = T(y) of each output, such that z has mean 0 and standard deviation 1, and its inverse.

    T is (u^a - 1)/a of u = y/unit (Box & Cox; log u for a = 0) or, if `signed`, that of u + 1 for u >= 0, and that of
    1 - u with 2 - a and the opposite sign for u < 0 (Yeo & Johnson). With the `quantiles` q of the leave-one-out
    residuals of a model f of z, the mean of y is that of T^-1(f(x) + q) ("smearing", Duan 1983).
    """

    name: Annotated[str, one_of(*NAMES, "transformer")]
    signed: Flag
    exponents: Annotated[np.ndarray, values("outputs", low=EXPONENTS[0], high=EXPONENTS[1])]
    unit: Annotated[np.ndarray, values("outputs", low=TINY)]
    centre: Annotated[np.ndarray, values("outputs")]
    spread: Annotated[np.ndarray, values("outputs", low=TINY)]
    low: Annotated[np.ndarray, values("outputs")]  # bounds of predictions
    high: Annotated[np.ndarray, values("outputs")]
    quantiles: Annotated[np.ndarray, values("quantiles", "outputs")] | None = None

    def forward(self, y: np.ndarray) -> np.ndarray:
        """z = T(y), (..., outputs)."""
        return (self._raised(y) - self.centre) / self.spread

    def _raised(self, y: np.ndarray) -> np.ndarray:
        u = y / self.unit
        if not self.signed:
            return boxcox(u, self.exponents)
        return np.sign(u) * boxcox(1.0 + np.abs(u), np.where(u < 0.0, 2.0 - self.exponents, self.exponents))

    def inverse(self, z: np.ndarray) -> np.ndarray:
        """y = T^-1(z); 0 below all values of T."""
        z, a = self.centre + self.spread * z, self.exponents
        with np.errstate(divide="ignore", over="ignore"):
            if self.signed:
                return self.unit * np.sign(z) * (inv_boxcox(np.abs(z), np.where(z < 0.0, 2.0 - a, a)) - 1.0)
            return self.unit * inv_boxcox(np.maximum(z, np.where(a > 0.0, -1.0 / a, -np.inf)), a)

    def bounded(self, y: np.ndarray) -> np.ndarray:
        """Predictions within their bounds."""
        return np.clip(y, self.low, self.high)

    def mean(self, f: np.ndarray) -> np.ndarray:
        """The mean of y for predictions f of z, (..., outputs)."""
        assert self.quantiles is not None
        total = np.zeros(np.shape(f))
        for q in self.quantiles:
            total += self.bounded(self.inverse(f + q))
        return total / len(self.quantiles)

    def ends(self, z: np.ndarray) -> np.ndarray:
        """Ends of intervals of y from those of z, which may be infinite."""
        found = np.where(np.isinf(z), z, self.bounded(self.inverse(np.where(np.isinf(z), 0.0, z))))
        return np.where(self.low >= 0.0, np.maximum(found, 0.0), found)

    def smeared(self, residuals: np.ndarray, weights: np.ndarray) -> TargetScale:
        """The same with the quantiles of leave-one-out residuals (rows, outputs)."""
        rows = weights > 0.0
        found = np.quantile(residuals[rows], LEVELS, axis=0, weights=weights[rows], method="inverted_cdf")
        return replace(self, quantiles=found)

    def likelihood(self, y: np.ndarray) -> float:
        """The log likelihood of targets (rows, 1) if z is normal, up to a constant."""
        u = y / self.unit
        slopes = (self.exponents - 1.0) * (np.sign(u) * np.log1p(np.abs(u)) if self.signed else np.log(u))
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
    """The scale "log" or "power", or that of a transformer, from `rows` of the targets (all rows, outputs)."""
    name, least = target if isinstance(target, str) else "transformer", y.min(axis=0)
    if name == "log" and not (least > 0.0).all():
        raise ValueError(f"target='log' needs positive targets, but y contains {least.min():.6g}: use target='power'.")
    signed, y, nothing = name == "power" and not bool((least > 0.0).all()), y[rows], np.zeros(y.shape[1])
    unit = np.maximum(np.mean(np.abs(y), axis=0), TINY)
    scale = TargetScale(name, signed, nothing, unit, nothing, nothing + 1.0, least, np.max(y, axis=0))
    if name == "transformer":
        scale = TransformedTargets(**vars(scale), transformer=clone(target).fit(y))
    elif name == "power":
        scale = replace(scale, exponents=np.array([_exponent(scale, y, output) for output in range(y.shape[1])]))
    scale = _standardised(scale, y)
    z = np.take_along_axis(scale.forward(y), np.argsort(y, axis=0), axis=0)
    if not (np.isfinite(z).all() and (np.diff(z, axis=0) >= 0.0).all()):
        raise ValueError(f"target={target!r} must map y to finite numbers in the same order: use target='power'.")
    more, reach = BEYOND * (z[-1] - z[0]), BEYOND * np.ptp(y, axis=0)
    low = np.maximum(scale.inverse(z[0] - more), np.where(least >= 0.0, 0.0, least - reach))
    return replace(scale, low=low, high=np.minimum(scale.inverse(z[-1] + more), scale.high + reach))


def _standardised(scale: TargetScale, y: np.ndarray) -> TargetScale:
    """The scale with z of mean 0 and standard deviation 1."""
    z = scale.forward(y)
    spread = z.std(axis=0)
    return replace(scale, centre=z.mean(axis=0), spread=np.where(spread > 0.0, spread, 1.0))


def _exponent(scale: TargetScale, y: np.ndarray, output: int) -> float:
    """The exponent of one output with the largest likelihood, to two digits: the last ones may be rounding errors."""
    one, y = replace(scale, unit=scale.unit[[output]]), y[:, [output]]

    def loss(exponent: float) -> float:
        return -_standardised(replace(one, exponents=np.array([exponent])), y).likelihood(y)

    if np.ptp(y) == 0.0:
        return 1.0
    return round(float(scipy.optimize.minimize_scalar(loss, bounds=EXPONENTS, method="bounded").x), 2)
