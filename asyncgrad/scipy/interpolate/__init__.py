"""Functions and classes of `scipy.interpolate`, with Tensors as results.

Interpolants are differentiable by the values, by the points that they go through, and by where they are evaluated.
"""

from .grids import RegularGridInterpolator as RegularGridInterpolator
from .grids import interp1d as interp1d
from .grids import interpn as interpn
from .piecewise import PPoly as PPoly
from .splines import Akima1DInterpolator as Akima1DInterpolator
from .splines import CubicHermiteSpline as CubicHermiteSpline
from .splines import CubicSpline as CubicSpline
from .splines import PchipInterpolator as PchipInterpolator
from .splines import pchip_interpolate as pchip_interpolate

__all__ = [
    "Akima1DInterpolator",
    "CubicHermiteSpline",
    "CubicSpline",
    "PPoly",
    "PchipInterpolator",
    "RegularGridInterpolator",
    "interp1d",
    "interpn",
    "pchip_interpolate",
]


def __dir__() -> list[str]:
    return __all__
