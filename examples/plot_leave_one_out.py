"""Leave-one-out is exact

Left: the leave-one-out prediction of every row, all from one fit. Right: the relative difference from 133 models that
were actually refitted on 132 rows each. It is rounding error.
"""

import numpy as np
from matplotlib import pyplot

from lssvm import LSSVR, datasets, kernels
from lssvm.plotting import LeaveOneOutDisplay

X, y = datasets.load_motorcycle(return_X_y=True)
model = LSSVR(kernels.RBF(13.1), C=100.0).fit(X, y)

refitted = np.empty(len(y))
for row in range(len(y)):
    others = np.arange(len(y)) != row
    refitted[row] = LSSVR(kernels.RBF(13.1), C=100.0).fit(X[others], y[others]).predict(X[[row]])[0]

figure, (left, right) = pyplot.subplots(1, 2, figsize=(10.0, 4.0), layout="constrained")
LeaveOneOutDisplay.from_estimator(model, ax=left)
difference = np.abs(model.loo_predictions_ - refitted) / y.std()
right.semilogy(np.maximum(difference, 1e-17), ".", color="#1f5fa8")
right.set(xlabel="row", ylabel="|closed form - refit| / std(y)", ylim=(1e-17, 1e-9), title="133 refits")
right.grid(alpha=0.2)
right.spines[["top", "right"]].set_visible(False)

if __name__ == "__main__":
    pyplot.show()
