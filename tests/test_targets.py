"""Targets on another scale: the maps, leave-one-out and intervals against refits, and tables with such a member."""

from dataclasses import replace

import numpy as np
import pytest
import scipy
from reference import left_out
from sklearn.preprocessing import FunctionTransformer, PowerTransformer, QuantileTransformer
from sklearn.utils import Bunch

from lssvm import LSSVC, LSSVR, datasets, diagnose, export, kernels, load, save, sparsify
from lssvm.estimators.planning import on_scale, scaled_members
from lssvm.intervals.jackknife import order_statistic
from lssvm.problem import Problem
from lssvm.targets import LEVELS, target_scale
from lssvm.tune.search import first_stage

DRAW = np.random.RandomState(0)
X = DRAW.uniform(-1, 1, (60, 2))
PRICE = np.exp(3.0 + 2.0 * np.sin(3 * X[:, 0]) + X[:, 1] + 0.3 * DRAW.normal(size=60))
NEW = DRAW.uniform(-1, 1, (15, 2))
SIGMA, C = 1.5, 50.0
ROWS = np.random.RandomState(1).uniform(-1, 1, (150, 2))
PRICES = np.exp(3.0 + 2.0 * np.sin(3 * ROWS[:, 0]) + ROWS[:, 1] + 0.3 * np.random.RandomState(2).normal(size=150))


@pytest.fixture(scope="module")
def default():
    """A stack with a member on the power scale."""
    return LSSVR().fit(ROWS, PRICES)


def given(**options):
    return LSSVR(kernels.RBF(SIGMA), C, **{"target": "log", **options})


# The maps -------------------------------------------------------------------------------------------------------------
TARGETS = {"log": PRICE, "power": PRICE, "signed": PRICE - 40.0, "left": 1e3 - PRICE, "even": X[:, 0]}


@pytest.mark.parametrize("name", TARGETS)
def test_maps_are_those_of_scipy_and_have_an_inverse(name):
    y = TARGETS[name]
    scale = target_scale("log" if name == "log" else "power", y[:, None], np.arange(60))
    z = scale.forward(y[:, None])[:, 0]
    known = np.log(y) if name == "log" else scipy.special.boxcox((y - scale.origin) / scale.unit, scale.exponents)
    sign = -1.0 if name == "left" else 1.0
    np.testing.assert_allclose(z, sign * (known - known.mean()) / known.std(), rtol=1e-9, atol=1e-9)
    assert abs(z.mean()) < 1e-12
    assert z.std() == pytest.approx(1.0)
    np.testing.assert_allclose(scale.inverse(z[:, None])[:, 0], y, rtol=1e-10, atol=1e-10)
    places = np.linspace(-20, 20, 200)[:, None]
    assert (np.diff(scale.bounded(scale.inverse(places)), axis=0) >= 0).all()
    assert scale.low <= y.min()
    assert y.max() < scale.high <= y.max() + 0.5 * np.ptp(y) + 1e-9
    end = 0 if scale.low >= 0 else -np.inf
    np.testing.assert_array_equal(scale.ends(np.array([[-np.inf], [np.inf]]))[:, 0], [end, np.inf])


@pytest.mark.parametrize("name", ["power", "left", "even"])
def test_the_power_is_the_likeliest(name):
    """No other exponent, unit or end has a larger likelihood, which is that of scipy for shifted targets."""
    y = TARGETS[name]
    scale = target_scale("power", y[:, None], np.arange(60))
    best, found = scale.likelihood(y[:, None]), []
    for end, sign in ((y.min(), 1.0), (y.max(), -1.0)):
        sizes = np.abs(y - end)
        for unit in np.quantile(sizes[sizes > 0], [0.0, 0.05, 0.25, 0.5]):
            u = 1.0 + sizes / unit
            # the likelihood of scipy is that of u
            found += [scipy.stats.boxcox_llf(a, u) - 60 * np.log(unit) for a in np.linspace(0, 2, 21)]
            if scale.unit == pytest.approx(sign * unit):
                own = scipy.stats.boxcox_llf(scale.exponents[0], u) - 60 * np.log(unit)
                assert best == pytest.approx(own, abs=1e-6)
    assert best >= max(found) - 0.01
    assert (scale.unit < 0) == (name == "left")


@pytest.mark.parametrize("y", [PRICE, 600.0 - PRICE], ids=["right", "left"])
def test_units_and_their_zero_do_not_matter(y):
    scale, other = (target_scale("power", one[:, None], np.arange(60)) for one in (y, 1e4 + 1e3 * y))
    np.testing.assert_allclose(other.forward(1e4 + 1e3 * y[:, None]), scale.forward(y[:, None]), rtol=1e-9)
    np.testing.assert_allclose(other.exponents, scale.exponents)
    np.testing.assert_allclose(other.high, 1e4 + 1e3 * scale.high)
    if scale.unit < 0:  # otherwise 0 is a bound of positive targets
        np.testing.assert_allclose(other.low, 1e4 + 1e3 * scale.low)


def test_the_likelihood_of_errors_does_not_depend_on_a_linear_scale():
    """With exponent 1, z is linear in the targets, and so are the errors."""
    plain = Problem(kernels.RBF(1.0), X, PRICE[:, None], np.ones(60), C=10.0)
    one, scale = np.ones(1), target_scale("power", PRICE[:, None], np.arange(60))
    scale = replace(scale, exponents=one, centre=0.0 * one, spread=one)
    z = scale.forward(PRICE[:, None])
    [other] = on_scale([plain], replace(scale, centre=z.mean(axis=0), spread=z.std(axis=0)))
    found = [first_stage(problem, "auto", Bunch(evaluations=0, plan=[])) for problem in (plain, other)]
    sizes = np.abs(found[0].criterion.residuals(found[0].candidate))
    assert found[0].likelihood == pytest.approx(-60 * np.log(sizes.mean()))
    assert found[1].likelihood == pytest.approx(found[0].likelihood, rel=1e-9)


def test_means_are_those_over_quantiles_of_residuals():
    draw = np.random.RandomState(4)
    residuals, weights = draw.normal(size=(60, 2)), draw.randint(0, 3, 60).astype(float)
    scale = target_scale("power", np.column_stack([PRICE, PRICE**2]), np.arange(60)).smeared(residuals, weights)
    copies = np.repeat(residuals, weights.astype(int), axis=0)
    quantiles = np.quantile(copies, LEVELS, axis=0, method="inverted_cdf")
    expected = [np.mean(scale.bounded(scale.inverse(f + quantiles)), axis=0) for f in residuals[:5]]
    np.testing.assert_allclose(scale.mean(residuals[:5]), expected, rtol=1e-12)


# Leave-one-out and intervals ------------------------------------------------------------------------------------------
def refits(y, rows=NEW):
    """Residuals of z for every row left out, predictions of z at new rows without each row, and the map."""
    z = np.log(y)
    K = np.exp(-scipy.spatial.distance.cdist(X, X, "sqeuclidean") / SIGMA**2)
    K_new = np.exp(-scipy.spatial.distance.cdist(rows, X, "sqeuclidean") / SIGMA**2)
    residuals, predictions = left_out(K, K, z[:, None], np.ones(60), 1.0 / C, K_new=K_new)
    quantiles = np.quantile(residuals[:, 0], LEVELS, method="inverted_cdf")
    spread = 0.5 * np.ptp(z)
    low, high = np.exp(z.min() - spread), min(np.exp(z.max() + spread), y.max() + 0.5 * np.ptp(y))

    def mean(f):
        return np.mean([np.clip(np.exp(f + q), low, high) for q in quantiles], axis=0)

    return mean(z - residuals[:, 0]), mean(np.asarray(predictions)[..., 0])


def test_leave_one_out_and_intervals_equal_refits():
    model = given().fit(X, PRICE)
    predicted, at_new = refits(PRICE)
    np.testing.assert_allclose(model.loo_predictions_, predicted, rtol=1e-9)
    np.testing.assert_allclose(model.loo_residuals_, PRICE - predicted, rtol=1e-7, atol=1e-9)
    assert model.press_ == pytest.approx(np.sum((PRICE - predicted) ** 2), rel=1e-9)
    at_new = at_new.reshape(60, len(NEW)) if at_new.shape[0] == 60 else at_new.T
    reach = np.abs(np.log(PRICE) - np.log(predicted))[:, None]
    rank = int(np.ceil(0.9 * 61))
    low = order_statistic((np.log(at_new) - reach).T, 61 - rank)
    high = order_statistic((np.log(at_new) + reach).T, rank)
    found = model.predict_interval(NEW, 0.9, "jackknife+")
    np.testing.assert_allclose(found, np.exp(np.column_stack([low, high])), rtol=1e-8)


def test_intervals_cover_and_stay_in_the_range():
    draw = np.random.RandomState(1)
    rows = draw.uniform(-1, 1, (2000, 2))
    y = np.exp(3.0 + 2.0 * np.sin(3 * rows[:, 0]) + rows[:, 1] + 0.3 * draw.normal(size=2000))
    model = given().fit(rows[:150], y[:150])
    ends, quantiles = model.predict_interval(rows), model.predict_quantiles(rows, [0.001, 0.1, 0.5, 0.9, 0.999])
    assert 0.85 < np.mean((ends[:, 0] <= y) & (y <= ends[:, 1])) < 0.95
    assert (ends > 0).all()
    assert (np.diff(quantiles, axis=1) > 0).all()
    np.testing.assert_array_equal(quantiles[:, [0, 4]], np.tile([0.0, np.inf], (2000, 1)))
    assert diagnose.pit(model, rows[150:], y[150:]).mean() == pytest.approx(0.5, abs=0.05)
    assert diagnose.coverage_path(model, [0.9]).observed[0] == pytest.approx(0.9, abs=0.05)


def test_scores_of_the_distribution_follow_their_definition():
    model = given().fit(X, PRICE)
    u, predicted = np.log(PRICE), np.log(model.loo_predictions_)
    scale = model.fitted_.target
    bounds = np.log(scale.low[0]), np.log(scale.high[0])
    scores = []
    for i in range(60):
        values = np.exp(np.clip(predicted[i] + np.delete(u - predicted, i), *bounds))
        scores.append(np.abs(values - PRICE[i]).mean() - 0.5 * np.abs(values[:, None] - values).mean())
    distribution = model._distribution(method="jackknife+", search=False)
    np.testing.assert_allclose(distribution.loo_crps()[:, 0], scores, rtol=1e-9)


def test_a_pair_of_rows_is_left_out_of_every_member():
    model = LSSVR(kernels.Stack([kernels.RBF(SIGMA), kernels.Linear()]), C, target="log").fit(X, PRICE)
    loo = model._loo_model()
    own, other = loo.pairs(X[[3]], np.array([3]))
    total = np.zeros(2)
    for member, share in zip(model.members_, model.stack_weights_, strict=True):
        z = member.fitted_.target.forward(PRICE[:, None])
        K = member.kernel_.evaluate(X, X)
        system = np.block([[K + np.eye(60) / C, np.ones((60, 1))], [np.ones((1, 60)), np.zeros((1, 1))]])
        kept = np.delete(np.arange(61), [3, 8])
        solved = np.linalg.solve(system[np.ix_(kept, kept)], np.append(np.delete(z[:, 0], [3, 8]), 0.0))
        f = np.column_stack([K, np.ones(60)])[np.ix_([3, 8], kept)] @ solved
        total += share * member.fitted_.target.mean(f[:, None])[:, 0]
    u = loo.scaled(PRICE[[3, 8], None]) - loo.scaled(total[:, None])
    np.testing.assert_allclose([own[0, 8, 0], other[0, 8, 0]], u[:, 0], rtol=1e-6)


def test_weighted_rows_and_outputs():
    weights = np.tile([0.0, 1.0, 2.0], 20)
    model = given().fit(X, PRICE, sample_weight=weights)
    kept = given().fit(X[weights > 0], PRICE[weights > 0], sample_weight=weights[weights > 0])
    np.testing.assert_allclose(model.predict(NEW), kept.predict(NEW), rtol=1e-9)
    other = given().fit(X, np.where(weights > 0, PRICE, -1.0), sample_weight=weights)
    np.testing.assert_allclose(model.predict(NEW), other.predict(NEW), rtol=1e-9)
    both = given(target="power").fit(X, np.column_stack([PRICE, 5 - X[:, 0]]))
    for output, y in enumerate([PRICE, 5 - X[:, 0]]):
        one = given(target="power").fit(X, y)
        np.testing.assert_allclose(both.predict(NEW)[:, output], one.predict(NEW), rtol=1e-6)
        ends = [model.predict_interval(NEW, method="jackknife+") for model in (both, one)]
        np.testing.assert_allclose(ends[0][:, :, output], ends[1], rtol=1e-4)


def test_robust_weights_and_bases():
    y = PRICE.copy()
    y[7] *= 1000.0
    robust = given(robust="hampel").fit(X, y)
    assert robust.weights_[7] == pytest.approx(1e-4)
    sparse = given(steps=[sparsify.FeatureVectors(20)]).fit(X, PRICE)
    assert sparse.dual_coef_.shape == (20,)
    K = robust.kernel_.evaluate(X, sparse.support_vectors_)
    scale = sparse.fitted_.target
    f = K @ sparse.dual_coef_ + sparse.intercept_
    np.testing.assert_allclose(sparse.predict(X), scale.mean(f[:, None])[:, 0], rtol=1e-12)
    assert ((y - sparse.predict_interval(X)[:, 0]) ** 2).shape == (60,)


# Which tables ---------------------------------------------------------------------------------------------------------
def test_targets_that_are_not_skewed_change_nothing():
    y = 10.0 + np.sin(3 * X[:, 0]) + 0.3 * np.random.RandomState(3).normal(size=60)
    models = [LSSVR(target=target).fit(X, y) for target in ("auto", "identity")]
    assert np.array_equal(*(model.predict(NEW) for model in models))
    assert np.array_equal(*(model.predict_interval(NEW) for model in models))


def test_skewed_values_with_even_errors_change_nothing():
    """The targets are skewed because the function is, but errors of all sizes of targets are alike."""
    rows, y = datasets.make_sinc(120, random_state=0)
    assert scaled_members([Problem(kernels.Matern(nu=1.5), rows, y[:, None], np.ones(120))])
    models = [LSSVR(target=target).fit(rows, y) for target in ("auto", "identity")]
    assert np.array_equal(*(model.predict(rows) for model in models))


def test_skewed_targets_get_a_member_and_predictions_are_averages(default):
    model, plain = default, LSSVR(target="identity").fit(ROWS, PRICES)
    scaled = [member for member in model.members_ if member.fitted_.target is not None]
    assert [member.target for member in scaled] == ["power"]
    assert model.stack_weights_.sum() == pytest.approx(1.0)
    assert len({(repr(one.kernel), one.C) for one in model.path_.members}) == len(model.path_.members)
    truth = np.exp(3.0 + 2.0 * np.sin(3 * NEW[:, 0]) + NEW[:, 1] + 0.045)
    errors = [np.mean((one.predict(NEW) - truth) ** 2) for one in (model, plain)]
    assert errors[0] < errors[1]
    scale = model.fitted_.target
    parts = [member.predict(NEW) for member in model.members_]
    np.testing.assert_allclose(model.predict(NEW), np.clip(model.stack_weights_ @ parts, scale.low, scale.high))
    loo = model.stack_weights_ @ [member.loo_predictions_ for member in model.members_]
    np.testing.assert_allclose(model.loo_predictions_, np.clip(loo, scale.low, scale.high), rtol=1e-9)
    assert model.path_.loo == pytest.approx(np.mean(model.loo_residuals_**2), rel=0.05)
    with pytest.raises(AttributeError, match="intercept_ has no single value"):
        _ = model.intercept_
    assert any("targets on the scale power" in words for words in diagnose.member_words(model))


def test_given_kernels_are_fitted_to_the_targets_as_they_are():
    assert LSSVR(kernels.RBF()).fit(X, PRICE).fitted_.target is None
    assert LSSVR(C=1.0).fit(X, PRICE).fitted_.target is None
    assert LSSVR().fit(X, np.column_stack([PRICE, PRICE])).fitted_.target is None


def test_units_of_the_targets_change_nothing(default):
    other = LSSVR().fit(ROWS, 1e4 + 1e3 * PRICES)
    np.testing.assert_allclose((other.predict(NEW) - 1e4) / 1e3, default.predict(NEW), rtol=1e-4)


def test_a_transformer_gives_the_same_model():
    power, own = (given(target=target).fit(X, PRICE) for target in ("log", FunctionTransformer(np.log, np.exp)))
    np.testing.assert_allclose(own.predict(NEW), power.predict(NEW), rtol=1e-6)
    np.testing.assert_allclose(own.predict_interval(NEW), power.predict_interval(NEW), rtol=1e-6)
    uniform = LSSVR(target=QuantileTransformer(n_quantiles=60)).fit(X, PRICE)
    assert (uniform.predict(NEW) >= PRICE.min()).all()
    assert (uniform.predict(NEW) <= PRICE.max()).all()
    assert np.isfinite(LSSVR(kernels.RBF(), target=PowerTransformer()).fit(X, X[:, 0] ** 3).predict(NEW)).all()


def test_few_rows_per_width_are_weighed_by_folds_on_the_original_scale():
    rows = np.random.RandomState(2).normal(size=(12, 3))
    stack = kernels.Stack([kernels.RBF(ard=True), kernels.Linear()])
    model = LSSVR(stack, target="log").fit(rows, np.exp(rows[:, 0] + 0.1 * rows[:, 1]))
    assert min(model.stack_weights_) >= 0.0
    assert (model.predict_interval(rows)[:, 0] >= 0.0).all()


# What carries it on ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["log", "auto"])
def test_files_give_the_same_model(name, default, tmp_path):
    model = default if name == "auto" else given().fit(X, PRICE)
    model.predict_interval(NEW)
    save(model, tmp_path / "model.lssvm")
    same = load(tmp_path / "model.lssvm")
    assert np.array_equal(same.predict(NEW), model.predict(NEW))
    assert np.array_equal(same.predict_interval(NEW), model.predict_interval(NEW))
    assert np.array_equal(same.loo_residuals_, model.loo_residuals_)


def test_torch_tensors_give_the_same_predictions():
    torch = pytest.importorskip("torch")
    model = given().fit(torch.asarray(X), torch.asarray(PRICE))
    found = model.predict(torch.asarray(NEW))
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found.numpy(), given().fit(X, PRICE).predict(NEW), rtol=1e-9)


def test_diagnostics_are_those_of_the_original_scale():
    model = LSSVR(kernels.RBF(ard=True), target="log").fit(X, PRICE)
    scores = diagnose.scores(model)
    assert scores["rmse"] == pytest.approx(np.sqrt(np.mean(diagnose.honest_values(model).residuals ** 2)))
    assert diagnose.importance(model).full == pytest.approx(np.sqrt(np.mean(model.loo_residuals_**2)))
    regions = diagnose.coverage_by_region(model, n_bins=2)
    assert (regions.low_edge > 0).all()
    assert np.isfinite(regions.width).all()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: given(target="root").fit(X, PRICE),
            "target must be 'auto', 'identity', 'log' or 'power' or a transformer",
        ),
        (lambda: given(target="log").fit(X, X[:, 0]), "target='log' needs positive targets, but y contains -"),
        (lambda: given(target=FunctionTransformer(np.negative, np.negative)).fit(X, PRICE), "in the same order"),
        (lambda: given().fit_chunks([(X, PRICE)]), "target='log' needs all rows at once"),
        (lambda: given().fit(X, PRICE).confidence_interval(NEW), "linear in the targets.*use target='identity'"),
        (lambda: given().fit(X, PRICE).predict_interval(NEW, method="full"), "linear in the targets"),
        (lambda: diagnose.c_path(given().fit(X, PRICE)), "targets on another scale: use target='identity'"),
    ],
)
def test_mistakes_and_limits_are_explained(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_what_cannot_hold_the_scale_says_so(default, tmp_path):
    with pytest.raises(AttributeError) as raised:
        _ = default.partial_fit
    assert "partial_fit does not support targets on another scale" in str(raised.value.__cause__)
    with pytest.raises(TypeError, match="target contains a FunctionTransformer, which cannot be saved"):
        save(given(target=FunctionTransformer(np.log, np.exp)).fit(X, PRICE), tmp_path / "model.lssvm")
    with pytest.raises(TypeError, match="a transformer of the targets cannot be exported"):
        export.to_python(given(target=FunctionTransformer(np.log, np.exp)).fit(X, PRICE))
    assert "target" not in LSSVC().get_params()
