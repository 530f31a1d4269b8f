"""`python -m tests.scipy.memory_of_steps odeint`: the memory of few and of many steps of an integration, as JSON."""

from __future__ import annotations

import gc
import json
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from asyncgrad import sync
from asyncgrad.scipy import integrate
from tests.support.leaves import leaf

START, TIMES = np.array([1.0, 0.5]), np.array([0.2, 0.7, 1.5])


def solve(solver: str, longest: float, rate: Any) -> tuple[Any, Callable[[], int]]:
    """Return the states at TIMES, by steps that are no longer, and what counts the calls of the velocity."""
    calls = 0

    def velocity(t: Any, y: Any, rate: Any) -> Any:
        nonlocal calls
        calls += 1
        return rate * np.cos(t) * y

    if solver == "odeint":
        found = integrate.odeint(velocity, START, TIMES, (rate,), hmax=longest, mxstep=100_000, tfirst=True)
    else:
        span = (TIMES[0], TIMES[-1])
        found = integrate.solve_ivp(velocity, span, START, t_eval=TIMES, max_step=longest, args=(rate,)).y
    return found, lambda: calls


def measure(solver: str, longest: float, rate: Any) -> dict[str, int]:
    """Return the bytes kept between forward and backward, the most in use, and the calls of both."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    found, calls = solve(solver, longest, rate)
    gc.collect()
    kept = tracemalloc.get_traced_memory()[0] - before
    sync.grad(found.sum(), [rate])
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    return {"kept": kept, "peak": peak, "calls": calls()}


def main(solver: str) -> None:
    """Print what few and many steps take."""
    rate = leaf(0.5)
    longest = 0.02 if solver == "odeint" else 0.1
    # What is kept of a first run for good is not of its steps: plans, how long bodies take, compiled functions.
    for steps in (longest, longest, longest / 10):
        measure(solver, steps, rate)
    json.dump([measure(solver, longest, rate), measure(solver, longest / 10, rate)], sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
