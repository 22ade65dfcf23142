"""The losses of classes, counts and positive targets, and of leave-one-out values by which models are compared."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import entr

from . import arrays
from .arrays import EPS, Array, NumericalError

FAR = 700.0  # Margins are clipped here, because exp would overflow.
FLOOR = 1e-6  # The logistic loss of misclassified rows has at least this curvature, so that their steps are finite.
LEAST = 1e-100  # For other rows it has at least this curvature, whose square is still positive.
MARGIN = 1e6  # Decision values of classes, normally about +-1, are clipped here, so that squares stay finite.
SLOPE_STEPS = 30  # The search for the slope of a log loss takes at most this many steps.
TINY = 1e-300
SLOPE_ACCURACY = 1e-6  # This is relative; the error of the loss is of the order of its square.


class Loss:
    """A loss as a function of the margin m = t f, t = -1 or +1: its value, slope -d/dm and curvature d^2/dm^2.

    `third` is the derivative of the logarithm of the curvature, `dual` the smallest value of loss(m) + share m,
    which yields a lower bound on the minimum of a problem. Unless a subclass overrides it, `value` is half the squared
    slope.
    """

    is_quadratic = False  # one step of Newton's method suffices
    is_smooth = True  # the curvature changes continuously
    is_of_classes = True  # else the loss has targets of its own, and its margins are the values f
    # an increasing function of targets or means, on whose scale targets of equal weight have equal variances
    stabilised = staticmethod(lambda y: y)
    restored = staticmethod(lambda values: values)  # its inverse; 0 for values below its range

    def value(self, margin: Array) -> Array:
        return 0.5 * self.slope(margin) ** 2

    def slope(self, margin: Array) -> Array:
        raise NotImplementedError

    def curvature(self, margin: Array) -> Array:
        raise NotImplementedError

    def third(self, margin: Array) -> Array:
        return 0.0 * margin

    def dual(self, share: np.ndarray) -> np.ndarray:
        return share - 0.5 * share**2


class Squared(Loss):
    """1/2 (1 - m)^2, the loss of the LS-SVM."""

    is_quadratic = True

    def slope(self, margin: Array) -> Array:
        return 1.0 - margin

    def curvature(self, margin: Array) -> Array:
        return 0.0 * margin + 1.0


class SquaredHinge(Loss):
    """1/2 max(0, 1 - m)^2: rows beyond the margin cost nothing."""

    is_smooth = False

    def slope(self, margin: Array) -> Array:
        return arrays.namespace(margin).clip(1.0 - margin, 0.0, None)

    def curvature(self, margin: Array) -> Array:
        return arrays.namespace(margin).where(margin < 1.0, 1.0 + 0.0 * margin, 0.0 * margin)

    def dual(self, share: np.ndarray) -> np.ndarray:
        return super().dual(np.maximum(share, 0.0))  # negative by rounding errors


class Logistic(Loss):
    """log(1 + exp(-m)), the loss of (kernel) logistic regression."""

    def value(self, margin: Array) -> Array:
        xp = arrays.namespace(margin)
        return xp.clip(-margin, 0.0, None) + xp.log1p(xp.exp(-xp.abs(margin)))

    def slope(self, margin: Array) -> Array:
        xp = arrays.namespace(margin)
        return 1.0 / (1.0 + xp.exp(xp.clip(margin, None, FAR)))

    def curvature(self, margin: Array) -> Array:
        """Return p (1 - p) with a floor, on which the fixed point of Newton's method does not depend.

        A step adds slope/curvature to the margin of a row: up to 2 for rows on the right side of the boundary, where a
        floor would end the steps far from the minimum, but exp(-m) for the others.
        """
        xp, slope = arrays.namespace(margin), self.slope(margin)
        curvature = slope * (1.0 - slope)
        return xp.where(margin < 0, xp.clip(curvature, FLOOR, None), xp.clip(curvature, LEAST, None))

    def third(self, margin: Array) -> Array:
        slope = self.slope(margin)
        above = slope * (1.0 - slope) >= self.curvature(margin)  # the floor
        return arrays.namespace(margin).where(above, 2.0 * slope - 1.0, 0.0 * margin)

    def dual(self, share: np.ndarray) -> np.ndarray:
        share = np.clip(share, 0.0, 1.0)  # beyond by rounding errors
        return entr(share) + entr(1.0 - share)


LOSSES: dict[str, Loss] = {"squared": Squared(), "squared_hinge": SquaredHinge(), "logistic": Logistic()}


class LogLink(Loss):
    """Half the unit deviance of targets y >= 0 with means m = exp(f) and variances proportional to m^power.

    For targets y/u, the loss is u^(power - 2) times as large. `stabilised` targets have the variance 1.
    """

    is_of_classes = False
    power: float

    def __init__(self, y: Array) -> None:
        self.y = y
        self.size = y ** (2.0 - self.power)
        self.sign = 3.0 - 2.0 * self.power

    def value(self, margin: Array) -> Array:
        xp, positive = arrays.namespace(margin), self.y > 0
        ratio = self.sign * (margin - xp.log(xp.where(positive, self.y, 0.0 * self.y + 1.0)))
        return xp.where(positive, self.size * (xp.expm1(xp.clip(ratio, None, FAR)) - ratio), self._mean(margin))

    def slope(self, margin: Array) -> Array:
        mean = self._mean(margin)
        return (self.y - mean) * mean ** (1.0 - self.power)

    def curvature(self, margin: Array) -> Array:
        """Return m or, with the power 2, y/m, with a floor where a step would be far too long: see `Logistic`."""
        curvature = self.y ** (self.power - 1.0) * self._mean(margin) ** self.sign
        return arrays.namespace(margin).maximum(curvature, FLOOR * self.size + LEAST)

    def third(self, margin: Array) -> Array:
        above = self.curvature(margin) > FLOOR * self.size + LEAST
        return arrays.namespace(margin).where(above, self.sign + 0.0 * margin, 0.0 * margin)

    @staticmethod
    def _mean(margin: Array) -> Array:
        return arrays.namespace(margin).exp(arrays.namespace(margin).clip(margin, -FAR, FAR))


class Poisson(LogLink):
    """exp(f) - y f plus a constant, for counts, or for rates weighted by their exposure."""

    power = 1.0

    stabilised = staticmethod(lambda y: 2.0 * y**0.5)
    restored = staticmethod(lambda values: 0.25 * np.maximum(values, 0.0) ** 2)


class Gamma(LogLink):
    """f + y exp(-f) plus a constant, for positive targets whose standard deviation is proportional to their mean."""

    power = 2.0

    stabilised = staticmethod(lambda y: arrays.namespace(y).log(y))
    restored = staticmethod(lambda values: np.exp(values))


LOG_LINKS: dict[str, type[LogLink]] = {"poisson": Poisson, "gamma": Gamma}
NUMBER_LOSSES = ("squared", *LOG_LINKS)  # These are the losses of regression.


def log_press(e: Array, complement: Array, *_: Array) -> tuple[float, Array, Array]:
    """Return log PRESS, PRESS = sum (e/(1 - h))^2, of scaled residuals e (l, k), and its derivatives in e and h."""
    xp = arrays.namespace(e)
    r = e / complement
    press = float(xp.sum(r * r))
    if not press > 0:
        raise NumericalError("All leave-one-out residuals are 0: they cannot be used to choose parameters.")
    a = 2.0 * r / (press * complement)
    return math.log(press), a, xp.sum(a * r, axis=1)[:, None]


def log_deviance(e: Array, complement: Array, targets: Array, weights: Array) -> tuple[float, Array, Array]:
    """Return the log of the mean `log_loss` of classes, and its derivatives; e and complement are as in `log_press`."""
    xp = arrays.namespace(e)
    r = e / complement
    w, one = xp.sqrt(weights)[:, None], 0.0 * targets + 1.0
    t = xp.where(targets > 0, one, -one)
    loss, slope = log_loss((t - r / w)[:, None, :], t, weights)
    a = -slope[:, 0, :] / (float(loss[0]) * w * complement)
    return math.log(float(loss[0])), a, xp.sum(a * r, axis=1)[:, None]


def log_loss(f: Array, targets: Array, weights: Array) -> tuple[Array, Array]:
    """Return the mean log loss (c,) of decision values f (l, c, k) of c models for targets +-1, and its slope in f.

    P(t = 1) = 1/(1 + exp(-slope f)), with the slope of the smallest loss for each model. The loss thus does not depend
    on the scale of the values, and by the envelope theorem the slope does not contribute to the derivative. Several
    columns are separate binary problems with one slope; their loss is halved, because a misclassified row is wrong in
    two columns. As in Platt (1999), the target probability of a class of n rows is (n + 1)/(n + 2), so that the slope
    of separable classes is finite.
    """
    xp, logistic = arrays.namespace(f), LOSSES["logistic"]
    v = weights[:, None] * (f.shape[0] / float(xp.sum(weights)))  # mean 1: their scale does not affect the targets
    positive = xp.sum(xp.where(targets > 0, v, 0.0 * targets), axis=0)[None, :]
    count = xp.where(targets > 0, positive, f.shape[0] - positive)
    miss, v = (1.0 / (count + 2.0))[:, None, :], v[:, :, None]
    margin = targets[:, None, :] * f
    lowest = 0.0 * targets[:, None, :] - MARGIN  # also for NaN
    margin = xp.where(margin > -MARGIN, xp.clip(margin, None, MARGIN), lowest)
    weighted = v * margin
    total = lambda values: xp.sum(values, axis=(0, 2))[None, :, None]  # noqa: E731
    slope = 3.0 / (xp.sqrt(total(weighted * margin) / total(v + 0.0 * margin)) + EPS)
    low, high = slope / 1e6, slope * 1e6
    for _ in range(SLOPE_STEPS):  # Newton's method, safeguarded by a bracket: the first derivative rises with the slope
        wrong = logistic.slope(slope * margin)
        first, second = total(weighted * (miss - wrong)), total(weighted * margin * wrong * (1.0 - wrong))
        low, high = xp.where(first < 0, slope, low), xp.where(first > 0, slope, high)
        step = slope - first / (second + TINY)
        step = xp.where((step > low) & (step < high), step, xp.sqrt(low * high))
        slope, change = step, float(xp.max(xp.abs(step - slope) / slope))
        if change < SLOPE_ACCURACY:
            break
    z, size = slope * margin, f.shape[0] * (1.0 if f.shape[2] == 1 else 2.0)
    loss = total(v * (logistic.value(z) + miss * z))[0, :, 0] / size
    return loss, v * (miss - logistic.slope(z)) * slope * targets[:, None, :] / size
