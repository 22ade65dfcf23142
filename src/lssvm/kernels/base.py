"""The kernel contract: `Kernel`, the sums, products and functions that its operators make, and `as_kernel`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .. import arrays
from ..arrays import Array


class Kernel(BaseEstimator):
    """Base class of all kernels.

    Subclasses define ``evaluate(X, Z)`` (rows of X times rows of Z, a new float64 matrix) and ``diagonal(X)``. A kernel
    with a parameter `sigma` that may be None also defines ``gradient(X, Z, G)``; `sigma` then holds one value per
    column when these two are called. A kernel made of others names them in `parts`.
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
        for rows in arrays.row_blocks(X.shape[0], 8 * Z.shape[0], X):
            out[rows, :] = self.evaluate(X[rows, :], Z)
        return out

    def fill_symmetric(self, out: Array, X: Array, Z: Array) -> Array:
        """As `fill`, where Z are the points of the rows X: half of the values will do."""
        return self.fill(out, X, Z)

    def dot(self, X: Array, Z: Array, coef: Array) -> Array:
        """k(X, Z) @ coef, in blocks of rows: the matrix itself is never held."""
        out = arrays.empty((X.shape[0], coef.shape[1]), coef)
        for rows in arrays.row_blocks(X.shape[0], 8 * Z.shape[0], X):
            K = self.evaluate(X[rows, :], Z)
            with np.errstate(over="ignore", invalid="ignore"):
                out[rows, :] = arrays.matmul(K, coef)
        return out

    def basis_points(self, X: Array, support: np.ndarray) -> Array:
        """The points behind the basis rows `support` of the training inputs X."""
        return arrays.take(X, support)

    # The tree of kernels ----------------------------------------------------------------------------------------------
    @property
    def parts(self) -> tuple[Kernel, ...]:
        """The kernels inside this one."""
        return ()

    def rebuilt(self, change: Callable[[Kernel], Mapping[str, Any]]) -> Kernel:
        """A copy in which every kernel of the tree has the attributes that `change` returns for it.

        A kernel comes before its parts, and parts come from left to right, as in `leaves`.
        """
        kernel = copy.copy(self)
        for name, value in change(self).items():
            setattr(kernel, name, value)
        for name in self._parameters():
            value = getattr(self, name)
            if isinstance(value, Kernel):
                setattr(kernel, name, value.rebuilt(change))
            elif isinstance(value, (list, tuple)) and any(isinstance(part, Kernel) for part in value):
                setattr(kernel, name, [part.rebuilt(change) for part in value])
        return kernel

    def placed(self, X: Array) -> Kernel:
        """A copy in which what comes from the training columns themselves, e.g. knots, is filled in."""
        return self.rebuilt(lambda kernel: kernel.placement(X))

    def placement(self, X: Array) -> Mapping[str, Any]:
        """The attributes of this kernel that `placed` fills in."""
        return {}

    def columns(self, group: Sequence[int]) -> Kernel:
        """A copy for some columns alone: of values that differ by column, those of these columns."""
        return self.rebuilt(lambda kernel: kernel.restriction(group))

    def restriction(self, group: Sequence[int]) -> Mapping[str, Any]:
        """The attributes of this kernel that `columns` changes."""
        if not self.has_width or np.ndim(self.sigma) != 1:
            return {}
        widths = np.asarray(arrays.to_numpy(self.sigma))
        return {"sigma": widths[list(group)] if len(widths) > 1 else widths[0]}

    def check(self, n_features: int) -> None:
        """Raise ValueError when a parameter does not fit data of that many columns."""
        as_kernel(self)
        for part in self.parts:
            part.check(n_features)

    # What it declares -------------------------------------------------------------------------------------------------
    ard = False
    _known_parameters: tuple[str, ...] = ()
    """Whether a width left at None may differ from column to column."""

    @classmethod
    def _parameters(cls) -> tuple[str, ...]:
        """The names of the constructor's arguments, looked up once per class."""
        if "_known_parameters" not in vars(cls):
            cls._known_parameters = tuple(cls._get_param_names())
        return cls._known_parameters

    @property
    def has_width(self) -> bool:
        """True when the kernel has a parameter `sigma`: a width, which is chosen at `fit` where it is None."""
        return "sigma" in self._parameters()

    @property
    def is_precomputed(self) -> bool:
        """True when the inputs are the kernel matrix itself."""
        return False

    @property
    def is_choice(self) -> bool:
        """True for several kernels of which one is chosen at `fit`."""
        return False

    @property
    def is_bounded(self) -> bool:
        """True when no value exceeds 1, whatever the inputs, so that overflow need not be checked."""
        return False

    @property
    def has_finite_rank(self) -> bool:
        """True when every function of the kernel is a sum of as many fixed ones, however many points there are."""
        return False

    # Widths -----------------------------------------------------------------------------------------------------------
    @property
    def is_free(self) -> bool:
        """True when a width was left at None, to be chosen."""
        return any(leaf.sigma is None for leaf in self.leaves)

    @property
    def leaves(self) -> tuple[Kernel, ...]:
        """The kernels with a width in this one, from left to right."""
        own = (self,) if self.has_width else ()
        return own + tuple(leaf for part in self.parts for leaf in part.leaves)

    def width_unit(self, spread: Array) -> Array:
        """The unit in which a width left at None is searched, from the spreads of the columns: those themselves."""
        return spread

    def with_width(self, width: float, spread: Array) -> Kernel:
        """A copy in which every sigma left at None is `width` in its unit (one value per column)."""

        def change(kernel: Kernel) -> Mapping[str, Any]:
            free = kernel.has_width and kernel.sigma is None
            return {"sigma": width * kernel.width_unit(spread)} if free else {}

        return self.rebuilt(change)

    def with_widths(self, widths: Sequence[Any]) -> Kernel:
        """A copy in which the leaves have the given sigmas, in their order."""
        left = iter(widths)
        return self.rebuilt(lambda kernel: {"sigma": next(left)} if kernel.has_width else {})

    def scaled(self, factor: float) -> Kernel:
        """A copy with every width multiplied by `factor`."""
        return self.rebuilt(lambda kernel: {"sigma": factor * np.asarray(kernel.sigma)} if kernel.has_width else {})

    def gradient(self, X: Array, Z: Array, G: Array) -> Array:
        """sum_ij G_ij dk(x_i, z_j)/dlog(sigma_c): one row per leaf, one value for each column c.

        The whole rows x basis x columns tensor of derivatives is never formed: contracted with the matrix G that the
        chain rule supplies (theory: Zbar and Rbar), it costs one matrix product.
        """
        if self.has_width:
            raise TypeError(
                f"{type(self).__name__} does not define gradient(X, Z, G), by which its sigma is chosen: define it, "
                "give sigma, or use tune.LeaveOneOut(search='grid')."
            )
        xp = arrays.namespace(X)
        parts = [part.gradient(X, Z, G) for part in self.parts]
        return xp.concat(parts) if parts else arrays.zeros((0, X.shape[1]), X)

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
        return arrays.namespace(X).concat([first, self.k2.gradient(X, Z, G * self.k1.evaluate(X, Z))])

    def point_gradient(self, X: Array, Z: Array, G: Array) -> Array:
        first = self.k1.point_gradient(X, Z, G * self.k2.evaluate(X, Z))
        return first + self.k2.point_gradient(X, Z, G * self.k1.evaluate(X, Z))


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
        K = arrays.namespace(X).asarray(self.function(X, Z))
        if np.iscomplexobj(arrays.to_numpy(K)):
            raise ValueError("The kernel function returned complex values: a kernel must be real.")
        if K.shape != (X.shape[0], Z.shape[0]):
            raise ValueError(
                f"The kernel function returned shape {K.shape} for {X.shape[0]} and {Z.shape[0]} rows: it must return "
                f"({X.shape[0]}, {Z.shape[0]})."
            )
        return arrays.like(K, X) + 0.0

    def diagonal(self, X: Array) -> Array:
        xp = arrays.namespace(X)
        return xp.concat([xp.reshape(self.evaluate(X[i : i + 1, :], X[i : i + 1, :]), (1,)) for i in range(X.shape[0])])


def as_kernel(kernel: Any) -> Kernel:
    """A Kernel from a Kernel or a callable."""
    if isinstance(kernel, Kernel):
        for part in kernel.parts:
            if not isinstance(part, Kernel):
                as_kernel(part)
                raise TypeError(f"{type(kernel).__name__} holds {part!r}: write kernels.Function({part!r}).")
            if part.is_choice:
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
