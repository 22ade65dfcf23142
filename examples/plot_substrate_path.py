"""The path of the L1 substrate

The coefficients of the sparse LS-SVM substrate (Pelckmans et al. 2005, eq. 16) against zeta, the weight of their L1
norm. The path is piecewise linear in zeta and is traced exactly; the line marks the zeta with the smallest error on a
fifth of the rows, which are held out. Right: the model at that zeta, with its few support vectors.
"""

import numpy as np
from matplotlib import pyplot

from lssvm import LSSVR, datasets, kernels, sparsify

X, y = datasets.load_motorcycle(return_X_y=True)
model = LSSVR(kernels.RBF(6.0), steps=[sparsify.Substrate(random_state=0)]).fit(X, y)
path = model.path_

figure, (left, right) = pyplot.subplots(1, 2, figsize=(10.0, 4.0), layout="constrained")
shown = path.zeta >= path.chosen / 2  # below that, the coefficients grow without any gain
used = np.any(path.coef[shown] != 0, axis=0)
left.plot(path.zeta[shown], path.coef[shown][:, used], linewidth=1.2)
left.axvline(path.chosen, color="#333333", linestyle="--", linewidth=1, label="chosen")
left.set(xscale="log", xlabel="zeta", ylabel="coefficients", title="Exact path in zeta")
left.legend(framealpha=0.85, edgecolor="none")
grid = np.linspace(X.min(), X.max(), 300)
right.plot(X, y, ".", color="#777777", markersize=4, label="rows")
right.plot(grid, model.predict(grid[:, None]), color="#1f5fa8", linewidth=1.8, label="substrate")
points = model.support_vectors_
right.plot(points, model.predict(points), "o", color="#b3541e", label=f"{len(points)} support vectors")
right.set(xlabel="time after impact (ms)", ylabel="head acceleration (g)", title="Motorcycle")
right.legend(loc="lower right", framealpha=0.85, edgecolor="none")
for ax in (left, right):
    ax.grid(alpha=0.2)
    ax.spines[["top", "right"]].set_visible(False)

if __name__ == "__main__":
    pyplot.show()
