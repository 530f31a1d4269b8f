"""`vmap`: a function of one row becomes one of a batch of rows."""

from __future__ import annotations

import functools
import importlib
import inspect
import types
import weakref
from collections.abc import Callable, Generator
from typing import Any, ParamSpec, final

from ..core.rows import at_once, check_concurrency, run_numbered
from ..core.settings.arguments import check_function, describe
from ..core.settings.awaiting import finish, run_steps
from ..core.settings.context import GENERATOR, is_kind
from ..core.settings.loop_turn import keep_pace
from ..core.tree.structure import flatten
from ..errors import ArgumentError
from .batches import Batch, check_axes
from .calls import named_after
from .recipes import innermost
from .row_results import RowResults
from .spare_arrays import SpareArrays

__all__ = ["is_map", "vmap"]

P = ParamSpec("P")

_WHERE = "ag.func.vmap"
#: After how many rows a function is traced that is not compiled already: a trace takes as long as about a hundred.
_ROWS_BEFORE_TRACE = 64
#: The functions that `vmap` has returned.
_MAPS: weakref.WeakSet[Callable[..., Any]] = weakref.WeakSet()


def vmap(
    fn: Callable[P, object], in_axes: object = 0, out_axes: object = 0, *, concurrency: int | None = 1
) -> Callable[P, Any]:
    """Return a function that takes a batch of rows, calls `fn` with each of them, and stacks what it returns.

    Args:
        fn: a function or an `async def` of trees.
        in_axes: along which axis of the arguments the rows lie: an int; None for an argument that is the same in all
            rows; or a tuple with an entry for each positional argument, an int, None, or a tree of them like the
            argument. The rows of keyword arguments lie along axis 0.
        out_axes: along which axis of the result they lie: an int, or a tree of ints like the result. None is for what
            is the same for all rows.
        concurrency: of how many rows an `async def` runs at once; None for as many as fit into memory. One after the
            other they draw the random numbers that a loop does.

    Returns:
        A function with the arguments of `fn`, or an `async def` where `fn` is one. The leaves of its result are those
        of `fn` for all rows, tensors where these are tensors, and arrays else.

    Raises:
        ArgumentTypeError: `fn` cannot be called, an axis or `concurrency` is no int, or there are no rows in what has
            an axis.
        ArgumentError: an axis is not there, the arguments differ in the number of their rows, there are none, the
            results for rows differ in structure or shape, or `concurrency` is less than 1, or is for a function that is
            no `async def`.

    Source: jax.vmap; torch.func.vmap.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> def loss(w, x, y):
        ...     return ((x * w).sum() - y) ** 2
        >>> async def main():
        ...     per_example = ag.func.vmap(ag.func.grad(loss), in_axes=(None, 0, 0))
        ...     return await per_example(np.ones(2), np.array([[1.0, 2.0], [3.0, 4.0]]), np.zeros(2))
        >>> ag.run(main())
        array([[ 6., 12.],
               [42., 56.]])
    """
    check_function(fn, _WHERE, in_axes)
    in_axes, out_axes = check_axes(in_axes, f"{_WHERE}: in_axes"), check_axes(out_axes, f"{_WHERE}: out_axes")
    if in_axes is None:
        raise ArgumentError(f"{_WHERE}: in_axes must have an axis for at least one argument, not None for all")
    return _map_of(fn, _RowCalls(fn, in_axes, out_axes), check_concurrency(concurrency))


def _map_of(fn: Callable[P, object], calls: _RowCalls, rows_at_once: int | None) -> Callable[P, Any]:
    if is_kind(inspect.iscoroutinefunction, fn):

        @named_after(fn, _WHERE, "results for all rows")
        async def awaited(*args: P.args, **kwargs: P.kwargs) -> Any:
            is_loop = rows_at_once == 1 or _checks_rows() is not None
            result = await (finish(calls(args, kwargs)) if is_loop else calls.together(args, kwargs, rows_at_once))
            await keep_pace()
            return result

        _MAPS.add(awaited)
        return awaited

    if rows_at_once != 1:
        raise ArgumentError(
            f"{_WHERE}: concurrency={rows_at_once} is for an async def, whose rows may wait at the same time, and "
            f"{describe(fn)} is none: leave it out"
        )

    @named_after(fn, _WHERE, "results for all rows")
    def called(*args: P.args, **kwargs: P.kwargs) -> Any:
        return calls(args, kwargs)

    _MAPS.add(called)
    return called


def is_map(fn: Callable[..., Any]) -> bool:
    """Tell whether a function is a map, or the blocking form of one."""
    return any(isinstance(one, types.FunctionType) and one in _MAPS for one in (fn, getattr(fn, "__wrapped__", None)))


def _checks_rows() -> Callable[[Any, int], None] | None:
    """Return what is told of the rows within a compiled function, which is traced; None elsewhere."""
    return getattr(type(GENERATOR.get()), "check_rows", None)


@final
class _RowCalls:
    """Calls a function once for each row."""

    __slots__ = ("_fn", "_in_axes", "_is_compiled", "_out_axes", "_programs", "_rows", "_spare")

    def __init__(self, fn: Callable[..., Any], in_axes: Any, out_axes: Any) -> None:
        self._fn = fn
        self._in_axes = in_axes
        self._out_axes = out_axes
        inner = innermost(fn)
        is_awaited = is_kind(inspect.iscoroutinefunction, inner)
        #: Whether there may be programs of it. A map has its own.
        self._is_compiled: bool = not (is_awaited or isinstance(inner, (type, functools.partial)) or is_map(inner))
        #: How many rows have run by the function.
        self._rows: int = _ROWS_BEFORE_TRACE if getattr(type(inner), "is_compiled", False) else 0
        self._programs: Any = None
        self._spare = SpareArrays()

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the results for all rows; an awaitable of them where the function returns awaitables."""
        return run_steps(self._steps(Batch(_WHERE, self._fn, self._in_axes, args, kwargs)))

    async def together(self, args: tuple[Any, ...], kwargs: dict[str, Any], concurrency: int | None) -> Any:
        """Return the results for all rows, of which several run at once."""
        batch = Batch(_WHERE, self._fn, self._in_axes, args, kwargs)
        returned: dict[int, Any] = {}

        async def call_for_row(index: int) -> list[Any]:
            row = batch.row(index)
            returned[index] = await finish(self._fn(*row.args, **row.kwargs))
            return flatten(returned[index])[0]

        limit = at_once(batch.count, batch.bytes_of_row(), concurrency)
        if limit == 1:
            for index in range(batch.count):
                await call_for_row(index)
                await keep_pace()
        else:
            await run_numbered(call_for_row, batch.count, limit, is_forward=True)
        results = RowResults(_WHERE, batch.count, self._spare)
        for index in range(batch.count):
            results.add(index, returned[index])
        return results.stacked(self._out_axes)

    def _steps(self, batch: Batch) -> Generator[Any, Any, Any]:
        results = RowResults(_WHERE, batch.count, self._spare)
        check_rows = _checks_rows()
        if check_rows is not None:
            check_rows(GENERATOR.get(), batch.count)
        may_replay = self._is_compiled and check_rows is None
        fn = self._fn
        index = 0
        while index < batch.count:
            row = batch.row(index)
            if may_replay and self._rows >= _ROWS_BEFORE_TRACE:
                programs = self._row_programs()
                block = programs.run(row, results)
                if block is None:
                    may_replay, fn = False, programs.plain()
                if block is not None and block.end > index:
                    results.add_block(block)
                    index = block.end
                    continue
            returned = fn(*row.args, **row.kwargs)
            if inspect.isawaitable(returned) and not is_kind(inspect.iscoroutinefunction, self._fn):
                # A plain function that awaits by what it returns, of which no program is made.
                self._is_compiled = may_replay = False
            results.add(index, (yield returned))
            self._rows += 1
            index += 1
        return results.stacked(self._out_axes)

    def _row_programs(self) -> Any:
        if self._programs is None:
            # It uses the transforms, and so stands above them.
            self._programs = importlib.import_module("asyncgrad.tracing.rows").RowPrograms(self._fn)
        return self._programs
