"""The devices that come with asyncgrad, one a file, and the protocol of those that do not.

Each is found by its name, `ag.device("thread:0")`; docs/devices.md is for those who write their own.
"""

from asyncgrad.engine.device import Device as Device
from asyncgrad.engine.device import Event as Event
from asyncgrad.engine.device import Job as Job
from asyncgrad.engine.device import Stream as Stream

__all__ = ["Device", "Event", "Job", "Stream"]


def __dir__() -> list[str]:
    return __all__
