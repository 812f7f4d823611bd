"""The addresses of a broker: where it listens, what clients are told, and what records carry."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from orbitmq.address import format_address, is_wildcard, parse_address
from orbitmq.broker.config import BrokerConfig
from orbitmq.errors import ConfigError
from orbitmq.model.message import Host
from orbitmq.net.listening import bound_socket
from orbitmq.net.name_lookup import looked_up

log = logging.getLogger(__name__)

CHECK_TIMEOUT_MS = 3_000
CHECK_AGAIN_MS = 60_000
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
        ConfigError: no name service knows brokerIP1, or it is an address of a family that bindAddress is not of.
    """
    announced = announced_host(config)
    with looked_up("brokerIP1", announced):
        found = _ips_of(announced)
    with looked_up("bindAddress", config.bind_address):
        bound = _bound_families(config.bind_address)
    # IPv4 where a name has both, because every client reads that.
    ips = [found[family] for family in (socket.AF_INET, socket.AF_INET6) if family in found and family in bound]
    if not ips:
        version = "IPv4" if socket.AF_INET in bound else "IPv6"
        expected = (
            f"an {version} address, for bindAddress {config.bind_address} is one: "
            "bindAddress=:: listens on the addresses of both kinds"
        )
        raise ConfigError("brokerIP1", announced, expected)
    host = Host(ips[0], port)
    return BrokerAddress(host, format_address(announced, port), format_address(announced, ha_port(config, port)))


def _ips_of(host: str) -> dict[int, str]:
    """Return the first address of each family.

    Raises:
        socket.gaierror: no name service knows it.
    """
    entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return {entry[0]: str(entry[4][0]).partition("%")[0] for entry in reversed(entries)}


def _bound_families(host: str) -> Collection[int]:
    """Return the families of the addresses that a server listens on.

    Raises:
        socket.gaierror: no name service knows `host`.
    """
    return (socket.AF_INET, socket.AF_INET6) if ":" in host and is_wildcard(host) else _ips_of(host).keys()


def ha_port(config: BrokerConfig, port: int) -> int:
    """Return where slaves follow a broker that listens on `port`, or would if it let them."""
    return config.ha_listen_port if config.ha_listen_port > 0 else port + 1


def announced_host(config: BrokerConfig) -> str:
    """Return the host that clients are told."""
    if config.broker_ip1:
        return config.broker_ip1
    if not is_wildcard(config.bind_address):
        return config.bind_address
    outside = _outside_ip(socket.AF_INET, "192.0.2.1")
    if outside is None and ":" in config.bind_address:
        outside = _outside_ip(socket.AF_INET6, "2001:db8::1")
    return outside or "127.0.0.1"


def _outside_ip(family: int, elsewhere: str) -> str | None:
    """Return the address that this host has outside; None without a network of that family."""
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            # Sends nothing: asks the routing table.
            probe.connect((elsewhere, 9))
            return str(probe.getsockname()[0])
        except OSError:
            return None


class AnnouncedAddressCheck:
    """Connects to the address that clients are told: a wrong one is not noticed by the broker otherwise.

    Where the bound address itself is announced there is nothing to check.
    """

    def __init__(self, config: BrokerConfig, announced: str) -> None:
        self._announced = announced
        self._is_needed = announced_host(config) != config.bind_address
        self.failure: str | None = None
        """Why the address cannot be reached from here, as far as it is known."""

    async def run(self) -> None:
        """Check once, and again from time to time while the address cannot be reached."""
        while self._is_needed:
            await self.look()
            self._is_needed = self.failure is not None
            if self._is_needed:
                await asyncio.sleep(CHECK_AGAIN_MS / 1000)

    async def look(self) -> None:
        """Check now."""
        before, self.failure = self.failure, await self._connect()
        if self.failure is not None and before is None:
            log.warning("%s", self.failure)
        elif self.failure is None and before is not None:
            log.info("the announced address %s can be reached now", self._announced)

    async def _connect(self) -> str | None:
        host, port = parse_address(self._announced)
        reason = f"no answer within {CHECK_TIMEOUT_MS} ms"
        try:
            async with asyncio.timeout(CHECK_TIMEOUT_MS / 1000):
                _, writer = await asyncio.open_connection(host, port)
            writer.transport.abort()
            return None
        except TimeoutError:
            pass
        except OSError as error:
            reason = str(error)
        return f"clients are told {self._announced}, which cannot be reached from here (brokerIP1): {reason}"


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
    # The server's own bind takes it all the same.
    with looked_up("bindAddress", host):
        return bound_socket(host, port)
