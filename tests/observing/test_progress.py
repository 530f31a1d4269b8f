"""`ag.progress`: a backward that takes its time shows how far it is, and its bar goes with it."""

from __future__ import annotations

import asyncio
import fcntl
import importlib.util
import io
import logging
import os
import re
import struct
import sys
import termios
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ArgumentError, ArgumentTypeError
from asyncgrad.testing import ScheduleLoop
from tests.support.clocks import TickingClock, hand_in
from tests.support.failing import Trouble
from tests.support.functions import awaiting
from tests.support.leaves import leaf

STYLES = ["text", "tqdm", "rich"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def in_virtual_time(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run a coroutine on a loop whose time passes only when nothing can run, by which backward passes measure, too."""
    loop = ScheduleLoop(0)
    with hand_in(loop.time), asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main())


async def two_seconds(grad: Any) -> None:
    await asyncio.sleep(2.0)


def slow(x: Any, body: Any = two_seconds) -> Any:
    return awaiting(np.sin(x), body).sum()


def shown(style: str = "text", main: Any = None, **options: Any) -> str:
    """Return what is written while `main`, by default one slow backward, runs."""
    # To a file that is no terminal, rich writes nothing.
    file = Terminal() if style == "rich" else io.StringIO()

    async def default() -> None:
        await slow(leaf(1.0)).backward()

    async def observed() -> None:
        async with ag.progress(style=style, file=file, **options):
            await (main or default)()

    in_virtual_time(observed)
    return file.getvalue()


def test_lines_of_text_tell_nodes_seconds_and_what_is_waited_for():
    lines = shown().splitlines()

    assert len(lines) == 2
    pattern = r"backward \d+: 1 of 4 nodes, 1\.0 s, waits for AwaitingBackward #\d+"
    assert re.fullmatch(pattern, lines[0])
    assert re.fullmatch(r"backward \d+: 4 of 4 nodes, done after 2\.0 s", lines[1])


@pytest.mark.parametrize("style", ["tqdm", "rich"])
def test_bars_of_libraries_tell_the_same(style):
    text = shown(style)

    # A terminal cuts what comes behind a long number.
    assert "waits for Await" in text
    assert "1/4" in text


@pytest.mark.parametrize("style", STYLES)
def test_a_backward_that_ends_soon_shows_nothing(style):
    async def soon():
        await np.sin(leaf(1.0)).sum().backward()

    assert shown(style, soon) == ""


@pytest.mark.parametrize("style", STYLES)
def test_a_backward_of_few_nodes_shows_nothing(style):
    assert shown(style, minimum_nodes=5) == ""


def test_a_shorter_interval_refreshes_more_often():
    assert len(shown(interval=0.25).splitlines()) == 8


async def fails(grad: Any) -> None:
    await asyncio.sleep(2.0)
    raise Trouble("in the middle")


async def failing() -> None:
    with pytest.raises(Trouble):
        await slow(leaf(1.0), fails).backward()


async def cancelled() -> None:
    task = asyncio.create_task(slow(leaf(1.0)).backward())
    await asyncio.sleep(1.5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(("main", "end"), [(failing, "Trouble after 2.0 s"), (cancelled, "CancelledError after 1.5 s")])
def test_a_backward_that_fails_or_is_cancelled_closes_its_bar(main, end):
    assert shown(main=main).splitlines()[-1].endswith(end)


@pytest.mark.parametrize("main", [failing, cancelled])
def test_a_bar_of_tqdm_is_closed_by_failure_and_cancellation(main):
    shown("tqdm", main)

    from tqdm.auto import tqdm

    assert len(tqdm._instances) == 0


def test_nested_backward_passes_have_a_line_each():
    async def main():
        nested = slow(leaf(2.0))

        async def body(grad):
            await nested.backward()

        await slow(leaf(1.0), body).backward()

    lines = shown(main=main).splitlines()
    assert [line.endswith("done after 2.0 s") for line in lines if line.startswith("  backward")] == [False, True]
    assert [line.endswith("done after 2.0 s") for line in lines if line.startswith("backward")] == [False, False, True]


def test_of_many_at_once_four_have_a_line_and_the_others_share_one():
    async def main():
        await asyncio.gather(*[slow(leaf(1.0)).backward() for _ in range(7)])

    lines = shown(main=main, interval=1.5).splitlines()
    assert len({line.partition(":")[0] for line in lines}) == 5
    assert "other backward passes: 3 of 12 nodes, 3 running" in lines
    assert "other backward passes: 3 of 12 nodes, done" in lines


def test_nodes_at_workers_count_too() -> None:
    def chain(x: Any) -> Any:
        for _ in range(5):
            x = np.tanh(x)
        return x

    async def main() -> None:
        transport = ag.distributed.SimulatedTransport(["a", "b"])
        first, second = (ag.distributed.stage(chain, transport=transport) for _ in range(2))
        y = await first(ag.tensor([0.5], requires_grad=True))
        y.register_hook(two_seconds)
        await (await second(y)).sum().backward()

    lines = shown(main=main, interval=1.5).splitlines()

    # At home there are four: the sum, two calls and the leaf. Each stage has five, and its leaf.
    assert "8 of 16 nodes" in lines[0]
    assert "16 of 16 nodes, done" in lines[-1]


def test_an_outer_block_shows_nothing_of_an_inner_one():
    outer = io.StringIO()

    async def main():
        with ag.progress(style="text", file=outer):
            assert await asyncio.to_thread(lambda: None) is None
            async with ag.progress(style="text", file=(inner := io.StringIO())):
                await slow(leaf(1.0)).backward()
            return inner.getvalue()

    assert in_virtual_time(main) != ""
    assert outer.getvalue() == ""


def test_other_tasks_are_not_shown_and_a_decorated_function_is():
    file = io.StringIO()

    @ag.progress(style="text", file=file)
    async def training():
        await slow(leaf(1.0)).backward()

    async def main():
        await slow(leaf(1.0)).backward()
        assert file.getvalue() == ""
        await training()

    in_virtual_time(main)
    assert len(file.getvalue().splitlines()) == 2


def test_a_blocking_backward_shows_its_progress_between_nodes():
    file, y = io.StringIO(), leaf(1.0)
    for _ in range(20):
        y = np.sin(y)
    with hand_in(TickingClock()), ag.progress(style="text", file=file, interval=5.5):
        sync.backward(y.sum())

    lines = file.getvalue().splitlines()
    done = [int(found[1]) for line in lines if (found := re.search(r": (\d+) of 22 nodes, \d", line))]
    assert done == sorted(set(done))
    assert 3 <= len(done) <= 8
    assert "done after" in lines[-1]


def test_a_blocking_backward_that_needs_a_loop_shows_what_it_waits_for():
    file = io.StringIO()

    async def three_intervals(grad):
        await asyncio.sleep(0.06)

    with ag.progress(style="text", file=file, interval=0.02):
        sync.backward(slow(leaf(1.0), three_intervals))

    assert "waits for AwaitingBackward" in file.getvalue()


class BrokenFile(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError("the pipe is broken")


@pytest.mark.parametrize("style", STYLES)
def test_a_broken_output_does_not_break_the_backward_and_is_logged_once(style, caplog):
    x = leaf(1.0)

    async def main():
        with ag.progress(style=style, file=BrokenFile(), interval=0.3):
            await slow(x).backward()

    with caplog.at_level(logging.WARNING, "asyncgrad"):
        in_virtual_time(main)
    assert x.grad is not None
    assert [record.name for record in caplog.records] == ["asyncgrad.progress"]
    assert "the pipe is broken" in caplog.text


def test_a_terminal_gets_one_line_that_is_written_over():
    file = Terminal()

    async def main():
        with ag.progress(style="text", file=file):
            await asyncio.gather(slow(leaf(1.0)).backward(), slow(leaf(1.0)).backward())

    in_virtual_time(main)
    assert file.getvalue().count("\n") == 1
    assert file.getvalue().count("\r") > 20
    assert " | backward" in file.getvalue()


@pytest.mark.parametrize("width", [12, 40, 80])
@pytest.mark.parametrize("count", [1, 4, 6])
def test_no_line_is_wider_than_the_terminal(width, count, monkeypatch):
    file = Terminal()
    monkeypatch.setenv("COLUMNS", str(width))

    async def main():
        with ag.progress(style="text", file=file, interval=0.5):
            await asyncio.gather(*(slow(leaf(1.0)).backward() for _ in range(count)))

    in_virtual_time(main)
    lines = file.getvalue().removesuffix("\n").split("\r")
    assert all(len(line) < width for line in lines)
    # Where there is no room for the name and the numbers, the numbers stay.
    assert lines[1].startswith("bac") == (width > 12)
    assert " of " in lines[1]
    assert "\n" not in "".join(lines)


def test_the_width_is_that_of_the_terminal_that_is_written_to(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    own, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 30, 0, 0))

    async def main():
        with os.fdopen(terminal, "w") as file, ag.progress(style="text", file=file, interval=0.5):
            await slow(leaf(1.0)).backward()

    in_virtual_time(main)
    with os.fdopen(own, "rb", buffering=0) as file:
        lines = file.read(4096).decode().split("\r")
    assert lines[1].startswith("backward")
    assert all(len(line.strip()) < 30 for line in lines)


@pytest.mark.parametrize("style", STYLES)
def test_a_bar_has_the_name_of_its_task(style):
    async def main():
        await asyncio.create_task(slow(leaf(1.0)).backward(), name="the [/critic]\nof prompts")

    text = shown(style, main)

    assert "the [/critic] of prompts" in text
    assert "backward" not in text


def test_a_nested_backward_keeps_its_number_and_wide_letters_are_counted_as_two_columns(monkeypatch):
    file = Terminal()
    monkeypatch.setenv("COLUMNS", "20")
    nested = [slow(leaf(2.0)), slow(leaf(2.0))]

    async def body(grad):
        await nested.pop().backward()

    async def main():
        with ag.progress(style="text", file=file, interval=0.5):
            await asyncio.create_task(slow(leaf(1.0), body).backward(), name="勾配" * 20)

    in_virtual_time(main)
    lines = file.getvalue().split("\r")
    assert all(sum(1 + (ord(one) > 0x3000) for one in line.rstrip("\n")) < 20 for line in lines)
    assert "勾配…: 1 of 4 nodes" in lines[1]
    assert "backward" in shown(main=lambda: asyncio.create_task(slow(leaf(1.0), body).backward(), name="outer"))


def test_the_display_changes_no_bits_and_compiles_nothing():
    def gradient():
        x = leaf(0.3, 1.7, -0.4)
        sync.backward((np.sin(x) * np.cos(x) + x * x).sum())
        return x.grad.numpy().tobytes()

    plain = gradient()
    with ag.compiled_autograd(after=1), ag.progress(style="text", file=io.StringIO()):
        assert [gradient() for _ in range(3)] == [plain] * 3
    assert ag.engine.compiled_stats().reasons["a display that counts nodes"] >= 3


def test_without_a_package_its_style_names_the_extra_and_the_default_is_text(monkeypatch):
    monkeypatch.setattr(sys.modules["asyncgrad.observing.progress"], "find_spec", lambda package: None)

    with pytest.raises(ModuleNotFoundError, match=re.escape("pip install 'asyncgrad[progress]'")):
        ag.progress(style="rich")
    assert ag.progress()._display._style == "text"


def test_the_default_style_is_that_of_tqdm_where_it_is_installed():
    assert importlib.util.find_spec("tqdm") is not None
    assert ag.progress(file=sys.stderr)._display._style == "tqdm"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"style": "bars"}, ArgumentError, "style of ag.progress must be one of 'tqdm', 'rich', 'text'"),
        ({"file": "out.txt"}, ArgumentTypeError, "file of ag.progress must be an open text file, not str"),
        ({"minimum_nodes": 1.5}, ArgumentTypeError, "minimum_nodes must be an int"),
        ({"interval": -1}, ArgumentError, "interval must be a finite number of at least 0"),
    ],
)
def test_bad_arguments_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        ag.progress(**options)
