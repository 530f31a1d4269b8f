"""Linear systems in continuous time, simulated at equal steps."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import signal

from ...core.arrays.values import raw
from ...core.tensor import Tensor
from ..arguments import floating
from ..linalg import expm

__all__ = ["lsim"]


def lsim(system: Any, U: Any, T: Any, X0: Any = None, interp: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """Return the times, the outputs and the states of a linear system that starts at rest or at `X0`.

    All three are differentiable by the matrices of the system, its input, the times and `X0`.

    Args:
        system: (A, B, C, D), with `x' = A @ x + B @ u` and `y = C @ x + D @ u`; (numerator, denominator); or SciPy's
            `lti`, or (zeros, poles, gain), which have no derivative.
        U: the input at each time, shape (n,) or (n, k); 0 or None for none.
        T: the times, equally spaced, shape (n,); the first is not negative.
        X0: the state at time 0, shape (n,); or one number for all of it.
        interp: whether the input is linear between times; otherwise it stays as it is.

    Raises:
        ValueError: shapes do not fit, or the times are not equally spaced.

    Source: scipy.signal.lsim.

    Example:
        >>> from asyncgrad.scipy import signal
        >>> t, y, x = signal.lsim(([[0.0]], [[1.0]], [[1.0]], [[0.0]]), [1.0, 1.0, 1.0], [0.0, 1.0, 2.0])
        >>> y.tolist()
        [0.0, 1.0, 2.0]
    """
    a, b, c, d = _matrices(system)
    times = np.atleast_1d(floating(T))
    if times.ndim != 1 or not times.size:
        raise ValueError(f"scipy.signal.lsim takes times of shape (n,), n > 0, not {times.shape}")
    if raw(times)[0] < 0:
        raise ValueError(f"scipy.signal.lsim takes times from 0 on, not from {raw(times)[0]}")
    steps = np.diff(raw(times))
    if steps.size and not np.allclose(steps, steps[0]):
        raise ValueError("scipy.signal.lsim takes times that are equally spaced")
    state = np.broadcast_to(floating(0.0 if X0 is None else X0), a.shape[:1])
    if raw(times)[0] > 0:
        state = expm(a * times[0]) @ state
    inputs = _inputs(U, times.size, b.shape[1])
    states = [state]
    if times.size > 1:
        states.extend(_steps(a, b, times[1] - times[0], state, inputs, times.size, interp))
    found = np.stack(states).astype(a.dtype, copy=False)
    outputs = found @ c.T
    if inputs is not None:
        outputs = outputs + inputs @ d.T
    return times, np.squeeze(outputs), np.squeeze(found)


def _matrices(system: Any) -> tuple[Any, Any, Any, Any]:
    if isinstance(system, signal.dlti):
        raise ValueError("scipy.signal.lsim takes a system in continuous time, not a dlti")
    if isinstance(system, (tuple, list)) and len(system) == 4:
        a, b, c, d = (np.atleast_2d(floating(one)) for one in system)
    elif isinstance(system, (tuple, list)) and len(system) == 2 and np.ndim(system[0]) == 1:
        a, b, c, d = _of_polynomials(*(np.atleast_1d(floating(one)) for one in system))
    else:
        given = (system if isinstance(system, signal.lti) else signal.lti(*map(_plain, system))).to_ss()
        a, b, c, d = (floating(one) for one in (given.A, given.B, given.C, given.D))
    count = a.shape[0]
    if a.shape[1] != count or b.shape[0] != count or c.shape[1] != count or d.shape != (c.shape[0], b.shape[1]):
        raise ValueError(
            "scipy.signal.lsim takes matrices of shapes (n, n), (n, k), (m, n) and (m, k), not "
            f"{a.shape}, {b.shape}, {c.shape} and {d.shape}"
        )
    return a, b, c, d


def _of_polynomials(numerator: Any, denominator: Any) -> tuple[Any, Any, Any, Any]:
    """Return the matrices of a system with one input and one output, in the form that SciPy gives it."""
    numerator, denominator = (one[np.argmax(raw(one) != 0) :] for one in (numerator, denominator))
    size = denominator.shape[0] - 1
    if numerator.shape[0] > size + 1 or not raw(denominator)[0]:
        raise ValueError(
            "scipy.signal.lsim takes a numerator of a degree that is no higher than the denominator's, not shapes "
            f"{numerator.shape} and {denominator.shape}"
        )
    numerator, denominator = numerator / denominator[0], denominator / denominator[0]
    numerator = np.pad(numerator, (size + 1 - numerator.shape[0], 0))
    if not size:
        return np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1)), numerator.reshape((1, 1))
    a = np.concatenate([-denominator[np.newaxis, 1:], np.eye(size - 1, size)])
    c = numerator[np.newaxis, 1:] - numerator[0] * denominator[np.newaxis, 1:]
    return a, np.eye(size, 1), c, numerator[:1].reshape((1, 1))


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor) and value.requires_grad:
        raise ValueError(
            "scipy.signal.lsim has a derivative by (A, B, C, D) and by polynomials, not by (zeros, poles, gain)"
        )
    return raw(value)


def _inputs(U: Any, count: int, width: int) -> Any:
    """Return the input with a row for each time, or None if there is none."""
    if U is None or (isinstance(U, (int, float)) and U == 0):
        return None
    inputs = np.atleast_1d(floating(U))
    inputs = inputs[:, np.newaxis] if inputs.ndim == 1 else inputs
    if inputs.shape != (count, width):
        raise ValueError(f"scipy.signal.lsim takes inputs U of shape ({count}, {width}) here, not {inputs.shape}")
    return inputs


def _steps(a: Any, b: Any, step: Any, state: Any, inputs: Any, count: int, interp: bool) -> list[Any]:
    """Return the states after each step."""
    size, width = b.shape
    if inputs is None:
        moved = expm(a * step)
        weights: list[Any] = []
    else:
        # The exponential of a system whose input, or the slope of it, is a state as well.
        orders = 2 if interp else 1
        whole = np.concatenate([a * step, b * step, np.zeros((size, width * (orders - 1)))], 1)
        rest = np.eye(width * orders, k=width) if interp else np.zeros((width, width))
        lower = np.concatenate([np.zeros((width * orders, size)), rest], 1)
        both = expm(np.concatenate([whole, lower]))[:size]
        moved = both[:, :size]
        weights = [both[:, size + width * order : size + width * (order + 1)] for order in range(orders)]
    states = []
    for index in range(1, count):
        state = moved @ state
        if inputs is not None:
            state = state + weights[0] @ inputs[index - 1]
            if interp:
                state = state + weights[1] @ (inputs[index] - inputs[index - 1])
        states.append(state)
    return states
