"""Checkpointing: keep the inputs of a part of the forward, and compute the rest again when the backward needs it."""

from .chain import checkpoint_chain as checkpoint_chain
from .checkpoint import checkpoint as checkpoint
from .checkpoint import checkpoint_sequential as checkpoint_sequential

__all__ = ["checkpoint", "checkpoint_chain", "checkpoint_sequential"]
