"""An independent convex solver, and data for the tests of the convex programmes."""

import numpy as np
import pytest

cvxpy = pytest.importorskip("cvxpy")
pytest.importorskip("clarabel")
PRECISE = {"solver": "CLARABEL", "tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}


def data(rows=60, columns=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (rows, columns))
    return X, np.sin(3 * X[:, 0]) + 0.5 * X[:, -1] + 0.2 * rng.standard_normal(rows)
