"""Pull consumers and simple consumers for code without an event loop."""

import threading
from collections.abc import Sequence
from itertools import product
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, assert_type

import pytest

from cases import each_case
from orbitmq import Message, StoredMessage
from orbitmq.blocking import Batch, Producer, PullConsumer, PushConsumer, SimpleConsumer
from orbitmq.errors import ClientError, InvalidArgument
from orbitmq.model.group import ConsumeFrom
from orbitmq.model.route import MessageQueue
from orbitmq.testing import LocalCluster


def test_a_script_consumes_what_it_subscribed_to(served):
    served.topic("orders", count=2)
    served.apply(lambda: served.a.put("orders", 0, b"1", tag="A"))
    served.apply(lambda: served.a.put("orders", 0, b"2", tag="B"))
    served.apply(lambda: served.a.put("orders", 1, b"3", tag="B"))
    found = []
    with PushConsumer("takers", served.name_servers, consume_from=ConsumeFrom.FIRST) as consumer:
        consumer.subscribe("orders", tag="B")
        for batch in consumer:
            found += [message.body for message in batch]
            assert batch.commit()
            if len(found) == 2:
                break
        assert consumer.assignment == {MessageQueue("orders", "broker-a", number) for number in range(2)}
        consumer.commit_offsets()
        assert served.a.offsets["takers", "orders", 0] == 2
        consumer.unsubscribe("orders")
        while consumer.assignment:  # the time limit of tests ends one that waits for ever
            assert consumer.next_batch(timeout_ms=1) is None
    assert sorted(found) == [b"2", b"3"]


def test_a_batch_that_is_left_without_commit_comes_again(served):
    served.topic("orders", count=1)
    served.apply(served.a.put, "orders", 0, b"1")
    with PushConsumer("takers", served.name_servers, retry_delay_ms=1, ordered=True) as consumer:
        consumer.subscribe("orders")
        attempts = []
        for batch in consumer:
            attempts.append(batch.attempt)
            if batch.attempt == 2:
                assert batch.retry()
            if batch.attempt == 3:
                batch.defer()
                assert batch.commit()
                break
    assert attempts == [1, 2, 3]


def test_a_handler_for_batches_runs_on_a_thread_and_settles_what_it_likes(served):
    served.topic("orders", count=1)
    served.apply(served.a.put, "orders", 0, b"1", b"2", b"3")
    handled: SimpleQueue[tuple[bytes, int]] = SimpleQueue()

    def handle(batch):
        for message in batch:
            handled.put((message.body, threading.get_ident()))
            if message.body == b"2" and batch.attempt == 1:
                raise ValueError("not yet")
            assert batch.ack(message)

    settings: dict[str, Any] = {"consume_from": ConsumeFrom.FIRST, "retry_delay_ms": 1, "ordered": True}
    with PushConsumer("takers", served.name_servers, handler=handle, **settings) as consumer:
        consumer.subscribe("orders")
        found = [handled.get() for _ in range(4)]
        with pytest.raises(ClientError, match="handler gets its messages"):
            consumer.next_batch()
    assert [body for body, _ in found] == [b"1", b"2", b"2", b"3"]
    assert threading.get_ident() not in {thread for _, thread in found}
    assert served.a.offsets["takers", "orders", 0] == 3


def test_messages_are_handled_on_as_many_threads_as_are_allowed_and_a_keys_one_after_the_other(served):
    served.topic("orders", count=1)
    for number in range(9):
        served.apply(lambda number=number: served.a.put("orders", 0, b"%d" % number, tag="ABC"[number % 3]))
    together = threading.Barrier(3)
    by_key: dict[str, list[int]] = {"A": [], "B": [], "C": []}
    last = threading.Semaphore(0)

    def handle(message):
        together.wait()  # three are at work, of three keys, again and again
        by_key[message.tag].append(int(message.body))
        last.release()

    consumer = PushConsumer(
        "takers",
        served.name_servers,
        consume_from=ConsumeFrom.FIRST,
        message_handler=handle,
        key=lambda message: message.tag,
        concurrency=3,
    )
    consumer.subscribe("orders")
    with consumer:
        assert len(consumer.assigned()) == 1
        assert "@" in consumer.client_id
        for _ in range(9):
            last.acquire()
    assert by_key == {"A": [0, 3, 6], "B": [1, 4, 7], "C": [2, 5, 8]}
    assert served.a.offsets["takers", "orders", 0] == 9


def test_a_program_waits_for_the_end_of_its_consumer(served):
    served.topic("orders", count=1)
    served.apply(served.a.put, "orders", 0, b"1")
    consumer = PushConsumer("takers", served.name_servers, message_handler=lambda _message: closing.start())
    closing = threading.Thread(target=consumer.close)
    with pytest.raises(ClientError, match="not open"):
        consumer.run()
    consumer.open()
    with pytest.raises(ClientError, match="subscribe"):
        consumer.run()
    consumer.subscribe("orders")
    consumer.run()
    closing.join()


async def asynchronous(_messages):
    pass


@each_case(*product(["handler", "message_handler"], [asynchronous, "print"]))
def test_a_handler_that_is_no_plain_function_is_refused(name, handler):
    with pytest.raises(InvalidArgument, match=f"^{name}: "):
        PushConsumer("takers", "127.0.0.1:1", **{name: handler})


pytestmark = pytest.mark.real


def test_a_script_reads_queues_of_its_choice(served):
    served.topic("orders", count=1)
    served.apply(lambda: served.a.put("orders", 0, b"1", b"2", stored_at_ms=5))
    with PullConsumer("auditors", served.name_servers) as consumer:
        (queue,) = consumer.queues("orders")
        consumer.assign([queue])
        assert consumer.assignment == {queue}
        assert [message.body for message in consumer.poll(5_000)] == [b"1", b"2"]
        assert consumer.position(queue) == 2
        consumer.commit()
        assert consumer.committed(queue) == 2
        assert consumer.offsets([queue]) == {queue: (0, 2)}
        assert consumer.seek_to_begin(queue) == 0
        assert consumer.seek_to_end(queue) == 2
        assert consumer.seek_to_timestamp(queue, 5) == 0
        consumer.commit({queue: 1})
        assert consumer.committed(queue) == 1
        consumer.seek(queue, 1)
        assert [message.body for message in consumer.poll(5_000)] == [b"2"]


def test_a_poll_gives_no_more_than_is_asked_for_and_gives_up_in_time(served):
    served.topic("orders", count=1)
    served.apply(served.a.put, "orders", 0, b"1", b"2")
    with PullConsumer("auditors", served.name_servers) as consumer:
        consumer.assign(consumer.queues("orders"))
        assert len(consumer.poll(20_000, count_max=1)) == 1
        assert len(consumer.poll(count_max=5)) == 1
        assert consumer.poll(timeout_ms=1) == []


def test_a_script_receives_keeps_and_acknowledges():
    with LocalCluster.running() as cluster, Producer("p", cluster.name_servers) as producer:
        producer.send(Message("orders", b"x"))
        with SimpleConsumer("billing", cluster.name_servers) as consumer:
            consumer.subscribe("orders")
            (message,) = consumer.receive(timeout_ms=60_000)
            consumer.ack(consumer.change_invisible_time(message, 600_000))
            assert consumer.receive(timeout_ms=1) == []
            consumer.unsubscribe("orders")


@pytest.fixture
def batch(served):
    """A batch of two messages."""
    served.topic("orders", count=1)
    served.apply(served.a.put, "orders", 0, b"1", b"2")
    with PushConsumer("takers", served.name_servers, retry_delay_ms=1) as consumer:
        consumer.subscribe("orders")
        yield consumer.next_batch()


def test_a_batch_is_a_sequence_of_its_messages(batch):
    assert (batch.queue.topic, batch.attempt, len(batch)) == ("orders", 1, 2)
    assert [message.body for message in batch] == [b"1", b"2"]
    assert batch[1].body == b"2"
    assert [message.body for message in batch[:1]] == [b"1"]
    assert "orders" in repr(batch)


def test_a_batch_and_its_messages_have_types(batch: Batch):
    """The type checker looks at this test; the names come from the public module."""
    assert_type(batch[0], StoredMessage)
    assert_type(batch[:1], Sequence[StoredMessage])
    assert_type(next(iter(batch)), StoredMessage)
    if TYPE_CHECKING:
        assert_type(PushConsumer("takers", "127.0.0.1:1").next_batch(), Batch | None)


def test_a_batch_that_is_left_is_settled_unless_it_was_deferred(batch):
    batch.defer()
    batch.leave()
    assert batch.retry()
    batch.leave()
    assert not batch.commit()


def test_messages_are_settled_one_by_one(batch):
    assert batch.ack(batch[0])
    assert batch.unsettled == (batch[1],)
    assert not batch.commit(upto=batch[0])
    assert not batch.is_settled
    assert batch.retry(batch[1], delay_level=1)
    assert batch.is_settled
    assert not batch.reject()
    assert not batch.suspend()
