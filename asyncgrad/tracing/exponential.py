"""NumPy's exponential of float32 within a kernel: the same operations in the same order, for several vectors at once.

NumPy computes one vector after another, each of which waits for its own operations. Here vectors lie side by side, and
what comes before and after is done in the same registers. Where a number is not ordinary, such as one whose exponential
overflows or is not normal, or NaN, NumPy's own loop does the vector, and raises its flags. Minus infinity is ordinary:
a mask of attention is made of it. Whether NumPy computes so is found by trial: see `kernel_trials`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import final

__all__ = ["LARGEST", "Exponential"]

#: Up to which absolute value numbers are ordinary: their exponentials are normal.
LARGEST = 86.0
#: Adding and subtracting it rounds to an integer, which is the sum's lowest bits.
_MAGIC = 12582912.0
_LOG2E = 1.442695040888963407
#: Minus the logarithm of 2, in two parts.
_HIGH, _LOW = -6.93145752e-1, -1.42860677e-6
#: The exponential near 0 is the quotient of these polynomials; the highest powers are first.
_NUMERATOR = (
    5.082762527590693718096e-04,
    6.757896990527504603057e-03,
    5.114512081637298353406e-02,
    2.473615434895520810817e-01,
    7.257664613233124478488e-01,
    9.999999999980870924916e-01,
)
_DENOMINATOR = (2.159509375685829852307e-02, -2.742335390411667452936e-01, 1.0)
#: The bits of a sign, of minus infinity, and below those of an exponent.
_SIGN, _MINUS_INFINITY, _MANTISSA = 1 << 31, 0xFF800000, 23


@final
class Exponential:
    """Writes the exponential of so many float32 numbers.

    Args:
        width: how many.
        new: returns the name of a new value, given its expression.
        operation: returns that of an operation on floats, which raises its flags, by LLVM's name and its operands.
    """

    __slots__ = ("_floats", "_integers", "_new", "_operation", "_width")

    def __init__(self, width: int, new: Callable[[str], str], operation: Callable[[str, Sequence[str]], str]) -> None:
        self._width = width
        self._new = new
        self._operation = operation
        self._floats = f"<{width} x float>"
        self._integers = f"<{width} x i32>"

    def is_odd(self, numbers: str) -> tuple[str, str]:
        """Return which of some numbers are not ordinary, and which are minus infinity."""
        bits = self._new(f"bitcast {self._floats} {numbers} to {self._integers}")
        size = self._new(f"and {self._integers} {bits}, {self._same(_SIGN - 1)}")
        is_large = self._new(f"icmp sgt {self._integers} {size}, {self._same(_bits(LARGEST))}")
        is_nothing = self._new(f"icmp eq {self._integers} {bits}, {self._same(_MINUS_INFINITY)}")
        masks = f"<{self._width} x i1>"
        others = self._new(f"xor {masks} {is_nothing}, splat (i1 true)")
        return self._new(f"and {masks} {is_large}, {others}"), is_nothing

    def of(self, numbers: str, is_nothing: str) -> str:
        """Return the exponentials of ordinary numbers, of which some are minus infinity."""
        keep = self._new(f"sext <{self._width} x i1> {is_nothing} to {self._integers}")
        keep = self._new(f"xor {self._integers} {keep}, splat (i32 -1)")
        x = self._masked(numbers, keep)
        shifted = self._operation("fadd", [self._operation("fmul", [x, self._number(_LOG2E)]), self._number(_MAGIC)])
        power = self._operation("fsub", [shifted, self._number(_MAGIC)])
        x = self._operation("fma", [power, self._number(_HIGH), x])
        x = self._operation("fma", [power, self._number(_LOW), x])
        found = self._operation("fdiv", [self._polynomial(_NUMERATOR, x), self._polynomial(_DENOMINATOR, x)])
        exponent = self._new(f"bitcast {self._floats} {shifted} to {self._integers}")
        exponent = self._new(f"shl {self._integers} {exponent}, {self._same(_MANTISSA)}")
        bits = self._new(f"bitcast {self._floats} {found} to {self._integers}")
        bits = self._new(f"add {self._integers} {bits}, {exponent}")
        return self._masked(self._new(f"bitcast {self._integers} {bits} to {self._floats}"), keep)

    def _polynomial(self, factors: Sequence[float], x: str) -> str:
        first, *others = map(self._number, factors)
        for one in others:
            first = self._operation("fma", [first, x, one])
        return first

    def _masked(self, numbers: str, keep: str) -> str:
        bits = self._new(f"bitcast {self._floats} {numbers} to {self._integers}")
        bits = self._new(f"and {self._integers} {bits}, {keep}")
        return self._new(f"bitcast {self._integers} {bits} to {self._floats}")

    def _same(self, integer: int) -> str:
        return f"splat (i32 {integer - (1 << 32) if integer >= _SIGN else integer})"

    def _number(self, number: float) -> str:
        # LLVM writes float32 numbers as float64 ones that are equal.
        rounded = struct.unpack("f", struct.pack("f", number))[0]
        return f"splat (float 0x{struct.pack('>d', rounded).hex()})"


def _bits(number: float) -> int:
    found: int = struct.unpack("i", struct.pack("f", number))[0]
    return found
