"""The engine, which runs the backward of a graph. It does not depend on NumPy."""

from typing import TYPE_CHECKING

from .core.settings.lazy import attach

if TYPE_CHECKING:
    from .core.engine.compiled.api import compiled_source as compiled_source
    from .core.engine.compiled.api import compiled_stats as compiled_stats
    from .core.engine.compiled.cache import CompiledStats as CompiledStats
    from .core.engine.completion import warn as warn
    from .core.engine.current import current_execution_order as current_execution_order
    from .core.engine.current import current_graph_task as current_graph_task
    from .core.engine.current import current_graph_task_id as current_graph_task_id
    from .core.engine.current import queue_callback as queue_callback
    from .core.engine.current import will_execute as will_execute
    from .core.engine.describe import BackwardDescription as BackwardDescription
    from .core.engine.describe import EngineDescription as EngineDescription
    from .core.engine.describe import LockDescription as LockDescription
    from .core.engine.describe import NodeDescription as NodeDescription
    from .core.engine.describe import QueueDescription as QueueDescription
    from .core.engine.describe import describe_running as describe_running
    from .core.engine.engine import Engine as Engine
    from .core.engine.exec_info import Capture as Capture
    from .core.engine.exec_info import ExecInfo as ExecInfo
    from .core.engine.graph_task import CPU_DEVICE as CPU_DEVICE
    from .core.engine.graph_task import NO_DEVICE as NO_DEVICE
    from .core.engine.graph_task import GraphTask as GraphTask
    from .core.engine.signal_dump import SignalDump as SignalDump
    from .core.engine.signal_dump import dump_on_signal as dump_on_signal
    from .core.engine.step_callbacks import Step as Step
    from .core.engine.step_callbacks import StepCallbackHandle as StepCallbackHandle
    from .core.engine.step_callbacks import add_step_callback as add_step_callback
    from .core.requests.batched import BatchStatistics as BatchStatistics
    from .core.requests.limit import LimitStatistics as LimitStatistics
    from .core.requests.statistics import Statistics as Statistics
    from .core.requests.statistics import statistics as statistics
    from .observing.live.server import LiveServer as LiveServer
    from .observing.live.server import serve_live as serve_live
    from .observing.telemetry import OpenTelemetryInstrumentor as OpenTelemetryInstrumentor

__all__ = [
    "BackwardDescription",
    "BatchStatistics",
    "CPU_DEVICE",
    "Capture",
    "CompiledStats",
    "Engine",
    "EngineDescription",
    "ExecInfo",
    "GraphTask",
    "LimitStatistics",
    "LiveServer",
    "LockDescription",
    "NO_DEVICE",
    "NodeDescription",
    "OpenTelemetryInstrumentor",
    "QueueDescription",
    "SignalDump",
    "Statistics",
    "Step",
    "StepCallbackHandle",
    "add_step_callback",
    "compiled_source",
    "compiled_stats",
    "current_execution_order",
    "current_graph_task",
    "current_graph_task_id",
    "describe_running",
    "dump_on_signal",
    "queue_callback",
    "serve_live",
    "statistics",
    "warn",
    "will_execute",
]

if not TYPE_CHECKING:
    # Hidden from type checkers: with a module `__getattr__` they would accept any name.
    __getattr__, __dir__ = attach(
        __name__,
        {
            ".observing.live.server": ["LiveServer", "serve_live"],
            ".observing.telemetry": ["OpenTelemetryInstrumentor"],
            ".core.requests.batched": ["BatchStatistics"],
            ".core.requests.limit": ["LimitStatistics"],
            ".core.requests.statistics": ["Statistics", "statistics"],
            ".core.engine.compiled.api": ["compiled_source", "compiled_stats"],
            ".core.engine.compiled.cache": ["CompiledStats"],
            ".core.engine.completion": ["warn"],
            ".core.engine.current": [
                "current_execution_order",
                "current_graph_task",
                "current_graph_task_id",
                "queue_callback",
                "will_execute",
            ],
            ".core.engine.describe": [
                "BackwardDescription",
                "EngineDescription",
                "LockDescription",
                "NodeDescription",
                "QueueDescription",
                "describe_running",
            ],
            ".core.engine.engine": ["Engine"],
            ".core.engine.exec_info": ["Capture", "ExecInfo"],
            ".core.engine.graph_task": ["CPU_DEVICE", "GraphTask", "NO_DEVICE"],
            ".core.engine.signal_dump": ["SignalDump", "dump_on_signal"],
            ".core.engine.step_callbacks": ["Step", "StepCallbackHandle", "add_step_callback"],
        },
    )
