"""The arguments of a function that runs once for each row of a batch, and the axes along which rows lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from ..core.arrays.values import is_device_array
from ..core.settings.arguments import describe, must_be
from ..core.settings.context import GRAD_MODE
from ..core.tensor import Tensor
from ..core.tree.registry import container_type
from ..core.tree.structure import LEAF, TreeStructure, flatten, leaves_like, paths, unflatten
from ..errors import ArgumentError, ArgumentTypeError
from .calls import argument_name

__all__ = ["Batch", "Row", "axes_of_leaves", "check_axes"]


@final
class Row(NamedTuple):
    """The arguments of one call of the function.

    Attributes:
        number: the number of the row.
        args: its positional arguments.
        kwargs: its keyword arguments.
        stacks: by the id of each array or tensor that is a row, what it is a row of, with the rows along axis 0.
    """

    number: int
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    stacks: dict[int, Any]


def check_axes(axes: Any, name: str) -> Any:
    """Return a tree of axes, each an int or None.

    Raises:
        ArgumentTypeError: there is something else in it.
    """
    found, structure = flatten(axes, lambda part: part is None)
    for leaf in found:
        if leaf is not None and (isinstance(leaf, (bool, np.bool_)) or not isinstance(leaf, (int, np.integer))):
            raise ArgumentTypeError(must_be(name, "an int, None or a tree of them", leaf))
    return unflatten(structure, [None if leaf is None else int(leaf) for leaf in found])


def axes_of_leaves(axes: Any, tree: Any, what: str, like: str) -> list[int | None]:
    """Return for each leaf of a tree its axis; an int or None stands for all leaves of what is in its place.

    Raises:
        ArgumentError: the structures differ.
    """
    _, structure = flatten(tree)
    if axes is None or isinstance(axes, int):
        return [axes] * structure.count
    kind = None if structure is LEAF else container_type(type(tree))
    if kind is None:
        raise ArgumentError(f"{what} must be an int or None for {like}, which is {describe(tree)}, not {axes!r}")
    children, aux_data = kind.flatten(tree)
    level = TreeStructure(type(tree), kind, (LEAF,) * len(children), aux_data, len(children))
    found: list[int | None] = []
    inner = zip(leaves_like(level, axes, what, like), children, paths(level, what), paths(level, like), strict=True)
    for entry, child, inner_what, inner_like in inner:
        found += axes_of_leaves(entry, child, inner_what, inner_like)
    return found


@final
class Batch:
    """The arguments of a call, of which the function gets one row after the other.

    Args:
        where: the name of the transform, for errors.
        function: the function.
        in_axes: the axes along which the rows of positional arguments lie; those of keyword arguments lie along 0.
        args: the positional arguments.
        kwargs: the keyword arguments.

    Raises:
        ArgumentError: the numbers of rows differ, or there is none.
        ArgumentTypeError: a leaf that has an axis is no tensor or array.
    """

    __slots__ = (
        "_args",
        "_function",
        "_keywords",
        "_leaves",
        "_moved",
        "_pieces",
        "_places",
        "_structures",
        "_where",
        "count",
    )

    def __init__(
        self,
        where: str,
        function: Callable[..., Any],
        in_axes: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> None:
        is_same = in_axes is None or isinstance(in_axes, int)
        if not is_same and (not isinstance(in_axes, (tuple, list)) or len(in_axes) != len(args)):
            raise ArgumentError(
                f"{where}: in_axes {in_axes!r} must have one entry for each of the {len(args)} positional arguments"
            )
        self._where = where
        self._function = function
        #: All arguments, positional ones first.
        self._args: list[Any] = [*args, *kwargs.values()]
        self._keywords = tuple(kwargs)
        #: For each argument the places of its leaves among `_moved`, None for what is the same in all rows; and None
        #: for an argument that is the same as a whole.
        self._places: list[list[int | None] | None] = []
        self._leaves: list[list[Any]] = []
        self._structures: list[TreeStructure] = []
        #: Each stack once, with the rows along axis 0.
        self._moved: list[Any] = []
        #: The rows of stacks that are taken apart at once.
        self._pieces: list[list[Any] | None] = []
        known: dict[tuple[int, int], int] = {}
        sizes: list[tuple[int, int, int]] = []
        axes = [*([in_axes] * len(args) if is_same else in_axes), *[0] * len(kwargs)]
        for number, (axis, tree) in enumerate(zip(axes, self._args, strict=True)):
            places: list[int | None] = []
            for leaf, one in zip(self._flattened(tree), self._axes_of(axis, tree, number), strict=True):
                if one is None:
                    places.append(None)
                    continue
                axis_of_rows = self._checked(leaf, one, number, len(places))
                place = known.setdefault((id(leaf), axis_of_rows), len(self._moved))
                if place == len(self._moved):
                    sizes.append((number, len(places), one))
                    self._moved.append(np.moveaxis(leaf, axis_of_rows, 0) if axis_of_rows else leaf)
                    self._pieces.append(None)
                places.append(place)
            self._places.append(places if any(place is not None for place in places) else None)
        self.count: int = self._counted(sizes)

    def _flattened(self, tree: Any) -> list[Any]:
        found, structure = flatten(tree)
        self._leaves.append(found)
        self._structures.append(structure)
        return found

    def _axes_of(self, axes: Any, tree: Any, number: int) -> list[int | None]:
        if axes is None or isinstance(axes, int):
            return [axes] * len(self._leaves[number])
        name = self._name(number)
        return axes_of_leaves(axes, tree, f"{self._where}: in_axes of {name}", name)

    def _name(self, number: int, place: int | None = None) -> str:
        """Return the name of an argument, or of one of its leaves, for errors."""
        positional = len(self._args) - len(self._keywords)
        is_keyword = number >= positional
        name = self._keywords[number - positional] if is_keyword else argument_name(self._function, number)
        return name if place is None else list(paths(self._structures[number], name))[place]

    def _checked(self, leaf: Any, axis: int, number: int, place: int) -> int:
        """Return an axis of a leaf, counted from the first."""
        instead = "write None in its place in in_axes for the same in each row"
        if not (isinstance(leaf, (Tensor, np.ndarray)) or is_device_array(leaf)):
            name = f"{self._where}: {self._name(number, place)}"
            raise ArgumentTypeError(must_be(name, "a tensor or an array", leaf, instead))
        if not -leaf.ndim <= axis < leaf.ndim:
            name = f"{self._where}: {self._name(number, place)}"
            raise ArgumentError(f"{name} has shape {leaf.shape}, and no axis {axis}: {instead}")
        return int(axis % leaf.ndim)

    def _counted(self, sizes: Sequence[tuple[int, int, int]]) -> int:
        """Return the number of rows."""
        if not sizes:
            raise ArgumentError(f"{self._where}: in_axes must have an axis for at least one array among the arguments")
        count = len(self._moved[0])
        number, place, axis = sizes[0]
        for (other, other_place, other_axis), stack in zip(sizes, self._moved, strict=True):
            if len(stack) != count:
                raise ArgumentError(
                    f"{self._where}: {self._name(other, other_place)} must have {count} rows, as "
                    f"{self._name(number, place)} has along axis {axis}, but has {len(stack)} along axis {other_axis}"
                )
        if not count:
            raise ArgumentError(
                f"{self._where}: {self._name(number, place)} has no rows along axis {axis}, and what the function "
                "returns is known only once it has run: leave the call out for an empty batch"
            )
        return count

    def bytes_of_row(self) -> int:
        """Return how many bytes the arrays of a row have that are its own."""
        return int(sum([stack.nbytes for stack in self._moved]) // self.count)

    def row(self, number: int) -> Row:
        """Return the arguments of a row."""
        rows = [self._row_of(place, number) for place in range(len(self._moved))]
        made: list[Any] = []
        for given, places, leaves, structure in zip(
            self._args, self._places, self._leaves, self._structures, strict=True
        ):
            if places is None:
                made.append(given)
                continue
            parts = [leaf if place is None else rows[place] for leaf, place in zip(leaves, places, strict=True)]
            made.append(parts[0] if structure is LEAF else unflatten(structure, parts))
        positional = len(made) - len(self._keywords)
        return Row(
            number,
            tuple(made[:positional]),
            dict(zip(self._keywords, made[positional:], strict=True)),
            {id(row): stack for row, stack in zip(rows, self._moved, strict=True)},
        )

    def _row_of(self, place: int, number: int) -> Any:
        stack = self._moved[place]
        if type(stack) is np.ndarray:
            # An array without axes where the rows are numbers.
            return stack[number, ...]
        if not isinstance(stack, Tensor) or not (GRAD_MODE.get() and stack.requires_grad):
            return stack[number]
        pieces = self._pieces[place]
        if pieces is None:
            # All rows share one node.
            pieces = self._pieces[place] = list(stack)
        return pieces[number]
