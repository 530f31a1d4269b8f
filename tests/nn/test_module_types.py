"""What type checkers are told of modules: their constructors, their attributes and what a call of one returns."""

from __future__ import annotations

import pathlib
import re

import pytest
from mypy import api

from asyncgrad import nn

#: Each line that is wrong ends with what mypy says about it.
PROGRAM = """
from collections.abc import Coroutine

import numpy
from typing import assert_type

import asyncgrad as ag
from asyncgrad import nn


class Pair(nn.Module):
    def __init__(self, width: int) -> None:
        self.scale = nn.Parameter(numpy.ones(width))
        self.first: nn.Module = nn.Linear(width, width)
        self.second = nn.Sequential(nn.Linear(width, width), nn.ReLU())
        self.parts = nn.ModuleList([nn.Linear(width, 1)])

    def forward(self, x: ag.Tensor, times: int = 1) -> tuple[ag.Tensor, int]:
        hidden: ag.Tensor = self.second(self.first(x)) * self.scale
        return hidden, times


class Remote(nn.Module):
    async def forward(self, x: ag.Tensor) -> ag.Tensor:
        return x * 2


class Bare(nn.Module):
    pass


async def main() -> None:
    x = ag.tensor([[1.0, 2.0]], requires_grad=True)
    layer = nn.Linear(2, 2)
    assert_type(layer, nn.Linear)
    assert_type(layer(x), ag.Tensor)
    assert_type(nn.Dropout(0.5).eval()(nn.ReLU()(layer(numpy.ones(2)))), ag.Tensor)
    assert_type(layer.train().snapshot().weight, ag.Tensor)
    pair = Pair(2)
    assert_type(pair(x, times=2), tuple[ag.Tensor, int])
    assert_type(await Remote()(x), ag.Tensor)
    models: list[nn.Module] = [pair, layer, Bare(), nn.Identity(1, unused=2)]
    print(models[0](x), nn.Sequential(*models)(x))
    output, (hidden, cell) = nn.LSTM(2, 3)(x)
    assert_type(hidden, ag.Tensor)
    nn.Linear("a", 2)  # E: [arg-type]
    nn.Linear(1, 2, nonsense=3)  # E: [call-arg]
    nn.Linear(1)  # E: [call-arg]
    nn.Conv2d(1, 2)  # E: [call-arg]
    nn.Dropout(p="much")  # E: [arg-type]
    Pair("2")  # E: [arg-type]
    layer.wieght  # E: [attr-defined]
    pair.scael  # E: [attr-defined]
    layer(x, x)  # E: [call-arg]
    Bare(3)  # E: [call-arg]
    pair(x, times="2")  # E: [arg-type]
    layer(x).backwards()  # E: [attr-defined]
    Remote()(x)  # E: [unused-coroutine]
"""


def _layers() -> list[str]:
    """Return the names of the classes of layers, all but the one that takes any argument."""
    found = [name for name in nn.__all__ if isinstance(getattr(nn, name), type)]
    return sorted(name for name in found if issubclass(getattr(nn, name), nn.Module) and name not in _TAKE_ANY)


#: Module stands for the user's classes; Identity ignores its arguments.
_TAKE_ANY = {"Module", "Identity"}

#: What stands under the program: for each layer, a wrong argument and a misspelt attribute.
WRONG = "".join(
    f"\n\ndef use_{name.lower()}(one: nn.{name}) -> None:\n"
    f"    nn.{name}(no_such_argument=3)  # E: [call-arg]\n"
    "    one.no_such_attribute  # E: [attr-defined]\n"
    for name in _layers()
)


@pytest.mark.timeout(300)
def test_a_type_checker_knows_a_module_by_its_class(tmp_path: pathlib.Path) -> None:
    program = PROGRAM + WRONG
    path = tmp_path / "program.py"
    path.write_text(program)
    told, errors, _ = api.run(["--strict", "--enable-error-code=unused-awaitable", str(path)])
    found = {
        int(line): code for line, code in re.findall(r"program\.py:(\d+): error: .*(\[[\w-]+\])$", told, re.MULTILINE)
    }
    expected = {
        number: line.partition("# E: ")[2] for number, line in enumerate(program.splitlines(), 1) if "# E: " in line
    }

    assert errors == ""
    assert found == expected, told
