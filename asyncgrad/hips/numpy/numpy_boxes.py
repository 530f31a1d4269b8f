"""The class of arrays that are being differentiated, by HIPS autograd's name."""

from ...core.tensor import Tensor

__all__ = ["ArrayBox"]

ArrayBox = Tensor
