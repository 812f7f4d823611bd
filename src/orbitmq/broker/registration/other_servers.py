"""The NameServers of a broker, looked up again from time to time, and other brokers, found in a topic's route.

NameServers move (apache/rocketmq#2042), one name may stand for several of them, and a file or an address server may have
the list (Java TopAddressing, BrokerController.updateNamesrvAddr).
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial

from orbitmq.address import parse_name_servers
from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.monitoring.repeated_failure import RepeatedFailure
from orbitmq.broker.registration.addresses import BrokerAddress
from orbitmq.broker.registration.registrar import PART_TOPICS_MAX, Identity, Registrar, encode_parts
from orbitmq.broker.topics.static_topic_table import StaticTopicTable
from orbitmq.broker.topics.table import TopicTable
from orbitmq.errors import ConnectionFailed, InvalidArgument, RequestTimeout, RouteNotFound
from orbitmq.model.route import MASTER_ID, TopicRoute
from orbitmq.net.name_lookup import resolve
from orbitmq.net.pool import ConnectionPool
from orbitmq.net.security.client_security import ClientSecurity
from orbitmq.store.disk_usage import ask_aside
from orbitmq.wire.command import Command

log = logging.getLogger(__name__)

LOOK_UP_MS = 30_000
"""How often the names are looked up again."""
READ_TIMEOUT_S = 3
"""For the answer of a file or an address server."""
_SILENCE_S = 2
"""For the next bytes of an address server: less than for the whole answer, so that one that hangs always gives the same error."""
LIST_SIZE_MAX = 64 * 1024
"""Bytes of a list of NameServers."""


class NameServers:
    """Keeps a registrar's list of addresses in step with names, and with the file or the address server that has them.

    Args:
        names: those of the settings, or of a list that was read before.
        source: a URL or a path; empty: the names stay.
        every_ms: between two look-ups.
    """

    def __init__(
        self, registrar: Registrar, names: Iterable[str], *, source: str = "", every_ms: int = LOOK_UP_MS
    ) -> None:
        self.names = tuple(names)
        """Those that count now."""
        self._registrar = registrar
        self._source = source
        self._every_ms = every_ms
        self._resolved: dict[str, list[str]] = {}
        self._reading = RepeatedFailure(log, "the list of NameServers cannot be read, the last one stays in use")
        self._request: asyncio.Future[tuple[str, ...]] | None = None
        """The reading that is under way."""

    @property
    def problem(self) -> str | None:
        """Why the list could not be read the last time; None: it could, or it is in the settings."""
        return self._reading.text if self._source else None

    def replace(self, names: Iterable[str]) -> None:
        """Register with the NameServers of these names from now on, whatever the file or address server has."""
        self.names, self._source = tuple(names), ""
        self._registrar.set_name_servers(self.names)

    async def start(self) -> None:
        """Register with the names that are known; without any, read the list first."""
        if not self.names:
            await self._read()
        await self._resolve()

    async def look_up(self) -> None:
        """Look every name up, and register with what they stand for now."""
        await self._read()
        await self._resolve()

    async def run(self) -> None:
        """Look the names up again from time to time. Ends when it is cancelled."""
        while True:
            await asyncio.sleep(self._every_ms / 1000)
            await self.look_up()

    async def _read(self) -> None:
        if not self._source:
            return
        # On a thread for which no stop waits, and on one alone: a server that trickles, or a disk that hangs, may never end.
        if self._request is None:
            self._request = ask_aside(partial(_read_list, self._source))
        await asyncio.wait((self._request,), timeout=READ_TIMEOUT_S)
        if not self._request.done():
            self._reading.note(TimeoutError(f"no answer within {READ_TIMEOUT_S} s"))
            return
        done, self._request = self._request, None
        try:
            names = done.result()
        except (OSError, ValueError, InvalidArgument) as error:
            self._reading.note(error)
        else:
            self._reading.note(None)
            if self._source:  # no other list was set meanwhile
                self.names = names

    async def _resolve(self) -> None:
        names, found = self.names, dict[str, None]()
        for name in names:
            # A name service that is down must not take the NameServers with it.
            addresses = await resolve(name) or self._resolved.get(name, [name])
            self._resolved[name] = addresses
            found.update(dict.fromkeys(addresses))
        if self.names is names:  # no other list was set meanwhile
            self._registrar.set_name_servers(found)


def _read_list(source: str) -> tuple[str, ...]:
    """Return the NameServers that a file or an address server has.

    Raises:
        OSError: it cannot be read.
        ValueError, InvalidArgument: what it has is not a list of `host:port`, or not all of one.
    """
    content = _download(source) if source.startswith(("http://", "https://")) else _read_file(source)
    if len(content) > LIST_SIZE_MAX:
        raise ValueError(f"{source}: over {LIST_SIZE_MAX} bytes")
    text = content.decode("ascii").strip()
    names = parse_name_servers(text)
    # Each with its port: "Service Unavailable" are no hosts.
    if not all(name in text for name in names):
        raise InvalidArgument("addressServer", f"{text:.100}", "a list of host:port, with ';' between")
    return names


def _read_file(path: str) -> bytes:
    # Not blocking: to open a pipe would wait for its writer.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(f"{path}: not a regular file")
        return file.read(LIST_SIZE_MAX + 1)


def _download(url: str) -> bytes:
    from http.client import HTTPException  # only brokers with an address server pay
    from urllib.request import urlopen

    try:
        with urlopen(url, timeout=_SILENCE_S) as answer:
            text: bytes = answer.read(LIST_SIZE_MAX + 1)
            if answer.length and len(text) <= LIST_SIZE_MAX:
                raise ValueError(f"{url}: {answer.length} bytes of the answer are missing")
            return text
    except HTTPException as error:
        raise OSError(f"{url}: {type(error).__name__}: {error}") from error


class OtherBrokers:
    """Asks brokers by name.

    Args:
        find_route: asks a NameServer for the route of a topic; None: none of them knows it.
        timeout_ms: for an answer, connecting included.
    """

    def __init__(
        self, find_route: Callable[[str], Awaitable[TopicRoute | None]], pool: ConnectionPool, *, timeout_ms: int
    ) -> None:
        self._find_route = find_route
        self._pool = pool
        self._timeout_ms = timeout_ms
        self._addresses: dict[str, str] = {}

    async def ask(self, topic: str, broker_name: str, header: object, code: int) -> Command:
        """Ask the master of a broker name that has the topic.

        Raises:
            RouteNotFound: no NameServer knows it.
            ConnectionFailed, RequestTimeout: it does not answer; it is looked for again the next time.
        """
        address = self._addresses.get(broker_name) or await self._find(topic, broker_name)
        try:
            return await self._pool.request(address, header, timeout_ms=self._timeout_ms, code=code)
        except (ConnectionFailed, RequestTimeout):
            self._addresses.pop(broker_name, None)
            raise

    async def _find(self, topic: str, broker_name: str) -> str:
        route = await self._find_route(topic)
        for broker in () if route is None else route.brokers:
            if MASTER_ID in broker.addresses:
                self._addresses[broker.broker_name] = broker.addresses[MASTER_ID]
        if broker_name not in self._addresses:
            raise RouteNotFound(f"the master of broker {broker_name} is in no route of topic {topic}")
        return self._addresses[broker_name]


class OtherServers:
    """The NameServers that a broker registers with, and the brokers that it asks.

    Args:
        security: what it connects to them with.
        epoch: of a member of a controlled group: of brokers of one name and id NameServers believe the one of the latest.
        names: NameServers of the list elsewhere as it was read before.
    """

    def __init__(
        self,
        config: BrokerConfig,
        address: BrokerAddress,
        topics: TopicTable,
        mappings: StaticTopicTable,
        security: ClientSecurity,
        epoch: int = 0,
        names: Sequence[str] = (),
    ) -> None:
        pool = ConnectionPool(name=f"broker {config.broker_name}", **security._asdict())
        identity = Identity(
            config.broker_cluster_name,
            config.broker_name,
            config.broker_id,
            address.announced,
            ha_address=address.replication,
        )
        self.permission = config.broker_permission
        """What topics are announced with at most (`Perm`)."""
        part_size = config.split_registration_size if config.enable_split_registration else PART_TOPICS_MAX
        self.registrar = Registrar(
            identity,
            lambda: encode_parts(
                topics.version._replace(state_version=epoch) if epoch else topics.version,
                topics.masked(self.permission),
                part_size,
                mappings.all,
            ),
            period_ms=config.register_name_server_period,
            heartbeat_ms=config.broker_heartbeat_interval if config.heartbeat_enable else None,
            lease_ms=config.broker_not_active_timeout_millis if config.heartbeat_enable else None,
            timeout_ms=config.register_broker_timeout_mills,
            pool=pool,
        )
        source = config.name_server_source
        every_ms = config.fetch_namesrv_addr_interval if source else LOOK_UP_MS
        self.name_servers = NameServers(self.registrar, config.name_servers or names, source=source, every_ms=every_ms)
        self.brokers = OtherBrokers(self.registrar.find_route, pool, timeout_ms=config.forward_timeout)
