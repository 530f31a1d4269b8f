"""The classes of `numpy.polynomial`, whose coefficients are Tensors."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator
from typing import Any, Self, final

import numpy as np
from numpy.polynomial import polyutils

from ...core.arrays.values import raw
from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError
from . import series
from .basis import BASES, Basis

__all__ = ["Chebyshev", "Hermite", "HermiteE", "Laguerre", "Legendre", "Polynomial", "Series"]


class Series(ABC):
    """Abstract: a series of polynomials by its coefficients, as NumPy's class of the same name.

    It is differentiable by the coefficients, also through arithmetic, by where it is called, and by a domain and a
    window that require grad. NumPy's names that are not here are about texts and pictures.

    Args:
        coef: the coefficients, shape (n,), that of degree 0 first; a tensor of floating numbers is shared.
        domain: the interval that is mapped to the window, shape (2,); None for the class's.
        window: the interval in which the polynomials are taken, shape (2,); None for the class's.
        symbol: the name of the variable; series of different ones do not meet.

    Attributes:
        coef: the coefficients, a Tensor.
        domain: an array; a Tensor if it requires grad.
        window: an array; a Tensor if it requires grad.
        symbol: the name of the variable.

    Raises:
        ValueError: the coefficients are none, or no row; or the symbol is no name of Python's.

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad.numpy.polynomial import Polynomial
        >>> coefficients = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
        >>> ag.sync.backward(Polynomial(coefficients).deriv()(0.5))
        >>> coefficients.grad.tolist()
        [0.0, 1.0, 1.0]
    """

    __slots__ = ("coef", "domain", "symbol", "window")

    #: Has tensors and arrays leave an operation to this class.
    __array_ufunc__ = None
    _basis: Basis
    _interval = (-1.0, 1.0)
    _most = 100

    def __init__(self, coef: Any, domain: Any = None, window: Any = None, symbol: str = "x") -> None:
        row = series.numbers(coef)
        row = row.reshape(1) if row.ndim == 0 else row
        if row.ndim != 1 or not row.size:
            raise ValueError(
                f"numpy.polynomial.{type(self).__name__} takes a row of one coefficient or more, not an array of shape "
                f"{row.shape}"
            )
        if not isinstance(symbol, str):
            raise TypeError(f"numpy.polynomial.{type(self).__name__} takes a text as symbol, not {symbol!r}")
        if not symbol.isidentifier():
            raise ValueError(
                f"numpy.polynomial.{type(self).__name__} takes a name of Python's as symbol, not {symbol!r}"
            )
        self.coef: Tensor = row
        self.symbol: str = symbol
        self.domain: Any = self._ends("domain", domain)
        self.window: Any = self._ends("window", window)

    @classmethod
    def _ends(cls, name: str, interval: Any) -> Any:
        if interval is None or (isinstance(interval, list) and not interval):
            return np.array(cls._interval)
        is_recorded = isinstance(interval, Tensor) and interval.requires_grad
        ends = series.numbers(interval) if is_recorded else series.numbers(np.array(raw(asarray(interval)))).numpy()
        if ends.shape != (2,):
            raise ValueError(f"numpy.polynomial.{cls.__name__} takes a {name} of two numbers, not {interval!r}")
        return ends

    def _like(self, coef: Any) -> Self:
        return type(self)(coef, self.domain, self.window, self.symbol)

    def mapparms(self) -> tuple[Any, Any]:
        """Return the offset and the scale of the map from the domain to the window."""
        found: tuple[Any, Any] = polyutils.mapparms(self.domain, self.window)
        return found

    def __call__(self, arg: Any) -> Any:
        """Return the values at points, or the series of another one's values."""
        offset, scale = self.mapparms()
        if not isinstance(arg, Series):
            return series.value(self._basis, offset + scale * series.numbers(arg), self.coef)
        inner = arg * scale + offset
        return arg._like(series.compose(self._basis, self.coef, inner._basis, inner.coef))

    def degree(self) -> int:
        """Return the degree, which counts coefficients that are 0."""
        return len(self) - 1

    def deriv(self, m: int = 1) -> Self:
        """Return the m-th derivative."""
        return self._like(series.differentiate(self._basis, self.coef, m, _number(self.mapparms()[1])))

    def integ(self, m: int = 1, k: Any = (), lbnd: Any = None) -> Self:
        """Return the m-th integral, with constants of integration and where it begins; None for 0 in the window."""
        offset, scale = self.mapparms()
        start = 0 if lbnd is None else offset + scale * series.numbers(lbnd)
        return self._like(series.integrate(self._basis, self.coef, m, k, start, _number(1 / scale)))

    def roots(self) -> Tensor:
        """Return the roots, in order."""
        offset, scale = polyutils.mapparms(self.window, self.domain)
        found: Tensor = offset + scale * series.find_roots(self._basis, self.coef)
        return found

    def trim(self, tol: float = 0) -> Self:
        """Return the series without coefficients at its end that are at most `tol` in size."""
        return self._like(series.trim(self._basis, self.coef, tol))

    def truncate(self, size: int) -> Self:
        """Return the series with its first coefficients."""
        if int(size) != size or size < 1:
            raise ValueError(f"numpy.polynomial.{type(self).__name__}.truncate takes a positive number, not {size}")
        return self._like(self.coef[: int(size)])

    def cutdeg(self, deg: int) -> Self:
        """Return the series up to a degree."""
        return self.truncate(deg + 1)

    def copy(self) -> Self:
        """Return a series of the same coefficients."""
        return self._like(self.coef)

    def linspace(self, n: int = 100, domain: Any = None) -> tuple[Tensor, Tensor]:
        """Return evenly spaced points of the domain, or of another one, and the values there."""
        first, last = self.domain if domain is None else domain
        points = asarray(np.linspace(first, last, n))
        return points, self(points)

    def convert(self, domain: Any = None, kind: type[Series] | None = None, window: Any = None) -> Any:
        """Return the same function as a series of another class, which may be NumPy's, domain or window."""
        wanted = type(self) if kind is None else kind if issubclass(kind, Series) else _class_of(kind)
        return self(wanted.identity(domain, window, self.symbol))

    @classmethod
    def cast(cls, series: Series, domain: Any = None, window: Any = None) -> Self:
        """Return a series of another class as one of this."""
        found: Self = series.convert(domain, cls, window)
        return found

    @classmethod
    def identity(cls, domain: Any = None, window: Any = None, symbol: str = "x") -> Self:
        """Return the series whose values are its points."""
        domain, window = cls._ends("domain", domain), cls._ends("window", window)
        offset, scale = polyutils.mapparms(window, domain)
        return cls(series.line(cls._basis, offset, scale), domain, window, symbol)

    @classmethod
    def basis(cls, deg: int, domain: Any = None, window: Any = None, symbol: str = "x") -> Self:
        """Return one polynomial of the basis."""
        if int(deg) != deg or deg < 0:
            raise ValueError(f"numpy.polynomial.{cls.__name__}.basis takes a degree of 0 or more, not {deg}")
        return cls(np.eye(int(deg) + 1)[-1], domain, window, symbol)

    @classmethod
    def fromroots(cls, roots: Any, domain: Any = (), window: Any = None, symbol: str = "x") -> Self:
        """Return the series with given roots; a domain of None is that of the roots."""
        roots = series.numbers(roots)
        domain = polyutils.getdomain(raw(roots)) if domain is None else domain if len(domain) else None
        domain, window = cls._ends("domain", domain), cls._ends("window", window)
        offset, scale = polyutils.mapparms(domain, window)
        found = series.from_roots(cls._basis, offset + scale * roots) / scale**roots.size
        return cls(found, domain, window, symbol)

    @classmethod
    def fit(
        cls,
        x: Any,
        y: Any,
        deg: Any,
        domain: Any = None,
        rcond: float | None = None,
        full: bool = False,
        w: Any = None,
        window: Any = None,
        symbol: str = "x",
    ) -> Any:
        """Return the series that fits points with the least sum of squared errors, by default in their own domain."""
        x = series.numbers(x)
        if domain is None:
            domain = polyutils.getdomain(raw(x))
            domain = domain + np.array([-1.0, 1.0]) if domain[0] == domain[1] else domain
        domain, window = cls._ends("domain", domain), cls._ends("window", window)
        offset, scale = polyutils.mapparms(domain, window)
        found = series.fit(cls._basis, offset + scale * x, y, deg, rcond, full, w)
        fitted = cls(found[0] if full else found, domain, window, symbol)
        return (fitted, found[1]) if full else fitted

    def _coefficients(self, other: Any) -> Any:
        """Return the coefficients of the other operand.

        Raises:
            TypeError: it is a series of another class, domain or window.
        """
        if not isinstance(other, Series):
            return other
        if type(other) is not type(self):
            mine, others = type(self).__name__, type(other).__name__
            raise TypeError(f"a {mine} meets a {others}: write other.convert(kind={mine})")
        if self.symbol != other.symbol:
            raise ValueError(
                f"a {type(self).__name__} of {self.symbol} meets one of {other.symbol}: give both one symbol"
            )
        if not (_is_same(self.domain, other.domain) and _is_same(self.window, other.window)):
            raise TypeError(
                f"a {type(self).__name__} of domain {self.domain} and window {self.window} meets one of {other.domain} "
                f"and {other.window}: write other.convert(domain, window=window)"
            )
        return other.coef

    def __add__(self, other: Any) -> Self:
        return self._like(series.add(self._basis, self.coef, self._coefficients(other)))

    def __sub__(self, other: Any) -> Self:
        return self._like(series.subtract(self._basis, self.coef, self._coefficients(other)))

    def __mul__(self, other: Any) -> Self:
        return self._like(series.multiply(self._basis, self.coef, self._coefficients(other)))

    def __divmod__(self, other: Any) -> tuple[Self, Self]:
        quotient, rest = series.divide(self._basis, self.coef, self._coefficients(other))
        return self._like(quotient), self._like(rest)

    def __floordiv__(self, other: Any) -> Self:
        return self.__divmod__(other)[0]

    def __mod__(self, other: Any) -> Self:
        return self.__divmod__(other)[1]

    def __truediv__(self, other: Any) -> Self:
        if isinstance(other, Series) or np.ndim(raw(asarray(other))):
            raise TypeError(f"a {type(self).__name__} is divided by one number: by a series, write // or divmod")
        return self._like(self.coef / other)

    def __pow__(self, other: int) -> Self:
        return self._like(series.power(self._basis, self.coef, other, self._most))

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: Any) -> Self:
        return self.__neg__().__add__(other)

    def __neg__(self) -> Self:
        return self._like(-self.coef)

    def __pos__(self) -> Self:
        return self

    def __len__(self) -> int:
        return int(self.coef.shape[0])

    def __iter__(self) -> Iterator[Any]:
        return iter(self.coef)

    def __eq__(self, other: object) -> bool:
        """Return whether class, domain, window, symbol and the values of the coefficients are the same."""
        if type(other) is not type(self) or other.symbol != self.symbol:
            return False
        pairs = ((self.domain, other.domain), (self.window, other.window), (self.coef, other.coef))
        return all(_is_same(one, another) for one, another in pairs)

    def __hash__(self) -> int:
        """Refuse: what may be equal to another one by its values has no hash.

        Raises:
            TypeError: always.
        """
        raise TypeError(f"a {type(self).__name__} has no hash, as NumPy's: use id()")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Refuse: it would be an array of the coefficients, without their history.

        Raises:
            ArgumentError: always.
        """
        raise ArgumentError(f"a {type(self).__name__} is no array: write its coef, or call it at points")

    def __repr__(self) -> str:
        domain, window = self.domain.tolist(), self.window.tolist()
        return f"{type(self).__name__}({self.coef!r}, domain={domain}, window={window})"


def _number(value: Any) -> Any:
    """Return the scale of a map as a number, or as a Tensor if it has a history."""
    return value if isinstance(value, Tensor) else float(value)


def _is_same(one: object, other: object) -> bool:
    return np.array_equal(raw(one), raw(other))


def _class_of(kind: type[Any]) -> type[Series]:
    """Return the class of the name of NumPy's.

    Raises:
        TypeError: there is none.
    """
    for one in Series.__subclasses__():
        if one.__name__ == kind.__name__:
            return one
    raise TypeError(f"numpy.polynomial: a series is converted to a class of series, not to {kind.__name__}")


@final
class Polynomial(Series):
    """A power series: see Series."""

    __slots__ = ()

    _basis: Basis = BASES["polynomial"]


@final
class Chebyshev(Series):
    """A series of Chebyshev's polynomials: see Series."""

    __slots__ = ()

    _basis: Basis = BASES["chebyshev"]

    @classmethod
    def interpolate(cls, func: Any, deg: int, domain: Any = None, args: Any = (), symbol: str = "x") -> Self:
        """Return the series that interpolates a function at the Chebyshev points of the domain."""
        domain = cls._ends("domain", domain)
        offset, scale = polyutils.mapparms(cls._ends("window", None), domain)
        found = series.interpolate(cls._basis, lambda x, *rest: func(offset + scale * x, *rest), deg, args)
        return cls(found, domain, symbol=symbol)


@final
class Legendre(Series):
    """A series of Legendre's polynomials: see Series."""

    __slots__ = ()

    _basis: Basis = BASES["legendre"]


@final
class Hermite(Series):
    """A series of the physicists' Hermite polynomials: see Series."""

    __slots__ = ()

    _basis: Basis = BASES["hermite"]


@final
class HermiteE(Series):
    """A series of the probabilists' Hermite polynomials: see Series."""

    __slots__ = ()

    _basis: Basis = BASES["hermite_e"]


@final
class Laguerre(Series):
    """A series of Laguerre's polynomials: see Series."""

    __slots__ = ()

    _basis: Basis = BASES["laguerre"]
    _interval = (0.0, 1.0)
