"""What the interop modules say where their library is missing; their examples where it is there."""

from __future__ import annotations

import doctest
import importlib

import pytest

from tests.support.house import ROOT
from tests.support.processes import run_python


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_a_missing_library_is_named_with_its_extra_and_only_when_the_module_is_asked_for(name: str) -> None:
    program = f"""
import sys
sys.modules[{name!r}] = None
import asyncgrad as ag
interop = ag.interop
ag.sync.backward(ag.tensor(1.0, requires_grad=True) * 2)
try:
    interop.{name}
except ImportError as error:
    print(error)
"""
    assert f"pip install 'asyncgrad[{name}]'" in run_python(program)


@pytest.mark.parametrize("path", sorted((ROOT / "asyncgrad/interop").glob("*.py")), ids=lambda path: path.stem)
def test_the_examples_of_a_module_run(path: object) -> None:
    stem = path.stem  # type: ignore[attr-defined]
    library = stem.partition("_")[0]
    if library in ("torch", "jax"):
        pytest.importorskip(library)
    module = importlib.import_module("asyncgrad.interop" if stem == "__init__" else f"asyncgrad.interop.{stem}")
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

    assert doctest.testmod(module, optionflags=options).failed == 0
