"""Arrays laid side by side, and cut apart."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ...errors import ArgumentTypeError
from ..arrays.axes import array_like, axis_index
from ..arrays.device_arrays import placed
from ..arrays.device_functions import own_function
from ..arrays.interception import call_intercepted, interceptors
from ..arrays.one_device import mixed_devices
from ..arrays.tensor_base import TensorBase
from ..arrays.values import as_array, check_numbers, is_device_array
from ..graph.leaf import gradient_edge
from ..graph.wrappers import register_wrapper
from ..recording.handwritten_node import HandwrittenNode
from ..recording.primitive import RULES
from ..settings.arguments import must_be
from ..settings.context import GRAD_MODE
from .dispatch import write_result
from .indexing import part
from .shaping import atleast_1d, atleast_2d, atleast_3d, copy, reshape
from .splitting import split_views, unstacked

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..arrays.array import Array


__all__ = [
    "JoinNode",
    "append",
    "array_split",
    "block",
    "column_stack",
    "concatenate",
    "dsplit",
    "dstack",
    "hsplit",
    "hstack",
    "split",
    "stack",
    "unstack",
    "vsplit",
    "vstack",
]

#: A profile of the whole process replaces it: see core/graph/wrappers.py.
_grad_mode = GRAD_MODE.get
register_wrapper(globals())


@final
class JoinNode(HandwrittenNode):
    """The backward of a concatenation or a stack: each array gets its own piece of the gradient.

    A node of its own and no primitive, since it takes any number of arrays. It saves nothing but lengths.

    Args:
        arrays: what was joined; not all of them need be tensors.
        out: the result.
        axis: along which they were joined.
        bounds: where each piece begins, and the last ends; None where the axis is new, as in a stack.
    """

    __slots__ = ("_axis", "_bounds")

    def __init__(self, arrays: Sequence[Any], out: TensorBase, axis: int, bounds: Sequence[int] | None) -> None:
        edges = [gradient_edge(array) if isinstance(array, TensorBase) else None for array in arrays]
        self._connect(edges)
        self.shape, self.dtype, self.device = out._data.shape, out._data.dtype, out._device
        self.meta = None
        self._axis = axis
        self._bounds = bounds

    @property
    def name(self) -> str:
        """The name that errors and drawings show: StackBackward or ConcatenateBackward."""
        return "StackBackward" if self._bounds is None else "ConcatenateBackward"

    def apply(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the gradient of each array that the backward that runs needs."""
        return self.apply_wanted(grads[0], [self.task_should_compute_output(edge) for edge in range(self.num_outputs)])

    def apply_generic(self, g: Any) -> tuple[Any, ...]:
        """Return the gradient of each array that requires grad."""
        return self.apply_wanted(g, [node is not None for node in self.next_nodes])

    def apply_wanted(self, g: Any, wanted: Sequence[bool]) -> tuple[Any, ...]:
        """Return the gradients of the wanted arrays only."""
        if g is None:
            return (None,) * len(self.next_nodes)
        before = (slice(None),) * self._axis
        bounds = self._bounds
        return tuple(
            None if not want else g[(*before, index if bounds is None else slice(bounds[index], bounds[index + 1]))]
            for index, want in enumerate(wanted)
        )


def _joined(arrays: Sequence[Any], data: Any, axis: int, bounds: Sequence[int] | None) -> Any:
    """Return joined data as a tensor with its history; unchanged where none of the arrays is a tensor."""
    template: TensorBase | None = None
    requires_grad = False
    for array in arrays:
        if isinstance(array, TensorBase):
            if template is None:
                template = array
            elif array._device is not template._device:
                raise mixed_devices("stack" if bounds is None else "concatenate", template, array)
            requires_grad = requires_grad or array._requires_grad()
    result = data
    if template is not None:
        check_numbers("stack" if bounds is None else "concatenate", data.dtype, arrays)
        result = type(template)(data, None, 0, template._device)
        mode = _grad_mode()
        if requires_grad and mode and data.dtype.kind in "fc":
            result._grad_fn = JoinNode(arrays, result, axis, bounds)
            if mode is not True:
                mode.created(result._grad_fn)
        elif not mode and mode is not False:
            mode.used(*arrays)
    return result


def _raw(arrays: Sequence[Any]) -> list[Any]:
    return [array._data if isinstance(array, TensorBase) else as_array(array) for array in arrays]


def _refuse_arrays_apart(function: str, axis: object) -> None:
    """Raise if an array stands where the axis does: the arrays were not given as a list."""
    if isinstance(axis, TensorBase):
        write = f"write np.{function}([x, y]), with the arrays in a list"
        raise ArgumentTypeError(must_be(f"axis of numpy.{function}", "an int", axis, write))


def concatenate(
    arrays: Any,
    /,
    axis: int | None = 0,
    out: Any = None,
    *,
    dtype: npt.DTypeLike | None = None,
    casting: Any = "same_kind",
) -> Any:
    """Return the arrays laid side by side along an axis that they have; None makes rows of them first."""
    arrays = list(arrays)
    if axis.__class__ is not int:
        _refuse_arrays_apart("concatenate", axis)
    if axis is None:
        arrays, axis = [reshape(array_like(array), -1) for array in arrays], 0
    raw = _raw(arrays)
    if raw and dtype is None and casting == "same_kind" and is_device_array(raw[0]):
        function = own_function(np.concatenate, raw[0])
        data = call_intercepted("Concatenate", function, raw, axis)
    elif interceptors:
        data = call_intercepted("Concatenate", np.concatenate, raw, axis, dtype=dtype, casting=casting)
    else:
        data = np.concatenate(raw, axis, dtype=dtype, casting=casting)
    if axis < 0:
        axis += data.ndim
    bounds = [0]
    for one in raw:
        bounds.append(bounds[-1] + one.shape[axis])
    result = _joined(arrays, data, axis, bounds)
    return result if out is None else write_result(out, result, casting)


RULES[np.concatenate] = concatenate


def stack(
    arrays: Any, axis: int = 0, out: Any = None, *, dtype: npt.DTypeLike | None = None, casting: Any = "same_kind"
) -> Any:
    """Return arrays of one shape laid side by side along a new axis."""
    arrays = list(arrays)
    if axis.__class__ is not int:
        _refuse_arrays_apart("stack", axis)
    raw = _raw(arrays)
    if interceptors or (raw and is_device_array(raw[0])):
        data = call_intercepted("Stack", np.stack, raw, axis, dtype=dtype, casting=casting)
    else:
        data = np.stack(raw, axis, dtype=dtype, casting=casting)
    result = _joined(arrays, data, axis + data.ndim if axis < 0 else axis, None)
    return result if out is None else write_result(out, result, casting)


RULES[np.stack] = stack


def _each(arrays: Any, at_least: Any) -> list[Any]:
    return [at_least(array) for array in arrays]


def hstack(tup: Any, *, dtype: npt.DTypeLike | None = None, casting: Any = "same_kind") -> Any:
    """Return the arrays laid side by side along their second axis, or the first where it is the only one."""
    arrays = _each(tup, atleast_1d)
    return concatenate(arrays, 0 if arrays and arrays[0].ndim == 1 else 1, dtype=dtype, casting=casting)


def vstack(tup: Any, *, dtype: npt.DTypeLike | None = None, casting: Any = "same_kind") -> Any:
    """Return the arrays laid one under another, rows as matrices of one row."""
    return concatenate(_each(tup, atleast_2d), dtype=dtype, casting=casting)


def dstack(tup: Any) -> Any:
    """Return the arrays laid one behind another, along their third axis."""
    return concatenate(_each(tup, atleast_3d), 2)


def column_stack(tup: Any) -> Any:
    """Return rows laid side by side as columns, and arrays of two axes beside them unchanged."""
    arrays = [array_like(array) for array in tup]
    return concatenate([array if array.ndim > 1 else reshape(array, (-1, 1)) for array in arrays], 1)


def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    """Return `arr` followed by `values` along an axis; None makes rows of both first."""
    if not isinstance(values, (TensorBase, np.ndarray)):
        _, values = placed(arr, values)
    return concatenate((arr, values), axis)


def block(arrays: Any) -> Any:
    """Return nested lists of arrays put together: the innermost along the last axis, and so on outwards."""
    depth = _depth(arrays)
    ndim = max(depth, *(np.ndim(leaf) for leaf in _leaves(arrays)))

    def joined(nested: Any, level: int) -> Any:
        if not isinstance(nested, list):
            leaf = array_like(nested)
            return reshape(leaf, (1,) * (ndim - leaf.ndim) + leaf.shape)
        return concatenate([joined(item, level + 1) for item in nested], level - depth)

    result = joined(arrays, 0)
    return result if isinstance(arrays, list) else copy(result, "C")


def _leaves(nested: Any) -> list[Any]:
    return [leaf for item in nested for leaf in _leaves(item)] if isinstance(nested, list) else [nested]


def _depth(nested: Any) -> int:
    if not isinstance(nested, list):
        return 0
    if not nested:
        raise ValueError("block got an empty list, which has no shape")
    depths = {_depth(item) for item in nested}
    if len(depths) > 1:
        raise ValueError("block got lists of different depths: nest every array equally deep")
    return 1 + depths.pop()


RULES[np.hstack] = hstack
RULES[np.vstack] = vstack
RULES[np.dstack] = dstack
RULES[np.column_stack] = column_stack
RULES[np.append] = append
RULES[np.block] = block


# Cut apart: views of the array.


def _cut_at(ary: Array, indices: Sequence[int], axis: int) -> list[Any]:
    bounds = [0, *indices, ary.shape[axis]]
    if all(start <= stop for start, stop in pairwise(bounds)):
        return split_views(ary, bounds, axis)
    # NumPy takes indices as slices do: from the end, past it, falling. Such pieces may overlap or leave gaps.
    before = (slice(None),) * axis
    return [part(ary, (*before, slice(start, stop))) for start, stop in pairwise(bounds)]


def array_split(ary: Array, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Return views of the parts along an axis: a number of nearly equal ones, or those between indices."""
    axis = axis_index(axis, ary.ndim)
    length = ary.shape[axis]
    if np.ndim(indices_or_sections):
        return _cut_at(ary, [int(index) for index in indices_or_sections], axis)
    sections = int(indices_or_sections)
    if sections <= 0:
        raise ValueError(f"an array is split into one part or more, not {sections}")
    size, longer = divmod(length, sections)
    return split_views(ary, [index * size + min(index, longer) for index in range(sections + 1)], axis)


def split(ary: Array, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Return views of equal parts along an axis, or of those between indices."""
    if np.ndim(indices_or_sections):
        return array_split(ary, indices_or_sections, axis)
    sections, place = int(indices_or_sections), axis_index(axis, ary.ndim)
    length = ary.shape[place]
    if sections > 0 and length % sections:
        raise ValueError(
            f"axis {place} of length {length} does not split into {sections} equal parts: "
            "np.array_split makes parts as equal as can be"
        )
    return array_split(ary, sections, place)


def _needs_axes(ary: Array, count: int, name: str) -> None:
    if ary.ndim < count:
        raise ValueError(f"{name} needs at least {count} {'axis' if count == 1 else 'axes'}, not {ary.ndim}")


def hsplit(ary: Array, indices_or_sections: Any) -> list[Any]:
    """Return views of the parts along the second axis, or the first where it is the only one."""
    _needs_axes(ary, 1, "hsplit")
    return split(ary, indices_or_sections, 1 if ary.ndim > 1 else 0)


def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Return views of the parts along the first axis."""
    _needs_axes(ary, 2, "vsplit")
    return split(ary, indices_or_sections, 0)


def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Return views of the parts along the third axis."""
    _needs_axes(ary, 3, "dsplit")
    return split(ary, indices_or_sections, 2)


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """Return views of the subarrays along an axis."""
    if x.ndim == 0:
        raise ValueError("unstack needs at least one axis, and this tensor has none")
    axis = axis_index(axis, x.ndim)
    return tuple(unstacked(np.moveaxis(x, axis, 0) if axis else x))


RULES[np.array_split] = array_split
RULES[np.split] = split
RULES[np.hsplit] = hsplit
RULES[np.vsplit] = vsplit
RULES[np.dsplit] = dsplit
RULES[np.unstack] = unstack
