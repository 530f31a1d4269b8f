"""Arguments that a function of SciPy has no derivative by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import MissingDerivativeError

__all__ = ["no_derivative"]


def no_derivative(function: str, argument: str, reason: str) -> Callable[[Any], Any]:
    """Return the formula of an argument that there is no derivative by: it raises when the gradient is asked for.

    Values are computed all the same, as in PyTorch.

    Args:
        function: its name with its module, `scipy.special.jv`.
        argument: its parameter.
        reason: why not, or what is known instead; a clause that goes after a colon.
    """

    def formula(g: Any) -> Any:
        raise MissingDerivativeError(
            f"{function} has no derivative with respect to {argument}: {reason}. Where none is to flow, pass "
            f"{argument}.detach()"
        )

    return formula
