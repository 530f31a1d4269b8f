"""Containers of modules and of parameters."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, final, overload

from ..arguments import describe
from ..errors import ArgumentError, ArgumentTypeError
from ..tensor import Tensor
from .module import Module, Parameter

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


class _NumberedModules(Module):
    """Abstract base of modules that hold others by number."""

    def _all(self) -> list[Module]:
        return [module for name, module in vars(self).items() if name.isdigit()]

    def __len__(self) -> int:
        return len(self._all())

    def __iter__(self) -> Iterator[Module]:
        return iter(self._all())

    def _set_all(self, modules: Iterable[Module]) -> None:
        given = list(modules)
        for module in given:
            _check_module(module, type(self).__name__)
        for name in [name for name in vars(self) if name.isdigit()]:
            delattr(self, name)
        for number, module in enumerate(given):
            setattr(self, str(number), module)

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> Any: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(*self._arguments(self._all()[index]))
        try:
            return self._all()[index]
        except IndexError:
            raise IndexError(f"{type(self).__name__} has {len(self)} modules, and none at index {index}") from None

    def _arguments(self, modules: list[Module]) -> tuple[Any, ...]:
        """Return the arguments that make another one of this class with other modules."""
        return (modules,)

    def __setitem__(self, index: int, module: Module) -> None:
        _check_module(module, type(self).__name__)
        setattr(self, str(range(len(self))[index]), module)

    def __delitem__(self, index: int | slice) -> None:
        modules = self._all()
        del modules[index]
        self._set_all(modules)

    def append(self, module: Module) -> Any:
        """Append a module; return this one."""
        _check_module(module, type(self).__name__)
        setattr(self, str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        """Append modules; return this one."""
        for module in list(modules):
            self.append(module)
        return self

    def __add__(self, modules: Iterable[Module]) -> Any:
        return type(self)(*self._arguments(self._all())).extend(modules)

    def __iadd__(self, modules: Iterable[Module]) -> Any:
        return self.extend(modules)

    def insert(self, index: int, module: Module) -> Any:
        """Insert a module before an index; return this one."""
        modules = self._all()
        modules.insert(index, module)
        self._set_all(modules)
        return self


@final
class Sequential(_NumberedModules):
    """Calls modules one after another, each with the output of the one before.

    If one of them is an `async def`, so is this one: its calls are awaited.

    Args:
        *modules: the modules; or one dict of them, whose keys are their names.

    Source: torch.nn.Sequential.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> from asyncgrad import nn
        >>> class Double(nn.Module):
        ...     def forward(self, x):
        ...         return 2 * x
        >>> nn.Sequential(Double(), Double())(np.ones(2))
        array([4., 4.])
    """

    def __init__(self, *modules: Any) -> None:
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            for name, module in modules[0].items():
                _check_module(module, "Sequential")
                _check_name(self, name)
                setattr(self, name, module)
        else:
            self._set_all(modules)

    def _all(self) -> list[Module]:
        return [module for module in vars(self).values() if isinstance(module, Module)]

    def _arguments(self, modules: list[Module]) -> tuple[Any, ...]:
        named = {name: module for name, module in vars(self).items() if isinstance(module, Module)}
        if all(name.isdigit() for name in named):
            return tuple(modules)
        return ({name: module for name, module in named.items() if any(module is one for one in modules)},)

    def forward(self, input: Any) -> Any:
        """Return the output of the last module; an awaitable if one of them is async."""
        modules = self._all()
        for number, module in enumerate(modules):
            input = module(input)
            if not isinstance(input, Tensor) and inspect.isawaitable(input):
                return self._forward_async(input, modules[number + 1 :])
        return input

    async def _forward_async(self, awaitable: Any, modules: list[Module]) -> Any:
        output = await awaitable
        for module in modules:
            output = module(output)
            if not isinstance(output, Tensor) and inspect.isawaitable(output):
                output = await output
        return output


@final
class ModuleList(_NumberedModules):
    """A list of modules, whose parameters are those of the module that has it.

    Source: torch.nn.ModuleList.
    """

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        self._set_all(modules)


@final
class ModuleDict(Module):
    """A dict of modules, whose parameters are those of the module that has it.

    Source: torch.nn.ModuleDict.
    """

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        self.update(modules or {})

    def update(self, modules: Mapping[str, Module]) -> None:  # type: ignore[override]  # as a dict
        """Set modules by name."""
        for name, module in dict(modules).items():
            self[name] = module

    def __getitem__(self, key: str) -> Module:
        found = vars(self).get(key)
        if not isinstance(found, Module):
            raise KeyError(f"there is no module {key!r}, but {', '.join(map(repr, self.keys())) or 'none'}")
        return found

    def __setitem__(self, key: str, module: Module) -> None:
        _check_module(module, "ModuleDict")
        _check_name(self, key)
        setattr(self, key, module)

    def __delitem__(self, key: str) -> None:
        self[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(list(self.keys()))

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, key: object) -> bool:
        return isinstance(vars(self).get(key), Module)  # type: ignore[call-overload]  # any object may be asked for

    def keys(self) -> Iterable[str]:
        """Return the names."""
        return [name for name, _ in self.items()]

    def values(self) -> Iterable[Module]:
        """Return the modules."""
        return [module for _, module in self.items()]

    def items(self) -> Iterable[tuple[str, Module]]:
        """Return the names with the modules."""
        return [(name, module) for name, module in vars(self).items() if isinstance(module, Module)]


@final
class ParameterList(Module):
    """A list of parameters of the module that has it.

    Args:
        values: tensors; arrays become parameters.

    Source: torch.nn.ParameterList.
    """

    def __init__(self, values: Iterable[Any] = ()) -> None:
        for value in values:
            self.append(value)

    def _all(self) -> list[Tensor]:
        return [value for name, value in vars(self).items() if name.isdigit()]

    def append(self, value: Any) -> ParameterList:
        """Append a parameter; return this list."""
        self.register_parameter(str(len(self)), value if isinstance(value, Tensor) else Parameter(value))
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Append parameters; return this list."""
        for value in list(values):
            self.append(value)
        return self

    def __len__(self) -> int:
        return len(self._all())

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self._all())

    @overload
    def __getitem__(self, index: int) -> Tensor: ...
    @overload
    def __getitem__(self, index: slice) -> ParameterList: ...
    def __getitem__(self, index: int | slice) -> Tensor | ParameterList:
        found = self._all()[index]
        return ParameterList(found) if isinstance(found, list) else found

    def __setitem__(self, index: int, value: Any) -> None:
        name = str(range(len(self))[index])
        self.register_parameter(name, value if isinstance(value, Tensor) else Parameter(value))


@final
class ParameterDict(Module):
    """A dict of parameters of the module that has it.

    Args:
        parameters: tensors by name; arrays become parameters.

    Source: torch.nn.ParameterDict.
    """

    def __init__(self, parameters: Mapping[str, Any] | None = None) -> None:
        self.update(parameters or {})

    def update(self, parameters: Mapping[str, Any]) -> None:  # type: ignore[override]  # as a dict
        """Set parameters by name."""
        for name, value in dict(parameters).items():
            self[name] = value

    def __getitem__(self, key: str) -> Tensor:
        if key not in self._record.parameters:
            raise KeyError(f"there is no parameter {key!r}, but {', '.join(map(repr, self.keys())) or 'none'}")
        found: Tensor = vars(self)[key]
        return found

    def __setitem__(self, key: str, value: Any) -> None:
        _check_name(self, key)
        self.register_parameter(key, value if isinstance(value, Tensor) else Parameter(value))

    def __delitem__(self, key: str) -> None:
        self[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._record.parameters)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, key: object) -> bool:
        return key in self._record.parameters

    def keys(self) -> Iterable[str]:
        """Return the names."""
        return list(self._record.parameters)

    def values(self) -> Iterable[Tensor]:
        """Return the parameters."""
        return [vars(self)[name] for name in self.keys()]

    def items(self) -> Iterable[tuple[str, Tensor]]:
        """Return the names with the parameters."""
        return [(name, vars(self)[name]) for name in self.keys()]


def _check_module(module: Any, where: str) -> None:
    if not isinstance(module, Module):
        hint = ": call it, to make an instance" if inspect.isclass(module) and issubclass(module, Module) else ""
        raise ArgumentTypeError(f"{where} holds modules, and not {describe(module)}{hint}")


def _check_name(module: Module, name: Any) -> None:
    if not isinstance(name, str) or not name or "." in name:
        raise ArgumentError(f"the name of a module's part is a non-empty string without dots, not {name!r}")
    if hasattr(type(module), name) or name in ("training", "_record"):
        raise ArgumentError(f"{name!r} is an attribute of every {type(module).__name__}: choose another name")
