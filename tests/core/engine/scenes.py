"""What the tests of careful steps share: scenes of every kind that others may look on at, and what they see."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.settings.context import CURRENT_NODE
from asyncgrad.graph import Edge, Node
from tests.support.arrays import bits
from tests.support.functions import awaiting, calling, split
from tests.support.settings import compiled_after, loop_budget

__all__ = ["ALONE", "SCENES", "Scene", "seen", "started", "told"]


class Scene:
    """Three leaves, and a journal of what was called, on which thread of events, with what in every `.grad`."""

    def __init__(self, dtype: Any = np.float64) -> None:
        data = [[0.3, -1.7], [1.1, 0.9], [-0.6, 2.3]]
        self.x, self.y, self.z = (ag.tensor(np.array(row, dtype), requires_grad=True) for row in data)
        self.journal: list[Any] = []
        #: How many more calls are written down; the next one fails.
        self.left = 10**9
        self.kept: list[Any] = []

    @property
    def leaves(self) -> list[Any]:
        return [self.x, self.y, self.z]

    def note(self, name: str, *seen: Any) -> None:
        """Write down a call: what it was given, the gradients of all leaves, and how much is left to run.

        Raises:
            ArithmeticError: as many calls have been written down as were to be.
        """
        given = [bits(one) for one in seen]
        task = ag.engine.current_graph_task()
        node = CURRENT_NODE.get()
        self.journal.append(
            (
                name,
                given,
                [bits(leaf.grad) for leaf in self.leaves],
                task.outstanding_tasks,
                node.name,
                ag.is_grad_enabled(),
            )
        )
        self.left -= 1
        if self.left < 0:
            raise ArithmeticError("no more")

    def hook(self, name: str, change: Callable[..., Any] = lambda *seen: None) -> Callable[..., Any]:
        """Return a hook that writes down what it sees, and returns what `change` makes of that."""

        def noted(*seen: Any) -> Any:
            flat = [each for one in seen for each in (one if isinstance(one, (tuple, list)) else [one])]
            self.note(name, *flat)
            return change(*seen)

        return noted

    def later(self, name: str, change: Callable[..., Any] = lambda *seen: None) -> Callable[..., Any]:
        """Return the same as an `async def` that suspends."""
        noted = self.hook(name, change)

        async def hook(*seen: Any) -> Any:
            await asyncio.sleep(0)
            return noted(*seen)

        return hook

    def first(self) -> Any:
        """The part of the model that runs backward last."""
        return np.add(np.multiply(self.x, 0.7), self.y)

    def last(self, value: Any) -> Any:
        """The part that runs backward first; the gradient of z is whole before that of `value`."""
        out = np.multiply(np.sin(value), self.z)
        return np.multiply(out, out).sum()


class Halving(Node):
    """A node of the tests' own."""

    def __init__(self, edge: Any, scene: Scene) -> None:
        super().__init__([edge], [edge.node.input_metadata[edge.input_nr]])
        self.scene = scene

    def apply(self, grads: Any) -> Any:
        self.scene.note("own node", *grads)
        return (grads[0] * 0.5,)


class HalvingLater(Halving):
    async def apply(self, grads: Any) -> Any:
        await asyncio.sleep(0)
        self.scene.note("own async node", *grads)
        return (grads[0] * 0.5,)


def tensor_hook(scene: Scene) -> Any:
    value = scene.first()
    value.register_hook(scene.hook("tensor hook", lambda grad: grad * 2))
    value.register_hook(scene.hook("the next"))
    return scene.last(value)


def pre_hook(scene: Scene) -> Any:
    value = scene.first()
    value.grad_fn.register_prehook(scene.hook("pre-hook", lambda grads: (grads[0] * 3,)))
    return scene.last(value)


def post_hook(scene: Scene) -> Any:
    value = scene.first()

    def change(outputs: Any, grads: Any) -> Any:
        return tuple([None if output is None else output * 3 for output in outputs])

    value.grad_fn.register_hook(scene.hook("post-hook", change))
    return scene.last(value)


def retain_grad(scene: Scene) -> Any:
    value = scene.first()
    value.retain_grad()
    scene.kept.append(value)
    other = np.cos(value)
    other.register_hook(scene.hook("beside"))
    return scene.last(np.add(value, other))


def post_accumulate_hook(scene: Scene) -> Any:
    for name in "xyz":
        leaf = getattr(scene, name)
        if leaf._autograd_meta().post_accumulate_hooks is None:
            leaf.register_post_accumulate_grad_hook(scene.hook(name))
    return scene.last(scene.first())


def async_post_accumulate_hook(scene: Scene) -> Any:
    if scene.x._autograd_meta().post_accumulate_hooks is None:
        scene.x.register_post_accumulate_grad_hook(scene.later("x"))
    return scene.last(scene.first())


def leaf_hook(scene: Scene) -> Any:
    for name in "xyz":
        leaf = getattr(scene, name)
        if leaf._autograd_meta().hooks is None:
            leaf.register_hook(scene.hook(name, lambda grad: grad * 1.1))
    return scene.last(scene.first())


def multi_grad_hook(scene: Scene) -> Any:
    value = scene.first()
    last = np.multiply(scene.z, 1.5)
    ag.graph.register_multi_grad_hook([value, last], scene.hook("both"))
    ag.graph.register_multi_grad_hook([value, np.cos(value)], scene.hook("either"), mode="any")
    return np.add(scene.last(value), last.sum())


def own(made: type[Halving]) -> Callable[[Scene], Any]:
    def model(scene: Scene) -> Any:
        value = scene.first()
        node = made(Edge(*ag.graph.get_gradient_edge(value)), scene)
        out = scene.last(value)
        return [ag.graph.GradientEdge(node, 0), out]

    return model


def body_hook(scene: Scene) -> Any:
    value = calling(scene.first(), scene.hook("body", lambda grad: grad * 0.3))
    return scene.last(value)


def async_function(scene: Scene) -> Any:
    return scene.last(awaiting(scene.first(), scene.later("async body", lambda grad: grad * 0.3)))


def function_of_two_outputs(scene: Scene) -> Any:
    left, right = split(scene.first(), scene.hook("body", lambda left, right: left * 0.3 + right))
    return scene.last(np.add(left, np.tanh(right)))


def half_of_a_function(scene: Scene) -> Any:
    _, right = split(scene.first(), scene.hook("body", lambda left, right: right * 0.9))
    return scene.last(right)


def async_hook(scene: Scene) -> Any:
    value = scene.first()
    value.register_hook(scene.later("async hook", lambda grad: grad * 2))
    return scene.last(value)


def hook_on_the_root(scene: Scene) -> Any:
    out = scene.last(scene.first())
    out.register_hook(scene.hook("root", lambda grad: grad * 2))
    return out


def function_as_the_root(scene: Scene) -> Any:
    return calling(scene.last(scene.first()), scene.hook("root"))


def several_roots(scene: Scene) -> Any:
    value = scene.first()
    value.register_hook(scene.hook("tensor hook"))
    return [scene.last(value), value.sum(), scene.z.sum()]


def packed(later: bool) -> Callable[[Scene], Any]:
    def model(scene: Scene) -> Any:
        store: list[Any] = []

        def pack(tensor: Any) -> int:
            store.append(tensor.numpy().copy())
            return len(store) - 1

        def unpack(number: int) -> Any:
            scene.note(f"unpacked {number}")
            return store[number]

        async def unpack_later(number: int) -> Any:
            await asyncio.sleep(0)
            return unpack(number)

        with ag.graph.saved_tensors_hooks(pack, unpack_later if later else unpack):
            return scene.last(scene.first())

    return model


#: By name: what is called in mid-backward, where nothing else could run meanwhile.
ALONE: dict[str, Callable[[Scene], Any]] = {
    "tensor hook": tensor_hook,
    "pre-hook": pre_hook,
    "post-hook": post_hook,
    "kept gradient": retain_grad,
    "post-accumulate hooks": post_accumulate_hook,
    "async post-accumulate hook": async_post_accumulate_hook,
    "hooks of leaves": leaf_hook,
    "multi-grad hooks": multi_grad_hook,
    "node of one's own": own(Halving),
    "async node of one's own": own(HalvingLater),
    "Function": body_hook,
    "async Function": async_function,
    "Function of two outputs": function_of_two_outputs,
    "half of a Function": half_of_a_function,
    "async hook": async_hook,
    "hook on the root": hook_on_the_root,
    "Function as the root": function_as_the_root,
    "several roots": several_roots,
    "packed": packed(False),
    "packed, unpacked later": packed(True),
}


def async_hook_beside_others(scene: Scene) -> Any:
    value = scene.first()
    other = np.tanh(value)
    value = np.cos(value)
    value.register_hook(scene.later("async hook"))
    other.register_hook(scene.hook("other"))
    return scene.last(np.add(value, other))


def async_post_accumulate_hook_beside_others(scene: Scene) -> Any:
    if scene.z._autograd_meta().post_accumulate_hooks is None:
        scene.z.register_post_accumulate_grad_hook(scene.later("z"))
    return tensor_hook(scene)


#: And those that overlap.
SCENES = {
    **ALONE,
    "async hook beside others": async_hook_beside_others,
    "async post-accumulate hook beside others": async_post_accumulate_hook_beside_others,
}


def told(
    run: Any, drive: str, after: int | None, model: Callable[[Scene], Any], budget: float = 3600.0, **options: Any
) -> Any:
    """Run a model backward four times on fresh graphs; return all that could be seen.

    By default without a pause of the loop's, at which what waits beside others could get on.
    """
    scene = Scene()

    async def awaited() -> None:
        for _ in range(4):
            with loop_budget(budget), compiled_after(after):
                await ag.backward(*started(model(scene)), **options)

    if drive == "awaited":
        run(awaited())
    else:
        for _ in range(4):
            with loop_budget(budget), compiled_after(after):
                sync.backward(*started(model(scene)), **options)
    return seen(scene)


def seen(scene: Scene) -> Any:
    """Return all that could be seen of a scene."""
    return scene.journal, [bits(leaf.grad) for leaf in scene.leaves], [bits(value.grad) for value in scene.kept]


def started(out: Any) -> tuple[list[Any], list[Any]]:
    """Return roots, and the gradients that they start from."""
    roots = out if isinstance(out, list) else [out]
    return roots, [np.ones(2) if isinstance(root, ag.graph.GradientEdge) else None for root in roots]
