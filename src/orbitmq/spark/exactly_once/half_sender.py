"""A task's half messages: sent many at a time, each acknowledged, and none of them counted as unknown."""

from __future__ import annotations

import logging
import time
from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple, cast

import pyarrow as pa

from orbitmq.client.routing.route_cache import address_of
from orbitmq.client.routing.route_queues import writable_queues
from orbitmq.client.send.queue_selector import choose_by_key
from orbitmq.client.send.request import (
    COMPRESS_OVER,
    RETRY_CODES,
    EncodedMessage,
    encode_message,
    send_header,
)
from orbitmq.client.send.result import SendStatus, decode_results
from orbitmq.client.session.client_id import unique_key_seed
from orbitmq.clock import now_ms
from orbitmq.codes import ResponseCode
from orbitmq.errors import (
    ClientError,
    ConnectionFailed,
    InvalidArgument,
    RemoteRefused,
    RequestTimeout,
    RouteNotFound,
    SendFailed,
)
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import DEFAULT_QUEUE_COUNT
from orbitmq.net.blocking import BlockingConnection
from orbitmq.spark.exactly_once.commit_markers import PROPERTY, AttemptKeys, Filled, format_attempt_id, ranges
from orbitmq.spark.exactly_once.marker_topic import read_options
from orbitmq.spark.exactly_once.prepared import Prepared, PreparedTopic
from orbitmq.spark.options import WriteOptions
from orbitmq.spark.reading.metadata_client import MetadataClient
from orbitmq.spark.security import read_security
from orbitmq.spark.writing.messages import MessageBuilder, RowMessage, of_row
from orbitmq.wire.command import Command
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import GetMaxOffset, OffsetResponse
from orbitmq.wire.messages.message_id import parse_offset_message_id

log = logging.getLogger(__name__)

OUTSTANDING = 250
"""Half messages under way on one connection: a broker of ours serves so many of one read in one pass, and all of them are unverified
when the connection breaks."""
UNVERIFIED_MAX = 10_000
"""Ranges of doubted messages that a task may name; a marker would grow too large with more, and the task fails."""
BACKOFF_MS = 200
_NEEDS = "; exactly-once needs rejectTransactionMessage=false and, with access control, the role writer"


class _Waiting(NamedTuple):
    """A half message that is not acknowledged yet."""

    opaque: int
    serial: int
    message: RowMessage
    encoded: EncodedMessage
    queue: MessageQueue


@dataclass
class _BrokerChannel:
    """The connection to one broker, and what is under way on it, oldest first."""

    connection: BlockingConnection
    waiting: deque[_Waiting] = field(default_factory=deque)


class HalfSender:
    """Sends the rows of one attempt of one task as half messages.

    Args:
        options: how to send.
        prepared: names the attempt.
    """

    def __init__(self, options: WriteOptions, prepared: Prepared) -> None:
        self._options = options
        self._prepared = prepared
        self._security = read_security(options.security_file)
        self._channels: dict[str, _BrokerChannel] = {}
        self._addresses: dict[str, str] = {}
        self._queues: dict[str, tuple[MessageQueue, ...]] = {}
        self._attempt_id = format_attempt_id(prepared.query, prepared.batch, prepared.attempt)
        self._keys = AttemptKeys(unique_key_seed())
        self._sent_count = 0
        self._unverified: set[int] = set()
        self._begins: dict[MessageQueue, int] = {}
        self._counts: dict[MessageQueue, int] = {}
        self._halves: dict[PreparedTopic, array[int]] = {}
        self._born_at_ms = 0
        self._failed: set[str] = set()
        self._failing_since_s: float | None = None

    def send(self, batches: Iterator[pa.RecordBatch]) -> Prepared:
        """Send every row and wait for every acknowledgement.

        Raises:
            SendFailed: a row was not stored as promised, within the time that the options give.
            InvalidArgument: a row cannot be a message.
            RouteNotFound: there is no such topic.
        """
        prepared = self._prepared
        builder = MessageBuilder(self._options, f"{prepared.query}/{prepared.batch}")
        try:
            for batch in batches:
                for message in builder.messages(batch):
                    self._send(message)
            while any(channel.waiting for channel in self._channels.values()):
                for broker_name in tuple(self._channels):
                    self._settle(broker_name, 0)
        finally:
            for channel in self._channels.values():
                channel.connection.close()
        return self.prepared

    @property
    def prepared(self) -> Prepared:
        """What has been acknowledged so far."""
        filled = {queue: Filled(self._begins[queue], count) for queue, count in self._counts.items()}
        unverified = ranges(self._unverified)
        return replace(
            self._prepared, unverified=unverified, filled=filled, halves=self._halves, born_at_ms=self._born_at_ms
        )

    def _send(self, message: RowMessage) -> None:
        """Put one message on its way; again, under a new serial, as often as its broker fails."""
        again: deque[RowMessage] = deque((message,))
        while again:
            queue = self._choose(again[0])
            try:
                channel = self._channel(queue.broker_name)
                self._begin(channel, queue)
                self._put(channel, again[0], queue)
                again.popleft()
            except (ConnectionFailed, RequestTimeout) as error:
                again.extend(self._fail(queue.broker_name, error))
                continue
            if len(channel.waiting) >= OUTSTANDING:
                again.extend(self._take(queue.broker_name, OUTSTANDING // 2))

    def _settle(self, broker_name: str, count_max: int) -> None:
        for message in self._take(broker_name, count_max):
            self._send(message)

    def _put(self, channel: _BrokerChannel, message: RowMessage, queue: MessageQueue) -> None:
        born_at_ms = now_ms()
        serial, message_id = self._keys.next(born_at_ms)
        self._sent_count = serial + 1
        self._born_at_ms = self._born_at_ms or born_at_ms
        cast(dict[str, str], message.properties)[PROPERTY] = self._attempt_id  # made for this row by MessageBuilder
        try:
            encoded = encode_message(message, message_id, COMPRESS_OVER, half_of=self._options.group)
        except InvalidArgument as error:
            raise of_row(error, message.row_id) from None
        header = send_header(encoded, self._options.group, queue, born_at_ms, DEFAULT_QUEUE_COUNT)
        opaque = channel.connection.send(header, encoded.body)
        channel.waiting.append(_Waiting(opaque, serial, message, encoded, queue))

    def _take(self, broker_name: str, count_max: int) -> Iterable[RowMessage]:
        """Wait until so many are under way at most; return those that have to be sent again."""
        channel = self._channels.get(broker_name)
        again: list[RowMessage] = []
        refusal: RemoteRefused | None = None
        while channel is not None and len(channel.waiting) > count_max:
            waiting = channel.waiting[0]
            try:
                answer = channel.connection.receive(waiting.opaque)
            except (ConnectionFailed, RequestTimeout) as error:
                return [*again, *self._fail(broker_name, error)]
            channel.waiting.popleft()
            if answer.code in RETRY_CODES:  # most of these say that it is not stored; SYSTEM_ERROR may mean anything
                self._unverified.add(waiting.serial)
                refusal = RemoteRefused(answer.code, answer.remark, f"broker {broker_name}")
                again.append(waiting.message)
                continue
            self._accept(waiting, answer)
        if refusal is not None:  # a busy broker refuses many at a time: it gets one pause for all of them
            self._note_failure(broker_name, refusal)
        return again

    def _accept(self, waiting: _Waiting, answer: Command) -> None:
        results = decode_results((waiting.encoded,), waiting.queue, answer)
        broker = f"broker {waiting.queue.broker_name}"
        if results is None:
            raise SendFailed(f"a row was not sent: {broker} answered {answer.code}: {answer.remark}", [])
        (sent,) = results
        if sent.status is not SendStatus.SEND_OK:
            raise SendFailed(f"{broker} answered {sent.status} for {sent.message_id}", [])
        _, physical_offset = parse_offset_message_id(sent.offset_message_id)
        place = PreparedTopic(waiting.queue.topic, waiting.queue.broker_name)
        self._halves.setdefault(place, array("q")).extend((sent.queue_offset, physical_offset))
        self._counts[waiting.queue] = self._counts.get(waiting.queue, 0) + 1
        if self._failing_since_s is not None:
            self._failing_since_s = None
            self._failed.clear()

    def _fail(self, broker_name: str, error: ClientError) -> list[RowMessage]:
        """Take what is under way on a broken connection off it: whether it has arrived is unknown."""
        channel = self._channels.pop(broker_name, None)
        waiting = () if channel is None else tuple(channel.waiting)
        if channel is not None:
            channel.connection.close()
        self._unverified.update(sent.serial for sent in waiting)
        if len(ranges(self._unverified)) > UNVERIFIED_MAX:
            raise SendFailed(f"brokers fail too often: {len(self._unverified)} half messages are not verified", [error])
        self._note_failure(broker_name, error)
        return [sent.message for sent in waiting]

    def _note_failure(self, broker_name: str, error: ClientError) -> None:
        now_s = time.monotonic()
        self._failing_since_s = self._failing_since_s or now_s
        if now_s - self._failing_since_s > self._options.broker_timeout_ms / 1000:
            is_refused = isinstance(error, RemoteRefused) and error.code == ResponseCode.NO_PERMISSION
            raise SendFailed(f"a row was not sent: {error}{_NEEDS if is_refused else ''}", [error]) from error
        log.warning("%s, trying again", error)
        self._failed.add(broker_name)
        self._queues.clear()
        time.sleep(BACKOFF_MS / 1000)

    def _choose(self, message: RowMessage) -> MessageQueue:
        queues = self._queues.get(message.topic) or self._find(message.topic)
        if message.queue is not None:
            if message.queue.broker_name not in self._failed:  # a queue whose broker is away is in no route
                message.check_queue(queues)
            return message.queue
        if message.sharding_key is not None:
            return choose_by_key(queues, message.sharding_key)
        healthy = [queue for queue in queues if queue.broker_name not in self._failed] if self._failed else queues
        usable = healthy or queues
        return usable[self._sent_count % len(usable)]

    def _find(self, topic: str) -> tuple[MessageQueue, ...]:
        """Ask for a topic's queues, until a server answers or the time is over."""
        while True:
            try:
                with MetadataClient.of(read_options(self._options, topic)) as client:
                    route = client.route(topic)
                queues = writable_queues(topic, route)
                if not queues:
                    raise RouteNotFound(f"topic {topic} has no queue that can be written: its masters are down")
            except ClientError as error:
                if not self._failed:
                    raise
                self._note_failure("", error)
                continue
            self._addresses |= {
                broker.broker_name: address for broker in route.brokers if (address := address_of(broker)) is not None
            }
            self._queues[topic] = queues
            return queues

    def _channel(self, broker_name: str) -> _BrokerChannel:
        channel = self._channels.get(broker_name)
        if channel is None:
            connection = BlockingConnection(
                self._addresses[broker_name], timeout_ms=self._options.send_timeout_ms, **self._security._asdict()
            )
            channel = self._channels[broker_name] = _BrokerChannel(connection)
        return channel

    def _begin(self, channel: _BrokerChannel, queue: MessageQueue) -> None:
        """Note where a queue ends before the first row goes to it: nothing of this attempt is committed before."""
        if queue in self._begins:
            return
        answer = channel.connection.request(GetMaxOffset(topic=queue.topic, queue_id=queue.queue_id))
        if answer.code:
            raise RemoteRefused(answer.code, answer.remark, f"broker {queue.broker_name}")
        self._begins[queue] = decode_header(OffsetResponse, answer.ext_fields).offset
