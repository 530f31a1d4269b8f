"""Containers of modules and of parameters."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, Self, SupportsIndex, TypeVar, final, overload

from ...core.settings.arguments import describe, must_be, takes, whole_number
from ...core.settings.awaiting import pass_through
from ...core.tensor import Tensor
from ...errors import ArgumentError, ArgumentTypeError
from .module import Module, Parameter

if TYPE_CHECKING:
    from ...core.arrays.array_like import TensorLike


__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]

Part = TypeVar("Part")
T = TypeVar("T")
#: Parts of a module by name: a mapping, or pairs.
Named = Mapping[str, Part] | Iterable[tuple[str, Part]]


class _NumberedModules(Module):
    """Abstract base of modules that hold others in order."""

    def _named(self) -> dict[str, Module]:
        """Return the modules in order, by the names of their attributes."""
        return {name: module for name, module in vars(self).items() if name.isdigit()}

    def _all(self) -> list[Module]:
        return list(self._named().values())

    def __len__(self) -> int:
        return len(self._named())

    def __iter__(self) -> Iterator[Module]:
        return iter(self._all())

    def _set_all(self, modules: Iterable[Module]) -> None:
        """Put modules in place of those that are there, with numbers for names."""
        if isinstance(modules, Module) and not isinstance(modules, Iterable):
            name = type(self).__name__
            raise ArgumentTypeError(takes(name, "a list of modules", modules, f"write nn.{name}([module])"))
        self._replace({str(number): module for number, module in enumerate(modules)})

    def _replace(self, named: Mapping[str, Module]) -> None:
        for module in named.values():
            _check_module(module, type(self).__name__)
        for name in self._named():
            delattr(self, name)
        for name, module in named.items():
            setattr(self, name, module)

    @overload
    def __getitem__(self, index: SupportsIndex) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Module | Self:
        if isinstance(index, slice):
            return self._like(dict(list(self._named().items())[index]))
        return self._named()[self._name_at(index)]

    def _like(self, named: dict[str, Module]) -> Self:
        """Return another one of this class with other modules."""
        kind: Any = type(self)
        return kind(named.values())

    def _name_at(self, index: Any) -> str:
        if not hasattr(index, "__index__"):
            raise ArgumentTypeError(must_be("the index of a module", "an int or a slice", index))
        names = list(self._named())
        try:
            name: str = names[index]
        except IndexError:
            raise IndexError(f"{type(self).__name__} has {len(names)} modules, and none at index {index}") from None
        return name

    def __setitem__(self, index: SupportsIndex, module: Module) -> None:
        _check_module(module, type(self).__name__)
        setattr(self, self._name_at(index), module)

    def __delitem__(self, index: SupportsIndex | slice) -> None:
        named = self._named()
        for name in list(named)[index] if isinstance(index, slice) else [self._name_at(index)]:
            del named[name]
        self._renumber(named)

    def _renumber(self, named: dict[str, Module]) -> None:
        """Put modules in place of those that are there; their names are their numbers, if all are numbers."""
        if all(name.isdigit() for name in named):
            self._set_all(list(named.values()))
        else:
            self._replace(named)

    def append(self, module: Module) -> Self:
        """Append a module; return this one."""
        _check_module(module, type(self).__name__)
        setattr(self, self._free_name(), module)
        return self

    def _free_name(self) -> str:
        names = self._named()
        return next(str(number) for number in count(len(names)) if str(number) not in names)

    def extend(self, modules: Iterable[Module]) -> Self:
        """Append modules; return this one."""
        if not isinstance(modules, Iterable):
            raise ArgumentTypeError(takes("extend", "an iterable of modules", modules))
        for module in (given := list(modules)):
            _check_module(module, type(self).__name__)
        for module in given:
            self.append(module)
        return self

    def __add__(self, modules: Iterable[Module]) -> Self:
        return self._like(self._named()).extend(modules)

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def insert(self, index: int, module: Module) -> Self:
        """Insert a module before an index; return this one."""
        _check_module(module, type(self).__name__)
        items = list(self._named().items())
        items.insert(index, (self._free_name(), module))
        self._renumber(dict(items))
        return self

    def pop(self, index: SupportsIndex = -1) -> Module:
        """Take out the module at an index, and return it."""
        module = self[index]
        del self[index]
        return module


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

    def _named(self) -> dict[str, Module]:
        return {name: module for name, module in vars(self).items() if isinstance(module, Module)}

    def _like(self, named: dict[str, Module]) -> Self:
        return Sequential(named)

    def __mul__(self, times: SupportsIndex) -> Self:
        modules = self._all() * _times(times)
        return Sequential(*modules)

    def __rmul__(self, times: SupportsIndex) -> Self:
        return self * times

    def __imul__(self, times: SupportsIndex) -> Self:
        return self.extend(self._all() * (_times(times) - 1))

    def forward(self, input: object) -> Any:
        """Return the output of the last module; an awaitable if one of them is async."""
        return pass_through(self._all(), input)


@final
class ModuleList(_NumberedModules):
    """A list of modules, whose parameters are those of the module that has it.

    Args:
        modules: the modules, in order; None for an empty list.

    Source: torch.nn.ModuleList.
    """

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        self._set_all(modules)

    def forward(self, *args: object, **kwargs: object) -> Any:
        """Refuse to be called: a list does not say in which order its modules are.

        Raises:
            NotImplementedError: always; says what to write instead.
        """
        raise NotImplementedError(
            "a ModuleList is not called: write `for module in modules: x = module(x)`, or make an nn.Sequential"
        )


class _NamedParts(Module, Generic[Part]):
    """Abstract base of modules that hold modules or parameters by name, as a dict does."""

    @abstractmethod
    def __getitem__(self, key: str) -> Part: ...

    @abstractmethod
    def items(self) -> Iterable[tuple[str, Part]]:
        """Return the names with what they stand for."""

    def __delitem__(self, key: str) -> None:
        self[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self.keys())

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def keys(self) -> list[str]:
        """Return the names."""
        return [name for name, _ in self.items()]

    def values(self) -> list[Part]:
        """Return what the names stand for."""
        return [part for _, part in self.items()]

    def pop(self, key: str) -> Part:
        """Take out what a name stands for, and return it."""
        part = self[key]
        del self[key]
        return part

    def clear(self) -> None:
        """Take out all."""
        for name in self.keys():
            del self[name]


@final
class ModuleDict(_NamedParts[Module]):
    """A dict of modules, whose parameters are those of the module that has it.

    Args:
        modules: modules by name, or pairs of a name and a module; None for an empty dict.

    Source: torch.nn.ModuleDict.
    """

    def __init__(self, modules: Named[Module] | None = None) -> None:
        self.update({} if modules is None else modules)

    def update(self, modules: Named[Module] | ModuleDict) -> None:  # type: ignore[override]  # as a dict
        """Set modules by name: those of a mapping, or of pairs of a name and a module."""
        for name, module in _pairs(modules).items():
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

    def forward(self, *args: object, **kwargs: object) -> Any:
        """Refuse to be called: which module is meant is for the caller to say.

        Raises:
            NotImplementedError: always; says what to write instead.
        """
        raise NotImplementedError("a ModuleDict is not called: call one of its modules, modules['name'](x)")

    def __contains__(self, key: object) -> bool:
        return isinstance(vars(self).get(key), Module)  # type: ignore[call-overload]  # any object may be asked for

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

    def __init__(self, values: Iterable[TensorLike] = ()) -> None:
        for value in values:
            self.append(value)

    def _all(self) -> list[Tensor]:
        return [value for name, value in vars(self).items() if name.isdigit()]

    def append(self, value: TensorLike) -> ParameterList:
        """Append a parameter; return this list."""
        self.register_parameter(str(len(self)), value if isinstance(value, Tensor) else Parameter(value))
        return self

    def extend(self, values: Iterable[TensorLike]) -> ParameterList:
        """Append parameters; return this list."""
        if not isinstance(values, Iterable):
            raise ArgumentTypeError(takes("extend", "an iterable of tensors", values))
        for value in list(values):
            self.append(value)
        return self

    def __iadd__(self, values: Iterable[TensorLike]) -> Self:
        self.extend(values)
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

    def __setitem__(self, index: int, value: TensorLike) -> None:
        name = str(range(len(self))[index])
        self.register_parameter(name, value if isinstance(value, Tensor) else Parameter(value))


@final
class ParameterDict(_NamedParts[Tensor]):
    """A dict of parameters of the module that has it.

    Args:
        parameters: tensors by name; arrays become parameters.

    Source: torch.nn.ParameterDict.
    """

    def __init__(self, parameters: Named[TensorLike] | None = None) -> None:
        self.update({} if parameters is None else parameters)

    def update(self, parameters: Named[TensorLike] | ParameterDict) -> None:  # type: ignore[override]  # as a dict
        """Set parameters by name: those of a mapping, or of pairs of a name and a value."""
        for name, value in _pairs(parameters).items():
            self[name] = value

    def get(self, key: str, default: T | None = None) -> Tensor | T | None:
        """Return the parameter of a name, or the default where there is none."""
        found: Any = vars(self)[key] if key in self else default
        return found

    def setdefault(self, key: str, default: TensorLike | None = None) -> Tensor:
        """Return the parameter of a name, which is set to the default where there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def popitem(self) -> tuple[str, Tensor]:
        """Take out the last parameter; return its name and itself."""
        if not len(self):
            raise KeyError("there is no parameter")
        name = self.keys()[-1]
        return name, self.pop(name)

    def copy(self) -> ParameterDict:
        """Return a new dict of the same parameters."""
        return ParameterDict(self.items())

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Return a new dict with one value for all names."""
        return ParameterDict(dict.fromkeys(keys, default))

    def __or__(self, other: Mapping[str, TensorLike] | ParameterDict) -> ParameterDict:
        copied = self.copy()
        copied.update(other)
        return copied

    def __ior__(self, other: Mapping[str, TensorLike] | ParameterDict) -> Self:
        self.update(other)
        return self

    def __reversed__(self) -> Iterator[str]:
        return reversed(self.keys())

    def __getitem__(self, key: str) -> Tensor:
        if key not in self._record.parameters:
            raise KeyError(f"there is no parameter {key!r}, but {', '.join(map(repr, self.keys())) or 'none'}")
        found: Tensor = vars(self)[key]
        return found

    def __setitem__(self, key: str, value: Any) -> None:
        _check_name(self, key)
        self.register_parameter(key, value if isinstance(value, Tensor) else Parameter(value))

    def __contains__(self, key: object) -> bool:
        return key in self._record.parameters

    def items(self) -> Iterable[tuple[str, Tensor]]:
        """Return the names with the parameters."""
        return [(name, vars(self)[name]) for name in self._record.parameters]


def _pairs(given: Any) -> dict[str, Any]:
    """Return what a dict is updated by: a mapping, one of these dicts, or pairs of a name and a value."""
    if isinstance(given, _NamedParts):
        return dict(given.items())
    if not isinstance(given, Iterable):
        raise ArgumentTypeError(takes("update", "a dict, or pairs of a name and a value", given))
    try:
        return dict(given)
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(
            takes("update", "a dict, or pairs of a name and a value", given, 'write {"name": module}')
        ) from error


def _times(times: Any) -> int:
    """Return how often the modules of a sequence are to be called."""
    return whole_number(times, "the number of repetitions", 1)


def _check_module(module: Any, where: str) -> None:
    if not isinstance(module, Module):
        if inspect.isclass(module) and issubclass(module, Module):
            hint = f": call it, to make an instance, as in {module.__name__}(...)"
        elif isinstance(module, (list, tuple)) and where == "Sequential":
            hint = ": write nn.Sequential(*modules)"
        elif callable(module):
            hint = ": write a Module whose forward calls it"
        else:
            hint = ""
        raise ArgumentTypeError(f"{where} holds modules, and not {describe(module)}{hint}")


def _check_name(module: Module, name: Any) -> None:
    if not isinstance(name, str) or not name or "." in name:
        raise ArgumentError(f"the name of a module's part is a non-empty string without dots, not {name!r}")
    if hasattr(type(module), name) or name in ("training", "_record"):
        raise ArgumentError(f"{name!r} is an attribute of every {type(module).__name__}: choose another name")
