"""Structure detection, eq. (25), against an independent convex solver and its optimality conditions."""

import numpy as np
import pytest
import scipy.linalg
from convex_cases import PRECISE, cvxpy
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linprog
from sklearn.linear_model import Lasso
from sklearn.utils.fixes import parse_version

from lssvm import LSSVR, datasets
from lssvm.kernels import RBF, Additive, Linear, Polynomial, Spline
from lssvm.sparsify import Components
from lssvm.sparsify.max_variation import Structure, component_blocks, distinct_rows

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
@pytest.mark.parametrize("kernel", [*FINITE.values(), RBF(0.02), RBF(0.5)], ids=[*FINITE, "rbf 0.02", "rbf 0.5"])
def test_structure_agrees_with_a_convex_solver(kernel):
    X, y, additive, blocks = structure(kernel)
    shares = 10.0 ** np.random.default_rng(0).uniform(-2, 0, 2)
    for rho in Structure(blocks, y, np.ones(50)).largest_rho * shares:
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


@pytest.mark.parametrize("sigma", [0.02, 0.2])
def test_structure_is_not_above_a_convex_solver_in_the_coefficients(sigma):
    """The convex solver gets eq. (25) in alpha, with nothing left out; for wider kernels it finds no solution."""
    X, y, additive, blocks = structure(RBF(sigma))
    parts = [part(X[:, group]) for group, part in additive.kept(X.shape[1]).values()]
    alpha, b, t = cvxpy.Variable(50), cvxpy.Variable(), cvxpy.Variable(len(parts))
    bounds = [cvxpy.abs(part @ alpha) <= t[number] for number, part in enumerate(parts)]
    programme = Structure(blocks, y, np.ones(50))
    for rho in programme.largest_rho * 10.0 ** np.random.default_rng(1).uniform(-3, 0, 2):
        loss = 0.5 * cvxpy.sum_squares(sum(parts) @ alpha + b - y) + rho * cvxpy.sum(t)
        cvxpy.Problem(cvxpy.Minimize(loss), [*bounds, cvxpy.sum(alpha) == 0]).solve(**PRECISE)
        expected = structure_objective(parts, y, rho, alpha.value - alpha.value.mean())
        ours = structure_objective(parts, y, rho, blocks.alpha(programme.solve(rho).at(rho)[0]))
        assert ours <= expected + 1e-8 * 0.5 * np.sum((y - y.mean()) ** 2)


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize("sigma", [1.0, np.sqrt(10)])
def test_structure_of_wide_kernels_agrees_with_a_convex_solver(sigma):
    """For the same functions to 1e-8; rounding in the kernel moves those near the cut by 1e-16/1e-10 of their size."""
    X, y, additive, blocks = structure(RBF(sigma))
    assert blocks.basis is not None
    programme = Structure(blocks, y, np.ones(50))
    parts = [part(X[:, group]) for group, part in additive.kept(X.shape[1]).values()]
    for rho in programme.largest_rho * 10.0 ** np.random.default_rng(0).uniform(-3, 0, 2):
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
    rho = 0.05 * Structure(blocks, y, np.ones(50)).largest_rho
    parts = [part(X[:, group]) for group, part in additive.kept(X.shape[1]).values()]
    stacked = np.vstack(parts)
    U, S, V = np.linalg.svd(stacked - stacked.mean(axis=1, keepdims=True), full_matrices=False)
    kept = 1e-14 * S[0] < S
    lower, _, z = structure_value(np.split(U[:, kept], len(parts)), y, rho)
    alpha = V[kept].T @ (z / S[kept])
    assert lower < 0.99 * structure_value(blocks.Q, y, rho)[0]
    assert np.abs(alpha).max() > 1e11
    assert structure_objective(parts, y, rho, alpha - alpha.mean()) > (1 + 1e-5) * lower


def active_rows(programme, piece):
    """Component, row and sign of the active rows; the parametric programme has no rows that are equal or opposite."""
    rows = [(part, i) for part in programme.inside for i in distinct_rows(programme.blocks.Q[part])]
    return [(*rows[k % len(rows)], 1.0 - 2.0 * (k // len(rows))) for k in piece.active]


@pytest.mark.parametrize("kernel", FINITE.values(), ids=FINITE)
def test_structure_is_optimal_to_working_precision(kernel):
    _, y, _, blocks = structure(kernel)
    v = np.random.default_rng(2).uniform(0.5, 2.0, len(y))
    programme = Structure(blocks, y, v)
    for rho in np.geomspace(0.9, 0.003, 8) * programme.largest_rho:
        piece = programme.solve(rho)
        z, t = piece.at(rho)
        f = sum(Q @ z[place] for Q, place in zip(blocks.Q, blocks.places, strict=True)) + programme.intercept(z)
        e = v * (y - f)
        assert abs(e.sum()) <= 1e-10 * np.abs(e).sum()
        multipliers = piece.multipliers @ [1.0, rho - piece.rho]
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
            own = [(k, i, sign) for k, (c, i, sign) in enumerate(active_rows(programme, piece)) if c == number]
            assert sum(multipliers[k] for k, _, _ in own) == pytest.approx(rho, rel=1e-10)
            back = sum(multipliers[k] * sign * Q[i] for k, i, sign in own)
            assert_allclose(back, gradient, atol=1e-10 * np.abs(Q.T @ (v * y)).max())
            for _, i, sign in own:
                assert sign * component[i] == pytest.approx(t[number], rel=1e-9)


@pytest.mark.parametrize("kernel", [Spline(3), Polynomial(2)])
def test_a_piece_is_the_solution_inside_its_interval_only(kernel):
    _, y, _, blocks = structure(kernel)
    programme = Structure(blocks, y, np.ones(50))
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
    multipliers = piece.multipliers @ [1.0, rho - piece.rho]
    gradient, first, back, sums = np.zeros(len(z)), np.zeros(len(z)), np.zeros(len(z)), np.zeros(len(t))
    worst = [abs(e.sum()) / np.abs(v * centred).sum(), -multipliers.min(initial=0.0) / rho]
    for m, (part, i, sign) in zip(multipliers, active_rows(programme, piece), strict=True):
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
    programme = Structure(blocks, y, v)
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
    programme = Structure(blocks, y, v)
    for piece, low, high in programme.pieces(programme.largest_rho, 1e-4 * programme.largest_rho):
        for rho in (low, high):
            assert structure_violation(programme, y, v, piece, rho) <= 1e-10


@pytest.mark.parametrize("sigma", [0.1, 0.5, 2.0, 10.0])
def test_components_that_share_alpha_are_optimal(sigma):
    _, y, _, blocks = structure(RBF(sigma))
    assert blocks.basis is not None
    v = np.random.default_rng(2).uniform(0.5, 2.0, len(y))
    programme = Structure(blocks, y, v)
    assert not programme.solve(1.0001 * programme.largest_rho).z.any()
    assert programme.solve(0.999 * programme.largest_rho).z.any()
    for rho in np.geomspace(0.99, 1e-4, 8) * programme.largest_rho:
        assert structure_violation(programme, y, v, programme.solve(rho), rho) <= 1e-10


def symmetric(rng):
    """Columns of few values and their mirror images: many rows meet their bounds at once."""
    X = np.round(3 * rng.uniform(size=(16, 3)), 1)
    return np.vstack([X, -X])


@pytest.mark.parametrize(
    ("make", "kernel"),
    [
        pytest.param(lambda rng: rng.uniform(size=(30, 4)), RBF(sigma), marks=[pytest.mark.slow] * (sigma < 1.0))
        for sigma in (0.1, 0.5, 2.0, 10.0)
    ]
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
    programme = Structure(blocks, y, v)
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
    programme = Structure(blocks, y, np.ones(60))
    parametric, start = programme.parametric, programme._interior_point(share * programme.largest_rho)
    assert len(start.working) > 1.5 * parametric.n
    fewer = parametric.reduced(start)
    assert len(fewer.working) <= parametric.n
    assert fewer.multipliers.min() > 0.0
    assert set(fewer.working) <= set(start.working)
    rtol = 1e-7 if parse_version(scipy.__version__) >= parse_version("1.16") else 1e-5  # of scipy.optimize.nnls
    assert_allclose(parametric.gradient(fewer), parametric.gradient(start), rtol=rtol, atol=1e-13)


def test_rounding_does_not_pile_up_along_the_path():
    """More than a thousand pieces, each of which begins with what rounding left of the one before."""
    _, y, _, blocks = structure(RBF(2.0), 30, 10)
    programme = Structure(blocks, y, np.ones(30))
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
