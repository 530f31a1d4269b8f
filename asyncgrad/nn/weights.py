"""Saving and loading of weights in files of safetensors, which PyTorch and others read and write too."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ..core.settings.arguments import describe, must_be, takes
from ..core.settings.extras import missing_extra
from ..core.settings.files import replacing
from ..core.tensor import Tensor, asarray
from ..errors import ArgumentError, ArgumentTypeError
from .modules.module import Module

__all__ = ["load_safetensors", "save_safetensors"]

#: The dtypes of safetensors, by its names; "BF16" is widened to float32, since NumPy has no bfloat16.
_DTYPES: dict[str, Any] = {
    "BOOL": np.bool_,
    "U8": np.uint8,
    "I8": np.int8,
    "U16": np.uint16,
    "I16": np.int16,
    "U32": np.uint32,
    "I32": np.int32,
    "U64": np.uint64,
    "I64": np.int64,
    "F16": np.float16,
    "F32": np.float32,
    "F64": np.float64,
    "C64": np.complex64,
}


def save_safetensors(
    model: Module | Mapping[str, object], path: str | os.PathLike[str], metadata: Mapping[str, str] | None = None
) -> None:
    """Write the state dict of a model into a file, whole or not at all: an older file stays if writing fails.

    Args:
        model: a module, or a dict of tensors and arrays by name.
        path: the name of the file.
        metadata: texts to write along.

    Raises:
        ImportError: safetensors is not installed.
        ArgumentTypeError: an entry is neither a tensor nor an array, or its name is no text.
        ArgumentError: the format has no such dtype.

    Source: https://github.com/huggingface/safetensors, `save_file`.
    """
    safetensors = _import_safetensors()
    state = model.state_dict() if isinstance(model, Module) else model
    if not isinstance(state, Mapping):
        raise ArgumentTypeError(takes("save_safetensors", "a module or a dict of tensors", state))
    for name in state:
        if not isinstance(name, str):
            raise ArgumentTypeError(f"the tensors in a file have names, and {describe(name)} is none")
    arrays = {name: _as_contiguous(name, value) for name, value in state.items()}
    with replacing(Path(path)) as file:
        safetensors.numpy.save_file(arrays, Path(file.name), None if metadata is None else dict(metadata))


def load_safetensors(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Return the tensors in a file by name, for `model.load_state_dict`; bfloat16 becomes float32.

    Args:
        path: the name of the file, which PyTorch may have written.

    Raises:
        ImportError: safetensors is not installed.
        FileNotFoundError: there is no such file.
        ArgumentError: the file is none of safetensors, or has a dtype that NumPy has not.

    Source: https://github.com/huggingface/safetensors, `load_file`.
    """
    safetensors = _import_safetensors()
    content = Path(path).read_bytes()
    try:
        entries = safetensors.deserialize(content)
    except safetensors.SafetensorError as error:
        raise ArgumentError(f"{os.fspath(path)} is no file of safetensors, or is damaged: {error}") from error
    return {name: asarray(_as_array(name, entry)) for name, entry in entries}


def _import_safetensors() -> Any:
    # Here, and not at the top, since few programs need it.
    try:
        import_module("safetensors.numpy")
        return import_module("safetensors")
    except ImportError as error:
        raise missing_extra("files of safetensors need the package safetensors", "safetensors", error=error) from error


def _as_contiguous(name: str, value: Any) -> Any:
    array = value.detach().to("cpu").numpy() if isinstance(value, Tensor) else value
    if not isinstance(array, (np.ndarray, np.generic)):
        raise ArgumentTypeError(must_be(name, "a tensor or an array", value))
    # In the byte order of the format, and in memory of its own order.
    array = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(np.shape(array))
    if array.dtype.type not in _DTYPES.values():
        known = ", ".join(np.dtype(one).name for one in _DTYPES.values())
        raise ArgumentError(f"{name} has the dtype {array.dtype}, and files of safetensors have {known} only")
    return array


def _as_array(name: str, entry: Mapping[str, Any]) -> Any:
    kind, shape, data = entry["dtype"], entry["shape"], entry["data"]
    if kind == "BF16":
        # A bfloat16 is the upper half of a float32.
        return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4").astype(np.float32).reshape(shape)
    if kind not in _DTYPES:
        raise ArgumentError(f"{name} has the dtype {kind}, which NumPy has not")
    return np.frombuffer(data, np.dtype(_DTYPES[kind]).newbyteorder("<")).astype(_DTYPES[kind]).reshape(shape)
