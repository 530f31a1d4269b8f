"""What a test that is a coroutine function runs on, and what it is held to (tests/support/loops.py)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.loops import LOOP_KINDS

ROOT = Path(__file__).parents[2]

#: Each is the body of a test, and what is said of it.
FAULTS = {
    "a task is left behind": ("asyncio.ensure_future(asyncio.sleep(9))", "tasks left behind"),
    "an error is lost": (
        "asyncio.ensure_future(failing()); await settle()",
        "Task exception was never retrieved",
    ),
    "an error is lost at the end of the loop": (
        "KEPT.append(closing()); await anext(KEPT[-1])",
        "asynchronous generator",
    ),
    "a coroutine is not awaited": ("asyncio.sleep(0)", "was never awaited"),
    "a socket is left open": ("socket.socket()", "ResourceWarning"),
    "it fails": ("assert 1 == 2", "assert 1 == 2"),
    "it does not end": (
        "signal.setitimer(signal.ITIMER_REAL, 0.1); await asyncio.Event().wait()",  # the plugin's own alarm, at once
        "Timeout (>60.0s)",
    ),
}
HEAD = """
import asyncio, signal, socket

KEPT = []

async def failing():
    await asyncio.sleep(0)  # asyncio says nothing of an eager task that fails in its first step
    raise ValueError

async def settle():
    for _ in range(9):
        await asyncio.sleep(0)

async def closing():
    try:
        yield
    finally:
        raise ValueError
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest says of a file of one test for each fault, and of one without."""
    file = tmp_path_factory.mktemp("faults") / "test_faults.py"
    bodies = {**{name: body for name, (body, _) in FAULTS.items()}, "no fault": "await asyncio.sleep(0)"}
    file.write_text(
        HEAD + "".join(f"\nasync def test_{name.replace(' ', '_')}():\n    {body}\n" for name, body in bodies.items())
    )
    (file.parent / "conftest.py").write_text("from tests.conftest import *\n")
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-rA", "-p", "no:cacheprovider", f"--rootdir={ROOT}"]
    ran = subprocess.run(
        [*command, "-c", ROOT / "pyproject.toml", file],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    return ran.stdout


@pytest.mark.slow
@pytest.mark.parametrize("kind", LOOP_KINDS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_test_that_is_a_coroutine_function_fails_if(told, fault, kind):
    name = f"test_{fault.replace(' ', '_')}[{kind}]"
    assert [line for line in told.splitlines() if line.startswith(("FAILED", "ERROR")) and name in line]
    assert FAULTS[fault][1] in told


@pytest.mark.parametrize("kind", LOOP_KINDS)
def test_a_test_without_a_fault_passes_on_each_loop(told, kind):
    passed = [
        line for line in told.splitlines() if line.startswith("PASSED") and line.endswith(f"test_no_fault[{kind}]")
    ]
    assert len(passed) == 1
    assert not [line for line in told.splitlines() if line.startswith(("FAILED", "ERROR")) and "no_fault" in line]


async def test_only_asyncios_loop_is_in_debug_mode(request):
    kind = request.node.callspec.id
    assert asyncio.get_running_loop().get_debug() == (kind == "asyncio")
