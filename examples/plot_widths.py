"""Which inputs matter

One width per column, chosen by the gradient of the leave-one-out error. The bars show spread/width: the longer the
bar, the faster the function bends along that input. It bends along two of the inputs and is straight along a third;
the others are dropped, and the model ignores them.
"""

import numpy as np
from matplotlib import pyplot

from lssvm import LSSVR, kernels
from lssvm.plotting import WidthsDisplay

draw = np.random.RandomState(0)
X = draw.uniform(-1, 1, (200, 8))
y = np.sin(5 * X[:, 0]) + X[:, 1] ** 2 + X[:, 2] + draw.normal(0, 0.1, 200)
model = LSSVR(kernels.RBF(ard=True)).fit(X, y)

figure, ax = pyplot.subplots(figsize=(6.4, 3.6), layout="constrained")
WidthsDisplay.from_estimator(model, ax=ax)

if __name__ == "__main__":
    pyplot.show()
