"""Stage: a part of a model whose forward and backward run at a worker, as home sees it.

What is needed to go on without the worker stays at home: the definition, the state after the last step, and the calls
whose gradients have been added since. When the worker is lost, another one gets these, and does the calls again.

What changes the state at the worker has a number, which rises when it is sent: the worker applies it once. If it was
cancelled, nobody knows whether it was applied, and the next request begins by asking: it has been, or it never will be.
"""

from __future__ import annotations

import contextvars
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

from ..core.engine.eager_task import EagerTask, start_task
from ..core.engine.observation import NODES_ELSEWHERE
from ..core.graph.naming import identify
from ..core.settings.context import CURRENT_NODE, is_grad_enabled
from ..core.tensor import Tensor, asarray, tensor
from ..core.tree.structure import leaves as leaves_of
from ..errors import (
    ArgumentError,
    BusyError,
    RemoteError,
    StageLost,
    UnknownCallError,
    UnknownStageError,
    WorkerLostError,
)
from .calls import Call, StageCall
from .concurrency import run_together, start_lasting, wait_until_done
from .definition import Definition
from .failures import restore_error
from .ledger import Contribution
from .payload import arrays_of, check_size, pack, size_of, unpack
from .transactions import Run
from .transport import MOST_LISTED, Reply, Request, Transport

if TYPE_CHECKING:
    from ..core.arrays.array import Array


__all__ = ["Stage"]

#: How many bytes home keeps of calls since the last step before it considers to have the state brought home instead.
_LOG_BYTES = 1 << 24
#: How often a request is sent to one worker after another before the stage counts as lost.
_MOVES = 8


@final
class _LoggedRun:
    """A run of a backward that has been committed, as another worker would do it again."""

    __slots__ = ("backward", "forward", "grads", "inputs", "size")

    def __init__(self, transaction: int, run: Run) -> None:
        self.forward, self.backward = run.call.requests_to_repeat(transaction, run)
        # Copies: the arrays at home may be written into later.
        self.inputs = [array.copy() for array in run.inputs]
        self.grads = [None if grad is None else grad.copy() for grad in run.grads]
        self.size = size_of(self.inputs) + size_of(self.grads)


@final
@dataclass(slots=True)
class _LoggedTransaction:
    """The runs of a transaction that has been committed, and the version of the state at the worker after that."""

    runs: list[_LoggedRun]
    version: int


@final
@dataclass(frozen=True, slots=True)
class _State:
    """A state of the worker at home: as arrays, with its version there, and the effects that it contains."""

    skeleton: Any
    arrays: list[Any]
    version: int
    effects: list[int]


@final
class Stage:
    """A function or a Module that runs at a worker: `y = await stage(x)`, then `await loss.backward()` as ever.

    `ag.distributed.stage` and `ag.distributed.RemoteModule` make it. The first call, or `await stage.start()`, brings
    it to its worker.

    Args:
        definition: what it computes.
        transport: carries messages to the workers.
        worker: the address of its worker; None for the one with the fewest stages of this transport's choice.
        allow_other_workers: whether another worker may take over if its own is lost.
        backup: whether home keeps what another worker needs for that. Each step then brings the state home.
        name: what errors call it.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> async def main():
        ...     transport = ag.distributed.SimulatedTransport(["a", "b"])
        ...     stage = ag.distributed.stage(lambda w, x: w * x, ag.tensor(3.0), transport=transport, worker="a")
        ...     x = ag.tensor(2.0, requires_grad=True)
        ...     await (await stage(x)).backward()
        ...     return x.grad.item(), [grad.item() for grad in await stage.grads()]
        >>> ag.run(main())
        (3.0, [2.0])
    """

    def __init__(
        self,
        definition: Definition,
        transport: Transport,
        worker: str | None = None,
        *,
        allow_other_workers: bool = True,
        backup: bool = True,
        name: str | None = None,
    ) -> None:
        self._definition = definition
        self._transport = transport
        self._worker = worker
        self._allow_other_workers = allow_other_workers
        self._backup = backup
        self.name: str = f"{name or _name_of(definition.fn)}-{uuid.uuid4().hex[:12]}"
        self._exported: Any = None
        self._is_started = False
        self._is_closed = False
        #: Rises when another worker takes over.
        self._epoch = 0
        #: How often it was to be brought to a worker, and which time succeeded last.
        self._attempts = 0
        self._begun = 0
        self._moving: EagerTask | None = None
        self._calls = 0
        #: What changes the state at the worker: how often that was asked for, what is under way, and what was given up.
        self._effects = 0
        self._under_way: set[int] = set()
        self._unsure: set[int] = set()
        #: The last step: its effect, and its fields; and whether the worker has made it, None while nobody knows.
        self._last_step: tuple[int, dict[str, Any]] | None = None
        self._is_last_step_made: bool | None = None
        #: The state after the last step; None before the first, which the definition tells.
        self._state: _State | None = None
        #: How many transactions have had a part here; those that have not ended.
        self._transactions = 0
        self._open: set[int] = set()
        #: Those that are final, and of which the host may not know.
        self._final: set[int] = set()
        #: Those that were rolled back, and of which the host may not know.
        self._dead: set[int] = set()
        #: What brings the state home, while it does.
        self._saving: EagerTask | None = None
        #: The transactions that have been committed since then, in order.
        self._log: dict[int, _LoggedTransaction] = {}
        #: Whether nothing has been changed at the worker since it began.
        self._is_new = True
        self._anchor: Any = tensor(0.0)
        self._home_params: list[Any] = []
        if definition.params_at_home:
            self._home_params = leaves_of(definition.params)

    @property
    def worker(self) -> str | None:
        """The address of its worker; None where none has been chosen yet."""
        return self._worker

    @property
    def is_step_unsure(self) -> bool:
        """Whether the last `step` was cancelled, or its worker lost, and nobody knows yet if the worker has made it."""
        return self._last_step is not None and self._is_last_step_made is None

    async def start(self) -> Stage:
        """Bring the stage to its worker, if it is not there; return it."""
        if not self._is_started:
            await self._move(self._epoch, None)
        return self

    async def __call__(self, *inputs: object, **keywords: object) -> Any:
        """Return what the stage computes of its inputs: arrays, tensors and numbers, in lists, tuples and dicts.

        Raises:
            StageLost: its worker has gone, and no other can take over.
            PayloadError: the inputs or outputs are larger than a message may be.
        """
        await self._be_sure()
        await self._shorten_log()
        skeleton, found = pack((*inputs, keywords), f"stage {self.name}")
        *positional, named = skeleton["tuple"]
        leaves = [leaf if isinstance(leaf, Tensor) else asarray(leaf) for leaf in [*self._home_params, *found]]
        saves = is_grad_enabled() and (self._anchor.requires_grad or any(leaf.requires_grad for leaf in leaves))
        call = Call(
            self,
            self._calls,
            {
                "inputs": positional,
                "keywords": named,
                "params": len(self._home_params),
                "needs": [bool(saves and leaf.requires_grad) for leaf in leaves],
                "saves": saves,
            },
        )
        self._calls += 1
        outputs = await StageCall.apply(call, self._anchor, *leaves)
        node = next(filter(None, (one.grad_fn for one in outputs if isinstance(one, Tensor))), None)
        if node is not None:
            NODES_ELSEWHERE[node] = call.nodes
        return unpack(call.outputs, outputs)

    # --- the state at the worker -----------------------------------------------------------------

    async def step(self, *, zero_grad: bool = True, retry: bool = False, **options: object) -> None:
        """Have the optimizer at the worker make a step.

        A step that is cancelled, as by a timeout, may have been made. What is asked of the stage next finds out first;
        if the worker has not made it by then, it never will, and the gradients are still there.

        Args:
            zero_grad: whether the gradients are dropped after it.
            retry: make the last step, as it was asked for, unless the worker has made it; without this it is a new one.
            **options: options of the optimizer to change before, such as `lr`.

        Raises:
            ArgumentTypeError: the stage has no optimizer.
            ArgumentError: a retry has options, or there has been no step.
            StageLost: the worker has gone, and no other can take over.

        Example:
            >>> import asyncio, asyncgrad as ag
            >>> async def main():
            ...     transport = ag.distributed.SimulatedTransport(["a"])
            ...     make = lambda params: ag.optim.SGD(params, lr=1.0)
            ...     stage = ag.distributed.stage(lambda w: w * 2, 1.0, transport=transport, optimizer=make)
            ...     await (await stage()).backward()
            ...     step = asyncio.ensure_future(stage.step())
            ...     await asyncio.sleep(0)
            ...     step.cancel()
            ...     await asyncio.wait([step])
            ...     unsure = stage.is_step_unsure
            ...     await stage.step(retry=True)
            ...     return unsure, await stage.parameters()
            >>> ag.run(main())
            (True, [tensor(-1., dtype=float64, device='cpu')])
        """
        fields = {"options": options, "zero_grad": zero_grad}
        if not retry:
            # Before it is sent: one that is cancelled until then has not been made, and can be tried again.
            self._last_step, self._is_last_step_made = (0, fields), False
        elif self._last_step is None or options:
            what = "takes no options, and makes the last one" if options else "needs one before it"
            raise ArgumentError(f"stage {self.name}: step(retry=True) {what}: write step({_words(options)})")
        await self._be_sure()
        if retry:
            if self._is_last_step_made:
                return
            fields = self._last_step[1]
        self._last_step, self._is_last_step_made = (self._effects + 1, fields), None
        await self._apply("step", fields, [])

    async def zero_grad(self) -> None:
        """Drop the gradients of the parameters at the worker."""
        await self._be_sure()
        await self._apply("zero_grad", {}, [])

    async def parameters(self) -> list[Tensor]:
        """Return copies of the parameters, in the order of `Module.parameters()` or of the leaves of `params`."""
        params: list[Tensor] = (await self._fetch())["params"]
        return params

    async def grads(self) -> list[Tensor | None]:
        """Return copies of the gradients of the parameters, None where there is none."""
        grads: list[Tensor | None] = (await self._fetch())["grads"]
        return grads

    async def state_dict(self) -> dict[str, object]:
        """Return copies of all that the stage has learned: parameters, gradients, buffers, the optimizer's state."""
        return await self._fetch()

    async def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Set all that the stage has learned to what `state_dict` returned, here or elsewhere.

        Raises:
            ArgumentError: the state is that of a stage with other parameters.
        """
        await self._be_sure()
        skeleton, leaves = pack(dict(state), "the state of a stage")
        await self._apply("restore", {"state": skeleton}, [array.copy() for array in arrays_of(leaves)])

    async def _fetch(self) -> dict[str, Any]:
        await self._be_sure()
        reply = await self.ask("state", {}, [])
        arrays: list[Any] = reply.arrays
        state: dict[str, Any] = unpack(reply.fields["state"], [asarray(array) for array in arrays])
        return state

    async def _apply(self, op: str, fields: dict[str, Any], arrays: list[Any]) -> None:
        """Have the host do what changes the state; once, whatever becomes of messages and workers."""
        effect = self._effects = self._effects + 1
        self._under_way.add(effect)
        self._is_new = False
        try:
            reply = await self.ask(op, {**fields, "effect": effect, "wants_state": self._backup}, arrays)
        except BaseException:
            if effect in self._under_way:
                self._unsure.add(effect)
            else:
                # The host has answered that it failed.
                self._note_outcome(effect, False)
            raise
        finally:
            self._under_way.discard(effect)
        self._note_outcome(effect, True)
        self._keep(reply)

    async def _be_sure(self) -> None:
        """Bring the stage to its worker, and find out which effects that were given up it has applied."""
        await self.start()
        while self._unsure:
            unsure = sorted(self._unsure)[:MOST_LISTED]
            reply = await self.ask("outcome", {"effects": unsure, "wants_state": self._backup}, [])
            for effect in unsure:
                self._note_outcome(effect, effect in reply.fields["applied"])
            self._unsure.difference_update(unsure)
            self._keep(reply)

    def _note_outcome(self, effect: int, is_made: bool) -> None:
        if self._last_step is not None and self._last_step[0] == effect:
            self._is_last_step_made = is_made

    async def close(self) -> None:
        """Have the worker drop the stage, with all that it keeps."""
        if self._attempts and self._worker is not None and not self._is_closed:
            self._is_closed = True
            try:
                await self._transport.call(self._address(), self._drop_request())
            except (WorkerLostError, StageLost):
                # It has gone, or the transport was closed, and the stage with it.
                return

    async def __aenter__(self) -> Stage:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<Stage {self.name}, worker {self._worker}>"

    def __del__(self) -> None:
        if getattr(self, "_attempts", 0) and self._worker is not None and not self._is_closed:
            self._transport.send(self._address(), self._drop_request())

    def _drop_request(self) -> Request:
        return Request("drop", self.name, {"attempt": self._attempts})

    # --- for calls -------------------------------------------------------------------------------

    async def ask(self, op: str, fields: dict[str, object], arrays: list[Array]) -> Reply:
        """Return the reply of the host, wherever it is by now.

        Raises:
            StageLost: the worker has gone, and no other can take over.
        """
        for _ in range(_MOVES):
            if not self._is_started:
                await self._move(self._epoch, None)
            epoch, worker = self._epoch, self._address()
            final, dead = list(self._final)[:MOST_LISTED], list(self._dead)[:MOST_LISTED]
            notices: dict[str, Any] = {"floors": self._floors()}
            if final or dead:
                notices |= {"finish": final, "dead": dead}
            try:
                try:
                    reply = await self._ask_worker(worker, op, {**fields, **notices}, arrays)
                except UnknownCallError:
                    self._check_epoch(epoch, worker)
                    raise
                self._check_epoch(epoch, worker)
                self._final.difference_update(final)
                self._dead.difference_update(dead)
                return reply
            except (WorkerLostError, UnknownStageError) as lost:
                await self._move(epoch, lost)
        raise StageLost(f"stage {self.name} has lost {_MOVES} workers one after the other{_where()}")

    def _check_epoch(self, epoch: int, worker: str) -> None:
        """Raise if a request beside this one has found the worker lost, which answers all the same.

        What it did is lost, too (test_a_reply_of_a_worker_that_was_given_up_counts_for_nothing); and a call may be
        unknown there since it was cancelled when the stage moved away.

        Raises:
            WorkerLostError: it was given up.
        """
        if self._epoch != epoch or (self._moving is not None and not self._moving.done()):
            raise WorkerLostError(f"worker {worker} has been given up")

    def _floors(self) -> list[int]:
        """Return the numbers below which every transaction, and every effect, has ended: the host knows how."""
        transactions = min({*self._open, *self._final, *self._dead, self._transactions + 1})
        return [transactions, min({*self._under_way, *self._unsure, self._effects + 1})]

    def notify(self, op: str, fields: dict[str, object]) -> None:
        """Send a request whose reply nobody needs; from any thread, never suspends."""
        self._transport.send(self._address(), Request(op, self.name, {**fields, "attempt": self._begun}))

    async def _ask_worker(self, worker: str, op: str, fields: dict[str, Any], arrays: list[Any]) -> Reply:
        check_size(arrays, self._transport.max_bytes, f"the request {op!r} to stage {self.name}")
        fields = {"attempt": self._begun, **fields}
        reply = await self._transport.call(worker, Request(op, self.name, fields, arrays))
        error = reply.fields.get("error")
        if error is not None:
            failed = restore_error(error, worker, self._transport.load_error)
            if not isinstance(failed, (WorkerLostError, UnknownStageError)):
                self._under_way.discard(fields.get("effect", 0))
            raise failed
        return reply

    def _address(self) -> str:
        assert self._worker is not None
        return self._worker

    # --- for transactions ------------------------------------------------------------------------

    def begin(self) -> int:
        """Note that a transaction has a part here; return what it is called here."""
        # Numbered by this stage: the host is told below which number all have ended.
        self._transactions += 1
        self._open.add(self._transactions)
        return self._transactions

    async def prepare(self, transaction: int, runs: dict[Contribution, Run]) -> None:
        """Make sure that all contributions are at the host, and summed; what is missing is done again."""
        await self._complete("prepare", transaction, runs)

    async def commit(self, transaction: int, runs: dict[Contribution, Run]) -> None:
        """Have the host add the gradients, after what is missing has been done again."""
        version = await self._complete("commit", transaction, runs)
        self._is_new = False
        if self._backup and (self._state is None or version > self._state.version):
            # Else a state that came home meanwhile contains it.
            self._log[transaction] = _LoggedTransaction(
                [_LoggedRun(transaction, run) for run in runs.values()], version
            )

    async def _complete(self, op: str, transaction: int, runs: dict[Contribution, Run]) -> int:
        """Return the version of the state at the host once it has all contributions."""
        await self._be_sure()
        fields = {"transaction": transaction, "contributions": [one.as_json() for one in runs]}
        for _ in range(_MOVES):
            reply = await self.ask(op, fields, [])
            missing = [runs[Contribution.from_json(one)] for one in reply.fields["missing"]]
            if not missing:
                return int(reply.fields["version"])
            # Another worker has taken over since these were run.
            await run_together([run.call.backward(transaction, run, False) for run in missing], "repeat a backward")
        raise StageLost(f"stage {self.name} has lost the gradients of a backward {_MOVES} times{_where()}")

    async def roll_back(self, transaction: int, task: int | None = None) -> None:
        """Have the host take the gradients back; raises nothing."""
        fields = {"transaction": transaction} if task is None else {"transaction": transaction, "task": task}
        if task is None:
            self._log.pop(transaction, None)
            # Until the host has said that it knows: else it is told with the next request.
            self._dead.add(transaction)
            self._open.discard(transaction)
        if self._moving is not None:
            # The worker that takes over may be about to repeat this transaction.
            await wait_until_done(self._moving)
        epoch = self._epoch
        try:
            await self._ask_worker(self._address(), "roll_back", fields, [])
        except (WorkerLostError, RemoteError, PermissionError, LookupError, BusyError):
            # It has gone, and its gradients with it; or the connection; or it hears of it with the next request.
            return
        if task is None and self._epoch == epoch:
            self._dead.discard(transaction)

    def finish(self, transaction: int) -> None:
        """Tell the host that a transaction is final: now, and again with the next request."""
        self._open.discard(transaction)
        self._final.add(transaction)
        self.notify("finish", {"finish": [transaction]})

    # --- the loss of a worker --------------------------------------------------------------------

    def _keep(self, reply: Reply) -> None:
        """Keep the state in a reply, from which another worker would begin, unless there is a newer one."""
        found = reply.fields
        if self._backup and (self._state is None or found["version"] > self._state.version):
            self._state = _State(found["state"], reply.arrays, found["version"], found["effects"])
            self._log = {one: logged for one, logged in self._log.items() if logged.version > found["version"]}

    async def _shorten_log(self) -> None:
        """Bring the state home once that is less than what has been kept since the last time, and nothing is open."""
        if not (self._backup and self._log) or self._open or self._saving is not None:
            return
        kept = sum(run.size for logged in self._log.values() for run in logged.runs)
        if kept > _LOG_BYTES and kept > 2 * self._state_size():
            saving = self._saving = start_task(self._save(), contextvars.copy_context(), "save a stage")
            try:
                await wait_until_done(saving)
            finally:
                if saving.done():
                    self._saving = None
            saving.result()

    async def _save(self) -> None:
        self._keep(await self.ask("state", {}, []))

    def _state_size(self) -> int:
        return 0 if self._state is None else size_of(self._state.arrays)

    async def _move(self, epoch: int, lost: BaseException | None) -> None:
        """Bring the stage to a worker, or to another one, unless that has been done since `epoch`."""
        if self._is_closed:
            raise StageLost(f"stage {self.name} has been closed: make another one")
        while self._epoch == epoch and (lost is not None or not self._is_started):
            moving = self._moving
            if moving is None or moving.done():
                # One that is done has failed when all who waited had been cancelled: it tells nothing of this time.
                moving = self._moving = start_lasting(self._relocate(lost), "move a stage")
            try:
                await wait_until_done(moving)
            finally:
                if moving.done() and self._moving is moving:
                    self._moving = None
            moving.result()

    async def _relocate(self, lost: BaseException | None) -> None:
        before, can_begin = self._worker, self._backup or self._is_new
        # What fails from here on leaves the stage nowhere: the next request brings it to a worker again.
        self._is_started = False
        for worker in await self._candidates(lost, can_begin):
            try:
                await self._begin_at(worker, can_begin)
            except (WorkerLostError, UnknownStageError, UnknownCallError) as error:
                lost = lost or error
                if can_begin:
                    # Should it have begun all the same, it is to keep nothing.
                    self._transport.send(worker, self._drop_request())
                continue
            self._worker, self._is_started, self._begun = worker, True, self._attempts
            self._epoch += 1
            if self._is_closed:
                self._transport.send(worker, self._drop_request())
            if before is not None and before != worker:
                # Should it come back, it is to keep nothing.
                self._transport.send(before, self._drop_request())
            return
        why = "no other worker can take over"
        if not can_begin:
            why = "what it had learned is nowhere else: give the stage backup=True"
        was = f"was at worker {before}, which has gone" if self._begun else f"cannot begin at worker {before}"
        raise StageLost(f"stage {self.name} {was} ({lost}){_where()}; {why}") from lost

    async def _candidates(self, lost: BaseException | None, can_begin: bool) -> list[str]:
        known = list(await self._transport.workers())
        if self._worker is None:
            return known
        if not self._allow_other_workers or lost is None:
            first = [self._worker]
        else:
            # A worker that answers and does not know the stage has been restarted. Where it alone has what the stage
            # has learned, perhaps only the connection broke.
            first = [self._worker] if isinstance(lost, UnknownStageError) or not can_begin else []
        others = [one for one in known if one != self._worker] if self._allow_other_workers else []
        return first + others

    async def _begin_at(self, worker: str, can_begin: bool) -> None:
        """Create the stage at a worker, with the state after the last step, and repeat the calls since.

        A worker that left in an orderly way has handed its state on: whoever has that goes on from there.

        Args:
            worker: its address.
            can_begin: whether the stage may begin with the state that is at home.

        Raises:
            UnknownStageError: it may not, and the worker neither has it still nor has been handed it.
        """
        if self._exported is None:
            self._exported = self._transport.export(self._definition)
        self._attempts += 1
        # The last attempt: what comes late of an earlier one, or has begun for it, counts no more.
        fields = {"attempt": self._attempts, "known": self._begun}
        if can_begin:
            fields["definition"] = self._exported
            fields["is_incomplete"] = self._state is not None or bool(self._log)
        reply = await self._ask_worker(worker, "create", fields, [])
        self._anchor = tensor(0.0, requires_grad=reply.fields["parameters"] > 0)
        if not reply.fields["kept"] and (self._state is not None or self._log):
            await self._bring_state(worker)

    async def _bring_state(self, worker: str) -> None:
        """Give a worker the state after the last step, and repeat the calls since; from then on it is whole."""
        beginning = {"attempt": self._attempts, "begins": True}
        if self._state is not None:
            kept = self._state
            fields = {**beginning, "state": kept.skeleton, "effects": kept.effects}
            version = (await self._ask_worker(worker, "load_state", fields, kept.arrays)).fields["version"]
            self._state = replace(kept, version=version)
        for transaction, logged in list(self._log.items()):
            for run in logged.runs:
                await self._ask_worker(worker, "forward", {**run.forward, **beginning}, run.inputs)
                await self._ask_worker(worker, "backward", {**run.backward, **beginning}, run.grads)
            expected = [run.backward["contribution"] for run in logged.runs]
            fields = {**beginning, "transaction": transaction, "contributions": expected}
            logged.version = (await self._ask_worker(worker, "commit", fields, [])).fields["version"]
        await self._ask_worker(worker, "ready", beginning, [])


def _name_of(fn: Any) -> str:
    return str(getattr(fn, "__name__", type(fn).__name__)).strip("<>")


def _where() -> str:
    node = CURRENT_NODE.get()
    return "" if node is None else f", in {identify(node)}"


def _words(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in options.items())
