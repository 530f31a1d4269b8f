"""Tools around models, with the names of `torch.nn.utils`.

`rnn` has sequences of several lengths, `parametrize` parameters that are computed from others.
"""

from typing import TYPE_CHECKING

from ...core.settings.lazy import name_advisor
from . import parametrizations as parametrizations
from . import parametrize as parametrize
from . import rnn as rnn
from .averages import AveragedModel as AveragedModel
from .averages import get_ema_avg_fn as get_ema_avg_fn
from .averages import get_ema_multi_avg_fn as get_ema_multi_avg_fn
from .averages import get_swa_avg_fn as get_swa_avg_fn
from .averages import get_swa_multi_avg_fn as get_swa_multi_avg_fn
from .averages import update_bn as update_bn
from .vectors import parameters_to_vector as parameters_to_vector
from .vectors import vector_to_parameters as vector_to_parameters

__all__ = [
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "rnn",
    "update_bn",
    "vector_to_parameters",
]


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:
    # A type checker that saw a `__getattr__` would take any name for one of the module.
    __getattr__ = name_advisor(__name__)
