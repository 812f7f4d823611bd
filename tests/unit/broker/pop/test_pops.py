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

from .support import LIMITS, Rig, records


def test_no_consumer_gets_what_another_has(rig: Rig) -> None:
    rig.send(b"0", b"1", b"2")
    assert rig.bodies(count_max=2) == [b"0", b"1"]
    assert rig.bodies(count_max=2) == [b"2"]
    assert rig.bodies() == []
    assert rig.bodies(group="h") == [b"0", b"1", b"2"]


def test_an_answer_says_which_messages_it_holds_and_how_many_wait(rig: Rig) -> None:
    rig.send(b"0", b"1", b"2")
    rig.pop(count_max=1)
    popped = rig.pop(count_max=1, invisible_ms=7)
    assert popped.queues == [PoppedQueue("0", 0, 1, (1,))]
    assert (popped.count, popped.rest_count, popped.pop_time_ms) == (1, 1, rig.wall())
    assert rig.offsets.query("g", "t", 0) == 2


def test_all_queues_of_a_topic_are_popped_or_one(rig: Rig) -> None:
    for queue_id in range(4):
        rig.send(b"%d" % queue_id, topic="wide", queue_id=queue_id)
    assert rig.bodies(topic="wide", queue_id=2) == [b"2"]
    assert sorted(rig.bodies(topic="wide")) == [b"0", b"1", b"3"]


def test_a_full_answer_counts_what_waits_in_the_other_queues(rig: Rig) -> None:
    for queue_id in range(4):
        rig.send(b"x", b"x", topic="wide", queue_id=queue_id)
    popped = rig.pop(topic="wide", count_max=3)
    assert (popped.count, popped.rest_count) == (3, 5)


def test_a_new_group_begins_at_the_first_message_or_at_the_end(monkeypatch: pytest.MonkeyPatch, rig: Rig) -> None:
    rig.send(b"0", b"1", b"2")
    assert rig.bodies(init_mode=1) == [b"0", b"1", b"2"]  # a queue in memory: nothing is missed
    monkeypatch.setattr(in_memory_check, "IN_MEMORY_SIZE", 0)
    rig.send(b"other", topic="u")
    assert rig.bodies(init_mode=1, group="h") == [b"2"]  # as Java: the last one
    assert rig.bodies(init_mode=0, group="i") == [b"0", b"1", b"2"]


def test_where_a_group_begins_is_kept_before_there_are_messages(rig: Rig) -> None:
    assert rig.bodies(init_mode=1) == []
    assert rig.offsets.query("g", "t", 0) == 0
    rig.send(b"0")
    assert rig.bodies(init_mode=1) == [b"0"]


def test_tags_are_filtered_and_passed_over(rig: Rig) -> None:
    rig.send(b"0", tag="red")
    rig.send(b"1", tag="blue")
    rig.send(b"2", tag="red")
    blue = frozenset({tag_code("blue")})
    popped = rig.pop(selection=blue)
    assert popped.queues == [PoppedQueue("0", 0, 0, (1,))]
    assert rig.offsets.query("g", "t", 0) == 3
    rig.send(b"3", tag="red")
    popped = rig.pop(selection=blue)
    assert (popped.count, popped.rest_count, popped.is_cut) == (0, 0, False)
    assert rig.offsets.query("g", "t", 0) == 4
    (found,) = rig.revive_records()
    assert b'"d":[1]' in bytes(found.body)


async def test_expressions_are_looked_at_with_a_bound(rig: Rig) -> None:
    rig.send(*[b"x"] * 100, topic="wide", queue_id=0)
    rig.send(b"wanted", topic="wide", queue_id=1)
    test = PropertyTest(lambda properties: False, 100)
    popped = rig.pop(topic="wide", selection=test)
    assert popped.is_cut
    assert popped.work >= 4_096
    rig.pop(topic="wide", selection=test)
    assert rig.pops.is_busy
    await asyncio.sleep(0)
    assert not rig.pops.is_busy


def test_what_was_deleted_from_the_log_is_passed_over(rig: Rig) -> None:
    rig.send(b"0")
    rig.offsets.commit("g", "t", 0, 9, offset_max=9)
    assert rig.bodies() == []
    assert rig.offsets.query("g", "t", 0) == 1
    rig.send(b"1")
    assert rig.bodies() == [b"1"]


def test_retries_come_under_their_topic_with_their_handle(rig: Rig) -> None:
    rig.registries.topics.create_retry_topic("%RETRY%g_t", 1, 0)
    rig.registries.topics.create_retry_topic("%RETRY%g+t", 1, 0)
    rig.store.append(Draft("%RETRY%g_t", 0, b"v1", b"a\x01b", reconsume_times=1))
    rig.store.append(Draft("%RETRY%g+t", 0, b"v2", reconsume_times=2))
    rig.send(b"new")
    popped = rig.pop()
    found = {bytes(record.body): record for record in records(popped)}
    assert {record.topic for record in found.values()} == {"t"}
    assert [found[body].reconsume_times for body in (b"new", b"v1", b"v2")] == [0, 1, 2]
    properties = parse_properties(found[b"v1"].properties)
    handle = parse_handle(properties["POP_CK"])
    assert properties["a"] == "b"
    assert (handle.retry, handle.queue_id, handle.queue_offset, handle.pop_time_ms) == ("1", 0, 0, popped.pop_time_ms)
    assert {queue.retry for queue in popped.queues} == {"0", "1", "2"}
    assert parse_handle(parse_properties(found[b"v2"].properties)["POP_CK"]).retry == "2"
    assert rig.bodies() == []


def test_a_retry_without_room_for_its_handle_stays_as_it_is(rig: Rig) -> None:
    rig.registries.topics.create_retry_topic("%RETRY%g_t", 1, 0)
    rig.store.append(Draft("%RETRY%g_t", 0, b"full", b"a\x01" + b"b" * 32_760 + b"\x02"))
    (record,) = records(rig.pop())
    assert (record.topic, bytes(record.body)) == ("%RETRY%g_t", b"full")


def test_retries_come_first_as_often_as_is_set_and_last_otherwise() -> None:
    for percent, expected in ((100, b"retry"), (0, b"new")):
        rig = Rig(retries_first_percent=percent)
        rig.registries.topics.create_retry_topic("%RETRY%g_t", 1, 0)
        rig.store.append(Draft("%RETRY%g_t", 0, b"retry"))
        rig.send(b"new")
        assert rig.bodies(count_max=1) == [expected]


def test_a_group_that_has_too_many_messages_of_a_queue_gets_no_more() -> None:
    rig = Rig(limits=LIMITS._replace(in_flight_max=1))
    rig.send(b"0", b"1", b"2", b"3")
    first = rig.pop(count_max=2)
    assert rig.bodies() == []
    assert rig.pop().rest_count == 2
    assert rig.pops.over_in_flight == 2
    rig.ack(first, [0])
    assert rig.bodies() == [b"2", b"3"]


def test_an_answer_has_no_more_bytes_than_are_allowed() -> None:
    rig = Rig(limits=PopLimits(300, 1_000, None))
    rig.send(*[b"x" * 100] * 4)
    assert len(rig.bodies()) == 1
    assert len(rig.bodies()) == 1


def test_checkpoints_are_full_at_their_limit() -> None:
    rig = Rig(limits=LIMITS._replace(checkpoints_max=1))
    assert not rig.pops.is_full
    rig.send(b"0")
    rig.pop()
    assert rig.pops.is_full


def test_messages_are_there_in_the_topic_or_its_retries(rig: Rig) -> None:
    assert not rig.pops.has_messages("t", "g", -1)
    rig.send(b"0")
    assert rig.pops.has_messages("t", "g", -1)
    assert rig.pops.has_messages("t", "g", 0)
    rig.pop()
    assert not rig.pops.has_messages("t", "g", -1)
    rig.registries.topics.update(plain_topic("u", 2), 0)
    rig.registries.topics.create_retry_topic("%RETRY%g_u", 1, 0)
    rig.store.append(Draft("%RETRY%g_u", 0, b"retry"))
    assert rig.pops.has_messages("u", "g", 1)
    assert not rig.pops.has_messages("u", "h", 1)


def test_in_order_no_consumer_gets_more_of_a_queue_until_all_of_the_batch_are_acknowledged(rig: Rig) -> None:
    rig.send(b"0", b"1", b"2")
    popped = rig.pop(count_max=2, is_ordered=True)
    assert [bytes(record.body) for record in records(popped)] == [b"0", b"1"]
    assert (popped.revive_queue_id, popped.queues, popped.order_counts) == (
        999, [PoppedQueue("0", 0, 0, (0, 1))], ["0 0 0"],
    )  # fmt: skip
    assert rig.offsets.query("g", "t", 0) == 0
    blocked = rig.pop(is_ordered=True)
    assert (blocked.count, blocked.rest_count, blocked.order_counts) == (0, 0, [])
    assert rig.bodies(is_ordered=True, group="h") == [b"0", b"1", b"2"]
    place, pops = ("t", "g", 0), rig.pops
    assert not pops.acknowledge_in_order(place, 1, popped.pop_time_ms)
    assert rig.offsets.query("g", "t", 0) == 0
    assert pops.acknowledge_in_order(place, 0, popped.pop_time_ms)
    assert not pops.acknowledge_in_order(place, 1, popped.pop_time_ms)
    assert rig.offsets.query("g", "t", 0) == 2
    assert rig.bodies(is_ordered=True) == [b"2"]
    assert rig.revive_records() == []


def test_in_order_what_was_not_acknowledged_in_time_comes_again_from_its_queue(rig: Rig) -> None:
    rig.send(b"0", b"1", b"2")
    first = rig.pop(count_max=2, is_ordered=True)
    assert not rig.pops.acknowledge_in_order(("t", "g", 0), 0, first.pop_time_ms)
    assert rig.pops.blocked_until_ms("t", "g", -1) == rig.mono() + 60_000
    rig.pass_ms(60_000)
    assert rig.pops.blocked_until_ms("t", "g", -1) is None
    second = rig.pop(is_ordered=True)
    assert [bytes(record.body) for record in records(second)] == [b"1", b"2"]
    assert second.order_counts == ["0 qo0%1 1;0 0 0"]
    # The first one's acks count no more: its messages are the second one's.
    assert not rig.pops.acknowledge_in_order(("t", "g", 0), 1, first.pop_time_ms)
    assert rig.offsets.query("g", "t", 0) == 1
    rig.pass_ms(60_000)
    assert rig.pop(is_ordered=True).order_counts == ["0 qo0%1 2;0 qo0%2 1;0 0 1"]
    rig.revive()
    assert rig.registries.topics.get("%RETRY%g_t") is None


def test_in_order_the_same_attempt_gets_the_same_messages_again(rig: Rig) -> None:
    rig.send(b"0", b"1")
    assert rig.bodies(is_ordered=True, attempt_id="a", count_max=1) == [b"0"]
    assert rig.bodies(is_ordered=True, attempt_id="b") == []
    again = rig.pop(is_ordered=True, attempt_id="a", count_max=1)
    assert ([bytes(record.body) for record in records(again)], again.order_counts) == ([b"0"], ["0 0 0"])


def test_in_order_each_queue_has_a_block_of_its_own_and_retries_have_no_order(rig: Rig) -> None:
    for queue_id in range(4):
        rig.send(b"%d" % queue_id, topic="wide", queue_id=queue_id)
    rig.registries.topics.update(plain_topic("%RETRY%g_wide", 1), 0)
    rig.send(b"retry", topic="%RETRY%g_wide")
    assert rig.bodies(topic="wide", is_ordered=True, queue_id=2) == [b"2"]
    pops = rig.pops
    assert not pops.has_messages_in_order("wide", "g", 2, None)
    assert pops.has_messages_in_order("wide", "g", -1, None)
    assert sorted(rig.bodies(topic="wide", is_ordered=True)) == [b"0", b"1", b"3"]
    assert not pops.has_messages_in_order("wide", "g", -1, None)
    assert pops.has_messages("wide", "g", -1)
    assert not pops.has_messages_in_order("nowhere", "g", -1, None)


def test_in_order_a_lost_batch_skips_nothing_that_is_not_known_to_be_done(rig: Rig) -> None:
    rig.send(b"0", b"1", b"2")
    popped = rig.pop(is_ordered=True)
    rig.ordered.forget_topic("t")  # as a crash does
    place = ("t", "g", 0)
    assert not rig.pops.acknowledge_in_order(place, 2, popped.pop_time_ms)
    assert rig.offsets.query("g", "t", 0) == 0
    assert rig.pops.acknowledge_in_order(place, 0, popped.pop_time_ms)
    assert rig.bodies(is_ordered=True) == [b"1", b"2"]


def test_in_order_a_message_that_got_a_lost_ones_number_is_not_done_by_the_lost_ones_ack(rig: Rig) -> None:
    rig.send(b"0")
    popped = rig.pop(is_ordered=True)
    rig.ordered.forget_topic("t")  # as a crash does
    place = ("t", "g", 0)
    assert not rig.pops.acknowledge_in_order(place, 0, popped.pop_time_ms - 1)
    assert rig.offsets.query("g", "t", 0) == 0
    assert rig.pops.acknowledge_in_order(place, 0, popped.pop_time_ms)
    assert not rig.pops.acknowledge_in_order(place, 1, popped.pop_time_ms)  # it was not sent yet


def test_in_order_an_ack_of_what_the_batch_does_not_hold_is_refused(rig: Rig) -> None:
    rig.send(b"0", b"1")
    popped = rig.pop(is_ordered=True, count_max=1)
    with pytest.raises(Rejected, match=r"offset is illegal, key:t@g@0, old:0, commit:1") as refused:
        rig.pops.acknowledge_in_order(("t", "g", 0), 1, popped.pop_time_ms)
    assert refused.value.code == 13


def test_in_order_there_are_no_more_batches_than_may_be_out() -> None:
    rig = Rig(limits=LIMITS._replace(checkpoints_max=1))
    rig.send(b"0")
    assert rig.bodies(is_ordered=True) == [b"0"]
    assert rig.bodies(is_ordered=True, group="h") == []
    assert rig.pops.over_checkpoints == 1
    rig.pass_ms(60_000)
    assert rig.bodies(is_ordered=True, group="h") == [b"0"]


def test_in_order_tags_pass_over_what_is_not_wanted(rig: Rig) -> None:
    for tag in ("red", "blue", "red", "blue"):
        rig.send(tag.encode(), tag=tag)
    blue = frozenset({tag_code("blue")})
    popped = rig.pop(is_ordered=True, selection=blue)
    assert popped.queues == [PoppedQueue("0", 0, 0, (1, 3))]
    for offset in (1, 3):
        rig.pops.acknowledge_in_order(("t", "g", 0), offset, popped.pop_time_ms)
    assert rig.offsets.query("g", "t", 0) == 4
    rig.send(b"red", tag="red")
    assert rig.bodies(is_ordered=True, selection=blue) == []
    assert rig.offsets.query("g", "t", 0) == 5


def test_a_peek_shows_retries_as_they_are_and_takes_no_place(rig: Rig) -> None:
    rig.send(b"0", b"1")
    rig.registries.topics.update(plain_topic("%RETRY%g_t", 1), 0)
    rig.send(b"retry", topic="%RETRY%g_t")
    seen = set()
    for _ in range(60):
        peeked = rig.pops.peek("t", "g", 0, 32)
        assert (peeked.count, peeked.rest_count) == (3, 3)
        seen.add(tuple((record.topic, bytes(record.body)) for record in records(peeked)))
    own, retry = (("t", b"0"), ("t", b"1")), (("%RETRY%g_t", b"retry"),)
    assert seen == {own + retry, retry + own}
    assert rig.pops.peek("nowhere", "g", -1, 32).rest_count == 0
    assert rig.offsets.query("g", "t", 0) == -1
