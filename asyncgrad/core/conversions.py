"""What makes an array or a number of a tensor, which drops its history, and what to write instead."""

from __future__ import annotations

import functools
import inspect
import math
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from types import FrameType, ModuleType
from typing import Any

import numpy as np

from .graph.calls import Call, call_of
from .graph.naming import close_names
from .settings.lazy import import_deferred

__all__ = ["array_advice", "is_asked_by_sparse_operator", "is_plain_conversion", "number_advice"]

#: Libraries that compute with what they convert.
_COMPUTING = ("numpy", "scipy", "asyncgrad", "statistics")


# --- arrays ------------------------------------------------------------------------------------------


def array_advice(tensor: Any, has_rule: Callable[[Any], bool]) -> tuple[str, str]:
    """Return what to write instead of converting a tensor to an array, and what converts it, to begin the error with.

    It is called by the method that is asked for the conversion.

    Args:
        tensor: the tensor.
        has_rule: tells whether there is a derivative rule for a function of NumPy's.
    """
    frame = sys._getframe(2)
    function = _calling_function(frame)
    frames = list(_library_frames(frame))
    is_ours = bool(frames) and _root(frames[-1]) == "asyncgrad"
    if is_ours:
        # It is a function that asyncgrad calls; the user has called asyncgrad, maybe by NumPy's protocols.
        function = None
    library, _, path = (function or "").partition(".")
    if function is not None and library not in ("numpy", "scipy"):
        return f"NumPy's functions to compute with it, since {library} keeps no history", _no_rule(function)
    if library == "scipy":
        return _of_scipy(path), _no_rule(function)
    user = frame if not frames else frames[-1].f_back
    call = None if user is None else call_of(user)
    if path.startswith("random.") or _is_random(call):
        return "asyncgrad.numpy.random.default_rng(seed) to draw random numbers that keep it", _no_rule(function)
    known = None if call is None else call.function
    if function is not None:
        known = _resolved(function)
    elif known is not None and _is_numpys(known):
        function = f"numpy.{known.__name__}"
    is_known = _has_rule(known, has_rule)
    # To a tensor itself, NumPy would have passed on the call.
    depth = _depth_of_list(frames[-1], tensor) if frames else int(is_known)
    if depth:
        is_alone = is_known and not is_ours and (bool(frames) or isinstance(known, np.ufunc))
        return _join(depth, function, known if is_alone else None, call)
    return _of_direct(function, known, is_known, call, type(tensor), has_rule)


def _of_direct(
    function: str | None,
    known: Any,
    is_known: bool,
    call: Call | None,
    tensor_type: type,
    has_rule: Callable[[Any], bool],
) -> tuple[str, str]:
    """Return the same for a tensor that was an argument itself."""
    if call is not None and isinstance(call.owner, (np.ndarray, np.generic)):
        return _of_method(call.name.rpartition(".")[2], tensor_type, has_rule)
    if call is not None and call.name in _SUBSCRIPTS:
        return _SUBSCRIPTS[call.name]
    if is_known:
        return "NumPy's functions to compute with it", f"{function} takes no tensor in this place, and "
    if isinstance(known, type) and issubclass(known, np.generic):
        return "NumPy's functions to compute with it", ""
    name = getattr(known, "__name__", "")
    if function is None:
        return "np.stack to join tensors of a list", ""
    if name in _CONVERTING:
        return f"np.stack to join tensors of a list, or asyncgrad.numpy.{name}, to keep it", ""
    if getattr(import_deferred("numpy"), name, known) is not known and _is_numpys(known):
        # It makes an array of other things than arrays, as np.full does, so that NumPy does not pass on the call.
        return f"asyncgrad.numpy.{name} to keep it", _no_rule(function)
    return "NumPy's functions that have a rule to compute with it", _no_rule(function)


#: Functions that do nothing but make an array of what they are given.
_CONVERTING = ("array", "asanyarray", "asarray", "ascontiguousarray", "asfortranarray")

#: By the name of the operation, what to write instead of an array of a tensor, and what makes it.
_SUBSCRIPTS = {
    "[]": ("t.astype(int) for an index", "an index of an ndarray is an array of whole numbers, and "),
    "[]=": (
        "ag.asarray(array)[...] = t to keep it",
        "a write into an ndarray has no history, and ",
    ),
}


def _no_rule(function: str | None) -> str:
    return "" if function is None else f"{function} has no derivative rule, and "


def _has_rule(function: Any, has_rule: Callable[[Any], bool]) -> bool:
    try:
        return function is not None and has_rule(function)
    except TypeError:
        # It cannot be hashed.
        return False


def _is_random(call: Call | None) -> bool:
    if call is None:
        return False
    origins = (type(call.owner).__module__, getattr(call.function, "__module__", None), _class_module(call.function))
    if "default_rng()" in call.name or any(str(origin).startswith("numpy.random") for origin in origins):
        return True
    # Of a generator that another call or a container has given, nothing is known but the name of the method.
    method = call.name.rpartition(".")[2]
    # Looked up only here: NumPy imports its random numbers when they are first asked for.
    drawing = (np.random.Generator, np.random.RandomState)
    return call.function is None and any(hasattr(kind, method) for kind in drawing)


def _class_module(function: Any) -> str:
    return type(getattr(function, "__self__", None)).__module__


def _library_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frames of NumPy and of asyncgrad that lead to a conversion, innermost first."""
    while frame is not None and _root(frame) in ("numpy", "asyncgrad"):
        yield frame
        frame = frame.f_back


def _depth_of_list(frame: FrameType, tensor: Any) -> int:
    """Return how deep a tensor lies in a list that a function was given; 0 where it was given none.

    Args:
        frame: of the function that the user has called.
        tensor: the tensor.
    """
    code, given = frame.f_code, list[Any]()
    count = code.co_argcount + code.co_kwonlyargcount
    for name in code.co_varnames[:count]:
        value = frame.f_locals.get(name)
        # By NumPy's protocol, a method of tensors is given all arguments in one.
        if name in ("args", "kwargs") and code.co_name == "__array_function__":
            given += value.values() if isinstance(value, dict) else value or ()
        else:
            given.append(value)
    if code.co_flags & inspect.CO_VARARGS:
        given += frame.f_locals.get(code.co_varnames[count], ())
    return max([_depth(value, tensor) for value in given if isinstance(value, (list, tuple))], default=0)


def _depth(values: Any, tensor: Any) -> int:
    for value in values:
        if value is tensor:
            return 1
        if isinstance(value, (list, tuple)):
            depth = _depth(value, tensor)
            if depth:
                return depth + 1
    return 0


def _join(depth: int, function: str | None, known: Any, call: Call | None) -> tuple[str, str]:
    """Return what to write instead of a list that holds tensors, and what was given it.

    Args:
        depth: how deep the tensors lie in it.
        function: the name of the function of NumPy's; None if it is not NumPy's, or not known.
        known: the function, if it has a derivative rule and the list is its first argument, as far as is known.
        call: the call in the user's code.
    """
    joined = "np.stack([...])" if depth == 1 else "np.stack([np.stack(row) for row in rows])"
    instead = f"{joined} in place of the list"
    if function == "numpy.stack":
        instead = joined
    elif function is not None and known is not None and _takes_one(known):
        instead = f"{function.replace('numpy.', 'np.', 1)}({joined})"
    shown = function or (None if call is None else call.name)
    if shown is None:
        return f"{instead} to keep it", "NumPy makes an array of a list that holds tensors, and "
    if not shown[:1].isalpha():
        shown = f"the operator {shown}"
    return f"{instead} to keep it", f"{shown} got a list that holds tensors, of which NumPy makes an array, and "


def _takes_one(function: Any) -> bool:
    """Tell whether a function may be called with one argument, and with no less."""
    if isinstance(function, np.ufunc):
        return function.nin == 1
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return sum(one.default is one.empty and one.kind is not one.VAR_KEYWORD for one in parameters) == 1


def _is_numpys(function: Any) -> bool:
    """Tell whether a function is one of NumPy's main namespace."""
    name = getattr(function, "__name__", None)
    return isinstance(name, str) and function is not None and getattr(np, name, None) is function


def _of_method(name: str, tensor_type: type, has_rule: Callable[[Any], bool]) -> tuple[str, str]:
    """Return what to write instead of a method of an ndarray that was given a tensor, and what was."""
    if _has_rule(getattr(np, name, None), has_rule):
        instead = f"np.{name}(array, ...) to keep it"
    elif hasattr(tensor_type, name):
        instead = f"ag.asarray(array).{name}(...) to keep it"
    else:
        instead = "NumPy's functions to compute with it"
    return instead, f"ndarray.{name} computes with arrays alone, and "


def _resolved(function: str | None) -> Any:
    """Return the function of this name, such as numpy.linalg.det; None if there is none."""
    found: Any = sys.modules.get((function or "").partition(".")[0])
    for name in (function or "").split(".")[1:]:
        found = getattr(found, name, None)
    return found


def _of_scipy(path: str) -> str:
    """Return what to write instead of a function of SciPy's."""
    package, _, name = path.rpartition(".")
    # A method is named with its object or class, as in scipy.stats.norm.logpdf.
    if not hasattr(sys.modules.get(f"scipy.{package}"), name):
        package, _, name = path.rpartition(".")[0].rpartition(".")
    for path_here in (package, package.partition(".")[0]):
        found = _module_of_ours(path_here)
        if found is None:
            continue
        module = f"asyncgrad.scipy.{path_here}"
        # Names that are made when they are asked for are SciPy's own functions.
        names = set(dir(found)) & set(vars(found))
        wanted = name.partition(".")[0]
        # The class of a method may be SciPy's own affair, as _spbase is that of sparse arrays.
        for known in (wanted, path.rpartition(".")[2]):
            if known in names:
                return f"{module}.{known} to keep it"
        near = "".join(f", such as {one}," for one in close_names(wanted, names)[:1])
        return f"what {module} has{near} to keep it"
    return "the functions of asyncgrad.scipy to keep it"


def _module_of_ours(package: str) -> ModuleType | None:
    """Return the module of asyncgrad.scipy for a package of SciPy's; None if there is none."""
    try:
        found = import_deferred("scipy")
        for name in package.split("."):
            found = getattr(found, name, None)
    except ImportError:
        # Of a SciPy that is too old.
        return None
    return found if isinstance(found, ModuleType) else None


# --- numbers -----------------------------------------------------------------------------------------


def is_plain_conversion() -> bool:
    """Tell whether a number is asked for in so many words, or to be shown: by float(t), round(t, 2) or "%.3f" % t.

    Other callers, such as the functions of math, compute with the number that they ask for, and so do libraries. It is
    called by the method that is asked.
    """
    frame = sys._getframe(2)
    call = call_of(frame)
    if call is None:
        return False
    if call.name == "%":
        # No other operation asks a tensor on its right for a number.
        return True
    return call.function in (float, int, complex, round) and _root(frame) not in _COMPUTING


def number_advice() -> str:
    """Return what to write instead of converting a tensor to a number of Python.

    It is called by what the method that is asked calls.
    """
    call = call_of(sys._getframe(3))
    name = "" if call is None else str(getattr(call.function, "__name__", ""))
    if call is None:
        return "NumPy's functions to compute with it"
    if name and getattr(math, name, None) is call.function:
        near = _NUMPYS.get(name, name)
        known = f"np.{near}" if hasattr(np, near) else "NumPy's functions"
        return f"{known}, and not math.{name}, to compute with it"
    if call.name in _SUBSCRIPTS:
        return _SUBSCRIPTS[call.name][0]
    if isinstance(call.owner, np.ndarray):
        return "ag.asarray(array) in place of the array to keep it"
    return "NumPy's functions to compute with it"


#: NumPy's names of functions of math that have another one.
_NUMPYS = {"fsum": "sum", "fabs": "abs", "pow": "power", "atan2": "arctan2", "dist": "linalg.norm"}


# --- who asks ----------------------------------------------------------------------------------------


@functools.cache
def _libraries() -> tuple[str, ...]:
    """Return the folders that hold the code of libraries; code elsewhere is the user's."""
    # Imported here: messages alone need it, and it reads how Python was built.
    get_path = import_module("sysconfig").get_path
    return tuple({get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def _calling_function(frame: FrameType | None) -> str | None:
    """Return the name of the library function that the user called; None if the user's own code made this call.

    Args:
        frame: what asks for the conversion.
    """
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


#: The operators of sparse matrices that convert the operand on the right.
_SPARSE_OPERATORS = ("__matmul__", "__mul__", "__truediv__")


def is_asked_by_sparse_operator() -> bool:
    """Return whether SciPy converts a tensor for an operator of a sparse matrix on its left.

    Such an operator gives way to the operand on the right if that becomes an array of one object. It is called by the
    method that is asked for the conversion.
    """
    if "scipy.sparse" not in sys.modules:
        return False
    frame: FrameType | None = sys._getframe(2)
    # A method, such as `multiply`, would return NotImplemented to the user; the operator gives way.
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith("scipy.sparse."):
        if frame.f_code.co_name in _SPARSE_OPERATORS:
            return True
        frame = frame.f_back
    return False
