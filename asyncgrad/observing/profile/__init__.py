"""Profiles: what forward and backward did, when and where; as records, a table, a trace and the critical path."""

from .critical_path import CriticalNode as CriticalNode
from .critical_path import CriticalPath as CriticalPath
from .device_work import DeviceSpan as DeviceSpan
from .events import ProfileEvent as ProfileEvent
from .profile import profile as profile

__all__ = ["CriticalNode", "CriticalPath", "DeviceSpan", "ProfileEvent", "profile"]
