"""Job: what is sent to a device that has workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import DeviceError

if TYPE_CHECKING:
    import asyncio

__all__ = ["Job", "worker_died"]


class Job:
    """Abstract: a piece of work that is sent to a device, which calls `run()` once, in a thread of its own.

    Args:
        priority: of what waits, the lowest runs first; equals in the order of their coming.
    """

    __slots__ = ("priority",)

    def __init__(self, priority: tuple[int, int]) -> None:
        self.priority = priority

    def run(self) -> asyncio.Future[Any] | None:
        """Do the work, or its first step: what suspends goes on as a task of the loop that runs in this thread.

        How the work ends is told to who sent it. Does nothing if the work has been withdrawn.

        Returns:
            That task; None where nothing is left to do.

        Raises:
            SystemExit, KeyboardInterrupt: the work raised it. Its sender has been told, and the thread is to end.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement run()")

    def refuse(self, error: BaseException) -> None:
        """Let the work end with `error` without having run, as when the device is closed. Never raises."""
        raise NotImplementedError(f"{type(self).__name__} must implement refuse(error)")

    def abandon(self, error: BaseException) -> None:
        """Let work that has suspended end with `error` where it stands, since the thread that ran it is gone."""
        raise NotImplementedError(f"{type(self).__name__} must implement abandon(error)")


def worker_died(device: object, cause: BaseException | None) -> DeviceError:
    """Return the error of work whose worker's thread has died of `cause`; None where its event loop was stopped."""
    what = "its event loop was stopped" if cause is None else repr(cause)
    error = DeviceError(
        f"the worker of {str(device)!r} died ({what}), and with it all that it ran and that waited for it: later work "
        "gets a new one"
    )
    error.__cause__ = cause
    return error
