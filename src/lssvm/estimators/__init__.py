"""LSSVR and LSSVC: validate, build the Problem, run the steps, store the result."""

from .classifier import LSSVC
from .regressor import LSSVR

__all__ = ["LSSVC", "LSSVR"]
