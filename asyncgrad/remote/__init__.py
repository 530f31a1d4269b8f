"""Doors to solvers that are served over HTTP: models of UM-Bridge, and Tesseracts, as differentiable functions.

A model is made of an `httpx.AsyncClient` of yours, which has the address, the timeouts, the certificates and the number
of connections. Nothing that a server sends is run or unpickled, and replies have a limit.
"""

from typing import TYPE_CHECKING

from ..core.settings.lazy import attach

if TYPE_CHECKING:
    from . import tesseract as tesseract
    from . import umbridge as umbridge

__all__ = ["tesseract", "umbridge"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(__name__, {"": ["tesseract", "umbridge"]})
