"""What bad arguments get: an error that names what was given, what was expected and what to write."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.errors import ArgumentError, ArgumentTypeError, IndexRangeError, MissingDerivativeError

ones = np.ones

#: Values that a type checker would refuse.
NOTHING: Any = None
TEXT: Any = "weight"
FLOAT: Any = 2.0
YES: Any = "yes"

BAD: list[tuple[Callable[[], Any], str]] = [
    (lambda: nn.linear(ones((2, 3)), ones((4, 5))), "a weight of shape (4, 5) takes x of shape (..., 5), not (2, 3)"),
    (lambda: nn.linear(ones((2, 3)), ones((3, 4))), "not (2, 3). Is the weight transposed?"),
    (lambda: nn.linear(ones((2, 3)), ones((1, 3, 1))), "linear needs a weight of shape (out, in), not (1, 3, 1)"),
    (lambda: nn.linear(ones((2, 3)), ones(3), ones(2)), "a weight of shape (3,) needs a bias of shape (), not (2,)"),
    (lambda: nn.linear(ones((2, 3)), ones((4, 3)), ones(3)), "needs a bias of shape (4,), not (3,)"),
    (lambda: nn.gelu(ones(2), approximate="exact"), "approximate='none' or 'tanh', not 'exact'"),
    (lambda: nn.embedding(ones(2), ones((3, 2))), "needs integer indices, not float64"),
    (lambda: nn.embedding(np.array([0]), ones(3)), "a weight of shape (rows, features), not (3,)"),
    (lambda: nn.cross_entropy(ones((2, 3)), np.array([0, 1, 2])), "integer labels of shape (2,)"),
    (lambda: nn.cross_entropy(ones((2, 3)), ones(2)), "not floating labels of shape (2,)"),
    (lambda: nn.cross_entropy(ones(()), np.array(0)), "not a scalar"),
    (lambda: nn.cross_entropy(ones((2, 3)), np.array([0, 1]), reduction="avg"), "one of none, mean, sum, not 'avg'"),
    (lambda: nn.cross_entropy(ones((2, 3)), np.array([0, 1]), ones(2)), "needs a weight of shape (3,), one for each"),
    (lambda: nn.cross_entropy(ones((2, 3)), np.array([0, 1]), label_smoothing=2.0), "from 0 to 1, not 2.0"),
    (lambda: nn.mse_loss(ones(2), ones(2), "avg"), "one of none, mean, sum, not 'avg'"),
    (lambda: nn.layer_norm(ones((2, 3)), 4), "normalized_shape (4,) takes x of shape (..., 4), not (2, 3)"),
    (lambda: nn.layer_norm(ones((2, 3)), (3,), ones(2)), "needs a weight of that shape, not (2,)"),
    (lambda: nn.layer_norm(ones((2, 3)), (3,), ones(3), ones(4)), "needs a bias of that shape, not (4,)"),
    (lambda: nn.layer_norm(ones(3), (2, 3)), "not (3,)"),
    (lambda: nn.dropout(ones(3), 1.5, rng=np.random.default_rng(0)), "a probability p from 0 to 1, not 1.5"),
    (lambda: nn.conv2d(ones((2, 3)), ones((1, 1, 2, 2))), "x of shape (n, channels, height, width)"),
    (lambda: nn.conv2d(ones((1, 2, 4, 4)), ones((1, 3, 2, 2))), "takes x with 3 channels"),
    (lambda: nn.conv2d(ones((1, 2, 4, 4)), ones((1, 2, 2, 2)), ones(2)), "needs a bias of shape (1,), not (2,)"),
    (lambda: nn.conv2d(ones((1, 1, 2, 2)), ones((1, 1, 3, 3))), "does not fit into an image of (2, 2)"),
    (lambda: nn.conv2d(ones((1, 1, 2, 2)), ones((1, 1, 2, 2)), stride=0), "stride must be an int of at least 1"),
    (lambda: nn.conv2d(ones((1, 1, 2, 2)), ones((1, 1, 2, 2)), padding="all"), "'valid', 'same', an int or a pair"),
    (lambda: nn.conv2d(ones((1, 1, 2, 2)), ones((1, 1, 2, 2)), padding="same", stride=2), "needs stride 1, not (2, 2)"),
    (
        lambda: nn.max_pool2d(ones((1, 4, 4)), 1.5),  # type: ignore[call-overload]
        "an int of at least 1, or a pair of them, not 1.5",
    ),
    (lambda: nn.max_pool2d(ones((2, 2)), 2), "max_pool2d takes x of shape (n, channels, height, width), not (2, 2)"),
    (lambda: nn.max_pool2d(ones((1, 4, 4)), 2, padding=2), "more than half of the kernel"),
    (
        lambda: nn.max_pool1d(ones((1, 4)), 2, padding=2),
        "max_pool1d: a padding of 2 is more than half of the kernel, 2",
    ),
    (
        lambda: nn.max_pool1d(ones((1, 4)), 5),
        "max_pool1d: a kernel of 5 with dilation 1 does not fit into a sequence of 4",
    ),
    (lambda: nn.avg_pool1d(ones((1, 0)), 2), "avg_pool1d takes sequences with a channel and at least one element"),
    (lambda: nn.adaptive_avg_pool1d(ones((1, 0)), 2), "adaptive_avg_pool1d takes sequences with at least one element"),
    (lambda: nn.max_pool2d(ones((1, 4, 4)), 2, stride=True), "stride must be an int of at least 1"),
    (lambda: nn.lp_pool2d(ones((1, 4, 4)), 0, 2), "norm_type must not be 0"),
    (lambda: nn.cross_entropy(ones((2, 3)), ones((2, 3)), ones(1)), "3 classes takes a weight of shape (3,), not (1,)"),
    (lambda: nn.interpolate(ones((1, 1, 4)), scale_factor=1e308), "cannot make images of shape (4,) larger"),
    (lambda: nn.Unflatten(1, (2, -1))(ones((2, 3))), "into sizes whose product is 3"),
    (lambda: nn.ZeroPad1d((1,)), "ZeroPad1d takes a padding of one int, or of 2, not (1,)"),
    (lambda: nn.avg_pool2d(ones((1, 4, 4)), (2, 2, 2)), "kernel_size must be an int of at least 1, or a pair"),
    (lambda: nn.avg_pool2d(ones((1, 4, 4)), 2, divisor_override=0), "divisor_override=0"),
    (lambda: nn.scaled_dot_product_attention(ones((2, 3)), ones((2, 4)), ones((2, 3))), "not (2, 3), (2, 4) and"),
    (
        lambda: nn.scaled_dot_product_attention(ones((2, 3)), ones((2, 3)), ones((2, 3)), ones((2, 2)), is_causal=True),
        "attn_mask or is_causal=True, not both",
    ),
    (
        lambda: nn.scaled_dot_product_attention(ones((2, 3)), ones((2, 3)), ones((2, 3)), ones((3, 2))),
        "attn_mask of shape (3, 2) does not broadcast to the scores' shape, (2, 2)",
    ),
    (lambda: nn.batch_norm(ones((2, 3)), None, None), "outside of training needs running_mean and running_var"),
    (lambda: nn.batch_norm(ones(3), None, None, training=True), "x of shape (n, channels, ...), not (3,)"),
    (lambda: nn.batch_norm(ones((1, 3)), None, None, training=True), "more than one value a channel"),
    (lambda: nn.batch_norm(ones((2, 3)), None, None, ones(2)), "needs a weight of shape (3,), not (2,)"),
    (lambda: nn.batch_norm(ones((2, 3)), ones(2), ones(3)), "needs a running_mean of shape (3,), not (2,)"),
    (lambda: nn.instance_norm(ones((2, 3))), "x of shape (n, channels, length, ...), not (2, 3)"),
    (lambda: nn.instance_norm(ones((2, 3, 1))), "more than one value in each channel"),
    (lambda: nn.group_norm(ones((2, 3)), 2), "divides the 3 channels of x, not 2"),
    (lambda: nn.rms_norm(ones((2, 3)), 4), "normalized_shape (4,) takes x of shape (..., 4), not (2, 3)"),
    (lambda: nn.rms_norm(ones((2, 3)), 3, ones(2)), "needs a weight of that shape, not (2,)"),
    (lambda: nn.conv1d(ones((1, 1, 2, 2)), ones((1, 1, 2))), "conv1d takes x of shape (n, channels, length)"),
    (lambda: nn.conv1d(ones((1, 1, 4)), ones((1, 1, 2)), stride=(1, 2)), "stride must be an int of at least 1"),
    (lambda: nn.conv_transpose1d(ones((1, 1, 2, 2)), ones((1, 1, 2))), "conv_transpose1d takes x of shape"),
    (lambda: nn.conv_transpose2d(ones((2, 2)), ones((1, 1, 2, 2))), "conv_transpose2d takes x of shape"),
    (lambda: nn.conv_transpose2d(ones((1, 3, 2, 2)), ones((2, 1, 2, 2))), "takes x with 2 channels"),
    (lambda: nn.conv_transpose2d(ones((1, 1, 2, 2)), ones((1, 2, 2, 2)), ones(3)), "a bias of shape (2,), not (3,)"),
    (lambda: nn.conv_transpose2d(ones((1, 1, 2, 2)), ones((1, 1, 2, 2)), output_padding=1), "less than the stride"),
    (lambda: nn.conv_transpose2d(ones((1, 1, 2, 2)), ones((1, 1, 1, 1)), padding=2), "nothing is left of x"),
    (lambda: nn.max_pool1d(ones(4), 2), "max_pool1d takes x of shape (n, channels, length), not (4,)"),
    (lambda: nn.adaptive_avg_pool2d(ones((1, 4, 4)), -1), "output_size must be an int of at least 0"),
    (lambda: nn.adaptive_avg_pool2d(ones((4, 4)), 2), "adaptive_avg_pool2d takes x of shape (n, channels, height"),
    (lambda: nn.adaptive_avg_pool1d(ones(4), 2), "adaptive_avg_pool1d takes x of shape (n, channels, length)"),
    (lambda: nn.adaptive_max_pool2d(ones((1, 0, 4)), 2), "at least one element, not of shape (1, 0, 4)"),
    (lambda: nn.pad(ones(3), (1, 1), "edge"), "one of constant, reflect, replicate, circular, not 'edge'"),
    (lambda: nn.pad(ones(3), (1, 1, 1)), "two ints for each padded axis"),
    (lambda: nn.pad(ones(3), (3, 0), "reflect"), "cannot add (3, 0) to an axis of 3 elements"),
    (lambda: nn.pad(ones(3), (-2, -2)), "cannot add (-2, -2) to an axis of 3 elements"),
    (lambda: nn.pad(ones(3), (1, 0), "reflect", 2.0), "takes no value, and got 2.0"),
    (lambda: nn.interpolate(ones((1, 1, 3)), 2, mode="cubic"), "mode must be one of nearest"),
    (lambda: nn.interpolate(ones((1, 1, 3)), 2, mode="bilinear"), "x of shape (n, channels, height, width)"),
    (lambda: nn.interpolate(ones((1, 1, 3))), "one of size and scale_factor"),
    (lambda: nn.interpolate(ones((1, 1, 3)), (2, 2)), "a number for each axis of images of shape (3,), not (2, 2)"),
    (lambda: nn.interpolate(ones((1, 1, 3)), 0), "cannot make images of shape (0,)"),
    (lambda: nn.interpolate(ones((1, 1, 3)), 2, align_corners=True), "mode='nearest' takes no align_corners"),
    (lambda: nn.one_hot(ones(2)), "one_hot takes integer labels, not float64"),
    (lambda: nn.one_hot(np.zeros(0, int)), "needs num_classes"),
    (lambda: nn.one_hot(np.array([0]), 0), "num_classes of at least 1"),
    (lambda: nn.hardtanh(ones(2), 1.0, -1.0), "a min_val of at most max_val, not 1.0 and -1.0"),
    (lambda: nn.softshrink(ones(2), -0.5), "a lambd that is not negative, not -0.5"),
    (lambda: nn.celu(ones(2), 0.0), "alpha, which must not be 0"),
    (lambda: nn.rrelu(ones(2), 0.5, 0.3), "a lower of at most upper, not 0.5 and 0.3"),
    (lambda: nn.prelu(ones((2, 3)), ones(2)), "takes a weight of shape (1,) or (3,), not (2,)"),
    (lambda: nn.glu(ones((2, 3))), "axis -1 of the shape (2, 3) is none"),
    (lambda: nn.glu(ones(4), 1), "axis 1 of the shape (4,) is none"),
    (lambda: nn.Softmax2d()(ones((2, 3))), "of shape (n, channels, height, width) or (channels, height, width), not"),
    (lambda: nn.mse_loss(ones((2, 3)), ones((2, 3)), weight=ones(3)), "takes a weight of that shape, not (3,)"),
    (lambda: nn.huber_loss(ones(2), ones(2), delta=0.0), "a positive delta, not 0.0"),
    (lambda: nn.smooth_l1_loss(ones(2), ones(2), beta=-1.0), "a beta that is not negative, not -1.0"),
    (lambda: nn.binary_cross_entropy(ones(2), ones(3)), "(2,) takes a target of that shape, not of (3,)"),
    (lambda: nn.binary_cross_entropy(2 * ones(2), ones(2)), "probabilities from 0 to 1, not from 2.0 to 2.0"),
    (lambda: nn.kl_div(ones(2), ones(2), "avg"), "one of none, mean, sum, batchmean, not 'avg'"),
    (lambda: nn.gaussian_nll_loss(ones(2), ones(2), -ones(2)), "variances, which are not negative, as -1.0 is"),
    (lambda: nn.gaussian_nll_loss(ones((2, 3)), ones((2, 3)), ones((1, 1))), "may be missing, not (1, 1)"),
    (lambda: nn.margin_ranking_loss(ones(2), ones((2, 1)), ones(2)), "of the shapes (2,), (2, 1) and (2,)"),
    (lambda: nn.cosine_embedding_loss(ones((2, 3)), ones((2, 3)), ones(())), "(2, 3), (2, 3) and ()"),
    (lambda: nn.triplet_margin_loss(ones((2, 3)), ones(3), ones((2, 3))), "not of the shapes (2, 3), (3,) and (2, 3)"),
    (lambda: nn.triplet_margin_loss(ones(3), ones(3), ones(3), 0.0), "a positive margin, not 0.0"),
    (lambda: nn.multi_margin_loss(ones((2, 3)), np.array([0])), "not (2, 3) and (1,)"),
    (lambda: nn.multi_margin_loss(ones(3), np.array(0), p=3), "takes p of 1 or 2, not 3"),
    (lambda: nn.multi_margin_loss(ones(3), np.array(0), weight=ones(2)), "a weight of shape (3,), not (2,)"),
    (lambda: nn.multilabel_margin_loss(ones((2, 3)), np.array([0, 1])), "not (2, 3) and (2,)"),
    (lambda: nn.multilabel_soft_margin_loss(ones(()), ones(3)), "scores of shape (..., classes), not a number"),
    (lambda: nn.binary_cross_entropy(ones(2), ones(2) * 2), "a target of probabilities from 0 to 1, not from 2.0"),
    (lambda: nn.binary_cross_entropy(ones(2), ones(2) * np.nan), "a target of probabilities from 0 to 1, not from nan"),
    (lambda: nn.binary_cross_entropy_with_logits(ones(3), ones((3, 1))), "(3,) takes a target of that shape, not of"),
    (lambda: nn.binary_cross_entropy(ones(3), ones(3), ones(2)), "shapes that broadcast, not input (3,), weight (2,)"),
    (lambda: nn.soft_margin_loss(ones(()), ones(3)), "a target that broadcasts to it, not of shape (3,)"),
    (lambda: nn.hinge_embedding_loss(ones(2), ones(3)), "shapes that broadcast, not input (2,), target (3,)"),
    (lambda: nn.margin_ranking_loss(ones(2), ones(3), ones(2)), "not input1 (2,), input2 (3,), target (2,)"),
    (lambda: nn.triplet_margin_loss(ones(2), ones(3), ones(2)), "not anchor (2,), positive (3,), negative (2,)"),
    (lambda: nn.pairwise_distance(ones(2), ones(3)), "shapes that broadcast, not x1 (2,), x2 (3,)"),
    (
        lambda: nn.embedding_bag(np.array([0, 1]), ones((2, 1)), np.zeros(0, int)),
        "embedding_bag takes offsets that rise from 0 to 2 at most, not []",
    ),
    (lambda: nn.relu([[1.0], [1.0, 2.0]]), "list [[1.0], [1.0, 2.0]] is no array, since its rows differ in length"),
    (lambda: nn.cosine_similarity(ones(2), ones(3), 0), "shapes that broadcast, not x1 (2,), x2 (3,)"),
    (lambda: nn.cosine_similarity(ones(2), ones(2), 0, -0.5), "an eps that is not negative, not -0.5"),
    (lambda: nn.cosine_similarity(ones(2), ones(2), 0, np.nan), "an eps that is not negative, not nan"),
    (
        lambda: nn.cross_entropy(ones((1, 2)), ones((1, 2)), ignore_index=0),
        "with probabilities as target ignores no class: it takes no ignore_index=0",
    ),
    (lambda: nn.batch_norm(ones((2, 3)), ones(3), None), "both running_mean and running_var, or neither"),
    (lambda: nn.batch_norm(ones((2, 3)), None, None, training=True, eps=0.0), "a positive eps, or 0 outside of a"),
    (lambda: nn.batch_norm(ones((2, 3)), ones(3), ones(3), eps=-1.0), "a positive eps, or 0 outside of a training"),
    (lambda: nn.batch_norm(ones((2, 3)), np.zeros(3, int), ones(3), training=True), "floating numbers, not of dtype"),
    (lambda: nn.group_norm(ones((1, 3)), 3), "group_norm needs more than one value in a group"),
    (lambda: nn.group_norm(ones((2, 4)), 0), "num_groups must be at least 1, not 0"),
    (lambda: nn.conv2d(ones((1, 1, 2, 2)), ones((1, 1, 1, 1)), groups=0), "groups must be at least 1, not 0"),
    (lambda: nn.conv2d(ones((1, 1, 0, 2)), ones((1, 1, 1, 1)), padding=1), "with at least one element, not of the"),
    (lambda: nn.conv_transpose2d(ones((1, 1, 2, 2)), ones((1, 1, 0, 1))), "with at least one element, not of the"),
    (lambda: nn.conv_transpose2d(ones((1, 1, 2, 2)), ones((1, 1, 1, 1)), groups=0), "groups must be at least 1, not 0"),
    (lambda: nn.max_pool2d(ones((1, 0, 4, 4)), 2), "a channel and at least one element, not of shape (1, 0, 4, 4)"),
    (lambda: nn.max_pool2d(ones((1, 1, 2, 2)), 4, 2, ceil_mode=False), "does not fit into an image of (2, 2)"),
    (lambda: nn.adaptive_avg_pool2d(ones((1, 4, 4)), NOTHING), "not None"),
    (lambda: nn.adaptive_max_pool1d(ones((1, 4)), NOTHING), "not None"),
    (lambda: nn.interpolate(ones((1, 1, 3)), 2, recompute_scale_factor=True), "has no scale factor"),
    (lambda: nn.interpolate(ones((1, 1, 3)), 2, mode="linear", antialias=True), "'linear' takes no antialias"),
    (lambda: nn.pad(ones((2, 2)), (2, -2), "circular"), "cannot add (2, -2) to an axis of 2 elements"),
    (lambda: nn.pad(ones((2, 0)), (0, 1), "replicate"), "needs an element to repeat: an axis of x has none"),
    (lambda: nn.pad(ones(3), NOTHING), "two ints for each padded axis"),
    (lambda: nn.pad(ones(3), (True, True)), "two ints for each padded axis"),
    (
        lambda: nn.unfold(ones((1, 1, 3, 3)), (2,)),
        "kernel_size must be an int of at least 1, or a pair of them, not (2,)",
    ),
    (
        lambda: nn.fold(ones((4, 4)), 3, 2, stride=(1,)),
        "stride must be an int of at least 1, or a pair of them, not (1,)",
    ),
    (lambda: nn.normalize(ones((2, 3)), axis=(0, -2)), "takes each axis once, not axis=(0, -2)"),
    (
        lambda: nn.scaled_dot_product_attention(ones((2, 3, 4)), ones((3, 3, 4)), ones((2, 3, 4))),
        "keys and values whose leading axes broadcast, not of the shapes (2, 3, 4), (3, 3, 4) and (2, 3, 4)",
    ),
    (lambda: nn.GRU(0, 4), "input_size, hidden_size and num_layers of at least 1, not 0, 4 and 1"),
]

#: Arguments of a type that cannot be.
WRONG_TYPES: list[tuple[Callable[[], Any], str]] = [
    (lambda: nn.interpolate(ones((1, 1, 3)), FLOAT), "size must be an int, not float 2.0"),
    (lambda: nn.interpolate(ones((1, 1, 3)), (FLOAT,), mode="area"), "size must be an int, not float 2.0"),
    (lambda: nn.layer_norm(ones((2, 3)), NOTHING), "normalized_shape must be an int, not NoneType None"),
    (lambda: nn.rms_norm(ones((2, 3)), (3 * FLOAT / 2,)), "normalized_shape must be an int, not float 3.0"),
    (lambda: nn.pairwise_distance(ones(2), ones(2), NOTHING), "nn.pairwise_distance: p must be a number, not NoneType"),
    (lambda: nn.elu(ones(2), NOTHING), "nn.elu: alpha must be a number, not NoneType None"),
    (lambda: nn.softmax(ones(2), NOTHING), "nn.softmax: axis must be an int, not NoneType None"),
    (lambda: nn.softmax(ones(2), dtype=int), "nn.softmax returns floating numbers, which the dtype int64 has not"),
    (lambda: nn.relu(ones(2), YES), "inplace must be True or False, not str 'yes'"),
    (lambda: nn.relu(2.0, True), "with inplace=True, x must be a tensor or an array, not float 2.0"),
    (lambda: nn.glu(ones(2), NOTHING), "axis must be an int, not NoneType None"),
    (lambda: nn.nll_loss(ones((1, 2)), np.array([0]), None, NOTHING), "ignore_index must be an int, not NoneType None"),
    (lambda: nn.avg_pool2d(ones((1, 4, 4)), 2, count_include_pad=NOTHING), "count_include_pad must be True or False"),
    (lambda: nn.embedding(np.array([0]), ones((3, 2)), FLOAT), "padding_idx must be an int, not float 2.0"),
    (lambda: nn.embedding_bag(np.array([[0]]), ones((3, 2)), padding_idx=YES), "padding_idx must be an int, not str"),
    (lambda: nn.local_response_norm(ones((1, 2, 3)), 2, [1.0]), "alpha must be a number, not list [1.0]"),
    (lambda: nn.local_response_norm(ones((1, 2, 3)), 2, k=NOTHING), "k must be a number, not NoneType None"),
    (lambda: nn.ctc_loss(ones((2, 3)), ones(1), [2], [1]), "ctc_loss takes whole numbers as targets, not float64"),
    (lambda: nn.lp_pool1d(NOTHING, 2, 2), "nn.lp_pool1d takes a tensor or an array as x, not None"),
    (lambda: nn.max_pool2d(np.full((1, 2, 2), "a"), 2), "nn.max_pool2d takes numbers, and x is of dtype <U1"),
    (lambda: nn.mse_loss("a", ones(2)), "nn.mse_loss takes numbers, and input is of dtype <U1"),
    (
        lambda: nn.scaled_dot_product_attention(ones((2, 3)), ones((2, 3)), ones((2, 3)), np.asarray("a")),
        "attn_mask holds booleans, or floating numbers to add to the scores, not <U1",
    ),
    (lambda: nn.Unflatten(1, NOTHING), "unflattened_size must be a tuple of ints, not NoneType None"),
    (
        lambda: nn.linear(ones((2, 1)), ag.tensor([[1.0]]), [1.0]),
        "an array as bias, not list [1.0]: write np.array(bias)",
    ),
    (lambda: nn.linear(ones((2, 1)), TEXT), "linear takes a tensor or an array as weight, not str 'weight'"),
    (lambda: nn.linear(ones((2, 1)), np.array([["a"]])), "linear takes numbers, and weight is of dtype <U1"),
    (lambda: nn.conv1d(ones((1, 1, 4)), TEXT), "nn.conv1d takes numbers, and weight is of dtype <U6"),
    (lambda: nn.conv2d(ones((1, 1, 4, 4)), ones((1, 1, 2, 2)), np.array(["a"])), "nn.conv2d takes numbers, and bias"),
    (lambda: nn.bilinear(ones((2, 1)), ones((2, 1)), TEXT), "nn.bilinear takes numbers, and weight is of dtype <U6"),
    (lambda: nn.embedding(np.array([0]), TEXT), "nn.embedding takes numbers, and weight is of dtype <U6"),
    (
        lambda: nn.layer_norm(ones((2, 1)), 1, np.array(["a"])),
        "nn.layer_norm takes numbers, and weight is of dtype <U1",
    ),
    (lambda: nn.pad(np.array(["a"]), (1, 1)), "nn.pad takes numbers, and x is of dtype <U1"),
]

OUT_OF_RANGE: list[tuple[Callable[[], Any], str]] = [
    (lambda: nn.embedding(np.array([0, 3]), ones((3, 2))), "got index 3, but the weight has 3 rows: 0 to 2"),
    (lambda: nn.embedding(np.array([0, -1]), ones((3, 2))), "got index -1"),
    (lambda: nn.embedding(np.array([0]), ones((3, 2)), 3), "padding_idx is 3"),
    (
        lambda: nn.cross_entropy(ones((2, 3)), np.array([0, 3])),
        "got label 3, but there are 3 classes",
    ),
    (lambda: nn.cross_entropy(ones((2, 3)), np.array([-1, 0])), "got label -1"),
    (lambda: nn.nll_loss(ones((2, 3)), np.array([-100, 7])), "nll_loss got label 7"),
    (lambda: nn.multi_margin_loss(ones((1, 3)), np.array([3])), "multi_margin_loss got label 3, but there are 3"),
    (lambda: nn.multilabel_margin_loss(ones(3), np.array([3, -1, 7])), "multilabel_margin_loss got label 7, but"),
    (
        lambda: nn.multilabel_margin_loss(ones(3), np.array([0, -1, -100])),
        "multilabel_margin_loss got label -100, but there are 3 classes: 0 to 2, and -1 behind the last",
    ),
    (lambda: nn.one_hot(np.array([0, 3]), 3), "one_hot got label 3, but there are 3 classes: 0 to 2"),
    (lambda: nn.softmin(ones((2, 3)), 2), "nn.softmin of an array of shape (2, 3) takes an axis from -2 to 1, not 2"),
    (lambda: nn.log_softmax(ones(()), 1), "nn.log_softmax of an array of shape () takes an axis from -1 to 0, not 1"),
    (lambda: nn.normalize(ones((2, 3)), axis=7), "nn.normalize of an array of shape (2, 3) takes an axis from -2"),
    (lambda: nn.cosine_similarity(ones(2), ones(2)), "nn.cosine_similarity of an array of shape (2,) takes an axis"),
]


@pytest.mark.parametrize(("run", "message"), BAD, ids=[message for _, message in BAD])
def test_an_argument_that_cannot_be_is_named_in_a_value_error(run: Callable[[], Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=re.escape(message)) as caught:
        run()

    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(("run", "message"), OUT_OF_RANGE, ids=[message for _, message in OUT_OF_RANGE])
def test_a_label_or_index_out_of_range_is_named_in_an_index_error(run: Callable[[], Any], message: str) -> None:
    with pytest.raises(IndexRangeError, match=re.escape(message)) as caught:
        run()

    assert isinstance(caught.value, IndexError)


@pytest.mark.parametrize(("run", "message"), WRONG_TYPES, ids=[message for _, message in WRONG_TYPES])
def test_an_argument_of_another_type_is_named_in_a_type_error(run: Callable[[], Any], message: str) -> None:
    with pytest.raises(ArgumentTypeError, match=re.escape(message)):
        run()


OF_ONE_ARRAY = [
    *("relu", "relu6", "leaky_relu", "elu", "selu", "celu", "gelu", "silu", "mish", "softplus", "sigmoid", "tanh"),
    *("hardtanh", "hardsigmoid", "hardswish", "hardshrink", "softshrink", "softsign", "tanhshrink", "logsigmoid"),
    *("softmax", "softmin", "log_softmax", "glu", "dropout", "rrelu", "normalize", "one_hot"),
]


@pytest.mark.parametrize("name", OF_ONE_ARRAY)
def test_none_is_not_taken_for_a_number(name: str) -> None:
    with pytest.raises(ArgumentTypeError, match="end without return"):
        getattr(nn, name)(None)


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "huber_loss", "kl_div", "poisson_nll_loss", "nll_loss"])
def test_a_target_of_none_is_not_taken_for_numbers(name: str) -> None:
    with pytest.raises(ArgumentTypeError, match="None"):
        getattr(nn, name)(ones(3), None)


@pytest.mark.parametrize("function", [nn.mse_loss, nn.l1_loss])
def test_shapes_that_differ_are_broadcast_with_a_warning(function: Callable[..., Any]) -> None:
    with pytest.warns(UserWarning, match=re.escape("shape (3,) and a target of shape (3, 1)")):
        assert function(ones(3), ones((3, 1)), reduction="none").shape == (3, 3)


def test_dropout_keeps_the_mean_and_drops_the_gradient_of_what_it_drops() -> None:
    x = ag.tensor(ones(20_000, np.float32), requires_grad=True)
    y = nn.dropout(x, 0.25, rng=np.random.default_rng(0))
    (grad,) = sync.grad(y.sum(), [x])

    assert y.dtype == np.float32
    assert set(np.unique(y.numpy())) == {0.0, np.float32(1 / 0.75)}
    assert abs(y.numpy().mean() - 1) < 0.02
    np.testing.assert_array_equal(grad.numpy(), y.numpy())


def test_dropout_has_derivatives_of_any_order() -> None:
    x = ag.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    y = np.square(nn.dropout(x, 0.5, rng=np.random.default_rng(0)))
    (grad,) = sync.grad(y.sum(), [x], create_graph=True)
    (second,) = sync.grad(grad.sum(), [x])

    assert second.numpy().tolist() == np.where(y.numpy() == 0, 0.0, 8.0).tolist() != [8.0] * 4


def test_dropout_of_none_all_or_outside_of_training() -> None:
    x = ag.tensor([1.0, 2.0], requires_grad=True)

    assert nn.dropout(x, 0.0) is x
    assert nn.dropout(x, 0.9, training=False) is x
    assert nn.dropout(x, 1.0, rng=np.random.default_rng(0)).numpy().tolist() == [0.0, 0.0]


def test_attention_drops_weights_with_the_generator_it_is_given() -> None:
    value = np.eye(4)
    first, second = (
        nn.scaled_dot_product_attention(ones((4, 2)), ones((4, 2)), value, dropout_p=0.5, rng=np.random.default_rng(1))
        for _ in range(2)
    )

    np.testing.assert_array_equal(first, second)
    assert set(np.unique(first)) == {0.0, 0.5}


def test_rrelu_draws_a_slope_for_each_element_in_a_training_and_keeps_it_for_the_backward() -> None:
    x = ag.tensor(-ones(1000, np.float32), requires_grad=True)
    y = nn.rrelu(x, 0.2, 0.4, True, rng=np.random.default_rng(0))
    (grad,) = sync.grad(y.sum(), [x])

    assert y.dtype == np.float32
    assert 0.2 <= grad.numpy().min() < 0.21 < 0.39 < grad.numpy().max() <= 0.4
    np.testing.assert_array_equal(y.numpy(), -grad.numpy())
    assert nn.RReLU()(ones(2)).tolist() == [1.0, 1.0]


def test_labels_may_be_tensors() -> None:
    logits = ag.tensor(ones((2, 3)), requires_grad=True)

    assert nn.cross_entropy(logits, ag.tensor([0, 1])).item() == pytest.approx(np.log(3))
    assert nn.embedding(ag.tensor([0, 1]), logits).shape == (2, 3)


def test_nothing_is_recorded_where_nothing_requires_grad() -> None:
    x = ag.tensor(ones((2, 3)))

    for result in (nn.gelu(x), nn.softmax(x), nn.layer_norm(x, 3), nn.cross_entropy(x, np.array([0, 1]))):
        assert not result.requires_grad
    with ag.no_grad():
        assert not nn.gelu(ag.tensor(ones(2), requires_grad=True)).requires_grad


def test_weights_alone_may_require_grad() -> None:
    weight = ag.tensor(ones(3), requires_grad=True)
    (grad,) = sync.grad(nn.layer_norm(np.array([[1.0, 2.0, 3.0]]), 3, weight).sum(), [weight])

    np.testing.assert_allclose(grad.numpy(), [-1.2247357, 0.0, 1.2247357], atol=1e-6)


def test_changing_a_saved_input_in_place_is_noticed() -> None:
    x = ag.tensor(ones((2, 3)), requires_grad=True)
    hidden = x * 2
    loss = nn.cross_entropy(hidden, np.array([0, 1]))
    with ag.no_grad():
        np.add(hidden, 1, out=hidden)  # type: ignore[call-overload]

    with pytest.raises(ag.errors.ChangedTensorError, match="CrossEntropyBackward"):
        sync.backward(loss)


@pytest.mark.parametrize("labels", [np.array([0]), np.array([[0.25, 0.75]])], ids=["labels", "probabilities"])
def test_a_class_weight_that_requires_grad_is_refused_and_not_detached(labels):
    scores, weight = ag.tensor([[1.0, 2.0]], requires_grad=True), ag.tensor([1.0, 2.0], requires_grad=True)
    losses = [lambda: nn.cross_entropy(scores, labels, weight=weight)]
    if labels.dtype.kind == "i":
        losses.append(lambda: nn.nll_loss(scores, labels, weight))

    for loss in losses:
        with pytest.raises(MissingDerivativeError, match=r"no derivative with respect to weight.*weight\.detach\(\)"):
            loss()
        with ag.no_grad():
            assert not loss().requires_grad


@pytest.mark.parametrize(
    "function",
    [
        lambda x: nn.batch_norm(x, None, None, training=True),
        nn.instance_norm,
        lambda x: nn.group_norm(x, 1),
        lambda x: nn.rms_norm(x, 3),
        lambda x: nn.max_pool1d(x, 2),
        lambda x: nn.adaptive_max_pool1d(x, 2),
    ],
)
def test_functions_of_real_numbers_refuse_complex_ones(function: Callable[..., Any]) -> None:
    with pytest.raises(ag.errors.ArgumentTypeError, match="function of real numbers"):
        function(ones((2, 2, 3), np.complex128))


@pytest.mark.parametrize("make", [np.array, ag.tensor], ids=["array", "tensor"])
@pytest.mark.parametrize("function", [nn.batch_norm, nn.instance_norm])
def test_running_statistics_follow_those_of_the_batch_in_place(function: Callable[..., Any], make: Any) -> None:
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).standard_normal((4, 3, 5))
    mean, variance = make([1.0, 2.0, 3.0]), make([1.0, 2.0, 3.0])
    expected = torch.tensor([1.0, 2.0, 3.0]).double(), torch.tensor([1.0, 2.0, 3.0]).double()
    getattr(torch.nn.functional, function.__name__)(torch.tensor(x), *expected, None, None, True, 0.3)
    function(ag.tensor(x, requires_grad=True), mean, variance, None, None, True, 0.3)

    np.testing.assert_allclose(np.asarray(mean), expected[0].numpy(), rtol=1e-12)
    np.testing.assert_allclose(np.asarray(variance), expected[1].numpy(), rtol=1e-12)


def test_one_hot_of_a_tensor_is_a_tensor_of_integers() -> None:
    result = nn.one_hot(ag.tensor([[1, 0]]), 3)

    assert isinstance(result, ag.Tensor)
    assert result.dtype == np.int64
    assert result.numpy().tolist() == [[[0, 1, 0], [1, 0, 0]]]
