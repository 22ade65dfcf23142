"""The predictive distribution against refits, integrals of its distribution function, and draws."""

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.metrics import log_loss

from lssvm import LSSVC, LSSVR, kernels, load, save, sparsify
from lssvm.estimators.classifier import shift_weights
from lssvm.intervals.scale import OUTLIERS, SMALLEST
from lssvm.problem import Problem

N = 40
draw = np.random.RandomState(0)
X = draw.uniform(-2, 2, (N, 2))
Y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1]]) + (0.1 + 0.4 * np.abs(X[:, :1])) * draw.normal(size=(N, 2))
NEW = draw.uniform(-2, 2, (6, 2))
TARGETS = Y[:6] + 0.3
WEIGHTS = np.where(np.arange(N) % 7 == 0, 0.0, draw.uniform(0.3, 3.0, N))
GIVEN = {"kernel": kernels.RBF(1.3), "C": 5.0}
MODELS = {
    "dense": LSSVR(**GIVEN),
    "basis": LSSVR(**GIVEN, steps=[sparsify.Given(X[:9])]),
    "stack": LSSVR(kernels.Stack([kernels.RBF(1.3), kernels.Matern(2.0)]), C=5.0),
}


def members(model):
    return zip(model.members_, model.stack_weights_, strict=True) if "members_" in vars(model) else [(model, 1.0)]


def values_by_refits(model, y, given):
    """f_(i)(x) + s_(i)(x) r_i/s_(i)(x_i) of the rows i with weight, by refits of both models without row i.

    Kernels, C, bases, shares and the residuals to which the scale is fitted are those of the model.
    """
    rows, residuals = np.flatnonzero(given), model.loo_residuals_.reshape(N, -1)
    choice, found = model.fitted_.scale_choice, []
    roots = np.zeros(residuals.shape)
    roots[rows] = np.sqrt(np.abs(residuals[rows]) / np.median(np.abs(residuals[rows]), axis=0))
    v = Problem(choice.kernel, X, roots, given, C=choice.C, robust=OUTLIERS).solve().weights
    for i in rows:
        others, f = np.where(np.arange(N) == i, 0.0, model.weights_), 0.0
        Z = np.vstack([NEW, X[i : i + 1]])
        for member, share in members(model):
            basis = sparsify.Given(X[member.support_] if member.support_ is not None else member.support_vectors_)
            f = f + share * LSSVR(member.kernel_, member.C_, steps=[basis]).fit(X, y, others).predict(Z)
        own = np.where(np.arange(N) == i, 0.0, v)
        s = np.maximum(Problem(choice.kernel, X, roots, own, C=choice.C).solve().predict(Z), SMALLEST) ** 2
        s = np.where(choice.uneven, s, 1.0)
        f = f.reshape(len(Z), -1)
        found.append(f[:-1] + s[:-1] * (y.reshape(N, -1)[i] - f[-1]) / s[-1])
    return np.stack(found, axis=1)


@pytest.mark.parametrize(
    ("name", "uneven"),
    [("dense", (False, False)), ("dense", (True, False)), ("basis", (False, True)), ("stack", (True, True))],
)
def test_all_results_are_those_of_the_values_of_refits(name, uneven):
    given = WEIGHTS if name != "stack" else np.ones(N)
    model = clone(MODELS[name]).fit(X, Y, given)
    model.predict_interval(NEW)  # chooses the scale
    fitted = model.fitted_
    residuals, scale = fitted.scale
    choice = replace(fitted.scale_choice, uneven=uneven)
    model.fitted_ = replace(fitted, scale=(residuals, replace(scale, choice=choice)), scale_choice=choice)
    values = np.sort(values_by_refits(model, Y, given), axis=1)
    found, n = model.predict_distribution(NEW), values.shape[1]
    near = {"rtol": 1e-7, "atol": 1e-8}
    assert_allclose(found.mean(), values.mean(axis=1), **near)
    assert_allclose(found.std(), values.std(axis=1), **near)
    assert_allclose(found.cdf(TARGETS), (np.sum(values < TARGETS[:, None], axis=1) + 0.5) / (n + 1), rtol=1e-12)
    assert_allclose(found.quantile(np.arange(1, n + 1) / (n + 1)), values, **near)
    assert_allclose(
        found.quantile([0.33]), np.quantile(values, [0.33], axis=1, method="weibull").swapaxes(0, 1), **near
    )
    pairs = np.abs(values[:, :, None] - values[:, None, :]).mean(axis=(1, 2))
    assert_allclose(found.crps(TARGETS), np.abs(values - TARGETS[:, None]).mean(axis=1) - 0.5 * pairs, **near)
    assert_array_equal(found.interval(0.8), model.predict_interval(NEW, 0.8))


@pytest.fixture(scope="module")
def model():
    return LSSVR(**GIVEN).fit(X, Y[:, 0])


def test_scores_are_integrals_of_the_distribution_function(model):
    """With l + 1 intervals between values and targets, in which the function is constant, the integral is exact."""
    found = model.predict_distribution(NEW)
    y = TARGETS[:, 0]
    ends = np.sort(np.column_stack([found.quantile(np.arange(1, N + 1) / (N + 1)), y]), axis=1)
    total = np.zeros(6)
    for low, high in zip(ends.T[:-1], ends.T[1:], strict=True):
        middle = (low + high) / 2
        F = ((N + 1) * found.cdf(middle) - 0.5) / N  # of the values alone, without the tails
        total += (high - low) * (F - (middle > y)) ** 2
    assert_allclose(found.crps(y), total, rtol=1e-9)


def test_distribution_function_and_quantiles_are_inverse_and_monotone(model):
    found = model.predict_distribution(NEW)
    ranks = np.arange(1, N + 1) / (N + 1)
    at_ranks = found.quantile(ranks)
    assert_allclose(np.column_stack([found.cdf(q) for q in at_ranks.T]), np.tile(ranks, (6, 1)), rtol=1e-12)
    for level in (0.1, 0.333, 0.5, 0.9):
        assert np.abs(found.cdf(found.quantile([level])[:, 0]) - level).max() <= 0.5 / (N + 1) + 1e-12
    steps = np.column_stack([found.cdf(t) for t in np.linspace(-5, 5, 50)])
    assert (np.diff(steps, axis=1) >= 0).all()
    assert_allclose(steps[:, [0, -1]], np.tile([0.5 / (N + 1), 1 - 0.5 / (N + 1)], (6, 1)), rtol=1e-12)
    assert_array_equal(found.quantile([0.01, 0.99]), np.tile([-np.inf, np.inf], (6, 1)))
    assert np.isfinite([found.mean(), found.std(), found.crps(0.0)]).all()


def test_draws_are_values_with_even_frequencies(model):
    found = model.predict_distribution(NEW)
    drawn, values = found.sample(8000, random_state=1), found.quantile(np.arange(1, N + 1) / (N + 1))
    assert drawn.shape == (6, 8000)
    assert_array_equal(drawn, found.sample(8000, random_state=1))
    for own, known in zip(drawn, values, strict=True):
        place = np.abs(own[:, None] - known).argmin(axis=1)
        assert_allclose(own, known[place], rtol=1e-12)
        counts = np.bincount(place, minlength=N)
        assert np.sum((counts - 200.0) ** 2 / 200) < 90  # chi squared of 39 degrees of freedom: above with 1e-5
    assert_allclose(drawn.mean(axis=1), found.mean(), atol=0.05)
    assert np.abs(np.corrcoef(drawn) - np.eye(6)).max() < 0.06  # rows are drawn independently


def test_outputs_of_a_draw_come_from_the_same_training_row():
    both = np.column_stack([Y[:, 0], 3.0 - 2.0 * Y[:, 0]])
    drawn = LSSVR(**GIVEN).fit(X, both).predict_distribution(NEW).sample(20, random_state=0)
    assert drawn.shape == (6, 20, 2)
    assert_allclose(drawn[:, :, 1], 3.0 - 2.0 * drawn[:, :, 0], rtol=1e-9, atol=1e-9)


def test_the_order_of_rows_makes_no_difference(model):
    order, rows = np.random.RandomState(3).permutation(N), np.array([3, 0, 5, 1, 4, 2])
    one = model.predict_distribution(NEW)
    other = LSSVR(**GIVEN).fit(X[order], Y[order, 0]).predict_distribution(NEW[rows])
    for result in (lambda d, t: d.mean(), lambda d, t: d.std(), lambda d, t: d.cdf(t), lambda d, t: d.crps(t)):
        assert_allclose(result(other, TARGETS[rows, 0]), result(one, TARGETS[:, 0])[rows], rtol=1e-8)
    assert_allclose(other.quantile([0.2, 0.7]), one.quantile([0.2, 0.7])[rows], rtol=1e-8)


@pytest.mark.parametrize("parameters", [{"target": "log"}, {"target": "power"}, {"loss": "poisson"}, {"loss": "gamma"}])
def test_positive_targets_have_positive_distributions(parameters):
    y = np.exp(Y[:, 0] + 1.0) + (1e-3 if parameters != {"loss": "poisson"} else 0.0)
    y = np.floor(y) if parameters == {"loss": "poisson"} else y
    model = LSSVR(**GIVEN, **parameters).fit(X, y)
    found = model.predict_distribution(NEW)
    values = found.quantile(np.arange(1, N + 1) / (N + 1))
    assert values.min() >= 0
    assert found.sample(50, random_state=0).min() >= 0
    assert_array_equal(found.quantile([0.01])[:, 0], np.zeros(6))
    assert_allclose(found.mean(), values.mean(axis=1), rtol=1e-9)
    assert (np.abs(found.mean() - model.predict(NEW)) < 0.5 * found.std()).all()
    pairs = np.abs(values[:, :, None] - values[:, None]).mean(axis=(1, 2))
    for t in (-1.0, 0.0, 2.5, 1e9):
        expected = np.sum(values < t, axis=1) + 0.5 * np.sum(values == t, axis=1) + 0.5
        assert_allclose(found.cdf(t), expected / (N + 1), rtol=1e-12)
        assert_allclose(found.crps(t), np.abs(values - t).mean(axis=1) - 0.5 * pairs, rtol=1e-9)


def test_files_copies_and_chunks_have_the_same_distribution(tmp_path):
    wide = LSSVR(**GIVEN, steps=[sparsify.Given(X[:9])])
    whole, chunked = clone(wide).fit(X, Y), clone(wide).fit_chunks([(X[:15], Y[:15]), (X[15:], Y[15:])])
    save(whole, tmp_path / "model.lssvm")
    found = whole.predict_distribution(NEW)
    for other in (load(tmp_path / "model.lssvm").predict_distribution(NEW), pickle.loads(pickle.dumps(found))):
        assert_allclose(other.crps(TARGETS), found.crps(TARGETS), rtol=1e-9)
        assert_allclose(other.sample(3, 0), found.sample(3, 0), rtol=1e-9)
    assert_allclose(chunked.predict_distribution(NEW).mean(), found.mean(), rtol=1e-6)
    shapes = [
        found.cdf(0.0),
        found.quantile([0.5]),
        found.mean(),
        found.interval(),
        found.sample(),
        found.crps(TARGETS),
    ]
    assert [a.shape for a in shapes] == [(6, 2), (6, 1, 2), (6, 2), (6, 2, 2), (6, 1, 2), (6, 2)]


def test_what_is_not_defined_is_refused_by_name(model):
    found = model.predict_distribution(NEW)
    assert not hasattr(found, "log_score")
    with pytest.raises(AttributeError, match=r"log_score needs a density.*use crps"):
        found.log_score(0.0)
    for wrong, message in (([1.0, 2.0], r"shape \(2,\).*\(6, 1\)"), (np.nan, "NaN"), (TARGETS, r"shape \(6, 2\)")):
        with pytest.raises(ValueError, match=message):
            found.cdf(wrong)
    with pytest.raises(ValueError, match="coverage must be between 0 and 1"):
        found.interval(1.0)
    classes = LSSVC(**GIVEN).fit(X, Y[:, 0] > 0).predict_distribution(NEW)
    for name in ("cdf", "quantile", "mean", "std", "interval", "crps"):
        assert not hasattr(classes, name)
        with pytest.raises(AttributeError, match=f"{name} needs numbers.*log_score"):
            getattr(classes, name)
    with pytest.raises(ValueError, match=r"shape \(2,\): give one class per row, \(6,\)"):
        classes.log_score([True, False])
    with pytest.raises(ValueError, match="'x', which is not among the classes"):
        classes.log_score(np.array(["x"] * 6))
    da = pytest.importorskip("dask.array")
    for one in (model, LSSVC(**GIVEN).fit(X, Y[:, 0] > 0)):
        with pytest.raises(TypeError, match="predict_distribution takes rows in memory"):
            one.predict_distribution(da.from_array(NEW))


@pytest.mark.parametrize("coding", ["one-vs-rest", "one-vs-one"])
def test_distributions_of_classes(coding, tmp_path):
    y = np.array(["a", "b", "c"])[np.digitize(Y[:, 0], [-0.5, 0.5])]
    model = LSSVC(**GIVEN, coding=coding, loss="squared").fit(X, y)
    found = model.predict_distribution(X)
    P = model.predict_proba(X)
    assert_array_equal(found.probabilities, P)
    assert np.mean(found.log_score(y)) == pytest.approx(log_loss(y, P), rel=1e-9)
    assert_allclose(found.log_score("b"), -np.log(P[:, 1]), rtol=1e-9)
    drawn = found.sample(5000, random_state=0)
    shares = np.mean(drawn[:, :, None] == found.classes, axis=1)
    assert np.abs(shares - P).max() < 5 * 0.5 / math.sqrt(5000)
    save(model, tmp_path / "model.lssvm")
    for other in (load(tmp_path / "model.lssvm").predict_distribution(X), pickle.loads(pickle.dumps(found))):
        assert_array_equal(other.prediction_set(0.8), model.predict_set(X, 0.8))
        assert_array_equal(other.sample(3, 1), found.sample(3, 1))


def test_results_are_of_the_kind_of_the_rows(model):
    torch = pytest.importorskip("torch")
    found, rows = model.predict_distribution(torch.tensor(NEW)), model.predict_distribution(NEW)
    for name, values in {"mean": (), "sample": (2, 0), "crps": (torch.tensor(TARGETS[:, 0]),), "interval": ()}.items():
        result = getattr(found, name)(*values)
        assert isinstance(result, torch.Tensor)
        assert_allclose(result.numpy(), getattr(rows, name)(*values), rtol=1e-12)
    classes = LSSVC(**GIVEN).fit(X, Y[:, 0] > 0).predict_distribution(torch.tensor(NEW))
    assert classes.prediction_set().dtype == torch.bool
    assert classes.sample(2, 0).shape == (6, 2)


# Rows of another distribution -----------------------------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore:Intervals with coverage=0.999 are infinite")
@pytest.mark.parametrize("method", ["jackknife+", "adaptive"])
@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.95, 0.999])
def test_even_weights_change_nothing(method, coverage):
    found = LSSVR(**GIVEN).fit(X, Y)._distribution(method=method)
    even = replace(found, weigh=lambda rows: np.ones((len(rows), N)))
    assert_allclose(even.intervals(NEW, coverage), found.intervals(NEW, coverage), rtol=1e-12)


def test_weighted_intervals_follow_their_definition():
    """Barber et al. (2023), with the new row's weight at infinity."""
    model = LSSVR(**GIVEN).fit(X, Y[:, 0])
    found, w = model._distribution(method="jackknife+"), np.random.RandomState(0).uniform(0.1, 3.0, (6, N + 1))
    w *= (N + 1) / w.sum(axis=1, keepdims=True)
    w[0, -1] += 0.3 * (N + 1)  # too much for finite ends
    w[0] *= (N + 1) / w[0].sum()
    ends = replace(found, weigh=lambda rows: w[:, :-1]).intervals(NEW, 0.8)[:, :, 0]
    reach = np.abs(model.loo_residuals_)
    for x, own, (low, high) in zip(NEW, w, ends, strict=True):
        f = found.model.predictions(x[None])[0, :, 0]
        at_most = lambda t, values=f + reach, own=own: own[:-1][values <= t].sum()  # noqa: E731
        inside = [t for t in f + reach if at_most(t) >= 0.8 * (N + 1)]
        assert high == pytest.approx(min(inside, default=np.inf), rel=1e-12)
        at_least = lambda t, values=f - reach, own=own: own[:-1][values >= t].sum()  # noqa: E731
        inside = [t for t in f - reach if at_least(t) >= 0.8 * (N + 1)]
        assert low == pytest.approx(max(inside, default=-np.inf), rel=1e-12)
    assert not np.isfinite(ends[0]).any()
    assert np.isfinite(ends[1:]).all()


def shifted(n, move, seed):
    rng = np.random.RandomState(seed)
    rows = rng.normal(size=(n, 2)) + np.array([move, 0.0])
    return rows, np.sin(2 * rows[:, 0]) + rows[:, 1] + (0.1 + 0.5 * np.maximum(rows[:, 0], 0)) * rng.normal(size=n)


def test_weights_are_ratios_of_densities():
    rows, others = shifted(150, 0.0, 0)[0], shifted(150, 1.0, 1)[0]
    weigh, new = shift_weights(rows, others), np.array([[0.0, 0.0], [1.5, 1.0]])
    w = weigh(new)
    assert w.shape == (2, 150)
    truth = np.exp(rows[:, 0] - 0.5)
    assert np.corrcoef(np.log(w[0]), np.log(truth))[0, 1] > 0.9
    own = 151 - w.sum(axis=1)  # the weights of the new rows
    assert math.log(own[1] / w[1, 0] * w[0, 0] / own[0]) == pytest.approx(1.5, abs=0.5)  # of the log densities


@pytest.mark.slow
def test_coverage_for_rows_of_another_distribution():
    """The noise grows where the new rows are: unweighted intervals cover far less than nine of ten."""
    plain, weighted = [], []
    for seed in range(10):
        rows, y = shifted(200, 0.0, 2 * seed)
        new, target = shifted(1000, 1.0, 2 * seed + 1)
        model = LSSVR(kernels.RBF(2.0), C=10.0).fit(rows, y)
        for ends, shares in (
            (model.predict_interval(new, 0.9, "jackknife+"), plain),
            (model.predict_interval(new, 0.9, "jackknife+", shift=new[:200]), weighted),
        ):
            shares.append(np.mean((ends[:, 0] <= target) & (target <= ends[:, 1])))
    assert np.mean(plain) < 0.8
    assert 0.86 < np.mean(weighted) < 0.96


def test_shifts_that_cannot_be_weighed_are_refused(model):
    for method in ("full", "jackknife-minmax"):
        with pytest.raises(ValueError, match=f"shift cannot be combined with method='{method}'"):
            model.predict_interval(NEW, method=method, shift=NEW)
    K = kernels.RBF(1.3)(X)
    with pytest.raises(ValueError, match=r"kernel=Precomputed\(\).*use 'auto'"):
        LSSVR(kernels.Precomputed(), C=5.0).fit(K, Y[:, 0]).predict_interval(K[:2], shift=K[2:4])
