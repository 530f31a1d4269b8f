"""PyTorch's operations by NumPy's and SciPy's names: functions of ours with its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad.numpy as anp

__all__ = ["counterpart"]

special: Any = pytest.importorskip("asyncgrad.scipy.special")
linalg: Any = pytest.importorskip("asyncgrad.scipy.linalg")

#: Ours by PyTorch's names, where these differ.
_RENAMED = {
    "cat": "concatenate",
    "mul": "multiply",
    "true_divide": "divide",
    "neg": "negative",
    "eq": "equal",
    "le": "less_equal",
    "ne": "not_equal",
    "lt": "less",
    "gt": "greater",
    "ge": "greater_equal",
    "bmm": "matmul",
    "mm": "matmul",
    "mv": "matmul",
    "movedim": "moveaxis",
    "clamp_min": "maximum",
    "clamp_max": "minimum",
    "sgn": "sign",
    "trapz": "trapezoid",
}
_SPECIAL = {
    "lgamma": "gammaln",
    "igamma": "gammainc",
    "igammac": "gammaincc",
    "special.bessel_j0": "j0",
    "special.bessel_j1": "j1",
    "special.bessel_y0": "y0",
    "special.bessel_y1": "y1",
    "special.modified_bessel_i0": "i0",
    "special.modified_bessel_i1": "i1",
    "special.modified_bessel_k0": "k0",
    "special.modified_bessel_k1": "k1",
    "special.scaled_modified_bessel_k0": "k0e",
    "special.scaled_modified_bessel_k1": "k1e",
    **{name: name for name in ("erf", "erfc", "erfinv", "digamma", "xlogy")},
}


def _scaled(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, other, alpha=1: function(x, other if alpha == 1 else other * alpha)


def _divided(x: Any, other: Any, rounding_mode: str | None = None) -> Any:
    quotient = anp.floor_divide if rounding_mode == "floor" else anp.divide
    result = quotient(x, other)
    return anp.trunc(result) if rounding_mode == "trunc" else result


def _quantile(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, q, axis=None, keepdims=False, interpolation="linear": function(
        x, q, axis=axis, keepdims=keepdims, method=interpolation
    )


def _moment(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(x: Any, *args: Any, unbiased: bool = True, correction: float | None = None, **options: Any) -> Any:
        # The only argument beside x may be whether it is unbiased.
        axis = args[0] if args and not isinstance(args[0], bool) else options.pop("axis", None)
        unbiased = next((one for one in args if isinstance(one, bool)), unbiased)
        return function(x, axis=axis, correction=int(unbiased) if correction is None else correction, **options)

    return call


#: Functions with PyTorch's arguments, where these are others.
_ADAPTED: dict[str, Callable[..., Any]] = {
    "add": _scaled(anp.add),
    "sub": _scaled(anp.subtract),
    "div": _divided,
    "quantile": _quantile(anp.quantile),
    "nanquantile": _quantile(anp.nanquantile),
    "std": _moment(anp.std),
    "var": _moment(anp.var),
    "einsum": lambda operands, equation: anp.einsum(equation, *operands),
    "where": lambda x, condition, y: anp.where(condition, x, y),
    "masked_fill": lambda x, mask, value: anp.where(mask, value, x),
    "lerp": lambda x, end, weight: x + weight * (end - x),
    "gather": lambda x, axis, index: anp.take_along_axis(x, index, axis),
    "index_select": lambda x, axis, index: anp.take(x, index, axis=axis),
    "transpose": anp.swapaxes,
    "unsqueeze": anp.expand_dims,
    "clamp": lambda x, low=None, high=None, min=None, max=None: anp.clip(  # noqa: A006  # PyTorch's names
        x, min if low is None else low, max if high is None else high
    ),
    "rsqrt": lambda x: 1 / anp.sqrt(x),
    "frac": lambda x: x - anp.trunc(x),
    "logsumexp": lambda x, axis, keepdims=False: special.logsumexp(x, axis=axis, keepdims=keepdims),
    "take_along_dim": lambda x, index, axis=None: anp.take_along_axis(x, index, axis),
    "polygamma": lambda x, n: special.polygamma(n, x),
    "special.polygamma": lambda x, n: special.polygamma(n, x),
    "diff": lambda x, n=1, axis=-1, prepend=None, append=None: anp.diff(
        x, n, axis, **{} if prepend is None else {"prepend": prepend}, **{} if append is None else {"append": append}
    ),
    "cov": lambda x, correction=1, **weights: anp.cov(x, ddof=correction, **weights),
    "block_diag": lambda *matrices: linalg.block_diag(*matrices),
    "matrix_exp": linalg.expm,
    "msort": lambda x: anp.sort(x, axis=0),
    "unbind": lambda x, axis=0: anp.unstack(x, axis=axis),
    "linalg.cross": anp.linalg.cross,
}
#: Without a counterpart, or with one of another meaning.
_OTHERS = {
    *("empty", "empty_like", "eye", "full", "zeros", "ones", "full_like", "zeros_like", "ones_like", "unique", "sort"),
    *("argsort", "median", "nanmedian", "max", "min", "split", "repeat", "diagonal", "gradient", "meshgrid", "equal"),
    *(
        "linspace",
        "logspace",
        "arange",
        "permute",
        "svd",
        "count_nonzero",
        "linalg.lstsq",
        "linalg.ldl_factor",
        "vander",
    ),
    *("linalg.diagonal", "fft.hfft2", "fft.hfftn", "fft.ihfft2", "fft.ihfftn", "fft.fft2", "fft.ifft2", "fft.rfft2"),
    *("fft.irfft2", "fft.fftn", "fft.ifftn", "fft.rfftn", "fft.irfftn", "rot90", "ldexp", "linalg.norm", "linalg.cond"),
    *("linalg.matrix_rank", "linalg.pinv", "linalg.qr", "linalg.slogdet", "linalg.svd", "linalg.eig", "linalg.eigh"),
    *(
        "linalg.eigvals",
        "linalg.eigvalsh",
        "linalg.lu",
        "linalg.lu_factor",
        "linalg.solve",
        "linalg.tensorinv",
        "mvlgamma",
    ),
    *(
        "linalg.matrix_norm",
        "linalg.vector_norm",
        "linalg.svdvals",
        "searchsorted",
        "bucketize",
        "histogram",
        "histogramdd",
    ),
    *("amax", "amin", "all", "any", "pinverse", "tensordot", "nonzero", "argwhere", "unravel_index", "cross", "take"),
    *("put", "squeeze", "select", "bool", "byte", "double", "half", "long", "short", "cdouble", "diagflat"),
    *("linalg.tensorsolve", "fft.fftshift", "fft.ifftshift", "logdet", "expand"),
}
_OPTIONS = {"dim": "axis", "dims": "axis", "keepdim": "keepdims"}


def counterpart(name: str) -> Callable[..., Any] | None:
    """Return a function of ours with the arguments of an operation of PyTorch's; None if there is none."""
    if name.startswith("nn.") or name in _OTHERS:
        return None
    found: Any = _ADAPTED.get(name)
    if found is None and (name in _SPECIAL or name.startswith("special.")):
        found = getattr(special, _SPECIAL.get(name, name.removeprefix("special.")), None)
    if found is None:
        found = anp
        for part in _RENAMED.get(name, name).split("."):
            found = getattr(found, part, None)
    return _renaming(found) if callable(found) else None


def _renaming(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **options: Any) -> Any:
        named = {_OPTIONS.get(name, name): value for name, value in options.items()}
        if named.get("dtype") is not None:
            named["dtype"] = np.dtype(str(named["dtype"]).removeprefix("torch."))
        return function(*args, **named)

    return call
