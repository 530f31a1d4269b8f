"""An interrupt at any line of the library leaves nothing switched for those who go on after it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import copy_context
from types import FrameType
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import optim, sync
from asyncgrad.core.settings.context import _SWITCHED
from asyncgrad.scipy import integrate, optimize
from tests.support.sampling import some

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


#: None of them adds to a `.grad`, under a lock: at the end of a `with lock:` tracing comes before the `__exit__`, where
#: no signal can, and the lock would stay taken.
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
}


def interrupted(call: Callable[[], object], line: int) -> int:
    """Interrupt a call at a line of the library, by its number among those that run; return how many have run."""
    seen = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal seen
        if not frame.f_code.co_filename.startswith(LIBRARY):
            return None
        if event == "line":
            seen += 1
            if seen == line:
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


def switched() -> dict[str, Any]:
    return {variable.name: variable.get() for variable in _SWITCHED}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore")
def test_an_interrupt_at_any_line_leaves_nothing_switched(name):
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
