"""Modules and functions of PyTorch as nodes, asyncgrad's functions in PyTorch, and state dicts of both.

Needs PyTorch: `pip install 'asyncgrad[torch]'`.
"""

from .torch_autograd import as_autograd_function as as_autograd_function
from .torch_modules import TorchFunction as TorchFunction
from .torch_modules import TorchModule as TorchModule
from .torch_modules import wrap as wrap
from .torch_states import from_torch_state_dict as from_torch_state_dict
from .torch_states import to_torch_state_dict as to_torch_state_dict

__all__ = [
    "TorchFunction",
    "TorchModule",
    "as_autograd_function",
    "from_torch_state_dict",
    "to_torch_state_dict",
    "wrap",
]
