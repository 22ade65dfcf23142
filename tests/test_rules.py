"""Rules of parameters: checked before any work, by fits and model files alike."""

import numpy as np
import pytest

from lssvm import LSSVC, LSSVR, kernels, robust, sparsify, tune
from lssvm.rules import check_parameters, rules_of, violations

X = np.random.default_rng(0).normal(size=(20, 2))


def test_all_parameters_are_checked_before_any_work(monkeypatch):
    """A mistake in the last step does not show after minutes in the first."""
    monkeypatch.setattr(kernels.RBF, "evaluate", None)
    for model in (LSSVR(kernels.RBF()), LSSVC(kernels.Choice([kernels.RBF(), kernels.Linear()]))):
        model.set_params(steps=[tune.LeaveOneOut(), sparsify.Prune(0)])
        for fit in (model.fit, model.partial_fit, lambda X, y, model=model: model.fit_chunks([(X, y)])):
            with pytest.raises(ValueError, match="Prune: n must be a positive integer or None, got 0"):
                fit(X, X[:, 0] > 0)


def test_the_place_of_a_mistake_leads_to_its_object():
    kernel = kernels.Stack([kernels.Linear(), kernels.RBF(1.0) + kernels.Additive(kernels.Matern(nu=2))])
    model = LSSVR(kernel, C="x", robust=robust.Huber(), steps=[sparsify.Random(5, random_state=-1)])
    places = [place for place, _ in violations(model)]
    assert places == ["kernel.kernels[1].k2.kernel.nu", "C", "steps[0].random_state"]


@pytest.mark.parametrize("annotation", ["array of (n,)", "Missing", int])
def test_classes_of_users_may_have_any_annotations(annotation):
    class Own(kernels.Linear):
        def __init__(self, factor=1.0):
            self.factor = factor

    Own.__init__.__annotations__ = {"factor": annotation}
    assert rules_of(Own) == {}
    LSSVR(Own("x"), C=1.0).fit(X, X[:, 0])


@pytest.mark.parametrize("value", ["x" * 10**6, list(range(10**5)), np.zeros(10**5), {k: k for k in range(10**4)}])
def test_messages_are_short_whatever_the_value(value):
    with pytest.raises(ValueError, match="n must be a positive integer, got") as caught:
        check_parameters(sparsify.KMeans(value))
    assert len(str(caught.value)) < 400
