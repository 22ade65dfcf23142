"""Displays of fitted models in scikit-learn's style: `from_estimator` stores arrays and draws, `plot` draws again."""

from .additive import ComponentsDisplay, MaximalVariationDisplay
from .distribution import PitDisplay, RegionCoverageDisplay
from .explain import EffectsDisplay, ImportanceDisplay
from .fit import FitDisplay
from .loo import LeaveOneOutDisplay, ReliabilityDisplay, ResidualsDisplay
from .sparsity import SparsityPathDisplay, SupportSpectrumDisplay
from .tuning import CPathDisplay, WidthsDisplay, WidthSurfaceDisplay

__all__ = [
    "CPathDisplay",
    "ComponentsDisplay",
    "EffectsDisplay",
    "FitDisplay",
    "ImportanceDisplay",
    "LeaveOneOutDisplay",
    "MaximalVariationDisplay",
    "PitDisplay",
    "RegionCoverageDisplay",
    "ReliabilityDisplay",
    "ResidualsDisplay",
    "SparsityPathDisplay",
    "SupportSpectrumDisplay",
    "WidthSurfaceDisplay",
    "WidthsDisplay",
]
