"""Threads: the suite runs in several processes, so that each keeps to one BLAS thread. Fixtures of several files."""

import os
import stat
import threading

import pytest

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@pytest.fixture
def read_pipe():
    """A function (pipe, write) that returns what comes out of a FIFO while `write` runs."""

    def read(pipe, write):
        content = []
        reader = threading.Thread(target=lambda: content.append(pipe.read_bytes()), daemon=True)
        reader.start()
        write()
        assert stat.S_ISFIFO(pipe.stat().st_mode)
        reader.join(timeout=10)
        return content[0]

    return read


@pytest.fixture
def in_pieces(monkeypatch):
    """Three threads share everything, in blocks of order 16."""
    from lssvm.arrays import parallel, threads

    for name, value in {"SMALL_PIECE": 1, "LEAF": 8, "TRIANGLE": 8, "BLOCK": 16}.items():
        monkeypatch.setattr(parallel, name, value)
    for module in (parallel, threads):
        monkeypatch.setattr(module, "workers", lambda: 3)
