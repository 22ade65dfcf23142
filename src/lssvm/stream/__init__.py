"""Fits from sums over chunks of rows: `partial_fit`, `fit_chunks` and Dask collections.

The basis is fixed, so the solution needs only `Moments`, which are additive. Chunks that can be read again allow more
than a single pass: further orthogonalising passes for ill-conditioned problems, and leave-one-out for every row.

A source of chunks has `first()`, the first (X, y, weight), and `reduce(function)`, the sum of function(number, X, y,
weight) over all chunks. The sum is a tree of fixed shape: the same chunks give bitwise the same result, whichever
worker adds them.
"""
