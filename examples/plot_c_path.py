"""The whole path in C from one factorisation

The leave-one-out error of the motorcycle data against C, for three kernel widths. Each curve comes from one
eigendecomposition, however many values of C it has; nothing is refitted. The circles mark the C chosen by each model.
"""

from matplotlib import pyplot

from lssvm import LSSVR, datasets, kernels
from lssvm.plotting import CPathDisplay

X, y = datasets.load_motorcycle(return_X_y=True)

figure, ax = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")
for sigma in (3.0, 6.6, 13.0):
    model = LSSVR(kernels.RBF(sigma)).fit(X, y)
    CPathDisplay.from_estimator(model, ax=ax, decades=3.0, name=f"RBF({sigma:g} ms)")
ax.set(title="Motorcycle: leave-one-out error along C", ylabel="leave-one-out RMSE (g)")

if __name__ == "__main__":
    pyplot.show()
