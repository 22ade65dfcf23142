"""The kernel of docs/extending.md keeps every promise of that page."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lssvm import LSSVC, LSSVR, export, kernels, save, sparsify, tune
from lssvm.kernels import RBF, Choice
from lssvm.problem import Problem

PAGE = (Path(__file__).parents[1] / "docs" / "extending.md").read_text(encoding="utf-8")


def from_page(name):
    """The class that the page defines."""
    block = next(block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if f"class {name}(" in block)
    scope = {"np": np}
    exec(re.match(r".*?(?=\n\n\n\w+ = )", block, re.DOTALL)[0], scope)
    return scope[name]


Periodic = from_page("Periodic")
KERNELS = {
    "given": lambda: Periodic(24.0, 0.7),
    "open": lambda: Periodic(24.0),
    "product": lambda: Periodic(24.0) * RBF(),
    "product, one width given": lambda: Periodic(24.0, 0.7) * RBF(),
    "sum": lambda: Periodic(24.0) + RBF(),
    "sum with a kernel without width": lambda: Periodic(24.0) + kernels.Linear(),
    "choice": lambda: Choice([Periodic(24.0), RBF()]),
    "choice of a product": lambda: Choice([RBF(), RBF(50.0), Periodic(24.0) * RBF(), Periodic(24.0, 0.7)]),
    "additive": lambda: kernels.Additive(Periodic(24.0)),
}
RNG = np.random.RandomState(0)
HOURS = np.arange(200.0)[:, None]
LOAD = np.sin(2 * np.pi * HOURS[:, 0] / 24) ** 3 + RNG.normal(0, 0.1, 200)


@pytest.mark.parametrize("name", KERNELS)
def test_widths_left_open_are_chosen(name):
    model = LSSVR(KERNELS[name]()).fit(HOURS, LOAD)
    assert not model.kernel_.is_free
    assert all(np.all(np.asarray(leaf.sigma) > 0) for leaf in model.kernel_.leaves)
    assert np.std(model.loo_residuals_) < 0.13  # the noise has 0.1


def test_the_chosen_width_is_a_minimum_of_leave_one_out():
    model = LSSVR(Periodic(24.0)).fit(HOURS, LOAD)
    width = float(np.max(model.kernel_.sigma))
    press = [LSSVR(Periodic(24.0, factor * width), C=model.C_).fit(HOURS, LOAD).press_ for factor in (0.8, 1.0, 1.25)]
    assert press[1] == min(press)


@pytest.mark.filterwarnings("ignore:Rounding errors")  # as below
def test_a_width_without_a_unit_does_not_depend_on_the_unit_of_the_column():
    assert Periodic(24.0).with_width(2.0, np.array([58.0])).sigma == 2.0
    steps = [tune.LeaveOneOut(search="grid")]  # whose points are multiples of the unit
    hours, seconds = (
        LSSVR(Periodic(24.0 * scale), steps=steps).fit(scale * HOURS, LOAD).kernel_.sigma for scale in (1.0, 3600.0)
    )
    assert_allclose(seconds, hours, rtol=0.1)  # the minimum is flat


@pytest.mark.parametrize(
    "steps",
    [[sparsify.Random(30, random_state=0)], pytest.param([tune.KFold(5)], marks=pytest.mark.slow), [tune.Holdout(0.3)]],
)
def test_steps_take_it(steps):
    model = LSSVR(Periodic(24.0), steps=steps).fit(HOURS, LOAD)
    assert np.std(LOAD - model.predict(HOURS)) < 0.2


@pytest.mark.filterwarnings("ignore:Rounding errors")  # close to the limit with the best C, 1e11
@pytest.mark.parametrize("search", ["gradient", "simplex", "grid"])
def test_every_search_takes_it(search):
    model = LSSVR(Periodic(24.0), steps=[tune.LeaveOneOut(search=search)]).fit(HOURS, LOAD)
    assert np.std(model.loo_residuals_) < 0.13


def test_a_decorator_may_define_the_constructor():
    @dataclass
    class Decorated(Periodic):
        period: float
        sigma: float | None = None

    model, same = (LSSVR(kind(24.0)).fit(HOURS, LOAD) for kind in (Decorated, Periodic))
    assert_allclose(model.kernel_.sigma, same.kernel_.sigma)


def test_classes_take_it():
    labels = np.where(LOAD > 0, "day", "night")
    assert LSSVC(Periodic(24.0)).fit(HOURS, labels).score(HOURS + 24, labels) > 0.8


@pytest.mark.parametrize(
    "kernel", [Periodic(24.0, 0.7), Periodic(24.0, 0.7) * RBF(300.0), Periodic(24.0, 0.7) + RBF(9.0)]
)
def test_the_gradient_agrees_with_central_differences(kernel):
    problem = Problem(kernel, HOURS, LOAD[:, None], np.ones(200), C=10.0)
    _, in_widths, _ = problem.factorise().criterion()
    for number, leaf in enumerate(kernel.leaves):
        values = []
        for shift in (1e-5, -1e-5):
            widths = [other.sigma * np.exp(shift * (other is leaf)) for other in kernel.leaves]
            values.append(problem.replace(kernel=kernel.with_widths(widths)).factorise().criterion()[0])
        assert_allclose(in_widths[number].sum(), (values[0] - values[1]) / 2e-5, rtol=1e-5, atol=1e-7)


def test_torch_gives_the_same():
    torch = pytest.importorskip("torch")
    ours = LSSVR(Periodic(24.0) * RBF()).fit(HOURS, LOAD)
    theirs = LSSVR(Periodic(24.0) * RBF()).fit(torch.asarray(HOURS), torch.asarray(LOAD))
    assert_allclose(theirs.predict(torch.asarray(HOURS)).numpy(), ours.predict(HOURS), rtol=1e-4, atol=1e-4)


def test_files_and_exports_refuse_it_by_name(tmp_path):
    model = LSSVR(Periodic(24.0)).fit(HOURS, LOAD)
    with pytest.raises(TypeError, match="Periodic"):
        save(model, tmp_path / "model.lssvm")
    for write in (export.to_python, export.to_c):
        with pytest.raises((TypeError, ValueError), match="Periodic"):
            write(model)


class Unguided(kernels.Kernel):
    """A width without a derivative."""

    def __init__(self, sigma=None):
        self.sigma = sigma

    def evaluate(self, X, Z):
        return np.exp(-np.abs(X - Z.T) / np.max(self.sigma))

    def diagonal(self, X):
        return np.ones(len(X))


def test_a_width_without_gradient_is_refused_with_the_remedy():
    with pytest.raises(TypeError, match=r"Unguided does not define gradient.*give sigma.*search='grid'"):
        LSSVR(Unguided()).fit(HOURS, LOAD)
    model = LSSVR(Unguided(), steps=[tune.LeaveOneOut(search="grid")]).fit(HOURS, LOAD)
    assert np.isfinite(model.kernel_.sigma).all()
