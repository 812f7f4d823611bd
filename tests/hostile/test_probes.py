"""A supervisor's probe is answered whatever strangers do to the HTTP port: else it would restart a healthy server."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import pytest

from hostile.served import frame, giant, serving
from orbitmq.address import parse_address
from orbitmq.wire.headers import GetAllTopics

SLOW = 200
PROBES = 20


def probe(address: str) -> bytes:
    """Ask for the health and return the first line of the answer, nothing when the connection is refused."""
    with socket.create_connection(parse_address(address), 5) as prober:
        try:
            prober.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            return prober.recv(65536).partition(b"\r\n")[0]
        except (ConnectionError, TimeoutError):
            return b""


@pytest.mark.parametrize("said", [b"", b"GET /healthz HTTP/1.1\r\n"], ids=["silent", "half a request"])
def test_slow_clients_of_the_http_port_keep_no_probe_out(said: bytes, tmp_path: Path):
    with serving(tmp_path, metrics_port=0) as served:
        address = served.server.metrics_address
        assert address is not None
        slow = [socket.create_connection(parse_address(address)) for _ in range(SLOW)]
        try:
            for one in slow:
                one.sendall(said)
            assert [probe(address) for _ in range(PROBES)] == [b"HTTP/1.1 200 OK"] * PROBES
        finally:
            for one in slow:
                one.close()


def test_clients_that_do_not_read_their_answers_keep_no_probe_out(tmp_path: Path):
    """They have asked, so that they count as served, and their answers wait in buffers."""
    with serving(tmp_path, metrics_port=0) as served:
        address = served.server.metrics_address
        assert address is not None
        deaf = []
        try:
            for _ in range(SLOW):
                one = socket.socket()
                deaf.append(one)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
                one.connect(parse_address(address))
                one.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            assert [probe(address) for _ in range(PROBES)] == [b"HTTP/1.1 200 OK"] * PROBES
        finally:
            for one in deaf:
                one.close()


def test_a_probe_is_answered_while_all_ports_are_under_attack(tmp_path: Path):
    """Slow clients of the HTTP port, clients of the other one that never read, unfinished frames, and giants together."""
    header, body = giant("attacker", 30_000)
    with serving(tmp_path, metrics_port=0) as served, served.link() as honest, served.link() as attacker:
        honest.register("a", *(f"topic-{number}" for number in range(200)))
        honest_route = honest.route("topic-0")
        address = served.server.metrics_address
        assert address is not None
        connections = [socket.create_connection(parse_address(address)) for _ in range(64)]
        try:
            for one in connections:
                one.sendall(b"GET /healthz HTTP/1.1\r\n")
            for _ in range(200):
                deaf = socket.socket()
                connections.append(deaf)
                deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
                deaf.connect(parse_address(served.address))
                deaf.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    deaf.sendall(frame(GetAllTopics()) * 200)
            for _ in range(100):
                half = socket.create_connection(parse_address(served.address))
                connections.append(half)
                half.sendall(frame(header, body)[:100_000])
            for number in range(3):
                attacker.send(*giant(f"attacker-{number}", 30_000))
            assert [probe(address) for _ in range(PROBES)] == [b"HTTP/1.1 200 OK"] * PROBES
            assert honest.route("topic-0") == honest_route
        finally:
            for one in connections:
                one.close()
