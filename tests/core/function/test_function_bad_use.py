"""A Function that is badly written says what is wrong and what to write; and once_differentiable."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import (
    ArgumentTypeError,
    AsyncgradError,
    GradientTypeError,
    GraphError,
    InvalidGradientError,
    ReleasedGraphError,
)
from asyncgrad.testing import SimulatedAccelerator, SimulatedArray
from tests.support.functions import function
from tests.support.leaves import leaf, leaf_of
from tests.support.loops import one_loop


@pytest.mark.parametrize(
    ("returned", "error", "message"),
    [
        (lambda g: (g, g), InvalidGradientError, "2 gradients, and forward took 1 argument"),
        (lambda g: (), InvalidGradientError, "0 gradients, and forward took 1 argument"),
        (lambda g: "text", GradientTypeError, "str 'text' for argument 1"),
        (lambda g: 1.0, GradientTypeError, "float 1.0 for argument 1"),
        (lambda g: {"x": g}, GradientTypeError, "dict .* for argument 1"),
        (lambda g: g[:1], InvalidGradientError, r"shape \(1,\).*shape \(2,\)"),
        (lambda g: np.ones((2, 3)), InvalidGradientError, r"shape \(2, 3\).*shape \(2,\)"),
        (lambda g: np.array(["a", "b"]), InvalidGradientError, "dtype <U1.*dtype float64"),
    ],
    ids=["too many", "none", "str", "float", "dict", "too short", "other shape", "strings"],
)
def test_a_backward_that_returns_the_wrong_thing_raises_and_names_the_function(returned, error, message):
    x = leaf(1.0, 2.0)
    y = function(lambda ctx, x: x * 2, lambda ctx, grad: returned(grad)).apply(x)

    with pytest.raises(error, match=f"Made.*{message}") as raised:
        sync.backward(y.sum())
    assert isinstance(raised.value, AsyncgradError)
    assert x.grad is None


def test_gradients_beyond_the_arguments_may_be_none():
    x = leaf(1.0)
    sync.backward(function(lambda ctx, x: x * 2, lambda ctx, grad: (grad * 2, None, None)).apply(x))

    assert x.grad.tolist() == [2.0]


def test_a_gradient_for_an_argument_that_is_no_tensor_raises_and_gives_its_place():
    y = function(lambda ctx, x, n: x * n, lambda ctx, grad: (grad, grad)).apply(leaf(1.0), 3.0)

    with pytest.raises(InvalidGradientError, match=r"Made\.backward.*argument 2 of forward.*None"):
        sync.backward(y)


def test_saving_what_is_no_tensor_raises_and_names_the_way():
    with pytest.raises(GradientTypeError, match=r"int 3.*ctx\.value = value"):
        function(lambda ctx, x: ctx.save_for_backward(x, 3) or x * 2).apply(leaf(1.0))


def test_a_function_without_forward_or_backward_says_so_when_it_is_needed():
    Nothing: Any = type("Nothing", (ag.Function,), {})
    OneWay: Any = type("OneWay", (ag.Function,), {"forward": staticmethod(lambda ctx, x: x * 2)})

    with pytest.raises(NotImplementedError, match=r"Nothing.*forward\(ctx, \*args\)"):
        Nothing.apply(leaf(1.0))
    y = OneWay.apply(leaf(1.0))
    with pytest.raises(NotImplementedError, match=r"OneWay.*backward\(ctx, \*grads\)"):
        sync.backward(y)


def test_backward_and_vjp_together_raise():
    Both: Any = type("Both", (function(lambda ctx, x: x),), {"vjp": staticmethod(lambda ctx, grad: grad)})

    with pytest.raises(GraphError, match="Both defines both backward and vjp"):
        sync.backward(Both.apply(leaf(1.0)))


@pytest.mark.parametrize("args", [(), (1.0,), (leaf(1.0), 2.0)], ids=len)
@pytest.mark.parametrize("own", [False, True], ids=["", "with an __init__ of its own"])
def test_a_function_is_applied_and_never_made(args, own):
    Made: Any = function(lambda ctx, *args: args[0])
    if own:
        Made.__init__ = lambda self, *args: None

    with pytest.raises(ArgumentTypeError, match=r"Made is not instantiated, it is applied: write Made\.apply\("):
        Made(*args)
    with pytest.raises(ArgumentTypeError, match=r"write Made\.apply\("):
        Made(x=leaf(1.0))


async def nothing_later(*args: Any) -> None:
    await asyncio.sleep(0)


@one_loop
@pytest.mark.parametrize("x", [leaf(1.0), ag.tensor([1.0]), 3.0], ids=["leaf", "constant", "number"])
@pytest.mark.parametrize("forward", [lambda *args: None, nothing_later], ids=["def", "async def"])
@pytest.mark.parametrize("two_part", [False, True], ids=["ctx", "setup_context"])
async def test_a_forward_that_returns_none_is_named(two_part, forward, x):
    async def main() -> None:
        result = Made.apply(x)
        if asyncio.iscoroutine(result):
            await result

    body: dict[str, Any] = {"forward": staticmethod(forward)}
    if two_part:
        body["setup_context"] = staticmethod(lambda ctx, inputs, output: None)
    Made: Any = type("Made", (function(forward),), body)

    with pytest.raises(ArgumentTypeError, match=r"Made\.forward returned None: return the outputs"):
        await main()


def of_an_instance(self: Any, *args: Any) -> Any:
    return args[0]


KINDS = {"a method of instances": lambda method: method, "a classmethod": classmethod, "a property": property}
METHODS = ["forward", "backward", "vjp", "setup_context"]


@pytest.mark.parametrize("x", [leaf(1.0), ag.tensor([1.0])], ids=["leaf", "constant"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", METHODS)
def test_a_method_that_is_not_static_is_named_with_the_line_to_write(name, kind, x):
    good = {"forward": staticmethod(lambda *args: args[-1]), "backward": staticmethod(lambda ctx, grad: grad)}
    Made: Any = type("Made", (ag.Function,), {**good, name: KINDS[kind](of_an_instance)})
    Derived: Any = type("Derived", (Made,), {})
    mixin: Any = type("Mixin", (), {name: KINDS[kind](of_an_instance)})
    Mixed: Any = type("Mixed", (mixin, ag.Function), {} if name == "forward" else {"forward": good["forward"]})

    for wrong in (Made, Derived, Mixed):
        with pytest.raises(
            ArgumentTypeError, match=rf"{wrong.__name__}\.{name} is {kind}.*@staticmethod.*def {name}\("
        ):
            wrong.apply(x)


def test_an_async_method_that_is_not_static_is_named():
    class Made(ag.Function):
        async def forward(self, x: Any) -> Any:  # type: ignore[override]
            return x

    with pytest.raises(ArgumentTypeError, match=r"Made\.forward is a method of instances.*def forward\(ctx, "):
        Made.apply(leaf(1.0))


def test_callables_of_any_other_kind_are_static():
    class Call:
        def __call__(self, ctx: Any, x: Any) -> Any:
            return x * 2

    x = leaf(1.0)
    body = {"forward": Call(), "backward": functools.partial(lambda factor, ctx, grad: grad * factor, 2)}
    Made: Any = type("Made", (ag.Function,), body)
    sync.backward(Made.apply(x))

    assert x.grad.tolist() == [2.0]


@pytest.mark.parametrize("name", ["forward", "backward"])
def test_a_method_that_cannot_be_called_is_named(name):
    Made: Any = type("Made", (function(lambda ctx, x: x),), {name: 5})

    with pytest.raises(ArgumentTypeError, match=rf"Made\.{name} is int 5, and not a function"):
        Made.apply(leaf(1.0))


def test_a_method_that_is_put_right_in_a_subclass_is_right():
    Wrong: Any = type("Wrong", (function(lambda ctx, x: x * 2),), {"backward": of_an_instance})
    Right: Any = type("Right", (Wrong,), {"backward": staticmethod(lambda ctx, grad: grad * 2)})
    x = leaf(1.0)
    sync.backward(Right.apply(x))

    assert x.grad.tolist() == [2.0]


def test_arguments_by_keyword_only_raise():
    def forward(ctx: Any, x: Any, *, n: int) -> Any:
        return x * n

    with pytest.raises(TypeError, match=r"n by keyword only.*by position"):
        function(forward).apply(leaf(1.0), n=2)


async def unpacked_two(ctx: Any, grad: Any) -> Any:
    x, y = await ctx.load_saved()
    return grad * x * y


@pytest.mark.parametrize(
    ("forward", "backward", "saved"),
    [
        (lambda ctx, x: x * 2, lambda ctx, grad: grad * ctx.saved_tensors[0], "no tensor"),
        (lambda ctx, x: ctx.save_for_backward(x) or x * 2, unpacked_two, "1 tensor"),
    ],
    ids=["def", "async def"],
)
def test_a_backward_that_takes_more_than_was_saved_is_told_what_was(forward, backward, saved):
    y = function(forward, backward).apply(leaf(1.0))

    with pytest.raises((IndexError, ValueError)) as raised:
        sync.backward(y)
    assert raised.value.__notes__[0].startswith(f"ctx has saved {saved}: write ctx.save_for_backward(")


def test_an_index_error_of_a_function_within_a_backward_is_told_nothing_of_saved_tensors():
    def backward(ctx: Any, grad: Any) -> Any:
        assert ctx.saved_tensors == ()
        return other(())

    def other(items: tuple[Any, ...]) -> Any:
        return items[0]

    with pytest.raises(IndexError) as raised:
        sync.backward(function(lambda ctx, x: x * 2, backward).apply(leaf(1.0)))
    assert "saved" not in " ".join(getattr(raised.value, "__notes__", ()))


def test_a_coroutine_that_forward_returns_has_the_name_of_the_function():
    async def doubled(x: Any) -> Any:
        return x * 2

    coroutine = function(lambda ctx, x: doubled(x)).apply(leaf(1.0))

    assert coroutine.__qualname__ == "Made.apply"
    assert ag.run(coroutine).tolist() == [2.0]


# once_differentiable.


def save_and_square(ctx: Any, x: Any) -> Any:
    ctx.save_for_backward(x)
    return x * x


def once(kind: str) -> type[ag.Function]:
    def square_backward(ctx: Any, grad: Any) -> Any:
        modes.append(ag.is_grad_enabled())
        return 2 * ctx.saved_tensors[0] * grad

    async def async_backward(ctx: Any, grad: Any) -> Any:
        await asyncio.sleep(0)
        return square_backward(ctx, grad)

    modes: list[bool] = []
    backward = async_backward if kind == "async def" else square_backward
    Once = function(save_and_square, ag.once_differentiable(backward))
    Once.modes = modes  # type: ignore[attr-defined]
    return Once


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_once_differentiable_backward_runs_with_recording_off_and_gives_the_gradient(kind):
    x = leaf(3.0)
    Once: Any = once(kind)
    y = Once.apply(x)
    (plain,) = sync.grad(y, [x], retain_graph=True)
    (recorded,) = sync.grad(y, [x], create_graph=True)

    assert (plain.tolist(), recorded.tolist(), plain.requires_grad) == ([6.0], [6.0], False)
    assert Once.modes == [False, False]


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_differentiating_a_once_differentiable_backward_raises_and_names_it(kind):
    x = leaf(3.0)
    (first,) = sync.grad(once(kind).apply(x) * x, [x], create_graph=True)

    with pytest.raises(GraphError, match=r"_backward is marked once_differentiable"):
        sync.grad(first, [x])


def test_a_once_differentiable_backward_may_get_and_give_none():
    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    x = leaf(3.0)
    first, second = function(forward, ag.once_differentiable(lambda ctx, g, h: None)).apply(x)
    (grad,) = sync.grad(first + 0 * second, [x], create_graph=True, allow_unused=True)

    assert grad is None


# What a once_differentiable backward depends on.

marks = pytest.mark.parametrize("kind", ["def", "async def"])
W = leaf(5.0)


def marked_square(kind: str, keep: Any, formula: Any) -> Any:
    """x² in a Function whose backward is marked, keeps x in some way, and computes by `formula(ctx, grad)`."""

    def forward(ctx: Any, x: Any) -> Any:
        y = x * x
        keep(ctx, x, y)
        return y

    def square_backward(ctx: Any, grad: Any) -> Any:
        return formula(ctx, grad)

    async def async_backward(ctx: Any, grad: Any) -> Any:
        await asyncio.sleep(0)
        return formula(ctx, grad)

    return function(forward, ag.once_differentiable(async_backward if kind == "async def" else square_backward))


def set_x(ctx: Any, value: Any) -> None:
    ctx.x = value


KEEPS = {
    "saved": (lambda ctx, x, y: ctx.save_for_backward(x), lambda ctx, grad: 2 * ctx.saved_tensors[0] * grad),
    "an attribute": (lambda ctx, x, y: set_x(ctx, x), lambda ctx, grad: 2 * ctx.x * grad),
    "a tree": (lambda ctx, x, y: set_x(ctx, [{"x": x}]), lambda ctx, grad: 2 * ctx.x[0]["x"] * grad),
    "an array": (lambda ctx, x, y: set_x(ctx, x.numpy()), lambda ctx, grad: 2 * ctx.x * grad.numpy()),
    "the output": (lambda ctx, x, y: ctx.save_for_backward(y), lambda ctx, g: 2 * np.sqrt(ctx.saved_tensors[0]) * g),
    "nothing": (lambda ctx, x, y: None, lambda ctx, grad: grad * 6.0),
}


@marks
@pytest.mark.parametrize(("keep", "formula"), KEEPS.values(), ids=KEEPS)
def test_a_marked_backward_is_not_differentiated_by_the_argument_of_its_forward(keep, formula, kind):
    x = leaf(3.0)
    (grad,) = sync.grad(marked_square(kind, keep, formula).apply(x), [x], create_graph=True)

    assert grad.tolist() == [6.0]
    with pytest.raises(GraphError, match=r"_backward is marked once_differentiable"):
        sync.grad(grad * x, [x])
    with pytest.raises(GraphError, match=r"_backward is marked once_differentiable"):
        sync.backward(grad * x)
    with pytest.raises(GraphError, match=r"_backward is marked once_differentiable"):
        sync.hessian(lambda x: marked_square(kind, keep, formula).apply(x).sum(), x)


@marks
def test_a_marked_backward_is_not_differentiated_by_its_own_output(kind):
    x = leaf(3.0)
    y = marked_square(kind, *KEEPS["the output"]).apply(x)
    (grad,) = sync.grad(y, [x], create_graph=True)

    with pytest.raises(GraphError, match="once_differentiable"):
        sync.grad(grad * y, [y])


@marks
@pytest.mark.parametrize(
    ("keep", "formula"),
    [
        (lambda ctx, x, y: ctx.save_for_backward(W), lambda ctx, grad: ctx.saved_tensors[0] * grad),
        (lambda ctx, x, y: set_x(ctx, {"w": (W,)}), lambda ctx, grad: ctx.x["w"][0] * grad),
        (lambda ctx, x, y: None, lambda ctx, grad: W * grad),
    ],
    ids=["saved", "an attribute", "an operation"],
)
def test_a_marked_backward_is_not_differentiated_by_what_else_it_takes(keep, formula, kind):
    x = leaf(3.0)
    (grad,) = sync.grad(marked_square(kind, keep, formula).apply(x), [x], create_graph=True)

    with pytest.raises(GraphError, match="once_differentiable"):
        sync.grad(grad * W, [W])


@marks
def test_a_marked_backward_in_the_two_part_form_is_not_differentiated(kind):
    keep, formula = KEEPS["saved"]
    body = {
        "forward": staticmethod(lambda x: x * x),
        "setup_context": staticmethod(lambda ctx, inputs, output: ctx.save_for_backward(*inputs)),
    }
    Made: Any = type("Made", (marked_square(kind, keep, formula),), body)
    x = leaf(3.0)
    (grad,) = sync.grad(Made.apply(x), [x], create_graph=True)

    with pytest.raises(GraphError, match="once_differentiable"):
        sync.grad(grad * x, [x])


@marks
def test_a_marked_backward_under_saved_tensor_hooks_is_not_differentiated(kind):
    x = leaf(3.0)
    with ag.graph.saved_tensors_hooks(lambda t: t.numpy(), lambda array: ag.tensor(array)):
        y = marked_square(kind, lambda ctx, x, y: ctx.save_for_backward(W), KEEPS["nothing"][1]).apply(x)
    (grad,) = sync.grad(y, [x], create_graph=True)

    with pytest.raises(GraphError, match="once_differentiable"):
        sync.grad(grad * W, [W])


@marks
def test_what_a_marked_backward_has_nothing_to_do_with_can_be_differentiated(kind):
    x, other = leaf(3.0), leaf(2.0)
    y = marked_square(kind, *KEEPS["saved"]).apply(x)
    (grad,) = sync.grad(y, [x], create_graph=True)

    assert sync.grad(grad * other, [other])[0].tolist() == [6.0]


def test_a_marked_backward_that_takes_nothing_that_requires_grad_gives_plain_tensors():
    seen: list[Any] = []

    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_records(True)
        return x * 2

    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2

    def unmarked(ctx: Any, grad: Any) -> Any:
        seen.append(ag.once_differentiable(backward)(ctx, grad))

    x = leaf(1.0)
    y = function(forward, unmarked).apply(ag.tensor([1.0])) * 2.0 + x
    sync.grad(y, [x], create_graph=True)
    sync.backward(function(forward, unmarked).apply(ag.tensor([1.0])) * 2.0)
    with pytest.warns(UserWarning, match="create_graph"):
        sync.backward(function(forward, unmarked).apply(ag.tensor([1.0])), create_graph=True)

    assert [(one.tolist(), one.requires_grad) for one in seen] == [([4.0], False), ([2.0], False)]


@marks
def test_a_marked_backward_is_still_called_once_for_each_backward_and_released(kind):
    x = leaf(3.0)
    y = marked_square(kind, *KEEPS["saved"]).apply(x)
    sync.backward(y)

    assert x.grad.tolist() == [6.0]
    with pytest.raises(ReleasedGraphError):
        sync.backward(y)


def test_a_mark_may_stand_above_staticmethod():
    class Made(ag.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @ag.once_differentiable
        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    x = leaf(1.0)
    sync.backward(Made.apply(x))

    assert x.grad.tolist() == [2.0]


def test_a_static_method_of_another_class_may_be_taken_over():
    class Doubled(ag.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    class Negated(ag.Function):
        forward = Doubled.forward

        @staticmethod
        def backward(ctx, grad):
            return -grad

    x = leaf(1.0)
    sync.backward(Negated.apply(x))

    assert x.grad.tolist() == [-1.0]


@pytest.mark.parametrize("wrong", [5, "backward", ag.Function])
def test_only_a_function_is_marked(wrong):
    with pytest.raises(ArgumentTypeError, match="once_differentiable marks a backward, not"):
        ag.once_differentiable(wrong)


# Arrays that a backward returns.


class OwnArray(np.ndarray):
    """An ndarray of a user's own type."""


ARRAYS = {
    "an array": lambda grad: grad.numpy() * 6.0,
    "read-only": lambda grad: np.broadcast_to(grad.numpy() * 6.0, (1,)),
    "reversed": lambda grad: (grad.numpy() * 6.0)[::-1],
    "a scalar": lambda grad: np.float64(grad.item() * 6.0),
    "0-d": lambda grad: np.array(grad.item() * 6.0),
    "float32": lambda grad: (grad.numpy() * 6.0).astype(np.float32),
    "whole numbers": lambda grad: (grad.numpy() * 6.0).astype(int),
    "big-endian": lambda grad: (grad.numpy() * 6.0).astype(">f8"),
    "of a type of its own": lambda grad: (grad.numpy() * 6.0).view(OwnArray),
    "a list of one": lambda grad: [grad.numpy() * 6.0],
}


@pytest.mark.parametrize("returned", ARRAYS.values(), ids=ARRAYS)
@pytest.mark.parametrize("waits", [False, True], ids=["def", "async def"])
def test_a_backward_may_return_whatever_array_its_forward_may(returned, waits):
    async def later(ctx: Any, grad: Any) -> Any:
        await asyncio.sleep(0)
        return returned(grad)

    def forward(ctx: Any, x: Any) -> Any:
        given = returned(x)
        return given[0] if isinstance(given, list) else given

    x = leaf_of(3.0) if np.ndim(returned(ag.tensor([1.0]))) == 0 else leaf(3.0)
    Made = function(forward, later if waits else lambda ctx, grad: returned(grad))
    y = Made.apply(x)
    assert y.numpy().reshape(()) == 18.0
    sync.backward(function(lambda ctx, x: x * 6.0, Made.backward).apply(x))

    assert type(x.grad.numpy()) is np.ndarray
    assert (x.grad.shape, x.grad.dtype, x.grad.sum().item()) == (x.shape, x.dtype, 6.0)


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_backward_may_return_arrays_of_another_type_as_its_forward_may(create_graph):
    device = SimulatedAccelerator()
    x = ag.tensor([1.0, 2.0], device=device, requires_grad=True)
    Made = function(lambda ctx, x: x._data * 2.0, lambda ctx, grad: grad._data * 2.0)
    y = Made.apply(x)
    (grad,) = sync.grad(y, [x], ag.tensor([1.0, 1.0], device=device), create_graph=create_graph)

    assert type(y._data) is type(grad._data) is SimulatedArray
    assert (y.tolist(), grad.tolist()) == ([2.0, 4.0], [2.0, 2.0])


@marks
@pytest.mark.parametrize("returned", ARRAYS.values(), ids=ARRAYS)
def test_arrays_that_a_backward_returns_raise_where_they_are_differentiated(returned, kind):
    async def later(ctx: Any, grad: Any) -> Any:
        await asyncio.sleep(0)
        return returned(grad)

    make = leaf_of if np.ndim(returned(ag.tensor([1.0]))) == 0 else leaf
    x, other = make(3.0), make(2.0)
    Made = function(lambda ctx, x: x * 6.0, later if kind == "async def" else lambda ctx, grad: returned(grad))
    (grad,) = sync.grad(Made.apply(x), [x], create_graph=True)

    assert grad.sum().item() == 6.0
    with pytest.raises(GraphError, match=r"Made\.backward \(node #\d+\) returned an array, which has no history"):
        sync.grad(grad * x, [x])
    assert sync.grad(grad * other, [other])[0].sum().item() == 6.0


def test_a_tensor_without_history_that_a_backward_returns_is_a_constant():
    x = leaf(3.0)
    Made = function(lambda ctx, x: x * 6.0, lambda ctx, grad: ag.asarray(grad.numpy() * 6.0))
    (grad,) = sync.grad(Made.apply(x), [x], create_graph=True)

    assert sync.grad(grad * x, [x])[0].tolist() == [6.0]


def test_an_array_beside_a_tensor_that_a_backward_returns_leaves_the_tensor_its_history():
    x, w = leaf(3.0), leaf(2.0)

    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        return x * x * w

    def backward(ctx: Any, grad: Any) -> Any:
        x, w = ctx.saved_tensors
        return 2 * x * w * grad, (x * x * grad).detach().numpy()

    first, second = sync.grad(function(forward, backward).apply(x, w), [x, w], create_graph=True)

    assert sync.grad(first, [x], retain_graph=True)[0].tolist() == [4.0]
    with pytest.raises(GraphError, match="returned an array"):
        sync.grad(second, [x])
