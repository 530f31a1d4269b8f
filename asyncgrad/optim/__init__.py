"""Optimizers, with the names, arguments and arithmetic of torch.optim. A step is plain, synchronous NumPy."""

from typing import TYPE_CHECKING

from ..core.settings.lazy import name_advisor
from . import schedule as schedule
from .adadelta import Adadelta as Adadelta
from .adafactor import Adafactor as Adafactor
from .adagrad import Adagrad as Adagrad
from .adam import Adam as Adam
from .adam import AdamW as AdamW
from .adamax import Adamax as Adamax
from .asgd import ASGD as ASGD
from .averages import ExponentialMovingAverage as ExponentialMovingAverage
from .averages import GradientAccumulator as GradientAccumulator
from .clipping import clip_grad_norm as clip_grad_norm
from .clipping import clip_grad_value as clip_grad_value
from .elementwise import ElementwiseOptimizer as ElementwiseOptimizer
from .lbfgs import LBFGS as LBFGS
from .lion import Lion as Lion
from .muon import Muon as Muon
from .nadam import NAdam as NAdam
from .optimizer import Optimizer as Optimizer
from .radam import RAdam as RAdam
from .rmsprop import RMSprop as RMSprop
from .rprop import Rprop as Rprop
from .sgd import SGD as SGD

__all__ = [
    "ASGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "ElementwiseOptimizer",
    "ExponentialMovingAverage",
    "GradientAccumulator",
    "LBFGS",
    "Lion",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
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
