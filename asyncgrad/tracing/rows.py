"""The programs by which a function runs for many rows of a batch at once: those of one row, with shifted arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from ..core.arrays.tensor_base import TensorBase
from ..core.settings.context import GRAD_MODE
from ..core.settings.observers import PROGRAMS
from ..core.tree.structure import LEAF, leaves
from ..transforms.batches import Row
from ..transforms.recipes import innermost, made_again
from ..transforms.row_results import Block, Column, RowResults
from .blocking_transform import blocking_transform
from .bound import unbound
from .call_key import needs_eager
from .jitted import NOT_TRACED, Call, Jitted
from .last_call import LastCall
from .program import CheckFailed
from .replay import Lease
from .row_records import Rows
from .trace import Untraceable
from .variant import Output, Variant
from .watching import watched

__all__ = ["RowPrograms"]

#: Why the rows of a function run by itself although there is a program of it.
_UNFIT = "it changes an argument, or returns what has a history or is no number"
#: What may be a leaf of a result besides tensors and arrays.
_NUMBERS = (bool, int, float, complex, np.generic)


@final
class RowPrograms:
    """The programs of a function that is called with each row of a batch.

    A compiled function keeps its own, which it makes and compares when it is called with a row. Of another one, and of
    what a transform makes of either, the programs are made and compared here.

    Args:
        function: the function, none of the user's that is an `async def`.

    Raises:
        ArgumentTypeError: it is an object that is not compiled.
    """

    __slots__ = ("_function", "_is_own", "_is_transformed", "_jitted", "_last")

    def __init__(self, function: Callable[..., Any]) -> None:
        inner = innermost(function)
        self._function = function
        self._is_transformed: bool = inner is not function
        #: Whether the programs are made and compared here.
        self._is_own: bool = not isinstance(inner, Jitted) or inner is not function
        compiled = inner if isinstance(inner, Jitted) else _compiled(inner)
        if self._is_own:
            transform = None if inner is function else blocking_transform(function, compiled.bound, "func.vmap")
            compiled = compiled.transformed(transform, f"ag.func.vmap({compiled.name})")
        self._jitted: Jitted = compiled
        #: The call that was replayed last.
        self._last: LastCall | None = None

    def plain(self) -> Callable[..., Any]:
        """Return what runs where there is no program: the function, or what a compiled one was made of.

        Each call of a compiled one with a graph would have memory of its own.
        """
        inner = innermost(self._function)
        return made_again(self._function, inner.plain()) if isinstance(inner, Jitted) else self._function

    def run(self, row: Row, results: RowResults) -> Block | None:
        """Return what the function returns for a row and those after it, as far as a program computes that.

        Returns:
            A block; an empty one where the function itself is to run for this row; None where `plain` is to run for
            all.
        """
        jitted, last = self._jitted, self._last
        try:
            if last is not None and _are_aligned(row):
                like = jitted.call_like(last, *jitted.with_bound(row.args, row.kwargs))
                block = self._block(last.variant, like, row, results) if like and last.variant.holds() else None
                if block is not None:
                    return block
            call = jitted.new_call(*jitted.with_bound(row.args, row.kwargs))
            reason = self._why_not(call, row)
            family = None if reason is not None else jitted.family_of(call)
        except Untraceable as error:
            reason, family = f"{error}", None
        if family is None:
            return self._eager(results.count - row.number, f"{reason}", None)
        for variant in family.variants:
            if not variant.holds():
                continue
            if not _fits_rows(variant):
                return self._eager(results.count - row.number, _UNFIT, None)
            if not self._is_own and variant.verified < jitted.verify:
                # It compares the two itself.
                return _nothing(row)
            try:
                is_compared = jitted.is_compared(variant, family, call)
            except CheckFailed:
                jitted.counts["failed checks"] += 1
                continue
            if is_compared:
                return self._eager(1, "compared with its program", row)
            block = self._block(variant, call, row, results)
            if block is not None:
                self._last = jitted.last_call(variant, family, call)
                return block
        if not self._is_own:
            return _nothing(row)
        if family.reason is family.refusal is None:
            jitted.trace(family, call)
            return self._eager(1, NOT_TRACED, row)
        return self._eager(results.count - row.number, f"{family.reason or family.refusal}", None)

    def _why_not(self, call: Call, row: Row) -> str | None:
        """Return why all rows run by the function; None if nothing speaks for it."""
        reason = needs_eager(call.leaves)
        if reason is not None:
            return reason
        if not _are_aligned(row):
            return "an argument is not aligned"
        # What a transform returns has a history where an argument has one, whatever the function has captured.
        has_graph = GRAD_MODE.get() and _requires_grad(call.numbered)
        if has_graph and self._is_transformed:
            has_graph = _requires_grad(leaves((row.args, row.kwargs)))
        return "an argument requires grad" if has_graph else None

    def _eager(self, calls: int, reason: str, row: Row | None) -> Block | None:
        if self._is_own:
            self._jitted.counts["calls"] += calls
            self._jitted.counts[f"eager: {reason}"] += calls
        return None if row is None else _nothing(row)

    def _block(self, variant: Variant, call: Call, row: Row, results: RowResults) -> Block | None:
        """Return what a program computes; None where another one may for this row."""
        counts, outputs = self._jitted.counts, variant.outputs
        columns = [_column(place, one, variant, call, results) for place, one in enumerate(outputs)]
        computed: dict[int, np.ndarray] = {}
        for output, column in zip(outputs, columns, strict=True):
            if output.kind not in ("argument", "constant"):
                computed.setdefault(output.index, column.array)
        stacks = [row.stacks.get(id(leaf), leaf) for leaf in call.numbered]
        arrays = [one._data if isinstance(one, TensorBase) else one for one in stacks]
        are_stacks = [id(leaf) in row.stacks for leaf in call.numbered]
        rows = Rows(arrays, are_stacks, row.number, results.count, [computed[one] for one in range(len(computed))])
        lease = Lease(variant)
        run = lease.table.run_rows
        if PROGRAMS.all_put:
            run = watched(lease.table, variant.name, "forward", run, has_parts=False)
        try:
            run(rows)
        except CheckFailed:
            counts["failed checks"] += 1
            if rows.index == row.number:
                return None
        except Exception as error:
            # The function raises it too, or catches it.
            if rows.index == row.number:
                return self._eager(1, f"{type(error).__name__} in its program", row)
        counts["calls"] += rows.index - row.number
        counts["replayed"] += rows.index - row.number
        part = slice(row.number, rows.index)
        for output, column in zip(outputs, columns, strict=True):
            _fill(column.array, part, output, call, row, computed)
        return Block(row.number, rows.index, variant.structure, columns)


def _compiled(function: Callable[..., Any]) -> Jitted:
    plain, bound = unbound(function)
    return Jitted(plain, bound=bound)


def _nothing(row: Row) -> Block:
    return Block(row.number, row.number, LEAF, [])


def _are_aligned(row: Row) -> bool:
    """Tell whether all rows of each argument lie in memory as the first one does."""
    return all(getattr(one, "_data", one).flags.aligned for one in row.stacks.values())


def _requires_grad(values: Sequence[object]) -> bool:
    return any(isinstance(one, TensorBase) and one._requires_grad() for one in values)


def _fits_rows(variant: Variant) -> bool:
    """Tell whether a program may run for many rows."""
    constants = [one.value for one in variant.outputs if one.kind == "constant"]
    are_numbers = all(isinstance(one, _NUMBERS) for one in constants)
    return are_numbers and not variant.has_graph and not variant.program.commits


def _column(place: int, output: Output, variant: Variant, call: Call, results: RowResults) -> Column:
    """Return where a leaf of the result goes."""
    if output.kind == "constant":
        return Column(results.buffer(place, (), np.asarray(output.value).dtype))
    if output.kind == "argument":
        leaf = call.leaves[output.index]
        is_tensor = isinstance(leaf, TensorBase)
        array = leaf._data if is_tensor else leaf
        return Column(results.buffer(place, array.shape, array.dtype), is_tensor, leaf._device if is_tensor else None)
    array = variant.program.outputs[output.index].array
    return Column(results.buffer(place, array.shape, array.dtype), output.kind == "tensor", output.device)


def _fill(into: np.ndarray, part: slice, output: Output, call: Call, row: Row, computed: dict[int, np.ndarray]) -> None:
    """Put into a part of an array what the program has not put there."""
    if output.kind == "constant":
        into[part] = output.value
    elif output.kind == "argument":
        leaf = call.leaves[output.index]
        stack = row.stacks.get(id(leaf))
        given = leaf if stack is None else stack
        array = given._data if isinstance(given, TensorBase) else given
        into[part] = array if stack is None else array[part]
    elif computed[output.index] is not into:
        into[part] = computed[output.index][part]
