"""What is told to who waits for a function of the user's, where that raises what would mean something else to them."""

from __future__ import annotations

__all__ = ["told"]


def told(error: BaseException, what: str) -> Exception:
    """Return an error to give to who waits: itself, unless it would end them as if they were cancelled, or at an end.

    Args:
        error: what was raised.
        what: what may have raised it.
    """
    if isinstance(error, Exception) and not isinstance(error, StopAsyncIteration):
        return error
    found = RuntimeError(f"{what} raised {type(error).__name__} by itself, and nothing has changed")
    found.__cause__ = error
    return found
