"""What type checkers are told of asyncgrad.scipy.special."""

from __future__ import annotations

import pathlib
import re

import pytest
from mypy import api

from tools import special_stubs

PROGRAM = """
import asyncgrad as ag
from asyncgrad.scipy import special


async def main() -> None:
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    await (special.gammaln(x) + special.xlogy(x, 2.0)).sum().backward()
    sine, cosine = special.sici(x)
    await special.betainc(1.0, x, 0.5)[0].backward()
    special.erf(x).sum().backward()  # E: [unused-coroutine]
    special.erff(x)  # E: [attr-defined]
    special.gammainc(x)  # E: [call-arg]
"""


def test_the_stub_is_what_the_program_writes() -> None:
    stub = special_stubs.STUB.read_text()
    if f"for SciPy {special_stubs.VERSION}:" not in stub:
        pytest.skip(f"it was written for another SciPy than {special_stubs.VERSION}")

    assert stub == special_stubs.stub(), "write python -m tools.special_stubs"


@pytest.mark.slow
def test_mypy_finds_what_is_wrong_and_nothing_else(tmp_path: pathlib.Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    expected = {
        number: line.partition("# E: ")[2] for number, line in enumerate(PROGRAM.splitlines(), 1) if "# E: " in line
    }

    out, _, _ = api.run(["--strict", "--enable-error-code=unused-awaitable", str(program)])

    found = {int(number): code for number, code in re.findall(r"program\.py:(\d+): error: .*(\[[\w-]+\])", out)}
    assert found == expected
