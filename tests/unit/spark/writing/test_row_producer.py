"""Rows go to queues as messages do: in order where they have a key, spread where they have none."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

import pyarrow as pa
import pytest

from orbitmq.client.send.queue_selector import choose_by_key
from orbitmq.codes import ResponseCode
from orbitmq.errors import InvalidArgument, SendFailed
from orbitmq.model.route import MessageQueue
from orbitmq.net.loop import run
from orbitmq.spark.options import WriteOptions
from orbitmq.spark.writing.row_producer import RUN_COUNT_MAX, TOGETHER_COUNT_MIN, send_rows
from orbitmq.wire.headers import SendBatch, SendMessageV2

QUEUES = tuple(MessageQueue("orders", "fake", number) for number in range(4))


def send(fake, *batches, **options):
    """Send rows to topics with four queues each; return the requests that carried them."""
    for topic in ("orders", "bills", "odd"):
        fake.fill(topic, 3, 0)
    settings = WriteOptions(name_servers=(fake.address,), topic="orders", send_timeout_ms=5000, retries=0)
    rows = (pa.RecordBatch.from_pydict(columns) for columns in batches)
    assert run(send_rows(rows, replace(settings, **options), "q")) == sum(len(columns["body"]) for columns in batches)
    return [header for header in fake.asked if isinstance(header, SendBatch | SendMessageV2)]


def bodies(count, start=0):
    return [f"{number}".encode() for number in range(start, start + count)]


def test_rows_travel_together_spread_over_all_queues(fake):
    requests = send(fake, {"body": bodies(400)})

    assert [type(header) for header in requests] == [SendBatch] * 4
    assert {header.queue_id for header in requests} == {0, 1, 2, 3}
    assert sorted(int(body) for _, body, _ in fake.sent) == list(range(400))
    assert {int(properties["SPARK_ROW_ID"][2:]) for _, _, properties in fake.sent} == set(range(400))
    assert len({properties["UNIQ_KEY"] for _, _, properties in fake.sent}) == 400


def test_a_request_has_a_limit(fake):
    requests = send(fake, {"body": bodies(5 * RUN_COUNT_MAX)})

    assert [type(header) for header in requests] == [SendBatch] * 5


def test_a_few_rows_are_messages_of_their_own(fake):
    requests = send(fake, {"body": bodies(TOGETHER_COUNT_MIN - 1)})

    assert len({header.queue_id for header in requests}) == 4
    assert len(fake.sent) == TOGETHER_COUNT_MIN - 1


def test_rows_of_one_key_are_in_its_queue_in_order_whichever_way_they_went(fake):
    keys = ["a", "b", "c", None] * 200
    sizes = [5000 if number % 100 == 50 else 0 for number in range(800)]  # these are compressed, each by itself
    columns = {"body": [str(n).encode().ljust(size, b" ") for n, size in enumerate(sizes)], "shardingKey": keys}
    requests = send(fake, columns, columns)

    assert {SendBatch, SendMessageV2} == {type(header) for header in requests}
    rows_of = defaultdict(list)
    for _, _, properties in fake.sent:
        rows_of[properties.get("__SHARDINGKEY")].append(int(properties["SPARK_ROW_ID"][2:]))
    assert sorted(rows_of.pop(None)) == list(range(3, 1600, 4))
    assert rows_of == {key: list(range(first, 1600, 4)) for first, key in enumerate("abc")}


def test_a_keys_queue_is_that_of_a_message_with_this_key(fake):
    keys = [f"{number % 50}" for number in range(500)]
    requests = send(fake, {"body": bodies(500), "shardingKey": keys})

    wanted = {choose_by_key(QUEUES, key).queue_id for key in keys}
    assert {header.queue_id for header in requests} == wanted


def test_each_topics_rows_go_to_it(fake):
    topics = ["orders", "bills", None] * 100
    send(fake, {"body": bodies(300), "topic": topics})

    assert Counter(topic for topic, _, _ in fake.sent) == {"orders": 200, "bills": 100}
    assert {int(body) % 3 for topic, body, _ in fake.sent if topic == "bills"} == {1}


def test_rows_that_may_not_travel_together_go_between_the_others(fake):
    levels = [3 if number == 100 else 0 for number in range(300)]
    requests = send(fake, {"body": bodies(300), "delayLevel": levels})

    assert [type(header) for header in requests].count(SendMessageV2) == 1
    (delayed,) = [int(body) for _, body, properties in fake.sent if "DELAY" in properties]
    assert delayed == 100


def test_a_row_goes_to_the_queue_that_it_names_in_order_whatever_its_key(fake):
    named = [{"brokerName": "fake", "queueId": number % 3} for number in range(300)]
    send(fake, {"body": bodies(300), "queue": named, "shardingKey": ["a"] * 300})

    rows_of = defaultdict(list)
    for queue_id, (_, body, _) in zip(fake.sent_queue_ids, fake.sent, strict=True):
        rows_of[queue_id].append(int(body))
    assert rows_of == {queue_id: list(range(queue_id, 300, 3)) for queue_id in range(3)}


@pytest.mark.parametrize("found", [("fake", 4), ("fake", -1), ("other", 0)])
def test_a_queue_that_the_topic_does_not_have_is_refused_with_those_it_has(fake, found):
    queue = dict(zip(("brokerName", "queueId"), found, strict=True))

    with pytest.raises(
        InvalidArgument, match=f"queue: '{found[0]}/{found[1]}'.*fake/0, fake/1, fake/2, fake/3; row q/1"
    ):
        send(fake, {"body": bodies(2), "queue": [None, queue]})


def test_rows_of_which_one_needs_a_look_of_its_own_all_get_one(fake):
    properties = pa.array(
        [[("TIMER_DELAY_SEC", "1")] if n == 7 else [] for n in range(50)], pa.map_(pa.string(), pa.string())
    )
    send(fake, {"body": bodies(50), "properties": properties})

    assert [properties["SPARK_ROW_ID"] for _, _, properties in sorted(fake.sent, key=lambda sent: int(sent[1]))] == [
        f"q/{number}" for number in range(50)
    ]


@pytest.mark.parametrize("code", [ResponseCode.MESSAGE_ILLEGAL, ResponseCode.FLUSH_DISK_TIMEOUT])
def test_rows_that_are_not_stored_as_promised_fail_the_task(fake, code):
    fake.send_faults.append(code)

    with pytest.raises(SendFailed):
        send(fake, {"body": bodies(100)})


def test_rows_wait_while_too_many_are_under_way(fake):
    send(fake, {"body": bodies(3000)}, send_outstanding=1)

    assert len(fake.sent) == 3000
