"""Losses that are 0 from a margin on."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays.interception import on_device_of_arguments
from ...core.arrays.one_device import check_operands_beside
from ...core.arrays.values import arange_like, as_array, as_like
from ...core.ops.composites import composite
from ...core.ops.single_precision import in_single
from ...core.recording.kernels import fused
from ...core.recording.primitive import derivative, primitive
from ...core.settings.arguments import truth
from ...errors import ArgumentError, IndexRangeError
from .activations import relu, softplus
from .arguments import array_of, check_real, check_reduction, constant, real_floating
from .distances import pairwise_distance
from .labels import at_labels
from .losses import reduce_losses, warn_if_broadcast

__all__ = [
    "cosine_embedding_loss",
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "triplet_margin_loss",
]


@primitive()
@fused(lambda x: np.maximum(x, 0))
def hinge_(x: Any) -> Any:
    """Return max(x, 0), whose derivative at 0 is 0, as in PyTorch from 2.14 on."""
    return np.maximum(real_floating("hinge_embedding_loss", "input", as_array(x)), 0)


@derivative(hinge_, "x")
def _(g: Any, x: Any) -> Any:
    return g * (x > 0)


hinge: Callable[..., Any] = hinge_.call


@composite("input", "target")
def _hinge_losses(input: Any, target: Any, margin: float) -> Any:
    return np.where(target != 1, hinge(margin - input), 0) + np.where(target != -1, input, 0)


def hinge_embedding_loss(input: Any, target: Any, margin: float = 1.0, reduction: str = "mean") -> Any:
    """Return the mean of the distances whose target is 1, and of what lacks those whose target is -1 to the margin.

    Args:
        input: distances, any shape.
        target: 1 or -1 for each, the same shape.
        margin: the distance from which on the loss for -1 is 0.
        reduction: "mean", "sum" or "none".

    Raises:
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.hinge_embedding_loss.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.hinge_embedding_loss(np.array([0.3, 0.3, 2.0]), np.array([1, -1, -1]), reduction="none")
        array([0.3, 0.7, 0. ])
    """
    check_operands_beside("hinge_embedding_loss", input, target)
    check_reduction(reduction)
    check_real("hinge_embedding_loss", input=input, target=target)
    return _hinge_losses.reduced(reduction, input, target, margin)


@composite("input1", "input2", "target")
def _ranking_losses(input1: Any, input2: Any, target: Any, margin: float) -> Any:
    return hinge(margin - target * (input1 - input2))


def margin_ranking_loss(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean") -> Any:
    """Return the mean of `max(0, margin - target * (input1 - input2))`.

    Args:
        input1: any shape.
        input2: the same shape.
        target: 1 where the first input should be the larger, and -1 where the second one; the same shape.
        margin: by how much it should be.
        reduction: "mean", "sum" or "none".

    Raises:
        ArgumentError: the inputs and the target do not have the same number of axes.
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.margin_ranking_loss.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.margin_ranking_loss(np.array([2.0, 2.0]), np.array([1.0, 1.0]), np.array([1, -1]), reduction="none")
        array([0., 1.])
    """
    check_operands_beside("margin_ranking_loss", input1, input2, target)
    check_reduction(reduction)
    check_real("margin_ranking_loss", input1=input1, input2=input2, target=target)
    shapes = [array_of(one).shape for one in (input1, input2, target)]
    if len({len(shape) for shape in shapes}) > 1:
        raise ArgumentError(
            f"margin_ranking_loss takes two inputs and a target with as many axes, not of the shapes {shapes[0]}, "
            f"{shapes[1]} and {shapes[2]}"
        )
    return _ranking_losses.reduced(reduction, input1, input2, target, margin)


@on_device_of_arguments
@in_single
def cosine_embedding_loss(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean") -> Any:
    """Return the mean of 1 - c where the target is 1, and of max(0, c - margin) where it is -1.

    Here c is the cosine of the angle between two vectors.

    Args:
        input1: vectors, shape `(n, features)` or `(features,)`.
        input2: the same shape.
        target: 1 or -1 for each pair, shape `(n,)` or `()`.
        margin: the cosine up to which the loss for -1 is 0.
        reduction: "mean", "sum" or "none".

    Raises:
        ArgumentError: the shapes do not fit.
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.cosine_embedding_loss.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> x = np.eye(2)
        >>> nn.cosine_embedding_loss(x, x[::-1], np.array([1, -1]), reduction="none")
        array([1., 0.])
    """
    check_operands_beside("cosine_embedding_loss", input1, input2, target)
    check_reduction(reduction)
    check_real("cosine_embedding_loss", input1=input1, input2=input2, target=target)
    shapes = [array_of(one).shape for one in (input1, input2, target)]
    if len(shapes[2]) > 1 or any(len(shape) != len(shapes[2]) + 1 for shape in shapes[:2]):
        raise ArgumentError(
            "cosine_embedding_loss takes two inputs of shape (n, features) and a target of shape (n,), or both without "
            f"n, not of the shapes {shapes[0]}, {shapes[1]} and {shapes[2]}"
        )
    # So that vectors of length 0 have a derivative.
    eps = 1e-12
    lengths = (np.sum(input1 * input1, axis=-1) + eps) * (np.sum(input2 * input2, axis=-1) + eps)
    cosines = np.sum(input1 * input2, axis=-1) / np.sqrt(lengths)
    signs = array_of(target)
    losses = np.where(signs == 1, 1 - cosines, 0) + np.where(signs == -1, hinge(cosines - margin), 0)
    return reduce_losses(losses, reduction)


@in_single
def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """Return the mean of max(0, margin + d(anchor, positive) - d(anchor, negative)), d being `nn.pairwise_distance`.

    Args:
        anchor: shape `(n, features)` or `(features,)`.
        positive: what should be near the anchor, the same shape.
        negative: what should be farther away, the same shape.
        margin: by how much.
        p: the order of the norm.
        eps: added to differences.
        swap: take the distance of the negative from the positive where that is less than from the anchor.
        reduction: "mean", "sum" or "none".

    Raises:
        ArgumentError: the arguments do not have the same number of axes, or the margin is not positive.
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.triplet_margin_loss.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> anchor = np.zeros((1, 2))
        >>> float(nn.triplet_margin_loss(anchor, anchor + 3.0, anchor + 1.0).round(4))
        3.8284
    """
    check_operands_beside("triplet_margin_loss", anchor, positive, negative)
    check_reduction(reduction)
    check_real("triplet_margin_loss", anchor=anchor, positive=positive, negative=negative)
    if not margin > 0:
        raise ArgumentError(f"triplet_margin_loss needs a positive margin, not {margin}")
    shapes = [array_of(one).shape for one in (anchor, positive, negative)]
    if len({len(shape) for shape in shapes}) > 1:
        raise ArgumentError(
            f"triplet_margin_loss takes three arrays with as many axes, not of the shapes {shapes[0]}, {shapes[1]} "
            f"and {shapes[2]}"
        )
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if truth(swap, "swap"):
        far = np.minimum(far, pairwise_distance(positive, negative, p, eps))
    return reduce_losses(hinge(margin + near - far), reduction)


@on_device_of_arguments
@in_single
def multi_margin_loss(
    input: Any, target: Any, p: int = 1, margin: float = 1.0, weight: Any = None, reduction: str = "mean"
) -> Any:
    """Return how far scores of wrong classes come within a margin of that of the right one, in the mean of the samples.

    The loss of a sample is the mean over all classes of `max(0, margin - right + wrong) ** p`.

    Args:
        input: scores, shape `(n, classes)` or `(classes,)`.
        target: the right classes, integers of shape `(n,)` or `()`.
        p: 1 or 2.
        margin: by how much the score of the right class should be above the others.
        weight: the weight of each class, shape `(classes,)`; None for 1.
        reduction: "mean" (also with weights, over the number of samples), "sum" or "none".

    Raises:
        ArgumentError: shapes or options do not fit.
        IndexRangeError: a target is no class. (Targets on a device with arrays of its own are not waited for.)
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.multi_margin_loss.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.multi_margin_loss(np.array([[2.0, 1.5, 0.0]]), np.array([0]), reduction="none").round(4)
        array([0.1667])
    """
    check_operands_beside("multi_margin_loss", input, constants=(target, weight))
    check_reduction(reduction)
    check_real("multi_margin_loss", input=input)
    if p not in (1, 2):
        raise ArgumentError(f"multi_margin_loss takes p of 1 or 2, not {p}")
    data, labels = array_of(input), array_of(target)
    if data.ndim not in (1, 2) or labels.shape != data.shape[:-1] or labels.dtype.kind not in "iu":
        raise ArgumentError(
            f"multi_margin_loss takes scores of shape (n, classes) and integer targets of shape (n,), not {data.shape} "
            f"and {labels.shape} of dtype {labels.dtype}"
        )
    classes = data.shape[-1]
    _check_classes("multi_margin_loss", labels, classes)
    scores, labels = np.reshape(input, (-1, classes)), labels.reshape(-1)
    labels = as_like(labels, data)
    right = np.expand_dims(at_labels(scores, labels, None), 1)
    gaps = relu(margin - right + scores)
    gaps = np.where(labels[:, np.newaxis] == arange_like(data, classes), 0, gaps if p == 1 else gaps * gaps)
    losses = np.sum(gaps, axis=1) / classes
    if weight is not None:
        weights = constant("multi_margin_loss", "weight", weight)
        if weights.shape != (classes,):
            raise ArgumentError(f"multi_margin_loss needs a weight of shape ({classes},), not {weights.shape}")
        losses = losses * as_like(weights, data)[labels]
    return reduce_losses(losses if data.ndim > 1 else np.reshape(losses, ()), reduction)


@on_device_of_arguments
@in_single
def multilabel_margin_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """Return how far scores of wrong classes come within 1 of those of the right ones, in the mean of the samples.

    The loss of a sample is the sum over all right and wrong classes of `max(0, 1 - right + wrong)`, divided by the
    number of classes.

    Args:
        input: scores, shape `(n, classes)` or `(classes,)`.
        target: the right classes of each sample, followed by a -1 if they are not all; integers of the same shape.
        reduction: "mean", "sum" or "none".

    Raises:
        ArgumentError: the shapes do not fit.
        IndexRangeError: a target is no class. (Targets on a device with arrays of its own are not waited for.)
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.multilabel_margin_loss.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> scores, classes = np.array([0.1, 0.2, 0.4, 0.8]), np.array([3, 0, -1, 1])
        >>> float(nn.multilabel_margin_loss(scores, classes).round(4))
        0.85
    """
    check_operands_beside("multilabel_margin_loss", input, constants=target)
    check_reduction(reduction)
    check_real("multilabel_margin_loss", input=input)
    data, labels = array_of(input), array_of(target)
    if data.ndim not in (1, 2) or labels.shape != data.shape or labels.dtype.kind not in "iu":
        raise ArgumentError(
            "multilabel_margin_loss takes scores of shape (n, classes) and integer targets of that shape, not "
            f"{data.shape} and {labels.shape} of dtype {labels.dtype}"
        )
    classes = data.shape[-1]
    scores, labels = np.reshape(input, (-1, classes)), labels.reshape(-1, classes)
    # What follows the first -1 counts for nothing.
    is_listed = np.cumsum(labels < 0, axis=1) == 0
    labels = np.where(is_listed, labels, 0)
    _check_classes("multilabel_margin_loss", labels, classes)
    labels, is_listed = as_like(labels, data), as_like(is_listed, data)
    is_label = labels[:, :, np.newaxis] == arange_like(data, classes)
    is_right = np.any(is_label & is_listed[:, :, np.newaxis], axis=1)
    right = np.take_along_axis(scores, labels, axis=1)
    gaps = relu(1 - np.expand_dims(right, 2) + np.expand_dims(scores, 1))
    counts = is_listed[:, :, np.newaxis] & ~is_right[:, np.newaxis, :]
    losses = np.sum(np.where(counts, gaps, 0), axis=(1, 2)) / classes
    return reduce_losses(losses if data.ndim > 1 else np.reshape(losses, ()), reduction)


@composite("input", "target", "weight")
def _soft_margins_of_labels(input: Any, target: Any, weight: Any) -> Any:
    losses = (1 - target) * input + softplus(-input, 1.0, math.inf)
    return losses if weight is None else losses * weight


def multilabel_soft_margin_loss(input: Any, target: Any, weight: Any = None, reduction: str = "mean") -> Any:
    """Return the binary cross entropy of scores, in the mean over the classes and then over the samples.

    Args:
        input: scores, shape `(..., classes)`.
        target: 1 for each right class and 0 for a wrong one, the same shape; another one is broadcast, with a warning.
        weight: the weight of each class, of a shape that broadcasts; None for 1.
        reduction: "mean", "sum" or "none", over the samples.

    Raises:
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.multilabel_soft_margin_loss.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.multilabel_soft_margin_loss(np.zeros((1, 3)), np.array([[1.0, 0.0, 1.0]])).round(4)
        np.float64(0.6931)
    """
    check_reduction(reduction)
    check_real("multilabel_soft_margin_loss", input=input, target=target, weight=weight)
    warn_if_broadcast("multilabel_soft_margin_loss", input, target)
    return _mean_of_classes(input, target, weight, reduction)


@in_single
def _mean_of_classes(input: Any, target: Any, weight: Any, reduction: str) -> Any:
    return reduce_losses(np.mean(_soft_margins_of_labels(input, target, weight), axis=-1), reduction)


def _check_classes(function: str, labels: Any, classes: int) -> None:
    """Raise if a label on the host is no class.

    Raises:
        IndexRangeError: one is not.
    """
    if labels.__class__ is np.ndarray and labels.size and (labels.min() < 0 or labels.max() >= classes):
        worst = labels.min() if labels.min() < 0 else labels.max()
        raise IndexRangeError(f"{function} got label {worst}, but there are {classes} classes: 0 to {classes - 1}")
