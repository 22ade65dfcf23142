"""The claims of the papers, one test each; the protocols that make the published values come out, made shorter."""

import numpy as np
import pytest

from lssvm import LSSVR, datasets, kernels
from lssvm.sparsify import FeatureVectors, Given, Prune
from papers import a06
from papers.c02 import TUNED, compare_paths, folds, pruned_errors
from papers.c04 import ERRORS, explicit, motorcycle_machines, on_vectors
from papers.c04 import MOTORCYCLE as MACHINE
from papers.page import boston, rms

pytestmark = pytest.mark.slow


# Suykens et al. 2002 --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(5))
def test_weighted_pruning_drops_outliers_first_and_unweighted_keeps_them(seed):
    """Figs 10-11: 300 rows of a noisy sinc with 3 outliers, pruned to 20 by Algorithm 2."""
    X, y = datasets.make_sinc(300, noise=0.1, outliers=3, random_state=seed)
    outliers = np.argsort(-np.abs(y - np.sinc(X[:, 0])))[:3]
    grid = np.linspace(-5, 5, 400)[:, None]
    errors = {}
    for name in (None, "hampel"):
        model = LSSVR(kernels.RBF(1.4), C=20.0, robust=name, steps=[Prune(20)]).fit(X, y)
        path = model.path_
        assert path.sizes[0] == 300
        assert path.sizes[1] == 285  # 5 % at every step
        assert np.isin(outliers, path.supports[1]).sum() == (3 if name is None else 0)
        assert np.isin(outliers, model.support_).sum() == (3 if name is None else 0)
        # the spectrum of support values at the start: outliers on top, or at the bottom (fig. 11)
        dense = LSSVR(kernels.RBF(1.4), C=20.0, robust=name).fit(X, y)
        rank = np.argsort(np.argsort(np.abs(dense.dual_coef_)))[outliers]
        assert rank.min() >= 290 if name is None else rank.max() < 15
        fifty = path.supports[list(path.sizes).index(50)]
        pruned = LSSVR(kernels.RBF(1.4), C=20.0, robust=name).fit(X[fifty], y[fifty])
        errors[name] = rms(pruned.predict(grid) - np.sinc(grid[:, 0]))
    assert errors["hampel"] < 0.7 * errors[None]


# Cawley & Talbot 2002 -------------------------------------------------------------------------------------------------
def test_the_improved_machine_is_flat_down_to_nine_vectors():
    """Fig. 1, motorcycle: 10-fold RMS 23.0 @114, 22.9 @15, 22.7 @9, 25.2 @6, 30.7 @4 by a reference implementation.

    Three times ten folds: the kernel matrices of 20 or 30 vectors are singular to working precision, so that rounding
    decides which vector goes, and single folds scatter at 9 vectors.
    """
    X, y = datasets.load_motorcycle(return_X_y=True)
    errors = pruned_errors(X, y, *TUNED["motorcycle"], [fold for seed in range(3) for fold in folds(133, seed)], 4)
    assert max(errors) == 114
    all_vectors = rms(np.concatenate(errors[114]))
    assert all_vectors == pytest.approx(23.02, rel=0.03)
    ratio = {size: rms(np.concatenate(values)) / all_vectors for size, values in errors.items()}
    assert max(value for size, value in ratio.items() if size >= 12) < 1.03
    assert max(value for size, value in ratio.items() if size >= 9) < 1.08
    assert np.median([rms(nine) / rms(whole) for nine, whole in zip(errors[9], errors[114], strict=True)]) < 1.03
    assert ratio[5] > 1.07
    assert ratio[4] > 1.15


@pytest.mark.parametrize("name", ["motorcycle", "boston"])
def test_the_improved_machine_is_better_than_algorithm_2(name):
    """Figs 1-2: lower at (almost) every size, without tuning again."""
    X, y = datasets.load_motorcycle(return_X_y=True) if name == "motorcycle" else boston()
    fraction, end = (0.2, 6) if name == "motorcycle" else (0.4, 10)
    improved, conventional = compare_paths(X, y, *TUNED[name], fraction, end)
    assert np.array_equal(improved.sizes, conventional.sizes)
    below = improved.scores[1:] < conventional.scores[1:]  # at the first size both are the dense machine
    assert below.mean() >= 0.9
    few = improved.sizes <= 30
    assert few.sum() >= 3
    assert np.all(np.sqrt(conventional.scores[few] / improved.scores[few]) > 1.05)


def test_few_vectors_of_the_improved_machine_predict_new_rows_better():
    """Fig. 1, motorcycle, on rows that neither machine has seen: 9 vectors."""
    X, y = datasets.load_motorcycle(return_X_y=True)
    improved, conventional = [], []
    for fold in np.array_split(np.random.RandomState(0).permutation(133), 3):
        train = np.setdiff1d(np.arange(133), fold)
        for errors, step in (
            (improved, Prune(9, rows="keep")),
            (conventional, Prune(9, fraction=0.3, retune=True, score="kfold", random_state=0)),
        ):
            model = LSSVR(*TUNED["motorcycle"], steps=[step]).fit(X[train], y[train])
            errors.append(model.predict(X[fold]) - y[fold])
    assert rms(np.concatenate(improved)) < 0.9 * rms(np.concatenate(conventional))


# Cawley & Talbot 2004 -------------------------------------------------------------------------------------------------
def test_fifteen_vectors_are_the_whole_machine_on_motorcycle():
    """Fig. 1: functionally identical; sigma = 13.1 ms, lam = 1.2055e-3, pivot tolerance 1e-6."""
    X, y = datasets.load_motorcycle(return_X_y=True)
    full, sparse = motorcycle_machines()
    assert len(sparse.support_) == 15
    grid = np.linspace(X.min(), X.max(), 500)[:, None]
    assert np.max(np.abs(full.predict(grid) - sparse.predict(grid))) < 5e-5 * y.std()  # 1.4e-5 by the reference
    assert rms(full.loo_residuals_) == pytest.approx(23.0433, abs=1e-3)
    assert rms(sparse.loo_residuals_) == pytest.approx(23.0432, abs=1e-3)


def test_explicit_and_fast_leave_one_out_agree_on_motorcycle():
    """Fig. 2: the paper's relative error is 7.6e-6; explicit refits of the machine on its 15 vectors."""
    X, y = datasets.load_motorcycle(return_X_y=True)
    _, model = motorcycle_machines()
    refitted = explicit(on_vectors(X, y, MACHINE, model.support_))
    assert rms(model.loo_residuals_ - refitted) < 1e-9 * rms(refitted)
    without = LSSVR(*MACHINE, steps=[Given(model.support_vectors_)]).fit(X[1:], y[1:])
    assert y[0] - without.predict(X[:1])[0] == pytest.approx(refitted[0], rel=1e-9)


def test_boston_is_reconstructed_by_a_few_hundred_vectors():
    """Fig. 3: mean reconstruction error, sigma = 4.36 on standardised inputs."""
    X, y = boston()
    errors = LSSVR(kernels.RBF(4.36), C=1 / 2.9e-2, steps=[FeatureVectors(300)]).fit(X, y).path_.errors
    for size, error in ERRORS.items():
        assert errors[size - 1] == pytest.approx(error, rel=0.05), size


# Carvalho & Braga (A-LSSVM) -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", a06.SETS)
def test_the_sparse_classifiers_reach_the_published_accuracies(name):
    """Tables 1-3: test accuracy within two points or better, and a comparable share of support vectors."""
    X, y = a06.load(name)
    machines = a06.published_methods(name, *a06.split(X, y, seed=0)[:2])
    for method, (accuracy, share, *_) in a06.SETS[name][2].items():
        splits = 2 if method in ("Ada-Pinv", "A-LSSVM") else 10  # ten as on the page, but for the slowest two
        measured = [a06.measure(machines[method], a06.split(X, y, seed)) for seed in range(splits)]
        _, _, ours, kept = np.mean(measured, axis=0)
        assert ours > accuracy - 0.02, method
        if (name, method) != ("tictactoe", "SVM"):  # its published share, 0.71, is not reachable: 0.1 to 0.5
            assert kept == pytest.approx(share, abs=0.05 if method in ("IP", "Ada-Pinv") else 0.2), method
