"""Data, models and their definitions for the tests of the sparsifiers."""

import signal
from contextlib import contextmanager

import numpy as np
import pytest
import reference
from numpy.testing import assert_allclose, assert_array_equal

from lssvm import LSSVC, LSSVR, kernels
from lssvm.sparsify import Components, Given

ROWS = 64
SIZE = 12
POINTS = np.random.default_rng(9).uniform(-2, 2, (SIZE, 2))
GIVEN = {"kernel": kernels.RBF(sigma=1.3), "C": 10.0}
TASKS = ("numbers", "two classes", "three classes")


def make(task, rows=ROWS, seed=0):
    """A model with kernel and C given, inputs and targets."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (rows, 2))
    if task == "numbers":
        y = np.sin(3 * X[:, 0]) + X[:, 0] * np.cos(2 * X[:, 1]) + 0.1 * rng.standard_normal(rows)
        return LSSVR(**GIVEN), X, y
    classes = {"two classes": 2, "three classes": 3, "four classes": 4, "five classes": 5}[task]
    codes = np.arange(rows) % classes
    angle = 2 * np.pi * codes / classes
    return LSSVC(**GIVEN), 0.5 * X + np.column_stack([np.cos(angle), np.sin(angle)]), np.array(list("abcde"))[codes]


def coded(model, y):
    """What the machine fits, rows x outputs."""
    if isinstance(model, LSSVR):
        return columns(y)
    if len(model.classes_) == 2:
        return np.where(y == model.classes_[1], 1.0, -1.0)[:, None]
    return np.where(y[:, None] == model.classes_[None, :], 1.0, -1.0)


def columns(values):
    return values if values.ndim == 2 else values[:, None]


def raw(model, X):
    return columns(model.predict(X) if isinstance(model, LSSVR) else model.decision_function(X))


@contextmanager
def within(seconds):
    """Fail, and do not hang, when the block takes more CPU time."""

    def stop(*_):
        raise AssertionError(f"not done after {seconds} s")

    if not hasattr(signal, "setitimer"):  # Windows
        yield
        return
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def kkt_columns(K, support, y, weights, ridge):
    """The chosen columns of the KKT system, then the bias column, rows scaled by their weights; right-hand side."""
    A = np.column_stack([K[:, support], np.ones(len(K))])
    A[support, np.arange(len(support))] += ridge / weights[support]
    A = np.vstack([A, np.append(np.ones(len(support)), 0.0)])
    scale = np.append(np.sqrt(weights), 1.0)[:, None]
    return scale * A, scale * np.vstack([y, np.zeros((1, y.shape[1]))])


def reduced_loo(K, support, y, weights, ridge, blocks=None, K_new=None):
    """y_B - f_(B)(x_B), the equations of every block deleted; the ridge term is no part of f."""
    A, right = kkt_columns(K, support, y, weights, ridge)
    residuals, predictions = np.full(y.shape, np.nan), []
    for block in [[i] for i in range(len(y))] if blocks is None else blocks:
        x = np.linalg.lstsq(np.delete(A, block, axis=0), np.delete(right, block, axis=0), rcond=None)[0]
        residuals[block] = y[block] - K[np.ix_(block, support)] @ x[:-1] - x[-1]
        if K_new is not None:
            predictions.append(K_new @ x[:-1] + x[-1])
    return residuals if K_new is None else (residuals, np.stack(predictions, axis=1))


def assert_sound(model, X, y, *, reduced=False, smaller=True):
    """A valid, smaller basis; predictions and left-out residuals are those of the machine by its definition."""
    basis, support = model.support_vectors_, model.support_
    smaller = smaller and not any(isinstance(step, Components) for step in model.steps)
    assert 1 <= len(basis) == len(model.dual_coef_)
    assert len(basis) < len(X) if smaller else len(basis) <= len(X)
    if support is None:
        assert basis.shape[1] == X.shape[1]
        assert len(np.unique(basis, axis=0)) == len(basis)
    else:
        assert np.issubdtype(support.dtype, np.integer)
        assert np.all(np.diff(support) > 0)
        assert support[0] >= 0
        assert support[-1] < len(X)
        assert_array_equal(basis, X[support])
    t, weights, ridge = coded(model, y), model.weights_, 1.0 / model.C_
    assert weights.min() >= 0
    K, size = model.kernel_(X, basis), np.abs(t).max()
    if reduced:
        square = model.kernel_(X, X)
        solution = np.linalg.lstsq(*kkt_columns(square, support, t, weights, ridge), rcond=None)[0]
        expected = reduced_loo(square, support, t, weights, ridge)
        assert_allclose(raw(model, X), K @ solution[:-1] + solution[-1], rtol=1e-7, atol=1e-8 * size)
    else:
        again = LSSVR(model.kernel_, model.C_, steps=[Given(basis)]).fit(X, t, weights)
        expected = reference.left_out(K, model.kernel_(basis, basis), t, weights, ridge)
        assert_allclose(raw(model, X), columns(again.predict(X)), rtol=1e-7, atol=1e-8 * size)
    assert_allclose(columns(model.loo_residuals_), expected, rtol=1e-6, atol=1e-7 * size)
    assert model.press_ == pytest.approx(weights @ np.sum(expected**2, axis=1), rel=1e-6)
