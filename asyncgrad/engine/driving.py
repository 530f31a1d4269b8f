"""The driver of an awaited backward: it runs a GraphTask in slices of the time budget, and waits where bodies do."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..graph.anomaly import forward_notes
from ..graph.naming import place_of
from ..scheduling import LOOP_BUDGET
from .bodies import Bodies
from .gait import Gait
from .notes import add_note
from .pacing import breathe
from .running import running_loop

if TYPE_CHECKING:
    from ..graph.node import Node
    from .graph_task import GraphTask

__all__ = ["drive", "say_where"]


async def drive(graph_task: GraphTask) -> list[Any]:
    """Drive a task to its end, final callbacks included, suspending where its nodes do."""
    budget = LOOP_BUDGET.get()
    in_context = graph_task.context.run
    bodies: Bodies | None = None
    deadline = perf_counter() + budget
    try:
        while (gait := _run_plain(graph_task, deadline)) in (Gait.BREATHE, Gait.CAREFUL):
            if gait is Gait.CAREFUL:
                bodies = bodies or Bodies(graph_task, running_loop())
                deadline = await _run_turn(graph_task, bodies, deadline)
                continue
            await breathe()
            assert graph_task.plain is not None
            graph_task.plain.look_again(graph_task)
            deadline = perf_counter() + budget
        if gait is Gait.DRAINED:
            in_context(graph_task.finish_plain)
            if graph_task.completion is None and bodies is None:
                return graph_task.captured
        bodies = bodies or Bodies(graph_task, running_loop())
        if gait is Gait.COUNT:
            await _run_counted(graph_task, bodies, deadline)
        captured = graph_task.results()
        await bodies.run_callbacks()
        await bodies.let_a_cancellation_in()
        return captured
    except BaseException as error:
        node = graph_task.failed_node
        graph_task.fail()
        if graph_task.exit_on_error and graph_task.completion is not None:
            graph_task.completion.fail(error)
        say_where(graph_task, error, node)
        try:
            if bodies is not None:
                await bodies.end_all(error)
        finally:
            graph_task.put_back()
        raise


def _run_plain(graph_task: GraphTask, deadline: float) -> Gait:
    if graph_task.turn is not None and graph_task.counted is None:
        # A blocking driver has left it, since it may suspend.
        return Gait.CAREFUL
    return graph_task.context.run(graph_task.run_plain, deadline)


async def _run_turn(graph_task: GraphTask, bodies: Bodies, deadline: float) -> float:
    """Run the node in `turn`, for which a compiled function waits; return the next deadline."""
    budget = LOOP_BUDGET.get()
    bodies.start()
    bodies.collect()
    while True:
        if perf_counter() > deadline:
            await bodies.breathe()
            bodies.collect()
            deadline = perf_counter() + budget
        if graph_task.counted is not None or not bodies.running:
            return deadline
        await bodies.wait()
        deadline = perf_counter() + budget
        bodies.collect()


async def _run_counted(graph_task: GraphTask, bodies: Bodies, deadline: float) -> None:
    """Run nodes in the counted gait until all have ended."""
    budget = LOOP_BUDGET.get()
    in_context = graph_task.context.run
    if graph_task.turn is not None:
        bodies.start()
        bodies.collect()
    while True:
        if bodies.is_held_up():
            await bodies.wait()
            deadline = perf_counter() + budget
        elif (gait := in_context(graph_task.run_counted, deadline)) is Gait.CAREFUL:
            bodies.start()
        elif gait is Gait.DRAINED:
            if not bodies.running:
                return
            await bodies.wait()
            deadline = perf_counter() + budget
        bodies.collect()
        # Bodies that do not suspend spend the budget too.
        if perf_counter() > deadline:
            await bodies.breathe()
            # One may have failed meanwhile, and then no further node is to start.
            bodies.collect()
            deadline = perf_counter() + budget


def say_where(graph_task: GraphTask, error: BaseException, node: Node | None) -> None:
    """Say in the error that ends a backward which node it comes from, if it comes from one."""
    if node is None:
        return
    add_note(error, f"in {node.name} ({place_of(node)})")
    if graph_task.anomaly is not None:
        for note in forward_notes(node):
            add_note(error, note)
