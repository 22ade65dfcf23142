"""Model files: `save` and `load`.

`files` reads and writes files; `values` converts the values of a model to JSON and arrays and back; `schema` checks
what a file contains. The checks of records and parameters are derived from their types.
"""

from .files import load, save

__all__ = ["load", "save"]
