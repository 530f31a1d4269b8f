"""Kernels whose threads share memory and exchange values, run by as many threads of the host as a block has."""

from __future__ import annotations

import ctypes
import re
import subprocess
import tempfile
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, final

import numpy as np

from .host_kernels import CPLUSPLUS_COMPILER, HostArray

#: What CUDA has for a block. The blocks of a grid run one after the other, so memory that a block shares may be static.
BLOCK_MACROS = """\
#include <barrier>
#include <memory>
#include <thread>
#include <vector>
struct Index { int x, y; };
static thread_local Index threadIdx;
static Index blockIdx, blockDim;
static double exchanged[1024];
static std::unique_ptr<std::barrier<>> block_barrier, warp_barriers[32];
#define __global__
#define __device__
#define __shared__ static
#define __syncthreads() block_barrier->arrive_and_wait()
template <typename T> T __shfl_down_sync(unsigned, T value, int step) {
    std::barrier<>& warp = *warp_barriers[threadIdx.x / 32];
    exchanged[threadIdx.x] = value;
    warp.arrive_and_wait();
    T found = threadIdx.x % 32 + step < 32 ? T(exchanged[threadIdx.x + step]) : value;
    warp.arrive_and_wait();
    return found;
}
template <typename F> void run_grid(int columns, int rows, int threads, F kernel) {
    blockDim.x = threads;
    block_barrier = std::make_unique<std::barrier<>>(threads);
    for (int warp = 0; warp < threads / 32; warp++) warp_barriers[warp] = std::make_unique<std::barrier<>>(32);
    for (blockIdx.y = 0; blockIdx.y < rows; blockIdx.y++)
        for (blockIdx.x = 0; blockIdx.x < columns; blockIdx.x++) {
            std::vector<std::thread> all;
            for (int nr = 0; nr < threads; nr++) all.emplace_back([=] { threadIdx.x = nr; kernel(); });
            for (auto& one : all) one.join();
        }
}
"""

_C_TYPES = {"float": ctypes.c_float, "double": ctypes.c_double, "long long": ctypes.c_longlong}


@final
class ThreadsModule:
    """The kernels of a source in C++, after BLOCK_MACROS, whose macro KERNELS defines them for each dtype.

    Args:
        code: the source.
        options: for CUDA's compiler.
    """

    #: The grid and the threads of each launch.
    launched: ClassVar[list[tuple[tuple[int, ...], int]]] = []

    def __init__(self, code: str, options: tuple[str, ...]) -> None:
        assert options == ("-std=c++17",)
        self._code = code
        #: By the name of a kernel without its dtype, the types of its arguments.
        self._parameters = {
            name: [one.rpartition(" ")[0].strip() for one in parameters.replace("\\", "").split(",")]
            for name, parameters in re.findall(r"__global__ void (\w+)_##T\(([^)]*)\)", code)
        }
        self._library: Any = None

    def _build(self) -> ctypes.CDLL:
        drivers = []
        for (kernel, kinds), dtype in product(self._parameters.items(), ("float", "double")):
            given = [f"{kind.replace('T', dtype)} a{nr}" for nr, kind in enumerate(kinds)]
            call = f"{kernel}_{dtype}({', '.join(f'a{nr}' for nr in range(len(kinds)))})"
            drivers.append(
                f'extern "C" void run_{kernel}_{dtype}(int columns, int rows, int threads, {", ".join(given)}) '
                f"{{ run_grid(columns, rows, threads, [=] {{ {call}; }}); }}\n"
            )
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder, "kernels.so"))
            flags = ["-std=c++20", "-O1", "-pthread", "-shared", "-fPIC", "-w", "-x", "c++", "-", "-o", path]
            source = self._code + "".join(drivers)
            subprocess.run([str(CPLUSPLUS_COMPILER), *flags], input=source, text=True, check=True)
            return ctypes.CDLL(path)

    def get_function(self, name: str) -> Any:
        """Return what launches one kernel."""
        self._library = self._library or self._build()
        function = getattr(self._library, f"run_{name}")
        kernel, _, dtype = name.rpartition("_")
        kinds = [kind.replace("T", dtype) for kind in self._parameters[kernel]]

        def launch(grid: tuple[int, ...], block: tuple[int, ...], arguments: tuple[Any, ...]) -> None:
            assert len(arguments) == len(kinds)
            self.launched.append((grid, block[0]))
            given = [
                ctypes.c_void_p(one.data.ptr)
                if isinstance(one, HostArray)
                else _C_TYPES[kind](one.item() if isinstance(one, np.generic) else one)
                for one, kind in zip(arguments, kinds, strict=True)
            ]
            columns, rows = (*grid, 1)[:2]
            function(columns, rows, block[0], *given)

        return SimpleNamespace(kernel=launch)
