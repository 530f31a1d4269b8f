"""Tools for users' tests: gradcheck, the exploration of schedules, checks of stores and devices, simulated devices."""

from typing import TYPE_CHECKING

from ..core.settings.lazy import name_advisor
from ..transforms.gradient_check import gradcheck as gradcheck
from ..transforms.gradient_check import gradgradcheck as gradgradcheck
from .device_contract import DEVICE_CHECKS as DEVICE_CHECKS
from .device_contract import check_device as check_device
from .explore import Exploration as Exploration
from .explore import Schedule as Schedule
from .explore import explore as explore
from .explore import run_with_seed as run_with_seed
from .memory_store import MemoryStore as MemoryStore
from .schedule_loop import ScheduleLoop as ScheduleLoop
from .simulated import SimulatedAccelerator as SimulatedAccelerator
from .simulated import SimulatedArray as SimulatedArray
from .simulated import SimulatedClock as SimulatedClock
from .store_laws import STORE_LAWS as STORE_LAWS
from .store_laws import check_store as check_store

__all__ = [
    "DEVICE_CHECKS",
    "Exploration",
    "MemoryStore",
    "STORE_LAWS",
    "Schedule",
    "ScheduleLoop",
    "SimulatedAccelerator",
    "SimulatedArray",
    "SimulatedClock",
    "check_device",
    "check_store",
    "explore",
    "gradcheck",
    "gradgradcheck",
    "run_with_seed",
]


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:
    # A type checker that saw a `__getattr__` would take any name for one of the module.
    __getattr__ = name_advisor(__name__)
