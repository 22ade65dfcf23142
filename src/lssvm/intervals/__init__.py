"""Prediction intervals, distributions and sets from leave-one-out values, without refitting; bands of the function."""

from .bands import component_deviations as component_deviations
from .bands import confidence_bands as confidence_bands
from .classes import calibrate as calibrate
from .classes import calibration_weights as calibration_weights
from .classes import loo_sets as loo_sets
from .classes import probabilities as probabilities
from .classes import set_scores as set_scores
from .classes import set_thresholds as set_thresholds
from .jackknife import FOLDS as FOLDS
from .jackknife import ROWS_PER_WIDTH as ROWS_PER_WIDTH
from .jackknife import Jackknife as Jackknife
from .jackknife import fold_labels as fold_labels
from .jackknife import full_conformal as full_conformal
from .jackknife import order_statistic as order_statistic
from .jackknife import searched_again as searched_again
from .jackknife import widths_with_few_rows as widths_with_few_rows
from .loo import FittedLoo as FittedLoo
from .loo import LooModel as LooModel
from .loo import SampledLoo as SampledLoo
from .loo import StackedLoo as StackedLoo
from .scale import NoiseScale as NoiseScale
from .scale import ScaleChoice as ScaleChoice
from .scale import noise_scale as noise_scale
