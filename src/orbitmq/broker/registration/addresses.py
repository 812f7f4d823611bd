"""The addresses of a broker: where it listens, what clients are told, and what records carry."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from orbitmq.address import WILDCARDS, format_address
from orbitmq.broker.config import BrokerConfig
from orbitmq.model.message import Host
from orbitmq.net.name_lookup import looked_up

_VIP_DISTANCE = 2
_CHOICES_MAX = 100


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
        host = Host(_ip_of(announced), port)
    return BrokerAddress(host, format_address(announced, port), format_address(announced, ha_port(config, port)))


def _ip_of(host: str) -> str:
    """Return the address that records carry: IPv4 where a name has both, because every client reads that.

    Raises:
        socket.gaierror: no name service knows it.
    """
    found = {entry[0]: str(entry[4][0]) for entry in reversed(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM))}
    return found.get(socket.AF_INET) or found[socket.AF_INET6].partition("%")[0]


def ha_port(config: BrokerConfig, port: int) -> int:
    """Return where slaves follow a broker that listens on `port`, or would if it let them."""
    return config.ha_listen_port if config.ha_listen_port > 0 else port + 1


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


def vip_port(port: int) -> int:
    """Return where Java clients with `vipChannelEnabled` send to, and ask, a broker that they know at `port`."""
    return port - _VIP_DISTANCE


@contextmanager
def reserved_port(host: str, port: int, *, has_vip: bool, has_ha: bool = False) -> Iterator[int]:
    """Yield the port to listen on. Port 0: one that is free, and stays ours until the server has it.

    The port stands in every record and message id, so it must be known before the store opens.

    Args:
        has_vip: the VIP port below a chosen one has to be free as well, and is kept for the server, too.
        has_ha: so has the port above it, for slaves.
    """
    if port:
        yield port
        return
    with ExitStack() as placeholders:
        for tries_left in reversed(range(_CHOICES_MAX)):
            chosen = kept_port(host, 0)
            placeholders.enter_context(chosen)
            port = int(chosen.getsockname()[1])
            neighbours = [vip_port(port)] * has_vip + [port + 1] * has_ha
            try:
                for neighbour in neighbours:
                    placeholders.enter_context(kept_port(host, neighbour))
                break
            except OSError:  # the port is in use: another pair is as good
                if not tries_left:
                    raise
        yield port


def kept_port(host: str, port: int) -> socket.socket:
    """Return a socket that keeps a port until a server listens there.

    Raises:
        ConfigError: no name service knows `host`.
        OSError: the port is in use.
    """
    placeholder = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        # The server's own bind takes it all the same.
        placeholder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with looked_up("bindAddress", host):
            placeholder.bind((host, port))
    except BaseException:
        placeholder.close()
        raise
    return placeholder
