"""The revive topic: what a crash leaves is what was written."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from orbitmq.broker.groups.offsets import GroupOffsets
from orbitmq.broker.persistence import format_offsets, parse_offsets
from orbitmq.broker.pop import revive_log
from orbitmq.errors import StoreUnavailable
from orbitmq.model.topic import DataVersion
from orbitmq.store import Draft, FlushMode, Store
from orbitmq.wire.messages.properties import parse_properties
from orbitmq.wire.pop.revive_log import REVIVE_GROUP, Ack, CheckpointKey, PopCheckpoint, encode_ack, encode_checkpoint

from ..parts import DAMAGES, damage
from .support import REVIVE_TOPIC, Harness, records


def saved(harness: Harness) -> GroupOffsets:
    """The offsets as consumerOffset.json would have them now."""
    harness.log.commit()
    harness.offsets.version = DataVersion(0, harness.wall(), 1)
    return parse_offsets(format_offsets(harness.offsets.version, harness.offsets.all))


def test_records_carry_what_a_java_broker_reads(harness: Harness) -> None:
    harness.send(b"0", b"1")
    harness.ack(harness.pop(), [0, 1])
    checkpoint, ack = harness.revive_records()
    assert parse_properties(checkpoint.properties) == {
        "TAGS": "ck", "UNIQ_KEY": "t@0@0@g@1000000@a@ck", "TIMER_DELIVER_MS": "1059000",
    }  # fmt: skip
    assert parse_properties(ack.properties) == {
        "TAGS": "bAck", "UNIQ_KEY": "t@0@-1@g@1000000@a@ack", "TIMER_DELIVER_MS": "1060000",
    }  # fmt: skip
    assert (checkpoint.topic, checkpoint.queue_id) == (ack.topic, ack.queue_id) == (REVIVE_TOPIC, ack.queue_id)


def test_requests_take_the_queues_in_turns(harness: Harness) -> None:
    harness.send(*[b"x"] * 16)
    queues = {harness.pop(count_max=1).revive_queue_id for _ in range(16)}
    assert queues == set(range(8))
    assert {record.queue_id for record in harness.revive_records()} == queues


def test_what_is_acknowledged_twice_or_never_is_written_once(harness: Harness) -> None:
    harness.send(b"0")
    popped = harness.pop()
    harness.ack(popped, [0])
    harness.ack(popped, [0])
    key = CheckpointKey("t", "h", 0, 0, 1, "a")
    assert harness.log.acknowledge(key, (0,)) is None
    assert [parse_properties(record.properties)["TAGS"] for record in harness.revive_records()] == ["ck", "ack"]


def test_an_ack_names_messages_of_its_checkpoint_alone(harness: Harness) -> None:
    harness.send(b"0", b"1")
    popped = harness.pop(count_max=1)
    harness.ack(popped, [1, 99])
    assert len(harness.revive_records()) == 1
    assert harness.log.checkpoints.count == 1


def test_after_a_crash_nothing_acknowledged_comes_again_and_all_else_does(harness: Harness) -> None:
    harness.send(b"0", b"1", b"2")
    harness.ack(harness.pop(count_max=2), [1])
    harness.pop(count_max=1)
    again = harness.again()
    assert again.bodies() == []  # what was popped is out still, though no file of offsets was ever written
    again.pass_ms(60_000)
    again.revive()
    assert sorted(again.bodies()) == [b"0", b"2"]


def test_after_a_crash_offsets_that_were_saved_stay_and_later_pops_are_made_good(harness: Harness) -> None:
    harness.send(b"0", b"1", b"2", b"3")
    harness.ack(harness.pop(count_max=1), [0])
    harness.pass_ms(1_000)
    offsets = saved(harness)
    harness.pass_ms(1_000)
    harness.ack(harness.pop(count_max=1), [1])
    again = harness.again(offsets)
    assert again.bodies() == [b"2", b"3"]


def test_offsets_that_were_set_back_before_they_were_saved_stay_back(harness: Harness) -> None:
    harness.send(b"0", b"1")
    harness.pop()
    harness.pass_ms(1_000)
    harness.offsets.commit("g", "t", 0, 0, offset_max=2)
    again = harness.again(saved(harness))
    assert again.bodies() == [b"0", b"1"]


def test_a_start_reads_on_where_the_one_before_was_done(harness: Harness) -> None:
    harness.send(*[b"x"] * 16)
    for _ in range(8):
        harness.ack(harness.pop(count_max=1), range(16))
    left = harness.pop(count_max=1)
    offsets = saved(harness)
    for queue_id in range(8):
        assert offsets.query(REVIVE_GROUP, REVIVE_TOPIC, queue_id) == 1
    again = harness.again(offsets)
    assert again.log.checkpoints.count == 1
    assert again.log.backlog()[left.revive_queue_id] == 1


def test_times_go_on_after_a_crash_and_last_no_longer_when_the_clock_was_set_back(harness: Harness) -> None:
    harness.send(b"0")
    harness.pop(invisible_ms=10_000)
    harness.pass_ms(4_000)
    assert harness.again().log.checkpoints.due_at_ms() == 5_000 + 6_000
    assert harness.again(wall_ms=0).log.checkpoints.due_at_ms() == 5_000 + 10_000
    assert harness.again(wall_ms=10**12).log.checkpoints.due_at_ms() == 5_000


def test_what_another_broker_wrote_is_followed(harness: Harness) -> None:
    harness.send(b"0", b"1")
    harness.offsets.commit("g", "t", 0, 2, offset_max=2)
    key = CheckpointKey("t", "g", 0, 0, harness.wall(), "a")
    for tag, body in (
        ("ck", encode_checkpoint(PopCheckpoint(key, (0, 1), 5_000))),
        encode_ack(Ack(key, (0,))),
        ("ck", b"no JSON"),
        ("unknown", b""),
    ):
        harness.store.append(Draft(REVIVE_TOPIC, 3, body, f"TAGS\x01{tag}\x02".encode()))
    harness.log.follow()
    found = harness.log.checkpoints.find(key)
    assert found is not None
    assert (found.offsets_left, found.due_at_ms) == ([1], 5_000 + 5_000)


def test_a_record_that_cannot_be_read_is_told_and_passed_over(
    caplog: pytest.LogCaptureFixture, harness: Harness
) -> None:
    harness.store.append(Draft(REVIVE_TOPIC, 3, b"no JSON", b"TAGS\x01ck\x02"))
    harness.send(b"0")
    harness.pop()
    with caplog.at_level(logging.WARNING):
        again = harness.again()
    assert again.log.checkpoints.count == 1
    assert "record 0 of rmq_sys_REVIVE_LOG_c queue 3 is passed over" in caplog.text


def test_what_lies_before_ours_unread_is_read_too(harness: Harness) -> None:
    harness.send(b"0", b"1")
    harness.offsets.commit("g", "t", 0, 1, offset_max=2)
    foreign = CheckpointKey("t", "g", 0, 0, 1, "a")
    for queue_id in range(8):
        harness.store.append(
            Draft(REVIVE_TOPIC, queue_id, encode_checkpoint(PopCheckpoint(foreign, (0,), 1)), b"TAGS\x01ck\x02")
        )
    popped = harness.pop()
    harness.log.follow()
    assert harness.log.checkpoints.find(foreign) is not None
    assert harness.log.checkpoints.count == 2  # eight times the same, and ours
    harness.ack(popped, [1])
    assert harness.log.checkpoints.count == 1


def test_old_checkpoints_are_written_again_so_that_starts_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revive_log, "REPLAYED_MAX", 3)
    harness = Harness()
    harness.send(*[b"x"] * 100)
    slow = harness.pop(count_max=2)
    harness.ack(slow, [1])
    for _ in range(32):
        popped = harness.pop(count_max=1)
        harness.ack(popped, popped.queues[0].offsets)
    assert harness.log.backlog()[slow.revive_queue_id] > 3
    harness.log.rewrite_old(8)
    assert harness.log.backlog()[slow.revive_queue_id] <= 3
    again = harness.again(saved(harness))
    assert again.log.checkpoints.count == 1
    again.pass_ms(60_000)
    again.revive()
    found = [record for _ in range(4) for record in records(again.pop())]
    assert [record.queue_offset for record in found if record.reconsume_times] == [0]


def test_nothing_is_noted_that_could_not_be_written(harness: Harness) -> None:
    harness.send(b"0")
    popped = harness.pop()
    harness.store.close()
    with pytest.raises(StoreUnavailable):
        harness.ack(popped, [0])
    assert harness.log.checkpoints.count == 1


def test_no_offset_is_kept_before_the_checkpoint_that_it_follows_from() -> None:
    harness = Harness(flush=FlushMode.SYNC)
    harness.send(b"0")
    harness.store.flush()
    assert harness.offsets.log_end == 0
    harness.pop()
    assert harness.offsets.log_end == harness.store.max_physical_offset > harness.store.durable_offset


def test_a_queue_is_late_when_the_time_of_its_first_checkpoint_is_over(harness: Harness) -> None:
    harness.send(b"0")
    harness.pop(invisible_ms=1_000)
    harness.pass_ms(1_000)
    assert set(harness.log.lateness_ms().values()) == {0}
    harness.pass_ms(700)
    assert sorted(harness.log.lateness_ms().values())[-2:] == [0, 700]
    harness.revive()
    assert set(harness.log.lateness_ms().values()) == {0}


@pytest.mark.parametrize(
    ("name", "queue_offset"), [(name, at) for name in DAMAGES for at in range(3) if (name, at) != ("offset 0", 0)]
)
def test_a_damaged_record_of_the_revive_topic_keeps_no_broker_from_starting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str, queue_offset: int, harness: Harness
) -> None:
    harness.send(b"0", b"1", b"2")
    popped = harness.pop(invisible_ms=1_000)
    for offset in (0, 1):
        harness.ack(popped, [offset])
    with monkeypatch.context() as patch:
        begin = revive_log.ReviveLog.__init__

        def start(log: revive_log.ReviveLog, store: Store, *arguments: Any, **options: Any) -> None:
            damage(patch, store, REVIVE_TOPIC, queue_offset, name)
            begin(log, store, *arguments, **options)

        patch.setattr(revive_log.ReviveLog, "__init__", start)
        again = harness.again()
    assert again.log.unreadable_count == 1
    assert "is damaged and passed over" in caplog.text
    again.pass_ms(1_000)
    again.revive()
    again.send(b"3")
    assert set(again.bodies()) >= ({b"2", b"3"} if queue_offset else {b"3"})
