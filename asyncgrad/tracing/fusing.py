"""When a program gets kernels: after some calls they are compiled, then compared with the runner, and then they run."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from ..random import generator
from .compiling import COMPILER
from .draws import drawing_from
from .error_ways import without_warnings
from .fused_program import FusedProgram
from .fusion import fuse
from .kernel_trials import exponential_agrees
from .kernels import compiled_kernel
from .program import Program
from .runner import Runner
from .table import Table
from .variant import Variant
from .verifying import same_bits

__all__ = ["FUSED", "Fusing"]

#: What `Fusing.advance` returns once a program runs by kernels.
FUSED = "fused"
#: After how many calls of a program its kernels are compiled, and how often it is tried to compare them.
_CALLS, _TRIES = 8, 8


class _Ending(Exception):
    """The interpreter ends."""


@final
class Fusing:
    """The way of a program from the runner to kernels.

    Args:
        program: the program.
        runner: what runs it meanwhile.
        at_once: whether it is compiled here, before it is called.
    """

    __slots__ = (
        "__weakref__",
        "_calls",
        "_found",
        "_generation",
        "_is_begun",
        "_lock",
        "_program",
        "_reason",
        "_runner",
        "_tries",
    )

    def __init__(self, program: Program, runner: Runner, at_once: bool) -> None:
        self._program = program
        self._runner = runner
        self._calls = 0
        self._tries = 0
        self._is_begun = at_once
        #: What was made: None in it where there is nothing to fuse.
        self._found: tuple[FusedProgram, Table] | tuple[None, None] | None = None
        #: Why nothing was made.
        self._reason: str | None = None
        self._lock = threading.Lock()
        #: That of the compiler in the process that has begun to compile it.
        self._generation: int = COMPILER.generation
        if at_once:
            self.make()

    def make(self) -> None:
        """Find what can be fused, compile it, and make a table; whatever goes wrong is kept as a reason."""
        try:
            self._found = _made(self._program, self._runner)
        except _Ending:
            return
        except Exception as error:
            self._reason = f"{type(error).__name__} while it was compiled: {error}"

    def is_compiled(self) -> bool:
        """Tell whether kernels are there, or why there are none: the next step compares them."""
        return self._found is not None or self._reason is not None

    def advance(self, variant: Variant, arrays: Sequence[np.ndarray]) -> str | None:
        """Take the next step before a call; return what has become of it, or None while that is not decided.

        Args:
            variant: whose program it is.
            arrays: the arguments of the call.
        """
        if self._generation != COMPILER.generation:
            # In a child: what a thread of the parent did goes on there alone.
            self._generation = COMPILER.generation
            self._lock = threading.Lock()
            self._is_begun = False
        if not self._lock.acquire(blocking=False):
            # Another call does it.
            return None
        try:
            if self._found is None and self._reason is None:
                self._count()
                return None
            if self._reason is not None:
                return f"not fused: {self._reason}"
            assert self._found is not None
            fused, table = self._found
            if fused is None or table is None:
                return "not fused: nothing in it can be"
            if self._tries >= _TRIES:
                return "not fused: in each of its first runs a number is not that of the traced run"
            self._tries += 1
            difference = _difference(variant, table, arrays)
            if difference is None and fused.reruns:
                fused.reruns = 0
                in_vain = "not fused: in each of its first runs there is an error or a NaN"
                return in_vain if self._tries >= _TRIES else None
            if difference is not None:
                return f"not fused: {difference}"
            variant.use(fused, table)
            return FUSED
        finally:
            self._lock.release()

    def _count(self) -> None:
        self._calls += 1
        if self._calls >= _CALLS and not self._is_begun:
            self._is_begun = True
            reference = weakref.ref(self)

            def job() -> None:
                found = reference()
                if found is not None:
                    found.make()

            COMPILER.submit(job)


def _made(program: Program, runner: Runner) -> tuple[FusedProgram, Table] | tuple[None, None]:
    # Its memory is laid out as that of each table.
    layout = Table(program, None)
    _stop_at_exit()
    fusion = fuse(program, layout.array, exponential_agrees)
    kernels = {}
    for group in (*fusion.forward, *fusion.backward):
        _stop_at_exit()
        if group.kernel not in kernels:
            kernels[group.kernel] = compiled_kernel(group.kernel)
    if not kernels:
        return None, None
    fused = FusedProgram(fusion, kernels)
    return fused, Table(program, runner, fused)


def _stop_at_exit() -> None:
    if COMPILER.is_ending():
        raise _Ending


def _difference(variant: Variant, table: Table, arrays: Sequence[np.ndarray]) -> str | None:
    """Return how a run by kernels differs from one without; None if it does not, in any bit."""
    plain = variant.take_table()
    # Where it warns, the call itself does.
    with np.errstate(all="ignore"), without_warnings():
        try:
            expected = _results(variant, plain, arrays)
        finally:
            # A number may be another one than in the traced run, and a table is dear to make.
            variant.give_back(plain)
        try:
            found = _results(variant, table, arrays)
        except Exception as error:
            return f"{type(error).__name__} where its kernels were compared: {error}"
    for mine, theirs in zip(found, expected, strict=True):
        if mine is not None and theirs is not None and not same_bits(mine, theirs):
            return "its kernels give another result"
    return None


def _results(variant: Variant, table: Table, arrays: Sequence[np.ndarray]) -> list[Any]:
    with drawing_from(generator().bit_generator.state):
        found: list[Any] = list(table.run_forward(arrays))
    found += [array.copy() for _, array in table.commits()]
    if variant.wanted and variant.seeded:
        found += table.run_backward(variant.ones())
    return found
