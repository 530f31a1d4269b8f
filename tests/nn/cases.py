"""Calls of every function of asyncgrad.nn, each with what PyTorch calls it.

Inputs are away from kinks and ties, so that differences can be taken; those have tests of their own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from asyncgrad import nn
from tests.core.ops.finite_differences import Case

__all__ = ["CALLS", "Call"]


class Call(NamedTuple):
    """One call: our function, its arguments, and the name and keywords of PyTorch's function for the same."""

    function: Callable[..., Any]
    case: Case
    torch_name: str
    torch_kwargs: Mapping[str, Any] | None = None


_rng = np.random.default_rng(7)


def away_from_zero(*shape: int) -> np.ndarray:
    """Return normal numbers, none of them within 0.05 of 0."""
    values = _rng.standard_normal(shape)
    return np.asarray(values + np.copysign(0.05, values))


def distinct_numbers(*shape: int) -> np.ndarray:
    """Return numbers of which no two are near each other, in random order."""
    count = int(np.prod(shape))
    return np.asarray((_rng.permutation(count).reshape(shape) - count / 2) / 7)


def probabilities(*shape: int) -> np.ndarray:
    """Return positive numbers that sum to 1 along axis 1."""
    values: np.ndarray = _rng.uniform(0.1, 1.0, shape)
    values /= values.sum(axis=1, keepdims=True)
    return values


def call_of(
    function: Callable[..., Any],
    *args: Any,
    by: tuple[int | str, ...] = (0,),
    torch_kwargs: Mapping[str, Any] | None = None,
    smooth: bool = True,
    **kwargs: Any,
) -> Call:
    """Return a call that is differentiated by the arguments `by`; not `smooth` if its gradient is not the slope."""
    return Call(function, Case(args, kwargs, by, smooth), function.__name__, torch_kwargs)


def first_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of the same name that returns the first of its results alone."""

    @functools.wraps(function)
    def first(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)[0]

    return first


ELEMENTWISE = [
    call_of(nn.relu, away_from_zero(3, 4)),
    call_of(nn.leaky_relu, away_from_zero(3, 4)),
    call_of(nn.leaky_relu, away_from_zero(3, 4), 0.3),
    call_of(nn.gelu, away_from_zero(3, 4)),
    call_of(nn.gelu, 3 * away_from_zero(3, 4)),
    call_of(nn.gelu, away_from_zero(3, 4), approximate="tanh"),
    call_of(nn.gelu, away_from_zero()),
    call_of(nn.gelu, away_from_zero(), approximate="tanh"),
    call_of(nn.silu, away_from_zero(3, 4)),
    call_of(nn.sigmoid, away_from_zero(3, 4)),
    call_of(nn.sigmoid, away_from_zero()),
    call_of(nn.tanh, away_from_zero(3, 4)),
    call_of(nn.softplus, away_from_zero(3, 4)),
    call_of(nn.softplus, np.array([-4.0, 1.0, 6.0, 8.0]), beta=3.0, threshold=20.0),
    call_of(nn.elu, away_from_zero(3, 4)),
    call_of(nn.elu, away_from_zero(3, 4), 1.7),
]

_around_joints = np.array([-4.0, -2.0, -0.7, -0.2, 0.3, 0.8, 2.5, 5.0, 7.0])
ELEMENTWISE += [
    call_of(nn.relu6, _around_joints),
    call_of(nn.hardtanh, _around_joints),
    call_of(nn.hardtanh, _around_joints, -0.5, 2.7),
    call_of(nn.hardsigmoid, _around_joints),
    call_of(nn.hardswish, _around_joints),
    call_of(nn.hardshrink, _around_joints),
    call_of(nn.hardshrink, _around_joints, 0.75),
    call_of(nn.softshrink, _around_joints),
    call_of(nn.softshrink, _around_joints, 0.75),
    call_of(nn.threshold, _around_joints, 0.5, -3.0),
    call_of(nn.rrelu, _around_joints),
    call_of(nn.prelu, away_from_zero(2, 3, 2), away_from_zero(3), by=(0, 1)),
    call_of(nn.prelu, away_from_zero(2, 3), away_from_zero(1), by=(0, 1)),
    call_of(nn.prelu, away_from_zero(4), away_from_zero(1), by=(0, 1)),
    call_of(nn.mish, 3 * away_from_zero(3, 4)),
    call_of(nn.selu, away_from_zero(3, 4)),
    call_of(nn.celu, away_from_zero(3, 4)),
    call_of(nn.celu, away_from_zero(3, 4), 0.5),
    call_of(nn.logsigmoid, away_from_zero(3, 4)),
    call_of(nn.softsign, away_from_zero(3, 4)),
    call_of(nn.tanhshrink, away_from_zero(3, 4)),
    call_of(nn.glu, away_from_zero(3, 4)),
    call_of(nn.glu, away_from_zero(2, 4, 3), 1),
]

SOFTMAXES = [
    call_of(function, away_from_zero(*shape), axis=axis, torch_kwargs={"dim": axis})
    for function in (nn.softmax, nn.log_softmax, nn.softmin)
    for shape, axis in (((3, 4), -1), ((3, 4), 0), ((2, 3, 2), 1), ((5,), 0))
]

LINEAR = [
    call_of(nn.linear, away_from_zero(3, 4), away_from_zero(2, 4), away_from_zero(2), by=(0, 1, 2)),
    call_of(nn.linear, away_from_zero(3, 4), away_from_zero(2, 4), by=(0, 1)),
    call_of(nn.linear, away_from_zero(2, 3, 4), away_from_zero(2, 4), away_from_zero(2), by=(0, 1, 2)),
    call_of(nn.linear, away_from_zero(4), away_from_zero(2, 4), away_from_zero(2), by=(0, 1, 2)),
    call_of(nn.linear, away_from_zero(2, 3), away_from_zero(3), by=(0, 1)),
    call_of(nn.embedding, np.array([[0, 2], [2, 1]]), away_from_zero(4, 3), by=(1,)),
    call_of(nn.embedding, np.array([3, 1, 3]), away_from_zero(4, 3), 3, by=(1,), smooth=False),
    call_of(nn.embedding, np.array([3, 1, 3]), away_from_zero(4, 3), padding_idx=-3, by=(1,), smooth=False),
]

_weight = np.array([0.5, 1.5, 2.0, 1.0])
OPTIONS: list[dict[str, Any]] = [{}, {"weight": _weight}, {"reduction": "sum"}, {"reduction": "none"}]
CLASSIFICATION = [
    call_of(function, scores, labels, **options)
    for function in (nn.cross_entropy, nn.nll_loss)
    for scores, labels in (
        (away_from_zero(3, 4), np.array([2, 0, 3])),
        (away_from_zero(3, 4), np.array([2, -100, 3])),
        (away_from_zero(2, 4, 3), np.array([[0, 1, 2], [3, -100, 0]])),
        (away_from_zero(2, 4, 1, 2), np.array([[[0, 1]], [[3, 2]]])),
        (away_from_zero(4), np.array(2)),
    )
    for options in OPTIONS
]
CLASSIFICATION += [
    call_of(nn.cross_entropy, away_from_zero(3, 4), np.array([2, 0, 1]), ignore_index=0),
    *(
        call_of(
            nn.cross_entropy,
            away_from_zero(3, 4),
            np.array([2, -100, 3]),
            weight,
            reduction=reduction,
            label_smoothing=0.1,
        )
        for reduction in ("mean", "sum", "none")
        for weight in (None, _weight)
    ),
    *(
        call_of(
            nn.cross_entropy, away_from_zero(3, 4), probabilities(3, 4), by=(0, 1), reduction=reduction, weight=weight
        )
        for reduction in ("mean", "sum", "none")
        for weight in (None, _weight)
    ),
    call_of(nn.cross_entropy, away_from_zero(2, 4, 3), probabilities(2, 4, 3), by=(0, 1), label_smoothing=0.2),
]

REGRESSION = [
    call_of(function, away_from_zero(3, 4), away_from_zero(3, 4), by=(0, 1), reduction=reduction)
    for function in (nn.mse_loss, nn.l1_loss, nn.binary_cross_entropy_with_logits)
    for reduction in ("mean", "sum", "none")
]
REGRESSION += [
    call_of(
        nn.binary_cross_entropy_with_logits,
        away_from_zero(3, 4),
        _rng.uniform(0.1, 0.9, (3, 4)),
        by=(0, 1),
        weight=_rng.uniform(0.5, 1.5, 4),
        pos_weight=_rng.uniform(0.5, 1.5, 4),
    ),
]

_signs = np.array([[1.0, -1.0, 1.0, -1.0], [-1.0, 1.0, 1.0, 1.0], [1.0, -1.0, -1.0, 1.0]])
REGRESSION += [
    *(
        call_of(function, away_from_zero(3, 4), away_from_zero(3, 4), by=(0, 1), weight=_rng.uniform(0.5, 1.5, (3, 4)))
        for function in (nn.mse_loss, nn.l1_loss, nn.huber_loss)
    ),
    call_of(nn.huber_loss, away_from_zero(3, 4), away_from_zero(3, 4), by=(0, 1), reduction="none", delta=0.7),
    call_of(nn.smooth_l1_loss, away_from_zero(3, 4), away_from_zero(3, 4), by=(0, 1)),
    call_of(nn.smooth_l1_loss, away_from_zero(3, 4), away_from_zero(3, 4), by=(0, 1), reduction="none", beta=0.7),
    call_of(nn.smooth_l1_loss, away_from_zero(3, 4), away_from_zero(3, 4), by=(0, 1), reduction="sum", beta=0.0),
    call_of(
        nn.binary_cross_entropy,
        _rng.uniform(0.1, 0.9, (3, 4)),
        _rng.uniform(0.1, 0.9, (3, 4)),
        _rng.uniform(0.5, 1.5, 4),
        by=(0, 1),
    ),
    call_of(nn.binary_cross_entropy, _rng.uniform(0.1, 0.9, (3, 4)), np.array(_signs > 0, float), reduction="none"),
    call_of(nn.soft_margin_loss, away_from_zero(3, 4), _signs),
]

LIKELIHOODS = [
    call_of(nn.kl_div, away_from_zero(3, 4), probabilities(3, 4), by=(0, 1), reduction="batchmean"),
    call_of(nn.kl_div, away_from_zero(3, 4), np.array([0.0, 0.2, 0.8, 0.0]) * np.ones((3, 1))),
    call_of(nn.kl_div, away_from_zero(3, 4), away_from_zero(3, 4), by=(0, 1), reduction="sum", log_target=True),
    call_of(nn.poisson_nll_loss, away_from_zero(3, 4), _rng.uniform(0.2, 3.0, (3, 4)), by=(0, 1)),
    call_of(
        nn.poisson_nll_loss,
        _rng.uniform(0.2, 3.0, (3, 4)),
        np.array([0.0, 1.0, 2.0, 5.0]) * np.ones((3, 1)),
        log_input=False,
        full=True,
        eps=0.1,
        reduction="sum",
    ),
    *(
        call_of(
            nn.gaussian_nll_loss,
            away_from_zero(3, 4),
            away_from_zero(3, 4),
            _rng.uniform(0.2, 3.0, shape),
            by=(0, 1, 2),
            full=full,
            reduction=reduction,
        )
        for shape, full, reduction in (((3, 4), False, "mean"), ((3, 1), True, "none"), ((3,), False, "sum"))
    ),
    # The derivative of a variance that is raised to the least one is PyTorch's, and no slope.
    call_of(
        nn.gaussian_nll_loss,
        away_from_zero(2),
        away_from_zero(2),
        np.array([0.1, 0.9]),
        by=(0, 2),
        eps=0.5,
        smooth=False,
    ),
]

MARGINS = [
    call_of(nn.hinge_embedding_loss, away_from_zero(3, 4), _signs),
    call_of(nn.hinge_embedding_loss, away_from_zero(3, 4), _signs, margin=0.3, reduction="none"),
    call_of(nn.margin_ranking_loss, away_from_zero(3, 4), away_from_zero(3, 4), _signs, by=(0, 1)),
    call_of(nn.margin_ranking_loss, away_from_zero(4), away_from_zero(4), _signs[0], 0.3, by=(0, 1), reduction="none"),
    call_of(nn.cosine_embedding_loss, away_from_zero(3, 4), away_from_zero(3, 4), np.array([1, -1, -1]), by=(0, 1)),
    call_of(
        nn.cosine_embedding_loss,
        away_from_zero(3, 4),
        away_from_zero(3, 4),
        np.array([1, -1, -1]),
        -0.9,
        by=(0, 1),
        reduction="none",
    ),
    call_of(nn.cosine_embedding_loss, away_from_zero(4), away_from_zero(4), np.array(1), by=(0, 1)),
    call_of(nn.triplet_margin_loss, *(away_from_zero(3, 4) for _ in range(3)), by=(0, 1, 2)),
    call_of(
        nn.triplet_margin_loss,
        *(away_from_zero(3, 4) for _ in range(3)),
        2.0,
        p=3.0,
        by=(0, 1, 2),
        swap=True,
        reduction="none",
    ),
    call_of(nn.multi_margin_loss, away_from_zero(3, 4), np.array([2, 0, 3])),
    call_of(nn.multi_margin_loss, away_from_zero(3, 4), np.array([2, 0, 3]), 2, 0.7, _weight, reduction="none"),
    call_of(nn.multi_margin_loss, away_from_zero(4), np.array(1), weight=_weight, reduction="sum"),
    call_of(nn.multilabel_margin_loss, away_from_zero(2, 4), np.array([[3, 0, -1, 1], [-1, 2, 2, 2]])),
    call_of(nn.multilabel_margin_loss, away_from_zero(2, 3), np.array([[0, 2, 1], [1, 1, -1]]), reduction="none"),
    call_of(nn.multilabel_margin_loss, away_from_zero(3), np.array([1, -1, 0])),
    call_of(nn.multilabel_soft_margin_loss, away_from_zero(3, 4), _rng.uniform(0.1, 0.9, (3, 4)), by=(0,)),
    call_of(
        nn.multilabel_soft_margin_loss, away_from_zero(3, 4), np.array(_signs > 0, float), _weight, reduction="none"
    ),
]

NORMALIZATION = [
    call_of(nn.layer_norm, away_from_zero(3, 4), (4,), away_from_zero(4), away_from_zero(4), by=(0, 2, 3)),
    call_of(nn.layer_norm, away_from_zero(3, 4), (4,)),
    call_of(nn.layer_norm, away_from_zero(3, 4), (4,), away_from_zero(4), by=(0, 2), eps=0.3),
    call_of(nn.layer_norm, away_from_zero(3, 4), (3, 4), away_from_zero(3, 4), away_from_zero(3, 4), by=(0, 2, 3)),
    call_of(nn.layer_norm, away_from_zero(2, 3, 4), (4,), away_from_zero(4), away_from_zero(4), by=(0, 2, 3)),
    *(
        call_of(
            nn.batch_norm,
            away_from_zero(*shape),
            *statistics,
            away_from_zero(3),
            away_from_zero(3),
            by=(0, 3, 4),
            training=training,
        )
        for shape, statistics, training in (
            ((4, 3), (None, None), True),
            ((2, 3, 2, 2), (None, None), True),
            ((2, 3, 2), (np.array([0.1, 0.2, -0.3]), np.array([1.5, 0.5, 1.0])), False),
        )
    ),
    call_of(nn.batch_norm, away_from_zero(3, 2, 2), None, None, training=True, eps=0.3),
    call_of(nn.instance_norm, away_from_zero(2, 3, 4)),
    call_of(
        nn.instance_norm,
        away_from_zero(2, 3, 2, 2),
        weight=away_from_zero(3),
        bias=away_from_zero(3),
        by=(0, "weight", "bias"),
    ),
    call_of(nn.group_norm, away_from_zero(2, 4, 3), 2, away_from_zero(4), away_from_zero(4), by=(0, 2, 3)),
    call_of(nn.group_norm, away_from_zero(3, 4), 1, eps=0.3),
    call_of(nn.rms_norm, away_from_zero(3, 4), (4,), away_from_zero(4), by=(0, 2)),
    call_of(nn.rms_norm, away_from_zero(2, 2, 3), (2, 3), eps=0.3),
]

CONVOLUTION = [
    call_of(nn.conv2d, away_from_zero(2, 2, 4, 5), away_from_zero(3, 2, 2, 3), away_from_zero(3), by=(0, 1, 2)),
    call_of(nn.conv2d, away_from_zero(1, 2, 4, 5), away_from_zero(2, 2, 3, 2), by=(0, 1), stride=2, padding=1),
    call_of(
        nn.conv2d,
        away_from_zero(1, 1, 5, 6),
        away_from_zero(2, 1, 2, 2),
        by=(0, 1),
        stride=(2, 1),
        padding=(0, 2),
        dilation=(2, 3),
    ),
    call_of(
        nn.conv2d, away_from_zero(1, 4, 3, 3), away_from_zero(6, 2, 2, 2), away_from_zero(6), by=(0, 1, 2), groups=2
    ),
    call_of(nn.conv2d, away_from_zero(1, 3, 3, 3), away_from_zero(3, 1, 2, 2), by=(0, 1), groups=3),
    call_of(
        nn.conv2d,
        away_from_zero(2, 2, 5, 4),
        away_from_zero(2, 1, 2, 2),
        by=(0, 1),
        groups=2,
        stride=(1, 2),
        padding=(1, 2),
        dilation=(2, 1),
    ),
    call_of(nn.conv2d, away_from_zero(1, 2, 3, 4), away_from_zero(2, 2, 2, 3), by=(0, 1), padding="same"),
    call_of(nn.conv2d, away_from_zero(1, 2, 4, 4), away_from_zero(2, 2, 2, 2), by=(0, 1), padding="valid"),
    call_of(nn.conv2d, away_from_zero(2, 4, 4), away_from_zero(2, 2, 1, 1), away_from_zero(2), by=(0, 1, 2)),
    call_of(nn.conv1d, away_from_zero(2, 2, 6), away_from_zero(3, 2, 3), away_from_zero(3), by=(0, 1, 2)),
    call_of(
        nn.conv1d,
        away_from_zero(4, 7),
        away_from_zero(2, 2, 2),
        by=(0, 1),
        stride=2,
        padding=(1,),
        dilation=2,
        groups=2,
    ),
    call_of(nn.conv1d, away_from_zero(1, 1, 4), away_from_zero(1, 1, 2), by=(0, 1), padding="same"),
    call_of(nn.conv_transpose1d, away_from_zero(2, 2, 3), away_from_zero(2, 3, 2), away_from_zero(3), by=(0, 1, 2)),
    call_of(nn.conv_transpose1d, away_from_zero(2, 4), away_from_zero(2, 1, 3), by=(0, 1), stride=2, output_padding=1),
    call_of(
        nn.conv_transpose2d,
        away_from_zero(1, 4, 2, 3),
        away_from_zero(4, 1, 3, 2),
        away_from_zero(2),
        by=(0, 1, 2),
        stride=(2, 3),
        padding=1,
        output_padding=(1, 2),
        groups=2,
        dilation=(1, 2),
    ),
    call_of(nn.conv_transpose2d, away_from_zero(2, 2, 2), away_from_zero(2, 2, 2, 2), by=(0, 1)),
    call_of(
        nn.conv_transpose2d,
        *(away_from_zero(2, 1, 3, 3), away_from_zero(1, 2, 3, 2), away_from_zero(2)),
        by=(0, 1, 2),
        padding=2,
        output_padding=(2, 1),
        dilation=3,
    ),
    call_of(
        nn.conv_transpose1d,
        *(away_from_zero(2, 4, 3), away_from_zero(4, 1, 1)),
        by=(0, 1),
        output_padding=1,
        groups=2,
        dilation=2,
    ),
]

POOLING = [
    call_of(nn.max_pool2d, distinct_numbers(2, 2, 4, 4), 2),
    call_of(nn.max_pool2d, distinct_numbers(1, 2, 5, 5), (3, 2), stride=(1, 2), padding=1),
    call_of(nn.max_pool2d, distinct_numbers(1, 1, 5, 6), 2, stride=1, dilation=2),
    call_of(nn.max_pool2d, distinct_numbers(1, 5, 5), 2, ceil_mode=True),
    call_of(nn.max_pool2d, distinct_numbers(1, 2, 5), 3, stride=2, ceil_mode=True),
    call_of(nn.avg_pool2d, away_from_zero(1, 2, 5), 3, stride=(2,), padding=(0,), ceil_mode=True),
    call_of(nn.avg_pool2d, away_from_zero(2, 2, 4, 4), 2),
    call_of(nn.avg_pool2d, away_from_zero(1, 2, 5, 5), (3, 2), stride=(1, 2), padding=1),
    call_of(nn.avg_pool2d, away_from_zero(1, 2, 5, 5), 3, stride=2, padding=1, ceil_mode=True, count_include_pad=False),
    call_of(nn.avg_pool2d, away_from_zero(1, 6, 6), 3, stride=4, padding=1, ceil_mode=True),
    call_of(nn.avg_pool2d, away_from_zero(1, 4, 4), 2, divisor_override=3),
    call_of(nn.max_pool1d, distinct_numbers(2, 2, 7), 3, stride=2, padding=1),
    call_of(nn.max_pool1d, distinct_numbers(2, 6), 2, dilation=2, ceil_mode=True),
    call_of(nn.avg_pool1d, away_from_zero(2, 2, 7), 3, 2, 1, True, False),
    call_of(nn.adaptive_avg_pool1d, away_from_zero(2, 2, 7), 3),
    call_of(nn.adaptive_avg_pool2d, away_from_zero(2, 2, 4, 5), 1),
    call_of(nn.adaptive_avg_pool2d, away_from_zero(2, 4, 6), (2, 3)),
    call_of(nn.adaptive_avg_pool2d, away_from_zero(1, 2, 5, 4), (3, None)),
    call_of(nn.adaptive_avg_pool2d, away_from_zero(1, 2, 3, 4), (5, 3)),
    call_of(nn.adaptive_avg_pool2d, away_from_zero(1, 1, 11, 2), (4, 7)),
    call_of(nn.adaptive_max_pool1d, distinct_numbers(2, 2, 7), 3),
    call_of(nn.adaptive_max_pool2d, distinct_numbers(2, 4, 6), (2, 3)),
    call_of(nn.adaptive_max_pool2d, distinct_numbers(1, 2, 5, 4), (3, None)),
]

RESIZING = [
    *(
        call_of(nn.pad, away_from_zero(2, 3, 4), (2, 1, 1, 0), mode=mode)
        for mode in ("reflect", "replicate", "circular")
    ),
    call_of(nn.pad, away_from_zero(2, 3, 4), (-1, 2), value=1.5),
    call_of(nn.pad, away_from_zero(4), (0, 0)),
    call_of(nn.pad, away_from_zero(2, 3, 4), (-4, 5), mode="replicate"),
    call_of(nn.pad, away_from_zero(2, 3, 4), (2, -4), mode="replicate"),
    call_of(nn.pad, away_from_zero(2, 3, 4), (3, -2), mode="reflect"),
    call_of(nn.pad, away_from_zero(2, 3, 4), (-1, 3), mode="reflect"),
    call_of(nn.interpolate, away_from_zero(2, 1, 3, 4), 5),
    call_of(nn.interpolate, away_from_zero(1, 2, 3), None, 2.0),
    call_of(nn.interpolate, away_from_zero(1, 2, 5), None, 0.7),
    call_of(nn.interpolate, away_from_zero(1, 2, 5), 3, None, "nearest-exact"),
    call_of(nn.interpolate, away_from_zero(1, 2, 5), 3, None, "area"),
    call_of(nn.interpolate, away_from_zero(1, 2, 5), None, 1.7, "linear"),
    call_of(nn.interpolate, away_from_zero(1, 1, 3, 4), (5, 2), None, "bilinear"),
    call_of(nn.interpolate, away_from_zero(1, 1, 3, 4), (5, 6), None, "bilinear", True),
    call_of(nn.interpolate, away_from_zero(1, 1, 2, 3, 2), 3, None, "trilinear"),
    call_of(nn.interpolate, away_from_zero(1, 1, 4, 3), None, 1.05, "bilinear"),
    call_of(nn.interpolate, away_from_zero(1, 1, 5), None, 1.7, "linear", None, True),
    call_of(nn.interpolate, away_from_zero(1, 1, 5, 2), None, (2.1, 0.6), recompute_scale_factor=True),
    call_of(nn.interpolate, away_from_zero(1, 2, 3, 2, 3), (2, 2, 4), None, "area"),
    call_of(nn.interpolate, away_from_zero(1, 1, 4, 5), (6, 3), None, "bicubic"),
    call_of(nn.interpolate, away_from_zero(1, 1, 4, 5), None, 1.3, "bicubic", True),
    call_of(nn.interpolate, away_from_zero(1, 2, 7, 5), (3, 2), None, "bilinear", antialias=True),
    call_of(nn.interpolate, away_from_zero(1, 2, 7, 5), (3, 8), None, "bicubic", False, None, True),
    call_of(nn.interpolate, away_from_zero(1, 2, 7, 5), (3, 2), None, "bicubic", True, None, True),
]

DISTANCES = [
    call_of(nn.normalize, away_from_zero(3, 4), torch_kwargs={}),
    call_of(nn.normalize, away_from_zero(3, 4), 3.0, axis=0, torch_kwargs={"dim": 0}),
    call_of(nn.normalize, away_from_zero(2, 3, 4), axis=(1, 2), torch_kwargs={"dim": (1, 2)}),
    call_of(nn.cosine_similarity, away_from_zero(3, 4), away_from_zero(3, 4), by=(0, 1)),
    call_of(
        nn.cosine_similarity,
        away_from_zero(2, 3, 4),
        away_from_zero(3, 1),
        by=(0, 1),
        axis=-1,
        torch_kwargs={"dim": -1},
    ),
    call_of(nn.pairwise_distance, away_from_zero(3, 4), away_from_zero(3, 4), by=(0, 1)),
    call_of(
        nn.pairwise_distance,
        away_from_zero(3, 4),
        away_from_zero(4),
        3.0,
        by=(0, 1),
        keepdims=True,
        torch_kwargs={"keepdim": True},
    ),
]

VOLUMES = [
    call_of(nn.conv3d, away_from_zero(1, 2, 3, 4, 3), away_from_zero(2, 2, 2, 3, 2), away_from_zero(2), by=(0, 1, 2)),
    call_of(
        nn.conv3d,
        *(away_from_zero(2, 4, 5, 3), away_from_zero(2, 1, 2, 2, 1)),
        by=(0, 1),
        stride=(1, 2, 1),
        padding=(1, 0, 1),
        dilation=(2, 1, 1),
        groups=2,
    ),
    call_of(
        nn.conv_transpose3d,
        *(away_from_zero(1, 2, 2, 3, 2), away_from_zero(2, 1, 2, 2, 3), away_from_zero(2)),
        by=(0, 1, 2),
        stride=(2, 1, 1),
        padding=(0, 1, 1),
        output_padding=(1, 0, 0),
        groups=2,
    ),
    call_of(nn.max_pool3d, distinct_numbers(1, 2, 3, 4, 4), (2, 2, 3), (1, 2, 1), (1, 0, 1)),
    call_of(nn.avg_pool3d, away_from_zero(1, 2, 3, 4, 5), (2, 2, 3), (1, 2, 2), (1, 1, 0), True, False),
    call_of(nn.adaptive_avg_pool3d, away_from_zero(1, 2, 3, 4, 2), (2, 3, None)),
    call_of(nn.adaptive_max_pool3d, distinct_numbers(1, 2, 3, 4, 2), (2, 3, 1)),
    call_of(nn.lp_pool1d, abs(away_from_zero(2, 2, 6)), 3.0, 2),
    call_of(nn.lp_pool2d, away_from_zero(1, 2, 4, 5), 2.0, (2, 3), 1),
    call_of(nn.lp_pool3d, away_from_zero(1, 1, 3, 4, 2), 2.0, 2, 1),
    call_of(nn.local_response_norm, away_from_zero(2, 5, 3), 3, 0.7, 0.6, 1.5),
    call_of(
        nn.fractional_max_pool2d, distinct_numbers(1, 2, 5, 6), 2, (3, 4), _random_samples=_rng.uniform(0, 1, (1, 2, 2))
    ),
    call_of(
        nn.fractional_max_pool3d,
        *(distinct_numbers(1, 1, 5, 5, 4), 2, (3, 3, 2)),
        _random_samples=_rng.uniform(0, 1, (1, 1, 3)),
    ),
]

MOVES = [
    call_of(nn.max_unpool1d, away_from_zero(1, 2, 2), np.array([[[0, 3], [1, 2]]]), 2),
    call_of(nn.max_unpool2d, away_from_zero(1, 1, 1, 2), np.array([[[[1, 6]]]]), 2),
    call_of(nn.max_unpool3d, away_from_zero(1, 1, 1, 1, 2), np.array([[[[[1, 14]]]]]), 2),
    call_of(nn.unfold, away_from_zero(2, 2, 4, 5), (2, 3), (2, 1), (1, 0), (1, 2)),
    call_of(nn.fold, away_from_zero(2, 8, 6), (3, 4), 2),
    call_of(nn.pixel_shuffle, away_from_zero(1, 8, 2, 3), 2),
    call_of(nn.pixel_unshuffle, away_from_zero(1, 2, 4, 6), 2),
    call_of(nn.channel_shuffle, away_from_zero(2, 6, 3), 3),
    call_of(nn.bilinear, away_from_zero(3, 2), away_from_zero(3, 4), away_from_zero(2, 2, 4), by=(0, 1, 2)),
    call_of(nn.triplet_margin_with_distance_loss, *(away_from_zero(3, 4) for _ in range(3)), by=(0, 1, 2), swap=True),
]

_log_probs = np.log(probabilities(5, 4, 2)).swapaxes(1, 2)
_bag = np.array([3, 1, 3, 0, 2])
SAMPLES = [
    # PyTorch's gradient is right behind a log_softmax alone.
    call_of(nn.ctc_loss, _log_probs, np.array([[1, 2], [3, 3]]), np.array([5, 4]), np.array([2, 2]), reduction="sum"),
    *(
        call_of(nn.embedding_bag, _bag, away_from_zero(4, 3), np.array([0, 2, 2]), mode=mode, by=(1,))
        for mode in ("sum", "mean", "max")
    ),
    call_of(
        nn.embedding_bag,
        *(np.array([[3, 1], [3, 0]]), away_from_zero(4, 3)),
        mode="sum",
        per_sample_weights=away_from_zero(2, 2),
        padding_idx=1,
        by=(1, "per_sample_weights"),
    ),
    call_of(nn.affine_grid, away_from_zero(2, 2, 3), (2, 1, 3, 2), False),
    call_of(nn.affine_grid, away_from_zero(1, 3, 4), (1, 2, 1, 3, 2), True),
    *(
        call_of(nn.grid_sample, away_from_zero(1, 2, 3, 4), _points, mode, padding, aligned, by=(0, 1))
        for _points in [_rng.uniform(-1.6, 1.6, (1, 2, 3, 2))]
        for mode, padding, aligned in (
            ("bilinear", "zeros", False),
            ("bilinear", "border", True),
            ("bilinear", "reflection", False),
            ("nearest", "reflection", True),
            ("bicubic", "zeros", True),
            ("bicubic", "reflection", False),
        )
    ),
    call_of(nn.grid_sample, away_from_zero(1, 1, 2, 3, 2), _rng.uniform(-1.2, 1.2, (1, 1, 2, 2, 3)), by=(0, 1)),
]

_some = np.array([[True, False, True, True], [True, True, False, False], [False, True, True, True]])
ATTENTION = [
    call_of(
        nn.scaled_dot_product_attention,
        away_from_zero(2, 3, 4),
        away_from_zero(2, 4, 4),
        away_from_zero(2, 4, 2),
        by=(0, 1, 2),
        **options,
    )
    for options in ({}, {"scale": 0.7}, {"is_causal": True}, {"attn_mask": _some})
]
ATTENTION += [
    call_of(
        nn.scaled_dot_product_attention,
        *(away_from_zero(1, 2, 3, 2) for _ in range(3)),
        away_from_zero(3, 3),
        by=(0, 1, 2, 3),
    ),
    call_of(
        nn.scaled_dot_product_attention, away_from_zero(3, 4), away_from_zero(2, 4), away_from_zero(2, 5), by=(0, 1, 2)
    ),
    call_of(
        nn.scaled_dot_product_attention,
        *(away_from_zero(1, 4, 2, 2), away_from_zero(1, 2, 3, 2), away_from_zero(1, 2, 3, 2)),
        by=(0, 1, 2),
        enable_gqa=True,
    ),
]

_index = np.array([[0, 0, 2, 0], [1, 1, 1, 1]])
ORDER = [
    call_of(first_of(nn.topk), distinct_numbers(3, 5), 2),
    call_of(first_of(nn.topk), distinct_numbers(3, 5), 2, 0, False),
    call_of(first_of(nn.topk), distinct_numbers(), 1),
    call_of(first_of(nn.kthvalue), distinct_numbers(3, 5), 2),
    call_of(first_of(nn.kthvalue), distinct_numbers(3, 5), 3, 0, True),
    call_of(first_of(nn.cummax), distinct_numbers(3, 5), 1),
    call_of(first_of(nn.cummin), distinct_numbers(3, 5), 0),
    *(
        call_of(
            nn.scatter_reduce,
            *(distinct_numbers(2, 3), 1, _index, 0.3 + distinct_numbers(2, 4), reduce),
            by=(0, 3),
            include_self=include_self,
        )
        for reduce, include_self in [(one, True) for one in ("sum", "prod", "mean", "amax", "amin")] + [("mean", False)]
    ),
]
HEADS = [
    call_of(
        first_of(nn.multi_head_attention_forward),
        *(away_from_zero(3, 2, 4), away_from_zero(4, 2, 4), away_from_zero(4, 2, 4), 4, 2),
        *(away_from_zero(12, 4), away_from_zero(12), away_from_zero(1, 1, 4), away_from_zero(1, 1, 4), True, 0.0),
        *(away_from_zero(4, 4), away_from_zero(4)),
        by=(0, 1, 2, 5, 6, 7, 8, 11, 12),
        attn_mask=np.array([[False, True, False, False], [True, False, False, True], [False, False, False, False]]),
    ),
    call_of(
        first_of(nn.multi_head_attention_forward),
        *(away_from_zero(3, 2, 4), away_from_zero(4, 2, 3), away_from_zero(4, 2, 5), 4, 2, None, None, None, None),
        *(False, 0.5, away_from_zero(4, 4), None, False),
        by=(0, 1, 2, 11, "q_proj_weight", "k_proj_weight", "v_proj_weight"),
        use_separate_proj_weight=True,
        q_proj_weight=away_from_zero(4, 4),
        k_proj_weight=away_from_zero(4, 3),
        v_proj_weight=away_from_zero(4, 5),
    ),
]

CALLS = [
    *ELEMENTWISE,
    *SOFTMAXES,
    *LINEAR,
    *CLASSIFICATION,
    *REGRESSION,
    *LIKELIHOODS,
    *MARGINS,
    *NORMALIZATION,
    *CONVOLUTION,
    *POOLING,
    *RESIZING,
    *DISTANCES,
    *VOLUMES,
    *MOVES,
    *SAMPLES,
    *ATTENTION,
    *ORDER,
    *HEADS,
]
