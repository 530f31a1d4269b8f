"""Fused kernels on a real GPU, beside the formulas that they stand for, and what a launch takes the host.

`python -m tests.gpu.kernels` prints the formulas that differ, times, and the launches of a training step.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np

import asyncgrad as ag
from asyncgrad import nn, optim
from asyncgrad.core.ops.trigonometric import tanh
from asyncgrad.core.recording.kernels import FusedFormula
from asyncgrad.devices.cuda import install_functions
from asyncgrad.devices.cuda.kernels import CudaKernels
from tests.devices.host_kernels import HostArray
from tests.devices.test_cuda_kernels import PRECISION, compiled_formulas, drawn, expressions

#: Shapes of the gradient and of the other arrays: alike, a row, a column, one element, large, and other axes.
SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((64, 32), (64, 32)),
    ((64, 33), (33,)),
    ((63, 31), (63, 1)),
    ((5, 7), ()),
    ((1001, 1003), (1001, 1003)),
    ((3, 5, 7), (3, 1, 7)),
]


def cases() -> Iterator[tuple[str, Callable[..., Any], list[Any]]]:
    """Yield the formulas that have a kernel, with names and what they take."""
    for parameter in [*compiled_formulas(), *expressions()]:
        function, kinds = parameter.values
        yield str(parameter.id), function, kinds


def disagreement(cupy: Any, kernels: CudaKernels, function: Any, kinds: list[Any], dtype: str) -> str | None:
    """Return where the kernel of a formula differs from the formula on the GPU; None where it does not."""
    launch = kernels.launcher(function)
    for shape, other in SHAPES:
        host = drawn(kinds, dtype, shape)
        rest = drawn(kinds, dtype, other)
        arguments = [cupy.asarray(one.host) if isinstance(one, HostArray) else one for one in [host[0], *rest[1:]]]
        before = kernels.launches
        result = launch(*arguments)
        if kernels.launches != before + 1:
            return f"{shape} {other}: {kernels.launches - before} launches"
        # The formula may compute in place, in the memory of one of its arguments.
        whole = [
            cupy.broadcast_to(one, result.shape).copy() if isinstance(one, cupy.ndarray) else one for one in arguments
        ]
        expected = function(*whole)
        if (result.dtype, result.shape) != (expected.dtype, expected.shape):
            return f"{shape} {other}: {result.dtype}{result.shape}, not {expected.dtype}{expected.shape}"
        ours, right = result.get().astype("d"), expected.get().astype("d")
        if not np.allclose(ours, right, rtol=2 * PRECISION[dtype], atol=2 * PRECISION[dtype], equal_nan=True):
            return f"{shape} {other}: off by {np.max(np.abs(ours - right)):.1e}"
    return None


def disagreements(cupy: Any, kernels: CudaKernels) -> list[str]:
    """Return a line for each formula and dtype whose kernel differs."""
    found = []
    for name, function, kinds in cases():
        for dtype in "efd":
            try:
                line = disagreement(cupy, kernels, function, kinds, dtype)
            except Exception as error:
                line = f"{type(error).__name__}: {str(error).strip()[:300]}"
            if line is not None:
                found.append(f"{name} {dtype}: {line}")
    return found


def host_time(cupy: Any, function: Callable[[], Any]) -> float:
    """Return the microseconds of the host for one call, of the best of five rounds."""
    best, calls = float("inf"), 2000
    for _ in range(5):
        cupy.cuda.runtime.deviceSynchronize()
        began = time.perf_counter()
        for _ in range(calls):
            function()
        best = min(best, time.perf_counter() - began)
    cupy.cuda.runtime.deviceSynchronize()
    return best / calls * 1e6


def times(cupy: Any) -> Iterator[tuple[str, float]]:
    """Yield what calls take the host, in microseconds."""
    x, y = (cupy.full((128, 128), 0.5, "f") for _ in range(2))
    row = cupy.full(128, 0.5, "f")
    formula = tanh.formulas["x"].function
    fused, multiply, add, tanh_ = map(FusedFormula, (formula, np.multiply, np.add, np.tanh))
    tensor = ag.tensor(np.full((128, 128), 0.5, "f"), device="cuda:0", requires_grad=True)
    calls: dict[str, Callable[[], Any]] = {
        "cupy.ndarray(shape, dtype)": lambda: cupy.ndarray((128, 128), x.dtype),
        "cupy.tanh(x)": lambda: cupy.tanh(x),
        "x * y": lambda: x * y,
        "fused tanh(x)": lambda: tanh_(x),
        "fused x * y": lambda: multiply(x, y),
        "fused x + row": lambda: add(x, row),
        "fused x * 2.0": lambda: multiply(x, 2.0),
        "gradient of tanh, as written": lambda: formula(x, y),
        "gradient of tanh, fused": lambda: fused(x, y),
        "np.tanh(tensor), recorded": lambda: np.tanh(tensor),
    }
    for name, call in calls.items():
        call()
        yield name, host_time(cupy, call)


def train(kernels: CudaKernels, optimizer: Any, layers: int = 4, width: int = 128) -> tuple[int, int, float]:
    """Return the fused launches of a training step of an MLP, those of the optimizer among them, and microseconds."""
    rng = np.random.default_rng(0)
    weights, biases = (
        [ag.tensor(rng.standard_normal(shape).astype("f") / 8, device="cuda:0", requires_grad=True) for shape in shapes]
        for shapes in ([(width, width)] * layers, [(width,)] * layers)
    )
    x = ag.tensor(rng.standard_normal((64, width)).astype("f"), device="cuda:0")
    made = optimizer([*weights, *biases], lr=1e-3)
    launches = (0, 0)
    best = float("inf")
    for _ in range(50):
        began, before = time.perf_counter(), kernels.launches
        y = x
        for weight, bias in zip(weights, biases, strict=True):
            y = np.tanh(y @ weight + bias)
        ag.sync.backward(nn.mse_loss(y, x))
        middle = kernels.launches
        made.step()
        made.zero_grad()
        launches = kernels.launches - before, kernels.launches - middle
        best = min(best, time.perf_counter() - began)
    return *launches, best * 1e6


def say(line: str) -> None:
    """Write a line at once: a run may be cut short."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Print what differs, times and launches."""
    cupy = import_module("cupy")
    kernels = install_functions(cupy)
    for name, microseconds in times(cupy):
        say(f"{microseconds:6.1f} us  {name}")
    for optimizer in (optim.SGD, optim.Adam):
        for layers in (4, 40):
            whole, step, microseconds = train(kernels, optimizer, layers)
            name = f"MLP {layers} x 128, {optimizer.__name__}"
            say(f"{name}: {whole} fused launches, {step} of them to update, {microseconds:.0f} us")
    began = time.perf_counter()
    found = disagreements(cupy, kernels)
    say(f"{len(list(cases()))} formulas x 3 dtypes in {time.perf_counter() - began:.0f} s: {len(found)} differ")
    for line in found[:40]:
        say(line)


if __name__ == "__main__":
    main()
