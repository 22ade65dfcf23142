"""The leave-one-out error over C and the width

What tuning minimises: the leave-one-out error of the motorcycle data over C and the kernel width, with one
factorisation per width and nothing refitted. The circle marks what `LSSVR(kernels.RBF())` chose. Along the valley, a
wider kernel with a larger C gives nearly the same predictions.
"""

from matplotlib import pyplot

from lssvm import LSSVR, datasets, kernels
from lssvm.plotting import WidthSurfaceDisplay

X, y = datasets.load_motorcycle(return_X_y=True)

figure, ax = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")
WidthSurfaceDisplay.from_estimator(LSSVR(kernels.RBF()).fit(X, y), ax=ax)

if __name__ == "__main__":
    pyplot.show()
