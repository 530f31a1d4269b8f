"""Recursive filters along an axis, forwards and backwards, and filters by polynomials.

A recursive filter is linear in its input, and in the numerator of its transfer function. Its transpose in the input is
the same filter run backwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import signal

from ...core.arrays.axes import axis_index
from ...core.arrays.values import raw
from ...core.recording.primitive import derivative, primitive
from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError
from ..arguments import double, floating
from ..linalg import lstsq
from .convolution import convolve

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = [
    "continue_ends",
    "deconvolve",
    "filtfilt",
    "lfilter",
    "lfilter_zi",
    "lfiltic",
    "savgol_filter",
    "sections",
    "sosfilt",
    "sosfilt_zi",
    "sosfiltfilt",
]


def _one(like: Any) -> Any:
    """Return the coefficients of the filter that changes nothing, in a dtype."""
    return np.ones(1, raw(like).dtype)


@primitive()
def filter_(b: Any, a: Any, x: Any) -> Any:
    """Return the output of a filter along the last axis, from rest; `a` begins with 1."""
    return signal.lfilter(b, a, x)


@derivative(filter_, "x")
def _(g: Array, b: Any, a: Any) -> Array:
    return np.flip(filter_.call(b, a, np.flip(g, -1)), -1)


@derivative(filter_, "b")
def _(g: Array, a: Any, x: Any, b_shape: tuple[int, ...]) -> Array:
    return delayed_products_.call(g, filter_.call(_one(a), a, x), b_shape[0])


@derivative(filter_, "a")
def _(g: Array, a: Array, out: Array, a_shape: tuple[int, ...]) -> Array:
    return -delayed_products_.call(g, filter_.call(_one(a), a, out), a_shape[0])


@primitive()
def delayed_products_(y: Any, x: Any, count: int) -> Array:
    """Return the sums of products of `y` with `x` delayed along the last axis by 0 to `count - 1` elements."""
    length = x.shape[-1]
    sums = [np.sum(y[..., delay:] * x[..., : length - delay]) for delay in range(min(count, length))]
    return np.array([*sums, *[0] * (count - len(sums))], np.result_type(y, x))


@derivative(delayed_products_, "y")
def _(g: Array, x: Any) -> Array:
    return filter_.call(g, _one(g), x)


@derivative(delayed_products_, "x")
def _(g: Array, y: Any) -> Array:
    return np.flip(filter_.call(g, _one(g), np.flip(y, -1)), -1)


def lfilter(b: Any, a: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """Return a signal filtered by a rational transfer function; with `zi` also the state at the end.

    Args:
        b: the coefficients of the numerator, shape (m,).
        a: those of the denominator, shape (n,); the first is not 0.
        x: the signal.
        axis: along which it is filtered.
        zi: the state at the start, of the shape of `x` but for max(m, n) - 1 elements along the axis.

    Returns:
        A Tensor of the shape of `x`; with `zi` a pair of it and the state at the end.

    Raises:
        ArgumentError: the coefficients are not one-dimensional, or `a` begins with 0.

    Source: scipy.signal.lfilter.

    Example:
        >>> from asyncgrad.scipy import signal
        >>> signal.lfilter([1.0], [1.0, -0.5], [1.0, 0.0, 0.0]).tolist()
        [1.0, 0.5, 0.25]
    """
    b, a = (np.atleast_1d(floating(one)) for one in (b, a))
    for name, one in (("b", b), ("a", a)):
        if one.ndim != 1 or not one.size:
            raise ArgumentError(f"scipy.signal.lfilter takes {name} of shape (n,), n > 0, not {one.shape}")
    if raw(a)[0] == 0:
        raise ArgumentError("scipy.signal.lfilter takes coefficients a whose first is not 0")
    x = floating(x)
    axis = axis_index(axis, x.ndim)
    x = x.swapaxes(axis, -1)
    b, a = b / a[0], a / a[0]
    if zi is None:
        return filter_.call(b, a, x).swapaxes(axis, -1)
    zi = floating(zi)
    order = max(b.size, a.size) - 1
    if zi.ndim != x.ndim or zi.shape[axis] != order:
        raise ArgumentError(
            f"scipy.signal.lfilter takes zi with {x.ndim} axes and {order} elements along axis {axis}, not of shape "
            f"{zi.shape}"
        )
    zi = zi.swapaxes(axis, -1)
    y = _from_state(b, a, x, zi)
    return y.swapaxes(axis, -1), _last_state(b, a, x, y, zi).swapaxes(axis, -1)


def _from_state(b: Any, a: Any, x: Array, zi: Any) -> Any:
    """Return the output of a filter from a state, which counts as an input that only the denominator filters."""
    length = x.shape[-1]
    zi = np.broadcast_to(zi, (*x.shape[:-1], zi.shape[-1]))
    entering = np.pad(zi[..., :length], [(0, 0)] * (x.ndim - 1) + [(0, max(length - zi.shape[-1], 0))])
    return filter_.call(b, a, x) + filter_.call(_one(a), a, entering)


def _last_state(b: Any, a: Any, x: Array, y: Any, zi: Any) -> Any:
    """Return the state of a filter after its input: what its last inputs and outputs add to the outputs to come."""
    order, length = zi.shape[-1], x.shape[-1]
    b, a = (np.pad(one, (0, order + 1 - one.size)) for one in (b, a))
    states = []
    for index in range(order):
        count = min(order - index, length)
        # The latest input counts with the coefficient of the next delay.
        later = np.flip(x[..., length - count :], -1) * b[index + 1 : index + 1 + count]
        later = later - np.flip(y[..., length - count :], -1) * a[index + 1 : index + 1 + count]
        state = np.sum(later, -1)
        states.append(state + zi[..., index + length] if index + length < order else state)
    return np.stack(states, -1) if states else np.broadcast_to(zi, (*x.shape[:-1], 0))


def sosfilt(sos: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """Return a signal filtered by sections of second order, one after another; with `zi` also their states at the end.

    Args:
        sos: the coefficients, shape (n, 6), each row (b0, b1, b2, 1, a1, a2).
        x: the signal.
        axis: along which it is filtered.
        zi: the states at the start, shape (n, ..., 2, ...), where 2 takes the place of the length along the axis.

    Source: scipy.signal.sosfilt.
    """
    sos, x = sections(sos), floating(x)
    if zi is None:
        for section in sos:
            x = lfilter(section[:3], section[3:], x, axis)
        return x
    states = []
    for section, state in zip(sos, floating(zi), strict=True):
        x, last = lfilter(section[:3], section[3:], x, axis, state)
        states.append(last)
    return x, np.stack(states)


def sections(sos: Any) -> Any:
    """Return sections of second order, shape (n, 6), whose column 3 is ones; others are refused."""
    sos = _of_any_scale(sos)
    if not (raw(sos)[:, 3] == 1).all():
        raise ArgumentError("a filter by sections takes sos whose column 3 is ones: divide each section by its own")
    return sos


def _of_any_scale(sos: Any) -> Any:
    """Return sections whose column 3 need not be ones; one section may be a vector."""
    sos = floating(sos)
    sos = sos[np.newaxis] if sos.ndim == 1 else sos
    if sos.ndim != 2 or sos.shape[1] != 6:
        raise ArgumentError(f"a filter by sections takes sos of shape (n, 6), not {sos.shape}")
    return sos


def filtfilt(
    b: Any,
    a: Any,
    x: Any,
    axis: int = -1,
    padtype: str | None = "odd",
    padlen: int | None = None,
    method: str = "pad",
    irlen: int | None = None,
) -> Tensor:
    """Return a signal filtered forwards and then backwards, so that no phase is shifted.

    Args:
        b: the coefficients of the numerator, shape (m,).
        a: those of the denominator, shape (n,).
        x: the signal.
        axis: along which it is filtered.
        padtype: how it is extended at both ends: "odd", "even", "constant" or None.
        padlen: by how many elements; None for three times max(m, n).
        method: "pad", or "gust" for Gustafsson's method, which does not extend the signal: it takes the states at both
            ends with which the order of the two directions matters least.
        irlen: after so many elements the response to an impulse counts as 0, for "gust"; None for never.

    Raises:
        ArgumentError: `method` is another, or the signal is not longer than `padlen`.

    Source: scipy.signal.filtfilt; Gustafsson, Determining the Initial States in Forward-Backward Filtering, 1996.
    """
    if method not in ("pad", "gust"):
        raise ArgumentError(f"scipy.signal.filtfilt takes method 'pad' or 'gust', not {method!r}")
    b, a = np.atleast_1d(floating(b)), np.atleast_1d(floating(a))
    x = floating(x).swapaxes(axis, -1)
    if method == "gust":
        return _from_best_states(b, a, x, irlen).swapaxes(axis, -1)
    edge = _edge_length(3 * max(b.size, a.size), padtype, padlen, x.shape[-1])
    steady = _steady_state(b, a)
    extended = continue_ends(x, padtype, edge)
    forwards, _ = lfilter(b, a, extended, zi=steady * extended[..., :1])
    forwards = np.flip(forwards, -1)
    backwards, _ = lfilter(b, a, forwards, zi=steady * forwards[..., :1])
    return _without_edges(np.flip(backwards, -1), edge).swapaxes(axis, -1)


def _from_best_states(b: Any, a: Any, x: Any, irlen: int | None) -> Any:
    """Return a signal filtered in both directions, from the states whose result depends least on which comes first.

    Both orders begin from rest. Their difference at the ends is told by the states there, by least squares.
    """
    order, length = max(b.size, a.size) - 1, x.shape[-1]
    if not order:
        return (b[0] / a[0]) ** 2 * x
    reach = length if irlen is None or length <= 2 * irlen else irlen
    # By state at the start: the output of what is at rest otherwise, and what it becomes on the way back.
    impulse = np.zeros(reach, raw(x).dtype)
    impulse[0] = 1
    response = lfilter(_one(a), a, impulse)
    forwards = np.stack([np.pad(response[: max(reach - k, 0)], (min(k, reach), 0)) for k in range(order)], 1)
    onwards = lfilter(b, a, np.flip(forwards, 0), 0)
    backwards = np.flip(onwards, 0)

    later = _backwards(b, a, lfilter(b, a, x))
    difference = lfilter(b, a, _backwards(b, a, x)) - later
    if reach == length:
        found = _states(np.concatenate([backwards - forwards, np.flip(forwards, 0) - onwards], 1), difference)
        return later + found @ np.concatenate([backwards, np.flip(forwards, 0)], 1).T
    # The ends know nothing of each other.
    first = _states(backwards - forwards, difference[..., :reach])
    last = _states(np.flip(forwards, 0) - onwards, difference[..., length - reach :])
    middle = np.zeros((*x.shape[:-1], length - 2 * reach), raw(later).dtype)
    return later + np.concatenate([first @ backwards.T, middle, last @ np.flip(forwards, 0).T], -1)


def _backwards(b: Any, a: Any, x: Any) -> Any:
    return np.flip(lfilter(b, a, np.flip(x, -1)), -1)


def _states(matrix: Any, outputs: Any) -> Any:
    """Return the states, shape (..., n), that tell outputs, shape (..., m), best; `matrix` has the outputs of each."""
    found = lstsq(matrix, outputs.reshape((-1, outputs.shape[-1])).T)[0]
    return found.T.reshape((*outputs.shape[:-1], matrix.shape[1]))


def sosfiltfilt(sos: Any, x: Any, axis: int = -1, padtype: str | None = "odd", padlen: int | None = None) -> Tensor:
    """Return a signal filtered by sections of second order, forwards and then backwards.

    Args:
        sos: as for `sosfilt`.
        x: the signal.
        axis: along which it is filtered.
        padtype: as for `filtfilt`.
        padlen: as for `filtfilt`.

    Source: scipy.signal.sosfiltfilt.
    """
    sos = sections(sos)
    x = floating(x).swapaxes(axis, -1)
    zeros = min(int(np.sum(raw(sos)[:, 2] == 0)), int(np.sum(raw(sos)[:, 5] == 0)))
    edge = _edge_length(3 * (2 * len(sos) + 1 - zeros), padtype, padlen, x.shape[-1])
    steady = _steady_states(sos)
    extended = continue_ends(x, padtype, edge)
    for _ in range(2):
        first = extended[..., :1]
        extended, _ = sosfilt(sos, extended, zi=np.stack([state * first for state in steady]))
        extended = np.flip(extended, -1)
    return _without_edges(extended, edge).swapaxes(axis, -1)


def _edge_length(default: int, padtype: str | None, padlen: int | None, length: int) -> int:
    if padtype not in ("odd", "even", "constant", None):
        raise ArgumentError(f"padtype must be 'odd', 'even', 'constant' or None, not {padtype!r}")
    edge = 0 if padtype is None else default if padlen is None else max(padlen, 0)
    if length <= edge:
        raise ArgumentError(f"the signal must be longer than padlen, which is {edge}, not of length {length}")
    return edge


def continue_ends(x: Any, padtype: str | None, edge: int) -> Any:
    """Return a signal with its ends continued along the last axis."""
    if padtype is None or not edge:
        return x
    first, last = x[..., :1], x[..., -1:]
    before, after = np.flip(x[..., 1 : edge + 1], -1), np.flip(x[..., -edge - 1 : -1], -1)
    if padtype == "odd":
        before, after = 2 * first - before, 2 * last - after
    elif padtype == "constant":
        before, after = (np.broadcast_to(end, before.shape) for end in (first, last))
    return np.concatenate([before, x, after], -1)


def _without_edges(x: Array, edge: int) -> Any:
    return x[..., edge : x.shape[-1] - edge]


def _steady_state(b: Any, a: Any) -> Any:
    """Return the state of a filter whose input has been 1 for ever.

    Source: scipy.signal.lfilter_zi.
    """
    order = max(b.size, a.size)
    b, a = b / a[0], a / a[0]
    b, a = (np.pad(one, (0, order - one.size)) for one in (b, a))
    if order == 1:
        return b[1:]
    # The companion matrix in terms of which the state moves on.
    shift = np.eye(order - 1, k=1, dtype=raw(a).dtype)
    column = np.zeros((1, order - 1), raw(a).dtype)
    column[0, 0] = 1
    companion = shift - a[1:, np.newaxis] * column
    return np.linalg.solve(np.eye(order - 1, dtype=raw(a).dtype) - companion, b[1:] - a[1:] * b[0])


def _steady_states(sos: Any) -> list[Any]:
    """Return the state of each section whose input before the first one has been 1 for ever."""
    states, scale = [], 1.0
    for section in sos:
        states.append(scale * _steady_state(section[:3], section[3:]))
        scale = scale * np.sum(section[:3]) / np.sum(section[3:])
    return states


def lfilter_zi(b: Any, a: Any) -> Tensor:
    """Return the state of a filter whose input has been 1 for ever, for the zi of `lfilter`.

    Source: scipy.signal.lfilter_zi.
    """
    return _steady_state(*_coefficients("lfilter_zi", b, a))


def sosfilt_zi(sos: Any) -> Tensor:
    """Return the states of sections whose input has been 1 for ever, for the zi of `sosfilt`: shape (n, 2).

    Raises:
        ArgumentError: `sos` has another shape than (n, 6), or a 0 in column 3.

    Source: scipy.signal.sosfilt_zi.
    """
    sos = _of_any_scale(sos)
    if (raw(sos)[:, 3] == 0).any():
        raise ArgumentError("scipy.signal.sosfilt_zi takes sos whose column 3 has no 0")
    return np.stack(_steady_states(sos))


def lfiltic(b: Any, a: Any, y: Any, x: Any = None) -> Tensor:
    """Return the state of a filter after given outputs and inputs, the latest first, for the zi of `lfilter`.

    Source: scipy.signal.lfiltic.
    """
    b, a = _coefficients("lfiltic", b, a)
    b, a = b / a[0], a / a[0]
    order = max(b.size, a.size) - 1
    # Numbers of other kinds take the dtype of the coefficients.
    dtype = np.result_type(b.dtype, a.dtype, *(asarray(one).dtype for one in (y, x) if one is not None))
    outputs = np.atleast_1d(asarray(y)).astype(dtype, copy=False)[:order]
    inputs = outputs[:0] if x is None else np.atleast_1d(asarray(x)).astype(dtype, copy=False)[:order]
    outputs, inputs = (np.pad(one, (0, order - one.size)) for one in (outputs, inputs))
    b, a = (np.pad(one, (0, order + 1 - one.size)) for one in (b, a))
    # What is still to come of an input by a delay, less what its outputs take away.
    places = np.arange(1, order + 1)[:, np.newaxis] + np.arange(order)
    is_inside, places = places <= order, np.minimum(places, order)
    return np.where(is_inside, b[places], 0.0) @ inputs - np.where(is_inside, a[places], 0.0) @ outputs


def _coefficients(name: str, b: Any, a: Any) -> tuple[Any, Any]:
    b, a = (np.atleast_1d(floating(one)) for one in (b, a))
    if b.ndim != 1 or a.ndim != 1 or not b.size or not a.size or raw(a)[0] == 0:
        raise ArgumentError(
            f"scipy.signal.{name} takes coefficients of shapes (m,) and (n,), with a first a that is not 0, not "
            f"{b.shape} and {a.shape}"
        )
    return b, a


def deconvolve(signal: Any, divisor: Any) -> tuple[Tensor, Tensor]:
    """Return the quotient and the rest of one signal divided by another, as by polynomials.

    Source: scipy.signal.deconvolve.
    """
    given, by = (np.atleast_1d(floating(one)) for one in (signal, divisor))
    length = given.size - by.size + 1
    if length < 1 and given.ndim == by.ndim == 1:
        # As SciPy's: the rest is the signal, in its dtype.
        return given[:0], np.atleast_1d(asarray(signal))
    numerator, denominator = _coefficients("deconvolve", signal, divisor)
    impulse = np.zeros(length)
    impulse[0] = 1
    quotient = lfilter(numerator, denominator, impulse)
    return quotient, numerator - convolve(denominator, quotient)


# By polynomials.


def savgol_filter(
    x: Any,
    window_length: int,
    polyorder: int,
    deriv: int = 0,
    delta: Any = 1.0,
    axis: int = -1,
    mode: str = "interp",
    cval: float = 0.0,
) -> Tensor:
    """Return a signal smoothed, or differentiated, by polynomials that are fitted to windows of it.

    Args:
        x: the signal.
        window_length: the number of elements that a polynomial is fitted to.
        polyorder: its degree.
        deriv: the order of the derivative of it that is taken.
        delta: the spacing of the samples.
        axis: along which it is filtered.
        mode: what lies beyond the ends: "interp", the polynomials of the first and last windows, or "mirror",
            "constant", "nearest" or "wrap".
        cval: the constant.

    Source: scipy.signal.savgol_filter.
    """
    borders = {"mirror": "reflect", "nearest": "edge", "wrap": "wrap", "constant": "constant", "interp": None}
    if mode not in borders:
        raise ValueError(f"scipy.signal.savgol_filter takes mode {', '.join(map(repr, borders))}, not {mode!r}")
    x = floating(x)
    x = (x if x.dtype.char in "fdFD" else double(x)).swapaxes(axis, -1)
    weights = signal.savgol_coeffs(window_length, polyorder, deriv=deriv)
    weights = weights.astype(x.dtype, copy=False).reshape((1,) * (x.ndim - 1) + (-1,))
    half = window_length // 2
    if mode == "interp":
        if window_length > x.shape[-1]:
            raise ValueError(
                "scipy.signal.savgol_filter with mode='interp' takes a window that is no longer than the signal, not "
                f"{window_length} and {x.shape[-1]}"
            )
        result = _with_fitted_ends(x, convolve(x, weights, "valid", "direct"), window_length, polyorder, deriv)
    else:
        # An even number of elements has two middles, and SciPy takes the earlier one.
        widths = [(0, 0)] * (x.ndim - 1) + [(window_length - 1 - half, half)]
        values: Any = {"constant_values": cval} if mode == "constant" else {}
        padded = np.pad(x, widths, **{"mode": borders[mode], **values})
        result = convolve(padded, weights, "valid", "direct")
    if deriv:
        # The samples are that far apart.
        result = result * (floating(delta) ** -float(deriv)).astype(x.dtype, copy=False)
    return result.swapaxes(axis, -1)


def _with_fitted_ends(x: Any, inside: Any, window_length: int, polyorder: int, deriv: int) -> Any:
    """Return what windows around each element give, with the ends taken from the first and last window."""
    half = window_length // 2
    ends = [
        np.array(
            [
                signal.savgol_coeffs(window_length, polyorder, deriv=deriv, pos=position, use="dot")
                for position in positions
            ]
        ).reshape(half, window_length)
        for positions in (range(half), range(window_length - half, window_length))
    ]
    first, last = (weights.astype(raw(x).dtype, copy=False) for weights in ends)
    inside = inside[..., 1 - window_length % 2 :]
    parts = [x[..., :window_length] @ first.T, inside, x[..., x.shape[-1] - window_length :] @ last.T]
    return np.concatenate(parts, -1)
