"""Random numbers are NumPy's, and have the derivative of the draw with respect to its parameters."""

from __future__ import annotations

import copy
import inspect
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.errors import ArgumentError, InPlaceError, MissingDerivativeError, RequiresGradError
from asyncgrad.numpy import random
from asyncgrad.testing import SimulatedAccelerator
from tests.support.leaves import leaf_of

#: Parameters of each continuous distribution.
CONTINUOUS: dict[str, tuple[Any, ...]] = {
    "beta": (0.7, 2.5),
    "chisquare": (3.0,),
    "exponential": (1.7,),
    "f": (3.0, 7.0),
    "gamma": (2.3, 1.7),
    "gumbel": (0.5, 1.7),
    "laplace": (0.5, 1.7),
    "logistic": (0.5, 1.7),
    "lognormal": (0.5, 0.7),
    "noncentral_chisquare": (3.0, 2.0),
    "noncentral_f": (3.0, 7.0, 2.0),
    "normal": (0.5, 1.7),
    "pareto": (2.3,),
    "power": (2.3,),
    "rayleigh": (1.7,),
    "standard_gamma": (2.3,),
    "standard_t": (4.0,),
    "triangular": (-1.0, 0.5, 3.0),
    "uniform": (-1.0, 3.0),
    "vonmises": (0.5, 1.7),
    "wald": (1.3, 2.1),
    "weibull": (2.3,),
}

#: Draws that move with their parameters continuously when the stream is the same.
SMOOTH = sorted(
    {"exponential", "gumbel", "laplace", "logistic", "lognormal", "normal", "pareto", "power"}
    | {"rayleigh", "triangular", "uniform", "weibull"}
)

#: Calls of methods whose results have no derivative.
DISCRETE: dict[str, tuple[Any, ...]] = {
    "binomial": (10, 0.3),
    "geometric": (0.3,),
    "hypergeometric": (5, 6, 4),
    "logseries": (0.3,),
    "multinomial": (10, [0.2, 0.3, 0.5]),
    "negative_binomial": (5, 0.3),
    "poisson": (2.5,),
    "zipf": (2.5,),
}

SOURCES = {
    "Generator": (random.default_rng, np.random.default_rng),
    "RandomState": (random.RandomState, np.random.RandomState),
}


#: NumPy's module, whose functions draw from its global stream.
NUMPY: Any = np.random


@pytest.fixture(params=sorted(SOURCES))
def make(request: Any) -> tuple[Callable[[int], Any], Callable[[int], Any]]:
    """What makes a source of random numbers from a seed, here and in NumPy."""
    return SOURCES[request.param]


# The same numbers.


@pytest.mark.slow
@pytest.mark.parametrize("size", [None, 3, (2, 3), (0, 2), ()])
@pytest.mark.parametrize("name", sorted(CONTINUOUS))
def test_a_draw_is_that_of_numpy(make: Any, name: str, size: Any):
    ours, theirs = make

    found = getattr(ours(5), name)(*CONTINUOUS[name], size=size)

    wanted = getattr(theirs(5), name)(*CONTINUOUS[name], size=size)
    assert type(found) is ag.Tensor
    assert found.shape == np.shape(wanted)
    assert np.array_equal(found.numpy(), wanted)


@pytest.mark.parametrize("name", sorted(CONTINUOUS))
def test_a_draw_with_parameters_that_require_grad_is_that_of_numpy(make: Any, name: str):
    ours, theirs = make
    source, other = ours(5), theirs(5)

    found = getattr(source, name)(*map(leaf_of, CONTINUOUS[name]), size=(40, 3))

    assert found.requires_grad
    np.testing.assert_allclose(
        found.numpy(), getattr(other, name)(*CONTINUOUS[name], size=(40, 3)), rtol=1e-14, atol=1e-15
    )
    assert source.standard_normal().item() == other.standard_normal()


@pytest.mark.parametrize("name", sorted(DISCRETE))
def test_a_discrete_draw_is_that_of_numpy(make: Any, name: str):
    ours, theirs = make

    found = getattr(ours(5), name)(*DISCRETE[name], size=20)

    wanted = getattr(theirs(5), name)(*DISCRETE[name], size=20)
    assert type(found) is ag.Tensor
    assert found.dtype == wanted.dtype
    assert np.array_equal(found.numpy(), wanted)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["random", "standard_normal", "standard_exponential", "standard_gamma"])
def test_standard_draws_have_the_dtype_asked_for(name: str, dtype: Any):
    shape = (2.5,) if name == "standard_gamma" else ()

    found = getattr(random.default_rng(5), name)(*shape, size=(2, 3), dtype=dtype)

    wanted = getattr(np.random.default_rng(5), name)(*shape, size=(2, 3), dtype=dtype)
    assert found.dtype == dtype
    assert np.array_equal(found.numpy(), wanted)


@pytest.mark.parametrize("name", ["random", "standard_normal", "standard_exponential", "standard_gamma"])
def test_standard_draws_are_written_into_an_array_or_a_tensor(name: str):
    shape = (2.5,) if name == "standard_gamma" else ()
    array, target = np.zeros(3), ag.tensor(np.zeros(3))

    into_array = getattr(random.default_rng(5), name)(*shape, out=array)
    into_tensor = getattr(random.default_rng(5), name)(*shape, out=target, size=3)

    wanted = getattr(np.random.default_rng(5), name)(*shape, size=3)
    assert into_tensor is target
    assert np.array_equal(into_array.numpy(), wanted)
    assert np.array_equal(array, wanted)
    assert np.array_equal(target.numpy(), wanted)


def test_a_standard_gamma_draw_written_into_a_tensor_has_a_derivative():
    shape, target = leaf_of([2.5, 0.5]), ag.tensor(np.zeros(2))

    found = random.default_rng(5).standard_gamma(shape, out=target)

    assert found is target
    (written,) = sync.grad(target.sum(), [shape])
    (direct,) = sync.grad(random.default_rng(5).standard_gamma(shape).sum(), [shape])
    assert np.array_equal(written, direct)


def test_a_size_that_is_not_that_of_out_is_refused():
    with pytest.raises(ArgumentError, match=r"Generator.standard_normal: size=4 is not the shape of out, \(3,\)"):
        random.default_rng(0).standard_normal(4, out=ag.tensor(np.zeros(3)))
    with pytest.raises(ArgumentError, match=r"Generator.standard_gamma: size=4 is not the shape of out, \(3,\)"):
        random.default_rng(0).standard_gamma(leaf_of(1.0), 4, out=np.zeros(3))


def test_methods_of_the_generator_alone_are_those_of_numpy():
    ours, theirs = random.default_rng(5), np.random.default_rng(5)

    assert ours.integers(3, 90, size=(2, 4)).tolist() == theirs.integers(3, 90, size=(2, 4)).tolist()
    assert ours.integers(7, endpoint=True, dtype=np.int8).dtype == np.int8
    theirs.integers(7, endpoint=True, dtype=np.int8)
    assert ours.bytes(5) == theirs.bytes(5)
    assert ours.multivariate_hypergeometric([3, 4, 5], 6, size=2, method="count").tolist() == (
        theirs.multivariate_hypergeometric([3, 4, 5], 6, size=2, method="count").tolist()
    )
    assert ours.dirichlet([0.5, 2.0, 1.0], 4).tolist() == theirs.dirichlet([0.5, 2.0, 1.0], 4).tolist()
    assert ours.standard_cauchy(3).tolist() == theirs.standard_cauchy(3).tolist()
    assert ours.standard_exponential(3, method="inv").tolist() == theirs.standard_exponential(3, method="inv").tolist()


@pytest.mark.parametrize("name", ["Generator", "RandomState"])
def test_methods_have_the_signatures_of_numpys(name: str):
    ours, theirs = getattr(random, name), getattr(np.random, name)

    def parameters(owner: Any, method: str) -> list[Any]:
        found = inspect.signature(getattr(owner, method)).parameters.values()
        return [(one.name, one.default, one.kind) for one in found if one.kind is not one.VAR_POSITIONAL]

    try:
        inspect.signature(theirs.normal)
    except ValueError:
        pytest.skip("this NumPy does not tell the signatures of its methods")
    methods = [each for each in dir(theirs) if not each.startswith("_") and callable(getattr(theirs, each))]
    assert len(methods) > 40
    for method in methods:
        assert parameters(ours, method) == parameters(theirs, method), method


def test_every_method_of_numpys_sources_is_here():
    for ours, theirs in ((random.Generator, np.random.Generator), (random.RandomState, np.random.RandomState)):
        assert {name for name in dir(theirs) if not name.startswith("_")} <= set(dir(ours))
    assert set(np.random.__all__) <= set(random.__all__)


# Functions of the module draw from the global stream.


def test_functions_of_the_module_draw_from_the_global_stream():
    before = NUMPY.get_state()
    try:
        random.seed(7)
        found = [random.randn(2, 3), random.rand(2), random.uniform(0, 2, 3), random.randint(9, size=4)]
        found += [random.permutation(5), random.choice(7, 3), random.random_sample(2), random.normal(size=2)]
        NUMPY.seed(7)
        wanted = [NUMPY.randn(2, 3), NUMPY.rand(2), NUMPY.uniform(0, 2, 3), NUMPY.randint(9, size=4)]
        wanted += [NUMPY.permutation(5), NUMPY.choice(7, 3), NUMPY.random_sample(2)]
        wanted += [NUMPY.normal(size=2)]
    finally:
        NUMPY.set_state(before)

    assert all(type(one) is ag.Tensor for one in found)
    assert [one.tolist() for one in found] == [one.tolist() for one in wanted]


def test_the_state_of_the_module_is_that_of_numpy():
    before = NUMPY.get_state()
    try:
        random.seed(3)
        state = random.get_state()
        first = random.randn().item()
        random.set_state(state)
        assert NUMPY.randn() == first
    finally:
        NUMPY.set_state(before)


# Derivatives.


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("name", SMOOTH)
def test_the_derivative_of_a_smooth_draw_is_that_on_the_same_stream(make: Any, name: str, position: int):
    ours, theirs = make
    parameters = list(CONTINUOUS[name])
    if position >= len(parameters):
        position = 0

    def drawn(value: float) -> Any:
        moved = [*parameters[:position], value, *parameters[position + 1 :]]
        return getattr(theirs(5), name)(*moved, size=50)

    columns = [leaf_of(np.full(50, value)) for value in parameters]
    (found,) = sync.grad(getattr(ours(5), name)(*columns).sum(), [columns[position]])

    step = 1e-5
    wanted = (drawn(parameters[position] + step) - drawn(parameters[position] - step)) / (2 * step)
    np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", sorted(CONTINUOUS))
def test_first_and_second_derivatives_agree_with_finite_differences_of_first(name: str):
    parameters = CONTINUOUS[name]
    columns = [leaf_of(np.full(6, value)) for value in parameters]

    def first(values: list[Any], draw: Any, create_graph: bool = False) -> Any:
        return sync.grad(draw(values).sum(), values, create_graph=create_graph)

    def draw(values: list[Any]) -> Any:
        return getattr(random.default_rng(5), name)(*values)

    grads = first(columns, draw, create_graph=True)
    if not any(grad.requires_grad for grad in grads):
        assert name in {"exponential", "gumbel", "laplace", "logistic", "normal", "rayleigh", "uniform"}
        return
    second = sync.grad(sum(grad.sum() for grad in grads), columns, allow_unused=True, materialize_grads=True)

    assert all(np.isfinite(one.numpy()).all() for one in (*grads, *second))
    if name in SMOOTH:
        step = 1e-5
        for place, one in enumerate(second):
            sides = []
            for sign in (1, -1):
                moved = [np.full(6, value) for value in parameters]
                moved[place] += sign * step
                sides.append(sum(grad.numpy() for grad in first([leaf_of(value) for value in moved], draw)))
            np.testing.assert_allclose(one, (sides[0] - sides[1]) / (2 * step), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", sorted(CONTINUOUS))
def test_parameters_and_size_broadcast_as_numpys(name: str):
    count = len(CONTINUOUS[name])
    shapes = [(3, 1), (4,), ()][:count]
    parameters = [np.full(shape, value) for shape, value in zip(shapes, CONTINUOUS[name], strict=True)]
    leaves = [leaf_of(value) for value in parameters]

    found = getattr(random.default_rng(5), name)(*leaves, size=(2, 3, 4))
    grads = sync.grad(found.sum(), leaves)

    wanted = getattr(np.random.default_rng(5), name)(*parameters, size=(2, 3, 4))
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-14, atol=1e-15)
    assert [grad.shape for grad in grads] == shapes


@pytest.mark.parametrize("size", [None, (), (0,), (0, 3)])
@pytest.mark.parametrize("name", sorted(CONTINUOUS))
def test_draws_of_no_axes_and_of_no_elements_have_derivatives(name: str, size: Any):
    leaves = [leaf_of(value) for value in CONTINUOUS[name]]

    found = getattr(random.default_rng(5), name)(*leaves, size=size)
    grads = sync.grad(found.sum(), leaves)

    assert found.shape == (size or ())
    assert all(grad.shape == () and np.isfinite(grad.item()) for grad in grads)


@pytest.mark.parametrize("name", sorted(CONTINUOUS))
def test_parameters_of_single_precision_have_gradients_of_single_precision(name: str):
    single = [leaf_of(np.full(20, value), np.float32) for value in CONTINUOUS[name]]
    double = [leaf_of(value.numpy().astype(float)) for value in single]

    grads = sync.grad(getattr(random.default_rng(5), name)(*single).sum(), single)

    wanted = sync.grad(getattr(random.default_rng(5), name)(*double).sum(), double)
    assert all(grad.dtype == np.float32 for grad in grads)
    for grad, one in zip(grads, wanted, strict=True):
        np.testing.assert_allclose(grad, one, rtol=2e-4, atol=1e-5)


def test_a_draw_under_no_grad_and_of_detached_parameters_has_no_history():
    loc = leaf_of(1.0)

    with ag.no_grad():
        silent = random.default_rng(0).normal(loc, 1.0)

    assert not silent.requires_grad
    assert not random.default_rng(0).gamma(loc.detach()).requires_grad


@pytest.mark.parametrize("name", ["beta", "standard_gamma", "triangular", "vonmises", "wald"])
def test_jacobians_of_draws_are_the_same_by_rows_and_by_columns(name: str):
    parameters = [np.full(3, value) for value in CONTINUOUS[name]]

    def draw(first: Any) -> Any:
        return getattr(random.default_rng(5), name)(first, *parameters[1:], size=(2, 3))

    rows, columns = sync.func.jacrev(draw)(parameters[0]), sync.func.jacfwd(draw)(parameters[0])

    assert rows.shape == (2, 3, 3)
    np.testing.assert_allclose(rows, columns, rtol=1e-12, atol=1e-14)


def test_a_scale_of_zero_has_a_derivative():
    scale = leaf_of(0.0)

    (grad,) = sync.grad(random.default_rng(0).normal(1.0, scale, 5).sum(), [scale])

    assert grad.item() == pytest.approx(np.random.default_rng(0).standard_normal(5).sum())


def test_gradients_of_means_estimate_those_of_expectations():
    a, b = leaf_of(2.0), leaf_of(3.0)

    draws = random.default_rng(0).beta(a, b, 20_000)
    found = sync.grad(np.square(draws).mean(), [a, b])

    # The expectation of the square is a (a + 1) / (n (n + 1)), with n = a + b.
    n, second = 5.0, 6.0 / 30.0
    assert found[0].item() == pytest.approx(second * (1 / 2 + 1 / 3 - 1 / n - 1 / (n + 1)), rel=0.02)
    assert found[1].item() == pytest.approx(-second * (1 / n + 1 / (n + 1)), rel=0.02)


@pytest.mark.parametrize("name", ["beta", "gamma", "normal", "poisson", "standard_gamma", "triangular"])
def test_a_draw_lives_where_its_parameters_do(name: str):
    device, is_discrete = SimulatedAccelerator(), name in DISCRETE
    here = [ag.tensor(value, requires_grad=not is_discrete) for value in ({**CONTINUOUS, **DISCRETE})[name]]
    there = [one.detach().to(device).requires_grad_(not is_discrete) for one in here]

    found, wanted = (getattr(random.default_rng(5), name)(*leaves, size=4) for leaves in (there, here))

    assert found.device is device
    assert np.array_equal(found.to("cpu").numpy(), wanted.numpy())
    if not is_discrete:
        grads = sync.grad(found.sum(), there)
        assert all(grad.device is device for grad in grads)
        assert [grad.item() for grad in grads] == [grad.item() for grad in sync.grad(wanted.sum(), here)]


def test_rows_and_orders_of_tensors_on_a_device_live_there():
    device = SimulatedAccelerator()
    mean = ag.tensor([0.0, 1.0, 5.0]).to(device).requires_grad_()

    rows = random.default_rng(5).multivariate_normal(mean, np.eye(3), 2)
    order = random.default_rng(5).permutation(mean)
    chosen = random.default_rng(5).choice(mean, 4, p=ag.tensor([0.2, 0.3, 0.5]).to(device))
    x = mean.detach() * 1.0
    random.default_rng(5).shuffle(x)

    assert {one.device for one in (rows, order, chosen, x)} == {device}
    assert np.array_equal(
        rows.to("cpu").detach().numpy(), np.random.default_rng(5).multivariate_normal([0.0, 1.0, 5.0], np.eye(3), 2)
    )
    wanted = np.random.default_rng(5).permutation([0.0, 1.0, 5.0])
    assert np.array_equal(order.to("cpu").detach().numpy(), wanted)
    assert np.array_equal(x.to("cpu").numpy(), wanted)
    assert chosen.shape == (4,)


# Several numbers at once.


@pytest.mark.parametrize("method", ["svd", "eigh", "cholesky", None])
def test_normal_rows_are_numpys_and_move_with_mean_and_covariance(method: str | None):
    mean, cov = np.array([1.0, -1.0, 0.5]), np.array([[2.0, 0.5, 0.4], [0.5, 1.0, 0.2], [0.4, 0.2, 0.7]])
    weights = np.random.default_rng(1).standard_normal((4, 2, 3))
    direction = np.array([[0.3, 0.2, -0.1], [0.2, -0.4, 0.5], [-0.1, 0.5, 0.6]])
    options = {} if method is None else {"method": method}
    ours, theirs = SOURCES["RandomState" if method is None else "Generator"]

    def drawn(change: float) -> Any:
        return theirs(5).multivariate_normal(mean, cov + change * direction, (4, 2), **options)

    leaves = [leaf_of(mean), leaf_of(cov)]
    rows = ours(5).multivariate_normal(*leaves, (4, 2), **options)
    of_mean, of_cov = sync.grad((rows * weights).sum(), leaves)

    step = 1e-6
    wanted = (weights * (drawn(step) - drawn(-step))).sum() / (2 * step)
    np.testing.assert_allclose(rows.numpy(), drawn(0.0), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(of_mean, weights.sum((0, 1)))
    assert (of_cov.numpy() * direction).sum() == pytest.approx(wanted, rel=1e-6)


def test_normal_rows_of_equal_eigenvalues_estimate_the_gradient_of_the_expectation():
    cov = leaf_of(np.eye(2))

    rows = random.default_rng(0).multivariate_normal(np.zeros(2), cov, 20_000)
    (found,) = sync.grad((rows[:, 0] * rows[:, 1]).mean() + np.square(rows[:, 0]).mean(), [cov])

    wanted = np.random.default_rng(0).multivariate_normal(np.zeros(2), np.eye(2), 20_000)
    np.testing.assert_allclose(rows.numpy(), wanted)
    np.testing.assert_allclose(found + found.T, [[2.0, 1.0], [1.0, 0.0]], atol=0.05)


@pytest.mark.parametrize("method", ["svd", "eigh", "cholesky"])
def test_nearly_equal_eigenvalues_do_not_make_gradients_large(method: str):
    points = np.linspace(0, 1, 12)
    width = leaf_of(0.5)
    cov = np.exp(-np.square((points[:, np.newaxis] - points) / width)) + 1e-3 * np.eye(12)

    rows = random.default_rng(0).multivariate_normal(np.zeros(12), cov, 5, method=method)
    (grad,) = sync.grad(rows.sum(), [width])

    assert abs(grad.item()) < 100


def test_a_singular_covariance_that_requires_grad_is_refused():
    cov = leaf_of(np.ones((3, 3)))

    with pytest.raises(ArgumentError, match=r"shape \(3, 3\) that requires grad is not positive definite.* np.eye"):
        random.default_rng(0).multivariate_normal(np.zeros(3), cov)


def test_one_normal_row_has_one_axis():
    mean = leaf_of([0.0, 1.0])

    assert random.default_rng(0).multivariate_normal(mean, np.eye(2)).shape == (2,)


def test_a_covariance_of_a_wrong_shape_is_numpys_error():
    with pytest.raises(ValueError, match="mean and cov must have same length"):
        random.default_rng(0).multivariate_normal(leaf_of([0.0, 1.0]), np.eye(3))


# Whole numbers.


@pytest.mark.parametrize("name", sorted(DISCRETE))
def test_a_discrete_draw_refuses_a_parameter_that_requires_grad(make: Any, name: str):
    parameters = [leaf_of(np.asarray(value, float)) for value in DISCRETE[name]]

    with pytest.raises(MissingDerivativeError, match=rf"\.{name} draws whole numbers.*\.detach\(\).*score-function"):
        getattr(make[0](0), name)(*parameters)


def test_a_choice_refuses_probabilities_that_require_grad():
    with pytest.raises(MissingDerivativeError, match=r"Generator.choice .* with respect to p,.* p.detach\(\)"):
        random.default_rng(0).choice(3, p=leaf_of([0.2, 0.3, 0.5]))
    with pytest.raises(MissingDerivativeError, match=r"Generator.integers .* with respect to high"):
        random.default_rng(0).integers(0, leaf_of(5.0))
    with pytest.raises(MissingDerivativeError, match=r"RandomState.randint .* with respect to low"):
        random.RandomState(0).randint(leaf_of(5.0))


def test_a_discrete_draw_takes_a_tensor_that_does_not_require_grad():
    rates = ag.tensor([1.0, 50.0])

    assert random.default_rng(3).poisson(rates).tolist() == np.random.default_rng(3).poisson([1.0, 50.0]).tolist()


# Errors.


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("normal", (0.0, -1.0), "scale < 0"),
        ("gamma", (-1.0, 1.0), "shape < 0"),
        ("gamma", (1.0, -1.0), "scale < 0"),
        ("beta", (0.0, 1.0), "a <= 0"),
        ("triangular", (2.0, 1.0, 3.0), "left > mode"),
        ("wald", (-1.0, 1.0), "mean <= 0"),
    ],
)
def test_a_parameter_out_of_its_range_is_numpys_error(make: Any, name: str, parameters: Any, message: str):
    with pytest.raises(ValueError, match=message):
        getattr(make[0](0), name)(*map(leaf_of, parameters))


def test_a_refused_parameter_leaves_the_stream_as_it_was():
    rng = random.default_rng(0)

    with pytest.raises(ValueError, match="scale < 0"):
        rng.normal(0.0, leaf_of(-1.0), 3)

    assert rng.random().item() == np.random.default_rng(0).random()


def test_parameters_that_do_not_broadcast_are_named_with_their_shapes():
    rng = random.default_rng(0)

    with pytest.raises(ArgumentError, match=r"Generator.normal: loc of shape \(3,\) and scale of shape \(2,\) cannot"):
        rng.normal(leaf_of([1.0, 2.0, 3.0]), leaf_of([1.0, 2.0]))
    with pytest.raises(ArgumentError, match=r"loc of shape \(3,\) and scale of shape \(\) .* size=\(2,\)"):
        rng.normal(leaf_of([1.0, 2.0, 3.0]), 1.0, size=2)


def test_numpys_generator_names_the_one_that_takes_tensors():
    with pytest.raises(RequiresGradError, match=r"asyncgrad\.numpy\.random\.default_rng"):
        np.random.default_rng(0).normal(leaf_of(1.0))


# Orders and choices.


@pytest.mark.parametrize("shape", [(7,), (5, 3), (3, 4, 2)])
def test_permutations_of_tensors_are_numpys_and_keep_history(make: Any, shape: tuple[int, ...]):
    ours, theirs = make
    data = np.random.default_rng(1).standard_normal(shape)
    x = leaf_of(data)

    found = ours(5).permutation(x)
    weights = np.arange(1.0, found.size + 1).reshape(shape)
    (grad,) = sync.grad((found * weights).sum(), [x])

    assert np.array_equal(found.numpy(), theirs(5).permutation(data))
    assert (grad.numpy() * data).sum() == pytest.approx((found.numpy() * weights).sum())


def test_permutations_along_an_axis_and_of_each_slice_are_numpys():
    data = np.arange(24.0).reshape(4, 6)
    x = leaf_of(data)

    for axis in (0, 1, -1):
        assert np.array_equal(
            random.default_rng(5).permutation(x, axis=axis).numpy(),
            np.random.default_rng(5).permutation(data, axis=axis),
        )
    for each in (None, 0, 1, -1):
        found = random.default_rng(5).permuted(x, axis=each)
        assert np.array_equal(found.numpy(), np.random.default_rng(5).permuted(data, axis=each))
        assert np.array_equal(sync.grad((found * found).sum(), [x])[0], 2 * data)


def test_permuted_writes_into_out():
    x, target, array = leaf_of(np.arange(4.0)), ag.tensor(np.zeros(4)), np.zeros(4)

    found = random.default_rng(5).permuted(x, out=target)
    plain = random.default_rng(5).permuted(np.arange(4.0), out=array)

    wanted = np.random.default_rng(5).permuted(np.arange(4.0))
    assert found is target
    assert plain is array
    assert np.array_equal(target.numpy(), wanted)
    assert np.array_equal(array, wanted)
    assert target.requires_grad


@pytest.mark.parametrize("shape", [(7,), (5, 3)])
def test_a_tensor_is_shuffled_in_place_as_an_array_is(make: Any, shape: tuple[int, ...]):
    ours, theirs = make
    data = np.random.default_rng(1).standard_normal(shape)
    leaf = leaf_of(data)
    x = leaf * 1.0

    assert ours(5).shuffle(x) is None

    theirs(5).shuffle(data)
    assert np.array_equal(x.numpy(), data)
    assert np.array_equal(sync.grad((x * x).sum(), [leaf])[0], 2 * leaf.numpy())


def test_a_leaf_that_requires_grad_is_not_shuffled():
    with pytest.raises(InPlaceError):
        random.default_rng(0).shuffle(leaf_of([1.0, 2.0]))


def test_arrays_and_lists_are_shuffled_in_place():
    ours, theirs = random.default_rng(5), np.random.default_rng(5)
    mine, yours = [*range(9)], [*range(9)]
    columns, others = np.arange(12).reshape(3, 4), np.arange(12).reshape(3, 4)

    ours.shuffle(mine)
    ours.shuffle(columns, axis=1)

    theirs.shuffle(yours)
    theirs.shuffle(others, axis=1)
    assert mine == yours
    assert np.array_equal(columns, others)


@pytest.mark.parametrize("size", [None, 4, (2, 3)])
@pytest.mark.parametrize("shape", [(9,), (9, 2)])
def test_choices_of_a_tensor_are_numpys_and_keep_history(shape: tuple[int, ...], size: Any):
    data = np.random.default_rng(1).standard_normal(shape)
    x = leaf_of(data)

    found = random.default_rng(5).choice(x, size)
    again = random.default_rng(5).choice(x.detach(), 3, replace=False, p=ag.tensor(np.full(9, 1 / 9)), shuffle=False)
    (grad,) = sync.grad(found.sum(), [x])

    assert np.array_equal(found.numpy(), np.random.default_rng(5).choice(data, size))
    wanted = np.random.default_rng(5).choice(data, 3, replace=False, p=np.full(9, 1 / 9), shuffle=False)
    assert np.array_equal(again.numpy(), wanted)
    assert grad.numpy().sum() == found.size


def test_choices_along_another_axis_and_of_other_things_are_numpys():
    data = np.arange(12.0).reshape(3, 4)

    assert np.array_equal(
        random.default_rng(5).choice(leaf_of(data), 2, axis=1).numpy(), np.random.default_rng(5).choice(data, 2, axis=1)
    )
    assert np.array_equal(
        random.default_rng(5).choice(data, 2, axis=1).numpy(), np.random.default_rng(5).choice(data, 2, axis=1)
    )
    assert random.default_rng(5).choice(["a", "b", "c"]) == np.random.default_rng(5).choice(["a", "b", "c"])
    assert random.default_rng(5).choice(10).item() == np.random.default_rng(5).choice(10)
    assert random.default_rng(5).permutation(6).tolist() == np.random.default_rng(5).permutation(6).tolist()
    assert random.RandomState(5).choice(10, 3).tolist() == np.random.RandomState(5).choice(10, 3).tolist()


# Sources.


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda source: pickle.loads(pickle.dumps(source))])
def test_a_copy_of_a_source_goes_on_by_itself_with_the_same_numbers(make: Any, copied: Any):
    source = make[0](5)
    source.random()

    other = copied(source)

    assert type(other) is type(source)
    assert source.normal(size=3).tolist() == other.normal(size=3).tolist()
    source.random()
    assert source.random().item() != other.random().item()


def test_generators_are_made_of_what_numpys_are():
    stream = np.random.PCG64(3)
    plain = np.random.default_rng(3)
    rng = random.default_rng(3)

    assert random.Generator(stream).bit_generator is stream
    assert random.default_rng(plain).bit_generator is plain.bit_generator
    assert random.default_rng(rng) is rng
    assert random.default_rng(np.random.SeedSequence(3)).random().item() == np.random.default_rng(3).random()
    assert repr(rng) == "Generator(PCG64)"
    assert repr(random.RandomState(0)) == "RandomState(MT19937)"


def test_spawned_generators_have_numpys_streams():
    ours, theirs = random.default_rng(3).spawn(2), np.random.default_rng(3).spawn(2)

    assert all(type(one) is random.Generator for one in ours)
    assert [one.random().item() for one in ours] == [one.random() for one in theirs]


def test_a_checkpoint_draws_the_same_numbers_again(make: Any):
    source = make[0](5)
    x = leaf_of([1.0, 2.0, 3.0])

    def noisy(x: Any, source: Any) -> Any:
        return np.exp(x * source.normal(size=3))

    y = ag.checkpoint(noisy, x, source, use_reentrant=False)
    (grad,) = sync.grad(y.sum(), [x])

    noise = make[1](5).normal(size=3)
    np.testing.assert_allclose(grad, noise * np.exp(x.numpy() * noise))
    assert source.random().item() != make[1](5).random()


def test_dropout_takes_a_generator_of_tensors():
    found = nn.dropout(leaf_of(np.ones(6)), 0.5, rng=random.default_rng(0))

    assert np.array_equal(found.numpy(), nn.dropout(np.ones(6), 0.5, rng=np.random.default_rng(0)))


def test_no_warning_is_issued_for_tiny_parameters():
    shapes = leaf_of([1e-8, 1e-3, 1e3, 1e8])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (grad,) = sync.grad(random.default_rng(0).gamma(shapes).sum(), [shapes])

    assert np.isfinite(grad.numpy()).all()
