"""How a node describes itself to compiled autograd: what its run depends on, and the source of its body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, final

from .packed import Packed
from .tensor_base import TensorBase

if TYPE_CHECKING:
    from .hooks import HookList
    from .metadata import InputMetadata

__all__ = ["BodySource", "CompiledArgs", "Spec"]

#: Shape and dtype of a gradient, where they are known before it is.
Spec = tuple[tuple[int, ...], Any]

NOTHING: Mapping[str, Any] = MappingProxyType({})


@final
class CompiledArgs:
    """Collects what a node's run depends on; two nodes whose `key` is equal run alike.

    Source: CompiledNodeArgs of PyTorch.

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad.graph import CompiledArgs
        >>> def key(shape):
        ...     args = CompiledArgs()
        ...     (ag.tensor(np.ones(shape), requires_grad=True) * 2).grad_fn.compiled_args(args)
        ...     return args.key
        >>> import numpy as np
        >>> key((2, 3)) == key((2, 3)), key((2, 3)) == key((3, 2))
        (True, False)
    """

    __slots__ = ("_parts", "_saved")

    def __init__(self) -> None:
        self._parts: list[Any] = []
        self._saved: list[Any] = []

    @property
    def key(self) -> tuple[Any, ...]:
        """All that was collected, what was saved last."""
        return (*self._parts, *self._saved)

    @property
    def structure(self) -> tuple[Any, ...]:
        """What was collected beside what was saved: the same before and after that has been released."""
        return tuple(self._parts)

    def collect(self, value: Any) -> None:
        """Take a value: a tensor or an array counts by its shape, dtype and device, a container by what is in it.

        Anything else counts by itself: it is kept as long as the compiled function may be, and compared by `==`. So
        give what the run depends on, and not the node, or what leads to it.
        """
        self._parts.append(_token(value))

    def collect_exactly(self, *values: Any) -> None:
        """Take values, each by itself."""
        self._parts += values

    def collect_metadata(self, metadata: Sequence[InputMetadata | None]) -> None:
        """Take what the gradients of the node's inputs look like."""
        self._parts.append(tuple(metadata))

    def collect_saved(self, entries: Sequence[Any] | None) -> None:
        """Take what a node has saved, values and what hooks have packed; None once released."""
        if entries is None:
            self._saved.append("released")
        else:
            self._saved += ["packed" if isinstance(entry, Packed) else _token(entry) for entry in entries]

    def collect_hooks(self, hooks: HookList | None) -> None:
        """Take the hooks of one kind, each by itself."""
        self._parts.append(None if not hooks else tuple(id(hook) for hook in hooks.snapshot()))


def _token(value: Any) -> Any:
    if isinstance(value, TensorBase):
        return ("tensor", value._data.shape, value._data.dtype, value._device)
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return ("array", value.shape, value.dtype)
    if isinstance(value, (tuple, list)):
        return (type(value), *map(_token, value))
    if isinstance(value, (dict, Mapping)):
        return (type(value), *((key, _token(item)) for key, item in value.items()))
    if isinstance(value, slice):
        return (slice, value.start, value.stop, value.step)
    if isinstance(value, (bool, int, float, complex)):
        # 1, 1.0 and True are equal, and give arrays of different dtypes; repr tells 0.0 from -0.0, and knows nan.
        return (type(value), repr(value))
    return value


class BodySource(NamedTuple):
    """A node's body as source, for a compiled backward to hold.

    In each piece of source `$node` is the node, `$g` its gradient, `$grads` the list of its gradients where it has
    several inputs, `$s0`, `$s1` and so on names to use freely, and any other `$name` is in `constants`.

    Args:
        results: for each edge an expression of its gradient, or None where none is wanted; or one expression of them
            all, as a sequence.
        guards: expressions that are true where the node is not as it was when this source was made.
        unpacking: statements that fetch what was saved; where one raises, the engine runs the node in its own way.
        statements: what else comes before the results, such as the check of versions.
        release: what lets go of saved tensors.
        constants: the values of names.
        specs: for each edge, shape and dtype of the gradient where they are certain.
        names: how many of `$s0`, `$s1` and so on there are.
        fixes_edges: whether the guards settle how many edges there are, and which of them lead nowhere.
        is_short: whether a run takes but a few operations on the elements.
        may_be_heavy: whether a run may take so long that a worker should have it: that is asked before each, and one
            that stays is run as the engine runs it, so that it is measured.
        heavy_where: a cheap expression that is true wherever a run takes so long; empty where there is none.
        plan: what says, in this process and from now on, whether shorter runs take long too; None where nothing does.
    """

    results: tuple[str | None, ...] | str
    guards: tuple[str, ...] = ()
    unpacking: tuple[str, ...] = ()
    statements: tuple[str, ...] = ()
    release: tuple[str, ...] = ()
    constants: Mapping[str, Any] = NOTHING
    specs: tuple[Spec | None, ...] = ()
    names: int = 0
    fixes_edges: bool = False
    is_short: bool = False
    may_be_heavy: bool = False
    heavy_where: str = ""
    plan: Any = None
