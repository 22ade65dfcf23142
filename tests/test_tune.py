"""Tuning: the gradient of leave-one-out, and what the search finds with it."""

import math
import tracemalloc
import warnings
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar
from scipy.special import expit
from sklearn import config_context
from sklearn.datasets import load_iris, make_friedman1
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GroupKFold, PredefinedSplit, ShuffleSplit, TimeSeriesSplit
from sklearn.utils import Bunch

from lssvm import LSSVC, LSSVR, arrays, datasets, kernels, losses, sparsify, tune
from lssvm.estimators import planning
from lssvm.kernels import RBF, Additive, Choice, Linear, Matern, Polynomial, Spline
from lssvm.problem import Problem, order_by_content
from lssvm.tune import choose_C, constants, widths
from lssvm.tune.criteria import LooError
from lssvm.tune.leave_one_out import as_requested, tune_members, tuned
from lssvm.tune.search import FEWEST_WIDTHS, completed, first_stage
from lssvm.tune.widths import Candidate, Criterion, WidthSearch

SIGMA = np.array([1.2, 2.0, 0.8])
SMOOTH = {
    "rbf": RBF(SIGMA),
    "matern 1/2": Matern(SIGMA, nu=0.5),
    "matern 3/2": Matern(SIGMA),
    "matern 5/2": Matern(SIGMA, nu=2.5),
    "additive": Additive(RBF(SIGMA)),
    "sum": RBF(SIGMA) + Matern(2 * SIGMA),
    "sum with linear": RBF(SIGMA) + Linear(),
    "product": RBF(2 * SIGMA) * Matern(3 * SIGMA),
}
BASES = {"dense": {}, "rows": {"support": np.arange(0, 20, 2)}, "points": {"points": None}}


def make_problem(kernel, basis, C):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    y = np.column_stack([np.sin(X).sum(axis=1) + 0.2 * rng.standard_normal(40), X[:, 0] ** 2])
    weights = rng.uniform(0.3, 2.0, 40)
    weights[3] = 0.0
    fields = dict(BASES[basis])
    if "points" in fields:
        fields["points"] = np.vstack([X[:12] + 0.1, X[:2] + 0.1])  # with copies, which carry no column
    return Problem(kernel, X, y, weights, C=C, **fields)


def log_press(problem):
    fit = problem.solve()
    return math.log(np.sum(problem.weights[:, None] * fit.loo_residuals**2))


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("name", SMOOTH)
def test_gradient_is_the_central_difference(name, basis):
    C = 300.0
    problem = make_problem(SMOOTH[name], basis, C)
    value, in_widths, in_C = problem.factorise().criterion()
    assert_allclose(value, log_press(problem), rtol=1e-9)
    widths, step = [leaf.sigma for leaf in problem.kernel.leaves], 3e-5

    def at(leaf, column, change):
        moved = [np.array(width) for width in widths]
        moved[leaf][column] *= math.exp(change)
        return log_press(problem.replace(kernel=problem.kernel.with_widths(moved)))

    for leaf in range(len(widths)):
        differences = [(at(leaf, c, step) - at(leaf, c, -step)) / (2 * step) for c in range(3)]
        assert_allclose(in_widths[leaf], differences, rtol=1e-7, atol=1e-7)
    up, down = (log_press(problem.replace(C=C * math.exp(change))) for change in (step, -step))
    assert_allclose(in_C, (up - down) / (2 * step), rtol=1e-7, atol=1e-7)


def log_deviance(problem):
    """log of the mean log loss of left-out decision values, by its definition and a search of the slope."""
    counts = problem.weights > 0
    loo, y, v = (a[counts] for a in (problem.solve().loo_residuals, problem.y, problem.weights))
    v = v[:, None] * len(v) / v.sum()
    margin = y * (y - loo)
    count = np.where(y > 0, np.sum(v * (y > 0), axis=0), np.sum(v * (y < 0), axis=0))
    aim = (count + 1.0) / (count + 2.0)

    def loss(log_slope):
        p = expit(math.exp(log_slope) * margin)
        return -np.sum(v * (aim * np.log(p) + (1.0 - aim) * np.log1p(-p)))

    found = minimize_scalar(loss, bounds=(-4.0, 4.0), method="bounded", options={"xatol": 1e-9})
    return math.log(found.fun / len(v) / (1.0 if y.shape[1] == 1 else 2.0))


def make_classes(kernel, basis, C, classes):
    """A noisy problem of two or three classes."""
    problem = make_problem(kernel, basis, C)
    labels = np.digitize(problem.y[:, 0], np.quantile(problem.y[:, 0], np.arange(1, classes) / classes))
    named = np.array([1]) if classes == 2 else np.arange(classes)
    return problem.replace(y=np.where(labels[:, None] == named, 1.0, -1.0), classification=True)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("name", ["rbf", "sum"])
def test_gradient_for_classes_is_the_central_difference(name, basis, classes):
    C = 30.0
    problem = make_classes(SMOOTH[name], basis, C, classes)
    value, in_widths, in_C = problem.factorise().criterion(classes=True)
    assert_allclose(value, log_deviance(problem), rtol=1e-9)
    widths, step = [leaf.sigma for leaf in problem.kernel.leaves], 3e-5

    def at(leaf, column, change):
        moved = [np.array(width) for width in widths]
        moved[leaf][column] *= math.exp(change)
        return log_deviance(problem.replace(kernel=problem.kernel.with_widths(moved)))

    for leaf in range(len(widths)):
        differences = [(at(leaf, c, step) - at(leaf, c, -step)) / (2 * step) for c in range(3)]
        assert_allclose(in_widths[leaf], differences, rtol=1e-7, atol=1e-7)
    up, down = (log_deviance(problem.replace(C=C * math.exp(change))) for change in (step, -step))
    assert_allclose(in_C, (up - down) / (2 * step), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", [*SMOOTH, "polynomial"])
def test_gradient_in_the_points_is_the_central_difference(name):
    kernel = {**SMOOTH, "polynomial": Polynomial(3, 1.0) + RBF(SIGMA)}[name]
    problem = make_problem(kernel, "rows", 30.0)
    points = problem.X[:9] + 0.1
    gradient = problem.with_basis(points=points).factorise().criterion_and_points()[3]
    assert gradient.shape == points.shape
    step = 1e-5
    for j, c in ((0, 0), (4, 1), (8, 2)):
        moved = np.zeros_like(points)
        moved[j, c] = step
        up, down = (log_press(problem.with_basis(points=points + change)) for change in (moved, -moved))
        assert_allclose(gradient[j, c], (up - down) / (2 * step), rtol=2e-6, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("C", [1.0, 1e6])
@pytest.mark.parametrize("size", [None, 6])
def test_gradient_equals_that_of_fifty_digits(size, C):
    """Central differences of log PRESS by refits in 50-digit arithmetic; at C = 1e6 the system is ill-conditioned."""
    rng = np.random.default_rng(1)
    X, weights = rng.standard_normal((9, 2)), rng.uniform(0.5, 2.0, 9)
    y = np.sin(X).sum(axis=1, keepdims=True) + 0.3 * rng.standard_normal((9, 1))
    sigma = np.array([1.5, 2.5])
    problem = Problem(RBF(sigma), X, y, weights, C=C)
    if size is not None:
        problem = problem.with_basis(np.arange(size))
    _, in_widths, in_C = problem.factorise().criterion()
    with mpmath.workdps(50):
        step = mpmath.mpf(10) ** -15

        def at(*logs):
            return exact_log_press(
                X, y[:, 0], weights, size or 9, [s * mpmath.e**g for s, g in zip(sigma, logs, strict=True)], C
            )

        differences = [(at(*move) - at(*(-m for m in move))) / (2 * step) for move in ((step, 0), (0, step))]
        ridges = [exact_log_press(X, y[:, 0], weights, size or 9, list(sigma), C * mpmath.e**s) for s in (step, -step)]
        in_C_exact = (ridges[0] - ridges[1]) / (2 * step)
    assert_allclose(in_widths[0], [float(d) for d in differences], rtol=1e-9, atol=1e-9)
    assert_allclose(in_C, float(in_C_exact), rtol=1e-9, atol=1e-9)


def exact_log_press(X, y, weights, size, sigma, C):
    """log PRESS of the machine on the first `size` rows as basis, one refit a row, in mpmath's working precision."""

    def kernel(a, b):
        return mpmath.exp(-sum(((mpmath.mpf(p) - mpmath.mpf(q)) / s) ** 2 for p, q, s in zip(a, b, sigma, strict=True)))

    K = mpmath.matrix([[kernel(a, b) for b in X[:size]] for a in X])
    total = mpmath.mpf(0)
    for i in range(len(X)):
        A, right = mpmath.zeros(size + 1), mpmath.zeros(size + 1, 1)
        A[:size, :size] = K[:size, :size] / mpmath.mpf(C)
        for r in set(range(len(X))) - {i}:
            z = mpmath.matrix([*(K[r, j] for j in range(size)), 1])
            A += mpmath.mpf(weights[r]) * z * z.T
            right += mpmath.mpf(weights[r]) * mpmath.mpf(y[r]) * z
        solution = mpmath.lu_solve(A, right)
        left_out = mpmath.mpf(y[i]) - sum(K[i, j] * solution[j] for j in range(size)) - solution[size]
        total += mpmath.mpf(weights[i]) * left_out**2
    return mpmath.log(total)


def test_C_alone_is_the_best_of_a_fine_grid():
    X, y = datasets.load_motorcycle(return_X_y=True)
    model = LSSVR(RBF(10.0), steps=[]).fit(X, y)
    scores = [LSSVR(RBF(10.0), C=C, steps=[]).fit(X, y).press_ for C in np.geomspace(1e-2, 1e4, 60)]
    assert model.press_ <= min(scores) * (1 + 1e-9)


@pytest.mark.slow
def test_C_of_a_search_with_outliers_stays_on_its_sample():
    X, y = make_friedman1(4000, n_features=5, noise=1.0, random_state=0)
    y[0] = 1e4
    problem = Problem(RBF(), X, y[:, None], np.ones(4000)).with_basis(np.arange(1, 301))
    plans = [tuned(problem, on_all_rows=rows).paths["LeaveOneOut"].plan for rows in (False, True)]
    assert [plan[-1] for plan in plans] == ["C searched together with the widths", "C on all rows"]


@pytest.mark.filterwarnings("ignore:Rounding errors")  # C is 2e9 for a width that is too large
@pytest.mark.parametrize("search", ["gradient", "simplex", "grid"])
def test_every_search_ends_near_the_best_width(search):
    X, y = datasets.load_motorcycle(return_X_y=True)
    model = LSSVR(RBF(), steps=[tune.LeaveOneOut(search=search)]).fit(X, y)
    best = min(LSSVR(RBF(sigma), steps=[]).fit(X, y).press_ for sigma in np.geomspace(4.0, 30.0, 12))
    assert model.press_ <= 1.01 * best


def test_irrelevant_inputs_are_left_out():
    X, y = make_friedman1(300, 10, noise=0.5, random_state=0)
    new, truth = make_friedman1(500, 10, noise=0.0, random_state=1)
    one, many = (LSSVR(RBF(ard=ard)).fit(X, y) for ard in (False, True))
    error = [np.sqrt(np.mean((model.predict(new) - truth) ** 2)) for model in (one, many)]
    assert error[1] < 0.6 * error[0]
    relevant = many.kernel_.sigma < 1e4 * X.std(axis=0)
    assert relevant[:5].all()
    assert relevant[5:].sum() <= 3


@pytest.mark.slow
@pytest.mark.parametrize("cells", [1, 3])
@pytest.mark.parametrize("value", [100.0, -9999.0, 1e12])
def test_a_few_cells_do_not_set_the_scale_of_a_column(cells, value):
    """What stands for a missing value: its standard deviation is no scale of the others."""
    rng = np.random.default_rng(0)
    X, new = rng.standard_normal((2, 300, 3))
    y, truth = (np.sin(2 * Z[:, 0]) + Z[:, 1] for Z in (X, new))
    X[:cells, 0] = value
    assert LSSVR().fit(X, y + 0.1 * rng.standard_normal(300)).score(new, truth) > 0.97
    assert LSSVC().fit(X, y > 0).score(new, truth > 0) > 0.92


def test_the_scale_of_a_column():
    rng = np.random.default_rng(0)
    plain, rare = rng.standard_normal(400), (np.arange(400) < 8).astype(float)
    spoilt = np.where(np.arange(400) == 7, 1e4, plain)
    rounded = (3.0 + rare) * (1.0 + 1e-15 * plain)  # its quartiles differ by rounding errors
    X = np.column_stack([plain, rare, spoilt, np.full(400, 3.0), rounded])
    problem = Problem(RBF(), X, plain[:, None], np.ones(400))
    quartiles = np.quantile(spoilt, [0.25, 0.75])
    expected = [plain.std(), rare.std(), (quartiles[1] - quartiles[0]) / 1.349, 1.0, rounded.std()]
    assert_allclose(problem.spreads.values, expected, rtol=1e-12)
    assert expected[2] == pytest.approx(plain.std(), rel=0.1)


@pytest.mark.parametrize("cell", [1e3, -9999.0, 1e8, 1e300])
def test_a_far_cell_does_not_set_the_scale_of_a_column_of_mostly_equal_cells(cell):
    """Rare indicators and counts: their quartiles are equal."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random(300) < 0.1, np.where(rng.random(300) < 0.2, rng.poisson(3, 300), 0)]).astype(float)
    expected = X.std(axis=0)
    X[7] = cell
    assert_allclose(arrays.spread_of(X), expected, rtol=0.1)


def test_one_width_where_more_are_not_worth_it():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (60, 2))
    y = np.exp(-np.sum(X**2, axis=1)) + 0.3 * rng.standard_normal(60)
    model = LSSVR(RBF(ard=True)).fit(X, y)
    units = model.kernel_.sigma / X.std(axis=0)
    assert_allclose(units, units[0])


@pytest.mark.filterwarnings("ignore:Rounding errors:UserWarning")  # about 1e-5, on some processors
def test_the_better_family_is_chosen():
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(-3.0, 3.0, (200, 1)), axis=0)
    rough, smooth = np.abs(X[:, 0]) % 1.0, np.sin(X[:, 0])
    noise = 0.05 * rng.standard_normal(200)
    families = Choice([RBF(ard=True), Matern(nu=0.5, ard=True)])
    assert isinstance(LSSVR(families).fit(X, rough + 2.0 * noise).kernel_, Matern)
    assert isinstance(LSSVR(families).fit(X, smooth + noise).kernel_, RBF)


@pytest.mark.parametrize("kernel", [RBF(ard=True), Additive(RBF(ard=True)), RBF() + Linear(), RBF(ard=True) * Matern()])
def test_kernels_of_kernels_are_tuned(kernel):
    X, y = make_friedman1(150, 5, noise=0.5, random_state=0)
    model = LSSVR(kernel).fit(X, y)
    assert all(leaf.sigma.shape == (5,) for leaf in model.kernel_.leaves)
    assert np.sqrt(np.mean(model.loo_residuals_**2)) < 0.6 * y.std()
    assert kernel.leaves[0].sigma is None  # the user's own object is left alone


@pytest.mark.slow
def test_outliers_do_not_drive_a_robust_search():
    errors = []
    new = np.linspace(-4.0, 4.0, 300)[:, None]
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-4.0, 4.0, (200, 1))
        clean = np.sinc(X[:, 0]) + 0.05 * rng.standard_normal(200)
        dirty = clean.copy()
        dirty[rng.choice(200, 10, replace=False)] += 5.0
        models = LSSVR().fit(X, clean), LSSVR(robust="hampel").fit(X, dirty), LSSVR().fit(X, dirty)
        errors.append([np.sqrt(np.mean((model.predict(new) - np.sinc(new[:, 0])) ** 2)) for model in models])
    error = np.mean(errors, axis=0)
    assert error[1] < 1.1 * error[0] < 0.1 * error[2]


@pytest.mark.slow
def test_a_robust_search_costs_little_where_there_are_no_outliers():
    """Rows flagged by the residuals of the fit, in units of their own scale, made it 16 %."""
    errors = []
    for seed in range(8):
        X, y = make_friedman1(200, 5, noise=1.0, random_state=seed)
        new, truth = make_friedman1(1000, 5, random_state=1000 + seed)
        models = [LSSVR(RBF(ard=True), robust=robust).fit(X, y) for robust in (None, "hampel")]
        errors.append([np.sqrt(np.mean((model.predict(new) - truth) ** 2)) for model in models])
    plain, weighted = np.mean(errors, axis=0)
    assert weighted < 1.1 * plain


@pytest.mark.slow
def test_a_basis_is_tuned_on_a_sample_and_C_on_all_rows():
    X, y = make_friedman1(6000, 5, noise=0.5, random_state=0)
    new, truth = make_friedman1(500, 5, noise=0.0, random_state=1)
    model = LSSVR(RBF(ard=True)).fit(X, y)
    assert np.sqrt(np.mean((model.predict(new) - truth) ** 2)) < 0.2
    plan = model.fitted_.problem.paths["LeaveOneOut"].plan
    assert any("2000 rows and 250 basis points" in part for part in plan)
    assert plan[-1] == "C on all rows"


def test_C_on_all_rows_is_the_best_there():
    X, y = make_friedman1(4000, 5, noise=3.0, random_state=1)
    basis = [sparsify.Random(100, random_state=0)]
    model = LSSVR(Matern(), steps=basis).fit(X, y)
    assert model.path_.plan[-1] == "C on all rows"
    values = model.C_ * np.geomspace(0.5, 2.0, 15)
    press = [LSSVR(model.kernel_, C, steps=basis).fit(X, y).press_ for C in values]
    assert_allclose(values[np.argmin(press)], model.C_, rtol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "dense", "size"), [(1.0, 0, 30), (0.0, 0, 120), (0.0, 800, 800)])
def test_a_basis_size_left_open_is_what_pays(noise, dense, size, small_sizes):
    small_sizes.setattr(sparsify.bases, "SAMPLE_ROWS", 500)
    small_sizes.setattr(sparsify.bases, "FACTORISED_ROWS", dense)
    small_sizes.setattr(sparsify.bases, "MOST_WORK", 800 * 120.0**2)
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (800, 2))
    y = np.sin(2 * X[:, 0]) * np.cos(2 * X[:, 1]) + noise * rng.standard_normal(800)
    model = LSSVR(RBF(), steps=[sparsify.Random(random_state=0)]).fit(X, y)
    assert model.path_.chosen == len(model.support_) == size
    assert model.fitted_.problem.is_dual == (size == len(y))
    basis = [sparsify.Given(model.support_)] if size < len(y) else []
    if size == 30:  # the kernel is still that by which the sizes were compared
        sample, few = map(sampled(X, y, model.kernel_), (500, 30))
        scores = [tune.choose_C.best_C(problem)[1] for problem in (few, sample.with_basis())]
        assert_allclose(model.path_.scores, scores, rtol=1e-6)
    fixed = LSSVR(model.kernel_, model.C_, steps=basis).fit(X, y)
    assert_allclose(model.predict(X[:50]), fixed.predict(X[:50]), rtol=1e-9)
    retuned = LSSVR(RBF(), steps=[*basis, tune.LeaveOneOut()]).fit(X, y)
    again = LSSVR(RBF(), steps=[sparsify.Random(random_state=0), tune.LeaveOneOut()]).fit(X, y)
    assert_allclose(again.predict(X[:50]), retuned.predict(X[:50]), rtol=1e-9)


@pytest.mark.slow
def test_basis_sizes_are_not_compared_where_few_points_suffice():
    X, y = make_friedman1(2500, n_features=5, noise=1.0, random_state=0)
    model = LSSVR(Matern(ard=True), steps=[sparsify.Random(random_state=0)]).fit(X, y)
    assert model.path_.gain < constants.CONSTANTS.limited
    assert model.path_.sizes.tolist() == []
    assert model.path_.chosen == len(model.support_) == 500


def sampled(X, y, kernel):
    """Problems of the basis sizes tried, on the rows on which they are."""
    drawn = np.random.RandomState(0).permutation(Problem(kernel, X, y[:, None], np.ones(len(y))).rows_by_content)
    rows = np.sort(drawn[:500])
    return lambda n: Problem(kernel, X[rows], y[rows, None], np.ones(500), points=X[drawn[:n]])


def test_classes_report_their_error_rate_and_log_loss():
    X, y = datasets.load_ripley(return_X_y=True)
    model = LSSVC().fit(X, y)
    assert model.path_.error_rate == np.mean(model.loo_predictions_ != y)
    assert_allclose(model.path_.loo, math.exp(log_deviance(model.fitted_.problem)), rtol=1e-9)


@pytest.mark.parametrize("steps", [[], [sparsify.Random(30, random_state=0)]], ids=["dense", "basis"])
def test_C_of_classes_is_the_best_of_a_fine_grid(steps):
    X, y = load_iris(return_X_y=True)
    model = LSSVC(RBF(2.0), steps=steps).fit(X, y)
    losses = [LSSVC(RBF(2.0), C=C, steps=steps).fit(X, y) for C in np.geomspace(1e-2, 1e4, 40)]
    assert model.path_.loo <= min(math.exp(log_deviance(fit.fitted_.problem)) for fit in losses) * (1 + 1e-9)


def test_squared_residuals_may_choose_for_classes_too():
    X, y = datasets.load_ripley(return_X_y=True)
    models = [LSSVC(RBF(), steps=[tune.LeaveOneOut(loss=loss)]).fit(X, y) for loss in ("auto", "squared")]
    assert models[1].press_ < models[0].press_
    assert models[0].path_.loo < models[1].path_.loo


def test_few_C_at_a_time_are_all_of_them(monkeypatch):
    X, y = load_iris(return_X_y=True)
    whole = LSSVC(RBF(2.0)).fit(X, y)
    monkeypatch.setattr(choose_C, "BATCH", 5 * 3 * len(y))
    assert_allclose(LSSVC(RBF(2.0)).fit(X, y).C_, whole.C_, rtol=1e-12)


def test_the_search_of_classes_leaves_very_wide_kernels():
    """On 300 rows a very wide kernel is as good as any; by squares the search would stay there."""
    X, y = datasets.load_tictactoe(return_X_y=True)
    rows = np.random.default_rng(1).permutation(len(y))[:639]
    found, given = (LSSVC(kernel, steps=[]).fit(X[rows], y[rows]) for kernel in (RBF(), RBF(3.0)))
    assert found.path_.loo < 1.05 * given.path_.loo


def test_an_edge_by_columns_of_unequal_spread_is_told_apart():
    draw = np.random.default_rng(0)
    X = draw.uniform(size=(100, 3)) * [1.0, 1e2, 1e6]
    y = X @ [1e4, 3e2, 0.2]
    with pytest.warns(UserWarning, match=r"edge of the range.*Scale the columns.*factor of 1e\+06"):
        LSSVR(kernels.Polynomial(2)).fit(np.c_[X, np.ones(100)], y)
    with pytest.warns(UserWarning, match="edge of the range.*Give C"):
        LSSVR(kernels.Polynomial(2)).fit(X / [1.0, 1e2, 1e6], y)


def test_an_edge_is_warned_of():
    X = np.linspace(0.0, 1.0, 50)[:, None]
    with pytest.warns(UserWarning, match="edge of the range"):
        LSSVR(kernels.Linear()).fit(X, X[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LSSVR(kernels.Linear()).fit(X, X[:, 0] + np.random.default_rng(0).standard_normal(50))


def test_mistakes():
    X, y = datasets.load_motorcycle(return_X_y=True)
    with pytest.raises(ValueError, match=r"search must be 'auto', 'gradient', .* got 'newton'"):
        LSSVR(steps=[tune.LeaveOneOut(search="newton")]).fit(X, y)
    with pytest.raises(ValueError, match=r"loss must be 'auto' or 'squared', got 'hinge'"):
        LSSVR(steps=[tune.LeaveOneOut(loss="hinge")]).fit(X, y)


# Parts left out -------------------------------------------------------------------------------------------------------
def test_k_fold_of_classes_is_the_log_loss_of_refits():
    X, y = datasets.load_ripley(return_X_y=True)
    model = LSSVC(RBF(0.8), steps=[tune.KFold(5)]).fit(X, y)
    left_out = np.empty(len(y))
    for part in tune.KFold(5)._parts(model.fitted_.problem):
        rest = np.setdiff1d(np.arange(len(y)), part)
        left_out[part] = LSSVC(RBF(0.8), C=model.C_, steps=[]).fit(X[rest], y[rest]).decision_function(X[part])
    targets = np.where(y == model.classes_[1], 1.0, -1.0)[:, None]
    loss = losses.log_loss(left_out[:, None, None], targets, np.ones(len(y)))[0]
    assert_allclose(model.path_.score, loss[0], rtol=1e-8)


@pytest.mark.parametrize("steps", [[], [sparsify.Random(15, random_state=0)]], ids=["dense", "basis"])
def test_k_fold_is_the_best_of_refits(steps):
    X, y = datasets.load_motorcycle(return_X_y=True)
    model = LSSVR(RBF(8.0), steps=[*steps, tune.KFold(5)]).fit(X, y)
    parts = tune.KFold(5)._parts(model.fitted_.problem)

    def error(C):
        total = 0.0
        for part in parts:
            rest = np.setdiff1d(np.arange(len(y)), part)
            basis = [sparsify.Given(model.support_vectors_)] if steps else []
            refit = LSSVR(RBF(8.0), C=C, steps=basis).fit(X[rest], y[rest])
            total += np.sum((y[part] - refit.predict(X[part])) ** 2)
        return total / len(y)

    assert_allclose(model.path_.score, error(model.C_), rtol=1e-8)
    assert model.path_.score <= min(map(error, np.geomspace(1e-2, 1e3, 15))) * (1 + 1e-9)


def test_holdout_is_the_best_on_the_rows_held_out():
    X, y = datasets.load_motorcycle(return_X_y=True)
    model = LSSVR(RBF(8.0), steps=[tune.Holdout(0.25)]).fit(X, y)
    held = tune.Holdout(0.25)._parts(model.fitted_.problem)[0]
    rest = np.setdiff1d(np.arange(len(y)), held)
    assert len(held) == round(0.25 * len(y))

    def error(C):
        return np.mean((y[held] - LSSVR(RBF(8.0), C=C, steps=[]).fit(X[rest], y[rest]).predict(X[held])) ** 2)

    assert_allclose(model.path_.score, error(model.C_), rtol=1e-8)
    assert model.path_.score <= min(map(error, np.geomspace(1e-2, 1e3, 15))) * (1 + 1e-9)
    assert_allclose(model.predict(X), LSSVR(RBF(8.0), C=model.C_, steps=[]).fit(X, y).predict(X))


@pytest.mark.slow
@pytest.mark.parametrize("step", [tune.KFold(4), tune.Holdout()])
def test_parts_choose_widths_too(step):
    X, y = datasets.load_motorcycle(return_X_y=True)
    model = LSSVR(RBF(), steps=[step]).fit(X, y)
    assert 3.0 < float(model.kernel_.sigma[0]) < 60.0
    assert model.path_.score <= model.path_.scores.min()
    X, y = load_iris(return_X_y=True)
    assert LSSVC(RBF(), steps=[step]).fit(X, y).score(X, y) > 0.95


@pytest.mark.parametrize("guess", [None, 1.0, 1e15])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_C_of_a_basis_is_the_best_of_all_ridges(noise, guess):
    """With noise the large ridges are enough; without, the best one lies among the small ones. A guess is no more."""
    X, y = datasets.make_sinc(3000, noise=noise, random_state=0)
    problem = Problem(RBF(1.0), X, y[:, None], np.ones(len(y)), support=np.arange(40))
    unit, _ = choose_C.ridge_unit(problem)
    ridges = np.geomspace(*constants.CONSTANTS.ridges)
    factor = problem.factorise(1.0 / (ridges[0] * unit), every=True)
    errors = choose_C.loo_errors(factor, 1.0 / (ridges * unit))
    C, error, _ = choose_C.best_C(problem, choose_C.loo_errors, guess)
    assert error <= errors.min() * (1 + 1e-9)
    assert 0.3 < C * unit * ridges[np.argmin(errors)] < 3.0
    small = np.finfo(float).eps / 1e-6 * len(y) > ridges
    assert small[np.argmin(errors)] == (noise == 0.0)


def test_the_machine_of_an_ill_conditioned_C_path_is_that_of_a_factor_of_its_own():
    """Its columns are orthogonalised twice, and then serve every ridge."""
    X, y = datasets.make_sinc(4000, noise=0.01, random_state=0)
    problem = Problem(RBF(4.0), X, y[:, None], np.ones(len(y)), support=np.arange(0, 4000, 100))
    factor = problem.factorise(1e8, every=True, quick=True)
    assert factor.system.rounding == np.inf
    for C in (1e8, 1e5):
        (fit, _), own = choose_C.fit_of_path(factor, C), problem.factorise(C).fit(C)
        assert fit is not None
        assert_allclose(fit.loo_residuals, own.loo_residuals, rtol=0, atol=1e-9)
        assert_allclose(fit.leverage, own.leverage, rtol=0, atol=1e-10)
        rounding = 4.0 * np.finfo(float).eps * np.abs(own.coef).sum()
        assert_allclose(fit.predict(X[:50]), own.predict(X[:50]), rtol=0, atol=1e-9 + rounding)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_machine_of_the_C_path_is_that_of_a_factor_of_its_own(weighted, monkeypatch):
    X, y = datasets.make_sinc(2500, random_state=0)
    weights = np.random.default_rng(0).uniform(0.2, 2.0, len(y)) if weighted else None
    model = LSSVR(RBF(1.0), steps=[sparsify.Random(60, random_state=0)])
    found = model.fit(X, y, weights)
    solved, usual = [], Problem.factorise

    def factorise(self, C=None, *, every=False, quick=False):
        solved.extend([] if every or quick else [self])
        return usual(self, C, every=every, quick=quick)

    monkeypatch.setattr(Problem, "factorise", factorise)
    LSSVR(RBF(1.0), steps=model.steps).fit(X, y, weights)  # by the path alone
    monkeypatch.undo()
    assert not solved
    own = LSSVR(RBF(1.0), C=found.C_, steps=[sparsify.Random(60, random_state=0)]).fit(X, y, weights)
    for name in ("loo_residuals_", "leverage_", "press_"):
        assert_allclose(getattr(found, name), getattr(own, name), rtol=1e-8, atol=1e-11)
    assert_allclose(found.predict(X), own.predict(X), rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        LSSVR(RBF(1.0)),
        LSSVR(RBF(), steps=[sparsify.Random(50, random_state=0)]),
        LSSVR(),
    ],
    ids=repr,
)
def test_targets_without_relation_are_warned_of_once(model):
    """Samples of the rows are searched on the way: what is found there is not reported."""
    draw = np.random.default_rng(0)
    X, y = draw.standard_normal((3000, 3)), draw.standard_normal(3000)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    assert [str(warning.message)[:3] for warning in caught] == ["By "]
    assert {warning.filename for warning in caught} == {__file__}  # the user's line


@pytest.mark.parametrize("splitter", [GroupKFold(5), None])
@pytest.mark.parametrize("estimator", [LSSVR, LSSVC])
def test_groups_stay_together(splitter, estimator):
    X, y = datasets.load_motorcycle(return_X_y=True)
    groups = np.arange(len(y)) // 7
    step = tune.KFold(5, splitter=splitter, groups=groups)
    model = estimator(RBF(8.0), steps=[step]).fit(X, y if estimator is LSSVR else y > -20)
    parts = step._parts(model.fitted_.problem)
    assert len(parts) == 5
    for part in parts:
        assert not set(groups[part]) & set(np.delete(groups, part))


@pytest.mark.parametrize(
    ("step", "match"),
    [
        (tune.KFold(1), "n_splits must be an integer of at least 2, got 1"),
        (tune.KFold(1000), r"n_splits=1000 greater than the number of samples: n_samples=133"),
        (tune.KFold(splitter=ShuffleSplit(3, random_state=0)), "holds a row out twice, or trains on only a part"),
        (tune.KFold(splitter=TimeSeriesSplit(3)), "holds a row out twice, or trains on only a part"),
        (tune.KFold(groups=[1, 2]), "groups has shape"),
        (tune.KFold(splitter=PredefinedSplit([0, 1, 1])), "the folds of 3 rows, but X has 133"),
        (tune.KFold(5, groups=np.arange(133) % 3), r"n_splits=5 greater than the number of groups: 3"),
        (tune.Holdout(1.0), "fraction must be a number between 0 and 1, got 1.0"),
    ],
)
@pytest.mark.parametrize("C", [None, 1.0])
def test_parts_that_make_no_sense(step, match, C):
    X, y = datasets.load_motorcycle(return_X_y=True)
    with pytest.raises(ValueError, match=match):
        LSSVR(RBF(8.0), C=C, steps=[step]).fit(X, y)


@pytest.mark.parametrize("steps", [(), [sparsify.Random(40, random_state=0)]], ids=["dense", "basis"])
def test_choice_among_kernels_with_and_without_widths(steps):
    draw = np.random.default_rng(0)
    X = draw.normal(size=(80, 3))
    offered = [RBF(), Linear(), Additive(Spline(3))]
    noise = 0.1 * draw.normal(size=80)
    for y in (X @ [1.0, 2.0, 3.0] + noise, np.abs(X).sum(axis=1) + noise, np.sin(X[:, 0] * X[:, 1]) + noise):
        press = [LSSVR(kernel, steps=steps).fit(X, y).press_ for kernel in offered]
        assert LSSVR(Choice(offered), steps=steps).fit(X, y).press_ <= 1.02 * min(press)


@pytest.mark.parametrize("C", [None, 1.0])
@pytest.mark.parametrize("steps", [(), [tune.KFold(5)]], ids=["loo", "kfold"])
def test_choice_of_kernels_whose_widths_are_given(steps, C):
    X, y = make_friedman1(90, 5, noise=0.5, random_state=0)
    offered = [RBF(0.3), RBF(3.0), Linear()]
    best = min(offered, key=lambda kernel: LSSVR(kernel, C=C).fit(X, y).press_)
    assert repr(LSSVR(Choice(offered), C=C, steps=steps).fit(X, y).kernel_) == repr(best)
    labels = y > np.median(y)
    model = LSSVC(Choice(offered), C=C, steps=steps).fit(X, labels)
    assert repr(model.kernel_) in map(repr, offered)  # what is given is kept
    others = [LSSVC(kernel, C=C, steps=steps, loss="squared").fit(X, labels) for kernel in offered]
    if steps:  # least squares, by the squares of what is left out
        assert model.press_ <= 1.1 * min(other.press_ for other in others)
    else:
        errors = [np.mean(one.loo_predictions_ != labels) for one in (model, *others)]
        best = min(errors[1:])  # the choice is by log loss: the number of errors may be larger by chance
        assert errors[0] <= best + 3.0 * np.sqrt(best * (1.0 - best) / len(labels))


@pytest.mark.parametrize(
    ("kernel", "match"),
    [
        (Choice([]), "list at least one kernel, got \\[\\]"),
        (Choice(RBF()), "list at least one kernel, got RBF"),
        (Choice([RBF(), Matern()]) + Linear(), "Sum contains a Choice: write a Choice of complete kernels"),
        (Additive(Choice([RBF(), Matern()])), "Additive contains a Choice"),
    ],
)
def test_choices_that_make_no_sense(kernel, match):
    X, y = datasets.load_motorcycle(return_X_y=True)
    with pytest.raises(TypeError, match=match):
        LSSVR(kernel).fit(X, y)


def test_a_weight_of_0_takes_a_row_out_of_its_fold():
    X, y = datasets.load_motorcycle(return_X_y=True)
    folds, weights = np.arange(133) % 4, np.ones(133)
    weights[::5] = 0.0
    kept = weights > 0
    weighted = LSSVR(RBF(8.0), steps=[tune.KFold(splitter=PredefinedSplit(folds))]).fit(X, y, weights)
    removed = LSSVR(RBF(8.0), steps=[tune.KFold(splitter=PredefinedSplit(folds[kept]))]).fit(X[kept], y[kept])
    assert_allclose(weighted.C_, removed.C_, rtol=1e-9)


def test_a_number_is_not_a_splitter():
    X, y = datasets.load_motorcycle(return_X_y=True)
    with pytest.raises(TypeError, match=r"splitter=GroupKFold is a class: write GroupKFold\(\)"):
        LSSVR(RBF(8.0), steps=[tune.KFold(splitter=GroupKFold)]).fit(X, y)
    with pytest.raises(TypeError, match="splitter=5 is not a scikit-learn splitter"):
        LSSVR(RBF(8.0), steps=[tune.KFold(splitter=5)]).fit(X, y)


# What the search must not miss ----------------------------------------------------------------------------------------
def four_of_32(rows, seed, uniform):
    """Four relevant columns; the first two matter only as a pair."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (rows, 32)) if uniform else rng.standard_normal((rows, 32))
    truth = np.sin(3.0 * X[:, 0] * X[:, 1]) + 2.0 * (X[:, 2] > 0) * X[:, 3]
    return X, truth, truth + 0.1 * rng.standard_normal(rows)


@pytest.mark.slow
@pytest.mark.parametrize("uniform", [False, True])
def test_four_columns_of_32_are_found(uniform):
    X, _, y = four_of_32(2000, 10, uniform)
    new, truth, _ = four_of_32(2000, 99, uniform)
    basis = sparsify.Given(np.arange(0, 2000, 5))
    found, told = (LSSVR(Matern(ard=True), steps=[basis]).fit(X[:, :columns], y) for columns in (32, 4))
    errors = [
        np.sqrt(np.mean((model.predict(new[:, :columns]) - truth) ** 2)) for model, columns in ((found, 32), (told, 4))
    ]
    assert errors[0] < 1.15 * errors[1] < 0.5 * truth.std()
    assert np.isfinite(found.kernel_.sigma[:4]).all()


def test_pairs_are_screened():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 12))
    X[:, 5] = rng.integers(0, 2, 1000)  # a column of few values has fewer independent functions
    criterion = Criterion(Problem(RBF(), X, X[:, :1], np.ones(1000)), X.std(axis=0))
    found = criterion.relevant(np.column_stack([X[:, 0] * X[:, 1], X[:, 2] ** 2]) + rng.standard_normal((1000, 2)))
    assert_array_equal(found, np.arange(12) < 3)


def test_inputs_without_effect_are_dropped_together():
    """If the costs of the inputs add up, those are dropped that cost less than the limit, in few evaluations."""
    costs, calls = np.array([0.0, 0.0, 3.0, -1.0, 0.0, 0.5, 0.0, 2.0, 4.0, 0.2, 5.0, 6.0]), []

    class Costs(Criterion):
        def value(self, candidate):
            calls.append(np.isinf(candidate.kernel.sigma))
            return 10.0 + costs[:-1][calls[-1][:-1]].sum()

    def dropped(sigma, relevant):
        start = Candidate(RBF(sigma, ard=True), 1.0)
        search = WidthSearch(Costs(problem, np.ones(len(sigma)), 1e9), problem.kernel, start, many=True)
        return np.flatnonzero(np.isinf(search.fewer_columns(relevant).kernel.sigma[: np.isfinite(sigma).sum()]))

    X = np.random.default_rng(0).standard_normal((3, 12))  # log(3) = 1.1 is the limit
    problem = Problem(RBF(ard=True), X, X[:, :1], np.ones(3), C=1.0)
    sigma, relevant = np.append(np.exp(np.arange(11.0) / 100.0), np.inf), costs > 1.0  # the last one is dropped already
    assert_array_equal(dropped(sigma, relevant), np.flatnonzero(costs[:-1] < 1.0))
    assert len(calls) < len(costs)
    assert_array_equal(dropped(sigma, relevant | True), np.flatnonzero(costs[:-1] < 1.0))  # one by one
    problem = Problem(RBF(ard=True), X[:, :1], X[:, :1], np.ones(3), C=1.0)
    assert len(dropped(np.ones(1), relevant[:1])) == 0  # one is kept


@pytest.mark.slow
def test_one_target_does_not_decide():
    """One of 1000 standard deviations: neither the widths nor the fit follow it."""
    rng = np.random.default_rng(0)
    X, new = rng.standard_normal((300, 30)), rng.standard_normal((500, 30))
    truth = lambda Z: np.sin(Z[:, 0]) + Z[:, 1] * Z[:, 2]  # noqa: E731
    y = truth(X) + 0.3 * rng.standard_normal(300)
    wrong = np.where(np.arange(300) == 7, 1000.0 * y.std(), y)
    members = [RBF(), RBF(ard=True), Linear()]
    clean, guarded = (
        tune_members([Problem(kernel, X, t[:, None], np.ones(300)) for kernel in members]) for t in (y, wrong)
    )
    assert 1 in clean.keys() & guarded.keys()  # the common width may be left out
    for one, other in ((clean[place], guarded[place]) for place in clean.keys() & guarded.keys()):
        error = [np.sqrt(np.mean((p.solve().predict(new)[:, 0] - truth(new)) ** 2)) for p in (one, other)]
        assert error[1] < 1.2 * error[0]
        assert other.weights[7] < 1e-2
        assert_array_equal(np.delete(other.weights, 7), 1.0)
        assert one.weights.min() == 1.0


def test_heavy_tails_are_no_worse_than_a_constant():
    rng = np.random.default_rng(0)
    X, new = rng.standard_normal((2, 400, 20))
    y = X[:, 0] + rng.standard_t(1.5, 400)
    model = LSSVR(RBF(ard=True)).fit(X, y)
    error = np.sqrt(np.mean((model.predict(new) - new[:, 0]) ** 2))
    assert error < 1.02 * np.sqrt(np.mean((y.mean() - new[:, 0]) ** 2))


@pytest.mark.slow
def test_a_search_stops_when_its_gain_is_small(monkeypatch):
    """Targets without noise can be improved for ever; the number of evaluations stays bounded by the gain."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (400, 4))
    y = np.exp(X[:, 0]) * np.sin(3.0 * X[:, 1]) + X[:, 2] * X[:, 3]
    evaluations = []
    for slow in (0.0, constants.CONSTANTS.slow, 50.0):
        monkeypatch.setattr(widths, "CONSTANTS", replace(constants.CONSTANTS, slow=slow))
        evaluations.append(LSSVR(RBF(ard=True), steps=()).fit(X, y).path_.evaluations)
    assert evaluations[2] < evaluations[1] <= evaluations[0] < 150


def test_the_memory_of_a_search_is_proportional_to_the_columns():
    """Nothing is columns x columns; dropped columns are not among the variables of the search."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 4000))
    problem = Problem(RBF(ard=True), X, X[:, :1], np.ones(20))
    criterion = LooError(problem, problem.spreads.values, Bunch(evaluations=0))
    start = Candidate(RBF(50.0 * np.ones(4000), ard=True), 10.0)
    tracemalloc.start()
    WidthSearch(criterion, problem.kernel, start, many=True).minimise(1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 4000**2 / 4
    start = Candidate(RBF(np.where(np.arange(4000) < 7, 50.0, np.inf), ard=True), 10.0)
    search = WidthSearch(criterion, problem.kernel, start, many=True)
    assert search.count == 7  # and log C
    assert_array_equal(np.isfinite(search.minimise(1).kernel.sigma), np.arange(4000) < 7)


def wide_problem(kernel, rows=40, columns=1000):
    """Targets that depend on two columns of very many, with a copy of a row."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, columns)) * np.geomspace(0.1, 10.0, columns)
    X[1] = X[0]
    y = X[:, 3] / X[:, 3].std() + np.sin(2.0 * X[:, 700] / X[:, 700].std()) + 0.1 * rng.standard_normal(rows)
    return Problem(kernel, X, y[:, None], np.ones(rows))


def test_few_of_very_many_columns_have_widths_of_their_own(monkeypatch):
    """Those that the kernel needs; evaluations with one width per column do not use the others."""
    problem, counts = wide_problem(Matern(ard=True)), []
    usual = WidthSearch.minimise

    def counted(self, *args):
        counts.append(self.count)
        return usual(self, *args)

    monkeypatch.setattr(WidthSearch, "minimise", counted)
    found = first_stage(problem, "gradient", Bunch(evaluations=0, plan=[]), member=True)
    sigma = found.candidate.kernel.sigma
    assert FEWEST_WIDTHS <= max(counts) < 1.1 * FEWEST_WIDTHS  # relevant columns get a second chance
    assert np.isfinite(sigma[[3, 700]]).all()
    assert np.sum(np.isfinite(sigma)) < 60


def test_a_common_width_far_behind_one_per_column_is_left_out():
    """Though it is searched first."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 12))
    y = np.sin(3.0 * X[:, 0]) + 0.1 * rng.standard_normal(400)
    problems = [Problem(kernel, X, y[:, None], np.ones(400)) for kernel in (RBF(), RBF(ard=True))]
    assert list(tune_members(problems)) == [1]


@pytest.mark.slow
def test_members_start_from_each_other():
    X, y = make_friedman1(300, 8, noise=1.0, random_state=0)
    alone = [RBF(ard=True), Matern(ard=True), Matern(nu=0.5, ard=True)]
    problems = [Problem(kernel, X, y[:, None], np.ones(300)) for kernel in alone]
    found = tune_members(problems)  # one with little weight may be left out
    assert len(found) > 1
    together, singles = list(found.values()), [tuned(problems[place]) for place in found]
    for one, other in zip(singles, together, strict=True):
        assert log_press(other) < log_press(one) + 0.03
    counts = [[p.paths["LeaveOneOut"].evaluations for p in group] for group in (together, singles)]
    assert sum(counts[0]) < 0.8 * sum(counts[1])


@pytest.mark.slow
def test_members_start_from_one_that_a_step_has_tuned():
    X, y = make_friedman1(3000, 5, noise=1.0, random_state=0)
    kernel = Matern(ard=True)
    first = sparsify.Random(random_state=0)(Problem(kernel, X, y[:, None], np.ones(3000)))
    again = completed(as_requested(first), first).candidate
    assert_allclose(again.kernel.sigma, first.kernel.sigma, rtol=1e-12)
    other = first.replace(kernel=RBF(ard=True), C=None, asked=(RBF(ard=True), None), paths={})
    known = tune_members([first, other])
    assert known[0] is first
    assert known[1].is_known
    assert known[1].paths["LeaveOneOut"].evaluations < 60


# The guard ------------------------------------------------------------------------------------------------------------
def test_columns_that_do_not_matter_are_left_out():
    X, y = make_friedman1(400, 12, noise=0.5, random_state=0)
    model = LSSVR(RBF(ard=True)).fit(X, y)
    wide = model.kernel_.sigma / X.std(axis=0) > 1e5
    assert_array_equal(wide, np.arange(12) >= 5)


def test_noise_gets_one_common_width():
    rng = np.random.default_rng(0)
    model = LSSVR(RBF(ard=True)).fit(rng.standard_normal((80, 10)), rng.standard_normal(80))
    assert (
        "one common width, in units of each column's spread: one per column gains too little on 80 rows"
        in model.path_.plan
    )


@pytest.mark.slow
def test_robust_weights_and_many_widths():
    """With the weights of one round only, the widths that suit clean rows follow the outliers: an error of 10."""
    X, y = make_friedman1(150, 5, noise=0.3, random_state=1)
    dirty = y.copy()
    dirty[::20] += 100.0
    new, truth = make_friedman1(300, 5, noise=0.0, random_state=101)
    error = [
        np.sqrt(np.mean((LSSVR(robust=robust).fit(X, target).predict(new) - truth) ** 2))
        for robust, target in ((None, y), ("hampel", dirty))
    ]
    assert error[1] < 1.1 * error[0]


# Samples, robust weights and sizes ------------------------------------------------------------------------------------
@pytest.fixture
def small_sizes(monkeypatch):
    monkeypatch.setattr(sparsify.bases, "SIZE", 30)
    monkeypatch.setattr(sparsify.bases, "SAMPLE_ROWS", 200)
    return monkeypatch


def problem_of_size(rows):
    return Problem(RBF(1.0), np.zeros((rows, 1)), np.zeros((rows, 1)), np.ones(rows))


@pytest.mark.parametrize(
    ("rows", "memory", "size"),
    [(300, 2**40, 300), (50_000, 2**40, 50_000), (50_001, 2**40, 1732), (10**6, 2**40, 500), (10**6, 2**20, 500)],
)
def test_the_largest_basis_depends_on_the_number_of_rows(rows, memory, size, monkeypatch):
    monkeypatch.setattr(arrays, "memory", lambda X, free: memory)
    assert sparsify.bases.largest_basis(problem_of_size(rows)) == size


@pytest.mark.parametrize(
    ("rows", "memory", "size"), [(15_000, 2**31, 2684), (15_000, 2**32, 3162), (20_000, 2**31, 2013), (600, 2**20, 500)]
)
def test_too_little_memory_for_all_rows_is_reported(rows, memory, size, monkeypatch):
    monkeypatch.setattr(arrays, "memory", lambda X, free: memory)
    with pytest.warns(UserWarning, match=f"{rows} rows .* 60% of the free memory: a smaller basis is used"):
        assert sparsify.bases.largest_basis(problem_of_size(rows), warns=True) == size


def test_rows_of_a_noise_free_table_that_are_hard_to_fit_are_not_outliers():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 1))
    y = np.where(X > 0.97, 0.05 * np.abs(np.sin(60 * X)), 0.0) + X  # rough in a few rows only
    for wrong, lowest in ((0.0, 1.0), (5.0, 0.05)):
        y[7] += wrong
        problem = Problem(RBF(0.1), X, y, np.ones(300), C=1e6)
        sizes = np.abs(problem.solve().loo_residuals)
        assert sizes.max() > constants.CONSTANTS.outlier * np.quantile(sizes, 0.9) or wrong
        weights = choose_C.downweight_outliers(problem, fixed_C=True).weights
        assert weights.min() == pytest.approx(1.0) if wrong == 0.0 else weights[7] < lowest


def test_C_of_many_rows_is_that_of_half_of_them(monkeypatch):
    """The C of few factorisations is that of all eigenvalues, and the error is that of models without each row."""
    (X, y), rows = make_friedman1(80, 5, noise=1.0, random_state=0), np.arange(80)
    problem = Problem(RBF(2.0), X, y[:, None], np.ones(80))
    half = problem.subset(constants.sample_of(problem, 40))
    expected, least, _ = choose_C.best_C(half)
    monkeypatch.setattr(choose_C, "DENSE_ROWS", 60)
    for guess in (None, 20.0 * expected):
        C, error, factor = choose_C.best_C(problem, guess=guess)
        assert choose_C.best_C(half.replace(C=C))[1] < 1.005 * least
        refits = [LSSVR(RBF(2.0), C).fit(X[rows != i], y[rows != i]).predict(X[i : i + 1])[0] for i in rows]
        assert_allclose(error, np.mean((y - refits) ** 2) / y.var(), rtol=1e-9)
        fit, _ = choose_C.fit_of_path(factor, C)
        assert_allclose(fit.loo_residuals[:, 0], y - refits, rtol=1e-7, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("size", [400, None])
def test_an_accelerator_searches_on_the_same_stages(size, monkeypatch):
    X, y = make_friedman1(500, 8, noise=1.0, random_state=0)
    steps = () if size is None else [sparsify.Random(size, random_state=0)]
    usual = LSSVR(RBF(ard=True), steps=steps).fit(X, y)
    monkeypatch.setattr(arrays, "on_accelerator", lambda array: True)
    monkeypatch.setattr(arrays, "memory", lambda array, free=False: 2**34)
    model = LSSVR(RBF(ard=True), steps=steps).fit(X, y)
    assert model.path_.plan == usual.path_.plan
    assert_allclose(model.press_, usual.press_, rtol=0.03)  # the search starts on all rows, not on a part of them


@pytest.mark.parametrize("copies", [0, 5])
def test_an_accelerator_has_the_same_criterion(copies, monkeypatch):
    X, y = make_friedman1(200, 5, noise=1.0, random_state=0)
    basis = X[np.r_[:30, :copies]]
    problem = Problem(Matern(2.0), X, y[:, None], np.ones(200), 10.0).with_basis(points=basis)
    usual = problem.factorise(quick=True).criterion()
    monkeypatch.setattr(arrays, "on_accelerator", lambda array: True)
    monkeypatch.setattr(arrays, "memory", lambda array, free=False: 2**34)
    for found, expected in zip(problem.factorise(quick=True).criterion(), usual, strict=True):
        assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.filterwarnings("ignore:C = ")
@pytest.mark.parametrize("value", [0.0, 0.1, 1e140])
def test_a_constant_is_predicted_on_a_measured_basis(small_sizes, value):
    X = np.random.default_rng(0).standard_normal((300, 2))
    model = LSSVR(steps=[sparsify.Random(random_state=0)]).fit(X, np.full(300, value))
    assert_allclose(model.predict(X[:3]), value, rtol=1e-12)


def test_blocks_of_rows_do_not_change_the_errors_of_C():
    """The limit of the residuals is that of all rows, also if only a few fit in a block."""
    X, y = make_friedman1(60, 5, noise=1.0, random_state=0)
    factor = Problem(RBF(1.0), X, y[:, None], np.ones(60)).factorise(1e-6, every=True, quick=True)
    C = np.geomspace(1e-2, 1e6, 9).tolist()
    whole = tune.choose_C.loo_errors(factor, C)
    with config_context(working_memory=1e-3):
        assert_allclose(tune.choose_C.loo_errors(factor, C), whole, rtol=1e-12)
    residuals = np.stack([factor.fit(value).loo_residuals[:, 0] / y.std() for value in C])
    limit = tune.constants.CONSTANTS.outlier * np.quantile(np.abs(residuals), 0.9, axis=1)[:, None]
    assert_allclose(whole, np.mean(np.clip(residuals, -limit, limit) ** 2, axis=1), rtol=1e-9)


def test_a_rare_class_is_in_the_sample():
    X = np.random.default_rng(0).standard_normal((500, 2))
    y = np.where(np.arange(500) < 3, 1.0, -1.0)
    problem = Problem(RBF(1.0), X, y[:, None], np.ones(500), classification=True)
    order = np.arange(500)[::-1]
    assert_array_equal(tune.constants.sample_of(problem, 100, order), [*order[:100], 2, 1, 0])


def outlying(rows, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, (rows, 2))
    truth = np.sin(6 * X[:, 0]) + X[:, 1]
    clean = truth + 0.1 * rng.standard_normal(rows)
    out = rng.uniform(size=rows) < 0.1
    return X, truth, clean, clean + out * (10 + 20 * rng.standard_normal(rows))


def test_outliers_of_a_kernel_without_widths_are_weighted_as_often_as_in_a_search(monkeypatch):
    """The weights of a round follow from the residuals of refits with those of the round before, without each row."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (80, 2))
    y = X @ [1.0, -2.0] + 0.1 * rng.standard_normal(80)
    X[0], y[0] = [6.0, 0.0], 60.0
    last = LSSVR(Linear()).fit(X, y)
    monkeypatch.setattr(choose_C.downweight_outliers, "__kwdefaults__", {"fixed_C": False, "iterations": 2})
    before = LSSVR(Linear()).fit(X, y)
    sizes = np.empty(80)
    for i in range(80):
        others = np.delete(np.arange(80), i)
        refit = LSSVR(Linear(), before.C_).fit(X[others], y[others], before.weights_[others])
        sizes[i] = abs(y[i] - refit.predict(X[i : i + 1])[0])
    expected = np.minimum(1.0, constants.CONSTANTS.outlier * np.quantile(sizes, 0.9) / sizes) ** 2
    assert expected[0] < 0.7 * before.weights_[0] < 0.1
    assert_allclose(last.weights_, expected, rtol=1e-6)


def test_outliers_do_not_choose_C_where_the_kernel_is_given():
    X, truth, clean, y = outlying(400, 0)
    error = [
        np.sqrt(np.mean((LSSVR(RBF(0.5), robust=robust).fit(X, targets).predict(X) - truth) ** 2))
        for robust, targets in ((None, clean), ("hampel", y))
    ]
    assert error[1] < 1.3 * error[0]


def test_a_measured_basis_is_as_robust_as_a_given_one(small_sizes):
    X, truth, _, y = outlying(600, 3)
    measured = LSSVR(RBF(), steps=[sparsify.Random(random_state=0)], robust="hampel").fit(X, y)
    assert np.sqrt(np.mean((measured.predict(X) - truth) ** 2)) < 0.06
    assert measured.fitted_.problem.robust.iterations == choose_C.ROBUST_ITERATIONS


def test_rows_of_no_weight_do_not_move_C():
    X, y = make_friedman1(120, 5, random_state=0)
    weights = np.r_[np.zeros(5), np.ones(115)]
    hostile = 1e-10 * y
    hostile[:5] = 1e150
    assert_allclose(
        LSSVR(RBF(1.0)).fit(X, hostile, sample_weight=weights).C_, LSSVR(RBF(1.0)).fit(X[5:], y[5:]).C_, rtol=0.02
    )


def test_columns_that_do_not_vary_change_nothing():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (80, 3))
    y = np.sin(3 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(80)
    more = np.column_stack([np.zeros((80, 2)), X, np.full(80, 3.0)])
    model, same = LSSVR(RBF(ard=True)).fit(X, y), LSSVR(RBF(ard=True)).fit(more, y)
    assert_allclose(same.C_, model.C_, rtol=1e-6)
    assert_allclose(same.predict(more), model.predict(X), rtol=1e-6, atol=1e-6)


def test_equal_kernels_of_a_sum_part():
    """Two scales: from one width both kernels would have one gradient for ever."""
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(-3.0, 3.0, (150, 1)), axis=0)
    y = np.sin(X[:, 0]) + 0.3 * np.sin(12.0 * X[:, 0]) + 0.05 * rng.standard_normal(150)
    leaves = LSSVR(RBF() + RBF()).fit(X, y).kernel_.leaves
    narrow, wide = sorted(float(np.ravel(leaf.sigma)[0]) for leaf in leaves)
    assert wide > 2.0 * narrow


def test_copies_of_rows_are_named():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (60, 2))
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.standard_normal(60)
    with pytest.warns(UserWarning, match=r"60 of 120 rows are duplicates.*KFold\(groups"):
        LSSVR().fit(np.vstack([X, X]), np.r_[y, y])


# Errors of the user's own kernels -------------------------------------------------------------------------------------
class Faulty(kernels.RBF):
    """An RBF whose method of the given name raises."""

    def __init__(self, sigma=None, ard=False, method="gradient"):
        super().__init__(sigma, ard)
        self.method = method

    def gradient(self, X, Z, G):
        if self.method == "gradient":
            raise ValueError("mine, of the gradient")
        return super().gradient(X, Z, G)

    def fill(self, out, X, Z, *, symmetric=False):
        if self.method == "fill":
            raise ValueError("mine, of the matrix")
        return super().fill(out, X, Z, symmetric=symmetric)


@pytest.mark.parametrize(("method", "search"), [("gradient", "gradient"), ("fill", "gradient"), ("fill", "simplex")])
def test_errors_of_a_kernel_surface_and_the_old_model_stays(method, search):
    X, y = datasets.load_motorcycle(return_X_y=True)
    model = LSSVR(kernels.RBF(), steps=[tune.LeaveOneOut(search=search)]).fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="mine, of the"):
        model.set_params(kernel=Faulty(method=method)).fit(X, y)
    assert_array_equal(model.predict(X), before)


def divides(X, Z):
    return 1.0 / (1.0 + np.abs(X - Z.T)) + 0.0 * np.log(np.zeros(1))


def test_floating_point_warnings_of_a_kernel_are_the_users():
    X, y = datasets.load_motorcycle(return_X_y=True)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        LSSVR(divides, C=1.0).fit(X, y)


def test_the_search_steps_back_where_numbers_overflow():
    """Widths whose distances overflow end a step of the search, not the fit."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    model = LSSVR(kernels.RBF()).fit(1e150 * X, X[:, 0])
    assert_allclose(model.predict(1e150 * X), X[:, 0], atol=0.1)


# Order and units ------------------------------------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.parametrize("n", [100, 400, 2500])
def test_neither_the_order_of_the_rows_nor_units_change_the_default(n):
    """A search amplifies rounding errors, but by far less than the noise of the data."""
    X, y = make_friedman1(n, 6, noise=1.0, random_state=0)
    order, accuracy = np.random.default_rng(1).permutation(n), 1e-3 * y.std()
    model, new = LSSVR().fit(X, y), X[:20] + 0.01
    shuffled = LSSVR().fit(X[order], y[order])
    moved = LSSVR(target="identity").fit(X, 1e4 + 1e3 * y)  # whether targets are skewed depends on their zero
    units = np.geomspace(0.0254, 1609.344, 6)
    widened = LSSVR().fit(np.column_stack([units * X, np.ones(n)]), y)
    assert_allclose(shuffled.predict(new), model.predict(new), atol=accuracy)
    assert_allclose((moved.predict(new) - 1e4) / 1e3, model.predict(new), atol=accuracy)
    assert_allclose(widened.predict(np.column_stack([units * new, np.ones(20)])), model.predict(new), atol=accuracy)
    intervals = [fitted.predict_interval(new) for fitted in (model, shuffled)]
    assert_allclose(intervals[1], intervals[0], atol=10 * accuracy)


def test_rounding_does_not_decide_how_much_work_a_search_has_spent():
    """Where the objective is flat, a line search follows rounding errors; later searches must not depend on that."""
    X, y = make_friedman1(400, 6, noise=1.0, random_state=0)
    fits = [LSSVR(RBF(), steps=[]).fit(X, unit * y) for unit in (1.0, 0.3, 7.0)]
    assert len({model.path_.evaluations for model in fits}) == 1


def test_a_search_of_one_kernel_does_not_print_it(monkeypatch):
    """scikit-learn's representation of a sum takes twice as long with each further summand."""
    monkeypatch.setattr(kernels.Sum, "__repr__", lambda kernel: pytest.fail("printed"))
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 2))
    LSSVR(RBF() + RBF() + Linear()).fit(X, X[:, 0])


def test_the_order_of_a_sample_depends_on_ranks_only():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal(200), rng.integers(0, 5, 200), rng.integers(3, 5, 200)])
    order = order_by_content(X)
    constant = np.full(200, 0.1) * (1.0 + 1e-15 * rng.standard_normal(200))
    for other in (
        X * (1.0 + 1e-15 * rng.standard_normal(X.shape)),
        2.54 * X,
        X + np.array([1e6, -7.0, 0.3]),
        np.column_stack([X[:, :1], constant, X[:, 1:]]),
        np.column_stack([np.exp(X[:, 0]), X[:, 1] ** 3, X[:, 2]]),
    ):
        assert_array_equal(order_by_content(other), order)
    assert len(set(np.flatnonzero(order_by_content(X[::-1]) == order))) < 20  # it is not the given order


def classes_of(seed, n):
    """Classes that depend on few of the columns, some of which are whole numbers or binary, in various units."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 7))
    Z = rng.standard_normal((n, d))
    f = np.sin(2 * Z[:, 0]) + Z[:, 0] * Z[:, 1] + 0.5 * rng.standard_normal(n)
    y = (f > 0) + (f > 1.0) * (seed % 3 == 0)
    X = Z * np.exp(2.0 * rng.standard_normal(d)) + 3.0 * rng.standard_normal(d)
    if seed % 2:
        X = np.column_stack([np.round(2.0 * Z), Z[:, 0] > 0.5])
    return X, y


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 20))])
def test_a_classifier_does_not_depend_on_rounding_units_or_constant_columns(seed):
    X, y = classes_of(seed, 300)
    X, y, new = X[:100], y[:100], X[100:]
    rng = np.random.default_rng(100 + seed)
    model = LSSVC().fit(X, y)
    predicted, probabilities = model.predict(new), model.predict_proba(new)
    for train, test in (
        (X * (1.0 + 1e-15 * rng.standard_normal(X.shape)), new),
        (2.54 * X, 2.54 * new),
        (np.column_stack([X, np.ones(100)]), np.column_stack([new, np.ones(200)])),
    ):
        other = LSSVC().fit(train, y)
        assert np.mean(other.predict(test) != predicted) <= 0.01
        assert_allclose(other.predict_proba(test), probabilities, atol=0.01)


@pytest.mark.parametrize("n", [90, pytest.param(1200, marks=pytest.mark.slow)])
def test_the_order_of_the_rows_does_not_change_a_classifier(n):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 4))
    y = (np.sin(2 * X[:, 0]) + X[:, 1] > 0) * 1 + (X[:, 2] + 0.5 * rng.standard_normal(n) > 1)
    order = rng.permutation(n)
    model, shuffled = LSSVC().fit(X, y), LSSVC().fit(X[order], y[order])
    assert_allclose(shuffled.predict_proba(X[:50]), model.predict_proba(X[:50]), atol=1e-6)


@pytest.mark.parametrize("kernel", [None, RBF(ard=True)])
def test_units_of_outputs_do_not_matter(kernel):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 4))
    y = np.column_stack([X[:, 0], np.sin(2 * X[:, 1])]) + 0.2 * rng.standard_normal((80, 2))
    expected = LSSVR(kernel).fit(X, y).predict(X)
    unit = [1e-3, 1e5]
    assert_allclose(LSSVR(kernel).fit(X, y * unit).predict(X) / unit, expected, rtol=1e-4, atol=1e-6)


def test_a_sample_of_few_distinct_rows_holds_all_of_them():
    X = np.repeat(np.arange(5.0), 200)[:, None]
    y = np.random.default_rng(0).standard_normal(1000)
    order = order_by_content(X, y[:, None])
    assert sorted(order) == list(range(1000))
    counts = np.bincount(X[order[:200], 0].astype(int), minlength=5)
    assert counts.min() > 20  # 40 are expected
    shuffle = np.random.default_rng(1).permutation(1000)
    assert_array_equal(shuffle[order_by_content(X[shuffle], y[shuffle, None])], order)
    assert_array_equal(order_by_content(X, 3.0 * y[:, None] + 1.0), order)


# More columns than rows -----------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_weights_of_a_stack_with_few_rows_per_column():
    """One width per column fits anything by leave-one-out; the weights come from rows that took no part in it."""
    rng = np.random.default_rng(0)
    X, effects = rng.standard_normal((540, 100)), rng.standard_normal(100) / 10.0
    y = X @ effects + 0.3 * rng.standard_normal(540)
    model, ridge = LSSVR().fit(X[:40], y[:40]), RidgeCV(np.geomspace(1, 1e4, 20)).fit(X[:40], y[:40])
    errors = [np.sqrt(np.mean((fitted.predict(X[40:]) - y[40:]) ** 2)) for fitted in (model, ridge)]
    assert errors[0] < 1.1 * errors[1]
    members = [member.fitted_.problem for member in model.members_]
    assert tune.leave_one_out.weighs_by_folds(members)
    assert not tune.leave_one_out.weighs_by_folds([member.replace(asked=(RBF(), None)) for member in members])
    problems = [
        Problem(kernel, X[:40], y[:40, None], np.ones(40), asked=(kernel, None)) for kernel in (RBF(), Matern())
    ]
    fold = np.array_split(problems[0].rows_by_content, 5)[0]
    others = np.setdiff1d(np.arange(40), fold)
    found = tune.leave_one_out.residuals_of_folds(problems, problems[0].parts(5), stacked=True)
    for place, alone in tune_members([problem.subset(others) for problem in problems]).items():
        again = LSSVR(alone.kernel, alone.C).fit(X[others], y[others])
        assert_allclose(found[place][fold, 0], y[fold] - again.predict(X[fold]), rtol=1e-6)


def test_targets_are_called_noise_free_only_if_they_are_explained():
    rng = np.random.default_rng(0)
    X, noise = rng.standard_normal((60, 2)), rng.standard_normal((60, 1))
    smooth = Problem(RBF(3.0), X, np.sin(X[:, :1]), np.ones(60), C=1e15)
    with pytest.warns(UserWarning, match="noise-free"):
        tune.choose_C.warn_at_edge([smooth])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tune.choose_C.warn_at_edge([smooth.replace(kernel=RBF(0.01), y=noise)])  # K is almost the identity


@pytest.mark.slow
def test_members_of_a_stack_on_a_measured_basis_do_not_depend_on_the_units_of_the_targets(small_sizes):
    """The first member is tuned with its basis, the others by searches of their own: all residuals need one unit."""
    small_sizes.setattr(planning, "DENSE_ROWS", 200)
    X, y = make_friedman1(400, 10, noise=1.0, random_state=0)
    expected, weights = (LSSVR().fit(X, unit * y).stack_weights_ for unit in (1.0, 1e3))
    assert_allclose(weights, expected, rtol=1e-4)
