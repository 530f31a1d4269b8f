"""What users' tests want too: derivatives checked against finite differences."""

from .gradient_check import gradcheck as gradcheck
from .gradient_check import gradgradcheck as gradgradcheck

__all__ = ["gradcheck", "gradgradcheck"]
