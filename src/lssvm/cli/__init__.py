"""The command line: ``lssvm fit | predict | report | export | inspect | demo``.

Results go to standard output; remarks, warnings and errors to standard error; progress there, too, on a terminal only.
Exit codes: 0 done, 1 the work failed, 2 the command was called wrongly.

NumPy, matplotlib and the library itself are imported inside the commands: ``--help`` stays fast.
"""

from . import demo, fitting, models, predicting  # noqa: F401  (each module adds its commands to `main`)
from .program import main

__all__ = ["main"]
