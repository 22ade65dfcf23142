"""Stacks with given members and weights, for tests of what is derived from a fitted stack."""

import numpy as np
from sklearn.base import clone

from lssvm import kernels
from lssvm.estimators.stacked import stack_attributes


def stack_of(members, weights):
    """The stack of fitted members with the given weights, as `fit` stores it."""
    stack = clone(members[0]).set_params(kernel=kernels.Stack([member.kernel for member in members]), C=None)
    attributes = stack_attributes(members[0], members, np.array(weights))
    stack._store(members[0], attributes)
    return stack
