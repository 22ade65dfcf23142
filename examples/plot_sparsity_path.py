"""How small can the basis be?

Left: the leave-one-out error of three ways to reduce the basis, on the motorcycle data. Dropping a vector together
with its row loses the information in that row, even if C and the width are tuned again at every size; a row that
stays in the loss still contributes. Right: the support values by which pruning decides (Suykens et al. 2002, fig.
11), on a noisy sinc with outliers. Robust weights make the support values of outliers small, so that outliers are
pruned first.
"""

from matplotlib import pyplot

from lssvm import LSSVR, datasets, kernels, sparsify
from lssvm.plotting import SparsityPathDisplay, SupportSpectrumDisplay

figure, (left, right) = pyplot.subplots(1, 2, figsize=(10.0, 4.2), layout="constrained")

X, y = datasets.load_motorcycle(return_X_y=True)
ways = {
    'Prune(rows="keep")': sparsify.Prune(rows="keep"),
    'Prune(12, rows="drop", retune=True)': sparsify.Prune(12, rows="drop", retune=True, fraction=0.3),
    "Forward(40)": sparsify.Forward(40, random_state=0),
}
left.set_title("Motorcycle: error against basis size")
for name, step in ways.items():
    model = LSSVR(kernels.RBF(), steps=[step]).fit(X, y)
    SparsityPathDisplay.from_estimator(model, ax=left, name=name)
left.set_ylabel("leave-one-out RMSE (g)")
left.set_ylim(22, 43)
left.legend(loc="upper right", framealpha=0.85, edgecolor="none")

X, y = datasets.make_sinc(300, outliers=15, random_state=0)
right.set_title("Noisy sinc: sorted support values while pruning")
for size in (300, 150, 60, 20):
    model = LSSVR(kernels.RBF(1.0), C=10.0, steps=[sparsify.Prune(size)], robust="hampel").fit(X, y)
    SupportSpectrumDisplay.from_estimator(model, ax=right)

if __name__ == "__main__":
    pyplot.show()
