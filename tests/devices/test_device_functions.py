"""Functions that devices register, and those of asyncgrad that call them where they are."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, final

import pytest

from asyncgrad.core.arrays.device_functions import (
    OWN_FUNCTIONS,
    by_kernel,
    kernel_of,
    own_function,
    register_functions,
)
from asyncgrad.core.recording.kernels import DEVICE_VARIANTS, device_kernel
from asyncgrad.devices.cuda import own_functions
from asyncgrad.devices.cuda.kernels import CudaKernels
from tests.support.fake_cupy import open_gpus

ROOT = Path(__file__).parents[2]
#: How a function of a device is asked for by its name.
ASKED = re.compile(r'(?:by_kernel|kernel_of|device_kernel|OWN_FUNCTIONS\[.*\]\.get)\("(\w+)')


@final
class Array:
    """An array of a device."""


@pytest.fixture
def array() -> Iterator[Array]:
    """Return an array of a device that has registered two functions; one of them takes no number above 3."""
    register_functions(Array, {"doubled": lambda x, number: None if number > 3 else 2 * number, sum: len})
    yield Array()
    del OWN_FUNCTIONS[Array]


def tripled(x: Any, number: int) -> int:
    return 3 * number


@pytest.mark.parametrize(("call", "expected"), [("doubled(x, number)", 4), ("doubled(x, 4)", 6), ("halved(x)", 6)])
def test_a_function_is_called_where_a_device_has_no_kernel_for_the_arguments(
    array: Array, call: str, expected: int
) -> None:
    assert device_kernel(call)(tripled) is tripled

    assert DEVICE_VARIANTS.pop(tripled)(array, 2) == expected


def test_a_call_of_a_kernel_with_what_is_no_parameter_is_refused() -> None:
    with pytest.raises(TypeError, match=r"doubled\(x, size\) has \['size'\], and tripled has the parameters x, number"):
        device_kernel("doubled(x, size)")(tripled)

    assert tripled not in DEVICE_VARIANTS


def test_functions_are_looked_up_by_the_type_of_an_array(array: Array) -> None:
    assert own_function(sum, array) is len
    assert own_function(sum, 1.0) is sum
    assert kernel_of("doubled", 1.0) is kernel_of("halved", array) is None
    assert by_kernel("doubled", array, 2) == 4
    assert by_kernel("doubled", array, 4) is by_kernel("halved", array) is None


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
