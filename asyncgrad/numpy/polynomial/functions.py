"""The names of the modules of polynomials: one function for each basis, under NumPy's name."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from ...core.settings.lazy import missing_name
from ..wrapping import wrap_function
from .basis import BASES, Basis
from .series import FUNCTIONS, from_powers

__all__ = ["attach_functions"]


def attach_functions(module: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a module of series of one basis."""
    space = vars(sys.modules[module])
    basis = BASES[module.rpartition(".")[2]]

    def __getattr__(name: str) -> Any:  # noqa: N807
        if name == "__all__":
            return __dir__()
        if name not in basis.module.__all__:
            raise missing_name(module, name, sys._getframe(1))
        value = space[name] = _made(module, basis, name)
        return value

    def __dir__() -> list[str]:  # noqa: N807
        return sorted(name for name in basis.module.__all__ if not isinstance(getattr(basis.module, name), type))

    return __getattr__, __dir__


def _made(module: str, basis: Basis, name: str) -> Any:
    """Return what a name stands for: a function of series, one that makes points, or a constant of NumPy's."""
    numpys = getattr(basis.module, name)
    function = from_powers if name == f"poly2{basis.prefix}" else FUNCTIONS.get(name.removeprefix(basis.prefix))
    if function is None or not callable(numpys):
        return wrap_function(numpys, name) if callable(numpys) and not isinstance(numpys, type) else numpys
    made = functools.partial(function, basis)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return made(*args, **kwargs)

    # NumPy's signature.
    functools.update_wrapper(wrapped, numpys, assigned=(), updated=())
    wrapped.__name__ = wrapped.__qualname__ = name
    wrapped.__module__ = module
    wrapped.__doc__ = f"{(function.__doc__ or '').splitlines()[0]}\n\nAs `{numpys.__module__}.{name}`."
    return wrapped
