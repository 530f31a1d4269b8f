"""What a node returned is brought into the form that the next one takes, or refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.core.graph.metadata import conform
from asyncgrad.errors import GradientTypeError, InvalidGradientError
from asyncgrad.graph import Edge, InputMetadata
from tests.support.nodes import PassingNode

CPU = ag.device("cpu")


def conformed(value: Any, shape: tuple[int, ...], dtype: Any = np.float64) -> Any:
    consumer = PassingNode([], [InputMetadata(shape, np.dtype(dtype), CPU)])
    producer = PassingNode([Edge(consumer, 0)])
    return conform(producer, 0, consumer, 0, value)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ((5, 2), (2,)),
        ((5, 2), (1, 2)),
        ((5, 2), (5, 1)),
        ((5, 2), ()),
        ((7,), (1,)),
        ((4, 3, 2), (3, 1)),
        ((0, 2), (2,)),
    ],
    ids=str,
)
def test_a_gradient_is_summed_to_the_shape_of_its_input(given, wanted):
    value = np.arange(float(np.prod(given))).reshape(given)
    result = conformed(value, wanted)

    assert result.shape == wanted
    # Each element of the input was used for all the elements of the output that were summed.
    np.testing.assert_array_equal(np.broadcast_to(result, given).sum(), value.sum() * np.prod(given) / np.prod(wanted))
    assert float(result.sum()) == float(value.sum())


@pytest.mark.parametrize(
    ("given", "wanted"), [((1,), (2,)), ((), (2,)), ((2, 1), (2, 3)), ((3,), (3, 1)), ((4,), (3,))], ids=str
)
def test_a_gradient_is_never_expanded(given, wanted):
    with pytest.raises(InvalidGradientError) as caught:
        conformed(np.ones(given), wanted)

    message = str(caught.value)
    assert message.startswith(f"PassingNode returned a gradient of shape {given} for input 0, which has shape {wanted}")
    assert "Node #" in message


@pytest.mark.parametrize("shape", [(2,), (1, 2), ()], ids=str)
def test_a_matrix_is_taken_as_an_array(shape):
    result = conformed(np.array([[1.0, 2.0]]).view(np.matrix), shape)

    assert type(result) is np.ndarray
    assert result.shape == shape


def test_a_transposed_gradient_gets_a_hint():
    with pytest.raises(InvalidGradientError, match=r"Did the rule forget a transpose\?"):
        conformed(np.ones((3, 2)), (2, 3))


@pytest.mark.parametrize("given", [np.float64, np.float16, np.int64, np.bool_])
def test_a_gradient_is_cast_to_the_dtype_of_its_input(given):
    result = conformed(np.ones(2, given), (2,), np.float32)

    assert result.dtype == np.float32
    assert result.tolist() == [1.0, 1.0]


def test_a_complex_gradient_of_a_real_input_keeps_its_real_part():
    result = conformed(np.array([1.0 + 2.0j, 3.0 - 1.0j]), (2,))

    assert result.dtype == np.float64
    assert result.tolist() == [1.0, 3.0]


def test_a_real_gradient_of_a_complex_input_becomes_complex():
    assert conformed(np.ones(1), (1,), np.complex128).dtype == np.complex128


@pytest.mark.parametrize("value", [2, 2.0, True, np.float32(2.0)])
def test_a_number_is_a_gradient_without_axes(value):
    result = conformed(value, (), np.float64)

    assert result.dtype == np.float64
    assert float(result) == float(value)


@pytest.mark.parametrize("value", ["text", [1.0], object()], ids=["str", "list", "object"])
def test_what_is_no_array_is_refused(value):
    with pytest.raises(GradientTypeError, match=r"^PassingNode returned .*, which is no array for input 0"):
        conformed(value, (2,))


def test_an_array_of_objects_is_refused():
    with pytest.raises(InvalidGradientError, match="a gradient of dtype object"):
        conformed(np.array(["a", "b"], dtype=object), (2,))


def test_a_gradient_that_fits_is_not_copied():
    value = np.ones(3)

    assert conformed(value, (3,)) is value


def test_an_input_without_metadata_takes_anything():
    consumer = PassingNode()

    assert conform(PassingNode([Edge(consumer, 0)]), 0, consumer, 0, "anything") == "anything"


@pytest.mark.parametrize("create_graph", [False, True])
async def test_gradients_that_meet_are_cast_before_they_are_summed(create_graph):
    """A float32 input sums in float32, whatever the nodes above returned."""

    class Wide(ag.Function):
        @staticmethod
        def forward(ctx, x):
            return x.numpy().copy()

        @staticmethod
        def backward(ctx, grad):
            return np.full(1, 1.0 + 2.0**-30)

    x = ag.tensor(np.ones(1, np.float32), requires_grad=True)
    out = np.add(Wide.apply(x), Wide.apply(x))

    (found,) = await ag.grad(out, x, create_graph=create_graph)

    assert found.dtype == np.float32
    assert found.item() == 2.0
