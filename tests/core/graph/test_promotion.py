"""ag.warn_on_promotion: warns where an operation on a tensor gives a wider dtype, and nowhere else."""

from __future__ import annotations

import asyncio
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.errors import PromotionWarning
from tests.support.functions import Doubled
from tests.support.leaves import random_leaf
from tests.support.loops import one_loop
from tests.support.versions import needs_numpy

WIDE = np.array([[1.0, 2.0], [3.0, 4.0]])


def narrow() -> Any:
    return random_leaf(2, 2, dtype=np.float32)


def warnings_of(operation: Callable[[Any], Any], x: Any = None) -> list[warnings.WarningMessage]:
    x = narrow() if x is None else x
    with warnings.catch_warnings(record=True) as caught, ag.warn_on_promotion():
        warnings.simplefilter("always")
        operation(x)
    return list(caught)


#: Operations on a float32 tensor that give float64, what is told of the wider operand, and what to write.
PROMOTING: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "a number of NumPy's": (lambda h: h / np.sqrt(2), "a float64 number 1.414", "float(...)"),
    "one on the left": (lambda h: np.sqrt(2) * h, "a float64 number 1.414", "float(...)"),
    "an array": (lambda h: h * WIDE, "a float64 array of shape (2, 2)", ".astype(np.float32)"),
    "a tensor": (lambda h: h + ag.tensor(WIDE), "a float64 tensor of shape (2, 2)", ".astype(np.float32)"),
    "whole numbers": (lambda h: h * np.arange(2), "an int64 array of shape (2,)", ".astype(np.float32)"),
    "a complex number": (lambda h: h * np.complex128(1j), "a complex128 number 1j", "complex(...)"),
    "a product": (lambda h: WIDE @ h, "a float64 array of shape (2, 2)", ".astype(np.float32)"),
    "a function": (lambda h: np.maximum(h, np.float64(0)), "np.maximum of a float32 tensor", "float(...)"),
    "a list of operands": (lambda h: np.concatenate([h, WIDE]), "np.concatenate of a float32 tensor", ".astype"),
    "a choice": (lambda h: np.where(WIDE > 1, h, WIDE), "np.where of a bool array", ".astype(np.float32)"),
    "a sum of products": (lambda h: np.einsum("ij,jk->ik", h, WIDE), "np.einsum of a float32 tensor", ".astype"),
    "a function that gives float64": (lambda h: np.float_power(h, 2), "np.float_power of a float32", "of the result"),
    "another one": (lambda h: np.vander(h[0]), "np.vander of a float32 tensor", ".astype(np.float32) of the result"),
    "a loss": (lambda h: nn.mse_loss(h, ag.tensor(WIDE)), "a float64 tensor of shape (2, 2)", ".astype(np.float32)"),
}


@pytest.mark.parametrize(("operation", "told", "instead"), PROMOTING.values(), ids=PROMOTING)
def test_a_result_that_is_wider_than_an_operand_warns_with_both_and_what_to_write(operation, told, instead):
    (warning,) = warnings_of(operation)
    message = str(warning.message)

    assert warning.category is PromotionWarning
    assert message.startswith("float32 becomes ")
    assert told in message
    assert instead in message


def test_the_warning_is_at_the_line_that_calls_the_operation():
    def layer(h):
        h = nn.relu(h)
        return h / np.sqrt(2)

    (warning,) = warnings_of(layer)

    assert (warning.filename, warning.lineno) == (__file__, inspect.getsourcelines(layer)[1] + 2)


def test_a_half_beside_a_single_is_promoted_too():
    (warning,) = warnings_of(lambda h: h * np.float32(2), random_leaf(2, dtype=np.float16))

    assert "float16 becomes float32" in str(warning.message)


#: Operations that leave the dtype as it is, or whose dtype has been asked for.
KEEPING: dict[str, Callable[[Any], Any]] = {
    "a number of Python": lambda h: (h * 2.0 / 3 - 1) ** 2,
    "a number of float32": lambda h: h * np.float32(2),
    "a float32 array": lambda h: h * WIDE.astype(np.float32),
    "float of a number": lambda h: h / float(np.sqrt(2)),
    "few bits": lambda h: h * np.int8(2),
    "a mask": lambda h: h * (WIDE > 1),
    "astype": lambda h: h.astype(np.float64),
    "dtype=": lambda h: np.sum(h, dtype=np.float64) + np.cumsum(h, dtype=np.float64),
    "a dtype by its name": lambda h: np.sum(h, None, "float64") + h.mean(dtype="d") + np.add(h, h, dtype="f8"),
    "a write into a wider tensor": lambda h: (ag.tensor(WIDE) * 1).__iadd__(h),
    "an element of a wider tensor": lambda h: (ag.tensor(WIDE) * 1).__setitem__(0, h[0]),
    "a complex number of as many bits": lambda h: h * np.complex64(1j),
    "reductions": lambda h: h.mean() + h.std() + np.linalg.norm(h) + np.median(h) + np.percentile(h, 50),
    "layers": lambda h: nn.layer_norm(nn.gelu(nn.softmax(h, axis=1)), (2,)),
    "a transform": lambda h: np.fft.fft(h),
    "a Function": lambda h: Doubled.apply(h),
}


@pytest.mark.parametrize("operation", KEEPING.values(), ids=KEEPING)
def test_what_gives_no_wider_dtype_or_was_asked_for_it_does_not_warn(operation):
    assert warnings_of(operation) == []


#: Functions that compute what they give of float16 in a wider dtype.
ROUNDING: dict[str, Callable[[Any], Any]] = {
    "quantile": lambda h: np.quantile(h, 0.25, axis=0),
    "nanquantile": lambda h: np.nanquantile(h, 0.25),
    "percentile": lambda h: np.percentile(h, 25),
    "mean": lambda h: np.mean(h, (0, 1)),
    "gradient": lambda h: np.gradient(h, axis=0),
    "trapezoid": lambda h: np.trapezoid(h),
    "norm": lambda h: np.linalg.norm(h, axis=0),
    "layer_norm": lambda h: nn.layer_norm(h, (3,)),
}


@pytest.mark.parametrize("function", ROUNDING.values(), ids=ROUNDING)
def test_what_is_computed_in_more_bits_and_rounded_to_a_half_does_not_warn(function):
    half = random_leaf(2, 3, dtype=np.float16)

    assert function(half).dtype == np.float16
    assert warnings_of(function, half) == []


NARROWED = needs_numpy("2.4", "whose quantile of halves is as wide as a share of one number")


@pytest.mark.parametrize(
    "shares", [[0.25, 0.5], (0.25, 0.5), WIDE[0] / 8, pytest.param(np.float64(0.25), marks=NARROWED)], ids=str
)
def test_a_quantile_of_halves_that_is_wider_than_they_are_warns(shares):
    half = random_leaf(2, 3, dtype=np.float16)

    assert np.quantile(half, shares).dtype == np.float64
    assert warnings_of(lambda h: np.quantile(h, shares), half) != []


def test_a_model_in_float64_does_not_warn():
    assert warnings_of(lambda h: np.tanh(h * WIDE) / np.sqrt(2), random_leaf(2, 2)) == []


def test_it_holds_inside_of_its_block_and_of_the_function_that_it_decorates():
    x = narrow()
    promote = ag.warn_on_promotion()(lambda h: h / np.sqrt(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _ = x / np.sqrt(2)
    with pytest.warns(PromotionWarning):
        promote(x)


@one_loop
async def test_a_task_that_began_outside_does_not_see_it():
    async def outside(begun: asyncio.Event, entered: asyncio.Event) -> Any:
        begun.set()
        await entered.wait()
        return narrow() / np.sqrt(2)

    async def main() -> None:
        begun, entered = asyncio.Event(), asyncio.Event()
        task = asyncio.ensure_future(outside(begun, entered))
        await begun.wait()
        with ag.warn_on_promotion():
            entered.set()
            await task

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await main()


def test_a_nested_block_warns_once():
    assert len(warnings_of(ag.warn_on_promotion()(lambda h: h / np.sqrt(2)))) == 1


def test_a_filter_makes_an_error_of_it_and_the_mode_ends():
    x = narrow()
    promote = ag.warn_on_promotion()(lambda h: h / np.sqrt(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error", PromotionWarning)
        with pytest.raises(PromotionWarning, match="float32 becomes float64"):
            promote(x)

    sync.backward((x * 2).sum())
    assert x.grad.dtype == np.float32


def test_other_creation_hooks_are_called_as_without_it():
    seen: list[str] = []
    with ag.warn_on_promotion(), ag.graph.node_creation_hook(lambda node: seen.append(node.name)):
        _ = narrow() * 2

    assert seen == ["AccumulateGrad", "MultiplyBackward"]
