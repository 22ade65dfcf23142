"""The left-out error over C and the width

What tuning searches: the left-out error of the motorcycle data over C and the width of the kernel, one factorisation
for each width and nothing refitted. The circle is where `LSSVR()` went by itself. Along the valley a wider kernel with
a larger C predicts nearly the same.
"""

from matplotlib import pyplot

from lssvm import LSSVR, datasets
from lssvm.plotting import WidthSurfaceDisplay

X, y = datasets.load_motorcycle(return_X_y=True)

figure, ax = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")
WidthSurfaceDisplay.from_estimator(LSSVR().fit(X, y), ax=ax)

if __name__ == "__main__":
    pyplot.show()
