"""HostedStage: one stage at its worker: its program, its graphs by key, and its gradients.

A call of a stage has a key. Its forward keeps the graph under the key, its backward runs by the key. A request may come
twice, late, or never: what runs for a key is not begun again, what has been given up or has had its backward does not
come back under that key, and a graph that nobody has asked for in `ttl` seconds is dropped. Home, which keeps the
inputs, then has the forward run again, under another key.

What changes the state is an effect with a number, and is applied once: a step, `zero_grad`, a state from home. So is a
commit, by the number of its transaction.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, final

from ..core.arrays.tensor_base import TensorBase
from ..core.backward import grad as differentiate
from ..core.engine.eager_task import EagerTask
from ..core.engine.exec_info import count_reachable
from ..core.engine.measured_calls import MeasuredCalls
from ..core.graph.leaf import get_gradient_edge
from ..core.settings.context import GENERATOR, SeededGenerator, enable_grad, no_grad
from ..core.tensor import Tensor, asarray
from ..errors import GraphError, UnknownCallError, UnknownStageError
from .concurrency import compute, start_lasting, wait_until_done
from .definition import Program
from .finite import check_gradients, finite_step
from .ledger import NAME_BYTES, Contribution, GradientLedger
from .owner_code import owner_code
from .payload import arrays_of, held_by, pack, size_of, unpack
from .transport import Reply, Request

__all__ = ["NOTHING_HELD", "Holding", "HostedStage"]

#: How many calls that were given up are remembered, so that a forward that comes late is not kept, and how many
#: characters their keys may have in all: those of asyncgrad have a few.
_REMEMBERED = 4096
_REMEMBERED_CHARACTERS = 1 << 16


@final
class Holding(NamedTuple):
    """What a host keeps for a stage."""

    #: The keys of calls whose graphs are kept.
    calls: set[str]
    #: The transactions that somebody has asked for, and that have not ended.
    transactions: set[int]
    #: The bytes of inputs and outputs of calls, and of gradients that are not final, and some for each name.
    size: int
    #: How many effects, transactions and contributions are remembered by their names.
    names: int
    #: The bytes that one backward adds to it.
    parameters: int
    #: Whether something runs for it.
    is_running: bool


NOTHING_HELD = Holding(set(), set(), 0, 0, 0, False)

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
    "outcome": "outcome",
    "step": "step",
    "zero_grad": "zero_grad",
    "state": "state",
    "load_state": "load_state",
    "restore": "restore",
}


@final
class _SavedCall:
    """A forward whose graph is kept: its inputs, those parameters among them that have come from home, and roots."""

    __slots__ = ("inputs", "reply", "roots", "size", "touched")

    def __init__(self, inputs: list[Any], roots: list[Any], reply: Reply, touched: float) -> None:
        self.inputs = inputs
        #: The edges of the outputs, None for one without a history: the outputs themselves need not be kept.
        self.roots = roots
        #: For a second request of the same forward; dropped by the first backward.
        self.reply: Reply | None = reply
        #: The bytes of the inputs and outputs.
        self.size = held_by(arrays_of(inputs)) + held_by(reply.arrays)
        self.touched = touched


@final
class HostedStage:
    """One stage: its program, its graphs by key, and its gradients.

    Args:
        program: what its definition has made.
        exported: the definition as it came.
        allow_nonfinite: whether gradients, and what a step makes of them, may be NaN or infinite.
    """

    def __init__(self, program: Program, exported: Any, allow_nonfinite: bool = True) -> None:
        self._allow_nonfinite = allow_nonfinite
        self.exported = exported
        #: Which attempt of its home to bring it to a worker it is here by.
        self.attempt = -1
        #: Whether that attempt found it here.
        self.was_kept = False
        #: Whether home has brought all that it had learned.
        self.is_whole = True
        self._is_loaded = False
        self.is_closed = False
        self.program: Program = program
        # Gradients that nobody has asked this stage for are not to enter its first step.
        self.program.zero_grad()
        self.ledger = GradientLedger([param for param in self.program.params if param.requires_grad])
        self._parameter_bytes = size_of(arrays_of(self.ledger.params))
        #: How often its state has changed.
        self.version = 0
        #: The effects from a number on that have been applied or refused: None, or the error that it raised.
        self._effects: dict[int, Exception | None] = {}
        self._effects_floor = 0
        self.calls: dict[str, _SavedCall] = {}
        #: What runs, by the request that began it.
        self.running: dict[tuple[Any, ...], EagerTask] = {}
        #: What a worker thread applies: an effect, or a sum of gradients. Nothing else is asked of the stage meanwhile:
        #: it would see a half.
        self.applying: EagerTask | None = None
        self._touched: dict[int, float] = {}
        self._given_up: dict[str, None] = {}
        self._given_up_characters = 0
        self._forward_calls = MeasuredCalls()
        #: When somebody has asked for anything last.
        self.touched = 0.0

    async def hear(self, fields: dict[str, Any]) -> None:
        """Take the notices that come with every request: which transactions and effects have ended at home."""
        for transaction in fields.get("dead", ()):
            await self.roll_back({"transaction": transaction}, [])
        for transaction in fields.get("finish", ()):
            self._finish(transaction)
        if (floors := fields.get("floors")) is not None:
            self.ledger.raise_floor(floors[0])
            if floors[1] > self._effects_floor:
                self._effects_floor = floors[1]
                self._effects = {one: error for one, error in self._effects.items() if one >= floors[1]}

    async def answer(self, request: Request) -> Reply:
        """Answer a request."""
        reply: Reply = await getattr(self, _METHODS[request.op])(request.fields, request.arrays)
        return reply

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
        leaves: list[Any] = []

        def run() -> Any:
            # Where the function runs: thousands of arrays, or numbers in lists, take long to make inputs of.
            leaves.extend(_leaf(array, needs) for array, needs in zip(arrays, fields["needs"], strict=True))
            params = leaves[: fields.get("params", 0)]
            args = unpack({"tuple": fields["inputs"]}, leaves[len(params) :])
            keywords = unpack(fields.get("keywords", {"dict": []}), leaves[len(params) :])
            return self.program.call(params, args, keywords)

        saves = fields.get("saves", False)
        GENERATOR.set(SeededGenerator([self.program.definition.seed, fields["number"]]))
        with enable_grad() if saves else no_grad(), owner_code():
            found = await self._forward_calls.call(run)
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
        key, transaction = fields["key"], fields["transaction"]
        contribution = Contribution.from_json(fields["contribution"])
        which = ("backward", key, transaction, contribution)
        if fields["wants_params"] and self.ledger.is_dead(transaction, contribution.task[1]):
            raise UnknownCallError(f"backward {transaction} has ended")
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
            with owner_code():
                grads = await differentiate(
                    [root for root, _ in pairs],
                    [*inputs, *params],
                    [asarray(grad) for _, grad in pairs],
                    retain_graph=True if fields["keep"] else None,
                    allow_unused=True,
                )
        found = [None if grad is None else grad.numpy() for grad in grads]
        if params and not self._allow_nonfinite:
            await compute(partial(check_gradients, found[len(inputs) :]), self._parameter_bytes)
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
        if key in self._given_up:
            return
        self._given_up[key] = None
        self._given_up_characters += len(key)
        while len(self._given_up) > _REMEMBERED or self._given_up_characters > _REMEMBERED_CHARACTERS:
            oldest = next(iter(self._given_up))
            del self._given_up[oldest]
            self._given_up_characters -= len(oldest)

    async def _run_once(self, which: tuple[Any, ...], make: Callable[[], Any]) -> Reply:
        """Run a coroutine, or wait for the one that runs for the same request; it outlives its caller."""
        task = self.running.get(which)
        if task is None:
            task = start_lasting(make(), f"{which[0]} of a stage")
            if not task.done():
                self.running[which] = task
                task.add_done_callback(lambda _: self.running.pop(which, None))
        await wait_until_done(task)
        if self.is_closed:
            raise UnknownStageError("the stage was dropped, or brought here again, while it was asked")
        if task.cancelled():
            raise UnknownCallError(f"the {which[0]} of call {which[1]} was cancelled")
        reply: Reply = task.result()
        return reply

    # --- gradients -------------------------------------------------------------------------------

    async def prepare(self, fields: dict[str, Any], _: list[Any]) -> Reply:
        """Sum what a transaction has added; name what is missing."""
        return await self._sum(self._prepare, fields)

    def _prepare(self, fields: dict[str, Any]) -> Reply:
        missing = self.ledger.prepare(fields["transaction"], map(Contribution.from_json, fields["contributions"]))
        if not self._allow_nonfinite:
            # Sums of finite gradients may be infinite.
            check_gradients(self.ledger.prepared(fields["transaction"]))
        return Reply({"missing": [one.as_json() for one in missing], "version": self.version})

    async def commit(self, fields: dict[str, Any], _: list[Any]) -> Reply:
        """Add the sums of a transaction to the gradients; or name what is missing."""
        return await self._sum(self._commit, fields)

    def _commit(self, fields: dict[str, Any]) -> Reply:
        reply = self._prepare(fields)
        if not reply.fields["missing"]:
            self.version += self.ledger.commit(fields["transaction"])
            reply.fields["version"] = self.version
        return reply

    async def _sum(self, work: Callable[[dict[str, Any]], Reply], fields: dict[str, Any]) -> Reply:
        """Do what sums gradients of the parameters; nothing else is asked of the stage meanwhile."""
        size = self._parameter_bytes * (1 + len(fields["contributions"]) + len(self.ledger))
        reply: Reply = await self._alone(compute(partial(work, fields), size), "sum the gradients of a stage")
        return reply

    async def roll_back(self, fields: dict[str, Any], _: list[Any]) -> Reply:
        """Take away what a transaction, or one backward in it, has added; end what runs for it."""
        transaction, task = fields["transaction"], fields.get("task")
        if task is None and self.ledger.is_committed(transaction):
            # What is left is summed again.
            work, size = partial(self.ledger.roll_back, transaction), self._parameter_bytes * len(self.ledger)
            self.version += await self._alone(compute(work, size), "roll a stage back")
        else:
            self.version += self.ledger.roll_back(transaction, task)
        for which, running in list(self.running.items()):
            if which[0] == "backward" and which[2] == transaction and task in (None, which[3].task[1]):
                running.cancel()
        if task is None:
            self._touched.pop(transaction, None)
        return Reply()

    def _finish(self, transaction: int) -> None:
        self.ledger.finish(transaction)
        self._touched.pop(transaction, None)

    # --- state -----------------------------------------------------------------------------------

    async def step(self, fields: dict[str, Any], _: list[Any]) -> Reply:
        """Make a step of the optimizer."""

        def step() -> None:
            self.ledger.settle()
            make = self.program.step if self._allow_nonfinite else partial(finite_step, self.program)
            make(fields["options"])
            if fields["zero_grad"]:
                self.program.zero_grad()

        return await self._apply_once(fields, step)

    async def zero_grad(self, fields: dict[str, Any], _: list[Any]) -> Reply:
        """Drop the gradients."""

        def drop() -> None:
            self.ledger.settle()
            self.program.zero_grad()

        return await self._apply_once(fields, drop)

    async def restore(self, fields: dict[str, Any], arrays: list[Any]) -> Reply:
        """Set the state to one that home has kept."""

        def restore() -> None:
            self.ledger.settle()
            self.program.load_state(unpack(fields["state"], arrays))

        return await self._apply_once(fields, restore)

    async def _apply_once(self, fields: dict[str, Any], apply: Callable[[], None]) -> Reply:
        """Do what an effect does, once for its number, however often and late the request comes.

        Raises:
            GraphError: home has given it up.
        """
        effect = fields["effect"]
        if effect < self._effects_floor:
            raise GraphError(f"effect {effect} of a stage comes after its home has given it up")
        if effect not in self._effects:
            self._effects[effect], self.version = None, self.version + 1
            await self._alone(self._apply(effect, apply), "an effect on a stage")
        elif (failed := self._effects[effect]) is not None:
            raise failed.with_traceback(None)
        return await self._report(fields["wants_state"])

    async def _alone(self, coroutine: Any, name: str) -> Any:
        """Return the result of what a worker thread does to the state, while nothing else is asked of the stage."""
        task = start_lasting(self._end_applying(coroutine), name)
        if not task.done():
            self.applying = task
            await wait_until_done(task)
        return task.result()

    async def _end_applying(self, coroutine: Any) -> Any:
        try:
            return await coroutine
        finally:
            # At once: who waits for it looks whether there is another.
            self.applying = None

    async def _apply(self, effect: int, apply: Callable[[], None]) -> None:
        try:
            with owner_code():
                await compute(apply)
        except BaseException as error:
            # Not the error itself, whose traceback refers to what it was raised in.
            self._effects[effect] = GraphError(f"effect {effect} of a stage raised {type(error).__name__} before")
            raise

    async def outcome(self, fields: dict[str, Any], _: list[Any]) -> Reply:
        """Tell which of some effects have been applied, and refuse the others from now on."""
        applied = []
        for effect in fields["effects"]:
            if effect >= self._effects_floor:
                self._effects.setdefault(effect, GraphError(f"effect {effect} of a stage was given up by its home"))
                applied += [effect] if self._effects[effect] is None else []
        reply = await self._report(fields["wants_state"])
        reply.fields["applied"] = applied
        return reply

    async def state(self, fields: dict[str, Any], _: list[Any]) -> Reply:
        """Return the state."""
        return await self._report(True)

    async def load_state(self, fields: dict[str, Any], arrays: list[Any]) -> Reply:
        """Begin with a state that another worker had, in which some effects are applied; once."""
        if not self._is_loaded:
            # A copy that comes late would undo the commits that home has repeated since.
            self._is_loaded = True
            load = partial(self.program.load_state, unpack(fields["state"], arrays))
            await self._alone(compute(load, size_of(arrays)), "load the state of a stage")
            self._effects = dict.fromkeys(fields["effects"])
        return Reply({"version": self.version})

    async def nothing(self, fields: dict[str, Any], _: list[Any]) -> Reply:
        """Answer a request that only carries notices."""
        return Reply()

    async def _report(self, wants_state: bool) -> Reply:
        """Return the version, and the state if it is wanted."""
        if not wants_state:
            return Reply({"version": self.version})
        reply: Reply = await self._alone(compute(self._copy_state, self._parameter_bytes), "copy the state of a stage")
        return reply

    def _copy_state(self) -> Reply:
        skeleton, arrays = pack(self.program.state(), "the state of a stage")
        fields = {"state": skeleton, "version": self.version, "effects": self._applied()}
        # Copies: the reply may be sent after the next step.
        return Reply(fields, [array.copy() for array in arrays_of(arrays)])

    def _applied(self) -> list[int]:
        return [one for one, error in self._effects.items() if error is None]

    def export(self) -> dict[str, Any]:
        """Return all that the stage has learned, and which requests it has answered, for a host elsewhere."""
        grads, ledger = self.ledger.export()
        state = {**self.program.state(), "grads": self.program.spread(grads)}
        return {
            "state": state,
            "ledger": ledger,
            "effects": [list(self._effects), self._applied(), self._effects_floor],
            "version": self.version,
        }

    def adopt(self, exported: dict[str, Any]) -> None:
        """Go on from what a host elsewhere has exported."""
        self.program.load_state(exported["state"])
        self.ledger.adopt(exported["ledger"])
        known, applied, self._effects_floor = exported["effects"]
        refused = GraphError("this effect of a stage failed, or was given up, before its worker left")
        self._effects = {one: None if one in applied else refused for one in known}
        self.version = exported["version"]

    # --- time ------------------------------------------------------------------------------------

    def touch(self, now: float, fields: dict[str, Any]) -> None:
        """Note that somebody asks for a call or a transaction."""
        self.touched = now
        if (call := self.calls.get(fields.get("key", ""))) is not None:
            call.touched = now
        if (transaction := fields.get("transaction")) and fields.get("wants_params", True):
            self._touched[transaction] = now

    def touch_again(self, now: float, fields: dict[str, Any]) -> None:
        """Note that what somebody has asked for has ended; a transaction may have ended with it."""
        known = fields.get("transaction") in self._touched
        self.touch(now, fields if known else {"key": fields.get("key", "")})

    def expire(self, before: float) -> None:
        """Drop graphs, and gradients of backward passes that have not been committed, of before some time."""
        busy = {which[1] for which in self.running}
        for key in [key for key, call in self.calls.items() if call.touched < before and key not in busy]:
            del self.calls[key]
        at_work = {which[2] for which in self.running if which[0] == "backward"}
        for transaction in [one for one, at in self._touched.items() if at < before and one not in at_work]:
            self.ledger.forget(transaction)
            del self._touched[transaction]

    def holds(self) -> Holding:
        """Return what is kept here."""
        names = len(self._effects) + self.ledger.names()
        size = sum(call.size for call in self.calls.values()) + self.ledger.held_bytes() + NAME_BYTES * names
        return Holding(
            set(self.calls),
            set(self._touched),
            size,
            names,
            self._parameter_bytes,
            bool(self.running) or self.applying is not None,
        )

    def close(self) -> None:
        """End what runs, and drop what has not been stepped: the next stage of this Module is not to have it."""
        self.is_closed = True
        self.ledger.settle()
        self.program.zero_grad()
        for task in list(self.running.values()):
            task.cancel()


def _leaf(array: Any, needs_grad: bool) -> Any:
    found: Tensor = asarray(array)
    return found.requires_grad_() if needs_grad else found
