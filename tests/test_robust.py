"""Robust weights: the formulas of Suykens et al. (2002), the scales, and Algorithm 1 done by hand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from lssvm import LSSVC, LSSVR, datasets, kernels, robust, sparsify

FUNCTIONS = {
    "hampel": robust.Hampel(),
    "huber": robust.Huber(),
    "logistic": robust.Logistic(),
    "myriad": robust.Myriad(),
}
# Residuals whose scale is exactly 1 by either definition, whatever the first four are: 96 of them at the quartiles.
QUARTILE = {"iqr": 0.6745, "mad": 1 / 1.483}


def residuals_of_scale_one(first, scale="iqr"):
    rest = np.tile([-QUARTILE[scale], QUARTILE[scale]], 48)
    residuals = np.concatenate([first, rest])
    assert robust.robust_scale(residuals, scale) == pytest.approx(1.0, rel=1e-12)
    return residuals


def model_of(robust=None, **arguments):
    return LSSVR(kernels.RBF(sigma=6.6), C=2.0, robust=robust, **arguments)


# Weight functions -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("scale", ["iqr", "mad"])
@pytest.mark.parametrize(
    ("function", "r", "weight"),
    [
        (robust.Hampel, 0.0, 1.0),
        (robust.Hampel, 2.5 - 1e-9, 1.0),
        (robust.Hampel, 2.6, 0.8),  # (c2 - r)/(c2 - c1)
        (robust.Hampel, -2.75, 0.5),
        (robust.Hampel, 2.9, 0.2),
        (robust.Hampel, 2.99999, 1e-4),  # eq. (14) gives 2e-5: below the floor
        (robust.Hampel, 3.0 + 1e-9, 1e-4),
        (robust.Hampel, -1e9, 1e-4),
        (robust.Huber, 1.3, 1.0),
        (robust.Huber, -2.69, 0.5),
        (robust.Huber, 1e9, 1e-4),
        (robust.Logistic, 0.0, 1.0),
        (robust.Logistic, 1e-9, 1.0),
        (robust.Logistic, -1.0, 0.7615941559557649),
        (robust.Logistic, 1e6, 1e-4),
        (robust.Myriad, 1.0, 0.5),
        (robust.Myriad, -3.0, 0.1),
        (robust.Myriad, 1e9, 1e-4),
    ],
)
def test_formulas(function, r, weight, scale):
    residuals = residuals_of_scale_one([r, -r, 0.0, 0.0], scale)
    assert_allclose(function(scale=scale)(residuals)[:2], weight, rtol=1e-4 if weight == 1e-4 else 1e-8)


def test_parameters_move_the_corners():
    residuals = residuals_of_scale_one([1.5, -2.0, 4.0, 0.0])
    assert_allclose(robust.Hampel(c1=1.0, c2=3.0)(residuals)[:4], [0.75, 0.5, 1e-4, 1.0])
    assert_allclose(robust.Huber(c=1.0)(residuals)[:4], [1 / 1.5, 0.5, 0.25, 1.0])
    assert_allclose(robust.Myriad(delta=2.0)(residuals)[:4], [4 / 6.25, 0.5, 0.2, 1.0])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_weights_fall_from_one_to_the_floor_and_ignore_unit_and_sign(name):
    residuals = np.random.default_rng(0).standard_cauchy(200) ** 3
    weights = FUNCTIONS[name](residuals)
    assert weights.max() <= 1
    assert weights.min() == 1e-4
    assert (np.diff(weights[np.argsort(np.abs(residuals))]) <= 0).all()
    assert_allclose(FUNCTIONS[name](-1e-6 * residuals), weights, rtol=1e-9)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_names_stand_for_the_defaults(name):
    by_name = robust.as_weight_function(name)
    assert type(by_name) is type(FUNCTIONS[name])
    assert by_name.get_params() == FUNCTIONS[name].get_params()
    assert robust.as_weight_function(None) is None
    assert robust.as_weight_function(FUNCTIONS[name]) is FUNCTIONS[name]


# Scales ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("n", [2, 3, 4, 5, 50, 133])
def test_scales_are_those_of_numpy(n):
    e = np.random.default_rng(n).standard_t(2, n)
    lower, upper = np.percentile(e, [25, 75])
    assert robust.robust_scale(e) == pytest.approx((upper - lower) / (2 * 0.6745), rel=1e-12)
    assert robust.robust_scale(e, "mad") == pytest.approx(1.483 * np.median(np.abs(e - np.median(e))), rel=1e-12)


def test_scales_estimate_the_standard_deviation_of_normal_errors():
    e = 3.0 * np.random.default_rng(0).standard_normal(100_000)
    for method in ("iqr", "mad"):
        assert robust.robust_scale(e, method) == pytest.approx(3.0, rel=0.02)


@pytest.mark.parametrize("method", ["iqr", "mad"])
@pytest.mark.parametrize("seed", range(20))
def test_integer_weights_are_copies_in_the_scale(method, seed):
    rng = np.random.default_rng(seed)
    e, times = rng.standard_normal(rng.integers(2, 40)).round(1), rng.integers(0, 5, 40)
    times = times[: len(e)]
    times[0] += 1
    expected = robust.robust_scale(np.repeat(e, times), method)
    assert robust.robust_scale(e, method, times.astype(float)) == pytest.approx(expected, rel=1e-12, abs=1e-15)
    for function in (robust.Hampel(c1=1.0, c2=2.0, scale=method), robust.Huber(scale=method)):
        weights = function(e, times.astype(float))
        assert_allclose(np.repeat(weights, times), function(np.repeat(e, times)), rtol=1e-9)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("scale", ["iqr", "mad"])
def test_a_scale_of_zero_means_weights_of_one(name, scale):
    function = type(FUNCTIONS[name])(scale=scale)
    mostly_zero = np.zeros(30)
    mostly_zero[:3] = [5.0, -5.0, 100.0]
    for residuals in (np.zeros(30), np.full(30, 2.0), mostly_zero, 1e8 + np.zeros(30)):
        assert_array_equal(function(residuals), np.ones(30))
    one_constant = np.column_stack([np.zeros(30), np.random.default_rng(0).standard_normal(30)])
    assert_array_equal(function(one_constant), function(one_constant[:, 1]))


def test_machines_with_a_scale_of_zero_stay_plain():
    X = np.linspace(0, 1, 20)[:, None]
    model = LSSVR(kernels.RBF(sigma=0.5), C=1.0, robust="hampel").fit(X, np.full(20, 4.0))
    assert_array_equal(model.weights_, np.ones(20))
    assert_allclose(model.predict(X), 4.0)


# Algorithm 1 ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("steps", [None, [sparsify.Given(np.arange(0, 133, 10))]])
@pytest.mark.parametrize("sample_weight", [None, np.random.default_rng(0).uniform(0.5, 2.0, 133)])
@pytest.mark.parametrize("iterations", [1, 3])
@pytest.mark.parametrize("function", [robust.Hampel, robust.Huber])
def test_robust_fit_is_the_solves_done_by_hand(function, iterations, sample_weight, steps):
    X, y = datasets.load_motorcycle(return_X_y=True)
    base = np.ones(133) if sample_weight is None else sample_weight
    by_hand = model_of(steps=steps).fit(X, y, base)
    for _ in range(iterations):
        weights = base * function()(y - by_hand.predict(X), base)
        by_hand = model_of(steps=steps).fit(X, y, weights)
    model = model_of(function(iterations=iterations), steps=steps).fit(X, y, sample_weight)
    assert_allclose(model.weights_, weights, rtol=1e-9)
    assert_allclose(model.predict(X), by_hand.predict(X), rtol=1e-9)
    assert_allclose(model.loo_residuals_, by_hand.loo_residuals_, rtol=1e-8, atol=1e-9)
    assert model.press_ == pytest.approx(by_hand.press_, rel=1e-9)


def test_algorithm_1_from_its_linear_systems():
    """Eqs. (3), (14) and (16) with plain NumPy."""
    X, y = datasets.load_motorcycle(return_X_y=True)
    K = np.exp(-((X - X.T) ** 2) / 6.6**2)

    def solve(v):
        A = np.block([[np.zeros((1, 1)), np.ones((1, 133))], [np.ones((133, 1)), K + np.diag(1 / (2.0 * v))]])
        b, *alpha = np.linalg.solve(A, np.concatenate([[0.0], y]))
        return b, np.array(alpha)

    _, alpha = solve(np.ones(133))
    e = alpha / 2.0
    s = np.subtract(*np.percentile(e, [75, 25])) / (2 * 0.6745)
    v = np.clip((3.0 - np.abs(e / s)) / 0.5, 1e-4, 1.0)
    b, alpha = solve(v)
    model = model_of("hampel").fit(X, y)
    assert_allclose(model.weights_, v, rtol=1e-9)
    assert_allclose(model.dual_coef_, alpha, rtol=1e-8, atol=1e-8)
    assert model.intercept_ == pytest.approx(b, rel=1e-8)


def test_motorcycle_figures_7_and_8():
    X, y = datasets.load_motorcycle(return_X_y=True)
    plain, weighted = model_of().fit(X, y), model_of("hampel").fit(X, y)
    rms = lambda model: np.sqrt(np.mean(model.loo_residuals_**2))  # noqa: E731
    assert robust.robust_scale(y - plain.predict(X)) == pytest.approx(18.892, abs=5e-4)
    assert rms(plain) == pytest.approx(23.19, abs=5e-3)
    assert rms(weighted) == pytest.approx(23.00, abs=5e-3)
    assert (weighted.weights_ < 1).sum() == 5
    assert (weighted.weights_ == 1e-4).sum() == 2


@pytest.mark.parametrize("size", [2.0, 5.0])
def test_weighted_beats_unweighted_with_outliers(size):
    """Sinc, 300 rows, Gaussian noise and 3 outliers (figures 1-3): every seed, as in the paper's claim."""
    grid = np.linspace(-5, 5, 400)[:, None]
    ratios = []
    for seed in range(6):
        X, y = datasets.make_sinc(300, noise=0.1, outliers=3, outlier_size=size, random_state=seed)
        arguments = {"kernel": kernels.RBF(sigma=1.0), "C": 50.0}
        errors = [
            np.mean((LSSVR(**arguments, robust=weights).fit(X, y).predict(grid) - np.sinc(grid[:, 0])) ** 2)
            for weights in ("hampel", None)
        ]
        ratios.append(errors[0] / errors[1])
    assert max(ratios) < 1
    assert np.median(ratios) < 0.9


def test_chosen_robust_machine_finds_the_outliers():
    X, y = datasets.make_sinc(150, noise=0.1, outliers=3, outlier_size=5.0, random_state=1)
    shifted = np.flatnonzero(np.abs(y - np.sinc(X[:, 0])) > 2)
    model = LSSVR(robust="hampel").fit(X, y)
    assert_allclose(model.weights_[shifted], 1e-4)
    assert (model.weights_ < 1).sum() < 15
    assert np.mean((model.predict(X) - np.sinc(X[:, 0])) ** 2) < 0.01


# Several outputs ------------------------------------------------------------------------------------------------------
def test_several_outputs_share_the_weight_of_their_root_mean_square():
    rng = np.random.default_rng(0)
    e = rng.standard_normal((50, 2)) * [1.0, 100.0]
    e[0] = [20.0, 0.0]
    scaled = e / [robust.robust_scale(e[:, 0]), robust.robust_scale(e[:, 1])]
    r = np.sqrt((scaled**2).mean(axis=1))
    weights = robust.Hampel(c1=1.0, c2=2.0)(e)
    assert weights.shape == (50,)
    assert_allclose(weights, np.clip(2.0 - r, 1e-4, 1.0), rtol=1e-12)
    X = rng.standard_normal((50, 2))
    model = LSSVR(kernels.RBF(sigma=1.0), C=1.0, robust="hampel").fit(X, e)
    assert model.weights_.shape == (50,)
    assert model.weights_[0] == 1e-4


def test_repeated_outputs_weigh_like_one():
    X, y = datasets.load_motorcycle(return_X_y=True)
    one, two = model_of("hampel").fit(X, y), model_of("hampel").fit(X, np.column_stack([y, -3 * y]))
    assert_allclose(two.weights_, one.weights_, rtol=1e-8)
    assert_allclose(two.predict(X), one.predict(X)[:, None] * [1.0, -3.0], rtol=1e-8)


def test_an_outlier_in_one_of_several_outputs_keeps_its_weight_longer():
    """The weight is that of the root mean square: c1 sqrt(k) scales in one output of k are one of c1 in all of them."""
    residuals = np.random.RandomState(0).normal(size=(400, 10))
    scales = robust.Hampel().scales(residuals)
    for size in (2.49, 2.51):
        residuals[0, 0] = size * np.sqrt(10.0) * scales[0]
        alone = np.full((1, 10), size) * scales
        residuals[0, 1:] = 0.0
        weight = robust.Hampel().from_scales(residuals, scales)[0]
        assert weight == pytest.approx(robust.Hampel().from_scales(alone, scales)[0])
        assert (weight == 1.0) == (size < 2.5)


def test_a_classifier_distrusts_mislabelled_rows():
    X, y = datasets.load_ripley(return_X_y=True)
    deep = np.argsort(LSSVC(kernels.RBF(sigma=0.5), C=10.0).fit(X, y).decision_function(X))[:3]
    y[deep] = 1
    model = LSSVC(kernels.RBF(sigma=0.5), C=10.0, robust="hampel").fit(X, y)
    assert model.weights_[deep].max() < 0.5
    assert np.median(model.weights_) == 1
