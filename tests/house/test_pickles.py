"""Where pickles are read: each is code of whoever wrote it."""

from __future__ import annotations

import ast
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncgrad.numpy as anp
from asyncgrad.errors import ModelDirectoryError
from asyncgrad.learn.checkpoint_file import read_checkpoint
from tests.support.house import ROOT

#: What reads pickles, or is made to.
_READERS = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}


def readers_in(source: str) -> set[str]:
    """Return what a module imports or says that reads pickles."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.partition(".")[0])
        elif isinstance(node, ast.Call):
            if ast.unparse(node.func).rpartition(".")[2] in ("import_module", "__import__"):
                found |= {str(each.value) for each in node.args if isinstance(each, ast.Constant)}
            found |= {"pickle" for each in node.keywords if _allows(each)}
    return found & _READERS


def _allows(keyword: ast.keyword) -> bool:
    given = keyword.value
    return keyword.arg == "allow_pickle" and not (isinstance(given, ast.Constant) and not given.value)


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "import_module('cloudpickle')",
        "np.load(file, allow_pickle=True)",
        "np.load(file, allow_pickle=given)",
    ],
)
def test_a_reader_of_pickles_is_found(source):
    assert readers_in(source)


@pytest.mark.slow
def test_pickles_are_read_on_dask_alone():
    files = [*(ROOT / "asyncgrad").rglob("*.py"), *(ROOT / "devices").rglob("*.py")]

    found = {str(path.relative_to(ROOT)) for path in files if readers_in(path.read_text(encoding="utf-8"))}

    assert found == {"asyncgrad/distributed/dask.py"}


class Trap:
    """What makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_a_checkpoint_with_a_pickle_is_refused_and_runs_nothing(tmp_path):
    trap = np.empty(1, dtype=object)
    trap[0] = Trap(tmp_path / "ran")
    np.savez(tmp_path / "checkpoint.npz", tree=trap)

    with pytest.raises(ModelDirectoryError, match="cannot be read"):
        read_checkpoint(tmp_path / "checkpoint.npz")

    assert not (tmp_path / "ran").exists()


def test_load_reads_no_pickle_unasked(tmp_path):
    trap = np.empty(1, dtype=object)
    trap[0] = Trap(tmp_path / "ran")
    file = io.BytesIO()
    np.save(file, trap, allow_pickle=True)
    file.seek(0)

    with pytest.raises(ValueError, match="allow_pickle=False"):
        anp.load(file)

    assert not (tmp_path / "ran").exists()
