"""The generator and the default dtype of a context."""

from __future__ import annotations

import asyncio
import contextvars
import pickle
import re
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn
from asyncgrad.core.settings.context import GENERATOR, SeededGenerator
from asyncgrad.errors import ArgumentError, ArgumentTypeError


def test_a_seed_decides_what_is_drawn() -> None:
    first = ag.random.seed(5).random(3).tolist()
    ag.random.seed(5)

    assert ag.random.generator().random(3).tolist() == first
    given = np.random.default_rng(5)
    assert ag.random.seed(given) is given


async def test_a_seed_holds_for_the_context_and_what_is_started_in_it() -> None:
    async def seeded() -> float:
        ag.random.seed(1)
        return ag.random.generator().random()

    ag.random.seed(0)
    mine = ag.random.generator()
    inherited = contextvars.copy_context().run(ag.random.generator)
    drawn = await asyncio.gather(seeded(), seeded())
    after = ag.random.generator()
    assert mine is inherited is after
    assert drawn[0] == drawn[1]


def test_a_run_goes_on_from_a_state() -> None:
    ag.random.seed(7)
    ag.random.generator().random(3)
    state = pickle.loads(pickle.dumps(ag.random.get_state()))
    following = ag.random.generator().random(3).tolist()
    ag.random.seed(0)
    ag.random.set_state(state)

    assert ag.random.generator().random(3).tolist() == following


def test_a_generator_made_by_the_first_draw_is_shared_by_contexts_that_share_its_seed() -> None:
    expected = np.random.default_rng([5, 1]).random(2).tolist()
    GENERATOR.set(SeededGenerator([5, 1]))
    inherited = contextvars.copy_context().run(lambda: ag.random.generator().random())

    assert [inherited, ag.random.generator().random()] == expected


@pytest.mark.parametrize("value", [True, 1.5, "0", [1]])
def test_what_is_no_seed_is_refused(value: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="a seed must be an int, a NumPy Generator or None, not"):
        ag.random.seed(value)


def test_what_is_no_state_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match=re.escape("state must be what ag.random.get_state() returned")):
        ag.random.set_state({"seed": 0})


def dtypes() -> list[str]:
    made = (ag.tensor(1.0), ag.tensor([1.0, 2]), ag.asarray([1j]), ag.tensor([1, 2]), nn.Linear(2, 2).weight)
    given = (ag.tensor(np.ones(2)), ag.tensor(np.float64(1.0)), ag.tensor([1.0], dtype=np.float64))
    return [tensor.dtype.name for tensor in (*made, *given)]


WIDE = ["float64", "float64", "complex128", "int64", "float64", "float64", "float64", "float64"]
NARROW = ["float32", "float32", "complex64", "int64", "float32", "float64", "float64", "float64"]


def test_a_default_dtype_is_that_of_parameters_and_of_pythons_numbers() -> None:
    assert dtypes() == WIDE
    with ag.default_dtype(np.float32):
        assert dtypes() == NARROW
    assert dtypes() == WIDE


def test_a_default_dtype_that_is_called_holds_for_the_context() -> None:
    def inside() -> list[str]:
        ag.default_dtype("float32")
        return dtypes()

    assert contextvars.copy_context().run(inside) == NARROW
    assert dtypes() == WIDE


def test_a_default_dtype_decorates_functions() -> None:
    decorated = ag.default_dtype(np.float32)(dtypes)

    assert dtypes() == WIDE
    assert decorated() == NARROW
    assert dtypes() == WIDE


@pytest.mark.parametrize("dtype", [int, complex, "nothing", 3])
def test_a_default_dtype_is_floating(dtype: Any) -> None:
    with pytest.raises(ArgumentError, match="the default dtype must be"):
        ag.default_dtype(dtype)
