"""NumPy's functions, each with its derivative right beneath; one topic a file.

Importing this package fills the table `RULES`, which says what runs when a NumPy function is called on a Tensor.
"""

from ..recording.primitive import RULES as RULES
from . import arithmetic as arithmetic
from . import assigning as assigning
from . import calling as calling
from . import casting as casting
from . import contractions as contractions
from . import convolution as convolution
from . import cumulative as cumulative
from . import diagonals as diagonals
from . import emath as emath
from . import exponential as exponential
from . import extremes as extremes
from . import factorizations as factorizations
from . import folding as folding
from . import fourier as fourier
from . import histograms as histograms
from . import indexing as indexing
from . import interpolation as interpolation
from . import joining as joining
from . import linear_algebra as linear_algebra
from . import nondifferentiable as nondifferentiable
from . import norms as norms
from . import padding as padding
from . import polynomials as polynomials
from . import rearranging as rearranging
from . import reductions as reductions
from . import sequences as sequences
from . import sets as sets
from . import shaping as shaping
from . import singular as singular
from . import solving as solving
from . import spectral as spectral
from . import statistics as statistics
from . import trigonometric as trigonometric
from . import windows as windows
from .dispatch import call_function as call_function
from .dispatch import call_ufunc as call_ufunc

__all__ = [
    "RULES",
    "arithmetic",
    "assigning",
    "call_function",
    "call_ufunc",
    "calling",
    "casting",
    "contractions",
    "convolution",
    "cumulative",
    "diagonals",
    "emath",
    "exponential",
    "extremes",
    "factorizations",
    "folding",
    "fourier",
    "histograms",
    "indexing",
    "interpolation",
    "joining",
    "linear_algebra",
    "nondifferentiable",
    "norms",
    "padding",
    "polynomials",
    "rearranging",
    "reductions",
    "sequences",
    "sets",
    "shaping",
    "singular",
    "solving",
    "spectral",
    "statistics",
    "trigonometric",
    "windows",
]
