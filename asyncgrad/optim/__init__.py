"""Optimizers, with the names, arguments and arithmetic of torch.optim. A step is plain, synchronous NumPy."""

from .adagrad import Adagrad as Adagrad
from .adam import Adam as Adam
from .adam import AdamW as AdamW
from .lbfgs import LBFGS as LBFGS
from .lion import Lion as Lion
from .optimizer import Optimizer as Optimizer
from .rmsprop import RMSprop as RMSprop
from .sgd import SGD as SGD

__all__ = ["LBFGS", "SGD", "Adagrad", "Adam", "AdamW", "Lion", "Optimizer", "RMSprop"]


def __dir__() -> list[str]:
    return __all__
