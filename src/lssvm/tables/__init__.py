"""Tables as people have them: what a cell means, and how columns become numbers.

Frames, files and the command line read cells by the same rules (`cells`, `frames`), and models encode columns in the
same way (`encoding`).
"""

from .cells import ABSENT as ABSENT
from .cells import MOST_LABELS as MOST_LABELS
from .cells import ColumnScan as ColumnScan
from .cells import is_missing as is_missing
from .cells import is_number as is_number
from .cells import number_of as number_of
from .cells import numbers_of as numbers_of
from .cells import readable as readable
from .cells import texts_of as texts_of
from .encoding import LARGEST as LARGEST
from .encoding import MOST_VALUES as MOST_VALUES
from .encoding import Column as Column
from .encoding import Columns as Columns
from .frames import as_table as as_table
from .frames import column_names as column_names
from .frames import not_numeric as not_numeric
from .frames import refuse_equal_names as refuse_equal_names
from .frames import refuse_lazy as refuse_lazy
from .frames import series_of as series_of
