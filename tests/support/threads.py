"""Work done in threads of the test's own: on a small stack, several at a time, begun together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

__all__ = ["PATIENCE", "all_in_threads", "in_threads", "on_a_small_stack"]

#: Seconds after which a test that waits for another thread gives up, and fails.
PATIENCE = 30


def on_a_small_stack(work: Callable[[], Any]) -> None:
    """Run a function in a thread with a stack of 2 MB; raise what it raised."""
    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    before = threading.stack_size(2 * 1024 * 1024)
    try:
        thread = threading.Thread(target=guarded)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    if errors:
        raise errors[0]


def in_threads(count: int, function: Callable[[int], Any]) -> None:
    """Call `function(number)` in as many threads at once; wait for their ends, and raise what the first one raised."""
    errors: list[BaseException] = []

    def in_a_thread(number: int) -> None:
        try:
            function(number)
        except BaseException as error:
            errors.append(error)

    # Daemons: the end of the process does not wait for one that hangs.
    threads = [threading.Thread(target=in_a_thread, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


def all_in_threads(*works: Callable[[], Any]) -> list[BaseException | None]:
    """Run functions in a thread each, begun together; return what each raised."""
    barrier = threading.Barrier(len(works))
    raised: list[BaseException | None] = [None] * len(works)

    def in_thread(index: int, work: Callable[[], Any]) -> None:
        barrier.wait(PATIENCE)
        try:
            work()
        except BaseException as error:
            raised[index] = error

    threads = [threading.Thread(target=in_thread, args=each, daemon=True) for each in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "a thread waits for ever"
    return raised
