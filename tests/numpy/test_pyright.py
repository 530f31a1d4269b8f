"""What pyright says: nothing of programs that are right, and each fault of one that is wrong at its line.

It runs in its standard mode, which finds all that its basic mode finds.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys
import textwrap

import pytest

from tests.programs.test_readme import EXAMPLES
from tests.support.house import ROOT

PYRIGHT = shutil.which("pyright") or shutil.which("pyright", path=pathlib.Path(sys.executable).parent)

pytestmark = [
    pytest.mark.skipif(PYRIGHT is None or shutil.which("node") is None, reason="pyright and node are not installed"),
    pytest.mark.timeout(120),
]

#: Usual lines. Each that is wrong ends with the rule of pyright that finds it.
PROGRAM = """
import asyncgrad as ag
import asyncgrad.numpy as np
import numpy
from asyncgrad import nn, optim, sync
from typing import Any, assert_type


async def operators(x: ag.Tensor, w: ag.Tensor) -> None:
    assert_type(x @ w, ag.Tensor)
    assert_type(1 - x + x / 2, ag.Tensor)
    assert_type(2.0**x, ag.Tensor)
    assert_type(-x, ag.Tensor)
    assert_type(abs(x), ag.Tensor)
    assert_type(x == w, ag.Tensor)
    assert_type((x > 0) & ~(x != 1), ag.Tensor)
    assert_type(x[0].T.reshape(2, 3), ag.Tensor)
    assert_type(divmod(x, 2), tuple[ag.Tensor, ag.Tensor])
    y = x * numpy.ones(3)
    y += x
    y @= w
    y **= 2
    assert_type(y, ag.Tensor)
    await (x @ w).sum().backward()
    (x @ w).sum().backward()  # E: reportUnusedCoroutine
    ag.grad(x.sum(), [x])  # E: reportUnusedCoroutine
    (x + 1).backwards()  # E: reportAttributeAccessIssue
    x.grad.sum()  # E: reportOptionalMemberAccess


async def functions(x: ag.Tensor, w: ag.Tensor) -> None:
    assert_type(np.where(x > 0, x, 0), ag.Tensor)
    assert_type(np.where(x)[0], ag.Tensor)
    assert_type(np.linalg.svd(x, full_matrices=False).S, ag.Tensor)
    assert_type(np.average(x, weights=[1, 2], returned=True), tuple[ag.Tensor, ag.Tensor])
    np.sum([x, 1.0, [2, (3.0, numpy.ones(2))]])
    np.sum(x, axis=(0, -1), keepdims=True, dtype=float)
    np.zeros((2, numpy.int64(3)), dtype=x.dtype, requires_grad=True)
    np.concatenate([x, numpy.ones(3), [1.0]], axis=numpy.int64(0))
    np.add(x, 1, out=w, where=x > 0)
    np.einsum("ij,jk->ik", x, w)
    np.fft.irfft(x, n=4, norm="ortho")
    np.clip(x, 0, None)
    np.sum("x")  # E: reportArgumentType
    np.tanh("x")  # E: reportArgumentType
    np.tanh({1.0, 2.0})  # E: reportArgumentType
    np.sum(x, axis="a")  # E: reportArgumentType
    np.sum(x, axiss=0)  # E: reportCallIssue
    np.tanh(x, ot=w)  # E: reportCallIssue
    np.zeros(3, device=3)  # E: reportArgumentType
    np.zeros("a")  # E: reportArgumentType
    np.concatenate([x], axis=(0, 1))  # E: reportArgumentType
    np.reshape(x, (2, 3), order="Q")  # E: reportArgumentType
    np.fft.fft(x, norm="none")  # E: reportArgumentType
    np.linalg.eigh(x, UPLO="M")  # E: reportArgumentType
    np.tanhh(x)  # E: reportAttributeAccessIssue


async def transforms(x: ag.Tensor, labels: numpy.ndarray) -> None:
    def loss(w: ag.Tensor, scale: float) -> ag.Tensor:
        return nn.cross_entropy(nn.relu(w * scale), labels)

    await loss(x, 2.0).backward()
    await ag.func.grad(loss)(x, 2.0)
    value, gradient = sync.func.value_and_grad(loss)(x, 2.0)
    assert_type(await ag.func.grad(loss, (0, 1))(x, 2.0), tuple[Any, ...])
    assert_type(await ag.func.grad(loss, has_aux=True)(x, 2.0), tuple[Any, Any])
    assert_type(sync.func.value_and_grad(loss)(x, scale=2.0), tuple[Any, Any])
    print(await ag.func.grad(ag.func.grad(np.sin))(1.0), sync.func.hessian(lambda z: (z**3).sum())(x))
    ag.func.grad(loss)(x, 2.0)  # E: reportUnusedCoroutine
    await ag.func.grad(loss)(x)  # E: reportCallIssue
    await ag.func.jacrev(loss)(x, 2.0, 3.0)  # E: reportCallIssue
    sync.func.grad(loss)(x, rate=2.0)  # E: reportCallIssue
    sync.func.value_and_grad(x)  # E: reportArgumentType
    nn.relu(x).backward()  # E: reportUnusedCoroutine
    assert_type(nn.linear(labels, x), ag.Tensor)
    optim.SGD([x], lr=0.1).step()
    nn.gelu(x, approximated="tanh")  # E: reportCallIssue
    nn.mse_loss(x, labels, reduced=True)  # E: reportCallIssue
    optim.SGD([x], rate=0.1)  # E: reportCallIssue
    print(value, gradient)
"""


def findings(*programs: pathlib.Path) -> dict[str, list[tuple[int, str]]]:
    """Return the lines that pyright finds fault with, and its rules, by the name of the program."""
    command = [PYRIGHT, "--outputjson", "--pythonpath", sys.executable, *programs]
    told = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True, check=False, timeout=100)
    found: dict[str, list[tuple[int, str]]] = {program.name: [] for program in programs}
    for finding in json.loads(told.stdout)["generalDiagnostics"]:
        line = finding["range"]["start"]["line"] + 1
        found[pathlib.Path(finding["file"]).name].append((line, finding.get("rule", finding["message"])))
    # Some versions of pyright find two faults in one call.
    return {name: sorted(set(lines)) for name, lines in found.items()}


def test_pyright_finds_nothing_in_the_readme_and_every_fault_of_a_program(tmp_path: pathlib.Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    examples = [tmp_path / f"example_{number}.py" for number in range(len(EXAMPLES))]
    for path, text in zip(examples, EXAMPLES, strict=True):
        path.write_text(textwrap.dedent(text))
    faults = [
        (number, line.partition("# E: ")[2]) for number, line in enumerate(PROGRAM.splitlines(), 1) if "# E: " in line
    ]

    assert findings(program, *examples) == {"program.py": faults, **{path.name: [] for path in examples}}
