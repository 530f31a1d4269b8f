"""What a message may cost its reader, and keep alive, whoever sent it."""

import contextlib
import json

import numpy as np
import pytest

from asyncgrad.distributed.finite import check_inputs
from asyncgrad.distributed.wire import decode, encode
from asyncgrad.errors import ArgumentError
from tests.support.cpu_time import least_cpu_seconds


def message_of(*specs, **head):
    """A message whose head says what it likes of its arrays."""
    text = json.dumps({**head, "arrays": specs}).encode()
    return bytearray(len(text).to_bytes(16, "little") + text + bytes(-len(text) % 16 + 16))


def memory_of(array):
    """How many bytes an array keeps alive."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    base = array.base if array.base is not None else array
    return memoryview(base).nbytes


@pytest.mark.parametrize(
    "spec",
    [
        *(
            ["<f8", [1], [[0], [0, 0], [1]]],
            ["<f8", [1], [[0], [0] * 80_000, [1]]],
            ["<f8", [], [[], [0] * 80_000, []]],
        ),
        *(["<f8", [1], [[0] * 80_000, [], [1]]], ["<f8", [1], [[0], [], [1] * 80_000]]),
        *(["<f8", [1 << 62] * 40_000, None], ["<f8", [1] * 80_000, None], ["<f8", [1 << 63], None]),
        *(["f8," * 100_000, [1], None], [[["f8"] * 2] * 50_000, [1], None], [{"names": ["a"] * 90_000}, [1], None]),
    ],
    ids=lambda spec: json.dumps(spec)[:40],
)
def test_a_list_of_axes_that_no_array_has_is_refused_at_once(spec):
    message = message_of(spec)

    def refused():
        with pytest.raises(ArgumentError, match="no message of a stage") as caught:
            decode(message)
        assert len(str(caught.value)) < 300

    # JSON alone takes some milliseconds of it. Read on, some take 200 ms, and one 7 s.
    assert least_cpu_seconds(refused) < 0.1


@pytest.mark.parametrize("array", [np.ones(1), np.ones((3, 2)).T, np.broadcast_to(np.ones(1), (4,)), np.array(2.0)])
def test_a_small_array_keeps_no_head_alive(array):
    message = bytearray(encode({"text": "x" * (1 << 19)}, [array]))

    (found,) = decode(message)[1]

    assert memory_of(found) <= 64
    assert found.tolist() == array.tolist()
    assert (found.flags.aligned, found.strides) == (True, array.strides)


def test_a_large_array_shares_the_memory_of_its_message():
    message = bytearray(encode({"text": "x"}, [np.ones(1000)]))

    (found,) = decode(message)[1]

    assert np.shares_memory(found, np.frombuffer(message, np.uint8))


@pytest.mark.parametrize("kind", ["<f2", "<c16"])
@pytest.mark.parametrize("value", [1.0, np.nan, np.inf])
def test_what_is_looked_at_for_nan_is_what_was_sent(kind, value):
    sent = np.array([[1.0], [value]], kind)
    message = bytearray(encode({}, [np.broadcast_to(sent, (2, 1 << 24))]))
    (array,) = decode(message)[1]

    def checked():
        with contextlib.nullcontext() if np.isfinite(value) else pytest.raises(ArgumentError, match="NaN or infinity"):
            check_inputs([array], "it")

    # Of all elements that its shape says it takes more.
    assert least_cpu_seconds(checked) < 0.02
