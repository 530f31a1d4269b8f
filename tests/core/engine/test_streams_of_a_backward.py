"""A backward runs each node on its stream, and orders streams by events: shown by an accelerator that checks."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.core.engine.streams import TaskStreams
from asyncgrad.errors import DeviceError, HazardError
from asyncgrad.testing import SimulatedAccelerator
from tests.core.engine.accelerated import host, slow_accelerator, tensor_on
from tests.support.loops import on_each_loop


def tanh_chain(x: Any, length: int) -> Any:
    for _ in range(length):
        x = np.tanh(x)
    return x


def two_branches(device: SimulatedAccelerator, streams: tuple[Any, Any], length: int) -> tuple[Any, list[Any]]:
    """Return the sum of two chains, each on a stream, and the leaf of each."""
    main = device.current_stream()
    leaves, ends = [], []
    for number, stream in enumerate(streams):
        with stream:
            leaves.append(tensor_on(device, np.linspace(0.1, 1.0 + number, 5), requires_grad=True))
            ends.append(tanh_chain(leaves[-1], length))
        if stream is not main:
            main.wait_stream(stream)
    return (ends[0] + ends[1]).sum(), leaves


def on_cpu(length: int) -> list[np.ndarray]:
    leaves = [ag.tensor(np.linspace(0.1, 1.0 + number, 5), requires_grad=True) for number in range(2)]
    ag.sync.backward((tanh_chain(leaves[0], length) + tanh_chain(leaves[1], length)).sum())
    return [host(leaf.grad) for leaf in leaves]


def elapsed_backward(run: Any, device: SimulatedAccelerator, loss: Any) -> float:
    async def main() -> float:
        await device.synchronize()
        begin = device.clock.now
        await loss.backward()
        await device.synchronize()
        return device.clock.now - begin

    elapsed: float = run(main())
    return elapsed


def test_a_nodes_stream_is_the_current_one_of_its_device_when_it_was_made() -> None:
    device = slow_accelerator()
    x = tensor_on(device, [1.0, 2.0], requires_grad=True)
    with device.stream() as stream:
        stream.wait_stream(device.default_stream())
        y = x * 2
        with device.stream(device.default_stream()):
            device.current_stream().wait_stream(stream)
            z = y * 2
    w = z * 2
    assert y.grad_fn is not None
    assert y.grad_fn.stream is stream
    assert [fn.stream for fn in (z.grad_fn, w.grad_fn)] == [device.default_stream()] * 2
    # A leaf's is that of the operation that used it first.
    assert y.grad_fn.next_edges[0].node.stream is stream
    assert (ag.tensor(1.0, requires_grad=True) * 2).grad_fn.stream is None


async def test_a_body_and_its_hooks_run_on_the_nodes_stream() -> None:
    device = slow_accelerator()
    seen: list[Any] = []

    class Look(ag.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        async def backward(ctx: Any, grad: Any) -> Any:
            seen.append(device.current_stream())
            return grad

    with device.stream() as stream:
        x = tensor_on(device, [1.0], requires_grad=True)
        y = Look.apply(x)
    y.register_hook(lambda grad: seen.append(device.current_stream()))
    x.register_post_accumulate_grad_hook(lambda leaf: seen.append(device.current_stream()))
    device.default_stream().wait_stream(stream)
    await y.sum().backward()
    assert seen == [stream] * 3
    assert device.current_stream() is device.default_stream()


@on_each_loop
@pytest.mark.parametrize("is_blocking", [False, True])
def test_gradients_that_cross_streams_are_those_of_the_cpu(run: Any, is_blocking: bool) -> None:
    device = slow_accelerator()
    loss, leaves = two_branches(device, (device.stream(), device.stream()), 4)
    if is_blocking:
        ag.sync.backward(loss)
    else:
        run(loss.backward())
    for leaf, expected in zip(leaves, on_cpu(4), strict=True):
        # Read on the caller's stream, which has been made to wait for the leaves'.
        assert host(leaf.grad).tobytes() == expected.tobytes()


@on_each_loop
def test_two_branches_on_two_streams_take_the_time_of_one(run: Any) -> None:
    alone, together = slow_accelerator(), slow_accelerator()
    main = alone.default_stream()
    one_by_one = elapsed_backward(run, alone, two_branches(alone, (main, main), 20)[0])
    at_once = elapsed_backward(run, together, two_branches(together, (together.stream(), together.stream()), 20)[0])
    operations = len(alone.timeline)
    assert operations == len(together.timeline)
    in_common = sum(operation.stream is together.default_stream() for operation in together.timeline)
    assert one_by_one > 100
    # What is not in common is in two halves.
    assert at_once == pytest.approx(one_by_one / 2, abs=in_common)
    assert at_once < 0.55 * one_by_one


@on_each_loop
def test_a_sum_of_two_streams_gradients_waits_for_both(run: Any) -> None:
    device = slow_accelerator()
    main = device.default_stream()
    x = tensor_on(device, np.arange(3.0), requires_grad=True)
    middle = x * 3
    parts = []
    for length in (1, 7, 3):
        with device.stream() as stream:
            stream.wait_stream(main)
            parts.append(tanh_chain(middle, length))
        main.wait_stream(stream)
    run((parts[0] + parts[1] + parts[2]).sum().backward())
    y = ag.tensor(np.arange(3.0), requires_grad=True)
    middle = y * 3
    ag.sync.backward((tanh_chain(middle, 1) + tanh_chain(middle, 7) + tanh_chain(middle, 3)).sum())
    assert host(x.grad).tobytes() == host(y.grad).tobytes()


async def test_the_first_nodes_wait_for_the_callers_stream() -> None:
    device = slow_accelerator()
    with device.stream() as forward:
        x = tensor_on(device, [1.0, 2.0], requires_grad=True)
        y = np.tanh(x)
    with device.stream() as caller:
        caller.wait_stream(forward)
        gradient = tensor_on(device, [1.0, 2.0]) * 3
        await y.backward(gradient)
        # The default stream had nothing to do with it.
        with device.stream(device.default_stream()), pytest.raises(HazardError, match="no event orders the two"):
            host(x.grad)
        assert host(x.grad).shape == (2,)


async def test_several_roots_wait_for_the_callers_stream_too() -> None:
    device = slow_accelerator()
    with device.stream() as forward:
        x = tensor_on(device, [1.0, 2.0], requires_grad=True)
        roots = [np.tanh(x), x * x]
    with device.stream() as caller:
        caller.wait_stream(forward)
        gradients = [tensor_on(device, [1.0, 2.0]) * 3, tensor_on(device, [1.0, 2.0]) * 5]
        await ag.backward(roots, gradients)
        assert host(x.grad).shape == (2,)


async def test_leaf_streams_are_those_of_leaves_and_captures() -> None:
    device = slow_accelerator()
    streams = device.stream(), device.stream()
    loss, leaves = two_branches(device, streams, 2)
    tasks: list[Any] = []
    loss.register_hook(lambda grad: tasks.append(ag.engine.current_graph_task()))
    seen: list[Any] = []
    loss.register_hook(lambda grad: seen.append(tasks[0].leaf_streams))
    await loss.backward(retain_graph=True)
    assert seen == [frozenset()]
    assert tasks[0].leaf_streams == frozenset(streams)
    tasks.clear()
    await ag.grad(loss, [leaves[1]])
    assert tasks[0].leaf_streams == {streams[1]}


async def test_a_backward_on_the_cpu_has_no_leaf_streams() -> None:
    slow_accelerator().stream()
    x = ag.tensor(1.0, requires_grad=True)
    seen: list[Any] = []
    x.register_hook(lambda grad: seen.append(ag.engine.current_graph_task()))
    await (x * 2).backward()
    assert seen[0].leaf_streams == frozenset()


async def test_what_is_captured_may_be_read_on_the_callers_stream() -> None:
    device = slow_accelerator()
    loss, leaves = two_branches(device, (device.stream(), device.stream()), 3)
    grads = await ag.grad(loss, leaves)
    for grad, expected in zip(grads, on_cpu(3), strict=True):
        assert host(grad).tobytes() == expected.tobytes()


async def test_a_captured_gradient_of_no_leaf_may_be_read_too() -> None:
    device = slow_accelerator()
    with device.stream() as stream:
        x = tensor_on(device, [1.0, 2.0], requires_grad=True)
        y = np.tanh(x)
    main = device.default_stream()
    main.wait_stream(stream)
    middle = y * 3
    (grad,) = await ag.grad((middle * middle).sum(), [middle])
    assert host(grad).tolist() == (2 * host(middle)).tolist()
    (grad,) = await ag.grad((y * 3).sum(), [y])
    assert host(grad).tolist() == [3.0, 3.0]


async def test_final_callbacks_come_after_the_callers_stream_has_been_made_to_wait() -> None:
    device = slow_accelerator()
    loss, leaves = two_branches(device, (device.stream(), device.stream()), 2)
    seen: list[Any] = []

    def look() -> None:
        seen.append((device.current_stream(), host(leaves[0].grad).shape))

    loss.register_hook(lambda grad: ag.engine.queue_callback(look))
    with device.stream() as caller:
        caller.wait_stream(device.default_stream())
        await loss.backward()
    assert seen == [(caller, (5,))]


async def test_a_gradient_is_accumulated_on_the_leafs_stream_after_what_the_caller_did_to_it() -> None:
    device = slow_accelerator()
    with device.stream() as stream:
        x = tensor_on(device, [1.0, 2.0], requires_grad=True)
        y = x * 3
    main = device.default_stream()
    main.wait_stream(stream)
    await y.sum().backward(retain_graph=True)
    with ag.no_grad():
        assert x.grad is not None
        x.grad *= 2
    await y.sum().backward()
    assert host(x.grad).tolist() == [9.0, 9.0]


async def test_a_gradient_that_comes_from_the_cpu_finds_what_the_caller_did() -> None:
    device = slow_accelerator()

    class Leave(ag.Function):
        """To the cpu, by hand."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return ag.asarray(device.to_host(x._data))

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return ag.Tensor(device.from_host(grad.numpy()), None, 0, device)

    with device.stream():
        x = tensor_on(device, [1.0, 2.0], requires_grad=True)
        y = Leave.apply(x * 3)
    await y.sum().backward(retain_graph=True)
    with device.stream() as other:
        other.wait_stream(device.default_stream())
        with ag.no_grad():
            assert x.grad is not None
            x.grad *= 2
        await y.sum().backward()
        assert host(x.grad).tolist() == [9.0, 9.0]


async def test_a_second_derivative_crosses_streams() -> None:
    device = slow_accelerator()
    with device.stream() as stream:
        x = tensor_on(device, [1.0, 2.0], requires_grad=True)
        y = x * x * x
    main = device.default_stream()
    main.wait_stream(stream)

    (first,) = await ag.grad(y.sum(), [x], create_graph=True)
    assert first.grad_fn.stream is stream
    (second,) = await ag.grad(first.sum(), [x])
    assert host(second).tolist() == [6.0, 12.0]


async def test_each_task_has_its_own_current_stream() -> None:
    device = slow_accelerator()
    seen: dict[str, Any] = {}

    async def one(name: str, turns: int) -> None:
        with device.stream() as stream:
            for _ in range(turns):
                await asyncio.sleep(0)
            seen[name] = device.current_stream() is stream

    await asyncio.gather(one("a", 1), one("b", 3), one("c", 2))
    assert device.current_stream() is device.default_stream()
    assert seen == {"a": True, "b": True, "c": True}


async def test_what_was_recorded_on_the_default_stream_runs_there_whoever_calls() -> None:
    device = slow_accelerator()
    main = device.default_stream()
    x = tensor_on(device, [1.0, 2.0], requires_grad=True)
    y = x * 3 * 5
    with device.stream() as caller:
        caller.wait_stream(main)
        gradient = tensor_on(device, [1.0, 2.0]) * 2
        begin = len(device.timeline)
        # The default stream waits for the gradient, and the caller's for the leaf.
        await y.backward(gradient, retain_graph=True)
        assert {operation.stream for operation in device.timeline[begin:]} == {main}
        assert host(x.grad).tolist() == [30.0, 60.0]
        (grad,) = await ag.grad(y, [x], gradient, retain_graph=True)
        assert host(grad).tolist() == [30.0, 60.0]
        middle = y.grad_fn.next_edges[0]  # type: ignore[union-attr]
        (grad,) = await ag.grad(y, [ag.graph.GradientEdge(middle.node, 0)], gradient * 2)
        assert host(grad).tolist() == [20.0, 40.0]


@on_each_loop
def test_a_sum_of_what_came_before_a_stream_was_met_and_after_waits_for_both(run: Any) -> None:
    device = slow_accelerator()
    main = device.default_stream()
    x = tensor_on(device, [0.5, 1.0], requires_grad=True)
    middle = x * 3
    with device.stream() as stream:
        stream.wait_stream(main)
        on_stream = tanh_chain(middle, 3)
    main.wait_stream(stream)
    older = on_stream * 1
    # The newest: its gradient has reached `middle` before a node with a stream is met.
    newest = middle * 2
    run((newest + older).sum().backward())
    u = ag.tensor([0.5, 1.0], requires_grad=True)
    middle = u * 3
    ag.sync.backward((middle * 2 + tanh_chain(middle, 3)).sum())
    assert host(x.grad).tolist() == pytest.approx(host(u.grad).tolist(), rel=1e-15)


async def test_a_captured_sum_may_be_read_on_the_callers_stream() -> None:
    device = slow_accelerator()
    with device.stream() as stream:
        x = tensor_on(device, [1.0, 2.0], requires_grad=True)
        y = x * 3
    device.default_stream().wait_stream(stream)
    # The sum is made on the stream of y.
    (grad,) = await ag.grad((y * 5 + y * 7).sum(), [y])
    assert host(grad).tolist() == [12.0, 12.0]


@on_each_loop
def test_a_backward_on_a_device_that_dies_leaves_every_grad_as_it_was(run: Any) -> None:
    healthy = slow_accelerator()
    loss, _ = two_branches(healthy, (healthy.stream(), healthy.stream()), 3)
    forward = len(healthy.timeline)
    ag.sync.backward(loss, retain_graph=True)
    first = len(healthy.timeline)
    # The first operation makes the gradient to start from.
    for number in range(1, first - forward):
        device = slow_accelerator(fail_after=first + number)
        loss, leaves = two_branches(device, (device.stream(), device.stream()), 3)
        ag.sync.backward(loss, retain_graph=True)
        before = [(leaf.grad, leaf.grad._data) for leaf in leaves]  # type: ignore[union-attr]
        with pytest.raises(DeviceError, match=f"'{device}' has died") as caught:
            run(loss.backward())
        assert caught.value.__notes__[0].startswith("in ")
        assert caught.value.__context__ is None
        after = [(leaf.grad, leaf.grad._data) for leaf in leaves]  # type: ignore[union-attr]
        assert all(one is other for pairs in zip(before, after, strict=True) for one, other in zip(*pairs, strict=True))


async def test_after_a_backward_that_failed_the_caller_may_write_into_the_grad_that_is_left() -> None:
    device = slow_accelerator()
    with device.stream() as stream:
        x = tensor_on(device, [1.0, 2.0], requires_grad=True)
        y = x * 3
    device.default_stream().wait_stream(stream)
    await y.sum().backward(retain_graph=True)

    def refuse(leaf: Any) -> None:
        raise ValueError("no more of this")

    # The leaf's stream has read the gradient by then.
    x.register_post_accumulate_grad_hook(refuse)
    with pytest.raises(ValueError, match="no more of this"):
        await y.sum().backward()
    with ag.no_grad():
        assert x.grad is not None
        x.grad *= 2
    assert host(x.grad).tolist() == [6.0, 6.0]


# Without an event at one of these places the accelerator sees a hazard: so the tests above can fail.


def backward_and_read(run: Any, root: Any, gradient: Any, leaf: Any) -> None:
    run(root.backward(gradient))
    host(leaf.grad)


@on_each_loop
@pytest.mark.parametrize("place", ["finish", "begin", "_wait", "start"])
def test_a_backward_that_orders_less_is_seen(run: Any, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    device = slow_accelerator()
    monkeypatch.setattr(TaskStreams, place, staticmethod(lambda *_: None))
    with device.stream() as forward:
        x = tensor_on(device, [1.0, 2.0], requires_grad=True)
        y = np.tanh(x)
    with device.stream() as other:
        other.wait_stream(forward)
        z = y * 2
    with device.stream() as caller:
        caller.wait_stream(other)
        with pytest.raises(HazardError):
            backward_and_read(run, z, tensor_on(device, [1.0, 2.0]), x)
