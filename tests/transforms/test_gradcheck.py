"""gradcheck and gradgradcheck pass what is right, and say of what is wrong where and how."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.core.graph.node import Edge, Node, NodeMeta
from asyncgrad.core.settings import scheduling
from asyncgrad.errors import AsyncgradError, GradcheckError, GradientTypeError, InvalidGradientError, RequiresGradError
from asyncgrad.testing import gradcheck, gradgradcheck
from tests.support.leaves import random_leaf
from tests.support.loops import one_loop
from tests.support.settings import loop_budget

CHECKS = [gradcheck, gradgradcheck]
of_each = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)


class Custom(Node):
    """A node with any backward at all."""

    __slots__ = ("backward",)

    def __init__(self, inputs: tuple[ag.Tensor, ...], like: ag.Tensor, backward: Any) -> None:
        edges = [ag.graph.get_gradient_edge(x) for x in inputs]
        self._connect([Edge(edge.node, edge.output_nr) for edge in edges])
        self.shape, self.dtype, self.device = like.shape, like.dtype, like.device
        self.meta = NodeMeta()
        self.backward = backward

    @property
    def is_async(self) -> bool:  # type: ignore[override]
        return inspect.iscoroutinefunction(self.backward)

    def apply(self, grads: tuple[Any, ...]) -> Any:
        return self.backward(grads[0])


def custom(forward: Any, backward: Any, *inputs: ag.Tensor) -> ag.Tensor:
    """`forward(*arrays)`, with the gradients that `backward(g, *inputs)` says it has."""
    output = ag.tensor(forward(*(x.numpy() for x in inputs)))

    def with_inputs(g: Any) -> Any:
        return backward(g, *inputs)

    return ag.Tensor(output.numpy(), Custom(inputs, output, with_inputs), 0, output.device)


def wrong_square(x: ag.Tensor) -> ag.Tensor:
    """x * x, with a gradient of 2.01 x."""
    return custom(lambda x: x * x, lambda g, x: (2.01 * raw_like(g, x) * g,), x)


def raw_like(g: Any, x: ag.Tensor) -> Any:
    return x if isinstance(g, ag.Tensor) else x.numpy()


# What is right passes.

RIGHT = {
    "one input": (lambda x: x * x * x, (random_leaf(3),)),
    "several inputs": (lambda x, y: x * y * y, (random_leaf(2, 3), random_leaf(2, 3, seed=1))),
    "broadcasting": (lambda x, y: x * y * y, (random_leaf(2, 1), random_leaf(3))),
    "several outputs": (lambda x, y: (x * y, x * x), (random_leaf(2), random_leaf(2, seed=1))),
    "an output without history": (lambda x: (x * x, ag.tensor([1.0])), (random_leaf(2),)),
    "a scalar": (lambda x: x * x, (random_leaf(),)),
    "an unused input": (lambda x, y: x * x, (random_leaf(2), random_leaf(2))),
    "the input itself": (lambda x: x, (random_leaf(2),)),
    "an input that does not require grad": (lambda x, y: x * y, (random_leaf(2), ag.tensor([1.0, 2.0]))),
    "trees": (
        lambda p, x: {"y": p["w"][0] * x * p["b"], "rest": [p["w"][0].sum(), "text", None]},
        ({"w": [random_leaf(2), 3, None], "b": random_leaf(), "name": "text"}, random_leaf(2)),
    ),
    "an argument that is no tensor": (lambda x, n: x * x * n, (random_leaf(2), 3.0)),
    "no elements": (lambda x: x * x, (random_leaf(0, 2),)),
    "other layouts": (lambda x: x * x, (ag.tensor(np.ones((2, 3)).T, requires_grad=True),)),
    "a tensor with history": (lambda x: x * x, (random_leaf(2) * 2.0,)),
}
right = pytest.mark.parametrize(("fn", "inputs"), RIGHT.values(), ids=RIGHT)


@one_loop
@of_each
@right
async def test_right_gradients_pass(check, fn, inputs):
    assert await check(fn, inputs) is True


@one_loop
@of_each
async def test_a_tensor_and_a_list_are_taken_for_inputs_too(check):
    assert await check(lambda x: x * x, random_leaf(2)) is True
    assert await check(lambda x, y: x * y, [random_leaf(2), random_leaf(2)]) is True


@one_loop
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
async def test_complex_gradients_are_checked_along_both_axes_and_for_both_parts(dtype):
    z = random_leaf(2, dtype=dtype)
    loose: dict[str, Any] = {"eps": 1e-2, "atol": 1e-2, "rtol": 1e-2} if dtype is np.complex64 else {}

    def conjugated(factor):
        return lambda z: custom(lambda z: z * z, lambda g, z: (factor * np.conj(z.numpy()) * g,), z)

    assert await gradcheck(conjugated(2.0), z, check_undefined_grad=False, **loose) is True
    with pytest.raises(GradcheckError, match="the real part of output 0"):
        await gradcheck(conjugated(2.1), z, **loose)
    only_real = lambda z: custom(lambda z: z * z, lambda g, z: (2 * np.conj(z.numpy()) * g.real,), z)
    with pytest.raises(GradcheckError, match="the imaginary part of output 0"):
        await gradcheck(only_real, z, **loose)


async def test_the_checked_function_may_be_async():
    async def fn(x):
        await asyncio.sleep(0)
        return x * x * x

    assert (await gradcheck(fn, random_leaf(2)), await gradgradcheck(fn, random_leaf(2))) == (True, True)


async def test_checked_nodes_may_be_async():
    async def backward(g, x):
        await asyncio.sleep(0)
        return (2.0 * raw_like(g, x) * (0 if g is None else g),)

    fn = lambda x: custom(lambda x: x * x, backward, x)

    assert (await gradcheck(fn, random_leaf(2)), await gradgradcheck(fn, random_leaf(2))) == (True, True)


@one_loop
@of_each
async def test_inputs_are_left_as_they_are(check):
    x = random_leaf(3)
    x.grad = ag.tensor([1.0, 2.0, 3.0])
    data, grad = x.numpy().copy(), x.grad
    x.numpy().flags.writeable = False
    await check(lambda x: x * x, x)

    assert np.array_equal(data, x.numpy())
    assert x.grad is grad


async def test_checks_of_the_same_inputs_can_overlap():
    x = random_leaf(3)

    async def fn(x):
        await asyncio.sleep(0)
        return x * x

    assert (await asyncio.gather(*(gradcheck(fn, x) for _ in range(3)))) == [True] * 3


async def test_a_check_of_many_calls_lets_the_loop_turn():
    turns = 0

    def turn():
        nonlocal turns
        turns += 1
        asyncio.get_running_loop().call_soon(turn)

    turn()
    scheduling.LOOP_BUDGET.set(0.0)
    await gradcheck(lambda x: x * x, random_leaf(10))

    assert turns > 10


# What is wrong is named.


@one_loop
async def test_a_wrong_gradient_is_named_with_both_jacobians():
    with pytest.raises(GradcheckError) as caught:
        await gradcheck(lambda x, y: (x * y, wrong_square(y)), (random_leaf(2), random_leaf(2, seed=1)))

    message = str(caught.value)
    assert "Jacobian mismatch for output 1 with respect to input 1" in message
    assert "numerical:\n[[" in message
    assert "analytical:\n[[" in message
    assert "float64" not in message
    assert isinstance(caught.value, AsyncgradError)
    assert isinstance(caught.value, RuntimeError)


@one_loop
async def test_a_wrong_gradient_in_a_tree_is_named_by_its_paths():
    def fn(p):
        w, b = p["w"]
        return {"y": [custom(np.multiply, lambda g, w, b: (g * b, g * 0.0), w, b)]}

    with pytest.raises(GradcheckError, match=r"output 0\['y'\]\[0\] with respect to input 0\['w'\]\[1\]"):
        await gradcheck(fn, {"w": (random_leaf(2), random_leaf(2, seed=1))})


@one_loop
async def test_the_element_that_differs_most_is_named():
    weights = np.array([2.0, 2.5, 2.0])
    fn = lambda x: custom(lambda x: x * x, lambda g, x: (weights * x.numpy() * g,), x)
    with pytest.raises(GradcheckError, match=r"output element 1, input element 1: .* gives 2\.5, .* give 2\.0"):
        await gradcheck(fn, ag.tensor([1.0, 1.0, 1.0], requires_grad=True))


@one_loop
async def test_a_wrong_gradient_gives_false_where_no_exception_is_wanted():
    assert await gradcheck(wrong_square, random_leaf(2), raise_exception=False) is False


@one_loop
async def test_wrong_second_derivatives_are_named():
    def fn(x):
        def backward(g, x):
            return (2.0 * (x.detach() if isinstance(g, ag.Tensor) else x.numpy()) * g,)

        return custom(lambda x: x * x, backward, x)

    assert await gradcheck(fn, random_leaf(2), check_undefined_grad=False) is True
    with pytest.raises(GradcheckError, match="mismatch for the gradient for input 0 with respect to input 0"):
        await gradgradcheck(fn, random_leaf(2), check_undefined_grad=False)
    assert await gradgradcheck(fn, random_leaf(2), check_undefined_grad=False, raise_exception=False) is False


@one_loop
async def test_first_gradients_without_a_history_are_named():
    def backward(g, x):
        return (ag.tensor(2.0 * x.numpy() * (g.numpy() if isinstance(g, ag.Tensor) else g)),)

    with pytest.raises(GradcheckError, match="the gradient for input 0 does not require grad, but changes with"):
        await gradgradcheck(lambda x: custom(lambda x: x * x, backward, x), random_leaf(2))


@one_loop
async def test_wrong_derivatives_for_grad_outputs_are_named():
    def backward(g, x):
        return (2.0 * raw_like(g, x) * (g if not isinstance(g, ag.Tensor) else g.detach()),)

    with pytest.raises(GradcheckError, match=r"with respect to grad_outputs\[0\]"):
        await gradgradcheck(lambda x: custom(lambda x: x * x, backward, x), random_leaf(2))


@one_loop
@of_each
async def test_float32_inputs_that_fail_are_told_to_be_float64(check):
    with pytest.raises(GradcheckError, match=r"[Tt]oo coarse .* input 0 \(float32\).* float64"):
        await check(lambda x: x * x * x, random_leaf(3, dtype=np.float32))


@one_loop
async def test_float32_inputs_pass_with_tolerances_to_match():
    assert await gradcheck(lambda x: x * x, random_leaf(3, dtype=np.float32), eps=1e-2, atol=1e-2, rtol=1e-2) is True


@one_loop
async def test_a_backward_that_differs_from_run_to_run_is_named():
    runs = iter(range(1000))

    def backward(g, x):
        return (2.0 * x.numpy() * g + 1e-9 * next(runs),)

    fn = lambda x: custom(lambda x: x * x, backward, x)
    with pytest.raises(GradcheckError, match=r"the backward of output 0 is not deterministic.*nondet_tol is 0"):
        await gradcheck(fn, random_leaf(2))
    with pytest.raises(GradcheckError, match="is not zero where"):
        await gradcheck(fn, random_leaf(2), nondet_tol=1e-5)


@one_loop
async def test_a_gradient_that_does_not_follow_what_the_backward_starts_from_is_named():
    def backward(g, x):
        return (2.0 * x.numpy() * g + (0.0 if np.any(g) else 1.0),)

    with pytest.raises(GradcheckError, match="input 0 is not zero where all gradients that the backward starts from"):
        await gradcheck(lambda x: custom(lambda x: x * x, backward, x), random_leaf(2))


@one_loop
async def test_a_backward_that_does_not_take_undefined_gradients_is_named():
    def fails(g, x):
        return (g * 2.0 * x.numpy(),)

    def invents(g, x):
        return (2.0 * x.numpy() * (1.0 if g is None else g),)

    with pytest.raises(GradcheckError, match=r"failed where the gradient of output 0 is undefined.*NoneType"):
        await gradcheck(lambda x: custom(lambda x: x * x, fails, x), random_leaf(2))
    with pytest.raises(GradcheckError, match="not zero where the gradient of output 0 is undefined"):
        await gradcheck(lambda x: custom(lambda x: x * x, invents, x), random_leaf(2))
    for backward in (fails, invents):
        fn = lambda x, backward=backward: custom(lambda x: x * x, backward, x)
        assert await gradcheck(fn, random_leaf(2), check_undefined_grad=False) is True


@one_loop
async def test_a_lost_history_is_named():
    with pytest.raises(GradcheckError, match="output 0 does not require grad, but changes with input 0"):
        await gradcheck(lambda x: x.detach() * 2.0, random_leaf(2))


@one_loop
async def test_a_constant_without_history_passes():
    assert await gradcheck(lambda x: ag.tensor([1.0]), random_leaf(2)) is True


@one_loop
@of_each
async def test_inputs_that_the_function_takes_from_outside_are_named(check):
    x, y = random_leaf(2), random_leaf(2, seed=1)
    with pytest.raises(GradcheckError, match="the function uses input 1 from outside"):
        await check(lambda a, b: a * y, (x, y))


@one_loop
async def test_outputs_whose_shape_changes_are_named():
    def fn(x):
        return ag.tensor(np.zeros(1 + int(x.item() > 1.0))) * x

    with pytest.raises(GradcheckError, match=r"shape \(1,\).* after a change .* input 0 .*shape \(2,\)"):
        await gradcheck(fn, ag.tensor(1.0, requires_grad=True))


# Bad use.


@one_loop
@of_each
@pytest.mark.parametrize("kind", ["tensor", "tuple", "array"])
async def test_inputs_without_one_that_requires_grad_are_refused(check, kind):
    inputs = {"tensor": ag.tensor([1.0]), "tuple": (ag.tensor([1.0]), 3.0), "array": np.ones(2)}[kind]
    with pytest.raises(RequiresGradError, match="requires_grad=True"):
        await check(lambda *inputs: inputs[0] * 2, inputs, raise_exception=False)


@one_loop
@of_each
async def test_outputs_that_are_no_tensors_are_named(check):
    with pytest.raises(GradientTypeError, match="output 1 of the function must be a Tensor, not float"):
        await check(lambda x: (x, 3.0), random_leaf(2))
    with pytest.raises(GradientTypeError, match=r"output 0\['x'\]\[1\] of the function must be a Tensor, not ndarray"):
        await check(lambda x: {"x": [x, x.numpy()]}, random_leaf(2))


@one_loop
async def test_grad_outputs_of_the_wrong_number_or_shape_are_refused():
    with pytest.raises(InvalidGradientError, match="grad_outputs has 2 gradients, but 1 outputs require grad"):
        await gradgradcheck(lambda x: x * x, random_leaf(2), (random_leaf(2), random_leaf(2)))
    with pytest.raises(InvalidGradientError, match=r"shape \(3,\)"):
        await gradgradcheck(lambda x: x * x, random_leaf(2), random_leaf(3))


@one_loop
async def test_given_grad_outputs_are_used():
    assert await gradgradcheck(lambda x: x * x, random_leaf(2), random_leaf(2, seed=3)) is True
    assert await gradgradcheck(lambda x: x * x, random_leaf(2), ag.tensor([1.0, 2.0])) is True
    assert await gradgradcheck(lambda x: {"y": x * x}, random_leaf(2), {"y": random_leaf(2)}) is True


@one_loop
@of_each
async def test_an_error_in_the_function_reaches_the_caller(check):
    def fn(x):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await check(fn, random_leaf(2), raise_exception=False)


@of_each
def test_a_check_that_nobody_awaits_warns(check):
    with pytest.warns(RuntimeWarning, match="never awaited"):
        check(lambda x: x * x, random_leaf(2))


class Calls:
    """A function that waits, and notices how many of its calls overlap; those of the numbers in `failing` fail."""

    def __init__(self, failing: tuple[int, ...] = ()) -> None:
        self.failing = failing
        self.calls = self.inside = self.most = 0

    async def __call__(self, x: Any, y: Any) -> Any:
        number, self.calls = self.calls, self.calls + 1
        self.inside += 1
        self.most = max(self.most, self.inside)
        # Later ones end first.
        for _ in range(30 - number):
            await asyncio.sleep(0)
        self.inside -= 1
        if number in self.failing:
            raise ValueError(f"call {number}")
        return x * x * y

    def returning(self, x: Any, y: Any) -> Any:
        return self(x, y)


@of_each
@pytest.mark.parametrize(("concurrency", "most"), [(None, 8), (3, 3), (1, 1)])
@pytest.mark.parametrize("is_plain", [False, True], ids=["async def", "returns an awaitable"])
async def test_calls_of_a_function_that_waits_run_together(check, concurrency, most, is_plain):
    calls = Calls()
    x, y = random_leaf(2), random_leaf(2)
    starts = ag.tensor([1.0, 1.0])
    options = {} if check is gradcheck else {"grad_outputs": starts}
    assert await check(calls.returning if is_plain else calls, (x, y), concurrency=concurrency, **options)
    assert calls.most == most


@pytest.mark.parametrize("concurrency", [1, None], ids=["one-by-one", "together"])
async def test_the_error_of_calls_that_run_together_is_that_of_the_first_that_fails(concurrency):
    with pytest.raises(ValueError, match="call 3"):
        await gradcheck(Calls(failing=(3, 6)), (random_leaf(2), random_leaf(2)), concurrency=concurrency)


async def test_calls_that_run_together_give_the_differences_of_calls_one_by_one():
    async def wrong(x: Any, y: Any) -> Any:
        await asyncio.sleep(0)
        return wrong_square(x) * y

    messages = []
    for concurrency in (1, None):
        with pytest.raises(GradcheckError) as caught:
            await gradcheck(wrong, (random_leaf(3), random_leaf(3)), concurrency=concurrency)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


async def test_calls_of_a_plain_function_run_one_by_one_and_backward_passes_that_wait_together():
    events: list[str] = []

    class Waiting(ag.Function):
        concurrent = True

        @staticmethod
        def forward(ctx, x):
            events.append("call")
            ctx.save_for_backward(x)
            return x.numpy() ** 2

        @staticmethod
        async def backward(ctx, grad):
            events.append("begin")
            await asyncio.sleep(0)
            events.append("end")
            (x,) = ctx.saved_tensors
            return 2.0 * grad * x

    assert await gradcheck(Waiting.apply, random_leaf(2))
    assert events[:5] == ["call"] * 5
    events.clear()
    # A busy machine takes longer to begin the passes than a turn of the loop may last.
    with loop_budget(60):
        assert await gradgradcheck(Waiting.apply, random_leaf(2), ag.tensor([1.0, 1.0]))
    # The backward passes of the differences wait together.
    assert "call begin call begin" in " ".join(events)


def test_a_blocking_check_of_a_function_that_waits_runs_its_calls_together():
    calls = Calls()
    assert ag.sync.gradcheck(calls, (random_leaf(2), random_leaf(2)))
    assert calls.most == 8
