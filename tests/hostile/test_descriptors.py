"""Connections never take the file descriptors that a NameServer needs for itself, and running out of them passes."""

from __future__ import annotations

import contextlib
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

from hostile.served import Child, heartbeat_of
from orbitmq.address import parse_address
from orbitmq.wire.headers import GetKvConfig, PutKvConfig
from waiting import wait_for

DESCRIPTORS = 128
CROWD = 2 * DESCRIPTORS
PUT = PutKvConfig(namespace="space", key="key", value="value")


@contextlib.contextmanager
def crowd(address: str, count: int) -> Iterator[None]:
    """Connections that say nothing."""
    idle = [socket.create_connection(parse_address(address)) for _ in range(count)]
    try:
        yield
    finally:
        for one in idle:
            one.close()


def can_ask(child: Child) -> bool:
    """Return True if a new connection is served."""
    try:
        with child.link() as link:
            return link.ask(GetKvConfig(namespace="space", key="key")).code == 0
    except (EOFError, ConnectionError):
        return False


def test_more_connections_than_descriptors_keep_no_value_from_being_saved(tmp_path: Path) -> None:
    with Child(tmp_path, descriptors=DESCRIPTORS, connectionsMax=40_000) as child, child.link() as broker:
        broker.register("a")
        with crowd(child.address, CROWD):
            for _ in range(3):
                assert broker.ask(PUT).code == 0
            assert broker.ask(heartbeat_of("a")).code == 0
        wait_for(lambda: can_ask(child), "new connections are served again")
    assert "takes 64 connections, not connectionsMax=40000: 128 file descriptors" in (tmp_path / "log").read_text()


def test_a_server_that_has_no_descriptor_left_goes_on_and_accepts_again_when_it_has_some(tmp_path: Path) -> None:
    with Child(tmp_path, connectionsMax=0) as child, child.link() as broker:
        broker.register("a")
        _, hard = resource.prlimit(child.process_id, resource.RLIMIT_NOFILE)
        open_now = len(list(Path(f"/proc/{child.process_id}/fd").iterdir()))
        resource.prlimit(child.process_id, resource.RLIMIT_NOFILE, (open_now + 8, hard))
        with crowd(child.address, CROWD):
            assert broker.ask(heartbeat_of("a")).code == 0
            assert broker.route("T1") is not None
            assert broker.ask(PUT).code in (0, 1)  # told that it is not saved, or saved: the crowd is being refused
        assert broker.ask(PUT).code == 0
        wait_for(lambda: can_ask(child), "new connections are served again")
