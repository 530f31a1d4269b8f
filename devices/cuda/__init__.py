"""`cuda:0`, `cuda:1`, …: NVIDIA GPUs, whose arrays are CuPy's and whose streams are CUDA's."""

from .all_reduce import all_reduce_hook as all_reduce_hook
from .device import CudaDevice as CudaDevice
from .device import install_functions as install_functions
from .device import open_device as open_device
from .device import own_functions as own_functions

__all__ = ["CudaDevice", "all_reduce_hook", "install_functions", "open_device", "own_functions"]


def __dir__() -> list[str]:
    return __all__
