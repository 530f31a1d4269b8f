"""What type checkers are told of values: gradients of any class for them, and arrays alone for tensors."""

from __future__ import annotations

import pathlib
import re

import pytest
from mypy import api

#: Each line that is wrong ends with what mypy says about it.
PROGRAM = """
import asyncio
from collections.abc import Sequence
from typing import Any, assert_type

import numpy as np

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.values import Feedback, SparseRows, Text, Tree


class Notes(ag.extend.ValueType):
    def describe(self, value: Any) -> int:
        return len(value)

    def add(self, first: Any, second: Any) -> str:
        return f"{first}; {second}"

    async def merge(self, gradients: Sequence[Any]) -> str:
        return " and ".join(gradients)


class Ask(ag.Function):
    @staticmethod
    async def forward(ctx: Any, prompt: ag.Value, question: str) -> ag.Value:
        ctx.question = question
        return ag.Value(f"{prompt.value} {question}", prompt.type)

    @staticmethod
    async def backward(ctx: Any, feedback: tuple[Feedback, ...]) -> tuple[Any, None]:
        return tuple(Feedback(one.text, "Ask") for one in feedback), None


async def merge(parts: Sequence[tuple[Feedback, ...]]) -> Feedback:
    return Feedback("short")


async def main() -> None:
    prompt = ag.leaf("Be brief.", type=Text(merge=merge))
    assert_type(prompt, ag.Value)
    answers = list(await asyncio.gather(Ask.apply(prompt, "Why?"), Ask.apply(prompt, "How?")))
    values: list[ag.Value] = answers
    await ag.backward(values, [Feedback("too long"), Feedback("wrong")])
    await ag.backward(values[0], Feedback("too long"))
    await ag.backward(values[0], (Feedback("too long"),), inputs=[prompt])
    await ag.backward(values, None, retain_graph="until_success")
    await ag.backward(values[0], "dull", inputs=prompt)
    await values[0].backward("x")
    sync.backward(values, [Feedback("a"), "b"])
    sync.backward(values[0], "b")
    (found,) = await ag.grad(values, [prompt], ["a", Feedback("b")])
    (found,) = await ag.grad(values[0], prompt, "a")
    (found,) = sync.grad(values[0], [prompt], "a")
    loss = ag.tensor(1.0, requires_grad=True) * 2
    await ag.backward([loss, values[0]], [None, "dull"])
    await ag.backward([loss, values[0]], [np.ones(()), Feedback("dull")])
    await ag.backward((loss, values[0]), (None, "dull"))
    mixed: list[ag.Tensor | ag.Value] = [loss, values[0]]
    await ag.backward(mixed, [None, "dull"])
    handle = prompt.register_hook(lambda feedback: (*feedback, Feedback("again")))
    handle.remove()
    prompt.register_post_accumulate_grad_hook(lambda value: None)
    values[0].retain_grad()
    prompt.grad = None
    prompt.value = "better"
    prompt.requires_grad_(False)
    print(prompt.detach(), prompt.is_leaf, prompt.requires_grad, values[0].grad_fn)
    edge = ag.graph.get_gradient_edge(values[0])
    await ag.backward(edge, "dull")
    await ag.backward([edge], ["dull"])
    print(ag.graph.summary(values[0]), ag.visualize(values[0]))
    tree = ag.leaf({"a": 1.0}, type=Tree())
    table = ag.leaf(np.zeros((3, 2)), type=SparseRows())
    print(tree, table)
    ag.extend.register_value(str, Notes())


async def wrong(x: ag.Tensor, answer: ag.Value) -> None:
    await ag.backward(x, "one")  # E: [arg-type]
    await ag.backward("x")  # E: [arg-type]
    await ag.backward(answer, retain_graph="always")  # E: [call-overload]
    await ag.grad(x, [x], "one")  # E: [arg-type]
    sync.backward(x, "one")  # E: [arg-type]
    sync.backward(answer, nonsense=1)  # E: [call-overload]
    ag.leaf("x", type=Text)  # E: [arg-type]
"""


@pytest.mark.timeout(300)
def test_a_type_checker_takes_gradients_of_any_class_for_values_and_arrays_for_tensors(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    told, errors, _ = api.run(["--strict", "--enable-error-code=unused-awaitable", str(path)])
    found = {
        (int(line), code) for line, code in re.findall(r"program\.py:(\d+): error: .*(\[[\w-]+\])$", told, re.MULTILINE)
    }
    expected = {
        (number, line.partition("# E: ")[2]) for number, line in enumerate(PROGRAM.splitlines(), 1) if "# E: " in line
    }

    assert errors == ""
    assert found == expected, told
