"""Guard: a StageHost, with what an owner who does not trust its clients needs: names, limits, nothing private."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, final

from ..errors import ArgumentError, BusyError, UnknownStageError
from .collective import check_rank
from .definition import Definition
from .exclusive import owned_by
from .host import StageHost
from .hosted_stage import Holding
from .ledger import NAME_BYTES
from .limits import Limits
from .payload import held_by
from .transport import Reply, Request

__all__ = ["Guard"]

#: What any client may ask for. Each of these returns outputs, gradients of inputs, or nothing.
_OPEN = frozenset(
    {
        *("backward", "cancel", "commit", "create", "drop", "finish", "forward"),
        *("free", "outcome", "ping", "prepare", "ready", "roll_back", "step", "zero_grad"),
    }
)

#: What shows or sets the parameters.
_PRIVATE = frozenset(("load_state", "restore", "state"))

#: What replicas ask for.
_OF_REPLICAS = frozenset(("abort", "all_reduce"))

#: Messages of so many bytes are read whatever a client holds: it must be able to free that.
_SMALL = 1 << 16

#: How many names of steps and backward passes a stage remembers whatever its client holds: it must be able to make a
#: step, and to roll back.
_FEW_NAMES = 16

#: How short the secret of a group may be: nobody guesses 128 bits, as 22 characters of `secrets.token_urlsafe` have.
_SECRET = 16


@final
@dataclass(slots=True)
class _Stage:
    """A stage of a client: under which name it is registered, and who waits for it."""

    registered: str
    #: Its name at the host.
    name: str
    touched: float
    requests: int = 0
    #: How many of them make it.
    making: int = 0


@final
@dataclass(slots=True)
class _Client:
    """What one client has here."""

    stages: dict[str, _Stage] = field(default_factory=dict)
    requests: int = 0
    #: The bytes of messages that arrive or are being answered: apart, so that a client that holds as much as it may
    #: can run the backward that frees it (test_what_a_refused_forward_kept_is_free_again).
    arriving: int = 0
    #: The bytes that will be kept of what runs: inputs, and gradients of parameters.
    coming: int = 0
    #: The calls whose forward runs.
    calls: set[tuple[str, str]] = field(default_factory=set)


@final
@dataclass(slots=True)
class _Group:
    """A group of replicas: who made it, and whose each replica is."""

    client: str
    members: dict[int, str] = field(default_factory=dict)


@final
class Guard:
    """Answers what clients may ask for.

    Args:
        definitions: the stages, by the names under which they are registered.
        host: what runs them; it gets the names of stages with those of their clients.
        limits: what a client may hold.
        share_parameters: whether clients may read and set parameters.
        replicas: whether they may meet.
        describe: what a reply says of an error.
        ttl: after how many seconds a stage is dropped.
        clock: the seconds since some time.
    """

    def __init__(
        self,
        definitions: Mapping[str, Definition],
        host: StageHost,
        limits: Limits,
        share_parameters: bool,
        replicas: bool,
        describe: Callable[[BaseException], dict[str, Any]],
        ttl: float,
        clock: Callable[[], float],
    ) -> None:
        self._definitions = definitions
        #: What each changes as it learns.
        self._owned = {name: owned_by(one.fn) for name, one in definitions.items()}
        self._host = host
        self._limits = limits
        self._allowed = _OPEN | (_PRIVATE if share_parameters else set()) | (_OF_REPLICAS if replicas else set())
        self._share_parameters = share_parameters
        self._replicas = replicas
        self._describe = describe
        self._ttl = ttl
        self._clock = clock
        self._clients: dict[str, _Client] = {}
        self._groups: dict[str, _Group] = {}

    @contextmanager
    def arriving(self, client: str, size: int) -> Iterator[Callable[[int, Request], None]]:
        """Count a message of a client while it arrives and is answered; yields what counts what has come instead.

        Raises:
            BusyError: the client has too much under way, or holds too much.
        """
        mine = self._clients.setdefault(client, _Client())
        counted = 0

        def count(more: int) -> None:
            nonlocal counted
            if more > _SMALL:
                self._limits.check_held(mine.arriving + more)
            mine.arriving += more
            counted += more

        mine.requests += 1
        try:
            self._limits.check_count(
                mine.requests, "max_requests", "requests under way", "wait for the replies of earlier ones"
            )
            count(size)
            # A broadcast array is larger than its message.
            yield lambda length, request: count(max(length, held_by(request.arrays)) - size)
        finally:
            count(-counted)
            mine.requests -= 1
            if not mine.requests and not mine.stages:
                self._clients.pop(client, None)

    async def handle(self, client: str, request: Request) -> Reply:
        """Answer a request.

        Raises:
            PermissionError: clients may not ask for that.
            BusyError: the client holds too much, or has too much under way; or another one has the Module.
        """
        if request.op == "ping":
            return Reply()
        if request.op not in self._allowed:
            raise PermissionError(f"this server does not answer {request.op!r}: the parameters are its owner's")
        if request.fields.get("options"):
            raise PermissionError("the options of the optimizer are its owner's: call step() without any")
        if request.fields.get("wants_state") and not self._share_parameters:
            raise PermissionError("the parameters are their owner's: make the stage with backup=False")
        if request.op in _OF_REPLICAS or (request.op == "drop" and request.fields.get("group")):
            # No other request: it would reach a stage of another client by its name at the host.
            return await self._meet(client, request)
        mine = self._clients.setdefault(client, _Client())
        is_new = request.stage not in mine.stages
        if request.op == "create":
            try:
                await self._admit(client, mine, request)
            except BusyError:
                raise
            except Exception as error:
                return Reply({"error": self._describe(error)})
        found = mine.stages.get(request.stage)
        if found is None:
            if request.op == "drop":
                # The host remembers it: what makes the stage may come later.
                name = _name_at_host(client, request.stage)
                return await self._host.handle(replace(request, stage=name), client)
            unknown = UnknownStageError(f"there is no stage {request.stage} here")
            return Reply({"error": self._describe(unknown)})
        reply = await self._answer(client, mine, found, request)
        is_gone = not self._host.has_stage(found.name) or (is_new and "error" in reply.fields)
        if is_gone and not found.making and mine.stages.get(request.stage) is found:
            # Not by every request to drop it: one may come after the stage was made again, or while it is
            # (test_a_stage_that_is_made_by_a_second_request_belongs_to_its_client).
            del mine.stages[request.stage]
        return reply

    async def _answer(self, client: str, mine: _Client, found: _Stage, request: Request) -> Reply:
        found.touched = self._clock()
        is_making = request.op == "create"
        found.requests += 1
        found.making += is_making
        try:
            with self._counted(mine, found, request):
                reply = await self._host.handle(replace(request, stage=found.name), client)
        finally:
            found.requests -= 1
            found.making -= is_making
            found.touched = self._clock()
        if request.op == "forward":
            try:
                self._limits.check_held(self._held(mine))
            except BusyError:
                fields = {"attempt": request.fields["attempt"], "keys": [request.fields["key"]]}
                await self._host.handle(Request("free", found.name, fields))
                raise
        return reply

    @contextmanager
    def _counted(self, mine: _Client, found: _Stage, request: Request) -> Iterator[None]:
        """Count what a request adds while it is answered; raise if that is too much."""
        fields, limits, adds = request.fields, self._limits, 0
        here = self._holding(found)
        transaction, call = fields.get("transaction"), (found.name, fields.get("key", ""))
        names = _count_names(fields, here)
        if names and here.names + names > _FEW_NAMES:
            # Guarded by test_names_that_a_stage_remembers_count_as_held.
            limits.check_held(self._held(mine) + NAME_BYTES * names)
        is_begun = transaction and (request.op != "roll_back" or "task" in fields)
        if is_begun and transaction not in here.transactions:
            count = sum(len(one.transactions) for one in self._holdings(mine)) + 1
            limits.check_count(
                count, "max_transactions", "backward passes that have not ended", "end or cancel earlier ones"
            )
        is_new = request.op == "forward" and call not in mine.calls and call[1] not in here.calls
        if is_new:
            count = sum(len(one.calls) for one in self._holdings(mine)) + len(mine.calls) + 1
            limits.check_count(count, "max_calls", "calls under way", "run the backward of earlier ones, or drop them")
            mine.calls.add(call)
            adds = held_by(request.arrays)
        if request.op == "backward" and fields["wants_params"]:
            adds = here.parameters
        mine.coming += adds
        try:
            if adds:
                limits.check_held(self._held(mine))
            yield
        finally:
            mine.coming -= adds
            if is_new:
                mine.calls.discard(call)

    def counts(self) -> dict[str, dict[str, int]]:
        """Return what each client that has something here holds, by its name and that of the limit."""
        held = self._host.groups()
        owners = [one.client for name, one in self._groups.items() if name in held]
        found = {}
        for client in self._clients.keys() | set(owners):
            mine = self._clients.get(client) or _Client()
            kept = [(one.name, self._holding(one)) for one in mine.stages.values()]
            found[client] = {
                "stages": len(mine.stages),
                "calls": len(mine.calls | {(name, key) for name, each in kept for key in each.calls}),
                "transactions": sum(len(each.transactions) for _, each in kept),
                "requests": mine.requests,
                "held_bytes": self._held(mine) + mine.arriving,
                "groups": owners.count(client),
            }
        return found

    def _held(self, mine: _Client) -> int:
        return mine.coming + sum(one.size for one in self._holdings(mine))

    def _holdings(self, mine: _Client) -> list[Holding]:
        return [self._holding(one) for one in mine.stages.values()]

    def _holding(self, one: _Stage) -> Holding:
        return self._host.holds(one.name)

    # --- stages ----------------------------------------------------------------------------------

    async def _admit(self, client: str, mine: _Client, request: Request) -> None:
        found, name = mine.stages.get(request.stage), request.fields.get("definition")
        if "definition" not in request.fields:
            # A client that goes on with what it had, after its connection broke.
            if found is None:
                raise UnknownStageError(f"there is no stage {request.stage} here")
            name = found.registered
        if not isinstance(name, str) or name not in self._definitions:
            raise ArgumentError(f"no stage is registered under {name!r} here; there are {sorted(self._definitions)}")
        if found is not None and found.registered != name:
            raise ArgumentError(
                f"stage {request.stage} is one of {found.registered!r}, and is not made again of {name!r}: close it"
            )
        await self._expire()
        self._forget_unmade()
        if request.stage not in mine.stages:
            self._limits.check_count(len(mine.stages) + 1, "max_stages", "stages", "close some, or try again later")
            others = [one.registered for each in self._clients.values() for one in each.stages.values()]
            if any(self._owned[name] & self._owned[other] for other in others):
                raise BusyError(
                    f"another client has stage {name!r}, or this one by another Stage, and it learns from one at a "
                    f"time: await stage.close() there, or wait until that was silent for {self._ttl:g} s"
                )
            mine.stages[request.stage] = _Stage(name, _name_at_host(client, request.stage), self._clock())

    async def _expire(self) -> None:
        before = self._clock() - self._ttl
        for each in list(self._clients.values()):
            for stage, one in list(each.stages.items()):
                # What runs, runs: its client may wait for longer than that
                # (test_a_client_whose_call_runs_for_longer_than_the_time_to_live_keeps_its_module).
                if one.touched < before and not one.requests and not self._holding(one).is_running:
                    del each.stages[stage]
                    await self._host.handle(Request("drop", one.name))

    def _forget_unmade(self) -> None:
        """Forget stages that failed to be made after the request to make them had been given up."""
        for each in self._clients.values():
            for stage, one in list(each.stages.items()):
                if not one.requests and not self._host.has_stage(one.name):
                    del each.stages[stage]

    # --- groups ----------------------------------------------------------------------------------

    async def _meet(self, client: str, request: Request) -> Reply:
        if not self._replicas:
            raise PermissionError("this server has no groups of replicas: its owner allows them by replicas=True")
        secret, name = request.fields.get("secret"), request.stage
        if not isinstance(secret, str) or len(secret) < _SECRET:
            raise PermissionError(
                f"a group over HTTP needs a secret of {_SECRET} characters or more, which its members know: write "
                "RemoteGroup(..., secret=secret), of secrets.token_urlsafe()"
            )
        held = self._host.groups()
        self._groups = {each: one for each, one in self._groups.items() if each in held}
        found = self._groups.get(name)
        if found is None:
            if request.op == "drop":
                return Reply()
            count = sum(one.client == client for one in self._groups.values()) + 1
            self._limits.check_count(count, "max_groups", "groups", "close one that has ended")
            found = _Group(client)
        else:
            self._host.check_group(name, secret)
        if request.op != "drop":
            rank, size = request.fields["rank"], request.fields["size"]
            check_rank(rank, size)
            if found.members.get(rank, client) != client:
                raise PermissionError(f"replica {rank} of this group is another client's")
            if request.op == "all_reduce" or name not in self._groups:
                # Something is remembered of each of its replicas.
                adds = held_by(request.arrays) + (0 if name in self._groups else NAME_BYTES * size)
                self._limits.check_held(sum(held.values()) + adds)
            found.members[rank] = client
            self._groups[name] = found
        return await self._host.handle(request)


def _count_names(fields: Mapping[str, Any], here: Holding) -> int:
    """Return how many names a request may add to what a stage remembers."""
    transaction = fields.get("transaction")
    is_new = transaction is not None and transaction not in here.transactions
    return (
        len(fields.get("dead", ()))
        + len(fields.get("effects", ()))
        + ("effect" in fields)
        + ("task" in fields)
        + is_new
    )


def _name_at_host(client: str, stage: str) -> str:
    """Return a name that no other client's stage has: what follows the stage's name has one length for all."""
    return f"{stage} of {hashlib.sha256(client.encode()).hexdigest()}" if client else stage
