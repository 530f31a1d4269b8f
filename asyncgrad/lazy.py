"""Facades whose names are imported when they are first asked for, so that `import asyncgrad` takes little time."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["attach"]


class _Facade(ModuleType):
    """Abstract: a package that shows names of its modules. A function may have the name of the module that it is in."""

    def __setattr__(self, name: str, value: Any) -> None:
        # The import of `asyncgrad.tensor` binds that module to the package, where the function of that name belongs.
        if isinstance(value, ModuleType) and name in self.__dict__["_functions"]:
            return
        super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it by its name: cloudpickle knows modules by their exact type, and packs what a function refers to."""
        return import_module, (self.__name__,)


def attach(
    package: str, homes: Mapping[str, Sequence[str]], first: str = "", advice: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a facade.

    Args:
        package: its name.
        homes: by module of the package, as in `from .module import name`, the names that the facade shows; those under
            "" are modules themselves.
        first: a module to import before any other. What users begin with is then loaded as a whole by the first name
            that they use, and not piece by piece in a running event loop.
        advice: a module whose `instead_of(name)` says what to write for a name that the facade does not have.
    """
    home_of = {name: home for home, names in homes.items() for name in names}
    facade = sys.modules[package]
    facade.__dict__["_functions"] = frozenset(name for name, home in home_of.items() if home)
    facade.__class__ = _Facade

    def __getattr__(name: str) -> Any:  # noqa: N807
        home = home_of.get(name)
        if home is None:
            # Python itself asks for names that begin so, and shows no message.
            instead = import_module(advice, package).instead_of(name) if advice and not name.startswith("_") else None
            hint = "" if instead is None else f": write {instead}"
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
        if first:
            import_module(first, package)
        value = getattr(import_module(home, package), name) if home else import_module(f".{name}", package)
        facade.__dict__[name] = value
        return value

    def __dir__() -> list[str]:  # noqa: N807
        return sorted(home_of)

    return __getattr__, __dir__
