"""Whether a reply from another owner is one: what it must say, by the request that it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .payload import unpack
from .transport import Reply, Request

__all__ = ["checked"]


def checked(request: Request, reply: Reply) -> Reply:
    """Return a reply that says all that the request needs.

    Raises:
        TypeError, LookupError: it does not.
    """
    fields = reply.fields
    if not isinstance(fields, dict):
        raise TypeError(f"its fields are {type(fields).__name__}")
    if (error := fields.get("error")) is not None:
        _check_types(error, _ERROR, "its error")
        return reply
    _check_types(fields, _STATE if request.fields.get("wants_state") else _FIELDS.get(request.op, {}), "it")
    check = _CHECKS.get(request.op)
    if check is not None:
        check(request, reply)
    return reply


def _check_types(fields: Any, kinds: Mapping[str, Any], what: str) -> None:
    if not isinstance(fields, dict):
        raise TypeError(f"{what} is {type(fields).__name__}")
    for name, kind in kinds.items():
        if name not in fields:
            raise LookupError(f"{what} has no {name!r}")
        if not isinstance(fields[name], kind):
            raise TypeError(f"{what} has {name!r} of type {type(fields[name]).__name__}")


_ERROR = {"type": str, "module": str, "args": list, "text": str, "notes": list, "traceback": str}

_STATE = {"state": dict, "version": int, "effects": list}

#: By the name of a request, the types of what its reply must say.
_FIELDS: dict[str, dict[str, Any]] = {
    "create": {"parameters": int, "kept": bool, "version": int},
    "forward": {"outputs": object, "differentiable": list},
    "backward": {"seconds": (int, float)},
    "prepare": {"missing": list},
    "commit": {"missing": list, "version": int},
    "load_state": {"version": int},
    "outcome": {"applied": list},
    "state": _STATE,
    "abort": {"aborted": bool},
}


def _check_forward(_: Request, reply: Reply) -> None:
    if len(reply.fields["differentiable"]) != len(reply.arrays) or any(one is None for one in reply.arrays):
        raise TypeError(f"it has {len(reply.arrays)} outputs, and says {reply.fields['differentiable']} of them")
    _check_skeleton(reply.fields["outputs"], reply)


def _check_backward(request: Request, reply: Reply) -> None:
    wanted = sum(map(bool, request.fields["wants"]))
    if len(reply.arrays) != wanted:
        raise TypeError(f"it has {len(reply.arrays)} gradients, and {wanted} were asked for")


def _check_missing(request: Request, reply: Reply) -> None:
    if not all(one in request.fields["contributions"] for one in reply.fields["missing"]):
        raise TypeError(f"it misses {reply.fields['missing']}, of which it was told nothing")


def _check_state(_: Request, reply: Reply) -> None:
    _check_skeleton(reply.fields["state"], reply)


def _check_skeleton(skeleton: Any, reply: Reply) -> None:
    try:
        unpack(skeleton, reply.arrays)
    except ValueError as error:
        raise TypeError(f"it has no tree of arrays: {error}") from None


_CHECKS: dict[str, Callable[[Request, Reply], None]] = {
    "forward": _check_forward,
    "backward": _check_backward,
    "prepare": _check_missing,
    "commit": _check_missing,
    "state": _check_state,
}
