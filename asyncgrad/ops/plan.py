"""How one call of a primitive is differentiated: which values to save, and one function for all its formulas.

A `Plan` belongs to a primitive, to the arguments that require grad and to those that are tensors. It is made
on the first such call; from then on a node holds its plan and a tuple of saved values, and its body is one
generated function of a few lines, for example of `np.multiply` with two tensors::

    def run(node, g):
        saved = node.saved
        if saved is None or g is None or isinstance(g, Tracked):
            return node.apply_carefully(g)
        s0, s1, = saved
        if s0._version is not None or s1._version is not None:
            node.check_versions()
        return (f0(g, s0._data), f1(g, s1._data), )

Generated since the alternative, a loop over formulas and their arguments, costs more than the formulas do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

from ..graph.tracked import Tracked

if TYPE_CHECKING:
    from .primitive import Primitive

__all__ = ["Plan", "Slot"]


class Slot(NamedTuple):
    """One value to save: argument `position` (`out` where it is None), or its attribute (shape or dtype)."""

    position: int | None
    attribute: str | None
    is_tensor: bool

    def expression(self) -> str:
        """Return the source that fetches the value; `args` as passed, `raw` as arrays, `out` the result."""
        if self.attribute is not None:
            owner = "out" if self.position is None else f"raw[{self.position}]"
            return f"{owner}.{self.attribute}" if self.position is None else f"{self.attribute}_of({owner})"
        return "alias(out)" if self.position is None else f"args[{self.position}]"


def _shape_of(value: Any) -> tuple[int, ...]:
    return getattr(value, "shape", ())


def _dtype_of(value: Any) -> Any:
    return getattr(value, "dtype", None)


@final
class Plan:
    """What to save for, and how to run, the backward of one kind of call of one primitive."""

    __slots__ = ("calls", "gather", "holds_tensors", "no_edges", "primitive", "run", "slots", "tensor_slots", "zeros")

    def __init__(self, primitive: Primitive, requires: int, tracked: int) -> None:
        self.primitive = primitive
        slots: dict[tuple[int | None, str | None], int] = {}
        #: For each edge, its formula and which saved values it takes; None where no gradient is wanted.
        self.calls: list[tuple[Callable[..., Any], tuple[int, ...]] | None] = []
        for edge, position in enumerate(primitive.tensor_positions):
            formula = primitive.formulas.get(position)
            if not requires >> edge & 1 or formula is None:
                self.calls.append(None)
                continue
            keys = [primitive.slot_key(name) for name in formula.needs]
            self.calls.append((formula.function, tuple(slots.setdefault(key, len(slots)) for key in keys)))
        edge_of = {position: edge for edge, position in enumerate(primitive.tensor_positions)}
        self.slots = tuple(
            Slot(
                position,
                attribute,
                attribute is None
                and (position is None or (position in edge_of and bool(tracked >> edge_of[position] & 1))),
            )
            for position, attribute in slots
        )
        self.tensor_slots = tuple(index for index, slot in enumerate(self.slots) if slot.is_tensor)
        self.holds_tensors = bool(self.tensor_slots)
        self.zeros = (0,) * len(self.calls)
        self.no_edges = (None,) * len(self.calls)
        self.gather, self.run = self._generate()

    def _generate(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        names = [f"s{index}" for index in range(len(self.slots))]
        values = [f"{name}._data" if slot.is_tensor else name for name, slot in zip(names, self.slots, strict=True)]
        results = [
            "None" if call is None else f"f{edge}(g{''.join(', ' + values[index] for index in call[1])})"
            for edge, call in enumerate(self.calls)
        ]
        lines = [
            f"def gather(args, raw, out, alias): return ({_commas(slot.expression() for slot in self.slots)})",
            "def run(node, g):",
            "    saved = node.saved",
            "    if saved is None or g is None or isinstance(g, Tracked):",
            "        return node.apply_carefully(g)",
        ]
        if names:
            lines.append(f"    {_commas(names)} = saved")
        if self.tensor_slots:
            changed = " or ".join(f"{names[index]}._version is not None" for index in self.tensor_slots)
            lines += [f"    if {changed}:", "        node.check_versions()"]
        lines.append(f"    return ({_commas(results)})")
        namespace: dict[str, Any] = {"Tracked": Tracked, "shape_of": _shape_of, "dtype_of": _dtype_of}
        namespace.update({f"f{edge}": call[0] for edge, call in enumerate(self.calls) if call is not None})
        source = "\n".join(lines)
        exec(compile(source, f"<derivative of {self.primitive.name}>", "exec"), namespace)  # noqa: S102
        return namespace["gather"], namespace["run"]

    def compute(self, g: Any, values: Sequence[Any], wanted: Sequence[bool] | None = None) -> tuple[Any, ...]:
        """Run the formulas one by one on `values`, arrays or tensors alike; only the `wanted` ones if given."""
        return tuple(
            None
            if call is None or (wanted is not None and not wanted[edge])
            else call[0](g, *[values[index] for index in call[1]])
            for edge, call in enumerate(self.calls)
        )


def _commas(items: Any) -> str:
    return "".join(f"{item}, " for item in items)
