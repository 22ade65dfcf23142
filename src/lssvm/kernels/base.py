"""The kernel interface: `Kernel`, sums and products, kernels from functions and matrices, and `as_kernel`."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from sklearn.base import BaseEstimator

from .. import arrays
from ..arrays import Array
from ..rules import Rule, check_parameters, shown

Term = tuple[float, dict[int, tuple[list[int], "Kernel"]]]  # a factor, and the kernel of each input with its columns
"""A product of kernels of one input each: for the number of each input, its columns and the kernel of these."""


class Kernel(BaseEstimator):
    """Base class of all kernels.

    Subclasses define ``evaluate(X, Z)``, which returns a new float64 matrix with one row per row of X and one column
    per row of Z, and ``diagonal(X)``. A kernel with a parameter `sigma` that may be None also defines
    ``gradient(X, Z, G)``; `sigma` then holds one value per column whenever these methods are called. A kernel made of
    other kernels lists them in `parts`.
    """

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        """Check the parameters and return the kernel matrix of the rows of X and the rows of Z (of X if Z is None)."""
        self.check(X.shape[1])
        return self.evaluate(X, X if Z is None else Z)

    def evaluate(self, X: Array, Z: Array) -> Array:
        """Return the whole kernel matrix between the rows of X and the rows of Z."""
        raise TypeError(f"{type(self).__name__} does not define evaluate(X, Z).")

    def diagonal(self, X: Array) -> Array:
        """Return k(x, x) for every row x."""
        raise TypeError(f"{type(self).__name__} does not define diagonal(X).")

    def fill(self, out: Array, X: Array, Z: Array, *, symmetric: bool = False) -> Array:
        """Write the kernel matrix into `out`, in blocks of rows that stay within the working memory.

        For a `symmetric` matrix, Z holds the basis points of the rows X, so half of the values suffice.
        """
        for rows in arrays.row_blocks(X.shape[0], 8 * Z.shape[0], X):
            out[rows, :] = self.evaluate(X[rows, :], Z)
        return out

    def dot(self, X: Array, Z: Array, coef: Array, *, single: bool = False) -> Array:
        """Return k(X, Z) @ coef, in blocks of rows: the whole kernel matrix is never stored.

        With `single`, for columns of `coef` with a sum of 0, values may have single precision, if that is faster.
        """
        out = arrays.empty((X.shape[0], coef.shape[1]), coef)
        for rows in arrays.row_blocks(X.shape[0], 8 * Z.shape[0], X):
            K = self.evaluate(X[rows, :], Z)
            with np.errstate(over="ignore", invalid="ignore"):
                out[rows, :] = arrays.matmul(K, coef)
        return out

    def basis_points(self, X: Array, support: np.ndarray) -> Array:
        """Return the basis points that the row numbers `support` of the training inputs X stand for."""
        return arrays.take(X, support)

    # The tree of kernels ----------------------------------------------------------------------------------------------
    @property
    def parts(self) -> tuple[Kernel, ...]:
        """The kernels inside this one."""
        return ()

    def rebuilt(self, change: Callable[[Kernel], Mapping[str, Any]]) -> Kernel:
        """Return a copy in which every kernel of the tree has the attributes that `change` returns for it.

        A kernel is visited before its parts, and parts from left to right, as in `leaves`.
        """
        kernel = copy.copy(self)
        for name, value in change(self).items():
            setattr(kernel, name, value)
        for name, value in vars(self).items():
            if isinstance(value, Kernel):
                setattr(kernel, name, value.rebuilt(change))
            elif isinstance(value, (list, tuple)) and any(isinstance(part, Kernel) for part in value):
                setattr(kernel, name, [part.rebuilt(change) for part in value])
        return kernel

    def placed(self, X: Array) -> Kernel:
        """Return a copy whose data-dependent attributes, e.g. knots, are set from the training inputs X."""
        return self.rebuilt(lambda kernel: kernel.placement(X))

    def placement(self, X: Array) -> Mapping[str, Any]:
        """Return the attributes of this kernel that `placed` sets."""
        return {}

    def columns(self, group: Sequence[int]) -> Kernel:
        """Return a copy restricted to some columns: values given per column are reduced to those of the group."""
        return self.rebuilt(lambda kernel: kernel.restriction(group))

    def restriction(self, group: Sequence[int]) -> Mapping[str, Any]:
        """Return the attributes of this kernel that `columns` changes."""
        if not self.has_width or np.ndim(self.sigma) != 1 or len(self.sigma) == 1:
            return {}
        return {"sigma": np.asarray(arrays.to_numpy(self.sigma))[list(group)]}

    def terms(self, inputs: Mapping[int, list[int]]) -> list[Term]:
        """Return this kernel as a sum of multiples of products of kernels of one input each; ValueError if it is none.

        `inputs` holds the columns of each input, by its number; together, these are all columns.
        """
        inputs = self._used(inputs)
        if len(inputs) > 1 and not self.separates:
            raise ValueError(f"{type(self).__name__} is not a sum of products of one-column kernels.")
        terms = {number: (group, self.columns(group)) for number, group in inputs.items()}
        return [(1.0, {number: term}) for number, term in terms.items()] if self.separates == "sum" else [(1.0, terms)]

    def _used(self, inputs: Mapping[int, list[int]]) -> Mapping[int, list[int]]:
        """Return the inputs that the kernel depends on."""
        return inputs

    def check(self, n_features: int) -> None:
        """Raise ValueError if a parameter does not suit data with that many columns."""
        as_kernel(self)
        check_parameters(self)
        for part in self.parts:
            part.check(n_features)

    def check_values(self, X: Array) -> None:
        """Check users' own kernels in this tree on a few rows."""
        for part in self.parts:
            part.check_values(X)
        own = isinstance(self, Function) or type(self).__module__.rpartition(".")[0] != __name__.rpartition(".")[0]
        if own and not (self.parts or self.is_precomputed or self.is_free):
            _check_own_values(copy.deepcopy(self), X)  # a copy: any state of the user's kernel stays untouched

    # Properties -------------------------------------------------------------------------------------------------------
    ard = False  # whether a width left at None may differ from column to column
    separates = ""  # "sum" or "product" if it is that of kernels of one column each
    is_precomputed = False  # True if the inputs are the kernel matrix itself
    is_choice = False  # True for several kernels of which one is chosen in `fit`
    is_stack = False  # True for several kernels with a model each, whose predictions are averaged
    is_bounded = False  # True if no value exceeds 1, whatever the inputs, so that overflow need not be checked
    has_finite_rank = False  # True if the rank of the kernel matrix is bounded, however many points there are

    @property
    def has_width(self) -> bool:
        """True if the kernel has a parameter `sigma`: a width, which is chosen in `fit` if it is None."""
        return "sigma" in vars(self)

    def spanning_points(self, n_features: int) -> np.ndarray | None:
        """Return points (n, n_features) whose kernel functions span all functions of the kernel; None if unknown."""
        return None

    # Widths -----------------------------------------------------------------------------------------------------------
    @property
    def is_free(self) -> bool:
        """True if a width was left at None and is still to be chosen."""
        return any(leaf.sigma is None for leaf in self.leaves)

    @property
    def leaves(self) -> tuple[Kernel, ...]:
        """All kernels with a width in this tree of kernels, from left to right."""
        own = (self,) if self.has_width else ()
        return own + tuple(leaf for part in self.parts for leaf in part.leaves)

    def width_unit(self, spread: Array) -> Array:
        """Return the unit in which a width left at None is searched: by default, the spread of each column."""
        return spread

    def with_width(self, width: float, spread: Array) -> Kernel:
        """Return a copy in which every sigma left at None is `width` times its unit (one value per column)."""
        return self.with_widths(
            [width * leaf.width_unit(spread) if leaf.sigma is None else leaf.sigma for leaf in self.leaves]
        )

    def with_widths(self, widths: Sequence[Any]) -> Kernel:
        """Return a copy in which the leaves have the given values of sigma, in the order of `leaves`."""
        left = iter(widths)
        return self.rebuilt(lambda kernel: {"sigma": next(left)} if kernel.has_width else {})

    def gradient(self, X: Array, Z: Array, G: Array) -> Array:
        r"""Return the gradient in the log widths, contracted with G: one row per leaf, one value per column c.

        .. math:: \sum_{ij} G_{ij} \, \partial k(x_i, z_j) / \partial \log \sigma_c

        The tensor of derivatives (rows x basis x columns) is never formed: contracting it with the matrix G, which the
        chain rule provides, takes one matrix product.
        """
        if self.has_width:
            remedy = "to choose sigma, define it, or use tune.LeaveOneOut(search='grid')"
            raise TypeError(f"{type(self).__name__} does not define gradient(X, Z, G): give sigma, or {remedy}.")
        xp = arrays.namespace(X)
        parts = [part.gradient(X, Z, G) for part in self.parts]
        return xp.concat(parts) if parts else arrays.zeros((0, X.shape[1]), X)

    def point_gradient(self, X: Array, Z: Array, G: Array) -> Array:
        r"""Return the gradient in the points z_j, contracted with G: one row per point.

        .. math:: \sum_i G_{ij} \, \partial k(x_i, z_j) / \partial z_j
        """
        name = type(self).__name__
        raise TypeError(f"{name} does not define point_gradient(X, Z, G), so basis points cannot be learned.")

    def both_gradients(self, X: Array, Z: Array, G: Array) -> tuple[Array, Array]:
        """Return `gradient` and `point_gradient` together."""
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


Part = Annotated[Kernel, Rule("a kernel", lambda value: isinstance(value, Kernel), objects=True)]


class _Pair(Kernel):
    """A combination of two kernels, whose values `_join` combines in place."""

    _join: Callable[[Any, Any], Any]

    def __init__(self, k1: Part, k2: Part) -> None:
        self.k1 = k1
        self.k2 = k2

    @np.errstate(over="ignore", invalid="ignore")
    def evaluate(self, X: Array, Z: Array) -> Array:
        return self._join(self.k1.evaluate(X, Z), self.k2.evaluate(X, Z))

    def diagonal(self, X: Array) -> Array:
        return self._join(self.k1.diagonal(X), self.k2.diagonal(X))

    @property
    def parts(self) -> tuple[Kernel, ...]:
        return (self.k1, self.k2)

    @property
    def has_finite_rank(self) -> bool:  # type: ignore[override]
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

    _join = staticmethod(operator.iadd)

    def terms(self, inputs: Mapping[int, list[int]]) -> list[Term]:
        return self.k1.terms(inputs) + self.k2.terms(inputs)

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

    _join = staticmethod(operator.imul)

    def gradient(self, X: Array, Z: Array, G: Array) -> Array:
        first = self.k1.gradient(X, Z, G * self.k2.evaluate(X, Z))
        return arrays.namespace(X).concat([first, self.k2.gradient(X, Z, G * self.k1.evaluate(X, Z))])

    def point_gradient(self, X: Array, Z: Array, G: Array) -> Array:
        first = self.k1.point_gradient(X, Z, G * self.k2.evaluate(X, Z))
        return first + self.k2.point_gradient(X, Z, G * self.k1.evaluate(X, Z))


class Function(Kernel):
    """Any callable k(X, Z) that returns the matrix of kernel values.

    It must be symmetric, and each value must depend only on its two rows: `fit` checks this on up to 50 rows.

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
        K = arrays.namespace(X).asarray(self.function(X, Z))
        if np.iscomplexobj(arrays.to_numpy(K)):
            raise ValueError("The kernel function returned complex values: a kernel must be real-valued.")
        if K.shape != (X.shape[0], Z.shape[0]):
            what = f"shape {K.shape} for {X.shape[0]} rows of X and {Z.shape[0]} rows of Z"
            raise ValueError(f"The kernel function returned {what}: the shape must be ({X.shape[0]}, {Z.shape[0]}).")
        return arrays.like(K, X) + 0.0

    def diagonal(self, X: Array) -> Array:
        xp = arrays.namespace(X)
        return xp.concat([xp.reshape(self.evaluate(X[i : i + 1, :], X[i : i + 1, :]), (1,)) for i in range(X.shape[0])])


class Precomputed(Kernel):
    """A kernel matrix computed by the user.

    `fit` takes the square matrix of the training rows; `predict` takes the kernel values between new rows and the
    training rows (or the basis), one row per new row.

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

    is_precomputed = True

    def evaluate(self, X: Array, Z: Array) -> Array:
        """Return the columns of the matrix X whose numbers are in Z, as returned by `basis_points`."""
        if arrays.is_numpy(X):
            return X[:, Z[:, 0].astype(np.intp)]
        xp = arrays.namespace(X)
        return xp.take(X, xp.astype(Z[:, 0], xp.int64), axis=1)

    def diagonal(self, X: Array) -> Array:
        return arrays.namespace(X).linalg.diagonal(X) + 0.0

    def basis_points(self, X: Array, support: np.ndarray) -> Array:
        return arrays.like(np.asarray(support, dtype=float)[:, None], X)


def _check_own_values(kernel: Kernel, X: Array) -> None:
    """Check that a user's kernel is symmetric and returns the same values in each call."""
    few = X[: max(1, X.shape[0] // 10), :]
    K, again = (arrays.to_numpy(kernel.evaluate(X, Z)) for Z in (X, few))
    if not (np.isfinite(K).all() and np.isfinite(again).all()):
        return  # `fit` raises its own error for these
    name = repr(kernel.function if isinstance(kernel, Function) else kernel)
    limit = (1e-6 if K.dtype.itemsize >= 8 else 1e-3) * float(np.max(np.abs(K)))
    gap = float(np.max(np.abs(K[:, : again.shape[1]] - again)))
    if gap > limit:
        what = f"kernel={name} returns different values for the same two rows in different calls (by up to {gap:.3g})"
        remedy = "Draw random numbers, and compute means or widths of the data, once, before the fit."
        raise ValueError(f"{what}: k(x, z) must depend only on x and z. {remedy}")
    gap = float(np.max(np.abs(K - K.T)))
    if gap > limit:
        remedy = "Give a symmetric function, such as (k(X, Z) + k(Z, X).T) / 2"
        raise ValueError(f"kernel={name} is not symmetric: k(x, z) and k(z, x) differ by up to {gap:.3g}. {remedy}.")


def as_kernel(kernel: Any) -> Kernel:
    """Return a Kernel from a Kernel or a callable."""
    if isinstance(kernel, Kernel):
        for part in kernel.parts:
            if not isinstance(part, Kernel):
                as_kernel(part)
                raise TypeError(f"{type(kernel).__name__} contains {part!r}: write kernels.Function({part!r}).")
            if part.is_choice or part.is_stack:
                own, name = type(kernel).__name__, type(part).__name__
                raise TypeError(f"{own} contains a {name}: write a {name} of complete kernels.")
            if part.is_precomputed:
                what = f"{type(kernel).__name__} contains Precomputed, whose inputs are not features"
                raise ValueError(f"{what}: combine the kernel matrices instead.")
            as_kernel(part)
        return kernel
    if isinstance(kernel, type) and issubclass(kernel, Kernel):
        parts = "kernels.RBF()" if "kernel" in kernel._get_param_names() else ""
        raise TypeError(f"kernel={kernel.__name__} is a class: write {kernel.__name__}({parts}).")
    if callable(kernel):
        return Function(kernel)
    raise TypeError(f"kernel={shown(kernel)} is not a kernel: give e.g. kernels.RBF(), or a callable k(X, Z).")
