"""Kernels of the inner product: Linear and Polynomial."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Annotated

import numpy as np

from .. import arrays
from ..arrays import Array
from ..rules import LARGEST, Rule, integer
from .base import Kernel, Term

Degree = Annotated[int, integer("a positive integer", 1, 2**31)]
Constant = Annotated[
    float,
    Rule("a finite, non-negative number", lambda value: isinstance(value, Real) and 0 <= value <= LARGEST),
]


class Linear(Kernel):
    """Linear kernel, :math:`k(x, z) = x'z`. With the unpenalised bias, the model is ridge regression.

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

    def spanning_points(self, n_features: int) -> np.ndarray:
        return np.eye(n_features)

    @np.errstate(over="ignore", invalid="ignore")
    def evaluate(self, X: Array, Z: Array) -> Array:
        return arrays.matmul(X, Z.T)

    @np.errstate(over="ignore", invalid="ignore")
    def diagonal(self, X: Array) -> Array:
        return arrays.namespace(X).sum(X * X, axis=1)

    @np.errstate(over="ignore", invalid="ignore")
    def point_gradient(self, X: Array, Z: Array, G: Array) -> Array:
        return G.T @ X

    def terms(self, inputs: Mapping[int, list[int]]) -> list[Term]:
        return [{number: (group, self)} for number, group in inputs.items()]


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

    @property
    def has_finite_rank(self) -> bool:
        return True

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
