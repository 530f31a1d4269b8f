"""StageHost: what runs at a worker. It answers requests, keeps graphs and gradients, and knows no network.

A call of a stage has a key. Its forward keeps the graph under the key, its backward runs by the key. A request may come
twice, late, or never: what runs for a key is not begun again, what has been given up or has had its backward does not
come back under that key, and a graph that nobody has asked for in `ttl` seconds is dropped. Home, which keeps the
inputs, then has the forward run again, under another key.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, final

import numpy as np

from ..backward import grad as differentiate
from ..context import GENERATOR, enable_grad, no_grad
from ..engine.eager_task import EagerTask
from ..engine.exec_info import count_reachable
from ..errors import UnknownCallError, UnknownStageError
from ..graph.leaf import get_gradient_edge
from ..graph.tensor_base import TensorBase
from ..learn.calls import MeasuredCalls, start_task
from ..tensor import Tensor, asarray
from .collective import GroupHost
from .definition import Definition, Program
from .failures import describe_error
from .finite import check_gradients, finite_step
from .ledger import Contribution, GradientLedger
from .payload import arrays_of, check_size, pack, size_of, unpack
from .together import retrieve, wait_until_done
from .transport import Reply, Request

__all__ = ["Holding", "StageHost"]

#: How many calls that were given up are remembered, so that a forward that comes late is not kept.
_REMEMBERED = 4096


def _identity(value: Any) -> Any:
    return value


@final
class Holding(NamedTuple):
    """What a host keeps for a stage."""

    #: The keys of calls whose graphs are kept.
    calls: set[str]
    #: The transactions that somebody has asked for, and that have not ended.
    transactions: set[str]
    #: The bytes of inputs and outputs of calls, and of gradients that are not final.
    size: int
    #: The bytes that one backward adds to it.
    parameters: int
    #: Whether something runs for it.
    is_running: bool


@final
class StageHost:
    """The host of the stages at one worker: answers requests of their homes.

    All its methods are called on one event loop.

    Args:
        load: makes a Definition of what `Transport.export` made of it.
        dumps: pickles errors for a home that trusts this host; None leaves that out.
        ttl: after how many seconds a graph or transaction that nobody asks for is dropped.
        stage_ttl: after how many seconds a stage is, whose home has probably gone.
        max_bytes: the most bytes that the arrays of a reply may have.
        allow_nonfinite: whether gradients, and what a step makes of them, may be NaN or infinite.
        describe: what a reply says of an error; None for all that `describe_error` does.
        clock: the seconds since some time.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> from asyncgrad.distributed import Request, StageHost
        >>> from asyncgrad.distributed.definition import Definition
        >>> async def main():
        ...     host = StageHost()
        ...     double = Definition(lambda x: 2 * x)
        ...     await host.handle(Request("create", "double", {"definition": double, "attempt": 1}))
        ...     fields = {"key": "1", "inputs": [{"array": 0}], "needs": [False], "number": 1}
        ...     return await host.handle(Request("forward", "double", fields, [np.array([1.0, 2.0])]))
        >>> ag.run(main()).arrays
        [array([2., 4.])]
    """

    def __init__(
        self,
        *,
        load: Callable[[Any], Definition] = _identity,
        dumps: Callable[[Any], bytes] | None = None,
        ttl: float = 3600.0,
        stage_ttl: float = 86400.0,
        max_bytes: int = 1 << 30,
        allow_nonfinite: bool = True,
        describe: Callable[[BaseException], dict[str, Any]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load = load
        self._describe = describe or partial(describe_error, dumps=dumps)
        self._allow_nonfinite = allow_nonfinite
        self._ttl = ttl
        self._stage_ttl = stage_ttl
        self._max_bytes = max_bytes
        self._clock = clock
        self._stages: dict[str, _HostedStage] = {}
        self._groups: dict[str, GroupHost] = {}
        #: Set when the worker leaves, and done when others have its stages.
        self._leaving: asyncio.Event | None = None
        #: When to look next for what has been kept too long.
        self._expires_at = clock()

    async def handle(self, request: Request) -> Reply:
        """Answer a request; an error becomes a part of the reply.

        What has begun goes on if the caller is cancelled: only the request "cancel" ends it.
        """
        try:
            reply = await self._answer(request)
            check_size(reply.arrays, self._max_bytes, f"the reply of stage {request.stage} to {request.op!r}")
            return reply
        except Exception as error:
            return Reply({"error": self._describe(error)})

    def expire(self) -> None:
        """Drop what nobody has asked for in the time to live; called by requests, and may be called by a timer."""
        now = self._clock()
        if now >= self._expires_at:
            self._expires_at = now + min(self._ttl, self._stage_ttl) / 10
            for name, stage in list(self._stages.items()):
                stage.expire(now - self._ttl)
                if stage.touched < now - self._stage_ttl and not stage.running:
                    del self._stages[name]
            for name in [one for one, group in self._groups.items() if group.touched < now - self._stage_ttl]:
                del self._groups[name]

    def counts(self) -> dict[str, int]:
        """Return how many stages, calls, transactions and running requests are here."""
        stages = self._stages.values()
        return {
            "stages": len(stages),
            "calls": sum(len(stage.calls) for stage in stages),
            "transactions": sum(len(stage.ledger) for stage in stages),
            "running": sum(len(stage.running) for stage in stages),
        }

    def holds(self, name: str) -> Holding:
        """Return what is kept here for a stage."""
        stage = self._stages.get(name)
        return Holding(set(), set(), 0, 0, False) if stage is None else stage.holds()

    def groups(self) -> dict[str, int]:
        """Return how many bytes each group holds, by its name."""
        return {name: group.size for name, group in self._groups.items()}

    async def _answer(self, request: Request) -> Reply:
        fields = request.fields
        if request.op == "ping":
            return Reply(dict(self.counts()))
        if self._leaving is not None and request.op != "drop":
            # What was done here now would be lost: the stages have been packed.
            await self._leaving.wait()
            raise UnknownStageError(f"stage {request.stage} has left with its worker")
        if request.op == "create":
            return self._create(request.stage, fields)
        if request.op == "adopt":
            return self._adopt(request.stage, fields, request.arrays)
        if request.op in ("all_reduce", "abort"):
            self.expire()
            group = self._groups.get(request.stage)
            if group is None:
                group = self._groups[request.stage] = GroupHost(fields["size"], fields.get("secret"))
            group.touched = self._clock()
            return await group.answer(request)
        if request.op == "drop":
            if (group := self._groups.get(request.stage)) is not None:
                group.check(fields.get("secret"))
                del self._groups[request.stage]
            if (dropped := self._stages.pop(request.stage, None)) is not None:
                dropped.close()
            return Reply()
        stage = self._stages.get(request.stage)
        if stage is None:
            raise UnknownStageError(f"there is no stage {request.stage} here")
        stage.is_handed_over = False
        self.expire()
        stage.touch(self._clock(), fields)
        for transaction in fields.get("dead", ()):
            await stage.roll_back({"transaction": transaction}, [])
        for transaction in fields.get("finish", ()):
            stage.finish(transaction)
        reply: Reply = await getattr(stage, _METHODS[request.op])(fields, request.arrays)
        # Time begins when it has ended: what has run for longer than `ttl` would be dropped at once
        # (test_what_runs_for_longer_than_the_time_to_live_is_not_dropped).
        stage.touch_again(self._clock(), fields)
        return reply

    def _create(self, name: str, fields: dict[str, Any]) -> Reply:
        stage, attempt = self._stages.get(name), fields["attempt"]
        # What another worker has handed over, or what a home still has here whose connection broke.
        has_state = stage is not None and (stage.is_handed_over or stage.attempt >= fields.get("known", math.inf))
        # A stage that is left from an earlier attempt may be half begun; a late copy of a request is no new attempt.
        if stage is None or not (has_state or attempt <= stage.attempt):
            if "definition" not in fields:
                raise UnknownStageError(f"there is no stage {name} here")
            stage = self._stages[name] = _HostedStage(
                self._load(fields["definition"]), fields["definition"], self._allow_nonfinite
            )
            stage.touch(self._clock(), {})
        stage.attempt = attempt
        committed = list(stage.ledger.history) if has_state else None
        return Reply({"parameters": len(stage.ledger.params), "committed": committed})

    # --- a worker that leaves in an orderly way ---------------------------------------------------

    def hand_over(self) -> list[Request]:
        """Return requests by which the host of another worker adopts the stages of this one, with their state.

        Graphs are not among it: home has their forwards run again. Requests that come from now on wait until `leave`.
        """
        if self._leaving is None:
            self._leaving = asyncio.Event()
        requests = []
        for name, stage in self._stages.items():
            grads, committed = stage.ledger.final()
            skeleton, leaves = pack({**stage.program.state(), "grads": stage.program.spread(grads)})
            fields = {"definition": stage.exported, "attempt": 0, "state": skeleton, "committed": committed}
            requests.append(Request("adopt", name, fields, arrays_of(leaves)))
        return requests

    def leave(self) -> None:
        """Send homes elsewhere: all that `hand_over` has returned is where it goes."""
        assert self._leaving is not None
        self._leaving.set()

    def _adopt(self, name: str, fields: dict[str, Any], arrays: list[Any]) -> Reply:
        self._create(name, fields)
        stage = self._stages[name]
        stage.program.load_state(unpack(fields["state"], arrays))
        stage.ledger.history.update(dict.fromkeys(fields["committed"]))
        stage.is_handed_over = True
        return Reply()


#: By the name of a request, the method that answers it.
_METHODS = {
    "forward": "forward",
    "backward": "backward",
    "prepare": "prepare",
    "commit": "commit",
    "roll_back": "roll_back",
    "cancel": "cancel",
    "free": "free",
    "finish": "nothing",
    "step": "step",
    "zero_grad": "zero_grad",
    "state": "state",
    "load_state": "load_state",
    "restore": "restore",
}


@final
class _SavedCall:
    """A forward whose graph is kept: its inputs, those parameters among them that have come from home, and roots."""

    __slots__ = ("inputs", "outputs", "reply", "roots", "touched")

    def __init__(self, inputs: list[Any], roots: list[Any], reply: Reply, touched: float) -> None:
        self.inputs = inputs
        #: The edges of the outputs, None for one without a history: the outputs themselves need not be kept.
        self.roots = roots
        #: For a second request of the same forward; dropped by the first backward.
        self.reply: Reply | None = reply
        #: The bytes of the outputs.
        self.outputs = size_of(reply.arrays)
        self.touched = touched


@final
class _HostedStage:
    """One stage: its program, its graphs by key, and its gradients."""

    def __init__(self, definition: Definition, exported: Any, allow_nonfinite: bool = True) -> None:
        self._allow_nonfinite = allow_nonfinite
        #: The definition as it came.
        self.exported = exported
        #: Which attempt of its home to bring it to a worker has created it.
        self.attempt = -1
        #: Whether another worker has handed it over, and its home has not asked for anything since.
        self.is_handed_over = False
        self.program: Program = definition.build()
        self.ledger = GradientLedger([param for param in self.program.params if param.requires_grad])
        self.calls: dict[str, _SavedCall] = {}
        #: What runs, by the request that began it.
        self.running: dict[tuple[Any, ...], EagerTask] = {}
        self._touched: dict[str, float] = {}
        self._given_up: dict[str, None] = {}
        self._forward_calls = MeasuredCalls()
        #: When somebody has asked for anything last.
        self.touched = 0.0

    # --- calls -----------------------------------------------------------------------------------

    async def forward(self, fields: dict[str, Any], arrays: list[Any]) -> Reply:
        """Run the stage, and keep its graph if a backward may follow."""
        key = fields["key"]
        if (known := self.calls.get(key)) is not None and known.reply is not None:
            return known.reply
        if key in self._given_up:
            raise UnknownCallError(f"call {key} was given up before its forward came")
        return await self._run_once(("forward", key), lambda: self._forward(fields, arrays))

    async def _forward(self, fields: dict[str, Any], arrays: list[Any]) -> Reply:
        leaves = [_leaf(array, needs) for array, needs in zip(arrays, fields["needs"], strict=True)]
        params = leaves[: fields.get("params", 0)]
        args = unpack({"tuple": fields["inputs"]}, leaves[len(params) :])
        keywords = unpack(fields.get("keywords", {"dict": []}), leaves[len(params) :])
        saves = fields.get("saves", False)
        GENERATOR.set(np.random.default_rng([self.program.definition.seed, fields["number"]]))
        with enable_grad() if saves else no_grad():
            found = await self._forward_calls.call(self.program.call, params, args, keywords)
        skeleton, outputs = pack(found, "a stage")
        is_tracked = [isinstance(one, TensorBase) and one._requires_grad() for one in outputs]
        reply = Reply({"outputs": skeleton, "differentiable": is_tracked}, arrays_of(outputs))
        if saves:
            if fields["key"] in self._given_up:
                raise UnknownCallError(f"call {fields['key']} was given up while its forward ran")
            roots = [
                get_gradient_edge(one) if tracked else None for one, tracked in zip(outputs, is_tracked, strict=True)
            ]
            reply.fields["nodes"] = count_reachable({root.node: None for root in roots if root is not None}, None)
            self.calls[fields["key"]] = _SavedCall(leaves, roots, reply, self.touched)
        return reply

    async def backward(self, fields: dict[str, Any], arrays: list[Any]) -> Reply:
        """Return the gradients of the inputs; keep those of the parameters here."""
        key, transaction, contribution = fields["key"], fields["transaction"], _contribution(fields["contribution"])
        which = ("backward", key, transaction, contribution)
        if self.ledger.is_dead(transaction, contribution.task[1]):
            raise UnknownCallError(f"backward {transaction} has been rolled back")
        if key not in self.calls and which not in self.running:
            raise UnknownCallError(f"there is no graph of call {key} here")
        return await self._run_once(which, lambda: self._backward(which, fields, arrays))

    async def _backward(self, which: tuple[Any, ...], fields: dict[str, Any], arrays: list[Any]) -> Reply:
        _, key, transaction, contribution = which
        call, began = self.calls[key], time.perf_counter()
        call.reply = None
        inputs = [one for one, wanted in zip(call.inputs, fields["wants"], strict=True) if wanted]
        params = self.ledger.params if fields["wants_params"] else []
        pairs = [(root, grad) for root, grad in zip(call.roots, arrays, strict=True) if grad is not None]
        grads: tuple[Any, ...] = (None,) * (len(inputs) + len(params))
        if pairs and grads:
            grads = await differentiate(
                [root for root, _ in pairs],
                [*inputs, *params],
                [asarray(grad) for _, grad in pairs],
                retain_graph=True if fields["keep"] else None,
                allow_unused=True,
            )
        found = [None if grad is None else grad.numpy() for grad in grads]
        if not self._allow_nonfinite:
            check_gradients(found[len(inputs) :], transaction)
        if params:
            self.ledger.add(transaction, contribution, found[len(inputs) :])
        if not fields["keep"]:
            self._give_up(key)
        return Reply({"seconds": time.perf_counter() - began}, found[: len(inputs)])

    async def cancel(self, fields: dict[str, Any], _: list[Any]) -> Reply:
        """End what runs for a call: an async body is cancelled, and of a computing one the result is dropped."""
        for which, task in list(self.running.items()):
            if which[1] == fields["key"]:
                task.cancel()
        return Reply()

    async def free(self, fields: dict[str, Any], _: list[Any]) -> Reply:
        """Drop graphs by their keys; a forward that comes later is refused."""
        for key in fields["keys"]:
            self._give_up(key)
        return Reply()

    def _give_up(self, key: str) -> None:
        self.calls.pop(key, None)
        self._given_up[key] = None
        while len(self._given_up) > _REMEMBERED:
            del self._given_up[next(iter(self._given_up))]

    async def _run_once(self, which: tuple[Any, ...], make: Callable[[], Any]) -> Reply:
        """Run a coroutine, or wait for the one that runs for the same request; it outlives its caller."""
        task = self.running.get(which)
        if task is None:
            task = start_task(make(), contextvars.copy_context(), f"{which[0]} of a stage")
            if not task.done():
                self.running[which] = task
                task.add_done_callback(lambda _: self.running.pop(which, None))
                # All who wait may have been cancelled: nobody else looks at its error then.
                task.add_done_callback(retrieve)
        await wait_until_done(task)
        if task.cancelled():
            raise UnknownCallError(f"the {which[0]} of call {which[1]} was cancelled")
        return task.result()  # type: ignore[no-any-return]

    # --- gradients -------------------------------------------------------------------------------

    async def prepare(self, fields: dict[str, Any], _: list[Any]) -> Reply:
        """Sum what a transaction has added; name what is missing."""
        missing = self.ledger.prepare(fields["transaction"], map(_contribution, fields["contributions"]))
        if not self._allow_nonfinite:
            # Sums of finite gradients may be infinite.
            check_gradients(self.ledger.prepared(fields["transaction"]), fields["transaction"])
        return Reply({"missing": [[list(one.task), one.order, one.key] for one in missing]})

    async def commit(self, fields: dict[str, Any], _: list[Any]) -> Reply:
        """Add the sums of a transaction to the gradients; or name what is missing."""
        reply = await self.prepare(fields, [])
        if reply.fields["missing"]:
            return reply
        self.ledger.commit(fields["transaction"])
        return reply

    async def roll_back(self, fields: dict[str, Any], _: list[Any]) -> Reply:
        """Take away what a transaction, or one backward in it, has added; end what runs for it."""
        transaction, task = fields["transaction"], fields.get("task")
        self.ledger.roll_back(transaction, task)
        for which, running in list(self.running.items()):
            if which[0] == "backward" and which[2] == transaction and task in (None, which[3].task[1]):
                running.cancel()
        if task is None:
            self._touched.pop(transaction, None)
        return Reply()

    def finish(self, transaction: str) -> None:
        """Make a transaction final."""
        self.ledger.finish(transaction)
        self._touched.pop(transaction, None)

    # --- state -----------------------------------------------------------------------------------

    async def step(self, fields: dict[str, Any], _: list[Any]) -> Reply:
        """Make a step of the optimizer; once for each number."""
        if fields["number"] > self.program.steps:
            self.ledger.settle()
            step = self.program.step if self._allow_nonfinite else partial(finite_step, self.program)
            step(fields["number"], fields["options"])
            if fields["zero_grad"]:
                self.program.zero_grad()
        return self.report(fields["wants_state"])

    async def zero_grad(self, fields: dict[str, Any], _: list[Any]) -> Reply:
        """Drop the gradients."""
        self.ledger.settle()
        self.program.zero_grad()
        return self.report(fields["wants_state"])

    async def state(self, fields: dict[str, Any], _: list[Any]) -> Reply:
        """Return the state."""
        return self.report(True)

    async def load_state(self, fields: dict[str, Any], arrays: list[Any]) -> Reply:
        """Set the state, unless the request is a late one of an earlier attempt."""
        if fields["attempt"] != self.attempt:
            return Reply()
        self.ledger.settle()
        self.program.load_state(unpack(fields["state"], arrays))
        return Reply()

    async def restore(self, fields: dict[str, Any], arrays: list[Any]) -> Reply:
        """Set the state to one that home has kept; once for each number."""
        if fields["number"] > self.program.restored:
            self.ledger.settle()
            self.program.load_state(unpack(fields["state"], arrays))
            self.program.restored = fields["number"]
        return Reply()

    async def nothing(self, fields: dict[str, Any], _: list[Any]) -> Reply:
        """Answer a request that only carries notices."""
        return Reply()

    def report(self, wants_state: bool) -> Reply:
        """Return the state if it is wanted."""
        if not wants_state:
            return Reply()
        skeleton, arrays = pack(self.program.state(), "the state of a stage")
        # Copies: the reply may be sent after the next step.
        return Reply({"state": skeleton}, [array.copy() for array in arrays_of(arrays)])

    # --- time ------------------------------------------------------------------------------------

    def touch(self, now: float, fields: dict[str, Any]) -> None:
        """Note that somebody asks for a call or a transaction."""
        self.touched = now
        if (call := self.calls.get(fields.get("key", ""))) is not None:
            call.touched = now
        if transaction := fields.get("transaction"):
            self._touched[transaction] = now

    def touch_again(self, now: float, fields: dict[str, Any]) -> None:
        """Note that what somebody has asked for has ended; a transaction may have ended with it."""
        known = fields.get("transaction") in self._touched
        self.touch(now, fields if known else {"key": fields.get("key", "")})

    def expire(self, before: float) -> None:
        """Drop graphs, and roll back or make final transactions, that nobody has asked for since `before`."""
        busy = {one for which in self.running for one in which if isinstance(one, str)}
        for key in [key for key, call in self.calls.items() if call.touched < before and key not in busy]:
            del self.calls[key]
        for transaction in [one for one, touched in self._touched.items() if touched < before and one not in busy]:
            self.ledger.expire(transaction)
            del self._touched[transaction]

    def holds(self) -> Holding:
        """Return what is kept here."""
        calls = sum(size_of(arrays_of(call.inputs)) + call.outputs for call in self.calls.values())
        size = calls + self.ledger.held_bytes()
        return Holding(
            set(self.calls), set(self._touched), size, size_of(arrays_of(self.ledger.params)), bool(self.running)
        )

    def close(self) -> None:
        """End what runs."""
        for task in list(self.running.values()):
            task.cancel()


def _contribution(fields: Any) -> Contribution:
    task, order, key = fields
    return Contribution((task[0], task[1]), order, key)


def _leaf(array: Any, needs_grad: bool) -> Any:
    found: Tensor = asarray(array)
    return found.requires_grad_() if needs_grad else found
