"""The simulated accelerator: virtual time, arrays of a type of its own, hazards, failure."""

from __future__ import annotations

import asyncio
import gc
import pickle
import weakref
from math import inf, nan
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn
from asyncgrad.errors import ArgumentError, DeviceError, HazardError
from asyncgrad.testing import DEVICE_CHECKS, SimulatedAccelerator, SimulatedArray, SimulatedClock
from tests.core.engine.accelerated import host, slow_accelerator, tensor_on

#: Without their hints: a type checker compares each array of a shape of its own with the protocol of arrays for long.
ones: Any = np.ones
zeros: Any = np.zeros
arange: Any = np.arange


@pytest.mark.parametrize("check", DEVICE_CHECKS, ids=lambda check: check.__name__)
async def test_a_simulated_accelerator_holds_the_law_of_all_devices(check: Any) -> None:
    await check(SimulatedAccelerator())


# Time.


def test_an_operation_takes_its_latency_and_the_time_to_move_its_bytes() -> None:
    device = SimulatedAccelerator(latency=2.0, bandwidth=8.0, flops=inf, host_bandwidth=inf)
    x = device.from_host(ones(4))
    y = x + x
    assert [(operation.name, operation.begin, operation.end) for operation in device.timeline] == [
        ("from_host", 0.0, 2.0),
        # It reads the array twice, and writes as much.
        ("add", 2.0, 2.0 + 2.0 + 3 * 32 / 8.0),
    ]
    assert y.shape == (4,)
    assert device.clock.now == 0.0


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("latency", -1.0),
        ("latency", nan),
        ("bandwidth", 0),
        ("bandwidth", nan),
        ("flops", -1.0),
        ("host_bandwidth", 0.0),
    ],
)
def test_a_time_that_is_negative_and_a_speed_that_is_not_above_zero_are_refused(name: str, wrong: float) -> None:
    with pytest.raises(ArgumentError, match=rf"{name} must be .*, not {wrong!r}: give"):
        SimulatedAccelerator(**{name: wrong})


def test_timed_events_measure_virtual_milliseconds_and_refuse_what_has_no_time() -> None:
    device, other = slow_accelerator(), slow_accelerator()
    stream = device.current_stream()
    device.clock.advance(5.0)
    begin = stream.record_event(enable_timing=True)
    device.from_host(ones(1))
    plain, end = stream.record_event(), stream.record_event(enable_timing=True)

    with pytest.raises(DeviceError, match=r"await event\.synchronize\(\)"):
        begin.elapsed_time(end)
    _ = device.synchronize()
    assert begin.elapsed_time(end) == 1000.0
    assert end.elapsed_time(begin) == -1000.0
    with pytest.raises(DeviceError, match=r"write stream\.record_event\(enable_timing=True\)"):
        begin.elapsed_time(plain)
    with pytest.raises(DeviceError, match="takes an event of a stream of"):
        begin.elapsed_time(other.current_stream().record_event(enable_timing=True))
    with pytest.raises(DeviceError, match="has no events with the time"):
        ag.device("cpu").current_stream().record_event(enable_timing=True)


def test_a_matrix_product_takes_the_time_of_its_operations() -> None:
    device = SimulatedAccelerator(latency=0.0, bandwidth=inf, flops=10.0, host_bandwidth=inf)
    x, y = device.from_host(ones((3, 4))), device.from_host(ones((4, 5)))
    x @ y
    last = device.timeline[-1]
    assert last.name == "matmul"
    assert last.end - last.begin == pytest.approx(2 * 3 * 4 * 5 / 10.0)


def test_the_way_from_and_to_the_host_has_a_bandwidth_of_its_own() -> None:
    device = SimulatedAccelerator(latency=1.0, bandwidth=inf, flops=inf, host_bandwidth=4.0)
    x = device.from_host(ones(2))
    assert device.timeline[-1].end == 1.0 + 16 / 4.0
    assert device.clock.now == 0.0
    device.to_host(x)
    assert device.clock.now == 2 * (1.0 + 16 / 4.0)


def test_the_host_goes_on_until_it_asks_for_a_number() -> None:
    device = slow_accelerator()
    x = device.from_host(arange(3.0))
    total = (x * x).sum()
    assert device.clock.now == 0.0
    assert total.item() == 5.0
    assert device.clock.now == 4.0
    assert bool((x == 1).any())


def test_operations_begin_at_the_hosts_time() -> None:
    device = slow_accelerator()
    device.clock.advance(10.0)
    device.from_host(ones(1))
    assert (device.timeline[0].begin, device.timeline[0].end) == (10.0, 11.0)


def test_streams_overlap_and_the_device_is_busy_while_one_of_them_is() -> None:
    device = slow_accelerator()
    for length in (2, 5):
        with device.stream():
            x = device.from_host(ones(2))
            for _ in range(length):
                x = x * 2
    assert device.busy == 6.0
    assert sum(end - begin for _, _, begin, end in device.timeline) == 9.0
    device.clock.advance(10.0)
    device.from_host(ones(1))
    assert device.busy == 7.0
    assert device.current_stream().query() is False
    device.to_host(device.from_host(ones(1)))
    assert device.clock.now == 13.0


async def test_synchronizing_jumps_and_never_suspends() -> None:
    device = slow_accelerator()
    device.from_host(ones(1))
    turns: list[int] = []

    asyncio.get_running_loop().call_soon(turns.append, 1)
    await device.synchronize()
    assert device.clock.now == 1.0
    device.from_host(ones(1))
    event = device.current_stream().record_event()
    assert not event.query()
    await event.synchronize()
    assert event.query()
    await device.current_stream().synchronize()
    assert device.clock.now == 2.0
    assert turns == []


def test_a_view_takes_no_time() -> None:
    device = slow_accelerator()
    x = device.from_host(arange(6.0))
    views = [x.reshape(2, 3), x.reshape(2, 3).T, x[1:4], np.broadcast_to(x, (2, 6)), x.reshape(2, 3).mT, np.real(x)]
    assert len(device.timeline) == 1
    assert all(view.base is x or view is x for view in views)
    assert x[np.array([0, 2])].base is None
    assert len(device.timeline) == 2


def test_accelerators_may_share_a_clock() -> None:
    clock = SimulatedClock()
    first, second = slow_accelerator(clock=clock), slow_accelerator(clock=clock)
    first.to_host(first.from_host(ones(1)))
    second.from_host(ones(1))
    assert second.timeline[0].begin == 2.0


# Arrays.


def test_an_array_never_becomes_an_ndarray_unseen() -> None:
    device = SimulatedAccelerator()
    x = device.from_host(ones(3))
    for convert in (np.asarray, np.array, lambda value: np.ones(3).__iadd__(value)):
        with pytest.raises((TypeError, DeviceError)):
            convert(x)
    with pytest.raises(TypeError, match=r"write device.to_host\(array\)"):
        np.asarray(x)
    with pytest.raises(TypeError, match=r"write device.from_host\(array\) first"):
        x + np.ones(3)
    assert type(x + 1) is type(1 + x) is type(np.float64(1) + x) is SimulatedArray


def test_arrays_of_two_accelerators_do_not_mix() -> None:
    first, second = SimulatedAccelerator(), SimulatedAccelerator()
    with pytest.raises(DeviceError, match=f"'{first}' and on '{second}'"):
        first.from_host(ones(2)) + second.from_host(ones(2))
    with pytest.raises(DeviceError, match="move one of them first"):
        tensor_on(first, [1.0]) * tensor_on(second, [1.0])


def test_from_host_and_to_host_copy() -> None:
    device = SimulatedAccelerator()
    data = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    x = device.from_host(data)
    data[...] = 0
    back = device.to_host(x)
    assert back.flags.f_contiguous
    assert back.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    back[...] = 0
    assert device.to_host(x).sum() == 15


def test_writes_go_into_the_memory_of_a_view() -> None:
    device = SimulatedAccelerator()
    x = device.from_host(zeros((2, 2)))
    x[0] = 1
    x.T[0] += 2
    np.add(x[1], 5, out=x[1])
    np.copyto(x[:, 1], x[:, 0])
    assert device.to_host(x).tolist() == [[3.0, 3.0], [7.0, 7.0]]
    np.add.at(x, 0, 1)
    x.sort(axis=1)
    x.fill(2)
    assert x.tolist() == [[2.0, 2.0], [2.0, 2.0]]


@pytest.mark.slow
def test_a_name_finds_an_accelerator_while_somebody_refers_to_it() -> None:
    device = SimulatedAccelerator()
    assert ag.device(device.name) is device
    assert pickle.loads(pickle.dumps(device)) is device
    assert tensor_on(device, [1.0]).to(device.name).device is device
    name, reference = device.name, weakref.ref(device)
    del device
    gc.collect()
    assert reference() is None
    with pytest.raises(DeviceError, match="there is no device"):
        ag.device(name)


# Hazards.


def test_a_read_on_another_stream_needs_an_event() -> None:
    device = slow_accelerator()
    first, second = device.stream(), device.stream()
    with first:
        x = device.from_host(ones(2))
    with second, pytest.raises(HazardError, match=r"multiply|mul on <stream 2 .*> reads an array that from_host on"):
        x * 2
    second.wait_event(first.record_event())
    with second:
        y = x * 2
    # What is ordered through a third stream is ordered.
    third = device.stream()
    third.wait_stream(second)
    with third:
        x + y


def test_an_event_covers_what_was_on_its_stream_when_it_was_recorded() -> None:
    device = slow_accelerator()
    first, second = device.stream(), device.stream()
    event = first.record_event()
    with first:
        x = device.from_host(ones(2))
    second.wait_event(event)
    with second, pytest.raises(HazardError):
        x * 2


@pytest.mark.parametrize("is_read_first", [True, False])
def test_a_write_needs_an_event_from_those_who_read_and_write(is_read_first: bool) -> None:
    device = slow_accelerator()
    main, other = device.default_stream(), device.stream()
    x = device.from_host(ones(2))
    other.wait_stream(main)
    with other:
        if is_read_first:
            x * 2
        else:
            x.fill(3)
    with pytest.raises(HazardError, match="writes into an array"):
        x.fill(4)
    main.wait_stream(other)
    x.fill(4)


def test_two_streams_may_read_one_array() -> None:
    device = slow_accelerator()
    x = device.from_host(ones(2))
    for _ in range(2):
        with device.stream() as stream:
            stream.wait_stream(device.default_stream())
            x * 2


def test_what_the_host_has_waited_for_needs_no_event() -> None:
    device = slow_accelerator()
    with device.stream() as stream:
        x = device.from_host(ones(2))
    with stream:
        x.tolist()
    assert (x * 2).tolist() == [2.0, 2.0]


# Failure.


def test_the_device_dies_after_a_number_of_operations_and_stays_dead() -> None:
    device = slow_accelerator(fail_after=2)
    x = device.from_host(ones(2))
    y = x * 2
    with pytest.raises(DeviceError, match=f"the device '{device}' has died: its operation 2, add, failed"):
        x + y
    stream = device.current_stream()
    uses: list[Any] = [
        lambda: x * 2,
        lambda: device.from_host(ones(2)),
        lambda: device.to_host(x),
        lambda: x.sum().item(),
        lambda: x[0],
        device.synchronize,
        stream.synchronize,
        stream.record_event,
    ]
    for use in uses:
        with pytest.raises(DeviceError, match=f"'{device}' has died"):
            use()
    assert len(device.timeline) == 2


def test_the_device_dies_at_an_operation_of_a_name() -> None:
    device = slow_accelerator(fail_at="matmul")
    x = device.from_host(ones((2, 2)))
    x * x
    with pytest.raises(DeviceError, match="its operation 2, matmul, failed"):
        x @ x


def test_a_closed_device_refuses_what_comes() -> None:
    device = slow_accelerator()
    device.close()
    with pytest.raises(DeviceError, match=f"the device '{device}' is closed"):
        device.from_host(ones(1))


async def test_a_backward_on_a_device_that_dies_names_the_node() -> None:
    device = slow_accelerator()
    x = tensor_on(device, [[1.0]], requires_grad=True)
    y = (x @ x).sum()
    device.die("its power has failed")
    with pytest.raises(DeviceError, match=f"the device '{device}' has died: its power has failed") as caught:
        await y.backward(retain_graph=True)
    assert x.grad is None
    with pytest.raises(DeviceError):
        await (x * 2).backward()
    assert caught.value.args


# A model.


def model_loss(parameters: dict[str, Any], x: Any, labels: Any) -> Any:
    hidden = nn.gelu(nn.linear(x, parameters["w1"], parameters["b1"]))
    hidden = nn.layer_norm(nn.relu(hidden) + hidden, hidden.shape[-1:])
    return nn.cross_entropy(nn.linear(hidden, parameters["w2"], parameters["b2"]), labels)


def model_parameters() -> dict[str, ag.Tensor]:
    rng = np.random.default_rng(3)
    shapes = {"w1": (16, 4), "b1": (16,), "w2": (3, 16), "b2": (3,)}
    return {name: ag.tensor(rng.normal(size=shape), requires_grad=True) for name, shape in shapes.items()}


@pytest.mark.parametrize("on_stream", [False, True])
async def test_a_model_moved_to_the_accelerator_has_the_gradients_of_the_cpu(on_stream: bool) -> None:
    x = np.random.default_rng(4).normal(size=(10, 4))
    labels = np.arange(10) % 3
    here, there = model_parameters(), model_parameters()
    device = SimulatedAccelerator()
    await model_loss(here, ag.tensor(x), labels).backward()
    with device.stream() if on_stream else device.default_stream() as stream:
        moved = {name: parameter.to(device) for name, parameter in there.items()}
        loss = model_loss(moved, ag.tensor(x).to(device), labels)
    device.default_stream().wait_stream(stream)
    assert loss.to("cpu").item() == model_loss(here, ag.tensor(x), labels).item()
    await loss.backward()
    for name, parameter in there.items():
        # The leaves live on the cpu: their gradients have come back.
        assert parameter.grad is not None
        assert parameter.grad.device is ag.device("cpu")
        assert parameter.grad.numpy().tobytes() == here[name].grad.numpy().tobytes()  # type: ignore[union-attr]
    assert {operation.stream for operation in device.timeline if operation.name == "dot"} == {stream}


async def test_parameters_on_the_accelerator_keep_their_gradients_there() -> None:
    device = SimulatedAccelerator()
    here = model_parameters()
    there = {name: ag.tensor(value.detach(), device=device, requires_grad=True) for name, value in here.items()}
    x, labels = np.random.default_rng(4).normal(size=(10, 4)), np.arange(10) % 3
    await model_loss(here, ag.tensor(x), labels).backward()
    await model_loss(there, ag.tensor(x, device=device), labels).backward()
    for name, parameter in there.items():
        assert type(parameter.grad._data) is SimulatedArray  # type: ignore[union-attr]
        assert host(parameter.grad).tobytes() == here[name].grad.numpy().tobytes()  # type: ignore[union-attr]
