"""Popping: no consumer gets what another has, and the offsets go on."""

from __future__ import annotations

import asyncio

import pytest

from orbitmq.broker.delivery import in_memory_check
from orbitmq.broker.pop.pops import PopLimits
from orbitmq.broker.topics.table import plain_topic
from orbitmq.errors import Rejected
from orbitmq.store import Draft, PropertyTest
from orbitmq.wire.messages.properties import parse_properties, tag_code
from orbitmq.wire.pop.handles import PoppedQueue, parse_handle

from .support import LIMITS, Harness, records


def test_no_consumer_gets_what_another_has(harness: Harness) -> None:
    harness.send(b"0", b"1", b"2")
    assert harness.bodies(count_max=2) == [b"0", b"1"]
    assert harness.bodies(count_max=2) == [b"2"]
    assert harness.bodies() == []
    assert harness.bodies(group="h") == [b"0", b"1", b"2"]


def test_an_answer_says_which_messages_it_holds_and_how_many_wait(harness: Harness) -> None:
    harness.send(b"0", b"1", b"2")
    harness.pop(count_max=1)
    popped = harness.pop(count_max=1, invisible_ms=7)
    assert popped.queues == [PoppedQueue("0", 0, 1, (1,))]
    assert (popped.count, popped.rest_count, popped.pop_time_ms) == (1, 1, harness.wall())
    assert harness.offsets.query("g", "t", 0) == 2


def test_all_queues_of_a_topic_are_popped_or_one(harness: Harness) -> None:
    for queue_id in range(4):
        harness.send(b"%d" % queue_id, topic="wide", queue_id=queue_id)
    assert harness.bodies(topic="wide", queue_id=2) == [b"2"]
    assert sorted(harness.bodies(topic="wide")) == [b"0", b"1", b"3"]


def test_a_full_answer_counts_what_waits_in_the_other_queues(harness: Harness) -> None:
    for queue_id in range(4):
        harness.send(b"x", b"x", topic="wide", queue_id=queue_id)
    popped = harness.pop(topic="wide", count_max=3)
    assert (popped.count, popped.rest_count) == (3, 5)


def test_a_new_group_begins_at_the_first_message_or_at_the_end(
    monkeypatch: pytest.MonkeyPatch, harness: Harness
) -> None:
    harness.send(b"0", b"1", b"2")
    assert harness.bodies(init_mode=1) == [b"0", b"1", b"2"]  # a queue in memory: nothing is missed
    monkeypatch.setattr(in_memory_check, "IN_MEMORY_SIZE", 0)
    harness.send(b"other", topic="u")
    assert harness.bodies(init_mode=1, group="h") == [b"2"]  # as Java: the last one
    assert harness.bodies(init_mode=0, group="i") == [b"0", b"1", b"2"]


def test_where_a_group_begins_is_kept_before_there_are_messages(harness: Harness) -> None:
    assert harness.bodies(init_mode=1) == []
    assert harness.offsets.query("g", "t", 0) == 0
    harness.send(b"0")
    assert harness.bodies(init_mode=1) == [b"0"]


def test_tags_are_filtered_and_passed_over(harness: Harness) -> None:
    harness.send(b"0", tag="red")
    harness.send(b"1", tag="blue")
    harness.send(b"2", tag="red")
    blue = frozenset({tag_code("blue")})
    popped = harness.pop(selection=blue)
    assert popped.queues == [PoppedQueue("0", 0, 0, (1,))]
    assert harness.offsets.query("g", "t", 0) == 3
    harness.send(b"3", tag="red")
    popped = harness.pop(selection=blue)
    assert (popped.count, popped.rest_count, popped.is_cut) == (0, 0, False)
    assert harness.offsets.query("g", "t", 0) == 4
    (found,) = harness.revive_records()
    assert b'"d":[1]' in bytes(found.body)


async def test_expressions_are_looked_at_with_a_bound(harness: Harness) -> None:
    harness.send(*[b"x"] * 100, topic="wide", queue_id=0)
    harness.send(b"wanted", topic="wide", queue_id=1)
    test = PropertyTest(lambda properties: False, 100)
    popped = harness.pop(topic="wide", selection=test)
    assert popped.is_cut
    assert popped.work >= 4_096
    harness.pop(topic="wide", selection=test)
    assert harness.pops.is_busy
    await asyncio.sleep(0)
    assert not harness.pops.is_busy


def test_what_was_deleted_from_the_log_is_passed_over(harness: Harness) -> None:
    harness.send(b"0")
    harness.offsets.commit("g", "t", 0, 9, offset_max=9)
    assert harness.bodies() == []
    assert harness.offsets.query("g", "t", 0) == 1
    harness.send(b"1")
    assert harness.bodies() == [b"1"]


def test_retries_come_under_their_topic_with_their_handle(harness: Harness) -> None:
    harness.registries.topics.create_retry_topic("%RETRY%g_t", 1, 0)
    harness.registries.topics.create_retry_topic("%RETRY%g+t", 1, 0)
    harness.store.append(Draft("%RETRY%g_t", 0, b"v1", b"a\x01b", reconsume_times=1))
    harness.store.append(Draft("%RETRY%g+t", 0, b"v2", reconsume_times=2))
    harness.send(b"new")
    popped = harness.pop()
    found = {bytes(record.body): record for record in records(popped)}
    assert {record.topic for record in found.values()} == {"t"}
    assert [found[body].reconsume_times for body in (b"new", b"v1", b"v2")] == [0, 1, 2]
    properties = parse_properties(found[b"v1"].properties)
    handle = parse_handle(properties["POP_CK"])
    assert properties["a"] == "b"
    assert (handle.retry, handle.queue_id, handle.queue_offset, handle.pop_time_ms) == ("1", 0, 0, popped.pop_time_ms)
    assert {queue.retry for queue in popped.queues} == {"0", "1", "2"}
    assert parse_handle(parse_properties(found[b"v2"].properties)["POP_CK"]).retry == "2"
    assert harness.bodies() == []


def test_a_retry_without_room_for_its_handle_stays_as_it_is(harness: Harness) -> None:
    harness.registries.topics.create_retry_topic("%RETRY%g_t", 1, 0)
    harness.store.append(Draft("%RETRY%g_t", 0, b"full", b"a\x01" + b"b" * 32_760 + b"\x02"))
    (record,) = records(harness.pop())
    assert (record.topic, bytes(record.body)) == ("%RETRY%g_t", b"full")


def test_retries_come_first_as_often_as_is_set_and_last_otherwise() -> None:
    for percent, expected in ((100, b"retry"), (0, b"new")):
        harness = Harness(retries_first_percent=percent)
        harness.registries.topics.create_retry_topic("%RETRY%g_t", 1, 0)
        harness.store.append(Draft("%RETRY%g_t", 0, b"retry"))
        harness.send(b"new")
        assert harness.bodies(count_max=1) == [expected]


def test_a_group_that_has_too_many_messages_of_a_queue_gets_no_more() -> None:
    harness = Harness(limits=LIMITS._replace(in_flight_max=1))
    harness.send(b"0", b"1", b"2", b"3")
    first = harness.pop(count_max=2)
    assert harness.bodies() == []
    assert harness.pop().rest_count == 2
    assert harness.pops.over_in_flight == 2
    harness.ack(first, [0])
    assert harness.bodies() == [b"2", b"3"]


def test_an_answer_has_no_more_bytes_than_are_allowed() -> None:
    harness = Harness(limits=PopLimits(300, 1_000, None))
    harness.send(*[b"x" * 100] * 4)
    assert len(harness.bodies()) == 1
    assert len(harness.bodies()) == 1


def test_checkpoints_are_full_at_their_limit() -> None:
    harness = Harness(limits=LIMITS._replace(checkpoints_max=1))
    assert not harness.pops.is_full
    harness.send(b"0")
    harness.pop()
    assert harness.pops.is_full


def test_messages_are_there_in_the_topic_or_its_retries(harness: Harness) -> None:
    assert not harness.pops.has_messages("t", "g", -1)
    harness.send(b"0")
    assert harness.pops.has_messages("t", "g", -1)
    assert harness.pops.has_messages("t", "g", 0)
    harness.pop()
    assert not harness.pops.has_messages("t", "g", -1)
    harness.registries.topics.update(plain_topic("u", 2), 0)
    harness.registries.topics.create_retry_topic("%RETRY%g_u", 1, 0)
    harness.store.append(Draft("%RETRY%g_u", 0, b"retry"))
    assert harness.pops.has_messages("u", "g", 1)
    assert not harness.pops.has_messages("u", "h", 1)


def test_in_order_no_consumer_gets_more_of_a_queue_until_all_of_the_batch_are_acknowledged(harness: Harness) -> None:
    harness.send(b"0", b"1", b"2")
    popped = harness.pop(count_max=2, is_ordered=True)
    assert [bytes(record.body) for record in records(popped)] == [b"0", b"1"]
    assert (popped.revive_queue_id, popped.queues, popped.order_counts) == (
        999, [PoppedQueue("0", 0, 0, (0, 1))], ["0 0 0"],
    )  # fmt: skip
    assert harness.offsets.query("g", "t", 0) == 0
    blocked = harness.pop(is_ordered=True)
    assert (blocked.count, blocked.rest_count, blocked.order_counts) == (0, 0, [])
    assert harness.bodies(is_ordered=True, group="h") == [b"0", b"1", b"2"]
    place, pops = ("t", "g", 0), harness.pops
    assert not pops.acknowledge_in_order(place, 1, popped.pop_time_ms)
    assert harness.offsets.query("g", "t", 0) == 0
    assert pops.acknowledge_in_order(place, 0, popped.pop_time_ms)
    assert not pops.acknowledge_in_order(place, 1, popped.pop_time_ms)
    assert harness.offsets.query("g", "t", 0) == 2
    assert harness.bodies(is_ordered=True) == [b"2"]
    assert harness.revive_records() == []


def test_in_order_what_was_not_acknowledged_in_time_comes_again_from_its_queue(harness: Harness) -> None:
    harness.send(b"0", b"1", b"2")
    first = harness.pop(count_max=2, is_ordered=True)
    assert not harness.pops.acknowledge_in_order(("t", "g", 0), 0, first.pop_time_ms)
    assert harness.pops.blocked_until_ms("t", "g", -1) == harness.mono() + 60_000
    harness.pass_ms(60_000)
    assert harness.pops.blocked_until_ms("t", "g", -1) is None
    second = harness.pop(is_ordered=True)
    assert [bytes(record.body) for record in records(second)] == [b"1", b"2"]
    assert second.order_counts == ["0 qo0%1 1;0 0 0"]
    # The first one's acks count no more: its messages are the second one's.
    assert not harness.pops.acknowledge_in_order(("t", "g", 0), 1, first.pop_time_ms)
    assert harness.offsets.query("g", "t", 0) == 1
    harness.pass_ms(60_000)
    assert harness.pop(is_ordered=True).order_counts == ["0 qo0%1 2;0 qo0%2 1;0 0 1"]
    harness.revive()
    assert harness.registries.topics.get("%RETRY%g_t") is None


def test_in_order_the_same_attempt_gets_the_same_messages_again(harness: Harness) -> None:
    harness.send(b"0", b"1")
    assert harness.bodies(is_ordered=True, attempt_id="a", count_max=1) == [b"0"]
    assert harness.bodies(is_ordered=True, attempt_id="b") == []
    again = harness.pop(is_ordered=True, attempt_id="a", count_max=1)
    assert ([bytes(record.body) for record in records(again)], again.order_counts) == ([b"0"], ["0 0 0"])


def test_in_order_each_queue_has_a_block_of_its_own_and_retries_have_no_order(harness: Harness) -> None:
    for queue_id in range(4):
        harness.send(b"%d" % queue_id, topic="wide", queue_id=queue_id)
    harness.registries.topics.update(plain_topic("%RETRY%g_wide", 1), 0)
    harness.send(b"retry", topic="%RETRY%g_wide")
    assert harness.bodies(topic="wide", is_ordered=True, queue_id=2) == [b"2"]
    pops = harness.pops
    assert not pops.has_messages_in_order("wide", "g", 2, None)
    assert pops.has_messages_in_order("wide", "g", -1, None)
    assert sorted(harness.bodies(topic="wide", is_ordered=True)) == [b"0", b"1", b"3"]
    assert not pops.has_messages_in_order("wide", "g", -1, None)
    assert pops.has_messages("wide", "g", -1)
    assert not pops.has_messages_in_order("nowhere", "g", -1, None)


def test_in_order_a_lost_batch_skips_nothing_that_is_not_known_to_be_done(harness: Harness) -> None:
    harness.send(b"0", b"1", b"2")
    popped = harness.pop(is_ordered=True)
    harness.ordered.forget_topic("t")  # as a crash does
    place = ("t", "g", 0)
    assert not harness.pops.acknowledge_in_order(place, 2, popped.pop_time_ms)
    assert harness.offsets.query("g", "t", 0) == 0
    assert harness.pops.acknowledge_in_order(place, 0, popped.pop_time_ms)
    assert harness.bodies(is_ordered=True) == [b"1", b"2"]


def test_in_order_a_message_that_got_a_lost_ones_number_is_not_done_by_the_lost_ones_ack(harness: Harness) -> None:
    harness.send(b"0")
    popped = harness.pop(is_ordered=True)
    harness.ordered.forget_topic("t")  # as a crash does
    place = ("t", "g", 0)
    assert not harness.pops.acknowledge_in_order(place, 0, popped.pop_time_ms - 1)
    assert harness.offsets.query("g", "t", 0) == 0
    assert harness.pops.acknowledge_in_order(place, 0, popped.pop_time_ms)
    assert not harness.pops.acknowledge_in_order(place, 1, popped.pop_time_ms)  # it was not sent yet


def test_in_order_an_ack_of_what_the_batch_does_not_hold_is_refused(harness: Harness) -> None:
    harness.send(b"0", b"1")
    popped = harness.pop(is_ordered=True, count_max=1)
    with pytest.raises(Rejected, match=r"offset is illegal, key:t@g@0, old:0, commit:1") as refused:
        harness.pops.acknowledge_in_order(("t", "g", 0), 1, popped.pop_time_ms)
    assert refused.value.code == 13


def test_in_order_there_are_no_more_batches_than_may_be_out() -> None:
    harness = Harness(limits=LIMITS._replace(checkpoints_max=1))
    harness.send(b"0")
    assert harness.bodies(is_ordered=True) == [b"0"]
    assert harness.bodies(is_ordered=True, group="h") == []
    assert harness.pops.over_checkpoints == 1
    harness.pass_ms(60_000)
    assert harness.bodies(is_ordered=True, group="h") == [b"0"]


def test_in_order_tags_pass_over_what_is_not_wanted(harness: Harness) -> None:
    for tag in ("red", "blue", "red", "blue"):
        harness.send(tag.encode(), tag=tag)
    blue = frozenset({tag_code("blue")})
    popped = harness.pop(is_ordered=True, selection=blue)
    assert popped.queues == [PoppedQueue("0", 0, 0, (1, 3))]
    for offset in (1, 3):
        harness.pops.acknowledge_in_order(("t", "g", 0), offset, popped.pop_time_ms)
    assert harness.offsets.query("g", "t", 0) == 4
    harness.send(b"red", tag="red")
    assert harness.bodies(is_ordered=True, selection=blue) == []
    assert harness.offsets.query("g", "t", 0) == 5


def test_a_peek_shows_retries_as_they_are_and_takes_no_place(harness: Harness) -> None:
    harness.send(b"0", b"1")
    harness.registries.topics.update(plain_topic("%RETRY%g_t", 1), 0)
    harness.send(b"retry", topic="%RETRY%g_t")
    seen = set()
    for _ in range(60):
        peeked = harness.pops.peek("t", "g", 0, 32)
        assert (peeked.count, peeked.rest_count) == (3, 3)
        seen.add(tuple((record.topic, bytes(record.body)) for record in records(peeked)))
    own, retry = (("t", b"0"), ("t", b"1")), (("%RETRY%g_t", b"retry"),)
    assert seen == {own + retry, retry + own}
    assert harness.pops.peek("nowhere", "g", -1, 32).rest_count == 0
    assert harness.offsets.query("g", "t", 0) == -1
