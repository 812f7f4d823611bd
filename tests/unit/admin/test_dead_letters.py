import pytest

from cases import each_case
from orbitmq.admin.dead_letters import DeadLetter, DeadLetterPosition, DeadLetterSelection, parse_place
from orbitmq.errors import InvalidArgument
from orbitmq.model.message import Host, Message, StoredMessage
from orbitmq.model.route import MessageQueue

QUEUE = MessageQueue("%DLQ%g", "broker-b", 1)


def letter(properties=None, **fields):
    return DeadLetter(
        StoredMessage(
            **{
                "topic": "%DLQ%g", "body": b"hard", "properties": properties or {}, "queue_id": 1, "queue_offset": 17,
                "physical_offset": 255, "store_size": 100, "store_host": Host("127.0.0.1", 10911),
                "broker_name": "broker-b", **fields,
            }
        )
    )  # fmt: skip


def test_a_place_is_written_and_read_and_has_a_next_one():
    assert str(letter().place) == "broker-b:1:17"
    assert parse_place("broker-b:1:17") == letter().place
    assert str(letter().place.next) == "broker-b:1:18"


@each_case("", "17", "broker-b:17", ":1:17", "broker-b:1:", "broker-b:1:-1", "a:1:2:3", "a:1:²")
def test_what_is_no_place_is_refused(text):
    with pytest.raises(InvalidArgument, match="broker:queue:offset"):
        parse_place(text)


@each_case(
    (DeadLetterSelection(), range(5, 20)),
    (DeadLetterSelection(offset_min=7, offset_end=9), range(7, 9)),
    (DeadLetterSelection(offset_min=1, offset_end=99), range(5, 20)),
    (DeadLetterSelection(broker_name="broker-b"), range(5, 20)),
    (DeadLetterSelection(broker_name="broker-a"), range(0)),
    (DeadLetterSelection(start=DeadLetterPosition("broker-b", 1, 8)), range(8, 20)),
    (DeadLetterSelection(start=DeadLetterPosition("broker-b", 0, 8)), range(5, 20)),
    (DeadLetterSelection(start=DeadLetterPosition("broker-a", 7, 8)), range(5, 20)),
    (DeadLetterSelection(start=DeadLetterPosition("broker-b", 2, 0)), range(0)),
    (DeadLetterSelection(start=DeadLetterPosition("broker-c", 0, 0)), range(0)),
    (DeadLetterSelection(start=DeadLetterPosition("broker-b", 1, 8), offset_min=10), range(10, 20)),
    (DeadLetterSelection(start=DeadLetterPosition("broker-b", 1, 30)), range(0)),
)
def test_a_selection_cuts_a_queue(selection, offsets):
    assert list(selection.cut(QUEUE, 5, 20)) == list(offsets)


def test_a_letter_is_known_by_its_own_id_its_origins_and_its_clients():
    found = letter({"UNIQ_KEY": "U", "ORIGIN_MESSAGE_ID": "O", "DLQ_ORIGIN_MESSAGE_ID": "D"})
    assert found.ids == {"U", "D", "7F00000100002A9F00000000000000FF"}
    assert DeadLetterSelection(ids=frozenset(("D", "x"))).takes(found)
    assert not DeadLetterSelection(ids=frozenset(("x",))).takes(found)
    assert DeadLetterSelection().takes(found)
    assert letter().ids == {"7F00000100002A9F00000000000000FF"}


@each_case(
    (
        {"DLQ_ORIGIN_TOPIC": "t", "RETRY_TOPIC": "r", "DLQ_ORIGIN_MESSAGE_ID": "D", "ORIGIN_MESSAGE_ID": "O"},
        "t",
        "D",
    ),
    ({"RETRY_TOPIC": "r", "ORIGIN_MESSAGE_ID": "O"}, "r", "O"),
    ({}, None, None),
)
def test_a_letter_tells_where_it_came_from(properties, topic, message_id):
    assert (letter(properties).origin_topic, letter(properties).origin_id) == (topic, message_id)


def test_a_letter_is_sent_again_as_it_was_once_sent():
    properties = {
        "a": "b", "TAGS": "t", "KEYS": "k1 k2", "__SHARDINGKEY": "s", "DLQ_ORIGIN_TOPIC": "orders", "RETRY_TOPIC": "orders",
        "DLQ_ORIGIN_MESSAGE_ID": "D", "ORIGIN_MESSAGE_ID": "D", "UNIQ_KEY": "U", "CLUSTER": "c", "MAX_RECONSUME_TIMES": "3",
        "RECONSUME_TIME": "3", "MSG_REGION": "r", "TRACE_ON": "true", "CONSUME_START_TIME": "1", "CORRELATION_ID": "x",
        "MIN_OFFSET": "0", "MAX_OFFSET": "9", "DELAY": "18", "TIMER_OUT_MS": "1", "1ST_POP_TIME": "1",
    }  # fmt: skip
    assert letter(properties, flag=7).again() == Message(
        "orders", b"hard", "t", ("k1", "k2"), {"a": "b", "DLQ_ORIGIN_MESSAGE_ID": "D"}, 7, sharding_key="s"
    )
    assert letter(properties).again("elsewhere").topic == "elsewhere"


def test_a_letter_that_does_not_tell_where_it_came_from_needs_a_topic():
    with pytest.raises(InvalidArgument, match=r"the dead letter broker-b:1:17.*a topic to send it to"):
        letter().again()
    assert letter().again("orders") == Message("orders", b"hard")


@each_case(
    ({"_SYS_MSG_PRIORITY_": "2"}, 2),
    ({"_SYS_MSG_PRIORITY_": "0000000000002"}, 2),
    ({"_SYS_MSG_PRIORITY_": "2", "__SHARDINGKEY": "k"}, None),
    ({"_SYS_MSG_PRIORITY_": str(2**31)}, None),
    ({"_SYS_MSG_PRIORITY_": "9" * 5_000}, None),
)
def test_whatever_a_letter_says_of_its_priority_it_can_be_sent_again(properties, priority):
    assert letter({"RETRY_TOPIC": "t", **properties}).again().priority == priority
