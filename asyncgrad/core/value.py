"""Value: any Python object as a tensor's peer in a graph, and `ag.leaf`, which makes one that requires grad."""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, TypeVar, final

import numpy as np

from ..errors import ArgumentError, ArgumentTypeError, InPlaceError
from .arrays.tensor_base import TensorBase
from .arrays.value_type import VALUES, ValueType
from .engine.device import device_of_new
from .graph.value_metadata import ValueMetadata
from .settings.arguments import describe, must_be
from .settings.awaiting import NEVER_AWAITED
from .variable import Variable

__all__ = ["Value", "leaf", "register_value"]

C = TypeVar("C", bound=type)


@final
class Value(Variable):
    """A Python object that is no array, with a place in a graph, and a type that says what its gradients are.

    A Function takes values beside tensors, and returns them. Gradients, hooks and `.grad` are as for a tensor, but are
    what the type says, and never copied. It is made by `ag.leaf`, and by a forward: `return ag.Value(answer, type)`.

    An optimizer gives a leaf another object, `prompt.value = better`, as it writes into a tensor. A graph that has
    saved the value by `ctx.save_for_backward` then raises, rather than go on with what it has not seen. Other graphs
    lead to the leaf as before, and the type checks their gradients against the object that it has now.

    Args:
        value: the object. Nothing may change it in place while a graph needs it.
        type: its type.

    Raises:
        ArgumentTypeError: `type` is no ValueType, or `value` is a tensor.

    Example:
        >>> import asyncgrad as ag
        >>> class Notes(ag.extend.ValueType):
        ...     def add(self, first, second):
        ...         return first + second
        >>> ag.Value({"model": "small"}, Notes())
        Value({'model': 'small'}, Notes())
    """

    __slots__ = ("_value", "_value_metadata")

    _value_metadata: ValueMetadata

    def __init__(self, value: object, type: ValueType) -> None:  # noqa: A002
        if not isinstance(type, ValueType):
            is_kind = isinstance(type, _class) and issubclass(type, ValueType)
            hint = f"write {type.__name__}(), and not {type.__name__}" if is_kind else ""
            raise ArgumentTypeError(must_be("type", "an ag.extend.ValueType", type, hint))
        self._device = device_of_new(None)
        self._put(value, type)
        self._grad_fn = None
        self._output_nr = 0
        self._meta = None
        self._counter = None
        self._view = None

    def _put(self, value: object, type: ValueType) -> None:  # noqa: A002
        if isinstance(value, TensorBase):
            raise ArgumentTypeError(
                f"{describe(value)} has a place in a graph already, and cannot be the object of a value: pass it to "
                "a Function as an argument of its own"
            )
        self._value_metadata = ValueMetadata(type, type.describe(value), self._device)
        self._value = value

    @property
    def value(self) -> Any:
        """The object."""
        return self._value

    @value.setter
    def value(self, value: object) -> None:
        if self._grad_fn is not None:
            raise InPlaceError(
                f"{self._describe()} that {self._grad_fn.name} has made cannot get another object, which no gradient "
                "would know of: write ag.Value(value, type), or return it from a Function"
            )
        self._put(value, self.type)
        self._value_metadata.is_replaced = True
        reference = None if self._meta is None else self._meta.accumulator
        node = None if reference is None else reference()
        if node is not None:
            # The same node, as after `tensor.data = other` in PyTorch: graphs made before lead to this leaf, too.
            node.describe_again()
        self._bump_version()

    @property
    def _data(self) -> NoReturn:
        raise self._no_array()

    def _no_array(self) -> ArgumentTypeError:
        return ArgumentTypeError(
            f"{self._describe()} is no array, and NumPy's functions do not take it: write v.value for the object, or a "
            "Function that computes with it"
        )

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NoReturn:
        raise self._no_array()

    @property
    def type(self) -> ValueType:
        """What its gradients are."""
        return self._value_metadata.type

    @property
    def grad(self) -> Any:
        """The gradient that backward passes have accumulated here; None before the first."""
        return None if self._meta is None else self._meta.grad

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is not None:
            held = self._value_metadata.take(value, lambda it: f"the grad of {self._describe()} was set to {it}")
            value = None if held is None else held.gradient
        elif self._meta is None:
            return
        self._autograd_meta().grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    if TYPE_CHECKING:

        async def backward(
            self,
            gradient: Any = None,
            *,
            retain_graph: bool | Literal["until_success"] | None = None,
            create_graph: bool = False,
            inputs: object = None,
        ) -> None:
            """Take a gradient of the type, which is an object of the user's."""

    def detach(self) -> Self:
        """Return a value of the same object, without history, that does not require grad."""
        return _class(self)(self.value, self.type)

    def _describe(self) -> str:
        return f"a value of type {self.type.name}"

    def __repr__(self) -> str:
        text = repr(self.value)
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        if self._grad_fn is not None:
            flag = f", grad_fn=<{self._grad_fn.name}>"
        else:
            flag = ", requires_grad=True" if self.requires_grad else ""
        return f"Value({shown}, {self.type!r}{flag})"

    def __copy__(self) -> Value:
        return self.detach() if self._grad_fn is not None else leaf(self.value, **self._options())

    def __deepcopy__(self, memo: dict[int, object]) -> Value:
        self._needs_no_history("deep-copied")
        copied = leaf(deepcopy(self.value, memo), **self._options())
        copied.grad = deepcopy(self.grad, memo)
        return copied

    def __reduce__(self) -> tuple[object, ...]:
        self._needs_no_history("pickled")
        return partial(leaf, **self._options()), (self.value,)

    def _options(self) -> dict[str, Any]:
        return {"type": self.type, "requires_grad": self.requires_grad}


#: How many characters of the object a repr shows.
_SHOWN = 60
_class = type


def leaf(value: object, *, type: ValueType | None = None, requires_grad: bool = True) -> Value:  # noqa: A002
    """Return a value that gradients flow to: any Python object, a leaf of the graphs that it is used in.

    Args:
        value: the object. Nothing may change it in place while a graph needs it.
        type: what its gradients are; None for the type that `ag.extend.register_value` has been told for its class.
        requires_grad: whether gradients flow to it.

    Raises:
        ArgumentTypeError: `type` is no ValueType, or None and the class of the object is not registered; or it is a
            tensor or an array.

    Example:
        >>> import asyncgrad as ag
        >>> class Notes(ag.extend.ValueType):
        ...     def add(self, first, second):
        ...         return first + second
        >>> prompt = ag.leaf("Be brief.", type=Notes())
        >>> prompt.value, prompt.requires_grad, prompt.grad
        ('Be brief.', True, None)
    """
    if type is None:
        make = VALUES.get(_class(value))
        if make is None:
            hint = (
                "write ag.tensor(data, requires_grad=True)"
                if isinstance(value, np.ndarray)
                else ("write ag.leaf(value, type=...), or tell ag.extend.register_value(cls, type) of it")
            )
            raise ArgumentTypeError(f"no ValueType is registered for {describe(value)}: {hint}")
        made: Value = make(value)
    else:
        made = Value(value, type)
    return made.requires_grad_(requires_grad)


def register_value(cls: C, type: ValueType) -> C:  # noqa: A002
    """Have objects of a class be values of a type: `ag.leaf` knows it, and a Function may return them as they are.

    Args:
        cls: the class; objects of subclasses do not count.
        type: what the gradients of its objects are.

    Returns:
        The class.

    Raises:
        ArgumentTypeError: `cls` is no class, or one of Python's own, objects of which any Function may return beside
            its tensors; or `type` is no ValueType.
        ArgumentError: the class is registered for another type.

    Example:
        >>> import dataclasses, asyncgrad as ag
        >>> class Notes(ag.extend.ValueType):
        ...     def add(self, first, second):
        ...         return first + second
        >>> @dataclasses.dataclass(frozen=True)
        ... class Prompt:
        ...     text: str
        >>> ag.extend.register_value(Prompt, Notes()).__name__
        'Prompt'
        >>> ag.leaf(Prompt("Be brief."))
        Value(Prompt(text='Be brief.'), Notes(), requires_grad=True)
    """
    if not isinstance(cls, _class):
        raise ArgumentTypeError(must_be("cls", "a class", cls, "write register_value(type(value), ...)"))
    if cls.__module__ == "builtins" or issubclass(cls, (TensorBase, np.ndarray, np.generic)):
        raise ArgumentTypeError(
            f"objects of {cls.__name__} are no values by themselves, since a Function may return them for another "
            "reason: return ag.Value(value, type), or register a class of your own"
        )
    if not isinstance(type, ValueType):
        raise ArgumentTypeError(must_be("type", "an ag.extend.ValueType", type))
    before = VALUES.get(cls)
    if before is not None and before.keywords["type"] is not type:
        raise ArgumentError(f"{cls.__name__} is registered for another ValueType, {before.keywords['type']!r}")
    VALUES[cls] = partial(Value, type=type)
    return cls


# Pickles of values name it.
leaf.__module__ = "asyncgrad"

NEVER_AWAITED.add(Value)
