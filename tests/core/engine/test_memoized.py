"""What a memoized rule has answered is kept until the backward has succeeded: a second try does not ask it again."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import AnomalyError, ChangedTensorError, InvalidGradientError, ReleasedGraphError
from asyncgrad.extend import TraceableNode
from asyncgrad.graph import Edge, GradientEdge, InputMetadata, Node
from tests.core.engine.heavy import always, on_workers
from tests.support.arrays import bits_of_grads
from tests.support.failing import Trouble, raising
from tests.support.leaves import leaf
from tests.support.loops import one_loop
from tests.support.refusals import refused
from tests.support.settings import compiled_after
from tests.support.threads import PATIENCE
from tests.support.turns import settle, turns

UNTIL: Any = "until_success"


class Asked(ag.Function):
    """x * 3; whoever computes the gradient is asked by `service(number, grad)`, which may be an `async def`."""

    is_memoized = True

    @staticmethod
    def forward(ctx, x, number, service):
        ctx.number, ctx.service = number, service
        ctx.save_for_backward(x)
        return x.numpy() * 3.0

    @staticmethod
    async def backward(ctx, grad):
        answer = await ctx.service(ctx.number, grad)
        assert len(ctx.saved_tensors) == 1
        return np.multiply(grad, 3.0) if answer is None else answer, None, None


class AskedAtOnce(Asked):
    @staticmethod
    def backward(ctx, grad):
        answer = ctx.service(ctx.number, grad)
        assert len(ctx.saved_tensors) == 1
        return np.multiply(grad, 3.0) if answer is None else answer, None, None


class Service:
    """Answers after some turns, and fails, for the first time only, at some of the numbers."""

    def __init__(self, *failing: int, pauses: Sequence[int] = (1,) * 6) -> None:
        self.asked: list[int] = []
        self.answered: list[int] = []
        self._failing = set(failing)
        self._pauses = pauses

    async def __call__(self, number: int, grad: Any) -> None:
        self.asked.append(number)
        await turns(self._pauses[number])
        if number in self._failing:
            self._failing.remove(number)
            raise Trouble(f"call {number}")
        self.answered.append(number)

    def forget(self) -> None:
        self.asked.clear()
        self.answered.clear()


def six(x: Any, service: Any) -> Any:
    """Six calls, which wait side by side."""
    total = ag.tensor(np.zeros(2))
    for number in range(6):
        total = np.add(total, Asked.apply(np.multiply(x, 0.1 * (number + 1)), number, service))
    return np.multiply(total, total).sum()


def one(x: Any, service: Any, function: Any = AskedAtOnce) -> Any:
    return function.apply(np.multiply(x, x), 0, service)


def fails_once(tensor: Any) -> None:
    """The first backward fails at this tensor, the next ones do not."""
    left = [Trouble("once")]

    def hook(grad: Any) -> None:
        if left:
            raise left.pop()

    tensor.register_hook(hook)


# What is asked again.


async def test_of_six_calls_of_which_the_fifth_failed_two_are_made_again():
    # They answer one after the other, the newest first.
    service, x, clean = Service(1, pauses=[12, 10, 8, 6, 4, 2]), leaf(1.0, 2.0), leaf(1.0, 2.0)
    loss = six(x, service)
    with pytest.raises(Trouble):
        await loss.backward(retain_graph=UNTIL)
    assert service.answered == [5, 4, 3, 2]
    service.forget()
    await loss.backward(retain_graph=UNTIL)

    assert sorted(service.asked) == [0, 1]
    await six(clean, Service()).backward()
    assert bits_of_grads([x]) == bits_of_grads([clean])


class AskedForRows(Asked):
    @staticmethod
    async def backward_batch(ctx, grads):
        await ctx.service(ctx.number, grads)
        return np.multiply(grads, 3.0), None, None


class AskedConcurrently(Asked):
    concurrent = True


@pytest.mark.parametrize(
    ("function", "concurrency"),
    [(Asked, None), (Asked, 1), (AskedAtOnce, None), (AskedConcurrently, None), (AskedForRows, None)],
)
async def test_of_the_rows_of_a_batch_those_that_have_been_answered_are_not_asked_again(function, concurrency):
    asked: list[int] = []
    left = [Trouble("the last row")]

    def answer(number: int, grad: Any) -> None:
        if number == 0 and left and grad.numpy()[..., 2].any():
            raise left.pop()

    async def service(number: int, grad: Any) -> None:
        asked.append(number)
        await turns(1)
        answer(number, grad)

    def service_at_once(number: int, grad: Any) -> None:
        asked.append(number)
        answer(number, grad)

    x, wait = leaf(1.0, 2.0, 3.0), service_at_once if function is AskedAtOnce else service
    out = function.apply(function.apply(x, 0, wait), 1, wait)
    options: Any = {"is_grads_batched": True, "retain_graph": UNTIL, "concurrency": concurrency}
    with pytest.raises(Trouble):
        await ag.grad(out, [x], np.eye(3), **options)
    asked.clear()
    (found,) = await ag.grad(out, [x], np.eye(3), **options)

    assert found.tolist() == (9.0 * np.eye(3)).tolist()
    # Of a call for all rows none has been answered.
    assert asked == [0]
    assert not kept_by(out.grad_fn)


async def test_rows_that_are_cancelled_at_every_turn_have_been_answered_once_their_rule_has_returned():
    for turn in range(1, 100):
        x, events = leaf(1.0, 2.0, 3.0), list[str]()

        async def service(number: int, grads: Any, events: list[str] = events) -> None:
            events.append("asked")
            await turns(3)
            events.append("answered")

        out = AskedForRows.apply(x, 0, service)
        options: Any = {"is_grads_batched": True, "retain_graph": UNTIL}
        task: Any = asyncio.ensure_future(ag.grad(out, [x], np.eye(3), **options))
        await turns(turn)
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            break
        if "answered" not in events:
            events.clear()
        (found,) = await ag.grad(out, [x], np.eye(3), **options)
        assert events == ["asked", "answered"]
        assert found.tolist() == (3.0 * np.eye(3)).tolist()
        assert not kept_by(out.grad_fn)
    assert turn > 6


@pytest.mark.parametrize("after", [None, 0], ids=["node by node", "compiled"])
async def test_cancelled_at_every_turn_what_has_answered_is_not_asked_again(after):
    clean = leaf(1.0, 2.0)
    await six(clean, Service()).backward()
    for turn in range(1, 100):
        service, x = Service(pauses=[3, 1, 4, 1, 5, 9]), leaf(1.0, 2.0)
        loss = six(x, service)
        with compiled_after(after):
            task = asyncio.ensure_future(loss.backward(retain_graph=UNTIL))
            await turns(turn)
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                break
            answered = set(service.answered)
            service.forget()
            await loss.backward(retain_graph=UNTIL)
        assert set(service.asked) == set(range(6)) - answered
        assert bits_of_grads([x]) == bits_of_grads([clean])
    assert turn > 9


@pytest.mark.parametrize("function", [Asked, AskedAtOnce])
async def test_a_failure_below_a_rule_does_not_ask_it_again(function):
    asked: list[Any] = []

    def count(number: int, grad: Any) -> Any:
        asked.append(grad)
        return settle() if function is Asked else None

    x = leaf(2.0)
    fails_once(x)
    out = one(x, count, function)
    with pytest.raises(Trouble):
        await out.backward(retain_graph=UNTIL)
    await out.backward(retain_graph=UNTIL)

    assert len(asked) == 1
    assert x.grad.item() == 12.0


def test_blocking_backward_passes_remember_too():
    asked: list[Any] = []
    x = leaf(2.0)
    fails_once(x)
    out = one(x, lambda number, grad: asked.append(grad))
    with pytest.raises(Trouble):
        sync.backward(out, retain_graph=UNTIL)
    sync.backward(out, retain_graph=UNTIL)

    assert len(asked) == 1
    assert x.grad.item() == 12.0


@one_loop
async def test_a_rule_on_a_worker_that_answers_after_the_cancellation_has_answered():
    begun, let_go, where = threading.Event(), threading.Event(), []

    def slow(number: int, grad: Any) -> None:
        where.append(on_workers())
        begun.set()
        assert let_go.wait(PATIENCE)

    x = leaf(2.0)
    out = one(x, slow)
    with always(), ag.workers(1):
        task = asyncio.ensure_future(out.backward(retain_graph=UNTIL))
        await asyncio.to_thread(begun.wait, PATIENCE)
        task.cancel()
        asyncio.get_running_loop().call_soon(let_go.set)
        await asyncio.wait([task])
        assert task.cancelled()
        assert x.grad is None
        await out.backward(retain_graph=UNTIL)

    assert where == [True]
    assert x.grad.item() == 12.0


@one_loop
@pytest.mark.parametrize("function", [Asked, AskedAtOnce])
async def test_a_rule_on_a_device_with_a_thread_of_its_own_is_not_asked_again(function):
    asked: list[Any] = []

    def count(number: int, grad: Any) -> Any:
        asked.append(threading.current_thread())
        return turns(2) if function is Asked else None

    x = leaf(2.0)
    fails_once(x)
    out = one(x.to("thread:0"), count, function).to("cpu")
    with pytest.raises(Trouble):
        await out.backward(retain_graph=UNTIL)
    await out.backward(retain_graph=UNTIL)

    assert len(asked) == 1
    assert x.grad.item() == 12.0


@one_loop
async def test_a_node_of_ones_own_may_be_memoized():
    class Dear(Node):
        __slots__ = ("asked",)
        is_memoized = True

        def __init__(self, following: GradientEdge) -> None:
            super().__init__([Edge(*following)], [following.node.input_metadata[0]])
            self.asked = 0

        async def apply(self, grads):
            self.asked += 1
            return (grads[0] * 5.0,)

    x = leaf(2.0)
    fails_once(x)
    node = Dear(ag.graph.get_gradient_edge(x))
    with pytest.raises(Trouble):
        await ag.backward(GradientEdge(node, 0), np.ones(1), retain_graph=UNTIL)
    await ag.backward(GradientEdge(node, 0), np.ones(1), retain_graph=UNTIL)

    assert (node.asked, x.grad.item()) == (1, 5.0)


@one_loop
@pytest.mark.parametrize("is_node", [False, True])
async def test_a_compiled_backward_does_not_call_a_traceable_one_past_its_memory(is_node):
    asked: list[Any] = []

    class Traceable(AskedAtOnce):
        is_traceable = True

    class Triple(TraceableNode):
        is_memoized = True

        def apply(self, grads):
            asked.append(1)
            return (np.multiply(grads[0], 3.0),)

    x = leaf(2.0)
    fails_once(x)
    squared = np.multiply(x, x)
    root: Any = Traceable.apply(squared, 0, lambda number, grad: asked.append(1))
    if is_node:
        below = Edge(*ag.graph.get_gradient_edge(squared))
        root = GradientEdge(Triple([below], [InputMetadata((1,), squared.dtype)]), 0)
    with compiled_after(0):
        with pytest.raises(Trouble):
            await ag.backward(root, np.ones(1), retain_graph=UNTIL)
        await ag.backward(root, np.ones(1), retain_graph=UNTIL)

    assert len(asked) == 1
    assert x.grad.item() == 12.0


@one_loop
@pytest.mark.parametrize("after", [None, 0], ids=["node by node", "compiled"])
async def test_a_memoized_rule_that_wrote_into_a_view_is_not_asked_again(after):
    asked: list[Any] = []

    class Tripled(ag.Function):
        is_memoized = True

        @staticmethod
        def forward(ctx, x):
            x *= 3.0
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, grad):
            asked.append(grad)
            return grad * 3.0

    x = leaf(2.0, 5.0)
    fails_once(x)
    y = np.multiply(x, 1.0)
    Tripled.apply(y[:1])
    loss = y.sum()
    with compiled_after(after):
        with pytest.raises(Trouble):
            await loss.backward(retain_graph=UNTIL)
        await loss.backward(retain_graph=UNTIL)

    assert len(asked) == 1
    assert x.grad.tolist() == [3.0, 1.0]


@one_loop
async def test_a_memoized_rule_in_a_checkpoint_that_recomputes_is_not_asked_again():
    service, x = Service(), leaf(2.0)
    fails_once(x)
    out = ag.checkpoint(lambda x: one(x, service, Asked), x, use_reentrant=False)
    with pytest.raises(Trouble):
        await out.backward(retain_graph=UNTIL)
    await out.backward(retain_graph=UNTIL)

    assert service.asked == [0]
    assert x.grad.item() == 12.0


@one_loop
async def test_a_rule_in_a_nested_backward_is_not_asked_again_when_the_outer_one_is_tried_again():
    service, w, x = Service(), leaf(3.0), leaf(2.0)
    fails_once(x)
    inner = one(w, service, Asked)

    async def body(number: int, grad: Any) -> None:
        await ag.backward(inner, retain_graph=UNTIL)

    class Outer(Asked):
        is_memoized = False

    out = Outer.apply(x, 1, body)
    with pytest.raises(Trouble):
        await out.backward(retain_graph=UNTIL)
    assert w.grad is None
    await out.backward(retain_graph=UNTIL)

    assert service.asked == [0]
    assert (w.grad.item(), x.grad.item()) == (18.0, 3.0)


# What is asked all the same.


def counting() -> tuple[list[Any], Any]:
    asked: list[Any] = []
    return asked, lambda number, grad: asked.append(grad.numpy().copy())


@one_loop
@pytest.mark.parametrize(
    ("first", "second"), [(1.0, 2.0), (0.0, -0.0), (np.nan, np.uint64(0x7FF8000000000001).view(np.float64))]
)
async def test_another_gradient_is_another_question_bit_by_bit(first, second):
    asked, service = counting()
    x = leaf(2.0)
    fails_once(x)
    out = one(x, service)
    with pytest.raises(Trouble):
        await out.backward(np.array([first]), retain_graph=UNTIL)
    await out.backward(np.array([second]), retain_graph=UNTIL)

    assert [grad.tobytes() for grad in asked] == [np.array([first]).tobytes(), np.array([second]).tobytes()]


#: Gradients that backward passes start from, and batches of them. All have an entry at which `x` below refuses one.
STARTS = {
    "gradients": [np.array([0.0, 0.0, number]) for number in (1.0, 2.0, 3.0, 4.0)],
    "batches": [np.eye(3), 2.0 * np.eye(3), 3.0 * np.eye(3)],
    "both": [*(np.array([0.0, 0.0, number]) for number in (4.0, 5.0)), np.eye(3), np.array([0.0, 0.0, 6.0])],
}


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("kind", STARTS)
async def test_backward_passes_that_are_tried_again_in_turns_do_not_lose_each_others_answers(kind, at_once):
    asked: list[bytes] = []

    async def service(number: int, grad: Any) -> None:
        asked.append(grad.numpy().tobytes())
        await turns(1)

    def fails(grad: Any) -> None:
        if grad.numpy()[2]:
            raise Trouble("below")

    x = leaf(1.0, 2.0, 3.0)
    out = Asked.apply(np.multiply(x, x), 0, service)
    x.register_hook(fails)

    async def once(start: np.ndarray) -> None:
        with pytest.raises(Trouble):
            await ag.grad([out], [x], [start], retain_graph=UNTIL, is_grads_batched=start.ndim > 1)

    for _ in range(3):
        if at_once:
            await asyncio.gather(*map(once, STARTS[kind]))
        else:
            for start in STARTS[kind]:
                await once(start)

    assert len(asked) == len(set(asked)) == sum(len(np.atleast_2d(start)) for start in STARTS[kind])


@one_loop
async def test_a_rule_that_has_answered_for_fewer_inputs_is_asked_for_the_others():
    wants: list[Any] = []

    class Product(ag.Function):
        is_memoized = True

        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x.numpy() * y.numpy()

        @staticmethod
        def backward(ctx, grad):
            x, y = ctx.saved_tensors
            node = ag.graph.current_node()
            wanted = [node.task_should_compute_output(edge) for edge in range(2)]
            wants.append(wanted)
            return tuple(grad * other if wants_it else None for other, wants_it in zip((y, x), wanted, strict=True))

    x, y = leaf(2.0), leaf(3.0)
    out = Product.apply(x, y)
    with x.register_hook(raising(Trouble("once"))), pytest.raises(Trouble):
        await out.backward(inputs=[x], retain_graph=UNTIL)
    await out.backward(retain_graph=UNTIL)

    assert wants == [[True, False], [True, True]]
    assert (x.grad.item(), y.grad.item()) == (3.0, 2.0)


@one_loop
async def test_a_write_into_what_was_saved_is_an_error_and_no_old_answer():
    _, service = counting()
    x = leaf(2.0)
    fails_once(x)
    saved = np.multiply(x, x)
    out = AskedAtOnce.apply(saved, 0, service)
    with pytest.raises(Trouble):
        await out.backward(retain_graph=UNTIL)
    with ag.no_grad():
        saved += 1.0

    with refused(ChangedTensorError, RuntimeError, "AskedAtOnceBackward", "changed in place"):
        await out.backward(retain_graph=UNTIL)
    assert x.grad is None


@one_loop
@pytest.mark.parametrize("copies", [True, False])
async def test_a_write_into_what_was_packed_asks_again(copies):
    asked, service = counting()
    x = leaf(2.0)
    fails_once(x)
    saved = np.multiply(x, x)
    with ag.graph.saved_tensors_hooks(lambda t: t.copy() if copies else t, lambda t: t):
        out = AskedAtOnce.apply(saved, 0, service)
    with pytest.raises(Trouble):
        await out.backward(retain_graph=UNTIL)
    with ag.no_grad():
        saved += 1.0
    if copies:
        await out.backward(retain_graph=UNTIL)
        assert x.grad.item() == 12.0
    else:
        with pytest.raises(ChangedTensorError):
            await out.backward(retain_graph=UNTIL)
    assert len(asked) == 2


@one_loop
async def test_an_answer_that_does_not_fit_is_not_kept():
    answers: list[Any] = [np.ones(3), np.array([7.0, 8.0])]
    x = leaf(1.0, 2.0)
    out = AskedAtOnce.apply(x, 0, lambda number, grad: answers.pop(0)).sum()
    with pytest.raises(InvalidGradientError):
        await out.backward(retain_graph=UNTIL)
    await out.backward(retain_graph=UNTIL)

    assert x.grad.tolist() == [7.0, 8.0]


@one_loop
async def test_an_answer_that_a_hook_of_its_node_refuses_is_not_kept():
    answers: list[Any] = [np.array([-1.0]), np.array([7.0])]
    x = leaf(2.0)
    out = AskedAtOnce.apply(x, 0, lambda number, grad: answers.pop(0))

    def check(outputs: Any, grads: Any) -> None:
        if outputs[0].item() < 0.0:
            raise Trouble("a negative answer")

    out.grad_fn.register_hook(check)
    with pytest.raises(Trouble):
        await out.backward(retain_graph=UNTIL)
    await out.backward(retain_graph=UNTIL)

    assert x.grad.item() == 7.0


@one_loop
async def test_a_nan_that_anomaly_mode_finds_is_not_kept():
    answers: list[Any] = [np.array([np.nan]), np.array([7.0])]
    with ag.detect_anomaly():
        x = leaf(2.0)
        out = AskedAtOnce.apply(x, 0, lambda number, grad: answers.pop(0))
        with pytest.raises(AnomalyError):
            await out.backward(retain_graph=UNTIL)
        await out.backward(retain_graph=UNTIL)

    assert x.grad.item() == 7.0


@one_loop
async def test_a_pre_hook_that_fails_in_the_second_try_does_not_cost_the_answer():
    asked, service = counting()
    x = leaf(2.0)
    fails_once(x)
    out = one(x, service)
    with pytest.raises(Trouble):
        await out.backward(retain_graph=UNTIL)
    with out.grad_fn.register_prehook(raising(Trouble("twice"))), pytest.raises(Trouble):
        await out.backward(retain_graph=UNTIL)
    await out.backward(retain_graph=UNTIL)

    assert len(asked) == 1


@one_loop
@pytest.mark.parametrize("options", [{"retain_graph": True}, {"retain_graph": UNTIL, "create_graph": True}])
async def test_where_the_graph_is_kept_for_good_or_the_backward_recorded_nothing_is_remembered(options):
    asked, service = counting()
    x = leaf(2.0)
    fails_once(x)
    out = one(x, service)
    with pytest.raises(Trouble):
        await ag.grad(out, [x], np.ones(1), **options)
    await ag.grad(out, [x], np.ones(1), **options)

    assert len(asked) == 2


# Whose the answer is.


@one_loop
async def test_a_rule_that_fills_one_array_anew_and_a_reader_who_writes_into_it_change_no_answer():
    buffer = np.zeros(2)
    asked: list[Any] = []

    def answer(number: int, grad: Any) -> Any:
        asked.append(number)
        buffer[:] = 7.0
        return buffer

    x = leaf(1.0, 2.0)
    fails_once(x)
    middle = np.multiply(x, 1.0)

    def spoil(grad: Any) -> None:
        grad *= 2.0

    middle.register_hook(spoil)
    out = AskedAtOnce.apply(middle, 0, answer)
    with pytest.raises(Trouble):
        await out.backward(np.ones(2), retain_graph=UNTIL)
    buffer[:] = -1.0
    await out.backward(np.ones(2), retain_graph=UNTIL)

    assert asked == [0]
    assert x.grad.tolist() == [14.0, 14.0]


@one_loop
async def test_a_rule_that_writes_into_the_gradient_that_it_gets_is_asked_by_what_it_was():
    asked: list[int] = []

    def spoil(number: int, grad: Any) -> Any:
        asked.append(number)
        grad *= 0.0
        return np.array([7.0])

    x = leaf(2.0)
    fails_once(x)
    out = AskedAtOnce.apply(x, 0, spoil)
    for _ in range(2):
        try:
            await out.backward(retain_graph=UNTIL)
        except Trouble:
            continue

    assert asked == [0]
    assert x.grad.item() == 7.0


@one_loop
async def test_an_answer_of_several_gradients_of_which_some_are_none_is_one_answer():
    asked: list[Any] = []

    class Three(ag.Function):
        is_memoized = True

        @staticmethod
        def forward(ctx, x, y, z):
            ctx.set_materialize_grads(False)
            return x.numpy() * 1.0, y.numpy() * 1.0

        @staticmethod
        def backward(ctx, first, second):
            asked.append((first, second))
            return np.float64(4.0), ag.tensor(5.0), None

    x, y, z = ag.tensor(1.0, requires_grad=True), ag.tensor(2.0, requires_grad=True), leaf(3.0)
    fails_once(x)
    out, _ = Three.apply(x, y, z)
    with pytest.raises(Trouble):
        await out.backward(retain_graph=UNTIL)
    await out.backward(retain_graph=UNTIL)

    assert len(asked) == 1
    assert (x.grad.item(), y.grad.item(), z.grad) == (4.0, 5.0, None)


# How long it is kept.


def kept_by(node: Any) -> list[Any]:
    """Weak references to the arrays that a node has kept as its answer."""
    kept = getattr(node.meta, "answers", {}).values()
    answers = [answer for one in kept for answer in one.by_question.values()]
    return [weakref.ref(grad) for answer in answers for grad in answer if grad is not None]


@one_loop
@pytest.mark.parametrize("ends", ["with a success", "with one that keeps nothing", "with the graph"])
async def test_an_answer_is_gone_once_the_backward_has_succeeded_or_the_graph_is_gone(ends, no_collector):
    _, service = counting()
    x = leaf(2.0)
    fails_once(x)
    out = one(x, service)
    try:
        await out.backward(retain_graph=UNTIL)
    except Trouble:
        (kept,) = kept_by(out.grad_fn)
    assert kept() is not None
    if ends != "with the graph":
        await out.backward(retain_graph=UNTIL if ends == "with a success" else False)
        assert kept_by(out.grad_fn) == []
    else:
        del out

    assert kept() is None


@one_loop
async def test_after_a_success_nothing_is_remembered_of_a_graph_that_can_run_again():
    asked: list[Any] = []

    class SavesNothing(ag.Function):
        is_memoized = True

        @staticmethod
        def forward(ctx, x):
            return x.numpy() * 1.0

        @staticmethod
        def backward(ctx, grad):
            asked.append(grad)
            return grad

    x = leaf(2.0)
    out = SavesNothing.apply(x)
    for _ in range(2):
        await out.backward(retain_graph=UNTIL)

    assert len(asked) == 2


@pytest.mark.slow
def test_ten_thousand_tries_of_other_gradients_keep_eight_answers(no_collector):
    def fails(grad: Any) -> None:
        raise Trouble("always")

    x = leaf(2.0)
    out = one(x, lambda number, grad: None)
    x.register_hook(fails)

    async def tries(first: int, count: int) -> int:
        for number in range(first, first + count):
            try:
                await out.backward(np.array([float(number)]), retain_graph=UNTIL)
            except Trouble:
                continue
            raise AssertionError("the hook has let a gradient pass")
        return len(gc.get_objects())

    async def main() -> int:
        before = await tries(0, 100)
        return await tries(100, 10_000) - before

    assert ag.run(main()) < 100
    assert len(kept_by(out.grad_fn)) == 8


async def test_a_graph_that_the_success_has_released_does_not_answer_from_memory():
    service, x = Service(), leaf(1.0, 2.0)
    loss = six(x, service)
    await loss.backward(retain_graph=UNTIL)

    with pytest.raises(ReleasedGraphError):
        await loss.backward(retain_graph=UNTIL)
