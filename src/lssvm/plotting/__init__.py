"""Displays of fitted models in scikit-learn's style: `from_estimator` stores arrays and draws, `plot` draws again."""

from .additive import ComponentsDisplay, MaximalVariationDisplay
from .calibration import PitDisplay, RegionCoverageDisplay, ReliabilityDisplay
from .explain import EffectsDisplay, ImportanceDisplay, WidthsDisplay
from .fit import FitDisplay
from .loo import LeaveOneOutDisplay, ResidualsDisplay
from .paths import CPathDisplay, SparsityPathDisplay, SupportSpectrumDisplay, WidthSurfaceDisplay

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
