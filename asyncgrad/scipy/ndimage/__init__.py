"""Functions of `scipy.ndimage`, with Tensors as results: filters, and images at other coordinates."""

from .filters import convolve as convolve
from .filters import convolve1d as convolve1d
from .filters import correlate as correlate
from .filters import correlate1d as correlate1d
from .filters import gaussian_filter as gaussian_filter
from .filters import gaussian_filter1d as gaussian_filter1d
from .filters import gaussian_gradient_magnitude as gaussian_gradient_magnitude
from .filters import gaussian_laplace as gaussian_laplace
from .filters import generic_gradient_magnitude as generic_gradient_magnitude
from .filters import generic_laplace as generic_laplace
from .filters import laplace as laplace
from .filters import prewitt as prewitt
from .filters import sobel as sobel
from .filters import uniform_filter as uniform_filter
from .filters import uniform_filter1d as uniform_filter1d
from .geometry import affine_transform as affine_transform
from .geometry import map_coordinates as map_coordinates
from .geometry import rotate as rotate
from .geometry import shift as shift
from .geometry import spline_filter as spline_filter
from .geometry import spline_filter1d as spline_filter1d
from .geometry import zoom as zoom
from .ranks import maximum_filter as maximum_filter
from .ranks import median_filter as median_filter
from .ranks import minimum_filter as minimum_filter

__all__ = [
    "affine_transform",
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
    "map_coordinates",
    "maximum_filter",
    "median_filter",
    "minimum_filter",
    "prewitt",
    "rotate",
    "shift",
    "sobel",
    "spline_filter",
    "spline_filter1d",
    "uniform_filter",
    "uniform_filter1d",
    "zoom",
]


def __dir__() -> list[str]:
    return __all__
