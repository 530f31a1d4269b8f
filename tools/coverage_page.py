"""Write docs/coverage.md: what asyncgrad does with each function of NumPy and of SciPy.

`python -m tools.coverage_page` writes it from the rules; tests/core/ops/test_coverage_page.py holds it to be current.
"""

from __future__ import annotations

import importlib
import inspect
import pathlib
import types
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy

import asyncgrad as ag
import asyncgrad.numpy.polynomial
import asyncgrad.scipy
from asyncgrad.core.ops.nondifferentiable import NONDIFFERENTIABLE, SAVING, NonDifferentiable
from asyncgrad.core.recording.primitive import RULES
from asyncgrad.scipy.unsupported import LEFT_OUT, advice_on

__all__ = ["PAGE", "VERSION", "kind_of", "page"]

PAGE = pathlib.Path(__file__).parent.parent / "docs" / "coverage.md"
#: Which functions there are differs from one version of NumPy, and of SciPy, to the next.
VERSION = " and SciPy ".join(".".join(version.split(".")[:2]) for version in (np.__version__, scipy.__version__))

#: They write into their first argument.
WRITERS = (np.copyto, np.fill_diagonal, np.place, np.put, np.put_along_axis, np.putmask)
MODULES = {"numpy": np, "numpy.linalg": np.linalg, "numpy.fft": np.fft, "numpy.emath": np.emath}

_HERMITIAN = "the gradient of a Hermitian matrix is Hermitian; else it lies in the triangle that is read"
_VECTORS = "raises if the loss depends on phases, or on single vectors of equal values"
#: What is said of functions that are constant only in part, and of those whose derivative is a matter of convention.
NOTES: dict[Callable[..., Any], str] = {
    np.linalg.cholesky: "the gradient is Hermitian",
    np.linalg.eig: _VECTORS,
    np.linalg.eigh: f"{_HERMITIAN}; {_VECTORS}",
    np.linalg.eigvalsh: _HERMITIAN,
    np.linalg.svd: f"{_VECTORS}, or on vectors that belong to no value",
    np.linalg.qr: "raises if the loss depends on columns that are an arbitrary complement",
    np.linalg.norm: "of vectors, and with ord='fro': 0 where all elements are 0",
    **dict.fromkeys((np.absolute, np.fabs), "0 at 0"),
    **dict.fromkeys((np.maximum, np.minimum), "elements that are equal share the gradient"),
    **dict.fromkeys((np.fmax, np.fmin), "equal elements: the first takes the gradient; never a nan beside a number"),
    np.clip: "the gradient passes at the bounds too",
    **dict.fromkeys((np.max, np.min, np.amax, np.amin), "elements that are equal share the gradient"),
    **dict.fromkeys((np.std, np.nanstd), "0 where all elements are equal"),
    **dict.fromkeys((np.histogram, np.histogram2d, np.histogramdd), "by the weights, and of edges and densities"),
    np.full_like: "the value must not require grad: write `np.broadcast_to`",
    np.sign: "of complex numbers: differentiable",
}

#: By module of SciPy, the modules in it that have functions of their own.
_INNER = {"sparse": ("linalg",), "spatial": ("distance",)}
#: Kinds of parameters that have no name of their own.
_COLLECTING = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)

#: Functions without a rule, by the reason.
WITHOUT_RULE = {
    "makes an array of what is no tensor; `asyncgrad.numpy` has it with Tensors as results": (
        *(
            "arange",
            "bartlett",
            "blackman",
            "diag_indices",
            "empty",
            "eye",
            "fftfreq",
            "fromfunction",
            "full",
            "hamming",
        ),
        *("hanning", "identity", "indices", "kaiser", "mask_indices", "ones", "rfftfreq", "tri", "tril_indices"),
        *("triu_indices", "zeros"),
    ),
    "makes an ndarray, which has no history: it raises for a tensor that requires grad. Write `np.stack([x, y])`, "
    "`ag.asarray(x)`, or the function of `asyncgrad.numpy`": (
        *("array", "asanyarray", "asarray", "asarray_chkfinite", "ascontiguousarray", "asfortranarray", "from_dlpack"),
        *("frombuffer", "fromiter", "require"),
    ),
    "is about types, shapes or text, and takes no tensor": (
        *("base_repr", "binary_repr", "broadcast_shapes", "format_float_positional", "format_float_scientific"),
        *("isdtype", "isfortran", "isscalar", "issubdtype", "iterable", "mintypecode", "promote_types", "typename"),
    ),
    "reads a file or a text": ("fromfile", "fromregex", "fromstring", "genfromtxt", "load", "loadtxt"),
    "is about dates, which no tensor holds": (
        *("busday_count", "busday_offset", "datetime_as_string", "datetime_data", "is_busday", "isnat"),
    ),
    "makes a matrix, a class that NumPy advises against": ("asmatrix", "bmat"),
    "sets or shows how NumPy works": (
        *(
            "frompyfunc",
            "get_include",
            "get_printoptions",
            "getbufsize",
            "geterr",
            "geterrcall",
            "info",
            "nested_iters",
        ),
        *(
            "printoptions",
            "set_printoptions",
            "setbufsize",
            "seterr",
            "seterrcall",
            "show_config",
            "show_runtime",
            "test",
        ),
    ),
    "is deprecated": ("row_stack",),
}
REASONS: dict[str, str] = {name: reason for reason, names in WITHOUT_RULE.items() for name in names}

INTRODUCTION = """# What is differentiable

This page is for readers who want to know whether a function of NumPy or SciPy is differentiable, and what to write
instead where one is not. Written by `tools/coverage_page.py` for NumPy {version}: do not change it by hand.

- **differentiable**: to any order, by NumPy's function on tensors and by the same name in `asyncgrad.numpy`; for
  complex numbers too, or an error says that it is a function of real numbers. Where a derivative does not exist at a
  point, as for equal eigenvalues, the backward raises an error that says why.
- **constant**: NumPy's values as a tensor without history, since the derivative is zero or the result does not depend
  on the values.
- **writes**: into its argument, which is recorded.
- **refused**: it has no rule, for the reason that is given; on a tensor it raises an error.

| module | differentiable | constant | writes | refused |
|---|---|---|---|---|
"""


def kind_of(function: Callable[..., Any]) -> str:
    """Return what asyncgrad does with a function of NumPy: a word of the introduction of the page."""
    if function in (*NONDIFFERENTIABLE, *SAVING, np.full_like, np.sign):
        return "constant"
    if function in WRITERS:
        return "writes"
    return "differentiable" if function in RULES else "refused"


def page() -> str:
    """Return the page."""
    counts, tables = [], []
    for path, module in MODULES.items():
        functions = dict(_functions(module))
        kinds = Counter(map(kind_of, functions.values()))
        columns = " | ".join(str(kinds[kind]) for kind in ("differentiable", "constant", "writes", "refused"))
        counts.append(f"| `{path}` | {columns} |\n")
        rows = [f"| `{name}` | {kind_of(function)} | {_note(name, function)} |" for name, function in functions.items()]
        head = [f"\n## {path}\n", "| function | kind | remark |", "|---|---|---|"]
        tables.append("\n".join([*head, *rows, ""]))
    methods = sorted(name for name in dir(np.ndarray) if hasattr(ag.Tensor, name) and not name.startswith("_"))
    lacking = sorted(name for name in dir(np.ndarray) if not hasattr(ag.Tensor, name) and not name.startswith("_"))
    return (
        INTRODUCTION.format(version=VERSION)
        + "".join(counts)
        + "".join(tables)
        + "\n## Methods and attributes of tensors\n\n"
        + f"As of an ndarray: {_listed(methods)}.\n\nOf an ndarray alone: {_listed(lacking)}.\n"
        + _polynomials()
        + _special_functions()
        + _scipy_modules()
    )


def _polynomials() -> str:
    """Return what is said of the functions of numpy.polynomial."""
    lines, classes = [], []
    for name in asyncgrad.numpy.polynomial.__all__:
        found = getattr(asyncgrad.numpy.polynomial, name)
        if isinstance(found, types.ModuleType):
            lines.append(f"- `asyncgrad.numpy.polynomial.{name}`: {_listed(dir(found))}\n")
        else:
            classes.append(name)
    return (
        "\n## numpy.polynomial\n\nNumPy's own functions and classes make an array of coefficients; those of "
        "`asyncgrad.numpy.polynomial`, by NumPy's names, take and return tensors, and are differentiable by "
        "coefficients, points, roots and values.\n\n"
        + "".join(lines)
        + f"- `asyncgrad.numpy.polynomial`: {_listed(classes)}\n"
    )


def _special_functions() -> str:
    """Return what is said of the functions of scipy.special, which are too many for a table."""
    ours = importlib.import_module("asyncgrad.scipy.special")
    kinds: dict[str, list[str]] = {"differentiable": [], "constant": [], "refused": []}
    for name in sorted(set(scipy.special.__all__)):
        function = getattr(scipy.special, name)
        rule = RULES.get(function) if isinstance(function, np.ufunc) else _written_in(ours, name)
        if isinstance(function, np.ufunc) or rule is not None:
            kinds["refused" if rule is None else "constant" if _is_constant(rule) else "differentiable"].append(name)
    return (
        "\n## scipy.special\n\nSciPy's ufuncs are differentiable as they stand, and all functions by the same name in "
        "`asyncgrad.scipy.special`. Where one has no derivative by an argument, as by a whole number or by an order, "
        "none flows to it, or the backward raises an error that names it.\n\n"
        f"Differentiable: {_listed(kinds['differentiable'])}.\n\nConstant: {_listed(kinds['constant'])}.\n\n"
        f"Refused on tensors: {_listed(kinds['refused'])}.\n"
    )


def _written_in(package: types.ModuleType, name: str) -> Any:
    """Return what a module of a package has under a name, or None: the package itself makes the other names anew."""
    found = vars(package).get(name)
    home = inspect.unwrap(found) if callable(found) else found
    return found if getattr(home, "__module__", "").startswith(f"{package.__name__}.") else None


def _is_constant(rule: Any) -> bool:
    return isinstance(rule, NonDifferentiable)


def _scipy_modules() -> str:
    """Return what the modules of asyncgrad.scipy have beside the special functions."""
    lines = []
    for name in asyncgrad.scipy.__all__:
        found = getattr(asyncgrad.scipy, name)
        if isinstance(found, types.ModuleType) and name != "special":
            lines.append(f"- `asyncgrad.scipy.{name}`: {_listed(sorted(_public_names(found)))}\n")
            for module in (f"{name}.{inner}" if inner else name for inner in ("", *_INNER.get(name, ()))):
                lines.extend(f"  - {_listed(names)}: {advice}\n" for advice, names in _left_out(module))
                lines.extend(f"  - `{one}` without {_listed(given)}\n" for one, given in _without_parameters(module))
    return (
        "\n## The other modules of SciPy\n\nSciPy's own functions convert a tensor to an array; those of "
        "`asyncgrad.scipy`, by SciPy's names, take and return tensors. Below each module are the names that it does "
        "not have, and what to write instead, and the functions that lack parameters of SciPy's. What differs beside "
        "that is found by SciPy's own tests: see [scipy.md](scipy.md#what-differs).\n\n" + "".join(lines)
    )


def _left_out(module: str) -> Iterator[tuple[str, list[str]]]:
    """Yield what to write instead of names that a module does not have, and the names."""
    found: dict[str, list[str]] = {}
    theirs, ours = (importlib.import_module(f"{package}.{module}") for package in ("scipy", "asyncgrad.scipy"))
    for name in sorted({*theirs.__all__, *LEFT_OUT.get(module, ())} - set(ours.__all__)):
        advice = LEFT_OUT.get(module, {}).get(name) or advice_on(module, name)
        if advice is not None and hasattr(theirs, name):
            found.setdefault(advice.replace("{module}", module).replace("{name}", "…"), []).append(name)
    yield from found.items()


def _without_parameters(module: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the functions of a module that lack parameters of SciPy's, and these."""
    theirs, ours = (importlib.import_module(f"{package}.{module}") for package in ("scipy", "asyncgrad.scipy"))
    for name in sorted(set(ours.__all__) & set(theirs.__all__)):
        try:
            has, given = (inspect.signature(getattr(one, name)).parameters for one in (ours, theirs))
        except (TypeError, ValueError):
            # A type of C says nothing of its arguments.
            continue
        takes_any = any(one.kind is one.VAR_KEYWORD for one in has.values())
        lacking = [one for one in given if one not in has and given[one].kind not in _COLLECTING]
        if lacking and not takes_any:
            yield name, lacking


def _public_names(module: types.ModuleType) -> Iterator[str]:
    """Yield the names of a module, and those of the modules in it after theirs and a dot."""
    for name in module.__all__:
        thing = getattr(module, name)
        if isinstance(thing, types.ModuleType):
            yield from (f"{name}.{inner}" for inner in _public_names(thing))
        else:
            yield name


def _functions(module: types.ModuleType) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in sorted(dir(module)):
        thing = getattr(module, name)
        if callable(thing) and not name.startswith("_") and not isinstance(thing, type):
            yield name, thing


def _note(name: str, function: Callable[..., Any]) -> str:
    if function in NOTES:
        return NOTES[function]
    if function in SAVING:
        return "writes a file"
    return REASONS[name] if kind_of(function) == "refused" else ""


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    PAGE.write_text(page())
