"""How far a fit is: shares that only grow, of what is known to be left; nothing is counted where nobody listens."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lssvm import LSSVC, LSSVR, arrays, kernels, problem, progress

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2100, 3))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * RNG.normal(size=len(X))


def test_what_a_part_does_not_need_is_no_longer_expected():
    shares = []
    with progress.listening(shares.append):
        first, second = progress.expect(lambda: 10.0), progress.expect(lambda: 30.0)
        with first:
            progress.did(lambda: 4.0)
        with second:
            progress.did(lambda: 10.0)
            progress.did(lambda: 25.0)  # more than was expected
    assert shares == pytest.approx([4 / 40, 4 / 34, 14 / 34, 1.0, 1.0])


def test_nothing_is_counted_where_nobody_listens():
    def never():
        raise AssertionError

    with progress.listening(lambda share: None):
        pass
    with progress.expect(never):
        progress.did(never)


def listened(model, X, y):
    """A fitted model and the shares that it told."""
    shares = []
    with progress.listening(shares.append):
        model.fit(X, y)
    return model, np.array(shares)


@pytest.mark.parametrize(
    ("make", "rows"),
    [
        (LSSVR, 120),
        (LSSVC, 120),
        (lambda: LSSVR(robust="huber"), 120),
        (LSSVR, 400),  # searched with a part of the rows as basis first
        (lambda: LSSVR(kernels.RBF()), 2100),  # on a basis
    ],
    ids=["numbers", "classes", "robust", "stages", "basis"],
)
def test_shares_of_a_fit_grow_to_one(make, rows):
    y = np.digitize(Y, [-0.5, 0.5])[:rows] if make is LSSVC else Y[:rows]
    model, shares = listened(make(), X[:rows], y)
    assert (np.diff(shares) >= -1e-12).all()
    assert shares[0] < 0.05
    assert shares[-1] == 1.0
    assert (shares == 1.0).sum() <= 3  # the end of the last part, not the search
    assert np.max(np.diff(shares)) < 0.5
    if rows < 200:
        assert_array_equal(model.loo_residuals_, make().fit(X[:rows], y).loo_residuals_)


def test_rows_that_pass_by_in_blocks_are_told(monkeypatch):
    """A machine that does not fit in memory: two passes over the rows, block by block."""
    monkeypatch.setattr(arrays, "memory", lambda array: 16 * len(X) * 500 - 1)
    blocks = lambda rows, *_, **__: (slice(start, start + 300) for start in range(0, rows, 300))  # noqa: E731
    monkeypatch.setattr(arrays, "row_blocks", blocks)
    machine = problem.Problem(kernels.RBF(1.0), X, Y[:, None], np.ones(len(X)), C=1.0).with_basis(np.arange(500))
    told = []
    with progress.listening(told.append), progress.expect(lambda: 2 * progress.work(len(X), 500)):
        assert not machine.fits_memory
        machine.solve()
    assert len(told) >= 14
    assert told == sorted(told)
    assert 0.5 < told[-2] <= 1.0
