"""The functions of one basis of polynomials, each written for all of them.

Coefficients are given with the constant one first. As in NumPy a result of two series loses the zeros at its end; what
they would have as gradient is lost with them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.arrays.values import raw
from ...core.settings.arguments import whole_index
from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError
from .basis import Basis

__all__ = [
    "FUNCTIONS",
    "add",
    "compose",
    "differentiate",
    "divide",
    "find_roots",
    "fit",
    "from_powers",
    "from_roots",
    "integrate",
    "interpolate",
    "line",
    "multiply",
    "numbers",
    "power",
    "subtract",
    "trim",
    "value",
]


def numbers(value: Any) -> Any:
    """Return a tensor of floating or complex numbers."""
    if isinstance(value, (list, tuple)) and any(isinstance(one, Tensor) for one in value):
        value = np.stack([asarray(one) for one in value])
    tensor = asarray(value)
    return tensor if tensor.dtype.kind in "fc" else tensor.astype(float)


def _row(basis: Basis, name: str, value: Any, *, is_trimmed: bool = True) -> Any:
    """Return the coefficients of one series, without zeros at the end if it `is_trimmed`.

    Raises:
        ValueError: they are none, or of several series.
    """
    row = numbers(value)
    row = row.reshape(1) if row.ndim == 0 else row
    if row.ndim != 1 or not row.size:
        raise ValueError(
            f"numpy.polynomial: {basis.prefix}{name} takes a row of one coefficient or more, not an array of shape "
            f"{row.shape}"
        )
    return _trimmed(row) if is_trimmed else row


def _trimmed(row: Any, tolerance: float = 0.0) -> Any:
    found = np.flatnonzero(~(np.abs(raw(row)) <= tolerance))
    if found.size:
        return row[: int(found[-1]) + 1]
    # A constant of 0 has a gradient as any other; a small one that is made 0 has none.
    return row[:1] * 0.0 if tolerance else row[:1]


def _padded(row: Any, count: int) -> Any:
    missing = count - row.shape[0]
    return np.concatenate([row, np.zeros_like(row, shape=(missing,))]) if missing > 0 else row


def _apply(matrix: Any, coefficients: Any) -> Any:
    """Return a matrix times the coefficients along the first axis, in their dtype."""
    matrix = np.asarray(matrix).astype(raw(coefficients).real.dtype, copy=False)
    return np.tensordot(matrix, coefficients, axes=1)


def _clenshaw(basis: Basis, count: int, coefficient: Callable[[int], Any], multiply: Callable[[Any], Any]) -> Any:
    """Return the sum of the coefficients times the polynomials, by Clenshaw's recurrence from the last one.

    Args:
        basis: of the polynomials.
        count: of the coefficients.
        coefficient: returns the one of a degree.
        multiply: multiplies by the variable.
    """
    later: Any = 0.0
    value = coefficient(count - 1)
    for k in range(count - 2, -1, -1):
        slope, shift, _ = basis.recurrence(k)
        _, _, back = basis.recurrence(k + 1)
        following = coefficient(k) + slope * multiply(value)
        following = following + shift * value if shift else following
        following = following - back * later if back and k < count - 2 else following
        later, value = value, following
    return value


def value(basis: Basis, x: Any, c: Any, tensor: bool = True) -> Any:
    """Return the values of a series at points."""
    c, x = numbers(c), numbers(x)
    c = c.reshape(1) if c.ndim == 0 else c
    if tensor:
        c = c.reshape(c.shape + (1,) * x.ndim)
    if not c.shape[0]:
        raise ValueError(f"numpy.polynomial: {basis.prefix}val takes one coefficient or more, and none is given")
    found = _clenshaw(basis, c.shape[0], lambda k: c[k], lambda part: part * x)
    return found if c.shape[0] > 1 else found + 0.0 * x


def compose(outer: Basis, c: Any, inner: Basis, x: Any) -> Any:
    """Return a series of another series, as one in the basis of that, without zeros at its end."""
    degree = (c.shape[0] - 1) * (x.shape[0] - 1)
    one = np.eye(degree + 1)[0]
    found = _clenshaw(outer, c.shape[0], lambda k: c[k] * one, lambda row: _product(inner, row, x)[: degree + 1])
    return _trimmed(found)


def value_of_many(basis: Basis, name: str, c: Any, points: Sequence[Any]) -> Any:
    """Return the values of a series of several variables."""
    arrays = [numbers(one) for one in points]
    if any(one.shape != arrays[0].shape for one in arrays):
        shapes = ", ".join(str(one.shape) for one in arrays)
        raise ValueError(f"numpy.polynomial: {basis.prefix}{name} takes points of one shape, not of {shapes}")
    found = value(basis, arrays[0], c)
    for one in arrays[1:]:
        found = value(basis, one, found, tensor=False)
    return found


def value2d(basis: Basis, x: Any, y: Any, c: Any) -> Any:
    """Return the values of a series of two variables at points."""
    return value_of_many(basis, "val2d", c, (x, y))


def value3d(basis: Basis, x: Any, y: Any, z: Any, c: Any) -> Any:
    """Return the values of a series of three variables at points."""
    return value_of_many(basis, "val3d", c, (x, y, z))


def grid2d(basis: Basis, x: Any, y: Any, c: Any) -> Any:
    """Return the values of a series of two variables at all pairs of points."""
    return value(basis, y, value(basis, x, c))


def grid3d(basis: Basis, x: Any, y: Any, z: Any, c: Any) -> Any:
    """Return the values of a series of three variables at all triples of points."""
    return value(basis, z, grid2d(basis, x, y, c))


def value_from_roots(basis: Basis, x: Any, r: Any, tensor: bool = True) -> Any:
    """Return the values of the polynomial of given roots."""
    r, x = numbers(r), numbers(x)
    r = r.reshape(1) if r.ndim == 0 else r
    if tensor:
        r = r.reshape(r.shape + (1,) * x.ndim)
    elif x.ndim >= r.ndim:
        raise ValueError("numpy.polynomial: polyvalfromroots with tensor=False takes x of fewer axes than the roots")
    return np.prod(x - r, axis=0)


def vandermonde(basis: Basis, x: Any, deg: int) -> Any:
    """Return the values of all polynomials up to a degree, along a new last axis."""
    degree = whole_index(deg, f"degree of numpy.polynomial: {basis.prefix}vander")
    x = numbers(x)
    x = x.reshape(1) if x.ndim == 0 else x
    columns = [np.ones_like(x)]
    for k in range(degree):
        slope, shift, back = basis.recurrence(k)
        following = slope * x * columns[-1]
        following = following + shift * columns[-1] if shift else following
        columns.append(following - back * columns[-2] if back and k else following)
    return np.stack(columns, axis=-1)


def _vandermonde_of_many(basis: Basis, name: str, points: Sequence[Any], deg: Sequence[int]) -> Any:
    if len(deg) != len(points):
        raise ValueError(f"numpy.polynomial: {basis.prefix}{name} takes {len(points)} degrees, not {len(deg)}")
    result: Any = None
    for place, (one, degree) in enumerate(zip(points, deg, strict=True)):
        part = vandermonde(basis, one, degree)
        spread = part.reshape(part.shape[:-1] + (1,) * place + part.shape[-1:] + (1,) * (len(deg) - place - 1))
        result = spread if result is None else result * spread
    return result.reshape((*result.shape[: -len(deg)], -1))


def vandermonde2d(basis: Basis, x: Any, y: Any, deg: Any) -> Any:
    """Return the values of all products of polynomials of two variables."""
    return _vandermonde_of_many(basis, "vander2d", (x, y), deg)


def vandermonde3d(basis: Basis, x: Any, y: Any, z: Any, deg: Any) -> Any:
    """Return the values of all products of polynomials of three variables."""
    return _vandermonde_of_many(basis, "vander3d", (x, y, z), deg)


def add(basis: Basis, c1: Any, c2: Any) -> Any:
    """Return the sum of two series."""
    # With the zeros at their ends, which have gradients where the other series is as long.
    c1, c2 = _row(basis, "add", c1, is_trimmed=False), _row(basis, "add", c2, is_trimmed=False)
    count = max(c1.shape[0], c2.shape[0])
    return _trimmed(_padded(c1, count) + _padded(c2, count))


def subtract(basis: Basis, c1: Any, c2: Any) -> Any:
    """Return the difference of two series."""
    return add(basis, c1, -numbers(c2))


def multiply_by_x(basis: Basis, c: Any) -> Any:
    """Return the product of a series and its variable."""
    c = _row(basis, "mulx", c)
    if c.shape[0] == 1 and raw(c)[0] == 0:
        return c
    return _apply(basis.times_x(c.shape[0]), c)


def _product(basis: Basis, c1: Any, c2: Any) -> Any:
    if basis.prefix == "poly":
        return np.convolve(c1, c2)
    if c1.shape[0] > c2.shape[0]:
        c1, c2 = c2, c1
    count = c1.shape[0] + c2.shape[0] - 1
    dtype = np.result_type(c1.dtype, c2.dtype)
    wide = _padded(c2.astype(dtype), count)
    # What would be of a higher degree than the product is 0.
    matrix = basis.times_x(count)[:count]
    return _clenshaw(basis, c1.shape[0], lambda k: c1[k] * wide, lambda row: _apply(matrix, row))


def multiply(basis: Basis, c1: Any, c2: Any) -> Any:
    """Return the product of two series."""
    return _trimmed(_product(basis, _row(basis, "mul", c1), _row(basis, "mul", c2)))


def divide(basis: Basis, c1: Any, c2: Any) -> tuple[Any, Any]:
    """Return the quotient of two series, and the remainder."""
    c1, c2 = _row(basis, "div", c1), _row(basis, "div", c2)
    if raw(c2)[-1] == 0:
        raise ZeroDivisionError(f"numpy.polynomial: {basis.prefix}div takes a divisor that is not 0")
    if c1.shape[0] < c2.shape[0]:
        return c1[:1] * 0.0, c1
    if c2.shape[0] == 1:
        return c1 / c2[-1], c1[:1] * 0.0
    quotient: list[Any] = []
    rest = c1
    for degree in range(c1.shape[0] - c2.shape[0], -1, -1):
        part = _product(basis, asarray(np.eye(degree + 1)[degree]), c2)
        factor = rest[-1] / part[-1]
        rest = rest[:-1] - factor * part[:-1]
        quotient.append(factor)
    return np.stack(quotient[::-1]), _trimmed(rest)


def power(basis: Basis, c: Any, pow: Any, maxpower: int | None = 16) -> Any:
    """Return a power of a series."""
    if basis.prefix == "poly" and maxpower == 16:
        maxpower = None
    c = _row(basis, "pow", c)
    exponent = int(pow)
    if exponent != pow or exponent < 0:
        raise ValueError(f"numpy.polynomial: {basis.prefix}pow takes a whole number from 0 on, not {pow!r}")
    if maxpower is not None and exponent > maxpower:
        raise ValueError(f"numpy.polynomial: {basis.prefix}pow takes a power up to maxpower={maxpower}, not {exponent}")
    result = np.ones_like(c, shape=(1,)) if exponent == 0 else c
    for _ in range(exponent - 1):
        result = _product(basis, result, c)
    return result


def _moved(c: Any, axis: int) -> Any:
    c = numbers(c)
    c = c.reshape(1) if c.ndim == 0 else c
    return np.moveaxis(c, axis, 0)


def differentiate(basis: Basis, c: Any, m: int = 1, scl: Any = 1, axis: int = 0) -> Any:
    """Return the m-th derivative of a series along an axis."""
    order = whole_index(m, f"m of numpy.polynomial: {basis.prefix}der")
    c = _moved(c, axis)
    for _ in range(order):
        c = _apply(basis.derivative(c.shape[0]), c) if c.shape[0] > 1 else c[:1] * 0.0
        c = c if type(scl) is int and scl == 1 else c * scl
    return np.moveaxis(c, 0, axis)


def integrate(basis: Basis, c: Any, m: int = 1, k: Any = (), lbnd: Any = 0, scl: Any = 1, axis: int = 0) -> Any:
    """Return the m-th integral of a series along an axis, with constants of integration."""
    order = whole_index(m, f"m of numpy.polynomial: {basis.prefix}int")
    for parameter, number in (("lbnd", lbnd), ("scl", scl)):
        if np.ndim(number):
            raise ValueError(f"numpy.polynomial: {basis.prefix}int takes a number as {parameter}, not {number!r}")
    constants = list(k) if np.iterable(k) else [k]
    if len(constants) > order:
        raise ValueError(
            f"numpy.polynomial: {basis.prefix}int with m={order} takes {order} constants, not {len(constants)}"
        )
    constants += [0] * (order - len(constants))
    c = _moved(c, axis)
    for constant in constants:
        c = c if type(scl) is int and scl == 1 else c * scl
        is_nothing = c.shape[0] == 1 and not np.any(raw(c))
        c = np.concatenate([c[:1] + constant]) if is_nothing else _integral(basis, c, constant, lbnd)
    return np.moveaxis(c, 0, axis)


def _integral(basis: Basis, c: Any, constant: Any, start: Any) -> Any:
    c = _apply(basis.integral(c.shape[0]), c)
    # NumPy's starts at 0.
    at_start = constant if type(start) is int and start == 0 else constant - value(basis, start, c, tensor=False)
    return np.concatenate([c[:1] + at_start, c[1:]])


def line(basis: Basis, off: Any, scl: Any) -> Any:
    """Return the series of off + scl * x."""
    off, scl = numbers(off), numbers(scl)
    if raw(scl) == 0:
        return off.reshape(1)
    slope, shift, _ = basis.recurrence(0)
    return np.stack([off - scl * (shift / slope), scl / slope])


def from_roots(basis: Basis, roots: Any) -> Any:
    """Return the series with given roots, whose greatest power of the variable has the factor 1."""
    roots = numbers(roots)
    roots = roots.reshape(1) if roots.ndim == 0 else roots
    if not roots.shape[0]:
        return np.ones_like(roots, shape=(1,))
    roots = roots[np.argsort(raw(roots))]
    parts = [line(basis, -root, 1.0) for root in roots]
    while len(parts) > 1:
        half = len(parts) // 2
        pairs = [_product(basis, parts[place], parts[place + half]) for place in range(half)]
        if len(parts) % 2:
            pairs[0] = _product(basis, pairs[0], parts[-1])
        parts = pairs
    return parts[0]


def companion(basis: Basis, c: Any) -> Any:
    """Return the companion matrix of a series, whose eigenvalues are its roots."""
    c = _row(basis, "companion", c)
    count = c.shape[0]
    if count < 2:
        raise ValueError(f"numpy.polynomial: {basis.prefix}companion takes a series of degree 1 or more")
    # Its last column is linear in the quotients of the coefficients by the last one.
    none = basis.numpys("companion")(np.eye(count)[-1])
    factors = basis.numpys("companion")(np.ones(count))[:, -1] - none[:, -1]
    dtype = raw(c).real.dtype
    column = none[:, -1].astype(dtype) + factors.astype(dtype) * (c[:-1] / c[-1])
    return np.concatenate(
        [np.broadcast_to(none[:, :-1].astype(dtype), (count - 1, count - 2)), column[:, np.newaxis]], 1
    )


def find_roots(basis: Basis, c: Any) -> Any:
    """Return the roots of a series, in order."""
    c = _row(basis, "roots", c)
    if c.shape[0] < 2:
        return np.zeros_like(c, shape=(0,))
    found = np.linalg.eigvals(companion(basis, c)[::-1, ::-1])
    if c.dtype.kind == "f" and not np.any(raw(found).imag):
        # Since NumPy 2.5 they are complex even so.
        found = np.real(found)
    return found[np.argsort(raw(found))]


def fit(basis: Basis, x: Any, y: Any, deg: Any, rcond: float | None = None, full: bool = False, w: Any = None) -> Any:
    """Return the series that fits points with the least sum of squared errors."""
    x, y = numbers(x), numbers(y)
    degrees = np.sort(np.atleast_1d(np.asarray(deg)))
    if degrees.ndim != 1 or degrees.dtype.kind not in "iu" or not degrees.size:
        raise TypeError(
            f"numpy.polynomial: {basis.prefix}fit takes a whole number or a list of them as deg, not {deg!r}"
        )
    if degrees[0] < 0:
        raise ValueError(f"numpy.polynomial: {basis.prefix}fit takes degrees of 0 or more, not {deg!r}")
    if x.ndim != 1 or not x.size or y.ndim not in (1, 2) or x.shape[0] != y.shape[0]:
        raise TypeError(
            f"numpy.polynomial: {basis.prefix}fit takes x of shape (n,) and y of shape (n,) or (n, k), but the shapes "
            f"are {x.shape} and {y.shape}"
        )
    most = int(degrees[-1])
    chosen = np.arange(most + 1) if np.ndim(deg) == 0 else degrees
    columns, values = vandermonde(basis, x, most)[:, chosen], y
    if w is not None:
        w = numbers(w)
        if w.shape != x.shape:
            raise TypeError(
                f"numpy.polynomial: {basis.prefix}fit takes one weight for each of the {x.shape[0]} points, not shape "
                f"{w.shape}"
            )
        columns, values = columns * w[:, np.newaxis], (values.T * w).T
    if rcond is None:
        rcond = x.shape[0] * float(np.finfo(x.dtype).eps)
    scale = np.sqrt(np.sum(np.square(np.abs(columns)), 0))
    scale = np.where(raw(scale) == 0, 1.0, scale)
    found, residuals, rank, singular = np.linalg.lstsq(columns / scale, values, rcond)
    found = (found.T / scale).T
    if np.ndim(deg):
        found = _placed(found, chosen, most + 1)
    if full:
        return found, [residuals, rank, singular, rcond]
    if int(raw(rank)) != len(chosen):
        warnings.warn("The fit may be poorly conditioned", np.exceptions.RankWarning, stacklevel=4)
    return found


def _placed(found: Any, places: Any, count: int) -> Any:
    """Return coefficients at their places among zeros."""
    selection = np.zeros((count, len(places)))
    selection[places, np.arange(len(places))] = 1.0
    return _apply(selection, found)


def trim(basis: Basis, c: Any, tol: float = 0) -> Any:
    """Return a series without coefficients at its end that are at most `tol` in size."""
    if tol < 0:
        raise ValueError(f"numpy.polynomial: {basis.prefix}trim takes a tol of 0 or more, not {tol}")
    return _trimmed(_row(basis, "trim", c), tol)


def to_powers(basis: Basis, c: Any) -> Any:
    """Return the power series of a series."""
    c = _row(basis, "2poly", c)
    return _apply(basis.to_powers(c.shape[0]), c)


def from_powers(basis: Basis, pol: Any) -> Any:
    """Return the series of a power series."""
    pol = _row(basis, "", pol)
    return _apply(basis.from_powers(pol.shape[0]), pol)


def weight(basis: Basis, x: Any) -> Any:
    """Return the weight with which the polynomials are orthogonal."""
    x = numbers(x)
    forms: dict[str, Callable[[], Any]] = {
        "cheb": lambda: 1 / (np.sqrt(1 + x) * np.sqrt(1 - x)),
        "leg": lambda: x * 0.0 + 1.0,
        "herm": lambda: np.exp(-np.square(x)),
        "herme": lambda: np.exp(-0.5 * np.square(x)),
        "lag": lambda: np.exp(-x),
    }
    return forms[basis.prefix]()


def interpolate(basis: Basis, func: Callable[..., Any], deg: int, args: Any = ()) -> Any:
    """Return the series that interpolates a function at the Chebyshev points of the first kind.

    Raises:
        ArgumentError: the function returns anything but one value for each point.
    """
    degree = whole_index(deg, f"degree of numpy.polynomial: {basis.prefix}interpolate")
    points = np.polynomial.chebyshev.chebpts1(degree + 1)
    values = numbers(func(points, *args))
    if values.shape[:1] != points.shape:
        raise ArgumentError(
            f"numpy.polynomial: chebinterpolate takes a function of {points.size} points that returns as many values, "
            f"not an array of shape {values.shape}"
        )
    factors = np.polynomial.chebyshev.chebvander(points, degree).T * (2 / (degree + 1))
    factors[0] /= 2
    return _apply(factors, values)


#: By what follows the prefix of the name.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": add,
    "companion": companion,
    "der": differentiate,
    "div": divide,
    "fit": fit,
    "fromroots": from_roots,
    "grid2d": grid2d,
    "grid3d": grid3d,
    "int": integrate,
    "interpolate": interpolate,
    "line": line,
    "mul": multiply,
    "mulx": multiply_by_x,
    "pow": power,
    "roots": find_roots,
    "sub": subtract,
    "trim": trim,
    "val": value,
    "val2d": value2d,
    "val3d": value3d,
    "valfromroots": value_from_roots,
    "vander": vandermonde,
    "vander2d": vandermonde2d,
    "vander3d": vandermonde3d,
    "weight": weight,
    "2poly": to_powers,
}
