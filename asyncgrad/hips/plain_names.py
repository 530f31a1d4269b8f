"""Names of NumPy and SciPy whose functions return their own arrays, and Tensors where an argument is one."""

from __future__ import annotations

import functools
import importlib
import types
from collections.abc import Callable
from typing import Any, final

import numpy as np

from ..core.tensor import Tensor

__all__ = ["attach_names", "make_distribution", "named_in"]


def attach_names(
    module: dict[str, Any], theirs: str, ours: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a module.

    Args:
        module: the names of the module, which keep what has been asked for.
        theirs: the module of NumPy or SciPy that has the names.
        ours: the module of asyncgrad that has their differentiable forms.
    """

    def __getattr__(name: str) -> Any:  # noqa: N807
        if name == "__all__":
            return __dir__()
        if name.startswith("__") and name != "__version__":
            raise AttributeError(f"module {module['__name__']!r} has no attribute {name!r}")
        value = module[name] = named_in(theirs, ours, name)
        return value

    def __dir__() -> list[str]:  # noqa: N807
        return sorted(name for name in dir(importlib.import_module(theirs)) if not name.startswith("_"))

    return __getattr__, __dir__


def named_in(theirs: str, ours: str, name: str) -> Any:
    """Return what stands for a name of two modules: see `attach_names`."""
    source, differentiable = importlib.import_module(theirs), importlib.import_module(ours)
    return _chosen(getattr(source, name), getattr(differentiable, name, None))


def make_distribution(name: str) -> None:
    """Have a module be the distribution of `scipy.stats` that its name ends with: it has its methods, and is called."""
    module = importlib.import_module(name)  # itself, which is being imported
    module.__class__ = _DistributionModule


def _chosen(theirs: Any, ours: Any) -> Any:
    """Return what stands for a name: theirs where ours is no other, else what chooses between the two in each call."""
    if ours is None or ours is theirs or isinstance(theirs, (type, types.ModuleType)):
        return theirs
    if isinstance(theirs, np.ufunc) and theirs.__class__ is np.ufunc:
        # It dispatches by itself, and has methods beside.
        return theirs
    if not callable(theirs):
        return _Indexed(theirs, ours) if hasattr(theirs, "__getitem__") and hasattr(ours, "__getitem__") else theirs
    if not isinstance(theirs, (types.FunctionType, types.BuiltinFunctionType)) and hasattr(theirs, "logpdf"):
        return Distribution(theirs, ours)
    return _either(theirs, ours)


def _either(theirs: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return (ours if _holds_tensor(args) or _holds_tensor(kwargs) else theirs)(*args, **kwargs)

    functools.update_wrapper(call, theirs)
    return call


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, Tensor):
        return True
    if isinstance(value, (list, tuple)):
        return any(map(_holds_tensor, value))
    return isinstance(value, dict) and any(map(_holds_tensor, value.values()))


@final
class _Indexed:
    """What makes arrays by an index, as `r_` does."""

    __slots__ = ("_ours", "_theirs")

    def __init__(self, theirs: Any, ours: Any) -> None:
        self._theirs = theirs
        self._ours = ours

    def __getitem__(self, index: Any) -> Any:
        return (self._ours if _holds_tensor(index) else self._theirs)[index]


@final
class Distribution:
    """A distribution of `scipy.stats`, whose methods return arrays, and Tensors where an argument is one."""

    __slots__ = ("ours", "theirs")

    def __init__(self, theirs: Any, ours: Any) -> None:
        self.theirs = theirs
        self.ours = ours

    def __getattr__(self, name: str) -> Any:
        return _chosen(getattr(self.theirs, name), getattr(self.ours, name, None))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the distribution with its parameters fixed."""
        return _either(self.theirs, self.ours)(*args, **kwargs)


@final
class _DistributionModule(types.ModuleType):
    """A module whose names are the methods of a distribution of `scipy.stats`."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = getattr(self._distribution(), name)
        setattr(self, name, value)
        return value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the distribution with its parameters fixed."""
        return self._distribution()(*args, **kwargs)

    def __dir__(self) -> list[str]:
        return sorted(name for name in dir(self._distribution().theirs) if not name.startswith("_"))

    def _distribution(self) -> Distribution:
        name = self.__name__.rpartition(".")[2]
        theirs, ours = (importlib.import_module(f"{package}.stats") for package in ("scipy", "asyncgrad.scipy"))
        return Distribution(getattr(theirs, name), getattr(ours, name))
