"""Write the stubs of asyncgrad.numpy, which tell type checkers that NumPy's functions return Tensors there.

`python -m tools.numpy_stubs` writes them; tests/numpy/test_stubs.py holds them to be current.
"""

from __future__ import annotations

import importlib
import inspect
import pathlib
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from asyncgrad.numpy.names import CREATES

__all__ = ["MODULES", "PACKAGE", "VERSION", "stub_of", "write"]

#: NumPy's names and parameters differ from one of its versions to the next.
VERSION = ".".join(np.__version__.split(".")[:2])
PACKAGE = pathlib.Path(__file__).parent.parent / "asyncgrad" / "numpy"
#: The modules, by the file of the stub.
MODULES = {
    "__init__.pyi": "asyncgrad.numpy",
    "fft.pyi": "asyncgrad.numpy.fft",
    "linalg.pyi": "asyncgrad.numpy.linalg",
}

#: What a function returns that does not return one Tensor, by the name after `numpy.`.
RESULTS = {
    **dict.fromkeys(
        ("allclose", "array_equal", "array_equiv", "can_cast", "isdtype", "isfortran", "isscalar"), "builtins.bool"
    ),
    **dict.fromkeys(("iscomplexobj", "isrealobj", "issubdtype", "iterable", "may_share_memory"), "builtins.bool"),
    **dict.fromkeys(("shares_memory",), "builtins.bool"),
    **dict.fromkeys(("ndim", "size"), "int"),
    **dict.fromkeys(("array2string", "array_repr", "array_str", "base_repr", "binary_repr", "typename"), "str"),
    **dict.fromkeys(("format_float_positional", "format_float_scientific", "mintypecode", "get_include"), "str"),
    **dict.fromkeys(("broadcast_shapes", "shape"), "tuple[int, ...]"),
    **dict.fromkeys(("array_split", "dsplit", "hsplit", "split", "vsplit"), "list[Tensor]"),
    **dict.fromkeys(("broadcast_arrays", "meshgrid", "ix_", "nonzero", "unstack"), "tuple[Tensor, ...]"),
    "unravel_index": "tuple[Tensor, ...]",
    **dict.fromkeys(("diag_indices", "diag_indices_from", "mask_indices", "tril_indices"), "tuple[Tensor, ...]"),
    **dict.fromkeys(("tril_indices_from", "triu_indices", "triu_indices_from"), "tuple[Tensor, ...]"),
    **dict.fromkeys(("divmod", "frexp", "modf", "histogram", "polydiv"), "tuple[Tensor, Tensor]"),
    "histogram2d": "tuple[Tensor, Tensor, Tensor]",
    "histogramdd": "tuple[Tensor, tuple[Tensor, ...]]",
    "linalg.lstsq": "tuple[Tensor, Tensor, Tensor, Tensor]",
    "linalg.eig": "EigResult",
    "linalg.eigh": "EighResult",
    "linalg.slogdet": "SlogdetResult",
    "unique_all": "UniqueAllResult",
    "unique_counts": "UniqueCountsResult",
    "unique_inverse": "UniqueInverseResult",
    **dict.fromkeys(("common_type", "result_type", "promote_types", "min_scalar_type"), "np.dtype[Any]"),
    **dict.fromkeys(("copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"), "None"),
    **dict.fromkeys(("save", "savetxt", "savez", "savez_compressed", "set_printoptions", "info"), "None"),
    #: It depends on the arguments, or is no array.
    **dict.fromkeys(("gradient", "intersect1d", "polyfit", "unique"), "Any"),
    **dict.fromkeys(("einsum_path", "frompyfunc"), "Any"),
    **dict.fromkeys(("load", "genfromtxt", "loadtxt", "nested_iters"), "Any"),
    **dict.fromkeys(("geterr", "geterrcall", "getbufsize", "setbufsize", "seterr", "seterrcall"), "Any"),
    **dict.fromkeys(("get_printoptions", "printoptions", "show_config", "show_runtime", "test"), "Any"),
    **dict.fromkeys(("busday_count", "busday_offset", "datetime_as_string", "datetime_data", "is_busday"), "Any"),
    **dict.fromkeys(("asmatrix", "bmat", "fromregex", "fromstring", "isnat"), "Any"),
    **dict.fromkeys(("fft.test", "linalg.test"), "Any"),
}


def _names(names: str) -> list[str]:
    return names.split()


_INTEGER = "SupportsIndex"
_FLAG = "builtins.bool"
_SHAPE = "SupportsIndex | Sequence[SupportsIndex]"
_MANY_AXES = "SupportsIndex | Sequence[SupportsIndex] | None"
_OPTIONAL = "TensorLike | None"

#: The types of parameters, by the parameter's name; or by the function's path and it, where that means another thing
#: than elsewhere. A parameter that is not here takes anything.
PARAMETERS = {
    **dict.fromkeys(
        _names(
            "a a1 a2 ar ar1 ar2 arr array ary A b base beta choices condition discont dst element "
            "fp fill_value indices initial m M multi_index nan obj p prototype q repeats seq_of_zeros src "
            "start start_or_stop sample test_elements u v val vals values x x1 x2 xi xp y z"
        ),
        "TensorLike",
    ),
    **dict.fromkeys(
        _names(
            "append aweights default dx fweights left mask mean neginf period posinf prepend right sorter "
            "step stop to_begin to_end w weights atol rtol rcond tol ind min max"
        ),
        _OPTIONAL,
    ),
    **dict.fromkeys(("arrays", "tup", "condlist", "choicelist"), "TensorLike | Sequence[TensorLike]"),
    "axis": "SupportsIndex | None",
    **dict.fromkeys(("axis1", "axis2", "axisa", "axisb", "axisc"), _INTEGER),
    **dict.fromkeys(("source", "destination", "shape", "new_shape", "dims", "dimensions"), _SHAPE),
    **dict.fromkeys(("shift", "reps", "kth"), "TensorLike"),
    **dict.fromkeys(("k", "M", "N", "n", "num", "decimals", "edge_order", "minlength", "ndim", "offset"), _INTEGER),
    **dict.fromkeys(
        _names(
            "assume_unique bias compute_uv deg density descending endpoint equal_nan full full_matrices "
            "hermitian include_initial increasing invert keepdims overwrite_input requires_grad retstep "
            "return_counts return_index return_indices return_inverse returned rowvar sorted sparse stable "
            "subok upper wrap"
        ),
        _FLAG,
    ),
    **dict.fromkeys(("descending", "stable"), "builtins.bool | None"),
    "axes": "Any",
    "bins": "TensorLike | str",
    "casting": 'Literal["no", "equiv", "safe", "same_kind", "unsafe"]',
    "copy": "builtins.bool | None",
    **dict.fromkeys(("ddof", "correction"), "float"),
    "d": "TensorLike",
    "device": "str | Device | None",
    "dtype": "npt.DTypeLike | None",
    **dict.fromkeys(("func", "func1d", "function", "mask_func"), "Callable[..., Any]"),
    "indexing": 'Literal["xy", "ij"]',
    "indices_or_sections": "TensorLike",
    "kind": 'Literal["quicksort", "mergesort", "heapsort", "stable"] | None',
    "method": "str",
    "ndmin": "int",
    "norm": 'Literal["backward", "ortho", "forward"] | None',
    "ord": "float | str | None",
    "order": 'Literal["K", "A", "C", "F"] | None',
    "out": "Tensor | tuple[Tensor | None, ...] | None",
    "range": "Sequence[Any] | None",
    "s": "Sequence[SupportsIndex] | None",
    "side": 'Literal["left", "right"]',
    "where": "TensorLike",
    # Where a name means another thing.
    **{
        f"{function}.axis": _MANY_AXES
        for function in _names(
            "all amax amin any average count_nonzero expand_dims flip linalg.norm linalg.vector_norm max "
            "mean median min nanmax nanmean nanmedian nanmin nanpercentile nanprod nanquantile nanstd nansum "
            "nanvar percentile prod ptp quantile roll size squeeze std sum trim_zeros var gradient"
        )
    },
    **{f"{function}.order": "str | Sequence[str] | None" for function in _names("argpartition argsort partition sort")},
    **{f"{function}.kind": 'Literal["introselect"]' for function in ("argpartition", "partition")},
    **{
        f"{function}.mode": 'Literal["raise", "wrap", "clip"] | Sequence[str]'
        for function in _names("choose put ravel_multi_index take")
    },
    **{f"{function}.mode": 'Literal["valid", "same", "full"]' for function in ("convolve", "correlate")},
    "linalg.qr.mode": 'Literal["reduced", "complete", "r", "raw"]',
    **{f"fft.{function}.n": "SupportsIndex | None" for function in _names("fft ifft rfft irfft hfft ihfft")},
    **{
        f"fft.{function}.axes": "Sequence[SupportsIndex] | None"
        for function in _names("fft2 fftn ifft2 ifftn rfft2 rfftn irfft2 irfftn")
    },
    **{f"fft.{function}.axes": _MANY_AXES for function in ("fftshift", "ifftshift")},
    **{f"linalg.{function}.UPLO": 'Literal["L", "U", "l", "u"]' for function in ("eigh", "eigvalsh")},
    **{
        f"{function}.shape": "SupportsIndex | Sequence[SupportsIndex] | None"
        for function in ("empty_like", "full_like")
    },
    **{
        f"{function}.shape": "SupportsIndex | Sequence[SupportsIndex] | None"
        for function in ("ones_like", "zeros_like")
    },
    **{f"{function}.{name}": _INTEGER for function in ("tril_indices", "triu_indices") for name in ("m", "n")},
    **{f"{function}.m": "SupportsIndex | None" for function in ("tril_indices", "triu_indices")},
    **{f"{function}.M": "SupportsIndex | None" for function in ("eye", "tri")},
    "polyint.k": _OPTIONAL,
    **{f"{function}.m": _INTEGER for function in ("polyder", "polyint")},
    "polyfit.deg": _INTEGER,
    "polyfit.cov": 'builtins.bool | Literal["unscaled"]',
    "corrcoef.y": _OPTIONAL,
    "cov.y": _OPTIONAL,
    "cov.ddof": "int | None",
    "trapezoid.x": _OPTIONAL,
    "vander.N": "SupportsIndex | None",
    "repeat.axis": "SupportsIndex | None",
    "rollaxis.start": _INTEGER,
    "rot90.axes": "Sequence[SupportsIndex]",
    "permute_dims.axes": "Sequence[SupportsIndex] | None",
    "transpose.axes": "Sequence[SupportsIndex] | None",
    "delete.obj": "Any",
    "insert.obj": "Any",
    "digitize.right": _FLAG,
    "isin.kind": 'Literal["sort", "table"] | None',
    "isdtype.kind": "Any",
    "linalg.cond.p": "float | str | None",
    "linalg.tensorinv.ind": "int",
    "linalg.matrix_power.n": _INTEGER,
    "binary_repr.num": "int",
    "bmat.obj": "Any",
    "ediff1d.ary": "TensorLike",
    "histogramdd.bins": "Any",
    "histogram2d.bins": "Any",
    "histogramdd.sample": "Any",
    "take.indices": "TensorLike",
    "meshgrid.copy": _FLAG,
    "nan_to_num.copy": _FLAG,
    "save.arr": "Any",
    "savetxt.X": "Any",
    "setbufsize.size": "int",
    "seterrcall.func": "Any",
    "array.object": "TensorLike",
    "nested_iters.axes": "Any",
    "nested_iters.order": "Any",
    "nested_iters.casting": "Any",
}
#: What takes the place of `*args`, by the function.
ARGUMENTS = {
    **dict.fromkeys(
        _names("broadcast_arrays gradient ix_ meshgrid"),
        "TensorLike",
    ),
    "broadcast_shapes": _SHAPE,
}
#: What a function returns depends on these arguments: whole signatures, by the function.
OVERLOADS = {
    "where": (
        "(condition: TensorLike) -> tuple[Tensor, ...]",
        "(condition: TensorLike, x: TensorLike, y: TensorLike) -> Tensor",
    ),
    **dict.fromkeys(
        ("atleast_1d", "atleast_2d", "atleast_3d"),
        (
            "(ary: TensorLike, /) -> Tensor",
            "(first: TensorLike, second: TensorLike, /, *arys: TensorLike) -> tuple[Tensor, ...]",
        ),
    ),
    "average": (
        (
            f"(a: TensorLike, axis: {_MANY_AXES} = ..., weights: {_OPTIONAL} = ..., returned: Literal[False] = ..., *, "
            "keepdims: builtins.bool = ...) -> Tensor"
        ),
        (
            f"(a: TensorLike, axis: {_MANY_AXES} = ..., weights: {_OPTIONAL} = ..., *, returned: Literal[True], "
            "keepdims: builtins.bool = ...) -> tuple[Tensor, Tensor]"
        ),
    ),
    "linalg.svd": (
        (
            "(a: TensorLike, full_matrices: builtins.bool = ..., compute_uv: Literal[True] = ..., "
            "hermitian: builtins.bool = ...) -> SVDResult"
        ),
        (
            "(a: TensorLike, full_matrices: builtins.bool = ..., *, compute_uv: Literal[False], "
            "hermitian: builtins.bool = ...) -> Tensor"
        ),
    ),
    "linalg.qr": (
        '(a: TensorLike, mode: Literal["reduced", "complete", "raw"] = ...) -> QRResult',
        '(a: TensorLike, mode: Literal["r"]) -> Tensor',
    ),
}

HEADER = '''"""Written by tools/numpy_stubs.py for NumPy {version}: do not change it by hand."""

# `bool` is NumPy's here.
import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, Protocol, SupportsIndex, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from ..core.arrays.array_like import TensorLike as TensorLike
from ..core.engine.device import Device
from ..core.tensor import Tensor
'''

UFUNCS = """
class _Ufunc(Protocol):
    @property
    def nin(self) -> int: ...
    @property
    def nout(self) -> int: ...
    @property
    def nargs(self) -> int: ...
    @property
    def ntypes(self) -> int: ...
    @property
    def types(self) -> list[str]: ...
    @property
    def identity(self) -> Any: ...
    @property
    def signature(self) -> str | None: ...
    def at(self, a: Tensor, indices: Any, b: TensorLike = ..., /) -> None: ...
    def accumulate(
        self, array: TensorLike, axis: int = ..., dtype: npt.DTypeLike | None = ..., out: Tensor | None = ...
    ) -> Tensor: ...
    def outer(self, A: TensorLike, B: TensorLike, /, **kwargs: Any) -> Tensor: ...
    def reduce(self, array: TensorLike, axis: int | Sequence[int] | None = ..., **kwargs: Any) -> Tensor: ...
    def reduceat(self, array: TensorLike, indices: TensorLike, axis: int = ..., **kwargs: Any) -> Tensor: ...

class _UnaryUfunc(_Ufunc, Protocol):
    def __call__(
        self,
        x: TensorLike,
        /,
        out: Tensor | tuple[Tensor | None, ...] | None = ...,
        *,
        where: TensorLike = ...,
        casting: Literal["no", "equiv", "safe", "same_kind", "unsafe"] = ...,
        order: Literal["K", "A", "C", "F"] | None = ...,
        dtype: npt.DTypeLike | None = ...,
        subok: builtins.bool = ...,
        signature: Any = ...,
    ) -> Tensor: ...

class _BinaryUfunc(_Ufunc, Protocol):
    def __call__(
        self,
        x1: TensorLike,
        x2: TensorLike,
        /,
        out: Tensor | tuple[Tensor | None, ...] | None = ...,
        *,
        where: TensorLike = ...,
        casting: Literal["no", "equiv", "safe", "same_kind", "unsafe"] = ...,
        order: Literal["K", "A", "C", "F"] | None = ...,
        dtype: npt.DTypeLike | None = ...,
        subok: builtins.bool = ...,
        signature: Any = ...,
    ) -> Tensor: ...

class _GeneralizedUfunc(_Ufunc, Protocol):
    def __call__(
        self,
        x1: TensorLike,
        x2: TensorLike,
        /,
        out: Tensor | tuple[Tensor | None, ...] | None = ...,
        *,
        axes: Any = ...,
        axis: SupportsIndex = ...,
        keepdims: builtins.bool = ...,
        casting: Literal["no", "equiv", "safe", "same_kind", "unsafe"] = ...,
        order: Literal["K", "A", "C", "F"] | None = ...,
        dtype: npt.DTypeLike | None = ...,
        subok: builtins.bool = ...,
        signature: Any = ...,
    ) -> Tensor: ...

class _PairUfunc(_Ufunc, Protocol):
    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]: ...

class UniqueAllResult(NamedTuple):
    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor

class UniqueCountsResult(NamedTuple):
    values: Tensor
    counts: Tensor

class UniqueInverseResult(NamedTuple):
    values: Tensor
    inverse_indices: Tensor
"""

LINALG = """
class EigResult(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor

class EighResult(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor

class QRResult(NamedTuple):
    Q: Tensor
    R: Tensor

class SVDResult(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor

class SlogdetResult(NamedTuple):
    sign: Tensor
    logabsdet: Tensor
"""


def stub_of(module: str) -> str:
    """Return the stub of a module of the namespace."""
    space = importlib.import_module(module)
    path = module.removeprefix("asyncgrad.numpy").removeprefix(".")
    lines = [HEADER.format(version=VERSION)]
    if not path:
        lines.append(UFUNCS)
        lines += [f"from . import {name} as {name}" for name in ("fft", "linalg", "polynomial", "random")]
    if path == "linalg":
        lines.append(LINALG)
    source = importlib.import_module(module.removeprefix("asyncgrad."))
    for name in dir(space):
        lines += _entry(source, space, f"{path}.{name}".removeprefix("."))
    if not path:
        lines += ["__array_api_version__: str", "def __array_namespace_info__() -> Any: ..."]
    return "\n".join(lines) + "\n"


def _entry(source: types.ModuleType, space: types.ModuleType, path: str) -> Iterator[str]:
    name = path.rpartition(".")[2]
    ours, theirs = getattr(space, name), getattr(source, name, None)
    if isinstance(ours, types.ModuleType) and ours.__name__.startswith("asyncgrad."):
        return
    if isinstance(theirs, np.ufunc):
        yield f"{name}: {_kind_of(theirs)}" if path == name else f"{name}: Any"
    elif name in ("c_", "mgrid", "ogrid", "r_"):
        yield f"{name}: Any"
    elif path == "ndarray":
        yield "ndarray = Tensor"
    elif ours is theirs:
        yield (
            f"{name} = {source.__name__.replace('numpy', 'np', 1)}.{name}"
            if _is_alias(theirs)
            else _constant(name, ours)
        )
    elif path in OVERLOADS:
        yield from (f"@overload\ndef {name}{signature}: ..." for signature in OVERLOADS[path])
    else:
        yield f"def {name}({', '.join(_parameters(ours, path))}) -> {RESULTS.get(path, 'Tensor')}: ..."


def _kind_of(ufunc: np.ufunc) -> str:
    if ufunc.nout > 1:
        return "_PairUfunc"
    if ufunc.signature is not None:
        return "_GeneralizedUfunc"
    return "_UnaryUfunc" if ufunc.nin == 1 else "_BinaryUfunc"


def _constant(name: str, value: Any) -> str:
    if value is None:
        return f"{name}: None"
    return f"{name}: float" if type(value) is float else f"{name}: Any"


def _is_alias(thing: Any) -> bool:
    return isinstance(thing, type) and thing.__module__.partition(".")[0] == "numpy"


def _parameters(function: Callable[..., Any], path: str) -> Iterator[str]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:
        yield "*args: Any, **kwargs: Any"
        return
    if path in CREATES:
        known = {parameter.name for parameter in parameters}
        parameters = [parameter for parameter in parameters if parameter.name != "like"]
        parameters += [_keyword(name) for name in ("device", "requires_grad") if name not in known]
    before: Any = None
    for parameter in parameters:
        if before is parameter.POSITIONAL_ONLY and parameter.kind is not before:
            yield "/"
        if parameter.kind is parameter.KEYWORD_ONLY is not before is not parameter.VAR_POSITIONAL:
            yield "*"
        before = parameter.kind
        star = (
            "*"
            if parameter.kind is parameter.VAR_POSITIONAL
            else "**"
            if parameter.kind is parameter.VAR_KEYWORD
            else ""
        )
        default = "" if parameter.default is parameter.empty else " = ..."
        yield f"{star}{parameter.name}: {_type_of(parameter, path)}{default}"
    if before is inspect.Parameter.POSITIONAL_ONLY:
        yield "/"


def _keyword(name: str) -> inspect.Parameter:
    default = None if name == "device" else False
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)


def _type_of(parameter: inspect.Parameter, path: str) -> str:
    if parameter.kind is parameter.VAR_POSITIONAL:
        return ARGUMENTS.get(path, "Any")
    if parameter.kind is parameter.VAR_KEYWORD:
        return "Any"
    known = PARAMETERS.get(f"{path}.{parameter.name}", PARAMETERS.get(parameter.name, "Any"))
    optional = parameter.default is None and known != "Any" and "None" not in known.split(" | ")
    return f"{known} | None" if optional else known


def write() -> None:
    """Write all stubs."""
    for name, module in MODULES.items():
        (PACKAGE / name).write_text(stub_of(module))


if __name__ == "__main__":
    write()
