"""What Tesseracts say and are told: arrays as JSON, the names of arrays in a tree, and what a schema declares."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np
import numpy.typing as npt

from ..core.settings.arguments import describe
from ..errors import ArgumentTypeError
from .json_server import JsonServer

__all__ = ["Keys", "Schema", "decode", "encode", "is_array", "map_leaves", "schema_of"]

#: The keys and indices that lead to a leaf of a tree.
Keys: TypeAlias = tuple[object, ...]

#: The kinds of numbers that an array may have, by the name that NumPy and the protocol share.
_DTYPES = {
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
}


@final
class Schema(NamedTuple):
    """What a Tesseract declares.

    Attributes:
        endpoints: what can be asked.
        inputs: the names of what it can be differentiated by, with [] and {} for any index and key.
        outputs: the names of what can be differentiated.
    """

    endpoints: frozenset[str]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def input_path(self, keys: Keys) -> str | None:
        """Return what the protocol calls an input; None where it is not differentiable."""
        return _path(keys, self.inputs)

    def output_path(self, keys: Keys) -> str | None:
        """Return what the protocol calls an output; None where it is not differentiable."""
        return _path(keys, self.outputs)


def schema_of(server: JsonServer, document: Any) -> Schema:
    """Return what the OpenAPI document of a server declares."""
    try:
        of_apply = document["paths"]["/apply"]["post"]
        content = of_apply["requestBody"]["content"], of_apply["responses"]["200"]["content"]
        names = [next(iter(one.values()))["schema"]["$ref"].rpartition("/")[2] for one in content]
        inputs, outputs = (document["components"]["schemas"][name].get("differentiable_arrays", {}) for name in names)
        return Schema(frozenset(path[1:] for path in document["paths"]), tuple(inputs.keys()), tuple(outputs.keys()))
    except (LookupError, TypeError, AttributeError, StopIteration):
        server.complain("/openapi.json", "the schema of a Tesseract", document)


def _path(keys: Keys, patterns: Sequence[str]) -> str | None:
    found = (_fit(keys, pattern.split(".")) for pattern in patterns)
    return next((path for path in found if path is not None), None)


def _fit(keys: Keys, pattern: Sequence[str]) -> str | None:
    """Return the path by which a pattern calls what the keys lead to; None where it means something else."""
    if len(keys) != len(pattern):
        return None
    parts = []
    for key, part in zip(keys, pattern, strict=True):
        if isinstance(key, int):
            fits, name = part == "[]", f"[{key}]"
        elif part == "{}":
            fits, name = True, "{" + re.sub(r"([{}\\])", r"\\\1", str(key)) + "}"
        else:
            fits, name = part == key, part
        if not fits:
            return None
        parts.append(name)
    return ".".join(parts)


def map_leaves(tree: Any, is_leaf: Callable[[Any], bool], make: Callable[[Keys, Any], Any], keys: Keys = ()) -> Any:
    """Return a tree of dicts and lists with what `make(keys, leaf)` returns in place of each leaf."""
    if is_leaf(tree):
        return make(keys, tree)
    if isinstance(tree, Mapping):
        return {key: map_leaves(value, is_leaf, make, (*keys, key)) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [map_leaves(value, is_leaf, make, (*keys, index)) for index, value in enumerate(tree)]
    return tree


def encode(array: npt.NDArray[Any]) -> dict[str, object]:
    """Return an array as the protocol has it.

    Raises:
        ArgumentTypeError: it has none of the kinds of numbers that the protocol has.
    """
    if array.dtype.name not in _DTYPES:
        raise ArgumentTypeError(
            f"a Tesseract takes arrays of bools, and of numbers up to int64, float64 and complex128, not "
            f"{describe(array)}: write a.astype(float), or a.tolist()"
        )
    data = base64.b64encode(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()).decode()
    return {
        "object_type": "array",
        "shape": list(array.shape),
        "dtype": array.dtype.name,
        "data": {"buffer": data, "encoding": "base64"},
    }


def is_array(found: object) -> bool:
    """Tell whether it stands for an array."""
    return isinstance(found, dict) and found.get("object_type") == "array"


def decode(server: JsonServer, path: str, found: Any) -> npt.NDArray[Any]:
    """Return the array that a reply has; one that lies in a file of the server's is not read."""
    try:
        shape, dtype, data = tuple(found["shape"]), found["dtype"], found["data"]
        if dtype in _DTYPES and all(type(size) is int and size >= 0 for size in shape):
            # NumPy would read numbers in text.
            if data["encoding"] == "json" and np.array(data["buffer"]).dtype.kind not in "US":
                return np.array(data["buffer"], dtype).reshape(shape)
            if data["encoding"] == "base64":
                raw = base64.b64decode(data["buffer"], validate=True)
                if len(raw) == math.prod(shape) * np.dtype(dtype).itemsize:
                    return np.frombuffer(raw, np.dtype(dtype).newbyteorder("<")).astype(dtype).reshape(shape)
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        server.complain(path, f"arrays of numbers, as JSON or base64 ({error})", found)
    return server.complain(path, "arrays of numbers, as JSON or base64", found)
