"""`check_device` finds the faults that a device may have, says which, and always comes to an end."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading

import numpy as np
import pytest

from asyncgrad.errors import DeviceError
from asyncgrad.testing import check_device, device_contract
from tests.devices.numbered import Numbered


class Faulty(Numbered):
    """As good as any, but for what a test makes of it."""


class Worker(Faulty):
    """With a thread, which its test ends; written by what docs/devices.md says."""

    has_worker = True
    max_in_flight = 1

    def __init__(self):
        super().__init__()
        self._queue = []
        self._next_arrival = itertools.count().__next__
        self._is_closed = False
        self._suspended = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def is_here(self):
        return threading.get_ident() == self._thread.ident

    def submit(self, job):
        if self._is_closed:
            job.refuse(DeviceError(f"{self.name} is closed"))
            return
        arrival = self._next_arrival()
        heapq.heappush(self._queue, (self.urgency(job, arrival), arrival, job))
        self._loop.call_soon_threadsafe(self._run_next)

    def urgency(self, job, arrival):
        return job.priority

    def _run_next(self):
        if self._queue and (task := heapq.heappop(self._queue)[2].run()) is not None:
            self._suspended.add(task)
            task.add_done_callback(self._suspended.discard)

    def close(self):
        self._is_closed = True
        for job in self.emptied():
            job.refuse(DeviceError(f"{self.name} is closed"))

    def emptied(self):
        queue, self._queue = self._queue, []
        return [job for _, _, job in queue]

    def reopen(self):
        self._is_closed = False

    def end(self):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class SharesMemory(Faulty):
    def from_host(self, array):
        return array


class LosesPrecision(Faulty):
    def from_host(self, array):
        return array.astype("f4").astype("f8") if array.dtype == "f8" else array.copy(order="K")


class LosesTheSignOfZero(Faulty):
    def from_host(self, array):
        return array + 0.0 if array.dtype == "f8" else array.copy(order="K")


class MakesFloatsOfIntegers(Faulty):
    def from_host(self, array):
        return array.astype("f8") if array.dtype.kind == "i" else array.copy(order="K")


class GivesArraysAnAxis(Faulty):
    def to_host(self, array):
        return np.atleast_1d(array)


class LosesPrecisionUnwaited(Faulty):
    def from_host_async(self, array):
        return array.astype("f4").astype("f8") + 2**-40


class LosesTheOrderUnwaited(Faulty):
    def from_host_async(self, array):
        return array.copy(order="C")


class IsNowhere(Faulty):
    def is_here(self):
        return False


class ChangesGradients(Faulty):
    def run_body(self, body):
        return tuple(None if grad is None else grad * (1 + 2**-52) for grad in body())


class LosesGradients(Faulty):
    def run_body(self, body):
        return tuple(None for _ in body())


class HidesErrors(Faulty):
    def run_body(self, body):
        try:
            return body()
        except ValueError:
            return (None,)


class ReplacesErrors(Faulty):
    def run_body(self, body):
        try:
            return body()
        except ValueError as error:
            raise OSError("some other") from error


class LosesTheContext(Faulty):
    async def run_body(self, body):
        return await asyncio.get_running_loop().run_in_executor(None, body)


class LeavesBodiesBehind(Faulty):
    def run_body(self, body):
        async def run():
            outputs = body()
            return outputs if isinstance(outputs, tuple) else await outputs

        return asyncio.shield(asyncio.ensure_future(run()))


class KeepsNoOrder(Worker):
    def urgency(self, job, arrival):
        return arrival


class LosesWork(Worker):
    def submit(self, job):
        pass


class ForgetsWhatWaitsWhenClosed(Worker):
    def close(self):
        self._is_closed = True
        self.emptied()


class CannotBeClosed(Worker):
    def close(self):
        pass


class IsClosedWithoutItsName(Worker):
    def close(self):
        self._is_closed = True
        for job in self.emptied():
            job.refuse(DeviceError("closed"))


class StaysClosed(Worker):
    def reopen(self):
        pass


FAULTS = {
    SharesMemory: "must not share memory",
    LosesPrecision: "float64 of shape .* changed on the way",
    LosesTheSignOfZero: "float64 of shape .* changed on the way",
    MakesFloatsOfIntegers: "int64 of shape .* changed on the way",
    GivesArraysAnAxis: r"shape \(\) changed on the way",
    LosesPrecisionUnwaited: "changed on the way with non_blocking=True",
    LosesTheOrderUnwaited: "lost its order in memory with non_blocking=True",
    IsNowhere: "bodies and hooks run on the device",
    ChangesGradients: "the same bits on every device",
    LosesGradients: "the gradient is where its tensor is",
    HidesErrors: "must end its backward",
    ReplacesErrors: "must raise the body's own error, not OSError",
    LosesTheContext: "in the caller's context",
    LeavesBodiesBehind: "waits for its bodies to end",
    KeepsNoOrder: "the deeper backward must run first",
    LosesWork: "has not ended after .* was lost",
    ForgetsWhatWaitsWhenClosed: "a closed device .* has not ended after .* was lost",
    CannotBeClosed: "a closed device .* has not ended after .* was lost",
    IsClosedWithoutItsName: "the error names the device",
    StaysClosed: "a device that is opened again must work",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.__name__)
def test_a_fault_is_found_and_named(monkeypatch, kind):
    monkeypatch.setattr(device_contract, "PATIENCE", 0.3)
    place = kind()

    try:
        with pytest.raises(AssertionError, match=FAULTS[kind]):
            check_device(place)
    finally:
        if isinstance(place, Worker):
            place.end()


@pytest.mark.parametrize("kind", [Faulty, Worker])
def test_a_device_without_a_fault_is_found_to_have_none(kind):
    place = kind()

    try:
        check_device(place)
    finally:
        if isinstance(place, Worker):
            place.end()
