"""Shapley values: each prediction as a sum of contributions of its columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import Bunch

from .. import arrays
from ..arrays import ArrayLike
from ..estimators import LSSVC, LSSVR
from ..estimators.validation import encoded_rows
from ..kernels import Kernel, Term, pick_columns
from ..losses import LOG_LINKS
from .access import NotKnown, check_fitted, columns_used, feature_names, kept_by_members

REFERENCE = 300  # The mean prediction is that of at most so many training rows.


def shapley(model: LSSVR | LSSVC, X: ArrayLike, *, permutations: int = 100) -> Bunch:
    r"""Return Shapley values: the prediction of each row as a sum of contributions of its columns.

    The contributions say how the prediction differs from the mean prediction for the training rows (for at most 300 of
    them). For a product kernel such as `RBF`, they are exact. The value of a set S of columns is the prediction of the
    model with only the factors of S in its kernel (PKeX-Shapley, Mohammadi et al. 2025), less its mean,

    .. math:: v(S) = b + \sum_j \alpha_j \prod_{c \in S} k_c(x_c, z_{jc})

    The average over all orders of the d columns involves :math:`2^d` sets. It equals the integral of a polynomial,
    which a Gauss rule with d/2 nodes computes exactly (see docs/theory.md):

    .. math::

        \phi_c = \sum_j \alpha_j \, (k_c(x_c, z_{jc}) - 1)
                 \int_0^1 \prod_{l \ne c} \left( 1 - t + t \, k_l(x_l, z_{jl}) \right) dt

    `Matern` is an average of such kernels, which is computed to 1e-6 of k(x, x). The Shapley values of a sum of
    kernels, or of a stack, are the sums of those of its parts; a function of a single column (`Linear`, `Spline`,
    `Additive`) contributes its value, less its mean.

    For all other models (other kernels, targets on another scale, losses with a log link, stacks and pairs of classes),
    they are estimated. The value of S is then the mean prediction for rows with the columns S of the given row and the
    others of a training row, and the average is over random orders and training rows.

    Parameters
    ----------
    model : LSSVR or LSSVC
        Fitted model. For `LSSVC`, the values are those of `decision_function` if they are exact, and otherwise those of
        the probability of ``classes_[1]``, or of each of more than two classes.
    X : array or frame (n_samples, n_features)
        Rows to explain.
    permutations : int
        Number of orders of the columns from which values are estimated, in pairs of opposite orders.

    Returns
    -------
    Bunch
        ``contributions`` (n_samples, n_features), or (n_samples, n_features, n_outputs), and ``error``, their standard
        errors: 0 if the values are exact; ``base``, a number or (n_outputs,), which is the mean prediction; and
        ``names`` of the columns. The prediction is ``base + contributions.sum(axis=1)``; rounding errors are
        distributed over the contributions. A category is one column, and so is a number with its missing cells.

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
    return shapley_of_encoded(model, arrays.to_numpy(encoded_rows(model, X)), permutations)


def shapley_of_encoded(model: LSSVR | LSSVC, rows: np.ndarray, permutations: int = 100) -> Bunch:
    """Return the Shapley values of encoded rows."""
    if model.kernel_.is_precomputed:
        raise NotKnown("Shapley values: a precomputed kernel has no columns.")
    if permutations < 4:
        raise ValueError(f"permutations must be at least 4, got {permutations!r}.")
    terms, known = _terms(model), _reference(model)
    if terms is None:
        values, base = model.fitted_.responses(rows), model.fitted_.responses(known).mean(axis=0)
        contributions, error = _sampled(model, rows, known, permutations)
    else:
        values, base = (arrays.to_numpy(model.fitted_.values(own)) for own in (rows, known))
        contributions = _exact(model, rows, terms) - _exact(model, known, terms).mean(axis=0)
        base, error = base.mean(axis=0), np.zeros_like(contributions)
    contributions = _share_out(contributions, values - base - contributions.sum(axis=1))
    single = model.fitted_.layout.single
    return Bunch(
        contributions=contributions[:, :, 0] if single else contributions,
        error=error[:, :, 0] if single else error,
        base=float(base[0]) if single else base,
        names=feature_names(model),
    )


def _share_out(contributions: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """Distribute the rounding errors of both sums, so that the contributions add up to the prediction."""
    sizes = np.abs(contributions)
    total = sizes.sum(axis=1)[:, None, :]
    return contributions + gap[:, None, :] * np.divide(sizes, total, out=np.zeros_like(sizes), where=total > 0)


def _reference(model: Any) -> np.ndarray:
    """Return the encoded rows over which the mean is taken: training rows, or basis points if these are not kept."""
    try:
        kept = kept_by_members(model, REFERENCE, "Shapley values")[0]
    except NotKnown:
        return arrays.to_numpy(model.fitted_.fit.points)
    return arrays.to_numpy(kept.problem.X)[kept.given > 0]


# Exact values ---------------------------------------------------------------------------------------------------------
def _terms(model: Any) -> list[list[Term]] | None:
    """Return the kernel of each member as a sum of products; None if the values are not sums over basis points."""
    fitted, sources = model.fitted_, model.fitted_.layout.sources
    averages_probabilities = fitted.layout.classes is not None and (fitted.is_stack or fitted.by_pairs)
    if averages_probabilities or any(member.target or member.loss in LOG_LINKS for member in fitted.members):
        return None
    inputs = {int(column): np.flatnonzero(sources == column).tolist() for column in np.unique(sources)}
    try:
        return [member.fit.kernel.terms(inputs) for member in fitted.members]
    except ValueError:
        return None


def _exact(model: Any, rows: np.ndarray, terms: list[list[Term]]) -> np.ndarray:
    """Return contributions (rows, columns, outputs), whose sum over the columns is f(x) and a constant."""
    fitted = model.fitted_
    contributions = np.zeros((len(rows), model.n_features_in_, fitted.fit.coef.shape[1]))
    for fit, share, own in zip((member.fit for member in fitted.members), fitted.shares, terms, strict=True):
        points, coef = arrays.to_numpy(fit.points), share * arrays.to_numpy(fit.coef)
        for factor, kernels in own:
            contributions[:, list(kernels)] += _of_product(list(kernels.values()), rows, points, factor * coef)
    return contributions


def _of_product(factors: list[tuple[list[int], Kernel]], X: np.ndarray, Z: np.ndarray, coef: np.ndarray) -> np.ndarray:
    """Return the contributions (rows, inputs, outputs) to a product of kernels of one input each."""
    out = np.zeros((len(X), len(factors), coef.shape[1]))
    if len(factors) == 1:
        [(group, kernel)] = factors
        out[:, 0] = kernel.dot(pick_columns(X, group), pick_columns(Z, group), coef)
    if len(factors) <= 1:
        return out
    nodes, weights = np.polynomial.legendre.leggauss((len(factors) + 1) // 2)  # exact up to the degree len(factors)
    for rows in arrays.row_blocks(len(X), 24 * len(factors) * len(Z)):
        less_one = np.stack([k.evaluate(pick_columns(X[rows], g), pick_columns(Z, g)) for g, k in factors])
        less_one -= 1.0
        integrals = np.zeros_like(less_one)
        for t, w in zip((nodes + 1.0) / 2.0, weights / 2.0, strict=True):
            products = _products_of_others(1.0 + t * less_one)
            products *= w
            integrals += products
        integrals *= less_one
        out[rows] = np.moveaxis(integrals @ coef, 0, 1)
    return out


def _products_of_others(factors: np.ndarray) -> np.ndarray:
    """Return, for each entry of the first axis, the product of all others, without division: a factor may be 0."""
    out = np.empty_like(factors)
    out[-1] = 1.0
    for place in range(len(factors) - 1, 0, -1):
        np.multiply(out[place], factors[place], out=out[place - 1])
    before = factors[0].copy()
    for place in range(1, len(factors)):
        out[place] *= before
        before *= factors[place]
    return out


# Estimates ------------------------------------------------------------------------------------------------------------
def _sampled(model: Any, rows: np.ndarray, known: np.ndarray, permutations: int) -> tuple[np.ndarray, np.ndarray]:
    """Return contributions (rows, columns, outputs) and their standard errors.

    For a random order of the columns and its reverse, the columns of a training row are replaced one by one.
    """
    sources, used, draw = model.fitted_.layout.sources, np.flatnonzero(columns_used(model)), np.random.RandomState(0)
    found = []
    for start in known[np.linspace(0, len(known) - 1, permutations // 2).astype(int)]:
        order, pair = draw.permutation(used), []
        for columns in (order, order[::-1]):
            table = np.tile(start, (len(rows), 1))
            last = model.fitted_.responses(table)
            part = np.zeros((len(rows), model.n_features_in_, last.shape[1]))
            for column in columns:
                table[:, sources == column] = rows[:, sources == column]
                value = model.fitted_.responses(table)
                part[:, column] = value - last
                last = value
            pair.append(part)
        found.append(np.mean(pair, axis=0))
    return np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
