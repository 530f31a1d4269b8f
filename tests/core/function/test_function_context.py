"""A Function's arguments and its context: what forward leaves for backward."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import (
    ChangedTensorError,
    GradientTypeError,
    GraphError,
    InPlaceError,
    ReleasedGraphError,
)
from tests.support.functions import function
from tests.support.leaves import leaf, leaf_of

FORMS = ["ctx", "setup_context"]


# Arguments.


def scaled_power(form: str) -> type[ag.Function]:
    def compute(x: Any, factor: Any = 2.0, power: Any = 1) -> Any:
        return (x * factor) ** power

    def set_up(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.inputs = inputs

    def forward(ctx: Any, x: Any, factor: Any = 2.0, power: Any = 1) -> Any:
        ctx.inputs = (x, factor, power)
        return (x * factor) ** power

    def backward(ctx: Any, grad: Any) -> Any:
        x, factor, power = ctx.inputs
        return grad * power * (x * factor) ** (power - 1) * factor, None, None

    body: dict[str, Any] = {"forward": forward} if form == "ctx" else {"forward": compute, "setup_context": set_up}
    return type("Scale", (ag.Function,), {name: staticmethod(f) for name, f in (body | {"backward": backward}).items()})


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("args", "kwargs", "expected"),
    [
        ((), {}, (4.0, 2.0)),
        ((3.0,), {}, (6.0, 3.0)),
        ((), {"factor": 3.0}, (6.0, 3.0)),
        ((), {"power": 2}, (16.0, 16.0)),
        ((3.0,), {"power": 2}, (36.0, 36.0)),
        ((), {"power": 2, "factor": 3.0}, (36.0, 36.0)),
    ],
)
def test_keywords_and_defaults_are_bound_by_the_signature_of_forward(form, args, kwargs, expected):
    x = leaf_of(2.0)
    y = scaled_power(form).apply(x, *args, **kwargs)
    sync.backward(y)

    assert (y.item(), x.grad.item()) == expected


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kwargs", [{"missing": 1}, {"x": 1}])
def test_arguments_that_forward_does_not_take_raise_as_in_a_call(form, kwargs):
    with pytest.raises(TypeError, match="argument"):
        scaled_power(form).apply(leaf(1.0), **kwargs)


def test_needs_input_grad_says_for_each_argument_whether_a_gradient_is_wanted_and_can_be_set():
    seen = []

    def forward(ctx: Any, *args: Any) -> Any:
        seen.append(ctx.needs_input_grad)
        ctx.needs_input_grad = "mine"
        return args[0] * 2

    def backward(ctx: Any, grad: Any) -> Any:
        seen.append(ctx.needs_input_grad)
        return grad, None, None, None

    x = leaf(1.0)
    sync.grad(function(forward, backward).apply(x, ag.tensor(1.0), 3.0, leaf(1.0)), [x])

    assert seen == [(True, False, False, True), "mine"]


def test_nothing_that_is_saved_makes_a_reference_cycle():
    gc.collect()
    gc.disable()
    try:
        for saved in ("inputs", "outputs", "both"):

            def forward(ctx: Any, x: Any, y: Any, saved: str) -> Any:
                z = x * y
                ctx.save_for_backward(*(() if saved == "outputs" else (x, y)), *(() if saved == "inputs" else (z,)))
                return z, None

            x, y = leaf(2.0), leaf(3.0)
            z, _ = function(forward, lambda ctx, grad, _: (grad, ctx.saved_tensors[0], None)).apply(x, y, saved)
            sync.backward(z.sum())
            held = [weakref.ref(thing) for thing in (x, y, z, z.grad_fn)]
            del x, y, z
            assert [reference() for reference in held] == [None] * 4
    finally:
        gc.enable()


# What is saved.


def test_inputs_outputs_intermediates_arrays_and_none_are_saved_in_order():
    def forward(ctx: Any, x: Any) -> Any:
        y, between = x * 2, x * 3
        array = x.numpy() * 4
        ctx.save_for_backward(x, y, between, None, array)
        return y

    def backward(ctx: Any, grad: Any) -> Any:
        saved.extend(ctx.saved_tensors)
        return grad * 2

    saved: list[Any] = []
    x = leaf(1.0)
    y = function(forward, backward).apply(x)
    sync.backward(y)

    assert saved[0] is x
    assert [None if t is None else t.tolist() for t in saved] == [[1.0], [2.0], [3.0], None, [4.0]]
    assert [None if t is None else t.requires_grad for t in saved] == [True, True, False, None, False]
    assert saved[1].grad_fn is y.grad_fn


def test_an_array_saved_and_returned_is_saved_as_the_output_with_its_history():
    def forward(ctx: Any, x: Any) -> Any:
        y = np.exp(x.numpy())
        ctx.save_for_backward(y)
        return y

    def backward(ctx: Any, grad: Any) -> Any:
        (y,) = ctx.saved_tensors
        return grad * y

    x = leaf(0.0)
    (first,) = sync.grad(function(forward, backward).apply(x), [x], create_graph=True)
    (second,) = sync.grad(first, [x])

    assert second.tolist() == [1.0]


async def test_load_saved_awaits_what_saved_tensors_gives():
    async def backward(ctx: Any, grad: Any) -> Any:
        (x,) = await ctx.load_saved()
        await asyncio.sleep(0)
        return grad * 2 * x

    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    x = leaf(3.0)
    await function(forward, backward).apply(x).backward()

    assert x.grad.tolist() == [6.0]


def saving_square() -> type[ag.Function]:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.x = x.numpy().copy()
        ctx.save_for_backward(x)
        return x * x

    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * 2 * x

    return type("Square", (ag.Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})


def test_saved_tensors_can_be_read_outside_of_a_backward_until_they_are_released():
    x = leaf(3.0)
    y = saving_square().apply(x)
    ctx = y.grad_fn.ctx
    (before,) = ctx.saved_tensors
    sync.backward(y)

    assert before is x
    assert ctx.x.tolist() == [3.0]
    with pytest.raises(ReleasedGraphError, match=r"SquareBackward.*retain_graph=True"):
        ctx.saved_tensors
    with pytest.raises(ReleasedGraphError, match="SquareBackward"):
        sync.backward(y)


def test_a_backward_that_reads_nothing_saved_runs_twice():
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2

    x = leaf(3.0)
    y = function(forward, lambda ctx, grad: grad * 2).apply(x)
    sync.backward(y)
    sync.backward(y)

    assert x.grad.tolist() == [4.0]


@pytest.mark.parametrize("saves_output", [True, False])
def test_a_saved_tensor_changed_in_place_raises_and_names_both_versions(saves_output):
    def forward(ctx: Any, x: Any) -> Any:
        y = x * x
        ctx.save_for_backward(y if saves_output else x)
        return y

    x = leaf(1.0, 2.0)
    y = function(forward, lambda ctx, grad: grad * ctx.saved_tensors[0]).apply(x)
    with ag.no_grad():
        changed = y if saves_output else x
        changed += 1

    with pytest.raises(ChangedTensorError, match=r"MadeBackward.*shape \(2,\).*version 1.*version 0"):
        sync.backward(y.sum())


def test_the_context_of_a_graph_that_is_gone_says_so():
    contexts = []

    def forward(ctx: Any, x: Any) -> Any:
        contexts.append(ctx)
        ctx.save_for_backward(x)
        return x * 2

    function(forward).apply(leaf(1.0))

    with pytest.raises(GraphError, match="was freed"):
        contexts[0].saved_tensors


NAMES = ["shape", "dtype", "device", "save", "release", "is_dirty", "check_dirty", "grad", "node", "name", "x"]


@pytest.mark.parametrize("name", NAMES)
def test_an_attribute_of_any_name_may_be_set_on_the_context_and_survives_release(name):
    def forward(ctx: Any, x: Any) -> Any:
        setattr(ctx, name, (2, 3))
        ctx.save_for_backward(x)
        return x * 2

    x = leaf(1.0)
    y = function(forward, lambda ctx, grad: grad * getattr(ctx, name)[1]).apply(x)
    sync.backward(y)

    assert (x.grad.tolist(), getattr(y.grad_fn.ctx, name)) == ([3.0], (2, 3))


def test_a_second_derivative_through_an_argument_detached_in_place_raises():
    x = leaf(1.0)
    y = x * 2
    z = saving_square().apply(y)
    y.detach_()
    (first,) = sync.grad(z, [x], retain_graph=True)

    assert first.tolist() == [8.0]
    with pytest.raises(ChangedTensorError, match=r"SquareBackward.*detach_\(\) has cut"):
        sync.grad(z, [x], create_graph=True)


# Writes in place.


def add_one(returns: bool = True) -> type[ag.Function]:
    def forward(ctx: Any, x: Any) -> Any:
        x += 1
        ctx.mark_dirty(x)
        return x if returns else x * 2

    return function(forward, lambda ctx, grad: grad * 10)


def test_an_argument_written_into_takes_its_new_place_in_the_graph():
    x = leaf(1.0, 2.0)
    y = x * 2
    result = add_one().apply(y)
    sync.backward(result.sum())

    assert result is y
    assert (y.tolist(), y.grad_fn.name, x.grad.tolist()) == ([3.0, 5.0], "MadeBackward", [20.0, 20.0])


def test_an_argument_written_into_is_seen_by_who_saved_it():
    x = leaf(1.0, 2.0)
    y = x * 2
    z = y * y
    add_one().apply(y)

    with pytest.raises(ChangedTensorError, match="MultiplyBackward"):
        sync.backward(z.sum())


def test_under_no_grad_a_leaf_may_be_written_into():
    x = leaf(1.0)
    with ag.no_grad():
        result = add_one().apply(x)

    assert result is x
    assert (x.tolist(), x.is_leaf) == ([2.0], True)


def test_what_may_not_be_written_into_raises():
    x = leaf(1.0, 2.0)

    for target in (x, x[:]):
        with pytest.raises(InPlaceError, match=r"shape \(2,\).*leaf.*x = x\.copy\(\)"):
            add_one().apply(target)


def marks(value: Any, *, returns: bool = True) -> type[ag.Function]:
    """A Function that marks a tensor as written into which it was not given."""

    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(value)
        return value if returns else x * 2

    return function(forward, lambda ctx, grad: grad * 7)


def test_marking_dirty_what_is_not_returned_or_no_tensor_raises():
    with pytest.raises(InPlaceError, match=r"shape \(1,\).*does not return it"):
        add_one(returns=False).apply(leaf(1.0) * 2)
    with pytest.raises(InPlaceError, match=r"shape \(3,\).*does not return it"):
        marks(ag.tensor(np.ones(3)), returns=False).apply(leaf(1.0))
    with pytest.raises(GradientTypeError, match=r"mark_dirty.*ndarray"):
        marks(np.ones(3)).apply(leaf(1.0))


def test_marking_dirty_what_is_no_argument_warns_at_the_line_that_applies():
    x, other = leaf(1.0), ag.tensor([5.0])
    with pytest.warns(UserWarning, match=r"shape \(1,\).*no argument") as warned:
        result = marks(other).apply(x)
    sync.backward(result)

    assert [warning.filename for warning in warned] == [__file__]
    assert (result is other, other._version, x.grad.tolist()) == (True, 1, [7.0])


def test_marking_dirty_what_is_no_argument_says_nothing_where_nothing_is_recorded():
    with ag.no_grad():
        assert marks(ag.tensor([5.0])).apply(leaf(1.0)).tolist() == [5.0]


@pytest.mark.parametrize(
    "value", [lambda: ag.tensor([5.0, 6.0])[:1], lambda: leaf(5.0), lambda: leaf(5.0) * 2], ids=["view", "leaf", "made"]
)
def test_marking_dirty_what_is_no_argument_and_has_a_history_of_its_own_raises(value):
    with pytest.raises(InPlaceError, match=r"shape \(1,\).*no argument.*pass it to apply"):
        marks(value()).apply(leaf(1.0))
