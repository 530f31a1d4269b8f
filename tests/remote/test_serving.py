"""What the servers of these tests listen on."""

from __future__ import annotations

import socket

from tests.support.listeners import new_listener


def test_a_connection_to_a_server_of_a_test_sends_each_write_at_once() -> None:
    with new_listener() as listener, socket.create_connection(listener.getsockname()) as _:
        connection, _ = listener.accept()
        with connection:
            sends_at_once = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    assert sends_at_once
