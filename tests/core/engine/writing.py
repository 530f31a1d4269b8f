"""Random programs whose hooks and bodies keep gradients and write into them, and the same programs without a write."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import numpy as np

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.extend import derivative, primitive
from tests.support.functions import awaiting, calling
from tests.support.graphs import node_of
from tests.support.settings import compiled_after, loop_budget
from tests.support.turns import one_turn

__all__ = ["DRIVES", "World", "run_program"]

#: How a program is run.
DRIVES = ("awaited", "blocking", "compiled", "breathing", "workers", "thread:0")

#: What hooks are put on: a tensor, its node before or after the body.
HOOKED = ("tensor hook", "pre-hook", "post-hook")


class World:
    """One run of a program: what its users keep, and whether they write.

    With `writes`, they write into all that they keep whenever they are called; and at once into some gradients, which
    is as if they returned what they have written. Without, they return that, and write nothing.
    """

    def __init__(self, seed: int, writes: bool) -> None:
        self.random = random.Random(seed)
        self.writes = writes
        #: Arrays and tensors that users hold, who may write into them at any time.
        self.kept: list[Any] = []
        #: One array for all calls of a rule that fills it anew.
        self.scratch = np.zeros(2)

    def write_later(self) -> None:
        """Write into everything that is kept."""
        if self.writes:
            with ag.no_grad():
                for one in self.kept:
                    one[...] = 1000.0 + len(self.kept)

    def keep(self, how: str | None, value: Any) -> None:
        """Keep a gradient: as it is, as an array on its memory, or as a part of that."""
        if how is not None and value is not None:
            self.kept.append({"tensor": lambda: value, "array": value.numpy, "part": lambda: value.numpy()[:1]}[how]())

    def change(self, how: str | None, value: Any) -> Any:
        """Triple a gradient in place, and return None; or return what that gives."""
        if how is None or value is None:
            return None
        if not self.writes or how == "returned":
            return value * 3.0
        if how == "operator":
            value *= 3.0
        elif how == "part":
            value[:1] *= 3.0
            value[1:] *= 3.0
        else:
            array = value.numpy()
            array *= 3.0
        return None

    def filled_anew(self, value: Any) -> Any:
        """The double of a gradient, in an array that the next call fills anew."""
        if not self.writes:
            return 2.0 * np.asarray(value.numpy())
        self.scratch[...] = value.numpy()
        self.scratch *= 2.0
        return self.scratch


def actor(world: World, number: int = 1) -> Callable[..., Any]:
    """Return a hook on `number` gradients, a function or an `async def`."""
    choose = world.random.choice
    keeps, changes, returns = (
        choose([None, "tensor", "array", "part"]),
        choose([None, None, "operator", "array", "part", "returned"]),
        choose([False, False, True]),
    )
    place = world.random.randrange(number)

    def act(given: Any, *others: Any) -> Any:
        world.write_later()
        grads = given if isinstance(given, tuple) else (given,)
        for more in others:
            for one in more:
                world.keep(keeps, one)
                # What a node was given is of no use to the backward any more.
                world.change("array", one)
        changed = world.change(changes, grads[place])
        result: Any = None
        if changed is not None or returns:
            results = [grad if changed is None or index != place else changed for index, grad in enumerate(grads)]
            if returns:
                world.kept += [one for one in results if one is not None]
            result = tuple(results) if isinstance(given, tuple) else results[0]
        world.keep(keeps, grads[place])
        return result

    return act if world.random.random() < 0.6 else waiting(act)


def waiting(act: Callable[..., Any]) -> Callable[..., Any]:
    """Return an `async def` that waits for a turn of the loop, and does what a function does."""

    async def hook(*args: Any) -> Any:
        await one_turn()
        return act(*args)

    return hook


def function_of(world: World) -> Callable[[Any], Any]:
    """Return a Function of the user's: a copy, with a backward that keeps, writes, waits, or fills an array anew."""
    choose = world.random.choice
    keeps, changes = choose([None, "tensor", "array"]), choose([None, "operator", "array"])
    gives = choose(["its own", "a new one", "filled anew"])

    def backward(grad: Any) -> Any:
        world.write_later()
        changed = world.change(changes, grad)
        grad = grad if changed is None else changed
        if gives == "filled anew":
            result = world.filled_anew(grad)
        else:
            result = grad if gives == "its own" else grad * 2.0
        if gives == "a new one":
            world.keep("tensor", result)
        world.keep(keeps, grad)
        return result

    if choose([True, False]):
        return lambda x: calling(x, backward)
    return lambda x: awaiting(x, waiting(backward))


#: The world of the program that runs.
WORLDS: list[World] = []


@primitive()
def doubled(x: Any) -> Any:
    """A primitive of the user's, whose rule fills an array anew."""
    return x * 2.0


@derivative(doubled, "x")
def _(g: Any) -> Any:
    return g * 2.0 if isinstance(g, ag.Tensor) else WORLDS[-1].filled_anew(ag.asarray(g))


def add_hook(world: World, tensor: Any) -> None:
    """Put a hook of some kind on a tensor, or on its node."""
    where = world.random.choice([*HOOKED, "retain", "after"])
    if where == "tensor hook":
        tensor.register_hook(actor(world))
    elif where == "pre-hook":
        node = node_of(tensor)
        node.register_prehook(actor(world, node.num_inputs))
    elif where == "post-hook" and not tensor.is_leaf:
        node = node_of(tensor)
        node.register_hook(actor(world, node.num_outputs))
    elif where == "retain":
        tensor.retain_grad()
    elif where == "after" and tensor.is_leaf:
        tensor.register_post_accumulate_grad_hook(lambda one: world.write_later())


def build(world: World, device: str) -> list[Any]:
    """Return the tensors of a program on vectors of two whole numbers."""
    pick = world.random
    leaves = [
        ag.tensor([float(pick.randint(-3, 3)), 2.0], requires_grad=True, device=device)
        for _ in range(pick.randint(1, 3))
    ]
    tensors = list(leaves)
    unary: dict[str, Callable[[Any], Any]] = {
        "negative": np.negative,
        "scaled": lambda x: x * 3.0,
        "shifted": lambda x: x + 1.0,
        "reversed": lambda x: x[::-1],
        "shaped": lambda x: x.reshape(1, 2).reshape(2),
        "function": lambda x: function_of(world)(x),
        "rule": doubled,
    }
    for _ in range(pick.randint(2, 8)):
        left, right = pick.choices(tensors, k=2)
        kind = pick.choice([*unary, "add", "add", "subtract", "function"])
        made = unary[kind](left) if kind in unary else left + right if kind == "add" else left - right
        tensors.append(made)
    for _ in range(pick.randint(2, 7)):
        add_hook(world, pick.choice(tensors))
    if pick.random() < 0.3:
        several = pick.choices(tensors, k=2)

        def at_all(grads: list[Any]) -> None:
            world.write_later()
            for one in grads:
                world.change("operator", one)
                world.keep("tensor", one)

        ag.graph.register_multi_grad_hook(several, at_all)
    return tensors


class Question:
    """What a program is asked for: the roots, the gradients to start from, and which gradients are wanted."""

    def __init__(self, world: World, tensors: list[Any], limits: str, create_graph: bool) -> None:
        self.roots = [tensors[-1]]
        if world.random.random() < 0.3:
            self.roots.append(world.random.choice(tensors))
        self.starts = [np.array([2.0, 5.0]) for _ in self.roots]
        self.targets = world.random.sample(tensors, min(2, len(tensors)))
        self.limits = limits
        self.options = {"create_graph": create_graph}

    def asked_of(self, library: Any) -> Any:
        """Ask `ag` or `sync`; return what it returns."""
        if self.limits == "captured":
            return library.grad(self.roots, self.targets, self.starts, allow_unused=True, **self.options)
        inputs = self.targets if self.limits == "inputs" else None
        return library.backward(self.roots, self.starts, inputs=inputs, **self.options)


async def _with_a_bystander(world: World, question: Question) -> Any:
    """Ask, while another task writes into all that is kept, in each turn of the loop."""

    async def write() -> None:
        while True:
            world.write_later()
            await asyncio.sleep(0)

    task = asyncio.ensure_future(write())
    try:
        return await question.asked_of(ag)
    finally:
        task.cancel()
        await asyncio.wait([task])


def ask(world: World, question: Question, drive: str, run: Callable[[Any], Any]) -> Any:
    """Run a backward in one of the ways of `DRIVES`."""
    if drive == "blocking":
        return question.asked_of(sync)
    if drive == "compiled":
        with compiled_after(0):
            return run(question.asked_of(ag))
    if drive == "workers":
        with ag.workers(2), ag.offload_threshold(0.0):
            return run(question.asked_of(ag))
    with loop_budget(-1.0 if drive == "breathing" else 0.001):
        return run(_with_a_bystander(world, question))


def run_program(seed: int, writes: bool, run: Callable[[Any], Any]) -> list[Any]:
    """Return the gradients of a program, as numbers: what was captured, and every `.grad`."""
    world = World(seed, writes)
    WORLDS[:] = [world]
    drive = DRIVES[seed % len(DRIVES)]
    limits = world.random.choice(["none", "none", "inputs", "captured"])
    create_graph = drive != "compiled" and world.random.random() < 0.2
    state = world.random.getstate()
    found: list[Any] = []
    for _ in range(3 if drive == "compiled" else 1):
        world.random.setstate(state)
        world.kept.clear()
        tensors = build(world, drive if drive == "thread:0" else "cpu")
        question = Question(world, tensors, limits, create_graph)
        # The caller writes into what the backward started from.
        world.kept += question.starts
        captured = ask(world, question, drive, run) or []
        gradients = [*captured, *(one.grad for one in tensors if one.is_leaf or one.retains_grad)]
        found += [None if one is None else one.tolist() for one in gradients]
        check_is_the_callers(world, captured)
        world.write_later()
        found += [None if one is None else one.tolist() for one in gradients]
    return found


def check_is_the_callers(world: World, captured: list[Any]) -> None:
    """Check that the gradients that `ag.grad` has returned may be written into, and share no memory."""
    arrays = [one.numpy() for one in captured if one is not None]
    others = [one if isinstance(one, np.ndarray) else one.numpy() for one in world.kept]
    for index, array in enumerate(arrays):
        assert array.flags.writeable
        assert not any(np.shares_memory(array, other) for other in (*arrays[:index], *others))
