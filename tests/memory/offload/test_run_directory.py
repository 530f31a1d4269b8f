"""Folders of processes: removed where their process has ended, and nothing else ever is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asyncgrad.graph import DiskStore, save_to_disk
from asyncgrad.memory.offload import run_directory
from tests.memory.offload.scenes import files_in, run_program
from tests.support.house import ROOT
from tests.support.small_disk import run_on_small_disk

fcntl = pytest.importorskip("fcntl", reason="needs flock, fork and modes, which Windows has not")

CRASHES = """
import os, signal, sys
import numpy as np, asyncgrad as ag

async def main():
    x = ag.tensor(np.ones(1000), requires_grad=True)
    async with ag.graph.save_to_disk(sys.argv[1], min_bytes=1):
        kept = np.exp(x)
        os.kill(os.getpid(), signal.SIGKILL)

ag.run(main())
"""


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """The folder that a crashed process has left in `tmp_path`."""
    ended = subprocess.Popen([sys.executable, "-c", "pass"])
    ended.wait()
    folder = tmp_path / f"asyncgrad-run-{ended.pid}-0123456789abcdef"
    folder.mkdir(mode=0o700)
    (folder / "1-abcdef01-0.tensor").write_bytes(b"left")
    (folder / "owner.lock").write_text(json.dumps(signed(folder, ended.pid)))
    return folder


def signed(folder: Path, process: int) -> dict[str, Any]:
    return {**run_directory._this_process(os.getpid()), "folder": folder.name, "process": process, "start": "1"}


def enter(directory: Path) -> None:
    with save_to_disk(directory):
        pass


def listed(directory: Path) -> list[tuple[str, bool]]:
    return sorted((str(path.relative_to(directory)), path.is_dir()) for path in directory.rglob("*"))


def test_what_a_process_that_has_ended_has_left_is_removed(tmp_path: Path, left: Path):
    enter(tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_what_kill_9_has_left_is_removed_by_the_next(tmp_path: Path):
    assert run_program(CRASHES, tmp_path).returncode == -9
    (folder,) = tmp_path.iterdir()
    assert folder.name.startswith("asyncgrad-run-")

    enter(tmp_path)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["run-1", "run-1-0123abcd", "asyncgrad-run-1", "asyncgrad-run-1-0123456789abcdef-copy"]
)
def test_folders_of_others_are_left_alone_whatever_lies_in_and_beside_them(tmp_path: Path, left: Path, name: str):
    folder = tmp_path / name
    folder.mkdir()
    (folder / "1-abcdef01-0.tensor").write_text("mine")
    (folder / "owner.lock").write_text((left / "owner.lock").read_text())
    (tmp_path / f"{name}.lock").touch()
    (tmp_path / f"{name}.txt").touch()

    enter(tmp_path)

    assert (folder / "1-abcdef01-0.tensor").read_text() == "mine"
    assert listed(tmp_path) == sorted(
        [
            (name, True),
            (f"{name}/1-abcdef01-0.tensor", False),
            (f"{name}/owner.lock", False),
            (f"{name}.lock", False),
            (f"{name}.txt", False),
        ]
    )


def _change(**entries: Any) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        path = folder / "owner.lock"
        path.write_text(json.dumps({**json.loads(path.read_text()), **entries}))

    return change


def _no_owner(folder: Path) -> None:
    (folder / "owner.lock").unlink()


def _write(text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / "owner.lock").write_text(text)


def _linked_owner(folder: Path) -> None:
    (folder / "owner.lock").rename(folder.parent / "elsewhere")
    (folder / "owner.lock").symlink_to(folder.parent / "elsewhere")


def _fifo_owner(folder: Path) -> None:
    (folder / "owner.lock").unlink()
    os.mkfifo(folder / "owner.lock")


def _folder_owner(folder: Path) -> None:
    (folder / "owner.lock").unlink()
    (folder / "owner.lock").mkdir()


def _renamed(folder: Path) -> None:
    folder.rename(folder.with_name("asyncgrad-run-1-fedcba9876543210"))


def _linked(folder: Path) -> None:
    folder.rename(folder.parent / "elsewhere")
    folder.symlink_to(folder.parent / "elsewhere")


SPARED: dict[str, Callable[[Path], object]] = {
    "a folder that says nothing yet": _no_owner,
    "a folder that has said nothing yet": lambda folder: (folder / "owner.lock").write_bytes(b""),
    "half a line": _write('{"folder": "asyncg'),
    "no object": _write("[1]"),
    "no text": lambda folder: (folder / "owner.lock").write_bytes(b"\xff\xfe\0"),
    "another host": _change(host=["another", None]),
    "this process": lambda folder: _change(process=os.getpid(), start=run_directory._start_time(os.getpid()))(folder),
    "a process that lives": lambda folder: _change(process=os.getppid(), start=run_directory._start_time(os.getppid()))(
        folder
    ),
    "no process": _change(process=None),
    "a group of processes": _change(process=-1),
    "a process of no system": _change(process=10**30),
    "nested too deeply": _write("[" * 4000),
    "process 0": _change(process=0),
    "a truth value": _change(process=True),
    "a link that says whose it is": _linked_owner,
    "a FIFO that says whose it is": _fifo_owner,
    "a folder that says whose it is": _folder_owner,
    "a copy under another name": _renamed,
    "a link to a folder": _linked,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SPARED)
def test_a_folder_whose_process_may_live_is_left_alone(tmp_path: Path, left: Path, kind: str):
    SPARED[kind](left)
    before = listed(tmp_path)

    enter(tmp_path)

    assert listed(tmp_path) == before


def test_a_folder_whose_lock_is_held_is_left_alone_though_its_process_has_ended(tmp_path: Path, left: Path):
    before = listed(tmp_path)
    with (left / "owner.lock").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        enter(tmp_path)
        assert listed(tmp_path) == before

    enter(tmp_path)
    assert listed(tmp_path) == []


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system does not tell when a process was started")
def test_the_folder_of_a_process_whose_number_another_one_has_is_removed(tmp_path: Path, left: Path):
    _change(process=os.getpid(), start="1")(left)

    enter(tmp_path)

    assert listed(tmp_path) == []


def test_the_folder_of_a_process_from_before_the_host_was_started_again_is_removed(tmp_path: Path, left: Path):
    _change(process=os.getpid(), start=run_directory._start_time(os.getpid()), boot="another")(left)

    enter(tmp_path)

    assert listed(tmp_path) == []


def test_what_else_lies_in_the_folder_of_an_ended_process_is_left(tmp_path: Path, left: Path):
    (left / "thesis").write_text("mine")
    (left / "thesis.txt").write_text("mine")
    (left / "below").mkdir()
    (left / "below" / "1-abcdef01-0.tensor").write_text("mine")
    (left / "link").symlink_to(tmp_path)

    enter(tmp_path)
    enter(tmp_path)

    assert [name for name, _ in listed(left)] == ["below", "below/1-abcdef01-0.tensor", "link", "thesis", "thesis.txt"]


def test_a_link_among_the_files_of_an_ended_process_is_removed_and_not_what_it_leads_to(tmp_path: Path, left: Path):
    mine = tmp_path / "mine"
    mine.write_text("mine")
    (left / "2.tensor").symlink_to(mine)

    enter(tmp_path)

    assert listed(tmp_path) == [("mine", False)]


async def test_what_else_lies_in_the_folder_of_a_process_is_left_at_its_end(tmp_path: Path):
    store = DiskStore(tmp_path)

    await store.put("a", memoryview(b"abc"))
    (path,) = files_in(tmp_path)
    (path.parent / "thesis").write_text("mine")
    await store.delete("a")

    assert [path.name for path in files_in(tmp_path)] == ["thesis"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_a_folder_of_another_user_is_left_alone(tmp_path: Path, left: Path):
    os.chown(left, 12345, 12345)
    before = listed(tmp_path)
    enter(tmp_path)
    assert listed(tmp_path) == before

    os.chown(left, 0, 0)
    os.chown(left / "owner.lock", 12345, 12345)
    enter(tmp_path)
    assert listed(tmp_path) == before


@pytest.mark.slow
def test_a_child_of_a_killed_process_keeps_what_it_reads(tmp_path: Path):
    finished = run_program(
        """
        import os, signal, sys
        import numpy as np, asyncgrad as ag

        x = ag.tensor(np.linspace(0.0, 1.0, 1000), requires_grad=True)

        async def save():
            async with ag.graph.save_to_disk(sys.argv[1], min_bytes=1):
                return np.exp(x)

        (has_ended, ended), (is_done, done) = os.pipe(), os.pipe()
        owner = os.fork()
        if owner:
            os.waitpid(owner, 0)
            os.write(ended, b"x")
            os.close(done)
            os.read(is_done, 1)
            sys.exit()
        y = ag.run(save())
        if os.fork():
            os.kill(os.getpid(), signal.SIGKILL)
        os.read(has_ended, 1)
        with ag.graph.save_to_disk(sys.argv[1]):
            pass
        ag.sync.backward(y.sum())
        print(np.array_equal(x.grad.numpy(), np.exp(x.numpy())), flush=True)
        os._exit(0)
        """,
        tmp_path,
    )

    assert finished.stdout.split() == ["True"], finished.stderr


@pytest.mark.slow
def test_processes_that_begin_crash_and_clean_up_at_once_lose_nothing_that_they_need(tmp_path: Path):
    program = """
        import os, signal, sys
        import numpy as np, asyncgrad as ag

        x = ag.tensor(np.linspace(0.0, 1.0, 1000), requires_grad=True)

        async def step():
            async with ag.graph.save_to_disk(sys.argv[1], min_bytes=1):
                y = np.exp(x).sum()
                if sys.argv[2] == "crashes":
                    os.kill(os.getpid(), signal.SIGKILL)
            await y.backward()

        for number in range(50):
            x.grad = None
            ag.run(step())
            assert np.array_equal(x.grad.numpy(), np.exp(x.numpy()))
        """
    started = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program), str(tmp_path), kind],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for kind in ["lives", "crashes"] * 3
    ]
    ended = [(process.communicate(timeout=50)[1], process.returncode) for process in started]

    assert ended == [("", 0), ("", -9)] * 3
    enter(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_where_the_file_system_has_no_locks_files_are_written_and_nothing_is_removed(
    tmp_path: Path, left: Path, monkeypatch: pytest.MonkeyPatch
):
    def flock(descriptor: int, how: int) -> None:
        raise OSError(95, "Operation not supported")

    before = listed(tmp_path)
    monkeypatch.setattr("fcntl.flock", flock)
    enter(tmp_path)

    assert listed(tmp_path) == before


# A small file system.


def on_small_disk(program: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a program that finds an empty file system of 256 KiB at a directory."""
    return run_on_small_disk(
        directory, "256k", [sys.executable, "-X", "dev", "-c", textwrap.dedent(program), directory]
    )


def test_a_full_file_system_is_an_error_and_neither_gradient_nor_file_is_lost(tmp_path: Path):
    finished = on_small_disk(
        """
        import gc, os, sys
        import numpy as np, asyncgrad as ag

        x = ag.tensor(np.linspace(0.0, 1.0, 10_000), requires_grad=True)

        def forward():
            y = x
            for _ in range(6):
                y = np.sin(np.exp(-y))
            return y.sum()

        ag.sync.backward(forward())
        expected, x.grad = x.grad.numpy(), None

        async def main():
            loss = None
            try:
                async with ag.graph.save_to_disk(sys.argv[1], min_bytes=1):
                    loss = forward()
            except ag.errors.StoreError as error:
                print(error.errno, "No space left on device" in str(error))
            if loss is None:
                loss = forward()
            await loss.backward()
            print(np.array_equal(x.grad.numpy(), expected))

        ag.run(main())
        gc.collect()
        print(os.listdir(sys.argv[1]))
        """,
        tmp_path,
    )

    assert finished.stdout.splitlines() == ["28 True", "True", "[]"], finished.stderr


def test_without_room_for_the_folder_itself_entering_raises_and_leaves_nothing(tmp_path: Path):
    finished = on_small_disk(
        """
        import os, sys
        import asyncgrad as ag

        full = os.path.join(sys.argv[1], "full")
        with open(full, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass
        try:
            with ag.graph.save_to_disk(sys.argv[1]):
                pass
        except ag.errors.StoreError as error:
            print(error.errno, sys.argv[1] in str(error))
        print(os.listdir(sys.argv[1]))
        os.unlink(full)
        with ag.graph.save_to_disk(sys.argv[1]):
            print(len(os.listdir(sys.argv[1])))
        """,
        tmp_path,
    )

    assert finished.stdout.splitlines() == ["28 True", "['full']", "1"], finished.stderr


def test_what_a_crashed_process_has_left_on_a_full_file_system_makes_room_for_the_next(tmp_path: Path):
    finished = on_small_disk(
        """
        import os, signal, sys
        import numpy as np, asyncgrad as ag

        x = ag.tensor(np.ones(25_000), requires_grad=True)

        async def step(crashes):
            async with ag.graph.save_to_disk(sys.argv[1], min_bytes=1):
                y = np.exp(x).sum()
            if crashes:
                os.kill(os.getpid(), signal.SIGKILL)
            await y.backward()

        child = os.fork()
        if child == 0:
            ag.run(step(True))
        print(os.waitpid(child, 0)[1], len(os.listdir(sys.argv[1])))
        ag.run(step(False))
        print(np.array_equal(x.grad.numpy(), np.exp(np.ones(25_000))), os.listdir(sys.argv[1]))
        """,
        tmp_path,
    )

    assert finished.stdout.splitlines() == ["9 1", "True []"], finished.stderr


def test_a_file_system_that_may_only_be_read_is_told_on_entering(tmp_path: Path):
    finished = on_small_disk(
        """
        import os, subprocess, sys
        import asyncgrad as ag

        subprocess.run(["mount", "-o", "remount,ro", sys.argv[1]], check=True)
        try:
            with ag.graph.save_to_disk(sys.argv[1]):
                pass
        except ag.errors.StoreError as error:
            print(error.errno, sys.argv[1] in str(error))
        """,
        tmp_path,
    )

    assert finished.stdout.split() == ["30", "True"], finished.stderr
