import threading

import pytest

from orbitmq import Decision
from orbitmq.blocking import Producer, PushConsumer, TransactionProducer
from orbitmq.errors import SendFailed
from orbitmq.model.group import ConsumeFrom
from orbitmq.model.message import Message
from orbitmq.model.route import MessageQueue
from orbitmq.wire.headers import EndTransaction, SendBatch, SendMessageV2


def test_each_way_of_sending_reaches_the_broker(served):
    served.topic("orders", count=2)
    with Producer("makers", served.name_servers) as producer:
        queue = MessageQueue("orders", "broker-a", 1)
        assert producer.queues("orders") == (MessageQueue("orders", "broker-a", 0), queue)
        assert producer.send(Message("orders", b"1"), queue=queue).queue == queue
        assert [sent.queue for sent in producer.send_batch([Message("orders", b"2")] * 2, queue=queue)] == [queue] * 2
        producer.send_oneway(Message("orders", b"3"), queue=queue)
        keyed = producer.send(Message("orders", b"4"), key="42").queue
        assert {sent.queue for sent in producer.send_batch([Message("orders", b"5")] * 2, key="42")} == {keyed}
        producer.send_oneway(Message("orders", b"6"), key="42")
    assert sorted(served.a.bodies("orders")) == [b"1", b"2", b"2", b"3", b"4", b"5", b"5", b"6"]


def test_send_all_sends_any_iterable_and_says_how_many(served):
    served.topic("orders", count=4)
    with Producer("makers", served.name_servers) as producer:
        assert producer.send_all(Message("orders", str(number).encode()) for number in range(46)) == 46
        assert len(served.a.bodies("orders")) == 46


def test_send_all_keeps_the_order_of_a_key(served):
    served.topic("orders", count=4)
    with Producer("makers", served.name_servers) as producer:
        producer.send_all((Message("orders", str(number).encode()) for number in range(100)), key=lambda _: "k")
    assert served.a.bodies("orders") == [str(number).encode() for number in range(100)]


def test_a_time_out_is_passed_on(served):
    served.topic("orders", count=1)
    served.apply(served.a.silent.update, (SendMessageV2, SendBatch))
    with Producer("makers", served.name_servers) as producer:
        with pytest.raises(SendFailed, match="within 20 ms"):
            producer.send(Message("orders", b"x"), timeout_ms=20)
        with pytest.raises(SendFailed, match="within 30 ms"):
            producer.send_batch([Message("orders", b"x")] * 2, timeout_ms=30)


def test_what_send_all_could_not_send_is_told(served):
    served.topic("orders", perm=6)
    served.call(served.a.stop())
    with Producer("makers", served.name_servers, retries=0) as producer, pytest.raises(SendFailed):
        producer.send_all([Message("orders", b"x")])


def test_a_request_gets_the_reply_of_a_consumer_that_has_no_loop_either(served):
    served.topic("questions", count=1)
    served.topic("c_REPLY_TOPIC", count=1)
    with PushConsumer("repliers", served.name_servers, consume_from=ConsumeFrom.FIRST) as consumer:
        consumer.subscribe("questions")

        def answer():
            batch = consumer.next_batch()
            assert batch is not None
            consumer.reply(batch[0], batch[0].body.upper(), properties={"a": "b"})
            batch.commit()

        answering = threading.Thread(target=answer)
        answering.start()
        with Producer("askers", served.name_servers) as producer:
            reply = producer.request(Message("questions", b"why?"), timeout_ms=20_000)
        answering.join()
    assert (reply.body, reply.properties["a"]) == (b"WHY?", "b")


def ends(served):
    return [request.commit_or_rollback for request in served.a.requests if type(request) is EndTransaction]


@pytest.mark.parametrize(
    ("act", "value"),
    [
        (lambda transaction: None, 8),
        (lambda transaction: transaction.rollback(), 12),
        (lambda transaction: transaction.decide(Decision.ROLLBACK), 12),
    ],
)
def test_the_end_of_the_block_tells_the_decision(served, act, value):
    served.topic("orders", count=1)
    with TransactionProducer("makers", served.name_servers) as producer:
        with producer.transaction(Message("orders", b"x")) as transaction:
            assert transaction.sent.queue_offset == 0
            act(transaction)
        assert ends(served) == [value]


def test_an_exception_rolls_back(served):
    served.topic("orders", count=1)
    with TransactionProducer("makers", served.name_servers) as producer:

        def fail():
            with producer.transaction(Message("orders", b"x")) as transaction:
                transaction.unknown()
                raise ValueError("mine")

        with pytest.raises(ValueError, match="mine"):
            fail()
        assert ends(served) == [12]


@pytest.mark.parametrize(("outcome", "value"), [(Decision.COMMIT, 8), (Decision.ROLLBACK, 12)])
def test_execute_runs_where_it_was_called(served, outcome, value):
    served.topic("orders", count=1)
    threads = []

    def execute(message):
        threads.append(threading.current_thread())
        return outcome

    with TransactionProducer("makers", served.name_servers) as producer:
        result = producer.send_in_transaction(Message("orders", b"x"), execute)
        assert ends(served) == [value]
    assert result.decision is outcome
    assert threads == [threading.current_thread()]


def test_an_execute_that_fails_leaves_the_transaction_open(served, caplog):
    served.topic("orders", count=1)

    def execute(message):
        raise RuntimeError("the database is down")

    with TransactionProducer("makers", served.name_servers) as producer:
        assert producer.send_in_transaction(Message("orders", b"x"), execute).decision is Decision.UNKNOWN
    assert "stays open" in caplog.text
