"""The regularised least-squares problem that all methods solve, its factorisation and its solution."""

# ruff: noqa: F403 (every name without an underscore is public)
from .problem import *
from .record import *
from .solving import *
from .whitening import *
