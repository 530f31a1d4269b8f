"""The options of a group as formulas read them: numbers of NumPy, arrays and tensors as those of Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.arrays.tensor_base import TensorBase
from ..core.arrays.values import raw
from ..core.tree.registry import PLAIN

__all__ = ["plain_options"]


def plain_options(group: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a group with each number as one of Python; the group itself where they are.

    So a rate has one meaning whatever it comes as: it rounds with the parameters, and not in a dtype of its own, and
    can be compared and hashed. An array or a tensor stays in the group itself, and may be written into between steps.

    Args:
        group: the options, and the parameters under "params".

    Example:
        >>> import numpy as np
        >>> plain_options({"params": [], "lr": np.array(0.5), "betas": (np.float32(0.75), 0.5)})
        {'params': [], 'lr': 0.5, 'betas': (0.75, 0.5)}
    """
    params = group["params"]
    for value in group.values():
        # Each step looks at each option, without a function's frame.
        if type(value) in PLAIN or value is params:
            continue
        if type(value) is not tuple or not PLAIN.issuperset(map(type, value)):
            break
    else:
        return group
    return {name: value if name == "params" else _plain(value) for name, value in group.items()}


def _plain(value: Any) -> Any:
    if type(value) in (tuple, list):
        return tuple(map(_plain, value))
    if isinstance(value, TensorBase) and not value._requires_grad():
        value = raw(value)
    if not isinstance(value, (np.ndarray, np.generic)) or value.size != 1 or value.dtype.kind not in "fiu":
        return value
    # A long double is its own item.
    return float(value.item()) if value.dtype.kind == "f" else int(value.item())
