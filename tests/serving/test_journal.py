"""The directory that survives a crash, and the learner that is made from it."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from pathlib import Path

import numpy as np
import pytest

from examples.serving.journal import Directory, DirectoryError, JournalError
from examples.serving.learner import Learner
from examples.serving.network import Network, Settings
from tests.serving.making import QUESTION, SETTINGS, answers, failing_disk, opened_learner, random_sequence, turns_until


async def learn(path: Path, *seeds: int, snapshot_every: int = 100) -> list[list[float]]:
    """Learn from sequences, then leave the files as a crash would; return what the model answers at the end."""
    learner = await opened_learner(path, snapshot_every=snapshot_every)
    for seed in seeds:
        await learner.learn(random_sequence(seed), 30)
    outputs = (await learner.predict(QUESTION)).outputs.tolist()
    if learner._snapshot is not None:
        await learner._snapshot
    learner.directory.close()
    return outputs


async def reopened(path: Path) -> tuple[int, list[list[float]], int]:
    """Return how much a learner finds there, what it answers, and how many bytes of a torn line it cut off."""
    learner = await opened_learner(path)
    predicted = await learner.predict(QUESTION)
    learner.directory.close()
    return predicted.learned, predicted.outputs.tolist(), learner.directory.torn


def test_what_was_learned_is_there_after_a_crash_to_the_last_bit(run, tmp_path):
    before = run(learn(tmp_path, 1, 2, 3))

    assert run(reopened(tmp_path)) == (3, before, 0)
    assert before == run(answers([random_sequence(1), random_sequence(2), random_sequence(3)]))[-1]


def test_learning_goes_on_after_a_restart_as_if_there_had_been_none(run, tmp_path):
    run(learn(tmp_path, 1, 2))
    run(learn(tmp_path, 3))

    assert run(learn(tmp_path, 4)) == run(answers(map(random_sequence, (1, 2, 3, 4))))[-1]


def test_the_journal_does_not_grow_for_ever(run, tmp_path):
    before = run(learn(tmp_path, *range(7), snapshot_every=3))

    assert (tmp_path / "journal").read_bytes().count(b"\n") < 3
    assert run(reopened(tmp_path)) == (7, before, 0)


def test_a_line_is_on_the_disk_before_its_sequence_is_learned(run, tmp_path, monkeypatch):
    events = []
    write, fsync, step = os.write, os.fsync, Network.step
    monkeypatch.setattr(os, "write", lambda *arguments: events.append("write") or write(*arguments))
    monkeypatch.setattr(os, "fsync", lambda descriptor: fsync(descriptor) or events.append("on the disk"))
    monkeypatch.setattr(Network, "step", lambda network: events.append("step") or step(network))

    async def main():
        learner = await opened_learner(tmp_path)
        events.clear()
        await learner.learn(random_sequence(1), 30)
        events.append("answer")
        learner.directory.close()

    run(main())

    assert events == ["write", "on the disk", "step", "answer"]


@pytest.mark.parametrize("left", [1, 20, -1], ids=["a byte", "a part", "all but the line's end"])
def test_a_torn_last_line_is_cut_off(run, tmp_path, left):
    run(learn(tmp_path, 1))
    whole = (tmp_path / "journal").read_bytes()
    before = run(learn(tmp_path, 2))[:]
    both = (tmp_path / "journal").read_bytes()
    (tmp_path / "journal").write_bytes(whole + both[len(whole) :][:left])

    learned, outputs, torn = run(reopened(tmp_path))

    assert (learned, outputs) == (1, run(answers([random_sequence(1)]))[-1])
    assert torn == len(both[len(whole) :][:left])
    assert (tmp_path / "journal").read_bytes() == whole
    assert run(learn(tmp_path, 2)) == before


def test_a_last_line_that_was_never_filled_is_cut_off(run, tmp_path):
    before = run(learn(tmp_path, 1))
    with (tmp_path / "journal").open("ab") as file:
        file.write(bytes(4096))

    assert run(reopened(tmp_path)) == (1, before, 4096)


def test_a_damaged_line_before_the_last_is_no_crash_and_is_refused(run, tmp_path):
    run(learn(tmp_path, 1, 2))
    data = bytearray((tmp_path / "journal").read_bytes())
    data[30] ^= 1
    (tmp_path / "journal").write_bytes(data)

    with pytest.raises(DirectoryError, match=r"line 1 of .*journal is damaged, and not the last"):
        run(reopened(tmp_path))
    assert (tmp_path / "journal").read_bytes() == data


def test_missing_lines_are_told(run, tmp_path):
    run(learn(tmp_path, 1, 2, 3))
    lines = (tmp_path / "journal").read_bytes().splitlines(keepends=True)
    (tmp_path / "journal").write_bytes(lines[2])

    with pytest.raises(DirectoryError, match="lacks what was learned as 1 to 2"):
        run(reopened(tmp_path))


def test_a_crash_between_snapshot_and_journal_learns_nothing_twice(run, tmp_path):
    before = run(learn(tmp_path, 1, 2))
    lines = (tmp_path / "journal").read_bytes()

    async def save() -> None:
        await (await opened_learner(tmp_path)).close()

    run(save())
    assert (tmp_path / "journal").read_bytes() == b""
    (tmp_path / "journal").write_bytes(lines)

    assert run(reopened(tmp_path)) == (2, before, 0)


def test_a_snapshot_that_was_not_finished_changes_nothing(run, tmp_path):
    before = run(learn(tmp_path, 1, 2))
    (tmp_path / "snapshot.npz.new").write_bytes(b"half of")

    assert run(reopened(tmp_path)) == (2, before, 0)


def test_a_damaged_snapshot_is_refused(run, tmp_path):
    run(learn(tmp_path, 1))
    data = (tmp_path / "snapshot.npz").read_bytes()
    (tmp_path / "snapshot.npz").write_bytes(data[: len(data) // 2])

    with pytest.raises(DirectoryError, match=r"snapshot\.npz cannot be read"):
        run(reopened(tmp_path))


def test_a_journal_without_its_snapshot_is_refused(run, tmp_path):
    run(learn(tmp_path, 1))
    (tmp_path / "snapshot.npz").unlink()

    with pytest.raises(DirectoryError, match=r"has a journal but no snapshot\.npz"):
        run(reopened(tmp_path))


def test_a_snapshot_of_something_else_is_refused(tmp_path):
    directory = Directory(tmp_path)
    directory.save_snapshot({"something": np.zeros(3)})

    with pytest.raises(DirectoryError, match="is of no such model"):
        Learner(directory, SETTINGS, most_waiting=1, snapshot_every=1)
    directory.close()


def test_a_directory_keeps_its_settings(run, tmp_path):
    run(learn(tmp_path, 1))
    directory = Directory(tmp_path)

    with pytest.raises(DirectoryError, match=r"holds a model of .*hidden=8.*, and .*hidden=9.* is asked for"):
        Learner(directory, Settings(hidden=9), most_waiting=1, snapshot_every=1)
    directory.close()


def test_a_directory_is_held_by_one_at_a_time(tmp_path):
    first = Directory(tmp_path)

    with pytest.raises(DirectoryError, match="is in use by another process"):
        Directory(tmp_path)
    first.close()
    Directory(tmp_path).close()


def test_a_directory_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(DirectoryError, match="cannot be written to"):
        Directory(tmp_path / "file" / "in it")


def test_a_failing_disk_leaves_model_and_journal_as_they_were(run, tmp_path, monkeypatch):
    async def main():
        learner = await opened_learner(tmp_path)
        await learner.learn(random_sequence(1), 30)
        with monkeypatch.context() as patch:
            failing_disk(patch, times=1)
            with pytest.raises(JournalError, match="the disk is out of order"):
                await learner.learn(random_sequence(2), 30)
        assert learner.learned == 1
        assert all(weight.grad is None for weight in learner.network.weights)
        assert (await learner.learn(random_sequence(3), 30)).learned == 2
        learner.directory.close()

    run(main())

    assert run(reopened(tmp_path)) == (2, run(answers([random_sequence(1), random_sequence(3)]))[-1], 0)


def test_after_a_failure_that_cannot_be_undone_nothing_more_is_written(run, tmp_path, monkeypatch):
    async def main():
        learner = await opened_learner(tmp_path)
        await learner.learn(random_sequence(1), 30)
        with monkeypatch.context() as patch:
            failing_disk(patch, times=2)
            with pytest.raises(JournalError):
                await learner.learn(random_sequence(2), 30)
        with pytest.raises(JournalError, match="takes no more since it failed"):
            await learner.learn(random_sequence(3), 30)
        assert learner.learned == 1
        assert learner.directory.broken is not None
        await learner.close()

    run(main())

    assert run(reopened(tmp_path))[0] == 1


def test_a_full_disk_leaves_no_half_line(run, tmp_path, monkeypatch):
    write = os.write

    def short(descriptor, data):
        if len(data) > 100:
            return write(descriptor, data[:50])
        raise OSError(errno.ENOSPC, "no space left")

    async def main():
        learner = await opened_learner(tmp_path)
        await learner.learn(random_sequence(1), 30)
        whole = (tmp_path / "journal").read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", short)
            with pytest.raises(JournalError, match="no space left"):
                await learner.learn(random_sequence(2), 30)
        assert (tmp_path / "journal").read_bytes() == whole
        learner.directory.close()

    run(main())


def test_a_snapshot_that_fails_is_tried_again(run, tmp_path, monkeypatch, caplog):
    async def main():
        learner = await opened_learner(tmp_path, snapshot_every=2)
        await learner.learn(random_sequence(1), 30)
        save = Directory.save_snapshot
        fails = [OSError(errno.ENOSPC, "no space left")]
        monkeypatch.setattr(Directory, "save_snapshot", lambda *given: _raise(fails.pop()) if fails else save(*given))
        await learner.learn(random_sequence(2), 30)
        await learner._snapshot
        assert (learner.counts["failed_snapshots"], learner.directory.records) == (1, 2)
        await learner.learn(random_sequence(3), 30)
        await learner._snapshot
        assert (learner.counts["snapshots"], learner.directory.records) == (1, 0)
        learner.directory.close()

    run(main())

    assert "no snapshot could be saved" in caplog.text


def _raise(error):
    raise error


def test_a_cancellation_while_a_line_is_written_is_raised_after_the_step(run, tmp_path):
    async def main():
        learner = await opened_learner(tmp_path)
        learning = asyncio.create_task(learner.learn(random_sequence(1), 30))
        await turns_until(lambda: learner.stage == "journal")
        learning.cancel()
        with pytest.raises(asyncio.CancelledError):
            await learning
        assert (learner.learned, learner.counts["learned"], learner.counts["abandoned"]) == (1, 1, 0)
        learner.directory.close()

    run(main())

    assert run(reopened(tmp_path)) == (1, run(answers([random_sequence(1)]))[-1], 0)


def test_a_timeout_ends_nothing_once_a_line_is_being_written(run, tmp_path, monkeypatch):
    limits, timeout = [], asyncio.timeout
    monkeypatch.setattr(asyncio, "timeout", lambda seconds: limits.append(timeout(seconds)) or limits[-1])

    async def main():
        learner = await opened_learner(tmp_path)
        learning = asyncio.create_task(learner.learn(random_sequence(1), 30))
        await turns_until(lambda: learner.stage == "journal")
        assert [limit.when() for limit in limits] == [None]
        await learning
        learner.directory.close()

    run(main())


def test_a_flipped_bit_anywhere_in_what_was_acknowledged_is_refused_and_nothing_is_cut_off(run, tmp_path):
    run(learn(tmp_path, 1, 2))
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
            with pytest.raises(DirectoryError, match=r"line [12] of .*journal is damaged") as caught:
                run(reopened(tmp_path))
            assert path.read_bytes() == data
            refused.append(str(caught.value))

    assert any(message.endswith(f"give it up by truncate -s {last} {path}") for message in refused)
    path.write_bytes(whole)
    assert run(reopened(tmp_path))[0] == 2


def test_a_line_that_lacks_its_end_alone_was_not_acknowledged(run, tmp_path):
    run(learn(tmp_path, 1, 2))
    path = tmp_path / "journal"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])

    learned, _, torn = run(reopened(tmp_path))

    assert (learned, torn) == (1, len(whole) - whole.index(b"\n") - 2)


def _full(monkeypatch, *, at):
    """Have the disk be full when the first snapshot is written, or the journal made."""
    savez = np.savez

    def fails(file, **arrays):
        savez(file, **arrays)
        raise OSError(errno.ENOSPC, "No space left on device")

    if at == "snapshot":
        monkeypatch.setattr(np, "savez", fails)
    else:
        real = os.open

        def opens(path, *arguments, **options):
            if str(path).endswith("journal"):
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(path, *arguments, **options)

        monkeypatch.setattr(os, "open", opens)


@pytest.mark.parametrize("at", ["snapshot", "journal"])
@pytest.mark.parametrize("place", ["there already", "new", "new, and so is what it is in"])
def test_a_first_start_without_room_names_the_directory_and_leaves_nothing(run, tmp_path, monkeypatch, at, place):
    path = {"there already": tmp_path, "new": tmp_path / "a"}.get(place, tmp_path / "a" / "b")

    with monkeypatch.context() as patch:
        _full(patch, at=at)
        with pytest.raises(DirectoryError, match=f"^{path} cannot be written to: .*No space left on device"):
            run(opened_learner(path))
    assert list(tmp_path.iterdir()) == []

    run(learn(path, 1))
    assert run(reopened(path))[0] == 1


def test_a_start_without_room_removes_nothing_of_others(run, tmp_path, monkeypatch):
    (tmp_path / "thesis").write_text("mine")

    _full(monkeypatch, at="snapshot")
    with pytest.raises(DirectoryError):
        run(opened_learner(tmp_path))

    assert [path.name for path in tmp_path.iterdir()] == ["thesis"]


def test_a_directory_that_another_one_is_just_beginning_is_left_alone(run, tmp_path):
    first = Directory(tmp_path)

    with pytest.raises(DirectoryError, match="is in use by another process"):
        Directory(tmp_path)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["journal", "lock"]
    first.close()


def test_a_lock_that_was_removed_holds_nothing(tmp_path, monkeypatch):
    flock = fcntl.flock
    monkeypatch.setattr(
        fcntl, "flock", lambda *given: (flock(*given), (tmp_path / "lock").unlink(), (tmp_path / "lock").touch())
    )

    with pytest.raises(DirectoryError, match="is in use by another process"):
        Directory(tmp_path)


def test_a_snapshot_that_fails_gives_back_its_room(run, tmp_path, monkeypatch):
    async def main():
        learner = await opened_learner(tmp_path)
        await learner.learn(random_sequence(1), 30)
        _full(monkeypatch, at="snapshot")
        await learner.close()

    run(main())

    assert sorted(path.name for path in tmp_path.iterdir()) == ["journal", "lock", "snapshot.npz"]
    assert run(reopened(tmp_path))[0] == 1
