"""What a function returns for the rows of a batch, one row after the other or many at once, stacked."""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np

from ..core.arrays.values import is_device_array
from ..core.settings.arguments import must_be
from ..core.tensor import Tensor
from ..core.tree.structure import TreeStructure, flatten, leaves_like, paths, unflatten
from ..errors import ArgumentError, GradientTypeError
from .batches import axes_of_leaves
from .spare_arrays import SpareArrays

__all__ = ["Block", "Column", "RowResults"]

_NUMBERS = (bool, int, float, complex, np.generic)


@final
class Column(NamedTuple):
    """A leaf of what the function returns, for several rows.

    Attributes:
        array: the leaves of all rows along axis 0; those of rows that are not in the block are anything.
        is_tensor: whether they are tensors.
        device: that of the tensors.
    """

    array: np.ndarray
    is_tensor: bool = False
    device: Any = None

    def row(self, index: int) -> Any:
        """Return the leaf of a row."""
        part = self.array[index, ...]
        return Tensor(part, None, 0, self.device) if self.is_tensor else part

    def fits(self, leaf: Any) -> bool:
        """Tell whether the leaf of another row is alike, and has no history."""
        if isinstance(leaf, Tensor) is not self.is_tensor:
            return False
        if isinstance(leaf, Tensor):
            if leaf.requires_grad or leaf._device != self.device:
                return False
            leaf = leaf._data
        is_alike = type(leaf) is np.ndarray or isinstance(leaf, np.generic)
        return is_alike and leaf.shape == self.array.shape[1:] and leaf.dtype == self.array.dtype


@final
class Block(NamedTuple):
    """What the function returns for the rows from one up to another, each leaf in one array.

    Attributes:
        begin: the first row.
        end: the row after the last.
        structure: that of what it returns.
        columns: a Column for each leaf.
    """

    begin: int
    end: int
    structure: TreeStructure
    columns: list[Column]

    def row(self, index: int) -> Any:
        """Return what the function returns for a row."""
        return unflatten(self.structure, [column.row(index) for column in self.columns])


@final
class RowResults:
    """What the function has returned for the rows of a batch.

    Args:
        where: the name of the transform, for errors.
        count: the number of rows.
        spare: where memory is taken from that earlier results had.
    """

    __slots__ = ("_blocks", "_buffers", "_rows", "_spare", "_structure", "_where", "count")

    def __init__(self, where: str, count: int, spare: SpareArrays) -> None:
        self._spare = spare
        self._where = where
        self.count = count
        self._structure: TreeStructure | None = None
        #: The leaves of single rows.
        self._rows: dict[int, list[Any]] = {}
        self._blocks: list[Block] = []
        self._buffers: dict[int, np.ndarray] = {}

    def buffer(self, place: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        """Return an array for leaf number `place` of all rows, the same one as before where that fits."""
        shape = (self.count, *shape)
        found = self._buffers.get(place)
        if found is None or found.shape != shape or found.dtype != dtype:
            found = self._buffers[place] = self._spare.take(shape, dtype)
        return found

    def add(self, index: int, returned: Any) -> None:
        """Add what the function has returned for a row.

        Raises:
            ArgumentError: it has another structure than that of the first row.
        """
        found, structure = flatten(returned)
        if self._structure is None:
            self._structure = structure
        elif structure != self._structure:
            # A dict may come with its keys in another order.
            name = f"{self._where}: what the function returns for row {index}"
            found = leaves_like(self._structure, returned, name, "that for the first row")
        self._rows[index] = found

    def add_block(self, block: Block) -> None:
        """Add what the function has returned for several rows.

        Raises:
            ArgumentError: it has another structure than that of the first row.
        """
        if self._structure is None:
            self._structure = block.structure
        if block.structure == self._structure:
            self._blocks.append(block)
            return
        for index in range(block.begin, block.end):
            self.add(index, block.row(index))

    def stacked(self, out_axes: Any) -> Any:
        """Return the tree of what the function has returned, with the leaves of all rows along an axis.

        Raises:
            ArgumentError: an axis does not fit, the shapes of rows differ, or what must be the same in all rows does.
            GradientTypeError: a leaf is neither a tensor nor an array nor a number.
        """
        assert self._structure is not None
        is_same = out_axes is None or isinstance(out_axes, int)
        axes = (
            [out_axes] * self._structure.count
            if is_same
            else axes_of_leaves(out_axes, self._row(0), f"{self._where}: out_axes", "the result")
        )
        made = [self._leaf(place, axis) for place, axis in enumerate(axes)]
        self._spare.keep(self._buffers.values())
        return unflatten(self._structure, made)

    def _row(self, index: int) -> Any:
        """Return what was returned for a row."""
        assert self._structure is not None
        return unflatten(self._structure, [self._leaves(place)[index] for place in range(self._structure.count)])

    def _name(self, place: int) -> str:
        """Return the name of a leaf, for errors."""
        assert self._structure is not None
        return list(paths(self._structure, f"{self._where}: the result"))[place]

    def _leaf(self, place: int, axis: int | None) -> Any:
        joined = self._joined(place)
        if joined is None:
            joined = self._stacked(place)
        if axis is None:
            return self._same_in_all(joined, place)
        if not -joined.ndim <= axis < joined.ndim:
            raise ArgumentError(
                f"{self._name(place)} has shape {joined.shape[1:]} for one row, and with the rows {joined.ndim} axes, "
                f"among which out_axes names axis {axis}"
            )
        return np.moveaxis(joined, 0, axis) if axis % joined.ndim else joined

    def _joined(self, place: int) -> Any:
        """Return the array into which all blocks have written, with the other rows; None where that does not do."""
        columns = [block.columns[place] for block in self._blocks]
        if not columns:
            return None
        first = columns[0]
        if any(one.array is not first.array or one[1:] != first[1:] for one in columns):
            return None
        others = {index: leaves[place] for index, leaves in self._rows.items()}
        if not all(map(first.fits, others.values())):
            return None
        for index, leaf in others.items():
            first.array[index] = leaf._data if first.is_tensor else leaf
        return Tensor(first.array, None, 0, first.device) if first.is_tensor else first.array

    def _leaves(self, place: int) -> list[Any]:
        """Return a leaf of all rows."""
        found = {index: leaves[place] for index, leaves in self._rows.items()}
        for block in self._blocks:
            found.update((index, block.columns[place].row(index)) for index in range(block.begin, block.end))
        return [found[index] for index in range(self.count)]

    def _stacked(self, place: int) -> Any:
        """Return a leaf of all rows along axis 0."""
        found = self._leaves(place)
        first = np.shape(found[0])
        for index, leaf in enumerate(found):
            if not (isinstance(leaf, (Tensor, np.ndarray, *_NUMBERS)) or is_device_array(leaf)):
                name = f"{self._name(place)} for row {index}"
                raise GradientTypeError(must_be(name, "a tensor, an array or a number", leaf))
            shape = np.shape(leaf)
            if shape != first:
                raise ArgumentError(
                    f"{self._name(place)} must have one shape for all rows, but has {first} for row 0 and {shape} for "
                    f"row {index}"
                )
        return np.stack(found)

    def _same_in_all(self, joined: Any, place: int) -> Any:
        """Return what is the same in all rows."""
        numbers = joined._data if isinstance(joined, Tensor) else joined
        first = np.broadcast_to(numbers[:1], numbers.shape)
        if not np.array_equal(numbers, first, equal_nan=numbers.dtype.kind in "fc"):
            raise ArgumentError(
                f"{self._name(place)} must be the same for all rows, since out_axes has None for it: name an axis"
            )
        return joined[0]
