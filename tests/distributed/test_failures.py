"""Errors of hosts arrive as they were raised there."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncgrad.distributed.failures import describe_error, restore_error
from asyncgrad.errors import RemoteError


def raised(function: Callable[[], Any]) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011  # each case raises its own
        function()
    return caught.value


@pytest.mark.parametrize("dumps", [pickle.dumps, None], ids=["pickled", "described"])
@pytest.mark.parametrize(
    "fails",
    [
        lambda: Path("/there/is/none").read_text(),
        lambda: {"a": 1}["key"],
        lambda: b"\xff".decode(),
        lambda: json.loads("{"),
        lambda: 1 / 0,
        lambda: int("a"),
        lambda: next(iter(())),
        lambda: np.multiply(np.array("text"), 1.0),
    ],
    ids=[
        *("OSError", "KeyError", "UnicodeDecodeError", "JSONDecodeError", "ZeroDivisionError", "ValueError", "empty"),
        "UFuncTypeError",
    ],
)
def test_an_error_arrives_with_its_type_and_text(fails, dumps):
    there = raised(fails)

    here = restore_error(json.loads(json.dumps(describe_error(there, dumps))), "worker-1", pickle.loads)

    # JSON has no bytes to make a UnicodeDecodeError of, and no ufunc, without which NumPy's error has no text.
    is_whole = dumps is not None or not (isinstance(there, UnicodeDecodeError) or hasattr(there, "ufunc"))
    assert type(here) is (type(there) if is_whole else RemoteError)
    assert str(there) in str(here)
    assert "worker-1" in here.__notes__[-1]
    assert "test_failures.py" in here.__notes__[-1]


@pytest.mark.parametrize("dumps", [pickle.dumps, None], ids=["pickled", "described"])
def test_no_error_of_a_host_ends_a_loop_at_home(dumps):
    error = restore_error(describe_error(StopAsyncIteration("all is done"), dumps), "worker-1", pickle.loads)

    assert type(error) is RemoteError
    assert str(error) == "builtins.StopAsyncIteration: all is done"
