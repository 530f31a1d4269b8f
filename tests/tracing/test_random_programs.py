"""Random programs, compiled, have the bits of the programs on the traced numbers and on others, gradients too."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.errors import GraphError
from tests.support.programs import worlds
from tests.support.programs.check import NAMES
from tests.support.programs.generate import draw
from tests.support.sampling import cases
from tests.tracing.running import grads_of

#: How many programs are drawn, and the seed of the first; 20,000 were, once, and 3,000 with kernels.
PROGRAMS = {"auto": (cases(200), 0), "fused": (cases(60), 100_000)}


def outcome(function: Any, leaves: list[np.ndarray]) -> Any:
    try:
        return grads_of(function, leaves)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("backend", PROGRAMS)
def test_a_random_program_has_the_same_bits_compiled(monkeypatch, backend):
    if backend == "fused":
        pytest.importorskip("llvmlite")
    points = worlds.leaves_of
    # Arrays of their own in each call, and no hooks: both would be refused.
    monkeypatch.setattr(worlds, "leaves_of", lambda case: [np.array(one) for one in points(case)])
    counts = Counter[str]()
    number, first = PROGRAMS[backend]
    for seed in range(first, first + number):
        program = draw(seed)
        scope = {**NAMES, "observe": lambda *_: None}
        exec(compile(program.source, f"<program of seed {seed}>", "exec"), scope)  # noqa: S102  # it is its source
        function = scope.pop("program")
        jitted = ag.jit(lambda *leaves, function=function: function(*leaves)[0], backend=backend, verify=0)
        rng = np.random.default_rng(seed)
        for call in range(4):
            moved = [
                (leaf + (call > 1) * 1e-3 * rng.standard_normal(leaf.shape)).astype(leaf.dtype)
                for leaf in program.leaves.values()
            ]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                expected, found = outcome(jitted.function, moved), outcome(jitted, moved)
            if found is GraphError and expected is not GraphError:
                # It reads an array of a case.
                break
            if found != expected:
                pytest.fail(f"call {call} of the program of seed {seed} differs\n{program}\n{jitted.counts}")
        counts["replayed" if jitted.counts["replayed"] else "eager"] += 1
        counts["fused"] += bool(jitted.counts["fused"])

    assert counts["replayed"] >= 0.4 * number, "too few programs are compiled to say anything"
    if backend == "fused":
        assert counts["fused"] >= 0.25 * number, "too few programs have kernels to say anything"
