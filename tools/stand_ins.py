"""Stand-ins for libraries that are not installed, so that the reference has the pages of the modules that need them.

They are Sphinx's mock objects, of which signatures and docstrings need no more than the names.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from sphinx.ext.autodoc.mock import mock

__all__ = ["MODULES", "import_modules"]

#: The libraries that a module of asyncgrad imports as soon as it is imported itself.
MODULES = {"asyncgrad.interop.torch": ("torch",), "asyncgrad.interop.jax": ("jax", "jaxlib")}


def import_modules() -> None:
    """Import each of these modules, with stand-ins for what is not installed."""
    for module, libraries in MODULES.items():
        with mock([library for library in libraries if find_spec(library) is None]):
            import_module(module)
