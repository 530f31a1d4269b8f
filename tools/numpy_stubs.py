"""Write the stubs of asyncgrad.numpy, which tell type checkers that NumPy's functions return Tensors there.

`python -m tools.numpy_stubs` writes them; tests/namespace/test_stubs.py holds them to be current.
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
    **dict.fromkeys(("average", "gradient", "intersect1d", "polyfit", "unique", "where"), "Any"),
    **dict.fromkeys(("atleast_1d", "atleast_2d", "atleast_3d", "einsum_path", "frompyfunc"), "Any"),
    **dict.fromkeys(("linalg.qr", "linalg.svd", "load", "genfromtxt", "loadtxt", "nested_iters"), "Any"),
    **dict.fromkeys(("geterr", "geterrcall", "getbufsize", "setbufsize", "seterr", "seterrcall"), "Any"),
    **dict.fromkeys(("get_printoptions", "printoptions", "show_config", "show_runtime", "test"), "Any"),
    **dict.fromkeys(("busday_count", "busday_offset", "datetime_as_string", "datetime_data", "is_busday"), "Any"),
    **dict.fromkeys(("asmatrix", "bmat", "fromregex", "fromstring", "isnat"), "Any"),
    **dict.fromkeys(("fft.test", "linalg.test"), "Any"),
}

#: The types of parameters that mean the same in every function.
PARAMETERS = {
    "axis": "int | Sequence[int] | None",
    "axes": "Any",
    "casting": "str",
    "copy": "builtins.bool | None",
    "device": "str | Device | None",
    "dtype": "npt.DTypeLike | None",
    "full_matrices": "builtins.bool",
    "hermitian": "builtins.bool",
    "keepdims": "builtins.bool",
    "ndmin": "int",
    "norm": "str | None",
    "order": "Any",
    "out": "Tensor | tuple[Tensor | None, ...] | None",
    "requires_grad": "builtins.bool",
    "where": "TensorLike",
}
#: Parameters that are arrays, wherever they are required.
ARRAYS = {
    *(
        "a",
        "a1",
        "a2",
        "ar",
        "ar1",
        "ar2",
        "arr",
        "array",
        "arrays",
        "A",
        "b",
        "element",
        "fp",
        "m",
        "M",
        "p",
        "q",
        "u",
    ),
    *("v", "x", "x1", "x2", "x3", "xi", "xp", "y", "y1", "y2", "z"),
}

HEADER = '''"""Written by tools/numpy_stubs.py for NumPy {version}: do not change it by hand."""

# `bool` is NumPy's here.
import builtins
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ..engine.device import Device
from ..tensor import Tensor

#: What stands for an array: one, a Tensor, a number, or nested sequences of them.
TensorLike: TypeAlias = Tensor | npt.ArrayLike | Sequence[Any]
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
        out: Tensor | tuple[Tensor | None, ...] | None = ...,
        /,
        *,
        where: TensorLike = ...,
        dtype: npt.DTypeLike | None = ...,
        **kwargs: Any,
    ) -> Tensor: ...

class _BinaryUfunc(_Ufunc, Protocol):
    def __call__(
        self,
        x1: TensorLike,
        x2: TensorLike,
        out: Tensor | tuple[Tensor | None, ...] | None = ...,
        /,
        *,
        where: TensorLike = ...,
        dtype: npt.DTypeLike | None = ...,
        **kwargs: Any,
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
        lines += [f"from . import {name} as {name}" for name in ("fft", "linalg", "random")]
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
        kind = "_PairUfunc" if theirs.nout > 1 else "_UnaryUfunc" if theirs.nin == 1 else "_BinaryUfunc"
        yield f"{name}: {kind}" if path == name else f"{name}: Any"
    elif name in ("c_", "mgrid", "ogrid", "r_"):
        yield f"{name}: Any"
    elif ours is theirs:
        yield f"{name} = {source.__name__.replace('numpy', 'np', 1)}.{name}" if _is_alias(theirs) else f"{name}: Any"
    else:
        yield f"def {name}({', '.join(_parameters(ours, path))}) -> {RESULTS.get(path, 'Tensor')}: ..."


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
        yield f"{star}{parameter.name}: {_type_of(parameter)}{default}"
    if before is inspect.Parameter.POSITIONAL_ONLY:
        yield "/"


def _keyword(name: str) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)


def _type_of(parameter: inspect.Parameter) -> str:
    if parameter.name in ARRAYS and parameter.default is parameter.empty:
        return "TensorLike"
    return PARAMETERS.get(parameter.name, "Any")


def write() -> None:
    """Write all stubs."""
    for name, module in MODULES.items():
        (PACKAGE / name).write_text(stub_of(module))


if __name__ == "__main__":
    write()
