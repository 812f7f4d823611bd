"""What the driver asks a cluster: which queues a topic has, who holds them, and where they begin and end.

Over blocking connections that stay open between micro-batches; questions to one broker leave together.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType

from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, NoNameServer, RemoteRefused, RouteNotFound
from orbitmq.model.route import MASTER_ID, BrokerData, MessageQueue, TopicRoute
from orbitmq.model.topic import Perm
from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.security.client_security import UNSECURED, Security
from orbitmq.spark.planning import Offsets
from orbitmq.wire.bodies.route import decode_route
from orbitmq.wire.bodies.topics import decode_topic_list
from orbitmq.wire.command import Command
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import GetAllTopics, GetMaxOffset, GetMinOffset, GetRouteInfo, OffsetResponse, SearchOffset

log = logging.getLogger(__name__)

_SYSTEM_TOPIC = re.compile(
    r"TBW102|SCHEDULE_TOPIC_XXXX|SELF_TEST_TOPIC|OFFSET_MOVED_EVENT|BenchmarkTest|RMQ_SYS_.*|rmq_sys_.*|%SYS%.*"
)
Addresses = dict[MessageQueue, str]


class Cluster:
    """A cluster as its NameServers describe it.

    Args:
        name_servers: host:port each; asked in turn until one answers.
        timeout_ms: for connecting, and for each answer.
        security: what requests are signed with, and connections encrypted with.
    """

    def __init__(self, name_servers: Sequence[str], *, timeout_ms: int = 3000, security: Security = UNSECURED) -> None:
        self._name_servers = list(name_servers)
        self._timeout_ms = timeout_ms
        self._security = security
        self._connections: dict[str, BlockingConnection] = {}

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        while self._connections:
            self._connections.popitem()[1].close()

    def queues(self, topics: Iterable[str], pattern: str | None = None) -> Addresses:
        """Return the readable queues of `topics`, or of the topics that `pattern` matches, and who holds them.

        Raises:
            RouteNotFound: a topic that was named does not exist.
            NoNameServer: none answered.
        """
        found: Addresses = {}
        for topic in topics:
            found |= readable_queues(topic, self.route(topic))
        if pattern is not None:
            for topic in self.matching_topics(pattern):
                try:
                    found |= readable_queues(topic, self.route(topic))
                except RouteNotFound:  # deleted since the list was made
                    continue
        return found

    def route(self, topic: str) -> TopicRoute:
        """Return a topic's route.

        Raises:
            RouteNotFound: the NameServer that answered knows none.
        """
        answer = self._ask_name_server(GetRouteInfo(topic=topic, accept_standard_json_only=True))
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            servers = ", ".join(self._name_servers)
            raise RouteNotFound(
                f"topic {topic} has no route at {servers}: create it, or start the broker that holds it"
            )
        return decode_route(_accepted(answer, self._name_servers[0]).body)

    def matching_topics(self, pattern: str) -> list[str]:
        """Return the topics whose whole name matches `pattern`.

        RocketMQ's own topics never match; retry and dead-letter topics only where the pattern begins with their %.
        """
        answer = _accepted(self._ask_name_server(GetAllTopics()), self._name_servers[0])
        return [
            topic
            for topic in sorted(decode_topic_list(answer.body).topics)
            if re.fullmatch(pattern, topic)
            and not _SYSTEM_TOPIC.fullmatch(topic)
            and (pattern.startswith("%") or not topic.startswith("%"))
        ]

    def latest(self, queues: Addresses, *, unreachable: Callable[[str, ClientError], None] | None = None) -> Offsets:
        """Return the offset behind the last message of each queue.

        Args:
            unreachable: called with each broker that does not answer, whose queues are left out then; None: raise.
        """
        return self._offsets(queues, lambda q: GetMaxOffset(topic=q.topic, queue_id=q.queue_id), unreachable)

    def earliest(self, queues: Addresses) -> Offsets:
        """Return the offset of the first message of each queue that is still there."""
        return self._offsets(queues, lambda q: GetMinOffset(topic=q.topic, queue_id=q.queue_id), None)

    def at(self, queues: Addresses, timestamp_ms: int) -> Offsets:
        """Return the offset of the first message of each queue that was stored at or after a time."""
        return self._offsets(
            queues, lambda q: SearchOffset(topic=q.topic, queue_id=q.queue_id, timestamp_ms=timestamp_ms), None
        )

    def _offsets(
        self,
        queues: Mapping[MessageQueue, str],
        question: Callable[[MessageQueue], object],
        unreachable: Callable[[str, ClientError], None] | None,
    ) -> Offsets:
        by_address: dict[str, list[MessageQueue]] = {}
        for queue, address in queues.items():
            by_address.setdefault(address, []).append(queue)
        offsets: dict[MessageQueue, int] = {}
        for address, held in by_address.items():
            try:
                answers = self._ask(address, [question(queue) for queue in held])
            except ClientError as error:
                if unreachable is None:
                    raise
                unreachable(address, error)
                continue
            for queue, answer in zip(held, answers, strict=True):
                offsets[queue] = decode_header(OffsetResponse, _accepted(answer, address).ext_fields).offset
        return offsets

    def _ask_name_server(self, header: object) -> Command:
        errors = []
        for address in tuple(self._name_servers):
            try:
                return self._ask(address, [header])[0]
            except ClientError as error:
                errors.append(str(error))
                self._name_servers.append(self._name_servers.pop(0))  # stay with one that answers
        raise NoNameServer(f"no NameServer could be asked: {'; '.join(errors)}")

    def _ask(self, address: str, headers: Sequence[object]) -> list[Command]:
        """Send all questions at once. A connection that was open already may have died: then a new one is tried."""
        was_open = address in self._connections
        try:
            return self._ask_once(address, headers)
        except ClientError:
            if not was_open:
                raise
            return self._ask_once(address, headers)

    def _ask_once(self, address: str, headers: Sequence[object]) -> list[Command]:
        connection = self._connections.pop(address, None) or BlockingConnection(
            address, timeout_ms=self._timeout_ms, **self._security._asdict()
        )
        try:
            opaques = [connection.send(header) for header in headers]
            answers = [connection.receive(opaque) for opaque in opaques]
        except BaseException:
            connection.close()
            raise
        self._connections[address] = connection
        return answers


def readable_queues(topic: str, route: TopicRoute) -> Addresses:
    """Return a topic's readable queues and the address to read each from."""
    addresses = {broker.broker_name: _reading_address(broker) for broker in route.brokers}
    return {
        MessageQueue(topic, queue.broker_name, queue_id): address
        for queue in route.queues
        if queue.perm & Perm.READ and (address := addresses.get(queue.broker_name)) is not None
        for queue_id in range(queue.read_queue_count)
    }


def _reading_address(broker: BrokerData) -> str | None:
    """Return the master's address, or that of the slave with the smallest id while there is no master."""
    if not broker.addresses:
        return None
    return broker.addresses.get(MASTER_ID) or broker.addresses[min(broker.addresses)]


def _accepted(answer: Command, address: str) -> Command:
    if answer.code != ResponseCode.SUCCESS:
        raise RemoteRefused(answer.code, answer.remark, address)
    return answer
