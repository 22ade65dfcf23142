"""Steps that choose the parameters that are None by leave-one-out, k-fold cross-validation or a validation set."""

from .choose_C import ROBUST_ITERATIONS as ROBUST_ITERATIONS
from .choose_C import best_C as best_C
from .choose_C import kernel_variance as kernel_variance
from .choose_C import most_for_C as most_for_C
from .choose_C import with_best_C as with_best_C
from .classes import choose_classifier as choose_classifier
from .classes import with_C_of_more_rows as with_C_of_more_rows
from .constants import CONSTANTS as CONSTANTS
from .edges import warn_at_edge as warn_at_edge
from .edges import warn_at_edges as warn_at_edges
from .held_out import Holdout, KFold
from .leave_block_out import LeaveBlockOut
from .leave_one_out import LeaveOneOut
from .leave_one_out import describe as describe
from .leave_one_out import tuned as tuned
from .leave_one_out import tuned_each as tuned_each
from .members import residuals_of_folds as residuals_of_folds
from .members import tune_members as tune_members
from .members import weighs_by_folds as weighs_by_folds
from .samples import chosen_widths as chosen_widths
from .samples import with_every_class as with_every_class
from .scores import class_errors as class_errors
from .scores import loo_errors as loo_errors
from .scores import mean_loss as mean_loss
from .scores import unexplained as unexplained
from .scores import warn_of_no_signal as warn_of_no_signal
from .stack_weights import average_weights as average_weights
from .stack_weights import mixture_weights as mixture_weights

__all__ = ["Holdout", "KFold", "LeaveBlockOut", "LeaveOneOut"]
