"""What an error says where a function of asyncgrad has to wait within another library, which cannot be awaited."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ..errors import BlockingError

__all__ = ["advising_a_thread"]


@contextlib.contextmanager
def advising_a_thread(what: str, library: str, instead: str) -> Iterator[None]:
    """Say, where something in the block would have to suspend, to do in a thread what cannot be awaited.

    Args:
        what: what would have to suspend.
        library: the other library.
        instead: what to write.

    Raises:
        BlockingError: it would have to suspend, and an event loop is running in this thread.
    """
    try:
        yield
    except BlockingError as error:
        raise BlockingError(
            f"{what} would have to suspend within {library}, which would block the event loop that is running in this "
            f"thread: {instead}"
        ) from error
