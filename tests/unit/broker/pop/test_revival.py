"""Revival: what is not acknowledged comes again, once, to its group alone."""

from __future__ import annotations

import asyncio
import logging

import pytest

from orbitmq.errors import CorruptRecord, StoreUnavailable
from orbitmq.store import Draft
from orbitmq.wire.messages.properties import parse_properties
from orbitmq.wire.messages.record import Record
from orbitmq.wire.pop.revive_log import CheckpointKey

from .support import Harness, records


def test_what_is_unacknowledged_comes_again_when_its_time_is_over(harness: Harness) -> None:
    harness.send(b"0", b"1", b"2", tag="red")
    harness.ack(harness.pop(invisible_ms=1_000), [1])
    harness.pass_ms(999)
    harness.revive()
    assert harness.bodies() == []
    harness.pass_ms(1)
    harness.revive()
    found = records(harness.pop())
    assert [bytes(record.body) for record in found] == [b"0", b"2"]
    assert [record.reconsume_times for record in found] == [1, 1]
    properties = parse_properties(found[0].properties)
    assert (properties["TAGS"], properties["1ST_POP_TIME"]) == ("red", "1000000")
    assert harness.bodies(group="h") == [b"0", b"1", b"2"]
    assert harness.revival.retry_count == 2


def test_a_retry_that_is_not_acknowledged_comes_again_and_again(harness: Harness) -> None:
    harness.send(b"0")
    for times in range(4):
        (record,) = records(harness.pop(invisible_ms=1_000))
        assert record.reconsume_times == times
        harness.pass_ms(1_000)
        harness.revive()
    assert parse_properties(records(harness.pop())[0].properties)["1ST_POP_TIME"] == "1000000"
    assert set(harness.registries.topics.table.all) >= {"%RETRY%g_t"}


def test_retries_go_to_the_form_that_is_set() -> None:
    harness = Harness(uses_retry_v2=True)
    harness.send(b"0")
    harness.pop(invisible_ms=0)
    harness.revive()
    assert harness.registries.topics.get("%RETRY%g+t") is not None
    assert harness.registries.topics.get("%RETRY%g_t") is None
    assert harness.bodies() == [b"0"]


def test_a_crash_after_a_revival_repeats_nothing(harness: Harness) -> None:
    harness.send(b"0")
    harness.pop(invisible_ms=1_000)
    harness.pass_ms(1_000)
    harness.revive()
    retry = harness.pop()
    harness.ack(retry, [0], topic="%RETRY%g_t")
    again = harness.again()
    again.pass_ms(600_000)
    again.revive()
    assert again.bodies() == []


def test_messages_of_deleted_topics_and_groups_end(harness: Harness) -> None:
    harness.send(b"0")
    harness.send(b"1", topic="wide")
    harness.pop()
    harness.pop(topic="wide", group="h")
    harness.registries.topics.delete("t", 0, lambda: None)
    harness.registries.groups.delete("h", 0)
    harness.pass_ms(60_000)
    harness.revive()
    assert (harness.log.checkpoints.count, harness.revival.retry_count) == (0, 0)


def test_messages_that_the_log_has_no_more_end(harness: Harness) -> None:
    harness.send(b"0")
    harness.pop(invisible_ms=0)
    harness.store.delete_topic("t")
    harness.revive()
    assert (harness.log.checkpoints.count, harness.revival.retry_count) == (0, 0)


def test_a_store_that_takes_nothing_is_tried_again(harness: Harness) -> None:
    harness.send(b"0")
    harness.pop(invisible_ms=0)
    append, harness.store.append = harness.store.append, _refuse  # type: ignore[method-assign,assignment]
    with pytest.raises(StoreUnavailable):
        harness.revival.revive_due()
    assert not harness.revival.revive_due()
    harness.store.append = append  # type: ignore[method-assign]
    harness.pass_ms(1_000)
    harness.revive()
    assert harness.bodies() == [b"0"]


def _refuse(draft: Draft) -> None:
    raise StoreUnavailable("no room")


def test_properties_without_room_for_another_stay_as_they_are(harness: Harness) -> None:
    harness.store.append(Draft("t", 0, b"full", b"a\x01" + b"b" * 32_760 + b"\x02"))
    harness.pop(invisible_ms=0)
    harness.revive()
    assert harness.bodies() == [b"full"]


def test_the_service_revives_and_says_once_why_it_cannot(caplog: pytest.LogCaptureFixture, harness: Harness) -> None:
    harness.send(b"0")
    harness.pop(invisible_ms=0)
    append = harness.store.append
    tries = 0

    def refuse_thrice(draft: Draft) -> object:
        nonlocal tries
        tries += 1
        harness.pass_ms(1_000)
        if tries <= 3:
            raise StoreUnavailable("no room")
        return append(draft)

    harness.store.append = refuse_thrice  # type: ignore[method-assign,assignment]

    async def scenario() -> None:
        task = asyncio.get_running_loop().create_task(harness.revival.run())
        while harness.log.checkpoints.count:
            harness.pass_ms(1_000)
            await asyncio.sleep(0.01)
        task.cancel()

    with caplog.at_level(logging.ERROR):
        asyncio.run(scenario())
    assert caplog.text.count("reviving popped messages failed") == 1
    assert harness.bodies() == [b"0"]


def test_a_message_that_says_it_was_consumed_most_often_keeps_no_other_from_coming_again(harness: Harness) -> None:
    harness.store.append(Draft("t", 0, b"most", reconsume_times=2**31 - 1))
    harness.send(b"honest")
    harness.pop(invisible_ms=1_000)
    harness.pass_ms(1_000)
    harness.revive()
    found = records(harness.pop())
    assert [(bytes(record.body), record.reconsume_times) for record in found] == [(b"most", 2**31 - 1), (b"honest", 1)]


@pytest.mark.parametrize(
    "properties", [b"K\x01\xff\xfe\x02", b"K\x01v\x01w\x02", b"\xff", b"K\x01\xff\x02" + b"x" * 32_000]
)
def test_properties_that_are_no_text_or_hold_separators_come_again_as_they_are_and_stop_no_other(
    properties: bytes, harness: Harness
) -> None:
    harness.send(b"0")
    harness.store.append(Draft("t", 0, b"1", properties))
    harness.send(b"2")
    harness.send(b"3", topic="wide")
    harness.pop(invisible_ms=1_000)
    harness.pop(topic="wide", group="h", invisible_ms=1_000)
    harness.pass_ms(1_000)
    harness.revive()
    found = records(harness.pop())
    assert [bytes(record.body) for record in found] == [b"0", b"1", b"2"]
    assert bytes(found[1].properties).startswith(properties)  # a pop adds its handle
    assert harness.bodies(topic="wide", group="h") == [b"3"]
    assert harness.revival.retry_count == 4


def test_a_damaged_record_is_passed_over_once_and_its_neighbours_come_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, harness: Harness
) -> None:
    harness.send(b"0", b"1", b"2")
    harness.pop(invisible_ms=1_000)
    message_at = harness.store.message_at

    def damaged(topic: str, queue_id: int, queue_offset: int) -> Record | None:
        if (topic, queue_offset) == ("t", 1):
            raise CorruptRecord(77, "magic 0")
        return message_at(topic, queue_id, queue_offset)

    monkeypatch.setattr(harness.store, "message_at", damaged)
    for _ in range(3):
        harness.pass_ms(1_000)
        harness.revive()
    assert (harness.revival.retry_count, harness.revival.unreadable_count) == (2, 1)
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert "message 1 of queue 0 of t, popped by g, cannot be read" in said
    assert harness.bodies() == [b"0", b"2"]


def test_a_checkpoint_that_fails_for_any_reason_keeps_no_other_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness()
    harness.send(b"0")
    harness.send(b"1", topic="wide")
    harness.pop(invisible_ms=1_000)
    harness.pop(topic="wide", group="h", invisible_ms=1_000)
    harness.pass_ms(1_000)
    store_again = harness.revival._store_again

    def fail(key: CheckpointKey, record: Record) -> None:
        if key.topic == "t":
            raise ZeroDivisionError("a defect of ours")
        store_again(key, record)

    monkeypatch.setattr(harness.revival, "_store_again", fail)
    with pytest.raises(ZeroDivisionError):
        harness.revive()
    harness.revive()
    assert harness.bodies(topic="wide", group="h") == [b"1"]
