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

from .support import Rig, records


def test_what_is_unacknowledged_comes_again_when_its_time_is_over(rig: Rig) -> None:
    rig.send(b"0", b"1", b"2", tag="red")
    rig.ack(rig.pop(invisible_ms=1_000), [1])
    rig.pass_ms(999)
    rig.revive()
    assert rig.bodies() == []
    rig.pass_ms(1)
    rig.revive()
    found = records(rig.pop())
    assert [bytes(record.body) for record in found] == [b"0", b"2"]
    assert [record.reconsume_times for record in found] == [1, 1]
    properties = parse_properties(found[0].properties)
    assert (properties["TAGS"], properties["1ST_POP_TIME"]) == ("red", "1000000")
    assert rig.bodies(group="h") == [b"0", b"1", b"2"]
    assert rig.revival.retry_count == 2


def test_a_retry_that_is_not_acknowledged_comes_again_and_again(rig: Rig) -> None:
    rig.send(b"0")
    for times in range(4):
        (record,) = records(rig.pop(invisible_ms=1_000))
        assert record.reconsume_times == times
        rig.pass_ms(1_000)
        rig.revive()
    assert parse_properties(records(rig.pop())[0].properties)["1ST_POP_TIME"] == "1000000"
    assert set(rig.registries.topics.table.all) >= {"%RETRY%g_t"}


def test_retries_go_to_the_form_that_is_set() -> None:
    rig = Rig(uses_retry_v2=True)
    rig.send(b"0")
    rig.pop(invisible_ms=0)
    rig.revive()
    assert rig.registries.topics.get("%RETRY%g+t") is not None
    assert rig.registries.topics.get("%RETRY%g_t") is None
    assert rig.bodies() == [b"0"]


def test_a_crash_after_a_revival_repeats_nothing(rig: Rig) -> None:
    rig.send(b"0")
    rig.pop(invisible_ms=1_000)
    rig.pass_ms(1_000)
    rig.revive()
    retry = rig.pop()
    rig.ack(retry, [0], topic="%RETRY%g_t")
    again = rig.again()
    again.pass_ms(600_000)
    again.revive()
    assert again.bodies() == []


def test_messages_of_deleted_topics_and_groups_end(rig: Rig) -> None:
    rig.send(b"0")
    rig.send(b"1", topic="wide")
    rig.pop()
    rig.pop(topic="wide", group="h")
    rig.registries.topics.delete("t", 0, lambda: None)
    rig.registries.groups.delete("h", 0)
    rig.pass_ms(60_000)
    rig.revive()
    assert (rig.log.checkpoints.count, rig.revival.retry_count) == (0, 0)


def test_messages_that_the_log_has_no_more_end(rig: Rig) -> None:
    rig.send(b"0")
    rig.pop(invisible_ms=0)
    rig.store.delete_topic("t")
    rig.revive()
    assert (rig.log.checkpoints.count, rig.revival.retry_count) == (0, 0)


def test_a_store_that_takes_nothing_is_tried_again(rig: Rig) -> None:
    rig.send(b"0")
    rig.pop(invisible_ms=0)
    append, rig.store.append = rig.store.append, _refuse  # type: ignore[method-assign,assignment]
    with pytest.raises(StoreUnavailable):
        rig.revival.revive_due()
    assert not rig.revival.revive_due()
    rig.store.append = append  # type: ignore[method-assign]
    rig.pass_ms(1_000)
    rig.revive()
    assert rig.bodies() == [b"0"]


def _refuse(draft: Draft) -> None:
    raise StoreUnavailable("no room")


def test_properties_without_room_for_another_stay_as_they_are(rig: Rig) -> None:
    rig.store.append(Draft("t", 0, b"full", b"a\x01" + b"b" * 32_760 + b"\x02"))
    rig.pop(invisible_ms=0)
    rig.revive()
    assert rig.bodies() == [b"full"]


def test_the_service_revives_and_says_once_why_it_cannot(caplog: pytest.LogCaptureFixture, rig: Rig) -> None:
    rig.send(b"0")
    rig.pop(invisible_ms=0)
    append = rig.store.append
    tries = 0

    def refuse_thrice(draft: Draft) -> object:
        nonlocal tries
        tries += 1
        rig.pass_ms(1_000)
        if tries <= 3:
            raise StoreUnavailable("no room")
        return append(draft)

    rig.store.append = refuse_thrice  # type: ignore[method-assign,assignment]

    async def scene() -> None:
        task = asyncio.get_running_loop().create_task(rig.revival.run())
        while rig.log.checkpoints.count:
            rig.pass_ms(1_000)
            await asyncio.sleep(0.01)
        task.cancel()

    with caplog.at_level(logging.ERROR):
        asyncio.run(scene())
    assert caplog.text.count("reviving popped messages failed") == 1
    assert rig.bodies() == [b"0"]


def test_a_message_that_says_it_was_consumed_most_often_keeps_no_other_from_coming_again(rig: Rig) -> None:
    rig.store.append(Draft("t", 0, b"most", reconsume_times=2**31 - 1))
    rig.send(b"honest")
    rig.pop(invisible_ms=1_000)
    rig.pass_ms(1_000)
    rig.revive()
    found = records(rig.pop())
    assert [(bytes(record.body), record.reconsume_times) for record in found] == [(b"most", 2**31 - 1), (b"honest", 1)]


@pytest.mark.parametrize(
    "properties", [b"K\x01\xff\xfe\x02", b"K\x01v\x01w\x02", b"\xff", b"K\x01\xff\x02" + b"x" * 32_000]
)
def test_properties_that_are_no_text_or_hold_separators_come_again_as_they_are_and_stop_no_other(
    properties: bytes, rig: Rig
) -> None:
    rig.send(b"0")
    rig.store.append(Draft("t", 0, b"1", properties))
    rig.send(b"2")
    rig.send(b"3", topic="wide")
    rig.pop(invisible_ms=1_000)
    rig.pop(topic="wide", group="h", invisible_ms=1_000)
    rig.pass_ms(1_000)
    rig.revive()
    found = records(rig.pop())
    assert [bytes(record.body) for record in found] == [b"0", b"1", b"2"]
    assert bytes(found[1].properties).startswith(properties)  # a pop adds its handle
    assert rig.bodies(topic="wide", group="h") == [b"3"]
    assert rig.revival.retry_count == 4


def test_a_damaged_record_is_passed_over_once_and_its_neighbours_come_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, rig: Rig
) -> None:
    rig.send(b"0", b"1", b"2")
    rig.pop(invisible_ms=1_000)
    message_at = rig.store.message_at

    def damaged(topic: str, queue_id: int, queue_offset: int) -> Record | None:
        if (topic, queue_offset) == ("t", 1):
            raise CorruptRecord(77, "magic 0")
        return message_at(topic, queue_id, queue_offset)

    monkeypatch.setattr(rig.store, "message_at", damaged)
    for _ in range(3):
        rig.pass_ms(1_000)
        rig.revive()
    assert (rig.revival.retry_count, rig.revival.unreadable_count) == (2, 1)
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert "message 1 of queue 0 of t, popped by g, cannot be read" in said
    assert rig.bodies() == [b"0", b"2"]


def test_a_checkpoint_that_fails_for_any_reason_keeps_no_other_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    rig.send(b"0")
    rig.send(b"1", topic="wide")
    rig.pop(invisible_ms=1_000)
    rig.pop(topic="wide", group="h", invisible_ms=1_000)
    rig.pass_ms(1_000)
    store_again = rig.revival._store_again

    def fail(key: CheckpointKey, record: Record) -> None:
        if key.topic == "t":
            raise ZeroDivisionError("a defect of ours")
        store_again(key, record)

    monkeypatch.setattr(rig.revival, "_store_again", fail)
    with pytest.raises(ZeroDivisionError):
        rig.revive()
    rig.revive()
    assert rig.bodies(topic="wide", group="h") == [b"1"]
