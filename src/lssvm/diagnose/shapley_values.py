"""Exact Shapley values of kernels that are sums of products over the columns."""

from __future__ import annotations

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import Bunch

from .. import arrays
from ..arrays import ArrayLike
from ..estimators import LSSVC, LSSVR
from ..estimators.validation import encoded_rows
from ..kernels import Term, pick_columns
from .access import NotKnown, check_fitted, feature_names, members


def shapley(model: LSSVR | LSSVC, X: ArrayLike) -> Bunch:
    r"""Exact Shapley values: the prediction of each row as a sum of contributions of its columns.

    For a product kernel such as `RBF`, the value of a set S of columns is the prediction of the model with only the
    factors of S in its kernel (PKeX-Shapley, Mohammadi et al. 2025),

    .. math:: v(S) = b + \sum_j \alpha_j \prod_{c \in S} k_c(x_c, z_{jc})

    The average over all orders of the d columns involves :math:`2^d` sets. It equals the integral of a polynomial,
    which a Gauss rule with d/2 nodes computes exactly (see docs/theory.md):

    .. math::

        \phi_c = \sum_j \alpha_j \, (k_c(x_c, z_{jc}) - 1)
                 \int_0^1 \prod_{l \ne c} \left( 1 - t + t \, k_l(x_l, z_{jl}) \right) dt

    A function of a single column (`Linear`, `Spline`, `Additive`) contributes its value, less its mean over the basis
    points. The Shapley values of a sum of kernels, or of a stack, are the sums of those of its parts.

    Parameters
    ----------
    model : LSSVR or LSSVC
        Fitted model whose kernel is `RBF`, `Linear`, `Spline`, `Additive`, or a sum or stack of them. For `LSSVC`, the
        values are those of `decision_function`, and stacks and one-vs-one coding are not supported.
    X : array or frame (n_samples, n_features)
        Rows to explain.

    Returns
    -------
    Bunch
        ``contributions`` (n_samples, n_features), or (n_samples, n_features, n_outputs); ``base``, a number or
        (n_outputs,), which is the value without any columns; and ``names`` of the columns. The prediction is
        ``base + contributions.sum(axis=1)``; rounding errors are distributed over the contributions. A category is one
        column, and so is a number with its missing cells.

    References
    ----------
    Mohammadi, M., Chau, S. L., Muandet, K.: Computing exact Shapley values in polynomial time for product-kernel
    methods (2025).

    Examples
    --------
    >>> import numpy as np
    >>> from lssvm import LSSVR, diagnose, kernels
    >>> draw = np.random.RandomState(0)
    >>> X = draw.uniform(-1, 1, (100, 3))
    >>> model = LSSVR(kernels.RBF(ard=True)).fit(X, np.sin(3 * X[:, 0]) * X[:, 1])
    >>> found = diagnose.shapley(model, X)
    >>> bool(np.allclose(found.base + found.contributions.sum(axis=1), model.predict(X), atol=1e-10))
    True
    """
    check_fitted(model)
    if is_classifier(model) and (model.fitted_.is_stack or model.fitted_.by_pairs):
        raise NotKnown(
            "Shapley values: the decision values of this classifier are not sums over basis points: give a member of a "
            "stack, model.members_[0], or fit with coding='one-vs-rest'."
        )
    if model.kernel_.is_precomputed:
        raise NotKnown("Shapley values: a precomputed kernel has no columns.")
    rows, single = arrays.to_numpy(encoded_rows(model, X)), model.fitted_.layout.single
    contributions, base = raw_contributions(model, rows)
    # distribute the rounding errors of both sums, so that the contributions add up to the prediction
    gap, sizes = arrays.to_numpy(model.fitted_.values(rows)) - base - contributions.sum(axis=1), np.abs(contributions)
    total = sizes.sum(axis=1)[:, None, :]
    contributions += gap[:, None, :] * np.divide(sizes, total, out=np.zeros_like(sizes), where=total > 0)
    return Bunch(
        contributions=contributions[:, :, 0] if single else contributions,
        base=float(base[0]) if single else base,
        names=feature_names(model),
    )


def raw_contributions(model: LSSVR | LSSVC, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Contributions (rows, columns, outputs) and base (outputs,) of encoded rows, as they are computed."""
    sources = model.fitted_.layout.sources
    inputs = {int(column): np.flatnonzero(sources == column).tolist() for column in np.unique(sources)}
    outputs = np.size(arrays.to_numpy(members(model)[0][0].intercept_))
    contributions, base = np.zeros((len(rows), model.n_features_in_, outputs)), np.zeros(outputs)
    for member, weight in members(model):
        points = arrays.to_numpy(member.support_vectors_)
        coef = weight * arrays.to_numpy(member.dual_coef_).reshape(len(points), -1)
        base += weight * arrays.to_numpy(member.intercept_)
        for term in member.kernel_.terms(inputs):
            part, constant = _of_term(term, rows, points, coef)
            contributions[:, list(term)] += part
            base += constant
    return contributions, base


def _of_term(term: Term, X: np.ndarray, Z: np.ndarray, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The contributions (rows, inputs, outputs) to a product of kernels of one input each, and the constant part."""
    out = np.zeros((len(X), len(term), coef.shape[1]))
    if not term:
        return out, coef.sum(axis=0)
    if len(term) == 1:
        [(group, kernel)] = term.values()
        points = pick_columns(Z, group)
        constant = kernel.dot(points, points, coef).mean(axis=0)
        out[:, 0] = kernel.dot(pick_columns(X, group), points, coef) - constant
        return out, constant
    nodes, weights = np.polynomial.legendre.leggauss((len(term) + 1) // 2)  # exact up to the degree len(term)
    for rows in arrays.row_blocks(len(X), 24 * len(term) * len(Z)):
        less_one = np.stack([k.evaluate(pick_columns(X[rows], g), pick_columns(Z, g)) for g, k in term.values()])
        less_one -= 1.0
        integrals = np.zeros_like(less_one)
        for t, w in zip((nodes + 1.0) / 2.0, weights / 2.0, strict=True):
            factors = 1.0 + t * less_one
            products = _products_of_others(factors)
            products *= w
            integrals += products
        integrals *= less_one
        out[rows] = np.moveaxis(integrals @ coef, 0, 1)
    return out, coef.sum(axis=0)


def _products_of_others(factors: np.ndarray) -> np.ndarray:
    """For each entry of the first axis, the product of all others; without division, because a factor may be 0."""
    out = np.empty_like(factors)
    out[-1] = 1.0
    for place in range(len(factors) - 1, 0, -1):
        np.multiply(out[place], factors[place], out=out[place - 1])
    before = factors[0].copy()
    for place in range(1, len(factors)):
        out[place] *= before
        before *= factors[place]
    return out
