"""How gradients that meet become one: once for a node, with all of them, in the order of the graph."""

from __future__ import annotations

import asyncio
import re
from typing import Any, ClassVar

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import GradientTypeError, InvalidGradientError, InvalidRootError
from asyncgrad.testing import explore
from tests.core.engine.schedules import SEEDS
from tests.support.failing import Trouble
from tests.support.turns import turns


class Notes(ag.extend.ValueType):
    """Lists of notes. Each merge is listed."""

    def __init__(self, *, waits=0, trouble=None):
        self.merges = []
        self.waits = waits
        self.trouble = trouble

    def seed(self, description):
        return [f"seed of {description}"]

    def describe(self, value):
        return len(value)

    def add(self, first, second):
        return first + second

    def is_missing(self, gradient):
        return gradient == []

    def check(self, gradient, description):
        if not isinstance(gradient, list):
            raise TypeError("notes are a list")
        if "wrong" in gradient:
            raise ValueError("a note is wrong")


class Merged(Notes):
    def merge(self, gradients):
        self.merges.append([list(one) for one in gradients])
        return [note for one in gradients for note in one]


class Awaited(Notes):
    async def merge(self, gradients):
        self.merges.append([list(one) for one in gradients])
        await turns(self.waits)
        if self.trouble:
            raise self.trouble
        return [note for one in gradients for note in one]


class Told(list[Any]):
    """A list that sets an event when something is appended."""

    def __init__(self, event):
        super().__init__()
        self.event = event

    def append(self, item):
        super().append(item)
        self.event.set()


class Step(ag.Function):
    @staticmethod
    def forward(ctx, name, *values):
        ctx.name, ctx.count = name, len(values)
        return ag.Value(name, values[0].type)

    @staticmethod
    async def backward(ctx, notes):
        await asyncio.sleep(0)
        return None, *([f"{ctx.name}{index}({note})" for note in notes] for index in range(ctx.count))


def diamond(leaf):
    return Step.apply("top", Step.apply("left", leaf), Step.apply("right", leaf))


@pytest.mark.parametrize("kind", [Merged, Awaited])
async def test_a_diamond_is_merged_once_with_all_that_has_arrived(kind):
    notes = kind()
    leaf = ag.leaf("p", type=notes)
    await diamond(leaf).backward(["n"])
    assert notes.merges == [[["right0(top1(n))"], ["left0(top0(n))"]]]
    assert leaf.grad == ["right0(top1(n))", "left0(top0(n))"]


async def test_a_gradient_that_comes_alone_is_not_merged():
    notes = Merged()
    leaf = ag.leaf("p", type=notes)
    await Step.apply("one", leaf).backward(["n"])
    assert notes.merges == []
    assert leaf.grad == ["one0(n)"]


async def test_a_merge_comes_before_the_hooks_and_where_a_backward_only_captures():
    notes = Awaited()
    leaf = ag.leaf("p", type=notes)
    middle = Step.apply("middle", leaf)
    top = diamond(middle)
    seen = []
    middle.register_hook(seen.append)
    (found,) = await ag.grad(top, [middle], ["n"])
    assert len(notes.merges) == 1
    assert seen == [["right0(top1(n))", "left0(top0(n))"]]
    assert found == seen[0]


async def test_passes_are_added_and_not_merged():
    notes = Merged()
    leaf = ag.leaf("p", type=notes)
    top = diamond(leaf)
    await top.backward(["n"], retain_graph=True)
    await top.backward(["m"])
    assert len(notes.merges) == 2
    assert leaf.grad == ["right0(top1(n))", "left0(top0(n))", "right0(top1(m))", "left0(top0(m))"]


def test_merges_are_the_same_on_every_schedule():
    orders = set()

    async def main():
        notes = Awaited(waits=2)
        leaf = ag.leaf("p", type=notes)
        middles = [Step.apply(f"m{index}", leaf) for index in range(4)]
        for node in middles:
            node.register_hook(lambda gradient: asyncio.sleep(0))
        await Step.apply("top", *middles).backward(["n"])
        orders.add(repr(notes.merges))
        assert len(notes.merges) == 1

    explore(main, seeds=SEEDS)
    assert len(orders) == 1


async def test_a_merge_that_fails_fails_the_backward_and_puts_everything_back():
    notes = Awaited(trouble=Trouble("no merge"))
    leaf, other = ag.leaf("p", type=notes), ag.leaf("q", type=notes)
    with pytest.raises(Trouble, match="no merge") as caught:
        await Step.apply("both", diamond(leaf), other).backward(["n"])
    assert any("AccumulateValue (leaf of type Awaited" in note for note in caught.value.__notes__)
    assert leaf.grad is None
    assert other.grad is None


@pytest.mark.parametrize("is_memoized", [False, True])
async def test_a_merge_that_is_memoized_is_not_asked_again_in_another_try(is_memoized):
    class Dear(Awaited):
        pass

    Dear.is_memoized = is_memoized
    notes, trouble = Dear(), [Trouble()]

    class Fails(ag.Function):
        @staticmethod
        def forward(ctx, value):
            return ag.Value("fails", value.type)

        @staticmethod
        async def backward(ctx, gradient):
            await turns(3)
            if trouble:
                raise trouble.pop()
            return (gradient,)

    leaf = ag.leaf("p", type=notes)
    middle = Step.apply("middle", Fails.apply(leaf))
    top = diamond(middle)
    with pytest.raises(Trouble):
        await top.backward(["n"], retain_graph="until_success")
    await top.backward(["n"], retain_graph="until_success")
    assert len(notes.merges) == (1 if is_memoized else 2)
    assert leaf.grad == ["middle0(right0(top1(n)))", "middle0(left0(top0(n)))"]
    assert not hasattr(middle.grad_fn.meta, "answers")


async def test_a_merge_is_asked_again_for_other_gradients():
    class Dear(Merged):
        is_memoized = True

    notes, answers = Dear(), iter("ab")

    class Changing(ag.Function):
        @staticmethod
        def forward(ctx, value):
            return ag.Value("changing", value.type)

        @staticmethod
        def backward(ctx, gradient):
            return ([next(answers)],)

    class Fails(ag.Function):
        trouble = True

        @staticmethod
        def forward(ctx, value):
            return ag.Value("fails", value.type)

        @staticmethod
        def backward(ctx, gradient):
            if Fails.trouble:
                Fails.trouble = False
                raise Trouble
            return (gradient,)

    leaf = ag.leaf("p", type=notes)
    middle = Fails.apply(leaf)
    top = Step.apply("top", Changing.apply(middle), middle)
    with pytest.raises(Trouble):
        await top.backward(["n"], retain_graph="until_success")
    await top.backward(["n"], retain_graph="until_success")
    assert leaf.grad == ["top1(n)", "b"]
    assert len(notes.merges) == 2


@pytest.mark.parametrize("refused_by", ["its type", "a hook"])
async def test_a_merge_that_its_node_has_refused_is_asked_again_in_another_try(refused_by):
    answers = [None if refused_by == "its type" else ["wrong one"], ["right"]]

    class Dear(Notes):
        is_memoized = True

        async def merge(self, gradients):
            return answers.pop(0)

    def refuse(notes):
        if notes != ["right"]:
            raise ValueError(f"{notes} is not right")

    leaf = ag.leaf("p", type=Dear())
    leaf.register_hook(refuse)
    top = diamond(leaf)
    with pytest.raises((GradientTypeError, ValueError)):
        await top.backward(["n"], retain_graph="until_success")
    await top.backward(["n"], retain_graph="until_success")
    assert leaf.grad == ["right"]


@pytest.mark.parametrize("concurrency", [1, None])
async def test_merges_of_the_rows_of_a_batch_are_not_asked_again_in_another_try(concurrency):
    class Dear(Awaited):
        is_memoized = True

    class Score(ag.Function):
        @staticmethod
        def forward(ctx, value):
            return np.zeros(3)

        @staticmethod
        async def backward(ctx, grad):
            return ([str(grad.tolist().index(1.0))],)

    class Fails(ag.Function):
        trouble: ClassVar = [Trouble()]

        @staticmethod
        def forward(ctx, number):
            return ag.Value("start", notes)

        @staticmethod
        async def backward(ctx, gradient):
            if "2" in gradient[0] and Fails.trouble:
                raise Fails.trouble.pop()
            return np.float64(len(gradient))

    notes = Dear()
    number = ag.tensor(1.0, requires_grad=True)
    score = Score.apply(diamond(Fails.apply(number)))

    async def rows():
        return await ag.grad(
            score, number, np.eye(3), is_grads_batched=True, retain_graph="until_success", concurrency=concurrency
        )

    with pytest.raises(Trouble):
        await rows()
    (grads,) = await rows()
    assert grads.tolist() == [2.0, 2.0, 2.0]
    assert len(notes.merges) == 3


async def test_a_merge_that_waits_is_cancelled_with_its_backward():
    notes = Awaited(waits=10**6)
    leaf = ag.leaf("p", type=notes)
    begun = asyncio.Event()
    notes.merges = Told(begun)
    task = asyncio.ensure_future(diamond(leaf).backward(["n"]))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert leaf.grad is None


def test_a_merge_that_waits_runs_in_a_blocking_backward():
    notes = Awaited(waits=3)
    leaf = ag.leaf("p", type=notes)
    sync.backward(diamond(leaf), ["n"])
    assert leaf.grad == ["right0(top1(n))", "left0(top0(n))"]


async def test_what_counts_as_missing_is_as_none():
    notes = Merged()
    leaf = ag.leaf("p", type=notes)

    class Silent(ag.Function):
        @staticmethod
        def forward(ctx, value):
            return ag.Value("silent", value.type)

        @staticmethod
        def backward(ctx, gradient):
            return ([],)

    await Step.apply("top", Silent.apply(leaf), Step.apply("one", leaf)).backward(["n"])
    assert notes.merges == []
    assert leaf.grad == ["one0(top1(n))"]
    assert await ag.grad(Silent.apply(leaf), [leaf], ["n"], allow_unused=True) == (None,)


async def test_a_backward_starts_with_the_seed_of_the_type_or_says_what_to_pass():
    leaf = ag.leaf("four", type=Notes())
    await Step.apply("step", leaf).backward()
    assert leaf.grad == ["step0(seed of 4)"]
    text = ag.leaf("four", type=ag.values.Text())
    with pytest.raises(
        InvalidRootError, match=re.escape("of type Text has no gradient to start from: pass one, await v")
    ):
        await Step.apply("step", text).backward()


@pytest.mark.parametrize(
    ("returned", "error", "message"),
    [
        (
            "notes",
            GradientTypeError,
            "returned str 'notes' for input 0, a Notes, which is no gradient of type Notes: notes are a list",
        ),
        (["wrong"], InvalidGradientError, "a note is wrong"),
    ],
)
async def test_a_gradient_that_the_type_refuses_names_the_rule(returned, error, message):
    class Wrong(ag.Function):
        @staticmethod
        def forward(ctx, value):
            return ag.Value("wrong", value.type)

        @staticmethod
        async def backward(ctx, gradient):
            return (returned,)

    leaf = ag.leaf("p", type=Notes())
    with ag.detect_anomaly():
        wrong = Wrong.apply(leaf)
    with pytest.raises(error, match=re.escape(message)) as caught, ag.detect_anomaly():
        await wrong.backward(["n"])
    assert "WrongBackward" in str(caught.value)
    assert any(
        "the forward call of WrongBackward" in note and "test_merging.py" in note for note in caught.value.__notes__
    )
    with pytest.raises(error, match="is no gradient of type Notes" if error is GradientTypeError else message):
        leaf.grad = returned
    with pytest.raises(error, match="gradient of root 0"):
        await Step.apply("step", leaf).backward(returned)


async def test_a_merge_that_returns_nothing_and_a_hook_that_returns_nonsense_are_told():
    class Empty(Notes):
        def merge(self, gradients):
            return None

    leaf = ag.leaf("p", type=Empty())
    with pytest.raises(GradientTypeError, match=r"Empty\.merge returned None for 2 gradients at AccumulateValue"):
        await diamond(leaf).backward(["n"])
    other = ag.leaf("p", type=Notes())
    other.register_hook(lambda gradient: "nonsense")
    with pytest.raises(GradientTypeError, match=r"hook .* returned str 'nonsense', which is no gradient"):
        await Step.apply("step", other).backward(["n"])
