"""Random graphs of texts, trees and arrays, against an oracle that walks them backwards one node after the other."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict

import pytest

import asyncgrad as ag
from tests.core.values.kinds import KINDS
from tests.support.sampling import cases


class Mixed(ag.Function):
    """A step with inputs and outputs of several kinds; an output's gradient reaches each input of its kind."""

    @staticmethod
    def forward(ctx, step, *values):
        ctx.step = step
        ctx.set_materialize_grads(False)
        return tuple(KINDS[kind].made(f"{step.name}.{index}") for index, kind in enumerate(step.makes))

    @staticmethod
    async def backward(ctx, *gradients):
        for _ in range(ctx.step.waits):
            await asyncio.sleep(0)
        return (None, *ctx.step.rule(gradients))


class StepOf:
    """What one step of a random graph is."""

    def __init__(self, rng, name, inputs, kinds):
        self.name = name
        self.inputs = inputs  # (the number of a step, or of a leaf as -1 - number; the output)
        self.kinds = kinds
        self.makes = [rng.choice(list(KINDS)) for _ in range(rng.randint(1, 2))]
        self.waits = rng.randint(0, 2)

    def rule(self, gradients):
        """Return the gradients of the inputs, None where no output of the kind has one."""
        found = []
        for index, kind in enumerate(self.kinds):
            total = None
            for made, gradient in zip(self.makes, gradients, strict=True):
                if made == kind and gradient is not None:
                    mapped = KINDS[kind].mapped(f"{self.name}-{index}", gradient)
                    total = mapped if total is None else KINDS[kind].add(total, mapped)
            found.append(total)
        return tuple(found)


class Graph:
    """A random graph, and what the oracle says of its gradients."""

    def __init__(self, seed):
        rng = random.Random(seed)
        self.leaf_kinds = [rng.choice(list(KINDS)) for _ in range(rng.randint(1, 4))]
        self.leaves = [KINDS[kind].leaf() for kind in self.leaf_kinds]
        places = [(-1 - index, 0, kind) for index, kind in enumerate(self.leaf_kinds)]
        self.steps, self.results = [], []
        for number in range(rng.randint(2, 9)):
            chosen = [rng.choice(places) for _ in range(rng.randint(1, 3))]
            step = StepOf(rng, f"s{number}", [one[:2] for one in chosen], [one[2] for one in chosen])
            values = [self.leaves[-1 - at] if at < 0 else self.results[at][output] for at, output in step.inputs]
            self.steps.append(step)
            self.results.append(Mixed.apply(step, *values))
            places += [(number, index, kind) for index, kind in enumerate(step.makes)]
        last = rng.sample([place for place in places if place[0] >= 0], k=min(2, len(places) - len(self.leaves)))
        self.roots = [(at, output, KINDS[kind].gradient(number)) for number, (at, output, kind) in enumerate(last)]

    def expected(self):
        arrived = defaultdict(list)
        for at, output, gradient in self.roots:
            arrived[at, output].append(gradient)
        for at in reversed(range(len(self.steps))):
            step = self.steps[at]
            gradients = [self.total(kind, arrived[at, output]) for output, kind in enumerate(step.makes)]
            if all(one is None for one in gradients):
                continue
            for place, gradient in zip(step.inputs, step.rule(gradients), strict=True):
                if gradient is not None:
                    arrived[place].append(gradient)
        return [self.total(kind, arrived[-1 - index, 0]) for index, kind in enumerate(self.leaf_kinds)]

    def total(self, kind, gradients):
        if not gradients:
            return None
        first, *others = gradients
        for one in others:
            first = KINDS[kind].add(first, one)
        return first

    async def backward(self):
        roots = [self.results[at][output] for at, output, _ in self.roots]
        await ag.backward(roots, [gradient for _, _, gradient in self.roots])


@pytest.mark.parametrize("seed", range(cases(200)))
async def test_a_random_graph_of_mixed_values_has_the_gradients_of_the_oracle(seed):
    graph = Graph(seed)
    await graph.backward()
    for leaf, kind, expected in zip(graph.leaves, graph.leaf_kinds, graph.expected(), strict=True):
        assert KINDS[kind].shown(leaf.grad) == KINDS[kind].shown(expected), (seed, kind)
