"""Counts and positive targets: losses with a log link, against scikit-learn, direct minimisation and refits."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from sklearn.exceptions import DataConversionWarning
from sklearn.linear_model import GammaRegressor, PoissonRegressor
from sklearn.metrics import mean_gamma_deviance, mean_poisson_deviance
from sklearn.utils import Bunch
from test_export import assert_parity

from lssvm import LSSVC, LSSVR, diagnose, kernels, load, report, save, sparsify, tune
from lssvm.losses import LOG_LINKS
from lssvm.problem import Problem
from lssvm.tune.criteria import LooDeviance
from lssvm.tune.widths import Candidate

DRAW = np.random.RandomState(0)
N = 40
X = DRAW.uniform(-2, 2, (N, 2))
MEAN = np.exp(1.0 + np.sin(2 * X[:, 0]) - 0.4 * X[:, 1])
EXPOSURE = DRAW.uniform(0.3, 3.0, N)
TARGETS = {"poisson": DRAW.poisson(MEAN * EXPOSURE) / EXPOSURE, "gamma": MEAN * DRAW.gamma(3.0, 1 / 3.0, N)}
NEW = DRAW.uniform(-2, 2, (25, 2))
DEVIANCES = {"poisson": mean_poisson_deviance, "gamma": mean_gamma_deviance}
GIVEN = {"kernel": kernels.RBF(sigma=1.2), "C": 2.0}
LOSSES = pytest.mark.parametrize("loss", ["poisson", "gamma"])


def fitted(loss, weights=EXPOSURE, **options):
    return LSSVR(**{**GIVEN, **options}, loss=loss).fit(X, TARGETS[loss], weights)


def loo_means(model, loss):
    return TARGETS[loss] - model.loo_residuals_


# The losses -----------------------------------------------------------------------------------------------------------
@LOSSES
def test_a_loss_is_half_the_deviance_and_its_slopes_are_derivatives(loss):
    y, f = TARGETS[loss], np.log(MEAN) + DRAW.normal(0, 0.5, N)
    own, h = LOG_LINKS[loss](y), 1e-5
    assert_allclose(
        2 * np.average(own.value(f), weights=EXPOSURE), DEVIANCES[loss](y, np.exp(f), sample_weight=EXPOSURE)
    )
    assert_allclose(own.slope(f), (own.value(f - h) - own.value(f + h)) / (2 * h), rtol=1e-6, atol=1e-8)
    assert_allclose(own.curvature(f), (own.slope(f - h) - own.slope(f + h)) / (2 * h), rtol=1e-7)
    thirds = (np.log(own.curvature(f + h)) - np.log(own.curvature(f - h))) / (2 * h)
    assert_allclose(own.third(f), thirds, rtol=1e-6)
    assert_allclose(own.restored(own.stabilised(y)), y, rtol=1e-12)
    assert_array_equal(own.restored(np.array([-math.inf])), [0.0])


@pytest.mark.parametrize("steps", [[], [sparsify.Given(np.eye(2))]], ids=["dense", "basis"])
@pytest.mark.parametrize("weights", [None, EXPOSURE], ids=["plain", "exposure"])
@LOSSES
def test_linear_models_equal_those_of_scikit_learn(loss, weights, steps):
    """They minimise the mean of the losses and alpha/2 |w|^2, without a penalty of the intercept."""
    total = N if weights is None else weights.sum()
    cls = {"poisson": PoissonRegressor, "gamma": GammaRegressor}[loss]
    linear = cls(alpha=0.1, solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(X, TARGETS[loss], weights)
    model = fitted(loss, weights, kernel=kernels.Linear(), C=10.0 / total, steps=steps)
    assert_allclose(model.predict(NEW), linear.predict(NEW), rtol=1e-9)
    assert_allclose(model.intercept_, linear.intercept_, rtol=1e-9)


@pytest.mark.parametrize("size", [1e2, 1e3, 1e4])
@LOSSES
def test_linear_models_of_large_columns_keep_their_digits(loss, size):
    cls = {"poisson": PoissonRegressor, "gamma": GammaRegressor}[loss]
    alpha = 1e-3 / size**2  # the same model of small columns: on aarch64, scikit-learn's search stops for large ones
    linear = cls(alpha=alpha, solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(X, TARGETS[loss], EXPOSURE)
    model = LSSVR(kernels.Linear(), C=1e3 / EXPOSURE.sum(), loss=loss).fit(size * X, TARGETS[loss], EXPOSURE)
    assert_allclose(model.predict(size * NEW), linear.predict(NEW), rtol=1e-9)


@LOSSES
def test_an_rbf_model_minimises_the_penalised_loss(loss):
    model, y = fitted(loss), TARGETS[loss]
    own, root = LOG_LINKS[loss](y), np.linalg.cholesky(model.kernel_.evaluate(X, X) + 1e-12 * np.eye(N))

    def objective(both):
        f = root @ both[:-1] + both[-1]
        slopes = -2.0 * EXPOSURE * own.slope(f)
        value = 2.0 * EXPOSURE @ own.value(f) + 0.5 * both[:-1] @ both[:-1]
        return value, np.append(both[:-1] + root.T @ slopes, slopes.sum())

    options = {"maxiter": 5000, "maxfun": 10_000, "ftol": 1e-15, "gtol": 1e-8}
    direct = minimize(objective, np.zeros(N + 1), jac=True, method="L-BFGS-B", options=options)
    found = np.append(root.T @ model.dual_coef_, model.intercept_)
    value, slopes = objective(found)
    assert np.max(np.abs(slopes)) < 1e-8
    assert value <= direct.fun * (1 + 1e-12)
    assert_allclose(root @ direct.x[:-1] + direct.x[-1], np.log(model.predict(X)), atol=1e-5)


@pytest.mark.parametrize("steps", [[], [sparsify.Given(np.arange(0, N, 3))]], ids=["dense", "basis"])
@LOSSES
def test_leave_one_out_is_exact_for_the_last_system_and_close_to_refits(loss, steps):
    """The mean square of the errors of log means is below 1 % of what leaving a row out changes."""
    model, y = fitted(loss, steps=steps), TARGETS[loss]
    problem, f = model.fitted_.members[0].problem, np.log(model.predict(X))
    step = problem.working(f[:, None])
    fixed, refits = np.empty(N), np.empty(N)
    for i in range(N):
        weights = EXPOSURE * (np.arange(N) != i)
        fixed[i] = step.replace(weights=step.weights * (np.arange(N) != i)).solve().predict(X[i : i + 1])[0, 0]
        refits[i] = math.log(fitted(loss, weights, steps=steps).predict(X[i : i + 1])[0])
    found = np.log(loo_means(model, loss))
    assert_allclose(found, fixed, rtol=1e-7, atol=1e-8)
    assert np.mean((found - refits) ** 2) < 0.01 * np.mean((refits - f) ** 2)
    assert_array_equal(model.loo_predictions_, y - model.loo_residuals_)


@pytest.mark.parametrize("steps", [[], [sparsify.Given(X[:9])]], ids=["dense", "basis"])
@LOSSES
def test_groups_are_left_out_of_the_last_system(loss, steps):
    groups, weights, y = np.arange(N) ** 2 // 5 % 7, EXPOSURE * (np.arange(N) % 9 > 0), TARGETS[loss]
    model = LSSVR(**GIVEN, loss=loss, steps=steps).fit(X, y, weights, groups=groups)
    step = model.fitted_.members[0].problem.working(np.log(model.predict(X))[:, None])
    for group in range(7):
        own = (groups == group) & (weights > 0)
        rest = step.replace(weights=step.weights * ~own, row_groups=None).solve()
        assert_allclose(loo_means(model, loss)[own], np.exp(rest.predict(X[own])[:, 0]), rtol=1e-8)
    alone = fitted(loss, weights, steps=steps).predict_interval(NEW, 0.9, "jackknife+", groups=groups)
    assert_allclose(model.predict_interval(NEW, 0.9, "jackknife+"), alone)


@LOSSES
def test_C_minimises_the_deviance_of_groups(loss):
    groups, y = np.arange(N) // 4, TARGETS[loss]
    model = LSSVR(kernels.RBF(), loss=loss).fit(X, y, groups=groups)
    problem = model.fitted_.problem.normalised()[0]
    criterion, alone = (
        LooDeviance(one, one.spreads.values, Bunch(evaluations=0))
        for one in (problem, problem.replace(row_groups=None))
    )
    best, *others = (Candidate(model.kernel_, factor * model.C_) for factor in (1.0, 0.7, 1.4))
    assert criterion.value(best) < min(map(criterion.value, others))
    single = LSSVR(model.kernel_, model.C_, loss=loss).fit(X, y)  # the prior is the same
    means = [DEVIANCES[loss](y, loo_means(one, loss)) for one in (model, single)]
    assert_allclose(criterion.value(best) - alone.value(best), 0.5 * N * math.log(means[0] / means[1]), rtol=1e-7)


@LOSSES
def test_weights_count_rows_and_units_change_nothing(loss):
    y, weights = TARGETS[loss], np.tile([0.0, 1.0, 2.0, 3.0], N // 4)
    copies = np.repeat(np.arange(N), weights.astype(int))
    model = LSSVR(**GIVEN, loss=loss).fit(X, y, weights)
    assert_allclose(model.predict(NEW), LSSVR(**GIVEN, loss=loss).fit(X[copies], y[copies]).predict(NEW), rtol=1e-8)
    for unit in (1e-3, 1e9):
        C = 2.0 / unit if loss == "poisson" else 2.0
        other = LSSVR(GIVEN["kernel"], C, loss=loss).fit(X, unit * y, weights)
        assert_allclose(other.predict(NEW) / unit, model.predict(NEW), rtol=1e-8)
        assert_allclose(other.loo_residuals_ / unit, model.loo_residuals_, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize(
    "options",
    [{"kernel": kernels.Linear()}, {"kernel": kernels.RBF(1.0)}, {"steps": [sparsify.Given(X[:9])]}],
    ids=["linear", "width", "basis"],
)
@LOSSES
def test_rows_without_weight_take_no_part_in_the_search(loss, options):
    y, weights = TARGETS[loss], EXPOSURE * (np.arange(N) % 3 > 0)
    model, rows = LSSVR(**{"kernel": kernels.RBF(), **options}, loss=loss).fit(X, y, weights), weights > 0
    other = LSSVR(**{"kernel": kernels.RBF(), **options}, loss=loss).fit(X[rows], y[rows], weights[rows])
    assert_allclose(model.predict(NEW), other.predict(NEW), rtol=1e-6)
    assert_allclose(model.loo_residuals_[rows], other.loo_residuals_, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kernel", [kernels.Linear(), kernels.RBF()])
@LOSSES
def test_targets_that_are_all_equal(loss, kernel):
    model = LSSVR(kernel, loss=loss).fit(X, np.full(N, 3.0), EXPOSURE)
    assert_allclose(model.predict(NEW), 3.0)
    assert_allclose(model.predict_interval(NEW), 3.0)


def test_a_column_of_counts_is_a_vector():
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        model = LSSVR(**GIVEN, loss="poisson").fit(X, TARGETS["poisson"][:, None])
    assert_array_equal(model.predict(NEW), LSSVR(**GIVEN, loss="poisson").fit(X, TARGETS["poisson"]).predict(NEW))


def test_rows_far_from_their_means_do_not_stop_newton():
    y = np.where(np.arange(N) % 8 == 0, 1e5, 0.0)
    model = LSSVR(kernels.RBF(sigma=0.05), C=10.0, loss="poisson").fit(X, y)
    assert_allclose(model.predict(X).sum(), y.sum(), rtol=1e-9)  # the intercept is not penalised
    assert np.isfinite(model.loo_residuals_).all()
    assert np.all(model.predict(NEW) >= 0)


# Tuning ---------------------------------------------------------------------------------------------------------------
@LOSSES
def test_gradient_of_the_deviance(loss):
    kernel = kernels.RBF(sigma=[0.9, 1.7], ard=True)
    problem = Problem(kernel, X, TARGETS[loss][:, None], EXPOSURE, loss=loss).normalised()[0]
    criterion, h = LooDeviance(problem, problem.spreads.values, Bunch(evaluations=0)), 1e-4
    value, in_widths, in_C = criterion.gradient(Candidate(kernel, 3.0))
    assert_allclose(value, criterion.value(Candidate(kernel, 3.0)), rtol=1e-12)

    def at(first=0.0, second=0.0, log_C=0.0):
        changed = kernel.with_widths([np.array([0.9, 1.7]) * np.exp([first, second])])
        return criterion.value(Candidate(changed, 3.0 * math.exp(log_C)))

    for move, slope in (({"first": h}, in_widths[0, 0]), ({"second": h}, in_widths[0, 1]), ({"log_C": h}, in_C)):
        back = {name: -h for name in move}
        assert_allclose(slope, (at(**move) - at(**back)) / (2 * h), rtol=1e-4, atol=1e-5)


@LOSSES
def test_widths_and_C_minimise_the_leave_one_out_deviance(loss):
    y = TARGETS[loss]
    model = LSSVR(kernels.RBF(), loss=loss).fit(X, y, EXPOSURE)

    def deviance(kernel, C):
        other = fitted(loss, kernel=kernel, C=C)
        return DEVIANCES[loss](y, loo_means(other, loss), sample_weight=EXPOSURE)

    found = deviance(model.kernel_, model.C_)
    assert model.path_.loo == pytest.approx(found, rel=1e-9)
    honest = DEVIANCES[loss](y, diagnose.honest_values(model).predicted[:, 0], sample_weight=EXPOSURE)
    assert diagnose.scores(model)["deviance"] == pytest.approx(honest)  # which includes the search
    for width, factor in ((1.5, 1.0), (1 / 1.5, 1.0), (1.0, 3.0), (1.0, 1 / 3.0)):
        assert deviance(kernels.RBF(width * model.kernel_.sigma), factor * model.C_) > found
    only_C = LSSVR(kernels.RBF(model.kernel_.sigma), loss=loss).fit(X, y, EXPOSURE)
    assert deviance(only_C.kernel_, only_C.C_) < 1.02 * found
    only_width = LSSVR(kernels.RBF(), C=model.C_, loss=loss).fit(X, y, EXPOSURE)
    assert only_width.C_ == model.C_
    assert deviance(only_width.kernel_, only_width.C_) < 1.02 * found


@pytest.mark.slow
def test_a_log_link_gains_on_counts():
    draw = np.random.RandomState(1)
    rows, new = draw.uniform(-2, 2, (150, 3)), draw.uniform(-2, 2, (2000, 3))
    mean = lambda X: np.exp(np.sin(2 * X[:, 0]) + 0.7 * X[:, 1])  # noqa: E731
    y, actual = draw.poisson(mean(rows)), draw.poisson(mean(new))
    model, plain = LSSVR(loss="poisson").fit(rows, y), LSSVR().fit(rows, y)
    assert len(model.members_) > 1
    assert_allclose(
        model.predict(new), sum(w * m.predict(new) for w, m in zip(model.stack_weights_, model.members_, strict=True))
    )
    clipped = np.maximum(plain.predict(new), 0.1 * y.mean())
    constant = mean_poisson_deviance(actual, np.full(2000, y.mean()))
    gains = [constant - mean_poisson_deviance(actual, p) for p in (model.predict(new), clipped)]
    assert gains[0] > 1.05 * gains[1] > 0
    # intervals of the stack
    low, high = model.predict_interval(new, 0.9).T
    assert low.min() >= 0.0
    assert 0.86 < np.mean((low <= actual) & (actual <= high)) < 0.96


def test_many_rows_are_fitted_on_a_basis():
    draw = np.random.RandomState(2)
    rows = draw.uniform(-2, 2, (2100, 1))
    y = draw.poisson(np.exp(np.sin(2 * rows[:, 0])))
    model = LSSVR(kernels.RBF(), loss="poisson", steps=[sparsify.Random(15, random_state=0)]).fit(rows, y)
    assert model.support_vectors_.shape == (15, 1)
    assert np.max(np.abs(np.log(model.predict(rows)) - np.sin(2 * rows[:, 0]))) < 0.3


# Intervals ------------------------------------------------------------------------------------------------------------
@LOSSES
def test_intervals_are_those_of_the_last_system_on_the_stabilised_scale(loss):
    """jackknife+ by its definition: one weighted fit per row that is left out."""
    model, y = fitted(loss), TARGETS[loss]
    problem, scale = model.fitted_.members[0].problem, LOG_LINKS[loss].stabilised
    step = problem.working(np.log(model.predict(X))[:, None])
    centres, residuals = [], []
    for i in range(N):
        left = step.replace(weights=step.weights * (np.arange(N) != i)).solve()
        centres.append(scale(np.exp(left.predict(NEW)[:, 0])))
        residuals.append(math.sqrt(EXPOSURE[i]) * (scale(y[i]) - scale(np.exp(left.predict(X[i : i + 1])[0, 0]))))
    centres, residuals = np.array(centres).T, np.array(residuals)
    low = np.sort(centres - np.abs(residuals), axis=1)[:, math.floor(0.1 * (N + 1)) - 1]
    high = np.sort(centres + np.abs(residuals), axis=1)[:, math.ceil(0.9 * (N + 1)) - 1]
    restored = LOG_LINKS[loss].restored
    expected = np.column_stack([restored(low), restored(high)])
    assert_allclose(model.predict_interval(NEW, 0.9, "jackknife+"), expected, rtol=1e-6, atol=1e-9)
    for method in ("auto", "adaptive", "jackknife-minmax", "cv+"):
        assert model.predict_interval(NEW, 0.9, method).min() >= 0.0
    assert model.predict_interval(NEW, groups=np.arange(N) // 4).min() >= 0.0
    quantiles = model.predict_quantiles(NEW, [0.01, 0.1, 0.5, 0.9, 0.99])
    assert quantiles.min() >= 0.0
    assert (np.diff(quantiles, axis=1) >= 0).all()
    assert 0 < diagnose.pit(model, X, y).min() <= diagnose.pit(model, X, y).max() < 1
    regions, path = diagnose.coverage_by_region(model), diagnose.interval_coverage(model, rows=20)
    assert (regions.low_edge >= 0).all()
    assert (regions.width > 0).all()
    assert_allclose(np.average(regions.observed, weights=regions.count), path.observed[2, 0])


@pytest.mark.slow
def test_searches_are_repeated_without_folds():
    draw = np.random.RandomState(3)
    rows = draw.uniform(-2, 2, (32, 2))
    y = draw.poisson(np.exp(2 + np.sin(2 * rows[:, 0]) + 0.5 * rows[:, 1]))
    model = LSSVR(kernels.RBF(ard=True), loss="poisson").fit(rows, y)
    assert model.predict_interval(rows[:5]).min() >= 0.0
    folds = np.arange(32) % 3
    model.predict_interval(rows[:5], method="cv+", folds=folds)
    labels, residuals = model.fitted_.members[0].searched
    fold = labels == 0
    again = LSSVR(kernels.RBF(ard=True), loss="poisson").fit(rows[~fold], y[~fold])
    assert_allclose(y[fold] - residuals[fold, 0], again.predict(rows[fold]), rtol=1e-6)


# Files, exports, report, other arrays ---------------------------------------------------------------------------------
@pytest.mark.parametrize("kernel", [GIVEN["kernel"], kernels.Stack([GIVEN["kernel"], kernels.Matern(sigma=2.0)])])
@LOSSES
def test_files_and_exports(loss, kernel, tmp_path):
    model = fitted(loss, kernel=kernel)
    save(model, tmp_path / "m.lssvm")
    again = load(tmp_path / "m.lssvm")
    assert_array_equal(again.predict(NEW), model.predict(NEW))
    assert_array_equal(again.loo_residuals_, model.loo_residuals_)
    assert_array_equal(again.predict_interval(NEW), model.predict_interval(NEW))
    assert again.loss == loss
    assert_parity(model, tmp_path, NEW)


def test_the_report_names_counts():
    page = report.to_html(fitted("poisson"))
    assert "count (Poisson loss)" in page
    assert "linear model" in page
    assert "positive target (gamma loss)" in report.to_html(fitted("gamma"))


@LOSSES
def test_torch(loss):
    torch = pytest.importorskip("torch")
    tensors = [torch.asarray(a) for a in (X, TARGETS[loss])]
    for options in (GIVEN, {"kernel": kernels.RBF()}):
        model = LSSVR(**options, loss=loss).fit(*tensors, EXPOSURE)
        plain = LSSVR(**options, loss=loss).fit(X, TARGETS[loss], EXPOSURE)
        assert_allclose(model.predict(torch.asarray(NEW)), plain.predict(NEW), rtol=1e-6)
        assert_allclose(model.predict_interval(torch.asarray(NEW)), plain.predict_interval(NEW), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(
    ("options", "y", "message"),
    [
        ({"loss": "poisson"}, MEAN - 2.0, "non-negative targets, but y contains -.* in row .*remove"),
        ({"loss": "gamma"}, MEAN * (np.arange(N) != 3), "positive targets, but y contains 0 in row 3.*loss='poisson'"),
        ({"loss": "poisson"}, 0.0 * MEAN, "all targets of positive weight are 0"),
        ({"loss": "poisson"}, np.column_stack([MEAN, MEAN]), "one target, but y has 2 columns"),
        ({"loss": "poisson", "robust": "huber"}, MEAN, "robust weights are defined for the squared loss.*robust=None"),
        ({"loss": "gamma", "steps": [tune.KFold(3)]}, MEAN, "KFold is defined for the squared loss.*loss='squared'"),
        ({"loss": "gamma", "target": "log"}, MEAN, "target='log' is for loss='squared', got loss='gamma': omit one"),
        ({"loss": "logistic"}, MEAN, "loss must be 'squared', 'poisson' or 'gamma'"),
    ],
)
def test_what_is_refused_in_fit(options, y, message):
    with pytest.raises(ValueError, match=message):
        LSSVR(**GIVEN, **options).fit(X, y)


def test_what_is_refused_of_a_fitted_model():
    model = fitted("poisson")
    with pytest.raises(ValueError, match="needs loss='squared': use predict_interval with another method"):
        model.predict_interval(NEW, method="full")
    with pytest.raises(ValueError, match="needs loss='squared': use predict_interval"):
        model.confidence_interval(NEW)
    with pytest.raises(AttributeError) as caught:
        model.partial_fit(X, TARGETS["poisson"])
    assert "got loss='poisson': write loss='squared', or use fit" in str(caught.value.__cause__)
    with pytest.raises(ValueError, match="A fit over chunks adds sums over rows, which give least squares, got loss"):
        model.fit_chunks(lambda: iter([(X, TARGETS["poisson"])]))
    with pytest.raises(ValueError, match=r"The path of C is defined for loss='squared'; .* loss='poisson'"):
        diagnose.c_path(model)
    with pytest.raises(ValueError, match="needs loss='squared'"):
        diagnose.coverage_path(model)
    with pytest.raises(ValueError, match="loss must be"):
        LSSVC(loss="poisson").fit(X, MEAN > 2)
