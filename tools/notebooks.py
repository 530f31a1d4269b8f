"""Run the notebooks of docs/notebooks and write them with their output: `python -m tools.notebooks` (`make notebooks`).

The notebooks are their own source: this keeps their cells, and makes what is below each of them anew.
"""

from __future__ import annotations

import json
import pathlib
import sys
from importlib import import_module
from typing import Any

__all__ = ["FOLDER", "LARGEST", "execute", "main"]

FOLDER = pathlib.Path(__file__).parent.parent / "docs" / "notebooks"
#: How many bytes a notebook may have, with its output.
LARGEST = 200_000


def execute(notebook: Any) -> Any:
    """Return a notebook with the output of its cells, and nothing in it that differs from one run to the next."""
    client = import_module("nbclient").NotebookClient(notebook, timeout=120, kernel_name="python3")
    done = client.execute()
    done.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for number, cell in enumerate(done.cells):
        cell["id"] = f"cell-{number}"
        cell["metadata"] = {}
    return done


def main(paths: list[str]) -> None:
    """Run the notebooks at these paths, or all."""
    nbformat = import_module("nbformat")
    for path in [pathlib.Path(each) for each in paths] or sorted(FOLDER.glob("*.ipynb")):
        notebook = execute(nbformat.read(path, as_version=4))
        text = json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
        if len(text.encode()) > LARGEST:
            raise SystemExit(f"{path} would have {len(text.encode()):,} bytes, of at most {LARGEST:,}: show less")
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
