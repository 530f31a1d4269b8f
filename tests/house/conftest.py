"""The source of the project is parsed once for the tests that look at it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests.support.house import own_house


@pytest.fixture(scope="package")
def parsed_house() -> Iterator[None]:
    """The trees are a million objects: the garbage collector would take longer than the parser, and is kept from them.

    Nor are they kept for the tests that come after.
    """
    house = own_house()
    gc.collect()
    gc.disable()
    for source in house.sources:
        assert source.nodes
    gc.freeze()
    gc.enable()
    yield
    house.forget_trees()
