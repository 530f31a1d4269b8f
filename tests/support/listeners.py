"""Sockets that servers of tests listen on."""

from __future__ import annotations

import socket

__all__ = ["new_listener"]


def new_listener() -> socket.socket:
    """Return a socket that listens on a free port of this machine, whose connections send each write at once.

    asyncio sets this only for a socket that was made with TCP as its protocol; `socket.create_server` names none.
    Head and body of an answer are two writes: the second would wait 40 ms for the client to confirm the first.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
    return listener
