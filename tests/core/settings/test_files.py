"""Files that take the place of others: whole, with their permissions, and on the disk."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from asyncgrad.core.settings.files import make_folders, missing_folders, replacing, sync_folder

needs_permissions = pytest.mark.skipif(os.name == "nt", reason="permissions and links are those of Linux and macOS")


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def write(path: Path, content: bytes, **options: Any) -> None:
    with replacing(path, **options) as file:
        file.write(content)


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """What was synchronized with the disk, in order."""
    found: list[Path] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        found.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return found


@needs_permissions
@pytest.mark.parametrize("mode", [0o644, 0o600, 0o640, 0o666, 0o755])
def test_a_file_keeps_its_permissions_when_it_is_replaced(tmp_path, mode):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(mode)

    write(path, b"new")

    assert (path.read_bytes(), mode_of(path)) == (b"new", mode)
    assert list(tmp_path.iterdir()) == [path]


@needs_permissions
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002, 0])
@pytest.mark.parametrize("mode", [None, 0o666, 0o640, 0o600])
def test_a_new_file_has_the_permissions_of_new_files(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        write(tmp_path / "file", b"new", **({} if mode is None else {"mode": mode}))
    finally:
        os.umask(before)

    assert mode_of(tmp_path / "file") == (mode or 0o666) & ~mask


@needs_permissions
def test_a_private_file_is_private_from_the_beginning(tmp_path):
    before = os.umask(0)
    try:
        with replacing(tmp_path / "file", mode=0o600) as file:
            found = mode_of(Path(file.name))
    finally:
        os.umask(before)

    assert found == 0o600


@needs_permissions
@pytest.mark.parametrize(("mask", "mode"), [(0, 0o700), (0o022, 0o700), (0, 0o777), (0o022, 0o755)])
def test_new_folders_have_the_mode_that_is_asked_for_and_others_keep_theirs(tmp_path, mask, mode):
    tmp_path.chmod(0o755)
    before = os.umask(mask)
    try:
        make_folders(missing_folders(tmp_path / "a" / "b"), mode=0o777 if mode == 0o755 else mode)
    finally:
        os.umask(before)

    assert [mode_of(path) for path in (tmp_path / "a", tmp_path / "a" / "b", tmp_path)] == [mode, mode, 0o755]


@needs_permissions
def test_what_takes_the_place_of_a_private_file_is_private_from_the_beginning(tmp_path):
    path = tmp_path / "file"
    path.touch()
    path.chmod(0o600)

    with replacing(path) as file:
        assert mode_of(Path(file.name)) == 0o600


@needs_permissions
def test_a_link_in_the_place_of_a_new_file_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    (tmp_path / "file.new").symlink_to(victim)

    write(tmp_path / "file", b"new", beside=tmp_path / "file.new")

    assert victim.read_bytes() == b"mine"
    assert (tmp_path / "file").read_bytes() == b"new"


@needs_permissions
def test_a_link_that_comes_between_is_not_followed(tmp_path, monkeypatch):
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    unlink = Path.unlink
    link = tmp_path / "file.new"
    monkeypatch.setattr(Path, "unlink", lambda path, **options: (unlink(path, **options), path.symlink_to(victim)))

    with pytest.raises(FileExistsError):
        write(tmp_path / "file", b"new", beside=link)

    assert victim.read_bytes() == b"mine"


@needs_permissions
def test_a_link_is_replaced_and_what_it_leads_to_stays(tmp_path):
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to("target")

    write(tmp_path / "link", b"new")

    assert (tmp_path / "target").read_bytes() == b"old"
    assert (tmp_path / "link").read_bytes() == b"new"


def test_a_block_that_raises_leaves_the_old_file_alone(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def half() -> None:
        with replacing(path) as file:
            file.write(b"half of it")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half()

    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="the files of descriptors are those of Linux")  # noqa: PTH112
def test_a_file_is_on_the_disk_before_its_name_and_its_name_at_the_end(tmp_path, synced, monkeypatch):
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda one, other: (replace(one, other), synced.append(Path("renamed"))))

    write(tmp_path / "file", b"new", beside=tmp_path / "file.new")

    assert synced == [tmp_path / "file.new", Path("renamed"), tmp_path]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="the files of descriptors are those of Linux")  # noqa: PTH112
def test_the_names_of_new_folders_are_on_the_disk(tmp_path, synced):
    missing = missing_folders(tmp_path / "a" / "b" / "c")

    make_folders(missing)

    assert missing == [tmp_path / "a" / "b" / "c", tmp_path / "a" / "b", tmp_path / "a"]
    assert synced == [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]
    assert missing_folders(tmp_path / "a" / "b" / "c") == []


@pytest.mark.parametrize(("number", "is_told"), [(errno.EIO, True), (errno.EINVAL, False), (errno.ENOTSUP, False)])
def test_a_folder_that_cannot_be_synchronized_is_told_unless_its_file_system_knows_no_such_call(
    tmp_path, monkeypatch, number, is_told
):
    def fails(descriptor):
        raise OSError(number, "refused")

    monkeypatch.setattr(os, "fsync", fails)

    if is_told:
        with pytest.raises(OSError, match="refused"):
            sync_folder(tmp_path)
    else:
        sync_folder(tmp_path)
