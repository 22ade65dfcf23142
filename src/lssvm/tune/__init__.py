"""Steps that choose the parameters that are None by leave-one-out, k-fold cross-validation or a validation set."""

from .blocks import LeaveBlockOut
from .classes import choose_classifier as choose_classifier
from .classes import with_C_of_more_rows as with_C_of_more_rows
from .penalty import best_C as best_C
from .penalty import kernel_variance as kernel_variance
from .penalty import most_for_C as most_for_C
from .penalty import warn_at_edge as warn_at_edge
from .penalty import warn_at_edges as warn_at_edges
from .penalty import with_best_C as with_best_C
from .plan import PLAN as PLAN
from .samples import chosen_widths as chosen_widths
from .samples import with_every_class as with_every_class
from .scores import class_errors as class_errors
from .scores import loo_errors as loo_errors
from .scores import mean_loss as mean_loss
from .scores import unexplained as unexplained
from .scores import warn_of_no_signal as warn_of_no_signal
from .stack import average_weights as average_weights
from .stack import mixture_weights as mixture_weights
from .steps import LeaveOneOut
from .steps import describe as describe
from .steps import residuals_of_folds as residuals_of_folds
from .steps import tune_members as tune_members
from .steps import tuned as tuned
from .steps import tuned_each as tuned_each
from .steps import weighs_by_folds as weighs_by_folds
from .validation import Holdout, KFold

__all__ = ["Holdout", "KFold", "LeaveBlockOut", "LeaveOneOut"]
