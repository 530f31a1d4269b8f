"""`python -m benchmarks.memory`: the peak memory of the checkpointed stack, each case in a process of its own.

`python -m benchmarks.memory deep`: the bytes per node of a chain of a million nodes, and for how long the chain blocks
an event loop.

Both counts are the peak of a forward and a backward above the memory before them, with the gradients of the weights.
*Allocated* is counted by tracemalloc, to which NumPy reports every array, and compared with the same schedule and
arithmetic written by hand in NumPy with the least memory. *Resident* is the memory that the operating system gave the
process, with freed memory that an allocator keeps; it is the only count for PyTorch.
"""

from __future__ import annotations

import os

# One BLAS thread, as in the other benchmarks. The libraries read these variables when the imports below load them.
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import asyncio
import contextlib
import functools
import json
import subprocess
import sys
import tracemalloc
import weakref
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import asyncgrad as ag
from asyncgrad.memory.checkpoint.schedule import ActionKind, binomial_schedule

from . import checkpoint
from .checkpoint import KINDS, asyncgrad_model, floor, problem, torch_model
from .peers import Array, torch

__all__ = ["allocated", "main", "node_bytes", "pauses", "resident"]

#: The nodes of the deep chain.
NODES = 1_000_000

#: The kinds of steps of the deep chain: a function, and how many nodes it records.
STEPS: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "y * x + x": (lambda y, x: y * x + x, 2),
    "y + x": (lambda y, x: y + x, 1),
    "-y": (lambda y, _: -y, 1),
}

#: How many steps are recorded between two turns of the loop.
STEPS_A_TURN = 100

PHASES = ("built", "run", "dropped")


def chain_by_hand(x: Array, *weights: Array) -> Any:
    """Return the result of the stack, and a function that computes the gradients by the schedule of the chain."""
    pairs = list(zip(weights[::2], weights[1::2], strict=True))
    kept: dict[int, Array] = {}
    actions = binomial_schedule(len(pairs), 8)
    state: Any = x
    inside: Any = None

    def run(kind: ActionKind, step: int) -> None:
        nonlocal state, inside
        if kind is ActionKind.KEEP:
            kept[step] = state
        elif kind is ActionKind.RESTORE:
            state = kept[step]
        elif kind is ActionKind.DROP:
            del kept[step]
        else:
            w, v = pairs[step]
            inside = np.tanh(state @ w)
            if kind is ActionKind.ADVANCE:
                state, inside = state + inside @ v, None

    def pullback(g: Any, kind: ActionKind, step: int) -> list[Array]:
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
                if kind is ActionKind.REVERSE:
                    break
                run(kind, step)
            else:
                return [g, *reversed(found)]

    for kind, step in actions:
        if kind is ActionKind.REVERSE:
            break
        run(kind, step)
    result = state + inside @ pairs[-1][1]
    return result, lambda g: pullback(g, kind, step)


def work(peer: str, kind: str) -> Any:
    """Return a function that runs a forward and a backward; everything that they need is created before."""
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
    # The result lives until the backward has ended, as it does for a caller of result.backward().
    result, pullback = forward
    # From a copy, as the engine does: the caller may write into theirs meanwhile.
    pullback(begin.copy())
    del result


def allocated(peer: str, kind: str) -> int:
    """Return the peak memory in bytes, as counted by tracemalloc."""
    # Two warm-up runs create everything that is cached; a backward may be compiled in its second run.
    for _ in range(2):
        work(peer, kind)()
    run = work(peer, kind)
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def resident(peer: str, kind: str) -> int:
    """Return by how many bytes the peak of this process's resident memory grows; Linux only."""
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


def _leaf(peer: str) -> Any:
    array = np.full(1, 0.5)
    if peer == "torch":
        torch.set_num_threads(1)
        return torch.from_numpy(array).requires_grad_()
    return ag.asarray(array).requires_grad_()


def node_bytes(peer: str, step: str) -> list[float]:
    """Return the bytes per node of a deep chain when it is built, at the peak of its backward, and after it is dropped.

    For asyncgrad they are counted by tracemalloc, arrays included; for PyTorch they are resident memory.
    """
    make, nodes = STEPS[step]
    x = _leaf(peer)

    def chain(length: int) -> Any:
        y = x
        for _ in range(length // nodes):
            y = make(y, x)
        return y

    if peer == "torch":
        before = _status("VmRSS")
        y = chain(NODES)
        built = _status("VmRSS")
        y.backward()
        run = _status("VmHWM")
        del y
        return [(size - before) / NODES for size in (built, run, _status("VmRSS"))]
    # A warm-up creates everything that is cached.
    ag.sync.backward(chain(100))
    # Tracing is slow, and all nodes are alike: a tenth of them is enough.
    count = NODES // 10
    tracemalloc.start()
    y = chain(count)
    built = tracemalloc.get_traced_memory()[1]
    ag.sync.backward(y)
    run = tracemalloc.get_traced_memory()[1]
    del y
    return [size / count for size in (built, run, tracemalloc.get_traced_memory()[0])]


def pauses(peer: str, how: str) -> list[float]:
    """Return the longest turn of an event loop, in ms, while a deep chain is built, differentiated, and dropped.

    Args:
        peer: "torch" runs its backward in a thread; "idle" has no chain.
        how: "held off" for `no_full_collections`; otherwise the garbage collector is left as it is.
    """
    return ag.run(_pauses(peer, how))


async def _pauses(peer: str, how: str) -> list[float]:
    longest = dict.fromkeys(PHASES, 0.0)
    phase = PHASES[0]

    async def watch() -> None:
        last = perf_counter()
        while True:
            await asyncio.sleep(0)
            now = perf_counter()
            longest[phase], last = max(longest[phase], now - last), now

    watcher = asyncio.get_running_loop().create_task(watch())
    with ag.no_full_collections() if how == "held off" else contextlib.nullcontext():
        y = x = _leaf(peer)
        oldest = None
        for index in range(NODES // 2):
            if peer != "idle":
                y = y * x + x
            if peer == "asyncgrad" and not index:
                oldest = weakref.ref(y.grad_fn)
            if not index % STEPS_A_TURN:
                await asyncio.sleep(0)
        phase = PHASES[1]
        if peer != "idle":
            await (asyncio.to_thread(y.backward) if peer == "torch" else y.backward())
        await asyncio.sleep(0)
        phase = PHASES[2]
        del y
        for _ in range(10):
            await asyncio.sleep(0)
        while oldest is not None and oldest() is not None:  # noqa: ASYNC110  # nothing else tells
            await asyncio.sleep(0)
    watcher.cancel()
    return [1e3 * seconds for seconds in longest.values()]


def _main_deep() -> int:
    print(f"a chain of {NODES:,} nodes of one element; bytes a node")
    print("| step                   | built | run | dropped | torch, resident |")
    print("| ---------------------- | ----: | --: | ------: | --------------: |")
    for step in STEPS:
        ours = _measured("node_bytes", "asyncgrad", step)
        theirs = "-" if torch is None else f"{_measured('node_bytes', 'torch', step)[1]:.0f}"
        print(f"| {step:22} | {ours[0]:5.0f} | {ours[1]:3.0f} | {ours[2]:7.0f} | {theirs:>15} |")
    print("\nthe longest turn of an event loop meanwhile, ms")
    print("| loop                            | built | run | dropped |")
    print("| ------------------------------- | ----: | --: | ------: |")
    rows = {
        "asyncgrad, no_full_collections": ("asyncgrad", "held off"),
        "asyncgrad": ("asyncgrad", "as it is"),
        "PyTorch, backward in a thread": ("torch", "as it is"),
        "idle": ("idle", "as it is"),
    }
    for title, (peer, how) in rows.items():
        if peer == "torch" and torch is None:
            continue
        built, run, dropped = _measured("pauses", peer, how)
        print(f"| {title:31} | {built:5.1f} | {run:3.1f} | {dropped:7.1f} |")
    return 0


def _measured(count: str, peer: str, kind: str) -> Any:
    """Return the result of one of the functions of this module, called in a process of its own."""
    arguments = [sys.executable, "-m", "benchmarks.memory", count, peer, kind]
    printed = subprocess.run(arguments, capture_output=True, text=True, check=True, env=os.environ).stdout
    return json.loads(printed)


def _peak(count: str, peer: str, kind: str) -> float:
    """Return a peak in MB, measured in a process of its own."""
    return float(_measured(count, peer, kind)) / 1e6


#: The functions that can be called in a process of their own.
_MEASURES: dict[str, Callable[[str, str], Any]] = {
    measure.__name__: measure for measure in (allocated, resident, node_bytes, pauses)
}


def main(arguments: list[str]) -> int:
    """Print the table of the stack, or that of the deep chain; return the exit status."""
    # A child process prints one measurement as JSON.
    if len(arguments) == 3 and arguments[0] in _MEASURES:
        count, peer, kind = arguments
        print(json.dumps(_MEASURES[count](peer, kind)))
        return 0
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description="Measure asyncgrad's memory.")
    parser.add_argument(
        "what", nargs="?", choices=["deep"], help="a chain of a million nodes; a checkpointed stack if left out"
    )
    if parser.parse_args(arguments).what == "deep":
        return _main_deep()
    print(f"{checkpoint.LAYERS} layers; MB at most")
    print("| checkpoints            | allocated | × by hand | resident | × torch |")
    print("| ---------------------- | --------: | --------: | -------: | ------: |")
    for kind in KINDS:
        ours, by_hand = _peak("allocated", "asyncgrad", kind), _peak("allocated", "floor", kind)
        held = _peak("resident", "asyncgrad", kind)
        theirs = "-" if torch is None or kind == KINDS[3] else f"{held / _peak('resident', 'torch', kind):.2f}"
        print(f"| {kind:22} | {ours:9.1f} | {ours / by_hand:9.2f} | {held:8.1f} | {theirs:>7} |")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
