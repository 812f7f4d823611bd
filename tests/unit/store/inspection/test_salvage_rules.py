"""The verdicts on records that were set aside."""

from __future__ import annotations

import pytest

from orbitmq.store.inspection.salvage_rules import Classification, classify, draft_of
from orbitmq.wire.messages.record import Record, format_record, parse_record


def record(topic: str = "orders", queue_id: int = 1, sys_flag: int = 0, properties: bytes = b"") -> Record:
    found = parse_record(
        format_record(
            topic=topic, queue_id=queue_id, sys_flag=sys_flag, body=b"hello", properties=properties, flag=5,
            born_at_ms=7, reconsume_times=3, prepared_transaction_offset=9, queue_offset=11,
        )
    )  # fmt: skip
    assert isinstance(found, Record)
    return found


def test_a_record_is_brought_back_unless_something_speaks_against_it() -> None:
    assert classify(record()) is Classification.BRING_BACK
    assert classify(record(), is_in_log=True, is_met=True, is_brought_back=True) is Classification.IN_LOG
    assert classify(record(), is_met=True, is_brought_back=True) is Classification.TWICE
    assert classify(record(), is_brought_back=True, is_deleted=True) is Classification.BROUGHT_BACK
    assert classify(record(), is_deleted=True, has_topic=False) is Classification.DELETED
    assert classify(record(), has_topic=False) is Classification.NO_TOPIC


@pytest.mark.parametrize(
    ("sys_flag", "classification"),
    [(4, Classification.UNDECIDED), (0xC, Classification.UNDECIDED), (8, Classification.BRING_BACK)],
)
def test_only_decided_transactions_are_brought_back(sys_flag: int, classification: Classification) -> None:
    assert classify(record(sys_flag=sys_flag)) is classification


@pytest.mark.parametrize(("topic", "queue_id"), [("..", 0), ("a/b", 0), ("", 0), ("a\0", 0), ("orders", -1)])
def test_a_queue_that_no_broker_gives_is_not_made(topic: str, queue_id: int) -> None:
    assert classify(record(topic, queue_id)) is Classification.NO_QUEUE


def test_a_file_stays_for_those_that_may_be_brought_back_later() -> None:
    assert {classification for classification in Classification if classification.keeps_file} == {
        Classification.NO_TOPIC,
        Classification.DOES_NOT_FIT,
    }


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b""),
        (b"KEYS\x01k\x02", b"KEYS\x01k\x02"),
        (b"KEYS\x01k", b"KEYS\x01k\x02"),
        (b"__CRC32#\x010123456789\x02a\x01b\x02", b"a\x01b\x02"),
        (b"SALVAGED_FROM\x01x:1\x02a\x01b\x02", b"a\x01b\x02"),
    ],
)
def test_a_message_keeps_all_but_its_place_and_its_checksum(before: bytes, after: bytes) -> None:
    draft = draft_of(record(properties=before), b"file:7")
    assert draft.properties == after + b"SALVAGED_FROM\x01file:7\x02"
    assert (draft.topic, draft.queue_id, draft.body, draft.flag) == ("orders", 1, b"hello", 5)
    assert (draft.born_at_ms, draft.reconsume_times, draft.prepared_transaction_offset) == (7, 3, 9)
