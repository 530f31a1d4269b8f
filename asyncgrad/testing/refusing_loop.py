"""RefusingLoop: asyncio's base loop without network, subprocesses or signals, which raises if they are asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

__all__ = ["RefusingLoop"]

#: The methods of a loop that need real input, by what they need. Real input would make a schedule unrepeatable.
_NEEDS = {
    "network": (
        "connect_accepted_socket create_connection create_datagram_endpoint create_server create_unix_connection "
        "create_unix_server getaddrinfo getnameinfo sendfile start_tls"
    ),
    "sockets": (
        "sock_accept sock_connect sock_recv sock_recv_into sock_recvfrom sock_recvfrom_into sock_sendall "
        "sock_sendfile sock_sendto"
    ),
    "file descriptors": "add_reader add_writer remove_reader remove_writer",
    "pipes": "connect_read_pipe connect_write_pipe",
    "subprocesses": "subprocess_exec subprocess_shell",
    "signals": "add_signal_handler remove_signal_handler",
}


class RefusingLoop(asyncio.BaseEventLoop):
    """Abstract: an event loop whose methods for network, subprocesses and signals raise NotImplementedError."""


def _refusal(name: str, need: str) -> Callable[..., Any]:
    def refuse(self: RefusingLoop, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"{type(self).__name__}.{name}: this loop has no {need}, since real input would "
            "decide the schedule. Give the code under test a stand-in, such as a coroutine that sleeps"
        )

    refuse.__name__ = name
    refuse.__qualname__ = f"{RefusingLoop.__name__}.{name}"
    refuse.__doc__ = f"Refuse: a schedule has no {need}."
    return refuse


for _need, _names in _NEEDS.items():
    for _name in _names.split():
        setattr(RefusingLoop, _name, _refusal(_name, _need))
