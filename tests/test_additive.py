"""Additive models: splines, groups, components and their deviations."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from lssvm import LSSVR, datasets, sparsify
from lssvm.intervals import component_deviations
from lssvm.kernels import RBF, Additive, Spline
from lssvm.sparsify import Given


def test_spline_is_a_natural_cubic_spline_of_mean_0():
    knots = np.array([0.0, 0.2, 0.7, 1.0])
    kernel = Spline(knots)
    x = np.linspace(-1, 2, 3001)[:, None]
    f = kernel(x, knots[1:2, None])[:, 0]
    assert np.linalg.matrix_rank(kernel(x[::50]), tol=1e-8) == 4
    assert np.linalg.eigvalsh(kernel(x[::50])).min() > -1e-9
    inside = (x[:, 0] >= 0) & (x[:, 0] <= 1)
    assert np.trapezoid(f[inside], x[inside, 0]) == pytest.approx(0.0, abs=1e-6)
    step = x[1, 0] - x[0, 0]
    second = np.diff(f, 2) / step**2
    outside = (x[2:, 0] < 0) | (x[:-2, 0] > 1)
    assert np.abs(second[outside]).max() < 1e-6
    assert np.abs(second).max() > 1e-2
    assert_allclose(
        kernel.diagonal(x), np.diag(kernel(x[:, :])) if len(x) < 100 else np.sum(kernel.features(x) ** 2, 1)
    )


def test_spline_places_its_knots_at_fit():
    X, y = datasets.make_additive(100, 25, random_state=0)
    X[:, 3] = X[:, 3] > 0.5
    X[:, 7] = 2.0
    kernel = Additive(Spline())
    model = LSSVR(kernel, C=1.0, steps=()).fit(X, y)
    assert kernel.kernel.knots is None
    assert model.kernel_.kernel.knots.shape == (3, 25)
    assert_allclose(model.kernel_.kernel.knots[[0, -1]], [X.min(axis=0), X.max(axis=0)])
    moved = LSSVR(kernel, C=1.0, steps=()).fit(1e3 * X + 7.0, y)
    assert_allclose(moved.predict(1e3 * X + 7.0), model.predict(X), rtol=1e-6)
    assert_allclose(model.components(X)[:, 7], 0.0, atol=1e-12)
    for knots in (1, 2.5, True, "x"):
        with pytest.raises(ValueError, match="Spline: knots must be an integer from 2 to 10000 or an array"):
            LSSVR(Spline(knots), C=1.0).fit(X, y)
    with pytest.raises(
        ValueError, match="give at least 2 finite knots, either common to all columns or one column of knots"
    ):
        LSSVR(Spline(np.zeros((3, 2))), C=1.0).fit(X, y)
    with pytest.raises(ValueError, match="has no knots yet"):
        Spline()(X)


@pytest.mark.parametrize("groups", [[], [[0], [9]], [[-1]], [[]], [["a"], ["b"]], 3])
def test_groups_that_are_none(groups):
    X, y = datasets.make_additive(20, 4, random_state=0)
    X = X[:, :2]
    with pytest.raises(ValueError, match="Additive: groups must be lists of column numbers"):
        LSSVR(Additive(RBF(1.0), groups), C=1.0).fit(X, y)


def test_gradient_of_groups_and_of_components_left_out():
    rng = np.random.default_rng(0)
    X, Z, G = rng.standard_normal((6, 4)), rng.standard_normal((5, 4)), rng.standard_normal((6, 5))
    widths = np.array([0.7, 1.1, 1.6, 2.0])
    for groups, active in (([[0, 2], [1, 3]], None), ([[0, 2], [1], [3]], [0, 2])):
        found = Additive(RBF(widths), groups, active).gradient(X, Z, G)[0]
        for c in range(4):
            up, down = widths.copy(), widths.copy()
            up[c] *= np.exp(1e-5)
            down[c] *= np.exp(-1e-5)
            slope = Additive(RBF(up), groups, active)(X, Z) - Additive(RBF(down), groups, active)(X, Z)
            assert found[c] == pytest.approx(np.sum(G * slope) / 2e-5, abs=1e-8)


@pytest.mark.parametrize("steps", [(), [sparsify.Random(20, random_state=0)]])
def test_components_add_up_and_are_centred(steps):
    X, y = datasets.make_additive(50, 4, random_state=0)
    model = LSSVR(Additive(RBF(0.8)), C=10.0, steps=steps).fit(X, y)
    parts = model.components(X)
    assert_allclose(parts.mean(axis=0), 0.0, atol=1e-10)
    assert np.ptp(model.predict(X) - parts.sum(axis=1)) < 1e-9
    assert_allclose(model.max_variation_, np.abs(parts).max(axis=0))
    assert_array_equal(model.active_, np.arange(4))
    moved = X.copy()
    moved[:, 1] = moved[::-1, 1]
    assert_allclose(model.components(moved)[:, [0, 2, 3]], parts[:, [0, 2, 3]])
    chunks = LSSVR(Additive(RBF(0.8)), C=10.0, steps=[Given(X[:20])]).partial_fit(X, y)
    assert np.ptp(chunks.predict(X) - chunks.components(X).sum(axis=1)) < 1e-9
    assert not hasattr(LSSVR(RBF(1.0), C=1.0).fit(X, y), "components")


@pytest.mark.parametrize("steps", [(), [Given(np.arange(0, 40, 3))]])
def test_deviations_are_those_of_the_linear_map(steps):
    X, y = datasets.make_additive(40, 4, random_state=0)
    v = np.random.default_rng(0).uniform(0.5, 2.0, 40)
    model = LSSVR(Additive(RBF(0.8)), C=5.0, steps=steps).fit(X, y, v)
    new = X[:7] + 0.05
    found = component_deviations(model.fitted_.problem, model.fitted_.fit, new)[:, :, 0]
    columns = []
    for i in range(40):  # the components are linear in the targets: those of a unit target are the map
        unit = LSSVR(model.kernel_, C=5.0, steps=steps).fit(X, np.eye(40)[i], v)
        columns.append(model_components_around_rows(unit, X, new))
    residuals = y - model.predict(X)
    H = np.column_stack([LSSVR(model.kernel_, C=5.0, steps=steps).fit(X, e, v).predict(X) for e in np.eye(40)])
    rest = np.sqrt(v)[:, None] * (np.eye(40) - H) / np.sqrt(v)
    variance = v @ residuals**2 / np.sum(rest**2)
    expected = np.sqrt(variance * np.einsum("irc,i->rc", np.array(columns) ** 2, 1 / v))
    assert_allclose(found, expected, rtol=1e-7)


def model_components_around_rows(model, X, new):
    return model.components(new) - model.components(X).mean(axis=0)
