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

    def dot(self, X: Array, Z: Array, coef: Array) -> Array:
        """k(X, Z) @ coef, in blocks of rows: the matrix itself is never held."""
        out = _xp.empty((X.shape[0], coef.shape[1]), coef)
        for rows in _xp.row_blocks(X.shape[0], 8 * Z.shape[0], X):
            out[rows, :] = self.evaluate(X[rows, :], Z) @ coef
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

    def column(self, c: int) -> Kernel:
        """A copy for column c alone: of widths that differ by column, that of column c."""
        kernel = copy.copy(self)
        for name, value in self.get_params(deep=False).items():
            if isinstance(value, Kernel):
                setattr(kernel, name, value.column(c))
            elif name == "sigma" and np.ndim(value) == 1:
                kernel.sigma = value[c if len(value) > 1 else 0]
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

    def _write(self, out: Array, X: Array, Z: Array) -> Array:
        """Distances and kernel values tile by tile, while a tile is in the cache."""
        distances = Distances(*self._scale(X, Z), exact_small=self._needs_exact_small)

        def tile(rows: slice, columns: slice) -> None:
            part = out[rows, columns]
            distances.write(part, rows, columns)
            self._from_squared_distance(part)

        _xp.in_tiles(tile, out, distances.depth)
        return out

    def diagonal(self, X: Array) -> Array:
        return _xp.zeros((X.shape[0],), X) + 1.0

    def _scale(self, X: Array, Z: Array) -> tuple[Array, Array]:
        """Centre and divide by sigma: a large common offset then costs no digits in |x|^2 + |z|^2 - 2xz."""
        xp = _xp.namespace(X, Z)
        widths = self._widths(X.shape[1])
        sigma = _xp.like(widths, X)
        with np.errstate(over="ignore", invalid="ignore"):
            centre = xp.mean(Z, axis=0) if Z.shape[0] else 0.0
            scaled = (X - centre) / sigma, (Z - centre) / sigma
            sizes = xp.sum(scaled[0] * scaled[0]) + xp.sum(scaled[1] * scaled[1])
        if not math.isfinite(float(sizes)):
            largest = np.max(np.abs(_xp.to_numpy(X)) / widths, axis=0)
            raise ValueError(
                f"{type(self).__name__}: distances overflow (largest |x|/sigma {largest.max():.3g} in column "
                f"{int(largest.argmax())}): scale your features or enlarge sigma."
            )
        return scaled

    def gradient(self, X: Array, Z: Array, G: Array) -> Array:
        X, Z = self._scale(X, Z)
        W = _xp.empty((X.shape[0], Z.shape[0]), X)
        distances = Distances(X, Z, exact_small=self._needs_exact_small)

        def tile(rows: slice, columns: slice) -> None:
            part = W[rows, columns]
            distances.write(part, rows, columns)
            part[...] = self._slope(part)
            part *= G[rows, columns]

        _xp.in_tiles(tile, W, distances.depth)
        xp = _xp.namespace(X)
        # sum_ij W_ij (x_ic - z_jc)^2, column by column, from row sums, column sums and one product
        total = xp.sum(W, axis=1) @ (X * X) + xp.sum(W, axis=0) @ (Z * Z) - 2.0 * xp.sum(X * (W @ Z), axis=0)
        return 2.0 * total[None, :]

    _needs_exact_small = False

    def _from_squared_distance(self, D: Array) -> None:
        """Overwrite squared scaled distances with kernel values."""
        raise TypeError(f"{type(self).__name__} does not define the kernel of a distance.")

    def _slope(self, D: Array) -> Array:
        """-dk/d(r^2): the derivative in log sigma_c is then 2 * slope * (x_c - z_c)^2/sigma_c^2."""
        raise TypeError(f"{type(self).__name__} does not define the derivative.")


class RBF(_Stationary):
    """Gaussian kernel exp(-|x - z|^2 / sigma^2), as in all five papers.

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

    def _from_squared_distance(self, D: Array) -> None:
        if _xp.is_numpy(D):
            np.negative(D, out=D)
            np.exp(D, out=D)
        elif _xp.is_torch(D):
            D.neg_().exp_()
        else:
            D[...] = _xp.namespace(D).exp(-D)

    def _slope(self, D: Array) -> Array:
        return _xp.namespace(D).exp(-D)


class Matern(_Stationary):
    """Matern kernel of smoothness nu (0.5, 1.5 or 2.5) in the scaled distance r = |(x - z)/sigma|.

    exp(-r); (1 + sqrt(3) r) exp(-sqrt(3) r); (1 + sqrt(5) r + 5 r^2/3) exp(-sqrt(5) r).

    Parameters
    ----------
    sigma : float, array of shape (n_features,) or None
        Width in the units of the columns. None: chosen by leave-one-out, in units of each column's spread.
    nu : {0.5, 1.5, 2.5}
        Smoothness.
    ard : bool
        Whether a width left at None may differ from column to column.
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

    def _from_squared_distance(self, D: Array) -> None:
        xp = _xp.namespace(D)
        D *= 2.0 * self.nu
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
        r = math.sqrt(2 * self.nu) * xp.sqrt(D)
        if self.nu == 0.5:  # -dk/d(r^2) = exp(-r)/(2r) multiplies (x_c - z_c)^2 <= r^2: nothing is lost at r = 0
            return xp.where(r > 1e-8, xp.exp(-r) / (2 * xp.where(r > 1e-8, r, r + 1)), 0.0 * r)
        if self.nu == 1.5:
            return 1.5 * xp.exp(-r)
        return 5 / 6 * (1 + r) * xp.exp(-r)


class Distances:
    """|x_i - z_j|^2 for centred, scaled inputs, never negative, zero for identical rows, written by tiles.

    Up to four columns differences are squared and summed. Beyond that |x|^2 + |z|^2 - 2xz is one matrix product; with
    `exact_small`, or where that form would cost more than about 1e-14, the entries in which it cancels are done again
    from the differences.
    """

    def __init__(self, X: Array, Z: Array, *, exact_small: bool = True) -> None:
        xp = _xp.namespace(X, Z)
        self.X, self.Z = X, Z
        self.depth = X.shape[1] + 2
        if X.shape[1] <= 4:
            return
        self.x2, self.z2 = xp.sum(X * X, axis=1), xp.sum(Z * Z, axis=1)
        self.left = xp.concat([X, self.x2[:, None], xp.ones_like(self.x2)[:, None]], axis=1)
        self.right = xp.concat([-2.0 * Z, xp.ones_like(self.z2)[:, None], self.z2[:, None]], axis=1)
        self.largest = float(xp.max(self.x2)) + float(xp.max(self.z2)) if X.shape[0] and Z.shape[0] else 0.0
        self.exact_small = exact_small or self.largest > 64.0

    def write(self, out: Array, rows: slice, columns: slice) -> None:
        """Overwrite `out` with the distances of those rows to those columns."""
        if self.X.shape[1] <= 4:
            out[...] = 0.0
            for c in range(self.X.shape[1]):
                difference = self.X[rows, c][:, None] - self.Z[columns, c][None, :]
                difference *= difference
                out += difference
            return
        if _xp.is_numpy(out) or _xp.is_torch(out):
            _xp.namespace(out).matmul(self.left[rows, :], self.right[columns, :].T, out=out)
        else:
            out[...] = self.left[rows, :] @ self.right[columns, :].T
        if self.exact_small:
            self._mend(out, rows, columns)
        elif _xp.on_accelerator(out):
            return  # the exponential minds no rounding, and a pass over the memory is dear
        out[out < 8.0 * _xp.EPS * self.largest] = 0.0  # below the rounding of the sum: copies are at distance 0

    def _mend(self, out: Array, rows: slice, columns: slice) -> None:
        xp = _xp.namespace(out)
        i, j = xp.nonzero(out < 1e-3 * self.largest)
        x2, z2 = xp.take(self.x2[rows], i, axis=0), xp.take(self.z2[columns], j, axis=0)
        near = 1e-3 * (x2 + z2) > out[i, j]
        i, j = i[near], j[near]
        X, Z = self.X[rows, :], self.Z[columns, :]
        for part in _xp.row_blocks(i.shape[0], 16 * X.shape[1]):
            a, b = i[part], j[part]
            difference = xp.take(X, a, axis=0) - xp.take(Z, b, axis=0)
            _xp.put(out, (a, b), xp.sum(difference * difference, axis=1))


# Inner products -----------------------------------------------------------------------------------------------------
class Linear(Kernel):
    """Inner product x'z. With the unpenalised bias this is ridge regression."""

    def evaluate(self, X: Array, Z: Array) -> Array:
        return X @ Z.T

    def diagonal(self, X: Array) -> Array:
        return _xp.namespace(X).sum(X * X, axis=1)


class Polynomial(Kernel):
    """Polynomial kernel (x'z + coef0)^degree.

    Parameters
    ----------
    degree : int
        Degree, at least 1.
    coef0 : float
        Constant, not negative: 0 gives the homogeneous kernel.
    """

    def __init__(self, degree: int = 3, coef0: float = 1.0) -> None:
        self.degree = degree
        self.coef0 = coef0

    def check(self, n_features: int) -> None:
        if isinstance(self.degree, bool) or not (isinstance(self.degree, (int, np.integer)) and self.degree >= 1):
            raise ValueError(f"Polynomial: degree must be an integer of at least 1, got {self.degree!r}.")
        if not (isinstance(self.coef0, Real) and 0 <= float(self.coef0) < math.inf):
            raise ValueError(f"Polynomial: coef0 must be finite and not negative, got {self.coef0!r}.")

    def evaluate(self, X: Array, Z: Array) -> Array:
        with np.errstate(over="ignore"):
            return (X @ Z.T + float(self.coef0)) ** int(self.degree)

    def diagonal(self, X: Array) -> Array:
        with np.errstate(over="ignore"):
            return (_xp.namespace(X).sum(X * X, axis=1) + self.coef0) ** self.degree


# Kernels of kernels -------------------------------------------------------------------------------------------------
class Additive(Kernel):
    """A sum over the inputs of a kernel of one input each: sum_c k(x_c, z_c) (componentwise LS-SVM).

    Parameters
    ----------
    kernel : Kernel
        The kernel of each component; one with a `sigma` may hold one width a column.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    @property
    def parts(self) -> tuple[Kernel, ...]:
        return (self.kernel,)

    def evaluate(self, X: Array, Z: Array) -> Array:
        K = _xp.zeros((X.shape[0], Z.shape[0]), X)
        for c in range(X.shape[1]):
            K += self.kernel.column(c).evaluate(X[:, c : c + 1], Z[:, c : c + 1])
        return K

    def diagonal(self, X: Array) -> Array:
        total = _xp.zeros((X.shape[0],), X)
        for c in range(X.shape[1]):
            total += self.kernel.column(c).diagonal(X[:, c : c + 1])
        return total

    def gradient(self, X: Array, Z: Array, G: Array) -> Array:
        columns = [slice(c, c + 1) for c in range(X.shape[1])]
        terms = [self.kernel.column(c.start).gradient(X[:, c], Z[:, c], G) for c in columns]
        return _xp.namespace(X).concat(terms, axis=1)


class _Pair(Kernel):
    """Two kernels and what combines them."""

    def __init__(self, k1: Kernel, k2: Kernel) -> None:
        self.k1 = k1
        self.k2 = k2

    @property
    def parts(self) -> tuple[Kernel, ...]:
        return (self.k1, self.k2)


class Sum(_Pair):
    """k1 + k2."""

    def evaluate(self, X: Array, Z: Array) -> Array:
        K = self.k1.evaluate(X, Z)
        K += self.k2.evaluate(X, Z)
        return K

    def diagonal(self, X: Array) -> Array:
        return self.k1.diagonal(X) + self.k2.diagonal(X)


class Product(_Pair):
    """k1 * k2."""

    def evaluate(self, X: Array, Z: Array) -> Array:
        K = self.k1.evaluate(X, Z)
        K *= self.k2.evaluate(X, Z)
        return K

    def diagonal(self, X: Array) -> Array:
        return self.k1.diagonal(X) * self.k2.diagonal(X)

    def gradient(self, X: Array, Z: Array, G: Array) -> Array:
        first = self.k1.gradient(X, Z, G * self.k2.evaluate(X, Z))
        return _xp.namespace(X).concat([first, self.k2.gradient(X, Z, G * self.k1.evaluate(X, Z))])


class Choice(Kernel):
    """One of several kernels: the one with the smallest leave-one-out error takes its place at `fit`.

    Parameters
    ----------
    kernels : list of Kernel
        Each with a width left at None.
    """

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        self.kernels = kernels

    @property
    def parts(self) -> tuple[Kernel, ...]:
        return tuple(self.kernels)

    @property
    def is_free(self) -> bool:
        return True


# Kernels from outside -----------------------------------------------------------------------------------------------
class Precomputed(Kernel):
    """The user's own kernel matrix: square at `fit`, rows x training rows (or rows x basis) at `predict`."""

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
    """Any callable k(X, Z) that returns the matrix of kernel values."""

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
        return K + 0.0

    def diagonal(self, X: Array) -> Array:
        xp = _xp.namespace(X)
        return xp.concat([xp.reshape(self.evaluate(X[i : i + 1, :], X[i : i + 1, :]), (1,)) for i in range(X.shape[0])])


def as_kernel(kernel: Any) -> Kernel:
    """A Kernel from a Kernel or a callable."""
    if isinstance(kernel, Kernel):
        for part in kernel.parts:
            if not isinstance(part, Kernel):
                as_kernel(part)
                raise TypeError(f"{type(kernel).__name__} holds {part!r}: write kernels.Function({part!r}).")
            if part.is_precomputed:
                raise ValueError(
                    f"Precomputed cannot be combined in {type(kernel).__name__}, its inputs are no columns: combine "
                    "the matrices themselves."
                )
            as_kernel(part)
        return kernel
    if isinstance(kernel, type) and issubclass(kernel, Kernel):
        raise TypeError(f"kernel={kernel.__name__} is a class: write {kernel.__name__}().")
    if callable(kernel):
        return Function(kernel)
    raise TypeError(f"kernel={kernel!r} is not a kernel: give one of lssvm.kernels, e.g. RBF(), or a callable k(X, Z).")
