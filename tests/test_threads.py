"""Threads of lssvm's own: the same numbers as whole matrices, and nothing is left behind."""

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from lssvm import LSSVR, arrays, kernels, sparsify
from lssvm.arrays import threads
from lssvm.arrays.threads import parallel_for, single_threaded_blas

RNG = np.random.default_rng(0)


def blas_threads():
    return [library.get() for libraries in threads._libraries() for library in libraries]


@pytest.mark.parametrize("n", [1, 15, 16, 17, 45, 64])
def test_factorisations_in_pieces(n, in_pieces):
    A = RNG.standard_normal((70, n))
    G = A.T @ A + np.eye(n)
    expected = np.linalg.cholesky(G)
    lower = np.tril(G) + np.triu(np.full((n, n), np.nan), 1)  # values above the diagonal are not read
    found = arrays.cholesky(lower)
    assert np.shares_memory(found, lower)
    assert_allclose(found, expected, rtol=0, atol=1e-12)
    inverse = arrays.invert_lower(found.copy())
    assert_allclose(inverse @ expected, np.eye(n), rtol=0, atol=1e-12)
    assert not np.triu(inverse, 1).any()
    assert_allclose(arrays.gram_of_lower(inverse.copy()), np.linalg.inv(G), rtol=0, atol=1e-12)
    assert arrays.cholesky(G - 2.0 * np.diag(np.arange(n) == n - 1) * G) is None
    assert arrays.cholesky(np.where(np.eye(n) > 0, np.nan, G)) is None


@pytest.mark.parametrize("n", [1, 2, 16, 17, 45, 64])
@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e200])
def test_eigenvectors_in_pieces(n, scale, in_pieces):
    A = RNG.standard_normal((n, n))
    G = A + A.T
    values, vectors = arrays.eigh(scale * G)
    assert_allclose(values / scale, np.linalg.eigvalsh(G), rtol=0, atol=1e-12)
    assert_allclose(vectors.T @ vectors, np.eye(n), rtol=0, atol=1e-12)
    assert_allclose((vectors * (values / scale)) @ vectors.T, G, rtol=0, atol=1e-12)
    assert not arrays.eigh(np.zeros((n, n)))[0].any()


@pytest.mark.parametrize("n", [1, 2, 3, 50, 301])
def test_product_with_a_symmetric_matrix(n, monkeypatch):
    A, x = RNG.standard_normal((n, n)), RNG.standard_normal(n)
    K = A + A.T
    K.flags.writeable = False
    found = []
    for number in (1, 2, 3, 3):
        monkeypatch.setattr(threads, "workers", lambda number=number: number)
        with single_threaded_blas():
            found.append(arrays.symmetric_product(np.repeat(x, 2)[None, ::2], K)[0])
    assert_allclose(found[0], K @ x, atol=1e-11)
    assert len({one.tobytes() for one in found}) == 1
    assert_allclose(arrays.symmetric_product(x[None, :], np.asfortranarray(K))[0], K @ x, atol=1e-11)


@pytest.mark.parametrize(("rows", "n", "columns"), [(70, 45, 33), (33, 17, 200), (129, 64, 5), (1, 20, 9)])
def test_products_and_triangular_systems_in_pieces(rows, n, columns, in_pieces):
    A, B = RNG.standard_normal((rows, n)), RNG.standard_normal((n, columns))
    start = RNG.standard_normal((rows, columns))
    for left in (A, np.asfortranarray(A), np.repeat(A, 2, axis=1)[:, ::2]):
        for right in (B, np.asfortranarray(B)):
            out = start.copy()
            arrays.add_product(out, left, right)
            assert_allclose(out, start + A @ B, atol=1e-12)
        assert_allclose(arrays.gram(left), A.T @ A, atol=1e-12)
    assert_allclose(
        arrays.mirrored(arrays.add_gram(arrays.add_gram(None, A[: rows // 2]), A[rows // 2 :])), A.T @ A, atol=1e-12
    )
    L = np.tril(RNG.standard_normal((n, n))) + 10.0 * np.eye(n)
    inverse = np.linalg.inv(L)
    assert_allclose(arrays.whiten_rows(A.copy(), L, loss=0.0), A @ inverse.T, atol=1e-12)
    assert_allclose(arrays.unwhiten_rows(A.copy(), L, loss=0.0), A @ inverse, atol=1e-12)
    assert_allclose(arrays.whiten_rows(A.copy(), L, inverse=inverse), A @ inverse.T, atol=1e-12)
    assert_allclose(arrays.unwhiten_rows(A.copy(), L, inverse=inverse), A @ inverse, atol=1e-12)
    assert_allclose(arrays.solve_lower(L, B), inverse @ B, atol=1e-12)
    assert_allclose(arrays.solve_lower(L, B, transpose=True), inverse.T @ B, atol=1e-12)
    solved = B.copy()
    arrays.solve_columns(L, solved)
    assert_allclose(solved, inverse @ B, atol=1e-12)


def test_arrays_that_are_not_stored_by_rows_are_copied(in_pieces):
    line, B = RNG.standard_normal(40), RNG.standard_normal((7, 9))
    windows = np.lib.stride_tricks.sliding_window_view(line, 7)  # rows overlap
    row = np.broadcast_to(line[:7], (30, 7))  # all rows are one
    apart = np.frombuffer(b"x" + line[:35].tobytes(), offset=1).reshape(5, 7)  # not aligned
    for A in (windows, row, apart, windows[::-1], windows.astype(">f8")):
        out = np.zeros((len(A), 9))
        assert arrays.add_product(out, A, B) is out
        assert_allclose(out, A @ B, atol=1e-12)
        assert_allclose(arrays.mirrored(arrays.add_gram(None, A)), A.T @ A, atol=1e-12)


def test_a_fit_is_the_same_with_any_number_of_threads(monkeypatch):
    X = RNG.standard_normal((900, 4))
    y = np.sin(X[:, 0])
    fits = []
    for number in (1, 2, 3, 3):
        monkeypatch.setattr(threads, "workers", lambda number=number: number)
        fits.append(LSSVR(kernels.RBF(2.0), C=10.0).fit(X, y).loo_residuals_)
    size = np.abs(fits[0]).max()
    assert_allclose(fits[1], fits[0], rtol=0, atol=1e-12 * size)
    assert_allclose(fits[2], fits[0], rtol=0, atol=1e-12 * size)
    assert fits[3].tobytes() == fits[2].tobytes()


@pytest.mark.parametrize(
    ("own", "kind"),
    [
        *((True, kind) for kind in ("f4", ">f8", "longdouble", "read-only", "columns")),
        (False, "f4"),
        (False, "columns"),
    ],
)
def test_kernels_may_return_arrays_of_any_kind(kind, own):
    """They are worked on in place, by routines that know float64 alone."""
    X = RNG.standard_normal((120, 3))
    y = np.sin(X[:, 0])

    def function(A, B):
        K = kernels.RBF(2.0)(A, B)
        if kind == "read-only":
            K.flags.writeable = False
            return K
        return np.asfortranarray(K) if kind == "columns" else K.astype(kind)

    class Own(kernels.RBF):
        def evaluate(self, A, B):
            return function(A, B)

    steps = [sparsify.Given(X[:20])]
    expected = LSSVR(kernels.RBF(2.0), C=1.0, steps=steps).fit(X, y)
    model = LSSVR(Own(2.0) if own else function, C=1.0, steps=steps)
    tolerance = 1e-3 if kind == "f4" else 1e-9
    chunks = [(X[:70], y[:70]), (X[70:], y[70:])]
    for fit in (model.fit(X, y), clone(model).fit_chunks(chunks), clone(model).partial_fit(X, y)):
        assert_allclose(fit.predict(X), expected.predict(X), atol=tolerance)
        assert_allclose(fit.predict_interval(X), expected.predict_interval(X), atol=10 * tolerance)


def test_an_error_ends_the_work_of_all(in_pieces):
    done = []

    def work(item):
        time.sleep(0.001)
        if threading.current_thread() is not threading.main_thread():
            raise ValueError("mine")
        done.append(item)

    with pytest.raises(ValueError, match="mine"):
        parallel_for(work, range(200))
    assert len(done) < 20
    count = len(done)
    time.sleep(0.02)
    assert len(done) == count


@pytest.mark.parametrize("where", ["get", "set"])
def test_an_interrupt_leaves_no_setting_behind(where, monkeypatch):
    numbers, calls, stop, count = [4], [], [0], threading.active_count()

    def interrupted(at):
        def call(*value):
            calls.append(at)
            if at == where and len(calls) == stop[0]:
                raise KeyboardInterrupt
            if value:
                numbers[0] = value[0]
            return numbers[0]

        return call

    library = threads.Library(interrupted("get"), interrupted("set"))
    monkeypatch.setattr(threads, "_libraries", lambda: ([library], []))
    for number in range(1, 8):
        stop[0] = number
        calls.clear()
        try:
            with single_threaded_blas():
                assert numbers == [1]
                threads._helpers().submit(int).result()
        except KeyboardInterrupt:
            pass
        assert numbers == [4]
        assert threading.active_count() == count
        assert not threads._inside
        assert not threads._before


def test_a_signal_handler_may_fit():
    with threads._lock, single_threaded_blas():
        assert threads.workers() >= 1


def test_every_item_is_worked_on_once_by_several_threads(in_pieces):
    done, threads = [], set()

    def work(item):
        time.sleep(0.002)
        done.append(item)
        threads.add(threading.get_ident())

    parallel_for(work, range(40))
    assert sorted(done) == list(range(40))
    assert len(threads) == 3


def test_inside_of_a_piece_nothing_is_shared_out_again(monkeypatch):
    monkeypatch.setattr(threads, "_cores", lambda: 3)
    monkeypatch.setattr(threads, "_libraries", lambda: ([], []))
    seen = []

    def outer(item):
        inner = set()
        parallel_for(lambda _: inner.add(threading.get_ident()), range(5))
        seen.append(inner == {threading.get_ident()} or threading.current_thread() is threading.main_thread())

    parallel_for(outer, range(9))
    assert all(seen)
    assert len(seen) == 9


def test_nothing_is_left_behind():
    X = RNG.standard_normal((700, 3))
    model = LSSVR(kernels.RBF(1.0), C=10.0)
    before = threading.active_count()
    with threadpool_limits(2):
        setting = blas_threads()
        model.fit(X, X[:, 0]).predict(X)
        assert blas_threads() == setting
        with pytest.raises(ValueError, match="mine"):
            LSSVR(failing, C=1.0).fit(X, X[:, 0])
        assert blas_threads() == setting
    assert threading.active_count() == before
    assert not threads._inside


def failing(A, B):
    raise ValueError("mine")


def test_the_limit_that_users_give_blas_is_kept():
    with threadpool_limits(1):
        assert threads.workers() == 1
        with single_threaded_blas():
            assert threads.workers() == 1
    with threadpool_limits(2), single_threaded_blas():
        assert blas_threads()[0] == 1
        assert threads.workers() == min(2, threads._cores())


def test_blas_has_one_thread_in_fits_of_any_thread():
    """Also where another thread has set its number before, and the last to end restores it."""
    X = RNG.standard_normal((300, 3))
    seen, before = [], blas_threads()

    def looking(A, B):
        seen.extend(blas_threads())
        return kernels.RBF(1.0)(A, B)

    def fits():
        for _ in range(5):
            LSSVR(looking, C=10.0).fit(X, X[:, 0])

    with threadpool_limits(2):
        setting = blas_threads()
        fits()

    with threadpool_limits(2):
        setting = blas_threads()
        threads = [threading.Thread(target=fits) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert blas_threads() == setting
    assert set(seen) == {1}
    assert blas_threads() == before


FORK = """if True:
    import os, signal, threading, warnings
    import numpy as np
    from lssvm import LSSVR, arrays, kernels
    from lssvm.arrays import threads
    from lssvm.problem import Problem

    warnings.simplefilter("ignore", DeprecationWarning)  # fork with threads
    X = np.random.default_rng(0).standard_normal((40, 2))
    held, release, convert = threading.Event(), threading.Event(), arrays.to_numpy

    def slow(array):
        if threading.current_thread() is other:
            held.set()
            release.wait(30)
        return convert(array)

    def hold():
        with threads._lock:
            Problem(kernels.RBF(1.0), X, X[:, :1], np.ones(40)).rows

    other = threading.Thread(target=hold)
    arrays.to_numpy = slow
    other.start()
    held.wait(30)
    child = os.fork()
    if not child:
        signal.alarm(20)  # ends a child that waits for ever
        LSSVR(kernels.RBF(1.0), C=10.0).fit(X, X[:, 0])
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    release.set()
    raise SystemExit(0 if status == 0 else 1)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_no_lock_survives_a_fork():
    """Another thread is computing a property, and counting fits, while the main one forks."""
    assert subprocess.run([sys.executable, "-c", FORK], timeout=60).returncode == 0


@pytest.mark.parametrize(
    "spoil", [lambda A: A.astype("f4"), np.asfortranarray, lambda A: np.broadcast_to(A[0], A.shape)]
)
def test_what_cannot_be_worked_on_in_place_is_refused(spoil):
    """BLAS would write float64 by rows over whatever lies there."""
    L, Z = np.eye(4), spoil(np.ones((6, 4)))
    for work in (
        lambda: threads.by_triangle(threads.dtrsm, L, Z, turn=True),
        lambda: threads.by_triangle(threads.dtrmm, L, Z, turn=False),
        lambda: arrays.solve_columns(np.eye(6), Z),
        lambda: arrays.add_gram(Z[:4], np.ones((5, 4))),
    ):
        with pytest.raises(TypeError, match="row-major float64"):
            work()
