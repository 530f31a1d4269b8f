"""The laws of a backward hold for texts and trees as they do for arrays."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse

import asyncgrad as ag
from asyncgrad.errors import UnusedInputError
from asyncgrad.graph import get_gradient_edge, register_multi_grad_hook
from asyncgrad.values import SparseRows, Tree
from tests.core.values.kinds import each_kind
from tests.support.failing import Trouble


class Guarded(ag.Function):
    """Passes a gradient on once `opened` is set, or raises what stands in `trouble`."""

    @staticmethod
    def forward(ctx, kind, guard, value):
        ctx.guard = guard
        return kind.made("guarded")

    @staticmethod
    async def backward(ctx, gradient):
        ctx.guard.reached.set()
        await ctx.guard.opened.wait()
        if ctx.guard.trouble:
            raise ctx.guard.trouble.pop()
        return None, None, gradient


class Guard:
    def __init__(self, *trouble):
        self.reached, self.opened, self.trouble = asyncio.Event(), asyncio.Event(), list(trouble)


@each_kind
async def test_gradients_accumulate_over_passes(kind):
    x = kind.leaf()
    y = kind.join("step", x)
    await y.backward(kind.gradient(1), retain_graph=True)
    one = kind.mapped("step", kind.gradient(1))
    assert kind.shown(x.grad) == kind.shown(one)
    await y.backward(kind.gradient(2))
    assert kind.shown(x.grad) == kind.total([one, kind.mapped("step", kind.gradient(2))])


@each_kind
async def test_gradients_that_meet_are_summed_in_the_order_of_the_graph(kind):
    x = kind.leaf()
    first, second = kind.join("first", x), kind.join("second", x)
    y = kind.join("both", first, second)
    await y.backward(kind.gradient(1))
    by_first = kind.mapped("first", kind.mapped("both", kind.gradient(1)))
    by_second = kind.mapped("second", kind.mapped("both'", kind.gradient(1)))
    # The newer node is first.
    assert kind.shown(x.grad) == kind.total([by_second, by_first])


@each_kind
async def test_tensor_hooks_see_the_sum_and_may_replace_it(kind):
    x = kind.leaf()
    middle = kind.join("middle", x)
    y = kind.join("both", middle, middle)
    seen = []

    async def replace(gradient):
        await asyncio.sleep(0)
        seen.append(kind.shown(gradient))
        return kind.gradient(7)

    middle.register_hook(replace)
    x.register_hook(lambda gradient: seen.append(kind.shown(gradient)))
    await y.backward(kind.gradient(1))
    met = [kind.mapped("both", kind.gradient(1)), kind.mapped("both'", kind.gradient(1))]
    last = kind.shown(kind.mapped("middle", kind.gradient(7)))
    assert seen == [kind.total(met), last]
    assert kind.shown(x.grad) == last


@each_kind
async def test_node_hooks_see_gradients_and_may_replace_them(kind):
    x = kind.leaf()
    y = kind.join("step", x)
    node, seen = y.grad_fn, []

    def before(gradients):
        seen.append([kind.shown(one) for one in gradients])
        return (kind.gradient(2),)

    def after(outputs, inputs):
        seen.append([kind.shown(outputs[-1]), kind.shown(inputs[0])])
        return (*outputs[:-1], kind.gradient(3))

    node.register_prehook(before)
    node.register_hook(after)
    await y.backward(kind.gradient(1))
    assert seen == [
        [kind.shown(kind.gradient(1))],
        [kind.shown(kind.mapped("step", kind.gradient(2))), kind.shown(kind.gradient(2))],
    ]
    assert kind.shown(x.grad) == kind.shown(kind.gradient(3))


@each_kind
async def test_a_retained_gradient_and_a_post_accumulate_hook(kind):
    x = kind.leaf()
    middle = kind.join("middle", x)
    y = kind.join("step", middle)
    middle.retain_grad()
    told = []
    x.register_post_accumulate_grad_hook(lambda leaf: told.append((leaf is x, kind.shown(leaf.grad))))
    await y.backward(kind.gradient(1))
    kept = kind.mapped("step", kind.gradient(1))
    assert kind.shown(middle.grad) == kind.shown(kept)
    assert told == [(True, kind.shown(kind.mapped("middle", kept)))]


@each_kind
async def test_a_multi_grad_hook_gets_all_gradients_at_once(kind):
    x, y = kind.leaf(), kind.leaf()
    z = kind.join("both", x, y)
    told = []
    register_multi_grad_hook([x, y], lambda gradients: told.append([kind.shown(one) for one in gradients]))
    await z.backward(kind.gradient(1))
    assert told == [[kind.shown(x.grad), kind.shown(y.grad)]]


@each_kind
@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_backward_that_does_not_succeed_puts_every_gradient_back(kind, is_cancelled):
    x, y = kind.leaf(), kind.leaf()
    await kind.join("earlier", x).backward(kind.gradient(1))
    before, shown = x.grad, kind.shown(x.grad)
    guard = Guard(Trouble())
    done = kind.join("done", x)
    z = kind.join("both", done, Guarded.apply(kind, guard, y))
    accumulated = asyncio.Event()
    x.register_post_accumulate_grad_hook(lambda leaf: accumulated.set())
    task = asyncio.ensure_future(z.backward(kind.gradient(2)))
    await guard.reached.wait()
    await accumulated.wait()
    assert kind.shown(x.grad) != shown
    if is_cancelled:
        task.cancel()
    else:
        guard.opened.set()
    with pytest.raises(asyncio.CancelledError if is_cancelled else Trouble):
        await task
    assert x.grad is before
    assert kind.shown(x.grad) == shown
    assert y.grad is None


@each_kind
async def test_what_another_backward_has_added_meanwhile_stays(kind):
    x, y = kind.leaf(), kind.leaf()
    guard = Guard(Trouble())
    z = kind.join("both", kind.join("done", x), Guarded.apply(kind, guard, y))
    accumulated = asyncio.Event()
    handle = x.register_post_accumulate_grad_hook(lambda leaf: accumulated.set())
    task = asyncio.ensure_future(z.backward(kind.gradient(1)))
    await accumulated.wait()
    handle.remove()
    await kind.join("other", x).backward(kind.gradient(5))
    guard.opened.set()
    with pytest.raises(Trouble):
        await task
    assert kind.shown(x.grad) == kind.shown(kind.mapped("other", kind.gradient(5)))


@each_kind
async def test_a_backward_can_be_tried_again_and_asks_only_what_has_not_answered(kind):
    x, y = kind.leaf(), kind.leaf()
    asked = []

    class Dear(ag.Function):
        is_memoized = True

        @staticmethod
        def forward(ctx, value, name):
            ctx.name = name
            return kind.made(name)

        @staticmethod
        async def backward(ctx, gradient):
            asked.append(ctx.name)
            return kind.mapped(ctx.name, gradient), None

    guard = Guard(Trouble())
    guard.opened.set()
    z = kind.join("both", Dear.apply(x, "dear"), Guarded.apply(kind, guard, Dear.apply(y, "late")))
    with pytest.raises(Trouble):
        await z.backward(kind.gradient(1), retain_graph="until_success")
    await z.backward(kind.gradient(1), retain_graph="until_success")
    assert sorted(asked) == ["dear", "late"]
    assert kind.shown(x.grad) == kind.shown(kind.mapped("dear", kind.mapped("both", kind.gradient(1))))
    assert kind.shown(y.grad) == kind.shown(kind.mapped("late", kind.mapped("both'", kind.gradient(1))))


@each_kind
async def test_inputs_limit_a_backward(kind):
    x, y = kind.leaf(), kind.leaf()
    middle = kind.join("middle", x, y)
    z = kind.join("step", middle)
    await z.backward(kind.gradient(1), inputs=[y, middle], retain_graph=True)
    assert x.grad is None
    by_step = kind.mapped("step", kind.gradient(1))
    assert kind.shown(middle.grad) == kind.shown(by_step)
    assert kind.shown(y.grad) == kind.shown(kind.mapped("middle'", by_step))
    found = await ag.grad([z], {"x": x, "middle": middle}, [kind.gradient(2)])
    assert kind.shown(found["middle"]) == kind.shown(kind.mapped("step", kind.gradient(2)))
    assert kind.shown(found["x"]) == kind.shown(kind.mapped("middle", kind.mapped("step", kind.gradient(2))))


@each_kind
async def test_an_unused_input_is_told(kind):
    x, y = kind.leaf(), kind.leaf()
    z = kind.join("step", x)
    with pytest.raises(UnusedInputError, match="input 1"):
        await ag.grad([z], [x, y], [kind.gradient(1)], retain_graph=True)
    assert (await ag.grad([z], [x, y], [kind.gradient(1)], allow_unused=True))[1] is None


@each_kind
async def test_an_edge_is_a_root_and_an_input(kind):
    x = kind.leaf()
    z = kind.join("step", x)
    (found,) = await ag.grad([get_gradient_edge(z)], [get_gradient_edge(x)], [kind.gradient(1)])
    assert kind.shown(found) == kind.shown(kind.mapped("step", kind.gradient(1)))


@each_kind
@pytest.mark.parametrize("use_reentrant", [False, True])
async def test_a_checkpoint_gives_the_same_gradients(kind, use_reentrant):
    def function(value):
        return kind.join("last", kind.join("one", value), kind.join("two", value))

    x, y = kind.leaf(), kind.leaf()
    await function(x).backward(kind.gradient(1))
    await ag.checkpoint(function, y, use_reentrant=use_reentrant).backward(kind.gradient(1))
    assert kind.shown(y.grad) == kind.shown(x.grad)


@each_kind
async def test_a_compiled_backward_gives_the_same_gradients(kind):
    found = []
    for _ in range(4):
        x = kind.leaf()
        with ag.compiled_autograd():
            await kind.join("both", kind.join("one", x), kind.join("two", x)).backward(kind.gradient(1))
        found.append(kind.shown(x.grad))
    y = kind.leaf()
    await kind.join("both", kind.join("one", y), kind.join("two", y)).backward(kind.gradient(1))
    assert found == [kind.shown(y.grad)] * 4


@each_kind
async def test_a_backward_in_a_rule_may_be_of_the_same_kind(kind):
    inner = kind.leaf()

    class Outer(ag.Function):
        @staticmethod
        def forward(ctx, value):
            return kind.made("outer")

        @staticmethod
        async def backward(ctx, gradient):
            with ag.enable_grad():
                nested = kind.join("nested", inner)
            await nested.backward(gradient)
            return (gradient,)

    x = kind.leaf()
    await Outer.apply(x).backward(kind.gradient(1))
    assert kind.shown(x.grad) == kind.shown(kind.gradient(1))
    assert kind.shown(inner.grad) == kind.shown(kind.mapped("nested", kind.gradient(1)))


async def test_a_memoized_rule_is_asked_again_where_one_number_of_a_large_tree_differs():
    """What is shown of a large array leaves out its midst."""
    asked, numbers = [], iter((1.0, 2.0))
    kind = Tree()

    class Changing(ag.Function):
        @staticmethod
        def forward(ctx, value):
            return ag.Value(value.value, kind)

        @staticmethod
        def backward(ctx, gradient):
            large = np.zeros(10_000)
            large[5_000] = next(numbers)
            return {"large": large}

    class Dear(ag.Function):
        is_memoized = True

        @staticmethod
        def forward(ctx, value):
            return ag.Value(value.value, kind)

        @staticmethod
        def backward(ctx, gradient):
            asked.append(gradient["large"][5_000])
            return gradient

    class Fails(ag.Function):
        trouble = [Trouble()]  # noqa: RUF012

        @staticmethod
        def forward(ctx, value):
            return ag.Value(value.value, kind)

        @staticmethod
        def backward(ctx, gradient):
            if Fails.trouble:
                raise Fails.trouble.pop()
            return gradient

    leaf = ag.leaf({"large": np.zeros(10_000)}, type=kind)
    top = Changing.apply(Dear.apply(Fails.apply(leaf)))
    gradient = {"large": np.ones(10_000)}
    with pytest.raises(Trouble):
        await top.backward(gradient, retain_graph="until_success")
    await top.backward(gradient, retain_graph="until_success")
    assert asked == [1.0, 2.0]
    assert leaf.grad["large"][5_000] == 2.0


@dataclasses.dataclass(frozen=True)
class Patch:
    """A gradient with an array in it, which `==` cannot compare."""

    numbers: np.ndarray


class Patches(ag.extend.ValueType):
    def add(self, first, second):
        return Patch(first.numbers + second.numbers)


@pytest.mark.parametrize(
    ("kind", "value", "gradient"),
    [
        (SparseRows(), np.zeros((3, 2)), lambda: scipy.sparse.coo_array(([2.0], ([1], [0])), shape=(3, 2))),
        (Patches(), "a", lambda: Patch(np.ones(2))),
    ],
    ids=["sparse_rows", "dataclass"],
)
async def test_a_memoized_rule_is_not_asked_again_for_an_equal_gradient_that_is_another_object(kind, value, gradient):
    class Passing(ag.Function):
        asked: ClassVar = []

        @staticmethod
        def forward(ctx, name, value):
            ctx.name = name
            return ag.Value(value.value, kind)

        @staticmethod
        def backward(ctx, given):
            if ctx.name == "fails" and len(Passing.asked) == 1:
                raise Trouble
            return None, gradient()

    class Dear(ag.Function):
        is_memoized = True

        @staticmethod
        def forward(ctx, value):
            return ag.Value(value.value, kind)

        @staticmethod
        def backward(ctx, given):
            Passing.asked.append(given)
            return (given,)

    leaf = ag.leaf(value, type=kind)
    top = Passing.apply("makes", Dear.apply(Passing.apply("fails", leaf)))
    with pytest.raises(Trouble):
        await top.backward(gradient(), retain_graph="until_success")
    Passing.asked.append("again")
    await top.backward(gradient(), retain_graph="until_success")
    assert len(Passing.asked) == 2
    assert leaf.grad is not None
