"""Columns of the KKT system and A-LSSVM against the literal algorithms of the papers."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sparsify_cases import ROWS, TASKS, coded, columns, make, raw, reduced_loo

from lssvm import kernels
from lssvm.intervals.loo import FittedLoo
from lssvm.problem import Problem
from lssvm.sparsify import Adaline, AdaPinv, Echelon, InversePrune


# Columns of the KKT system --------------------------------------------------------------------------------------------
def classifier_form(model, X, y):
    """A06, eq. (4): A = [0 y'; y H], H = (yy') o K + I/gamma, B = [0; 1]; X = [b; alpha]."""
    t = np.where(y == np.unique(y)[1], 1.0, -1.0)
    H = np.outer(t, t) * model.kernel(X, X) + np.eye(len(t)) / model.C
    return np.block([[np.zeros((1, 1)), t[None, :]], [t[:, None], H]]), np.append(0.0, np.ones(len(t))), t


def literal_reduced(A, B, t, support):
    """b and coefficients alpha o y of the least-squares solution on the bias column and the chosen ones."""
    solution = np.linalg.lstsq(A[:, np.append(0, 1 + support)], B, rcond=None)[0]
    return solution[0], solution[1:] * t[support]


def assert_reduced(model, X, y, support):
    A, B, t = classifier_form(model, X, y)
    assert_array_equal(model.support_, np.sort(support))
    b, coef = literal_reduced(A, B, t, np.sort(support))
    assert_allclose(model.dual_coef_, coef, rtol=1e-7, atol=1e-9)
    assert model.intercept_ == pytest.approx(b, rel=1e-7)


WHOLE = {
    "InversePrune": InversePrune(0.0),
    "AdaPinv": AdaPinv(0.0),
    "Echelon-n": Echelon(n=ROWS),
    "Echelon-tol": Echelon(tol=1e-8),
    "Adaline": Adaline(tol=0.0),
}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", WHOLE)
def test_all_columns_are_the_dense_machine(name, task):
    model, X, y = make(task)
    dense = clone(model).fit(X, y)
    model.set_params(steps=[clone(WHOLE[name])]).fit(X, y)
    assert_array_equal(model.support_, np.arange(ROWS))
    assert_allclose(model.dual_coef_, dense.dual_coef_, rtol=1e-8, atol=1e-9)
    assert_allclose(raw(model, X), raw(dense, X), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", WHOLE)
def test_all_columns_have_the_leave_one_out_of_the_dense_machine(name):
    """Deleting an equation of the square system leaves a line of solutions, and 0/0 by the reduced formula."""
    model, X, y = make("numbers")
    dense = clone(model).fit(X, y)
    model.set_params(steps=[clone(WHOLE[name])]).fit(X, y)
    assert_allclose(model.loo_residuals_, dense.loo_residuals_, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("task", TASKS)
def test_reduced_machines_leave_out_blocks_and_predict_without_each_row(task):
    model, X, y = make(task)
    model.set_params(steps=[InversePrune(0.4)]).fit(X, y)
    t, weights = coded(model, y), np.random.default_rng(1).uniform(0.3, 3.0, ROWS)
    problem = Problem(model.kernel, X, t, weights, C=10.0, support=model.support_, reduced=True)
    factor = problem.factorise()
    folds = np.array_split(np.random.default_rng(2).permutation(ROWS), 6)
    K, new = model.kernel(X, X), np.random.default_rng(3).uniform(-2, 2, (4, 2))
    expected = reduced_loo(K, model.support_, t, weights, 0.1, blocks=folds)
    assert_allclose(factor.block_residuals(folds, 10.0), expected, rtol=1e-6, atol=1e-7)
    loo, predictions = reduced_loo(K, model.support_, t, weights, 0.1, K_new=model.kernel(new, X[model.support_]))
    fit = factor.fit(10.0)
    assert_allclose(fit.loo_residuals, loo, rtol=1e-6, atol=1e-7)
    assert_allclose(FittedLoo(problem, fit).predictions(new), predictions, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("fraction", [0.1, 0.25, 0.5])
def test_inverse_prune_keeps_the_largest_signed_support_values(fraction):
    model, X, y = make("two classes")
    A, B, _ = classifier_form(model, X, y)
    alpha = np.linalg.solve(A, B)[1:]
    support = np.argsort(-alpha)[: ROWS - int(fraction * ROWS)]
    assert alpha.min() < 0  # signed and absolute readings differ
    assert set(support) != set(np.argsort(-np.abs(alpha))[: len(support)])
    assert_reduced(model.set_params(steps=[InversePrune(fraction)]).fit(X, y), X, y, support)


def test_inverse_prune_of_several_classes_counts_the_largest_value_of_a_row():
    model, X, y = make("three classes")
    dense = clone(model).fit(X, y)
    value = np.max(dense.dual_coef_ * coded(dense, y), axis=1)
    model.set_params(steps=[InversePrune(0.5)]).fit(X, y)
    assert_array_equal(model.support_, np.sort(np.argsort(-value)[: ROWS // 2]))


@pytest.mark.parametrize("task", TASKS)
def test_ada_pinv_run_to_its_end_selects_by_the_exact_values(task):
    model, X, y = make(task)
    model.set_params(kernel=kernels.Matern(0.5, nu=0.5), C=2.0)  # a well-conditioned system
    alpha = np.linalg.norm(columns(clone(model).fit(X, y).dual_coef_), axis=1)
    model.set_params(steps=[AdaPinv(0.5, max_iter=20000)]).fit(X, y)
    assert_array_equal(model.support_, np.sort(np.argsort(-alpha)[: ROWS // 2]))


def test_ada_pinv_stopped_early_selects_by_the_iterate():
    model, X, y = make("two classes")
    A, B, _ = classifier_form(model, X, y)
    x = np.zeros(len(A))
    for _ in range(7):
        x = x + 1e-3 * A.T @ (B - A @ x)
    support = np.argsort(-np.abs(x[1:]))[: ROWS // 2]
    exact = np.argsort(-np.abs(np.linalg.solve(A, B)[1:]))[: ROWS // 2]
    assert set(support) != set(exact)
    model.set_params(steps=[AdaPinv(0.5, learning_rate=1e-3, max_iter=7)]).fit(X, y)
    assert_reduced(model, X, y, support)


@pytest.mark.parametrize("n", [1, 5, 20, 50])
@pytest.mark.parametrize("task", ["numbers", "two classes"])
def test_echelon_with_a_count_does_not_depend_on_the_order_of_the_rows(task, n):
    model, X, y = make(task)
    order = np.random.default_rng(5).permutation(ROWS)
    plain = clone(model).set_params(steps=[Echelon(n=n)]).fit(X, y)
    shuffled = clone(model).set_params(steps=[Echelon(n=n)]).fit(X[order], y[order])
    assert_array_equal(np.sort(order[shuffled.support_]), plain.support_)
    assert_allclose(raw(shuffled, X), raw(plain, X), rtol=1e-7, atol=1e-8)


def test_echelon_with_a_count_takes_the_column_furthest_from_those_before():
    model, X, y = make("two classes")
    A, _, _ = classifier_form(model, X, y)
    taken = [0]  # the bias column is forced in
    for n in range(1, 9):
        Q = np.linalg.qr(A[:, taken])[0]
        left = np.linalg.norm(A - Q @ (Q.T @ A), axis=0)
        taken.append(int(np.argmax(left)))
        support = clone(model).set_params(steps=[Echelon(n=n)]).fit(X, y).support_
        assert_array_equal(support, np.sort(np.array(taken[1:]) - 1))


def literal_echelon(A, tol):
    """Reduced row echelon form, left to right, partial pivoting: columns with a pivot above tol, the bias forced in."""
    M, row, pivots = A.copy(), 0, []
    for column in range(M.shape[1]):
        if row == len(M):
            break
        best = row + int(np.argmax(np.abs(M[row:, column])))
        if column > 0 and np.abs(M[best, column]) <= tol:
            M[row:, column] = 0.0
            continue
        M[[row, best]] = M[[best, row]]
        M[row] /= M[row, column]
        for other in range(len(M)):
            if other != row:
                M[other] -= M[other, column] * M[row]
        pivots.append(column)
        row += 1
    return np.array(pivots[1:]) - 1


@pytest.mark.parametrize("share", [0.9, 1.05, 1.5, 3.0])
def test_echelon_with_a_tolerance_is_the_row_echelon_form(share):
    """Nothing goes below 1/C, where every column keeps its own ridge; not far above it many do."""
    model, X, y = make("two classes")
    model.set_params(steps=[Echelon(tol=share / model.C)]).fit(X, y)
    A, _, _ = classifier_form(model, X, y)
    support = literal_echelon(A, share / model.C)
    assert_array_equal(model.support_, support)
    if share < 1:
        assert len(support) == ROWS
    elif share > 1.2:
        assert len(support) < 0.9 * ROWS
    assert_reduced(model, X, y, support)


def test_echelon_takes_a_tolerance_or_a_count():
    model, X, y = make("numbers")
    with pytest.raises(ValueError, match=r"Echelon: give tol=0.1 or n=5, not both"):
        clone(model).set_params(steps=[Echelon(tol=0.1, n=5)]).fit(X, y)
    with pytest.raises(ValueError, match=r"Echelon: tol must be a finite, non-negative number"):
        clone(model).set_params(steps=[Echelon(tol=-0.1)]).fit(X, y)
    with pytest.raises(ValueError, match=r"lower tol"):
        clone(model).set_params(steps=[Echelon(tol=1e3)]).fit(X, y)


@pytest.mark.parametrize("copies", [False, True])
def test_echelon_without_either_takes_the_smallest_good_size(copies):
    """All columns, where they are compared, are the dense machine: theirs is its error."""
    model, X, y = make("numbers", rows=60)
    if copies:
        X = X[np.arange(60) % 9]
    dense = clone(model).fit(X, y).press_ / 60
    path = model.set_params(steps=[Echelon()]).fit(X, y).path_
    assert path.sizes[0] == 2
    assert path.sizes[-1] >= 30
    assert path.chosen == path.sizes[np.flatnonzero(path.scores <= 1.05 * path.scores.min())[0]] == len(model.support_)
    K = model.kernel(X, X)
    for size, support, score in zip(path.sizes, path.supports, path.scores, strict=True):
        assert len(support) == size
        if size < 60:
            loo = reduced_loo(K, np.sort(support), y[:, None], np.ones(60), 0.1)
            assert score == pytest.approx(np.mean(loo**2), rel=1e-5)
        else:
            assert score == pytest.approx(dense, rel=1e-6)


# A-LSSVM --------------------------------------------------------------------------------------------------------------
def literal_adaline(A, B, t, tol, rate, iterations, signed):
    """A06, section 3.1, on the classifier's system: update, residual, remove; two rows and both classes stay."""
    alive, x = np.arange(len(A)), np.zeros(len(A))
    for _ in range(iterations):
        inner = A[np.ix_(alive, alive)]
        x = x + rate * inner.T @ (B[alive] - inner @ x)
        r = (B[alive] - inner @ x)[1:]
        gone = (r if signed else np.abs(r)) < tol
        for label in (-1.0, 1.0):
            own = np.flatnonzero(t[alive[1:] - 1] == label)
            if gone[own].all():
                gone[own[np.argmax(np.abs(r[own]))]] = False
        stay = np.append(True, ~gone)
        alive, x = alive[stay], x[stay]
    return alive[1:] - 1, x


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("tol", [0.02, 0.2])
def test_adaline_is_the_loop_of_the_paper(tol, signed):
    model, X, y = make("two classes")
    A, B, t = classifier_form(model, X, y)
    rate = 1.5 / np.linalg.norm(A, 2) ** 2
    support, x = literal_adaline(A, B, t, tol, rate, 500, signed)
    assert 2 < len(support) < ROWS
    if tol < 0.1:  # the readings differ: the signed one drops what is fitted too well, too
        assert len(support) != len(literal_adaline(A, B, t, tol, rate, 500, not signed)[0])
    step = Adaline(tol=tol, learning_rate=rate, max_iter=500, signed=signed)
    assert_reduced(clone(model).set_params(steps=[step]).fit(X, y), X, y, support)
    raw_step = clone(step).set_params(final_solve=False)
    model.set_params(steps=[raw_step]).fit(X, y)
    assert_array_equal(model.support_, support)
    assert_allclose(model.dual_coef_, x[1:] * t[support], rtol=1e-8, atol=1e-12)
    assert model.intercept_ == pytest.approx(x[0], rel=1e-8)


def test_the_learning_rate_left_at_none_is_the_safe_one():
    """After one step from 0 the bias is rate * sum(y): 1/|A|^2."""
    model, X, y = make("numbers")
    model.set_params(steps=[Adaline(tol=0.0, max_iter=1, final_solve=False)]).fit(X, y)
    A = np.ones((ROWS + 1, ROWS + 1))
    A[0, 0] = 0.0
    A[1:, 1:] = model.kernel(X, X) + 0.1 * np.eye(ROWS)
    assert model.intercept_ / y.sum() == pytest.approx(np.linalg.norm(A, 2) ** -2, rel=1e-4)


@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("task", [*TASKS, "four classes", "five classes"])
def test_adaline_with_a_huge_tolerance_keeps_two_rows_and_every_class(task, final):
    model, X, y = make(task)
    model.set_params(steps=[Adaline(tol=1e6, max_iter=100, final_solve=final)]).fit(X, y)
    if task == "numbers":
        assert len(model.support_) == 2
    else:
        assert set(y[model.support_]) == set(y)
        assert len(model.support_) == len(set(y))
    assert np.isfinite(raw(model, X)).all()


@pytest.mark.parametrize("task", TASKS)
def test_adaline_without_a_final_solve_predicts_but_knows_no_leave_one_out(task):
    model, X, y = make(task)
    model.set_params(steps=[Adaline(tol=0.05, max_iter=500, final_solve=False)]).fit(X, y)
    assert np.isnan(model.loo_residuals_).all()
    assert np.isnan(model.leverage_).all()
    assert np.isfinite(raw(model, X)).all()
    if task != "numbers":
        probability = model.predict_proba(X)
        assert np.isfinite(probability).all()
        assert_allclose(probability.sum(axis=1), 1.0)
        assert_array_equal(model.classes_[np.argmax(probability, axis=1)], model.predict(X))


def test_adaline_of_numbers_is_not_signed():
    model, X, y = make("numbers")
    with pytest.raises(ValueError, match="Adaline: signed=True"):
        model.set_params(steps=[Adaline(signed=True)]).fit(X, y)


@pytest.mark.parametrize("step", [Adaline(tol=-1.0), Adaline(tol=float("nan"))])
def test_adaline_needs_a_tolerance(step):
    model, X, y = make("numbers")
    with pytest.raises(ValueError, match="Adaline: tol must be a finite, non-negative number"):
        model.set_params(steps=[step]).fit(X, y)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("inf"), float("nan")])
@pytest.mark.parametrize("kind", [Adaline, AdaPinv])
def test_a_learning_rate_must_be_positive(kind, rate):
    model, X, y = make("numbers")
    with pytest.raises(ValueError, match=f"{kind.__name__}: learning_rate must be positive"):
        model.set_params(steps=[kind(learning_rate=rate)]).fit(X, y)


@pytest.mark.parametrize("kind", [Adaline, AdaPinv])
def test_a_learning_rate_that_diverges_is_an_error(kind):
    """Above 2/|A|^2 the steps grow without bound: the step says so instead of selecting by noise."""
    model, X, y = make("numbers")
    with pytest.raises(ValueError, match="learning_rate"):
        model.set_params(steps=[kind(learning_rate=1.0)]).fit(X, y)
