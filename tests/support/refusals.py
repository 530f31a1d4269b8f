"""For the tests of what bad use gets: `refused`, which holds an error to its law."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from asyncgrad.errors import AsyncgradError


@contextlib.contextmanager
def refused(error: type[Exception], built_in: type[Exception], *parts: str) -> Iterator[None]:
    """The block raises `error`, which is asyncgrad's and a `built_in`, and its message holds each of the parts."""
    with pytest.raises(error) as raised:
        yield
    assert isinstance(raised.value, AsyncgradError)
    assert isinstance(raised.value, built_in)
    message = str(raised.value)
    assert [part for part in parts if part not in message] == [], message
