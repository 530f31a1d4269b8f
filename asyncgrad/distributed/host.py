"""StageHost: what runs at a worker. It knows which stages are here, in whatever order requests come, and no network.

Each time that home brings a stage to a worker is an attempt, whose number rises, and each request says of which attempt
it is. A request of another attempt is refused: it comes late, or what it means is somewhere else. So is one of a stage
that is not whole yet, for home has still to bring what that had learned.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any, final

from ..core.engine.eager_task import EagerTask
from ..errors import UnknownStageError
from .collective import GroupHost
from .concurrency import compute, start_lasting, wait_until_done
from .definition import Definition
from .dropped import DroppedStages
from .failures import describe_error
from .hosted_stage import NOTHING_HELD, Holding, HostedStage
from .owner_code import owner_code
from .payload import arrays_of, check_size, pack, unpack
from .transport import Reply, Request

__all__ = ["StageHost"]


def _identity(value: Any) -> Any:
    return value


@final
class StageHost:
    """The host of the stages at one worker: answers requests of their homes.

    All its methods are called on one event loop.

    Args:
        load: makes a Definition of what `Transport.export` made of it.
        dumps: pickles errors for a home that trusts this host; None leaves that out.
        allow_nonfinite: whether gradients, and what a step makes of them, may be NaN or infinite.
        describe: what a reply says of an error; None for all that `describe_error` does.
        ttl: after how many seconds a graph or transaction that nobody asks for is dropped.
        stage_ttl: after how many seconds a stage is, whose home has probably gone.
        max_bytes: the most bytes that the arrays of a reply may have.
        clock: the seconds since some time.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> from asyncgrad.distributed import Request, StageHost
        >>> from asyncgrad.distributed.definition import Definition
        >>> async def main():
        ...     host = StageHost()
        ...     double = Definition(lambda x: 2 * x)
        ...     await host.handle(Request("create", "double", {"definition": double, "attempt": 1}))
        ...     fields = {"attempt": 1, "key": "1", "inputs": [{"array": 0}], "needs": [False], "number": 1}
        ...     return await host.handle(Request("forward", "double", fields, [np.array([1.0, 2.0])]))
        >>> ag.run(main()).arrays
        [array([2., 4.])]
    """

    def __init__(
        self,
        *,
        load: Callable[..., Definition] = _identity,
        dumps: Callable[[object], bytes] | None = None,
        allow_nonfinite: bool = True,
        describe: Callable[[BaseException], dict[str, object]] | None = None,
        ttl: float = 3600.0,
        stage_ttl: float = 86400.0,
        max_bytes: int = 1 << 30,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load = load
        self._describe = describe or partial(describe_error, dumps=dumps)
        self._allow_nonfinite = allow_nonfinite
        self._ttl = ttl
        self._stage_ttl = stage_ttl
        self._max_bytes = max_bytes
        self._clock = clock
        self._stages: dict[str, HostedStage] = {}
        #: What makes a stage on a worker thread. Nothing else is asked of that stage meanwhile.
        self._making: dict[str, EagerTask] = {}
        #: So that what comes late brings none back.
        self._dropped = DroppedStages()
        self._groups: dict[str, GroupHost] = {}
        #: Set when the worker leaves, and done when others have its stages.
        self._leaving: asyncio.Event | None = None
        #: When to look next for what has been kept too long.
        self._expires_at = clock()

    async def handle(self, request: Request, client: str = "") -> Reply:
        """Answer a request; an error becomes a part of the reply.

        What has begun goes on if the caller is cancelled: only the request "cancel" ends it.

        Args:
            request: the request.
            client: whose it is, where clients do not trust each other: of each, as many stages that were dropped are
                remembered.
        """
        try:
            reply = await self._answer(request, client)
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
                if stage.touched < now - self._stage_ttl and not (stage.running or stage.applying):
                    del self._stages[name]
                    stage.close()
            for name in [one for one, group in self._groups.items() if group.touched < now - self._stage_ttl]:
                del self._groups[name]
            self._dropped.expire(now - self._stage_ttl)

    def counts(self) -> dict[str, int]:
        """Return how many stages, calls, transactions and running requests are here."""
        stages = self._stages.values()
        return {
            "stages": len(stages),
            "calls": sum(len(stage.calls) for stage in stages),
            "transactions": sum(len(stage.ledger) for stage in stages),
            "running": sum(len(stage.running) for stage in stages),
        }

    def has_stage(self, name: str) -> bool:
        """Tell whether a stage is here, or is being made."""
        return name in self._stages or name in self._making

    def holds(self, name: str) -> Holding:
        """Return what is kept here for a stage."""
        stage = self._stages.get(name)
        return NOTHING_HELD if stage is None else stage.holds()

    def groups(self) -> dict[str, int]:
        """Return how many bytes each group holds, by its name."""
        return {name: group.held_bytes() for name, group in self._groups.items()}

    def check_group(self, name: str, secret: object) -> None:
        """Raise unless a secret is that of a group here.

        Raises:
            PermissionError: it is another.
        """
        self._groups[name].check(secret)

    async def _answer(self, request: Request, client: str) -> Reply:
        fields = request.fields
        if request.op == "ping":
            return Reply(dict(self.counts()))
        if request.op == "drop" and not fields.get("group") and (attempt := fields.get("attempt")) is not None:
            # At once, and also of a stage that is not here: the request to create it may come later, or it may be in
            # the making (test_a_drop_that_overtakes_its_create_leaves_no_stage).
            self._dropped.note(client, request.stage, attempt, self._clock())
            self.expire()
        await self._wait_for_effect(request.stage)
        if self._leaving is not None and request.op != "drop":
            # What was done here now would be lost: the stages have been packed.
            await self._leaving.wait()
            raise UnknownStageError(f"stage {request.stage} has left with its worker")
        if request.op == "create":
            return await self._create(client, request.stage, fields)
        if request.op == "adopt":
            return await self._adopt(client, request.stage, fields, request.arrays)
        if request.op in ("all_reduce", "abort"):
            self.expire()
            group = self._groups.get(request.stage)
            if group is None:
                group = self._groups[request.stage] = GroupHost(fields["size"], fields.get("secret"))
            group.touched = self._clock()
            return await group.answer(request)
        if request.op == "drop":
            return (self._drop_group if fields.get("group") else self._drop)(request.stage, fields)
        stage = self._find(request.stage, fields)
        self.expire()
        stage.touch(self._clock(), fields)
        await stage.hear(fields)
        if request.op == "ready":
            stage.is_whole = True
            return Reply()
        reply = await stage.answer(request)
        # Time begins when it has ended: what has run for longer than `ttl` would be dropped at once
        # (test_a_client_whose_call_runs_for_longer_than_the_time_to_live_keeps_its_module).
        stage.touch_again(self._clock(), fields)
        return reply

    async def _wait_for_effect(self, name: str) -> None:
        """Wait until no worker thread makes or changes a stage.

        Guarded by test_nothing_is_asked_of_a_stage_while_a_step_runs and
        test_nothing_is_asked_of_a_stage_while_it_is_made.
        """
        while (task := self._making.get(name) or self._applying(name)) is not None:
            await wait_until_done(task)

    def _applying(self, name: str) -> EagerTask | None:
        stage = self._stages.get(name)
        return None if stage is None else stage.applying

    def _find(self, name: str, fields: dict[str, Any]) -> HostedStage:
        """Return a stage, if the request is one of the attempt that is here, and comes when it may.

        Raises:
            UnknownStageError: it is not.
        """
        stage, attempt = self._stages.get(name), fields["attempt"]
        if stage is None:
            raise UnknownStageError(f"there is no stage {name} here")
        if attempt != stage.attempt:
            raise UnknownStageError(
                f"stage {name} is here by attempt {stage.attempt}, and this request is of {attempt}"
            )
        if stage.is_whole == bool(fields.get("begins")):
            # Half begun, it would answer without what it has learned; and what is to begin it may come late.
            raise UnknownStageError(f"stage {name} is {'whole' if stage.is_whole else 'not whole yet'} here")
        return stage

    async def _create(self, client: str, name: str, fields: dict[str, Any]) -> Reply:
        stage, attempt = self._stages.get(name), fields["attempt"]
        if attempt <= self._dropped.attempt(client, name) or (stage is not None and attempt < stage.attempt):
            # A late copy: it would undo all that came after (test_late_copies_of_requests_change_nothing).
            raise UnknownStageError(f"stage {name} was brought here, or was dropped, after attempt {attempt}")
        if stage is None or attempt > stage.attempt:
            # What another worker has handed over, or what home still has here after its connection broke.
            is_kept = stage is not None and stage.is_whole and stage.attempt >= fields.get("known", math.inf)
            if not is_kept:
                stage = await self._begin(client, name, fields)
            assert stage is not None
            stage.attempt, stage.was_kept = attempt, is_kept
        return Reply({"parameters": len(stage.ledger.params), "kept": stage.was_kept, "version": stage.version})

    async def _begin(self, client: str, name: str, fields: dict[str, Any]) -> HostedStage:
        if "definition" not in fields:
            raise UnknownStageError(f"there is no stage {name} here")
        definition = self._load(fields["definition"])
        if (before := self._stages.pop(name, None)) is not None:
            before.close()
        task = start_lasting(self._make(client, name, definition, fields), "make a stage")
        if not task.done():
            self._making[name] = task
            await wait_until_done(task)
        stage: HostedStage = task.result()
        return stage

    async def _make(self, client: str, name: str, definition: Definition, fields: dict[str, Any]) -> HostedStage:
        try:
            # An owner's class or optimizer may take long to make.
            with owner_code():
                program = await compute(definition.build)
            stage = HostedStage(program, fields["definition"], self._allow_nonfinite)
            if fields["attempt"] <= self._dropped.attempt(client, name):
                stage.close()
                raise UnknownStageError(f"stage {name} was dropped while it was made")
            stage.attempt, stage.is_whole = fields["attempt"], not fields.get("is_incomplete")
            stage.touch(self._clock(), {})
            self._stages[name] = stage
            return stage
        finally:
            self._making.pop(name, None)

    def _drop(self, name: str, fields: dict[str, Any]) -> Reply:
        """Drop a stage, unless it has been brought here again by a later attempt than home knew."""
        stage, attempt = self._stages.get(name), fields.get("attempt")
        if stage is not None and (attempt is None or stage.attempt <= attempt):
            del self._stages[name]
            stage.close()
        return Reply()

    def _drop_group(self, name: str, fields: dict[str, Any]) -> Reply:
        """Drop a group. A stage may have the same name, and another owner."""
        if (group := self._groups.get(name)) is not None:
            group.check(fields.get("secret"))
            del self._groups[name]
        return Reply()

    # --- a worker that leaves in an orderly way ---------------------------------------------------

    def hand_over(self) -> list[Request]:
        """Return requests by which the host of another worker adopts the stages of this one, with their state.

        Graphs are not among it: home has their forwards run again. Requests that come from now on wait until `leave`.
        """
        if self._leaving is None:
            self._leaving = asyncio.Event()
        requests = []
        for name, stage in self._stages.items():
            if not stage.is_whole:
                continue
            skeleton, leaves = pack(stage.export())
            fields = {"definition": stage.exported, "attempt": stage.attempt, "state": skeleton}
            requests.append(Request("adopt", name, fields, arrays_of(leaves)))
        return requests

    def leave(self) -> None:
        """Send homes elsewhere: all that `hand_over` has returned is where it goes."""
        assert self._leaving is not None
        self._leaving.set()

    async def _adopt(self, client: str, name: str, fields: dict[str, Any], arrays: list[Any]) -> Reply:
        # Home may have been faster, and a copy may come late.
        if name not in self._stages and fields["attempt"] > self._dropped.attempt(client, name):
            stage = await self._begin(client, name, fields)
            stage.adopt(unpack(fields["state"], arrays))
        return Reply()
