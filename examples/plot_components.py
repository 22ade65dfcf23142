"""The components of an additive model

The four components that are kept, of 25 in total, each with a band of two standard deviations; the marks are the
rows. An additive model is easy to interpret: the prediction is the sum of these curves and a constant.
"""

from matplotlib import pyplot

from lssvm import LSSVR, datasets, kernels, sparsify
from lssvm.plotting import ComponentsDisplay

X, y = datasets.make_additive(random_state=0)
model = LSSVR(kernels.Additive(kernels.Spline()), steps=[sparsify.Components(random_state=0)]).fit(X, y)

figure = ComponentsDisplay.from_estimator(model, X).figure_

if __name__ == "__main__":
    pyplot.show()
