"""Checks of request bodies; an error tells the client what is wrong, and where."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np

#: The largest magnitude of a number, so that sums of squares stay far from infinity.
LARGEST = 1e6


@final
class Refusal(Exception):
    """Raised to answer a request with an HTTP status of 4xx or 5xx and a text."""

    def __init__(self, status: int, text: str, **headers: str) -> None:
        super().__init__(text)
        self.status, self.text, self.headers = status, text, headers


@final
@dataclass(frozen=True)
class Limits:
    """Limits of the service: bytes of a body, time steps, seconds of learning, and concurrent connections."""

    body: int = 128 * 1024
    steps: int = 1024
    seconds: float = 10.0
    connections: int = 256


def document(body: bytes, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the JSON object in a body, which has all required fields, maybe optional ones, and no others.

    Raises:
        Refusal: 400 if the body is not JSON, 422 if it is other JSON.
    """
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise Refusal(400, f"the body is not JSON: {reason}") from None
    fields = " and ".join(required)
    if not isinstance(found, dict):
        raise Refusal(422, f"the body must be a JSON object with {fields}, and is {_kind(found)}")
    for name in required:
        if name not in found:
            raise Refusal(422, f"{name} is missing: the body must be a JSON object with {fields}")
    for name in found:
        if name not in required + optional:
            raise Refusal(422, f"there is no field {name[:40]!r}, only {', '.join(required + optional)}")
    return found


def matrix(name: str, rows: Any, width: int, most: int) -> np.ndarray:
    """Return rows of `width` finite numbers each as an array of shape (steps, width).

    Raises:
        Refusal: 422; the text names the row or the number.
    """
    if not isinstance(rows, list) or not rows:
        what = "an empty array" if rows == [] else _kind(rows)
        raise Refusal(422, f"{name} must be an array of rows of {width} numbers, one for each time step, and is {what}")
    if len(rows) > most:
        raise Refusal(422, f"{name} has {len(rows)} rows, and at most {most} are taken at once")
    for index, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != width:
            what = f"an array of {len(row)}" if isinstance(row, list) else _kind(row)
            raise Refusal(422, f"{name}[{index}] must be an array of {width} numbers, and is {what}")
        for place, number in enumerate(row):
            if type(number) not in (int, float):  # True is an int too
                raise Refusal(422, f"{name}[{index}][{place}] must be a number, and is {_kind(number)}")
            if not -LARGEST <= number <= LARGEST:  # true for NaN as well
                raise Refusal(422, f"{name}[{index}][{place}] must lie within ±{LARGEST:g}, and is {_short(number)}")
    return np.array(rows, np.float64)


def seconds(found: dict[str, Any], most: float) -> float:
    """Return the timeout that a request asks for, or `most` if it has none.

    Raises:
        Refusal: 422 if it is not a number above 0 and at most `most`.
    """
    asked = found.get("timeout", most)
    if type(asked) not in (int, float) or not 0 < asked <= most:
        what = _short(asked) if type(asked) in (int, float) else _kind(asked)
        raise Refusal(422, f"timeout must be a number of seconds above 0 and at most {most:g}, and is {what}")
    return float(asked)


def _short(number: float) -> str:
    """Return a number as short text; an integer may have thousands of digits."""
    if isinstance(number, int):
        return str(number) if abs(number) < 10**15 else f"an integer of {number.bit_length()} bits"
    return str(number) if math.isfinite(number) else {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(number)]


def _kind(value: Any) -> str:
    """Return the kind of a JSON value, in JSON's terms."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    for kind, name in ((str, "a string"), (list, "an array"), (dict, "an object")):
        if isinstance(value, kind):
            return name
    return "a number"
