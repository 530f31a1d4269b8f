"""`python -m benchmarks.hips`: gradients by asyncgrad's transforms beside those of HIPS autograd, in one process.

Each function of NumPy and SciPy and each small program is written once, for the namespace and the transforms of either
library. The two take turns, and their gradients are compared before they are timed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from asyncgrad import scipy
from asyncgrad.sync import func

from .pairs import Times, measure_pair, table

try:
    import autograd as hips
    import autograd.numpy as hips_numpy
    import autograd.scipy.linalg  # noqa: F401 - `autograd.scipy` does not import it
    from autograd.builtins import tuple as hips_tuple
    from autograd.misc.fixed_points import fixed_point as hips_fixed_point
    from autograd.scipy.integrate import odeint as hips_odeint
except ImportError:
    hips = None

__all__ = ["FUNCTIONS", "PROGRAMS", "SCIPY", "Library", "libraries", "main", "measure", "same"]


class Library(NamedTuple):
    """What a case is written for."""

    #: The namespace of NumPy's functions.
    np: Any
    grad: Callable[..., Any]
    elementwise_grad: Callable[..., Any]
    value_and_grad: Callable[..., Any]
    fixed_point: Callable[..., Any]
    #: The namespace of SciPy's modules.
    scipy: Any
    odeint: Callable[..., Any]


#: A case makes a function without arguments, which returns gradients.
Case = Callable[[Library], Callable[[], Any]]


def libraries() -> list[Library]:
    """Return asyncgrad and HIPS autograd."""
    return [
        Library(
            np, func.grad, func.elementwise_grad, func.value_and_grad, func.fixed_point, scipy, scipy.integrate.odeint
        ),
        Library(
            hips_numpy,
            hips.grad,
            hips.elementwise_grad,
            hips.value_and_grad,
            hips_fixed_point,
            hips.scipy,
            _odeint_of_hips,
        ),
    ]


def _odeint_of_hips(func: Any, y0: Any, t: Any, args: Any, **options: Any) -> Any:
    # Without its own kind of tuple, HIPS autograd sees no arguments in it.
    return hips_odeint(func, y0, t, hips_tuple(args), **options)


def _draw(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


def _symmetric(size: int) -> Any:
    matrix = _draw(size, size)
    return matrix @ matrix.T + size * np.eye(size)


def _function(loss: Callable[[Any, Any], Any], argument: Any) -> Case:
    """Return the case of the gradient of `loss(namespace, x)`."""

    def case(library: Library) -> Callable[[], Any]:
        gradient = library.grad(lambda x: loss(library.np, x))
        return lambda: gradient(argument)

    return case


def _energy(xp: Any, z: Any) -> Any:
    return xp.sum(xp.real(z) ** 2 + xp.imag(z) ** 2)


FUNCTIONS: dict[str, Case] = {
    "fft.fft": _function(lambda xp, x: _energy(xp, xp.fft.fft(x)[3:]), _draw(64)),
    "fft.rfft": _function(lambda xp, x: _energy(xp, xp.fft.rfft(x)[3:]), _draw(64)),
    "fft.ifft": _function(lambda xp, x: _energy(xp, xp.fft.ifft(x)[3:]), _draw(64)),
    "fft.fft2": _function(lambda xp, x: _energy(xp, xp.fft.fft2(x)[3:]), _draw(16, 16)),
    "linalg.svd": _function(lambda xp, x: xp.sum(xp.linalg.svd(x, full_matrices=False)[1] ** 3), _draw(12, 8)),
    "linalg.eigh": _function(lambda xp, x: xp.sum(xp.linalg.eigh((x + x.T) / 2)[0] ** 3), _symmetric(12)),
    "linalg.pinv": _function(lambda xp, x: xp.sum(xp.linalg.pinv(x) ** 3), _draw(12, 8)),
    "linalg.cholesky": _function(lambda xp, x: xp.sum(xp.linalg.cholesky((x + x.T) / 2) ** 3), _symmetric(12)),
    "gradient": _function(lambda xp, x: xp.sum(xp.gradient(x) ** 2), _draw(64)),
    "angle": _function(lambda xp, x: xp.sum(xp.angle(x + 1j * x[::-1]) ** 2), _draw(64)),
    "linspace": _function(lambda xp, x: xp.sum(xp.linspace(x[0], x[1], 64) ** 2), _draw(2)),
}


def _scipy(loss: Callable[[Any, Any], Any], argument: Any) -> Case:
    """Return the case of the gradient of the sum of `loss(modules of SciPy, x)`."""

    def case(library: Library) -> Callable[[], Any]:
        gradient = library.grad(lambda x: library.np.sum(loss(library.scipy, x)))
        return lambda: gradient(argument)

    return case


_POINTS = np.linspace(0.2, 0.8, 40)
_PROBABILITIES = np.array([0.2, 0.3, 0.5])


def odeint(library: Library) -> Callable[[], Any]:
    """Return the gradient of the solution of an equation for the parameters of its right-hand side."""
    times = np.linspace(0, 3, 10)

    def velocity(y: Any, t: Any, rate: Any) -> Any:
        return rate * y * (1 - y)

    def loss(rate: Any) -> Any:
        states = library.odeint(velocity, 0.2 * np.ones(2), times, (rate,), rtol=1e-9, atol=1e-9)
        return library.np.sum(states**2)

    gradient = library.grad(loss)
    return lambda: gradient(np.array([0.7, 1.3]))


SCIPY: dict[str, Case] = {
    "special.gammaln": _scipy(lambda sp, x: sp.special.gammaln(x), _POINTS),
    "special.beta": _scipy(lambda sp, x: sp.special.beta(x, 1.5), _POINTS),
    "special.gammainc": _scipy(lambda sp, x: sp.special.gammainc(2.5, x), _POINTS),
    "special.betainc": _scipy(lambda sp, x: sp.special.betainc(1.5, 2.5, x), _POINTS),
    "special.erf": _scipy(lambda sp, x: sp.special.erf(x), _POINTS),
    "special.erfinv": _scipy(lambda sp, x: sp.special.erfinv(x), _POINTS),
    "special.logit": _scipy(lambda sp, x: sp.special.logit(x), _POINTS),
    "special.expit": _scipy(lambda sp, x: sp.special.expit(x), _POINTS),
    "special.polygamma": _scipy(lambda sp, x: sp.special.polygamma(2, x), _POINTS),
    "special.logsumexp": _scipy(lambda sp, x: sp.special.logsumexp(x), _POINTS),
    "stats.norm.logpdf": _scipy(lambda sp, x: sp.stats.norm.logpdf(x, 0.2, 1.5), _POINTS),
    "stats.norm.cdf": _scipy(lambda sp, x: sp.stats.norm.cdf(x, 0.2, 1.5), _POINTS),
    "stats.norm.logcdf": _scipy(lambda sp, x: sp.stats.norm.logcdf(x, 0.2, 1.5), _POINTS),
    "stats.norm.sf": _scipy(lambda sp, x: sp.stats.norm.sf(x, 0.2, 1.5), _POINTS),
    "stats.t.logpdf": _scipy(lambda sp, x: sp.stats.t.logpdf(x, 4.5, 0.2, 1.5), _POINTS),
    "stats.t.cdf": _scipy(lambda sp, x: sp.stats.t.cdf(x, 4.5, 0.2, 1.5), _POINTS),
    "stats.gamma.logpdf": _scipy(lambda sp, x: sp.stats.gamma.logpdf(x, 2.5), _POINTS),
    "stats.gamma.cdf": _scipy(lambda sp, x: sp.stats.gamma.cdf(x, 2.5), _POINTS),
    "stats.beta.logpdf": _scipy(lambda sp, x: sp.stats.beta.logpdf(x, 1.5, 2.5), _POINTS),
    "stats.beta.cdf": _scipy(lambda sp, x: sp.stats.beta.cdf(x, 1.5, 2.5), _POINTS),
    "stats.chi2.logpdf": _scipy(lambda sp, x: sp.stats.chi2.logpdf(x, 3), _POINTS),
    "stats.chi2.cdf": _scipy(lambda sp, x: sp.stats.chi2.cdf(x, 3), _POINTS),
    "stats.poisson.logpmf": _scipy(lambda sp, x: sp.stats.poisson.logpmf(3, x), _POINTS),
    "stats.poisson.pmf": _scipy(lambda sp, x: sp.stats.poisson.pmf(3, x), _POINTS),
    "stats.dirichlet.logpdf": _scipy(lambda sp, x: sp.stats.dirichlet.logpdf(_PROBABILITIES, x), _POINTS[:3]),
    "stats.dirichlet.pdf": _scipy(lambda sp, x: sp.stats.dirichlet.pdf(_PROBABILITIES, x), _POINTS[:3]),
    "stats.multivariate_normal.logpdf": _scipy(
        lambda sp, x: sp.stats.multivariate_normal.logpdf(x, np.zeros(4), np.eye(4) + 0.2), _draw(10, 4)
    ),
    "linalg.sqrtm": _scipy(lambda sp, x: sp.linalg.sqrtm(x), _symmetric(6)),
    "linalg.solve_triangular": _scipy(lambda sp, x: sp.linalg.solve_triangular(x, np.ones(6)), _symmetric(6)),
    "linalg.solve_sylvester": _scipy(lambda sp, x: sp.linalg.solve_sylvester(x, x.T, np.eye(6)), _symmetric(6)),
    "signal.convolve": _scipy(lambda sp, x: sp.signal.convolve(x, np.ones(5)), _POINTS),
    "integrate.odeint": odeint,
}


def nested_tanh(library: Library) -> Callable[[], Any]:
    """Return the derivatives of tanh up to the fourth."""
    xp, x = library.np, np.linspace(-7, 7, 700)

    def tanh(x: Any) -> Any:
        return (1.0 - xp.exp(-2 * x)) / (1.0 + xp.exp(-2 * x))

    derivatives = [tanh]
    for _ in range(4):
        derivatives.append(library.elementwise_grad(derivatives[-1]))
    return lambda: [derivative(x) for derivative in derivatives[1:]]


def square_root(library: Library) -> Callable[[], Any]:
    """Return the first and second derivative of a square root that is found as a fixed point."""
    xp = library.np

    def root(a: Any) -> Any:
        return library.fixed_point(lambda a: lambda x: x - 0.05 * (x**2 - a), a, 10.0, lambda x, y: xp.abs(x - y), 1e-4)

    first = library.grad(root)
    second = library.grad(first)
    return lambda: [first(2.0), second(2.0)]


def rosenbrock(library: Library) -> Callable[[], Any]:
    """Return the gradient of a function of two numbers, as an optimizer of SciPy calls it."""
    gradient = library.value_and_grad(lambda x: 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2)
    x = np.array([0.5, -0.5])
    return lambda: gradient(x)[1]


def logistic_regression(library: Library) -> Callable[[], Any]:
    """Return the gradient for weights of three inputs."""
    xp, inputs, targets = library.np, _draw(40, 3), _draw(40) > 0

    def loss(weights: Any) -> Any:
        predictions = 0.5 * (xp.tanh(xp.dot(inputs, weights)) + 1)
        return -xp.sum(xp.log(predictions * targets + (1 - predictions) * (1 - targets)))

    gradient, weights = library.grad(loss), _draw(3)
    return lambda: gradient(weights)


def neural_net(library: Library) -> Callable[[], Any]:
    """Return the gradients of a classifier's weights, a list of pairs."""
    xp, inputs, labels = library.np, _draw(64, 50), np.eye(10)[np.arange(64) % 10]
    params = [(0.1 * _draw(n, m), 0.1 * _draw(m)) for n, m in ((50, 40), (40, 30), (30, 10))]

    def loss(params: Any) -> Any:
        x = inputs
        for weight, bias in params:
            outputs = xp.dot(x, weight) + bias
            x = xp.tanh(outputs)
        largest = xp.max(outputs, axis=1, keepdims=True)
        return -xp.sum(labels * (outputs - largest - xp.log(xp.sum(xp.exp(outputs - largest), 1, keepdims=True))))

    gradient = library.grad(loss)
    return lambda: gradient(params)


def recurrent_net(library: Library) -> Callable[[], Any]:
    """Return the gradients of a recurrent network's weights, a dict."""
    xp, steps = library.np, _draw(20, 8, 12)
    params = {"in": 0.1 * _draw(12, 32), "hidden": 0.1 * _draw(32, 32), "bias": 0.1 * _draw(32), "out": _draw(32, 12)}

    def loss(params: Any) -> Any:
        hidden, total = np.zeros((8, 32)), 0.0
        for step in steps:
            hidden = xp.tanh(xp.dot(step, params["in"]) + xp.dot(hidden, params["hidden"]) + params["bias"])
            total = total + xp.sum((xp.dot(hidden, params["out"]) - step) ** 2)
        return total

    gradient = library.grad(loss)
    return lambda: gradient(params)


def mixture(library: Library) -> Callable[[], Any]:
    """Return the gradients of the likelihood of a mixture of Gaussians, a dict."""
    xp, data = library.np, _draw(200, 2)
    params = {"weights": _draw(5), "means": _draw(5, 2), "scales": 0.1 * _draw(5, 2)}

    def loss(params: Any) -> Any:
        logits = params["weights"] - xp.log(xp.sum(xp.exp(params["weights"])))
        distances = (data[:, None] - params["means"]) * xp.exp(-params["scales"])
        densities = logits - xp.sum(0.5 * distances**2 + params["scales"], axis=-1)
        largest = xp.max(densities, axis=1, keepdims=True)
        return -xp.sum(largest[:, 0] + xp.log(xp.sum(xp.exp(densities - largest), axis=1)))

    gradient = library.grad(loss)
    return lambda: gradient(params)


def gaussian_process(library: Library) -> Callable[[], Any]:
    """Return the gradient of a marginal likelihood for the parameters of the kernel."""
    xp, x, y = library.np, _draw(20), _draw(20)

    def loss(params: Any) -> Any:
        scaled = x / xp.exp(params[1])
        kernel = xp.exp(params[0] - 0.5 * (scaled[:, None] - scaled[None, :]) ** 2)
        kernel = kernel + xp.exp(params[2]) * np.eye(20)
        _, logdet = xp.linalg.slogdet(kernel)
        return 0.5 * (logdet + xp.dot(y, xp.linalg.solve(kernel, y)))

    gradient, params = library.grad(loss), np.array([0.1, 0.2, -1.0])
    return lambda: gradient(params)


def ode_net(library: Library) -> Callable[[], Any]:
    """Return the gradients of a network in the right-hand side of an equation, solved by Runge-Kutta."""
    xp, target = library.np, _draw(11, 2)
    params = [(0.1 * _draw(2, 50), 0.1 * _draw(50)), (0.1 * _draw(50, 2), 0.1 * _draw(2))]

    def slope(y: Any, params: Any) -> Any:
        return xp.dot(xp.tanh(xp.dot(y**3, params[0][0]) + params[0][1]), params[1][0]) + params[1][1]

    def loss(params: Any) -> Any:
        y, total, h = np.array([2.0, 0.0]), 0.0, 0.1
        for goal in target:
            k1 = slope(y, params)
            k2 = slope(y + h / 2 * k1, params)
            k3 = slope(y + h / 2 * k2, params)
            k4 = slope(y + h * k3, params)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            total = total + xp.sum(xp.abs(y - goal))
        return total

    gradient = library.grad(loss)
    return lambda: gradient(params)


def autoencoder(library: Library) -> Callable[[], Any]:
    """Return the gradients of a variational autoencoder's weights, a pair of lists of pairs."""
    xp, images, noise = library.np, np.abs(_draw(32, 100)) % 1, _draw(32, 4)
    encoder = [(0.1 * _draw(n, m), 0.1 * _draw(m)) for n, m in ((100, 50), (50, 8))]
    decoder = [(0.1 * _draw(n, m), 0.1 * _draw(m)) for n, m in ((4, 50), (50, 100))]

    def layers(x: Any, params: Any) -> Any:
        for weight, bias in params:
            outputs = xp.dot(x, weight) + bias
            x = xp.tanh(outputs)
        return outputs

    def loss(params: Any) -> Any:
        code = layers(images, params[0])
        mean, spread = code[:, :4], code[:, 4:]
        logits = layers(mean + noise * xp.exp(spread), params[1])
        likelihood = -xp.sum(xp.logaddexp(0, -logits * (2 * images - 1)), axis=-1)
        divergence = xp.sum(0.5 * (mean**2 + xp.exp(2 * spread) - 1) - spread, axis=-1)
        return xp.mean(divergence - likelihood)

    gradient = library.grad(loss)
    return lambda: gradient((encoder, decoder))


PROGRAMS: dict[str, Case] = {
    "nested derivatives of tanh": nested_tanh,
    "fixed point": square_root,
    "Rosenbrock": rosenbrock,
    "logistic regression": logistic_regression,
    "neural net": neural_net,
    "recurrent net": recurrent_net,
    "mixture of Gaussians": mixture,
    "Gaussian process": gaussian_process,
    "ODE net": ode_net,
    "variational autoencoder": autoencoder,
}


def same(ours: Any, theirs: Any) -> bool:
    """Tell whether two trees of gradients agree."""
    if isinstance(ours, dict):
        return all(same(entry, theirs[key]) for key, entry in ours.items())
    if isinstance(ours, (list, tuple)):
        return all(same(one, other) for one, other in zip(ours, theirs, strict=True))
    return np.allclose(ours, theirs, rtol=1e-6, atol=1e-9)


def measure(case: Case, rounds: int, seconds: float = 0.02) -> Times:
    """Return the times of a gradient over `rounds`, in each of which both libraries take turns for some `seconds`."""
    calls = [case(library) for library in libraries()]
    if not same(*[call() for call in calls]):
        raise ValueError("asyncgrad and HIPS autograd do not agree")
    return measure_pair(calls, rounds, seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hips", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15, help="how often each is timed (default: %(default)s)")
    rounds = parser.parse_args(arguments).rounds
    if hips is None:
        print("HIPS autograd is not installed: pip install -e '.[bench]'")
        return 1
    for title, cases in (("function", FUNCTIONS), ("function of SciPy", SCIPY), ("program", PROGRAMS)):
        print(table(title, "HIPS autograd", {name: measure(case, rounds) for name, case in cases.items()}), end="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
