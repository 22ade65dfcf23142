"""The claims of the papers, one test each; the protocols that make the published values come out, made shorter."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from lssvm import LSSVC, LSSVR, datasets, kernels
from lssvm.sparsify import Adaline, AdaPinv, Echelon, FeatureVectors, Given, InversePrune, Prune

DATA = Path(__file__).parents[1] / "papers" / "data"  # not in the wheel; its README has sources, licences, ethics


def read(name):
    table = np.loadtxt(DATA / f"{name}.csv", delimiter=",", skiprows=1)
    return table[:, :-1], table[:, -1]


def boston():
    X, y = read("boston")
    return (X - X.mean(axis=0)) / X.std(axis=0), y


# (kernel, C) with about the smallest leave-one-out error on all rows, found once
TUNED = {"motorcycle": (kernels.RBF(10.7), 44.0), "boston": (kernels.RBF(4.6), 88.0)}


def rms(errors):
    return float(np.sqrt(np.mean(np.square(errors))))


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
def pruned_errors(X, y, kernel, C, folds, end):
    """Test errors of the improved machine at every size, fold by fold: size -> list of errors."""
    errors = {}
    for fold in folds:
        train = np.setdiff1d(np.arange(len(y)), fold)
        path = LSSVR(kernel, C, steps=[Prune(end, rows="keep")]).fit(X[train], y[train]).path_
        for size, support in zip(path.sizes, path.supports, strict=True):
            model = LSSVR(kernel, C, steps=[Given(support)]).fit(X[train], y[train])
            errors.setdefault(int(size), []).append(model.predict(X[fold]) - y[fold])
    return {size: values for size, values in errors.items() if len(values) == len(folds)}


@pytest.mark.slow
def test_the_improved_machine_is_flat_down_to_nine_vectors():
    """Fig. 1, motorcycle: 10-fold RMS 23.0 @114, 22.9 @15, 22.7 @9, 25.2 @6, 30.7 @4 by a reference implementation.

    Three times ten folds: the kernel matrices of 20 or 30 vectors are singular to working precision, so that rounding
    decides which vector goes, and single folds scatter at 9 vectors.
    """
    X, y = datasets.load_motorcycle(return_X_y=True)
    folds = [fold for seed in range(3) for fold in np.array_split(np.random.RandomState(seed).permutation(133), 10)]
    errors = pruned_errors(X, y, *TUNED["motorcycle"], folds, 4)
    assert max(errors) == 114
    all_vectors = rms(np.concatenate(errors[114]))
    assert all_vectors == pytest.approx(23.02, rel=0.03)
    ratio = {size: rms(np.concatenate(values)) / all_vectors for size, values in errors.items()}
    assert max(value for size, value in ratio.items() if size >= 12) < 1.03
    assert max(value for size, value in ratio.items() if size >= 9) < 1.08
    assert np.median([rms(nine) / rms(whole) for nine, whole in zip(errors[9], errors[114], strict=True)]) < 1.03
    assert ratio[5] > 1.07
    assert ratio[4] > 1.15


def compare_paths(X, y, kernel, C, fraction, end):
    """10-fold RMS at every size of the improved machine and of Algorithm 2, re-tuned at every step by that score.

    Both start from the dense machine tuned by leave-one-out; the folds cover all rows, dropped ones too, so that the
    conventional machine is tuned fairly.
    """
    options = {"fraction": fraction, "score": "kfold", "random_state": 0}
    improved, conventional = (
        LSSVR(kernel, C, steps=[Prune(end, rows=rows, retune=retune, **options)]).fit(X, y).path_
        for rows, retune in (("keep", False), ("drop", True))
    )
    assert np.array_equal(improved.sizes, conventional.sizes)
    return improved, conventional


@pytest.mark.slow
@pytest.mark.parametrize("name", ["motorcycle", "boston"])
def test_the_improved_machine_is_better_than_algorithm_2(name):
    """Figs 1-2: lower at (almost) every size, without tuning again."""
    X, y = datasets.load_motorcycle(return_X_y=True) if name == "motorcycle" else boston()
    fraction, end = (0.2, 6) if name == "motorcycle" else (0.4, 10)
    improved, conventional = compare_paths(X, y, *TUNED[name], fraction, end)
    below = improved.scores[1:] < conventional.scores[1:]  # at the first size both are the dense machine
    assert below.mean() >= 0.9
    few = improved.sizes <= 30
    assert few.sum() >= 3
    assert np.all(np.sqrt(conventional.scores[few] / improved.scores[few]) > 1.05)


@pytest.mark.slow
def test_few_vectors_of_the_improved_machine_predict_new_rows_better():
    """Fig. 1, motorcycle, on rows that neither machine has seen: 9 vectors."""
    X, y = datasets.load_motorcycle(return_X_y=True)
    folds = np.array_split(np.random.RandomState(0).permutation(133), 3)
    improved, conventional = [], []
    for fold in folds:
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
    kernel, C = kernels.RBF(13.1), 1 / 1.2055e-3
    full, sparse = (LSSVR(kernel, C, steps=steps).fit(X, y) for steps in ((), [FeatureVectors(tol=1e-6)]))
    assert len(sparse.support_) == 15
    grid = np.linspace(X.min(), X.max(), 500)[:, None]
    assert np.max(np.abs(full.predict(grid) - sparse.predict(grid))) < 5e-5 * y.std()  # 1.4e-5 by the reference
    assert rms(full.loo_residuals_) == pytest.approx(23.0433, abs=1e-3)
    assert rms(sparse.loo_residuals_) == pytest.approx(23.0432, abs=1e-3)


def test_explicit_and_fast_leave_one_out_agree_on_motorcycle():
    """Fig. 2: the paper's relative error is 7.6e-6; explicit refits of the machine on its 15 vectors."""
    X, y = datasets.load_motorcycle(return_X_y=True)
    kernel, C = kernels.RBF(13.1), 1 / 1.2055e-3
    model = LSSVR(kernel, C, steps=[FeatureVectors(tol=1e-6)]).fit(X, y)
    explicit = np.empty(133)
    for row in range(133):
        weights = np.ones(133)
        weights[row] = 0.0
        without = LSSVR(kernel, C, steps=[Given(model.support_vectors_)]).fit(X, y, weights)
        explicit[row] = y[row] - without.predict(X[[row]])[0]
    assert rms(model.loo_residuals_ - explicit) < 1e-9 * rms(explicit)


def test_boston_is_reconstructed_by_a_few_hundred_vectors():
    """Fig. 3: mean reconstruction error, sigma = 4.36 on standardised inputs."""
    X, y = boston()
    errors = LSSVR(kernels.RBF(4.36), C=1 / 2.9e-2, steps=[FeatureVectors(300)]).fit(X, y).path_.errors
    for size, error in ((10, 0.23), (50, 0.053), (100, 0.015), (200, 1.8e-3), (300, 2.7e-4)):
        assert errors[size - 1] == pytest.approx(error, rel=0.05), size


# Carvalho & Braga (A-LSSVM) -------------------------------------------------------------------------------------------
# Per set: the dense machine of the smallest leave-one-out error on the first training part, found once; theta of
# A-LSSVM, tolerance of LS2 in units of 1/C, share dropped by IP and Ada-Pinv, loss of score that pruning accepts; the
# published test accuracy and share of support vectors (tables 1-3).
A06 = {
    "pima": (
        LSSVC(kernels.RBF(4.0), C=1.0),
        {"theta": 0.2, "tol": 1.085, "fraction": 0.25, "tolerance": 0.05},
        {
            "SVM": (0.76, 0.71),
            "Pruning": (0.74, 0.45),
            "LS2": (0.74, 0.74),
            "Ada-Pinv": (0.74, 0.75),
            "IP": (0.75, 0.75),
            "A-LSSVM": (0.76, 0.73),
        },
    ),
    "tictactoe": (  # no noise, so that leave-one-out asks for ever larger C: (3, 100) is the best of a grid up to there
        LSSVC(kernels.RBF(3.0), C=100.0),
        {"theta": 0.02, "tol": 4.4, "fraction": 0.25, "tolerance": 0.2},
        {
            "SVM": (0.96, None),  # the published share, 0.71, is not reachable: 0.1 to 0.5
            "Pruning": (0.96, 0.22),
            "LS2": (0.99, 0.84),
            "Ada-Pinv": (0.98, 0.75),
            "IP": (0.99, 0.75),
            "A-LSSVM": (0.99, 0.70),
        },
    ),
    "ionosphere": (
        LSSVC(kernels.RBF(5.1), C=2.3),
        {"theta": 0.02, "tol": 1.9, "fraction": 0.5, "tolerance": 0.05},
        {
            "SVM": (0.95, 0.46),
            "Pruning": (0.93, 0.35),
            "LS2": (0.93, 0.50),
            "Ada-Pinv": (0.94, 0.50),
            "IP": (0.95, 0.50),
            "A-LSSVM": (0.96, 0.43),
        },
    ),
}


def a06_results(name, splits):
    """Mean test accuracy and share of support vectors by method: 2/3 train, 1/3 test, tuned on the first part."""
    dense, options, published = A06[name]
    X, y = datasets.load_tictactoe(return_X_y=True) if name == "tictactoe" else read(name)
    X = X[:, X.std(axis=0) > 0]  # Ionosphere has a constant column
    results = {method: [] for method in published}
    for seed in range(splits):
        order = np.random.RandomState(seed).permutation(len(y))
        train, test = order[: 2 * len(y) // 3], order[2 * len(y) // 3 :]
        scaled = (X - X[train].mean(axis=0)) / X[train].std(axis=0)
        if seed == 0:
            gamma = dense.kernel.sigma**-2
            grid = {"C": [1, 10], "gamma": [0.25 * gamma, gamma, 4 * gamma]}
            svc = GridSearchCV(SVC(), grid, cv=3).fit(scaled[train], y[train]).best_params_
        steps = {
            "Pruning": Prune(score="validation", tolerance=options["tolerance"], random_state=0),
            "LS2": Echelon(tol=options["tol"] / dense.C),
            "Ada-Pinv": AdaPinv(options["fraction"]),
            "IP": InversePrune(options["fraction"]),
            "A-LSSVM": Adaline(tol=options["theta"]),
        }
        for method, rows in results.items():
            model = SVC(**svc) if method == "SVM" else LSSVC(dense.kernel, dense.C, steps=[steps[method]])
            model.fit(scaled[train], y[train])
            rows.append((model.score(scaled[test], y[test]), len(model.support_) / len(train)))
    return {method: np.mean(rows, axis=0) for method, rows in results.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", A06)
def test_the_sparse_classifiers_reach_the_published_accuracies(name):
    """Tables 1-3: test accuracy within two points or better, and a comparable share of support vectors."""
    results = a06_results(name, splits=2)
    for method, (accuracy, share) in A06[name][2].items():
        assert results[method][0] > accuracy - 0.02, method
        if share is not None:
            assert results[method][1] == pytest.approx(share, abs=0.05 if method in ("IP", "Ada-Pinv") else 0.2), method
