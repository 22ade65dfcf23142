"""Fitted machines for other places: an ONNX graph, a C99 header, a Python file that needs no package.

All three compute in float64 what `predict`, `decision_function` and `predict_proba` compute, to about 1e-10 (or to the
rounding of large coefficients, which is that of `predict`, too). Distances are sums of squared differences everywhere:
no digits are lost near the support vectors. A model of the command line takes the columns of its table as they are:
categories, missing values and what fills them in are written into it.
"""

from .c_header import to_c
from .onnx_graph import to_onnx
from .python_file import to_python

__all__ = ["to_c", "to_onnx", "to_python"]
