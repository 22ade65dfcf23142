"""Kernels of finite rank: Linear, Polynomial, and smoothing splines with a small number of knots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Annotated, Any

import numpy as np

from .. import arrays
from ..arrays import Array, ArrayLike
from ..progress import counted
from ..rules import LARGEST, Rule, integer, numbers
from .base import Kernel

MOST_KNOTS = 10_000  # Every prediction takes work proportional to the third power of the number of knots.
Degree = Annotated[int, integer("a positive integer", 1, 2**31)]
Constant = Annotated[
    float,
    Rule("a finite, non-negative number", lambda value: isinstance(value, Real) and 0 <= value <= LARGEST),
]
KNOTS = numbers("an array of finite knots", 1, 2, most=MOST_KNOTS)
Knots = Annotated[ArrayLike, integer(f"an integer from 2 to {MOST_KNOTS}", 2, MOST_KNOTS) | KNOTS]


SCALE = numbers("an array of positive numbers, one per column (inf drops a column)", 1, above=0.0, finite=False)
Scale = Annotated[ArrayLike, SCALE]


class Linear(Kernel):
    """Linear kernel, :math:`k(x, z) = x'z`. With the unpenalised bias, the model is ridge regression.

    Parameters
    ----------
    scale : array (n_features,) or None
        Each column of x and z is divided by its scale; infinity drops a column. None: the columns as they are.

    Examples
    --------
    >>> import numpy as np
    >>> from lssvm import kernels
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0]])
    >>> kernels.Linear()(X)
    array([[ 1.,  3.],
           [ 3., 13.]])
    """

    scale: Any = None  # of subclasses that do not call __init__

    def __init__(self, scale: Scale | None = None) -> None:
        self.scale = scale

    has_finite_rank = True
    separates = "sum"

    def check(self, n_features: int) -> None:
        super().check(n_features)
        if self.scale is not None and len(self.scale) != n_features:
            found = f"scale has {counted(len(self.scale), 'value')}, but X has {counted(n_features, 'column')}"
            raise ValueError(f"Linear: {found}: give one value per column.")

    def restriction(self, group: Sequence[int]) -> Mapping[str, Any]:
        return {} if self.scale is None else {"scale": np.asarray(arrays.to_numpy(self.scale))[list(group)]}

    def spanning_points(self, n_features: int) -> np.ndarray:
        scale = np.ones(n_features) if self.scale is None else np.asarray(self.scale, dtype=float)
        return np.diag(np.where(np.isfinite(scale), scale, 1.0))  # whose kernel values do not depend on the scale

    def _scaled(self, X: Array) -> Array:
        return X if self.scale is None else X / arrays.like(np.asarray(self.scale, dtype=float), X)[None, :]

    @np.errstate(over="ignore", invalid="ignore")
    def evaluate(self, X: Array, Z: Array) -> Array:
        return arrays.matmul(self._scaled(X), self._scaled(Z).T)

    @np.errstate(over="ignore", invalid="ignore")
    def diagonal(self, X: Array) -> Array:
        return arrays.row_squares(self._scaled(X))

    @np.errstate(over="ignore", invalid="ignore")
    def point_gradient(self, X: Array, Z: Array, G: Array) -> Array:
        return self._scaled(self._scaled(G.T @ X))


class Polynomial(Kernel):
    r"""Polynomial kernel, :math:`k(x, z) = (x'z + \mathrm{coef0})^\mathrm{degree}`.

    Parameters
    ----------
    degree : int
        Degree, at least 1.
    coef0 : float
        Non-negative constant; 0 gives the homogeneous kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from lssvm import kernels
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0]])
    >>> kernels.Polynomial(degree=2)(X)
    array([[  4.,  16.],
           [ 16., 196.]])
    """

    def __init__(self, degree: Degree = 3, coef0: Constant = 1.0) -> None:
        self.degree = degree
        self.coef0 = coef0

    has_finite_rank = True

    @np.errstate(over="ignore", invalid="ignore")
    def evaluate(self, X: Array, Z: Array) -> Array:
        return (arrays.matmul(X, Z.T) + float(self.coef0)) ** int(self.degree)

    @np.errstate(over="ignore", invalid="ignore")
    def diagonal(self, X: Array) -> Array:
        return (arrays.namespace(X).sum(X * X, axis=1) + self.coef0) ** self.degree

    @np.errstate(over="ignore", invalid="ignore")
    def point_gradient(self, X: Array, Z: Array, G: Array) -> Array:
        degree = int(self.degree)
        return degree * (G * (X @ Z.T + float(self.coef0)) ** (degree - 1)).T @ X


class Spline(Kernel):
    r"""Smoothing splines with a small number of knots, summed over the columns: a kernel of finite rank.

    For one column, scaled so that its knots :math:`t_j` span [0, 1], the functions are

    .. math::

        f(x) = \sum_j c_j k_0(x, t_j), \qquad
        k_0(u, v) = (u - \frac{1}{2})(v - \frac{1}{2}) + \int_0^1 (u - s)_+ (v - s)_+ \, ds

    with the norm of :math:`k_0`, which is that of a smoothing spline: the integral of the squares of the second
    derivative and of the slope. In addition, :math:`k_0` is centred: every function has mean 0 over [0, 1]. This
    introduces a quartic term, so that a straight line is represented only approximately, more closely with more knots.
    Beyond the outer knots, the functions are straight lines. The rank is the number of knots, so that
    `sparsify.Components` finds exact zeros.

    Parameters
    ----------
    knots : int, array (n_knots,) or (n_knots, n_features), or None
        An integer is a number of knots, which `fit` places at quantiles of each column's distinct values, including
        the smallest and the largest. None: 3 to 6 knots, few enough for the components of an additive model to be
        linearly independent. An array holds the knots themselves, common to all columns or one column of knots per
        column of X.

    Examples
    --------
    >>> import numpy as np
    >>> from lssvm import LSSVR, kernels
    >>> x = np.linspace(0.0, 3.0, 50)[:, None]
    >>> model = LSSVR(kernels.Spline(5), C=1e4).fit(x, np.sin(x[:, 0]))
    >>> model.predict([[4.0], [5.0], [6.0]]).round(2)  # straight beyond the outer knots
    array([-0.83, -1.81, -2.78])
    """

    def __init__(self, knots: Knots | None = None) -> None:
        self.knots: Any = knots

    has_finite_rank = True
    separates = "sum"

    def spanning_points(self, n_features: int) -> np.ndarray:
        """Return all knots of every column, with the other columns fixed between two knots: each adds one dimension."""
        knots = self._by_column(n_features)
        points = np.tile((knots[0] + knots[1]) / 2.0, (len(knots), n_features, 1))
        points[:, np.arange(n_features), np.arange(n_features)] = knots
        return points.reshape(-1, n_features)

    def placement(self, X: Array) -> Mapping[str, Any]:
        if np.ndim(self.knots) > 0:
            return {}
        values, count = arrays.to_numpy(X), self.knots
        if count is None:
            count = int(np.clip(0.8 * values.shape[0] // values.shape[1], 3, 6))
        shares = np.linspace(0.0, 1.0, int(count))
        return {"knots": np.column_stack([np.quantile(np.unique(column), shares) for column in values.T])}

    def restriction(self, group: Sequence[int]) -> Mapping[str, Any]:
        if np.ndim(self.knots) != 2:
            return {}
        return {"knots": np.asarray(arrays.to_numpy(self.knots))[:, list(group)]}

    def check(self, n_features: int) -> None:
        self._by_column(n_features)

    def _by_column(self, n_features: int) -> np.ndarray:
        """Return the sorted knots, one column per column of X."""
        if np.ndim(self.knots) == 0:
            remedy = "give an array of knots, or fit a model, which places them"
            raise ValueError(f"Spline(knots={self.knots!r}) has no knots yet: {remedy}.")
        knots = np.sort(np.asarray(arrays.to_numpy(self.knots), dtype=float), axis=0)
        knots = np.broadcast_to(knots[:, None], (len(knots), n_features)) if knots.ndim == 1 else knots
        if knots.ndim != 2 or knots.shape[1] != n_features or len(knots) < 2 or not np.isfinite(knots).all():
            remedy = "give at least 2 finite knots, either common to all columns or one column of knots per column of X"
            raise ValueError(f"Spline: knots has shape {np.shape(self.knots)}: {remedy} ({n_features}).")
        return knots

    @np.errstate(over="ignore", invalid="ignore")
    def features(self, X: Array) -> Array:
        """Return features whose inner products are the kernel: one per knot, for one column of X after another."""
        xp, knots = arrays.namespace(X), self._by_column(X.shape[1])
        span = np.where(knots[-1] > knots[0], knots[-1] - knots[0], 1.0)
        places = ((knots - knots[0]) / span).T
        start, span, places, factors = (arrays.like(a, X) for a in (knots[0], span, places, spline_factors(places)))
        blocks = []
        for rows in arrays.row_blocks(X.shape[0], 64 * knots.size, X):
            K = spline_kernel(((X[rows, :] - start[None, :]) / span[None, :]).T, places)
            blocks.append(xp.reshape(xp.permute_dims(K @ factors, (1, 0, 2)), (-1, knots.size)))
        return xp.concat(blocks, axis=0)

    @np.errstate(over="ignore", invalid="ignore")
    def evaluate(self, X: Array, Z: Array) -> Array:
        features = self.features(X)
        return features @ (features if X is Z else self.features(Z)).T

    @np.errstate(over="ignore", invalid="ignore")
    def diagonal(self, X: Array) -> Array:
        features = self.features(X)
        return arrays.namespace(X).sum(features * features, axis=1)


def spline_factors(places: np.ndarray) -> np.ndarray:
    """Return matrices (columns, knots, knots) that turn kernel values between x and a column's knots into features.

    Dependent knots give features that are 0.
    """
    values, vectors = np.linalg.eigh(spline_kernel(places, places))
    kept = values > 1e-10 * values[:, -1:]
    return np.where(kept, 1.0 / np.sqrt(np.where(kept, values, 1.0)), 0.0)[:, None, :] * vectors


def spline_kernel(u: Array, v: Array) -> Array:
    """Return (u - 1/2)(v - 1/2) plus the integral over s in [0, 1] of (u - s)+ (v - s)+, centred over [0, 1].

    The points u (columns, m) and v (columns, n) give (columns, m, n).
    """
    xp = arrays.namespace(u, v)

    def mean(x: Array) -> Array:  # mean of the integral over the other argument; linear outside [0, 1]
        a = xp.clip(x, 0.0, 1.0)
        return a * a * (6.0 - 4.0 * a + a * a) / 24.0 + xp.where(x > 1.0, (x - 1.0) / 6.0, 0.0 * x)

    u, v = u[:, :, None], v[:, None, :]
    product, total = u * v, u + v
    low = xp.minimum(u + 0.0 * product, v + 0.0 * product)
    a = xp.clip(low, 0.0, 1.0)
    K = a * (product - a * (total / 2.0 - a / 3.0))
    return K - mean(u) - mean(v) + 0.05 + product - 0.5 * total + 0.25
