"""Functions of PyTorch as nodes: values, derivatives of any order, memory, trees, threads."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs PyTorch: pip install 'asyncgrad[torch]'")

import torch

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ChangedTensorError
from asyncgrad.interop.torch import wrap
from tests.support.leaves import random_leaf

#: Functions of two tensors of shape (3,), of which PyTorch saves inputs, outputs, both or neither.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "saves_inputs": lambda x, y: x * y,
    "saves_its_output": lambda x, y: torch.exp(x) * torch.tanh(y),
    "linear": lambda x, y: x + 2 * y,
    "identity": lambda x, y: x,
    "view": lambda x, y: x.view(3, 1) * y,
    "reduces": lambda x, y: (x.sin() * y).sum(),
    "broadcasts": lambda x, y: x[:, None] * y[None],
    "several_outputs": lambda x, y: (x * y)[None] + torch.stack([x, y]).sum(0),
    "in_place_within": lambda x, y: x.clone().mul_(y).add_(x),
    "constant_in_one": lambda x, y: x**3 + 0 * y,
    "linalg": lambda x, y: torch.linalg.solve(torch.diag(x.exp()) + 1, y),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_of_first_and_second_order_agree_with_finite_differences(name: str) -> None:
    function = wrap(FUNCTIONS[name])

    assert sync.gradcheck(function, (random_leaf(3), random_leaf(3, seed=1)))
    assert sync.gradgradcheck(function, (random_leaf(3), random_leaf(3, seed=1)))


def test_the_second_derivative_can_be_differentiated_twice_more() -> None:
    power = wrap(lambda x: x**5)
    x = ag.tensor(2.0, requires_grad=True)

    found = [power(x)]
    for _ in range(5):
        found.append(sync.grad(found[-1], [x], create_graph=True)[0])

    assert [one.item() for one in found] == [32.0, 80.0, 160.0, 240.0, 240.0, 120.0]


def test_a_hessian_is_that_of_the_same_function_in_numpy() -> None:
    x = random_leaf(3)

    ours = sync.hessian(wrap(lambda x: (x.sin() * x.prod()).sum()), x)
    theirs = sync.hessian(lambda x: (np.sin(x) * np.prod(x)).sum(), x)

    np.testing.assert_allclose(ours.numpy(), theirs.numpy())


def test_complex_gradients_have_the_convention_of_both_libraries() -> None:
    x, y = random_leaf(3, dtype=complex), random_leaf(3, seed=1)

    function = wrap(lambda x, y: (x.conj() * x * y).real + (x * y).imag)

    assert sync.gradcheck(function, (x, y))
    assert sync.gradgradcheck(function, (x, y))


def test_gradients_go_on_into_the_graph_around_the_function() -> None:
    x = random_leaf(3)

    sync.backward((np.tanh(wrap(torch.sin)(np.exp(x))) ** 2).sum())
    peer = torch.tensor(x.numpy(), requires_grad=True)
    (peer.exp().sin().tanh() ** 2).sum().backward()

    np.testing.assert_allclose(x.grad.numpy(), peer.grad.numpy())


# --- trees, and what is no tensor --------------------------------------------------------------------


def test_arguments_and_outputs_are_trees() -> None:
    def function(pairs: Any, *, scale: float, names: Any) -> Any:
        return {"sum": pairs[0]["a"] + pairs[1], "rest": [names, (pairs[0]["a"] * scale, None)]}

    x, y = random_leaf(2), random_leaf(2, seed=1)
    found = wrap(function)([{"a": x}, y], scale=3.0, names=("u", "v"))
    sync.backward(found["sum"].sum() + found["rest"][1][0].sum())

    assert found["rest"][0] == ("u", "v")
    assert found["rest"][1][1] is None
    assert (x.grad.tolist(), y.grad.tolist()) == ([4.0, 4.0], [1.0, 1.0])


def test_results_with_names_keep_their_names() -> None:
    x = ag.tensor([[1.0, 2.0], [3.0, 0.0]], requires_grad=True)

    found = wrap(lambda x: torch.max(x, 0))(x)

    assert type(found) is torch.return_types.max
    assert found.indices.tolist() == [1, 0]
    sync.backward(found.values.sum())
    assert x.grad is not None
    assert x.grad.tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_integers_are_constants_and_integer_outputs_have_no_gradient() -> None:
    table = random_leaf(4, 2)
    rows, largest = wrap(lambda table, index: (table[index], table.argmax(1)))(table, np.array([2, 2]))
    sync.backward(rows.sum())

    assert largest.dtype == np.int64
    assert not largest.requires_grad
    assert table.grad.tolist() == [[0.0, 0.0], [0.0, 0.0], [2.0, 2.0], [0.0, 0.0]]


def test_an_output_that_pytorch_detaches_requires_no_grad() -> None:
    kept, cut = wrap(lambda x: (x * 2, x.detach() * 3))(random_leaf(2))

    assert (kept.requires_grad, cut.requires_grad) == (True, False)


def test_nothing_is_recorded_where_recording_is_off() -> None:
    seen = []

    def function(x: Any) -> Any:
        seen.append((torch.is_grad_enabled(), x.requires_grad))
        return x * 2

    with ag.no_grad():
        assert not wrap(function)(random_leaf(2)).requires_grad
    with torch.no_grad():
        assert wrap(function)(random_leaf(2)).requires_grad

    assert seen == [(False, False), (True, True)]


def test_only_the_gradients_that_are_asked_for_are_computed() -> None:
    seen: list[str] = []

    class Noted(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            return x + y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            seen.append(str(ctx.needs_input_grad))
            return grad, grad

    x, y = random_leaf(2), random_leaf(2)
    out = wrap(lambda x, y: (x * 2, Noted.apply(x * 2, y * 2)))(x, y)
    sync.grad(out[0].sum(), [x], retain_graph=True)

    assert seen == []
    sync.grad(out[1].sum(), [y])
    assert len(seen) == 1


# --- memory ------------------------------------------------------------------------------------------


def test_arguments_and_results_share_memory() -> None:
    seen = []

    def function(x: Any) -> Any:
        seen.append(x)
        y = x * 2
        seen.append(y)
        return y

    x = random_leaf(3)
    y = wrap(function)(x)

    assert seen[0].data_ptr() == x.numpy().ctypes.data
    assert seen[1].data_ptr() == y.numpy().ctypes.data
    assert y.numpy().flags.writeable


UNUSUAL: dict[str, Callable[[], Any]] = {
    "read_only": lambda: _read_only(np.arange(6.0).reshape(2, 3)),
    "backwards": lambda: np.arange(6.0).reshape(2, 3)[::-1, ::-1],
    "transposed": lambda: np.arange(6.0).reshape(3, 2).T,
    "every_second": lambda: np.arange(12.0).reshape(2, 6)[:, ::2],
    "not_aligned": lambda: _not_aligned(np.arange(6.0).reshape(2, 3)),
    "strides_that_are_no_multiple": lambda: np.zeros(6, "f8, i1")["f0"].reshape(2, 3),
    "other_byte_order": lambda: np.arange(6.0).reshape(2, 3).astype(">f8"),
    "broadcast": lambda: np.broadcast_to(np.arange(3.0), (2, 3)),
    "empty": lambda: np.zeros((0, 3)),
    "without_axes": lambda: np.array(2.0),
}


def _read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array


def _not_aligned(array: Any) -> Any:
    found = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    found[...] = array
    assert not found.flags.aligned
    return found


@pytest.mark.parametrize("name", UNUSUAL)
def test_memory_that_pytorch_cannot_use_is_copied(name: str) -> None:
    array = UNUSUAL[name]()
    x = ag.asarray(array).detach().requires_grad_()

    y = wrap(lambda x: x * x)(x)
    sync.backward(y.sum())

    np.testing.assert_array_equal(y.numpy(), array * array)
    np.testing.assert_array_equal(x.grad.numpy(), 2 * array)


def test_an_output_that_is_an_argument_or_another_output_has_memory_of_its_own() -> None:
    x = random_leaf(3)
    before = x.numpy().copy()

    first, second, third = wrap(lambda x: (x, x.view(3, 1), x[:2]))(x)
    with ag.no_grad():
        first += 1
        second += 1

    np.testing.assert_array_equal(x.numpy(), before)
    np.testing.assert_array_equal(third.numpy(), before[:2])


def test_gradients_of_several_inputs_are_no_views_of_one_another() -> None:
    x, y = random_leaf(3), random_leaf(3, seed=1)

    gx, gy = sync.grad(wrap(lambda x, y: x + y)(x, y), [x, y], ag.tensor(np.ones(3)))
    gx += 5

    assert gy.tolist() == [1.0, 1.0, 1.0]


def test_the_grad_of_a_leaf_is_not_what_a_rule_of_pytorch_keeps() -> None:
    class Kept(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, factor: Any) -> Any:
            ctx.save_for_backward(factor)
            return (x * factor).sum()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return ctx.saved_tensors[0], None

    x = random_leaf(2)
    y = wrap(lambda x: Kept.apply(x, torch.full((2,), 3.0, dtype=torch.float64)))(x)
    for _ in range(4):
        sync.backward(y, retain_graph=True)

    assert x.grad.tolist() == [12.0, 12.0]


def test_a_graph_of_pytorch_is_freed_with_the_backward_and_without_the_garbage_collector() -> None:
    made: list[Any] = []

    def function(x: Any) -> Any:
        y = x * 2
        made.append(weakref.ref(y))
        return y.exp()

    x = random_leaf(3)
    gc.disable()
    try:
        y = wrap(function)(x)
        sync.backward(y.sum(), retain_graph="until_success")

        assert made[0]() is None
        z = wrap(function)(x)
        del z
        assert made[1]() is None
    finally:
        gc.enable()


def test_memory_stays_the_same_over_many_steps() -> None:
    model = wrap(torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout(0.5), torch.nn.Linear(3, 1)))
    x = random_leaf(4, 3, dtype=np.float32).detach()

    def steps(count: int) -> int:
        for _ in range(count):
            for param in model.parameters():
                param.grad = None
            sync.backward(model(x).sum())
        return len(gc.get_objects())

    steps(20)
    gc.collect()
    gc.disable()
    try:
        before = steps(50)
        after = steps(200)
    finally:
        gc.enable()

    assert abs(after - before) < 20


# --- writes in place ---------------------------------------------------------------------------------


def test_an_output_may_be_written_into_if_pytorch_has_not_saved_it() -> None:
    x = random_leaf(3)

    y = wrap(lambda x: x * 3)(x)
    y += 1
    sync.backward(y.sum())

    assert x.grad.tolist() == [3.0, 3.0, 3.0]


def test_a_write_into_an_output_that_pytorch_has_saved_is_found() -> None:
    y = wrap(torch.exp)(random_leaf(3))
    y += 1

    with pytest.raises(ChangedTensorError, match=r"recorded of .*exp needs a tensor that was changed in place"):
        sync.backward(y.sum())


# --- within the rest of asyncgrad ---------------------------------------------------------------------


def test_a_compiled_backward_leaves_the_node_to_the_engine() -> None:
    function, x = wrap(lambda x: x.sin() * x), random_leaf(3)

    def gradient() -> Any:
        return sync.grad((np.tanh(function(x * 2)) * 3).sum(), [x])[0]

    with ag.compiled_autograd(after=1):
        found = [gradient().numpy() for _ in range(4)]
    expected = gradient()

    for one in found:
        np.testing.assert_array_equal(one, expected.numpy())


def test_rows_of_a_batch_of_gradients_are_differentiated_one_by_one() -> None:
    x = random_leaf(3)
    rows = ag.tensor(np.eye(3))

    (found,) = sync.grad(wrap(torch.sin)(x), [x], rows, is_grads_batched=True)

    np.testing.assert_allclose(found.numpy(), np.diag(np.cos(x.numpy())))


def test_a_jitted_function_may_call_it() -> None:
    function, x = wrap(torch.sin), random_leaf(3)
    jitted = ag.jit(lambda x: np.tanh(function(x)).sum())

    found = [sync.grad(jitted(x), [x])[0].numpy() for _ in range(4)]
    (expected,) = sync.grad(np.tanh(function(x)).sum(), [x])

    for one in found:
        np.testing.assert_allclose(one, expected.numpy())


# --- threads -----------------------------------------------------------------------------------------


async def test_a_forward_and_a_backward_run_on_workers_while_the_loop_goes_on() -> None:
    here, threads = threading.get_ident(), []
    turns, gate = [], threading.Event()

    class Slow(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            threads.append(threading.get_ident())
            gate.wait(20)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            threads.append(threading.get_ident())
            return grad * 2

    async def release() -> None:
        turns.append("loop")
        gate.set()

    x = random_leaf(3)
    with ag.workers(1), ag.offload_threshold(0.0):
        task = asyncio.ensure_future(release())
        y = await ag.forward(wrap(Slow.apply), x)
        await task
        await y.sum().backward()

    assert turns == ["loop"]
    assert here not in threads
    assert len(threads) == 2
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


async def test_calls_of_one_module_at_the_same_time_do_not_mix_their_parameters() -> None:
    barrier = threading.Barrier(2, timeout=20)

    class Meet(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(2, dtype=torch.float64))

        def forward(self, x: Any) -> Any:
            before = self.weight
            barrier.wait()
            assert self.weight is before
            barrier.wait()
            return self.weight * x

    model = wrap(Meet().eval())
    x, y = random_leaf(2), random_leaf(2, seed=1)
    with ag.workers(2):
        first, second = await asyncio.gather(ag.forward(model, x), ag.forward(model, y))
    await first.sum().backward()
    await second.sum().backward()

    np.testing.assert_allclose(model.weight.grad.numpy(), x.numpy() + y.numpy())


def test_inference_mode_of_pytorch_does_not_matter() -> None:
    x = random_leaf(3)
    with torch.inference_mode():
        y = wrap(torch.exp)(x).sum()
        sync.backward(y, retain_graph=True)
        (first,) = sync.grad(y, [x], create_graph=True)
        (second,) = sync.grad(first.sum(), [x])
    sync.backward(y)

    np.testing.assert_allclose(x.grad.numpy(), 2.0 * np.exp(x.detach().numpy()))
    np.testing.assert_allclose(second.numpy(), np.exp(x.detach().numpy()))
