"""The base class of the steps of a fit."""

from __future__ import annotations

from sklearn.base import BaseEstimator

from .problem import Problem


class Step(BaseEstimator):
    """Base class of the steps, sparsifiers and tuners: each takes a Problem and returns a Problem."""

    needs_squares = False
    """Whether the step is defined for the squared loss, and one class against the rest, alone."""

    def __call__(self, problem: Problem) -> Problem:
        """The problem with a smaller basis, or with hyper-parameters chosen."""
        raise TypeError(f"{type(self).__name__} does not define __call__(problem).")

    @property
    def needs_all_rows(self) -> bool:
        """Whether the result needs all rows at once, so that sums over chunks of rows cannot reproduce it.

        True for steps that set the coefficients themselves, or that solve on columns of the KKT system.
        """
        return False

    @property
    def by_row(self) -> str:
        """The name of the argument that refers to training rows by number, or "".

        Such numbers have no meaning in samples and chunks of the rows.
        """
        return ""
