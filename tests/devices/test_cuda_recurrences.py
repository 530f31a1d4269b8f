"""Recurrent networks by the kernels of a GPU, compiled by the host's compiler, give what they give on the cpu."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.core.arrays.device_functions import own_function, register_functions, unregister_functions
from asyncgrad.core.engine.device import Device, register_device
from asyncgrad.devices.cuda.recurrences import recurrence_functions
from asyncgrad.nn.functional.recurrent import ELMAN_RELU, ELMAN_TANH, GRU, LSTM, Cell, Weights, recur
from tests.devices.host_device import HostDevice
from tests.devices.host_kernels import GRID_MACROS, GridModule, HostArray, HostCupy, needs_compilers, on_host
from tests.nn.test_recurrent import draw
from tests.support import fake_cupy

pytestmark = needs_compilers

MACROS = f"#include <cmath>\nusing std::exp; using std::tanh;\n{GRID_MACROS}"
TOLERANCE = {"f": 2e-5, "d": 1e-12}
CELLS = {"tanh": ELMAN_TANH, "relu": ELMAN_RELU, "gru": GRU, "lstm": LSTM}
#: A cell, and the size that its hidden states are projected to.
CASES = {**{name: (cell, 0) for name, cell in CELLS.items()}, "projected lstm": (LSTM, 2)}


@pytest.fixture(scope="module")
def functions() -> Iterator[dict[Any, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        for name, module in fake_cupy.modules().items():
            patch.setitem(sys.modules, name, module)
        cupy = SimpleNamespace(ndarray=HostArray, RawModule=GridModule, cuda=HostCupy.cuda)
        yield recurrence_functions(cupy, MACROS)


@pytest.fixture
def device(functions: dict[Any, Any]) -> Iterator[Device]:
    """Return a device that runs recurrences, none of which has run."""
    register_functions(HostArray, functions)
    GridModule.launched.clear()
    yield register_device(HostDevice())
    unregister_functions(HostArray)


def leaves_at(place: Any, arguments: Any) -> list[Any]:
    return [None if one is None else ag.tensor(one, device=place, requires_grad=True) for one in arguments]


def run(cell: Cell, arguments: Any) -> tuple[Any, ...]:
    return recur(cell, arguments[0], Weights(*arguments[1:6]), tuple(arguments[6:]))


def bare(tensor: Any) -> np.ndarray:
    data = getattr(tensor, "_data", tensor)
    return data.host if isinstance(data, HostArray) else data


def agree(found: Any, expected: Any) -> None:
    """Assert that results and gradients are of the same dtype and shape, and nearly equal."""
    for one, other in zip(map(bare, found), map(bare, expected), strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        tolerance = TOLERANCE[other.dtype.char]
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * max(1, np.abs(other).max()))


def results_and_grads(cell: Cell, leaves: Any, used: slice, create_graph: bool = False) -> list[Any]:
    """Return the results, and the gradients of a function of some of them."""
    results = run(cell, leaves)
    loss = sum(np.sum(one * one * one) for one in results[used])
    wanted = [one for one in leaves if one is not None]
    grads = sync.grad(loss, wanted, create_graph=create_graph, allow_unused=True)
    if create_graph:
        grads = sync.grad(sum(np.sum(one * one) for one in grads), wanted)
    return [*results, *grads]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize(("cell", "size"), CASES.values(), ids=CASES)
def test_results_and_gradients_are_those_of_the_cpu(
    device: Device, cell: Cell, size: int, has_bias: bool, dtype: str
) -> None:
    arguments = draw(cell, 4, 3, 5, dtype, size)
    if not has_bias:
        arguments[3:5] = [None, None]
    for used in (slice(None), slice(0, 1), slice(1, None))[: 1 + 2 * (cell is LSTM)]:
        agree(
            results_and_grads(cell, leaves_at(device, arguments), used),
            results_and_grads(cell, leaves_at(None, arguments), used),
        )
    (bare_hidden, *_) = run(cell, [None if one is None else on_host(one) for one in arguments])
    agree([bare_hidden], run(cell, arguments)[:1])


@pytest.mark.parametrize(("cell", "size"), CASES.values(), ids=CASES)
def test_second_derivatives_are_those_of_the_cpu(device: Device, cell: Cell, size: int) -> None:
    arguments = draw(cell, 3, 2, 3, "d", size)

    agree(
        results_and_grads(cell, leaves_at(device, arguments), slice(None), create_graph=True),
        results_and_grads(cell, leaves_at(None, arguments), slice(None), create_graph=True),
    )


@pytest.mark.parametrize(("cell", "size"), CASES.values(), ids=CASES)
def test_a_step_is_one_kernel_in_each_direction(device: Device, cell: Cell, size: int) -> None:
    arguments = draw(cell, 9, 2, 3, "f", size)
    results_and_grads(cell, leaves_at(device, arguments), slice(0, 1))

    forward, backward = f"{cell.name}_float", f"{cell.name}_grad_float"
    assert GridModule.launched == [forward] * 9 + [backward] * 9


@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
def test_only_wanted_gradients_are_computed_and_a_node_may_run_again(device: Device, cell: Cell) -> None:
    arguments = draw(cell, 3, 2, 3)
    leaves, known = leaves_at(device, arguments), leaves_at(None, arguments)
    for place in (leaves, known):
        place[0] = place[0].detach()
    loss, expected = (np.sum(run(cell, place)[0] ** 2) for place in (leaves, known))

    for retained in (True, False):
        found = sync.grad(loss, leaves[2:3], retain_graph=retained)
        agree(found, sync.grad(expected, known[2:3], retain_graph=True))


def test_a_write_into_the_result_does_not_change_the_gradient(device: Device) -> None:
    arguments = draw(GRU, 3, 2, 3)
    leaves, known = leaves_at(device, arguments), leaves_at(None, arguments)
    for place in (leaves, known):
        hidden, *_ = run(GRU, place)
        hidden *= 2
        sync.backward(np.sum(hidden))

    agree([one.grad for one in leaves if one is not None], [one.grad for one in known if one is not None])


LAYERS = {
    "RNN": lambda: nn.RNN(3, 4, num_layers=2, nonlinearity="relu"),
    "GRU": lambda: nn.GRU(3, 4, bidirectional=True, batch_first=True),
    "LSTM": lambda: nn.LSTM(3, 4, num_layers=2, bidirectional=True, proj_size=2),
}


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_layers_are_those_of_the_cpu(device: Device, make: Any, is_packed: bool) -> None:
    layer = make()
    moved = make().to(device)
    moved.load_state_dict({name: value.to(device) for name, value in layer.state_dict().items()})
    x = np.random.default_rng(0).standard_normal((5, 5, 3)).astype("f")

    def outcome(layer: Any, place: Any) -> list[Any]:
        leaf = ag.tensor(x, device=place, requires_grad=True)
        given = nn.utils.rnn.pack_sequence([leaf[0], leaf[1, :3], leaf[2, :3], leaf[3, :1]]) if is_packed else leaf
        found, state = layer(given)
        results = [found.data if is_packed else found, *(state if isinstance(state, tuple) else (state,))]
        sync.backward(sum(np.sum(one * one) for one in results))
        return [*results, leaf.grad, *(one.grad for one in layer.parameters())]

    agree(outcome(moved, device), outcome(layer, None))
    assert GridModule.launched


def test_half_precision_and_empty_arrays_have_no_kernel(device: Device) -> None:
    for shape, dtype in (((2, 3, 1), "e"), ((2, 0, 1), "f"), ((2, 3, 1), "f")):
        x, weight, h = (on_host(np.ones(one, dtype)) for one in (shape, (4, 4), (shape[1], 4)))
        found = own_function("recurrence", x)(x, "tanh", (weight, None, None), [h])
        assert (found is not None) == (dtype == "f" and bool(x.size))
