"""What every device must do: one suite, and every device held to it."""

from __future__ import annotations

import pytest

import asyncgrad as ag
from asyncgrad.testing import DEVICE_CHECKS, SimulatedAccelerator, check_device
from asyncgrad.testing.device_contract import gradients_are_those_of_the_cpu
from tests.support.loops import one_loop


@pytest.fixture(params=["cpu", "thread:0", "thread:1", "null", "null:2", "abacus"])
def place(request):
    name = request.getfixturevalue("abacus") if request.param == "abacus" else request.param
    return ag.device(name)


@pytest.mark.slow
@pytest.mark.parametrize("check", DEVICE_CHECKS, ids=lambda check: check.__name__)
async def test_every_device_holds_the_law(place, check):
    await check(place)


def test_a_device_that_changes_a_bit_on_the_way_is_found_out(monkeypatch):
    place = ag.device("null:9")
    monkeypatch.setattr(type(place), "from_host", lambda self, array: array * 1)

    with pytest.raises(AssertionError, match="changed on the way"):
        check_device(place)


def test_a_device_that_runs_its_bodies_elsewhere_is_found_out(monkeypatch):
    place = ag.device("null:9")
    monkeypatch.setattr(type(place), "is_here", lambda self: False)

    with pytest.raises(AssertionError, match="run on the device"):
        check_device(place)


@one_loop
@pytest.mark.parametrize("error", [1e-15, 1e-9])
async def test_a_device_of_another_array_type_may_round_otherwise_and_no_more(monkeypatch, error):
    place, exact = SimulatedAccelerator(), SimulatedAccelerator.to_host
    monkeypatch.setattr(SimulatedAccelerator, "to_host", lambda self, array: exact(self, array) * (1 + error))

    if error < 1e-12:
        await gradients_are_those_of_the_cpu(place)
    else:
        with pytest.raises(AssertionError, match="those of the cpu up to rounding"):
            await gradients_are_those_of_the_cpu(place)
