"""Where the threads of a process of tests were when it ended in the midst of one: the last lines of a run say it.

A test that outlives its time limit is interrupted, and if it waits on, faulthandler ends its process. What that prints
is lost among the output of other processes. So each process writes the stacks into a file of its own, where it is
interrupted and where it ends, and the process that started it prints them at the end of the run.
"""

from __future__ import annotations

import faulthandler
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, final

import pytest

__all__ = ["LostStacks", "WrittenStacks", "innermost", "plugin_of"]

#: Of so many frames, the innermost, the file and the line are shown for each thread.
FRAMES = 12

#: The name under which a process of tests is told the folder of its file.
_FOLDER = "folder of stacks"


def innermost(dump: str, frames: int = FRAMES) -> str:
    """Return what faulthandler has written, with the innermost frames of each thread alone."""
    lines: list[str] = []
    left_out = count = 0
    for line in [*dump.splitlines(), ""]:
        is_frame = line.startswith("  ")
        if not is_frame and left_out:
            lines.append(f"  ... and {left_out} more")
        left_out, count = (left_out, count + 1) if is_frame else (0, 0)
        if count <= frames:
            lines.append(line)
        else:
            left_out += 1
    return "\n".join(lines).rstrip()


@final
class WrittenStacks:
    """A plugin of a process of tests: its stacks go into a file, which is empty while all is well.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        # Without a buffer, since faulthandler writes into the file itself.
        self._file = path.open("wb", buffering=0)

    def pytest_sessionstart(self) -> None:
        """Have what ends the process at once, such as a fault of memory, write the stacks there, too.

        When plugins are configured, pytest asks for another file, after this.
        """
        faulthandler.enable(self._file)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Have the stacks written there if the test goes on for too long; pytest has just asked for another file."""
        limit = float(item.config.getini("faulthandler_timeout") or 0.0)
        if limit > 0.0:
            is_end = bool(item.config.getini("faulthandler_exit_on_timeout"))
            faulthandler.dump_traceback_later(limit, file=self._file, exit=is_end)

    @pytest.hookimpl(wrapper=True, optionalhook=True)
    def pytest_timeout_set_timer(self) -> Iterator[Any]:
        """Have the stacks written there when the test is interrupted: if it waits on, that is where it does."""
        result = yield
        interrupt = signal.getsignal(signal.SIGALRM)

        def write_and_interrupt(number: int, frame: FrameType | None) -> None:
            __tracebackhide__ = True
            self._file.write(b"Interrupted:\n")
            faulthandler.dump_traceback(self._file)
            assert callable(interrupt)
            interrupt(number, frame)

        if callable(interrupt):
            signal.signal(signal.SIGALRM, write_and_interrupt)
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Iterator[Any]:
        """Forget the stacks of a test that has ended."""
        result = yield
        if self._file.tell():
            self._file.seek(0)
            self._file.truncate()
        return result

    def pytest_unconfigure(self) -> None:
        """Close the file, in which nothing is left."""
        faulthandler.disable()
        self._file.close()


@final
class LostStacks:
    """A plugin of the process that starts those of the tests: it prints what they have written, behind all else."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a process of tests where its file is to be."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory()
        node.workerinput[_FOLDER] = self._folder.name

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[Any]:
        """Print the stacks of the processes that have ended in the midst of a test."""
        result = yield
        terminal = session.config.pluginmanager.get_plugin("terminalreporter")
        files = [] if self._folder is None else sorted(Path(self._folder.name).iterdir())
        for file in files:
            if terminal is not None and (written := file.read_text(errors="replace")):
                terminal.section(f"stacks of {file.name}, which did not come to the end of its test")
                terminal.write_line(innermost(written))
        return result

    def pytest_unconfigure(self) -> None:
        """Remove the files."""
        if self._folder is not None:
            self._folder.cleanup()


def plugin_of(config: pytest.Config) -> LostStacks | WrittenStacks:
    """Return the plugin for this process, which runs tests for another one or may start others."""
    told: dict[str, str] = getattr(config, "workerinput", {})
    # The other one does not print them where it has not loaded this.
    is_told = _FOLDER in told and config.pluginmanager.has_plugin("faulthandler")
    return WrittenStacks(Path(told[_FOLDER]) / told["workerid"]) if is_told else LostStacks()
