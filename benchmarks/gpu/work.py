"""What the GPU does during a training step: which kernels run, how often and how long, as PyTorch's profiler records.

The profiler reads CUPTI, which records all work of the process on the GPU, so also that of CuPy and cuBLAS. The time
for which the GPU works tells what a step is bound by: if it is nearly the time of the step, by the GPU; if it is far
less, by the host, which then does not launch kernels fast enough.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

from ..peers import torch
from ..runner import Result
from .training import Training

__all__ = [
    "Event",
    "KernelTotal",
    "NotMeasuredError",
    "Work",
    "bound_by",
    "profile_work",
    "summarize",
    "tables_of_cases",
]

#: The number of steps that are recorded; the figures are means.
STEPS = 3
#: From which share of a step on, for which the GPU works, the GPU decides how long the step takes. It is less than 1,
#: since a GPU that always has work queued pauses for about a microsecond between two kernels.
MOSTLY_GPU = 0.8
#: Below which share the host decides.
MOSTLY_HOST = 0.6
#: How names of copies and fills begin.
NO_KERNELS = ("Memcpy", "Memset")
#: The longest name of a kernel in a table.
LONGEST_NAME = 110


class NotMeasuredError(Exception):
    """The work of the GPU cannot be recorded here; the message says why."""


class Event(NamedTuple):
    """A kernel, copy or fill, and the times in microseconds at which the GPU began and ended it."""

    name: str
    begin: float
    end: float


@final
@dataclass(frozen=True)
class KernelTotal:
    """A kernel by its name: how often it runs in a step, and the microseconds that all its runs take together."""

    name: str
    calls: float
    microseconds: float


@final
@dataclass(frozen=True)
class Work:
    """The work of the GPU in one step."""

    #: The number of kernels.
    kernels: int
    #: The milliseconds during which the GPU runs at least one kernel, copy or fill.
    busy_ms: float
    #: The kernels, copies and fills by their names; that with the longest time first.
    totals: list[KernelTotal]


def summarize(events: Iterable[Event], steps: int) -> Work:
    """Return the work of one step, from the events of several."""
    found = sorted(events, key=lambda event: event.begin)
    busy, last_end = 0.0, float("-inf")
    times: dict[str, list[float]] = {}
    for name, begin, end in found:
        # Kernels on two streams may run at the same time.
        busy += max(0.0, end - max(begin, last_end))
        last_end = max(last_end, end)
        times.setdefault(name, []).append(end - begin)
    totals = [KernelTotal(name, len(each) / steps, sum(each) / steps) for name, each in times.items()]
    return Work(
        kernels=round(sum(not event.name.startswith(NO_KERNELS) for event in found) / steps),
        busy_ms=busy / steps / 1e3,
        totals=sorted(totals, key=lambda total: -total.microseconds),
    )


def bound_by(busy_seconds: float, step_seconds: float) -> str:
    """Return what decides how long a step takes: "GPU", "host", or "both" where that is not clear."""
    share = busy_seconds / step_seconds
    return "GPU" if share >= MOSTLY_GPU else "host" if share < MOSTLY_HOST else "both"


async def profile_work(training: Training) -> Work:
    """Return the work of a step. Code that has been profiled stays slower, so time it before.

    Raises:
        NotMeasuredError: PyTorch has no CUDA or no CUPTI, or CUPTI has recorded nothing.
    """
    profiler = torch.profiler
    if profiler.ProfilerActivity.CUDA not in profiler.supported_activities():
        raise NotMeasuredError(f"PyTorch {torch.__version__} is built without CUDA or CUPTI, or finds no GPU")
    try:
        with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as profile:
            for _ in range(STEPS):
                await training.step()
            await training.synchronize()
    except RuntimeError as error:
        raise NotMeasuredError(f"PyTorch's profiler fails: {error}") from error
    events = gpu_events(profile.events())
    if not events:
        raise NotMeasuredError(
            "PyTorch's profiler recorded nothing on the GPU: CUPTI is missing, another profiler uses it, or the driver "
            "allows it to administrators only (NVreg_RestrictProfilingToAdminUsers)"
        )
    return summarize(events, STEPS)


def gpu_events(events: Iterable[Any]) -> list[Event]:
    """Return the events of the GPU among those of PyTorch's profiler, which has the calls of the host, too."""
    on_gpu = torch.autograd.DeviceType.CUDA
    return [
        Event(event.name, event.time_range.start, event.time_range.end)
        for event in events
        if event.device_type == on_gpu
    ]


def work_table(library: str, work: Work, step_seconds: float) -> str:
    """Return the kernels of a step of a library as text; `step_seconds` is the time of a step without the profiler."""
    busy = work.busy_ms / 1e3
    head = (
        f"{library}: a step takes {step_seconds * 1e3:.3f} ms, of which the GPU works {work.busy_ms:.3f} ms "
        f"({busy / step_seconds:.0%}, bound by: {bound_by(busy, step_seconds)}); {work.kernels} kernels"
    )
    lines = [f"{total.microseconds:10,.1f} {total.calls:8,.4g}  {short_name(total.name)}" for total in work.totals]
    return "\n".join([head, f"{'µs':>10} {'calls':>8}  kernel", *lines])


#: What tells nothing in the names of C++: types that are returned, namespaces, and arrays of pointers.
_EMPTY_WORDS = re.compile(
    r"^void |at::native::|\(anonymous namespace\)::|<unnamed>::|at::TensorIteratorBase ?&|std::array<char ?\*, ?\d+\w*>"
)


def short_name(name: str) -> str:
    """Return the name of a kernel without namespaces and arguments, cut to LONGEST_NAME characters.

    The name of an elementwise kernel of PyTorch says what it computes only in the arguments of its template, so these
    stay.
    """
    short = _without_arguments(_EMPTY_WORDS.sub("", name))
    return short if len(short) <= LONGEST_NAME else f"{short[: LONGEST_NAME - 1]}…"


def _without_arguments(name: str) -> str:
    """Return a name up to the "(" of its arguments, which is outside of all brackets of templates."""
    depth = 0
    for place, character in enumerate(name):
        if character == "(" and not depth:
            return name[:place]
        depth += {"<": 1, ">": -1}.get(character, 0)
    return name


def tables_of_cases(works: dict[str, dict[str, Work]], results: Sequence[Result]) -> str:
    """Return the kernels of a step of each case and library as text.

    Args:
        works: the work of a step, by case and library.
        results: the times of the cases, measured without the profiler.
    """
    parts = []
    for result in results:
        tables = [
            work_table(name, work, statistics.median(result.seconds[name]))
            for name, work in works.get(result.name, {}).items()
            if name in result.seconds
        ]
        if tables:
            parts.append("\n\n".join([result.name, *tables]))
    return "\n\n\n".join(parts)
