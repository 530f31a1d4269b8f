"""Neural networks: functions, by the names and argument order of torch.nn.functional, and modules, by torch.nn's.

PyTorch's `dim` is called `axis` in functions, as in NumPy. Random numbers come from the generator of the context
(`ag.random.seed`) unless another one is given. Called with NumPy arrays only, a function returns a NumPy array.
"""

from typing import TYPE_CHECKING

from ..core.settings.lazy import name_advisor
from . import init as init
from . import utils as utils
from .functional.activations import celu as celu
from .functional.activations import elu as elu
from .functional.activations import gelu as gelu
from .functional.activations import glu as glu
from .functional.activations import hardshrink as hardshrink
from .functional.activations import hardsigmoid as hardsigmoid
from .functional.activations import hardswish as hardswish
from .functional.activations import hardtanh as hardtanh
from .functional.activations import leaky_relu as leaky_relu
from .functional.activations import logsigmoid as logsigmoid
from .functional.activations import mish as mish
from .functional.activations import prelu as prelu
from .functional.activations import relu as relu
from .functional.activations import relu6 as relu6
from .functional.activations import rrelu as rrelu
from .functional.activations import selu as selu
from .functional.activations import sigmoid as sigmoid
from .functional.activations import silu as silu
from .functional.activations import softplus as softplus
from .functional.activations import softshrink as softshrink
from .functional.activations import softsign as softsign
from .functional.activations import tanh as tanh
from .functional.activations import tanhshrink as tanhshrink
from .functional.activations import threshold as threshold
from .functional.alignments import ctc_loss as ctc_loss
from .functional.attention import scaled_dot_product_attention as scaled_dot_product_attention
from .functional.class_losses import cross_entropy as cross_entropy
from .functional.class_losses import nll_loss as nll_loss
from .functional.convolution import conv1d as conv1d
from .functional.convolution import conv2d as conv2d
from .functional.convolution import conv3d as conv3d
from .functional.convolution import conv_transpose1d as conv_transpose1d
from .functional.convolution import conv_transpose2d as conv_transpose2d
from .functional.convolution import conv_transpose3d as conv_transpose3d
from .functional.distances import cosine_similarity as cosine_similarity
from .functional.distances import normalize as normalize
from .functional.distances import pairwise_distance as pairwise_distance
from .functional.dropout import alpha_dropout as alpha_dropout
from .functional.dropout import dropout as dropout
from .functional.dropout import dropout1d as dropout1d
from .functional.dropout import dropout2d as dropout2d
from .functional.dropout import dropout3d as dropout3d
from .functional.dropout import feature_alpha_dropout as feature_alpha_dropout
from .functional.embeddings import embedding as embedding
from .functional.embeddings import embedding_bag as embedding_bag
from .functional.embeddings import one_hot as one_hot
from .functional.folding import fold as fold
from .functional.folding import unfold as unfold
from .functional.linear import bilinear as bilinear
from .functional.linear import linear as linear
from .functional.losses import binary_cross_entropy as binary_cross_entropy
from .functional.losses import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from .functional.losses import cosine_embedding_loss as cosine_embedding_loss
from .functional.losses import gaussian_nll_loss as gaussian_nll_loss
from .functional.losses import hinge_embedding_loss as hinge_embedding_loss
from .functional.losses import huber_loss as huber_loss
from .functional.losses import kl_div as kl_div
from .functional.losses import l1_loss as l1_loss
from .functional.losses import margin_ranking_loss as margin_ranking_loss
from .functional.losses import mse_loss as mse_loss
from .functional.losses import multi_margin_loss as multi_margin_loss
from .functional.losses import multilabel_margin_loss as multilabel_margin_loss
from .functional.losses import multilabel_soft_margin_loss as multilabel_soft_margin_loss
from .functional.losses import poisson_nll_loss as poisson_nll_loss
from .functional.losses import smooth_l1_loss as smooth_l1_loss
from .functional.losses import soft_margin_loss as soft_margin_loss
from .functional.losses import triplet_margin_loss as triplet_margin_loss
from .functional.losses import triplet_margin_with_distance_loss as triplet_margin_with_distance_loss
from .functional.multi_head import multi_head_attention_forward as multi_head_attention_forward
from .functional.normalization import batch_norm as batch_norm
from .functional.normalization import group_norm as group_norm
from .functional.normalization import instance_norm as instance_norm
from .functional.normalization import layer_norm as layer_norm
from .functional.normalization import local_response_norm as local_response_norm
from .functional.normalization import rms_norm as rms_norm
from .functional.order_statistics import cummax as cummax
from .functional.order_statistics import cummin as cummin
from .functional.order_statistics import kthvalue as kthvalue
from .functional.order_statistics import topk as topk
from .functional.pooling import adaptive_avg_pool1d as adaptive_avg_pool1d
from .functional.pooling import adaptive_avg_pool2d as adaptive_avg_pool2d
from .functional.pooling import adaptive_avg_pool3d as adaptive_avg_pool3d
from .functional.pooling import adaptive_max_pool1d as adaptive_max_pool1d
from .functional.pooling import adaptive_max_pool2d as adaptive_max_pool2d
from .functional.pooling import adaptive_max_pool3d as adaptive_max_pool3d
from .functional.pooling import avg_pool1d as avg_pool1d
from .functional.pooling import avg_pool2d as avg_pool2d
from .functional.pooling import avg_pool3d as avg_pool3d
from .functional.pooling import lp_pool1d as lp_pool1d
from .functional.pooling import lp_pool2d as lp_pool2d
from .functional.pooling import lp_pool3d as lp_pool3d
from .functional.pooling import max_pool1d as max_pool1d
from .functional.pooling import max_pool2d as max_pool2d
from .functional.pooling import max_pool3d as max_pool3d
from .functional.resizing import interpolate as interpolate
from .functional.resizing import pad as pad
from .functional.sampling import affine_grid as affine_grid
from .functional.sampling import grid_sample as grid_sample
from .functional.scattering import scatter_reduce as scatter_reduce
from .functional.shapes import channel_shuffle as channel_shuffle
from .functional.shapes import pixel_shuffle as pixel_shuffle
from .functional.shapes import pixel_unshuffle as pixel_unshuffle
from .functional.softmaxes import gumbel_softmax as gumbel_softmax
from .functional.softmaxes import log_softmax as log_softmax
from .functional.softmaxes import softmax as softmax
from .functional.softmaxes import softmin as softmin
from .functional.unpooling import fractional_max_pool2d as fractional_max_pool2d
from .functional.unpooling import fractional_max_pool3d as fractional_max_pool3d
from .functional.unpooling import max_unpool1d as max_unpool1d
from .functional.unpooling import max_unpool2d as max_unpool2d
from .functional.unpooling import max_unpool3d as max_unpool3d
from .modules.activations import CELU as CELU
from .modules.activations import ELU as ELU
from .modules.activations import GELU as GELU
from .modules.activations import GLU as GLU
from .modules.activations import SELU as SELU
from .modules.activations import Hardshrink as Hardshrink
from .modules.activations import Hardsigmoid as Hardsigmoid
from .modules.activations import Hardswish as Hardswish
from .modules.activations import Hardtanh as Hardtanh
from .modules.activations import LeakyReLU as LeakyReLU
from .modules.activations import LogSigmoid as LogSigmoid
from .modules.activations import Mish as Mish
from .modules.activations import PReLU as PReLU
from .modules.activations import ReLU as ReLU
from .modules.activations import ReLU6 as ReLU6
from .modules.activations import RReLU as RReLU
from .modules.activations import Sigmoid as Sigmoid
from .modules.activations import SiLU as SiLU
from .modules.activations import Softplus as Softplus
from .modules.activations import Softshrink as Softshrink
from .modules.activations import Softsign as Softsign
from .modules.activations import Tanh as Tanh
from .modules.activations import Tanhshrink as Tanhshrink
from .modules.activations import Threshold as Threshold
from .modules.adaptive import AdaptiveLogSoftmaxWithLoss as AdaptiveLogSoftmaxWithLoss
from .modules.alignments import CTCLoss as CTCLoss
from .modules.attention import MultiheadAttention as MultiheadAttention
from .modules.class_losses import CrossEntropyLoss as CrossEntropyLoss
from .modules.class_losses import NLLLoss as NLLLoss
from .modules.containers import ModuleDict as ModuleDict
from .modules.containers import ModuleList as ModuleList
from .modules.containers import ParameterDict as ParameterDict
from .modules.containers import ParameterList as ParameterList
from .modules.containers import Sequential as Sequential
from .modules.convolution import Conv1d as Conv1d
from .modules.convolution import Conv2d as Conv2d
from .modules.convolution import Conv3d as Conv3d
from .modules.convolution import ConvTranspose1d as ConvTranspose1d
from .modules.convolution import ConvTranspose2d as ConvTranspose2d
from .modules.convolution import ConvTranspose3d as ConvTranspose3d
from .modules.distances import CosineSimilarity as CosineSimilarity
from .modules.distances import PairwiseDistance as PairwiseDistance
from .modules.dropout import AlphaDropout as AlphaDropout
from .modules.dropout import Dropout as Dropout
from .modules.dropout import Dropout1d as Dropout1d
from .modules.dropout import Dropout2d as Dropout2d
from .modules.dropout import Dropout3d as Dropout3d
from .modules.dropout import FeatureAlphaDropout as FeatureAlphaDropout
from .modules.embeddings import Embedding as Embedding
from .modules.embeddings import EmbeddingBag as EmbeddingBag
from .modules.folding import Fold as Fold
from .modules.folding import Unfold as Unfold
from .modules.lazy import LazyBatchNorm1d as LazyBatchNorm1d
from .modules.lazy import LazyBatchNorm2d as LazyBatchNorm2d
from .modules.lazy import LazyBatchNorm3d as LazyBatchNorm3d
from .modules.lazy import LazyConv1d as LazyConv1d
from .modules.lazy import LazyConv2d as LazyConv2d
from .modules.lazy import LazyConv3d as LazyConv3d
from .modules.lazy import LazyConvTranspose1d as LazyConvTranspose1d
from .modules.lazy import LazyConvTranspose2d as LazyConvTranspose2d
from .modules.lazy import LazyConvTranspose3d as LazyConvTranspose3d
from .modules.lazy import LazyInstanceNorm1d as LazyInstanceNorm1d
from .modules.lazy import LazyInstanceNorm2d as LazyInstanceNorm2d
from .modules.lazy import LazyInstanceNorm3d as LazyInstanceNorm3d
from .modules.lazy import LazyLinear as LazyLinear
from .modules.lazy import UninitializedParameter as UninitializedParameter
from .modules.linear import Bilinear as Bilinear
from .modules.linear import Identity as Identity
from .modules.linear import Linear as Linear
from .modules.losses import BCELoss as BCELoss
from .modules.losses import BCEWithLogitsLoss as BCEWithLogitsLoss
from .modules.losses import CosineEmbeddingLoss as CosineEmbeddingLoss
from .modules.losses import GaussianNLLLoss as GaussianNLLLoss
from .modules.losses import HingeEmbeddingLoss as HingeEmbeddingLoss
from .modules.losses import HuberLoss as HuberLoss
from .modules.losses import KLDivLoss as KLDivLoss
from .modules.losses import L1Loss as L1Loss
from .modules.losses import MarginRankingLoss as MarginRankingLoss
from .modules.losses import MSELoss as MSELoss
from .modules.losses import MultiLabelMarginLoss as MultiLabelMarginLoss
from .modules.losses import MultiLabelSoftMarginLoss as MultiLabelSoftMarginLoss
from .modules.losses import MultiMarginLoss as MultiMarginLoss
from .modules.losses import PoissonNLLLoss as PoissonNLLLoss
from .modules.losses import SmoothL1Loss as SmoothL1Loss
from .modules.losses import SoftMarginLoss as SoftMarginLoss
from .modules.losses import TripletMarginLoss as TripletMarginLoss
from .modules.losses import TripletMarginWithDistanceLoss as TripletMarginWithDistanceLoss
from .modules.module import Module as Module
from .modules.module import Parameter as Parameter
from .modules.normalization import BatchNorm1d as BatchNorm1d
from .modules.normalization import BatchNorm2d as BatchNorm2d
from .modules.normalization import BatchNorm3d as BatchNorm3d
from .modules.normalization import GroupNorm as GroupNorm
from .modules.normalization import InstanceNorm1d as InstanceNorm1d
from .modules.normalization import InstanceNorm2d as InstanceNorm2d
from .modules.normalization import InstanceNorm3d as InstanceNorm3d
from .modules.normalization import LayerNorm as LayerNorm
from .modules.normalization import LocalResponseNorm as LocalResponseNorm
from .modules.normalization import RMSNorm as RMSNorm
from .modules.pooling import AdaptiveAvgPool1d as AdaptiveAvgPool1d
from .modules.pooling import AdaptiveAvgPool2d as AdaptiveAvgPool2d
from .modules.pooling import AdaptiveAvgPool3d as AdaptiveAvgPool3d
from .modules.pooling import AdaptiveMaxPool1d as AdaptiveMaxPool1d
from .modules.pooling import AdaptiveMaxPool2d as AdaptiveMaxPool2d
from .modules.pooling import AdaptiveMaxPool3d as AdaptiveMaxPool3d
from .modules.pooling import AvgPool1d as AvgPool1d
from .modules.pooling import AvgPool2d as AvgPool2d
from .modules.pooling import AvgPool3d as AvgPool3d
from .modules.pooling import LPPool1d as LPPool1d
from .modules.pooling import LPPool2d as LPPool2d
from .modules.pooling import LPPool3d as LPPool3d
from .modules.pooling import MaxPool1d as MaxPool1d
from .modules.pooling import MaxPool2d as MaxPool2d
from .modules.pooling import MaxPool3d as MaxPool3d
from .modules.recurrent import GRU as GRU
from .modules.recurrent import LSTM as LSTM
from .modules.recurrent import RNN as RNN
from .modules.recurrent import GRUCell as GRUCell
from .modules.recurrent import LSTMCell as LSTMCell
from .modules.recurrent import RNNCell as RNNCell
from .modules.resizing import CircularPad1d as CircularPad1d
from .modules.resizing import CircularPad2d as CircularPad2d
from .modules.resizing import CircularPad3d as CircularPad3d
from .modules.resizing import ConstantPad1d as ConstantPad1d
from .modules.resizing import ConstantPad2d as ConstantPad2d
from .modules.resizing import ConstantPad3d as ConstantPad3d
from .modules.resizing import ReflectionPad1d as ReflectionPad1d
from .modules.resizing import ReflectionPad2d as ReflectionPad2d
from .modules.resizing import ReflectionPad3d as ReflectionPad3d
from .modules.resizing import ReplicationPad1d as ReplicationPad1d
from .modules.resizing import ReplicationPad2d as ReplicationPad2d
from .modules.resizing import ReplicationPad3d as ReplicationPad3d
from .modules.resizing import Upsample as Upsample
from .modules.resizing import UpsamplingBilinear2d as UpsamplingBilinear2d
from .modules.resizing import UpsamplingNearest2d as UpsamplingNearest2d
from .modules.resizing import ZeroPad1d as ZeroPad1d
from .modules.resizing import ZeroPad2d as ZeroPad2d
from .modules.resizing import ZeroPad3d as ZeroPad3d
from .modules.shapes import ChannelShuffle as ChannelShuffle
from .modules.shapes import Flatten as Flatten
from .modules.shapes import PixelShuffle as PixelShuffle
from .modules.shapes import PixelUnshuffle as PixelUnshuffle
from .modules.shapes import Unflatten as Unflatten
from .modules.softmaxes import LogSoftmax as LogSoftmax
from .modules.softmaxes import Softmax as Softmax
from .modules.softmaxes import Softmax2d as Softmax2d
from .modules.softmaxes import Softmin as Softmin
from .modules.transformer import Transformer as Transformer
from .modules.transformer import TransformerDecoder as TransformerDecoder
from .modules.transformer import TransformerDecoderLayer as TransformerDecoderLayer
from .modules.transformer import TransformerEncoder as TransformerEncoder
from .modules.transformer import TransformerEncoderLayer as TransformerEncoderLayer
from .modules.unpooling import FractionalMaxPool2d as FractionalMaxPool2d
from .modules.unpooling import FractionalMaxPool3d as FractionalMaxPool3d
from .modules.unpooling import MaxUnpool1d as MaxUnpool1d
from .modules.unpooling import MaxUnpool2d as MaxUnpool2d
from .modules.unpooling import MaxUnpool3d as MaxUnpool3d
from .weights import load_safetensors as load_safetensors
from .weights import save_safetensors as save_safetensors

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveLogSoftmaxWithLoss",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AlphaDropout",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "BCELoss",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Bilinear",
    "CELU",
    "CTCLoss",
    "ChannelShuffle",
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "CosineEmbeddingLoss",
    "CosineSimilarity",
    "CrossEntropyLoss",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "ELU",
    "Embedding",
    "EmbeddingBag",
    "FeatureAlphaDropout",
    "Flatten",
    "Fold",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
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
    "InstanceNorm3d",
    "KLDivLoss",
    "L1Loss",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "LSTM",
    "LSTMCell",
    "LayerNorm",
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
    "LazyLinear",
    "LeakyReLU",
    "Linear",
    "LocalResponseNorm",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "MarginRankingLoss",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
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
    "PixelShuffle",
    "PixelUnshuffle",
    "PoissonNLLLoss",
    "RMSNorm",
    "RNN",
    "RNNCell",
    "RReLU",
    "ReLU",
    "ReLU6",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
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
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
    "Unflatten",
    "Unfold",
    "UninitializedParameter",
    "Upsample",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "affine_grid",
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "cummax",
    "cummin",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "embedding",
    "embedding_bag",
    "feature_alpha_dropout",
    "fold",
    "fractional_max_pool2d",
    "fractional_max_pool3d",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "gumbel_softmax",
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
    "kthvalue",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "load_safetensors",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "multi_head_attention_forward",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "rms_norm",
    "rrelu",
    "save_safetensors",
    "scaled_dot_product_attention",
    "scatter_reduce",
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
    "topk",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "unfold",
    "utils",
]


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:
    # A type checker that saw a `__getattr__` would take any name for one of the module.
    __getattr__ = name_advisor(__name__)
