"""`effort` scales the plan, and never a parameter that is given."""

import re
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

from lssvm import LSSVC, LSSVR, arrays, kernels, load, progress, save, sparsify
from lssvm.estimators import planning
from lssvm.problem import Problem
from lssvm.sparsify.bases import largest_basis
from lssvm.tune.constants import CONSTANTS, constants

EFFORTS = (0.001, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 1000.0)
RNG = np.random.default_rng(0)
X = RNG.uniform(-1.0, 1.0, (150, 3))
BASIS = [sparsify.Random(20, random_state=0)]
Y = np.sin(3.0 * X[:, 0]) + X[:, 1] + RNG.normal(0.0, 0.2, 150)


def problem_of(rows, effort):
    inputs = np.linspace(0.0, 1.0, 2 * rows).reshape(rows, 2)
    return Problem(kernels.RBF(), inputs, inputs[:, :1], np.ones(rows), effort=effort)


@pytest.mark.parametrize(
    "model",
    [
        LSSVR(kernels.RBF(1.0), C=10.0),
        LSSVR(kernels.Matern(1.0), C=10.0, steps=[sparsify.Random(20, random_state=0)]),
        LSSVC(kernels.RBF(1.0), C=10.0),
        LSSVC(kernels.RBF(1.0), C=10.0, loss="logistic"),
    ],
    ids=["dense", "basis", "classes", "logistic"],
)
@pytest.mark.parametrize("effort", [0.01, 100])
def test_given_parameters_are_kept(model, effort):
    y = Y > 0 if isinstance(model, LSSVC) else Y
    expected, found = model.fit(X, y), clone(model).set_params(effort=effort).fit(X, y)
    assert_array_equal(found.dual_coef_, expected.dual_coef_)
    assert_array_equal(found.support_, expected.support_)
    assert (found.C_, repr(found.kernel_)) == (expected.C_, repr(expected.kernel_))


def test_one_given_parameter_is_kept_when_others_are_searched():
    model = LSSVR(kernels.RBF(), C=7.0, steps=[sparsify.Random(30, random_state=0)], effort=0.1).fit(X, Y)
    assert model.C_ == 7.0
    assert model.support_.shape == (30,)
    assert LSSVR(kernels.RBF(0.8), effort=0.1).fit(X, Y).kernel_.sigma == 0.8
    stack = LSSVR(kernels.Stack([kernels.RBF(), kernels.Spline()]), effort=0.1).fit(X, Y)
    assert {type(one.kernel_) for one in stack.members_} <= {kernels.RBF, kernels.Spline}


def test_sizes_grow_with_effort_and_work_in_proportion(monkeypatch):
    monkeypatch.setattr(arrays, "memory", lambda X, free: None)
    assert constants(1.0) is CONSTANTS
    several = [constants(effort) for effort in EFFORTS]
    for name in ("start_rows", "dense_stage", "trial", "last_stage", "class_rows", "few_iterations"):
        sizes = np.array([getattr(one, name) for one in several])
        assert (np.diff(sizes, axis=0) >= 0).all(), name
        assert (sizes > 0).all(), name
    assert constants(1e-3).widths[2] >= 2  # a grid
    for rows in (3000, 14_000, 40_000, 300_000):
        sizes = np.array([largest_basis(problem_of(rows, effort)) for effort in EFFORTS], dtype=float)
        assert (np.diff(sizes) >= 0).all()
        usual = rows * sizes[4] ** 2
        assert (rows * sizes**2 <= 1.01 * usual * np.maximum(EFFORTS, 1.0))[sizes < rows].all()


def test_members_of_the_default_stack():
    counts = [len(planning.default_portfolio(problem_of(200, effort)).parts) for effort in EFFORTS]
    assert counts == sorted(counts)
    assert counts[0] == 2
    assert counts[4:] == [counts[4]] * 5


def work_of(model, X, y, monkeypatch):
    """The work that a fit reports, which does not depend on the speed of the computer."""
    done = []
    with monkeypatch.context() as patched:
        patched.setattr(progress, "did", lambda amount: done.append(amount()))
        model.fit(X, y)
    return sum(done)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [LSSVR, LSSVC])
def test_a_tenth_of_the_effort_is_less_than_a_third_of_the_work(estimator, monkeypatch):
    X = np.random.default_rng(1).uniform(-1.0, 1.0, (3000, 4))
    y = np.sin(3.0 * X[:, 0]) + X[:, 1] * X[:, 2] + np.random.default_rng(2).normal(0.0, 0.2, 3000)
    y = y if estimator is LSSVR else y > 0
    usual, quick = (work_of(estimator(effort=effort), X, y, monkeypatch) for effort in (1.0, 0.1))
    assert quick < usual / 3.0  # an upper bound: 1e7 of it per factorisation stand for what does not depend on sizes


def test_little_effort_evaluates_fewer_candidates():
    usual, quick = (LSSVR(kernels.RBF(ard=True), effort=effort).fit(X, Y).path_.evaluations for effort in (1.0, 0.05))
    assert quick < usual


def test_chunks_use_a_smaller_basis():
    inputs = np.random.default_rng(3).uniform(size=(600, 2))
    model = LSSVR(kernels.RBF(0.5), C=1.0, effort=0.1).fit_chunks([(inputs, inputs[:, 0])])
    assert len(model.support_vectors_) == round(planning.BASIS_SIZE * 0.1**0.5)


@pytest.mark.parametrize(
    ("arguments", "words"), [({}, "150 rows, dense, 6 models"), ({"steps": BASIS}, "20 basis points")]
)
def test_a_long_fit_is_announced(arguments, words, monkeypatch, capsys):
    LSSVR(verbose=1, **arguments).fit(X, Y)
    assert "rows" not in capsys.readouterr().err
    monkeypatch.setattr(planning, "LONG", 0.0)
    LSSVR(**arguments).fit(X, Y)
    assert "rows" not in capsys.readouterr().err
    LSSVR(verbose=1, **arguments).fit(X, Y)
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("effort", [0, -1.0, 1e-4, 1e4, np.nan, np.inf, True, "high", None, [1.0]])
@pytest.mark.parametrize("estimator", [LSSVR, LSSVC])
def test_other_values_are_refused(estimator, effort):
    message = f"effort must be a number from 0.001 to 1000, got {effort!r}"
    with pytest.raises(ValueError, match=re.escape(message)):
        estimator(effort=effort).fit(X, Y > 0)


@pytest.mark.parametrize("estimator", [LSSVR, LSSVC])
def test_files_hold_the_effort(estimator, tmp_path):
    model = estimator(kernels.RBF(1.0), C=1.0, effort=3).fit(X, Y > 0)
    save(model, tmp_path / "model.lssvm")
    found = load(tmp_path / "model.lssvm")
    assert found.effort == 3
    assert [member.problem.effort for member in found.fitted_.members] == [3.0]
    assert_array_equal(found.predict(X), model.predict(X))


def test_files_without_effort_have_the_usual_one():
    for file in (Path(__file__).parent / "golden").glob("format2-*regression.lssvm"):
        model = load(file)
        assert model.effort == 1.0
        assert all(member.problem.effort == 1.0 for member in model.fitted_.members)
