"""Where results lie: memory shared with the arguments, strides, writeability, dtypes and kinds are NumPy's own.

Every function with a rule, every method, every operator and every kind of index is called on ndarrays and on tensors,
which are laid out in memory in several ways, and the outcomes are compared.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.core.ops.nondifferentiable import NONDIFFERENTIABLE, SAVING
from asyncgrad.errors import InPlaceError
from tests.core.ops import cases_degenerate, memory
from tests.core.ops.cases_degenerate import ALL_FORMS, CUBE, GRID, MASK, ONE, ROW, SCALAR, SQUARE, WIDE
from tests.core.ops.finite_differences import Case, leaves_of
from tests.core.ops.numpy_rules import rules_of_numpy
from tests.core.ops.test_nondifferentiable import ARGUMENTS
from tests.core.ops.test_rules import CASES
from tests.support.sampling import SHARE, some
from tests.support.versions import is_numpy

#: More combinations of a case and a layout than these find nothing more: np.put has 6,006 of them.
MOST_COMBINATIONS = 200
#: The values that these give are not said to be any in particular: NumPy's own differ from one version to another.
ANY_VALUES = {np.empty_like, np.partition}
#: What asyncgrad refuses with a reason, or does where NumPy cannot.
EXCEPTIONS: dict[Callable[..., Any], Callable[[memory.CallOutcome, memory.CallOutcome], bool]] = {
    np.nan_to_num: lambda expected, actual: isinstance(actual.error, InPlaceError),
    np.median: lambda expected, actual: "cannot reshape array of size 0" in str(expected.error),
    # NumPy drops the imaginary parts of weights, with a warning.
    np.cov: lambda expected, actual: "takes real aweights" in str(actual.error),
    # NumPy looks for the singular values of an inverse that there is none of, where this is infinite.
    np.linalg.cond: lambda expected, actual: "SVD did not converge" in str(expected.error),
    # NumPy writes into a copy here, and notices, where the elements do not lie side by side.
    np.put_along_axis: lambda expected, actual: "assignment destination is read-only" in str(expected.error),
}
#: What asyncgrad does as the newer NumPy, where an older one is installed.
if not is_numpy("2.3"):
    EXCEPTIONS[np.pad] = lambda expected, actual: "must be of integral type" in str(expected.error)
    # Condition numbers of complex matrices were complex.
    EXCEPTIONS[np.linalg.cond] = lambda expected, actual: (
        "SVD did not converge" in str(expected.error) or np.iscomplexobj(expected.result)
    )


def _cases(function: Callable[..., Any]) -> list[Case]:
    cases = [*CASES.get(function, []), *cases_degenerate.CASES.get(function, [])]
    if function in ARGUMENTS:
        cases.append(Case(ARGUMENTS[function]))
    if isinstance(function, np.ufunc) and function.signature is None:
        cases += cases_degenerate.of_ufunc(function)
    return cases or (cases_degenerate.in_each_form() if function in NONDIFFERENTIABLE else [])


def _changes(case: Case) -> Iterator[Callable[[np.ndarray], np.ndarray]]:
    """Return what to make of the arrays of a case: other dtypes in rows, and other layouts."""
    leaves = {id(leaf) for leaf in leaves_of(case)}

    def change(layout: Callable[[np.ndarray], np.ndarray], dtype: np.dtype[Any]) -> Callable[[np.ndarray], np.ndarray]:
        def changed(array: np.ndarray) -> np.ndarray:
            # Weights, shares and the like stay real numbers.
            is_changed = array.dtype.kind == "f" and (dtype.kind in "fc" or id(array) in leaves)
            return layout(memory.in_dtype(array, dtype) if is_changed else array)

        return changed

    for layout in memory.LAYOUTS:
        for dtype in memory.DTYPES if layout is memory.in_rows else memory.DTYPES[:1]:
            yield change(layout, dtype)


def _differences(function: Callable[..., Any], cases: Sequence[Case], *, exact: bool = True) -> list[str]:
    """Say in what the outcomes on tensors differ from those on ndarrays, for the first case of each difference."""
    found: dict[str, str] = {}
    excepted = EXCEPTIONS.get(function, lambda expected, actual: False)
    combinations = [(each, change) for each in cases for change in _changes(each)]
    share = min(SHARE, MOST_COMBINATIONS / max(1, len(combinations)))
    for case, change in some(combinations, share):
        expected = memory.run(function, case.args, case.kwargs, lambda array: array, change)
        for wrapped in (memory.in_tensor, memory.in_computed):
            actual = memory.run(function, case.args, case.kwargs, wrapped, change)
            for line in memory.differences(expected, actual, exact=exact):
                if not excepted(expected, actual):
                    found.setdefault(line.split(" ")[0], f"{line}, {wrapped.__name__}, {case}")
    return list(found.values())


def test_every_function_with_a_rule_has_a_case_at_the_edge_of_what_it_takes() -> None:
    without = [
        function.__name__
        for function in rules_of_numpy()
        if function not in cases_degenerate.CASES
        and function not in (*NONDIFFERENTIABLE, *SAVING)
        and not (isinstance(function, np.ufunc) and function.signature is None)
    ]

    assert without == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "function",
    [function for function in rules_of_numpy() if function not in SAVING],
    ids=lambda function: function.__name__,
)
def test_a_result_lies_in_memory_as_numpys_own(function: Callable[..., Any]) -> None:
    cases = _cases(function)

    assert cases
    assert _differences(function, cases, exact=function not in ANY_VALUES) == []


#: Calls of each method that an ndarray has, on each form of array.
METHODS: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    **{
        name: [((), {}), ((0,), {}), ((), {"axis": -1, "keepdims": True})]
        for name in ("sum", "mean", "prod", "var", "std", "max", "min", "any", "all", "argmax", "argmin")
    },
    **{name: [((), {}), ((0,), {}), ((-1,), {})] for name in ("cumsum", "cumprod")},
    "argpartition": [((0,), {})],
    "argsort": [((), {}), ((0,), {})],
    "astype": [
        *[((dtype,), {"order": order}) for dtype in (float, "f4", ">f8", complex) for order in "CFAK"],
        *[((dtype,), {"copy": False}) for dtype in (float, "f4", ">f8")],
        *[((dtype,), {"copy": False, "order": order}) for dtype in (float, "f4") for order in "CFAK"],
    ],
    "choose": [],
    "clip": [((1.5, 2.5), {}), ((), {"max": 2}), ((None, 2), {})],
    "compress": [(([True],), {}), (([True],), {"axis": 0}), (([],), {"axis": -1})],
    "conj": [((), {})],
    "conjugate": [((), {})],
    "copy": [((), {}), *[((order,), {}) for order in "CFAK"]],
    "diagonal": [((), {}), ((1,), {}), ((0, -1, 0), {})],
    "dot": [((ROW,), {}), ((2.0,), {}), ((GRID.T,), {})],
    "fill": [((3.0,), {}), ((SCALAR + np.zeros(()),), {})],
    "flatten": [((), {}), *[((order,), {}) for order in "CFAK"]],
    "item": [((0,), {}), ((), {})],
    "nonzero": [((), {})],
    "partition": [((0,), {}), ((0, 0), {})],
    "put": [((0, 7.0), {}), (([], 7.0), {}), (([0, 0], [7.0, 8.0]), {}), (([5, -1], 7.0, "wrap"), {})],
    "ravel": [((), {}), *[((order,), {}) for order in "CFAK"]],
    "repeat": [((0,), {}), ((1,), {}), ((2, 0), {}), (([],), {})],
    "reshape": [
        ((-1,), {}),
        ((), {}),
        ((1, -1), {}),
        (((1, -1, 1),), {"order": "F"}),
        (((-1, 2),), {"order": "A"}),
        ((3, -1), {}),
    ],
    "round": [((), {}), ((1,), {})],
    "searchsorted": [((ROW,), {}), ((2.5,), {})],
    "sort": [((), {}), ((0,), {})],
    "squeeze": [((), {}), ((0,), {}), ((-1,), {}), (((),), {})],
    "swapaxes": [((0, 0), {}), ((0, -1), {})],
    "take": [((0,), {}), (([0],), {}), (([],), {}), (([0],), {"axis": 0}), ((0,), {"axis": -1})],
    "tolist": [((), {})],
    "trace": [((), {}), ((1,), {})],
    "transpose": [((), {}), ((None,), {}), ((0,), {}), ((1, 0), {}), (((2, 0, 1),), {})],
}
#: What has no arguments, and what is set rather than called.
ATTRIBUTES = ("T", "mT", "real", "imag", "shape", "dtype", "ndim", "size", "itemsize", "nbytes", "strides")
OTHERS = {"flags", "device", "to_device"}


def test_every_method_that_an_ndarray_has_too_is_called() -> None:
    both = {name for name in dir(np.ndarray) if hasattr(ag.Tensor, name) and not name.startswith("_")}

    assert both == {*METHODS, *ATTRIBUTES, *OTHERS}


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_what_a_method_gives_lies_in_memory_as_numpys_own(name: str) -> None:
    def method(array: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(array, name)(*args, **kwargs)

    cases = [Case((form, *args), kwargs) for args, kwargs in METHODS[name] for form in ALL_FORMS]
    if name == "choose":
        cases = [
            Case((np.array([0, 1, 0]), [ROW, 2.0])),
            Case((np.array(0), [SCALAR])),
            Case((np.array([], int), [ROW])),
        ]

    assert _differences(method, cases, exact=name != "partition") == []


@pytest.mark.parametrize("name", [name for name in ATTRIBUTES if name not in ("itemsize", "nbytes")])
def test_what_an_attribute_gives_lies_in_memory_as_numpys_own(name: str) -> None:
    assert _differences(lambda array: getattr(array, name), cases_degenerate.in_each_form()) == []


OPERATORS = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")},
    **{
        f"i{name}": getattr(operator, f"i{name}") for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
    },
    **{name: getattr(operator, name) for name in ("lt", "le", "eq", "ne", "gt", "ge")},
    "divmod": divmod,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
def test_what_an_operator_gives_lies_in_memory_as_numpys_own(name: str) -> None:
    pairs = [(form, other) for form in ALL_FORMS for other in (form, form + 1, ROW, SCALAR, 2, 2.5)]
    pairs += [(2.5, form) for form in ALL_FORMS] + [(SQUARE, SQUARE), (GRID, GRID.T), (CUBE, SQUARE), (WIDE, ROW)]

    assert _differences(OPERATORS[name], [Case(pair) for pair in pairs]) == []


@pytest.mark.parametrize(
    "function", [operator.neg, operator.pos, abs, operator.invert, list], ids=lambda one: one.__name__
)
def test_what_an_operator_of_one_operand_gives_lies_in_memory_as_numpys_own(function: Any) -> None:
    assert _differences(function, cases_degenerate.in_each_form()) == []


INDICES: dict[str, Any] = {
    "()": (),
    "...": ...,
    "None": None,
    "0": 0,
    "-1, ...": (-1, ...),
    ":": slice(None),
    "::-1": slice(None, None, -1),
    "0:0": slice(0, 0),
    "..., 0": (..., 0),
    "0, 0": (0, 0),
    "0, 0, 0": (0, 0, 0),
    "1, 2, ...": (1, 2, ...),
    "None, ..., None": (None, ..., None),
    "[]": [],
    "[0]": [0],
    "[0, 0]": [0, 0],
    "[[0]]": [[0]],
    "array 0": np.array(0),
    "int64 0": np.int64(0),
    "True": True,
    "False": False,
    "mask": MASK,
    "mask of rows": np.array([True, False]),
    "[0], :, [0]": ([0], slice(None), [0]),
    ":, [0, 1]": (slice(None), [0, 1]),
    ":, 0": (slice(None), 0),
    "[1], ::-1": ([1], slice(None, None, -1)),
    "::2, ::-1": (slice(None, None, 2), slice(None, None, -1)),
    "1.0": 1.0,
    "text": "a",
}


@pytest.mark.parametrize("index", INDICES)
def test_what_an_index_gives_lies_in_memory_as_numpys_own(index: str) -> None:
    # The index is no argument: its arrays stay as they are.
    assert _differences(lambda array: array[INDICES[index]], cases_degenerate.in_each_form()) == []


@pytest.mark.slow
@pytest.mark.parametrize("value", [7.0, [7.0], ONE, SCALAR, ROW, np.zeros(0)], ids=repr)
@pytest.mark.parametrize("index", INDICES)
def test_a_write_by_an_index_changes_what_it_changes_in_numpy(index: str, value: Any) -> None:
    cases = [Case((form, INDICES[index], value)) for form in ALL_FORMS if value is not form]

    assert _differences(operator.setitem, cases) == []


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.add(x[..., None], x[..., None], dtype=complex),
        lambda x: np.multiply(x, x.T if x.ndim == 2 else x, dtype=complex),
        lambda x: np.exp(x, dtype=complex),
        lambda x: np.nansum(x, 1),
        lambda x: np.nanprod(x, 0),
    ],
)
@pytest.mark.parametrize("shape", [(2, 3), (2, 1), (0, 3)])
def test_a_result_of_a_broadcast_view_lies_in_memory_as_numpys_own(function, shape):
    whole = np.broadcast_to(np.linspace(0.5, 1.5, math.prod(shape)).reshape(shape), (3, *shape))
    found, expected = function(np.broadcast_to(ag.tensor(whole[0]), whole.shape)), function(whole)

    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert expected.size == 0 or found.numpy().strides == expected.strides
