"""Who sends a request over HTTP: one of several clients, each with a key, or whom a function of the request names."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ..core.settings.arguments import describe, must_be
from ..core.settings.awaiting import call
from ..errors import ArgumentError, ArgumentTypeError
from .text import check_text

__all__ = ["authenticator", "bearer"]

#: The client of a server that asks for no key, and of one that has one key.
_ANYBODY = ""


def authenticator(authenticate: Any) -> Callable[[Any], Awaitable[str | None]]:
    """Return a function of a request that returns the name of the client, or None for a stranger.

    Args:
        authenticate: None, a key, keys by the names of clients, or a function of the request, which may be async.
    """
    if authenticate is None:
        return _anybody
    if callable(authenticate):
        return lambda http: _named_by(authenticate, http)
    keys = authenticate if isinstance(authenticate, Mapping) else {_ANYBODY: authenticate}
    if not keys:
        raise ArgumentError("authenticate names no client: write {'name of a client': 'its key'}")
    if isinstance(authenticate, Mapping) and _ANYBODY in keys:
        raise ArgumentError("a client has a name that is not empty")
    digests = {_name(name): _digest(_key(key)) for name, key in keys.items()}
    if len(set(digests.values())) < len(digests):
        raise ArgumentError(
            "two clients have one key: give each a key of its own, as secrets.token_urlsafe() makes them"
        )

    async def find(http: Any) -> str | None:
        scheme, _, key = http.headers.get("authorization", "").partition(" ")
        given, found = _digest(key.encode()), None
        for name, digest in digests.items():
            # All of them: the time tells nothing of which one it was.
            if hmac.compare_digest(digest, given):
                found = name
        return found if scheme.lower() == "bearer" else None

    return find


def bearer(key: Any) -> dict[str, str]:
    """Return the headers that carry a key; none for None."""
    return {} if key is None else {"authorization": f"Bearer {_key(key).decode()}"}


async def _anybody(_: Any) -> str | None:
    return _ANYBODY


async def _named_by(authenticate: Callable[[Any], Any], http: Any) -> str | None:
    found = await call(authenticate, http)
    if found is not None and (not isinstance(found, str) or not found):
        raise ArgumentTypeError(f"authenticate returns the name of a client or None, not {describe(found)}")
    # It may come out of what a client has sent. Nobody has such a name.
    return found if found is None or _is_text(found) else None


def _is_text(name: str) -> bool:
    try:
        check_text(name, "the name of a client")
    except ArgumentError:
        return False
    return True


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise ArgumentTypeError(f"keys belong to the names of clients, not to {describe(name)}")
    return check_text(name, "the name of a client")


def _key(key: Any) -> bytes:
    if not isinstance(key, (str, bytes)):
        raise ArgumentTypeError(must_be("a key", "a string or bytes", key))
    found = check_text(key, "a key").encode() if isinstance(key, str) else key
    if not found or not all(0x21 <= byte < 0x7F for byte in found):
        raise ArgumentError(
            "a key consists of visible ASCII characters, at least one: secrets.token_urlsafe() makes one"
        )
    return found


def _digest(key: bytes) -> bytes:
    # Of one length for all: a comparison of bytes tells how long they are.
    return hashlib.sha256(key).digest()
