"""save_to_disk: files that are there as long as they are needed, and no longer."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import os
import shutil
import stat
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.errors import StoreError, StoreWarning
from asyncgrad.graph import DiskStore, save_to_disk
from asyncgrad.memory.offload.disk import MAX_REMOVED, THREADS
from tests.memory.offload.scenes import Chain, files_in, is_empty, run_program
from tests.support.threads import PATIENCE

LINKS = 5

posix = pytest.mark.skipif(os.name != "posix", reason="needs fork, flock and modes, which Windows has not")
not_root = pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() == 0, reason="root may write everywhere")


def to(directory: Path, **options: Any) -> Any:
    return save_to_disk(directory, min_bytes=1, **options)


def modes_below(directory: Path) -> list[int]:
    """Who may do what with the folders and files below a directory."""
    return [stat.S_IMODE(path.stat().st_mode) for path in directory.rglob("*")]


@pytest.mark.parametrize("loop", [True, False])
def test_gradients_have_the_same_bits_and_the_files_are_gone_at_the_end_of_the_backward(tmp_path: Path, loop: bool):
    chain = Chain(LINKS)
    manager = to(tmp_path)

    async def step() -> None:
        async with manager:
            loss = chain.compute()
        assert sum(path.stat().st_size for path in files_in(tmp_path)) == (LINKS + 1) * 512
        await loss.backward()
        assert is_empty(tmp_path)

    if loop:
        ag.run(step())
    else:
        loss = chain.forward(manager)
        ag.sync.backward(loss)
        assert files_in(tmp_path) == []
    assert chain.gradients() == chain.expected()


async def test_with_retain_graph_the_files_stay_until_the_graph_is_dropped(tmp_path: Path):
    chain = Chain(LINKS)

    async with to(tmp_path):
        loss = chain.compute()
    for _ in range(3):
        await loss.backward(retain_graph=True)
        assert len(files_in(tmp_path)) == LINKS + 1
    del loss
    assert is_empty(tmp_path)


async def test_a_graph_that_is_dropped_without_a_backward_leaves_no_file(tmp_path: Path):
    chain = Chain(LINKS)

    async with to(tmp_path):
        loss = chain.compute()
    assert len(files_in(tmp_path)) == LINKS + 1
    del loss
    assert is_empty(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["fails", "is cancelled"])
async def test_a_backward_that_ends_early_leaves_no_file_once_the_graph_is_dropped(tmp_path: Path, how: str):
    chain = Chain(LINKS)
    error = ZeroDivisionError if how == "fails" else asyncio.CancelledError

    def stop(grad: Any) -> None:
        raise error

    async def step() -> None:
        async with to(tmp_path):
            loss = chain.compute()
        with chain.weights[2].register_hook(stop), pytest.raises(error):
            await loss.backward()

    before = set(threading.enumerate())
    await step()
    gc.collect()
    # A read that was under way when the backward ended keeps the folder until it has ended, and with it the thread.
    for thread in set(threading.enumerate()) - before:
        if thread.name == "asyncgrad-offload":
            thread.join(PATIENCE)
            assert not thread.is_alive()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
async def test_a_forward_that_fails_leaves_no_file(tmp_path: Path):
    chain = Chain(LINKS)

    async def step() -> None:
        async with to(tmp_path):
            chain.compute()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await step()
    gc.collect()
    manager = to(tmp_path)
    with manager:
        pass
    assert files_in(tmp_path) == []


@posix
async def test_nobody_else_can_read_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    chain = Chain(LINKS)

    async with save_to_disk(min_bytes=1):
        loss = chain.compute()
    modes = modes_below(tmp_path)
    await loss.backward()
    assert len(modes) == 1 + 2 + LINKS + 1
    assert {mode & 0o77 for mode in modes} == {0}
    assert [path.name for path in tmp_path.iterdir()] == [f"asyncgrad-{os.getuid()}"]


@posix
@pytest.mark.parametrize("kind", ["open to all", "a link"])
def test_a_folder_that_others_could_have_made_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    target = tmp_path / "target"
    target.mkdir(mode=0o700)
    folder = tmp_path / f"asyncgrad-{os.getuid()}"
    if kind == "a link":
        folder.symlink_to(target)
    else:
        folder.mkdir()
        folder.chmod(0o777)

    with pytest.raises(StoreError, match="is not a folder of this user alone"), save_to_disk():
        pass


# Disks that fail.


def test_where_no_folder_can_be_made_entering_raises(tmp_path: Path):
    file = tmp_path / "file"
    file.write_text("")

    message = r"no folder for saved tensors can be created in .*; name another"
    with pytest.raises(StoreError, match=message) as caught, to(file / "below"):
        raise AssertionError("entered")

    assert caught.value.errno == errno.ENOTDIR


@posix
@not_root
def test_without_permission_entering_raises(tmp_path: Path):
    tmp_path.chmod(0o500)

    with pytest.raises(StoreError) as caught, to(tmp_path):
        raise AssertionError("entered")

    assert caught.value.errno == errno.EACCES


@pytest.mark.slow
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
async def test_a_disk_that_cannot_take_a_file_is_an_error_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
):
    chain = Chain(LINKS)
    losses = []

    def write(file: int, data: Any) -> int:
        raise OSError(number, os.strerror(number))

    manager = to(tmp_path)
    monkeypatch.setattr(os, "write", write)
    with pytest.raises(StoreError, match=rf"could not be put into DiskStore\('{tmp_path}'\)") as caught:
        async with manager:
            losses.append(chain.compute())
    assert caught.value.errno == number
    # Where it was raised within the computation, its frames hold what was saved until then.
    del caught
    monkeypatch.undo()
    if losses:
        await losses.pop().backward()
    gc.collect()
    assert list(tmp_path.iterdir()) == []


async def test_a_write_that_takes_a_part_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    chain, write = Chain(LINKS), os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:100]))

    async with to(tmp_path):
        loss = chain.compute()
    await loss.backward()
    assert chain.gradients() == chain.expected()


async def test_a_folder_that_was_removed_is_an_error(tmp_path: Path):
    chain = Chain(LINKS)
    losses: list[Any] = []

    async def remove_meanwhile(directory: Path) -> None:
        async with to(directory):
            shutil.rmtree(directory)
            losses.append(chain.compute())

    async with to(tmp_path / "new"):
        loss = chain.compute()
    shutil.rmtree(tmp_path / "new")
    with pytest.raises(StoreError, match="could not be got from DiskStore") as caught:
        await loss.backward()
    assert caught.value.errno == errno.ENOENT
    with pytest.raises(StoreError) as caught:
        await remove_meanwhile(tmp_path / "other")
    assert caught.value.errno == errno.ENOENT


async def test_a_file_that_was_cut_off_is_an_error(tmp_path: Path):
    chain = Chain(LINKS)

    async with to(tmp_path):
        loss = chain.compute()
    for path in files_in(tmp_path):
        os.truncate(path, 100)
    with pytest.raises(StoreError, match="100 bytes came back, but 512 were put"):
        await loss.backward()


@pytest.mark.slow
@posix
def test_a_limit_of_the_system_on_the_size_of_files_is_an_error_and_nothing_is_lost(tmp_path: Path):
    finished = run_program(
        """
        import resource, signal, sys
        import numpy as np, asyncgrad as ag

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        x = ag.tensor(np.ones(1000), requires_grad=True)

        async def main():
            try:
                async with ag.graph.save_to_disk(sys.argv[1], min_bytes=1):
                    y = np.exp(x)
            except ag.errors.StoreError as error:
                print(error.errno)
            await y.sum().backward()
            print(np.array_equal(x.grad.numpy(), np.exp(np.ones(1000))))

        ag.run(main())
        """,
        tmp_path,
    )

    assert finished.stdout.split() == [str(errno.EFBIG), "True"], finished.stderr
    assert list(tmp_path.iterdir()) == []


# The end of a process.

SAVES = """
import os, signal, sys
import numpy as np, asyncgrad as ag

async def main():
    global loss
    x = ag.tensor(np.ones(1000), requires_grad=True)
    async with ag.graph.save_to_disk(sys.argv[1], min_bytes=1):
        loss = np.exp(np.sin(x)).sum()

ag.run(main())
print(sum(len(files) for _, _, files in os.walk(sys.argv[1])), flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", ["pass", "sys.exit(3)", "raise KeyboardInterrupt", "1 / 0"])
def test_no_file_is_left_when_a_process_ends(tmp_path: Path, end: str):
    finished = run_program(f"{SAVES}\n{end}\n", tmp_path)

    assert finished.stdout.split() == ["2"], finished.stderr
    assert "Exception ignored" not in finished.stderr
    assert "Warning" not in finished.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_process_that_ends_while_tensors_are_written_leaves_no_file(tmp_path: Path):
    finished = run_program(
        """
        import sys
        import numpy as np, asyncgrad as ag

        x = ag.tensor(np.ones(1_000_000), requires_grad=True)
        with ag.graph.save_to_disk(sys.argv[1], min_bytes=1):
            kept = [np.exp(x) for _ in range(10)]
        """,
        tmp_path,
    )

    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""
    assert list(tmp_path.iterdir()) == []


@posix
def test_what_a_crashed_process_has_left_is_removed_by_the_next(tmp_path: Path):
    finished = run_program(f"{SAVES}\nos.kill(os.getpid(), signal.SIGKILL)\n", tmp_path)
    assert finished.stdout.split() == ["2"], finished.stderr
    assert len(files_in(tmp_path)) == 1

    with to(tmp_path):
        assert files_in(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@posix
async def test_what_a_living_process_needs_is_left_alone(tmp_path: Path):
    chain = Chain(LINKS)

    async with to(tmp_path):
        loss = chain.compute()
    files = files_in(tmp_path)
    finished = run_program(SAVES, tmp_path)
    assert finished.returncode == 0, finished.stderr
    assert files_in(tmp_path) == files
    async with to(tmp_path):
        pass
    assert files_in(tmp_path) == files
    await loss.backward()
    assert chain.gradients() == chain.expected()
    assert list(tmp_path.iterdir()) == []


def test_other_files_in_the_directory_are_left_alone(tmp_path: Path):
    for name in ("run-1-abc", "notes.lock", "run-.txt"):
        (tmp_path / name).write_text("mine")
    with to(tmp_path):
        pass

    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.slow
@posix
def test_a_child_process_reads_what_its_parent_has_stored_and_removes_only_its_own(tmp_path: Path):
    finished = run_program(
        """
        import os, sys
        import numpy as np, asyncgrad as ag

        def files():
            return sum(name[-5:] != ".lock" for _, _, names in os.walk(sys.argv[1]) for name in names)

        def step(y):
            ag.sync.backward(y.sum(), retain_graph=True)
            ok = np.array_equal(x.grad.numpy(), np.exp(x.numpy()))
            x.grad = None
            return ok

        x = ag.tensor(np.linspace(0.0, 1.0, 1000), requires_grad=True)
        manager = ag.graph.save_to_disk(sys.argv[1], min_bytes=1)

        async def save():
            async with manager:
                return np.exp(x)

        y = ag.run(save())
        assert files() == 1
        child = os.fork()
        if child == 0:
            assert step(y), "what the parent has stored"
            z = ag.run(save())
            assert files() == 2
            assert step(z), "what the child has stored"
            del y, z
            assert files() == 1
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert files() == 1
        assert step(y)
        del y
        assert files() == 0
        print("done")
        """,
        tmp_path,
    )

    assert finished.stdout.split() == ["done"], finished.stderr
    assert list(tmp_path.iterdir()) == []


async def test_a_store_of_ones_own_making_has_its_folder_only_while_there_are_files(tmp_path: Path):
    store = DiskStore(tmp_path / "new")

    assert not (tmp_path / "new").exists()
    await store.put("a", memoryview(b"abc"))
    assert len(files_in(tmp_path)) == 1
    await store.delete("a")
    assert list((tmp_path / "new").iterdir()) == []


async def test_what_could_not_be_written_after_the_block_warns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    x = ag.tensor(np.ones(10), requires_grad=True)

    def write(file: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def step() -> None:
        manager = to(tmp_path)
        with manager:
            y = np.exp(x)
            monkeypatch.setattr(os, "write", write)
        with pytest.raises(StoreError):
            await manager._offload.flush()
        monkeypatch.undo()
        await y.sum().backward()

    try:
        await step()
    except (StoreError, StoreWarning):
        pytest.fail("told twice")


# Files that are removed.


class SlowWrites:
    """Writes that wait, once they have opened their files."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go, self._write = threading.Semaphore(0), threading.Event(), os.write
        monkeypatch.setattr(os, "write", self._later)

    def _later(self, file: int, data: Any) -> int:
        self.begun.release()
        assert self.go.wait(PATIENCE)
        return self._write(file, data)

    def wait_for_begun(self, count: int) -> None:
        for _ in range(count):
            assert self.begun.acquire(timeout=PATIENCE)


@posix
def test_a_tensor_that_is_let_go_of_while_it_is_written_leaves_no_name_and_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    writes, x = SlowWrites(monkeypatch), ag.tensor(np.ones(1000), requires_grad=True)
    manager = to(tmp_path)

    with manager:
        y = np.exp(x).sum()
        writes.wait_for_begun(1)
    assert len(files_in(tmp_path)) == 1
    ag.sync.backward(y)
    del y
    assert is_empty(tmp_path)
    assert manager._offload._pending_bytes == 8000

    writes.go.set()
    asyncio.run(manager._offload.flush())
    assert is_empty(tmp_path)
    assert x.grad is not None
    assert np.array_equal(x.grad.numpy(), np.exp(np.ones(1000)))


@posix
async def test_what_is_released_before_its_write_begins_is_never_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    writes, store = SlowWrites(monkeypatch), DiskStore(tmp_path)

    puts = [asyncio.create_task(store.put(f"a{number}", memoryview(b"abc"))) for number in range(THREADS + 1)]
    await asyncio.to_thread(writes.wait_for_begun, THREADS)
    assert store.release(f"a{THREADS}")
    assert not store.release("b")
    writes.go.set()
    await asyncio.gather(*puts)
    assert {path.stem for path in files_in(tmp_path)} == {f"a{number}" for number in range(THREADS)}
    for number in range(THREADS):
        await store.delete(f"a{number}")
    assert is_empty(tmp_path)


def links_of_descriptors() -> list[str]:
    """What the open descriptors of this process refer to."""
    found = []
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(str(path.readlink()))
    return found


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system does not tell what descriptors refer to")
@pytest.mark.parametrize("then", ["put", "get", "delete"])
async def test_large_files_are_gone_at_once_and_their_memory_with_what_the_store_does_next(tmp_path: Path, then: str):
    store, count = DiskStore(tmp_path), 4 * MAX_REMOVED
    data = memoryview(bytes(2**20))

    def descriptors() -> int:
        # Those of this folder: other threads of the process open and close theirs.
        return sum(link.startswith(str(tmp_path)) for link in links_of_descriptors())

    await store.put("first", memoryview(b"abc"))
    before = descriptors()
    for number in range(count):
        await store.put(f"a{number}", data)
    for number in range(count):
        assert store.release(f"a{number}")
    assert [path.stem for path in files_in(tmp_path)] == ["first"]
    assert descriptors() == before + MAX_REMOVED
    if then == "put":
        await store.put("last", memoryview(b"abc"))
    elif then == "get":
        assert bytes(await store.get("first")) == b"abc"
    if then != "delete":
        assert descriptors() == before
    await store.delete("first")
    await store.delete("last")
    # The lock of the folder is closed too.
    assert descriptors() == before - 1
    assert is_empty(tmp_path)
