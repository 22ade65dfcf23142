"""Tables as people have them: what a cell means, and how columns become numbers.

Frames, files and the command line read cells by the same rules (`cells`, which also scans and reads columns of files),
and models encode columns in the same way (`encoding`).
"""

from .cells import as_table as as_table
from .cells import column_names as column_names
from .cells import is_missing as is_missing
from .cells import kind_of as kind_of
from .cells import not_numeric as not_numeric
from .cells import series_of as series_of
from .encoding import Column as Column
from .encoding import Columns as Columns
from .formats import CYCLES as CYCLES
from .formats import Format as Format
