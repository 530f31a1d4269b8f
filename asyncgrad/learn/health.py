"""Probes: what an orchestrator asks a service, over HTTP, before it sends requests there or starts it anew."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

from ..core.settings.arguments import must_be, number
from ..core.settings.extras import missing_extra
from ..errors import ArgumentTypeError
from .follower import Follower
from .learner import Learner

__all__ = ["app_of_health", "problem"]


def problem(one: Learner | Follower, max_lag: float) -> str | None:
    """Return why requests should not be sent to a learner or a follower; None if they may."""
    if not one.is_running:
        return "it has ended, or has not begun"
    if isinstance(one, Follower) and one.learner is None:
        found = one.statistics()
        if found.lag_seconds > max_lag:
            return f"it has not had all of the journal for {found.lag_seconds:.0f} s: {found.following_error or 'late'}"
        return None
    learner = one if isinstance(one, Learner) else one.learner
    error = None if learner is None else learner.statistics().journal_error
    return None if error is None else f"the journal cannot be written: {error}"


def app_of_health(one: Any, max_lag: Any) -> Callable[..., Awaitable[None]]:
    """Return the application: `http.health_app` says what its arguments are."""
    if not isinstance(one, (Learner, Follower)):
        raise ArgumentTypeError(must_be("one", "a Learner or a Follower", one))
    seconds = number(max_lag, "max_lag", 0)
    try:
        applications, routing = import_module("starlette.applications"), import_module("starlette.routing")
        answer = import_module("starlette.responses").JSONResponse
    except ImportError as error:
        raise missing_extra("health_app() needs Starlette", "serve", error=error) from error

    async def live(_: Any) -> Any:
        return answer({"live": True})

    async def ready(_: Any) -> Any:
        # What is wrong may name files: that is for the log and the metrics.
        is_ready = problem(one, seconds) is None
        return answer({"ready": is_ready, "learned": one.learned}, 200 if is_ready else 503)

    routes = [routing.Route("/live", live), routing.Route("/ready", ready)]
    app: Callable[..., Awaitable[None]] = applications.Starlette(routes=routes)
    return app
