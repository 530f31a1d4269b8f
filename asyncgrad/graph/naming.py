"""What errors and notes call a node and a hook."""

from __future__ import annotations

import functools
from typing import Any

__all__ = ["identify", "name_hook", "place_of"]


def identify(node: Any) -> str:
    """Say which node it is, by name and sequence number."""
    return f"{node.name} (node #{node.sequence_nr})"


def place_of(node: Any) -> str:
    """Say where a node is, by sequence number and device."""
    return f"node #{node.sequence_nr}" if node.device is None else f"node #{node.sequence_nr}, device '{node.device}'"


def name_hook(hook: Any) -> str:
    """Say which hook it is: by the function that a partial calls, or by its class where it has no name."""
    while isinstance(hook, functools.partial):
        hook = hook.func
    return f"hook {getattr(hook, '__qualname__', type(hook).__name__)}"
