"""Choosing the inputs of an additive model

Vapnik's function of four inputs out of 25, with 100 noisy rows. Each curve is the maximal variation of one component
along rho. For components of finite rank it is exactly 0 where the input is not needed (Pelckmans et al. 2005, fig.
4). The line marks the chosen rho; the components that are kept are drawn in colour.
"""

from matplotlib import pyplot

from lssvm import LSSVR, datasets, kernels, sparsify
from lssvm.plotting import MaximalVariationDisplay

X, y = datasets.make_additive(random_state=0)
model = LSSVR(kernels.Additive(kernels.Spline()), steps=[sparsify.Components(random_state=0)]).fit(X, y)

figure, ax = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")
MaximalVariationDisplay.from_estimator(model, ax=ax)

if __name__ == "__main__":
    pyplot.show()
