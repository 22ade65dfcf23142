"""What the tests compare with: the machine by its definition, solved again for every row that is left out."""

import numpy as np
import scipy.linalg

from lssvm import arrays


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
    return least_squares(K_rows, root_of(K_basis), y, weights, ridge)


def root_of(K_basis):
    values, vectors = scipy.linalg.eigh(K_basis)
    return np.sqrt(np.clip(values, 0.0, None))[:, None] * vectors.T


def least_squares(K_rows, root, y, weights, ridge):
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
    residuals, predictions, root = np.full(y.shape, np.nan), [], root_of(K_basis)
    for block in [[i] for i in range(len(y))] if blocks is None else blocks:
        kept = np.array(weights, dtype=float)
        kept[block] = 0.0
        coef, intercept = least_squares(K_rows, root, y, kept, ridge)
        residuals[block] = y[block] - K_rows[block] @ coef - intercept
        if K_new is not None:
            predictions.append(K_new @ coef + intercept)
    return residuals if K_new is None else (residuals, np.stack(predictions, axis=1))


def kkt_residual(problem, fit):
    """Relative residual of the optimality (KKT) conditions: max |A x - b| / (|A| |x| + |b|), in the maximum norm.

    If the basis consists of all rows, the system is (K + V^-1/C) alpha + 1 b = y, 1'alpha = 0, with row i scaled by
    sqrt(v_i) on both sides; otherwise it is the normal equations (K_SS/C + K_SX V K_XS) beta + K_SX V 1 b =
    K_SX V y with their last row. The result is about machine precision for a correct fit, however ill-conditioned
    the system is.
    """
    xp = arrays.namespace(problem.X)
    rows = problem.replace(weights=fit.weights).rows
    X, y, v = (arrays.take(a, rows) for a in (problem.X, problem.y, fit.weights))
    n = fit.points.shape[0]
    beta, b = fit.coef, fit.intercept
    if fit.support is not None and np.array_equal(np.sort(fit.support), rows):
        w = xp.sqrt(v)
        worst, norm = arrays.zeros((n, beta.shape[1]), beta), 0.0
        for block in arrays.row_blocks(n, 8 * n):
            K = fit.kernel.evaluate(X[block, :], fit.points) * w[block, None] * w[None, :]
            norm = max(norm, float(xp.max(xp.sum(xp.abs(K), axis=1) + w[block])) + 1.0 / fit.C)
            a = beta / w[:, None]
            worst[block, :] = K @ a + a[block, :] / fit.C + w[block, None] * (b[None, :] - y[block, :])
        total = xp.concat([worst, xp.sum(beta, axis=0)[None, :]])
        unknown = xp.concat([beta / w[:, None], b[None, :]])
        right = w[:, None] * y
    else:
        G = arrays.zeros((n + 1, n + 1), beta)
        right = arrays.zeros((n + 1, beta.shape[1]), beta)
        for block in arrays.row_blocks(X.shape[0], 8 * n):
            K = fit.kernel.evaluate(X[block, :], fit.points)
            Z = xp.concat([K, arrays.zeros((K.shape[0], 1), K) + 1.0], axis=1)
            G += Z.T @ (v[block, None] * Z)
            right += Z.T @ (v[block, None] * y[block, :])
        inputs = fit.points if fit.support is None else arrays.take(problem.X, fit.support)
        G[:n, :n] += fit.kernel.evaluate(inputs, fit.points) / fit.C
        unknown = xp.concat([beta, b[None, :]])
        total, norm = G @ unknown - right, float(xp.max(xp.sum(xp.abs(G), axis=1)))
    size = norm * float(xp.max(xp.abs(unknown))) + float(xp.max(xp.abs(right)))
    return float(xp.max(xp.abs(total))) / size if size > 0 else 0.0
