"""Functions that devices register, and those of asyncgrad that call them where they are."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, final

import pytest

from asyncgrad.core.arrays.device_functions import (
    COMPILED_TYPES,
    KernelCompiler,
    compiler_of,
    no_function,
    own_function,
    register_functions,
    unregister_functions,
)
from asyncgrad.core.recording.kernels import KERNELS, FusedFormula, kernel, kernels_of
from asyncgrad.devices.cuda import own_functions
from asyncgrad.devices.cuda.kernels import CudaKernels
from tests.support.fake_cupy import open_gpus

ROOT = Path(__file__).parents[2]
#: How a function of a device is asked for by its name.
ASKED = re.compile(r'(?:own_function\(|\bkernel\(\s*name=)"(\w+)')


@final
class Array:
    """An array of a device."""


def doubled(x: Any, number: int) -> int | None:
    return None if number > 3 else 2 * number


@pytest.fixture
def array() -> Iterator[Array]:
    """Return an array of a device that has registered functions, one of which takes no number above 3."""
    register_functions(Array, {"doubled": doubled, "joined": lambda x, text: text, sum: len})
    yield Array()
    unregister_functions(Array)


@final
class Compiler(KernelCompiler):
    """Compiles each formula to a function that returns the name of this."""

    def __init__(self, name: str) -> None:
        self.name = name

    def launcher(self, formula: Any) -> Any:
        return lambda *arguments: self.name

    def update(self, formula: Any, written: int) -> Any:
        raise NotImplementedError


@pytest.fixture
def tripled() -> Iterator[Callable[..., int]]:
    """Return a new function, whose parameters have the names that stand in generated source, too."""

    def tripled(table: Any, function: int) -> int:
        return 3 * function

    yield tripled
    KERNELS.pop(tripled, None)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({"name": "doubled"}, 4, id="all parameters"),
        pytest.param({"name": "doubled", "arguments": ("table", "function")}, 4, id="parameters"),
        pytest.param({"name": "doubled", "arguments": ("table", 1)}, 2, id="a constant"),
        pytest.param({"name": "doubled", "arguments": ("table",), "options": {"number": 3}}, 6, id="an option"),
        pytest.param({"name": "joined", "arguments": ("table",), "options": {"text": "table"}}, "table", id="a text"),
        pytest.param({"name": "doubled", "arguments": ("table", 4)}, 6, id="refused"),
        pytest.param({"name": "halved"}, 6, id="not registered"),
    ],
)
def test_a_function_is_called_where_a_device_has_no_kernel_for_the_arguments(
    array: Array, tripled: Callable[..., int], given: dict[str, Any], expected: Any
) -> None:
    assert kernel(**given)(tripled) is tripled

    variant = kernels_of(tripled).variant
    assert variant is not None
    assert variant(array, 2) == expected
    assert variant(1.0, 2) == 6


@pytest.mark.parametrize(
    ("arguments", "shown"), [(("table", "size"), "table, size"), ((None, "table"), "None, table"), ((), "")]
)
def test_a_kernel_is_given_parameters_of_the_function_and_an_array_first(
    tripled: Callable[..., int], arguments: tuple[Any, ...], shown: str
) -> None:
    with pytest.raises(
        TypeError, match=rf"doubled is given \({shown}\), and tripled has the parameters table, function:"
    ):
        kernel(name="doubled", arguments=arguments)(tripled)

    assert tripled not in KERNELS


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "give it expression, variant or name"),
        ({"expression": abs, "variant": abs}, "one of expression, variant and name"),
        ({"expression": abs, "name": "doubled"}, "one of expression, variant and name"),
        ({"variant": abs, "name": "doubled"}, "one of expression, variant and name"),
        ({"variant": abs, "arguments": ("x",)}, "give kernel its name, too"),
        ({"expression": abs, "options": {"x": 1}}, "give kernel its name, too"),
    ],
)
def test_a_function_is_computed_in_one_way_on_a_device(given: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        kernel(**given)


def test_all_kernels_of_a_function_are_said_in_one_place(tripled: Callable[..., int]) -> None:
    kernel(variant=abs, adder=sum)(tripled)

    with pytest.raises(TypeError, match=r"tripled has kernels already: say all of them in one @kernel\(\.\.\.\)"):
        kernel(expression=abs)(tripled)
    assert (kernels_of(tripled).variant, kernels_of(tripled).adder) == (abs, sum)


def test_functions_are_looked_up_by_the_type_of_an_array(array: Array) -> None:
    assert own_function(sum, array) is len
    assert own_function(max, array) is max
    assert own_function(sum, 1.0) is sum
    assert own_function("doubled", 1.0) is own_function("halved", array) is no_function
    assert own_function("doubled", array)(array, 2) == 4
    assert own_function("doubled", array)(array, 4) is own_function("halved", array)(array, key=4) is None


def test_a_type_of_array_has_the_compiler_that_was_registered_last(array: Array) -> None:
    formula = FusedFormula(lambda x: "by the library")
    found = []
    for one in (None, Compiler("first"), Compiler("second"), None):
        register_functions(Array, {}, one)
        assert compiler_of(Array) is one
        assert (Array in COMPILED_TYPES) is (one is not None)
        found.append(formula(array))

    assert found == ["by the library", "first", "second", "by the library"]


def test_the_functions_of_a_gpu_are_those_that_are_asked_for_and_those_of_the_page_on_devices() -> None:
    with open_gpus(1):
        cupy = sys.modules["cupy"]
        registered = {name for name in own_functions(cupy, CudaKernels(cupy)) if isinstance(name, str)}
    # The stand-in for CuPy does not have it.
    registered.add("split")
    folders = ("core", "nn", "scipy/special")
    sources = [path.read_text() for folder in folders for path in ROOT.glob(f"asyncgrad/{folder}/**/*.py")]
    sources.append((ROOT / "devices/cuda/windows.py").read_text())
    asked = {name for source in sources for name in ASKED.findall(source)}
    rows = re.findall(r"^\| `cuda/\w+\.py` \| (.*) \|$", (ROOT / "docs/devices.md").read_text(), re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row)} - {"sliding_window_view"}

    assert registered == asked == listed
