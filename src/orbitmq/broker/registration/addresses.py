"""The addresses of a broker: where it listens, what clients are told, and what records carry."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from orbitmq.address import WILDCARDS, format_address
from orbitmq.broker.config import BrokerConfig
from orbitmq.model.message import Host
from orbitmq.net.name_lookup import looked_up


class BrokerAddress(NamedTuple):
    """One broker's address.

    Args:
        host: IP address and port, as records and message ids carry them.
        announced: where clients reach this broker, as host:port.
        replication: where other brokers of its name would reach it, as host:port.
    """

    host: Host
    announced: str
    replication: str


def broker_address(config: BrokerConfig, port: int) -> BrokerAddress:
    """Return the address of a broker that listens on `port`.

    Raises:
        ConfigError: no name service knows brokerIP1.
    """
    announced = announced_host(config)
    with looked_up("brokerIP1", announced):
        host = Host(socket.gethostbyname(announced), port)
    return BrokerAddress(host, format_address(announced, port), format_address(announced, port + 1))


def announced_host(config: BrokerConfig) -> str:
    """Return the host that clients are told."""
    if config.broker_ip1:
        return config.broker_ip1
    if config.bind_address not in WILDCARDS:
        return config.bind_address
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Sends nothing: asks the routing table which address this host has outside.
            probe.connect(("192.0.2.1", 9))
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
