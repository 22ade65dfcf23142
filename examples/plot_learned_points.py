"""Basis points that move

Error on new rows against the size of the basis, for random rows and for points that start at rows and move along the
gradient of the leave-one-out error (`Learned`).
"""

import numpy as np
from matplotlib import pyplot

from lssvm import LSSVR, kernels, sparsify


def rows(count, seed):
    draw = np.random.RandomState(seed)
    X = draw.uniform(-1, 1, (count, 2))
    return X, np.sin(4 * X[:, 0]) * np.cos(3 * X[:, 1]), draw.normal(0, 0.1, count)


X, y, noise = rows(600, 0)
X_new, y_new, _ = rows(2000, 1)
sizes = [5, 10, 20]

figure, ax = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")
for way, colour in ((sparsify.Random, "#b3541e"), (sparsify.Learned, "#1f5fa8")):
    errors = []
    for size in sizes:
        model = LSSVR(kernels.RBF(), steps=[way(size, random_state=0)]).fit(X, y + noise)
        errors.append(np.sqrt(np.mean((model.predict(X_new) - y_new) ** 2)))
    ax.semilogx(sizes, errors, "o-", color=colour, label=f"{way.__name__}(n)")
ax.set(xlabel="basis points n", ylabel="root mean square error", title="600 rows, 2 inputs, noise 0.1", ylim=(0, None))
ax.set_xticks(sizes, [str(size) for size in sizes])
ax.minorticks_off()
ax.legend(framealpha=0.85, edgecolor="none")
ax.grid(alpha=0.2, which="both")
ax.spines[["top", "right"]].set_visible(False)

if __name__ == "__main__":
    pyplot.show()
