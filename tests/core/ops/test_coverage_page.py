"""docs/coverage.md says of each function of NumPy what the rules are."""

from __future__ import annotations

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.errors import AsyncgradError
from tools import coverage_page


def test_the_page_is_what_the_program_writes() -> None:
    written = coverage_page.PAGE.read_text()
    if f"for NumPy {coverage_page.VERSION}:" not in written:
        pytest.skip(f"it was written for another NumPy than {coverage_page.VERSION}")

    assert written == coverage_page.page(), "write python -m tools.coverage_page"


@pytest.mark.parametrize("name", ["asarray", "array", "ascontiguousarray", "asfortranarray", "asanyarray", "require"])
def test_what_is_said_to_be_refused_raises(name: str) -> None:
    function = getattr(np, name)
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    assert coverage_page.kind_of(function) == "refused"
    with pytest.raises(AsyncgradError):
        function(x)
