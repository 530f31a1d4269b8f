"""How many operations a call does, and how many bytes it reads and writes, from the shapes of its arrays.

Known are products of matrices, convolutions, elementwise functions, reductions and functions that only give another
view. An addition, a multiplication, and one call of an elementwise function for one element, count as one operation
each. None stands for everything else.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .recording import Spec

__all__ = ["backward_flops", "bytes_of", "forward_flops", "operand_specs", "products_of"]

#: Operations of a product, by function: two for each element of the result and each element that is summed over.
#: Takes the shapes of the arguments and of the result.
_PRODUCTS: dict[str, Callable[[Sequence[Any], tuple[int, ...]], int | None]] = {
    "matmul": lambda shapes, out: _matmul(shapes, out),
    "dot": lambda shapes, out: _matmul(shapes, out),
    "attention_scores": lambda shapes, out: _matmul(shapes, out),
    "attended": lambda shapes, out: _matmul(shapes, out),
    "linear": lambda shapes, out: _times(2 * prod(out), shapes[1][-1] if shapes[1] else None),
    "conv1d": lambda shapes, out: _convolution(shapes, out),
    "conv2d": lambda shapes, out: _convolution(shapes, out),
    "conv3d": lambda shapes, out: _convolution(shapes, out),
}
#: Functions that read each element once.
_REDUCTIONS = {"amax", "amin", "max", "mean", "min", "prod", "sum"}
#: Operations for each element of the result that the derivative by each argument takes.
_ELEMENTWISE_BACKWARD = {
    "add": (0, 0),
    "subtract": (0, 1),
    "multiply": (1, 1),
    "negative": (1,),
}


def _times(count: int, length: int | None) -> int | None:
    return None if length is None else count * length


def _matmul(shapes: Sequence[Any], out: tuple[int, ...]) -> int | None:
    first, second = (*shapes, None, None)[:2]
    if first:
        return 2 * prod(out) * int(first[-1])
    if second:
        return 2 * prod(out) * int(second[-2] if len(second) > 1 else second[0])
    return None


def _convolution(shapes: Sequence[Any], out: tuple[int, ...]) -> int | None:
    weight = shapes[1] if len(shapes) > 1 else None
    return None if weight is None else 2 * prod(out) * prod(weight[1:])


def products_of(plan: Any) -> bool:
    """Tell whether a call is a product of matrices or a convolution, half of whose operations are multiplications."""
    return plan.primitive.name in _PRODUCTS


def operand_specs(plan: Any, inputs: Sequence[Spec], saved: Sequence[Any] | None) -> list[Spec]:
    """Return the spec of each argument of a call: of a tensor that requires grad, or of an array that was saved."""
    specs = list(inputs)
    for slot, value in zip(plan.slots, saved or (), strict=False):
        if slot.owner not in plan.primitive.tensor_names or value is None:
            continue
        index = plan.primitive.tensor_names.index(slot.owner)
        if index < len(specs) and specs[index] is None:
            if slot.attribute is None and isinstance(value, tuple) and len(value) == 2:
                specs[index] = value
            elif slot.attribute == "shape":
                specs[index] = (value, None)
    return specs


def forward_flops(plan: Any, operands: Sequence[Spec], output: Spec) -> int | None:
    """Return the number of operations of a forward call."""
    if plan is None or output is None:
        return None
    name, shapes = plan.primitive.name, [None if spec is None else spec[0] for spec in operands]
    if name in _PRODUCTS:
        return _PRODUCTS[name](shapes, output[0])
    if isinstance(plan.primitive.function, np.ufunc):
        return prod(output[0])
    if name in _REDUCTIONS and shapes and shapes[0] is not None:
        return prod(shapes[0])
    return 0 if plan.primitive.views else None


def backward_flops(plan: Any, operands: Sequence[Spec], output: Spec) -> int | None:
    """Return the number of operations of the backward of a call whose result has the spec `output`."""
    if plan is None or output is None:
        return None
    name, wanted = plan.primitive.name, [call is not None for call in plan.calls]
    if name in _PRODUCTS:
        forward = forward_flops(plan, operands, output)
        return None if forward is None else forward * sum(wanted[:2])
    if name in _ELEMENTWISE_BACKWARD:
        each = _ELEMENTWISE_BACKWARD[name]
        return prod(output[0]) * sum(count for count, is_wanted in zip(each, wanted, strict=True) if is_wanted)
    return 0 if plan.primitive.views or name == "sum" else None


def bytes_of(specs: Sequence[Spec]) -> int | None:
    """Return the bytes of all arrays whose shapes and dtypes are known; None where none are."""
    known = [prod(shape) * dtype.itemsize for shape, dtype in filter(None, specs) if dtype is not None]
    return sum(known) if known else None
