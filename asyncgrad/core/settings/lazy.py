"""Facades whose names are imported when they are first asked for, so that `import asyncgrad` takes little time."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType

__all__ = ["attach", "import_deferred", "missing_name", "name_advisor"]

#: By a word, the module of the package that lower modules have imported only when it is needed. The package's facade,
#: which stands above all, puts them here before any other module runs.
_DEFERRED: dict[str, str] = {}


class _Facade(ModuleType):
    """Abstract: a package that shows names of its modules. A function may have the name of the module that it is in."""

    def __setattr__(self, name: str, value: Any) -> None:
        # The import of `asyncgrad.distributed.stage` binds that module to the package, where the function of that name
        # belongs.
        if isinstance(value, ModuleType) and name in self.__dict__["_functions"]:
            return
        super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it by its name: cloudpickle knows modules by their exact type, and packs what a function refers to."""
        return import_module, (self.__name__,)


def import_deferred(word: str) -> Any:
    """Import the module that the facade names for a word, and return it; a module puts what others need into tables.

    So a lower module needs no name of a higher one: rules for SciPy come once SciPy meets a tensor.
    """
    return import_module(_DEFERRED[word])


def missing_name(module: str, name: str, asking: FrameType, why: str = "") -> AttributeError | ImportError:
    """Return the error for a name that a module does not have, which says what to write instead.

    Args:
        module: as `asyncgrad.nn`.
        name: what was asked for.
        asking: the frame that asks. For `from module import name` it is an ImportError, since Python would replace an
            AttributeError by one of its own, without the advice.
        why: what explains that there is none, where nobody knows what to write.
    """
    # Python itself asks for names that begin so, and shows no message.
    private = name.startswith("_")
    advice = "" if private else import_deferred("names").advice_on(module, name, dir(sys.modules[module]))
    # In a circle of imports Python goes on to look among the modules.
    if advice and f"{module}.{name}" not in sys.modules and _imports_from(asking):
        return ImportError(f"cannot import name {name!r} from {module!r}{advice}", name=module)
    # With a name and no object, Python adds no guess of its own.
    return AttributeError(f"module {module!r} has no attribute {name!r}{advice or why}", name=name)


def _imports_from(frame: FrameType) -> bool:
    """Whether what a frame does is `from module import name`."""
    done: bool = frame.f_code.co_code[frame.f_lasti] == import_module("opcode").opmap["IMPORT_FROM"]
    return done


def name_advisor(module: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module that imports all its names at once; its errors say what to write."""

    def __getattr__(name: str) -> Any:  # noqa: N807
        raise missing_name(module, name, sys._getframe(1))

    return __getattr__


def attach(
    package: str,
    homes: Mapping[str, Sequence[str]],
    first: str = "",
    deferred: Mapping[str, str] | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a facade.

    Args:
        package: its name, or that of a module.
        homes: by module, as the facade writes it in `from .module import name`, the names that it shows; those under
            "" are modules themselves.
        first: a module to import before any other. What users begin with is then loaded as a whole by the first name
            that they use, and not piece by piece in a running event loop.
        deferred: by a word, modules that `import_deferred` imports for those that stand below them.
    """
    home_of = {name: home for home, names in homes.items() for name in names}
    facade = sys.modules[package]
    # A package itself, or that which a module is in.
    anchor = facade.__package__
    facade.__dict__["_functions"] = frozenset(name for name, home in home_of.items() if home)
    facade.__class__ = _Facade
    _DEFERRED.update({word: package + module for word, module in (deferred or {}).items()})

    def __getattr__(name: str) -> Any:  # noqa: N807
        home = home_of.get(name)
        if home is None:
            raise missing_name(package, name, sys._getframe(1))
        if first:
            import_module(first, anchor)
        value = getattr(import_module(home, anchor), name) if home else import_module(f".{name}", anchor)
        facade.__dict__[name] = value
        return value

    def __dir__() -> list[str]:  # noqa: N807
        return sorted(home_of)

    return __getattr__, __dir__
