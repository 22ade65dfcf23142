"""Model files: `save` and `load`.

`model_files` reads and writes files; `values` converts the values of a model to JSON and arrays and back; `schema`
checks what a file contains, by rules that follow from types; `format1` translates files of older versions.
"""

from .model_files import load, save

__all__ = ["load", "save"]
