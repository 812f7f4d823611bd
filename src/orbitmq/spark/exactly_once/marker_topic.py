"""The marker topic: one queue, whose order decides which marker of a micro-batch is the first."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from orbitmq.client.blocking.producers import BlockingProducer
from orbitmq.client.send.result import SendStatus
from orbitmq.errors import ConfigError, InvalidArgument, RemoteRefused, RouteNotFound, SendFailed
from orbitmq.model.message import Message
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import TopicConfig
from orbitmq.net.loop import run
from orbitmq.spark.exactly_once.commit_markers import CommitMarker, Entry, Marker, format_entry, parse_entry
from orbitmq.spark.offsets import Earliest
from orbitmq.spark.options import ReadOptions, WriteOptions
from orbitmq.spark.reading.metadata_client import MetadataClient
from orbitmq.spark.reading.planning import Range
from orbitmq.spark.reading.range_reader import RangeReader
from orbitmq.spark.security import read_security

POLL_EVERY_S = 0.01


class MarkerRecord(NamedTuple):
    """A record of the marker topic, and its queue offset."""

    offset: int
    entry: Entry


class BatchMarkers(NamedTuple):
    """What the marker topic says of one micro-batch.

    Nothing about the batch stands before `begin`: the next read may begin there. `last` is the last batch of its query that has a
    marker there.
    """

    marker: CommitMarker
    begin: int
    last: int = -1


class MarkerTopic:
    """Reads and writes the marker topic. Nothing stays open between two calls.

    Args:
        options: name the topic, and how to reach it.
    """

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def find(self, query: str, batch: int, begin: int = 0) -> BatchMarkers:
        """Read what the topic says of a micro-batch now.

        Args:
            begin: nothing about the batch stands before this offset.

        Raises:
            ConfigError: the topic is none for markers.
            ClientError: it cannot be read now.
        """
        marker, first, end, last = CommitMarker(), None, begin, -1
        for line in self.read(begin):
            end = line.offset + 1
            if isinstance(line.entry, Marker) and line.entry.query == query:
                last = max(last, line.entry.batch)
            if (line.entry.query, line.entry.batch) == (query, batch):
                marker.apply(line.entry)
                first = line.offset if first is None else first
        return BatchMarkers(marker, end if first is None else first, last)

    def read(self, begin: int = 0) -> Iterator[MarkerRecord]:
        """Yield every record from an offset on, in order.

        Raises: as `find`.
        """
        options = read_options(self._options, self._options.marker_topic)
        with MetadataClient.of(options) as client:
            queue, address = self._place(client)
            begin = max(begin, client.earliest({queue: address})[queue])
            end = client.latest({queue: address})[queue]
        if begin >= end:
            return
        columns = ("queueOffset", "body")
        for rows in RangeReader(Range(queue, begin, end), address, options, columns).batches():
            for offset, body in zip(*(column.to_pylist() for column in rows.columns), strict=True):
                yield MarkerRecord(offset, parse_entry(body, offset))

    def append(self, entry: Entry) -> None:
        """Write a record, and return when reads find it: Java's broker answers a send before its queue shows the message.

        Where this fails the record may stand in the topic all the same.

        Raises:
            SendFailed: the broker does not promise to keep it, or its queue does not show it within `commit_timeout_ms`.
            ClientError: it could not be asked, or refused.
        """
        options = self._options
        with MetadataClient.of(read_options(options, options.marker_topic)) as client:
            queue, address = self._place(client)
            with BlockingProducer(
                f"{options.group}-markers",
                options.name_servers,
                send_timeout_ms=options.send_timeout_ms,
                retries=options.retries,
                **read_security(options.security_file)._asdict(),
            ) as producer:
                message = Message(options.marker_topic, format_entry(entry), keys=(f"{entry.query}/{entry.batch}",))
                sent = producer.send(message, queue=queue)
            if sent.status is not SendStatus.SEND_OK:
                raise SendFailed(f"the broker does not promise to keep the marker: {sent.status}", [])
            deadline_s = time.monotonic() + options.commit_timeout_ms / 1000
            while client.latest({queue: address})[queue] <= sent.queue_offset:
                if time.monotonic() > deadline_s:
                    told = f"the marker at offset {sent.queue_offset} of {queue.topic} is not shown by its queue"
                    raise SendFailed(f"{told} within {options.commit_timeout_ms} ms", [])
                time.sleep(POLL_EVERY_S)

    def _place(self, client: MetadataClient) -> tuple[MessageQueue, str]:
        """Return the topic's only queue: with two of them, which marker is the first would be undefined."""
        topic = self._options.marker_topic
        advice = f"one queue on one broker: orbitmq topic create {topic} --broker BROKER --queues 1"
        try:
            try:
                queues = client.queues([topic])
            except RouteNotFound:
                if self._options.marker_broker is None:
                    raise
                run(self._create(self._options.marker_broker))
                queues = client.queues([topic])
        except (RouteNotFound, RemoteRefused) as error:
            needs = f"The markers of exactly-once delivery need a topic with {advice}"
            how = "or the option markerBroker, and a user with the role admin: then it is created on that broker"
            raise RouteNotFound(f"{error}. {needs}; {how}") from error
        if len(queues) != 1:
            raise ConfigError("markerTopic", f"{topic}, which has {len(queues)} queues", advice)
        return next(iter(queues.items()))

    async def _create(self, broker: str) -> None:
        """Create the topic on a broker that is named: on any other, markers of a broker that is away would be missed."""
        from orbitmq.admin.client import AdminClient

        config = TopicConfig(topic=self._options.marker_topic, read_queue_count=1, write_queue_count=1)
        security = read_security(self._options.security_file)._asdict()
        async with AdminClient(self._options.name_servers, **security) as admin:
            try:
                await admin.create_topic(config, broker=broker)
            except InvalidArgument as error:
                raise ConfigError("markerBroker", broker, error.allowed) from error


def read_options(options: WriteOptions, topic: str) -> ReadOptions:
    """Return how a writer reads a topic: as patiently as it sends."""
    return ReadOptions(
        name_servers=options.name_servers,
        security_file=options.security_file,
        topics=(topic,),
        start=Earliest(),
        group=options.group,
        pull_timeout_ms=options.send_timeout_ms,
        retries=options.retries,
    )
