"""The NameServers of a broker, looked up again from time to time, and other brokers, found in a topic's route.

NameServers move (apache/rocketmq#2042), one name may stand for several of them, and a file or an address server may have
the list (Java TopAddressing, BrokerController.updateNamesrvAddr).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

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
from orbitmq.wire.command import Command

log = logging.getLogger(__name__)

LOOK_UP_MS = 30_000
"""How often the names are looked up again."""
_READ_TIMEOUT_S = 3
_LIST_SIZE_MAX = 64 * 1024
"""Bytes of a list of NameServers."""


class NameServers:
    """Keeps a registrar's list of addresses in step with names, and with the file or the address server that has them.

    Args:
        source: a URL or a path; empty: the names are those of the settings.
        every_ms: between two look-ups.
    """

    def __init__(
        self, registrar: Registrar, names: Iterable[str], *, source: str = "", every_ms: int = LOOK_UP_MS
    ) -> None:
        self._registrar = registrar
        self._names = tuple(names)
        self._source = source
        self._every_ms = every_ms
        self._resolved: dict[str, list[str]] = {}
        self._reading = RepeatedFailure(log, "the list of NameServers cannot be read, the last one stays in use")

    def replace(self, names: Iterable[str]) -> None:
        """Register with the NameServers of these names from now on, whatever the file or address server has."""
        self._names, self._source = tuple(names), ""
        self._registrar.set_name_servers(self._names)

    async def look_up(self) -> None:
        """Look every name up, and register with what they stand for now."""
        if source := self._source:
            try:
                names = await asyncio.to_thread(_read_list, source)
            except (OSError, ValueError, InvalidArgument) as error:
                self._reading.note(error)
            else:
                self._reading.note(None)
                if self._source == source:  # no other list was set meanwhile
                    self._names = names
        found: dict[str, None] = {}
        for name in self._names:
            # A name service that is down must not take the NameServers with it.
            addresses = await resolve(name) or self._resolved.get(name, [name])
            self._resolved[name] = addresses
            found.update(dict.fromkeys(addresses))
        self._registrar.set_name_servers(found)

    async def run(self) -> None:
        """Look the names up again from time to time. Ends when it is cancelled."""
        while True:
            await asyncio.sleep(self._every_ms / 1000)
            await self.look_up()


def _read_list(source: str) -> tuple[str, ...]:
    """Return the NameServers that a file or an address server has.

    Raises:
        OSError: it cannot be read.
        ValueError, InvalidArgument: what it has is not a list of `host:port`.
    """
    if source.startswith(("http://", "https://")):
        from urllib.request import urlopen  # only brokers with an address server pay

        with urlopen(source, timeout=_READ_TIMEOUT_S) as answer:
            text = answer.read(_LIST_SIZE_MAX)
    else:
        with Path(source).open("rb") as file:
            text = file.read(_LIST_SIZE_MAX)
    return parse_name_servers(text.decode("ascii").strip())


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
    """

    def __init__(
        self,
        config: BrokerConfig,
        address: BrokerAddress,
        topics: TopicTable,
        mappings: StaticTopicTable,
        security: ClientSecurity,
        epoch: int = 0,
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
        self.name_servers = NameServers(self.registrar, config.name_servers, source=source, every_ms=every_ms)
        self.brokers = OtherBrokers(self.registrar.find_route, pool, timeout_ms=config.forward_timeout)
