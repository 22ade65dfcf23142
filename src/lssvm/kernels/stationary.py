"""Kernels that depend on the scaled distance: RBF and Matern."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from .. import arrays
from ..arrays import Array, ArrayLike
from ..progress import counted
from ..rules import Flag, numbers, one_of
from .base import Kernel, Term

LONG = 64.0  # Above this |x|^2 + |z|^2, the rounding error of |x|^2 + |z|^2 - 2xz exceeds about 1e-14.
FAR = 1e140  # Scaled values beyond this grow like a logarithm, so that squares and their sums are finite.
WIDTHS = numbers("positive: a number or one per column (inf drops a column)", 0, 1, above=0.0, finite=False)
Width = Annotated[ArrayLike, WIDTHS]
Smoothness = Annotated[float, one_of(0.5, 1.5, 2.5)]
CENTRE_ROWS = 1000  # The median is computed from about this many rows.
MANY_COLUMNS = 400  # With more columns, those of infinite width are left out of the distances.
COMPILED = 32, 2**33  # Products of at most so many columns and at least so many kernel values are worth compiling,
VECTORS = 16  # for up to so many vectors that share the kernel values.
BLOCK = 128  # Each of so many threads computes two rows.


class _Stationary(Kernel):
    """A kernel of the scaled distance r = |(x - z)/sigma|; sigma is a scalar or has one value per column."""

    sigma: Any

    is_bounded = True

    def check(self, n_features: int) -> None:
        super().check(n_features)
        self._widths(n_features)

    def _widths(self, n_features: int) -> np.ndarray:
        """Return one width per column."""
        name = type(self).__name__
        if self.sigma is None:
            raise ValueError(f"{name}(sigma=None) has no width yet: give sigma, or fit a model, which chooses it.")
        widths = np.asarray(arrays.to_numpy(self.sigma), dtype=float)
        if widths.shape not in ((), (1,), (n_features,)):
            found = f"sigma has shape {widths.shape}, but X has {counted(n_features, 'column')}"
            raise ValueError(f"{name}: {found}: give a scalar or {counted(n_features, 'value')}.")
        return np.broadcast_to(widths, (n_features,)).copy()

    def evaluate(self, X: Array, Z: Array) -> Array:
        return self._write(arrays.empty((X.shape[0], Z.shape[0]), X), X, Z)

    def fill(self, out: Array, X: Array, Z: Array, *, symmetric: bool = False) -> Array:
        if type(self).evaluate is not _Stationary.evaluate:  # the values of a user's subclass
            return super().fill(out, X, Z)
        if symmetric and arrays.is_numpy(out):
            return self._write(out, X, Z, symmetric=True)
        for rows in arrays.row_blocks(X.shape[0], 32 * X.shape[1], X):  # only scaled copies of X take extra memory
            self._write(out[rows, :], X[rows, :], Z)
        return out

    def _write(self, out: Array, X: Array, Z: Array, *, symmetric: bool = False) -> Array:
        """Compute distances and kernel values tile by tile, while a tile is in the cache."""
        distances = Distances(X, Z, self._widths(X.shape[1]), exact_small=self._needs_exact_small)

        @np.errstate(under="ignore")
        def tile(rows: slice, columns: slice) -> None:
            part = out[rows, columns]
            distances.write(part, rows, columns)
            self._of_negative_distance(part)
            if symmetric and columns.stop <= rows.start:
                out[columns, rows] = part.T

        arrays.in_tiles(tile, out, distances.depth, symmetric=symmetric)
        return out

    def dot(self, X: Array, Z: Array, coef: Array, *, single: bool = False) -> Array:
        widths = self._widths(X.shape[1])
        used, size = np.flatnonzero(np.isfinite(widths)), X.shape[0] * Z.shape[0]
        suits = type(self) in (RBF, Matern) and arrays.on_accelerator(X) and 0 < len(used) <= COMPILED[0]
        if size < COMPILED[1] or X.shape[0] < 256 * BLOCK or not suits or compiler() is None:
            return super().dot(X, Z, coef)
        X, Z = (arrays.take(part.T, used).T for part in (X, Z))
        scaled = Distances(X, Z, widths[used], exact_small=False)
        return product(scaled.X, scaled.Z, coef, int(2 * getattr(self, "nu", 0)), single=single)

    def diagonal(self, X: Array) -> Array:
        return arrays.zeros((X.shape[0],), X) + 1.0

    def gradient(self, X: Array, Z: Array, G: Array) -> Array:
        return self.both_gradients(X, Z, G, points=False)[0]

    def point_gradient(self, X: Array, Z: Array, G: Array) -> Array:
        return self.both_gradients(X, Z, G)[1]

    def both_gradients(self, X: Array, Z: Array, G: Array, *, points: bool = True) -> tuple[Array, Array]:
        """Return 2 sum_ij W_ij (x_ic - z_jc)^2 and 2 sum_i W_ij (x_i - z_j)/sigma for scaled inputs, W = -G dk/d(r^2).

        They are computed tile by tile, while a tile is in the cache. Without `points`, the second one is 0.
        """
        distances = Distances(X, Z, self._widths(X.shape[1]), exact_small=self._needs_exact_small)
        xp = arrays.namespace(X)
        with_one = xp.concat([distances.Z, xp.ones_like(distances.z2)[:, None]], axis=1)

        @np.errstate(under="ignore")
        def tile(rows: slice, columns: slice) -> tuple[Array, Array, slice]:
            W = arrays.empty((rows.stop - rows.start, columns.stop - columns.start), G)
            close = distances.write(W, rows, columns, find=True)
            self._of_negative_distance(W, slope=True)
            W *= G[rows, columns]
            X, Z = distances.X[rows, :], distances.Z[columns, :]
            in_widths, in_points = xp.zeros_like(X[:1, :]), xp.zeros_like(Z if points else Z[:0, :])
            for pairs, difference in distances.differences(close, rows, columns):  # for them, the sums below cancel
                weighted = W[pairs][:, None] * difference
                arrays.put(W, pairs, 0.0)
                in_widths += xp.sum(weighted * difference, axis=0)[None, :]
                if points:
                    arrays.add_at(in_points, pairs[1:], weighted)
            product, in_columns = W @ with_one[columns, :], xp.sum(W, axis=0)
            total = product[:, -1] @ (X * X) + in_columns @ (Z * Z) - 2.0 * xp.sum(X * product[:, :-1], axis=0)
            if points:
                in_points += W.T @ X - in_columns[:, None] * Z
            return in_widths + total[None, :], in_points, columns

        in_widths, in_points = xp.zeros_like(distances.X[:1, :]), xp.zeros_like(distances.Z)
        for of_tile, of_points, columns in arrays.in_tiles(tile, G, distances.depth):
            in_widths += of_tile
            if points:
                in_points[columns, :] += of_points
        gradients = 2.0 * xp.concat([in_widths, in_points / distances.sigma], axis=0)
        if distances.used is not None:  # the derivatives in other columns are 0
            gradients = arrays.put(arrays.zeros((X.shape[1], gradients.shape[0]), X), distances.used, gradients.T).T
        return gradients[:1, :], gradients[1:, :]

    def _used(self, inputs: Mapping[int, list[int]]) -> dict[int, list[int]]:
        widths = self._widths(sum(map(len, inputs.values())))
        return {number: group for number, group in inputs.items() if np.isfinite(widths[group]).any()}

    _needs_exact_small = False

    def _of_negative_distance(self, D: Array, *, slope: bool = False) -> None:
        """Overwrite -r^2 with kernel values or, with `slope`, with -dk/d(r^2).

        The derivative in log sigma_c is 2 * slope * (x_c - z_c)^2/sigma_c^2.
        """
        raise TypeError(f"{type(self).__name__} does not define _of_negative_distance(D, slope).")


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

    def __init__(self, sigma: Width | None = None, ard: Flag = False) -> None:
        self.sigma = sigma
        self.ard = ard

    separates = "product"

    def _of_negative_distance(self, D: Array, *, slope: bool = False) -> None:
        if arrays.is_numpy(D) or arrays.is_torch(D):
            arrays.namespace(D).exp(D, out=D)
        else:
            D[...] = arrays.namespace(D).exp(D)


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

    def __init__(self, sigma: Width | None = None, nu: Smoothness = 1.5, ard: Flag = False) -> None:
        self.sigma = sigma
        self.nu = nu
        self.ard = ard

    def terms(self, inputs: Mapping[int, list[int]]) -> list[Term]:
        """Return the mean of Gaussian kernels exp(-s r^2) over s, where 1/s has a gamma distribution.

        The trapezoidal rule in log s is accurate to 1e-6 of k(x, x).
        """
        widths, used = self._widths(sum(map(len, inputs.values()))), self._used(inputs)
        if len(used) < 2:
            return super().terms(inputs)
        log_s = np.arange(-4.5, 15.0 / self.nu, 0.45)
        weights = np.exp(-self.nu * log_s - 0.5 * self.nu * np.exp(-log_s))
        weights /= weights.sum()
        return [
            (float(weight), {number: (group, RBF(widths[group] * scale)) for number, group in used.items()})
            for weight, scale in zip(weights, np.exp(-0.5 * log_s), strict=True)
        ]

    def _of_negative_distance(self, D: Array, *, slope: bool = False) -> None:
        xp = arrays.namespace(D)
        D *= -2.0 * self.nu
        D[...] = xp.sqrt(D)
        decay = xp.exp(-D)
        if self.nu == 0.5 and slope:  # exp(-r)/(2r) multiplies (x_c - z_c)^2 <= r^2: nothing is lost at r = 0
            decay = xp.where(D > 1e-8, decay / (2.0 * xp.where(D > 1e-8, D, D + 1.0)), 0.0 * D)
        if self.nu == 0.5:
            D[...] = decay
        elif self.nu == 1.5 and slope:
            D[...] = 1.5 * decay
        else:
            if self.nu == 2.5 and not slope:
                D *= 1.0 + D / 3.0
            D += 1.0
            D *= 5 / 6 * decay if slope else decay


class Distances:
    """-|x_i - z_j|^2 for inputs divided by sigma, written by tiles: never positive, and zero for identical rows.

    With up to four columns, differences are squared and summed. With more, 2xz - |x|^2 - |z|^2 is one matrix product,
    after a centre has been subtracted, so that an offset common to all rows causes no cancellation. Close pairs far
    from the centre do suffer from it: with `exact_small`, or if the error would exceed about 1e-14, they are recomputed
    from the differences. Which pairs these are does not depend on other rows: one far row must not change the values
    of all others. Storing the negative distance saves the exponential a pass over the memory.
    """

    def __init__(self, X: Array, Z: Array, sigma: np.ndarray, *, exact_small: bool) -> None:
        xp, finite = arrays.namespace(X, Z), np.flatnonzero(np.isfinite(sigma))
        self.used = None  # the columns of the inputs that X and Z are, if not all
        if X.shape[1] > MANY_COLUMNS and 2 * len(finite) < X.shape[1]:
            self.used = finite
            X, Z, sigma = arrays.take(X.T, finite).T, arrays.take(Z.T, finite).T, sigma[finite]
        self.sigma = sigma = arrays.like(sigma, X)
        self.depth = X.shape[1] + 2
        with np.errstate(over="ignore", invalid="ignore"):
            centre = xp.mean(Z, axis=0) if Z.shape[0] else 0.0 * sigma
            for most in (LONG, FAR**2, np.inf):
                self.X, self.Z = (X - centre) / sigma, (Z - centre) / sigma
                if most == np.inf:
                    self.X, self.Z = _saturated(X, centre, sigma), _saturated(Z, centre, sigma)
                self.x2, self.z2 = arrays.row_squares(self.X), arrays.row_squares(self.Z)
                self.largest = float(xp.max(self.x2) + xp.max(self.z2)) if X.shape[0] and Z.shape[0] else 0.0
                if self.largest < most:
                    break
                # the median of every column, of about a thousand rows: unlike the mean, it does not follow a far row
                ordered = xp.sort(Z[:: -(-Z.shape[0] // CENTRE_ROWS), :], axis=0)
                low, high = ordered[(ordered.shape[0] - 1) // 2, :], ordered[ordered.shape[0] // 2, :]
                centre = xp.where(xp.abs(low) < xp.abs(high), low, high)  # one of two rows may be far
        self.exact_small = exact_small or self.largest > LONG
        if self.exact_small:  # |x - z|^2 < 1e-3 (|x|^2 + |z|^2) implies |x - z|^2 < 2.2e-3 |x|^2
            long, limit = self.x2 > (-1.0 if exact_small else LONG / 2), -2.2e-3 * self.x2
            self.limit = xp.where(long, limit, -16.0 * arrays.EPS * self.x2)[:, None]
        if X.shape[1] <= 4:
            return
        self.left = xp.concat([self.X, self.x2[:, None], xp.ones_like(self.x2)[:, None]], axis=1)
        self.right = xp.concat([2.0 * self.Z, -xp.ones_like(self.z2)[:, None], -self.z2[:, None]], axis=1)

    def write(self, out: Array, rows: slice, columns: slice, *, find: bool = False) -> Array | None:
        """Overwrite `out` with the values of those rows and columns.

        With `find`, return the places of the close pairs in the tile, over which sums of squares cancel; None: nowhere.
        """
        few, xp = self.X.shape[1] <= 4, arrays.namespace(out)
        if few:
            out[...] = 0.0
            for c in range(self.X.shape[1]):
                difference = self.X[rows, c][:, None] - self.Z[columns, c][None, :]
                difference *= difference
                out -= difference
        elif arrays.is_numpy(out) or arrays.is_torch(out):
            xp.matmul(self.left[rows, :], self.right[columns, :].T, out=out)
        else:
            out[...] = self.left[rows, :] @ self.right[columns, :].T
        if self.exact_small and (find or not few):
            close = xp.nonzero(xp.reshape(out > self.limit[rows, :], (-1,)))[0]  # much faster than with two indices
            for pairs, difference in self.differences(None if few else close, rows, columns):
                arrays.put(out, pairs, -xp.sum(difference * difference, axis=1))
            return close
        if not (few or self.exact_small or arrays.on_accelerator(out)):  # there, this pass costs more than exp
            out[out > -8.0 * arrays.EPS * self.largest] = 0.0  # below the rounding error: identical rows
        return None

    def differences(
        self, places: Array | None, rows: slice, columns: slice
    ) -> Iterator[tuple[tuple[Array, Array], Array]]:
        """Yield row and column numbers of pairs in a tile, and the differences between their rows, in blocks."""
        if places is None or not places.shape[0]:
            return
        X, Z, xp = self.X[rows, :], self.Z[columns, :], arrays.namespace(self.X)
        for part in arrays.row_blocks(places.shape[0], 16 * X.shape[1]):
            i, j = places[part] // Z.shape[0], places[part] % Z.shape[0]
            yield (i, j), xp.take(X, i, axis=0) - xp.take(Z, j, axis=0)


def _saturated(A: Array, centre: Array, sigma: Array) -> Array:
    """Return (A - centre)/sigma, growing like a logarithm beyond FAR: squares are finite, and values stay distinct."""
    xp, most = arrays.namespace(A), float(np.finfo(np.float64).max) / 4.0
    A = (xp.clip(A, -most, most) - xp.clip(centre, -most, most)) / sigma
    size = xp.clip(xp.abs(A), FAR, most)
    return xp.where(xp.abs(A) > FAR, xp.sign(A) * FAR * (1.0 + xp.log(size / FAR)), A)


# Products with vectors in one pass on an NVIDIA GPU, compiled by CuPy for the shape of the data -----------------------
def product(X: Array, Z: Array, coef: Array, twice_nu: int, *, single: bool) -> Array:
    """Return k(X, Z) @ coef for scaled inputs; with `single`, (k(X, Z) - 1) @ coef from values in float32."""
    xp, device, (rows, columns), found = arrays.namespace(X), arrays.device(X), X.shape, []
    real, name = (xp.float32, "float") if single else (xp.float64, "double")
    left = xp.zeros((rows, columns), dtype=real, device=device)
    left[...] = X  # by rows
    for start in range(0, coef.shape[1], VECTORS):
        some = coef[:, start : start + VECTORS]
        vectors = 1 if some.shape[1] == 1 else VECTORS
        points = xp.zeros((Z.shape[0], 4 * -(-(columns + vectors) // 4)), dtype=real, device=device)
        points[:, :columns] = Z
        points[:, columns : columns + some.shape[1]] = some
        values = left, points, arrays.empty((vectors, rows), X), xp.asarray([rows, Z.shape[0]], device=device)
        with compiler().cuda.Device(int(getattr(device, "index", device) or 0)) as own:
            own.synchronize()  # X may belong to another stream
            launch = program(name, columns, vectors, twice_nu)
            launch((-(-rows // (2 * BLOCK)),), (BLOCK,), tuple(map(compiler().asarray, values)))
            own.synchronize()
        found.append(values[2][: some.shape[1], :])
    return xp.concat(found).T


@cache
def compiler() -> Any:
    """Return CuPy if it can compile; None otherwise, and products are computed from blocks of kernel values."""
    try:
        import cupy

        cupy.RawKernel(source("double", 1, 1, 0), "product").compile()
    except Exception:  # it is not installed, or there is no GPU or no CUDA that it can use
        return None
    return cupy


@cache
def program(*parameters: Any) -> Any:
    """Return the compiled program, whose float functions may have fewer digits."""
    return compiler().RawKernel(source(*parameters), "product", options=("--use_fast_math",))


def source(real: str, columns: int, vectors: int, twice_nu: int) -> str:
    """Return the program for a type of numbers, number of columns and of vectors, and kernel (0: Gaussian)."""
    terms = []
    for n in range(1, 11 if real == "float" else 15):  # of the power series of k - 1
        term = (-1) ** n * (1 - n * (twice_nu > 1) + n * (n - 1) / 3 * (twice_nu > 3)) / math.factorial(n)
        terms.append(f"t * (REAL({term!r})")
    names: dict[str, Any] = {"REAL": real, "COLUMNS": columns, "VECTORS": vectors, "TWICE_NU": twice_nu, "BLOCK": BLOCK}
    names["SERIES"] = " + ".join(terms) + ")" * len(terms)
    text = Path(__file__).with_name("product.cu").read_text(encoding="utf-8")
    return "".join(f"#define {name} {value}\n" for name, value in names.items()) + text
