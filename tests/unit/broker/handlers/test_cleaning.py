"""Deletion on request."""

from __future__ import annotations

import errno

import pytest

from orbitmq.broker.handlers.cleaning import (
    CleaningTables,
    clean_expired_consume_queues,
    clean_unused_topics,
    delete_expired_commit_log,
)
from orbitmq.broker.topics.table import plain_topic
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.model.topic import SCHEDULE_TOPIC
from orbitmq.store import Draft
from orbitmq.store.retention.retention import Retention
from orbitmq.testing.fake_disk import FakeDisk
from orbitmq.wire.headers import CleanExpiredConsumeQueues, CleanUnusedTopics, DeleteExpiredCommitLog
from unit.broker.parts import Registries, call, memory_store


class Answered:
    """Notes the topics whose parked pulls were answered."""

    def __init__(self) -> None:
        self.topics: list[str] = []

    def answer_topic(self, topic: str) -> None:
        self.topics.append(topic)


def tables_of(disk: FakeDisk | None = None) -> CleaningTables:
    return CleaningTables(memory_store(disk), Registries().topics, Answered())  # type: ignore[arg-type]


def test_queues_of_topics_that_are_not_in_the_table_are_deleted_and_no_other() -> None:
    tables = tables_of()
    tables.topics.update(plain_topic("kept", 1), 0)
    for topic in ("kept", "gone", "gone too", SCHEDULE_TOPIC):
        tables.store.append(Draft(topic, 0, b"x"))
    assert clean_unused_topics(tables, call(CleanUnusedTopics())).code == 0
    assert tables.store.topics() == [SCHEDULE_TOPIC, "kept"]
    assert tables.pulls.topics == ["gone", "gone too"]  # type: ignore[attr-defined]


def test_a_disk_that_does_not_take_the_deletion_is_told_of() -> None:
    disk = FakeDisk()
    tables = tables_of(disk)
    tables.store.append(Draft("gone", 0, b"x"))
    disk.failures["write"] = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(Rejected, match="No space left") as refused:
        clean_unused_topics(tables, call(CleanUnusedTopics()))
    assert refused.value.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert tables.store.topics() == ["gone"]


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
    assert handle(tables_of(), call(header)).code == 0  # type: ignore[operator]
    assert begun == [method]
