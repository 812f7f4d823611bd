"""Deletion on request."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from orbitmq.broker.handlers.cleaning import (
    clean_expired_consume_queues,
    clean_unused_topics,
    delete_expired_commit_log,
)
from orbitmq.broker.topics.table import plain_topic
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.model.topic import SCHEDULE_TOPIC
from orbitmq.store import Draft
from orbitmq.store.local_disk import LocalDisk
from orbitmq.store.retention.retention import Retention
from orbitmq.testing.fake_disk import FakeDisk
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import (
    CleanExpiredConsumeQueues,
    CleanUnusedTopics,
    DeleteExpiredCommitLog,
    GetMaxOffset,
    GetMinOffset,
    OffsetResponse,
    PullResponse,
    SearchOffset,
    UpdateConsumerOffset,
)
from unit.broker.parts import Registries, broker_of, call, memory_store
from waiting import until

from ..parts import Serve


class Answered:
    """Notes the topics whose held pulls were answered."""

    def __init__(self) -> None:
        self.topics: list[str] = []

    def answer_topic(self, topic: str) -> None:
        self.topics.append(topic)


def broker_on(disk: FakeDisk | None = None) -> Any:
    return broker_of(Registries(), store=memory_store(disk), delivery_pulls=Answered())


def test_queues_of_topics_that_are_not_in_the_table_are_deleted_and_no_other() -> None:
    broker = broker_on()
    broker.tables.topics.update(plain_topic("kept", 1), 0)
    for topic in ("kept", "gone", "gone too", SCHEDULE_TOPIC):
        broker.store.append(Draft(topic, 0, b"x"))
    assert clean_unused_topics(broker, call(CleanUnusedTopics())).code == 0
    assert broker.store.topics() == [SCHEDULE_TOPIC, "kept"]
    assert broker.delivery.pulls.topics == ["gone", "gone too"]


def test_a_disk_that_does_not_take_the_deletion_is_told_of() -> None:
    disk = FakeDisk()
    broker = broker_on(disk)
    broker.store.append(Draft("gone", 0, b"x"))
    disk.failures["write"] = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(Rejected, match="No space left") as refused:
        clean_unused_topics(broker, call(CleanUnusedTopics()))
    assert refused.value.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert broker.store.topics() == ["gone"]


@pytest.mark.parametrize(
    ("handle", "header", "method"),
    [
        (clean_expired_consume_queues, CleanExpiredConsumeQueues(), "clean_queues_soon"),
        (delete_expired_commit_log, DeleteExpiredCommitLog(), "delete_soon"),
    ],
)
def test_a_request_begins_the_deletion(
    handle: object, header: object, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    monkeypatch.setattr(Retention, method, lambda retention: begun.append(method))
    assert handle(broker_on(), call(header)).code == 0  # type: ignore[operator]
    assert begun == [method]


async def test_who_asks_for_what_was_deleted_is_told_where_to_go_on(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = [0.1]
    monkeypatch.setattr(LocalDisk, "used_ratio", lambda disk, directory: used[0])

    async with serve(
        mapped_file_size_commit_log=65_536, clean_resource_interval=100, delete_commit_log_files_interval=0
    ) as harness:
        for topic, count in (("quiet", 3), ("t", 12)):
            for _ in range(count):
                assert (await harness.send(topic, body=b"x" * 20_000)).code == 0
        store = harness.broker.service.store
        store.flush()
        used[0] = 0.88  # the oldest files go, three messages each, all but the last one
        await until(lambda: store.retention.deleted_segments == 4, 0.01)
        for topic, first, last in (("quiet", 3, 3), ("t", 9, 12)):
            queue: dict[str, Any] = {"topic": topic, "queue_id": 0}
            assert (await harness.answer(GetMinOffset(**queue), OffsetResponse)).offset == first
            assert (await harness.answer(GetMaxOffset(**queue), OffsetResponse)).offset == last
            assert (await harness.answer(SearchOffset(**queue, timestamp_ms=0), OffsetResponse)).offset == first
            answer, records = await harness.pull(topic, queue_offset=first - 1)
            assert (answer.code, records) == (ResponseCode.PULL_OFFSET_MOVED, [])
            told = decode_header(PullResponse, answer.ext_fields)
            assert (told.next_begin_offset, told.min_offset, told.max_offset) == (first, first, last)
        _, records = await harness.pull("t", queue_offset=9)
        assert [record.queue_offset for record in records] == [9, 10, 11]
        assert (await harness.pull("quiet", queue_offset=3))[0].code == ResponseCode.PULL_NOT_FOUND


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
async def test_a_full_disk_refuses_sends_and_takes_offsets_and_goes_on_by_itself(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, flush: str
) -> None:
    used = [0.1]
    monkeypatch.setattr(LocalDisk, "used_ratio", lambda disk, directory: used[0])

    async with serve(clean_resource_interval=100, flush_disk_type=flush) as harness:
        assert (await harness.send()).code == 0
        store = harness.broker.service.store
        used[0] = 0.95
        await until(lambda: not store.is_writable, 0.01)
        refused = await harness.send()
        assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "disk is full: more than 90%" in refused.remark
        await harness.make_group()
        commit = UpdateConsumerOffset(consumer_group="g", topic="t", queue_id=0, commit_offset=1)
        assert await harness.code(commit) == 0
        harness.broker.running.offset_file.save_now()
        assert (await harness.pull())[0].code == 0
        used[0] = 0.3
        await until(lambda: store.is_writable, 0.01)
        assert (await harness.send()).code == 0
