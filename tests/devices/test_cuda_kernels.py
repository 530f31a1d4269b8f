"""Fused kernels: their C, compiled by the host's compiler, gives what the formulas give."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, optim
from asyncgrad.core.arrays.device_functions import register_functions, unregister_functions
from asyncgrad.core.engine.device import Device
from asyncgrad.core.ops.arithmetic import multiply, power
from asyncgrad.core.ops.extremes import maximum
from asyncgrad.core.ops.trigonometric import tanh
from asyncgrad.core.recording.kernels import KERNELS, FusedFormula, is_fusable, kernel, kernels_of
from asyncgrad.core.recording.primitive import Primitive, derivative, primitive
from asyncgrad.devices._kernel_source import NotCompilable, NotElementwise, write_body
from asyncgrad.devices._kernel_text import CUDA_MACROS, Operand, elementwise_text
from asyncgrad.devices.cuda.kernels import CudaKernels
from asyncgrad.optim import sgd
from tests.core.recording.test_formula import all_primitives, own
from tests.devices.host_device import host_device
from tests.devices.host_kernels import HOST_MACROS, HostArray, HostCupy, needs_compilers, on_host
from tests.support.settings import compiled_after

#: How far C's functions may be from NumPy's, relative to the result.
PRECISION = {"e": 4e-3, "f": 2e-6, "d": 1e-13}
#: C and NumPy may give other bits for these; a formula of other operations alone gives the same.
INEXACT = ("exp", "log", "sin", "cos", "tan", "pow", "cbrt", "hypot", "erf", "logaddexp")


def argument_kinds(primitive: Primitive, argument: str, dtype: str) -> list[Any]:
    """Return the kinds of the arguments of a formula: arrays of one dtype, and numbers for what is no tensor."""
    kinds: list[Any] = [np.dtype(dtype)]
    for need in primitive.formulas[argument].needs:
        owner, attribute = primitive.slot_key(need)
        is_array = attribute is None and (owner == "out" or owner in primitive.tensor_names)
        kinds.append(np.dtype(dtype) if is_array else float)
    return kinds


def compiled_formulas() -> list[Any]:
    """Return the formulas that have a kernel, as parameters: the function, and what it takes for each dtype."""
    found = []
    for one in all_primitives():
        for argument, formula in one.formulas.items():
            kinds = argument_kinds(one, argument, "f")
            try:
                lines, _ = write_body(formula.function, kinds, {})
            except NotCompilable:
                continue
            if lines:
                found.append(pytest.param(formula.function, kinds, id=f"{one.name}-{argument}"))
    return found


def expressions() -> list[Any]:
    """Return the functions that have an expression, as parameters like those of formulas."""
    numbers = {"beta", "threshold", "alpha", "positive", "negative_slope", "scale"}
    found = []
    for function, known in KERNELS.items():
        expression = known.expression
        if (
            expression is not None
            and str(expression.__module__).startswith("asyncgrad.")
            and "test" not in expression.__module__
        ):
            names = expression.__code__.co_varnames[: expression.__code__.co_argcount]
            others = {"dtype": type(None), "order": int, **dict.fromkeys(numbers, float)}
            kinds = [others.get(name, np.dtype("f")) for name in names]
            found.append(pytest.param(function, kinds, id=function.__name__))
    return found


@pytest.fixture
def kernels() -> CudaKernels:
    return CudaKernels(HostCupy, HOST_MACROS)


@pytest.fixture
def device(kernels: CudaKernels) -> Iterator[Device]:
    """Return a device on whose arrays formulas are fused."""
    with host_device(kernels) as made:
        yield made


def bare(value: Any) -> Any:
    """Return the NumPy array of a HostArray; anything else as it is."""
    return value.host if isinstance(value, HostArray) else value


def same(result: Any, expected: Any, exact: bool = True) -> None:
    """Assert that a kernel's result is a formula's, in dtype and shape, too."""
    result, expected = bare(result), np.asarray(bare(expected))
    assert result.dtype == expected.dtype
    assert result.shape == expected.shape
    if exact:
        np.testing.assert_array_equal(result, expected)
    else:
        precision = PRECISION[expected.dtype.char]
        np.testing.assert_allclose(result, expected, rtol=precision, atol=precision)


def drawn(kinds: list[Any], dtype: str, shape: tuple[int, ...] = (5, 7)) -> list[Any]:
    """Return random arguments between 0.1 and 0.9, where every function is defined."""
    rng = np.random.default_rng(3)
    numbers = {float: 0.5, int: 1, type(None): None}
    return [
        numbers[kind] if kind in numbers else on_host((0.1 + 0.8 * rng.random(shape)).astype(dtype)) for kind in kinds
    ]


# What the C computes.


@pytest.mark.slow
@needs_compilers
@pytest.mark.sampled("function")
@pytest.mark.parametrize("dtype", "efd")
@pytest.mark.parametrize(("function", "kinds"), [*compiled_formulas(), *expressions()])
def test_a_kernel_gives_what_its_formula_gives(
    kernels: CudaKernels, function: Callable[..., Any], kinds: list[Any], dtype: str
) -> None:
    arguments = drawn(kinds, dtype)
    with np.errstate(all="ignore"):
        expected = function(*(one.host if isinstance(one, HostArray) else one for one in arguments))
        result = kernels.launcher(function)(*arguments)

    assert kernels.launches == 1
    given = [np.dtype(dtype) if isinstance(kind, np.dtype) else kind for kind in kinds]
    fixed = {number: 1 for number, kind in enumerate(kinds) if kind is int}
    body = "".join(write_body(function, given, fixed)[0])
    is_own = kernels_of(function).expression is not None
    same(result, expected, exact=not is_own and not any(name in body for name in INEXACT))


#: The ufuncs that are functions of one or two arrays of any dtype of numbers, by name.
UFUNCS = sorted(
    {name for name, one in vars(np).items() if isinstance(one, np.ufunc) and is_fusable(one) and one.nin <= 2}
    - {"nextafter", "spacing", "isnat", "bitwise_count", "gcd", "lcm", "heaviside", "signbit", "ldexp"}
    - {"left_shift", "right_shift", "bitwise_left_shift", "bitwise_right_shift"}
)


@pytest.mark.slow
@needs_compilers
@pytest.mark.sampled("dtype")
@pytest.mark.parametrize("dtype", "efdiB?")
@pytest.mark.parametrize("name", UFUNCS)
def test_a_ufunc_gives_what_numpy_gives(kernels: CudaKernels, name: str, dtype: str) -> None:
    ufunc = getattr(np, name)
    rng = np.random.default_rng(1)
    values = rng.uniform(0.1, 0.9, (2, 20)) if dtype in "efd" else rng.integers(0, 2 if dtype == "?" else 100, (2, 20))
    if name == "arccosh":
        values = values + 1
    arguments = [on_host(one.astype(dtype)) for one in values][: ufunc.nin]
    with np.errstate(all="ignore"):
        try:
            expected = ufunc(*map(bare, arguments))
        except TypeError:
            with pytest.raises(TypeError):
                kernels.launcher(ufunc)(*arguments)
            return
        result = kernels.launcher(ufunc)(*arguments)

    same(result, expected, exact=expected.dtype.kind != "f")
    # NumPy defines what integers give for these by rules of their own, and CuPy has a kernel for each.
    assert kernels.launches or dtype in "iB?"


@pytest.mark.slow
@needs_compilers
@pytest.mark.sampled("dtype")
@pytest.mark.parametrize("dtype", "?bBhHiIlLefd")
@pytest.mark.parametrize("ufunc", [np.add, np.multiply, np.maximum, np.less, np.logical_and, np.absolute, np.sign])
def test_a_ufunc_of_any_dtype_gives_the_same_bits(kernels: CudaKernels, ufunc: np.ufunc, dtype: str) -> None:
    values = np.array([0, 1, 3, 100, 255, 7]).astype(dtype)
    if ufunc is np.sign and dtype == "?":
        return
    arguments = [on_host(values), on_host(values[::-1].astype("f"))][: ufunc.nin]

    same(kernels.launcher(ufunc)(*arguments), ufunc(*map(bare, arguments)))

    assert kernels.launches == 1


@pytest.mark.slow
@needs_compilers
@pytest.mark.sampled("ufunc")
@pytest.mark.parametrize("dtype", "efd")
@pytest.mark.parametrize(
    "ufunc",
    [
        *(np.maximum, np.minimum, np.fmax, np.fmin, np.remainder, np.floor_divide, np.fmod, np.logaddexp),
        *(np.logaddexp2, np.sign, np.isnan, np.isinf, np.isfinite, np.copysign, np.equal, np.not_equal),
        *(np.logical_not, np.hypot),
    ],
)
def test_a_ufunc_treats_special_values_as_numpy_does(kernels: CudaKernels, ufunc: np.ufunc, dtype: str) -> None:
    special = np.array([0.0, -0.0, 1.5, -2.0, 7.25, np.inf, -np.inf, np.nan], dtype)
    x, y = (on_host(one.ravel()) for one in np.meshgrid(special, special))
    arguments = [x, y][: ufunc.nin]
    with np.errstate(all="ignore"):
        expected = ufunc(*map(bare, arguments))

    same(kernels.launcher(ufunc)(*arguments), expected, exact=expected.dtype == bool)


@needs_compilers
@pytest.mark.parametrize(
    ("shape", "other"),
    [
        pytest.param((5, 7), (7,), id="row"),
        pytest.param((5, 7), (1, 7), id="row with an axis"),
        pytest.param((5, 7), (5, 1), id="column"),
        pytest.param((2, 5, 7), (2, 1, 1), id="first axis"),
        pytest.param((2, 5, 7), (5, 7), id="last axes"),
        pytest.param((2, 5, 7), (1, 5, 1), id="middle axis"),
        pytest.param((3, 5, 7), (5, 1), id="middle axis without the first"),
        pytest.param((2, 3, 5, 2, 2), (1, 3, 5, 1, 1), id="middle axes"),
        pytest.param((5, 7), (), id="no axes"),
        pytest.param((5, 7), (1, 1), id="one element"),
        pytest.param((), (), id="both without axes"),
        pytest.param((3, 1), (1, 4), id="outer"),
        pytest.param((1,), (1, 1), id="one element of more axes"),
    ],
)
def test_a_kernel_broadcasts(kernels: CudaKernels, shape: tuple[int, ...], other: tuple[int, ...]) -> None:
    formula = maximum.formulas["x"].function
    rng = np.random.default_rng(0)
    g, x, y = (on_host(rng.random(size)) for size in (np.broadcast_shapes(shape, other), shape, other))

    same(kernels.launcher(formula)(g, x, y), formula(*map(bare, (g, x, y))))

    assert kernels.launches == 1


@needs_compilers
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 127, 512, 513, 5000])
def test_a_kernel_fills_an_array_of_any_size(kernels: CudaKernels, size: int) -> None:
    x, row = on_host(np.arange(3 * size, dtype="f").reshape(3, size)), on_host(np.arange(size, dtype="f"))
    column = on_host(np.arange(3, dtype="f").reshape(3, 1))
    add = kernels.launcher(np.add)

    same(add(x, x), bare(x) * 2)
    same(add(x, row), bare(x) + bare(row))
    same(add(x, column), bare(x) + bare(column))


@needs_compilers
def test_memory_that_is_not_aligned_is_read_one_by_one(kernels: CudaKernels) -> None:
    x = on_host(np.arange(18, dtype="f"))[1:]

    same(kernels.launcher(np.negative)(x), -bare(x))


@needs_compilers
def test_arrays_that_are_not_contiguous_have_a_kernel_too(kernels: CudaKernels) -> None:
    formula = tanh.formulas["x"].function
    g, out = (on_host(np.random.default_rng(seed).random((4, 6)).astype("f")) for seed in (1, 2))

    same(kernels.launcher(formula)(g.T, out.T), formula(bare(g), bare(out)).T)
    same(kernels.launcher(formula)(g[:, ::2], out[:, ::2]), formula(bare(g), bare(out))[:, ::2])

    assert kernels.launches == 2


@needs_compilers
@pytest.mark.parametrize(
    "index",
    [
        pytest.param((slice(None), slice(5, 9)), id="columns"),
        pytest.param((slice(None), slice(3, 4)), id="one column"),
        pytest.param((slice(1, 7, 2),), id="every other row"),
        pytest.param((slice(None), slice(None, None, 3)), id="every third column"),
    ],
)
def test_a_part_of_an_array_is_read_where_it_lies(kernels: CudaKernels, index: Any) -> None:
    formula = maximum.formulas["x"].function
    rng = np.random.default_rng(0)
    whole = on_host(rng.random((8, 12)).astype("f"))
    x = whole[index]
    g, y = (on_host(rng.random(x.shape).astype("f")) for _ in range(2))

    same(kernels.launcher(np.negative)(x), -bare(x))
    same(kernels.launcher(formula)(g, x, y), formula(*map(bare, (g, x, y))))

    assert kernels.launches == 2


@needs_compilers
def test_a_part_of_an_array_of_three_axes_is_read_where_it_lies(kernels: CudaKernels) -> None:
    x = on_host(np.arange(120, dtype="f").reshape(4, 5, 6))[..., 2:5]

    same(kernels.launcher(np.add)(x, x), bare(x) * 2)

    assert kernels.launches == 1


@needs_compilers
@pytest.mark.parametrize("shape", [(3, 5), (5,), (1, 5), (2, 3, 5)])
def test_an_array_is_added_into_another_in_one_launch(kernels: CudaKernels, shape: tuple[int, ...]) -> None:
    total, value = np.random.default_rng(0).random((2, 3, 5)), np.random.default_rng(1).random(shape)
    array = on_host(total)

    kernels.adder()(array, on_host(value))

    same(array, total + value)
    # A row of one is broadcast otherwise, which is left to the library.
    assert kernels.launches == (shape != (1, 5))


@needs_compilers
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["?", "e", "f", "d"])
def test_arrays_are_laid_side_by_side_in_one_launch(kernels: CudaKernels, axis: int, dtype: str) -> None:
    shapes = [(2, 3, 4)] * 3
    shapes[1] = tuple(5 if nr == axis else size for nr, size in enumerate(shapes[1]))  # type: ignore[assignment]
    arrays = [np.random.default_rng(nr).integers(0, 9, shape).astype(dtype) for nr, shape in enumerate(shapes)]

    same(kernels.concatenate([on_host(one) for one in arrays], axis), np.concatenate(arrays, axis))

    assert kernels.launches == 1


@needs_compilers
def test_arrays_that_differ_in_dtype_or_order_are_laid_side_by_side_by_the_library(kernels: CudaKernels) -> None:
    x, y = np.random.default_rng(0).random((2, 3, 3))

    for other in (on_host(y.astype("f")), on_host(y.T)):
        same(kernels.concatenate([on_host(x), other], 1), np.concatenate([x, bare(other)], 1))

    assert kernels.launches == 0


@needs_compilers
def test_what_c_lacks_is_defined_for_arrays_that_are_not_contiguous_too(kernels: CudaKernels) -> None:
    formula = own(lambda g, x: np.logaddexp(g, x) * g)
    g, x = (on_host(np.random.default_rng(seed).random((4, 6)).astype("e")) for seed in (1, 2))

    same(kernels.launcher(formula)(g.T, x.T), formula(bare(g), bare(x)).T, exact=False)

    assert kernels.launches == 1


def test_an_empty_array_needs_no_kernel(kernels: CudaKernels) -> None:
    formula = tanh.formulas["x"].function
    empty = on_host(np.ones((0, 3), "f"))
    kernels.compile = lambda name, text: pytest.fail("compiled")  # type: ignore[method-assign]

    same(kernels.launcher(formula)(empty, on_host(np.ones(3, "f"))), np.ones((0, 3), "f"))
    assert kernels.launches == 0


# Numbers.


@pytest.mark.slow
@needs_compilers
@pytest.mark.parametrize("number", [0.1, 2, -3, np.float32(0.1), np.float64(0.1), np.int64(3), 1e40, float("nan")])
@pytest.mark.parametrize("dtype", "fi")
def test_a_number_gives_the_dtype_that_numpy_gives(kernels: CudaKernels, number: Any, dtype: str) -> None:
    x = on_host(np.arange(1, 8).astype(dtype))
    with np.errstate(over="ignore"):
        expected = np.multiply(bare(x), number)

    same(kernels.launcher(np.multiply)(x, number), expected)
    same(kernels.launcher(np.multiply)(number, x), expected)
    assert kernels.launches == (0 if dtype == "i" and type(number) is int else 2)


def test_a_number_that_a_dtype_cannot_hold_is_refused(kernels: CudaKernels) -> None:
    with pytest.raises(OverflowError):
        kernels.launcher(np.add)(on_host(np.ones(3, np.int8)), 300)


@needs_compilers
def test_another_number_needs_no_other_kernel(kernels: CudaKernels) -> None:
    compiled = []
    build = kernels.compile
    kernels.compile = lambda name, text: (compiled.append(name), build(name, text))[1]  # type: ignore[method-assign]
    scale = kernels.launcher(np.multiply)
    x = on_host(np.ones(3, "f"))

    for number in (1.5, 2.5, 3.5):
        same(scale(x, number), np.full(3, number, "f"))

    assert len(compiled) == 1


@needs_compilers
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, 0.5, 2.0])
def test_a_formula_that_decides_by_a_number_has_a_kernel_for_it(kernels: CudaKernels, exponent: float) -> None:
    formula = power.formulas["x"].function
    g, x = drawn([None, None], "d")

    result = kernels.launcher(formula)(g, x, exponent)

    same(result, formula(bare(g), bare(x), exponent), exact=False)
    # The gradient of a constant is an array of zeros, which no kernel has to compute.
    assert kernels.launches == bool(exponent)


@pytest.mark.slow
@needs_compilers
def test_a_formula_that_decides_by_many_numbers_is_called(kernels: CudaKernels) -> None:
    formula = power.formulas["x"].function
    g, x = drawn([None, None], "d")
    launch = kernels.launcher(formula)
    exponents = [3 + number / 8 for number in range(20)]

    for exponent in exponents:
        same(launch(g, x, exponent), formula(bare(g), bare(x), exponent), exact=False)

    assert kernels.launches == 16


@needs_compilers
def test_numbers_in_a_kernel_are_counted_once_for_all_shapes(kernels: CudaKernels) -> None:
    launch = kernels.launcher(power.formulas["x"].function)

    for size in range(1, 21):
        launch(*drawn([None, None], "d", (size,)), 3)

    assert kernels.launches == 20


# What has no kernel.


@pytest.mark.parametrize("dtype", "FD")
def test_complex_numbers_are_computed_by_the_formula(kernels: CudaKernels, dtype: str) -> None:
    formula = tanh.formulas["x"].function
    g, out = (on_host(np.array([1 + 2j, 3j], dtype)) for _ in range(2))

    same(kernels.launcher(formula)(g, out), formula(bare(g), bare(out)))
    assert kernels.launches == 0


def test_a_formula_that_is_not_elementwise_is_called_as_it_is(kernels: CudaKernels) -> None:
    formula = own(lambda g, x: np.sum(g) * x)

    assert kernels.launcher(formula) is formula
    with pytest.raises(NotElementwise):
        write_body(formula, [np.dtype("f")] * 2, {})


def test_every_formula_of_an_elementwise_function_has_a_kernel() -> None:
    missing = set()
    for one in all_primitives():
        if not is_fusable(one.function) or kernels_of(one.function).variant is not None:
            continue
        for argument, formula in one.formulas.items():
            if str(formula.function.__module__).startswith("asyncgrad."):
                try:
                    write_body(formula.function, argument_kinds(one, argument, "f"), {})
                except NotCompilable:
                    missing.add(f"{one.name}-{argument}")

    # These give no gradient, the exponent of `ldexp` is an integer, and kernels are made for one order of a derivative.
    assert missing == {
        *("gelu-cdf", "gelu_grad-cdf", "gelu_tanh-gate", "gelu_tanh_grad-gate"),
        *("ldexp-power", "ldexp-x", "i0_derivative-x", "sinc_derivative-x"),
    }


# The source.


def test_each_operation_is_one_statement_in_its_own_dtype() -> None:
    formula = own(lambda g, x: g * np.exp(x) * 2 + x)

    lines, (result,) = write_body(formula, [np.dtype("f"), np.dtype("d")], {})

    assert lines == [
        "const double t0 = exp(p1);",
        "const double t1 = (double)p0;",
        "const double t2 = t1 * t0;",
        "const double t3 = t2 * (double)(2.0);",
        "const double t4 = t3 + p1;",
    ]
    assert result.kind == np.float64


def test_an_operation_with_two_users_is_computed_once() -> None:
    def formula(g: Any, x: Any) -> Any:
        root = np.sqrt(x)
        return g * root + root

    lines, _ = write_body(own(formula), [np.dtype("f")] * 2, {})

    assert sum("sqrtf" in line for line in lines) == 1


def test_half_precision_is_rounded_after_each_operation() -> None:
    lines, _ = write_body(own(lambda g, x: g * x + x), [np.dtype("e")] * 2, {})

    assert lines == ["const float t0 = ROUND_HALF(p0 * p1);", "const float t1 = ROUND_HALF(t0 + p1);"]


def test_a_formula_is_read_for_the_dtypes_at_hand() -> None:
    formula = own(lambda g, x: g * 2 if x.dtype.kind == "f" else g * 3)

    assert "2.0" in write_body(formula, [np.dtype("f"), np.dtype("f")], {})[0][0]
    assert "3.0" in write_body(formula, [np.dtype("f"), np.dtype("i")], {})[0][0]


def test_a_kernel_for_cuda_reads_four_elements_at_once() -> None:
    lines, results = write_body(np.add, [np.dtype("f")] * 2, {})
    operands = [Operand(np.dtype("f"), "full"), Operand(np.dtype("f"), "row")]

    text = elementwise_text("add_ff", operands, lines, results)

    assert text.startswith(CUDA_MACROS)
    assert "KERNEL void add_ff(const View r0, const View a0, const View a1) {" in text
    assert "typedef struct ALIGNED(16) Four0_ { float v[4]; } Four0;" in text
    assert "float16" not in text


# In tensors.


def counted(kernels: CudaKernels, function: Callable[[], Any]) -> tuple[Any, int]:
    """Return the result of a function, and how many kernels it has launched."""
    before = kernels.launches
    result = function()
    return result, kernels.launches - before


@needs_compilers
def test_each_function_and_each_formula_is_one_launch(kernels: CudaKernels, device: Device) -> None:
    x = np.random.default_rng(0).random((4, 5)).astype("f")
    leaf = ag.tensor(x, device=device, requires_grad=True)
    known = ag.tensor(x, requires_grad=True)

    y, forward = counted(kernels, lambda: nn.silu(np.tanh(leaf) * leaf))
    _, backward = counted(kernels, lambda: ag.sync.backward(y.sum()))
    ag.sync.backward(nn.silu(np.tanh(known) * known).sum())

    assert (forward, backward) == (3, 3)
    assert leaf.grad is not None
    assert known.grad is not None
    assert type(leaf.grad._data) is HostArray
    same(leaf.grad._data, known.grad._data, exact=False)


#: What takes parts of two arrays of shape (6, 10), and how many launches both gradients of a function of these take.
PARTS = {
    "whole": (lambda x, y: (x, y), 1),
    "columns": (lambda x, y: (x[:, 2:7], y[:, 5:]), 1),
    "row": (lambda x, y: (x, y[0]), 2),
    "column": (lambda x, y: (x[:, :1], y), 2),
}


@pytest.mark.slow
@needs_compilers
@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize("function", [np.multiply, np.divide, np.logaddexp], ids=lambda ufunc: ufunc.__name__)
@pytest.mark.parametrize("dtype", ["f", "d"])
def test_both_gradients_of_a_function_are_one_launch_where_shapes_are_equal(
    kernels: CudaKernels, device: Device, parts: tuple[Any, int], function: np.ufunc, dtype: str
) -> None:
    take, launches = parts
    x, y = np.random.default_rng(0).random((2, 6, 10)).astype(dtype)

    def node_at(place: Any) -> Any:
        return function(*take(*(ag.tensor(one, device=place, requires_grad=True) for one in (x, y)))).grad_fn

    node, known = node_at(device), node_at(None)
    g = np.random.default_rng(1).random(known.shape).astype(dtype)
    grads, count = counted(kernels, lambda: node.plan.run_here(node, on_host(g)))

    assert count == launches
    for one, other in zip(grads, known.plan.run_here(known, g), strict=True):
        same(one, other, exact=False)


@needs_compilers
@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_of_one_launch_are_those_of_each_edge(device: Device, compiled: bool) -> None:
    x, y = np.random.default_rng(0).random((2, 4, 5)).astype("f")

    def grads(place: Any, wanted: int) -> list[Any]:
        leaves = [ag.tensor(one, device=place, requires_grad=True) for one in (x, y)]
        for _ in range(2):
            found = ag.sync.grad(np.sum(np.tanh(leaves[0] * leaves[1]) / leaves[1]), leaves[:wanted])
        return [bare(one._data) for one in found]

    with compiled_after(1 if compiled else None):
        for wanted in (1, 2):
            for one, other in zip(grads(device, wanted), grads(None, wanted), strict=True):
                same(one, other, exact=False)


#: Functions of several steps, each with its backward.
OF_SEVERAL_STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "clip": lambda x, y: np.clip(x, 0.25, 0.75),
    "clip from below": lambda x, y: np.clip(x, 0.25, None),
    "binary_cross_entropy": lambda x, y: nn.binary_cross_entropy(x, y, reduction="none"),
    "sinc": lambda x, y: np.sinc(x),
    "nan_to_num": lambda x, y: np.nan_to_num(x, nan=2.0, posinf=3.0),
    "logsigmoid": lambda x, y: nn.logsigmoid(x),
    "softsign": lambda x, y: nn.softsign(x),
    "cross entropy of scores": lambda x, y: nn.binary_cross_entropy_with_logits(x, y, y, "none", y),
    "smooth_l1_loss": lambda x, y: nn.smooth_l1_loss(x, y, "none", 0.25),
    "kl_div": lambda x, y: nn.kl_div(x, y, "none"),
}


@pytest.mark.slow
@needs_compilers
@pytest.mark.parametrize("name", OF_SEVERAL_STEPS)
def test_a_function_of_several_steps_is_one_launch_and_so_is_its_backward(
    kernels: CudaKernels, device: Device, name: str
) -> None:
    function = OF_SEVERAL_STEPS[name]
    x, y, g = (np.random.default_rng(seed).random((4, 5)) for seed in range(3))
    leaf, other, grad = (ag.tensor(one, device=device) for one in (x, y, g))
    known = ag.tensor(x, requires_grad=True)

    out, forward = counted(kernels, lambda: function(leaf.requires_grad_(), other))
    _, backward = counted(kernels, lambda: ag.sync.backward(out, grad))
    ag.sync.backward(function(known, ag.tensor(y)), ag.tensor(g))

    assert (forward, backward) == (1, 1)
    same(leaf.grad._data, known.grad._data, exact=False)


@needs_compilers
def test_a_number_in_a_kernel_has_its_sign_even_if_it_is_zero(kernels: CudaKernels) -> None:
    formula = own(lambda x, number: np.copysign(x, number) if number is not None else x)
    fixed = own(lambda x, number: np.copysign(x, number * math.copysign(1.0, 1.0)) if number < 1 else x)
    x = on_host(np.array([1.0, 2.0]))

    for one in (formula, fixed):
        launch = kernels.launcher(one)
        assert [bare(launch(x, number)).tolist() for number in (0.0, -0.0, 0.0)] == [
            [1.0, 2.0],
            [-1.0, -2.0],
            [1.0, 2.0],
        ]
    assert kernels.launches == 6


@pytest.mark.slow
@needs_compilers
@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_is_one_launch_each_way_and_saves_its_input_alone(
    kernels: CudaKernels, device: Device, approximate: str, dtype: str
) -> None:
    def results(where: Any) -> list[Any]:
        x = ag.tensor(np.linspace(-5, 5, 40).astype(dtype), device=where, requires_grad=True)
        y = nn.gelu(x, approximate=approximate)
        saved = len(y.grad_fn.saved_tensors)
        (grad,) = ag.sync.grad(y, x, ag.tensor(np.arange(40, dtype=dtype), device=where), create_graph=True)
        (second,) = ag.sync.grad((grad * grad).sum(), x)
        return [saved, *(one.detach().to("cpu").numpy() for one in (y, grad, second))]

    saved, *found = results(device)
    _, *right = results("cpu")

    assert saved == 1
    for one, other in zip(found, right, strict=True):
        tolerance = 1e-4 if dtype == "f" else 1e-12
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * np.abs(other).max(), strict=True)
    x = ag.tensor(np.ones(3, dtype), device=device, requires_grad=True)
    y, launches = counted(kernels, lambda: nn.gelu(x, approximate=approximate))
    assert launches == 1
    ones = ag.tensor(np.ones(3, dtype), device=device)
    assert counted(kernels, lambda: ag.sync.backward(y, ones))[1] == 1


@needs_compilers
def test_the_gradient_of_a_sum_is_read_as_one_element(kernels: CudaKernels) -> None:
    formula = tanh.formulas["x"].function
    out = on_host(np.random.default_rng(0).random((4, 5)))
    g = np.broadcast_to(on_host(np.float64(1.5)), (4, 5))

    same(kernels.launcher(formula)(g, out), formula(bare(g), bare(out)))

    assert kernels.launches == 1


@needs_compilers
def test_a_recorded_backward_is_fused_too(kernels: CudaKernels, device: Device) -> None:
    x = np.random.default_rng(0).random(6)

    def curvature(leaf: ag.Tensor) -> Any:
        (first,) = ag.sync.grad(np.tanh(leaf).sum(), [leaf], create_graph=True)
        return ag.sync.grad((first * first).sum(), [leaf])[0]._data

    there = curvature(ag.tensor(x, device=device, requires_grad=True))

    same(there, curvature(ag.tensor(x, requires_grad=True)), exact=False)
    assert kernels.launches > 5


@pytest.fixture
def summing_device(kernels: CudaKernels, device: Device) -> Device:
    """Return a device that sums and concatenates by kernels, too."""
    own = {"add": kernels.launcher(np.add), "add_into": kernels.adder(), np.concatenate: kernels.concatenate}
    register_functions(HostArray, own, kernels)
    return device


@needs_compilers
def test_gradients_are_summed_by_kernels_and_where_they_lie(kernels: CudaKernels, summing_device: Device) -> None:
    x = np.random.default_rng(0).random((4, 6))
    count = 5

    def gradient(leaf: ag.Tensor) -> Any:
        y = leaf
        for _ in range(count):
            y = y * leaf
        ag.sync.backward(y, np.ones_like(leaf))
        assert leaf.grad is not None
        return leaf.grad._data

    right = gradient(ag.tensor(x, requires_grad=True))
    before = kernels.launches
    same(gradient(ag.tensor(x, device=summing_device, requires_grad=True)), right)

    # A launch for each product, for both of its gradients, and for each sum but the first.
    assert kernels.launches - before == count + count + count


@needs_compilers
def test_a_linear_layer_and_parts_of_its_result_give_what_numpy_gives(
    kernels: CudaKernels, summing_device: Device
) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.random(shape) for shape in ((2, 3, 4), (8, 4), (8,))]

    def gradients(leaves: list[ag.Tensor]) -> list[Any]:
        first, second = np.split(nn.linear(*leaves), 2, axis=2)
        ag.sync.backward((np.tanh(first) * nn.sigmoid(second)).sum())
        return [leaf.grad._data for leaf in leaves if leaf.grad is not None]

    right = gradients([ag.tensor(one, requires_grad=True) for one in arrays])
    found = gradients([ag.tensor(one, device=summing_device, requires_grad=True) for one in arrays])

    assert len(found) == len(right) == 3
    for one, other in zip(found, right, strict=True):
        same(one, other, exact=False)


@needs_compilers
def test_a_node_on_a_device_with_kernels_is_never_measured_as_heavy(device: Device) -> None:
    x = ag.tensor(np.ones(3), device=device, requires_grad=True)
    y = x * x

    y.grad_fn.note_slow()

    assert not y.grad_fn.plan.watches(3)


@needs_compilers
def test_a_compiled_backward_calls_the_same_kernels(kernels: CudaKernels, device: Device) -> None:
    x = np.random.default_rng(0).random((3, 4)).astype("f")
    leaf = ag.tensor(x, device=device, requires_grad=True)
    launches = []
    grad = ag.tensor(np.ones_like(x), device=device)
    runs = ag.engine.compiled_stats().hits
    with compiled_after(1):
        for _ in range(4):
            y = np.tanh(leaf) * leaf
            leaf.grad = None
            launches.append(counted(kernels, lambda y=y: ag.sync.backward(y, grad))[1])

    assert launches == [2] * 4
    assert ag.engine.compiled_stats().hits - runs >= 2


@needs_compilers
def test_a_compiled_backward_of_products_pieces_and_sums_launches_what_the_engine_launches(
    kernels: CudaKernels, summing_device: Device
) -> None:
    random = np.random.default_rng(0)
    h, weight = (random.standard_normal(shape).astype("f") for shape in ((2, 3), (6, 3)))
    leaf = ag.tensor(weight, device=summing_device, requires_grad=True)
    start = ag.tensor(np.ones_like(h), device=summing_device)

    def launches_and_gradient() -> tuple[int, Any]:
        state = ag.tensor(h, device=summing_device)
        for _ in range(3):
            left, right = np.split(nn.linear(state, leaf), 2, axis=1)
            state = nn.sigmoid(left) * nn.tanh(right)
        leaf.grad = None
        launches = counted(kernels, lambda: ag.sync.backward(state, start))[1]
        assert leaf.grad is not None
        return launches, leaf.grad._data

    launches, gradient = launches_and_gradient()
    hits = ag.engine.compiled_stats().hits
    with compiled_after(1):
        for _ in range(4):
            found = launches_and_gradient()
            assert found[0] == launches
            same(found[1], gradient)

    assert ag.engine.compiled_stats().hits - hits >= 2


@needs_compilers
def test_arrays_of_numpy_keep_their_own_way(kernels: CudaKernels, device: Device) -> None:
    leaf = ag.tensor([1.0, 2.0], requires_grad=True)

    ag.sync.backward((np.tanh(leaf) * leaf).sum())

    assert kernels.launches == 0
    assert not leaf.grad_fn


def test_without_a_compiler_wrappers_call_numpy_itself(kernels: CudaKernels) -> None:
    bare = multiply.call.__globals__["_function"]
    register_functions(HostArray, {}, kernels)
    fused = multiply.call.__globals__["_fused"]
    assert type(fused) is FusedFormula
    assert multiply.call.__globals__["_function"] is fused.call
    unregister_functions(HostArray)

    assert bare is np.multiply
    assert multiply.call.__globals__["_function"] is np.multiply


@needs_compilers
def test_a_function_that_is_made_later_is_fused_as_well(kernels: CudaKernels, device: Device) -> None:
    @primitive()
    @kernel(expression=own(lambda x: x * 3 + 1))
    def affine(x: Any) -> Any:
        return x * 3 + 1

    @derivative(affine, "x")
    def _(g: Any) -> Any:
        return g * 3

    result, launches = counted(kernels, lambda: affine(ag.tensor([1.0, 2.0], device=device, requires_grad=True)))

    same(result._data, [4.0, 7.0])
    assert launches == 1


# Optimizers.

OPTIMIZERS = [
    pytest.param(optim.SGD, {}, id="SGD"),
    pytest.param(optim.SGD, {"weight_decay": 0.1}, id="SGD with decay"),
    pytest.param(optim.SGD, {"momentum": 0.9, "dampening": 0.3}, id="SGD with momentum"),
    pytest.param(optim.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, id="SGD, Nesterov"),
    pytest.param(optim.Adam, {}, id="Adam"),
    pytest.param(optim.Adam, {"weight_decay": 0.1, "amsgrad": True}, id="Adam with decay, AMSGrad"),
    pytest.param(optim.AdamW, {}, id="AdamW"),
]


def stepped(optimizer: Any, options: dict[str, Any], dtype: str, device: Any, steps: int = 3) -> tuple[Any, Any]:
    """Return the parameters and the optimizer after some steps."""
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(shape).astype(dtype) for shape in ((3,), (100, 70), (0,), (), (5000,))]
    params = [ag.tensor(value, device=device, requires_grad=True) for value in values]
    made = optimizer(params, lr=0.1, **options)
    for step in range(steps):
        for param, value in zip(params, values, strict=True):
            param.grad = ag.tensor((value * step / 3 + 1).astype(dtype), device=device)
        made.step()
    return params, made


@needs_compilers
@pytest.mark.sampled("optimizer")
@pytest.mark.parametrize("dtype", "efdFD")
@pytest.mark.parametrize(("optimizer", "options"), OPTIMIZERS)
def test_a_step_is_one_launch_and_gives_the_same_bits(
    kernels: CudaKernels,
    device: Device,
    optimizer: Any,
    options: dict[str, Any],
    dtype: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # BLAS, which plain SGD uses on the cpu, may round once where NumPy rounds twice.
    monkeypatch.setattr(sgd, "find_axpy", lambda dtype: None)
    (params, made), launches = counted(kernels, lambda: stepped(optimizer, options, dtype, device))
    known, plain = stepped(optimizer, options, dtype, "cpu")

    assert launches == 3
    for param, other in zip(params, known, strict=True):
        same(param._data, other._data)
    for own_state, other in zip(made.state_dict()["state"].values(), plain.state_dict()["state"].values(), strict=True):
        assert list(own_state) == list(other)
        for name, value in own_state.items():
            np.testing.assert_array_equal(bare(value), other[name])


@needs_compilers
def test_many_parameters_take_several_launches(kernels: CudaKernels, device: Device) -> None:
    params = [ag.tensor(np.full(nr % 7, nr, "f"), device=device, requires_grad=True) for nr in range(300)]
    for param in params:
        param.grad = ag.tensor(np.ones(param.shape, "f"), device=device)

    _, launches = counted(kernels, optim.SGD(params, lr=1.0).step)

    assert 1 < launches < 5
    for nr, param in enumerate(params):
        same(param._data, np.full(nr % 7, nr - 1, "f"))


@needs_compilers
def test_a_step_of_kernels_is_a_write_into_the_parameters(device: Device) -> None:
    params, _ = stepped(optim.SGD, {}, "f", device, steps=0)
    y = (params[0] * params[0]).sum()
    params[0].grad = ag.tensor(np.ones(3, "f"), device=device)
    optim.SGD([params[0]], lr=0.1).step()

    with pytest.raises(RuntimeError, match="changed"):
        ag.sync.backward(y)


@needs_compilers
def test_parameters_that_do_not_lie_alike_are_updated_one_by_one(kernels: CudaKernels, device: Device) -> None:
    param = ag.tensor(np.ones((2, 3), "f"), device=device, requires_grad=True)
    param.grad = ag.tensor(np.asfortranarray(np.arange(6, dtype="f").reshape(2, 3)), device=device)
    lies_alike = param.grad._data.strides == param._data.strides

    _, launches = counted(kernels, optim.SGD([param], lr=1.0).step)

    assert launches == lies_alike
    same(param._data, 1 - np.arange(6, dtype="f").reshape(2, 3))


@needs_compilers
def test_a_step_that_cannot_be_launched_leaves_state_as_it_was(kernels: CudaKernels, device: Device) -> None:
    params, made = stepped(optim.Adam, {}, "f", device, steps=0)
    before = [np.array(bare(param._data)) for param in params]
    for param in params:
        param.grad = ag.tensor(np.ones(param.shape, "f"), device=device)

    def compile_nothing(name: str, text: str) -> Any:
        raise MemoryError("no memory for a kernel")

    kernels.compile = compile_nothing  # type: ignore[method-assign]
    with pytest.raises(MemoryError, match="no memory for a kernel"):
        made.step()

    assert not made.state
    for param, value in zip(params, before, strict=True):
        same(param._data, value)
