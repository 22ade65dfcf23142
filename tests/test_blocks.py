"""Leave-block-out against refits, and under autocorrelated errors."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from lssvm import LSSVC, LSSVR, kernels, load, save, sparsify, tune
from lssvm.problem import Problem
from lssvm.tune.held_out import block_residuals


def series(n, seed, correlation=0.8):
    """A smooth curve in time, and with AR(1) errors added."""
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 10, n)[:, None]
    error = np.zeros(n)
    shocks = 0.3 * np.sqrt(1 - correlation**2) * rng.standard_normal(n)
    error[0] = 0.3 * rng.standard_normal()
    for i in range(1, n):
        error[i] = correlation * error[i - 1] + shocks[i]
    truth = np.sin(t[:, 0]) + 0.3 * t[:, 0]
    return t, truth, truth + error


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("h", [0, 4])
@pytest.mark.parametrize("name", ["dense", "weighted", "basis", "two"])
def test_residuals_equal_refits(name, h, every):
    t, _, y = series(40, 0)
    weights = np.where(np.arange(40) % 11 == 5, 0.0, 1.0 + np.arange(40) % 3) if name == "weighted" else np.ones(40)
    points = {"points": t[::4]} if name == "basis" else {}
    Y = np.column_stack([y, y**2]) if name == "two" else y[:, None]
    problem = Problem(kernels.RBF(1.5), t, Y, weights, C=10.0, **points)
    found = block_residuals(problem.factorise(every=every), 10.0, h)
    expected = []
    for i in problem.rows:
        near = np.abs(np.arange(40) - i) <= h
        fit = problem.replace(weights=np.where(near, 0.0, weights)).solve(loo=False)
        expected.append(Y[i] - fit.predict(t[i : i + 1])[0])
    assert_allclose(found, expected, rtol=1e-9, atol=1e-11)


def test_h_of_zero_is_leave_one_out():
    t, _, y = series(60, 1)
    blocks = LSSVR(kernels.RBF(1.0), steps=[tune.LeaveBlockOut(0)]).fit(t, y)
    assert blocks.path_.score == pytest.approx(LSSVR(kernels.RBF(1.0)).fit(t, y).path_.loo, rel=1e-4)


@pytest.mark.parametrize("steps", [(), (sparsify.Given(np.linspace(0, 10, 9)[:, None]),)], ids=["dense", "basis"])
def test_rows_in_another_order(steps):
    """The choice is that for sorted rows, whatever the form of the times; rows of weight 0 are in their places."""
    t, _, y = series(40, 1)
    weights, mixed = 1.0 * (np.arange(40) % 9 > 0), np.random.default_rng(0).permutation(40)
    kernel, days = kernels.RBF(sigma=2.0), pd.date_range("2024-01-01", periods=40)
    expected = LSSVR(kernel, steps=[*steps, tune.LeaveBlockOut(4)]).fit(t, y, weights)
    plain = LSSVR(kernel, steps=[*steps, tune.LeaveBlockOut(4)]).fit(t[mixed], y[mixed], weights[mixed])
    assert abs(plain.path_.score / expected.path_.score - 1.0) > 0.01
    for times in (pd.Series(days)[mixed], list(days.strftime("%Y-%m-%d")[mixed])):
        step = tune.LeaveBlockOut(4, order=times)
        model = LSSVR(kernel, steps=[*steps, step]).fit(t[mixed], y[mixed], weights[mixed])
        assert model.path_.score == pytest.approx(expected.path_.score, rel=1e-6)
        assert pytest.approx(expected.C_, rel=1e-3) == model.C_


@pytest.mark.slow
def test_test_error_under_autocorrelated_errors():
    wins = 0
    for seed in range(10):
        t, truth, y = series(120, seed)
        errors = [
            np.mean((LSSVR(kernels.RBF(), steps=steps).fit(t, y).predict(t) - truth) ** 2)
            for steps in (None, [tune.LeaveBlockOut(8)])
        ]
        wins += errors[1] < errors[0]
    assert wins >= 9


@pytest.mark.slow
def test_classes_and_files(tmp_path):
    t, _, y = series(60, 2)
    model = LSSVR(kernels.RBF(), steps=[tune.LeaveBlockOut(5)]).fit(t, y)
    save(model, tmp_path / "model.lssvm")
    assert load(tmp_path / "model.lssvm").path_.score == model.path_.score
    assert LSSVC(kernels.RBF(), steps=[tune.LeaveBlockOut(3)]).fit(t, y > 1).score(t, y > 1) > 0.8
    assert LSSVR(steps=[sparsify.Random(10, random_state=0), tune.LeaveBlockOut(5)]).fit(t, y).C_ > 0


def test_mistakes():
    t, _, y = series(60, 2)
    for h in (-1, 1.5, True, "a"):
        with pytest.raises(ValueError, match="LeaveBlockOut: h must be a non-negative integer"):
            LSSVR(steps=[tune.LeaveBlockOut(h)]).fit(t, y)
    with pytest.raises(ValueError, match=r"fewer than 2 of 60 rows are left: lower h"):
        LSSVR(steps=[tune.LeaveBlockOut(30)]).fit(t, y)
    for order in (t[:5, 0], np.where(t[:, 0] > 3, np.nan, t[:, 0])):
        with pytest.raises(ValueError, match=r"(?s)LeaveBlockOut: order=.*give one time per training row \(60 rows\)"):
            LSSVR(steps=[tune.LeaveBlockOut(3, order)]).fit(t, y)
    with pytest.raises(ValueError, match="LeaveBlockOut: h refers to row numbers"):
        LSSVR(steps=[tune.LeaveBlockOut(3)]).fit_chunks([(t, y)])
