"""Draw the graph of an example's first backward as a page: `python -m tools.graph_of_example FILE PAGE [ARGUMENT ...]`.

The example is run as it stands, up to where that backward begins; the process then ends, without an output.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import runpy
import sys
from pathlib import Path
from typing import Any, final

import asyncgrad as ag
from asyncgrad import nn
from asyncgrad.core.settings.observers import BACKWARDS, BackwardObserver

__all__ = ["main"]


@final
class _Drawer(BackwardObserver):
    """Draws the graph of the first backward, and ends the process."""

    __slots__ = ("page",)

    def __init__(self, page: Path) -> None:
        self.page = page

    def begin(self, graph_task: Any) -> None:
        """Draw the graph below the root."""
        draw(graph_task.root, self.page)
        # The example's tasks, threads and servers end with the process.
        os._exit(0)


def draw(root: Any, page: Path) -> None:
    """Write the page of a graph, whose leaves have the names of the model, if there is one model."""
    models = _models()
    ag.visualize(root, page, format="html", params=models[0] if len(models) == 1 else None)


def _models() -> list[nn.Module]:
    """Return the modules with parameters that are no part of another one."""
    # Not `isinstance`: that would look into proxies, such as a deprecated name of another library, which then warns.
    modules = [one for one in gc.get_objects() if issubclass(type(one), nn.Module)]
    parts = {id(part) for module in modules for part in module.modules() if part is not module}
    return [
        module for module in modules if id(module) not in parts and next(iter(module.parameters()), None) is not None
    ]


def main(arguments: list[str]) -> int:
    """Run the example up to its first backward; return 3 where it has none."""
    file, page, *others = arguments
    BACKWARDS.put(_Drawer(Path(page)), True)
    sys.argv = [file, *others]
    sys.path.insert(0, str(Path(file).parent))
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        runpy.run_path(file, run_name="__main__")
    return 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
