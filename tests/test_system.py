"""The two factorised systems against explicit solves of what they stand for."""

import numpy as np
import pytest
import reference
from numpy.testing import assert_allclose

from lssvm import arrays, kernels, losses, system
from lssvm.problem import Problem
from lssvm.system import primal

NAMESPACES = ["torch", "array_api_strict"]


def data(rows=14, outputs=2, seed=0, basis=5):
    """Kernel matrices, targets, weights; K_new of three new points."""
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((rows, 2)), rng.standard_normal((rows, outputs)) + 3.0
    kernel, new = kernels.RBF(1.5), rng.standard_normal((3, 2))
    return kernel(X), kernel(new, X), y, rng.uniform(0.2, 3.0, rows), np.sort(rng.permutation(rows)[:basis])


def whitened(K, support):
    """Phi with Phi Phi' = K_XS K_SS^-1 K_SX, and L with coefficients L^-T theta."""
    L = np.linalg.cholesky(K[np.ix_(support, support)])
    return np.linalg.solve(L, K[:, support].T).T, L


def both_routes(K, y, weights, ridge, support=None):
    """The factor for one ridge and the one for every ridge, of the dual or of the primal machine."""
    if support is None:
        return [system.factorise_dual(K.copy, y, weights, ridge), system.factorise_dual(K.copy, y, weights)]
    phi = whitened(K, support)[0]
    return [system.factorise_primal(phi.copy(), y, weights, ridge, every_ridge=every) for every in (False, True)]


@pytest.mark.parametrize("ridge", [1e-6, 0.1, 1e3])
def test_dual_is_the_kkt_system(ridge):
    K, _, y, weights, _ = data()
    alpha, intercept = reference.kkt(K, y, weights, ridge)
    expected = reference.left_out(K, K, y, weights, ridge)
    for factor in both_routes(K, y, weights, ridge):
        solution = factor.solution(ridge)
        assert_allclose(solution.coef, alpha, rtol=1e-8, atol=1e-9 * np.abs(alpha).max())
        assert_allclose(solution.intercept, intercept, rtol=1e-8)
        assert_allclose(solution.residuals, y - K @ alpha - intercept, rtol=1e-7, atol=1e-9)
        assert_allclose(solution.loo_residuals, expected, rtol=1e-7)


@pytest.mark.parametrize("ridge", [1e-6, 0.1, 1e3])
def test_primal_is_the_least_squares_problem(ridge):
    K, _, y, weights, support = data()
    beta, intercept = reference.machine(K[:, support], K[np.ix_(support, support)], y, weights, ridge)
    expected = reference.left_out(K[:, support], K[np.ix_(support, support)], y, weights, ridge)
    L = whitened(K, support)[1]
    for factor in both_routes(K, y, weights, ridge, support):
        solution = factor.solution(ridge)
        assert_allclose(np.linalg.solve(L.T, solution.coef), beta, rtol=1e-8)
        assert_allclose(solution.intercept, intercept, rtol=1e-8)
        assert_allclose(solution.residuals, y - K[:, support] @ beta - intercept, rtol=1e-8)
        assert_allclose(solution.loo_residuals, expected, rtol=1e-8)


@pytest.mark.parametrize("sparse", [False, True])
def test_leverage_and_smoother_are_the_linear_map_of_the_targets(sparse):
    """With unit vectors as targets, column i of the predictions is df(x)/dy_i."""
    K, K_new, _, weights, support = data()
    basis = support if sparse else np.arange(len(K))
    units, ridge = np.eye(len(K)), 0.05
    beta, intercept = reference.machine(K[:, basis], K[np.ix_(basis, basis)], units, weights, ridge)
    new = np.linalg.solve(whitened(K, support)[1], K_new[:, support].T).T if sparse else K_new
    for factor in both_routes(K, units, weights, ridge, support if sparse else None):
        assert_allclose(factor.smoother(new.copy(), ridge), K_new[:, basis] @ beta + intercept, rtol=1e-8, atol=1e-9)
        assert_allclose(factor.solution(ridge).leverage, np.diag(K[:, basis] @ beta + intercept), rtol=1e-9)


@pytest.mark.parametrize("sparse", [False, True])
def test_blocks_left_out_are_refits_without_them(sparse):
    K, _, y, weights, support = data()
    basis = support if sparse else np.arange(len(K))
    folds = [np.array([0, 5, 11]), np.array([2]), np.array([1, 3, 4, 6, 7, 8, 9]), np.array([13, 10, 12])]
    for ridge in (1e-4, 0.05, 10.0):
        expected = reference.left_out(K[:, basis], K[np.ix_(basis, basis)], y, weights, ridge, folds)
        for factor in both_routes(K, y, weights, ridge, support if sparse else None):
            assert_allclose(factor.block_residuals(folds, ridge), expected, rtol=1e-7, atol=1e-9)


def test_the_factor_for_every_ridge_serves_all_of_them():
    K, _, y, weights, support = data()
    for basis in (None, support):
        every = both_routes(K, y, weights, 1e-8, basis)[1]
        for ridge in (1e-8, 1e-3, 1.0, 1e6):
            one, path = both_routes(K, y, weights, ridge, basis)[0].solution(ridge), every.solution(ridge)
            for name in ("coef", "intercept", "residuals", "leverage", "loo_residuals"):
                expected = getattr(one, name)
                size = np.abs(expected).max()
                assert_allclose(getattr(path, name), expected, rtol=1e-6, atol=1e-7 * size, err_msg=f"{name} {ridge}")


def test_eigenvectors_serve_every_ridge_that_is_far_above_rounding_errors(monkeypatch):
    """The short route for 1e-3 agrees with the long one, and is not taken for 1e-12."""
    K, _, y, weights, support = data()
    phi, passes = whitened(K, support)[0], []
    long = primal.orthogonalise
    monkeypatch.setattr(primal, "orthogonalise", lambda *parts: passes.append(1) or long(*parts))
    short = system.factorise_primal(phi.copy(), y, weights, 1e-3, every_ridge=True, tolerance=system.QUICK)
    assert not passes
    other = system.factorise_primal(phi.copy(), y, weights, 1e-12, every_ridge=True, tolerance=system.QUICK)
    assert len(passes) == 1
    system.factorise_primal(phi.copy(), y, weights, 1e-3, every_ridge=True)
    assert len(passes) == 2
    for ridge in (1e-3, 0.1, 10.0):
        one, two = short.solution(ridge), other.solution(ridge)
        for name in ("coef", "intercept", "residuals", "leverage", "loo_residuals"):
            expected = getattr(two, name)
            size = np.abs(expected).max()
            assert_allclose(getattr(one, name), expected, rtol=1e-9, atol=1e-9 * size, err_msg=f"{name} {ridge}")


def test_a_factor_for_one_ridge_refuses_another():
    K, _, y, weights, support = data()
    for basis in (None, support):
        factor = both_routes(K, y, weights, 0.5, basis)[0]
        with pytest.raises(ValueError, match=r"for the ridge 0\.5, not for 0\.25"):
            factor.solution(0.25)


# Indefinite matrices --------------------------------------------------------------------------------------------------
def indefinite(rows):
    """Symmetric matrices that a small ridge leaves indefinite."""
    A = np.random.default_rng(0).standard_normal((rows, rows))
    signs = np.where(np.arange(rows) % 2, -1.0, 1.0)
    return {"random": A + A.T, "one large negative eigenvalue": -np.outer(signs, signs), "negative": -A @ A.T}


@pytest.mark.parametrize("kind", indefinite(2))
@pytest.mark.parametrize("rows", [2, 3, 20, 101])
def test_an_indefinite_matrix_gives_the_stationary_point(kind, rows):
    K = indefinite(rows)[kind]
    rng = np.random.default_rng(1)
    y, weights = rng.standard_normal((rows, 2)), rng.uniform(0.5, 2.0, rows)
    ridge = 0.37
    if rows >= 20:  # fewer rows may be positive definite across the weights
        assert system.factorise_dual(K.copy, y, weights, ridge).eigenvalues is not None
    alpha, intercept = reference.kkt(K, y, weights, ridge)
    inverse = np.linalg.inv(np.block([[K + np.diag(ridge / weights), np.ones((rows, 1))], [np.ones((1, rows)), 0.0]]))
    solution = system.factorise_dual(K.copy, y, weights, ridge).solution(ridge)
    size = np.abs(alpha).max()
    assert_allclose(solution.coef, alpha, rtol=1e-7, atol=1e-7 * size)
    assert_allclose(solution.intercept, intercept, rtol=1e-7, atol=1e-7)
    assert_allclose(solution.loo_residuals, alpha / np.diag(inverse)[:rows, None], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("divided", [0, 4096])
def test_eigenvectors_by_either_driver(divided, monkeypatch):
    """With a null space of many dimensions, which a machine for every ridge meets."""
    monkeypatch.setattr(arrays.linalg, "DIVIDED", divided)
    A = np.random.default_rng(0).standard_normal((40, 15))
    G = A @ A.T
    values, vectors = arrays.eigh(G.copy())
    assert_allclose(vectors * values @ vectors.T, G, rtol=0, atol=1e-13 * values[-1])
    assert_allclose(vectors.T @ vectors, np.eye(40), rtol=0, atol=1e-13)
    assert np.all(np.diff(values) >= 0)


@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_rank_one_and_rank_two_updates(order):
    rng = np.random.default_rng(0)
    K, u, v = rng.standard_normal((7, 7)), rng.standard_normal(7), rng.standard_normal(7)
    K = K + K.T
    B = np.empty((7, 14))[:, ::2] if order == "strided" else np.empty((7, 7), order=order)
    B[...] = K
    arrays.subtract_pair(B, u, v)
    assert_allclose(B, K - np.outer(u, v) - np.outer(v, u), rtol=0, atol=1e-14)
    updated = arrays.add_outer(B, u, v)
    assert np.shares_memory(updated, B)
    assert_allclose(updated, K - np.outer(v, u), rtol=0, atol=1e-14)


# Orthogonalisation ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("condition", [1.0, 1e4, 1e8, 1e12])
@pytest.mark.parametrize("ridge", [1e-30, 1e-6, 1.0])
def test_orthogonalise_is_a_qr_factorisation(condition, ridge):
    rng = np.random.default_rng(0)
    U, _ = np.linalg.qr(rng.standard_normal((60, 12)))
    V, _ = np.linalg.qr(rng.standard_normal((12, 12)))
    A = U * np.geomspace(1.0, 1.0 / condition, 12) @ V
    bottom = np.sqrt(ridge) * np.eye(12)
    Q, B, R, _, squares = system.orthogonalise(A.copy(), bottom.copy())
    assert_allclose(np.vstack([Q, B]) @ R, np.vstack([A, bottom]), rtol=0, atol=1e-14)
    assert_allclose(Q.T @ Q + B.T @ B, np.eye(12), rtol=0, atol=1e-9)
    assert_allclose(R, np.triu(R), rtol=0, atol=0)
    assert_allclose(squares, (Q**2).sum(axis=1), rtol=1e-14, atol=0)


@pytest.mark.parametrize("sigma", [0.5, 2.0, 20.0, 100.0])
def test_triangles_are_solved_as_well_by_products(sigma):
    """To the rounding of substitution in either direction, whatever the condition; where it is bad, by substitution."""
    X = np.random.default_rng(0).standard_normal((600, 5))
    K = kernels.RBF(sigma)(X, X[:80])
    L = np.linalg.cholesky(K[:80] + 1e-13 * np.eye(80))
    truth, above = K.astype(np.longdouble), np.flip(K).astype(np.longdouble)
    for j in range(80):  # substitution, from the front and from the back
        truth[:, j] = (truth[:, j] - truth[:, :j] @ L[j, :j]) / L[j, j]
        above[:, j] = (above[:, j] - above[:, :j] @ np.flip(L)[:j, j]) / L[-j - 1, -j - 1]
    size = np.sqrt((truth**2).sum(axis=1))[:, None]
    whitened = arrays.whiten_rows(K.copy(), L)
    rounding = np.finfo(float).eps * np.linalg.norm(L) * np.linalg.norm(np.linalg.inv(L))
    assert np.max(np.abs(whitened - truth) / size) <= rounding
    assert (rounding > arrays.LOSS) == (sigma == 100.0)
    if sigma == 100.0:  # not what a product leaves
        assert_allclose(whitened @ L.T, K, rtol=0, atol=80 * np.finfo(float).eps)
    size = np.sqrt((above**2).sum(axis=1))[:, None]
    assert np.max(np.abs(np.flip(arrays.unwhiten_rows(K.copy(), L)) - above) / size) <= rounding


# Plain columns --------------------------------------------------------------------------------------------------------
def plain_problem(kernel, rows, n, ridge, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 5))
    y = np.column_stack([np.sin(X.sum(axis=1)), X[:, 0]]) + 0.1 * rng.standard_normal((rows, 2))
    return Problem(kernel, X, y, rng.uniform(0.5, 2.0, rows), 1.0 / ridge, support=np.arange(n))


@pytest.mark.parametrize(
    ("kernel", "ridge"),
    [
        (kernels.RBF(2.0), 1.0),
        (kernels.RBF(3.0), 1e-3),
        (kernels.RBF(6.0), 1.0),
        (kernels.Matern(3.0), 0.1),
        (kernels.Matern(10.0), 1e-3),
        (kernels.Matern(1.0, nu=0.5), 1e-2),
    ],
    ids=repr,
)
def test_the_expected_loss_of_leverages_is_about_the_true_one(kernel, ridge):
    problem = plain_problem(kernel, 3000, 60, ridge)
    K, L = kernel(problem.X, problem.X[:60]), np.linalg.cholesky(kernel(problem.X[:60]))
    w = np.sqrt(problem.weights)
    A = w[:, None] * (K - problem.weights @ K / problem.weights.sum())
    lower = system.cholesky_pass(A.T @ A + ridge * L @ L.T)[0]
    Q = np.linalg.solve(lower, A.T).T
    leverage = (Q**2).sum(axis=1)
    exact = np.linalg.qr(np.vstack([np.linalg.solve(L, A.T).T, np.sqrt(ridge) * np.eye(60)]))[0][:3000]
    error = np.max(np.abs(leverage - (exact**2).sum(axis=1)) / (1.0 - leverage))
    expected = np.max(system.expected_loss(Q, lower, leverage))
    assert error <= system.SURE * expected + 1e-14
    assert expected <= 100.0 * error + 1e-14


# Other arrays ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("ridge", [1e-9, 0.05])
@pytest.mark.parametrize("namespace", NAMESPACES)
def test_other_namespaces_agree_with_numpy(namespace, ridge, sparse, every):
    """A narrow kernel: at the smaller ridge all leverages are near 1 and the careful route runs."""
    xp = pytest.importorskip(namespace)
    rng = np.random.default_rng(0)
    X, new, y = rng.uniform(0, 9, (14, 2)), rng.uniform(0, 9, (3, 2)), rng.standard_normal((14, 2))
    weights, support = rng.uniform(0.2, 3.0, 14), np.array([0, 3, 4, 9, 12])
    K, K_new = kernels.RBF(1.5)(X), kernels.RBF(1.5)(new, X)
    folds = [np.array([0, 5, 11]), np.array([1, 2, 3])]
    if sparse:
        phi, L = whitened(K, support)
        K_new = np.linalg.solve(L, K_new[:, support].T).T

    def answers(asarray):
        if sparse:
            factor = system.factorise_primal(asarray(phi), asarray(y), asarray(weights), ridge, every_ridge=every)
        else:
            factor = system.factorise_dual(lambda: asarray(K), asarray(y), asarray(weights), None if every else ridge)
        solution = factor.solution(ridge)
        names = ("coef", "intercept", "residuals", "leverage", "loo_residuals")
        yield from ((name, getattr(solution, name)) for name in names)
        yield "block residuals", factor.block_residuals(folds, ridge)
        yield "smoother", factor.smoother(asarray(K_new), ridge)

    kind = type(xp.asarray(y))
    ours, theirs = answers(np.array), answers(lambda a: xp.asarray(a.copy()))
    for (name, expected), (_, value) in zip(ours, theirs, strict=True):
        assert type(value) is kind
        assert_allclose(np.asarray(value), expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max(), err_msg=name)


@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("namespace", NAMESPACES)
def test_the_criterion_agrees_with_numpy(namespace, sparse, classes):
    xp = pytest.importorskip(namespace)
    K, _, y, weights, support = data()
    y = np.where(y > 3.0, 1.0, -1.0)

    def answers(asarray):
        if sparse:
            phi, L = whitened(K, support)
            return system.factorise_primal(asarray(phi), asarray(y), asarray(weights), 0.05).criterion(
                classes, asarray(L)
            )
        return system.factorise_dual(lambda: asarray(K.copy()), asarray(y), asarray(weights), 0.05).criterion(classes)

    for expected, value in zip(answers(np.array), answers(lambda a: xp.asarray(a.copy())), strict=True):
        if expected is None:  # a dual system has no penalty matrix
            assert value is None
            continue
        assert_allclose(np.asarray(value), expected, rtol=1e-9, atol=1e-10)


# Log loss -------------------------------------------------------------------------------------------------------------
def test_log_loss_minds_neither_the_size_of_values_nor_the_unit_of_weights():
    rng = np.random.default_rng(0)
    t = np.where(rng.uniform(size=(60, 1)) < 0.4, 1.0, -1.0)
    f, weights = t + 1.5 * rng.standard_normal((60, 1)), rng.uniform(0.5, 2.0, 60)
    machines = np.stack([f, 1e-3 * f, 50.0 * f], axis=1)
    loss, slope = losses.log_loss(machines, t, weights)
    assert_allclose(loss, loss[0], rtol=1e-12)
    assert_allclose(slope[:, 1], 1e3 * slope[:, 0], rtol=1e-6)
    assert_allclose(losses.log_loss(machines, t, 1e-5 * weights)[0], loss, rtol=1e-12)


def test_log_loss_of_values_that_tell_nothing_is_that_of_a_coin():
    t = np.where(np.arange(10) % 2, 1.0, -1.0)[:, None]
    wrong = np.stack([0.0 * t, -t, -1e9 * t], axis=1)
    assert_allclose(losses.log_loss(wrong, t, np.ones(10))[0], np.log(2.0), rtol=1e-5)


def test_log_loss_counts_what_is_not_finite_as_wrong():
    t = np.where(np.arange(40) % 2, 1.0, -1.0)[:, None]
    wrong, broken = t + 0.0, t + 0.0
    wrong[:2] *= -0.999 * losses.MARGIN
    broken[:2] = np.nan
    values = [losses.log_loss(f[:, None, :], t, np.ones(40))[0][0] for f in (wrong, broken)]
    assert_allclose(values[1], values[0], rtol=1e-2)


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_other_namespaces_know_an_indefinite_matrix(namespace):
    xp = pytest.importorskip(namespace)
    K = indefinite(6)["random"]
    ones = np.ones((6, 1))
    factor = system.factorise_dual(lambda: xp.asarray(K.copy()), xp.asarray(ones), xp.asarray(ones[:, 0]), 1e-3)
    assert factor.ridge is None


@pytest.mark.parametrize("kind", ["dual", "primal", "wide"])
def test_left_out_residuals_of_several_ridges_are_those_of_each(kind, monkeypatch):
    rng = np.random.default_rng(0)
    phi, targets, weights = rng.normal(size=(40, 6)), rng.normal(size=(40, 2)), rng.uniform(0.5, 2.0, 40)
    ridges = [0.03, 0.5, 7.0]
    if kind == "dual":
        factor = system.factorise_dual(lambda: phi @ phi.T, targets, weights)
    elif kind == "primal":
        factor = system.factorise_primal(phi.copy(), targets, weights, 0.03, every_ridge=True)
    else:
        wide = rng.normal(size=(40, 50))
        factor = system.factorise_dual(lambda: wide @ wide.T, targets, weights, None, wide)
    blocks = lambda *args: iter([slice(0, 7), slice(7, 40)])  # noqa: E731
    monkeypatch.setattr(arrays, "row_blocks", blocks)
    found = np.concatenate([part for _, part in factor.loo_path(ridges)])
    monkeypatch.undo()
    for place, ridge in enumerate(ridges):
        assert_allclose(found[:, place], factor.solution(ridge).loo_residuals, rtol=1e-11)


@pytest.mark.parametrize("columns", [1, 256, 257, 600])
def test_gram_is_the_product_and_symmetric_to_the_last_bit(columns):
    A = np.random.default_rng(0).standard_normal((50, columns))
    G = arrays.gram(A)
    assert_allclose(G, A.T @ A, rtol=1e-12, atol=1e-12)
    assert np.array_equal(G, G.T)


def test_the_fit_is_refined_by_what_the_columns_lack_in_orthogonality():
    """Columns 1e-5 from orthonormal, against the normal equations of the stacked matrix as they stand."""
    rng = np.random.default_rng(0)
    stacked = np.linalg.qr(rng.standard_normal((48, 8)))[0] + 1e-6 * rng.standard_normal((48, 8))
    Q, bottom = stacked[:40], stacked[40:]
    targets = rng.standard_normal((40, 2))
    machine = system.Primal(Q, np.eye(8), bottom, None, 1.0, targets, np.zeros(2), np.zeros(8), np.ones(40))
    assert_allclose(machine.projected(), np.linalg.solve(stacked.T @ stacked, Q.T @ targets), rtol=0, atol=1e-13)


# Any order of calls -----------------------------------------------------------------------------------------------
def systems():
    """Every kind of factor, by name, and what it may be asked."""
    K, K_new, y, weights, support = data()
    phi, L = whitened(K, support)
    phi_new = np.linalg.solve(L, K_new[:, support].T).T
    folds, ridge = [np.array([0, 3]), np.array([5])], 0.1
    position = np.full(len(y), -1)
    position[support] = np.arange(len(support))
    every_row = np.linalg.cholesky(K + 1e-10 * np.eye(len(K)))
    factors = {
        "dual": (system.factorise_dual(K.copy, y, weights, ridge), K_new),
        "dual, every ridge": (system.factorise_dual(K.copy, y, weights), K_new),
        "primal": (system.factorise_primal(phi.copy(), y, weights, ridge), phi_new),
        "primal, every ridge": (system.factorise_primal(phi.copy(), y, weights, ridge, every_ridge=True), phi_new),
        "wide": (
            system.factorise_dual(lambda: every_row @ every_row.T, y, weights, ridge, every_row),
            np.linalg.solve(every_row, K_new.T).T,
        ),
        "reduced": (system.factorise_reduced(K[:, support].copy(), y, weights, position, ridge), K_new[:, support]),
    }
    for name, (factor, new) in factors.items():
        calls = {
            "solution": lambda f=factor: f.solution(ridge).loo_residuals,
            "coef": lambda f=factor: f.solution(ridge).coef,
            "blocks": lambda f=factor: f.block_residuals(folds, ridge),
            "moves": lambda f=factor: f.moves(ridge),
            "smoother": lambda f=factor, new=new: f.smoother(new, ridge),
        }
        if name != "reduced":
            calls["loo_path"] = lambda f=factor: np.concatenate([block for _, block in f.loo_path([ridge])])
        if name == "dual":
            calls["inverse"] = lambda f=factor, new=new: f.with_inverse().smoother(new, ridge)
            calls["criterion"] = lambda f=factor: f.criterion(False)[1]
        if name in ("primal", "wide"):
            lower = L if name == "primal" else every_row
            calls["criterion"] = lambda f=factor, lower=lower: f.criterion(False, lower)[1]
        yield name, calls


@pytest.mark.parametrize("number", range(6))
def test_factors_give_the_same_answers_in_any_order(number):
    name, calls = list(systems())[number]
    first = {call: np.copy(answer()) for call, answer in calls.items()}
    order = np.random.default_rng(number)
    for call in order.choice(list(calls), 30):
        assert_allclose(calls[call](), first[call], rtol=1e-13, atol=1e-13, err_msg=f"{name}: {call}")
    for call, answer in list(systems())[number][1].items():  # each from a factor that nothing was asked before
        assert_allclose(answer(), first[call], rtol=1e-13, atol=1e-13, err_msg=f"{name}: {call}")


def test_the_inverse_of_a_system():
    K, _, y, weights, _ = data()
    factor = system.factorise_dual(K.copy, y, weights, 0.1).with_inverse()
    w, P, a = np.sqrt(weights), factor.P, factor.scaled
    matrix = np.outer(w, w) * K + 0.1 * np.eye(len(K))
    assert_allclose(P @ matrix @ P, P, rtol=1e-9, atol=1e-10)
    assert_allclose(P @ w, 0.0, rtol=0, atol=1e-10)
    assert_allclose(a, P @ (w[:, None] * y), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("classes", [False, True])
def test_derivatives_of_a_basis_larger_than_the_rows(classes):
    rng = np.random.default_rng(3)
    X, points = rng.standard_normal((12, 2)), rng.standard_normal((15, 2))
    y = np.where(X[:, :1] + 0.5 * rng.standard_normal((12, 1)) > 0, 1.0, -1.0) if classes else X + X[:, ::-1] ** 2

    def criterion(logs):
        kernel = kernels.RBF(np.exp(logs[:2]))
        machine = Problem(kernel, X, y, weights, C=float(np.exp(logs[2])), points=points)
        return machine.factorise().criterion(classes=classes)

    weights, at, step = rng.uniform(0.5, 2.0, 12), np.array([0.3, -0.1, 1.0]), 1e-5
    _, in_widths, in_C = criterion(at)
    differences = [(criterion(at + move)[0] - criterion(at - move)[0]) / (2 * step) for move in step * np.eye(3)]
    assert_allclose([*in_widths.ravel(), in_C], differences, rtol=1e-6, atol=1e-9)
