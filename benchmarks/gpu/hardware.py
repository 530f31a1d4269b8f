"""The GPU and the versions that the figures depend on, and what is missing to use a GPU.

This module imports neither CuPy nor PyTorch before a function is called.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

__all__ = ["describe", "missing", "use_gpu"]

#: The file in which Linux gives the version of NVIDIA's driver.
DRIVER = Path("/proc/driver/nvidia/version")


def missing(device: str, *, torch_too: bool = False) -> str | None:
    """Return a message that says what is missing to compute on a device, and what to do; None if nothing is missing.

    Args:
        device: the name of the device, such as `cuda:0`. For a device of another kind, nothing is missing.
        torch_too: whether PyTorch is needed on the same GPU.
    """
    kind, _, number = device.partition(":")
    if kind != "cuda":
        return None
    if find_spec("cupy") is None:
        return "CuPy is not installed: pip install -e '.[cuda13]', or '.[cuda12]' for a driver of CUDA 12"
    import cupy

    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"CuPy finds no NVIDIA GPU with a working driver ({error}): see whether nvidia-smi lists one"
    if int(number or 0) >= count:
        return f"there is no GPU {number}: CuPy finds {count}, numbered from 0"
    if not torch_too:
        return None
    if find_spec("torch") is None:
        return "PyTorch is not installed: pip install torch, or give --alone to measure without it"
    import torch

    if torch.cuda.is_available():
        return None
    return f"PyTorch {torch.__version__} cannot use the GPU: install a build for CUDA, or give --alone"


def describe(device: str, *, torch_too: bool) -> dict[str, str]:
    """Return the GPU, its driver and the versions of the libraries, by name; an empty dict for other devices."""
    kind, _, number = device.partition(":")
    if kind != "cuda":
        return {}
    import cupy

    properties = cupy.cuda.runtime.getDeviceProperties(int(number or 0))
    found = {
        "gpu": properties["name"].decode(),
        "gpu memory": f"{properties['totalGlobalMem'] / 2**30:.0f} GiB",
        "driver": _driver(),
        "cuda": _version(cupy.cuda.runtime.runtimeGetVersion()),
        "cupy": cupy.__version__,
    }
    if torch_too:
        import torch

        found["torch"] = f"{torch.__version__} (CUDA {torch.version.cuda})"
    return found


def _driver() -> str:
    """Return the version of NVIDIA's driver, or the newest CUDA that it supports if the version is not known."""
    import cupy

    match = re.search(r"Kernel Module.*?\s(\d+\.[\d.]+)\s", DRIVER.read_text()) if DRIVER.exists() else None
    return match[1] if match else f"for CUDA {_version(cupy.cuda.runtime.driverGetVersion())}"


def _version(number: int) -> str:
    """Return the version of CUDA for its number: "13.1" for 13010."""
    return f"{number // 1000}.{number % 1000 // 10}"


def use_gpu(device: str) -> None:
    """Make a device such as `cuda:1` the current device of CuPy in this thread."""
    import cupy

    cupy.cuda.Device(int(device.partition(":")[2] or 0)).use()
