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
