"""Data that arrive in chunks

`partial_fit` adds chunks to a model on a fixed basis, exactly: after each chunk the model equals the one that `fit`
gives on all rows so far with that basis. Left: the error on new rows as more chunks arrive. Right: the largest
difference between its predictions and those of `fit` on all rows so far.
"""

import numpy as np
from matplotlib import pyplot

from lssvm import LSSVR, datasets, kernels, sparsify

X, y = datasets.make_sinc(3000, random_state=0)
X_new = np.linspace(-5, 5, 500)[:, None]
basis = sparsify.Given(np.linspace(-5, 5, 30)[:, None])
settings = {"kernel": kernels.RBF(1.0), "C": 10.0, "steps": [basis]}

stream = LSSVR(**settings)
seen, errors, differences = [], [], []
for start in range(0, 3000, 100):
    stream.partial_fit(X[start : start + 100], y[start : start + 100])
    whole = LSSVR(**settings).fit(X[: start + 100], y[: start + 100])
    predicted = stream.predict(X_new)
    seen.append(start + 100)
    errors.append(np.sqrt(np.mean((predicted - np.sinc(X_new[:, 0])) ** 2)))
    differences.append(np.max(np.abs(predicted - whole.predict(X_new))))

figure, (left, right) = pyplot.subplots(1, 2, figsize=(10.0, 3.8), layout="constrained")
left.loglog(seen, errors, "o-", color="#1f5fa8", markersize=4)
left.set(xlabel="rows so far", ylabel="root mean square error", title="Noisy sinc, noise 0.1, 30 basis points")
right.semilogy(seen, differences, "o", color="#1f5fa8", markersize=4)
right.set(
    xlabel="rows so far", ylabel="largest difference from fit", title="partial_fit against fit", ylim=(1e-17, 1e-11)
)
for ax in (left, right):
    ax.grid(alpha=0.2)
    ax.spines[["top", "right"]].set_visible(False)

if __name__ == "__main__":
    pyplot.show()
