"""Kernel functions `kernel(X, Z)` and the derivatives that tuning needs.

A kernel is a scikit-learn estimator with a plain constructor, so `clone`, `repr` and `kernel__sigma` in a grid search
work. ``sigma=None`` means "chosen for you": the width is searched in units of each column's spread.

To add a kernel, write one class with `evaluate` and `diagonal`, and with `gradient` if it has a width to choose.
"""

from .base import Function, Kernel, Product, Sum, as_kernel
from .base import Term as Term
from .composite import MOST_COLUMNS as MOST_COLUMNS
from .composite import MOST_KERNELS as MOST_KERNELS
from .composite import Additive, Choice, Stack
from .composite import pick_columns as pick_columns
from .external import Precomputed
from .external import check_values as check_values
from .finite_rank import Linear, Polynomial, Spline
from .finite_rank import spline_factors as spline_factors
from .finite_rank import spline_kernel as spline_kernel
from .stationary import RBF, Matern

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
