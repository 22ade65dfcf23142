"""Output files: `written` writes every file of the library."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

REFUSED = {stat.S_IFDIR: "a folder", stat.S_IFBLK: "a block device", stat.S_IFSOCK: "a socket"}


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether output to `path` is a stream: a character device, a FIFO, or an open file (/dev/stdout, /dev/fd/3).

    Raises OSError for a path that cannot be written to: a folder, a block device, a socket or a closed stream.
    """
    number = _descriptor(path)
    try:
        status = os.stat(path) if number is None else os.fstat(number)
    except FileNotFoundError:
        return False
    kind = REFUSED.get(stat.S_IFMT(status.st_mode))
    if kind is not None:
        error = IsADirectoryError if kind == "a folder" else OSError
        raise error(f"{os.fspath(path)!r} is {kind}: name a file{' in it' if kind == 'a folder' else ''}.")
    return number is not None or not stat.S_ISREG(status.st_mode)


def _descriptor(path: str | os.PathLike[str]) -> int | None:
    """The file descriptor behind /dev/stdout, /dev/fd/3 or another name of standard output, or None."""
    with contextlib.suppress(OSError):  # stdout may be closed, and the path may not exist yet
        if sys.stdout is not None and os.path.samestat(os.stat(path), os.fstat(1)):
            return 1
    place = os.path.abspath(path)
    for _ in range(10):  # links to links
        folder, name = os.path.split(place)
        folder = os.path.realpath(folder)
        if name.isdecimal() and folder == os.path.realpath("/dev/fd"):
            return _opened(int(name), path)
        if not os.path.islink(place):
            return None
        place = os.path.join(folder, os.readlink(place))
    return None


def _opened(number: int, path: str | os.PathLike[str]) -> int:
    with contextlib.suppress(OSError):
        if number != 1 or sys.stdout is not None:  # else the descriptor may belong to another file by now
            os.fstat(number)
            return number
    raise OSError(f"{os.fspath(path)!r} is a closed stream: redirect it to a file, or name a file.")


@contextlib.contextmanager
def written(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file that replaces `path` once it is complete and on disk; on an error, `path` is left unchanged.

    An existing file keeps its mode and, if permitted, its owner; a symbolic link keeps pointing to its target. A file
    with several names (hard links), or in a folder where no files can be created, is overwritten at the end; a
    read-only file raises PermissionError. A stream (`is_stream`) is written to directly.
    """
    if is_stream(path):
        number = _descriptor(path)
        if number == 1:  # at its present offset, after anything already printed
            sys.stdout.flush()
        with open(path if number is None else os.dup(number), "wb") as stream:
            yield stream
        return
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"The folder {str(target.parent)!r} for {target.name!r} does not exist: create it first."
        )
    existing = target.stat() if target.exists() else None
    if existing is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")  # `target.name` may already have the maximum length
    descriptor = None if existing is not None and existing.st_nlink > 1 else _new(temporary, target, existing)
    if descriptor is None:
        with tempfile.TemporaryFile() as file:
            yield file
            file.seek(0)
            with open(target, "wb") as final:
                shutil.copyfileobj(file, final)
                final.flush()
                os.fsync(final.fileno())
        return
    try:
        with open(descriptor, "wb") as new:
            if existing is not None:
                for owner in ((-1, existing.st_gid), (existing.st_uid, -1)):
                    with contextlib.suppress(AttributeError, OSError):  # not permitted, or not supported on this system
                        os.chown(temporary, *owner)
                os.chmod(temporary, stat.S_IMODE(existing.st_mode))
            yield new
            new.flush()
            os.fsync(new.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    if os.name == "posix":  # the directory entry has to reach the disk, too
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _new(temporary: Path, target: Path, existing: os.stat_result | None) -> int | None:
    """A new file, open for writing; None if none can be created in the folder although `target` exists."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        return os.open(temporary, flags, 0o666 if existing is None else 0o600)
    except PermissionError as error:
        if existing is None:
            raise PermissionError(error.errno, error.strerror, str(target)) from None
        return None
