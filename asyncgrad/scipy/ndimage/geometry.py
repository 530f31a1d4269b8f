"""Images between their elements: splines through them, evaluated at other coordinates.

A result is linear in the image, and a piecewise polynomial of the coordinates. The slope of a linear spline at an
element is that of the piece after it, and at the last one that of the piece before: into the image at both ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import ndimage, special

from ...core.arrays.axes import axis_index, axis_tuple
from ...core.arrays.values import raw
from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError
from ..arguments import floating
from .by_scipy import preferring

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = [
    "affine_transform",
    "geometric_transform",
    "map_coordinates",
    "rotate",
    "shift",
    "spline_filter",
    "spline_filter1d",
    "zoom",
]

_MODES = ("reflect", "grid-mirror", "mirror", "nearest", "constant", "grid-constant", "wrap", "grid-wrap")
#: Beyond the ends, so many copies of the last element, or of the constant, are part of the spline.
_EDGE = 12


def spline_filter1d(
    input: Any, order: int = 3, axis: int = -1, output: Any = np.float64, mode: str = "mirror"
) -> Tensor:
    """Return the coefficients of the spline through the elements along an axis.

    Args:
        input: the image.
        order: of the spline, 0 to 5.
        axis: along which the spline runs.
        output: the dtype of the result.
        mode: what lies beyond the ends.

    Source: scipy.ndimage.spline_filter1d.
    """
    image = _coefficients_of(input, output)
    axis = axis_index(axis, image.ndim)
    length = image.shape[axis]
    if order in (0, 1) or length == 1:
        return image
    # SciPy's filter runs along the axis. It is linear: its matrix is what it makes of the identity.
    matrix = ndimage.spline_filter1d(np.eye(length), order, 0, mode=mode).astype(image.real.dtype, copy=False)
    return np.moveaxis(np.tensordot(matrix, image, (1, axis)), 0, axis)


def spline_filter(input: Any, order: int = 3, output: Any = np.float64, mode: str = "mirror") -> Tensor:
    """Return the coefficients of the spline through the elements of an image.

    Args:
        input: the image.
        order: of the spline, 2 to 5.
        output: the dtype of the result.
        mode: what lies beyond the borders.

    Source: scipy.ndimage.spline_filter.
    """
    if order not in (2, 3, 4, 5):
        raise ValueError(f"scipy.ndimage.spline_filter takes an order of 2 to 5, not {order}")
    image = _coefficients_of(input, output)
    for axis in range(image.ndim):
        image = spline_filter1d(image, order, axis, output, mode)
    return image


def _coefficients_of(input: Any, output: Any) -> Any:
    """Return an image in the dtype of its spline's coefficients, which are complex where it is, as SciPy's are."""
    image, dtype = floating(input), np.dtype(output)
    if image.dtype.kind == "c" and dtype.kind != "c":
        dtype = np.promote_types(dtype, np.complex64)
    return image.astype(dtype, copy=False)


def _prepared(name: str, image: Any, order: int, mode: str, cval: float, prefilter: bool) -> tuple[Any, int]:
    """Return the coefficients of the spline through an image, and by how much coordinates are moved in them.

    For the mode grid-constant they are those of the image less the constant, which is 0 beyond the ends.

    Raises:
        ArgumentError: there is no such mode here.
        ValueError: there is no such order.
    """
    if mode not in _MODES:
        raise ArgumentError(f"asyncgrad.scipy.ndimage.{name} has the modes {', '.join(_MODES)}, not {mode!r}")
    if order not in range(6):
        raise ValueError(f"scipy.ndimage.{name} takes an order of 0 to 5, not {order}")
    if mode == "grid-constant" and cval:
        image = image - cval
    if order < 2 or not prefilter:
        return image, 0
    moved = 0
    if mode == "grid-constant":
        image, moved = np.pad(image, _EDGE), _EDGE
    if mode == "nearest":
        image, moved = np.pad(image, _EDGE, mode="edge"), _EDGE
    return spline_filter(image, order, image.dtype, mode), moved


def _mapped(coordinates: Any, length: int, mode: str) -> tuple[Any, Any]:
    """Return coordinates along an axis brought into the image, and where they lie beyond it, for the mode constant."""
    where = raw(coordinates)
    outside = np.zeros(where.shape, bool)
    sign: Any = np.ones_like(where)
    if mode == "constant":
        outside = ~((where >= 0) & (where <= length - 1))
        return np.where(outside, 0.0, coordinates), outside
    if mode in ("nearest", "grid-constant"):
        # The elements that count beyond the ends are copies of the last one, or the constant.
        return coordinates, outside
    if mode == "mirror":
        period = max(2 * (length - 1), 1)
        # Of a negative coordinate no digit is lost, as in SciPy.
        rest = np.abs(where) % period
        # Between the last element and the next, only a negative one is mirrored: halves are rounded upwards after it.
        is_back = np.where(where < 0, rest > length - 1, rest >= length)
        sign = np.where(is_back ^ (where < 0), -1.0, 1.0)
        found = np.where(is_back, period - rest, rest) * (length > 1)
    elif mode in ("reflect", "grid-mirror"):
        rest = (where + 0.5) % (2 * length)
        sign = np.where(rest >= length, -1.0, 1.0)
        found = np.where(rest >= length, 2 * length - rest, rest) - 0.5
    else:
        period = length if mode == "grid-wrap" else max(length - 1, 1)
        is_inside = (where >= 0) & (where <= length - 1)
        found = np.where(is_inside, where, where % period)
    # The value is `found` to the last digit, which decides between two elements for a spline of order 0.
    return found + sign * (coordinates - where), outside


def _folded(places: Any, length: int, mode: str) -> Any:
    """Return indices of elements that may lie beyond the ends as indices of those that stand there."""
    if length == 1:
        return np.zeros_like(places)
    if mode == "grid-wrap":
        return places % length
    if mode in ("nearest", "grid-constant"):
        return np.clip(places, 0, length - 1)
    if mode in ("reflect", "grid-mirror"):
        rest = places % (2 * length)
        return np.where(rest >= length, 2 * length - 1 - rest, rest)
    rest = places % (2 * (length - 1))
    return np.where(rest >= length, 2 * (length - 1) - rest, rest)


def _basis(coordinates: Any, order: int, length: int, mode: str) -> tuple[Any, Any]:
    """Return the indices of the elements that count at coordinates, and their weights, both of shape (order + 1, ...).

    Source: the recursion of Cox and de Boor for evenly spaced knots.
    """
    half = 0.0 if order % 2 else 0.5
    start = np.floor(raw(coordinates) + half)
    if order % 2 and mode != "grid-wrap" and length > 1:
        # At the last element the piece before it: that after it is of the other side, with the opposite slope where it
        # is mirrored (test_the_slope_at_the_last_element_is_that_of_the_image_before_it). A periodic image has no end.
        start = np.where(raw(coordinates) == length - 1, length - 2, start)
    numbers = start.astype(int) - order // 2 + np.arange(order + 1).reshape((-1,) + (1,) * start.ndim)
    places = _folded(numbers, length, mode)
    # Beyond the ends stands the constant, which is subtracted.
    counts = (numbers >= 0) & (numbers < length) if mode == "grid-constant" else 1.0
    if order == 0:
        return places, np.ones((1, *start.shape)) * counts
    u = coordinates + half - start
    weights: list[Any] = [1.0]
    for degree in range(1, order + 1):
        before, after = [0.0, *weights], [*weights, 0.0]
        weights = [
            (degree - index + u) / degree * before[index] + (index + 1 - u) / degree * after[index]
            for index in range(degree + 1)
        ]
    found = np.stack(weights)
    return places, found * counts if mode == "grid-constant" else found


def _with_constant(result: Any, outside: Any, mode: str, cval: float) -> Any:
    """Return values of a spline, with the constant where they are outside; and back, where `_prepared` took it away."""
    result = np.where(outside, cval, result) if outside.any() else result
    return result + cval if mode == "grid-constant" and cval else result


def map_coordinates(
    input: Any,
    coordinates: Any,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: float = 0.0,
    prefilter: bool = True,
) -> Tensor:
    """Return the values of the spline through an image at coordinates.

    Args:
        input: the image, of n axes.
        coordinates: shape (n, ...), in elements.
        output: the dtype of the result; None for that of the image.
        order: of the spline, 0 to 5.
        mode: what lies beyond the borders: "constant", "grid-constant", "nearest", "mirror", "reflect", "grid-wrap" or
            "wrap".
        cval: the constant.
        prefilter: False if `input` holds the coefficients of the spline.

    Returns:
        A Tensor of the shape of the coordinates without their first axis.

    Source: scipy.ndimage.map_coordinates.

    Example:
        >>> from asyncgrad.scipy import ndimage
        >>> ndimage.map_coordinates([[0.0, 1.0], [2.0, 3.0]], [[0.5], [0.5]], order=1).tolist()
        [1.5]
    """
    image, where = floating(input), floating(coordinates)
    dtype = image.dtype if output is None else np.dtype(output)
    if where.ndim < 1 or where.shape[0] != image.ndim:
        raise ValueError(
            f"scipy.ndimage.map_coordinates takes coordinates of shape ({image.ndim}, ...) for an image of shape "
            f"{image.shape}, not {where.shape}"
        )
    coefficients, moved = _prepared("map_coordinates", image, order, mode, cval, prefilter)
    count = image.ndim
    every: Any = np.zeros(where.shape[1:], bool)
    places, weights = [], []
    for axis in range(count):
        length = coefficients.shape[axis]
        one, outside = _mapped(where[axis] + moved, length, mode)
        every = every | outside
        place, weight = _basis(one, order, length, mode)
        shape = [-1 if other == axis else 1 for other in range(count)]
        places.append(place.reshape((*shape, *every.shape)))
        weights.append(weight)
    result = coefficients[tuple(places)]
    for weight in weights:
        result = np.sum(result * weight.reshape((order + 1, *(1,) * (result.ndim - weight.ndim), *every.shape)), 0)
    result = _with_constant(result, every, mode, cval)
    return result.astype(dtype, copy=False)


def geometric_transform(
    input: Any,
    mapping: Callable[..., Sequence[Any]],
    output_shape: Sequence[int] | None = None,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: float = 0.0,
    prefilter: bool = True,
    extra_arguments: tuple[Any, ...] = (),
    extra_keywords: dict[str, Any] | None = None,
) -> Tensor:
    """Return an image whose elements are those of another at places that a function tells.

    It is called for one element after another: `map_coordinates`, which takes all places at once, is much faster.

    Args:
        input: the image, of n axes.
        mapping: takes the indices of an element, a tuple, and returns the n coordinates in `input`, numbers or tensors.
        output_shape: of the result; None for that of the image.
        output: as for `map_coordinates`.
        order: as for `map_coordinates`.
        mode: as for `map_coordinates`.
        cval: as for `map_coordinates`.
        prefilter: as for `map_coordinates`.
        extra_arguments: passed on to `mapping`; tensors among them have gradients.
        extra_keywords: passed on to it by keyword.

    Source: scipy.ndimage.geometric_transform.
    """
    image = asarray(input)
    shape = image.shape if output_shape is None else tuple(output_shape)
    if not image.ndim or not shape:
        raise ValueError("scipy.ndimage.geometric_transform takes an image, and an output_shape, of one axis or more")
    keywords = extra_keywords or {}
    places = [
        np.stack([floating(one) for one in mapping(at, *extra_arguments, **keywords)]) for at in np.ndindex(shape)
    ]
    if not places:
        return asarray(np.empty(shape, image.dtype))
    where = np.stack(places, -1).reshape((-1, *shape))
    # Whole numbers, and dtypes that are asked for, are SciPy's.
    by_places = preferring(map_coordinates, ndimage.map_coordinates)
    return by_places(input, where, output, order, mode, cval, prefilter)


def _on_lines(
    name: str, image: Array, lines: Sequence[Any], order: int, mode: str, cval: float, prefilter: bool
) -> Any:
    """Return the values of the spline at a grid of coordinates, given those along each axis."""
    coefficients, moved = _prepared(name, image, order, mode, cval, prefilter)
    every: Any = np.zeros((1,) * image.ndim, bool)
    result = coefficients
    for axis, line in enumerate(lines):
        length = coefficients.shape[axis]
        one, outside = _mapped(line + moved, length, mode)
        place, weight = _basis(one, order, length, mode)
        taken = np.moveaxis(result, axis, 0)[place]
        result = np.moveaxis(np.sum(taken * weight.reshape((*weight.shape, *(1,) * (image.ndim - 1))), 0), 0, axis)
        every = every | outside.reshape([-1 if other == axis else 1 for other in range(image.ndim)])
    result = _with_constant(result, every, mode, cval)
    return result.astype(image.dtype, copy=False)


def shift(
    input: Any,
    shift: Any,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: float = 0.0,
    prefilter: bool = True,
) -> Tensor:
    """Return an image moved along its axes.

    Args:
        input: the image.
        shift: by how many elements, along all axes or along each; Tensors get gradients.
        output: the dtype of the result; None for that of the image.
        order: as for `map_coordinates`.
        mode: as for `map_coordinates`.
        cval: as for `map_coordinates`.
        prefilter: as for `map_coordinates`.

    Source: scipy.ndimage.shift.
    """
    image = _in_dtype(input, output)
    steps = floating(shift)
    steps = np.broadcast_to(steps, (image.ndim,)) if steps.ndim == 0 else steps
    if steps.shape != (image.ndim,):
        raise ValueError(f"scipy.ndimage.shift takes one number or {image.ndim}, not the shape {steps.shape}")
    lines = [np.arange(float(length)) - steps[axis] for axis, length in enumerate(image.shape)]
    return _on_lines("shift", image, lines, order, mode, cval, prefilter)


def zoom(
    input: Any,
    zoom: Any,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: float = 0.0,
    prefilter: bool = True,
    *,
    grid_mode: bool = False,
) -> Tensor:
    """Return an image at another size.

    Args:
        input: the image.
        zoom: the factor by which lengths grow, along all axes or along each.
        output: the dtype of the result; None for that of the image.
        order: as for `map_coordinates`.
        mode: as for `map_coordinates`.
        cval: as for `map_coordinates`.
        prefilter: as for `map_coordinates`.
        grid_mode: whether a length is that of all elements, rather than the distance of the centres of the outer ones.

    Source: scipy.ndimage.zoom.
    """
    image = _in_dtype(input, output)
    factors = list(zoom) if np.ndim(zoom) else [zoom] * image.ndim
    if len(factors) != image.ndim:
        raise ValueError(f"scipy.ndimage.zoom takes one factor or {image.ndim}, not {len(factors)}")
    lines = []
    for length, factor in zip(image.shape, factors, strict=True):
        count = round(length * float(raw(factor)))
        if grid_mode:
            line = (np.arange(count) + 0.5) * (length / max(count, 1)) - 0.5
        else:
            # The last coordinate is not to lie beyond the last element by a rounding error.
            line = np.minimum(np.arange(count) * ((length - 1) / max(count - 1, 1)), length - 1)
        lines.append(line)
    return _on_lines("zoom", image, lines, order, mode, cval, prefilter)


def affine_transform(
    input: Any,
    matrix: Any,
    offset: Any = 0.0,
    output_shape: Sequence[int] | None = None,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: float = 0.0,
    prefilter: bool = True,
) -> Tensor:
    """Return an image whose element at o is that of the input at `matrix @ o + offset`.

    Args:
        input: the image, of n axes.
        matrix: shape (n, n), or (n,) for a diagonal one, or (n + 1, n + 1) or (n, n + 1) with the offset in its last
            column, or (n, m) for a result of m axes. A Tensor gets a gradient, and so does the offset.
        offset: a number, or shape (n,).
        output_shape: of the result; None for that of the image.
        output: the dtype of the result; None for that of the image.
        order: as for `map_coordinates`.
        mode: as for `map_coordinates`.
        cval: as for `map_coordinates`.
        prefilter: as for `map_coordinates`.

    Source: scipy.ndimage.affine_transform.
    """
    image, matrix = floating(input), floating(matrix)
    count = image.ndim
    shape = image.shape if output_shape is None else tuple(output_shape)
    if matrix.ndim == 2 and matrix.shape[1] == count + 1:
        if matrix.shape[0] == count + 1 and not np.array_equal(raw(matrix)[count], [0] * count + [1]):
            raise ValueError(
                f"scipy.ndimage.affine_transform takes a matrix of shape {matrix.shape} with the last row "
                f"{[0] * count + [1]}, not {raw(matrix)[count].tolist()}"
            )
        matrix, offset = matrix[:count, :count], matrix[:count, count]
    if matrix.shape != (count, len(shape)) and (matrix.shape != (count,) or len(shape) != count):
        raise ValueError(
            f"scipy.ndimage.affine_transform takes a matrix from {len(shape)} axes to {count}, not of shape "
            f"{matrix.shape}"
        )
    grid = np.indices(shape, float).reshape(len(shape), -1)
    turned = matrix[:, np.newaxis] * grid if matrix.ndim == 1 else matrix @ grid
    moved = np.broadcast_to(floating(offset), (count,))
    where = (turned + moved[:, np.newaxis]).reshape((count, *shape))
    return map_coordinates(image, where, output, order, mode, cval, prefilter)


def rotate(
    input: Any,
    angle: Any,
    axes: tuple[int, int] = (1, 0),
    reshape: bool = True,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: float = 0.0,
    prefilter: bool = True,
) -> Tensor:
    """Return an image turned in the plane of two axes.

    Args:
        input: the image.
        angle: in degrees; a Tensor gets a gradient.
        axes: the two.
        reshape: whether the result is as large as it takes to hold all of the image.
        output: the dtype of the result; None for that of the image.
        order: as for `map_coordinates`.
        mode: as for `map_coordinates`.
        cval: as for `map_coordinates`.
        prefilter: as for `map_coordinates`.

    Source: scipy.ndimage.rotate.
    """
    image = floating(input)
    first, second = sorted(axis_tuple(axes, image.ndim))
    # Exactly 0 and 1 at right angles, where a rest of 1e-17 would move pixels out of the image.
    cosine, sine = special.cosdg(floating(angle)), special.sindg(floating(angle))
    turned = np.stack([np.stack([cosine, sine]), np.stack([-sine, cosine])])
    plane = np.array([image.shape[first], image.shape[second]])
    size = plane
    if reshape:
        corners = raw(turned) @ np.array([[0, 0, plane[0], plane[0]], [0, plane[1], 0, plane[1]]])
        size = (np.ptp(corners, axis=1) + 0.5).astype(int)
    offset = (plane - 1) / 2 - turned @ ((size - 1) / 2)
    shape = list(image.shape)
    shape[first], shape[second] = int(size[0]), int(size[1])
    grid = np.indices((shape[first], shape[second]), float).reshape(2, -1)
    places = (turned @ grid + offset[:, np.newaxis]).reshape((2, shape[first], shape[second]))
    where: list[Any] = list(np.indices(shape, float))
    spread = [length if axis in (first, second) else 1 for axis, length in enumerate(shape)]
    for number, axis in enumerate((first, second)):
        where[axis] = np.broadcast_to(places[number].reshape(spread), shape)
    return map_coordinates(image, np.stack(where), output, order, mode, cval, prefilter)


def _in_dtype(input: Any, output: Any) -> Any:
    image = floating(input)
    return image if output is None else image.astype(output, copy=False)
