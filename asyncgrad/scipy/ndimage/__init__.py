"""Functions of `scipy.ndimage`, with Tensors as results: filters, and images at other coordinates."""

from typing import TYPE_CHECKING

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
from .geometry import geometric_transform as geometric_transform
from .geometry import map_coordinates as map_coordinates
from .geometry import rotate as rotate
from .geometry import shift as shift
from .geometry import spline_filter as spline_filter
from .geometry import spline_filter1d as spline_filter1d
from .geometry import zoom as zoom
from .measurements import center_of_mass as center_of_mass
from .measurements import maximum as maximum
from .measurements import mean as mean
from .measurements import median as median
from .measurements import minimum as minimum
from .measurements import standard_deviation as standard_deviation
from .measurements import sum as sum
from .measurements import sum_labels as sum_labels
from .measurements import variance as variance
from .ranks import black_tophat as black_tophat
from .ranks import grey_closing as grey_closing
from .ranks import grey_dilation as grey_dilation
from .ranks import grey_erosion as grey_erosion
from .ranks import grey_opening as grey_opening
from .ranks import maximum_filter as maximum_filter
from .ranks import maximum_filter1d as maximum_filter1d
from .ranks import median_filter as median_filter
from .ranks import minimum_filter as minimum_filter
from .ranks import minimum_filter1d as minimum_filter1d
from .ranks import morphological_gradient as morphological_gradient
from .ranks import morphological_laplace as morphological_laplace
from .ranks import percentile_filter as percentile_filter
from .ranks import rank_filter as rank_filter
from .ranks import white_tophat as white_tophat

__all__ = [
    "affine_transform",
    "black_tophat",
    "center_of_mass",
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
    "geometric_transform",
    "grey_closing",
    "grey_dilation",
    "grey_erosion",
    "grey_opening",
    "laplace",
    "map_coordinates",
    "maximum",
    "maximum_filter",
    "maximum_filter1d",
    "mean",
    "median",
    "median_filter",
    "minimum",
    "minimum_filter",
    "minimum_filter1d",
    "morphological_gradient",
    "morphological_laplace",
    "percentile_filter",
    "prewitt",
    "rank_filter",
    "rotate",
    "shift",
    "sobel",
    "spline_filter",
    "spline_filter1d",
    "standard_deviation",
    "sum",
    "sum_labels",
    "uniform_filter",
    "uniform_filter1d",
    "variance",
    "white_tophat",
    "zoom",
]

if not TYPE_CHECKING:
    # Hidden from type checkers: with a module `__getattr__` they would accept any name.
    from ..error_names import name_errors
    from ..unsupported import refuse
    from .by_scipy import prefer_scipy

    __getattr__ = refuse("ndimage")
    prefer_scipy(__name__)
    name_errors(__name__)


def __dir__() -> list[str]:
    return __all__
