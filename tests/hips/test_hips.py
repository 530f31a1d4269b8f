"""asyncgrad.hips: programs of HIPS autograd, against finite differences, known values, and HIPS autograd itself."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
import asyncgrad.hips as hips
from asyncgrad.errors import ArgumentError, ArgumentTypeError, GradientTypeError
from asyncgrad.hips.test_util import check_grads
from tests.support.processes import run_python

X = np.array([0.5, 1.5, -0.3])
M = np.array([[2.0, 0.3], [0.5, 1.5]])
Z = np.array([1.0 + 2.0j, -0.5 + 0.3j])
anp = hips.numpy
sp = hips.scipy

#: Functions and the arguments at which their first and second derivatives are compared with finite differences.
FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "array of numbers": (lambda x: anp.array([[x[0], 1.0], [x[1], x[0] * x[2]]]), (X,)),
    "sum of a list": (lambda x: anp.sum([x[0], x[1] ** 2]), (X,)),
    "mean of a list": (lambda x: anp.mean([x[0], x[1] ** 2]), (X,)),
    "stack": (lambda x: anp.vstack([x, anp.sin(x)]), (X,)),
    "r_": (lambda x: anp.r_[x, x * x], (X,)),
    "select": (lambda x: anp.select([x > 1, x > 0], [x, x**2]), (X,)),
    "inverse": (anp.linalg.inv, (M,)),
    "determinant": (lambda m: anp.linalg.slogdet(m)[1], (M,)),
    "fft": (lambda x: anp.real(anp.fft.ifft(anp.fft.fft(x) ** 2)), (X,)),
    "dict": (lambda p: anp.dot(p["w"], p["x"][0]) * p["t"][1], ({"w": M, "x": [X[:2]], "t": (1.0, 2.0)},)),
    "returns a container": (lambda x: {"a": x**2, "b": [anp.sin(x), (x,)]}, (X,)),
    "complex argument": (lambda z: anp.abs(z) ** 2, (Z,)),
    "complex result": (lambda x: anp.exp(1j * x), (X,)),
    "holomorphic": (lambda z: z**3 * anp.exp(z), (Z,)),
    "special": (lambda x: sp.special.gammaln(anp.abs(x)), (X,)),
    "convolution": (lambda x: sp.signal.convolve(M, x, axes=([1], [0]), mode="valid"), (X,)),
    "logsumexp": (sp.special.logsumexp, (X,)),
    "a distribution": (lambda m: sp.stats.norm.logpdf(X, m, 2.0), (0.5,)),
    "a distribution of vectors": (lambda m: sp.stats.multivariate_normal.logpdf(X[:2], m, np.eye(2)), (X[1:],)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_are_those_of_finite_differences(name: str) -> None:
    function, args = FUNCTIONS[name]

    check_grads(function, modes=["rev"])(*args)
    check_grads(function, modes=["fwd"], order=1)(*args)


def test_a_wrong_derivative_is_found() -> None:
    wrong = hips.primitive(lambda x: x * x)
    hips.extend.defvjp(wrong, lambda ans, x: lambda g: 2.001 * g * x)

    with pytest.raises(AssertionError, match="finite differences are"):
        check_grads(wrong, modes=["rev"], order=1)(3.0)
    with pytest.raises(ArgumentError, match="modes"):
        check_grads(np.sin, modes=["reverse"])


#: What a program computes with HIPS autograd's names, given the module.
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "grad": lambda a: a.grad(a.numpy.sin)(1.0),
    "two arguments": lambda a: a.grad(lambda x, y: x * y**2, [0, 1])(2.0, 3.0),
    "the last argument": lambda a: a.grad(lambda x, y: x * y, -1)(2.0, 3.0),
    "keywords": lambda a: a.grad(lambda x, y=2.0: x * y)(1.0, y=3.0),
    "nested": lambda a: a.grad(lambda x: x * a.grad(lambda y: x * y**2)(2.0))(3.0),
    "float32": lambda a: a.grad(lambda x: a.numpy.sum(x * 2))(np.ones(2, np.float32)).dtype.name,
    "complex": lambda a: a.grad(lambda z: a.numpy.abs(z) ** 2)(1 + 2j),
    "complex vector": lambda a: a.grad(lambda z: a.numpy.imag(a.numpy.sum(z * z)))(Z),
    "complex jacobian": lambda a: a.jacobian(lambda z: a.numpy.real(z * z))(Z),
    "complex pullback": lambda a: a.make_vjp(lambda z: z * z)(Z)[0](np.array([1j, 2 - 1j])),
    "real argument, complex pullback": lambda a: a.make_vjp(lambda x: x * (1 + 2j))(X)[0](X + 1j),
    "complex pushforward": lambda a: a.make_jvp(lambda z: z * z)(1 + 2j)(1j),
    "gradient of a complex gradient": lambda a: a.grad(lambda z: a.numpy.imag(a.grad(lambda w: a.numpy.real(w**3))(z)))(
        1 + 2j
    ),
    "holomorphic": lambda a: a.holomorphic_grad(lambda z: z**3)(1 + 2j),
    "elementwise": lambda a: a.elementwise_grad(a.elementwise_grad(a.numpy.tanh))(X),
    "jacobian": lambda a: a.jacobian(lambda x, y: a.numpy.outer(x, y), 1)(X, X),
    "jacobian of a number": lambda a: a.jacobian(lambda x: x * x)(3.0),
    "hessian": lambda a: a.hessian(lambda x: a.numpy.sum(x**3))(X),
    "value and gradient": lambda a: a.value_and_grad(lambda x: a.numpy.sum(x**2))(X),
    "containers": lambda a: a.grad(lambda p: sum(a.numpy.sum(v**2) for v in p.values()))({"a": X, "b": 3.0}),
    "own containers": lambda a: a.make_vjp(lambda x: a.dict({"a": x, "b": a.list([2 * x, a.tuple((x,))])}))(3.0)[0](
        {"a": 1.0, "b": [10.0, (100.0,)]}
    ),
    "isinstance": lambda a: a.grad(lambda x: a.numpy.sum(x**2) if a.isinstance(x, np.ndarray) else x[0])(X),
    "deriv": lambda a: a.deriv(lambda x: x**2)(X),
    "by name": lambda a: a.grad_named(lambda x, y: x * y, "y")(2.0, 3.0),
    "hvp": lambda a: a.make_hvp(lambda x: a.numpy.sum(x**3))(X)[0](X),
    "tensor product": lambda a: a.hessian_vector_product(lambda x, y: a.numpy.sum(x**3 * y))(X, 3.0, X),
    "product with a jacobian": lambda a: a.tensor_jacobian_product(lambda x: a.numpy.outer(x, x))(X, X),
    "gauss newton": lambda a: a.make_ggnvp(lambda x, y: a.numpy.sin(y) * x, f_argnum=1)(2.0, X)(X),
    "checkpoint": lambda a: a.grad(a.grad(a.checkpoint(lambda x: a.numpy.sin(x) * x)))(3.0),
    "arrays stay arrays": lambda a: [type(each).__name__ for each in (a.numpy.array([1.0]), a.numpy.zeros(2))],
    "flatten": lambda a: a.misc.flatten({"b": 2.0, "a": [0.0, M]})[0],
    "unflatten": lambda a: a.misc.flatten({"b": 2.0, "a": [0.0, M]})[1](np.arange(6.0)),
    "adam": lambda a: a.misc.optimizers.adam(lambda x, i: {"a": 2 * x["a"]}, {"a": X}, num_iters=9, step_size=0.1),
    "sgd": lambda a: a.misc.optimizers.sgd(lambda x, i: 2 * x, X, num_iters=9),
    "rmsprop": lambda a: a.misc.optimizers.rmsprop(lambda x, i: 2 * x, X, num_iters=9),
    "flattened optimizer": lambda a: a.misc.optimizers.unflatten_optimizer(
        lambda gradient, x, callback=None: x - 0.5 * gradient(x, 0)
    )(lambda x, i: {"a": x["a"] ** 2}, {"a": X}),
    "images and filters": lambda a: a.grad(
        lambda w: a.numpy.sum(_images(a, w, "valid") ** 2) + a.numpy.sum(_images(a, w, "full") * 3)
    )(np.arange(12.0).reshape(3, 2, 2)),
    "valid, with a filter that is larger": lambda a: a.grad(
        lambda w: a.numpy.sum(a.scipy.signal.convolve(w, M, axes=([1], [0]), mode="valid") ** 2)
    )(np.arange(3.0).reshape(3, 1)),
    "the middle": lambda a: a.scipy.signal.convolve(M, X[:2], axes=([1], [0]), mode="same"),
    "fixed point": lambda a: a.grad(
        lambda c: a.misc.fixed_points.fixed_point(lambda c: lambda x: (x + c / x) / 2, c, 1.0, _distance, 1e-9)
    )(4.0),
    "name": lambda a: a.grad(_distance).__name__,
}


def _images(a: Any, filters: Any, mode: str) -> Any:
    images = np.cos(np.arange(36.0)).reshape(1, 3, 4, 3)
    return a.scipy.signal.convolve(images, filters, axes=([2, 3], [1, 2]), dot_axes=([1], [0]), mode=mode)


def _distance(x: Any, y: Any) -> Any:
    return np.abs(x - y)


def theirs() -> ModuleType:
    found = pytest.importorskip("autograd")
    for name in ("numpy", "scipy.signal", "scipy.stats", "misc.optimizers", "misc.fixed_points", "test_util", "extend"):
        importlib.import_module(f"autograd.{name}")
    return found  # type: ignore[no-any-return]


def assert_alike(found: Any, expected: Any) -> None:
    mine, structure = ag.tree.flatten(found)
    other, other_structure = ag.tree.flatten(expected)
    assert structure == other_structure
    for one, two in zip(mine, other, strict=True):
        assert not isinstance(one, ag.Tensor)
        if isinstance(two, str):
            assert one == two
        else:
            assert np.shape(one) == np.shape(two)
            np.testing.assert_allclose(one, two, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_computes_what_hips_autograd_does(name: str) -> None:
    assert_alike(PROGRAMS[name](hips), PROGRAMS[name](theirs()))


KNOWN = {
    "grad": math.cos(1.0),
    "two arguments": (9.0, 12.0),
    "nested": 24.0,
    "complex": 2 - 4j,
    "complex jacobian": np.diag(2 * Z),
    "complex pushforward": (-3 + 4j, -4 + 2j),
    "holomorphic": 3 * (1 + 2j) ** 2,
    "real argument, complex pullback": X - 2,
    "hessian": np.diag(6 * X),
    "own containers": 121.0,
    "hvp": 6 * X * X,
    "flatten": np.array([0.0, 2.0, 0.3, 0.5, 1.5, 2.0]),
    "fixed point": 0.25,
    "the middle": np.array([[1.0, 3.15], [0.25, 1.5]]),
    "flattened optimizer": {"a": X - X**2 / 2},
    "arrays stay arrays": ["ndarray", "ndarray"],
}


@pytest.mark.parametrize("name", KNOWN)
def test_a_program_computes_what_is_known(name: str) -> None:
    assert_alike(PROGRAMS[name](hips), KNOWN[name])


def log_sum_exp(lib: Any) -> Callable[..., Any]:
    @lib.extend.primitive
    def of_array(x: Any) -> Any:
        # Called with an array, whatever is differentiated.
        assert type(x) is np.ndarray
        return np.max(x) + np.log(np.sum(np.exp(x - np.max(x))))

    lib.extend.defvjp(of_array, lambda ans, x: lambda g: lib.numpy.ones(x.shape) * g * lib.numpy.exp(x - ans))
    return of_array  # type: ignore[no-any-return]


def test_a_primitive_is_differentiated_by_what_defvjp_says_any_number_of_times() -> None:
    function = log_sum_exp(hips)
    p = np.exp(X) / np.exp(X).sum()

    check_grads(function, order=3, modes=["rev"])(X)
    np.testing.assert_allclose(hips.hessian(function)(X), np.diag(p) - np.outer(p, p))
    assert type(function(X)) is np.float64


def primitives(lib: Any) -> dict[str, Any]:
    """What primitives of all kinds give with the module."""
    extend, square = lib.extend, lib.extend.primitive(lambda z: z**2)
    extend.defvjp(square, lambda ans, z: lambda g: g * 2 * z)
    inner = extend.primitive(lambda d: d["a"] * d["b"][0])
    extend.defvjp(inner, lambda ans, d: lambda g: {"a": g * d["b"][0], "b": [g * d["a"]]})
    pair = extend.primitive(lambda x: (x * 2, x * x))
    extend.defvjp(pair, lambda ans, x: lambda g: g[0] * 2 + g[1] * 2 * x)
    scaled = extend.primitive(lambda x, y, scale=1.0: x * y * scale)
    extend.defvjp(scaled, lambda ans, x, y, scale=1.0: lambda g: g * x * scale, None, argnums=(1, 0))
    product = extend.primitive(lambda x, y: x @ y)
    extend.defvjp_argnums(
        product,
        lambda argnums, ans, args, kwargs: (
            lambda g: [lib.numpy.outer(g, args[1]) if position == 0 else args[0].T @ g for position in argnums]
        ),
    )
    root = extend.primitive(math.sqrt)
    extend.defvjp(root, lambda ans, a: lambda g: g / lib.grad(lambda x: x * x)(ans))
    return {
        "holomorphic": lib.holomorphic_grad(square)(1 + 2j),
        "complex": lib.grad(lambda z: lib.numpy.real(square(z)))(1 + 2j),
        "pullback": lib.make_vjp(square)(1 + 2j)[0](1j),
        "dict": lib.grad(lambda d: inner(d) ** 2)({"a": 2.0, "b": [3.0]}),
        "tuple": lib.grad(lib.grad(lambda x: pair(x)[0] * pair(x)[1]))(3.0),
        "keyword": lib.grad(lambda y: scaled(2.0, y, scale=3.0))(5.0),
        "zero": lib.grad(scaled)(2.0, 3.0),
        "both": lib.grad(lambda x, y: lib.numpy.sum(product(x, y)), (0, 1))(M, X[:2]),
        "grad in a rule": lib.grad(lib.grad(root))(4.0),
    }


def test_primitives_give_what_is_known() -> None:
    found = primitives(hips)

    assert_alike(found["holomorphic"], 2 + 4j)
    assert_alike(found["complex"], 2 + 4j)
    assert_alike(found["dict"], {"a": 36.0, "b": [24.0]})
    assert_alike(found["tuple"], 36.0)
    assert_alike(found["keyword"], 6.0)
    assert_alike(found["zero"], 0.0)
    assert_alike(found["both"], (np.ones((2, 1)) * X[:2], M.sum(0)))
    assert_alike(found["grad in a rule"], -1 / 32)


def test_primitives_give_what_hips_autograd_gives() -> None:
    assert_alike(primitives(hips), primitives(theirs()))


def test_a_derivative_by_defjvp_gives_gradients_too() -> None:
    scaled = hips.primitive(lambda x, y: x * y)
    hips.extend.defjvp(scaled, lambda g, ans, x, y: g * y, lambda g, ans, x, y: x * g)

    assert_alike(hips.grad(scaled, (0, 1))(3.0, 4.0), (4.0, 3.0))
    assert_alike(hips.make_jvp(scaled, 1)(3.0, 4.0)(10.0), (12.0, 30.0))


def test_a_derivative_that_is_missing_is_named() -> None:
    bare = hips.primitive(lambda x, y: x * y)
    assert bare(2.0, 3.0) == 6.0
    with pytest.raises(NotImplementedError, match="no derivative with respect to argument 0"):
        hips.grad(bare)(2.0, 3.0)
    hips.extend.defvjp(bare, lambda ans, x, y: lambda g: g * y)
    with pytest.raises(NotImplementedError, match="no derivative with respect to argument 1"):
        hips.grad(bare, 1)(2.0, 3.0)
    linear = hips.primitive(lambda x: 2 * x)
    hips.extend.def_linear(linear)
    with pytest.raises(NotImplementedError, match="need the transpose"):
        hips.grad(linear)(2.0)
    with pytest.raises(ArgumentTypeError, match="defvjp takes a primitive first"):
        hips.extend.defvjp(np.sin, lambda ans, x: lambda g: g)


def test_what_is_no_gradient_is_a_type_error_that_names_the_function_to_use() -> None:
    with pytest.raises(GradientTypeError, match="use jacobian, elementwise_grad or holomorphic_grad"):
        hips.grad(lambda x: x)(X)
    with pytest.raises(TypeError, match="one real number"):
        hips.value_and_grad(lambda z: z * z)(1j)
    with pytest.raises(TypeError, match="use holomorphic_grad"):
        hips.elementwise_grad(lambda z: z * z)(1j)
    with pytest.raises(ArgumentTypeError, match="argnum must be"):
        hips.grad(np.sin, "x")  # type: ignore[arg-type]


def test_the_gradient_of_a_constant_is_zero_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="does not depend on the argument"):
        assert hips.grad(lambda x: 3.0)(2.0) == 0.0


def test_multigrad_dict_gives_the_gradients_by_the_names_of_the_arguments() -> None:
    assert_alike(
        hips.multigrad_dict(lambda x, y=3.0, *z: x * y * z[0])(2.0, 4.0, 5.0), {"x": 20.0, "y": 10.0, "z": (8.0,)}
    )


def test_numpy_names_are_found_in_the_modules() -> None:
    assert (anp.pi, anp.float64, anp.sin) == (np.pi, np.float64, np.sin)
    assert {"array", "linalg", "sum"} <= set(dir(anp))
    assert "inv" in dir(anp.linalg)
    assert type(anp.c_[X, X]) is np.ndarray
    with pytest.raises(AttributeError):
        anp.no_such_name


def test_distributions_are_imported_as_modules_are_and_called_as_distributions() -> None:
    import asyncgrad.hips.scipy.stats.norm as norm

    assert sp.stats.norm is norm
    assert {"cdf", "logpdf"} <= set(dir(norm))
    distribution: Any = norm
    assert distribution(1.0, 2.0).mean() == 1.0
    assert_alike(hips.grad(norm.logpdf)(2.0), -2.0)
    with pytest.raises(AttributeError):
        norm.no_such_name


def test_images_of_which_none_is_the_larger_have_no_valid_part() -> None:
    with pytest.raises(ArgumentError, match=r"\(2, 1\) and \(1, 2\)"):
        sp.signal.convolve(np.ones((2, 1)), np.ones((1, 2)), axes=([0, 1], [0, 1]), mode="valid")


def test_a_package_that_imports_hips_autograd_runs_on_asyncgrad_by_one_line() -> None:
    program = (
        "import asyncgrad.hips; asyncgrad.hips.install(); asyncgrad.hips.install()\n"
        "import autograd.numpy as np\nimport autograd.numpy.random as npr\nfrom autograd import grad, jacobian\n"
        "from autograd.extend import primitive, defvjp\nimport autograd.scipy.stats.norm as norm\n"
        "from autograd.misc.optimizers import adam\nfrom autograd.misc.flatten import flatten\n"
        "print(float(grad(np.tanh)(0.0)), float(jacobian(np.tanh)(0.0)), grad.__module__)\n"
    )
    assert run_python(program).split() == ["1.0", "1.0", "asyncgrad.hips.gradients"]


def test_install_says_that_hips_autograd_is_there_already(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "autograd", ModuleType("autograd"))

    with pytest.raises(ArgumentError, match="autograd has been imported already"):
        hips.install()
