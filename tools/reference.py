"""The pages of the reference, one for each public namespace: every public name, with its docstring.

`pages()` gives the text that Sphinx's autodoc fills in; `tools/docs_site.py` builds the site from it. It walks the live
package, since `asyncgrad.numpy` and `asyncgrad.scipy.special` make most of their names when they are imported.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import sys
import textwrap
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

import asyncgrad
from tools.coverage_page import kind_of

__all__ = [
    "GIVEN",
    "as_restructured_text",
    "derivative_of",
    "is_ours",
    "kinds",
    "page_of",
    "pages",
    "public_names",
]

#: The order in which a reader may want the names of `ag`. A name that is not here comes under "More".
GROUPS = {
    "Tensors": ("Tensor", "tensor", "asarray", "default_dtype"),
    "Gradients": ("backward", "grad", "value_and_grad", "vjp", "jvp", "vhp", "hvp", "jacobian", "hessian"),
    "Derivatives of your own": ("Function", "once_differentiable", "gradcheck", "gradgradcheck"),
    "Modes": ("no_grad", "enable_grad", "set_grad_enabled", "is_grad_enabled", "detect_anomaly"),
    "Memory": ("checkpoint", "checkpoint_sequential", "checkpoint_chain", "no_full_collections"),
    "Running": ("run", "forward", "workers", "loop_budget", "offload_threshold", "compiled_autograd"),
    "Devices": ("device", "default_device"),
    "Seeing": ("profile", "visualize", "summary", "progress"),
}
#: The kinds of layers and functions of `asyncgrad.nn`, each of which has a page: by the file that they stand in.
KINDS = {
    "module": "Modules",
    "containers": "Containers",
    "linear": "Linear layers",
    "convolution": "Convolutions",
    "pooling": "Pooling",
    "activations": "Activations",
    "normalization": "Normalization",
    "dropout": "Dropout",
    "embeddings": "Embeddings",
    "recurrent": "Recurrent layers",
    "attention": "Attention and transformers",
    "losses": "Losses",
    "distances": "Distances",
    "shapes": "Shapes, padding and resizing",
    "order_statistics": "Order and indices",
    "lazy": "Lazy layers",
    "weights": "Files of weights",
}
#: Files that share the page of another.
_SHARED = {
    "adaptive": "losses",
    "alignments": "losses",
    "backward_hooks": "module",
    "class_losses": "losses",
    "folding": "shapes",
    "multi_head": "attention",
    "parameters": "module",
    "resizing": "shapes",
    "sampling": "shapes",
    "scattering": "order_statistics",
    "softmaxes": "activations",
    "transformer": "attention",
    "uninitialized": "lazy",
    "unpooling": "pooling",
}

#: Classes whose instances a program gets and does not make: their entries show no constructor.
GIVEN = frozenset(
    {
        "asyncgrad.Function",
        "asyncgrad.Tensor",
        "asyncgrad.data.Batches",
        "asyncgrad.distributed.Collective",
        "asyncgrad.distributed.Transport",
        "asyncgrad.engine.BackwardDescription",
        "asyncgrad.engine.BatchStatistics",
        "asyncgrad.engine.Engine",
        "asyncgrad.engine.EngineDescription",
        "asyncgrad.engine.ExecInfo",
        "asyncgrad.engine.GraphTask",
        "asyncgrad.engine.LimitStatistics",
        "asyncgrad.engine.LockDescription",
        "asyncgrad.engine.NodeDescription",
        "asyncgrad.engine.QueueDescription",
        "asyncgrad.engine.SignalDump",
        "asyncgrad.engine.Statistics",
        "asyncgrad.engine.Step",
        "asyncgrad.engine.StepCallbackHandle",
        "asyncgrad.extend.Primitive",
        "asyncgrad.graph.AccumulateGrad",
        "asyncgrad.graph.CopyBackwards",
        "asyncgrad.graph.CopySlices",
        "asyncgrad.graph.GraphSummary",
        "asyncgrad.graph.LeafSummary",
        "asyncgrad.graph.RemovableHandle",
        "asyncgrad.graph.SavedTensor",
        "asyncgrad.graph.Store",
        "asyncgrad.graph.ViewFunc",
        "asyncgrad.learn.FollowerStatistics",
        "asyncgrad.learn.Statistics",
        "asyncgrad.numpy.ndarray",
        "asyncgrad.testing.SimulatedArray",
    }
)

#: Kinds of nodes, whose members are those of every Node, and what the engine alone calls.
_NODES = ("AccumulateGrad", "CopyBackwards", "CopySlices")
#: The option of an entry whose value says nothing to a reader.
_NO_VALUE = "   :no-value:\n"
#: Classes that are too large to share a page.
SEPARATE = {"asyncgrad.Tensor": "Tensor", "asyncgrad.graph.Node": "Node"}
#: Namespaces that have the names of NumPy and SciPy, which have their pages by those of asyncgrad.
_BORROWED = ("asyncgrad.hips.numpy", "asyncgrad.hips.scipy")
#: Namespaces that repeat names of others.
_REPEATING = ("asyncgrad.extend", "asyncgrad.functional")


def is_ours(thing: object) -> bool:
    """Whether a function, a class or a module is asyncgrad's, and not one of NumPy or SciPy that it passes on."""
    home = thing.__name__ if isinstance(thing, types.ModuleType) else getattr(thing, "__module__", None)
    return isinstance(home, str) and (home == "asyncgrad" or home.startswith("asyncgrad."))


@functools.cache
def _names(module: types.ModuleType) -> list[str]:
    """Return what a namespace offers, without modules whose library is not installed, such as `interop.torch`.

    Raises:
        ImportError: of anything else, which would leave out a page in silence.
    """
    return [name for name in module.__all__ if _is_there(module, name)]


def _is_there(module: types.ModuleType, name: str) -> bool:
    try:
        getattr(module, name)
    except ImportError as error:
        if "asyncgrad[" not in str(error):
            raise
        return False
    return True


@functools.cache
def namespaces() -> dict[str, types.ModuleType]:
    """Return every public namespace by its name: `asyncgrad`, and what its namespaces offer in turn."""
    found: dict[str, types.ModuleType] = {}

    def walk(module: types.ModuleType) -> None:
        found[module.__name__] = module
        for name in _names(module):
            thing = getattr(module, name)
            is_module = isinstance(thing, types.ModuleType) and is_ours(thing) and hasattr(thing, "__all__")
            if is_module and thing.__name__ not in _BORROWED:
                walk(thing)

    walk(asyncgrad)
    return dict(sorted(found.items()))


@functools.cache
def public_names() -> dict[str, Any]:
    """Return everything public by its full name, `asyncgrad.nn.relu` say, but for the namespaces themselves."""
    return {
        f"{space}.{name}": getattr(module, name)
        for space, module in namespaces().items()
        for name in _names(module)
        if f"{space}.{name}" not in namespaces()
    }


@functools.cache
def _homes() -> dict[int, str]:
    """Return, by the identity of each thing of ours, the one of its names that has the entry."""
    found: dict[int, str] = {}
    for name, thing in sorted(public_names().items(), key=_rank):
        if is_ours(thing) and callable(thing):
            found.setdefault(id(thing), name)
    return found


def _rank(item: tuple[str, object]) -> tuple[bool, int, str]:
    name, _ = item
    return name.startswith(_REPEATING), name.count("."), name


def summary(thing: object) -> str:
    """Return the first sentence of a docstring, on one line."""
    text = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
    return re.split(r"(?<=[^.][.])\s(?=[A-Z`])", text)[0]


def pages() -> dict[str, str]:
    """Return the text of each page by its name, in reStructuredText."""
    found = {name: _page(name, module) for name, module in namespaces().items()}
    network = namespaces()["asyncgrad.nn"]
    for kind, names in kinds().items():
        entries = "".join(_entry(network, name) for name in names)
        head = ".. py:currentmodule:: asyncgrad.nn\n\n"
        title = _title(f"ag.nn: {KINDS[kind].lower()}")
        found[f"asyncgrad.nn-{kind}"] = title + head + _overview("asyncgrad.nn", network, names) + entries
    for name in SEPARATE:
        space, _, short = name.rpartition(".")
        entry = _entry(importlib.import_module(space), short)
        found[name] = f"{_title(_shown(name))}.. py:currentmodule:: {space}\n\n{entry}"
    return found


@functools.cache
def kinds() -> dict[str, list[str]]:
    """Return the names of `asyncgrad.nn` by kind, layers ahead of functions."""
    space = namespaces()["asyncgrad.nn"]
    found: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for name in _names(space):
        if f"asyncgrad.nn.{name}" in namespaces():
            continue
        file = getattr(space, name).__module__.rpartition(".")[2]
        found[_SHARED.get(file, file)].append(name)
    return found


def _introduction(module: types.ModuleType) -> str:
    """Return the docstring of a module, in the markup of docutils."""
    lines: list[str] = []
    text, _, example = (inspect.getdoc(module) or "").partition("\nExample:\n")
    for line in text.splitlines():
        is_code = line.startswith((" ", ">>>"))
        lines.append(line if is_code else as_restructured_text(line))
    if example:
        lines += ["", ".. rubric:: Example", "", *textwrap.dedent(example).splitlines()]
    return f".. py:module:: {module.__name__}\n\n" + "\n".join(lines) + "\n\n"


def as_restructured_text(line: str) -> str:
    """Return a line of a docstring, which is written as Markdown is, in the markup of docutils."""
    parts = re.split(r"(`[^`]*`)", line)  # text, code, text ...
    for at in range(0, len(parts), 2):
        text = re.sub(r"(?<=\w)_(?!\w)", r"\_", parts[at])
        text = re.sub(r"\bdocs/([\w-]+)\.md\b", r":doc:`/\1`", text)
        parts[at] = rf"\ {text}" if at and text[:1].isalnum() else text  # `async def`s
    return "".join(parts)


def _page(space: str, module: types.ModuleType) -> str:
    parts = [_title(_shown(space)), _introduction(module)]
    inner = [name for name in _names(module) if f"{space}.{name}" in namespaces()]
    if inner:
        rows = [(f":doc:`{_shown(f'{space}.{name}')} <{space}.{name}>`", getattr(module, name)) for name in inner]
        parts.append(_title("Namespaces", "-") + _table([(link, summary(thing)) for link, thing in rows]))
    for heading, names in _groups(space, module):
        parts.append(_title(heading, "-"))
        parts.append(_overview(space, module, names))
        if space == "asyncgrad.nn":
            continue  # the entries stand on the pages of their kinds
        parts.extend(_entry(module, name) for name in names if f"{space}.{name}" not in SEPARATE)
    return "".join(parts)


def _groups(space: str, module: types.ModuleType) -> Iterator[tuple[str, list[str]]]:
    """Yield the headings of a page with their names."""
    names = [name for name in _names(module) if f"{space}.{name}" not in namespaces()]
    if space == "asyncgrad":
        for heading, members in GROUPS.items():
            if found := [name for name in members if name in names]:
                yield heading, found
        if rest := [name for name in names if not any(name in members for members in GROUPS.values())]:
            yield "More", rest
        return
    if space == "asyncgrad.nn":
        yield from ((KINDS[kind], found) for kind, found in kinds().items())
        return
    passed_on = [name for name in names if not is_ours(getattr(module, name))]
    ours = [name for name in names if name not in passed_on]
    classes = [name for name in ours if isinstance(getattr(module, name), type)]
    functions = [name for name in ours if name not in classes]
    headings = ("Exceptions" if space.endswith(".errors") else "Classes", classes), ("Functions", functions)
    yield from ((heading, found) for heading, found in headings if found)
    if passed_on:
        yield (
            ("Passed on as they are" if space.startswith(("asyncgrad.numpy", "asyncgrad.scipy")) else "Constants"),
            passed_on,
        )


def _overview(space: str, module: types.ModuleType, names: list[str]) -> str:
    """Return what stands above the entries: a table, or where the sentences say nothing, a list of links."""
    links = [f":py:obj:`{name} <{space}.{name}>`" for name in names]
    told = [is_ours(getattr(module, name)) and summary(getattr(module, name)) for name in names]
    if sum(bool(text) and not str(text).startswith("The function `") for text in told) * 2 < len(names):
        return ", ".join(links) + "\n\n"
    return _table([(link, text or "") for link, text in zip(links, told, strict=True)])


def _entry(module: types.ModuleType, name: str) -> str:
    """Return the directive that makes the entry of one name."""
    thing, space = getattr(module, name), module.__name__
    if not is_ours(thing):
        return f".. py:data:: {name}\n\n   {_passed_on(space, name, thing)}\n\n"
    home = _homes().get(id(thing), f"{space}.{name}")
    if home != f"{space}.{name}":
        return f".. py:data:: {name}\n\n   The same as :py:obj:`{_shown(home)} <{home}>`.\n\n"
    if not isinstance(thing, type):
        if isinstance(thing, types.ModuleType):
            return f".. py:data:: {name}\n\n   The module `{thing.__name__}`.\n\n"
        if callable(thing):
            return f".. autofunction:: {space}.{name}\n\n"
        return f".. autodata:: {space}.{name}\n{_NO_VALUE if repr(thing).startswith('<') else ''}\n"
    kind = "autoexception" if issubclass(thing, BaseException) else "autoclass"
    if issubclass(thing, asyncgrad.graph.Node) and name in _NODES:
        return f".. autoclass:: {space}.{name}\n\n"
    stops = ", ".join(dict.fromkeys(_stops(thing)))
    return f".. {kind}:: {space}.{name}\n   :members:\n   :inherited-members: {stops}\n\n"


def _stops(cls: type) -> Iterator[str]:
    """Yield the bases whose members are told elsewhere: those with an entry of their own, and Python's and NumPy's."""
    for base in cls.__mro__[1:]:
        if id(base) in _homes() or not is_ours(base):
            yield base.__name__


def _passed_on(space: str, name: str, thing: object) -> str:
    if isinstance(thing, types.ModuleType):
        page = page_of(f"{space}.{name}")
        return (
            f"The module `{thing.__name__} <{page}>`__, as it is."
            if page
            else f"The module `{thing.__name__}`, as it is."
        )
    if space.startswith(("asyncgrad.numpy", "asyncgrad.scipy")):
        owner = f"{space.replace('asyncgrad.', '', 1)}.{name}"
        link = f"`{owner} <{theirs}>`__" if (theirs := page_of(f"{space}.{name}")) else f"`{owner}`"
        return f"{link}, as it is." if name != "SCIPY_VERSION" else f"The version of SciPy: `{thing!r}` here."
    if isinstance(thing, tuple):
        return f"A tuple of {len(thing)}: " + ", ".join(f"`{getattr(one, '__name__', one)}`" for one in thing) + "."
    return f"`{thing!r}`"


_MISSING = object()
#: Where NumPy describes the modules that are passed on.
_NUMPY_MODULES = {
    **{
        name: f"reference/routines.{name}.html"
        for name in ["char", "ctypeslib", "dtypes", "emath", "exceptions", "lib", "ma", "rec", "strings", "testing"]
    },
    "f2py": "f2py/index.html",
    "typing": "reference/typing.html",
}


def page_of(name: str) -> str | None:
    """Return where NumPy or SciPy describes what a name of `asyncgrad.numpy` or `asyncgrad.scipy` stands for."""
    space, _, short = name.rpartition(".")
    owner = space.replace("asyncgrad.", "", 1)
    library = owner.partition(".")[0]
    theirs = getattr(sys.modules.get(owner), short, _MISSING)
    if library not in ("numpy", "scipy") or theirs is _MISSING:
        return None
    if isinstance(theirs, types.ModuleType):
        place = _NUMPY_MODULES.get(short) if owner == "numpy" else None
        return f"https://numpy.org/doc/stable/{place}" if place else None
    if library == "scipy":
        return f"https://docs.scipy.org/doc/scipy/reference/generated/{owner}.{short}.html"
    home = "https://numpy.org/doc/stable/reference"
    if isinstance(theirs, type) and issubclass(theirs, np.generic):
        return f"{home}/arrays.scalars.html#numpy.{theirs.__name__}"
    if isinstance(theirs, float | types.NoneType):
        return f"{home}/constants.html#numpy.{short}"
    if owner == "numpy.random":
        is_class = isinstance(theirs, type)
        return f"{home}/random/index.html" if is_class else f"{home}/random/generated/numpy.random.{short}.html"
    has_page = callable(theirs) or short in ("c_", "mgrid", "ogrid", "r_", "s_")
    return f"{home}/generated/{owner}.{short}.html" if has_page else None


def derivative_of(name: str) -> str:
    """Return what is said of the derivative of a function of `asyncgrad.numpy`, or nothing."""
    space, _, short = name.rpartition(".")
    theirs = {"asyncgrad.numpy": np, "asyncgrad.numpy.linalg": np.linalg, "asyncgrad.numpy.fft": np.fft}.get(space)
    function = getattr(theirs, short, None)
    if function is None or not callable(function):
        return ""
    return {
        "differentiable": "Differentiable to any order.",
        "constant": "Its results have no history.",
        "writes": "Writes into its argument, which is recorded.",
    }.get(kind_of(function), "")


def _table(rows: list[tuple[str, str]]) -> str:
    lines = [".. list-table::", "   :widths: 30 70", "   :class: overview", ""]
    for link, text in rows:
        lines += [f"   * - {link}", f"     - {text}"]
    return "\n".join(lines) + "\n\n"


def _title(text: str, line: str = "=") -> str:
    return f"{text}\n{line * len(text)}\n\n"


def _shown(name: str) -> str:
    """Return a name as a program writes it: `ag.grad`."""
    return re.sub(r"^asyncgrad\.(?!numpy|scipy)", "ag.", name)
