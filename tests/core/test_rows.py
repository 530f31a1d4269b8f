"""Rows together: the rows of a Jacobian that wait run at once, with the bits of rows one by one."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import func, sync
from asyncgrad.errors import ArgumentError, ArgumentTypeError, ChangedTensorError, GraphError, InvalidGradientError
from asyncgrad.scipy import optimize
from tests.core.rows_together import Alone, Answered, Log, Together
from tests.support.clocks import TickingClock, hand_in
from tests.support.leaves import leaf, leaf_of
from tests.support.loops import one_loop
from tests.support.settings import loop_budget

ROWS = np.eye(3)


def point() -> Any:
    return leaf(0.3, 0.7, 1.1)


class Gathering(Log):
    """Rules that wait until so many of their runs overlap."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        self.are_together = asyncio.Event()

    async def run(self, number: int, row: int | None) -> None:
        self.inside[number] += 1
        self.most[number] = max(self.most[number], self.inside[number])
        if self.inside[number] == self.count:
            self.are_together.set()
        await self.are_together.wait()
        self.inside[number] -= 1


async def rows_of(kind: Any, log: Log, **options: Any) -> Any:
    x = point()
    (found,) = await ag.grad([kind.apply(x, 0, log)], [x], [ROWS], is_grads_batched=True, **options)
    return found


@pytest.mark.parametrize(("concurrency", "most"), [(None, 3), (2, 2), (1, 1)])
async def test_rows_that_wait_run_at_once_as_many_as_concurrency_says(concurrency, most):
    log = Gathering(most)
    found = await rows_of(Together, log, concurrency=concurrency)
    assert log.most[0] == most
    assert found.tolist() == (await rows_of(Alone, Log(), concurrency=1)).tolist()


async def test_a_node_that_is_not_concurrent_lets_rows_through_one_by_one():
    log = Log()
    await rows_of(Alone, log)
    assert log.most[0] == 1


async def test_a_rule_for_several_rows_gets_all_that_are_ready_in_one_call():
    log = Log()
    found = await rows_of(Answered, log)
    assert log.batches == {0: [3]}
    assert found.tolist() == (await rows_of(Alone, Log(), concurrency=1)).tolist()


async def test_a_rule_for_several_rows_is_recorded_as_one_call():
    async def second(log: Log, concurrency: int | None) -> Any:
        x = point()
        y = np.arange(0.1, 1.0, 0.1).reshape(3, 3) @ Answered.apply(np.sin(x), 0, log)
        (found,) = await ag.grad([y], [x], [ROWS], is_grads_batched=True, create_graph=True, concurrency=concurrency)
        (again,) = await ag.grad((found * found).sum(), [x])
        return again

    log = Log()
    np.testing.assert_allclose(await second(log, None), await second(Log(), 1), rtol=1e-12)
    assert log.batches == {0: [3]}


async def test_a_rule_for_several_rows_that_returns_an_array_is_told_so_where_it_is_differentiated():
    class Sent(ag.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.numpy() ** 2.0

        @staticmethod
        async def backward_batch(ctx, grads):
            return grads.numpy() * 2.0 * ctx.saved_tensors[0].numpy()

    x = point()
    (found,) = await ag.grad([Sent.apply(x)], [x], [ROWS], is_grads_batched=True, create_graph=True)
    assert found.tolist() == np.diag(2.0 * x.numpy()).tolist()
    with pytest.raises(GraphError, match=r"Sent\.backward_batch .* returned an array, which has no history"):
        await ag.grad(found.sum(), [x])


@pytest.mark.parametrize("concurrency", [None, 1])
async def test_a_rule_for_several_rows_alone_answers_for_one_as_well(concurrency):
    class Scaled(ag.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            return x.numpy() * factor

        @staticmethod
        def backward_batch(ctx, grads):
            return grads * ctx.factor, None

    x = point()
    await ag.backward(Scaled.apply(x, 2.0).sum())
    assert x.grad.tolist() == [2.0, 2.0, 2.0]
    sync.backward(Scaled.apply(x, 2.0).sum())
    found = await ag.jacobian(lambda x: Scaled.apply(x, 3.0), x.numpy(), concurrency=concurrency)
    assert (found.tolist(), x.grad.tolist()) == ((3.0 * ROWS).tolist(), [4.0, 4.0, 4.0])
    assert await ag.gradgradcheck(lambda x: Scaled.apply(x, 3.0) * x, (point(),))


@pytest.mark.parametrize(
    ("name", "value", "most", "batches"),
    [("concurrent", True, 3, {}), ("backward_batch", staticmethod(Answered.backward_batch), 1, {0: [3]})],
)
async def test_what_is_set_on_a_function_after_it_was_made_counts_from_its_next_call_on(name, value, most, batches):
    class Later(Alone):
        pass

    x, alone = point(), Log()
    before = Later.apply(x, 0, alone)
    setattr(Later, name, value)
    if name == "concurrent":
        # What that call has saved is not shared.
        await ag.grad([before], [x], [ROWS], is_grads_batched=True)
        assert alone.most[0] == 1
    log = Gathering(most)
    found = await rows_of(Later, log)
    assert (log.most[0], log.batches) == (most, batches)
    assert found.tolist() == (await rows_of(Alone, Log(), concurrency=1)).tolist()


async def test_a_rule_for_several_rows_that_is_set_later_may_be_the_only_one():
    class Later(ag.Function):
        @staticmethod
        def forward(ctx, x):
            return x.numpy() * 2.0

    async def of_rows(ctx, grads):
        await asyncio.sleep(0)
        return grads * 2.0

    Later.backward_batch = staticmethod(of_rows)
    x = point()
    await ag.backward(Later.apply(x).sum())
    assert x.grad.tolist() == [2.0, 2.0, 2.0]
    assert (await ag.jacobian(Later.apply, x.numpy())).tolist() == (2.0 * ROWS).tolist()


@one_loop
@pytest.mark.parametrize("concurrency", [None, 1, "no rows"])
async def test_second_derivatives_have_the_same_bits_whatever_rules_that_overlap_have_waited(concurrency):
    async def second(*pauses: int) -> bytes:
        random = np.random.default_rng(6)
        x = leaf_of(random.standard_normal(4))
        y: Any = sum(
            Differentiable.apply(np.sin(x), 0, Log(lambda n=count: n)) * random.standard_normal(4) for count in pauses
        )
        if concurrency == "no rows":
            (found,) = await ag.grad(y.sum(), [x], create_graph=True)
        else:
            (found,) = await ag.grad(
                [y], [x], [np.eye(4)], is_grads_batched=True, create_graph=True, concurrency=concurrency
            )
        (again,) = await ag.grad((found * np.exp(found)).sum(), [x])
        return bytes(again.numpy().tobytes())

    found = [await second(*pauses) for pauses in ((0, 2, 4, 6, 8), (8, 6, 4, 2, 0), (4, 0, 8, 2, 6))]
    assert len({*found}) == 1


@pytest.mark.parametrize("budget", [1, 2, 3, 5, 8, 13, 21, 22, 23, 34, 60])
async def test_a_rule_for_several_rows_gets_all_of_them_wherever_the_loop_s_time_is_spent(budget: int):
    """One that was sent without a row that waits for its turn would have that row ask, and wait, once more."""
    log, count = Log(), 20
    x = leaf_of(np.ones(count))
    y: Any = x
    for number in range(3):
        y = Answered.apply(y, number, log)

    with hand_in(TickingClock()), loop_budget(budget):
        await ag.grad([y], [x], [np.eye(count)], is_grads_batched=True)

    assert log.batches == {0: [count], 1: [count], 2: [count]}


@pytest.mark.parametrize("budget", [1, 2, 3, 5, 8, 13, 21, 34, 60, 1000])
async def test_concurrent_rows_that_call_a_batched_function_share_a_request_wherever_the_loop_s_time_is_spent(budget):
    count, sizes = 20, list[int]()

    @ag.batched
    async def ask(grads: list[Any]) -> list[Any]:
        sizes.append(len(grads))
        await asyncio.sleep(0)
        return [grad * 2.0 for grad in grads]

    class Asking(ag.Function):
        concurrent = True

        @staticmethod
        def forward(ctx, x):
            return x.numpy() * 2.0

        @staticmethod
        async def backward(ctx, grad):
            return await ask(grad.numpy())

    with hand_in(TickingClock()), loop_budget(budget):
        found = await ag.jacobian(lambda x: Asking.apply(Asking.apply(x)), np.ones(count))

    assert (sizes, found.tolist()) == ([count, count], (4.0 * np.eye(count)).tolist())


async def test_rows_that_only_compute_run_one_after_the_other():
    events: list[str] = []

    class Computing(ag.Function):
        @staticmethod
        def forward(ctx, x):
            return x.numpy() * 2.0

        @staticmethod
        def backward(ctx, grad):
            events.append("rule")
            return grad * 2.0

    x = point()
    y = Computing.apply(x)
    y.register_hook(lambda grad: events.append("hook"))
    await ag.grad([y], [x], [ROWS], is_grads_batched=True)
    assert events == ["hook", "rule"] * 3


@pytest.mark.parametrize("transform", [ag.jacobian, func.jacrev, func.hessian], ids=["jacobian", "jacrev", "hessian"])
async def test_jacobians_of_rules_that_wait_run_their_rows_together_with_the_bits_of_one_by_one(transform):
    # The gradient that a Hessian is made of has one row.
    log: Log = Log() if transform is func.hessian else Gathering(3)

    def of(kind: Any, log: Log) -> Any:
        def fn(x: Any) -> Any:
            y = kind.apply(x, 0, log) * x
            return y.sum() if transform is func.hessian else y

        return fn

    x = np.array([0.3, 0.7, 1.1])
    call = (lambda fn: ag.jacobian(fn, x)) if transform is ag.jacobian else lambda fn: transform(fn)(x)
    found, expected = await call(of(Differentiable, log)), await call(of(Computed, Log()))
    assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()
    assert log.most[0] == 3 or transform is func.hessian


@one_loop
@pytest.mark.parametrize(
    ("call", "rows"),
    [
        (lambda fn, x: ag.jacobian(lambda x: (fn(x), fn(x).sum()), x), 4),
        (lambda fn, x: func.jacrev(lambda tree: {"all": fn(tree["x"]), "sum": fn(tree["x"]).sum()})({"x": x}), 4),
        (lambda fn, x: ag.hessian(lambda x, y: (fn(x) * fn(y)).sum(), (x, x + 1.0)), 6),
        (lambda fn, x: func.hessian(lambda x, y: (fn(x) * fn(y)).sum(), (0, 1))(x, x + 1.0), 6),
    ],
    ids=["jacobian", "jacrev", "hessian", "func.hessian"],
)
async def test_the_rows_of_all_outputs_and_of_all_inputs_of_a_hessian_run_together(call, rows):
    log = Log(lambda: 60)
    await call(lambda x: Differentiable.apply(x, 0, log), np.array([0.3, 0.7, 1.1]))
    assert log.most[0] >= rows, log.most


class Computed(ag.Function):
    """x * x * 0.7, with a derivative that can be differentiated again."""

    @staticmethod
    def forward(ctx, x, number, log):
        ctx.number, ctx.log = number, log
        ctx.save_for_backward(x)
        return x.numpy() * x.numpy() * 0.7

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x * 1.4, None, None


class Differentiable(Computed):
    """The same, with a rule that waits."""

    concurrent = True

    @staticmethod
    async def backward(ctx, grad):
        await ctx.log.run(ctx.number, None)
        (x,) = ctx.saved_tensors
        return grad * x * 1.4, None, None


@pytest.mark.parametrize("kind", ["jacobian", "is_grads_batched", "nested"])
async def test_recorded_rows_that_wait_run_at_once_with_the_bits_of_one_by_one(kind):
    async def second(concurrency: int | None) -> tuple[int, bytes]:
        # The first row waits longest, so that rows end, and record, in another order.
        log = Log(itertools.cycle([40, 25, 10, 30]).__next__)
        x = leaf(*np.random.default_rng(7).standard_normal(4))
        mix = np.random.default_rng(8).standard_normal((4, 4))

        def fn(x: Any) -> Any:
            # Each row leads to all elements, so that bits depend on which is added first.
            return mix @ Differentiable.apply(np.sin(x) * x.sum(), 0, log)

        if kind == "nested":
            found = await func.jacrev(func.jacrev(fn, concurrency=concurrency), concurrency=concurrency)(x)
        elif kind == "jacobian":
            found = await ag.jacobian(fn, x, concurrency=concurrency)
        else:
            (found,) = await ag.grad(
                [fn(x)], [x], [np.eye(4)], is_grads_batched=True, create_graph=True, concurrency=concurrency
            )
        (again,) = await ag.grad((found * np.exp(found)).sum(), [x])
        return log.most[0], again.numpy().tobytes()

    (at_once, bits), (one, expected) = await second(None), await second(1)
    assert (at_once, one) == (4, 1)
    assert bits == expected


async def test_what_a_hook_keeps_of_recorded_rows_has_the_gradients_of_one_by_one():
    async def second(concurrency: int | None) -> Any:
        x = leaf(0.3, 0.7, 1.1)
        kept: list[Any] = []
        inner = x * x * x.sum()
        inner.register_hook(lambda grad: kept.append((grad, grad * np.sin(grad))))
        y = np.arange(0.1, 1.0, 0.1).reshape(3, 3) @ Differentiable.apply(inner, 0, Log(lambda: 9))
        (rows,) = await ag.grad(
            [y], [x], [np.eye(3)], is_grads_batched=True, create_graph=True, concurrency=concurrency
        )
        found = [(await ag.grad(made.sum(), grad, retain_graph=True))[0].numpy().sum() for grad, made in kept]
        (again,) = await ag.grad((rows * rows).sum() + sum((made * made).sum() for _, made in kept), [x])
        return sorted(found), again.numpy()

    for together, one_by_one in zip(await second(None), await second(1), strict=True):
        np.testing.assert_allclose(together, one_by_one, rtol=1e-12)


async def test_gradcheck_of_a_rule_that_waits_passes():
    assert await ag.gradcheck(lambda x: Differentiable.apply(x, 0, Log()), (point(),))


async def test_the_jacobian_that_least_squares_asks_for_runs_its_rows_together():
    log = Gathering(3)

    async def residuals(x: Any) -> Any:
        return Together.apply(x, 0, log) - np.array([0.7, 2.8, 6.3])

    found = await optimize.least_squares(residuals, np.array([0.5, 1.5, 2.5]))
    np.testing.assert_allclose(found.x, [1.0, 2.0, 3.0])
    assert log.most[0] == 3


def test_a_blocking_call_runs_rows_together_on_a_loop_of_its_own():
    log, x = Gathering(3), point()
    (found,) = sync.grad([Together.apply(x, 0, log)], [x], [ROWS], is_grads_batched=True)
    assert log.most[0] == 3
    assert found.tolist() == np.diag(x.numpy() * 1.4).tolist()


def assign(saved: Any) -> None:
    saved.numpy()[...] = 0.0


def add_in_place(saved: Any) -> None:
    saved += 1.0


def sort_in_place(saved: Any) -> None:
    saved.numpy().sort()


def fill(saved: Any) -> None:
    saved.numpy().fill(0.0)


@pytest.mark.parametrize("write", [assign, add_in_place, sort_in_place, fill])
async def test_a_concurrent_rule_that_writes_into_what_is_saved_is_told_so(write):
    class Writing(ag.Function):
        concurrent = True

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.numpy() * 1.0

        @staticmethod
        async def backward(ctx, grad):
            write(ctx.saved_tensors[0])
            return grad

    x = point()
    with pytest.raises(ChangedTensorError, match=r"writes into what it has saved, and says concurrent = True"):
        await ag.grad([Writing.apply(x)], [x], [ROWS], is_grads_batched=True)
    assert x.tolist() == [0.3, 0.7, 1.1]


async def test_an_error_of_a_concurrent_rule_that_is_none_of_numpy_stays_what_it_is():
    class Refused(ag.Function):
        concurrent = True

        @staticmethod
        def forward(ctx, x):
            return x.numpy() * 1.0

        @staticmethod
        async def backward(ctx, grad):
            raise ValueError("the table is read-only")

    x = point()
    with pytest.raises(ValueError, match="the table is read-only"):
        await ag.grad([Refused.apply(x)], [x], [ROWS], is_grads_batched=True)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda grads: grads[:1], r"returned ndarray of shape \(1, 3\) .* for 3 rows"),
        (lambda grads: (grads, grads), r"backward_batch .* returned 2 gradients, and forward took 1 argument"),
        (lambda grads: grads[:, :1], r"shape"),
    ],
)
async def test_a_rule_for_several_rows_that_answers_wrongly_is_told_so(answer, message):
    class Wrong(ag.Function):
        @staticmethod
        def forward(ctx, x):
            return x.numpy() * 1.0

        @staticmethod
        async def backward(ctx, grad):
            return grad

        @staticmethod
        async def backward_batch(ctx, grads):
            return answer(grads)

    x = point()
    with pytest.raises(InvalidGradientError, match=message):
        await ag.grad([Wrong.apply(x)], [x], [ROWS], is_grads_batched=True)


async def test_a_concurrency_that_is_no_number_of_rows_is_an_error():
    x = point()
    for wrong, error in ((0, ArgumentError), (-1, ArgumentError), ("2", ArgumentTypeError), (True, ArgumentTypeError)):
        with pytest.raises(error, match="concurrency must be"):
            await ag.grad([x * 2.0], [x], [ROWS], is_grads_batched=True, concurrency=wrong)
    with pytest.raises(ArgumentError, match="write 1 for one row after the other, or None for all"):
        await ag.jacobian(lambda x: x * 2.0, x, concurrency=0)
    with pytest.raises(ArgumentError, match="pass is_grads_batched=True"):
        await ag.grad([(x * 2.0).sum()], [x], concurrency=2)
