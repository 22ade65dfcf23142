"""The components of an additive kernel on the training rows, in coordinates of full rank."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from .. import arrays
from ..kernels import Additive, Kernel, pick_columns

CUT = 1e-10  # relative to a kernel's size: smaller eigenvalues need coefficients too large for its rounding errors
SMALLEST = 1e-7  # relative to the largest kernel: below, CUT leaves only the largest functions of a component


@dataclass(frozen=True)
class Blocks:
    """The components of an additive kernel on the training rows: f^l = Q_l z_l with z = A'alpha and 1'alpha = 0.

    If the ranks add up to less than the number of basis points, every z has an alpha (`basis` is None), the columns of
    each Q_l are orthonormal, and a component can be exactly 0. Otherwise all z_l depend on the same x, z = basis @ x:
    alpha in the principal directions of the stacked components. Components that are the same function of alpha, e.g. of
    equal columns, are merged into their sum, whose maximal variation is the sum of theirs.
    """

    Q: list[np.ndarray]
    other: list[np.ndarray]  # the same functions on the validation rows
    A: np.ndarray  # z = A'alpha, or alpha = A x
    basis: np.ndarray | None
    number: np.ndarray  # for every component of the kernel, its index here

    def each(self, t: np.ndarray) -> np.ndarray:
        """The maximal variations of all components of the kernel."""
        return (t / np.bincount(self.number, minlength=len(t)))[self.number]

    @property
    def places(self) -> list[slice]:
        """The slice of z of each component."""
        ends = np.cumsum([block.shape[1] for block in self.Q])
        return [slice(int(end) - block.shape[1], int(end)) for end, block in zip(ends, self.Q, strict=True)]

    def alpha(self, z: np.ndarray) -> np.ndarray:
        """The coefficients of least norm that give z."""
        if self.basis is not None:
            return self.A @ z[self.places[0]]
        size = np.linalg.norm(self.A, axis=0)  # columns may have any unit
        return np.linalg.lstsq((self.A / size).T, z / size, rcond=1e-13)[0]


def component_blocks(kernel: Additive, X: np.ndarray, points: np.ndarray, train: np.ndarray) -> Blocks:
    """Q_l for the rows `train` of X and for the other rows, with the basis `points`."""
    Q: list[np.ndarray] = []
    other, A, sizes = [], [], []
    seen: dict[bytes, list[tuple[int, np.ndarray]]] = {}
    number: list[int] = []
    parts = []
    for group, part in kernel.kept(X.shape[1]).values():
        columns = pick_columns(X, group)
        phi, factor = _features(part, columns, pick_columns(points, group))
        alike = seen.setdefault(np.ascontiguousarray(columns).tobytes(), [])
        same = [place for place, other_phi in alike if np.array_equal(other_phi, phi)]
        number.append(same[0] if same else len(Q))
        if same:
            continue
        alike.append((len(Q), phi))
        parts.append((part, columns, pick_columns(points, group), phi[train], factor))
        phi, to_z = _orthonormal(phi, factor, train)
        Q.append(phi[train])
        other.append(phi[~train])
        A.append(to_z)
        sizes.append(np.full(A[-1].shape[1], float(np.linalg.norm(factor)) ** 2 or 1.0))
    stacked = np.hstack([block * number.count(place) for place, block in enumerate(A)])
    size = np.concatenate(sizes)
    s = np.linalg.svd(stacked / size, compute_uv=False)
    if len(s) == stacked.shape[1] and np.min(s, initial=1.0) > CUT:
        blocks = Blocks(Q, other, stacked, None, np.array(number))
        if _reproduced(blocks, [(number.count(place) * phi, factor) for place, (*_, phi, factor) in enumerate(parts)]):
            return blocks
    K = [number.count(place) * part.evaluate(*given) for place, (part, *given, _, _) in enumerate(parts)]
    _check_sizes([K[place][train] for place in number], list(kernel.kept(X.shape[1])))
    return _shared_blocks(K, train, np.array(number))


def _orthonormal(phi: np.ndarray, factor: np.ndarray, train: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A component phi factor'alpha, 1'alpha = 0, as Q z with Q orthonormal on the training rows; and A, z = A'alpha.

    Directions dominated by rounding errors are dropped.
    """
    U, s, T = np.linalg.svd(factor - factor.mean(axis=0), full_matrices=False)  # 1'alpha = 0
    kept = s > np.sqrt(CUT) * float(np.linalg.norm(factor))
    phi, U = phi @ (T[kept].T * s[kept]), U[:, kept]
    _, s, T = np.linalg.svd(phi[train], full_matrices=False)
    kept = s > CUT * (float(s[0]) if len(s) else 0.0)
    return phi @ (T[kept].T / s[kept]), U @ (T[kept].T * s[kept])


def _shared_blocks(K: list[np.ndarray], train: np.ndarray, number: np.ndarray) -> Blocks:
    """Blocks of components that share alpha, from their kernel matrices.

    If directions that are small in one component alone were dropped, that component would not be K_l alpha.
    """
    rows = np.vstack([block[train] for block in K])
    _, s, T = np.linalg.svd(np.linalg.qr(rows - rows.mean(axis=1, keepdims=True), mode="r"))  # 1'alpha = 0
    kept = s > CUT * s[0]
    directions = (T[kept] - T[kept].mean(axis=1, keepdims=True)).T / s[kept]
    phis = [block @ directions for block in K]
    phis = [phi * (np.abs(phi[train]).max() > 1e-6) for phi in phis]  # constant columns leave only rounding errors
    basis = np.vstack([np.eye(len(directions.T))] * len(K))
    return Blocks([phi[train] for phi in phis], [phi[~train] for phi in phis], directions, basis, number)


def _check_sizes(K: list[np.ndarray], numbers: list[int]) -> None:
    """Warn if the cut, relative to the largest kernel, leaves little of a component that is not constant."""
    sizes = np.array([np.linalg.norm(block) for block in K])
    varying = np.array([np.linalg.norm(block - block.mean(axis=1, keepdims=True)) for block in K]) > CUT * sizes
    lost = np.array(numbers)[varying & (sizes < SMALLEST * sizes.max())]
    if len(lost):
        warnings.warn(
            f"Components: the kernel values of components {lost.tolist()} are below {SMALLEST:g} times the largest "
            "ones, and most of these components is lost to rounding errors: centre and scale your features.",
            stacklevel=arrays.user_level(),
        )


def _reproduced(blocks: Blocks, features: list[tuple[np.ndarray, np.ndarray]]) -> bool:
    """Whether alpha reproduces the components for some z: dropped directions may be small in the kernel alone."""
    z = np.random.RandomState(0).standard_normal((blocks.A.shape[1],))
    alpha = blocks.alpha(z)
    for (phi, factor), Q, place in zip(features, blocks.Q, blocks.places, strict=True):
        dropped = Q.shape[1] < phi.shape[1]
        if dropped and np.abs(phi @ (factor.T @ alpha) - Q @ z[place]).max(initial=0.0) > 1e-5:
            return False
    return True


def _features(kernel: Kernel, X: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """phi of the rows and of the points with k(x, z) = phi(x)'phi(z): a pivoted Cholesky factor, cut at 1e-14."""
    rest = kernel.diagonal(points).copy()
    tolerance = 1e-14 * max(float(rest.max()), 0.0)
    F = np.empty((len(points), 0))
    pivots: list[int] = []
    while len(pivots) < len(points) and float(rest.max()) > tolerance:
        j = int(np.argmax(rest))
        column = (kernel.evaluate(points, points[j : j + 1])[:, 0] - F @ F[j]) / np.sqrt(rest[j])
        column[pivots] = 0.0
        F = np.column_stack([F, column])
        pivots.append(j)
        rest -= column * column
        rest[pivots] = 0.0
    if not pivots:
        return np.zeros((len(X), 0)), F
    return solve_triangular(F[pivots], kernel.evaluate(X, points[pivots]).T, lower=True, check_finite=False).T, F
