"""What docs/pytorch-names.md says to write for distributions that SciPy has not: PyTorch's logarithms of densities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync

special: Any = pytest.importorskip("asyncgrad.scipy.special")
stats: Any = pytest.importorskip("asyncgrad.scipy.stats")

_rng = np.random.default_rng(0)
UNIT = np.array([0.1, 0.5, 0.95])

#: By PyTorch's name: the parameters, points, our logarithm of the density, and PyTorch's distribution.
DENSITIES: dict[str, tuple[tuple[Any, ...], Any, Callable[..., Any], Callable[..., Any]]] = {
    "MixtureSameFamily": (
        (np.array([0.2, 0.3, 0.5]), np.array([-1.0, 0.5, 2.0]), np.array([0.5, 1.0, 2.0])),
        _rng.standard_normal(4),
        lambda x, weights, loc, scale: special.logsumexp(
            np.log(weights) + stats.norm.logpdf(x[..., np.newaxis], loc, scale), axis=-1
        ),
        lambda d, weights, loc, scale: d.MixtureSameFamily(d.Categorical(weights), d.Normal(loc, scale)),
    ),
    "LowRankMultivariateNormal": (
        (_rng.standard_normal(3), _rng.standard_normal((3, 2)), np.array([0.5, 1.0, 2.0])),
        _rng.standard_normal((4, 3)),
        lambda x, mean, factor, diagonal: stats.multivariate_normal.logpdf(
            x, mean, factor @ factor.T + np.diag(diagonal)
        ),
        lambda d, mean, factor, diagonal: d.LowRankMultivariateNormal(mean, factor, diagonal),
    ),
    "Kumaraswamy": (
        (np.array(2.5), np.array(1.5)),
        UNIT,
        lambda x, a, b: stats.beta.logpdf(x**a, 1, b) + np.log(a) + (a - 1) * np.log(x),
        lambda d, a, b: d.Kumaraswamy(a, b),
    ),
    "RelaxedBernoulli": (
        (np.array(0.7), np.array(-0.3)),
        UNIT,
        lambda x, tau, logits: (
            stats.logistic.logpdf(special.logit(x), logits / tau, 1 / tau) - np.log(x) - np.log1p(-x)
        ),
        lambda d, tau, logits: d.RelaxedBernoulli(tau, logits=logits),
    ),
}


@pytest.mark.parametrize("name", DENSITIES)
def test_the_expression_for_a_density_has_pytorchs_values_and_gradients(name: str) -> None:
    torch = pytest.importorskip("torch")
    values, points, ours, theirs = DENSITIES[name]
    leaves = [ag.tensor(one, requires_grad=True) for one in (points, *values)]
    peers = [torch.tensor(one, requires_grad=True) for one in (points, *values)]
    found = ours(*leaves)
    expected = theirs(torch.distributions, *peers[1:]).log_prob(peers[0])
    sync.backward(found.sum())
    expected.sum().backward()

    np.testing.assert_allclose(found.numpy(), expected.detach().numpy(), rtol=1e-10)
    for position, (leaf, peer) in enumerate(zip(leaves, peers, strict=True)):
        if name == "MixtureSameFamily" and position == 1:
            # PyTorch divides the weights by their sum, which has a derivative.
            continue
        np.testing.assert_allclose(leaf.grad.numpy(), peer.grad.numpy(), rtol=1e-8, atol=1e-10)


def test_draws_of_the_expressions_have_the_quantiles_of_their_families() -> None:
    a, b = 2.5, 1.5
    drawn = stats.beta.rvs(1, b, size=20_000, random_state=np.random.default_rng(0)) ** (1 / a)
    expected = (1 - (1 - 0.5) ** (1 / b)) ** (1 / a)

    assert abs(float(np.median(drawn.numpy())) - expected) < 0.01
