"""RandomState, and the functions of the module, which draw from NumPy's global stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, final

import numpy as np

from ...core.arrays.values import raw
from ...core.tensor import Tensor
from .sampling import Sampler, as_tensor, shape_of

if TYPE_CHECKING:
    from collections.abc import MutableSequence
    from typing import SupportsIndex

    import numpy.typing as npt

    from ...core.arrays.array_like import Lengths, TensorLike


T = TypeVar("T")

__all__ = [
    "RandomState",
    "beta",
    "binomial",
    "bytes",
    "chisquare",
    "choice",
    "dirichlet",
    "exponential",
    "f",
    "gamma",
    "geometric",
    "get_state",
    "gumbel",
    "hypergeometric",
    "laplace",
    "logistic",
    "lognormal",
    "logseries",
    "multinomial",
    "multivariate_normal",
    "negative_binomial",
    "noncentral_chisquare",
    "noncentral_f",
    "normal",
    "pareto",
    "permutation",
    "poisson",
    "power",
    "rand",
    "randint",
    "randn",
    "random",
    "random_integers",
    "random_sample",
    "ranf",
    "rayleigh",
    "sample",
    "seed",
    "set_state",
    "shuffle",
    "standard_cauchy",
    "standard_exponential",
    "standard_gamma",
    "standard_normal",
    "standard_t",
    "triangular",
    "uniform",
    "vonmises",
    "wald",
    "weibull",
    "zipf",
]


@final
class RandomState(Sampler):
    """NumPy's RandomState, with Tensors as results; a parameter may be a tensor that requires grad.

    Args:
        seed: what NumPy's RandomState takes; or one of NumPy's RandomStates, whose stream it then shares.

    Example:
        >>> from asyncgrad.numpy.random import RandomState
        >>> RandomState(0).randint(10, size=3).tolist()
        [5, 0, 3]
    """

    __slots__ = ()

    def __init__(self, seed: object = None) -> None:
        super().__init__(seed if isinstance(seed, np.random.RandomState) else np.random.RandomState(raw(seed)))

    def __repr__(self) -> str:
        return str(self._source)

    def __reduce__(self) -> tuple[object, ...]:
        return RandomState, (self._source,)

    # The state.

    def seed(self, seed: object = None) -> None:
        """Start the stream anew from a seed."""
        self._source.seed(raw(seed))

    def get_state(self, legacy: bool = True) -> dict[str, object] | tuple[object, ...]:
        """Return the state of the stream."""
        state: dict[str, object] | tuple[object, ...] = self._source.get_state(legacy)
        return state

    def set_state(self, state: object) -> None:
        """Set the state of the stream to one that `get_state` returned."""
        self._source.set_state(state)

    # Uniform numbers.

    def rand(self, *lengths: SupportsIndex) -> Tensor:
        """Draw numbers from 0, included, to 1, excluded; the shape is given by the arguments."""
        return as_tensor(self._source.rand(*map(raw, lengths)))

    def random(self, size: Lengths | None = None) -> Tensor:
        """Draw numbers from 0, included, to 1, excluded."""
        return as_tensor(self._source.random(shape_of(size)))

    def random_sample(self, size: Lengths | None = None) -> Tensor:
        """Draw numbers from 0, included, to 1, excluded."""
        return as_tensor(self._source.random_sample(shape_of(size)))

    def randint(
        self, low: TensorLike, high: TensorLike | None = None, size: Lengths | None = None, dtype: npt.DTypeLike = int
    ) -> Tensor:
        """Draw whole numbers from `low` to below `high`."""
        return self._draw_constant("randint", {"low": low, "high": high}, size=size, dtype=dtype)

    def random_integers(self, low: TensorLike, high: TensorLike | None = None, size: Lengths | None = None) -> Tensor:
        """Draw whole numbers from `low` to `high`, both included."""
        return self._draw_constant("random_integers", {"low": low, "high": high}, size=size)

    def tomaxint(self, size: Lengths | None = None) -> Tensor:
        """Draw whole numbers from 0 to the largest of the platform."""
        return as_tensor(self._source.tomaxint(shape_of(size)))

    # Standard distributions.

    def randn(self, *lengths: SupportsIndex) -> Tensor:
        """Draw from the normal distribution around 0 with scale 1; the shape is given by the arguments."""
        return as_tensor(self._source.randn(*map(raw, lengths)))

    def standard_exponential(self, size: Lengths | None = None) -> Tensor:
        """Draw from the exponential distribution with scale 1."""
        return self._fill("standard_exponential", size, None)

    def standard_gamma(self, shape: TensorLike, size: Lengths | None = None) -> Tensor:
        """Draw from the gamma distribution with scale 1."""
        return self._draw("standard_gamma", {"shape": shape}, size)

    def standard_normal(self, size: Lengths | None = None) -> Tensor:
        """Draw from the normal distribution around 0 with scale 1."""
        return self._fill("standard_normal", size, None)

    def multivariate_normal(
        self,
        mean: TensorLike,
        cov: TensorLike,
        size: Lengths | None = None,
        check_valid: str = "warn",
        tol: float = 1e-8,
    ) -> Tensor:
        """Draw rows from a multivariate normal distribution."""
        return self._draw_rows(mean, cov, size, check_valid, tol, "svd of rows", {})

    # Orders and choices.

    def choice(
        self, a: TensorLike, size: Lengths | None = None, replace: bool = True, p: TensorLike | None = None
    ) -> Any:
        """Draw elements of `a`, or whole numbers below `a`; elements of a tensor keep its history."""
        return self._choose(a, p, 0, {"size": size, "replace": replace})

    def permutation(self, x: TensorLike) -> Any:
        """Return `x` shuffled along its first axis, or the whole numbers below `x`; a tensor keeps its history."""
        return self._permute(x, 0, {})

    def shuffle(self, x: Tensor | np.ndarray | MutableSequence[T]) -> None:
        """Shuffle an array, a list or a tensor in place, along its first axis."""
        self._shuffle(x, 0, {})


_global = RandomState(np.random.mtrand._rand)

beta = _global.beta
binomial = _global.binomial
bytes = _global.bytes
chisquare = _global.chisquare
choice = _global.choice
dirichlet = _global.dirichlet
exponential = _global.exponential
f = _global.f
gamma = _global.gamma
geometric = _global.geometric
get_state = _global.get_state
gumbel = _global.gumbel
hypergeometric = _global.hypergeometric
laplace = _global.laplace
logistic = _global.logistic
lognormal = _global.lognormal
logseries = _global.logseries
multinomial = _global.multinomial
multivariate_normal = _global.multivariate_normal
negative_binomial = _global.negative_binomial
noncentral_chisquare = _global.noncentral_chisquare
noncentral_f = _global.noncentral_f
normal = _global.normal
pareto = _global.pareto
permutation = _global.permutation
poisson = _global.poisson
power = _global.power
rand = _global.rand
randint = _global.randint
randn = _global.randn
random = _global.random
random_integers = _global.random_integers
random_sample = _global.random_sample
rayleigh = _global.rayleigh
seed = _global.seed
set_state = _global.set_state
shuffle = _global.shuffle
standard_cauchy = _global.standard_cauchy
standard_exponential = _global.standard_exponential
standard_gamma = _global.standard_gamma
standard_normal = _global.standard_normal
standard_t = _global.standard_t
triangular = _global.triangular
uniform = _global.uniform
vonmises = _global.vonmises
wald = _global.wald
weibull = _global.weibull
zipf = _global.zipf

#: Other names of `random_sample`.
ranf = sample = random_sample
