"""The command line: ``lssvm fit | predict | report | export | inspect | demo``.

Results go to standard output; messages, warnings and errors to standard error, and so does progress, on a terminal
only. Exit codes: 0 for success, 1 if the work failed, 2 if the command was called incorrectly, 130 if interrupted.

NumPy, matplotlib and the library itself are imported inside the commands, so that ``--help`` stays fast.
"""

from . import fitting, models  # noqa: F401  (each module adds its commands to `main`)
from .program import main

__all__ = ["main"]
