"""Functions of PyTorch and of JAX as nodes: what is one law for both."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ChangedTensorError, ReleasedGraphError
from tests.support.leaves import random_leaf


class Library(NamedTuple):
    """What the tests need of a library."""

    wrap: Callable[..., Any]
    sin: Callable[..., Any]


@pytest.fixture(params=["torch", "jax"])
def library(request: pytest.FixtureRequest) -> Any:
    """Each library that is there."""
    name = request.param
    package = pytest.importorskip(name, reason=f"needs it: pip install 'asyncgrad[{name}]'")
    wrap = import_module(f"asyncgrad.interop.{name}").wrap
    if name == "torch":
        yield Library(wrap, package.sin)
        return
    package.config.update("jax_enable_x64", True)
    yield Library(wrap, package.numpy.sin)
    package.config.update("jax_enable_x64", False)


async def test_what_is_saved_may_go_to_the_disk_and_be_differentiated_twice(library: Library, tmp_path: Any) -> None:
    x = random_leaf(3)
    with ag.graph.save_to_disk(tmp_path):
        y = library.wrap(lambda x: x**3)(x * 2)
    (first,) = await ag.grad(y.sum(), [x], create_graph=True)
    (second,) = await ag.grad(first.sum(), [x])

    np.testing.assert_allclose(first.numpy(), 24 * x.numpy() ** 2)
    np.testing.assert_allclose(second.numpy(), 48 * x.numpy())


def test_a_write_into_an_argument_is_found(library: Library) -> None:
    x = random_leaf(3)
    y = library.wrap(library.sin)(x * 1)
    inner = x * 1
    z = library.wrap(library.sin)(inner)
    inner *= 2

    sync.backward(y.sum())
    with pytest.raises(ChangedTensorError):
        sync.backward(z.sum())


def test_a_graph_that_is_kept_runs_again_and_one_that_was_released_says_so(library: Library) -> None:
    x = random_leaf(3)
    y = library.wrap(library.sin)(x).sum()
    sync.backward(y, retain_graph=True)
    sync.backward(y)

    np.testing.assert_allclose(x.grad.numpy(), 2 * np.cos(x.numpy()))
    with pytest.raises(ReleasedGraphError, match="retain_graph=True"):
        sync.backward(y)


def test_a_backward_that_failed_may_be_tried_again(library: Library) -> None:
    x = random_leaf(3)
    middle = x * 1
    y = library.wrap(library.sin)(middle).sum()

    def fail(grad: Any) -> None:
        raise ConnectionError

    with middle.register_hook(fail), pytest.raises(ConnectionError):
        sync.backward(y, retain_graph="until_success")
    sync.backward(y, retain_graph="until_success")

    np.testing.assert_allclose(x.grad.numpy(), np.cos(x.numpy()))
    with pytest.raises(ReleasedGraphError):
        sync.backward(y)
