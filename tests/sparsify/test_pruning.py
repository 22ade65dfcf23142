"""Pruning against refits and Suykens' Algorithm 2."""

import numpy as np
import pytest
import reference
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sparsify_cases import GIVEN, ROWS, TASKS, coded, make, within

from lssvm import LSSVR, datasets, kernels, robust
from lssvm.arrays import threads
from lssvm.problem import Problem
from lssvm.sparsify import Given, Prune, pruning
from lssvm.tune import LeaveOneOut


# Classes and options --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("task", ["two classes", "five classes"])
@pytest.mark.parametrize("options", [{"rows": "drop"}, {"rows": "keep"}, {"rows": "drop", "score": "kfold"}])
@pytest.mark.parametrize("n", [1, 4, 7])
def test_every_class_survives_pruning(task, options, n):
    """Where n is smaller than the number of classes, one vector of each is left."""
    model, X, y = make(task)
    with within(60):
        model.set_params(steps=[Prune(n, fraction=0.2, **options)]).fit(X, y)
    assert set(y[model.support_]) == set(y)
    assert len(model.support_) == max(n, len(set(y)))


@pytest.mark.parametrize("task", ["two classes", "three classes", "four classes"])
@pytest.mark.parametrize("rows", ["drop", "keep"])
def test_pruning_without_a_size_ends(task, rows):
    model, X, y = make(task)
    X = 10.0 * X
    with within(60):
        model.set_params(kernel=kernels.Linear(), steps=[Prune(rows=rows, tolerance=0.99, fraction=0.3)]).fit(X, y)
    assert set(y[model.support_]) == set(y)


@pytest.mark.parametrize("options", [{"rows": "both"}, {"score": "aic"}])
def test_options_of_pruning(options):
    model, X, y = make("numbers")
    with pytest.raises(ValueError, match=f"Prune: {next(iter(options))} must be '"):
        model.set_params(steps=[Prune(5, **options)]).fit(X, y)


# Rows dropped ---------------------------------------------------------------------------------------------------------
def algorithm_2(K, y, C, sizes, weigh=None):
    """Suykens' Algorithm 2 by hand: the supports and the error over all rows at every size."""
    alive, supports, scores = np.arange(len(y)), [], []
    for size in sizes:
        inner, weights = K[np.ix_(alive, alive)], np.ones(len(alive))
        alpha, b = reference.kkt(inner, y[alive], weights, 1 / C)
        if weigh is not None:
            weights = weigh(y[alive] - inner @ alpha - b)
            alpha, b = reference.kkt(inner, y[alive], weights, 1 / C)
        residuals = y - K[:, alive] @ alpha - b  # of new points, and of those alive after a refit without each
        residuals[alive] = reference.left_out(inner, inner, y[alive], weights, 1 / C)
        loss = np.abs(residuals) if weigh is not None else residuals**2
        supports.append(alive)
        scores.append(np.mean(np.sum(loss, axis=1)))
        order = np.argsort(np.linalg.norm(alpha, axis=1), kind="stable")
        alive = np.sort(alive[order[max(1, int(0.05 * size)) :]])
    return supports, scores


@pytest.mark.parametrize(("weigh", "outputs"), [(None, 2), (robust.Hampel(), 1), (robust.Huber(), 2)])
def test_dropping_rows_is_algorithm_2(weigh, outputs):
    model, X, y = make("numbers", rows=45)
    y = np.column_stack([y, X[:, 0] * X[:, 1]])[:, :outputs]
    model.set_params(robust=weigh, steps=[Prune(20)]).fit(X, y)
    path = model.path_
    assert_array_equal(path.sizes, [45, 43, 41, 39, *range(38, 19, -1)])  # max(1, floor(0.05 n)) go at every step
    supports, scores = algorithm_2(model.kernel(X, X), y, model.C, path.sizes, weigh)
    for ours, theirs in zip(path.supports, supports, strict=True):
        assert_array_equal(ours, theirs)
    assert_allclose(path.scores, scores, rtol=1e-7)
    assert path.chosen == 20
    assert_array_equal(model.support_, supports[-1])
    assert model.C_ == 10.0
    dropped = np.setdiff1d(np.arange(45), model.support_)
    assert_array_equal(model.weights_[dropped], 0.0)
    assert np.all(model.weights_[model.support_] > 0)


@pytest.mark.parametrize("score", ["loo", "validation"])
@pytest.mark.parametrize("C", [1.0, 1e5])
@pytest.mark.parametrize("task", TASKS)
def test_dropping_rows_by_updates_is_refitting(task, C, score, monkeypatch):
    """Weights, rows of weight 0, several outputs; 90 rows to 12 and so more than one factorisation."""
    monkeypatch.setattr(pruning, "DELAYED", 7)  # some products are delayed, others are not
    model, X, y = make(task, rows=90)
    weights = np.random.default_rng(2).uniform(0.3, 3.0, 90)
    weights[::13] = 0.0
    model.set_params(C=C, steps=[Prune(12, score=score, random_state=0)])
    updated = clone(model).fit(X, y, weights).path_
    monkeypatch.setattr(pruning._Path, "_drop_rows", lambda self: self._refit(self.problem, self.first))
    refitted = clone(model).fit(X, y, weights).path_
    for ours, theirs in zip(updated.supports, refitted.supports, strict=True):
        assert_array_equal(ours, theirs)
    assert_allclose(updated.scores, refitted.scores, rtol=1e-8)


@pytest.mark.parametrize("cores", [1, 2])
def test_keeping_many_rows_is_the_improved_machine(cores, monkeypatch):
    """From all rows by eliminations, to less than a quarter of them: scores at some sizes equal refits."""
    monkeypatch.setattr(threads, "_cores", lambda: cores)
    monkeypatch.setattr(threads, "_libraries", lambda: ([], []))
    X, y = datasets.make_sinc(400, random_state=0)
    X = np.column_stack([X, np.random.default_rng(0).uniform(-2, 2, (400, 3))])
    kernel = kernels.Matern(1.0)
    path = LSSVR(kernel, C=100.0, steps=[Prune(90, rows="keep")]).fit(X, y).path_
    for place in range(0, len(path.sizes), 4):
        loo = Problem(kernel, X, y[:, None], np.ones(400), C=100.0, support=path.supports[place]).solve().loo_residuals
        assert path.scores[place] == pytest.approx(np.mean(loo**2), rel=1e-8)


@pytest.mark.parametrize("everything", [True, False])
def test_a_path_that_loses_digits_begins_anew(everything, monkeypatch):
    """Hardly any ridge: what is left of an inverse is small beside what it began with, and a machine is solved anew."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (120, 2))
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.standard_normal(120)
    weights = rng.uniform(0.3, 3.0, 120)
    support = None if everything else np.arange(0, 120, 2)
    problem = Problem(kernels.Matern(1.0, nu=2.5), X, y[:, None], weights, C=1e5, support=support)
    begun = []
    inverse = pruning._inverse_of
    monkeypatch.setattr(pruning, "_inverse_of", lambda *given: (begun.append(given), inverse(*given))[1])
    path = Prune(5, rows="keep")(problem).paths["Prune"]
    assert len(begun) > 1
    for kept, score in zip(path.supports, path.scores, strict=True):
        loo = problem.with_basis(kept).solve().loo_residuals[:, 0]
        assert score == pytest.approx(weights @ loo**2 / weights.sum(), rel=1e-7)


@pytest.mark.parametrize("fraction", [0.5, 0.9, 0.99])
def test_digits_that_are_lost_within_a_step(fraction):
    """The vectors that go together depend on each other, although none of them depends on those that went before."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-2, 2, (120, 2))
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.standard_normal(120)
    problem = Problem(kernels.Matern(3.5, nu=2.5), X, y[:, None], np.ones(120), C=4e6)
    path = Prune(2, rows="keep", fraction=fraction)(problem).paths["Prune"]
    for kept, score in zip(path.supports, path.scores, strict=True):
        loo = problem.with_basis(kept).solve().loo_residuals[:, 0]
        assert score == pytest.approx(np.mean(loo**2), rel=1e-6)


@pytest.mark.parametrize("score", ["loo", "kfold", "validation"])
def test_one_row_is_no_machine_to_leave_rows_out_of(score):
    """Without its last row nothing is left to fix the bias: two rows stay, or the step says what is wrong with n."""
    model, X, y = make("numbers", rows=20)
    model.set_params(steps=[Prune(1, score=score, random_state=0)])
    error = ""
    try:
        model.fit(X, y)
    except ValueError as caught:
        error = str(caught)
    assert error or len(model.support_) == 2
    assert not error or "Prune" in error


# Rows kept ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("task", TASKS)
def test_keeping_rows_is_the_improved_machine(task, weighted):
    """A full-rank kernel: supports and scores of the whole path from l to 1 equal the loop of refits."""
    model, X, y = make(task, rows=50)
    kernel = kernels.Matern(1.5)
    weights = np.random.default_rng(1).uniform(0.3, 3.0, 50) if weighted else np.ones(50)
    with within(60):
        model.set_params(kernel=kernel, steps=[Prune(3, rows="keep")]).fit(X, y, weights)
    path, K, t = model.path_, kernel(X, X), coded(model, y)
    assert path.sizes[-1] == path.chosen == 3
    alive = np.arange(50)
    for size, support, score in zip(path.sizes, path.supports, path.scores, strict=True):
        assert_array_equal(support, alive)
        assert size == len(alive)
        problem = Problem(kernel, X, t, weights, C=10.0, points=X[alive])
        loo = problem.solve().loo_residuals
        assert score == pytest.approx(weights @ np.sum(loo**2, axis=1) / weights.sum(), rel=1e-8)
        coef, _ = reference.machine(K[:, alive], K[np.ix_(alive, alive)], t, weights, 0.1)
        order = np.argsort(np.linalg.norm(coef, axis=1), kind="stable")
        if task != "numbers":
            labels = np.unique(y, return_inverse=True)[1][alive]
            largest = [order[labels[order] == label][-1] for label in range(len(model.classes_))]
            order = order[~np.isin(order, largest)]
        alive = np.delete(alive, order[: min(max(1, int(0.05 * size)), size - 3)])
    for size in (50, 20, 3):
        support = path.supports[list(path.sizes).index(size)]
        loo = reference.left_out(K[:, support], K[np.ix_(support, support)], t, weights, 0.1)
        score = weights @ np.sum(loo**2, axis=1) / weights.sum()
        assert path.scores[list(path.sizes).index(size)] == pytest.approx(score, rel=1e-8)


@pytest.mark.slow
def test_the_path_of_an_ill_conditioned_machine():
    """Motorcycle, sigma 13.1: 94 distinct times, a numerical rank of about 20."""
    X, y = datasets.load_motorcycle(return_X_y=True)
    kernel, C = kernels.RBF(13.1), 1 / 1.2055e-3
    path = LSSVR(kernel, C, steps=[Prune(1, rows="keep")]).fit(X, y).path_
    assert path.sizes[0] == 133
    assert path.sizes[-1] == 1
    for support, score in zip(path.supports, path.scores, strict=True):
        refit = Problem(kernel, X, y[:, None], np.ones(133), C=C, points=X[support]).solve()
        assert score == pytest.approx(np.mean(refit.loo_residuals**2), rel=1e-6)
    for size in (133, 5):  # in between the condition of K_SS is above 1e16, and the digits depend on the route
        support = path.supports[list(path.sizes).index(size)]
        loo = reference.left_out(kernel(X, X[support]), kernel(X[support], X[support]), y[:, None], np.ones(133), 1 / C)
        assert path.scores[list(path.sizes).index(size)] == pytest.approx(np.mean(loo**2), rel=1e-6)


@pytest.mark.parametrize(("score", "sigma"), [("loo", 10.6), ("loo", 10.8), ("kfold", 10.7)])
def test_a_singular_basis_is_pruned_by_coefficients_of_least_norm(score, sigma):
    """Motorcycle, 133 vectors of a numerical rank of 20: all but 9 are free, however the path is scored.

    The coefficients of such a basis are not unique to working precision. Those on the pivots of a Cholesky factor, 0
    elsewhere, drop vectors in the order of the pivots: the error at 9 vectors is then 1.7 times that of all.
    """
    X, y = datasets.load_motorcycle(return_X_y=True)
    model = LSSVR(kernels.RBF(sigma), C=44.0)
    dense = np.mean(clone(model).fit(X, y).loo_residuals_ ** 2)
    path = clone(model).set_params(steps=[Prune(9, rows="keep", score=score, random_state=0)]).fit(X, y).path_
    for size, factor in ((20, 1.02), (12, 1.08), (9, 1.12)):
        support = path.supports[list(path.sizes).index(size)]
        pruned = clone(model).set_params(steps=[Given(support)]).fit(X, y)
        assert np.mean(pruned.loo_residuals_**2) < factor**2 * dense, size


@pytest.mark.filterwarnings("ignore:Rounding errors")  # for C = 2.4e9
@pytest.mark.parametrize(("sigma", "C"), [(13.1, 1 / 1.2055e-3), (10.69, 44.0), (22.5, 2.4e9)])
def test_what_predicts_is_the_machine_that_was_fitted(sigma, C):
    """f(x_i) = y_i - e_i with e_i = LOO_i (1 - h_i), for bases whose kernel matrix is singular to working precision."""
    X, y = datasets.load_motorcycle(return_X_y=True)
    path = LSSVR(kernels.RBF(sigma), C, steps=[Prune(5, rows="keep")]).fit(X, y).path_
    for support in path.supports[20::4]:
        model = LSSVR(kernels.RBF(sigma), C, steps=[Given(support)]).fit(X, y)
        fitted = y - model.loo_residuals_ * (1.0 - model.leverage_)
        tolerance = (5e-4 if C > 1e9 else 1e-4) * y.std()
        assert_allclose(model.predict(X), fitted, rtol=0, atol=tolerance, err_msg=f"{len(support)} vectors")


def test_robust_weights_stay_along_the_path_and_are_renewed_at_its_end():
    model, X, y = make("numbers")
    model.set_params(robust="hampel", steps=[Prune(20, rows="keep")]).fit(X, y)
    dense = LSSVR(**GIVEN, robust="hampel").fit(X, y)
    for support, score in list(zip(model.path_.supports, model.path_.scores, strict=True))[::4]:
        fixed = LSSVR(**GIVEN, steps=[Given(X[support])]).fit(X, y, dense.weights_)
        assert score == pytest.approx(np.mean(np.abs(fixed.loo_residuals_)), rel=1e-7)
    renewed = LSSVR(**GIVEN, robust="hampel", steps=[Given(model.support_)]).fit(X, y)
    assert_allclose(model.weights_, renewed.weights_, rtol=1e-7)
    assert_allclose(model.predict(X), renewed.predict(X), rtol=1e-7)


# Scores, sizes, tuning ------------------------------------------------------------------------------------------------
def folds_of(rows, seed):
    return np.array_split(np.random.RandomState(seed).permutation(rows), 10)


@pytest.mark.parametrize("rows", ["drop", "keep"])
@pytest.mark.parametrize("task", TASKS)
def test_a_validation_score_is_that_of_rows_held_out(rows, task):
    model, X, y = make(task)
    step = Prune(8, rows=rows, score="validation", fraction=0.2, random_state=3)
    model.set_params(steps=[step]).fit(X, y)
    path, K, t = model.path_, model.kernel(X, X), coded(model, y)
    held_out = np.setdiff1d(np.arange(ROWS), path.supports[0])
    assert len(held_out) == round(ROWS / 5)
    for support, score in zip(path.supports, path.scores, strict=True):
        weights = np.ones(ROWS)
        weights[held_out] = 0.0
        if rows == "drop":
            weights[:] = 0.0
            weights[support] = 1.0
        coef, b = reference.machine(K[:, support], K[np.ix_(support, support)], t, weights, 0.1)
        errors = (t - K[:, support] @ coef - b)[held_out]
        assert score == pytest.approx(np.mean(np.sum(errors**2, axis=1)), rel=1e-7)
    if rows == "keep":  # the rows held out come back at the end
        assert_array_equal(model.weights_, 1.0)


@pytest.mark.parametrize("rows", ["drop", "keep"])
@pytest.mark.parametrize("weigh", [None, "hampel"])
def test_a_kfold_score_is_that_of_refits_without_each_fold(rows, weigh):
    model, X, y = make("numbers")
    step = Prune(10, rows=rows, score="kfold", fraction=0.2, random_state=3)
    model.set_params(robust=weigh, steps=[step]).fit(X, y)
    path, K, t = model.path_, model.kernel(X, X), y[:, None]
    for support, score in zip(path.supports, path.scores, strict=True):
        weights = np.ones(ROWS)
        if rows == "drop":
            weights[np.setdiff1d(np.arange(ROWS), support)] = 0.0
        if weigh:
            problem = Problem(model.kernel, X, t, weights, C=10.0, points=X[support], robust=robust.Hampel())
            weights = problem.solve().weights
        blocks = folds_of(np.arange(ROWS), 3)
        errors = reference.left_out(K[:, support], K[np.ix_(support, support)], t, weights, 0.1, blocks=blocks)
        assert score == pytest.approx(np.mean(np.abs(errors) if weigh else errors**2), rel=1e-6)


@pytest.mark.parametrize("rows", ["drop", "keep"])
def test_ten_folds_of_ten_rows_are_leave_one_out(rows):
    model, X, y = make("numbers", rows=10)
    paths = [
        clone(model).set_params(steps=[Prune(3, rows=rows, score=score, random_state=0)]).fit(X, y).path_
        for score in ("loo", "kfold")
    ]
    assert_allclose(paths[1].scores, paths[0].scores, rtol=1e-7)


@pytest.mark.parametrize("rows", ["drop", "keep"])
@pytest.mark.parametrize("tolerance", [0.0, 0.05, 0.5])
def test_without_a_size_the_smallest_good_one_is_kept(rows, tolerance):
    model, X, y = make("numbers")
    y[::17] -= 4.0
    model.set_params(steps=[Prune(rows=rows, tolerance=tolerance)]).fit(X, y)
    path = model.path_
    full = clone(model).set_params(steps=[Prune(2, rows=rows)]).fit(X, y).path_
    assert_array_equal(path.sizes, full.sizes[: len(path.sizes)])
    assert_allclose(path.scores, full.scores[: len(path.sizes)], rtol=1e-9)
    good = [
        size
        for size, score in zip(path.sizes, path.scores, strict=True)
        if score <= (1 + tolerance) * path.scores.min()
    ]
    assert path.chosen == min(good) == len(model.support_)
    assert path.sizes[-1] < path.chosen  # it went on until the score fell
    assert_array_equal(model.support_, path.supports[list(path.sizes).index(path.chosen)])


def score_at(model, support, X, y, kernel, C, rows):
    """Mean squared left-out residual of one machine over all rows, dropped rows as new points."""
    weights = np.ones(len(y))
    if rows == "drop":
        weights[np.setdiff1d(np.arange(len(y)), support)] = 0.0
    return np.mean(LSSVR(kernel, C, steps=[Given(X[support])]).fit(X, y, weights).loo_residuals_ ** 2)


@pytest.mark.parametrize("rows", ["drop", "keep"])
def test_tuning_again_stays_near_and_never_loses(rows):
    """At every step C and the width move by a factor of 5 at most, and the score is no worse than without moving."""
    model, X, y = make("numbers", rows=40)
    kernel, C = kernels.RBF(np.array([0.6, 5.0])), 300.0
    moved = False
    supports = None
    for steps_taken, size in enumerate((40, 28, 20, 14)):
        step = Prune(size, rows=rows, fraction=0.3, retune=True)
        fit = clone(model).set_params(kernel=kernels.RBF(np.array([0.6, 5.0])), C=300.0, steps=[step]).fit(X, y)
        path = fit.path_
        assert path.sizes[-1] == size
        assert len(path.sizes) == steps_taken + 1
        assert supports is None or all(map(np.array_equal, supports, path.supports))
        supports = path.supports
        before = score_at(model, path.supports[-1], X, y, kernel, C, rows)
        after = score_at(model, path.supports[-1], X, y, fit.kernel_, fit.C_, rows)
        assert path.scores[-1] == pytest.approx(after, rel=1e-6)
        assert path.scores[-1] <= before * (1 + 1e-9)
        assert 0.2 * (1 - 1e-9) <= fit.C_ / C <= 5 * (1 + 1e-9)
        factor = fit.kernel_.sigma / kernel.sigma
        assert_allclose(factor, factor[0], rtol=1e-12)  # one factor for all widths
        assert 0.2 * (1 - 1e-9) <= factor[0] <= 5 * (1 + 1e-9)
        moved = moved or (abs(np.log(fit.C_ / C)) > 0.1 and abs(np.log(factor[0])) > 0.1)
        kernel, C = fit.kernel_, fit.C_
    assert moved


def test_a_tuner_after_pruning_tunes_again():
    """design.md, section 3: `[LeaveOneOut(), Prune(20)]` tunes the dense one first, a second tuner re-tunes."""
    _, X, y = make("numbers")
    steps = [LeaveOneOut(), Prune(8, rows="keep")]
    once, again = (LSSVR(steps=plan).fit(X, y) for plan in (steps, [*steps, LeaveOneOut()]))
    assert_array_equal(again.support_, once.support_)
    assert again.press_ < once.press_


def test_pruning_scores_of_rank_deficient_bases_are_those_of_refits():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((80, 2))[rng.integers(80, size=200)]
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(200)
    problem = Problem(kernels.RBF(0.2), X, y[:, None], rng.uniform(0.1, 2.0, 200), C=1.0)
    path = Prune(3, rows="keep", fraction=0.1)(problem).paths["Prune"]
    for support, score in zip(path.supports, path.scores, strict=True):
        fit = problem.with_basis(support).solve()
        expected = problem.weights @ fit.loo_residuals[:, 0] ** 2 / problem.weights.sum()
        assert_allclose(score, expected, rtol=1e-6)
