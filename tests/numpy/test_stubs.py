"""What type checkers are told of asyncgrad.numpy: that its functions return Tensors, whose backward must be awaited."""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import pathlib
import re

import pytest
from mypy import api

from tests.support.versions import is_numpy
from tools import nn_stubs, numpy_stubs

#: Each line that is wrong ends with what mypy says about it.
PROGRAM = """
import asyncgrad as ag
import asyncgrad.numpy as np
import numpy


async def main() -> None:
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    loss = np.sum(x * 2 + 1.0) + np.linalg.norm(x) + np.add.reduce(np.tanh(x)) + np.fft.rfft(x)[0].real
    await loss.backward()
    values, vectors = np.linalg.eigh(np.eye(3, requires_grad=True))
    parts: list[ag.Tensor] = np.split(values @ vectors, 3)
    flags: bool = np.allclose(parts[0], numpy.ones(1))
    drawn = np.random.default_rng(0).normal(x)
    await (drawn * np.pi).sum().backward()
    print(flags, np.float32, x[0, None].shape, np.where(x > 0, x, 0.0))
    np.tanh(x).sum().backward()  # E: [unused-coroutine]
    np.tanhh(x)  # E: [attr-defined]
    np.tanh(x).backwards()  # E: [attr-defined]
    np.concatenate([x], axis="0")  # E: [arg-type]
    values.requires_grad = 3  # E: [assignment]
"""


@pytest.mark.parametrize("name", numpy_stubs.MODULES)
def test_a_stub_is_what_the_program_writes(name: str) -> None:
    stub = (numpy_stubs.PACKAGE / name).read_text()
    if f"for NumPy {numpy_stubs.VERSION}:" not in stub:
        pytest.skip(f"it was written for another NumPy than {numpy_stubs.VERSION}")

    assert stub == numpy_stubs.stub_of(numpy_stubs.MODULES[name]), "write python -m tools.numpy_stubs"


def test_the_stub_of_nn_is_what_the_program_writes() -> None:
    assert nn_stubs.STUB.read_text() == nn_stubs.stub(), "write python -m tools.nn_stubs"


def test_a_parameter_whose_type_is_told_is_one_that_there_is() -> None:
    """A name in the table of parameters that no function has would be a mistake in it."""
    if not is_numpy("2.4"):
        pytest.skip("before NumPy 2.4 many of its functions do not tell their signatures")
    known: set[str] = set()
    for module in numpy_stubs.MODULES.values():
        space = importlib.import_module(module)
        prefix = f"{module}.".removeprefix("asyncgrad.numpy.")
        for name in dir(space):
            with contextlib.suppress(TypeError, ValueError):
                parameters = inspect.signature(getattr(space, name)).parameters
                known.update(parameters, (f"{prefix}{name}.{parameter}" for parameter in parameters))

    assert sorted(numpy_stubs.PARAMETERS.keys() - known) == []


@pytest.mark.parametrize("name", numpy_stubs.MODULES)
def test_a_function_that_returns_no_tensor_is_one_that_there_is(name: str) -> None:
    """A name in the table of results that no stub has would be a mistake in it."""
    module = numpy_stubs.MODULES[name].removeprefix("asyncgrad.numpy").removeprefix(".")
    tree = ast.parse((numpy_stubs.PACKAGE / name).read_text())
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    defined |= {
        node.target.id for node in tree.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    named = {path.rpartition(".")[2] for path in numpy_stubs.RESULTS if path.rpartition(".")[0] == module}

    assert sorted(named - defined) == []


def test_a_type_checker_sees_tensors_and_a_forgotten_await(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    told, errors, _ = api.run(["--strict", "--enable-error-code=unused-awaitable", str(path)])
    found = {
        int(line): code for line, code in re.findall(r"program\.py:(\d+): error: .*(\[[\w-]+\])$", told, re.MULTILINE)
    }
    expected = {
        number: line.partition("# E: ")[2] for number, line in enumerate(PROGRAM.splitlines(), 1) if "# E: " in line
    }

    assert errors == ""
    assert found == expected, told
