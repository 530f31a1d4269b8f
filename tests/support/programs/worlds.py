"""What the source of a program may name: the same names for NumPy, where the oracle runs it, and for asyncgrad.

Most of a program is NumPy's own functions, operators and indexing, which are the same text in both worlds. What only
asyncgrad has (Functions, transforms, `detach`) has a twin here that computes the same numbers on arrays.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import InPlaceError
from tests.core.ops.finite_differences import Case, call, leaves_of
from tests.core.ops.test_rules import CASES

__all__ = ["CASE_NAMES", "FIELDS", "constant", "names_of_asyncgrad", "names_of_numpy", "total"]


def constant(place: int, shape: tuple[int, ...], is_complex: bool = False) -> np.ndarray:
    """Return numbers between -1 and 1 that hang on nothing but the arguments."""
    count = int(np.prod(shape))
    real = np.cos(1.7 * np.arange(count) + place + 0.3).reshape(shape)
    return real + 1j * np.sin(1.3 * np.arange(count) - place).reshape(shape) if is_complex else real


def total(*values: Any) -> Any:
    """Return one real number that every element of the values has a part in, each another one."""
    result: Any = 0.0
    for place, value in enumerate(values):
        weighted = value * constant(place, value.shape, value.dtype.kind == "c")
        result = result + np.sum(np.real(weighted))
    return result


# The functions of the table of cases, near the points where they can be differentiated.

#: By name: the cases of a NumPy function that its derivatives are tested at.
CASE_NAMES: dict[str, tuple[Callable[..., Any], list[Case]]] = {}
for _function, _cases in CASES.items():
    _module = (getattr(_function, "__module__", None) or "numpy").removeprefix("numpy").removeprefix(".")
    _name = f"{_module}.{_function.__name__}".removeprefix(".")
    CASE_NAMES[_name] = (
        _function,
        [_case for _case in _cases if _case.smooth and leaves_of(_case) and "writeable" not in _case.kwargs],
    )
#: Some of their outputs are constant, or known up to a phase, so that the lines of programs name them one by one; the
#: imaginary part of a number is a number in NumPy, and a view that cannot be written into here.
_BY_HAND = {"average", "imag", "divmod", "modf", "frexp"}
_BY_HAND |= {"linalg.slogdet", "linalg.eig", "linalg.lstsq", "linalg.svd", "histogram", "histogram2d", "histogramdd"}
CASE_NAMES = {_name: _found for _name, _found in CASE_NAMES.items() if _found[1] and _name not in _BY_HAND}


def near(point: np.ndarray, x: Any) -> Any:
    """Return `point`, moved a little by the elements of `x`; differentiable."""
    if x.size == 0:
        return x.sum() + point
    moved = np.ravel(x)[np.arange(point.size) % x.size].reshape(point.shape)
    return point + 0.03 * np.sin(moved)


def of_case(name: str, index: int, output: int, *values: Any) -> Any:
    """Return one output of a NumPy function of the table of cases, at a point that is moved by `values`."""
    function, cases = CASE_NAMES[name]
    points = leaves_of(cases[index])
    moved = [near(point, values[place % len(values)]) for place, point in enumerate(points)]
    outputs = call(function, cases[index], moved)
    # Into one of several views no write could be recorded.
    return outputs[0] if len(outputs) == 1 else outputs[output % len(outputs)] * 1


# Functions of the user's own.


class Cubed(ag.Function):
    """The third power, whose backward needs its argument."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * np.conj(3 * x * x)


class CubedLater(Cubed):
    """The same, with a backward that is awaited."""

    @staticmethod
    async def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * np.conj(3 * x * x)


class Product(ag.Function):
    """A product of arguments of one shape, whose backward computes only what is needed."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, y = ctx.saved_tensors
        needs = ctx.needs_input_grad
        return grad * np.conj(y) if needs[0] else None, grad * np.conj(x) if needs[1] else None


class ByViews(ag.Function):
    """Twice the squares, by way of views made in the forward, which runs with recording off."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        view = x.reshape(-1)[...]
        # Not a view itself, into which no write could be recorded.
        return 2 * view.reshape(x.shape) ** 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * np.conj(4 * x)


class ByOwnGradient(ag.Function):
    """What a gradient within the forward gives: the derivative of the sum of x³, for real numbers."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        _, gradient = sync.value_and_grad(lambda part: (part * part * part).sum())(x.reshape(-1))
        return gradient.reshape(x.shape).copy()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * 6 * x


class TailOf(ag.Function):
    """A view of its argument: all but the first row."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.shape = x.shape
        return x[1:]

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        before = np.zeros((ctx.shape[0] - grad.shape[0], *grad.shape[1:]), grad.dtype)
        return np.concatenate([before, grad])


class Halves(ag.Function):
    """Two outputs, of which a program uses one."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 0.5, x * x * 0.5

    @staticmethod
    def backward(ctx: Any, first: Any, second: Any) -> Any:
        (x,) = ctx.saved_tensors
        return first * 0.5 + second * np.conj(x)


class Increased(ag.Function):
    """Adds the second argument to the first, in place."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        x += y
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad, grad


def _increased(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    x += y
    return x


_BY_FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "cubed": (Cubed.apply, lambda x: x * x * x),
    "cubed_later": (CubedLater.apply, lambda x: x * x * x),
    "product": (Product.apply, lambda x, y: x * y),
    "by_views": (ByViews.apply, lambda x: 2 * x.reshape(-1).reshape(x.shape) ** 2),
    "by_own_gradient": (ByOwnGradient.apply, lambda x: 3 * np.copy(_real(x), "C") ** 2),
    "tail_of": (TailOf.apply, lambda x: x[1:]),
    "halves": (Halves.apply, lambda x: (x * 0.5, x * x * 0.5)),
    "increase": (Increased.apply, _increased),
}


# Transforms in the midst of a program.


class Field(NamedTuple):
    """A function from an array to one number, and its gradient written by hand; analytic, for real arrays."""

    value: Callable[[Any], Any]
    gradient: Callable[[Any], Any]

    def product(self, x: Any, v: Any) -> Any:
        """Return the Hessian times a vector: the derivative of the gradient, by an imaginary step."""
        return np.imag(self.gradient(x + 1e-30j * v)) / 1e-30


FIELDS = [
    Field(lambda x: (x * x * x).sum(), lambda x: 3 * x * x),
    Field(lambda x: np.sin(x).sum() * x.sum(), lambda x: np.cos(x) * x.sum() + np.sin(x).sum()),
    Field(lambda x: (x * x).sum() ** 2, lambda x: 4 * x * (x * x).sum()),
    Field(lambda x: (np.exp(0.3 * x) * x).sum(), lambda x: np.exp(0.3 * x) * (1 + 0.3 * x)),
]


def _field_gradient(field: int, x: Any, by: str) -> Any:
    """Return the gradient of a field, by the transform that is named."""
    fn = FIELDS[field].value
    if by == "value_and_grad":
        return sync.value_and_grad(fn)(x)[1]
    if by == "vjp":
        return sync.vjp(fn, x)[1]
    return sync.jacobian(fn, x)


def _field_product(field: int, x: Any, v: Any, by: str) -> Any:
    """Return the Hessian of a field times a vector, by the transform that is named."""
    fn, v = FIELDS[field].value, v.reshape(x.shape)
    if by == "hvp":
        return sync.hvp(fn, x, v)[1]
    if by == "vhp":
        return sync.vhp(fn, x, v)[1]
    if by == "hessian":
        return np.tensordot(sync.hessian(fn, x), v, x.ndim)
    if by == "jvp":
        return sync.jvp(lambda y: sync.value_and_grad(fn)(y)[1], x, v)[1]
    if by == "vjp":
        return sync.vjp(lambda y: sync.vjp(fn, y)[1], x, v)[1]
    return sync.value_and_grad(lambda y: (sync.value_and_grad(fn)(y)[1] * v).sum())(x)[1]


# Everything by name.


def _packed(tensor: Any) -> np.ndarray:
    return tensor.numpy().copy()  # type: ignore[no-any-return]


@contextlib.contextmanager
def refused() -> Iterator[None]:
    """A write that must raise, since it is into a leaf that requires grad or a view of one."""
    try:
        yield
    except InPlaceError:
        return
    raise AssertionError("a write into a leaf that requires grad was not refused")


def observe(x: Any) -> None:
    """Have a hook look at the gradient of x, and change nothing."""
    if x.requires_grad:
        x.register_hook(lambda grad: None)


def _real(x: np.ndarray) -> np.ndarray:
    """Return x, since a field is one of real numbers, in the precision that an imaginary step needs.

    Raises:
        TypeError: it is something else.
    """
    if x.dtype != float or not x.size:
        raise TypeError("a field is a function of numbers of float64")
    return x


def names_of_numpy() -> dict[str, Any]:
    """Return what a program may name, for arrays."""
    return {
        "np": np,
        "of_case": of_case,
        "constant": constant,
        "total": total,
        "detached": lambda x: x.view(),
        "gradient_of": lambda field, x, by: np.copy(FIELDS[field].gradient(_real(x)), "C"),
        "product_of": lambda field, x, v, by: np.copy(FIELDS[field].product(_real(x), _real(v).reshape(x.shape)), "C"),
        **{name: on_arrays for name, (_, on_arrays) in _BY_FUNCTIONS.items()},
    }


def names_of_asyncgrad() -> dict[str, Any]:
    """Return what a program may name, for tensors."""
    return {
        "np": np,
        "ag": ag,
        "of_case": of_case,
        "constant": constant,
        "total": total,
        "detached": lambda x: x.detach(),
        "gradient_of": lambda *args: np.copy(_field_gradient(*args), "C"),
        "product_of": lambda *args: np.copy(_field_product(*args), "C"),
        "observe": observe,
        "packed": functools.partial(ag.graph.saved_tensors_hooks, _packed, lambda array: array),
        "refused": refused,
        **{name: on_tensors for name, (on_tensors, _) in _BY_FUNCTIONS.items()},
    }
