"""Problem, Factor and Fit: the machine by its definition, exact leave-one-out, invariances and limits."""

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from lssvm import kernels, robust
from lssvm.intervals.loo import FittedLoo
from lssvm.problem import Problem, held_out_rows

EPS = np.finfo(float).eps
RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (16, 2))
Y = np.column_stack([np.sin(2 * X[:, 0]) + X[:, 1], X[:, 0] * X[:, 1]]) + 0.2 * RNG.standard_normal((16, 2))
WEIGHTS = RNG.uniform(0.2, 3.0, 16)
NEW = RNG.uniform(-2, 2, (5, 2))
KERNEL = kernels.RBF([1.5, 1.0])
BASES = {
    "dual": {},
    "rows": {"support": np.array([1, 4, 5, 9, 12, 15])},
    "points": {"points": np.array([[0.0, 0.0], [1.0, -1.0], [-1.5, 0.5], [0.3, 1.8]])},
}
FIELDS = ("coef", "intercept", "residuals", "leverage", "loo_residuals")


def problem(basis="dual", **changes):
    fields = {"kernel": KERNEL, "X": X, "y": Y, "weights": WEIGHTS, "C": 20.0, **BASES[basis], **changes}
    return Problem(**fields)


def basis_of(problem):
    if problem.points is not None:
        return problem.points
    return problem.X if problem.support is None else problem.X[problem.support]


def left_out(problem, **options):
    """Refits of a problem without each row, or without each block."""
    basis = basis_of(problem)
    K_rows, K_basis = problem.kernel(problem.X, basis), problem.kernel(basis, basis)
    return reference.left_out(K_rows, K_basis, problem.y, problem.weights, 1.0 / problem.C, **options)


# The machine ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("basis", BASES)
def test_the_fit_minimises_the_objective(basis, C):
    machine = problem(basis, C=C)
    fit = machine.solve()
    points = basis_of(machine)
    coef, intercept = reference.machine(KERNEL(X, points), KERNEL(points, points), Y, WEIGHTS, 1.0 / C)
    assert_allclose(fit.coef, coef, rtol=1e-7, atol=1e-8 * np.abs(coef).max())
    assert_allclose(fit.intercept, intercept, rtol=1e-8)
    assert_allclose(fit.predict(NEW), KERNEL(NEW, points) @ coef + intercept, rtol=1e-8, atol=1e-9)
    assert_allclose(fit.residuals, Y - fit.predict(X), rtol=1e-8, atol=1e-9)
    assert_allclose(fit.loo_residuals, left_out(machine), rtol=1e-7)


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
def test_the_primal_machine_on_all_points_is_the_dual_machine(C):
    dual, primal = problem(C=C).solve(), problem(C=C, points=X.copy()).solve()
    assert primal.support is None
    assert_allclose(primal.predict(NEW), dual.predict(NEW), rtol=1e-9, atol=1e-10)
    assert_allclose(primal.leverage, dual.leverage, rtol=1e-9)
    assert_allclose(primal.loo_residuals, dual.loo_residuals, rtol=1e-8)


@pytest.mark.parametrize("basis", BASES)
def test_a_path_is_the_separate_fits(basis):
    values = [1e3, 1e-4, 0.5, 30.0]
    factor = problem(basis).factorise(max(values), every=True)
    for C in values:
        fit, ours = problem(basis, C=C).solve(), factor.fit(C)
        for name in FIELDS:
            expected = getattr(fit, name)
            atol = 1e-10 * np.abs(expected).max()
            assert_allclose(getattr(ours, name), expected, rtol=1e-8, atol=atol, err_msg=f"{name} at {C}")


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("basis", BASES)
def test_blocks_left_out_are_refits_at_weight_zero(basis, every):
    folds = np.array_split(np.random.default_rng(1).permutation(16), 4)
    weights = WEIGHTS.copy()
    weights[folds[0][:2]] = 0.0  # rows out of the machine are predicted without the rest of their fold
    weights[folds[1]] = 0.0
    for machine in (problem(basis), problem(basis, weights=weights)):
        factor = machine.factorise(machine.C, every=every)
        assert_allclose(factor.block_residuals(folds, machine.C), left_out(machine, blocks=folds), rtol=1e-7)


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("basis", BASES)
def test_left_out_predictions_are_those_of_refits(basis, every):
    weights = WEIGHTS.copy()
    weights[3] = 0.0
    for machine in (problem(basis), problem(basis, weights=weights)):
        factor = machine.factorise(machine.C, every=every)
        predictions = FittedLoo(machine, factor.fit(machine.C), factorised=factor).predictions(NEW)
        _, expected = left_out(machine, K_new=KERNEL(NEW, basis_of(machine)))
        assert_allclose(predictions, expected[:, machine.weights > 0], rtol=1e-8, atol=1e-9)


# Weights --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("basis", BASES)
def test_an_integer_weight_is_as_good_as_copies(basis):
    counts = np.random.default_rng(2).integers(1, 4, 16)
    options = {} if basis == "dual" else {"support": None, "points": problem(basis).points}
    if basis == "rows":
        options["points"] = X[problem(basis).support]
    weighted = problem(basis, weights=counts.astype(float)).solve()
    repeated = Problem(KERNEL, np.repeat(X, counts, axis=0), np.repeat(Y, counts, axis=0), np.ones(counts.sum()), 20.0)
    copies = repeated.replace(**options).solve()
    assert_allclose(copies.predict(NEW), weighted.predict(NEW), rtol=1e-9, atol=1e-10)
    assert_allclose(copies.intercept, weighted.intercept, rtol=1e-9)
    assert_allclose(copies.residuals, np.repeat(weighted.residuals, counts, axis=0), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("basis", BASES)
def test_weight_zero_removes_the_row(basis):
    weights = WEIGHTS.copy()
    weights[[0, 4, 7]] = 0.0  # 4 is a basis row of "rows": its basis vector stays
    kept = weights > 0
    zero = problem(basis, weights=weights).solve()
    points = X[problem(basis).support] if basis == "rows" else problem(basis).points
    removed = Problem(KERNEL, X[kept], Y[kept], weights[kept], 20.0, points=points).solve()
    assert_allclose(zero.predict(NEW), removed.predict(NEW), rtol=1e-10)
    assert_allclose(zero.loo_residuals[kept], removed.loo_residuals, rtol=1e-10)
    assert_allclose(zero.leverage[kept], removed.leverage, rtol=1e-10)
    assert_array_equal(zero.leverage[~kept], 0.0)
    for name in ("residuals", "loo_residuals"):
        assert_allclose(getattr(zero, name)[~kept], Y[~kept] - removed.predict(X[~kept]), rtol=1e-9)


@pytest.mark.parametrize("basis", BASES)
def test_only_weight_times_C_matters(basis):
    fit, scaled = problem(basis).solve(), problem(basis, weights=4.0 * WEIGHTS, C=5.0).solve()
    for name in FIELDS:
        assert_allclose(getattr(scaled, name), getattr(fit, name), rtol=1e-9, err_msg=name)


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("points", [None, X[:5]], ids=["dual", "primal"])
@pytest.mark.parametrize("unit", [2.0**-60, 2.0**-20, 2.0**20, 2.0**60])
def test_units_of_the_inputs_and_of_the_weights_do_not_matter(unit, points, every):
    """Powers of two: the scaled problems are the same to the last bit, but for what the code adds of its own size."""
    linear = problem(kernel=kernels.Linear(), points=points)
    expected = linear.factorise(20.0, every=every).fit(20.0)
    C = 20.0 / unit**2
    inputs = linear.replace(X=unit * X, points=None if points is None else unit * points)
    weights = linear.replace(weights=unit**2 * WEIGHTS)
    for machine in (inputs, weights):
        fit = machine.factorise(C, every=every).fit(C)
        for name in ("intercept", "residuals", "leverage", "loo_residuals"):
            assert_allclose(getattr(fit, name), getattr(expected, name), rtol=1e-9, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("iterations", [1, 3])
@pytest.mark.parametrize("basis", BASES)
def test_robust_weights_are_solve_weigh_solve(basis, iterations):
    y = Y.copy()
    y[[2, 10]] += 50.0
    function = robust.Hampel(iterations=iterations)
    fit = problem(basis, y=y, robust=function).solve()
    weights = WEIGHTS
    for _ in range(iterations):
        weights = WEIGHTS * function(problem(basis, y=y, weights=weights).solve().residuals, WEIGHTS)
    assert weights[2] < 0.01 * WEIGHTS[2]
    assert_array_equal(fit.weights, weights)
    assert_array_equal(fit.loo_residuals, problem(basis, y=y, weights=weights).solve().loo_residuals)


# Invariances ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("basis", BASES)
def test_many_outputs_are_one_at_a_time(basis):
    together = problem(basis).solve()
    for column in range(2):
        alone = problem(basis, y=Y[:, [column]]).solve()
        for name in FIELDS:
            expected = getattr(together, name)
            if name != "leverage":
                expected = expected[..., [column]]
            assert_allclose(getattr(alone, name), expected, rtol=1e-10, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("basis", BASES)
def test_shift_and_scale_of_the_targets(basis):
    fit, moved = problem(basis).solve(), problem(basis, y=1e3 * Y - 7e3).solve()
    assert_allclose(moved.coef, 1e3 * fit.coef, rtol=1e-9, atol=1e-9)
    assert_allclose(moved.intercept, 1e3 * fit.intercept - 7e3, rtol=1e-9)
    assert_allclose(moved.loo_residuals, 1e3 * fit.loo_residuals, rtol=1e-9)
    assert_allclose(moved.leverage, fit.leverage, rtol=1e-14)


@pytest.mark.parametrize("basis", BASES)
def test_order_of_the_rows(basis):
    order = np.random.default_rng(3).permutation(16)
    changes = {"X": X[order], "y": Y[order], "weights": WEIGHTS[order]}
    if basis == "rows":
        changes["support"] = np.argsort(order)[problem(basis).support]
    fit, permuted = problem(basis).solve(), problem(basis, **changes).solve()
    for name in ("residuals", "leverage", "loo_residuals"):
        assert_allclose(getattr(permuted, name), getattr(fit, name)[order], rtol=1e-9, atol=1e-11, err_msg=name)
    assert_allclose(permuted.predict(NEW), fit.predict(NEW), rtol=1e-9)


@pytest.mark.parametrize("basis", BASES)
def test_a_fit_is_the_same_to_the_last_bit_and_across_threads(basis):
    rng = np.random.default_rng(4)
    inputs, y, new = rng.standard_normal((300, 3)), rng.standard_normal((300, 1)), rng.standard_normal((20, 3))
    options = {} if basis == "dual" else {"support": np.arange(0, 300, 7)}
    if basis == "points":
        options = {"points": new}
    machine = Problem(kernels.RBF(1.5), inputs, y, np.ones(300), 100.0, **options)
    fits = []
    for threads in (1, 1, 2):
        with threadpool_limits(threads):
            fits.append(machine.solve())
    for name in FIELDS:
        first, second, other = (getattr(fit, name) for fit in fits)
        assert_array_equal(first, second)
        assert_allclose(other, first, rtol=1e-10, atol=1e-10 * np.abs(first).max())


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
def test_the_linear_kernel_is_ridge_regression(C):
    rng = np.random.default_rng(5)
    inputs, weights = rng.standard_normal((40, 4)) + 2.0, rng.uniform(0.1, 2.0, 40)
    y = (inputs @ [1.0, -2.0, 0.5, 0.0] + rng.standard_normal(40))[:, None]
    ridge = Ridge(alpha=1.0 / C, solver="svd").fit(inputs, y, sample_weight=weights)
    for points in (None, np.eye(4)):
        fit = Problem(kernels.Linear(), inputs, y, weights, C, points=points).solve()
        assert_allclose(fit.points.T @ fit.coef, ridge.coef_.reshape(-1, 1), rtol=1e-8, atol=1e-9)
        assert_allclose(fit.intercept, ridge.intercept_, rtol=1e-8, atol=1e-9)


# Limits ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("C", [1e-12, 1e-3, 1.0, 1e3, 1e12])
@pytest.mark.parametrize("points", [None, np.array([[0.3, 0.1]]), np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 0.0]])])
@pytest.mark.parametrize("weights", [[1.0, 1.0], [0.1, 5.0]])
def test_of_two_rows_each_predicts_the_other(weights, points, C):
    pair = Problem(KERNEL, X[:2], Y[:2], np.array(weights), C, points=points)
    difference = Y[:1] - Y[1:2]
    expected = np.vstack([difference, -difference])
    assert_allclose(pair.solve().loo_residuals, expected, rtol=1e-9)
    assert_allclose(pair.factorise(C, every=True).fit(C).loo_residuals, expected, rtol=1e-7)


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("basis", BASES)
def test_for_C_to_zero_the_weighted_mean_is_left(basis, every):
    fit = problem(basis).factorise(1e-12, every=every).fit(1e-12)
    mean = np.average(Y, axis=0, weights=WEIGHTS)
    others = WEIGHTS.sum() / (WEIGHTS.sum() - WEIGHTS)
    assert_allclose(fit.intercept, mean, rtol=1e-9)
    assert_allclose(fit.leverage, WEIGHTS / WEIGHTS.sum(), rtol=1e-9)
    assert_allclose(fit.loo_residuals, others[:, None] * (Y - mean), rtol=1e-9, atol=1e-10)
    equal = problem(basis, weights=np.ones(16)).factorise(1e-12, every=every).fit(1e-12)
    assert_allclose(equal.loo_residuals, 16 / 15 * (Y - Y.mean(axis=0)), rtol=1e-9, atol=1e-10)


def test_for_C_to_infinity_the_dual_machine_interpolates():
    narrow = kernels.RBF(0.5)
    fit = problem(kernel=narrow, C=1e14).solve()
    K = narrow(X)
    alpha, intercept = reference.kkt(K, Y, WEIGHTS, 0.0)
    assert_allclose(fit.coef, alpha, rtol=1e-9, atol=1e-10)
    assert_allclose(fit.residuals, 0.0, atol=1e-12)
    assert_allclose(fit.leverage, 1.0, rtol=1e-12)
    for i in range(16):
        kept = np.arange(16) != i
        alpha, intercept = reference.kkt(K[np.ix_(kept, kept)], Y[kept], WEIGHTS[kept], 0.0)
        assert_allclose(fit.loo_residuals[i], Y[i] - K[i, kept] @ alpha - intercept, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("basis", ["rows", "points"])
def test_for_C_to_infinity_the_primal_machine_is_least_squares(basis):
    fit = problem(basis, C=1e14).solve()
    points = basis_of(problem(basis))
    design, new = (np.column_stack([KERNEL(rows, points), np.ones(len(rows))]) for rows in (X, NEW))
    scale = np.sqrt(WEIGHTS)[:, None]
    solution = np.linalg.lstsq(scale * design, scale * Y, rcond=None)[0]
    assert_allclose(fit.predict(NEW), new @ solution, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("every", [False, True])
def test_for_C_to_infinity_a_kernel_of_low_rank_is_least_squares(every):
    """The eigenvalues that are 0 must not be rounding errors, against which 1/C = 1e-18 is small."""
    fit = problem(kernel=kernels.Linear()).factorise(1e18, every=every).fit(1e18)
    scale = np.sqrt(WEIGHTS)[:, None]
    U = np.linalg.qr(scale * np.column_stack([X, np.ones(16)]))[0]
    left_out = (scale * Y - U @ (U.T @ (scale * Y))) / (1 - np.sum(U * U, axis=1))[:, None] / scale
    assert_allclose(fit.loo_residuals, left_out, rtol=1e-8)


# Deficient bases ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("C", [0.01, 20.0, 1e8])
def test_copies_in_the_basis_share_their_coefficient(C):
    points = BASES["points"]["points"]
    copies = np.array([0, 1, 1, 2, 3, 3, 3])
    distinct, copied = problem(C=C, points=points).solve(), problem(C=C, points=points[copies]).solve()
    counts = np.bincount(copies)
    assert_allclose(copied.coef, (distinct.coef / counts[:, None])[copies], rtol=1e-8, atol=1e-10)
    assert_allclose(copied.predict(NEW), distinct.predict(NEW), rtol=1e-9)
    assert_allclose(copied.leverage, distinct.leverage, rtol=1e-9)
    assert_allclose(copied.loo_residuals, distinct.loo_residuals, rtol=1e-9)


@pytest.mark.parametrize("every", [False, True])
def test_a_deficient_basis_puts_the_coefficients_on_independent_points_and_their_copies(every):
    """Five points of a linear kernel in the plane, each twice: rank 2."""
    points = np.tile(np.random.default_rng(6).standard_normal((5, 2)), (2, 1))
    machine = problem(kernel=kernels.Linear(), points=points)
    fit = machine.factorise(20.0, every=every).fit(20.0)
    slope = problem(kernel=kernels.Linear(), points=np.eye(2)).solve().coef
    assert_allclose(points.T @ fit.coef, slope, rtol=1e-9)
    assert_allclose(fit.coef[:5], fit.coef[5:], rtol=1e-12)
    assert np.count_nonzero(fit.coef[:5, 0]) == 2
    assert_allclose(fit.loo_residuals, left_out(machine), rtol=1e-8)


@pytest.mark.parametrize("every", [False, True])
def test_a_basis_larger_than_the_rows(every):
    points = np.random.default_rng(7).uniform(-2, 2, (30, 2))
    few = {"X": X[:8], "y": Y[:8], "weights": WEIGHTS[:8]}
    machine = problem(kernel=kernels.Matern(1.0, nu=0.5), points=points, **few)
    fit = machine.factorise(20.0, every=every).fit(20.0)
    assert fit.coef.shape == (30, 2)
    assert_allclose(fit.loo_residuals, left_out(machine), rtol=1e-8)


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("fields", [{"points": np.zeros((3, 2))}, {"X": np.zeros((16, 2))}], ids=["points", "rows"])
def test_a_kernel_of_rank_zero_leaves_the_mean(fields, every):
    machine = problem(kernel=kernels.Linear(), weights=np.ones(16), **fields)
    fit = machine.factorise(20.0, every=every).fit(20.0)
    assert_allclose(fit.intercept, Y.mean(axis=0), rtol=1e-12)
    assert_allclose(fit.loo_residuals, 16 / 15 * (Y - Y.mean(axis=0)), rtol=1e-12, atol=1e-14)
    if "points" in fields:
        assert_array_equal(fit.coef, 0.0)


def test_copies_in_the_data_are_sound_for_every_C():
    rows = np.repeat(np.arange(8), 2)
    machine = problem(X=X[rows], y=Y, weights=np.ones(16))
    for C in (1e-6, 1.0, 1e4):
        copies = machine.replace(C=C)
        assert_allclose(copies.solve().loo_residuals, left_out(copies), rtol=1e-7)


# Matrices from outside ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("basis", ["dual", "rows"])
def test_a_precomputed_matrix_is_the_kernel(basis):
    weights = WEIGHTS.copy()
    weights[[0, 4]] = 0.0
    for values in (WEIGHTS, weights):
        fit = problem(basis, weights=values).solve()
        given = problem(basis, kernel=kernels.Precomputed(), X=KERNEL(X), weights=values).solve()
        for name in FIELDS:
            assert_allclose(getattr(given, name), getattr(fit, name), rtol=1e-10, atol=1e-12, err_msg=name)
        assert_allclose(given.predict(KERNEL(NEW, X)), fit.predict(NEW), rtol=1e-10)


@pytest.mark.parametrize("basis", ["dual", "rows"])
def test_a_subset_of_the_rows_is_the_machine_without_the_others(basis):
    rows = np.array([3, 5, 6, 9, 11, 14])
    weights = np.zeros(16)
    weights[rows] = WEIGHTS[rows]
    expected = problem(basis, weights=weights).solve().loo_residuals[rows]
    assert_allclose(problem(basis).subset(rows).solve().loo_residuals, expected, rtol=1e-10)
    given = problem(basis, kernel=kernels.Precomputed(), X=KERNEL(X))
    if basis == "dual":
        assert_allclose(given.subset(rows).solve().loo_residuals, expected, rtol=1e-10)
    else:
        with pytest.raises(ValueError, match="must be among the rows"):
            given.subset(rows)


@pytest.mark.parametrize("rows", [16, 100])
def test_an_indefinite_matrix_solves_its_kkt_system(rows):
    rng = np.random.default_rng(8)
    A, y, weights = rng.standard_normal((rows, rows)), rng.standard_normal((rows, 2)), rng.uniform(0.5, 2.0, rows)
    for K in (A + A.T, np.tanh(A @ A.T - 2.0), -A @ A.T):
        machine = Problem(kernels.Precomputed(), K, y, weights, 3.0)
        fit = machine.solve()
        coef, intercept = reference.kkt(K, y, weights, 1.0 / 3.0)
        assert reference.kkt_residual(machine, fit) < 30 * rows * EPS
        assert_allclose(fit.coef, coef, rtol=1e-7, atol=1e-8 * np.abs(coef).max())
        assert_allclose(fit.intercept, intercept, rtol=1e-7, atol=1e-8)


# The check of a fit ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("C", [1e-12, 1e-6, 1.0, 1e6, 1e12])
@pytest.mark.parametrize("kernel", [kernels.RBF(0.3), kernels.RBF(20.0), kernels.Linear(), kernels.Polynomial(3)])
def test_solved_systems_have_residuals_of_rounding_size(kernel, C):
    rng = np.random.default_rng(9)
    for rows in (2, 5, 40):
        inputs, y = rng.standard_normal((rows, 3)), rng.standard_normal((rows, 2)) + 5.0
        weights = 10.0 ** rng.uniform(-4, 0, rows)
        for options in ({}, {"support": np.arange(0, rows, 3)}, {"points": rng.standard_normal((6, 3))}):
            machine = Problem(kernel, inputs, y, weights, C, **options)
            assert reference.kkt_residual(machine, machine.solve()) < 30 * rows * EPS, (rows, options)
            assert reference.kkt_residual(machine, machine.factorise(C, every=True).fit(C)) < 30 * rows * EPS, (
                rows,
                options,
            )


@pytest.mark.parametrize("basis", BASES)
def test_the_check_sees_a_wrong_solution(basis):
    fit = problem(basis).solve()
    wrong = fit.coef.copy()
    wrong[2, 0] *= 1 + 1e-6
    vars(fit)["coef"] = wrong
    assert reference.kkt_residual(problem(basis), fit) > 1e-9


# Rows held out --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("share", [0.01, 0.2, 0.5, 0.99])
@pytest.mark.parametrize("seed", range(5))
def test_rows_held_out_for_numbers_are_those_of_train_test_split(share, seed):
    machine = problem(weights=np.where(np.arange(16) % 5 == 2, 0.0, WEIGHTS))
    count = min(max(1, round(share * 13)), 12)
    expected = np.sort(train_test_split(machine.rows, test_size=count, random_state=seed)[1])
    assert_array_equal(held_out_rows(machine, share, seed), expected)


@pytest.mark.parametrize("share", [0.01, 0.2, 0.5, 0.99])
@pytest.mark.parametrize("sizes", [(50, 30), (90, 7, 3, 1), (2,) * 20, (1, 1, 1)])
def test_rows_held_out_of_classes_are_stratified(share, sizes):
    """Their number is that of the share; every class gives its share to within one row and keeps a row to train on."""
    codes = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    rows = len(codes)
    targets = 2.0 * (codes[:, None] == np.arange(len(sizes))) - 1.0 if len(sizes) > 2 else 2.0 * codes[:, None] - 1.0
    machine = problem(X=np.zeros((rows, 1)), y=targets, weights=np.ones(rows), classification=True)
    drawn = [held_out_rows(machine, share, seed) for seed in range(20)]
    for held in drawn:
        assert len(np.unique(held)) == len(held) == max(1, min(round(share * rows), rows - len(sizes)))
        given = np.bincount(codes[held], minlength=len(sizes))
        if max(sizes) > 1:
            assert np.all(given < sizes)
        assert np.all(np.abs(given - np.minimum(share * np.array(sizes), np.array(sizes) - 1)) <= 1)
    if max(sizes) > 2:
        assert len({tuple(held) for held in drawn}) > 1


def test_one_row_cannot_be_held_out():
    with pytest.raises(ValueError, match="1 row with positive weight is too few to hold rows out: use at least 2 rows"):
        held_out_rows(problem(weights=np.eye(16)[3]), 0.2, 0)


# Leave-one-out over drawn problems ------------------------------------------------------------------------------------
@st.composite
def drawn_problems(draw):
    """Problems that plain least squares refits to about 1e-9: a moderate ridge, inputs on a grid, copies among them."""
    rows, columns = draw(st.integers(2, 9)), draw(st.integers(1, 3))
    values = st.integers(-6, 6).map(lambda step: step / 2)
    inputs = draw(arrays(float, (rows, columns), elements=values))
    y = draw(arrays(float, (rows, draw(st.integers(1, 2))), elements=st.floats(-100, 100, width=32)))
    weights = np.ones(rows)
    if draw(st.booleans()):
        weights = draw(arrays(float, rows, elements=st.floats(0.125, 8.0)))
    kernel = draw(
        st.sampled_from(
            [
                kernels.RBF(1.0),
                kernels.RBF(2.0),
                kernels.Matern(1.0, nu=0.5),
                kernels.Matern(2.0, nu=2.5),
                kernels.Linear(),
                kernels.Polynomial(2),
                kernels.Additive(kernels.RBF(1.0)),
                kernels.RBF(2.0) + kernels.Linear(),
            ]
        )
    )
    basis = draw(st.sampled_from(["dual", "rows", "points"]))
    options = {}
    if basis == "rows":
        options["support"] = np.flatnonzero(draw(arrays(bool, rows, elements=st.booleans())) | (np.arange(rows) == 0))
    elif basis == "points":
        options["points"] = draw(arrays(float, (draw(st.integers(1, 5)), columns), elements=values))
    return Problem(kernel, inputs, y, weights, 10.0 ** draw(st.floats(-3, 3)), **options)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(drawn_problems(), st.booleans())
def test_closed_form_leave_one_out_is_the_refits(machine, every):
    loo = machine.factorise(machine.C, every=every).fit(machine.C).loo_residuals
    assert_allclose(loo, left_out(machine), rtol=1e-7, atol=1e-9 * max(1.0, np.abs(machine.y).max()))


@pytest.mark.parametrize(
    "changes",
    [
        {"C": 3.0, "kernel": kernels.RBF(2.0)},
        {"X": np.arange(24.0).reshape(8, 3) ** 2},
        {"weights": np.array([0.0, 0, 1, 1, 1, 1, 0, 1])},
        {"groups": np.array([0, 0, 1])},
    ],
)
def test_copies_of_a_problem_know_the_spread_of_their_own_columns(changes):
    X = np.column_stack([np.arange(8.0) ** 2, [0.0, 1, 0, 0, 0, 0, 1, 0], np.arange(8.0)])
    problem = Problem(kernels.RBF(1.0), X, X[:, :1], np.ones(8))
    assert_array_equal(problem.spreads.constant, False)
    fields = {"kernel": problem.kernel, "X": X, "y": problem.y, "weights": problem.weights, **changes}
    for found, expected in zip(problem.replace(**changes).spreads, Problem(**fields).spreads, strict=True):
        assert_array_equal(found, expected)
    assert not any(found.flags.writeable for found in problem.replace(**changes).spreads[:2])
