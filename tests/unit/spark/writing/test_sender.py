"""Rows are sent, all of them, and a row that is not stored as promised fails the task."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pyarrow as pa
import pytest

from orbitmq.client.send.result import SendResult, SendStatus
from orbitmq.codes import ResponseCode
from orbitmq.errors import InvalidArgument, RequestTimeout, SendFailed
from orbitmq.model.route import MessageQueue
from orbitmq.net.loop import run
from orbitmq.spark.options import WriteOptions
from orbitmq.spark.writing.row_producer import FirstFailure, send_rows

QUEUE = MessageQueue("orders", "fake", 0)


def send(fake, *batches, **options):
    """Send the bodies of each batch to a topic with one queue."""
    fake.fill("orders", 0, 0)
    settings = WriteOptions(name_servers=(fake.address,), topic="orders", send_timeout_ms=5000, retries=0)
    rows = (pa.RecordBatch.from_pydict({"body": list(bodies)}) for bodies in batches)
    return run(send_rows(rows, replace(settings, **options), "query/0/0"))


def test_every_row_is_sent_and_counted(fake):
    count = send(fake, [b"a", b"b"], [b"c"], [f"{n}".encode() for n in range(600)])

    assert count == 603
    assert {topic for topic, _, _ in fake.sent} == {"orders"}
    assert [body for _, body, _ in fake.sent] == [b"a", b"b", b"c", *(f"{n}".encode() for n in range(600))]
    assert [properties["SPARK_ROW_ID"] for _, _, properties in fake.sent] == [f"query/0/0/{n}" for n in range(603)]


def test_no_rows_are_no_messages(fake):
    assert send(fake) == 0
    assert fake.sent == []


def test_messages_travel_under_the_group_of_the_options(fake):
    send(fake, [b"a"], group="billing")

    assert [header.producer_group for header in fake.asked if hasattr(header, "producer_group")] == ["billing"]


@pytest.mark.parametrize("code", [ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE])
def test_a_message_that_is_stored_without_its_whole_promise_fails_the_task(fake, code):
    fake.send_faults.append(code)

    with pytest.raises(SendFailed, match=f"fake answered {code.name}"):
        send(fake, [b"a"])


def test_a_message_that_is_refused_fails_the_task(fake):
    fake.send_faults.append(ResponseCode.MESSAGE_ILLEGAL)

    with pytest.raises(SendFailed, match=r"^a row was not sent: .*as the test wants"):
        send(fake, [b"a"])


@pytest.mark.parametrize("count", [1, 100], ids=["alone", "together"])
def test_rows_that_are_refused_when_all_were_given_are_told_of_as_rows(fake, count):
    fake.send_faults.extend([ResponseCode.MESSAGE_ILLEGAL] * count)

    with pytest.raises(SendFailed, match=r"^a row was not sent: ") as caught:
        send(fake, [b"a"] * count)
    assert "send_soon" not in str(caught.value)


@pytest.mark.parametrize("count", [1, 100], ids=["alone", "together"])
def test_a_row_whose_properties_are_too_long_is_named(fake, count):
    rows = {"body": [b"a"] * count, "tags": [*["a"] * (count - 1), "a" * 40_000]}
    options = WriteOptions(name_servers=(fake.address,), topic="orders")
    fake.fill("orders", 0, 0)

    with pytest.raises(InvalidArgument, match=rf"^properties: '400\d\d bytes'.*; row query/0/0/{count - 1}$"):
        run(send_rows(iter([pa.RecordBatch.from_pydict(rows)]), options, "query/0/0"))


def test_of_several_failures_the_first_is_told():
    async def told(*outcomes) -> None:
        failure = FirstFailure()
        for outcome in outcomes:
            future = asyncio.get_running_loop().create_future()
            if outcome is None:
                future.cancel()
            elif isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(SendResult("id-7", "", QUEUE, 0, SendStatus[outcome]))
            failure.note(future)
            future.cancelled() or future.exception()  # seen: asyncio complains about unseen ones
        failure.check()

    run(told("SEND_OK", "SEND_OK"))
    with pytest.raises(SendFailed, match="fake answered SLAVE_NOT_AVAILABLE for id-7"):
        run(told("SEND_OK", "SLAVE_NOT_AVAILABLE", RequestTimeout("too late")))
    with pytest.raises(SendFailed, match="a row was not sent: too late") as caught:
        run(told(RequestTimeout("too late"), "FLUSH_DISK_TIMEOUT", None))
    assert [type(cause) for cause in caught.value.causes] == [RequestTimeout]
    with pytest.raises(SendFailed, match="closed before an answer came"):
        run(told(None, "FLUSH_DISK_TIMEOUT"))


def test_a_refusal_that_another_attempt_may_escape_is_tried_again(fake):
    fake.send_faults.append(ResponseCode.SYSTEM_ERROR)

    assert send(fake, [b"a"], retries=1) == 1
    assert len(fake.sent) == 1


def test_a_row_that_is_no_message_fails_the_task(fake):
    with pytest.raises(InvalidArgument, match=r"body.*row query/0/0/1"):
        send(fake, [b"a", None])


def test_a_failure_ends_the_task_before_the_rows_that_follow(fake):
    fake.send_faults.append(ResponseCode.MESSAGE_ILLEGAL)
    made = []

    def batches():
        for number in range(10_000):
            made.append(number)
            yield pa.RecordBatch.from_pydict({"body": [b"x"] * 256})

    fake.fill("orders", 0, 0)
    options = WriteOptions(name_servers=(fake.address,), topic="orders", retries=0)
    with pytest.raises(SendFailed, match="as the test wants"):
        run(send_rows(batches(), options, "query/0/0"))
    assert len(made) < 10_000
