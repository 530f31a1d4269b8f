"""An interrupt at any line of the library leaves nothing switched, and no lock taken, for those who go on after it."""

from __future__ import annotations

import dis
import sys
import threading
from collections.abc import Callable
from contextvars import copy_context
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import optim, sync
from asyncgrad.core.settings.context import _SWITCHED
from asyncgrad.scipy import integrate, optimize
from tests.support.sampling import some
from tests.support.threads import in_threads

A = ag.tensor(2.0, requires_grad=True)
LIBRARY = ag.__file__.rpartition("/")[0] + "/"


class Twice(ag.Function):
    @staticmethod
    def forward(ctx, x):
        return 2.0 * x.numpy()

    @staticmethod
    def backward(ctx, grad):
        return 2.0 * grad


def stepped():
    parameter = ag.tensor([1.0], requires_grad=True)
    parameter.grad = ag.tensor([1.0])
    optim.Adam([parameter]).step()


CALLS: dict[str, Callable[[], object]] = {
    "quad": lambda: integrate.quad(lambda x, a: np.sin(a * x), 0.0, 1.0, (A,)),
    "gradient of quad": lambda: sync.grad(integrate.quad(lambda x, a: a * x, 0.0, 1.0, (A,))[0], [A]),
    "minimize": lambda: optimize.minimize(lambda x, a: ((x - a) ** 2).sum(), np.zeros(2), (A,), options={"maxiter": 1}),
    "root": lambda: optimize.root(lambda x, a: x**3 - a, np.ones(1), (A,)),
    "solve_ivp": lambda: integrate.solve_ivp(lambda t, y, a: -a * y, (0, 0.01), np.ones(1), args=(A,)),
    "jacobian": lambda: sync.jacobian(lambda x: x * x, np.ones(2)),
    "grad": lambda: sync.func.grad(lambda x: (x * x).sum())(np.ones(2)),
    "Function": lambda: Twice.apply(A),
    "Function that records nothing": lambda: Twice.apply(ag.tensor(1.0)),
    "checkpoint": lambda: ag.checkpoint(lambda x: np.sin(x * x), A, use_reentrant=True),
    "step": stepped,
    "backward": lambda: sync.backward(A * A),
}


def interrupted(call: Callable[[], object], line: int) -> int:
    """Interrupt a call at a line of the library, by its number among those that run; return how many have run.

    Where no signal can come, the interrupt comes at the next line.
    """
    seen, is_due = 0, line > 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal seen, is_due
        if not frame.f_code.co_filename.startswith(LIBRARY):
            return None
        if event == "line":
            seen += 1
            if is_due and seen >= line and frame.f_lasti in beginnings_of_lines(frame.f_code):
                is_due = False
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return seen


def beginnings_of_lines(code: CodeType) -> set[int]:
    """Return the offsets at which lines begin and a signal can come.

    For those who trace, one begins where a `with` block ends, too. Python looks for no signal from there until
    `__exit__` has begun, and an interrupt that came there all the same would leave the lock of the block taken for
    ever. So would one at a jump back within a line, to which Python 3.12 finds no handler if tracing raises it.
    """
    steps = [step for step in dis.get_instructions(code) if step.opname not in ("NOP", "PRECALL")]
    ends: set[int] = set()
    for place in reversed(range(len(steps) - 1)):
        names = [step.opname for step in steps[place : place + 4]]
        is_left = names == ["LOAD_CONST", "LOAD_CONST", "LOAD_CONST", "CALL"] and steps[place].argval is None
        is_raised = names[:2] == ["PUSH_EXC_INFO", "WITH_EXCEPT_START"]
        if is_left or is_raised or (names[0] == "SWAP" and steps[place + 1].offset in ends):
            ends.add(steps[place].offset)
    return {offset for offset, _ in dis.findlinestarts(code)} - ends


def switched() -> dict[str, Any]:
    return {variable.name: variable.get() for variable in _SWITCHED}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore")
def test_an_interrupt_at_any_line_leaves_nothing_switched_and_no_lock_taken(name):
    call = CALLS[name]
    # What happens once in a process is done.
    call()
    before = switched()
    lines = interrupted(call, 0)

    def state_after(line: int) -> dict[str, Any]:
        interrupted(call, line)
        return switched()

    for line in some(range(1, lines + 1), 25 / lines, name):
        assert copy_context().run(state_after, line) == before, line
        # A lock may be taken again by the thread that has it, and by no other.
        in_threads(1, lambda _: call())


#: The bodies of functions of a lock and a condition: ways out of a block.
BLOCKS = {
    "ends": "with lock: condition",
    "returns": "with lock: return condition",
    "returns what it computes": "with lock:\n        return [condition for _ in range(3)]",
    "ends after a loop": "with lock:\n        for _ in range(3): condition",
    "raises": "with lock: raise ValueError(condition)",
    "breaks": "for _ in range(3):\n        with lock:\n            if condition: break\n            continue",
}


@pytest.mark.parametrize("condition", [False, True])
@pytest.mark.parametrize("end", BLOCKS)
def test_an_interrupt_comes_in_a_block_or_after_its_end(end, condition):
    scope: dict[str, Any] = {}
    source = f"def block(lock, condition):\n    {BLOCKS[end]}\n    return None"
    exec(compile(source, f"{LIBRARY}block.py", "exec"), scope)  # noqa: S102  # it has a file of the library
    lock = threading.Lock()

    def call() -> None:
        try:
            scope["block"](lock, condition)
        except ValueError:
            assert end == "raises"

    for line in range(interrupted(call, 0) + 1):
        interrupted(call, line)

        assert not lock.locked(), line


def test_a_block_that_is_interrupted_as_it_begins_does_not_begin():
    begun = []

    def enter() -> None:
        with ag.no_grad():
            begun.append(True)

    def enabled_after(line: int) -> bool:
        interrupted(enter, line)
        return ag.is_grad_enabled()

    line = 0
    while not begun:
        line += 1
        is_enabled = copy_context().run(enabled_after, line)
        assert is_enabled or begun, line
    assert line > 5
