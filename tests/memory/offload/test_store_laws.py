"""Every store of the package keeps the laws of stores, and each law finds a store that breaks it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import asyncgrad as ag
from asyncgrad.testing import STORE_LAWS, MemoryStore, check_store
from tests.support.loops import one_loop


def law_name(law: Any) -> str:
    return str(law.__name__)


@pytest.mark.parametrize("law", STORE_LAWS, ids=law_name)
@pytest.mark.parametrize("kind", ["memory", "disk"])
async def test_stores_keep_the_laws(tmp_path: Path, kind: str, law: Any):
    store: Any = MemoryStore() if kind == "memory" else ag.graph.DiskStore(tmp_path)

    await law(store)


def test_the_stores_of_the_package_are_stores():
    assert isinstance(MemoryStore(), ag.graph.Store)
    assert isinstance(ag.graph.DiskStore(), ag.graph.Store)


class Broken:
    """A store, with one of its methods replaced."""

    def __init__(self, **methods: Callable[..., Any]) -> None:
        self.data: dict[str, Any] = {}
        self.methods = methods

    async def put(self, key: str, data: memoryview) -> None:
        self.data[key] = self.methods["put"](bytes(data)) if "put" in self.methods else bytes(data)

    async def get(self, key: str) -> Any:
        return self.methods["get"](self.data, key) if "get" in self.methods else self.data[key]

    async def delete(self, key: str) -> None:
        if "delete" in self.methods:
            self.methods["delete"](self.data, key)
        else:
            self.data.pop(key, None)


class Sharing(Broken):
    """Keeps what it is given, and not a copy."""

    async def put(self, key: str, data: memoryview) -> None:
        self.data[key] = data


BROKEN = {
    "loses the last byte": lambda: Broken(put=lambda data: data[:-1]),
    "has something where nothing was put": lambda: Broken(get=lambda data, key: data[key] or b"?"),
    "keeps at most a megabyte": lambda: Broken(put=lambda data: data[: 2**20]),
    "takes away what it returns": lambda: Broken(get=lambda data, key: data.pop(key)),
    "puts no copy": Sharing,
    "gets no copy": lambda: Broken(put=bytearray),
    "knows no more than two letters": lambda: Broken(
        get=lambda data, key: next(v for k, v in data.items() if k[:2] == key[:2])
    ),
    "deletes nothing": lambda: Broken(delete=lambda data, key: None),
    "deletes what is like it": lambda: Broken(delete=lambda data, key: [data.pop(k) for k in list(data) if key in k]),
    "returns nothing for what it has not": lambda: Broken(get=lambda data, key: data.get(key, b"")),
    "refuses to delete what it has not": lambda: Broken(delete=lambda data, key: data.pop(key)),
}


@one_loop
@pytest.mark.parametrize("broken", BROKEN)
async def test_a_store_that_breaks_a_law_is_found_out(broken: str):
    with pytest.raises((AssertionError, KeyError, StopIteration, RuntimeError)) as caught:
        await check_store(BROKEN[broken])  # type: ignore[arg-type]

    if caught.type is AssertionError:
        assert any("broken rule: " in note for note in caught.value.__notes__)
