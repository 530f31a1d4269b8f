"""The names of the namespace, each made when it is first asked for."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.settings.lazy import import_deferred, missing_name
from .array_type import ndarray
from .creation import CREATION
from .inspection import ArrayNamespaceInfo
from .standard import STANDARD
from .wrapping import Explain, IndexTrick, wrap_creation, wrap_function, wrap_ufunc

__all__ = ["CREATES", "attach_names"]

#: Functions that also take the device of the Tensor that they make, and whether it requires grad.
CREATES = {
    "arange",
    "empty",
    "empty_like",
    "eye",
    "full_like",
    "identity",
    "linspace",
    "ones",
    "ones_like",
    "tri",
    "zeros",
    "zeros_like",
}
#: The modules of NumPy that this package has a module for.
_OURS = {"fft", "linalg", "polynomial", "random"}
#: What the array API standard wants to know of a namespace.
_ABOUT: dict[str, Any] = {"__array_api_version__": "2024.12", "__array_namespace_info__": ArrayNamespaceInfo}
#: The names that stand for more than a function of NumPy with Tensors as results.
_OTHERWISE: dict[str, Callable[..., Any]] = {**CREATION, **STANDARD, "ndarray": ndarray}
_INDEX_TRICKS = {"c_", "mgrid", "ogrid", "r_"}


def attach_names(
    module: str, explain: Callable[[np.ufunc, str], Explain] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a module with the names of NumPy's module of that name.

    Args:
        module: `asyncgrad.numpy` or one of its modules.
        explain: takes a ufunc and its name, and returns what words its errors, if it is not NumPy.
    """
    space = vars(sys.modules[module])
    source = importlib.import_module(module.removeprefix("asyncgrad."))

    def __getattr__(name: str) -> Any:  # noqa: N807
        if name == "__all__":
            return __dir__()
        if name.startswith("__") and name not in _ABOUT and name != "__version__":
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = space[name] = _made(module, source, name, explain)
        return value

    def __dir__() -> list[str]:  # noqa: N807
        return sorted(name for name in dir(source) if not name.startswith("_"))

    return __getattr__, __dir__


def _made(
    module: str, source: types.ModuleType, name: str, explain: Callable[[np.ufunc, str], Explain] | None = None
) -> Any:
    """Return what a name of the namespace stands for.

    Raises:
        AttributeError: NumPy has no such name.
    """
    if source is np and name in _OURS:
        return importlib.import_module(f"{module}.{name}")
    if source is np and name in _ABOUT:
        return _ABOUT[name]
    if source is np and name == "special" and "scipy.special" in sys.modules:
        # Where SciPy looks for the special functions of tensors, with SCIPY_ARRAY_API=1.
        return import_deferred("scipy.special")
    path = f"{source.__name__}.{name}".removeprefix("numpy.")
    if path in _OTHERWISE:
        return _OTHERWISE[path]
    try:
        found = getattr(source, name)
    except AttributeError:
        # The frame that asks `__getattr__`, which has called this.
        raise missing_name(module, name, sys._getframe(2), f", for NumPy {np.__version__} has none") from None
    # SciPy wraps its ufuncs with SCIPY_ARRAY_API=1.
    ufunc = getattr(found, "__wrapped__", found)
    if isinstance(ufunc, np.ufunc):
        return _at_home(wrap_ufunc(ufunc, name, None if explain is None else explain(ufunc, name)), module)
    if name in _INDEX_TRICKS:
        return IndexTrick(found)
    if isinstance(found, (type, types.ModuleType)) or not callable(found):
        return found
    return _at_home(wrap_creation(found, name) if name in CREATES else wrap_function(found, name), module)


def _at_home(wrapped: Callable[..., Any], module: str) -> Callable[..., Any]:
    """Name the module that shows a function, where the function is not NumPy's and so cannot tell."""
    if not module.startswith("asyncgrad.numpy"):
        wrapped.__module__ = module
        theirs = module.removeprefix("asyncgrad.")
        wrapped.__doc__ = f"The function `{theirs}.{wrapped.__name__}`, with Tensors as results."
    return wrapped
