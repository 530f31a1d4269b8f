"""A run of tests whose process ends in the midst of one says at its end where its threads were."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.stacks import innermost

ROOT = Path(__file__).parents[2]

CONFTEST = """
from tests.support.few_reports import leave_reports_out
from tests.support.stacks import plugin_of

def pytest_configure(config):
    config.pluginmanager.register(plugin_of(config))
    leave_reports_out(config)
"""
SETTINGS = """
[pytest]
timeout = 60
faulthandler_timeout = 2
faulthandler_exit_on_timeout = true
"""
TESTS = """
import signal, threading, time

def interrupted_in_a_wait():
    signal.setitimer(signal.ITIMER_REAL, 0.01)  # the plugin's own alarm, at once
    threading.Event().wait()

def waits_on():
    while True:
        time.sleep(0.05)

def test_that_passes():
    pass

def test_that_is_interrupted():
    interrupted_in_a_wait()

def test_that_waits_on():
    try:
        interrupted_in_a_wait()
    finally:
        waits_on()

def test_with_a_fault():
    signal.raise_signal(signal.SIGSEGV)
"""


@pytest.fixture
def told(tmp_path: Path) -> str:
    """What pytest says of TESTS, which another process runs for it."""
    for name, text in {"conftest.py": CONFTEST, "pytest.ini": SETTINGS, "test_waits.py": TESTS}.items():
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-n1", "-p", "no:cacheprovider", "-p", "no:asyncio", "-c"]
    return subprocess.run(
        [*command, tmp_path / "pytest.ini", tmp_path], check=False, cwd=ROOT, capture_output=True, text=True
    ).stdout


@pytest.mark.slow
def test_a_run_ends_with_the_stacks_of_a_process_that_did_not_come_to_the_end_of_its_test(told):
    summary, _, stacks = told.partition("stacks of gw0")
    stacks, _, fault = stacks.partition("stacks of gw1")
    interrupted, _, ended = stacks.partition("Timeout (")

    assert "3 failed, 1 passed" in summary
    assert "in interrupted_in_a_wait" in interrupted
    assert "in test_that_waits_on" in interrupted
    assert "in waits_on" in ended
    assert "Segmentation fault" in fault
    assert "in test_with_a_fault" in fault
    assert "in test_that_is_interrupted" not in stacks


def test_of_each_thread_the_innermost_frames_are_shown():
    def dump(count: int) -> list[str]:
        return [f'  File "a.py", line {line} in f' for line in range(count)]

    shown = innermost("\n".join(["Thread 0x1:", *dump(5), "", "Thread 0x2:", *dump(2)]), frames=3).splitlines()

    assert shown == ["Thread 0x1:", *dump(3), "  ... and 2 more", "", "Thread 0x2:", *dump(2)]
