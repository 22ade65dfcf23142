"""Tables from files for the command line: CSV, TSV, Parquet, a folder of Parquet files, standard input.

`open_table` infers the format of a file; `scan` reads it once and summarises each column; `plan` decides on the role of
each column (number, categories, dropped) and on the task; `Plan.encode` turns a batch of rows into numeric columns.
Rows are read in batches, so that the whole file never has to fit into memory.
"""

from ..cli.reading import MISSING as MISSING
from ..cli.reading import Source, TableError, UnknownColumn, open_table
from ..cli.roles import Column, Plan, plan
from ..cli.summary import scan
from ..cli.summary import spellings as spellings

__all__ = ["Column", "Plan", "Source", "TableError", "UnknownColumn", "open_table", "plan", "scan"]
