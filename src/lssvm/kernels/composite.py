"""Kernels made of other kernels: sums over groups of columns, a choice among several kernels, and stacks of models."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np

from .. import arrays
from ..arrays import Array, ArrayLike
from ..rules import Rule, as_array, numbers
from .base import Kernel, Part, Term

MOST_COLUMNS = 2**17  # All groups of an additive kernel together have at most this many columns.
MOST_KERNELS = 100  # A choice or stack has at most this many kernels.


def _are_groups(value: Any) -> bool:
    if not isinstance(value, (Sequence, np.ndarray)) or not 0 < len(value) <= MOST_COLUMNS:
        return False
    groups = [as_array(group) for group in value]
    plain = all(group.dtype.kind in "iu" and group.ndim <= 1 for group in groups)
    return plain and sum(group.size for group in groups) <= MOST_COLUMNS


Groups = Annotated[Sequence[Sequence[int]], Rule("lists of column numbers", _are_groups)]
Numbers = Annotated[ArrayLike, numbers("an array of component numbers", 1, above=-1, least=0)]


class Additive(Kernel):
    r"""Additive kernel: a sum of kernels of one input each (componentwise LS-SVM).

    The model is then a sum of functions of one input each, which `LSSVR.components` returns:

    .. math:: k(x, z) = \sum_c k_c(x_c, z_c), \qquad f(x) = \sum_c f^c(x_c) + b

    Parameters
    ----------
    kernel : Kernel
        The kernel of each component; its `sigma` may hold one width per column.
    groups : list of lists of column numbers, or None
        The columns of each component, e.g. all indicator columns of one categorical variable. None: each column is a
        component of its own. Columns in no group are ignored.
    active : list of int, or None
        Numbers of the components that are kept, as `sparsify.Components` finds them; None: all. The columns of the
        other components are ignored.

    Examples
    --------
    >>> import numpy as np
    >>> from lssvm import kernels
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0]])
    >>> kernel = kernels.Additive(kernels.RBF(2.0))
    >>> bool(np.allclose(kernel(X), kernels.RBF(2.0)(X[:, :1]) + kernels.RBF(2.0)(X[:, 1:])))
    True
    """

    def __init__(self, kernel: Part, groups: Groups | None = None, active: Numbers | None = None) -> None:
        self.kernel = kernel
        self.groups = groups
        self.active: Any = active

    @property
    def parts(self) -> tuple[Kernel, ...]:
        return (self.kernel,)

    @property
    def has_finite_rank(self) -> bool:  # type: ignore[override]
        return self.kernel.has_finite_rank

    def check(self, n_features: int) -> None:
        super().check(n_features)
        self.components(n_features)

    def check_values(self, X: Array) -> None:
        group, kernel = next(iter(self.kept(X.shape[1]).values()), ([], self))
        if group:
            kernel.check_values(pick_columns(X, group))

    def components(self, n_features: int) -> list[list[int]]:
        """Return the columns of all components, kept or not."""
        if self.groups is None:
            groups = [[c] for c in range(n_features)]
        else:
            groups = [[operator.index(c) for c in np.atleast_1d(np.asarray(group))] for group in self.groups]
        if not groups or not all(group and min(group) >= 0 and max(group) < n_features for group in groups):
            last = n_features - 1
            raise ValueError(f"Additive: groups must be lists of column numbers, 0 to {last}, got {self.groups!r}.")
        if self.active is not None and not set(self.active) <= set(range(len(groups))):
            last = len(groups) - 1
            raise ValueError(f"Additive: active must hold component numbers, 0 to {last}, got {self.active!r}.")
        return groups

    def kept(self, n_features: int) -> dict[int, tuple[list[int], Kernel]]:
        """Return the kept components: for each number, its columns and the kernel of these columns."""
        groups = self.components(n_features)
        numbers = range(len(groups)) if self.active is None else self.active
        return {int(number): (groups[number], self.kernel.columns(groups[number])) for number in numbers}

    def terms(self, inputs: Mapping[int, list[int]]) -> list[Term]:
        found: list[Term] = []
        for group, kernel in self.kept(sum(map(len, inputs.values()))).values():
            places = {number: [group.index(c) for c in own if c in group] for number, own in inputs.items()}
            for factor, term in kernel.terms({number: own for number, own in places.items() if own}):
                placed = {number: ([group[place] for place in own], part) for number, (own, part) in term.items()}
                found.append((factor, placed))
        return found

    def evaluate(self, X: Array, Z: Array) -> Array:
        K = arrays.zeros((X.shape[0], Z.shape[0]), X)
        for group, kernel in self.kept(X.shape[1]).values():
            part = kernel.evaluate(pick_columns(X, group), pick_columns(Z, group))
            with np.errstate(over="ignore", invalid="ignore"):
                K += part
        return K

    def diagonal(self, X: Array) -> Array:
        total = arrays.zeros((X.shape[0],), X)
        for group, kernel in self.kept(X.shape[1]).values():
            total += kernel.diagonal(pick_columns(X, group))
        return total

    def gradient(self, X: Array, Z: Array, G: Array) -> Array:
        return self._in_columns("gradient", len(self.leaves), X, Z, G)

    def point_gradient(self, X: Array, Z: Array, G: Array) -> Array:
        return self._in_columns("point_gradient", Z.shape[0], X, Z, G)

    def _in_columns(self, method: str, n_rows: int, X: Array, Z: Array, G: Array) -> Array:
        """Return the sum of the components' gradients, each in its own columns."""
        total = arrays.zeros((n_rows, X.shape[1]), X)
        for group, kernel in self.kept(X.shape[1]).values():
            term = getattr(kernel, method)(pick_columns(X, group), pick_columns(Z, group), G)
            for place, c in enumerate(group):
                total[:, c] += term[:, place]
        return total


def pick_columns(X: Array, group: Sequence[int]) -> Array:
    """Return some columns of X."""
    if len(group) == 1:
        return X[:, group[0] : group[0] + 1]
    return arrays.take(X.T, np.asarray(group)).T


FEW = Rule(f"a list of at most {MOST_KERNELS} kernels", lambda value: len(value) <= MOST_KERNELS, objects=True)
Kernels = Annotated[Sequence[Kernel], FEW]


class _Several(Kernel):
    """A list of kernels of which each one alone makes a model."""

    def __init__(self, kernels: Kernels) -> None:
        self.kernels = kernels

    @property
    def parts(self) -> tuple[Kernel, ...]:
        if not isinstance(self.kernels, Sequence) or not len(self.kernels):
            raise TypeError(f"{type(self).__name__}: kernels must list at least one kernel, got {self.kernels!r}.")
        return tuple(self.kernels)


class Choice(_Several):
    """A choice among several kernels: `fit` uses the one with the smallest leave-one-out error.

    Parameters
    ----------
    kernels : list of Kernel
        At least one kernel. Widths may be given or left at None.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(kernels.Choice([kernels.RBF(), kernels.Matern(nu=0.5)])).fit(X, y)
    >>> type(model.kernel_).__name__
    'RBF'
    """

    is_choice = True

    @property
    def is_free(self) -> bool:
        return True


class Stack(_Several):
    """One model per kernel; predictions are averages of theirs, with weights chosen by leave-one-out.

    Each model is tuned on its own. The weights are non-negative and sum to 1. For regression, they minimise a robust
    mean square of the leave-one-out residuals of the average; for classes, the log loss of the average of the
    leave-one-out probabilities. Models of weight 0 are dropped. `members_` holds the fitted models that remain and
    `stack_weights_` their weights.

    Parameters
    ----------
    kernels : list of Kernel
        At least one kernel. Widths may be given or left at None.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(kernels.Stack([kernels.RBF(), kernels.Matern(nu=0.5)])).fit(X, y)
    >>> len(model.members_), float(round(model.stack_weights_.sum(), 6))
    (2, 1.0)
    """

    is_stack = True
