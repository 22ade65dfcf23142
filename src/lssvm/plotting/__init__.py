"""Displays of fitted machines, in scikit-learn's style: arrays stored, `from_estimator` draws, `plot` draws again."""

from .additive import ComponentsDisplay, MaximalVariationDisplay
from .fit import FitDisplay
from .left_out import LeaveOneOutDisplay, ReliabilityDisplay, ResidualsDisplay
from .sparsity import SparsityPathDisplay, SupportSpectrumDisplay
from .tuning import CPathDisplay, WidthsDisplay, WidthSurfaceDisplay

__all__ = [
    "CPathDisplay",
    "ComponentsDisplay",
    "FitDisplay",
    "LeaveOneOutDisplay",
    "MaximalVariationDisplay",
    "ReliabilityDisplay",
    "ResidualsDisplay",
    "SparsityPathDisplay",
    "SupportSpectrumDisplay",
    "WidthSurfaceDisplay",
    "WidthsDisplay",
]
