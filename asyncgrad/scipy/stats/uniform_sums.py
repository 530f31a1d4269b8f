"""The distribution of a sum of uniform numbers, whose density is a spline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy import interpolate as scipy_interpolate

from ...core.arrays.values import raw
from ...core.recording.primitive import derivative, primitive
from .implicit import Implicit

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["irwinhall"]


@primitive()
def cardinal_spline_(y: Any, n: Any, order: int) -> Array:
    """Return the density of the sum of n uniform numbers, or its derivative of an order; -1 stands for the integral."""
    places, counts = np.broadcast_arrays(y, n)
    found = np.zeros(places.shape)
    for count in np.unique(counts[np.isfinite(counts) & (counts >= 1)]):
        if order < count:
            spline = scipy_interpolate.BSpline.basis_element(np.arange(int(count) + 1.0))
            spline = spline.derivative(order) if order > 0 else spline.antiderivative() if order else spline
            found[counts == count] = spline(places[counts == count])
    return found.astype(np.result_type(y, np.float32), copy=False)


@derivative(cardinal_spline_, "y")
def _(g: Any, y: Array, n: Any, order: int) -> Array:
    return g * cardinal_spline_.call(y, n, order + 1)


@final
class IrwinHall(Implicit):
    """The distribution of the sum of `n` uniform numbers; their count has no derivative."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("n",)
    _inner = 0.5

    def _valid(self, *shapes: Any) -> Any:
        return (shapes[0] >= 1) & (shapes[0] == np.round(shapes[0]))

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return 0.0, np.asarray(raw(shapes[0]))

    def _logpdf(self, y: Any, n: Any) -> Any:
        return np.log(cardinal_spline_.call(y, raw(n), 0))

    def _pdf(self, y: Any, n: Any) -> Any:
        return cardinal_spline_.call(y, raw(n), 0)

    def _cdf(self, y: Any, n: Any) -> Any:
        return cardinal_spline_.call(y, raw(n), -1)

    def _sf(self, y: Any, n: Any) -> Any:
        return cardinal_spline_.call(raw(n) - y, raw(n), -1)

    def _mean_and_variance(self, n: Any) -> tuple[Any, Any]:
        return raw(n) / 2, raw(n) / 12

    def _skewness_and_kurtosis(self, n: Any) -> tuple[Any, Any]:
        return 0.0 * raw(n), -6 / (5 * raw(n))


irwinhall: IrwinHall = IrwinHall("irwinhall")
