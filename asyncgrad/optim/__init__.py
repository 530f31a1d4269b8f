"""Optimizers, with the names, arguments and arithmetic of torch.optim. A step is plain, synchronous NumPy."""

from typing import TYPE_CHECKING

from ..core.settings.lazy import name_advisor
from . import schedule as schedule
from .adagrad import Adagrad as Adagrad
from .adam import Adam as Adam
from .adam import AdamW as AdamW
from .averages import ExponentialMovingAverage as ExponentialMovingAverage
from .averages import GradientAccumulator as GradientAccumulator
from .clipping import clip_grad_norm as clip_grad_norm
from .clipping import clip_grad_value as clip_grad_value
from .elementwise import ElementwiseOptimizer as ElementwiseOptimizer
from .lbfgs import LBFGS as LBFGS
from .lion import Lion as Lion
from .optimizer import Optimizer as Optimizer
from .rmsprop import RMSprop as RMSprop
from .sgd import SGD as SGD

__all__ = [
    "Adagrad",
    "Adam",
    "AdamW",
    "ElementwiseOptimizer",
    "ExponentialMovingAverage",
    "GradientAccumulator",
    "LBFGS",
    "Lion",
    "Optimizer",
    "RMSprop",
    "SGD",
    "clip_grad_norm",
    "clip_grad_value",
    "schedule",
]


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:
    # A type checker that saw a `__getattr__` would take any name for one of the module.
    __getattr__ = name_advisor(__name__)
