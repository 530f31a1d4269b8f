"""The laws of a store of saved tensors, as tests that any store can run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..engine.background import LoopBackground

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from ..offload import Store

__all__ = ["STORE_LAWS", "check_store"]


async def what_was_put_comes_back(store: Store) -> None:
    """The same bytes."""
    await store.put("a-1", memoryview(bytes(range(256))))
    got = bytes(await store.get("a-1"))
    assert got == bytes(range(256)), f"get() returned {len(got)} other bytes than put() was given"


async def nothing_at_all_can_be_put(store: Store) -> None:
    """Zero bytes are bytes."""
    await store.put("empty", memoryview(b""))
    got = bytes(await store.get("empty"))
    assert got == b"", f"get() returned {got!r} where nothing was put"


async def much_can_be_put(store: Store) -> None:
    """More than one write or one packet takes."""
    data = bytes(range(251)) * 40_000
    await store.put("large", memoryview(data))
    assert bytes(await store.get("large")) == data, f"{len(data)} bytes did not come back as they were put"


async def a_get_takes_nothing_away(store: Store) -> None:
    """A second backward gets the same."""
    await store.put("twice", memoryview(b"abc"))
    first, second = bytes(await store.get("twice")), bytes(await store.get("twice"))
    assert (first, second) == (b"abc", b"abc"), f"two calls of get() returned {first!r} and {second!r}"


async def what_is_put_is_a_copy(store: Store) -> None:
    """The memory is used for something else after the end of put()."""
    memory = bytearray(b"before")
    await store.put("copy", memoryview(memory))
    memory[:] = b"after!"
    got = bytes(await store.get("copy"))
    assert got == b"before", f"get() returned {got!r}: put() must copy what it is given"


async def what_comes_back_is_a_copy(store: Store) -> None:
    """The caller owns it, and may write into it."""
    await store.put("owned", memoryview(b"before"))
    got = memoryview(await store.get("owned")).cast("B")
    if not got.readonly:
        got[:] = b"after!"
    again = bytes(await store.get("owned"))
    assert again == b"before", f"what get() returned was written into, and get() then returned {again!r}"


async def keys_are_apart(store: Store) -> None:
    """Each has its own bytes, and is deleted alone."""
    for key in ("k", "k-1", "k-10", "K2"):
        await store.put(key, memoryview(key.encode()))
    await store.delete("k-1")
    for key in ("k", "k-10", "K2"):
        got = bytes(await store.get(key))
        assert got == key.encode(), f"under {key!r} came {got!r}"


async def what_was_deleted_is_gone(store: Store) -> None:
    """An error, and no other bytes."""
    await store.put("gone", memoryview(b"abc"))
    await store.delete("gone")
    try:
        got = bytes(await store.get("gone"))
    except (LookupError, OSError):
        return
    raise AssertionError(f"get() returned {got!r} after delete(): raise KeyError or an OSError")


async def what_was_never_put_is_not_there(store: Store) -> None:
    """The same error."""
    try:
        got = bytes(await store.get("never"))
    except (LookupError, OSError):
        return
    raise AssertionError(f"get() returned {got!r} for a key that was never put: raise KeyError or an OSError")


async def a_delete_of_nothing_is_no_error(store: Store) -> None:
    """Also twice."""
    await store.delete("never")
    await store.put("once", memoryview(b"abc"))
    await store.delete("once")
    await store.delete("once")


async def calls_may_overlap(store: Store) -> None:
    """Puts of several keys, then gets of all, each twice, then deletes."""
    keys = [f"overlap-{number}" for number in range(16)]
    data = {key: key.encode() * 5_000 for key in keys}

    async def check(key: str) -> None:
        assert bytes(await store.get(key)) == data[key], f"under {key!r} came other bytes while calls overlapped"

    for coroutines in (
        [store.put(key, memoryview(data[key])) for key in keys],
        [check(key) for key in keys * 2],
        [store.delete(key) for key in keys],
    ):
        await LoopBackground().together(coroutines, ["a call of a store"] * len(coroutines))


#: Each takes a new store, and raises AssertionError where the store breaks it.
STORE_LAWS: tuple[Callable[[Store], Coroutine[Any, Any, None]], ...] = (
    what_was_put_comes_back,
    nothing_at_all_can_be_put,
    much_can_be_put,
    a_get_takes_nothing_away,
    what_is_put_is_a_copy,
    what_comes_back_is_a_copy,
    keys_are_apart,
    what_was_deleted_is_gone,
    what_was_never_put_is_not_there,
    a_delete_of_nothing_is_no_error,
    calls_may_overlap,
)


async def check_store(make_store: Callable[[], Store]) -> None:
    """Raise where a store does not keep to what `ag.graph.Store` says; each law is tried on a new one.

    Args:
        make_store: returns a new store; what it has been given is left there, or deleted.

    Raises:
        AssertionError: a law is broken; it says which, and how.

    Example:
        >>> import asyncgrad as ag
        >>> ag.run(ag.testing.check_store(ag.testing.MemoryStore))
    """
    for law in STORE_LAWS:
        try:
            await law(make_store())
        except AssertionError as error:
            error.add_note(f"in the law that {law.__name__.replace('_', ' ')}")
            raise
