"""Devices are found by name: those that come along, and those that packages offer by an entry point."""

from __future__ import annotations

import copy
import importlib
import pickle
import sys

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.errors import DeviceError
from tests.support.processes import run_python


@pytest.mark.parametrize("name", ["cpu", "thread:0", "thread:12", "null", "null:3"])
def test_a_name_gives_the_same_device_each_time(name):
    found = ag.device(name)

    assert found is ag.device(name)
    assert found is ag.device(found)
    assert found is pickle.loads(pickle.dumps(found))
    assert found is copy.copy(found)
    assert str(found) == name
    assert repr(found) == f"device({name!r})"


def test_a_device_knows_its_kind_and_its_index():
    assert (ag.device("thread:12").kind, ag.device("thread:12").index) == ("thread", 12)
    assert (ag.device("cpu").kind, ag.device("cpu").index) == ("cpu", None)


@pytest.mark.parametrize(
    "name",
    ["", "gpu", "gpu:0", ":0", "cpu:0", "thread", "thread:", "thread:x", "thread:-1", "thread:00", "thread:²"],
)
def test_a_name_of_no_device_is_refused(name):
    with pytest.raises(DeviceError):
        ag.device(name)


@pytest.mark.parametrize(
    "name",
    [
        "thread:0:1",
        "Thread:0",
        "_costs",
        "__init__",
        "thread:" + "9" * 5000,
        "os.path",
        " cpu",
        "a-b",
        "-",
        ":",
        "a b:0",
    ],
)
def test_what_is_no_name_is_refused(name):
    with pytest.raises(DeviceError):
        ag.device(name)


@pytest.mark.parametrize("name", [None, 5, b"cpu", [], {}, np.float32, ("thread", 0)])
def test_what_is_no_text_is_refused_and_the_error_says_what_a_device_is_given_as(name):
    for ask in (ag.device, ag.default_device, ag.tensor(1.0).to):
        with pytest.raises(
            DeviceError, match=r"a device must be a Device or the name of one, such as 'cpu' or 'thread:0', not"
        ):
            ask(name)


def test_the_error_says_which_devices_there_are(abacus):
    with pytest.raises(DeviceError, match=r"there is no device 'gpu:0'; there are 'abacus:0', .*'cpu', .*'thread:0'"):
        ag.device("gpu:0")


async def test_a_package_adds_a_device_by_its_entry_point(abacus):
    place = ag.device(abacus)
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    y = (x.to(place) ** 2).to("cpu")
    await (y * y).sum().backward()
    grad = x.grad

    np.testing.assert_array_equal(grad.numpy(), [4.0, 32.0])
    assert type(place).__name__ == "Abacus"
    assert place.arrived >= 2
    assert place.left >= 2
    assert place.bodies > 0


def test_a_device_of_a_package_is_loaded_when_it_is_asked_for_and_no_sooner(abacus):
    code = (
        f"import sys; sys.path.insert(0, {sys.path[0]!r}); import asyncgrad as ag; "
        f"before = 'abacus_device' in sys.modules; ag.device({abacus!r}); print(before, 'abacus_device' in sys.modules)"
    )

    assert run_python(code).split() == ["False", "True"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("missing:0", "abacus_device:no_such_name.*cannot be loaded"),
        ("broken:0", "cannot be loaded.*no_such_module_anywhere"),
        ("constant:0", "must be a function of an index, not 3"),
        ("liar:0", r"open_device\(0\) must return the device named 'liar:0', not .*named 'abacus:17'"),
        ("failing:0", "no such card"),
        ("nameless:0", "Nameless must have a name"),
        ("typed:0", r"open_device\(0\) must return the device named 'typed:0', not a type$"),
    ],
)
def test_a_package_whose_device_cannot_be_had_is_named(abacus, name, why):
    with pytest.raises(DeviceError, match=why) as raised:
        ag.device(name)

    assert repr(name) in str(raised.value)


def test_a_kind_may_have_a_name_with_hyphens(abacus):
    assert ag.device("two-hand:0").name == "two-hand:0"
    assert ag.device("two-hand").name == "two-hand"


def test_a_device_that_could_not_be_opened_is_asked_for_again(abacus, monkeypatch):
    module = importlib.import_module("abacus_device")
    with pytest.raises(DeviceError):
        ag.device("failing:1")
    monkeypatch.setattr(module, "fail", lambda index: FailsNoMore(index))

    assert ag.device("failing:1").name == "failing:1"


class FailsNoMore(ag.devices.Device):
    """What `failing` opens once it does not."""

    def __init__(self, index):
        self._index = index

    @property
    def name(self):
        return f"failing:{self._index}"


def test_a_device_must_say_its_name_and_how_its_worker_is_reached():
    class Nameless(ag.devices.Device):
        """Nothing of its own."""

    with pytest.raises(NotImplementedError, match="Nameless must have a name"):
        str(Nameless())
    monkey = ag.device("null")
    with pytest.raises(NotImplementedError, match=r"must implement submit\(job\)"):
        monkey.submit(ag.devices.Job((0, 0)))
