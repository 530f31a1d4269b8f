"""Write the stub of asyncgrad.scipy.special, which tells type checkers that SciPy's functions return Tensors there.

`python -m tools.special_stubs` writes it; tests/scipy/test_special_stubs.py holds it to be current.
"""

from __future__ import annotations

import inspect
import pathlib
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.special

from asyncgrad.scipy import SCIPY_VERSION, special

__all__ = ["STUB", "VERSION", "stub", "write"]

#: SciPy's names differ from one of its versions to the next.
VERSION = ".".join(SCIPY_VERSION.split(".")[:2])
STUB = pathlib.Path(__file__).parent.parent / "asyncgrad" / "scipy" / "special" / "__init__.pyi"

_HEADER = '''"""Written by tools/special_stubs.py for SciPy {version}: do not change it by hand."""

from typing import Any, Protocol

from ...numpy import TensorLike
from ...core.tensor import Tensor

class _Unary(Protocol):
    def __call__(self, x: TensorLike, /, **kwargs: Any) -> Tensor: ...

class _Binary(Protocol):
    def __call__(self, x: TensorLike, y: TensorLike, /, **kwargs: Any) -> Tensor: ...

class _Ternary(Protocol):
    def __call__(self, x: TensorLike, y: TensorLike, z: TensorLike, /, **kwargs: Any) -> Tensor: ...

class _Quaternary(Protocol):
    def __call__(self, w: TensorLike, x: TensorLike, y: TensorLike, z: TensorLike, /, **kwargs: Any) -> Tensor: ...

class _Several(Protocol):
    def __call__(self, *args: TensorLike, **kwargs: Any) -> tuple[Tensor, ...]: ...
'''
_KINDS = {1: "_Unary", 2: "_Binary", 3: "_Ternary", 4: "_Quaternary"}


def stub() -> str:
    """Return the stub."""
    lines = [_HEADER.format(version=VERSION)]
    for name in sorted(dir(special)):
        lines += _entry(name, getattr(special, name), getattr(scipy.special, name))
    return "\n".join(lines) + "\n"


def _entry(name: str, ours: Any, theirs: Any) -> Iterator[str]:
    # The public function wraps that of a module, to name it in errors.
    module = getattr(inspect.unwrap(ours) if callable(ours) else ours, "__module__", None) or ""
    if isinstance(theirs, types.ModuleType):
        return
    if isinstance(theirs, np.ufunc):
        yield f"{name}: {_KINDS.get(theirs.nin, 'Any') if theirs.nout == 1 else '_Several'}"
    elif module.startswith("asyncgrad.scipy.special."):
        yield f"from .{module.rpartition('.')[2]} import {name} as {name}"
    else:
        # What SciPy makes of other functions, its constants and its errors.
        yield f"{name}: Any"


def write() -> None:
    """Write the stub."""
    STUB.write_text(stub())


if __name__ == "__main__":
    write()
