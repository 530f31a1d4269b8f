"""Neural networks: functions, by the names and argument order of torch.nn.functional, and modules, by torch.nn's.

PyTorch's `dim` is called `axis` in functions, as in NumPy. Random numbers come from the generator of the context
(`ag.random.seed`) unless another one is given. Called with NumPy arrays only, a function returns a NumPy array.
"""

from . import init as init
from .activation_layers import ELU as ELU
from .activation_layers import GELU as GELU
from .activation_layers import LeakyReLU as LeakyReLU
from .activation_layers import LogSoftmax as LogSoftmax
from .activation_layers import ReLU as ReLU
from .activation_layers import Sigmoid as Sigmoid
from .activation_layers import SiLU as SiLU
from .activation_layers import Softmax as Softmax
from .activation_layers import Softplus as Softplus
from .activation_layers import Tanh as Tanh
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
from .dropout_layers import Dropout as Dropout
from .dropout_layers import Dropout1d as Dropout1d
from .dropout_layers import Dropout2d as Dropout2d
from .entropy import cross_entropy as cross_entropy
from .entropy import nll_loss as nll_loss
from .gaussian_units import gelu as gelu
from .linear_layers import Bilinear as Bilinear
from .linear_layers import Embedding as Embedding
from .linear_layers import Flatten as Flatten
from .linear_layers import Identity as Identity
from .linear_layers import Linear as Linear
from .linear_layers import Unflatten as Unflatten
from .linear_maps import embedding as embedding
from .linear_maps import linear as linear
from .loss_layers import BCEWithLogitsLoss as BCEWithLogitsLoss
from .loss_layers import CrossEntropyLoss as CrossEntropyLoss
from .loss_layers import L1Loss as L1Loss
from .loss_layers import MSELoss as MSELoss
from .loss_layers import NLLLoss as NLLLoss
from .losses import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from .losses import l1_loss as l1_loss
from .losses import mse_loss as mse_loss
from .module import Module as Module
from .module import Parameter as Parameter
from .normalization import layer_norm as layer_norm
from .pooling import avg_pool2d as avg_pool2d
from .pooling import max_pool2d as max_pool2d
from .pooling_layers import AvgPool2d as AvgPool2d
from .pooling_layers import MaxPool2d as MaxPool2d
from .regularization import dropout as dropout
from .softmaxes import log_softmax as log_softmax
from .softmaxes import softmax as softmax
from .weights import load_safetensors as load_safetensors
from .weights import save_safetensors as save_safetensors

__all__ = [
    "AvgPool2d",
    "BCEWithLogitsLoss",
    "Bilinear",
    "CrossEntropyLoss",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "ELU",
    "Embedding",
    "Flatten",
    "GELU",
    "Identity",
    "L1Loss",
    "LeakyReLU",
    "Linear",
    "LogSoftmax",
    "MSELoss",
    "MaxPool2d",
    "Module",
    "ModuleDict",
    "ModuleList",
    "NLLLoss",
    "Parameter",
    "ParameterDict",
    "ParameterList",
    "ReLU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Tanh",
    "Unflatten",
    "avg_pool2d",
    "binary_cross_entropy_with_logits",
    "conv2d",
    "cross_entropy",
    "dropout",
    "elu",
    "embedding",
    "gelu",
    "init",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "load_safetensors",
    "log_softmax",
    "max_pool2d",
    "mse_loss",
    "nll_loss",
    "relu",
    "save_safetensors",
    "scaled_dot_product_attention",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "tanh",
]


def __dir__() -> list[str]:
    return __all__
