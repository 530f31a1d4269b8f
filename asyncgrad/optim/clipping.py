"""Clipping of gradients, by their norm and by value."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, final

import numpy as np

from ..core.arrays.interception import on_device_of, on_device_of_arguments
from ..core.arrays.values import as_array, is_device_array, numbers_of
from ..core.settings.arguments import number, truth
from ..core.tensor import Tensor
from ..core.tree.registry import container_type
from ..core.tree.structure import Tree, TreeStructure, first_places, flatten, paths, unflatten
from ..errors import InvalidGradientError
from .gradients import check_array

__all__ = ["clip_grad_norm", "clip_grad_value", "clipped_array", "largest_norm", "norm_and_scale"]


def clip_grad_norm(parameters: Tree, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = True) -> Any:
    """Scale gradients so that the norm of all of them together is at most `max_norm`.

    Arrays are not written into: whoever holds a gradient does not see it change.

    Args:
        parameters: tensors that require grad, as an iterable or a tree: their `.grad` are clipped. Or a tree of
            gradients, such as `ag.func.grad` returns, with None where there is none.
        max_norm: the largest norm; `math.inf` to know the norm and clip nothing.
        norm_type: the p of the p-norm; `math.inf` for the largest absolute value, `-math.inf` for the smallest, and 0
            for the number of gradients that are not zero.
        error_if_nonfinite: raise if the norm is infinite or NaN. Otherwise the gradients become NaN or 0.

    Returns:
        For parameters, the norm before clipping, a float. For a tree of gradients, the pair of the clipped tree and
        that norm.

    Raises:
        InvalidGradientError: with `error_if_nonfinite`, the norm is not finite; the message names the gradient, and
            nothing has changed.
        ArgumentError: `max_norm` or `norm_type` is out of range.

    Source: torch.nn.utils.clip_grad_norm_, whose `error_if_nonfinite` is False by default.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> from asyncgrad import optim
        >>> w = ag.tensor([1.0, 1.0], requires_grad=True)
        >>> w.grad = ag.tensor([3.0, 4.0])
        >>> optim.clip_grad_norm([w], 1.0)
        5.0
        >>> w.grad.numpy()
        array([0.6, 0.8])
        >>> optim.clip_grad_norm({"w": np.array([3.0, 4.0])}, 10.0)
        ({'w': array([3., 4.])}, 5.0)
    """
    most = largest_norm(max_norm, "max_norm")
    order = _norm_type(norm_type)
    gradients = _Gradients(parameters)
    norms, total = _joint_norm(gradients.arrays, order)
    if truth(error_if_nonfinite, "error_if_nonfinite") and not math.isfinite(total):
        raise gradients.error(norms, total)
    scale = _scale_to(most, total)
    if not scale >= 1.0:
        with np.errstate(invalid="ignore"):
            gradients.replace(lambda array: array * array.real.dtype.type(scale))
    return gradients.result(total)


def clip_grad_value(parameters: Tree, clip_value: float) -> Any:
    """Limit each element of gradients to the range from `-clip_value` to `clip_value`.

    Of complex gradients, the real and the imaginary parts are limited. Arrays are not written into.

    Args:
        parameters: as for `clip_grad_norm`.
        clip_value: the largest absolute value.

    Returns:
        For parameters, None. For a tree of gradients, the clipped tree.

    Raises:
        InvalidGradientError: an element is NaN; the message names the gradient, and nothing has changed.
        ArgumentError: `clip_value` is negative.

    Source: torch.nn.utils.clip_grad_value_.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import optim
        >>> optim.clip_grad_value([np.array([3.0, -0.5])], 1.0)
        [array([ 1. , -0.5])]
    """
    most = number(clip_value, "clip_value", 0)
    gradients = _Gradients(parameters)
    for index, has_nan in enumerate(numbers_of([_any_nan(array) for array in gradients.arrays])):
        if has_nan:
            array = gradients.arrays[index]
            raise InvalidGradientError(
                f"{gradients.name(index)}, of shape {array.shape}, has NaN, which has no place in a range: skip the "
                "step, or find where it comes from by `with ag.detect_anomaly():`"
            )

    gradients.replace(lambda array: _clipped(array, most))
    return gradients.clipped()


def largest_norm(value: Any, name: str) -> float:
    """Return an argument that limits a norm as a float; infinity limits none.

    Raises:
        ArgumentTypeError: it is no number.
        ArgumentError: it is NaN or negative.
    """
    is_scalar = not getattr(value, "shape", ())
    return math.inf if is_scalar and value == math.inf else number(value, name, 0)


def norm_and_scale(arrays: Sequence[Any], max_norm: float) -> tuple[float, float]:
    """Return the 2-norm of gradients together, and what `clip_grad_norm` multiplies them by.

    Raises:
        InvalidGradientError: the norm is not finite.
    """
    _, total = _joint_norm(list(arrays), 2.0)
    if not math.isfinite(total):
        raise InvalidGradientError(f"the norm of all gradients is {total}")
    return total, min(_scale_to(max_norm, total), 1.0)


def _joint_norm(arrays: list[Any], order: float) -> tuple[list[float], float]:
    """Return the norm of each array, and that of all together; what is infinite or NaN, the caller tells of."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        norms = _norms(arrays, order)
        return norms, _norm(np.array(norms, float), order) if norms else 0.0


def _scale_to(most: float, total: float) -> float:
    # The summand is PyTorch's: it keeps the division from overflowing, and the result below max_norm.
    return most / (total + 1e-6)


def clipped_array(array: Any, most: float) -> Any:
    """Return a gradient as `clip_grad_value` limits it.

    Raises:
        InvalidGradientError: an element is NaN.
    """
    if _any_nan(array):
        raise InvalidGradientError(f"a gradient of shape {array.shape} has NaN")
    return _clipped(array, most)


def _clipped(array: Any, most: float) -> Any:
    if array.dtype.kind == "c":
        return np.clip(array.real, -most, most) + 1j * np.clip(array.imag, -most, most)
    return np.clip(array, -most, most)


@final
class _Gradients:
    """The gradients that a caller has given: those of parameters, or the leaves of a tree."""

    def __init__(self, given: Any) -> None:
        tree = given if isinstance(given, Tensor) or container_type(type(given)) is not None else _as_list(given)
        self._leaves, self._structure = flatten(tree)
        for name, leaf in zip(paths(self._structure, "parameters"), self._leaves, strict=True):
            check_array(name, leaf)
        #: Whether these are parameters, whose `.grad` is meant.
        self._of_parameters = any(
            isinstance(leaf, Tensor) and leaf.is_leaf and leaf.requires_grad for leaf in self._leaves
        )
        #: For each leaf its number, or that of the same one in another place of a model, which counts once.
        self._places = first_places(self._structure, self._leaves)
        found = [(index, leaf) for index, leaf in enumerate(self._leaves) if self._places[index] == index]
        if self._of_parameters:
            found = [(index, leaf.grad) for index, leaf in found if getattr(leaf, "grad", None) is not None]
        self._indices = [index for index, _ in found]
        #: The arrays of the gradients.
        self.arrays = [leaf._data if isinstance(leaf, Tensor) else leaf for _, leaf in found]
        self._changed: list[Any] | None = None

    def name(self, index: int) -> str:
        """Return the name of a gradient in errors."""
        root = "parameters" if self._of_parameters else "grads"
        path = _nth(self._structure, root, self._indices[index])
        return f"the gradient of {path}" if self._of_parameters else path

    def error(self, norms: list[float], total: float) -> InvalidGradientError:
        """Return the error for a norm that is not finite."""
        bad = next((index for index, norm in enumerate(norms) if not math.isfinite(norm)), None)
        if bad is None:
            return InvalidGradientError(
                f"the norm of all gradients is {total}, though that of each is finite: divide them first"
            )
        return InvalidGradientError(
            f"{self.name(bad)}, of shape {self.arrays[bad].shape}, has the norm {norms[bad]}: skip the step, or find "
            "where it comes from by `with ag.detect_anomaly():`; error_if_nonfinite=False clips all the same"
        )

    def replace(self, change: Callable[[Any], Any]) -> None:
        """Put new arrays in place of the gradients."""
        # Of arrays with no axes, NumPy makes scalars, into which no optimizer could write.
        changed = [as_array(on_device_of(array, change)) for array in self.arrays]
        if self._of_parameters:
            for index, array in zip(self._indices, changed, strict=True):
                param = self._leaves[index]
                param.grad = Tensor(array, None, 0, param._device)
        self._changed = changed

    def result(self, total: float) -> Any:
        """Return what `clip_grad_norm` returns."""
        return total if self._of_parameters else (self.clipped(), total)

    def clipped(self) -> Any:
        """Return the tree of clipped gradients; None for parameters."""
        if self._of_parameters:
            return None
        if self._changed is None:
            return unflatten(self._structure, self._leaves)
        clipped = {}
        for index, array in zip(self._indices, self._changed, strict=True):
            leaf = self._leaves[index]
            clipped[index] = Tensor(array, None, 0, leaf._device) if isinstance(leaf, Tensor) else array
        return unflatten(self._structure, [clipped[place] for place in self._places])


def _as_list(given: Any) -> Any:
    if isinstance(given, Iterable) and not isinstance(given, (str, np.ndarray)) and not is_device_array(given):
        return list(given)
    return given


def _norm_type(norm_type: Any) -> float:
    if norm_type in (math.inf, -math.inf, "inf", "-inf"):
        return float(norm_type)
    return number(norm_type, "norm_type")


def _norms(arrays: list[Any], order: float) -> list[float]:
    """Return the norm of each array."""
    if order != 2.0 or not any(map(is_device_array, arrays)):
        return [_norm(array, order) for array in arrays]
    flat = [array.reshape(-1) for array in arrays]
    squares = numbers_of([_square(one) for one in flat])
    return [_norm_of_square(one, square) for one, square in zip(flat, squares, strict=True)]


@on_device_of_arguments
def _any_nan(array: Any) -> Any:
    return np.isnan(array).any()


@on_device_of_arguments
def _square(flat: Any) -> Any:
    return np.vdot(flat, flat).real


@on_device_of_arguments
def _norm(array: Any, order: float) -> float:
    if not array.size:
        return 0.0
    if order == math.inf:
        return float(abs(array).max())
    if order == -math.inf:
        return float(abs(array).min())
    if order == 0.0:
        return float(np.count_nonzero(array))
    if order == 2.0:
        flat = array.reshape(-1)
        return _norm_of_square(flat, float(np.vdot(flat, flat).real))
    return float((abs(array).astype(np.float64) ** order).sum() ** (1.0 / order))


@on_device_of_arguments
def _norm_of_square(flat: Any, square: float) -> float:
    """Return the 2-norm of a vector, given the sum of its squares."""
    # A sum of squares that overflows or vanishes says nothing of the norm.
    if not flat.size or (math.isfinite(square) and square > 1e-30):
        return math.sqrt(square)
    largest = float(abs(flat).max())
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    flat = flat.astype(np.result_type(flat.dtype, np.float64)) / largest
    return largest * math.sqrt(float(np.vdot(flat, flat).real))


def _nth(structure: TreeStructure, root: str, index: int) -> str:
    names: Iterator[str] = paths(structure, root)
    return next(islice(names, index, None))
