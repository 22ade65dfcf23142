"""The model of AutoGluon against the estimators that it wraps, on frames with categories and missing cells."""

import numpy as np
import pytest

pytest.importorskip("autogluon.core")
import pandas as pd

from benchmarks.tabarena import LSSVMModel
from lssvm import LSSVC, LSSVR

# AutoGluon's own imports and files
pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"
)


def frame(rows=90):
    draw = np.random.RandomState(0)
    colour = draw.choice(["red", "green", "blue"], rows)
    x = draw.normal(size=rows)
    X = pd.DataFrame({"colour": pd.Categorical(np.where(draw.rand(rows) < 0.1, None, colour)), "x": x, "one": 1})
    X.loc[draw.rand(rows) < 0.1, "x"] = np.nan
    return X, x + (colour == "red") + 0.1 * draw.normal(size=rows)


@pytest.mark.parametrize("problem", ["regression", "binary", "multiclass"])
def test_the_model_predicts_what_the_estimator_does_and_can_be_saved(problem, tmp_path):
    X, score = frame()
    y = score if problem == "regression" else np.digitize(score, [0.5] if problem == "binary" else [0.0, 1.0])
    model = LSSVMModel(path=str(tmp_path), name="model", problem_type=problem)
    model.fit(X=X[:70], y=pd.Series(y[:70]), num_cpus=1, num_gpus=0)
    assert model.is_fit()
    assert model.estimate_memory_usage(X=X) > 8 * len(X) ** 2  # one dense kernel
    # AutoGluon drops columns with one value
    own = (LSSVR() if problem == "regression" else LSSVC()).fit(X[:70][["colour", "x"]], y[:70])
    expected = own.predict(X[70:][["colour", "x"]])
    read = LSSVMModel.load(model.save())
    for one in (model, read):
        np.testing.assert_allclose(one.predict(X[70:]), expected, rtol=1e-6)
        if problem != "regression":
            p = own.predict_proba(X[70:][["colour", "x"]])
            p = p[:, 1] if problem == "binary" else p
            np.testing.assert_allclose(one.predict_proba(X[70:]), p, rtol=1e-6)


def test_hyperparameters_and_weights_reach_the_estimator(tmp_path):
    X, y = frame()
    weights = np.where(np.arange(90) < 45, 1.0, 0.25)
    model = LSSVMModel(path=str(tmp_path), name="model", problem_type="regression", hyperparameters={"robust": "huber"})
    model.fit(X=X, y=pd.Series(y), sample_weight=pd.Series(weights), num_cpus=1, num_gpus=0)
    own = LSSVR(robust="huber").fit(X[["colour", "x"]], y, sample_weight=weights)
    np.testing.assert_allclose(model.predict(X), own.predict(X[["colour", "x"]]), rtol=1e-6)
    assert LSSVMModel.supported_problem_types() == ["binary", "multiclass", "regression"]
