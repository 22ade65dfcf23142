"""Files are written completely or not at all, and stay what they are: links, modes, owners, pipes and devices."""

import os
import socket
import stat
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from lssvm import LSSVR, kernels, load, save
from lssvm.report import to_html

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (60, 3))
Y = RNG.standard_normal((60, 2))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.lssvm"


def test_a_failed_save_leaves_the_old_file_and_nothing_else(path, monkeypatch):
    model = LSSVR(kernels.Linear(), C=1.0).fit(X, Y)
    save(model, path)
    content = path.read_bytes()

    def full(*_):
        raise OSError("No space left on device")

    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, full)
            with pytest.raises(OSError, match="No space"):
                save(clone(model).fit(X, -Y), path)
        assert path.read_bytes() == content
        assert os.listdir(path.parent) == [path.name]
    model.extra_ = object()
    with pytest.raises(TypeError, match="extra_"):
        save(model, path)
    assert path.read_bytes() == content


def test_a_link_stays_a_link(path):
    link = path.with_name("link.lssvm")
    save(LSSVR(kernels.Linear(), C=1.0).fit(X, Y), path)
    link.symlink_to(path)
    save(LSSVR(kernels.Linear(), C=2.0).fit(X, Y), link)
    assert link.is_symlink()
    assert load(path).C == 2.0


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX modes and owners")
def test_saving_again_keeps_mode_and_owner(path):
    model = LSSVR(kernels.Linear(), C=1.0).fit(X, Y)
    save(model, path)
    for mode in (0o600, 0o640, 0o444 if os.geteuid() == 0 else 0o644):
        path.chmod(mode)
        if os.geteuid() == 0:
            os.chown(path, 4321, 8765)
        before = path.stat()
        save(model, path)
        after = path.stat()
        assert after.st_ino != before.st_ino
        assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


def test_a_file_that_may_not_be_written_to_is_kept(path, monkeypatch):
    """As open() refuses it; root may write to every file, so that chmod shows nothing."""
    model = LSSVR(kernels.Linear(), C=1.0).fit(X, Y)
    save(model, path)
    content = path.read_bytes()
    monkeypatch.setattr(os, "access", lambda name, mode: Path(name) != path)
    for write in (save, to_html):
        with pytest.raises(PermissionError, match=path.name):
            write(model.set_params(C=2.0), path)
    assert path.read_bytes() == content


def test_a_file_in_a_folder_that_takes_no_new_one_is_overwritten(path, monkeypatch):
    model = LSSVR(kernels.Linear(), C=1.0).fit(X, Y)
    save(model, path)
    node = path.stat().st_ino
    monkeypatch.setattr(os, "access", lambda name, mode: Path(name) != path.parent)
    save(model.set_params(C=2.0), path)
    assert path.stat().st_ino == node
    assert load(path).C == 2.0
    model.extra_ = object()
    with pytest.raises(TypeError, match="extra_"):  # what fails keeps the file here, too
        save(model, path)
    assert load(path).C == 2.0
    with pytest.raises(PermissionError, match=r"new\.html"):
        to_html(load(path), path.with_name("new.html"))


def test_names_may_be_as_long_as_names_can_be(tmp_path):
    model = LSSVR(kernels.Linear(), C=1.0).fit(X, Y)
    long = tmp_path / ("m" * 249 + ".lssvm")
    for C in (1.0, 2.0):
        save(model.set_params(C=C), long)
        assert load(long).C == C
    to_html(model, tmp_path / ("r" * 250 + ".html"))


def test_hard_links_stay_links(path):
    other = path.with_name("other.lssvm")
    save(LSSVR(kernels.Linear(), C=1.0).fit(X, Y), path)
    os.link(path, other)
    save(LSSVR(kernels.Linear(), C=2.0).fit(X, Y), path)
    assert path.stat().st_ino == other.stat().st_ino
    assert load(other).C == 2.0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
def test_a_pipe_is_written_to_and_stays_a_pipe(path, tmp_path, read_pipe):
    model = LSSVR(kernels.Linear(), C=1.0).fit(X, Y)
    save(model, path)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    link = tmp_path / "link"
    link.symlink_to(pipe)
    for target in (pipe, link):
        assert read_pipe(pipe, lambda target=target: save(model, target)) == path.read_bytes()
    assert read_pipe(pipe, lambda: to_html(model, pipe)).decode() == to_html(model)


def device(path, kind, *number):
    """A device node of our own, which only root may make, and not everywhere."""
    try:
        os.mknod(path, kind | 0o600, os.makedev(*number))
        if kind == stat.S_IFCHR:
            path.read_bytes()
    except (AttributeError, PermissionError) as error:
        pytest.skip(f"no devices here: {error}")


def test_a_character_device_stays_one(tmp_path):
    node = tmp_path / "null"
    device(node, stat.S_IFCHR, 1, 3)
    before = node.stat()
    model = LSSVR(kernels.Linear(), C=1.0).fit(X, Y)
    save(model, node)
    to_html(model, node)
    assert node.stat().st_rdev == before.st_rdev
    assert node.stat().st_ino == before.st_ino


def test_block_devices_are_refused(tmp_path):
    node = tmp_path / "block"
    device(node, stat.S_IFBLK, 1, 240)  # no such disk
    with pytest.raises(OSError, match="is a block device: name a file"):
        save(LSSVR(kernels.Linear(), C=1.0).fit(X, Y), node)
    assert stat.S_ISBLK(node.stat().st_mode)


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="needs sockets with a path")
def test_sockets_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the path of a socket has to be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        with pytest.raises(OSError, match="'socket' is a socket: name a file"):
            save(LSSVR(kernels.Linear(), C=1.0).fit(X, Y), "socket")
        assert stat.S_ISSOCK(os.stat("socket").st_mode)
