"""The devices that come with asyncgrad, one per file, and the protocol for others.

A device is found by its name, as in `ag.device("thread:0")`; docs/devices.md says how to write one.
"""

from asyncgrad.core.engine.device import Device as Device
from asyncgrad.core.engine.device import Event as Event
from asyncgrad.core.engine.device import Job as Job
from asyncgrad.core.engine.device import Stream as Stream

__all__ = ["Device", "Event", "Job", "Stream"]


def __dir__() -> list[str]:
    return __all__
