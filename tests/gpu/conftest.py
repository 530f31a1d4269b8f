"""The device of these tests, CuPy, and work that keeps the GPU busy.

Without a GPU the tests of one file are skipped, so that a report says why, and the other files, which have hundreds of
tests, are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from tests.support.gpus import GPU, about, why_not

#: Keeps one multiprocessor busy for a number of clock ticks, and the stream that it is on.
SPIN = r"""
extern "C" __global__ void spin(long long ticks) {
    long long begin = clock64();
    while (clock64() - begin < ticks) {}
}
"""
#: About a tenth of a second.
TICKS = 150_000_000

collect_ignore = (
    []
    if why_not() is None
    else [path.name for path in Path(__file__).parent.glob("test_*.py") if path.name != "test_contract.py"]
)


def pytest_report_header() -> str:
    """Say which GPU, driver, CuPy and PyTorch are tested, or why none is."""
    why = why_not()
    return f"GPU: {about() if why is None else f'none, {why}'}"


@pytest.fixture(scope="session", autouse=True)
def _there_is_a_gpu() -> None:
    """Skip the tests in this folder where there is no GPU."""
    why = why_not()
    if why is not None:
        pytest.skip(why)


@pytest.fixture
def gpu() -> Iterator[Any]:
    """The device. Work that a test leaves behind ends with that test, and so does its failure."""
    device: Any = ag.device(GPU)
    yield device
    device.synchronize()


@pytest.fixture
def cupy(gpu: Any) -> Any:
    """CuPy, for tests of a device that is a GPU."""
    return pytest.importorskip("cupy", reason="a device of another kind is tried in the place of a GPU")


@pytest.fixture
def spin(cupy: Any) -> Callable[..., None]:
    """`spin(stream)` keeps a stream busy for about a tenth of a second, and returns at once."""
    kernel = cupy.RawKernel(SPIN, "spin")

    def on(stream: Any, ticks: int = TICKS) -> None:
        with stream.cuda_stream:
            kernel((1,), (1,), (np.int64(ticks),))

    # The first call compiles the kernel.
    on(ag.device(GPU).default_stream(), 1)
    return on


@pytest.fixture
def small_pool(cupy: Any, gpu: Any) -> Iterator[Callable[[int], None]]:
    """`small_pool(bytes)` leaves only so many bytes of the GPU for arrays that do not exist yet."""
    pool = cupy.get_default_memory_pool()
    limit = pool.get_limit()

    def leave(count: int) -> None:
        gpu.empty_cache()
        pool.set_limit(size=pool.total_bytes() + count)

    yield leave
    pool.set_limit(size=limit)
