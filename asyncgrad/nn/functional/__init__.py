"""The functions of neural networks, each with its derivative; `nn/modules` has the modules of a topic."""

from typing import TYPE_CHECKING

from ...core.settings.lazy import name_advisor

if not TYPE_CHECKING:
    # Its names are shown by `asyncgrad.nn`, which the errors say.
    __getattr__ = name_advisor(__name__)
