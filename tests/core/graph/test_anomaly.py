"""Anomaly mode from end to end: a backward that fails says where the forward was, and NaN is an error."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import AnomalyError
from tests.support.failing import Trouble
from tests.support.functions import function
from tests.support.leaves import leaf

NAN = float("nan")


def failing(ctx: Any, grad: Any) -> Any:
    raise Trouble


async def failing_later(ctx: Any, grad: Any) -> Any:
    await asyncio.sleep(0)
    raise Trouble


Fails = function(lambda ctx, x: x.numpy() * 2, failing, name="Fails")
FailsLater = function(lambda ctx, x: x.numpy() * 2, failing_later, name="FailsLater")
Nan = function(lambda ctx, x: x.numpy() * 2, lambda ctx, grad: grad * NAN, name="Nan")


def forward_line(made: Any, x: Any) -> Any:
    return made.apply(x)


def notes_of(error: BaseException) -> str:
    return "\n".join(error.__notes__)


# Where the forward was.


@pytest.mark.parametrize("made", [Fails, FailsLater])
async def test_a_failing_backward_shows_the_line_of_the_forward(made):
    async def main() -> None:
        with ag.detect_anomaly():
            await ag.backward(forward_line(made, leaf(1.0)) * 2)

    with pytest.raises(Trouble) as caught:
        await main()

    notes = notes_of(caught.value)
    assert f"the forward call of {made.__name__}Backward (node #" in notes
    assert "in forward_line\n    return made.apply(x)" in notes


def test_a_failing_blocking_backward_shows_the_line_of_the_forward_too():
    with pytest.raises(Trouble) as caught, ag.detect_anomaly():
        sync.backward(forward_line(Fails, leaf(1.0)))

    assert "in forward_line\n" in notes_of(caught.value)


async def test_a_forward_outside_of_anomaly_mode_leaves_a_remark():
    out = forward_line(Fails, leaf(1.0))

    async def main() -> None:
        with ag.detect_anomaly():
            await ag.backward(out)

    with pytest.raises(Trouble) as caught:
        await main()

    notes = notes_of(caught.value)
    assert "was outside of anomaly mode" in notes
    assert "forward_line" not in notes


async def test_outside_of_anomaly_mode_nothing_is_said_of_the_forward():
    with ag.detect_anomaly():
        out = forward_line(Fails, leaf(1.0))

    with pytest.raises(Trouble) as caught:
        await ag.backward(out)

    assert "forward" not in notes_of(caught.value)


async def test_a_failing_double_backward_shows_the_line_of_each_forward():
    """The product fails that the backward of `outer_line` recorded."""

    class Twice(ag.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.numpy() * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return inner_line(grad)

    def inner_line(grad: Any) -> Any:
        return Fails.apply(grad)

    def outer_line(x: Any) -> Any:
        return Twice.apply(x)

    async def main() -> None:
        with ag.detect_anomaly():
            x = leaf(1.0)
            (g,) = await ag.grad(outer_line(x), [x], leaf(1.0), create_graph=True)
            await ag.backward(g)

    with pytest.raises(Trouble) as caught:
        await main()

    notes = notes_of(caught.value)
    assert notes.index("in inner_line\n") < notes.index("FailsBackward (node #", notes.index("in inner_line\n"))
    assert "was made in the backward of TwiceBackward (node #" in notes
    assert notes.index("in inner_line\n") < notes.index("in outer_line\n")


# NaN.


@pytest.mark.parametrize("create_graph", [False, True])
async def test_a_nan_that_a_node_returns_is_an_error_that_names_it(create_graph):
    async def main() -> None:
        with ag.detect_anomaly():
            x = leaf(1.0)
            await ag.grad(forward_line(Nan, x) * 2, [x], create_graph=create_graph)

    with pytest.raises(
        AnomalyError, match=r"NanBackward \(node #\d+, device 'cpu'\) returned NaN in gradient 0"
    ) as caught:
        await main()

    assert "in forward_line\n" in notes_of(caught.value)


async def test_an_operation_that_makes_nan_is_named():
    x = leaf(0.0)

    async def main() -> None:
        with ag.detect_anomaly(), np.errstate(all="ignore"):
            await ag.backward((np.sqrt(x) * 0.0).sum())

    with pytest.raises(AnomalyError, match="SqrtBackward"):
        await main()

    assert x.grad is None


async def test_an_operation_recorded_outside_is_searched_too():
    x = leaf(0.0)
    out = (np.sqrt(x) * 0.0).sum()

    async def main() -> None:
        with ag.detect_anomaly(), np.errstate(all="ignore"):
            await ag.backward(out)

    with pytest.raises(AnomalyError, match="SqrtBackward"):
        await main()


async def test_complex_gradients_are_searched():
    async def main() -> None:
        with ag.detect_anomaly():
            x = ag.tensor([1.0 + 1.0j], requires_grad=True)
            await ag.grad(Nan.apply(x), [x], np.ones(1, complex))

    with pytest.raises(AnomalyError, match="NanBackward"):
        await main()


async def test_only_a_search_that_was_asked_for_is_made():
    x = leaf(1.0)

    with ag.detect_anomaly(check_nan=False):
        await ag.backward(Nan.apply(x))
    with ag.detect_anomaly(), ag.detect_anomaly(check_nan=False):
        await ag.backward(Nan.apply(x))
    await ag.backward(Nan.apply(x))

    assert np.isnan(x.grad.item())


async def test_a_post_hook_may_repair_a_nan():
    x = leaf(1.0)

    with ag.detect_anomaly():
        out = Nan.apply(x)
        out.grad_fn.register_hook(lambda outputs, grads: (np.full(1, 5.0),))
        await ag.backward(out)

    assert x.grad.tolist() == [5.0]


async def test_a_nan_that_a_tensor_hook_makes_is_reported_of_the_next_node_that_returns_one():
    async def main() -> None:
        with ag.detect_anomaly():
            x = leaf(1.0)
            y = np.sin(x)
            z = np.exp(y)
            z.register_hook(lambda grad: grad * NAN)
            await ag.backward(z * 2)

    with pytest.raises(AnomalyError, match="ExpBackward"):
        await main()


async def test_root_gradients_and_what_leaves_take_are_not_searched():
    x = leaf(1.0)

    with ag.detect_anomaly():
        await ag.backward(x, np.array([NAN]))

    assert np.isnan(x.grad.item())


# Beside other things.


async def test_gradients_are_the_same_inside_and_outside_of_anomaly_mode():
    def gradients(x: Any) -> Any:
        y = np.split(np.tanh(x) * x, 2)
        return (np.concatenate([y[1], y[0]]) * y[0]).sum()

    async def main(x: Any) -> Any:
        (g,) = await ag.grad(gradients(x), [x], create_graph=True)
        await ag.backward((g * g).sum())
        return g

    x, w = leaf(0.5, 1.5), leaf(0.5, 1.5)
    outside = await main(x)
    inside = await ag.detect_anomaly()(main)(w)

    assert inside.tolist() == outside.tolist()
    assert w.grad.tolist() == x.grad.tolist()


async def test_tasks_side_by_side_are_searched_each_as_it_asked():
    async def quiet(x: Any) -> None:
        await ag.backward(FailsNever.apply(Nan.apply(x)))

    async def searched(x: Any) -> None:
        with ag.detect_anomaly():
            await quiet(x)

    async def later(ctx: Any, grad: Any) -> Any:
        await asyncio.sleep(0)
        return grad

    FailsNever = function(lambda ctx, x: x.numpy() * 2, later)
    first, second = leaf(1.0), leaf(1.0)

    results = await asyncio.gather(quiet(first), searched(second), return_exceptions=True)

    assert [type(result) for result in results] == [type(None), AnomalyError]
    assert (np.isnan(first.grad.item()), second.grad) == (True, None)


@pytest.mark.slow
async def test_a_deep_graph_runs_under_anomaly_mode():
    x = leaf(1.0)

    with ag.detect_anomaly():
        y = x
        for _ in range(3_000):
            y = y * 1.0
        await ag.backward(y)

    assert x.grad.tolist() == [1.0]
