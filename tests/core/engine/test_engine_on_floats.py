"""The engine runs on plain Python floats: what it knows of gradients, it asks of core/arrays/values.py."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import asyncgrad as ag
from asyncgrad.core.arrays import values
from asyncgrad.core.arrays.hooks import HookList
from asyncgrad.engine import Engine
from asyncgrad.graph import Edge, GradientEdge, Node


class NoNumPy:
    """Stands where values.py has NumPy; the types that it tests for are there, and nothing else."""

    ndarray = generic = type("NotAnArray", (), {})

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the engine called numpy.{name} on floats")


@pytest.fixture(autouse=True)
def no_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "np", NoNumPy())


class ScaleFloats(Node):
    """Hands its gradient on along every edge, times the factor of that edge."""

    __slots__ = ("factors", "runs")

    def __init__(self, *edges: tuple[Node | None, float]) -> None:
        super().__init__([None if node is None else Edge(node, 0) for node, _ in edges])
        self.factors = [factor for _, factor in edges]
        self.runs = 0

    def apply(self, grads):
        self.runs += 1
        (grad,) = grads
        assert grad is None or type(grad) is float
        return tuple(None if grad is None else grad * factor for factor in self.factors)


class SlowScale(ScaleFloats):
    """The same, after a turn of the loop."""

    __slots__ = ()

    async def apply(self, grads):
        await asyncio.sleep(0)
        return super().apply(grads)


class Keep(Node):
    """A leaf: keeps what arrives."""

    __slots__ = ("grad",)

    def __init__(self) -> None:
        super().__init__()
        self.grad: float | None = None

    def apply(self, grads):
        if grads[0] is not None:
            self.grad = grads[0] if self.grad is None else self.grad + grads[0]
        return ()


class SumOfTwo(Node):
    """A node with two inputs: hands on their sum, counting an undefined one as nothing."""

    __slots__ = ("arrived",)

    def __init__(self, following: Node) -> None:
        super().__init__([Edge(following, 0)], [None, None])
        self.arrived: list[Any] = []

    def apply(self, grads):
        self.arrived.append(grads)
        return (sum(grad for grad in grads if grad is not None),)


async def execute_on_floats(*roots: tuple[Node, float | None], inputs: Any = (), **options: bool) -> list[Any]:
    defaults = {"keep_graph": False, "create_graph": False, "accumulate": True}
    return await Engine.execute(
        [Edge(node, 0) for node, _ in roots], [grad for _, grad in roots], inputs=inputs, **{**defaults, **options}
    )


@pytest.mark.parametrize("kind", [ScaleFloats, SlowScale])
async def test_floats_flow_along_a_chain(kind):
    x = Keep()
    chain: Node = x
    for factor in (2.0, 3.0, 5.0):
        chain = kind((chain, factor))

    await execute_on_floats((chain, 1.0))

    assert x.grad == 30.0


@pytest.mark.parametrize("kind", [ScaleFloats, SlowScale])
async def test_floats_that_meet_are_summed(kind):
    x = Keep()
    shared = kind((x, 1.0))
    branches = [kind((shared, factor)) for factor in (2.0, 3.0, 4.0)]
    root = kind(*[(branch, 1.0) for branch in branches], (None, 7.0))

    await execute_on_floats((root, 1.0))

    assert x.grad == 9.0
    assert shared.runs == 1


async def test_undefined_floats_arrive_and_add_nothing():
    x, y = Keep(), Keep()
    pair = SumOfTwo(x)
    root = ScaleFloats((pair, 2.0), (y, 1.0))

    await execute_on_floats((root, 1.0))

    assert pair.arrived == [(2.0, None)]
    assert x.grad == 2.0


async def test_several_roots_of_floats_each_start_with_their_own():
    x = Keep()
    below = ScaleFloats((x, 10.0))
    above = ScaleFloats((below, 2.0))

    await execute_on_floats((above, 1.0), (below, 5.0), (above, 3.0))

    assert x.grad == 130.0
    assert (above.runs, below.runs) == (1, 1)


async def test_floats_are_captured_and_nothing_else_runs():
    x, y = Keep(), Keep()
    wanted, unwanted = ScaleFloats((x, 1.0)), ScaleFloats((y, 1.0))
    root = ScaleFloats((wanted, 2.0), (unwanted, 3.0))

    captured = await execute_on_floats((root, 1.0), inputs=[Edge(wanted, 0), Edge(root, 0)], accumulate=False)

    assert captured == [2.0, 1.0]
    assert (wanted.runs, unwanted.runs, root.runs) == (0, 0, 1)


async def test_the_public_functions_take_floats_too():
    x = Keep()
    root = ScaleFloats((x, 4.0))

    await ag.backward(GradientEdge(root, 0), 2.0)
    (captured,) = await ag.grad(GradientEdge(root, 0), GradientEdge(x, 0), 3.0)

    assert x.grad == 8.0
    assert captured == 12.0


async def test_hooks_see_floats_and_may_replace_them():
    x = Keep()
    middle = ScaleFloats((x, 2.0))
    root = ScaleFloats((middle, 3.0))
    meta = middle.make_meta()
    meta.pre_hooks, meta.post_hooks = HookList(), HookList()
    seen: list[Any] = []
    meta.pre_hooks.add(lambda grads: (grads[0] + 1.0,))
    meta.post_hooks.add(lambda inputs, outputs: seen.append((inputs, outputs)))
    meta.post_hooks.add(lambda inputs, outputs: (inputs[0] * 100.0,))

    await execute_on_floats((root, 1.0))

    assert seen == [((8.0,), (4.0,))]
    assert x.grad == 800.0


async def test_a_graph_of_floats_that_keeps_nothing_can_run_again():
    x = Keep()
    root = ScaleFloats((x, 2.0))

    await execute_on_floats((root, 1.0))
    await execute_on_floats((root, 1.0))

    assert x.grad == 4.0


async def test_a_failure_among_floats_names_its_node():
    class Fail(ScaleFloats):
        __slots__ = ()

        def apply(self, grads):
            raise ArithmeticError("no")

    node = Fail((Keep(), 1.0))

    with pytest.raises(ArithmeticError) as caught:
        await execute_on_floats((ScaleFloats((node, 1.0)), 1.0))

    assert caught.value.__notes__ == [f"in Fail (node #{node.sequence_nr})"]


async def test_a_node_of_floats_that_returns_too_few_is_named():
    class TooFew(ScaleFloats):
        __slots__ = ()

        def apply(self, grads):
            return ()

    with pytest.raises(ag.errors.InvalidGradientError, match=r"^TooFew .* returned 0 gradients, and has 1 input"):
        await execute_on_floats((TooFew((Keep(), 1.0)), 1.0))
