"""What to write for a name that users of PyTorch look for in `asyncgrad`; imported where one is missing."""

from __future__ import annotations

import numpy as np

__all__ = ["instead_of"]

#: Names of torch that neither asyncgrad nor NumPy has.
_INSTEAD = {
    "Generator": "np.random.Generator",
    "autograd": "ag.grad, ag.Function and others: asyncgrad itself has them",
    "bmm": "np.matmul",
    "cat": "np.concatenate",
    "compile": "ag.compiled_autograd",
    "cuda": 'ag.device("cuda:0")',
    "from_numpy": "ag.asarray",
    "as_tensor": "ag.asarray",
    "inference_mode": "ag.no_grad",
    "load": "pickle, or nn.load_safetensors",
    "manual_seed": "ag.random.seed",
    "mm": "np.matmul",
    "multinomial": "asyncgrad.numpy.random.default_rng(seed).choice",
    "rand": "asyncgrad.numpy.random.default_rng(seed).random",
    "randint": "asyncgrad.numpy.random.default_rng(seed).integers",
    "randn": "asyncgrad.numpy.random.default_rng(seed).standard_normal",
    "randperm": "asyncgrad.numpy.random.default_rng(seed).permutation",
    "relu": "ag.nn.relu",
    "save": "pickle, or nn.save_safetensors",
    "set_default_dtype": "ag.default_dtype",
    "sigmoid": "ag.nn.sigmoid",
    "softmax": "ag.nn.softmax",
}


def instead_of(name: str) -> str | None:
    """Return what to write for a name that `asyncgrad` does not have, or None."""
    if name in _INSTEAD:
        return _INSTEAD[name]
    return f"np.{name}" if hasattr(np, name) else None
