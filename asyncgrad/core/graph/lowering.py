"""A node's description for compiled autograd: what its run depends on, and the source of its body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, final

from ..arrays.tensor_base import TensorBase
from .packed import Packed

if TYPE_CHECKING:
    from ..arrays.hooks import HookList
    from .metadata import InputMetadata
    from .value_metadata import ValueMetadata

__all__ = ["BodySource", "CompiledArgs", "Spec"]

#: The shape and dtype of a gradient that are known before it is computed.
Spec = tuple[tuple[int, ...], Any]

NOTHING: Mapping[str, Any] = MappingProxyType({})
NOTHING_ADDED: Mapping[int, str] = MappingProxyType({})


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
    def key(self) -> tuple[object, ...]:
        """Everything that was collected, the saved tensors last."""
        return (*self._parts, *self._saved)

    @property
    def structure(self) -> tuple[object, ...]:
        """Everything that was collected but the saved tensors: equal before and after they are released."""
        return tuple(self._parts)

    def collect(self, value: object) -> None:
        """Add a value: a tensor or an array by its shape, dtype and device, a container by its items.

        Any other value is added itself: it is kept alive as long as the compiled function, and compared by `==`. So
        pass what the run depends on, and not the node or an object that refers to it.
        """
        self._parts.append(_token(value))

    def collect_exactly(self, *values: object) -> None:
        """Add values as they are, to be compared by `==`."""
        self._parts += values

    def collect_metadata(self, metadata: Sequence[InputMetadata | ValueMetadata | None]) -> None:
        """Add the metadata of the node's inputs."""
        self._parts.append(tuple(metadata))

    def collect_saved(self, entries: Sequence[object] | None) -> None:
        """Add a node's saved entries, tensors and Packed; None once released."""
        if entries is None:
            self._saved.append("released")
        else:
            self._saved += ["packed" if isinstance(entry, Packed) else _token(entry) for entry in entries]

    def collect_hooks(self, hooks: HookList | None) -> None:
        """Add the hooks of one kind, each by its identity."""
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
        # 1, 1.0 and True are equal but give arrays of different dtypes. repr tells 0.0 from -0.0, and nan equals nan.
        return (type(value), repr(value))
    return value


class BodySource(NamedTuple):
    """A node's body as source, to be inlined into a compiled backward.

    In the source, `$node` is the node, `$g` its gradient, `$grads` the list of its gradients if it has several inputs,
    `$s0`, `$s1` and so on are local names, and any other `$name` is in `constants`.

    Args:
        results: for each edge an expression of its gradient, or None if that is not wanted; or one expression of all
            of them, as a sequence.
        guards: expressions that are true if the node has changed since this source was made.
        unpacking: statements that read the saved tensors; if one raises, the engine runs the node itself.
        statements: further statements before the results, such as the check of versions.
        release: statements that release the saved tensors.
        constants: the values of names.
        specs: for each edge, shape and dtype of the gradient if they are certain.
        names: the number of local names `$s0`, `$s1` and so on.
        fixes_edges: whether the guards fix the number of edges, and which of them lead nowhere.
        is_short: whether a run takes only a few operations for each element.
        may_be_heavy: whether a run may take so long that a worker should have it. This is tested before each run, and
            a run that stays is run as the engine does it, so that it is measured.
        heavy_where: a cheap expression that is true for every such run; empty if there is none.
        plan: the plan that knows, at any later time, whether shorter runs are heavy too; None if there is none.
        additions: by edge, an expression that adds the gradient into the array `$total`, and is the new sum.
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
    additions: Mapping[int, str] = NOTHING_ADDED
