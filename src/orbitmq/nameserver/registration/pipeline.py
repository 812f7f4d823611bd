"""The pipeline of a registration: recognise, or parse, check and apply; then remember and answer.

A broker registers all its topics every 30 seconds, and hardly ever has anything new to say. So the first step compares
(`body_cache`), and only what is new is parsed. Thousands of topics are entered in slices, so that others are served in
between (`queue`).
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Mapping
from functools import lru_cache
from itertools import repeat
from typing import Any, Literal

from orbitmq.clock import Clock
from orbitmq.codes import ResponseCode
from orbitmq.errors import OrbitError, Rejected
from orbitmq.model.route import QueueData
from orbitmq.nameserver.persistence.kv_config import KvConfig
from orbitmq.nameserver.registration.body_cache import BodyCache
from orbitmq.nameserver.registration.queue import JOB_SIZE_MIN, Concerns, PendingChange, RegistrationQueue
from orbitmq.nameserver.routing.events import Cause, Trigger
from orbitmq.nameserver.routing.route_table import SLICE_TOPICS, RouteTable
from orbitmq.nameserver.routing.validation import (
    check_filter_servers,
    check_length,
    check_queue_mappings,
    check_registered_name,
    illegal_topics,
)
from orbitmq.nameserver.routing.values import LEASE_MS, NO_MASTER, BrokerKey, MasterAddresses, Registration
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Later, Reply
from orbitmq.wire.bodies.document import encode_kv_table
from orbitmq.wire.bodies.registration import RegisterBrokerBody, read_registration
from orbitmq.wire.bodies.topic_table import RegisteredTopic
from orbitmq.wire.frame import FRAME_SIZE_MAX
from orbitmq.wire.headers import RegisterBroker, RegisterBrokerResponse
from orbitmq.wire.slices import Slices, finish, parts_of

log = logging.getLogger(__name__)

ORDER_TOPIC_NAMESPACE = "ORDER_TOPIC_CONFIG"
"""Key-value namespace of ordered topics; brokers are told its content (Java: NAMESPACE_ORDER_TOPIC_CONFIG)."""
LEASE_MS_MAX = 24 * 3_600_000
CHECKED_SIZE = 4 * 1024 * 1024
"""Bytes of a body whose checksum is computed in one slice."""
QUEUE_DATA_MAX = 65_536
"""Queue settings that brokers' topics share: most topics of a broker differ by their names alone."""


class RegistrationPipeline:
    """Enters brokers with their topics into the route table, or renews their leases.

    Args:
        bodies: what each broker registered last.
        queue: registrations that are unfinished.
        lease_clock: what leases are measured on.
        tells_order_topics: the answer lists the ordered topics (`returnOrderTopicConfigToBroker`); may be set to
            something else later.
        slice_topics: how many topics are looked at in one slice.
    """

    def __init__(
        self,
        route_table: RouteTable,
        bodies: BodyCache,
        queue: RegistrationQueue,
        kv: KvConfig,
        *,
        lease_clock: Clock,
        tells_order_topics: bool = True,
        slice_topics: int = SLICE_TOPICS,
    ) -> None:
        self.tells_order_topics = tells_order_topics
        self._route_table = route_table
        self._bodies = bodies
        self._queue = queue
        self._kv = kv
        self._lease_clock = lease_clock
        self._slice_topics = slice_topics
        self._order_topics: bytes | None = None

    def register(self, call: Call[RegisterBroker]) -> Reply | Literal[Later.LATER]:
        """Answer a registration immediately; one of thousands of topics later."""
        queue, now_ms = self._queue, self._lease_clock()
        if queue.jobs and queue.has_before(concerns := _concerns_of(call.header)):
            queue.refuse_if_full()
            # It may be recognised only when it is its turn: the registration before it decides what is new.
            return self._enqueue(call, concerns, self._recognise_or_enter(call, now_ms))
        master = self._recognise(call, now_ms)
        if master is not None:
            return self._reply(master)
        concerns = _concerns_of(call.header)
        if len(call.command.body) > JOB_SIZE_MIN:
            queue.refuse_if_full()
        slices = self._enter(call, now_ms)
        try:
            next(slices)
        except StopIteration as end:
            reply: Reply = end.value
            return reply
        return self._enqueue(call, concerns, slices)

    # Recognise.

    def _recognise(self, call: Call[RegisterBroker], now_ms: int) -> MasterAddresses | None:
        """Renew the lease of a broker that registers nearly what it did last time; None: it has to be parsed."""
        header, body, table = call.header, call.command.body, self._route_table
        key = BrokerKey(header.cluster_name, header.broker_name, header.broker_addr)
        revision = table.revision_of(header.broker_name)
        known = self._bodies.recognise(key, header, call.command.version, body, revision)
        if known is None:
            return None
        if known.checksum != header.body_crc32:
            finish(_checking_body(header, body))
        if known.topics:
            changed = RegisterBrokerBody(data_version=known.data_version, topics=known.topics, filter_servers=None)
            return finish(self._apply(call, changed, now_ms, is_partial=True))
        return table.renew(key, header.broker_id, known.data_version, call.connection.id, now_ms)

    def _recognise_or_enter(self, call: Call[RegisterBroker], now_ms: int) -> Slices[Reply]:
        master = self._recognise(call, now_ms)
        if master is not None:
            return self._reply(master)
        return (yield from self._enter(call, now_ms))

    # Parse, check, apply, remember.

    def _enter(self, call: Call[RegisterBroker], now_ms: int) -> Slices[Reply]:
        header, command = call.header, call.command
        _check_names(header)
        yield from _checking_body(header, command.body)
        body = yield from read_registration(command.body, compressed=header.compressed, version=command.version)
        check_filter_servers(body.filter_servers)
        check_queue_mappings(body.queue_mappings)
        return self._reply((yield from self._apply(call, body, now_ms, is_partial=False)))

    def _apply(
        self, call: Call[RegisterBroker], body: RegisterBrokerBody, now_ms: int, *, is_partial: bool
    ) -> Slices[MasterAddresses]:
        """Register a broker with all its topics, or with those that differ from its last registration."""
        header, remote = call.header, call.connection.remote
        clear_count = self._bodies.clear_count
        queues = yield from self._queues_of(header.broker_name, body.topics, remote)
        registration = _to_registration(header, body, queues)
        trigger = Trigger(Cause.REGISTRATION, call.now_ms, remote)
        table = self._route_table
        slices = table.register(registration, trigger, call.connection.id, now_ms=now_ms, is_partial=is_partial)
        master = yield from table.publishing(slices)
        if master is None:  # outdated
            self._bodies.forget(registration.key)
            return NO_MASTER
        # Settings that change between two slices drop all bodies: the first slices were done by the old ones.
        if self._bodies.clear_count == clear_count:
            yield from self._remember(call, registration, body, is_partial)
        return master

    def _remember(
        self, call: Call[RegisterBroker], registration: Registration, body: RegisterBrokerBody, is_partial: bool
    ) -> Slices[None]:
        queues = registration.queues
        # Taken before the tables are compared: whatever changes between two slices makes the body worthless.
        revision = self._route_table.revision_of(registration.key.broker_name)
        is_applied = not body.queue_mappings
        for part in parts_of(queues, self._slice_topics):
            is_applied = is_applied and self._route_table.holds(registration, part)
            if part is not queues:
                yield
        self._bodies.remember(
            registration.key,
            call.header,
            call.command.version,
            call.command.body,
            body.data_version,
            revision,
            topic_count=None if is_partial else len(body.topics),
            is_applied=is_applied,
        )

    def _queues_of(
        self, broker_name: str, topics: Mapping[str, RegisteredTopic], remote: str
    ) -> Slices[Mapping[str, QueueData]]:
        """Return the queues of all topics whose names are legal."""
        queues: dict[str, QueueData] = {}
        illegal_count = 0
        for part in parts_of(topics, self._slice_topics):
            # One pass in C over thousands of topics; the illegal ones, which are rare, are taken out again.
            queues.update(zip(part, map(_queue_data, repeat(broker_name), part.values()), strict=False))
            illegal = illegal_topics(part)
            for topic in illegal:
                del queues[topic]
            illegal_count += len(illegal)
            if part is not topics:
                yield
        if illegal_count:
            log.warning("%s at %s: left out %d topics with illegal names", broker_name, remote, illegal_count)
        return queues

    # Answer.

    def _reply(self, master: MasterAddresses) -> Reply:
        header = RegisterBrokerResponse(ha_server_addr=master.ha_address, master_addr=master.master_address)
        if not self.tells_order_topics:
            return Reply(header=header)
        if self._order_topics is None:
            table = self._kv.namespace(ORDER_TOPIC_NAMESPACE)
            self._order_topics = b"" if table is None else encode_kv_table(table)
        return Reply(header=header, body=self._order_topics)

    def forget_order_topics(self) -> None:
        """Read the ordered topics from the key-value store again."""
        self._order_topics = None

    # Answer later.

    def _enqueue(self, call: Call[RegisterBroker], concerns: Concerns, slices: Slices[Reply]) -> Literal[Later.LATER]:
        job = PendingChange(call.connection.id, len(call.command.body), concerns, answering(call, slices))
        self._queue.append(job)
        return LATER


handlers: Handlers[RegistrationPipeline] = Handlers()


@handlers.on(RegisterBroker, body_size_max=FRAME_SIZE_MAX)
def register_broker(pipeline: RegistrationPipeline, call: Call[RegisterBroker]) -> Reply | Literal[Later.LATER]:
    """Enter a broker with its topics, or renew its lease; thousands of topics in slices."""
    return pipeline.register(call)


def answering(call: Call[Any], slices: Slices[Reply]) -> Slices[None]:
    """Do the slices and send their answer; whatever goes wrong becomes an answer, too, and harms no other change."""
    try:
        reply = yield from slices
    except Rejected as refusal:
        reply = Reply(refusal.code, refusal.remark)
    except OrbitError as error:
        reply = Reply(ResponseCode.SYSTEM_ERROR, str(error))
    except Exception as error:
        log.exception("the request %d of %s failed", call.command.code, call.connection.remote)
        reply = Reply(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
    call.answer(reply)


def _concerns_of(header: RegisterBroker) -> Concerns:
    return frozenset((header.broker_name,))


def _checking_body(header: RegisterBroker, body: bytes) -> Slices[None]:
    if not header.body_crc32:
        return
    checksum = 0
    for start in range(0, len(body), CHECKED_SIZE):
        if start:
            yield
        checksum = zlib.crc32(memoryview(body)[start : start + CHECKED_SIZE], checksum)
    if checksum & 0x7FFFFFFF != header.body_crc32:
        raise Rejected(ResponseCode.SYSTEM_ERROR, "crc32 not match")


def _check_names(header: RegisterBroker) -> None:
    check_registered_name("clusterName", header.cluster_name)
    check_registered_name("brokerName", header.broker_name)
    check_registered_name("brokerAddr", header.broker_addr.replace("[", "").replace("]", ""))
    check_length("haServerAddr", header.ha_server_addr)
    check_length("zoneName", header.zone_name)


def _to_registration(header: RegisterBroker, body: RegisterBrokerBody, queues: Mapping[str, QueueData]) -> Registration:
    lease_ms = header.heartbeat_timeout_millis
    return Registration(
        key=BrokerKey(header.cluster_name, header.broker_name, header.broker_addr),
        broker_id=header.broker_id,
        ha_address=header.ha_server_addr,
        lease_ms=LEASE_MS if lease_ms is None else min(max(lease_ms, 0), LEASE_MS_MAX),
        acting_master=header.enable_acting_master,
        zone_name=header.zone_name,
        data_version=body.data_version,
        queues=queues,
        left_out=len(body.topics) - len(queues),
        filter_servers=body.filter_servers,
        queue_mappings=body.queue_mappings,
    )


@lru_cache(maxsize=QUEUE_DATA_MAX)
def _queue_data(broker_name: str, topic: RegisteredTopic) -> QueueData:
    # Cached, so that the topics of a broker share a few values, and most comparisons with the table end at `is`.
    return QueueData(
        broker_name=broker_name,
        read_queue_count=topic.read_queue_count,
        write_queue_count=topic.write_queue_count,
        perm=topic.perm,
        topic_sys_flag=topic.topic_sys_flag,
    )
