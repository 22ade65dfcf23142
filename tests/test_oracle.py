"""Against 60-digit arithmetic: alpha, bias and leave-one-out where float64 loses digits, and the NIST linear sets.

Errors are relative to the largest entry. For an ill-conditioned kernel no method beats about eps * l * max(k) * C, the
rounding of the kernel matrix against the ridge (`inherent`). The other cases are better conditioned and must show it.
"""

import math
import warnings

import mpmath
import numpy as np
import pytest

from lssvm import LSSVR, datasets, kernels, sparsify
from lssvm.problem import Problem

EPS = np.finfo(float).eps
exact = np.frompyfunc(mpmath.mpf, 1, 1)
exponential = np.frompyfunc(mpmath.exp, 1, 1)


@pytest.fixture(autouse=True)
def sixty_digits():
    with mpmath.workdps(60):
        yield


# The oracle -----------------------------------------------------------------------------------------------------------
def solve(A, B):
    """A^-1 B by Gaussian elimination with row pivots, on arrays of mpmath numbers."""
    A, B = A.copy(), B.copy()
    for k in range(len(A)):
        pivot = k + int(np.argmax(np.abs(A[k:, k])))
        A[[k, pivot]], B[[k, pivot]] = A[[pivot, k]], B[[pivot, k]]
        factor = (A[k + 1 :, k] / A[k, k])[:, None]
        A[k + 1 :, k + 1 :] -= factor * A[k, k + 1 :]
        B[k + 1 :] -= factor * B[k]
    for k in reversed(range(len(A))):
        B[k] = (B[k] - A[k, k + 1 :] @ B[k + 1 :]) / A[k, k]
    return B


def rbf(X, Z, sigma):
    difference = (exact(X)[:, None, :] - exact(Z)[None, :, :]) / exact(sigma)
    return exponential(-(difference**2).sum(axis=2))


def dense(K, y, weights, ridge):
    """Coefficients, bias and leave-one-out residuals of the KKT system: LOO_i = alpha_i/P_ii."""
    n = len(K)
    system = exact(np.ones((n + 1, n + 1)))
    system[:n, :n] = K + np.diag(exact(ridge) / exact(weights))
    system[n, n] = exact(0.0)
    inverse = solve(system, exact(np.eye(n + 1)))
    solution = inverse[:, :n] @ exact(y)
    return solution[:n], solution[n], solution[:n] / np.diag(inverse)[:n]


def sparse(K_rows, K_basis, y, weights, ridge):
    """The same three of the normal equations (R + Z'VZ) p = Z'V y: LOO_i = e_i/(1 - h_i)."""
    n = len(K_basis)
    Z = np.hstack([K_rows, exact(np.ones((len(y), 1)))])
    weighted = exact(weights)[:, None] * Z
    normal = Z.T @ weighted
    normal[:n, :n] += exact(ridge) * K_basis
    solution = solve(normal, np.hstack([(weighted.T @ exact(y))[:, None], weighted.T]))
    leverage = (Z * solution[:, 1:].T).sum(axis=1)
    return solution[:n, 0], solution[n, 0], (exact(y) - Z @ solution[:, 0]) / (1 - leverage)


def error(values, truth):
    """Largest error relative to the largest entry."""
    difference = np.abs(exact(np.atleast_1d(values)) - np.atleast_1d(truth))
    return float(np.max(difference) / np.max(np.abs(truth)))


def inherent(rows, C):
    """What the rounding of a kernel matrix with entries up to 1 does to an ill-conditioned machine."""
    return EPS * rows * C


def waves(rows=20, seed=0):
    """Points on a line, about evenly spread over 0 .. 10, and a noisy sine."""
    rng = np.random.default_rng(seed)
    X = np.sort(np.linspace(0, 10, rows) + 0.05 * rng.standard_normal(rows))[:, None]
    return X, np.sin(X[:, 0]) + 0.1 * rng.standard_normal(rows)


def both(X, y, weights, sigma, C, support=None, distinct=None):
    """Fits by one ridge and by the path, and the oracle's answer; `distinct` is a basis without copies."""
    machine = Problem(kernels.RBF(sigma), X, y[:, None], weights, C, support=support)
    fits = [machine.factorise(C, every=every).fit(C) for every in (False, True)]
    if support is None:
        return fits, dense(rbf(X, X, sigma), y, weights, 1.0 / C)
    basis = X[support if distinct is None else distinct]
    return fits, sparse(rbf(X, basis, sigma), rbf(basis, basis, sigma), y, weights, 1.0 / C)


def assert_leave_one_out(fits, truth, tolerance, path_tolerance=None):
    for fit, bound in zip(fits, (tolerance, path_tolerance or tolerance), strict=True):
        assert error(fit.loo_residuals[:, 0], truth[2]) <= bound


# Well-posed problems --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sigma", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("C", [0.1, 100.0])
def test_dense_error_is_eps_times_condition(C, sigma, seed):
    X, y = waves(12, seed)
    weights = np.random.default_rng(seed).uniform(0.3, 2.0, 12)
    fits, truth = both(X, y, weights, sigma, C)
    K = kernels.RBF(sigma)(X) + np.diag(1.0 / (C * weights))
    bound = 20 * EPS * np.linalg.cond(np.block([[K, np.ones((12, 1))], [np.ones((1, 12)), 0.0]]))
    for fit in fits:
        assert error(fit.coef[:, 0], truth[0]) <= bound
        assert error(fit.intercept, truth[1]) <= bound
        assert error(fit.loo_residuals[:, 0], truth[2]) <= bound


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sigma", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("C", [0.1, 100.0])
def test_sparse_error_is_eps_times_condition(C, sigma, seed):
    """The condition of the least-squares matrix [Z; sqrt(lam) L'], not of its normal equations, the square."""
    X, y = waves(12, seed)
    weights = np.random.default_rng(seed).uniform(0.3, 2.0, 12)
    support = np.arange(0, 12, 3)
    fits, truth = both(X, y, weights, sigma, C, support)
    kernel, basis = kernels.RBF(sigma), X[support]
    rows = np.sqrt(weights)[:, None] * np.column_stack([kernel(X, basis), np.ones(12)])
    penalty = np.column_stack([np.linalg.cholesky(kernel(basis)).T / np.sqrt(C), np.zeros(4)])
    bound = 10 * EPS * np.linalg.cond(np.vstack([rows, penalty]))
    for fit in fits:
        assert error(fit.coef[:, 0], truth[0]) <= bound
        assert error(fit.intercept, truth[1]) <= bound
        assert error(fit.loo_residuals[:, 0], truth[2]) <= bound / np.min(1.0 - fit.leverage)


# Motorcycle: ill-conditioned bases ------------------------------------------------------------------------------------
LAM = 1.2055e-3
WIDTH = 13.1


@pytest.fixture(scope="module")
def greedy_order():
    """First 22 greedy vectors by deflation, over the distinct times with their counts, in 60 digits."""
    with mpmath.workdps(60):
        X, _ = datasets.load_motorcycle(return_X_y=True)
        times, first, counts = np.unique(X[:, 0], return_index=True, return_counts=True)
        K, counts, chosen = rbf(times[:, None], times[:, None], WIDTH), exact(counts), []
        # E = K - F F' stays implicit: its diagonal and the sums of its squares change by one column a step
        F, pivots, gains = K[:, :0], K.diagonal().copy(), counts @ (K * K)
        for _ in range(22):
            candidates = [j for j in range(len(times)) if pivots[j] > 1e-25]
            best = max(candidates, key=lambda j: gains[j] / pivots[j])
            chosen.append(first[best])
            column = (K[:, best] - F @ F[best]) / mpmath.sqrt(pivots[best])
            weighted = counts * column
            product = K @ weighted - F @ (F.T @ weighted)
            gains = gains - 2 * column * product + column**2 * (column @ weighted)
            pivots = pivots - column**2
            F = np.column_stack([F, column])
    return np.array(chosen)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "condition", "tolerance"), [(9, 1e4, 1e-12), (15, 1e8, 1e-11), (22, 1e15, 1e-9)], ids=["9", "15", "22"]
)
def test_motorcycle_with_an_ill_conditioned_basis(greedy_order, n, condition, tolerance):
    """The inverse of the normal equations has errors of 8e-9, 2e-4 and 0.8 here; whitening first and QR keep them."""
    X, y = datasets.load_motorcycle(return_X_y=True)
    support = greedy_order[:n]
    assert np.linalg.cond(kernels.RBF(WIDTH)(X[support])) > condition
    fits, truth = both(X, y, np.ones(len(y)), WIDTH, 1.0 / LAM, support)
    assert_leave_one_out(fits, truth, tolerance)
    for fit in fits:
        assert error(fit.intercept, truth[1]) <= 10 * tolerance


@pytest.mark.slow
def test_motorcycle_with_copies_in_data_and_basis(greedy_order):
    X, y = datasets.load_motorcycle(return_X_y=True)
    distinct = greedy_order[:9]
    copies = [row for row in range(len(X)) if row not in distinct and X[row, 0] in X[distinct, 0]]
    assert len(copies) >= 3
    support = np.concatenate([distinct, copies])
    fits, truth = both(X, y, np.ones(len(y)), WIDTH, 1.0 / LAM, support, distinct)
    assert_leave_one_out(fits, truth, 1e-12)


# Leverages near 1 -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("C", [1e6, 1e10, 1e12, 1e13])
def test_dense_with_leverages_near_one(C):
    """A narrow kernel (condition 5): e/(1 - h) would keep log10(1/(eps C)) digits, alpha_i/P_ii keeps all."""
    X, y = waves(20)
    fits, truth = both(X, y, np.ones(20), 0.4, C)
    assert 1.0 - fits[0].leverage.max() < 2.0 / C
    assert_leave_one_out(fits, truth, 1e-13)
    for fit in fits:
        assert error(fit.residuals[:, 0], truth[0] / exact(C)) <= 1e-12


@pytest.mark.parametrize("C", [1e6, 1e10, 1e12, 1e13])
@pytest.mark.parametrize("missing", [0, 1, 10])
def test_sparse_with_leverages_near_one(missing, C):
    """A basis of all rows but a few. Orthogonalising moves the rows by eps, which counts against the penalty sqrt(1/C).

    With none or one missing there are as many unknowns as rows, bias included, and every leverage is near 1.
    """
    X, y = waves(20)
    machine = Problem(kernels.RBF(0.4), X, y[:, None], np.ones(20), C, points=X[missing:])
    K = rbf(X, X, 0.4)
    truth = sparse(K[:, missing:], K[missing:, missing:], y, np.ones(20), 1.0 / C)
    fits = [machine.factorise(C).fit(C), machine.factorise(10 * C, every=True).fit(C)]
    assert 1.0 - fits[0].leverage.max() < 2.0 / C
    assert_leave_one_out(fits, truth, 5 * EPS * 20 * np.sqrt(C))


@pytest.mark.parametrize("C", [1e6, 1e10, 1e12, 1e13])
def test_sparse_with_isolated_rows(C):
    """Three rows far from all others, each with a basis vector of its own: 1 - h = 1/C there."""
    X, y = waves(20)
    X = np.vstack([X, [[30.0], [40.0], [50.0]]])
    y = np.append(y, [1.0, -2.0, 0.5])
    support = np.array([0, 3, 6, 9, 12, 15, 18, 20, 21, 22])
    fits, truth = both(X, y, np.ones(23), 1.0, C, support)
    assert_leave_one_out(fits, truth, inherent(23, C))


# Ranges ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("C", [1e-12, 1e-6, 1.0, 1e6, 1e12])
@pytest.mark.parametrize("support", [None, np.arange(0, 20, 3)], ids=["dense", "sparse"])
@pytest.mark.parametrize("sigma", [0.4, 2.0])
def test_every_C(sigma, support, C):
    """Only the dense machine of the wide kernel (condition 1e13) is near the bound that no method beats."""
    X, y = waves(20)
    fits, truth = both(X, y, np.ones(20), sigma, C, support)
    bound = max(1e-12, inherent(20, C)) if support is None and sigma == 2.0 else 1e-12
    assert_leave_one_out(fits, truth, bound)
    for fit in fits:
        assert error(fit.intercept, truth[1]) <= bound


@pytest.mark.parametrize("support", [None, np.arange(0, 20, 3)], ids=["dense", "sparse"])
def test_an_offset_of_the_targets_costs_no_digits(support):
    """y + 1e8 is rounded once, in the data, which the oracle shares."""
    X, y = waves(20)
    fits, truth = both(X, y + 1e8, np.ones(20), 0.7, 100.0, support)
    assert_leave_one_out(fits, truth, 1e-12)
    for fit in fits:
        assert error(fit.coef[:, 0], truth[0]) <= 1e-12
        assert error(fit.intercept, truth[1]) <= 4 * EPS


@pytest.mark.parametrize("support", [None, np.arange(0, 20, 3)], ids=["dense", "sparse"])
def test_an_offset_of_the_inputs_costs_no_digits(support):
    X, y = waves(20)
    fits, truth = both(X + 1e6, y, np.ones(20), 0.7, 100.0, support)
    assert_leave_one_out(fits, truth, 1e-12)


@pytest.mark.parametrize("C", [100.0, 1e10])
@pytest.mark.parametrize("support", [None, np.arange(0, 20, 3)], ids=["dense", "sparse"])
def test_weights_of_very_different_size(support, C):
    """Weights from 1e-8 to 1: the path's eigenvalues are good to eps times the largest, hence its wider bound."""
    X, y = waves(20)
    weights = 10.0 ** np.random.default_rng(1).uniform(-8, 0, 20)
    fits, truth = both(X, y, weights, 0.7, C, support)
    assert_leave_one_out(fits, truth, 1e-10, max(1e-10, inherent(20, C) / 100))


# Warnings -------------------------------------------------------------------------------------------------------------
def jackknife_ends(f, smoother, loo, coverage):
    """Ends of jackknife+ intervals (rows, 2) from f(x), df(x)/dy_i and left-out residuals."""
    n, left_out = len(loo), f[:, None] - smoother * loo
    low, high = math.floor(round((1 - coverage) * (n + 1), 9)), math.ceil(round(coverage * (n + 1), 9))
    return np.column_stack(
        [np.sort(left_out - np.abs(loo), axis=1)[:, low - 1], np.sort(left_out + np.abs(loo), axis=1)[:, high - 1]]
    )


def errors_and_warnings(X, y, weights, sigma, C, points=None, in_chunks=False):
    """Largest error of predictions of training and new rows, of leave-one-out and intervals, and the warnings.

    Errors are relative to the spread of the targets or to the value itself, where that is larger. The machine on a
    smaller basis is the dense one of the kernel k(x, S) K_SS^-1 k(S, z).
    """
    rng, n = np.random.default_rng(0), len(y)
    pairs = rng.integers(n, size=(2, 4))
    new = X[pairs[0]] + rng.uniform(-0.2, 0.5, (4, 1)) * (X[pairs[1]] - X[pairs[0]])
    K = rbf(np.vstack([X, new]), X if points is None else points, sigma)
    if points is not None:
        K = K @ solve(rbf(points, points, sigma), K[:n].T)
    system = exact(np.ones((n + 1, n + 1)))
    system[:n, :n] = K[:n] + np.diag(1 / (exact(C) * exact(weights)))
    system[n, n] = exact(0.0)
    inverse = solve(system, exact(np.eye(n + 1)))[:, :n]
    smoother = np.hstack([K, exact(np.ones((n + 4, 1)))]) @ inverse
    f, loo = smoother @ exact(y), (inverse[:n] @ exact(y)) / np.diag(inverse)
    truth = [f, loo, jackknife_ends(f[n:], smoother[n:], loo, 0.7)]
    model = LSSVR(kernels.RBF(sigma), C, steps=None if points is None else [sparsify.Given(points)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if in_chunks:
            half = n // 2
            model.fit_chunks([(X[:half], y[:half], weights[:half]), (X[half:], y[half:], weights[half:])])
        else:
            model.fit(X, y, weights)
        found = [model.predict(np.vstack([X, new])), model.loo_residuals_, model.predict_interval(new, 0.7)]
    spread = np.max(np.abs(y - y.mean()))
    worst = [np.max(np.abs(exact(a) - b) / np.maximum(spread, np.abs(b))) for a, b in zip(found, truth, strict=True)]
    return float(max(worst)), [str(warning.message) for warning in caught]


def hostile(seed):
    """Few rows, a C from 1e8 to 1e16, weights that may span 16 orders of magnitude."""
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(6, 11), rng.integers(1, 3)
    X = rng.normal(size=(rows, columns))
    y = np.sin(X[:, 0]) + rng.choice([0.0, 0.1, 1.0]) * rng.normal(size=rows)
    weights = 10.0 ** rng.uniform(-8, 8, rows) if rng.random() < 0.5 else np.ones(rows)
    return X, y, weights, 10.0 ** rng.uniform(0.0, 2.0), 10.0 ** rng.uniform(8, 16)


@pytest.mark.slow
def test_no_digit_is_lost_without_a_warning():
    """Predictions of new rows, leave-one-out and intervals: more than 1e-5 off is warned of, and little else."""
    results = [errors_and_warnings(*hostile(seed)) for seed in range(60)]
    silent = {seed: error for seed, (error, told) in enumerate(results) if error > 1e-5 and not told}
    needless = {seed: told for seed, (error, told) in enumerate(results) if error < 1e-7 and told}
    assert not silent
    assert len(needless) <= 2
    assert sum(error > 1e-5 for error, _ in results) > 10  # or nothing is tested


@pytest.mark.slow
@pytest.mark.parametrize("in_chunks", [False, True], ids=["rows", "chunks"])
def test_no_digit_of_leave_one_out_on_a_basis_is_lost_without_a_warning(in_chunks):
    """Rows that stand alone with a basis point of their own, and a narrow kernel: leverages near 1."""
    results = []
    for seed in range(20):
        X, y, weights, _, C = hostile(seed)
        X = 3.0 * X + np.arange(len(y))[:, None]
        results.append(errors_and_warnings(X, y + 1e6, weights, 0.8, C, X[::2], in_chunks))
    assert not {seed: error for seed, (error, told) in enumerate(results) if error > 1e-5 and not told}
    assert any(error > 1e-5 for error, _ in results)


@pytest.mark.slow
@pytest.mark.parametrize("basis", [None, 5], ids=["dense", "sparse"])
def test_ordinary_fits_are_not_warned_of(basis):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, y, _, _, _ = hostile(seed)
        weights, points = 10.0 ** rng.uniform(-1, 1, len(y)), None if basis is None else X[:basis]
        worst, told = errors_and_warnings(
            X, y + 10.0, weights, rng.uniform(0.5, 3.0), 10.0 ** rng.uniform(-3, 4), points
        )
        assert worst < 1e-7
        assert not told


# NIST -----------------------------------------------------------------------------------------------------------------
# Statistical Reference Datasets, linear least squares (public domain), y first.
LONGLEY = """
60323  83.0 234289 2356 1590 107608 1947
61122  88.5 259426 2325 1456 108632 1948
60171  88.2 258054 3682 1616 109773 1949
61187  89.5 284599 3351 1650 110929 1950
63221  96.2 328975 2099 3099 112075 1951
63639  98.1 346999 1932 3594 113270 1952
64989  99.0 365385 1870 3547 115094 1953
63761 100.0 363112 3578 3350 116219 1954
66019 101.2 397469 2904 3048 117388 1955
67857 104.6 419180 2822 2857 118734 1956
68169 108.4 442769 2936 2798 120445 1957
66513 110.8 444546 4681 2637 121950 1958
68655 112.6 482704 3813 2552 123366 1959
69564 114.2 502601 3931 2514 125368 1960
69331 115.7 518173 4806 2572 127852 1961
70551 116.9 554894 4007 2827 130081 1962
"""
FILIP = """
0.8116 -6.860120914 0.9072 -4.324130045 0.9052 -4.358625055 0.9039 -4.358426747 0.8053 -6.955852379
0.8377 -6.661145254 0.8667 -6.355462942 0.8809 -6.118102026 0.7975 -7.115148017 0.8162 -6.815308569
0.8515 -6.519993057 0.8766 -6.204119983 0.8885 -5.853871964 0.8859 -6.109523091 0.8959 -5.79832982
0.8913 -5.482672118 0.8959 -5.171791386 0.8971 -4.851705903 0.9021 -4.517126416 0.9090 -4.143573228
0.9139 -3.709075441 0.9199 -3.499489089 0.8692 -6.300769497 0.8872 -5.953504836 0.8900 -5.642065153
0.8910 -5.031376979 0.8977 -4.680685696 0.9035 -4.329846955 0.9078 -3.928486195 0.7675 -8.56735134
0.7705 -8.363211311 0.7713 -8.107682739 0.7736 -7.823908741 0.7775 -7.522878745 0.7841 -7.218819279
0.7971 -6.920818754 0.8329 -6.628932138 0.8641 -6.323946875 0.8804 -5.991399828 0.7668 -8.781464495
0.7633 -8.663140179 0.7678 -8.473531488 0.7697 -8.247337057 0.7700 -7.971428747 0.7749 -7.676129393
0.7796 -7.352812702 0.7897 -7.072065318 0.8131 -6.774174009 0.8498 -6.478861916 0.8741 -6.159517513
0.8061 -6.835647144 0.8460 -6.53165267 0.8751 -6.224098421 0.8856 -5.910094889 0.8919 -5.598599459
0.8934 -5.290645224 0.8940 -4.974284616 0.8957 -4.64454848 0.9047 -4.290560426 0.9129 -3.885055584
0.9209 -3.408378962 0.9219 -3.13200249 0.7739 -8.726767166 0.7681 -8.66695597 0.7665 -8.511026475
0.7703 -8.165388579 0.7702 -7.886056648 0.7761 -7.588043762 0.7809 -7.283412422 0.7961 -6.995678626
0.8253 -6.691862621 0.8602 -6.392544977 0.8809 -6.067374056 0.8301 -6.684029655 0.8664 -6.378719832
0.8834 -6.065855188 0.8898 -5.752272167 0.8964 -5.132414673 0.8963 -4.811352704 0.9074 -4.098269308
0.9119 -3.66174277 0.9228 -3.2644011
"""
CERTIFIED = {  # intercept first
    "Longley": """-3482258.63459582 15.0618722713733 -0.358191792925910e-1 -2.02022980381683 -1.03322686717359
        -0.511041056535807e-1 1829.15146461355""",
    "Wampler1": "1 1 1 1 1 1",
    "Wampler2": "1 0.1 0.01 0.001 0.0001 0.00001",
    "Filip": """-1467.48961422980 -2772.17959193342 -2316.37108160893 -1127.97394098372 -354.478233703349
        -75.1242017393757 -10.8753180355343 -1.06221498588947 -0.670191154593408e-1 -0.246781078275479e-2
        -0.402962525080404e-4""",
}


def numbers(text, columns=1):
    """The decimals themselves, not their float64 neighbours."""
    return np.array([mpmath.mpf(word) for word in text.split()], dtype=object).reshape(-1, columns)


def powers(x, degree):
    return np.stack([x**power for power in range(1, degree + 1)], axis=1)


def nist(name):
    """Columns and targets, exact."""
    if name == "Longley":
        table = numbers(LONGLEY, 7)
        return table[:, 1:], table[:, 0]
    if name == "Filip":
        table = numbers(FILIP, 2)
        return powers(table[:, 1], 10), table[:, 0]
    x = exact(np.arange(21.0))
    base = exact(1.0) if name == "Wampler1" else exact(1.0) / 10
    return powers(x, 5), sum((base * x) ** power for power in range(6))


def digits(values, truth):
    """Log relative error, NIST's score: correct digits of the worst coefficient."""
    worst = max(abs((mpmath.mpf(value) - true) / true) for value, true in zip(values, truth, strict=True))
    return float(-mpmath.log10(worst)) if worst > 0 else np.inf


@pytest.mark.parametrize(("name", "score"), [("Longley", 9), ("Wampler1", 9), ("Wampler2", 9), ("Filip", 7)])
def test_nist_linear_sets(name, score):
    """C = 1e20 leaves a ridge whose bias is below the 9th digit of Filip and below rounding elsewhere."""
    with mpmath.workdps(100):
        columns, y = nist(name)
        design = np.hstack([exact(np.ones((len(y), 1))), columns])
        truth = solve(design.T @ design, (design.T @ y)[:, None])[:, 0]
        assert digits(numbers(CERTIFIED[name])[:, 0], truth) > 14
        model = LSSVR(kernels.Linear(), C=1e20, steps=[sparsify.Given(np.eye(columns.shape[1]))])
        model.fit(columns.astype(float), y.astype(float))
        assert digits([model.intercept_, *model.dual_coef_], truth) >= score


@pytest.mark.parametrize(("name", "score"), [("Longley", 6), ("Wampler1", 6), ("Wampler2", 6), ("Filip", 6)])
def test_nist_linear_sets_in_chunks(name, score):
    """The rows pass by again until the condition is gone."""
    with mpmath.workdps(100):
        columns, y = nist(name)
        design = np.hstack([exact(np.ones((len(y), 1))), columns])
        truth = solve(design.T @ design, (design.T @ y)[:, None])[:, 0]
        X, y = columns.astype(float), y.astype(float)
        chunks = [(X[i : i + 7], y[i : i + 7]) for i in range(0, len(y), 7)]
        model = LSSVR(kernels.Linear(), C=1e20, steps=[sparsify.Given(np.eye(X.shape[1]))]).fit_chunks(chunks)
        assert digits([model.intercept_, *model.dual_coef_], truth) >= score
