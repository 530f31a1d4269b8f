"""The random numbers of the current context: what initialisers, dropout and shuffled batches draw from.

Each context has a generator of NumPy's. Tasks and threads that are started in a context draw from its generator, until
they call `seed` themselves.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from .core.settings.arguments import must_be
from .core.settings.context import GENERATOR, SeededGenerator
from .core.settings.lazy import name_advisor
from .errors import ArgumentError, ArgumentTypeError

__all__ = ["generator", "get_state", "seed", "set_state"]


def seed(value: int | np.random.Generator | None = None) -> np.random.Generator:
    """Give the current context a new generator, and return it.

    Args:
        value: a seed that is not negative; or a generator to use itself; None draws a seed from the system.

    Raises:
        ArgumentTypeError: `value` is neither.
        ArgumentError: a seed is negative.

    Source: torch.manual_seed.

    Example:
        >>> import asyncgrad as ag
        >>> ag.random.seed(0).random() == ag.random.seed(0).random()
        True
    """
    if isinstance(value, (bool, np.bool_)) or not (
        value is None or isinstance(value, (int, np.integer, np.random.Generator))
    ):
        raise ArgumentTypeError(must_be("a seed", "an int, a NumPy Generator or None", value))
    if isinstance(value, (int, np.integer)) and value < 0:
        raise ArgumentError(must_be("a seed", "at least 0", value))
    found = np.random.default_rng(value)
    GENERATOR.set(found)
    return found


def generator() -> np.random.Generator:
    """Return the generator of the current context; makes one with a seed from the system where there is none.

    Source: torch.default_generator.
    """
    found = GENERATOR.get()
    if isinstance(found, SeededGenerator):
        return found.generator()
    return seed() if found is None else found


def get_state() -> dict[str, object]:
    """Return a copy of the state of the current context's generator, which can be pickled and goes into `set_state`.

    Source: torch.get_rng_state.

    Example:
        >>> import asyncgrad as ag
        >>> state = ag.random.get_state()
        >>> first = ag.random.generator().random()
        >>> ag.random.set_state(state)
        >>> ag.random.generator().random() == first
        True
    """
    return copy.deepcopy(dict(generator().bit_generator.state))


def set_state(state: Mapping[str, object]) -> None:
    """Give the current context a new generator with a state that `get_state` returned.

    Raises:
        ArgumentTypeError: it is none.

    Source: torch.set_rng_state.
    """
    if not isinstance(state, Mapping) or not hasattr(np.random, str(state.get("bit_generator"))):
        raise ArgumentTypeError(must_be("state", "what ag.random.get_state() returned", state))
    bits = getattr(np.random, str(state["bit_generator"]))()
    bits.state = state
    seed(np.random.Generator(bits))


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:
    # A type checker that saw a `__getattr__` would take any name for one of the module.
    __getattr__ = name_advisor(__name__)
