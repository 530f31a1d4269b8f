"""A Function with parameters elsewhere, whose arguments require no grad: set_records, and the warning without it."""

from __future__ import annotations

import asyncio
import dataclasses
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.errors import ArgumentTypeError, GraphError
from tests.support.functions import function
from tests.support.leaves import leaf
from tests.support.loops import one_loop

LOST = r"no argument of Made\.apply requires grad.*ctx\.set_records\(True\).*ctx\.set_records\(False\)"


def module(form: str, says: bool | None) -> tuple[Any, Any]:
    """A weight, and a Function that multiplies by it, and gives it its gradient by a backward of its own."""
    w = leaf(3.0)

    def compute(ctx: Any, x: Any) -> Any:
        if says is not None:
            ctx.set_records(says)
        ctx.x = x
        with ag.enable_grad():
            ctx.y = w * x
        return ctx.y.numpy()

    async def backward(ctx: Any, grad: Any) -> Any:
        await ag.backward(ctx.y, grad)

    async def compute_later(ctx: Any, x: Any) -> Any:
        await asyncio.sleep(0)
        return compute(ctx, x)

    def set_up(ctx: Any, inputs: Any, output: Any) -> None:
        compute(ctx, *inputs)

    async def set_up_later(ctx: Any, inputs: Any, output: Any) -> None:
        await asyncio.sleep(0)
        compute(ctx, *inputs)

    two_part: dict[str, Any] = {"forward": lambda x: x.numpy() * 3.0}
    bodies: dict[str, dict[str, Any]] = {
        "ctx": {"forward": compute},
        "async": {"forward": compute_later},
        "setup_context": {**two_part, "setup_context": set_up},
        "async setup_context": {**two_part, "setup_context": set_up_later},
    }
    body = bodies[form] | {"backward": backward}
    return w, type("Made", (ag.Function,), {name: staticmethod(method) for name, method in body.items()})


FORMS = ["ctx", "async", "setup_context", "async setup_context"]
each_form = pytest.mark.parametrize("form", FORMS)


async def apply_and_await(made: Any, *args: Any) -> Any:
    result = made.apply(*args)
    return await result if asyncio.iscoroutine(result) else result


@one_loop
@each_form
async def test_a_function_that_records_runs_its_backward_where_no_argument_requires_grad(form):
    w, made = module(form, says=True)

    y = await apply_and_await(made, ag.tensor([2.0]))
    await ag.backward(y)

    assert (y.tolist(), y.requires_grad, y.grad_fn.name) == ([6.0], True, "MadeBackward")
    assert w.grad.tolist() == [2.0]


@one_loop
@each_form
async def test_a_function_that_does_not_say_that_it_records_warns_at_the_line_that_applies_it(form):
    w, made = module(form, says=None)

    async def main() -> Any:
        task = asyncio.ensure_future(apply_and_await(made, ag.tensor([2.0])))
        return await task

    with pytest.warns(UserWarning, match=LOST) as caught:
        y = await main()

    assert (y.requires_grad, y.tolist(), w.grad) == (False, [6.0], None)
    assert [warning.filename for warning in caught] == [__file__]
    assert "made.apply(*args)" in Path(__file__).read_text().splitlines()[caught[0].lineno - 1]


@one_loop
@each_form
async def test_a_function_that_says_that_it_does_not_record_is_silent(form):
    _, made = module(form, says=False)
    y = await apply_and_await(made, ag.tensor([2.0]))

    assert not y.requires_grad


@one_loop
@each_form
@pytest.mark.parametrize("says", [None, True, False])
async def test_without_grad_mode_nothing_is_recorded_and_nothing_said(form, says):
    w, made = module(form, says)
    with ag.no_grad():
        y = await apply_and_await(made, ag.tensor([2.0]))

    assert (y.requires_grad, w.grad) == (False, None)


@pytest.mark.parametrize("says", [None, True, False])
def test_where_an_argument_requires_grad_all_is_recorded_and_nothing_said(says):
    w, x = leaf(3.0), leaf(2.0)

    def forward(ctx: Any, x: Any) -> Any:
        if says is not None:
            ctx.set_records(says)
        ctx.save_for_backward(x, w)
        return x * w

    sync.backward(function(forward, lambda ctx, grad: grad * ctx.saved_tensors[1]).apply(x))

    assert (x.grad.tolist(), w.grad) == ([3.0], None)


# What warns.

W = leaf(3.0, 4.0)


@dataclasses.dataclass
class State:
    """Something that a user keeps tensors in."""

    weight: Any


def under_no_grad(ctx: Any, x: Any) -> Any:
    with ag.no_grad():
        return x * W


def after_enable_grad(ctx: Any, x: Any) -> Any:
    with ag.enable_grad():
        pass
    return x * W


def nested_function(ctx: Any, x: Any) -> Any:
    return function(lambda ctx, x: x * W).apply(x)


def argument_of_nested_function(ctx: Any, x: Any) -> Any:
    return function(lambda ctx, x, w: x.numpy() * w.numpy()).apply(x, W)


def keeping(kept: Callable[[], Any]) -> Callable[..., Any]:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.kept = kept()
        return x.numpy() * 1.0

    return forward


def saving_forward(ctx: Any, x: Any) -> Any:
    ctx.save_for_backward(x, None, W)
    return x.numpy() * 1.0


def writing_forward(ctx: Any, x: Any) -> Any:
    y = x.copy()
    y += W
    return y


def written_by_index(ctx: Any, x: Any) -> Any:
    y = x.copy()
    y[:1] = W[:1].detach()
    y[...] = W
    return y


def written_out(ctx: Any, x: Any) -> Any:
    y = x.copy()
    np.multiply(x, W, out=y)
    return y


def recorded_inside(ctx: Any, x: Any) -> Any:
    with ag.enable_grad():
        return x * W


TAKE = {
    "an operator": lambda ctx, x: x * W,
    "an operator the other way round": lambda ctx, x: W * x,
    "a function": lambda ctx, x: np.tanh(W),
    "a method": lambda ctx, x: W.sum(),
    "an index": lambda ctx, x: W[0] + x,
    "a cast": lambda ctx, x: W.astype(np.float32),
    "joined": lambda ctx, x: np.concatenate([x, W]),
    "stacked": lambda ctx, x: np.stack([x, W]),
    "split": lambda ctx, x: tuple(np.split(W, 2)),
    "a layer": lambda ctx, x: nn.gelu(W),
    "under no_grad": under_no_grad,
    "after enable_grad": after_enable_grad,
    "another function": nested_function,
    "an argument of another function": argument_of_nested_function,
    "written into": writing_forward,
    "written by index": written_by_index,
    "written by out": written_out,
    "returned": lambda ctx, x: W,
    "recorded inside": recorded_inside,
    "saved": saving_forward,
    "an attribute": keeping(lambda: W),
    "in a tree": keeping(lambda: {"layers": [(np.ones(2), W)]}),
    "in a set": keeping(lambda: {1, W}),
    "in a dataclass": keeping(lambda: [State(W)]),
    "in a registered container": keeping(lambda: Kept(W)),
    "in a circle": keeping(lambda: circle(W)),
}


@ag.tree.register
class Kept:
    def __init__(self, inside: Any) -> None:
        self.inside = inside


def circle(*items: Any) -> list[Any]:
    made: list[Any] = [*items]
    made.insert(0, made)
    return made


@pytest.mark.parametrize("forward", TAKE.values(), ids=TAKE)
def test_a_forward_that_takes_or_keeps_what_requires_grad_warns(forward):
    with pytest.warns(UserWarning, match=LOST) as caught:
        function(forward).apply(ag.tensor([1.0, 2.0]))

    assert len(caught) == 1


@pytest.mark.parametrize("forward", [TAKE["returned"], TAKE["recorded inside"]], ids=["returned", "recorded inside"])
def test_what_a_forward_that_is_not_recorded_returns_requires_no_grad(forward):
    with pytest.warns(UserWarning, match=LOST):
        y = function(forward).apply(ag.tensor([1.0, 2.0]))

    assert (y is W, y.requires_grad, y.is_leaf, (y * 2.0).requires_grad) == (False, False, True, False)
    assert W.requires_grad


def test_tensors_in_an_object_that_is_an_argument_are_seen_when_they_are_used():
    with pytest.warns(UserWarning, match=LOST):
        function(lambda ctx, pair: pair.x * pair.w).apply(SimpleNamespace(x=ag.tensor([1.0, 2.0]), w=W))


def inner_backward(ctx: Any, x: Any) -> Any:
    """A forward that finds a gradient itself, of a function of its own, and keeps an array."""
    with ag.enable_grad():
        z = x.detach().requires_grad_()
        (grad,) = sync.grad((function(lambda ctx, z: z * 2.0).apply(z) * z).sum(), [z])
    return grad


SILENT = {
    "constants": lambda ctx, x: np.tanh(x) * 2.0 + x.sum(),
    "shapes and types of what requires grad": lambda ctx, x: np.zeros(W.shape, W.dtype),
    "what is detached": lambda ctx, x: x * W.detach(),
    "arrays": lambda ctx, x: x * W.numpy(),
    "comparisons": lambda ctx, x: np.where(W > 0, x, 0.0),
    "a backward inside": inner_backward,
    "kept constants": keeping(lambda: {"a": [np.ones(2), ag.tensor(1.0)], "b": "text", "c": function}),
}


@pytest.mark.parametrize("forward", SILENT.values(), ids=SILENT)
def test_a_forward_that_loses_no_gradient_does_not_warn(forward):
    y = function(forward).apply(ag.tensor([1.0, 2.0]))

    assert not y.requires_grad


class Squared(ag.Function):
    """x * x, whose rule answers for several rows in one request, outside of the backward that asks."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.numpy() ** 2

    @staticmethod
    async def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * x * 2.0

    @staticmethod
    async def backward_batch(ctx: Any, grads: Any) -> Any:
        return await Squared.backward(ctx, grads)


async def test_a_forward_whose_inner_rows_use_what_their_graph_has_saved_does_not_warn():
    async def forward(ctx: Any, x: Any) -> Any:
        with ag.enable_grad():
            z = x.detach().requires_grad_()
            (rows,) = await ag.grad(Squared.apply(z), [z], np.eye(2), is_grads_batched=True)
        return rows

    y = await function(forward).apply(ag.tensor([1.0, 2.0]))

    assert y.tolist() == [[2.0, 0.0], [0.0, 4.0]]


def test_a_function_without_a_backward_does_not_warn():
    OneWay: Any = type("OneWay", (ag.Function,), {"forward": staticmethod(lambda ctx, x: x * W)})

    assert not OneWay.apply(ag.tensor([1.0, 2.0])).requires_grad


def test_the_vjp_of_a_function_is_its_backward_here_too():
    Named: Any = type("Made", (ag.Function,), {"forward": staticmethod(lambda ctx, x: x * W), "vjp": staticmethod(id)})

    with pytest.warns(UserWarning, match=LOST):
        Named.apply(ag.tensor([1.0, 2.0]))


def test_operations_after_a_watched_forward_are_not_watched():
    def fails(ctx: Any, x: Any) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        function(fails).apply(ag.tensor(1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with ag.no_grad():
            assert not (W * 2.0).requires_grad
    assert (W * 2.0).requires_grad


@one_loop
async def test_tasks_do_not_see_the_forwards_of_each_other():
    async def forward(ctx: Any, x: Any) -> Any:
        begun.set()
        await gone_on.wait()
        return x * 2.0

    begun, gone_on = asyncio.Event(), asyncio.Event()

    task = asyncio.ensure_future(apply_and_await(function(forward), ag.tensor([1.0, 2.0])))
    await begun.wait()
    with ag.no_grad():
        W * 2.0
    gone_on.set()

    assert (await task).tolist() == [2.0, 4.0]


# What is recorded.


def recording(backward: Any = lambda ctx, *grads: None, forward: Any = lambda ctx, x: x * 2.0) -> Any:
    def records(ctx: Any, *args: Any) -> Any:
        ctx.set_records(True)
        return forward(ctx, *args)

    return function(records, backward)


def test_needs_input_grad_stays_false_and_gradients_of_arguments_go_nowhere():
    seen = []
    x = ag.tensor([1.0, 2.0])
    made = recording(lambda ctx, grad: seen.append((ctx.needs_input_grad, grad.tolist())) or grad)
    sync.backward(made.apply(x).sum())

    assert seen == [((False,), [1.0, 1.0])]
    assert x.grad is None


def test_a_function_applied_to_no_tensor_records_too():
    seen: list[Any] = []
    made = recording(lambda ctx, grad: seen.append(grad.item()), lambda ctx: np.array(3.0))
    sync.backward(made.apply() * 2.0)

    assert seen == [2.0]


def test_what_is_saved_comes_back_and_is_released():
    def forward(ctx: Any, x: Any) -> Any:
        y = x * 2.0
        ctx.save_for_backward(x, y, W)
        return y

    seen: list[Any] = []
    made = recording(lambda ctx, grad: seen.extend(saved.tolist() for saved in ctx.saved_tensors), forward)
    y = made.apply(ag.tensor([1.0, 2.0])).sum()
    sync.backward(y)

    assert seen == [[1.0, 2.0], [2.0, 4.0], [3.0, 4.0]]
    with pytest.raises(GraphError, match="released"):
        sync.backward(y)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_function_that_records_runs_beside_others_in_every_backward(compiled):
    calls: list[Any] = []
    x = leaf(1.0, 2.0)
    made = recording(lambda ctx, grad: calls.append(grad.tolist()))
    with ag.compiled_autograd(after=1) if compiled else ag.enable_grad():
        for _ in range(4):
            sync.backward((made.apply(ag.tensor([1.0, 2.0])) * x).sum())

    assert calls == [[1.0, 2.0]] * 4
    assert x.grad.tolist() == [8.0, 16.0]


def test_a_backward_that_is_limited_to_other_inputs_does_not_come_by():
    calls: list[Any] = []
    x = leaf(1.0)
    y = recording(lambda ctx, grad: calls.append(grad)).apply(ag.tensor([1.0])) * x
    (grad,) = sync.grad(y, [x])

    assert (grad.tolist(), calls) == ([2.0], [])


def test_outputs_marked_as_non_differentiable_and_integers_require_no_grad():
    def forward(ctx: Any, x: Any) -> Any:
        first, second, third = x * 1.0, x * 2.0, np.array([1])
        ctx.mark_non_differentiable(second)
        return first, second, third

    outputs = recording(forward=forward).apply(ag.tensor([1.0]))

    assert [output.requires_grad for output in outputs] == [True, False, False]


def test_an_argument_that_is_written_into_requires_grad_afterwards():
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        x *= 2.0
        return x

    x = ag.tensor([1.0, 2.0])
    y = recording(forward=forward).apply(x)

    assert y is x
    assert (x.requires_grad, x.tolist(), x.grad_fn.name) == (True, [2.0, 4.0], "MadeBackward")


def test_an_argument_that_is_returned_is_another_tensor_afterwards():
    x = ag.tensor([1.0, 2.0])
    y = recording(forward=lambda ctx, x: x).apply(x)

    assert (y.requires_grad, x.requires_grad) == (True, False)


def test_the_node_is_shown_to_creation_hooks_and_its_line_to_anomaly_mode():
    def fails(ctx: Any, grad: Any) -> Any:
        raise ValueError("here")

    names: list[str] = []
    with ag.graph.node_creation_hook(lambda node: names.append(node.name)), ag.detect_anomaly():
        y = recording(fails).apply(ag.tensor([1.0]))
    with ag.detect_anomaly(), pytest.raises(ValueError, match="here") as raised:
        sync.backward(y)

    assert names == ["MadeBackward"]
    assert "recording(fails).apply(ag.tensor([1.0]))" in "\n".join(raised.value.__notes__)


@pytest.mark.parametrize("value", [2, None, "no", [False]])
@pytest.mark.parametrize("method", ["set_records", "set_materialize_grads"])
def test_what_the_context_is_told_is_a_truth_value(method, value):
    with pytest.raises(ArgumentTypeError, match=rf"ctx\.{method}\(value\) must be True or False, not"):
        function(lambda ctx, x: getattr(ctx, method)(value) or x).apply(leaf(1.0))


def test_a_truth_value_of_numpy_is_one():
    y = function(lambda ctx, x: ctx.set_records(np.True_) or x).apply(ag.tensor(1.0))

    assert y.requires_grad


def test_a_reentrant_checkpoint_without_an_argument_that_requires_grad_warns_once():
    with pytest.warns(UserWarning, match="no argument of") as caught:
        ag.checkpoint(lambda x: x * W, ag.tensor([1.0, 2.0]))

    assert ["use_reentrant=False" in str(warning.message) for warning in caught] == [True]


@one_loop
async def test_a_device_other_than_the_cpu_watches_and_records():
    x = ag.tensor([1.0, 2.0], device="thread:0")
    w = ag.tensor([3.0, 4.0], device="thread:0", requires_grad=True)
    with pytest.warns(UserWarning, match=LOST):
        function(lambda ctx, x: x * w).apply(x)
    calls: list[Any] = []
    made = recording(lambda ctx, grad: calls.append(grad.device))
    await ag.backward(made.apply(x), ag.tensor([1.0, 1.0], device="thread:0"))

    assert [str(device) for device in calls] == ["thread:0"]


@one_loop
async def test_a_weight_gets_its_gradient_from_each_of_many_calls_at_once():
    w, made = module("ctx", says=True)

    async with asyncio.TaskGroup() as group:
        for number in range(5):
            group.create_task(ag.backward(made.apply(ag.tensor([float(number)]))))

    assert w.grad.tolist() == [10.0]
