"""The rules that a store of saved tensors must follow, as checks for any store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.engine.background import LoopBackground

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ..memory.offload import Store

__all__ = ["STORE_LAWS", "check_store"]


async def get_returns_what_was_put(store: Store) -> None:
    """`get` returns the same bytes."""
    await store.put("a-1", memoryview(bytes(range(256))))
    got = bytes(await store.get("a-1"))
    assert got == bytes(range(256)), f"get() returned {len(got)} bytes, other than those that put() was given"


async def empty_data_can_be_put(store: Store) -> None:
    """Data of length zero is valid."""
    await store.put("empty", memoryview(b""))
    got = bytes(await store.get("empty"))
    assert got == b"", f"get() returned {got!r} after put() of no bytes"


async def large_data_can_be_put(store: Store) -> None:
    """Data may be larger than one write or one packet."""
    data = bytes(range(251)) * 40_000
    await store.put("large", memoryview(data))
    assert bytes(await store.get("large")) == data, f"{len(data)} bytes did not come back as they were put"


async def get_removes_nothing(store: Store) -> None:
    """A second backward gets the same bytes."""
    await store.put("twice", memoryview(b"abc"))
    first, second = bytes(await store.get("twice")), bytes(await store.get("twice"))
    assert (first, second) == (b"abc", b"abc"), f"two calls of get() returned {first!r} and {second!r}"


async def put_copies_its_data(store: Store) -> None:
    """The caller reuses the memory after `put` has ended."""
    memory = bytearray(b"before")
    await store.put("copy", memoryview(memory))
    memory[:] = b"after!"
    got = bytes(await store.get("copy"))
    assert got == b"before", f"get() returned {got!r}: put() must copy what it is given"


async def get_returns_a_copy(store: Store) -> None:
    """The caller owns the result, and may write into it."""
    await store.put("owned", memoryview(b"before"))
    got = memoryview(await store.get("owned")).cast("B")
    if not got.readonly:
        got[:] = b"after!"
    again = bytes(await store.get("owned"))
    assert again == b"before", f"get() returned {again!r} after an earlier result was written into: return a copy"


async def keys_are_independent(store: Store) -> None:
    """Each key has its own bytes, and is deleted alone."""
    for key in ("k", "k-1", "k-10", "K2"):
        await store.put(key, memoryview(key.encode()))
    await store.delete("k-1")
    for key in ("k", "k-10", "K2"):
        got = bytes(await store.get(key))
        assert got == key.encode(), f"get({key!r}) returned {got!r}, but {key.encode()!r} was put"


async def get_after_delete_raises(store: Store) -> None:
    """`get` raises, rather than return other bytes."""
    await store.put("gone", memoryview(b"abc"))
    await store.delete("gone")
    try:
        got = bytes(await store.get("gone"))
    except (LookupError, OSError):
        return
    raise AssertionError(f"get() returned {got!r} after delete(): raise KeyError or an OSError")


async def get_without_put_raises(store: Store) -> None:
    """`get` of an unknown key raises the same error."""
    try:
        got = bytes(await store.get("never"))
    except (LookupError, OSError):
        return
    raise AssertionError(f"get() returned {got!r} for a key that was never put: raise KeyError or an OSError")


async def delete_without_put_does_nothing(store: Store) -> None:
    """`delete` of an unknown or deleted key is no error."""
    await store.delete("never")
    await store.put("once", memoryview(b"abc"))
    await store.delete("once")
    await store.delete("once")


async def calls_may_overlap(store: Store) -> None:
    """Several puts overlap, then two gets of each key, then deletes."""
    keys = [f"overlap-{number}" for number in range(16)]
    data = {key: key.encode() * 5_000 for key in keys}

    async def check(key: str) -> None:
        assert bytes(await store.get(key)) == data[key], f"get({key!r}) returned other bytes while calls overlapped"

    for coroutines in (
        [store.put(key, memoryview(data[key])) for key in keys],
        [check(key) for key in keys * 2],
        [store.delete(key) for key in keys],
    ):
        await LoopBackground().together(coroutines, ["a call of a store"] * len(coroutines))


#: Each is called with a new store, and raises AssertionError if the store breaks the rule.
STORE_LAWS: tuple[Callable[[Store], Coroutine[object, None, None]], ...] = (
    get_returns_what_was_put,
    empty_data_can_be_put,
    large_data_can_be_put,
    get_removes_nothing,
    put_copies_its_data,
    get_returns_a_copy,
    keys_are_independent,
    get_after_delete_raises,
    get_without_put_raises,
    delete_without_put_does_nothing,
    calls_may_overlap,
)


async def check_store(make_store: Callable[[], Store]) -> None:
    """Raise if a store breaks a rule of `ag.graph.Store`; each rule is checked on a new store.

    Args:
        make_store: returns a new store. Some of the data that is put there is not deleted.

    Raises:
        AssertionError: a rule is broken; the message says which, and how.

    Example:
        >>> import asyncgrad as ag
        >>> ag.run(ag.testing.check_store(ag.testing.MemoryStore))
    """
    for law in STORE_LAWS:
        try:
            await law(make_store())
        except AssertionError as error:
            error.add_note(f"broken rule: {law.__name__.replace('_', ' ')}")
            raise
