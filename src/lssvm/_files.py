"""Output files: every file that the library writes goes through `written`."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

REFUSED = {stat.S_IFDIR: "a folder", stat.S_IFBLK: "a block device", stat.S_IFSOCK: "a socket"}


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether output to `path` is a stream: a character device, a FIFO, or standard output under another name.

    Raises OSError for a path that cannot be written: a folder, a block device or a socket.
    """
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return False
    kind = REFUSED.get(stat.S_IFMT(status.st_mode))
    if kind is not None:
        error = IsADirectoryError if kind == "a folder" else OSError
        raise error(f"{os.fspath(path)!r} is {kind}: name a file{' in it' if kind == 'a folder' else ''}.")
    return not stat.S_ISREG(status.st_mode) or _is_standard_output(status)


def _is_standard_output(status: os.stat_result) -> bool:
    with contextlib.suppress(OSError):  # it may be closed
        return os.path.samestat(status, os.fstat(1))
    return False


@contextlib.contextmanager
def written(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A binary file that takes the place of `path` once it is complete and on the disk; on an error, `path` is kept.

    An existing file keeps its mode and, where permitted, its owner; a symbolic link keeps pointing to its target. A
    stream (`is_stream`) is written to directly.
    """
    if is_stream(path):
        if _is_standard_output(os.stat(path)):  # at its present offset, after what was printed
            sys.stdout.flush()
            with open(os.dup(1), "wb") as file:
                yield file
        else:
            with open(path, "wb") as file:
                yield file
        return
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {str(target.parent)!r} to save {target.name!r} in: make it first.")
    existing = target.stat() if target.exists() else None
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(temporary, flags, 0o666 if existing is None else 0o600)
    try:
        with open(descriptor, "wb") as file:
            if existing is not None:
                for owner in ((-1, existing.st_gid), (existing.st_uid, -1)):
                    with contextlib.suppress(AttributeError, OSError):  # not permitted, or not on this system
                        os.chown(temporary, *owner)
                os.chmod(temporary, stat.S_IMODE(existing.st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    if os.name == "posix":  # the new name, too, has to reach the disk
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
