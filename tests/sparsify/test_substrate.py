"""Substrates and the path of eq. (16) against an independent convex solver and its optimality conditions."""

import numpy as np
import pytest
from convex_cases import PRECISE, cvxpy, data
from numpy.testing import assert_allclose, assert_array_equal

from lssvm import LSSVC, LSSVR, datasets
from lssvm.kernels import RBF, Linear, Polynomial
from lssvm.sparsify import Given, Substrate
from lssvm.sparsify.substrate import Homotopy


def l1_objective(K, y, v, zeta, a, b):
    return v @ (y - K @ a - b) ** 2 + zeta * np.abs(a).sum()


def l1_oracle(K, y, v, zeta):
    a, b = cvxpy.Variable(K.shape[1]), cvxpy.Variable()
    loss = cvxpy.sum_squares(cvxpy.multiply(np.sqrt(v), K @ a + b - y))
    problem = cvxpy.Problem(cvxpy.Minimize(loss + zeta * cvxpy.norm1(a)), [cvxpy.sum(a) == 0])
    problem.solve(**PRECISE)
    return problem.value, a.value, float(b.value)


def violation(K, y, v, zeta, a, b):
    """The largest violation of the optimality conditions, in units of the largest correlation."""
    centred = K - v @ K / v.sum()
    c = centred.T @ (v * (y - K @ a - b))
    support = a != 0
    size = np.abs(centred.T @ (v * (y - v @ y / v.sum()))).max()
    mu = np.mean((c - zeta / 2 * np.sign(a))[support]) if support.any() else (c.max() + c.min()) / 2
    inside = np.max(np.abs(c - mu) - zeta / 2, initial=0.0)
    on = np.max(np.abs((c - mu - zeta / 2 * np.sign(a))[support]), initial=0.0)
    return max(inside, on) / size + abs(a.sum()) / max(np.abs(a).sum(), 1.0)


@pytest.mark.parametrize(("kernel", "columns"), [(RBF(0.7), 1), (RBF(1.0), 3), (Polynomial(2), 2), (Linear(), 1)])
def test_the_path_is_optimal_everywhere(kernel, columns):
    X, y = data(80, columns)
    v = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    K = kernel(X)
    start = np.ptp(K.T @ (v * (y - v @ y / v.sum())))
    homotopy = Homotopy(K, y, v)
    homotopy.to(0.01 * start)
    path = homotopy.to(1e-4 * start)
    assert_allclose(path.coef[-1], Homotopy(K, y, v).to(1e-4 * start).coef[-1], atol=1e-9 * np.abs(path.coef[-1]).max())
    assert path.zeta[0] == pytest.approx(start, rel=1e-12)
    assert path.zeta[-1] == pytest.approx(1e-4 * start, rel=1e-12)
    assert not path.coef[0].any()
    between = (path.zeta[1:] + path.zeta[:-1]) / 2
    for zeta in np.concatenate([path.zeta, between]):
        assert violation(K, y, v, zeta, *path.at(zeta)) <= 1e-10


@pytest.mark.parametrize(("sigma", "columns"), [(0.3, 2), (0.1, 1)])
def test_the_path_of_many_columns_is_optimal_everywhere(sigma, columns):
    """Many columns, also where they nearly depend on each other."""
    X, y = data(220, columns)
    v = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    K = RBF(sigma)(X)
    homotopy = Homotopy(K, y, v)
    path = homotopy.to(0.02 * 2 * homotopy.lam)
    assert any(
        len(np.flatnonzero(b)) < len(np.flatnonzero(a)) for a, b in zip(path.coef[:-1], path.coef[1:], strict=True)
    )
    for zeta in np.concatenate([path.zeta, (path.zeta[1:] + path.zeta[:-1]) / 2]):
        assert violation(K, y, v, zeta, *path.at(zeta)) <= 1e-10


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize("seed", range(4))
def test_the_path_agrees_with_a_convex_solver(seed):
    X, y = data(40, 2, seed)
    rng = np.random.default_rng(seed)
    K, v = RBF(0.6)(X), rng.uniform(0.5, 2.0, len(y))
    start = np.ptp(K.T @ (v * (y - v @ y / v.sum())))
    path = Homotopy(K, y, v).to(1e-3 * start)
    for zeta in start * 10.0 ** rng.uniform(-2.5, 0, 4):
        a, b = path.at(zeta)
        value, expected, _ = l1_oracle(K, y, v, zeta)
        assert l1_objective(K, y, v, zeta, a, b) == pytest.approx(value, rel=1e-8)
        support = np.abs(expected) > 1e-5 * np.abs(expected).max()
        assert_array_equal(a != 0, support)
        # the oracle stops where the loss is flat: its coefficients are those of the system of its support and signs
        centred = (K - v @ K / v.sum())[:, support]
        system = np.ones((support.sum() + 1, support.sum() + 1))
        system[:-1, :-1] = centred.T @ (v[:, None] * centred)
        system[-1, -1] = 0.0
        right = centred.T @ (v * y) - zeta / 2 * np.sign(expected[support])
        exact = np.linalg.solve(system, np.append(right, 0.0))[:-1]
        assert_allclose(a[support], exact, rtol=1e-8, atol=1e-8 * np.abs(exact).max())
        assert b == pytest.approx(v @ (y - K[:, support] @ exact) / v.sum(), abs=1e-8)


def test_identical_inputs_have_one_coefficient():
    X, y = data(30, 1)
    twice, targets = np.vstack([X, X]), np.append(y, y + 0.1)
    model = LSSVR(RBF(0.7), C=1.0, steps=[Substrate(zeta=0.5)]).fit(twice, targets)
    assert len(np.unique(model.support_vectors_)) == len(model.support_vectors_)
    K = RBF(0.7)(twice)
    a = np.zeros(60)
    a[model.support_] = model.dual_coef_
    assert violation(K, targets, np.ones(60), 0.5, a, model.intercept_) <= 1e-10


def test_a_substrate_is_the_minimiser_and_its_path_is_kept():
    X, y = data(50)
    model = LSSVR(RBF(1.0), C=1.0, steps=[Substrate(zeta=0.4)]).fit(X, y)
    a = np.zeros(50)
    a[model.support_] = model.dual_coef_
    value, _, _ = l1_oracle(RBF(1.0)(X), y, np.ones(50), 0.4)
    assert l1_objective(RBF(1.0)(X), y, np.ones(50), 0.4, a, model.intercept_) == pytest.approx(value, rel=1e-8)
    assert 2 <= len(model.support_) < 25
    assert np.isnan(model.press_)
    path = model.path_
    assert path.chosen == path.zeta[-1] == 0.4
    assert_array_equal(path.supports[-1], model.support_)
    assert_allclose(path.coef[-1][model.support_], model.dual_coef_)


def test_a_zeta_beyond_working_precision_is_told():
    x = np.linspace(0, 1, 40)[:, None]
    with pytest.warns(UserWarning, match="Substrate: zeta=1e-12 is too small for this kernel"):
        LSSVR(RBF(3.0), C=1.0, steps=[Substrate(zeta=1e-12)]).fit(x, np.sin(9 * x[:, 0]))


@pytest.mark.parametrize("seed", range(8))
def test_the_first_zeta_is_not_too_small(seed):
    """Coefficients are 0 there or rounding, of which no warning should tell."""
    X, y = data(40, 2, seed)
    K = RBF(0.3)(X)
    first = np.ptp((K - K.mean(axis=0)).T @ (y - y.mean()))
    for zeta in first * (1.0 + 1e-15 * np.arange(-4, 5)):
        model = LSSVR(RBF(0.3), C=1.0, steps=[Substrate(zeta=zeta)]).fit(X, y)
        assert_allclose(model.predict(X), y.mean(), atol=1e-12)


def test_a_chosen_basis_leaves_all_errors_in():
    """Eq. (23): alpha belongs to some rows, the errors of all rows count; eq. (22) is zeta = 0."""
    X, y = data(60)
    train = np.arange(0, 60, 2)
    K = RBF(1.0)(X, X[train])
    model = LSSVR(RBF(1.0), C=1.0, steps=[Given(train), Substrate(zeta=0.3)]).fit(X, y)
    value, _, _ = l1_oracle(K, y, np.ones(60), 0.3)
    assert np.sum((y - model.predict(X)) ** 2) + 0.3 * np.abs(model.dual_coef_).sum() == pytest.approx(value, rel=1e-8)
    assert np.isin(model.support_, train).all()
    few = train[:6]
    model = LSSVR(RBF(1.0), C=1.0, steps=[Given(few), Substrate(zeta=0)]).fit(X, y)
    value, expected, intercept = l1_oracle(RBF(1.0)(X, X[few]), y, np.ones(60), 0.0)
    assert_allclose(model.dual_coef_, expected, rtol=1e-5)
    assert model.intercept_ == pytest.approx(intercept, rel=1e-5)
    assert np.sum((y - model.predict(X)) ** 2) == pytest.approx(value, rel=1e-8)
    points = LSSVR(RBF(1.0), C=1.0, steps=[Given(X[few]), Substrate(zeta=0)]).fit(X, y)
    assert_allclose(points.predict(X), model.predict(X), rtol=1e-8)


def test_zeta_has_the_smallest_validation_error_of_the_path():
    X, y = data(70)
    rows = np.arange(3, 70, 4)
    rest = np.setdiff1d(np.arange(70), rows)
    model = LSSVR(RBF(1.0), C=1.0, steps=[Substrate(validation=rows)]).fit(X, y)
    assert not np.isin(model.support_, rows).any()
    error = np.mean((y[rows] - model.predict(X[rows])) ** 2)
    K = RBF(1.0)(X, X[rest])
    path = Homotopy(K[rest], y[rest], np.ones(len(rest))).to(model.path_.zeta[-1])
    grid = np.geomspace(path.zeta[-1], path.zeta[0], 3000)
    errors = [np.mean((y[rows] - K[rows] @ a - b) ** 2) for a, b in map(path.at, grid)]
    assert error <= min(errors) * (1 + 1e-12)
    assert error == pytest.approx(min(errors), rel=1e-3)
    assert np.all(error <= model.path_.scores * (1 + 1e-12))


@pytest.mark.parametrize("zeta", [None, 0.5])
def test_folds_prefer_fewer_and_classes_work(zeta):
    X, y = datasets.load_ripley(return_X_y=True)
    X, y = X[::3], y[::3]
    folds = LSSVC(RBF(0.7), C=1.0, steps=[Substrate(zeta, validation=5, random_state=0)]).fit(X, y)
    assert len(folds.support_) < 25
    assert folds.score(X, y) > 0.8
    if zeta is None:
        path, mean = folds.path_, folds.path_.scores
        assert path.chosen in path.zeta
        assert path.chosen >= path.zeta[np.argmin(mean)]
    multi = LSSVC(RBF(0.7), C=1.0, steps=[Substrate(zeta, random_state=0)]).fit(X, np.arange(len(y)) % 2 + y * 2)
    assert len(multi.path_.outputs) == len(multi.path_.chosen) == len(multi.classes_)


def test_a_substrate_of_given_c_is_the_machine_with_C_1():
    """Eq. (10): (Omega + I) alpha + 1 b = y - c and 1'alpha = 0."""
    X, y = data(30)
    c = np.random.default_rng(5).standard_normal(30)
    system = np.ones((31, 31))
    system[:30, :30] = RBF(1.0)(X) + np.eye(30)
    system[30, 30] = 0.0
    expected = np.linalg.solve(system, np.append(y - c, 0.0))
    model = LSSVR(RBF(1.0), C=1.0, steps=()).fit(X, y - c)
    assert_allclose(np.append(model.dual_coef_, model.intercept_), expected, rtol=1e-9)
    assert_allclose(y - model.predict(X), model.dual_coef_ + c, rtol=1e-8)  # e = alpha + c
    # with c free, (16) reaches what (10) reaches with its own c
    sparse = LSSVR(RBF(1.0), C=1.0, steps=[Substrate(zeta=0.4)]).fit(X, y)
    alpha = np.zeros(30)
    alpha[sparse.support_] = sparse.dual_coef_
    free = y - sparse.predict(X) - alpha
    again = LSSVR(RBF(1.0), C=1.0, steps=()).fit(X, y - free)
    assert_allclose(again.dual_coef_, alpha, atol=1e-9)
