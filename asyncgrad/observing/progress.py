"""`ag.progress`: shows how far each backward is: nodes that have ended, of all, and what it waits for now."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable
from importlib.util import find_spec
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Never, Protocol, Self, final
from unicodedata import category, combining, east_asian_width

from ..core.engine.dependency_executor import DependencyExecutor
from ..core.engine.graph_task import GraphTask
from ..core.engine.observation import NODES_ELSEWHERE
from ..core.settings.arguments import describe, must_be, number, whole_number
from ..core.settings.extras import missing_extra
from ..core.settings.observers import BACKWARDS, BackwardObserver, ObserverBlock
from ..core.settings.scheduling import CLOCK
from ..errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from typing import TextIO


__all__ = ["progress"]

LOG = logging.getLogger("asyncgrad.progress")

#: How many backward passes have a bar each; further ones share one.
MAX_BARS = 4
#: How many columns of a task's name are shown.
_LONGEST_NAME = 32
#: The names that asyncio gives to tasks, which say nothing.
_GIVEN_NAME = re.compile(r"Task-\d+")


class _Bars(Protocol):
    """Draws bars, each for one backward, by a handle."""

    def open(self, label: str, total: int) -> Any:
        """Return the handle of a new bar."""

    def update(self, bar: Any, done: int, total: int, note: str) -> None:
        """Draw a bar anew."""

    def close(self, bar: Any, counts: tuple[int, int] | None, note: str) -> None:
        """Remove a bar, with its last counts if they are known."""


def _counted(done: int, total: int) -> str:
    return f": {done:,} of {total:,} nodes"


def _columns(character: str) -> int:
    """Return how many columns of a terminal a character takes."""
    return 0 if combining(character) else 2 if east_asian_width(character) in "FW" else 1


def _width_of(text: str) -> int:
    return sum(map(_columns, text))


def _cut(text: str, width: int) -> str:
    """Return text that takes at most so many columns; an ellipsis stands for what is left out."""
    if _width_of(text) <= width:
        return text
    kept, left = [], width - 1
    for character in text:
        left -= _columns(character)
        if left < 0:
            break
        kept.append(character)
    return "".join(kept).rstrip() + "…" if width > 0 else ""


def _printable(text: str) -> str:
    """Return text without what would move the cursor: line breaks and other control characters become spaces."""
    return "".join(" " if category(one) in ("Cc", "Cf", "Zl", "Zp") else one for one in text).strip()


def _terminal_width(file: Any) -> int:
    """Return how many columns the terminal of a file has; where it does not tell, what COLUMNS says, or 80."""
    try:
        found = os.get_terminal_size(file.fileno()).columns
    except (AttributeError, OSError, ValueError):
        # No file of the system: a notebook's, or one in memory.
        found = 0
    return found or shutil.get_terminal_size().columns


@final
class _TextBars:
    """Lines of plain text: one that is written over in a terminal, and a new one for each update elsewhere.

    The line in a terminal is never wider than that, since one that wraps could not be written over.
    """

    __slots__ = ("_file", "_is_terminal", "_texts", "_width")

    def __init__(self, file: Any) -> None:
        self._file = file
        self._is_terminal = bool(getattr(file, "isatty", bool)())
        #: By the list of a bar, its label, its counts and its note.
        self._texts: dict[int, tuple[str, str, str]] = {}
        #: The columns of the line that is there.
        self._width = 0

    def open(self, label: str, total: int) -> list[str]:
        return [label, ""]

    def update(self, bar: list[str], done: int, total: int, note: str) -> None:
        bar[1] = _counted(done, total)
        self._draw(bar, note)

    def close(self, bar: list[str], counts: tuple[int, int] | None, note: str) -> None:
        if counts is not None:
            bar[1] = _counted(*counts)
        self._draw(bar, note)
        del self._texts[id(bar)]
        if self._is_terminal and not self._texts:
            self._file.write("\n")
            self._width = 0

    def _draw(self, bar: list[str], note: str) -> None:
        self._texts[id(bar)] = bar[0], bar[1], note
        if self._is_terminal:
            # A terminal may go to the next line when its last column is written, so that stays free.
            room = max(_terminal_width(self._file) - 1, 1)
            line = self._line(room)
            width = _width_of(line)
            self._file.write("\r" + line + " " * (min(self._width, room) - width))
            self._width = width
        else:
            self._file.write(f"{bar[0]}{bar[1]}, {note}\n")
        self._file.flush()

    def _line(self, room: int) -> str:
        """Return one line for all bars: in full if there is room, else without notes, else as many as there is room."""
        full = " | ".join(f"{label}{count}, {note}" for label, count, note in self._texts.values())
        if _width_of(full) <= room:
            return full
        label, count, _ = next(iter(self._texts.values()))
        counted = [one + other for one, other, _ in self._texts.values()]
        if len(counted) == 1 and _width_of(counted[0]) <= room:
            return _cut(full, room)
        for shown in range(len(counted), 0, -1):
            more = f" | {len(counted) - shown} more" if shown < len(counted) else ""
            line = " | ".join(counted[:shown]) + more
            if _width_of(line) <= room:
                return line
        # A long name does not take the place of the numbers; where there is room for three letters, none is shown.
        if (left := room - len(count)) < 4:
            return _cut(count.removeprefix(": "), room)
        return _cut(label, left) + count


@final
class _TqdmBars:
    """Bars of tqdm, in a terminal or a notebook."""

    __slots__ = ("_file", "_tqdm")

    def __init__(self, file: Any) -> None:
        from tqdm.auto import tqdm

        self._tqdm, self._file = tqdm, file

    def open(self, label: str, total: int) -> Any:
        return self._tqdm(
            total=total, desc=label, unit="node", file=self._file, leave=False, mininterval=0, dynamic_ncols=True
        )

    def update(self, bar: Any, done: int, total: int, note: str) -> None:
        bar.total, bar.n = total, done
        bar.set_postfix_str(note, refresh=True)

    def close(self, bar: Any, counts: tuple[int, int] | None, note: str) -> None:
        bar.close()


@final
class _RichBars:
    """Bars of rich."""

    __slots__ = ("_progress", "_shown")

    def __init__(self, file: Any) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}", markup=False),
        )
        self._progress = Progress(*columns, console=Console(file=file), auto_refresh=False, transient=True)
        self._shown = 0

    def open(self, label: str, total: int) -> Any:
        self._shown += 1
        if self._shown == 1:
            self._progress.start()
        return self._progress.add_task(label, total=total, note="")

    def update(self, bar: Any, done: int, total: int, note: str) -> None:
        self._progress.update(bar, completed=done, total=total, note=note)
        self._progress.refresh()

    def close(self, bar: Any, counts: tuple[int, int] | None, note: str) -> None:
        self._progress.remove_task(bar)
        self._shown -= 1
        if not self._shown:
            self._progress.stop()


#: How bars are drawn, by style; the package that each needs.
_STYLES: dict[str, tuple[Callable[[Any], _Bars], str | None]] = {
    "tqdm": (_TqdmBars, "tqdm"),
    "rich": (_RichBars, "rich"),
    "text": (_TextBars, None),
}


@final
class _Display(BackwardObserver):
    """The bars of all backward passes of one `progress`.

    Args:
        style: a key of `_STYLES`.
        file: what is written to; None for `sys.stderr` at the time.
        minimum_nodes: how many nodes a backward must have to be shown.
        interval: the seconds between two refreshes, and before the first.
    """

    __slots__ = (
        "_bars",
        "_elsewhere",
        "_file",
        "_is_broken",
        "_lock",
        "_minimum",
        "_names",
        "_own",
        "_shared",
        "_style",
        "_sums",
        "interval",
    )

    counts_nodes = True

    def __init__(self, style: str, file: Any, minimum_nodes: int, interval: float) -> None:
        self._style, self._file, self._minimum = style, file, minimum_nodes
        self.interval = interval
        #: Reentrant: loops in several threads may show their backward passes at once, and a write may end one.
        self._lock = threading.RLock()
        self._bars: _Bars | None = None
        #: Whether the output has failed; then nothing is shown any more.
        self._is_broken = False
        #: By backward, the name of the task that awaits it, where somebody has given it one.
        self._names: dict[GraphTask, str] = {}
        #: The bars of backward passes that have their own.
        self._own: dict[GraphTask, Any] = {}
        #: The bar of all others, and for each of them how many nodes have ended, of how many.
        self._shared: Any = None
        self._sums: dict[GraphTask, tuple[int, int]] = {}
        #: For each backward, how many nodes have ended in other processes, of how many; None where not yet counted.
        self._elsewhere: dict[GraphTask, tuple[int, int | None]] = {}

    def begin(self, graph_task: GraphTask) -> None:
        """Note the name of the task that calls a backward."""
        name = "" if graph_task.outer is not None else _task_name()
        if name:
            self._names[graph_task] = name

    def look(self, graph_task: GraphTask) -> None:
        """Draw the bar of a backward anew; the first time, if it has enough nodes, open it."""
        counts = self._counts(graph_task)
        if counts is not None and counts[1] >= self._minimum and not self._is_broken:
            self._draw(lambda bars: self._show(bars, graph_task, *counts))

    def ran_elsewhere(self, graph_task: GraphTask, count: int) -> None:
        """Note that nodes have ended in another process."""
        with self._lock:
            done, total = self._elsewhere.get(graph_task, (0, None))
            self._elsewhere[graph_task] = done + count, total

    def end(self, graph_task: GraphTask, error: BaseException | None) -> None:
        """Close the bar of a backward, however that has ended."""
        if graph_task in self._own or graph_task in self._sums:
            how = "done" if error is None else type(error).__name__
            note = f"{how} after {_seconds(graph_task):.1f} s"
            # After a failure nothing is queued any more, so that the counts of the last look say more.
            counts = self._counts(graph_task) if error is None else None
            self._draw(lambda bars: self._remove(bars, graph_task, counts, note))
        self._elsewhere.pop(graph_task, None)
        self._names.pop(graph_task, None)

    def _counts(self, graph_task: GraphTask) -> tuple[int, int] | None:
        """Return how many nodes have ended, of how many, those in other processes included."""
        executor = graph_task.executor
        if not isinstance(executor, DependencyExecutor):
            return None
        counts = executor.counts()
        if counts is None or not (NODES_ELSEWHERE or graph_task in self._elsewhere):
            return counts
        with self._lock:
            done, total = self._elsewhere.get(graph_task, (0, None))
            if total is None:
                total = sum(count for node, count in list(NODES_ELSEWHERE.items()) if executor.has(node))
                self._elsewhere[graph_task] = done, total
        return counts[0] + done, counts[1] + max(done, total)

    def _show(self, bars: _Bars, graph_task: GraphTask, done: int, total: int) -> None:
        note = f"{_seconds(graph_task):.1f} s{_waits_for(graph_task)}"
        bar = self._own.get(graph_task)
        if bar is None and graph_task not in self._sums and len(self._own) < MAX_BARS:
            label = self._names.get(graph_task, f"backward {graph_task.id}")
            bar = self._own[graph_task] = bars.open("  " * graph_task.reentrant_depth + label, total)
        if bar is not None:
            bars.update(bar, done, total, note)
            return
        self._sums[graph_task] = (done, total)
        if self._shared is None:
            self._shared = bars.open("other backward passes", total)
        ended, nodes = map(sum, zip(*self._sums.values(), strict=True))
        bars.update(self._shared, ended, nodes, f"{len(self._sums)} running")

    def _remove(self, bars: _Bars, graph_task: GraphTask, counts: tuple[int, int] | None, note: str) -> None:
        bar = self._own.pop(graph_task, None)
        if bar is not None:
            bars.close(bar, counts, note)
        if self._sums.pop(graph_task, None) is not None and not self._sums:
            bar, self._shared = self._shared, None
            bars.close(bar, None, "done")

    def _draw(self, draw: Callable[[_Bars], None]) -> None:
        """Draw; an output that is broken does not break the backward, and shows nothing any more."""
        with self._lock:
            try:
                if self._bars is None:
                    self._bars = _STYLES[self._style][0](sys.stderr if self._file is None else self._file)
                draw(self._bars)
            except Exception as error:
                self._is_broken, self._bars = True, None
                self._own.clear()
                self._sums.clear()
                LOG.warning("the progress of a backward cannot be shown any more: %r", error)


def _task_name() -> str:
    """Return the name that somebody has given to the running task; "" where nobody has, or no task runs."""
    if asyncio._get_running_loop() is None or (task := asyncio.current_task()) is None:
        return ""
    name = task.get_name()
    return "" if _GIVEN_NAME.fullmatch(name) else _cut(_printable(name), _LONGEST_NAME)


def _seconds(graph_task: GraphTask) -> float:
    clock = graph_task.context.get(CLOCK, perf_counter)
    return clock() - getattr(graph_task, "since", clock())


def _waits_for(graph_task: GraphTask) -> str:
    """Return the names of nodes that have suspended."""
    names = [task.get_name() for task in graph_task.node_tasks() if not task.done()]
    if not names:
        return ""
    return f", waits for {names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")


@final
class progress(ObserverBlock):
    """Inside, each backward that takes its time shows how far it is: nodes ended of all, what it waits for, elapsed.

    A bar appears once a backward has run for `interval`, and goes when it ends, fails or is cancelled. It has the name
    of the task that awaits the backward, if you have given it one, and no line is wider than the terminal. Up to four
    backward passes, nested ones among them, have a bar each; all further ones share one. It is refreshed by a timer of
    the event loop, and in a blocking backward (`asyncgrad.sync`) between nodes; never once per node.

    A context manager, for `with` and `async with`, and a decorator of functions of all kinds. It holds for the current
    context only. To know how many nodes there are, a backward inside counts its edges first, and is not compiled.

    Args:
        style: "tqdm" (in a notebook too), "rich", or "text", lines of plain text; None takes tqdm if it is installed.
        file: an open text file; None for `sys.stderr`.
        minimum_nodes: a backward of fewer nodes is not shown.
        interval: the seconds between two refreshes, and before the first; None for 0.1, and for lines of text that no
            terminal shows 1.

    Raises:
        ModuleNotFoundError: the package of the style is not installed.
        ArgumentError: there is no such style, or a number is negative.
        ArgumentTypeError: an argument is of another type.

    Example:
        >>> import sys, numpy as np, asyncgrad as ag
        >>> async def main():
        ...     x = ag.tensor([1.0, 2.0], requires_grad=True)
        ...     async with ag.progress(style="text", file=sys.stdout):
        ...         await np.sin(x).sum().backward()  # too short to be shown
        ...     return x.grad.shape
        >>> ag.run(main())
        (2,)
    """

    __slots__ = ("_display",)
    _observers = BACKWARDS

    def __init__(
        self,
        *given: Never,
        style: str | None = None,
        file: TextIO | None = None,
        minimum_nodes: int = 2,
        interval: float | None = None,
    ) -> None:
        if given:
            raise ArgumentTypeError(
                f"ag.progress takes no {describe(given[0])}: it shows the backward passes of a block, so write "
                "with ag.progress(): around it; a loop of yours is shown by tqdm(iterable)"
            )
        chosen = _choose_style(style)
        if file is not None and not hasattr(file, "write"):
            raise ArgumentTypeError(must_be("file of ag.progress", "an open text file", file, "write open(path, 'w')"))
        nodes = whole_number(minimum_nodes, "minimum_nodes", 0)
        if interval is None:
            is_log = chosen == "text" and not getattr(sys.stderr if file is None else file, "isatty", bool)()
            seconds = 1.0 if is_log else 0.1
        else:
            seconds = number(interval, "interval", 0)
        self._display = _Display(chosen, file, nodes, seconds)

    def _value(self) -> Any:
        # An inner block takes the place of an outer one.
        return (*(one for one in BACKWARDS.of_context() if not isinstance(one, _Display)), self._display)

    def _clone(self) -> Self:
        return self

    async def __aenter__(self) -> None:
        self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)


def _choose_style(style: str | None) -> str:
    """Return a style whose package is installed.

    Raises:
        ModuleNotFoundError: the package of `style` is not installed.
        ArgumentError: there is no such style.
    """
    if style is None:
        return "tqdm" if _is_installed("tqdm") else "text"
    if not isinstance(style, str) or style not in _STYLES:
        names = ", ".join(map(repr, _STYLES))
        raise ArgumentError(must_be("style of ag.progress", f"one of {names}, or None", style))
    package = _STYLES[style][1]
    if package is not None and not _is_installed(package):
        raise missing_extra(
            f"ag.progress(style={style!r}) needs {package}",
            "progress",
            error=ModuleNotFoundError(f"No module named {package!r}", name=package),
        )
    return style


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ValueError:
        # As of a package that a test has put in its place.
        return package in sys.modules
