"""Tools around layers, with the names of `torch.nn.utils`: `rnn` has sequences of several lengths."""

from typing import TYPE_CHECKING

from ...core.settings.lazy import name_advisor
from . import rnn as rnn

__all__ = ["rnn"]


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:
    # A type checker that saw a `__getattr__` would take any name for one of the module.
    __getattr__ = name_advisor(__name__)
