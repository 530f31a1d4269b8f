"""What tests of the engine may ask for."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest

from asyncgrad.core.engine.compiled import api, codegen
from asyncgrad.core.engine.compiled.cache import Cache
from asyncgrad.core.engine.compiled.program import Program
from tests.support.settings import node_by_node


@pytest.fixture
def caught() -> Iterator[list[warnings.WarningMessage]]:
    """The warnings that are shown, all of them."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield found


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch) -> Cache:
    """An empty cache of compiled functions, which no other test has seen, in the place of the process's.

    Backward passes are compiled although bodies seem to take long on a busy machine.
    """
    made = Cache()
    monkeypatch.setattr(api, "CACHE", made)
    monkeypatch.setattr(Program, "is_measured", lambda program: False)
    return made


@pytest.fixture
def compiled_where_asked() -> Iterator[None]:
    """Nothing is compiled but where a test says so."""
    with node_by_node():
        yield


@pytest.fixture
def all_arrays_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiled function lets go of arrays of every size as soon as they are not needed."""
    monkeypatch.setattr(codegen, "LARGE_GRADIENT", 1)
