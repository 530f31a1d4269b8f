"""Functions of `scipy.signal`, with Tensors as results: convolutions, filters, and other sampling rates.

Filters are designed by `scipy.signal` itself (`butter`, `firwin`, `get_window`), which takes numbers.
"""

from .convolution import convolve as convolve
from .convolution import convolve2d as convolve2d
from .convolution import correlate as correlate
from .convolution import correlate2d as correlate2d
from .convolution import fftconvolve as fftconvolve
from .convolution import oaconvolve as oaconvolve
from .filters import filtfilt as filtfilt
from .filters import lfilter as lfilter
from .filters import savgol_filter as savgol_filter
from .filters import sosfilt as sosfilt
from .filters import sosfiltfilt as sosfiltfilt
from .spectra import detrend as detrend
from .spectra import hilbert as hilbert
from .spectra import resample as resample
from .spectra import resample_poly as resample_poly
from .spectra import upfirdn as upfirdn

__all__ = [
    "convolve",
    "convolve2d",
    "correlate",
    "correlate2d",
    "detrend",
    "fftconvolve",
    "filtfilt",
    "hilbert",
    "lfilter",
    "oaconvolve",
    "resample",
    "resample_poly",
    "savgol_filter",
    "sosfilt",
    "sosfiltfilt",
    "upfirdn",
]


def __dir__() -> list[str]:
    return __all__
