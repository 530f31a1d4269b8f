"""A softmax over many classes of which a few are frequent: the rare ones stand in clusters with fewer features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from ...core.arrays.values import as_like, on_host
from ...core.settings.arguments import number, truth, whole_number
from ...errors import ArgumentError, IndexRangeError
from ..functional.softmaxes import log_softmax
from ..shared.arguments import array_of, constant
from .containers import ModuleList, Sequential
from .linear import Linear
from .module import Module
from .parameters import size

if TYPE_CHECKING:
    import numpy.typing as npt

    from ...core.tensor import Tensor
    from .parameters import Place


__all__ = ["AdaptiveLogSoftmaxWithLoss", "OutputAndLoss"]


class OutputAndLoss(NamedTuple):
    """The logarithms of the probabilities of targets, and minus their mean."""

    output: Tensor
    loss: Tensor


@final
class AdaptiveLogSoftmaxWithLoss(Module):
    """Computes the logarithms of the probabilities of targets among many classes, the frequent ones first.

    The head has the frequent classes and one entry for each cluster of others; a class of a cluster has the probability
    of the cluster times its own in it. Only the clusters that targets are in are computed.

    Args:
        in_features: the features of the input.
        n_classes: the number of classes, in the order of how often they are.
        cutoffs: the first class of each cluster, ascending.
        div_value: the features of each cluster are those of the one before divided by it.
        head_bias: add a bias in the head.
        device: of the parameters.
        dtype: of the parameters.

    Source: torch.nn.AdaptiveLogSoftmaxWithLoss; E. Grave et al., "Efficient softmax approximation for GPUs" (2017).

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> layer = nn.AdaptiveLogSoftmaxWithLoss(8, 100, [10, 50])
        >>> output, loss = layer(np.ones((3, 8)), np.array([4, 99, 20]))
        >>> output.shape, bool(loss == -output.mean())
        ((3,), True)
        >>> bool(abs(np.exp(layer.log_prob(np.ones((1, 8)))).sum() - 1) < 1e-12)
        True
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Place = None,
        dtype: npt.DTypeLike | None = None,
    ) -> None:
        self.in_features: int = size(in_features, "in_features")
        self.n_classes: int = size(n_classes, "n_classes")
        given = [whole_number(one, "cutoffs") for one in cutoffs]
        if not given or given != sorted({*given}) or given[0] < 1 or given[-1] >= self.n_classes:
            raise ArgumentError(
                f"AdaptiveLogSoftmaxWithLoss takes ascending cutoffs from 1 to {self.n_classes - 1}, not {given}"
            )
        self.cutoffs: list[int] = [*given, self.n_classes]
        self.div_value: float = number(div_value, "div_value")
        self.head_bias: bool = truth(head_bias, "head_bias")
        self.shortlist_size: int = given[0]
        self.n_clusters: int = len(given)
        self.head_size: int = self.shortlist_size + self.n_clusters
        self.head: Any = Linear(self.in_features, self.head_size, self.head_bias, device, dtype)
        tail = []
        for index, (first, end) in enumerate(zip(given, self.cutoffs[1:], strict=True)):
            features = int(self.in_features // self.div_value ** (index + 1))
            tail.append(
                Sequential(
                    Linear(self.in_features, features, False, device, dtype),
                    Linear(features, end - first, False, device, dtype),
                )
            )
        self.tail: Any = ModuleList(tail)

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()

    def forward(self, input_: Tensor | np.ndarray, target_: Tensor | np.ndarray) -> OutputAndLoss:
        """Return the logarithms of the probabilities of the targets, shape `(n,)`, and minus their mean.

        Args:
            input_: shape `(n, in_features)`, or `(in_features,)`.
            target_: the classes, integers of shape `(n,)`, or one.
        """
        labels = on_host(constant("AdaptiveLogSoftmaxWithLoss", "target_", target_))
        shape = array_of(input_).shape
        if len(shape) not in (1, 2) or shape[-1] != self.in_features or shape[:-1] != labels.shape:
            raise ArgumentError(
                f"AdaptiveLogSoftmaxWithLoss takes input of shape (n, {self.in_features}) and a target of shape (n,), "
                f"or both without n, not {shape} and {labels.shape}"
            )
        if labels.dtype.kind not in "iu":
            raise ArgumentError(f"AdaptiveLogSoftmaxWithLoss takes integers as target, not {labels.dtype}")
        if labels.size and not 0 <= labels.min() <= labels.max() < self.n_classes:
            worst = labels.min() if labels.min() < 0 else labels.max()
            raise IndexRangeError(
                f"AdaptiveLogSoftmaxWithLoss got target {worst}, but there are {self.n_classes} classes: 0 to "
                f"{self.n_classes - 1}"
            )
        x, labels = np.reshape(input_, (-1, self.in_features)), labels.reshape(-1)
        output: Any = np.reshape(self._of_targets(x, labels), shape[:-1])
        mean: Any = np.mean(output)
        return OutputAndLoss(output, -mean)

    def _of_targets(self, x: Any, labels: np.ndarray) -> Any:
        """Return the logarithm of the probability of each row's target."""
        data = array_of(x)
        # 0 for the frequent classes, and the number of the cluster from 1 on.
        clusters = np.searchsorted(self.cutoffs, labels, side="right")
        entries = np.where(clusters == 0, labels, self.shortlist_size + clusters - 1)
        rows = np.arange(len(labels))
        found = log_softmax(self.head(x), axis=1)[as_like(rows, data), as_like(entries, data)]
        parts, places = [], []
        for cluster in np.unique(clusters[clusters > 0]):
            members = np.flatnonzero(clusters == cluster)
            own = labels[members] - self.cutoffs[cluster - 1]
            logarithms = log_softmax(self.tail[int(cluster) - 1](x[as_like(members, data)]), axis=1)
            parts.append(logarithms[as_like(np.arange(len(members)), data), as_like(own, data)])
            places.append(members)
        if not parts:
            return found
        # Those without a cluster have no second part.
        zeros = np.zeros_like(array_of(found), shape=(1,))
        position = np.full(len(labels), len(np.concatenate(places)))
        position[np.concatenate(places)] = np.arange(position[0])
        return found + np.concatenate((*parts, zeros))[as_like(position, data)]

    def log_prob(self, input: Tensor | np.ndarray) -> Tensor:
        """Return the logarithms of the probabilities of all classes, shape `(n, n_classes)`.

        Args:
            input: shape `(n, in_features)`.
        """
        head = log_softmax(self.head(input), axis=-1)
        parts: Any = [head[..., : self.shortlist_size]]
        for index, cluster in enumerate(self.tail):
            entry = self.shortlist_size + index
            parts.append(log_softmax(cluster(input), axis=-1) + head[..., entry : entry + 1])
        # Of NumPy's functions a type checker knows what they return of arrays.
        joined: Any = np.concatenate(parts, axis=-1)
        found: Tensor = joined
        return found

    def predict(self, input: Tensor | np.ndarray) -> Tensor:
        """Return the most probable class of each row, shape `(n,)`.

        Args:
            input: shape `(n, in_features)`.
        """
        logarithms: Any = self.log_prob(input)
        found: Tensor = logarithms.argmax(axis=-1)
        return found

    def extra_repr(self) -> str:
        """Return the numbers of features and classes."""
        return f"{self.in_features}, {self.n_classes}, cutoffs={self.cutoffs[:-1]}, div_value={self.div_value}"
