"""Modules of PyTorch whose parameters are leaves of asyncgrad: training, state, random numbers, buffers."""

from __future__ import annotations

import asyncio
import copy
import pickle
import threading
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs PyTorch: pip install 'asyncgrad[torch]'")

import torch

import asyncgrad as ag
from asyncgrad import optim, sync
from asyncgrad.errors import ArgumentError, OverlappingStepsError
from asyncgrad.interop.torch import wrap


def tensor(*shape: int, seed: int = 0, requires_grad: bool = False) -> Any:
    return ag.tensor(np.random.default_rng(seed).standard_normal(shape), requires_grad=requires_grad)


def network(*further: Any) -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), *further, torch.nn.Linear(4, 2)).double()


class Repeated(torch.nn.Module):
    """A module in two places of another one, with a buffer that each call replaces; it may fail."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(3, 3).double()
        self.second = self.first
        self.calls: Any
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Any, fails: bool = False) -> Any:
        torch.set_grad_enabled(True)
        self.calls = self.calls + 1
        if fails:
            raise ValueError("refused")
        return self.second(self.first(x))


@pytest.mark.parametrize("fails", [False, True])
def test_a_call_leaves_its_own_tensors_in_a_module_and_the_mode_of_pytorch(fails: bool) -> None:
    module, native = Repeated(), Repeated()
    native.load_state_dict(module.state_dict())
    own = dict(module.named_parameters(remove_duplicate=False)), module.calls
    model, x = wrap(module), tensor(5, 3)

    with torch.no_grad():
        if fails:
            with pytest.raises(ValueError, match="refused"):
                model(x, fails)
        else:
            sync.backward(model(x).sum())
        assert not torch.is_grad_enabled()

    left = dict(module.named_parameters(remove_duplicate=False))
    assert len(left) == 4
    assert all(left[path] is one for path, one in own[0].items())
    assert (module.calls is own[1], model.calls.item()) == (True, float(not fails))
    if not fails:
        native(torch.tensor(x.numpy())).sum().backward()
        np.testing.assert_allclose(model.first.weight.grad, native.first.weight.grad)


def test_gradients_of_parameters_are_those_of_pytorch() -> None:
    module = network()
    model, x = wrap(copy.deepcopy(module)), tensor(5, 3)

    sync.backward((model(x) ** 2).sum())
    (module(torch.tensor(x.numpy())) ** 2).sum().backward()

    for (name, ours), (other, theirs) in zip(model.named_parameters(), module.named_parameters(), strict=True):
        assert name == other
        np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy())


def test_derivatives_by_parameters_are_right_to_second_order() -> None:
    params, structure = ag.tree.flatten(wrap(network()))
    x = tensor(2, 3, requires_grad=True)

    def call(x: Any, *params: Any) -> Any:
        return ag.tree.unflatten(structure, params)(x)

    assert sync.gradcheck(call, (x, *params))
    assert sync.gradgradcheck(call, (x, *params))


def test_a_training_beside_pytorch_reaches_the_same_parameters_in_the_modules_own_memory() -> None:
    module, peer, x = network(), network(), tensor(5, 3)
    model = wrap(module)
    ours, theirs = optim.Adam(model.parameters(), lr=0.1), torch.optim.Adam(peer.parameters(), lr=0.1)

    for _ in range(5):
        ours.zero_grad()
        sync.backward((model(x) ** 2).sum())
        ours.step()
        theirs.zero_grad()
        (peer(torch.tensor(x.numpy())) ** 2).sum().backward()
        theirs.step()

    for one, other in zip(module.parameters(), peer.parameters(), strict=True):
        np.testing.assert_allclose(one.detach().numpy(), other.detach().numpy())


def test_a_transform_differentiates_by_the_module() -> None:
    model, x = wrap(network()), tensor(5, 3)

    value, grads = sync.func.value_and_grad(lambda model: (model(x) ** 2).sum())(model)
    sync.backward((model(x) ** 2).sum())

    assert value.item() == pytest.approx((model(x) ** 2).sum().item())
    for (_, mine), (_, leaf) in zip(grads.named_parameters(), model.named_parameters(), strict=True):
        np.testing.assert_allclose(mine.numpy(), leaf.grad.numpy())


def test_a_snapshot_keeps_its_parameters_while_the_model_is_trained() -> None:
    model, x = wrap(network()), tensor(5, 3)
    before, snapshot = model(x).numpy().copy(), model.snapshot()

    sync.backward(model(x).sum())
    optim.SGD(model.parameters(), lr=0.1).step()

    np.testing.assert_array_equal(snapshot(x).numpy(), before)
    assert not np.array_equal(model(x).numpy(), before)


def test_a_parameter_in_two_places_is_one() -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Linear(3, 3, bias=False)
            self.second = torch.nn.Linear(3, 3, bias=False)
            self.second.weight = self.first.weight
            self.again = self.first

        def forward(self, x: Any) -> Any:
            return self.again(self.second(self.first(x)))

    module = Tied().double()
    model, x = wrap(copy.deepcopy(module)), tensor(2, 3)
    sync.backward(model(x).sum())
    module(torch.tensor(x.numpy())).sum().backward()

    (param,) = model.parameters()
    np.testing.assert_allclose(param.grad.numpy(), module.first.weight.grad.numpy())


def test_a_frozen_parameter_gets_no_gradient() -> None:
    module = network()
    module[0].weight.requires_grad_(False)
    model = wrap(module)
    sync.backward(model(tensor(2, 3)).sum())

    assert [name for name, param in model.named_parameters() if param.grad is None] == ["0.weight"]


def test_the_state_has_the_names_of_pytorch_and_loads_from_it() -> None:
    module = network(torch.nn.BatchNorm1d(4))
    model = wrap(module)
    other = {name: value + 1 for name, value in module.state_dict().items()}
    model.load_state_dict(other)

    assert list(model.state_dict()) == list(module.state_dict())
    for name, value in module.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), other[name].numpy())


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_is_trained_apart(copied: Any) -> None:
    model, x = wrap(network()), tensor(2, 3)
    other = copied(model)
    before = model(x).numpy().copy()
    other.update({name: param.numpy() + 1 for name, param in other.named_parameters()})

    np.testing.assert_array_equal(model(x).numpy(), before)
    assert not np.array_equal(other(x).numpy(), before)


def test_train_and_eval_are_those_of_the_wrapped_module() -> None:
    model, x = wrap(network(torch.nn.Dropout(0.5))), tensor(5, 3)

    assert not np.array_equal(model(x).numpy(), model(x).numpy())
    model.eval()
    assert np.array_equal(model(x).numpy(), model(x).numpy())


# --- random numbers ----------------------------------------------------------------------------------


def test_random_numbers_come_of_the_seed_of_asyncgrad_and_leave_pytorchs_stream_alone() -> None:
    model, x = wrap(network(torch.nn.Dropout(0.5))), tensor(5, 3)
    torch.manual_seed(3)
    state = torch.get_rng_state()

    ag.random.seed(1)
    first, second = model(x).numpy(), model(x).numpy()
    torch.manual_seed(4)
    ag.random.seed(1)
    again = model(x).numpy()

    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, second)
    torch.manual_seed(3)
    model(x)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_a_recomputation_draws_the_same_numbers(use_reentrant: bool) -> None:
    model = wrap(network(torch.nn.Dropout(0.5)))

    def gradients(call: Any) -> list[Any]:
        ag.random.seed(5)
        x = tensor(5, 3, requires_grad=True)
        for param in model.parameters():
            param.grad = None
        middle = call(model, x * 1)
        sync.backward((call(model, np.tanh(x)) * middle).sum())
        return [x.grad.numpy(), *(param.grad.numpy() for param in model.parameters())]

    def checkpointed(fn: Any, x: Any) -> Any:
        return ag.checkpoint(fn, x, use_reentrant=use_reentrant)

    plain, recomputed = gradients(lambda fn, x: fn(x)), gradients(checkpointed)

    for one, other in zip(plain, recomputed, strict=True):
        np.testing.assert_allclose(one, other)


def test_a_function_draws_the_same_numbers_when_it_is_tried_again() -> None:
    noisy = wrap(lambda x: torch.nn.functional.dropout(x, 0.5))
    x = tensor(50, requires_grad=True)
    middle = x * 1
    y = noisy(middle)
    failing = [True]

    def hook(grad: Any) -> None:
        if failing.pop():
            raise ConnectionError

    with middle.register_hook(hook), pytest.raises(ConnectionError):
        sync.backward(y.sum(), retain_graph="until_success")
    sync.backward(y.sum(), retain_graph="until_success")

    np.testing.assert_allclose((x.grad * x).numpy(), y.numpy())


async def test_calls_that_draw_run_one_after_the_other_on_any_number_of_workers() -> None:
    running, most = [0], [0]
    lock = threading.Lock()

    def draw(x: Any) -> Any:
        with lock:
            running[0] += 1
            most[0] = max(most)
            most.append(running[0])
        found = x + torch.rand(1000, dtype=torch.float64).sum()
        with lock:
            running[0] -= 1
        return found

    function, x = wrap(draw), tensor(2)
    with ag.workers(2):
        ag.random.seed(0)
        found = await asyncio.gather(*(ag.forward(function, x) for _ in range(8)))

    assert max(most) == 1
    assert len({one.tolist()[0] for one in found}) == 8


async def test_a_call_within_a_call_that_draws_does_not_wait_for_itself() -> None:
    inner = wrap(lambda x: x + torch.rand(1, dtype=torch.float64))

    def outer(x: Any) -> Any:
        with ag.no_grad():
            return x + float(inner(ag.tensor([0.0])).item())

    assert wrap(outer)(tensor(2)).shape == (2,)


# --- buffers -----------------------------------------------------------------------------------------


def test_running_statistics_follow_those_of_pytorch() -> None:
    module = network(torch.nn.BatchNorm1d(4))
    model = wrap(copy.deepcopy(module))

    for seed in range(3):
        x = tensor(5, 3, seed=seed)
        sync.backward(model(x).sum())
        module(torch.tensor(x.numpy()))

    for name, buffer in module.named_buffers():
        np.testing.assert_allclose(model.get_buffer(name).numpy(), buffer.numpy())
    model.eval()
    np.testing.assert_allclose(model(x).numpy(), module.eval()(torch.tensor(x.numpy())).detach().numpy())


@pytest.mark.parametrize("grads", ["asyncgrad", "torch"])
@pytest.mark.parametrize("use_reentrant", [True, False])
def test_a_recomputation_does_not_write_into_buffers_again(use_reentrant: bool, grads: str) -> None:
    module = network(torch.nn.BatchNorm1d(4))
    model, x = wrap(module, grads=grads), tensor(5, 3, requires_grad=True)

    sync.backward(ag.checkpoint(model, x, use_reentrant=use_reentrant).sum())

    assert module[2].num_batches_tracked.item() == 1


@pytest.mark.parametrize("grads", ["asyncgrad", "torch"])
def test_a_forward_that_fails_leaves_buffers_as_they_were(grads: str) -> None:
    class Fails(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            raise ConnectionError

    module = network(torch.nn.BatchNorm1d(4), Fails())
    before = copy.deepcopy(module.state_dict())
    with pytest.raises(ConnectionError):
        wrap(module, grads=grads)(tensor(5, 3))

    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())


def test_a_buffer_that_the_module_replaces_is_written() -> None:
    class Counts(torch.nn.Module):
        count: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x: Any) -> Any:
            self.count = self.count + 1
            return x * 1

    module = Counts()
    model = wrap(module)
    model(tensor(2))
    model(tensor(2))

    assert (model.count.item(), module.count.item()) == (2.0, 2.0)


@pytest.mark.parametrize("grads", ["asyncgrad", "torch"])
async def test_two_calls_that_write_into_the_same_buffers_at_the_same_time_are_refused(grads: str) -> None:
    barrier = threading.Barrier(2, timeout=20)

    class Meet(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            barrier.wait()
            return x * 1

    module = torch.nn.Sequential(torch.nn.BatchNorm1d(3), Meet()).double()
    model = wrap(module, grads=grads, random=False)
    with ag.workers(2):
        found = await asyncio.gather(
            *(ag.forward(model, tensor(5, 3, seed=seed)) for seed in range(2)), return_exceptions=True
        )

    (error,) = [one for one in found if isinstance(one, BaseException)]
    assert isinstance(error, OverlappingStepsError)
    assert "0.running_mean" in str(error)
    assert module[0].num_batches_tracked.item() == 1


def test_buffers_in_one_memory_are_refused_where_the_module_trains() -> None:
    class Shares(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("whole", torch.zeros(4))
            self.register_buffer("part", self.whole[:2])

        def forward(self, x: Any) -> Any:
            return x + self.part.sum()

    model = wrap(Shares())
    with pytest.raises(ArgumentError, match=r"'whole' and 'part' of Shares share memory.*eval"):
        model(tensor(2))
    assert model.eval()(tensor(2)).shape == (2,)
