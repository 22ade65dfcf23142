"""Export of fitted models: an ONNX graph, a C99 header, or a Python file without dependencies.

All three compute the results of `predict`, `decision_function` and `predict_proba` in float64, to about 1e-10 (or to
the rounding error of large coefficients, which `predict` has as well). Distances are always sums of squared
differences, so no digits are lost near the support vectors. Rows are given as to `predict`: the encoding of categories
and missing cells is part of the export.
"""

from .onnx_graph import to_onnx
from .source_code import to_c, to_python

__all__ = ["to_c", "to_onnx", "to_python"]
