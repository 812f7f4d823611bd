"""From the log to what is derived from it."""

from cases import each_case
from orbitmq.model.delay_levels import DELAY_LEVELS, parse_delay_levels
from orbitmq.store.dispatch import Dispatch, dispatched_of, is_queued, tag_code_of
from orbitmq.store.values import Dispatched
from orbitmq.wire.messages.properties import tag_code
from orbitmq.wire.messages.record import Record, format_record, parse_record


def message(start, size=10, topic="orders"):
    return Dispatched(topic, 0, 0, start, size, 0, 0, 0, b"")


def test_messages_wait_until_the_log_is_readable_past_their_end_upstream_8239():
    dispatch = Dispatch()
    for start in (0, 10, 20):
        dispatch.hold(message(start))
    assert list(dispatch.take_readable(9)) == []
    assert list(dispatch.take_readable(20)) == [message(0), message(10)]
    assert len(dispatch) == 1
    assert list(dispatch.take_readable(30)) == [message(20)]
    assert list(dispatch.take_readable(40)) == []


def test_a_deleted_topics_messages_are_forgotten():
    dispatch = Dispatch()
    dispatch.hold(message(0, topic="gone"))
    dispatch.hold(message(10))
    dispatch.forget("gone")
    assert list(dispatch.take_readable(100)) == [message(10)]


@each_case((0, True), (0x1, True), (0x4, False), (0x8, True), (0xC, False), (0xD, False))
def test_half_and_rolled_back_messages_have_no_place_in_a_queue(sys_flag, queued):
    assert is_queued(sys_flag) is queued


@each_case(
    ("orders", b"", 0),
    ("orders", b"TAGS\x01new\x02", tag_code("new")),
    ("orders", b"TAGS\x01\xff\x02", tag_code("\ufffd")),
    ("orders", b"DELAY\x013\x02TAGS\x01new\x02", tag_code("new")),
    ("SCHEDULE_TOPIC_XXXX", b"DELAY\x011\x02TAGS\x01new\x02", 51_000),
    ("SCHEDULE_TOPIC_XXXX", b"DELAY\x0118\x02", 50_000 + 7_200_000),
    ("SCHEDULE_TOPIC_XXXX", b"DELAY\x0199\x02", 50_000 + 7_200_000),
    ("SCHEDULE_TOPIC_XXXX", b"DELAY\x010\x02TAGS\x01new\x02", tag_code("new")),
    ("SCHEDULE_TOPIC_XXXX", b"DELAY\x01x\x02", 0),
    ("SCHEDULE_TOPIC_XXXX", b"", 0),
)
def test_the_tag_code_is_the_tags_hash_or_the_time_of_delivery(topic, properties, code):
    assert tag_code_of(topic, properties, 50_000) == code


def test_the_time_of_delivery_is_counted_by_the_levels_of_this_start():
    levels = parse_delay_levels("7s 2d")
    due = [tag_code_of("SCHEDULE_TOPIC_XXXX", b"DELAY\x01%d\x02" % level, 50_000, levels) for level in (1, 2, 18)]
    assert due == [57_000, 50_000 + 2 * 86_400_000, 50_000 + 2 * 86_400_000]


@each_case(9, 5_000)
def test_a_level_of_many_digits_is_the_highest(digits):
    assert tag_code_of("SCHEDULE_TOPIC_XXXX", b"DELAY\x01" + b"9" * digits + b"\x02", 0) == 7_200_000


def test_recovery_tells_the_same_as_the_append_did():
    record = parse_record(
        format_record(
            topic="orders",
            body=b"x",
            properties=b"TAGS\x01new\x02",
            queue_id=2,
            queue_offset=3,
            physical_offset=4,
            stored_at_ms=5,
            sys_flag=0x8,
        )
    )
    assert isinstance(record, Record)
    assert dispatched_of(record, DELAY_LEVELS) == Dispatched(
        "orders", 2, 3, 4, record.size, tag_code("new"), 5, 0x8, b"TAGS\x01new\x02"
    )
