"""Where a broker listens and what it calls itself."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from orbitmq.address import WILDCARDS, looked_up
from orbitmq.broker.config import BrokerConfig


def announced_host(config: BrokerConfig) -> str:
    """Return the host that clients are told."""
    if config.broker_ip1:
        return config.broker_ip1
    if config.bind_address not in WILDCARDS:
        return config.bind_address
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing: asks the routing table which address we have outside
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


@contextmanager
def reserved_port(host: str, port: int) -> Iterator[int]:
    """Yield the port to listen on. Port 0: one that is free, and stays ours until the server has it.

    The port stands in every record and message id, so it must be known before the store opens.
    """
    if port:
        yield port
        return
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as placeholder:
        placeholder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with looked_up("bindAddress", host):
            placeholder.bind((host, 0))
        yield int(placeholder.getsockname()[1])
