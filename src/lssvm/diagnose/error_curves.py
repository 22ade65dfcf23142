"""Leave-one-out errors about the chosen C and widths."""

from __future__ import annotations

import numpy as np

from .. import arrays
from ..estimators import LSSVC, LSSVR
from ..problem import Problem
from ..tune.choose_C import class_errors
from .access import NotKnown, least_squares_problem


def c_path(model: LSSVR | LSSVC, decades: float = 4.0, n_values: int = 41) -> tuple[np.ndarray, np.ndarray]:
    """Leave-one-out errors along a path of C, from one factorisation.

    Kernel, basis and weights stay as they are.

    Parameters
    ----------
    model : LSSVR or LSSVC
        Fitted model.
    decades : float
        The path extends over this many decades on either side of ``C_``.
    n_values : int
        Number of values of C; if it is odd, ``C_`` is one of them.

    Returns
    -------
    C : array (n_values,)
    errors : array (n_values,)
        Weighted root mean square leave-one-out residual over all outputs, as in `scores`. For classes, the mean log
        loss of the leave-one-out decision values, by which `tune.LeaveOneOut` chooses C.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, diagnose, kernels
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> C, errors = diagnose.c_path(LSSVR(kernels.RBF(13.1), C=830.0).fit(X, y), n_values=5)
    >>> errors.round(1)
    array([35.9, 25.4, 23. , 23.5, 23.7])
    """
    problem = least_squares_problem(model, "The path of C")
    values = model.C_ * np.logspace(-decades, decades, n_values)
    return values, _errors_along(problem, values, "The path of C")


def _errors_along(problem: Problem, values: np.ndarray, what: str) -> np.ndarray:
    """The root mean square leave-one-out residual (classes: mean log loss) for each C, from one factorisation."""
    if problem.reduced:
        raise NotKnown(f"{what}: this model is solved on columns of the KKT system, for one C only.")
    factor = problem.factorise(float(values[-1]), every=True)
    if problem.classification:
        return class_errors(factor, values.tolist())
    weights = arrays.to_numpy(problem.weights)[factor.rows]
    squares = np.zeros(len(values))
    for rows, residuals in factor.loo_path(values.tolist()):
        squares += weights[rows] @ np.mean(arrays.to_numpy(residuals) ** 2, axis=2)
    return np.sqrt(squares / weights.sum())


def width_surface(
    model: LSSVR | LSSVC, n_widths: int = 21, n_values: int = 33
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Leave-one-out errors over a grid of C and of a common factor of all widths.

    The factor covers one decade on either side of 1, C four decades on either side of ``C_``; each factor takes one
    factorisation. Basis and weights stay as they are.

    Parameters
    ----------
    model : LSSVR or LSSVC
        Fitted model whose kernel has widths; ValueError for other kernels.
    n_widths, n_values : int
        Numbers of factors and of values of C.

    Returns
    -------
    C : array (n_values,)
    factors : array (n_widths,)
    errors : array (n_widths, n_values)
        As in `c_path`.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, diagnose, kernels
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(kernels.RBF(13.1), C=830.0).fit(X, y)
    >>> C, factors, errors = diagnose.width_surface(model, n_widths=3, n_values=5)
    >>> errors.round(1)
    array([[ 37.6,  27. ,  31.8,  77.3, 442.4],
           [ 35.9,  25.4,  23. ,  23.5,  23.7],
           [ 47.8,  45.8,  43.4,  40.3,  40. ]])
    """
    problem = least_squares_problem(model, "The surface of widths and C")
    leaves = problem.kernel.leaves
    if not leaves:
        raise NotKnown(f"{model.kernel_!r} has no widths: give a model with a kernel such as kernels.RBF or Matern.")
    values = model.C_ * np.logspace(-4.0, 4.0, n_values)
    factors = np.logspace(-1.0, 1.0, n_widths)
    errors = [
        _errors_along(
            problem.replace(kernel=problem.kernel.with_widths([factor * leaf.sigma for leaf in leaves])),
            values,
            "The surface of widths and C",
        )
        for factor in factors.tolist()
    ]
    return values, factors, np.array(errors)
