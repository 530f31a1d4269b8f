"""asyncgrad.numpy.polynomial: NumPy's values, and derivatives by coefficients, points, roots and values."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
import asyncgrad.numpy as anp
from asyncgrad import sync
from asyncgrad.numpy.polynomial.basis import BASES
from tests.core.ops.finite_differences import Case
from tests.scipy.functions import check_along_a_line, check_values
from tests.support.versions import is_numpy

_X = np.array([0.25, -0.5, 0.75, 0.125, 0.625])
_C, _D = np.array([0.5, -1.25, 0.75, 1.5]), np.array([1.25, 0.25, -0.5])
_TABLE = np.array([[0.5, -1.0, 0.25], [1.5, 0.75, -0.5]])
_CUBE = np.linspace(-1.0, 1.0, 12).reshape(2, 3, 2)

#: By what follows the prefix of the name: how many arguments are differentiated, and the arguments. None are where the
#: result is constant, or of another length nearby.
_CASES: dict[str, list[tuple[int, tuple[Any, ...], dict[str, Any]]]] = {
    "add": [(2, (_C, _D), {})],
    "companion": [(1, (_C,), {}), (1, (_D[:2],), {})],
    "der": [
        (1, (_C,), {}),
        (1, (_TABLE,), {"m": 2, "scl": 1.5, "axis": 1}),
        (1, (_C,), {"m": 5}),
        (1, (_C,), {"m": 0}),
    ],
    "div": [(2, (_C, _D), {}), (2, (_D, _C), {}), (2, (_C, _D[:1]), {})],
    "fit": [
        (2, (_X, _X**2 + 0.5 * _X), {"deg": 2}),
        (2, (_X, np.stack([_X, _X**3], 1)), {"deg": [0, 2], "w": np.arange(1.0, 6.0)}),
    ],
    "fromroots": [(1, (_X,), {}), (1, (_X[:1],), {}), (0, ([],), {})],
    "grid2d": [(3, (_X[:2], _X, _TABLE), {})],
    "grid3d": [(4, (_X[:2], _X[:3], _X[:1], _CUBE), {})],
    "int": [
        (1, (_C,), {}),
        (1, (_C,), {"m": 2, "k": [0.5, -1.0], "lbnd": -0.5, "scl": 1.5}),
        (1, (_TABLE,), {"k": 0.75, "lbnd": 0.25, "axis": 1}),
        (0, (np.zeros(1),), {"k": 0.75}),
    ],
    "line": [(2, (0.5, 1.5), {})],
    "mul": [(2, (_C, _D), {}), (2, (_D, _D[:1]), {})],
    "mulx": [(1, (_C,), {}), (0, (np.zeros(1),), {})],
    "pow": [(1, (_D, 3), {}), (0, (_D, 0), {})],
    "roots": [(1, (np.array([0.5, -3.0, 0.25, 1.0]),), {}), (1, (_D[:2],), {}), (0, (_D[:1],), {})],
    "sub": [(2, (_C, _D), {})],
    "trim": [(1, (np.array([1.0, 0.5, 1e-3, 0.0]),), {"tol": 1e-2})],
    "val": [
        (2, (_X, _C), {}),
        (2, (0.5, _C), {}),
        (2, (_X.reshape(5, 1), _TABLE), {}),
        (2, (_X[:3], _TABLE), {"tensor": False}),
        (2, (_X, _C[:1]), {}),
    ],
    "val2d": [(3, (_X, _X[::-1].copy(), _TABLE), {})],
    "val3d": [(4, (_X, _X[::-1].copy(), _X + 0.125, _CUBE), {})],
    "valfromroots": [(2, (_X, _D), {}), (2, (_X[:3], _TABLE), {"tensor": False})],
    "vander": [(1, (_X,), {"deg": 3}), (0, (_X,), {"deg": 0})],
    "vander2d": [(2, (_X, _X**2), {"deg": [1, 2]})],
    "vander3d": [(3, (_X, _X**2, 1 - _X), {"deg": [1, 2, 1]})],
    "weight": [(1, (_X,), {})],
    "2poly": [(1, (_C,), {}), (1, (_C[:1],), {})],
}
_CALLS = {
    f"{basis.prefix}{name}-{index}": (module, f"{basis.prefix}{name}", case)
    for module, basis in BASES.items()
    for name, cases in _CASES.items()
    for index, case in enumerate(cases)
    if hasattr(basis.module, basis.prefix + name)
}
_CALLS |= {
    f"poly2{basis.prefix}": (module, f"poly2{basis.prefix}", (1, (_C,), {}))
    for module, basis in BASES.items()
    if module != "polynomial"
}


def _both(module: str, name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    return getattr(getattr(anp.polynomial, module), name), getattr(BASES[module].module, name)


@pytest.mark.parametrize("call", _CALLS)
def test_values_and_dtypes_are_those_of_numpy(call: str) -> None:
    module, name, (_, args, kwargs) = _CALLS[call]
    ours, theirs = _both(module, name)
    # Since NumPy 2.5 the roots of most bases are complex numbers, if all are real, too.
    is_real = name.endswith("roots") and is_numpy("2.5")

    check_values(
        ours,
        (lambda *given, **options: np.real_if_close(theirs(*given, **options))) if is_real else theirs,
        Case(args, kwargs),
    )


@pytest.mark.parametrize("call", [call for call, (_, _, (count, _, _)) in _CALLS.items() if count])
def test_derivatives_of_first_and_second_order_are_those_of_finite_differences(call: str) -> None:
    module, name, (count, args, kwargs) = _CALLS[call]
    ours, _ = _both(module, name)
    points = [np.asarray(one, float) for one in args[:count]]

    check_along_a_line(lambda *tensors: ours(*tensors, *args[count:], **kwargs), points)


@pytest.mark.parametrize("module", BASES)
def test_every_function_of_numpy_is_there(module: str) -> None:
    ours, theirs = importlib.import_module(f"asyncgrad.numpy.polynomial.{module}"), BASES[module].module
    functions = {name for name in theirs.__all__ if not isinstance(getattr(theirs, name), type)}

    assert set(ours.__all__) == set(dir(ours)) == functions
    for name in functions:
        found = getattr(ours, name)
        if callable(found):
            assert inspect.signature(found) == inspect.signature(getattr(theirs, name))


def test_integrals_are_differentiable_by_constant_lower_bound_and_scale() -> None:
    legendre = anp.polynomial.legendre

    def integral(c: Any, k: Any, lbnd: Any, scl: Any) -> Any:
        return legendre.legint(c, 2, [k, 2 * k], lbnd, scl)

    check_along_a_line(integral, [_C, np.array(0.5), np.array(0.25), np.array(1.5)])
    check_along_a_line(lambda c, scl: legendre.legder(c, 2, scl), [_C, np.array(1.5)])


def test_a_chebyshev_interpolation_is_differentiable_by_what_the_function_uses() -> None:
    chebyshev, (_, numpys) = anp.polynomial.chebyshev, _both("chebyshev", "chebinterpolate")
    rate = ag.tensor(0.75, requires_grad=True)
    found = chebyshev.chebinterpolate(lambda x, rate: np.exp(rate * x), 8, (rate,))

    expected = numpys(lambda x: np.exp(0.75 * x), 8)
    np.testing.assert_allclose(found.detach(), expected, atol=1e-14)
    check_along_a_line(lambda rate: chebyshev.chebinterpolate(lambda x: np.exp(rate * x), 8), [np.array(0.75)])


def test_coefficients_may_be_complex_and_narrow() -> None:
    powers = anp.polynomial.polynomial
    leaf = ag.tensor([1.0 + 1.0j, 0.5, -1.0j], requires_grad=True)
    (gradient,) = sync.grad(powers.polyval(0.5, leaf).real, [leaf])
    narrow = anp.polynomial.hermite.hermval(np.float32([0.5]), ag.tensor(np.float32([1, 2, 3]), requires_grad=True))

    ends = np.float32([0, 2])
    mapped = anp.polynomial.Polynomial(np.float32([1, 2, 3]), ends, ends)(np.float32([0.5]))

    np.testing.assert_allclose(gradient, [1.0, 0.5, 0.25])
    assert narrow.dtype == mapped.dtype == np.float32


def test_a_list_of_tensors_is_a_row_of_coefficients() -> None:
    first = ag.tensor(2.0, requires_grad=True)
    (gradient,) = sync.grad(anp.polynomial.laguerre.lagval(0.5, [first, 1.0]), [first])

    assert gradient.item() == 1.0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda p: p.polyadd([], [1.0]), ValueError, "polyadd takes a row of one coefficient or more"),
        (lambda p: p.polydiv([1.0], [0.0]), ZeroDivisionError, "polydiv takes a divisor that is not 0"),
        (lambda p: p.polyder([1.0], -1), ValueError, "m of numpy.polynomial: polyder must be at least 0, not -1"),
        (
            lambda p: p.polyint([1.0], 1.0),
            TypeError,
            "m of numpy.polynomial: polyint must be a whole number, not float 1.0",
        ),
        (lambda p: p.polyint([1.0], 1, [1, 2]), ValueError, "polyint with m=1 takes 1 constants"),
        (lambda p: p.polyint([1.0], lbnd=[0.0]), ValueError, "polyint takes a number as lbnd"),
        (lambda p: p.polypow([1.0], 0.5), ValueError, "polypow takes a whole number"),
        (
            lambda p: p.polyvander([1.0], -1),
            ValueError,
            "degree of numpy.polynomial: polyvander must be at least 0, not -1",
        ),
        (
            lambda p: p.polyvander([1.0], 1.5),
            TypeError,
            "degree of numpy.polynomial: polyvander must be a whole number, not float 1.5",
        ),
        (lambda p: p.polyfit([1.0], [1.0, 2.0], 1), TypeError, "the shapes are"),
        (lambda p: p.polyfit([1.0], [1.0], -1), ValueError, "polyfit takes degrees of 0 or more"),
        (lambda p: p.polyfit([1.0], [1.0], 1.5), TypeError, "polyfit takes a whole number or a list"),
        (lambda p: p.polyval2d([1.0], [1.0, 2.0], [[1.0]]), ValueError, "polyval2d takes points of one shape"),
        (lambda p: p.polycompanion([1.0]), ValueError, "polycompanion takes a series of degree 1"),
        (lambda p: p.polytrim([1.0], -1), ValueError, "polytrim takes a tol of 0 or more"),
        (lambda p: p.polyvall([1.0], -1), AttributeError, "has no attribute 'polyvall'"),
    ],
)
def test_what_numpy_refuses_is_refused(call: Callable[[Any], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(anp.polynomial.polynomial)


_CLASSES = [name for name in dir(anp.polynomial) if name[0].isupper()]


def _series(module: Any, name: str, coefficients: Any, **intervals: Any) -> Any:
    return getattr(module.polynomial, name)(coefficients, **intervals)


@pytest.mark.parametrize("name", _CLASSES)
def test_a_class_computes_what_numpys_does(name: str) -> None:
    intervals = {"domain": [-2.0, 1.0], "window": [0.0, 1.5]}
    (a, b), (p, q) = ([_series(module, name, row, **intervals) for row in (_C, _D)] for module in (anp, np))
    pairs = [
        (a + b, p + q),
        (1.5 - a, 1.5 - p),
        (a * b - 2, p * q - 2),
        (a // b, p // q),
        (a % b, p % q),
        (a / 2, p / 2),
        (b**3, q**3),
        (-a.deriv(2), -p.deriv(2)),
        (a.integ(2, [1, 2], 0.5), p.integ(2, [1, 2], 0.5)),
        (a.convert(), p.convert()),
        (a.convert(kind=anp.polynomial.Legendre), p.convert(kind=np.polynomial.Legendre)),
        (a.convert(kind=np.polynomial.Hermite), p.convert(kind=np.polynomial.Hermite)),
        (a(b), p(q)),
        (a.cutdeg(1), p.cutdeg(1)),
        (a.trim(1.5), p.trim(1.5)),
        (type(a).basis(3), type(p).basis(3)),
        (type(a).identity([-1.0, 3.0]), type(p).identity([-1.0, 3.0])),
        (type(a).fromroots(_D), type(p).fromroots(_D)),
        (type(a).fit(_X, _X**2, 2), type(p).fit(_X, _X**2, 2)),
    ]
    for found, expected in pairs:
        np.testing.assert_allclose(found.coef, expected.coef, atol=1e-10)
        np.testing.assert_array_equal([found.domain, found.window], [expected.domain, expected.window])
    np.testing.assert_allclose(a(_X), p(_X))
    np.testing.assert_allclose(a.roots(), p.roots())
    np.testing.assert_allclose(a.linspace(5)[1], p.linspace(5)[1])
    assert (a == a.copy(), a == b, len(a), a.degree()) == (True, False, 4, 3)


@pytest.mark.parametrize("name", _CLASSES)
def test_a_class_is_differentiable_by_coefficients_and_points(name: str) -> None:
    kind = getattr(anp.polynomial, name)

    def value(x: Any, c: Any, d: Any) -> Any:
        a, b = kind(c, domain=[-2.0, 1.0]), kind(d, domain=[-2.0, 1.0])
        return (a * b + a.deriv() - 2 * b.integ()).convert()(x)

    check_along_a_line(value, [_X, _C, _D])


@pytest.mark.parametrize("name", _CLASSES)
def test_a_class_is_differentiable_by_domain_and_window(name: str) -> None:
    kind = getattr(anp.polynomial, name)

    def value(domain: Any, window: Any) -> Any:
        a, roots = kind(_C, domain, window), kind.fromroots(_D, domain, window)
        fitted = kind.fit(_X, _X**3, 2, domain, window=window)
        return (a.deriv() + a.integ(lbnd=0.5)).convert()(_X) + roots(_X) + fitted(_X) + a.linspace(5)[1]

    check_along_a_line(value, [np.array([-2.0, 1.0]), np.array([0.25, 1.5])])


def test_a_constant_of_zero_and_zeros_at_an_end_have_gradients() -> None:
    module = anp.polynomial.polynomial
    zeros, row = ag.tensor([0.0, 0.0], requires_grad=True), ag.tensor([2.0, 4.0], requires_grad=True)

    (of_zeros,) = sync.grad(module.polyadd([1.0, 2.0, 3.0], zeros) @ np.array([1.0, 2.0, 4.0]), [zeros])
    (of_row,) = sync.grad(module.polydiv(row, [1.0, 2.0])[1].sum(), [row])

    assert (of_zeros.tolist(), of_row.tolist()) == ([1.0, 2.0], [1.0, -0.5])


def test_a_class_keeps_its_symbol() -> None:
    series = anp.polynomial.Polynomial([1.0, 2.0], symbol="t")

    assert ((series * 2).convert().symbol, series == anp.polynomial.Polynomial([1.0, 2.0])) == ("t", False)
    assert anp.polynomial.Legendre.basis(2, symbol="t").symbol == "t"


def test_a_tensor_beside_a_class_is_a_constant() -> None:
    factor = ag.tensor(1.5, requires_grad=True)
    moved: Any = factor * anp.polynomial.Polynomial([1.0, 2.0]) + factor
    (slope,) = sync.grad(moved(2.0), [factor])

    assert slope.item() == 6.0


def test_a_chebyshev_class_interpolates() -> None:
    found = anp.polynomial.Chebyshev.interpolate(np.tanh, 6, [0.0, 2.0])
    expected = np.polynomial.Chebyshev.interpolate(np.tanh, 6, [0.0, 2.0])

    np.testing.assert_allclose(found.coef, expected.coef, atol=1e-14)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda p: p.Polynomial([]), ValueError, "Polynomial takes a row of one coefficient or more"),
        (lambda p: p.Polynomial([1.0], domain=[1.0]), ValueError, "takes a domain of two numbers"),
        (lambda p: p.Polynomial([1.0]) + p.Legendre([1.0]), TypeError, "write other.convert"),
        (lambda p: p.Polynomial([1.0]) + p.Polynomial([1.0], [0, 1]), TypeError, "write other.convert"),
        (lambda p: p.Polynomial([1.0]) + p.Polynomial([1.0], symbol="t"), ValueError, "give both one symbol"),
        (lambda p: p.Polynomial([1.0], symbol="1t"), ValueError, "a name of Python's as symbol"),
        (lambda p: p.Polynomial([1.0], symbol=1), TypeError, "a text as symbol"),
        (lambda p: p.Polynomial([1.0]).convert(kind=int), TypeError, "to a class of series, not to int"),
        (lambda p: p.Polynomial([1.0]) / p.Polynomial([1.0]), TypeError, "write // or divmod"),
        (lambda p: p.Polynomial([1.0]).truncate(0), ValueError, "truncate takes a positive number"),
        (lambda p: hash(p.Polynomial([1.0])), TypeError, "has no hash"),
        (lambda p: p.Polynomial.basis(-1), ValueError, "basis takes a degree of 0 or more"),
        (lambda p: np.asarray(p.Polynomial([1.0])), ag.errors.ArgumentError, "write its coef"),
    ],
)
def test_what_a_class_does_not_take_is_refused(
    call: Callable[[Any], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call(anp.polynomial)
