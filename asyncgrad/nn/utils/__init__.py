"""Tools around layers, with the names of `torch.nn.utils`: `rnn` has sequences of several lengths."""

from . import rnn as rnn

__all__ = ["rnn"]


def __dir__() -> list[str]:
    return __all__
