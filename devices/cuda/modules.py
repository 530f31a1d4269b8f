"""Sources of kernels in CUDA's C++, of which each GPU loads what it launches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from .arrays import gpu_getter, number_maker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["TYPES", "KernelModule"]

#: By the character of a dtype, the type of C++ at the end of a kernel's name.
TYPES = {"f": "float", "d": "double"}


@final
class KernelModule:
    """The kernels of a source, which is compiled when the first of them is needed.

    Args:
        cupy: the module, or what stands in for it in a test.
        code: the source.
        launched: where launches are counted: `CudaKernels.launched`, or None for nowhere.
    """

    __slots__ = ("_gpu", "_kernels", "_module", "launched", "number")

    def __init__(self, cupy: Any, code: str, launched: list[int] | None = None) -> None:
        self._module = cupy.RawModule(code=code, options=("-std=c++17",))
        self._gpu = gpu_getter(cupy)
        #: By GPU and the parts of the name.
        self._kernels: dict[tuple[int, tuple[str, ...]], Any] = {}
        #: Makes what a launch takes for a number.
        self.number = number_maker(cupy)
        self.launched = [0] if launched is None else launched

    def launch(
        self, parts: tuple[str, ...], threads: int, block: int, arrays: tuple[Any, ...], numbers: Iterable[Any]
    ) -> None:
        """Launch a kernel, which takes the arrays and then the numbers, by some threads in blocks of `block`.

        Its name is that of the parts, joined by underscores.
        """
        # As kernel, whose call would take half as long as the launch itself.
        kernel = self._kernels.get((0 if self._gpu is None else self._gpu(), parts)) or self.kernel(*parts)
        kernel.linear_launch(threads, (*arrays, *map(self.number, numbers)), 0, block)
        self.launched[0] += 1

    def launcher(self, *parts: str) -> Callable[..., Any]:
        """Return what launches a kernel on the current GPU in blocks without axes, for a caller that counts itself."""
        launch: Callable[..., Any] = self.kernel(*parts).linear_launch
        return launch

    def kernel(self, *parts: str) -> Any:
        """Return a kernel for the current GPU, which is called with a grid; for a caller that counts itself."""
        # A kernel is loaded on each GPU.
        key = 0 if self._gpu is None else self._gpu(), parts
        kernel = self._kernels.get(key)
        if kernel is None:
            kernel = self._kernels[key] = self._module.get_function("_".join(parts)).kernel
        return kernel
