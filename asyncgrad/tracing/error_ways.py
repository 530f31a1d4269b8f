"""How NumPy treats floating-point errors in this context, compared without a dict for each look."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib import import_module
from typing import Any, cast, final

import numpy as np

__all__ = ["ErrorWays", "told_before", "without_warnings"]


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
    with np.errstate(**quiet), without_warnings():
        yield


#: Whether nobody is to see the warnings of this context.
_IS_SILENT: ContextVar[bool] = ContextVar("asyncgrad_is_silent", default=False)


@final
class _Silent:
    """In the place of a pattern of Python's warnings: it matches each text where nobody is to see it."""

    def match(self, text: str) -> bool:
        """Tell whether a warning is made in a block without warnings."""
        return _IS_SILENT.get()


_FILTER = ("ignore", _Silent(), Warning, None, 0)


@contextmanager
def without_warnings() -> Iterator[None]:
    """Show nobody the warnings of the block: a function that sets `np.errstate` itself is not made quiet by another.

    Other threads and tasks go on to warn, and what Python has shown once it does not show again: both would be
    otherwise with `warnings.catch_warnings`.
    """
    token = _IS_SILENT.set(True)
    filters = cast("list[object]", warnings.filters)
    filters.insert(0, _FILTER)
    try:
        yield
    finally:
        _IS_SILENT.reset(token)
        with suppress(ValueError):
            # The function, or another thread, may have begun with new filters.
            filters.remove(_FILTER)
