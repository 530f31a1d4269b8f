"""What all distributions of one variable share: their arguments, their moments, and distributions with parameters.

A family of distributions is known by its standard form, which its subclass gives as functions of a standard variable
and of shape parameters. These are moved by `loc` and scaled by `scale`; outside of the support, and for parameters that
are none, the gradient is 0.
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np

from ...core.arrays.values import raw
from ...core.settings.context import is_kind
from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError
from ..arguments import floating
from ..error_names import name_errors_of_methods
from ..special.rules import holds_somewhere
from ..unsupported import refuse_method

__all__ = ["Frozen", "UnivariateDistribution", "check_plain", "family_named", "narrowed"]

#: The families by their names.
_BY_NAME: dict[str, UnivariateDistribution] = {}


def family_named(name: str) -> UnivariateDistribution:
    """Return the family of SciPy's name for it.

    Raises:
        ArgumentError: there is none.
    """
    if name not in _BY_NAME:
        raise ArgumentError(f"asyncgrad.scipy.stats has no distribution {name!r}: pass a function in its place")
    return _BY_NAME[name]


@name_errors_of_methods
class UnivariateDistribution(ABC):
    """Abstract: a family of distributions of one variable.

    Attributes:
        name: SciPy's.
        shapes: the names of the shape parameters, in order.
    """

    __slots__ = ("name",)

    shapes: tuple[str, ...] = ()
    #: The method whose sum over data is the logarithm of their likelihood.
    _log_density = "logpdf"
    #: The parameters after the shapes, with their defaults.
    _moves: tuple[tuple[str, float], ...] = (("loc", 0),)
    #: Those of all parameters, in order.
    _names: tuple[str, ...] = ()

    def __init_subclass__(cls) -> None:
        """Have the methods name themselves in errors."""
        cls._names = (*cls.shapes, *(name for name, _ in cls._moves))
        name_errors_of_methods(cls)

    def __init__(self, name: str) -> None:
        self.name: str = name
        _BY_NAME[name] = self

    def __getattr__(self, name: str) -> Any:
        """Refuse what SciPy's distribution has beside this; the error names what to write instead."""
        if name == "name":
            # A copy is asked before it has one.
            raise AttributeError(name)
        raise refuse_method(self, self.name, name)

    def __call__(self, *args: Any, **kwds: Any) -> Frozen:
        """Return the distribution with given parameters."""
        self._parameters("", args, kwds)
        return Frozen(self, args, kwds)

    def freeze(self, *args: Any, **kwds: Any) -> Frozen:
        """Return the distribution with given parameters."""
        return self(*args, **kwds)

    def __repr__(self) -> str:
        return f"<asyncgrad.scipy.stats.{self.name}>"

    def _parameters(self, method: str, args: Sequence[Any], kwds: Mapping[str, Any]) -> list[Any]:
        """Return the shapes, and then loc and scale, as tensors, or as the numbers 0 and 1 where these are meant.

        Raises:
            TypeError: one is missing, given twice, or not known.
        """
        names = self._names
        where = f"scipy.stats.{self.name}" + (f".{method}" if method else "")
        if len(args) > len(names):
            raise TypeError(f"{where} takes the parameters {', '.join(names)}, not {len(args)}")
        given = dict(zip(names, args, strict=False))
        for name, value in kwds.items():
            if name not in names:
                raise TypeError(f"{where} has no parameter {name!r}: it takes {', '.join(names)}")
            if name in given:
                raise TypeError(f"{where} got {name!r} twice")
            given[name] = value
        missing = [name for name in self.shapes if name not in given]
        if missing:
            raise TypeError(f"{where} needs {', '.join(missing)}")
        found = [floating(given[name]) for name in self.shapes]
        for name, default in self._moves:
            value = given.get(name, default)
            is_default = type(value) in (int, float) and value == default
            found.append(default if is_default else floating(value))
        return found

    @abstractmethod
    def _valid(self, *shapes: Any) -> Any:
        """Return where shape parameters are allowed, for arrays."""

    @abstractmethod
    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        """Return the ends of the support of the standard form."""

    @abstractmethod
    def _cdf(self, y: Any, *shapes: Any) -> Any:
        """Return the distribution function of the standard form, inside of the support."""

    def _sf(self, y: Any, *shapes: Any) -> Any:
        return 1 - self._cdf(y, *shapes)

    @abstractmethod
    def _mean_and_variance(self, *shapes: Any) -> tuple[Any, Any]:
        """Return the mean and the variance of the standard form."""

    def _skewness_and_kurtosis(self, *shapes: Any) -> tuple[Any, Any]:
        """Return the skewness and the kurtosis less that of the normal distribution."""
        raise ArgumentError(
            f"asyncgrad.scipy.stats.{self.name} has no moments of third and fourth order: call SciPy on arrays, or "
            f"integrate with {self.name}.expect"
        )

    def _entropy(self, *shapes: Any) -> Any:
        raise ArgumentError(f"scipy.stats.{self.name}.entropy has no derivative rule: call SciPy on arrays")

    @staticmethod
    def _shifted(value: Any, loc: Any) -> Any:
        return value if type(loc) is not Tensor and loc == 0 else value + loc

    @staticmethod
    def _scaled(value: Any, scale: Any) -> Any:
        return value if type(scale) is not Tensor and scale == 1 else value * scale

    def _moved_and_scaled(self, value: Any, moves: Sequence[Any]) -> Any:
        loc, *scales = moves
        for scale in scales:
            value = self._scaled(value, scale)
        return self._shifted(value, loc)

    def _checked(self, value: Any, shapes: Sequence[Any], moves: Sequence[Any]) -> Any:
        """Return a value, with nan where the parameters are none."""
        valid = np.asarray(self._valid(*map(raw, shapes)))
        if type(moves[0]) is Tensor or moves[0] != 0:
            valid = valid & ~np.isnan(raw(moves[0]))
        for scale in moves[1:]:
            if type(scale) is Tensor or scale != 1:
                valid = valid & np.asarray(raw(scale) > 0)
        is_valid = bool(valid) if valid.ndim == 0 else valid.all()
        return asarray(value) if is_valid else np.where(valid, value, np.nan)

    def _full(self, value: Any, shapes: Sequence[Any], moves: Sequence[Any]) -> Any:
        """Return a value in the shape and the dtype of all parameters together, with nan where they are none."""
        parameters = [one for one in (*shapes, *moves) if type(one) is Tensor]
        value = self._checked(narrowed(value, *parameters) if parameters else value, shapes, moves)
        size = np.broadcast_shapes(*(np.shape(one) for one in (*shapes, *moves)))
        return value if value.shape == size else np.broadcast_to(value, size)

    def _filled(
        self, value: Any, parts: Sequence[tuple[Any, float]], shapes: Sequence[Any], moves: Sequence[Any]
    ) -> Any:
        """Return a value, with others where a mask says so, and nan where the parameters are none."""
        for mask, outside in parts:
            if holds_somewhere(mask):
                value = np.where(mask, outside, value)
        return self._checked(value, shapes, moves)

    def mean(self, *args: Any, **kwds: Any) -> Tensor:
        """Return the mean."""
        shapes, moves = self._split("mean", args, kwds)
        mean, _ = self._mean_and_variance(*shapes)
        return self._full(self._moved_and_scaled(floating(mean), moves), shapes, moves)

    def var(self, *args: Any, **kwds: Any) -> Tensor:
        """Return the variance."""
        shapes, moves = self._split("var", args, kwds)
        _, variance = self._mean_and_variance(*shapes)
        variance = floating(variance)
        for scale in moves[1:]:
            variance = self._scaled(self._scaled(variance, scale), scale)
        return self._full(variance, shapes, moves)

    def std(self, *args: Any, **kwds: Any) -> Tensor:
        """Return the standard deviation."""
        return np.sqrt(self.var(*args, **kwds))

    def _shape_moment(self, method: str, which: int, args: Sequence[Any], kwds: Mapping[str, Any]) -> Any:
        shapes, moves = self._split(method, args, kwds)
        return self._full(floating(self._skewness_and_kurtosis(*shapes)[which]), shapes, moves)

    def stats(self, *args: Any, moments: str = "mv", **kwds: Any) -> Any:
        """Return moments, of one letter each.

        Args:
            *args: the parameters.
            moments: letters of "m", the mean, "v", the variance, "s", the skewness, and "k", the kurtosis, which is 0
                for the normal distribution.
            **kwds: the parameters by name.

        Returns:
            One Tensor, or a tuple of them in the order of the letters above.
        """
        if len(args) > len(self.shapes) + len(self._moves) and isinstance(args[-1], str):
            args, moments = args[:-1], args[-1]
        if not moments or any(letter not in "mvsk" for letter in moments):
            raise ArgumentError(f"scipy.stats.{self.name}.stats has the moments 'm', 'v', 's' and 'k', not {moments!r}")
        known: dict[str, Callable[[], Any]] = {
            "m": lambda: self.mean(*args, **kwds),
            "v": lambda: self.var(*args, **kwds),
            "s": lambda: self._shape_moment("stats", 0, args, kwds),
            "k": lambda: self._shape_moment("stats", 1, args, kwds),
        }
        found = tuple(known[letter]() for letter in "mvsk" if letter in moments)
        return found if len(found) > 1 else found[0]

    def moment(self, order: int, *args: Any, **kwds: Any) -> Tensor:
        """Return the mean of a power of the variable.

        Args:
            order: the power.
            *args: the parameters; single numbers for a power beyond the fourth, whose mean `expect` computes.
            **kwds: the parameters by name.

        Raises:
            ArgumentError: the order is no whole number, or is negative.
        """
        if not isinstance(order, int | np.integer) or order < 0:
            raise ArgumentError(
                f"scipy.stats.{self.name}.moment takes a whole number from 0 on as order, not {order!r}"
            )
        if order > 4:
            return self._high_moment(int(order), args, kwds)
        shapes, moves = self._split("moment", args, kwds)
        powers = [1.0, *self._powers_up_to(order, *shapes)]
        loc, *scales = moves
        for scale in scales:
            powers = [self._scaled(power, scale**one) for one, power in enumerate(powers)]
        value = floating(powers[order])
        if type(loc) is Tensor or loc != 0:
            for one in range(order):
                value = value + math.comb(order, one) * loc ** (order - one) * powers[one]
        return self._full(value, shapes, moves)

    def _powers_up_to(self, order: int, *shapes: Any) -> list[Any]:
        """Return the means of the powers of the standard variable, from the first on, up to the fourth at most."""
        mean, variance = self._mean_and_variance(*shapes)
        found = [mean, variance + mean * mean]
        if order >= 3:
            skewness, kurtosis = self._skewness_and_kurtosis(*shapes)
            third = skewness * variance**1.5
            found.append(third + mean * (3 * variance + mean * mean))
            fourth = (kurtosis + 3) * (variance * variance)
            found.append(fourth + mean * (4 * third + mean * (6 * variance + mean * mean)))
        return found

    def _high_moment(self, order: int, args: Sequence[Any], kwds: Mapping[str, Any]) -> Tensor:
        fourth = self.moment(4, *args, **kwds)
        if not np.all(np.isfinite(raw(fourth))):
            # None is greater than what is infinite.
            return fourth
        shapes, moves = self._split("moment", args, kwds)
        if any(np.size(one) != 1 for one in (*shapes, *moves)):
            raise ArgumentError(
                f"asyncgrad.scipy.stats.{self.name}.moment takes an order from 0 to 4 for arrays of parameters, not "
                f"{order}: call it for each of them"
            )
        found: Tensor = self._checked(self._mean_of_power(order, shapes, moves), shapes, moves)
        return found

    def _mean_of_power(self, order: int, shapes: Sequence[Any], moves: Sequence[Any]) -> Any:
        """Return the mean of a power of the moved and scaled variable, for parameters that are single numbers."""
        family: Any = self
        return family.expect(lambda x: x**order, shapes, **dict(zip(("loc", "scale"), moves, strict=False)))

    def support(self, *args: Any, **kwds: Any) -> tuple[Any, Any]:
        """Return the ends of the support."""
        shapes, moves = self._split("support", args, kwds)
        first, last = (self._moved_and_scaled(floating(end), moves) for end in self._support(*shapes))
        return self._full(first, shapes, moves), self._full(last, shapes, moves)

    def _with_size(self, args: tuple[Any, ...], size: Any) -> tuple[tuple[Any, ...], Any]:
        """Return the parameters of `rvs` and the size, which may be given after them."""
        count = len(self.shapes) + len(self._moves)
        return (args[:count], args[count]) if len(args) == count + 1 and size is None else (args, size)

    @abstractmethod
    def ppf(self, q: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the value up to which the probability is `q`."""

    def interval(self, confidence: Any, *args: Any, **kwds: Any) -> tuple[Tensor, Tensor]:
        """Return the ends of the interval of a probability, with equal probabilities beyond both.

        Raises:
            ValueError: it is no probability.
        """
        confidence = floating(confidence)
        if np.any((raw(confidence) < 0) | (raw(confidence) > 1)):
            raise ValueError(f"scipy.stats.{self.name}.interval takes a confidence from 0 to 1, not {confidence}")
        # As SciPy has it: a quantile of whole numbers jumps where its probability differs by a rounding.
        return self.ppf((1.0 - confidence) / 2, *args, **kwds), self.ppf((1.0 + confidence) / 2, *args, **kwds)

    def entropy(self, *args: Any, **kwds: Any) -> Tensor:
        """Return the entropy, differential for continuous distributions, in nats."""
        shapes, moves = self._split("entropy", args, kwds)
        value = floating(self._entropy(*shapes))
        for scale in moves[1:]:
            value = value if type(scale) is not Tensor and scale == 1 else value + np.log(scale)
        return self._full(value, shapes, moves)

    def fit(self, *args: Any, **kwds: Any) -> Any:
        """Refuse: parameters are fitted by minimizing a loss.

        Raises:
            ArgumentError: always.
        """
        raise ArgumentError(
            f"asyncgrad.scipy.stats.{self.name} has no fit: minimize "
            f"-np.sum(stats.{self.name}.{self._log_density}(data, ...)) by the parameters, or call SciPy's fit on "
            "arrays"
        )

    def _split(self, method: str, args: Sequence[Any], kwds: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
        found = self._parameters(method, args, kwds)
        loc, *scales = found[len(self.shapes) :]
        return found[: len(self.shapes)], [loc, *map(_positive, scales)]


def check_plain(func: Any, name: str) -> None:
    """Raise if the function of which the distribution `name` is to take the mean is an `async def`."""
    if is_kind(inspect.iscoroutinefunction, func):
        raise ArgumentError(
            f"asyncgrad.scipy.stats.{name}.expect takes a plain function: await integrate.quad of an async def that "
            "multiplies by the density"
        )


def narrowed(value: Any, *given: Tensor) -> Any:
    """Return a value in the dtype of what it is made of: integrals and constants are in double precision."""
    dtype = given[0].dtype if len(given) == 1 else np.result_type(*(one.dtype for one in given))
    return value if value.dtype == dtype else value.astype(dtype)


def _positive(scale: Any) -> Any:
    """Return a scale, with nan where it is not positive: no function warns of nan."""
    is_positive = raw(scale) > 0
    return scale if is_positive is True or np.all(is_positive) else np.where(is_positive, scale, np.nan)


#: Methods whose first argument is no parameter, and what others take beside the parameters.
_OF_VARIABLE = frozenset(
    ("cdf", "interval", "isf", "logcdf", "logpdf", "logpmf", "logsf", "moment", "pdf", "pmf", "ppf", "sf")
)
_OPTIONS = {"rvs": ("size", "random_state"), "stats": ("moments",)}


@final
class Frozen:
    """A distribution with its parameters: the methods of its family, without these.

    Args:
        dist: the family.
        args: the parameters.
        kwds: the parameters by name.
    """

    __slots__ = ("args", "dist", "kwds")

    def __init__(self, dist: UnivariateDistribution, args: tuple[Any, ...], kwds: dict[str, Any]) -> None:
        self.dist: UnivariateDistribution = dist
        self.args: tuple[Any, ...] = args
        self.kwds: dict[str, Any] = kwds

    def __getattr__(self, name: str) -> Any:
        """Return a method of the family that takes no parameters."""
        if name.startswith("_") or name in self.__slots__:
            # A copy is asked for them before it has any.
            raise AttributeError(name)
        method = getattr(type(self.dist), name, None)
        if method is None or name in ("fit", "freeze", "name", "shapes"):
            raise refuse_method(self.dist, self.dist.name, name)
        bound = getattr(self.dist, name)
        options = _OPTIONS.get(name, ())

        def call(*args: Any, **kwds: Any) -> Any:
            if name in _OF_VARIABLE:
                # What a method calls its first argument: x, k, q, confidence or order.
                return bound(*args, *kwds.values(), *self.args, **self.kwds)
            if len(args) > len(options):
                raise TypeError(
                    f"{name} of a distribution with its parameters takes {', '.join(options) or 'no arguments'}, not "
                    f"{len(args)} arguments"
                )
            return bound(*self.args, **self.kwds, **dict(zip(options, args, strict=False)), **kwds)

        return call

    def expect(
        self, func: Any = None, lb: Any = None, ub: Any = None, conditional: bool = False, **kwds: Any
    ) -> Tensor:
        """Return the mean of a function of the variable: see the family's method."""
        parameters = self.dist._parameters("expect", self.args, self.kwds)
        names = ("loc", "scale")[: len(parameters) - len(self.dist.shapes)]
        moves = dict(zip(names, parameters[len(self.dist.shapes) :], strict=True))
        shapes = parameters[: len(self.dist.shapes)]
        family: Any = self.dist
        found: Tensor = family.expect(func, shapes, lb=lb, ub=ub, conditional=conditional, **moves, **kwds)
        return found

    def __repr__(self) -> str:
        return f"<{self.dist!r} with parameters>"
