"""The notebooks in docs/ run as their cells say, without Jupyter, and hold their output."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from tests.support.loops import one_loop
from tools.notebooks import FOLDER, LARGEST

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def code_cells(path: Path) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


async def run_cells(path: Path) -> dict[str, Any]:
    """Run the cells in one namespace, as IPython does: `await` may stand at the top level."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(code_cells(path)):
        code = compile("".join(cell["source"]), f"cell {number}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = types.FunctionType(code, names)()
        if inspect.iscoroutine(result):
            await result
    return names


def test_there_are_notebooks():
    assert NOTEBOOKS


@one_loop
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
async def test_the_cells_of_a_notebook_run(path, monkeypatch):
    shown: list[Any] = []
    display = types.ModuleType("IPython.display")
    display.display = shown.append  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    # Graphviz may be missing.
    module = importlib.import_module("asyncgrad.observing.visualize.visualize")
    monkeypatch.setattr(module, "_rendered", lambda text, chosen: text)

    names = await run_cells(path)

    assert names["w"].grad.tolist() == [14.0, 14.0]
    assert len(shown) == 1


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_holds_its_output_and_no_error(path):
    cells = code_cells(path)
    outputs = [output for cell in cells for output in cell["outputs"]]

    assert path.stat().st_size < LARGEST
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert {output["output_type"] for output in outputs} <= {"execute_result", "display_data", "stream"}
    assert sum("text/html" in output.get("data", ()) for output in outputs) >= 6
    assert any("image/svg+xml" in output.get("data", ()) for output in outputs)
