"""The functional layer of neural networks, with the names, argument order and layouts of torch.nn.functional.

PyTorch's `dim` is called `axis`, as in NumPy. Functions that draw random numbers take a NumPy generator. Called with
NumPy arrays only, each function returns a NumPy array.
"""

from .activations import elu as elu
from .activations import leaky_relu as leaky_relu
from .activations import relu as relu
from .activations import sigmoid as sigmoid
from .activations import silu as silu
from .activations import softplus as softplus
from .activations import tanh as tanh
from .attention import scaled_dot_product_attention as scaled_dot_product_attention
from .containers import ModuleDict as ModuleDict
from .containers import ModuleList as ModuleList
from .containers import ParameterDict as ParameterDict
from .containers import ParameterList as ParameterList
from .containers import Sequential as Sequential
from .convolution import conv2d as conv2d
from .entropy import cross_entropy as cross_entropy
from .entropy import nll_loss as nll_loss
from .gaussian_units import gelu as gelu
from .linear_maps import embedding as embedding
from .linear_maps import linear as linear
from .losses import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from .losses import l1_loss as l1_loss
from .losses import mse_loss as mse_loss
from .module import Module as Module
from .module import Parameter as Parameter
from .normalization import layer_norm as layer_norm
from .pooling import avg_pool2d as avg_pool2d
from .pooling import max_pool2d as max_pool2d
from .regularization import dropout as dropout
from .softmaxes import log_softmax as log_softmax
from .softmaxes import softmax as softmax

__all__ = [
    "Module",
    "ModuleDict",
    "ModuleList",
    "Parameter",
    "ParameterDict",
    "ParameterList",
    "Sequential",
    "avg_pool2d",
    "binary_cross_entropy_with_logits",
    "conv2d",
    "cross_entropy",
    "dropout",
    "elu",
    "embedding",
    "gelu",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_softmax",
    "max_pool2d",
    "mse_loss",
    "nll_loss",
    "relu",
    "scaled_dot_product_attention",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "tanh",
]


def __dir__() -> list[str]:
    return __all__
