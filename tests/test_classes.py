"""Losses and codings of classifiers against optimality conditions, other solvers and brute-force refits."""

import itertools
import time
import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize, minimize_scalar
from sklearn.base import clone
from sklearn.datasets import load_iris, make_friedman1, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils import Bunch

from lssvm import LSSVC, arrays, kernels, load, robust, save, sparsify, tune
from lssvm.coding import MISSED, couple, pair_rows, pair_slope, pair_work, pairs_of, smoothed_targets, softmax_slope
from lssvm.estimators.planning import class_plan
from lssvm.kernels import RBF, Linear, Matern
from lssvm.losses import LOSSES
from lssvm.problem import Problem, solve_classes
from lssvm.system import BatchedPairs, BinaryProblem, batches
from lssvm.tune.classes import simplest, with_C_of_more_rows
from lssvm.tune.constants import part_of
from lssvm.tune.criteria import LooLogLoss
from lssvm.tune.widths import Candidate, WidthSearch

CODINGS = ["one-vs-rest", "one-vs-one"]


def two_classes(rows=60, seed=0, noise=0.5):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 3))
    t = np.where(X[:, 0] + X[:, 1] ** 2 - 0.7 + noise * rng.standard_normal(rows) > 0, 1.0, -1.0)
    return X, t, rng.uniform(0.3, 2.0, rows)


def ordered(rows=150, seed=0, noise=0.3):
    """Three classes in a row, the middle one between the others."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (rows, 2))
    return X, np.digitize(X[:, 0] + noise * rng.standard_normal(rows), [-0.4, 0.4])


# Two classes ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("C", [0.1, 3.0, 1e3])
@pytest.mark.parametrize("name", LOSSES)
def test_a_solution_meets_the_conditions_of_optimality(name, C):
    X, t, weights = two_classes()
    weights[[4, 9]] = 0.0
    K = RBF(1.5)(X)
    fit = BinaryProblem(t, weights, C, LOSSES[name]).solve(K)
    assert_allclose(fit.decision, K @ fit.coef + fit.intercept, rtol=1e-8, atol=1e-8)
    slope = C * weights * t * LOSSES[name].slope(t * fit.decision)
    size = np.abs(slope).max()
    assert_allclose(fit.coef, slope, rtol=0, atol=1e-7 * size)  # the derivative in f
    assert_allclose(fit.coef.sum(), 0.0, atol=1e-9 * np.abs(fit.coef).sum())  # that in the bias


@pytest.mark.parametrize("name", LOSSES)
def test_slopes_and_curvatures_are_derivatives(name):
    loss, margin, step = LOSSES[name], np.linspace(-4, 4, 42), 1e-6
    difference = lambda function: (function(margin + step) - function(margin - step)) / (2 * step)  # noqa: E731
    assert_allclose(loss.slope(margin), -difference(loss.value), atol=1e-8)
    assert_allclose(loss.curvature(margin), -difference(loss.slope), atol=1e-8)
    curved = loss.curvature(margin) > 1e-5
    third = difference(lambda m: np.log(np.maximum(loss.curvature(m), 1e-12)))
    assert_allclose(loss.third(margin)[curved], third[curved], atol=1e-6)


@pytest.mark.parametrize("C", [0.05, 2.0, 50.0])
def test_the_logistic_loss_on_a_linear_kernel_is_logistic_regression(C):
    X, t, weights = two_classes()
    model = LogisticRegression(C=C, tol=1e-12, max_iter=10_000).fit(X, t, weights)
    fit = BinaryProblem(t, weights, C, LOSSES["logistic"]).solve(Linear()(X))
    assert_allclose(X.T @ fit.coef, model.coef_[0], rtol=1e-5, atol=1e-6)
    assert_allclose(fit.intercept, model.intercept_[0], rtol=1e-5, atol=1e-6)
    estimator = LSSVC(Linear(), C=C, loss="logistic").fit(X, t, weights)
    assert_allclose(estimator.decision_function(X), model.decision_function(X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("C", [0.05, 2.0])
def test_the_squared_hinge_agrees_with_a_convex_solver(C):
    cvxpy = pytest.importorskip("cvxpy")
    X, t, weights = two_classes(40)
    w, b = cvxpy.Variable(3), cvxpy.Variable()
    margin = cvxpy.multiply(t, X @ w + b)
    objective = 0.5 * cvxpy.sum_squares(w) + 0.5 * C * cvxpy.sum(
        cvxpy.multiply(weights, cvxpy.square(cvxpy.pos(1 - margin)))
    )
    cvxpy.Problem(cvxpy.Minimize(objective)).solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11)
    fit = BinaryProblem(t, weights, C, LOSSES["squared_hinge"]).solve(Linear()(X))
    assert_allclose(X.T @ fit.coef, w.value, atol=1e-5)
    assert_allclose(fit.intercept, b.value, atol=1e-5)


def objective(name, w, b, X, t, weights, C):
    return 0.5 * w @ w + C * weights @ LOSSES[name].value(t * (X @ w + b))


def far_apart(rows=100):
    """The first column alone separates the classes, and the margins at the minimum are far beyond 1."""
    rng = np.random.default_rng(0)
    t = np.where(rng.random(rows) < 0.4, -1.0, 1.0)
    return np.column_stack([100.0 * t, rng.standard_normal((rows, 2))]), t, np.ones(rows)


def unequal_columns(rows=80):
    """Columns of such different sizes that the kernel matrix keeps few digits of the last one."""
    X, t, weights = two_classes(rows)
    return X * [1e3, 1.0, 1e-2], t, weights


def separable(rows=44):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((rows, 5))
    return 50.0 * X, np.sign(X[:, 1] + 0.1), np.ones(rows)


@pytest.mark.parametrize(("data", "C"), [(far_apart, 1e2), (far_apart, 1e6), (unequal_columns, 1e6), (separable, 1e8)])
@pytest.mark.parametrize("name", ["logistic", "squared_hinge"])
def test_the_objective_reaches_its_minimum_for_a_large_C(name, data, C):
    """The kernel matrix loses digits there: the reference minimises over w and b, not over the coefficients of rows."""
    X, t, weights = data()
    if name == "logistic":
        model = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(X, t, weights)
        w, b = model.coef_[0], model.intercept_[0]
    else:  # Newton's method with a growing C
        A, ridge = np.column_stack([X, np.ones(len(t))]), np.diag(np.append(np.ones(X.shape[1]), 0.0))
        x = np.zeros(A.shape[1])
        for part, _ in itertools.product(10.0 ** np.arange(-8, 1), range(20)):
            v = part * C * weights * (t * (A @ x) < 1.0)
            x = np.linalg.solve(A.T @ (v[:, None] * A) + ridge, A.T @ (v * t)) if v.any() else x
        w, b = x[:-1], x[-1]
    least = objective(name, w, b, X, t, weights, C)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = LSSVC(Linear(), C=C, loss=name).fit(X, t, weights)
    w = found.support_vectors_.T @ found.dual_coef_
    assert objective(name, w, found.intercept_, X, t, weights, C) <= least * (1.0 + 1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_the_logistic_loss_is_never_far_above_its_minimum_without_a_warning(seed):
    """Against scikit-learn on the columns sqrt(K), whatever the kernel, C, weights, scales and classes."""
    rng = np.random.default_rng(seed)
    for kernel in (Linear(), RBF(1.0), RBF(10.0), kernels.Polynomial(2)):
        X, t, weights = two_classes(int(rng.integers(10, 50)), seed=int(rng.integers(10**6)), noise=rng.choice([0, 1]))
        t[:2], weights[5::3] = [-1.0, 1.0], rng.choice([0.0, 1.0, 30.0])
        X = X * 10.0 ** rng.uniform(-2, 2, size=3) if kernel.spanning_points(3) is not None else X
        X[3:6], C = X[2], 10.0 ** rng.uniform(-4, 8)
        sizes, turn = np.linalg.eigh(kernel(X, X))
        columns = X if isinstance(kernel, Linear) else turn * np.sqrt(np.maximum(sizes, 0.0))
        with warnings.catch_warnings(record=True) as issued:
            warnings.simplefilter("always")
            model = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-9, max_iter=1000).fit(columns, t, weights)
            issued.clear()
            found = LSSVC(kernel, C=C, loss="logistic").fit(X, t, weights)
        least = objective("logistic", model.coef_[0], model.intercept_[0], columns, t, weights, C)
        points, coef = found.support_vectors_, found.dual_coef_
        norm = np.sum((points.T @ coef) ** 2) if isinstance(kernel, Linear) else coef @ kernel(points, points) @ coef
        value = 0.5 * norm + C * weights @ LOSSES["logistic"].value(t * found.decision_function(X))
        assert issued or value <= least * (1.0 + 1e-6), (kernel, C)


@pytest.mark.parametrize("name", ["logistic", "squared_hinge"])
def test_a_minimum_beyond_the_digits_of_the_kernel_matrix_is_reported(name):
    X, t, weights = unequal_columns()
    with pytest.warns(ConvergenceWarning, match=f"The objective of the {name} loss .* lower C"):
        LSSVC(kernels.Precomputed(), C=1e8, loss=name).fit(X @ X.T, t, weights)


def test_leave_one_out_of_rows_far_from_the_boundary():
    """Their curvature is almost 0: they depend on themselves as little as on their copies."""
    X, t, weights = two_classes(40)
    far = np.column_stack([60.0 * np.sign(X[:, 0]), X[:, 1:]])
    X, t, weights = np.vstack([X, far]), np.append(t, np.sign(far[:, 0])), np.ones(80)
    K, C, loss = Linear()(X), 10.0, LOSSES["logistic"]
    fit = BinaryProblem(t, weights, C, loss).solve(K, inverse=True)
    assert (t * fit.decision)[40:].min() > 40.0
    assert_allclose(fit.loo[40:], fit.decision[40:], rtol=1e-9)
    others = np.delete(np.arange(80), 50)
    refit = BinaryProblem(t[others], weights[others], C, loss).solve(K[np.ix_(others, others)])
    assert_allclose(fit.loo[50], K[50, others] @ refit.coef + refit.intercept, rtol=1e-9)
    G, in_C = BinaryProblem(t, weights, C, loss).loo_gradient(fit, K, np.ones(80))
    sums = [BinaryProblem(t, weights, C * np.exp(step), loss).solve(K).loo.sum() for step in (-1e-4, 1e-4)]
    assert_allclose(in_C, (sums[1] - sums[0]) / 2e-4, rtol=1e-3)
    assert np.isfinite(G).all()


@pytest.mark.parametrize("name", LOSSES)
def test_both_routes_agree(name):
    X, t, weights = two_classes()
    K = RBF(1.0)(X) + 1e-9 * np.eye(60)
    dual = BinaryProblem(t, weights, 4.0, LOSSES[name]).solve(K)
    L = np.linalg.cholesky(K)
    primal = BinaryProblem(t, weights, 4.0, LOSSES[name]).solve(L, dual=False)
    for value in ("decision", "loo", "leverage", "intercept"):
        assert_allclose(getattr(primal, value), getattr(dual, value), rtol=1e-6, atol=1e-6, err_msg=value)
    assert_allclose(np.linalg.solve(L.T, primal.coef), dual.coef, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "worst", "usual"),
    [
        ("squared", 1e-9, 1e-10),
        pytest.param("squared_hinge", 1.3, 0.12, marks=pytest.mark.slow),
        pytest.param("logistic", 0.9, 0.045, marks=pytest.mark.slow),
    ],
)
def test_leave_one_out_of_two_classes_against_refits(name, worst, usual):
    """Exact for squares; for the others, differences in units of the decision values' spread, over 24 problems."""
    differences = []
    for seed, C, noise in itertools.product(range(4), (0.3, 3.0, 30.0), (0.2, 1.0)):
        X, t, weights = two_classes(35, seed, noise)
        K = RBF(1.5)(X)
        fit = BinaryProblem(t, weights, C, LOSSES[name]).solve(K)
        for i in range(35):
            others = np.where(np.arange(35) == i, 0.0, weights)
            refit = BinaryProblem(t, others, C, LOSSES[name]).solve(K).decision[i]
            differences.append(abs(fit.loo[i] - refit) / np.std(fit.decision))
    assert max(differences) < worst
    assert np.sqrt(np.mean(np.square(differences))) < usual


@pytest.mark.parametrize("C", [0.7, 20.0])
@pytest.mark.parametrize("name", LOSSES)
def test_the_gradient_of_leave_one_out_agrees_with_central_differences(name, C):
    X, t, weights = two_classes()
    weights[5] = 0.0
    rng = np.random.default_rng(1)
    K, S, c = RBF(2.0)(X), rng.standard_normal((60, 60)), rng.standard_normal(60)
    S, loss = 1e-3 * (S + S.T), LOSSES[name]

    def value(shift, log_C):
        fit = BinaryProblem(t, weights, C * np.exp(log_C), loss, tolerance=1e-13).solve(K + shift * S)
        return float(np.sin(fit.loo) @ c)

    fit = BinaryProblem(t, weights, C, loss, tolerance=1e-13).solve(K, inverse=True)
    G, in_C = BinaryProblem(t, weights, C, loss).loo_gradient(fit, K, np.cos(fit.loo) * c)
    assert_allclose(np.sum(G * S), (value(1e-4, 0) - value(-1e-4, 0)) / 2e-4, rtol=2e-4, atol=1e-6)
    assert_allclose(in_C, (value(0, 1e-4) - value(0, -1e-4)) / 2e-4, rtol=2e-4, atol=1e-6)


def test_several_targets_share_one_factor():
    X, y = ordered(60)
    K, weights = RBF(1.0)(X), np.random.default_rng(0).uniform(0.5, 2.0, 60)
    columns = [(np.arange(60), np.where(y == c, 1.0, -1.0)) for c in range(3)]
    pairs = BatchedPairs(columns, weights)
    assert [batch.targets.shape for batch in pairs.batches] == [(1, 60, 3)]
    solved = pairs.solve(K, 5.0, LOSSES["squared"])
    for c, (_, t) in enumerate(columns):
        fit = BinaryProblem(t, weights, 5.0, LOSSES["squared"]).solve(K)
        assert_allclose(solved.coef[:, c], fit.coef, rtol=1e-9, atol=1e-9)
        assert_allclose(solved.intercept[c], fit.intercept, rtol=1e-9)
        assert_allclose(solved.loo[:, c], fit.loo, rtol=1e-8, atol=1e-9)


# Pairs ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("k", [3, 5])
def test_coupling_returns_the_probabilities_behind_consistent_pairs(k):
    p = np.random.default_rng(0).dirichlet(np.ones(k), 20)
    values = np.column_stack([np.log(p[:, b] / p[:, a]) for a, b in pairs_of(k)])
    assert_allclose(couple(2.0 * values, k, 0.5), p, rtol=1e-4, atol=1e-6)


def test_coupling_minimises_the_objective_of_wu_lin_and_weng():
    values = np.random.default_rng(0).normal(0, 2, (4, 6))
    found = couple(values, 4, 1.3)
    assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    for row, p in zip(values, found, strict=True):
        r = {(a, b): 1 / (1 + np.exp(1.3 * f)) for (a, b), f in zip(pairs_of(4), row, strict=True)}

        def objective(q, r=r):
            q = np.append(q, 1 - q.sum())
            return sum(((1 - value) * q[a] - value * q[b]) ** 2 for (a, b), value in r.items())

        best = minimize(objective, np.full(3, 0.25), method="BFGS", options={"gtol": 1e-12})
        assert_allclose(p[:3], best.x, atol=1e-5)


def test_the_slope_of_pairs_is_a_minimum_of_the_log_loss():
    rng = np.random.default_rng(0)
    codes, weights = rng.integers(0, 3, 300), rng.uniform(0.5, 2.0, 300)
    values = rng.normal(0, 1, (300, 3))
    for number, (rows, t) in enumerate(pair_rows(codes, 3)):
        values[rows, number] += 1.5 * t
    best = pair_slope(values, codes, weights, 3)
    targets = smoothed_targets(codes, weights, 3, MISSED)

    def loss(slope):
        return -float(weights @ np.sum(targets * np.log(couple(values, 3, slope)), axis=1))

    losses = [loss(best * factor) for factor in (0.9, 1.0, 1.1)]
    assert losses[1] == min(losses)


@pytest.mark.parametrize("name", LOSSES)
def test_batches_agree_with_one_problem_after_the_other(name):
    X, y = load_iris(return_X_y=True)
    K, weights = RBF(3.0)(X), np.random.default_rng(0).uniform(0.5, 2.0, 150)
    columns = pair_rows(y, 3)
    solved = BatchedPairs(columns, weights).solve(K, 2.0, LOSSES[name], with_gradient=True)
    tolerance = 1e-8 if name == "squared" else 1e-4
    for number, (rows, t) in enumerate(columns):
        fit = BinaryProblem(t, weights[rows], 2.0, LOSSES[name]).solve(K[np.ix_(rows, rows)])
        assert_allclose(solved.intercept[number], fit.intercept, rtol=tolerance)
        for ours, theirs in ((solved.coef, fit.coef), (solved.decision, fit.decision), (solved.loo, fit.loo)):
            assert_allclose(ours[rows, number], theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("steps", [1, batches.STEPS])
@pytest.mark.parametrize("C", [0.1, 30.0, 1e3])
@pytest.mark.parametrize("name", ["squared_hinge", "logistic"])
def test_batches_of_other_losses_agree_with_one_problem_after_the_other(name, C, steps, monkeypatch):
    """Full steps for all problems, and steps of any length for those that they do not solve, here all with one step."""
    monkeypatch.setattr(batches, "STEPS", steps)
    X, y = ordered(90)
    K, weights = RBF(1.0)(X) + 1e-6 * np.eye(90), np.random.default_rng(0).uniform(0.5, 2.0, 90)
    columns = pair_rows(y, 3)
    pairs = BatchedPairs(columns, weights)
    assert len(pairs.batches[0].numbers) > 1
    solved = pairs.solve(K, C, LOSSES[name])
    again = pairs.solve(K, C, LOSSES[name], solved.decision)
    for number, (rows, t) in enumerate(columns):
        fit = BinaryProblem(t, weights[rows], C, LOSSES[name]).solve(K[np.ix_(rows, rows)])
        tolerance = 2 * batches.ROUGH * (1.0 + np.abs(fit.decision).max())
        for one in (solved, again):
            values = K[:, rows] @ one.coef[rows, number] + one.intercept[number]
            assert_allclose(one.decision[rows, number], fit.decision, atol=tolerance)
            assert_allclose(values[rows], one.decision[rows, number], atol=tolerance)
            gaps = np.abs(one.loo[rows, number] - fit.loo) / (1.0 + np.abs(fit.loo).max())
            assert np.quantile(gaps, 0.9) < batches.ROUGH  # rows at the margin of the hinge may be on either side


@pytest.mark.parametrize(
    ("coding", "name"),
    [*itertools.product(["one-vs-one"], LOSSES), ("one-vs-rest", "squared"), ("one-vs-rest", "logistic")],
)
def test_the_gradient_of_a_search_agrees_with_central_differences(coding, name, monkeypatch):
    from lssvm.tune import criteria as classes

    monkeypatch.setattr(classes, "SLOPE_ACCURACY", 1e-12)
    monkeypatch.setattr(batches, "TOLERANCE", 1e-13)
    X, y = ordered(60)
    targets = np.where(y[:, None] == np.arange(3), 1.0, -1.0)
    problem = Problem(RBF(1.0), X, targets, np.random.default_rng(0).uniform(0.5, 2, 60), classification=True)
    criterion = LooLogLoss(problem, X.std(axis=0))
    kernel = RBF(np.array([0.8, 1.6]), ard=True) + Matern(np.array([2.0, 2.0]))
    requested = RBF(ard=True) + Matern()
    search = WidthSearch(criterion, requested, Candidate(kernel, 5.0, coding, name), many=True)
    x = np.array([0.1, -0.2, 0.3, np.log(5.0)])
    gradient = search.objective(x)[1]
    for place in range(len(x)):
        step = 3e-4 * (np.arange(len(x)) == place)
        difference = (search.objective(x + step)[0] - search.objective(x - step)[0]) / 6e-4
        assert_allclose(gradient[place], difference, rtol=1e-4, atol=1e-5, err_msg=str(place))


@pytest.mark.parametrize("name", LOSSES)
def test_values_of_a_search_on_a_basis(name):
    """They are those of the final fit; if all rows are the basis, those of the dense search."""
    X, t, weights = two_classes(90)
    dense = Problem(Matern(1.0), X, t[:, None], weights, C=3.0, classification=True)
    candidate = Candidate(dense.kernel, 3.0, "one-vs-one", name)
    limit = 1e-8 if name == "squared" else 1e-3
    for problem in (dense.with_basis(np.arange(0, 90, 4)), dense.with_basis(points=X)):
        criterion = LooLogLoss(problem, np.ones(3))
        values = criterion.loo_values(candidate)
        fit = solve_classes(problem, name, "one-vs-one", np.ones(90))
        assert_allclose(values, fit.loo, rtol=limit, atol=limit)
        assert_allclose(criterion.loo_values(candidate), values, rtol=limit, atol=limit)  # a warm start
    coarse = LooLogLoss(dense, np.ones(3)).loo_values(candidate)
    assert_allclose(values, coarse, rtol=limit, atol=1e-8 if name == "squared" else 0.03)


def test_a_pair_of_classes_may_be_missing_in_a_half_of_the_sample(capfd):
    """Two classes of a single row each are in the same half."""
    X, y = np.random.default_rng(0).normal(size=(103, 2)), np.r_[0, np.ones(101), 2]
    assert np.isfinite(LSSVC().fit(X, y).predict_proba(X)).all()
    assert "illegal value" not in "".join(capfd.readouterr())  # what LAPACK says about an empty matrix


def test_two_classes_may_have_no_weight():
    X, y = np.random.default_rng(0).normal(size=(120, 2)), np.arange(120) % 4
    with pytest.warns(UserWarning, match="No row of the class 2"):
        model = LSSVC().fit(X, y, np.where(y < 2, 1.0, 0.0))
    assert np.isin(model.predict(X), [0, 1]).all()


@pytest.mark.parametrize("name", LOSSES)
def test_threads_find_the_same(name, monkeypatch):
    """Each batch of problems is solved in one thread, whatever their number."""
    X, y = load_iris(return_X_y=True)
    K, columns = RBF(3.0)(X), pair_rows(y, 3)
    monkeypatch.setattr(batches, "WORK", 100**3)
    found = []
    for threads in (1, 3):
        with arrays.single_threaded_blas():
            monkeypatch.setattr(arrays.threads._local, "workers", threads)
            many = BatchedPairs(columns, np.ones(150))
            solved = many.solve(K, 2.0, LOSSES[name], with_gradient=True)
            found.append((solved.loo, solved.gradient(solved.loo)[0]))
    assert len(many.batches) == 3
    for one, several in zip(*found, strict=True):
        assert_array_equal(one, several)


def test_a_precomputed_kernel_with_a_basis_takes_every_loss():
    X, t, _ = two_classes(90)
    step = sparsify.Random(30, random_state=0)
    for name in LOSSES:
        ours = LSSVC(RBF(1.0), C=2.0, loss=name, steps=[step]).fit(X, t)
        theirs = LSSVC(kernels.Precomputed(), C=2.0, loss=name, steps=[step]).fit(RBF(1.0)(X), t)
        assert_allclose(theirs.decision_function(RBF(1.0)(X)), ours.decision_function(X), rtol=1e-8, atol=1e-8)


def test_what_a_step_sets_is_kept():
    X, t, _ = two_classes(2400, noise=1.0)
    steps = [sparsify.Random(100, random_state=0), lambda problem: problem.replace(C=0.5)]
    assert LSSVC(RBF(1.0), loss="logistic", steps=steps).fit(X, t).C_ == 0.5


@pytest.mark.parametrize("name", LOSSES)
def test_C_of_a_basis_is_the_best_on_more_rows(name):
    X, t, weights = two_classes(2400, noise=1.0)
    problem = Problem(RBF(1.0), X, t[:, None], weights, C=1e3, classification=True).with_basis(np.arange(150))
    record = Bunch(plan=[], evaluations=0)
    found = with_C_of_more_rows(problem, Candidate(problem.kernel, 1e3, "one-vs-one", name), record)
    assert record.C == found.C < 100.0
    assert record.plan == ["C on 800 rows with 50 basis points"]
    part = part_of(problem.replace(weights=weights / weights.mean()), 800, 50)

    def loss(C):
        fit = solve_classes(part.replace(C=C * weights.mean()), name, "one-vs-one", np.ones(800))
        margins = part.y[:, 0] * fit.loo[:, 0]
        log_loss = lambda log_slope: part.weights @ np.logaddexp(0.0, -np.exp(log_slope) * margins)  # noqa: E731
        return minimize_scalar(log_loss, bounds=(-3.0, 6.0), method="bounded").fun

    assert loss(found.C) < min(loss(found.C / 10), loss(10 * found.C))
    smaller = Candidate(problem.kernel, found.C / 20, "one-vs-one", name)
    assert with_C_of_more_rows(problem, smaller, record).C > smaller.C
    scaled = problem.replace(weights=64.0 * weights, C=1e3 / 64.0)
    again = with_C_of_more_rows(scaled, Candidate(problem.kernel, 1e3 / 64.0, "one-vs-one", name), record)
    assert_allclose(64.0 * again.C, found.C, rtol=1e-6)
    three = problem.replace(y=np.where(np.arange(2400)[:, None] % 3 == np.arange(3), 1.0, -1.0))
    for other in (problem.with_basis(), three):  # a dense problem, and one with more classes
        assert with_C_of_more_rows(other, Candidate(problem.kernel, 1e3, "one-vs-one", name), record) is other


def test_C_of_a_basis_does_not_rise_if_rows_are_repeated():
    """The leave-one-out loss of a row with copies falls with C, whatever the noise."""
    X, t, _ = two_classes(800, noise=1.0)
    X, t = np.repeat(X, 3, axis=0), np.repeat(t, 3)
    problem = Problem(RBF(0.3), X, t[:, None], np.ones(2400), C=0.1, classification=True).with_basis(np.arange(900))
    for setting, same in (
        (Candidate(problem.kernel, 0.1, "one-vs-one", "logistic"), True),
        (Candidate(problem.kernel, 1e6, "one-vs-one", "logistic"), False),
    ):
        found = with_C_of_more_rows(problem, setting, Bunch(plan=[], evaluations=0))
        assert (found.C == setting.C) == same


@pytest.mark.slow
def test_a_search_with_many_widths_does_not_choose_a_huge_C():
    """With the C of the sample that chose 20 widths, the log loss of a test set is 0.196."""
    X, y = make_friedman1(9000, 20, noise=1.0, random_state=0)
    y = y > np.median(y)
    model = LSSVC().fit(X[:5000], y[:5000])
    p = model.predict_proba(X[5000:])[:, 1]
    assert -np.mean(np.log(np.where(y[5000:], p, 1.0 - p))) < 0.18
    assert model.path_.C == model.C_


# The estimator --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("steps", [(), pytest.param([sparsify.Random(20, random_state=0)], marks=pytest.mark.slow)])
def test_leave_one_out_predictions_against_refits(steps, coding, name):
    X, y = ordered(30)
    basis = sparsify.Given(X[:20]) if steps else None
    model = LSSVC(RBF(1.0), C=3.0, coding=coding, loss=name, steps=[basis] if steps else ())
    model.fit(X, y)
    same = 0
    for i in range(30):
        refit = clone(model).fit(X, y, (np.arange(30) != i).astype(float))
        f = refit.decision_function(X[i : i + 1])[0]
        if coding == "one-vs-rest":
            limit = 1e-8 if name == "squared" else 0.5
            assert_allclose(np.where(y[i] == np.arange(3), 1.0, -1.0) - model.loo_residuals_[i], f, atol=limit)
        same += refit.classes_[np.argmax(f)] == model.loo_predictions_[i]
    assert same >= 29


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("kernel", [RBF(1.0), Linear(), kernels.Additive(RBF(1.0)), RBF()])
def test_probabilities_and_classes_agree(kernel, coding, name):
    X, y = ordered(90)
    labels = np.array(["low", "middle", "high"])[y]
    model = LSSVC(kernel, C=2.0, coding=coding, loss=name).fit(X, labels)
    p, f = model.predict_proba(X), model.decision_function(X)
    assert p.shape == f.shape == (90, 3)
    assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))
    assert_array_equal(model.classes_[f.argmax(axis=1)], model.predict(X))
    assert (model.coding_, model.loss_) == (coding, name)
    assert model.loo_residuals_.shape == (90, 3)
    assert model.dual_coef_.shape[1] == model.intercept_.shape[0] == 3


def test_a_class_between_two_others_needs_pairs():
    X, y = ordered(300, noise=0.05)
    new, truth = ordered(2000, seed=1, noise=0.0)
    models = [LSSVC(Linear(), C=100.0, loss="squared", coding=coding).fit(X, y) for coding in CODINGS]
    rest, pairs = (1 - model.score(new, truth) for model in models)
    assert pairs < 0.1 < rest
    assert LSSVC().fit(X, y).score(new, truth) > 0.97


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("coding", CODINGS)
def test_probabilities_are_never_nan(coding, name):
    X, y = load_iris(return_X_y=True)
    cases = {
        "separable": (X, np.digitize(X[:, 2], [2.5, 5.0]), 1e8),
        "one row per class": (X[::50], y[::50], 1.0),
        "copies": (np.repeat(X[::15], 5, axis=0), np.repeat(y[::15], 5), 1e6),
        "small C": (X, y, 1e-12),
    }
    for case, (rows, labels, C) in cases.items():
        model = LSSVC(RBF(1.0), C=C, coding=coding, loss=name).fit(rows, labels)
        p = model.predict_proba(X)
        assert np.isfinite(p).all(), case
        assert_allclose(p.sum(axis=1), 1.0, rtol=1e-9, err_msg=case)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("coding", CODINGS)
def test_integer_weights_are_copies(coding, name):
    X, y = ordered(60)
    weight = np.random.default_rng(0).integers(0, 4, 60)
    model = LSSVC(RBF(1.0), C=2.0, coding=coding, loss=name)
    weighted = clone(model).fit(X, y, weight)
    copied = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert_allclose(weighted.predict_proba(X), copied.predict_proba(X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["squared_hinge", "logistic"])
def test_class_weights_multiply_sample_weights(name):
    X, y = ordered(80)
    weight = np.array([1.0, 3.0, 0.5])
    given = LSSVC(RBF(1.0), C=2.0, loss=name, class_weight=dict(enumerate(weight))).fit(X, y)
    other = LSSVC(RBF(1.0), C=2.0, loss=name).fit(X, y, weight[y])
    assert_allclose(given.dual_coef_, other.dual_coef_, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("steps", [(), [sparsify.Random(20, random_state=0)]])
@pytest.mark.parametrize("kind", ["torch", "torch on a GPU", "CuPy"])
def test_other_arrays_give_the_same(kind, steps, coding, name):
    convert = converter(kind)
    X, y = ordered(70)
    model = LSSVC(RBF(1.0), C=2.0, coding=coding, loss=name, steps=steps)
    ours, theirs = clone(model).fit(X, y), clone(model).fit(convert(X), convert(y))
    p = theirs.predict_proba(convert(X))
    assert type(p) is type(convert(X))
    assert_allclose(arrays.to_numpy(p), ours.predict_proba(X), rtol=1e-6, atol=1e-8)
    assert_allclose(arrays.to_numpy(theirs.dual_coef_), ours.dual_coef_, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", ["torch", "torch on a GPU", "CuPy"])
def test_a_search_on_other_arrays_finds_the_same(kind):
    convert = converter(kind)
    X, y = ordered(90)
    ours, theirs = LSSVC().fit(X, y), LSSVC().fit(convert(X), convert(y))
    assert (theirs.coding_, theirs.loss_) == (ours.coding_, ours.loss_)
    f = theirs.decision_function(convert(X))
    assert type(f) is type(convert(X))
    assert_allclose(arrays.to_numpy(f), ours.decision_function(X), rtol=1e-6, atol=1e-6)


def converter(kind):
    """A function from NumPy arrays to arrays of another kind; the test is skipped if there are none."""
    if kind == "CuPy":
        return pytest.importorskip("cupy").asarray
    torch = pytest.importorskip("torch")
    if kind == "torch":
        return torch.asarray
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    return lambda values: torch.asarray(values, device="cuda")


def test_given_kernel_and_C_stay_the_classifier_of_the_papers():
    X, y = ordered(70)
    for labels in (y, y > 0):
        default = LSSVC(RBF(1.0), C=2.0).fit(X, labels)
        explicit = LSSVC(RBF(1.0), C=2.0, loss="squared", coding="one-vs-rest").fit(X, labels)
        assert_array_equal(default.dual_coef_, explicit.dual_coef_)
        assert class_plan(default, default.fitted_.problem) is None  # nothing is planned as for a search
        assert (default.coding_, default.loss_) == ("one-vs-rest", "squared")


@pytest.mark.parametrize(
    "options",
    [
        {"robust": "hampel"},
        {"steps": [sparsify.Prune(20, rows="keep")]},
        pytest.param({"steps": [tune.KFold(5)]}, marks=pytest.mark.slow),
        {"steps": [tune.LeaveOneOut()]},
        {"loss": "squared", "coding": "one-vs-rest"},
    ],
)
def test_auto_is_least_squares_where_that_is_asked_for(options):
    X, y = ordered(60)
    model = LSSVC(RBF(), **options).fit(X, y)
    assert (model.coding_, model.loss_) == ("one-vs-rest", "squared")


@pytest.mark.parametrize("step", [sparsify.Prune(20), sparsify.InversePrune(), sparsify.Substrate(), tune.KFold(5)])
def test_steps_of_least_squares_say_so(step):
    X, y = ordered(60)
    with pytest.raises(ValueError, match=f"{type(step).__name__} is defined for the squared loss.*loss='squared'"):
        LSSVC(RBF(1.0), C=1.0, loss="logistic", steps=[step]).fit(X, y)
    with pytest.raises(ValueError, match="robust weights are defined for the squared loss"):
        LSSVC(RBF(1.0), C=1.0, loss="logistic", robust=robust.Huber()).fit(X, y)


@pytest.mark.parametrize(
    "step",
    [
        sparsify.Given(np.arange(20)),
        sparsify.FeatureVectors(15),
        sparsify.RandomlyPivoted(15, random_state=0),
        sparsify.KMeans(15, random_state=0),
        sparsify.Forward(15, random_state=0),
        sparsify.Learned(10, random_state=0),
    ],
)
@pytest.mark.parametrize(("coding", "name"), [("one-vs-one", "logistic"), ("one-vs-rest", "squared_hinge")])
def test_selectors_of_a_basis_take_every_loss(step, coding, name):
    X, y = ordered(80)
    model = LSSVC(RBF(1.0), C=5.0, coding=coding, loss=name, steps=[step]).fit(X, y)
    assert len(model.support_vectors_) <= 20
    assert model.score(X, y) > 0.6


def test_slopes_of_probabilities_without_rows_and_with_a_far_row():
    """A side of the boundary without rows says nothing: about 1/2. One huge decision value does not limit the slope."""
    assert softmax_slope(np.zeros((0, 2)), np.zeros((0, 2)), np.zeros(0)) <= 1e-6
    logits = np.column_stack([np.zeros(100), np.tile([-2.0, -1.0, 1.0, 2.0], 25)])
    targets = smoothed_targets(np.tile([0, 1, 0, 1], 25), np.ones(100), 2)
    far, one = np.array([[0.0, 1e9]]), np.array([[0.0, 1.0]])
    slope = softmax_slope(logits, targets, np.ones(100))
    both = softmax_slope(np.vstack([logits, far]), np.vstack([targets, one]), np.ones(101))
    assert_allclose(both, slope, rtol=1e-6)


def test_the_record_of_a_step_does_not_hide_that_of_the_search(tmp_path):
    X, y = ordered(80)
    model = LSSVC(steps=[sparsify.Forward(10, random_state=0)]).fit(X, y)
    assert len(model.path_.candidates) == 5
    assert len(model.path_.sizes) == len(model.path_.scores)
    save(model, tmp_path / "model.lssvm")
    again = load(tmp_path / "model.lssvm")
    assert [one.loo for one in again.path_.candidates] == [one.loo for one in model.path_.candidates]
    assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("coding", CODINGS)
def test_a_singular_kernel_with_a_huge_C_has_a_model(coding, name):
    X, y = ordered(60)
    model = LSSVC(Linear(), C=1e12, coding=coding, loss=name).fit(1e8 * X, y)
    p = model.predict_proba(1e8 * X)
    assert_allclose(p.sum(axis=1), 1.0, rtol=1e-9)
    moderate = LSSVC(Linear(), C=100.0, coding=coding, loss=name).fit(X, y)
    assert model.score(1e8 * X, y) > moderate.score(X, y) - 0.1


@pytest.mark.parametrize(
    ("name", "classes", "rows"),
    [
        *((name, 4, 1) for name in ["auto", *LOSSES]),
        *((name, 5, 2) for name in LOSSES),
        pytest.param("auto", 26, 3, marks=pytest.mark.slow),
    ],
)
def test_a_search_with_few_rows_per_class(name, classes, rows):
    rng = np.random.default_rng(0)
    X = np.repeat(3.0 * rng.standard_normal((classes, 4)), rows, axis=0) + rng.standard_normal((classes * rows, 4))
    y = np.repeat(np.arange(classes), rows)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The number of unique classes")
        p = LSSVC(coding="auto" if classes == 26 else "one-vs-one", loss=name).fit(X, y).predict_proba(X)
    assert_allclose(p.sum(axis=1), 1.0, rtol=1e-9)


def test_the_squared_hinge_converges_for_nearly_separable_classes():
    X, t, weights = two_classes(400)
    K, C = RBF(2.0)(X), 1e6
    fit = BinaryProblem(t, weights, C, LOSSES["squared_hinge"]).solve(K)
    slope = C * weights * t * LOSSES["squared_hinge"].slope(t * fit.decision)
    assert_allclose(fit.coef, slope, rtol=0, atol=1e-6 * np.abs(slope).max())


def test_wrong_names_are_refused_and_nothing_is_lost():
    X, y = ordered(40)
    model = LSSVC(RBF(1.0), C=1.0).fit(X, y)
    before = model.dual_coef_
    for options, message in (
        ({"loss": "hinge"}, "loss must be 'auto', 'squared', .* or 'logistic', got 'hinge'"),
        ({"coding": "ovo"}, "coding must be 'auto', 'one-vs-rest' or 'one-vs-one', got 'ovo'"),
        ({"loss": None}, "loss must be .*, got None"),
    ):
        with pytest.raises(ValueError, match=message):
            model.set_params(**options).fit(X, y)
        model.set_params(loss="auto", coding="auto")
        assert model.dual_coef_ is before


def test_chunks_take_least_squares_alone():
    X, y = ordered(60)
    with pytest.raises(AttributeError, match="partial_fit") as raised:
        LSSVC(RBF(1.0), C=1.0, loss="logistic").partial_fit(X, y)
    assert "loss='logistic'" in str(raised.value.__cause__)
    with pytest.raises(ValueError, match=r"coding='one-vs-one'.*write loss='squared'"):
        LSSVC(RBF(1.0), C=1.0, coding="one-vs-one").fit_chunks([(X, y)])
    model = LSSVC(RBF(1.0), C=1.0, loss="logistic").fit(X, y).set_params(loss="auto")
    assert not hasattr(model, "partial_fit")
    assert hasattr(clone(model), "partial_fit")
    assert LSSVC(steps=[sparsify.Random(20, random_state=0)]).fit_chunks([(X, y)]).coding_ == "one-vs-rest"


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("coding", CODINGS)
def test_files_hold_every_classifier(coding, name, tmp_path):
    X, y = ordered(60)
    model = LSSVC(RBF(), coding=coding, loss=name).fit(X, y)
    save(model, tmp_path / "model.lssvm")
    read = load(tmp_path / "model.lssvm")
    assert_array_equal(read.predict_proba(X), model.predict_proba(X))
    assert (read.coding_, read.loss_) == (coding, name)
    if (coding, name) != ("one-vs-rest", "squared"):
        assert read.path_.candidates[0].loss == name


def test_auto_records_what_it_compared():
    X, y = ordered(120)
    model = LSSVC().fit(X, y)
    compared = {(c.coding, c.loss) for c in model.path_.candidates}
    assert compared == {*(("one-vs-one", name) for name in LOSSES), ("one-vs-rest", "squared")}
    assert {type(c.kernel) for c in model.path_.candidates} == {RBF, Matern}
    assert min(c.loo for c in model.path_.candidates) > 0
    assert model.path_.evaluations > 0
    assert 0 <= model.path_.error_rate < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("rows", [300, 1000])
def test_irrelevant_columns_cost_little(rows):
    """With a common width, the best classifier of moons among eight columns of noise is nearly linear."""
    X, y = make_moons(rows + 3000, noise=0.25, random_state=0)
    wide = np.hstack([X, np.random.RandomState(0).standard_normal((len(X), 8))])
    found, told = (LSSVC().fit(Z[:rows], y[:rows]) for Z in (wide, X))
    errors = [np.mean(model.predict(Z[rows:]) != y[rows:]) for model, Z in ((found, wide), (told, X))]
    assert errors[0] < 1.15 * errors[1] < 0.08
    assert_array_equal(np.isfinite(found.kernel_.sigma), np.arange(10) < 2)


def test_columns_that_matter_as_a_pair_are_screened():
    """Among 38 columns of noise, neither a common width nor one per column finds the two that matter."""
    X = np.random.default_rng(4).standard_normal((2200, 40))
    y = X[:, 0] * X[:, 1] > 0
    found, told = (LSSVC().fit(Z[:200], y[:200]) for Z in (X, X[:, :2]))
    assert_array_equal(np.isfinite(found.kernel_.sigma), np.arange(40) < 2)
    assert found.score(X[200:], y[200:]) > told.score(X[200:, :2], y[200:]) - 0.02


def test_a_column_is_always_kept():
    """On three rows per half, a classifier without columns may look best."""
    rng = np.random.default_rng(20)
    X = rng.standard_normal((306, 4))
    y = X[:, 0] + X[:, 1] + 0.5 * rng.standard_normal(306) > 0
    assert np.isfinite(LSSVC().fit(X[:6], y[:6]).kernel_.sigma).any()


@pytest.mark.slow
def test_given_widths_of_other_kernels_do_not_move():
    X, y = make_moons(300, noise=0.25, random_state=0)
    X = np.hstack([X, np.random.RandomState(0).standard_normal((300, 8))])
    choice = kernels.Choice([RBF(ard=True) + RBF(), Matern(ard=True) + RBF(3.0)])
    for candidate in LSSVC(choice).fit(X, y).path_.candidates:
        if any(isinstance(leaf, Matern) for leaf in candidate.kernel.leaves):
            assert candidate.kernel.leaves[1].sigma == 3.0
    infinite = np.where(np.arange(10) < 5, 1.0, np.inf)  # a given width may be infinite
    model = LSSVC(RBF(infinite) + RBF(ard=True)).fit(X, y)
    assert_array_equal(model.kernel_.leaves[0].sigma, infinite)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, marks=pytest.mark.slow),
        {"kernel": kernels.RBF()},
        {"kernel": kernels.RBF(), "loss": "squared"},
        {"kernel": kernels.RBF(1.5), "class_weight": {0: 2.0, 1: 1.0, 2: 1.0}},
        {"kernel": kernels.RBF(), "steps": [sparsify.Random(30, random_state=0)]},
    ],
)
def test_a_common_factor_of_all_weights_changes_nothing(settings, classes):
    """Weights that sum to 1, and survey weights: C is chosen for them, and probabilities do not depend on it."""
    draw = np.random.default_rng(1)
    X = draw.standard_normal((90, 3))
    y = np.digitize(X[:, 0] + 0.7 * draw.standard_normal(90), [0.0, 1.0][: classes - 1])
    weights = draw.uniform(0.5, 2.0, 90)
    plain = LSSVC(**settings).fit(X, y, weights)
    for factor in (1024.0,):
        model = LSSVC(**settings).fit(X, y, factor * weights)
        assert factor * model.C_ == pytest.approx(plain.C_, rel=1e-5)
        assert_allclose(model.predict_proba(X), plain.predict_proba(X), rtol=0, atol=1e-5)


def test_large_equal_weights_of_a_tuned_model_are_not_copies():
    """1000 copies of every row would leave nothing to choose by: leave-one-out leaves out whole rows."""
    draw = np.random.default_rng(1)
    X = draw.standard_normal((90, 3))
    y = X[:, 0] + draw.standard_normal(90) > 0
    plain, heavy = (LSSVC(kernels.RBF()).fit(X, y, np.full(90, weight)) for weight in (1.0, 1000.0))
    assert_allclose(heavy.predict_proba(X), plain.predict_proba(X), rtol=0, atol=1e-5)


def test_pairs_of_classes_are_preferred_if_the_difference_is_noise():
    noise = np.random.default_rng(0).standard_normal(100)
    pairs = Candidate(RBF(1.0), 1.0, "one-vs-one", "squared")
    rest, logistic = replace(pairs, coding="one-vs-rest"), replace(pairs, loss="logistic")
    slightly, clearly = noise + np.tile([0.21, -0.19], 50), noise + np.tile([0.24, -0.16], 50)
    for compared, expected in (
        ([(slightly, pairs), (noise, rest)], pairs),
        ([(clearly, pairs), (noise, rest)], rest),
        ([(slightly, pairs), (noise, logistic)], pairs),
        ([(clearly, pairs), (noise, logistic)], logistic),
        ([(clearly, pairs), (slightly, rest), (noise, logistic)], logistic),
    ):
        assert simplest(compared, "one-vs-one") is expected


# Very many classes ----------------------------------------------------------------------------------------------------
def many_classes(classes, rows, seed=0):
    """Rows of each class about its centre."""
    rng = np.random.default_rng(seed)
    centres = 2.0 * np.random.default_rng(0).standard_normal((classes, 8))
    return (centres[:, None] + 0.7 * rng.standard_normal((classes, rows, 8))).reshape(-1, 8), np.repeat(
        range(classes), rows
    )


def test_the_work_of_all_pairs_is_the_sum_over_them():
    counts = np.array([3.0, 1.0, 7.0, 2.0, 2.0])
    assert pair_work(counts) == sum((counts[a] + counts[b]) ** 3 for a, b in pairs_of(5))


def test_with_very_many_classes_no_pairs_are_searched():
    for classes, codings in ((100, ("one-vs-one", "one-vs-rest")), (101, ("one-vs-rest",))):
        problem = Bunch(y=np.zeros((2, classes)), is_known=False, robust=None, row_groups=None)
        assert class_plan(LSSVC(), problem)[0] == codings
        assert class_plan(LSSVC(coding="one-vs-one"), problem)[0] == ("one-vs-one",)
        assert class_plan(LSSVC(loss="logistic"), problem)[1] == ("logistic",)


@pytest.mark.slow
@pytest.mark.parametrize(("classes", "rows"), [(100, 5), (300, 3), (1000, 2)])
def test_very_many_classes_of_few_rows(classes, rows):
    """At most a minute each, and more accurate than the nearest neighbour."""
    X, y = many_classes(classes, rows)
    new, truth = many_classes(classes, 5, seed=1)
    start = time.process_time()
    model = LSSVC().fit(X, y)
    assert time.process_time() - start < 120.0  # on a slow or busy machine
    assert model.score(new, truth) > KNeighborsClassifier(1).fit(X, y).score(new, truth)
