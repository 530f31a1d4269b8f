"""The names of nodes, hooks and functions in errors and notes."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable
from importlib import import_module
from types import FrameType
from typing import Any

import numpy as np

__all__ = [
    "HIGHEST_NUMBER",
    "calling_function",
    "close_names",
    "conversion_advice",
    "is_asked_by_sparse_operator",
    "identify",
    "name_hook",
    "number_of",
    "place_of",
    "ufunc_name",
]

#: The sequence number of a leaf's AccumulateGrad, which runs ahead of all other nodes, as in PyTorch.
HIGHEST_NUMBER = 2**64 - 1


def identify(node: Any) -> str:
    """Return the name of a node in errors: `MultiplyBackward (node #7)`, `AccumulateGrad (leaf of shape (2, 3))`."""
    return f"{node.name} ({number_of(node)})"


def place_of(node: Any) -> str:
    """Return a node's number and device, without its name."""
    return number_of(node) if node.device is None else f"{number_of(node)}, device '{node.device}'"


def number_of(node: Any) -> str:
    """Return a node's sequence number for an error; for a leaf its shape, since all leaves have the same number."""
    if node.sequence_nr < HIGHEST_NUMBER:
        return f"node #{node.sequence_nr}"
    variable = getattr(node, "variable", None)
    return "node ahead of all others" if variable is None else f"leaf of shape {variable._data.shape}"


def name_hook(hook: Any) -> str:
    """Return the name of a hook in errors: that of the function a partial calls; for a nameless hook, of its class."""
    while isinstance(hook, functools.partial):
        hook = hook.func
    return f"hook {getattr(hook, '__qualname__', type(hook).__name__)}"


@functools.cache
def _libraries() -> tuple[str, ...]:
    """Return the folders that hold the code of libraries; code elsewhere is the user's."""
    # Imported here: messages alone need it, and it reads how Python was built.
    get_path = import_module("sysconfig").get_path
    return tuple({get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def ufunc_name(ufunc: np.ufunc) -> str:
    """Return the name of a ufunc with its module, such as scipy.special.erf; a ufunc does not store its module."""
    name = ufunc.__name__
    if getattr(np, name, None) is ufunc:
        return f"numpy.{name}"
    modules = [
        module
        for module, contents in list(sys.modules.items())
        if getattr(contents, "__dict__", {}).get(name) is ufunc and not _is_private(module)
    ]
    return f"{min(modules, key=len)}.{name}" if modules else name


def calling_function(depth: int = 1) -> str | None:
    """Return the name of the library function that the user called; None if the user's own code made this call.

    Args:
        depth: the number of frames to skip, including the caller's.
    """
    frame: FrameType | None = sys._getframe(depth + 1)
    root = "" if frame is None else _root(frame)
    entries: list[tuple[str, str]] = []
    while frame is not None and frame.f_code.co_filename.startswith(_libraries()):
        if _root(frame) != root:
            # A library may convert its arguments by NumPy.
            if root != "numpy" or _root(frame) == "asyncgrad":
                break
            root = _root(frame)
        for name in frame.f_code.co_freevars:
            # The function that a wrapper stands for.
            wrapped = frame.f_locals.get(name)
            entries.append((str(getattr(wrapped, "__module__", "")), getattr(wrapped, "__qualname__", name)))
        entries.append((str(frame.f_globals.get("__name__", "")), _qualified(frame)))
        frame = frame.f_back
    for module, name in reversed(entries):
        if "<locals>" in name:
            continue
        shown = _shortest(module, name.partition(".")[0])
        # A wrapper's own name is not public, and is skipped.
        if shown is not None:
            return f"{shown}.{name}"
    return f"{_public(entries[-1][0])}.{entries[-1][1]}" if entries else None


def _qualified(frame: FrameType) -> str:
    """Return the name of a frame's function, with the class or the object that it is a method of.

    A constructor goes by its class, and an object that has a name of its own by that, as in norm.logpdf.
    """
    owner, _, method = frame.f_code.co_qualname.rpartition(".")
    # An object of another library's may be half made, and look for its names in itself.
    known = owner and _root(frame) == "scipy"
    own = getattr(frame.f_locals.get("self"), "__name__" if method == "__call__" else "name", None) if known else None
    if isinstance(own, str) and own.isidentifier():
        return own if method == "__call__" else f"{own}.{method}"
    return owner if owner and method in ("__call__", "__init__") else frame.f_code.co_qualname


def conversion_advice() -> tuple[str, str | None]:
    """Return what to write instead of converting a tensor to an array, and the library function that does it.

    It is called by the method that is asked for the conversion.
    """
    function = calling_function(2)
    library, _, path = (function or "").partition(".")
    if function is not None and library not in ("numpy", "scipy"):
        return f"NumPy's functions to compute with it, since {library} keeps no history", function
    if library != "scipy":
        joined = "np.stack to join tensors, or asyncgrad.numpy.random.default_rng(seed) to draw random numbers"
        return joined, function
    package, _, name = path.rpartition(".")
    # A method is named with its object or class, as in scipy.stats.norm.logpdf.
    if not hasattr(sys.modules.get(f"scipy.{package}"), name):
        package, _, name = path.rpartition(".")[0].rpartition(".")
    for module in (f"asyncgrad.scipy.{package}", f"asyncgrad.scipy.{package.partition('.')[0]}"):
        try:
            found = import_module(module)
        except ImportError:
            continue
        # Names that are made when they are asked for are SciPy's own functions.
        names = set(dir(found)) & set(vars(found))
        wanted = name.partition(".")[0]
        # The class of a method may be SciPy's own affair, as _spbase is that of sparse arrays.
        for known in (wanted, path.rpartition(".")[2]):
            if known in names:
                return f"{module}.{known} to keep it", function
        near = "".join(f", such as {one}," for one in close_names(wanted, names)[:1])
        return f"what {module} has{near} to keep it", function
    return "the functions of asyncgrad.scipy to keep it", function


def is_asked_by_sparse_operator() -> bool:
    """Return whether SciPy converts a tensor for an operator of a sparse matrix on its left.

    Such an operator gives way to the operand on the right if that becomes an array of one object. It is called by the
    method that is asked for the conversion.
    """
    if "scipy.sparse" not in sys.modules:
        return False
    frame = sys._getframe(2)
    if not str(frame.f_globals.get("__name__", "")).startswith("scipy.sparse."):
        return False
    name = frame.f_code.co_name
    if name != "_multiply_2d_with_broadcasting":
        return name in ("_matmul_dispatch", "_divide")
    # The method `multiply` would return NotImplemented to the user; the operator gives way.
    while frame.f_back is not None and frame.f_code.co_name in ("_multiply_2d_with_broadcasting", "multiply"):
        frame = frame.f_back
    return frame.f_code.co_name == "__mul__"


def close_names(name: str, names: Iterable[str]) -> list[str]:
    """Return which names are similar, the most similar one first."""
    # Imported here: messages alone need it.
    found: list[str] = import_module("difflib").get_close_matches(name, names)
    return found


def _shortest(module: str, name: str) -> str | None:
    """Return the outermost public package that exports `name` of a module: numpy for one of numpy._core.numeric."""
    meant = getattr(sys.modules.get(module), name, None)
    parts = _public(module).split(".")
    packages = [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
    if meant is None:
        # As of a method whose class lies elsewhere.
        return next((package for package in reversed(packages) if hasattr(sys.modules.get(package), name)), None)
    for package in packages:
        if getattr(sys.modules.get(package), name, None) is meant:
            return package
    # As of a function that stands for another of its name.
    return packages[-1] if module != packages[-1] and hasattr(sys.modules.get(packages[-1]), name) else None


def _public(module: str) -> str:
    return ".".join(part for part in module.split(".") if not part.startswith("_"))


def _root(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _is_private(module: str) -> bool:
    return any(part.startswith("_") for part in module.split("."))
