"""Steps that choose the parameters that are None by leave-one-out, k-fold cross-validation or a validation set."""

from .choose_C import ROBUST_ITERATIONS as ROBUST_ITERATIONS
from .choose_C import best_C as best_C
from .choose_C import class_errors as class_errors
from .choose_C import mean_loss as mean_loss
from .choose_C import most_for_C as most_for_C
from .choose_C import unexplained as unexplained
from .choose_C import warn_at_edge as warn_at_edge
from .choose_C import warn_at_edges as warn_at_edges
from .choose_C import warn_of_no_signal as warn_of_no_signal
from .choose_C import with_best_C as with_best_C
from .classes import choose_classifier as choose_classifier
from .classes import with_C_of_more_rows as with_C_of_more_rows
from .constants import CONSTANTS as CONSTANTS
from .held_out import Holdout, KFold, LeaveBlockOut
from .leave_one_out import LeaveOneOut
from .leave_one_out import average_weights as average_weights
from .leave_one_out import describe as describe
from .leave_one_out import mixture_weights as mixture_weights
from .leave_one_out import residuals_of_folds as residuals_of_folds
from .leave_one_out import tune_members as tune_members
from .leave_one_out import tuned as tuned
from .leave_one_out import tuned_each as tuned_each
from .leave_one_out import weighs_by_folds as weighs_by_folds
from .samples import chosen_widths as chosen_widths
from .samples import sample_of as sample_of

__all__ = ["Holdout", "KFold", "LeaveBlockOut", "LeaveOneOut"]
