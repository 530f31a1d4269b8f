"""The calls of stages: the Function whose forward and backward run at the worker, and what home keeps of a call."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Any, Protocol, final

from ..core.function.function import Function
from ..core.function.once_differentiable import once_differentiable
from ..core.settings.context import CURRENT_GRAPH_TASK, current_node
from ..errors import UnknownCallError
from .ledger import Contribution
from .payload import arrays_of
from .transactions import Participant, Run, join_transaction

__all__ = ["Call", "Caller", "StageCall"]


class Caller(Participant, Protocol):
    """Abstract: a stage, as its calls see it."""

    @property
    def worker(self) -> str | None:
        """The address of its worker."""
        ...

    async def ask(self, op: str, fields: dict[str, Any], arrays: list[Any]) -> Any:
        """Return the reply of the stage's host, wherever it is by now."""
        ...

    def notify(self, op: str, fields: dict[str, Any]) -> None:
        """Send a request whose reply nobody needs; from any thread, never suspends."""
        ...


#: How often a forward is run again because its graph has gone before the backward came.
_ATTEMPTS = 10


@final
class Call:
    """One call of a stage: its key, and what its forward takes besides the arrays.

    Its graph at the worker is freed when the last reference to this is gone.

    Args:
        stage: the stage.
        number: how many calls the stage had before.
        fields: those of the forward request.
    """

    __slots__ = ("_attempts", "_fields", "_is_kept", "key", "name", "nodes", "number", "outputs", "stage")

    def __init__(self, stage: Caller, number: int, fields: dict[str, Any]) -> None:
        self.stage = stage
        self.number: int = number
        #: What contributions know it by.
        self.name: str = str(number)
        #: The key of the graph that is at the worker.
        self.key: str = self.name
        #: The skeleton of the outputs, once the forward has run.
        self.outputs: Any = None
        #: How many nodes the graph at the worker has.
        self.nodes = 0
        self._fields = fields
        self._attempts = 0
        self._is_kept = False

    async def forward(self, arrays: list[Any]) -> Any:
        """Run the forward; return the reply."""
        self._is_kept = self._fields["saves"]
        try:
            return await self._ask("forward", {**self._fields, "key": self.key, "number": self.number}, arrays)
        except UnknownCallError:
            # What comes late of an earlier time has ended it there.
            self.key, reply = await self._forward_again(arrays)
            return reply

    async def _forward_again(self, arrays: list[Any]) -> tuple[str, Any]:
        """Run the forward again; return the key of the new graph, and the reply."""
        # Another key: what comes late of an earlier attempt is not to be taken for this one.
        self._attempts += 1
        key = f"{self.name}.{self._attempts}"
        return key, await self._ask("forward", {**self._fields, "key": key, "number": self.number}, arrays)

    async def backward(self, transaction: int, run: Run, keep: bool) -> Any:
        """Run the backward, after the forward if the host has no graph of it; return the reply."""
        fields, key, is_ended = _backward_fields(transaction, run, keep), self.key, False
        try:
            for _ in range(_ATTEMPTS):
                try:
                    reply = await self._ask("backward", {**fields, "key": key}, run.grads)
                except UnknownCallError:
                    # The worker is another one, or the time of the graph was over.
                    key, _ = await self._forward_again(run.inputs)
                    continue
                is_ended = True
                if keep:
                    self.key = key
                elif key == self.key:
                    self._is_kept = False
                return reply
        finally:
            if not is_ended and key != self.key:
                self.stage.notify("free", {"keys": [key]})
        raise UnknownCallError(f"the graph of call {self.name} was lost {_ATTEMPTS} times")

    def requests_to_repeat(self, transaction: int, run: Run) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the fields of the forward and the backward that another worker runs to have what this one had."""
        # Not a key of `_forward_again`.
        key = f"{self.name}/{transaction}"
        forward = {**self._fields, "key": key, "number": self.number, "saves": True}
        return forward, {**_backward_fields(transaction, run, False), "key": key}

    async def _ask(self, op: str, fields: dict[str, Any], arrays: list[Any]) -> Any:
        try:
            return await self.stage.ask(op, fields, arrays)
        except asyncio.CancelledError:
            self.stage.notify("cancel", {"key": fields["key"]})
            raise

    def free(self) -> None:
        """Have the worker drop its graph, if it has kept it; never suspends."""
        if self._is_kept:
            self._is_kept = False
            self.stage.notify("free", {"keys": [self.key]})

    def __del__(self) -> None:
        self.free()


def _backward_fields(transaction: int, run: Run, keep: bool) -> dict[str, Any]:
    return {
        "transaction": transaction,
        "contribution": run.contribution.as_json(),
        "wants": run.wants,
        "wants_params": run.wants_params,
        "keep": keep,
    }


@final
class StageCall(Function):
    """A call of a stage as a node of the graph at home."""

    @staticmethod
    async def forward(ctx: Any, call: Call, anchor: Any, *leaves: Any) -> Any:
        """Run the forward at the worker; return the leaves of its outputs.

        Args:
            ctx: the context.
            call: the call, which gets the skeleton of the outputs.
            anchor: a tensor that stands for the parameters at the stage: it requires grad if they do, so that a
                backward reaches this node also if no input requires grad.
            *leaves: tensors: the parameters that are leaves at home, and the inputs.
        """
        reply = await call.forward(arrays_of(leaves))
        call.outputs = reply.fields["outputs"]
        ctx.call = call
        call.nodes = reply.fields.get("nodes") or 0
        ctx.set_materialize_grads(False)
        if not reply.arrays:
            # A stage may return nothing: then no gradient is lost.
            ctx.set_records(False)
        ctx.save_for_backward(*leaves)
        pairs = zip(reply.arrays, reply.fields["differentiable"], strict=True)
        ctx.mark_non_differentiable(*(array for array, is_tracked in pairs if not is_tracked))
        return tuple(reply.arrays)

    @staticmethod
    @once_differentiable
    async def backward(ctx: Any, *grads: Any) -> Any:
        """Run the backward at the worker, and return the gradients of the leaves."""
        call, node = ctx.call, current_node()
        inputs = arrays_of(await ctx.load_saved())
        wants = [
            bool(needs) and node.task_should_compute_output(edge) for edge, needs in enumerate(ctx.needs_input_grad[1:])
        ]
        task: Any = CURRENT_GRAPH_TASK.get()
        transaction, label = join_transaction()
        contribution = Contribution(label, node.order, call.name)
        run = Run(call, contribution, arrays_of(grads), wants[1:], wants[0], inputs)
        # Before the request, so that a failure from here on rolls it back. Without parameters there is nothing to.
        transaction_number = transaction.add(call.stage, run) if wants[0] else 0
        began = perf_counter()
        if task.until_success:
            transaction.free_at_end(call)
        reply = await call.backward(transaction_number, run, task.keep_graph)
        if task.observation is not None:
            task.observation.ran_elsewhere(task, call.nodes)
        if task.observed_steps is not None:
            where, seconds = str(call.stage.worker), reply.fields["seconds"]
            task.observed_steps.ran_elsewhere(node, where, seconds, perf_counter() - began)
        found = iter(reply.arrays)
        return None, None, *(next(found) if wanted else None for wanted in wants[1:])

    @staticmethod
    def _release(ctx: Any) -> None:
        """Have the worker drop the graph, if it has kept it for other rows of a batch of gradients."""
        ctx.call.free()
