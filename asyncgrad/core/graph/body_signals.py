"""Signals that a plain body raises, before it does anything, to have the executor run it in another way."""

from __future__ import annotations

from typing import final

__all__ = ["AddingSignal", "OffloadSignal"]


@final
class OffloadSignal(Exception):
    """Signals that a body may take long, so that a worker should perhaps run it."""

    __slots__ = ()


@final
class AddingSignal(Exception):
    """Signals that a body can add gradients into existing sums.

    An executor whose sums are arrays calls `plan.run_adding` with them; any other runs the node without.
    """

    __slots__ = ()
