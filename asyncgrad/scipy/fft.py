"""Functions of `scipy.fft`, with Tensors as results: Fourier, cosine, sine and Hankel transforms.

Transforms are linear, and so are their derivatives: a gradient goes through the transposed transform.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from scipy import fft as scipy_fft
from scipy.fft import next_fast_len as next_fast_len

from ..core.arrays.axes import axis_index
from ..core.arrays.values import raw
from ..core.recording.primitive import derivative, primitive
from ..core.tensor import Tensor, asarray
from ..errors import ArgumentError
from .arguments import floating
from .error_names import name_errors
from .hankel import fht as fht
from .hankel import fhtoffset as fhtoffset
from .hankel import ifht as ifht
from .unsupported import refuse

if TYPE_CHECKING:
    from ..core.arrays.array import Array


__all__ = [
    "dct",
    "dctn",
    "dst",
    "dstn",
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "fht",
    "fhtoffset",
    "hfft",
    "hfft2",
    "hfftn",
    "idct",
    "idctn",
    "idst",
    "idstn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ifht",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "next_fast_len",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

_Transform: TypeAlias = Callable[..., Tensor]
_SWAPPED: dict[Any, Any] = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


# Fourier transforms: NumPy's, with SciPy's parameters.


def _wide(x: Any) -> Any:
    """Return an argument as a tensor, with float16 as float32, in which SciPy transforms it."""
    tensor = asarray(x)
    return tensor.astype(np.float32) if tensor.dtype.char == "e" else tensor


def _one_axis(function: Callable[..., Any]) -> Callable[..., Tensor]:
    name = function.__name__

    def transform(
        x: Any,
        n: int | None = None,
        axis: int = -1,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        *,
        plan: Any = None,
    ) -> Tensor:
        _check_plan(name, plan)
        return asarray(function(_wide(x), n, axis, norm))

    return _named(transform, name, "n, axis and norm")


def _as_tuple(value: Any) -> Any:
    """Return an int, for one axis, as a tuple of it, and anything else as it is."""
    return (int(value),) if isinstance(value, (int, np.integer)) else value


def _several_axes(function: Callable[..., Any], default: tuple[int, ...] | None) -> Callable[..., Tensor]:
    name = function.__name__

    def transform(
        x: Any,
        s: Sequence[int] | None = None,
        axes: Sequence[int] | None = default,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        *,
        plan: Any = None,
    ) -> Tensor:
        _check_plan(name, plan)
        x = _wide(x)
        s, axes = _as_tuple(s), _as_tuple(axes)
        if s is not None and axes is None:
            axes = tuple(range(x.ndim - len(s), x.ndim))
        return asarray(function(x, s, axes, norm))

    return _named(transform, name, "s, axes and norm")


def _named(transform: Callable[..., Tensor], name: str, parameters: str) -> Callable[..., Tensor]:
    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = (
        f"Return the transform of `x`, as `scipy.fft.{name}`.\n\n{parameters} are SciPy's. overwrite_x and workers are "
        "of no effect: nothing is written into `x`.\n\nRaises:\n    ArgumentError: plan is not None."
    )
    return transform


def _check_plan(name: str, plan: Any) -> None:
    if plan is not None:
        raise ArgumentError(f"scipy.fft.{name} takes no plan but None")


def _hermitian(x: Any, s: Any = None, axes: Any = None, norm: Any = None) -> Any:
    return np.fft.irfftn(np.conj(x), s, axes, _SWAPPED[norm])


def _inverse_hermitian(x: Any, s: Any = None, axes: Any = None, norm: Any = None) -> Any:
    return np.conj(np.fft.rfftn(x, s, axes, _SWAPPED[norm]))


def _called(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    wrapped = functools.partial(function)
    vars(wrapped)["__name__"] = name
    return wrapped


fft: _Transform = _one_axis(np.fft.fft)
ifft: _Transform = _one_axis(np.fft.ifft)
rfft: _Transform = _one_axis(np.fft.rfft)
irfft: _Transform = _one_axis(np.fft.irfft)
hfft: _Transform = _one_axis(np.fft.hfft)
ihfft: _Transform = _one_axis(np.fft.ihfft)
fftn: _Transform = _several_axes(np.fft.fftn, None)
ifftn: _Transform = _several_axes(np.fft.ifftn, None)
rfftn: _Transform = _several_axes(np.fft.rfftn, None)
irfftn: _Transform = _several_axes(np.fft.irfftn, None)
fft2: _Transform = _several_axes(np.fft.fft2, (-2, -1))
ifft2: _Transform = _several_axes(np.fft.ifft2, (-2, -1))
rfft2: _Transform = _several_axes(np.fft.rfft2, (-2, -1))
irfft2: _Transform = _several_axes(np.fft.irfft2, (-2, -1))
hfftn: _Transform = _several_axes(_called(_hermitian, "hfftn"), None)
ihfftn: _Transform = _several_axes(_called(_inverse_hermitian, "ihfftn"), None)
hfft2: _Transform = _several_axes(_called(_hermitian, "hfft2"), (-2, -1))
ihfft2: _Transform = _several_axes(_called(_inverse_hermitian, "ihfft2"), (-2, -1))


def fftshift(x: Any, axes: Any = None) -> Tensor:
    """Return `x` with the frequency 0 in the middle, as `scipy.fft.fftshift`."""
    return np.fft.fftshift(asarray(x), axes)


def ifftshift(x: Any, axes: Any = None) -> Tensor:
    """Return what `fftshift` makes `x` of, as `scipy.fft.ifftshift`."""
    return np.fft.ifftshift(asarray(x), axes)


def fftfreq(n: int, d: float = 1.0, *, xp: object = None, device: str | None = None) -> Tensor:
    """Return the frequencies of `fft` on a device, as `scipy.fft.fftfreq`; `xp` has no effect: they are a Tensor."""
    return asarray(np.fft.fftfreq(n, d), device=device)


def rfftfreq(n: int, d: float = 1.0, *, xp: object = None, device: str | None = None) -> Tensor:
    """Return the frequencies of `rfft` on a device, as `scipy.fft.rfftfreq`; `xp` has no effect."""
    return asarray(np.fft.rfftfreq(n, d), device=device)


# Cosine and sine transforms. Each is an orthogonal one between two diagonal matrices, and so is its transpose.

_ORTHOGONAL = {"cosine": scipy_fft.dct, "sine": scipy_fft.dst}
#: The type of the transposed orthogonal transform.
_TRANSPOSED = {1: 1, 2: 3, 3: 2, 4: 4}


@primitive()
def scaled_transform_(x: Any, kind: str, type_: int, axis: int, before: Any, after: Any) -> Any:
    """Return an orthogonal cosine or sine transform along an axis, of `before * x`, times `after`."""
    return after * _ORTHOGONAL[kind](before * x, type_, None, axis, "ortho")


@derivative(scaled_transform_, "x")
def _(g: Array, kind: str, type_: int, axis: int, before: Any, after: Any) -> Array:
    return scaled_transform_.call(g, kind, _TRANSPOSED[type_], axis, after, before)


def _scales(kind: str, type_: int, length: int, is_orthogonal: bool) -> tuple[Any, Any, int]:
    """Return the diagonal matrices before and after the transform, and the square of its norm."""
    before, after = np.ones(length), np.ones(length)
    if kind == "cosine":
        size = 2 * (length - 1) if type_ == 1 else 2 * length
        ends: Any = [0, -1] if type_ == 1 else [0]
    else:
        size = 2 * (length + 1) if type_ == 1 else 2 * length
        ends = [-1]
    if not is_orthogonal and not (kind == "sine" and type_ == 1):
        if type_ in (1, 3):
            before[ends] = math.sqrt(0.5)
        if type_ in (1, 2):
            after[ends] = math.sqrt(2)
    return before, after, size


def _transform(
    name: str, kind: str, x: Any, type_: int, n: int | None, axis: int, norm: str | None, orthogonalize: bool | None
) -> Tensor:
    is_inverse = name.startswith("i")
    if type_ not in (1, 2, 3, 4):
        raise ValueError(f"scipy.fft.{name} has the types 1 to 4, not {type_!r}")
    if norm not in _SWAPPED:
        raise ValueError(f"scipy.fft.{name} has the norms 'backward', 'ortho' and 'forward', not {norm!r}")
    x = floating(x)
    if x.ndim == 0:
        raise ValueError(f"scipy.fft.{name} takes an array of at least one axis, not a number")
    axis = axis_index(axis, x.ndim)
    x = _resized(name, x, n, axis)
    length = x.shape[axis]
    if length < (2 if kind == "cosine" and type_ == 1 else 1):
        raise ValueError(f"scipy.fft.{name} of type {type_} takes more than {length} elements along axis {axis}")
    is_orthogonal = norm == "ortho" if orthogonalize is None else orthogonalize
    if is_inverse:
        type_ = _TRANSPOSED[type_]
    before, after, size = _scales(kind, type_, length, is_orthogonal)
    # The inverse divides by the size where the other does not, and the other way round.
    divisor = {"ortho": 1.0, "forward": 1 / math.sqrt(size), "backward": math.sqrt(size)}
    after = after * divisor[(_SWAPPED[norm] if is_inverse else norm) or "backward"]
    shape = (-1,) + (1,) * (x.ndim - 1 - axis)
    # As SciPy, which computes with float16 in single precision.
    dtype = np.result_type(x.dtype.type(0).real, np.float32)
    before, after = before.reshape(shape).astype(dtype), after.reshape(shape).astype(dtype)
    return scaled_transform_.call(x, kind, type_, axis, before, after)


def _resized(name: str, x: Any, n: int | None, axis: int) -> Any:
    """Return `x` with n elements along an axis: cut, or with zeros behind."""
    length = x.shape[axis]
    if n is None or n == length:
        return x
    if n < 1:
        raise ValueError(f"scipy.fft.{name} takes n > 0, not {n}")
    if n < length:
        return x[(slice(None),) * axis + (slice(n),)]
    zeros = np.zeros((*x.shape[:axis], n - length, *x.shape[axis + 1 :]), raw(x).dtype)
    return np.concatenate([x, zeros], axis)


def _one(name: str, kind: str) -> Callable[..., Tensor]:
    def transform(
        x: Any,
        type: int = 2,
        n: int | None = None,
        axis: int = -1,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        orthogonalize: bool | None = None,
    ) -> Tensor:
        return _transform(name, kind, x, type, n, axis, norm, orthogonalize)

    return _documented(transform, name, kind, "along an axis")


def _several(name: str, kind: str) -> Callable[..., Tensor]:
    def transform(
        x: Any,
        type: int = 2,
        s: Sequence[int] | None = None,
        axes: Sequence[int] | None = None,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        *,
        orthogonalize: bool | None = None,
    ) -> Tensor:
        x = floating(x)
        s = _as_tuple(s)
        if axes is None:
            axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
        axes = list(_as_tuple(axes))
        sizes = [None] * len(axes) if s is None else list(s)
        if len(sizes) != len(axes):
            raise ValueError(f"scipy.fft.{name} takes as many lengths s as axes, not {sizes} for {axes}")
        for axis, n in zip(axes, sizes, strict=True):
            x = _transform(name, kind, x, type, n, axis, norm, orthogonalize)
        return x

    return _documented(transform, name, kind, "along axes")


def _documented(transform: Callable[..., Tensor], name: str, kind: str, where: str) -> Callable[..., Tensor]:
    transform.__name__ = transform.__qualname__ = name
    which = f"inverse {kind}" if name.startswith("i") else kind
    transform.__doc__ = (
        f"Return the {which} transform of `x` {where}, as `scipy.fft.{name}`.\n\n"
        "The parameters are SciPy's; overwrite_x and workers are of no effect."
    )
    return transform


dct: _Transform = _one("dct", "cosine")
idct: _Transform = _one("idct", "cosine")
dst: _Transform = _one("dst", "sine")
idst: _Transform = _one("idst", "sine")
dctn: _Transform = _several("dctn", "cosine")
idctn: _Transform = _several("idctn", "cosine")
dstn: _Transform = _several("dstn", "sine")
idstn: _Transform = _several("idstn", "sine")


def __dir__() -> list[str]:
    return __all__


__getattr__ = refuse("fft")
name_errors(__name__, "asyncgrad.scipy.hankel")
