"""Derivatives at ties, zeros and infinities: written out here, and PyTorch's own where it is installed.

The second derivatives are PyTorch's too, except where it says nan and there is one: those are marked. So are the
gradients at ties of `fmax`, `fmin` and `clip`, and at nan, about which PyTorch 2.14 changed its mind, and those of
`logaddexp` of equal infinities, of `hypot` at the origin, and of `hypot` and `arctan2` of infinite numbers, which are
nan in PyTorch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf, log, nan, pi
from typing import Any, NamedTuple

import numpy as np
import pytest

import asyncgrad as ag
from tests.support.loops import one_loop
from tests.support.versions import is_pytorch

LN2 = log(2)


class Point(NamedTuple):
    """A point where the derivative of a function has to be agreed upon."""

    function: Callable[..., Any]
    args: tuple[float, ...]
    #: With respect to each argument.
    gradient: tuple[float, ...]
    #: Row i is the gradient of element i of the gradient; None is not looked at.
    hessian: tuple[tuple[float, ...], ...] | None = None
    #: PyTorch's name of the function where it is not NumPy's; None where there is no such function.
    torch_name: str | None = ""
    #: Positions of arguments that are Python numbers and have no gradient.
    numbers: tuple[int, ...] = ()
    #: Whether the second derivatives are better than PyTorch's.
    better: bool = False
    #: The first version of PyTorch whose gradient is another; empty where none is.
    until: str = ""


#: Of a point whose gradient is that of no version of PyTorch.
EVERY = "1.0"

ZEROS = ((0.0, 0.0), (0.0, 0.0))

POINTS = [
    # Ties are shared; the larger takes all; a nan gives to both.
    *(
        Point(function, args, gradient, ZEROS)
        for function in (np.maximum, np.minimum)
        for args, gradient in {
            (1.0, 1.0): (0.5, 0.5),
            (0.0, -0.0): (0.5, 0.5),
            (inf, inf): (0.5, 0.5),
            (-inf, -inf): (0.5, 0.5),
            (nan, 1.0): (1.0, 1.0),
            (1.0, nan): (1.0, 1.0),
            (nan, nan): (1.0, 1.0),
        }.items()
    ),
    Point(np.maximum, (1.0, 2.0), (0.0, 1.0), ZEROS),
    Point(np.maximum, (inf, 2.0), (1.0, 0.0), ZEROS),
    Point(np.minimum, (1.0, 2.0), (1.0, 0.0), ZEROS),
    # fmax and fmin give a tie to the first, and never to a nan beside a number.
    *(
        Point(function, args, gradient, ZEROS, until="2.14")
        for function in (np.fmax, np.fmin)
        for args, gradient in {
            (1.0, 1.0): (1.0, 0.0),
            (-0.0, 0.0): (1.0, 0.0),
            (inf, inf): (1.0, 0.0),
            (nan, 1.0): (0.0, 1.0),
            (1.0, nan): (1.0, 0.0),
            (nan, nan): (1.0, 0.0),
        }.items()
    ),
    # The absolute value has slope 0 at 0.
    *(
        Point(function, (x,), (slope,), ((0.0,),), "abs")
        for function in (np.absolute, np.fabs)
        for x, slope in ((0.0, 0.0), (-0.0, 0.0), (-2.0, -1.0), (inf, 1.0), (-inf, -1.0))
    ),
    Point(np.copysign, (0.0, -2.0), (0.0, 0.0), ZEROS, better=True),
    Point(np.copysign, (-1.0, 0.0), (-1.0, 0.0), ZEROS),
    Point(np.copysign, (3.0, -0.0), (-1.0, 0.0), ZEROS),
    # heaviside takes its second argument at 0 alone.
    *(
        Point(np.heaviside, (x1, 0.3), (0.0, slope), ZEROS, None)
        for x1, slope in ((0.0, 1.0), (-0.0, 1.0), (2.0, 0.0), (-inf, 0.0), (nan, 0.0))
    ),
    # clip lets the gradient through at its bounds; crossed bounds give the upper one.
    *(
        Point(np.clip, args, gradient, ((0.0,) * 3,) * 3, "clamp", until="2.14")
        for args, gradient in {
            (1.0, 1.0, 2.0): (1.0, 0.0, 0.0),
            (2.0, 1.0, 2.0): (1.0, 0.0, 0.0),
            (nan, 1.0, 2.0): (0.0, 0.0, 0.0),
            (1.5, nan, 2.0): (0.0, 0.0, 0.0),
            (0.0, 1.0, 1.0): (0.0, 0.0, 0.0),
        }.items()
    ),
    *(
        Point(np.clip, args, gradient, ((0.0,) * 3,) * 3, "clamp")
        for args, gradient in {
            (0.0, 1.0, 2.0): (0.0, 1.0, 0.0),
            (3.0, 1.0, 2.0): (0.0, 0.0, 1.0),
            (inf, 1.0, 2.0): (0.0, 0.0, 1.0),
            (1.5, 2.0, 1.0): (0.0, 0.0, 1.0),
            (3.0, 2.0, 1.0): (0.0, 0.0, 1.0),
            (1.0, 1.0, 1.0): (1.0, 0.0, 0.0),
            (2.0, 1.0, 1.0): (0.0, 0.0, 1.0),
        }.items()
    ),
    Point(np.clip, (1.0, 1.0, 2.0), (1.0,), ((0.0,),), "clamp", numbers=(1, 2), until="2.14"),
    Point(np.clip, (nan, 1.0, 2.0), (0.0,), ((0.0,),), "clamp", numbers=(1, 2)),
    *(
        Point(np.nan_to_num, (x,), (slope,), ((0.0,),))
        for x, slope in ((nan, 0.0), (inf, 0.0), (-inf, 0.0), (1.0, 1.0))
    ),
    # Powers: x**0 is flat, and so is 0**y.
    *(
        Point(np.power, (x, y), (slope,), ((bend,),), "pow", numbers=(1,))
        for (x, y), (slope, bend) in {
            (0.0, 0): (0.0, 0.0),
            (inf, 0): (0.0, 0.0),
            (-2.0, 0): (0.0, 0.0),
            (0.0, 1): (1.0, 0.0),
            (0.0, 2): (0.0, 2.0),
            (-2.0, 2): (-4.0, 2.0),
            (-2.0, 3): (12.0, -12.0),
            (0.0, 3): (0.0, 0.0),
            (0.0, 1.5): (0.0, inf),
            (0.0, 0.5): (inf, -inf),
            (0.0, -1): (-inf, inf),
            (-2.0, 0.5): (nan, nan),
        }.items()
    ),
    Point(np.power, (0.0, 0.0), (0.0, 0.0), None, "pow"),
    Point(np.power, (0.0, 1.0), (1.0, 0.0), ((0.0, 1.0), (0.0, 0.0)), "pow", better=True),
    Point(np.power, (0.0, 2.0), (0.0, 0.0), ((2.0, 0.0), (0.0, 0.0)), "pow", better=True),
    Point(np.power, (0.0, 3.0), (0.0, 0.0), ZEROS, "pow", better=True),
    Point(np.power, (0.0, -1.0), (-inf, -inf), ((inf, inf), (inf, inf)), "pow"),
    Point(np.power, (-2.0, 2.0), (-4.0, nan), ((2.0, nan), (nan, nan)), "pow"),
    Point(np.power, (-2.0, 0.0), (0.0, nan), None, "pow"),
    # d2/dxdy of x**y at y = 0 is 1 / x, whichever way round; PyTorch gives 0 one way.
    Point(np.power, (2.0, 0.0), (0.0, LN2), ((0.0, 0.5), (0.5, LN2**2)), "pow", better=True),
    Point(np.power, (inf, 0.0), (0.0, inf), None, "pow"),
    Point(np.power, (inf, 2.0), (inf, inf), ((2.0, inf), (nan, inf)), "pow"),
    Point(np.power, (1.0, inf), (inf, 0.0), ((inf, nan), (nan, 0.0)), "pow"),
    Point(np.power, (0.0, 0.0), (0.0,), ((0.0,),), "pow", numbers=(0,), better=True),
    Point(np.power, (0.0, 2.0), (0.0,), ((0.0,),), "pow", numbers=(0,), better=True),
    Point(np.power, (0.0, -1.0), (-inf,), ((inf,),), "pow", numbers=(0,)),
    Point(np.power, (2.0, 0.0), (LN2,), ((LN2**2,),), "pow", numbers=(0,)),
    Point(np.power, (-2.0, 3.0), (nan,), ((nan,),), "pow", numbers=(0,)),
    Point(np.float_power, (0.0, 0.0), (0.0, 0.0), None),
    Point(np.float_power, (0.0, 2.0), (0.0, 0.0), ((2.0, 0.0), (0.0, 0.0)), better=True),
    # Roots, quotients, logarithms.
    Point(np.sqrt, (0.0,), (inf,), ((-inf,),)),
    Point(np.sqrt, (-0.0,), (-inf,), ((inf,),)),
    Point(np.sqrt, (inf,), (0.0,), ((0.0,),)),
    Point(np.sqrt, (-1.0,), (nan,), ((nan,),)),
    Point(np.cbrt, (0.0,), (inf,), None, None),
    Point(np.square, (0.0,), (0.0,), ((2.0,),)),
    Point(np.reciprocal, (0.0,), (-inf,), ((inf,),)),
    Point(np.reciprocal, (-0.0,), (-inf,), ((-inf,),)),
    Point(np.divide, (1.0, 0.0), (inf, -inf), ((0.0, -inf), (-inf, inf))),
    Point(np.divide, (0.0, 0.0), (inf, nan), ((0.0, -inf), (-inf, nan))),
    Point(np.divide, (1.0, inf), (0.0, 0.0), ZEROS),
    Point(np.divide, (inf, inf), (0.0, nan), ((0.0, 0.0), (0.0, nan))),
    Point(np.log, (0.0,), (inf,), ((-inf,),)),
    Point(np.log, (-0.0,), (-inf,), ((-inf,),)),
    Point(np.log2, (0.0,), (inf,), ((-inf,),)),
    Point(np.log10, (0.0,), (inf,), ((-inf,),)),
    Point(np.log1p, (-1.0,), (inf,), ((-inf,),)),
    Point(np.log, (inf,), (0.0,), ((0.0,),)),
    # Exponentials that overflow, and their sums that must not.
    Point(np.exp, (-inf,), (0.0,), ((0.0,),)),
    Point(np.exp, (800.0,), (inf,), ((inf,),)),
    Point(np.expm1, (-800.0,), (0.0,), ((0.0,),)),
    Point(np.tanh, (800.0,), (0.0,), ((0.0,),)),
    Point(np.tanh, (-inf,), (0.0,), ((0.0,),)),
    *(
        Point(function, args, gradient, hessian, better=hessian is ZEROS)
        for function in (np.logaddexp, np.logaddexp2)
        for args, gradient, hessian in (
            ((-inf, inf), (0.0, 1.0), ZEROS),
            ((1.0, -inf), (1.0, 0.0), ZEROS),
            ((1.0, inf), (0.0, 1.0), ZEROS),
            ((1e4, 0.0), (1.0, 0.0), ZEROS),
        )
    ),
    # Two equal infinities have one half each, as two equal numbers have; in PyTorch they are nan.
    *(
        Point(function, (x, x), (0.5, 0.5), ((bend, -bend), (-bend, bend)), better=True, until=EVERY)
        for function, bend in ((np.logaddexp, 0.25), (np.logaddexp2, 0.25 * LN2))
        for x in (inf, -inf)
    ),
    Point(np.logaddexp, (0.0, 0.0), (0.5, 0.5), ((0.25, -0.25), (-0.25, 0.25))),
    # Angles and distances.
    # As a norm, which is nan in PyTorch where it is this function.
    Point(np.hypot, (0.0, 0.0), (0.0, 0.0), ZEROS, better=True, until=EVERY),
    Point(np.hypot, (0.0, -1.0), (0.0, -1.0), ((1.0, 0.0), (0.0, 0.0))),
    # The limits far out, which are nan in PyTorch.
    Point(np.hypot, (inf, 1.0), (1.0, 0.0), ZEROS, better=True, until=EVERY),
    Point(np.arctan2, (0.0, 0.0), (0.0, 0.0), None),
    Point(np.arctan2, (0.0, -1.0), (-1.0, 0.0), ((0.0, -1.0), (-1.0, 0.0))),
    Point(np.arctan2, (inf, 1.0), (0.0, 0.0), ZEROS, better=True, until=EVERY),
    Point(np.arcsin, (1.0,), (inf,), ((inf,),)),
    Point(np.arcsin, (-1.0,), (inf,), ((-inf,),)),
    Point(np.arccos, (1.0,), (-inf,), ((-inf,),)),
    Point(np.arccosh, (1.0,), (inf,), ((-inf,),)),
    Point(np.arctanh, (1.0,), (inf,), ((inf,),)),
    Point(np.arctan, (inf,), (0.0,), ((nan,),)),
    Point(np.sinc, (0.0,), (0.0,), ((-(pi**2) / 3,),), better=True),
    Point(np.sinc, (1.0,), (-1.0,), ((2.0,),)),
    # Remainders are flat but for their steps, which belong to the side above.
    *(
        Point(np.remainder, args, (1.0, slope), ZEROS)
        for args, slope in {
            (5.0, 3.0): -1.0,
            (-5.0, 3.0): 2.0,
            (5.0, -3.0): 2.0,
            (6.0, 3.0): -2.0,
            (5.0, 0.0): -inf,
            (5.0, inf): 0.0,
            (-5.0, inf): 1.0,
            (inf, 3.0): nan,
        }.items()
    ),
    *(
        Point(np.fmod, args, (1.0, slope), ZEROS)
        for args, slope in {(-5.0, 3.0): 1.0, (6.0, 3.0): -2.0, (5.0, 0.0): -inf, (-5.0, inf): 0.0}.items()
    ),
]


def at_each_point(points: list[Point]) -> pytest.MarkDecorator:
    """Run a test at each of the points."""
    names = [f"{point.function.__name__}{point.args}{'-number' * bool(point.numbers)}" for point in points]
    return pytest.mark.parametrize("point", points, ids=names)


each_point = at_each_point(POINTS)
each_bent_point = at_each_point([point for point in POINTS if point.hessian is not None])
each_finite_point = at_each_point([point for point in POINTS if np.isfinite(point.gradient).all()])


def _second(rows: list[list[float] | None], count: int) -> np.ndarray:
    """Return the hessian as an array; what does not depend on the arguments has zeros."""
    return np.array([[0.0] * count if row is None else row for row in rows])


def ours(point: Point) -> tuple[np.ndarray, np.ndarray]:
    """Return asyncgrad's gradient and hessian."""

    async def main() -> tuple[np.ndarray, np.ndarray]:
        args = [
            value if index in point.numbers else ag.tensor([value], requires_grad=True)
            for index, value in enumerate(point.args)
        ]
        tensors = [arg for arg in args if isinstance(arg, ag.Tensor)]
        grads = await ag.grad(point.function(*args), tensors, create_graph=True)
        rows = [
            [row.item() for row in await ag.grad(grad, tensors, retain_graph=True, materialize_grads=True)]
            if grad.requires_grad
            else None
            for grad in grads
        ]
        return np.array([grad.item() for grad in grads]), _second(rows, len(tensors))

    with np.errstate(all="ignore"):
        return asyncio.run(main())


def pytorchs(point: Point) -> tuple[np.ndarray, np.ndarray]:
    """Return PyTorch's gradient and hessian."""
    torch = pytest.importorskip("torch")
    if point.torch_name is None:
        pytest.skip(f"PyTorch has no {point.function.__name__}")
    args = [
        value if index in point.numbers else torch.tensor([value], dtype=torch.float64, requires_grad=True)
        for index, value in enumerate(point.args)
    ]
    tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
    output = getattr(torch, point.torch_name or point.function.__name__)(*args)
    grads = torch.autograd.grad(output, tensors, create_graph=True)
    rows = [
        [row.item() for row in torch.autograd.grad(grad, tensors, retain_graph=True, materialize_grads=True)]
        if grad.requires_grad
        else None
        for grad in grads
    ]
    return np.array([grad.item() for grad in grads]), _second(rows, len(tensors))


@each_point
def test_the_gradient_is_as_agreed(point: Point) -> None:
    np.testing.assert_allclose(ours(point)[0], point.gradient, rtol=1e-12)


@each_bent_point
def test_the_second_derivatives_are_as_agreed(point: Point) -> None:
    np.testing.assert_allclose(ours(point)[1], np.array(point.hessian), rtol=1e-12, atol=1e-12)


@each_point
def test_the_gradient_is_pytorchs_except_where_a_version_is_marked_as_the_first_that_differs(point: Point) -> None:
    same = np.isclose(pytorchs(point)[0], point.gradient, rtol=1e-12, atol=0, equal_nan=True)

    assert same.all() != (point.until != "" and is_pytorch(point.until))


@each_bent_point
def test_the_second_derivatives_are_pytorchs_except_where_they_are_marked_as_better(point: Point) -> None:
    theirs = pytorchs(point)[1]
    same = np.isclose(theirs, np.array(point.hessian), rtol=1e-12, atol=1e-12, equal_nan=True)

    assert same.all() != point.better


@one_loop
@each_finite_point
async def test_a_finite_gradient_is_found_without_a_warning(point: Point) -> None:
    args = [
        value if index in point.numbers else ag.tensor([value], requires_grad=True)
        for index, value in enumerate(point.args)
    ]
    with np.errstate(all="ignore"):
        output = point.function(*args)

    await ag.grad(output, [arg for arg in args if isinstance(arg, ag.Tensor)])


@one_loop
@pytest.mark.parametrize("function", [np.logaddexp, np.logaddexp2])
@pytest.mark.parametrize("infinity", [-np.inf, np.inf])
async def test_a_sum_of_equal_infinities_that_has_no_weight_has_a_gradient_of_zero(
    function: np.ufunc, infinity: float
) -> None:
    x, y = ag.tensor([infinity, 1.0], requires_grad=True), ag.tensor([infinity, 2.0], requires_grad=True)
    grads = await ag.grad(function(x, y), [x, y], np.array([0.0, 1.0]))

    assert [grad.numpy()[0] for grad in grads] == [0.0, 0.0]


@one_loop
async def test_where_gives_nothing_to_the_branch_not_taken_even_if_the_gradient_is_not_finite() -> None:
    taken, other = ag.tensor([1.0, 2.0], requires_grad=True), ag.tensor([nan, inf], requires_grad=True)
    chosen = np.where([True, True], taken, other)

    of_taken, of_other = await ag.grad(chosen, [taken, other], [np.array([inf, nan])])

    np.testing.assert_array_equal(of_taken.numpy(), [inf, nan])
    np.testing.assert_array_equal(of_other.numpy(), [0.0, 0.0])


@one_loop
async def test_a_nan_slope_in_the_branch_not_taken_comes_through_as_in_pytorch() -> None:
    x = ag.tensor([0.0], requires_grad=True)
    with np.errstate(all="ignore"):
        chosen = np.where(np.greater(x, 0), np.sqrt(x), x)
        (found,) = await ag.grad(chosen, [x])

    assert np.isnan(found.item())  # 0 * inf + 1


def test_a_nan_slope_in_the_branch_not_taken_is_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    x = torch.tensor([0.0], dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad(torch.where(x > 0, torch.sqrt(x), x), [x])

    assert np.isnan(found.item())


@one_loop
async def test_a_power_of_mixed_exponents_takes_the_right_rule_in_each_place() -> None:
    x = ag.tensor([0.0, 0.0, -3.0, 2.0], requires_grad=True)
    (found,) = await ag.grad(np.power(x, np.array([0.0, 2.0, 2.0, 3.0])), [x], [np.ones(4)])

    np.testing.assert_array_equal(found.numpy(), [0.0, 0.0, -6.0, 12.0])


@one_loop
async def test_the_derivative_of_a_small_divisor_does_not_underflow() -> None:
    divisor = ag.tensor([1e-170], requires_grad=True)
    (found,) = await ag.grad(np.divide(1e-200, divisor), [divisor])

    np.testing.assert_allclose(found.numpy(), [-1e140])


@one_loop
@pytest.mark.parametrize("order", range(1, 6))
async def test_sinc_has_the_derivatives_of_its_series_at_zero_to_any_order(order: int) -> None:
    expected = 0.0 if order % 2 else (-1) ** (order // 2) * pi**order / (order + 1)

    x = ag.tensor([0.0], requires_grad=True)
    value: Any = np.sinc(x)
    for _ in range(order):
        (value,) = await ag.grad(value, [x], create_graph=True)

    assert float(value.item()) == pytest.approx(expected, rel=1e-13)
