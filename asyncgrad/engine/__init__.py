"""The engine, which runs the backward of a graph. It does not depend on NumPy."""

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from ..opentelemetry import OpenTelemetryInstrumentor as OpenTelemetryInstrumentor
    from .compiled.api import compiled_source as compiled_source
    from .compiled.api import compiled_stats as compiled_stats
    from .compiled.cache import CompiledStats as CompiledStats
    from .completion import warn as warn
    from .current import current_execution_order as current_execution_order
    from .current import current_graph_task as current_graph_task
    from .current import current_graph_task_id as current_graph_task_id
    from .current import queue_callback as queue_callback
    from .current import will_execute as will_execute
    from .describe import BackwardDescription as BackwardDescription
    from .describe import EngineDescription as EngineDescription
    from .describe import LockDescription as LockDescription
    from .describe import NodeDescription as NodeDescription
    from .describe import QueueDescription as QueueDescription
    from .describe import describe_running as describe_running
    from .engine import Engine as Engine
    from .exec_info import Capture as Capture
    from .exec_info import ExecInfo as ExecInfo
    from .graph_task import CPU_DEVICE as CPU_DEVICE
    from .graph_task import NO_DEVICE as NO_DEVICE
    from .graph_task import GraphTask as GraphTask
    from .signal_dump import SignalDump as SignalDump
    from .signal_dump import dump_on_signal as dump_on_signal
    from .step_callbacks import Step as Step
    from .step_callbacks import StepCallbackHandle as StepCallbackHandle
    from .step_callbacks import add_step_callback as add_step_callback
    from .workers import Statistics as Statistics
    from .workers import statistics as statistics

__all__ = [
    "BackwardDescription",
    "CPU_DEVICE",
    "Capture",
    "CompiledStats",
    "Engine",
    "EngineDescription",
    "ExecInfo",
    "GraphTask",
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
    "statistics",
    "warn",
    "will_execute",
]

if not TYPE_CHECKING:
    # Hidden from type checkers: with a module `__getattr__` they would accept any name.
    __getattr__, __dir__ = attach(
        __name__,
        {
            "..opentelemetry": ["OpenTelemetryInstrumentor"],
            ".compiled.api": ["compiled_source", "compiled_stats"],
            ".compiled.cache": ["CompiledStats"],
            ".completion": ["warn"],
            ".current": [
                "current_execution_order",
                "current_graph_task",
                "current_graph_task_id",
                "queue_callback",
                "will_execute",
            ],
            ".describe": [
                "BackwardDescription",
                "EngineDescription",
                "LockDescription",
                "NodeDescription",
                "QueueDescription",
                "describe_running",
            ],
            ".engine": ["Engine"],
            ".exec_info": ["Capture", "ExecInfo"],
            ".graph_task": ["CPU_DEVICE", "GraphTask", "NO_DEVICE"],
            ".signal_dump": ["SignalDump", "dump_on_signal"],
            ".step_callbacks": ["Step", "StepCallbackHandle", "add_step_callback"],
            ".workers": ["Statistics", "statistics"],
        },
    )
