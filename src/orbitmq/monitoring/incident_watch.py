"""The watch of a cluster: what servers say of themselves, asked again and again; each incident is told once to a topic.

The topic is the watch's memory: at its start, and after a sending that failed, it reads there which incidents are open. So a
watch that was killed tells nothing a second time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable
from typing import Any

import orjson

from orbitmq.address import parse_name_servers
from orbitmq.admin.monitoring import ask_broker_health, ask_brokers, ask_health
from orbitmq.client.producer import Producer
from orbitmq.client.pull_consumer import PullConsumer
from orbitmq.clock import now_ms
from orbitmq.errors import ClientError, ConfigError, InvalidArgument, RequestTimeout, RouteNotFound
from orbitmq.model.group import TOOLS_GROUP
from orbitmq.model.message import Message
from orbitmq.monitoring.alerts import Alert
from orbitmq.monitoring.incidents import (
    ClusterSample,
    Incident,
    Notice,
    alert_in,
    decode_notice,
    find_incidents,
    find_notices,
    open_incidents,
)
from orbitmq.net.pool import ConnectionPool
from orbitmq.net.security.client_security import ClientSecurity

_LINE_EVERY = 30
"""Looks after which a line says that there is nothing new; another one says that fewer or more servers answer."""

_Ask = Callable[..., Coroutine[Any, Any, dict[str, Any]]]


class IncidentWatch:
    """A watch of one cluster.

    `looks` counts those that are over. `opened` has the incidents that are open; None: the topic has to be asked.

    Args:
        timeout_ms: for each answer of a server.
        topic: of the notices.
        tell: gets a line for each notice, and now and then one that nothing is new.
    """

    def __init__(
        self, name_servers: str, security: ClientSecurity, timeout_ms: int, topic: str, tell: Callable[[str], None]
    ) -> None:
        self.looks = 0
        self.opened: dict[Incident, Notice] | None = None
        self._name_servers = name_servers
        self._security = security._asdict()
        self._timeout_ms = timeout_ms
        self._topic = topic
        self._say = tell
        self._answers = 0

    async def run(self, every_s: float, looks: int = 0) -> None:
        """Look again and again; a look that has begun is finished, also when this is cancelled.

        Args:
            looks: end after so many; 0: never.

        Raises:
            ConfigError: there is no such topic.
            ClientError: the topic cannot be read at the start.
        """
        loop = asyncio.get_running_loop()
        try:
            await self._recall()
        except RouteNotFound:
            wanted = f"a topic that exists: orbitmq topic create {self._topic}"
            raise ConfigError("alert topic", self._topic, wanted) from None
        while True:
            next_at = loop.time() + every_s
            look = asyncio.ensure_future(self.look())
            try:
                await asyncio.shield(look)
            except asyncio.CancelledError:
                await look
                raise
            if self.looks == looks:
                return
            await asyncio.sleep(max(0.0, next_at - loop.time()))

    async def look(self) -> None:
        """Look once, and tell what begins and ends; where brokers do not take it, the next look tells it."""
        try:
            await self._tell_changes(await self._recall())
        except ClientError as error:  # the brokers of the topic may be the incident
            self.opened = None
            self._say(f"not told, and tried again: {error}")
        self.looks += 1

    async def read_notices(self) -> list[Notice]:
        """Return the notices that the topic has; other messages in it are passed over.

        Raises:
            ClientError: there is no such topic, or it cannot be read to its end.
        """
        async with PullConsumer(TOOLS_GROUP, self._name_servers, **self._security) as reader:
            ranges = await reader.offsets(await reader.queues(self._topic))
            found: list[Notice] = []
            pending = {queue for queue, offsets in ranges.items() if offsets.begin < offsets.end}
            reader.assign(pending)
            for queue in pending:
                reader.seek(queue, ranges[queue].begin)
            while pending:
                messages = await reader.poll(self._timeout_ms)
                found += [notice for message in messages if (notice := decode_notice(message.body)) is not None]
                ended = {queue for queue in pending if (reader.position(queue) or 0) >= ranges[queue].end}
                if not messages and not ended:
                    raise RequestTimeout(f"no message of {self._topic} came in {self._timeout_ms} ms")
                pending -= ended
        return found

    async def _recall(self) -> dict[Incident, Notice]:
        if self.opened is None:
            self.opened = open_incidents(await self.read_notices())
            self._say(f"watching: {len(self.opened):,} incidents are open")
        return self.opened

    async def _tell_changes(self, opened: dict[Incident, Notice]) -> None:
        found = await look_at(self._name_servers, self._security, self._timeout_ms)
        notices = find_notices(opened, found, now_ms())
        if notices:
            await self._send(notices)
        for notice in notices:
            self._say(f"{notice.state}: {notice.rule} {notice.subject} ({notice.reason})")
        self.opened = open_incidents([*opened.values(), *notices])
        answers, self._answers = self._answers, len(found.answers)
        if not notices and (self.looks % _LINE_EVERY == 0 or answers != self._answers):
            self._say(f"{len(found.answers):,} servers answer, {len(find_incidents(found)):,} alerts hold")

    async def _send(self, notices: Iterable[Notice]) -> None:
        # Without retries: a send that failed may be in the topic all the same, which is read before the next one.
        async with Producer(
            "orbitmq-alerts", self._name_servers, retries=0, send_timeout_ms=self._timeout_ms, **self._security
        ) as producer:
            for notice in notices:
                body, key = orjson.dumps(notice._asdict()), notice.key
                # Both messages of an incident have the same key, and go to one queue, in order.
                await producer.send(Message(self._topic, body, tag=notice.state, keys=[key], sharding_key=key))


async def look_at(name_servers: str, security: dict[str, Any], timeout_ms: int) -> ClusterSample:
    """Ask all servers at the same time; one that does not answer in time is left out."""
    pool = ConnectionPool(name="admin", **security)
    try:
        return await _look(pool, parse_name_servers(name_servers), timeout_ms)
    finally:
        await pool.close()


async def _look(pool: ConnectionPool, name_servers: Collection[str], timeout_ms: int) -> ClusterSample:
    answers: dict[str, list[Alert]] = {}
    brokers: set[str] = set()

    async def ask(address: str, question: _Ask) -> None:
        try:
            health = await question(pool, address, timeout_ms=timeout_ms)
            answers[address] = [alert_in(alert) for alert in health["alerts"]]
            if question is ask_health:
                brokers.update(await ask_brokers(pool, address, timeout_ms=timeout_ms))
        except (ClientError, InvalidArgument):  # any client may register a broker, also at an address that is none
            pass

    await asyncio.gather(*(ask(address, ask_health) for address in name_servers))
    await asyncio.gather(*(ask(address, ask_broker_health) for address in brokers))
    return ClusterSample(answers, frozenset(name_servers))
