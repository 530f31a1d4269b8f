"""Parameters that are computed from others, whenever they are read, by a module that is registered for them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from operator import setitem
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ...core.arrays.interception import on_device_of
from ...core.graph.saved_hooks import prepare_write
from ...core.settings.arguments import must_be, truth
from ...core.settings.context import no_grad
from ...core.settings.lazy import name_advisor
from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError, ArgumentTypeError
from ..modules.containers import ModuleDict
from ..modules.module import Module, Parameter

__all__ = ["ParametrizationList", "is_parametrized", "register_parametrization", "remove_parametrizations"]

#: The attribute of a module that holds a ParametrizationList for each tensor that is computed.
_NAME = "parametrizations"


@final
class ParametrizationList(Module):
    """What a tensor of a module is computed from, and the modules that do it, one after the other.

    Its tensors are `original`, or `original0`, `original1` and so on where the first module takes several.

    Args:
        modules: what computes the tensor.
        original: the tensor before.
        unsafe: let the result have another shape or dtype.

    Source: torch.nn.utils.parametrize.ParametrizationList.
    """

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        self.unsafe: bool = truth(unsafe, "unsafe")
        self.is_tensor: bool = True
        self.ntensors: int = 1
        found: Any = original
        for module in reversed(modules):
            inverse = getattr(module, "right_inverse", None)
            # Some can be inverted with some options alone.
            with no_grad(), suppress(NotImplementedError):
                found = found if inverse is None else inverse(found)
        if isinstance(found, Tensor):
            # The tensor itself, so that an optimizer that has it goes on with it.
            self._keep("original", original, found)
        else:
            self.is_tensor, self.ntensors = False, len(found)
            for number, one in enumerate(found):
                setattr(self, f"original{number}", Parameter(one, original.requires_grad))
        for number, module in enumerate(modules):
            self.add_module(str(number), module)

    def _keep(self, name: str, original: Tensor, value: Tensor) -> None:
        if value is not original:
            original = Parameter(value, original.requires_grad)
        self.register_parameter(name, original)

    def _modules(self) -> list[Module]:
        return [one for name, one in vars(self).items() if name.isdigit()]

    def __len__(self) -> int:
        return len(self._modules())

    def __getitem__(self, index: int) -> Module:
        return self._modules()[index]

    def _originals(self) -> list[Tensor]:
        names = ["original"] if self.is_tensor else [f"original{number}" for number in range(self.ntensors)]
        return [getattr(self, name) for name in names]

    def forward(self) -> Tensor:
        """Return the tensor."""
        first, *others = self._modules()
        found: Any = first(*self._originals())
        for module in others:
            found = module(found)
        result: Tensor = found
        return result

    def right_inverse(self, value: Tensor | np.ndarray) -> None:
        """Write what the tensor is to be computed from so that it becomes a value.

        Raises:
            ArgumentError: a module cannot say from what: it has no `right_inverse`.
        """
        found: Any = asarray(value)
        with no_grad():
            for module in reversed(self._modules()):
                inverse = getattr(module, "right_inverse", None)
                if inverse is None:
                    raise ArgumentError(
                        f"a tensor that {type(module).__name__} computes can be set only if that has a right_inverse: "
                        "write `def right_inverse(self, value): ...` in it"
                    )
                found = inverse(found)
        for target, one in zip(self._originals(), [found] if self.is_tensor else found, strict=True):
            write_values(target, one)


def write_values(target: Tensor, value: Any) -> None:
    """Write values into a tensor in place, unrecorded."""
    prepare_write(target)
    on_device_of(target._data, setitem, ..., asarray(value).detach()._data)
    target._bump_version()


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Have a tensor of a module computed by another module, whenever it is read; return the first module.

    The tensor becomes `module.parametrizations.NAME.original`, which is trained in its place. To set it writes what
    `parametrization.right_inverse` returns of the value. A second one is called with the result of the first. The class
    of the module is from then on one of its own, and the module cannot be pickled; its state dict can.

    Args:
        module: the module.
        tensor_name: the name of a parameter or buffer.
        parametrization: the module that computes it, by its `forward`. If its `right_inverse` returns several tensors,
            it is called with these. One that raises a NotImplementedError is as none.
        unsafe: let the result have another shape or dtype.

    Raises:
        ArgumentError: there is no such tensor, or the result has another shape or dtype.
        ArgumentTypeError: one of them is no Module.

    Source: torch.nn.utils.parametrize.register_parametrization.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> class Symmetric(nn.Module):
        ...     def forward(self, x):
        ...         return np.triu(x) + np.triu(x, 1).T
        >>> model = nn.Linear(2, 2)
        >>> _ = nn.utils.parametrize.register_parametrization(model, "weight", Symmetric())
        >>> bool(np.all(model.weight == model.weight.T))
        True
        >>> [name for name, _ in model.named_parameters()]
        ['bias', 'parametrizations.weight.original']
    """
    for name, one in (("module", module), ("parametrization", parametrization)):
        if not isinstance(one, Module):
            raise ArgumentTypeError(must_be(name, "a Module", one))
    modules: list[Module] = [parametrization]
    value = getattr(module, tensor_name, None)
    if not isinstance(value, Tensor):
        raise ArgumentError(f"{type(module).__name__} has no parameter or buffer {tensor_name!r}")
    if is_parametrized(module, tensor_name):
        known = _lists(module)[tensor_name]
        known.add_module(str(len(known)), parametrization)
        _check(module, tensor_name, value, known.unsafe or unsafe)
        return module
    parts = ParametrizationList(modules, value, unsafe)
    if not isinstance(vars(module).get(_NAME), ModuleDict):
        setattr(module, _NAME, ModuleDict())
        object.__setattr__(module, "__class__", _class_of(type(module)))
    delattr(module, tensor_name)
    vars(module)[_NAME][tensor_name] = parts
    setattr(type(module), tensor_name, property(_reader(tensor_name), _writer(tensor_name)))
    _check(module, tensor_name, value, unsafe)
    return module


def _check(module: Module, name: str, before: Tensor, unsafe: bool) -> None:
    if unsafe:
        return
    with no_grad():
        after = getattr(module, name)
    if after.shape != before.shape or after.dtype != before.dtype:
        raise ArgumentError(
            f"a parametrization returns a tensor of the shape and dtype of {name}, {before.shape} and {before.dtype}, "
            f"not {after.shape} and {after.dtype}: pass unsafe=True if that is meant"
        )


def _lists(module: Module) -> Any:
    return vars(module)[_NAME]


def _class_of(cls: type[Module]) -> type[Module]:
    """Return a class of one module, which gets a property for each tensor that is computed."""

    def assign(self: Module, name: str, value: object) -> None:
        if name in _lists(self):
            object.__setattr__(self, name, value)
        else:
            cls.__setattr__(self, name, value)

    members = {"__setattr__": assign, "__module__": cls.__module__, "__qualname__": f"Parametrized{cls.__qualname__}"}
    kind: Any = type(cls)
    found: type[Module] = kind(f"Parametrized{cls.__name__}", (cls,), members)
    return found


def _reader(name: str) -> Any:
    def read(self: Module) -> Any:
        return _lists(self)[name]()

    return read


def _writer(name: str) -> Any:
    def write(self: Module, value: Any) -> None:
        _lists(self)[name].right_inverse(value)

    return write


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Tell whether a tensor of a module, or any if no name is given, is computed by a registered module.

    Source: torch.nn.utils.parametrize.is_parametrized.
    """
    found = vars(module).get(_NAME)
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make a computed tensor one that is stored again; return the module.

    Args:
        module: the module.
        tensor_name: the name of the tensor.
        leave_parametrized: let the tensor have the value that is computed now; otherwise it is the original, which must
            be one tensor.

    Raises:
        ArgumentError: the tensor is not computed, or there is no single original.

    Source: torch.nn.utils.parametrize.remove_parametrizations.
    """
    if not is_parametrized(module, tensor_name):
        raise ArgumentError(f"{tensor_name!r} of {type(module).__name__} has no parametrization")
    lists = _lists(module)
    parts = lists[tensor_name]
    if not truth(leave_parametrized, "leave_parametrized") and not parts.is_tensor:
        raise ArgumentError(
            f"{tensor_name!r} is computed from {parts.ntensors} tensors: only leave_parametrized=True makes it one"
        )
    with no_grad():
        value = getattr(module, tensor_name)
    originals = parts._originals()
    tensor = originals[0] if parts.is_tensor else Parameter(value.copy(), originals[0].requires_grad)
    if leave_parametrized and parts.is_tensor:
        if value.shape == tensor.shape and value.dtype == tensor.dtype:
            write_values(tensor, value)
        else:
            tensor = Parameter(value.copy(), tensor.requires_grad)
    delattr(type(module), tensor_name)
    delattr(lists, tensor_name)
    if not len(lists):
        object.__setattr__(module, "__class__", type(module).__base__)
        delattr(module, _NAME)
    module.register_parameter(tensor_name, tensor)
    return module


if not TYPE_CHECKING:
    # A type checker that saw a `__getattr__` would take any name for one of the module.
    __getattr__ = name_advisor(__name__)
