"""Model files: `save` and `load`.

`files` reads and writes files; `values` converts the values of a model to JSON and arrays and back; `schema` lists what
a file may contain, in terms of `checks`. The checks of records and parameters are derived from their types.
"""

from .files import FORMAT as FORMAT
from .files import MODELS as MODELS
from .files import START as START
from .files import load, save
from .values import CLASSES as CLASSES
from .values import NAMES as NAMES

__all__ = ["load", "save"]
