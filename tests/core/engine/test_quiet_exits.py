"""A program that an exit ends, wherever it is raised, ends with its status, and tells of nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.support.house import ROOT

#: What asyncio, threads and the interpreter say of what was left behind.
NOISE = [
    "Event loop is closed",
    "Task was destroyed but it is pending",
    "Exception ignored in",
    "Exception in callback",
    "never retrieved",
    "was never awaited",
    "ResourceWarning",
    "Unclosed",
]

BEGIN = """
import asyncio, sys
import numpy as np, asyncgrad as ag
from asyncgrad import learn, nn, optim

ERROR = {"SystemExit": SystemExit(3), "KeyboardInterrupt": KeyboardInterrupt()}[sys.argv[1]]
run = ag.run if sys.argv[2] == "uvloop" else asyncio.run
x = ag.tensor(np.ones(100), requires_grad=True)

def exits(*_):
    raise ERROR

async def exits_later(*_):
    await asyncio.sleep(0)
    raise ERROR

class Store:
    def __init__(self, at):
        self.at, self.kept = at, {}
    async def put(self, key, data):
        if self.at == "put":
            raise ERROR
        self.kept[key] = bytes(data)
    async def get(self, key):
        if self.at == "get":
            raise ERROR
        return self.kept[key]
    async def delete(self, key):
        self.kept.pop(key, None)
        if self.at == "delete":
            raise ERROR

async def with_store(at):
    try:
        async with ag.graph.save_to_store(Store(at), min_bytes=1):
            y = np.exp(x).sum()
        await y.backward()
    except ag.errors.StoreError as error:
        print(type(error.__cause__).__name__)

async def with_hook(hook, device="cpu"):
    y = x.to(device) * 2
    y.register_hook(hook)
    await y.sum().backward()

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(np.ones(2))
    def forward(self, x):
        return exits() if MODEL_EXITS and not self.training else x * self.weight

async def with_learner(loss, evaluate=None):
    model, spec = Model(), learn.ArraySpec((2,))
    options = {"inputs": spec, "example": spec, "evaluate": evaluate, "evaluate_every": 1}
    async with learn.Learner(model, loss, optim.SGD(model, lr=0.1), **options) as learner:
        await asyncio.gather(learner.predict([1, 2]), learner.predict([1, 2]), learner.learn([1, 2]))
        await asyncio.sleep(0.2)

MODEL_EXITS = False
fine = lambda model, batch: (model(batch) ** 2).sum()
"""

#: By a name, what ends with the status of the error.
EXITS = {
    "main": "run(exits_later())",
    "hook": "run(with_hook(exits))",
    "async hook": "run(with_hook(exits_later))",
    "blocking backward": "y = x * 2; y.register_hook(exits); ag.sync.backward(y.sum())",
    "final callback": "run(with_hook(lambda grad: ag.engine.queue_callback(exits)))",
    "async final callback": "run(with_hook(lambda grad: ag.engine.queue_callback(exits_later)))",
    "worker": "run(ag.forward(exits))",
    "async forward": "run(ag.forward(exits_later))",
    "loss": "run(with_learner(exits))",
    "async loss": "run(with_learner(exits_later))",
    "prediction": "MODEL_EXITS = True; run(with_learner(fine))",
    "evaluation": "run(with_learner(fine, exits_later))",
}
#: By a name, what ends by itself, and what it says of the error that it caught.
GOES_ON = {
    "put": ('run(with_store("put"))', "{error}\n"),
    "get": ('run(with_store("get"))', "{error}\n"),
    "delete": ('run(with_store("delete"))', ""),
}


def run_program(program: str, error: str, loop: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-X", "dev", "-c", BEGIN + program, error, loop],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def check_quiet(stderr: str) -> None:
    assert [line for line in stderr.splitlines() if any(noise in line for noise in NOISE)] == []
    assert stderr.count("Traceback (most recent call last)") <= 1 or "During handling of the above" in stderr


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("error", ["SystemExit", "KeyboardInterrupt"])
@pytest.mark.parametrize("where", EXITS)
def test_an_exit_ends_the_program_with_its_status_and_leaves_nothing_to_be_told(where, error, loop):
    finished = run_program(EXITS[where], error, loop)

    assert finished.returncode == (3 if error == "SystemExit" else -signal.SIGINT), finished.stderr
    check_quiet(finished.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("where", GOES_ON)
def test_an_exit_in_a_store_is_its_failure_and_leaves_nothing_to_be_told(where):
    program, said = GOES_ON[where]

    finished = run_program(program, "SystemExit", "asyncio")

    assert (finished.returncode, finished.stdout) == (0, said.format(error="SystemExit")), finished.stderr
    check_quiet(finished.stderr)


@pytest.mark.slow
def test_noise_is_noticed():
    finished = run_program("async def never(): pass\nnever()", "SystemExit", "asyncio")

    with pytest.raises(AssertionError):
        check_quiet(finished.stderr)
