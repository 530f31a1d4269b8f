"""Points at which Fourier transforms can be differentiated, and such at the edge of what they take: data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.core.ops.cases_elementwise import normal
from tests.core.ops.finite_differences import Case

__all__ = ["CASES", "DEGENERATE"]

fft: Any = np.fft


def _for_each(functions: tuple[Callable[..., Any], ...], cases: list[Case]) -> dict[Callable[..., Any], list[Case]]:
    """Return the same calls for several functions."""
    return {function: list(cases) for function in functions}


#: Along one axis: lengths that are kept, cut off and filled up, even and odd.
_ALONG_ONE = [
    Case((normal(5),)),
    Case((normal(2, 4),)),
    Case((normal(2, 4), 3)),
    Case((normal(4, 2), 5, 0), {"norm": "ortho"}),
    Case((normal(3, 2, 2),), {"n": 6, "axis": -3, "norm": "forward"}),
    Case((normal(3), None, -1, "backward")),
]
#: Along several axes, which are all of them where none is named.
_ALONG_SEVERAL = [
    Case((normal(3, 2),)),
    Case((normal(2, 3, 2), (2, 4), (0, 1), "ortho")),
    Case((normal(3, 2, 2),), {"s": (2, 5), "axes": (0, -1), "norm": "forward"}),
    Case((normal(2, 3, 2),), {"s": (-1, 3), "axes": (2, 1)}),
]
_ALONG_ALL = [Case((normal(4),)), Case((normal(2, 2, 3),), {"norm": "ortho"}), Case((normal(2, 3),), {"axes": (1,)})]

CASES: dict[Callable[..., Any], list[Case]] = {
    **_for_each((fft.fft, fft.ifft, fft.rfft, fft.irfft, fft.hfft, fft.ihfft), _ALONG_ONE),
    **_for_each((fft.fft2, fft.ifft2, fft.rfft2, fft.irfft2), _ALONG_SEVERAL),
    **_for_each((fft.rfftn, fft.irfftn), [*_ALONG_SEVERAL, *_ALONG_ALL]),
    **_for_each((fft.fftn, fft.ifftn), [*_ALONG_SEVERAL, *_ALONG_ALL, Case((normal(2, 3),), {"axes": (1, 0, 1)})]),
    **_for_each(
        (fft.fftshift, fft.ifftshift),
        [Case((normal(3),)), Case((normal(2, 3),), {"axes": 1}), Case((normal(3, 2, 3), (0, -1)))],
    ),
}

_SHAPES = ((0,), (), (1,), (3,), (2, 3), (0, 3), (2, 0), (1, 3), (3, 2, 4))
_EACH = [Case((np.arange(1.0, 1.0 + np.prod(shape, dtype=int)).reshape(shape),)) for shape in _SHAPES]


def _each(**kwargs: Any) -> list[Case]:
    """Return a call for each shape."""
    return [case._replace(kwargs=kwargs) for case in _EACH]


_ONE_AXIS = [*_EACH, *_each(n=1), *_each(n=4, axis=0), *_each(n=0), *_each(n=-1), *_each(axis=2), *_each(norm="what")]
_SEVERAL_AXES = [
    *_EACH,
    *_each(s=(1, 2), axes=(0, 1)),
    *_each(s=(3,), axes=(-1,)),
    *_each(s=(3,), axes=(0, 1)),
    *_each(axes=()),
]


def _of_something(cases: list[Case]) -> list[Case]:
    """Return the calls on arrays that hold something: of nothing, NumPy's way back to real numbers makes anything."""
    return [case for case in cases if case.args[0].size]


DEGENERATE: dict[Callable[..., Any], list[Case]] = {
    **_for_each((fft.fft, fft.ifft, fft.rfft, fft.ihfft), _ONE_AXIS),
    **_for_each((fft.irfft, fft.hfft), _of_something(_ONE_AXIS)),
    **_for_each((fft.fft2, fft.ifft2, fft.fftn, fft.ifftn, fft.rfft2, fft.rfftn), _SEVERAL_AXES),
    **_for_each((fft.irfft2, fft.irfftn), _of_something(_SEVERAL_AXES)),
    **_for_each((fft.fftshift, fft.ifftshift), [*_EACH, *_each(axes=0), *_each(axes=(0, 1)), *_each(axes=())]),
}
