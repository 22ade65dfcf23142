"""Displays of fitted models in scikit-learn's style: `from_estimator` stores arrays and draws, `plot` draws again."""

from .calibration import PitDisplay, RegionCoverageDisplay, ReliabilityDisplay
from .explain import ComponentsDisplay, EffectsDisplay, ImportanceDisplay, ShapleyDisplay
from .fit import FitDisplay, LeaveOneOutDisplay, ResidualsDisplay, SupportSpectrumDisplay
from .paths import CPathDisplay, MaximalVariationDisplay, SparsityPathDisplay, WidthsDisplay, WidthSurfaceDisplay

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
    "ShapleyDisplay",
    "SparsityPathDisplay",
    "SupportSpectrumDisplay",
    "WidthSurfaceDisplay",
    "WidthsDisplay",
]
