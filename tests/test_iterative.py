"""Conjugate gradients give the machine of the factorisation, and leave-one-out comes when it is asked for."""

import copy
import pickle
import warnings

import numpy as np
import pytest
import reference
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

import lssvm
from lssvm import LSSVC, LSSVR, arrays, kernels, problem, sparsify, system
from lssvm.intervals.loo import FittedLoo, StackedLoo
from lssvm.problem import Problem
from lssvm.system import iterative
from lssvm.tune import constants

LATER = ("leverage_", "loo_residuals_", "loo_predictions_", "press_")
RNG = np.random.default_rng(0)
X = RNG.standard_normal((400, 3))
Y = np.column_stack([np.sin(2 * X[:, 0]) + X[:, 1] ** 2, X[:, 2] + 1e3, RNG.standard_normal(400)])
Y[:, :2] += 0.1 * RNG.standard_normal((400, 2))
NEW = RNG.standard_normal((50, 3))


@pytest.fixture
def small(monkeypatch):
    """Every dense machine counts as large; counts the machines that conjugate gradients solved."""
    monkeypatch.setattr(problem.problem, "ITERATIVE_ROWS", 50)
    solved = []
    solve = iterative.solve

    def counting(*arguments):
        solution = solve(*arguments)
        solved.append(solution is not None and solution[1] == 0.0)
        return solution

    monkeypatch.setattr(iterative, "solve", counting)
    return solved


def direct(model, *data, **options):
    """The same machine by its factorisation."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("ITERATIVE_ROWS", "FACTORISED_ROWS"):
            patch.setattr(problem.problem, name, 10**9)
        return clone(model).fit(*data, **options)


KERNELS = [
    kernels.RBF(1.5),
    kernels.Matern(2.0, nu=0.5),
    kernels.Linear(),
    kernels.RBF(2.0) + kernels.Polynomial(2),
    kernels.Additive(kernels.RBF(1.0)),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("C", [1e-3, 1e2])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_machine_is_that_of_the_factorisation(kernel, C, weighted, small):
    weights = np.r_[np.zeros(7), np.full(13, 1e-4), RNG.uniform(0.1, 3.0, 380)] if weighted else None
    model = LSSVR(kernel, C=C, steps=()).fit(X, Y, sample_weight=weights)
    assert small == [True]
    exact = direct(model, X, Y, sample_weight=weights)
    assert not exact.fitted_.members[0].deferred
    scale = Y.std(axis=0)
    assert_allclose(model.predict(NEW) / scale, exact.predict(NEW) / scale, atol=1e-6, rtol=0)
    assert_allclose(model.predict(X) / scale, exact.predict(X) / scale, atol=1e-7, rtol=0)
    assert_allclose(model.dual_coef_.sum(axis=0), 0.0, atol=1e-9 * np.abs(model.dual_coef_).sum())
    assert_array_equal(model.support_, exact.support_)
    assert not set(LATER) & set(vars(model))
    model.leave_one_out()
    for name in LATER:
        assert_allclose(getattr(model, name), getattr(exact, name), rtol=1e-12)


def test_the_residual_of_the_system_is_as_small_as_said_and_residuals_are_those_of_the_machine(small):
    machine = Problem(kernels.RBF(0.7), X, Y, np.where(np.arange(400) % 9 == 0, 0.0, 1.5), C=30.0)
    fit = machine.solve(loo=False)
    assert small == [True]
    assert fit.leverage is None
    assert fit.loo_residuals is None
    assert_allclose(fit.residuals, Y - fit.predict(X), atol=1e-9 * 1e3)
    rows = machine.rows
    K = kernels.RBF(0.7).evaluate(X[rows], X[rows])
    rest = K @ fit.coef + fit.coef / (30.0 * 1.5) + fit.intercept - Y[rows]
    right = Y[rows] - Y[rows].mean(axis=0)
    assert (np.linalg.norm(rest, axis=0) <= 1.01e-8 * np.linalg.norm(right, axis=0)).all()
    assert reference.kkt_residual(machine, fit) < 1e-8


def test_the_rank_follows_the_ridge():
    K = kernels.RBF(2.0).evaluate(X, X)

    def block(rows, columns, out):
        return np.take(K, rows, axis=0, out=out) if columns is None else K[np.ix_(rows, columns)]

    ranks = []
    for ridge in (10.0, 0.1, 1e-3):
        chosen, factor = iterative.randomly_pivoted(block, np.ones(400), 400, ridge, np.random.RandomState(0))
        rest = K - factor.T @ factor
        assert np.trace(rest) <= ridge
        assert np.linalg.eigvalsh(rest)[0] > -1e-10  # what is left is a kernel matrix, too
        assert_allclose(rest[chosen], 0.0, atol=1e-9)
        ranks.append(len(chosen))
    assert ranks[0] < ranks[1] < ranks[2]


@pytest.mark.parametrize("columns", [1, 3, 9])
def test_the_preconditioner_saves_products_whatever_the_number_of_targets(columns):
    """With a factor to the ridge's own size a handful of products is enough; without one it takes many."""
    K, targets = kernels.RBF(2.0).evaluate(X, X), RNG.standard_normal((400, columns))
    counts = []
    for limit in (0, 400):
        products = []

        def product(V, products=products):
            products.append(len(V))
            return arrays.symmetric_product(V, K)

        def block(rows, columns, out):
            return np.take(K, rows, axis=0, out=out) if columns is None else K[np.ix_(rows, columns)]

        _, factor = iterative.randomly_pivoted(block, np.ones(400), limit, 0.1, np.random.RandomState(0))
        found, left, _ = iterative.solve(product, factor, targets, np.ones(400), 0.1)
        assert left == 0.0
        solution = system.factorise_dual(K.copy, targets, np.ones(400), 0.1).solution(0.1)
        for name in ("coef", "intercept", "residuals"):
            atol = 1e-6 * np.abs(solution.coef).max()
            assert_allclose(getattr(found, name), getattr(solution, name), atol=atol)
        counts.append(len(products))
    assert counts[1] <= 10 < 2 * counts[1] < counts[0]


def test_constant_targets_need_no_step(small):
    model = LSSVR(kernels.RBF(1.0), C=1.0, steps=()).fit(X, np.column_stack([np.full(400, 7.0), Y[:, 0]]))
    assert small == [True]
    assert_allclose(model.predict(NEW)[:, 0], 7.0, rtol=1e-14)


@pytest.mark.slow
def test_robust_weights_are_those_of_the_factorisation(small):
    y = Y[:, 0] + np.where(np.arange(400) % 20 == 0, 30.0, 0.0)
    model = LSSVR(kernels.RBF(1.5), C=10.0, steps=(), robust="hampel").fit(X, y)
    assert small == [True, True]
    exact = direct(model, X, y)
    assert_allclose(model.weights_, exact.weights_, atol=1e-6)
    assert exact.weights_.min() < 0.1
    assert_allclose(model.predict(NEW), exact.predict(NEW), atol=1e-6)
    assert_allclose(model.leave_one_out().loo_residuals_, exact.loo_residuals_, rtol=1e-4, atol=1e-5)
    assert_allclose(model.predict_interval(NEW), exact.predict_interval(NEW), atol=1e-4)


@pytest.mark.parametrize("classes", [2, 7])
def test_classes_and_their_probabilities(classes, small):
    y = np.digitize(Y[:, 0], np.quantile(Y[:, 0], np.linspace(0, 1, classes + 1)[1:-1]))
    model = LSSVC(kernels.RBF(1.5), C=5.0, steps=(), class_weight="balanced").fit(X, y)
    assert small == [True]
    exact = direct(model, X, y)
    assert_allclose(model.decision_function(NEW), exact.decision_function(NEW), atol=1e-6)
    assert_array_equal(model.predict(NEW), exact.predict(NEW))
    assert model.fitted_.members[0].slopes is None
    assert_allclose(model.predict_proba(NEW), exact.predict_proba(NEW), atol=1e-6)
    assert_array_equal(model.loo_predictions_, exact.loo_predictions_)


def test_rows_are_computed_again_where_the_matrix_does_not_fit(small, monkeypatch):
    model = LSSVR(kernels.RBF(1.5), C=10.0, steps=())
    exact = direct(model, X, Y)
    monkeypatch.setattr(arrays, "memory", lambda array, free=False: 8 * 300**2)
    monkeypatch.setattr(Problem, "columns", lambda self, *parts, **options: pytest.fail("the matrix was built"))
    assert_allclose(model.fit(X, Y).predict(NEW), exact.predict(NEW), rtol=1e-6)
    assert small == [True]
    with pytest.raises(MemoryError, match="400 rows"):
        model.leave_one_out()
    monkeypatch.setattr(iterative, "solve", lambda *arguments: None)
    with pytest.raises(MemoryError, match=r"400 rows.*basis"):
        LSSVR(kernels.RBF(1.5), C=10.0, steps=()).fit(X, Y)


def test_what_does_not_converge_is_factorised(small, monkeypatch):
    """An indefinite matrix, and a ridge far below what the bounded rank and number of products can reach."""
    monkeypatch.setattr(iterative, "RANK", 5.0)
    rows = np.arange(400)
    indefinite = kernels.RBF(1.5).evaluate(X, X) - 3.0 * np.diag(rows % 2)
    rough = np.minimum(rows[:, None], rows[None, :]) + 0.0  # slow decay
    for K, C in ((indefinite, 10.0), (rough, 1e9)):
        model = LSSVR(kernels.Precomputed(), C=C, steps=()).fit(K, Y[:, 0])
        assert not small.pop()
        assert_array_equal(model.predict(K), direct(model, K, Y[:, 0]).predict(K))
        assert "press_" in vars(model)


def test_a_tuned_machine_has_its_leave_one_out_at_once(small):
    model = LSSVR(kernels.RBF(1.5), steps=()).fit(X[:100], Y[:100, 0])
    assert "press_" in vars(model)
    assert not small


@pytest.mark.parametrize("copied", ["pickle", "copy", "file"])
def test_leave_one_out_is_asked_for_after_a_copy(copied, small, tmp_path):
    model = LSSVC(kernels.RBF(1.5), C=5.0, steps=()).fit(X, Y[:, 0] > 1)
    if copied == "file":
        lssvm.save(model, tmp_path / "model.lssvm")
        other = lssvm.load(tmp_path / "model.lssvm")
    else:
        other = pickle.loads(pickle.dumps(model)) if copied == "pickle" else copy.deepcopy(model)
    assert model.fitted_.members[0].deferred
    assert other.fitted_.members[0].deferred
    assert_array_equal(other.predict(NEW), model.predict(NEW))
    assert other.leave_one_out().press_ > 0
    assert model.fitted_.members[0].deferred
    assert other.press_ == model.leave_one_out().press_
    assert_array_equal(other.predict_proba(NEW), model.predict_proba(NEW))
    if copied == "file":  # with all of it in the file
        lssvm.save(model, tmp_path / "model.lssvm")
        assert not lssvm.load(tmp_path / "model.lssvm").fitted_.members[0].deferred


def test_other_names_are_missing_and_a_new_fit_forgets(small):
    model = LSSVR(kernels.RBF(1.5), C=5.0, steps=())
    assert not hasattr(model, "press_")
    model.fit(X, Y[:, 0])
    with pytest.raises(AttributeError, match="'LSSVR' object has no attribute 'pres_'"):
        _ = model.pres_
    assert "press_" in vars(model.leave_one_out())
    assert "press_" not in vars(model.fit(X, Y[:, 1]))
    assert "press_" not in vars(clone(model))
    model.partial_fit(X[:5], Y[:5, 1])
    assert not hasattr(model, "press_")


def test_bits_are_the_same_and_threads_agree(small):
    found = []
    for threads in (1, 1, 2):
        with threadpool_limits(threads):
            found.append(Problem(kernels.RBF(1.5), X, Y, np.ones(400), C=10.0).solve(loo=False))
    for name in ("coef", "intercept", "residuals"):
        first, second, other = (getattr(fit, name) for fit in found)
        assert_array_equal(first, second)
        assert_allclose(other, first, rtol=1e-10, atol=1e-10 * np.abs(first).max())


@pytest.mark.parametrize("name", LATER)
def test_asking_for_an_attribute_of_leave_one_out_costs_nothing(name, small, monkeypatch):
    model = LSSVR(kernels.RBF(1.0), C=1.0, steps=()).fit(X, Y[:, 0])
    monkeypatch.setattr(Problem, "factorise", lambda self, *_, **__: pytest.fail("an O(l^3) solve"))
    assert not hasattr(model, name)
    with pytest.raises(AttributeError, match=rf"{name} .* call leave_one_out\(\) first"):
        getattr(model, name)


def test_a_chunk_more_does_not_compute_leave_one_out(small, monkeypatch):
    model = LSSVC(kernels.RBF(1.0), C=1.0, steps=()).fit(X, Y[:, 0] > 1)
    with monkeypatch.context() as patch:
        patch.setattr(Problem, "factorise", lambda self, *_, **__: pytest.fail("an O(l^3) solve"))
        model.partial_fit(NEW, NEW[:, 0] > 0)
    whole = LSSVC(kernels.RBF(1.0), C=1.0, steps=[sparsify.Given(X)]).fit(
        np.vstack([X, NEW]), np.r_[Y[:, 0] > 1, NEW[:, 0] > 0]
    )
    # the slopes are those of leave-one-out with the basis that partial_fit keeps
    assert_allclose(model.predict_proba(NEW), whole.predict_proba(NEW), atol=1e-4)


def test_leave_one_out_needs_the_rows():
    model = LSSVR(kernels.RBF(1.0), C=1.0).fit_chunks([(X, Y[:, 0])], leave_one_out="none")
    pressed = LSSVR(kernels.RBF(1.0), C=1.0).fit_chunks([(X, Y[:, 0])], leave_one_out="press")
    for short in (model, pressed):
        with pytest.raises(ValueError, match="leave_one_out='rows'"):
            short.leave_one_out()
    rows = LSSVR(kernels.RBF(1.0), C=1.0).fit_chunks([(X, Y[:, 0])])
    assert rows.leave_one_out().press_ == rows.press_


# Leave-one-out without a factorisation --------------------------------------------------------------------------------
@pytest.fixture
def estimated(monkeypatch):
    """Leave-one-out residuals are estimated for the 400 rows; without lasting effect on `direct`."""
    monkeypatch.setattr(problem.problem, "FACTORISED_ROWS", 50)


def problem_of(kernel, C=10.0, weights=None):
    return Problem(kernel, X, Y, np.ones(400) if weights is None else weights, C=C)


def exactly(machine):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(problem.problem, "FACTORISED_ROWS", 10**9)
        return machine.solve()


WEIGHTS = np.r_[np.zeros(7), np.full(13, 1e-2), RNG.uniform(0.1, 3.0, 380)]


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
@pytest.mark.parametrize("neighbours", [100, 400])
def test_estimated_residuals_are_near_those_of_refits(weights, neighbours, estimated, monkeypatch):
    monkeypatch.setattr(iterative, "NEIGHBOURS", neighbours)
    machine = problem_of(kernels.Matern(2.0, nu=0.5), weights=weights)
    fit, exact = machine.solve(), exactly(machine)
    assert fit.loo_error > 0.0 == exact.loo_error
    assert_allclose(fit.coef, exact.coef, atol=1e-6 * np.abs(exact.coef).max())
    rows = machine.rows
    ratio = fit.loo_residuals[rows, 0] / exact.loo_residuals[rows, 0]
    assert np.sqrt(np.mean((ratio - 1.0) ** 2)) < 0.06  # the bias, which 400 rows leave uncertain, is not estimated
    assert_allclose(np.sum(fit.loo_residuals**2, axis=0), np.sum(exact.loo_residuals**2, axis=0), rtol=0.06)
    assert_allclose(1.0 - fit.leverage[rows], fit.residuals[rows, 0] / fit.loo_residuals[rows, 0], rtol=1e-3)


def test_variances_given_all_rows_are_those_of_the_inverse():
    K, ridges, order = kernels.RBF(1.0).evaluate(X, X), RNG.uniform(0.1, 1.0, 400), RNG.permutation(400)

    def block(rows, columns, out):
        return K[rows] if columns is None else K[np.ix_(rows, columns)]

    exact = 1.0 / np.diagonal(np.linalg.inv(K + np.diag(ridges))) - ridges
    assert_allclose(iterative.near_variances(block, np.ones(400), ridges, order, 400), exact, rtol=1e-8)
    fewer = iterative.near_variances(block, np.ones(400), ridges, order, 90)
    assert (fewer > exact * (1.0 - 1e-9)).all()  # given fewer rows, the variance is larger
    assert np.mean(fewer / exact) < 1.5


def test_checked_rows_are_exact():
    K, checked = kernels.RBF(1.0).evaluate(X, X), np.array([3, 50, 399])
    factor = np.linalg.cholesky(K + 1e-10 * np.eye(400)).T[:40].copy()  # any factor of a part will do
    _, left, scales = iterative.solve(lambda V: V @ K, factor, Y, np.full(400, 2.0), 0.5, checked)
    bordered = np.block([[K + 0.25 * np.eye(400), np.ones((400, 1))], [np.ones((1, 400)), np.zeros((1, 1))]])
    assert left == 0.0
    assert_allclose(scales, 1.0 / np.diagonal(np.linalg.inv(bordered))[checked], rtol=1e-3)


def test_poor_estimates_are_reported(estimated, monkeypatch):
    monkeypatch.setattr(iterative, "NEIGHBOURS", 2)
    with pytest.warns(
        UserWarning, match=r"leave-one-out residuals of 400 rows are estimates, with errors of about \d+%"
    ):
        assert problem_of(kernels.Matern(2.0), C=100.0).solve().loo_error > 0.1


def test_what_nearly_converges_is_reported_if_there_are_many_rows(estimated, monkeypatch):
    rows = np.arange(400)
    rough = np.minimum(rows[:, None], rows[None, :]) + 0.0
    model = LSSVR(kernels.Precomputed(), C=1e9, steps=())
    exact = direct(model, rough, Y[:, 0]).predict(rough)
    monkeypatch.setattr(problem.problem, "ITERATIVE_ROWS", 50)
    monkeypatch.setattr(problem.problem, "NOT_SOLVED", 1.0)
    monkeypatch.setattr(iterative, "RANK", 1.0)
    with pytest.warns(ConvergenceWarning, match="relative residual of .* C = 1e\\+09: lower C, or use a basis"):
        model.fit(rough, Y[:, 0])
    assert np.abs(model.predict(rough) - exact).max() < 3.0 * Y[:, 0].std()
    monkeypatch.setattr(problem.problem, "NOT_SOLVED", 1e-12)
    assert_array_equal(model.fit(rough, Y[:, 0]).predict(rough), exact)


def test_extreme_targets_have_lower_weights(estimated, monkeypatch):
    monkeypatch.setattr(constants, "ITERATIVE_SAMPLE", 300)
    y = Y[:, 0] + np.where(np.arange(400) % 133 == 7, 1e3, 0.0)
    model = LSSVR(kernels.RBF(1.5), steps=()).fit(X, y)
    assert (model.weights_ < 1e-3).sum() == 3
    assert np.sqrt(np.mean((model.predict(X) - Y[:, 0])[np.arange(400) % 133 != 7] ** 2)) < 0.3


def test_stacks_of_estimates_and_exact_values(estimated):
    dense = problem_of(kernels.RBF(1.5), C=1.0)
    parts = [FittedLoo(one, one.solve()) for one in (dense, dense.with_basis(np.arange(30)))]
    found = StackedLoo(parts, [0.25, 0.75]).predictions(NEW)
    assert found.shape == (50, 400, 3)
    expected = 0.25 * dense.solve().predict(NEW)[:, None, :] + 0.75 * parts[1].predictions(NEW)
    assert_allclose(found, expected, rtol=1e-12)


def test_equal_rows_need_few_systems():
    rows = np.repeat(np.arange(4.0), 250)[:, None]
    K, systems = kernels.RBF(1.0).evaluate(rows, rows), []

    def block(picked, columns, out):
        systems.append(columns is None)
        return K[picked] if columns is None else K[np.ix_(picked, columns)]

    iterative.near_variances(block, np.ones(1000), np.full(1000, 0.1), np.arange(1000), 512)
    assert sum(systems) < 40


def test_intervals_of_estimates_are_those_of_the_factorisation(small, estimated):
    y = Y[:, 0] + RNG.standard_normal(400)
    model = LSSVR(kernels.RBF(1.5), C=1.0, steps=()).fit(X, y)
    ours = model.predict_interval(NEW, method="jackknife+")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(problem.problem, "FACTORISED_ROWS", 10**9)
        exact = direct(LSSVR(kernels.RBF(1.5), C=1.0, steps=()), X, y).predict_interval(NEW, method="jackknife+")
    width = np.mean(exact[:, 1] - exact[:, 0])
    assert np.abs(ours - exact).max() < 0.15 * width
    assert abs(np.mean(ours[:, 1] - ours[:, 0]) / width - 1.0) < 0.05


# Tensors, and a matrix that does not fit in memory --------------------------------------------------------------------
def on_torch(machine):
    torch = pytest.importorskip("torch")
    X, y, weights = (torch.asarray(a) for a in (machine.X, machine.y, machine.weights))
    return machine.replace(X=X, y=y, weights=weights)


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
def test_tensors_have_the_fit_of_arrays(stored, weights, estimated, monkeypatch):
    machine = problem_of(kernels.Matern(2.0, nu=0.5), weights=weights)
    exact, ours = exactly(machine), machine.solve()
    if not stored:
        monkeypatch.setattr(arrays, "memory", lambda array, free=False: 10 * 350**2)
        monkeypatch.setattr(Problem, "columns", lambda self, *parts, **options: pytest.fail("the matrix was built"))
    fit = on_torch(machine).solve()
    assert type(fit.coef).__module__ == "torch"
    assert_allclose(fit.coef, exact.coef, atol=1e-6 * np.abs(exact.coef).max())
    assert_allclose(fit.predict(on_torch(machine).X), exact.predict(X), atol=1e-6 * Y.std())
    assert_allclose(fit.loo_residuals, ours.loo_residuals, rtol=1e-6, atol=1e-6)
    assert_allclose(fit.leverage, ours.leverage, atol=1e-6)


def test_many_centres_at_a_time_bound_the_variances_as_well(monkeypatch):
    torch = pytest.importorskip("torch")
    K, ridges, order = kernels.RBF(1.0).evaluate(X, X), RNG.uniform(0.1, 1.0, 400), RNG.permutation(400)
    K[7] = K[:, 7] = np.where(np.arange(400) == 7, -5.0, 0.0)  # a system with this row has no factor
    exact = 1.0 / np.diagonal(np.linalg.inv(np.delete(np.delete(K, 7, 0), 7, 1) + np.diag(np.delete(ridges, 7))))
    tensor = torch.asarray(K)

    def block(rows, columns, out):
        return tensor[rows] if columns is None else tensor[np.ix_(rows, columns)]

    monkeypatch.setattr(iterative, "NEIGHBOURS", 90)
    monkeypatch.setattr(iterative, "CENTRES", (7, 3))
    monkeypatch.setattr(arrays, "on_accelerator", lambda array: True)
    one = torch.ones(400, dtype=torch.float64)
    found = np.asarray(iterative.near_variances(block, one, torch.asarray(ridges), order, iterative.NEIGHBOURS))
    found = np.delete(found, 7) - (exact - np.delete(ridges, 7))
    assert (found > -1e-9).all()
    assert np.mean(found / exact) < 0.5


@pytest.mark.parametrize("noise", [1e-7, 1e-2, -1.0])
def test_rough_products_find_the_same_solution(noise):
    """Rounded values of K - 1, values too rough to help, and a matrix that is not positive definite."""
    K, targets, counts = kernels.RBF(2.0).evaluate(X, X), Y[:, :1], [0, 0]
    rough = K - 1.0 + noise * RNG.standard_normal((400, 400)) if noise > 0 else -K

    def product(V, matrix=K, place=0):
        counts[place] += 1
        return V @ matrix

    factor = np.linalg.cholesky(K + 1e-10 * np.eye(400)).T[:150].copy()
    parts = factor, targets, np.full(400, 2.0), 1e-2, np.array([3, 50])
    found, left, scales = iterative.solve(product, *parts, lambda V: product(V, rough, 1))
    assert left == 0.0
    solution = system.factorise_dual(K.copy, targets, np.full(400, 2.0), 1e-2).solution(1e-2)
    assert np.linalg.norm(found.residuals - solution.residuals) <= 3e-6 * np.linalg.norm(targets - targets.mean())
    assert_allclose(scales, 5e-3 / (1.0 - solution.leverage[[3, 50]]), rtol=1e-2)
    assert counts[1] > 0
    assert (counts[0] < counts[1]) == (noise == 1e-7)


NEAR = X + np.where(np.arange(3) == 0, 1e-9, 0.0)


@pytest.mark.parametrize(
    "rows", [np.vstack([X[:200], X[:200]]), np.vstack([X[:200], NEAR[:200]])], ids=["equal", "near"]
)
@pytest.mark.parametrize("stored", [True, False])
def test_ill_conditioned_tensors_end_with_the_factorisation_or_a_warning(rows, stored, estimated, monkeypatch):
    y = np.sin(rows[:, :1]) + 0.1 * RNG.standard_normal((400, 1))
    machine = Problem(kernels.RBF(1.5), rows, y, np.ones(400), C=1e8)
    exact = exactly(machine).predict(NEW)
    if not stored:
        monkeypatch.setattr(arrays, "memory", lambda array, free=False: 10 * 350**2)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        found = np.asarray(on_torch(machine).solve().predict(on_torch(machine.replace(X=NEW)).X))
    if not any(issubclass(one.category, ConvergenceWarning) for one in seen):
        inside = np.abs(NEW).max(axis=1) < 1.5
        assert_allclose(found[inside], exact[inside], atol=1e-3 * np.abs(exact[inside]).max())
