"""The fast path at its limits, without a port: what it takes, what it leaves to the slow path, and what it holds back."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import orjson

from cases import each_case
from orbitmq.broker.delivery.delay_service import DelayService
from orbitmq.broker.fast_path.send import SendFastPath
from orbitmq.broker.groups.auto_creation import AutoCreation
from orbitmq.broker.monitoring.stats import BrokerStats
from orbitmq.broker.persistence import ConfigFiles
from orbitmq.broker.sending.answers import SendAnswers
from orbitmq.broker.sending.large_batches import LargeBatches
from orbitmq.broker.sending.properties import StoredProperties
from orbitmq.broker.sending.queue_resolver import QueueResolver
from orbitmq.broker.sending.tables import SendTables
from orbitmq.broker.topics.table import TopicTable
from orbitmq.model.topic import TopicConfig
from orbitmq.store import FlushMode
from orbitmq.testing import FakeClock
from orbitmq.wire.command import decode_command
from orbitmq.wire.frame import FrameDecoder
from orbitmq.wire.messages.record import Record

from ..parts import HOST, FakePeer, Registries, delay_queues, memory_store, timer_service

FIELDS = {
    "a": "pg", "b": "t", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000000", "h": "0",
    "i": "TAGS\x01a\x02", "j": "0", "k": "false", "m": "false", "n": "a",
}  # fmt: skip
BODY_SIZE_MAX = 100


def frame(body: bytes = b"body", code: int = 310, opaque: int = 7, mark: int = 0, **changes: str) -> bytes:
    """Return a send's frame.

    Args:
        mark: added to the header's size, whose first byte is the serialize type.
    """
    document = {"code": code, "extFields": FIELDS | changes, "flag": 0, "language": "JAVA", "opaque": opaque}
    text = orjson.dumps(document | {"serializeTypeCurrentRPC": "JSON", "version": 479})
    return (4 + len(text) + len(body)).to_bytes(4, "big") + (len(text) + mark).to_bytes(4, "big") + text + body


class Harness:
    """A fast path over a store in memory, with one topic of three queues to write and four to read."""

    def __init__(self, flush: FlushMode = FlushMode.ASYNC, *, is_sync: bool | None = None) -> None:
        topic = TopicConfig(topic="t", read_queue_count=4, write_queue_count=3)
        registries = Registries(TopicTable([topic, TopicConfig(topic="closed", perm=4)]))
        self.store = memory_store(flush=flush)
        self.stats = BrokerStats(0)
        self.peer = FakePeer()
        clock = FakeClock()
        delays = DelayService(delay_queues(self.store, registries.topics), Path("unused"), clock, clock)
        files = ConfigFiles(Path("unused"))
        tables = SendTables(
            store=self.store,
            queue_resolver=QueueResolver(
                registries.topics,
                registries.groups,
                ip="ip",
                is_writable=True,
                random=Random(7),
                is_ordered=lambda _group: False,
            ),
            properties=StoredProperties("c", region_id="r", trace_on=True),
            answers=SendAnswers(self.store, host=HOST, region_id="r", trace_on=True),
            delays=delays,
            timers=timer_service(self.store, registries.topics, clock=clock),
            stats=self.stats,
            body_size_max=BODY_SIZE_MAX,
            is_sync=flush is FlushMode.SYNC if is_sync is None else is_sync,
            wait_ms_max=200,
            large_batches=LargeBatches(1),
            auto_creation=AutoCreation(registries.groups, registries.topics, files.topic_ticket, files.group_ticket),
        )
        self.fast_path = SendFastPath(tables)
        self.answers: list[bytes] = []

    def take(self, data: bytes) -> int:
        return self.fast_path.answer(data, self.answers, self.peer)

    def record(self, queue_id: int = 1, queue_offset: int = 0) -> Record:
        found = self.store.message_at("t", queue_id, queue_offset)
        assert found is not None
        return found


def decoded(answer: bytes) -> Any:
    (one,) = FrameDecoder().feed(answer)
    return decode_command(one)


ADDED = b"MSG_REGION\x01r\x02TRACE_ON\x01true\x02CLUSTER\x01c\x02"


def test_a_plain_send_is_stored_counted_and_answered() -> None:
    harness = Harness()
    assert harness.take(frame(e="2", opaque=123)) == len(frame(e="2", opaque=123))
    record = harness.record(2)
    assert (bytes(record.body), record.properties) == (b"body", b"TAGS\x01a\x02" + ADDED)
    assert (record.reconsume_times, record.prepared_transaction_offset) == (0, 0)
    assert (harness.stats.put_count, harness.stats.put_size) == (1, record.size)
    assert harness.peer.counters.requests[310] == 1
    answer = decoded(harness.answers[0])
    assert (answer.code, answer.opaque) == (0, 123)
    assert (answer.ext_fields["queueId"], answer.ext_fields["queueOffset"]) == ("2", "0")


@each_case(0, 1, BODY_SIZE_MAX)
def test_bodies_up_to_the_limit_are_taken(size: int) -> None:
    harness = Harness()
    assert harness.take(frame(bytes(size))) == len(frame(bytes(size)))
    assert len(harness.record().body) == size


@each_case(0, 3)
def test_every_queue_that_is_there_is_taken(queue_id: int) -> None:
    assert Harness().take(frame(e=str(queue_id))) > 0


LEFT_TO_OTHERS = {
    "a body over the limit": frame(bytes(BODY_SIZE_MAX + 1)),
    "a queue that is not there": frame(e="4"),
    "a queue that the broker chooses": frame(e="-1"),
    "a topic that is not there": frame(b="none"),
    "a topic that may not be written": frame(b="closed"),
    "another code": frame(code=320),
    "a header that is not JSON": frame(mark=1 << 24),
    "a header that goes past its frame": frame(b"", mark=1),
    "a frame that is cut off": frame()[:-1],
    "a message that asks for a time that is none": frame(i="TIMER_DELAY_MS\x01soon\x02"),
    "a half message where none are taken": frame(i="TRAN_MSG\x01true\x02PGROUP\x01p\x02", f="4"),
    "a flag of a half message alone": frame(f="4"),
}


@each_case(*LEFT_TO_OTHERS.values())
def test_what_is_not_plain_is_left_to_the_slow_path_alone_and_behind_others(data: bytes) -> None:
    harness = Harness()
    assert harness.take(data) == 0
    assert (harness.answers, harness.store.max_physical_offset, harness.stats.put_count) == ([], 0, 0)
    assert harness.take(frame() + data) == len(frame())
    assert len(harness.answers) == 1


def test_a_header_that_goes_past_its_frame_reads_nothing_of_the_next() -> None:
    assert Harness().take(frame(b"", mark=30) + frame()) == 0


def test_in_sync_flush_the_answers_of_one_read_are_held_until_its_sync_and_earlier_ones_are_not() -> None:
    harness = Harness(FlushMode.SYNC)
    harness.answers.append(b"of an earlier read")
    assert harness.take(frame(opaque=1) + frame(opaque=2)) == 2 * len(frame())
    assert harness.answers == [b"of an earlier read"]
    assert [(decoded(answer).code, decoded(answer).opaque) for answer in harness.peer.held] == [(0, 1), (0, 2)]
    assert (harness.store.durable_offset, harness.peer.pending_count) == (harness.store.max_physical_offset, 1)


def test_answers_whose_messages_need_no_wait_are_given_immediately() -> None:
    harness = Harness(FlushMode.ASYNC, is_sync=True)
    harness.take(frame(opaque=5))
    assert [(decoded(answer).code, decoded(answer).opaque) for answer in harness.peer.held] == [(0, 5)]


def test_a_read_without_a_plain_send_holds_nothing() -> None:
    harness = Harness(FlushMode.SYNC)
    assert harness.take(frame(code=320)) == 0
    assert (harness.peer.pending_count, harness.peer.held) == (0, [])
