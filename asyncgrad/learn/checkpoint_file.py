"""The file of a checkpoint: an npz of a tree's arrays, with a checksum of all its bytes at the end."""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..core.settings.files import replacing
from ..errors import ModelDirectoryError
from .encoding import decode, encode

__all__ = ["OWN", "read_checkpoint", "read_part", "write_checkpoint"]

#: The permissions of a file that is made for its owner alone.
OWN = 0o600

#: The version of the format. The first had no checksum.
FORMAT = 2

#: The comment at the end of the zip archive begins so, and the digits of a SHA-256 follow.
_MARK = b"asyncgrad sha256 "
_SEAL_SIZE = len(_MARK) + 2 * hashlib.sha256().digest_size


def write_checkpoint(path: Path, content: dict[str, Any]) -> None:
    """Write a file in the place of another one.

    Args:
        path: its name.
        content: a tree, as `encode` takes it.

    Raises:
        OSError: it could not be written, or is perhaps not on the disk.
    """
    arrays: dict[str, Any] = {}

    def put(array: Any) -> str:
        name = f"array{len(arrays)}"
        arrays[name] = array
        return name

    tree = json.dumps({"format": FORMAT, **{name: encode(part, put, name) for name, part in content.items()}})
    with replacing(path, path.with_name(f"{path.name}.new"), mode=OWN) as file:
        np.savez(file, tree=np.array(tree), **arrays)
        # The last two bytes of a zip archive are the size of the comment that follows.
        file.seek(-2, os.SEEK_END)
        file.write(struct.pack("<H", _SEAL_SIZE))
        digest = _digest(file, file.tell())
        file.seek(0, os.SEEK_END)
        file.write(_MARK + digest)


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Return what a file was given.

    Raises:
        FileNotFoundError: there is none.
        ModelDirectoryError: it is damaged, or cannot be read.
    """
    try:
        with path.open("rb") as file:
            is_sealed = _check_seal(file)
            file.seek(0)
            with np.load(file, allow_pickle=False) as arrays:
                _check_sizes(arrays.zip)
                tree = json.loads(str(arrays["tree"]))
                if (found := tree.pop("format")) not in (1, FORMAT):
                    raise ValueError(f"its format is {found}, and this version of asyncgrad writes {FORMAT}")
                if found == FORMAT and not is_sealed:
                    raise ValueError("it lacks its checksum")
                return {name: decode(part, lambda name: arrays[name]) for name, part in tree.items()}
    except FileNotFoundError:
        raise
    except Exception as error:  # zipfile and NumPy raise a dozen kinds for damaged bytes
        what = str(error) or type(error).__name__
        raise ModelDirectoryError(f"{path} cannot be read ({what}): restore it from a copy") from error


def read_part(path: Path, name: str) -> Any:
    """Return a part without arrays of what a file was given, without reading all of the file.

    Raises:
        ModelDirectoryError: it is damaged, or cannot be read.
    """

    def refuse(array: str) -> Any:
        raise ValueError(f"{name} has {array}")

    try:
        with np.load(path, allow_pickle=False) as arrays:
            return decode(json.loads(str(arrays["tree"]))[name], refuse)
    except Exception as error:  # as above
        what = str(error) or type(error).__name__
        raise ModelDirectoryError(f"{path} cannot be read ({what}): restore it from a copy") from error


def _digest(file: BinaryIO, size: int) -> bytes:
    """Return the checksum of the first bytes of a file."""
    found = hashlib.sha256()
    file.seek(0)
    while size > 0:
        part = file.read(min(size, 1 << 20))
        if not part:
            raise ValueError("it ends early")
        found.update(part)
        size -= len(part)
    return found.hexdigest().encode()


def _check_seal(file: BinaryIO) -> bool:
    """Return whether a file has a checksum; raise a ValueError if it is wrong."""
    size = file.seek(0, os.SEEK_END) - _SEAL_SIZE
    if size < 0:
        return False
    file.seek(size)
    seal = file.read(_SEAL_SIZE)
    if not seal.startswith(_MARK):
        return False
    if _digest(file, size) != seal.removeprefix(_MARK):
        raise ValueError("its checksum is wrong")
    return True


def _check_sizes(archive: Any) -> None:
    """Raise a ValueError unless each array has the bytes that its head says: NumPy takes memory for it by the head."""
    for info in archive.infolist():
        with archive.open(info) as member:
            version = np.lib.format.read_magic(member)
            read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
            shape, _, dtype = read(member)
            size = info.file_size - member.tell()
        if info.file_size != info.compress_size or math.prod(shape) * dtype.itemsize != size:
            raise ValueError(f"{info.filename} has {size} bytes, and not those of {dtype} of shape {shape}")
        if math.prod(shape) > max(size, 1):
            raise ValueError(f"{info.filename} has numbers of no bytes")
