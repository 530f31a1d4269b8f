"""The QR factorization: a matrix with orthonormal columns, times an upper triangular matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...errors import GraphError, MissingDerivativeError
from ..arrays.axes import array_like
from ..arrays.device_arrays import largest_size, named
from ..arrays.tensor_base import TensorBase
from ..arrays.values import is_device_array, raw
from ..recording.decomposition import decomposition, joint_derivative
from ..recording.primitive import RULES, derivative, primitive
from ..settings.context import GRAD_MODE
from .diagonals import put_diagonal
from .linear_algebra import adjoint, product
from .nondifferentiable import NonDifferentiable

if TYPE_CHECKING:
    from ..arrays.array import Array


__all__ = ["qr"]


#: The class of NumPy's results, which it does not export.
_QRResult = type(np.linalg.qr(np.ones((1, 1))))


@decomposition
def qr_(a: Any, mode: Literal["reduced", "complete"]) -> Any:
    """Return q and r with `a = q @ r`."""
    return named(np.linalg.qr(a, mode), _QRResult)


@joint_derivative(qr_)
def _(gq: Any, gr: Any, q: Any, r: Any) -> Any:
    count = min(q.shape[-2], r.shape[-1])
    if q.shape[-1] > count:
        if gq is not None and (raw(gq)[..., count:] != 0).any():
            raise GraphError(
                f"numpy.linalg.qr: the loss depends on columns of q beyond the first {count}, which have no "
                "derivative, since they are an arbitrary orthonormal complement. Write np.linalg.qr(a), without "
                "mode='complete'"
            )
        q, r = q[..., :count], r[..., :count, :]
        gq, gr = (None if gq is None else gq[..., :count]), (None if gr is None else gr[..., :count, :])
    return _qr_gradient(gq, gr, q, r)


def _qr_gradient(gq: Any, gr: Any, q: Any, r: Array) -> Any:
    """Return the gradient of matrices from the gradients of their reduced factors.

    Raises:
        GraphError: the leading columns of a matrix are linearly dependent.
    """
    rows, columns = r.shape[-2:]
    if rows == columns:
        return _square_qr_gradient(gq, gr, q, r)
    # A wide matrix [a, b] with a square a = q r has the factors q and [r, q^H b].
    triangle, others = r[..., :rows], r[..., rows:]
    if gr is None:
        widths = [(0, 0)] * (r.ndim - 1) + [(0, columns - rows)]
        return np.pad(_square_qr_gradient(gq, None, q, triangle), widths)
    g_others = gr[..., rows:]
    inner = product(product(q, others), adjoint(g_others))
    gq = inner if gq is None else gq + inner
    first = _square_qr_gradient(gq, gr[..., :rows], q, triangle)
    return np.concatenate([first, product(q, g_others)], -1)


def _square_qr_gradient(gq: Any, gr: Any, q: Any, r: Any) -> Any:
    """Return the gradient of matrices with at least as many rows as columns."""
    r = _checked_independent(r)
    inner: Any = None if gr is None else product(r, adjoint(gr))
    if gq is not None:
        projected = product(adjoint(gq), q)
        inner = -projected if inner is None else inner - projected
    # The Hermitian matrix with the lower triangle of `inner` and the real part of its diagonal.
    below = np.tril(inner, -1)
    middle = np.real(np.diagonal(inner, 0, -2, -1))
    hermitian = below + adjoint(below) + put_diagonal(middle, below.shape, 0, -2, -1)
    gradient = product(q, hermitian)
    if gq is not None:
        gradient = gradient + gq
    return adjoint(np.linalg.solve(r, adjoint(gradient)))


def _checked_independent(r: Any) -> Any:
    """Return triangular matrices, and raise if one is singular up to rounding.

    On a device, which the host would have to wait for, it is replaced by NaNs.
    """
    diagonal = np.abs(np.diagonal(raw(r), 0, -2, -1))
    is_singular = (diagonal <= np.finfo(diagonal.dtype).eps * largest_size(diagonal)).any(-1)
    if is_device_array(is_singular):
        return np.where(is_singular[..., np.newaxis, np.newaxis], np.nan, r)
    if is_singular.any():
        raise GraphError(
            "numpy.linalg.qr: the leading columns of a matrix are linearly dependent, so its factors have no "
            "derivative. Remove dependent columns, or perturb the matrix"
        )
    return r


@primitive(superlinear=True)
def qr_triangle_(a: Any) -> Any:
    """Return the factor r of `a = q @ r`."""
    return np.linalg.qr(a, "r")


@derivative(qr_triangle_, "a")
def _(g: Array, a: Array, out: Array) -> Array:
    rows = out.shape[-2]
    triangle, first = out[..., :rows], a[..., :rows]
    triangle = _checked_independent(triangle)
    q = adjoint(np.linalg.solve(adjoint(triangle), adjoint(first)))
    gradient = _qr_gradient(None, np.conjugate(g) if g.dtype.kind == "c" else g, q, out)
    return np.conjugate(gradient) if gradient.dtype.kind == "c" else gradient


#: Modes that return LAPACK's raw result, or that NumPy has deprecated.
_AS_COMPUTED = ("raw", "economic", "e", "full", "f")
_plain_qr = NonDifferentiable(np.linalg.qr)


def qr(a: Any, mode: str = "reduced") -> Any:
    """Return q with orthonormal columns and an upper triangular r with `a = q @ r`, or what another mode asks for.

    Raises:
        MissingDerivativeError: the mode is raw or deprecated, and the matrix requires grad.
    """
    a = array_like(a)
    if mode in ("reduced", "complete"):
        return qr_(a, mode)
    if mode == "r":
        return qr_triangle_(a)
    if mode in _AS_COMPUTED and isinstance(a, TensorBase) and a._requires_grad() and GRAD_MODE.get():
        raise MissingDerivativeError(
            f"numpy.linalg.qr with mode={mode!r} has no derivative rule: write mode='reduced', or pass a.numpy() if no "
            "gradient is to flow"
        )
    return _plain_qr(a, mode)


RULES[np.linalg.qr] = qr
