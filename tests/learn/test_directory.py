"""The directory that survives a crash, and the learner that is made from it."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import threading
import warnings

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, optim
from asyncgrad.errors import JournalError, ModelDirectoryError
from asyncgrad.learn.directory import ModelDirectory
from asyncgrad.optim.adam import Adam
from tests.learn.crashing import crash, learn, opened, reopened
from tests.learn.making import Gate, answers, example, failing_disk, new_learner, turns_until
from tests.support.loops import on_each_loop
from tests.support.threads import PATIENCE


def failing(*_):
    raise OSError(errno.EIO, os.strerror(errno.EIO))


async def test_what_was_learned_is_there_after_a_crash_to_the_last_bit(tmp_path):
    before = await learn(tmp_path, 1, 2, 3)

    assert await reopened(tmp_path) == (3, before, 0)
    assert before == (await answers([1, 2, 3]))[-1]


async def test_learning_goes_on_after_a_restart_as_if_there_had_been_none(tmp_path):
    await learn(tmp_path, 1, 2)
    await learn(tmp_path, 3)

    assert await learn(tmp_path, 4) == (await answers([1, 2, 3, 4]))[-1]


async def test_the_journal_does_not_grow_for_ever(tmp_path):
    before = await learn(tmp_path, *range(7), checkpoint_every=3)

    assert (tmp_path / "journal").read_bytes().count(b"\n") < 3
    assert await reopened(tmp_path) == (7, before, 0)


async def test_a_line_is_on_the_disk_before_its_sequence_is_learned(tmp_path, monkeypatch):
    events = []
    write, fsync, step = os.write, os.fsync, Adam.step_async
    monkeypatch.setattr(os, "write", lambda *arguments: events.append("write") or write(*arguments))
    monkeypatch.setattr(os, "fsync", lambda descriptor: fsync(descriptor) or events.append("on the disk"))
    monkeypatch.setattr(Adam, "step_async", lambda optimizer: events.append("step") or step(optimizer))

    learner = await new_learner(tmp_path).__aenter__()
    events.clear()
    await learner.learn(example(1))
    events.append("answer")
    await crash(learner)

    assert events == ["write", "on the disk", "step", "answer"]


@pytest.mark.parametrize("left", [1, 20, -1], ids=["a byte", "a part", "all but the line's end"])
async def test_a_torn_last_line_is_cut_off(tmp_path, left):
    await learn(tmp_path, 1)
    whole = (tmp_path / "journal").read_bytes()
    before = (await learn(tmp_path, 2))[:]
    both = (tmp_path / "journal").read_bytes()
    (tmp_path / "journal").write_bytes(whole + both[len(whole) :][:left])

    learned, outputs, torn = await reopened(tmp_path)

    assert (learned, outputs) == (1, (await answers([1]))[-1])
    assert torn == len(both[len(whole) :][:left])
    assert (tmp_path / "journal").read_bytes() == whole
    assert await learn(tmp_path, 2) == before


async def test_a_last_line_that_was_never_filled_is_cut_off(tmp_path):
    before = await learn(tmp_path, 1)
    with (tmp_path / "journal").open("ab") as file:
        file.write(bytes(4096))

    assert await reopened(tmp_path) == (1, before, 4096)


async def test_a_damaged_line_before_the_last_is_no_crash_and_is_refused(tmp_path):
    await learn(tmp_path, 1, 2)
    data = bytearray((tmp_path / "journal").read_bytes())
    data[30] ^= 1
    (tmp_path / "journal").write_bytes(data)

    with pytest.raises(ModelDirectoryError, match=r"line 1 of .*journal is damaged, and not the last"):
        await reopened(tmp_path)
    assert (tmp_path / "journal").read_bytes() == data


async def test_missing_lines_are_told(tmp_path):
    await learn(tmp_path, 1, 2, 3)
    lines = (tmp_path / "journal").read_bytes().splitlines(keepends=True)
    (tmp_path / "journal").write_bytes(lines[2])

    with pytest.raises(ModelDirectoryError, match="lacks what was learned as 1 to 2"):
        await reopened(tmp_path)


async def test_a_crash_between_checkpoint_and_journal_learns_nothing_twice(tmp_path):
    before = await learn(tmp_path, 1, 2)
    lines = (tmp_path / "journal").read_bytes()

    async with new_learner(tmp_path):
        pass
    assert (tmp_path / "journal").read_bytes() == b""
    (tmp_path / "journal").write_bytes(lines)

    assert await reopened(tmp_path) == (2, before, 0)


async def test_a_crash_between_checkpoint_and_journal_may_come_twice(tmp_path):
    before = await learn(tmp_path, 1, 2)
    for seed in (3, 4):
        lines = (tmp_path / "journal").read_bytes()
        async with new_learner(tmp_path):
            pass
        (tmp_path / "journal").write_bytes(lines)
        before = await learn(tmp_path, seed)

    assert await reopened(tmp_path) == (4, before, 0)


async def test_a_checkpoint_that_was_not_finished_changes_nothing(tmp_path):
    before = await learn(tmp_path, 1, 2)
    (tmp_path / "checkpoint.npz.new").write_bytes(b"half of")

    assert await reopened(tmp_path) == (2, before, 0)


async def test_a_damaged_checkpoint_is_refused(tmp_path):
    await learn(tmp_path, 1)
    data = (tmp_path / "checkpoint.npz").read_bytes()
    (tmp_path / "checkpoint.npz").write_bytes(data[: len(data) // 2])

    with pytest.raises(ModelDirectoryError, match=r"checkpoint\.npz cannot be read"):
        await reopened(tmp_path)


async def test_a_journal_without_its_checkpoint_is_refused(tmp_path):
    await learn(tmp_path, 1)
    (tmp_path / "checkpoint.npz").unlink()

    with pytest.raises(ModelDirectoryError, match=r"has a journal but no checkpoint\.npz"):
        await reopened(tmp_path)


async def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    directory = ModelDirectory(tmp_path)
    directory.save_checkpoint({"something": np.zeros(3)})
    directory.close()

    with pytest.raises(ModelDirectoryError, match=f"the checkpoint in {tmp_path} does not fit this model or optimizer"):
        await opened(tmp_path)


async def test_a_directory_of_another_model_names_what_does_not_fit(tmp_path):
    await learn(tmp_path, 1)
    model = nn.Linear(3, 1, dtype=np.float64)

    learner = new_learner(tmp_path, model=model, optimizer=optim.Adam(model))
    with pytest.raises(ModelDirectoryError, match=r"does not fit this model or optimizer: .*weight"):
        await learner.__aenter__()
    assert (await reopened(tmp_path))[0] == 1


async def test_a_directory_of_another_optimizer_is_told(tmp_path):
    await learn(tmp_path, 1)
    model = Gate()

    learner = new_learner(tmp_path, model=model, optimizer=optim.SGD(model))
    with pytest.raises(ModelDirectoryError, match="does not fit this model or optimizer: it is one of Adam, not SGD"):
        await learner.__aenter__()


async def test_a_journal_that_the_loss_cannot_take_any_more_is_told_and_kept(tmp_path):
    await learn(tmp_path, 1, 2)
    lines = (tmp_path / "journal").read_bytes()

    def failing(model, batch):
        raise KeyError("z")

    with pytest.raises(ModelDirectoryError, match=r"cannot be learned again, the first of them number 1: 'z'"):
        await new_learner(tmp_path, loss=failing).__aenter__()
    assert (tmp_path / "journal").read_bytes() == lines
    assert (await reopened(tmp_path))[0] == 2


def test_a_directory_is_held_by_one_at_a_time(tmp_path):
    first = ModelDirectory(tmp_path)

    with pytest.raises(ModelDirectoryError, match="is in use by another process"):
        ModelDirectory(tmp_path)
    first.close()
    ModelDirectory(tmp_path).close()


def test_a_directory_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(ModelDirectoryError, match="cannot be written to"):
        ModelDirectory(tmp_path / "file" / "in it")


async def test_a_failing_disk_leaves_model_and_journal_as_they_were(tmp_path, monkeypatch):
    learner = await new_learner(tmp_path).__aenter__()
    await learner.learn(example(1))
    with monkeypatch.context() as patch:
        failing_disk(patch, times=1)
        with pytest.raises(JournalError, match="the disk is out of order"):
            await learner.learn(example(2))
    assert learner.learned == 1
    assert all(param.grad is None for param in learner.model.parameters())
    assert (await learner.learn(example(3))).learned == 2
    await crash(learner)

    assert await reopened(tmp_path) == (2, (await answers([1, 3]))[-1], 0)


async def test_after_a_failure_that_cannot_be_undone_nothing_more_is_written(tmp_path, monkeypatch):
    learner = await new_learner(tmp_path).__aenter__()
    await learner.learn(example(1))
    with monkeypatch.context() as patch:
        failing_disk(patch, times=2)
        with pytest.raises(JournalError):
            await learner.learn(example(2))
    with pytest.raises(JournalError, match="takes no more since it failed"):
        await learner.learn(example(3))
    assert learner.learned == 1
    assert learner.statistics().journal_error == "[Errno 5] the disk is out of order"
    await crash(learner)

    assert (await reopened(tmp_path))[0] == 1


async def test_a_full_disk_leaves_no_half_line(tmp_path, monkeypatch):
    write = os.write

    def short(descriptor, data):
        if len(data) > 100:
            return write(descriptor, data[:50])
        raise OSError(errno.ENOSPC, "no space left")

    learner = await new_learner(tmp_path).__aenter__()
    await learner.learn(example(1))
    whole = (tmp_path / "journal").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", short)
        with pytest.raises(JournalError, match="no space left"):
            await learner.learn(example(2))
    assert (tmp_path / "journal").read_bytes() == whole
    await crash(learner)


async def test_a_checkpoint_that_fails_is_tried_again(tmp_path, monkeypatch, caplog):
    learner = await new_learner(tmp_path, checkpoint_every=2).__aenter__()
    await learner.learn(example(1))
    save = ModelDirectory.save_checkpoint
    fails = [OSError(errno.ENOSPC, "no space left")]

    def fails_once(*given):
        return _raise(fails.pop()) if fails else save(*given)

    monkeypatch.setattr(ModelDirectory, "save_checkpoint", fails_once)
    await learner.learn(example(2))
    await turns_until(lambda: learner.statistics().stage is None)
    found = learner.statistics()
    assert (found.failed_checkpoints, found.journal_records) == (1, 2)
    await learner.learn(example(3))
    await turns_until(lambda: learner.statistics().stage is None)
    found = learner.statistics()
    assert (found.checkpoints, found.journal_records) == (1, 0)
    await crash(learner)

    assert "no checkpoint could be written" in caplog.text


def _raise(error):
    raise error


async def test_a_cancellation_while_a_line_is_written_is_raised_after_the_step(tmp_path):
    learner = await new_learner(tmp_path).__aenter__()
    learning = asyncio.create_task(learner.learn(example(1)))
    await turns_until(lambda: learner.statistics().stage == "journal")
    learning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await learning
    assert (learner.learned, learner.statistics().cancelled) == (1, 0)
    await crash(learner)

    assert await reopened(tmp_path) == (1, (await answers([1]))[-1], 0)


async def test_a_timeout_ends_nothing_once_a_line_is_being_written(tmp_path, monkeypatch):
    limits, timeout = [], asyncio.timeout
    monkeypatch.setattr(asyncio, "timeout", lambda seconds: limits.append(timeout(seconds)) or limits[-1])

    learner = await new_learner(tmp_path).__aenter__()
    learning = asyncio.create_task(learner.learn(example(1)))
    await turns_until(lambda: learner.statistics().stage == "journal")
    assert [limit.when() for limit in limits] == [None]
    await learning
    await crash(learner)


@pytest.mark.slow
async def test_a_flipped_bit_anywhere_in_what_was_acknowledged_is_refused_and_nothing_is_cut_off(tmp_path):
    await learn(tmp_path, 1, 2)
    path = tmp_path / "journal"
    whole = path.read_bytes()
    last = whole.index(b"\n") + 1
    places = {0, 8, 9, last - 1, last, last + 8, last + 9, len(whole) - 2, len(whole) - 1, *range(30, len(whole), 97)}
    refused = []

    for place in sorted(places):
        for bit in range(8):
            data = bytearray(whole)
            data[place] ^= 1 << bit
            path.write_bytes(data)
            with pytest.raises(ModelDirectoryError, match=r"line [12] of .*journal is damaged") as caught:
                await reopened(tmp_path)
            assert path.read_bytes() == data
            refused.append(str(caught.value))

    assert any(message.endswith(f"give it up by truncate -s {last} {path}") for message in refused)
    path.write_bytes(whole)
    assert (await reopened(tmp_path))[0] == 2


async def test_a_line_that_lacks_its_end_alone_was_not_acknowledged(tmp_path):
    await learn(tmp_path, 1, 2)
    path = tmp_path / "journal"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])

    learned, _, torn = await reopened(tmp_path)

    assert (learned, torn) == (1, len(whole) - whole.index(b"\n") - 2)


def _full(monkeypatch, *, at):
    """Have the disk be full when the first checkpoint is written, or the journal made."""
    savez = np.savez

    def fails(file, **arrays):
        savez(file, **arrays)
        raise OSError(errno.ENOSPC, "No space left on device")

    if at == "checkpoint":
        monkeypatch.setattr(np, "savez", fails)
    else:
        real = os.open

        def opens(path, *arguments, **options):
            if str(path).endswith("journal"):
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(path, *arguments, **options)

        monkeypatch.setattr(os, "open", opens)


@pytest.mark.parametrize("at", ["checkpoint", "journal"])
@pytest.mark.parametrize("place", ["there already", "new", "new, and so is what it is in"])
async def test_a_first_start_without_room_names_the_directory_and_leaves_nothing(tmp_path, monkeypatch, at, place):
    path = {"there already": tmp_path, "new": tmp_path / "a"}.get(place, tmp_path / "a" / "b")

    with monkeypatch.context() as patch:
        _full(patch, at=at)
        with pytest.raises(ModelDirectoryError, match=f"^{path} cannot be written to: .*No space left on device"):
            await opened(path)
    assert list(tmp_path.iterdir()) == []

    await learn(path, 1)
    assert (await reopened(path))[0] == 1


async def test_a_start_without_room_removes_nothing_of_others(tmp_path, monkeypatch):
    (tmp_path / "thesis").write_text("mine")

    _full(monkeypatch, at="checkpoint")
    with pytest.raises(ModelDirectoryError):
        await opened(tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["thesis"]


@on_each_loop
def test_a_directory_that_another_one_is_just_beginning_is_left_alone(run, tmp_path):
    first = ModelDirectory(tmp_path)

    with pytest.raises(ModelDirectoryError, match="is in use by another process"):
        ModelDirectory(tmp_path)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["journal", "lock"]
    first.close()


def test_a_lock_that_was_removed_holds_nothing(tmp_path, monkeypatch):
    flock = fcntl.flock
    monkeypatch.setattr(
        fcntl, "flock", lambda *given: (flock(*given), (tmp_path / "lock").unlink(), (tmp_path / "lock").touch())
    )

    with pytest.raises(ModelDirectoryError, match="is in use by another process"):
        ModelDirectory(tmp_path)


async def test_a_checkpoint_that_fails_gives_back_its_room(tmp_path, monkeypatch):
    learner = await new_learner(tmp_path).__aenter__()
    await learner.learn(example(1))
    _full(monkeypatch, at="checkpoint")
    await learner.__aexit__(None, None, None)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint.npz", "journal", "lock"]
    assert (await reopened(tmp_path))[0] == 1


def test_a_fork_of_the_process_does_not_hold_the_directory(tmp_path):
    directory = ModelDirectory(tmp_path)
    ended, alive = os.pipe(), os.pipe()
    with warnings.catch_warnings():
        # Python warns of forks beside threads, which other tests have started.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        try:
            os.close(ended[1])
            os.write(alive[1], b"x")
            os.read(ended[0], 1)
        finally:
            os._exit(0)
    os.read(alive[0], 1)
    directory.close()
    try:
        ModelDirectory(tmp_path).close()
    finally:
        os.close(ended[1])
        os.waitpid(child, 0)
        for descriptor in (ended[0], *alive):
            os.close(descriptor)


def _errors_of_a_fork(directory: ModelDirectory) -> list[str]:
    told = []
    for call in (lambda: directory.append(1, [2.0]), lambda: directory.save_checkpoint({}), directory.take_back):
        try:
            call()
        except OSError as error:
            told.append(f"{type(error).__name__}: {error}")
    return told


def test_a_fork_of_the_process_writes_nothing(tmp_path):
    directory = ModelDirectory(tmp_path)
    directory.begin({"a": 1})
    directory.append(0, [1.0])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    reads, writes = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        try:
            os.write(writes, "\n".join(_errors_of_a_fork(directory)).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    told = os.read(reads, 1000).decode().splitlines()
    for descriptor in (reads, writes):
        os.close(descriptor)

    assert [line.partition(": ")[0] for line in told] == ["JournalError", "OSError"]
    assert "forked from the one that has the directory" in told[0]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    directory.append(1, [2.0])
    directory.close()


@pytest.mark.parametrize("name", ["checkpoint.npz.new", "journal", "lock"])
async def test_no_link_is_followed(tmp_path, name):
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / name).symlink_to(victim)

    if name == "checkpoint.npz.new":
        await opened(tmp_path / "model")
    else:
        with pytest.raises(ModelDirectoryError, match=r"cannot be written to: .*symbolic links"):
            await opened(tmp_path / "model")

    assert victim.read_bytes() == b"mine"


def test_the_names_of_a_new_directory_and_of_those_that_it_is_in_are_on_the_disk(tmp_path, monkeypatch):
    found, fsync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: found.append(os.fstat(descriptor).st_ino) or fsync(descriptor))

    directory = ModelDirectory(tmp_path / "a" / "b")
    directory.begin({"a": 1})
    directory.close()

    folders = [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]
    assert [number for number in found if number in [folder.stat().st_ino for folder in folders]] == [
        folder.stat().st_ino for folder in folders
    ]


@pytest.mark.parametrize("mask", [0, 0o022, 0o077])
async def test_what_a_learner_makes_is_for_its_owner_alone(tmp_path, monkeypatch, mask):
    folder = tmp_path / "models" / "mine"
    tmp_path.chmod(0o755)
    before = os.umask(mask)
    try:
        await learn(folder, *range(3), checkpoint_every=2)
        with monkeypatch.context() as patch:
            directory = ModelDirectory(folder)
            directory.checkpoint()
            patch.setattr(os, "ftruncate", failing)
            patch.setattr(os, "write", failing)
            with pytest.raises(JournalError):
                directory.append(3, [1.0])
            directory.close()
    finally:
        os.umask(before)

    found = {path.name.partition("-")[0]: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert found == dict.fromkeys(["checkpoint.npz", "journal", "journal.cut", "lock"], 0o600)
    assert [path.stat().st_mode & 0o777 for path in (folder, folder.parent, tmp_path)] == [0o700, 0o700, 0o755]


@pytest.mark.parametrize("name", ["journal", "checkpoint.npz", "lock", "."])
async def test_what_is_there_keeps_the_permissions_that_its_owner_gave_it(tmp_path, name):
    folder = tmp_path / "model"
    await learn(folder, 1)
    (folder / name).chmod(0o750)

    await learn(folder, *range(3), checkpoint_every=2)

    assert (folder / name).stat().st_mode & 0o777 == 0o750


def test_a_journal_that_was_removed_is_made_again_for_its_owner_alone(tmp_path):
    directory = ModelDirectory(tmp_path / "model")
    directory.begin({"a": 1})
    (tmp_path / "model" / "journal").unlink()

    directory.save_checkpoint({"a": 2})
    directory.close()

    assert (tmp_path / "model" / "journal").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
async def test_a_checkpoint_keeps_its_permissions(tmp_path, mode):
    await opened(tmp_path)
    (tmp_path / "checkpoint.npz").chmod(mode)

    async with new_learner(tmp_path) as learner:
        await learner.learn(example(1))
    assert (tmp_path / "checkpoint.npz").stat().st_mode & 0o777 == mode


async def test_a_start_that_is_cancelled_while_it_opens_the_directory_lets_go_of_it(tmp_path, monkeypatch):
    began, go_on = threading.Event(), threading.Event()
    flock = fcntl.flock

    def slow(*given):
        began.set()
        assert go_on.wait(PATIENCE)
        flock(*given)

    monkeypatch.setattr(fcntl, "flock", slow)
    ended = threading.Event()
    close = ModelDirectory.close
    monkeypatch.setattr(ModelDirectory, "close", lambda directory: (close(directory), ended.set()))

    starting = asyncio.create_task(new_learner(tmp_path).__aenter__())
    await asyncio.to_thread(began.wait, PATIENCE)
    starting.cancel()
    await asyncio.wait([starting])
    assert starting.cancelled()
    go_on.set()
    await asyncio.to_thread(ended.wait, PATIENCE)
    monkeypatch.undo()
    ModelDirectory(tmp_path).close()


def test_a_directory_is_closed_after_the_call_that_writes(tmp_path, monkeypatch):
    directory = ModelDirectory(tmp_path)
    directory.begin({"a": 1})
    events, fsync = [], os.fsync
    closing = threading.Thread(target=lambda: (directory.close(), events.append("closed")))

    def slow(descriptor):
        closing.start()
        # Nothing but its own wait keeps it from going on: it gets every chance.
        closing.join(0.05)
        events.append("written")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    directory.append(0, [1.0])
    closing.join(PATIENCE)

    assert events == ["written", "closed"]
    for call in (lambda: directory.append(1, [1.0]), lambda: directory.save_checkpoint({})):
        with pytest.raises(OSError, match="the directory was closed"):
            call()
    directory.take_back()
    assert (tmp_path / "journal").read_bytes().count(b"\n") == 1


@pytest.mark.parametrize("how", ["removed", "replaced"])
async def test_nothing_is_acknowledged_by_a_journal_that_is_not_there_any_more(tmp_path, how):
    async with new_learner(tmp_path) as learner:
        await learner.learn(example(1))
        if how == "removed":
            (tmp_path / "journal").unlink()
        else:
            (tmp_path / "other").write_bytes(b"")
            (tmp_path / "other").replace(tmp_path / "journal")
        with pytest.raises(JournalError, match="its file was removed"):
            await learner.learn(example(2))
        await learner.checkpoint()
        await learner.learn(example(3))
        await crash(learner)
    assert await reopened(tmp_path) == (2, (await answers([1, 3]))[-1], 0)


@pytest.mark.parametrize("workers", [0, 1])
async def test_a_replay_leaves_the_random_numbers_of_the_caller_alone(tmp_path, workers):
    async def drawing(model, batch):
        """A loss that draws from all streams, before and after it has waited."""
        np.random.standard_normal()  # noqa: NPY002
        ag.random.generator().random()
        await asyncio.sleep(0)
        np.random.standard_normal(2)  # noqa: NPY002
        return nn.mse_loss(model(batch["x"]), batch["y"])

    def plain(model, batch):
        np.random.standard_normal()  # noqa: NPY002
        ag.random.generator().random()
        return nn.mse_loss(model(batch["x"]), batch["y"])

    def numbers():
        return ag.random.generator().random(), np.random.standard_normal()  # noqa: NPY002

    async def main(loss):
        learner = new_learner(tmp_path / loss.__name__, loss=loss)
        await learner.__aenter__()
        for seed in (1, 2, 3):
            await learner.learn(example(seed))
        await crash(learner)
        # Its initialisers draw too.
        again = new_learner(tmp_path / loss.__name__, loss=loss)
        np.random.seed(5)  # noqa: NPY002
        ag.random.seed(7)
        expected = [numbers() for _ in range(3)]
        np.random.seed(5)  # noqa: NPY002
        caller = ag.random.seed(7)
        found = [numbers()]
        with ag.workers(workers):
            await again.__aenter__()
        found.append(numbers())
        assert ag.random.generator() is caller
        await crash(again)
        assert again.statistics().replayed == 3
        assert [*found, numbers()] == expected

    for loss in (drawing, plain):
        await main(loss)


async def test_an_evaluation_draws_no_random_number_of_the_callers():
    drawn = []

    def evaluate(model):
        drawn.append(ag.random.generator().random())

    learner = new_learner(evaluate=evaluate, evaluate_every=1)
    before = ag.random.seed(7).bit_generator.state
    async with learner:
        await learner.learn(example(1))
        await turns_until(lambda: learner.statistics().evaluations == 1)
        assert ag.random.generator().bit_generator.state == before
        assert len(drawn) == 1
