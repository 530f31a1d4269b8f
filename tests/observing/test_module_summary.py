"""`ag.summary`: shapes, parameters and products of the modules of a model, which stays as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn
from asyncgrad.errors import ArgumentTypeError
from tests.support.loops import one_loop


class Block(nn.Module):
    def __init__(self, size: int) -> None:
        self.first, self.second = nn.Linear(size, 2 * size), nn.Linear(2 * size, size, bias=False)
        self.unused = nn.Linear(size, size)

    def forward(self, x: Any) -> Any:
        return x + self.second(np.tanh(self.first(x)))


def test_a_summary_tells_shapes_parameters_and_products() -> None:
    model = nn.Sequential(nn.Embedding(10, 4), Block(4), nn.Linear(4, 2))
    model[2].requires_grad_(False)
    found = ag.summary(model, np.zeros((3, 5), int))

    assert [line.split() for line in str(found).splitlines()[2:]] == [
        ["Sequential", "(3,", "5)", "(3,", "5,", "2)", "142", "1,080"],
        ["0:", "Embedding", "(3,", "5)", "(3,", "5,", "4)", "40"],
        ["1:", "Block", "(3,", "5,", "4)", "(3,", "5,", "4)", "92", "960"],
        ["first:", "Linear", "(3,", "5,", "4)", "(3,", "5,", "8)", "40", "480"],
        ["second:", "Linear", "(3,", "5,", "8)", "(3,", "5,", "4)", "32", "480"],
        ["unused:", "Linear", "not", "called", "20"],
        ["2:", "Linear", "(3,", "5,", "4)", "(3,", "5,", "2)", "10", "120"],
        ["142", "parameters", "(132", "trained,", "10", "frozen),", "1.1", "kB;", "1,080", "products"],
    ]
    assert (found.parameters, found.products, found.nbytes) == (142, 1080, 1136)
    assert found._repr_html_().count("<tr") == 8


def test_convolutions_and_modules_that_are_called_twice_are_counted() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.Conv2d(3, 3, 3, padding=1, bias=False)

        def forward(self, x: Any) -> Any:
            return self.layer(self.layer(x))

    model = Twice()
    rows = ag.summary(model, np.ones((2, 3, 8, 8))).rows

    assert rows[1].products == rows[0].products == 2 * (2 * 3 * 8 * 8) * 27
    assert rows[1].cells()[0] == "  layer: Conv2d × 2"


def test_attention_counts_its_scores_and_its_means() -> None:
    found = ag.summary(nn.MultiheadAttention(8, 2, batch_first=True), *3 * (np.ones((2, 5, 8)),))

    # Four layers for ten vectors; for each of four heads, 25 scores of 4 products, and as many for the means.
    assert found.products == 4 * 10 * 64 + 2 * 4 * 25 * 4


def test_the_model_is_as_it_was() -> None:
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
    model[1].eval()
    before = {name: array.copy() for name, array in model.state_dict().items()}
    x = ag.tensor(np.ones((3, 4)), requires_grad=True)

    with ag.no_grad():
        assert ag.summary(model, x).products == 24

    assert [module.training for module in model.modules()] == [True, True, False, True]
    assert all(np.array_equal(array, before[name]) for name, array in model.state_dict().items())
    assert model._record.forward_hooks is None or not model._record.forward_hooks.snapshot()
    assert x.grad is None


def test_a_model_that_fails_is_as_it_was() -> None:
    model = nn.Sequential(nn.Linear(4, 2), nn.Linear(3, 2))

    with pytest.raises(ValueError, match="linear"):
        ag.summary(model, np.ones((3, 4)))

    assert model.training
    assert not model[0]._record.forward_hooks.snapshot()


@one_loop
async def test_the_summary_of_an_async_model_is_awaited() -> None:
    class Remote(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.Linear(4, 2)

        async def forward(self, x: Any, *, scale: float) -> Any:
            return {"out": self.layer(x) * scale}

    found = await ag.summary(Remote(), np.ones((3, 4)), scale=2.0)

    assert [row.products for row in found.rows] == [24, 24]
    assert found.rows[0].outputs == ((3, 2),)


def test_what_is_no_module_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match=r"ag\.summary\(model, x\)"):
        ag.summary(np.tanh, np.ones(3))  # type: ignore[arg-type]
