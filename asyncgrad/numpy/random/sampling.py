"""Sampler: what `Generator` and `RandomState` have in common, draws with tensors as parameters."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.axes import array_like
from ...core.arrays.tensor_base import TensorBase
from ...core.arrays.values import raw
from ...core.engine.device import Device
from ...core.tensor import Tensor, asarray
from ...core.views.writing import write
from ...errors import ArgumentError, MissingDerivativeError
from .rules import IMPLICIT, REPARAMETRISED, correlate

if TYPE_CHECKING:
    from ...core.arrays.array_like import Lengths, TensorLike


__all__ = ["Sampler", "as_tensor", "requires_grad", "shape_of", "to_host"]


def requires_grad(value: Any) -> bool:
    """Tell whether a parameter is a tensor that requires grad."""
    return isinstance(value, TensorBase) and value._requires_grad()


def as_tensor(value: Any) -> Tensor:
    """Return a draw as a Tensor; texts, objects and dates, which no Tensor holds, as they are."""
    if isinstance(value, (int, float)) or getattr(getattr(value, "dtype", None), "kind", "") in {*"biufc"}:
        return asarray(value)
    other: Tensor = value
    return other


def to_host(parameters: dict[str, Any]) -> tuple[dict[str, Any], Device | None]:
    """Return parameters with tensors brought to the host, where NumPy draws; and the device of the draw if another.

    A tensor of a device whose arrays the host can read remains there.
    """
    devices = [value.device for value in parameters.values() if isinstance(value, Tensor)]
    device = next((one for one in devices if not one.has_host_arrays), None)
    if device is None:
        return parameters, None
    return {key: value.to("cpu") if isinstance(value, Tensor) else value for key, value in parameters.items()}, device


def shape_of(size: Any) -> tuple[int, ...] | None:
    """Return the argument `size=` as a shape."""
    if size is None:
        return None
    size = raw(size)
    return (operator.index(size),) if np.ndim(size) == 0 else tuple(operator.index(length) for length in size)


class Sampler:
    """Abstract: draws of a random stream of NumPy's, as Tensors.

    The numbers are those that NumPy draws from the same stream with the same parameters. A parameter may be a tensor
    that requires grad; the draw then has a derivative with respect to it. For normal, uniform, exponential, laplace,
    logistic, gumbel, lognormal, rayleigh, triangular and multivariate_normal it is that of the draw as a function of
    its parameters and of noise. For others it says how the draw moves with the parameter while its rank in the
    distribution remains. Either way, a gradient of a mean over draws estimates the gradient of the expectation.

    Args:
        source: NumPy's Generator or RandomState.
    """

    __slots__ = ("_source",)

    def __init__(self, source: np.random.Generator | np.random.RandomState) -> None:
        self._source: Any = source

    @property
    def numpy_source(self) -> np.random.Generator | np.random.RandomState:
        """NumPy's Generator or RandomState, which draws from the same stream and returns arrays."""
        source: np.random.Generator | np.random.RandomState = self._source
        return source

    def _draw(self, name: str, parameters: dict[str, Any], size: Any) -> Tensor:
        """Return a draw from a continuous distribution, on the device of its parameters."""
        parameters, device = to_host(parameters)
        found = self._draw_on_host(name, parameters, size)
        return found if device is None else found.to(device)

    def _draw_on_host(self, name: str, parameters: dict[str, Any], size: Any) -> Tensor:
        """Return a draw from a continuous distribution whose parameters are on the host."""
        values = [raw(value) for value in parameters.values()]
        if not any(map(requires_grad, parameters.values())):
            return as_tensor(getattr(self._source, name)(*values, size=shape_of(size)))
        if name == "dirichlet":
            return as_tensor(IMPLICIT[name].call(parameters["alpha"], self._source.dirichlet(*values, shape_of(size))))
        shape = self._shape(name, parameters, size)
        if name in IMPLICIT:
            draw = np.asarray(getattr(self._source, name)(*values, size=shape_of(size)))
            return as_tensor(IMPLICIT[name].call(*parameters.values(), draw))
        # Without a draw, NumPy checks the parameters.
        getattr(self._source, name)(*values, size=(0, *shape))
        if name == "gamma":
            standard = self._draw_on_host("standard_gamma", {"shape": parameters["shape"]}, shape)
            return as_tensor(array_like(parameters["scale"]) * standard)
        rule = REPARAMETRISED[name]
        noise = np.asarray(getattr(self._source, rule.noise)(*rule.standard, size=shape))
        return as_tensor(rule.transform(noise, *map(array_like, parameters.values())))

    def _shape(self, name: str, parameters: dict[str, Any], size: Any) -> tuple[int, ...]:
        """Return the shape of a draw.

        Raises:
            ArgumentError: the parameters cannot be broadcast together, or to `size`.
        """
        shapes = [np.shape(raw(value)) for value in parameters.values()]
        wanted = shape_of(size)
        try:
            found = np.broadcast_shapes(*shapes, *(() if wanted is None else (wanted,)))
        except ValueError:
            found = None
        if found is None or (wanted is not None and found != wanted):
            given = " and ".join(f"{key} of shape {shape}" for key, shape in zip(parameters, shapes, strict=True))
            goal = "" if wanted is None else f" to size={wanted}"
            raise ArgumentError(f"{self._name(name)}: {given} cannot be broadcast{goal}")
        return found

    def _name(self, method: str) -> str:
        return f"{type(self).__name__}.{method}"

    def _draw_constant(self, name: str, parameters: dict[str, Any], **options: Any) -> Tensor:
        """Return a draw that has no derivative with respect to its parameters.

        Raises:
            MissingDerivativeError: a parameter requires grad.
        """
        for key, value in parameters.items():
            if requires_grad(value):
                raise MissingDerivativeError(
                    f"{self._name(name)} draws whole numbers, which have no derivative with respect to {key}, a tensor "
                    f"of shape {raw(value).shape} that requires grad: draw with {key}.detach(), and for the "
                    "score-function gradient add loss.detach() * np.log(p) to the loss, with p the probability of "
                    f"the draw as a function of {key}"
                )
        if "size" in options:
            options["size"] = shape_of(options["size"])
        parameters, device = to_host(parameters)
        found = as_tensor(getattr(self._source, name)(*map(raw, parameters.values()), **options))
        return found if device is None else found.to(device)

    def _fill(self, name: str, size: Any, out: Any, *parameters: Any, **options: Any) -> Tensor:
        """Return standard draws, written into `out` if that is given."""
        method = getattr(self._source, name)
        if not isinstance(out, Tensor):
            more = {} if out is None else {"out": out}
            return as_tensor(method(*parameters, size=shape_of(size), **options, **more))
        if size is not None and shape_of(size) != out.shape:
            raise ArgumentError(f"{self._name(name)}: size={size} is not the shape of out, {out.shape}")
        found: Tensor = write(out, asarray(method(*parameters, size=out.shape, **options)))
        return found

    # Continuous distributions.

    def beta(self, a: TensorLike, b: TensorLike, size: Lengths | None = None) -> Tensor:
        """Draw from the beta distribution."""
        return self._draw("beta", {"a": a, "b": b}, size)

    def chisquare(self, df: TensorLike, size: Lengths | None = None) -> Tensor:
        """Draw from the chi-square distribution."""
        return self._draw("chisquare", {"df": df}, size)

    def dirichlet(self, alpha: TensorLike, size: Lengths | None = None) -> Tensor:
        """Draw from the Dirichlet distribution: rows of positive numbers whose sum is 1."""
        return self._draw("dirichlet", {"alpha": alpha}, size)

    def exponential(self, scale: TensorLike = 1.0, size: Lengths | None = None) -> Tensor:
        """Draw from the exponential distribution."""
        return self._draw("exponential", {"scale": scale}, size)

    def f(self, dfnum: TensorLike, dfden: TensorLike, size: Lengths | None = None) -> Tensor:
        """Draw from the F distribution."""
        return self._draw("f", {"dfnum": dfnum, "dfden": dfden}, size)

    def gamma(self, shape: TensorLike, scale: TensorLike = 1.0, size: Lengths | None = None) -> Tensor:
        """Draw from the gamma distribution."""
        return self._draw("gamma", {"shape": shape, "scale": scale}, size)

    def gumbel(self, loc: TensorLike = 0.0, scale: TensorLike = 1.0, size: Lengths | None = None) -> Tensor:
        """Draw from the Gumbel distribution."""
        return self._draw("gumbel", {"loc": loc, "scale": scale}, size)

    def laplace(self, loc: TensorLike = 0.0, scale: TensorLike = 1.0, size: Lengths | None = None) -> Tensor:
        """Draw from the Laplace distribution."""
        return self._draw("laplace", {"loc": loc, "scale": scale}, size)

    def logistic(self, loc: TensorLike = 0.0, scale: TensorLike = 1.0, size: Lengths | None = None) -> Tensor:
        """Draw from the logistic distribution."""
        return self._draw("logistic", {"loc": loc, "scale": scale}, size)

    def lognormal(self, mean: TensorLike = 0.0, sigma: TensorLike = 1.0, size: Lengths | None = None) -> Tensor:
        """Draw numbers whose logarithm is normal."""
        return self._draw("lognormal", {"mean": mean, "sigma": sigma}, size)

    def noncentral_chisquare(self, df: TensorLike, nonc: TensorLike, size: Lengths | None = None) -> Tensor:
        """Draw from the noncentral chi-square distribution."""
        return self._draw("noncentral_chisquare", {"df": df, "nonc": nonc}, size)

    def noncentral_f(
        self, dfnum: TensorLike, dfden: TensorLike, nonc: TensorLike, size: Lengths | None = None
    ) -> Tensor:
        """Draw from the noncentral F distribution."""
        return self._draw("noncentral_f", {"dfnum": dfnum, "dfden": dfden, "nonc": nonc}, size)

    def normal(self, loc: TensorLike = 0.0, scale: TensorLike = 1.0, size: Lengths | None = None) -> Tensor:
        """Draw from the normal distribution."""
        return self._draw("normal", {"loc": loc, "scale": scale}, size)

    def pareto(self, a: TensorLike, size: Lengths | None = None) -> Tensor:
        """Draw from the Lomax distribution, the Pareto distribution moved to 0."""
        return self._draw("pareto", {"a": a}, size)

    def power(self, a: TensorLike, size: Lengths | None = None) -> Tensor:
        """Draw from the distribution on [0, 1] with a density proportional to the power a - 1."""
        return self._draw("power", {"a": a}, size)

    def rayleigh(self, scale: TensorLike = 1.0, size: Lengths | None = None) -> Tensor:
        """Draw from the Rayleigh distribution."""
        return self._draw("rayleigh", {"scale": scale}, size)

    def standard_cauchy(self, size: Lengths | None = None) -> Tensor:
        """Draw from the Cauchy distribution around 0 with scale 1."""
        return as_tensor(self._source.standard_cauchy(size=shape_of(size)))

    def standard_t(self, df: TensorLike, size: Lengths | None = None) -> Tensor:
        """Draw from Student's distribution."""
        return self._draw("standard_t", {"df": df}, size)

    def triangular(self, left: TensorLike, mode: TensorLike, right: TensorLike, size: Lengths | None = None) -> Tensor:
        """Draw from the triangular distribution."""
        return self._draw("triangular", {"left": left, "mode": mode, "right": right}, size)

    def uniform(self, low: TensorLike = 0.0, high: TensorLike = 1.0, size: Lengths | None = None) -> Tensor:
        """Draw from the uniform distribution."""
        return self._draw("uniform", {"low": low, "high": high}, size)

    def vonmises(self, mu: TensorLike, kappa: TensorLike, size: Lengths | None = None) -> Tensor:
        """Draw angles from the von Mises distribution."""
        return self._draw("vonmises", {"mu": mu, "kappa": kappa}, size)

    def wald(self, mean: TensorLike, scale: TensorLike, size: Lengths | None = None) -> Tensor:
        """Draw from the inverse Gaussian distribution."""
        return self._draw("wald", {"mean": mean, "scale": scale}, size)

    def weibull(self, a: TensorLike, size: Lengths | None = None) -> Tensor:
        """Draw from the Weibull distribution with scale 1."""
        return self._draw("weibull", {"a": a}, size)

    def _draw_rows(
        self, mean: Any, cov: Any, size: Any, check_valid: str, tol: float, method: str, options: dict[str, Any]
    ) -> Tensor:
        """Return rows from a multivariate normal distribution, on the device of its parameters."""
        parameters, device = to_host({"mean": mean, "cov": cov})
        mean, cov = parameters.values()
        found = self._draw_rows_on_host(mean, cov, size, (check_valid, tol), method, options)
        return found if device is None else found.to(device)

    def _draw_rows_on_host(
        self, mean: Any, cov: Any, size: Any, checks: tuple[str, float], method: str, options: dict[str, Any]
    ) -> Tensor:
        """Return rows from a multivariate normal distribution whose parameters are on the host."""
        draw = self._source.multivariate_normal
        if not (requires_grad(mean) or requires_grad(cov)):
            found = draw(raw(mean), raw(cov), shape_of(size), *checks, **options)
            return as_tensor(found)
        # Without a draw, NumPy checks the parameters.
        draw(raw(mean), raw(cov), (0,), *checks, **options)
        mean, cov = array_like(mean), array_like(cov)
        rows = self._source.standard_normal((*(shape_of(size) or ()), mean.shape[0]))
        found = mean + correlate(rows.reshape(-1, mean.shape[0]), cov, method)
        drawn: Tensor = found.reshape(rows.shape)
        return drawn

    # Discrete distributions.

    def binomial(self, n: TensorLike, p: TensorLike, size: Lengths | None = None) -> Tensor:
        """Draw from the binomial distribution."""
        return self._draw_constant("binomial", {"n": n, "p": p}, size=size)

    def bytes(self, length: int) -> bytes:
        """Draw random bytes."""
        drawn: bytes = self._source.bytes(length)
        return drawn

    def geometric(self, p: TensorLike, size: Lengths | None = None) -> Tensor:
        """Draw from the geometric distribution."""
        return self._draw_constant("geometric", {"p": p}, size=size)

    def hypergeometric(
        self, ngood: TensorLike, nbad: TensorLike, nsample: TensorLike, size: Lengths | None = None
    ) -> Tensor:
        """Draw from the hypergeometric distribution."""
        parameters = {"ngood": ngood, "nbad": nbad, "nsample": nsample}
        return self._draw_constant("hypergeometric", parameters, size=size)

    def logseries(self, p: TensorLike, size: Lengths | None = None) -> Tensor:
        """Draw from the logarithmic distribution."""
        return self._draw_constant("logseries", {"p": p}, size=size)

    def multinomial(self, n: TensorLike, pvals: TensorLike, size: Lengths | None = None) -> Tensor:
        """Draw from the multinomial distribution."""
        return self._draw_constant("multinomial", {"n": n, "pvals": pvals}, size=size)

    def negative_binomial(self, n: TensorLike, p: TensorLike, size: Lengths | None = None) -> Tensor:
        """Draw from the negative binomial distribution."""
        return self._draw_constant("negative_binomial", {"n": n, "p": p}, size=size)

    def poisson(self, lam: TensorLike = 1.0, size: Lengths | None = None) -> Tensor:
        """Draw from Poisson's distribution."""
        return self._draw_constant("poisson", {"lam": lam}, size=size)

    def zipf(self, a: TensorLike, size: Lengths | None = None) -> Tensor:
        """Draw from Zipf's distribution."""
        return self._draw_constant("zipf", {"a": a}, size=size)

    # Orders and choices.

    def _choose(self, a: Any, p: Any, axis: int, options: dict[str, Any]) -> Any:
        """Return elements of a tensor, or along an axis of it, drawn by their numbers."""
        if requires_grad(p):
            return self._draw_constant("choice", {"p": p})
        p = to_host({"p": p})[0]["p"]
        options = {**options, "p": raw(p), "size": shape_of(options["size"])}
        if not isinstance(a, Tensor) or not a.ndim:
            return as_tensor(self._source.choice(raw(a), **options, **({"axis": axis} if axis else {})))
        return np.take(a, self._source.choice(a.shape[axis], **options), axis)

    def _order(self, count: int) -> Any:
        """Return the whole numbers below `count` as a shuffle orders them."""
        order = np.arange(count)
        self._source.shuffle(order)
        return order

    def _permute(self, x: Any, axis: int, options: dict[str, Any]) -> Any:
        """Return what `permutation` does."""
        if not isinstance(x, Tensor) or not x.ndim:
            return as_tensor(self._source.permutation(raw(x), **options))
        return np.take(x, self._order(x.shape[axis]), axis)

    def _shuffle(self, x: Any, axis: int, options: dict[str, Any]) -> None:
        """Do what `shuffle` does."""
        if isinstance(x, Tensor) and x.ndim:
            x[...] = np.take(x, self._order(x.shape[axis]), axis)
        else:
            self._source.shuffle(raw(x), **options)
