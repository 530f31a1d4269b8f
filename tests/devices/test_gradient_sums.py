"""Where a device adds a gradient to a sum as it computes it, all executors give the sums that they give otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.core.engine.device import Device
from tests.devices.host_device import host_device
from tests.devices.host_kernels import needs_compilers
from tests.support.settings import compiled_after

pytestmark = needs_compilers

STEPS = 5
added: list[str] = []


def add_weight_grad(total: Any, g: Any, x: Any) -> Any:
    added.append("weight")
    total.host[...] += g.host.reshape(-1, g.shape[-1]).T @ x.host.reshape(-1, x.shape[-1])
    return total


def add_leading_sum(total: Any, a: Any) -> Any:
    added.append("bias")
    total.host[...] += a.host.reshape(-1, a.shape[-1]).sum(axis=0)
    return total


@pytest.fixture
def device() -> Iterator[Device]:
    """Return a device that adds gradients to sums."""
    with host_device(functions={"add_linear_weight_grad": add_weight_grad, "add_leading_sum": add_leading_sum}) as made:
        yield made


def leaves_at(place: Any) -> list[Any]:
    rng = np.random.default_rng(0)
    return [ag.tensor(rng.standard_normal(shape), device=place, requires_grad=True) for shape in ((3, 4), (4, 4), (4,))]


def rolled(x: Any, w: Any, b: Any) -> Any:
    """Use the same weights in each of a few steps."""
    for _ in range(STEPS):
        x = nn.linear(x, w, b)
    return np.sum(x * x)


def plain(leaves: Any) -> list[Any]:
    return sync.grad(rolled(*leaves), leaves)


def retained(leaves: Any) -> list[Any]:
    loss = rolled(*leaves)
    sync.grad(loss, leaves, retain_graph=True)
    return sync.grad(loss, leaves)


def into_grads(leaves: Any) -> list[Any]:
    for _ in range(2):
        sync.backward(rolled(*leaves))
    return [leaf.grad for leaf in leaves]


def of_weights_alone(leaves: Any) -> list[Any]:
    x, w, b = leaves
    return sync.grad(rolled(x.detach(), w, b), [w, b])


def with_a_hook(leaves: Any) -> list[Any]:
    leaves[1].register_hook(lambda grad: grad * 2)
    return sync.grad(rolled(*leaves), leaves)


def of_computed_weights(leaves: Any) -> list[Any]:
    x, w, b = leaves
    return sync.grad(rolled(x, w * 2, b * 3), leaves)


def of_one_array(leaves: Any) -> list[Any]:
    _, w, b = leaves
    return sync.grad(np.sum(nn.linear(nn.linear(w, w, b), w, b)), [w, b])


def recorded(leaves: Any) -> list[Any]:
    grads = sync.grad(rolled(*leaves), leaves, create_graph=True)
    return sync.grad(sum(np.sum(grad * grad) for grad in grads), leaves)


async def observed(leaves: Any) -> list[Any]:
    async with ag.profile():
        return list(await ag.grad(rolled(*leaves), leaves))


def profiled(leaves: Any) -> list[Any]:
    return ag.run(observed(leaves))


PROGRAMS = (
    plain, retained, into_grads, of_weights_alone, with_a_hook, of_computed_weights, of_one_array, recorded, profiled,
)  # fmt: skip
#: Those whose sums are added to whichever executor runs them.
ADDING = (plain, retained, into_grads, of_weights_alone, of_computed_weights)


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_sums_are_those_of_the_cpu(device: Device, program: Callable[[Any], list[Any]], compiled: bool) -> None:
    added.clear()
    with compiled_after(1 if compiled else None):
        for _ in range(3):
            found, expected = program(leaves_at(device)), program(leaves_at(None))
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(one._data.host, other._data, rtol=1e-12)

    assert program not in ADDING or {"weight", "bias"} <= set(added)


def test_a_gradient_of_another_dtype_is_added_after_it_is_computed(device: Device) -> None:
    x, w, b = (ag.tensor(one._data.host, device=device, requires_grad=True) for one in leaves_at(device))
    single = ag.tensor(b._data.host.astype(np.float32), device=device, requires_grad=True)
    for place in (b, single):
        loss = np.sum(nn.linear(x, w, place)) + np.sum(nn.linear(x, w, place)) + np.sum(nn.linear(x, w, place))
        (grad,) = sync.grad(loss, [place])

        assert grad.dtype == place.dtype
        np.testing.assert_array_equal(grad._data.host, np.full(4, 9.0))


@pytest.mark.parametrize("hooked", [False, True], ids=["plain", "hooked"])
def test_a_step_callback_sees_each_node_once(device: Device, hooked: bool) -> None:
    leaves = leaves_at(device)
    loss = rolled(*leaves)
    if hooked:
        leaves[1].register_hook(lambda grad: grad)
    seen: list[tuple[str, str]] = []
    with ag.engine.add_step_callback(lambda step: seen.append((step.phase, step.node.name))):
        sync.grad(loss, leaves)

    assert [seen.count((phase, "LinearBackward")) for phase in ("start", "end")] == [STEPS, STEPS]
