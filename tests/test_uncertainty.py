"""Adaptive and full conformal intervals, quantiles and groups against refits and brute force."""

import copy
import dataclasses
import math
import pickle
import time
from unittest import mock

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binom, norm
from sklearn.base import clone

from lssvm import LSSVC, LSSVR, datasets, diagnose, kernels, load, plotting, save, sparsify
from lssvm.estimators.regressor import distribution
from lssvm.intervals import FittedLoo
from lssvm.intervals.classes import set_scores, set_thresholds
from lssvm.intervals.jackknife import _largest
from lssvm.intervals.scale import OUTLIERS, SMALLEST, interval_scores, noise_scale
from lssvm.problem import Problem

GIVEN = {"kernel": kernels.RBF(sigma=1.3), "C": 5.0}
NEW_WIDE = np.random.default_rng(8).standard_normal((5, 20))
NEW = np.random.default_rng(9).uniform(-2, 2, (5, 2))
WEIGHTS = np.random.default_rng(2).uniform(0.2, 3.0, 40)
ZEROS = np.where(np.arange(40) % 7 == 0, 0.0, WEIGHTS)
MODELS = {
    "dense": (LSSVR(**GIVEN), None),
    "zeros": (LSSVR(**GIVEN), ZEROS),
    "robust": (LSSVR(**GIVEN, robust="huber"), WEIGHTS),
    "basis": (LSSVR(**GIVEN, steps=[sparsify.Random(9, random_state=0)]), WEIGHTS),
    "wide": (LSSVR(**GIVEN, steps=[sparsify.Given(np.linspace(-2, 2, 120).reshape(60, 2))]), None),
    "stack": (LSSVR(kernels.Stack([kernels.RBF(1.3), kernels.Matern(2.0)]), C=5.0), None),
}
MODELS_AND_OUTPUTS = [*((name, 2) for name in MODELS), ("zeros", None)]


def uneven(n, outputs=None, seed=0):
    """Noise that grows with |x1|."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    y = np.sin(2 * X[:, 0]) + (0.1 + 0.4 * np.abs(X[:, 0])) * rng.standard_normal(n)
    return X, y if outputs is None else np.column_stack([y, X[:, 1] + 0.3 * rng.standard_normal(n)])


def unweighted(X):
    """Rows of weight 1 for `noise_scale`."""
    return Problem(kernels.RBF(), X, np.zeros((len(X), 1)), np.ones(len(X)))


def members(model):
    """The single models behind a model, with their shares."""
    return list(zip(model.members_, model.stack_weights_, strict=True)) if "members_" in vars(model) else [(model, 1.0)]


def refitted(model, X, y, weights):
    """f of the same model with other rows or weights; kernel, C and basis are held fixed."""
    parts = []
    for member, share in members(model):
        basis = member.support_vectors_ if member.support_ is None else member.fitted_.problem.X[member.support_]
        steps = [sparsify.Given(basis)]
        parts.append((LSSVR(member.kernel_, member.C_, steps=steps).fit(X, y, weights), share))
    return lambda Z: sum(share * part.predict(Z) for part, share in parts)


# Adaptive intervals ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("name", "outputs"), MODELS_AND_OUTPUTS)
def test_adaptive_intervals_equal_refits_of_both_models(name, outputs):
    """The residuals behind the scale are held fixed; all else is refitted without each row."""
    X, y = uneven(40, outputs)
    unfitted, sample_weight = MODELS[name]
    model = clone(unfitted).fit(X, y, sample_weight)
    found = model.predict_interval(NEW, 0.8, "adaptive").reshape(5, 2, -1)
    choice = model.fitted_.scale_choice
    given = np.ones(40) if sample_weight is None else sample_weight
    rows = np.flatnonzero(given)
    loo = model.loo_residuals_.reshape(40, -1)
    roots = np.zeros(loo.shape)
    roots[rows] = np.sqrt(np.abs(loo[rows]) / np.median(np.abs(loo[rows]), axis=0))
    v = Problem(choice.kernel, X, roots, given, C=choice.C, robust=OUTLIERS).solve().weights
    centre, scale, own = [], [], []
    for i in rows:
        without = np.where(np.arange(40) == i, 0.0, 1.0)
        centre.append(refitted(model, X, y, model.weights_ * without)(NEW).reshape(5, -1))
        s = lambda Z, w=v * without: (  # noqa: E731
            np.maximum(Problem(choice.kernel, X, roots, w, C=choice.C).solve().predict(Z), SMALLEST) ** 2
        )
        scale.append(s(NEW))
        own.append(s(X[i : i + 1])[0])
    centre, scale, own = (np.array(a) for a in (centre, scale, own))
    reach = scale * (np.abs(loo[rows]) / own)[:, None]
    low, high = np.sort(centre - reach, axis=0), np.sort(centre + reach, axis=0)
    n = len(rows)
    rank = math.ceil(0.8 * (n + 1) + 0.75 * math.sqrt(0.16 * n))
    assert_allclose(found[:, 0], low[n - rank], rtol=1e-8, atol=1e-9)
    assert_allclose(found[:, 1], high[rank - 1], rtol=1e-8, atol=1e-9)


def test_auto_is_adaptive_for_outputs_with_uneven_noise():
    X, y = uneven(200, 2)
    model = LSSVR(kernels.RBF(1.5), C=20.0).fit(X, y)
    auto, plain, adaptive = (model.predict_interval(NEW, 0.9, m) for m in ("auto", "jackknife+", "adaptive"))
    assert model.fitted_.scale_choice.uneven == (True, False)
    assert_array_equal(auto[:, :, 0], adaptive[:, :, 0])
    assert_array_equal(auto[:, :, 1], plain[:, :, 1])
    assert (np.abs(auto[:, :, 0] - plain[:, :, 0]) > 0.01).any()


@pytest.mark.parametrize("method", ["auto", "adaptive"])
def test_an_output_without_noise_leaves_the_others_alone(method):
    X, y = uneven(200)
    alone = LSSVR(kernels.RBF(1.5), C=20.0).fit(X, y).predict_interval(NEW, 0.9, method)
    both = LSSVR(kernels.RBF(1.5), C=20.0).fit(X, np.column_stack([y, np.ones(200)])).predict_interval(NEW, 0.9, method)
    assert_allclose(both[:, :, 0], alone, rtol=1e-6)
    assert_allclose(both[:, :, 1], 1.0, rtol=1e-12)


@pytest.mark.slow
def test_widths_follow_the_noise():
    X, y = uneven(300)
    model = LSSVR().fit(X, y)
    low, high = model.predict_interval([[0.0, 0.0], [1.8, 0.0], [-1.8, 0.0]]).T
    assert (high - low)[1:].min() > 2.5 * (high - low)[0]
    moved = LSSVR().fit(X, 100 + 3 * y).predict_interval(NEW)
    assert_allclose(moved, 100 + 3 * model.predict_interval(NEW), rtol=1e-3)


def test_interval_scores_against_their_definition():
    rng = np.random.default_rng(0)
    size, scale = np.abs(rng.standard_normal(50)), rng.uniform(0.5, 2.0, 50)
    expected = np.zeros(50)
    for coverage in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95):
        q = np.sort(size / scale)[math.ceil(coverage * 51) - 1]
        a = 1 - coverage
        expected += a / 2 * (2 * q * scale + 2 / a * np.maximum(size - q * scale, 0))
    assert_allclose(interval_scores(size, scale), expected, rtol=1e-12)


@pytest.mark.slow
def test_the_scale_is_that_of_the_residuals_behind_the_intervals(tmp_path):
    """With few rows per width, these come from searches without folds, and are larger than leave-one-out residuals."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(100, 20))
    y = X[:, 0] + 2.0 * X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=100)
    model = LSSVR(kernels.RBF(ard=True)).fit(X, y)
    ends = model.predict_interval(NEW_WIDE, method="adaptive")
    found = distribution(model, method="adaptive")
    searched = found.residuals
    assert np.mean(np.abs(searched[:, 0])) > np.mean(np.abs(model.loo_residuals_))
    again = noise_scale(unweighted(X), searched)
    assert_allclose(found.scale.own, again.own, rtol=1e-10)
    diagnose.scores(model)  # uses leave-one-out residuals, and must not change the intervals
    assert_array_equal(model.predict_interval(NEW_WIDE, method="adaptive"), ends)
    save(model, tmp_path / "model.lssvm")
    assert_allclose(load(tmp_path / "model.lssvm").predict_interval(NEW_WIDE, method="adaptive"), ends, rtol=1e-10)


def test_rounding_errors_and_the_order_of_the_rows_do_not_change_the_scale():
    rng = np.random.default_rng(0)
    X, order = rng.uniform(size=(200, 2)), rng.permutation(200)
    residuals = (0.3 + X[:, :1]) * rng.standard_normal((200, 1))
    noisy = residuals * (1.0 + 1e-13 * rng.standard_normal((200, 1)))
    one = noise_scale(unweighted(X), residuals).choice
    for rows, r in ((X, noisy), (X[order], residuals[order])):
        other = noise_scale(unweighted(rows), r).choice
        assert_allclose(other.C, one.C, rtol=1e-6)
        assert_allclose(other.kernel.kernel.sigma, one.kernel.kernel.sigma, rtol=1e-6)


def test_an_outlier_does_not_raise_the_scale_of_its_neighbours():
    rng = np.random.default_rng(0)
    X = np.linspace(-2, 2, 120)[:, None]
    residuals = (0.2 + np.abs(X)) * rng.standard_normal((120, 1))
    wild = residuals.copy()
    wild[60] = 300.0
    scales = [noise_scale(unweighted(X), r) for r in (residuals, wild)]
    near = np.array([[0.02], [0.1]])
    ratio = scales[1].model.predict(near) / scales[0].model.predict(near)
    assert ratio.max() < 1.2


def test_motorcycle_regions():
    """Noise that varies tenfold: every region is covered, where one width covers 77 % of the third one."""
    X, y = datasets.load_motorcycle(return_X_y=True)
    rng = np.random.default_rng(0)
    folds = rng.permutation(len(y)) % 5
    inside = np.empty(len(y), dtype=bool)
    for fold in range(5):
        out = folds == fold
        low, high = LSSVR().fit(X[~out], y[~out]).predict_interval(X[out]).T
        inside[out] = (low <= y[out]) & (y[out] <= high)
    assert 0.85 < inside.mean() < 0.97
    assert inside[(X[:, 0] >= 27) & (X[:, 0] < 40)].mean() > 0.77


# Full conformal -------------------------------------------------------------------------------------------------------
def rank_of(model, X, y, weights, x, value, output):
    """How many rows have a leave-one-out residual of at least the size of that of (x, value), by a refit."""
    rows, targets = np.vstack([X, x]), np.vstack([y, np.full(y.shape[1], value)])
    residuals = 0.0
    for member, share in members(model):
        v = np.append(weights, 1.0)
        dual = member.support_ is not None and len(member.support_) == np.count_nonzero(weights)
        basis = {} if dual else {"points": np.asarray(member.support_vectors_)}
        fit = Problem(member.kernel_, rows, targets, v, C=member.C_, **basis).solve()
        residuals = residuals + share * fit.loo_residuals[:, output]
    counting = np.append(weights, 1.0) > 0
    size = np.abs(residuals)
    return int(np.sum(size[:-1][counting[:-1]] >= size[-1]))


@pytest.mark.parametrize(("name", "outputs"), MODELS_AND_OUTPUTS)
def test_full_conformal_equals_brute_force(name, outputs):
    """The ends are where a refit for every hypothetical target enters and leaves the set, to 1e-8."""
    X, y = uneven(40, outputs)
    unfitted, sample_weight = MODELS[name]
    model = clone(unfitted).fit(X, y, sample_weight)
    ends = model.predict_interval(NEW, 0.8, "full").reshape(5, 2, -1)
    weights = model.weights_
    needed = math.floor(round(0.2 * (np.count_nonzero(weights) + 1), 9))
    Y = y.reshape(40, -1)
    for row, output in [(0, 0), (1, 0), (4, Y.shape[1] - 1)]:
        low, high = ends[row, :, output]
        inside = lambda value: rank_of(model, X, Y, weights, NEW[row], value, output) >= needed  # noqa: B023, E731
        step = 1e-8 * (high - low)
        assert inside(high - step)
        assert not inside(high + step)
        assert inside(low + step)
        assert not inside(low - step)
        grid = np.linspace(low - (high - low), high + (high - low), 60)
        assert_array_equal([inside(value) for value in grid], (low <= grid) & (grid <= high))


def test_full_conformal_after_chunks():
    X, y = uneven(60)
    points = sparsify.Given(np.random.default_rng(1).uniform(-2, 2, (12, 2)))
    model = LSSVR(**GIVEN, steps=[points])
    whole, chunked = clone(model).fit(X, y), clone(model).fit_chunks([(X[:25], y[:25]), (X[25:], y[25:])])
    for method in ("full", "adaptive", "auto"):
        expected = whole.predict_interval(NEW, 0.8, method)
        assert_allclose(chunked.predict_interval(NEW, 0.8, method), expected, rtol=1e-6, atol=1e-8)
    assert_allclose(chunked.predict_quantiles(NEW, [0.2, 0.6]), whole.predict_quantiles(NEW, [0.2, 0.6]), rtol=1e-6)


@pytest.mark.parametrize("seed", range(30))
def test_the_largest_point_of_a_set_with_steep_residuals(seed):
    """Slopes of size 1 and more, which rows far from all others have, against all breakpoints."""
    rng = np.random.default_rng(seed)
    a = rng.integers(-3, 4, 12).astype(float)
    b = rng.choice([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5], 12)
    for needed in (1, 3, 6, 12):
        found = _largest(a, b, needed)
        counts = lambda t: np.sum(np.abs(a + b * t) >= np.abs(t) * (1 - 1e-12))  # noqa: E731
        with np.errstate(divide="ignore", invalid="ignore"):
            roots = np.concatenate([a / (1 - b), -a / (1 + b)])
        roots = roots[np.isfinite(roots) & (roots >= 0)]
        inside = [t for t in roots if counts(t) >= needed]
        expected = math.inf if counts(1e9) >= needed else max(inside, default=0.0)
        assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.slow
def test_coverage_of_full_conformal_over_draws():
    """The guarantee: at least 90 %, for fixed kernel and C, whatever the noise."""
    hits = 0
    for seed in range(500):
        X, y = uneven(61, seed=seed)
        low, high = LSSVR(**GIVEN).fit(X[1:], y[1:]).predict_interval(X[:1], 0.9, "full")[0]
        hits += low <= y[0] <= high
    assert hits >= binom.ppf(1e-3, 500, 0.9)


def test_full_conformal_needs_the_kernel_of_new_rows():
    X, y = uneven(20)
    K = kernels.RBF(1.0)(X)
    model = LSSVR(kernels.Precomputed(), C=1.0).fit(K, y)
    assert np.isfinite(model.predict_interval(K[:2], 0.8, "adaptive")).all()
    with pytest.raises(ValueError, match=r"k\(x, x\).*jackknife\+"):
        model.predict_interval(K[:2], method="full")
    reduced = LSSVR(**GIVEN, steps=[sparsify.InversePrune(0.5)]).fit(X, y)
    with pytest.raises(ValueError, match=r"columns of the KKT.*jackknife\+"):
        reduced.predict_interval(NEW, method="full")


# Quantiles ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["dense", "zeros", "basis"])
def test_quantiles_are_those_of_refits_plus_residuals(name):
    X, y = uneven(40)
    unfitted, sample_weight = MODELS[name]
    model = clone(unfitted).fit(X, y, sample_weight)
    scale = model.fitted_.loo_values.residuals[model.weights_ > 0], None  # even noise
    model.fitted_ = dataclasses.replace(model.fitted_, scale=scale)
    rows = np.flatnonzero(model.weights_)
    values = []
    for i in rows:
        f = refitted(model, X, y, np.where(np.arange(40) == i, 0.0, model.weights_))
        values.append(f(NEW) + y[i] - f(X[i : i + 1]))
    levels = [0.1, 0.5, 0.77]
    expected = np.quantile(values, levels, axis=0, method="weibull").T
    assert_allclose(model.predict_quantiles(NEW, levels), expected, rtol=1e-8)


def test_quantiles_do_not_cross_and_follow_the_noise():
    X, y = uneven(200, 2)
    model = LSSVR(kernels.RBF(1.5), C=20.0).fit(X, y)
    levels = np.linspace(0.01, 0.99, 33)
    found = model.predict_quantiles(NEW, levels)
    assert found.shape == (5, 33, 2)
    assert (np.diff(found, axis=1) >= 0).all()
    assert_array_equal(model.predict_quantiles(NEW, levels[::-1]), found[:, ::-1])
    few = LSSVR(**GIVEN).fit(X[:9], y[:9, 0]).predict_quantiles(NEW, [0.05, 0.1, 0.9, 0.95])
    assert_array_equal(np.isfinite(few), np.broadcast_to([False, True, True, False], (5, 4)))
    assert (few[:, 0] < 0).all()
    for levels in (0.5, [0.0, 0.5], [1.0], ["a"]):
        with pytest.raises(ValueError, match=r"levels|could not convert"):
            model.predict_quantiles(NEW, levels)


# Groups ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", MODELS)
def test_groups_are_left_out_together(name):
    X, y = uneven(40)
    unfitted, sample_weight = MODELS[name]
    model = clone(unfitted).fit(X, y, sample_weight)
    groups = np.array(["a", "b", "c", "d", "e"])[np.random.default_rng(1).integers(0, 5, 40)]
    found = model.predict_interval(NEW, 0.8, "jackknife+", groups=groups)
    assert_allclose(found, model.predict_interval(NEW, 0.8, "cv+", folds=groups), rtol=1e-12)
    alone = model.predict_interval(NEW, 0.8, "adaptive", groups=np.arange(40))
    assert_allclose(alone, model.predict_interval(NEW, 0.8, "adaptive"), rtol=1e-7)
    with pytest.raises(ValueError, match="groups cannot be combined with method='full'"):
        model.predict_interval(NEW, method="full", groups=groups)
    for wrong in (3, groups[:5]):
        with pytest.raises(ValueError, match=r"groups=.*one label per training row"):
            model.predict_interval(NEW, groups=wrong)


# Diagnostics ----------------------------------------------------------------------------------------------------------
def crps(values, y):
    """The definition: the integral of (F(t) - 1(t >= y))^2."""
    return np.mean(np.abs(values - y)) - 0.5 * np.mean(np.abs(values[:, None] - values))


@pytest.mark.parametrize("outputs", [None, 2])
def test_leave_one_out_scores_of_the_distribution(outputs):
    X, y = uneven(90, outputs)
    weights = np.where(np.arange(90) % 9 == 0, 0.0, 1.0 + np.arange(90) % 3)
    model = LSSVR(**GIVEN).fit(X, y, weights)
    rows = np.flatnonzero(weights)
    r = model.loo_residuals_.reshape(90, -1)[rows]
    found = distribution(model, search=False).scale
    scale = np.ones(r.shape) if found is None else found.own
    assert scale[:, 0].std() > 0.1
    z = r / scale
    half, scores, values = np.empty(r.shape), np.empty(r.shape), np.empty(r.shape)
    for i, k in np.ndindex(r.shape):
        others = np.delete(z[:, k], i)
        scores[i, k] = crps(scale[i, k] * others, r[i, k])
        values[i, k] = (np.sum(others < z[i, k]) + 0.5) / len(rows)
        more = 0.75 * math.sqrt(0.16 * len(others)) if scale[:, k].std() > 0 else 0.0
        half[i, k] = scale[i, k] * np.sort(np.abs(others))[math.ceil(0.8 * len(rows) + more) - 1]
    assert diagnose.scores(model)["crps"] == pytest.approx(np.mean(np.average(scores, axis=0, weights=weights[rows])))
    assert_allclose(diagnose.pit(model).reshape(len(rows), -1), values, rtol=1e-12)
    last = r.shape[1] - 1
    found = diagnose.coverage_by_region(model, column=0, coverage=0.8, n_bins=4, output=last)
    order = np.array_split(np.argsort(X[rows, 0]), 4)
    assert_allclose(found.observed, [np.mean(np.abs(r[part, last]) <= half[part, last]) for part in order])
    assert_allclose(found.width, [2 * half[part, last].mean() for part in order])
    assert_allclose(found.low_edge, [X[rows][part, 0].min() for part in order])


def test_crps_is_that_of_scipys_integral():
    values, y = np.array([0.3, -1.0, 2.0, 0.9]), 0.5
    grid = np.linspace(-5, 5, 2_000_001)
    F = np.searchsorted(np.sort(values), grid, side="right") / 4
    assert crps(values, y) == pytest.approx(np.trapezoid((F - (grid >= y)) ** 2, grid), abs=1e-5)


def test_distribution_of_new_rows_inverts_the_quantiles():
    X, y = uneven(99)
    model = LSSVR(kernels.RBF(1.5), C=20.0).fit(X, y)
    for level in (0.105, 0.5, 0.81):  # between two of the values
        q = model.predict_quantiles(NEW, [level])[:, 0]
        assert_allclose(diagnose.pit(model, NEW, q), level, atol=0.01)
    new, target = uneven(400, seed=5)
    values = diagnose.pit(model, new, target)
    assert np.abs(np.histogram(values, 4, (0, 1))[0] / 100 - 1).max() < 0.35
    low, high = model.predict_interval(new, 0.8).T
    found = diagnose.coverage_by_region(model, new, target, coverage=0.8, n_bins=1)
    assert found.observed[0] == np.mean((low <= target) & (target <= high))
    with pytest.raises(ValueError, match="both X and y"):
        diagnose.pit(model, new)
    with pytest.raises(ValueError, match="only for LSSVR"):
        diagnose.pit(LSSVC(**GIVEN).fit(X, y > 0))


def test_displays_of_the_distribution():
    pytest.importorskip("matplotlib").use("Agg")
    X, y = uneven(99)
    model = LSSVR(kernels.RBF(1.5), C=20.0).fit(X, y)
    shown = plotting.PitDisplay.from_estimator(model, n_bins=5)
    counts = np.histogram(diagnose.pit(model), 5, (0, 1))[0]
    assert_allclose([bar.get_height() for bar in shown.bars_], counts * 5 / 99)
    shown = plotting.RegionCoverageDisplay.from_estimator(model, column=0, n_bins=3)
    assert_allclose(shown.line_.get_ydata(), diagnose.coverage_by_region(model, column=0, n_bins=3).observed)
    assert shown.ax_.get_xlabel() == "column 0"


# Prediction sets ------------------------------------------------------------------------------------------------------
def make_classes(n, classes=4, spread=0.9, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    angle = 2 * np.pi * y / classes
    return np.column_stack([np.cos(angle), np.sin(angle)]) + spread * rng.standard_normal((n, 2)), y


CLASSIFIERS = {
    "squared": LSSVC(kernels.RBF(1.5), C=1.0),
    "pairs": LSSVC(kernels.RBF(1.5), C=1.0, coding="one-vs-one", loss="logistic"),
    "stack": LSSVC(kernels.Stack([kernels.RBF(1.5), kernels.Matern(2.0)]), C=1.0),
}


@pytest.mark.parametrize("conditional", [False, True])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_sets_follow_their_definition(name, conditional):
    X, y = make_classes(80)
    new = make_classes(30, seed=1)[0]
    weights = np.where(np.arange(80) % 8 == 0, 0.0, 1.0)
    model = clone(CLASSIFIERS[name]).fit(X, np.array(["a", "b", "c", "d"])[y], weights)
    P, codes = diagnose.loo_probabilities(model)
    mass = lambda p, c: p[p > p[c]].sum()  # noqa: E731  the probability of the more probable classes
    own = np.array([mass(p, c) for p, c in zip(P, codes, strict=True)])
    found = model.predict_set(new, 0.8, class_conditional=conditional)
    assert found.dtype == bool
    for row, p in zip(found, model.predict_proba(new), strict=True):
        for c in range(4):
            known = np.sort(own[(weights > 0) & ((codes == c) | (not conditional))])
            rank = math.ceil(0.8 * (len(known) + 1) + math.sqrt(0.16 * len(known)))
            limit = known[rank - 1] if rank <= len(known) else np.inf
            assert row[c] == (mass(p, c) <= limit + 1e-12)
    assert (found | (np.arange(4) != model.predict_proba(new).argmax(axis=1)[:, None])).all()


def test_sets_of_training_rows_use_the_thresholds_of_the_others():
    X, y = make_classes(60)
    model = LSSVC(kernels.RBF(1.5), C=1.0).fit(X, y)
    P, codes = diagnose.loo_probabilities(model)
    inside, size = [], []
    for i in range(60):
        others = np.arange(60) != i
        limit = set_thresholds(P[others], codes[others], 0.8)
        row = set_scores(P[i : i + 1])[0] <= limit
        inside.append(row[codes[i]])
        size.append(row.sum())
    found = diagnose.set_coverage(model, [0.8, 0.999])
    assert_allclose(found.observed, [np.mean(inside), 1.0])
    assert_allclose(found.by_class[0], [np.mean(np.array(inside)[codes == c]) for c in range(4)])
    assert_allclose(found.by_class[1], 1.0)
    assert_allclose(found.size, [np.mean(size), 4.0])


@pytest.mark.parametrize("conditional", [False, True])
def test_coverage_of_sets(conditional):
    X, y = make_classes(4300)
    shares, own = [], []
    for start in range(0, 1200, 100):
        model = LSSVC(kernels.RBF(1.5), C=1.0).fit(X[start : start + 100], y[start : start + 100])
        sets = model.predict_set(X[1200:], 0.9, class_conditional=conditional)
        hit = sets[np.arange(3100), y[1200:]]
        shares.append(hit.mean())
        own.append([hit[y[1200:] == c].mean() for c in range(4)])
    assert 0.9 < np.mean(shares) < (0.99 if conditional else 0.95)
    assert np.mean(own, axis=0).min() > (0.9 if conditional else 0.82)
    with pytest.raises(ValueError, match="coverage must be between 0 and 1, got 1"):
        model.predict_set(X, 1)


def test_sets_after_chunks():
    X, y = make_classes(200)
    model = LSSVC(kernels.RBF(1.5), C=1.0, steps=[sparsify.Given(X[:40])])
    whole, chunked = clone(model).fit(X, y), clone(model).fit_chunks([(X[:90], y[:90]), (X[90:], y[90:])])
    assert_array_equal(chunked.predict_set(X), whole.predict_set(X))
    streamed = clone(model).partial_fit(X[:90], y[:90]).partial_fit(X[90:], y[90:])
    assert streamed.predict_set(X, 0.9)[np.arange(200), y].mean() > 0.86


# Confidence intervals of the function ---------------------------------------------------------------------------------
def smoother_matrix(model, X, new):
    """df(x)/dy_j by a refit to all unit vectors."""
    return refitted(model, X, np.eye(len(X)), model.weights_)(new)


@pytest.mark.parametrize("name", ["dense", "robust", "basis", "stack"])
def test_confidence_intervals_follow_their_definition(name):
    X, y = uneven(40)
    unfitted, sample_weight = MODELS[name]
    model = clone(unfitted).fit(X, y, sample_weight)
    S, H = smoother_matrix(model, X, NEW), smoother_matrix(model, X, X)
    f = model.predict(X)
    scale = distribution(model, search=False).scale
    unit = 1 / np.sqrt(model.weights_) if scale is None else scale.own[:, 0]
    rest = (np.eye(40) - H) * unit / unit[:, None]  # pure noise of size `unit` leaves the residuals rest @ z
    deviation = unit * np.sqrt(np.sum(((y - f) / unit) ** 2) / np.trace(rest.T @ rest))
    L = 2 * S - S @ H
    middle, half = L @ y, norm.ppf(0.95) * np.sqrt(L**2 @ deviation**2)
    found = model.confidence_interval(NEW, 0.9)
    assert_allclose(found, np.column_stack([middle - half, middle + half]), rtol=1e-8)
    wide = model.confidence_interval(NEW, 0.9, simultaneous=True)
    assert_allclose(wide.mean(axis=1), found.mean(axis=1), rtol=1e-10)
    assert ((wide[:, 1] - wide[:, 0]) > 1.3 * (found[:, 1] - found[:, 0])).all()


@pytest.mark.slow
@pytest.mark.parametrize("C", [1e2, 1e6])
def test_confidence_intervals_of_models_that_nearly_interpolate(C):
    rng = np.random.default_rng(0)
    X, covered = rng.standard_normal((300, 20)), []
    for _ in range(10):
        model = LSSVR(kernels.RBF(20.0), C=C).fit(X[:100], X[:100, 0] + 0.3 * rng.standard_normal(100))
        low, high = model.confidence_interval(X[100:]).T
        covered.append(np.mean((low <= X[100:, 0]) & (X[100:, 0] <= high)))
    assert np.mean(covered) > 0.9  # 0.04 with l - tr H for C = 1e6


def test_full_conformal_intervals_warn_of_widths_that_were_chosen_on_few_rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 8))
    y = np.sin(2 * X[:, 0]) + 2 * X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(60)
    with pytest.warns(UserWarning, match="were chosen .*'full' holds them fixed"):
        LSSVR(kernels.RBF(ard=True), steps=[]).fit(X, y).predict_interval(X[:2], method="full")


def bump(n, seed, growing):
    """1 - x + exp(-200 (x - 1/2)^2), as in De Brabanter et al. (2011), with even or growing noise."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 1, n))[:, None]
    f = lambda x: 1 - x[:, 0] + np.exp(-200 * (x[:, 0] - 0.5) ** 2)  # noqa: E731
    deviation = 0.05 + 0.15 * x[:, 0] if growing else 0.1
    return x, f(x) + deviation * rng.standard_normal(n), f


@pytest.mark.slow
@pytest.mark.parametrize("growing", [False, True])
def test_coverage_of_confidence_intervals(growing):
    grid = np.linspace(0.02, 0.98, 60)[:, None]
    pointwise, together = [], []
    for seed in range(60):
        x, y, f = bump(150, seed, growing)
        model = LSSVR(kernels.RBF()).fit(x, y)
        low, high = model.confidence_interval(grid).T
        pointwise.append(np.mean((low <= f(grid)) & (f(grid) <= high)))
        low, high = model.confidence_interval(grid, simultaneous=True).T
        together.append(np.all((low <= f(grid)) & (f(grid) <= high)))
    assert 0.9 < np.mean(pointwise) < 0.98
    assert np.mean(together) > 0.8


def test_confidence_intervals_need_all_rows():
    X, y = uneven(60)
    points = sparsify.Given(X[:12])
    whole = LSSVR(**GIVEN, steps=[points]).fit(X, y)
    chunked = LSSVR(**GIVEN, steps=[points]).fit_chunks([(X[:25], y[:25]), (X[25:], y[25:])])
    assert_allclose(chunked.confidence_interval(NEW), whole.confidence_interval(NEW), rtol=1e-6)
    with mock.patch("lssvm.estimators.chunks.SAMPLE_ROWS", 30):
        part = LSSVR(**GIVEN, steps=[points]).fit_chunks([(X[:25], y[:25]), (X[25:], y[25:])])
    with pytest.raises(ValueError, match=r"all training rows.*30 of 60"):
        part.confidence_interval(NEW)


# What is kept between calls -------------------------------------------------------------------------------------------
def test_a_second_call_factorises_nothing(monkeypatch):
    X, y = uneven(150)
    model = LSSVR(**GIVEN).fit(X, y)
    first = {method: model.predict_interval(NEW, 0.9, method) for method in ("auto", "adaptive", "full")}
    monkeypatch.setattr(Problem, "factorise", lambda *a, **k: pytest.fail("factorised again"))
    for method, expected in first.items():
        assert_array_equal(model.predict_interval(NEW, 0.9, method), expected)


def test_a_second_call_for_one_row_is_quick():
    X, y = uneven(1500)
    model = LSSVR(**GIVEN).fit(X, y)
    times = []
    for _ in range(10):
        start = time.process_time()
        model.predict_interval(X[:1])
        times.append(time.process_time() - start)
    assert min(times) < times[0] / 8  # the first call factorises and takes about 40 times as long


def test_copies_and_files_leave_the_factors_out(tmp_path):
    X, y = uneven(150)
    model = LSSVR(**GIVEN).fit(X, y)
    expected = model.predict_interval(NEW)
    size = len(pickle.dumps(LSSVR(**GIVEN).fit(X, y)))
    assert len(pickle.dumps(model)) < size + 1500
    save(model, tmp_path / "model.lssvm")
    read = load(tmp_path / "model.lssvm")
    assert read.fitted_.scale_choice.uneven == (True,)
    for other in (read, pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert_allclose(other.predict_interval(NEW), expected, rtol=1e-12)
    model.fit(X[::-1][:100], y[::-1][:100])
    assert model.fitted_.scale_choice is None


# Corner cases ---------------------------------------------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore:Intervals with coverage=0.9 are infinite")
@pytest.mark.parametrize("method", ["auto", "adaptive", "full", "jackknife+", "jackknife-minmax"])
def test_few_rows_and_constant_targets(method):
    X, y = uneven(3)
    three = LSSVR(**GIVEN).fit(X, y)
    low, high = three.predict_interval(NEW[:1], 0.5, method)[0]
    assert np.isfinite([low, high]).all()
    assert low < high
    assert_array_equal(three.predict_interval(NEW[:1], 0.9, method), [[-np.inf, np.inf]])
    constant = LSSVR(**GIVEN).fit(uneven(30)[0], np.full(30, 7.0))
    assert_allclose(constant.predict_interval(NEW, 0.8, method), 7.0, atol=1e-9)
    for coverage in (0, 1, 1.5, "a"):
        with pytest.raises(ValueError, match="coverage must be between 0 and 1"):
            three.predict_interval(NEW, coverage, method)


def test_fitted_loo_gives_the_models_own_residuals():
    X, y = uneven(40)
    model = LSSVR(**GIVEN).fit(X, y)
    found = FittedLoo(model.fitted_.problem, model.fitted_.fit)
    own = found.predictions(X)[np.arange(40), np.arange(40), 0]
    assert_allclose(own, model.loo_predictions_, rtol=1e-10)


@pytest.mark.parametrize("method", ["auto", "adaptive", "jackknife+", "full", "quantiles", "confidence"])
@pytest.mark.parametrize("kernel", [kernels.Polynomial(2), kernels.Linear()])
def test_intervals_of_predictions_that_overflow_are_refused(kernel, method):
    """As by `predict`: they used to be NaN, with NumPy warnings."""
    X, y = uneven(40)
    model = LSSVR(kernel, C=1.0).fit(X, y)
    far = np.vstack([X, [[1.7e308, -1.7e308]]])
    call = {"quantiles": model.predict_quantiles, "confidence": model.confidence_interval}.get(method)
    call = call or (lambda rows: model.predict_interval(rows, 0.8, method))
    assert np.isfinite(call(X)).all()
    for refused in (model.predict, call):
        with pytest.raises(ValueError, match="Predictions overflow"):
            refused(far)


def test_rows_with_weights_left_out_in_pairs_against_refits():
    draw = np.random.RandomState(0)
    X, y, weights = draw.uniform(-1, 1, (10, 2)), draw.normal(size=10), draw.uniform(0.3, 3.0, 10)
    model = LSSVR(kernels.RBF(1.0), C=5.0)
    part = np.arange(3)
    found = clone(model).fit(X, y, sample_weight=weights).fitted_.members[0].loo_model.pairs(X[part], part)
    for i in part:
        for j in range(10):
            if i != j:
                others = np.setdiff1d(np.arange(10), [i, j])
                refit = clone(model).fit(X[others], y[others], sample_weight=weights[others])
                assert_allclose(found[:, i, j, 0], (y - refit.predict(X))[[i, j]], rtol=1e-9)
