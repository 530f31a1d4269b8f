"""The first runs of a program are compared, bit for bit, with what the function does eagerly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from ..core.arrays.tensor_base import TensorBase
from ..core.tree.structure import flatten
from ..random import generator
from .draws import drawing_from
from .error_ways import told_before
from .program import CheckFailed
from .replayed_gradients import gradients_of
from .stand_in import stand_in
from .table import Table
from .variant import Variant

__all__ = ["IS_COMPARING", "computed_by", "same_bits", "verify"]

#: Whether a program is compared with its function now, under other ways to treat errors than those of the call.
IS_COMPARING: ContextVar[bool] = ContextVar("asyncgrad_is_comparing", default=False)


def verify(variant: Variant, numbered: Sequence[Any], run: Callable[[Sequence[Any]], Any]) -> str | None:
    """Return how a program differs from the function; None if it does not, in any bit.

    Args:
        variant: the program.
        numbered: the arrays and tensors among the arguments.
        run: returns what the function returns for others in their place.

    Raises:
        CheckFailed: a number decides otherwise than in the traced run, so that the program is not that of this call.
    """
    table, token = variant.take_table(), IS_COMPARING.set(True)
    try:
        # The call, which is eager, tells of floating-point errors.
        with told_before(np.geterr()):
            return _difference(variant, table, numbered, run)
    except CheckFailed:
        raise
    except Exception as error:
        return f"{type(error).__name__} where its program was compared: {error}"
    finally:
        IS_COMPARING.reset(token)
        # A table is dear to make.
        variant.give_back(table)


def _difference(
    variant: Variant, table: Table, numbered: Sequence[Any], run: Callable[[Sequence[Any]], Any]
) -> str | None:
    arrays = [leaf._data if isinstance(leaf, TensorBase) else leaf for leaf in numbered]
    # A worker may do this, so the stream that others draw from meanwhile is not touched.
    state = generator().bit_generator.state
    with drawing_from(state):
        found = table.run_forward(arrays)
    # Other tensors with the same numbers, so that nothing happens to those.
    aliases = [stand_in(leaf, leaf._data) if isinstance(leaf, TensorBase) else leaf for leaf in numbered]
    for index, _ in variant.program.commits:
        aliases[index]._data = numbered[index]._data.copy()
    with drawing_from(state):
        result = run(aliases)
    if not _is_alike(variant, result, aliases):
        return "its program returns something of another kind: it reads what changes and is no argument"
    results = computed_by(variant, result)
    for mine, theirs in zip(found, results, strict=True):
        if not same_bits(mine, theirs._data if isinstance(theirs, TensorBase) else theirs):
            return "its program gives another result: it reads what changes and is no argument"
    for index, array in table.commits():
        if not same_bits(array, aliases[index]._data):
            return "its program changes an argument otherwise: it reads what changes and is no argument"
    if variant.wanted and variant.seeded:
        ones, roots = variant.ones(), [results[index] for index in variant.seeded]
        expected = gradients_of(roots, [aliases[index] for index in variant.wanted], ones, False)
        for gradient, other in zip(table.run_backward(ones), expected, strict=True):
            if (gradient is None) != (other is None) or (gradient is not None and not same_bits(gradient, other._data)):
                return "its program gives another gradient: it reads what changes and is no argument"
    return None


def computed_by(variant: Variant, result: object) -> list[Any]:
    """Return what a program computes of what its function returns, in the order of the program."""
    found: dict[int, Any] = {}
    for output, leaf in zip(variant.outputs, flatten(result)[0], strict=True):
        if output.kind in ("tensor", "array", "number"):
            found[output.index] = leaf
    return [found[index] for index in range(len(found))]


def _is_alike(variant: Variant, result: object, aliases: Sequence[object]) -> bool:
    """Tell whether what the function returns has the structure, kinds and constants of what the program returns."""
    leaves, structure = flatten(result)
    if structure != variant.structure:
        return False
    given = {id(alias) for alias in aliases}
    for output, leaf in zip(variant.outputs, leaves, strict=True):
        if output.kind == "constant":
            alike = type(leaf) is type(output.value) and repr(leaf) == repr(output.value)
        elif output.kind == "argument":
            alike = id(leaf) in given or not isinstance(leaf, (np.ndarray, TensorBase))
        elif output.kind == "tensor":
            alike = isinstance(leaf, TensorBase) and leaf._requires_grad() is output.requires_grad
        else:
            alike = isinstance(leaf, np.ndarray if output.kind == "array" else np.generic)
        if not alike:
            return False
    return True


def same_bits(mine: np.ndarray, theirs: object) -> bool:
    """Tell whether arrays have the same shape, the same dtype and the same bits."""
    theirs = np.asarray(theirs)
    if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
        return False
    if mine.dtype.kind not in "fc" or mine.dtype.itemsize in (2, 4, 8) or mine.dtype == np.complex128:
        return bool(mine.tobytes() == theirs.tobytes())
    # A long double has bytes that mean nothing.
    parts = zip((mine.real, mine.imag), (theirs.real, theirs.imag), strict=True)
    return all(np.array_equal(a, b, equal_nan=True) and np.array_equal(np.signbit(a), np.signbit(b)) for a, b in parts)
