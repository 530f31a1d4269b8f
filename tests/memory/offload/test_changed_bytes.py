"""What comes back from a store is what was put there, or the backward fails: no gradient is made of other bytes."""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.errors import StoreError
from asyncgrad.graph import DiskStore, save_to_disk, save_to_store
from asyncgrad.memory.offload.checksum import crc32
from tests.memory.offload.scenes import Chain, files_in

posix = pytest.mark.skipif(os.name != "posix", reason="needs FIFOs, links and modes, which Windows has not")
not_root = pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() == 0, reason="root may read everywhere")


def flip_eight_bytes(paths: list[Path]) -> None:
    with paths[0].open("r+b") as file:
        file.seek(64)
        found = file.read(8)
        file.seek(64)
        file.write(bytes(byte ^ 0xFF for byte in found))


def flip_a_bit(paths: list[Path]) -> None:
    data = bytearray(paths[-1].read_bytes())
    data[-1] ^= 1
    paths[-1].write_bytes(data)


def negate(paths: list[Path]) -> None:
    paths[1].write_bytes((-np.frombuffer(paths[1].read_bytes())).tobytes())


def reorder(paths: list[Path]) -> None:
    paths[1].write_bytes(np.frombuffer(paths[1].read_bytes())[::-1].tobytes())


def swap(paths: list[Path]) -> None:
    first, second = paths[:2]
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(data)


def cut_off(paths: list[Path]) -> None:
    os.truncate(paths[0], 100)


def empty(paths: list[Path]) -> None:
    os.truncate(paths[0], 0)


def append(paths: list[Path]) -> None:
    with paths[0].open("ab") as file:
        file.write(b"more")


def make_huge(paths: list[Path]) -> None:
    """Make a sparse file of more bytes than any memory has."""
    os.truncate(paths[0], 2**43)


def fill_with_zeros(paths: list[Path]) -> None:
    paths[0].write_bytes(bytes(paths[0].stat().st_size))


def remove(paths: list[Path]) -> None:
    paths[0].unlink()


def replace_by_a_folder(paths: list[Path]) -> None:
    paths[0].unlink()
    paths[0].mkdir()


def replace_by_a_fifo(paths: list[Path]) -> None:
    paths[0].unlink()
    os.mkfifo(paths[0])


def replace_by_a_link(paths: list[Path]) -> None:
    """Let a link lead to the very bytes."""
    there = paths[0].parent.parent / "there"
    paths[0].rename(there)
    paths[0].symlink_to(there)


def replace_by_a_link_to_itself(paths: list[Path]) -> None:
    paths[0].unlink()
    paths[0].symlink_to(paths[0])


BYTES: list[Callable[[list[Path]], None]] = [flip_eight_bytes, flip_a_bit, negate, reorder, swap, fill_with_zeros]
LENGTHS: list[Callable[[list[Path]], None]] = [cut_off, empty, append, make_huge]
KINDS: list[Callable[[list[Path]], None]] = [
    replace_by_a_folder,
    *([replace_by_a_fifo, replace_by_a_link, replace_by_a_link_to_itself] if os.name == "posix" else []),
]


async def _awaited(loss: Any, chain: Chain) -> None:
    await loss.backward()


async def _blocking(loss: Any, chain: Chain) -> None:
    ag.sync.backward(loss)


async def _of_some_inputs(loss: Any, chain: Chain) -> None:
    await ag.grad(loss, chain.weights)


WAYS = {"awaited": _awaited, "blocking": _blocking, "of some inputs": _of_some_inputs}

HARM = [*BYTES, *LENGTHS, *KINDS, remove]


async def _saved(chain: Chain, directory: Path, **options: Any) -> Any:
    async with save_to_disk(directory, min_bytes=1, **options):
        return chain.compute()


@pytest.mark.sampled("harm")
@pytest.mark.parametrize("prefetch", [0, 4], ids=["each when its node runs", "ahead"])
@pytest.mark.parametrize("way", ["awaited", "blocking", "of some inputs"])
@pytest.mark.parametrize("harm", HARM)
async def test_a_file_that_is_not_what_was_written_fails_the_backward_and_leaves_every_grad(
    tmp_path: Path, harm: Callable[[list[Path]], None], way: str, prefetch: int
):
    chain = Chain()

    loss = await _saved(chain, tmp_path, prefetch=prefetch)
    paths = sorted(files_in(tmp_path))
    harm(paths)
    with pytest.raises(StoreError) as caught:
        await WAYS[way](loss, chain)
    named = [path for path in paths if str(path) in str(caught.value)]
    assert len(named) == 1
    message = str(caught.value)

    assert "a saved tensor of shape (8, 8) and dtype float64 could not be got from DiskStore" in message
    assert message.endswith("; the backward cannot go on without it; run the forward again")
    assert "Errno None" not in message
    assert all(weight.grad is None for weight in chain.weights)


@pytest.mark.parametrize(
    ("harm", "text"),
    [
        *((harm, "does not hold the bytes that were written into it") for harm in BYTES),
        (cut_off, "100 bytes came back, but 512 were put"),
        (append, "516 bytes came back, but 512 were put"),
        *(
            [
                (replace_by_a_folder, "was a file and is now a folder"),
                (replace_by_a_fifo, "was a file and is now a FIFO"),
                (replace_by_a_link, "was a file and is now a symbolic link"),
            ]
            if os.name == "posix"
            else []
        ),
    ],
)
async def test_the_error_says_what_has_become_of_the_file(
    tmp_path: Path, harm: Callable[[list[Path]], None], text: str
):
    loss = await _saved(Chain(), tmp_path)
    harm(sorted(files_in(tmp_path)))
    with pytest.raises(StoreError, match=text):
        await loss.backward()


async def test_a_removed_file_keeps_the_number_of_the_systems_error(tmp_path: Path):
    loss = await _saved(Chain(), tmp_path)
    remove(sorted(files_in(tmp_path)))
    with pytest.raises(StoreError) as caught:
        await loss.backward()
    assert caught.value.errno == errno.ENOENT


@posix
@not_root
async def test_a_file_that_may_not_be_read_is_named(tmp_path: Path):
    loss = await _saved(Chain(), tmp_path)
    path = sorted(files_in(tmp_path))[0]
    path.chmod(0)
    with pytest.raises(StoreError, match=path.name) as caught:
        await loss.backward()
    assert caught.value.errno == errno.EACCES


async def test_the_file_of_another_run_is_not_taken_for_this_ones(tmp_path: Path):
    first = await _saved(Chain(), tmp_path / "first")
    chain = Chain()
    chain.x = 2.0 * chain.x
    second = await _saved(chain, tmp_path / "second")
    for here, there in zip(*(sorted(files_in(tmp_path / name)) for name in ("first", "second")), strict=True):
        here.write_bytes(there.read_bytes())
    with pytest.raises(StoreError, match="does not hold the bytes"):
        await first.backward()
    await second.backward()
    assert all(weight.grad is not None for weight in chain.weights)


async def test_who_tries_again_after_the_file_is_as_it_was_gets_its_gradients(tmp_path: Path):
    chain = Chain()

    loss = await _saved(chain, tmp_path)
    path = sorted(files_in(tmp_path))[0]
    data = path.read_bytes()
    flip_eight_bytes([path])
    with pytest.raises(StoreError):
        await loss.backward(retain_graph=True)
    path.write_bytes(data)
    await loss.backward()

    assert chain.gradients() == chain.expected()


async def test_views_and_other_dtypes_are_checked_too(tmp_path: Path):
    base = np.arange(240.0).reshape(12, 20)
    arrays = [base[:, :7], base.T, base[::-1], base.astype(np.complex64), base.astype(">f8"), base.astype(np.float16)]

    async def fail(array: Any) -> None:
        x = ag.tensor(1.0, requires_grad=True)
        async with save_to_disk(tmp_path, min_bytes=1):
            loss = np.abs((x * ag.tensor(array)).sum())
        flip_a_bit(files_in(tmp_path)[:1])
        with pytest.raises(StoreError, match="does not hold the bytes"):
            await loss.backward()
        assert x.grad is None

    for array in arrays:
        await fail(array)


@posix
async def test_what_has_taken_the_place_of_a_large_file_is_not_waited_for_when_it_is_removed(tmp_path: Path):
    x = ag.tensor(np.ones(2**18), requires_grad=True)
    async with save_to_disk(tmp_path, min_bytes=1):
        loss = np.exp(x)
    (path,) = files_in(tmp_path)
    replace_by_a_fifo([path])
    del loss

    assert files_in(tmp_path) == []


async def test_a_store_on_its_own_checks_too(tmp_path: Path):
    store = DiskStore(tmp_path)
    await store.put("a", memoryview(b"abcdefgh"))
    (path,) = files_in(tmp_path)
    path.write_bytes(b"abcdefgx")
    with pytest.raises(StoreError, match="does not hold the bytes") as caught:
        await store.get("a")
    assert str(path) in str(caught.value)
    await store.delete("a")


# Stores of users.


def _forgetful(data: bytearray) -> bytes:
    return bytes(data[:-1])


def _flipping(data: bytearray) -> bytearray:
    data[5] ^= 4
    return data


def _doubling(data: bytearray) -> memoryview:
    return memoryview(data + data)


@pytest.mark.parametrize("way", ["awaited", "blocking"])
@pytest.mark.parametrize(
    ("harm", "text"),
    [
        (_flipping, "other bytes came back than were put"),
        (_forgetful, "511 bytes came back, but 512 were put"),
        (_doubling, "1024 bytes came back, but 512 were put"),
    ],
)
async def test_a_store_that_returns_other_bytes_fails_the_backward(harm: Any, text: str, way: str):
    class Careless:
        def __init__(self) -> None:
            self.data: dict[str, bytes] = {}

        async def put(self, key: str, data: memoryview) -> None:
            self.data[key] = bytes(data)

        async def get(self, key: str) -> Any:
            return harm(bytearray(self.data[key]))

        async def delete(self, key: str) -> None:
            self.data.pop(key, None)

        def __repr__(self) -> str:
            return "Careless()"

    chain, store = Chain(), Careless()

    async with save_to_store(store, min_bytes=1):
        loss = chain.compute()
    with pytest.raises(StoreError, match=text) as caught:
        await WAYS[way](loss, chain)
    message = str(caught.value)

    assert "of shape (8, 8) and dtype float64 could not be got from Careless()" in message
    assert any(f"under the key {key!r}" in message for key in store.data)
    assert all(weight.grad is None for weight in chain.weights)


async def test_bytes_that_are_swapped_between_keys_fail_the_backward():
    store = ag.testing.MemoryStore()

    async with save_to_store(store, min_bytes=1):
        loss = Chain().compute()
    first, second, *_ = store.data
    store.data[first], store.data[second] = store.data[second], store.data[first]
    with pytest.raises(StoreError, match="other bytes came back than were put"):
        await loss.backward()


async def test_a_store_may_wait_and_fail_and_nothing_is_kept_of_what_it_has_deleted():
    store = ag.testing.MemoryStore()
    manager = save_to_store(store, min_bytes=1)

    async with manager:
        loss = Chain().compute()
    await loss.backward()

    store.wait_for_ended("delete", len([call for call in store.calls if call[0] == "put"]))
    assert len(store) == 0


# The checksum.


@pytest.mark.parametrize("size", [0, 1, 7, 8, 4095, 5121, 2**20 + 3])
def test_the_checksum_is_crc_32_whichever_library_computes_it(size: int):
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8)

    assert crc32(data.data) == zlib.crc32(data)
    assert crc32(data.tobytes()) == zlib.crc32(data)


# What an error says.


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(None, "the shelf is full"), "the shelf is full"),
        (OSError(), "OSError"),
        (OSError("the shelf is full"), "the shelf is full"),
        (KeyError("a"), "KeyError: 'a'"),
        (TimeoutError(), "TimeoutError"),
    ],
)
async def test_an_error_of_a_store_is_told_in_words(error: Exception, text: str):
    store = ag.testing.MemoryStore()

    async with save_to_store(store, min_bytes=1):
        loss = Chain().compute()
    store.fail("get", error)
    with pytest.raises(StoreError) as caught:
        await loss.backward()
    message = str(caught.value)

    assert f": {text}; the backward cannot go on" in message
    assert "None" not in message


@pytest.mark.parametrize("directory", [3, 3.5, True, b"bytes", ["a"], print], ids=repr)
def test_a_directory_that_is_no_path_is_told(directory: Any):
    for name, made in (("save_to_disk", save_to_disk), ("DiskStore", DiskStore)):
        with pytest.raises(ag.errors.ArgumentTypeError, match=rf"^directory of {name} must be a path, .*, not "):
            made(directory)


def test_a_directory_that_no_system_can_have_is_told():
    with pytest.raises(ag.errors.ArgumentError, match=r"^directory of save_to_disk has a null character"):
        save_to_disk("a\0b")


def test_the_class_of_a_store_is_no_store():
    with pytest.raises(ag.errors.ArgumentTypeError, match="must have the async methods"):
        save_to_store(DiskStore)  # type: ignore[arg-type]
