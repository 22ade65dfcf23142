"""Kernels that depend on the scaled distance: RBF and Matern."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import arrays
from ..arrays import Array, ArrayLike
from .base import Kernel, Term

MANY_COLUMNS = 400  # with more, columns of infinite width are left out of the distances


class _Stationary(Kernel):
    """A kernel of the scaled distance r = |(x - z)/sigma|; sigma is a scalar or has one value per column."""

    sigma: Any

    def _widths(self, n_features: int) -> np.ndarray:
        self.check(n_features)
        return np.broadcast_to(np.asarray(arrays.to_numpy(self.sigma), dtype=float), (n_features,)).copy()

    def check(self, n_features: int) -> None:
        name = type(self).__name__
        if self.sigma is None:
            raise ValueError(f"{name}(sigma=None) has no width yet: give sigma, or fit a model, which chooses it.")
        try:
            widths = np.asarray(arrays.to_numpy(self.sigma), dtype=float)
        except (TypeError, ValueError):
            raise ValueError(f"{name}: sigma must be a number or one number per column, got {self.sigma!r}.") from None
        if widths.ndim > 1 or (widths.ndim == 1 and widths.shape[0] not in (1, n_features)):
            raise ValueError(
                f"{name}: sigma has shape {widths.shape}, but X has {n_features} columns: give a scalar or "
                f"{n_features} values."
            )
        if not np.all(widths > 0):
            raise ValueError(f"{name}: sigma must be positive (inf drops a column), got {self.sigma!r}.")

    def evaluate(self, X: Array, Z: Array) -> Array:
        return self._write(arrays.empty((X.shape[0], Z.shape[0]), X), X, Z)

    def fill(self, out: Array, X: Array, Z: Array) -> Array:
        for rows in arrays.row_blocks(X.shape[0], 32 * X.shape[1], X):  # only scaled copies of X take extra memory
            self._write(out[rows, :], X[rows, :], Z)
        return out

    def fill_symmetric(self, out: Array, X: Array, Z: Array) -> Array:
        return self._write(out, X, Z, symmetric=True) if arrays.is_numpy(out) else self.fill(out, X, Z)

    def _write(self, out: Array, X: Array, Z: Array, *, symmetric: bool = False) -> Array:
        """Compute distances and kernel values tile by tile, while a tile is in the cache."""
        used = self._few_used(X.shape[1])
        if used is not None:
            X, Z = (arrays.take(part.T, used).T for part in (X, Z))
            return self.columns(used)._write(out, X, Z, symmetric=symmetric)
        distances = self._distances(X, Z)

        @np.errstate(under="ignore")
        def tile(rows: slice, columns: slice) -> None:
            part = out[rows, columns]
            distances.write(part, rows, columns)
            self._from_negative_distance(part)
            if symmetric and columns.stop <= rows.start:
                out[columns, rows] = part.T

        arrays.in_tiles(tile, out, distances.depth, symmetric=symmetric)
        return out

    def _few_used(self, n_features: int) -> list[int] | None:
        """The columns with a finite width, if they are a small part of very many columns."""
        if n_features <= MANY_COLUMNS:
            return None
        used = np.flatnonzero(np.isfinite(self._widths(n_features))).tolist()
        return used if 2 * len(used) < n_features else None

    def diagonal(self, X: Array) -> Array:
        return arrays.zeros((X.shape[0],), X) + 1.0

    @property
    def is_bounded(self) -> bool:
        return True  # `_distances` raises an error on overflow

    def _distances(self, X: Array, Z: Array) -> Distances:
        """Centre and divide by sigma: a large common offset then causes no cancellation in |x|^2 + |z|^2 - 2xz."""
        widths = self._widths(X.shape[1])
        sigma = arrays.like(widths, X)
        with np.errstate(over="ignore", invalid="ignore"):
            centre = arrays.namespace(X, Z).mean(Z, axis=0) if Z.shape[0] else 0.0
            distances = Distances((X - centre) / sigma, (Z - centre) / sigma, exact_small=self._needs_exact_small)
        if not math.isfinite(16.0 * distances.largest * X.shape[0] * Z.shape[0]):  # a bound on their sums
            with np.errstate(over="ignore"):
                largest = np.max(np.abs(arrays.to_numpy(X)) / widths, axis=0)
            raise arrays.NumericalError(
                f"{type(self).__name__}: distances overflow (the largest |x|/sigma is {largest.max():.3g}, in column "
                f"{int(largest.argmax())}): scale your features or increase sigma."
            )
        return distances

    def gradient(self, X: Array, Z: Array, G: Array) -> Array:
        """2 sum_ij W_ij (x_ic - z_jc)^2, W = -G dk/d(r^2), tile by tile, while a tile is in the cache."""
        xp = arrays.namespace(X)
        used = self._few_used(X.shape[1])
        if used is not None:
            out = arrays.zeros((X.shape[1], 1), X)
            X, Z = (arrays.take(part.T, used).T for part in (X, Z))
            return arrays.put(out, used, self.columns(used).gradient(X, Z, G).T).T
        distances = self._distances(X, Z)
        with_one = xp.concat([distances.Z, xp.ones_like(distances.z2)[:, None]], axis=1)
        parts: dict[tuple[int, int], Array] = {}

        @np.errstate(under="ignore")
        def tile(rows: slice, columns: slice) -> None:
            W = arrays.empty((rows.stop - rows.start, columns.stop - columns.start), X)
            distances.write(W, rows, columns)
            W = self._slope(W)
            W *= G[rows, columns]
            product = W @ with_one[columns, :]
            parts[rows.start, columns.start] = self._width_gradient(
                distances.X[rows, :], distances.Z[columns, :], product[:, :-1], product[:, -1], xp.sum(W, axis=0)
            )

        arrays.in_tiles(tile, G, distances.depth)
        return sum((parts[place] for place in sorted(parts)), start=xp.zeros_like(distances.X[:1, :]))

    def point_gradient(self, X: Array, Z: Array, G: Array) -> Array:
        distances = self._distances(X, Z)
        W = self._weighted_slope(distances, G)
        return self._place_gradient(distances, W, arrays.namespace(X).sum(W, axis=0))

    def both_gradients(self, X: Array, Z: Array, G: Array) -> tuple[Array, Array]:
        xp, distances = arrays.namespace(X), self._distances(X, Z)
        W = self._weighted_slope(distances, G)
        X, Z = distances.X, distances.Z
        in_rows, in_columns = xp.sum(W, axis=1), xp.sum(W, axis=0)
        in_widths = self._width_gradient(X, Z, arrays.matmul(W, Z), in_rows, in_columns)
        return in_widths, self._place_gradient(distances, W, in_columns)

    @staticmethod
    def _width_gradient(X: Array, Z: Array, product: Array, in_rows: Array, in_columns: Array) -> Array:
        """2 sum_ij W_ij (x_ic - z_jc)^2 for every column c, from the product W Z and the row and column sums of W."""
        total = in_rows @ (X * X) + in_columns @ (Z * Z)
        return 2.0 * (total - 2.0 * arrays.namespace(X).sum(X * product, axis=0))[None, :]

    def _place_gradient(self, distances: Distances, W: Array, in_columns: Array) -> Array:
        """2 sum_i W_ij (x_i - z_j)/sigma for scaled inputs, from W and its column sums."""
        X, Z = distances.X, distances.Z
        change = arrays.matmul(W.T, X) - in_columns[:, None] * Z
        return 2.0 * change / arrays.like(self._widths(X.shape[1]), X)

    def _weighted_slope(self, distances: Distances, G: Array) -> Array:
        """G times -dk/d(r^2)."""
        W = arrays.empty(G.shape, G)

        def tile(rows: slice, columns: slice) -> None:
            part = W[rows, columns]
            distances.write(part, rows, columns)
            part[...] = self._slope(part)
            part *= G[rows, columns]

        arrays.in_tiles(tile, W, distances.depth)
        return W

    def terms(self, inputs: Mapping[int, list[int]]) -> list[Term]:
        return super().terms(self._used(inputs))

    def _used(self, inputs: Mapping[int, list[int]]) -> dict[int, list[int]]:
        """The inputs with a finite width."""
        widths = self._widths(sum(map(len, inputs.values())))
        return {number: group for number, group in inputs.items() if np.isfinite(widths[group]).any()}

    _needs_exact_small = False

    def _from_negative_distance(self, D: Array) -> None:
        """Overwrite -r^2 with kernel values."""
        raise TypeError(f"{type(self).__name__} does not define _from_negative_distance(D).")

    def _slope(self, D: Array) -> Array:
        """-dk/d(r^2) from -r^2: the derivative in log sigma_c is then 2 * slope * (x_c - z_c)^2/sigma_c^2."""
        raise TypeError(f"{type(self).__name__} does not define _slope(D).")


class RBF(_Stationary):
    r"""Gaussian kernel.

    .. math:: k(x, z) = \exp\left(-\sum_c (x_c - z_c)^2 / \sigma_c^2\right)

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

    def __init__(self, sigma: ArrayLike | None = None, ard: bool = False) -> None:
        self.sigma = sigma
        self.ard = ard

    def terms(self, inputs: Mapping[int, list[int]]) -> list[Term]:
        return [{number: (group, self.columns(group)) for number, group in self._used(inputs).items()}]

    def _from_negative_distance(self, D: Array) -> None:
        if arrays.is_numpy(D):
            np.exp(D, out=D)
        elif arrays.is_torch(D):
            D.exp_()
        else:
            D[...] = arrays.namespace(D).exp(D)

    def _slope(self, D: Array) -> Array:
        return arrays.namespace(D).exp(D)


class Matern(_Stationary):
    r"""Matern kernel, a function of the scaled distance with a choice of smoothness.

    With :math:`r^2 = \sum_c (x_c - z_c)^2 / \sigma_c^2`, the kernel is

    .. math::

        k(x, z) = \begin{cases}
            e^{-r} & \nu = 1/2 \\
            (1 + \sqrt{3} \, r) \, e^{-\sqrt{3} \, r} & \nu = 3/2 \\
            (1 + \sqrt{5} \, r + \frac{5}{3} r^2) \, e^{-\sqrt{5} \, r} & \nu = 5/2
        \end{cases}

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

    _needs_exact_small = True  # the square root turns an error of 1e-16 in r^2 into one of 1e-8 in r

    def __init__(self, sigma: ArrayLike | None = None, nu: float = 1.5, ard: bool = False) -> None:
        self.sigma = sigma
        self.nu = nu
        self.ard = ard

    def check(self, n_features: int) -> None:
        if self.nu not in (0.5, 1.5, 2.5):
            raise ValueError(f"Matern: nu must be 0.5, 1.5 or 2.5, got {self.nu!r}.")
        super().check(n_features)

    def _from_negative_distance(self, D: Array) -> None:
        xp = arrays.namespace(D)
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
        xp = arrays.namespace(D)
        r = xp.sqrt(-2.0 * self.nu * D)
        if self.nu == 0.5:  # -dk/d(r^2) = exp(-r)/(2r) multiplies (x_c - z_c)^2 <= r^2: nothing is lost at r = 0
            return xp.where(r > 1e-8, xp.exp(-r) / (2 * xp.where(r > 1e-8, r, r + 1)), 0.0 * r)
        if self.nu == 1.5:
            return 1.5 * xp.exp(-r)
        return 5 / 6 * (1 + r) * xp.exp(-r)


class Distances:
    """-|x_i - z_j|^2 for centred, scaled inputs, written by tiles: never positive, and zero for identical rows.

    With up to four columns, differences are squared and summed. With more, 2xz - |x|^2 - |z|^2 is one matrix product;
    with `exact_small`, or if its error would exceed about 1e-14, entries that suffer from cancellation are recomputed
    from the differences. Storing the negative distance saves the exponential a pass over the memory.
    """

    def __init__(self, X: Array, Z: Array, *, exact_small: bool = True) -> None:
        xp = arrays.namespace(X, Z)
        self.X, self.Z = X, Z
        self.depth = X.shape[1] + 2
        self.x2, self.z2 = arrays.row_squares(X), arrays.row_squares(Z)
        self.largest = float(xp.max(self.x2) + xp.max(self.z2)) if X.shape[0] and Z.shape[0] else 0.0
        if X.shape[1] <= 4:
            return
        self.left = xp.concat([X, self.x2[:, None], xp.ones_like(self.x2)[:, None]], axis=1)
        self.right = xp.concat([2.0 * Z, -xp.ones_like(self.z2)[:, None], -self.z2[:, None]], axis=1)
        self.exact_small = exact_small or self.largest > 64.0

    def write(self, out: Array, rows: slice, columns: slice) -> None:
        """Overwrite `out` with the values of those rows and columns."""
        if self.X.shape[1] <= 4:
            out[...] = 0.0
            for c in range(self.X.shape[1]):
                difference = self.X[rows, c][:, None] - self.Z[columns, c][None, :]
                difference *= difference
                out -= difference
            return
        if arrays.is_numpy(out) or arrays.is_torch(out):
            arrays.namespace(out).matmul(self.left[rows, :], self.right[columns, :].T, out=out)
        else:
            out[...] = self.left[rows, :] @ self.right[columns, :].T
        if self.exact_small:
            self._mend(out, rows, columns)
        elif arrays.on_accelerator(out):
            return  # the exponential is insensitive to rounding, and a pass over the memory is expensive
        out[out > -8.0 * arrays.EPS * self.largest] = 0.0  # below the rounding error: identical rows get distance 0

    def _mend(self, out: Array, rows: slice, columns: slice) -> None:
        xp, at_once = arrays.namespace(out), arrays.on_accelerator(out)
        x2, z2 = self.x2[rows], self.z2[columns]
        limit = -1e-3 * (x2[:, None] + z2[None, :] if at_once else self.largest)
        place = xp.nonzero(xp.reshape(out > limit, (-1,)))[0]  # much faster than with two indices
        i, j = place // out.shape[1], place % out.shape[1]
        if not at_once:
            near = -1e-3 * (xp.take(x2, i, axis=0) + xp.take(z2, j, axis=0)) < out[i, j]
            i, j = i[near], j[near]
        X, Z = self.X[rows, :], self.Z[columns, :]
        for part in arrays.row_blocks(i.shape[0], 16 * X.shape[1]):
            a, b = i[part], j[part]
            difference = xp.take(X, a, axis=0) - xp.take(Z, b, axis=0)
            arrays.put(out, (a, b), -xp.sum(difference * difference, axis=1))
