"""Kernels: every value against a literal double loop, every derivative against differences."""

import contextlib
import ctypes
import itertools
import math
import shutil
import subprocess
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import gamma, kv
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from lssvm import LSSVR, arrays, kernels, sparsify
from lssvm.arrays import threads
from lssvm.kernels import RBF, Additive, Linear, Matern, Polynomial, Precomputed, as_kernel, stationary

NAMESPACES = ["torch", "array_api_strict"]


def inputs(columns, rows=(9, 7), seed=0):
    """Two sets of rows, the second with one row of the first among them."""
    rng = np.random.default_rng(seed)
    X, Z = rng.standard_normal((rows[0], columns)), rng.standard_normal((rows[1], columns))
    Z[1] = X[2]
    return X, Z


def double_loop(function, X, Z):
    return np.array([[function(x, z) for z in Z] for x in X])


def gaussian(sigma):
    return lambda x, z: math.exp(-sum((a - b) ** 2 / s**2 for a, b, s in zip(x, z, sigma, strict=True)))


def matern(nu, sigma):
    """By the Bessel function, for any nu."""

    def function(x, z):
        u = math.sqrt(2 * nu * sum((a - b) ** 2 / s**2 for a, b, s in zip(x, z, sigma, strict=True)))
        return 2 ** (1 - nu) / gamma(nu) * u**nu * kv(nu, u) if u > 0 else 1.0

    return function


def componentwise(function, sigma):
    """Sum over columns of a kernel of one column."""
    return lambda x, z: sum(function([s])([a], [b]) for a, b, s in zip(x, z, sigma, strict=True))


def dot(x, z):
    return sum(a * b for a, b in zip(x, z, strict=True))


def cases(sigma):
    """Name -> (kernel, its value for two rows), with these widths."""
    half, three_halves = matern(0.5, sigma), matern(1.5, sigma)
    values = sigma if len(set(sigma)) > 1 else sigma[0]
    return {
        "rbf": (RBF(values), gaussian(sigma)),
        "matern 1/2": (Matern(values, nu=0.5), half),
        "matern 3/2": (Matern(values, nu=1.5), three_halves),
        "matern 5/2": (Matern(values, nu=2.5), matern(2.5, sigma)),
        "linear": (Linear(), dot),
        "scaled": (Linear(sigma), lambda x, z: dot(*(np.asarray(a) / sigma for a in (x, z)))),
        "additive scaled": (Additive(Linear(sigma)), lambda x, z: dot(*(np.asarray(a) / sigma for a in (x, z)))),
        "polynomial": (Polynomial(3, coef0=0.5), lambda x, z: (dot(x, z) + 0.5) ** 3),
        "homogeneous": (Polynomial(2, coef0=0.0), lambda x, z: dot(x, z) ** 2),
        "additive": (Additive(RBF(values)), componentwise(gaussian, sigma)),
        "additive matern": (Additive(Matern(values, nu=0.5)), componentwise(lambda s: matern(0.5, s), sigma)),
        "sum": (RBF(values) + Matern(values, nu=1.5), lambda x, z: gaussian(sigma)(x, z) + three_halves(x, z)),
        "product": (RBF(values) * Linear(), lambda x, z: gaussian(sigma)(x, z) * dot(x, z)),
        "nested": (
            (RBF(values) + Linear()) * Matern(values, nu=0.5),
            lambda x, z: (gaussian(sigma)(x, z) + dot(x, z)) * half(x, z),
        ),
        "callable": (as_kernel(lambda X, Z: (X @ Z.T) ** 2), lambda x, z: dot(x, z) ** 2),
    }


NAMES = list(cases([1.0]))
WITH_WIDTH = [
    name
    for name in NAMES
    if name not in ("linear", "scaled", "additive scaled", "polynomial", "homogeneous", "callable")
]
SIGMAS = {
    "scalar": [1.3] * 3,
    "per column": [0.7, 1.9, 1.1],
    "scalar, many columns": [2.0] * 7,
    "per column, many": [0.8, 2.0, 1.5, 3.0, 1.0, 2.5, 1.2],
}


@pytest.mark.parametrize("sigma", SIGMAS.values(), ids=SIGMAS)
@pytest.mark.parametrize("name", NAMES)
def test_values_are_those_of_a_double_loop(name, sigma):
    X, Z = inputs(len(sigma))
    kernel, function = cases(sigma)[name]
    expected = double_loop(function, X, Z)
    assert_allclose(kernel(X, Z), expected, rtol=1e-13, atol=1e-14)
    assert kernel(X, Z).dtype == np.float64
    symmetric = kernel(X)
    assert_allclose(symmetric, double_loop(function, X, X), rtol=1e-13, atol=1e-14)
    assert_allclose(kernel.diagonal(X), np.diag(symmetric), rtol=1e-13, atol=1e-14)


def test_a_sequence_of_one_width_is_a_scalar():
    X, Z = inputs(3)
    for kernel in (RBF, Matern):
        assert_array_equal(kernel([1.3])(X, Z), kernel(1.3)(X, Z))
    assert_array_equal(Additive(RBF([1.3]))(X, Z), Additive(RBF(1.3))(X, Z))


@pytest.mark.parametrize("columns", [1, 4, 5, 12])
@pytest.mark.parametrize("sigma", [0.05, 2.0, 50.0])
@pytest.mark.parametrize("kernel", [RBF, lambda s: Matern(s, nu=0.5), lambda s: Matern(s, nu=2.5)], ids=range(3))
def test_copies_of_a_row_have_kernel_one_exactly(kernel, sigma, columns):
    X = np.random.default_rng(0).standard_normal((40, columns)) + 3.0
    X[20:] = X[:20]
    K, between = kernel(sigma)(X), kernel(sigma)(X, X.copy())
    for matrix in (K, between):
        assert_array_equal(np.diag(matrix), 1.0)
        assert_array_equal(np.diag(matrix, 20), 1.0)
    assert_array_equal(kernel(sigma).diagonal(X), 1.0)


@pytest.mark.parametrize("columns", [2, 7])
@pytest.mark.parametrize("name", ["rbf", "matern 1/2", "matern 3/2", "matern 5/2", "additive", "sum"])
def test_an_offset_of_the_inputs_costs_no_digits(name, columns):
    sigma = [1.5] * columns
    X, Z = (array + 1e6 for array in inputs(columns))
    kernel, function = cases(sigma)[name]
    assert_allclose(kernel(X, Z), double_loop(function, X, Z), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("columns", [2, 7])
@pytest.mark.parametrize("name", ["rbf", "matern 1/2", "matern 5/2"])
def test_two_far_clusters_keep_their_inner_distances(name, columns):
    """No centre suits both: |x|^2 + |z|^2 - 2xz would lose 2 * log10(1e4) digits inside each cluster."""
    sigma = [0.8] * columns
    X, Z = inputs(columns)
    X[::2] += 1e4
    Z[::2] += 1e4
    Z[1] = X[2]
    kernel, function = cases(sigma)[name]
    assert_allclose(kernel(X, Z), double_loop(function, X, Z), rtol=1e-9, atol=1e-12)


# Far rows -------------------------------------------------------------------------------------------------------------
STATIONARY = {
    "rbf": RBF,
    "1/2": lambda s: Matern(s, 0.5),
    "3/2": lambda s: Matern(s, 1.5),
    "5/2": lambda s: Matern(s, 2.5),
}


def with_far_rows(columns, cell, kind):
    """Rows of which one, several of the same value, or many are far, among X and among Z."""
    X, Z = inputs(columns, rows=(40, 30))
    if kind == "one of X":
        X[3, 0] = cell
    elif kind == "one of Z":
        Z[4, -1] = -cell
    elif kind == "the same":
        X[3, 0] = Z[4, 0] = Z[7, 0] = cell
        Z[8, 0] = 3.0 * cell
    else:
        X[::3, 0] = Z[::3, -1] = cell
        X[1::3] -= cell
    return X, Z


def by_differences(X, Z, sigma):
    """(x_ic - z_jc)/sigma_c, without overflow of its square."""
    with np.errstate(over="ignore"):
        return np.clip((X[:, None, :] - Z[None, :, :]) / sigma, -1e150, 1e150)


def of_squares(name, D):
    """Kernel values and -dk/dD of the squared distances D."""
    if name == "rbf":
        return np.exp(-D), np.exp(-D)
    nu = {"1/2": 0.5, "3/2": 1.5, "5/2": 2.5}[name]
    r = np.sqrt(2.0 * nu * D)
    e = np.exp(-r)
    slope = {"1/2": e / np.where(r > 0, 2.0 * r, np.inf), "3/2": 1.5 * e, "5/2": 5 / 6 * (1.0 + r) * e}[name]
    return {"1/2": e, "3/2": (1.0 + r) * e, "5/2": (1.0 + r + r * r / 3.0) * e}[name], slope


@pytest.mark.parametrize("columns", [1, 4, 5, 12, 40])
@pytest.mark.parametrize("name", STATIONARY)
def test_far_rows_change_neither_the_values_nor_the_gradients_of_others(name, columns):
    """Bounds on rounding errors, and the centre, must not follow the farthest row."""
    sigma = np.geomspace(0.8, 3.0, columns) * math.sqrt(columns)
    kernel, W = STATIONARY[name](sigma), np.random.default_rng(1).standard_normal((40, 30))
    for cell, kind in itertools.product([1e3, 1e12, 1e300], ["one of X", "one of Z", "the same", "many"]):
        X, Z = with_far_rows(columns, cell, kind)
        difference = by_differences(X, Z, sigma)
        values, slope = of_squares(name, np.sum(difference**2, axis=2))
        assert_allclose(kernel(X, Z), values, rtol=1e-11, atol=1e-13)
        terms = 2.0 * (W * slope)[:, :, None] * difference
        for found in (kernel.gradient(X, Z, W), kernel.both_gradients(X, Z, W)[0]):
            assert_allclose(found, [np.sum(terms * difference, axis=(0, 1))], rtol=1e-10, atol=1e-10)
        for found in (kernel.point_gradient(X, Z, W), kernel.both_gradients(X, Z, W)[1]):
            assert_allclose(found, np.sum(terms, axis=0) / sigma, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("on_accelerator", [False, True])
@pytest.mark.parametrize("namespace", NAMESPACES)
def test_far_rows_in_other_namespaces(namespace, on_accelerator, monkeypatch):
    xp = pytest.importorskip(namespace)
    monkeypatch.setattr(arrays, "on_accelerator", lambda array: on_accelerator)
    W = np.random.default_rng(1).standard_normal((40, 30))
    for columns, cell, kind in itertools.product([3, 7], [1e7, 1e300], ["the same", "many"]):
        sigma = np.geomspace(0.8, 3.0, columns)
        X, Z = with_far_rows(columns, cell, kind)
        A, B, V = (xp.asarray(array) for array in (X, Z, W))
        for name in STATIONARY:
            kernel = STATIONARY[name](sigma)
            values = of_squares(name, np.sum(by_differences(X, Z, sigma) ** 2, axis=2))[0]
            assert_allclose(arrays.to_numpy(kernel(A, B)), values, rtol=1e-11, atol=1e-13)
            pairs = zip(kernel.both_gradients(A, B, V), kernel.both_gradients(X, Z, W), strict=True)
            for found, expected in [*pairs, (kernel.gradient(A, B, V), kernel.gradient(X, Z, W))]:
                assert_allclose(arrays.to_numpy(found), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kernel", [RBF(1.0), Matern(1.0, 0.5), Matern(1.0, 1.5), Matern(1.0, 2.5), Additive(RBF(1.0))])
def test_rows_whose_distances_overflow_are_far_from_all_others(kernel):
    size = np.array([1e150, -1e150, 1e154, -1e155, 1e200, 3e200, -1e300, 1.7e308, -1.7e308, 0.0, 1.0])[:, None]
    for columns in (1, 5):
        X = size * np.eye(columns)[:1]
        K, others = kernel(X), columns - 1 if isinstance(kernel, Additive) else 0
        assert_array_equal(K[:-2], others + np.eye(len(X))[:-2])
        assert np.isfinite(kernel.gradient(X, X, np.ones(K.shape))).all()


# Derivatives ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("sigma", [SIGMAS["per column"], SIGMAS["per column, many"]], ids=["3", "7"])
@pytest.mark.parametrize("name", WITH_WIDTH)
def test_gradient_is_the_central_difference_in_each_log_width(name, sigma):
    X, Z = inputs(len(sigma))
    G = np.random.default_rng(1).standard_normal((len(X), len(Z)))
    step = 1e-5

    def value(column, change):
        widths = list(sigma)
        widths[column] *= math.exp(change)
        return np.sum(G * cases(widths)[name][0](X, Z))

    differences = [(value(c, step) - value(c, -step)) / (2 * step) for c in range(len(sigma))]
    gradient = cases(sigma)[name][0].gradient(X, Z, G).sum(axis=0)
    assert_allclose(gradient, differences, rtol=1e-8, atol=1e-8 * np.max(np.abs(differences)))


@pytest.mark.parametrize("in_main", [True, False])
def test_an_error_in_a_tile_is_raised_whichever_thread_meets_it(in_main, monkeypatch):
    """One of the caller's ends the others' work as well."""
    monkeypatch.setattr(threads, "workers", lambda: 2)
    out, done = np.zeros((1000, 1000)), []

    both, met = threading.Barrier(2, timeout=60), threading.local()

    def tile(rows, columns):
        if not hasattr(met, "other"):  # each thread waits until the other has a tile, too
            met.other = both.wait()
        if (threading.current_thread() is threading.main_thread()) == in_main:
            raise ValueError("a tile")
        time.sleep(0.1)
        done.append(rows)

    with pytest.raises(ValueError, match="a tile"):
        arrays.in_tiles(tile, out, 8)
    if in_main:
        assert len(done) < 15  # of 16 tiles: the caller's first one ended the work

    def fill(rows, columns):
        out[rows, columns] += 1.0

    arrays.in_tiles(fill, out, 8)
    assert (out == 1.0).all()


@pytest.mark.parametrize("kernel", [RBF, Matern])
def test_gradient_of_many_rows_is_that_of_their_parts(kernel):
    """Large ones go tile by tile, in threads."""
    rng = np.random.default_rng(0)
    X, Z, G = rng.standard_normal((1500, 6)), rng.standard_normal((1100, 6)), rng.standard_normal((1500, 1100))
    Z[:50] = X[:50]
    kernel = kernel(np.linspace(1.0, 3.0, 6))
    parts = [kernel.gradient(X[i : i + 100], Z, G[i : i + 100]) for i in range(0, 1500, 100)]
    assert X[:100].shape[0] * Z.shape[0] < 2**17 < G.size
    assert_allclose(kernel.gradient(X, Z, G), sum(parts), rtol=1e-9)


@pytest.mark.parametrize("name", WITH_WIDTH)
def test_gradient_sums_to_the_derivative_in_a_scalar_width(name):
    X, Z = inputs(3)
    G = np.random.default_rng(1).standard_normal((len(X), len(Z)))
    step = 1e-5
    up, down = (np.sum(G * cases([1.3 * math.exp(h)] * 3)[name][0](X, Z)) for h in (step, -step))
    kernel = cases([1.3] * 3)[name][0]
    assert_allclose(kernel.gradient(X, Z, G).sum(), (up - down) / (2 * step), rtol=1e-7)


@pytest.mark.parametrize("kernel", [RBF(1.0), Matern(1.0, nu=0.5), Matern(1.0, nu=1.5), Matern(1.0, nu=2.5)])
@pytest.mark.parametrize("gap", [0.0, 2.0**-53, 1e-12, 1e-8])
def test_gradient_of_points_that_are_copies_up_to_rounding(kernel, gap):
    """-dk/d(r^2) of nu = 1/2 grows like 1/r: the (x - z)^2 beside it must not come from a cancelling sum."""
    X, Z = np.array([[0.3], [2.0], [5.0]]), np.array([[0.3 + gap], [1.0]])
    G = np.ones((3, 2))
    step = 1e-5
    up, down = (clone(kernel).set_params(sigma=math.exp(h))(X, Z).sum() for h in (step, -step))
    assert_allclose(kernel.gradient(X, Z, G), [[(up - down) / (2 * step)]], rtol=1e-8)


@pytest.mark.parametrize("columns", [2, 7])
@pytest.mark.parametrize("name", [name for name in WITH_WIDTH if name not in ("product", "nested")])  # linear parts
def test_gradient_does_not_depend_on_an_offset_of_the_inputs(name, columns):
    far = [array + 1e6 for array in inputs(columns)]
    near = [array - 1e6 for array in far]  # exact: the roundings of the offset stay in both
    G = np.random.default_rng(1).standard_normal((9, 7))
    kernel = cases([1.5] * columns)[name][0]
    assert_allclose(kernel.gradient(*far, G), kernel.gradient(*near, G), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kernel", [Linear(), Polynomial(2), as_kernel(lambda X, Z: X @ Z.T)])
def test_gradient_of_a_kernel_without_width_is_zero(kernel):
    X, Z = inputs(3)
    assert kernel.gradient(X, Z, np.ones((len(X), len(Z)))).shape == (0, 3)


# Blocks ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("columns", [3, 7])
@pytest.mark.parametrize("name", NAMES)
def test_blocks_of_rows_give_the_whole(name, columns):
    X, Z = inputs(columns, rows=(41, 11))
    kernel = cases([1.3] * columns)[name][0]
    whole, coef = kernel(X, Z), np.random.default_rng(2).standard_normal((11, 2))
    for working_memory in (1e-6, 1e-3, 1):
        with config_context(working_memory=working_memory):
            out = np.full((41, 11), np.nan)
            assert kernel.fill(out, X, Z) is out
            assert_allclose(out, whole, rtol=1e-13, atol=1e-14)
            assert_allclose(kernel.dot(X, Z, coef), whole @ coef, rtol=1e-12, atol=1e-13)


def test_blocks_stay_within_the_working_memory():
    seen = []

    def function(X, Z):
        seen.append(8 * X.shape[0] * Z.shape[0])
        return X @ Z.T

    X = np.ones((5000, 2))
    with config_context(working_memory=1):
        kernels.Function(function).fill(np.empty((5000, 100)), X, X[:100])
        kernels.Function(function).dot(X, X[:100], np.ones((100, 1)))
    assert max(seen) <= 2**20
    assert sum(seen) == 2 * 8 * 5000 * 100


# Errors ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (RBF(-1.5), r"RBF: sigma must be positive.* got -1\.5"),
        (RBF(0.0), r"sigma must be positive.* got 0\.0"),
        (RBF(math.nan), r"sigma must be positive.* got nan"),
        (RBF([1.0, 2.0]), r"RBF: sigma has shape \(2,\), but X has 3 columns"),
        (Matern(np.ones((3, 3))), r"Matern: sigma must be positive: a number or one per column"),
        (RBF("wide"), "RBF: sigma must be positive: a number.*'wide'"),
        (RBF(None), r"RBF\(sigma=None\)"),
        (Matern(1.0, nu=2), r"Matern: nu must be 0\.5, 1\.5 or 2\.5, got 2"),
        (Polynomial(0), "Polynomial: degree must be a positive integer, got 0"),
        (Polynomial(1.5), r"Polynomial: degree .* got 1\.5"),
        (Polynomial(2, coef0=-1.0), r"Polynomial: coef0 .* got -1\.0"),
        (Additive(RBF(-2.0)), r"RBF: sigma .* got -2\.0"),
        (Linear() + Matern(1.0, nu=3.5), r"Matern: nu .* got 3\.5"),
        (Linear() * RBF(-3.0), r"RBF: sigma .* got -3\.0"),
        (Linear([1.0, 2.0]), r"Linear: scale has 2 values, but X has 3 columns"),
        (Linear([1.0, 0.0, 2.0]), r"Linear: scale must be an array of positive numbers"),
        (Precomputed() + Linear(), "contains Precomputed"),
    ],
)
def test_a_wrong_parameter_is_named_with_its_value(kernel, message):
    with pytest.raises(ValueError, match=message):
        kernel.check(3)
    X = np.random.default_rng(0).standard_normal((6, 3))
    if not kernel.is_free:
        with pytest.raises(ValueError, match=message):
            LSSVR(kernel, C=1.0).fit(X, X[:, 0])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (RBF, r"kernel=RBF is a class: write RBF\(\)"),
        (Additive, r"kernel=Additive is a class: write Additive\(kernels.RBF\(\)\)"),
        ("rbf", "kernel='rbf' is not a kernel"),
        (3, "kernel=3 is not"),
    ],
)
def test_what_is_no_kernel_is_refused(value, message):
    with pytest.raises(TypeError, match=message):
        as_kernel(value)


def test_a_callable_that_returns_a_wrong_shape_is_refused():
    X, Z = inputs(2)
    with pytest.raises(
        ValueError, match=r"returned shape \(7, 9\) for 9 rows of X and 7 rows of Z: the shape must be \(9, 7\)"
    ):
        as_kernel(lambda X, Z: Z @ X.T)(X, Z)


@pytest.mark.parametrize(
    "kernel",
    [Linear(), Linear([0.5, 0.5, 1.0]), Polynomial(1, coef0=0.0), Polynomial(3), kernels.Spline([-1.0, 0.0, 1.0])],
)
def test_values_that_overflow_are_no_numpy_warnings(kernel):
    """On some processors, inf - inf inside a matrix product is a RuntimeWarning; `predict` raises its own error."""
    X = np.array([[1.7e308, -1.7e308, 1.7e308], [1.0, 2.0, 3.0]])
    Z = np.random.default_rng(0).standard_normal((9, 3))
    assert_array_equal(np.isfinite(kernel(np.vstack([X, X]), Z)).all(axis=1), [False, True] * 2)
    assert_array_equal(np.isfinite(kernel.diagonal(X)), [False, True])
    if not isinstance(kernel, kernels.Spline):
        assert not np.isfinite(kernel.point_gradient(X, Z, np.full((2, 9), 4.0))).all()


def test_no_columns_have_no_derivatives():
    for kernel in (RBF(1.0), Matern(1.0)):
        assert kernel.gradient(np.ones((3, 0)), np.ones((2, 0)), np.ones((3, 2))).shape == (1, 0)


# Parameters -----------------------------------------------------------------------------------------------------------
def test_kernels_are_estimators():
    kernel = (RBF(1.0) + Linear()) * Matern([1.0, 2.0], nu=0.5)
    assert clone(kernel).get_params()["k1__k1__sigma"] == 1.0
    assert repr(clone(kernel)) == repr(kernel)
    assert kernel.set_params(k1__k1__sigma=3.0).k1.k1.sigma == 3.0
    X, Z = inputs(2)
    assert_array_equal(clone(kernel)(X, Z), kernel(X, Z))
    model = LSSVR(RBF(1.0), C=1.0).set_params(kernel__sigma=2.5)
    assert model.kernel.sigma == 2.5


def test_a_grid_search_reaches_the_width():
    X, _ = inputs(2, rows=(30, 2))
    search = GridSearchCV(LSSVR(RBF(1.0), C=10.0), {"kernel__sigma": [1e-3, 2.0]}, cv=3).fit(X, X[:, 0])
    assert search.best_estimator_.kernel_.sigma == 2.0


@pytest.mark.parametrize(
    ("free", "filled"),
    [
        (RBF(), RBF([1.0, 2.0, 4.0])),
        (RBF(3.0), RBF(3.0)),
        (Additive(RBF()), Additive(RBF([1.0, 2.0, 4.0]))),
        (RBF() + Matern(5.0), RBF([1.0, 2.0, 4.0]) + Matern(5.0)),
        (Linear() * (RBF() + Matern()), Linear() * (RBF([1.0, 2.0, 4.0]) + Matern([1.0, 2.0, 4.0]))),
    ],
)
def test_widths_left_free_are_filled_in_units_of_the_spread(free, filled):
    X, Z = inputs(3)
    before = repr(free)
    kernel = free.with_width(2.0, np.array([0.5, 1.0, 2.0]))
    assert repr(free) == before
    assert not kernel.is_free
    assert_allclose(kernel(X, Z), filled(X, Z), rtol=1e-14)


def test_additive_of_a_sum_takes_one_width_a_column():
    X, Z = inputs(3)
    widths = np.array([1.0, 2.0, 4.0])
    parts = [RBF(widths[c])(X[:, [c]], Z[:, [c]]) + X[:, [c]] @ Z[:, [c]].T for c in range(3)]
    assert_allclose(Additive(RBF() + Linear()).with_width(2.0, widths / 2)(X, Z), sum(parts), rtol=1e-14)


@pytest.mark.parametrize(("kernel", "free"), [(RBF(), True), (RBF(1.0), False), (Linear() + Matern(), True)])
def test_free_kernels_are_known(kernel, free):
    assert kernel.is_free is free
    assert Additive(kernel).is_free is free


def test_algebra_takes_callables_on_both_sides():
    X, Z = inputs(3)
    plain = lambda X, Z: X @ Z.T  # noqa: E731
    for kernel in (RBF(1.0) + plain, plain + RBF(1.0)):
        assert_allclose(kernel(X, Z), RBF(1.0)(X, Z) + X @ Z.T, rtol=1e-14)
    for kernel in (RBF(1.0) * plain, plain * RBF(1.0)):
        assert_allclose(kernel(X, Z), RBF(1.0)(X, Z) * (X @ Z.T), rtol=1e-14)


def test_precomputed_takes_columns_by_number():
    K = np.arange(20.0).reshape(4, 5)
    kernel = Precomputed()
    assert_array_equal(kernel(K, kernel.basis_points(K, np.array([3, 0]))), K[:, [3, 0]])


# Other arrays ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("sigma", [SIGMAS["per column"], SIGMAS["scalar, many columns"]], ids=["3", "7"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("namespace", NAMESPACES)
def test_other_namespaces_agree_with_numpy(namespace, name, sigma):
    xp = pytest.importorskip(namespace)
    X, Z = inputs(len(sigma))
    kernel = cases(sigma)[name][0]
    rng = np.random.default_rng(3)
    G, coef = rng.standard_normal((len(X), len(Z))), rng.standard_normal((len(Z), 2))
    A, B, H, c = (xp.asarray(array) for array in (X, Z, G, coef))
    pairs = [
        (kernel(A, B), kernel(X, Z)),
        (kernel(A), kernel(X)),
        (kernel.diagonal(A), kernel.diagonal(X)),
        (kernel.gradient(A, B, H), kernel.gradient(X, Z, G)),
        (kernel.dot(A, B, c), kernel.dot(X, Z, coef)),
        (kernel.fill(xp.zeros((len(X), len(Z)), dtype=xp.float64), A, B), kernel(X, Z)),
    ]
    for theirs, ours in pairs:
        assert type(theirs) is type(A)
        assert theirs.dtype == xp.float64
        assert_allclose(np.asarray(theirs), ours, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_precomputed_in_other_namespaces(namespace):
    xp = pytest.importorskip(namespace)
    K = np.arange(20.0).reshape(4, 5)
    A = xp.asarray(K)
    kernel = Precomputed()
    theirs = kernel(A, kernel.basis_points(A, np.array([3, 0])))
    assert_array_equal(np.asarray(theirs), K[:, [3, 0]])


@pytest.mark.parametrize(
    "kernel", [RBF(0.7), Matern(0.7), Matern([0.5, 1.0, 2.0, 1.0, 0.3], nu=0.5), RBF(0.7) + Linear()]
)
@pytest.mark.parametrize("rows", [3, 255, 700])
def test_half_of_the_values_fill_a_symmetric_matrix(kernel, rows):
    X = np.random.default_rng(0).standard_normal((rows, 5))
    X[-1] = X[0]
    whole = kernel.fill(np.full((rows, rows), np.nan), X, X)
    assert_allclose(kernel.fill(np.full((rows, rows), np.nan), X, X, symmetric=True), whole, rtol=0, atol=1e-14)


# Functions of the user ------------------------------------------------------------------------------------------------
def brownian(X, Z):
    return np.minimum(X[:, :1], Z[:, :1].T)


UNSUITED = {  # function, message
    "not symmetric": (lambda X, Z: np.exp(X[:, :1] - Z[:, :1].T), "is not symmetric.*differ by up to"),
    "random": (lambda X, Z: X @ Z.T + np.random.default_rng().normal(size=(len(X), len(Z))), "different values.*Draw"),
    "centred by its rows": (lambda X, Z: (X - X.mean(axis=0)) @ (Z - Z.mean(axis=0)).T, "different values.*means"),
}


@pytest.mark.parametrize("name", UNSUITED)
@pytest.mark.parametrize("C", [1.0, None])
def test_functions_that_are_not_kernels_are_refused(name, C):
    function, message = UNSUITED[name]
    rng = np.random.default_rng(0)
    X, y = rng.normal(1.0, 1.0, (60, 2)), rng.normal(size=60)
    own = kernels.Function(function)
    for kernel in (function, own + RBF(1.0), RBF(1.0) * own, Additive(own), kernels.Choice([RBF(), own])):
        for fit in (lambda model: model.fit(X, y), lambda model: model.fit_chunks([(X, y)])):
            model = LSSVR(kernel, C=C)
            with pytest.raises(ValueError, match=rf"kernel=.*{function.__name__}.*{message}"):
                fit(model)
            assert not hasattr(model, "dual_coef_")


class Counting:
    """A function that keeps a state: the rows of its first call, and how often it was called."""

    def __init__(self):
        self.first, self.calls = None, 0

    def __call__(self, X, Z):
        self.calls += 1
        if self.first is None:
            self.first = len(X)
        return brownian(X, Z)


def test_functions_that_keep_a_state_or_few_digits_are_kernels():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(1.0, 2.0, (300, 2)), rng.normal(size=300)
    expected = LSSVR(brownian, C=1.0).fit(X, y).predict(X)
    counting = Counting()
    model = LSSVR(counting, C=1.0).fit(X, y)
    assert_allclose(model.predict(X), expected, rtol=1e-12)
    assert counting.calls == 0
    assert model.kernel_.function.first == 300  # the check has not touched it
    few_digits = lambda X, Z: (X.astype(np.float32) @ Z.T.astype(np.float32)) ** 2  # noqa: E731
    assert LSSVR(few_digits, C=1.0).fit(100.0 * X, y).dual_coef_.shape == (300,)


def test_errors_of_a_function_surface_unchanged():
    def broken(X, Z):
        raise KeyError("my own")

    with pytest.raises(KeyError, match="my own"):
        LSSVR(broken, C=1.0).fit(np.eye(5), np.arange(5.0))


@pytest.mark.parametrize("namespace", ["numpy", *NAMESPACES])
@pytest.mark.parametrize("kernel", [RBF, Matern])
def test_columns_of_infinite_width_take_no_time(kernel, namespace, monkeypatch):
    """Of 500 columns with 7 finite widths, distances use 7."""
    X, Z = inputs(500)
    used = np.arange(3, 500, 75)
    widths = np.full(500, math.inf)
    widths[used] = np.linspace(1.0, 3.0, 7)
    G = np.random.default_rng(1).standard_normal((9, 7))
    sizes, usual = [], stationary.Distances.write
    counted = lambda self, *rest, **options: sizes.append(self.X.shape[1]) or usual(self, *rest, **options)  # noqa: E731
    monkeypatch.setattr(stationary.Distances, "write", counted)
    part = kernel(widths[used])
    xp = np if namespace == "numpy" else pytest.importorskip(namespace)
    A, B, H = (xp.asarray(a) for a in (X, Z, G))
    assert_allclose(arrays.to_numpy(kernel(widths)(A, B)), part(X[:, used], Z[:, used]), rtol=1e-13)
    assert_allclose(
        arrays.to_numpy(kernel(widths).fill(xp.zeros((9, 9)) + 0.0 * A[:, :9], A, A, symmetric=True)), part(X[:, used])
    )
    found = arrays.to_numpy(kernel(widths).gradient(A, B, H))
    assert_allclose(found[:, used], part.gradient(X[:, used], Z[:, used], G), rtol=1e-12)
    assert np.count_nonzero(found) == 7
    assert set(sizes) == {7}


@pytest.mark.parametrize("steps", [[], [sparsify.Given([0, 5, 8])]])
def test_a_subclass_of_a_stationary_kernel_may_define_its_own_values(steps):
    class Own(RBF):
        def evaluate(self, X, Z):
            return super().evaluate(X, Z) + X @ Z.T

        def diagonal(self, X):
            return super().diagonal(X) + (X * X).sum(axis=1)

    X, y = inputs(2)[0], np.arange(9.0)
    model = LSSVR(Own(1.0), C=10.0, steps=steps).fit(X, y)
    expected = LSSVR(RBF(1.0) + kernels.Linear(), C=10.0, steps=steps).fit(X, y)
    assert_allclose(model.predict(X), expected.predict(X), rtol=1e-9)
    assert_allclose(model.loo_residuals_, expected.loo_residuals_, rtol=1e-7)


@pytest.mark.parametrize("kernel", [RBF, Matern])
def test_a_column_with_an_infinite_width_is_not_used(kernel):
    rng = np.random.default_rng(0)
    X, Z = rng.standard_normal((9, 3)), rng.standard_normal((5, 3))
    G = rng.standard_normal((9, 5))
    used = kernel([0.8, 1.5])
    dropped = kernel([0.8, math.inf, 1.5])
    assert_allclose(dropped(X, Z), used(X[:, [0, 2]], Z[:, [0, 2]]), rtol=1e-14)
    assert_allclose(dropped.gradient(X, Z, G)[:, [0, 2]], used.gradient(X[:, [0, 2]], Z[:, [0, 2]], G), rtol=1e-12)
    assert_array_equal(dropped.gradient(X, Z, G)[:, 1], 0.0)
    assert_array_equal(dropped.point_gradient(X, Z, G)[:, 1], 0.0)


HOST = """
#include <cmath>
using std::exp;
#define __global__
#define __device__
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(n)
#define __syncthreads()
static float rsqrtf(float a) { return 1.0f / std::sqrt(a); }
static struct { int x; } blockIdx, threadIdx;
"""
LAUNCH = """
extern "C" void launch(int grid, const REAL *X, const REAL *points, double *out, const long long *sizes)
{
    for (blockIdx.x = 0; blockIdx.x < grid; ++blockIdx.x)
        product(X, points, out, sizes);
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
@pytest.mark.parametrize("nu", [None, 0.5, 1.5, 2.5])
def test_compiled_products_are_those_of_the_kernel(nu, monkeypatch, tmp_path):
    """The program for a GPU, with one thread per block, compiled for the CPU."""
    torch, launched = pytest.importorskip("torch"), []

    class Program:
        def __init__(self, source, name, options):
            file, place = tmp_path / f"{len(launched)}.so", tmp_path / "product.cpp"
            place.write_text(HOST + source + LAUNCH, encoding="utf-8")
            subprocess.run(["g++", "-shared", "-fPIC", "-o", file, place], check=True, capture_output=True)
            self.launch = ctypes.CDLL(str(file)).launch

        def __call__(self, grid, block, values):
            launched.append(values[0].dtype)
            self.launch(*grid, *(ctypes.c_void_p(value.data_ptr()) for value in values))

    device = SimpleNamespace(synchronize=lambda: None)
    cuda = SimpleNamespace(Device=lambda place: contextlib.nullcontext(device))
    cupy = SimpleNamespace(RawKernel=Program, cuda=cuda, asarray=lambda value: value)
    for name, value in {"BLOCK": 1, "COMPILED": (4, 0), "VECTORS": 2, "compiler": lambda: cupy}.items():
        monkeypatch.setattr(stationary, name, value)
    monkeypatch.setattr(arrays, "on_accelerator", arrays.is_torch)
    stationary.program.cache_clear()
    sigma = [0.8, math.inf, 1.5, 40.0]
    kernel = RBF(sigma) if nu is None else Matern(sigma, nu=nu)
    X, Z = inputs(4, (301, 70))
    Z[3] += 1e20  # such a far row has values of 0
    coef = np.random.default_rng(0).standard_normal((70, 3))
    coef -= coef.mean(axis=0)
    tensors = list(map(torch.asarray, (X, Z, coef)))
    for single, digits in ((False, 1e-12), (True, 1e-5)):
        assert_allclose(kernel.dot(*tensors, single=single), kernel.dot(X, Z, coef), rtol=0, atol=digits)
    assert launched == [torch.float64] * 2 + [torch.float32] * 2
    stationary.program.cache_clear()
