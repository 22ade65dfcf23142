"""Tables from files, for the command line: CSV, TSV, Parquet, a folder of Parquet, standard input.

`open_table` finds out how a file is written; `scan` reads it once and summarises every column; `plan` decides what each
column is (a number, categories, ignored) and what the task is; `Plan.encode` turns a batch of rows into columns of
numbers. Rows come in batches, so that nothing here needs the whole file in memory.
"""

from .planning import Column, Plan, plan
from .reading import MISSING as MISSING
from .reading import Source, TableError, UnknownColumn, open_table
from .summary import scan
from .summary import spellings as spellings

__all__ = ["Column", "Plan", "Source", "TableError", "UnknownColumn", "open_table", "plan", "scan"]
