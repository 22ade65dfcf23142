"""Prediction intervals, distributions and sets from leave-one-out values, without refitting; bands of the function."""

from .bands import component_deviations as component_deviations
from .classes import ClassDistribution as ClassDistribution
from .jackknife import PredictiveDistribution as PredictiveDistribution
from .loo import FittedLoo as FittedLoo
from .scale import ScaleChoice as ScaleChoice
