"""Write golden files of the present format that are not there yet: python tests/golden/make.py.

Files that are there stay as they are, those of older formats and of older versions. Those of format 1 without a version
in their name are of 0.1.0 (format1-stream holds no sample). Before 0.3.0, format 2 may be rewritten.
"""

import json
from pathlib import Path

import numpy as np

from lssvm import LSSVC, LSSVR, kernels, robust, save, sparsify, tune
from lssvm.persist import FORMAT

rng = np.random.default_rng(0)
X, new = rng.uniform(-2, 2, (24, 2)).round(3), rng.uniform(-2, 2, (6, 2)).round(3)
Y = np.column_stack([np.sin(2 * X[:, 0]) + X[:, 1], X[:, 1] ** 2])
Y = (Y + 0.2 * rng.standard_normal(Y.shape)).round(3)
text = np.array(["high", "low", "middle"])[np.digitize(Y[:, 0], [-1.0, 0.5])]
cells = np.column_stack([X, np.where(np.arange(24) % 5 == 0, None, np.take(["a", "b", "c"], np.arange(24) % 3))])
new_cells = np.column_stack([new, np.array(["a", "b", "c", "d", None, "a"])])
everything = (
    kernels.RBF(sigma=[1.0, 2.0])
    + kernels.Linear() * kernels.Matern(sigma=2.0, nu=2.5)
    + kernels.Additive(kernels.Matern(sigma=[1.0, 3.0], nu=0.5))
    + kernels.Polynomial(2, coef0=0.5)
)
models = {
    "regression": LSSVR(kernels.RBF(sigma=1.0), C=10.0).fit(X, Y[:, 0]),
    "outputs": LSSVR(everything, C=2.0, robust="hampel", steps=[sparsify.Prune(12, rows="keep")]).fit(X, Y),
    "chosen": LSSVR(steps=[sparsify.Random(10, random_state=0)]).fit(X, Y[:, 0]),
    "two-classes": LSSVC(kernels.Matern(sigma=1.5), C=5.0, class_weight="balanced").fit(X, text == "low"),
    "three-classes": LSSVC(kernels.RBF(sigma=1.0), C=5.0, steps=[sparsify.KMeans(8, random_state=0)]).fit(X, text),
    "stream": LSSVC(kernels.RBF(sigma=1.0), C=5.0, steps=[sparsify.Given(X[:8])]).partial_fit(X[:12], text[:12]),
    "number-stream": LSSVR(kernels.RBF(sigma=1.0), C=5.0, steps=[sparsify.Given(X[:8])]).partial_fit(X, Y),
    "robust-chunks": LSSVR(
        kernels.RBF(sigma=1.0), C=5.0, robust="huber", steps=[sparsify.Given(X[[0, 0, 1, 2, 3]])]
    ).fit_chunks([(X[:12], Y[:12]), (X[12:], Y[12:])]),
    "precomputed": LSSVR(kernels.Precomputed(), C=1.0).fit(X @ X.T, Y[:, 0]),
    "stack": LSSVR().fit(X, Y[:, 0]),
    "class-stack": LSSVC(kernels.Stack([kernels.RBF(sigma=1.0), kernels.Linear()]), C=1.0).fit(X, text),
    "pairs": LSSVC(kernels.RBF(sigma=1.0), C=5.0, coding="one-vs-one", loss="logistic").fit(X, text),
    "categories": LSSVR(kernels.RBF(), C=5.0, categorical_features=[2]).fit(cells, Y[:, 0]),
    "robust": LSSVR(kernels.RBF(sigma=1.0), C=5.0, robust=robust.Huber(iterations=2)).fit(X, Y[:, 0]),
    "chunks": LSSVR(kernels.RBF(sigma=1.0), C=5.0, steps=[sparsify.Random(6, random_state=0)]).fit_chunks(
        [(X[:12], Y[:12, 0]), (X[12:], Y[12:, 0])]
    ),
    "sparse": LSSVR(kernels.RBF(), steps=[sparsify.FeatureVectors(6), tune.KFold(3)]).fit(X, Y[:, 0]),
}
for name, model in models.items():
    path = Path(__file__).with_name(f"format{FORMAT}-{name}.lssvm")
    if path.exists():
        continue
    inputs = {"precomputed": new @ X.T, "categories": new_cells}.get(name, new)
    methods = ["predict", "decision_function", "predict_proba"] if isinstance(model, LSSVC) else ["predict"]
    methods += ["predict_interval"] if isinstance(model, LSSVR) and not hasattr(model, "members_") else []
    expected = {method: getattr(model, method)(inputs).tolist() for method in methods}
    save(model, path)
    path.with_suffix(".json").write_text(json.dumps({"X": inputs.tolist(), **expected}), encoding="utf-8")
