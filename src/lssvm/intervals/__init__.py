"""Prediction intervals, distributions and sets from leave-one-out values, without refitting; bands of the function."""

from .bands import component_deviations as component_deviations
from .bands import confidence_bands as confidence_bands
from .conformal import full_conformal as full_conformal
from .folds import FOLDS as FOLDS
from .folds import ROWS_PER_WIDTH as ROWS_PER_WIDTH
from .folds import fold_labels as fold_labels
from .folds import searched_again as searched_again
from .folds import widths_with_few_rows as widths_with_few_rows
from .jackknife import Jackknife as Jackknife
from .jackknife import order_statistic as order_statistic
from .loo import FittedLoo as FittedLoo
from .loo import LooModel as LooModel
from .loo import SampledLoo as SampledLoo
from .loo import StackedLoo as StackedLoo
from .probability import calibrate as calibrate
from .probability import calibration_weights as calibration_weights
from .probability import probabilities as probabilities
from .scale import NoiseScale as NoiseScale
from .scale import ScaleChoice as ScaleChoice
from .scale import noise_scale as noise_scale
from .sets import loo_sets as loo_sets
from .sets import set_scores as set_scores
from .sets import set_thresholds as set_thresholds
