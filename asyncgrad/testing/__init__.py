"""What users' tests want too: derivatives checked against finite differences, and schedules explored."""

from .explore import Exploration as Exploration
from .explore import Schedule as Schedule
from .explore import explore as explore
from .explore import run_with_seed as run_with_seed
from .gradient_check import gradcheck as gradcheck
from .gradient_check import gradgradcheck as gradgradcheck
from .schedule_loop import ScheduleLoop as ScheduleLoop

__all__ = ["Exploration", "Schedule", "ScheduleLoop", "explore", "gradcheck", "gradgradcheck", "run_with_seed"]
