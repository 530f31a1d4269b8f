"""Whether a request of a stranger is one: its types and bounds, by its operation. The mirror of `replies`.

Fields that are not known here are left alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .payload import unpack
from .text import check_text
from .transport import MOST_LISTED, Request

__all__ = ["check_request"]

#: How long a name may be: of a stage, a call, a transaction.
_NAME = 256
#: How many numbers the key of an array of replicas may have: their round, and what else names it.
_GROUP_KEY = 16
#: How many replicas a group may have: of each something is remembered.
_REPLICAS = 4096
#: How many runs of a stage one backward may have.
_CONTRIBUTIONS = 1 << 14
#: How deep the lists and dicts of a request may be nested.
_DEPTH = 64
#: The integers of a request; beyond it they are no numbers of calls or steps.
_INTEGER = 1 << 63


def check_request(request: Request, allow_nonfinite: bool) -> None:
    """Raise unless a request says all that its operation needs, in the types that it needs.

    Args:
        request: what a client sent.
        allow_nonfinite: whether numbers among its fields may be NaN or infinite.

    Raises:
        TypeError, ValueError, LookupError: it does not.
    """
    for what, name in (("operation", request.op), ("stage", request.stage)):
        if len(name) > _NAME:
            raise ValueError(f"the name of its {what} has {len(name)} characters, and may have {_NAME}")
        check_text(name, f"the name of its {what}")
    _check_values(request.fields, allow_nonfinite, _DEPTH)
    needed = _NEEDED.get(request.op, {})
    if request.op not in _WITHOUT_STAGE:
        needed = {"attempt": _is_integer, **needed}
    for name in needed:
        if name not in request.fields:
            raise LookupError(f"{request.op!r} has no {name!r}")
    for name, value in request.fields.items():
        check = needed.get(name) or _KNOWN.get(name)
        if check is not None and not check(value):
            raise TypeError(f"{request.op!r} has a {name!r} that is none")
    if request.op == "forward":
        _check_forward(request)
    if request.op == "backward":
        wanted = request.fields["wants"]
        if any(not isinstance(one, bool) for one in wanted):
            raise TypeError("'wants' of 'backward' says true or false for each input")


def _check_forward(request: Request) -> None:
    fields = request.fields
    if len(fields["needs"]) != len(request.arrays) or any(one is None for one in request.arrays):
        raise TypeError(
            f"'forward' has {len(request.arrays)} arrays, and says {len(fields['needs'])} times what it needs"
        )
    if fields.get("params", 0):
        raise TypeError("'forward' brings parameters: those of a stage here are its owner's")
    unpack({"tuple": fields["inputs"]}, request.arrays)
    unpack(fields.get("keywords", {"dict": []}), request.arrays)


def _check_values(value: Any, allow_nonfinite: bool, depth: int) -> None:
    if depth < 0:
        raise ValueError(f"its fields are nested more than {_DEPTH} deep")
    if isinstance(value, float) and not allow_nonfinite and not math.isfinite(value):
        raise ValueError(f"it says {value!r}, and numbers are to be finite")
    if isinstance(value, int) and not -_INTEGER <= value < _INTEGER:
        raise ValueError("it says an integer of more than 64 bits")
    if isinstance(value, (list, dict)):
        for one in value if isinstance(value, list) else value.values():
            _check_values(one, allow_nonfinite, depth - 1)
    if isinstance(value, dict):
        for name in value:
            check_text(name, "the name of a field")
    elif isinstance(value, str):
        check_text(value, "what it says")


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _NAME


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= MOST_LISTED and all(map(_is_name, value))


def _are_integers(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_integer, value))


def _are_few_integers(value: Any) -> bool:
    # As many as a home tells at a time (test_no_list_of_a_request_is_longer_than_a_home_s).
    return _are_integers(value) and len(value) <= MOST_LISTED


def _is_group_key(value: Any) -> bool:
    return _are_integers(value) and 1 <= len(value) <= _GROUP_KEY


def _is_group_size(value: Any) -> bool:
    return _is_integer(value) and 1 <= value <= _REPLICAS


def _are_floors(value: Any) -> bool:
    return _are_integers(value) and len(value) == 2


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_contribution(value: Any) -> bool:
    match value:
        case [[first, second], order, key]:
            return _is_integer(first) and _is_integer(second) and _is_integer(order) and _is_name(key)
    return False


def _are_contributions(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= _CONTRIBUTIONS and all(map(_is_contribution, value))


def _is_dict(value: Any) -> bool:
    return isinstance(value, dict)


_Check = Callable[[Any], bool]

#: By the name of an operation, what it needs.
_NEEDED: dict[str, dict[str, _Check]] = {
    "create": {"attempt": _is_integer},
    "forward": {"key": _is_name, "inputs": _is_list, "needs": _is_list, "number": _is_integer},
    "backward": {
        "key": _is_name,
        "transaction": _is_integer,
        "contribution": _is_contribution,
        "wants": _is_list,
        "wants_params": _is_bool,
        "keep": _is_bool,
    },
    "cancel": {"key": _is_name},
    "free": {"keys": _are_names},
    "prepare": {"transaction": _is_integer, "contributions": _are_contributions},
    "commit": {"transaction": _is_integer, "contributions": _are_contributions},
    "roll_back": {"transaction": _is_integer},
    "step": {"effect": _is_integer, "options": _is_dict, "zero_grad": _is_bool, "wants_state": _is_bool},
    "zero_grad": {"effect": _is_integer, "wants_state": _is_bool},
    "restore": {"effect": _is_integer, "state": _is_dict, "wants_state": _is_bool},
    "outcome": {"effects": _are_few_integers, "wants_state": _is_bool},
    "load_state": {"effects": _are_few_integers, "state": _is_dict},
    "all_reduce": {"rank": _is_integer, "size": _is_group_size, "key": _is_group_key},
    "abort": {"rank": _is_integer, "size": _is_group_size, "round": _is_integer, "reason": _is_name},
}

#: What is not asked of a stage, or of it whatever attempt has brought it here.
_WITHOUT_STAGE = frozenset(("ping", "all_reduce", "abort", "drop"))

#: What is known of fields that any operation may have.
_KNOWN: dict[str, _Check] = {
    "key": _is_name,
    "transaction": _is_integer,
    "secret": _is_name,
    "finish": _are_few_integers,
    "dead": _are_few_integers,
    "floors": _are_floors,
    "task": _is_integer,
    "attempt": _is_integer,
    "known": _is_integer,
    "number": _is_integer,
    "params": _is_integer,
}
