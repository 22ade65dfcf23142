"""Kernels: what the user writes, `kernel(X, Z)`, and the derivatives that tuning needs.

A kernel is a scikit-learn estimator with a plain constructor, so `clone`, `repr` and `kernel__sigma` in a grid search
work. ``sigma=None`` means "chosen for you": `Kernel.with_width` fills it in, in units of each column's spread.

A new kernel is one class with `evaluate` and `diagonal`; one with a width adds `gradient`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from . import _xp
from ._xp import Array

__all__ = [
    "RBF",
    "Additive",
    "Choice",
    "Function",
    "Kernel",
    "Linear",
    "Matern",
    "Polynomial",
    "Precomputed",
    "Product",
    "Spline",
    "Sum",
    "as_kernel",
]


class Kernel(BaseEstimator):
    """Base class of all kernels.

    Subclasses define ``evaluate(X, Z)`` (rows of X times rows of Z, a new float64 matrix) and ``diagonal(X)``.
    """

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        """The kernel matrix, rows of X against rows of Z (of X when Z is None)."""
        return self.evaluate(X, X if Z is None else Z)

    def evaluate(self, X: Array, Z: Array) -> Array:
        """The kernel matrix in one piece."""
        raise TypeError(f"{type(self).__name__} does not define evaluate(X, Z).")

    def diagonal(self, X: Array) -> Array:
        """k(x, x) for every row."""
        raise TypeError(f"{type(self).__name__} does not define diagonal(X).")

    def fill(self, out: Array, X: Array, Z: Array) -> Array:
        """Write the kernel matrix into `out`, in blocks of rows that stay within the working memory."""
        for rows in _xp.row_blocks(X.shape[0], 8 * Z.shape[0], X):
            out[rows, :] = self.evaluate(X[rows, :], Z)
        return out

    def fill_symmetric(self, out: Array, X: Array, Z: Array) -> Array:
        """As `fill`, where Z are the points of the rows X: half of the values will do."""
        return self.fill(out, X, Z)

    def dot(self, X: Array, Z: Array, coef: Array) -> Array:
        """k(X, Z) @ coef, in blocks of rows: the matrix itself is never held."""
        out = _xp.empty((X.shape[0], coef.shape[1]), coef)
        for rows in _xp.row_blocks(X.shape[0], 8 * Z.shape[0], X):
            K = self.evaluate(X[rows, :], Z)
            with np.errstate(over="ignore", invalid="ignore"):
                out[rows, :] = _xp.matmul(K, coef)
        return out

    def basis_points(self, X: Array, support: np.ndarray) -> Array:
        """The points behind the basis rows `support` of the training inputs X."""
        return _xp.take(X, support)

    # Hyper-parameters ------------------------------------------------------------------------------------------------
    @property
    def parts(self) -> tuple[Kernel, ...]:
        """The kernels inside this one."""
        return ()

    @property
    def is_precomputed(self) -> bool:
        """True when the inputs are the kernel matrix itself."""
        return False

    @property
    def is_bounded(self) -> bool:
        """True when no value is above 1, whatever the inputs: nobody needs to look for infinite ones."""
        return False

    @property
    def has_finite_rank(self) -> bool:
        """True when every function of the kernel is a sum of as many fixed ones, however many points there are."""
        return False

    @property
    def is_free(self) -> bool:
        """True when a width was left at None, to be chosen."""
        own = "sigma" in self._get_param_names() and self.sigma is None
        return own or any(part.is_free for part in self.parts)

    def with_width(self, width: float, spread: Array) -> Kernel:
        """A copy in which every sigma left at None is ``width * spread`` (one value a column)."""
        kernel = copy.copy(self)
        if "sigma" in self._get_param_names() and self.sigma is None:
            kernel.sigma = width * spread
        for name, value in self.get_params(deep=False).items():
            if isinstance(value, Kernel):
                setattr(kernel, name, value.with_width(width, spread))
        return kernel

    def scaled(self, factor: float) -> Kernel:
        """A copy with every width multiplied by `factor`."""
        kernel = copy.copy(self)
        for name, value in self.get_params(deep=False).items():
            if isinstance(value, Kernel):
                setattr(kernel, name, value.scaled(factor))
            elif name == "sigma":
                kernel.sigma = factor * np.asarray(value)
        return kernel

    def placed(self, X: Array) -> Kernel:
        """A copy in which what comes from the training columns themselves, e.g. knots, is filled in."""
        kernel = copy.copy(self)
        for name, value in self.get_params(deep=False).items():
            if isinstance(value, Kernel):
                setattr(kernel, name, value.placed(X))
        return kernel

    def columns(self, group: Sequence[int]) -> Kernel:
        """A copy for some columns alone: of widths that differ by column, those of these columns."""
        kernel = copy.copy(self)
        for name, value in self.get_params(deep=False).items():
            if isinstance(value, Kernel):
                setattr(kernel, name, value.columns(group))
            elif name == "sigma" and np.ndim(value) == 1:
                widths = np.asarray(_xp.to_numpy(value))
                kernel.sigma = widths[list(group)] if len(widths) > 1 else widths[0]
        return kernel

    def check(self, n_features: int) -> None:
        """Raise ValueError when a parameter does not fit data of that many columns."""
        as_kernel(self)
        for part in self.parts:
            part.check(n_features)

    @property
    def leaves(self) -> tuple[Kernel, ...]:
        """The kernels with a width in this one, from left to right."""
        own = (self,) if "sigma" in self._get_param_names() else ()
        return own + tuple(leaf for part in self.parts for leaf in part.leaves)

    def with_widths(self, widths: Sequence[Any]) -> Kernel:
        """A copy in which the leaves have the given sigmas, in their order."""
        return self._with_widths(iter(widths))

    def _with_widths(self, widths: Iterator[Any]) -> Kernel:
        kernel = copy.copy(self)
        if "sigma" in self._get_param_names():
            kernel.sigma = next(widths)
        for name, value in self.get_params(deep=False).items():
            if isinstance(value, Kernel):
                setattr(kernel, name, value._with_widths(widths))
        return kernel

    def gradient(self, X: Array, Z: Array, G: Array) -> Array:
        """sum_ij G_ij dk(x_i, z_j)/dlog(sigma_c), one row a leaf and one value for each column c.

        The whole rows x basis x columns tensor of derivatives is never formed: contracted with the matrix G that the
        chain rule supplies (theory: Zbar and Rbar), it costs one matrix product.
        """
        xp = _xp.namespace(X)
        parts = [part.gradient(X, Z, G) for part in self.parts]
        return xp.concat(parts) if parts else _xp.zeros((0, X.shape[1]), X)

    def point_gradient(self, X: Array, Z: Array, G: Array) -> Array:
        """sum_i G_ij dk(x_i, z_j)/dz_j, one row for each z_j."""
        raise TypeError(f"{type(self).__name__} has no derivative in its points, so that they cannot be moved.")

    def both_gradients(self, X: Array, Z: Array, G: Array) -> tuple[Array, Array]:
        """`gradient` and `point_gradient` together."""
        return self.gradient(X, Z, G), self.point_gradient(X, Z, G)

    # Algebra ---------------------------------------------------------------------------------------------------------
    def __add__(self, other: Kernel) -> Sum:
        return Sum(self, as_kernel(other))

    def __radd__(self, other: Kernel) -> Sum:
        return Sum(as_kernel(other), self)

    def __mul__(self, other: Kernel) -> Product:
        return Product(self, as_kernel(other))

    def __rmul__(self, other: Kernel) -> Product:
        return Product(as_kernel(other), self)


# Stationary kernels -------------------------------------------------------------------------------------------------
class _Stationary(Kernel):
    """A kernel of the scaled distance r = |(x - z)/sigma|, sigma a scalar or one value a column."""

    sigma: Any

    def _widths(self, n_features: int) -> np.ndarray:
        self.check(n_features)
        return np.broadcast_to(np.asarray(_xp.to_numpy(self.sigma), dtype=float), (n_features,)).copy()

    def check(self, n_features: int) -> None:
        name = type(self).__name__
        if self.sigma is None:
            raise ValueError(f"{name}(sigma=None) has no width yet: give sigma, or fit a model, which chooses it.")
        try:
            widths = np.asarray(_xp.to_numpy(self.sigma), dtype=float)
        except (TypeError, ValueError):
            raise ValueError(f"{name}: sigma must be a number or one number a column, got {self.sigma!r}.") from None
        if widths.ndim > 1 or (widths.ndim == 1 and widths.shape[0] not in (1, n_features)):
            raise ValueError(
                f"{name}: sigma has shape {widths.shape}, but X has {n_features} columns: give a scalar or "
                f"{n_features} values."
            )
        if not (np.all(np.isfinite(widths)) and np.all(widths > 0)):
            raise ValueError(f"{name}: sigma must be positive and finite, got {self.sigma!r}.")

    def evaluate(self, X: Array, Z: Array) -> Array:
        return self._write(_xp.empty((X.shape[0], Z.shape[0]), X), X, Z)

    def fill(self, out: Array, X: Array, Z: Array) -> Array:
        for rows in _xp.row_blocks(X.shape[0], 32 * X.shape[1], X):  # in place: only scaled copies of X are made
            self._write(out[rows, :], X[rows, :], Z)
        return out

    def fill_symmetric(self, out: Array, X: Array, Z: Array) -> Array:
        return self._write(out, X, Z, symmetric=True) if _xp.is_numpy(out) else self.fill(out, X, Z)

    def _write(self, out: Array, X: Array, Z: Array, *, symmetric: bool = False) -> Array:
        """Distances and kernel values tile by tile, while a tile is in the cache."""
        distances = self._distances(X, Z)

        @np.errstate(under="ignore")
        def tile(rows: slice, columns: slice) -> None:
            part = out[rows, columns]
            distances.write(part, rows, columns)
            self._from_negative_distance(part)
            if symmetric and columns.stop <= rows.start:
                out[columns, rows] = part.T

        _xp.in_tiles(tile, out, distances.depth, symmetric=symmetric)
        return out

    def diagonal(self, X: Array) -> Array:
        return _xp.zeros((X.shape[0],), X) + 1.0

    @property
    def is_bounded(self) -> bool:
        return True  # `_distances` refuses those that overflow

    def _distances(self, X: Array, Z: Array) -> Distances:
        """Centre and divide by sigma: a large common offset then costs no digits in |x|^2 + |z|^2 - 2xz."""
        widths = self._widths(X.shape[1])
        sigma = _xp.like(widths, X)
        with np.errstate(over="ignore", invalid="ignore"):
            centre = _xp.namespace(X, Z).mean(Z, axis=0) if Z.shape[0] else 0.0
            distances = Distances((X - centre) / sigma, (Z - centre) / sigma, exact_small=self._needs_exact_small)
        if not math.isfinite(16.0 * distances.largest * X.shape[0] * Z.shape[0]):  # what sums of them may reach
            with np.errstate(over="ignore"):
                largest = np.max(np.abs(_xp.to_numpy(X)) / widths, axis=0)
            raise _xp.NumericalError(
                f"{type(self).__name__}: distances overflow (largest |x|/sigma {largest.max():.3g} in column "
                f"{int(largest.argmax())}): scale your features or enlarge sigma."
            )
        return distances

    def gradient(self, X: Array, Z: Array, G: Array) -> Array:
        """2 sum_ij W_ij (x_ic - z_jc)^2, W = -G dk/d(r^2), tile by tile, while a tile is in the cache."""
        xp = _xp.namespace(X)
        distances = self._distances(X, Z)
        with_one = xp.concat([distances.Z, xp.ones_like(distances.z2)[:, None]], axis=1)
        parts: dict[tuple[int, int], Array] = {}

        @np.errstate(under="ignore")
        def tile(rows: slice, columns: slice) -> None:
            W = _xp.empty((rows.stop - rows.start, columns.stop - columns.start), X)
            distances.write(W, rows, columns)
            W = self._slope(W)
            W *= G[rows, columns]
            product = W @ with_one[columns, :]
            parts[rows.start, columns.start] = self._width_gradient(
                distances.X[rows, :], distances.Z[columns, :], product[:, :-1], product[:, -1], xp.sum(W, axis=0)
            )

        _xp.in_tiles(tile, G, distances.depth)
        return sum((parts[place] for place in sorted(parts)), start=xp.zeros_like(distances.X[:1, :]))

    def point_gradient(self, X: Array, Z: Array, G: Array) -> Array:
        distances = self._distances(X, Z)
        W = self._weighted_slope(distances, G)
        return self._place_gradient(distances, W, _xp.namespace(X).sum(W, axis=0))

    def both_gradients(self, X: Array, Z: Array, G: Array) -> tuple[Array, Array]:
        xp, distances = _xp.namespace(X), self._distances(X, Z)
        W = self._weighted_slope(distances, G)
        X, Z = distances.X, distances.Z
        in_rows, in_columns = xp.sum(W, axis=1), xp.sum(W, axis=0)
        in_widths = self._width_gradient(X, Z, _xp.matmul(W, Z), in_rows, in_columns)
        return in_widths, self._place_gradient(distances, W, in_columns)

    @staticmethod
    def _width_gradient(X: Array, Z: Array, product: Array, in_rows: Array, in_columns: Array) -> Array:
        """2 sum_ij W_ij (x_ic - z_jc)^2, column by column, from the product W Z and the sums of W."""
        total = in_rows @ (X * X) + in_columns @ (Z * Z)
        return 2.0 * (total - 2.0 * _xp.namespace(X).sum(X * product, axis=0))[None, :]

    def _place_gradient(self, distances: Distances, W: Array, in_columns: Array) -> Array:
        """2 sum_i W_ij (x_i - z_j)/sigma, for scaled inputs, from W and its sums."""
        X, Z = distances.X, distances.Z
        change = _xp.matmul(W.T, X) - in_columns[:, None] * Z
        return 2.0 * change / _xp.like(self._widths(X.shape[1]), X)

    def _weighted_slope(self, distances: Distances, G: Array) -> Array:
        """G times -dk/d(r^2)."""
        W = _xp.empty(G.shape, G)

        def tile(rows: slice, columns: slice) -> None:
            part = W[rows, columns]
            distances.write(part, rows, columns)
            part[...] = self._slope(part)
            part *= G[rows, columns]

        _xp.in_tiles(tile, W, distances.depth)
        return W

    _needs_exact_small = False

    def _from_negative_distance(self, D: Array) -> None:
        """Overwrite -r^2 with kernel values."""
        raise TypeError(f"{type(self).__name__} does not define the kernel of a distance.")

    def _slope(self, D: Array) -> Array:
        """-dk/d(r^2) from -r^2: the derivative in log sigma_c is then 2 * slope * (x_c - z_c)^2/sigma_c^2."""
        raise TypeError(f"{type(self).__name__} does not define the derivative.")


class RBF(_Stationary):
    """Gaussian kernel ``exp(-|x - z|^2 / sigma^2)``, as in all five papers.

    Parameters
    ----------
    sigma : float, array of shape (n_features,) or None
        Width in the units of the columns. None: chosen by leave-one-out, in units of each column's spread.
    ard : bool
        Whether a width left at None may differ from column to column (automatic relevance determination).

    Examples
    --------
    >>> import numpy as np
    >>> from lssvm.kernels import RBF
    >>> RBF(sigma=2.0)(np.array([[0.0]]), np.array([[0.0], [2.0]])).round(4)
    array([[1.    , 0.3679]])
    """

    def __init__(self, sigma: Any = None, ard: bool = False) -> None:
        self.sigma = sigma
        self.ard = ard

    def _from_negative_distance(self, D: Array) -> None:
        if _xp.is_numpy(D):
            np.exp(D, out=D)
        elif _xp.is_torch(D):
            D.exp_()
        else:
            D[...] = _xp.namespace(D).exp(D)

    def _slope(self, D: Array) -> Array:
        return _xp.namespace(D).exp(D)


class Matern(_Stationary):
    """Matern kernel of smoothness nu (0.5, 1.5 or 2.5) in the scaled distance ``r = |(x - z)/sigma|``.

    ``exp(-r)``; ``(1 + sqrt(3) r) exp(-sqrt(3) r)``; ``(1 + sqrt(5) r + 5 r^2/3) exp(-sqrt(5) r)``.

    Parameters
    ----------
    sigma : float, array of shape (n_features,) or None
        Width in the units of the columns. None: chosen by leave-one-out, in units of each column's spread.
    nu : {0.5, 1.5, 2.5}
        Smoothness.
    ard : bool
        Whether a width left at None may differ from column to column.

    Examples
    --------
    >>> import numpy as np
    >>> from lssvm import kernels
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0]])
    >>> kernels.Matern(sigma=2.0, nu=0.5)(X).round(4)
    array([[1.    , 0.2431],
           [0.2431, 1.    ]])
    """

    _needs_exact_small = True  # the square root turns an error of 1e-16 in r^2 into one of 1e-8

    def __init__(self, sigma: Any = None, nu: float = 1.5, ard: bool = False) -> None:
        self.sigma = sigma
        self.nu = nu
        self.ard = ard

    def check(self, n_features: int) -> None:
        if self.nu not in (0.5, 1.5, 2.5):
            raise ValueError(f"Matern: nu must be 0.5, 1.5 or 2.5, got {self.nu!r}.")
        super().check(n_features)

    def _from_negative_distance(self, D: Array) -> None:
        xp = _xp.namespace(D)
        D *= -2.0 * self.nu
        D[...] = xp.sqrt(D)
        decay = xp.exp(-D)
        if self.nu == 0.5:
            D[...] = decay
            return
        if self.nu == 2.5:
            D *= 1.0 + D / 3.0
        D += 1.0
        D *= decay

    def _slope(self, D: Array) -> Array:
        xp = _xp.namespace(D)
        r = xp.sqrt(-2.0 * self.nu * D)
        if self.nu == 0.5:  # -dk/d(r^2) = exp(-r)/(2r) multiplies (x_c - z_c)^2 <= r^2: nothing is lost at r = 0
            return xp.where(r > 1e-8, xp.exp(-r) / (2 * xp.where(r > 1e-8, r, r + 1)), 0.0 * r)
        if self.nu == 1.5:
            return 1.5 * xp.exp(-r)
        return 5 / 6 * (1 + r) * xp.exp(-r)


class Distances:
    """-|x_i - z_j|^2 for centred, scaled inputs, never positive, zero for identical rows, written by tiles.

    Up to four columns differences are squared and summed. Beyond that 2xz - |x|^2 - |z|^2 is one matrix product; with
    `exact_small`, or where that form would cost more than about 1e-14, the entries in which it cancels are done again
    from the differences. The sign spares the exponential a pass over the memory.
    """

    def __init__(self, X: Array, Z: Array, *, exact_small: bool = True) -> None:
        xp = _xp.namespace(X, Z)
        self.X, self.Z = X, Z
        self.depth = X.shape[1] + 2
        self.x2, self.z2 = _xp.row_squares(X), _xp.row_squares(Z)
        self.largest = float(xp.max(self.x2)) + float(xp.max(self.z2)) if X.shape[0] and Z.shape[0] else 0.0
        if X.shape[1] <= 4:
            return
        self.left = xp.concat([X, self.x2[:, None], xp.ones_like(self.x2)[:, None]], axis=1)
        self.right = xp.concat([2.0 * Z, -xp.ones_like(self.z2)[:, None], -self.z2[:, None]], axis=1)
        self.exact_small = exact_small or self.largest > 64.0

    def write(self, out: Array, rows: slice, columns: slice) -> None:
        """Overwrite `out` with what belongs to those rows and columns."""
        if self.X.shape[1] <= 4:
            out[...] = 0.0
            for c in range(self.X.shape[1]):
                difference = self.X[rows, c][:, None] - self.Z[columns, c][None, :]
                difference *= difference
                out -= difference
            return
        if _xp.is_numpy(out) or _xp.is_torch(out):
            _xp.namespace(out).matmul(self.left[rows, :], self.right[columns, :].T, out=out)
        else:
            out[...] = self.left[rows, :] @ self.right[columns, :].T
        if self.exact_small:
            self._mend(out, rows, columns)
        elif _xp.on_accelerator(out):
            return  # the exponential minds no rounding, and a pass over the memory is dear
        out[out > -8.0 * _xp.EPS * self.largest] = 0.0  # below the rounding of the sum: copies are at distance 0

    def _mend(self, out: Array, rows: slice, columns: slice) -> None:
        xp = _xp.namespace(out)
        place = xp.nonzero(xp.reshape(out > -1e-3 * self.largest, (-1,)))[0]  # much faster than in two dimensions
        i, j = place // out.shape[1], place % out.shape[1]
        x2, z2 = xp.take(self.x2[rows], i, axis=0), xp.take(self.z2[columns], j, axis=0)
        near = -1e-3 * (x2 + z2) < out[i, j]
        i, j = i[near], j[near]
        X, Z = self.X[rows, :], self.Z[columns, :]
        for part in _xp.row_blocks(i.shape[0], 16 * X.shape[1]):
            a, b = i[part], j[part]
            difference = xp.take(X, a, axis=0) - xp.take(Z, b, axis=0)
            _xp.put(out, (a, b), -xp.sum(difference * difference, axis=1))


# Inner products -----------------------------------------------------------------------------------------------------
class Linear(Kernel):
    """Inner product ``x'z``. With the unpenalised bias this is ridge regression.

    Examples
    --------
    >>> import numpy as np
    >>> from lssvm import kernels
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0]])
    >>> kernels.Linear()(X)
    array([[ 1.,  3.],
           [ 3., 13.]])
    """

    @property
    def has_finite_rank(self) -> bool:
        return True

    def evaluate(self, X: Array, Z: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            return _xp.matmul(X, Z.T)

    def diagonal(self, X: Array) -> Array:
        return _xp.namespace(X).sum(X * X, axis=1)

    def point_gradient(self, X: Array, Z: Array, G: Array) -> Array:
        return G.T @ X


class Polynomial(Kernel):
    """Polynomial kernel ``(x'z + coef0)^degree``.

    Parameters
    ----------
    degree : int
        Degree, at least 1.
    coef0 : float
        Constant, not negative: 0 gives the homogeneous kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from lssvm import kernels
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0]])
    >>> kernels.Polynomial(degree=2)(X)
    array([[  4.,  16.],
           [ 16., 196.]])
    """

    def __init__(self, degree: int = 3, coef0: float = 1.0) -> None:
        self.degree = degree
        self.coef0 = coef0

    @property
    def has_finite_rank(self) -> bool:
        return True

    def check(self, n_features: int) -> None:
        if isinstance(self.degree, bool) or not (isinstance(self.degree, (int, np.integer)) and self.degree >= 1):
            raise ValueError(f"Polynomial: degree must be an integer of at least 1, got {self.degree!r}.")
        if not (isinstance(self.coef0, Real) and 0 <= float(self.coef0) < math.inf):
            raise ValueError(f"Polynomial: coef0 must be finite and not negative, got {self.coef0!r}.")

    def evaluate(self, X: Array, Z: Array) -> Array:
        with np.errstate(over="ignore"):
            return (_xp.matmul(X, Z.T) + float(self.coef0)) ** int(self.degree)

    def diagonal(self, X: Array) -> Array:
        with np.errstate(over="ignore"):
            return (_xp.namespace(X).sum(X * X, axis=1) + self.coef0) ** self.degree

    def point_gradient(self, X: Array, Z: Array, G: Array) -> Array:
        degree = int(self.degree)
        return degree * (G * (X @ Z.T + float(self.coef0)) ** (degree - 1)).T @ X


# Splines --------------------------------------------------------------------------------------------------------------
class Spline(Kernel):
    """Smoothing splines with few knots, summed over the columns: a kernel of finite rank.

    Of one column, scaled so that its knots span [0, 1]: the functions sum_j c_j k0(x, t_j) of the knots t_j, with the
    norm of k0, which is that of a smoothing spline (the square of f'' and of the slope, integrated); beyond the outer
    knots they are straight. k0 is centred: every function has the mean 0 over [0, 1], which brings in a quartic, so
    that a straight line is among them only nearly, the better the more knots. The rank is the number of knots, so that
    `sparsify.Components` finds exact zeros.

    Parameters
    ----------
    knots : int, array (n_knots,) or (n_knots, n_features), or None
        A number is placed at quantiles of each column's distinct values, the smallest and the largest among them, when
        a model is fitted. None: as many as leave the columns of an additive machine independent of each other,
        3 to 6. An array holds the knots themselves, for all columns or by column.

    Examples
    --------
    >>> import numpy as np
    >>> from lssvm import LSSVR, kernels
    >>> x = np.linspace(0.0, 3.0, 50)[:, None]
    >>> model = LSSVR(kernels.Spline(5), C=1e4).fit(x, np.sin(x[:, 0]))
    >>> model.predict([[4.0], [5.0], [6.0]]).round(2)  # straight beyond the outer knots
    array([-0.83, -1.81, -2.78])
    """

    def __init__(self, knots: Any = None) -> None:
        self.knots = knots

    @property
    def has_finite_rank(self) -> bool:
        return True

    def placed(self, X: Array) -> Kernel:
        if np.ndim(self.knots) > 0:
            return copy.copy(self)
        values = _xp.to_numpy(X)
        count = self.knots
        if count is None:
            count = int(np.clip(0.8 * values.shape[0] // values.shape[1], 3, 6))
        if isinstance(count, bool) or not (isinstance(count, (int, np.integer)) and count >= 2):
            raise ValueError(f"Spline: knots must be an integer of at least 2, an array or None, got {self.knots!r}.")
        shares = np.linspace(0.0, 1.0, int(count))
        return Spline(np.column_stack([np.quantile(np.unique(column), shares) for column in values.T]))

    def columns(self, group: Sequence[int]) -> Kernel:
        if np.ndim(self.knots) != 2:
            return copy.copy(self)
        return Spline(np.asarray(_xp.to_numpy(self.knots))[:, list(group)])

    def check(self, n_features: int) -> None:
        self._by_column(n_features)

    def _by_column(self, n_features: int) -> np.ndarray:
        """The knots, sorted, one column a column of X."""
        if np.ndim(self.knots) == 0:
            raise ValueError(f"Spline(knots={self.knots!r}) has no place yet: give the knots, or fit a model.")
        knots = np.sort(np.asarray(_xp.to_numpy(self.knots), dtype=float), axis=0)
        finite = bool(np.isfinite(knots).all())
        knots = np.broadcast_to(knots[:, None], (len(knots), n_features)) if knots.ndim == 1 else knots
        if knots.ndim != 2 or knots.shape[1] != n_features or len(knots) < 2 or not finite:
            raise ValueError(
                f"Spline: knots has shape {np.shape(self.knots)}: give at least 2 finite knots, one column a column of "
                f"X ({n_features})."
            )
        return knots

    @np.errstate(over="ignore", invalid="ignore")
    def features(self, X: Array) -> Array:
        """Columns whose products are the kernel: as many as independent knots, column after column of X."""
        by_column = self._by_column(X.shape[1]).T
        parts = [self._column_features(X[:, c], knots) for c, knots in enumerate(by_column)]
        return _xp.namespace(X).concat(parts, axis=1)

    @staticmethod
    def _column_features(x: Array, knots: np.ndarray) -> Array:
        span = knots[-1] - knots[0]
        span = span if span > 0 else 1.0
        places = (knots - knots[0]) / span
        K = spline_kernel((x - float(knots[0])) / float(span), _xp.like(places, x))
        return K @ _xp.like(spline_factors(places), x)

    @np.errstate(over="ignore", invalid="ignore")
    def evaluate(self, X: Array, Z: Array) -> Array:
        features = self.features(X)
        return features @ (features if X is Z else self.features(Z)).T

    def diagonal(self, X: Array) -> Array:
        features = self.features(X)
        return _xp.namespace(X).sum(features * features, axis=1)


def spline_factors(places: np.ndarray) -> np.ndarray:
    """What turns kernel values between x and the knots into the features of x; dependent knots give none."""
    values, vectors = np.linalg.eigh(spline_kernel(places, places))
    kept = values > 1e-10 * values[-1]
    return vectors[:, kept] / np.sqrt(values[kept])


def spline_kernel(u: Array, v: Array) -> Array:
    """(u - 1/2)(v - 1/2) plus the integral over s in [0, 1] of (u - s)+ (v - s)+, its means over [0, 1] taken out."""
    xp = _xp.namespace(u, v)

    def mean(x: Array) -> Array:  # of the integral over the other argument; straight outside [0, 1]
        a = xp.clip(x, 0.0, 1.0)
        return a * a * (6.0 - 4.0 * a + a * a) / 24.0 + xp.where(x > 1.0, (x - 1.0) / 6.0, 0.0 * x)

    product, total = u[:, None] * v[None, :], u[:, None] + v[None, :]
    low = xp.minimum(u[:, None] + 0.0 * product, v[None, :] + 0.0 * product)
    a = xp.clip(low, 0.0, 1.0)
    K = a * (product - a * (total / 2.0 - a / 3.0))
    return K - mean(u)[:, None] - mean(v)[None, :] + 0.05 + product - 0.5 * total + 0.25


# Kernels of kernels -------------------------------------------------------------------------------------------------
class Additive(Kernel):
    """A sum over the inputs of a kernel of one input each: ``sum_c k(x_c, z_c)`` (componentwise LS-SVM).

    The machine is then a sum of functions of one input each, ``f(x) = sum_c f^c(x_c) + b``: see `LSSVR.components`.

    Parameters
    ----------
    kernel : Kernel
        The kernel of each component; one with a `sigma` may hold one width a column.
    groups : list of lists of column numbers, or None
        The columns of each component, e.g. the indicators of one category together; None: each column its own.
        Columns in no group do not count.
    active : list of int, or None
        Numbers of the components that are kept, as `sparsify.Components` finds them; None: all. The columns of the
        others are not looked at.

    Examples
    --------
    >>> import numpy as np
    >>> from lssvm import kernels
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0]])
    >>> kernel = kernels.Additive(kernels.RBF(2.0))
    >>> bool(np.allclose(kernel(X), kernels.RBF(2.0)(X[:, :1]) + kernels.RBF(2.0)(X[:, 1:])))
    True
    """

    def __init__(self, kernel: Kernel, groups: Any = None, active: Any = None) -> None:
        self.kernel = kernel
        self.groups = groups
        self.active = active

    @property
    def parts(self) -> tuple[Kernel, ...]:
        return (self.kernel,)

    @property
    def has_finite_rank(self) -> bool:
        return self.kernel.has_finite_rank

    def check(self, n_features: int) -> None:
        super().check(n_features)
        self.components(n_features)

    def components(self, n_features: int) -> list[list[int]]:
        """The columns of every component, kept or not."""
        if self.groups is None:
            groups = [[c] for c in range(n_features)]
        else:
            try:
                groups = [[int(c) for c in np.atleast_1d(np.asarray(group))] for group in self.groups]
            except (TypeError, ValueError):  # names of columns, or no list
                groups = []
        if not groups or not all(group and min(group) >= 0 and max(group) < n_features for group in groups):
            raise ValueError(
                f"Additive: groups must be lists of column numbers from 0 to {n_features - 1}, got {self.groups!r}."
            )
        if self.active is not None and not set(self.active) <= set(range(len(groups))):
            raise ValueError(f"Additive: active must hold numbers from 0 to {len(groups) - 1}, got {self.active!r}.")
        return groups

    def kept(self, n_features: int) -> dict[int, tuple[list[int], Kernel]]:
        """The components kept: by their numbers, their columns and the kernel of these columns."""
        groups = self.components(n_features)
        numbers = range(len(groups)) if self.active is None else self.active
        return {int(number): (groups[number], self.kernel.columns(groups[number])) for number in numbers}

    def evaluate(self, X: Array, Z: Array) -> Array:
        K = _xp.zeros((X.shape[0], Z.shape[0]), X)
        for group, kernel in self.kept(X.shape[1]).values():
            part = kernel.evaluate(pick_columns(X, group), pick_columns(Z, group))
            with np.errstate(over="ignore", invalid="ignore"):
                K += part
        return K

    def diagonal(self, X: Array) -> Array:
        total = _xp.zeros((X.shape[0],), X)
        for group, kernel in self.kept(X.shape[1]).values():
            total += kernel.diagonal(pick_columns(X, group))
        return total

    def gradient(self, X: Array, Z: Array, G: Array) -> Array:
        total = _xp.zeros((len(self.leaves), X.shape[1]), X)
        for group, kernel in self.kept(X.shape[1]).values():
            term = kernel.gradient(pick_columns(X, group), pick_columns(Z, group), G)
            for place, c in enumerate(group):
                total[:, c] += term[:, place]
        return total

    def point_gradient(self, X: Array, Z: Array, G: Array) -> Array:
        total = _xp.zeros((Z.shape[0], Z.shape[1]), X)
        for group, kernel in self.kept(X.shape[1]).values():
            term = kernel.point_gradient(pick_columns(X, group), pick_columns(Z, group), G)
            for place, c in enumerate(group):
                total[:, c] += term[:, place]
        return total


def pick_columns(X: Array, group: Sequence[int]) -> Array:
    """Some columns of X."""
    if len(group) == 1:
        return X[:, group[0] : group[0] + 1]
    return _xp.take(X.T, np.asarray(group)).T


class _Pair(Kernel):
    """Two kernels and what combines them."""

    def __init__(self, k1: Kernel, k2: Kernel) -> None:
        self.k1 = k1
        self.k2 = k2

    @property
    def parts(self) -> tuple[Kernel, ...]:
        return (self.k1, self.k2)

    @property
    def has_finite_rank(self) -> bool:
        return self.k1.has_finite_rank and self.k2.has_finite_rank


class Sum(_Pair):
    """k1 + k2.

    Examples
    --------
    >>> import numpy as np
    >>> from lssvm import kernels
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0]])
    >>> (kernels.Linear() + kernels.RBF(2.0))(X).round(4)
    array([[ 2.    ,  3.1353],
           [ 3.1353, 14.    ]])
    """

    def evaluate(self, X: Array, Z: Array) -> Array:
        K, other = self.k1.evaluate(X, Z), self.k2.evaluate(X, Z)
        with np.errstate(over="ignore", invalid="ignore"):
            K += other
        return K

    def diagonal(self, X: Array) -> Array:
        return self.k1.diagonal(X) + self.k2.diagonal(X)

    def point_gradient(self, X: Array, Z: Array, G: Array) -> Array:
        return self.k1.point_gradient(X, Z, G) + self.k2.point_gradient(X, Z, G)


class Product(_Pair):
    """k1 * k2.

    Examples
    --------
    >>> import numpy as np
    >>> from lssvm import kernels
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0]])
    >>> (kernels.Linear() * kernels.RBF(2.0))(X).round(4)
    array([[ 1.   ,  0.406],
           [ 0.406, 13.   ]])
    """

    def evaluate(self, X: Array, Z: Array) -> Array:
        K, other = self.k1.evaluate(X, Z), self.k2.evaluate(X, Z)
        with np.errstate(over="ignore", invalid="ignore"):
            K *= other
        return K

    def diagonal(self, X: Array) -> Array:
        return self.k1.diagonal(X) * self.k2.diagonal(X)

    def gradient(self, X: Array, Z: Array, G: Array) -> Array:
        first = self.k1.gradient(X, Z, G * self.k2.evaluate(X, Z))
        return _xp.namespace(X).concat([first, self.k2.gradient(X, Z, G * self.k1.evaluate(X, Z))])

    def point_gradient(self, X: Array, Z: Array, G: Array) -> Array:
        first = self.k1.point_gradient(X, Z, G * self.k2.evaluate(X, Z))
        return first + self.k2.point_gradient(X, Z, G * self.k1.evaluate(X, Z))


class Choice(Kernel):
    """One of several kernels: the one with the smallest leave-one-out error takes its place at `fit`.

    Parameters
    ----------
    kernels : list of Kernel
        At least one. Their widths may be given or left at None.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(kernels.Choice([kernels.RBF(), kernels.Matern(nu=0.5)])).fit(X, y)
    >>> type(model.kernel_).__name__
    'RBF'
    """

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        self.kernels = kernels

    @property
    def parts(self) -> tuple[Kernel, ...]:
        return tuple(self.kernels)

    def placed(self, X: Array) -> Kernel:
        return Choice([kernel.placed(X) for kernel in self.kernels])

    @property
    def is_free(self) -> bool:
        return True


# Kernels from outside -----------------------------------------------------------------------------------------------
class Precomputed(Kernel):
    """The user's own kernel matrix: square at `fit`, rows x training rows (or rows x basis) at `predict`.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> K = kernels.RBF(13.1)(X)
    >>> model = LSSVR(kernels.Precomputed(), C=1.0).fit(K, y)
    >>> same = LSSVR(kernels.RBF(13.1), C=1.0).fit(X, y)
    >>> bool(abs(model.predict(K[:5]) - same.predict(X[:5])).max() < 1e-9)
    True
    """

    @property
    def is_precomputed(self) -> bool:
        return True

    def evaluate(self, X: Array, Z: Array) -> Array:
        """Columns of the matrix X; Z holds their numbers, as `basis_points` made them."""
        if _xp.is_numpy(X):
            return X[:, Z[:, 0].astype(np.intp)]
        xp = _xp.namespace(X)
        return xp.take(X, xp.astype(Z[:, 0], xp.int64), axis=1)

    def diagonal(self, X: Array) -> Array:
        return _xp.namespace(X).linalg.diagonal(X) + 0.0

    def basis_points(self, X: Array, support: np.ndarray) -> Array:
        return _xp.like(np.asarray(support, dtype=float)[:, None], X)


class Function(Kernel):
    """Any callable k(X, Z) that returns the matrix of kernel values.

    It must be symmetric, and each value must depend on its two rows alone: `fit` checks this on up to 50 rows.

    Examples
    --------
    >>> import numpy as np
    >>> from lssvm import kernels
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0]])
    >>> kernels.Function(lambda X, Z: np.minimum(X[:, :1], Z[:, :1].T))(X)
    array([[0., 0.],
           [0., 2.]])
    """

    def __init__(self, function: Callable[[Array, Array], Array]) -> None:
        self.function = function

    def evaluate(self, X: Array, Z: Array) -> Array:
        K = _xp.namespace(X).asarray(self.function(X, Z))
        if np.iscomplexobj(_xp.to_numpy(K)):
            raise ValueError("The kernel function returned complex values: a kernel must be real.")
        if K.shape != (X.shape[0], Z.shape[0]):
            raise ValueError(
                f"The kernel function returned shape {K.shape} for {X.shape[0]} and {Z.shape[0]} rows: it must return "
                f"({X.shape[0]}, {Z.shape[0]})."
            )
        return _xp.like(K, X) + 0.0

    def diagonal(self, X: Array) -> Array:
        xp = _xp.namespace(X)
        return xp.concat([xp.reshape(self.evaluate(X[i : i + 1, :], X[i : i + 1, :]), (1,)) for i in range(X.shape[0])])


def check_values(kernel: Kernel, X: Array) -> None:
    """Check on a few rows that the user's own kernels are symmetric and give the same values at each call."""
    if isinstance(kernel, Additive):
        parts = [(part, pick_columns(X, group)) for group, part in kernel.kept(X.shape[1]).values()][:1]
    else:
        parts = [(part, X) for part in kernel.parts]
    for part, columns in parts:
        check_values(part, columns)
    own = isinstance(kernel, Function) or type(kernel).__module__ != __name__
    if own and not (kernel.parts or kernel.is_precomputed or kernel.is_free):
        _check_own_values(copy.deepcopy(kernel), X)  # a copy: the state that a kernel may keep is left alone


def _check_own_values(kernel: Kernel, X: Array) -> None:
    few = X[: max(1, X.shape[0] // 10), :]
    K, again = (_xp.to_numpy(kernel.evaluate(X, Z)) for Z in (X, few))
    if not (np.isfinite(K).all() and np.isfinite(again).all()):
        return  # the fit has an error of its own for these
    name = repr(kernel.function if isinstance(kernel, Function) else kernel)
    limit = (1e-6 if K.dtype.itemsize >= 8 else 1e-3) * float(np.max(np.abs(K)))
    gap = float(np.max(np.abs(K[:, : again.shape[1]] - again)))
    if gap > limit:
        raise ValueError(
            f"kernel={name} gives different values for the same two rows in different calls (by up to {gap:.3g}): "
            "k(x, z) must depend on x and z alone. Draw random numbers, and compute means or widths of the data, once, "
            "before the fit."
        )
    gap = float(np.max(np.abs(K - K.T)))
    if gap > limit:
        raise ValueError(
            f"kernel={name} is not symmetric: k(x, z) and k(z, x) differ by up to {gap:.3g}. Give a symmetric "
            "function, such as (k(X, Z) + k(Z, X).T) / 2."
        )


def as_kernel(kernel: Any) -> Kernel:
    """A Kernel from a Kernel or a callable."""
    if isinstance(kernel, Choice) and (not isinstance(kernel.kernels, Sequence) or not len(kernel.kernels)):
        raise TypeError(f"Choice: kernels must be a list of at least one kernel, got {kernel.kernels!r}.")
    if isinstance(kernel, Kernel):
        for part in kernel.parts:
            if not isinstance(part, Kernel):
                as_kernel(part)
                raise TypeError(f"{type(kernel).__name__} holds {part!r}: write kernels.Function({part!r}).")
            if isinstance(part, Choice):
                raise TypeError(f"{type(kernel).__name__} holds a Choice: write a Choice of whole kernels.")
            if part.is_precomputed:
                raise ValueError(
                    f"Precomputed cannot be combined in {type(kernel).__name__}, its inputs are no columns: combine "
                    "the matrices themselves."
                )
            as_kernel(part)
        return kernel
    if isinstance(kernel, type) and issubclass(kernel, Kernel):
        parts = "kernels.RBF()" if "kernel" in kernel._get_param_names() else ""
        raise TypeError(f"kernel={kernel.__name__} is a class: write {kernel.__name__}({parts}).")
    if callable(kernel):
        return Function(kernel)
    raise TypeError(f"kernel={kernel!r} is not a kernel: give one of lssvm.kernels, e.g. RBF(), or a callable k(X, Z).")
