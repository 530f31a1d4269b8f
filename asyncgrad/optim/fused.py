"""Fused steps: the update of many parameters by one kernel, for arrays that have a KernelCompiler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, final

from ..core.arrays.device_functions import COMPILED_TYPES, TableUpdate, compiler_of
from ..core.graph.saved_hooks import prepare_write
from ..core.tensor import Tensor

__all__ = ["FusedSteps", "FusedUpdate"]

_layout = attrgetter("dtype", "shape", "strides")


class FusedUpdate(NamedTuple):
    """The update of one parameter as a formula."""

    #: A function of the arrays and then of the numbers, which returns new values of the first arrays, as a tuple.
    formula: Callable[..., tuple[Any, ...]]
    #: The parameter, its state, and its gradient.
    arrays: tuple[Any, ...]
    #: How many of the arrays get a new value.
    written: int
    #: What all parameters have in common.
    numbers: tuple[float, ...]
    #: The entries of the parameter's state, by name, once the update has been made.
    state: dict[str, Any]


@final
class FusedSteps:
    """The compiled updates of one optimizer."""

    __slots__ = ("_updates",)

    def __init__(self) -> None:
        # By the type of arrays and the formula.
        self._updates: dict[Any, TableUpdate] = {}

    def step(
        self,
        entries: Sequence[tuple[Tensor, Any]],
        states: dict[Tensor, dict[str, Any]],
        fused_update: Callable[[Any, Any, Mapping[str, Any]], FusedUpdate | None],
    ) -> list[tuple[Tensor, Any]]:
        """Update in few launches the parameters whose arrays have a KernelCompiler; return the entries of the others.

        Args:
            entries: parameters and the arrays of their gradients.
            states: the states of parameters, which are updated too.
            fused_update: takes the array of a parameter, its gradient and its state.
        """
        others: list[tuple[Tensor, Any]] = []
        batches: dict[Any, list[tuple[Tensor, FusedUpdate]]] = {}
        last: tuple[Any, ...] = ()
        for param, grad in entries:
            prepare_write(param)
            data = param._data
            found = None
            if type(data) in COMPILED_TYPES and data.dtype.char in "efdFD":
                found = fused_update(data, grad, states.get(param, {}))
            if found is None or not _lie_alike(found.arrays):
                others.append((param, grad))
                continue
            key = (type(data), data.dtype, param._device, found.formula, found.written, found.numbers)
            # Mostly all parameters of a group have one key, and to hash it takes longer than all else.
            if key != last:
                last, batch = key, batches.setdefault(key, [])
            batch.append((param, found))
        for (kind, _, _, formula, written, numbers), batch in batches.items():
            update = self._updates.get((kind, formula))
            if update is None:
                compiler = compiler_of(kind)
                assert compiler is not None
                update = self._updates[kind, formula] = compiler.update(formula, written)
            update([found.arrays for _, found in batch], numbers)
            for param, found in batch:
                states.setdefault(param, {}).update(found.state)
                param._bump_version()
        return others


def _lie_alike(arrays: Sequence[Any]) -> bool:
    """Tell whether arrays have one type, shape and dtype, and fill their memory in the same order."""
    layouts = list(map(_layout, arrays))
    is_one = layouts.count(layouts[0]) == len(layouts) and len(set(map(type, arrays))) == 1
    return is_one and bool(arrays[0].flags.forc)
