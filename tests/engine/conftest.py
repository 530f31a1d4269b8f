"""What tests of the engine may ask for."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest


@pytest.fixture
def caught() -> Iterator[list[warnings.WarningMessage]]:
    """The warnings that are shown, all of them."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield found
