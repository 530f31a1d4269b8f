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
from .adaptive_layers import AdaptiveAvgPool1d as AdaptiveAvgPool1d
from .adaptive_layers import AdaptiveAvgPool2d as AdaptiveAvgPool2d
from .adaptive_layers import AdaptiveMaxPool1d as AdaptiveMaxPool1d
from .adaptive_layers import AdaptiveMaxPool2d as AdaptiveMaxPool2d
from .adaptive_pooling import adaptive_avg_pool1d as adaptive_avg_pool1d
from .adaptive_pooling import adaptive_avg_pool2d as adaptive_avg_pool2d
from .adaptive_pooling import adaptive_max_pool1d as adaptive_max_pool1d
from .adaptive_pooling import adaptive_max_pool2d as adaptive_max_pool2d
from .attention import scaled_dot_product_attention as scaled_dot_product_attention
from .containers import ModuleDict as ModuleDict
from .containers import ModuleList as ModuleList
from .containers import ParameterDict as ParameterDict
from .containers import ParameterList as ParameterList
from .containers import Sequential as Sequential
from .convolution import conv1d as conv1d
from .convolution import conv2d as conv2d
from .convolution import conv_transpose1d as conv_transpose1d
from .convolution import conv_transpose2d as conv_transpose2d
from .convolution_layers import Conv1d as Conv1d
from .convolution_layers import Conv2d as Conv2d
from .convolution_layers import ConvTranspose1d as ConvTranspose1d
from .convolution_layers import ConvTranspose2d as ConvTranspose2d
from .distances import normalize as normalize
from .distances import pairwise_distance as pairwise_distance
from .dropout_layers import Dropout as Dropout
from .dropout_layers import Dropout1d as Dropout1d
from .dropout_layers import Dropout2d as Dropout2d
from .entropy import cross_entropy as cross_entropy
from .entropy import nll_loss as nll_loss
from .gaussian_units import gelu as gelu
from .labels import one_hot as one_hot
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
from .normalization_layers import BatchNorm1d as BatchNorm1d
from .normalization_layers import BatchNorm2d as BatchNorm2d
from .normalization_layers import GroupNorm as GroupNorm
from .normalization_layers import InstanceNorm1d as InstanceNorm1d
from .normalization_layers import InstanceNorm2d as InstanceNorm2d
from .normalization_layers import LayerNorm as LayerNorm
from .normalization_layers import RMSNorm as RMSNorm
from .pooling import avg_pool1d as avg_pool1d
from .pooling import avg_pool2d as avg_pool2d
from .pooling import max_pool1d as max_pool1d
from .pooling import max_pool2d as max_pool2d
from .pooling_layers import AvgPool1d as AvgPool1d
from .pooling_layers import AvgPool2d as AvgPool2d
from .pooling_layers import MaxPool1d as MaxPool1d
from .pooling_layers import MaxPool2d as MaxPool2d
from .recurrent import GRU as GRU
from .recurrent import LSTM as LSTM
from .recurrent import RNN as RNN
from .recurrent import GRUCell as GRUCell
from .recurrent import LSTMCell as LSTMCell
from .recurrent import RNNCell as RNNCell
from .regularization import dropout as dropout
from .resizing import interpolate as interpolate
from .resizing import pad as pad
from .softmaxes import log_softmax as log_softmax
from .softmaxes import softmax as softmax
from .standardizing import batch_norm as batch_norm
from .standardizing import group_norm as group_norm
from .standardizing import instance_norm as instance_norm
from .standardizing import rms_norm as rms_norm
from .transformer import MultiheadAttention as MultiheadAttention
from .transformer import TransformerDecoder as TransformerDecoder
from .transformer import TransformerDecoderLayer as TransformerDecoderLayer
from .transformer import TransformerEncoder as TransformerEncoder
from .transformer import TransformerEncoderLayer as TransformerEncoderLayer
from .weights import load_safetensors as load_safetensors
from .weights import save_safetensors as save_safetensors

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AvgPool1d",
    "AvgPool2d",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "Bilinear",
    "Conv1d",
    "Conv2d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "CrossEntropyLoss",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "ELU",
    "Embedding",
    "Flatten",
    "GELU",
    "GRU",
    "GRUCell",
    "GroupNorm",
    "Identity",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "L1Loss",
    "LSTM",
    "LSTMCell",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LogSoftmax",
    "MSELoss",
    "MaxPool1d",
    "MaxPool2d",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiheadAttention",
    "NLLLoss",
    "Parameter",
    "ParameterDict",
    "ParameterList",
    "RMSNorm",
    "RNN",
    "RNNCell",
    "ReLU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Tanh",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "Unflatten",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "avg_pool1d",
    "avg_pool2d",
    "batch_norm",
    "binary_cross_entropy_with_logits",
    "conv1d",
    "conv2d",
    "conv_transpose1d",
    "conv_transpose2d",
    "cross_entropy",
    "dropout",
    "elu",
    "embedding",
    "gelu",
    "group_norm",
    "init",
    "instance_norm",
    "interpolate",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "load_safetensors",
    "log_softmax",
    "max_pool1d",
    "max_pool2d",
    "mse_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "relu",
    "rms_norm",
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
