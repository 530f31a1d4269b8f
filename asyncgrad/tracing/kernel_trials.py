"""Trials of kernels: whether what they do in the place of an approximation of NumPy's has its bits."""

from __future__ import annotations

import functools

import numpy as np

from .exponential import LARGEST
from .fusion import Instruction, Kernel, Operand
from .inner_loops import InnerLoop, address_of, inner_loop
from .kernels import compiled_kernel, has_quiet_comparisons
from .loop_trials import call_loop
from .runner import runner

__all__ = ["exponential_agrees"]

#: How far apart the bits of the numbers are that are tried, so that each exponent has some hundreds of them, and how
#: many others lie evenly.
_STEP, _EVENLY = (1 << 14) + 1, 1 << 17


@functools.cache
def exponential_agrees() -> bool:
    """Tell whether kernels have NumPy's exponential of float32, found by trial of numbers of each size."""
    own = runner()
    if own is None or not own.tile_functions or not has_quiet_comparisons() or inner_loop(np.exp, "f->f") is None:
        return False
    numbers = ordinary_numbers(_STEP, _EVENLY)
    with np.errstate(all="ignore"):
        expected = np.exp(numbers)
    agrees: bool = exponentials_by_kernel(numbers).tobytes() == expected.tobytes()
    return agrees


def ordinary_numbers(step: int, evenly: int) -> np.ndarray:
    """Return numbers whose exponentials kernels compute, and minus infinity among them.

    Args:
        step: how far apart their bits are.
        evenly: how many others there are between the smallest and the largest one, equally far apart.
    """
    largest = int(np.array(LARGEST, np.float32).view(np.int32))
    sizes = np.arange(0, largest + 1, step, dtype=np.int32).view(np.float32)
    spread = np.linspace(-LARGEST, LARGEST, evenly, dtype=np.float32)
    found: np.ndarray = np.concatenate([sizes, -sizes, spread, np.array([-np.inf], np.float32)])
    return found


def exponentials_by_kernel(numbers: np.ndarray) -> np.ndarray:
    """Return the exponentials of float32 numbers by a kernel."""
    nan, bases, found = np.zeros(1, np.int64), np.zeros(1, np.int64), np.empty_like(numbers)
    operand = Operand("f", (numbers.itemsize,), False)
    code = [("load", (0,)), ("exp", (0,)), ("store", (1, 1))]
    instructions = tuple([Instruction(name, "f", "f", inputs) for name, inputs in code])
    kernel = compiled_kernel(Kernel(numbers.shape, (operand, operand), instructions, False))
    data = np.array([address_of(one) for one in (nan, numbers, found)], np.int64)
    call_loop(InnerLoop(kernel.address, address_of(data)), [address_of(bases)], [], [])
    return found
