"""Commits and rollbacks, as the driver tells brokers: many in flight, within the time that a broker allows."""

from __future__ import annotations

import logging
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from orbitmq.client.routing.route_cache import address_of
from orbitmq.client.transactions.decision import Decision
from orbitmq.clock import now_ms
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, ConnectionFailed, RemoteRefused
from orbitmq.net.blocking import BlockingConnection
from orbitmq.spark.exactly_once.marker_topic import read_options
from orbitmq.spark.exactly_once.prepared import Prepared, PreparedTopic
from orbitmq.spark.options import WriteOptions
from orbitmq.spark.reading.metadata_client import MetadataClient
from orbitmq.spark.security import read_security
from orbitmq.wire.headers import GetBrokerConfig
from orbitmq.wire.headers.send import EndTransaction

log = logging.getLogger(__name__)

OUTSTANDING = 256
"""Ends under way on one connection: a broker of ours carries out so many of one read in one pass, and takes more for each beyond."""


class TransactionEnder:
    """Ends half messages at their brokers.

    Args:
        options: how to reach them.
    """

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._security = read_security(options.security_file)
        self._addresses: dict[PreparedTopic, str] = {}
        self._timeouts: dict[str, TransactionTimeouts] = {}

    def check_age(self, prepared: Iterable[Prepared]) -> None:
        """Refuse a micro-batch that has taken so long that brokers may have discarded its rows, before it is decided.

        Raises:
            RemoteRefused: it has; nothing of it was or will be committed.
            ClientError: a broker cannot be asked for its settings.
        """
        for part in prepared:
            age_ms = now_ms() - part.born_at_ms
            for place in part.halves:
                if self._limits(place).may_be_given_up(age_ms):
                    raise RemoteRefused(
                        ResponseCode.SYSTEM_ERROR,
                        f"the micro-batch has taken {age_ms} ms, and gives up transactions before that; raise its "
                        "transactionCheckMax or transactionTimeOut, or make micro-batches smaller",
                        f"broker {place.broker_name}",
                    )

    def tell(self, prepared: Iterable[Prepared], decision: Decision) -> int:
        """End half messages; return how many of them are not confirmed. Their brokers will ask about those."""
        open_count = 0
        for part in prepared:
            for place, halves in part.halves.items():
                try:
                    open_count += self._tell(place, halves, part.born_at_ms, decision)
                except ClientError as error:
                    log.warning("%s half messages of %s: %s", len(halves) // 2, "/".join(place), error)
                    open_count += len(halves) // 2
        return open_count

    def _tell(self, place: PreparedTopic, halves: array[int], born_at_ms: int, decision: Decision) -> int:
        """Each request is sent once: whether one arrived that was not answered, its broker finds out."""
        timeouts = self._limits(place)
        confirmed, total = 0, len(halves) // 2
        waiting: deque[int] = deque()
        with self._connect(self._address(place)) as connection:
            try:
                for header in self._headers(place, halves, decision):
                    if not timeouts.may_end(now_ms() - born_at_ms):
                        break
                    waiting.append(connection.send(header))
                    if len(waiting) >= OUTSTANDING:
                        confirmed += _confirmed(connection, waiting, OUTSTANDING // 2)
                confirmed += _confirmed(connection, waiting, 0)
            except ClientError as error:
                log.warning("broker %s: %s", place.broker_name, error)
        return total - confirmed

    def _headers(self, place: PreparedTopic, halves: array[int], decision: Decision) -> Iterator[EndTransaction]:
        for index in range(0, len(halves), 2):
            yield EndTransaction(
                topic=place.topic,
                producer_group=self._options.group,
                tran_state_table_offset=halves[index],
                commit_log_offset=halves[index + 1],
                commit_or_rollback=decision.value,
                message_id="",
                transaction_id="",
                broker_name=place.broker_name,
            )

    def _limits(self, place: PreparedTopic) -> TransactionTimeouts:
        if place.broker_name not in self._timeouts:
            address = self._address(place)
            with self._connect(address) as connection:
                answer = connection.request(GetBrokerConfig())
            if answer.code != ResponseCode.SUCCESS:
                raise RemoteRefused(answer.code, f"exactly-once asks for its settings: {answer.remark}", address)
            self._timeouts[place.broker_name] = timeouts_of(answer.body.decode(errors="replace"))
        return self._timeouts[place.broker_name]

    def _address(self, place: PreparedTopic) -> str:
        if place not in self._addresses:
            with MetadataClient.of(read_options(self._options, place.topic)) as client:
                route = client.route(place.topic)
            for broker in route.brokers:
                address = address_of(broker, only_this=True)
                if address is not None:
                    self._addresses[PreparedTopic(place.topic, broker.broker_name)] = address
        if place not in self._addresses:
            raise ConnectionFailed(f"the master of broker {place.broker_name} is not there")
        return self._addresses[place]

    def _connect(self, address: str) -> BlockingConnection:
        return BlockingConnection(address, timeout_ms=self._options.send_timeout_ms, **self._security._asdict())


def _confirmed(connection: BlockingConnection, waiting: deque[int], count_max: int) -> int:
    """Wait until so many requests are open at most; return how many of the others were done."""
    confirmed = 0
    while len(waiting) > count_max:
        answer = connection.receive(waiting.popleft())
        if answer.code == ResponseCode.SUCCESS:
            confirmed += 1
        else:
            log.warning("%s does not end a half message: %s %s", connection.address, answer.code, answer.remark)
    return confirmed


CLOCK_SLACK_MS = 2_000
"""How much the clocks of executors and brokers may differ."""
_OURS = "topicsMax"
"""A setting that Java's brokers do not have: a broker of ours ends a transaction once, however often it is told."""


@dataclass(frozen=True)
class TransactionTimeouts:
    """The limits of one broker, in ms since a half message was made.

    Args:
        direct_ms: until then the driver may end it; later only an answer to the broker's check may. None: at any time.
        given_up_ms: after that it may have been discarded.
    """

    direct_ms: int | None
    given_up_ms: int

    def may_end(self, age_ms: int) -> bool:
        """Return True if the driver may still end a half message of this age by itself.

        A Java broker stores an old half message again when it asks about it. Told to commit the older record then, it
        delivers the message, and once more when it gets its answer.
        """
        return self.direct_ms is None or age_ms < self.direct_ms

    def may_be_given_up(self, age_ms: int) -> bool:
        """Return True if a half message of this age may be one that the broker asks no producer about any more."""
        return age_ms >= self.given_up_ms


def timeouts_of(settings: str) -> TransactionTimeouts:
    """Return the limits that a broker's settings mean (GET_BROKER_CONFIG: Java properties, a line each)."""
    values = dict(line.split("=", 1) for line in settings.splitlines() if "=" in line and not line.startswith("#"))
    timeout_ms = _number(values, "transactionTimeOut", 6_000)
    interval_ms = _number(values, "transactionCheckInterval", 30_000)
    op_ms = _number(values, "transactionOpBatchInterval", 3_000)
    check_max = _number(values, "transactionCheckMax", 15)
    # What a Java broker has committed is written down up to `op_ms` later: until then it would ask, and deliver again.
    direct_ms = None if _OURS in values else max(0, timeout_ms - op_ms - CLOCK_SLACK_MS)
    return TransactionTimeouts(direct_ms, timeout_ms + (check_max - 1) * interval_ms - CLOCK_SLACK_MS)


def _number(values: Mapping[str, str], name: str, default: int) -> int:
    text = values.get(name, "").strip()
    return int(text) if text.isdecimal() else default
