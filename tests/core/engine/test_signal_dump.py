"""`ag.engine.dump_on_signal`: a process that hangs says what it waits for when it gets a signal."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.engine import signal_dump
from asyncgrad.errors import ArgumentError, ArgumentTypeError
from tests.support.functions import calling
from tests.support.leaves import leaf

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="this system has no SIGUSR1")

dump_on_signal = ag.engine.dump_on_signal
NOTHING = "No backward is running in this process.\n"


def raised() -> None:
    signal.raise_signal(signal.SIGUSR1)


@pytest.fixture(autouse=True)
def former():
    """Handle the signal by something harmless, and restore what was there."""
    calls: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: calls.append(number))
    yield calls
    signal.signal(signal.SIGUSR1, before)


def test_each_signal_writes_the_description_and_calls_the_former_handler(former):
    file = io.StringIO()
    with dump_on_signal(file=file) as dump:
        raised()
        raised()

    assert file.getvalue() == NOTHING * 2
    assert former == [signal.SIGUSR1] * 2
    assert dump.signal is signal.SIGUSR1


def test_after_its_end_the_former_handler_is_back(former):
    file = io.StringIO()
    dump_on_signal(file=file).close()
    raised()

    assert file.getvalue() == ""
    assert former == [signal.SIGUSR1]


def test_one_that_another_handler_has_replaced_is_passed_through_after_its_end(former):
    first, second = io.StringIO(), io.StringIO()
    outer = dump_on_signal(file=first)
    inner = dump_on_signal(file=second)
    outer.close()
    raised()
    inner.close()

    assert (first.getvalue(), second.getvalue(), len(former)) == ("", NOTHING, 1)


def test_the_handler_from_before_all_is_back_in_whatever_order_they_end(former):
    before = signal.getsignal(signal.SIGUSR1)
    dumps = [dump_on_signal(file=io.StringIO()) for _ in range(3)]
    for number in (1, 0, 2):
        dumps[number].close()

    assert signal.getsignal(signal.SIGUSR1) is before


def test_a_body_that_the_signal_interrupts_is_named():
    file = io.StringIO()
    with dump_on_signal(file=file):
        sync.backward(calling(leaf(2.0), lambda grad: raised()).sum())

    assert "CallingBackward" in file.getvalue()
    assert "raised" in file.getvalue()


def test_a_file_that_cannot_be_written_to_breaks_nothing(former, tmp_path):
    closed = (tmp_path / "closed").open("w")
    closed.close()
    with dump_on_signal(file=closed):
        raised()

    assert former == [signal.SIGUSR1]


def test_a_file_of_the_system_is_written_past_its_buffer(tmp_path: Path):
    with (tmp_path / "dump").open("w") as file, dump_on_signal(file=file):
        raised()

        assert (tmp_path / "dump").read_text() == NOTHING


def test_another_thread_is_told_to_use_the_main_thread():
    errors: list[Any] = []

    def elsewhere() -> None:
        try:
            dump_on_signal()
        except ArgumentError as error:
            errors.append(error)

    thread = threading.Thread(target=elsewhere, name="another")
    thread.start()
    thread.join()

    assert "and this is another: call ag.engine.dump_on_signal(), and close it, in the main thread" in str(errors[0])


def test_a_system_without_the_signal_asks_for_another_one(monkeypatch):
    monkeypatch.delattr(signal_dump.signal, "SIGUSR1")
    with pytest.raises(ArgumentError, match="no SIGUSR1: name a signal that it has"):
        dump_on_signal()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("SIGUSR1",), ArgumentTypeError, "must be a signal, not str"),
        ((True,), ArgumentTypeError, "must be a signal, not bool"),
        ((4000,), ArgumentError, "no signal 4000"),
        ((signal.SIGKILL if hasattr(signal, "SIGKILL") else 9,), ArgumentError, "does not let SIGKILL be handled"),
        ((None, "a path"), ArgumentTypeError, "must be an open text file"),
    ],
)
def test_bad_arguments_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        dump_on_signal(*arguments)


#: Hangs in a body, on the loop that it blocks, or with all tasks waiting; it says so when it does.
PROGRAM = """
import asyncio, sys, time
import asyncgrad as ag
from tests.support.functions import awaiting, calling

def blocks(grad):
    print("hangs", flush=True)
    while True:
        time.sleep(0.01)

async def waits(grad):
    print("hangs", flush=True)
    await asyncio.Event().wait()

ag.engine.dump_on_signal()
x = ag.tensor(2.0, requires_grad=True)
y = awaiting(x, waits) if sys.argv[1] == "waits" else calling(x, blocks)
ag.run(y.backward())
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["blocks", "waits"])
def test_a_process_whose_loop_is_blocked_or_waits_dumps_on_a_signal(kind: str, tmp_path: Path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    process = subprocess.Popen(
        [sys.executable, str(program), kind],
        env={"PYTHONPATH": str(Path(ag.__file__).parent.parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "hangs\n"
        process.send_signal(signal.SIGUSR1)
        text = process.stderr.readline()
        while f", in {kind}: `" not in text:
            text += (more := process.stderr.readline())
            assert more, text
    finally:
        process.kill()
        process.communicate()

    assert text.startswith("1 backward is running in this process.\n")
    assert ("AwaitingBackward" if kind == "waits" else "CallingBackward") in text
