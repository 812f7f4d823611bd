"""A NameServer and a broker in one, small and obedient: what it holds, and how it fails, is set by the test."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from types import TracebackType

from orbitmq.address import format_address
from orbitmq.client.loop_thread import STOP_TIMEOUT_S, LoopThread
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.model.route import BrokerData, ClusterInfo, MessageQueue, QueueData, TopicRoute
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Later, Reply
from orbitmq.net.server import Server
from orbitmq.wire.bodies.route import encode_cluster_info, encode_route
from orbitmq.wire.bodies.topics import QueueStats, encode_topic_list, encode_topic_stats
from orbitmq.wire.headers import (
    EarliestStoreTimeResponse,
    GetAllTopics,
    GetBrokerConfig,
    GetClusterInfo,
    GetEarliestStoreTime,
    GetMaxOffset,
    GetMinOffset,
    GetRouteInfo,
    GetTopicStats,
    HeartbeatRequest,
    OffsetResponse,
    PullMessage,
    PullResponse,
    QueryConsumerOffset,
    SearchOffset,
    SendBatch,
    SendMessageV2,
    SendResponse,
    UnregisterClient,
    UpdateConsumerOffset,
)
from orbitmq.wire.messages.batch import parse_batch
from orbitmq.wire.messages.properties import parse_properties
from orbitmq.wire.messages.record import format_record
from waiting import until

USUAL = Reply(remark="as usual")


@dataclass
class Queue:
    """Stored messages; the first one's offset is `first`, `trimmed` of them are gone."""

    records: list[bytes] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    first: int = 0
    stored_from_ms: int = 0
    """When the message at offset 0 was stored; each one behind it a millisecond later."""

    @property
    def end(self) -> int:
        return self.first + len(self.records)


class FakeBroker:
    """Holds queues by (topic, queue id).

    `pull_count_max` caps a pull as brokers do; `faults` are answers given to the next pulls instead of messages, None
    closes the connection and USUAL is an answer with messages; `send_faults` are codes that the next sends are answered with; requests
    of a type in `refuses` get NO_PERMISSION, those in `busy` SYSTEM_BUSY; a silent one does not say where queues end. `broker_address` stands in routes in place of the broker's own.
    """

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._host = host
        self.queues: dict[tuple[str, int], Queue] = {}
        self.pull_count_max = 1_000_000
        self.faults: deque[Reply | None] = deque()
        self.send_faults: deque[ResponseCode] = deque()
        self.asked: list[object] = []
        self.sent: list[tuple[str, bytes, dict[str, str]]] = []
        """Topic, body and properties of each message that was sent here."""
        self.sent_queue_ids: list[int] = []
        """Where each of these went."""
        self.refuses: set[type] = set()
        self.busy: set[type] = set()
        self.deleted: set[str] = set()
        """Topics that neither routes nor the broker know."""
        self.is_silent = False
        self.is_registered = True
        """Whether it knows a broker, as a NameServer that was started a moment ago does not."""
        self.read_queue_count = 1_000
        self.knows_removed = True
        """Whether it says where queues end that its topics had before, as Java's does."""
        self.lists_removed = False
        """Whether it lists such queues, too, as ours does."""
        self.settings = ""
        """What the broker says of its settings, a line each."""
        self.committed: dict[tuple[str, str, int], int] = {}
        """By group, topic and queue id."""
        self.address = ""
        self.broker_address: str | None = None

    def __enter__(self) -> FakeBroker:
        self._background = LoopThread("fake broker")
        server = Server(handlers, self, name="fake")
        self.address = format_address(self._host, self._call(server.start(self._host, 0)))
        self._server = server
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call(self._server.close())
        self._background.stop()

    def fill(
        self,
        topic: str,
        queue_id: int,
        count: int,
        *,
        tags: str = "",
        size: int = 10,
        first: int = 0,
        stored_from_ms: int = 0,
    ) -> Queue:
        """Add `count` messages; each gets the next letter of `tags`, over and over."""
        queue = self.queues.setdefault((topic, queue_id), Queue(first=first, stored_from_ms=stored_from_ms))
        for offset in range(queue.end, queue.end + count):
            tag = tags[offset % len(tags)] if tags else ""
            queue.tags.append(tag)
            queue.records.append(
                format_record(
                    topic=topic,
                    queue_id=queue_id,
                    queue_offset=offset,
                    body=f"{topic}-{queue_id}-{offset}-".encode().ljust(size, b"."),
                    properties=f"TAGS\x01{tag}\x02".encode() if tag else b"",
                    stored_at_ms=queue.stored_from_ms + offset,
                )
            )
        return queue

    def delete(self, topic: str) -> None:
        """Delete a topic, as an administrator does."""
        self.queues = {key: queue for key, queue in self.queues.items() if key[0] != topic}
        self.deleted.add(topic)

    @property
    def connection_count(self) -> int:
        """Connections that are open now."""
        return len(self._server.connections)

    def wait_for_connections(self, count: int) -> None:
        """Return when so many connections are open."""
        self._call(until(lambda: self.connection_count == count))

    def drop_connections(self) -> None:
        """Close every connection; returns when the clients can know."""

        async def drop() -> None:
            for connection in tuple(self._server.connections):
                connection.close()

        self._call(drop())

    def note(self, call: Call[object]) -> None:
        """Keep a request for the test to look at; refuse it where the test wants that."""
        self.asked.append(call.header)
        if type(call.header) in self.refuses:
            raise Rejected(ResponseCode.NO_PERMISSION, "not you")
        if type(call.header) in self.busy:
            raise Rejected(ResponseCode.SYSTEM_BUSY, "not now")
        if getattr(call.header, "topic", None) in self.deleted:
            raise Rejected(ResponseCode.TOPIC_NOT_EXIST, "not exist")

    def _call(self, coroutine):
        return self._background.call(coroutine, STOP_TIMEOUT_S)


handlers: Handlers[FakeBroker] = Handlers()


@handlers.on(GetClusterInfo)
def get_cluster_info(fake: FakeBroker, call: Call[GetClusterInfo]) -> Reply:
    brokers = {"fake": BrokerData("c", "fake", {0: fake.address})} if fake.is_registered else {}
    return Reply(body=encode_cluster_info(ClusterInfo(brokers=brokers, clusters={"c": tuple(brokers)})))


@handlers.on(GetRouteInfo)
def get_route(fake: FakeBroker, call: Call[GetRouteInfo]) -> Reply:
    fake.note(call)
    held = [queue_id for topic, queue_id in fake.queues if topic == call.header.topic]
    if not held:
        raise Rejected(ResponseCode.TOPIC_NOT_EXIST, "no route")
    count = min(max(held) + 1, fake.read_queue_count)
    queue = QueueData(broker_name="fake", read_queue_count=count, write_queue_count=count, perm=6)
    broker = BrokerData(cluster="c", broker_name="fake", addresses={0: fake.broker_address or fake.address})
    return Reply(body=encode_route(TopicRoute(queues=(queue,), brokers=(broker,))))


@handlers.on(GetAllTopics)
def get_topics(fake: FakeBroker, call: Call[GetAllTopics]) -> Reply:
    return Reply(body=encode_topic_list([*{topic for topic, _ in fake.queues}, "TBW102", "%RETRY%g"]))


@handlers.on(GetBrokerConfig)
def get_settings(fake: FakeBroker, call: Call[GetBrokerConfig]) -> Reply:
    fake.note(call)
    return Reply(body=fake.settings.encode())


@handlers.on(GetMaxOffset)
def get_max(fake: FakeBroker, call: Call[GetMaxOffset]) -> Reply | Later:
    fake.note(call)
    if fake.is_silent:
        return LATER
    if not fake.knows_removed and call.header.queue_id >= fake.read_queue_count:
        raise Rejected(ResponseCode.SYSTEM_ERROR, f"queueId[{call.header.queue_id}] is illegal")
    return Reply(header=OffsetResponse(offset=queue_of(fake, call.header).end))


@handlers.on(GetTopicStats)
def get_stats(fake: FakeBroker, call: Call[GetTopicStats]) -> Reply | Later:
    fake.note(call)
    if fake.is_silent:
        return LATER
    stats = {
        MessageQueue(topic, "fake", queue_id): QueueStats(queue.first, queue.end, 0)
        for (topic, queue_id), queue in fake.queues.items()
        if topic == call.header.topic and (fake.lists_removed or queue_id < fake.read_queue_count)
    }
    return Reply(body=encode_topic_stats(stats))


@handlers.on(GetMinOffset)
def get_min(fake: FakeBroker, call: Call[GetMinOffset]) -> Reply:
    fake.note(call)
    return Reply(header=OffsetResponse(offset=queue_of(fake, call.header).first))


@handlers.on(GetEarliestStoreTime)
def get_earliest(fake: FakeBroker, call: Call[GetEarliestStoreTime]) -> Reply:
    fake.note(call)
    queue = queue_of(fake, call.header)
    stored_at_ms = queue.stored_from_ms + queue.first if queue.records else -1
    return Reply(header=EarliestStoreTimeResponse(timestamp_ms=stored_at_ms))


@handlers.on(SearchOffset)
def search(fake: FakeBroker, call: Call[SearchOffset]) -> Reply:
    queue = queue_of(fake, call.header)
    return Reply(header=OffsetResponse(offset=min(max(call.header.timestamp_ms, queue.first), queue.end)))


@handlers.on(QueryConsumerOffset)
def get_committed(fake: FakeBroker, call: Call[QueryConsumerOffset]) -> Reply:
    header = call.header
    offset = fake.committed.get((header.consumer_group, header.topic, header.queue_id))
    if offset is None:
        raise Rejected(ResponseCode.QUERY_NOT_FOUND, "nothing yet")
    return Reply(header=OffsetResponse(offset=offset))


@handlers.on(UpdateConsumerOffset)
def commit(fake: FakeBroker, call: Call[UpdateConsumerOffset]) -> Reply:
    fake.note(call)
    header = call.header
    fake.committed[header.consumer_group, header.topic, header.queue_id] = header.commit_offset
    return Reply()


@handlers.on(PullMessage)
def pull(fake: FakeBroker, call: Call[PullMessage]) -> Reply:
    header = call.header
    fake.note(call)
    if fake.faults:
        fault = fake.faults.popleft()
        if fault is None:
            call.connection.close()
            return Reply()
        if fault is not USUAL:
            return fault
    queue = queue_of(fake, header)
    if not queue.first <= header.queue_offset <= queue.end:
        return moved(queue, queue.first if header.queue_offset < queue.first else queue.end)
    if header.queue_offset == queue.end:
        return Reply(ResponseCode.PULL_NOT_FOUND, header=where(queue, queue.end))
    # Of SQL92 it knows TAGS = 'x' alone.
    expression = header.subscription.removeprefix("TAGS = '").removesuffix("'")
    assert (expression == header.subscription) == (header.expression_type == "TAG")
    wanted = [tag.strip() for tag in expression.split("||")]
    found: list[bytes] = []
    end = header.queue_offset - queue.first
    # What counts is what matches: under a filter a pull passes over any number of other messages, as Java's does.
    while end < len(queue.records) and len(found) < min(header.count_max, fake.pull_count_max):
        if wanted == ["*"] or queue.tags[end] in wanted:
            found.append(queue.records[end])
        end += 1
    if not found:
        return Reply(ResponseCode.PULL_RETRY_IMMEDIATELY, header=where(queue, queue.first + end))
    return Reply(header=where(queue, queue.first + end), body=b"".join(found))


@handlers.on(HeartbeatRequest)
def heartbeat(fake: FakeBroker, call: Call[HeartbeatRequest]) -> Reply:
    return Reply()


@handlers.on(UnregisterClient)
def unregister(fake: FakeBroker, call: Call[UnregisterClient]) -> Reply:
    return Reply()


@handlers.on(SendMessageV2)
def send(fake: FakeBroker, call: Call[SendMessageV2]) -> Reply:
    return stored(fake, call.header, [(call.command.body, (call.header.properties or "").encode())])


@handlers.on(SendBatch)
def send_batch(fake: FakeBroker, call: Call[SendBatch]) -> Reply:
    return stored(fake, call.header, [(item.body, item.properties) for item in parse_batch(call.command.body)])


def stored(fake: FakeBroker, header: SendMessageV2, found: list[tuple[bytes, bytes]]) -> Reply:
    fake.asked.append(header)
    code = fake.send_faults.popleft() if fake.send_faults else ResponseCode.SUCCESS
    if code in (ResponseCode.SYSTEM_ERROR, ResponseCode.MESSAGE_ILLEGAL):
        return Reply(code, "as the test wants")
    offset = len(fake.sent)
    fake.sent += [(header.topic, body, parse_properties(properties)) for body, properties in found]
    fake.sent_queue_ids += [header.queue_id] * len(found)
    ids = ",".join(f"{offset + number:032X}" for number in range(len(found)))
    return Reply(code, header=SendResponse(message_id=ids, queue_id=header.queue_id, queue_offset=offset))


def moved(queue: Queue, next_begin_offset: int) -> Reply:
    return Reply(ResponseCode.PULL_OFFSET_MOVED, header=where(queue, next_begin_offset))


def where(queue: Queue, next_begin_offset: int) -> PullResponse:
    return PullResponse(
        suggest_which_broker_id=0, next_begin_offset=next_begin_offset, min_offset=queue.first, max_offset=queue.end
    )


def queue_of(fake: FakeBroker, header) -> Queue:
    return fake.queues.setdefault((header.topic, header.queue_id), Queue())
