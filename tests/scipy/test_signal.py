"""asyncgrad.scipy.signal: SciPy's values, and derivatives to second order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.signal

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import AsyncgradError
from asyncgrad.scipy import signal
from tests.core.ops.finite_differences import Case
from tests.scipy.functions import check, check_values, named_calls

_RNG = np.random.default_rng(5)


def _draw(*shape: int) -> Any:
    return _RNG.normal(size=shape)


_ROW, _KERNEL, _MATRIX = _draw(7), _draw(3), _draw(4, 5)
_NUMERATOR, _DENOMINATOR = np.array([0.5, -0.25, 1.0]), np.array([2.0, 0.5, -0.25, 0.125])
_SECTIONS = np.array([[1.0, 0.5, 0.25, 1.0, -0.5, 0.25], [0.5, 1.0, 0.0, 1.0, 0.25, 0.0]])
_BOTH = (0, 1)
_TIMES, _EVEN = np.array([0.125, 0.375, 0.5, 0.875, 1.25, 1.75]), np.linspace(0.0, 1.5, 4)
_LONG, _SPECTRA = _draw(2, 16), _draw(4, 5)

CASES: dict[str, list[Case]] = {
    "convolve": [
        Case((_ROW, _KERNEL), {"mode": "same", "method": "direct"}, _BOTH),
        Case((_KERNEL, _ROW), {"mode": "valid", "method": "fft"}, _BOTH),
        Case((_MATRIX, _draw(2, 4)), {"mode": "same"}, _BOTH),
        Case((_draw(2, 2), _MATRIX), {"mode": "valid"}, _BOTH),
        Case((np.array(2.0), np.array(3.0)), {}, _BOTH),
    ],
    "correlate": [
        Case((_ROW, _draw(4)), {}, _BOTH),
        Case((_ROW, _draw(4)), {"mode": "same"}, _BOTH),
        Case((_KERNEL, _ROW), {"mode": "valid"}, _BOTH),
    ],
    "fftconvolve": [
        Case((_ROW, _KERNEL), {"mode": "same"}, _BOTH),
        Case((_MATRIX, _draw(1, 3)), {"axes": 1}, _BOTH),
        Case((_MATRIX, _draw(2, 1)), {"mode": "valid"}, _BOTH),
    ],
    "oaconvolve": [Case((_draw(2, 12), _draw(2, 3)), {"axes": -1, "mode": "same"}, _BOTH)],
    "convolve2d": [
        Case((_MATRIX, _draw(2, 3)), {"boundary": "symm", "mode": "same"}, _BOTH),
        Case((_MATRIX, _draw(2, 3)), {"boundary": "wrap"}, _BOTH),
        Case((_MATRIX, _draw(2, 2)), {"fillvalue": 1.5, "mode": "same"}, _BOTH),
        Case((_draw(2, 3), _MATRIX), {"mode": "valid"}, _BOTH),
    ],
    "correlate2d": [
        Case((_MATRIX, _draw(2, 2)), {"mode": "same"}, _BOTH),
        Case((_MATRIX, _draw(2, 3)), {"mode": "full", "boundary": "wrap"}, _BOTH),
    ],
    "lfilter": [
        Case((_NUMERATOR, _DENOMINATOR, _ROW), {}, (0, 1, 2)),
        Case((_DENOMINATOR, _NUMERATOR, _MATRIX, 0), {}, (0, 1, 2)),
        Case((_NUMERATOR, _DENOMINATOR, _MATRIX), {"zi": _draw(4, 3)}, (0, 1, 2, "zi")),
        Case((_NUMERATOR, _DENOMINATOR, _draw(2)), {"zi": _draw(3)}, (0, 1, 2, "zi")),
        Case((np.array([3.0]), np.array([2.0]), _ROW), {}, (0, 1, 2)),
    ],
    "filtfilt": [
        Case((_NUMERATOR, _DENOMINATOR, _draw(14)), {}, (0, 1, 2)),
        Case((_NUMERATOR, _DENOMINATOR, _draw(7, 2), 0, "even", 4), {}, (2,)),
        Case((_NUMERATOR, _DENOMINATOR, _draw(14)), {"padtype": "constant"}, (2,)),
        Case((_NUMERATOR, _DENOMINATOR, _draw(2, 9)), {"method": "gust"}, (0, 1, 2)),
        Case((_NUMERATOR, _DENOMINATOR, _draw(14)), {"method": "gust", "irlen": 5}, (0, 1, 2)),
        Case((np.array([3.0]), np.array([2.0]), _ROW), {"method": "gust"}, (0, 1, 2)),
        Case((_NUMERATOR, _DENOMINATOR, _ROW), {"padtype": None}, (2,)),
    ],
    "sosfilt": [
        Case((_SECTIONS, _MATRIX), {}, (1,)),
        Case((_SECTIONS[0], _MATRIX), {}, (1,)),
        Case((_SECTIONS, _MATRIX, 0), {"zi": _draw(2, 2, 5)}, (1, "zi")),
    ],
    "sosfiltfilt": [Case((_SECTIONS, _draw(14)), {}, (1,))],
    "savgol_filter": [
        Case((_draw(2, 9), 5, 2), {}),
        Case((_draw(9), 4, 2), {"deriv": 1, "delta": np.array(0.5)}, (0, "delta")),
        *(Case((_draw(9, 2), 5, 3), {"mode": mode, "axis": 0}) for mode in ("mirror", "constant", "nearest", "wrap")),
    ],
    "hilbert": [Case((_draw(2, 6),)), Case((_draw(5, 2), 7, 0)), Case((_ROW, 4))],
    "detrend": [
        Case((_draw(2, 6),)),
        Case((_draw(6, 2), 0, "constant")),
        Case((_draw(8),), {"bp": [3], "overwrite_data": False}),
    ],
    "resample": [
        *(Case((_draw(6), number)) for number in (1, 4, 5, 6, 7, 10)),
        Case((_draw(2, 7), 4), {"axis": 1, "window": "hamming"}),
        Case((_draw(6), 4, _EVEN), {}, (0, 2)),
        Case((_draw(7) + 1j * _draw(7), 10), {"window": "hamming"}),
    ],
    "upfirdn": [
        Case((_KERNEL, _draw(2, 5), 7, 5), {}, _BOTH),
        Case((_draw(9), _draw(5, 2), 2, 11, 0, "symmetric"), {}, _BOTH),
        Case((_KERNEL, _draw(2, 5), 3, 2), {}, _BOTH),
        Case((_draw(4), _draw(5, 2), 1, 3, 0), {}, _BOTH),
    ],
    "decimate": [
        Case((_draw(30), 2), {"n": 2}),
        Case((_draw(9, 2), 2), {"ftype": "fir", "n": 4, "axis": 0}),
        Case((_draw(9), 2), {"n": 2, "zero_phase": False}),
        Case((_draw(9), 2), {"ftype": "fir", "n": 4, "zero_phase": False}),
    ],
    "deconvolve": [Case((_ROW, _NUMERATOR), {}, _BOTH)],
    "chirp": [
        *(
            Case((_TIMES, 1.5, 2.0, 3.5, method, 20.0), {}, (0, 1, 2, 3, 5))
            for method in ("linear", "quadratic", "logarithmic", "hyperbolic")
        ),
    ],
    "sawtooth": [Case((_TIMES, np.array(0.375)), {}, _BOTH)],
    "square": [Case((_TIMES, 0.375), {}, (), smooth=False)],
    "gausspulse": [Case((_TIMES - 0.5, 1.5), {"bw": 0.25, "retquad": True, "retenv": True}, (0, 1, "bw"))],
    "sweep_poly": [Case((_TIMES, np.poly1d([0.5, 2.0, 1.0]), 20.0), {}, (0, 2))],
    "lombscargle": [
        Case((_TIMES, _draw(6), np.array([0.5, 2.0])), {}, (0, 1, 2)),
        Case(
            (_TIMES, _draw(6), np.array([0.5, 2.0])),
            {"weights": 1 + _TIMES, "normalize": True, "floating_mean": True},
            (0, 1, 2, "weights"),
        ),
    ],
    "lsim": [
        Case((((-0.5,), (1.0,), (1.0,), (0.0,)), _EVEN, _EVEN, np.array(0.5)), {}, (1, 3)),
        Case(((_draw(2, 2), _draw(2, 1), _draw(1, 2), _draw(1, 1)), _draw(4), _EVEN, _draw(2)), {}, (0, 1, 3)),
        Case(((_draw(2), np.array([2.0, 0.5, 1.0])), _draw(4), _EVEN), {"interp": False}, _BOTH),
    ],
    "freqz": [
        Case((*scipy.signal.butter(18, [0.2, 0.3], "band"),), {"worN": 16}, (), smooth=False),
        Case((_NUMERATOR, _DENOMINATOR, np.array([0.25, 0.75])), {}, (0, 1, 2)),
        Case((_draw(3, 2, 1), _DENOMINATOR[:2, np.newaxis], 4), {}, _BOTH),
        Case((_NUMERATOR, _DENOMINATOR, 5), {"fs": 4.0, "whole": True}, _BOTH),
        Case((_NUMERATOR,), {"worN": [0.25, 0.75], "include_nyquist": True}),
    ],
    "freqs": [
        Case((_NUMERATOR, _DENOMINATOR, np.array([0.25, 0.75])), {}, (0, 1, 2)),
        Case((_NUMERATOR, _DENOMINATOR, 5)),
    ],
    "group_delay": [
        Case(((_NUMERATOR, _DENOMINATOR), np.array([0.25, 0.75])), {}, (1,)),
        Case(((_NUMERATOR, _DENOMINATOR), 5), {"fs": 4.0, "whole": True}, (), smooth=False),
    ],
    # A section has a 1 that cannot be moved.
    **{name: [Case((_SECTIONS, np.array([0.25, 0.75])), {}, (1,))] for name in ("freqz_sos", "sosfreqz")},
    "lfilter_zi": [Case((_NUMERATOR, _DENOMINATOR), {}, _BOTH), Case((_DENOMINATOR, _NUMERATOR), {}, _BOTH)],
    "lfiltic": [
        Case((_NUMERATOR, _DENOMINATOR, _ROW, _KERNEL), {}, (0, 1, 2, 3)),
        Case((_DENOMINATOR, _NUMERATOR, _ROW[:1]), {}, (0, 1, 2)),
    ],
    "sosfilt_zi": [Case((_SECTIONS,)), Case((_SECTIONS * [[2.0], [-0.5]],))],
    "hilbert2": [Case((_MATRIX,)), Case((_draw(3, 4, 2), (4, 3), (0, 1)))],
    "order_filter": [Case((_MATRIX, np.ones((3, 1)), 2)), Case((_ROW, np.array([1, 0, 1]), 0))],
    "medfilt": [Case((_MATRIX,)), Case((_ROW, 5))],
    "medfilt2d": [Case((_MATRIX, (1, 3)))],
    "wiener": [Case((_MATRIX, (3, 2))), Case((_ROW,), {"noise": 0.25})],
    "stft": [
        Case((_LONG, 2.0), {"nperseg": 6}),
        Case((_LONG,), {"window": _draw(5), "nperseg": 5, "noverlap": 3, "boundary": "odd"}, (0, "window")),
        Case((_LONG.T.copy(),), {"nperseg": 4, "nfft": 7, "boundary": None, "axis": 0, "scaling": "psd"}),
        Case((_LONG[0],), {"nperseg": 6, "detrend": "linear", "return_onesided": False, "boundary": "even"}),
    ],
    "istft": [
        Case((_SPECTRA,), {}),
        Case((_SPECTRA,), {"window": _draw(5), "nperseg": 5, "noverlap": 3, "boundary": False, "scaling": "psd"}),
        Case((_SPECTRA.T.copy(),), {"time_axis": 0, "freq_axis": 1, "input_onesided": False, "window": "boxcar"}),
    ],
    "csd": [
        Case((_LONG, _LONG[0]), {"nperseg": 6, "fs": 2.0}, _BOTH),
        Case((_LONG[0], _draw(9)), {"nperseg": 5, "average": "median", "return_onesided": False}, _BOTH),
    ],
    "welch": [
        Case((_LONG,), {"nperseg": 6, "scaling": "spectrum"}),
        Case((_LONG.T.copy(),), {"nperseg": 4, "noverlap": 1, "average": "median", "axis": 0, "detrend": False}),
        Case((_LONG[0],), {"window": _draw(6)}, (0, "window")),
    ],
    "periodogram": [Case((_LONG,)), Case((_LONG, 2.0, "hann", 9)), Case((_LONG.T.copy(),), {"nfft": 20, "axis": 0})],
    "spectrogram": [
        *(Case((_LONG,), {"nperseg": 6, "mode": mode}) for mode in ("psd", "complex", "magnitude", "angle", "phase")),
    ],
    "coherence": [Case((_LONG, _LONG[::-1].copy()), {"nperseg": 6}, _BOTH)],
    "resample_poly": [
        Case((_draw(9), 3, 2)),
        Case((_draw(2, 9), 2, 4), {"axis": 1, "window": _draw(5)}, (0, "window")),
    ],
}
CALLS = named_calls(signal, scipy.signal, CASES)


def test_every_function_has_a_case() -> None:
    assert set(signal.__all__) == set(CASES)


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("name", [name for name, (_, _, case) in CALLS.items() if case.smooth])
def test_derivatives_of_first_and_second_order_are_those_of_finite_differences(name: str) -> None:
    ours, _, case = CALLS[name]

    check(ours, case)


@pytest.mark.sampled("dtype")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", CALLS)
def test_values_and_dtypes_are_those_of_scipy(name: str, dtype: Any) -> None:
    check_values(*CALLS[name], dtype=dtype)


def test_the_delay_of_a_filter_has_derivatives_by_its_coefficients_and_a_zero_has_none() -> None:
    check(lambda b, a: signal.group_delay((b, a), 4)[1], Case((_NUMERATOR, _DENOMINATOR), {}, _BOTH))
    with pytest.warns(UserWarning, match="singular near the frequencies"):
        assert signal.group_delay(([1.0, 1.0], [1.0]), [np.pi, 1.0])[1].tolist()[1] == 0.5
    with pytest.warns(UserWarning, match="set to 0"):
        assert signal.group_delay(([1.0, -1.0], [1.0]), [0.0])[1].tolist() == [0.0]


@pytest.mark.parametrize("name", ["convolve", "correlate", "fftconvolve"])
def test_complex_convolutions_have_right_derivatives(name: str) -> None:
    first, second = (ag.tensor(_draw(4) + 1j * _draw(4), requires_grad=True) for _ in range(2))

    assert sync.gradcheck(lambda *args: getattr(signal, name)(*args, mode="same"), (first, second))
    assert sync.gradgradcheck(lambda *args: getattr(signal, name)(*args, mode="same"), (first, second.real))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_convolution_over_pairs_of_axes_is_a_sum_of_convolutions(mode: str, swapped: bool) -> None:
    images, kernels = _draw(2, 3, 5, 4), _draw(6, 3, 2, 3)
    given = (kernels, images) if swapped else (images, kernels)
    expected = [
        [sum(scipy.signal.convolve(one[i], other[i], mode) for i in range(3)) for other in given[1]] for one in given[0]
    ]

    def convolved(*args: Any) -> Any:
        return signal.convolve(*args, mode, axes=([2, 3], [2, 3]), dot_axes=([1], [1]))

    np.testing.assert_allclose(convolved(*given).numpy(), expected, rtol=1e-12)
    assert sync.gradcheck(convolved, tuple(ag.tensor(one[:, :, :3, :4], requires_grad=True) for one in given))


def test_the_inverse_of_a_transform_of_segments_is_the_signal() -> None:
    x = ag.tensor(_LONG + 1j * _LONG[::-1], requires_grad=True)

    def there_and_back(x: Any) -> Any:
        spectra = signal.stft(x, nperseg=6, noverlap=4, return_onesided=False)[2]
        return signal.istft(spectra, nperseg=6, noverlap=4, input_onesided=False)[1]

    np.testing.assert_allclose(there_and_back(x).detach().numpy()[:, :16], x.detach().numpy(), rtol=1e-12)
    assert sync.gradcheck(there_and_back, (x,))
    assert sync.gradgradcheck(lambda x: abs(signal.stft(x, nperseg=6)[2]), (x.real.detach().requires_grad_(),))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: signal.convolve(_ROW, _MATRIX), r"scipy\.signal\.convolve .*as many axes.*\(7,\) and \(4, 5\)"),
        (lambda: signal.convolve(_draw(3, 5), _draw(4, 4), "valid"), r"at least as long.*\(3, 5\) and \(4, 4\)"),
        (lambda: signal.fftconvolve(_ROW, _KERNEL, "some"), "mode 'full', 'same' or 'valid', not 'some'"),
        (lambda: signal.convolve(_MATRIX, _MATRIX, dot_axes=([0], [0])), "dot_axes only with axes"),
        (lambda: signal.convolve(_MATRIX, _MATRIX, axes=([0], [0, 1])), "axes in pairs"),
        (lambda: signal.convolve2d(_ROW, _MATRIX), r"two matrices, not shapes \(7,\) and \(4, 5\)"),
        (lambda: signal.lfilter([1.0], [0.0, 1.0], _ROW), "first is not 0"),
        (lambda: signal.lfilter(_NUMERATOR, [1.0], _ROW, zi=[0.0]), r"1 axes and 2 elements.*not of shape \(1,\)"),
        (lambda: signal.lfilter(_NUMERATOR, [1.0], np.eye(2), zi=[0.0]), r"2 axes and 2 elements.*not of shape \(1,\)"),
        (lambda: signal.filtfilt(_NUMERATOR, [1.0], _ROW), "longer than padlen, which is 9, not of length 7"),
        (lambda: signal.filtfilt(_NUMERATOR, [1.0], _ROW, method="best"), "'pad' or 'gust', not 'best'"),
        (lambda: signal.hilbert(_ROW + 1j), r"pass x\.real"),
        (lambda: signal.savgol_filter(_ROW, 9, 2), "no longer than the signal"),
        (lambda: signal.welch(_ROW, nperseg=4, noverlap=4), "noverlap < nperseg <= nfft, not 4, 4 and 4"),
        (lambda: signal.stft(_ROW, window=np.ones(9)), r"no longer than the signal, not of shape \(9,\)"),
        (lambda: signal.stft(_ROW, scaling="density"), "scaling 'spectrum' or 'psd', not 'density'"),
        (lambda: signal.stft(_ROW, boundary="none"), "'zeros' or None, not 'none'"),
        (lambda: signal.csd(_ROW, _ROW, average="mode"), "average 'mean' or 'median', not 'mode'"),
        (lambda: signal.lfilter_zi(_NUMERATOR, [0.0, 1.0]), "a first a that is not 0"),
        (lambda: signal.sosfilt_zi(np.eye(2, 6)), "sosfilt_zi takes sos whose column 3 has no 0"),
        (lambda: signal.sosfilt(2 * _SECTIONS, _ROW), "takes sos whose column 3 is ones"),
        (lambda: signal.order_filter(_ROW, np.ones(2), 0), r"odd lengths, not of shape \(2,\)"),
    ],
)
def test_errors_name_the_function_and_what_is_wrong(call: Any, message: str) -> None:
    with pytest.raises((AsyncgradError, ValueError), match=message):
        call()


def test_frequencies_of_group_delay_are_as_wide_as_those_of_scipy() -> None:
    system = np.float32([1.0, 0.5]), np.float32([1.0, 0.3])
    for w in (4, np.float32([0.1, 1.0])):
        found, expected = signal.group_delay(system, w)[0].numpy(), scipy.signal.group_delay(system, w)[0]
        assert found.dtype == expected.dtype
