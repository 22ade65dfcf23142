"""Substrates, structure detection and additive machines against an independent convex solver and their conditions."""

import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linprog
from sklearn.linear_model import Lasso
from sklearn.utils.fixes import parse_version

from lssvm import LSSVC, LSSVR, datasets, sparsify
from lssvm.intervals import component_deviations
from lssvm.kernels import RBF, Additive, Linear, Polynomial, Spline
from lssvm.sparsify import Components, Given, Substrate
from lssvm.sparsify.programmes import Homotopy, component_blocks, l1_path, structure_programme
from lssvm.sparsify.programmes.parametric import Optimum

cvxpy = pytest.importorskip("cvxpy")
pytest.importorskip("clarabel")

PRECISE = {"solver": "CLARABEL", "tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}


def data(rows=60, columns=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (rows, columns))
    return X, np.sin(3 * X[:, 0]) + 0.5 * X[:, -1] + 0.2 * rng.standard_normal(rows)


# Eq. (16): the L1 path ------------------------------------------------------------------------------------------------
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
    assert_allclose(path.coef[-1], l1_path(K, y, v, 1e-4 * start).coef[-1], atol=1e-9 * np.abs(path.coef[-1]).max())
    assert path.zeta[0] == pytest.approx(start, rel=1e-12)
    assert path.zeta[-1] == pytest.approx(1e-4 * start, rel=1e-12)
    assert not path.coef[0].any()
    between = (path.zeta[1:] + path.zeta[:-1]) / 2
    for zeta in np.concatenate([path.zeta, between]):
        assert violation(K, y, v, zeta, *path.at(zeta)) <= 1e-10


@pytest.mark.parametrize(("sigma", "columns", "end", "kept"), [(0.3, 2, 0.02, False), (0.1, 1, 0.02, True)])
def test_the_path_of_many_columns_is_optimal_everywhere(sigma, columns, end, kept):
    """Many columns: R from their products; where they nearly depend on each other, Q is kept from there on."""
    X, y = data(220, columns)
    v = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    K = RBF(sigma)(X)
    homotopy = Homotopy(K, y, v)
    path = homotopy.to(end * 2 * homotopy.lam)
    assert homotopy.products is not None
    assert (homotopy.Q is not None) == kept
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
    path = l1_path(K, y, v, 1e-3 * start)
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
    path = l1_path(K[rest], y[rest], np.ones(len(rest)), model.path_.zeta[-1])
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


# Eq. (25): structure detection ----------------------------------------------------------------------------------------
FINITE = {"spline": Spline(3), "polynomial": Polynomial(2), "linear": Linear()}


def structure(kernel, rows=50, columns=6, seed=0):
    X, y = datasets.make_additive(rows, columns, random_state=seed)
    kernel = Additive(kernel.placed(X))
    return X, y, kernel, component_blocks(kernel, X, X, np.ones(rows, dtype=bool))


def structure_oracle(kernel, X, y, rho):
    """Eq. (25) with b and 1'alpha = 0, in the coordinates z = S V'alpha of the stacked component kernels U S V'.

    Directions below 1e-10 of the largest are left out, as `Components` says of itself.
    """
    stacked = np.vstack([part(X[:, group]) for group, part in kernel.kept(X.shape[1]).values()])
    U, S, _ = np.linalg.svd(stacked - stacked.mean(axis=1, keepdims=True), full_matrices=False)
    return structure_value(np.split(U[:, 1e-10 * S[0] < S], len(stacked) // len(y)), y, rho)


def structure_value(parts, y, rho):
    z, b, t = cvxpy.Variable(parts[0].shape[1]), cvxpy.Variable(), cvxpy.Variable(len(parts))
    bounds = [cvxpy.abs(part @ z) <= t[number] for number, part in enumerate(parts)]
    loss = 0.5 * cvxpy.sum_squares(sum(parts) @ z + b - y) + rho * cvxpy.sum(t)
    problem = cvxpy.Problem(cvxpy.Minimize(loss), bounds)
    problem.solve(**PRECISE)
    return problem.value, t.value, z.value


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize(
    "kernel", [*FINITE.values(), RBF(0.02), RBF(0.1), RBF(0.5)], ids=[*FINITE, "rbf 0.02", "rbf 0.1", "rbf 0.5"]
)
def test_structure_agrees_with_a_convex_solver(kernel):
    X, y, additive, blocks = structure(kernel)
    shares = 10.0 ** np.random.default_rng(0).uniform(-2, 0, 3)
    for rho in structure_programme(blocks, y, np.ones(50)).largest_rho * shares:
        model = LSSVR(additive, C=1.0, steps=[Components(rho, refit=False)]).fit(X, y)
        t = model.path_.max_variation[0]
        value, expected, _ = structure_oracle(additive, X, y, rho)
        assert 0.5 * np.sum((y - model.predict(X)) ** 2) + rho * t.sum() == pytest.approx(value, rel=1e-8)
        assert_allclose(t, expected, atol=2e-5 * expected.max())
        if blocks.basis is None:
            assert_array_equal(t > 0, expected > 1e-5 * expected.max())
            assert_array_equal(model.active_, np.flatnonzero(t))


def structure_objective(parts, y, rho, alpha):
    """Eq. (25) as it is printed, of coefficients in double precision."""
    components = [part @ alpha for part in parts]
    e = y - sum(components)
    return 0.5 * np.sum((e - e.mean()) ** 2) + rho * sum(np.abs(component).max() for component in components)


@pytest.mark.parametrize("sigma", [0.02, 0.1, 0.2])
def test_structure_is_not_above_a_convex_solver_in_the_coefficients(sigma):
    """The convex solver gets eq. (25) in alpha, with nothing left out; for wider kernels it finds no solution."""
    X, y, additive, blocks = structure(RBF(sigma))
    parts = [part(X[:, group]) for group, part in additive.kept(X.shape[1]).values()]
    alpha, b, t = cvxpy.Variable(50), cvxpy.Variable(), cvxpy.Variable(len(parts))
    bounds = [cvxpy.abs(part @ alpha) <= t[number] for number, part in enumerate(parts)]
    programme = structure_programme(blocks, y, np.ones(50))
    for rho in programme.largest_rho * 10.0 ** np.random.default_rng(1).uniform(-3, 0, 4):
        loss = 0.5 * cvxpy.sum_squares(sum(parts) @ alpha + b - y) + rho * cvxpy.sum(t)
        cvxpy.Problem(cvxpy.Minimize(loss), [*bounds, cvxpy.sum(alpha) == 0]).solve(**PRECISE)
        expected = structure_objective(parts, y, rho, alpha.value - alpha.value.mean())
        ours = structure_objective(parts, y, rho, blocks.alpha(programme.solve(rho).at(rho)[0]))
        assert ours <= expected + 1e-8 * 0.5 * np.sum((y - y.mean()) ** 2)


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize("sigma", [1.0, 2.0, np.sqrt(10)])
def test_structure_of_wide_kernels_agrees_with_a_convex_solver(sigma):
    """For the same functions to 1e-8; rounding in the kernel moves those near the cut by 1e-16/1e-10 of their size."""
    X, y, additive, blocks = structure(RBF(sigma))
    assert blocks.basis is not None
    programme = structure_programme(blocks, y, np.ones(50))
    parts = [part(X[:, group]) for group, part in additive.kept(X.shape[1]).values()]
    for rho in programme.largest_rho * 10.0 ** np.random.default_rng(0).uniform(-3, 0, 4):
        z, t = programme.solve(rho).at(rho)
        f = sum(blocks.Q) @ z[blocks.places[0]] + programme.intercept(z)
        ours = 0.5 * np.sum((y - f) ** 2) + rho * t.sum()
        expected, scale = structure_value(blocks.Q, y, rho)[0], 1e-8 * 0.5 * np.sum((y - y.mean()) ** 2)
        assert ours == pytest.approx(expected, abs=scale)
        assert ours <= expected + 0.01 * scale  # ours is the better one
        assert ours == pytest.approx(structure_oracle(additive, X, y, rho)[0], rel=1e-5)
        assert ours == pytest.approx(structure_objective(parts, y, rho, blocks.alpha(z)), rel=1e-5)


def test_the_directions_left_out_are_beyond_coefficients_in_double_precision():
    """With directions down to 1e-14 the minimum is clearly lower, but no coefficients hold it to 1e-8."""
    X, y, additive, blocks = structure(RBF(2.0))
    rho = 0.05 * structure_programme(blocks, y, np.ones(50)).largest_rho
    parts = [part(X[:, group]) for group, part in additive.kept(X.shape[1]).values()]
    stacked = np.vstack(parts)
    U, S, V = np.linalg.svd(stacked - stacked.mean(axis=1, keepdims=True), full_matrices=False)
    kept = 1e-14 * S[0] < S
    lower, _, z = structure_value(np.split(U[:, kept], len(parts)), y, rho)
    alpha = V[kept].T @ (z / S[kept])
    assert lower < 0.99 * structure_value(blocks.Q, y, rho)[0]
    assert np.abs(alpha).max() > 1e11
    assert structure_objective(parts, y, rho, alpha - alpha.mean()) > (1 + 1e-5) * lower


@pytest.mark.parametrize("kernel", FINITE.values(), ids=FINITE)
def test_structure_is_optimal_to_working_precision(kernel):
    _, y, _, blocks = structure(kernel)
    v = np.random.default_rng(2).uniform(0.5, 2.0, len(y))
    programme = structure_programme(blocks, y, v)
    for rho in np.geomspace(0.9, 0.003, 8) * programme.largest_rho:
        piece = programme.solve(rho)
        z, t = piece.at(rho)
        f = sum(Q @ z[place] for Q, place in zip(blocks.Q, blocks.places, strict=True)) + programme.intercept(z)
        e = v * (y - f)
        assert abs(e.sum()) <= 1e-10 * np.abs(e).sum()
        multipliers = piece.multipliers_at(rho)
        assert multipliers.min(initial=0.0) >= -1e-10 * rho
        for number, (Q, place) in enumerate(zip(blocks.Q, blocks.places, strict=True)):
            component, gradient = Q @ z[place], Q.T @ e
            assert np.abs(component).max() <= t[number] + 1e-10 * t.max()
            if t[number] == 0.0:  # multipliers that sum to rho at most must give the gradient
                assert not z[place].any()
                least = linprog(
                    np.ones(2 * len(y)), A_eq=np.hstack([Q.T, -Q.T]), b_eq=gradient, bounds=(0, None), method="highs"
                )
                assert least.fun <= rho * (1 + 1e-8)
                continue
            own = [(k, i, sign) for k, (c, i, sign) in enumerate(piece.active) if c == number]
            assert sum(multipliers[k] for k, _, _ in own) == pytest.approx(rho, rel=1e-10)
            back = sum(multipliers[k] * sign * Q[i] for k, i, sign in own)
            assert_allclose(back, gradient, atol=1e-10 * np.abs(Q.T @ (v * y)).max())
            for _, i, sign in own:
                assert sign * component[i] == pytest.approx(t[number], rel=1e-9)


@pytest.mark.parametrize("kernel", [Spline(3), Polynomial(2)])
def test_a_piece_is_the_solution_inside_its_interval_only(kernel):
    _, y, _, blocks = structure(kernel)
    programme = structure_programme(blocks, y, np.ones(50))
    for rho in np.array([0.3, 0.1, 0.03]) * programme.largest_rho:
        following = programme.pieces(rho, 0.01 * rho)
        next(following)
        piece, low, high = next(following)
        assert low < high < rho
        for inside in (low + 0.01 * (high - low), (low + high) / 2, high - 0.01 * (high - low)):
            assert_allclose(piece.at(inside)[0], programme.solve(inside).at(inside)[0], atol=1e-8)
        for outside in (low - 0.05 * (high - low), high + 0.05 * (high - low)):
            assert np.abs(piece.at(outside)[0] - programme.solve(outside).at(outside)[0]).max() > 1e-9


def structure_violation(programme, y, v, piece, rho):
    """The KKT residual of eq. (25) as docs/additive.md defines it: each condition as a share of its own unit.

    From the components and their multipliers alone: nothing of how they were found.
    """
    blocks = programme.blocks
    z, t = piece.at(rho)
    centred = y - v @ y / v.sum()
    size = np.sqrt(v @ centred**2 / len(y))
    e = v * (y - sum(Q @ z[p] for Q, p in zip(blocks.Q, blocks.places, strict=True)) - programme.intercept(z))
    multipliers = piece.multipliers_at(rho)
    gradient, first, back, sums = np.zeros(len(z)), np.zeros(len(z)), np.zeros(len(z)), np.zeros(len(t))
    worst = [abs(e.sum()) / np.abs(v * centred).sum(), -multipliers.min(initial=0.0) / rho]
    for m, (part, i, sign) in zip(multipliers, piece.active, strict=True):
        q = blocks.Q[part][i]
        back[blocks.places[part]] += m * sign * q
        sums[part] += m
        worst.append(abs(m * (t[part] - sign * q @ z[blocks.places[part]])) / (rho * size))
    for part, (Q, place) in enumerate(zip(blocks.Q, blocks.places, strict=True)):
        gradient[place], first[place] = Q.T @ e, Q.T @ (v * centred)
        worst.append((np.abs(Q @ z[place]).max() - t[part]) / size)
        if t[part] > 0:
            worst.append(abs(sums[part] - rho) / rho)
        elif blocks.basis is None and Q.shape[1]:
            least = linprog(-gradient[place], A_ub=np.vstack([Q, -Q]), b_ub=np.ones(2 * len(Q)), bounds=(None, None))
            worst.append((-least.fun - rho) / rho)
            back[place] = gradient[place]
    rest = gradient - back
    if blocks.basis is not None:
        rest, first = blocks.basis.T @ rest, blocks.basis.T @ first
    return max(*worst, np.abs(rest).max() / np.abs(first).max())


@pytest.mark.parametrize("kernel", FINITE.values(), ids=FINITE)
@pytest.mark.parametrize("coded", [False, True])
def test_the_pieces_are_the_whole_path(kernel, coded):
    """No breakpoint is missed: every piece begins where the last one ended and is optimal inside."""
    X, y = datasets.make_additive(40, 5, random_state=3)
    if coded:
        X = np.column_stack([np.round(2 * X), X[:, 0] > 0.5, np.ones(40), X[:, 0], np.round(2 * X[:, 0])])
    kernel = Additive(kernel.placed(X))
    blocks = component_blocks(kernel, X, X, np.ones(40, dtype=bool))
    assert blocks.basis is None
    v = np.random.default_rng(0).uniform(0.5, 2.0, 40)
    programme = structure_programme(blocks, y, v)
    end = programme.largest_rho
    before = np.zeros(blocks.places[-1].stop)
    for piece, low, high in programme.pieces(end, 1e-4 * end):
        assert high == pytest.approx(end, rel=1e-12)
        assert_allclose(piece.at(high)[0], before, atol=1e-7 * np.abs(y).max())
        for rho in (low, (low + high) / 2, high):
            assert structure_violation(programme, y, v, piece, rho) <= 1e-10
        end, before = low, piece.at(low)[0]
    assert end == pytest.approx(1e-4 * programme.largest_rho, rel=1e-12)
    assert before.any()


@pytest.mark.parametrize(("kernel", "seed"), [(Polynomial(2), 12), (Spline(3), 17)])
def test_steep_multipliers_are_0_where_their_rows_enter(kernel, seed):
    """The rounding in where that is, times the slope, is 1e-8 of rho in these draws; the piece begins without it."""
    _, y, _, blocks = structure(kernel, 40, 5, seed)
    v = np.random.default_rng(seed).uniform(0.5, 2.0, 40)
    programme = structure_programme(blocks, y, v)
    for piece, low, high in programme.pieces(programme.largest_rho, 1e-4 * programme.largest_rho):
        for rho in (low, high):
            assert structure_violation(programme, y, v, piece, rho) <= 1e-10


@pytest.mark.parametrize("sigma", [0.1, 0.5, 1.0, 2.0, np.sqrt(10), 10.0])
def test_components_that_share_alpha_are_optimal(sigma):
    _, y, _, blocks = structure(RBF(sigma))
    assert blocks.basis is not None
    v = np.random.default_rng(2).uniform(0.5, 2.0, len(y))
    programme = structure_programme(blocks, y, v)
    assert not programme.solve(1.0001 * programme.largest_rho).z.any()
    assert programme.solve(0.999 * programme.largest_rho).z.any()
    for rho in np.geomspace(0.99, 1e-4, 12) * programme.largest_rho:
        assert structure_violation(programme, y, v, programme.solve(rho), rho) <= 1e-10


def symmetric(rng):
    """Columns of few values and their mirror images: many rows meet their bounds at once."""
    X = np.round(3 * rng.uniform(size=(16, 3)), 1)
    return np.vstack([X, -X])


@pytest.mark.parametrize(
    ("make", "kernel"),
    [(lambda rng: rng.uniform(size=(30, 4)), RBF(sigma)) for sigma in (0.1, 0.5, 2.0, 10.0)]
    + [(symmetric, RBF(1.0)), (lambda rng: rng.uniform(size=(10, 8)), Spline(4))],
    ids=["0.1", "0.5", "2", "10", "symmetric", "splines of few rows"],
)
def test_the_pieces_are_the_whole_path_where_alpha_is_shared(make, kernel):
    """Every piece begins where the last one ended, with the same components, and is optimal from end to end."""
    rng = np.random.default_rng(0)
    X = make(rng)
    y = np.sin(3 * X[:, 0]) + X[:, 1] + 0.2 * rng.standard_normal(len(X))
    v = rng.uniform(0.5, 2.0, len(X))
    blocks = component_blocks(Additive(kernel.placed(X)), X, X, np.ones(len(X), dtype=bool))
    assert blocks.basis is not None
    programme = structure_programme(blocks, y, v)
    top = end = programme.largest_rho
    Q = scipy.linalg.block_diag(*blocks.Q)
    before = np.zeros(len(Q))
    for number, (piece, low, high) in enumerate(programme.pieces(top, 1e-5 * top)):
        assert high == pytest.approx(end, rel=1e-8 if number < 2 else 1e-14)
        assert_allclose(Q @ piece.at(high)[0], before, atol=1e-8 * np.abs(y).max())
        if (number < 5 or number % 3 == 0) and piece.active:
            for rho in (low, (low + high) / 2, high):
                assert structure_violation(programme, y, v, piece, rho) <= 1e-10
        if number % 50 == 20:  # another way to the same optimum
            rho = (low + high) / 2
            other = programme.solve(rho)
            assert_allclose(Q @ piece.at(rho)[0], Q @ other.at(rho)[0], atol=1e-7 * np.abs(y).max())
        end, before = low, Q @ piece.at(low)[0]
    assert end == 1e-5 * top
    assert number > 20


@pytest.mark.parametrize("share", [0.999, 0.8])
def test_an_optimum_begins_with_no_more_working_rows_than_unknowns(share):
    """The interior-point method has many more multipliers; each would take a step to leave."""
    _, y, _, blocks = structure(RBF(np.sqrt(10)), 60, 12)
    programme = structure_programme(blocks, y, np.ones(60))
    parametric, number = programme.parametric, {row: k for k, row in enumerate(programme.signed)}
    found = programme._found(share * programme.largest_rho)
    working = [number[row] for row in found.rows if row in number]
    assert len(working) > 1.5 * parametric.n
    multipliers = np.array([m for row, m in zip(found.rows, found.multipliers, strict=True) if row in number])
    start = Optimum(np.append(found.x, found.t), working, multipliers)
    fewer = parametric.reduced(start)
    assert len(fewer.working) <= parametric.n
    assert fewer.multipliers.min() > 0.0
    assert set(fewer.working) <= set(working)
    rtol = 1e-7 if parse_version(scipy.__version__) >= parse_version("1.16") else 1e-5  # of scipy.optimize.nnls
    assert_allclose(parametric.gradient(fewer), parametric.gradient(start), rtol=rtol, atol=1e-13)


def test_rounding_does_not_pile_up_along_the_path():
    """More than a thousand pieces, each of which begins with what rounding left of the one before."""
    _, y, _, blocks = structure(RBF(2.0), 30, 10)
    programme = structure_programme(blocks, y, np.ones(30))
    top = programme.largest_rho
    found = [
        structure_violation(programme, y, np.ones(30), piece, (low + high) / 2)
        for number, (piece, low, high) in enumerate(programme.pieces(top, 1e-2 * top))
        if number % 20 == 10
    ]
    assert len(found) > 40
    assert max(found) <= 1e-11


@pytest.mark.parametrize("rho", [20.0, 4.0, 0.5])
def test_linear_components_are_the_weighted_lasso(rho):
    """1/2 |Xw + b - y|^2 + rho sum_l max_i |x_il| |w_l|, with the same exact zeros."""
    X, y = datasets.make_additive(60, 8, random_state=1)
    X = X * np.geomspace(1, 5, 8) - 0.3
    size = np.abs(X).max(axis=0)
    lasso = Lasso(alpha=rho / 60, tol=1e-13, max_iter=100_000).fit(X / size, y)
    model = LSSVR(Additive(Linear()), C=1.0, steps=[Components(rho, refit=False)]).fit(X, y)
    assert_allclose(model.predict(X), lasso.predict(X / size), rtol=1e-7)
    assert_array_equal(model.active_, np.flatnonzero(lasso.coef_))
    assert_allclose(model.path_.max_variation[0], np.abs(lasso.coef_), atol=1e-7)


# Eq. (28): fusion -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kernel", "seed"), [(Spline(3), s) for s in range(3)] + [(RBF(w), 0) for w in (0.2, 1.0, 10.0)]
)
def test_fusion_is_never_above_a_fine_grid(kernel, seed):
    X, y = datasets.make_additive(50, 5, random_state=seed)
    rows = np.arange(0, 50, 3)
    kernel = Additive(kernel.placed(X))
    model = LSSVR(kernel, C=1.0, steps=[Components(validation=rows, refit=False)]).fit(X, y)
    error = np.mean((y[rows] - model.predict(X[rows])) ** 2)
    train = np.setdiff1d(np.arange(50), rows)
    inside = np.isin(np.arange(50), train)
    blocks = component_blocks(kernel, X, X[train], inside)
    programme = structure_programme(blocks, y[train], np.ones(len(train)))
    errors = []
    for rho in np.geomspace(1e-3, 1, 150) * programme.largest_rho:
        z, _ = programme.solve(rho).at(rho)
        errors.append(np.mean((y[rows] - np.hstack(blocks.other) @ z - programme.intercept(z)) ** 2))
    assert model.path_.scores.min() <= min(errors) * (1 + 1e-9)
    assert model.path_.rho[0] == pytest.approx(programme.largest_rho)
    assert model.path_.rho[-1] == pytest.approx(1e-5 * programme.largest_rho)
    if blocks.basis is None:  # otherwise rounding in alpha moves the predictions a little
        assert error <= min(errors) * (1 + 1e-9)
    assert error == pytest.approx(model.path_.scores.min(), rel=1e-6 if blocks.basis is None else 1e-4)
    assert model.support_ is not None
    assert not np.isin(model.support_, rows).any()


def test_fusion_of_several_outputs_merges_their_pieces():
    """One rho for both, though their components appear at different ones."""
    X, y = datasets.make_additive(30, 4, random_state=0)
    Y = np.column_stack([y, 0.1 * np.sin(5 * X[:, 1])])
    rows, train = np.arange(0, 30, 4), np.setdiff1d(np.arange(30), np.arange(0, 30, 4))
    kernel = Additive(RBF(0.7))
    model = LSSVR(kernel, C=1.0, steps=[Components(validation=rows, refit=False)]).fit(X, Y)
    blocks = component_blocks(kernel, X, X[train], np.isin(np.arange(30), train))
    programmes = [structure_programme(blocks, targets, np.ones(len(train))) for targets in Y[train].T]
    top = max(programme.largest_rho for programme in programmes)
    assert min(programme.largest_rho for programme in programmes) < 0.5 * top
    for rho in np.append(np.geomspace(1e-4, 1, 30) * top, model.path_.chosen):
        z = [programme.solve(rho).at(rho)[0] for programme in programmes]
        f = [np.hstack(blocks.other) @ v + p.intercept(v) for p, v in zip(programmes, z, strict=True)]
        error = np.mean(np.sum((Y[rows] - np.column_stack(f)) ** 2, axis=1))
        assert model.path_.scores.min() <= error * (1 + 1e-9)
    assert model.path_.scores.min() == pytest.approx(error, rel=1e-9)


@pytest.mark.parametrize("kernel", [RBF(1.0), Spline(3)])
@pytest.mark.parametrize("size", [0.0, 1e-8])
def test_fusion_of_an_output_that_is_all_but_constant(kernel, size):
    """Its components appear, if at all, below the rho at which the path of the others ends."""
    X, y = datasets.make_additive(30, 4, random_state=0)
    step = Components(validation=np.arange(0, 30, 4), refit=False)
    alone = LSSVR(Additive(kernel), C=1.0, steps=[step]).fit(X, y)
    both = LSSVR(Additive(kernel), C=1.0, steps=[step]).fit(X, np.column_stack([y, 3.0 + size * X[:, 1]]))
    assert both.path_.chosen == pytest.approx(alone.path_.chosen, rel=1e-9)
    assert_allclose(both.predict(X)[:, 0], alone.predict(X), rtol=1e-7)
    assert_allclose(both.predict(X)[:, 1], 3.0, atol=2 * size + 1e-12)
    with pytest.warns(UserWarning, match="no input is kept"):
        constant = LSSVR(Additive(kernel), C=1.0, steps=[step]).fit(X, np.full(30, 3.0))
    assert_allclose(constant.predict(X), 3.0)


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
def test_printed_29_does_not_solve_28():
    """(29) is smaller than the optimum of (28) where complementary slackness, (27ef), does not hold."""
    X, y = datasets.make_additive(25, 8, random_state=0)
    y = y - y.mean()
    train, rows = np.arange(20), np.arange(20, 25)
    kernel = RBF(0.7)
    parts = [kernel(X[train][:, [c]]) for c in range(8)]
    other = sum(kernel(X[rows][:, [c]], X[train][:, [c]]) for c in range(8))
    whole = sum(parts)

    def of_25(rho):
        """The validation error of the training optimum, which is the value of (29) there, and that optimum's."""
        alpha, t = cvxpy.Variable(20), cvxpy.Variable(8)
        loss = 0.5 * cvxpy.sum_squares(whole @ alpha - y[train]) + rho * cvxpy.sum(t)
        bounds = [cvxpy.abs(part @ alpha) <= t[number] for number, part in enumerate(parts)]
        cvxpy.Problem(cvxpy.Minimize(loss), bounds).solve(solver="CLARABEL")
        return np.sum((other @ alpha.value - y[rows]) ** 2), loss.value

    def of_29(rho):
        """The smallest value of (29) for one rho, its slackness terms there, and the loss of (25) there."""
        alpha, t = cvxpy.Variable(20), cvxpy.Variable(8)
        lower, upper = ([cvxpy.Variable(20, nonneg=True) for _ in parts] for _ in range(2))
        pull = sum(part @ (minus - plus) for part, minus, plus in zip(parts, lower, upper, strict=True))
        conditions = [whole.T @ whole @ alpha - whole.T @ y[train] == pull]  # (27a), corrected
        conditions += [cvxpy.sum(a + b) == rho for a, b in zip(lower, upper, strict=True)]  # (27b), by component
        conditions += [cvxpy.abs(part @ alpha) <= t[number] for number, part in enumerate(parts)]
        slackness = rho * cvxpy.sum(t) + cvxpy.sum_squares(whole @ alpha) - y[train] @ whole @ alpha
        value = cvxpy.sum_squares(other @ alpha - y[rows]) + slackness
        cvxpy.Problem(cvxpy.Minimize(value), conditions).solve(solver="CLARABEL")
        loss = 0.5 * np.sum((whole @ alpha.value - y[train]) ** 2) + rho * t.value.sum()
        return value.value, slackness.value, loss

    grid = np.geomspace(0.1, 50, 20)
    exact = min(of_25(rho)[0] for rho in grid)  # (28)
    printed = [of_29(rho) for rho in grid]
    best = int(np.argmin([value for value, _, _ in printed]))
    value, slackness, loss = printed[best]
    assert value < 0.9 * exact
    assert slackness > 0.1 * exact
    assert loss > 1.001 * of_25(grid[best])[1]  # not the training optimum any more


def test_equal_columns_share_a_component():
    X, y = datasets.make_additive(60, 4, random_state=0)
    kernel = Spline(3).placed(X)
    one = LSSVR(Additive(kernel), C=1.0, steps=[Components(rho=8.0, refit=False)]).fit(X, y)
    twice = np.column_stack([X, X[:, 0]])
    kernel = Spline(3).placed(twice)
    two = LSSVR(Additive(kernel), C=1.0, steps=[Components(rho=8.0, refit=False)]).fit(twice, y)
    assert_allclose(two.predict(twice), one.predict(X), rtol=1e-8)
    assert_allclose(two.path_.max_variation[0][[0, 4]], one.path_.max_variation[0][0] / 2)


def test_wide_kernels_keep_their_predictions():
    """Coefficients in directions that the rounded kernel cannot bear would move them by orders of magnitude."""
    X, y = datasets.make_additive(60, 6, random_state=0)
    model = LSSVR(Additive(RBF(14.0)), C=1.0, steps=[Components(refit=False, random_state=0)]).fit(X, y)
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("unit", [1e-12, 1e12])
def test_targets_of_any_unit(unit):
    X, y = datasets.make_additive(60, 6, random_state=0)
    step = Components(validation=None)
    model = LSSVR(Additive(Spline(3)), C=10.0, steps=[step]).fit(X, y)
    scaled = LSSVR(Additive(Spline(3)), C=10.0, steps=[step]).fit(X, unit * y)
    assert_array_equal(scaled.active_, model.active_)
    assert_allclose(scaled.predict(X), unit * model.predict(X), rtol=1e-6)


def test_nothing_kept_is_a_constant_and_told():
    X, y = data(40)
    with pytest.warns(UserWarning, match=r"no input is kept.*rho=1000000\.0 is too large"):
        model = LSSVR(Additive(Spline(3)), C=1.0, steps=[Components(1e6)]).fit(X, y)
    assert_allclose(model.predict(X), y.mean())
    assert model.components(X).shape == (40, 2)
    noise = np.random.default_rng(1).standard_normal(40)
    with pytest.warns(UserWarning, match="no input is kept.*Give rho, or validation=None"):
        LSSVR(Additive(Spline(3)), C=1.0, steps=[Components(random_state=0)]).fit(X, noise)
    for refit in (True, False):
        for inputs, targets in ((np.ones((40, 2)), y), (X, np.ones(40))):
            model = LSSVR(Additive(Spline(3)), C=1.0, steps=[Components(refit=refit, validation=np.arange(8))])
            with pytest.warns(UserWarning, match="no input is kept"):
                model.fit(inputs, targets)
            assert np.ptp(model.predict(inputs)) == 0.0


def test_linear_components_in_any_units():
    """Columns of any size, more than half as many as rows: still the LASSO, with components that can be 0."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(40, 25))
    X[:, 3], X[:, 4] = rng.integers(1950, 2020, 40), rng.uniform(0, 5e4, 40)
    y = np.sin(5 * X[:, 0]) + X[:, 1] ** 2 + 0.01 * (X[:, 3] - 2000) + 0.1 * rng.standard_normal(40)
    model = LSSVR(Additive(Linear()), C=1.0, steps=[Components(2.0, refit=False)]).fit(X, y)
    size = np.abs(X).max(axis=0)
    lasso = Lasso(alpha=2.0 / 40, tol=1e-13, max_iter=1_000_000).fit(X / size, y)
    assert 0 < len(model.active_) < 25
    assert_array_equal(model.active_, np.flatnonzero(lasso.coef_))
    assert_allclose(model.path_.max_variation[0], np.abs(lasso.coef_), atol=1e-6)


def test_columns_too_different_in_size_are_told():
    X, _ = datasets.make_additive(60, 4, random_state=0)
    X[:, 2] = 1e4 * X[:, 2] + 1e4
    X[:, 3] = 1.0
    with pytest.warns(UserWarning, match=r"kernels of components \[0, 1\] are below 1e-07.*centre and scale"):
        component_blocks(Additive(Polynomial(2)), X, X, np.ones(60, dtype=bool))


def test_few_rows_are_told():
    X, y = data(4)
    with pytest.raises(ValueError, match="validation=5 folds need as many rows, 4 count"):
        LSSVR(RBF(1.0), C=1.0, steps=[Substrate(validation=5)]).fit(X, y)
    with pytest.raises(ValueError, match="1 of 2 rows is left for the path"):
        LSSVR(Additive(Linear()), C=1.0, steps=[Components()]).fit(X[:2], y[:2])


# Structure detection as a step ----------------------------------------------------------------------------------------
def selection(draws, step=None):
    exact = complete = 0
    ratios = []
    for seed in range(draws):
        X, y = datasets.make_additive(100, 25, random_state=seed)
        new, clean = datasets.make_additive(1000, 25, noise=0.0, random_state=1000 + seed)
        kernel = Additive(Spline())
        model = LSSVR(kernel, steps=[step or Components(random_state=seed)]).fit(X, y)
        exact += model.active_.tolist() == [0, 1, 2, 3]
        complete += {0, 1, 2, 3} <= set(model.active_)
        all_inputs = LSSVR(kernel, steps=()).fit(X, y)
        errors = [np.mean((m.predict(new) - clean) ** 2) for m in (model, all_inputs)]
        ratios.append(errors[0] / errors[1])
    return exact, complete, np.median(ratios)


def test_the_four_inputs_of_eq_31_are_found():
    exact, complete, ratio = selection(2, Components(validation=None))
    assert complete == 2
    assert exact >= 1
    assert ratio < 0.5


@pytest.mark.slow
def test_the_four_inputs_of_eq_31_are_found_in_most_draws():
    exact, complete, ratio = selection(8)
    assert exact >= 5
    assert complete >= 7
    assert ratio < 0.5


def test_the_refitted_machine_is_the_ordinary_one_on_the_inputs_kept():
    X, y = datasets.make_additive(60, 8, random_state=2)
    model = LSSVR(Additive(Spline(3)), C=20.0, steps=[Components(rho=15.0)]).fit(X, y)
    assert 0 < len(model.active_) < 8
    only = Additive(Spline(3).placed(X).columns(model.active_))
    plain = LSSVR(only, C=20.0, steps=()).fit(X[:, model.active_], y)
    assert_allclose(model.predict(X), plain.predict(X[:, model.active_]), rtol=1e-9)
    assert_allclose(model.loo_residuals_, plain.loo_residuals_, rtol=1e-8)
    changed = X.copy()
    changed[:, np.setdiff1d(np.arange(8), model.active_)] = 1e6
    assert_array_equal(model.predict(changed), model.predict(X))  # dropped columns are not looked at
    assert_array_equal(model.path_.kept[0], model.active_)


def test_what_was_left_open_is_chosen_for_the_inputs_kept():
    X, y = datasets.make_additive(60, 6, random_state=0)
    model = LSSVR(Additive(RBF()), steps=[Components(rho=20.0)]).fit(X, y)
    again = LSSVR(Additive(RBF(), active=model.active_), steps=()).fit(X, y)
    assert pytest.approx(again.C_) == model.C_
    assert_allclose(model.predict(X), again.predict(X))
    tuned = LSSVR(Additive(RBF(ard=True)), steps=[Components(rho=20.0), sparsify.Random(30, random_state=0)]).fit(X, y)
    assert_array_equal(tuned.kernel_.active, tuned.active_)


def test_groups_are_kept_or_left_together():
    X, y = datasets.make_additive(80, 6, random_state=0)
    groups = [[0, 1], [2], [3], [4, 5]]
    kernel = Additive(Spline(3).placed(X), groups)
    expected = sum(Spline(3).placed(X).columns(group)(X[:, group]) for group in groups)
    assert_allclose(kernel(X), expected)
    model = LSSVR(kernel, steps=[Components(validation=None)]).fit(X, y)
    assert model.active_.tolist() == [0, 1, 2]
    assert model.components(X).shape == (80, 4)


def test_classes_and_several_outputs():
    X, y = datasets.make_additive(90, 5, random_state=0)
    labels = np.digitize(y, np.quantile(y, [0.33, 0.66]))
    model = LSSVC(Additive(Spline(3)), C=10.0, steps=[Components(random_state=0)]).fit(X, labels)
    assert 4 not in model.active_
    assert model.score(X, labels) > 0.7
    assert model.components(X).shape == (90, 5, 3)
    rest = model.decision_function(X) - model.components(X).sum(axis=1)
    assert np.ptp(rest, axis=0).max() < 1e-9
    both = LSSVR(Additive(Spline(3)), C=10.0, steps=[Components(rho=8.0, refit=False)]).fit(
        X, np.column_stack([y, X[:, 4]])
    )
    for output, targets in enumerate((y, X[:, 4])):
        one = LSSVR(Additive(Spline(3)), C=10.0, steps=[Components(rho=8.0, refit=False)]).fit(X, targets)
        assert_allclose(both.predict(X)[:, output], one.predict(X), atol=1e-9)


def test_components_refuse_what_makes_no_sense():
    X, y = data(30)
    for kernel in (RBF(1.0), Linear() + RBF(1.0)):
        with pytest.raises(ValueError, match=r"additive machine.*kernels\.Additive\(kernels\.Spline\(\)\)"):
            LSSVR(kernel, C=1.0, steps=[Components()]).fit(X, y)
    additive = LSSVR(Additive(Linear()), C=1.0)
    for value in (-1.0, np.inf, "x", True, np.nan):
        with pytest.raises(ValueError, match="Components: rho must be a finite number"):
            additive.set_params(steps=[Components(value)]).fit(X, y)
        with pytest.raises(ValueError, match="Substrate: zeta must be a finite number"):
            additive.set_params(steps=[Substrate(value)]).fit(X, y)
    with pytest.raises(ValueError, match="rho=0 keeps every input"):
        additive.set_params(steps=[Components(0)]).fit(X, y)
    with pytest.raises(ValueError, match="validation=None is leave-one-out"):
        additive.set_params(steps=[Components(validation=None, refit=False)]).fit(X, y)
    for value in (0, 1.0, True, "x", []):
        with pytest.raises(ValueError, match=r"Components: validation must be a share .* or None with refit=True"):
            additive.set_params(steps=[Components(validation=value)]).fit(X, y)
        with pytest.raises(ValueError, match=r"Substrate: validation must be a share .* folds of at least 2"):
            additive.set_params(steps=[Substrate(validation=value)]).fit(X, y)
    with pytest.raises(ValueError, match="validation holds row 0 to 30, but X has rows 0 to 29"):
        additive.set_params(steps=[Substrate(validation=[0, 30])]).fit(X, y)
    with pytest.raises(ValueError, match="validation holds 30 of the 30 rows"):
        additive.set_params(steps=[Substrate(validation=np.arange(30))]).fit(X, y)


# Additive machines ----------------------------------------------------------------------------------------------------
def test_spline_is_a_natural_cubic_spline_of_mean_0():
    knots = np.array([0.0, 0.2, 0.7, 1.0])
    kernel = Spline(knots)
    x = np.linspace(-1, 2, 3001)[:, None]
    f = kernel(x, knots[1:2, None])[:, 0]
    assert np.linalg.matrix_rank(kernel(x[::50]), tol=1e-8) == 4
    assert np.linalg.eigvalsh(kernel(x[::50])).min() > -1e-9
    inside = (x[:, 0] >= 0) & (x[:, 0] <= 1)
    assert np.trapezoid(f[inside], x[inside, 0]) == pytest.approx(0.0, abs=1e-6)
    step = x[1, 0] - x[0, 0]
    second = np.diff(f, 2) / step**2
    outside = (x[2:, 0] < 0) | (x[:-2, 0] > 1)
    assert np.abs(second[outside]).max() < 1e-6
    assert np.abs(second).max() > 1e-2
    assert_allclose(
        kernel.diagonal(x), np.diag(kernel(x[:, :])) if len(x) < 100 else np.sum(kernel.features(x) ** 2, 1)
    )


def test_spline_places_its_knots_at_fit():
    X, y = datasets.make_additive(100, 25, random_state=0)
    X[:, 3] = X[:, 3] > 0.5
    X[:, 7] = 2.0
    kernel = Additive(Spline())
    model = LSSVR(kernel, C=1.0, steps=()).fit(X, y)
    assert kernel.kernel.knots is None
    assert model.kernel_.kernel.knots.shape == (3, 25)
    assert_allclose(model.kernel_.kernel.knots[[0, -1]], [X.min(axis=0), X.max(axis=0)])
    moved = LSSVR(kernel, C=1.0, steps=()).fit(1e3 * X + 7.0, y)
    assert_allclose(moved.predict(1e3 * X + 7.0), model.predict(X), rtol=1e-6)
    assert_allclose(model.components(X)[:, 7], 0.0, atol=1e-12)
    for knots in (1, 2.5, True, "x"):
        with pytest.raises(ValueError, match="Spline: knots must be an integer of at least 2"):
            LSSVR(Spline(knots), C=1.0).fit(X, y)
    with pytest.raises(ValueError, match="give at least 2 finite knots, one column a column of X"):
        LSSVR(Spline(np.zeros((3, 2))), C=1.0).fit(X, y)
    with pytest.raises(ValueError, match="has no place yet"):
        Spline()(X)


@pytest.mark.parametrize("groups", [[], [[0], [9]], [[-1]], [[]], [["a"], ["b"]], 3])
def test_groups_that_are_none(groups):
    X, y = data(20)
    with pytest.raises(ValueError, match="Additive: groups must be lists of column numbers from 0 to 1"):
        LSSVR(Additive(RBF(1.0), groups), C=1.0).fit(X, y)


def test_gradient_of_groups_and_of_components_left_out():
    rng = np.random.default_rng(0)
    X, Z, G = rng.standard_normal((6, 4)), rng.standard_normal((5, 4)), rng.standard_normal((6, 5))
    widths = np.array([0.7, 1.1, 1.6, 2.0])
    for groups, active in (([[0, 2], [1, 3]], None), ([[0, 2], [1], [3]], [0, 2])):
        found = Additive(RBF(widths), groups, active).gradient(X, Z, G)[0]
        for c in range(4):
            up, down = widths.copy(), widths.copy()
            up[c] *= np.exp(1e-5)
            down[c] *= np.exp(-1e-5)
            slope = Additive(RBF(up), groups, active)(X, Z) - Additive(RBF(down), groups, active)(X, Z)
            assert found[c] == pytest.approx(np.sum(G * slope) / 2e-5, abs=1e-8)


@pytest.mark.parametrize("steps", [(), [sparsify.Random(20, random_state=0)]])
def test_components_add_up_and_are_centred(steps):
    X, y = datasets.make_additive(50, 4, random_state=0)
    model = LSSVR(Additive(RBF(0.8)), C=10.0, steps=steps).fit(X, y)
    parts = model.components(X)
    assert_allclose(parts.mean(axis=0), 0.0, atol=1e-10)
    assert np.ptp(model.predict(X) - parts.sum(axis=1)) < 1e-9
    assert_allclose(model.max_variation_, np.abs(parts).max(axis=0))
    assert_array_equal(model.active_, np.arange(4))
    moved = X.copy()
    moved[:, 1] = moved[::-1, 1]
    assert_allclose(model.components(moved)[:, [0, 2, 3]], parts[:, [0, 2, 3]])
    chunks = LSSVR(Additive(RBF(0.8)), C=10.0, steps=[Given(X[:20])]).partial_fit(X, y)
    assert np.ptp(chunks.predict(X) - chunks.components(X).sum(axis=1)) < 1e-9
    assert not hasattr(LSSVR(RBF(1.0), C=1.0).fit(X, y), "components")


@pytest.mark.parametrize("steps", [(), [Given(np.arange(0, 40, 3))]])
def test_deviations_are_those_of_the_linear_map(steps):
    X, y = datasets.make_additive(40, 4, random_state=0)
    v = np.random.default_rng(0).uniform(0.5, 2.0, 40)
    model = LSSVR(Additive(RBF(0.8)), C=5.0, steps=steps).fit(X, y, v)
    new = X[:7] + 0.05
    found = component_deviations(model._problem_, model._fit_, new)[:, :, 0]
    columns = []
    for i in range(40):  # the components are linear in the targets: those of a unit target are the map
        unit = LSSVR(model.kernel_, C=5.0, steps=steps).fit(X, np.eye(40)[i], v)
        columns.append(model_components_around_rows(unit, X, new))
    residuals = y - model.predict(X)
    variance = v @ residuals**2 / (40 - model.leverage_.sum())
    expected = np.sqrt(variance * np.einsum("irc,i->rc", np.array(columns) ** 2, 1 / v))
    assert_allclose(found, expected, rtol=1e-7)


def model_components_around_rows(model, X, new):
    return model.components(new) - model.components(X).mean(axis=0)
