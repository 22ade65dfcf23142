"""Output files: `written` writes every file of the library."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

REFUSED = {stat.S_IFDIR: "a folder", stat.S_IFBLK: "a block device", stat.S_IFSOCK: "a socket"}


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Return whether `path` is a stream: a character device, a FIFO, or an open file (/dev/stdout, /dev/fd/3).

    Raises OSError for a path that cannot be written to: a folder, a block device, a socket or a closed stream.
    """
    number = _descriptor(path)
    try:
        mode = os.stat(path if number is None else number).st_mode
    except FileNotFoundError:
        return False
    kind = REFUSED.get(stat.S_IFMT(mode))
    if kind is not None:
        error = IsADirectoryError if kind == "a folder" else OSError
        raise error(f"{os.fspath(path)!r} is {kind}: name a file{' in it' if kind == 'a folder' else ''}.")
    return number is not None or not stat.S_ISREG(mode)


def _descriptor(path: str | os.PathLike[str]) -> int | None:
    """Return the file descriptor behind /dev/stdout or /dev/fd/3; None for other paths."""
    found = re.fullmatch(r"/dev/(?:stdout|fd/(\d+))", os.path.abspath(path))
    if found is None:
        return None
    number = int(found[1] or 1)
    with contextlib.suppress(OSError):
        if number != 1 or sys.stdout is not None:  # otherwise, the descriptor may belong to another file by now
            os.fstat(number)
            return number
    raise OSError(f"{os.fspath(path)!r} is a closed stream: redirect it to a file, or name a file.")


def writable(path: str | os.PathLike[str]) -> Path:
    """Return the file that a path leads to, which exists or can be created; otherwise an OSError says what to do."""
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"The folder {str(target.parent)!r} for {target.name!r} does not exist: create it.")
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        remedy = "permission denied, ask the owner for access or choose another file"
        raise PermissionError(errno.EACCES, remedy, str(target))
    return target


@contextlib.contextmanager
def written(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a binary file that replaces `path` once it is complete and on disk; an error leaves `path` unchanged.

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
    target = writable(path)
    old = target.stat() if target.exists() else None
    if old is not None and (old.st_nlink > 1 or not os.access(target.parent, os.W_OK)):
        content = io.BytesIO()
        yield content
        target.write_bytes(content.getvalue())
        return
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")  # `target.name` may already have the maximum length
    mode = 0o666 if old is None else 0o600
    try:
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if old is not None:
            for owner in ((-1, old.st_gid), (old.st_uid, -1)):
                with contextlib.suppress(AttributeError, OSError):  # not permitted, or not supported on this system
                    os.chown(temporary, *owner)
            temporary.chmod(stat.S_IMODE(old.st_mode))
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
