"""What the tests compare with: the machine by its definition, solved again for every row that is left out."""

import numpy as np
import scipy.linalg


def kkt(K, y, weights, ridge):
    """Coefficients and bias from the whole system (K + ridge V^-1) alpha + 1 b = y, 1'alpha = 0."""
    n = len(K)
    system = np.ones((n + 1, n + 1))
    system[:n, :n] = K + np.diag(ridge / weights)
    system[n, n] = 0.0
    solution = np.linalg.solve(system, np.vstack([y, np.zeros((1, y.shape[1]))]))
    return solution[:n], solution[n]


def machine(K_rows, K_basis, y, weights, ridge):
    """Coefficients and bias minimising ridge beta'K_basis beta + sum v (y - K_rows beta - b)^2, by least squares.

    The solution of least norm among equals, as for copies in the basis.
    """
    values, vectors = scipy.linalg.eigh(K_basis)
    root = np.sqrt(np.clip(values, 0.0, None))[:, None] * vectors.T
    scale = np.sqrt(weights)[:, None]
    bias = np.append(np.ones(len(y)), np.zeros(len(root)))
    A = np.column_stack([np.vstack([scale * K_rows, np.sqrt(ridge) * root]), bias])
    A[: len(y), -1] = scale[:, 0]
    right = np.vstack([scale * y, np.zeros((len(root), y.shape[1]))])
    solution = np.linalg.lstsq(A, right, rcond=1e-14)[0]
    return solution[:-1], solution[-1]


def left_out(K_rows, K_basis, y, weights, ridge, blocks=None, K_new=None):
    """y_B - f_(B)(x_B) for every block (every row by default), from one refit a block with its weights at 0.

    With K_new also the predictions f_(B)(x) for the new rows, one a block.
    """
    residuals, predictions = np.full(y.shape, np.nan), []
    for block in [[i] for i in range(len(y))] if blocks is None else blocks:
        kept = np.array(weights, dtype=float)
        kept[block] = 0.0
        coef, intercept = machine(K_rows, K_basis, y, kept, ridge)
        residuals[block] = y[block] - K_rows[block] @ coef - intercept
        if K_new is not None:
            predictions.append(K_new @ coef + intercept)
    return residuals if K_new is None else (residuals, np.stack(predictions, axis=1))
