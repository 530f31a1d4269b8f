"""Files of a learner that were damaged, mixed up or removed: each is refused with the reason, or told in the log."""

from __future__ import annotations

import json
import logging
import os
import random
import re
import resource
import shutil
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncgrad.errors import ModelDirectoryError
from asyncgrad.learn.checkpoint_file import read_checkpoint, write_checkpoint
from asyncgrad.learn.directory import ModelDirectory
from asyncgrad.learn.encoding import array_as_text, encode
from tests.learn.crashing import as_killed, learn, opened, reopened
from tests.learn.making import answers, example, new_learner
from tests.support.loops import run_on
from tests.support.sampling import cases

# --- the checkpoint ------------------------------------------------------------------------------


@pytest.fixture
def checkpoint(tmp_path) -> Path:
    """A checkpoint of a learner."""
    run_on("asyncio", opened(tmp_path / "model"))
    return tmp_path / "model" / "checkpoint.npz"


def flip_a_bit(data: bytearray, rng: random.Random) -> None:
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def change_a_byte(data: bytearray, rng: random.Random) -> None:
    data[rng.randrange(len(data))] ^= rng.randrange(1, 256)


def zero_a_sector(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data) // 512 + 1) * 512
    data[start : start + 512] = bytes(len(data[start : start + 512]))


def cut_short(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


def leave_out(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data))
    del data[start : start + rng.randrange(1, 100)]


def add(data: bytearray, rng: random.Random) -> None:
    data += rng.randbytes(rng.randrange(1, 100))


DAMAGES: list[Callable[[bytearray, random.Random], None]] = [
    flip_a_bit,
    change_a_byte,
    zero_a_sector,
    cut_short,
    leave_out,
    add,
]


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_any_damage_of_a_checkpoint_is_refused_in_one_way(checkpoint, damage):
    whole, rng = checkpoint.read_bytes(), random.Random(damage.__name__)

    for _ in range(cases(2000)):
        data = bytearray(whole)
        damage(data, rng)
        if data == whole:
            continue
        checkpoint.write_bytes(data)
        with pytest.raises(ModelDirectoryError, match=r"checkpoint\.npz cannot be read \(.+\): restore it from a copy"):
            read_checkpoint(checkpoint)


def in_first_format(path: Path) -> None:
    """Write a checkpoint again as versions did that knew no checksum."""
    with np.load(path) as arrays:
        found = dict(arrays)
    tree = json.loads(str(found.pop("tree")))
    state = dict(tree["state"]["dict"])
    kept = [[name, state[name]] for name in ("learned", "steps", "model", "optimizer", "optimizer_type")]
    text = json.dumps({"format": 1, "state": {"dict": kept}})
    with path.open("wb") as file:
        np.savez(file, tree=np.array(text), **found)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("damage", [flip_a_bit, change_a_byte, cut_short], ids=lambda damage: damage.__name__)
def test_damage_of_a_checkpoint_without_a_checksum_raises_nothing_else(checkpoint, damage):
    in_first_format(checkpoint)
    whole, rng = checkpoint.read_bytes(), random.Random(damage.__name__)
    refused = 0

    for _ in range(cases(2000)):
        data = bytearray(whole)
        damage(data, rng)
        checkpoint.write_bytes(data)
        try:
            read_checkpoint(checkpoint)
        except ModelDirectoryError:
            refused += 1

    assert refused > 0


def test_a_checkpoint_that_lacks_its_checksum_is_refused(checkpoint):
    data = checkpoint.read_bytes()
    checkpoint.write_bytes(data[: data.index(b"asyncgrad sha256")])

    with pytest.raises(ModelDirectoryError, match=r"cannot be read"):
        read_checkpoint(checkpoint)


@pytest.mark.parametrize("shape", ["(1000000000000,)", "(1000000, 1000000)", "(-1,)", "(True,)"])
def test_an_array_that_claims_more_than_the_file_has_takes_no_memory(tmp_path, shape):
    path = tmp_path / "checkpoint.npz"
    head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    array = b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + bytes(80)
    tree = {"format": 1, "state": {"array": "array0"}}
    np.savez(path, tree=np.array(json.dumps(tree)))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("array0.npy", array)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    with pytest.raises(ModelDirectoryError, match=r"cannot be read \(array0\.npy has 80 bytes, and not those of"):
        read_checkpoint(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used < 100_000


def test_a_checkpoint_is_a_zip_archive_that_numpy_reads(checkpoint):
    with zipfile.ZipFile(checkpoint) as archive:
        assert archive.testzip() is None
    with np.load(checkpoint) as arrays:
        assert json.loads(str(arrays["tree"]))["format"] == 2


@pytest.mark.parametrize(
    "state", [3, [], {}, {"learned": "many"}, {"learned": 1.5, "steps": 2, "optimizer_type": "Adam"}], ids=repr
)
async def test_a_checkpoint_of_something_else_is_refused_in_the_same_way(tmp_path, state):
    directory = ModelDirectory(tmp_path)
    directory.save_checkpoint(state)
    directory.close()

    with pytest.raises(ModelDirectoryError, match="does not fit this model or optimizer"):
        await opened(tmp_path)


# --- the journal ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 3, 8, 50, 300])
@pytest.mark.parametrize("filler", [b"\0", b"\xff", b"x"], ids=["zeros", "ones", "letters"])
async def test_the_end_of_an_acknowledged_line_that_was_overwritten_is_refused(tmp_path, count, filler):
    await learn(tmp_path, 1, 2)
    path = tmp_path / "journal"
    data = path.read_bytes()[:-count] + count * filler
    path.write_bytes(data)

    with pytest.raises(
        ModelDirectoryError, match=r"line [12] of .*journal is damaged, and somebody may have been told"
    ):
        await reopened(tmp_path)
    assert path.read_bytes() == data


@pytest.mark.parametrize("filled", [False, True], ids=["cut short", "never filled"])
async def test_a_line_that_is_cut_off_is_told_in_the_log_and_the_statistics(tmp_path, caplog, filled):
    before = await learn(tmp_path, 1)
    with (tmp_path / "journal").open("ab") as file:
        file.write(bytes(100) if filled else b'0badcafe 600 {"journal": "0')

    assert await reopened(tmp_path) == (1, before, 100 if filled else 27)
    (record,) = [one for one in caplog.records if one.name == "asyncgrad.learn"]
    assert record.levelno == logging.WARNING
    assert "incomplete and was cut off" in record.getMessage()


async def test_every_length_to_which_a_crash_cuts_the_last_line_leaves_the_lines_before(tmp_path):
    before = await learn(tmp_path, 1)
    first = (tmp_path / "journal").read_bytes()
    await learn(tmp_path, 2)
    both = (tmp_path / "journal").read_bytes()
    lengths = random.Random(0).sample(range(len(first), len(both)), cases(100))

    for length in [len(first) + 1, len(first) + 8, len(first) + 12, len(both) - 1, *lengths]:
        (tmp_path / "journal").write_bytes(both[:length])
        assert await reopened(tmp_path) == (1, before, length - len(first))


async def test_a_journal_that_was_removed_is_told_with_what_to_do(tmp_path):
    await learn(tmp_path, 1, 2)
    (tmp_path / "journal").unlink()

    with pytest.raises(ModelDirectoryError, match=r"has a checkpoint\.npz but no journal") as caught:
        await reopened(tmp_path)
    assert not (tmp_path / "journal").exists()
    command = re.search(r"by (touch .*)$", str(caught.value))
    assert command is not None
    assert os.system(command[1]) == 0  # the advice of the message
    assert (await reopened(tmp_path))[0] == 0


async def test_a_journal_of_another_model_is_refused(tmp_path):
    for name in "ab":
        await learn(tmp_path / name, 1, 2)
    shutil.copy(tmp_path / "a" / "journal", tmp_path / "b" / "journal")

    with pytest.raises(ModelDirectoryError, match=r"line 1 of .*journal belongs to another checkpoint"):
        await reopened(tmp_path / "b")


async def test_an_older_checkpoint_beside_a_journal_is_refused(tmp_path):
    async with new_learner(tmp_path) as learner:
        older = as_killed(tmp_path, tmp_path / "older")
        for seed in (1, 2):
            await learner.learn(example(seed))
            await learner.checkpoint()
        await learner.learn(example(3))
        as_killed(tmp_path, tmp_path / "newer")
        shutil.copy(older / "checkpoint.npz", tmp_path / "newer" / "checkpoint.npz")
    with pytest.raises(ModelDirectoryError, match=r"line 1 of .*journal belongs to another checkpoint"):
        await reopened(tmp_path / "newer")


@pytest.mark.parametrize(("order", "text"), [([0, 0], "line 2 of .* repeats what"), ([1, 0], "lacks what was learned")])
async def test_lines_that_are_repeated_or_in_another_order_are_refused(tmp_path, order, text):
    await learn(tmp_path, 1, 2)
    lines = (tmp_path / "journal").read_bytes().splitlines(keepends=True)
    (tmp_path / "journal").write_bytes(b"".join(lines[number] for number in order))

    with pytest.raises(ModelDirectoryError, match=text):
        await reopened(tmp_path)


@pytest.mark.parametrize(
    "text", ["3", "{}", '{"learned": 0}', '{"learned": "0", "examples": []}', 100_000 * "[", '{"x": 1, "examples": []}']
)
async def test_a_line_that_says_something_else_is_refused_in_the_same_way(tmp_path, text):
    await learn(tmp_path, 1)
    body = b"%d %s" % (len(text), text.encode())
    (tmp_path / "journal").write_bytes(b"%08x %s\n" % (zlib.crc32(body), body))

    with pytest.raises(ModelDirectoryError, match=r"line 1 of .*journal is damaged"):
        await reopened(tmp_path)


# --- what versions before have written -----------------------------------------------------------


def old_line(learned: int, seed: int) -> bytes:
    text = json.dumps({"learned": learned, "examples": [encode(example(seed), array_as_text, "example")]}).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


@pytest.fixture
def old(tmp_path) -> Path:
    """A directory of the first format whose checkpoint contains the first of three lines."""

    async def main() -> None:
        async with new_learner(tmp_path) as learner:
            await learner.learn(example(1))

    run_on("asyncio", main())
    in_first_format(tmp_path / "checkpoint.npz")
    (tmp_path / "journal").write_bytes(b"".join(old_line(number, number + 1) for number in range(3)))
    return tmp_path


async def test_a_directory_of_the_first_format_is_gone_on_from(old):
    assert await reopened(old) == (3, (await answers([1, 2, 3]))[-1], 0)
    assert await learn(old, 4) == (await answers([1, 2, 3, 4]))[-1]
    # Its journal now has lines of both.
    assert await reopened(old) == (4, (await answers([1, 2, 3, 4]))[-1], 0)


async def test_a_checkpoint_after_a_journal_of_the_first_format_contains_its_lines(old):
    lines = (old / "journal").read_bytes()
    await opened(old)
    (old / "journal").write_bytes(lines)

    assert await reopened(old) == (3, (await answers([1, 2, 3]))[-1], 0)


@pytest.mark.parametrize(("count", "is_torn"), [(-1, True), (-50, True)])
async def test_a_torn_line_of_the_first_format_is_cut_off(old, count, is_torn):
    path = old / "journal"
    path.write_bytes(path.read_bytes()[:count])

    assert (await reopened(old))[:2] == (2, (await answers([1, 2]))[-1])


async def test_a_zeroed_end_of_a_line_of_the_first_format_is_refused(old):
    path = old / "journal"
    path.write_bytes(path.read_bytes()[:-2] + bytes(2))

    with pytest.raises(ModelDirectoryError, match=r"line 3 of .*journal is damaged"):
        await reopened(old)


def test_a_format_of_a_later_version_is_told(tmp_path):
    write_checkpoint(tmp_path / "checkpoint.npz", {"format": 3})

    with pytest.raises(ModelDirectoryError, match="its format is 3, and this version of asyncgrad writes 2"):
        read_checkpoint(tmp_path / "checkpoint.npz")


def test_what_a_checkpoint_is_given_comes_back(tmp_path):
    content: dict[str, Any] = {"state": {"a": np.arange(3.0), "b": (1, [2.5, None], "c")}, "journal": "x"}
    write_checkpoint(tmp_path / "checkpoint.npz", content)

    found = read_checkpoint(tmp_path / "checkpoint.npz")

    assert found["state"].pop("a").tolist() == [0, 1, 2]
    assert found == {"state": {"b": (1, [2.5, None], "c")}, "journal": "x"}
