"""Results of tests, as SciPy's: a statistic with its p-value, and tuples with further parts as attributes."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVarTuple

from ...core.tensor import Tensor
from ...core.tree.registry import register

__all__ = ["Results", "SignificanceResult", "register_results"]


class SignificanceResult(NamedTuple):
    """The result of a test.

    Attributes:
        statistic: what the test computes.
        pvalue: the probability of a statistic as far out, if the hypothesis holds.
    """

    statistic: Tensor
    pvalue: Tensor


Kept = TypeVarTuple("Kept")


class Results(tuple[*Kept], Generic[*Kept]):  # noqa: SLOT001 - slots of a tuple must be empty
    """Abstract: several results as a tuple, beside the last ones, which are attributes alone."""

    #: Of all of them.
    _names: ClassVar[tuple[str, ...]]
    #: How many the tuple has; -1 for all but one.
    _kept: ClassVar[int] = -1

    def __new__(cls, *values: Any) -> Self:
        """Make a result of all its parts, in the order of their names."""
        made = super().__new__(cls, values[: cls._kept])
        for name, value in zip(cls._names[cls._kept :], values[cls._kept :], strict=True):
            setattr(made, name, value)
        return made

    def _values(self) -> tuple[Tensor, ...]:
        return (*self, *(getattr(self, name) for name in self._names[self._kept :]))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self._values()

    def __repr__(self) -> str:
        values = zip(self._names, self._values(), strict=True)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in values)})"


def register_results(kind: type[Results[*tuple[Any, ...]]]) -> None:
    """Let results be trees of their parts."""
    register(kind, flatten=lambda one: (one._values(), None), unflatten=lambda _, parts: kind(*parts))
