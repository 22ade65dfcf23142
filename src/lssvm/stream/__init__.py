"""Fits from sums over chunks of rows: `partial_fit`, `fit_chunks` and Dask collections.

The basis is fixed, so the solution needs only `Moments`, which are additive. Chunks that can be read again allow more
than a single pass: further orthogonalising passes for ill-conditioned problems, and leave-one-out for every row.

A source of chunks has `first()`, the first (X, y, weight), and `reduce(function)`, the sum of function(number, X, y,
weight) over all chunks. The sum is a tree of fixed shape: the same chunks give bitwise the same result, whichever
worker adds them.
"""

from .sources import SAMPLE_ROWS as SAMPLE_ROWS
from .sources import Chunks as Chunks
from .sources import SameRows as SameRows
from .sources import Sample as Sample
from .sources import Scan as Scan
from .sources import Source as Source
from .sources import add_all as add_all
from .sources import as_source as as_source
from .sources import fingerprint as fingerprint
from .sources import groups as groups
from .sources import sample_rows as sample_rows
from .sums import ChunkedFit as ChunkedFit
from .sums import LooSample as LooSample
from .sums import Passes as Passes
from .sums import Stream as Stream
from .sums import fit_chunks as fit_chunks
from .sums import resumed as resumed
from .sums import start_stream as start_stream
