"""Calls with complex arguments beyond those of the other tables with imaginary parts: data, for test_complex_rules.py.

Real arguments beside complex ones, dtypes that are asked for, writes in place, matrices that are Hermitian, singular,
or not there at all.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

__all__ = ["CALLS", "COMPLEX_MATRIX", "ComplexCall", "WRITES", "after", "hermitian"]


class ComplexCall(NamedTuple):
    """A function of tensors or arrays, and its arguments."""

    function: Callable[..., Any]
    points: tuple[np.ndarray, ...]


_rng = np.random.default_rng(20250301)


def real(*shape: int) -> np.ndarray:
    """Draw numbers of either sign."""
    return np.asarray(_rng.normal(size=shape))


def complex_(*shape: int) -> np.ndarray:
    """Draw complex numbers."""
    return np.asarray(_rng.normal(size=shape) + 1j * _rng.normal(size=shape))


def regular(*shape: int) -> np.ndarray:
    """Draw complex matrices that are far from singular."""
    return complex_(*shape) + 4 * np.eye(shape[-1])


def hermitian(b: Any) -> Any:
    """Return a positive definite matrix for any: what a derivative with respect to a Hermitian one is taken through."""
    return b @ np.conjugate(b.mT) + np.eye(b.shape[-1])


def up_to_phases(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that gives, for a decomposition, its values and what no phase of a vector changes."""

    def result(a: Any) -> tuple[Any, ...]:
        return tuple(part * part[..., :1, :].conj() if part.shape == a.shape else part for part in function(a))

    return result


def rebuilt(a: Any) -> Any:
    """Return matrices with other singular values."""
    return rebuilt_from(np.linalg.svd(a, full_matrices=False))


def rebuilt_from(found: Any) -> Any:
    """Return matrices with other singular values than those of a decomposition."""
    u, s, vh = found
    return u[..., : s.shape[-1]] * np.exp(s)[..., np.newaxis, :] @ vh[..., : s.shape[-1], :]


def _function_of(a: Any) -> Any:
    """Return a function of a Hermitian matrix."""
    w, v = np.linalg.eigh(a)
    return v * np.sqrt(w)[..., np.newaxis, :] @ v.conj().mT


def _first_of(found: Any, count: int) -> tuple[Any, Any]:
    """Return the first columns of one matrix and the first rows of another."""
    return found[0][..., :count], found[1][..., :count, :]


def after(write: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that writes into a copy of its first argument, and returns the square of that."""

    def function(target: Any, *others: Any) -> Any:
        copy = target.copy()
        write(copy, *others)
        return copy * copy

    return function


def setting(part: str) -> Callable[..., Any]:
    """Return a write into one of the parts of a complex array."""
    return after(lambda target, value: setattr(target, part, value))


COMPLEX_MATRIX = regular(3, 3)

_some = np.array([True, False, True])
_column = np.array([[0], [2]])

#: By the function of NumPy that writes.
WRITES: dict[Callable[..., Any], list[ComplexCall]] = {
    np.copyto: [
        ComplexCall(after(np.copyto), (complex_(3), real(3))),
        ComplexCall(after(lambda target, value: np.copyto(target, value, where=_some)), (complex_(3), complex_(3))),
    ],
    np.put: [
        ComplexCall(after(lambda target, value: np.put(target, [0, 2], value)), (complex_(3), value))
        for value in (real(2), complex_(2))
    ],
    np.place: [ComplexCall(after(lambda target, value: np.place(target, _some, value)), (complex_(3), complex_(2)))],
    np.putmask: [
        ComplexCall(after(lambda target, value: np.putmask(target, _some, value)), (complex_(3), complex_(3)))
    ],
    np.put_along_axis: [
        ComplexCall(
            after(lambda target, value: np.put_along_axis(target, _column, value, 1)), (complex_(2, 3), real(2, 1))
        )
    ],
    np.fill_diagonal: [ComplexCall(after(np.fill_diagonal), (complex_(3, 3), complex_(3)))],
}

CALLS: dict[str, ComplexCall] = {
    # the sign of a number, and of a determinant
    "sign": ComplexCall(np.sign, (complex_(2, 3),)),
    "sign of a number": ComplexCall(np.sign, (complex_(),)),
    "sign of nothing": ComplexCall(np.sign, (complex_(0, 2),)),
    "slogdet": ComplexCall(np.linalg.slogdet, (complex_(2, 3, 3),)),
    "slogdet of 1 by 1": ComplexCall(np.linalg.slogdet, (complex_(1, 1),)),
    "slogdet of 0 by 0": ComplexCall(np.linalg.slogdet, (complex_(2, 0, 0),)),
    "slogdet of no matrix": ComplexCall(np.linalg.slogdet, (complex_(0, 2, 2),)),
    # linear algebra
    "cholesky": ComplexCall(lambda b: np.linalg.cholesky(hermitian(b)), (complex_(2, 3, 3),)),
    "cholesky, upper": ComplexCall(lambda b: np.linalg.cholesky(hermitian(b), upper=True), (complex_(2, 3, 3),)),
    "cholesky of 1 by 1": ComplexCall(lambda b: np.linalg.cholesky(hermitian(b)), (complex_(1, 1),)),
    "cholesky of 0 by 0": ComplexCall(lambda b: np.linalg.cholesky(hermitian(b)), (complex_(2, 0, 0),)),
    "cholesky of no matrix": ComplexCall(lambda b: np.linalg.cholesky(hermitian(b)), (complex_(0, 2, 2),)),
    "inv of no matrix": ComplexCall(np.linalg.inv, (complex_(0, 2, 2),)),
    "det, singular": ComplexCall(np.linalg.det, (np.outer([1, 2j], [3, 1j]),)),
    "det, singular, of 3 by 3": ComplexCall(np.linalg.det, (np.outer([1, 2j, 1], [3, 1j, 1]),)),
    "det of 1 by 1": ComplexCall(np.linalg.det, (complex_(1, 1),)),
    "det of 0 by 0": ComplexCall(np.linalg.det, (complex_(2, 0, 0),)),
    "solve, real matrix": ComplexCall(np.linalg.solve, (real(2, 2) + 4 * np.eye(2), complex_(2, 2))),
    "solve, complex matrix": ComplexCall(np.linalg.solve, (regular(2, 2), real(2))),
    "eigh": ComplexCall(lambda b: up_to_phases(np.linalg.eigh)(hermitian(b)), (complex_(2, 3, 3),)),
    "eigh of the upper triangle": ComplexCall(
        lambda b: up_to_phases(lambda a: np.linalg.eigh(a, "U"))(hermitian(b)), (complex_(3, 3),)
    ),
    "eigh of real matrices": ComplexCall(lambda b: tuple(np.linalg.eigh(hermitian(b))), (real(2, 3, 3),)),
    "eigh of 0 by 0": ComplexCall(lambda b: tuple(np.linalg.eigh(hermitian(b))), (complex_(2, 0, 0),)),
    "eigvalsh": ComplexCall(lambda b: np.linalg.eigvalsh(hermitian(b)), (complex_(2, 3, 3),)),
    "eigvalsh of no matrix": ComplexCall(lambda b: np.linalg.eigvalsh(hermitian(b)), (complex_(0, 2, 2),)),
    "a function of a Hermitian matrix": ComplexCall(lambda b: _function_of(hermitian(b)), (complex_(3, 3),)),
    "eig": ComplexCall(up_to_phases(np.linalg.eig), (complex_(2, 3, 3),)),
    "eig of a real matrix": ComplexCall(
        lambda a: up_to_phases(np.linalg.eig)(a), (np.array([[1.0, 2.0], [-3.0, 0.5]]),)
    ),
    "eigvals of no matrix": ComplexCall(np.linalg.eigvals, (complex_(0, 2, 2),)),
    "eigvals of 0 by 0": ComplexCall(np.linalg.eigvals, (complex_(2, 0, 0),)),
    "svd": ComplexCall(rebuilt, (complex_(2, 3, 3),)),
    "svd of a tall matrix": ComplexCall(rebuilt, (complex_(4, 2),)),
    "svd of a wide matrix": ComplexCall(rebuilt, (complex_(2, 4),)),
    "svd of all columns": ComplexCall(lambda a: rebuilt_from(np.linalg.svd(a)), (complex_(4, 2),)),
    "svd, vectors": ComplexCall(lambda a: up_to_phases(np.linalg.svd)(a)[0], (complex_(3, 3),)),
    "svd, other vectors": ComplexCall(lambda a: np.abs(np.linalg.svd(a).Vh), (complex_(3, 3),)),
    "svd of no matrix": ComplexCall(rebuilt, (complex_(0, 2, 3),)),
    "svd, values": ComplexCall(lambda a: np.linalg.svd(a, compute_uv=False), (complex_(2, 3, 2),)),
    "svd of a Hermitian matrix": ComplexCall(
        lambda b: rebuilt_from(np.linalg.svd(hermitian(b), hermitian=True)), (real(3, 3),)
    ),
    "svd of a Hermitian matrix, values": ComplexCall(
        lambda b: np.linalg.svd(b + b.conj().mT, compute_uv=False, hermitian=True), (complex_(3, 3),)
    ),
    "pinv of a Hermitian matrix": ComplexCall(
        lambda b: np.linalg.pinv(hermitian(b), hermitian=True), (complex_(3, 3),)
    ),
    "pinv of a matrix of rank 1": ComplexCall(
        lambda a, b: np.linalg.pinv(a[:, np.newaxis] * b), (complex_(3), complex_(2))
    ),
    "lstsq of a matrix of rank 1": ComplexCall(
        lambda a, b, c: np.linalg.lstsq(a[:, np.newaxis] * b, c, 1e-9)[0], (complex_(3), complex_(2), complex_(3))
    ),
    "qr of all columns": ComplexCall(lambda a: _first_of(np.linalg.qr(a, "complete"), 2), (complex_(4, 2),)),
    "qr of 0 by 0": ComplexCall(lambda a: tuple(np.linalg.qr(a)), (complex_(2, 0, 0),)),
    "qr of no matrix": ComplexCall(lambda a: tuple(np.linalg.qr(a)), (complex_(0, 3, 2),)),
    "qr, triangle of no columns": ComplexCall(lambda a: np.linalg.qr(a, "r"), (complex_(3, 0),)),
    **{
        f"norm of order {order}": ComplexCall(lambda z, order=order: np.linalg.norm(z, order, 1), (complex_(2, 3),))
        for order in (None, 1, 2, 3, 4, 0.5, 1.5, 2.5, -1, -2.5, np.inf, -np.inf)
    },
    **{
        f"norm of order {order} of a matrix": ComplexCall(
            lambda z, order=order: np.linalg.norm(z, order, (2, 0), keepdims=True), (complex_(2, 2, 3),)
        )
        for order in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)
    },
    # those that conjugate one of two
    **{
        f"{name}, {which}": ComplexCall(function, points)
        for name, function in {
            "vdot": np.vdot,
            "vecdot": np.vecdot,
            "correlate": lambda a, v: np.correlate(a, v, "full"),
            "inner": np.inner,
            "outer": np.outer,
            "kron": np.kron,
            "convolve": np.convolve,
            "cross": np.cross,
            "einsum": lambda a, b: np.einsum("i,j->ij", a, b),
            "tensordot": lambda a, b: np.tensordot(a, b, 0),
        }.items()
        for which, points in {
            "both": (complex_(3), complex_(3)),
            "the first": (complex_(3), real(3)),
            "the second": (real(3), complex_(3)),
        }.items()
    },
    # powers
    "power of a complex exponent": ComplexCall(lambda z: z ** (1 + 1j), (complex_(3),)),
    "power of a real number": ComplexCall(lambda z: (-2.0) ** z, (complex_(3),)),
    "power of i": ComplexCall(lambda x: 1j**x, (real(3),)),
    "power of negative numbers": ComplexCall(np.power, (-(real(3) ** 2), complex_(3))),
    "float_power of negative numbers": ComplexCall(np.float_power, (-(real(3) ** 2), complex_(3))),
    **{
        f"power {number}": ComplexCall(lambda z, number=number: z**number, (complex_(3),))
        for number in (0, 1, 2, 3, -1, 0.5)
    },
    # products and spreads with zeros, and in other dtypes
    "prod with zeros": ComplexCall(np.prod, (np.array([1 + 1j, 0, 2j]),)),
    "prod with more zeros": ComplexCall(np.prod, (np.array([1 + 1j, 0, 2j, 0]),)),
    "cumprod with zeros": ComplexCall(np.cumprod, (np.array([1 + 1j, 0, 2j, 0]),)),
    **{
        f"{function.__name__} in a complex dtype": ComplexCall(lambda x, f=function: f(x, dtype=complex), (real(4),))
        for function in (np.sum, np.mean, np.prod, np.cumsum, np.cumprod, np.var, np.std)
    },
    "var of some in a complex dtype": ComplexCall(
        lambda x: np.var(x, dtype=complex, where=[True, True, False]), (real(3),)
    ),
    "std of some": ComplexCall(lambda z: np.std(z, axis=1, where=_some), (complex_(2, 3),)),
    "average with complex weights": ComplexCall(lambda a, w: np.average(a, weights=w), (real(4), complex_(4))),
    "average of complex": ComplexCall(lambda a, w: np.average(a, weights=w, returned=True), (complex_(4), real(4))),
    # one beside the other
    "concatenate": ComplexCall(lambda a, b: np.concatenate([a, b]), (real(2), complex_(3))),
    "concatenate in a dtype": ComplexCall(lambda a, b: np.concatenate([a, b], dtype=complex), (real(2), real(3))),
    "where": ComplexCall(lambda a, b: np.where(_some, a, b), (real(3), complex_(3))),
    "select": ComplexCall(lambda a, b: np.select([_some], [a], b), (real(3), complex_(3))),
    "maximum": ComplexCall(np.maximum, (real(3), complex_(3))),
    "trapezoid over complex": ComplexCall(lambda y, x: np.trapezoid(y, x), (real(4), complex_(4))),
    "interp of complex": ComplexCall(
        lambda x, values: np.interp(x, [0.0, 1.0, 2.0], values, left=1j, right=2j),
        (np.array([0.3, 1.2, -1.0, 4.0]), complex_(3)),
    ),
    "ediff1d": ComplexCall(lambda a, b, c: np.ediff1d(a, b, c), (complex_(2, 2), complex_(2), real(1))),
    "insert": ComplexCall(lambda a, values: np.insert(a, [2, 0, 0], values, 1), (complex_(2, 3), complex_(2, 1))),
    "insert of real": ComplexCall(lambda a, values: np.insert(a, 1, values), (complex_(3), real(2))),
    "angle": ComplexCall(lambda z: np.angle(z, deg=True), (complex_(2, 3),)),
    "gradient": ComplexCall(lambda f: np.gradient(f, 0.5, axis=0, edge_order=2), (complex_(4, 2),)),
    "real_if_close": ComplexCall(lambda z: np.real_if_close(z * np.conjugate(z)), (complex_(3),)),
    "geomspace": ComplexCall(lambda a, b: np.geomspace(a, b, 4), (complex_(2), complex_(2))),
    "polyfit": ComplexCall(lambda x, y: np.polyfit(x, y, 2), (complex_(5), complex_(5))),
    "polyfit of real points": ComplexCall(lambda x, y: np.polyfit(x, y, 1), (real(4), complex_(4, 2))),
    "roots": ComplexCall(np.roots, (complex_(4),)),
    "cov": ComplexCall(lambda x, y: np.cov(x, y, aweights=[1.0, 0.5, 2.0, 1.5]), (complex_(2, 4), complex_(4))),
    "corrcoef": ComplexCall(np.corrcoef, (complex_(3, 4),)),
    "ufunc in a dtype": ComplexCall(lambda x, y: np.multiply(x, y, dtype=complex) * 1j, (real(3), real(3))),
    "i times real": ComplexCall(lambda x: x * 1j, (real(3),)),
    # methods and operators
    "astype complex": ComplexCall(lambda x: x.astype(complex) * 1j, (real(3),)),
    "real and imag": ComplexCall(lambda z: z.real**2 * z.imag, (complex_(3),)),
    "imag of real": ComplexCall(lambda x: x.imag + x, (real(3),)),
    "abs": ComplexCall(abs, (complex_(),)),
    "conj": ComplexCall(lambda z: z.conj() * z, (complex_(3),)),
    "a strided view": ComplexCall(after(lambda z: z.T.reshape(-1).__imul__(1j)), (complex_(2, 3),)),
    "as_strided": ComplexCall(
        lambda z: (
            (z.as_strided if hasattr(z, "as_strided") else functools.partial(as_strided, z))((2, 2), (32, 16)) * z[0]
        ),
        (complex_(4, 2),),
    ),
    # writes
    "z[:] = x": ComplexCall(after(lambda z, x: z.__setitem__(slice(1, None), x)), (complex_(3), real(2))),
    "z[[..]] = x": ComplexCall(after(lambda z, x: z.__setitem__([0, 2], x)), (complex_(3), real(2))),
    "z += x": ComplexCall(after(lambda z, x: z.__iadd__(x)), (complex_(3), real(3))),
    "z *= x": ComplexCall(after(lambda z, x: z.__imul__(x)), (complex_(3), real(3))),
    "z /= x": ComplexCall(after(lambda z, x: z.__itruediv__(x)), (complex_(3), real(3))),
    "z **= x": ComplexCall(after(lambda z, x: z.__ipow__(x)), (complex_(3), real(3))),
    "z *= w": ComplexCall(after(lambda z, w: z.__imul__(w)), (complex_(3), complex_(3))),
    "z @= w": ComplexCall(after(lambda z, w: z.__imatmul__(w)), (complex_(2, 2), complex_(2, 2))),
    "out= of real": ComplexCall(after(lambda z, x: np.exp(x, out=z)), (complex_(3), real(3))),
    "out= of abs": ComplexCall(after(lambda z, w: np.absolute(w, out=z)), (complex_(3), complex_(3))),
    "out= and where=": ComplexCall(after(lambda z, x: np.multiply(z, x, out=z, where=_some)), (complex_(3), real(3))),
    "add.at": ComplexCall(after(lambda z, x: np.add.at(z, [0, 0, 1], x)), (complex_(3), real(3))),
    "multiply.at": ComplexCall(after(lambda z, w: np.multiply.at(z, [0, 0, 1], w)), (complex_(3), complex_(3))),
    "z.real = x": ComplexCall(setting("real"), (complex_(3), real(3))),
    "histogram_bin_edges(z)": ComplexCall(np.histogram_bin_edges, (complex_(4),)),
    "histogram(x, z)": ComplexCall(lambda x, z: np.histogram(x, 2, None, True, z), (real(4), complex_(4))),
    "histogramdd(z)": ComplexCall(lambda z: np.histogramdd(z, 2, None, True), (complex_(4, 2),)),
    "z.imag = x": ComplexCall(setting("imag"), (complex_(3), real(3))),
    "z.real += x": ComplexCall(after(lambda z, x: z.real.__iadd__(x)), (complex_(3), real(3))),
    "z.imag[0] = x": ComplexCall(after(lambda z, x: z.imag.__setitem__(0, x)), (complex_(3), real())),
    "z.T.imag *= x": ComplexCall(after(lambda z, x: z.T.imag.__imul__(x)), (complex_(2, 3), real(3, 2))),
}
