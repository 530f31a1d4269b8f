"""Send micro-batches through three stages in the orders of GPipe and 1F1B, and draw who works when.

    python examples/pipeline.py --out timeline.png

Each stage stands for a layer on another machine: its forward takes 10 ms and its backward 20 ms, and it does one thing
at a time. Micro-batches flow through all stages at once, so that a step takes little longer than the busiest stage
works. GPipe keeps the graphs of all micro-batches before the first backward; 1F1B keeps one for each stage. The
gradients have the same bits.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path
from typing import Any, final

import numpy as np

import asyncgrad as ag

try:
    from matplotlib import style
    from matplotlib.figure import Figure
except ModuleNotFoundError as missing:
    sys.exit(f"this example needs {missing.name}, which is not installed: pip install -e '.[demo]'")

STAGES = 3
MICRO_BATCHES = 8
FORWARD, BACKWARD = 0.010, 0.020

#: What a stage did: its number, "forward" or "backward", when it began and when it ended.
Work = tuple[int, str, float, float]


@final
class Machine:
    """Simulates a machine with one layer, which does one thing at a time."""

    def __init__(self, number: int, log: list[Work]) -> None:
        self.number = number
        self.weight = ag.tensor(np.random.default_rng(number).standard_normal((8, 8)) / 3, requires_grad=True)
        self._log = log
        self._busy = asyncio.Lock()

    async def work(self, what: str, seconds: float) -> None:
        """Take some time, once the machine is free."""
        async with self._busy:
            began = time.perf_counter()
            await asyncio.sleep(seconds)
            self._log.append((self.number, what, began, time.perf_counter()))

    async def __call__(self, x: Any) -> Any:
        """Return the output of the layer."""
        return await Layer.apply(self, x, self.weight)


@final
class Layer(ag.Function):
    """tanh(x @ w), computed elsewhere."""

    @staticmethod
    async def forward(ctx: Any, machine: Machine, x: Any, w: Any) -> Any:
        await machine.work("forward", FORWARD)
        y = np.tanh(x @ w)
        ctx.machine = machine
        ctx.save_for_backward(x, w, y)
        return y

    @staticmethod
    async def backward(ctx: Any, grad: Any) -> Any:
        x, w, y = ctx.saved_tensors
        await ctx.machine.work("backward", BACKWARD)
        inner = grad * (1 - y * y)
        return None, inner @ w.T if ctx.needs_input_grad[1] else None, x.T @ inner


async def step(schedule: str) -> tuple[list[Work], list[bytes], int]:
    """Run one step; return who worked when, the bits of the gradients, and the most graphs that were kept."""
    log: list[Work] = []
    machines = [Machine(number, log) for number in range(STAGES)]
    x = np.random.default_rng(9).standard_normal((32, 8))
    await ag.distributed.pipeline(
        machines, x, micro_batches=MICRO_BATCHES, loss=lambda y: (y * y).mean(), schedule=schedule
    )
    kept = most = 0
    # A graph is kept from the end of the first stage's forward to the end of its backward.
    for _, what, _, _ in sorted((one for one in log if one[0] == 0), key=lambda one: one[3]):
        kept += 1 if what == "forward" else -1
        most = max(most, kept)
    grads = [machine.weight.grad for machine in machines]
    return log, [grad.numpy().tobytes() for grad in grads if grad is not None], most


def draw(logs: dict[str, list[Work]], path: Path) -> None:
    """Draw one time line for each schedule."""
    style.use(Path(__file__).parent / "pictures.mplstyle")
    figure = Figure(figsize=(9, 4))
    for axes, (schedule, log) in zip(figure.subplots(len(logs), 1, sharex=True), logs.items(), strict=True):
        first = min(began for _, _, began, _ in log)
        for stage in range(STAGES):
            for what, colour in (("forward", "C0"), ("backward", "C1")):
                mine = [one for one in log if one[:2] == (stage, what)]
                spans = [(1000 * (began - first), 1000 * (ended - began)) for _, _, began, ended in mine]
                axes.broken_barh(spans, (stage - 0.4, 0.8), facecolors=colour, edgecolor="white")
                for number, (begin, length) in enumerate(spans):
                    axes.text(
                        begin + length / 2, stage, str(number + 1), ha="center", va="center", color="white", fontsize=7
                    )
        axes.set_yticks(range(STAGES), [f"stage {number + 1}" for number in range(STAGES)])
        axes.invert_yaxis()
        axes.set_title(schedule)
        axes.grid(axis="y", visible=False)
    figure.axes[-1].set_xlabel("time, ms (blue: forward, orange: backward; the numbers are micro-batches)")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


async def main(path: Path) -> None:
    """Run both schedules, print what they took, and draw them."""
    logs, bits = {}, []
    for schedule, name in (("gpipe", "GPipe"), ("1f1b", "1F1B")):
        log, grads, kept = await step(schedule)
        wall = max(ended for *_, ended in log) - min(began for _, _, began, _ in log)
        print(f"{name}: {1000 * wall:.0f} ms, at most {kept} graphs kept")
        logs[name] = log
        bits.append(grads)
    alone = STAGES * MICRO_BATCHES * (FORWARD + BACKWARD)
    print(f"one after another: {1000 * alone:.0f} ms; the busiest stage alone: {1000 * alone / STAGES:.0f} ms")
    print(f"gradients have the same bits: {bits[0] == bits[1]}")
    draw(logs, path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "output" / "pipeline.png")
    ag.run(main(parser.parse_args().out))
