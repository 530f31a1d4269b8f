"""Neural networks: functions, by the names and argument order of torch.nn.functional, and modules, by torch.nn's.

PyTorch's `dim` is called `axis` in functions, as in NumPy. Random numbers come from the generator of the context
(`ag.random.seed`) unless another one is given. Called with NumPy arrays only, a function returns a NumPy array.
"""

from . import init as init
from . import utils as utils
from .activation_layers import CELU as CELU
from .activation_layers import ELU as ELU
from .activation_layers import GELU as GELU
from .activation_layers import GLU as GLU
from .activation_layers import SELU as SELU
from .activation_layers import Hardshrink as Hardshrink
from .activation_layers import Hardsigmoid as Hardsigmoid
from .activation_layers import Hardswish as Hardswish
from .activation_layers import Hardtanh as Hardtanh
from .activation_layers import LeakyReLU as LeakyReLU
from .activation_layers import LogSigmoid as LogSigmoid
from .activation_layers import LogSoftmax as LogSoftmax
from .activation_layers import Mish as Mish
from .activation_layers import PReLU as PReLU
from .activation_layers import ReLU as ReLU
from .activation_layers import ReLU6 as ReLU6
from .activation_layers import RReLU as RReLU
from .activation_layers import Sigmoid as Sigmoid
from .activation_layers import SiLU as SiLU
from .activation_layers import Softmax as Softmax
from .activation_layers import Softmax2d as Softmax2d
from .activation_layers import Softmin as Softmin
from .activation_layers import Softplus as Softplus
from .activation_layers import Softshrink as Softshrink
from .activation_layers import Softsign as Softsign
from .activation_layers import Tanh as Tanh
from .activation_layers import Tanhshrink as Tanhshrink
from .activation_layers import Threshold as Threshold
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
from .distances import cosine_similarity as cosine_similarity
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
from .loss_layers import BCELoss as BCELoss
from .loss_layers import BCEWithLogitsLoss as BCEWithLogitsLoss
from .loss_layers import CosineEmbeddingLoss as CosineEmbeddingLoss
from .loss_layers import CosineSimilarity as CosineSimilarity
from .loss_layers import CrossEntropyLoss as CrossEntropyLoss
from .loss_layers import GaussianNLLLoss as GaussianNLLLoss
from .loss_layers import HingeEmbeddingLoss as HingeEmbeddingLoss
from .loss_layers import HuberLoss as HuberLoss
from .loss_layers import KLDivLoss as KLDivLoss
from .loss_layers import L1Loss as L1Loss
from .loss_layers import MarginRankingLoss as MarginRankingLoss
from .loss_layers import MSELoss as MSELoss
from .loss_layers import MultiLabelMarginLoss as MultiLabelMarginLoss
from .loss_layers import MultiLabelSoftMarginLoss as MultiLabelSoftMarginLoss
from .loss_layers import MultiMarginLoss as MultiMarginLoss
from .loss_layers import NLLLoss as NLLLoss
from .loss_layers import PairwiseDistance as PairwiseDistance
from .loss_layers import PoissonNLLLoss as PoissonNLLLoss
from .loss_layers import SmoothL1Loss as SmoothL1Loss
from .loss_layers import SoftMarginLoss as SoftMarginLoss
from .loss_layers import TripletMarginLoss as TripletMarginLoss
from .losses import binary_cross_entropy as binary_cross_entropy
from .losses import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from .losses import gaussian_nll_loss as gaussian_nll_loss
from .losses import huber_loss as huber_loss
from .losses import kl_div as kl_div
from .losses import l1_loss as l1_loss
from .losses import mse_loss as mse_loss
from .losses import poisson_nll_loss as poisson_nll_loss
from .losses import smooth_l1_loss as smooth_l1_loss
from .losses import soft_margin_loss as soft_margin_loss
from .margin_losses import cosine_embedding_loss as cosine_embedding_loss
from .margin_losses import hinge_embedding_loss as hinge_embedding_loss
from .margin_losses import margin_ranking_loss as margin_ranking_loss
from .margin_losses import multi_margin_loss as multi_margin_loss
from .margin_losses import multilabel_margin_loss as multilabel_margin_loss
from .margin_losses import multilabel_soft_margin_loss as multilabel_soft_margin_loss
from .margin_losses import triplet_margin_loss as triplet_margin_loss
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
from .piecewise_activations import hardshrink as hardshrink
from .piecewise_activations import hardsigmoid as hardsigmoid
from .piecewise_activations import hardswish as hardswish
from .piecewise_activations import hardtanh as hardtanh
from .piecewise_activations import prelu as prelu
from .piecewise_activations import relu6 as relu6
from .piecewise_activations import rrelu as rrelu
from .piecewise_activations import softshrink as softshrink
from .piecewise_activations import threshold as threshold
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
from .smooth_activations import celu as celu
from .smooth_activations import glu as glu
from .smooth_activations import logsigmoid as logsigmoid
from .smooth_activations import mish as mish
from .smooth_activations import selu as selu
from .smooth_activations import softsign as softsign
from .smooth_activations import tanhshrink as tanhshrink
from .softmaxes import log_softmax as log_softmax
from .softmaxes import softmax as softmax
from .softmaxes import softmin as softmin
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
    "BCELoss",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "Bilinear",
    "CELU",
    "Conv1d",
    "Conv2d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "CosineEmbeddingLoss",
    "CosineSimilarity",
    "CrossEntropyLoss",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "ELU",
    "Embedding",
    "Flatten",
    "GELU",
    "GLU",
    "GRU",
    "GRUCell",
    "GaussianNLLLoss",
    "GroupNorm",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "Identity",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "KLDivLoss",
    "L1Loss",
    "LSTM",
    "LSTMCell",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "MarginRankingLoss",
    "MaxPool1d",
    "MaxPool2d",
    "Mish",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "MultiheadAttention",
    "NLLLoss",
    "PReLU",
    "PairwiseDistance",
    "Parameter",
    "ParameterDict",
    "ParameterList",
    "PoissonNLLLoss",
    "RMSNorm",
    "RNN",
    "RNNCell",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SELU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "TripletMarginLoss",
    "Unflatten",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "avg_pool1d",
    "avg_pool2d",
    "batch_norm",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "conv1d",
    "conv2d",
    "conv_transpose1d",
    "conv_transpose2d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "dropout",
    "elu",
    "embedding",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "group_norm",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hinge_embedding_loss",
    "huber_loss",
    "init",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "load_safetensors",
    "log_softmax",
    "logsigmoid",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool2d",
    "mish",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "rms_norm",
    "rrelu",
    "save_safetensors",
    "scaled_dot_product_attention",
    "selu",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "triplet_margin_loss",
    "utils",
]


def __dir__() -> list[str]:
    return __all__
