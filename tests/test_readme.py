"""The README's examples run as printed."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


PRINTED = [
    "tensor([1.1815685 , 1.10532923, 1.02465287], dtype=float64, device='cpu')",
    "tensor(7., dtype=float64, device='cpu')",
]


@pytest.mark.parametrize(("example", "printed"), list(zip(EXAMPLES, PRINTED, strict=True)), ids=["first", "waiting"])
def test_examples_of_the_readme_run_as_printed(example: str, printed: str) -> None:
    output = io.StringIO()

    with contextlib.redirect_stdout(output):
        exec(compile(example, "README.md", "exec"), {"__name__": "__main__"})  # noqa: S102  # what the README says to run

    assert output.getvalue().strip() == printed


def test_first_example_is_ten_lines_and_the_rule_fifteen() -> None:
    lengths = [len([line for line in example.splitlines() if line.strip()]) for example in EXAMPLES]

    assert lengths[0] <= 10
    assert len(EXAMPLES[1].split("async def main")[0].strip().splitlines()) <= 15
