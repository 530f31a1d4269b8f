"""Functions and classes of `scipy.interpolate`, with Tensors as results.

Interpolants are differentiable by the values, by the points that they go through, and by where they are evaluated.
"""

from typing import TYPE_CHECKING

from .bsplines import BSpline as BSpline
from .bsplines import make_interp_spline as make_interp_spline
from .bsplines import make_lsq_spline as make_lsq_spline
from .bsplines import splantider as splantider
from .bsplines import splder as splder
from .bsplines import splev as splev
from .grids import RegularGridInterpolator as RegularGridInterpolator
from .grids import interp1d as interp1d
from .grids import interpn as interpn
from .penalized import make_smoothing_spline as make_smoothing_spline
from .piecewise import PPoly as PPoly
from .scattered import NearestNDInterpolator as NearestNDInterpolator
from .scattered import RBFInterpolator as RBFInterpolator
from .scattered import griddata as griddata
from .smoothing import InterpolatedUnivariateSpline as InterpolatedUnivariateSpline
from .smoothing import LSQUnivariateSpline as LSQUnivariateSpline
from .smoothing import UnivariateSpline as UnivariateSpline
from .smoothing import splint as splint
from .smoothing import splprep as splprep
from .smoothing import splrep as splrep
from .smoothing import sproot as sproot
from .splines import Akima1DInterpolator as Akima1DInterpolator
from .splines import CubicHermiteSpline as CubicHermiteSpline
from .splines import CubicSpline as CubicSpline
from .splines import PchipInterpolator as PchipInterpolator
from .splines import pchip_interpolate as pchip_interpolate
from .surfaces import LSQBivariateSpline as LSQBivariateSpline
from .surfaces import RectBivariateSpline as RectBivariateSpline
from .surfaces import SmoothBivariateSpline as SmoothBivariateSpline
from .surfaces import bisplev as bisplev
from .surfaces import bisplrep as bisplrep
from .triangles import CloughTocher2DInterpolator as CloughTocher2DInterpolator
from .triangles import LinearNDInterpolator as LinearNDInterpolator

__all__ = [
    "Akima1DInterpolator",
    "BSpline",
    "CloughTocher2DInterpolator",
    "CubicHermiteSpline",
    "CubicSpline",
    "InterpolatedUnivariateSpline",
    "LSQBivariateSpline",
    "LSQUnivariateSpline",
    "LinearNDInterpolator",
    "NearestNDInterpolator",
    "PPoly",
    "PchipInterpolator",
    "RBFInterpolator",
    "RectBivariateSpline",
    "RegularGridInterpolator",
    "SmoothBivariateSpline",
    "UnivariateSpline",
    "bisplev",
    "bisplrep",
    "griddata",
    "interp1d",
    "interpn",
    "make_interp_spline",
    "make_lsq_spline",
    "make_smoothing_spline",
    "pchip_interpolate",
    "splantider",
    "splder",
    "splev",
    "splint",
    "splprep",
    "splrep",
    "sproot",
]

if not TYPE_CHECKING:
    # Hidden from type checkers: with a module `__getattr__` they would accept any name.
    from ..error_names import name_errors
    from ..unsupported import refuse

    __getattr__ = refuse("interpolate")
    name_errors(__name__)


def __dir__() -> list[str]:
    return __all__
