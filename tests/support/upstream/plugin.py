"""A plugin of pytest that runs a library's own tests with asyncgrad beside: see `tests/programs/test_upstream.py`.

What the tests say themselves is of no interest, only the differences that are noted; they are written as JSON.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import time
import types
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .wrappers import ComparedModule, Notes, compared_class, compared_function

_POLYNOMIALS = (
    "numpy.polynomial",
    *(f"numpy.polynomial.{basis}" for basis in ("polynomial", "chebyshev", "legendre", "hermite", "hermite_e")),
    "numpy.polynomial.laguerre",
)
#: By module of a library, that with asyncgrad's functions; NumPy's own do what a tensor among their arguments says.
COUNTERPARTS = {
    **{name: name for name in ("numpy", "numpy.linalg", "numpy.fft")},
    **{name: f"asyncgrad.{name}" for name in _POLYNOMIALS},
    **{
        f"scipy.{name}": f"asyncgrad.scipy.{name}"
        for name in (
            *("fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "special", "stats"),
            *("spatial", "spatial.distance", "sparse", "sparse.linalg"),
        )
    },
}

#: Of values, relative: what searches for a solution ends near it.
_TOLERANCES = {"scipy.optimize": 1e-4, "scipy.integrate.solve_ivp": 1e-3, "scipy.integrate.odeint": 1e-3}

_NOTES = Notes(tolerances=_TOLERANCES)
#: By identity of a function of a library: it, and what stands in for it.
_STAND_INS: dict[int, tuple[Any, Any]] = {}
_MODULES: dict[str, types.ModuleType] = {}


#: The types of what a tensor among the arguments decides about.
_DISPATCHERS = (np.ufunc, type(np.sum))
#: Copies, which tensors are made of, share no memory; and what is not filled holds anything.
_ABOUT_MEMORY = {"empty_like", "may_share_memory", "shares_memory"}


def _fill() -> None:
    for name in os.environ.get("ASYNCGRAD_UPSTREAM_MODULES", " ".join(COUNTERPARTS)).split():
        library, ours = importlib.import_module(name), importlib.import_module(COUNTERPARTS[name])
        for one in getattr(library, "__all__", dir(library)):
            original, counterpart = getattr(library, one, None), getattr(ours, one, None) if one in dir(ours) else None
            is_taken = isinstance(original, _DISPATCHERS) if library is ours else counterpart is not original
            if not callable(original) or counterpart is None or not is_taken or id(original) in _STAND_INS:
                continue
            if one in _ABOUT_MEMORY:
                continue
            if not inspect.isclass(original):
                made = compared_function(_NOTES, f"{name}.{one}", original, counterpart)
            elif not issubclass(original, (Exception, tuple)):
                made = compared_class(_NOTES, f"{name}.{one}", original, counterpart)
            else:
                continue
            _STAND_INS[id(original)] = (original, made)


def _replaced(value: Any) -> Any:
    """Return what stands in for a function, a class or a module of a library; others as they are."""
    if isinstance(value, types.ModuleType):
        name = value.__name__
        if name in ("scipy", *COUNTERPARTS):
            return _MODULES.setdefault(name, ComparedModule(value, _replaced))
        return value
    original, made = _STAND_INS.get(id(value), (None, value))
    return made if original is value else value


def pytest_configure(config: pytest.Config) -> None:
    """Take the limits from the environment, and make what stands in."""
    _NOTES.most = int(os.environ.get("ASYNCGRAD_UPSTREAM_MOST", "1000"))
    _NOTES.slowest = float(os.environ.get("ASYNCGRAD_UPSTREAM_SLOWEST", "1"))
    _NOTES.largest = float(os.environ.get("ASYNCGRAD_UPSTREAM_LARGEST", "inf"))
    _NOTES.has_jitter = os.environ.get("ASYNCGRAD_UPSTREAM_JITTER") == "1"
    _NOTES.has_second = os.environ.get("ASYNCGRAD_UPSTREAM_SECOND") == "1"
    _NOTES.deadline = time.monotonic() + float(os.environ.get("ASYNCGRAD_UPSTREAM_SECONDS", "inf"))
    _fill()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep a share of the tests, always the same, and have their modules call what stands in."""
    share = float(os.environ.get("ASYNCGRAD_UPSTREAM_SHARE", "1"))
    numbers = {id(one): zlib.crc32(one.nodeid.encode()) for one in items}
    # Where time runs out, some of every file have been run.
    items[:] = sorted([one for one in items if numbers[id(one)] < share * 2**32], key=lambda one: numbers[id(one)])
    for module in {one.getparent(pytest.Module).obj for one in items if one.getparent(pytest.Module) is not None}:  # type: ignore[union-attr]
        for name, value in list(vars(module).items()):
            made = _replaced(value)
            if made is not value:
                setattr(module, name, made)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: Any) -> None:
    """Replace functions that are parameters of a test."""
    _NOTES.test = pyfuncitem.nodeid
    if time.monotonic() > _NOTES.deadline:
        pytest.skip("there is no time left")
    for name, value in pyfuncitem.funcargs.items():
        pyfuncitem.funcargs[name] = _replaced(value)


def pytest_sessionfinish() -> None:
    """Write what differs."""
    found = {
        f"{name} | {kind}": {"count": count, "examples": _NOTES.examples[name, kind]}
        for (name, kind), count in sorted(_NOTES.counts.items())
    }
    report = {"calls": dict(_NOTES.calls), "differences": found}
    Path(os.environ["ASYNCGRAD_UPSTREAM_REPORT"]).write_text(json.dumps(report, indent=1))
