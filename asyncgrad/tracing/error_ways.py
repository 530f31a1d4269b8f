"""How NumPy treats floating-point errors in this context, compared without a dict for each look."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any, final

import numpy as np

__all__ = ["ErrorWays", "told_before"]


@final
class _Unknown:
    """In the place of NumPy's own variable where this NumPy has none of that name: it never has the same value."""

    def get(self) -> object:
        """Return an object that is there once."""
        return object()


#: What `np.errstate` sets: for each setting an object, which never changes.
_SETTINGS: ContextVar[object] | _Unknown = getattr(import_module("numpy._core.umath"), "_extobj_contextvar", _Unknown())


@final
class ErrorWays:
    """Ways to treat floating-point errors, as `np.geterr` tells them.

    Args:
        ways: by the kind of error, what is done.
    """

    __slots__ = ("_settings", "_ways")

    def __init__(self, ways: Mapping[str, object]) -> None:
        self._ways = ways
        #: The last setting that had these ways.
        self._settings: object = None

    def are_now(self) -> bool:
        """Tell whether errors are treated so in this context."""
        settings = _SETTINGS.get()
        if settings is self._settings:
            return True
        if np.geterr() != self._ways:
            return False
        self._settings = settings
        return True


@contextmanager
def told_before(ways: Mapping[str, object]) -> Iterator[None]:
    """Tell nobody of floating-point errors in the block, of which the call tells; an exception is one here too."""
    quiet: dict[str, Any] = {name: "raise" if way == "raise" else "ignore" for name, way in ways.items()}
    with np.errstate(**quiet):
        yield
