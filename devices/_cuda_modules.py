"""Sources of kernels in CUDA's C++, of which each GPU loads what it launches."""

from __future__ import annotations

from typing import Any, final

from ._cuda_arrays import gpu_getter

__all__ = ["KernelModule"]


@final
class KernelModule:
    """The kernels of a source, which is compiled when the first of them is needed.

    Args:
        cupy: the module.
        code: the source.
    """

    __slots__ = ("_gpu", "_launchers", "_module")

    def __init__(self, cupy: Any, code: str) -> None:
        self._module = cupy.RawModule(code=code, options=("-std=c++17",))
        self._gpu = gpu_getter(cupy)
        #: By GPU and the parts of the name.
        self._launchers: dict[tuple[int, tuple[str, ...]], Any] = {}

    def launcher(self, *parts: str) -> Any:
        """Return what launches a kernel on the current GPU; its name is that of the parts, joined by underscores."""
        # A kernel is loaded on each GPU.
        key = 0 if self._gpu is None else self._gpu(), parts
        launcher = self._launchers.get(key)
        if launcher is None:
            launcher = self._launchers[key] = self._module.get_function("_".join(parts)).kernel.linear_launch
        return launcher
