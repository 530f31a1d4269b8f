"""Formulas as expressions: which are, what is written for them, and what a plan then promises of its gradients."""

from __future__ import annotations

import ast
import functools
import importlib
import itertools
import sys
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.core.ops.arithmetic import add, divide, multiply
from asyncgrad.core.recording.formula import as_expression, keeps_dtype
from asyncgrad.core.recording.primitive import RULES, Primitive, derivative, primitive
from asyncgrad.nn import relu
from tests.core.ops.numpy_rules import rules_of_numpy
from tests.support.settings import compiled_after


def own(formula: Any) -> Any:
    """Return a formula as one of asyncgrad's own."""
    formula.__module__ = "asyncgrad.core.ops.of_a_test"
    return formula


def source_of(formula: Any, *arguments: str, may_be_none: Any = ()) -> str | None:
    """Return a formula as source with constants by their names; None where it is called."""
    found = as_expression(formula, may_be_none)
    return None if found is None else found.source(arguments, lambda value: value.__name__)


def all_primitives() -> list[Primitive]:
    """Return the primitives of asyncgrad, without those of SciPy's functions, in the order of their names."""
    # It is imported when it is first asked for.
    importlib.import_module("asyncgrad.numpy.random")
    modules = [
        module
        for name, module in sys.modules.items()
        if name.startswith("asyncgrad.") and not name.startswith("asyncgrad.scipy")
    ]
    values = [value for module in modules for value in vars(module).values()]
    rules = [RULES[function] for function in rules_of_numpy()]
    functions = [value for value in [*values, *rules] if isinstance(value, FunctionType)]
    makers = [function.__globals__.get("_make_plan") for function in functions]
    found = {one for one in values if type(one) is Primitive} | {one.__self__ for one in makers if one is not None}
    return sorted(found, key=lambda one: one.name)


def may_be_none(primitive: Primitive, name: str) -> list[int]:
    """Return which parameters of a formula hold an argument that may be None."""
    needs = primitive.formulas[name].needs
    return [number for number, need in enumerate(needs, 1) if need in primitive.parameters and need != name]


# What is an expression.


def test_a_formula_of_arithmetic_alone_becomes_source():
    found = as_expression(own(lambda g, x, out: -g * (x + 2) / out))

    assert found is not None
    assert found.is_arithmetic
    assert found.source(["g", "a", "b"], str) == "(((-g) * (a + 2)) / b)"


def test_an_operation_on_a_number_keeps_its_side_and_its_type():
    assert source_of(own(lambda g, x: 2 - x / 2.0 + (-1.5) * g), "g", "x") == "((2 - (x / 2.0)) + ((-1.5) * g))"
    assert source_of(own(lambda g: (-2) ** g), "g") == "((-2) ** g)"
    assert source_of(own(lambda g: g * 1j), "g") == "(g * 1j)"
    assert source_of(own(lambda g: (-0.0) ** g), "g") == "((-0.0) ** g)"


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan"), complex(1, 2), complex(0, -1)])
def test_a_number_without_a_literal_is_a_constant(number):
    found = as_expression(own(lambda g: g * number))

    assert found is not None
    assert not found.is_arithmetic
    assert found.source(["g"], lambda value: "constant" if value is number else "other") == "(g * constant)"


def test_calls_methods_and_attributes_of_own_formulas_become_source():
    factor = 0.5

    assert source_of(own(lambda g, x: g * np.cos(x) * factor), "g", "x") == "((g * cos(x)) * 0.5)"
    assert source_of(own(lambda g, x: g.reshape((len(x), 1), order="C")), "g", "x") == (
        "g.reshape((len(x), 1, ), order='C')"
    )
    assert source_of(own(lambda g, x: g @ x.mT), "g", "x") == "(g @ x.mT)"


def test_a_wrapper_of_a_primitive_becomes_the_function_of_arrays():
    found = as_expression(own(lambda g, x: g * np.sin(x) - relu(x)))
    constants: list[Any] = []

    assert found is not None
    found.source(["g", "x"], lambda value: str(constants.append(value)))
    assert constants[0] is np.sin
    assert "_function" not in getattr(constants[1], "__globals__", {})
    assert constants[1](np.array([-1.0, 2.0])).tolist() == [0.0, 2.0]


def test_an_array_on_the_left_is_recorded_as_its_operator():
    array = np.ones(2)
    found = as_expression(own(lambda g: array * g))

    assert found is not None
    assert found.source(["g"], lambda value: "array" if value is array else "other") == "(array * g)"


def test_two_formulas_of_one_code_are_told_apart_by_what_they_enclose():
    def times(factor: float) -> Any:
        return own(lambda g: g * factor)

    assert source_of(times(2.0), "g") == "(g * 2.0)"
    assert source_of(times(3.0), "g") == "(g * 3.0)"


def test_a_formula_that_asks_whether_an_argument_is_none_gives_one_expression_for_each_answer():
    formula = own(lambda g, x, weight: g * x if weight is None else g * weight * x)

    assert source_of(formula, "g", "x", "w", may_be_none=[1, 2]) == "((g * x) if w is None else ((g * w) * x))"


def test_numbers_that_are_equal_and_of_two_types_are_told_apart():
    formula = own(lambda g, weight: g * (1 if weight is None else 1.0))

    assert source_of(formula, "g", "w", may_be_none=[1]) == "((g * 1) if w is None else (g * 1.0))"


def test_an_argument_that_may_be_none_and_is_not_asked_about_makes_no_difference():
    assert source_of(own(lambda g, x: g * x), "g", "x", may_be_none=[1]) == "(g * x)"
    assert source_of(own(lambda g, x: g * -x), "g", "x", may_be_none=[1]) == "(g * (-x))"


# What is called.


def _add_to_gradient(g: Any, x: Any) -> Any:
    g += x
    return g


def _write_into_gradient(g: Any, x: Any) -> Any:
    g[0] = x
    return g


def _compute_once(g: Any, x: Any) -> Any:
    y = np.sin(x)
    return g * y * y


def _call_and_forget(g: Any, x: Any) -> Any:
    np.sin(x)
    return g


def _compute_first(g: Any, x: Any) -> Any:
    y = np.sin(x)
    return np.cos(g) * y


def _catch(g: Any, x: Any) -> Any:
    try:
        return g if x else x
    except Exception:
        return g


async def _wait(g: Any, x: Any) -> Any:
    return g


def _yield(g: Any, x: Any) -> Any:
    yield g


@pytest.mark.parametrize(
    "formula",
    [
        lambda g, x: g if x else x,
        lambda g, x: g or x,
        lambda g, x: not g,
        lambda g, x: g if x > 0 else x,
        lambda g, x: g if 2 in x else x,
        lambda g, x: np.hypot(*x),
        lambda g, x: g * sum(one for one in x),
        lambda g, x: g * (1.0, 2.0)[x],
        lambda g, x: g[x],
        lambda g, x: np.sum(g, **x),
        lambda g, x: {x: g}[x],
        lambda g, x: np.einsum(f"{x}->", g),
        lambda g, x: g * x if g.__class__ is np.ndarray else g,
        lambda g, x: np.sum([g, x]),
        lambda g, x: np.stack([g, g]),
        lambda g, *x: g,
        lambda g, *, x: g,
        lambda g, **x: g,
        lambda g, x: (lambda y: np.sin(y))(x),
        lambda g, x: g * np.missing,
        _add_to_gradient,
        _write_into_gradient,
        _compute_once,
        _call_and_forget,
        _compute_first,
        _catch,
        _wait,
        _yield,
    ],
)
def test_a_formula_that_does_more_is_called(formula):
    assert as_expression(own(formula)) is None


@pytest.mark.parametrize("formula", [np.negative, functools.partial(np.multiply, 2.0), print])
def test_a_formula_that_is_no_function_of_python_is_called(formula):
    assert as_expression(formula) is None


def test_a_formula_with_two_arguments_that_may_be_none_is_called():
    formula = own(lambda g, x, y: g * (2.0 if x is None else x) * (3.0 if y is None else y))

    assert as_expression(formula, [1]) is not None
    assert as_expression(formula, [1, 2]) is None


def test_a_formula_that_decides_by_more_where_an_argument_is_none_is_called():
    formula = own(lambda g, x, axis: (g if x else x) if axis is None else g * x)

    assert as_expression(formula, [2]) is None


def test_a_users_formula_is_called_as_often_as_its_gradient_is_computed():
    calls = []

    @primitive()
    def doubled(x):
        return 2 * x

    @derivative(doubled, "x")
    def _(g):
        calls.append(type(g))
        return 2 * g

    x = ag.tensor(np.ones(3), requires_grad=True)
    for after in (None, 0, 0):
        with compiled_after(after):
            ag.sync.backward(doubled(x).sum())

    assert calls == [np.ndarray] * 3
    assert x.grad.numpy().tolist() == [6.0] * 3


def test_a_formula_of_somebody_elses_is_no_expression():
    assert as_expression(lambda g, x: g * x) is None
    assert as_expression(lambda g, flag: g if flag is True else 2 * g) is None


def test_what_an_own_formula_names_is_not_run():
    calls = []

    def note(x: Any) -> Any:
        calls.append(x)
        return x

    assert source_of(own(lambda g: note(g) * 2), "g") == "(note(g) * 2)"
    assert calls == []


# The formulas of every rule.

#: Those that are more than an expression.
CALLED = {
    *("angle z", "assign value", "cholesky a", "clip a", "clip high", "clip low", "complex_sign x"),
    *("cross_entropy_grad g", "cross_entropy_grad logits", "cumprod a", "delete arr", "det a", "dirichlet alpha"),
    *("ediff1d ary", "ediff1d to_begin", "ediff1d to_end", "eigvals a", "eigvalsh a", "euclidean_norm x"),
    "extremes_of_groups values",
    *("fft_c2r a", "fft_r2c a", "float_power x", "float_power y", "gelu_grad x", "gelu_tanh_grad x", "insert values"),
    *(
        "group_weight_grad g",
        "inv a",
        "inverse_deviation x",
        "inverse_deviations x",
        "layer_norm x",
        "least_squares a",
        "matmul x",
        "matmul y",
        "max a",
        "min a",
        "mish_slope x",
        "nan_to_num x",
    ),
    # It goes along the sequence, from its end and from its beginning.
    "path_losses scores",
    *("pad_constant array", "pad_elements array", "pinv a", "power x", "power y", "power_norm x", "prod a"),
    *("qr_triangle a", "recurrence a", "resize a", "rms_norm x", "rms_norm weight", "rows_added g", "sigmoid x"),
    *("silu_grad x", "singular_values a", "sums_between x", "mixed_along x"),
    *("squared_residuals a", "squared_residuals b", "standardize_grad x", "std a", "take a", "taken_along x"),
    *(
        "standardized_scale_grad g",
        "tensordot a",
        "tensordot b",
        "tile A",
        "vander x",
        "var a",
        "vonmises kappa",
        "weigh weights",
    ),
}


def test_every_formula_is_an_expression_save_those_that_take_decisions():
    called = {
        f"{one.name} {name}"
        for one in all_primitives()
        for name, formula in one.formulas.items()
        if as_expression(formula.function, may_be_none(one, name)) is None
    }

    assert called == CALLED


@pytest.mark.slow
def test_the_formulas_of_rules_ask_for_the_identity_of_none_alone():
    """A symbol sees no other; it refuses to tell its class."""
    path = Path(ag.__file__).parent
    trees = [ast.parse(file.read_text()) for folder in ("core", "nn") for file in (path / folder).rglob("*.py")]
    formulas = [
        one for tree in trees for one in ast.walk(tree) if is_formula(one) and "__class__" not in ast.unparse(one)
    ]
    compared = [
        ast.unparse(node)
        for formula in formulas
        if "__class__" not in ast.unparse(formula)
        for node in ast.walk(formula)
        if isinstance(node, ast.Compare)
        for operator, operand in zip(node.ops, node.comparators, strict=True)
        if isinstance(operator, (ast.Is, ast.IsNot)) and ast.unparse(operand) != "None"
    ]

    assert len(formulas) > 150
    assert compared == []


def is_formula(node: Any) -> bool:
    """Tell whether part of a module is a formula: a lambda, or a function below `@derivative`."""
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    return isinstance(node, ast.Lambda) or any(ast.unparse(one).startswith("derivative(") for one in decorators)


ELEMENTWISE = [
    pytest.param(one, name, id=f"{name} of {one.name}")
    for one in all_primitives()
    if isinstance(one.function, np.ufunc) and {"d->d", "dd->d"} & {*one.function.types}
    for name, formula in one.formulas.items()
    if f"{one.name} {name}" not in CALLED
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("made", "name"), ELEMENTWISE)
def test_an_expression_gives_the_bits_of_its_formula(made, name):
    formula = made.formulas[name]
    found = as_expression(formula.function, may_be_none(made, name))
    random = np.random.default_rng(5)

    for dtypes in itertools.product([np.float64, np.float32], repeat=len(formula.needs)):
        arrays = [random.uniform(0.2, 0.9, (2, 3)).astype(dtype) for dtype in (np.float64, *dtypes)]
        constants: dict[str, Any] = {}

        def named(value: Any, constants: dict[str, Any] = constants) -> str:
            constants[f"c{len(constants)}"] = value
            return f"c{len(constants) - 1}"

        names = [f"p{number}" for number in range(len(arrays))]
        source = found.source(names, named)
        result = eval(source, {**constants, **dict(zip(names, arrays, strict=True))})  # noqa: S307
        expected = formula.function(*arrays)

        assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
        assert result.tobytes() == expected.tobytes()


# What is known of shapes and dtypes.


@pytest.mark.parametrize(
    ("formula", "keeps"),
    [
        (lambda g, x: g, True),
        (lambda g, x: g * x, True),
        (lambda g, x: x + x, False),  # not the shape of g
        (lambda g, x: g * (x / x), True),
        (lambda g, y: g * (y / y), False),  # a ratio of integers is a float64
        (lambda g, y: g * (1 - y), False),  # and so may be what a number gives with booleans
        (lambda g, x: g * 1j, False),
        (lambda g, x: g > x, False),
    ],
)
def test_a_formula_keeps_the_spec_of_its_gradient_only_where_that_is_certain(formula, keeps):
    found = as_expression(own(formula))

    assert found is not None
    assert found.keeps_spec([1] if formula.__code__.co_varnames[1] == "x" else []) is keeps


def test_functions_that_give_another_dtype_than_they_take_are_told_apart():
    assert [keeps_dtype(one) for one in (np.add, np.tanh, np.divide)] == [True] * 3
    assert [keeps_dtype(one) for one in (np.absolute, np.ldexp, np.matmul, np.sum)] == [False] * 4


@pytest.mark.parametrize("primitive", [add, multiply, divide])
def test_gradients_have_the_dtypes_of_their_tensors_where_these_differ(primitive):
    x = ag.tensor(np.ones((2, 1), np.float32), requires_grad=True)
    y = ag.tensor(np.full(3, 2.0), requires_grad=True)

    ag.sync.backward(primitive(x * 1, y * 1).sum())

    assert x.grad.dtype == np.float32
    assert x.grad.shape == (2, 1)
    assert y.grad.dtype == np.float64
    assert y.grad.shape == (3,)


@pytest.mark.parametrize(("dtype", "keeps"), [(np.float32, True), (np.float64, False)])
def test_a_write_in_place_is_no_promise_where_it_was_cast(dtype, keeps):
    x = ag.tensor(np.ones(3, np.float32), requires_grad=True)
    y = ag.tensor(np.full(3, 2.0, dtype), requires_grad=True)

    z = x + x
    z *= y

    assert z.grad_fn.plan.keeps_spec is keeps


def test_a_list_beside_a_tensor_is_no_promise_of_the_gradients_shape():
    x = ag.tensor(np.ones(2), requires_grad=True)

    assert not (x * [1.0, 2.0]).grad_fn.plan.keeps_spec
    assert (x * x).grad_fn.plan.keeps_spec
