"""A program that an exit ends, wherever it is raised, ends with its status, and tells of nothing left behind."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.house import ROOT
from tests.support.sampling import some

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

#: What a process does that runs many programs, each in a child of its own, which begins with everything imported: what
#: is imported where it is used would be imported by each child, in seconds on a busy machine.
PROCESS = """
import asyncio, importlib, json, os, sys
import numpy as np, asyncgrad as ag
from asyncgrad import learn, nn, optim

for name in ("numpy.testing", "scipy.linalg.blas", "uvloop"):
    try:
        importlib.import_module(name)
    except ImportError:
        pass  # no child finds it either
learn.Learner, nn.Module, optim.SGD, ag.forward, ag.graph.save_to_store, ag.sync.backward, ag.engine.queue_callback

for program, error, loop, *files in json.loads(sys.argv[1]):
    child = os.fork()
    if not child:
        for descriptor, path in zip((1, 2), files):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
        exec(program)
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
BEGIN = """
ERROR = {"SystemExit": SystemExit(3), "KeyboardInterrupt": KeyboardInterrupt()}[error]
run = ag.run if loop == "uvloop" else asyncio.run
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
        await asyncio.Event().wait()

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


@dataclass(frozen=True)
class Case:
    """A program, the error that ends it, and the kind of loop that it runs on."""

    where: str
    error: str
    loop: str


@dataclass(frozen=True)
class Ended:
    """What has become of a program."""

    status: int
    stdout: str
    stderr: str


def run_programs(cases: Sequence[Case], programs: Mapping[str, str], folder: Path) -> dict[Case, Ended]:
    """Run the program of each case, and return how it has ended."""
    places = [[str(folder / f"{index} {name}") for name in ("stdout", "stderr")] for index in range(len(cases))]
    given = [
        (BEGIN + programs[case.where], case.error, case.loop, *paths) for case, paths in zip(cases, places, strict=True)
    ]
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", PROCESS, json.dumps(given)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    statuses = map(int, done.stdout.split())
    return {
        case: Ended(status, *[Path(path).read_text() for path in paths])
        for case, status, paths in zip(cases, statuses, places, strict=True)
    }


def check_quiet(stderr: str) -> None:
    assert [line for line in stderr.splitlines() if any(noise in line for noise in NOISE)] == []
    assert stderr.count("Traceback (most recent call last)") <= 1 or "During handling of the above" in stderr


ERRORS = ["SystemExit", "KeyboardInterrupt"]


def cases_of(where: str) -> list[Case]:
    return some([Case(where, *one) for one in itertools.product(ERRORS, ["asyncio", "uvloop"])], of=where)


@pytest.mark.slow
@pytest.mark.sampled("error")
@pytest.mark.parametrize("error", ERRORS)
def test_an_exit_ends_the_program_with_its_status_and_leaves_nothing_to_be_told(error, tmp_path):
    cases = [case for where in EXITS for case in cases_of(where) if case.error == error]

    for case, ended in run_programs(cases, EXITS, tmp_path).items():
        assert ended.status == (3 if case.error == "SystemExit" else -signal.SIGINT), (case, ended.stderr)
        check_quiet(ended.stderr)


@pytest.mark.slow
def test_an_exit_in_a_store_is_its_failure_and_leaves_nothing_to_be_told(tmp_path):
    cases = [Case(where, "SystemExit", "asyncio") for where in GOES_ON]
    programs = {where: program for where, (program, _) in GOES_ON.items()}

    for case, ended in run_programs(cases, programs, tmp_path).items():
        said = GOES_ON[case.where][1].format(error="SystemExit")
        assert (ended.status, ended.stdout) == (0, said), (case, ended.stderr)
        check_quiet(ended.stderr)


@pytest.mark.slow
def test_noise_is_noticed(tmp_path):
    programs = {"noise": "async def never(): pass\nnever()"}

    (ended,) = run_programs([Case("noise", "SystemExit", "asyncio")], programs, tmp_path).values()

    with pytest.raises(AssertionError):
        check_quiet(ended.stderr)
