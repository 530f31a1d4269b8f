"""`python -m benchmarks.memory`: the peak memory of the checkpointed stack, each case in a process of its own.

Two counts, both of what a forward and a backward need at most beyond what there was before, the gradients of the
weights included. *Allocated*: by tracemalloc, which NumPy reports every array to; compared with the same schedule and
the same arithmetic written by hand in NumPy, which holds nothing that it could do without. *Resident*: what the
operating system had to give the process, which is all that can be known of PyTorch; freed memory that an allocator
keeps counts there.
"""

from __future__ import annotations

import os

# One BLAS thread each, as in the other benchmarks; read once, when the imports below load the libraries.
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import functools
import json
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np

import asyncgrad as ag
from asyncgrad.checkpoint.schedule import Kind, binomial_schedule

from . import checkpoint
from .checkpoint import KINDS, asyncgrad_model, floor, problem, torch_model
from .peers import Array, torch

__all__ = ["allocated", "main", "resident"]


def chain_by_hand(x: Array, *weights: Array) -> Any:
    """Return the result of the stack, and a function that reverses it by the schedule of the chain."""
    pairs = list(zip(weights[::2], weights[1::2], strict=True))
    kept: dict[int, Array] = {}
    actions = binomial_schedule(len(pairs), 8)
    state: Any = x
    inside: Any = None

    def run(kind: Kind, step: int) -> None:
        nonlocal state, inside
        if kind is Kind.KEEP:
            kept[step] = state
        elif kind is Kind.RESTORE:
            state = kept[step]
        elif kind is Kind.DROP:
            del kept[step]
        else:
            w, v = pairs[step]
            inside = np.tanh(state @ w)
            if kind is Kind.ADVANCE:
                state, inside = state + inside @ v, None

    def pullback(g: Any, kind: Kind, step: int) -> list[Array]:
        nonlocal state, inside
        found: list[Array] = []
        while True:
            w, v = pairs[step]
            dinside = g @ v.T
            found.append(inside.T @ g)
            dinside = dinside * (1 - inside * inside)
            found.append(state.T @ dinside)
            g = g + dinside @ w.T
            state = inside = None
            del dinside
            for kind, step in actions:
                if kind is Kind.REVERSE:
                    break
                run(kind, step)
            else:
                return [g, *reversed(found)]

    for kind, step in actions:
        if kind is Kind.REVERSE:
            break
        run(kind, step)
    result = state + inside @ pairs[-1][1]
    return result, lambda g: pullback(g, kind, step)


def work(peer: str, kind: str) -> Any:
    """Return what runs a forward and a backward; everything that exists before them is made now."""
    given = problem()
    assert given.start is not None
    begin = given.start
    if peer == "torch":
        torch.set_num_threads(1)
        leaves = [torch.from_numpy(array).requires_grad_() for array in given.variables]
        start = torch.from_numpy(begin)
        return lambda: torch_model(kind, *leaves).backward(start)
    if peer == "floor":
        by_hand = chain_by_hand if kind == KINDS[3] else functools.partial(floor, kind)
        return lambda: _run_by_hand(by_hand(*given.variables), begin)
    tensors = [ag.asarray(array).requires_grad_() for array in given.variables]
    return lambda: ag.sync.backward(asyncgrad_model(kind, *tensors), begin)


def _run_by_hand(forward: tuple[Array, Any], begin: Array) -> None:
    # The result is there until the backward has ended, as it is for who calls that on it.
    result, pullback = forward
    pullback(begin)
    del result


def allocated(peer: str, kind: str) -> int:
    """Return the peak of what tracemalloc sees, in bytes."""
    run = work(peer, kind)
    # Plans of derivatives, and all else that is made once.
    run()
    run = work(peer, kind)
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def resident(peer: str, kind: str) -> int:
    """Return by how much the peak of the resident memory of this process grows, in bytes; Linux only."""
    run = work(peer, kind)
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    run()
    return _status("VmHWM") - before


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {name}")


def _apart(count: str, peer: str, kind: str) -> float:
    """Return a peak in MB, measured in a process of its own."""
    arguments = [sys.executable, "-m", "benchmarks.memory", count, peer, kind]
    printed = subprocess.run(arguments, capture_output=True, text=True, check=True, env=os.environ).stdout
    return float(json.loads(printed)) / 1e6


def main(arguments: list[str]) -> int:
    """Print the table; or, with arguments, one peak in bytes."""
    if arguments:
        count, peer, kind = arguments
        print(json.dumps((allocated if count == "allocated" else resident)(peer, kind)))
        return 0
    print(f"{checkpoint.LAYERS} layers; MB at most")
    print("| checkpoints            | allocated | × by hand | resident | × torch |")
    print("| ---------------------- | --------: | --------: | -------: | ------: |")
    for kind in KINDS:
        ours, by_hand = _apart("allocated", "asyncgrad", kind), _apart("allocated", "floor", kind)
        held = _apart("resident", "asyncgrad", kind)
        theirs = "-" if torch is None or kind == KINDS[3] else f"{held / _apart('resident', 'torch', kind):.2f}"
        print(f"| {kind:22} | {ours:9.1f} | {ours / by_hand:9.2f} | {held:8.1f} | {theirs:>7} |")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
