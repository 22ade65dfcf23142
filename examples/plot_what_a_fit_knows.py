"""
What a fit knows about itself
=============================

A fitted machine has the left-out prediction of every row, and the whole path of C from one factorisation. These
displays draw them; nothing is refitted.

    python examples/plot_what_a_fit_knows.py [picture]
"""

import sys

import numpy as np
from matplotlib import pyplot

from lssvm import LSSVC, LSSVR, datasets, sparsify
from lssvm.plotting import CPathDisplay, FitDisplay, ReliabilityDisplay, ResidualsDisplay, WidthsDisplay

figure, axes = pyplot.subplots(3, 2, figsize=(11.0, 12.0), layout="constrained")

# %%
# One input: the curve, its interval and the support vectors; C at the smallest left-out error.
X, y = datasets.load_motorcycle(return_X_y=True)
model = LSSVR().fit(X, y)
FitDisplay.from_estimator(model, ax=axes[0, 0])
CPathDisplay.from_estimator(model, ax=axes[0, 1])

# %%
# Two classes in the plane, with 20 support vectors; the probabilities are those of left-out rows.
X, y = datasets.load_ripley(return_X_y=True)
model = LSSVC(steps=[sparsify.Random(20, random_state=0)]).fit(X, y)
FitDisplay.from_estimator(model, ax=axes[1, 0])
ReliabilityDisplay.from_estimator(model, ax=axes[1, 1])

# %%
# Robust weights take the outliers out. A width a column: the function bends along two of the inputs, is linear in the
# third, and the others are left out.
X, y = datasets.make_sinc(300, outliers=3, random_state=0)
ResidualsDisplay.from_estimator(LSSVR(robust="hampel").fit(X, y), ax=axes[2, 0])
draw = np.random.RandomState(0)
X = draw.uniform(-1, 1, (200, 6))
y = np.sin(5 * X[:, 0]) + X[:, 1] ** 2 + X[:, 2] + draw.normal(0, 0.1, 200)
WidthsDisplay.from_estimator(LSSVR().fit(X, y), ax=axes[2, 1])

if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=110)
else:
    pyplot.show()
