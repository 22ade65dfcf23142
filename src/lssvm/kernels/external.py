"""Kernel values from the user: precomputed matrices, and a check of users' own kernels."""

from __future__ import annotations

import copy

import numpy as np

from .. import arrays
from ..arrays import Array
from .base import Function, Kernel
from .composite import Additive, pick_columns


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
        """The columns of the matrix X whose numbers are in Z, as returned by `basis_points`."""
        if arrays.is_numpy(X):
            return X[:, Z[:, 0].astype(np.intp)]
        xp = arrays.namespace(X)
        return xp.take(X, xp.astype(Z[:, 0], xp.int64), axis=1)

    def diagonal(self, X: Array) -> Array:
        return arrays.namespace(X).linalg.diagonal(X) + 0.0

    def basis_points(self, X: Array, support: np.ndarray) -> Array:
        return arrays.like(np.asarray(support, dtype=float)[:, None], X)


def check_values(kernel: Kernel, X: Array) -> None:
    """Check on a few rows that the user's own kernels are symmetric and return the same values in each call."""
    if isinstance(kernel, Additive):
        parts = [(part, pick_columns(X, group)) for group, part in kernel.kept(X.shape[1]).values()][:1]
    else:
        parts = [(part, X) for part in kernel.parts]
    for part, columns in parts:
        check_values(part, columns)
    own = isinstance(kernel, Function) or type(kernel).__module__.rpartition(".")[0] != __name__.rpartition(".")[0]
    if own and not (kernel.parts or kernel.is_precomputed or kernel.is_free):
        _check_own_values(copy.deepcopy(kernel), X)  # a copy: any state of the user's kernel stays untouched


def _check_own_values(kernel: Kernel, X: Array) -> None:
    few = X[: max(1, X.shape[0] // 10), :]
    K, again = (arrays.to_numpy(kernel.evaluate(X, Z)) for Z in (X, few))
    if not (np.isfinite(K).all() and np.isfinite(again).all()):
        return  # `fit` raises its own error for these
    name = repr(kernel.function if isinstance(kernel, Function) else kernel)
    limit = (1e-6 if K.dtype.itemsize >= 8 else 1e-3) * float(np.max(np.abs(K)))
    gap = float(np.max(np.abs(K[:, : again.shape[1]] - again)))
    if gap > limit:
        raise ValueError(
            f"kernel={name} returns different values for the same two rows in different calls (by up to {gap:.3g}): "
            "k(x, z) must depend only on x and z. Draw random numbers, and compute means or widths of the data, once, "
            "before the fit."
        )
    gap = float(np.max(np.abs(K - K.T)))
    if gap > limit:
        raise ValueError(
            f"kernel={name} is not symmetric: k(x, z) and k(z, x) differ by up to {gap:.3g}. Give a symmetric "
            "function, such as (k(X, Z) + k(Z, X).T) / 2."
        )
