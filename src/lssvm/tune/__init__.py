"""Steps that choose the parameters that are None by leave-one-out, k-fold cross-validation or a validation set."""

from .held_out import Holdout, KFold, LeaveBlockOut
from .leave_one_out import LeaveOneOut
from .leave_one_out import tuned as tuned  # for steps written by users

__all__ = ["Holdout", "KFold", "LeaveBlockOut", "LeaveOneOut"]
