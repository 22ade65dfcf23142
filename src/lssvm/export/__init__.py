"""Export of fitted models: an ONNX graph, a C99 header, or a Python file without dependencies.

All three compute the results of `predict`, `decision_function` and `predict_proba` in float64, to about 1e-10 (or to
the rounding error of large coefficients, which `predict` has as well). Distances are always sums of squared
differences, so no digits are lost near the support vectors. A model fitted by the command line accepts the columns of
its table as they are: categories and the handling of missing values are written into the export.
"""

from .c_header import to_c
from .onnx_graph import to_onnx
from .python_file import to_python

__all__ = ["to_c", "to_onnx", "to_python"]
