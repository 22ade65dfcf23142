"""Kernel functions `kernel(X, Z)` and the derivatives that tuning needs.

A kernel is a scikit-learn estimator with a plain constructor, so `clone`, `repr` and `kernel__sigma` in a grid search
work. ``sigma=None`` means "chosen for you": the width is searched in units of each column's spread.

To add a kernel, write one class with `evaluate` and `diagonal`, and with `gradient` if it has a width to choose.
"""

# ruff: noqa: F403, F405 (every name without an underscore is public to the package)
from .base import *
from .composite import *
from .finite_rank import *
from .stationary import *

__all__ = [
    "RBF",
    "Additive",
    "Choice",
    "Function",
    "Kernel",
    "Linear",
    "Matern",
    "Polynomial",
    "Precomputed",
    "Product",
    "Spline",
    "Stack",
    "Sum",
    "as_kernel",
]
