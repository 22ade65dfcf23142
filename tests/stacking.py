"""Fitted models with given members, weights and records, for tests of what is derived from them."""

import dataclasses

from sklearn.base import clone

from lssvm import kernels
from lssvm.estimators.base import publish
from lssvm.estimators.fitted import FittedModel


def stack_of(members, weights):
    """The stack of fitted members with the given weights, as `fit` stores it."""
    stack = clone(members[0]).set_params(kernel=kernels.Stack([member.kernel for member in members]), C=None)
    parts = [dataclasses.replace(m.fitted_.members[0], asked=(m.kernel, m.C)) for m in members]
    return publish(stack, FittedModel.combine(parts, is_stack=True, shares=weights))


def with_member(model, **fields):
    """Change fields of the record of a single model."""
    member = dataclasses.replace(model.fitted_.members[0], **fields)
    model.fitted_ = dataclasses.replace(model.fitted_, members=(member,))
