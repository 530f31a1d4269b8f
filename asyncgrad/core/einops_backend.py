"""einops on tensors: `einops.rearrange(t, "b c -> c b")` and all its other functions, with gradients.

einops asks the subclasses of its AbstractBackend which of them knows a type. So a subclass is made as soon as both
asyncgrad and einops have been imported, in whichever order; asyncgrad itself imports nothing of einops.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, cast, final

import numpy as np

from .arrays.tensor_base import TensorBase

__all__ = ["register_with_einops"]

_MODULE = "einops._backends"


def register_with_einops() -> None:
    """Tell einops of tensors: at once if it has been imported, else as soon as it is."""
    module = sys.modules.get(_MODULE)
    if module is None:
        sys.meta_path.insert(0, _Finder())
    else:
        _register(module)


def _register(module: ModuleType) -> None:
    backend = type("AsyncgradBackend", (_TensorBackend, vars(module)["AbstractBackend"]), {})
    # A class knows its subclasses by weak references only: einops' module keeps this one alive.
    vars(module)[backend.__name__] = backend


class _TensorBackend:
    """Abstract: what einops asks of a backend beyond what its AbstractBackend does with the methods of an array."""

    framework_name = "asyncgrad"

    def is_appropriate_type(self, tensor: Any) -> bool:
        return isinstance(tensor, TensorBase)

    def to_numpy(self, x: Any) -> Any:
        return x.numpy()

    def stack_on_zeroth_dimension(self, tensors: Sequence[Any]) -> Any:
        return np.stack(tensors)

    def concat(self, tensors: Sequence[Any], axis: int) -> Any:
        return np.concatenate(tensors, axis=axis)

    def tile(self, x: Any, repeats: tuple[int, ...]) -> Any:
        return np.tile(x, repeats)

    def add_axis(self, x: Any, new_position: int) -> Any:
        return np.expand_dims(x, new_position)

    def is_float_type(self, x: Any) -> bool:
        return x.dtype.kind in "fc"

    def einsum(self, pattern: str, *operands: Any) -> Any:
        return np.einsum(pattern, *operands)


@final
class _Finder:
    """Finds einops' module of backends where Python would, once, and has the backend registered when it has run."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _MODULE:
            return None
        # Another thread may have found the module at the same time, and removed this.
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = cast("Any", _RegisteringLoader(spec.loader))
        return spec


@final
class _RegisteringLoader:
    """Loads a module by another loader, and then registers the backend."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:
            # What asks the module for its source or its resources afterwards finds the loader that knows them.
            spec.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        _register(module)
