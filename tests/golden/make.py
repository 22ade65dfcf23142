"""Write golden files of the present format that are not there yet: python tests/golden/make.py.

Files that are there stay as they are, those of older formats and of older versions (format1-stream holds no sample).
"""

import json
from pathlib import Path

import numpy as np

from lssvm import LSSVC, LSSVR, kernels, persist, save, sparsify

rng = np.random.default_rng(0)
X, new = rng.uniform(-2, 2, (24, 2)).round(3), rng.uniform(-2, 2, (6, 2)).round(3)
Y = np.column_stack([np.sin(2 * X[:, 0]) + X[:, 1], X[:, 1] ** 2])
Y = (Y + 0.2 * rng.standard_normal(Y.shape)).round(3)
text = np.array(["high", "low", "middle"])[np.digitize(Y[:, 0], [-1.0, 0.5])]
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
    "chunks": LSSVR(
        kernels.RBF(sigma=1.0), C=5.0, robust="huber", steps=[sparsify.Given(X[[0, 0, 1, 2, 3]])]
    ).fit_chunks([(X[:12], Y[:12]), (X[12:], Y[12:])]),
    "precomputed": LSSVR(kernels.Precomputed(), C=1.0).fit(X @ X.T, Y[:, 0]),
}
for name, model in models.items():
    path = Path(__file__).with_name(f"format{persist.FORMAT}-{name}.lssvm")
    if path.exists():
        continue
    inputs = new @ X.T if name == "precomputed" else new
    methods = ["predict", "decision_function", "predict_proba"] if isinstance(model, LSSVC) else ["predict"]
    methods += ["predict_interval"] if isinstance(model, LSSVR) else []
    expected = {method: getattr(model, method)(inputs).tolist() for method in methods}
    save(model, path)
    path.with_suffix(".json").write_text(json.dumps({"X": inputs.tolist(), **expected}), encoding="utf-8")
