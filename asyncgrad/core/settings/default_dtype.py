"""The floating dtype of new tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np

from ...errors import ArgumentError
from .context import DEFAULT_DTYPE, Mode

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    import numpy.typing as npt

    F = TypeVar("F", bound=Callable[..., Any])


__all__ = ["default_dtype", "floating_dtype", "in_default_dtype"]


@final
class default_dtype(Mode):
    """Set the dtype of new parameters, and of tensors made of Python's numbers; as a `with` block, set it back.

    It is set at once, for the current context; also a decorator of functions, generators and their async kinds. Complex
    numbers get the complex dtype of its precision. Arrays keep their dtype, and so do whole numbers. Without it, the
    dtype is float64, as in NumPy.

    Args:
        dtype: a floating dtype.

    Raises:
        ArgumentError: `dtype` is not floating.

    Source: torch.set_default_dtype.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> with ag.default_dtype(np.float32):
        ...     print(ag.tensor([1.0, 2.0]).dtype, ag.tensor(np.ones(2)).dtype)
        float32 float64
        >>> ag.tensor(1.0).dtype
        dtype('float64')
    """

    __slots__ = ("_before_call", "_dtype")

    def __init__(self, dtype: npt.DTypeLike) -> None:
        try:
            self._dtype = np.dtype(dtype)
        except TypeError as error:
            raise ArgumentError(
                f"the default dtype must be one of NumPy's, such as np.float32, not {dtype!r}"
            ) from error
        if self._dtype.kind != "f":
            raise ArgumentError(f"the default dtype must be floating, such as np.float32, not {self._dtype}")
        #: A tuple of the dtype before the constructor; None once a block is to restore it.
        self._before_call: tuple[Any] | None = (DEFAULT_DTYPE.get(),)
        DEFAULT_DTYPE.set(self._dtype)

    @staticmethod
    def _get() -> Any:
        return DEFAULT_DTYPE.get()

    @staticmethod
    def _set(value: Any, /) -> None:
        DEFAULT_DTYPE.set(value)

    def _value(self) -> Any:
        return self._dtype

    def _before(self) -> Any:
        before, self._before_call = self._before_call, None
        return DEFAULT_DTYPE.get() if before is None else before[0]

    def _clone(self) -> Mode:
        before = DEFAULT_DTYPE.get()
        clone = default_dtype(self._dtype)
        DEFAULT_DTYPE.set(before)
        return clone

    def __call__(self, function: F) -> F:
        """Return `function` wrapped; restore the dtype that the constructor changed, since only calls run in it."""
        if self._before_call is not None:
            DEFAULT_DTYPE.set(self._before_call[0])
            self._before_call = None
        return super().__call__(function)


def floating_dtype(dtype: Any = None) -> np.dtype:
    """Return a dtype, or the default one for None."""
    return np.dtype(dtype or DEFAULT_DTYPE.get() or np.float64)


def in_default_dtype(array: Any, data: Any) -> Any:
    """Return an array that was made of `data` in the default dtype, if that is Python's floating or complex numbers."""
    wanted = DEFAULT_DTYPE.get()
    # NumPy's own numbers have a dtype, though Python takes those of float64 for floats.
    if wanted is None or not isinstance(data, (float, complex, list, tuple)) or isinstance(data, np.generic):
        return array
    if array.dtype == np.float64:
        return array.astype(wanted)
    return array.astype(np.result_type(wanted, np.complex64)) if array.dtype == np.complex128 else array
