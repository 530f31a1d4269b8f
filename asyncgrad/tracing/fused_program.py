"""A program some of whose steps are done together, by kernels in machine code."""

from __future__ import annotations

from typing import final

from .fusion import Fusion, Kernel
from .kernels import Compiled

__all__ = ["FusedProgram"]

#: What a run that NumPy's functions had to do again counts for, and with how much of it kernels do not pay.
_RERUN, _MOST = 3, 24


@final
class FusedProgram:
    """What tables need in order to run a program by kernels.

    Args:
        fusion: which of its steps are done together.
        kernels: the kernels in machine code.
    """

    __slots__ = ("_kernels", "fusion", "reruns")

    def __init__(self, fusion: Fusion, kernels: dict[Kernel, Compiled]) -> None:
        self.fusion = fusion
        self._kernels = kernels
        #: Grows by runs that NumPy's functions did again, and falls by others.
        self.reruns: int = 0

    def address(self, kernel: Kernel) -> int:
        """Return the address of a kernel."""
        return self._kernels[kernel].address

    def note_run(self) -> None:
        """Note a run by kernels."""
        if self.reruns:
            self.reruns -= 1

    def note_rerun(self) -> None:
        """Note a run that NumPy's functions did again, for an error or a NaN."""
        self.reruns += _RERUN

    def is_in_vain(self) -> bool:
        """Tell whether too many runs are done twice."""
        return self.reruns > _MOST
