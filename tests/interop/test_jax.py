"""Functions of JAX as nodes, and functions of asyncgrad in programs of JAX."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs JAX: pip install 'asyncgrad[jax]'")

import jax
import jax.numpy as jnp

import asyncgrad as ag
from asyncgrad import nn, optim, sync
from asyncgrad.errors import (
    ArgumentError,
    ArgumentTypeError,
    BlockingError,
    DeviceError,
)
from asyncgrad.interop.jax import as_custom_vjp, to_tensors, wrap
from asyncgrad.testing import SimulatedAccelerator
from tests.support.leaves import random_leaf


@pytest.fixture(autouse=True)
def double_precision() -> Iterator[None]:
    """Let JAX compute in 64 bits, so that finite differences are close."""
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


@jax.jit
def compiled(x: Any) -> Any:
    return jnp.sin(x) * x


def loop_body(carry: Any, one: Any) -> Any:
    return carry * one + 1, None


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "product": lambda x, y: x * y,
    "exponential": lambda x, y: jnp.exp(x) * jnp.tanh(y),
    "identity": lambda x, y: x,
    "linear": lambda x, y: x + 2 * y,
    "reduces": lambda x, y: jnp.sum(jnp.sin(x) * y),
    "several_outputs": lambda x, y: (x * y, jnp.sin(x)),
    "jit_within": lambda x, y: compiled(x) * y,
    "loop": lambda x, y: jax.lax.scan(loop_body, y, x)[0],
    "linalg": lambda x, y: jnp.linalg.solve(jnp.diag(jnp.exp(x)) + 1, y),
}


# --- functions of JAX as nodes -----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_of_first_and_second_order_agree_with_finite_differences(name: str, jit: bool) -> None:
    function = wrap(FUNCTIONS[name], jit=jit)

    assert sync.gradcheck(function, (random_leaf(3), random_leaf(3, seed=1)))
    assert sync.gradgradcheck(function, (random_leaf(3), random_leaf(3, seed=1)))


@pytest.mark.parametrize("jit", [False, True])
def test_derivatives_of_any_order_are_right(jit: bool) -> None:
    power, x = wrap(lambda x: x**5, jit=jit), ag.tensor(2.0, requires_grad=True)

    found = [power(x)]
    for _ in range(5):
        found.append(sync.grad(found[-1], [x], create_graph=True)[0])

    assert [one.item() for one in found] == pytest.approx([32.0, 80.0, 160.0, 240.0, 240.0, 120.0])


@pytest.mark.slow
@pytest.mark.parametrize("jit", [False, True])
def test_complex_gradients_have_the_convention_of_asyncgrad(jit: bool) -> None:
    function = wrap(lambda x, y: jnp.conj(x) * x * y + jnp.exp(y), jit=jit)
    x, y = random_leaf(3, dtype=complex), random_leaf(3, seed=1)

    assert sync.gradcheck(function, (x, y))
    assert sync.gradgradcheck(function, (x, y))


@pytest.mark.parametrize("jit", [False, True])
def test_arguments_and_outputs_are_pytrees_and_integers_are_constants(jit: bool) -> None:
    def function(pairs: Any, *, index: Any, scale: Any) -> Any:
        return {"rows": pairs[0]["a"][index], "rest": [pairs[1] * scale, None], "largest": jnp.argmax(pairs[1])}

    x, y = random_leaf(4), random_leaf(2, seed=1)
    found = wrap(function, jit=jit)([{"a": x}, y], index=np.array([1, 1]), scale=3.0)
    sync.backward(found["rows"].sum() + found["rest"][0].sum())

    assert found["rest"][1] is None
    assert (found["largest"].dtype.kind, found["largest"].requires_grad) == ("i", False)
    assert (x.grad.tolist(), y.grad.tolist()) == ([0.0, 2.0, 0.0, 0.0], [3.0, 3.0])


def test_a_compiled_function_is_traced_once_for_each_shape_and_each_constant() -> None:
    traced = []

    def function(x: Any, factor: float) -> Any:
        traced.append((x.shape, factor))
        return x * factor if x.shape[0] < 3 else [x * factor, x]

    call = wrap(function, jit=True)
    for _ in range(3):
        sync.backward(call(random_leaf(2), 2.0).sum())
        sync.backward(call(random_leaf(3), 2.0)[0].sum())
        sync.backward(call(random_leaf(2), 3.0).sum())

    assert traced == [((2,), 2.0), ((3,), 2.0), ((2,), 3.0)]


def test_a_recomputation_draws_the_same_numbers_by_the_key() -> None:
    noisy = wrap(lambda key, x: x * jax.random.bernoulli(key, 0.5, x.shape))
    x = random_leaf(50)

    sync.backward(ag.checkpoint(noisy, jax.random.key(0), x).sum())

    np.testing.assert_array_equal(x.grad.numpy(), jax.random.bernoulli(jax.random.key(0), 0.5, (50,)))


def test_results_may_be_written_into_and_are_no_memory_of_jax() -> None:
    x = random_leaf(3)
    before = x.numpy().copy()
    y = wrap(lambda x: x)(x)
    y += 1
    sync.backward(y.sum())

    np.testing.assert_array_equal(x.numpy(), before)
    assert x.grad.tolist() == [1.0, 1.0, 1.0]
    x.grad += 1
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


def test_tensors_that_are_made_for_jax_share_its_memory_and_are_trained() -> None:
    params = to_tensors({"weight": jnp.ones((3, 2)), "count": jnp.arange(2)}, requires_grad=True)
    addresses: list[int] = []

    def function(params: Any, x: Any) -> Any:
        return jnp.sum((x @ params["weight"]) ** 2)

    x, optimizer = random_leaf(5, 3).detach(), optim.SGD([params["weight"]], lr=0.01)
    losses = []
    for _ in range(5):
        loss = wrap(function)(params, x)
        optimizer.zero_grad()
        sync.backward(loss)
        optimizer.step()
        losses.append(loss.item())
        addresses.append(params["weight"].numpy().ctypes.data)

    assert losses == sorted(losses, reverse=True)
    assert [address % 64 for address in addresses] == [0] * 5
    assert not params["count"].requires_grad
    shared = jax.device_put(params["weight"].numpy())
    assert shared.unsafe_buffer_pointer() == addresses[0]


def test_nothing_is_differentiated_where_recording_is_off() -> None:
    seen = []

    @jax.custom_vjp
    def function(x: Any) -> Any:
        seen.append("plain")
        return x * 2

    function.defvjp(lambda x: (seen.append("differentiated"), (x * 2, None))[1], lambda _, grad: (grad * 2,))
    with ag.no_grad():
        assert not wrap(function)(random_leaf(2)).requires_grad
    assert wrap(function)(random_leaf(2)).requires_grad

    assert seen == ["plain", "differentiated"]


def test_only_the_gradients_that_are_asked_for_are_differentiated_again() -> None:
    x, y = random_leaf(3), random_leaf(3, seed=1)
    (gradient,) = sync.grad(wrap(lambda x, y: x**2 * y)(x, y).sum(), [x], create_graph=True)

    assert len(gradient.grad_fn.next_edges) == 3
    np.testing.assert_allclose(sync.grad(gradient.sum(), [y])[0].numpy(), 2 * x.numpy())


def test_an_array_of_numpy_may_be_changed_after_the_call() -> None:
    x, array = random_leaf(3), np.ones(3)
    y = wrap(lambda x, array: x * array)(x, array)
    array[:] = 5
    sync.backward(y.sum())

    assert x.grad.tolist() == [1.0, 1.0, 1.0]


async def test_a_forward_and_a_backward_run_on_workers() -> None:
    here, threads = threading.get_ident(), []

    def note(x: Any) -> Any:
        threads.append(threading.get_ident())
        return x

    @jax.custom_vjp
    def function(x: Any) -> Any:
        return note(x * 2)

    function.defvjp(lambda x: (note(x * 2), None), lambda _, grad: (note(grad * 2),))
    x = random_leaf(3)
    with ag.workers(1), ag.offload_threshold(0.0):
        y = await ag.forward(wrap(function), x)
        await y.sum().backward()

    assert here not in threads
    assert len(threads) >= 2
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("retain_graph", [False, "until_success"])
def test_what_jax_keeps_is_released_with_the_backward(retain_graph: Any) -> None:
    y = wrap(jnp.exp)(random_leaf(3))
    ctx: Any = y.grad_fn.ctx
    assert ctx.recorded is not None
    sync.backward(y.sum(), retain_graph=retain_graph)

    assert ctx.recorded is None


# --- functions of asyncgrad in JAX -------------------------------------------------------------------


async def asynchronous(x: Any, y: Any) -> Any:
    await asyncio.sleep(0)
    return np.exp(x) * np.tanh(y), x + 1


CALLBACKS: dict[str, Callable[..., Any]] = {
    "product": lambda x, y: x * y,
    "exponential": lambda x, y: np.exp(x) * np.tanh(y),
    "identity": lambda x, y: x,
    "linear": lambda x, y: x + 2 * y,
    "reduces": lambda x, y: np.sum(np.sin(x) * y),
    "awaits": asynchronous,
}


@pytest.mark.slow
@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("name", CALLBACKS)
def test_jax_differentiates_a_function_of_asyncgrad(name: str, jit: bool) -> None:
    from jax.test_util import check_grads

    function = as_custom_vjp(CALLBACKS[name])
    x, y = (jnp.asarray(np.random.default_rng(seed).standard_normal(3)) for seed in range(2))

    check_grads(jax.jit(function) if jit else function, (x, y), order=2, modes=["rev"])


def test_jax_differentiates_it_to_any_order_and_with_its_convention_of_complex_numbers() -> None:
    power = derivative = as_custom_vjp(lambda x: x**5)
    for expected in (32.0, 80.0, 160.0, 240.0, 240.0, 120.0):
        assert float(derivative(2.0)) == pytest.approx(expected)
        derivative = jax.grad(derivative)
    ours = as_custom_vjp(lambda z: np.real(np.conj(z) * z * z))
    z = 1.0 + 2.0j

    assert jax.grad(ours)(z) == pytest.approx(jax.grad(lambda z: jnp.real(jnp.conj(z) * z * z))(z))
    assert float(power(2.0)) == 32.0


def test_pytrees_integers_and_rows_are_taken() -> None:
    def function(pair: Any, index: Any) -> Any:
        return {"rows": pair["x"][index], "largest": np.argmax(pair["x"])}

    call = as_custom_vjp(function)
    x, index = jnp.arange(4.0), jnp.array([1, 1])
    gradient = jax.grad(lambda x: call({"x": x}, index)["rows"].sum())(x)
    rows = jax.vmap(lambda x: call({"x": x}, index)["rows"])(jnp.stack([x, 2 * x]))

    assert gradient.tolist() == [0.0, 2.0, 0.0, 0.0]
    assert rows.tolist() == [[1.0, 1.0], [2.0, 2.0]]
    assert int(call({"x": x}, index)["largest"]) == 3


def test_the_shapes_of_results_may_be_told() -> None:
    calls = []

    def function(x: Any) -> Any:
        calls.append(x.tolist())
        return 1 / x

    told = as_custom_vjp(function, result_shape_dtypes=lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype))
    assert told(jnp.array([2.0])).tolist() == [0.5]
    assert calls == [[2.0]]
    wrong = as_custom_vjp(function, result_shape_dtypes=jax.ShapeDtypeStruct((3,), np.float64))
    with pytest.raises(Exception, match=r"shape \(1,\) as output 0, and JAX was told \(3,\)"):
        wrong(jnp.array([2.0])).block_until_ready()


# --- bad use -----------------------------------------------------------------------------------------


CASES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "no_function": (lambda: wrap(3), ArgumentTypeError, "wrap takes a function as its first argument, not int 3"),  # type: ignore[arg-type]
    "an_async_function": (lambda: wrap(asynchronous), ArgumentTypeError, "plain function of JAX.*wrap what computes"),
    "no_array": (
        lambda: wrap(lambda x: 3.0)(random_leaf(2)),
        ArgumentTypeError,
        r"returned float 3\.0 as output 0.*asarray",
    ),
    "nothing": (lambda: wrap(lambda x: None)(random_leaf(2)), ArgumentTypeError, "returned no array of JAX"),
    "an_output_of_bfloat16": (
        lambda: wrap(lambda x: x.astype(jnp.bfloat16))(random_leaf(2)),
        ArgumentTypeError,
        r"is of bfloat16, which NumPy has not: return y\.astype\(jnp\.float32\)",
    ),
    "a_dtype_that_jax_has_not": (
        lambda: wrap(jnp.sin)(random_leaf(2, dtype=np.longdouble)),
        ArgumentTypeError,
        r"argument 0 of .* has the dtype (longdouble|float128), which JAX has not",
    ),
    "a_constant_that_cannot_be_hashed": (
        lambda: wrap(lambda x, y: x, jit=True)(random_leaf(2), {1, 2}),
        ArgumentTypeError,
        "cannot be hashed, and with jit=True",
    ),
    "what_is_no_array": (
        lambda: to_tensors({"name": "text"}),
        ArgumentTypeError,
        "to_tensors takes a pytree of arrays, not str 'text': take it out",
    ),
    "a_dtype_that_numpy_has_not": (
        lambda: to_tensors(jnp.ones(2, jnp.bfloat16)),
        ArgumentTypeError,
        r"is of bfloat16, which NumPy has not: pass x\.astype",
    ),
    "another_device": (
        lambda: wrap(jnp.sin)(ag.tensor([1.0], device=SimulatedAccelerator())),
        DeviceError,
        r'argument 0 of .* is on the device.*write x\.to\("cpu"\)',
    ),
    "a_module_of_asyncgrad": (
        lambda: as_custom_vjp(nn.Linear(2, 1)),
        ArgumentTypeError,
        r"Linear has parameters of asyncgrad.*model\.snapshot\(\)",
    ),
    "a_function_that_returns_no_tensor": (
        lambda: as_custom_vjp(lambda x: "text")(1.0),
        ArgumentTypeError,
        "returned str 'text', and JAX takes arrays alone",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_error_says_what_is_wrong_and_what_to_write(name: str) -> None:
    use, kind, message = CASES[name]

    with pytest.raises(kind, match=message):
        use()


def test_numbers_that_jax_would_narrow_are_refused() -> None:
    jax.config.update("jax_enable_x64", False)

    with pytest.raises(ArgumentError, match=r"float64, and JAX is set to float32.*jax_enable_x64.*\(np\.float32\)"):
        wrap(jnp.sin)(random_leaf(2))
    with pytest.raises(ArgumentError, match="int64, and JAX is set to int32"):
        wrap(lambda x: x)(np.array([2**40]))
    assert wrap(lambda x: x + 1)(np.array([2])).tolist() == [3]


async def test_what_awaits_is_refused_where_a_loop_runs_and_runs_in_a_thread() -> None:
    async def waiting(x: Any) -> Any:
        await asyncio.sleep(0)
        return np.sin(x)

    fn = as_custom_vjp(waiting, result_shape_dtypes=jax.ShapeDtypeStruct((), np.float64))

    with pytest.raises(BlockingError, match=r"waiting would have to suspend within JAX.*await asyncio\.to_thread"):
        as_custom_vjp(waiting)(1.0)
    assert float(await asyncio.to_thread(jax.grad(fn), 0.0)) == 1.0


@jax.custom_vjp
def given(x: Any, y: Any) -> Any:
    """Return the sum; its gradients are what the rule was given, and a constant of the program."""
    return x.sum() + y.sum()


CONSTANT = np.linspace(0.0, 1.0, 100 * 100).reshape(100, 100)
given.defvjp(lambda x, y: (given(x, y), y), lambda y, grad: (y, jnp.asarray(CONSTANT)))


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize(
    "fn", [lambda x, y: (x * y).sum(), lambda x, y: (x + y).sum(), given], ids=["product", "sum", "what_was_given"]
)
def test_a_large_gradient_may_be_written_into_and_nothing_else_changes(fn: Callable[..., Any], jit: bool) -> None:
    inputs = [to_tensors(np.full((100, 100), number), requires_grad=True) for number in (2.0, 3.0)]
    loss = wrap(fn, jit=jit)(*inputs)
    found = sync.grad(loss, inputs, retain_graph=True)
    before = [gradient.numpy().copy() for gradient in found]

    for gradient in found:
        gradient.numpy()[...] = -1.0

    for gradient, value in zip(sync.grad(loss, inputs), before, strict=True):
        np.testing.assert_array_equal(gradient, value)
    assert [float(one.numpy().max()) for one in inputs] == [2.0, 3.0]


def test_jax_may_trace_a_function_of_asyncgrad_that_calls_jax_itself() -> None:
    fn = as_custom_vjp(wrap(jnp.tanh))
    x = jnp.array([0.5, 1.0])

    found = jax.jit(jax.grad(lambda x: fn(x).sum()))(x)

    np.testing.assert_allclose(found, 1.0 - np.tanh(x) ** 2)


def test_a_function_of_asyncgrad_refuses_a_dtype_that_numpy_lacks_before_it_is_called() -> None:
    fn = as_custom_vjp(lambda x: np.sin(x))

    with pytest.raises(ArgumentTypeError, match=r"argument 0 .* is of bfloat16, which NumPy has not: pass x\.astype"):
        fn(jnp.ones(2, jnp.bfloat16))
