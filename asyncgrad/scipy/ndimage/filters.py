"""Linear filters of images of any number of axes, and what is made of them.

An image is first continued beyond its borders, and then correlated with weights where these fit in wholly. Both steps
are linear; the transpose of the second is a correlation again, with the weights reversed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import ndimage

from ...core.arrays.axes import axis_index, axis_tuple
from ...core.arrays.values import raw
from ...core.recording.primitive import derivative, primitive
from ...core.settings.arguments import must_be
from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError
from ..arguments import floating

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = [
    "convolve",
    "convolve1d",
    "correlate",
    "correlate1d",
    "gaussian_filter",
    "gaussian_filter1d",
    "gaussian_gradient_magnitude",
    "gaussian_laplace",
    "generic_gradient_magnitude",
    "generic_laplace",
    "laplace",
    "prewitt",
    "sobel",
    "uniform_filter",
    "uniform_filter1d",
]

#: SciPy's names of what lies beyond the borders, and NumPy's names of the same.
BORDERS = {
    "reflect": "symmetric",
    "grid-mirror": "symmetric",
    "mirror": "reflect",
    "nearest": "edge",
    "constant": "constant",
    "grid-constant": "constant",
    "wrap": "wrap",
    "grid-wrap": "wrap",
}


def continued(name: str, image: Any, widths: Sequence[tuple[int, int]], mode: str, cval: Any) -> Any:
    """Return an image with a border around it.

    Args:
        name: of the function, for the error.
        image: an array.
        widths: of the border before and after each axis.
        mode: SciPy's name of what it holds.
        cval: the constant.

    Raises:
        ValueError: there is no such mode.
    """
    if mode not in BORDERS:
        raise ValueError(f"scipy.ndimage.{name} takes mode {', '.join(map(repr, BORDERS))}, not {mode!r}")
    if not any(map(any, widths)):
        return image
    border: Any = BORDERS[mode]
    return np.pad(image, widths, constant_values=cval) if border == "constant" else np.pad(image, widths, mode=border)


@primitive(superlinear=True)
def correlate_(image: Array, weights: Array) -> Any:
    """Return the sums of products of an image and weights where these fit in wholly, in the dtype of the image."""
    # SciPy conjugates complex weights, and these are not.
    whole = ndimage.correlate(image, np.conj(weights) if weights.dtype.kind == "c" else weights, mode="constant")
    starts = [length // 2 for length in weights.shape]
    parts = [
        slice(start, start + size - length + 1)
        for start, size, length in zip(starts, image.shape, weights.shape, strict=True)
    ]
    return whole[tuple(parts)]


@derivative(correlate_, "image")
def _(g: Array, weights: Array) -> Array:
    return correlate_.call(np.pad(g, [(length - 1, length - 1) for length in weights.shape]), np.flip(weights))


@derivative(correlate_, "weights")
def _(g: Array, image: Any) -> Array:
    return correlate_.call(image, g)


def _origins(origin: Any, ndim: int) -> tuple[int, ...]:
    origins = tuple(origin) if np.ndim(origin) else (int(origin),) * ndim
    if len(origins) != ndim:
        raise ValueError(f"there must be one origin for each of {ndim} axes, not {len(origins)}")
    return origins


def _correlated(name: str, image: Array, weights: Array, mode: str, cval: Any, origins: Sequence[int]) -> Any:
    """Return the correlation with weights of as many axes as the image, of its shape."""
    if weights.ndim != image.ndim or not weights.size:
        raise ValueError(
            f"scipy.ndimage.{name} takes weights with as many axes as the image, not shapes {weights.shape} and "
            f"{image.shape}"
        )
    widths = []
    for length, origin in zip(weights.shape, origins, strict=True):
        before = length // 2 + origin
        if not 0 <= before < length:
            raise ValueError(f"scipy.ndimage.{name} takes an origin within the weights, not {origin} of {length}")
        widths.append((before, length - 1 - before))
    if not image.size:
        return image
    return correlate_.call(continued(name, image, widths, mode, cval), weights)


def _image(input: Any, output: Any) -> Any:
    """Return an image as a tensor, in the dtype that is asked for."""
    image = floating(input)
    if output is None:
        return image
    try:
        dtype = np.dtype(output)
    except TypeError:
        raise ArgumentError(must_be("output", "a dtype, an array or a tensor", output, "or leave it out")) from None
    return image.astype(dtype, copy=False)


def _check_cval(name: str, input: Any, cval: Any) -> None:
    if np.iscomplexobj(cval) and not np.iscomplexobj(raw(input)):
        raise ValueError(f"scipy.ndimage.{name} takes a complex cval for a complex image alone: not {cval!r}")


def correlate(
    input: Any,
    weights: Any,
    output: Any = None,
    mode: str = "reflect",
    cval: float = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Tensor:
    """Return the correlation of an image with weights, of the shape of the image.

    Args:
        input: the image.
        weights: an array with as many axes, or with one for each of `axes`.
        output: the dtype of the result; None for that of the image.
        mode: what lies beyond the borders: "reflect", "mirror", "nearest", "wrap" or "constant".
        cval: the constant.
        origin: by how much the middle of the weights is moved, along all axes or along each.
        axes: those of the weights; None for all.

    Source: scipy.ndimage.correlate.

    Example:
        >>> from asyncgrad.scipy import ndimage
        >>> ndimage.correlate([1.0, 2.0, 4.0], [1.0, 0.0, -1.0]).tolist()
        [-1.0, -3.0, -2.0]
    """
    _check_cval("correlate", input, cval)
    image, weights = _image(input, output), floating(weights)
    weights, origin = _along_axes(image, weights, origin, axes)
    return _correlated("correlate", image, _conjugate(weights), mode, cval, _origins(origin, image.ndim))


def _conjugate(weights: Array) -> Any:
    return np.conjugate(weights) if weights.dtype.kind == "c" else weights


def _along_axes(image: Array, weights: Array, origin: Any, axes: Any) -> tuple[Any, Any]:
    """Return weights with as many axes as the image, of length 1 where they are not among `axes`, and the origins.

    Origins are in the order of `axes`, weights in that of the image, as SciPy's are.
    """
    if axes is None:
        return weights, origin
    chosen = axis_tuple(axes, image.ndim)
    if weights.ndim != len(chosen):
        raise ValueError(f"there must be weights with {len(chosen)} axes, not of shape {weights.shape}")
    origins = dict(zip(chosen, _origins(origin, len(chosen)), strict=True))
    lengths = dict(zip(sorted(chosen), weights.shape, strict=True))
    shape = [lengths.get(axis, 1) for axis in range(image.ndim)]
    return weights.reshape(shape), [origins.get(axis, 0) for axis in range(image.ndim)]


def convolve(
    input: Any,
    weights: Any,
    output: Any = None,
    mode: str = "reflect",
    cval: float = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Tensor:
    """Return the convolution of an image with weights, of the shape of the image.

    Args:
        input: the image.
        weights: an array with as many axes.
        output: as for `correlate`.
        mode: as for `correlate`.
        cval: as for `correlate`.
        origin: as for `correlate`.
        axes: as for `correlate`.

    Source: scipy.ndimage.convolve.
    """
    _check_cval("convolve", input, cval)
    image, weights = _image(input, output), floating(weights)
    weights, origin = _along_axes(image, weights, origin, axes)
    # An even number of weights has two middles; reversed, the other one is meant.
    origins = [
        -one - (length % 2 == 0) for one, length in zip(_origins(origin, image.ndim), weights.shape, strict=False)
    ]
    return _correlated("convolve", image, np.flip(weights), mode, cval, origins)


def correlate1d(
    input: Any,
    weights: Any,
    axis: int = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: float = 0.0,
    origin: int = 0,
) -> Tensor:
    """Return the correlation of an image with weights along an axis.

    Args:
        input: the image.
        weights: shape (n,).
        axis: along which it is correlated.
        output: as for `correlate`.
        mode: as for `correlate`.
        cval: as for `correlate`.
        origin: as for `correlate`.

    Source: scipy.ndimage.correlate1d.
    """
    _check_cval("correlate1d", input, cval)
    image = _image(input, output)
    axis = axis_index(axis, image.ndim)
    origins = [origin if one == axis else 0 for one in range(image.ndim)]
    weights = _conjugate(_along(floating(weights), axis, image.ndim))
    return _correlated("correlate1d", image, weights, mode, cval, origins)


def convolve1d(
    input: Any,
    weights: Any,
    axis: int = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: float = 0.0,
    origin: int = 0,
) -> Tensor:
    """Return the convolution of an image with weights along an axis.

    Args:
        input: the image.
        weights: shape (n,).
        axis: along which it is convolved.
        output: as for `correlate`.
        mode: as for `correlate`.
        cval: as for `correlate`.
        origin: as for `correlate`.

    Source: scipy.ndimage.convolve1d.
    """
    weights = _conjugate(floating(weights))
    return correlate1d(input, np.flip(weights), axis, output, mode, cval, -origin - (weights.size % 2 == 0))


def _along(weights: Array, axis: int, ndim: int) -> Any:
    if weights.ndim != 1 or not weights.size:
        raise ValueError(f"weights along an axis must have the shape (n,), n > 0, not {weights.shape}")
    return weights.reshape([-1 if one == axis else 1 for one in range(ndim)])


# Filters along one axis after another.


def _each_axis(value: Any, count: int) -> list[Any]:
    values = list(value) if not isinstance(value, str) and np.ndim(value) else [value] * count
    if len(values) != count:
        raise ValueError(f"there must be one value for each of {count} axes, not {len(values)}")
    return values


def gaussian_filter1d(
    input: Any,
    sigma: float,
    axis: int = -1,
    order: int = 0,
    output: Any = None,
    mode: str = "reflect",
    cval: float = 0.0,
    truncate: float = 4.0,
    *,
    radius: int | None = None,
) -> Tensor:
    """Return an image smoothed by a Gaussian along an axis, or the derivative of that.

    Args:
        input: the image.
        sigma: the standard deviation of the Gaussian; a Tensor gets a gradient.
        axis: along which it is filtered.
        order: of the derivative.
        output: as for `correlate`.
        mode: as for `correlate`.
        cval: as for `correlate`.
        truncate: at how many standard deviations the Gaussian is cut off.
        radius: at how many elements, instead.

    Source: scipy.ndimage.gaussian_filter1d.
    """
    reach = int(truncate * float(raw(sigma)) + 0.5) if radius is None else radius
    if reach < 0 or int(reach) != reach:
        raise ValueError(f"scipy.ndimage.gaussian_filter1d takes a radius of at least 0, not {reach}")
    weights = np.flip(_gaussian_weights(sigma, order, int(reach)))
    image = _image(input, output)
    return correlate1d(image, weights.astype(image.real.dtype, copy=False), axis, None, mode, cval)


def _gaussian_weights(sigma: Any, order: int, reach: int) -> Any:
    """Return a Gaussian, whose sum is 1, or its derivative, at whole numbers."""
    if order < 0:
        raise ValueError(f"scipy.ndimage.gaussian_filter1d takes an order of at least 0, not {order}")
    places = np.arange(-reach, reach + 1)
    variance = floating(sigma) ** 2
    bell = np.exp(-0.5 / variance * places**2)
    bell = bell / np.sum(bell)
    # Each derivative of p(x) * bell(x) is (p'(x) - p(x) * x / variance) * bell(x).
    coefficients: list[Any] = [1.0]
    for _ in range(order):
        slopes = [*(power * one for power, one in enumerate(coefficients) if power), 0.0, 0.0]
        shifted = [0.0, *(-one / variance for one in coefficients)]
        coefficients = [one + other for one, other in zip(slopes, shifted, strict=True)]
    polynomial: Any = 0.0
    for power, one in enumerate(coefficients):
        polynomial = polynomial + one * places**power
    return bell * polynomial


def gaussian_filter(
    input: Any,
    sigma: Any,
    order: Any = 0,
    output: Any = None,
    mode: Any = "reflect",
    cval: float = 0.0,
    truncate: float = 4.0,
    *,
    radius: Any = None,
    axes: Any = None,
) -> Tensor:
    """Return an image smoothed by a Gaussian, or the derivative of that.

    Args:
        input: the image.
        sigma: the standard deviation, for all axes or for each; Tensors get gradients.
        order: of the derivative, for all axes or for each.
        output: as for `correlate`.
        mode: as for `correlate`, for all axes or for each.
        cval: as for `correlate`.
        truncate: at how many standard deviations the Gaussian is cut off.
        radius: at how many elements, instead, for all axes or for each.
        axes: those that are filtered; None for all.

    Source: scipy.ndimage.gaussian_filter.

    Example:
        >>> from asyncgrad.scipy import ndimage
        >>> ndimage.gaussian_filter([0.0, 1.0, 0.0], 1.0, radius=1).numpy().round(3).tolist()
        [0.274, 0.452, 0.274]
    """
    image = _image(input, output)
    chosen = range(image.ndim) if axes is None else axis_tuple(axes, image.ndim)
    count = len(chosen)
    options = zip(
        chosen,
        _each_axis(sigma, count),
        _each_axis(order, count),
        _each_axis(mode, count),
        _each_axis(radius, count),
        strict=True,
    )
    for axis, width, degree, border, reach in options:
        if float(raw(width)) > 1e-15:
            image = gaussian_filter1d(image, width, axis, degree, None, border, cval, truncate, radius=reach)
    return image


def uniform_filter1d(
    input: Any, size: int, axis: int = -1, output: Any = None, mode: str = "reflect", cval: float = 0.0, origin: int = 0
) -> Tensor:
    """Return the means of windows of an image along an axis.

    Args:
        input: the image.
        size: of a window.
        axis: along which it is filtered.
        output: as for `correlate`.
        mode: as for `correlate`.
        cval: as for `correlate`.
        origin: as for `correlate`.

    Source: scipy.ndimage.uniform_filter1d.
    """
    if size < 1:
        raise ValueError(f"scipy.ndimage.uniform_filter1d takes a size of at least 1, not {size}")
    image = _image(input, output)
    return correlate1d(image, np.full(size, 1 / size, image.real.dtype), axis, None, mode, cval, origin)


def uniform_filter(
    input: Any,
    size: Any = 3,
    output: Any = None,
    mode: Any = "reflect",
    cval: float = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Tensor:
    """Return the means of windows of an image.

    Args:
        input: the image.
        size: of a window, for all axes or for each.
        output: as for `correlate`.
        mode: as for `correlate`, for all axes or for each.
        cval: as for `correlate`.
        origin: as for `correlate`, for all axes or for each.
        axes: those that are filtered; None for all.

    Source: scipy.ndimage.uniform_filter.
    """
    image = _image(input, output)
    chosen = range(image.ndim) if axes is None else axis_tuple(axes, image.ndim)
    count = len(chosen)
    options = zip(chosen, _each_axis(size, count), _each_axis(mode, count), _each_axis(origin, count), strict=True)
    for axis, length, border, moved in options:
        if length > 1:
            image = uniform_filter1d(image, int(length), axis, None, border, cval, moved)
    return image


def _edges(input: Any, axis: int, output: Any, mode: Any, cval: float, across: list[float]) -> Any:
    image = _image(input, output)
    axis = axis_index(axis, image.ndim)
    modes = _each_axis(mode, image.ndim)
    image = correlate1d(image, np.array([-1, 0, 1], image.dtype), axis, None, modes[axis], cval)
    for other in range(image.ndim):
        if other != axis:
            image = correlate1d(image, np.array(across, image.dtype), other, None, modes[other], cval)
    return image


def sobel(input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: float = 0.0) -> Tensor:
    """Return the slopes of an image along an axis, by Sobel's weights.

    Args:
        input: the image.
        axis: along which it is differentiated.
        output: as for `correlate`.
        mode: as for `correlate`, for all axes or for each.
        cval: as for `correlate`.

    Source: scipy.ndimage.sobel.
    """
    return _edges(input, axis, output, mode, cval, [1.0, 2.0, 1.0])


def prewitt(input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: float = 0.0) -> Tensor:
    """Return the slopes of an image along an axis, by Prewitt's weights.

    Args:
        input: the image.
        axis: along which it is differentiated.
        output: as for `correlate`.
        mode: as for `correlate`, for all axes or for each.
        cval: as for `correlate`.

    Source: scipy.ndimage.prewitt.
    """
    return _edges(input, axis, output, mode, cval, [1.0, 1.0, 1.0])


def generic_laplace(
    input: Any,
    derivative2: Callable[..., Any],
    output: Any = None,
    mode: Any = "reflect",
    cval: float = 0.0,
    extra_arguments: Any = (),
    extra_keywords: Any = None,
    *,
    axes: Any = None,
) -> Tensor:
    """Return the sum over all axes of second derivatives.

    Args:
        input: the image.
        derivative2: called as `derivative2(image, axis, output, mode, cval, *extra_arguments, **extra_keywords)`.
        output: as for `correlate`.
        mode: as for `correlate`, for all axes or for each.
        cval: as for `correlate`.
        extra_arguments: passed on.
        extra_keywords: passed on.
        axes: along which it is differentiated; None for all.

    Source: scipy.ndimage.generic_laplace.
    """
    image, whole = _image_of(input, output)
    parts = _parts(image, whole, derivative2, mode, cval, extra_arguments, extra_keywords, axes)
    return sum(parts[1:], parts[0]) if parts else image


def _image_of(input: Any, output: Any) -> tuple[Any, Any]:
    """Return an image for a function of the user's, and the dtype of a result of whole numbers; else None."""
    image = asarray(input)
    try:
        wanted = image.dtype if output is None else np.dtype(output)
    except TypeError:
        wanted = image.dtype
    return (_image(input, output), None) if wanted.kind in "fc" else (image, wanted)


def _parts(
    image: Array, whole: Any, function: Callable[..., Any], mode: Any, cval: float, args: Any, kwargs: Any, axes: Any
) -> list[Any]:
    """Return what a function returns for each axis; whole numbers, where their dtype is given."""
    chosen = range(image.ndim) if axes is None else axis_tuple(axes, image.ndim)
    modes = zip(chosen, _each_axis(mode, len(chosen)), strict=True)
    found = [function(image, axis, whole, border, cval, *args, **(kwargs or {})) for axis, border in modes]
    return found if whole is None else [asarray(one).astype(whole) for one in found]


def generic_gradient_magnitude(
    input: Any,
    derivative: Callable[..., Any],
    output: Any = None,
    mode: Any = "reflect",
    cval: float = 0.0,
    extra_arguments: Any = (),
    extra_keywords: Any = None,
    *,
    axes: Any = None,
) -> Tensor:
    """Return the root of the sum over all axes of squared derivatives.

    Args:
        input: the image.
        derivative: called as `derivative(image, axis, output, mode, cval, *extra_arguments, **extra_keywords)`.
        output: as for `correlate`.
        mode: as for `correlate`, for all axes or for each.
        cval: as for `correlate`.
        extra_arguments: passed on.
        extra_keywords: passed on.
        axes: along which it is differentiated; None for all.

    Source: scipy.ndimage.generic_gradient_magnitude.
    """
    image, whole = _image_of(input, output)
    parts = _parts(image, whole, derivative, mode, cval, extra_arguments, extra_keywords, axes)
    if not parts:
        return image
    length = np.sqrt(sum((one * one for one in parts[1:]), parts[0] * parts[0]))
    return length if whole is None else length.astype(whole)


def laplace(input: Any, output: Any = None, mode: Any = "reflect", cval: float = 0.0, *, axes: Any = None) -> Tensor:
    """Return the sum over all axes of second differences.

    Args:
        input: the image.
        output: as for `correlate`.
        mode: as for `correlate`, for all axes or for each.
        cval: as for `correlate`.
        axes: along which it is differentiated; None for all.

    Source: scipy.ndimage.laplace.
    """

    def second(image: Array, axis: int, output: Any, mode: str, cval: float) -> Any:
        return correlate1d(image, np.array([1, -2, 1], image.dtype), axis, output, mode, cval)

    return generic_laplace(input, second, output, mode, cval, axes=axes)


def gaussian_laplace(
    input: Any,
    sigma: Any,
    output: Any = None,
    mode: Any = "reflect",
    cval: float = 0.0,
    *,
    axes: Any = None,
    **kwargs: Any,
) -> Tensor:
    """Return the sum over all axes of second derivatives of an image smoothed by a Gaussian.

    Args:
        input: the image.
        sigma: as for `gaussian_filter`.
        output: as for `correlate`.
        mode: as for `correlate`, for all axes or for each.
        cval: as for `correlate`.
        axes: those that are filtered, and along which it is differentiated; None for all.
        **kwargs: passed on to `gaussian_filter`.

    Source: scipy.ndimage.gaussian_laplace.
    """
    ndim = _image(input, output).ndim
    chosen = tuple(range(ndim)) if axes is None else axis_tuple(axes, ndim)

    def second(image: Any, axis: int, output: Any, mode: str, cval: float) -> Any:
        order = [2 if one == axis else 0 for one in chosen]
        return gaussian_filter(image, sigma, order, output, mode, cval, axes=chosen, **kwargs)

    return generic_laplace(input, second, output, mode, cval, axes=chosen)


def gaussian_gradient_magnitude(
    input: Any,
    sigma: Any,
    output: Any = None,
    mode: Any = "reflect",
    cval: float = 0.0,
    *,
    axes: Any = None,
    **kwargs: Any,
) -> Tensor:
    """Return the length of the gradient of an image smoothed by a Gaussian.

    Args:
        input: the image.
        sigma: as for `gaussian_filter`.
        output: as for `correlate`.
        mode: as for `correlate`, for all axes or for each.
        cval: as for `correlate`.
        axes: those that are filtered, and along which it is differentiated; None for all.
        **kwargs: passed on to `gaussian_filter`.

    Source: scipy.ndimage.gaussian_gradient_magnitude.
    """
    ndim = _image(input, output).ndim
    chosen = tuple(range(ndim)) if axes is None else axis_tuple(axes, ndim)

    def first(image: Any, axis: int, output: Any, mode: str, cval: float) -> Any:
        order = [1 if one == axis else 0 for one in chosen]
        return gaussian_filter(image, sigma, order, output, mode, cval, axes=chosen, **kwargs)

    return generic_gradient_magnitude(input, first, output, mode, cval, axes=chosen)
