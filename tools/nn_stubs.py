"""Write the stub of asyncgrad.nn, which tells type checkers that its functions return a Tensor if they are given one.

`python -m tools.nn_stubs` writes it; tests/numpy/test_stubs.py holds it to be current.
"""

from __future__ import annotations

import inspect
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

from asyncgrad import nn

__all__ = ["STUB", "stub", "write"]

STUB = pathlib.Path(__file__).parent.parent / "asyncgrad" / "nn" / "__init__.pyi"

_ARRAYS = {
    *("attn_mask", "bias", "indices", "input", "key", "labels", "pos_weight", "query", "target", "value"),
    *("anchor", "grid", "input1", "input2", "log_probs", "logits", "negative", "positive", "theta", "var", "weight"),
    *("index", "src", "x", "x1", "x2"),
}
#: The types of parameters that the functions themselves say less of.
_PARAMETERS = {
    **dict.fromkeys(
        ("dilation", "kernel_size", "normalized_shape", "output_padding", "stride"),
        "SupportsIndex | Sequence[SupportsIndex]",
    ),
    "rng": "np.random.Generator | Generator",
    **dict.fromkeys(("running_mean", "running_var"), "TensorLike"),
    "padding": "SupportsIndex | Sequence[SupportsIndex] | str",
}

#: What a function says that it returns whose result hangs on what it is given.
_VARYING = ("Any", "Tensor | np.ndarray")

_HEADER = '''"""Written by tools/nn_stubs.py: do not change it by hand."""

from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex, overload

import numpy as np
import numpy.typing as npt

from ..core.arrays.array_like import Lengths, NewLengths
from ..numpy import TensorLike
from ..numpy.random import Generator
from ..core.tensor import Tensor
'''


def stub() -> str:
    """Return the stub."""
    public = {name: getattr(nn, name) for name in sorted(nn.__all__)}
    typed = {name: entry for name, entry in public.items() if _is_typed(entry)}
    imports = sorted(f"from .{_module_of(entry)} import {name} as {name}" for name, entry in typed.items())
    lines = [_HEADER + "\n".join(imports) + "\n", f"__all__ = {list(public)!r}\n"]
    for name, function in public.items():
        if name not in typed:
            lines += _overloads(name, function)
    return "\n".join(lines) + "\n"


def _is_typed(entry: Any) -> bool:
    """Tell whether this is typed where it is: a class, a module, or a function whose result does not vary."""
    return not inspect.isfunction(entry) or entry.__annotations__.get("return") not in _VARYING


def _module_of(entry: Any) -> str:
    if inspect.ismodule(entry):
        return ""
    module: str = entry.__module__
    inside = module.removeprefix("asyncgrad.nn.")
    # Of the core, what stands for a tensor.
    return inside if inside != module else module.replace("asyncgrad", "", 1)


def _overloads(name: str, function: Callable[..., Any]) -> Iterator[str]:
    parameters = list(inspect.signature(function).parameters.values())
    required = [entry.name for entry in parameters if entry.name in _ARRAYS and entry.default is entry.empty]
    for tensor in (*required, None):
        result = "Any" if tensor is None else "Tensor"
        yield f"@overload\ndef {name}({', '.join(_parameters(parameters, tensor))}) -> {result}: ..."


def _parameters(parameters: list[inspect.Parameter], tensor: str | None) -> Iterator[str]:
    has_star = False
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not has_star:
            has_star = True
            yield "*"
        default = "" if parameter.default is parameter.empty else " = ..."
        yield f"{parameter.name}: {'Tensor' if parameter.name == tensor else _type_of(parameter)}{default}"


def _type_of(parameter: inspect.Parameter) -> str:
    known = "TensorLike" if parameter.name in _ARRAYS else _PARAMETERS.get(parameter.name)
    if known is None:
        return str(parameter.annotation).replace("Tensor | np.ndarray", "TensorLike")
    return f"{known} | None" if parameter.default is None or parameter.name.startswith("running") else known


def write() -> None:
    """Write the stub."""
    STUB.write_text(stub())


if __name__ == "__main__":
    write()
