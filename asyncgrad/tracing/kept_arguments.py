"""The arguments of a compiled call as they were, for a backward that runs the function again.

A graph of the function itself keeps what its backward reads, and no more. So an argument may be written into before a
backward that does not read it. Its numbers are kept at that moment, and not before: most arguments are never written
into while a graph is alive.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any, final

from ..core.arrays.tensor_base import TensorBase, VersionCounter
from ..core.graph.node_like import NodeLike
from ..core.graph.saved import check_version, version_of

__all__ = ["KeptArguments"]


@final
class KeptArguments:
    """The arguments of a call, with their versions.

    Attributes:
        arguments: the arguments.
        versions: their versions at the call; 0 for what is no tensor.
    """

    __slots__ = ("__weakref__", "_arrays", "_copies", "arguments", "versions")

    def __init__(self, arguments: Sequence[Any], arrays: Sequence[Any], watched: Iterable[int]) -> None:
        """Begin to keep them.

        Args:
            arguments: the arrays and tensors among the arguments.
            arrays: their arrays.
            watched: the numbers of tensors whose arrays are copied before they are written into.
        """
        self.arguments = arguments
        # As `version_of`, without a call for each of the parameters of a model.
        self.versions = [
            0 if not isinstance(one, TensorBase) or one._counter is None else one._counter.value for one in arguments
        ]
        self._arrays = arrays
        self._copies: dict[int, Any] = {}
        reference = None
        for index in watched:
            if reference is None:
                reference = weakref.ref(self)
            counter = arguments[index]._counter
            if counter is None:
                counter = arguments[index]._shared_version()
            counter.tell_before_write(reference)

    def before_write(self, counter: VersionCounter) -> None:
        """Copy the arrays in the memory of `counter`; a write into it follows."""
        for index, one in enumerate(self.arguments):
            if isinstance(one, TensorBase) and one._counter is counter and version_of(one) == self.versions[index]:
                self._copies.setdefault(index, self._arrays[index].copy("K"))

    def has_changed(self, index: int) -> bool:
        """Tell whether an argument has been written into since the call, or been given another array."""
        argument = self.arguments[index]
        return isinstance(argument, TensorBase) and (
            index in self._copies
            or argument._data is not self._arrays[index]
            or version_of(argument) != self.versions[index]
        )

    def array(self, node: NodeLike, index: int) -> Any:
        """Return the array of an argument as it was.

        Raises:
            ChangedTensorError: it was written into in a way that asyncgrad has not seen before.
        """
        if index in self._copies:
            return self._copies[index]
        argument = self.arguments[index]
        # Where it has another array now, this one has not been written into.
        if argument._data is self._arrays[index]:
            check_version(node, argument, self.versions[index])
        return self._arrays[index]
