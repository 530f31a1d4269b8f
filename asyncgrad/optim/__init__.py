"""Optimizers, with the names, arguments and arithmetic of torch.optim. A step is plain, synchronous NumPy."""

from .adam import Adam as Adam
from .adam import AdamW as AdamW
from .optimizer import Optimizer as Optimizer
from .sgd import SGD as SGD

__all__ = ["Adam", "AdamW", "Optimizer", "SGD"]


def __dir__() -> list[str]:
    return __all__
