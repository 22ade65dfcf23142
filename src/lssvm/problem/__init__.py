"""The regularised least-squares problem that all methods solve, its factorisation and its solution."""

from .classes import ClassFit as ClassFit
from .classes import solve_classes as solve_classes
from .classes import whitened_columns as whitened_columns
from .problem import Factor as Factor
from .problem import Problem as Problem
from .problem import Step as Step
from .problem import check_memory as check_memory
from .problem import held_out_rows as held_out_rows
from .record import Fit as Fit
from .record import ProblemRecord as ProblemRecord
from .record import class_numbers as class_numbers
from .record import column_spread as column_spread
from .record import columns_by_input as columns_by_input
from .record import constant_columns as constant_columns
from .record import order_by_content as order_by_content
from .record import ranks_of as ranks_of
from .record import varying_inputs as varying_inputs
from .record import warn_of_leverage as warn_of_leverage
from .whitening import Whitening as Whitening
from .whitening import independent_rows as independent_rows
from .whitening import rounding_error as rounding_error
from .whitening import whiten as whiten
