"""What `ag.jit.explain` shows: the program of a call, what must be the same for it, and why there is none."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, final

import numpy as np

from ..core.arrays.tensor_base import TensorBase
from ..core.settings.arguments import describe
from ..core.tree.structure import leaves
from ..errors import ArgumentError
from ..observing.visualize.picture import Picture
from .call_key import needs_eager
from .captured import Captured, names_of
from .jitted import Jitted
from .object_key import is_array, is_of_a_library
from .program_picture import picture_of, shown_as_it_would_be
from .step_text import line_of
from .trace import Refusal, Untraceable, name_of
from .variant import Variant, trace_variant

__all__ = ["Explanation", "explain"]


@final
class Explanation:
    """The program of a call, or why there is none; `print` shows it.

    Attributes:
        reason: why the call is eager; None where it has a program.
        forward: the calls of the forward, one a line.
        backward: those of the backward.
        guards: what must be the same for a call to run this program.
        opaque: functions that make arrays of their own, which are then copied.
    """

    __slots__ = ("_variant", "backward", "forward", "guards", "opaque", "reason")

    def __init__(self, guards: list[str], variant: Variant | None, reason: str | None) -> None:
        self._variant = variant
        program = None if variant is None else variant.program
        self.guards = guards
        self.reason = reason
        steps = [] if program is None else [program.forward, program.backward]
        self.forward, self.backward = [[line_of(step) for step in part] for part in steps] or [[], []]
        self.opaque = sorted({name_of(step.function) for part in steps for step in part if step.results})

    def __str__(self) -> str:
        given = ["  " + guard for guard in self.guards]
        if self.reason is not None:
            return "\n".join([f"eager: {self.reason}; for arguments", *given])
        calls = "call" if len(self.forward) == 1 else "calls"
        head = f"a program of {len(self.forward)} {calls} forward and {len(self.backward)} backward, for arguments"
        parts = [head, *given]
        for name, lines in (("forward", self.forward), ("backward", self.backward)):
            parts += [name, *["  " + line for line in lines]] if lines else []
        if self.opaque:
            parts.append(f"results are copied of {', '.join(self.opaque)}")
        return "\n".join(parts)

    __repr__ = __str__

    def _picture(self, *, folded: bool, most: int) -> Picture:
        """Return the picture of the program, with the kernels that it would have.

        Raises:
            ArgumentError: there is none.
        """
        if self._variant is None:
            raise ArgumentError(f"there is no program to draw: {self.reason}")
        return picture_of([shown_as_it_would_be(self._variant)], self._variant.name, folded, most)


def explain(jitted: Jitted, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Explanation:
    """Trace a call of a compiled function, and return what comes of it."""
    try:
        call = jitted.new_call(*jitted.with_bound(args, kwargs))
        # What cannot be a part of the key keeps calls eager too.
        call.key()
    except Untraceable as error:
        return Explanation([], None, str(error))
    given = call.leaves[: len(call.leaves) - len(leaves(call.captured.values))]
    guards = [_guard(leaf) for leaf in given] + _read_besides(jitted.function, call.captured)
    reason = needs_eager(call.leaves)
    if reason is not None:
        return Explanation(guards, None, reason)
    try:
        variant = trace_variant(call.run_tree, call.leaves, call.structure, jitted.name, jitted.function)
    except (Untraceable, Refusal) as error:
        return Explanation(guards, None, str(error))
    except Exception as error:
        return Explanation(guards, None, f"{type(error).__name__} in the traced run: {error}")
    return Explanation(guards, variant, None)


def _read_besides(function: Callable[..., Any], captured: Captured) -> list[str]:
    """Return what a function reads besides its arguments, and where; what libraries have is not compared."""
    if not isinstance(function, types.FunctionType):
        return []
    found: list[str] = []
    for (kind, name), value in names_of(function):
        if (kind, name) in captured.values:
            found += [f"{kind} {name}: {_guard(leaf)}" for leaf in leaves(value)]
        elif kind in ("closure", "global", "default") and not is_of_a_library(value):
            found.append(f"{kind} {name}: {describe(value)}")
    return found


def _guard(leaf: Any) -> str:
    if not is_array(leaf):
        return f"{leaf!r:.80}"
    kind = "Tensor" if isinstance(leaf, TensorBase) else "array"
    array: np.ndarray = leaf._data if isinstance(leaf, TensorBase) else leaf
    grad = ", requires grad" if isinstance(leaf, TensorBase) and leaf._requires_grad() else ""
    order = "" if array.flags.c_contiguous else f" and strides {array.strides}"
    return f"{kind} of shape {array.shape} and dtype {array.dtype}{order}{grad}"
