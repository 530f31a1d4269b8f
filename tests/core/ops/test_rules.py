"""Every function with a rule: its values, its dtypes, its derivatives; and a test of the checker itself."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.core.ops import RULES
from asyncgrad.core.ops.nondifferentiable import NONDIFFERENTIABLE, SAVING
from asyncgrad.core.recording.primitive import derivative, primitive
from tests.core.ops import cases_elementwise, finite_differences
from tests.core.ops.finite_differences import Case, call, check_derivatives, flat, in_dtype, leaves_of
from tests.core.ops.numpy_rules import rules_of_numpy
from tests.support.loops import one_loop

#: Those that write into an array have tests of their own, in tests/core/views/test_numpy_functions_that_write.py.
WRITING = {np.copyto, np.put, np.place, np.putmask, np.put_along_axis, np.fill_diagonal}
#: Those that make new arrays, or take apart what they give, or are constant between steps for real numbers (what sign
#: is for complex ones is in cases_complex.py), and need no case.
WITHOUT_CASES = {*NONDIFFERENTIABLE, *SAVING, *WRITING, np.full_like, np.sign}


def _all_cases() -> dict[Callable[..., Any], list[Case]]:
    cases = dict(cases_elementwise.CASES)
    if importlib.util.find_spec("tests.core.ops.cases_arrays"):
        for function, more in importlib.import_module("tests.core.ops.cases_arrays").CASES.items():
            cases[function] = cases.get(function, []) + more
    return cases


CASES = _all_cases()
EACH_CASE, SMOOTH = (
    [
        pytest.param(function, case, id=f"{function.__name__}-{index}")
        for function, cases in CASES.items()
        for index, case in enumerate(cases)
        if case.smooth or not only_smooth
    ]
    for only_smooth in (False, True)
)
BINARY_UFUNCS = [
    function
    for function in CASES
    if isinstance(function, np.ufunc) and function.nin == 2 and function.signature is None
]


def test_every_function_with_a_rule_has_a_case_or_is_known_to_have_no_derivative() -> None:
    without = [
        function.__name__ for function in rules_of_numpy() if function not in CASES and function not in WITHOUT_CASES
    ]

    assert without == []


def test_every_case_is_of_a_function_with_a_rule() -> None:
    without = [function.__name__ for function in CASES if function not in RULES]

    assert without == []


@pytest.mark.sampled("function")
@pytest.mark.parametrize(("function", "case"), SMOOTH)
def test_derivatives_of_first_and_second_order_are_those_of_finite_differences(
    function: Callable[..., Any], case: Case
) -> None:
    check_derivatives(function, case)


@pytest.mark.sampled("function")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("function", "case"), EACH_CASE)
def test_values_and_dtypes_are_numpys_own(function: Callable[..., Any], case: Case, dtype: Any) -> None:
    case = in_dtype(case, dtype)
    leaves = leaves_of(case)

    expected = call(function, case, leaves)
    actual = call(function, case, [ag.tensor(leaf, requires_grad=True) for leaf in leaves])

    assert len(actual) == len(expected)
    for have, want in zip(actual, expected, strict=True):
        assert isinstance(have, ag.Tensor)
        assert (have.shape, have.dtype) == (want.shape, want.dtype)
        np.testing.assert_array_equal(have.numpy(), want)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("function", BINARY_UFUNCS, ids=lambda function: function.__name__)
def test_a_python_number_beside_a_tensor_leaves_the_dtype_to_the_tensor(function: np.ufunc, dtype: Any) -> None:
    if function is np.ldexp:
        pytest.skip("its second argument is an integer array")
    array = np.array([0.5, 1.25], dtype)
    for args in ((array, 2), (array, 0.75), (2, array), (0.75, array)):
        tensors = [ag.tensor(arg, requires_grad=True) if arg is array else arg for arg in args]

        expected = flat(function(*args))
        actual = flat(function(*tensors))

        assert [have.dtype for have in actual] == [want.dtype for want in expected]
        for have, want in zip(actual, expected, strict=True):
            np.testing.assert_array_equal(have.numpy(), want)


@pytest.mark.parametrize("function", BINARY_UFUNCS, ids=lambda function: function.__name__)
def test_every_binary_ufunc_has_a_case_that_broadcasts(function: np.ufunc) -> None:
    shapes = [[np.shape(arg) for arg in case.args] for case in CASES[function] if len(leaves_of(case)) > 1]
    if function is np.ldexp:
        shapes = [[np.shape(arg) for arg in case.args] for case in CASES[function]]

    assert any(np.broadcast_shapes(*pair) not in pair for pair in shapes)


@one_loop
@pytest.mark.sampled("function")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("function", "case"), SMOOTH)
async def test_gradients_have_the_shape_and_dtype_of_their_inputs(
    function: Callable[..., Any], case: Case, dtype: Any
) -> None:
    case = in_dtype(case, dtype)
    tensors = [ag.tensor(leaf, requires_grad=True) for leaf in leaves_of(case)]
    outputs = [output for output in call(function, case, tensors) if output.requires_grad]

    grads = await ag.grad(
        outputs, tensors, [np.ones(output.shape, output.dtype) for output in outputs], allow_unused=True
    )

    for tensor, grad in zip(tensors, grads, strict=True):
        if grad is not None:
            assert (grad.shape, grad.dtype) == (tensor.shape, tensor.dtype)


@pytest.mark.parametrize(
    ("function", "case"),
    [
        parameter
        for parameter in SMOOTH
        if parameter.values[0] in cases_elementwise.CASES and parameter.values[0] is not np.imag
    ],
)
def test_elementwise_formulas_on_float32_compute_in_float32(function: Callable[..., Any], case: Case) -> None:
    case = in_dtype(case, np.float32)
    for output in call(function, case, [ag.tensor(leaf, requires_grad=True) for leaf in leaves_of(case)]):
        if output.requires_grad and output.dtype == np.float32:
            # What the node returns, before the engine sums and casts it.
            grads = output.grad_fn.apply((np.ones(output.shape, np.float32),))

            assert {grad.dtype for grad in grads if grad is not None} == {np.dtype(np.float32)}


# The checker itself.


@primitive()
def nearly_squared(x: Any) -> Any:
    return x * x


@derivative(nearly_squared, "x")
def _(g: Any, x: Any) -> Any:
    return g * (2.001 * x)


@primitive()
def forgetfully_squared(x: Any) -> Any:
    return x * x


@derivative(forgetfully_squared, "x")
def _(g: Any, x: Any) -> Any:
    return g * (2 * getattr(x, "_data", x))


@primitive()
def unlinked_squared(x: Any) -> Any:
    return x * x


@derivative(unlinked_squared, "x")
def _(g: Any, x: Any) -> Any:
    return getattr(g, "_data", g) * (2 * x)


@primitive()
def unrecorded_doubled(x: Any) -> Any:
    return 2 * x


@derivative(unrecorded_doubled, "x")
def _(g: Any) -> Any:
    return 2 * getattr(g, "_data", g)


def test_the_checker_catches_a_rule_that_is_wrong_by_one_in_two_thousand() -> None:
    with pytest.raises(AssertionError, match="first order"):
        check_derivatives(nearly_squared, Case((np.array([0.5, 2.0]),)))


@primitive()
def cubed(x: Any) -> Any:
    return x**3


@derivative(cubed, "x")
def _(g: Any, x: Any) -> Any:
    factors = np.full(x.shape, 3.0)
    factors[1, 2] = 3.0015
    return g * (factors * x**2)


@pytest.mark.parametrize("directions", [None, 2], ids=["each-element", "two-directions"])
def test_the_checker_catches_a_rule_that_is_wrong_in_one_element_of_many(
    directions: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finite_differences, "DIRECTIONS", directions)
    point = np.linspace(1.0, 3.0, 20).reshape(4, 5)

    check_derivatives(lambda x: x**3, Case((point,)))
    with pytest.raises(AssertionError, match="first order, array 0"):
        check_derivatives(cubed, Case((point,)))


@pytest.mark.parametrize("directions", [None, 2], ids=["each-element", "two-directions"])
def test_the_checker_catches_a_rule_that_is_wrong_in_a_small_part_of_a_large_sum(
    directions: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finite_differences, "DIRECTIONS", directions)
    point = np.linspace(20.0, 40.0, 20).reshape(4, 5)
    point[1, 2] = 2.0

    with pytest.raises(AssertionError, match="first order, array 0"):
        check_derivatives(cubed, Case((point,)))


@pytest.mark.parametrize(
    "squared", [forgetfully_squared, unlinked_squared], ids=["drops-the-input", "drops-the-gradient"]
)
def test_the_checker_catches_a_rule_that_records_half_of_its_gradient(squared: Callable[..., Any]) -> None:
    case = Case((np.array([0.5, 2.0]),))
    check_derivatives(squared, case, order=1)
    with pytest.raises(AssertionError, match="second order"):
        check_derivatives(squared, case)


def test_the_checker_catches_a_gradient_that_is_not_recorded_at_all() -> None:
    with pytest.raises(AssertionError, match="second order"):
        check_derivatives(unrecorded_doubled, Case((np.array([0.5, 2.0]),)))
