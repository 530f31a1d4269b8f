"""Functions of `scipy.signal`, with Tensors as results: convolutions, filters, and other sampling rates.

Filters are designed by `scipy.signal` itself (`butter`, `firwin`, `get_window`), which takes numbers.
"""

from typing import TYPE_CHECKING

from .convolution import convolve as convolve
from .convolution import convolve2d as convolve2d
from .convolution import correlate as correlate
from .convolution import correlate2d as correlate2d
from .convolution import fftconvolve as fftconvolve
from .convolution import oaconvolve as oaconvolve
from .filters import deconvolve as deconvolve
from .filters import filtfilt as filtfilt
from .filters import lfilter as lfilter
from .filters import lfilter_zi as lfilter_zi
from .filters import lfiltic as lfiltic
from .filters import savgol_filter as savgol_filter
from .filters import sosfilt as sosfilt
from .filters import sosfilt_zi as sosfilt_zi
from .filters import sosfiltfilt as sosfiltfilt
from .ranks import medfilt as medfilt
from .ranks import medfilt2d as medfilt2d
from .ranks import order_filter as order_filter
from .ranks import wiener as wiener
from .responses import freqs as freqs
from .responses import freqz as freqz
from .responses import freqz_sos as freqz_sos
from .responses import group_delay as group_delay
from .responses import sosfreqz as sosfreqz
from .short_time import coherence as coherence
from .short_time import csd as csd
from .short_time import istft as istft
from .short_time import periodogram as periodogram
from .short_time import spectrogram as spectrogram
from .short_time import stft as stft
from .short_time import welch as welch
from .spectra import decimate as decimate
from .spectra import detrend as detrend
from .spectra import hilbert as hilbert
from .spectra import hilbert2 as hilbert2
from .spectra import lombscargle as lombscargle
from .spectra import resample as resample
from .spectra import resample_poly as resample_poly
from .spectra import upfirdn as upfirdn
from .systems import lsim as lsim
from .waveforms import chirp as chirp
from .waveforms import gausspulse as gausspulse
from .waveforms import sawtooth as sawtooth
from .waveforms import square as square
from .waveforms import sweep_poly as sweep_poly

__all__ = [
    "chirp",
    "coherence",
    "convolve",
    "convolve2d",
    "correlate",
    "correlate2d",
    "csd",
    "decimate",
    "deconvolve",
    "detrend",
    "fftconvolve",
    "filtfilt",
    "freqs",
    "freqz",
    "freqz_sos",
    "gausspulse",
    "group_delay",
    "hilbert",
    "hilbert2",
    "istft",
    "lfilter",
    "lfilter_zi",
    "lfiltic",
    "lombscargle",
    "lsim",
    "medfilt",
    "medfilt2d",
    "oaconvolve",
    "order_filter",
    "periodogram",
    "resample",
    "resample_poly",
    "savgol_filter",
    "sawtooth",
    "sosfilt",
    "sosfilt_zi",
    "sosfiltfilt",
    "sosfreqz",
    "spectrogram",
    "square",
    "stft",
    "sweep_poly",
    "upfirdn",
    "welch",
    "wiener",
]

if not TYPE_CHECKING:
    # Hidden from type checkers: with a module `__getattr__` they would accept any name.
    from ..error_names import name_errors
    from ..unsupported import refuse

    __getattr__ = refuse("signal")
    name_errors(__name__)


def __dir__() -> list[str]:
    return __all__
