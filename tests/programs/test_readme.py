"""The README's examples run as they stand: in a script, in a notebook, in IPython and in `python -m asyncio`."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)

PRINTED = [
    "tensor([1.1815685 , 1.10532923, 1.02465287], dtype=float64, device='cpu')",
    "tensor(7., dtype=float64, device='cpu')",
    "timed out, and the gradient is None",
]

each_example = pytest.mark.parametrize(
    ("example", "printed"), list(zip(EXAMPLES, PRINTED, strict=True)), ids=["first", "waiting", "cancelled"]
)


@each_example
def test_an_example_of_the_readme_runs_in_a_script(example: str, printed: str) -> None:
    output = io.StringIO()

    with contextlib.redirect_stdout(output):
        exec(compile(example, "README.md", "exec"), {"__name__": "__main__"})  # noqa: S102  # what the README says to run

    assert output.getvalue().strip() == printed


def in_asyncios_shell(lines: str) -> subprocess.CompletedProcess[str]:
    """Run lines in `python -m asyncio`."""
    return subprocess.run(
        [sys.executable, "-m", "asyncio"], input=lines, capture_output=True, text=True, timeout=60, check=True
    )


@pytest.mark.slow
@each_example
def test_an_example_of_the_readme_runs_in_python_m_asyncio(example: str, printed: str) -> None:
    if "'whole'" not in in_asyncios_shell("def f():\n    return 'whole'\n\nf()\n").stdout:
        pytest.skip("the shell of this Python takes no function from a pipe, as that of 3.13.0 does not")

    shell = in_asyncios_shell(example)

    assert printed in shell.stdout
    assert "Error" not in shell.stderr


def run_cell(cell: str) -> None:
    """Run a cell as a notebook does: in the thread of a running event loop, `await` allowed outside of functions."""

    async def kernel() -> None:
        code = compile(cell, "a cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = types.FunctionType(code, {"__name__": "__main__"})()
        if inspect.iscoroutine(result):
            await result

    asyncio.run(kernel())


@each_example
@pytest.mark.parametrize("line", ["ag.run(main())", "await main()"])
def test_an_example_of_the_readme_runs_in_a_notebook(
    example: str, printed: str, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # What IPython sets, as each interactive shell does.
    monkeypatch.setattr(sys, "ps1", "In : ", raising=False)
    assert "ag.run(main())" in example

    run_cell(example.replace("ag.run(main())", line))

    assert capsys.readouterr().out.strip() == printed


@each_example
def test_an_example_of_the_readme_runs_in_ipython(
    example: str, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell()

    done = shell.run_cell(example)

    done.raise_error()
    assert capsys.readouterr().out.strip() == printed


def test_what_an_example_prints_stands_beneath_it() -> None:
    assert re.findall(r"```python\n.*?```\n\n```text\n(.*?)\n```", README, re.DOTALL) == PRINTED


def test_first_example_is_ten_lines_and_the_rule_fifteen() -> None:
    lengths = [len([line for line in example.splitlines() if line.strip()]) for example in EXAMPLES]

    assert lengths[0] <= 10
    assert len(EXAMPLES[1].split("async def main")[0].strip().splitlines()) <= 15


def test_the_first_screen_says_what_it_is_and_for_whom() -> None:
    screen = "\n".join(README.splitlines()[:30])

    assert all(word in screen for word in ("automatic differentiation", "`await`", "It is for", "make demo"))
