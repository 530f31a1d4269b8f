"""The tables of the guides tell the truth: each row of the sharp bits is computed, and programs side by side agree."""

from __future__ import annotations

import importlib.util
import re
from typing import Any

import numpy as np
import pytest

from asyncgrad import nn
from asyncgrad.sync import func
from tests.support.house import ROOT

SHARP = [
    tuple(cell.strip().strip("`") for cell in line.strip("|").split("|")[:3])
    for line in (ROOT / "docs/sharp-bits.md").read_text().splitlines()
    if re.match(r"\| `[^`]*` \| `[^`]*` \| `", line)
]


def evaluated(text: str, **names: Any) -> Any:
    return eval(text, {"np": np, "nn": nn, **names})  # noqa: S307


def test_the_table_of_sharp_bits_is_read() -> None:
    assert len(SHARP) > 20


@pytest.mark.parametrize(("function", "at", "gradient"), SHARP, ids=lambda cell: cell)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_row_of_the_sharp_bits_has_the_gradient_that_it_says(function: str, at: str, gradient: str) -> None:
    point = evaluated(at)
    point = np.array(point) if isinstance(point, list) else point

    np.testing.assert_array_equal(func.grad(lambda x: evaluated(function, x=x))(point), evaluated(gradient))


#: Of docs/coming-from.md: the name of the other library, its program and ours. Each leaves a `result`.
BESIDE = re.findall(
    r"^## From .*?<!-- (\w+) -->\n```python\n(.*?)```.*?```python\n(.*?)```",
    (ROOT / "docs/coming-from.md").read_text(),
    re.MULTILINE | re.DOTALL,
)


def run(program: str) -> Any:
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(program, "<program>", "exec"), names)  # noqa: S102
    return names["result"]


def test_there_are_programs_beside_four_libraries() -> None:
    assert [name for name, _, _ in BESIDE] == ["autograd", "torch", "jax", "textgrad"]


@pytest.mark.parametrize(("library", "theirs", "ours"), BESIDE, ids=[name for name, _, _ in BESIDE])
def test_a_program_beside_another_librarys_gives_its_result(library: str, theirs: str, ours: str) -> None:
    shown = re.search(r"# result: (.*)", ours)
    assert shown is not None
    assert str(run(ours)) == shown[1]
    if importlib.util.find_spec(library) is not None and library != "textgrad":
        assert str(run(theirs)) == shown[1]
